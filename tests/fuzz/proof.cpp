// A proof gives the same verdict however it is split, and none but the true one is accepted: of arbitrary
// bytes, or of a true proof with some bytes changed.
#include <algorithm>
#include <array>
#include <string>

#include "crypto/proof.h"
#include "crypto/sample_object.h"
#include "fuzz/splits.h"

namespace cairn {
namespace {

using namespace crypto;

struct Verdict {
  bool failed = false, done = false;
  ErrorCode code = ErrorCode::ok;
  std::size_t taken = 0;
  std::uint64_t size = 0;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

Verdict read(ProofReader& reader, ByteView proof, std::uint32_t seed) {
  fuzz::Splits splits(seed);
  Verdict verdict;
  while (verdict.taken < proof.size() && !reader.done()) {
    const ByteView left = proof.subspan(verdict.taken);
    const fuzz::Exact piece(as_text(left.first(splits.next(left.size()))));
    const auto taken = reader.update(as_bytes(piece.view()));
    if (!taken) {
      fuzz::require(taken.error().code == ErrorCode::integrity ||
                        taken.error().code == ErrorCode::malformed ||
                        taken.error().code == ErrorCode::body_cap,
                    "code");
      fuzz::require(!reader.update(proof) && !reader.done(), "error stays");
      return {.failed = true, .code = taken.error().code};
    }
    fuzz::require(*taken == piece.view().size() || reader.done(), "takes all until done");
    verdict.taken += *taken;
  }
  verdict.done = reader.done();
  verdict.size = reader.size();
  return verdict;
}

// A claimed size that is not the object's must not survive its last group.
void check_groups(const ProofReader& reader, const SampleObject& object, bool is_true) {
  const GroupSpan groups = reader.groups();
  fuzz::require(groups.count() != 0 && groups.count() <= proof_groups_max, "covered groups");
  fuzz::require(!reader.verify_group(groups.end, {}), "group behind the range");
  for (std::uint64_t index = groups.first; index < groups.end; ++index) {
    const bool exists = index < group_count(object.size());
    const bool verified = exists && reader.verify_group(index, object.group(index)).has_value();
    if (is_true) fuzz::require(verified, "true group");
    if (!is_true && index + 1 == group_count(reader.size())) fuzz::require(!verified, "false size");
  }
}

const SampleObject& object_of(unsigned choice) {
  static const std::array<SampleObject, 8> objects{
      SampleObject(0, 1),
      SampleObject(1, 2),
      SampleObject(group_size, 3),
      SampleObject(group_size + 1, 4),
      SampleObject(3 * group_size, 5),
      SampleObject(6 * group_size - 1, 6),
      SampleObject(part_size + 10, 7),
      SampleObject(part_size + 5 * group_size, 8),
  };
  return objects[choice % objects.size()];
}

}  // namespace
}  // namespace cairn

// Byte 0: splits. Byte 1: object, and whether the rest is a proof or changes to the true one, each of three
// bytes (offset, mask). Bytes 2 to 4: the range.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  if (size < 5) return 0;
  const SampleObject& object = object_of(data[1] & 7);
  const std::uint64_t end = std::max<std::uint64_t>(object.size(), 1);
  const std::uint64_t first = data[2] * (end - 1) / 255;
  const std::uint64_t last = first + data[3] * (end - 1 - first) / 255;
  const Bytes truth = object.prove(first, last);
  const auto rest = std::as_bytes(std::span(data, size)).subspan(5);
  Bytes proof;
  if ((data[1] & 8) != 0) {
    proof.assign(rest.begin(), rest.end());
  } else {
    proof = truth;
    for (std::size_t i = 0; i + 3 <= rest.size(); i += 3)
      proof[(std::to_integer<std::size_t>(rest[i]) << 8 | std::to_integer<std::size_t>(rest[i + 1])) %
            proof.size()] ^= rest[i + 2];
  }

  // The reader may ask for more than the range that the proof was made for.
  const std::uint64_t asked = (data[4] & 1) != 0 ? ~std::uint64_t{0} : last;
  ProofReader whole(object.hash.address, first, asked), bytewise(object.hash.address, first, asked),
      split(object.hash.address, first, asked);
  const Verdict verdict = read(whole, proof, 0);
  fuzz::require(read(bytewise, proof, 1) == verdict, "byte by byte");
  fuzz::require(read(split, proof, 2u + data[0]) == verdict, "split");
  if (!verdict.done) return 0;
  const bool is_true = verdict.size == object.size();
  if (is_true) {
    const Bytes expected = object.prove(first, std::min(asked, end - 1));
    fuzz::require(
        verdict.taken == expected.size() && std::equal(expected.begin(), expected.end(), proof.begin()),
        "another proof was accepted");
  }
  check_groups(whole, object, is_true);
  return 0;
}
