#include "io/sim/crash.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "base/check.h"

namespace cairn::io::sim {
namespace {

struct Range {
  std::uint64_t begin;
  std::uint64_t end;
};

// Applies the changes one after the other to `now` (what the page cache held) and, as far as their fates
// allow, to `out`.
class Settling {
 public:
  Settling(const DiskSnapshot& snapshot, ChoiceSource& choices, Probes* probes)
      : snapshot_(snapshot), choices_(choices), probes_(probes), out_(snapshot.durable) {}

  void apply(const Change& change, Fate fate) {
    if (change.names())
      apply_name(change, fate);
    else if (change.kind == Change::Kind::resize)
      apply_resize(change, fate);
    else
      apply_write(change, fate);
  }
  Image finish() && {
    for (auto& [inode, data] : out_.files) {
      if (cached_.contains(inode)) out_.own(inode).resize(data->size());  // no bytes remain beyond the end
    }
    out_.prune([](std::uint64_t) { return false; });
    return std::move(out_);
  }

 private:
  void hit(Tag tag) {
    if (probes_ != nullptr) probes_->hit(tag);
  }
  FileData& cached(std::uint64_t inode) {
    const auto it = cached_.find(inode);
    if (it != cached_.end()) return it->second;
    const FileData* durable = snapshot_.durable.data(inode);
    return cached_.emplace(inode, durable == nullptr ? FileData() : *durable).first->second;
  }

  void apply_name(const Change& change, Fate fate) {
    if (fate == Fate::dropped) {
      hit("disk.lost_name");
      dropped_ = true;
      return;
    }
    if (dropped_) hit("disk.reordered");
    switch (change.kind) {
      case Change::Kind::create:
        out_.names[change.path] = {false, change.inode};
        (void)out_.own(change.inode);
        break;
      case Change::Kind::make_directory:
        out_.names[change.path] = {true, 0};
        break;
      case Change::Kind::unlink:
        out_.names.erase(change.path);
        break;
      default:
        // By inode: the old name may never have reached the disk.
        if (const Image::Entry* old = out_.find(change.from); old != nullptr && old->inode == change.inode)
          out_.names.erase(change.from);
        out_.names[change.path] = {false, change.inode};
    }
  }

  void apply_resize(const Change& change, Fate fate) {
    cached(change.inode).resize(change.offset);
    if (fate == Fate::dropped) {
      dropped_ = true;
      return;
    }
    out_.own(change.inode).resize(change.offset);
  }

  void apply_write(const Change& change, Fate fate) {
    FileData& cache = cached(change.inode);
    cache.write(change.offset, *change.bytes);
    const std::uint64_t end = change.offset + change.bytes->size();
    if (fate == Fate::dropped) {
      hit("disk.lost_write");
      dropped_ = true;
      return;
    }
    if (dropped_) hit("disk.reordered");
    FileData& file = out_.own(change.inode);
    const std::uint64_t before = file.size();
    const std::uint64_t middle = change.offset + (change.bytes->size() + 1) / 2;
    switch (fate) {
      case Fate::head:
        keep_exactly(file, cache, {change.offset / sector_size * sector_size, middle});
        break;
      case Fate::tail:
        keep_exactly(file, cache, {middle, end});
        break;
      case Fate::grown:
      case Fate::grown_garbage:
        hit("disk.size_without_data");
        if (fate == Fate::grown_garbage && end > before) garble(file, {std::max(before, change.offset), end});
        break;
      case Fate::scattered:
        scatter(file, cache, {change.offset, end});
        break;
      default:
        keep(file, cache, {change.offset, end});
        break;
    }
    if (fate == Fate::head || fate == Fate::tail) hit("disk.torn_write");
    if (fate == Fate::garbled) {
      const auto sectors =
          static_cast<std::uint32_t>((end - 1) / sector_size - change.offset / sector_size + 1);
      garble(file, within({change.offset, end},
                          change.offset / sector_size + choices_.pick(sectors, "crash.sector")));
    }
    file.grow(fate == Fate::head ? middle : end);
  }

