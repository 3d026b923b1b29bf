#include "io/sim/disk.h"

#include <gtest/gtest.h>

#include <set>

#include "io/sim/world.h"
#include "runtime/wait.h"

namespace cairn::io::sim {
namespace {

// One node whose program is the test: each call runs one operation to its end.
struct Bench {
  explicit Bench(std::uint64_t seed = 1) : world(seed), node(world.add_node("a")) {}
  ~Bench() { file.reset(); }

  template <class T>
  static Task<> into(Task<Result<T>> task, std::optional<Result<T>>* out) {
    out->emplace(co_await std::move(task));
  }
  template <class T>
  Result<T> run(Task<Result<T>> task) {
    std::optional<Result<T>> out;
    node.scope().spawn("run", into(std::move(task), &out));
    EXPECT_TRUE(world.run_until([&] { return out.has_value(); }));
    return std::move(*out);
  }
  Call call() { return node.scope().call(); }
  Disk& disk() { return node.machine().disk; }
  Buffer buffer(std::string_view text) {
    Buffer made = node.machine().slab.take(text.size());
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(made.room().data()));
    made.fill(text.size());
    return made;
  }
  Result<> open(std::string path, OpenMode mode = OpenMode::create_new) {
    auto opened = run(disk().open(call(), std::move(path), mode));
    if (!opened) return fail(opened.error());
    file = std::move(*opened);
    return {};
  }
  Result<> write(std::uint64_t offset, std::string_view text) {
    auto written = run(file->write(call(), offset, buffer(text)));
    if (!written) return fail(written.error());
    return {};
  }
  Result<std::string> read(std::uint64_t offset, std::size_t count) {
    auto got = run(file->read(call(), offset, count, node.machine().slab.take(count)));
    if (!got) return fail(got.error());
    return std::string(as_text(got->bytes()));
  }
  Result<> sync() { return run(file->sync_data(call())); }
  Result<> sync_root() { return run(disk().sync_directory(call(), "/")); }
  void crash() {
    file.reset();
    world.crash(node);
    world.restart(node);
  }
  std::string text(std::string_view path) { return node.disk().view().text(path); }
  bool has(std::string_view path) { return node.disk().view().find(path) != nullptr; }

