#include "services/registry/record.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "codec/cbor.h"
#include "services/registry/hash_of_hash.h"

namespace cairn::registry {
namespace {

using codec::CborDecoder;
using codec::CborEncoder;

constexpr std::uint64_t leaves_max = 1u << 20;

std::unexpected<Error> not_a_record() {
  return fail(ErrorCode::integrity, "a record of the log does not decode");
}

ByteView bytes_of(const Ulid& id, std::array<std::byte, 16>& room) {
  for (std::size_t i = 0; i < 8; ++i) {
    room[i] = static_cast<std::byte>(id.high >> (56 - 8 * i));
    room[8 + i] = static_cast<std::byte>(id.low >> (56 - 8 * i));
  }
  return room;
}
void write_id(CborEncoder& out, const Ulid& id) {
  std::array<std::byte, 16> room;
  out.write_bytes(bytes_of(id, room));
}
void write_time(CborEncoder& out, WallTime time) { out.write_uint(static_cast<std::uint64_t>(time.ms)); }

// A map with known keys, in their order. Any failure sticks and is told by done().
class Fields {
 public:
  explicit Fields(ByteView meta) : in_(meta) {
    if (auto count = in_.read_map())
      left_ = *count;
    else
      good_ = false;
  }
  bool has(std::string_view key) {
    if (!good_ || left_ == 0 || !in_.expect_text(key)) return false;
    --left_;
    return true;
  }
  Fields& key(std::string_view name) {
    if (!has(name)) good_ = false;
    return *this;
  }
  template <class T>
  T take(Result<T> value, T otherwise = {}) {
    if (good_ && value) return *value;
    good_ = false;
    return otherwise;
  }
  std::uint64_t number() { return good_ ? take(in_.read_uint()) : 0; }
  WallTime time() {
    const std::uint64_t ms = number();
    if (ms > std::uint64_t{1} << 60) good_ = false;
    return {good_ ? static_cast<std::int64_t>(ms) : 0};
  }
  std::string text() { return good_ ? std::string(take(in_.read_text())) : std::string(); }
  std::string bytes() { return good_ ? std::string(as_text(take(in_.read_bytes()))) : std::string(); }
  template <std::size_t n>
  std::array<std::byte, n> exactly() {
    std::array<std::byte, n> out{};
    const ByteView got = good_ ? take(in_.read_bytes()) : ByteView();
    if (got.size() == n)
      std::memcpy(out.data(), got.data(), n);
    else
      good_ = false;
    return out;
  }
  Address address() { return Address{exactly<32>()}; }
  Ulid id() {
    const auto raw = exactly<16>();
    Ulid out;
    for (std::size_t i = 0; i < 8; ++i) {
      out.high = out.high << 8 | std::to_integer<std::uint64_t>(raw[i]);
      out.low = out.low << 8 | std::to_integer<std::uint64_t>(raw[8 + i]);
    }
    return out;
  }
  std::size_t array() { return good_ ? take(in_.read_array()) : 0; }
  CborDecoder& raw() noexcept { return in_; }
  bool good() const noexcept { return good_; }
  void refuse() noexcept { good_ = false; }
  Result<> done() const {
    if (!good_ || left_ != 0 || !in_.finish()) return not_a_record();
    return {};
  }

