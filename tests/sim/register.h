// Register: what was written to one small value, by whom nobody knows exactly when, and what may then be
// read. A write lies somewhere between its start and its end; one whose answer was lost lies anywhere after
// its start, or nowhere. A read is wrong when no order of the writes explains it.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"

namespace cairn::simulator {

class Register {
 public:
  using Value = unsigned;
  using Ticket = std::size_t;
  explicit Register(Value first) { writes_.push_back({first, {}, {}, Fate::done}); }

  Ticket begin(Value value, Instant now) {
    writes_.push_back({value, now, Instant::never(), Fate::unknown});
    return writes_.size() - 1;
  }
  void done(Ticket ticket, Instant now) { end(ticket, now, Fate::done); }
  void refused(Ticket ticket, Instant now) { end(ticket, now, Fate::refused); }
  // What is unknown has happened by now, or never will.
  void settle(Instant now) {
    for (Write& write : writes_)
      if (write.fate == Fate::unknown && write.end > now) write.end = now;
  }
  // Whether a read between `from` and `to` may find `value`.
  bool may_be(Value value, Instant from, Instant to) const {
    for (const Write& write : writes_)
      if (write.value == value && write.fate != Fate::refused && write.start <= to &&
          !overwritten(write, from))
        return true;
    return false;
  }
  // A write of `value` may have happened between these.
  bool may_change_to(Value value, Instant from, Instant to) const {
    for (const Write& write : writes_)
      if (write.value == value && write.fate != Fate::refused && write.start <= to && write.end >= from)
        return true;
    return false;
  }

 private:
  enum class Fate : unsigned char { unknown, done, refused };
  struct Write {
    Value value;
    Instant start, end;
    Fate fate;
  };
  void end(Ticket ticket, Instant now, Fate fate) {
    writes_[ticket].end = now;
    writes_[ticket].fate = fate;
  }
  // Surely, before `from`.
  bool overwritten(const Write& write, Instant from) const {
    for (const Write& other : writes_)
      if (other.value != write.value && other.fate == Fate::done && other.start > write.end &&
          other.end < from)
        return true;
    return false;
  }

  std::vector<Write> writes_;
};

}  // namespace cairn::simulator
