// Oracle: opens what a crash left with the real recovery and compares what is there with what may be.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crash/explore.h"
#include "crash/model.h"
#include "store/simulated_store.h"

namespace cairn::crash {

// Who begins the n-th upload: every other one is nobody's.
inline store::UploadOwner owner_of_upload(int number) {
  if (number % 2 != 0) return {};
  return {Ulid{1, static_cast<std::uint64_t>(number) + 1}, "tenant"};
}

// What operations are about.
struct Universe {
  Universe();
  std::vector<std::string> contents;
  std::vector<Address> addresses;
};
inline constexpr int small = 0, medium = 1, two_groups = 2, other = 3, fresh = 4, empty = 5;

// Names of the uploads that were begun, where they are known.
using Tokens = std::map<int, Ulid>;

// What may be found after a crash.
struct Expected {
  Possible possible;
  Tokens tokens;
  bool remade = false;  // the index was made anew on the way
  std::uint64_t hash() const { return possible.hash() + (remade ? 1 : 0); }
};

// One world that opens image after image.
class Reopener {
 public:
  Reopener(const Universe& universe, const store::StoreOptions& options);
  ~Reopener();

  // Is what `image` holds one of the possible?
  std::optional<Finding> check(const io::sim::Image& image, const Expected& expected);
  // The same without its index, which must come out equal to the one that was kept.
  std::optional<Finding> check_rebuilt(const io::sim::Image& image, const Expected& expected);
  // Goes on with it: what is written after the recovery must be there after the next.
  std::optional<Finding> check_continued(const io::sim::Image& image, const Expected& expected);
  // Crashes inside the recovery, everywhere.
  std::optional<Finding> check_again(const io::sim::Image& image, const Expected& expected);

  Counts counts;

 private:
  struct Seen;
  std::optional<Finding> open(const io::sim::Image& image, bool with_tasks);
  std::optional<Finding> compare(const Expected& expected, bool rebuilt);
  Task<Result<>> look(Call call, Tokens tokens, std::shared_ptr<Seen> into);

  const Universe& universe_;
  std::unique_ptr<store::SimulatedStore> place_;
};

}  // namespace cairn::crash
