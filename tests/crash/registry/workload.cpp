#include "crash/registry/workload.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::crash {
namespace {

bool is_disk_error(ErrorCode code) {
  return code == ErrorCode::storage_full || code == ErrorCode::io_failed || code == ErrorCode::degraded;
}

// Large ones fill segments sooner.
std::string large_region(unsigned number) {
  return format::sample_item(
      fmt::format(R"({{"type":"region","id":"large-{}","title":"{}"}})", number, std::string(1000, 'x')));
}

}  // namespace

std::string_view prologue_of(std::string_view word) { return word.find('t') == word.npos ? "" : "FFvFF"; }

ChainWorkload::ChainWorkload(const registry::Founding& founding, std::uint64_t seed)
    : founding_(founding),
      place_(std::make_unique<registry::SimulatedRegistry>(founding, seed)),
      observer_(founding) {
  const auto genesis = place_->options.genesis;
  const auto key = place_->options.log_key;
  place_->options = chain_options();
  place_->options.genesis = genesis;
  place_->options.log_key = key;
  ChainModel first;
  first.m = founding.m();
  possible_.models.push_back(first);
  place_->disk().set_observer([this](const io::sim::SimDisk& disk) { note(disk); });
}
ChainWorkload::~ChainWorkload() { place_->disk().set_observer({}); }

void ChainWorkload::note(const io::sim::SimDisk& disk) {
  if (recording_) moments_.push_back({disk.snapshot(), {possible_.with(under_way_), names_}});
}

std::optional<Finding> ChainWorkload::open() {
  if (auto opened = place_->open(); !opened) {
    if (tolerant) return std::nullopt;
    return Finding{"opens", std::string(opened.error().context)};
  }
  return std::nullopt;
}

void ChainWorkload::close() {
  recording_ = false;
  place_->stop();
}

ChainOp ChainWorkload::propose_op(bool full, bool supersede) {
  return {ChainOp::Act::propose, proposals_++, 0, full, supersede};
}

ChainWorkload::Answer ChainWorkload::start(const ChainOp& op) {
  const auto number = static_cast<unsigned>(op.proposal);
  const auto name = names_.proposals[op.proposal];
  switch (op.act) {
    case ChainOp::Act::approve:
      return place_->start(place_->approve_task(name.id, place_->sign(name.payload_b3, op.signer)));
    case ChainOp::Act::commit:
      return place_->start(place_->commit_task(name.id, op.supersede));
    default:
      break;
  }
  names_.proposals.erase(op.proposal);
  // A list stands alone when it shares little with the last that did.
  std::vector<std::string> items = founding_.items;
  if (op.full) {
    items.resize(1);
    for (unsigned i = 0; i < 3; ++i) items.push_back(large_region(100 * number + i));
  } else {
    const auto base = place_->read(place_->ledger([](registry::Ledger& ledger) { return ledger.base(); }));
    if (base) items = format::decode_descriptor_set(as_bytes((*base)->payload)).value().items;
    items.push_back(registry::sample_region(5000 + number));
  }
  format::ProposalDraft draft = registry::SimulatedRegistry::draft_of(std::move(items));
  if (op.supersede) {
    draft.supersede_of = place_->head().version;
    draft.reason = "a mistake";
  }
  return place_->start(place_->propose_task(std::move(draft)));
}

std::optional<Finding> ChainWorkload::answered(const ChainOp& op, const Result<registry::Outcome>& result) {
  if (!result && tolerant && is_disk_error(result.error().code)) {
    possible_ = possible_.with({op});
    return std::nullopt;
  }
  if (op.act == ChainOp::Act::propose && result)
    names_.proposals[op.proposal] = {result->id, result->payload_b3};
  if (op.act == ChainOp::Act::commit && result) {
    names_.heads[result->head.version] = result->head;
    last_committed_ = op.proposal;
  }
  const ChainModel::Answer answer{registry::code_of(result), result && result->existed};
  const PossibleChains before = possible_;
  if (possible_.answered(op, answer)) return std::nullopt;
  return Finding{"answers", fmt::format("{} was answered {}{} in {}", describe(op), name_of(answer.code),
                                        answer.existed ? " (existed)" : "",
                                        before.models.empty() ? "nothing" : describe(before.models.front()))};
}

