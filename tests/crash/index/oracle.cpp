#include "crash/index/oracle.h"

#include <fmt/format.h>

#include <algorithm>

#include "format/name_change.h"

namespace cairn::crash {
namespace {

using index::SimulatedLedger;
using io::sim::Image;
using store::KvPair;

constexpr std::string_view map_directory = "index/index";
constexpr std::uint64_t segment_size = 16u << 10;

Image without_map(const Image& image) {
  Image out = image;
  std::erase_if(out.names, [](const auto& name) { return name.first.starts_with(map_directory); });
  out.prune([](std::uint64_t) { return false; });
  return out;
}

bool are_equal(const std::vector<KvPair>& left, const std::vector<KvPair>& right) {
  return std::ranges::equal(
      left, right, [](const KvPair& a, const KvPair& b) { return a.key == b.key && a.value == b.value; });
}

std::string readable(std::string_view key) {
  std::string out;
  for (const char c : key.substr(0, 40)) out += c > ' ' && c < 127 ? c : '.';
  return out;
}

const char* word_of(NameOp::Act act) {
  switch (act) {
    case NameOp::Act::set:
      return "set";
    case NameOp::Act::remove:
      return "remove";
    case NameOp::Act::put_manifest:
      return "put manifest";
    case NameOp::Act::forget_manifest:
      break;
  }
  return "forget manifest";
}

}  // namespace

std::string describe(const NameOp& op) {
  std::string out = fmt::format("{} {}", word_of(op.act), op.subject);
  if (op.act == NameOp::Act::set) out += fmt::format(" to {}", op.target);
  if (op.condition == NameOp::If::match) out += fmt::format(" if {}", op.tag);
  if (op.condition == NameOp::If::absent) out += " if absent";
  return out + (op.stale ? " (stale)" : "");
}

std::string describe(const NamesModel& model) {
  std::string out = "{";
  for (const auto& [name, history] : model.names) {
    out += fmt::format(" {}[", name);
    for (const auto& target : history) out += target ? fmt::format("{} ", *target) : "- ";
    out += ']';
  }
  for (const int manifest : model.manifests) out += fmt::format(" m{}", manifest);
  return out + " }";
}

std::uint64_t PossibleNames::hash() const {
  std::uint64_t hash = 0;
  for (const NamesModel& model : models) hash = hash * 31 + std::hash<std::string>()(describe(model));
  return hash;
}

std::string name_of(int number) {
  // One is the beginning of another, so that their keys are neighbours.
  static const std::vector<std::string> all{"docs", "docs/a", "docs.fresh"};
  return all.at(static_cast<std::size_t>(number));
}

const std::vector<SampleManifest>& sample_manifests() {
  static const std::vector<SampleManifest> all = [] {
    std::vector<SampleManifest> made;
    for (const unsigned entries : {1u, 24u, 2u}) {
      std::string bytes = index::sample_manifest(entries, entries);
      const Address address = crypto::hash_object(as_bytes(bytes));
      made.push_back({std::move(bytes), address});
    }
    return made;
  }();
  return all;
}

index::LedgerOptions ledger_options(bool ahead, const index::LedgerOptions& with_key) {
  index::LedgerOptions options;
  options.directory = "index";
  options.segment_size = segment_size;
  options.reserve = 0;
  options.ahead = ahead ? segment_size / 16 : 0;
  options.key = with_key.key;
  return options;
}

// --- observer

// What is there, as the parts of the ledger that agree with each other say it.
struct NamesObserver::Seen {
  NamesModel model;
  ToldStates states;
};

std::optional<Finding> NamesObserver::compare(SimulatedLedger& place, const NamesExpected& expected) {
  const index::Status& status = place.status();
  if (status.damaged != 0 || status.index_damaged) return Finding{"no_damage", "a crash is taken for rot"};
  Seen seen;
  if (auto finding = look(place, seen)) return finding;
  if (std::ranges::find(expected.possible.models, seen.model) == expected.possible.models.end()) {
    std::string wanted;
    for (const NamesModel& model : expected.possible.models) wanted += describe(model);
    return Finding{"acknowledged", fmt::format("found {}, possible {}", describe(seen.model), wanted)};
  }
  for (const auto& [change, state] : expected.told) {
    const auto found = seen.states.find(change);
    if (found == seen.states.end() || found->second != state)
      return Finding{"told", fmt::format("change {} of name {}", change.second, change.first)};
  }
  return std::nullopt;
}

std::optional<Finding> NamesObserver::look(SimulatedLedger& place, Seen& seen) {
  for (int name = 0; name < names_most; ++name)
    if (auto finding = look_at_name(place, name, seen)) return finding;
  if (auto finding = look_at_lists(place, seen)) return finding;
  if (auto finding = look_at_manifests(place, seen)) return finding;
  return look_at_map(place, seen);
}

// State, history and signed changes, each asked for by its own way.
std::optional<Finding> NamesObserver::look_at_name(SimulatedLedger& place, int name, Seen& seen) {
  const std::string text = name_of(name);
  const auto told = [&](std::string_view what) {
    return Finding{"halves", fmt::format("{}: {}", text, what)};
  };
  const auto state = place.run(place.port().find_name(place.call(), text));
  if (!state) return Finding{"reads", std::string(state.error().context)};
  constexpr std::size_t page = 2;
  std::vector<index::PastChange> past = place.history(text, page);
  if (past.empty()) return *state ? std::optional(told("a state without history")) : std::nullopt;
  if (!*state) return told("a history without state");
  std::ranges::reverse(past);
  NamesModel::History& history = seen.model.names[name];
  for (std::size_t i = 0; i < past.size(); ++i) {
    const format::NameChange& change = past[i].change;
    if (change.sequence != i + 1)
      return told(fmt::format("sequence {} is number {}", change.sequence, i + 1));
    const index::NameState after{change.sequence, change.at, change.manifest};
    if (i + 1 == past.size() && **state != after) return told("the state is not the newest change");
    seen.states[{name, change.sequence}] = after;
    std::optional<int> target;
    for (int number = 0; change.manifest && !target; ++number) {
      if (number == 1000) return told("a target of nobody");
      if (index::sample_target(static_cast<unsigned>(number)) == *change.manifest) target = number;
    }
    if (past[i].by != "tester" || change.note != (target ? fmt::format("note {}", *target) : ""))
      return told("who changed it, or why, is lost");
    const auto bytes = place.run(place.port().read_change(place.call(), text, change.sequence));
    if (!bytes) return told("a change of the history cannot be read alone");
    if (!is_signed(place, *bytes)) return told("a change is not signed");
    history.push_back(target);
  }
  return std::nullopt;
}

bool NamesObserver::is_signed(SimulatedLedger& place, const std::string& change) {
  if (signed_.contains(change)) return true;
  const auto decoded = format::decode_name_change(as_bytes(change));
  if (!decoded || decoded->key != place.options.key->public_key()) return false;
  return signed_.insert(change).second;
}

// The list is what the states say, whatever the page.
std::optional<Finding> NamesObserver::look_at_lists(SimulatedLedger& place, const Seen& seen) {
  std::vector<std::string> wanted;
  for (int name = 0; name < names_most; ++name)
    if (seen.model.exists(name)) wanted.push_back(name_of(name));
  std::ranges::sort(wanted);
  for (const std::size_t limit : {1u, 100u}) {
    const auto listed = place.list("", limit);
    if (!std::ranges::equal(listed, wanted, {}, &index::ListedName::name))
      return Finding{"halves",
                     fmt::format("{} names are listed, {} lead somewhere", listed.size(), wanted.size())};
    for (const index::ListedName& one : listed)
      if (place.find(one.name) != one.state) return Finding{"halves", one.name + " is listed as another"};
  }
  std::uint64_t changes = 0;
  for (const auto& [name, history] : seen.model.names) changes += history.size();
  if (place.status().names != wanted.size()) return Finding{"totals", "names are not counted right"};
  if (place.status().changes != changes) return Finding{"totals", "changes are not counted right"};
  return std::nullopt;
}

std::optional<Finding> NamesObserver::look_at_manifests(SimulatedLedger& place, Seen& seen) {
  for (int number = 0; number < manifests_most; ++number) {
    const SampleManifest& sample = sample_manifests()[static_cast<std::size_t>(number)];
    const auto has = place.run(place.port().has_manifest(place.call(), sample.address));
    const auto read = place.read_manifest(sample.address);
    if (!has || (!read && read.error().code != ErrorCode::not_found))
      return Finding{"reads",
                     fmt::format("manifest {}: {}", number, (has ? read.error() : has.error()).context)};
    if (*has != read.has_value())
      return Finding{"halves", fmt::format("manifest {} is there and not", number)};
    if (read && *read != sample.bytes)
      return Finding{"reads", fmt::format("manifest {}: other bytes", number)};
    if (read) seen.model.manifests.insert(number);
  }
  if (place.status().manifests != seen.model.manifests.size())
    return Finding{"totals", "manifests are not counted right"};
  return std::nullopt;
}

// One key for each name, change and manifest, and the totals.
std::optional<Finding> NamesObserver::look_at_map(SimulatedLedger& place, const Seen& seen) {
  const std::vector<KvPair> map = place.map();
  const std::size_t wanted =
      seen.model.names.size() + seen.states.size() + seen.model.manifests.size() + (map.empty() ? 0 : 1);
  if (map.size() == wanted) return std::nullopt;
  std::string keys;
  for (const KvPair& pair : map) keys += readable(pair.key) + ' ';
  return Finding{"nothing_else", fmt::format("{} keys, not {}: {}", map.size(), wanted, keys)};
}

// --- reopener

NamesReopener::NamesReopener(bool ahead) : place_(std::make_unique<SimulatedLedger>()) {
  place_->options = ledger_options(ahead, place_->options);
}

void NamesReopener::load(const Image& image) {
  place_->stop();
  place_->disk().set_observer({});
  place_->disk().load(image);
}

std::optional<Finding> NamesReopener::open(const Image& image, bool with_committer) {
  load(image);
  ++counts.reopened;
  if (auto opened = place_->open(with_committer); !opened)
    return Finding{"opens", std::string(opened.error().context)};
  return std::nullopt;
}

std::optional<Finding> NamesReopener::check(const Image& image, const NamesExpected& expected) {
  if (auto finding = open(image, false)) return finding;
  return observer_.compare(*place_, expected);
}

std::optional<Finding> NamesReopener::check_rebuilt(const Image& image, const NamesExpected& expected) {
  ++counts.rebuilt;
  if (auto finding = open(image, false)) return finding;
  const std::vector<KvPair> kept = place_->map();
  if (auto finding = open(without_map(image), false)) return finding;
  if (auto finding = observer_.compare(*place_, expected))
    return Finding{"rebuilt_" + finding->oracle, finding->detail};
  const std::vector<KvPair> anew = place_->map();
  if (are_equal(kept, anew)) return std::nullopt;
  const auto [one, other] = std::ranges::mismatch(
      kept, anew, [](const KvPair& a, const KvPair& b) { return a.key == b.key && a.value == b.value; });
  return Finding{"equal",
                 fmt::format("{} was made anew as {}", one == kept.end() ? "nothing" : readable(one->key),
                             other == anew.end() ? "nothing" : readable(other->key))};
}

std::optional<Finding> NamesReopener::check_continued(const Image& image, const NamesExpected& expected) {
  ++counts.continued;
  if (auto finding = open(image, true)) return finding;
  if (auto finding = observer_.compare(*place_, expected)) return finding;
  NamesExpected next = expected;
  constexpr int target = 999;
  for (const int name : {0, fresh_name}) {
    // Under the tag that is there now: it must be the newest, or the change is refused.
    const auto before = place_->find(name_of(name));
    const std::uint64_t tag = before && before->manifest ? before->sequence : 0;
    NameOp op{.act = NameOp::Act::set, .subject = name, .target = target, .tag = tag};
    op.condition = tag == 0 ? NameOp::If::absent : NameOp::If::match;
    http::WriteConditions conditions;
    if (tag == 0)
      conditions.if_none_match = "*";
    else
      conditions.if_match = format_tag(*before);
    const auto done = place_->set(name_of(name), target, std::move(conditions));
    if (!done) return Finding{"continues", std::string(done.error().context)};
    if (done->state.sequence != (before ? before->sequence : 0) + 1)
      return Finding{"continues", fmt::format("sequence {} was given", done->state.sequence)};
    next.told[{name, done->state.sequence}] = done->state;
    next.possible = next.possible.with(
        {op}, {{SaidOfOp::Known::answer, {ErrorCode::ok, done->existed, done->state.sequence}}});
    if (next.possible.models.empty())
      return Finding{"continues", "the answer fits nothing that may be there"};
  }
  const auto stored = place_->put_manifest(sample_manifests()[fresh_manifest].bytes);
  if (!stored) return Finding{"continues", std::string(stored.error().context)};
  for (NamesModel& model : next.possible.models) model.apply({NameOp::Act::put_manifest, fresh_manifest});
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

std::optional<Finding> NamesReopener::check_again(const Image& image, const NamesExpected& expected) {
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
