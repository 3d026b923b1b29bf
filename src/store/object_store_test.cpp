#include "store/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "store/simulated_store.h"

namespace cairn::store {
namespace {

TEST(ObjectStore, what_was_put_is_read_back_at_every_edge_of_size) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  std::vector<std::string> all;
  for (const std::size_t size :
       {0u, 1u, 1023u, 1024u, 1025u, 65535u, 65536u, 65537u, 131072u, 1048575u, 1048576u})
    all.push_back(sample(size));
  for (const std::string& bytes : all) {
    const auto stored = s.put(bytes);
    ASSERT_TRUE(stored) << bytes.size() << " " << stored.error().context;
    EXPECT_EQ(stored->address, address_of(bytes));
    EXPECT_EQ(stored->size, bytes.size());
    EXPECT_FALSE(stored->existed);
  }
  for (int again = 0; again < 2; ++again) {
    for (const std::string& bytes : all) {
      const auto read = s.read(address_of(bytes));
      ASSERT_TRUE(read) << bytes.size() << " " << read.error().context;
      EXPECT_TRUE(*read == bytes) << bytes.size();
    }
    ASSERT_TRUE(s.close());
    s.make_cache();
    ASSERT_TRUE(s.open());
  }
  EXPECT_EQ(s.store->status().objects, all.size());
}

TEST(ObjectStore, a_store_that_is_dropped_unclosed_says_so) {
  observe::Log log({.level = observe::Level::debug}, [] { return WallTime{}; });
  SimulatedStore s;
  s.log = observe::Logger(log, 0);
  const auto told = [&] {
    std::string text;
    log.drain([&](std::string_view lines) {
      text += lines;
      return true;
    });
    return text.find("dropped unclosed") != text.npos;
  };
  ASSERT_TRUE(s.open());
  s.stop();
  EXPECT_TRUE(told());
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.close());
  EXPECT_FALSE(told());
}

TEST(ObjectStore, a_stored_type_that_cannot_be_sent_is_told_as_unknown) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::pair<const char*, const char*> rows[] = {{"text/html", "text/html"},
                                                      {"a/b\r\nX: y", "application/octet-stream"},
                                                      {"", "application/octet-stream"}};
  for (const auto& [stored, told] : rows) {
    const std::string bytes = std::string("of type ") + stored;
    Address address;
    Draft::Taken taken = s.draft(bytes, address, stored);
    ASSERT_TRUE(s.run(s.port().put(s.call(), address, std::move(taken))));
    const auto found = s.run(s.port().find(s.call(), address));
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->facts->media_type, told);
    EXPECT_EQ((*found)->facts->active, std::string_view(told) == "text/html");
    EXPECT_TRUE(s.read(address) == Result<std::string>(bytes));
  }
}

TEST(ObjectStore, a_second_put_of_the_same_bytes_writes_nothing) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put("bytes"));
  const std::uint64_t before = s.store->status().log_bytes;
  const auto again = s.put("bytes");
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->existed);
  EXPECT_EQ(s.store->status().log_bytes, before);
  EXPECT_EQ(s.store->status().objects, 1u);
}

TEST(ObjectStore, two_writers_of_one_address_both_succeed_with_one_copy) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedStore s(seed, 3);
    ASSERT_TRUE(s.open());
    const std::string bytes = sample(5000);
    std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> writers;
    for (unsigned shard = 0; shard < 3; ++shard)
      for (int i = 0; i < 2; ++i) writers.push_back(s.start(s.put_task(bytes, shard), shard));
    ASSERT_TRUE(s.world.run_until([&] {
      return std::all_of(writers.begin(), writers.end(), [](auto& one) { return one->has_value(); });
    }));
    int fresh = 0;
    for (auto& one : writers) {
      ASSERT_TRUE(**one);
      fresh += (**one)->existed ? 0 : 1;
    }
    EXPECT_EQ(fresh, 1);
    EXPECT_EQ(s.store->status().objects, 1u);
    EXPECT_LT(s.store->status().log_bytes, 4096u + 2 * 5000u);
    for (unsigned shard = 0; shard < 3; ++shard)
      EXPECT_TRUE(s.read(address_of(bytes), shard) == Result<std::string>(bytes));
  }
}

