// RegistryClient: a typed interface to the registry service. Each function is one request and its answer.
// Work that takes many requests (a check of the whole log) is in registry_audit.h.
//
// Checks that need only the answer are made here: a payload hashes to the payload_b3 beside it, a commit to
// its commit_b3, a proposal holds what was proposed. If one fails the error is `integrity`. It is not checked
// whether anybody approved a version, nor whether all clients see the same chain: that needs trust roots.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "client/transport.h"
#include "crypto/merkle.h"
#include "crypto/tile.h"
#include "format/signed_commit.h"
#include "http/sse_parser.h"

namespace cairn::client {

struct RegistryHead {
  std::uint64_t version = 0;
  Address payload_b3, commit_b3;
  WallTime committed_at{};
  bool superseded = false;  // by the version after it; known in the log and in reads of a version
  // Sent by the stream only, unsigned: the commit before this one, and the root of the tree that ends with
  // it.
  std::optional<Address> prev = {};
  std::optional<crypto::MerkleHash> root = {};

  friend bool operator==(const RegistryHead&, const RegistryHead&) = default;
};

// A committed version.
struct RegistryVersion {
  RegistryHead head;
  format::Commit commit;      // its bytes are encode(commit)
  std::string payload;        // as signed
  format::DescriptorSet set;  // the same, decoded
  std::optional<std::uint64_t> supersedes = {};
};

struct RegistryProposal {
  std::string id;
  std::uint64_t version = 0;  // the version that it would become
  Address prev, payload_b3;
  std::string payload;  // as signed; empty where a list leaves it out
  WallTime expires_at{};
  std::vector<format::Approval> approvals = {};
};

struct ApprovalCount {
  std::uint64_t approvals = 0, m = 0, n = 0;
};

struct Committed {
  RegistryHead head;
  bool fresh = true;  // false: it was committed before
};

struct ProposalPage {
  std::vector<RegistryProposal> proposals;
  std::string next;  // there are more behind this id; empty: no more
};

// A request to the registry, as its audit trail has it, and its outcome.
struct AuditEvent {
  std::uint64_t sequence = 0;
  WallTime at{};
  std::string op, code;     // `ok`: the request was accepted
  std::uint64_t count = 1;  // so many equal requests within the second that begins at `at`
  std::string who;          // empty: unknown
  std::string proposal_id;  // empty: none
  std::optional<Address> hash;
};
struct AuditPage {
  std::vector<AuditEvent> events;
  std::optional<std::uint64_t> next;  // there are more behind this sequence
};

struct InclusionProof {
  std::uint64_t index = 0, size = 0;
  std::vector<crypto::MerkleHash> hashes;
};

// An event that a follower is told.
struct FollowEvent {
  enum class Kind : std::uint8_t {
    head,    // there is a new one
    lagged,  // `missed` heads were not sent; `head`, where the server says it, is the newest: go on from it
    lost,    // the connection broke (`why`); it is tried again
  };
  Kind kind = Kind::head;
  std::optional<RegistryHead> head = {};
  std::uint64_t missed = 0;
  std::string why = {};
};

// All: Cancel: partial — the server may have acted.
class RegistryClient {
 public:
  explicit RegistryClient(Transport& transport) noexcept : transport_(transport) {}
  Transport& transport() noexcept { return transport_; }

  Task<Outcome<RegistryHead>> head(Call call);
  // The head, once it is later than `after` or `wait` is over; nothing when the server says that it has not
  // changed.
  Task<Outcome<std::optional<RegistryHead>>> head_after(Call call, std::uint64_t after, Duration wait);
  Task<Outcome<RegistryVersion>> version(Call call, std::uint64_t version);
  // Heads from `from` on, ascending; the server may give fewer than `limit`.
  Task<Outcome<std::vector<RegistryHead>>> log(Call call, std::uint64_t from, std::uint64_t limit);

  // Checks whether the registry still has `seen`, as far as its word can be trusted. A registry cannot sign
  // two histories for clients that keep checkpoints (registry_audit.h), but it can be restored from an old
  // copy. `integrity` when it was rolled back or went on differently.
  Task<Outcome<>> check_kept(Call call, RegistryHead seen);
  // Checks that `now` follows `seen`: by its prev, by a proof of consistency, or else as check_kept().
  Task<Outcome<>> check_grown(Call call, RegistryHead seen, RegistryHead now);

  // Pending proposals, the oldest first, behind the one with the id `after`.
  Task<Outcome<ProposalPage>> proposals(Call call, std::string after = {});
  Task<Outcome<RegistryProposal>> proposal(Call call, std::string id);
  Task<Outcome<RegistryProposal>> propose(Call call, format::ProposalDraft draft);
  Task<Outcome<ApprovalCount>> approve(Call call, std::string id, format::Approval approval);
  // `approvals` are sent with the commit: that saves the last signer a request.
  Task<Outcome<Committed>> commit(Call call, std::string id, std::vector<format::Approval> approvals = {});
  Task<Outcome<Committed>> supersede(Call call, std::string id);

  // Events of the audit trail, the oldest first: those behind the sequence `after`, or without it the newest
  // ones; at most `limit`, which is 1 to 1000.
  Task<Outcome<AuditPage>> audit(Call call, std::optional<std::uint64_t> after, std::uint64_t limit);

  Task<Outcome<std::string>> checkpoint(Call call);  // the note as sent
  Task<Outcome<InclusionProof>> inclusion(Call call, std::uint64_t version, std::uint64_t size);
  Task<Outcome<std::vector<crypto::MerkleHash>>> consistency(Call call, std::uint64_t from, std::uint64_t to);
  Task<Outcome<std::string>> tile(Call call, crypto::TileId tile);

  // Calls `take` for every head later than `after` (without it: from now on) until `take` returns false; that
  // is success. A connection that ends is made again, with jittered pauses and Last-Event-ID, until the call
  // ends or the server refuses for good. `integrity` when a head does not follow those seen before. Cancel:
  // clean.
  Task<Outcome<>> follow(Call call, std::optional<RegistryHead> after,
                         std::function<bool(const FollowEvent&)> take);

 private:
  Task<Outcome<Committed>> commit_by(Call call, Ask ask);
  struct Following;
  // Reads one stream to its end: true when `take` has enough.
  Task<Outcome<bool>> follow_once(Call call, Following* following);
  Task<Outcome<bool>> take_event(Call call, Following* following, http::SseEvent event);

  Transport& transport_;
};

// Proposal ids are ULIDs. Other text in their place would make another path.
bool is_proposal_id(std::string_view text) noexcept;
// Parses the JSON of an answer to propose(), as programs keep it. The payload must hash to the payload_b3
// beside it.
Outcome<RegistryProposal> parse_proposal_answer(std::string_view text);

}  // namespace cairn::client
