#include "config/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "config/load.h"

namespace cairn::config {
namespace {

std::string_view name_of(Reload reload) { return reload == Reload::live ? "live" : "restart"; }

std::string_view name_of(Type type) {
  constexpr std::array<std::string_view, 9> names{"boolean", "integer", "duration", "size",  "rate",
                                                  "number",  "text",    "list",     "choice"};
  return names[static_cast<std::size_t>(type)];
}

std::string shown_value(const Entry& entry, const Value& value) {
  return entry.spec.secret ? quote(redacted) : format_toml(value, entry.spec.choices);
}

// `integer, between 1 and 64`
std::string describe_type(const Entry& entry) {
  if (entry.type == Type::choice) return fmt::format("{}", fmt::join(entry.spec.choices, " or "));
  std::string text(name_of(entry.type));
  constexpr std::string_view must_be = "must be ";
  if (const std::string range = describe_range(entry); !range.empty())
    text += ", " + range.substr(must_be.size());
  if (entry.spec.check) text += ", " + entry.spec.check->text;
  return text;
}

std::string describe_danger(const Schema& schema, const Entry& entry) {
  if (!entry.danger_above || !schema.danger_key()) return {};
  return fmt::format(" Above {} needs {}.", format_value(*entry.danger_above, entry.spec.choices),
                     schema.entries()[*schema.danger_key()].spec.name);
}

std::string describe_other(const OtherName& other) {
  switch (other.unit) {
    case Unit::seconds:
      return other.name + " (seconds)";
    case Unit::millis:
      return other.name + " (milliseconds)";
    case Unit::same:
      break;
  }
  return other.name;
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

template <class F>
void each_built(const Snapshot& snapshot, F use) {
  const auto entries = snapshot.schema().entries();
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (entries[i].spec.built) use(entries[i], snapshot.at(i));
}

}  // namespace

std::string show_text(const Snapshot& snapshot, std::string_view prefix) {
  std::size_t width = 0;
  const auto line = [&](const Entry& entry, const Snapshot::Held& held) {
    return fmt::format("{} = {}", full_name(prefix, entry.spec.name), shown_value(entry, held.value));
  };
  constexpr std::size_t widest = 60;
  each_built(snapshot, [&](const Entry& entry, const Snapshot::Held& held) {
    width = std::max(width, std::min(line(entry, held).size(), widest));
  });
  std::string out;
  each_built(snapshot, [&](const Entry& entry, const Snapshot::Held& held) {
    fmt::format_to(std::back_inserter(out), "{:<{}}  # {}\n", line(entry, held), width, held.origin.text);
  });
  return out;
}

std::string show_json(const Snapshot& snapshot, std::string_view prefix) {
  std::string out;
  each_built(snapshot, [&](const Entry& entry, const Snapshot::Held& held) {
    const std::string value =
        entry.spec.secret ? quote(redacted) : format_json(held.value, entry.spec.choices);
    fmt::format_to(std::back_inserter(out),
                   R"({{"key":{},"value":{},"origin":{},"reload":"{}"}})"
                   "\n",
                   quote(full_name(prefix, entry.spec.name)), value, quote(held.origin.text),
                   name_of(entry.spec.reload));
  });
  return out;
}

std::string write_toml(const Snapshot& snapshot, std::string_view prefix) {
  std::string out;
  each_built(snapshot, [&](const Entry& entry, const Snapshot::Held& held) {
    out += fmt::format("{} = {}\n", full_name(prefix, entry.spec.name),
                       format_toml(held.value, entry.spec.choices));
  });
  return out;
}

std::string help_text(const Schema& schema, std::string_view prefix) {
  std::string out;
  for (const Entry& entry : schema.entries()) {
    const KeySpec& spec = entry.spec;
    fmt::format_to(std::back_inserter(out), "  {}  ({}; default {}; {})\n      {}{}{}\n",
                   full_name(prefix, spec.name), describe_type(entry),
                   shown_value(entry, entry.default_value), name_of(spec.reload), spec.doc,
                   describe_danger(schema, entry), spec.built ? "" : " Not built yet.");
  }
  return out;
}

std::string docs_markdown(const Schema& schema, std::string_view service) {
  std::string out = fmt::format(
      "# Configuration of {}\n\n"
      "Generated from the declarations by `cairn config docs`. Flag > environment > file > default. In "
      "`cairn up`\n"
      "every key is under the table of its service, and its variable starts with `CAIRN_{}__`. Three are of "
      "the "
      "whole process and under none there:\n`log.level`, `log.format`, and `shards` in place of "
      "`server.shards`.\n\n"
      "| key | type | default | reload | environment | other names | meaning |\n"
      "|---|---|---|---|---|---|---|\n",
      service, environment_name(service).substr(6));
  for (const Entry& entry : schema.entries()) {
    const KeySpec& spec = entry.spec;
    std::string others;
    for (const OtherName& other : spec.other_names)
      others += fmt::format("{}`{}`", others.empty() ? "" : " ", describe_other(other));
    fmt::format_to(std::back_inserter(out), "| `{}` | {} | `{}` | {} | `{}` | {} | {}{}{} |\n", spec.name,
                   cell(describe_type(entry)), cell(shown_value(entry, entry.default_value)),
                   name_of(spec.reload), environment_name(spec.name), others, cell(spec.doc),
                   describe_danger(schema, entry), spec.built ? "" : " **Not built yet: refused.**");
  }
  return out;
}

}  // namespace cairn::config
