// LocalDht: the DHT of a node that is alone: one place for values within the process, shared by its shards.
// It keeps what the interface promises (dht.h), answers at once and forgets everything when it is closed.
//   [LH-1] It holds at most `store_bytes` in values and what it needs to keep each, and at most
//         dht_values_most values of one key. A new value beyond that is refused: nothing is pushed out.
//   [LH-2] A value is never given dht_value_life after it was last put.
#pragma once

#include <list>
#include <map>
#include <vector>

#include "io/dht.h"
#include "runtime/guarded.h"

namespace cairn::io {

// The values, the one that expires first at the front. Not for several threads at once.
class LocalValues {
 public:
  explicit LocalValues(std::uint64_t bytes_most) noexcept : bytes_most_(bytes_most) {}

  // `storage_full`: LH-1. A value that is there already is renewed (DH-4).
  Result<> put(const DhtKey& key, DhtValue value, Instant now);
  std::vector<DhtValue> find(const DhtKey& key, Instant now) const;
  std::size_t values() const noexcept { return by_age_.size(); }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Kept {
    DhtKey key;
    DhtValue value;
    Instant expires;
  };
  using Place = std::list<Kept>::iterator;
  static std::uint64_t cost(const DhtValue& value) noexcept;
  void drop_expired(const DhtKey& key, Instant now);
  void drop(Place at);

  std::uint64_t bytes_most_;
  std::uint64_t bytes_ = 0;
  std::list<Kept> by_age_;
  std::map<DhtKey, std::vector<Place>> by_key_;
};

class LocalDhtMaker final : public DhtMaker {
 public:
  Task<Result<std::shared_ptr<DhtNode>>> open(Call call, Machine& machine, DhtOptions options) override;
};

}  // namespace cairn::io
