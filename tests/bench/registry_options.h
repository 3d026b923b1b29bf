#pragma once
#include <netinet/in.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "registry_dialogue.h"

// What the command line of bench_registry asks for; its defaults are those of --help.
struct RegistryOptions {
  sockaddr_in target{};
  std::string mode;
  uint32_t connections = 64;
  uint32_t subscribers = 0;
  double seconds = 0;
  double warmup = 0;
  uint64_t requests = 0;
  uint64_t gather_us = 0;
  std::vector<clockid_t> watched;
  Play play;
};

// Ends the process with code 2 when the command line makes no sense.
RegistryOptions parse_registry_options(int argc, char** argv);
