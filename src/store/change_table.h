// ChangeTable: the newest change of each key, found by key. Bytes are appended to pieces that never move, and
// all pieces are freed at once: a change costs no allocation of its own.
//
//   [CT-1] The changes that freeze() gave stay as they are, where they are, as long as the table: set() adds
//         behind them. So one thread reads them while another goes on with the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::store {

class ChangeTable {
 public:
  class Change {
   public:
    std::string_view key() const noexcept { return {bytes_, key_size_}; }
    // None: removed.
    std::optional<std::string_view> value() const noexcept {
      if (value_size_ == removed) return std::nullopt;
      return std::string_view(bytes_ + key_size_, value_size_);
    }
    // Compares the first bytes, which are at hand. Reads the whole key only where they are equal.
    friend bool operator<(const Change& a, const Change& b) noexcept {
      return a.first_ != b.first_ ? a.first_ < b.first_ : a.key() < b.key();
    }
    bool is_within(std::string_view from, std::string_view until) const noexcept {
      return first_ >= first_of(from) && first_ <= first_of(until) && key() >= from && key() < until;
    }

   private:
    friend class ChangeTable;
    static constexpr std::uint32_t removed = 0xffff'ffff;
    std::uint64_t first_ = 0;  // bytes of the key, as a number that is in the order of keys
    char* bytes_ = nullptr;    // key, then value
    std::uint32_t key_size_ = 0, value_size_ = removed;
  };

  // `seed`: keeps a client from choosing keys that collide.
  explicit ChangeTable(std::uint64_t seed) noexcept : seed_(seed) {}

  void set(std::string_view key, std::optional<std::string_view> value);
  // Valid until the next set().
  const Change* find(std::string_view key) const noexcept;
  // In no order. Of each key the newest is the last, and the only one unless there was a freeze() between.
  std::span<const Change> changes() const noexcept { return changes_; }
  std::span<const Change> freeze() noexcept {
    frozen_ = changes_.size();
    return changes_;
  }
  bool empty() const noexcept { return changes_.empty(); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  // Makes room for as many changes as another table held.
  void expect(std::size_t count);

 private:
  // A word of the hash and the number of the change, from 1; 0: empty. The place follows from the word, so
  // growing the table does not read keys.
  struct Slot {
    std::uint32_t word = 0, number = 0;
  };
  std::size_t place_of(std::string_view key, std::uint32_t word) const noexcept;
  void resize(std::size_t slots);
  Change& append_change();
  char* append(std::string_view key, std::string_view value);
  static std::uint64_t first_of(std::string_view key) noexcept;

  std::uint64_t seed_;
  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  std::vector<Change> changes_;
  std::size_t frozen_ = 0;  // of them
  std::vector<std::vector<Change>> outgrown_;
  std::vector<std::unique_ptr<char[]>> pieces_;
  std::size_t left_ = 0;  // in the last piece
  char* next_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace cairn::store
