#pragma once
#include <netinet/in.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

struct Target {
  std::string path;
  std::string header;  // a further header line of its own; may be empty
};

// What the command line asks for; its defaults are those of --help.
struct Options {
  sockaddr_in target{};
  std::string host;
  uint32_t connections = 64;
  uint32_t sources = 1;
  double seconds = 0;
  uint64_t requests = 0;
  double warmup = 0;
  std::string method = "GET";
  std::vector<Target> targets{{"/", ""}};
  std::vector<std::string> headers;
  uint64_t body_bytes = 0;
  std::vector<int> statuses{200};
  std::optional<uint64_t> expect_bytes;
  std::vector<pid_t> watched;
  uint64_t gather_us = 0;
  bool distinct = false;
  bool redis_set = false;
  bool idle_after_one = false;
};

constexpr size_t tag_digits = 16;  // what makes a request distinct, in hexadecimal

// Ends the process with code 2 when the command line makes no sense.
Options parse_options(int argc, char** argv);

[[noreturn]] void die(const std::string& what);
