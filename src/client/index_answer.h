// Parses the index's answers from JSON. Used members are checked strictly; unknown ones, which later versions
// may add, are ignored.
#pragma once

#include "client/index_client.h"
#include "codec/json_reader.h"

namespace cairn::client {

Result<Resolved> parse_resolved(const codec::JsonValue& root);
Result<Providers> parse_providers(const codec::JsonValue& root);
Result<NamedObject> parse_named(const codec::JsonValue& root);

// The name that a history is of comes with it, to be compared with the one that was asked for.
struct HistoryOf {
  std::string name;
  NameHistory history;
};
Result<HistoryOf> parse_history(const codec::JsonValue& root);
Result<NamePage> parse_names(const codec::JsonValue& root);

}  // namespace cairn::client
