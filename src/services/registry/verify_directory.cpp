#include "services/registry/verify_directory.h"

#include "crypto/signed_note.h"
#include "format/chain_verifier.h"
#include "services/registry/files.h"
#include "services/registry/ledger.h"
#include "store/segment.h"

namespace cairn::registry {
namespace {

// Reads a log without changing it: every record of every segment, in order, and the damage in between.
class Reader {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives every task on it
  Reader(io::Machine& machine, std::string directory) : machine_(machine), directory_(std::move(directory)) {}

  Task<Result<>> run(Call call) {
    const std::string segments = directory_ + "/segments";
    CO_TRY(const auto names, co_await machine_.disk.list(call, segments));
    // Every record that the snapshot covers was durable.
    if (auto bytes = co_await read_file(call, machine_, directory_ + "/state", snapshot_size_max))
      if (const auto decoded = Ledger::decode(as_bytes(*bytes))) proved_ = decoded->second.next;
    std::map<std::uint32_t, std::string> files;
    for (const std::string& name : names)
      if (const auto id = store::parse_segment_name(name)) files.emplace(*id, segments + "/" + name);
    for (const auto& [id, path] : files)
      CO_TRY_VOID(co_await read_segment(call, id, path, id == files.rbegin()->first));
    ledger_.settle();
    for (const store::Damage& damage : damage_) ledger_.mark_damage(damage);
    co_return Result<>{};
  }

  Ledger& ledger() noexcept { return ledger_; }
  // Of a record of the log, as it was read.
  std::string_view meta(const Place& place) const {
    const auto found = metas_.find({place.at.segment, place.at.offset});
    return found == metas_.end() ? std::string_view() : found->second;
  }
  const std::vector<std::string>& complaints() const noexcept { return complaints_; }
  const std::vector<store::Damage>& damage() const noexcept { return damage_; }

 private:
  Task<Result<>> read_segment(Call call, std::uint32_t id, std::string path, bool last) {
    CO_TRY(auto opened, co_await machine_.disk.open(call, path, io::OpenMode::read));
    const std::shared_ptr<io::File> file = std::move(opened);
    CO_TRY(const std::uint64_t size, file->size());
    auto head = std::make_shared<HeapBytes>(store::segment_header_size);
    CO_TRY(const std::size_t got, co_await file->read_into(call, 0, {head->room(), head}));
    head->fill(got);
    store::SegmentHeader header;
    if (store::decode_segment_header(std::as_const(*head).bytes(), header) != store::HeadState::good) {
      // The next segment's file is made before anything is in it.
      if (!last) complaints_.push_back("the head of segment " + std::to_string(id) + " is damaged");
      co_return Result<>{};
    }
    store::SegmentScan scan(machine_, file, id, store::segment_key(header.store_key, id),
                            store::segment_header_size, size);
    for (;;) {
      CO_TRY(auto found, co_await scan.next(call));
      if (found.damage) {
        // Damage at the very end of the last segment is a record that a crash cut off before it was
        // acknowledged, unless the snapshot shows that the record was durable.
        const bool proved = store::Position{id, static_cast<std::uint32_t>(found.damage->from)} < proved_;
        if (!last || found.damage->to < size || proved) damage_.push_back(*found.damage);
        continue;
      }
      if (!found.entry) break;
      store::Entry& entry = *found.entry;
      if (auto applied = ledger_.apply(entry.header.kind, as_bytes(entry.meta), entry.at); !applied)
        complaints_.emplace_back(applied.error().context);
      metas_.emplace(std::pair(entry.at.segment, entry.at.offset), std::move(entry.meta));
    }
    co_return Result<>{};
  }

