#include "services/index/port.h"

#include <algorithm>

#include "crypto/blake3.h"
#include "services/index/home.h"
#include "store/object_format.h"

namespace cairn::index {
namespace {

constexpr std::size_t page = 512;
// How many entries one page of a list looks at, at most.
constexpr std::size_t looked_at_most = 8 * page;
// More than this is hashed on a thread of the pool.
constexpr std::size_t hashed_here_most = 32u << 10;

std::unexpected<Error> no_name() { return fail(ErrorCode::not_found, "there is no such name", Side::client); }

}  // namespace

Port::Port(Ledger& ledger, io::Machine& machine)
    : ledger_(ledger),
      machine_(machine),
      kv_(ledger.engine_->make_port(machine), ledger.status().index_damaged),
      files_(machine, ledger.segment_directory()) {}

Result<std::optional<NameState>> Port::read_state(const std::optional<std::string>& found) {
  if (!found) return std::optional<NameState>();
  NameState state;
  if (!decode(as_bytes(*found), state)) return fail(kv_.distrust("an entry of the index does not decode"));
  return state;
}

Result<std::optional<NameState>> Port::try_find_name(std::string_view name) {
  TRY(const auto found, kv_.try_get(name_key(name)));
  return read_state(found);
}

Task<Result<std::optional<NameState>>> Port::find_name(Call call, std::string name) {
  CO_TRY(const auto found, co_await kv_.get(call, name_key(name)));
  co_return read_state(found);
}

Task<Result<NamePage>> Port::list(Call call, std::string prefix, std::string after, std::size_t limit) {
  NamePage out;
  const std::string until = store::prefix_end(name_key(prefix));
  std::string from = after.empty() ? name_key(prefix) : std::max(name_key(prefix), name_key(after) + '\0');
  for (std::size_t looked_at = 0;;) {
    const std::size_t wanted = std::min(page, limit + 1 - out.names.size());
    CO_TRY(std::vector<store::KvPair> found, co_await kv_.scan(call, from, until, wanted));
    for (const store::KvPair& pair : found) {
      CO_TRY(const auto state, read_state(pair.value));
      if (!state->manifest) continue;
      if (out.names.size() == limit) {
        out.next = out.names.back().name;
        co_return out;
      }
      out.names.push_back({std::string(name_in(pair.key)), *state});
    }
    if (found.size() < wanted) co_return out;
    looked_at += found.size();
    from = found.back().key + '\0';
    if (looked_at < looked_at_most) continue;
    out.next = std::string(name_in(found.back().key));
    co_return out;
  }
}

Task<Result<HistoryPage>> Port::history(Call call, std::string name, std::optional<std::uint64_t> below,
                                        std::size_t limit) {
  HistoryPage out;
  const std::string from = change_key(name, below ? *below - 1 : UINT64_MAX), until = change_key(name, 0);
  if (below && *below <= 1) co_return out;
  CO_TRY(const std::vector<store::KvPair> found, co_await kv_.scan(call, from, until, limit + 1));
  if (found.empty() && !below) co_return no_name();
  for (const store::KvPair& pair : found) {
    if (out.changes.size() == limit) {
      out.next = out.changes.back().change.sequence;
      break;
    }
    ChangeRecord record;
    if (!decode(as_bytes(pair.value), record))
      co_return fail(kv_.distrust("an entry of the index does not decode"));
    auto change = format::read_name_change(as_bytes(record.change));
    if (!change) co_return fail(kv_.distrust("an entry of the index does not decode"));
    out.changes.push_back({std::move(record.by), std::move(*change)});
  }
  co_return out;
}

Task<Result<std::string>> Port::read_change(Call call, std::string name, std::uint64_t sequence) {
  CO_TRY(const auto found, co_await kv_.get(call, change_key(name, sequence)));
  if (!found) co_return no_name();
  ChangeRecord record;
  if (!decode(as_bytes(*found), record))
    co_return fail(kv_.distrust("an entry of the index does not decode"));
  co_return std::move(record.change);
}

Result<bool> Port::try_has_manifest(const Address& address) {
  TRY(const auto found, kv_.try_get(manifest_key(address)));
  return found.has_value();
}

Task<Result<bool>> Port::has_manifest(Call call, Address address) {
  CO_TRY(const auto found, co_await kv_.get(call, manifest_key(address)));
  co_return found.has_value();
}

Task<Result<std::optional<ManifestPlace>>> Port::find_manifest(Call call, Address address) {
  CO_TRY(const auto found, co_await kv_.get(call, manifest_key(address)));
  if (!found) co_return std::optional<ManifestPlace>();
  ManifestPlace place;
  if (!decode(as_bytes(*found), place)) co_return fail(kv_.distrust("an entry of the index does not decode"));
  co_return place;
}

Task<Result<std::shared_ptr<const HeapBytes>>> Port::read_manifest(Call call, Address address) {
  CO_TRY(const auto place, co_await find_manifest(call, address));
  if (!place) co_return fail(ErrorCode::not_found, "there is no such manifest", Side::client);
  auto file = co_await files_.get(call, place->at.segment);
  if (!file && file.error().code != ErrorCode::not_found) co_return fail(file.error());
  const auto bytes = std::make_shared<HeapBytes>(place->size);
  bool right = false;
  if (file) {
    CO_TRY(const std::size_t got,
           co_await (*file)->read_into(call, place->data_at(), {bytes->room(), bytes}));
    bytes->fill(got);
    if (got == place->size && got <= hashed_here_most) {
      right = crypto::hash_object(bytes->bytes()) == address;
    } else if (got == place->size) {
      CO_TRY(const Address found, co_await run(machine_.pool, call, Lane::cpu,
                                               [bytes] { return crypto::hash_object(bytes->bytes()); }));
      right = found == address;
    }
  }
  if (right) co_return std::shared_ptr<const HeapBytes>(bytes);
  ++ledger_.status().bad_manifests;
  auto forget = std::make_unique<Mutation>(Mutation::Kind::forget_manifest);
  forget->manifest = address;
  forget->at = place->at;
  // If too many changes wait, the next reader finds the same bytes and asks again.
  (void)ledger_.home().committer().errands().leave(std::move(forget), machine_.mailbox, &ledger_.changes());
  co_return fail(ErrorCode::integrity, "the manifest's bytes on the disk do not match its address");
}

Task<Result<Outcome>> Port::submit(Call call, std::unique_ptr<Mutation> mutation) {
  return ledger_.home().committer().errands().ask(call, std::move(mutation), machine_.mailbox,
                                                  &ledger_.changes());
}

}  // namespace cairn::index