  // The part of `range` that lies in `sector`.
  static Range within(Range range, std::uint64_t sector) noexcept {
    return {std::max(range.begin, sector * sector_size), std::min(range.end, (sector + 1) * sector_size)};
  }
  // Writes back the whole sectors of `range`, with all that the cache holds in them. Bytes beyond the end of
  // the file stay invisible.
  void keep(FileData& file, const FileData& cache, Range range) {
    keep_exactly(
        file, cache,
        {range.begin / sector_size * sector_size, (range.end + sector_size - 1) / sector_size * sector_size});
  }
  void keep_exactly(FileData& file, const FileData& cache, Range range) {
    if (range.begin >= range.end) return;
    scratch_.resize(static_cast<std::size_t>(range.end - range.begin));
    cache.peek(range.begin, scratch_);
    file.poke(range.begin, scratch_);
  }
  void garble(FileData& file, Range range) {
    if (range.begin >= range.end) return;
    hit("disk.garbled_sector");
    if (!snapshot_.powersafe_overwrite) {
      range.begin = range.begin / sector_size * sector_size;
      range.end = std::min((range.end + sector_size - 1) / sector_size * sector_size,
                           std::max(range.end, file.size()));
    }
    Random noise(choices_.pick(0x7fff'ffff, "crash.noise"));
    scratch_.resize(static_cast<std::size_t>(range.end - range.begin));
    for (std::byte& byte : scratch_) byte = static_cast<std::byte>(noise.next() >> 56);
    file.poke(range.begin, scratch_);
  }
  void scatter(FileData& file, const FileData& cache, Range range) {
    for (std::uint64_t sector = range.begin / sector_size; sector * sector_size < range.end; ++sector) {
      const Range part = within(range, sector);
      const std::uint64_t middle = (part.begin + part.end) / 2;
      const std::uint32_t fate = choices_.pick(6, "crash.scatter");
      if (fate == 2) {
        hit("disk.lost_write");
        continue;
      }
      keep(file, cache, part);
      if (fate == 3) garble(file, {part.begin, middle});
      if (fate == 4) garble(file, {middle, part.end});
      if (fate == 5) garble(file, part);
      if (fate >= 3) hit("disk.torn_write");
    }
  }

  const DiskSnapshot& snapshot_;
  ChoiceSource& choices_;
  Probes* probes_;
  Image out_;
  std::map<std::uint64_t, FileData> cached_;
  std::vector<std::byte> scratch_;
  bool dropped_ = false;
};

class Enumeration {
 public:
  Enumeration(const DiskSnapshot& snapshot, const std::function<bool(const CrashState&)>& visit,
              const CrashOptions& options)
      : snapshot_(snapshot), visit_(visit), options_(options), fates_(snapshot.pending.size()) {}

  std::size_t run() {
    const std::size_t count = fates_.size();
    subset([](std::size_t) { return false; });
    subset([](std::size_t) { return true; });
    for (std::size_t odd = 0; odd < count; ++odd) {
      subset([&](std::size_t i) { return i != odd; });
      subset([&](std::size_t i) { return i == odd; });
    }
    if (count <= options_.exhaustive) {
      for (std::uint64_t mask = 0; mask < (std::uint64_t{1} << count); ++mask)
        subset([&](std::size_t i) { return ((mask >> i) & 1) != 0; });
    } else {
      Random random(options_.seed);
      for (std::size_t n = 0; n < options_.random; ++n)
        subset([&](std::size_t) { return random.chance(1, 2); });
    }
    return visited_;
  }

 private:
  template <class Keep>
  void subset(Keep keep) {
    if (stopped_) return;
    std::size_t last = fates_.size();
    for (std::size_t i = 0; i < fates_.size(); ++i) {
      fates_[i] = keep(i) ? Fate::kept : Fate::dropped;
      if (fates_[i] == Fate::kept && snapshot_.pending[i].kind == Change::Kind::write) last = i;
    }
    emit();
    if (!options_.tears || last == fates_.size()) return;
    for (const Fate tear :
         {Fate::head, Fate::tail, Fate::garbled, Fate::grown, Fate::grown_garbage, Fate::scattered}) {
      fates_[last] = tear;
      emit();
    }
  }
  void emit() {
    if (stopped_) return;
    RandomChoices choices(options_.seed);  // the same garbage each time: equal states stay equal
    const Image image = settle(snapshot_, fates_, choices);
    const std::uint64_t hash = image.hash();
    if (!seen_.insert(hash).second) return;
    ++visited_;
    stopped_ = !visit_({image, hash});
  }

  const DiskSnapshot& snapshot_;
  const std::function<bool(const CrashState&)>& visit_;
  const CrashOptions& options_;
  std::vector<Fate> fates_;
  std::unordered_set<std::uint64_t> seen_;
  std::size_t visited_ = 0;
  bool stopped_ = false;
};

}  // namespace

Image settle(const DiskSnapshot& snapshot, std::span<const Fate> fates, ChoiceSource& choices,
             Probes* probes) {
  CHECK(fates.size() == snapshot.pending.size());
  Settling settling(snapshot, choices, probes);
  for (std::size_t i = 0; i < fates.size(); ++i) settling.apply(snapshot.pending[i], fates[i]);
  return std::move(settling).finish();
}

std::size_t crash_states(const DiskSnapshot& snapshot, const std::function<bool(const CrashState&)>& visit,
                         const CrashOptions& options) {
  return Enumeration(snapshot, visit, options).run();
}

}  // namespace cairn::io::sim