  io::Machine& machine_;
  std::string directory_;
  Ledger ledger_;
  store::Position proved_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> metas_;
  std::vector<store::Damage> damage_;
  std::vector<std::string> complaints_;
};

// A version's payload, assembled from its parts; nothing when one is missing.
std::optional<std::string> assemble(Reader& reader, std::uint64_t version) {
  Ledger& ledger = reader.ledger();
  ProposalRecord record;
  if (!decode(as_bytes(reader.meta(ledger.version(version).payload)), record)) return std::nullopt;
  std::vector<Hash> base;
  if (record.list.base) {
    ProposalRecord full;
    if (*record.list.base >= ledger.size() ||
        !decode(as_bytes(reader.meta(ledger.version(*record.list.base).payload)), full) || full.list.base)
      return std::nullopt;
    base = expand(full.list, {}).value_or(base);
  }
  const auto items = expand(record.list, base);
  if (!items) return std::nullopt;
  for (const Hash& hash : *items) {
    const ItemEntry* entry = ledger.find_item(hash);
    if (entry == nullptr) return std::nullopt;
    const std::string_view item = reader.meta(entry->place);
    if (crypto::hash_object(as_bytes(item)).bytes != hash) return std::nullopt;
    record.set.items.emplace_back(item);
  }
  return format::encode(record.set);
}

// The signed tree must be the one that the log has.
std::string judge_note(const std::string& text, const format::TrustRoots& roots, const Ledger& ledger,
                       std::uint64_t& size) {
  const auto verifier = crypto::parse_verifier_key(roots.log_key);
  const auto note = crypto::parse_note(text);
  if (!verifier || !note || !crypto::is_signed_by(*note, *verifier)) return "its signature is not the log's";
  const auto checkpoint = crypto::parse_checkpoint(note->text);
  if (!checkpoint || checkpoint->origin != format_address(roots.genesis_payload_b3))
    return "it is of another log";
  if (checkpoint->size > ledger.size()) return "it speaks of versions that are not there";
  size = checkpoint->size;
  if (checkpoint->size > ledger.provable()) return "a version that it covers is lost";
  if (ledger.tree().root_at(checkpoint->size) != checkpoint->root) return "its root is not the log's";
  return {};
}

}  // namespace

Task<Result<VerifyReport>> verify_directory(
    Call call,
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives every task on it
    io::Machine& machine, std::string directory, format::TrustRoots roots) {
  Reader reader(machine, directory);
  CO_TRY_VOID(co_await reader.run(call));
  Ledger& ledger = reader.ledger();
  VerifyReport report;
  report.versions = ledger.size();
  report.first = ledger.first_kept();
  const auto bad = [&](std::uint64_t version, std::string why) {
    if (report.bad_version && *report.bad_version <= version) return;
    report.bad_version = version;
    report.why = std::move(why);
  };
  for (const auto& [version, why] : ledger.bad()) bad(version, why);

  // A damaged place that no version points to belongs to the next one committed.
  for (const store::Damage& damage : reader.damage()) {
    std::uint64_t version = report.first;
    while (version < report.versions &&
           ledger.version(version).commit.at <
               store::Position{damage.segment, static_cast<std::uint32_t>(damage.from)})
      ++version;
    bad(version, version < report.versions ? "the log before its commit is damaged"
                                           : "the log after the last version is damaged");
  }

  format::ChainVerifier::Start start;
  if (report.first > 0) {
    for (const crypto::MerkleHash& leaf : ledger.tree().nodes(0, 0, report.first)) start.leaves.append(leaf);
    CommitRecord first;
    if (decode(as_bytes(reader.meta(ledger.version(report.first).commit)), first))
      if (const auto commit = format::decode_commit(as_bytes(first.commit))) start.prev = commit->prev;
    if (auto governance = format::read_governance(ledger.floor_governors()))
      start.governance = std::move(*governance);
  }
  format::ChainVerifier verifier =
      report.first > 0 ? format::ChainVerifier(std::move(start)) : format::ChainVerifier(roots);
  for (std::uint64_t version = report.first;
       version < report.versions && (!report.bad_version || version < *report.bad_version); ++version) {
    CommitRecord commit;
    if (!decode(as_bytes(reader.meta(ledger.version(version).commit)), commit)) {
      bad(version, "its commit is lost from the log");
      break;
    }
    const auto payload = assemble(reader, version);
    if (!payload) {
      bad(version, "its payload is lost from the log");
    } else if (!verifier.take(as_bytes(commit.commit), as_bytes(*payload))) {
      bad(version, verifier.why());
    } else if (version < ledger.provable() && verifier.root() != ledger.tree().root_at(version + 1)) {
      bad(version, "its leaf in the tree is another");
    }
  }
  report.approvals_checked = verifier.approvals_checked();
  for (const std::string& complaint : reader.complaints())
    if (!report.bad_version) bad(verifier.size(), complaint);

  // The checkpoint of the log itself, and the file for readers.
  std::vector<std::string> notes;
  if (ledger.checkpoint()) notes.push_back(ledger.checkpoint()->note);
  if (auto file = co_await read_file(call, machine, directory + "/checkpoint", crypto::note_size_max))
    notes.push_back(std::move(*file));
  for (const std::string& note : notes) {
    std::uint64_t size = 0;
    const std::string why = judge_note(note, roots, ledger, size);
    report.checkpoint_size = std::max(report.checkpoint_size, size);
    if (!why.empty() && !report.bad_version)
      bad(report.versions == 0 ? 0 : report.versions - 1, "the checkpoint does not hold: " + why);
  }
  co_return report;
}

}  // namespace cairn::registry