  World world;
  Node& node;
  std::unique_ptr<File> file;
};

ErrorCode code_of(const Result<>& result) { return result ? ErrorCode::ok : result.error().code; }

TEST(SimDisk, what_was_written_is_read) {
  Bench b;
  ASSERT_TRUE(b.open("/f"));
  ASSERT_TRUE(b.write(0, "hello"));
  ASSERT_TRUE(b.write(5000, "far"));
  EXPECT_EQ(*b.read(0, 5), "hello");
  EXPECT_EQ(*b.read(4998, 100), std::string("\0\0far", 5));
  EXPECT_EQ(*b.read(6000, 10), "");
  EXPECT_EQ(*b.file->size(), 5003u);
  ASSERT_TRUE(b.run(b.file->truncate(b.call(), 3)));
  EXPECT_EQ(*b.read(0, 10), "hel");
  Buffer buffer = b.node.machine().slab.take(100);
  EXPECT_EQ(*b.file->try_read(1, 2, buffer), 2u);
  EXPECT_EQ(as_text(buffer.bytes()), "el");
}

TEST(SimDisk, a_direct_read_lands_where_the_offset_says) {
  Bench b;
  ASSERT_TRUE(b.open("/f"));
  ASSERT_TRUE(b.write(0, std::string(5000, 'a') + "bcd"));
  auto room = std::make_shared<std::array<std::byte, 3 * File::direct_alignment>>();
  EXPECT_EQ(*b.run(b.file->read_direct(b.call(), 4999, 100, {*room, room})), 4u) << "up to the end";
  EXPECT_EQ(as_text(ByteView(*room).subspan(4999 % File::direct_alignment, 4)), "abcd");
  EXPECT_TRUE(b.file->is_resident(0, 5000));
}

TEST(SimDisk, names_behave_like_a_file_systems) {
  Bench b;
  EXPECT_EQ(code_of(b.open("d/f")), ErrorCode::not_found);
  EXPECT_EQ(code_of(b.open("f", OpenMode::read)), ErrorCode::not_found);
  EXPECT_EQ(code_of(b.open("f", OpenMode::write)), ErrorCode::not_found);
  ASSERT_TRUE(b.run(b.disk().make_directory(b.call(), "/d")));
  EXPECT_EQ(code_of(b.run(b.disk().make_directory(b.call(), "/d/"))), ErrorCode::conflict);
  EXPECT_EQ(code_of(b.run(b.disk().make_directory(b.call(), "x/y"))), ErrorCode::not_found);
  ASSERT_TRUE(b.open("d/f"));
  EXPECT_EQ(code_of(b.open("d/f")), ErrorCode::conflict);
  EXPECT_EQ(code_of(b.open("d", OpenMode::read)), ErrorCode::not_found);
  ASSERT_TRUE(b.open("d/e"));
  ASSERT_TRUE(b.run(b.disk().rename(b.call(), "d/e", "g")));
  EXPECT_EQ(*b.run(b.disk().list(b.call(), "/")), (std::vector<std::string>{"d", "g"}));
  EXPECT_EQ(*b.run(b.disk().list(b.call(), "/d")), std::vector<std::string>{"f"});
  EXPECT_EQ(code_of(b.run(b.disk().rename(b.call(), "d/e", "h"))), ErrorCode::not_found);
  ASSERT_TRUE(b.run(b.disk().unlink(b.call(), "g")));
  EXPECT_EQ(code_of(b.run(b.disk().unlink(b.call(), "g"))), ErrorCode::not_found);
  EXPECT_FALSE(b.run(b.disk().list(b.call(), "/nowhere")).has_value());
}

TEST(SimDisk, an_unlinked_file_lives_while_it_is_open) {
  Bench b;
  ASSERT_TRUE(b.open("f"));
  ASSERT_TRUE(b.write(0, "hello"));
  ASSERT_TRUE(b.run(b.disk().unlink(b.call(), "f")));
  EXPECT_EQ(*b.read(0, 5), "hello");
  EXPECT_EQ(b.node.disk().used(), 5u);
  b.file.reset();
  EXPECT_EQ(b.node.disk().used(), 0u);
  EXPECT_TRUE(b.node.disk().view().files.empty());
}

TEST(SimDisk, what_was_synced_survives_every_crash) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Bench b(seed);
    ASSERT_TRUE(b.open("f"));
    ASSERT_TRUE(b.write(0, std::string(3000, 's')));
    ASSERT_TRUE(b.sync());
    ASSERT_TRUE(b.sync_root());
    ASSERT_TRUE(b.write(3000, std::string(3000, 'u')));
    b.crash();
    EXPECT_TRUE(b.text("f").starts_with(std::string(3000, 's')));
    EXPECT_LE(b.text("f").size(), 6000u);
  }
}

TEST(SimDisk, an_unsynced_write_is_kept_lost_or_torn) {
  std::set<std::string> kinds;
  const std::string text(2000, 'u');
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Bench b(seed);
    b.node.disk().put("f", std::string(2000, 'o'));
    ASSERT_TRUE(b.open("f", OpenMode::write));
    ASSERT_TRUE(b.write(0, text));
    b.crash();
    const std::string found = b.text("f");
    ASSERT_EQ(found.size(), 2000u);
    kinds.insert(found == text ? "kept" : found == std::string(2000, 'o') ? "lost" : "torn");
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"kept", "lost", "torn"}));
}

TEST(SimDisk, a_kill_of_the_process_keeps_the_page_cache) {
  Bench b;
  ASSERT_TRUE(b.open("f"));
  ASSERT_TRUE(b.write(0, "unsynced"));
  b.file.reset();
  b.world.crash(b.node, Crash::process);
  b.world.restart(b.node);
  EXPECT_EQ(b.text("f"), "unsynced");
  EXPECT_GT(b.node.disk().pending(), 0u);
}

