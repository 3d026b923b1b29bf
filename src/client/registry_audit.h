// Audits: check a registry's whole history again, from the trust roots.
//
// An audit checks the checkpoint's signature, every commit, every approval where there are payloads, the
// chain between the commits, and the tree over all of them. The pruned part is trusted as far as the signed
// root vouches for it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/registry_client.h"
#include "crypto/signed_note.h"

namespace cairn::client {

struct AuditReport {
  std::uint64_t versions = 0;      // checked
  std::uint64_t first = 0;         // the first of them; all before it is pruned
  bool approvals_checked = false;  // of every version checked
  std::uint64_t checkpoint_size = 0;
  std::string checkpoint = {};  // the note, once its signature was right
  // The fault, as text for people; empty: there is none. The version is named where it can be.
  std::optional<std::uint64_t> bad_version = {};
  std::string why = {};
  bool unproved = false;  // nothing is wrong with what is there, but it is too little to prove anything

  bool ok() const noexcept { return why.empty(); }
};

// `integrity` unless the note belongs to this log: signed by its key, and about this genesis.
Result<crypto::Checkpoint> open_checkpoint(std::string_view note, const format::TrustRoots& roots);

// Audits a server: fetches and checks all versions, those beyond the checkpoint too, and proves the head's
// inclusion. With `since`, an earlier checkpoint, it also proves that the log only grew. `moved` is told how
// many versions of how many are done. A failure means that a request failed; faults in the answers are in the
// report. Cancel: clean.
Task<Outcome<AuditReport>> audit_registry(Call call, RegistryClient* registry, format::TrustRoots roots,
                                          std::optional<crypto::Checkpoint> since,
                                          std::function<void(std::uint64_t, std::uint64_t)> moved);

// Reads a file below the directory that has `checkpoint` and `tile/`; `not_found` when there is no such file.
using TileReader = std::function<Result<std::string>(const std::string& path)>;

// Audits bare tiles, which hold commits but no payloads: approvals stay unchecked. `present` names the files
// that exist below `tile/` (`tile/0/000.p/3`): files that the checkpoint does not need are compared too.
AuditReport audit_tiles(const format::TrustRoots& roots, const TileReader& read,
                        const std::vector<std::string>& present,
                        const std::optional<crypto::Checkpoint>& since);

}  // namespace cairn::client
