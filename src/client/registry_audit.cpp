#include "client/registry_audit.h"

#include <fmt/format.h>

#include <cstring>

#include "format/chain_verifier.h"

namespace cairn::client {
namespace {

class Audit {
 public:
  Audit(RegistryClient* registry, format::TrustRoots roots,
        std::function<void(std::uint64_t, std::uint64_t)> moved)
      : registry_(registry), roots_(std::move(roots)), moved_(std::move(moved)) {}

  // Cancel: clean.
  Task<Outcome<AuditReport>> run(Call call, std::optional<crypto::Checkpoint> since) {
    CO_TRY(std::string note, co_await registry_->checkpoint(call));
    auto checkpoint = open_checkpoint(note, roots_);
    if (!checkpoint) co_return wrong(fmt::format("checkpoint: {}", checkpoint.error().context));
    checkpoint_ = std::move(*checkpoint);
    report_.checkpoint = std::move(note);
    report_.checkpoint_size = checkpoint_.size;
    if (checkpoint_.size == 0) co_return wrong("checkpoint: it covers nothing, not even genesis");
    CO_TRY(const RegistryHead head, co_await registry_->head(call));
    if (head.version + 1 < checkpoint_.size)
      co_return wrong(fmt::format("the head is version {}, but the checkpoint covers {} versions",
                                  head.version, checkpoint_.size));
    CO_TRY_VOID(co_await begin(call));
    while (report_.ok() && verifier_->size() <= head.version) CO_TRY_VOID(co_await take_next(call, head));
    if (report_.ok() && verifier_->head() != head.commit_b3)
      bad(head.version, "the head that the server names is another commit");
    if (report_.ok()) CO_TRY_VOID(co_await prove_head(call));
    if (report_.ok() && since) CO_TRY_VOID(co_await prove_growth(call, *since));
    if (verifier_) report_.approvals_checked = verifier_->approvals_checked();
    co_return std::move(report_);
  }

 private:
  AuditReport wrong(std::string why) {
    report_.why = std::move(why);
    return std::move(report_);
  }
  void bad(std::uint64_t version, std::string_view why) {
    report_.bad_version = version;
    report_.why = fmt::format("version {}: {}", version, why);
  }

  // Finds where the chain begins: at genesis, or behind the pruned part.
  Task<Outcome<>> begin(Call call) {
    auto genesis = co_await registry_->version(call, 0);
    if (genesis || genesis.error().code() != ErrorCode::pruned) {
      verifier_.emplace(roots_);
      co_return Outcome<>{};
    }
    std::uint64_t low = 1, high = checkpoint_.size - 1;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      auto there = co_await registry_->version(call, middle);
      if (!there && there.error().code() == ErrorCode::pruned)
        low = middle + 1;
      else if (there || there.error().code() == ErrorCode::integrity)
        high = middle;
      else
        co_return fail(std::move(there.error()));
    }
    report_.first = low;
    CO_TRY(const RegistryVersion first, co_await registry_->version(call, low));
    format::ChainVerifier::Start start{.prev = first.commit.prev};
    CO_TRY_VOID(co_await read_leaves(call, low, &start.leaves));
    verifier_.emplace(std::move(start));
    co_return Outcome<>{};
  }

  // Reads the hashes of the pruned versions. The root shows whether they are right.
  Task<Outcome<>> read_leaves(Call call, std::uint64_t count, crypto::MerkleFrontier* leaves) {
    while (leaves->size() < count) {
      crypto::TileId id{.index = leaves->size() / crypto::tile_width_max};
      id.width = crypto::tile_width(0, id.index, checkpoint_.size);
      auto tile = co_await registry_->tile(call, id);
      if (!tile && tile.error().code() == ErrorCode::not_found && id.width < crypto::tile_width_max) {
        id.width = crypto::tile_width_max;
        tile = co_await registry_->tile(call, id);
      }
      if (!tile) co_return fail(std::move(tile.error()));
      crypto::MerkleHash hash;
      if (tile->size() != id.width * hash.size())
        co_return fail(Failure(ErrorCode::upstream, "a tile has another size than its name says"));
      for (std::size_t at = 0; at < tile->size() && leaves->size() < count; at += hash.size()) {
        std::memcpy(hash.data(), tile->data() + at, hash.size());
        leaves->append(hash);
      }
    }
    co_return Outcome<>{};
  }

