#include "services/index/indexer.h"

#include "store/object_format.h"

namespace cairn::index {
namespace {

std::unexpected<Error> bad_record() {
  return fail(ErrorCode::integrity, "a record of the log does not decode");
}

}  // namespace

Task<Result<store::LogPoint>> Indexer::load(Call call) {
  store::LogPoint point;
  CO_TRY(const auto at, co_await kv_.get(call, store::log_point_key()));
  if (!at) co_return point;
  CO_TRY(const auto totals, co_await kv_.get(call, totals_key()));
  if (!totals || !decode(as_bytes(*at), point) || !decode(as_bytes(*totals), totals_))
    co_return fail(kv_.distrust("an entry of the index does not decode"));
  taken_totals_ = totals_;
  co_return point;
}

Task<Result<>> Indexer::apply(Call call, store::Entry entry) {
  switch (static_cast<RecordKind>(entry.header.kind)) {
    case RecordKind::change:
      return apply_change(call, std::move(entry));
    case RecordKind::manifest:
      return apply_manifest(call, std::move(entry));
    case RecordKind::forget_manifest:
      return apply_forget(call, std::move(entry));
  }
  return [](Error error) -> Task<Result<>> { co_return fail(error); }(bad_record().error());
}

Task<Result<>> Indexer::apply_change(Call call, store::Entry entry) {
  ChangeRecord record;
  if (!decode(as_bytes(entry.meta), record)) co_return bad_record();
  const auto change = format::read_name_change(as_bytes(record.change));
  if (!change) co_return bad_record();
  CO_TRY(const auto before, co_await name(call, change->name));
  if (before && before->sequence >= change->sequence) co_return Result<>{};  // NX-1
  const bool was = before && before->manifest, is = change->manifest.has_value();
  if (is && !was) ++totals_.names;
  if (was && !is) --totals_.names;
  ++totals_.changes;
  overlay_[name_key(change->name)] = encode(NameState{change->sequence, change->at, change->manifest});
  overlay_[change_key(change->name, change->sequence)] = std::move(entry.meta);
  co_return Result<>{};
}

Task<Result<>> Indexer::apply_manifest(Call call, store::Entry entry) {
  Address address;
  if (!decode_address(as_bytes(entry.meta), address)) co_return bad_record();
  CO_TRY(const auto before, co_await manifest(call, address));
  if (before && before->at >= entry.at) co_return Result<>{};  // NX-1
  totals_.manifests += before ? 0u : 1u;
  overlay_[manifest_key(address)] = encode(ManifestPlace{entry.at, entry.header.data_size});
  co_return Result<>{};
}

Task<Result<>> Indexer::apply_forget(Call call, store::Entry entry) {
  Address address;
  if (!decode_address(as_bytes(entry.meta), address)) co_return bad_record();
  CO_TRY(const auto before, co_await manifest(call, address));
  if (!before || before->at >= entry.at) co_return Result<>{};  // NX-1
  --totals_.manifests;
  overlay_[manifest_key(address)] = std::nullopt;
  co_return Result<>{};
}

store::KvBatch Indexer::take(const store::LogPoint& point) {
  store::KvBatch batch;
  batch.reserve(overlay_.size() + 2);
  while (!overlay_.empty()) {
    auto change = overlay_.extract(overlay_.begin());
    if (change.mapped())
      batch.put(std::move(change.key()), std::move(*change.mapped()));
    else
      batch.remove(std::move(change.key()));
  }
  taken_totals_ = totals_;
  batch.put(totals_key(), encode(totals_));
  batch.put(store::log_point_key(), encode(point));
  return batch;
}

void Indexer::forget() noexcept {
  overlay_.clear();
  totals_ = taken_totals_;
}

Task<Result<std::optional<std::string>>> Indexer::value(Call call, std::string key) {
  if (auto found = overlay_.find(key); found != overlay_.end()) co_return found->second;
  auto quick = kv_.try_get(key);
  if (quick || quick.error().code != ErrorCode::busy) co_return quick;
  co_return co_await kv_.get(call, std::move(key));
}

Task<Result<std::optional<NameState>>> Indexer::name(Call call, std::string name) {
  CO_TRY(const auto found, co_await value(call, name_key(name)));
  if (!found) co_return std::optional<NameState>();
  NameState state;
  if (!decode(as_bytes(*found), state)) co_return fail(kv_.distrust("an entry of the index does not decode"));
  co_return state;
}

Task<Result<std::optional<ManifestPlace>>> Indexer::manifest(Call call, Address address) {
  CO_TRY(const auto found, co_await value(call, manifest_key(address)));
  if (!found) co_return std::optional<ManifestPlace>();
  ManifestPlace place;
  if (!decode(as_bytes(*found), place)) co_return fail(kv_.distrust("an entry of the index does not decode"));
  co_return place;
}

}  // namespace cairn::index
