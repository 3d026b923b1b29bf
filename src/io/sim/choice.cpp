#include "io/sim/choice.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::io::sim {

std::int64_t ChoiceSource::between(std::int64_t low, std::int64_t high, Tag tag) {
  CHECK(low <= high);
  const auto span = static_cast<std::uint64_t>(high - low);
  if (span < 0xffff'ffffu) return low + pick(static_cast<std::uint32_t>(span) + 1, tag);
  // Wider than one choice: 2^31 steps are fine enough for a latency of hours.
  constexpr std::uint32_t steps = 1u << 31;
  const auto scaled = static_cast<unsigned __int128>(span) * pick(steps, tag) / (steps - 1);
  return low + static_cast<std::int64_t>(scaled);
}

RandomChoices::RandomChoices(std::uint64_t seed) : seed_(seed), streams_(64) {}

std::uint32_t RandomChoices::draw(std::uint32_t n, Tag tag) {
  return static_cast<std::uint32_t>(stream(tag.hash).random.below(n));
}

RandomChoices::Stream& RandomChoices::stream(std::uint64_t tag) {
  const std::size_t mask = streams_.size() - 1;
  std::size_t at = static_cast<std::size_t>(tag) & mask;
  while (streams_[at].tag != tag) {
    if (streams_[at].tag == 0) {
      if ((used_ + 1) * 2 > streams_.size()) {
        grow();
        return stream(tag);
      }
      ++used_;
      streams_[at] = {tag, Random(seed_ ^ (tag * 0x9e3779b97f4a7c15u))};
      break;
    }
    at = (at + 1) & mask;
  }
  return streams_[at];
}

void RandomChoices::grow() {
  std::vector<Stream> larger(streams_.size() * 2);
  const std::size_t mask = larger.size() - 1;
  for (Stream& stream : streams_) {
    if (stream.tag == 0) continue;
    std::size_t at = static_cast<std::size_t>(stream.tag) & mask;
    while (larger[at].tag != 0) at = (at + 1) & mask;
    larger[at] = stream;
  }
  streams_ = std::move(larger);
}

std::uint32_t RecordedChoices::draw(std::uint32_t n, Tag tag) {
  const std::uint32_t value = source_.pick(n, tag);
  tape_.push_back({tag.hash, n, value});
  return value;
}

std::uint32_t ReplayedChoices::draw(std::uint32_t n, Tag tag) {
  if (at_ == tape_.size()) return 0;
  const Choice& choice = tape_[at_++];
  if (choice.tag != tag.hash || choice.bound != n) diverged_ = true;
  return choice.value % n;
}

}  // namespace cairn::io::sim
