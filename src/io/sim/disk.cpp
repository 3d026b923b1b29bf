#include "io/sim/disk.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cairn::io::sim {

SimDisk::SimDisk(Clockwork& clockwork, std::uint64_t capacity) : clockwork_(clockwork), capacity_(capacity) {
  clockwork_.probes.declare({"disk.lost_write",
                             "disk.lost_name",
                             "disk.torn_write",
                             "disk.garbled_sector",
                             "disk.size_without_data",
                             "disk.reordered",
                             "disk.inflight_kept",
                             "disk.inflight_lost",
                             "disk.sync_failed",
                             "disk.sync_evicted",
                             "disk.read_error",
                             "disk.write_error",
                             "disk.rot",
                             "disk.misdirected_read",
                             "disk.misdirected_write",
                             "disk.stale_read",
                             "disk.cold_read",
                             "disk.full",
                             "disk.stall",
                             "disk.nth_call",
                             "disk.orphan"});
}

SimDisk::~SimDisk() {
  for (auto& operation : operations_) CHECK(operation->waiters.empty());
}

// --- operations

SimDisk::Operation& SimDisk::begin(DiskCall call) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(operations_.size()));
    operations_.push_back(std::make_unique<Operation>());
    operations_.back()->index = free_.back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Operation& operation = *operations_[index];
  operation.disk = this;
  operation.lanes = nullptr;
  operation.call = call;
  ++operation.generation;
  operation.busy = true;
  operation.finished = operation.abandoned = false;
  operation.outcome = {};
  operation.inode = 0;
  operation.direct = false;
  return operation;
}

void SimDisk::submit(Operation& operation) {
  operation.sequence = sequence_;
  operation.forced = forced(operation.call, operation.failure);
  if (operation.inode != 0) ++open_[operation.inode];  // a file stays open until its last operation has ended
  operation.too_late = !powered_;
  if (!powered_) return;
  const bool sync = operation.call == DiskCall::sync_data || operation.call == DiskCall::sync_directory;
  Duration delay = clockwork_.span(sync ? faults.sync_min : faults.latency_min,
                                   sync ? faults.sync_max : faults.latency_max, "disk.latency");
  if (clockwork_.chance(faults.stall, "disk.stall")) {
    clockwork_.probes.hit("disk.stall");
    delay = delay + faults.stall_for;
  }
  if (stalled_until_ > clockwork_.now) {
    clockwork_.probes.hit("disk.stall");
    delay = delay + (stalled_until_ - clockwork_.now);
  }
  clockwork_.after(delay, complete, this, operation.index, operation.generation);
}

void SimDisk::complete(void* self, std::uint64_t index, std::uint64_t generation) {
  auto& disk = *static_cast<SimDisk*>(self);
  Operation& operation = *disk.operations_[index];
  if (operation.generation != generation || !operation.busy || operation.finished || !disk.powered_) return;
  const std::uint64_t inode = operation.inode;
  operation.outcome = disk.perform(operation);
  operation.finished = true;
  if (SimLanes* lanes = std::exchange(operation.lanes, nullptr)) lanes->end(operation);
  if (inode != 0) disk.close(inode);
  disk.clockwork_.fold(
      (index << 8) ^ static_cast<std::uint64_t>(operation.call) ^
      (operation.outcome ? 0 : static_cast<std::uint64_t>(operation.outcome.error().code) << 4));
  if (operation.abandoned)
    disk.release(operation);
  else if (!operation.waiters.empty())
    wake(operation.waiters.front());
}

std::size_t SimDisk::under_way() const noexcept {
  std::size_t count = 0;
  for (const auto& operation : operations_) count += operation->busy && !operation->finished ? 1 : 0;
  return count;
}

void SimDisk::finish_operations() {
  for (std::size_t i = 0; i < operations_.size(); ++i) complete(this, i, operations_[i]->generation);
}

