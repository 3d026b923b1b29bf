#include "model/explorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "runtime/random.h"

namespace cairn::model {
namespace {

struct Touch {
  std::uint64_t object;
  bool write;
};

// One transition and what it touched. Overflowing the array makes it dependent on everything: sound, slower.
struct Step {
  static constexpr std::size_t room = 24;
  std::uint64_t id = 0;
  std::uint32_t count = 0;
  Touch touches[room];

  void add(std::uint64_t object, bool write) {
    for (std::uint32_t i = 0; i < std::min<std::size_t>(count, room); ++i)
      if (touches[i].object == object) {
        touches[i].write |= write;
        return;
      }
    if (count < room) touches[count] = {object, write};
    if (count <= room) ++count;
  }
  bool independent_of(const Step& other) const {
    if (count > room || other.count > room) return false;
    for (std::uint32_t i = 0; i < count; ++i)
      for (std::uint32_t j = 0; j < other.count; ++j)
        if (touches[i].object == other.touches[j].object && (touches[i].write || other.touches[j].write))
          return false;
    return true;
  }
};

constexpr std::uint64_t timer_mark = 0x8000'0000'0000'0000u;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185u;
  x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44du;
  return x ^ (x >> 33);
}

class StepTracer : public Tracer {
 public:
  explicit StepTracer(Shard& shard) : shard_(shard) {}
  void rewind() { creators_.clear(); }
  void record_into(Step* step) {
    step_ = step;
    touches_ = 0;
  }

  void touch(std::uint64_t object, Access access) override {
    CHECK(++touches_ < touches_max);  // a step that never waits
    if (step_ != nullptr) step_->add(object, access == Access::write);
  }
  // By creator and how many it has made: the same in every interleaving.
  std::uint64_t new_identity() override {
    const TaskInfo* task = shard_.current_task();
    const std::uint64_t creator = task != nullptr ? task->identity : 0;
    for (auto& [who, made] : creators_)
      if (who == creator) return identity(creator, ++made);
    creators_.push_back({creator, 0});
    return identity(creator, 0);
  }

 private:
  static std::uint64_t identity(std::uint64_t creator, std::uint32_t n) {
    return (mix(creator * 0x9e3779b97f4a7c15u + n + 2) & ~timer_mark) | 2;
  }
  Shard& shard_;
  static constexpr int touches_max = 100'000;
  Step* step_ = nullptr;
  int touches_ = 0;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> creators_;
};

// A choice point on the current path.
struct Node {
  std::vector<std::uint64_t> enabled;
  std::vector<Step> done;
  std::vector<Step> sleep;
  Step current;
  std::uint16_t choice = 0;

  bool asleep(std::uint64_t id) const {
    return std::any_of(sleep.begin(), sleep.end(), [&](const Step& s) { return s.id == id; });
  }
  // The first transition from `from` on that is neither asleep nor done; false when there is none.
  bool choose(std::size_t from) {
    for (std::size_t i = from; i < enabled.size(); ++i)
      if (!asleep(enabled[i])) {
        choice = static_cast<std::uint16_t>(i);
        current.id = enabled[i];
        current.count = 0;
        return true;
      }
    return false;
  }
};

// One run of the model along given choices.
class Run {
 public:
  Run(Shard& shard, StepTracer& tracer, const ModelSpec& spec) : shard_(shard), tracer_(tracer) {
    shard_.rewind(1);
    tracer_.rewind();
    tracer_.record_into(nullptr);
    scope_.emplace(shard_);
    world_.emplace(World{.shard = shard_, .scope = *scope_, .failed_oracle = {}, .failure = {}});
    model_ = spec.make(*world_);
  }
  ~Run() { CHECK(closed_); }