TEST(ObjectStore, an_unknown_address_is_not_found) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  EXPECT_EQ(code_of(s.read(address_of("nothing"))), ErrorCode::not_found);
  EXPECT_EQ(code_of(s.remove(address_of("nothing"))), ErrorCode::not_found);
  EXPECT_EQ(code_of(s.pin(address_of("nothing"))), ErrorCode::not_found);
}

TEST(ObjectStore, a_removed_object_is_gone_and_can_be_stored_again) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Address address = s.put("bytes")->address;
  ASSERT_TRUE(s.read(address));
  ASSERT_TRUE(s.cache().find(address, 0));
  ASSERT_TRUE(s.remove(address));
  EXPECT_FALSE(s.cache().find(address, 0));
  EXPECT_EQ(code_of(s.read(address)), ErrorCode::not_found);
  EXPECT_EQ(s.store->status().objects, 0u);
  EXPECT_EQ(s.store->status().bytes, 0u);
  s.stop();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(code_of(s.read(address)), ErrorCode::not_found);
  EXPECT_FALSE(s.put("bytes")->existed);
  EXPECT_EQ(*s.read(address), "bytes");
}

// Changes that arrive while another is being written are decided together.
std::vector<Result<Outcome>> behind_another(SimulatedStore& s, std::vector<Task<Result<Outcome>>> changes,
                                            bool failing = false) {
  const std::uint64_t writes = s.disk().calls(io::sim::DiskCall::write);
  auto first = s.start(s.put_task("in the way"));
  CHECK(s.world.run_until([&] { return s.disk().calls(io::sim::DiskCall::write) > writes; }));
  std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> started;
  for (auto& change : changes) started.push_back(s.start(std::move(change)));
  // The write of the first, then that of its index.
  if (failing) s.disk().fail_call(io::sim::DiskCall::write, 2);
  CHECK(s.world.run_until([&] {
    return first->has_value() &&
           std::all_of(started.begin(), started.end(), [](auto& one) { return one->has_value(); });
  }));
  std::vector<Result<Outcome>> results;
  for (auto& one : started) results.push_back(std::move(**one));
  return results;
}

TEST(ObjectStore, of_two_removals_at_once_one_finds_nothing) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SimulatedStore s(seed);
    ASSERT_TRUE(s.open());
    const Address address = s.put("bytes")->address;
    std::vector<Task<Result<Outcome>>> removals;
    removals.push_back(s.port().remove(s.call(), address));
    removals.push_back(s.port().remove(s.call(), address));
    const auto results = behind_another(s, std::move(removals));
    EXPECT_NE(results[0].has_value(), results[1].has_value());
    EXPECT_EQ(code_of(results[0] ? results[1] : results[0]), ErrorCode::not_found);
    EXPECT_EQ(s.store->status().objects, 1u);
  }
}

TEST(ObjectStore, a_put_that_fails_fails_for_everybody_who_wrote_the_same) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SimulatedStore s(seed);
    ASSERT_TRUE(s.open());
    std::vector<Task<Result<Outcome>>> puts;
    for (int i = 0; i < 3; ++i) puts.push_back(s.put_task("bytes"));
    for (const auto& result : behind_another(s, std::move(puts), true))
      EXPECT_EQ(code_of(result), ErrorCode::degraded);
    EXPECT_EQ(code_of(s.read(address_of("bytes"))), ErrorCode::not_found);
  }
}

