// Snapshot: the effective configuration, immutable. A request pins one and sees it whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "config/schema.h"

namespace cairn::config {

// Where a value came from. `text` is for people: `default`, `cairn.toml:3:12`, `environment
// CAIRN_SERVER__BIND`, `flag --set`.
struct Origin {
  enum class Kind : std::uint8_t { preset, file, environment, flag };
  Kind kind = Kind::preset;
  std::string text = "default";
};

class Snapshot {
 public:
  struct Held {
    Value value;
    Origin origin;
  };

  // One held value per key of the schema, in its order. The schema outlives the snapshot.
  Snapshot(const Schema& schema, std::vector<Held> held, std::uint64_t version)
      : schema_(&schema), held_(std::move(held)), version_(version) {
    CHECK(held_.size() == schema.entries().size());
  }

  template <class T>
  decltype(auto) get(Key<T> key) const noexcept {
    CHECK(key.schema == schema_);
    const Value& value = held_[key.index].value;
    if constexpr (std::is_enum_v<T>)
      return static_cast<T>(std::get_if<Choice>(&value)->index);
    else
      return static_cast<const T&>(*std::get_if<T>(&value));
  }

  const Schema& schema() const noexcept { return *schema_; }
  std::uint64_t version() const noexcept { return version_; }
  const Held& at(std::size_t index) const noexcept {
    CHECK(index < held_.size());
    return held_[index];
  }

 private:
  const Schema* schema_;
  std::vector<Held> held_;
  std::uint64_t version_;
};

using SnapshotPtr = std::shared_ptr<const Snapshot>;

}  // namespace cairn::config
