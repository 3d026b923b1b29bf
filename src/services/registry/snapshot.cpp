// The ledger as bytes: what spares the next start most of the log.
#include <algorithm>
#include <cstring>

#include "services/registry/ledger.h"
#include "store/encoding.h"

namespace cairn::registry {
namespace {

using store::FieldReader;
using store::FieldWriter;

constexpr std::string_view magic{"cairn.registry\0\1", 16};

// A writer and a reader of the same fields, so that the layout is said once.
class Writing {
 public:
  template <std::unsigned_integral T>
  void number(const T& value) {
    out_.number(value);
  }
  void count(std::size_t& n) { out_.number(static_cast<std::uint64_t>(n)); }
  template <std::size_t n>
  void bytes(const std::array<std::byte, n>& value) {
    out_.bytes(value);
  }
  void text(const std::string& value) {
    out_.number(static_cast<std::uint32_t>(value.size()));
    out_.bytes(as_bytes(value));
  }
  std::string take() { return out_.take(); }

 private:
  FieldWriter out_;
};

class Reading {
 public:
  explicit Reading(ByteView in) : in_(in) {}
  template <std::unsigned_integral T>
  void number(T& value) {
    in_.number(value);
  }
  // Every element takes at least a byte.
  void count(std::size_t& n) {
    std::uint64_t value = 0;
    in_.number(value);
    n = value <= in_.left() ? static_cast<std::size_t>(value) : 0;
    good_ = good_ && n == value;
  }
  template <std::size_t n>
  void bytes(std::array<std::byte, n>& value) {
    in_.bytes(value);
  }
  void text(std::string& value) {
    std::uint32_t size = 0;
    in_.number(size);
    if (size > in_.left()) good_ = false;
    value.resize(good_ ? size : 0);
    in_.bytes({reinterpret_cast<std::byte*>(value.data()), value.size()});
  }
  bool complete() const { return good_ && in_.complete(); }

