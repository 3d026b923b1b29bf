// Oracle: opens what a crash left with the real recovery and compares what is there with what may be.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crash/model.h"
#include "store/simulated_store.h"

namespace cairn::crash {

// What operations are about.
struct Universe {
  Universe();
  std::vector<std::string> contents;
  std::vector<Address> addresses;
};
inline constexpr int small = 0, medium = 1, two_groups = 2, other = 3, fresh = 4, empty = 5;

// Names of the uploads that were begun, where they are known.
using Tokens = std::map<int, Ulid>;

struct Finding {
  std::string oracle;  // one word: which promise was broken
  std::string detail;
};

struct Counts {
  std::uint64_t reopened = 0;
  std::uint64_t rebuilt = 0;    // with the index taken away
  std::uint64_t continued = 0;  // written to after the recovery, and opened once more
  std::uint64_t again = 0;      // crashed once more inside the recovery
};

// One world that opens image after image.
class Reopener {
 public:
  Reopener(const Universe& universe, const store::StoreOptions& options);
  ~Reopener();

  // Is what `image` holds one of the possible?
  std::optional<Finding> check(const io::sim::Image& image, const Possible& possible, const Tokens& tokens);
  // The same without its index, which must come out equal to the one that was kept.
  std::optional<Finding> check_rebuilt(const io::sim::Image& image, const Possible& possible,
                                       const Tokens& tokens);
  // Goes on with it: what is written after the recovery must be there after the next.
  std::optional<Finding> check_continued(const io::sim::Image& image, const Possible& possible,
                                         const Tokens& tokens);
  // Crashes inside the recovery, everywhere.
  std::optional<Finding> check_again(const io::sim::Image& image, const Possible& possible,
                                     const Tokens& tokens);

  Counts counts;

 private:
  struct Seen;
  std::optional<Finding> open(const io::sim::Image& image, bool with_tasks);
  std::optional<Finding> compare(const Possible& possible, const Tokens& tokens, bool rebuilt);
  Task<Result<>> look(Call call, Tokens tokens, std::shared_ptr<Seen> into);

  const Universe& universe_;
  std::unique_ptr<store::SimulatedStore> place_;
};

}  // namespace cairn::crash
