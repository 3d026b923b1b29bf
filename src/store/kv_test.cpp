#include "store/kv.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rocksdb/env.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "io/entropy.h"
#include "io/memory.h"
#include "io/real_loop.h"
#include "io/sim/world.h"
#include "runtime/wait.h"
#include "store/log_kv.h"
#include "store/memory_kv.h"
#include "store/rocks_kv.h"

extern char** environ;

namespace cairn::store {
namespace {

namespace sim = io::sim;
using Contents = std::map<std::string, std::string>;

ErrorCode code_of(const auto& result) { return result ? ErrorCode::ok : result.error().code; }
void apply_to(const KvBatch& batch, Contents& to) {
  for (const auto& [key, value] : batch.changes())
    if (value)
      to[key] = *value;
    else
      to.erase(key);
}
KvBatch batch_of(std::vector<std::pair<std::string, std::string>> pairs) {
  KvBatch batch;
  for (auto& [key, value] : pairs) batch.put(key, value);
  return batch;
}
std::string numbered(std::string_view prefix, std::size_t number) {
  std::string text = std::to_string(number);
  return std::string(prefix) + std::string(8 - text.size(), '0') + text;
}

// A real shard and its machine.
struct RealShard {
  template <class T>
  T run(Task<T> task) {
    return real.run(std::move(task));
  }
  Call call() { return real.call(); }
  io::RealLoop real;
  io::KernelEntropy entropy;
  io::KernelMemory memory;
  io::Machine machine{real.loop.shard(), real.loop.slab(),    real.network, real.disk,
                      entropy,           real.loop.mailbox(), real.pool,    memory};
};

// --- where the suite runs: two shards and a place for the map

template <class Maker>
struct OnDisk {
  static constexpr bool keeps = !std::is_same_v<Maker, MemoryKvMaker>;
  template <class T>
  T run(unsigned shard, Task<T> task) {
    return shards[shard].run(std::move(task));
  }
  Call call(unsigned shard) { return shards[shard].call(); }
  io::Machine& machine(unsigned shard) { return shards[shard].machine; }
  std::string path() const { return directory.at("map"); }

  Maker maker;
  io::TemporaryDirectory directory;
  std::array<RealShard, 2> shards;
};

template <class Maker>
struct Simulated {
  static constexpr bool keeps = !std::is_same_v<Maker, MemoryKvMaker>;
  template <class T>
  static Task<> into(Task<T> task, std::optional<T>* out) {
    out->emplace(co_await std::move(task));
  }
  template <class T>
  T run(unsigned shard, Task<T> task) {
    std::optional<T> out;
    node.scope(shard).spawn("test", into(std::move(task), &out));
    CHECK(world.run_until([&] { return out.has_value(); }));
    return std::move(*out);
  }
  Call call(unsigned shard) { return node.scope(shard).call(); }
  io::Machine& machine(unsigned shard) { return machines[shard]; }
  std::string path() const { return "/map"; }

  Maker maker;
  sim::World world{1};
  sim::Node& node = world.add_node("a", 2);
  std::array<io::Machine, 2> machines{node.machine(0), node.machine(1)};
};

template <class Setting>
class KvTest : public testing::Test {
 protected:
  using Found = std::optional<std::string>;

  void SetUp() override { open(); }
  void TearDown() override {
    if (engine != nullptr) close();
  }
  ErrorCode try_open() {
    auto opened = at.run(0, at.maker.open(at.call(0), at.machine(0), at.path()));
    if (!opened) return opened.error().code;
    engine = std::move(*opened);
    for (unsigned i = 0; i < 2; ++i) ports[i] = engine->make_port(at.machine(i));
    return ErrorCode::ok;
  }
  void open() { ASSERT_EQ(try_open(), ErrorCode::ok); }
  void close() {
    for (auto& port : ports) port.reset();
    EXPECT_EQ(code_of(at.run(0, engine->close(at.call(0), at.machine(0)))), ErrorCode::ok);
    engine.reset();
  }
  // As a process that dies, as far as the engine can tell.
  void drop() {
    for (auto& port : ports) port.reset();
    engine.reset();
  }
  ErrorCode write(KvBatch batch, unsigned shard = 0) {
    return code_of(at.run(shard, ports[shard]->write(at.call(shard), std::move(batch))));
  }
  ErrorCode put(std::string key, std::string value, unsigned shard = 0) {
    return write(batch_of({{std::move(key), std::move(value)}}), shard);
  }
  Result<Found> get(std::string key, unsigned shard = 0) {
    return at.run(shard, ports[shard]->get(at.call(shard), std::move(key)));
  }
  Result<Contents> scan(std::string from, std::string until, std::size_t limit = 1'000'000) {
    TRY(auto pairs, at.run(0, ports[0]->scan(at.call(0), std::move(from), std::move(until), limit)));
    Contents out;
    for (KvPair& pair : pairs) {
      if (!out.empty()) EXPECT_LT(out.rbegin()->first, pair.key);
      out[pair.key] = pair.value;
    }
    return out;
  }
  Contents all() {
    auto found = scan("", "\xff");
    EXPECT_TRUE(found.has_value());
    return found ? *found : Contents{};
  }
  ErrorCode flush() { return code_of(at.run(0, ports[0]->flush(at.call(0)))); }
  ErrorCode destroy() { return code_of(at.run(0, at.maker.destroy(at.call(0), at.machine(0), at.path()))); }

