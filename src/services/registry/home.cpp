#include "services/registry/home.h"

#include <algorithm>

#include "crypto/tile.h"
#include "format/chain_verifier.h"
#include "runtime/wait.h"
#include "services/registry/files.h"
#include "services/registry/port.h"

namespace cairn::registry {

Home::Home(Registry& registry, io::Machine& machine, observe::Logger log)
    : registry_(registry),
      machine_(machine),
      log_(log),
      retention_(registry.options().retention),
      checkpoint_interval_(registry.options().checkpoint_interval),
      errands_(machine.shard, machine.mailbox, {queue_is_full, "the registry is closed"}),
      retention_commands_(std::make_unique<Mpsc<std::uint64_t>>(machine.shard, retention_capacity)) {
  const RegistryOptions& options = registry.options();
  verifier_.name = format_address(crypto::hash_object(as_bytes(options.genesis.payload)));
  verifier_.key = options.log_key->public_key();
}

// Without close() nothing is lost that was answered: the next start only reads more of the log.
Home::~Home() {
  if (registry_.status_.open) log_.debug("dropped unclosed", {{"directory", registry_.options().directory}});
}

// --- opening

Task<Result<>> Home::open(Call call) {
  const RegistryOptions& options = registry_.options();
  const auto made = co_await machine_.disk.make_directory(call, options.directory);
  if (!made && made.error().code != ErrorCode::conflict) co_return fail(made.error());
  const std::size_t slash = options.directory.rfind('/');
  const auto named = co_await machine_.disk.sync_directory(
      call, slash == std::string::npos ? "." : options.directory.substr(0, slash + 1));
  // One that was there may have been made by somebody else, in a place we may not read.
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
  // One that is version 0 already was checked when it was taken in.
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
  publish_status();
  (void)co_await look_for_room(call);
  registry_.status_.open = true;
  co_return Result<>{};
}

Task<Result<>> Home::import_genesis(Call call) {
  const format::Genesis& genesis = registry_.options().genesis;
  CO_TRY(format::DescriptorSet set, format::decode_descriptor_set(as_bytes(genesis.payload)));
  CO_TRY_VOID(format::check_next_items(set.items));
  ProposalRecord proposal;
  proposal.id = new_id();
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
  applied_ = backend_->log().end();
  co_return registry_.ledger().with([&](Ledger& ledger) -> Result<> {
    for (const store::Entry& entry : placed)
      TRY_VOID(ledger.apply(entry.header.kind, as_bytes(entry.meta), entry.at));
    return {};
  });
}

Task<Result<>> Home::close(Call call) {
  registry_.status_.open = false;
  errands_.close();
  if (!backend_) co_return Result<>{};
  (void)co_await flush_audit(call, true);
  if (!backend_->fenced() && !registry_.status_.fenced)
    if (auto written = co_await write_snapshot(call); !written)
      log_.warn("the snapshot was not written: the next start reads more of the log",
                {{"why", written.error().context}});
  port_.reset();
  co_return co_await backend_->log().close(call);
}

void Home::publish_status() {
  Status& status = registry_.status_;
  registry_.ledger().with([&](Ledger& ledger) {
    status.versions = ledger.size();
    status.first_kept = ledger.first_kept();
    status.pending = ledger.pending().size();
    status.bad = ledger.bad().size();
    status.verified = ledger.verified();
    if (ledger.checkpoint()) {
      status.checkpoint_at = ledger.checkpoint()->at.ms;
      status.checkpoint_size = ledger.checkpoint()->size;
    }
  });
  std::uint64_t bytes = 0, count = 0;
  for (const store::SegmentInfo& segment : backend_->log().segments()) bytes += segment.size, ++count;
  status.log_bytes = bytes;
  status.segments = count;
}

void Home::fence(const char* why) noexcept {
  if (registry_.status_.fenced.exchange(true)) return;
  log_.error("writes are fenced until the next start", {{"why", why}});
}

Ulid Home::new_id() noexcept {
  std::array<std::uint64_t, 2> random{};
  machine_.entropy.fill(std::as_writable_bytes(std::span(random)));
  return make_ulid(now_wall(), random[0], random[1]);
}

Task<Result<Outcome>> Home::submit(Call call, std::unique_ptr<Mutation> mutation) {
  mutation->who = "local";
  return port_->submit(call, std::move(mutation), registry_.chores_);
}

}  // namespace cairn::registry
