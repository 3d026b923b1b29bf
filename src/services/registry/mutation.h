// Mutation: one change of a registry, as a shard asks the committer for it, and the committer's answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/errand.h"
#include "services/registry/ledger.h"

namespace cairn::registry {

struct Outcome {
  Head head;             // the committed head, else the present one
  bool existed = false;  // it had been committed before
  Ulid id;
  format::DescriptorSet set;  // of a proposal
  std::string payload;        // its bytes
  Address payload_b3;
  WallTime expires{};
  std::size_t approvals = 0;
  unsigned m = 0;
  std::size_t n = 0;
};

struct Mutation : Errand<Mutation, Outcome> {
  enum class Kind : std::uint8_t {
    propose,       // draft, items
    approve,       // id, approvals: exactly one
    commit,        // id; approvals that come with it
    supersede,     // the same
    refuse,        // op, id, hash, error: only noted, because it was refused on its shard
    expire,        // proposals whose time is over
    checkpoint,    // note
    prune,         // below, governors
    relocate,      // copies
    segment_gone,  // segment
  };
  explicit Mutation(Kind what) noexcept : kind(what) {}

  Kind kind;
  std::string who;
  Ulid id;
  format::ProposalDraft draft;
  std::vector<Hash> items;
  // Approvals that came with the change, until check_signatures().
  std::vector<format::Approval> given;
  // The signatures were found good under `signer_key`, over `payload_b3`.
  struct Signature {
    format::Approval approval;
    std::string signer_key;
  };
  std::vector<Signature> approvals;
  Address payload_b3;
  std::string op;
  Error error;
  CheckpointRecord checkpoint;
  std::uint64_t below = 0;
  std::vector<std::string> governors;
  std::uint32_t segment = 0;
  std::vector<store::Entry> copies;
};

}  // namespace cairn::registry
