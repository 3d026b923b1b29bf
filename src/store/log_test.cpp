#include "store/log.h"

#include <set>

#include "io/entropy.h"
#include "io/memory.h"
#include "io/real_loop.h"
#include "store/log_removals.h"
#include "store/simulated_log.h"

namespace cairn::store {
namespace {

using Sequences = std::vector<std::uint64_t>;

TestRecord small(char c) { return {std::string(16, c), ""}; }
TestRecord large(char c, std::size_t size = 1500) { return {std::string(16, c), std::string(size, c)}; }

// --- appending and replaying

TEST(Log, an_empty_directory_becomes_an_empty_log) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.log->end().sequence, 0u);
  EXPECT_EQ(s.log->durable(), 0u);
  ASSERT_EQ(s.log->segments().size(), 1u);
  ASSERT_TRUE(s.open());
  EXPECT_TRUE(s.found.entries.empty());
  EXPECT_EQ(s.report.damaged, 0u);
  EXPECT_EQ(s.report.cut_bytes, 0u);
}

TEST(Log, small_batches_overwrite_zeros_that_were_written_ahead) {
  SimulatedLog s;
  s.options.ahead = 4096;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  const std::size_t tail = s.log->end().next.offset;
  ASSERT_EQ(s.text(1).size(), tail + 4096);
  EXPECT_EQ(s.text(1).substr(tail), std::string(4096, '\0'));
  EXPECT_EQ(s.log->segments().front().size, tail);
  ASSERT_TRUE(s.append({small('b')}));
  EXPECT_EQ(s.text(1).size(), tail + 4096);
  // As after a crash: the zeros go, and are no damage.
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2}));
  EXPECT_EQ(s.report.damaged, 0u);
  EXPECT_EQ(s.text(1).size(), s.log->end().next.offset);
  // A large batch brings none; a clean end leaves none.
  ASSERT_TRUE(s.append({large('c', 5000)}));
  EXPECT_EQ(s.text(1).size(), s.log->end().next.offset);
  ASSERT_TRUE(s.append({small('d')}));
  EXPECT_GT(s.text(1).size(), s.log->end().next.offset);
  ASSERT_TRUE(s.run(s.log->close(s.call())));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3, 4}));
  EXPECT_EQ(s.report.cut_bytes, 0u);
}

TEST(Log, a_segment_that_is_followed_by_another_ends_with_its_last_record) {
  SimulatedLog s;
  s.options.ahead = 4096;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  ASSERT_TRUE(s.roll());
  EXPECT_EQ(s.text(1).size(), s.log->segments().front().size);
  ASSERT_TRUE(s.append({small('b')}));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2}));
  EXPECT_EQ(s.report.damaged, 0u);
}

TEST(Log, an_index_that_stands_in_zeros_is_ahead_of_the_log) {
  SimulatedLog s;
  s.options.ahead = 4096;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  const io::sim::Image older = s.disk().view();
  ASSERT_TRUE(s.append({small('b')}));
  const LogPoint end = s.log->end();
  const io::sim::Image whole = s.disk().view();
  ASSERT_TRUE(s.open_image(older, end));
  EXPECT_NE(s.report.index, IndexFit::good);
  ASSERT_TRUE(s.open_image(whole, end));
  EXPECT_EQ(s.report.index, IndexFit::good);
  EXPECT_EQ(s.report.damaged, 0u);
  // Rot of the last record that the index has is not that.
  ASSERT_TRUE(s.open_image(whole));
  ASSERT_TRUE(s.disk().rot(s.path(1), end.next.offset - 20));
  ASSERT_TRUE(s.open(end));
  EXPECT_EQ(s.report.index, IndexFit::good);
  EXPECT_EQ(s.append({small('c')})->front().header.sequence, 3u);
}

TEST(Log, zeros_stay_within_the_segment) {
  SimulatedLog s;
  s.options.ahead = 12 << 10;
  ASSERT_TRUE(s.open());
  while (s.log->segments().size() == 1) {
    ASSERT_TRUE(s.append({large('a', 700)}));
    EXPECT_LE(s.text(1).size(), s.options.segment_size);
  }
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.damaged, 0u);
}

TEST(Log, what_was_appended_is_replayed_in_order) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  const std::vector<TestRecord> first{small('a'), large('b'), {"", "x"}};
  const auto placed = s.append(first);
  ASSERT_TRUE(placed);
  ASSERT_EQ(placed->size(), 3u);
  EXPECT_EQ((*placed)[2].header.sequence, 3u);
  EXPECT_EQ((*placed)[0].at, (Position{1, segment_header_size}));
  EXPECT_EQ((*placed)[1].at.offset, (*placed)[0].at.offset + (*placed)[0].header.size());
  ASSERT_TRUE(s.append({large('d', 7000)}));
  EXPECT_EQ(s.log->durable(), 4u);
  const LogPoint end = s.log->end();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3, 4}));
  EXPECT_EQ(s.report.records, 4u);
  EXPECT_EQ(s.log->end().sequence, 4u);
  EXPECT_EQ(s.log->end().next, end.next);
  EXPECT_EQ(s.found.entries[1].at, (*placed)[1].at);
  EXPECT_EQ(s.found.entries[1].header.kind, 7);
  EXPECT_EQ(s.found.entries[1].header.origin, 2u);
  EXPECT_EQ(s.read(s.found.entries[1]).data, std::string(1500, 'b'));
  EXPECT_EQ(s.read(s.found.entries[2]).data, "x");
  EXPECT_EQ(s.found.entries[2].header.watermark, 0u);
  EXPECT_EQ(s.found.entries[3].header.watermark, 3u);
}

TEST(Log, a_moved_record_keeps_its_origin) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a'), small('b')}));
  std::vector<Record> moved;
  moved.push_back(small('a').record());
  moved[0].origin = 1;
  ASSERT_TRUE(s.run(s.log->append(s.call(), std::move(moved))));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.found.entries[2].header.sequence, 3u);
  EXPECT_EQ(s.found.entries[2].header.origin, 1u);
}

TEST(Log, a_batch_never_spans_segments) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  for (int i = 0; i < 5; ++i) {
    const auto placed = s.append({small('s'), large('l', 5000)});
    ASSERT_TRUE(placed);
    EXPECT_EQ((*placed)[0].at.segment, (*placed)[1].at.segment);
    EXPECT_LE((*placed)[1].at.offset + (*placed)[1].header.size(), s.options.segment_size);
  }
  EXPECT_EQ(s.log->segments().size(), 3u);
  EXPECT_TRUE(s.log->segments()[0].sealed);
  EXPECT_FALSE(s.log->segments()[2].sealed);
  EXPECT_EQ(s.log->segments()[1].first_sequence, 5u);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.records, 10u);
  EXPECT_EQ(s.report.damaged, 0u);
  EXPECT_EQ(s.log->segments().size(), 3u);
}

