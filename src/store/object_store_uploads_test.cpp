#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "store/simulated_store.h"

namespace cairn::store {
namespace {

constexpr std::size_t part_size = crypto::part_size;

std::string_view part_of(std::string_view bytes, std::size_t index) {
  return bytes.substr(index * part_size, part_size);
}

TEST(Uploads, parts_in_any_order_make_the_object) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{65537}, part_size - 1, part_size, part_size + 1,
                                 2 * part_size, 3 * part_size + 12345}) {
    SimulatedStore s(size);
    ASSERT_TRUE(s.open());
    const std::string bytes = sample(size);
    const auto began = s.begin(size);
    ASSERT_TRUE(began);
    std::vector<std::size_t> order(crypto::part_count(size));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = (i * 7 + 2) % order.size();
    if (order.size() == 2) order = {1, 0};
    for (const std::size_t index : order)
      ASSERT_TRUE(s.part(began->token, static_cast<std::uint32_t>(index), part_of(bytes, index)));
    const auto made = s.commit(began->token, address_of(bytes));
    ASSERT_TRUE(made) << size << " " << made.error().context;
    EXPECT_FALSE(made->existed);
    EXPECT_EQ(made->size, size);
    EXPECT_TRUE(s.read(made->address) == Result<std::string>(bytes)) << size;
    s.stop();
    s.make_cache();
    ASSERT_TRUE(s.open());
    EXPECT_TRUE(s.read(made->address) == Result<std::string>(bytes)) << size;
  }
}

TEST(Uploads, an_empty_part_makes_the_empty_object) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const auto began = s.begin();
  ASSERT_TRUE(s.part(began->token, 0, ""));
  const auto made = s.commit(began->token);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->address, address_of(""));
  EXPECT_EQ(*s.read(made->address), "");
}

TEST(Uploads, parts_of_one_upload_may_come_at_once) {
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    SimulatedStore s(seed, 2);
    ASSERT_TRUE(s.open());
    const std::string bytes = sample(3 * part_size + 5);
    const auto began = s.begin();
    std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> parts;
    for (unsigned i = 0; i < 8; ++i)
      parts.push_back(s.start(s.part_task(began->token, i % 4, part_of(bytes, i % 4), i % 2), i % 2));
    ASSERT_TRUE(s.world.run_until(
        [&] { return std::all_of(parts.begin(), parts.end(), [](auto& one) { return one->has_value(); }); }));
    for (auto& one : parts) EXPECT_TRUE(**one);
    ASSERT_TRUE(s.commit(began->token, address_of(bytes)));
    EXPECT_TRUE(s.read(address_of(bytes), 1) == Result<std::string>(bytes));
  }
}

TEST(Uploads, state_tells_what_is_there_and_what_is_missing) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::uint64_t size = 4 * part_size + 10;
  const std::string bytes = sample(size);
  const Ulid token = s.begin(size)->token;
  const auto missing = [&] { return (**s.upload(token)).missing; };
  using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  EXPECT_EQ(missing(), (Ranges{{0, size - 1}}));
  ASSERT_TRUE(s.part(token, 1, part_of(bytes, 1)));
  EXPECT_EQ((**s.upload(token)).contiguous, 0u);
  EXPECT_EQ(missing(), (Ranges{{0, part_size - 1}, {2 * part_size, size - 1}}));
  ASSERT_TRUE(s.part(token, 0, part_of(bytes, 0)));
  EXPECT_EQ((**s.upload(token)).contiguous, 2 * part_size);
  ASSERT_TRUE(s.part(token, 4, part_of(bytes, 4)));
  EXPECT_EQ(missing(), (Ranges{{2 * part_size, 4 * part_size - 1}}));
  EXPECT_EQ(code_of(s.commit(token)), ErrorCode::upload_gap);
  s.stop();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(missing(), (Ranges{{2 * part_size, 4 * part_size - 1}}));
  ASSERT_TRUE(s.part(token, 3, part_of(bytes, 3)));
  ASSERT_TRUE(s.part(token, 2, part_of(bytes, 2)));
  EXPECT_TRUE(missing().empty());
  ASSERT_TRUE(s.commit(token, address_of(bytes)));
  EXPECT_EQ((**s.upload(token)).committed, address_of(bytes));
}

TEST(Uploads, a_part_that_is_there_already_writes_nothing) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, "bytes"));
  const std::uint64_t before = s.store->status().log_bytes;
  const auto again = s.part(token, 0, "bytes");
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->existed);
  EXPECT_EQ(s.store->status().log_bytes, before);
  ASSERT_TRUE(s.part(token, 0, "other"));
  EXPECT_EQ(s.commit(token)->address, address_of("other"));
}

