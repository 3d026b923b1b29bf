#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "store/segment.h"
#include "store/simulated_store.h"
#include "store/store_set.h"

namespace cairn::store {
namespace {

using testing::AnyOf;

constexpr std::size_t part_size = crypto::part_size;

struct Rotting : SimulatedStore {
  using SimulatedStore::SimulatedStore;
  std::string segment(std::uint32_t id = 1) { return segment_path("data/segments", id); }
  // Where these bytes lie in a segment.
  std::uint64_t offset_of(std::string_view bytes, std::uint32_t id = 1) {
    return disk().view().text(segment(id)).find(bytes);
  }
  void clear_cache() {
    ports.clear();
    forget_cached(addresses());
    ports.push_back(store->make_port(machine()));
  }
  std::vector<Address> addresses() {
    std::vector<Address> all;
    auto kv = store->index()->engine->make_port(machine());
    const auto pairs = run(kv->scan(call(), "o", "p", 1000));
    for (const KvPair& pair : *pairs) {
      Address address;
      std::memcpy(address.bytes.data(), pair.key.data() + 1, address.bytes.size());
      all.push_back(address);
    }
    return all;
  }
};

TEST(Rot, a_flipped_bit_anywhere_in_an_object_is_never_served_and_never_not_found) {
  const std::string bytes = sample(2 * 65536 + 777);
  for (std::size_t at = 0; at < bytes.size(); at += 9973) {
    Rotting s(at + 1);
    ASSERT_TRUE(s.open());
    const Address address = s.put(bytes)->address;
    ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(std::string_view(bytes).substr(0, 64)) + at));
    EXPECT_EQ(code_of(s.read(address)), ErrorCode::integrity) << at;
    EXPECT_EQ(s.store->status().quarantined, 1u);
    EXPECT_EQ(code_of(s.read(address)), ErrorCode::integrity);
    s.stop();
    ASSERT_TRUE(s.open());
    EXPECT_EQ(code_of(s.read(address)), ErrorCode::integrity);
    EXPECT_EQ(s.store->status().quarantined, 1u);
  }
}

TEST(Rot, good_groups_of_a_bad_object_are_served_until_the_bad_one_is_met) {
  Rotting s;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(2 * 65536);
  const Address address = s.put(bytes)->address;
  ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(std::string_view(bytes).substr(0, 64)) + 65536));
  const auto object = s.run(s.port().find(s.call(), address));
  const auto good = s.run(s.port().read_group(s.call(), *object, 0));
  ASSERT_TRUE(good);
  EXPECT_EQ(as_text(good->bytes()), bytes.substr(0, 65536));
  EXPECT_EQ(code_of(s.run(s.port().read_group(s.call(), *object, 1))), ErrorCode::integrity);
}

TEST(Rot, every_byte_of_a_small_store_may_rot_and_no_wrong_byte_is_served) {
  Rotting s;
  s.options.segment_size = 4 << 20;
  ASSERT_TRUE(s.open());
  const std::vector<std::string> contents = {sample(40, 1), sample(300, 2), sample(70, 3)};
  for (const std::string& bytes : contents) ASSERT_TRUE(s.put(bytes));
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, sample(100, 4)));
  ASSERT_TRUE(s.commit(token));
  ASSERT_TRUE(s.pin(address_of(contents[0])));
  ASSERT_TRUE(s.close());
  const io::sim::Image image = s.disk().view();
  const std::uint64_t size = image.text(s.segment()).size();
  for (std::uint64_t at = 0; at < size; at += at < 128 || at >= 4096 ? 1 : 512) {
    for (const bool rebuilt : {false, true}) {
      s.disk().load(image);
      if (rebuilt) {
        io::sim::Image bare = image;
        std::erase_if(bare.names, [](const auto& name) { return name.first.starts_with("data/index"); });
        s.disk().load(bare);
      }
      ASSERT_TRUE(s.disk().rot(s.segment(), at, std::byte{0x10}));
      for (std::uint64_t i = 0; i < 5; ++i)
        s.cache().erase(address_of(sample(i == 0 ? 40 : i == 1 ? 300 : i == 2 ? 70 : 100, i + 1)));
      ASSERT_TRUE(s.open()) << at;
      std::size_t bad = 0, lost = 0;
      for (const auto& [length, seed] : {std::pair(40u, 1u), {300u, 2u}, {70u, 3u}, {100u, 4u}}) {
        const std::string bytes = sample(length, seed);
        const auto read = s.read(address_of(bytes));
        if (read) {
          EXPECT_EQ(*read, bytes) << at;
          continue;
        }
        ++bad;
        lost += read.error().code == ErrorCode::not_found ? 1u : 0u;
        // An index that was kept knows what the log lost.
        if (!rebuilt) EXPECT_EQ(read.error().code, ErrorCode::integrity) << at << " " << read.error().context;
      }
      EXPECT_EQ(s.list().size() + lost, 4u) << at;  // and nothing else
      EXPECT_LE(bad, 1u) << at << (rebuilt ? " rebuilt" : "");
      s.stop();
    }
  }
}

