// bench_stages: what a keep-alive GET of 1 KiB costs in user space, stage by stage, in ns.
//
// The whole request runs through the real server and pipeline over a stream in memory; the stages are the
// same functions called alone. What the kernel costs is seen in `./dev bench http`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/ulid.h"
#include "config/load.h"
#include "demo/declarations.h"
#include "demo/service.h"
#include "http/h1/head_writer.h"
#include "http/h1/parser.h"
#include "http/path.h"
#include "http/route.h"
#include "io/entropy.h"
#include "serve/deadline.h"
#include "serve/node.h"

using namespace cairn;

namespace {

constexpr std::string_view request =
    "GET /mem/object-17 HTTP/1.1\r\nHost: 127.0.0.1:7499\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";

// Best of several: the others are what the machine did meanwhile.
template <class F>
double ns_per_call(std::uint64_t calls, F f) {
  double best = 1e9;
  for (int round = 0; round < 7; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < calls; ++i) f();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / static_cast<double>(calls));
  }
  return best;
}

// A client that always has one request ready and takes every answer.
class EndlessStream : public io::Stream {
 public:
  EndlessStream(Shard& shard, std::uint64_t& left) : Stream(shard), left_(left) { readable.signal(); }
  io::Io try_read(MutableByteView into) noexcept override {
    if (left_ == 0) return {io::IoStatus::eof};
    --left_;
    std::memcpy(into.data(), request.data(), request.size());
    return {io::IoStatus::done, request.size()};
  }
  io::Io try_discard(std::size_t) noexcept override { return {io::IoStatus::eof}; }
  io::Io try_writev(std::span<const iovec> parts) noexcept override {
    std::size_t size = 0;
    for (const iovec& one : parts) size += one.iov_len;
    return {io::IoStatus::done, size};
  }
  io::Io try_send_file(io::File&, std::uint64_t, std::size_t count) noexcept override {
    return {io::IoStatus::done, count};
  }
  std::uint64_t unacknowledged() const noexcept override { return 0; }
  void cork(bool) noexcept override {}
  void shutdown_send() noexcept override {}
  void close(bool) noexcept override {}
  io::PeerAddress peer() const noexcept override { return {}; }

 private:
  std::uint64_t& left_;
};

class OneListener : public io::Listener {
 public:
  OneListener(Shard& shard, std::uint64_t& left) : Listener(shard), shard_(shard), left_(left) {
    acceptable.signal();
  }
  Accepted try_accept() noexcept override {
    if (given_) {
      acceptable.clear();
      return {io::IoStatus::would_block, nullptr};
    }
    given_ = true;
    return {io::IoStatus::done, std::make_unique<EndlessStream>(shard_, left_)};
  }
  void close() noexcept override {}
  std::string local_address() const override { return "memory:0"; }

 private:
  Shard& shard_;
  std::uint64_t& left_;
  bool given_ = false;
};

struct MemoryNetwork : io::Network {
  MemoryNetwork(Shard& s, std::uint64_t& l) : shard(s), left(l) {}
  Result<std::unique_ptr<io::Listener>> listen(const io::Endpoint&) override {
    return std::make_unique<OneListener>(shard, left);
  }
  Task<Result<std::unique_ptr<io::Stream>>> connect(Call, io::Endpoint) override {
    co_return fail(ErrorCode::connection_lost, "no network");
  }
  Shard& shard;
  std::uint64_t& left;
};

struct NoDisk : io::Disk {
  static std::unexpected<Error> none() { return fail(ErrorCode::not_found, "no disk"); }
  Task<Result<std::unique_ptr<io::File>>> open(Call, std::string, io::OpenMode) override { co_return none(); }
  Task<Result<>> rename(Call, std::string, std::string) override { co_return none(); }
  Task<Result<>> unlink(Call, std::string) override { co_return none(); }
  Task<Result<>> make_directory(Call, std::string) override { co_return none(); }
  Task<Result<std::vector<std::string>>> list(Call, std::string) override { co_return none(); }
  Task<Result<>> sync_directory(Call, std::string) override { co_return none(); }
  Task<Result<io::FreeSpace>> free_space(Call, std::string) override { co_return none(); }
  Task<Result<std::uint64_t>> total_space(Call, std::string) override { co_return none(); }
};

