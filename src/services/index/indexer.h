// Indexer: turns records of the log into changes of the map. The same code takes in a record that was just
// appended and one that is replayed, so that a map made anew equals the one that was kept.
//
//   [NX-1] Records are taken in by their order in the log. A record that is taken in again changes nothing.
//   [NX-2] The changes reach the map in one batch, with the log position that the batch stands for.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "services/index/record.h"
#include "store/kv.h"

namespace cairn::index {

class Indexer {
 public:
  // `kv` outlives it.
  explicit Indexer(store::Kv& kv) noexcept : kv_(kv) {}

  // Where the map stands, and its totals. Cancel: clean.
  Task<Result<store::LogPoint>> load(Call call);
  // Cancel: partial — forget() what was applied.
  Task<Result<>> apply(Call call, store::Entry entry);
  // All changes since the last take, with the log position that they stand for.
  store::KvBatch take(const store::LogPoint& point);
  void forget() noexcept;
  std::size_t changes() const noexcept { return overlay_.size(); }
  const Totals& totals() const noexcept { return totals_; }

  // Both see changes that were applied and not yet taken. Cancel: clean.
  Task<Result<std::optional<NameState>>> name(Call call, std::string name);
  Task<Result<std::optional<ManifestPlace>>> manifest(Call call, Address address);

 private:
  Task<Result<std::optional<std::string>>> value(Call call, std::string key);
  Task<Result<>> apply_change(Call call, store::Entry entry);
  Task<Result<>> apply_manifest(Call call, store::Entry entry);
  Task<Result<>> apply_forget(Call call, store::Entry entry);

  store::Kv& kv_;
  std::map<std::string, std::optional<std::string>, std::less<>> overlay_;  // none: removed
  Totals totals_, taken_totals_;
};

}  // namespace cairn::index
