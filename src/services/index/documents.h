// The documents that clients send to an index. Everything in them is a stranger's: a fault is `malformed`,
// and the reader's detail() says what is wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codec/json_reader.h"
#include "services/index/provider_set.h"

namespace cairn::index {

// Where a name is to lead.
struct Wish {
  Address manifest;
  std::string note;
};
Result<Wish> read_wish(codec::JsonReader& reader, std::string_view document);

// What nodes announce. Records that are forged, or not in force for a sensible time, are counted and left
// out.
struct Announcements {
  std::vector<SignedProvider> records;
  std::size_t forged = 0, expired = 0;
};
inline constexpr std::size_t records_most = 1000;
// Checks every signature, and so belongs on a thread of the pool.
Result<Announcements> read_announcements(codec::JsonReader& reader, std::string_view document, WallTime now);

}  // namespace cairn::index
