// Schema: the keys of one service, in order of declaration, and the rules between them.
#pragma once

#include <cstddef>
#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/key.h"
#include "config/value.h"

namespace cairn::config {

class Snapshot;

// A declared key with the texts of its declaration turned into values.
struct Entry {
  KeySpec spec;
  Type type = Type::string;
  Value default_value;
  std::optional<Value> min, max, danger_above;
};

// A condition over several keys, reported under one of them. Returns the problem's text, or nothing.
struct Rule {
  std::string name;
  std::size_t key = 0;
  std::function<std::optional<std::string>(const Snapshot&)> broken;
};

// A consumer of memory, named in the words of a rule ("storage.cache_bytes", "64 MiB for bodies").
struct MemoryUse {
  std::string name;
  std::function<std::uint64_t(const Snapshot&)> bytes;
};

// Built at start and then only read; snapshots and keys point to it, so it stays where it is. A declaration
// that contradicts itself (a default out of range, a name twice) is a bug and fails a CHECK.
class Schema {
 public:
  Schema() = default;
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  template <class T>
  Key<T> add(KeySpec spec) {
    return {this, add_entry(std::move(spec), key_type<T>())};
  }
  template <class T>
  void add_rule(Key<T> reported_under, std::string name,
                std::function<std::optional<std::string>(const Snapshot&)> broken) {
    rules_.push_back({std::move(name), reported_under.index, std::move(broken)});
  }
  // One more consumer of server.memory_bytes, which has to cover all of them.
  void add_memory(std::string name, std::function<std::uint64_t(const Snapshot&)> bytes) {
    memory_.push_back({std::move(name), std::move(bytes)});
  }
  // The key that permits values above `danger_above`. Without one, no such value is permitted.
  void set_danger_key(Key<bool> key) { danger_key_ = key.index; }

  std::span<const Entry> entries() const noexcept { return entries_; }
  std::span<const Rule> rules() const noexcept { return rules_; }
  std::span<const MemoryUse> memory() const noexcept { return memory_; }
  std::optional<std::size_t> danger_key() const noexcept { return danger_key_; }

  struct Name {
    std::size_t index;
    Unit unit;
    bool other;  // not the key's own name
  };
  // Every accepted spelling.
  const std::map<std::string, Name, std::less<>>& names() const noexcept { return names_; }

  // The value, or the first rule it breaks: type, range, check. Danger and rules between keys come later.
  std::expected<Value, std::string> accept(std::size_t index, const Raw& raw, Unit unit) const;

 private:
  std::size_t add_entry(KeySpec spec, Type type);
  void add_name(std::string name, Name meaning);

  std::vector<Entry> entries_;
  std::vector<Rule> rules_;
  std::vector<MemoryUse> memory_;
  std::map<std::string, Name, std::less<>> names_;
  std::optional<std::size_t> danger_key_;
};

// registry + storage.kind → registry.storage.kind; no prefix, no dot.
std::string full_name(std::string_view prefix, std::string_view key);

// "must be between 1 and 65536" — or empty, when every value of the type will do.
std::string describe_range(const Entry& entry);

}  // namespace cairn::config
