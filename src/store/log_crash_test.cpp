// The log against every crash and every failed call: what was acknowledged is there, byte for byte; what was
// not is whole or absent.
#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

#include "store/simulated_log.h"

namespace cairn::store {
namespace {

using io::sim::DiskCall;
using io::sim::DiskFailure;
using io::sim::DiskSnapshot;

// What the log has promised at some moment.
struct Ledger {
  std::vector<TestRecord> records;   // by sequence, from 1: acknowledged, then attempted
  std::uint64_t acknowledged = 0;    // up to this sequence
  std::set<std::uint64_t> removing;  // in a segment whose removal was begun
  std::vector<std::uint32_t> segment_of;
  LogPoint end;  // after what was acknowledged
};
struct Moment {
  DiskSnapshot snapshot;
  Ledger ledger;
};

enum class Step : char { small = 'S', several = 'M', large = 'L', roll = 'R', remove = 'X' };

std::vector<TestRecord> batch_of(Step step, std::size_t number) {
  const char c = static_cast<char>('a' + number % 26);
  switch (step) {
    case Step::small:
      return {{std::string(21, c), ""}};
    case Step::several:
      return {{"1", ""}, {std::string(600, c), std::string(611, c)}, {"3", std::string(1300, c)}};
    default:
      return {{std::string(9, c), std::string(7000, c)}};  // the second in a segment begins a new one
  }
}

// A log that keeps its ledger, and takes down every moment at which a crash would find something new.
class Writer : public SimulatedLog {
 public:
  using SimulatedLog::SimulatedLog;
  ~Writer() { disk().set_observer({}); }

  void record(bool on) {
    if (!on) return disk().set_observer({});
    disk().set_observer([this](const io::sim::SimDisk& d) { moments.push_back({d.snapshot(), ledger}); });
    note();
  }
  void note() { moments.push_back({disk().snapshot(), ledger}); }

  ErrorCode perform(Step step) {
    if (step == Step::roll) return code_of(roll());
    if (step == Step::remove) return remove_first();
    ledger.records.resize(ledger.acknowledged);
    const std::vector<TestRecord> batch = batch_of(step, ledger.records.size());
    ledger.records.insert(ledger.records.end(), batch.begin(), batch.end());
    const auto placed = append(batch);
    if (placed) {
      for (const Entry& p : *placed) {
        EXPECT_EQ(p.header.sequence, ++ledger.acknowledged);
        ledger.segment_of.push_back(p.at.segment);
      }
      ledger.end = log->end();
    } else if (!log->fenced()) {
      ledger.records.resize(ledger.acknowledged);  // surely absent
    }
    return code_of(placed);
  }

  Ledger ledger;
  std::vector<Moment> moments;

 private:
  ErrorCode remove_first() {
    const SegmentInfo first = log->segments().front();
    if (!first.sealed) return ErrorCode::ok;
    for (std::size_t i = 0; i < ledger.segment_of.size(); ++i)
      if (ledger.segment_of[i] == first.id) ledger.removing.insert(i + 1);
    return code_of(remove(first.id));
  }
};

// Opens what a crash left and holds it against the ledger.
class Reader : public SimulatedLog {
 public:
  using SimulatedLog::SimulatedLog;
  ~Reader() { disk().set_observer({}); }
  bool damage_allowed = false;

  // `inner`: where to take down the moments of the recovery itself.
  void check(const io::sim::Image& image, const Ledger& ledger, std::vector<Moment>* inner = nullptr) {
    if (inner != nullptr)
      disk().set_observer([&](const io::sim::SimDisk& d) { inner->push_back({d.snapshot(), ledger}); });
    const Result<> opened = open_image(image);
    disk().set_observer({});
    ASSERT_EQ(code_of(opened), ErrorCode::ok);
    expect_kept(ledger);
    const std::uint64_t last = log->end().sequence;
    const std::vector<std::uint64_t> before = sequences();
    ASSERT_GE(last, ledger.acknowledged);
    ASSERT_LE(last, ledger.records.size());

    const TestRecord more{"more", std::string(700, 'x')};
    const auto placed = append({more});
    ASSERT_EQ(code_of(placed), ErrorCode::ok);
    ASSERT_EQ(placed->front().header.sequence, last + 1);
    ASSERT_TRUE(open());
    Ledger longer = ledger;
    longer.records.resize(last);
    longer.records.push_back(more);
    longer.acknowledged = last + 1;
    for (std::uint64_t s = 1; s <= last; ++s)
      if (std::find(before.begin(), before.end(), s) == before.end()) longer.removing.insert(s);
    expect_kept(longer);
    EXPECT_EQ(report.cut_bytes, 0u);

    if (ledger.end.sequence == 0) return;
    ASSERT_TRUE(open_image(image, ledger.end));
    EXPECT_EQ(report.index, IndexFit::good);
    EXPECT_EQ(log->end().sequence, last);
    EXPECT_EQ(report.records, last - ledger.end.sequence);
  }

