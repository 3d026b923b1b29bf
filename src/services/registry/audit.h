// The audit trail: who asked for which change, and how it ended, for the operators of a registry. Changes
// that the committer decided are in the log as well, durably; requests that never reached the committer are
// in the trail only. Events gather in a table, and once a second the auditor writes them into a ring of fixed
// size (docs/formats/registry.md). No task waits for either.
//
//   [AU-1] Every event is written or counted as dropped. The trail never makes the registry refuse a change
//         or fence the log.
//   [AU-2] Requests that are refused before or at the capability check cost one event for each operation,
//         reason and second.
//   [AU-3] At most `alone_per_minute` refusals a minute of one token get an event of their own (or a record
//         in the log); its other refusals are counted as in AU-2.
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
  std::uint64_t count = 1;  // events of this kind in the second that begins at `at`
  std::string op, code;     // `ok`: it was accepted
  std::string who;          // empty: refused before a token was known
  std::optional<Ulid> id;   // of the proposal
  std::optional<Address> hash;
  friend bool operator==(const AuditEvent&, const AuditEvent&) = default;
};

inline constexpr std::size_t audit_capacity = 8192;

// Events that are not in the ring yet.
class AuditTable {
 public:
  explicit AuditTable(std::size_t capacity = audit_capacity) noexcept : capacity_(capacity) {}
  static constexpr std::size_t tokens_max = 1024;
  static constexpr unsigned alone_per_minute = 64;

  // Whether one more refusal of this token gets an event of its own [AU-3].
  bool take_turn(const std::string& who, WallTime now);
  void add(AuditEvent event);
  // Merges the event with those of the same second that differ only in time, proposal and hash.
  void count(AuditEvent event);
  // Adds the event on its own while its token has turns left, else counts it. Without a token: counts it.
  void note(AuditEvent event);
  // Events in the order of their times. Counted events only of seconds that are over, unless `all`.
  std::vector<AuditEvent> take(WallTime now, bool all);
  std::size_t waiting() const noexcept { return alone_.size() + counted_.size(); }
  // Events dropped since the last call.
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
// Nothing when the bytes are not a slot of the ring: never written, torn, or foreign.
std::optional<AuditSlot> decode_slot(ByteView bytes);

struct AuditRing {
  std::uint64_t slots = audit_ring_bytes / audit_slot_size;
  std::uint64_t place_of(std::uint64_t sequence) const noexcept { return (sequence - 1) % slots; }
  // The oldest sequence that the ring still holds when `next` is the next to be written.
  std::uint64_t oldest(std::uint64_t next) const noexcept { return next > slots ? next - slots : 1; }
};

struct AuditPage {
  std::vector<AuditSlot> events;
  std::optional<std::uint64_t> next;  // more events follow this sequence
};

}  // namespace cairn::registry
