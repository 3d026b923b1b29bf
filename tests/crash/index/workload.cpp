#include "crash/index/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/index_place.h"

namespace cairn::crash {
namespace {

constexpr int docs = 0, below = 1;
constexpr int small = 0, large = 1;

bool is_disk_error(ErrorCode code) {
  return code == ErrorCode::storage_full || code == ErrorCode::io_failed || code == ErrorCode::degraded;
}

}  // namespace

bool writes_ahead(std::string_view word) noexcept {
  unsigned sum = 0;
  for (const char letter : word) sum += static_cast<unsigned char>(letter);
  return sum % 2 == 0;
}

NamesWorkload::NamesWorkload(bool ahead, std::uint64_t seed, store::LogKvOptions kv)
    : place_(std::make_unique<index::SimulatedLedger>(seed, 1, kv)) {
  place_->options = ledger_options(ahead, place_->options);
  place_->disk().set_observer([this](const io::sim::SimDisk& disk) { note(disk); });
}
NamesWorkload::~NamesWorkload() { place_->disk().set_observer({}); }

void NamesWorkload::note(const io::sim::SimDisk& disk) {
  if (recording_) moments_.push_back({disk.snapshot(), expected()});
}

// What an operation was answered so far.
SaidOfOp NamesWorkload::said(std::size_t number) const {
  if (number >= answers_.size() || !answers_[number]->has_value()) return {};
  const Result<index::Outcome>& result = **answers_[number];
  if (!result && tolerant && is_disk_error(result.error().code)) return {SaidOfOp::Known::failed};
  return {SaidOfOp::Known::answer,
          {index::code_of(result), result && result->existed, result ? result->state.sequence : 0}};
}

NamesExpected NamesWorkload::expected() const {
  if (under_way_.empty()) return {possible_, told_};
  NamesExpected out{{}, told_};
  std::vector<SaidOfOp> all;
  for (std::size_t i = 0; i < under_way_.size(); ++i) {
    all.push_back(said(i));
    const SaidOfOp& one = all.back();
    if (one.known == SaidOfOp::Known::answer && one.answer.sequence > 0)
      out.told[{under_way_[i].subject, one.answer.sequence}] = (*answers_[i])->value().state;
  }
  out.possible = possible_.with(under_way_, all);
  return out;
}

// What was under way is over: answered, or nobody will know.
std::optional<Finding> NamesWorkload::conclude() {
  NamesExpected after = expected();
  std::string told;
  for (std::size_t i = 0; i < under_way_.size(); ++i) {
    const NamesModel::Answer answer = said(i).answer;
    told += fmt::format("{}: {} {}{}; ", describe(under_way_[i]), name_of(answer.code), answer.sequence,
                        answer.existed ? " (existed)" : "");
  }
  under_way_.clear();
  answers_.clear();
  if (after.possible.models.empty())
    return Finding{"answers", fmt::format("{}in {}", told, describe(possible_.models.front()))};
  possible_ = std::move(after.possible);
  told_ = std::move(after.told);
  return std::nullopt;
}

std::optional<Finding> NamesWorkload::open() {
  if (auto opened = place_->open(); !opened) {
    if (tolerant) return std::nullopt;
    return Finding{"opens", std::string(opened.error().context)};
  }
  return std::nullopt;
}

void NamesWorkload::close() {
  recording_ = false;
  place_->stop();
}

NameOp NamesWorkload::set(int name, NameOp::If condition, std::uint64_t tag) {
  return {.act = NameOp::Act::set, .subject = name, .target = targets_++, .condition = condition, .tag = tag};
}

// The tag of a name as a reader sees it now; 0: it leads nowhere.
std::uint64_t NamesWorkload::seen(int name) const {
  if (!place_->is_open()) return 0;
  const auto state = place_->run(place_->port().find_name(place_->call(), name_of(name)));
  return state && *state && (*state)->manifest ? (*state)->sequence : 0;
}

std::optional<store::Position> NamesWorkload::place_of(int manifest) {
  const Address& address = sample_manifests()[static_cast<std::size_t>(manifest)].address;
  auto kv = place_->ledger->make_kv(place_->machine());
  const auto found = place_->run(kv->get(place_->call(), index::manifest_key(address)));
  index::ManifestPlace where;
  if (!found || !*found || !decode(as_bytes(**found), where)) return std::nullopt;
  return where.at;
}

NamesWorkload::Answer NamesWorkload::start(const NameOp& op) {
  http::WriteConditions conditions;
  if (op.condition == NameOp::If::match) conditions.if_match = fmt::format("\"{}\"", op.tag);
  if (op.condition == NameOp::If::absent) conditions.if_none_match = "*";
  switch (op.act) {
    case NameOp::Act::set:
      return place_->start(
          place_->set_task(name_of(op.subject), static_cast<unsigned>(op.target), std::move(conditions)));
    case NameOp::Act::remove:
      return place_->start(place_->remove_task(name_of(op.subject), std::move(conditions)));
    case NameOp::Act::put_manifest:
      return place_->start(
          place_->put_manifest_task(sample_manifests()[static_cast<std::size_t>(op.subject)].bytes));
    case NameOp::Act::forget_manifest:
      break;
  }
  auto mutation = std::make_unique<index::Mutation>(index::Mutation::Kind::forget_manifest);
  mutation->manifest = sample_manifests()[static_cast<std::size_t>(op.subject)].address;
  mutation->at = op.stale ? first_places_[op.subject] : place_of(op.subject).value_or(store::Position{});
  return place_->start(place_->port().submit(place_->call(), std::move(mutation)));
}

// Each begins when the ledger has taken the one before it, so that the order is known. False: the process is
// to be killed before all of them have begun.
bool NamesWorkload::start_all(std::vector<NameOp> ops, const std::function<bool()>& killed) {
  under_way_ = std::move(ops);
  const auto arrived = [&] {
    const auto ended = std::ranges::count_if(answers_, [](const Answer& one) { return one->has_value(); });
    return place_->ledger->changes().taken() + static_cast<std::uint64_t>(ended) >= answers_.size();
  };
  for (const NameOp& op : under_way_) {
    answers_.push_back(start(op));
    bool over = false;
    CHECK(place_->world.run_until([&] { return arrived() || (over = killed()); }));
    if (over) return false;
  }
  return true;
}

bool NamesWorkload::all_answered() const {
  return std::ranges::all_of(answers_, [](const Answer& one) { return one->has_value(); });
}

// All at once: the ledger begins them in this order.
std::optional<Finding> NamesWorkload::apply_all(const std::vector<NameOp>& ops) {
  if (!place_->is_open()) return std::nullopt;
  start_all(ops, [] { return false; });
  if (!place_->world.run_until([&] { return all_answered(); }))
    return Finding{"answers", "an operation is never answered"};
  return conclude();
}

std::vector<NameOp> NamesWorkload::several() {
  // The first has a commit group of its own; the others come meanwhile and share the next.
  std::vector<NameOp> ops{set(below), set(docs), set(docs), set(docs, NameOp::If::absent)};
  ops.push_back({.act = NameOp::Act::put_manifest, .subject = small});
  ops.push_back({.act = NameOp::Act::remove, .subject = docs});
  ops.push_back(set(docs, NameOp::If::absent));
  return ops;
}

std::optional<Finding> NamesWorkload::forget(bool stale) {
  if (!place_->is_open()) return std::nullopt;
  const auto at = place_of(small);
  const auto first = first_places_.find(small);
  if (stale && (first == first_places_.end() || first->second == at)) return std::nullopt;
  if (!stale && !at) return std::nullopt;
  if (!stale) first_places_.try_emplace(small, *at);
  return apply({.act = NameOp::Act::forget_manifest, .subject = small, .stale = stale});
}

std::optional<Finding> NamesWorkload::look() {
  if (!place_->is_open() || tolerant) return std::nullopt;
  return observer_.compare(*place_, expected());
}

std::optional<Finding> NamesWorkload::look_at_states() {
  if (!place_->is_open()) return std::nullopt;
  for (const int name : {docs, below}) {
    const auto found = place_->run(place_->port().find_name(place_->call(), name_of(name)));
    if (!found) continue;  // not known is not wrong
    const std::uint64_t sequence = *found ? (*found)->sequence : 0;
    const bool may = std::ranges::any_of(possible_.models, [&](const NamesModel& model) {
      return model.sequence(name) == sequence && model.exists(name) == (*found && (*found)->manifest);
    });
    if (!may)
      return Finding{"reads", fmt::format("{} has sequence {} in {}", name_of(name), sequence,
                                          describe(possible_.models.front()))};
  }
  return std::nullopt;
}

// The process ends after so many steps; its page cache does not.
std::optional<Finding> NamesWorkload::kill_changing(std::uint32_t steps) {
  if (!place_->is_open()) return std::nullopt;
  const auto killed = [&] { return steps-- == 0; };
  if (start_all(several(), killed)) place_->world.run_until([&] { return all_answered() || killed(); });
  auto finding = conclude();
  place_->kill();
  return finding;
}

std::optional<Finding> NamesWorkload::restart(char letter) {
  if (!place_->is_open()) return std::nullopt;
  if (letter == 'K') {
    if (auto finding = kill_changing(place_->world.choices().pick(120, "crash.kill"))) return finding;
  } else if (letter == 'o') {
    if (auto closed = place_->close(); !closed && !tolerant)
      return Finding{"closes", std::string(closed.error().context)};
  } else {
    if (letter == 'd') {
      const auto marked = place_->run(
          store::mark_index_damaged(place_->call(), place_->machine(), place_->options.directory));
      if (!marked && !tolerant) return Finding{"marks", std::string(marked.error().context)};
    }
    place_->stop();
    if (letter == 'i') {
      const auto gone = place_->run(place_->maker.destroy(place_->call(), place_->machine(), "index/index"));
      if (!gone && !tolerant) return Finding{"destroys", std::string(gone.error().context)};
    }
  }
  if (auto finding = open()) return finding;
  return look();
}

std::optional<Finding> NamesWorkload::step(char letter) {
  using Act = NameOp::Act;
  using If = NameOp::If;
  switch (letter) {
    case 'a':
      return apply(set(docs));
    case 'b':
      return apply(set(below));
    case 'c':
      return apply(set(docs, If::match, seen(docs)));
    case 'C':
      return apply(set(docs, If::match, seen(docs) + 1));
    case 'n':
      return apply(set(docs, If::absent));
    case 'r':
      return apply({.act = Act::remove, .subject = docs});
    case 'e':
      return apply({.act = Act::remove, .subject = below, .condition = If::match, .tag = seen(below)});
    case 'm':
    case 'M':
      return apply({.act = Act::put_manifest, .subject = letter == 'm' ? small : large});
    case 'g':
    case 'G':
      return forget(letter == 'G');
    case 'w':
      return apply_all(several());
    case 'y': {
      const std::uint64_t tag = seen(docs);
      const If condition = tag == 0 ? If::absent : If::match;
      std::vector<NameOp> ops{set(below), set(docs, condition, tag), set(docs, condition, tag),
                              set(docs, If::match, tag + 1)};
      ops.push_back({.act = Act::remove, .subject = docs});
      ops.push_back({.act = Act::remove, .subject = docs});
      ops.push_back(set(docs, If::absent));
      return apply_all(ops);
    }
    case 's': {
      if (!place_->is_open()) return std::nullopt;
      const auto rolled = place_->run(place_->home().roll(place_->call()));
      if (!rolled && !tolerant) return Finding{"rolls", std::string(rolled.error().context)};
      return look();
    }
    default:
      return restart(letter);
  }
}

}  // namespace cairn::crash
