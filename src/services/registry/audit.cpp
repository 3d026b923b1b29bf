#include "services/registry/audit.h"

#include <algorithm>
#include <cstring>

#include "crypto/blake3.h"
#include "crypto/macaroon.h"
#include "format/registry_field.h"
#include "store/encoding.h"

namespace cairn::registry {
namespace {

constexpr std::int64_t second = 1000, minute = 60 * second;
constexpr std::string_view slot_tag{"cairn.audit\0\1", 13};
constexpr std::size_t seal_size = 8, op_size = 16, code_size = 32, who_size = 128;
constexpr auto latest = static_cast<std::uint64_t>(format::registry_time_max.ms);

using Seal = std::array<std::byte, seal_size>;

Seal seal_of(ByteView body) {
  std::string sealed(slot_tag);
  sealed.append(as_text(body));
  const crypto::Hash hash = crypto::hash_object(as_bytes(sealed)).bytes;
  Seal out;
  std::memcpy(out.data(), hash.data(), out.size());
  return out;
}

// Writes a text into a field of `size`, filled up with zeros. Other than plain ASCII becomes `?`.
void write_text(store::FieldWriter& out, std::string_view text, std::size_t size) {
  std::string field;
  for (const char c : text.substr(0, size)) field += c > ' ' && c <= '~' ? c : '?';
  field.resize(size);
  out.bytes(as_bytes(field));
}

bool read_text(store::FieldReader& in, std::string& text, std::size_t size) {
  text.resize(size);
  in.bytes({reinterpret_cast<std::byte*>(text.data()), size});
  const std::size_t end = std::min(text.find('\0'), text.size());
  const bool padded = text.find_first_not_of('\0', end) == std::string::npos;
  text.resize(end);
  return padded && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

// --- the table

bool AuditTable::take_turn(const std::string& who, WallTime now) {
  if (std::exchange(minute_, now.ms / minute) != now.ms / minute) turns_.clear();
  const auto found = turns_.find(who);
  if (found != turns_.end()) return found->second < alone_per_minute && ++found->second > 0;
  if (turns_.size() >= tokens_max) return false;
  turns_.emplace(who, 1);
  return true;
}

bool AuditTable::has_room() noexcept {
  if (waiting() < capacity_) return true;
  ++dropped_;
  return false;
}

void AuditTable::add(AuditEvent event) {
  if (has_room()) alone_.push_back(std::move(event));
}

void AuditTable::count(AuditEvent event) {
  Kind kind{event.at.ms / second, std::move(event.op), std::move(event.code), std::move(event.who)};
  const auto found = counted_.find(kind);
  if (found != counted_.end())
    ++found->second;
  else if (has_room())
    counted_.emplace(std::move(kind), 1);
}

void AuditTable::note(AuditEvent event) {
  if (!event.who.empty() && take_turn(event.who, event.at))
    add(std::move(event));
  else
    count(std::move(event));
}

std::vector<AuditEvent> AuditTable::take(WallTime now, bool all) {
  std::vector<AuditEvent> counted, out;
  std::erase_if(counted_, [&](const auto& one) {
    const auto& [at, op, code, who] = one.first;
    if (!all && at == now.ms / second) return false;
    counted.push_back({{at * second}, one.second, op, code, who, {}, {}});
    return true;
  });
  const auto time_of = [](const AuditEvent& event) { return event.at.ms; };
  std::ranges::merge(std::exchange(alone_, {}), counted, std::back_inserter(out), {}, time_of, time_of);
  return out;
}

std::uint64_t AuditTable::take_dropped() noexcept { return std::exchange(dropped_, 0); }

// --- the ring

std::string encode_slot(const AuditSlot& slot) {
  const AuditEvent& event = slot.event;
  const Ulid id = event.id.value_or(Ulid{});
  store::FieldWriter out;
  out.number(slot.sequence).number(static_cast<std::uint64_t>(event.at.ms)).number(event.count);
  out.number(id.high).number(id.low).bytes(event.hash.value_or(Address{}).bytes);
  write_text(out, event.op, op_size);
  write_text(out, event.code, code_size);
  write_text(out, event.who, who_size);
  std::string body = out.take();
  body.append(as_text(seal_of(as_bytes(body))));
  return body;
}

std::optional<AuditSlot> decode_slot(ByteView bytes) {
  if (bytes.size() != audit_slot_size) return std::nullopt;
  const ByteView body = bytes.first(bytes.size() - seal_size);
  if (!std::ranges::equal(seal_of(body), bytes.last(seal_size))) return std::nullopt;
  AuditSlot slot;
  AuditEvent& event = slot.event;
  std::uint64_t ms = 0;
  Ulid id;
  Address hash;
  store::FieldReader in(body);
  in.number(slot.sequence).number(ms).number(event.count).number(id.high).number(id.low).bytes(hash.bytes);
  const bool texts = read_text(in, event.op, op_size) && read_text(in, event.code, code_size) &&
                     read_text(in, event.who, who_size);
  if (!texts || !in.complete() || slot.sequence == 0 || event.count == 0 || ms > latest) return std::nullopt;
  event.at = {static_cast<std::int64_t>(ms)};
  if (id != Ulid{}) event.id = id;
  if (hash != Address{}) event.hash = hash;
  return slot;
}

}  // namespace cairn::registry
