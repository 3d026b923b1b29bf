// The ledger as bytes: a snapshot, which spares the next start most of the log.
//
// A copy shows the ledger at one moment. Entries that never change (leaves, and all versions but the last)
// are read when the copy gets to them. Lists are shared. Small parts are written out at that moment. Items
// change in any order: before the ledger changes an item that is not copied yet, it puts the old value aside.
// The table keeps its buckets meanwhile, so that the copy can walk them one by one.
#include <algorithm>
#include <cstring>

#include "services/registry/ledger.h"
#include "store/encoding.h"

namespace cairn::registry {
namespace {

using store::FieldReader;
using store::FieldWriter;

constexpr float load_while_copying = 4096;
constexpr std::string_view magic{"cairn.registry\0\2", 16};

// A writer and a reader with the same interface, so that the layout is defined once.
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
  template <class Io, class E>
  static void version(Io& io, E& entry) {
    io.bytes(entry.payload_b3.bytes), io.bytes(entry.commit_b3.bytes);
    time(io, entry.committed_at), id(io, entry.id);
    place(io, entry.commit), place(io, entry.payload);
    flag(io, entry.superseded), flag(io, entry.full);
  }
  template <class Io, class H, class E>
  static void item(Io& io, H& hash, E& entry) {
    io.bytes(hash), place(io, entry.place);
    io.number(entry.last_version), io.number(entry.proposals), flag(io, entry.committed);
  }
  template <class Io, class T>
  static void list(Io& io, T& hashes) {
    if constexpr (std::is_same_v<Io, Reading>) {
      std::vector<Hash> read;
      each(io, read, [&](auto& hash) { io.bytes(hash); });
      hashes = std::move(read);
    } else {
      each(io, hashes.get(), [&](auto& hash) { io.bytes(hash); });
    }
  }
  template <class Io, class P>
  static void proposal(Io& io, P& pending) {
    id(io, pending.id);
    io.text(pending.who), time(io, pending.at), time(io, pending.expires);
    io.bytes(pending.payload_b3.bytes);
    auto& set = pending.set;
    io.number(set.version), io.bytes(set.prev.bytes), time(io, set.created_at);
    maybe(io, set.expiry, [&](auto& at) { time(io, at); });
    maybe(io, set.supersede_of, [&](auto& version) { io.number(version); });
    maybe(io, set.reason, [&](auto& text) { io.text(text); });
    list(io, pending.items);
    flag(io, pending.full), flag(io, pending.readable), place(io, pending.place);
    each(io, pending.approvals, [&](auto& approval) {
      io.text(approval.signer_id), io.text(approval.algo), io.text(approval.sig);
      time(io, approval.signed_at);
    });
  }
  // The parts that are written out at the moment of the copy.
  template <class Io, class L>
  static void head(Io& io, L& ledger, store::LogPoint& point) {
    io.number(point.sequence), io.number(point.next.segment), io.number(point.next.offset);
    io.number(ledger.first_kept_), io.number(ledger.base_), io.number(ledger.verified_);
    list(io, ledger.head_items_), list(io, ledger.base_items_);
    each(io, ledger.floor_governors_, [&](auto& text) { io.text(text); });
    pairs(io, ledger.governor_items_, [&](auto& hash, auto& text) { io.bytes(hash), io.text(text); });
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

// A copy under way, in the order in which it is written.
struct Ledger::Copying {
  std::string head;                 // with how many of each kind follow it
  std::map<Ulid, Pending> pending;  // not written yet
  std::uint64_t versions = 0, next_version = 0;
  VersionEntry last;  // the next version may mark it as superseded
  std::size_t next_bucket = 0;
  // Old values of items that changed before they were copied. Nothing: there was no such item.
  std::unordered_map<Hash, std::optional<ItemEntry>, HashOfHash> before;
};

Ledger::Ledger() = default;
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;
Ledger::~Ledger() = default;

bool Ledger::begin_copy(const store::LogPoint& point) {
  end_copy();
  if (!broken_.empty() || !found_leaves_.empty()) return false;
  copying_ = std::make_unique<Copying>();
  copying_->pending = pending_;
  copying_->versions = versions_.size();
  if (!versions_.empty()) copying_->last = versions_.back();
  Writing io;
  store::LogPoint at = point;
  LedgerFields::head(io, *this, at);
  std::size_t pending = pending_.size(), versions = versions_.size(), items = items_.size();
  io.count(pending), io.count(versions), io.count(items);
  copying_->head = std::string(magic) + io.take();
  // With this load factor many more items fit before the table would rehash.
  items_.max_load_factor(load_while_copying);
  return true;
}

void Ledger::end_copy() noexcept {
  if (!std::exchange(copying_, {})) return;
  items_.max_load_factor(1);
}

void Ledger::keep_item(const Hash& hash) {
  if (!copying_ || items_.bucket(hash) < copying_->next_bucket) return;
  const auto found = items_.find(hash);
  copying_->before.try_emplace(hash, found == items_.end() ? std::nullopt : std::optional(found->second));
}

std::optional<std::string> Ledger::copy_some(std::size_t most) {
  if (!copying_) return std::nullopt;
  Copying& copy = *copying_;
  if (!copy.head.empty()) return std::exchange(copy.head, {});
  Writing io;
  std::size_t done = 0;
  for (; done < most && !copy.pending.empty(); copy.pending.erase(copy.pending.begin())) {
    LedgerFields::proposal(io, copy.pending.begin()->second);
    done += 1 + copy.pending.begin()->second.items.size();
  }
  if (done > 0) return io.take();
  for (; done < most && copy.next_version < copy.versions; ++done, ++copy.next_version) {
    const bool last = copy.next_version + 1 == copy.versions;
    LedgerFields::version(io, last ? copy.last : versions_[copy.next_version]);
    io.bytes(tree_.leaf(copy.next_version));
  }
  return done > 0 ? io.take() : copy_items(most);
}

std::optional<std::string> Ledger::copy_items(std::size_t most) {
  Copying& copy = *copying_;
  Writing io;
  std::size_t done = 0;
  for (; done < most && copy.next_bucket < items_.bucket_count(); ++done, ++copy.next_bucket)
    for (auto item = items_.cbegin(copy.next_bucket); item != items_.cend(copy.next_bucket); ++item, ++done) {
      const auto kept = copy.before.find(item->first);
      if (kept == copy.before.end()) LedgerFields::item(io, item->first, item->second);
      if (kept == copy.before.end()) continue;
      if (kept->second) LedgerFields::item(io, item->first, *kept->second);
      copy.before.erase(kept);
    }
  // Then the items that were removed since.
  for (; done < most && !copy.before.empty(); ++done, copy.before.erase(copy.before.begin()))
    if (const auto& [hash, entry] = *copy.before.begin(); entry) LedgerFields::item(io, hash, *entry);
  if (done > 0) return io.take();
  end_copy();
  return std::nullopt;
}

std::optional<std::string> SnapshotSeal::take(std::optional<std::string> piece) {
  if (piece) hasher_.update(as_bytes(*piece));
  if (!piece && !std::exchange(sealed_, true)) piece = as_text(hasher_.finish().address.bytes);
  return piece;
}

std::optional<std::pair<Ledger, store::LogPoint>> Ledger::decode(ByteView bytes) {
  constexpr std::size_t hash_size = sizeof(Hash);
  if (bytes.size() < magic.size() + hash_size || as_text(bytes.first(magic.size())) != magic)
    return std::nullopt;
  const ByteView sealed = bytes.first(bytes.size() - hash_size);
  if (std::memcmp(crypto::hash_object(sealed).bytes.data(), bytes.last(hash_size).data(), hash_size) != 0)
    return std::nullopt;
  std::pair<Ledger, store::LogPoint> out;
  Ledger& ledger = out.first;
  Reading io(sealed.subspan(magic.size()));
  LedgerFields::head(io, ledger, out.second);
  std::size_t pending = 0, versions = 0, items = 0;
  io.count(pending), io.count(versions), io.count(items);
  for (std::size_t i = 0; i < pending; ++i) {
    Pending one;
    LedgerFields::proposal(io, one);
    ledger.pending_items_ += one.items.size();
    ledger.pending_.emplace(one.id, std::move(one));
  }
  for (std::size_t i = 0; i < versions; ++i) {
    VersionEntry entry;
    crypto::MerkleHash leaf{};
    LedgerFields::version(io, entry), io.bytes(leaf);
    if (entry.id != Ulid{}) ledger.committed_.emplace(entry.id, i);
    ledger.versions_.push_back(entry);
    ledger.tree_.append(leaf);
  }
  for (std::size_t i = 0; i < items; ++i) {
    Hash hash{};
    ItemEntry entry;
    LedgerFields::item(io, hash, entry);
    ledger.items_.emplace(hash, entry);
  }
  if (!io.complete()) return std::nullopt;
  return out;
}

}  // namespace cairn::registry
