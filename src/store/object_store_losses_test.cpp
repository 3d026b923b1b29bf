// Bytes that are not bad but gone: segments that are cut short or taken away, before a start and under a
// store that runs. What is gone is told, answered as `integrity`, and can be put again, removed or given up.
#include <gtest/gtest.h>

#include <map>

#include "store/segment.h"
#include "store/simulated_store.h"

namespace cairn::store {
namespace {

constexpr std::size_t part_size = crypto::part_size;

struct Losing : SimulatedStore {
  Losing() { options.segment_size = 4 << 20; }
  static std::string segment(std::uint32_t id) { return segment_path("data/segments", id); }
  std::uint64_t offset_of(std::string_view bytes, std::uint32_t id) {
    return disk().view().text(segment(id)).find(bytes);
  }
  void cut(std::uint32_t id, std::uint64_t size) {
    auto file = run(machine().disk.open(call(), segment(id), io::OpenMode::write));
    ASSERT_TRUE(file);
    ASSERT_TRUE(run((*file)->truncate(call(), size)));
  }
  void unlink(std::uint32_t id) { ASSERT_TRUE(run(machine().disk.unlink(call(), segment(id)))); }
  void roll() { ASSERT_TRUE(run(store->home().roll(call()))); }
  // A header that does not say how long the segment before it is: as older programs wrote them.
  void forget_end_before(std::uint32_t id) {
    std::string text = disk().view().text(segment(id));
    SegmentHeader header;
    ASSERT_EQ(decode_segment_header(as_bytes(text), header), HeadState::good);
    ASSERT_GT(header.previous_end, 0u);
    header.previous_end = 0;
    const HeapBytes bytes = encode_segment_header(header);
    text.replace(0, bytes.size(), as_text(bytes.bytes()));
    disk().put(segment(id), text);
  }
  std::string upload(const std::vector<std::string>& parts) {
    std::string all;
    const Ulid token = begin()->token;
    for (std::uint32_t i = 0; i < parts.size(); ++i) {
      EXPECT_TRUE(part(token, i, parts[i]));
      all += parts[i];
    }
    EXPECT_TRUE(commit(token));
    return all;
  }
  void forget_read(const std::string& bytes) { cache().erase(address_of(bytes)); }
};

// Everything that may be asked about an object that is lost.
void expect_lost(Losing& s, const std::vector<std::string>& lost) {
  EXPECT_EQ(s.store->status().quarantined, lost.size());
  EXPECT_FALSE(s.store->status().whole());
  for (const std::string& bytes : lost) EXPECT_EQ(code_of(s.read(address_of(bytes))), ErrorCode::integrity);
  ASSERT_GE(lost.size(), 3u);
  // Put again it is stored, removed it is not there, and given up the rest is not there either.
  const auto healed = s.put(lost[0]);
  ASSERT_TRUE(healed);
  EXPECT_FALSE(healed->existed);
  EXPECT_TRUE(s.read(address_of(lost[0])) == Result<std::string>(lost[0]));
  EXPECT_TRUE(s.remove(address_of(lost[1])));
  EXPECT_EQ(code_of(s.read(address_of(lost[1]))), ErrorCode::not_found);
  ASSERT_TRUE(s.run(s.store->home().sweeper().accept_losses_once(s.call())));
  EXPECT_TRUE(s.store->status().whole());
  for (std::size_t i = 2; i < lost.size(); ++i)
    EXPECT_EQ(code_of(s.read(address_of(lost[i]))), ErrorCode::not_found) << i;
  s.stop();
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_TRUE(s.store->status().whole());
  EXPECT_EQ(s.store->status().quarantined, 0u);
  EXPECT_TRUE(s.read(address_of(lost[0])) == Result<std::string>(lost[0]));
}

// In the first segment: one that stays, one that is cut in two, a part of an object whose rest is elsewhere,
// an object of parts whose commit is lost, one of a single group, a large one.
struct Tail {
  std::string before = sample(90'000, 1), half = sample(200'000, 2), small = sample(500, 4),
              large = sample(300'000, 5);
  std::string spread, parts, behind = sample(100'000, 6);
  std::uint64_t at = 0;  // where the segment is cut

  explicit Tail(Losing& s) {
    EXPECT_TRUE(s.put(before));
    const std::string first = sample(part_size, 8);
    parts = first;
    const Ulid early = s.begin()->token;
    EXPECT_TRUE(s.part(early, 0, first));
    EXPECT_TRUE(s.put(half));
    EXPECT_TRUE(s.put(small));
    EXPECT_TRUE(s.commit(early));
    const Ulid late = s.begin()->token;
    const std::string one = sample(part_size, 9), two = sample(1000, 10);
    EXPECT_TRUE(s.part(late, 0, one));
    EXPECT_TRUE(s.put(large));
    s.roll();
    EXPECT_TRUE(s.part(late, 1, two));
    EXPECT_TRUE(s.commit(late));
    spread = one + two;
    EXPECT_TRUE(s.put(behind));
    at = s.offset_of(std::string_view(half).substr(0, 64), 1) + 100'000;
  }
  std::vector<std::string> lost() const { return {half, small, large, spread, parts}; }
};

TEST(Losses, what_lies_behind_the_end_of_a_cut_segment_is_named_before_anybody_can_ask) {
  for (const bool said : {true, false}) {
    Losing s;
    ASSERT_TRUE(s.open());
    const Tail tail(s);
    ASSERT_TRUE(s.close());
    s.cut(1, tail.at);
    if (!said) s.forget_end_before(2);
    s.make_cache();
    ASSERT_TRUE(s.open());
    EXPECT_EQ(*s.read(address_of(tail.before)), tail.before);
    EXPECT_EQ(*s.read(address_of(tail.behind)), tail.behind);
    expect_lost(s, tail.lost());
  }
}

TEST(Losses, a_cut_segment_with_much_that_is_dead_is_known_by_the_header_behind_it) {
  Losing s;
  ASSERT_TRUE(s.open());
  const Tail tail(s);
  for (const std::string& dead : {tail.parts, tail.spread}) ASSERT_TRUE(s.remove(address_of(dead)));
  ASSERT_TRUE(s.close());
  s.cut(1, tail.at);
  s.make_cache();
  ASSERT_TRUE(s.open());
  expect_lost(s, {tail.half, tail.small, tail.large});
}

TEST(Losses, a_cut_segment_before_one_that_is_missing_is_held_against_its_end) {
  Losing s;
  ASSERT_TRUE(s.open());
  const Tail tail(s);
  for (const std::string& dead : {tail.parts, tail.spread}) ASSERT_TRUE(s.remove(address_of(dead)));
  s.roll();
  ASSERT_TRUE(s.put("the last"));
  ASSERT_TRUE(s.close());
  s.cut(1, tail.at);
  s.unlink(2);
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(*s.read(address_of(tail.before)), tail.before);
  expect_lost(s, {tail.half, tail.small, tail.large, tail.behind});
}

TEST(Losses, what_was_cut_from_under_a_running_store_is_lost_to_whoever_reads_it) {
  Losing s;
  ASSERT_TRUE(s.open());
  const Tail tail(s);
  s.cut(1, tail.at);
  for (const std::string& bytes : tail.lost()) {
    s.forget_read(bytes);
    EXPECT_EQ(code_of(s.read(address_of(bytes))), ErrorCode::integrity);
  }
  EXPECT_EQ(*s.read(address_of(tail.before)), tail.before);
  expect_lost(s, tail.lost());
}

TEST(Losses, what_was_cut_from_under_a_running_store_is_found_by_the_scrubber) {
  Losing s;
  ASSERT_TRUE(s.open());
  const Tail tail(s);
  s.cut(1, tail.at);
  ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
  EXPECT_EQ(s.store->status().quarantined, 5u);
  EXPECT_EQ(*s.read(address_of(tail.before)), tail.before);
  expect_lost(s, tail.lost());
}

TEST(Losses, an_older_copy_of_the_segments_has_lost_what_the_index_knows_beyond_it) {
  for (const bool written_ahead : {false, true}) {
    Losing s;
    ASSERT_TRUE(s.open());
    const std::string kept = sample(1000, 1), ahead = sample(900, 2), large = sample(200'000, 3);
    ASSERT_TRUE(s.put(kept));
    const std::string old = s.disk().view().text(s.segment(1));
    ASSERT_TRUE(s.put(ahead));
    ASSERT_TRUE(s.put(large));
    s.roll();
    const std::string next = sample(3000, 4);
    ASSERT_TRUE(s.put(next));
    ASSERT_TRUE(s.close());
    const std::uint64_t end = s.offset_of(ahead, 1);
    ASSERT_LT(end, old.size()) << "zeros were written ahead";
    s.disk().put(s.segment(1), written_ahead ? old : old.substr(0, s.offset_of(kept, 1) + 1000));
    s.unlink(2);
    s.make_cache();
    ASSERT_TRUE(s.open());
    EXPECT_EQ(*s.read(address_of(kept)), kept);
    expect_lost(s, {ahead, large, next});
  }
}

TEST(Losses, L9_a_current_segment_that_was_unlinked_is_told_with_the_next_commit_and_takes_no_more) {
  Losing s;
  ASSERT_TRUE(s.open());
  const std::vector<std::string> lost = {sample(500, 1), sample(70'000, 2), sample(3000, 3)};
  for (const std::string& bytes : lost) ASSERT_TRUE(s.put(bytes));
  s.tasks().spawn("sweep", s.store->home().sweeper().sweep_loop(s.tasks().call()));
  s.unlink(1);
  const std::string next = sample(4000, 4);
  ASSERT_TRUE(s.put(next));
  EXPECT_FALSE(s.store->status().whole());
  EXPECT_EQ(s.store->status().lost_segments, 1u);
  EXPECT_EQ(s.store->status().first_lost, 1u);
  EXPECT_EQ(s.store->status().segments, 1u);
  ASSERT_TRUE(s.world.run_until([&] { return s.store->status().quarantined == 3; }));
  EXPECT_TRUE(s.store->writable());
  s.stop();
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.store->status().lost_segments, 1u);
  EXPECT_EQ(*s.read(address_of(next)), next);
  expect_lost(s, lost);
  EXPECT_EQ(*s.read(address_of(next)), next);
}

TEST(Losses,
     L9_whenever_the_last_segment_loses_its_name_what_is_answered_as_stored_is_there_or_told_as_lost) {
  std::size_t refused = 0, stored = 0;
  for (std::uint64_t steps = 0; steps < 40; ++steps) {
    Losing s;
    ASSERT_TRUE(s.open());
    ASSERT_TRUE(s.put(sample(500, 1)));
    const std::string bytes = sample(3000, 2);
    const auto put = s.start(s.put_task(bytes));
    for (std::uint64_t i = 0; i < steps; ++i) (void)s.world.step(s.world.now() + Duration::seconds(1));
    const bool early = !put->has_value();
    s.disk().take_away(s.segment(1));
    ASSERT_TRUE(s.world.run_until([&] { return put->has_value(); }));
    if (!early) break;
    (*put)->has_value() ? ++stored : ++refused;
    EXPECT_TRUE((*put)->has_value() || code_of(**put) == ErrorCode::degraded);
    EXPECT_TRUE(s.put(sample(600, 3))) << "it goes on";
    EXPECT_EQ(s.store->status().first_lost, 1u);
    s.stop();
    s.make_cache();
    ASSERT_TRUE(s.open());
    // Durable, and then lost before its answer: known to the index. Written when it was lost already:
    // refused.
    const auto read = s.read(address_of(bytes));
    if ((*put)->has_value())
      EXPECT_TRUE(read == Result<std::string>(bytes) || code_of(read) == ErrorCode::integrity) << steps;
    else
      EXPECT_EQ(code_of(read), ErrorCode::not_found) << steps;
    EXPECT_TRUE(s.read(address_of(sample(600, 3)))) << steps;
    EXPECT_EQ(code_of(s.read(address_of(sample(500, 1)))), ErrorCode::integrity) << steps;
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(stored, 0u);
}

TEST(Losses, a_sealed_segment_that_was_unlinked_is_told_within_a_minute) {
  Losing s;
  ASSERT_TRUE(s.open());
  const std::vector<std::string> lost = {sample(500, 1), sample(70'000, 2), sample(3000, 3)};
  for (const std::string& bytes : lost) ASSERT_TRUE(s.put(bytes));
  s.roll();
  const std::string next = sample(4000, 4);
  ASSERT_TRUE(s.put(next));
  s.tasks().spawn("sweep", s.store->home().sweeper().sweep_loop(s.tasks().call()));
  s.world.run_for(Duration::seconds(60));
  EXPECT_TRUE(s.store->status().whole());
  s.unlink(1);
  s.world.run_for(Duration::seconds(60));
  EXPECT_EQ(s.store->status().first_lost, 1u);
  EXPECT_EQ(*s.read(address_of(next)), next);
  expect_lost(s, lost);
}

TEST(Losses, a_current_segment_that_was_moved_away_is_told_too_and_takes_no_more) {
  Losing s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put(sample(500, 1)));
  ASSERT_TRUE(s.run(s.machine().disk.rename(s.call(), s.segment(1), "data/elsewhere")));
  ASSERT_TRUE(s.run(s.store->home().sweeper().look_at_files_once(s.call())));
  EXPECT_EQ(s.store->status().first_lost, 1u);
  EXPECT_EQ(s.store->status().quarantined, 1u);
  ASSERT_TRUE(s.put(sample(600, 2)));
  ASSERT_TRUE(s.close());
  // It is back.
  ASSERT_TRUE(s.run(s.machine().disk.rename(s.call(), "data/elsewhere", s.segment(1))));
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.store->status().lost_segments, 0u);
  ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
  EXPECT_TRUE(s.store->status().whole());
  for (const std::string& bytes : {sample(500, 1), sample(600, 2)})
    EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
}

TEST(Losses, what_compaction_takes_away_is_never_told_as_lost) {
  for (std::uint64_t steps = 0; steps < 200; steps += 3) {
    Losing s;
    ASSERT_TRUE(s.open());
    for (std::uint64_t i = 1; i < 5; ++i) ASSERT_TRUE(s.put(sample(20'000, i)));
    s.roll();
    for (std::uint64_t i = 1; i < 4; ++i) ASSERT_TRUE(s.remove(address_of(sample(20'000, i))));
    const auto compacted = s.start(s.store->home().compactor().compact_once(s.call()));
    for (std::uint64_t i = 0; i < steps; ++i) (void)s.world.step(s.world.now() + Duration::seconds(1));
    ASSERT_TRUE(s.run(s.store->home().sweeper().look_at_files_once(s.call())));
    ASSERT_TRUE(s.world.run_until([&] { return compacted->has_value(); }));
    EXPECT_TRUE((*compacted)->value_or(false));
    ASSERT_TRUE(s.run(s.store->home().sweeper().look_at_files_once(s.call())));
    EXPECT_TRUE(s.store->status().whole()) << steps;
    EXPECT_TRUE(s.read(address_of(sample(20'000, 4))));
  }
}

TEST(Losses, when_the_whole_directory_is_gone_nothing_is_written_in_its_place_and_nothing_given_up) {
  Losing s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put(sample(500, 1)));
  s.roll();
  ASSERT_TRUE(s.put(sample(500, 2)));
  const io::sim::Image image = s.disk().view();
  for (const auto& [path, entry] : image.names)
    if (!entry.directory && path.starts_with("data/segments/")) s.disk().take_away(path);
  ASSERT_TRUE(s.run(s.store->home().sweeper().look_at_files_once(s.call())));
  EXPECT_TRUE(s.store->status().fenced);
  EXPECT_EQ(s.store->status().quarantined, 0u);
  EXPECT_EQ(code_of(s.put(sample(500, 3))), ErrorCode::degraded);
}

}  // namespace
}  // namespace cairn::store