TEST(Rot, a_put_of_the_same_bytes_heals) {
  for (const bool pinned : {false, true}) {
    Rotting s;
    ASSERT_TRUE(s.open());
    const std::string bytes = sample(70000);
    const Address address = s.put(bytes)->address;
    if (pinned) ASSERT_TRUE(s.pin(address));
    ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(std::string_view(bytes).substr(0, 64)) + 66000));
    ASSERT_EQ(code_of(s.read(address)), ErrorCode::integrity);
    const auto healed = s.put(bytes);
    ASSERT_TRUE(healed);
    EXPECT_FALSE(healed->existed);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(s.read(address) == Result<std::string>(bytes));
      EXPECT_EQ(s.list().at(0).pinned, pinned);
      EXPECT_EQ(s.store->status().quarantined, 0u);
      s.stop();
      s.make_cache();
      ASSERT_TRUE(s.open());
    }
  }
}

// A bad read, or a bit that flipped in memory: what the disk has is what counts.
TEST(Rot, a_bit_that_flipped_only_in_the_page_cache_quarantines_nothing_and_is_never_served) {
  const std::string small = sample(3000, 1), large = sample(2 * 65536 + 777, 2),
                    parts = sample(part_size + 100, 3);
  for (const bool scrubbed_first : {false, true}) {
    std::uint64_t size = 0;
    for (std::uint64_t at = 64; size == 0 || at < size; at += 50'021) {
      Rotting s(at + 1);
      ASSERT_TRUE(s.open());
      ASSERT_TRUE(s.put(small));
      ASSERT_TRUE(s.put(large));
      const Ulid token = s.begin()->token;
      ASSERT_TRUE(s.part(token, 0, std::string_view(parts).substr(0, part_size)));
      ASSERT_TRUE(s.part(token, 1, std::string_view(parts).substr(part_size)));
      ASSERT_TRUE(s.commit(token));
      ASSERT_TRUE(s.put("behind"));
      size = s.offset_of("behind");
      // Where the hashes are, also: between the bytes of two objects.
      const std::uint64_t meta = s.offset_of(std::string_view(large).substr(0, 64)) - 40;
      ASSERT_TRUE(s.disk().rot_in_memory(s.segment(), at == 64 ? meta : at));
      if (scrubbed_first) ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call()))) << at;
      for (const std::string& bytes : {small, large, parts}) {
        s.cache().erase(address_of(bytes));
        EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes)) << at;
      }
      if (!scrubbed_first) ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call()))) << at;
      EXPECT_EQ(s.store->status().quarantined, 0u) << at;
      EXPECT_EQ(s.store->status().damage, 0u) << at;
      EXPECT_EQ(s.store->status().rot, 0u) << at;
    }
  }
}

