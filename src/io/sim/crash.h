// The states in which a power cut may leave a disk: the durable image, and each unsynced change with any
// effect that a real disk might have given it.
//
// The model, worst case by default:
//   - changes of different sectors are independent until their file is synced; of one sector the disk has
//     some earlier state or the newest, since the page cache writes it back whole;
//   - a write may be kept, lost, cut, or leave garbage in its place, and a file may have grown without it;
//   - names (create, rename, unlink, mkdir) may be lost independently until their directory is synced;
//     a rename happens wholly or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/sim/choice.h"
#include "io/sim/image.h"
#include "io/sim/probe.h"

namespace cairn::io::sim {

// A change that a sync has not yet made durable.
struct Change {
  enum class Kind : std::uint8_t { write, resize, create, rename, unlink, make_directory };
  Kind kind;
  std::uint64_t sequence = 0;
  std::uint64_t inode = 0;
  std::uint64_t offset = 0;  // of a write; the new size of a resize
  std::shared_ptr<const std::vector<std::byte>> bytes;
  std::string path;          // the name that is made, or removed by unlink
  std::string from;          // the name that a rename removes
  bool path_synced = false;  // a rename between directories is durable once both are synced
  bool from_synced = false;

  bool names() const noexcept { return kind != Kind::write && kind != Kind::resize; }
};

// What a crash did to one change. All but the first two are for writes; under them a name or a resize is
// kept.
enum class Fate : std::uint8_t {
  dropped,
  kept,
  head,           // its first half, cut inside a sector
  tail,           // its second half
  garbled,        // kept, but one sector of it is garbage
  grown,          // the file has its new size, with zeros where the data should be
  grown_garbage,  // the same with garbage
  scattered,      // each sector on its own: kept, dropped, or partly or wholly garbage
};

struct DiskSnapshot {
  Image durable;
  std::vector<Change> pending;
  // Writing part of a sector leaves its other bytes alone even when torn. Without this, a torn append also
  // destroys the other bytes of its sector, synced or not.
  bool powersafe_overwrite = true;
};

// The disk after a crash in which pending[i] met fates[i]. Garbage and scattering are drawn from `choices`.
// Each fault that happened is reported to `probes`, if given.
Image settle(const DiskSnapshot& snapshot, std::span<const Fate> fates, ChoiceSource& choices,
             Probes* probes = nullptr);

struct CrashOptions {
  std::size_t exhaustive = 8;  // up to so many pending changes, every subset of them
  std::size_t random = 64;     // beyond: so many random subsets
  bool tears = true;           // also each kind of tear of the last kept write
  std::uint64_t seed = 1;
};

struct CrashState {
  const Image& image;
  std::uint64_t hash;  // of the image
};

// Visits the states a crash may leave, each distinct one once: nothing kept, all kept, all but one, only one,
// then subsets. Stops when `visit` returns false. Returns how many were visited.
std::size_t crash_states(const DiskSnapshot& snapshot, const std::function<bool(const CrashState&)>& visit,
                         const CrashOptions& options = {});

}  // namespace cairn::io::sim