 private:
  void expect_kept(const Ledger& ledger) {
    if (!damage_allowed) {
      EXPECT_EQ(report.damaged, 0u);
    }
    std::set<std::uint64_t> there;
    std::uint64_t last = 0;
    for (const Entry& entry : found.entries) {
      const std::uint64_t sequence = entry.header.sequence;
      ASSERT_GT(sequence, last);
      ASSERT_LE(sequence, ledger.records.size());
      last = sequence;
      there.insert(sequence);
      const TestRecord& expected = ledger.records[sequence - 1];
      const TestRecord is = read(entry);
      ASSERT_EQ(is.text, expected.text);
      ASSERT_EQ(is.data, expected.data);
    }
    for (std::uint64_t s = 1; s <= ledger.acknowledged; ++s)
      ASSERT_TRUE(there.contains(s) || ledger.removing.contains(s)) << "lost " << s;
  }
};

// Visits every crash state of the moments, and those of a crash while they recover.
class CrashTrial {
 public:
  explicit CrashTrial(std::uint64_t noises) : noises_(noises) {}

  void run(const std::vector<Moment>& moments, const std::string& name) {
    for (const Moment& moment : moments)
      visit(moment, states, [&](const io::sim::Image& image) {
        std::vector<Moment> inner;
        outer_.check(image, moment.ledger, &inner);
        for (const Moment& again : inner)
          visit(again, inner_states, [&](const io::sim::Image& torn) { inner_.check(torn, again.ledger); });
        if (testing::Test::HasFailure()) ADD_FAILURE() << "workload " << name << ", state " << states;
      });
  }
  std::size_t states = 0, inner_states = 0;

