// Reads of whole parts, when the cache has no use for their groups.
#include <gtest/gtest.h>

#include "store/simulated_store.h"

namespace cairn::store {
namespace {

using io::sim::DiskCall;

constexpr std::size_t group_size = crypto::group_size;
constexpr std::size_t part_size = crypto::part_size;

struct Crowded : SimulatedStore {
  using SimulatedStore::SimulatedStore;
  // So much is in the cache that it does not want what it has not missed before.
  Result<> open_crowded() {
    if (auto opened = open(); !opened) return opened;
    for (std::uint64_t i = 100; cache().bytes() < cache().capacity() * 3 / 4; ++i) {
      CHECK(i < 300);
      const auto done = put(sample(group_size, i));
      if (!done) return fail(done.error());
      for (int again = 0; again < 3; ++again) CHECK(read(done->address));
    }
    return {};
  }
  LocatedPtr find(const Address& address) { return *run(port().find(call(), address)); }
  Result<GroupBytes> groups(const LocatedPtr& object, std::uint64_t group, ReadAhead& ahead) {
    return run(port().read_groups(call(), object, group, crypto::group_count(object->entry.size), &ahead));
  }
  std::string segment() { return segment_path("data/segments", 1); }
  std::uint64_t offset_of(std::string_view bytes) { return disk().view().text(segment()).find(bytes); }
  std::uint64_t reads() { return disk().calls(DiskCall::read); }
};

TEST(Parts, a_part_that_is_not_in_memory_comes_with_one_read) {
  Crowded s;
  ASSERT_TRUE(s.open_crowded());
  const std::string bytes = sample(part_size);
  const Address address = s.put(bytes)->address;
  s.disk().faults.cold = 1'000'000;
  const std::uint64_t before = s.reads();
  const std::uint64_t counted = s.store->status().groups_read;
  EXPECT_EQ(*s.read(address), bytes);
  EXPECT_LE(s.reads() - before, 2u) << "its hashes, and its bytes";
  EXPECT_EQ(s.store->status().groups_read - counted, 16u);
}

TEST(Parts, what_is_in_memory_comes_without_a_wait_and_in_any_size) {
  Crowded s;
  ASSERT_TRUE(s.open_crowded());
  for (const std::size_t size : {group_size + 1, 3 * group_size, 15 * group_size + 9, part_size}) {
    const std::string bytes = sample(size);
    const Address address = s.put(bytes)->address;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*s.read(address), bytes) << size;
  }
}

TEST(Parts, an_object_of_several_parts_is_read_from_anywhere_in_it) {
  Crowded s;
  ASSERT_TRUE(s.open_crowded());
  const std::string bytes = sample(2 * part_size + 100'000);
  const Ulid token = s.begin()->token;
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(s.part(token, i, bytes.substr(i * part_size, part_size)));
  const LocatedPtr object = s.find(s.commit(token)->address);
  for (const std::uint32_t cold : {0u, 500'000u, 1'000'000u}) {
    s.disk().faults.cold = cold;
    for (const std::uint64_t from : {0u, 1u, 7u, 15u, 16u, 31u, 32u, 33u}) {
      ReadAhead ahead;
      std::string all;
      for (std::uint64_t group = from; group < crypto::group_count(bytes.size());) {
        const auto read = s.groups(object, group, ahead);
        ASSERT_TRUE(read);
        all += as_text(read->bytes());
        group += crypto::group_count(read->bytes().size());
      }
      EXPECT_EQ(all, bytes.substr(from * group_size)) << from;
    }
  }
}

TEST(Parts, what_is_in_the_cache_is_not_read_again) {
  for (const std::uint32_t cold : {0u, 1'000'000u})
    for (const std::uint64_t cached : {1u, 2u, 7u, 8u, 12u, 15u}) {
      Crowded s;
      ASSERT_TRUE(s.open_crowded());
      const std::string bytes = sample(part_size);
      const LocatedPtr object = s.find(s.put(bytes)->address);
      for (int i = 0; i < 3; ++i) ASSERT_TRUE(s.run(s.port().read_group(s.call(), object, cached)));
      ASSERT_TRUE(s.cache().find(object->address, cached));
      s.disk().faults.cold = cold;
      const std::uint64_t before = s.store->status().groups_read;
      EXPECT_EQ(*s.read(object->address), bytes);
      EXPECT_EQ(s.store->status().groups_read - before, 15u) << cached;
    }
}

TEST(Parts, rot_in_the_middle_of_a_part_ends_it_there_and_is_written_down) {
  for (const std::uint32_t cold : {0u, 1'000'000u}) {
    Crowded s;
    ASSERT_TRUE(s.open_crowded());
    const std::string bytes = sample(part_size);
    const Address address = s.put(bytes)->address;
    const std::uint64_t at = s.offset_of(std::string_view(bytes).substr(0, 64));
    ASSERT_TRUE(s.disk().rot(s.segment(), at + 5 * group_size + 17));
    s.disk().faults.cold = cold;
    const LocatedPtr object = s.find(address);
    ReadAhead ahead;
    std::string all;
    Result<GroupBytes> read = s.groups(object, 0, ahead);
    while (read && all.size() < bytes.size()) {
      all += as_text(read->bytes());
      read = s.groups(object, all.size() / group_size, ahead);
    }
    EXPECT_EQ(all, bytes.substr(0, 5 * group_size));
    EXPECT_EQ(code_of(read), ErrorCode::integrity);
    EXPECT_EQ(s.store->status().quarantined, 1u);
    EXPECT_EQ(s.store->status().rot, 1u);
    EXPECT_EQ(code_of(s.read(address)), ErrorCode::integrity);
  }
}

TEST(Parts, a_part_that_cannot_be_read_is_an_error_and_no_rot) {
  Crowded s;
  ASSERT_TRUE(s.open_crowded());
  const std::string bytes = sample(part_size);
  const Address address = s.put(bytes)->address;
  ASSERT_TRUE(s.read(address));
  s.disk().faults.cold = 1'000'000;
  s.disk().fail_call(DiskCall::read, 1, io::sim::DiskFailure::error, true);
  EXPECT_EQ(code_of(s.read(address)), ErrorCode::io_failed);
  s.disk().heal();
  EXPECT_EQ(*s.read(address), bytes);
  EXPECT_EQ(s.store->status().rot, 0u);
}

TEST(Parts, when_all_memory_for_parts_is_in_use_groups_come_one_by_one) {
  Crowded s;
  ASSERT_TRUE(s.open_crowded());
  const std::string bytes = sample(2 * group_size);
  const LocatedPtr object = s.find(s.put(bytes)->address);
  std::vector<GroupBytes> held;
  std::vector<LocatedPtr> others;
  for (std::uint64_t i = 0; i < 16; ++i)
    others.push_back(s.find(s.put(sample(2 * group_size, 10 + i))->address));
  for (const LocatedPtr& other : others) {
    ReadAhead ahead;
    auto read = s.groups(other, 0, ahead);
    ASSERT_TRUE(read);
    ASSERT_TRUE(read->block);
    held.push_back(std::move(*read));
  }
  ReadAhead ahead;
  auto read = s.groups(object, 0, ahead);
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->block);
  EXPECT_EQ(as_text(read->bytes()), bytes.substr(0, group_size));
  held.clear();
  const auto next = s.groups(s.find(s.put(sample(2 * group_size, 40))->address), 0, ahead);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->block);
}

TEST(Parts, a_reader_that_leaves_does_not_take_the_memory_from_under_the_read) {
  Crowded s;
  ASSERT_TRUE(s.open_crowded());
  std::vector<Address> addresses;
  for (std::uint64_t i = 0; i < 20; ++i) {
    addresses.push_back(s.put(sample(3 * group_size, 50 + i))->address);
    ASSERT_TRUE(s.run(s.port().part_map(s.call(), s.find(addresses.back()), 0)));
  }
  s.disk().faults.cold = 1'000'000;
  s.disk().stall(Duration::seconds(5));
  const Call soon = s.call().by(s.node.shard().now() + Duration::seconds(1));
  std::vector<std::shared_ptr<std::optional<Result<std::string>>>> readers;
  for (const Address& address : addresses)
    readers.push_back(s.start(Crowded::read_task(soon, s.port(), address)));
  ASSERT_TRUE(s.world.run_until(
      [&] { return std::ranges::all_of(readers, [](const auto& reader) { return reader->has_value(); }); }));
  for (const auto& reader : readers) EXPECT_EQ(code_of(**reader), ErrorCode::timeout);
  EXPECT_GT(s.disk().orphans(), 0u);
  s.disk().heal();
  // They end by themselves, and what they wrote to is used again.
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(*s.read(addresses[i]), sample(3 * group_size, 50 + i));
}

}  // namespace
}  // namespace cairn::store
