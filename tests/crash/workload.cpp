#include "crash/workload.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::crash {
namespace {

bool is_disk_error(ErrorCode code) {
  return code == ErrorCode::storage_full || code == ErrorCode::io_failed || code == ErrorCode::degraded;
}

// A delete on a full disk may also be told to come again: room is being made [OH-5].
bool is_disk_error(const Op& op, ErrorCode code) {
  return is_disk_error(code) || (op.act == Op::Act::remove && code == ErrorCode::busy);
}

}  // namespace

store::StoreOptions options_for(std::string_view word) {
  store::StoreOptions options;
  options.directory = "data";
  const bool large = word.find('g') != word.npos || word.find('h') != word.npos;
  options.segment_size = large ? 288u << 10 : 16u << 10;
  options.reserve = 0;
  options.upload_ttl = Duration::seconds(3600 * 24 * 3650);
  return options;
}

Workload::Workload(const Universe& universe, const store::StoreOptions& options, std::uint64_t seed)
    : universe_(universe), store_(std::make_unique<store::SimulatedStore>(seed)) {
  store_->options = options;
  store_->disk().set_observer([this](const io::sim::SimDisk& disk) { note(disk); });
}
Workload::~Workload() { store_->disk().set_observer({}); }

void Workload::note(const io::sim::SimDisk& disk) {
  if (recording_) moments_.push_back({disk.snapshot(), {possible_.with(under_way_), tokens_, remade_}});
}

std::optional<Finding> Workload::open() {
  if (auto opened = store_->open(); !opened) {
    if (tolerant) return std::nullopt;
    return Finding{"opens", std::string(opened.error().context)};
  }
  return std::nullopt;
}

void Workload::close() {
  recording_ = false;
  store_->stop();
}

Workload::Pending Workload::start(const Op& op) {
  const auto content = static_cast<std::size_t>(op.content);
  store::StorePort& port = store_->port();
  switch (op.act) {
    case Op::Act::put:
      return store_->start(store_->put_task(universe_.contents[content]));
    case Op::Act::remove:
      return store_->start(port.remove(store_->call(), universe_.addresses[content]));
    case Op::Act::pin:
    case Op::Act::unpin:
      return store_->start(port.pin(store_->call(), universe_.addresses[content], op.act == Op::Act::pin));
    case Op::Act::begin:
      return store_->start(port.begin_upload(
          store_->call(),
          {.size = 0, .media_type = "text/plain", .ttl = {}, .owner = owner_of_upload(op.upload)}));
    case Op::Act::part:
      return store_->start(store_->part_task(tokens_[op.upload], static_cast<std::uint32_t>(op.index),
                                             universe_.contents[content]));
    case Op::Act::commit:
      return store_->start(port.commit_upload(store_->call(), tokens_[op.upload], std::nullopt, ""));
    case Op::Act::abort:
      break;
  }
  return store_->start(port.abort_upload(store_->call(), tokens_[op.upload]));
}

std::optional<Finding> Workload::answered(const Op& op, const Result<store::Outcome>& result) {
  if (!result && tolerant && is_disk_error(op, result.error().code)) {
    possible_ = possible_.with({op});
    return std::nullopt;
  }
  if (op.act == Op::Act::begin && result) tokens_[op.upload] = result->token;
  const Model::Answer answer{store::code_of(result), result && result->existed};
  const Possible before = possible_;
  if (possible_.answered(op, answer)) return std::nullopt;
  return Finding{"answers", fmt::format("{} was answered {}{} in {}", describe(op),
                                        static_cast<int>(answer.code), answer.existed ? " (existed)" : "",
                                        before.models.empty() ? "nothing" : describe(before.models.front()))};
}

std::optional<Finding> Workload::apply(const Op& op) { return apply_all({op}); }

// All at once. They must commute, or be equal.
std::optional<Finding> Workload::apply_all(const std::vector<Op>& ops) {
  if (!is_open()) return std::nullopt;
  std::vector<Pending> pending;
  under_way_ = ops;
  for (const Op& op : ops) pending.push_back(start(op));
  std::vector<bool> told(ops.size());
  std::optional<Finding> finding;
  // Of equal ones any may have been the first: they are told together.
  const auto take_answers = [&] {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      std::vector<std::size_t> equal;
      bool done = !told[i];
      for (std::size_t j = 0; j < ops.size(); ++j) {
        if (ops[j] != ops[i]) continue;
        equal.push_back(j);
        done = done && pending[j]->has_value();
      }
      if (!done) continue;
      std::partition(equal.begin(), equal.end(),
                     [&](std::size_t j) { return !pending[j]->value() || !pending[j]->value()->existed; });
      for (const std::size_t j : equal) {
        told[j] = true;
        under_way_.erase(std::find(under_way_.begin(), under_way_.end(), ops[j]));
        if (auto wrong = answered(ops[j], **pending[j]); wrong && !finding) finding = wrong;
      }
    }
    return finding || std::find(told.begin(), told.end(), false) == told.end();
  };
  if (!store_->world.run_until(take_answers)) return Finding{"answers", "an operation is never answered"};
  return finding;
}