TEST(Uploads, a_short_part_in_the_middle_is_a_gap) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin()->token;
  EXPECT_EQ(code_of(s.commit(token)), ErrorCode::upload_gap);
  ASSERT_TRUE(s.part(token, 0, "short"));
  ASSERT_TRUE(s.part(token, 1, "more"));
  EXPECT_EQ(code_of(s.commit(token)), ErrorCode::upload_gap);
}

TEST(Uploads, no_part_reaches_beyond_the_size_that_was_said) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin(10)->token;
  EXPECT_EQ(code_of(s.part(token, 0, "eleven bytes")), ErrorCode::body_cap);
  EXPECT_EQ(code_of(s.part(token, 1, "x")), ErrorCode::body_cap);
  ASSERT_TRUE(s.part(token, 0, "nine byte"));
  EXPECT_EQ(code_of(s.commit(token)), ErrorCode::upload_gap);
}

TEST(Uploads, no_part_reaches_beyond_what_a_commit_can_name) {
  SimulatedStore s;
  s.options.segment_size = 4 << 20;
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin()->token;
  EXPECT_EQ(code_of(s.part(token, 100'000, "x")), ErrorCode::body_cap);
  EXPECT_TRUE(s.part(token, 1000, "x"));
}

TEST(Uploads, a_commit_under_another_address_keeps_nothing_and_can_be_repeated) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, "bytes"));
  EXPECT_EQ(code_of(s.commit(token, address_of("other"))), ErrorCode::conflict);
  EXPECT_TRUE(s.list().empty());
  EXPECT_TRUE(s.commit(token, address_of("bytes")));
}

TEST(Uploads, a_commit_that_is_repeated_gives_the_same_answer) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, "bytes"));
  const auto first = s.commit(token);
  const std::uint64_t before = s.store->status().log_bytes;
  const auto second = s.commit(token);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->address, first->address);
  EXPECT_TRUE(second->existed);
  EXPECT_EQ(s.store->status().log_bytes, before);
  EXPECT_EQ(code_of(s.commit(token, address_of("other"))), ErrorCode::conflict);
  EXPECT_EQ(code_of(s.part(token, 0, "late")), ErrorCode::not_found);
  EXPECT_EQ(code_of(s.abort(token)), ErrorCode::not_found);
  EXPECT_EQ(*s.read(first->address), "bytes");
}

TEST(Uploads, an_upload_of_what_is_there_already_leaves_one_copy) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put("bytes"));
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, "bytes"));
  const auto made = s.commit(token);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->existed);
  EXPECT_EQ(s.store->status().uploads, 0u);
  EXPECT_FALSE(s.upload(token)->has_value());
  EXPECT_EQ(s.list().size(), 1u);
}

TEST(Uploads, an_aborted_upload_is_gone_with_its_parts) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, "bytes"));
  ASSERT_TRUE(s.abort(token));
  EXPECT_FALSE(s.upload(token)->has_value());
  EXPECT_EQ(code_of(s.part(token, 0, "bytes")), ErrorCode::not_found);
  EXPECT_EQ(code_of(s.commit(token)), ErrorCode::not_found);
  EXPECT_EQ(code_of(s.abort(token)), ErrorCode::not_found);
  for (const KvPair& pair : s.index()) EXPECT_NE(pair.key[0], part_prefix);
}

TEST(Uploads, a_thousand_abandoned_ones_are_bounded_and_swept) {
  SimulatedStore s;
  s.options.uploads_max = 1000;
  s.options.upload_ttl = Duration::seconds(3600);
  ASSERT_TRUE(s.open());
  const Address kept = s.put("kept")->address;
  std::vector<Ulid> tokens;
  for (int i = 0; i < 1000; ++i) tokens.push_back(s.begin()->token);
  for (int i = 0; i < 1000; i += 10) ASSERT_TRUE(s.part(tokens[static_cast<std::size_t>(i)], 0, "bytes"));
  EXPECT_EQ(code_of(s.begin()), ErrorCode::busy);
  EXPECT_EQ(s.store->status().uploads, 1000u);
  ASSERT_TRUE(s.run(s.store->home().sweeper().sweep_once(s.call())));
  EXPECT_EQ(s.store->status().uploads, 1000u);
  s.world.run_for(Duration::seconds(3601));
  EXPECT_FALSE(s.upload(tokens[0])->has_value());
  EXPECT_EQ(code_of(s.part(tokens[0], 0, "late")), ErrorCode::not_found);
  EXPECT_EQ(code_of(s.commit(tokens[0])), ErrorCode::not_found);
  ASSERT_TRUE(s.run(s.store->home().sweeper().sweep_once(s.call())));
  EXPECT_EQ(s.store->status().uploads, 0u);
  for (const KvPair& pair : s.index())
    EXPECT_TRUE(pair.key[0] != part_prefix && pair.key[0] != upload_prefix);
  EXPECT_TRUE(s.begin());
  EXPECT_EQ(*s.read(kept), "kept");
}

