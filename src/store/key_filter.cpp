#include "store/key_filter.h"

#include <algorithm>
#include <bit>

#include "base/mix.h"

namespace cairn::store {
namespace {

constexpr unsigned marks = 6;
constexpr unsigned line_bits = 512;

}  // namespace

KeyFilter::KeyFilter(std::uint64_t keys, std::uint64_t seed)
    : keys_(keys),
      line_count_(std::bit_ceil(std::max<std::uint64_t>(1, keys * bits_per_key / line_bits))),
      seed_(seed) {}

KeyFilter::Marks KeyFilter::marks_of(std::string_view key) const noexcept {
  const std::uint64_t hash = hash_of(key, seed_);
  Marks out{.line = hash & (line_count_ - 1), .bits = {}};
  // Nine bits a mark, from a word that is independent of the line.
  std::uint64_t rest = mix(hash, 0xa0761d6478bd642fu);
  for (unsigned i = 0; i < marks; ++i, rest >>= 9)
    out.bits.words[rest / 64 % 8] |= std::uint64_t{1} << (rest % 64);
  return out;
}

void KeyFilter::add(std::string_view key) {
  if (lines_.empty()) lines_.resize(line_count_);
  const Marks wanted = marks_of(key);
  Line& line = lines_[wanted.line];
  if (line.lacks(wanted.bits)) ++added_;
  for (std::size_t i = 0; i < line.words.size(); ++i) line.words[i] |= wanted.bits.words[i];
}

bool KeyFilter::may_have(std::string_view key) const noexcept {
  if (lines_.empty()) return false;
  const Marks wanted = marks_of(key);
  return !lines_[wanted.line].lacks(wanted.bits);
}

}  // namespace cairn::store
