// Target: something that can be asked what a name stands for, or who has an object: the DHT as a whole, or
// another index node. What a lookup asks, and what it gets back.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mix.h"
#include "format/name_change.h"
#include "format/provider_record.h"
#include "runtime/call.h"
#include "runtime/task.h"

namespace cairn::index {

// A name, whose changes are wanted, or the address of an object, whose providers are wanted.
using Question = std::variant<std::string, Address>;

inline bool asks_for_name(const Question& question) noexcept {
  return std::holds_alternative<std::string>(question);
}

// With a secret seed, because strangers choose the questions.
struct QuestionHash {
  std::uint64_t seed = 0;
  std::size_t operator()(const Question& question) const noexcept {
    if (const auto* name = std::get_if<std::string>(&question)) return hash_of(*name, seed);
    const Address& address = std::get<Address>(question);
    return ~hash_of({reinterpret_cast<const char*>(address.bytes.data()), address.bytes.size()}, seed);
  }
};

// A record as it was signed, and what was read from it. Decoding has checked the signature; whether the
// record counts is left to a Judge (tally.h).
struct SignedProvider {
  format::ProviderRecord record;
  std::string bytes;
  friend bool operator==(const SignedProvider&, const SignedProvider&) = default;
};
struct SignedChange {
  format::NameChange change;
  std::string bytes;
  friend bool operator==(const SignedChange&, const SignedChange&) = default;
};

// Without a record: "not here".
struct Answer {
  std::vector<SignedProvider> providers = {};
  std::vector<SignedChange> changes = {};
  bool is_empty() const noexcept { return providers.empty() && changes.empty(); }
};

// What an error of a target means for the question.
enum class Fault : std::uint8_t {
  passing,  // no way to it, or the way broke, or it said that it cannot now: it may be asked again
  late,     // it did not answer in its time
  refused   // it will not answer, however often it is asked
};
constexpr Fault fault_of(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::connection_lost:
    case ErrorCode::upstream:
    case ErrorCode::degraded:
    case ErrorCode::draining:
    case ErrorCode::not_ready:
      return Fault::passing;
    case ErrorCode::timeout:
      return Fault::late;
    default:
      return Fault::refused;
  }
}

// Of one shard. The facts do not change: a target that moves is another target.
class Target {
 public:
  struct Facts {
    std::string name;                 // as in metrics; unique among the targets of a process
    std::string region = {};          // empty: unknown
    std::uint32_t latency_class = 0;  // 0 is the nearest
  };

  explicit Target(Facts facts) : facts_(std::move(facts)) {}
  virtual ~Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const Facts& facts() const noexcept { return facts_; }
  const std::string& name() const noexcept { return facts_.name; }

  // Whether it can know anything of such a question.
  virtual bool can_answer(const Question& question) const noexcept {
    (void)question;
    return true;
  }
  // One try. An answer is bounded: a target keeps no more records than the spec lets it have of one question.
  // Errors: as fault_of() reads them. Cancel: clean.
  virtual Task<Result<Answer>> ask(Call call, Question question) = 0;

 private:
  Facts facts_;
};

// Shared with the lookups that ask it: a target may leave the list of its shard meanwhile.
using TargetPtr = std::shared_ptr<Target>;
using Targets = std::vector<TargetPtr>;

}  // namespace cairn::index
