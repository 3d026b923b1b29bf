// Port: one shard's way to a ledger: the state of a name, lists, histories and manifests, and changes,
// answered when durable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/index/ledger.h"
#include "services/index/map_port.h"
#include "services/index/mutation.h"
#include "store/log.h"

namespace cairn::index {

struct ListedName {
  std::string name;
  NameState state;  // it leads somewhere
};
struct NamePage {
  std::vector<ListedName> names;
  std::optional<std::string> next;  // the name after which the next page begins; none: that was all
};
struct PastChange {
  std::string by;
  format::NameChange change;
};
struct HistoryPage {
  std::vector<PastChange> changes;    // the newest first
  std::optional<std::uint64_t> next;  // the sequence below which the next page begins; none: that was all
};

class Port {
 public:
  // Both outlive it.
  Port(Ledger& ledger, io::Machine& machine);

  // --- reads. Cancel: clean.
  // From memory only: `busy` when find_name() has to look on the disk. A name that was removed has a state
  // without a manifest.
  Result<std::optional<NameState>> try_find_name(std::string_view name);
  Task<Result<std::optional<NameState>>> find_name(Call call, std::string name);
  // Names that begin with `prefix`, in order. A page may be short although there are more: it ends after so
  // many removed names.
  Task<Result<NamePage>> list(Call call, std::string prefix, std::string after, std::size_t limit);
  // Changes below the sequence `below`, if it is given. `not_found`: the name never was.
  Task<Result<HistoryPage>> history(Call call, std::string name, std::optional<std::uint64_t> below,
                                    std::size_t limit);
  // The signed bytes of one change. `not_found`: there is none.
  Task<Result<std::string>> read_change(Call call, std::string name, std::uint64_t sequence);
  // The bytes of a manifest, checked against the address. `not_found`; or `integrity`: the bytes are bad, and
  // the ledger forgets them.
  Task<Result<std::shared_ptr<const HeapBytes>>> read_manifest(Call call, Address address);
  // Whether the ledger has it, from memory only: `busy` when has_manifest() has to look on the disk.
  Result<bool> try_has_manifest(const Address& address);
  Task<Result<bool>> has_manifest(Call call, Address address);

  // --- changes. They return when durable. Cancel: partial — a change that was begun may still be done.
  Task<Result<Outcome>> submit(Call call, std::unique_ptr<Mutation> mutation);

 private:
  Result<std::optional<NameState>> read_state(const std::optional<std::string>& found);
  Task<Result<std::optional<ManifestPlace>>> find_manifest(Call call, Address address);

  Ledger& ledger_;
  io::Machine& machine_;
  MapPort kv_;
  store::SegmentFiles files_;
};

}  // namespace cairn::index