double whole_request(const char* rate) {
  constexpr std::uint64_t requests = 200'000;
  config::Schema schema;
  const demo::Keys keys = demo::declare_keys(schema);
  config::Sources sources;
  sources.settings = {{"server.max_rps", rate}, {"safety.danger_ok", "true"}};
  auto snapshot = config::load(schema, sources);
  CHECK(snapshot.has_value());
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    Shard shard;
    ShardScope here(shard);
    Slab slab;
    std::uint64_t left = requests;
    MemoryNetwork network(shard, left);
    NoDisk disk;
    io::KernelEntropy entropy;
    Mailbox mailbox([] {});
    ThreadPool threads({});
    PoolPort pool(threads, mailbox);
    io::KernelMemory memory;
    io::Machine machine{shard, slab, network, disk, entropy, mailbox, pool, memory};
    observe::Log log({}, [] { return WallTime{}; });
    auto service = demo::make_service("");
    serve::Node node(*service, *snapshot, keys.server, log, {"0", "0", "bench"}, 1, 1, {.open = true});
    node.attach(machine);
    CHECK(node.listen(0, {}).has_value());
    node.start(0);
    node.serve();
    const auto start = std::chrono::steady_clock::now();
    while (left > 0) shard.run_one();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / static_cast<double>(requests));
    node.drain(0, shard.now() + Duration::seconds(1), [](DrainResult) {});
    while (!shard.idle()) shard.run_one();
  }
  return best;
}

template <class T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace

int main() {
  struct Row {
    const char* name;
    double ns;
  };
  std::vector<Row> rows;
  http::RequestParser parser;
  rows.push_back({"parse the head", ns_per_call(1'000'000, [&] {
                    parser.reset();
                    keep(parser.parse(request).size);
                  })});
  std::vector<http::Route> patterns;
  for (const serve::RouteSpec& spec : demo::make_service("")->routes())
    patterns.push_back({static_cast<http::RouteId>(patterns.size()), spec.methods, spec.pattern});
  const http::RouteTable table(patterns);
  std::string room;
  rows.push_back({"path and route", ns_per_call(1'000'000, [&] {
                    keep(table.match(*http::decode_path(parser.head.path(), room), http::Method::get).id);
                  })});
  Random random(1);
  char text[ulid_text_size];
  rows.push_back({"correlation id", ns_per_call(1'000'000, [&] {
                    format_ulid_to(make_ulid({1'700'000'000'000}, random.next(), random.next()), text);
                    keep(text);
                  })});
  RateLimiter rate(1'000'000'000);
  std::int64_t now = 0;
  rows.push_back({"rate", ns_per_call(1'000'000, [&] { keep(rate.try_take({now += 1000}).taken); })});
  Permits permits(100);
  rows.push_back({"in flight, taken and given", ns_per_call(1'000'000, [&] {
                    keep(permits.try_take());
                    permits.give();
                  })});
  rows.push_back({"deadline headers", ns_per_call(1'000'000, [&] {
                    keep(serve::request_deadline(parser.head.fields, {5}, {5}, Duration::seconds(5)).ns);
                  })});
  observe::Registry registry(1);
  const serve::Metrics::Route routes[] = {{"/mem/{name}"}};
  serve::Metrics metrics(registry, routes, demo::declaration);
  rows.push_back({"metrics: count, latency, gauge", ns_per_call(1'000'000, [&] {
                    metrics.inflight.at(0).add(0, 1);
                    metrics.requests.at(0, 0, serve::Metrics::status_index(200)).add(0);
                    metrics.latency.at(0, 0).observe(0, Duration::nanos(7000));
                    metrics.inflight.at(0).add(0, -1);
                  })});
  std::vector<char> out(4096);
  const std::string date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Content-Type-Options: nosniff\r\n";
  rows.push_back({"write the head", ns_per_call(1'000'000, [&] {
                    http::HeadWriter head(out);
                    head.status(200).append_lines(date).append_field(http::FieldName::x_corr_id,
                                                                     {text, sizeof text});
                    head.append_field(http::FieldName::content_type, "application/octet-stream");
                    head.append_number(http::FieldName::content_length, 1024);
                    keep(head.finish()->size());
                  })});
  const std::string kilobyte(1024, 'x');
  rows.push_back({"copy 1 KiB", ns_per_call(1'000'000, [&] {
                    std::memcpy(out.data() + 256, kilobyte.data(), 1024);
                    keep(out[300]);
                  })});
  double sum = 0;
  for (const Row& row : rows) {
    fmt::print("{:32} {:7.1f} ns\n", row.name, row.ns);
    sum += row.ns;
  }
  const double whole = whole_request("10000000");
  fmt::print("{:32} {:7.1f} ns\n", "the rest: loop, wait, buffers", whole - sum);
  fmt::print("{:32} {:7.1f} ns\n", "whole request, served", whole);
  fmt::print("{:32} {:7.1f} ns\n", "whole request, refused (429)", whole_request("1"));
  return 0;
}
