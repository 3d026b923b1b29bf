#include "store/rocks_database.h"

#include <gtest/gtest.h>
#include <rocksdb/utilities/stackable_db.h>

#include <functional>
#include <future>
#include <random>
#include <thread>

#include "io/real_loop.h"

namespace cairn::store {
namespace {

using Contents = std::map<std::string, std::string>;

// Does something whenever somebody is about to look, and when he has just looked. Takes nothing when it is
// told so.
class Watched final : public rocksdb::StackableDB {
 public:
  explicit Watched(rocksdb::DB& db) : StackableDB(std::shared_ptr<rocksdb::DB>(&db, [](rocksdb::DB*) {})) {}
  using StackableDB::NewIterator;
  rocksdb::Iterator* NewIterator(const rocksdb::ReadOptions& options,
                                 rocksdb::ColumnFamilyHandle* family) override {
    if (before) before();
    rocksdb::Iterator* const made = StackableDB::NewIterator(options, family);
    if (after) after();
    return made;
  }
  using StackableDB::Write;
  rocksdb::Status Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* batch) override {
    if (refuses) return rocksdb::Status::IOError();
    const rocksdb::Status status = StackableDB::Write(options, batch);
    if (written) written();
    return status;
  }
  std::function<void()> before, after, written;
  bool refuses = false;
};

class RocksDatabaseTest : public testing::Test {
 protected:
  RocksDatabaseTest() {
    auto opened = RocksDatabase::open({1u << 20, 64u << 10}, directory_.at("map"), 1);
    CHECK(opened);
    database = std::move(*opened);
  }
  ~RocksDatabaseTest() override { EXPECT_TRUE(database->close()); }

  template <class F>
  void with_db(F f) {
    ASSERT_TRUE(database->use([&](rocksdb::DB& db) -> Result<> {
      f(db);
      return {};
    }));
  }
  Contents scan(rocksdb::DB& db, std::string_view from, std::string_view until, std::size_t limit) {
    const auto found = database->scan(db, from, until, limit);
    CHECK(found);
    Contents all;
    for (const KvPair& pair : *found) {
      EXPECT_TRUE(all.empty() || all.rbegin()->first < pair.key);
      all.emplace_hint(all.end(), pair.key, pair.value);
    }
    return all;
  }
  // The same value for every key: who sees different ones has not seen one moment.
  void add_everywhere(int value) {
    KvBatch batch;
    for (const char* key : {"a", "m", "z"}) batch.put(key, std::to_string(value));
    database->add(batch);
  }
  static Contents everywhere(int value) {
    const std::string text = std::to_string(value);
    return {{"a", text}, {"m", text}, {"z", text}};
  }

 private:
  io::TemporaryDirectory directory_;