TEST(Uploads, sweeping_forgets_the_commit_and_keeps_the_object) {
  SimulatedStore s;
  s.options.upload_ttl = Duration::seconds(3600);
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(part_size + 5);
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, part_of(bytes, 0)));
  ASSERT_TRUE(s.part(token, 1, part_of(bytes, 1)));
  ASSERT_TRUE(s.commit(token));
  s.world.run_for(Duration::seconds(3601));
  ASSERT_TRUE(s.run(s.store->home().sweeper().sweep_once(s.call())));
  for (const KvPair& pair : s.index()) EXPECT_NE(pair.key[0], upload_prefix);
  s.stop();
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
}

TEST(Uploads, their_bytes_are_told_whatever_happens_to_them) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const auto bytes = [&] { return s.store->status().upload_bytes.load(); };
  const Ulid one = s.begin()->token, two = s.begin()->token, three = s.begin()->token;
  ASSERT_TRUE(s.part(one, 0, sample(1000)));
  ASSERT_TRUE(s.part(one, 0, sample(700)));  // in place of it
  ASSERT_TRUE(s.part(one, 0, sample(700)));  // which is there
  ASSERT_TRUE(s.part(two, 3, sample(500)));
  ASSERT_TRUE(s.part(three, 0, sample(20)));
  EXPECT_EQ(bytes(), 1220u);
  s.stop();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(bytes(), 1220u);
  ASSERT_TRUE(s.run(s.store->home().index_keeper().replace_index(s.call())));
  EXPECT_EQ(bytes(), 1220u);
  ASSERT_TRUE(s.abort(two));
  EXPECT_EQ(bytes(), 720u);
  ASSERT_TRUE(s.commit(three));
  EXPECT_EQ(bytes(), 700u);
  // Compaction moves the upload's own record behind its parts.
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  ASSERT_TRUE(s.compact());
  ASSERT_TRUE(s.run(s.store->home().index_keeper().replace_index(s.call())));
  EXPECT_EQ(bytes(), 700u);
  EXPECT_EQ(s.store->status().uploads, 1u);
}

// A disk of about 48 parts.
void make_small(SimulatedStore& s) {
  s.options.segment_size = 4 << 20;
  s.options.reserve = 256 << 10;
  s.disk().set_capacity(48 << 20);
}

TEST(Uploads, one_that_says_a_size_that_does_not_fit_does_not_begin) {
  SimulatedStore s;
  make_small(s);
  ASSERT_TRUE(s.open());
  EXPECT_EQ(code_of(s.begin(64 * part_size)), ErrorCode::storage_full);
  EXPECT_EQ(s.store->status().uploads, 0u);
  EXPECT_FALSE(s.store->status().full) << "others may fit";
  const auto began = s.begin(30 * part_size);
  ASSERT_TRUE(began) << began.error().context;
  for (std::uint32_t i = 0; i < 30; ++i) ASSERT_TRUE(s.part(began->token, i, sample(part_size, i))) << i;
  ASSERT_TRUE(s.commit(began->token));
  EXPECT_EQ(code_of(s.begin(30 * part_size)), ErrorCode::storage_full);
}

TEST(Uploads, what_compaction_can_free_is_room_and_is_made_in_time) {
  SimulatedStore s;
  make_small(s);
  ASSERT_TRUE(s.open());
  // Every segment is dead by less than half: nothing that compaction would touch with room to spare.
  std::vector<Address> there;
  for (std::uint64_t i = 0; i < 144; ++i) there.push_back(s.put(sample(part_size / 4 - 1000, i))->address);
  for (std::size_t i = 0; i < there.size(); i += 3) ASSERT_TRUE(s.remove(there[i]));
  ASSERT_EQ(*s.compact(), 0u);
  const auto began = s.begin(12 * part_size);
  ASSERT_TRUE(began) << began.error().context;
  ASSERT_TRUE(s.compact());
  for (std::uint32_t i = 0; i < 12; ++i)
    ASSERT_TRUE(s.part(began->token, i, sample(part_size, 100 + i))) << i;
  ASSERT_TRUE(s.commit(began->token));
}