void SimDisk::release(Operation& operation) noexcept {
  if (operation.lanes != nullptr) operation.lanes->end(operation);
  operation.lanes = nullptr;
  operation.busy = false;
  operation.buffer.reset();
  operation.region = {};
  operation.heap = {};
  operation.names.clear();
  free_.push_back(operation.index);
}

void SimDisk::abandon_operations() {
  for (auto& operation : operations_) {
    if (!operation->busy) continue;
    CHECK(operation->waiters.empty());
    if (!operation->finished) {
      // The disk may still have taken an operation that a dying machine had handed to it.
      const bool took = !operation->too_late && clockwork_.choices.pick(2, "disk.inflight") == 1;
      const std::uint64_t inode = operation->inode;
      if (took) (void)perform(*operation);
      if (inode != 0) close(inode);
      clockwork_.probes.hit(took ? Tag("disk.inflight_kept") : Tag("disk.inflight_lost"));
    }
    release(*operation);
  }
}

bool SimDisk::forced(DiskCall call, DiskFailure& how) noexcept {
  const std::uint64_t number = ++calls_[static_cast<std::size_t>(call)];
  for (const Rule& rule : rules_) {
    if (rule.call != call || !(rule.sticky ? number >= rule.at : number == rule.at)) continue;
    clockwork_.probes.hit("disk.nth_call");
    how = rule.how;
    return true;
  }
  return false;
}

void SimDisk::fail_call(DiskCall call, std::uint64_t nth, DiskFailure how, bool sticky) {
  CHECK(nth >= 1);
  rules_.push_back({call, calls(call) + nth, how, sticky});
}

void SimDisk::heal() noexcept {
  rules_.clear();
  stalled_until_ = {};
}

void SimDisk::stall(Duration span) { stalled_until_ = clockwork_.now + span; }

// --- crash

void SimDisk::lose_unsynced() {
  std::vector<Fate> fates;
  fates.reserve(pending_.size());
  for (const Change& change : pending_) {
    Fate fate = Fate::kept;
    if (clockwork_.chance(faults.crash_drop, "disk.crash_drop"))
      fate = Fate::dropped;
    else if (change.kind == Change::Kind::write && clockwork_.chance(faults.crash_tear, "disk.crash_tear"))
      fate = static_cast<Fate>(static_cast<std::uint32_t>(Fate::head) +
                               clockwork_.choices.pick(6, "disk.crash_fate"));
    fates.push_back(fate);
  }
  durable_ = settle(snapshot(), fates, clockwork_.choices, &clockwork_.probes);
  pending_.clear();
  view_ = durable_;
  used_ = view_.bytes();
  stalled_until_ = {};
  changed();
}

void SimDisk::load(const Image& image) {
  CHECK(open_.empty());
  abandon_operations();
  view_ = durable_ = image;
  rotten_in_memory_.clear();
  pending_.clear();
  used_ = view_.bytes();
  for (const auto& [inode, data] : image.files) next_inode_ = std::max(next_inode_, inode + 1);
}

void SimDisk::put(std::string_view path, std::string_view text) {
  const std::string clean = Image::normalise(path);
  for (std::size_t slash = clean.find('/'); slash != std::string::npos; slash = clean.find('/', slash + 1))
    durable_.names[clean.substr(0, slash)] = view_.names[clean.substr(0, slash)] = {true, 0};
  const std::uint64_t inode = next_inode_++;
  view_.put(clean, text, inode);
  durable_.put(clean, text, inode);
  used_ += text.size();
}

void SimDisk::take_away(std::string_view path) {
  Operation operation;
  operation.path = Image::normalise(path);
  CHECK(perform_unlink(operation));
}