 protected:
  std::shared_ptr<RocksDatabase> database;
};

std::string key_of(std::uint64_t number) { return "k" + std::to_string(100'000 + number); }

TEST_F(RocksDatabaseTest, a_list_is_what_a_map_is_whatever_was_handed_over) {
  with_db([&](rocksdb::DB& real) {
    Watched db(real);
    std::mt19937_64 random(3);
    Contents model;
    for (int step = 0; step < 4000; ++step) {
      KvBatch batch;
      for (std::uint64_t i = random() % 8; i < 8; ++i) {
        const std::string key = key_of(random() % 3000);
        if (random() % 3 == 0) {
          batch.remove(key);
          model.erase(key);
        } else {
          const std::string value(random() % 20, static_cast<char>('a' + random() % 26));
          batch.put(key, value);
          model[key] = value;
        }
      }
      database->add(batch);
      db.refuses = random() % 3 == 0;
      if (random() % 400 == 0) ASSERT_EQ(database->hand_over(db).has_value(), !db.refuses);
      db.refuses = false;
      if (random() % 1000 == 0) ASSERT_TRUE(database->flush(db));
      if (random() % 10 != 0) continue;
      const std::uint64_t first = random() % 3000;
      const std::string from = key_of(first), until = key_of(first + random() % 3000);
      const std::size_t limit = 1 + random() % 100;
      Contents want;
      for (auto at = model.lower_bound(from); at != model.end() && at->first < until && want.size() < limit;
           ++at)
        want.insert(*at);
      ASSERT_EQ(scan(db, from, until, limit), want) << step;
    }
  });
}

TEST_F(RocksDatabaseTest, many_removals_hide_what_was_handed_over_before_them) {
  with_db([&](rocksdb::DB& db) {
    KvBatch written, removed;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      written.put(key_of(i), "v");
      if (i != 19'000) removed.remove(key_of(i));
    }
    database->add(written);
    ASSERT_TRUE(database->hand_over(db));
    database->add(removed);
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(scan(db, key_of(0), key_of(20'000), 1), (Contents{{key_of(19'000), "v"}}));
  });
}

// The change is handed over between the look at what is recent and that at what RocksDB has.
TEST_F(RocksDatabaseTest, a_list_sees_no_part_of_what_is_handed_over_while_it_looks) {
  with_db([&](rocksdb::DB& real) {
    Watched db(real);
    for (const bool early : {true, false}) {
      add_everywhere(1);
      KvBatch some;  // the next one changes more than these
      some.remove("m");
      database->add(some);
      int looks = 0;
      const auto hand_over = [&] {
        if (++looks > 1) return;
        add_everywhere(2);
        ASSERT_TRUE(database->hand_over(real));
      };
      (early ? db.before : db.after) = hand_over;
      EXPECT_EQ(scan(db, "a", "zz", 10), everywhere(2));
      EXPECT_EQ(looks, 2);
      db.before = db.after = nullptr;
    }
  });
}

// RocksDB has it all, and whoever gave it has not come back yet to say so.
TEST_F(RocksDatabaseTest, a_list_sees_no_part_of_what_rocksdb_was_just_given) {
  with_db([&](rocksdb::DB& real) {
    Watched db(real);
    add_everywhere(1);
    std::promise<void> taken, listed;
    db.written = [&] {
      taken.set_value();
      listed.get_future().wait();
    };
    std::future<Result<>> handed;
    db.before = [&] {
      if (handed.valid()) return;
      KvBatch batch;
      for (const char* key : {"a", "n", "z"}) batch.put(key, "2");
      database->add(batch);
      handed = std::async(std::launch::async, [&] { return database->hand_over(db); });
      taken.get_future().wait();
    };
    EXPECT_EQ(scan(db, "a", "zz", 10), (Contents{{"a", "2"}, {"m", "1"}, {"n", "2"}, {"z", "2"}}));
    listed.set_value();
    EXPECT_TRUE(handed.get());
  });
}

// What was closed before it was seen is the same here and there: nothing has to be looked at again.
TEST_F(RocksDatabaseTest, the_end_of_a_hand_over_that_had_begun_disturbs_no_list) {
  with_db([&](rocksdb::DB& real) {
    Watched db(real);
    add_everywhere(1);
    db.refuses = true;
    EXPECT_FALSE(database->hand_over(db));
    db.refuses = false;
    KvBatch newer;
    newer.put("m", "newer");
    database->add(newer);
    int looks = 0;
    db.before = [&] {
      ++looks;
      ASSERT_TRUE(database->hand_over(db));
    };
    Contents want = everywhere(1);
    want["m"] = "newer";
    EXPECT_EQ(scan(db, "a", "zz", 10), want);
    EXPECT_EQ(looks, 1);
  });
}

TEST_F(RocksDatabaseTest, a_list_ends_although_something_is_handed_over_at_its_every_look) {
  with_db([&](rocksdb::DB& real) {
    Watched db(real);
    std::future<Result<>> last;
    int looks = 0;
    db.before = [&] {
      add_everywhere(++looks);
      auto handed = std::async(std::launch::async, [&] { return database->hand_over(real); });
      if (looks < 5)
        ASSERT_TRUE(handed.get());
      else
        last = std::move(handed);  // has to wait for the list
    };
    add_everywhere(0);
    EXPECT_EQ(scan(db, "a", "zz", 10), everywhere(4));
    EXPECT_EQ(looks, 5);
    EXPECT_TRUE(last.get());
    db.before = nullptr;
    EXPECT_EQ(scan(db, "a", "zz", 10), everywhere(5));
  });
}

TEST_F(RocksDatabaseTest, no_batch_is_seen_in_part_beside_a_writer_and_hand_overs) {
  with_db([&](rocksdb::DB& db) {
    std::atomic<bool> over = false;
    std::jthread writer([&] {
      for (int i = 1; !over; ++i)
        if (!database->is_full()) add_everywhere(i);
    });
    std::jthread giver([&] {
      while (!over) EXPECT_TRUE(database->hand_over(db));
    });
    for (int i = 0; i < 3000; ++i) {
      const Contents seen = scan(db, "a", "zz", 10);
      EXPECT_TRUE(seen.empty() || (seen.size() == 3 && seen == everywhere(std::stoi(seen.at("a")))));
    }
    over = true;
  });
}

}  // namespace
}  // namespace cairn::store
