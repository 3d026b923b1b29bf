// Names as they stand in paths, with `name:` before them or without: what is accepted has only the bytes and
// segments of a name, and means the same either way.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "format/name.h"
#include "services/index/asked.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto name = index::parse_name(text);
  const std::string with_word = "name:" + text;
  const auto prefixed = index::parse_key(with_word);
  CHECK(name.has_value() == prefixed.has_value());
  if (!name) {
    CHECK(name.error().code == ErrorCode::malformed);
    return 0;
  }
  CHECK(prefixed->name == text && !prefixed->address);
  CHECK(!text.empty() && text.size() <= format::name_size_max);
  CHECK(text.front() != '/' && text.back() != '/' && text.find("//") == text.npos);
  CHECK(("/" + text + "/").find("/../") == text.npos && ("/" + text + "/").find("/./") == text.npos);
  CHECK(std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' || c == '/';
  }));
  const auto bare = index::parse_key(text);
  CHECK(bare && bare->name == text);
  return 0;
}
