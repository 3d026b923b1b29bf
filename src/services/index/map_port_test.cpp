#include "services/index/map_port.h"

#include <gtest/gtest.h>

#include <atomic>

#include "services/index/simulated_ledger.h"

namespace cairn::index {
namespace {

// A map of which every question has the same error for an answer.
class FailingKv final : public store::Kv {
 public:
  explicit FailingKv(ErrorCode code) noexcept : error_{code, "map"} {}
  Result<std::optional<std::string>> try_get(std::string_view) override { return fail(error_); }
  Task<Result<std::optional<std::string>>> get(Call, std::string) override { co_return fail(error_); }
  Task<Result<std::vector<store::KvPair>>> scan(Call, std::string, std::string, std::size_t) override {
    co_return fail(error_);
  }
  Task<Result<>> make_ready(Call) override { co_return fail(error_); }
  Task<Result<>> write(Call, store::KvBatch) override { co_return fail(error_); }
  Task<Result<>> flush(Call) override { co_return fail(error_); }
  Task<Result<store::KvVerified>> verify(Call, std::string) override { co_return fail(error_); }

 private:
  Error error_;
};

// What each question is answered, and whether the map is then known to be damaged.
struct Told {
  ErrorCode code;
  bool damaged;
  friend bool operator==(const Told&, const Told&) = default;
};
std::vector<Told> ask_everything(ErrorCode code, bool reads) {
  SimulatedLedger at;
  std::vector<Told> all;
  const auto ask = [&](auto question) {
    std::atomic<bool> damaged{false};
    MapPort port(std::make_unique<FailingKv>(code), damaged);
    const ErrorCode answer = question(port);
    all.push_back({answer, damaged});
  };
  if (reads) {
    ask([&](MapPort& port) { return code_of(port.try_get("key")); });
    ask([&](MapPort& port) { return code_of(at.run(port.get(at.call(), "key"))); });
    ask([&](MapPort& port) { return code_of(at.run(port.scan(at.call(), "a", "b", 1))); });
    ask([&](MapPort& port) { return code_of(at.run(port.verify(at.call(), ""))); });
  } else {
    ask([&](MapPort& port) { return code_of(at.run(port.make_ready(at.call()))); });
    ask([&](MapPort& port) { return code_of(at.run(port.write(at.call(), {}))); });
    ask([&](MapPort& port) { return code_of(at.run(port.flush(at.call()))); });
  }
  return all;
}

TEST(MapPort, damage_is_degraded_and_remembered_whoever_meets_it) {
  for (const bool reads : {true, false})
    for (const Told& told : ask_everything(ErrorCode::integrity, reads))
      EXPECT_EQ(told, (Told{ErrorCode::degraded, true})) << reads;
}

TEST(MapPort, a_file_that_the_disk_does_not_read_is_damaged_and_one_that_it_does_not_write_is_not) {
  for (const Told& told : ask_everything(ErrorCode::io_failed, true))
    EXPECT_EQ(told, (Told{ErrorCode::degraded, true}));
  for (const Told& told : ask_everything(ErrorCode::io_failed, false))
    EXPECT_EQ(told, (Told{ErrorCode::io_failed, false}));
}

TEST(MapPort, other_errors_are_passed_on) {
  for (const bool reads : {true, false})
    for (const ErrorCode code : {ErrorCode::busy, ErrorCode::timeout, ErrorCode::storage_full})
      for (const Told& told : ask_everything(code, reads)) EXPECT_EQ(told, (Told{code, false}));
}

}  // namespace
}  // namespace cairn::index