bool SimDisk::rot(std::string_view path, std::uint64_t offset, std::byte mask) {
  const Image::Entry* entry = view_.find(Image::normalise(path));
  if (entry == nullptr || entry->directory || offset >= size_of(entry->inode)) return false;
  for (Image* image : {&view_, &durable_}) {
    if (image->data(entry->inode) == nullptr || offset >= image->data(entry->inode)->size()) continue;
    std::byte byte{};
    FileData& file = image->own(entry->inode);
    file.peek(offset, {&byte, 1});
    byte ^= mask;
    file.poke(offset, {&byte, 1});
  }
  clockwork_.probes.hit("disk.rot");
  changed();
  return true;
}

bool SimDisk::rot_in_memory(std::string_view path, std::uint64_t offset, std::byte mask) {
  const Image::Entry* entry = view_.find(Image::normalise(path));
  if (entry == nullptr || entry->directory || offset >= size_of(entry->inode)) return false;
  std::byte& now = rotten_in_memory_[{entry->inode, offset}];
  now ^= mask;
  if (now == std::byte{0}) rotten_in_memory_.erase({entry->inode, offset});
  return true;
}

bool SimDisk::rot_somewhere() {
  std::vector<const std::string*> paths;
  for (const auto& [path, entry] : view_.names)
    if (!entry.directory && size_of(entry.inode) != 0) paths.push_back(&path);
  if (paths.empty()) return false;
  const std::string path =
      *paths[clockwork_.choices.pick(static_cast<std::uint32_t>(paths.size()), "disk.rot_file")];
  const auto size =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(size_of(view_.find(path)->inode), 0xffff'ffffu));
  const std::uint64_t offset = clockwork_.choices.pick(size, "disk.rot_offset");
  return rot(path, offset, static_cast<std::byte>(1u << clockwork_.choices.pick(8, "disk.rot_bit")));
}

// --- state

std::uint64_t SimDisk::size_of(std::uint64_t inode) const noexcept {
  const FileData* data = view_.data(inode);
  return data == nullptr ? 0 : data->size();
}

std::uint64_t SimDisk::random_sector(std::uint64_t inode, Tag tag) {
  const std::uint64_t sectors = (size_of(inode) + sector_size - 1) / sector_size;
  return clockwork_.choices.pick(static_cast<std::uint32_t>(sectors), tag) * sector_size;
}

Change& SimDisk::add_change(Change::Kind kind) {
  Change change{};
  change.kind = kind;
  change.sequence = ++sequence_;
  return pending_.emplace_back(std::move(change));
}

void SimDisk::changed() {
  if (observer_) observer_(*this);
}

bool SimDisk::is_named(std::uint64_t inode) const noexcept {
  return std::any_of(view_.names.begin(), view_.names.end(), [inode](const auto& name) {
    return !name.second.directory && name.second.inode == inode;
  });
}

void SimDisk::unlinked(std::uint64_t inode) {
  if (open_.contains(inode)) return;
  used_ -= size_of(inode);
  view_.files.erase(inode);
}

void SimDisk::close(std::uint64_t inode) noexcept {
  const auto it = open_.find(inode);
  CHECK(it != open_.end());
  if (--it->second != 0) return;
  open_.erase(it);
  if (is_named(inode)) return;
  unlinked(inode);
}

void SimDisk::commit(const Change& change) {
  switch (change.kind) {
    case Change::Kind::write:
      durable_.own(change.inode).write(change.offset, *change.bytes);
      break;
    case Change::Kind::resize:
      durable_.own(change.inode).resize(change.offset);
      break;
    case Change::Kind::create:
      durable_.names[change.path] = {false, change.inode};
      (void)durable_.own(change.inode);  // a name whose file was never written is that of an empty file
      break;
    case Change::Kind::make_directory:
      durable_.names[change.path] = {true, 0};
      break;
    case Change::Kind::unlink:
      durable_.names.erase(change.path);
      break;
    case Change::Kind::rename:
      if (const Image::Entry* old = durable_.find(change.from); old != nullptr && old->inode == change.inode)
        durable_.names.erase(change.from);
      durable_.names[change.path] = {false, change.inode};
      (void)durable_.own(change.inode);
      break;
  }
}

}  // namespace cairn::io::sim