  Task<Outcome<>> take_next(Call call, RegistryHead head) {
    const std::uint64_t version = verifier_->size();
    auto fetched = co_await registry_->version(call, version);
    if (!fetched) {
      const ErrorCode code = fetched.error().code();
      if (code != ErrorCode::integrity && code != ErrorCode::not_found && code != ErrorCode::pruned)
        co_return fail(std::move(fetched.error()));
      bad(version, code == ErrorCode::integrity
                       ? fetched.error().message
                       : fmt::format("the server does not have it any more, but later ones ({})",
                                     fetched.error().message));
      co_return Outcome<>{};
    }
    const std::string commit = encode(fetched->commit);
    if (auto taken = verifier_->take(as_bytes(commit), as_bytes(fetched->payload)); !taken) {
      bad(version, taken.error().context);
      co_return Outcome<>{};
    }
    ++report_.versions;
    if (moved_) moved_(report_.versions, head.version + 1 - report_.first);
    if (verifier_->size() != checkpoint_.size) co_return Outcome<>{};
    if (verifier_->root() != checkpoint_.root)
      report_.why = "checkpoint: its root is not the one of the commits it covers";
    last_covered_ = crypto::hash_leaf(as_bytes(commit));
    co_return Outcome<>{};
  }

  Task<Outcome<>> prove_head(Call call) {
    const std::uint64_t version = checkpoint_.size - 1;
    CO_TRY(const InclusionProof proof, co_await registry_->inclusion(call, version, checkpoint_.size));
    if (!crypto::verify_inclusion(last_covered_, version, checkpoint_.size, proof.hashes, checkpoint_.root))
      bad(version, "the server's proof that the checkpoint includes it does not hold");
    co_return Outcome<>{};
  }

  Task<Outcome<>> prove_growth(Call call, crypto::Checkpoint since) {
    if (since.size > checkpoint_.size) {
      report_.why = fmt::format("checkpoint: it covers {} versions, the earlier one {}: the log has shrunk",
                                checkpoint_.size, since.size);
      co_return Outcome<>{};
    }
    std::vector<crypto::MerkleHash> hashes;
    if (since.size > 0 && since.size < checkpoint_.size) {
      CO_TRY(hashes, co_await registry_->consistency(call, since.size, checkpoint_.size));
    }
    if (!crypto::verify_consistency(since.size, checkpoint_.size, hashes, since.root, checkpoint_.root))
      report_.why = fmt::format(
          "checkpoint: the log does not begin with the {} versions of the earlier one: it was rewritten",
          since.size);
    co_return Outcome<>{};
  }

  RegistryClient* registry_;
  format::TrustRoots roots_;
  std::function<void(std::uint64_t, std::uint64_t)> moved_;
  crypto::Checkpoint checkpoint_;
  std::optional<format::ChainVerifier> verifier_;
  crypto::MerkleHash last_covered_{};
  AuditReport report_;
};

}  // namespace

Result<crypto::Checkpoint> open_checkpoint(std::string_view note, const format::TrustRoots& roots) {
  const auto wrong = [](const char* why) { return fail(ErrorCode::integrity, why, Side::upstream); };
  const auto verifier = crypto::parse_verifier_key(roots.log_key);
  if (!verifier) return wrong("the trust roots have no key of the log");
  const auto parsed = crypto::parse_note(note);
  if (!parsed) return wrong("it is not a signed note");
  if (!crypto::is_signed_by(*parsed, *verifier)) return wrong("it is not signed by the log's key");
  auto checkpoint = crypto::parse_checkpoint(parsed->text);
  if (!checkpoint) return wrong("its text is not a checkpoint's");
  if (checkpoint->origin != format_address(roots.genesis_payload_b3))
    return wrong("it is of another registry");
  return std::move(*checkpoint);
}

Task<Outcome<AuditReport>> audit_registry(Call call, RegistryClient* registry, format::TrustRoots roots,
                                          std::optional<crypto::Checkpoint> since,
                                          std::function<void(std::uint64_t, std::uint64_t)> moved) {
  Audit audit(registry, std::move(roots), std::move(moved));
  co_return co_await audit.run(call, std::move(since));
}

}  // namespace cairn::client