TEST(Uploads, those_that_are_idle_give_way_to_one_that_needs_their_room_the_longest_idle_first) {
  SimulatedStore s;
  make_small(s);
  ASSERT_TRUE(s.open());
  const auto begin = [&](std::uint32_t parts) {
    const Ulid token = s.begin()->token;
    for (std::uint32_t i = 0; i < parts; ++i) EXPECT_TRUE(s.part(token, i, sample(part_size, i + 7)));
    return token;
  };
  const auto end_idle = [&](std::uint64_t size) { return *s.run(s.port().end_idle_uploads(s.call(), size)); };
  const Ulid first = begin(10), second = begin(10);
  s.world.run_for(Duration::seconds(300));
  ASSERT_TRUE(s.part(first, 10, "it goes on"));
  const Ulid third = begin(10);
  s.world.run_for(Duration::seconds(200));
  EXPECT_EQ(end_idle(20 * part_size).size, 0u) << "none was idle for long enough";
  s.world.run_for(Duration::seconds(200));
  EXPECT_EQ(end_idle(200 * part_size).size, 0u) << "what would not be enough is not taken";
  EXPECT_EQ(code_of(s.begin(20 * part_size)), ErrorCode::storage_full);
  EXPECT_EQ(end_idle(20 * part_size).size, 10 * part_size);
  EXPECT_FALSE(s.upload(second)->has_value());
  EXPECT_TRUE(s.upload(first)->has_value());
  EXPECT_TRUE(s.upload(third)->has_value());
  const auto began = s.begin(20 * part_size);
  ASSERT_TRUE(began) << began.error().context;
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  ASSERT_TRUE(s.compact());
  for (std::uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(s.part(began->token, i, sample(part_size, 50 + i))) << i;
  ASSERT_TRUE(s.commit(began->token));
  EXPECT_TRUE(s.commit(first));
}

TEST(Uploads, on_a_full_disk_those_that_are_idle_end_until_there_is_room) {
  SimulatedStore s;
  make_small(s);
  ASSERT_TRUE(s.open());
  s.tasks().spawn("compact", s.store->home().compactor().compact_loop(s.tasks().call()));
  const Address kept = s.put(sample(1000))->address;
  const Ulid old = s.begin()->token;
  for (std::uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(s.part(old, i, sample(part_size, i)));
  s.world.run_for(Duration::seconds(60));
  const Ulid large = s.begin()->token;
  for (std::uint32_t i = 0; i < 64 && s.part(large, i, sample(part_size, i + 20)); ++i) continue;
  ASSERT_TRUE(s.store->status().full);
  s.world.run_for(Duration::seconds(530));
  EXPECT_TRUE(s.store->status().full);
  EXPECT_EQ(s.store->status().uploads, 2u);
  s.world.run_for(Duration::seconds(30));
  EXPECT_FALSE(s.store->status().full);
  EXPECT_FALSE(s.upload(old)->has_value());
  EXPECT_TRUE(s.upload(large)->has_value()) << "there was room enough";
  EXPECT_TRUE(s.put(sample(part_size)));
  EXPECT_TRUE(s.read(kept));
}

TEST(Uploads, after_a_start_each_has_its_time_again) {
  SimulatedStore s;
  make_small(s);
  ASSERT_TRUE(s.open());
  const Ulid token = s.begin()->token;
  for (std::uint32_t i = 0; i < 30; ++i) ASSERT_TRUE(s.part(token, i, sample(part_size, i)));
  s.world.run_for(Duration::seconds(700));
  s.stop();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.run(s.port().end_idle_uploads(s.call(), 20 * part_size))->size, 0u);
  s.world.run_for(Duration::seconds(601));
  EXPECT_EQ(s.run(s.port().end_idle_uploads(s.call(), 20 * part_size))->size, 30 * part_size);
  EXPECT_FALSE(s.upload(token)->has_value());
}

UploadOwner holder(std::uint64_t number) { return {Ulid{number, 7}, "tenant"}; }

TEST(Uploads, a_holder_has_half_of_the_places_that_the_others_leave) {
  SimulatedStore s;
  s.options.uploads_max = 16;
  ASSERT_TRUE(s.open());
  const auto begin_all = [&](std::uint64_t number) {
    int begun = 0;
    while (begun < 17 && s.begin(0, holder(number))) ++begun;
    return begun;
  };
  EXPECT_EQ(begin_all(1), 8);
  EXPECT_EQ(begin_all(2), 4);
  EXPECT_EQ(begin_all(3), 2);
  EXPECT_EQ(code_of(s.begin(0, holder(1))), ErrorCode::busy);
  s.stop();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(begin_all(1), 0) << "what was begun before a start counts";
  EXPECT_EQ(begin_all(4), 1);
  EXPECT_EQ(begin_all(5), 1) << "the last one is for whoever has none";
  EXPECT_EQ(begin_all(6), 0);
  EXPECT_EQ(code_of(s.begin()), ErrorCode::busy);
}

TEST(Uploads, many_begun_at_once_keep_the_bound_of_their_holder) {
  SimulatedStore s;
  s.options.uploads_max = 16;
  ASSERT_TRUE(s.open());
  std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> all;
  for (int i = 0; i < 40; ++i) all.push_back(s.start(s.port().begin_upload(s.call(), {.owner = holder(1)})));
  ASSERT_TRUE(s.world.run_until(
      [&] { return std::all_of(all.begin(), all.end(), [](auto& one) { return one->has_value(); }); }));
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](auto& one) { return (**one).has_value(); }), 8);
}