TEST(Log, replay_begins_after_the_point_it_is_given) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  std::vector<LogPoint> points{{}};
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(s.append({large('l', 3000)}));
    points.push_back(s.log->end());
  }
  ASSERT_TRUE(s.roll());
  points.push_back(s.log->end());
  for (const LogPoint& point : points) {
    ASSERT_TRUE(s.open(point));
    EXPECT_EQ(s.report.index, IndexFit::good);
    EXPECT_EQ(s.report.records, 6 - point.sequence);
    EXPECT_EQ(s.report.damaged, 0u);
    EXPECT_EQ(s.log->end().sequence, 6u);
  }
}

TEST(Log, a_removed_segment_is_no_damage) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(s.append({small('s')}));
    ASSERT_TRUE(s.roll());
  }
  ASSERT_TRUE(s.remove(1));
  ASSERT_TRUE(s.remove(3));
  EXPECT_EQ(s.log->segments().size(), 3u);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{2, 4}));
  EXPECT_EQ(s.report.damaged, 0u);
  EXPECT_EQ(s.log->end().sequence, 4u);
}

TEST(Log, sequences_go_on_when_everything_was_removed) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a'), small('b')}));
  ASSERT_TRUE(s.roll());
  ASSERT_TRUE(s.remove(1));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.append({small('c')})->front().header.sequence, 3u);
}

TEST(Log, rolling_an_empty_segment_does_nothing) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.roll());
  ASSERT_TRUE(s.append({small('a')}));
  ASSERT_TRUE(s.roll());
  ASSERT_TRUE(s.roll());
  EXPECT_EQ(s.log->segments().size(), 2u);
}

TEST(Log, a_closed_log_appends_nothing) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.run(s.log->close(s.call())));
  EXPECT_EQ(code_of(s.append({small('a')})), ErrorCode::closed);
}

TEST(Log, works_on_the_kernels_disk) {
  io::TemporaryDirectory directory;
  io::RealLoop real;
  io::KernelEntropy entropy;
  io::KernelMemory memory;
  io::Machine machine{real.loop.shard(), real.loop.slab(),    real.network, real.disk,
                      entropy,           real.loop.mailbox(), real.pool,    memory};
  LogOptions options;
  options.directory = directory.at("log");
  options.segment_size = 1 << 20;
  options.reserve = 1 << 20;
  options.check = is_test_data_right;
  for (std::uint64_t life = 0; life < 3; ++life) {
    Collected found;
    LogReport report;
    auto log = real.run(Log::open(real.call(), machine, options, {}, found, report));
    ASSERT_TRUE(log);
    EXPECT_EQ(report.records, life * 20);
    EXPECT_EQ(report.damaged + report.cut_bytes, 0u);
    for (std::uint64_t i = 0; i < 10; ++i) {
      std::vector<Record> batch;
      batch.push_back(large('a', 100'000).record());
      batch.push_back(small('b').record());
      const auto placed = real.run((*log)->append(real.call(), std::move(batch)));
      ASSERT_TRUE(placed);
      EXPECT_EQ(placed->back().header.sequence, life * 20 + i * 2 + 2);
    }
    ASSERT_TRUE(real.run((*log)->close(real.call())));
  }
}

// --- the index and the log

TEST(Log, an_index_ahead_of_the_log_is_told_and_nothing_is_touched) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  const LogPoint end = s.log->end();
  ASSERT_TRUE(s.run(s.log->close(s.call())));
  const std::uint64_t before = s.disk().view().hash();
  for (const LogPoint& ahead : {LogPoint{2, {1, end.next.offset + 8}}, LogPoint{9, {2, segment_header_size}},
                                LogPoint{3, {7, 5000}}}) {
    ASSERT_TRUE(s.open(ahead));
    EXPECT_NE(s.report.index, IndexFit::good);
    EXPECT_EQ(s.report.records, 0u);
    EXPECT_EQ(code_of(s.append({small('b')})), ErrorCode::closed);
    EXPECT_EQ(s.disk().view().hash(), before);
  }
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.records, 1u);
}

TEST(Log, an_index_of_another_log_cuts_nothing) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  const Position second = s.log->end().next;
  ASSERT_TRUE(s.append({small('b')}));
  const std::uint64_t before = s.disk().view().hash();
  ASSERT_TRUE(s.open({5, second}));
  EXPECT_NE(s.report.index, IndexFit::good);
  EXPECT_EQ(s.disk().view().hash(), before);
}

TEST(Log, an_index_that_has_all_of_what_was_removed_is_caught_up_and_an_older_one_is_not) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  std::vector<LogPoint> points;
  for (const char c : {'a', 'b', 'c', 'd'}) {
    ASSERT_TRUE(s.append({small(c)}));
    points.push_back(s.log->end());
    if (c == 'b') ASSERT_TRUE(s.roll());
  }
  ASSERT_TRUE(s.remove(1));
  const std::vector<IndexFit> fits{IndexFit::behind, IndexFit::good, IndexFit::good, IndexFit::good};
  for (std::size_t i = 0; i < points.size(); ++i) {
    ASSERT_TRUE(s.open(points[i]));
    EXPECT_EQ(s.report.index, fits[i]) << i;
    if (i > 0) {
      EXPECT_EQ(s.report.records, 3 - i);
    }
  }
}

// --- which index is this log's

TEST(Log, the_index_of_another_store_is_foreign) {
  SimulatedLog s, other(2);
  for (SimulatedLog* one : {&s, &other}) {
    ASSERT_TRUE(one->open());
    ASSERT_TRUE(one->append({small('a')}));
  }
  const LogPoint end = other.log->end();
  ASSERT_TRUE(end.stamp);
  EXPECT_EQ(end.next, s.log->end().next);
  ASSERT_TRUE(s.open(end));
  EXPECT_EQ(s.report.index, IndexFit::foreign);
  // Also where this log has nothing to compare it with.
  ASSERT_TRUE(other.append({small('b')}));
  ASSERT_TRUE(s.open(other.log->end()));
  EXPECT_EQ(s.report.index, IndexFit::foreign) << "it proves no loss of this one";
}

TEST(Log, the_index_of_a_log_that_went_on_differently_is_foreign) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  const io::sim::Image fork = s.disk().view();
  ASSERT_TRUE(s.append({small('b')}));
  const LogPoint end = s.log->end();
  ASSERT_TRUE(s.open(end));
  EXPECT_EQ(s.report.index, IndexFit::good);
  EXPECT_EQ(s.log->end().stamp, end.stamp) << "also when nothing is replayed";
  ASSERT_TRUE(s.open_image(fork));
  ASSERT_TRUE(s.append({small('x')}));
  EXPECT_EQ(s.log->end().next, end.next);
  ASSERT_TRUE(s.open(end));
  EXPECT_EQ(s.report.index, IndexFit::foreign);
  EXPECT_EQ(code_of(s.append({small('c')})), ErrorCode::closed);
}

