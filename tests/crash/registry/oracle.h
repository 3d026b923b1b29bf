// What a registry must be after a crash: the observer that compares, and the reopener that brings it back.
//
// Oracles: opens, no_damage, acknowledged, heads (a version that was answered is another one), reads, chain
// (a verifier that trusts only the roots refuses it), one_root (two roots were signed for one size), signed
// (what is signed is not what is there), tiles, equal (made anew from the log it is another), files (the
// verifier of directories complains), continues.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "crash/explore.h"
#include "crash/registry/model.h"
#include "services/registry/simulated_registry.h"

namespace cairn::crash {

// Names of what was acknowledged.
struct ChainNames {
  struct Proposal {
    Ulid id;
    Address payload_b3;
  };
  std::map<int, Proposal> proposals;
  std::map<std::uint64_t, registry::Head> heads;
};

// What may be found after a crash.
struct ChainExpected {
  PossibleChains possible;
  ChainNames names;
  std::uint64_t hash() const { return possible.hash(); }
};

registry::RegistryOptions chain_options();

// Looks at a registry that is open. It remembers what it has verified, and every root that was ever signed in
// one history.
class ChainObserver {
 public:
  explicit ChainObserver(const registry::Founding& founding);
  bool tiles = true;      // whether they must be there
  bool thorough = false;  // everything is read, also what was verified before
  // What was signed in the history that it looks at; another one may have other roots for the same sizes.
  std::map<std::uint64_t, crypto::MerkleHash> history() const { return roots_; }
  void set_history(std::map<std::uint64_t, crypto::MerkleHash> roots) { roots_ = std::move(roots); }
  std::optional<Finding> compare(registry::SimulatedRegistry& place, const ChainExpected& expected);

 private:
  std::optional<Finding> check_chain(registry::SimulatedRegistry& place);
  std::optional<Finding> check_notes(registry::SimulatedRegistry& place);
  std::optional<Finding> check_tiles(registry::SimulatedRegistry& place,
                                     const crypto::Checkpoint& signed_head);
  std::optional<Finding> check_note(registry::SimulatedRegistry& place, const std::string& text,
                                    crypto::Checkpoint& out);

  const registry::Founding& founding_;
  crypto::NoteVerifier verifier_;
  std::unordered_map<std::string, crypto::MerkleHash> verified_;  // a chain → its root
  std::unordered_map<std::string, bool> notes_;                   // whether they are signed
  std::map<std::uint64_t, crypto::MerkleHash> roots_;             // size → what was signed
};

// One world that opens image after image.
class ChainReopener {
 public:
  explicit ChainReopener(const registry::Founding& founding);

  void excuse_tiles() { observer_.tiles = false; }
  void begin_history() { observer_.set_history({}); }
  // Is what `image` holds one of the possible?
  std::optional<Finding> check(const io::sim::Image& image, const ChainExpected& expected);
  // The same without its snapshot: the state made anew must equal the one that was kept.
  std::optional<Finding> check_rebuilt(const io::sim::Image& image, const ChainExpected& expected);
  // Goes on with it: what is committed after the recovery must be there after the next.
  std::optional<Finding> check_continued(const io::sim::Image& image, const ChainExpected& expected);
  // Crashes inside the recovery, everywhere.
  std::optional<Finding> check_again(const io::sim::Image& image, const ChainExpected& expected);

  Counts counts;

 private:
  void load(const io::sim::Image& image);
  std::optional<Finding> make_anew(const io::sim::Image& image, const ChainExpected& expected);
  std::optional<Finding> go_on(const ChainExpected& expected);
  std::optional<Finding> open(const io::sim::Image& image, bool with_committer);

  const registry::Founding& founding_;
  ChainObserver observer_;
  std::unique_ptr<registry::SimulatedRegistry> place_;
};

}  // namespace cairn::crash
