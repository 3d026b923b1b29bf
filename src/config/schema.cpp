#include "config/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cairn::config {
namespace {

bool is_key_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.back() != '.' && name.find("..") == name.npos &&
         name.find("__") == name.npos &&  // it separates components in the environment
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
         });
}

}  // namespace

std::size_t Schema::add_entry(KeySpec spec, Type type) {
  const std::size_t index = entries_.size();
  CHECK((type == Type::choice) == !spec.choices.empty());
  CHECK(!spec.doc.empty());
  const auto declared = [&](const std::string& text) {
    auto value = convert(Text{text}, type, spec.choices);
    CHECK(value.has_value());
    return *std::move(value);
  };
  Entry entry;
  entry.type = type;
  entry.default_value = declared(spec.default_value);
  if (spec.min) entry.min = declared(*spec.min);
  if (spec.max) entry.max = declared(*spec.max);
  if (spec.danger_above) entry.danger_above = declared(*spec.danger_above);
  add_name(spec.name, {index, Unit::same, false});
  for (const OtherName& other : spec.other_names) {
    CHECK(other.unit == Unit::same || type == Type::duration);
    add_name(other.name, {index, other.unit, true});
  }
  entry.spec = std::move(spec);
  entries_.push_back(std::move(entry));
  // A default must pass the same check as a value from a file.
  CHECK(accept(index, Text{entries_[index].spec.default_value}, Unit::same).has_value());
  CHECK(!entries_[index].danger_above ||
        compare(entries_[index].default_value, *entries_[index].danger_above) <= 0);
  return index;
}

void Schema::add_name(std::string name, Name meaning) {
  CHECK(is_key_name(name));
  const bool fresh = names_.emplace(std::move(name), meaning).second;
  CHECK(fresh);
}

std::expected<Value, std::string> Schema::accept(std::size_t index, const Raw& raw, Unit unit) const {
  const Entry& entry = entries_[index];
  auto value = convert(raw, entry.type, entry.spec.choices, unit);
  if (!value) return value;
  if ((entry.min && compare(*value, *entry.min) < 0) || (entry.max && compare(*value, *entry.max) > 0))
    return std::unexpected(describe_range(entry));
  if (entry.spec.check && !entry.spec.check->holds(*value))
    return std::unexpected("must be " + entry.spec.check->text);
  return value;
}

std::string full_name(std::string_view prefix, std::string_view key) {
  return prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
}

std::string describe_range(const Entry& entry) {
  const auto text = [&](const Value& value) { return format_value(value, entry.spec.choices); };
  if (entry.min && entry.max)
    return fmt::format("must be between {} and {}", text(*entry.min), text(*entry.max));
  if (entry.min) return fmt::format("must be at least {}", text(*entry.min));
  if (entry.max) return fmt::format("must be at most {}", text(*entry.max));
  return {};
}

}  // namespace cairn::config