TEST(Rot, an_object_that_is_whole_again_leaves_quarantine_by_itself_and_every_index_agrees) {
  Rotting s;
  s.options.segment_size = 512 << 10;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(70'000), parts = sample(part_size / 8, 2);
  ASSERT_TRUE(s.put(bytes));
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, parts));
  ASSERT_TRUE(s.commit(token));
  ASSERT_TRUE(s.pin(address_of(bytes)));
  const auto flip = [&](const std::string& what) {
    for (std::uint32_t id = 1; id < 20; ++id) {
      const std::uint64_t at = s.offset_of(std::string_view(what).substr(0, 64), id);
      if (at == std::string::npos) continue;
      ASSERT_TRUE(s.disk().rot(s.segment(id), at + 100));
    }
    s.cache().erase(address_of(what));
  };
  const auto agree = [&] {
    const auto kept = s.index();
    s.stop();
    io::sim::Image bare = s.disk().view();
    std::erase_if(bare.names, [](const auto& name) { return name.first.starts_with("data/index"); });
    s.disk().load(bare);
    ASSERT_TRUE(s.open());
    std::map<std::string, std::string> left, right;
    for (const KvPair& pair : kept)
      if (pair.key[0] == object_prefix || pair.key[0] == quarantine_prefix) left[pair.key] = pair.value;
    for (const KvPair& pair : s.index())
      if (pair.key[0] == object_prefix || pair.key[0] == quarantine_prefix) right[pair.key] = pair.value;
    EXPECT_TRUE(left == right);
  };
  for (int round = 0; round < 3; ++round) {
    for (const std::string& what : {bytes, parts}) {
      flip(what);
      EXPECT_EQ(code_of(s.read(address_of(what))), ErrorCode::integrity);
    }
    EXPECT_EQ(s.store->status().quarantined, 2u);
    ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
    EXPECT_EQ(s.store->status().quarantined, 2u) << "they are still bad";
    agree();
    EXPECT_EQ(s.store->status().quarantined, 2u);
    for (const std::string& what : {bytes, parts}) flip(what);
    ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
    EXPECT_EQ(s.store->status().quarantined, 0u);
    agree();
    EXPECT_EQ(s.store->status().quarantined, 0u);
    for (const std::string& what : {bytes, parts})
      EXPECT_TRUE(s.read(address_of(what)) == Result<std::string>(what)) << round;
    EXPECT_TRUE(s.put(bytes)->existed);
    // What was said of them moves with them.
    for (std::uint64_t i = 0; i < 12; ++i) {
      const std::string filler = sample(60'000, 100 + i);
      ASSERT_TRUE(s.put(filler));
      ASSERT_TRUE(s.remove(address_of(filler)));
    }
    ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
    s.stop();
    ASSERT_TRUE(s.open());  // segments in which damage was found are compacted again after a start
    ASSERT_TRUE(s.compact());
    agree();
  }
  EXPECT_TRUE(std::ranges::any_of(s.list(), [](const Listed& one) { return one.pinned; }));
}

TEST(Rot, what_a_lost_file_brought_back_leaves_quarantine_at_the_start) {
  Rotting s;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(5000);
  ASSERT_TRUE(s.put(bytes));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  ASSERT_TRUE(s.put("other"));
  ASSERT_TRUE(s.close());
  const std::string file = s.disk().view().text(s.segment(1));
  ASSERT_TRUE(s.run(s.machine().disk.unlink(s.call(), s.segment(1))));
  s.make_cache();
  ASSERT_TRUE(s.open());
  ASSERT_EQ(code_of(s.read(address_of(bytes))), ErrorCode::integrity);
  ASSERT_EQ(s.store->status().quarantined, 1u);
  ASSERT_TRUE(s.close());
  s.disk().put(s.segment(1), file);
  ASSERT_TRUE(s.open());
  s.tasks().spawn("scrub", s.store->home().scrubber().scrub_loop(s.tasks().call()));
  ASSERT_TRUE(s.world.run_until([&] { return s.store->status().quarantined == 0; }));
  EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
}

TEST(Rot, an_upload_of_the_same_bytes_heals) {
  Rotting s;
  ASSERT_TRUE(s.open());
  const std::string bytes = sample(part_size + 100);
  const auto send = [&] {
    const Ulid token = s.begin()->token;
    EXPECT_TRUE(s.part(token, 0, std::string_view(bytes).substr(0, part_size)));
    EXPECT_TRUE(s.part(token, 1, std::string_view(bytes).substr(part_size)));
    return s.commit(token);
  };
  ASSERT_TRUE(send());
  ASSERT_TRUE(s.pin(address_of(bytes)));
  ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(std::string_view(bytes).substr(part_size, 64)) + 3));
  ASSERT_EQ(code_of(s.read(address_of(bytes))), ErrorCode::integrity);
  ASSERT_TRUE(send());
  EXPECT_TRUE(s.read(address_of(bytes)) == Result<std::string>(bytes));
  EXPECT_TRUE(s.list().at(0).pinned);
}

