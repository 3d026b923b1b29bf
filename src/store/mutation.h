// Mutation: one change of an object store, as a shard asks it of the store's home, and the home's answer.
#pragma once

#include <optional>
#include <vector>

#include "runtime/errand.h"
#include "store/budget.h"
#include "store/object_format.h"

namespace cairn::store {

struct Outcome {
  Address address;
  std::uint64_t size = 0;
  bool existed = false;  // nothing had to be written
  Ulid token;
  WallTime expires{};
};

struct Mutation : Errand<Mutation, Outcome> {
  enum class Kind : std::uint8_t {
    put,           // `record` is an object's
    part,          // `record` is a part's
    begin,         // an upload: token, size, expires, media_type, owner
    commit,        // token; address if the caller knows it
    abort,         // token
    expire,        // token, if its time is over
    end_idle,      // uploads, until there is room for size bytes; size 0: one
    remove,        // address
    pin,           // address, flag
    quarantine,    // address, origin, at
    lift,          // its quarantine: address, origin
    relocate,      // moves
    segment_gone,  // segment, addresses
    adopt_index    // the one that was made beside the one in use
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
  UploadOwner owner;
  bool flag = false;
  std::uint64_t origin = 0;
  Position at;
  Record record;
  BudgetHold bytes;  // of `record`
  PartRecord part;
  std::vector<Move> moves;
  std::vector<Address> addresses;

  // May use the space that is kept for a full disk.
  bool frees_space() const noexcept {
    return kind == Kind::remove || kind == Kind::abort || kind == Kind::expire || kind == Kind::end_idle ||
           kind == Kind::relocate || kind == Kind::segment_gone || kind == Kind::quarantine ||
           kind == Kind::lift;
  }
};

}  // namespace cairn::store