 private:
  FieldReader in_;
  bool good_ = true;
};

template <class Io, class T>
void flag(Io& io, T& value) {
  std::uint8_t byte = value ? 1 : 0;
  io.number(byte);
  if constexpr (std::is_same_v<Io, Reading>) value = byte == 1;
}
template <class Io, class T>
void time(Io& io, T& value) {
  auto ms = static_cast<std::uint64_t>(value.ms);
  io.number(ms);
  if constexpr (std::is_same_v<Io, Reading>) value.ms = static_cast<std::int64_t>(ms);
}
template <class Io, class T>
void place(Io& io, T& value) {
  io.number(value.at.segment), io.number(value.at.offset), io.number(value.meta_size);
}
template <class Io, class T>
void id(Io& io, T& value) {
  io.number(value.high), io.number(value.low);
}
template <class Io, class C, class F>
void each(Io& io, C& container, F&& element) {
  std::size_t count = container.size();
  io.count(count);
  if constexpr (std::is_same_v<Io, Reading>) container.resize(count);
  for (auto& one : container) element(one);
}
template <class Io, class T, class F>
void maybe(Io& io, T& value, F&& content) {
  bool there = value.has_value();
  flag(io, there);
  if constexpr (std::is_same_v<Io, Reading>)
    if (there) value.emplace();
  if (there) content(*value);
}
// A map as the list of its pairs.
template <class Io, class M, class F>
void pairs(Io& io, M& map, F&& element) {
  using Key = typename std::remove_const_t<M>::key_type;
  using Value = typename std::remove_const_t<M>::mapped_type;
  std::size_t count = map.size();
  io.count(count);
  if constexpr (std::is_same_v<Io, Reading>) {
    for (std::size_t i = 0; i < count; ++i) {
      Key key{};
      Value value{};
      element(key, value);
      map.emplace(std::move(key), std::move(value));
    }
  } else {
    for (auto& [key, value] : map) element(key, value);
  }
}

}  // namespace

struct LedgerFields {
  template <class Io, class L>
  static void go(Io& io, L& ledger, store::LogPoint& point) {
    io.number(point.sequence), io.number(point.next.segment), io.number(point.next.offset);
    each(io, ledger.versions_, [&](auto& entry) {
      io.bytes(entry.payload_b3.bytes), io.bytes(entry.commit_b3.bytes);
      time(io, entry.committed_at);
      place(io, entry.commit), place(io, entry.payload);
      flag(io, entry.superseded), flag(io, entry.full);
    });
    io.number(ledger.first_kept_), io.number(ledger.base_), io.number(ledger.verified_);
    each(io, ledger.head_items_, [&](auto& hash) { io.bytes(hash); });
    each(io, ledger.base_items_, [&](auto& hash) { io.bytes(hash); });
    each(io, ledger.floor_governors_, [&](auto& item) { io.text(item); });
    pairs(io, ledger.governor_items_, [&](auto& hash, auto& item) { io.bytes(hash), io.text(item); });
    pairs(io, ledger.items_, [&](auto& hash, auto& entry) {
      io.bytes(hash), place(io, entry.place);
      io.number(entry.last_version), io.number(entry.proposals), flag(io, entry.committed);
    });
    pairs(io, ledger.pending_, [&](auto& key, auto& pending) {
      id(io, key), id(io, pending.id);
      io.text(pending.who), time(io, pending.at), time(io, pending.expires);
      io.bytes(pending.payload_b3.bytes);
      auto& set = pending.set;
      io.number(set.version), io.bytes(set.prev.bytes), time(io, set.created_at);
      maybe(io, set.expiry, [&](auto& at) { time(io, at); });
      maybe(io, set.supersede_of, [&](auto& version) { io.number(version); });
      maybe(io, set.reason, [&](auto& text) { io.text(text); });
      each(io, pending.items, [&](auto& hash) { io.bytes(hash); });
      flag(io, pending.full), flag(io, pending.readable), place(io, pending.place);
      each(io, pending.approvals, [&](auto& approval) {
        io.text(approval.signer_id), io.text(approval.algo), io.text(approval.sig);
        time(io, approval.signed_at);
      });
    });
    pairs(io, ledger.committed_, [&](auto& key, auto& version) { id(io, key), io.number(version); });
    each(io, ledger.ended_order_, [&](auto& key) { id(io, key); });
    pairs(io, ledger.ended_, [&](auto& key, auto& how) {
      id(io, key);
      bool expired = how == Ended::expired;
      flag(io, expired);
      if constexpr (std::is_same_v<Io, Reading>) how = expired ? Ended::expired : Ended::stale;
    });
    maybe(io, ledger.checkpoint_, [&](auto& checkpoint) {
      io.text(checkpoint.note), io.number(checkpoint.size), time(io, checkpoint.at);
      io.number(checkpoint.place.segment), io.number(checkpoint.place.offset);
    });
    pairs(io, ledger.bad_, [&](auto& version, auto& why) { io.number(version), io.text(why); });
  }
};

std::string Ledger::encode(const store::LogPoint& point) const {
  CHECK(broken_.empty() && found_leaves_.empty());
  Writing io;
  store::LogPoint at = point;
  LedgerFields::go(io, *this, at);
  for (std::uint64_t i = 0; i < tree_.size(); ++i) io.bytes(tree_.leaf(i));
  const std::string fields = io.take();
  std::string out(magic);
  out.append(FieldWriter().number(static_cast<std::uint64_t>(fields.size())).take());
  out.append(fields);
  out.append(as_text(crypto::hash_object(as_bytes(out)).bytes));
  return out;
}

std::optional<std::pair<Ledger, store::LogPoint>> Ledger::decode(ByteView bytes) {
  constexpr std::size_t hash_size = sizeof(Hash), head_size = 24;
  if (bytes.size() < head_size + hash_size || as_text(bytes.first(magic.size())) != magic)
    return std::nullopt;
  const ByteView sealed = bytes.first(bytes.size() - hash_size);
  if (std::memcmp(crypto::hash_object(sealed).bytes.data(), bytes.last(hash_size).data(), hash_size) != 0)
    return std::nullopt;
  std::uint64_t size = 0;
  FieldReader(bytes.subspan(magic.size(), 8)).number(size);
  if (size != sealed.size() - head_size) return std::nullopt;
  std::pair<Ledger, store::LogPoint> out;
  Reading io(sealed.subspan(head_size));
  LedgerFields::go(io, out.first, out.second);
  for (std::size_t i = 0; i < out.first.versions_.size(); ++i) {
    crypto::MerkleHash leaf{};
    io.bytes(leaf);
    out.first.tree_.append(leaf);
  }
  for (const auto& [key, pending] : out.first.pending_) out.first.pending_items_ += pending.items.size();
  if (!io.complete()) return std::nullopt;
  return out;
}

}  // namespace cairn::registry
