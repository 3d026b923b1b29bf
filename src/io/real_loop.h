// For tests: a real loop with its pool, network and disk, driven by the test's own thread.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "io/disk.h"
#include "io/loop.h"
#include "io/tcp.h"
#include "runtime/scope.h"

namespace cairn::io {

struct RealLoop {
  RealLoop() { threads.start(); }
  ~RealLoop() {
    {
      ShardScope here(loop.shard());
      scope.abort();
    }
    turn_until([&] { return scope.empty(); });
    threads.stop();
    ShardScope here(loop.shard());
    loop.mailbox().drain();
  }

  // Turns until done() holds. False: ten seconds have passed, which no test here should need.
  template <class Done>
  bool turn_until(Done done) {
    const Instant limit = loop.shard().precise_now() + Duration::seconds(10);
    while (!done()) {
      if (loop.shard().precise_now() > limit) return false;
      loop.turn(Duration::millis(1));  // a turn waits after it has run what was ready
    }
    return true;
  }
  // The result of a task, run to its end.
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    spawn(store(std::move(task), &result));
    CHECK(turn_until([&] { return result.has_value(); }));
    return std::move(*result);
  }
  void spawn(Task<> task) {
    ShardScope here(loop.shard());
    scope.spawn("test", std::move(task));
  }
  Call call() noexcept { return scope.call(); }

  ThreadPool threads{LaneSizes{{{2, 16}, {1, 16}, {1, 16}, {1, 16}, {1, 16}, {1, 16}}}};
  Loop loop{0};
  PoolPort pool{threads, loop.mailbox()};
  TcpNetwork network{loop, pool};
  KernelDisk disk{pool};
  Scope scope{loop.shard()};

 private:
  template <class T>
  static Task<> store(Task<T> task, std::optional<T>* result) {
    result->emplace(co_await std::move(task));
  }
};

// A directory that goes with the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((std::filesystem::temp_directory_path() / "cairn-XXXXXX").string()) {
    CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string at(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace cairn::io
