// Arbitrary text as a configuration file: it is refused with problems of one line each, or accepted, and then
// the written configuration loads to the same values.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "config/load.h"
#include "config/print.h"
#include "config/server_keys.h"

namespace {

using namespace cairn;
using namespace cairn::config;

struct Service {
  Schema schema;
  Service() {
    declare_server_keys(schema, {.bind = "127.0.0.1:7400"});
    schema.add<Rate>({.name = "scrub.rate", .default_value = "20MiB/s", .doc = "A rate."});
    schema.add<std::vector<std::string>>({.name = "names", .default_value = "a,b", .doc = "A list."});
    schema.add<std::string>({.name = "label", .default_value = "", .doc = "Any text."});
  }
};

Sources file(std::string text) {
  Sources sources;
  sources.file = File{"fuzz.toml", std::move(text)};
  return sources;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Service service;
  const std::string text(reinterpret_cast<const char*>(data), size);

  const auto loaded = load(service.schema, file(text));
  if (!loaded) {
    CHECK(!loaded.error().empty());
    for (const Problem& problem : loaded.error())
      CHECK(format_problem(problem).find('\n') == std::string::npos);
    return 0;
  }
  show_text(**loaded);
  show_json(**loaded);
  const auto again = load(service.schema, file(write_toml(**loaded)));
  CHECK(again.has_value());
  for (std::size_t i = 0; i < service.schema.entries().size(); ++i)
    CHECK((*loaded)->at(i).value == (*again)->at(i).value);
  return 0;
}