TEST(Rot, a_segment_that_vanished_is_integrity_and_not_absence) {
  Rotting s;
  ASSERT_TRUE(s.open());
  const Address address = s.put(sample(5000))->address;
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  ASSERT_TRUE(s.put("other"));
  ASSERT_TRUE(s.close());
  ASSERT_TRUE(s.run(s.machine().disk.unlink(s.call(), s.segment(1))));
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(code_of(s.read(address)), ErrorCode::integrity);
  EXPECT_EQ(*s.read(address_of("other")), "other");
}

TEST(Rot, the_scrubber_finds_it_before_a_reader_does) {
  Rotting s;
  ASSERT_TRUE(s.open());
  std::vector<std::string> contents;
  for (std::uint64_t i = 0; i < 20; ++i) contents.push_back(sample(3000, i + 1));
  for (const std::string& bytes : contents) ASSERT_TRUE(s.put(bytes));
  const std::string large = sample(part_size + 9);
  const Ulid token = s.begin()->token;
  ASSERT_TRUE(s.part(token, 0, std::string_view(large).substr(0, part_size)));
  ASSERT_TRUE(s.part(token, 1, std::string_view(large).substr(part_size)));
  ASSERT_TRUE(s.commit(token));
  ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(contents[7]) + 100));
  ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(std::string_view(large).substr(0, 64)) + 500'000));
  // A header: what it belongs to is known by the index.
  ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(contents[12]) - 100));
  ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
  EXPECT_EQ(s.store->status().quarantined, 3u);
  EXPECT_EQ(s.store->status().rot, 2u);
  EXPECT_EQ(s.store->status().damage, 1u);
  EXPECT_EQ(s.store->status().scrub_passes, 1u);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const bool bad = i == 7 || i == 12;
    EXPECT_EQ(code_of(s.read(address_of(contents[i]))), bad ? ErrorCode::integrity : ErrorCode::ok) << i;
  }
  EXPECT_EQ(code_of(s.read(address_of(large))), ErrorCode::integrity);
  // What is known is not found again.
  ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
  EXPECT_EQ(s.store->status().quarantined, 3u);
}

TEST(Rot, the_scrubber_looks_at_the_rest_of_a_disk_that_has_a_bad_sector) {
  Rotting s;
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(s.put(sample(3000, i + 1)));
  ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(sample(3000, 19)) + 100));
  s.disk().faults.cold = 1'000'000;
  s.disk().fail_call(io::sim::DiskCall::read, 5);
  ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
  EXPECT_EQ(s.store->status().quarantined, 1u);
}

TEST(Rot, scrubbing_takes_the_time_that_its_rate_gives) {
  Rotting s;
  s.options.scrub_rate = Rate{1 << 20};
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(s.put(sample(1 << 20, i + 1)));
  const Instant start = s.world.now();
  ASSERT_TRUE(s.run(s.store->home().scrubber().scrub_once(s.call())));
  EXPECT_GE((s.world.now() - start).to_millis(), 3000);
  EXPECT_LE((s.world.now() - start).to_millis(), 7000);
}

TEST(Rot, the_loop_scrubs_when_it_is_asked_to) {
  Rotting s;
  ASSERT_TRUE(s.open());
  s.tasks().spawn("scrub", s.store->home().scrubber().scrub_loop(s.tasks().call()));
  ASSERT_TRUE(s.put(sample(3000)));
  ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(sample(3000)) + 100));
  s.world.run_for(Duration::seconds(60));
  EXPECT_EQ(s.store->status().quarantined, 0u);
  s.store->ask_for_scrub();
  ASSERT_TRUE(s.world.run_until([&] { return s.store->status().scrub_passes == 1u; }));
  EXPECT_EQ(s.store->status().quarantined, 1u);
}