std::optional<Finding> Workload::upload(int content, bool part_only, bool abort) {
  const int number = uploads_++;
  if (auto finding = apply({Op::Act::begin, 0, number, 0})) return finding;
  if (!tokens_.contains(number)) return std::nullopt;
  if (auto finding = apply({Op::Act::part, content, number, 0})) return finding;
  if (part_only) return std::nullopt;
  return apply({abort ? Op::Act::abort : Op::Act::commit, 0, number, 0});
}

std::optional<Finding> Workload::look() {
  if (!is_open()) return std::nullopt;
  for (const int content : {small, medium, two_groups, other}) {
    const auto at = static_cast<std::size_t>(content);
    const auto read = store_->read(universe_.addresses[at]);
    if (!read && read.error().code != ErrorCode::not_found) {
      if (tolerant && is_disk_error(read.error().code)) continue;
      return Finding{"reads", fmt::format("content {}: {}", content, read.error().context)};
    }
    if (read && *read != universe_.contents[at])
      return Finding{"reads", fmt::format("content {}: other bytes", content)};
    const bool may = std::any_of(possible_.models.begin(), possible_.models.end(), [&](const Model& model) {
      return model.objects.contains(content) == read.has_value();
    });
    if (!may) return Finding{"reads", fmt::format("content {} is {}", content, read ? "there" : "gone")};
  }
  return std::nullopt;
}

// The process ends after so many steps; its page cache does not.
std::optional<Finding> Workload::kill_putting(std::uint32_t steps) {
  const Op op{Op::Act::put, medium, 0, 0};
  under_way_ = {op};
  const Pending pending = start(op);
  store_->world.run_until([&] { return pending->has_value() || steps-- == 0; });
  under_way_.clear();
  std::optional<Finding> finding;
  if (pending->has_value())
    finding = answered(op, **pending);
  else
    possible_ = possible_.with({op});
  store_->kill();
  return finding;
}

std::optional<Finding> Workload::step(char letter) {
  using Act = Op::Act;
  switch (letter) {
    case 'a':
      return apply({Act::put, small, 0, 0});
    case 'b':
      return apply({Act::put, medium, 0, 0});
    case 'g':
      return apply({Act::put, two_groups, 0, 0});
    case 'z':
      return apply({Act::put, empty, 0, 0});
    case 'u':
      return upload(other, false, false);
    case 'v':
      return upload(other, true, false);
    case 'x':
      return upload(other, false, true);
    case 'c':
      return upload(small, false, false);
    case 'd':
      return apply({Act::remove, small, 0, 0});
    case 'e':
      return apply({Act::remove, other, 0, 0});
    case 'h':
      return apply({Act::remove, two_groups, 0, 0});
    case 'n':
      return apply({Act::pin, small, 0, 0});
    case 'm':
      return apply({Act::unpin, small, 0, 0});
    case 'w':
      return apply_all({{Act::put, small, 0, 0}, {Act::put, medium, 0, 0}, {Act::put, other, 0, 0}});
    case 'y':
      return apply_all({{Act::put, small, 0, 0},
                        {Act::put, small, 0, 0},
                        {Act::remove, other, 0, 0},
                        {Act::pin, medium, 0, 0}});
    default:
      break;
  }
  if (!is_open()) return std::nullopt;
  if (letter == 'r' || letter == 'k') {
    auto rolled = store_->run(store_->store->home().roll(store_->call()));
    if (!rolled && !tolerant) return Finding{"rolls", std::string(rolled.error().context)};
    if (letter == 'r' || !rolled) return look();
    auto compacted = store_->compact();
    if (!compacted && !tolerant) return Finding{"compacts", std::string(compacted.error().context)};
    return look();
  }
  if (letter == 's') {
    auto swept = store_->run(store_->store->home().sweeper().sweep_once(store_->call()));
    if (!swept && !tolerant) return Finding{"sweeps", std::string(swept.error().context)};
    return look();
  }
  if (letter == 'i') {
    remade_ = true;
    store_->store->distrust_index(store_->store->index_number());
    auto remade = store_->start(store_->store->home().index_keeper().replace_index(store_->call()));
    if (auto finding = apply({Act::put, medium, 0, 0})) return finding;
    CHECK(store_->world.run_until([&] { return remade->has_value(); }));
    if (!**remade && !tolerant) return Finding{"remakes", std::string((**remade).error().context)};
    return look();
  }
  if (letter == 'K') {
    if (auto finding = kill_putting(store_->world.choices().pick(40, "crash.kill"))) return finding;
  } else if (letter == 'o') {
    if (auto closed = store_->close(); !closed && !tolerant)
      return Finding{"closes", std::string(closed.error().context)};
  } else {
    store_->stop();
  }
  store_->forget_cached(universe_.addresses);
  if (auto finding = open()) return finding;
  return look();
}

}  // namespace cairn::crash
