#include "cairn/registry_print.h"

#include <fmt/format.h>

#include <map>

namespace cairn::cli {

using client::RegistryHead;

void write_head_fields(const RegistryHead& head, codec::JsonWriter& json) {
  json.field("version", head.version).field("payload_b3", format_address(head.payload_b3));
  json.field("commit_b3", format_address(head.commit_b3));
  json.field("committed_at", format_rfc3339(head.committed_at));
  if (head.superseded) json.field("superseded", true);
}

bool print_head(const Terminal& terminal, const RegistryHead& head) {
  if (terminal.json()) {
    std::string text;
    codec::JsonWriter json(text);
    json.begin_object();
    write_head_fields(head, json);
    json.end_object().finish();
    return terminal.line(text);
  }
  if (terminal.quiet()) return terminal.line(fmt::format("{}", head.version));
  return terminal.line(fmt::format("{:>6}  {}  {}{}", head.version, format_address(head.commit_b3),
                                   format_rfc3339(head.committed_at), head.superseded ? "  superseded" : ""));
}

std::string item_title(std::string_view item) {
  const format::ItemName name = format::name_of_item(as_bytes(item));
  return name.id.empty() ? std::string(name.type) : fmt::format("{} {}", name.type, name.id);
}

std::string item_json(std::string_view item) {
  std::string text;
  codec::JsonWriter json(text);
  format::write_item_json(as_bytes(item), json);
  json.finish();
  return text;
}

SetChange compare_sets(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  SetChange change;
  std::map<format::ItemName, const std::string*> old;
  for (const std::string& item : before) old.emplace(format::name_of_item(as_bytes(item)), &item);
  for (const std::string& item : after) {
    const auto at = old.find(format::name_of_item(as_bytes(item)));
    if (at == old.end()) {
      change.added.push_back(item);
      continue;
    }
    if (*at->second == item)
      ++change.kept;
    else
      change.changed.emplace_back(*at->second, item);
    old.erase(at);
  }
  for (const auto& [name, item] : old) change.removed.push_back(*item);
  return change;
}

void say_change(const Terminal& terminal, const SetChange& change) {
  for (const std::string& item : change.removed) terminal.say("  - " + printable(item_json(item)));
  for (const auto& [from, to] : change.changed) {
    terminal.say("  - " + printable(item_json(from)));
    terminal.say("  + " + printable(item_json(to)));
  }
  for (const std::string& item : change.added) terminal.say("  + " + printable(item_json(item)));
  if (change.added.empty() && change.removed.empty() && change.changed.empty())
    terminal.say("  no item differs");
  else
    terminal.say(fmt::format("  {} added, {} changed, {} removed, {} as before", change.added.size(),
                             change.changed.size(), change.removed.size(), change.kept));
}

void say_what_is_signed(const Terminal& terminal, const format::DescriptorSet& set, const Address& payload_b3,
                        const std::vector<std::string>* before) {
  terminal.say(fmt::format("version {}  {}", set.version, format_address(payload_b3)));
  if (set.expiry) terminal.say(fmt::format("  not after {}", format_rfc3339(*set.expiry)));
  if (set.supersede_of)
    terminal.say(
        fmt::format("  supersedes version {}: {}", *set.supersede_of, printable(set.reason.value_or(""))));
  if (before != nullptr) return say_change(terminal, compare_sets(*before, set.items));
  terminal.say(fmt::format("  the whole set; what it changes is not known without the registry"));
  for (const std::string& item : set.items) terminal.say("    " + printable(item_json(item)));
}

}  // namespace cairn::cli
