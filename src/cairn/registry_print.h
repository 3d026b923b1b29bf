// Prints heads, items and the changes of a set for the registry's verbs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cairn/terminal.h"
#include "client/registry_client.h"
#include "codec/json_writer.h"

namespace cairn::cli {

// The fields of a head, inside an object that is open.
void write_head_fields(const client::RegistryHead& head, codec::JsonWriter& json);
// Data, one line: with --json an object, with -q the version alone. False when the reader has gone.
bool print_head(const Terminal& terminal, const client::RegistryHead& head);

// `node fra-1`
std::string item_title(std::string_view item);
std::string item_json(std::string_view item);

// The difference between two sets, by the names of items.
struct SetChange {
  std::vector<std::string> added, removed;                   // items
  std::vector<std::pair<std::string, std::string>> changed;  // from, to
  std::size_t kept = 0;
};
SetChange compare_sets(const std::vector<std::string>& before, const std::vector<std::string>& after);
// Talk: a line for each changed item.
void say_change(const Terminal& terminal, const SetChange& change);
// Talk: the contents that a signature over this set would approve. `before`: the head's items, where known.
void say_what_is_signed(const Terminal& terminal, const format::DescriptorSet& set, const Address& payload_b3,
                        const std::vector<std::string>* before);

}  // namespace cairn::cli