  Setting at;
  std::shared_ptr<KvEngine> engine;
  std::array<std::unique_ptr<Kv>, 2> ports;
};

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

// --- RocksKv

class RocksKvTest : public KvTest<OnDisk<RocksKvMaker>> {
 protected:
  void SetUp() override {
    at.maker = RocksKvMaker(RocksOptions{1u << 20, 64u << 10});
    open();
  }
  std::vector<std::string> files(std::string_view suffix) const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(at.path()))
      if (entry.path().filename().string().find(suffix) != std::string::npos) out.push_back(entry.path());
    return out;
  }
  static void flip(const std::string& path, std::uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
  void put_many(std::size_t count) {
    for (std::size_t i = 0; i < count; i += 50) {
      KvBatch batch;
      for (std::size_t j = i; j < i + 50; ++j)
        batch.put(numbered("k", j), numbered("value", j) + std::string(50, '.'));
      ASSERT_EQ(write(std::move(batch)), ErrorCode::ok);
    }
  }
};

TEST_F(RocksKvTest, K3_what_is_not_in_memory_is_busy_and_found_through_the_pool) {
  put_many(50);
  EXPECT_EQ(ports[0]->try_get(numbered("k", 7)).value(), numbered("value", 7) + std::string(50, '.'));
  close();
  open();
  EXPECT_EQ(code_of(ports[0]->try_get(numbered("k", 7))), ErrorCode::busy);
  EXPECT_EQ(get(numbered("k", 7)), numbered("value", 7) + std::string(50, '.'));
  EXPECT_EQ(ports[0]->try_get(numbered("k", 7)).value(), numbered("value", 7) + std::string(50, '.'));
}

TEST_F(RocksKvTest, a_map_larger_than_its_memory_is_whole) {
  put_many(20'000);
  EXPECT_LT(engine->memory(), 2u << 20);
  for (std::size_t i = 0; i < 20'000; i += 371)
    EXPECT_EQ(get(numbered("k", i)), numbered("value", i) + std::string(50, '.'));
  EXPECT_EQ(all().size(), 20'000u);
  close();
  open();
  EXPECT_EQ(all().size(), 20'000u);
}

TEST_F(RocksKvTest, it_keeps_no_write_ahead_log_and_no_diary) {
  put_many(5000);
  for (const std::string& path : files(".log")) EXPECT_EQ(std::filesystem::file_size(path), 0u) << path;
  EXPECT_TRUE(files("LOG").empty());
}

TEST_F(RocksKvTest, only_one_may_have_it_open) {
  auto second = at.run(0, at.maker.open(at.call(0), at.machine(0), at.path()));
  EXPECT_EQ(code_of(second), ErrorCode::io_failed);
}

TEST_F(RocksKvTest, a_directory_whose_parent_is_missing_is_not_made) {
  EXPECT_EQ(code_of(at.run(0, at.maker.open(at.call(0), at.machine(0), at.directory.at("no/map")))),
            ErrorCode::not_found);
}

// Flipped bits are found: what is read is right or refused, never wrong.
TEST_F(RocksKvTest, damage_of_a_table_is_integrity) {
  put_many(4000);
  close();
  const auto tables = files(".sst");
  ASSERT_FALSE(tables.empty());
  for (const std::string& path : tables)
    for (std::uint64_t at_byte = 2000; at_byte < std::filesystem::file_size(path) / 2; at_byte += 20'000)
      flip(path, at_byte);
  open();
  std::size_t refused = 0, right = 0;
  for (std::size_t i = 0; i < 4000; i += 9) {
    const auto found = get(numbered("k", i));
    if (found) {
      ASSERT_EQ(*found, numbered("value", i) + std::string(50, '.'));
      ++right;
    } else {
      ASSERT_EQ(found.error().code, ErrorCode::integrity);
      ++refused;
    }
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(right, 0u);
  EXPECT_EQ(code_of(scan("", "\xff")), ErrorCode::integrity);
  drop();
  EXPECT_EQ(destroy(), ErrorCode::ok);
  open();
  EXPECT_EQ(all(), Contents{});
}

TEST_F(RocksKvTest, damage_of_the_list_of_tables_is_integrity) {
  put_many(1000);
  close();
  const std::string manifest = files("MANIFEST").at(0);
  for (std::uint64_t offset = 20; offset < std::filesystem::file_size(manifest); offset += 40)
    flip(manifest, offset);
  EXPECT_EQ(try_open(), ErrorCode::integrity);
}

TEST_F(RocksKvTest, a_missing_table_is_integrity) {
  put_many(1000);
  close();
  std::filesystem::remove(files(".sst").at(0));
  EXPECT_EQ(try_open(), ErrorCode::integrity);
}

TEST_F(RocksKvTest, a_list_of_tables_that_names_nothing_is_integrity) {
  close();
  std::ofstream(at.path() + "/CURRENT") << "MANIFEST-999999\n";
  EXPECT_EQ(try_open(), ErrorCode::integrity);
}

// Holds RocksDB's flushing thread until it goes out of scope.
class FlushHeld {
 public:
  FlushHeld() {
    rocksdb::Env::Default()->Schedule(&hold, this, rocksdb::Env::HIGH);
    while (!held_) std::this_thread::yield();
  }
  ~FlushHeld() {
    let_go_ = true;
    while (held_) std::this_thread::yield();
  }
  void let_go() { let_go_ = true; }

 private:
  static void hold(void* self) {
    auto& held = *static_cast<FlushHeld*>(self);
    held.held_ = true;
    while (!held.let_go_) std::this_thread::yield();
    held.held_ = false;
  }
  std::atomic<bool> held_{false}, let_go_{false};
};

Task<> write_values(Call call, Kv* kv, unsigned first, unsigned last, unsigned* done) {
  for (unsigned i = first; i < last; ++i) {
    KvBatch batch = batch_of({{"n", std::to_string(i)}, {numbered("k", i), std::string(4000, 'v')}});
    auto written = co_await kv->write(call, std::move(batch));
    if (!written) co_return;
    ++*done;
  }
}

Task<> close_map(Call call, std::shared_ptr<KvEngine> engine, io::Machine* machine, bool* closed) {
  *closed = (co_await engine->close(call, *machine)).has_value();
}

// While RocksDB refuses to take more, a write waits in the pool, the shard goes on, and nothing overtakes.
TEST_F(RocksKvTest, K1_a_stalled_write_keeps_its_place_even_when_cancelled) {
  io::RealLoop& real = at.shards[0].real;
  unsigned first = 0, second = 0;
  Scope scope(real.loop.shard(), real.call());
  {
    FlushHeld held;
    {
      ShardScope here(real.loop.shard());
      scope.spawn("first", write_values(scope.call(), ports[0].get(), 0, 1000, &first));
    }
    ASSERT_TRUE(real.turn_until([&] { return real.pool.jobs() > 0; })) << "no write was ever stalled";
    const unsigned stalled = first;
    EXPECT_LT(stalled, 1000u);
    EXPECT_EQ(code_of(ports[0]->try_get("n")), ErrorCode::ok) << "reads go on";
    real.spawn(write_values(real.call(), ports[0].get(), 5000, 5010, &second));
    ShardScope here(real.loop.shard());
    scope.cancel(StopReason::superseded);
    for (int i = 0; i < 20; ++i) real.loop.turn(Duration{});
    EXPECT_EQ(first, stalled);
    EXPECT_EQ(second, 0u);
    EXPECT_EQ(real.pool.orphaned(), 0u) << "nobody waits for the stalled write any more";
  }
  ASSERT_TRUE(real.turn_until([&] { return second == 10; }));
  EXPECT_EQ(get("n"), "5009");
  ASSERT_TRUE(real.turn_until([&] { return scope.empty(); }));
}

TEST_F(RocksKvTest, closing_waits_for_a_flush_whose_waiter_left) {
  io::RealLoop& real = at.shards[0].real;
  io::RealLoop& other =
      at.shards[1].real;  // with a pool of its own, so that nothing else keeps them in order
  put_many(100);
  for (auto& port : ports)
    if (port != ports[0]) port.reset();
  bool closed = false;
  {
    FlushHeld held;
    const Call hasty = [&] {
      ShardScope here(real.loop.shard());
      return real.call().within(Duration::millis(1));
    }();
    EXPECT_EQ(code_of(real.run(ports[0]->flush(hasty))), ErrorCode::timeout);
    EXPECT_EQ(real.pool.orphaned(), 1u);
    ports[0].reset();
    other.spawn(close_map(other.call(), engine, &at.machine(1), &closed));
    for (int i = 0; i < 20; ++i) other.loop.turn(Duration::millis(1));
    EXPECT_FALSE(closed);
  }
  ASSERT_TRUE(other.turn_until([&] { return closed; }));
  ASSERT_TRUE(real.turn_until([&] { return real.pool.orphaned() == 0; }));
  engine.reset();
  open();
  EXPECT_EQ(all().size(), 100u);
}

// --- killed while writing

constexpr const char* victim_directory = "CAIRN_KV_TEST_DIRECTORY";

KvBatch victim_batch(std::size_t number) {
  KvBatch batch;
  batch.put("n", std::to_string(number));
  for (std::size_t i = 0; i < 8; ++i)
    batch.put(numbered("k", (number * 7 + i * 13) % 500), numbered("v", number) + std::string(200, 'x'));
  if (number % 5 == 0) batch.remove(numbered("k", number % 500));
  return batch;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test keeps it
Task<Result<>> write_for_ever(Call call, Kv& kv) {
  for (std::uint64_t i = 1;; ++i) {
    CO_TRY_VOID(co_await kv.write(call, victim_batch(i)));
    if (i % 40 != 0) continue;
    CO_TRY_VOID(co_await kv.flush(call));
    if (::write(STDOUT_FILENO, &i, sizeof i) != ssize_t{sizeof i}) co_return fail(ErrorCode::closed, "pipe");
  }
}

// Not a test: what the next one runs in a process of its own, until it is killed.
TEST(RocksKvVictim, DISABLED_writes_until_it_is_killed) {
  const char* directory = std::getenv(victim_directory);
  ASSERT_NE(directory, nullptr);
  RealShard shard;
  RocksKvMaker maker(RocksOptions{1u << 20, 64u << 10});
  auto engine = shard.run(maker.open(shard.call(), shard.machine, directory));
  ASSERT_TRUE(engine.has_value());
  auto kv = (*engine)->make_port(shard.machine);
  EXPECT_EQ(code_of(shard.run(write_for_ever(shard.call(), *kv))), ErrorCode::ok);
}

// Runs the victim until it has flushed `flushes` times and a little further; says what it had flushed.
std::uint64_t kill_while_writing(const std::string& directory, unsigned flushes, useconds_t further) {
  std::array<int, 2> pipe_ends{};
  CHECK(::pipe2(pipe_ends.data(), O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // The framework speaks on its standard output; the numbers come after what it says.
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=RocksKvVictim.*",
              disabled = "--gtest_also_run_disabled_tests", brief = "--gtest_brief=1";
  std::array<char*, 5> arguments{program.data(), filter.data(), disabled.data(), brief.data(), nullptr};
  ::setenv(victim_directory, directory.c_str(), 1);
  pid_t child = 0;
  CHECK(::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ) == 0);
  ::unsetenv(victim_directory);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);
  const auto numbers_of = [](const std::string& text) {
    const std::size_t start = text.find(std::string("\x28\0\0\0\0\0\0\0", 8));  // the first is 40
    return start == std::string::npos ? std::string() : text.substr(start);
  };
  std::string said;
  std::array<char, 4096> some{};
  bool killed = false;
  while (true) {
    const ssize_t got = ::read(pipe_ends[0], some.data(), some.size());
    if (got <= 0) break;
    said.append(some.data(), static_cast<std::size_t>(got));
    if (!killed && numbers_of(said).size() >= flushes * sizeof(std::uint64_t)) {
      ::usleep(further);  // not for a result: only to be killed at different moments
      ::kill(child, SIGKILL);
      killed = true;
    }
  }
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << said;
  const std::string numbers = numbers_of(said);
  std::uint64_t flushed = 0;
  if (numbers.size() >= sizeof flushed)
    std::memcpy(&flushed, numbers.data() + (numbers.size() / sizeof flushed - 1) * sizeof flushed,
                sizeof flushed);
  return flushed;
}

TEST_F(RocksKvTest, K2_killed_while_writing_the_map_is_what_it_was_after_some_batch) {
  for (unsigned round = 1; round <= 6; ++round) {
    drop();
    ASSERT_EQ(destroy(), ErrorCode::ok);
    const std::uint64_t flushed = kill_while_writing(at.path(), round * 3, round * 700);
    ASSERT_GE(flushed, 40u);
    open();
    const Contents found = all();
    ASSERT_TRUE(found.contains("n"));
    const std::size_t reached = std::stoul(found.at("n"));
    EXPECT_GE(reached, flushed);
    Contents expected;
    for (std::size_t i = 1; i <= reached; ++i) apply_to(victim_batch(i), expected);
    EXPECT_EQ(found, expected);
  }
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

// --- LogKv

class LogKvTest : public KvTest<Simulated<LogKvMaker>> {
 protected:
  sim::SimDisk& disk() { return at.node.disk(); }
  std::uint64_t file_size() { return disk().view().text("map/map").size(); }
};

TEST_F(LogKvTest, K3_a_read_can_be_busy_and_is_found_through_the_pool) {
  close();
  at.maker = LogKvMaker(LogKvOptions{.cold = 1'000'000});
  open();
  ASSERT_EQ(put("k", "1"), ErrorCode::ok);
  EXPECT_EQ(code_of(ports[0]->try_get("k")), ErrorCode::busy);
  EXPECT_EQ(get("k"), "1");
}

TEST_F(LogKvTest, a_full_disk_is_told_by_flush_and_nothing_is_lost_when_there_is_room_again) {
  ASSERT_EQ(put("a", "1"), ErrorCode::ok);
  disk().set_capacity(disk().used() + 10);
  EXPECT_EQ(put("b", std::string(100, 'b')), ErrorCode::ok) << "as into a memtable";
  EXPECT_EQ(get("b"), std::string(100, 'b'));
  EXPECT_EQ(flush(), ErrorCode::storage_full);
  disk().set_capacity(1u << 30);
  EXPECT_EQ(put("c", "3"), ErrorCode::ok);
  EXPECT_EQ(flush(), ErrorCode::ok);
  drop();
  at.world.crash(at.node);
  at.world.restart(at.node);
  at.machines[0].~Machine();
  new (&at.machines[0]) io::Machine(at.node.machine(0));
  at.machines[1].~Machine();
  new (&at.machines[1]) io::Machine(at.node.machine(1));
  open();
  EXPECT_EQ(all(), (Contents{{"a", "1"}, {"b", std::string(100, 'b')}, {"c", "3"}}));
}

TEST_F(LogKvTest, while_the_disk_refuses_it_holds_no_more_than_its_share) {
  close();
  at.maker = LogKvMaker(LogKvOptions{.unwritten_max = 1000});
  open();
  disk().fail_call(sim::DiskCall::write, 1, sim::DiskFailure::full, true);
  std::size_t taken = 0;
  while (taken < 100 && put(numbered("k", taken), std::string(100, 'v')) == ErrorCode::ok) ++taken;
  EXPECT_GE(taken, 8u);
  EXPECT_LE(taken, 12u);
  EXPECT_EQ(put("refused", "1"), ErrorCode::storage_full);
  EXPECT_EQ(get("refused"), std::nullopt);
  disk().heal();
  EXPECT_EQ(put("taken", "1"), ErrorCode::ok);
  close();
  open();
  EXPECT_EQ(all().size(), taken + 1);
}

TEST_F(LogKvTest, M3_a_failed_sync_fences_it_until_it_is_opened_again) {
  ASSERT_EQ(put("a", "1"), ErrorCode::ok);
  ASSERT_EQ(flush(), ErrorCode::ok);
  ASSERT_EQ(put("b", "1"), ErrorCode::ok);
  disk().fail_call(sim::DiskCall::sync_data, 1);
  EXPECT_EQ(flush(), ErrorCode::io_failed);
  EXPECT_EQ(put("c", "1"), ErrorCode::degraded);
  EXPECT_EQ(flush(), ErrorCode::degraded);
  EXPECT_EQ(get("b"), "1") << "reads go on";
  EXPECT_EQ(get("c"), std::nullopt);
  drop();
  open();
  EXPECT_EQ(get("a"), "1");
  EXPECT_EQ(put("c", "1"), ErrorCode::ok);
}

TEST_F(LogKvTest, M3_a_disk_that_does_not_answer_fences_it) {
  disk().stall(Duration::seconds(3600));
  EXPECT_EQ(put("a", "1"), ErrorCode::timeout);
  EXPECT_EQ(put("b", "1"), ErrorCode::degraded);
  disk().heal();
  drop();
  at.world.run_for(Duration::seconds(4000));
  open();
  EXPECT_EQ(put("b", "1"), ErrorCode::ok);
}

TEST_F(LogKvTest, the_file_stays_in_proportion_to_what_is_alive) {
  close();
  at.maker = LogKvMaker(LogKvOptions{.compact_above = 4000});
  open();
  Contents expected;
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    expected[numbered("k", i % 10)] = numbered("v", i);
    ASSERT_EQ(put(numbered("k", i % 10), numbered("v", i)), ErrorCode::ok);
    largest = std::max(largest, file_size());
  }
  EXPECT_LT(largest, 5000u);
  EXPECT_EQ(all(), expected);
  drop();
  open();
  EXPECT_EQ(all(), expected);
  EXPECT_EQ(disk().view().list("map"), std::vector<std::string>{"map"});
}

TEST_F(LogKvTest, a_file_that_cannot_be_written_anew_is_used_on) {
  close();
  at.maker = LogKvMaker(LogKvOptions{.compact_above = 4000});
  open();
  for (const sim::DiskCall call : {sim::DiskCall::open, sim::DiskCall::unlink}) {
    disk().fail_call(call, 1, sim::DiskFailure::error, true);
    for (std::size_t i = 0; i < 300; ++i) ASSERT_EQ(put("k", numbered("v", i)), ErrorCode::ok);
    EXPECT_GT(file_size(), 5000u);
    EXPECT_EQ(flush(), ErrorCode::ok);
    disk().heal();
    for (std::size_t i = 0; i < 900; ++i) ASSERT_EQ(put("k", numbered("v", i)), ErrorCode::ok);
    EXPECT_LT(file_size(), 5000u);
  }
  drop();
  open();
  EXPECT_EQ(all(), (Contents{{"k", numbered("v", 899)}}));
}

TEST_F(LogKvTest, damage_cuts_the_file_before_it_and_of_the_header_is_integrity) {
  std::vector<Contents> states{Contents{}};
  for (std::size_t i = 0; i < 20; ++i) {
    states.push_back(states.back());
    states.back()[numbered("k", i)] = "v";
    ASSERT_EQ(put(numbered("k", i), "v"), ErrorCode::ok);
  }
  close();
  ASSERT_TRUE(disk().rot("map/map", file_size() / 2));
  open();
  const Contents found = all();
  EXPECT_NE(std::find(states.begin() + 5, states.begin() + 15, found), states.begin() + 15);
  ASSERT_EQ(put("more", "1"), ErrorCode::ok);
  close();
  open();
  EXPECT_EQ(all().size(), found.size() + 1) << "what follows the damage is gone for good";
  close();
  ASSERT_TRUE(disk().rot("map/map", 9));
  EXPECT_EQ(try_open(), ErrorCode::integrity);
  EXPECT_EQ(destroy(), ErrorCode::ok);
  open();
  EXPECT_EQ(all(), Contents{});
}

// --- power cuts

struct Progress {
  std::vector<Contents> states{Contents{}};  // after each batch that was begun
  std::size_t flushed = 0;                   // a crash finds this state or a later one
};
constexpr LogKvOptions small_file{.compact_above = 600, .compact_factor = 2};

KvBatch next_batch(Progress& progress) {
  const std::size_t i = progress.states.size();
  KvBatch batch = batch_of({{"n", std::to_string(i)}, {numbered("k", i % 5), std::string(i * 17 % 90, 'v')}});
  if (i % 4 == 0) batch.remove(numbered("k", (i + 2) % 5));
  progress.states.push_back(progress.states.back());
  apply_to(batch, progress.states.back());
  return batch;
}

// One of perhaps several writers: a batch becomes visible in the step that begins to write it, so that the
// states are in the order of writing.
Task<Result<>> write_some(Call call, Kv* kv, unsigned batches, Progress* progress) {
  for (unsigned i = 1; i <= batches; ++i) {
    KvBatch batch = next_batch(*progress);
    CO_TRY_VOID(co_await kv->write(call, std::move(batch)));
    if (i % 6 != 0) continue;
    const std::size_t here = progress->states.size() - 1;
    CO_TRY_VOID(co_await kv->flush(call));
    progress->flushed = std::max(progress->flushed, here);
  }
  co_return Result<>{};
}

Task<> write_on(Call call, io::Machine machine, unsigned batches, Progress* progress) {
  LogKvMaker maker(small_file);
  auto engine = co_await maker.open(call, machine, "/map");
  if (!engine) co_return;
  auto kv = (*engine)->make_port(machine);
  if (!co_await write_some(call, kv.get(), batches, progress)) co_return;
  (void)co_await (*engine)->close(call, machine);
}

Task<> read_all(Call call, io::Machine machine, std::optional<Contents>* out, bool* opened) {
  LogKvMaker maker(small_file);
  auto engine = co_await maker.open(call, machine, "/map");
  *opened = engine.has_value();
  if (!engine) co_return;
  auto kv = (*engine)->make_port(machine);
  auto pairs = co_await kv->scan(call, "", "\xff", 1000);
  if (!pairs) co_return;
  out->emplace();
  for (KvPair& pair : *pairs) (*out)->emplace(pair.key, pair.value);
}

// The map that a node finds on its disk; none when it cannot be opened.
std::optional<Contents> contents_on(sim::World& world, sim::Node& node) {
  std::optional<Contents> out;
  bool opened = false;
  node.scope().spawn("read", read_all(node.scope().call(), node.machine(), &out, &opened));
  EXPECT_TRUE(world.run_to_rest());
  return out;
}

testing::AssertionResult is_after_some_batch(const std::optional<Contents>& found, const Progress& progress,
                                             std::size_t flushed, std::size_t begun) {
  if (!found) return testing::AssertionFailure() << "cannot be opened";
  for (std::size_t i = flushed; i <= begun; ++i)
    if (*found == progress.states[i]) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "n is " << (found->contains("n") ? found->at("n") : "absent")
                                     << ", flushed " << flushed << ", begun " << begun;
}

// Every disk that a power cut at any moment may leave opens to a state at or after the last flush; and so
// does every one that a second cut may leave of it.
TEST(LogKvCrash, K2_every_crash_state_opens_to_a_prefix_at_or_after_the_last_flush) {
  struct Moment {
    sim::DiskSnapshot disk;
    std::size_t flushed, begun;
  };
  std::vector<Moment> moments;
  Progress progress;
  {
    sim::World world(7);
    sim::Node& node = world.add_node("a");
    node.disk().set_observer([&](const sim::SimDisk& disk) {
      moments.push_back({disk.snapshot(), progress.flushed, progress.states.size() - 1});
    });
    node.scope().spawn("write", write_on(node.scope().call(), node.machine(), 40, &progress));
    ASSERT_TRUE(world.run_to_rest());
    node.disk().set_observer({});
  }
  ASSERT_EQ(progress.states.size(), 41u);
  ASSERT_GT(moments.size(), 50u);
  sim::World world(1);
  sim::Node& node = world.add_node("a");
  std::size_t visited = 0, twice = 0;
  std::set<std::pair<std::uint64_t, std::size_t>> seen;
  sim::CrashOptions few;
  few.exhaustive = 5;
  few.random = 12;
  for (const Moment& moment : moments) {
    const auto good = [&](const sim::CrashState& state) {
      if (!seen.emplace(state.hash, moment.flushed).second) return true;
      node.disk().load(state.image);
      const auto found = contents_on(world, node);
      EXPECT_TRUE(is_after_some_batch(found, progress, moment.flushed, moment.begun));
      ++visited;
      if (visited % 8 == 0) {
        const sim::DiskSnapshot again = node.disk().snapshot();
        sim::crash_states(
            again,
            [&](const sim::CrashState& second) {
              node.disk().load(second.image);
              EXPECT_TRUE(
                  is_after_some_batch(contents_on(world, node), progress, moment.flushed, moment.begun));
              ++twice;
              return !testing::Test::HasFailure();
            },
            few);
      }
      return !testing::Test::HasFailure();
    };
    sim::crash_states(moment.disk, good, few);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(visited, 500u);
  EXPECT_GT(twice, 50u);
}

TEST(LogKvCrash, K2_after_a_power_cut_at_any_time_on_a_failing_disk_it_goes_on_from_a_prefix) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    sim::World world(seed);
    sim::Node& node = world.add_node("a");
    Progress progress;
    node.disk().faults.write_error = seed % 3 == 0 ? 100'000 : 0;
    node.scope().spawn("write", write_on(node.scope().call(), node.machine(), 60, &progress));
    world.run_for(Duration::micros(static_cast<std::int64_t>(world.choices().pick(60'000, "test.crash"))));
    world.crash(node, seed % 4 == 0 ? sim::Crash::process : sim::Crash::power);
    node.disk().faults.write_error = 0;
    world.restart(node);
    const auto found = contents_on(world, node);
    ASSERT_TRUE(is_after_some_batch(found, progress, progress.flushed, progress.states.size() - 1)) << seed;
    Progress more;
    more.states = {*found};
    node.scope().spawn("write", write_on(node.scope().call(), node.machine(), 10, &more));
    ASSERT_TRUE(world.run_to_rest());
    ASSERT_EQ(contents_on(world, node), more.states.back()) << seed;
  }
}

struct Program {
  std::shared_ptr<KvEngine> engine;
  std::array<std::unique_ptr<Kv>, 2> ports;
};
Task<> start(Call call, io::Machine here, io::Machine there, Program* program, bool* started) {
  LogKvMaker maker(small_file);
  auto opened = co_await maker.open(call, here, "/map");
  if (!opened) co_return;
  program->engine = *opened;
  program->ports[0] = program->engine->make_port(here);
  program->ports[1] = program->engine->make_port(there);
  *started = true;
}
Task<> write_and_flush(Call call, Kv* kv, Progress* progress, unsigned* finished) {
  if (co_await write_some(call, kv, 30, progress)) ++*finished;
}
// Never waits for the file, so that batches come at every moment of the other's work on it.
Task<> write_slowly(Call call, Kv* kv, Progress* progress, unsigned* finished) {
  for (unsigned i = 0; i < 60; ++i) {
    KvBatch batch = next_batch(*progress);
    if (!co_await kv->write(call, std::move(batch))) co_return;
    const auto pause = static_cast<std::int64_t>(current_shard()->random().below(1000));
    if (!co_await sleep_for(call, Duration::micros(pause))) co_return;
  }
  ++*finished;
}

TEST(LogKvCrash, M1_writers_on_two_shards_leave_a_prefix_of_one_order) {
  unsigned whole_runs = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    sim::World world(seed);
    sim::Node& node = world.add_node("a", 2);
    Program& program = node.make<Program>();
    Progress progress;
    bool started = false;
    unsigned finished = 0;
    node.scope().spawn("start",
                       start(node.scope().call(), node.machine(0), node.machine(1), &program, &started));
    ASSERT_TRUE(world.run_until([&] { return started; }));
    for (unsigned i = 0; i < 4; ++i) {
      const Call call = node.scope(i % 2).call();
      Kv* const kv = program.ports[i % 2].get();
      node.scope(i % 2).spawn("write", i < 2 ? write_and_flush(call, kv, &progress, &finished)
                                             : write_slowly(call, kv, &progress, &finished));
    }
    if (seed % 2 == 0)
      ASSERT_TRUE(world.run_until([&] { return finished == 4; }));
    else
      world.run_for(Duration::micros(static_cast<std::int64_t>(world.choices().pick(60'000, "test.crash"))));
    if (finished == 4) {
      ++whole_runs;
      ASSERT_EQ(progress.states.size(), 181u);
    }
    // A process that dies loses nothing that reached the kernel.
    const bool killed = seed % 4 == 0;
    world.crash(node, killed ? sim::Crash::process : sim::Crash::power);
    world.restart(node);
    const auto found = contents_on(world, node);
    ASSERT_TRUE(
        is_after_some_batch(found, progress, killed ? 180 : progress.flushed, progress.states.size() - 1))
        << seed;
  }
  EXPECT_GE(whole_runs, 100u);
}

}  // namespace
}  // namespace cairn::store
