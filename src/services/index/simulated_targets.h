// For tests: signed records of known keys, and targets that answer as a test says.
#pragma once

#include <deque>
#include <functional>

#include "base/check.h"
#include "runtime/wait.h"
#include "services/index/tally.h"

namespace cairn::index {

inline constexpr WallTime sample_now{1'767'225'600'000};

inline crypto::Ed25519Key sample_key(unsigned char number) {
  std::array<std::byte, 32> seed;
  seed.fill(std::byte{number});
  return crypto::Ed25519Key(seed);
}
inline Address sample_address(unsigned char number) {
  Address address;
  address.bytes.fill(std::byte{number});
  return address;
}
struct ProviderParts {
  unsigned char key = 1;
  std::uint64_t sequence = 1;
  bool withdrawn = false;
  Duration lives = Duration::seconds(600);
  unsigned char address = 1;
};
inline SignedProvider sample_provider(ProviderParts parts = {}, WallTime now = sample_now) {
  const crypto::Ed25519Key key = sample_key(parts.key);
  format::ProviderRecord record{sample_address(parts.address),
                                key.public_key(),
                                {},
                                parts.sequence,
                                WallTime{now.ms + parts.lives.to_millis()}};
  if (!parts.withdrawn) {
    record.endpoints.push_back({{}, 7400, false});
    auto& ip = record.endpoints.front().ip;  // 10.0.0.KEY
    ip[10] = ip[11] = std::byte{0xff};
    ip[12] = std::byte{10};
    ip[15] = std::byte{parts.key};
  }
  auto bytes = format::sign_provider_record(record, key);
  CHECK(bytes.has_value());
  return {std::move(record), std::move(*bytes)};
}
struct ChangeParts {
  std::uint64_t sequence = 1;
  unsigned char manifest = 1;
  std::string name = "docs/readme";
  unsigned char key = 1;
};
inline SignedChange sample_change(const ChangeParts& parts = {}) {
  const crypto::Ed25519Key key = sample_key(parts.key);
  format::NameChange change{parts.name,      sample_address(parts.manifest), parts.sequence, sample_now, "",
                            key.public_key()};
  auto bytes = format::sign_name_change(change, key);
  CHECK(bytes.has_value());
  return {std::move(change), std::move(*bytes)};
}
inline Answer sample_answer(SignedProvider provider) {
  Answer answer;
  answer.providers.push_back(std::move(provider));
  return answer;
}
inline Answer sample_answer(SignedChange change) {
  Answer answer;
  answer.changes.push_back(std::move(change));
  return answer;
}

// Everything counts but what the key `liar` has signed.
struct SampleJudge final : Judge {
  static constexpr unsigned char liar = 66;
  bool accepts(const format::NameChange& change) const override { return change.key != bad; }
  bool accepts(const format::ProviderRecord& record) const override { return record.key != bad; }
  crypto::Ed25519PublicKey bad = sample_key(liar).public_key();
};

// What a target does when it is asked: its answer comes after `delay`, or never. The last act is repeated.
struct Act {
  Duration delay{};
  Result<Answer> answer = Answer{};
  bool silent = false;
  bool throws = false;
};
class ScriptedTarget final : public Target {
 public:
  ScriptedTarget(Facts facts, std::deque<Act> acts) : Target(std::move(facts)), acts_(std::move(acts)) {}

  Task<Result<Answer>> ask(Call call, Question) override {
    ++asked;
    ++under_way;
    const Act act = acts_.front();
    if (acts_.size() > 1) acts_.pop_front();
    auto slept =
        co_await sleep_until(call, act.silent ? Instant::never() : current_shard()->now() + act.delay);
    --under_way;
    if (!slept) {
      last_stop = slept.error();
      co_return fail(slept.error());
    }
    if (act.throws) throw std::bad_alloc();
    co_return act.answer;
  }

  int asked = 0, under_way = 0;
  std::optional<Error> last_stop;

 private:
  std::deque<Act> acts_;
};
inline std::shared_ptr<ScriptedTarget> scripted(std::string name, Act act) {
  return std::make_shared<ScriptedTarget>(Target::Facts{.name = std::move(name)}, std::deque<Act>{act});
}
inline std::shared_ptr<ScriptedTarget> scripted(std::string name, std::deque<Act> acts) {
  return std::make_shared<ScriptedTarget>(Target::Facts{.name = std::move(name)}, std::move(acts));
}

}  // namespace cairn::index
