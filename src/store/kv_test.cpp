// What every map promises, asked of each engine.
#include "store/kv.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <atomic>
#include <thread>

#include "runtime/wait.h"
#include "store/kv_setting.h"
#include "store/kv_walk.h"
#include "store/log_kv.h"
#include "store/memory_kv.h"
#include "store/rocks_kv.h"

namespace cairn::store {
namespace {

using Settings = testing::Types<OnDisk<RocksKvMaker>, Simulated<LogKvMaker>, OnDisk<MemoryKvMaker>,
                                Simulated<MemoryKvMaker>>;
class SettingName {
 public:
  template <class T>
  static std::string GetName(int) {
    if (std::is_same_v<T, OnDisk<RocksKvMaker>>) return "RocksKv";
    if (std::is_same_v<T, Simulated<LogKvMaker>>) return "LogKv";
    return std::is_same_v<T, OnDisk<MemoryKvMaker>> ? "MemoryKv" : "MemoryKvSimulated";
  }
};
TYPED_TEST_SUITE(KvTest, Settings, SettingName);

TYPED_TEST(KvTest, the_last_value_written_is_found_until_it_is_removed) {
  EXPECT_EQ(this->get("k"), std::nullopt);
  ASSERT_EQ(this->put("k", "1"), ErrorCode::ok);
  EXPECT_EQ(this->get("k"), "1");
  ASSERT_EQ(this->put("k", "two"), ErrorCode::ok);
  EXPECT_EQ(this->get("k"), "two");
  KvBatch gone;
  gone.remove("k");
  gone.remove("never there");
  ASSERT_EQ(this->write(std::move(gone)), ErrorCode::ok);
  EXPECT_EQ(this->get("k"), std::nullopt);
  ASSERT_EQ(this->write(KvBatch{}), ErrorCode::ok);
  ASSERT_EQ(this->put("", ""), ErrorCode::ok);
  EXPECT_EQ(this->get(""), "") << "an empty value is not an absent one";
  ASSERT_EQ(this->put(std::string("a\0b\xff", 4), std::string(100'000, '\0')), ErrorCode::ok);
  EXPECT_EQ(this->get(std::string("a\0b\xff", 4)), std::string(100'000, '\0'));
}

TYPED_TEST(KvTest, K1_within_a_batch_the_later_change_holds) {
  KvBatch batch;
  batch.put("a", "1");
  batch.put("a", "2");
  batch.put("b", "1");
  batch.remove("b");
  batch.remove("c");
  batch.put("c", "1");
  ASSERT_EQ(this->write(std::move(batch)), ErrorCode::ok);
  EXPECT_EQ(this->all(), (Contents{{"a", "2"}, {"c", "1"}}));
}

TYPED_TEST(KvTest, a_scan_is_in_order_from_the_first_key_to_before_the_last_and_no_longer_than_asked) {
  const std::string high("\xc3\x28", 2);
  ASSERT_EQ(this->write(batch_of({{"b", "2"}, {"a", "1"}, {"bb", "3"}, {"c", "4"}, {high, "5"}})),
            ErrorCode::ok);
  EXPECT_EQ(this->scan("a", "c"), (Contents{{"a", "1"}, {"b", "2"}, {"bb", "3"}}));
  EXPECT_EQ(this->scan("aa", "bb"), (Contents{{"b", "2"}}));
  EXPECT_EQ(this->scan("b", std::string("b\0", 2)), (Contents{{"b", "2"}}));
  EXPECT_EQ(this->scan("", "\xff", 2), (Contents{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(this->scan("c", "\xff"), (Contents{{"c", "4"}, {high, "5"}}));
  EXPECT_EQ(this->scan("", "\xff", 0), Contents{});
  EXPECT_EQ(this->scan("c", "a"), Contents{});
  EXPECT_EQ(this->scan("a", "a"), Contents{});
  EXPECT_EQ(this->scan("", ""), Contents{});
}

TYPED_TEST(KvTest, a_walk_meets_each_pair_of_its_prefix_once_whatever_its_pages) {
  Contents wanted;
  KvBatch batch = batch_of({{"a", "before"}, {"c", "behind"}, {std::string("a\xff\xff", 3), "before"}});
  for (std::size_t i = 0; i < 6; ++i) wanted[numbered("b", i)] = std::to_string(i);
  wanted["b"] = "the prefix alone";
  for (const auto& [key, value] : wanted) batch.put(key, value);
  ASSERT_EQ(this->write(std::move(batch)), ErrorCode::ok);
  for (const std::size_t page : {1u, 2u, 6u, 7u, 8u}) {
    KvWalk walk(*this->ports[0], 'b', page);
    Contents met;
    for (std::size_t pages = 0;; ++pages) {
      const auto found = this->at.run(0, walk.next(this->at.call(0)));
      ASSERT_TRUE(found);
      if (found->empty()) break;
      EXPECT_EQ(found->size(), std::min(page, wanted.size() - met.size()));
      for (const KvPair& pair : *found) EXPECT_TRUE(met.emplace(pair.key, pair.value).second) << pair.key;
      ASSERT_LE(pages, wanted.size());
    }
    EXPECT_EQ(met, wanted) << page;
  }
}

TYPED_TEST(KvTest, every_port_sees_a_write_at_once) {
  for (unsigned i = 0; i < 200; ++i) {
    ASSERT_EQ(this->put("k", std::to_string(i), i % 2), ErrorCode::ok);
    ASSERT_EQ(this->get("k", 1 - i % 2), std::to_string(i));
  }
}

TYPED_TEST(KvTest, what_was_closed_is_there_when_opened_again) {
  Contents expected;
  for (unsigned i = 0; i < 50; ++i) {
    KvBatch batch = batch_of({{numbered("k", i), std::to_string(i)}, {"n", std::to_string(i)}});
    if (i % 3 == 0) batch.remove(numbered("k", i / 2));
    apply_to(batch, expected);
    ASSERT_EQ(this->write(std::move(batch)), ErrorCode::ok);
  }
  EXPECT_EQ(this->all(), expected);
  this->close();
  this->open();
  EXPECT_EQ(this->all(), this->at.keeps ? expected : Contents{});
  ASSERT_EQ(this->put("more", "1"), ErrorCode::ok);
  this->close();
  this->open();
  if (this->at.keeps) expected["more"] = "1";
  EXPECT_EQ(this->all(), this->at.keeps ? expected : Contents{});
}

TYPED_TEST(KvTest, K2_what_was_flushed_is_there_without_closing) {
  ASSERT_EQ(this->put("flushed", "1"), ErrorCode::ok);
  ASSERT_EQ(this->flush(), ErrorCode::ok);
  ASSERT_EQ(this->flush(), ErrorCode::ok);
  ASSERT_EQ(this->write(batch_of({{"a", "1"}, {"b", "1"}})), ErrorCode::ok);
  this->drop();
  this->open();
  const Contents found = this->all();
  if (this->at.keeps) EXPECT_TRUE(found.contains("flushed"));
  EXPECT_EQ(found.contains("a"), found.contains("b")) << "batches are whole";
}

TYPED_TEST(KvTest, what_was_destroyed_is_empty_and_destroying_nothing_is_fine) {
  ASSERT_EQ(this->put("k", "1"), ErrorCode::ok);
  this->close();
  EXPECT_EQ(this->destroy(), ErrorCode::ok);
  EXPECT_EQ(this->destroy(), ErrorCode::ok);
  this->open();
  EXPECT_EQ(this->all(), Contents{});
}

TYPED_TEST(KvTest, its_memory_is_told) {
  const std::uint64_t before = this->engine->memory();
  ASSERT_EQ(this->put("k", std::string(3u << 20, 'v')), ErrorCode::ok);
  EXPECT_GT(this->engine->memory(), before + (3u << 20) - 1);
  EXPECT_LT(this->engine->memory(), before + (16u << 20));
}

// --- against a plain map

struct Step {
  enum class Kind : std::uint8_t { write, get, scan, flush, reopen, drop };
  Kind kind = Kind::write;
  std::vector<std::pair<std::uint8_t, std::optional<std::uint8_t>>> changes;
  std::uint8_t from = 0, until = 0;
};
void showValue(const Step& step, std::ostream& out) {
  out << "{kind " << static_cast<int>(step.kind) << " from " << int{step.from} << " until "
      << int{step.until};
  for (const auto& [key, value] : step.changes) out << ' ' << int{key} << '=' << (value ? int{*value} : -1);
  out << '}';
}

rc::Gen<Step> any_step() {
  using Kind = Step::Kind;
  const auto key = rc::gen::inRange<std::uint8_t>(0, 12);
  return rc::gen::build<Step>(
      rc::gen::set(&Step::kind, rc::gen::weightedElement<Kind>({{20, Kind::write},
                                                                {8, Kind::get},
                                                                {6, Kind::scan},
                                                                {3, Kind::flush},
                                                                {1, Kind::reopen},
                                                                {1, Kind::drop}})),
      rc::gen::set(
          &Step::changes,
          rc::gen::resize(
              6, rc::gen::container<std::vector<std::pair<std::uint8_t, std::optional<std::uint8_t>>>>(
                     rc::gen::pair(key, rc::gen::map(rc::gen::inRange<int>(-80, 255),
                                                     [](int value) {
                                                       return value < 0
                                                                  ? std::nullopt
                                                                  : std::optional(
                                                                        static_cast<std::uint8_t>(value));
                                                     }))))),
      rc::gen::set(&Step::from, key), rc::gen::set(&Step::until, key));
}

std::string key_of(std::uint8_t number) {
  return std::string(number % 4, 'k') + static_cast<char>('a' + number / 4);
}
// Long enough that a few fill the smallest memtable.
std::string value_of(std::uint8_t number) {
  return std::string(std::size_t{number} * 40, static_cast<char>(number));
}

TYPED_TEST(KvTest, it_behaves_as_a_plain_map_does) {
  const auto like_a_map = [&] {
    KvBatch nothing;
    for (const auto& [key, value] : this->all()) nothing.remove(key);
    RC_ASSERT(this->write(std::move(nothing)) == ErrorCode::ok);
    RC_ASSERT(this->flush() == ErrorCode::ok);
    std::vector<Contents> since_flush{Contents{}};
    for (const Step& step : *rc::gen::resize(25, rc::gen::container<std::vector<Step>>(any_step()))) {
      const Contents& now = since_flush.back();
      switch (step.kind) {
        case Step::Kind::write: {
          KvBatch batch;
          for (const auto& [key, value] : step.changes)
            if (value)
              batch.put(key_of(key), value_of(*value));
            else
              batch.remove(key_of(key));
          Contents next = now;
          apply_to(batch, next);
          RC_ASSERT(this->write(std::move(batch)) == ErrorCode::ok);
          since_flush.push_back(std::move(next));
          break;
        }
        case Step::Kind::get: {
          const auto found = now.find(key_of(step.from));
          const Result<std::optional<std::string>> expected =
              found == now.end() ? std::nullopt : std::optional(found->second);
          RC_ASSERT((this->get(key_of(step.from)) == expected));
          break;
        }
        case Step::Kind::scan: {
          const std::string from = key_of(step.from), until = key_of(step.until);
          Contents expected;
          if (from < until) expected = Contents(now.lower_bound(from), now.lower_bound(until));
          RC_ASSERT((this->scan(from, until) == expected));
          break;
        }
        case Step::Kind::flush:
          RC_ASSERT(this->flush() == ErrorCode::ok);
          since_flush = {now};
          break;
        case Step::Kind::reopen:
          if (!this->at.keeps) break;
          this->close();
          this->open();
          since_flush = {now};
          RC_ASSERT(this->all() == since_flush.back());
          break;
        case Step::Kind::drop: {
          if (!this->at.keeps) break;
          this->drop();
          this->open();
          const Contents found = this->all();
          RC_ASSERT(std::find(since_flush.begin(), since_flush.end(), found) != since_flush.end());
          since_flush = {found};
          break;
        }
      }
    }
    RC_ASSERT(this->all() == since_flush.back());
  };
  EXPECT_TRUE(rc::check(like_a_map));
}

// Threads of their own, as shards are: a port sees what another has finished writing, and batches whole.
constexpr unsigned last_number = 3000;

Task<Result<>> write_numbers(Call call, std::shared_ptr<Kv> kv, std::atomic<unsigned>* written) {
  for (unsigned i = 1; i <= last_number; ++i) {
    const std::string value = std::to_string(i) + std::string(100, '.');
    KvBatch batch = batch_of({{"a", value}, {"b", value}});
    CO_TRY_VOID(co_await kv->write(call, std::move(batch)));
    *written = i;
  }
  co_return Result<>{};
}
Task<Result<>> read_numbers(Call call, std::shared_ptr<Kv> kv, std::atomic<unsigned>* written) {
  while (*written < last_number) {
    const unsigned before = *written;
    CO_TRY(auto pairs, co_await kv->scan(call, "a", "c", 2));
    CO_TRY(auto found, co_await kv->get(call, "b"));
    if (before == 0) continue;
    if (pairs.size() != 2 || pairs[0].value != pairs[1].value) co_return fail(ErrorCode::conflict, "torn");
    if (std::stoul(pairs[0].value) < before || !found || std::stoul(*found) < before)
      co_return fail(ErrorCode::lagged, "old");
    co_await yield(call);
  }
  co_return Result<>{};
}

template <class Maker>
void write_and_read_on_threads(Maker maker) {
  io::TemporaryDirectory directory;
  RealShard home;
  auto engine = home.run(maker.open(home.call(), home.machine, directory.at("map")));
  ASSERT_TRUE(engine.has_value());
  std::atomic<unsigned> written{0};
  const auto on_a_shard = [&](auto work) {
    return std::thread([&, work] {
      RealShard shard;
      std::shared_ptr<Kv> kv = (*engine)->make_port(shard.machine);
      EXPECT_EQ(code_of(shard.run(work(shard.call(), kv, &written))), ErrorCode::ok);
    });
  };
  std::thread reader = on_a_shard(&read_numbers);
  std::thread writer = on_a_shard(&write_numbers);
  writer.join();
  reader.join();
  EXPECT_EQ(written, last_number);
  EXPECT_EQ(code_of(home.run((*engine)->close(home.call(), home.machine))), ErrorCode::ok);
}

TEST(RocksKv, shards_on_threads_see_whole_batches_at_once) {
  write_and_read_on_threads(RocksKvMaker(RocksOptions{1u << 20, 64u << 10}));
}
TEST(MemoryKv, shards_on_threads_see_whole_batches_at_once) { write_and_read_on_threads(MemoryKvMaker()); }

}  // namespace
}  // namespace cairn::store
