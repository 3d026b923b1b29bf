// The audit trail: who asked for which change and what became of it, to be read by those who run a registry.
// What was decided is in the log as well, durably; the trail is a window on it, and the only place for what
// never came to the committer. Events gather in a table and go once a second into a ring of fixed size
// (docs/formats/registry.md). Nobody waits for either.
//
//   [AU-1] An event is written down, or counted as dropped; it is never a reason to refuse or to fence.
//   [AU-2] What is refused before or at the capability costs one event for each operation, reason and second.
//   [AU-3] Of one token, no more than `alone_per_minute` refusals a minute are told one by one (or take room
//         of the log); the rest are counted like those.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/ulid.h"
#include "base/units.h"

namespace cairn::registry {

struct AuditEvent {
  WallTime at{};
  std::uint64_t count = 1;  // so many of its kind, in the second that begins at `at`
  std::string op, code;     // `ok`: it was accepted
  std::string who;          // empty: before anybody could know
  std::optional<Ulid> id;   // of the proposal
  std::optional<Address> hash;
  friend bool operator==(const AuditEvent&, const AuditEvent&) = default;
};

inline constexpr std::size_t audit_capacity = 8192;

// What was asked and is not in the ring yet.
class AuditTable {
 public:
  explicit AuditTable(std::size_t capacity = audit_capacity) noexcept : capacity_(capacity) {}
  static constexpr std::size_t tokens_max = 1024;
  static constexpr unsigned alone_per_minute = 64;

  // Whether one more refusal of this token is told alone [AU-3].
  bool take_turn(const std::string& who, WallTime now);
  void add(AuditEvent event);
  // With those of its second that differ in nothing but time, proposal and hash.
  void count(AuditEvent event);
  // Alone while its token has turns, else counted. Without a token: counted.
  void note(AuditEvent event);
  // In the order of their times; of what is counted only seconds that are over, unless `all`.
  std::vector<AuditEvent> take(WallTime now, bool all);
  std::size_t waiting() const noexcept { return alone_.size() + counted_.size(); }
  // Since it was asked last.
  std::uint64_t take_dropped() noexcept;

 private:
  bool has_room() noexcept;

  std::size_t capacity_;
  std::vector<AuditEvent> alone_;
  using Kind = std::tuple<std::int64_t, std::string, std::string, std::string>;  // second, op, code, who
  std::map<Kind, std::uint64_t> counted_;
  std::int64_t minute_ = 0;
  std::map<std::string, unsigned> turns_;  // of this minute
  std::uint64_t dropped_ = 0;
};

// --- the ring: slots of one size, each with its own checksum.
inline constexpr std::size_t audit_slot_size = 256;
inline constexpr std::uint64_t audit_ring_bytes = 16u << 20;

struct AuditSlot {
  std::uint64_t sequence = 0;  // from 1
  AuditEvent event;
};
// Texts that are too long are cut.
std::string encode_slot(const AuditSlot& slot);
// Nothing when the bytes are not such a slot: never written, torn, or somebody else's.
std::optional<AuditSlot> decode_slot(ByteView bytes);

struct AuditRing {
  std::uint64_t slots = audit_ring_bytes / audit_slot_size;
  std::uint64_t place_of(std::uint64_t sequence) const noexcept { return (sequence - 1) % slots; }
  // The oldest that is still there when `next` comes next.
  std::uint64_t oldest(std::uint64_t next) const noexcept { return next > slots ? next - slots : 1; }
};

struct AuditPage {
  std::vector<AuditSlot> events;
  std::optional<std::uint64_t> next;  // there are more behind this sequence
};

}  // namespace cairn::registry