TEST(Log, rot_of_the_record_that_an_index_ends_with_does_not_make_it_foreign) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  const Entry last = s.append({small('a')})->front();
  const LogPoint end = s.log->end();
  ASSERT_TRUE(s.run(s.log->close(s.call())));
  const io::sim::Image image = s.disk().view();
  for (std::uint32_t at = 0; at < record_header_size; ++at) {
    ASSERT_TRUE(s.open_image(image, end));
    s.log.reset();
    s.disk().load(image);
    ASSERT_TRUE(s.disk().rot(s.path(1), last.at.offset + at));
    ASSERT_TRUE(s.open(end));
    EXPECT_EQ(s.report.index, IndexFit::good) << at;
    EXPECT_EQ(s.report.cut_bytes, 0u);
  }
}

TEST(Log, an_index_without_a_stamp_is_held_against_its_segment_and_stamped) {
  SimulatedLog s;
  s.options.index_stamped = true;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  ASSERT_TRUE(s.append({large('b')}));
  const LogPoint end = s.log->end();
  ASSERT_TRUE(s.open({end.sequence, end.next, {}}));
  EXPECT_EQ(s.report.index, IndexFit::good);
  EXPECT_EQ(s.log->end().stamp, end.stamp);
  ASSERT_TRUE(s.open({end.sequence + 1, end.next, {}}));
  EXPECT_EQ(s.report.index, IndexFit::foreign);
}

// --- a loss

struct Losing : SimulatedLog {
  Losing() {
    options.index_proves = true;
    EXPECT_TRUE(open());
    for (const char c : {'a', 'b', 'c', 'd'}) {
      EXPECT_TRUE(append({large(c)}));
      if (c == 'b') EXPECT_TRUE(roll());
      points.push_back(log->end());
    }
    EXPECT_TRUE(run(log->close(call())));
    log.reset();
  }
  std::vector<LogPoint> points;
};

TEST(Log, an_index_that_is_ahead_proves_what_was_lost_and_the_log_goes_on_above_it) {
  for (const bool whole_segment : {false, true}) {
    Losing s;
    if (whole_segment)
      ASSERT_TRUE(s.run(s.machine.disk.unlink(s.call(), s.path(2))));
    else
      s.disk().put(s.path(2), s.text(2).substr(0, s.points[2].next.offset + 100));
    const std::string kept = s.disk().view().text(s.path(whole_segment ? 1 : 2));
    ASSERT_TRUE(s.open(s.points[3]));
    EXPECT_TRUE(s.report.ends_lost);
    EXPECT_EQ(s.report.index, IndexFit::good);
    EXPECT_EQ(s.report.cut_bytes, 0u);
    ASSERT_EQ(s.found.damages.size(), 1u);
    const Damage& damage = s.found.damages[0];
    EXPECT_TRUE(damage.lost);
    EXPECT_EQ(damage.segment, 2u);
    EXPECT_LE(damage.from, s.points[2].next.offset + 100);
    EXPECT_GE(damage.to, s.points[3].next.offset);
    EXPECT_EQ(s.log->lost().size(), whole_segment ? 1u : 0u);
    const Entry next = s.append({small('e')})->front();
    EXPECT_EQ(next.header.sequence, 5u);
    EXPECT_EQ(next.at.segment, 3u);
    EXPECT_EQ(s.disk().view().text(s.path(whole_segment ? 1 : 2)), kept);
    ASSERT_TRUE(s.open(s.log->end()));
    EXPECT_FALSE(s.report.ends_lost);
    EXPECT_EQ(s.report.index, IndexFit::good);
    EXPECT_EQ(s.log->lost().size(), whole_segment ? 1u : 0u) << "told again";
  }
}

TEST(Log, an_index_that_stands_in_zeros_proves_a_loss_too) {
  Losing s;
  std::string bytes = s.text(2);
  std::fill(bytes.begin() + s.points[2].next.offset, bytes.end(), '\0');
  s.disk().put(s.path(2), bytes + std::string(4096, '\0'));
  ASSERT_TRUE(s.open(s.points[3]));
  EXPECT_TRUE(s.report.ends_lost);
  ASSERT_EQ(s.found.damages.size(), 1u);
  EXPECT_EQ(s.found.damages[0].from, s.points[2].next.offset);
  EXPECT_EQ(s.append({small('e')})->front().header.sequence, 5u);
}

TEST(Log, a_segment_that_is_missing_is_told_at_every_start_until_it_is_back_or_accepted) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  for (const char c : {'a', 'b', 'c', 'd'}) {
    ASSERT_TRUE(s.append({small(c)}));
    ASSERT_TRUE(s.roll());
  }
  ASSERT_TRUE(s.remove(1));
  const std::string third = s.text(3);
  ASSERT_TRUE(s.run(s.machine.disk.unlink(s.call(), s.path(3))));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(s.open());
    EXPECT_EQ(s.log->lost(), (std::vector<std::uint32_t>{3}));
    ASSERT_EQ(s.found.damages.size(), 1u);
    EXPECT_TRUE(s.found.damages[0].lost);
    EXPECT_EQ(s.found.damages[0].segment, 3u);
    EXPECT_EQ(s.found.damages[0].last_sequence, 3u);
  }
  s.disk().put(s.path(3), third);
  ASSERT_TRUE(s.open());
  EXPECT_TRUE(s.log->lost().empty());
  EXPECT_EQ(s.sequences(), (Sequences{2, 3, 4}));
  ASSERT_TRUE(s.run(s.machine.disk.unlink(s.call(), s.path(3))));
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.run(s.log->accept_losses(s.call())));
  EXPECT_TRUE(s.log->lost().empty());
  ASSERT_TRUE(s.open());
  EXPECT_TRUE(s.log->lost().empty());
  EXPECT_EQ(s.report.damaged, 0u);
}

TEST(Log, gaps_from_before_removals_were_noted_are_no_loss) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  std::vector<LogPoint> points;
  for (const char c : {'a', 'b', 'c', 'd'}) {
    ASSERT_TRUE(s.append({small(c)}));
    points.push_back(s.log->end());
    ASSERT_TRUE(s.roll());
  }
  ASSERT_TRUE(s.run(s.machine.disk.unlink(s.call(), "log/removed")));
  ASSERT_TRUE(s.run(s.machine.disk.unlink(s.call(), s.path(2))));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.damaged, 0u);
  EXPECT_TRUE(s.log->lost().empty());
  // And an index that has not all of what was there is too old.
  ASSERT_TRUE(s.open(points[0]));
  EXPECT_EQ(s.report.index, IndexFit::behind);
  ASSERT_TRUE(s.open(points[1]));
  EXPECT_EQ(s.report.index, IndexFit::good);
  ASSERT_TRUE(s.run(s.machine.disk.unlink(s.call(), s.path(3))));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.log->lost(), (std::vector<std::uint32_t>{3}));
}