 private:
  CborDecoder in_;
  std::size_t left_ = 0;
  bool good_ = true;
};

void write_list(CborEncoder& out, const ItemList& list) {
  out.write_array(list.runs.size());
  for (const ItemList::Run& run : list.runs) {
    if (run.count == 0) {
      out.write_bytes(run.added);
      continue;
    }
    out.write_array(2);
    out.write_uint(run.first);
    out.write_uint(run.count);
  }
}

ItemList read_list(Fields& in) {
  ItemList list;
  const std::size_t count = in.array();
  list.runs.reserve(count);
  for (std::size_t i = 0; i < count && in.good(); ++i) {
    ItemList::Run run;
    const auto kind = in.raw().peek();
    if (kind && *kind == codec::CborKind::bytes) {
      run.added = in.exactly<32>();
    } else {
      const std::size_t pair = in.array();
      const std::uint64_t first = in.number(), length = in.number();
      if (pair != 2 || first > UINT32_MAX || length == 0 || length > UINT32_MAX) in.refuse();
      run.first = static_cast<std::uint32_t>(first);
      run.count = static_cast<std::uint32_t>(length);
    }
    list.runs.push_back(run);
  }
  return list;
}

}  // namespace

ItemList compress(const std::vector<Hash>& wanted, std::uint64_t base, const std::vector<Hash>& base_list) {
  std::unordered_map<Hash, std::uint32_t, HashOfHash> where;
  where.reserve(base_list.size());
  for (std::size_t i = 0; i < base_list.size(); ++i)
    where.emplace(base_list[i], static_cast<std::uint32_t>(i));
  ItemList list;
  list.base = base;
  for (const Hash& hash : wanted) {
    const auto found = where.find(hash);
    if (found == where.end()) {
      list.runs.push_back({0, 0, hash});
      continue;
    }
    ItemList::Run* last = list.runs.empty() ? nullptr : &list.runs.back();
    if (last != nullptr && last->count > 0 && last->first + last->count == found->second)
      ++last->count;
    else
      list.runs.push_back({found->second, 1, {}});
  }
  // A run takes about a third of a hash.
  std::size_t cost = 0;
  for (const ItemList::Run& run : list.runs) cost += run.count == 0 ? 3 : 1;
  if (2 * cost <= 3 * wanted.size()) return list;
  list = {};
  for (const Hash& hash : wanted) list.runs.push_back({0, 0, hash});
  return list;
}

std::optional<std::vector<Hash>> expand(const ItemList& list, const std::vector<Hash>& base_list) {
  std::vector<Hash> out;
  for (const ItemList::Run& run : list.runs) {
    if (run.count == 0) {
      out.push_back(run.added);
      continue;
    }
    if (!list.base || run.first > base_list.size() || run.count > base_list.size() - run.first ||
        out.size() + run.count > format::set_items_max)
      return std::nullopt;
    const auto from = base_list.begin() + run.first;
    out.insert(out.end(), from, from + run.count);
  }
  return out;
}

std::string encode(const ProposalRecord& record) {
  std::string out;
  CborEncoder cbor(out);
  const format::DescriptorSet& set = record.set;
  cbor.write_map(9u + set.expiry.has_value() + set.reason.has_value() + record.list.base.has_value() +
                 set.supersede_of.has_value());
  cbor.write_text("at"), write_time(cbor, record.at);
  cbor.write_text("id"), write_id(cbor, record.id);
  cbor.write_text("who"), cbor.write_text(record.who);
  if (record.list.base) cbor.write_text("base"), cbor.write_uint(*record.list.base);
  cbor.write_text("list"), write_list(cbor, record.list);
  cbor.write_text("prev"), cbor.write_bytes(set.prev.bytes);
  if (set.expiry) cbor.write_text("expiry"), write_time(cbor, *set.expiry);
  if (set.reason) cbor.write_text("reason"), cbor.write_text(*set.reason);
  cbor.write_text("expires"), write_time(cbor, record.expires);
  cbor.write_text("version"), cbor.write_uint(set.version);
  cbor.write_text("created_at"), write_time(cbor, set.created_at);
  cbor.write_text("payload_b3"), cbor.write_bytes(record.payload_b3.bytes);
  if (set.supersede_of) cbor.write_text("supersede_of"), cbor.write_uint(*set.supersede_of);
  cbor.finish();
  return out;
}

Result<> decode(ByteView meta, ProposalRecord& out) {
  Fields in(meta);
  format::DescriptorSet& set = out.set;
  out.at = in.key("at").time();
  out.id = in.key("id").id();
  out.who = in.key("who").text();
  std::optional<std::uint64_t> base;
  if (in.has("base")) base = in.number();
  in.key("list");
  out.list = read_list(in);
  out.list.base = base;
  set.prev = in.key("prev").address();
  if (in.has("expiry")) set.expiry = in.time();
  if (in.has("reason")) set.reason = in.text();
  out.expires = in.key("expires").time();
  set.version = in.key("version").number();
  set.created_at = in.key("created_at").time();
  out.payload_b3 = in.key("payload_b3").address();
  if (in.has("supersede_of")) set.supersede_of = in.number();
  return in.done();
}

std::string encode(const ApprovalRecord& record) {
  std::string out;
  CborEncoder cbor(out);
  cbor.write_map(4);
  cbor.write_text("at"), write_time(cbor, record.at);
  cbor.write_text("id"), write_id(cbor, record.id);
  cbor.write_text("who"), cbor.write_text(record.who);
  cbor.write_text("approval"), cbor.write_bytes(as_bytes(format::encode(record.approval)));
  cbor.finish();
  return out;
}

Result<> decode(ByteView meta, ApprovalRecord& out) {
  Fields in(meta);
  out.at = in.key("at").time();
  out.id = in.key("id").id();
  out.who = in.key("who").text();
  const std::string encoded = in.key("approval").bytes();
  TRY_VOID(in.done());
  auto approval = format::decode_approval_cbor(as_bytes(encoded));
  if (!approval) return not_a_record();
  out.approval = std::move(*approval);
  return {};
}

std::string encode(const CommitRecord& record) {
  std::string out;
  CborEncoder cbor(out);
  cbor.write_map(4);
  cbor.write_text("at"), write_time(cbor, record.at);
  cbor.write_text("id"), write_id(cbor, record.id);
  cbor.write_text("who"), cbor.write_text(record.who);
  cbor.write_text("commit"), cbor.write_bytes(as_bytes(record.commit));
  cbor.finish();
  return out;
}

Result<> decode(ByteView meta, CommitRecord& out) {
  Fields in(meta);
  out.at = in.key("at").time();
  out.id = in.key("id").id();
  out.who = in.key("who").text();
  out.commit = in.key("commit").bytes();
  return in.done();
}

std::string encode(const AuditRecord& record) {
  std::string out;
  CborEncoder cbor(out);
  cbor.write_map(4u + record.id.has_value() + record.hash.has_value());
  cbor.write_text("at"), write_time(cbor, record.at);
  if (record.id) cbor.write_text("id"), write_id(cbor, *record.id);
  cbor.write_text("op"), cbor.write_text(record.op);
  cbor.write_text("who"), cbor.write_text(record.who);
  cbor.write_text("code"), cbor.write_text(record.code);
  if (record.hash) cbor.write_text("hash"), cbor.write_bytes(record.hash->bytes);
  cbor.finish();
  return out;
}

Result<> decode(ByteView meta, AuditRecord& out) {
  Fields in(meta);
  out.at = in.key("at").time();
  if (in.has("id")) out.id = in.id();
  out.op = in.key("op").text();
  out.who = in.key("who").text();
  out.code = in.key("code").text();
  if (in.has("hash")) out.hash = in.address();
  return in.done();
}

std::string encode(const ExpiredRecord& record) {
  std::string out;
  CborEncoder cbor(out);
  cbor.write_map(2);
  cbor.write_text("at"), write_time(cbor, record.at);
  cbor.write_text("ids"), cbor.write_array(record.ids.size());
  for (const Ulid& id : record.ids) write_id(cbor, id);
  cbor.finish();
  return out;
}

Result<> decode(ByteView meta, ExpiredRecord& out) {
  Fields in(meta);
  out.at = in.key("at").time();
  const std::size_t count = in.key("ids").array();
  for (std::size_t i = 0; i < count && in.good(); ++i) out.ids.push_back(in.id());
  return in.done();
}

std::string encode(const CheckpointRecord& record) {
  std::string out;
  CborEncoder cbor(out);
  cbor.write_map(4);
  cbor.write_text("at"), write_time(cbor, record.at);
  cbor.write_text("note"), cbor.write_text(record.note);
  cbor.write_text("size"), cbor.write_uint(record.size);
  cbor.write_text("verified"), cbor.write_uint(record.verified);
  cbor.finish();
  return out;
}

Result<> decode(ByteView meta, CheckpointRecord& out) {
  Fields in(meta);
  out.at = in.key("at").time();
  out.note = in.key("note").text();
  out.size = in.key("size").number();
  out.verified = in.key("verified").number();
  return in.done();
}

std::string encode(const PrunedRecord& record) {
  std::string out;
  CborEncoder cbor(out);
  cbor.write_map(5);
  cbor.write_text("at"), write_time(cbor, record.at);
  cbor.write_text("below"), cbor.write_uint(record.below);
  cbor.write_text("first"), cbor.write_uint(record.first);
  cbor.write_text("leaves");
  cbor.write_bytes(std::as_bytes(std::span(record.leaves)));
  cbor.write_text("governors"), cbor.write_array(record.governors.size());
  for (const std::string& item : record.governors) cbor.write_bytes(as_bytes(item));
  cbor.finish();
  return out;
}

Result<> decode(ByteView meta, PrunedRecord& out) {
  Fields in(meta);
  out.at = in.key("at").time();
  out.below = in.key("below").number();
  out.first = in.key("first").number();
  const std::string leaves = in.key("leaves").bytes();
  if (leaves.size() % sizeof(crypto::MerkleHash) != 0 ||
      leaves.size() / sizeof(crypto::MerkleHash) > leaves_max)
    in.refuse();
  const std::size_t count = in.key("governors").array();
  for (std::size_t i = 0; i < count && in.good(); ++i) out.governors.push_back(in.bytes());
  TRY_VOID(in.done());
  out.leaves.resize(leaves.size() / sizeof(crypto::MerkleHash));
  if (!leaves.empty()) std::memcpy(out.leaves.data(), leaves.data(), leaves.size());
  if (out.first > out.below || out.below - out.first != out.leaves.size()) return not_a_record();
  return {};
}

}  // namespace cairn::registry