  // Ends every task by abort, as a process would. False when one survives that: its frames refer to the
  // world, so nothing can be taken down any more.
  [[nodiscard]] bool close() {
    tracer_.record_into(nullptr);
    world_->closing = true;
    scope_->abort();
    for (int i = 0; i < 10'000 && !shard_.idle(); ++i) shard_.run_one();
    closed_ = true;
    world_->closing = false;
    if (shard_.live_tasks != 0) {
      std::string names;
      scope_->for_each_task([&](const TaskInfo& info) { names += std::string(" ") + info.name; });
      world_->fail("surviving_task", fmt::format("{} still alive after abort:{}", shard_.live_tasks, names));
      return false;
    }
    world_->expect(shard_.timers().empty(), "stray_timer", "a timer is armed with no task alive");
    model_.reset();
    return true;
  }

  void enabled(std::vector<std::uint64_t>& ids) {
    ids.clear();
    ready_.clear();
    timers_.clear();
    shard_.for_each_ready([&](Waiter& waiter) {
      ids.push_back(waiter.task()->identity);
      ready_.push_back(&waiter);
    });
    shard_.timers().for_each([&](TimerNode& node) {
      auto& waiter = static_cast<Waiter&>(node);
      world_->expect(waiter.why() == Wake::none, "stray_timer", "a wait that has ended has a timer");
      if (Instant{node.tick * TimerWheel::tick.ns} > world_->horizon) return;
      ids.push_back(waiter.task()->identity | timer_mark);
      timers_.push_back(&waiter);
    });
  }
  // Takes the i-th of the transitions enabled() listed last.
  void take(std::size_t i, Step* record) {
    tracer_.record_into(record);
    if (i < ready_.size()) {
      if (record != nullptr) record->add(ready_[i]->task()->identity, true);
      shard_.run(*ready_[i]);
    } else {
      shard_.fire(*timers_[i - ready_.size()]);
    }
    tracer_.record_into(nullptr);
    model_->after_step();
  }
  void judge_end() {
    std::size_t seen = 0;
    scope_->for_each_task([&](const TaskInfo& info) {
      ++seen;
      if (!model_->may_wait_at_end(info))
        world_->fail("deadlock", fmt::format("task '{}' waits for ever", info.name));
    });
    world_->expect(shard_.live_tasks == seen, "deadlock", "a task of an inner scope waits for ever");
    model_->at_end();
  }
  World& world() { return *world_; }
  Model& model() { return *model_; }

 private:
  Shard& shard_;
  StepTracer& tracer_;
  std::optional<Scope> scope_;
  std::optional<World> world_;
  std::unique_ptr<Model> model_;
  std::vector<Waiter*> ready_;
  std::vector<Waiter*> timers_;
  bool closed_ = false;
};

class Search;
// For the CHECK handler, which is a plain function: the search that runs, if any.
Search* searching = nullptr;

class Search {
 public:
  Search(const ModelSpec& spec, const Options& options) : spec_(spec), options_(options), tracer_(shard_) {
    shard_.set_tracer(&tracer_);
    searching = this;
    set_check_handler([](const char* expression, const char* file, int line) {
      const char* name = std::strrchr(file, '/');
      searching->die("check",
                     fmt::format("{} at {}:{}", expression, name != nullptr ? name + 1 : file, line));
    });
  }
  ~Search() {
    set_check_handler(nullptr);
    searching = nullptr;
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  Report run() {
    const auto start = std::chrono::steady_clock::now();
    ShardScope here(shard_);
    do {
      one_run();
    } while (report_.oracle.empty() && report_.schedules < options_.max_schedules && next_path());
    report_.exhausted = report_.oracle.empty() && depth_ == 0;
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

 private:
  void one_run() {
    Run run(shard_, tracer_, spec_);
    run_ = &run;
    for (at_ = 0;; ++at_) {
      run.enabled(scratch_);
      report_.tasks = std::max(report_.tasks, shard_.live_tasks);
      if (!run.world().failure.empty()) break;
      if (scratch_.empty()) {
        ++report_.schedules;
        report_.awaits = std::max(report_.awaits, at_);
        run.judge_end();
        if (run.world().failure.empty()) report_.terminal_states.insert(run.model().state());
        break;
      }
      const bool fresh = at_ == depth_;
      if (fresh && !open_node(at_)) {
        ++report_.pruned;
        break;
      }
      Node& node = path_[at_];
      if (!fresh && node.enabled != scratch_) {
        run.world().fail("nondeterminism", "the same choices led to other steps");
        break;
      }
      const bool record = at_ + 1 == depth_;
      if (record) node.current.count = 0;
      run.take(node.choice, record ? &node.current : nullptr);
      ++report_.steps;
      if (at_ >= options_.max_steps) run.world().fail("livelock", "the schedule does not end");
      if (!run.world().failure.empty()) {
        ++at_;
        break;
      }
    }
    close(run);
  }

  void close(Run& run) {
    note(run);
    if (!run.close()) {
      note(run);
      end_process();
    }
    note(run);
    run_ = nullptr;
  }

  // The first failure of this run is the finding; it is told at once, because taking a broken world down may
  // break more.
  void note(Run& run) {
    if (!report_.oracle.empty() || run.world().failure.empty()) return;
    found(run.world().failed_oracle, run.world().failure);
  }
  void found(std::string oracle, std::string detail) {
    report_.oracle = std::move(oracle);
    report_.detail = std::move(detail);
    for (std::size_t i = 0; i < std::min(at_, depth_); ++i) report_.tape.push_back(path_[i].choice);
    fmt::print("{}\n", format_finding(spec_.name, report_));
    std::fflush(stdout);
  }
  [[noreturn]] void die(std::string oracle, std::string detail) {
    if (run_ != nullptr) note(*run_);
    if (at_ < depth_) ++at_;  // the step that failed is part of the tape
    if (report_.oracle.empty()) found(std::move(oracle), std::move(detail));
    end_process();
  }
  [[noreturn]] static void end_process() {
    std::fflush(stdout);
    std::_Exit(1);
  }

  // A new choice point below the current path. False when every transition is asleep.
  bool open_node(std::size_t at) {
    if (path_.size() <= at) path_.resize(at + 1);
    Node& node = path_[at];
    node.enabled = scratch_;
    node.done.clear();
    node.sleep.clear();
    if (options_.reduce && at > 0) {
      const Node& parent = path_[at - 1];
      for (const auto* from : {&parent.sleep, &parent.done})
        for (const Step& step : *from)
          if (step.independent_of(parent.current)) node.sleep.push_back(step);
    }
    if (at < options_.replay.size()) {
      node.choice = options_.replay[at];
      CHECK(node.choice < node.enabled.size());
      node.current.id = node.enabled[node.choice];
    } else if (!node.choose(0)) {
      return false;
    }
    depth_ = at + 1;
    return true;
  }

  bool next_path() {
    if (!options_.replay.empty()) {
      depth_ = 0;
      return false;
    }
    for (; depth_ > 0; --depth_) {
      Node& node = path_[depth_ - 1];
      node.done.push_back(node.current);
      if (node.choose(node.choice + 1u)) return true;
    }
    return false;
  }

  const ModelSpec& spec_;
  const Options& options_;
  Shard shard_;
  StepTracer tracer_;
  Run* run_ = nullptr;
  std::vector<Node> path_;
  std::size_t depth_ = 0;  // choices of the path
  std::size_t at_ = 0;     // choices taken in the present run
  std::vector<std::uint64_t> scratch_;
  Report report_;
};

}  // namespace

Report explore(const ModelSpec& spec, const Options& options) { return Search(spec, options).run(); }

double estimate_schedules(const ModelSpec& spec, int probes, std::uint64_t seed) {
  Shard shard;
  StepTracer tracer(shard);
  shard.set_tracer(&tracer);
  ShardScope here(shard);
  Random random(seed);
  double sum = 0;
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < probes; ++i) {
    Run run(shard, tracer, spec);
    double leaves = 1;
    for (run.enabled(ids); !ids.empty(); run.enabled(ids)) {
      leaves *= static_cast<double>(ids.size());
      run.take(random.below(ids.size()), nullptr);
    }
    sum += leaves;
    CHECK(run.close());
  }
  return sum / probes;
}

std::string format_finding(const char* model, const Report& report) {
  return fmt::format("FOUND in {}: oracle {}: {}\n  again: explorer {} --replay {}", model, report.oracle,
                     report.detail, model, format_tape(report.tape));
}

std::string format_tape(const std::vector<std::uint16_t>& tape) {
  return fmt::format("{}", fmt::join(tape, "."));
}

std::vector<std::uint16_t> parse_tape(const std::string& text) {
  std::vector<std::uint16_t> tape;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('.', at);
    if (end == std::string::npos) end = text.size();
    tape.push_back(static_cast<std::uint16_t>(std::stoul(text.substr(at, end - at))));
    at = end + 1;
  }
  return tape;
}

}  // namespace cairn::model