TEST(Log, a_removal_needs_no_room) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  for (const char c : {'a', 'b', 'c'}) {
    ASSERT_TRUE(s.append({small(c)}));
    ASSERT_TRUE(s.roll());
  }
  s.disk().set_capacity(s.disk().used());
  ASSERT_TRUE(s.remove(2));
  ASSERT_TRUE(s.remove(1));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.damaged, 0u);
  EXPECT_EQ(s.sequences(), (Sequences{3}));
}

TEST(Log, rot_of_one_slot_of_the_removals_loses_no_more_than_the_last) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  for (const char c : {'a', 'b', 'c', 'd'}) {
    ASSERT_TRUE(s.append({small(c)}));
    ASSERT_TRUE(s.roll());
  }
  ASSERT_TRUE(s.remove(1));
  ASSERT_TRUE(s.remove(3));
  const io::sim::Image image = s.disk().view();
  std::set<std::vector<std::uint32_t>> seen;
  for (const std::uint64_t slot : {0u, 1u}) {
    s.log.reset();
    s.disk().load(image);
    ASSERT_TRUE(s.disk().rot("log/removed", slot * removal_slot_size + 20));
    ASSERT_TRUE(s.open());
    seen.insert(s.log->lost());
  }
  EXPECT_EQ(seen, (std::set<std::vector<std::uint32_t>>{{}, {3}}));
  s.log.reset();
  s.disk().load(image);
  for (const std::uint64_t slot : {0u, 1u})
    ASSERT_TRUE(s.disk().rot("log/removed", slot * removal_slot_size + 20));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.damaged, 1u) << "told";
  EXPECT_TRUE(s.log->lost().empty());
}

TEST(Removals, more_ranges_than_fit_are_merged_and_never_forgotten) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  LogRemovals removals(s.machine, "log", {});
  std::vector<std::uint32_t> odd;
  for (std::uint32_t i = 0; i < removal_ranges_max + 100; ++i) odd.push_back(2 * i + 1);
  ASSERT_TRUE(s.run(removals.add(s.call(), odd, 9)));
  LogRemovals again(s.machine, "log", {});
  EXPECT_EQ(*s.run(again.open(s.call())), LogRemovals::Found::good);
  for (const std::uint32_t id : odd) EXPECT_TRUE(again.contains(id));
  EXPECT_FALSE(again.contains(odd.back() - 1));
  EXPECT_FALSE(again.contains(odd.back() + 1));
  EXPECT_EQ(again.floor(), 9u);
}

// --- rot

struct Rotten : SimulatedLog {
  // Three records in a batch, then others that prove them durable, in the same segment or the next ones.
  explicit Rotten(bool rolled) {
    EXPECT_TRUE(open());
    EXPECT_TRUE(append({small('z')}));
    const auto placed = append({small('a'), large('b', 200), {"c", "123"}});
    for (const Entry& p : *placed) ranges.push_back({p.at.offset, p.at.offset + p.header.size()});
    if (rolled) EXPECT_TRUE(roll());
    EXPECT_TRUE(append({small('d')}));
    EXPECT_TRUE(append({small('e')}));
    EXPECT_TRUE(run(log->close(call())));
    image = disk().view();
    log.reset();
  }
  io::sim::Image rotten(std::uint64_t offset, std::byte mask, std::uint32_t segment = 1) {
    io::sim::Image copy = image;
    io::sim::FileData& file = copy.own(copy.find(path(segment))->inode);
    std::byte byte{};
    file.peek(offset, {&byte, 1});
    byte ^= mask;
    file.poke(offset, {&byte, 1});
    return copy;
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  io::sim::Image image;
};

TEST(Log, rot_of_any_byte_loses_only_the_record_it_hit) {
  for (const bool rolled : {false, true}) {
    Rotten s(rolled);
    for (std::uint64_t at = s.ranges[0].first; at < s.ranges[2].second; ++at) {
      const std::byte mask{static_cast<unsigned char>(1u << (at % 8))};
      ASSERT_TRUE(s.open_image(s.rotten(at, mask)));
      Sequences expected{1, 2, 3, 4, 5, 6};
      const Sequences all = s.sequences();
      std::uint64_t hit = 0;
      for (std::uint64_t i = 0; i < 3; ++i)
        if (at >= s.ranges[i].first && at < s.ranges[i].second) hit = i + 2;
      if (all.size() == 5) {
        std::erase(expected, hit);
        ASSERT_EQ(s.found.damages.size(), 1u);
        EXPECT_EQ(s.found.damages[0].segment, 1u);
        EXPECT_EQ(s.found.damages[0].from, s.ranges[hit - 2].first);
        EXPECT_EQ(s.found.damages[0].to, s.ranges[hit - 2].second);
        EXPECT_EQ(s.found.damages[0].first_sequence, hit);
        EXPECT_EQ(s.found.damages[0].last_sequence, hit);
      } else {
        EXPECT_TRUE(s.found.damages.empty());
        EXPECT_GE(at, s.ranges[hit - 2].first + record_header_size + 8) << "header and meta are covered";
      }
      ASSERT_EQ(all, expected) << at;
      ASSERT_EQ(s.report.cut_bytes, 0u);
      EXPECT_EQ(s.append({small('f')})->front().header.sequence, 7u);
    }
  }
}

TEST(Log, rot_of_a_segments_header_loses_nothing) {
  for (const std::uint32_t segment : {1u, 2u}) {
    Rotten s(true);
    for (std::uint64_t at = 0; at < head_size; ++at) {
      ASSERT_TRUE(s.open_image(s.rotten(at, std::byte{4}, segment)));
      EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3, 4, 5, 6}));
      ASSERT_EQ(s.found.damages.size(), 1u);
      EXPECT_EQ(s.found.damages[0].segment, segment);
      EXPECT_EQ(s.found.damages[0].from, 0u);
      EXPECT_EQ(s.append({small('f')})->front().header.sequence, 7u);
    }
  }
}

TEST(Log, the_key_is_restored_from_any_copy) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  ASSERT_TRUE(s.roll());
  ASSERT_TRUE(s.append({small('b')}));
  const std::string kept = s.disk().view().text("log/key");
  ASSERT_TRUE(s.disk().rot("log/key", 30));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.records, 2u);
  EXPECT_EQ(s.report.damaged, 1u);
  EXPECT_EQ(s.disk().view().text("log/key"), kept);
  ASSERT_TRUE(s.disk().rot(s.path(1), 30));
  ASSERT_TRUE(s.disk().rot("log/key", 30));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.records, 2u);
  EXPECT_EQ(s.disk().view().text("log/key"), kept);
}

TEST(Log, without_any_copy_of_the_key_nothing_is_touched) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  ASSERT_TRUE(s.disk().rot(s.path(1), 30));
  ASSERT_TRUE(s.disk().rot("log/key", 30));
  const std::uint64_t before = s.disk().view().hash();
  EXPECT_EQ(code_of(s.open()), ErrorCode::integrity);
  EXPECT_EQ(s.disk().view().hash(), before);
}