 private:
  // Each state that is new, with several kinds of noise in what is torn.
  template <class Check>
  void visit(const Moment& moment, std::size_t& count, Check check) {
    const auto& pending = moment.snapshot.pending;
    const bool noisy = std::any_of(pending.begin(), pending.end(), [](const io::sim::Change& change) {
      return change.kind == io::sim::Change::Kind::write;
    });
    for (io::sim::CrashOptions options; options.seed <= (noisy ? noises_ : 1); ++options.seed)
      io::sim::crash_states(
          moment.snapshot,
          [&](const io::sim::CrashState& state) {
            if (testing::Test::HasFailure()) return false;
            if (!is_new(state.hash, moment.ledger)) return true;
            ++count;
            check(state.image);
            return true;
          },
          options);
  }
  bool is_new(std::uint64_t hash, const Ledger& ledger) {
    return seen_.insert(hash * 31 + ledger.acknowledged * 1021 + ledger.records.size()).second;
  }
  std::uint64_t noises_;
  Reader outer_{11}, inner_{12};
  std::unordered_set<std::uint64_t> seen_;
};

// Every workload of at most three steps.
void try_short_workloads(std::uint64_t ahead) {
  constexpr Step steps[] = {Step::small, Step::several, Step::large, Step::roll, Step::remove};
  CrashTrial trial(12);
  // The moments of a workload's last step: those before are another workload's.
  const auto try_workload = [&](const std::vector<Step>& workload) {
    Writer writer;
    writer.options.ahead = ahead;
    if (workload.empty()) writer.record(true);
    ASSERT_TRUE(writer.open());
    std::string name;
    for (std::size_t i = 0; i < workload.size(); ++i) {
      if (i + 1 == workload.size()) writer.record(true);
      name += static_cast<char>(workload[i]);
      ASSERT_EQ(writer.perform(workload[i]), ErrorCode::ok);
    }
    writer.note();
    trial.run(writer.moments, name);
  };
  try_workload({});
  for (const Step a : steps) {
    try_workload({a});
    for (const Step b : steps) {
      try_workload({a, b});
      for (const Step c : steps) try_workload({a, b, c});
    }
    if (testing::Test::HasFailure()) break;
  }
  testing::Test::RecordProperty("states", static_cast<int>(trial.states));
  testing::Test::RecordProperty("inner_states", static_cast<int>(trial.inner_states));
  EXPECT_GT(trial.states, 1000u);
  EXPECT_GT(trial.inner_states, 1000u);
}

TEST(LogCrash, every_short_workload_survives_every_crash) { try_short_workloads(0); }

TEST(LogCrash, zeros_written_ahead_change_nothing_of_that) { try_short_workloads(24 << 10); }

TEST(LogCrash, long_workloads_survive_crashes_at_any_moment) {
  CrashTrial trial(4);
  for (std::uint64_t seed = 1; seed <= 12 && !HasFailure(); ++seed) {
    Random random(seed);
    Writer writer(seed);
    writer.record(true);
    ASSERT_TRUE(writer.open());
    std::string name;
    for (int i = 0; i < 12; ++i) {
      const Step step = std::array{Step::small, Step::several, Step::large,
                                   Step::large, Step::roll,    Step::remove}[random.below(6)];
      name += static_cast<char>(step);
      ASSERT_EQ(writer.perform(step), ErrorCode::ok);
    }
    writer.note();
    trial.run(writer.moments, name);
  }
  RecordProperty("states", static_cast<int>(trial.states));
  RecordProperty("inner_states", static_cast<int>(trial.inner_states));
  EXPECT_GT(trial.states, 1000u);
}

TEST(LogCrash, what_was_cut_never_comes_back) {
  Writer writer;
  ASSERT_TRUE(writer.open());
  ASSERT_EQ(writer.perform(Step::small), ErrorCode::ok);
  // The second begins a sector, so that writing the first one's place again leaves all of it alone.
  const std::size_t size = 928 - record_header_size - 8 - 4;
  const auto placed = writer.append({{"torn", std::string(size, 'o')}, {"whole", std::string(700, 'o')}});
  ASSERT_TRUE(placed);
  ASSERT_EQ(placed->back().at.offset % io::sim::sector_size, 0u);
  ASSERT_TRUE(writer.disk().rot(writer.path(1), placed->front().at.offset + 200));
  ASSERT_TRUE(writer.open());
  ASSERT_EQ(writer.found.entries.size(), 1u);
  ASSERT_GT(writer.report.cut_bytes, 1400u);
  // In the place of the torn one comes another of its size: behind it would be the old whole one again.
  writer.ledger.records.push_back({"next", std::string(size, 'n')});
  writer.record(true);
  ASSERT_TRUE(writer.append({writer.ledger.records.back()}));
  writer.ledger.acknowledged = 2;
  writer.note();
  CrashTrial trial(4);
  trial.run(writer.moments, "cut");
}

TEST(LogCrash, what_was_replayed_survives_the_next_crash) {
  Writer writer;
  // As if the process was killed before it could sync.
  writer.options.fsync = false;
  ASSERT_TRUE(writer.open());
  for (const Step step : {Step::small, Step::several}) ASSERT_EQ(writer.perform(step), ErrorCode::ok);
  ASSERT_GT(writer.disk().pending(), 0u);
  writer.options.fsync = true;
  ASSERT_TRUE(writer.open());
  ASSERT_EQ(writer.report.records, 4u);
  writer.note();
  CrashTrial trial(4);
  trial.run(writer.moments, "killed");
}

// The nth call of one kind fails, once or from then on; then the process starts again, or the power fails.
struct Fault {
  DiskCall call;
  DiskFailure how;
  bool sticky;
};

// False: the scenario has fewer such calls.
bool try_fault(const Fault& fault, std::uint64_t nth) {
  Writer writer(nth);
  writer.options.reserve = 20'000;
  writer.disk().fail_call(fault.call, nth, fault.how, fault.sticky);
  const bool opened = writer.open().has_value();
  if (opened) {
    for (const Step step :
         {Step::small, Step::several, Step::large, Step::large, Step::roll, Step::remove, Step::small}) {
      const ErrorCode code = writer.perform(step);
      EXPECT_TRUE(code == ErrorCode::ok || code == ErrorCode::storage_full || code == ErrorCode::io_failed ||
                  code == ErrorCode::degraded)
          << name_of(code);
      EXPECT_EQ(writer.log->fenced(), code == ErrorCode::degraded);
      if (writer.log->fenced()) break;
    }
  }
  const bool hit = writer.disk().calls(fault.call) >= nth;
  writer.disk().heal();
  if (opened && !writer.log->fenced()) {
    // What was refused leaves nothing behind that could be in the way. (The reserve comes back in time.)
    writer.world.run_for(Duration::seconds(2));
    EXPECT_EQ(writer.perform(Step::small), ErrorCode::ok);
  }

  Reader reader(nth + 1);
  const auto survives = [&] {
    io::sim::crash_states(writer.disk().snapshot(), [&](const io::sim::CrashState& state) {
      reader.check(state.image, writer.ledger);
      return !testing::Test::HasFailure();
    });
  };
  survives();
  // A directory whose making could not be synced is not safe to use, and only a power failure would show it.
  if (fault.call == DiskCall::sync_directory && !opened) return hit;
  EXPECT_TRUE(writer.open().has_value());
  // What a failed sync left in memory only was never acknowledged; the restart cannot see that it is not on
  // the disk, and writes on behind it.
  const bool lying = fault.call == DiskCall::sync_data;
  const std::uint64_t end = writer.log->end().sequence;
  EXPECT_GE(end, writer.ledger.acknowledged);
  if (lying) {
    for (std::uint64_t s = writer.ledger.acknowledged + 1; s <= end; ++s) writer.ledger.removing.insert(s);
    reader.damage_allowed = true;
  }
  writer.ledger.acknowledged = end;
  writer.ledger.records.resize(end);
  writer.ledger.segment_of.resize(end);
  EXPECT_EQ(writer.perform(Step::small), ErrorCode::ok);
  survives();
  if (testing::Test::HasFailure())
    ADD_FAILURE() << "call " << static_cast<int>(fault.call) << " number " << nth << " failure "
                  << static_cast<int>(fault.how) << (fault.sticky ? " sticky" : "");
  return hit;
}

TEST(LogCrash, whichever_call_fails_nothing_acknowledged_is_lost) {
  for (const DiskCall call : {DiskCall::open, DiskCall::read, DiskCall::write, DiskCall::sync_data,
                              DiskCall::truncate, DiskCall::unlink, DiskCall::make_directory, DiskCall::list,
                              DiskCall::sync_directory, DiskCall::free_space})
    for (const DiskFailure how : {DiskFailure::error, DiskFailure::full, DiskFailure::partial}) {
      if (how == DiskFailure::partial && call != DiskCall::write) continue;
      for (const bool sticky : {false, true})
        for (std::uint64_t nth = 1; !HasFailure() && try_fault({call, how, sticky}, nth); ++nth) {
        }
    }
}

TEST(LogCrash, a_full_disk_at_any_byte_loses_nothing) {
  for (std::uint64_t room = 0; room < 34'000 && !HasFailure(); room += 331) {
    Writer writer;
    ASSERT_TRUE(writer.open());
    writer.disk().set_capacity(writer.disk().used() + room);
    for (const Step step : {Step::small, Step::large, Step::several, Step::large, Step::roll, Step::small}) {
      const ErrorCode code = writer.perform(step);
      ASSERT_TRUE(code == ErrorCode::ok || code == ErrorCode::storage_full) << name_of(code);
      ASSERT_FALSE(writer.log->fenced());
    }
    Reader reader;
    io::sim::crash_states(writer.disk().snapshot(), [&](const io::sim::CrashState& state) {
      reader.check(state.image, writer.ledger);
      return !HasFailure();
    });
  }
}

}  // namespace
}  // namespace cairn::store