TEST(SimDisk, a_name_may_be_lost_until_its_directory_is_synced) {
  std::set<bool> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Bench b(seed);
    ASSERT_TRUE(b.open("f"));
    ASSERT_TRUE(b.write(0, "x"));
    ASSERT_TRUE(b.sync());
    b.crash();
    seen.insert(b.has("f"));
    if (b.has("f")) EXPECT_EQ(b.text("f"), "x");
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(SimDisk, a_rename_happens_wholly_or_not_at_all) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Bench b(seed);
    b.node.disk().put("f", "old");
    ASSERT_TRUE(b.open("tmp"));
    ASSERT_TRUE(b.write(0, "new"));
    ASSERT_TRUE(b.sync());
    ASSERT_TRUE(b.run(b.disk().rename(b.call(), "tmp", "f")));
    EXPECT_EQ(b.text("f"), "new");
    b.crash();
    EXPECT_TRUE(b.text("f") == "old" || b.text("f") == "new");
    EXPECT_FALSE(b.text("f") == "new" && b.has("tmp"));
    seen.insert(b.text("f"));
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(SimDisk, a_rename_between_directories_needs_both_synced) {
  Bench b;
  b.node.disk().put("d/f", "x");
  b.node.disk().put("e/g", "y");
  ASSERT_TRUE(b.run(b.disk().rename(b.call(), "d/f", "e/f")));
  ASSERT_TRUE(b.run(b.disk().sync_directory(b.call(), "e")));
  EXPECT_EQ(b.node.disk().pending(), 1u);
  ASSERT_TRUE(b.run(b.disk().sync_directory(b.call(), "d")));
  EXPECT_EQ(b.node.disk().pending(), 0u);
  EXPECT_EQ(b.node.disk().durable().text("e/f"), "x");
  EXPECT_EQ(b.node.disk().durable().find("d/f"), nullptr);
}

TEST(SimDisk, after_a_failed_sync_the_data_is_gone_although_the_next_succeeds) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Bench b(seed);
    b.node.disk().put("f", "old");
    ASSERT_TRUE(b.open("f", OpenMode::write));
    ASSERT_TRUE(b.write(0, "new"));
    b.node.disk().fail_call(DiskCall::sync_data, 1);
    EXPECT_EQ(code_of(b.sync()), ErrorCode::io_failed);
    EXPECT_TRUE(b.sync());
    b.crash();
    EXPECT_EQ(b.text("f"), "old");
  }
}

TEST(SimDisk, a_sync_covers_only_what_was_written_before_it_was_asked) {
  Bench b;
  b.node.disk().put("f", "....");
  ASSERT_TRUE(b.open("f", OpenMode::write));
  ASSERT_TRUE(b.write(0, "a"));
  std::optional<Result<>> synced;
  b.node.scope().spawn("sync", Bench::into(b.file->sync_data(b.call()), &synced));
  b.world.run_until([&] { return b.node.disk().calls(DiskCall::sync_data) == 1; });
  ASSERT_TRUE(b.write(1, "b"));
  ASSERT_TRUE(b.world.run_until([&] { return synced.has_value(); }));
  EXPECT_EQ(b.node.disk().durable().text("f"), "a...");
  EXPECT_EQ(b.node.disk().pending(), 1u);
}

TEST(SimDisk, the_nth_call_fails_once_or_from_then_on) {
  Bench b;
  ASSERT_TRUE(b.open("f"));
  b.node.disk().fail_call(DiskCall::write, 2);
  EXPECT_EQ(code_of(b.write(0, "a")), ErrorCode::ok);
  EXPECT_EQ(code_of(b.write(0, "b")), ErrorCode::io_failed);
  EXPECT_EQ(code_of(b.write(0, "c")), ErrorCode::ok);
  b.node.disk().fail_call(DiskCall::write, 1, DiskFailure::full, true);
  EXPECT_EQ(code_of(b.write(0, "d")), ErrorCode::storage_full);
  EXPECT_EQ(code_of(b.write(0, "e")), ErrorCode::storage_full);
  b.node.disk().heal();
  b.node.disk().fail_call(DiskCall::write, 1, DiskFailure::partial);
  EXPECT_EQ(code_of(b.write(0, "12345678")), ErrorCode::io_failed);
  EXPECT_EQ(*b.read(0, 10), "1234");
  b.node.disk().fail_call(DiskCall::rename, 1);
  EXPECT_EQ(code_of(b.run(b.disk().rename(b.call(), "f", "g"))), ErrorCode::io_failed);
  EXPECT_TRUE(b.has("f"));
  b.node.disk().fail_call(DiskCall::open, 1);
  EXPECT_EQ(code_of(b.open("h")), ErrorCode::io_failed);
}

