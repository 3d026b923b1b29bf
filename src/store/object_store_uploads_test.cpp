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
  ASSERT_TRUE(s.run(s.store->home().sweep_once(s.call())));
  EXPECT_EQ(s.store->status().uploads, 1000u);
  s.world.run_for(Duration::seconds(3601));
  EXPECT_FALSE(s.upload(tokens[0])->has_value());
  EXPECT_EQ(code_of(s.part(tokens[0], 0, "late")), ErrorCode::not_found);
  EXPECT_EQ(code_of(s.commit(tokens[0])), ErrorCode::not_found);
  ASSERT_TRUE(s.run(s.store->home().sweep_once(s.call())));
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
  ASSERT_TRUE(s.run(s.store->home().sweep_once(s.call())));
  for (const KvPair& pair : s.index()) EXPECT_NE(pair.key[0], upload_prefix);
  s.stop();
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
}

TEST(Uploads, the_loop_sweeps_by_itself) {
  SimulatedStore s;
  s.options.upload_ttl = Duration::seconds(60);
  ASSERT_TRUE(s.open());
  s.tasks().spawn("sweep", s.store->home().sweep_loop(s.tasks().call()));
  ASSERT_TRUE(s.begin());
  s.world.run_for(Duration::seconds(120));
  EXPECT_EQ(s.store->status().uploads, 0u);
}

}  // namespace
}  // namespace cairn::store