TEST(ObjectStore, a_pinned_object_is_not_removed_until_it_is_unpinned) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Address address = s.put("bytes")->address;
  ASSERT_TRUE(s.pin(address));
  ASSERT_TRUE(s.pin(address));
  EXPECT_EQ(code_of(s.remove(address)), ErrorCode::pinned);
  s.stop();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(code_of(s.remove(address)), ErrorCode::pinned);
  EXPECT_TRUE(s.list().at(0).pinned);
  ASSERT_TRUE(s.pin(address, false));
  EXPECT_TRUE(s.remove(address));
}

TEST(ObjectStore, an_object_that_is_stored_again_after_its_removal_is_not_pinned) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const Address address = s.put("bytes")->address;
  ASSERT_TRUE(s.pin(address));
  ASSERT_TRUE(s.pin(address, false));
  ASSERT_TRUE(s.remove(address));
  ASSERT_TRUE(s.put("bytes"));
  EXPECT_FALSE(s.list().at(0).pinned);
}

TEST(ObjectStore, a_list_is_in_order_and_begins_behind_the_last_one_seen) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  std::vector<Address> all;
  for (int i = 0; i < 40; ++i) all.push_back(s.put(sample(100, static_cast<std::uint64_t>(i) + 1))->address);
  std::sort(all.begin(), all.end());
  std::vector<Address> listed;
  std::optional<Address> after;
  for (;;) {
    auto page = s.run(s.port().list(s.call(), "", after, 7));
    ASSERT_TRUE(page);
    for (const Listed& one : *page) listed.push_back(one.address);
    if (page->size() < 7) break;
    after = page->back().address;
  }
  EXPECT_EQ(listed, all);
  const std::string prefix(as_text(ByteView(all[5].bytes).first(1)));
  auto some = s.run(s.port().list(s.call(), prefix, std::nullopt, 100));
  ASSERT_TRUE(some);
  for (const Listed& one : *some) EXPECT_EQ(one.address.bytes[0], all[5].bytes[0]);
  EXPECT_EQ(some->size(),
            static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const Address& one) {
              return one.bytes[0] == all[5].bytes[0];
            })));
}

TEST(ObjectStore, more_changes_than_may_wait_are_refused_as_busy) {
  SimulatedStore s;
  s.options.pending_max = 4;
  ASSERT_TRUE(s.open());
  std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> writers;
  for (std::uint64_t i = 0; i < 20; ++i) writers.push_back(s.start(s.put_task(sample(10, i + 1))));
  ASSERT_TRUE(s.world.run_until([&] {
    return std::all_of(writers.begin(), writers.end(), [](auto& one) { return one->has_value(); });
  }));
  std::size_t busy = 0;
  for (auto& one : writers) {
    EXPECT_TRUE(**one || (*one)->error().code == ErrorCode::busy);
    busy += **one ? 0u : 1u;
  }
  EXPECT_EQ(s.store->status().objects + busy, 20u);
  EXPECT_GT(busy, 0u);
  EXPECT_TRUE(s.put("bytes"));
}

TEST(ObjectStore, a_draft_beyond_the_budget_is_busy_and_gives_everything_back) {
  ByteBudget budget(200 << 10);
  {
    Draft draft(budget, 0);
    EXPECT_EQ(code_of(draft.add(as_bytes(sample(1 << 20)))), ErrorCode::busy);
    EXPECT_LT(budget.left(), 64 << 10);
  }
  EXPECT_EQ(budget.left(), 200 << 10);
  Address address;
  {
    Draft draft(budget, 0, 1000);
    ASSERT_TRUE(draft.add(as_bytes(sample(1000))));
    auto taken = draft.take_object("", address);
    EXPECT_EQ(budget.left(), (200 << 10) - 1000);
  }
  EXPECT_EQ(budget.left(), 200 << 10);
  EXPECT_EQ(address, address_of(sample(1000)));
}