TEST(Rot, a_pass_of_the_scrubber_begins_with_the_store_and_takes_its_interval) {
  Rotting s;
  s.options.scrub_interval = Duration::seconds(10'000);
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(s.put(sample(1 << 20, i + 1)));
  ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(sample(1 << 20, 5).substr(0, 64)) + 100));
  s.tasks().spawn("scrub", s.store->home().scrubber().scrub_loop(s.tasks().call()));
  s.world.run_for(Duration::seconds(3000));
  EXPECT_EQ(s.store->status().quarantined, 0u);
  EXPECT_EQ(s.store->status().scrub_segment, 1u);
  s.world.run_for(Duration::seconds(2000));
  EXPECT_EQ(s.store->status().quarantined, 1u) << "half of it, after half of the time";
  EXPECT_LT(s.store->status().scrub_bytes, 7u << 20);
  s.world.run_for(Duration::seconds(4500));
  EXPECT_EQ(s.store->status().scrub_passes, 0u);
  s.world.run_for(Duration::seconds(3000));
  EXPECT_EQ(s.store->status().scrub_passes, 1u);
  EXPECT_LT(s.store->status().scrub_bytes, 15u << 20) << "the second one waits for its time";
  EXPECT_GT(s.store->status().scrub_bytes, 10u << 20);
}

