// For tests: a log on a simulated disk, one operation at a time, and what a reader of it finds.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/sim/world.h"
#include "store/log.h"
#include "store/segment.h"

namespace cairn::store {

// A record as tests write it: the meta begins with a hash of the data.
struct TestRecord {
  std::string text;  // the rest of the meta
  std::string data;
  bool reserve = false;

  std::string meta() const {
    const Address hash = crypto::hash_object(as_bytes(data));
    return std::string(as_text(ByteView(hash.bytes).first(8))) + text;
  }
  // Data in two blocks, as a writer may have it.
  Record record() const {
    Record made;
    made.kind = 7;
    made.meta = meta();
    made.reserve = reserve;
    const std::size_t half = data.size() / 2;
    for (const std::string_view part :
         {std::string_view(data).substr(0, half), std::string_view(data).substr(half)}) {
      made.data.emplace_back(part.size());
      made.data.back().append(as_bytes(part));
    }
    return made;
  }
};

inline bool is_test_data_right(const RecordHeader&, ByteView meta, ByteView data) {
  if (meta.size() < 8) return false;
  return std::memcmp(crypto::hash_object(data).bytes.data(), meta.data(), 8) == 0;
}

struct Collected final : Replay {
  std::vector<Entry> entries;
  std::vector<Damage> damages;
  Task<Result<>> on_record(Call, Entry entry) override {
    entries.push_back(std::move(entry));
    co_return Result<>{};
  }
  Task<Result<>> on_damage(Call, Damage damage) override {
    damages.push_back(damage);
    co_return Result<>{};
  }
};

class SimulatedLog {
 public:
  explicit SimulatedLog(std::uint64_t seed = 1)
      : world(seed), node(world.add_node("a")), machine(node.machine()) {
    options.directory = "log";
    options.segment_size = 16 << 10;
    options.reserve = 0;
    options.check = is_test_data_right;
  }
  ~SimulatedLog() { log.reset(); }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> out;
    node.scope().spawn("run", into(std::move(task), &out));
    EXPECT_TRUE(world.run_until([&] { return out.has_value(); }));
    return std::move(*out);
  }
  Call call() { return node.scope().call(); }
  io::sim::SimDisk& disk() { return node.disk(); }

  Result<> open(LogPoint from = {}) {
    log.reset();
    found = {};
    auto opened = run(Log::open(call(), machine, options, from, found, report));
    if (!opened) return fail(opened.error());
    log = std::move(*opened);
    return {};
  }
  Result<> open_image(const io::sim::Image& image, LogPoint from = {}) {
    log.reset();
    disk().load(image);
    return open(from);
  }
  Result<std::vector<Entry>> append(const std::vector<TestRecord>& records) {
    std::vector<Record> batch;
    for (const TestRecord& record : records) batch.push_back(record.record());
    return run(log->append(call(), std::move(batch)));
  }
  Result<> roll() { return run(log->roll(call())); }
  Result<> remove(std::uint32_t segment) { return run(log->remove_segment(call(), segment)); }

  std::string path(std::uint32_t segment) const { return segment_path(options.directory, segment); }
  std::string text(std::uint32_t segment) { return disk().view().text(path(segment)); }
  // Text and data of a record as the disk has them now.
  TestRecord read(const Entry& entry) {
    return {entry.meta.substr(8),
            text(entry.at.segment).substr(static_cast<std::size_t>(entry.data_at()), entry.header.data_size)};
  }
  std::vector<std::uint64_t> sequences() const {
    std::vector<std::uint64_t> all;
    for (const Entry& entry : found.entries) all.push_back(entry.header.sequence);
    return all;
  }

  io::sim::World world;
  io::sim::Node& node;
  io::Machine machine;
  LogOptions options;
  std::unique_ptr<Log> log;
  LogReport report;
  Collected found;

 private:
  template <class T>
  static Task<> into(Task<T> task, std::optional<T>* out) {
    out->emplace(co_await std::move(task));
  }
};

inline ErrorCode code_of(const auto& result) { return result ? ErrorCode::ok : result.error().code; }

}  // namespace cairn::store
