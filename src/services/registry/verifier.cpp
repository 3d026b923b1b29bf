#include "services/registry/verifier.h"

#include <algorithm>

#include "runtime/wait.h"

namespace cairn::registry {
namespace {

constexpr std::uint64_t versions_per_slice = 16, versions_beside_commits = 2;
constexpr Duration pause = Duration::millis(4);
// The newest commits were checked a moment ago, so the verifier yields to callers that commit now.
constexpr Duration after_commit = Duration::seconds(1);
constexpr Duration between_passes = Duration::seconds(24 * 3600);

}  // namespace

Task<> Verifier::run(Call call) {
  Instant begun = machine_.shard.now();
  for (;;) {
    auto done = co_await verify_some(call, slice());
    if (call.stopped()) co_return;
    if (!done) log_.warn("the chain was not verified", {{"why", done.error().context}});
    if (!done || !*done) {
      if (!co_await sleep_for(call, done ? pause : Duration::seconds(5))) co_return;
      continue;
    }
    // The precise clock: a short chain takes less than a turn of the shard's loop.
    registry_.status().verify_took = (machine_.shard.precise_now() - begun).ns;
    ++registry_.status().verify_passes;
    // New commits are verified as they come; now and then the whole chain is verified again.
    const Instant again = begun + between_passes;
    while (machine_.shard.now() < again) {
      (void)co_await newest_.next(call.by(again));
      if (call.stopped()) co_return;
      if (!co_await sleep_for(call, after_commit)) co_return;
      while (!co_await caught_up(call))
        if (!co_await sleep_for(call, pause)) co_return;
    }
    begun = machine_.shard.now();
    deep_.reset();
    deep_from_ = 0;
  }
}

// Checking a signature takes as long as a small request, so slices are short while there are commits.
std::uint64_t Verifier::slice() const noexcept {
  const bool quiet = machine_.shard.now() - newest_.last() > after_commit;
  return quiet ? versions_per_slice : versions_beside_commits;
}

Task<bool> Verifier::caught_up(Call call) {
  const auto done = co_await verify_some(call, slice());
  co_return !done || *done || call.stopped();
}

// A verifier that goes on at a version, with the ledger's knowledge of the versions before it.
Task<Result<std::unique_ptr<format::ChainVerifier>>> Verifier::resume_verifier(Call call,
                                                                               std::uint64_t version) {
  if (version == 0) {
    format::TrustRoots roots;
    roots.genesis_payload_b3 = crypto::hash_object(as_bytes(registry_.options().genesis.payload));
    roots.genesis_commit_b3 = format::commit_b3(as_bytes(registry_.options().genesis.commit));
    roots.log_key = crypto::format_verifier_key(registry_.note_verifier());
    co_return std::make_unique<format::ChainVerifier>(roots);
  }
  format::ChainVerifier::Start start;
  std::vector<std::string> governors;
  const bool floor = registry_.ledger().with([&](Ledger& ledger) {
    start.prev = ledger.version(version - 1).commit_b3;
    start.leaves = ledger.tree().frontier_at(version);
    governors = ledger.floor_governors();
    return version == ledger.first_kept();
  });
  if (floor) {
    // The version before is gone: the first kept version's commit has the hash of its commit.
    CO_TRY(const std::string commit, co_await port_.read_commit(call, version));
    CO_TRY(const format::Commit decoded, format::decode_commit(as_bytes(commit)));
    start.prev = decoded.prev;
    if (auto governance = format::read_governance(governors)) start.governance = std::move(*governance);
  } else if (auto before = co_await port_.load_version(call, version - 1)) {
    CO_TRY(const format::DescriptorSet set, format::decode_descriptor_set(as_bytes((*before)->payload)));
    CO_TRY(start.governance, format::read_governance(set.items));
    start.committed_at = (*before)->head.committed_at;
  }
  co_return std::make_unique<format::ChainVerifier>(std::move(start));
}

Task<Result<bool>> Verifier::verify_some(Call call, std::uint64_t most) {
  if (!deep_) {
    const std::uint64_t from = registry_.ledger().with([&](Ledger& ledger) {
      return std::min(std::max(deep_from_.value_or(ledger.verified()), ledger.first_kept()), ledger.size());
    });
    CO_TRY(deep_, co_await resume_verifier(call, from));
  }
  for (std::uint64_t i = 0; i < most; ++i) {
    const std::uint64_t version = deep_->size();
    struct Next {
      bool end = false, pruned = false, bad = false;
      crypto::MerkleHash root{};
    };
    const Next next = registry_.ledger().with([&](Ledger& ledger) {
      Next out;
      out.end = version >= ledger.size();
      out.pruned = version < ledger.first_kept();
      out.bad = ledger.bad().contains(version);
      if (!out.end) out.root = ledger.tree().root_at(version + 1);
      return out;
    });
    registry_.status().verified = version;
    if (next.end) co_return true;
    if (next.pruned) {
      deep_.reset();
      co_return false;
    }
    Result<std::shared_ptr<Artifact>> artifact = fail(ErrorCode::integrity, "it was found damaged");
    if (!next.bad) artifact = co_await port_.load_version(call, version);
    if (!artifact && artifact.error().code != ErrorCode::integrity) co_return fail(artifact.error());
    std::string why;
    if (!artifact) {
      why = artifact.error().context;
    } else if (!deep_->take(as_bytes((*artifact)->commit), as_bytes((*artifact)->payload))) {
      why = deep_->why();
    } else if (deep_->root() != next.root) {
      why = "its leaf in the tree is another";
    }
    if (why.empty()) continue;
    if (!next.bad) {
      log_.error("a version is damaged", {{"version", version}, {"why", why}});
      registry_.status().bad = registry_.ledger().with([&](Ledger& ledger) {
        ledger.mark_bad(version, why);
        return ledger.bad().size();
      });
    }
    // Later versions may be good, but their approvals cannot be judged without this one.
    deep_.reset();
    deep_from_ = version + 1;
    co_return version + 1 >= registry_.ledger().with([](Ledger& ledger) { return ledger.size(); });
  }
  co_return false;
}

}  // namespace cairn::registry