TEST(SimDisk, a_full_disk_takes_what_fits) {
  Bench b;
  b.node.disk().set_capacity(10);
  ASSERT_TRUE(b.open("f"));
  ASSERT_TRUE(b.write(0, "12345678"));
  EXPECT_EQ(b.run(b.disk().free_space(b.call(), "/"))->bytes, 2u);
  EXPECT_EQ(code_of(b.write(8, "9abc")), ErrorCode::storage_full);
  EXPECT_EQ(*b.read(0, 20), "123456789a");
  EXPECT_TRUE(b.write(0, "again"));  // no growth needed
  EXPECT_EQ(code_of(b.run(b.file->truncate(b.call(), 11))), ErrorCode::storage_full);
}

TEST(SimDisk, a_stall_outlasts_the_deadline_and_the_operation_goes_on_alone) {
  Bench b;
  ASSERT_TRUE(b.open("f"));
  b.node.disk().stall(Duration::seconds(30));
  auto late = b.run(b.file->write(b.call().by(b.world.now() + Duration::seconds(1)), 0, b.buffer("late")));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::timeout);
  EXPECT_EQ(b.node.disk().orphans(), 1u);
  EXPECT_EQ(b.text("f"), "");
  EXPECT_EQ(b.node.machine().slab.outstanding(), 1u);
  Buffer buffer = b.node.machine().slab.take(10);
  EXPECT_EQ(b.file->try_read(0, 1, buffer).error().code, ErrorCode::busy);
  buffer.reset();
  b.world.run_for(Duration::seconds(31));
  EXPECT_EQ(b.text("f"), "late");
  EXPECT_EQ(b.node.machine().slab.outstanding(), 0u);
}

TEST(SimDisk, a_call_that_is_over_starts_nothing) {
  Bench b;
  ASSERT_TRUE(b.open("f"));
  EXPECT_EQ(b.run(b.file->write(b.call().by(b.world.now()), 0, b.buffer("x"))).error().code,
            ErrorCode::timeout);
  b.world.run_for(Duration::seconds(1));
  EXPECT_EQ(b.text("f"), "");
  EXPECT_EQ(b.node.disk().orphans(), 0u);
}

TEST(SimDisk, rot_changes_one_bit_for_good) {
  Bench b;
  b.node.disk().put("f", "aaaa");
  EXPECT_TRUE(b.node.disk().rot("f", 2));
  EXPECT_FALSE(b.node.disk().rot("f", 4));
  EXPECT_EQ(b.text("f"), "aa`a");
  b.crash();
  EXPECT_EQ(b.text("f"), "aa`a");
  EXPECT_TRUE(b.node.disk().rot_somewhere());
  EXPECT_NE(b.text("f"), "aa`a");
}

TEST(SimDisk, a_stale_read_returns_what_was_durable) {
  Bench b;
  b.node.disk().put("f", "old");
  ASSERT_TRUE(b.open("f", OpenMode::write));
  ASSERT_TRUE(b.write(0, "new"));
  b.node.disk().faults.stale_read = ChoiceSource::million;
  EXPECT_EQ(*b.read(0, 3), "old");
  b.node.disk().faults.stale_read = 0;
  EXPECT_EQ(*b.read(0, 3), "new");
}

TEST(SimDisk, misdirected_calls_hit_another_place) {
  const std::string sectors = std::string(512, 'a') + std::string(512, 'b') + std::string(512, 'c');
  bool read_elsewhere = false;
  bool wrote_elsewhere = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Bench b(seed);
    b.node.disk().put("f", sectors);
    ASSERT_TRUE(b.open("f", OpenMode::write));
    b.node.disk().faults.misdirected_read = b.node.disk().faults.misdirected_write = ChoiceSource::million;
    read_elsewhere |= *b.read(0, 10) != std::string(10, 'a');
    ASSERT_TRUE(b.write(0, "XXXX"));
    wrote_elsewhere |= b.text("f").starts_with("aaaa");
    EXPECT_EQ(b.text("f").size(), sectors.size());
    EXPECT_NE(b.text("f"), sectors);
  }
  EXPECT_TRUE(read_elsewhere && wrote_elsewhere);
}

