#include "services/registry/checkpointer.h"

#include <algorithm>

#include "crypto/signed_note.h"
#include "runtime/wait.h"
#include "services/registry/files.h"
#include "services/registry/recorded_time.h"

namespace cairn::registry {
namespace {

// A burst of commits shares one checkpoint. A commit is to be covered within a second.
constexpr Duration settle_time = Duration::millis(700);
constexpr Duration retry_time = Duration::seconds(5);

}  // namespace

Task<> Checkpointer::run(Call call) {
  if (auto mended = co_await with_.tiles.mend(call); !mended && !call.stopped())
    log_.warn("tiles were not looked at", {{"why", mended.error().context}});
  // The last checkpoint may be from before this start.
  const Duration age = Duration::millis(
      std::max<std::int64_t>(0, recorded_time(machine_.shard).ms - registry_.status().checkpoint_at));
  Instant next = machine_.shard.now() + std::max(Duration{}, interval_ - age);
  for (;;) {
    const bool covered = registry_.ledger().with(
        [](Ledger& ledger) { return ledger.checkpoint() && ledger.checkpoint()->size == ledger.size(); });
    const bool due = next <= machine_.shard.now();
    if (covered && !due) {
      (void)co_await with_.newest.next(call.by(next));
      if (call.stopped()) co_return;
      continue;
    }
    if (!co_await sleep_for(call, settle_time)) co_return;
    auto signed_head = co_await run_once(call);
    if (signed_head && with_.snapshots.is_due()) signed_head = co_await with_.snapshots.write(call);
    if (call.stopped()) co_return;
    next = machine_.shard.now() + interval_;
    if (signed_head) continue;
    // Nothing more is committed until there is room for a checkpoint again.
    if (signed_head.error().code == ErrorCode::storage_full) registry_.status().full = true;
    log_.warn("no checkpoint was made", {{"why", signed_head.error().context}});
    if (!co_await sleep_for(call, retry_time)) co_return;
  }
}

Task<Result<>> Checkpointer::run_once(Call call) {
  struct Wanted {
    std::uint64_t from = 0, size = 0, verified = 0;
    crypto::MerkleHash root{};
    std::vector<crypto::MerkleHash> leaves;
    std::optional<SignedHead> last;
    crypto::MerkleHash last_root{};
  };
  const bool fenced = registry_.status().fenced;
  CO_TRY(Wanted wanted, registry_.ledger().with([fenced](Ledger& ledger) -> Result<Wanted> {
    if (fenced || !ledger.bad().empty() || ledger.provable() < ledger.size())
      return fail(ErrorCode::degraded, "nothing is signed over a damaged version");
    Wanted out;
    out.size = ledger.size();
    out.verified = ledger.verified();
    out.root = ledger.tree().root();
    out.last = ledger.checkpoint();
    out.from = std::max(out.last ? out.last->size : 0, ledger.first_kept());
    if (out.last && out.last->size > out.size)
      return fail(ErrorCode::integrity, "the last checkpoint does not fit the log");
    if (out.last) out.last_root = ledger.tree().root_at(out.last->size);
    const auto leaves = ledger.tree().nodes(0, out.from, out.size - out.from);
    out.leaves.assign(leaves.begin(), leaves.end());
    return out;
  }));
  // Never two roots for one size: the tree must still begin with the tree that was signed.
  if (wanted.last) {
    const auto note = crypto::parse_note(wanted.last->note);
    const auto before = note ? crypto::parse_checkpoint(note->text) : fail(ErrorCode::malformed, "no note");
    if (!before || before->size != wanted.last->size || before->root != wanted.last_root)
      co_return fail(ErrorCode::integrity, "the last checkpoint does not fit the log");
  }
  for (std::uint64_t version = wanted.from; version < wanted.size; ++version) {
    CO_TRY(const std::string commit, co_await with_.port.read_commit(call, version));
    if (crypto::hash_leaf(as_bytes(commit)) != wanted.leaves[version - wanted.from])
      co_return fail(ErrorCode::integrity, "a commit was not read back as it was written");
  }
  crypto::Checkpoint checkpoint;
  checkpoint.origin = registry_.note_verifier().name;
  checkpoint.size = wanted.size;
  checkpoint.root = wanted.root;
  std::string note = crypto::sign_note(crypto::format_checkpoint(checkpoint), checkpoint.origin,
                                       *registry_.options().log_key);
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::checkpoint);
  mutation->checkpoint.note = note;
  mutation->checkpoint.size = wanted.size;
  mutation->checkpoint.verified = std::max(wanted.verified, with_.verifier.verified());
  CO_TRY_VOID(co_await with_.chores.ask(call, std::move(mutation)));
  CO_TRY_VOID(co_await with_.tiles.write(call, wanted.size));
  CO_TRY_VOID(co_await replace_file(call, machine_, registry_.options().directory + "/checkpoint", note));
  co_await with_.tiles.remove_narrower(call);
  with_.pruner.offer(wanted.size);
  co_return Result<>{};
}

}  // namespace cairn::registry
