#include "services/registry/recovery.h"

#include <algorithm>
#include <cstring>

#include "crypto/tile.h"
#include "services/registry/files.h"
#include "services/registry/port.h"
#include "services/registry/recorded_time.h"

namespace cairn::registry {

Recovery::Recovery(Registry& registry, io::Machine& machine, observe::Logger log)
    : registry_(registry), machine_(machine), log_(log) {}
Recovery::~Recovery() = default;

Task<Result<std::unique_ptr<EmbeddedBackend>>> Recovery::run(Call call) {
  const RegistryOptions& options = registry_.options();
  const auto made = co_await machine_.disk.make_directory(call, options.directory);
  if (!made && made.error().code != ErrorCode::conflict) co_return fail(made.error());
  const std::size_t slash = options.directory.rfind('/');
  const auto named = co_await machine_.disk.sync_directory(
      call, slash == std::string::npos ? "." : options.directory.substr(0, slash + 1));
  // A directory that was there may have been made by another user, in a place that this process may not read.
  if (made && !named) co_return fail(named.error());
  bool again = false;
  CO_TRY_VOID(co_await open_log(call, true, again));
  if (again) {
    log_.warn("the snapshot does not fit the log: the state is made anew");
    CO_TRY_VOID(co_await open_log(call, false, again));
    if (again) co_return fail(ErrorCode::integrity, "the log cannot be replayed");
  }
  port_ = registry_.make_port(machine_);
  CO_TRY_VOID(co_await heed_checkpoint(call));
  CO_TRY_VOID(heed_snapshot());
  // A genesis that is version 0 already was checked when it was imported.
  const Address payload_b3 = crypto::hash_object(as_bytes(options.genesis.payload));
  const Address commit_b3 = format::commit_b3(as_bytes(options.genesis.commit));
  bool fresh = false;
  const bool checked = registry_.ledger().with([&](Ledger& ledger) {
    fresh = ledger.empty();
    return !fresh && ledger.first_kept() == 0 && !ledger.bad().contains(0) &&
           ledger.version(0).commit_b3 == commit_b3 && ledger.version(0).payload_b3 == payload_b3;
  });
  if (!checked) CO_TRY_VOID(format::check_genesis(options.genesis));
  if (fresh) CO_TRY_VOID(co_await import_genesis(call));
  const bool ours = registry_.ledger().with([&](Ledger& ledger) {
    return ledger.first_kept() > 0 || ledger.bad().contains(0) || ledger.version(0).commit_b3 == commit_b3;
  });
  if (!ours) co_return fail(ErrorCode::integrity, "the log belongs to another genesis");
  CO_TRY_VOID(co_await heal_leaves(call));
  CO_TRY_VOID(co_await validate_tail(call));
  co_return std::move(backend_);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): `again` is in the caller's frame
Task<Result<>> Recovery::open_log(Call call, bool with_snapshot, bool& again) {
  again = false;
  const RegistryOptions& asked = registry_.options();
  store::LogOptions options;
  options.directory = registry_.segment_directory();
  options.segment_size = asked.segment_size;
  options.fsync = asked.fsync;
  options.reserve = asked.reserve;
  options.ahead = asked.ahead;
  replaying_.emplace();
  damage_.clear();
  store::LogPoint from;
  if (with_snapshot) {
    auto bytes = co_await read_file(call, machine_, asked.directory + "/state", snapshot_size_max);
    if (bytes) {
      if (auto decoded = Ledger::decode(as_bytes(*bytes))) {
        replaying_ = std::move(decoded->first);
        from = decoded->second;
        if (!replaying_->empty())
          witness_ = HeadMark{replaying_->head().version, replaying_->head().commit_b3};
      } else {
        log_.warn("the snapshot is damaged: the state is made anew from the log");
      }
    } else if (bytes.error().code != ErrorCode::not_found) {
      co_return fail(bytes.error());
    }
  }
  store::LogReport report;
  auto log = co_await store::Log::open(call, machine_, options, from, *this, report);
  if (!log) {
    if (!report.problem.empty()) log_.error("the log was not opened", {{"why", report.problem}});
    // With a snapshot the same records may not follow; without it they must.
    again = with_snapshot && from.sequence > 0 && log.error().code == ErrorCode::integrity;
    if (again) co_return Result<>{};
    co_return fail(log.error());
  }
  for (const store::ForeignFile& one : (*log)->take_foreign())
    log_.error(
        "a file that is not of this log was set aside",
        {{"path", one.path}, {"segment", one.segment}, {"header_segment", one.header_segment.value_or(0)}});
  if (report.index != store::IndexFit::good) {
    again = true;
    co_return Result<>{};
  }
  replaying_->settle();
  for (const store::Damage& damage : damage_) replaying_->mark_damage(damage);
  snapshot_end_ = from.sequence;
  if (report.records > 0 || report.cut_bytes > 0 || report.damaged > 0) {
    ++registry_.status().recoveries;
    log_.info("log replayed",
              {{"records", report.records}, {"damaged", report.damaged}, {"cut_bytes", report.cut_bytes}});
  }
  MaybeHead head;
  if (!replaying_->empty()) head = HeadMark{replaying_->head().version, replaying_->head().commit_b3};
  for (const auto& [version, why] : replaying_->bad())
    log_.error("a version is damaged", {{"version", version}, {"why", why}});
  for (const auto& [id, pending] : replaying_->pending())
    if (!replaying_->is_whole(pending))
      log_.error("a pending proposal is damaged: it cannot be committed",
                 {{"proposal_id", format_ulid(id)}, {"version", pending.set.version}});
  registry_.ledger().with([&](Ledger& ledger) { ledger = std::move(*replaying_); });
  replaying_.reset();
  backend_ = std::make_unique<EmbeddedBackend>(std::move(*log), head);
  co_return Result<>{};
}

Task<Result<>> Recovery::on_record(Call, store::Entry entry) {
  co_return replaying_->apply(entry.header.kind, as_bytes(entry.meta), entry.at);
}

Task<Result<>> Recovery::on_damage(Call, store::Damage damage) {
  log_.error("the log has a damaged place", {{"segment", damage.segment},
                                             {"from", damage.from},
                                             {"to", damage.to},
                                             {"first_sequence", damage.first_sequence},
                                             {"last_sequence", damage.last_sequence}});
  damage_.push_back(damage);
  co_return Result<>{};
}

Task<Result<>> Recovery::import_genesis(Call call) {
  const format::Genesis& genesis = registry_.options().genesis;
  CO_TRY(format::DescriptorSet set, format::decode_descriptor_set(as_bytes(genesis.payload)));
  CO_TRY_VOID(format::check_next_items(set.items));
  ProposalRecord proposal;
  proposal.id = new_id(machine_);
  proposal.at = set.created_at;
  proposal.who = "genesis";
  proposal.payload_b3 = crypto::hash_object(as_bytes(genesis.payload));
  std::vector<store::Record> batch;
  std::set<Hash> seen;
  const auto add = [&](RecordKind kind, std::string meta) {
    store::Record record;
    record.kind = static_cast<std::uint8_t>(kind);
    record.meta = std::move(meta);
    batch.push_back(std::move(record));
  };
  for (const std::string& item : set.items) {
    const Hash hash = crypto::hash_object(as_bytes(item)).bytes;
    proposal.list.runs.push_back({0, 0, hash});
    if (seen.insert(hash).second) add(RecordKind::item, item);
  }
  proposal.set = std::move(set);
  proposal.set.items.clear();
  proposal.expires = proposal.at;
  add(RecordKind::proposal, encode(proposal));
  add(RecordKind::commit, encode(CommitRecord{proposal.at, proposal.id, "genesis", genesis.commit}));
  const HeadMark next{0, format::commit_b3(as_bytes(genesis.commit))};
  CO_TRY(const auto placed, co_await backend_->advance(call, std::nullopt, next, std::move(batch)));
  co_return registry_.ledger().with([&](Ledger& ledger) -> Result<> {
    for (const store::Entry& entry : placed)
      TRY_VOID(ledger.apply(entry.header.kind, as_bytes(entry.meta), entry.at));
    return {};
  });
}

// Readers may know a checkpoint that was signed: a log that lost its commits must not sign others.
Task<Result<>> Recovery::heed_checkpoint(Call call) {
  auto bytes = co_await read_file(call, machine_, registry_.options().directory + "/checkpoint",
                                  crypto::note_size_max);
  if (!bytes) co_return Result<>{};
  const auto note = crypto::parse_note(*bytes);
  if (!note || !crypto::is_signed_by(*note, registry_.note_verifier())) co_return Result<>{};
  const auto seen = crypto::parse_checkpoint(note->text);
  if (!seen) co_return Result<>{};
  struct Known {
    std::uint64_t size = 0;
    bool same = true;
  };
  const Known known = registry_.ledger().with([&](Ledger& ledger) {
    const bool provable = seen->size <= ledger.provable();
    return Known{ledger.size(), !provable || ledger.tree().root_at(seen->size) == seen->root};
  });
  if (known.size == 0 && seen->size > 0)
    co_return fail(ErrorCode::integrity, "the log is gone, and its checkpoint is not: restore the segments");
  if (known.size < seen->size) fence_rolled_back("the log has lost versions that its checkpoint covers");
  if (known.size >= seen->size && !known.same) fence_rolled_back("the log does not fit its checkpoint");
  co_return Result<>{};
}

// The same for a snapshot, which was made of durable records: one that is newer than the log shows that
// records are lost.
Result<> Recovery::heed_snapshot() {
  if (!witness_) return {};
  const HeadMark seen = *std::exchange(witness_, {});
  struct Known {
    std::uint64_t size = 0;
    bool same = true;
  };
  const Known known = registry_.ledger().with([&](Ledger& ledger) {
    const bool comparable = seen.version < ledger.size() && seen.version >= ledger.first_kept() &&
                            !ledger.bad().contains(seen.version);
    return Known{ledger.size(), !comparable || ledger.version(seen.version).commit_b3 == seen.commit_b3};
  });
  if (known.size == 0)
    return fail(ErrorCode::integrity, "the log is gone, and its snapshot is not: restore the segments");
  if (known.size <= seen.version) fence_rolled_back("the log has lost versions that its snapshot knows");
  if (!known.same) fence_rolled_back("the log does not fit its snapshot");
  return {};
}

// Leaf hashes that the log lost may be in the tiles; the last checkpoint says whether they are right.
Task<Result<>> Recovery::heal_leaves(Call call) {
  struct Broken {
    std::set<std::uint64_t> leaves;
    std::optional<SignedHead> checkpoint;
    std::uint64_t size = 0;
  };
  const Broken broken = registry_.ledger().with(
      [](Ledger& ledger) { return Broken{ledger.broken(), ledger.checkpoint(), ledger.size()}; });
  if (broken.leaves.empty() || !broken.checkpoint) co_return Result<>{};
  auto note = crypto::parse_note(broken.checkpoint->note);
  if (!note || !crypto::is_signed_by(*note, registry_.note_verifier())) co_return Result<>{};
  auto signed_head = crypto::parse_checkpoint(note->text);
  if (!signed_head) co_return Result<>{};
  std::map<std::uint64_t, crypto::MerkleHash> found;
  for (const std::uint64_t leaf : broken.leaves) {
    const crypto::TilePlace place = crypto::tile_of(0, leaf);
    crypto::TileId tile = place.tile;
    tile.width = crypto::tile_width(0, tile.index, signed_head->size);
    if (place.offset >= tile.width) continue;
    auto bytes = co_await read_file(call, machine_,
                                    registry_.options().directory + "/" + crypto::format_tile_path(tile),
                                    crypto::tile_width_max * sizeof(crypto::MerkleHash));
    if (!bytes || bytes->size() < (place.offset + 1) * sizeof(crypto::MerkleHash)) continue;
    crypto::MerkleHash hash;
    std::memcpy(hash.data(), bytes->data() + place.offset * sizeof hash, sizeof hash);
    found.emplace(leaf, hash);
  }
  const bool healed = registry_.ledger().with(
      [&](Ledger& ledger) { return ledger.heal(found, signed_head->size, signed_head->root); });
  if (!healed) log_.error("the tree has leaves that are lost: nothing is proved beyond them");
  co_return Result<>{};
}

// Reads every version from the last checkpoint to HEAD again before any request is served.
Task<Result<>> Recovery::validate_tail(Call call) {
  struct Tail {
    std::uint64_t from = 0, size = 0;
    std::optional<SignedHead> checkpoint;
    std::optional<crypto::MerkleHash> root;
  };
  const Tail tail = registry_.ledger().with([](Ledger& ledger) {
    Tail out;
    out.size = ledger.size();
    out.checkpoint = ledger.checkpoint();
    out.from = out.checkpoint ? out.checkpoint->size : ledger.first_kept();
    out.from = std::max(out.from, ledger.first_kept());
    if (out.checkpoint && out.checkpoint->size <= ledger.provable())
      out.root = ledger.tree().root_at(out.checkpoint->size);
    return out;
  });
  const auto bad = [&](std::uint64_t version, const char* why) {
    log_.error("a version is damaged", {{"version", version}, {"why", why}});
    registry_.ledger().with([&](Ledger& ledger) { ledger.mark_bad(version, why); });
  };
  if (tail.root) {
    const auto note = crypto::parse_note(tail.checkpoint->note);
    const auto signed_head =
        note ? crypto::parse_checkpoint(note->text) : fail(ErrorCode::malformed, "no note");
    if (!signed_head || !crypto::is_signed_by(*note, registry_.note_verifier()) ||
        signed_head->size != tail.checkpoint->size || signed_head->root != *tail.root)
      bad(tail.checkpoint->size - 1, "the last checkpoint does not fit the log");
  }
  Address prev;
  for (std::uint64_t version = tail.from; version < tail.size; ++version) {
    const bool known = registry_.ledger().with([&](Ledger& ledger) {
      if (version > 0) prev = ledger.version(version - 1).commit_b3;
      return ledger.bad().contains(version);
    });
    if (known) continue;
    auto commit = co_await port_->read_commit(call, version);
    if (!commit && commit.error().code != ErrorCode::integrity) co_return fail(commit.error());
    const auto decoded =
        commit ? format::decode_commit(as_bytes(*commit)) : Result<format::Commit>(fail(commit.error()));
    if (!decoded || decoded->version != version || (version > 0 && decoded->prev != prev))
      bad(version, "its commit does not follow the one before it");
  }
  co_return Result<>{};
}

// Every later start will find the same.
void Recovery::fence_rolled_back(const char* why) noexcept {
  registry_.status().rolled_back = true;
  if (registry_.status().fenced.exchange(true)) return;
  log_.error(
      "writes are fenced, also after a restart, until the newer segments are back",
      {{"why", why},
       {"directory", registry_.options().directory},
       {"hint", "restore segments/ and restart; or accept the loss: take checkpoint, tile/ and state away"}});
}

}  // namespace cairn::registry
