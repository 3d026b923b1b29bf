// cairn: the one binary. Services join it as they are built; what is not there says so.
#include <fmt/format.h>

#include <string_view>

namespace {

constexpr std::string_view services[] = {"storage", "index", "registry", "edge", "gateway"};

int usage(std::FILE* to) {
  fmt::print(to,
             "cairn {}: self-hosted, content-addressed storage, index, registry, edge and gateway\n\n"
             "  cairn version   what this binary is\n"
             "  cairn help      this text\n\n"
             "No service is built into this version yet; `./dev up` runs the foundation's demo service.\n",
             CAIRN_VERSION);
  return to == stderr ? 64 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "version" || verb == "--version") {
    fmt::print("cairn {} ({})\n", CAIRN_VERSION, CAIRN_GIT);
    return 0;
  }
  if (verb == "help" || verb == "--help" || verb == "-h") return usage(stdout);
  if (verb.empty()) return usage(stderr);
  for (std::string_view service : services)
    if (verb == service || verb == "up") {
      fmt::print(stderr,
                 "error[not_implemented]: `cairn {}` is not built into this version\n  hint   ./dev up runs "
                 "the demo service\n",
                 verb);
      return 1;
    }
  fmt::print(stderr, "error[usage]: no verb `{}`\n  hint   cairn help\n", verb);
  return 64;
}
