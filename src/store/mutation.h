// Mutation: one change of an object store on its way from the shard that asks to the home shard that commits
// it, and back. Bounded: each holds a place among the store's pending ones.
//   [M-1] It is completed exactly once, on the shard that asked, or dropped there if nobody waits any more.
//   [M-2] One that was withdrawn before the committer took it is never begun.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/list.h"
#include "runtime/mailbox.h"
#include "runtime/permits.h"
#include "runtime/waiter.h"
#include "store/budget.h"
#include "store/object_format.h"

namespace cairn::store {

class ObjectHome;

struct Outcome {
  Address address;
  std::uint64_t size = 0;
  bool existed = false;  // nothing had to be written
  Ulid token;
  WallTime expires{};
};

struct MutationLink : Link {};

struct Mutation : MailItem, MutationLink {
  enum class Kind : std::uint8_t {
    put,          // `record` is an object's
    part,         // `record` is a part's
    begin,        // an upload: token, size, expires, media_type
    commit,       // token; address if the caller knows it
    abort,        // token
    expire,       // token, if its time is over
    remove,       // address
    pin,          // address, flag
    quarantine,   // address, origin, at
    relocate,     // moves
    segment_gone  // segment, addresses
  };
  struct Move {
    Entry entry;  // as it was found
    Record record;
  };

  explicit Mutation(Kind what) noexcept : kind(what) {}

  Kind kind;
  std::optional<Address> address;
  Ulid token;
  std::uint64_t size = 0;
  WallTime expires{};
  std::string media_type;
  bool flag = false;
  std::uint64_t origin = 0;
  Position at;
  Record record;
  PartRecord part;
  std::vector<Move> moves;
  std::vector<Address> addresses;

  Instant deadline = Instant::never();
  std::atomic<bool> withdrawn{false};
  ObjectHome* home = nullptr;
  Result<Outcome> result = fail(ErrorCode::internal, "not decided");

  // --- of the shard that asked
  Mailbox* from = nullptr;
  WaitList waiters;
  PermitHold place;
  BudgetHold bytes;  // of `record`
  bool done = false;
  bool orphan = false;

  // May use the space that is kept for a full disk.
  bool frees_space() const noexcept {
    return kind == Kind::remove || kind == Kind::abort || kind == Kind::expire || kind == Kind::relocate ||
           kind == Kind::segment_gone || kind == Kind::quarantine;
  }
};

}  // namespace cairn::store