// All at once. Of those that do not commute, the one that was accepted was first.
std::optional<Finding> ChainWorkload::apply_all(const std::vector<ChainOp>& ops) {
  if (!place_->is_open()) return std::nullopt;
  for (const ChainOp& op : ops)
    if (op.act != ChainOp::Act::propose && !names_.proposals.contains(op.proposal)) return std::nullopt;
  under_way_ = ops;
  std::vector<std::pair<ChainOp, Answer>> answers;
  for (const ChainOp& op : ops) answers.emplace_back(op, start(op));
  const bool done = place_->world.run_until(
      [&] { return std::ranges::all_of(answers, [](const auto& one) { return one.second->has_value(); }); });
  if (!done) return Finding{"answers", "an operation is never answered"};
  under_way_.clear();
  for (const bool accepted : {true, false})
    for (const auto& [op, answer] : answers) {
      const Result<registry::Outcome>& result = **answer;
      if ((result && !result->existed) != accepted) continue;
      if (auto wrong = answered(op, result)) return wrong;
    }
  return std::nullopt;
}

// Something that its own tasks do.
std::optional<Finding> ChainWorkload::chore(const ChainOp& op) {
  if (!place_->is_open()) return std::nullopt;
  under_way_ = {op};
  Result<> done;
  if (op.act == ChainOp::Act::expire) {
    place_->move_clock(place_->options.proposals_ttl + Duration::seconds(1));
    done = place_->sweep();
  } else if (op.act == ChainOp::Act::checkpoint) {
    done = place_->checkpoint();
  } else if (auto pruned = place_->prune(); !pruned) {
    done = fail(pruned.error());
  }
  under_way_.clear();
  if (!done && !tolerant) return Finding{"chores", fmt::format("{}: {}", describe(op), done.error().context)};
  if (tolerant) {
    // One that counts on another that failed has nothing to do, and says so.
    possible_ = possible_.with({op});
    return std::nullopt;
  }
  possible_.answered(op, {});
  return look();
}

std::optional<Finding> ChainWorkload::advance(bool full, bool supersede) {
  const ChainOp propose = propose_op(full, supersede);
  if (auto finding = apply(propose)) return finding;
  for (unsigned i = 0; i < founding_.m(); ++i)
    if (auto finding = apply({ChainOp::Act::approve, propose.proposal, founding_.signers()[i]}))
      return finding;
  return apply({ChainOp::Act::commit, propose.proposal, 0, false, supersede});
}

std::optional<Finding> ChainWorkload::race() {
  const ChainOp one = propose_op(false), other = propose_op(false);
  if (auto finding = apply_all({one, other})) return finding;
  for (const int proposal : {one.proposal, other.proposal})
    for (unsigned i = 0; i < founding_.m(); ++i)
      if (auto finding = apply({ChainOp::Act::approve, proposal, founding_.signers()[i]})) return finding;
  return apply_all({{ChainOp::Act::commit, one.proposal}, {ChainOp::Act::commit, other.proposal}});
}

// A snapshot that is written while the log goes on.
std::optional<Finding> ChainWorkload::snapshot_meanwhile() {
  if (!place_->is_open()) return std::nullopt;
  const auto written = place_->start(place_->home().snapshots().write(place_->call()));
  if (auto finding = advance(false, false)) return finding;
  const Result<> done = place_->wait(written);
  if (!done && !tolerant) return Finding{"chores", fmt::format("snapshot: {}", done.error().context)};
  return look();
}