TEST(Rot, a_store_that_is_often_restarted_is_looked_at_whole) {
  Rotting s;
  s.options.scrub_interval = Duration::seconds(10'000);
  ASSERT_TRUE(s.open());
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(s.put(sample(1 << 20, i + 1)));
  ASSERT_TRUE(s.run(s.store->home().roll(s.call())));
  for (std::uint64_t i = 10; i < 12; ++i) ASSERT_TRUE(s.put(sample(1 << 20, i + 1)));
  ASSERT_TRUE(s.disk().rot(s.segment(2), s.offset_of(sample(1 << 20, 12).substr(0, 64), 2) + 100));
  std::uint64_t bytes = 0;
  for (int day = 0; day < 12 && s.store->status().quarantined == 0; ++day) {
    s.stop();
    ASSERT_TRUE(s.open());
    s.tasks().spawn("scrub", s.store->home().scrubber().scrub_loop(s.tasks().call()));
    s.world.run_for(Duration::seconds(1500));
    bytes += s.store->status().scrub_bytes;
  }
  EXPECT_EQ(s.store->status().quarantined, 1u);
  EXPECT_LT(bytes, 16u << 20) << "not from the beginning each time";
}

TEST(Rot, a_note_of_the_scrubber_that_is_damaged_or_beyond_the_log_makes_it_begin_anew) {
  for (const std::string& note :
       {std::string("nonsense"), std::string(as_text(encode_scrub_note({9, 9}).bytes()))}) {
    Rotting s;
    s.options.scrub_interval = Duration::seconds(100);
    ASSERT_TRUE(s.open());
    ASSERT_TRUE(s.put(sample(3000)));
    ASSERT_TRUE(s.disk().rot(s.segment(), s.offset_of(sample(3000)) + 100));
    ASSERT_TRUE(s.close());
    s.disk().put("data/scrub", note);
    s.make_cache();
    ASSERT_TRUE(s.open());
    s.tasks().spawn("scrub", s.store->home().scrubber().scrub_loop(s.tasks().call()));
    s.world.run_for(Duration::seconds(300));
    EXPECT_EQ(s.store->status().quarantined, 1u);
  }
}

TEST(Rot, what_opening_finds_damaged_is_named_and_quarantined) {
  Rotting s;
  ASSERT_TRUE(s.open());
  ASSERT_TRUE(s.put(sample(3000, 1)));
  ASSERT_TRUE(s.put(sample(3000, 2)));
  ASSERT_TRUE(s.put(sample(3000, 3)));
  s.stop();
  // The index is lost with the header of the second record: only that object is.
  const std::uint64_t at = s.disk().view().text(s.segment()).find(sample(3000, 2));
  ASSERT_TRUE(s.disk().rot(s.segment(), at - 100));
  ASSERT_TRUE(s.run(s.machine().disk.unlink(s.call(), "data/index/map")));
  s.make_cache();
  ASSERT_TRUE(s.open());
  EXPECT_EQ(s.store->status().damage, 1u);
  EXPECT_TRUE(s.read(address_of(sample(3000, 1))));
  EXPECT_EQ(code_of(s.read(address_of(sample(3000, 2)))), ErrorCode::not_found);
  EXPECT_TRUE(s.read(address_of(sample(3000, 3))));
}

TEST(StoreSet, objects_of_several_directories_are_one_and_bad_ones_are_healed_where_they_are) {
  SimulatedStore s;
  StoreSet set({"one", "two", "three"}, s.options, s.maker, s.cache());
  Scope tasks(s.node.shard(), s.call());
  for (std::size_t i = 0; i < set.size(); ++i) {
    ASSERT_TRUE(s.run(set.at(i).open(s.call(), s.machine(), s.log)));
    tasks.spawn("commit", set.at(i).home().committer().run(tasks.call()));
  }
  {
    SetPort port(set, s.machine());
    const auto put = [&](std::string_view bytes) -> Result<Outcome> {
      Address address;
      Draft::Taken taken = s.draft(bytes, address);
      auto to = s.run(port.for_put(s.call(), address));
      if (!to) return fail(to.error());
      return s.run((*to)->put(s.call(), address, std::move(taken)));
    };
    for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(put(sample(500, i + 1)));
    for (std::uint64_t i = 0; i < 60; ++i) EXPECT_TRUE(put(sample(500, i + 1))->existed);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < set.size(); ++i) {
      EXPECT_GT(set.at(i).status().objects, 5u);
      sum += set.at(i).status().objects;
    }
    EXPECT_EQ(sum, 60u);
    const auto listed = s.run(port.list(s.call(), "", std::nullopt, 50));
    ASSERT_TRUE(listed);
    EXPECT_EQ(listed->size(), 50u);
    EXPECT_TRUE(std::is_sorted(listed->begin(), listed->end(),
                               [](const Listed& a, const Listed& b) { return a.address < b.address; }));
    // One rots: it is bad, then healed in its own directory.
    const std::string bytes = sample(500, 5);
    const auto there = s.run(port.find(s.call(), address_of(bytes)));
    ASSERT_TRUE(there && there->port != nullptr);
    const std::string path = segment_path(there->port->store().options().directory + "/segments", 1);
    ASSERT_TRUE(s.disk().rot(path, s.disk().view().text(path).find(bytes) + 9));
    s.cache().erase(address_of(bytes));
    EXPECT_EQ(code_of(s.run(there->port->read_group(s.call(), there->object, 0))), ErrorCode::integrity);
    EXPECT_EQ(code_of(s.run(port.find(s.call(), address_of(bytes)))), ErrorCode::integrity);
    ASSERT_TRUE(put(bytes));
    EXPECT_EQ(s.run(port.find(s.call(), address_of(bytes)))->port, there->port);
    EXPECT_EQ(*s.run(port.remove(s.call(), address_of(bytes))), 1u);
    EXPECT_EQ(s.run(port.find(s.call(), address_of(bytes)))->port, nullptr);
    // One directory is fenced: writes go elsewhere, and removals of what the others have.
    set.at(0).status().fenced = true;
    for (std::uint64_t i = 100; i < 130; ++i) EXPECT_TRUE(put(sample(500, i)));
    std::size_t removed = 0;
    for (std::uint64_t i = 100; i < 130; ++i)
      removed += *s.run(port.remove(s.call(), address_of(sample(500, i))));
    EXPECT_EQ(removed, 30u);
    const Ulid token = s.run(port.begin_upload(s.call(), 7, {}))->upload.token;
    EXPECT_NE(s.run(port.find_upload(s.call(), token))->port, nullptr);
    for (std::size_t i = 0; i < set.size(); ++i) set.at(i).status().fenced = true;
    EXPECT_EQ(code_of(put("nowhere")), ErrorCode::degraded);
  }
  tasks.cancel(StopReason::draining);
  ASSERT_TRUE(s.world.run_until([&] { return tasks.empty(); }));
}

}  // namespace
}  // namespace cairn::store
