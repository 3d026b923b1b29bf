#include "options.h"

#include <arpa/inet.h>
#include <getopt.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace {

uint64_t parse_number(const char* text, const char* option) {
  uint64_t n = 0;
  const char* end = text + std::strlen(text);
  if (text == end || std::from_chars(text, end, n).ptr != end)
    die(std::string("--") + option + ": not a number");
  return n;
}

double parse_seconds(const char* text, const char* option) {
  char* end = nullptr;
  const double s = std::strtod(text, &end);
  if (end == text || *end != '\0' || s < 0) die(std::string("--") + option + ": not a number of seconds");
  return s;
}

void parse_target(const std::string& text, Options& out) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) die("--target: not HOST:PORT");
  const uint64_t port = parse_number(text.c_str() + colon + 1, "target");
  out.host = text;
  out.target.sin_family = AF_INET;
  out.target.sin_port = htons(static_cast<uint16_t>(port));
  if (port > 65535 || inet_pton(AF_INET, text.substr(0, colon).c_str(), &out.target.sin_addr) != 1)
    die("--target: not an IPv4 address and port");
}

void parse_statuses(std::string_view text, std::vector<int>& out) {
  out.clear();
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    int status = 0;
    if (std::from_chars(text.data(), text.data() + comma, status).ptr != text.data() + comma || status < 100)
      die("--expect-status: not a list of codes");
    out.push_back(status);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (out.empty()) die("--expect-status: empty");
}

std::vector<Target> read_targets(const char* file) {
  std::ifstream in(file);
  std::vector<Target> targets;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    const size_t tab = std::min(line.find('\t'), line.size());
    targets.push_back({line.substr(0, tab), tab < line.size() ? line.substr(tab + 1) : ""});
  }
  if (targets.empty()) die(std::string("--paths: nothing in ") + file);
  return targets;
}

constexpr const char* usage =
    "bench_load --target HOST:PORT (--seconds S | --requests N | --idle-after-one)\n"
    "  --connections N       kept-alive connections, one request in flight on each (64)\n"
    "  --sources N           spread over the addresses 127.0.0.1 .. 127.0.0.N (1)\n"
    "  --warmup S            load before the figures start (0)\n"
    "  --paths FILE          request targets, one a line, taken in turn by whichever connection is free "
    "(/);\n"
    "                        after a tab a line may have a header of its own\n"
    "  --method M            (GET)\n"
    "  --header 'K: V'       a further request header; repeatable\n"
    "  --body-bytes N        a request body (0)\n"
    "  --distinct            no two requests alike, in any run: 16 digits begin the body and end the path "
    "where\n"
    "                        that ends in '='\n"
    "  --redis-set           speak to redis: SET of a distinct key to --body-bytes\n"
    "  --expect-status C,C   statuses that are no error (200)\n"
    "  --expect-bytes N      the Content-Length every answer must have\n"
    "  --gather-us N         spin this long between rounds so that answers are taken in batches (0)\n"
    "  --watch-pid PID       count this process's CPU time as the server's; repeatable\n"
    "  --idle-after-one      one request a connection, then hold all until stdin closes\n";

}  // namespace

Options parse_options(int argc, char** argv) {
  static constexpr option long_options[] = {{"target", required_argument, nullptr, 't'},
                                            {"connections", required_argument, nullptr, 'c'},
                                            {"sources", required_argument, nullptr, 'S'},
                                            {"seconds", required_argument, nullptr, 's'},
                                            {"requests", required_argument, nullptr, 'n'},
                                            {"warmup", required_argument, nullptr, 'w'},
                                            {"paths", required_argument, nullptr, 'p'},
                                            {"method", required_argument, nullptr, 'm'},
                                            {"header", required_argument, nullptr, 'H'},
                                            {"body-bytes", required_argument, nullptr, 'b'},
                                            {"expect-status", required_argument, nullptr, 'e'},
                                            {"expect-bytes", required_argument, nullptr, 'l'},
                                            {"gather-us", required_argument, nullptr, 'g'},
                                            {"watch-pid", required_argument, nullptr, 'P'},
                                            {"distinct", no_argument, nullptr, 'd'},
                                            {"redis-set", no_argument, nullptr, 'R'},
                                            {"idle-after-one", no_argument, nullptr, 'i'},
                                            {"help", no_argument, nullptr, 'h'},
                                            {nullptr, 0, nullptr, 0}};
  Options o;
  for (int c = 0; (c = getopt_long(argc, argv, "", long_options, nullptr)) != -1;) {
    switch (c) {
      case 't':
        parse_target(optarg, o);
        break;
      case 'c':
        o.connections = static_cast<uint32_t>(parse_number(optarg, "connections"));
        break;
      case 'S':
        o.sources = static_cast<uint32_t>(parse_number(optarg, "sources"));
        break;
      case 's':
        o.seconds = parse_seconds(optarg, "seconds");
        break;
      case 'n':
        o.requests = parse_number(optarg, "requests");
        break;
      case 'w':
        o.warmup = parse_seconds(optarg, "warmup");
        break;
      case 'p':
        o.targets = read_targets(optarg);
        break;
      case 'm':
        o.method = optarg;
        break;
      case 'H':
        o.headers.emplace_back(optarg);
        break;
      case 'b':
        o.body_bytes = parse_number(optarg, "body-bytes");
        break;
      case 'e':
        parse_statuses(optarg, o.statuses);
        break;
      case 'l':
        o.expect_bytes = parse_number(optarg, "expect-bytes");
        break;
      case 'P':
        o.watched.push_back(static_cast<pid_t>(parse_number(optarg, "watch-pid")));
        break;
      case 'g':
        o.gather_us = parse_number(optarg, "gather-us");
        break;
      case 'd':
        o.distinct = true;
        break;
      case 'R':
        o.redis_set = o.distinct = true;
        break;
      case 'i':
        o.idle_after_one = true;
        break;
      case 'h':
        std::fputs(usage, stdout);
        std::exit(0);
      default:
        die("see --help");
    }
  }
  if (o.target.sin_port == 0) die("--target is needed; see --help");
  if (o.connections == 0 || o.sources == 0 || o.sources > 250) die("--connections or --sources out of range");
  if (o.distinct && o.body_bytes < tag_digits) die("--distinct needs --body-bytes of at least 16");
  if (o.gather_us > 100'000) die("--gather-us: at most 100000");
  if (!o.idle_after_one && o.seconds <= 0 && o.requests == 0) die("--seconds or --requests is needed");
  return o;
}

void die(const std::string& what) {
  std::fprintf(stderr, "bench_load: %s\n", what.c_str());
  std::exit(2);
}
