// Draft: bytes on their way in: hashed as they arrive, kept in heap blocks that a budget of the whole process
// bounds, until they are a record.
#pragma once

#include <cstdint>
#include <vector>

#include "base/heap_bytes.h"
#include "base/result.h"
#include "crypto/object_hasher.h"
#include "store/budget.h"
#include "store/object_format.h"

namespace cairn::store {

// One part at most; an object that is larger goes part by part.
class Draft {
 public:
  // `expected`: the number of bytes that will come, if known, so that memory fits them. More may not come
  // then.
  Draft(ByteBudget& budget, std::uint64_t part_index, std::size_t expected = crypto::part_size,
        Taker taker = {}) noexcept
      : budget_(&budget), taker_(taker), index_(part_index), expected_(expected), hasher_(part_index) {}
  ~Draft() { budget_->give(taken_, taker_.slot); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  std::size_t size() const noexcept { return size_; }
  bool full() const noexcept { return size_ == crypto::part_size; }
  // Takes as much as fits into the part and says how much that was. `busy`: the budget is spent; `internal`:
  // more came than was expected.
  Result<std::size_t> add(ByteView bytes);

  // A record's bytes count against the budget until its hold is dropped.
  struct Taken {
    Record record;
    BudgetHold hold;
  };
  // The record of an object that is this part alone. Afterwards the draft may only be destroyed.
  Taken take_object(std::string media_type, Address& address);
  // The record of one part of an upload.
  Taken take_part(const Ulid& token, PartRecord& part);

 private:
  crypto::PartHash finish(bool only_part) noexcept;
  Taken take(RecordKind kind, std::string meta) noexcept;

  ByteBudget* budget_;
  Taker taker_;
  std::uint64_t index_;
  std::size_t expected_;
  crypto::PartHasher hasher_;
  std::vector<HeapBytes> blocks_;  // each a group, so that it is hashed where it lies
  std::size_t size_ = 0;
  std::size_t taken_ = 0;  // of the budget
};

}  // namespace cairn::store