TEST(Uploads, when_places_are_short_a_holders_own_idle_ones_give_way_first_the_longest_idle_first) {
  SimulatedStore s;
  s.options.uploads_max = 8;
  ASSERT_TRUE(s.open());
  std::vector<Ulid> own, others;
  others.push_back(s.begin(0, holder(2))->token);
  for (int i = 0; i < 4; ++i) {
    own.push_back(s.begin(0, holder(1))->token);
    s.world.run_for(Duration::seconds(10));
  }
  ASSERT_TRUE(s.part(own[0], 0, "it goes on"));
  EXPECT_EQ(code_of(s.begin(0, holder(1))), ErrorCode::busy) << "none is idle";
  s.world.run_for(Duration::seconds(575));
  ASSERT_TRUE(s.begin(0, holder(1)));
  EXPECT_FALSE(s.upload(own[1])->has_value());
  for (const std::size_t i : {0u, 2u, 3u}) EXPECT_TRUE(s.upload(own[i])->has_value()) << i;
  EXPECT_TRUE(s.upload(others[0])->has_value()) << "it was idle for longer, but is another's";
  // With no place left at all the longest idle one goes, whosever it is.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(s.begin()) << i;
  s.world.run_for(Duration::seconds(30));
  ASSERT_TRUE(s.begin(0, holder(3)));
  EXPECT_FALSE(s.upload(others[0])->has_value());
  EXPECT_EQ(s.store->status().uploads, 8u);
}

TEST(Uploads, who_began_it_is_kept_through_starts_new_indexes_and_compaction) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Ulid owned = s.begin(0, holder(3))->token, nobodys = s.begin()->token;
  const auto check = [&] {
    EXPECT_EQ((**s.upload(owned)).owner, holder(3));
    EXPECT_EQ((**s.upload(nobodys)).owner, UploadOwner());
  };
  check();
  s.stop();
  ASSERT_TRUE(s.open());
  check();
  ASSERT_TRUE(s.part(s.begin()->token, 0, sample(part_size)));
  for (const KvPair& pair : s.index())
    if (pair.key[0] == upload_prefix && pair.key != upload_key(owned) && pair.key != upload_key(nobodys)) {
      Ulid token;
      for (std::size_t i = 1; i < 17; ++i) {
        std::uint64_t& half = i < 9 ? token.high : token.low;
        half = half << 8 | static_cast<unsigned char>(pair.key[i]);
      }
      ASSERT_TRUE(s.abort(token));
    }
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  EXPECT_GT(*s.compact(), 0u);
  check();
  ASSERT_TRUE(s.run(s.store->home().index_keeper().replace_index(s.call())));
  check();
}

TEST(Uploads, the_loop_sweeps_by_itself) {
  SimulatedStore s;
  s.options.upload_ttl = Duration::seconds(60);
  ASSERT_TRUE(s.open());
  s.tasks().spawn("sweep", s.store->home().sweeper().sweep_loop(s.tasks().call()));
  ASSERT_TRUE(s.begin());
  s.world.run_for(Duration::seconds(120));
  EXPECT_EQ(s.store->status().uploads, 0u);
}

}  // namespace
}  // namespace cairn::store