// A log of three segments, and one of another store.
struct Mixed : SimulatedLog {
  Mixed() : other(2) {
    EXPECT_TRUE(other.open());
    EXPECT_TRUE(open());
    for (const char c : {'a', 'b', 'c'}) {
      if (c != 'a') {
        EXPECT_TRUE(other.roll());
        EXPECT_TRUE(roll());
      }
      EXPECT_TRUE(other.append({large('x'), large('y')}));
      EXPECT_TRUE(append({large(c)}));
    }
  }
  std::string aside(std::uint32_t segment, const char* more = "") {
    return disk().view().text(path(segment) + ".foreign" + more);
  }
  SimulatedLog other;
};

TEST(Log, a_segment_of_another_store_is_set_aside_whole) {
  for (const std::uint32_t as : {2u, 3u, 4u, 9u})
    for (const std::uint32_t which : {1u, 2u, 3u}) {
      Mixed s;
      const std::string bytes = s.other.text(which);
      s.disk().put(s.path(as), bytes);
      ASSERT_TRUE(s.open());
      EXPECT_EQ(s.aside(as), bytes);
      EXPECT_EQ(s.report.cut_bytes, 0u);
      const auto foreign = s.log->take_foreign();
      ASSERT_EQ(foreign.size(), 1u);
      EXPECT_EQ(foreign[0].segment, as);
      EXPECT_EQ(foreign[0].header_segment, which);
      EXPECT_TRUE(s.log->take_foreign().empty());
      if (as > 3) EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3}));
      ASSERT_TRUE(s.roll());
      EXPECT_EQ(s.log->segments().back().id, std::max(as, 3u) + 1);
      ASSERT_TRUE(s.open());
      EXPECT_EQ(s.report.foreign, 1u);
      EXPECT_TRUE(s.log->take_foreign().empty());
      EXPECT_EQ(s.aside(as), bytes);
    }
}

TEST(Log, the_number_in_the_header_of_a_file_that_was_set_aside_is_not_used_again) {
  SimulatedLog s, other(2);
  for (SimulatedLog* one : {&s, &other}) ASSERT_TRUE(one->open());
  ASSERT_TRUE(s.append({small('a')}));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(other.append({small('x')}));
    ASSERT_TRUE(other.roll());
  }
  s.disk().put(s.path(2), other.text(6));
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('b')}));
  ASSERT_TRUE(s.roll());
  EXPECT_EQ(s.log->segments().back().id, 7u);
}

TEST(Log, segments_whose_names_were_swapped_are_not_cut_and_their_sequences_not_used_again) {
  Mixed s;
  const std::string second = s.text(2), third = s.text(3);
  s.disk().put(s.path(2), third);
  s.disk().put(s.path(3), second);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1}));
  EXPECT_EQ(s.report.cut_bytes, 0u);
  EXPECT_EQ(s.aside(2), third);
  EXPECT_EQ(s.aside(3), second);
  const auto foreign = s.log->take_foreign();
  ASSERT_EQ(foreign.size(), 2u);
  EXPECT_EQ(foreign[0].header_segment, 3u);
  EXPECT_EQ(foreign[1].header_segment, 2u);
  const Entry next = s.append({small('d')})->front();
  EXPECT_EQ(next.at.segment, 4u);
  EXPECT_GT(next.header.sequence, 3u);
  // Brought to where they belong they are part of the log again.
  s.disk().put(s.path(2), second);
  s.disk().put(s.path(3), third);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3, next.header.sequence}));
}

TEST(Log, a_name_for_files_set_aside_is_never_used_twice) {
  Mixed s;
  for (const std::uint32_t which : {1u, 2u, 3u}) {
    s.disk().put(s.path(7), s.other.text(which));
    ASSERT_TRUE(s.open());
  }
  EXPECT_EQ(s.aside(7), s.other.text(1));
  EXPECT_EQ(s.aside(7, ".2"), s.other.text(2));
  EXPECT_EQ(s.aside(7, ".3"), s.other.text(3));
  EXPECT_EQ(s.report.foreign, 3u);
}

TEST(Log, the_last_segment_is_not_cut_when_the_next_one_is_only_misplaced) {
  Mixed s;
  ASSERT_TRUE(s.roll());
  ASSERT_TRUE(s.append({large('d')}));
  ASSERT_TRUE(s.run(s.log->close(s.call())));
  s.disk().put(s.path(9), s.text(4));
  ASSERT_TRUE(s.run(s.machine.disk.unlink(s.call(), s.path(4))));
  // The end of the third has rotted: only the header of the fourth proves that it was durable.
  const std::uint64_t size = s.text(3).size();
  ASSERT_TRUE(s.disk().rot(s.path(3), size - 1600));
  ASSERT_TRUE(s.disk().rot(s.path(3), size - 1560));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.cut_bytes, 0u);
  EXPECT_EQ(s.text(3).size(), size);
  const Entry next = s.append({small('e')})->front();
  EXPECT_EQ(next.at.segment, 10u);
  EXPECT_GT(next.header.sequence, 4u);
}

TEST(Log, a_segment_that_lost_its_header_is_never_cut) {
  Mixed s;
  ASSERT_TRUE(s.disk().rot(s.path(3), 30));
  s.disk().put(s.path(3), s.text(3) + std::string(200, 'j'));
  const std::string bytes = s.text(3);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3}));
  EXPECT_EQ(s.text(3), bytes);
  EXPECT_EQ(s.report.cut_bytes, 0u);
  EXPECT_EQ(s.append({small('d')})->front().at.segment, 4u);
}

TEST(Log, a_file_of_noise_under_a_segments_name_is_set_aside) {
  for (const std::uint32_t as : {4u, 8u}) {
    Mixed s;
    const std::string noise(9000, 'n');
    s.disk().put(s.path(as), noise);
    ASSERT_TRUE(s.open());
    EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3}));
    EXPECT_EQ(s.report.damaged, 0u);
    EXPECT_EQ(s.aside(as), noise);
    EXPECT_EQ(s.log->take_foreign().front().header_segment, std::nullopt);
  }
}

TEST(Log, a_file_in_the_place_of_the_next_segment_is_set_aside_unless_it_is_too_short_for_a_record) {
  Mixed s;
  const std::string bytes = s.other.text(2);
  s.disk().put(s.path(4), bytes);
  s.disk().put(s.path(5), "an attempt");
  ASSERT_TRUE(s.roll());
  EXPECT_EQ(s.log->segments().back().id, 5u);
  EXPECT_EQ(s.aside(4), bytes);
  ASSERT_EQ(s.log->take_foreign().size(), 1u);
  ASSERT_TRUE(s.append({small('d')}));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3, 4}));
  EXPECT_EQ(s.report.damaged, 0u);
}

