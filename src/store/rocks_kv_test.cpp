#include "store/rocks_kv.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "store/kv_setting.h"

extern char** environ;

namespace cairn::store {
namespace {

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

// The keys of an earlier life are learned a few thousand at a time, and none of them is ever taken for new.
TEST_F(RocksKvTest, what_was_there_before_is_found_while_and_after_the_keys_are_learned) {
  put_many(10'000);
  close();
  open();
  io::RealLoop& real = at.shards[0].real;
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(write(batch_of({{numbered("new", i), "v"}})), ErrorCode::ok);
    ASSERT_TRUE(real.turn_until([&] { return real.pool.jobs() == 0; }));
    for (std::size_t key = i; key < 10'000; key += 499)
      ASSERT_EQ(get(numbered("k", key)), numbered("value", key) + std::string(50, '.')) << key;
    EXPECT_EQ(get(numbered("none", i)), std::nullopt);
  }
  // Now nothing has to be asked for what never was.
  std::size_t asked = 0;
  for (std::size_t i = 0; i < 1000; ++i) asked += ports[0]->try_get(numbered("none", i)) ? 0 : 1;
  EXPECT_LT(asked, 50u);
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

// Also of blocks that are in memory, and of keys that nobody asks for.
TEST_F(RocksKvTest, verifying_finds_a_flipped_bit_in_any_block_of_a_table) {
  const auto verify = [this]() -> Result<std::uint64_t> {
    std::uint64_t bytes = 0;
    std::string from;
    do {
      TRY(const KvVerified some, at.run(0, ports[0]->verify(at.call(0), from)));
      bytes += some.bytes;
      from = some.next;
    } while (!from.empty());
    return bytes;
  };
  EXPECT_EQ(verify().value(), 0u);
  put_many(4000);
  ASSERT_EQ(flush(), ErrorCode::ok);
  EXPECT_EQ(all().size(), 4000u);
  std::uint64_t size = 0;
  for (const std::string& path : files(".sst")) size += std::filesystem::file_size(path);
  EXPECT_EQ(verify().value(), size);
  for (const std::string& path : files(".sst"))
    for (const double part : {0.01, 0.3, 0.6, 0.9}) {
      const auto offset =
          static_cast<std::uint64_t>(part * static_cast<double>(std::filesystem::file_size(path)));
      flip(path, offset);
      EXPECT_EQ(code_of(verify()), ErrorCode::integrity) << path << " " << offset;
      flip(path, offset);
    }
  EXPECT_EQ(verify().value(), size);
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

// Holds RocksDB's flushing threads until it goes out of scope.
class FlushHeld {
 public:
  FlushHeld() {
    rocksdb::Env& env = *rocksdb::Env::Default();
    const int threads = env.GetBackgroundThreads(rocksdb::Env::HIGH);
    for (int i = 0; i < threads; ++i) env.Schedule(&hold, this, rocksdb::Env::HIGH);
    while (held_ < threads) std::this_thread::yield();
  }
  ~FlushHeld() {
    let_go_ = true;
    while (held_ > 0) std::this_thread::yield();
  }
  void let_go() { let_go_ = true; }

 private:
  static void hold(void* self) {
    auto& held = *static_cast<FlushHeld*>(self);
    ++held.held_;
    while (!held.let_go_) std::this_thread::yield();
    --held.held_;
  }
  std::atomic<int> held_{0};
  std::atomic<bool> let_go_{false};
};

Task<> write_values(Call call, Kv* kv, unsigned first, unsigned last, unsigned* done) {
  for (unsigned i = first; i < last; ++i) {
    KvBatch batch = batch_of({{"n", std::to_string(i)}, {numbered("k", i), std::string(4000, 'v')}});
    auto written = co_await kv->write(call, std::move(batch));
    if (!written) co_return;
    ++*done;
  }
}

Task<> flush_map(Call call, Kv* kv, bool* flushed) { *flushed = (co_await kv->flush(call)).has_value(); }
Task<> close_map(Call call, std::shared_ptr<KvEngine> engine, io::Machine* machine, bool* closed) {
  *closed = (co_await engine->close(call, *machine)).has_value();
}

// While RocksDB refuses to take more, a write waits, the shard goes on, and nothing overtakes.
TEST_F(RocksKvTest, K1_what_is_written_behind_a_stall_keeps_its_place) {
  io::RealLoop& real = at.shards[0].real;
  unsigned first = 0, second = 0;
  Scope scope(real.loop.shard(), real.call());
  {
    FlushHeld held;
    {
      ShardScope here(real.loop.shard());
      scope.spawn("first", write_values(scope.call(), ports[0].get(), 0, 1000, &first));
    }
    ASSERT_TRUE(real.turn_until([&] { return real.pool.jobs() > 0; })) << "nothing was ever handed over";
    unsigned stalled = 0;
    do {
      stalled = first;
      for (int i = 0; i < 20; ++i) real.loop.turn(Duration::millis(1));
    } while (first != stalled);
    EXPECT_LT(stalled, 1000u);
    EXPECT_EQ(code_of(ports[0]->try_get("n")), ErrorCode::ok) << "reads go on";
    real.spawn(write_values(real.call(), ports[0].get(), 5000, 5010, &second));
    ShardScope here(real.loop.shard());
    scope.cancel(StopReason::superseded);
    for (int i = 0; i < 20; ++i) real.loop.turn(Duration{});
    EXPECT_EQ(first, stalled);
    EXPECT_EQ(second, 0u);
  }
  ASSERT_TRUE(real.turn_until([&] { return second == 10; }));
  EXPECT_EQ(get("n"), "5009");
  ASSERT_TRUE(real.turn_until([&] { return scope.empty(); }));
}

// A disk on which the syncs of one directory hang while told to.
class Hanging final : public rocksdb::EnvWrapper {
 public:
  explicit Hanging(std::string directory)
      : EnvWrapper(rocksdb::Env::Default()), directory_(std::move(directory)) {}
  const char* Name() const override { return "Hanging"; }
  rocksdb::Status NewWritableFile(const std::string& path, std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    rocksdb::Status made = EnvWrapper::NewWritableFile(path, file, options);
    if (made.ok() && path.starts_with(directory_)) *file = std::make_unique<File>(std::move(*file), *this);
    return made;
  }
  std::atomic<bool> hangs{false};
  std::atomic<int> hanging{0};

 private:
  class File final : public rocksdb::WritableFileWrapper {
   public:
    File(std::unique_ptr<rocksdb::WritableFile> file, Hanging& disk)
        : WritableFileWrapper(file.get()), file_(std::move(file)), disk_(disk) {}
    rocksdb::Status Sync() override {
      ++disk_.hanging;
      while (disk_.hangs) std::this_thread::yield();
      --disk_.hanging;
      return WritableFileWrapper::Sync();
    }

   private:
    std::unique_ptr<rocksdb::WritableFile> file_;
    Hanging& disk_;
  };
  std::string directory_;
};

// Its flush hangs and then its hand-over: neither has a thread that the other map needs.
TEST_F(RocksKvTest, what_hangs_in_one_map_delays_no_write_of_another) {
  static Hanging& disk = *new Hanging(at.directory.at("hung"));
  drop();
  at.maker = RocksKvMaker(RocksOptions{1u << 20, 64u << 10, &disk});
  open();
  auto hung = at.run(0, at.maker.open(at.call(0), at.machine(0), at.directory.at("hung")));
  ASSERT_TRUE(hung);
  ports[0] = engine->make_port(at.machine(0), Lane::index);
  auto port = (*hung)->make_port(at.machine(0), Lane::index);
  io::RealLoop& real = at.shards[0].real;
  disk.hangs = true;
  unsigned first = 0, second = 0;
  real.spawn(write_values(real.call(), port.get(), 0, 1000, &first));
  ASSERT_TRUE(real.turn_until([&] { return disk.hanging > 0; }));
  // Until nothing more is taken.
  unsigned stalled = 0;
  do {
    stalled = first;
    for (int i = 0; i < 20; ++i) real.loop.turn(Duration::millis(1));
  } while (first != stalled);
  EXPECT_LT(stalled, 1000u);
  real.spawn(write_values(real.call(), ports[0].get(), 0, 1000, &second));
  EXPECT_TRUE(real.turn_until([&] { return second == 1000; })) << second;
  EXPECT_LT(first, 1000u);
  disk.hangs = false;
  ASSERT_TRUE(real.turn_until([&] { return first == 1000; }));
  port.reset();
  EXPECT_TRUE(at.run(0, (*hung)->close(at.call(0), at.machine(0))));
}

// Refuses to make files when told to.
class Refusing final : public rocksdb::EnvWrapper {
 public:
  Refusing() : EnvWrapper(rocksdb::Env::Default()) {}
  const char* Name() const override { return "Refusing"; }
  rocksdb::Status NewWritableFile(const std::string& path, std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    if (refuses) return rocksdb::Status::IOError("refused");
    if (full) return rocksdb::Status::NoSpace("No space left on device");
    return EnvWrapper::NewWritableFile(path, file, options);
  }
  rocksdb::Status GetFreeSpace(const std::string& path, std::uint64_t* free) override {
    if (room == 0) return EnvWrapper::GetFreeSpace(path, free);
    *free = room;
    return rocksdb::Status::OK();
  }
  std::atomic<bool> refuses{false};
  std::atomic<bool> full{false};
  std::atomic<std::uint64_t> room{0};  // 0: what the disk has
};

// Writers are told, readers find what was accepted, and the map is right again when it is opened anew.
TEST_F(RocksKvTest, RD2_an_engine_that_refuses_is_told_of_when_there_is_no_room_left) {
  static Refusing& disk = *new Refusing;  // RocksDB's threads live as long as the process
  drop();
  at.maker = RocksKvMaker(RocksOptions{1u << 20, 64u << 10, &disk});
  open();
  put_many(50);
  ASSERT_EQ(flush(), ErrorCode::ok);
  disk.refuses = true;
  std::size_t accepted = 0;
  ErrorCode refused = ErrorCode::ok;
  for (; refused == ErrorCode::ok && accepted < 5000; ++accepted)
    refused =
        write(batch_of({{"n", std::to_string(accepted)}, {numbered("k", accepted), std::string(500, 'v')}}));
  EXPECT_EQ(refused, ErrorCode::io_failed);
  EXPECT_GT(accepted, 100u) << "there was room";
  EXPECT_EQ(flush(), ErrorCode::io_failed);
  EXPECT_EQ(get("n"), std::to_string(accepted - 2)) << "what was accepted is found, what was refused is not";
  for (std::size_t i = 0; i + 1 < accepted; i += 7) EXPECT_EQ(get(numbered("k", i)), std::string(500, 'v'));
  drop();
  disk.refuses = false;
  open();
  EXPECT_EQ(all().size(), 50u) << "as it was flushed";
  EXPECT_EQ(write(batch_of({{"n", "1"}})), ErrorCode::ok);
}

// A full disk is no fault of the map: whoever asks first is told in time, and goes on when there is room.
TEST_F(RocksKvTest, on_a_full_disk_it_is_not_ready_until_there_is_room_and_nothing_is_lost) {
  static Refusing& disk = *new Refusing;
  drop();
  at.maker = RocksKvMaker(RocksOptions{1u << 20, 64u << 10, &disk});
  open();
  put_many(50);
  ASSERT_EQ(flush(), ErrorCode::ok);
  disk.full = true;
  const auto ready = [&] { return code_of(at.run(0, ports[0]->make_ready(at.call(0)))); };
  std::size_t accepted = 0;
  for (; ready() == ErrorCode::ok; ++accepted) {
    ASSERT_LT(accepted, 5000u);
    ASSERT_EQ(
        write(batch_of({{"n", std::to_string(accepted)}, {numbered("k", accepted), std::string(500, 'v')}})),
        ErrorCode::ok)
        << "what it was ready for is taken";
  }
  EXPECT_EQ(ready(), ErrorCode::storage_full);
  EXPECT_EQ(flush(), ErrorCode::storage_full);
  EXPECT_EQ(get("n"), std::to_string(accepted - 1));
  disk.full = false;
  EXPECT_EQ(ready(), ErrorCode::ok);
  EXPECT_EQ(write(batch_of({{"n", "last"}})), ErrorCode::ok);
  // RocksDB may need a moment to be sure.
  ErrorCode flushed = flush();
  for (int i = 0; i < 1000 && flushed == ErrorCode::storage_full; ++i) flushed = flush();
  EXPECT_EQ(flushed, ErrorCode::ok);
  drop();
  open();
  EXPECT_EQ(get("n"), "last");
  for (std::size_t i = 0; i < accepted; i += 7) EXPECT_EQ(get(numbered("k", i)), std::string(500, 'v'));
}

TEST_F(RocksKvTest, it_takes_little_room_on_a_small_disk) {
  static Refusing& disk = *new Refusing;
  std::vector<std::uint64_t> rooms;
  for (const std::uint64_t size : {std::uint64_t{64} << 20, std::uint64_t{1} << 30, std::uint64_t{1} << 40}) {
    drop();
    disk.room = size;
    at.maker = RocksKvMaker(RocksOptions{1u << 20, 8u << 20, &disk});
    open();
    rooms.push_back(engine->room());
    EXPECT_LE(engine->room(), size / 12) << size;
  }
  EXPECT_LT(rooms[0], rooms[1]);
  EXPECT_LT(rooms[1], rooms[2]);
}

TEST_F(RocksKvTest, closing_waits_for_a_flush_whose_waiter_left) {
  io::RealLoop& real = at.shards[0].real;
  io::RealLoop& other =
      at.shards[1].real;  // with a pool of its own, so that nothing else keeps them in order
  put_many(100);
  ASSERT_TRUE(real.turn_until([&] { return real.pool.jobs() == 0; }));
  ports[1].reset();
  bool closed = false, flushed = false;
  Scope scope(real.loop.shard(), real.call());
  {
    FlushHeld held;
    {
      ShardScope here(real.loop.shard());
      scope.spawn("flush", flush_map(scope.call(), ports[0].get(), &flushed));
    }
    ASSERT_TRUE(
        real.turn_until([&] { return real.pool.jobs() > 0 && real.threads.queued(Lane::upkeep) == 0; }));
    {
      ShardScope here(real.loop.shard());
      scope.cancel(StopReason::client_gone);
    }
    ASSERT_TRUE(real.turn_until([&] { return scope.empty(); }));
    EXPECT_FALSE(flushed);
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
  // This run has its share of the tests already, and the victim is none of it.
  ::unsetenv("GTEST_TOTAL_SHARDS");
  ::unsetenv("GTEST_SHARD_INDEX");
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

}  // namespace
}  // namespace cairn::store
