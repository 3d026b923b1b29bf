#include "crash/registry/oracle.h"

#include <fmt/format.h>

#include <algorithm>

#include "crypto/tile.h"

namespace cairn::crash {
namespace {

using io::sim::Image;
using registry::Ledger;
using registry::SimulatedRegistry;

constexpr unsigned continued_region = 9000;

Image without_snapshot(const Image& image) {
  Image out = image;
  std::erase_if(out.names, [](const auto& name) { return name.first.starts_with("registry/state"); });
  out.prune([](std::uint64_t) { return false; });
  return out;
}

std::string hex(ByteView bytes) {
  std::string out;
  for (const std::byte byte : bytes.first(std::min<std::size_t>(6, bytes.size())))
    out += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return out;
}

std::string describe(const registry::Place& place) {
  return fmt::format("{}:{}+{}", place.at.segment, place.at.offset, place.meta_size);
}

// All of a ledger that must not depend on how it was made.
std::map<std::string, std::string> contents(const Ledger& ledger) {
  std::map<std::string, std::string> out;
  out["size"] = std::to_string(ledger.size());
  out["first kept"] = std::to_string(ledger.first_kept());
  out["base"] = std::to_string(ledger.base());
  for (std::uint64_t v = 0; v < ledger.size(); ++v) {
    out[fmt::format("leaf {}", v)] = hex(ledger.tree().leaf(v));
    if (v < ledger.first_kept()) continue;
    const registry::VersionEntry& entry = ledger.version(v);
    out[fmt::format("version {}", v)] = fmt::format(
        "{} {} {} {} {} {}{}", hex(entry.commit_b3.bytes), hex(entry.payload_b3.bytes), entry.committed_at.ms,
        describe(entry.commit), describe(entry.payload), entry.superseded ? "s" : "", entry.full ? "f" : "");
  }
  std::string head_items, base_items;
  for (const auto& hash : ledger.head_items()) head_items += hex(hash) + " ";
  for (const auto& hash : ledger.base_items()) base_items += hex(hash) + " ";
  out["head items"] = head_items;
  out["base items"] = base_items;
  out["governance"] = fmt::format("{} of {}", ledger.governance().m, ledger.governance().in_force());
  std::vector<crypto::Hash> known = ledger.head_items();
  for (const auto& [id, pending] : ledger.pending()) {
    std::string text = fmt::format("{} {} {} {}", hex(pending.payload_b3.bytes), pending.expires.ms,
                                   describe(pending.place), pending.full ? "f" : "");
    for (const auto& approval : pending.approvals) text += " " + approval.signer_id;
    out["pending " + format_ulid(id)] = text;
    known.insert(known.end(), pending.items.begin(), pending.items.end());
  }
  for (const auto& hash : known) {
    const registry::ItemEntry* item = ledger.find_item(hash);
    out["item " + hex(hash)] = item == nullptr ? "unknown"
                                               : fmt::format("{} in {}, {} pending", describe(item->place),
                                                             item->last_version, item->proposals);
  }
  if (ledger.checkpoint()) out["checkpoint"] = ledger.checkpoint()->note;
  out["verified"] = std::to_string(ledger.verified());
  return out;
}

const char* name_of(ChainOp::Act act) {
  constexpr std::array names = {"propose", "approve", "commit", "expire", "checkpoint", "prune"};
  return names[static_cast<std::size_t>(act)];
}

}  // namespace

std::string describe(const ChainOp& op) {
  return fmt::format("{}({}{})", name_of(op.act), op.proposal, op.full ? ", full" : "");
}

std::string describe(const ChainModel& model) {
  std::string out = fmt::format("{{ checkpoint {} kept {} versions", model.checkpoint, model.first_kept);
  for (const auto& version : model.versions) out += fmt::format(" {}", version.proposal);
  for (const auto& [number, pending] : model.pending)
    out += fmt::format(" p{}[{}]", number, pending.approvals.size());
  for (const int number : model.stale) out += fmt::format(" stale{}", number);
  for (const int number : model.expired) out += fmt::format(" expired{}", number);
  return out + " }";
}

std::uint64_t PossibleChains::hash() const {
  std::uint64_t hash = 0;
  for (const ChainModel& model : models) hash = hash * 31 + std::hash<std::string>()(describe(model));
  return hash;
}

registry::RegistryOptions chain_options() {
  registry::RegistryOptions options;
  options.directory = "registry";
  options.segment_size = 16u << 10;
  options.reserve = 0;
  options.proposals_ttl = Duration::seconds(3600);
  options.retention.policy = registry::Retention::Policy::by_count;
  options.retention.max_count = 1;
  return options;
}

// --- observer

ChainObserver::ChainObserver(const registry::Founding& founding)
    : founding_(founding), verifier_(crypto::parse_verifier_key(founding.roots.log_key).value()) {}

namespace {

// What of a model the ledger does not have; nothing when it is this one.
std::string differs(const Ledger& ledger, const ChainModel& model, const ChainNames& names) {
  if (ledger.size() != model.versions.size()) return fmt::format("{} versions", ledger.size());
  if ((ledger.checkpoint() ? ledger.checkpoint()->size : 0) != model.checkpoint)
    return fmt::format("checkpoint {}", ledger.checkpoint() ? ledger.checkpoint()->size : 0);
  if (ledger.first_kept() != model.first_kept) return fmt::format("first kept {}", ledger.first_kept());
  for (std::uint64_t v = model.first_kept + (model.first_kept == 0 ? 1 : 0); v < model.versions.size(); ++v) {
    const auto name = names.proposals.find(model.versions[v].proposal);
    if (name == names.proposals.end()) return fmt::format("version {} of nobody", v);
    if (ledger.find_committed(name->second.id) != v) return fmt::format("version {} of another", v);
    if (ledger.version(v).payload_b3 != name->second.payload_b3)
      return fmt::format("version {} with another payload", v);
    if (v > model.first_kept && ledger.version(v - 1).superseded != model.versions[v].supersedes)
      return fmt::format("version {} superseded or not", v - 1);
  }
  std::size_t nameless = 0, found = 0;
  for (const auto& [number, pending] : model.pending) {
    const auto name = names.proposals.find(number);
    if (name == names.proposals.end()) {
      ++nameless;
      continue;
    }
    const registry::Pending* there = ledger.find_pending(name->second.id);
    if (there == nullptr) return fmt::format("proposal {} is lost", number);
    ++found;
    if (there->payload_b3 != name->second.payload_b3) return fmt::format("proposal {} is another", number);
    std::set<std::string> approvals, wanted;
    for (const auto& approval : there->approvals) approvals.insert(approval.signer_id);
    for (const unsigned signer : pending.approvals) wanted.insert(format::sample_signer_id(signer));
    if (approvals != wanted)
      return fmt::format("proposal {} has {} approvals, not {}", number, approvals.size(), wanted.size());
    if (there->approvals.size() != approvals.size()) return "an approval twice";
  }
  if (ledger.pending().size() != found + nameless)
    return fmt::format("{} pending proposals, not {}", ledger.pending().size(), found + nameless);
  // What ended without a commit is known as long as the log still says it.
  if (model.first_kept > 0) return {};
  for (const auto& [numbers, how] :
       {std::pair(&model.stale, registry::Ended::stale), std::pair(&model.expired, registry::Ended::expired)})
    for (const int number : *numbers)
      if (const auto name = names.proposals.find(number);
          name != names.proposals.end() && ledger.find_ended(name->second.id) != how)
        return fmt::format("the end of proposal {} is lost", number);
  return {};
}

}  // namespace

std::optional<Finding> ChainObserver::compare(SimulatedRegistry& place, const ChainExpected& expected) {
  auto found = place.ledger([&](Ledger& ledger) -> std::optional<Finding> {
    if (!ledger.bad().empty())
      return Finding{"no_damage", fmt::format("a crash is taken for rot: version {}: {}",
                                              ledger.bad().begin()->first, ledger.bad().begin()->second)};
    if (!ledger.broken().empty()) return Finding{"no_damage", "a leaf is lost"};
    std::string told;
    bool fits = false;
    for (const ChainModel& model : expected.possible.models) {
      const std::string difference = differs(ledger, model, expected.names);
      fits = fits || difference.empty();
      told += fmt::format("{} of {}; ", difference, describe(model));
    }
    if (!fits) return Finding{"acknowledged", "found " + told};
    for (const auto& [version, head] : expected.names.heads)
      if (version >= ledger.first_kept() && (version >= ledger.size() || ledger.head_of(version) != head))
        return Finding{"heads", fmt::format("version {} is another one", version)};
    for (std::uint64_t v = ledger.first_kept() + 1; v < ledger.size(); ++v)
      if (ledger.version(v).committed_at < ledger.version(v - 1).committed_at)
        return Finding{"heads", "time went back"};
    return std::nullopt;
  });
  if (!found) found = check_chain(place);
  if (!found) found = check_notes(place);
  if (found) return found;
  const auto pending = place.ledger([](Ledger& ledger) { return ledger.pending(); });
  for (const auto& [id, one] : pending)
    if (auto read =
            place.run(place.port().read_payload(place.call(), one.set, one.items.get(), one.payload_b3));
        !read)
      return Finding{"reads", fmt::format("a proposal: {}", read.error().context)};
  return std::nullopt;
}

// From the roots, or from where retention has cut, with every payload. A chain that was verified once is
// known by its last commit: then only its end is read again, unless all of it is to be.
std::optional<Finding> ChainObserver::check_chain(SimulatedRegistry& place) {
  std::string name;
  format::ChainVerifier::Start start;
  crypto::MerkleHash root{};
  std::uint64_t first = 0, size = 0;
  place.ledger([&](Ledger& ledger) {
    first = ledger.first_kept();
    size = ledger.size();
    root = ledger.tree().root();
    name = std::string(as_text(ledger.head().commit_b3.bytes)) + std::to_string(first);
    if (first == 0) return;
    for (const crypto::MerkleHash& leaf : ledger.tree().nodes(0, 0, first)) start.leaves.append(leaf);
    for (const std::string& item : ledger.floor_governors()) name += item;
    if (auto governance = format::read_governance(ledger.floor_governors()))
      start.governance = std::move(*governance);
  });
  const auto known = verified_.find(name);
  const bool verified = known != verified_.end();
  const std::uint64_t from = verified && !thorough ? std::max(first + 2, size) - 2 : first;
  std::vector<std::shared_ptr<registry::Artifact>> artifacts;
  for (std::uint64_t v = from; v < size; ++v) {
    auto read = place.run(place.port().load_version(place.call(), v));
    if (!read) return Finding{"reads", fmt::format("version {}: {}", v, read.error().context)};
    artifacts.push_back(*read);
  }
  if (verified)
    return known->second == root ? std::nullopt
                                 : std::optional(Finding{"chain", "the tree has other leaves"});
  if (first > 0) {
    start.prev = format::decode_commit(as_bytes(artifacts.front()->commit)).value().prev;
    if (!start.governance) return Finding{"chain", "nobody knows who approved the first kept version"};
  }
  format::ChainVerifier chain =
      first > 0 ? format::ChainVerifier(std::move(start)) : format::ChainVerifier(founding_.roots);
  for (const auto& artifact : artifacts)
    if (!chain.take(as_bytes(artifact->commit), as_bytes(artifact->payload)))
      return Finding{"chain", fmt::format("version {}: {}", chain.bad_version(), chain.why())};
  if (!chain.approvals_checked()) return Finding{"chain", "approvals could not be checked"};
  if (chain.root() != root) return Finding{"chain", "the tree has other leaves"};
  verified_.emplace(std::move(name), root);
  return std::nullopt;
}

std::optional<Finding> ChainObserver::check_note(SimulatedRegistry& place, const std::string& text,
                                                 crypto::Checkpoint& out) {
  const auto note = crypto::parse_note(text);
  const auto [known, fresh] = notes_.try_emplace(text, false);
  if (fresh) known->second = note && crypto::is_signed_by(*note, verifier_);
  if (!known->second) return Finding{"signed", "a checkpoint is not signed"};
  const auto parsed = crypto::parse_checkpoint(note->text);
  if (!parsed) return Finding{"signed", "a checkpoint does not parse"};
  out = *parsed;
  const auto [signed_before, first] = roots_.try_emplace(out.size, out.root);
  if (!first && signed_before->second != out.root)
    return Finding{"one_root", fmt::format("two roots were signed for size {}", out.size)};
  return place.ledger([&](Ledger& ledger) -> std::optional<Finding> {
    if (out.size > ledger.size()) return Finding{"signed", "a version that was signed is lost"};
    if (ledger.tree().root_at(out.size) != out.root) return Finding{"signed", "another tree was signed"};
    return std::nullopt;
  });
}

std::optional<Finding> ChainObserver::check_notes(SimulatedRegistry& place) {
  const auto kept = place.ledger([](Ledger& ledger) { return ledger.checkpoint(); });
  crypto::Checkpoint signed_head;
  if (kept) {
    if (auto finding = check_note(place, kept->note, signed_head)) return finding;
    if (signed_head.size != kept->size) return Finding{"signed", "a checkpoint has another size"};
  }
  const Image& view = place.disk().view();
  if (view.find("registry/checkpoint") == nullptr) return std::nullopt;
  if (auto finding = check_note(place, view.text("registry/checkpoint"), signed_head)) return finding;
  if (!kept || signed_head.size > kept->size)
    return Finding{"signed", "the file for readers is ahead of the log"};
  // Names that a failed sync lost are lost for good; tiles are derived.
  if (!tiles) return std::nullopt;
  return check_tiles(place, signed_head);
}

std::optional<Finding> ChainObserver::check_tiles(SimulatedRegistry& place,
                                                  const crypto::Checkpoint& signed_head) {
  const Image& view = place.disk().view();
  for (const crypto::TileId& tile : crypto::tiles_for(signed_head.size)) {
    const std::string path = "registry/" + crypto::format_tile_path(tile);
    const std::string wanted = place.ledger([&](Ledger& ledger) {
      return std::string(as_text(std::as_bytes(ledger.tree().nodes(
          tile.level * crypto::tile_height, tile.index * crypto::tile_width_max, tile.width))));
    });
    if (view.find(path) == nullptr || view.text(path) != wanted)
      return Finding{"tiles", path + " is not as the checkpoint says"};
  }
  return std::nullopt;
}

// --- reopener

ChainReopener::ChainReopener(const registry::Founding& founding)
    : founding_(founding), observer_(founding), place_(std::make_unique<SimulatedRegistry>(founding)) {
  const auto genesis = place_->options.genesis;
  const auto key = place_->options.log_key;
  place_->options = chain_options();
  place_->options.genesis = genesis;
  place_->options.log_key = key;
}

void ChainReopener::load(const Image& image) {
  place_->stop();
  place_->disk().set_observer({});
  place_->disk().load(image);
}

std::optional<Finding> ChainReopener::open(const Image& image, bool with_committer) {
  load(image);
  ++counts.reopened;
  if (auto opened = place_->open(with_committer); !opened)
    return Finding{"opens", std::string(opened.error().context)};
  return std::nullopt;
}

std::optional<Finding> ChainReopener::check(const Image& image, const ChainExpected& expected) {
  if (auto finding = open(image, false)) return finding;
  return observer_.compare(*place_, expected);
}

std::optional<Finding> ChainReopener::check_rebuilt(const Image& image, const ChainExpected& expected) {
  ++counts.rebuilt;
  observer_.thorough = true;
  auto finding = make_anew(image, expected);
  observer_.thorough = false;
  return finding;
}

std::optional<Finding> ChainReopener::make_anew(const Image& image, const ChainExpected& expected) {
  if (auto finding = open(image, false)) return finding;
  const auto kept = place_->ledger([](Ledger& ledger) { return contents(ledger); });
  if (auto finding = open(without_snapshot(image), false)) return finding;
  if (auto finding = observer_.compare(*place_, expected))
    return Finding{"rebuilt_" + finding->oracle, finding->detail};
  const auto anew = place_->ledger([](Ledger& ledger) { return contents(ledger); });
  if (kept != anew) {
    for (const auto& [name, value] : kept)
      if (const auto there = anew.find(name); there == anew.end() || there->second != value)
        return Finding{"equal", fmt::format("{}: {} was made anew as {}", name, value,
                                            there == anew.end() ? "nothing" : there->second)};
    return Finding{"equal", "something is new"};
  }
  auto report = place_->verify_files();
  if (!report) return Finding{"files", std::string(report.error().context)};
  if (report->bad_version)
    return Finding{"files", fmt::format("version {}: {}", *report->bad_version, report->why)};
  if (report->versions != place_->size() || !report->approvals_checked)
    return Finding{"files", "the verifier of directories saw something else"};
  return std::nullopt;
}

std::optional<Finding> ChainReopener::check_continued(const Image& image, const ChainExpected& expected) {
  ++counts.continued;
  if (auto finding = open(image, true)) return finding;
  if (auto finding = observer_.compare(*place_, expected)) return finding;
  // What is signed from here on belongs to this future only.
  const auto history = observer_.history();
  auto finding = go_on(expected);
  observer_.set_history(history);
  return finding;
}

std::optional<Finding> ChainReopener::go_on(const ChainExpected& expected) {
  const auto proposed = place_->propose(place_->with_regions({continued_region}));
  if (!proposed) return Finding{"continues", std::string(proposed.error().context)};
  for (unsigned i = 0; i < founding_.m(); ++i)
    if (auto approved = place_->approve(*proposed, founding_.signers()[i]); !approved)
      return Finding{"continues", std::string(approved.error().context)};
  const auto committed = place_->commit(proposed->id);
  if (!committed) return Finding{"continues", std::string(committed.error().context)};
  if (auto signed_head = place_->checkpoint(); !signed_head)
    return Finding{"continues", std::string(signed_head.error().context)};
  constexpr int number = 1'000'000;
  ChainExpected next = expected;
  next.names.proposals[number] = {proposed->id, proposed->payload_b3};
  next.names.heads[committed->head.version] = committed->head;
  for (ChainModel& model : next.possible.models) {
    const bool full = place_->ledger([](Ledger& ledger) { return ledger.version(ledger.size() - 1).full; });
    model.apply({ChainOp::Act::propose, number, 0, full});
    for (unsigned i = 0; i < founding_.m(); ++i)
      model.apply({ChainOp::Act::approve, number, founding_.signers()[i]});
    model.apply({ChainOp::Act::commit, number});
    model.apply({ChainOp::Act::checkpoint});
  }
  // The power goes right after the answer: nothing that was not synced is kept, or all of it is.
  const Image least = place_->disk().durable(), most = place_->disk().view();
  for (const Image* left : {&least, &most}) {
    Image clean = *left;
    clean.prune([](std::uint64_t) { return false; });
    if (auto finding = open(clean, false)) return finding;
    if (auto finding = observer_.compare(*place_, next))
      return Finding{"continued_" + finding->oracle, finding->detail};
  }
  return std::nullopt;
}

std::optional<Finding> ChainReopener::check_again(const Image& image, const ChainExpected& expected) {
  load(image);
  return crash_inside(
      place_->disk(),
      [&]() -> std::optional<Finding> {
        const auto opened = place_->open(false);
        if (!opened) return Finding{"opens", std::string(opened.error().context)};
        place_->stop();
        return std::nullopt;
      },
      [&](const Image& left) {
        ++counts.again;
        return check(left, expected);
      });
}

}  // namespace cairn::crash