TEST(ObjectStore, many_changes_that_wait_share_few_syncs) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::uint64_t before =
      s.disk().calls(io::sim::DiskCall::sync_data) + s.disk().calls(io::sim::DiskCall::write);
  std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> writers;
  for (std::uint64_t i = 0; i < 200; ++i) writers.push_back(s.start(s.put_task(sample(100, i + 1))));
  ASSERT_TRUE(s.world.run_until([&] {
    return std::all_of(writers.begin(), writers.end(), [](auto& one) { return one->has_value(); });
  }));
  for (auto& one : writers) EXPECT_TRUE(**one);
  const std::uint64_t after =
      s.disk().calls(io::sim::DiskCall::sync_data) + s.disk().calls(io::sim::DiskCall::write);
  EXPECT_LT(after - before, 100u);
}

TEST(ObjectStore, a_change_that_nobody_waits_for_any_more_is_done_or_not_begun) {
  SimulatedStore s;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(5000);
  Address address;
  Draft::Taken taken = s.draft(bytes, address);
  s.disk().stall(Duration::seconds(5));
  auto slow = s.start(s.put_task("first"));
  auto late =
      s.start(s.port().put(s.call().by(s.world.now() + Duration::seconds(1)), address, std::move(taken)));
  ASSERT_TRUE(s.world.run_until([&] { return slow->has_value() && late->has_value(); }));
  EXPECT_TRUE(**slow);
  EXPECT_EQ(code_of(**late), ErrorCode::timeout);
  EXPECT_TRUE(s.world.run_to_rest());
  const auto read = s.read(address);
  EXPECT_TRUE(read ? *read == bytes : read.error().code == ErrorCode::not_found);
  EXPECT_EQ(s.budget.left(), std::int64_t{1} << 32);
}

TEST(ObjectStore, changes_of_three_shards_at_once_are_all_there_afterwards) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SimulatedStore s(seed, 3);
    s.options.segment_size = 64 << 10;
    ASSERT_TRUE(s.open());
    std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> changes;
    for (std::uint64_t i = 0; i < 60; ++i)
      changes.push_back(s.start(s.put_task(sample(1000, i + 1), i % 3), static_cast<unsigned>(i % 3)));
    for (std::uint64_t i = 0; i < 60; i += 2)
      changes.push_back(
          s.start(s.port((i + 1) % 3).remove(s.call((i + 1) % 3), address_of(sample(1000, i + 1))),
                  static_cast<unsigned>((i + 1) % 3)));
    ASSERT_TRUE(s.world.run_until([&] {
      return std::all_of(changes.begin(), changes.end(), [](auto& one) { return one->has_value(); });
    }));
    std::size_t there = 60;
    for (std::size_t i = 60; i < changes.size(); ++i) there -= **changes[i] ? 1u : 0u;
    EXPECT_EQ(s.list().size(), there);
    EXPECT_EQ(s.store->status().objects, there);
    const auto kept = s.index();
    s.stop();
    ASSERT_TRUE(s.open());
    EXPECT_EQ(s.list().size(), there);
    for (std::uint64_t i = 0; i < 60; ++i) {
      const auto read = s.read(address_of(sample(1000, i + 1)), static_cast<unsigned>(i % 3));
      if (i % 2 == 1 || !**changes[60 + i / 2]) EXPECT_TRUE(read) << i;
    }
    const auto again = s.index();
    ASSERT_EQ(kept.size(), again.size());
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].value, again[i].value) << kept[i].key;
  }
}

TEST(ObjectStore, what_waits_when_it_closes_is_refused) {
  SimulatedStore s;
  ASSERT_TRUE(s.open(false));
  auto waits = s.start(s.put_task("bytes"));
  s.world.run_for(Duration::seconds(1));
  ASSERT_FALSE(waits->has_value());
  auto home = s.start(s.store->home().close(s.call()));
  ASSERT_TRUE(s.world.run_until([&] { return waits->has_value() && home->has_value(); }));
  EXPECT_EQ(code_of(**waits), ErrorCode::draining);
}

}  // namespace
}  // namespace cairn::store