std::optional<Finding> ChainWorkload::look() {
  if (!place_->is_open() || tolerant) return std::nullopt;
  return observer_.compare(*place_, expected());
}

// The oldest pending one that is named; that has its approvals, if there is one.
int ChainWorkload::pick_pending(bool approved) const {
  int picked = -1;
  if (possible_.models.empty()) return picked;
  for (const auto& [number, pending] : possible_.models.front().pending) {
    if (!names_.proposals.contains(number)) continue;
    if (picked < 0) picked = number;
    if ((pending.approvals.size() >= founding_.m()) == approved) return number;
  }
  return picked;
}

// The process ends after so many steps; its page cache does not.
std::optional<Finding> ChainWorkload::kill_advancing(std::uint32_t steps) {
  if (!place_->is_open()) return std::nullopt;
  const ChainOp propose = propose_op(false);
  std::vector<ChainOp> ops{propose};
  for (unsigned i = 0; i < founding_.m(); ++i)
    ops.push_back({ChainOp::Act::approve, propose.proposal, founding_.signers()[i]});
  ops.push_back({ChainOp::Act::commit, propose.proposal});
  for (const ChainOp& op : ops) {
    under_way_ = {op};
    const Answer answer = start(op);
    place_->world.run_until([&] { return answer->has_value() || steps-- == 0; });
    under_way_.clear();
    if (answer->has_value()) {
      if (auto finding = answered(op, **answer)) return finding;
      if (steps != UINT32_MAX) continue;
    } else {
      possible_ = possible_.with({op});
    }
    break;
  }
  place_->kill();
  return std::nullopt;
}

std::optional<Finding> ChainWorkload::restart(char letter) {
  if (!place_->is_open()) return std::nullopt;
  if (letter == 'K') {
    if (auto finding = kill_advancing(place_->world.choices().pick(120, "crash.kill"))) return finding;
  } else if (letter == 'o') {
    if (auto closed = place_->close(); !closed && !tolerant)
      return Finding{"closes", std::string(closed.error().context)};
  } else {
    place_->stop();
  }
  if (auto finding = open()) return finding;
  return look();
}

std::optional<Finding> ChainWorkload::step(char letter) {
  using Act = ChainOp::Act;
  switch (letter) {
    case 'p':
    case 'f':
      return apply(propose_op(letter == 'f'));
    case 'a':
    case 'd': {
      const int number = pick_pending(letter == 'd');
      if (number < 0) return std::nullopt;
      const auto& approvals = possible_.models.front().pending.at(number).approvals;
      unsigned signer = founding_.signers().front();
      for (const unsigned one : founding_.signers())
        if (letter == 'a' && !approvals.contains(one)) {
          signer = one;
          break;
        }
      return apply({Act::approve, number, signer});
    }
    case 'c':
    case 'C': {
      const int number = letter == 'C' ? last_committed_ : pick_pending(true);
      if (number < 0) return std::nullopt;
      return apply({Act::commit, number});
    }
    case 'v':
    case 'F':
      return advance(letter == 'F', false);
    case 'u':
      return advance(false, true);
    case 'w': {
      std::vector<ChainOp> ops{propose_op(false), propose_op(true)};
      if (const int number = pick_pending(false); number >= 0)
        ops.push_back({Act::approve, number, founding_.signers().back()});
      return apply_all(ops);
    }
    case 'y':
      return race();
    case 'e':
      return chore({Act::expire});
    case 'k':
      return chore({Act::checkpoint});
    case 't':
      if (auto finding = chore({Act::checkpoint})) return finding;
      return chore({Act::prune});
    case 's': {
      if (!place_->is_open()) return std::nullopt;
      const auto written = place_->snapshot();
      if (!written && !tolerant)
        return Finding{"chores", fmt::format("snapshot: {}", written.error().context)};
      return look();
    }
    case 'n':
      return snapshot_meanwhile();
    default:
      return restart(letter);
  }
}

}  // namespace cairn::crash