TEST(Log, with_the_key_file_of_another_store_nothing_is_touched) {
  Mixed s;
  s.disk().put("log/key", s.other.disk().view().text("log/key"));
  const std::uint64_t before = s.disk().view().hash();
  EXPECT_EQ(code_of(s.open()), ErrorCode::integrity);
  EXPECT_NE(s.report.problem.find("key of another store"), std::string::npos);
  EXPECT_EQ(s.disk().view().hash(), before);
}

TEST(Log, without_a_good_key_file_segments_that_disagree_are_refused) {
  Mixed s;
  s.disk().put(s.path(2), s.other.text(2));
  ASSERT_TRUE(s.disk().rot("log/key", 30));
  const std::uint64_t before = s.disk().view().hash();
  EXPECT_EQ(code_of(s.open()), ErrorCode::integrity);
  EXPECT_NE(s.report.problem.find("has another key than others"), std::string::npos);
  EXPECT_EQ(s.disk().view().hash(), before);
}

TEST(Log, a_newer_major_version_is_refused_by_name) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  std::string bytes = s.text(1);
  bytes[8] = 9;
  const Address sum = crypto::hash_object(as_bytes(std::string_view(bytes).substr(0, 112)));
  bytes.replace(112, 16, as_text(ByteView(sum.bytes).first(16)));
  s.disk().put(s.path(2), bytes);
  EXPECT_EQ(code_of(s.open()), ErrorCode::integrity);
  EXPECT_EQ(s.report.problem, "0000000002.seg has format version 9, this program reads up to 1");
}

// The original and the record that carries its copy are both damaged, so that neither the order of sequences
// nor the seal tells them apart: only the place does.
TEST(Log, a_copy_of_a_record_inside_data_is_never_a_record) {
  for (const bool elsewhere : {false, true}) {
    SimulatedLog s;
    ASSERT_TRUE(s.open());
    ASSERT_TRUE(s.append({small('a')}));
    const Entry victim = s.append({{"victim..", "payload"}})->front();
    const std::string copy = s.text(1).substr(victim.at.offset, victim.header.size());
    if (elsewhere) ASSERT_TRUE(s.roll());
    const Entry carrier = s.append({{"carrier.", copy + copy + copy}})->front();
    ASSERT_TRUE(s.append({small('c')}));
    ASSERT_TRUE(s.append({small('d')}));
    ASSERT_TRUE(s.disk().rot(s.path(1), victim.at.offset + 20));
    ASSERT_TRUE(s.disk().rot(s.path(carrier.at.segment), carrier.at.offset + 20));
    ASSERT_TRUE(s.open());
    EXPECT_EQ(s.sequences(), (Sequences{1, 4, 5}));
    EXPECT_EQ(s.report.cut_bytes, 0u);
  }
}

TEST(Log, damage_that_a_later_watermark_covers_is_never_cut) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  const Entry a = s.append({large('a')})->front();
  const Entry b = s.append({large('b')})->front();
  // The later record is itself torn: its header is enough to prove that the one before was durable.
  std::string bytes = s.text(1);
  bytes[a.at.offset + record_header_size + 100] ^= 1;
  bytes.resize(b.at.offset + 200);
  s.disk().put(s.path(1), bytes);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1}));
  EXPECT_EQ(s.report.cut_bytes, 200u);
  EXPECT_EQ(s.text(1).size(), b.at.offset);
}

TEST(Log, rot_at_the_end_of_a_log_that_its_index_proves_is_kept) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  const LogPoint half = s.log->end();
  const Entry b = s.append({small('b'), small('c')})->front();
  ASSERT_TRUE(s.append({small('d')}));
  const std::uint64_t size = s.text(1).size();
  for (std::uint64_t at = b.at.offset; at < size; at += 32) ASSERT_TRUE(s.disk().rot(s.path(1), at));
  // The index has everything up to the last record; only the records before it are read.
  ASSERT_TRUE(s.open({4, {1, static_cast<std::uint32_t>(size)}}));
  EXPECT_EQ(s.text(1).size(), size);
  EXPECT_EQ(s.append({small('e')})->front().header.sequence, 5u);
  ASSERT_TRUE(s.open(half));
  EXPECT_EQ(s.sequences(), (Sequences{5}));
  ASSERT_EQ(s.found.damages.size(), 1u);
  EXPECT_EQ(s.found.damages[0].first_sequence, 2u);
  EXPECT_EQ(s.found.damages[0].last_sequence, 4u);
}

TEST(Log, a_sequence_is_never_given_twice_even_when_the_end_of_a_segment_rots) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  const Entry b = s.append({small('b'), small('c')})->front();
  // The next segment was about to be made: its file proves that this one was durable to its end.
  s.disk().put(s.path(2), "torn");
  const std::uint64_t size = s.text(1).size();
  for (std::uint64_t at = b.at.offset; at < size; at += 32) ASSERT_TRUE(s.disk().rot(s.path(1), at));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1}));
  EXPECT_EQ(s.report.cut_bytes, 0u);
  EXPECT_GE(s.append({small('d')})->front().header.sequence, 4u);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.found.entries.size(), 2u);
  EXPECT_EQ(s.report.damaged, 1u);
  EXPECT_EQ(s.found.damages[0].first_sequence, 2u);
}

TEST(Log, a_segment_that_lost_its_end_is_damaged) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  const Entry b = s.append({small('b')})->front();
  ASSERT_TRUE(s.roll());
  s.disk().put(s.path(1), s.text(1).substr(0, b.at.offset));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1}));
  ASSERT_EQ(s.found.damages.size(), 1u);
  EXPECT_EQ(s.found.damages[0].first_sequence, 2u);
  EXPECT_EQ(s.found.damages[0].last_sequence, 2u);
  EXPECT_EQ(s.append({small('c')})->front().header.sequence, 3u);
}

// --- a disk that fails

TEST(Log, a_full_disk_refuses_the_batch_and_nothing_else) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  const LogPoint end = s.log->end();
  s.disk().set_capacity(s.disk().used() + 300);
  EXPECT_EQ(code_of(s.append({large('b')})), ErrorCode::storage_full);
  EXPECT_FALSE(s.log->fenced());
  EXPECT_EQ(s.log->end().next, end.next);
  EXPECT_EQ(s.text(1).size(), end.next.offset);
  ASSERT_TRUE(s.append({small('c')}));
  s.disk().set_capacity(1 << 20);
  ASSERT_TRUE(s.append({large('d')}));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3}));
}

TEST(Log, a_full_disk_does_not_keep_a_log_from_opening) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  s.disk().put(s.path(2), "torn");
  s.disk().set_capacity(s.disk().used());
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.records, 1u);
  EXPECT_EQ(code_of(s.append({small('b')})), ErrorCode::storage_full);
  s.disk().set_capacity(1 << 20);
  ASSERT_TRUE(s.append({small('b')}));
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2}));
}

