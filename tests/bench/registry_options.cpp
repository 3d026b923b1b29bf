#include "registry_options.h"

#include <arpa/inet.h>
#include <getopt.h>

#include <fstream>
#include <iterator>

#include "crypto/pem.h"
#include "registry_wire.h"

namespace {

std::string read_whole(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) die("cannot read " + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

void parse_target(const std::string& text, RegistryOptions& out) {
  const size_t colon = text.rfind(':');
  const int port = colon == std::string::npos ? 0 : std::atoi(text.c_str() + colon + 1);
  out.target.sin_family = AF_INET;
  out.target.sin_port = htons(static_cast<uint16_t>(port));
  out.play.host = text;
  if (port <= 0 || port > 65535 ||
      inet_pton(AF_INET, text.substr(0, colon).c_str(), &out.target.sin_addr) != 1)
    die("--target: not an IPv4 address and port");
}

// NAME=FILE
void add_signer(const std::string& text, RegistryOptions& out) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) die("--signer: not NAME=FILE");
  auto key = cairn::crypto::parse_private_pem(read_whole(text.substr(equals + 1)));
  if (!key) die("--signer: no key in " + text.substr(equals + 1));
  out.play.signers.emplace_back(text.substr(0, equals), std::move(*key));
}

constexpr const char* usage =
    "bench_registry --target HOST:PORT --mode MODE (--seconds S | --requests N)\n"
    "  --mode MODE           head, commits, proposals; etcd-range, etcd-swap, etcd-put\n"
    "  --connections N       kept-alive, one request in flight on each (64)\n"
    "  --subscribers N       followers of the registry or watchers of etcd: with modes commits and etcd-put, "
    "on one\n"
    "                        connection, how long until all of them know; --requests is the number of "
    "rounds\n"
    "  --warmup S            load before the figures start (0)\n"
    "  --gather-us N         spin this long between rounds so that answers are taken in batches (0)\n"
    "  --watch-pid PID       count this process's CPU time as the server's\n"
    "  --bearer-file FILE    the capability\n"
    "  --proposal FILE       the document; 16 '@' in it become a number that is new each time\n"
    "  --signer NAME=FILE    approves each proposal; repeatable\n"
    "  --commit-every N      proposals after which one is committed, in mode proposals (8192)\n"
    "  --value-bytes N       of an etcd value (100)\n";

}  // namespace

RegistryOptions parse_registry_options(int argc, char** argv) {
  static constexpr option long_options[] = {{"target", required_argument, nullptr, 't'},
                                            {"mode", required_argument, nullptr, 'm'},
                                            {"connections", required_argument, nullptr, 'c'},
                                            {"subscribers", required_argument, nullptr, 'S'},
                                            {"seconds", required_argument, nullptr, 's'},
                                            {"requests", required_argument, nullptr, 'n'},
                                            {"warmup", required_argument, nullptr, 'w'},
                                            {"gather-us", required_argument, nullptr, 'g'},
                                            {"watch-pid", required_argument, nullptr, 'P'},
                                            {"bearer-file", required_argument, nullptr, 'b'},
                                            {"proposal", required_argument, nullptr, 'p'},
                                            {"signer", required_argument, nullptr, 'k'},
                                            {"commit-every", required_argument, nullptr, 'e'},
                                            {"value-bytes", required_argument, nullptr, 'v'},
                                            {"help", no_argument, nullptr, 'h'},
                                            {nullptr, 0, nullptr, 0}};
  RegistryOptions o;
  const auto number = [] { return std::strtoull(optarg, nullptr, 10); };
  for (int c = 0; (c = getopt_long(argc, argv, "", long_options, nullptr)) != -1;) {
    switch (c) {
      case 't':
        parse_target(optarg, o);
        break;
      case 'm':
        o.mode = optarg;
        break;
      case 'c':
        o.connections = static_cast<uint32_t>(number());
        break;
      case 'S':
        o.subscribers = static_cast<uint32_t>(number());
        break;
      case 's':
        o.seconds = std::strtod(optarg, nullptr);
        break;
      case 'n':
        o.requests = number();
        break;
      case 'w':
        o.warmup = std::strtod(optarg, nullptr);
        break;
      case 'g':
        o.gather_us = number();
        break;
      case 'P':
        o.watched.push_back(cpu_clock_of(static_cast<pid_t>(number())));
        break;
      case 'b':
        o.play.bearer = "Bearer " + read_whole(optarg);
        break;
      case 'p':
        o.play.proposal = read_whole(optarg);
        break;
      case 'k':
        add_signer(optarg, o);
        break;
      case 'e':
        o.play.commit_every = number();
        break;
      case 'v':
        o.play.value_bytes = number();
        break;
      case 'h':
        std::fputs(usage, stdout);
        std::exit(0);
      default:
        die("see --help");
    }
  }
  while (!o.play.bearer.empty() && o.play.bearer.back() <= ' ') o.play.bearer.pop_back();
  o.play.quorum = o.play.signers.size();
  o.play.distinct = clock_ns(CLOCK_REALTIME);
  if (o.target.sin_port == 0 || !make_dialogue(o.mode)) die("--target or --mode is wrong; see --help");
  if (o.connections == 0 || (o.seconds <= 0 && o.requests == 0)) die("nothing to do; see --help");
  if (o.subscribers > 0 && o.requests == 0) die("--subscribers needs --requests");
  if ((o.mode == "commits" || o.mode == "proposals") && (o.play.signers.empty() || o.play.proposal.empty()))
    die("this mode needs --signer and --proposal");
  if (o.play.value_bytes < 24) die("--value-bytes: at least 24");
  return o;
}
