// Cost of one request head, whole and in pieces. Built by hand: it is not part of any target.
#include <benchmark/benchmark.h>

#include <string>

#include "http/h1/parser.h"
#include "http/path.h"
#include "http/route.h"

namespace {

using namespace cairn::http;

const std::string short_head =
    "GET /path HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n"
    "Connection: keep-alive\r\n\r\n";
const std::string object_head =
    "GET /o/b3:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef HTTP/1.1\r\n"
    "Host: storage.example.org:8080\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) cairn/1.0\r\n"
    "Accept: application/octet-stream, */*\r\nAccept-Encoding: gzip, br, zstd\r\n"
    "Range: bytes=0-65535\r\nX-Corr-ID: 01ARZ3NDEKTSV4RRFFQ69G5FAV\r\n\r\n";
const std::string browser_head =
    "GET /edge/assets/site/app.js?v=3 HTTP/1.1\r\nHost: localhost\r\n"
    "Sec-Ch-Ua: \"Chromium\";v=\"120\", \"Not?A_Brand\";v=\"8\"\r\nSec-Ch-Ua-Mobile: ?0\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 "
    "Safari/537.36\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\r\n"
    "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nUpgrade-Insecure-Requests: 1\r\n"
    "Accept-Encoding: gzip, deflate, br\r\nAccept-Language: en-US,en;q=0.9\r\nConnection: keep-alive\r\n"
    "If-None-Match: \"b3:0123456789abcdef\"\r\n\r\n";

void whole(benchmark::State& state, const std::string& text) {
  RequestParser parser;
  for (auto _ : state) {
    parser.reset();
    benchmark::DoNotOptimize(parser.parse(text));
    benchmark::DoNotOptimize(parser.head.fields.get(FieldName::range));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK_CAPTURE(whole, short_4_fields, short_head);
BENCHMARK_CAPTURE(whole, object_6_fields, object_head);
BENCHMARK_CAPTURE(whole, browser_12_fields, browser_head);

void byte_by_byte(benchmark::State& state) {
  RequestParser parser;
  for (auto _ : state) {
    parser.reset();
    for (std::size_t i = 1; i <= object_head.size(); ++i)
      benchmark::DoNotOptimize(parser.parse(std::string_view(object_head).substr(0, i)));
  }
}
BENCHMARK(byte_by_byte);

void path(benchmark::State& state, const std::string& text) {
  std::string room;
  for (auto _ : state) benchmark::DoNotOptimize(decode_path(text, room));
}
BENCHMARK_CAPTURE(path, object, "/o/b3:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
BENCHMARK_CAPTURE(path, escaped, "/edge/assets/a%20file%20of%20mine.js");

constexpr Route routes[] = {{1, Method::get | Method::head, "/o/{addr:Address}"},
                            {2, Method::put, "/o/{addr:Address}"},
                            {3, Method::get, "/o/{addr:Address}/proof"},
                            {4, Method::get, "/o"},
                            {5, Method::get, "/healthz"},
                            {6, Method::get, "/readyz"},
                            {7, Method::get, "/version"},
                            {8, Method::get, "/metrics"},
                            {9, Method::post, "/uploads"},
                            {10, Method::patch, "/uploads/{id:Id}"},
                            {11, Method::put | Method::del, "/pins/{addr:Address}"},
                            {12, Method::get, "/names/{name:Name}"},
                            {13, Method::get, "/admin/status"}};

void route(benchmark::State& state, const std::string& text) {
  RouteTable table(routes);
  for (auto _ : state) benchmark::DoNotOptimize(table.match(text, Method::get));
}
BENCHMARK_CAPTURE(route, object, "/o/b3:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
BENCHMARK_CAPTURE(route, name, "/names/site-of-mine");

}  // namespace

BENCHMARK_MAIN();