TEST(Log, after_a_failed_sync_the_log_is_fenced) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  s.disk().fail_call(io::sim::DiskCall::sync_data, 1);
  EXPECT_EQ(code_of(s.append({small('b')})), ErrorCode::degraded);
  EXPECT_TRUE(s.log->fenced());
  EXPECT_EQ(code_of(s.append({small('c')})), ErrorCode::degraded);
  EXPECT_EQ(code_of(s.roll()), ErrorCode::degraded);
  ASSERT_TRUE(s.open());
  EXPECT_FALSE(s.log->fenced());
  EXPECT_GE(s.report.records, 1u);
  ASSERT_TRUE(s.append({small('d')}));
}

TEST(Log, L9_a_log_that_is_not_compacted_is_fenced_when_its_last_segment_loses_its_name) {
  SimulatedLog s;
  s.options.compacted = false;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  s.disk().take_away(s.path(1));
  EXPECT_EQ(code_of(s.append({small('b')})), ErrorCode::degraded);
  EXPECT_TRUE(s.log->fenced());
  EXPECT_EQ(s.log->lost(), (std::vector<std::uint32_t>{1}));
}

TEST(Log, a_disk_that_takes_too_long_fences_the_log) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  s.disk().stall(Duration::seconds(60));
  EXPECT_EQ(code_of(s.append({small('a')})), ErrorCode::degraded);
  EXPECT_TRUE(s.log->fenced());
}

TEST(Log, cancelling_the_caller_does_not_stop_an_append) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  Scope scope(s.machine.shard);
  scope.cancel(StopReason::client_gone);
  std::vector<Record> batch;
  batch.push_back(small('a').record());
  EXPECT_TRUE(s.run(s.log->append(scope.call(), std::move(batch))));
}

TEST(Log, a_sector_that_cannot_be_read_is_damage_in_the_middle_and_an_error_at_the_end) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  ASSERT_TRUE(s.roll());
  ASSERT_TRUE(s.append({small('b')}));
  SegmentFiles files(s.machine, s.options.directory);
  auto file = s.run(files.get(s.call(), 1));
  ASSERT_TRUE(file);
  SegmentScan scan(s.machine, *file, 1, s.log->key_of(1), 0, s.log->segments()[0].size);
  s.disk().fail_call(io::sim::DiskCall::read, 1, io::sim::DiskFailure::error, true);
  auto head = s.run(scan.next(s.call()));
  ASSERT_TRUE(head && head->damage);
  EXPECT_TRUE(head->damage->unreadable);
  auto records = s.run(scan.next(s.call()));
  ASSERT_TRUE(records && records->damage);
  EXPECT_TRUE(records->damage->unreadable);
  EXPECT_EQ(code_of(s.open()), ErrorCode::io_failed);
  s.disk().heal();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.records, 2u);
}

// --- the reserve

TEST(Log, what_frees_space_works_on_a_full_disk) {
  SimulatedLog s;
  s.options.reserve = 64 << 10;
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.disk().view().text("log/reserve").size(), s.options.reserve);
  ASSERT_TRUE(s.append({small('a')}));
  s.disk().set_capacity(s.disk().used());
  EXPECT_EQ(code_of(s.append({small('b')})), ErrorCode::storage_full);
  TestRecord frees = large('d');
  frees.reserve = true;
  EXPECT_EQ(code_of(s.append({frees, small('b')})), ErrorCode::storage_full) << "only if all of them may";
  ASSERT_TRUE(s.append({frees}));
  EXPECT_EQ(s.disk().view().find("log/reserve"), nullptr);
  EXPECT_EQ(code_of(s.append({small('c')})), ErrorCode::storage_full)
      << "there would be room, but it is spoken for";
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(s.append({frees}));
  ASSERT_TRUE(s.roll());
  // Space came back: so does the reserve, though not at once.
  s.disk().set_capacity(1 << 20);
  s.world.run_for(Duration::seconds(2));
  ASSERT_TRUE(s.append({small('e')}));
  EXPECT_EQ(s.disk().view().text("log/reserve").size(), s.options.reserve);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.records, 23u);
  EXPECT_EQ(s.report.damaged, 0u);
}

TEST(Log, a_log_that_is_compacted_leaves_room_for_a_segment) {
  SimulatedLog s;
  s.options.segment_size = 64 << 10;
  s.options.reserve = 16 << 10;
  s.options.compacted = true;
  const std::uint64_t kept = s.options.segment_size + s.options.reserve;
  s.disk().set_capacity(1 << 20);
  ASSERT_TRUE(s.open());
  Result<std::vector<Entry>> last = s.append({large('a')});
  for (int i = 0; i < 1000 && last; ++i) last = s.append({large('a')});
  EXPECT_EQ(code_of(last), ErrorCode::storage_full);
  const auto free = [&] { return (1 << 20) - s.disk().used(); };
  EXPECT_GE(free(), kept);
  EXPECT_LT(free(), kept + 20'000);
  EXPECT_FALSE(s.run(s.log->has_room(s.call())));
  const auto room = s.run(s.log->room_to_copy(s.call()));
  ASSERT_TRUE(room);
  EXPECT_EQ(room->most, free());
  EXPECT_EQ(room->safe, free());
  TestRecord frees = large('d');
  frees.reserve = true;
  ASSERT_TRUE(s.append({frees})) << "what frees space has this room";
  EXPECT_NE(s.disk().view().find("log/reserve"), nullptr) << "and the reserve is still there";
  const std::uint32_t oldest = s.log->segments().front().id;
  ASSERT_TRUE(s.run(s.log->remove_segment(s.call(), oldest)));
  EXPECT_TRUE(s.run(s.log->has_room(s.call())));
  ASSERT_TRUE(s.append({large('e')}));
}

TEST(Log, segments_are_short_on_a_small_disk) {
  SimulatedLog s;
  s.options.segment_size = 256 << 20;
  s.options.compacted = true;
  s.options.reserve = 0;
  s.disk().set_capacity(70 << 20);
  ASSERT_TRUE(s.open());
  for (int i = 0; i < 56; ++i)
    for (int part = 0; part < 8; ++part) ASSERT_TRUE(s.append({large('a', 128 << 10)}));
  EXPECT_GE(s.log->segments().size(), 50u);
  EXPECT_LE(s.log->segments().size(), 64u);
  EXPECT_LE(s.log->segment_length(), (70u << 20) / 64);
  // One batch may be longer than that.
  ASSERT_TRUE(s.append({large('b', 1 << 20), large('c', 1 << 20), large('d', 1 << 20), large('e', 1 << 20),
                        large('f', 1 << 20), large('g', 1 << 20)}));
  EXPECT_GT(s.log->segments().back().size, 6u << 20);
  EXPECT_EQ(s.report.damaged, 0u);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences().size(), 56u * 8 + 6);
}