// Several tasks at once, crashed at a random moment: for the probes, and for what must hold anyway.
Task<> churn(Machine machine, Call call, int who) {
  const std::string name = "f" + std::to_string(who);
  auto file = co_await machine.disk.open(call, name, OpenMode::create_new);
  if (!file) file = co_await machine.disk.open(call, name, OpenMode::write);
  if (!file) co_return;
  for (int i = 0; i < 50; ++i) {
    Buffer buffer = machine.slab.take(3000);
    std::fill_n(buffer.room().begin(), 3000, static_cast<std::byte>('a' + i % 26));
    buffer.fill(3000);
    const Call soon = call.within(Duration::seconds(1));
    (void)co_await (*file)->write(soon, static_cast<std::uint64_t>(i) * 1000, std::move(buffer));
    if (i % 7 == 0) (void)co_await (*file)->sync_data(soon);
    if (i % 5 == 0) (void)co_await machine.disk.rename(soon, name, name + "x");
    if (i % 11 == 0) (void)co_await machine.disk.sync_directory(soon, "/");
    Buffer cached = machine.slab.take(100);
    (void)(*file)->try_read(0, 100, cached);
    (void)co_await (*file)->read(soon, 500, 3000, machine.slab.take(3000));
    if (call.stopped()) co_return;
  }
}

TEST(SimDisk, every_kind_of_fault_is_reachable) {
  Probes all;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    World world(seed);
    Node& node = world.add_node("a", 1, [](Node& self) {
      for (int i = 0; i < 4; ++i) self.scope().spawn("churn", churn(self.machine(), self.scope().call(), i));
    });
    DiskFaults& faults = node.disk().faults;
    faults.read_error = faults.write_error = faults.sync_error = faults.rot = 10'000;
    faults.misdirected_read = faults.misdirected_write = faults.stale_read = faults.cold = 10'000;
    faults.stall = 500;
    node.disk().set_capacity(100'000);
    node.disk().fail_call(DiskCall::rename, 3, DiskFailure::error, true);
    for (int life = 0; life < 3; ++life) {
      world.run_for({world.choices().between(0, 60'000'000, "test.life")});
      world.crash(node);
      EXPECT_EQ(node.disk().open_files(), 0u);
      EXPECT_EQ(node.disk().pending(), 0u);
      EXPECT_EQ(node.disk().view().hash(), node.disk().durable().hash());
      world.restart(node);
    }
    all.add(world.probes());
  }
  for (const std::string& name : all.missed())
    EXPECT_FALSE(name.starts_with("disk.")) << name << " was never reached";
}

TEST(SimDisk, a_crash_in_the_middle_of_a_task_lets_nothing_after_it_through) {
  World world(1);
  Node& node = world.add_node(
      "a", 1, [](Node& self) { self.scope().spawn("churn", churn(self.machine(), self.scope().call(), 0)); });
  std::uint64_t at_cut = 0;
  node.disk().set_observer([&](const SimDisk& disk) {
    if (disk.calls(DiskCall::write) == 5 && at_cut == 0) {
      at_cut = disk.view().hash();
      world.crash_soon(node, Crash::process);
    }
  });
  EXPECT_TRUE(world.run_until([&] { return !node.up(); }));
  EXPECT_NE(at_cut, 0u);
  EXPECT_EQ(node.disk().view().hash(), at_cut);
}

Task<> create_after_the_cut(World* world, Node* node, Machine machine, Call call) {
  world->crash_soon(*node, Crash::process);
  EXPECT_FALSE((co_await machine.disk.open(call, "late", OpenMode::create_new)).has_value());
}

TEST(SimDisk, what_a_task_asks_for_after_the_cut_never_happens) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World world(seed);
    Node& node = world.add_node("a");
    node.scope().spawn("late", create_after_the_cut(&world, &node, node.machine(), node.scope().call()));
    EXPECT_TRUE(world.run_until([&] { return !node.up(); }));
    EXPECT_TRUE(node.disk().view().names.empty());
  }
}

}  // namespace
}  // namespace cairn::io::sim
