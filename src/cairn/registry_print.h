// How the registry's verbs show heads, items and what a set changes.
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
// One line of data: with --json an object, with -q the version alone. False when nobody reads any more.
bool print_head(const Terminal& terminal, const client::RegistryHead& head);

// `node fra-1`
std::string item_title(std::string_view item);
std::string item_json(std::string_view item);

// What differs between two sets, by the names of items.
struct SetChange {
  std::vector<std::string> added, removed;                   // items
  std::vector<std::pair<std::string, std::string>> changed;  // from, to
  std::size_t kept = 0;
};
SetChange compare_sets(const std::vector<std::string>& before, const std::vector<std::string>& after);
// Talk: a line for each.
void say_change(const Terminal& terminal, const SetChange& change);
// Talk: what a signature over this set would approve. `before`: the head's, where it is known.
void say_what_is_signed(const Terminal& terminal, const format::DescriptorSet& set, const Address& payload_b3,
                        const std::vector<std::string>* before);

}  // namespace cairn::cli
