// ChoiceSource: makes every decision of a simulated run: which task runs next, which operation fails, how
// long it takes. A run is a function of its choices, so a seed or a tape repeats it exactly.
//
// 0 is always the benign choice (oldest task first, no fault), so that lowering the numbers of a tape makes
// a failing run simpler.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/random.h"

namespace cairn::io::sim {

constexpr std::uint64_t hash_text(const char* text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (; *text != 0; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
  return hash ^ (hash >> 29);
}

// The name of a kind of choice or of a probe, hashed at compile time. Only from a literal.
struct Tag {
  const char* name;
  std::uint64_t hash;
  consteval Tag(const char* literal) noexcept
      : name(literal),
        hash(hash_text(literal)) {}  // NOLINT(google-explicit-constructor): implicit on purpose
};

class ChoiceSource {
 public:
  virtual ~ChoiceSource() = default;

  // In [0, n). No choice is made, or recorded, when there is only one.
  std::uint32_t pick(std::uint32_t n, Tag tag) { return n <= 1 ? 0 : draw(n, tag); }
  // True `per_million` times in a million; false costs no choice when the rate is 0.
  bool chance(std::uint32_t per_million, Tag tag) {
    return per_million != 0 && pick(million, tag) >= million - per_million;
  }
  // In [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high, Tag tag);

  static constexpr std::uint32_t million = 1'000'000;

 private:
  virtual std::uint32_t draw(std::uint32_t n, Tag tag) = 0;
};

// Seeded. Each tag has its own stream of numbers: one more draw in the disk does not reshuffle the network.
class RandomChoices final : public ChoiceSource {
 public:
  explicit RandomChoices(std::uint64_t seed);

 private:
  struct Stream {
    std::uint64_t tag = 0;
    Random random{0};
  };
  std::uint32_t draw(std::uint32_t n, Tag tag) override;
  Stream& stream(std::uint64_t tag);
  void grow();

  std::uint64_t seed_;
  std::vector<Stream> streams_;  // open addressing, a power of two
  std::size_t used_ = 0;
};

struct Choice {
  std::uint64_t tag;
  std::uint32_t bound;
  std::uint32_t value;
  friend bool operator==(const Choice&, const Choice&) = default;
};
using Tape = std::vector<Choice>;

// Records the choices of another source.
class RecordedChoices final : public ChoiceSource {
 public:
  explicit RecordedChoices(ChoiceSource& source) noexcept : source_(source) {}
  const Tape& tape() const noexcept { return tape_; }

 private:
  std::uint32_t draw(std::uint32_t n, Tag tag) override;
  ChoiceSource& source_;
  Tape tape_;
};

// Repeats a tape. A shortened or edited tape still runs: values are brought into range, and after its end
// every choice is 0; diverged() says that the run asked for other choices than the recorded ones.
class ReplayedChoices final : public ChoiceSource {
 public:
  explicit ReplayedChoices(Tape tape) noexcept : tape_(std::move(tape)) {}
  bool diverged() const noexcept { return diverged_; }
  std::size_t used() const noexcept { return at_; }

 private:
  std::uint32_t draw(std::uint32_t n, Tag tag) override;
  Tape tape_;
  std::size_t at_ = 0;
  bool diverged_ = false;
};

}  // namespace cairn::io::sim
