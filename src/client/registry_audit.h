// Audits: everything that a registry says of its past, checked again from the trust roots.
//
// The checkpoint's signature, every commit and, where there are payloads, every approval, the chain between
// them, and the tree over all of it. What was pruned is believed as far as the signed root vouches for it.
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
  std::uint64_t first = 0;         // the first of them: what was before is pruned
  bool approvals_checked = false;  // of every version checked
  std::uint64_t checkpoint_size = 0;
  std::string checkpoint = {};  // the note, once its signature was right
  // What is wrong, for people; empty: nothing. The version is named where it can be.
  std::optional<std::uint64_t> bad_version = {};
  std::string why = {};
  bool unproved = false;  // nothing is wrong with what is there, but it is too little to prove anything

  bool ok() const noexcept { return why.empty(); }
};

// `integrity` unless the note is the log's own: signed by its key, and about this genesis.
Result<crypto::Checkpoint> open_checkpoint(std::string_view note, const format::TrustRoots& roots);

// Over a server: all versions are fetched and checked, those beyond the checkpoint too; the head's inclusion
// is proved, and with `since`, an earlier checkpoint, that the log only grew. `moved` is told how many of how
// many are done. A failure is of the asking; what is wrong with the answers is in the report. Cancel: clean.
Task<Outcome<AuditReport>> audit_registry(Call call, RegistryClient* registry, format::TrustRoots roots,
                                          std::optional<crypto::Checkpoint> since,
                                          std::function<void(std::uint64_t, std::uint64_t)> moved);

// A file below the directory that has `checkpoint` and `tile/`; `not_found` when it is not there.
using TileReader = std::function<Result<std::string>(const std::string& path)>;

// Over bare tiles, which hold commits but no payloads: approvals stay unchecked. `present` names the files
// below `tile/` that are there (`tile/0/000.p/3`): those that the checkpoint does not need are compared too.
AuditReport audit_tiles(const format::TrustRoots& roots, const TileReader& read,
                        const std::vector<std::string>& present,
                        const std::optional<crypto::Checkpoint>& since);

}  // namespace cairn::client
