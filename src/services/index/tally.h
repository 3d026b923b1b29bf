// Tally: what the targets of one lookup have answered so far, and whether that decides it. Pure.
//   [TY-1] Providers are found when one record is fresh. A change of a name is found when two targets agree
//         on the highest sequence, or when all that were asked have answered and it is the highest.
//   [TY-2] `not_here` only when all that were asked have answered, and none has a record that counts.
//   [TY-3] A record that does not count (another name or address, or refused by the judge) is as if the
//         target had not sent it.
#pragma once

#include <optional>

#include "services/index/provider_set.h"

namespace cairn::index {

// Decides which records count, beyond their signature: who may change a name, which nodes are members.
// Called on its shard; must not wait.
class Judge {
 public:
  virtual ~Judge() = default;
  virtual bool accepts(const format::NameChange& change) const = 0;
  virtual bool accepts(const format::ProviderRecord& record) const = 0;
};

// Whether `a` is in force over `b`, of the same name: the higher sequence. A key that signs two changes with
// one sequence gets the same one of them everywhere.
bool is_newer(const SignedChange& a, const SignedChange& b) noexcept;

class Tally {
 public:
  enum class Verdict : std::uint8_t { undecided, found, not_here, failed };

  // The judge outlives it. `now`: of the freshness of records.
  Tally(Question question, const Judge& judge, WallTime now);

  const Question& question() const noexcept { return question_; }
  // Each target that is asked ends in one of two ways, or is left alone when the lookup is over.
  void count_asked() noexcept { ++asked_; }
  void answered(Answer answer);
  void failed() noexcept { ++failed_; }

  std::size_t asked() const noexcept { return asked_; }
  bool all_ended() const noexcept { return answered_ + failed_ == asked_; }
  Verdict verdict() const noexcept;
  // What was found. Precondition: verdict() is `found`.
  Answer take() &&;

 private:
  bool is_found() const noexcept;
  bool all_answered() const noexcept { return asked_ > 0 && answered_ == asked_; }
  void add_providers(std::vector<SignedProvider> providers);
  void add_changes(std::vector<SignedChange> changes);

  Question question_;
  const Judge& judge_;
  WallTime now_;
  std::size_t asked_ = 0, answered_ = 0, failed_ = 0;
  std::optional<ProviderSet> providers_;  // of an address
  std::optional<SignedChange> newest_;    // of a name
  std::size_t agreeing_ = 0;              // targets whose newest change is that one
};

}  // namespace cairn::index