TEST(Log, a_batch_that_is_longer_than_a_segment_has_one_of_its_own) {
  SimulatedLog s;
  s.options.ahead = 1 << 10;
  ASSERT_TRUE(s.open());
  const TestRecord longer = large('b', 3 * s.options.segment_size);
  std::vector<std::uint32_t> in;
  for (const TestRecord& record : {longer, large('a'), longer, longer, large('c')}) {
    const auto appended = s.append({record});
    ASSERT_TRUE(appended);
    in.push_back(appended->front().at.segment);
    EXPECT_EQ(s.read(appended->front()).data, record.data);
  }
  EXPECT_EQ(in, (std::vector<std::uint32_t>{1, 2, 3, 4, 5})) << "and none is left empty";
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.report.damaged, 0u);
  EXPECT_EQ(s.sequences(), (Sequences{1, 2, 3, 4, 5}));
  for (std::size_t i : {0u, 2u, 3u}) EXPECT_EQ(s.read(s.found.entries[i]).data, longer.data);
}

TEST(Log, a_segment_can_be_begun_on_a_full_disk_by_what_frees_space) {
  SimulatedLog s;
  s.options.reserve = 64 << 10;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({large('a', 7000)}));
  s.disk().set_capacity(s.disk().used());
  TestRecord frees = large('d', 6000);
  frees.reserve = true;
  ASSERT_TRUE(s.append({frees}));
  EXPECT_EQ(s.log->segments().size(), 2u);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.sequences(), (Sequences{1, 2}));
}

TEST(Log, a_reserve_of_another_size_is_made_anew) {
  SimulatedLog s;
  s.options.reserve = 64 << 10;
  ASSERT_TRUE(s.open());
  s.options.reserve = 32 << 10;
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.disk().view().text("log/reserve").size(), s.options.reserve);
  s.options.reserve = 0;
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.disk().view().find("log/reserve"), nullptr);
}

// --- reading segments

TEST(SegmentScan, finds_every_record_with_large_meta_and_data) {
  SimulatedLog s;
  s.options.segment_size = 8 << 20;
  ASSERT_TRUE(s.open());
  std::vector<Entry> placed;
  for (std::size_t i = 0; i < 40; ++i) {
    const auto one = s.append({{std::string(i * 9000, 'm'), std::string((i * 7919) % 100'000, 'd')}});
    ASSERT_TRUE(one);
    placed.push_back(one->front());
  }
  ASSERT_GT(s.log->segments().size(), 1u);
  std::size_t next = 0;
  for (const SegmentInfo& info : s.log->segments()) {
    SegmentFiles files(s.machine, s.options.directory);
    auto file = s.run(files.get(s.call(), info.id));
    ASSERT_TRUE(file);
    SegmentScan scan(s.machine, *file, info.id, s.log->key_of(info.id), 0, info.size);
    for (;;) {
      auto found = s.run(scan.next(s.call()));
      ASSERT_TRUE(found);
      EXPECT_FALSE(found->damage);
      if (!found->entry) break;
      ASSERT_LT(next, placed.size());
      EXPECT_EQ(found->entry->at, placed[next].at);
      EXPECT_EQ(found->entry->meta.size(), 8 + next * 9000);
      EXPECT_EQ(s.read(*found->entry).data, std::string((next * 7919) % 100'000, 'd'));
      ++next;
    }
    EXPECT_EQ(scan.offset(), info.size);
  }
  EXPECT_EQ(next, placed.size());
}

TEST(SegmentScan, a_record_older_than_the_one_before_it_is_none) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  const Entry first = s.append({small('a')})->front();
  ASSERT_TRUE(s.append({small('b')}));
  RecordHeader old;
  old.sequence = old.origin = 1;
  old.offset = static_cast<std::uint32_t>(first.at.offset + first.header.size());
  std::string bytes = s.text(1);
  bytes.replace(old.offset, record_header_size, as_text(encode_header(old, {}, s.log->key_of(1))));
  s.disk().put(s.path(1), bytes);
  SegmentFiles files(s.machine, s.options.directory);
  auto file = s.run(files.get(s.call(), 1));
  ASSERT_TRUE(file);
  SegmentScan scan(s.machine, *file, 1, s.log->key_of(1), 0, bytes.size());
  EXPECT_TRUE(s.run(scan.next(s.call()))->entry);
  EXPECT_TRUE(s.run(scan.next(s.call()))->damage);
  EXPECT_FALSE(s.run(scan.next(s.call()))->entry);
}

TEST(SegmentScan, a_file_shorter_than_a_header_is_one_damage) {
  SimulatedLog s;
  for (const std::size_t size : {0u, 1u, 127u, 300u, 4095u, 4096u, 4100u}) {
    s.disk().put("short", std::string(size, 'x'));
    auto file = s.run(s.machine.disk.open(s.call(), "short", io::OpenMode::read));
    ASSERT_TRUE(file);
    SegmentScan scan(s.machine, std::move(*file), 1, {}, 0, size);
    std::uint64_t covered = 0;
    for (;;) {
      auto found = s.run(scan.next(s.call()));
      ASSERT_TRUE(found);
      if (!found->damage) break;
      ASSERT_EQ(found->damage->from, covered);
      ASSERT_GT(found->damage->to, covered);
      covered = found->damage->to;
    }
    EXPECT_EQ(covered, size);
  }
}

TEST(SegmentScan, stops_clean_when_its_caller_is_stopped) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.append({small('a')}));
  SegmentFiles files(s.machine, s.options.directory);
  auto file = s.run(files.get(s.call(), 1));
  ASSERT_TRUE(file);
  SegmentScan scan(s.machine, *file, 1, s.log->key_of(1), 0, s.log->segments()[0].size);
  s.disk().faults.cold = 1'000'000;
  Scope scope(s.machine.shard);
  scope.cancel(StopReason::client_gone);
  EXPECT_EQ(code_of(s.run(scan.next(scope.call()))), ErrorCode::cancelled);
  auto found = s.run(scan.next(s.call()));
  ASSERT_TRUE(found && found->entry);
  EXPECT_EQ(found->entry->header.sequence, 1u);
}

TEST(SegmentFiles, keeps_no_more_open_than_it_may) {
  SimulatedLog s;
  ASSERT_TRUE(s.open());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(s.append({small('a')}));
    ASSERT_TRUE(s.roll());
  }
  SegmentFiles files(s.machine, s.options.directory, 2);
  const std::size_t before = s.disk().open_files();
  for (const std::uint32_t id : {1u, 2u, 1u, 3u}) ASSERT_TRUE(s.run(files.get(s.call(), id)));
  EXPECT_EQ(s.disk().open_files(), before + 2);
  EXPECT_NE(files.find(1), nullptr) << "used after the second";
  EXPECT_EQ(files.find(2), nullptr);
  EXPECT_NE(files.find(3), nullptr);
  files.forget(3);
  EXPECT_EQ(files.find(3), nullptr);
  EXPECT_EQ(code_of(s.run(files.get(s.call(), 99))), ErrorCode::not_found);
}

}  // namespace
}  // namespace cairn::store
