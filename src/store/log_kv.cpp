#include "store/log_kv.h"

#include <algorithm>
#include <deque>
#include <map>

#include "crypto/blake3.h"
#include "runtime/guarded.h"
#include "runtime/pool.h"
#include "runtime/wait.h"
#include "store/encoding.h"
#include "store/locks.h"
#include "store/memory_kv.h"

namespace cairn::store {
namespace {

using crypto::Hash;

// The file: a header, then records. All numbers little-endian.
//   header  magic (8), major u16, minor u16, zero u32, seal (16)
//   record  size of the content u32, seal (16), content: changes
//   change  1 u8, size u32, key, size u32, value   or   0 u8, size u32, key
// A seal is keyed by the one before it: the remains of an older record never continue a newer one.
constexpr std::string_view magic = "CAIRNMAP";
constexpr std::uint16_t major_version = 1;
constexpr std::uint16_t minor_version = 0;
constexpr std::size_t seal_size = 16;
constexpr std::size_t header_size = 16 + seal_size;
constexpr std::size_t frame_size = 4 + seal_size;
constexpr std::size_t snapshot_record = 64u
                                        << 10;  // content of a record, about, when the file is written anew

std::string encode(const KvBatch& batch) {
  FieldWriter out;
  for (const KvBatch::Change& change : batch.changes()) {
    out.number<std::uint8_t>(change.value ? 1 : 0);
    out.number(static_cast<std::uint32_t>(change.key.size())).bytes(as_bytes(change.key));
    if (change.value)
      out.number(static_cast<std::uint32_t>(change.value->size())).bytes(as_bytes(*change.value));
  }
  return out.take();
}

bool read_text(FieldReader& in, std::string& out) {
  std::uint32_t size = 0;
  if (!in.number(size).good() || size > in.left()) return false;
  out.resize(size);
  return in.bytes({reinterpret_cast<std::byte*>(out.data()), out.size()}).good();
}

std::optional<KvBatch> decode(ByteView content) {
  KvBatch batch;
  FieldReader in(content);
  while (in.left() > 0) {
    std::uint8_t kind = 0;
    std::string key, value;
    in.number(kind);
    if (kind > 1 || !read_text(in, key)) return std::nullopt;
    if (kind == 1 && !read_text(in, value)) return std::nullopt;
    if (kind == 1)
      batch.put(std::move(key), std::move(value));
    else
      batch.remove(std::move(key));
  }
  return batch;
}

// Where a file ends, and the key of its next seal.
struct Tip {
  std::uint64_t offset = 0;
  Hash seal{};
};

ByteView shown(const Hash& seal) noexcept { return ByteView(seal).first(seal_size); }

std::string header(Tip& tip) {
  FieldWriter out;
  out.bytes(as_bytes(magic)).number(major_version).number(minor_version).number(std::uint32_t{0});
  std::string text = out.take();
  tip.seal = crypto::keyed_hash(Hash{}, as_bytes(text));
  text.append(as_text(shown(tip.seal)));
  tip.offset += text.size();
  return text;
}

std::string record(Tip& tip, std::string_view content) {
  std::string text = FieldWriter().number(static_cast<std::uint32_t>(content.size())).take();
  crypto::KeyedHasher hasher(tip.seal);
  hasher.update(as_bytes(text));
  hasher.update(as_bytes(content));
  tip.seal = hasher.finish();
  text.append(as_text(shown(tip.seal))).append(content);
  tip.offset += text.size();
  return text;
}

// The content of the record at the tip; moves the tip behind the record. None: there is no good one.
std::optional<ByteView> next_record(Tip& tip, ByteView file) {
  const ByteView rest = file.subspan(static_cast<std::size_t>(tip.offset));
  if (rest.size() < frame_size) return std::nullopt;
  std::uint32_t size = 0;
  FieldReader(rest).number(size);
  if (size > rest.size() - frame_size) return std::nullopt;
  const ByteView content = rest.subspan(frame_size, size);
  crypto::KeyedHasher hasher(tip.seal);
  hasher.update(rest.first(4));
  hasher.update(content);
  const Hash seal = hasher.finish();
  if (as_text(rest.subspan(4, seal_size)) != as_text(shown(seal))) return std::nullopt;
  tip.seal = seal;
  tip.offset += frame_size + size;
  return content;
}

std::vector<HeapBytes> blocks_of(std::string_view text) {
  std::vector<HeapBytes> blocks;
  blocks.emplace_back(text.size()).append(as_bytes(text));
  return blocks;
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_stop(ErrorCode code) noexcept { return code == ErrorCode::cancelled || code == ErrorCode::timeout; }

// Removes a file; that there is none is no error.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): as the machine it is of
Task<Result<>> remove_file(Call call, io::Disk& disk, std::string path) {
  auto removed = co_await disk.unlink(call, std::move(path));
  if (!removed && removed.error().code != ErrorCode::not_found) co_return removed;
  co_return Result<>{};
}

}  // namespace

// Ranges of keys by directory.
struct LogKvMaker::Rotten {
  std::multimap<std::string, std::pair<std::string, std::string>> ranges;
  bool meets(const std::string& directory, std::string_view from, std::string_view until) const {
    const auto [first, last] = ranges.equal_range(directory);
    return std::any_of(first, last,
                       [&](const auto& one) { return one.second.first < until && from < one.second.second; });
  }
};

class LogEngine final : public KvEngine, public std::enable_shared_from_this<LogEngine> {
 public:
  using Rotten = LogKvMaker::Rotten;
  LogEngine(const LogKvMaker& maker, io::Disk& disk, std::string directory)
      : options_(maker.options_),
        rotten_(maker.rotten_),
        keys_read_(maker.keys_read_),
        disk_(disk),
        directory_(std::move(directory)) {}

  Task<Result<>> open(Call call);

  std::unique_ptr<Kv> make_port(io::Machine& machine, Lane reads) override;
  std::uint64_t memory() const noexcept override {
    return state_.with([](const State& state) { return state.map.memory() + state.unwritten_bytes; });
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the interface; not used
  Task<Result<>> close(Call call, io::Machine&) override {
    auto flushed = co_await flush(call);
    if (!flushed && is_stop(flushed.error().code)) co_return flushed;
    file_.reset();
    co_return flushed;
  }

  Result<std::optional<std::string>> find(std::string_view key) const {
    keys_read_->fetch_add(1, std::memory_order_relaxed);
    if (rotten_->meets(directory_, key, std::string(key) + '\0')) return fail(ErrorCode::integrity, "map");
    return state_.with([&](const State& state) { return state.map.find(key); });
  }
  Result<std::vector<KvPair>> scan(std::string_view from, std::string_view until, std::size_t limit) const {
    auto found = state_.with([&](const State& state) { return state.map.scan(from, until, limit); });
    keys_read_->fetch_add(found.size() + 1, std::memory_order_relaxed);
    std::string end(until);
    if (found.size() == limit) end = found.empty() ? std::string(from) : found.back().key + '\0';
    if (rotten_->meets(directory_, from, end)) return fail(ErrorCode::integrity, "scan map");
    return found;
  }
  Result<KvVerified> verify() const {
    if (rotten_->ranges.contains(directory_)) return fail(ErrorCode::integrity, "verify map");
    return KvVerified{"", memory()};
  }
  // Ready also when fenced: the write then says what is wrong with the map.
  bool is_ready() const {
    return state_.with(
        [&](const State& state) { return state.fenced || state.unwritten_bytes <= options_.unwritten_max; });
  }
  Task<Result<>> write(Call call, KvBatch batch);
  Task<Result<>> flush(Call call);
  std::uint32_t cold() const noexcept { return options_.cold; }

 private:
  struct State {
    KvMap map;
    std::deque<std::string> unwritten;  // contents of records that are visible and not in the file
    std::uint64_t unwritten_bytes = 0;
    bool writing = false;  // a task has the file
    bool fenced = false;

    void written(std::size_t count) {
      for (; count > 0; --count) {
        unwritten_bytes -= unwritten.front().size();
        unwritten.pop_front();
      }
    }
  };
  std::string file_path() const { return directory_ + "/map"; }
  std::string new_path() const { return directory_ + "/map-new"; }
  // A step on the disk is not left half way: its deadline is the disk's, not the caller's.
  Call steady(Call call) const { return call.unbounded().within(options_.patience); }
  Result<> fence(Error error) {
    state_.with([](State& state) { state.fenced = true; });
    return fail(error);
  }
  // --- by the task that has the file
  Task<Result<>> write_all(Call call);
  Task<Result<>> write_some(Call call);
  Task<Result<>> compact_if_due(Call call);
  Task<Result<>> write_anew(Call call);
  Task<Result<>> replay(Call call);

  const LogKvOptions options_;
  const std::shared_ptr<const Rotten> rotten_;
  const std::shared_ptr<std::atomic<std::uint64_t>> keys_read_;
  io::Disk& disk_;
  const std::string directory_;
  Guarded<State, index_map_lock.rank> state_;
  // --- of the task that has the file
  std::shared_ptr<io::File> file_;
  Tip tip_;
  std::uint64_t compact_at_ = 0;  // after an attempt that failed: not before this size
};

Task<Result<>> LogEngine::open(Call call) {
  auto made = co_await disk_.make_directory(call, directory_);
  if (!made && made.error().code != ErrorCode::conflict) co_return made;
  CO_TRY_VOID(co_await disk_.sync_directory(call, parent_of(directory_)));
  CO_TRY_VOID(co_await remove_file(call, disk_, new_path()));
  auto opened = co_await disk_.open(call, file_path(), io::OpenMode::write);
  if (!opened && opened.error().code != ErrorCode::not_found) co_return fail(opened.error());
  if (!opened) co_return co_await write_anew(call);
  file_ = std::move(*opened);
  co_return co_await replay(call);
}

Task<Result<>> LogEngine::replay(Call call) {
  CO_TRY(const std::uint64_t size, file_->size());
  auto whole = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size));
  CO_TRY(const std::size_t got, co_await file_->read_into(call, 0, io::Region{*whole, whole}));
  const ByteView bytes = ByteView(*whole).first(got);
  // The file was complete before it got its name: a header that is not good is not a torn one.
  if (as_text(bytes.first(std::min(got, header_size))) != header(tip_))
    co_return fail(ErrorCode::integrity, "map header");
  while (true) {
    Tip next = tip_;
    const std::optional<ByteView> content = next_record(next, bytes);
    if (!content) break;
    const std::optional<KvBatch> batch = decode(*content);
    if (!batch) co_return fail(ErrorCode::integrity, "map record");  // sealed, and still not ours
    state_.with([&](State& state) { state.map.apply(*batch); });
    tip_ = next;
  }
  if (tip_.offset < size) CO_TRY_VOID(co_await file_->truncate(call, tip_.offset));
  co_return Result<>{};
}

Task<Result<>> LogEngine::write(Call call, KvBatch batch) {
  std::string content = encode(batch);
  enum class Then : std::uint8_t { refuse, full, write, leave };
  const Then then = state_.with([&](State& state) {
    if (state.fenced) return Then::refuse;
    if (state.unwritten_bytes > options_.unwritten_max) return Then::full;
    state.map.apply(batch);
    state.unwritten_bytes += content.size();
    state.unwritten.push_back(std::move(content));
    return std::exchange(state.writing, true) ? Then::leave : Then::write;
  });
  if (then == Then::refuse) co_return fail(ErrorCode::degraded, "map is fenced");
  if (then == Then::leave) co_return Result<>{};
  if (then == Then::full) {
    // Waiting batches must go first; this batch is not applied if they cannot.
    CO_TRY_VOID(co_await flush(call));
    co_return co_await write(call, std::move(batch));
  }
  auto written = co_await write_all(call);
  if (!written && state_.with([](const State& state) { return state.fenced; })) co_return written;
  co_return Result<>{};
}

Task<Result<>> LogEngine::flush(Call call) {
  // The task that has the file may be on another shard: looks again until that task has let go.
  while (state_.with([](State& state) { return std::exchange(state.writing, true); }))
    CO_TRY_VOID(co_await sleep_for(call, Duration::micros(200)));
  auto outcome = co_await write_some(call);
  if (outcome) {
    outcome = co_await file_->sync_data(steady(call));
    if (!outcome) outcome = fence(outcome.error());
  }
  (void)co_await write_all(call);  // came meanwhile, and is not part of this flush
  co_return outcome;
}

// Writes all batches that wait or come to wait, then gives the file back.
Task<Result<>> LogEngine::write_all(Call call) {
  while (true) {
    auto outcome = co_await write_some(call);
    if (outcome) outcome = co_await compact_if_due(call);
    const bool done = state_.with([&](State& state) {
      if (outcome && !state.unwritten.empty()) return false;
      state.writing = false;
      return true;
    });
    if (done) co_return outcome;
  }
}

// Writes the batches that wait now. The file and the tip stay as they were if the disk refuses.
Task<Result<>> LogEngine::write_some(Call call) {
  Tip tip = tip_;
  std::string text;
  std::size_t count = 0;
  const bool fenced = state_.with([&](const State& state) {
    for (const std::string& content : state.unwritten) text += record(tip, content);
    count = state.unwritten.size();
    return state.fenced;
  });
  if (fenced) co_return fail(ErrorCode::degraded, "map is fenced");
  if (count == 0) co_return Result<>{};
  auto written = co_await file_->write_blocks(steady(call), tip_.offset, blocks_of(text), io::Sync::no);
  if (!written) co_return is_stop(written.error().code) ? fence(written.error()) : written;
  tip_ = tip;
  state_.with([&](State& state) { state.written(count); });
  co_return Result<>{};
}

Task<Result<>> LogEngine::compact_if_due(Call call) {
  const std::uint64_t alive = state_.with([](const State& state) { return state.map.bytes(); });
  if (tip_.offset <= std::max(options_.compact_above, compact_at_) ||
      tip_.offset <= options_.compact_factor * alive)
    co_return Result<>{};
  auto written = co_await write_anew(steady(call));
  if (written || state_.with([](const State& state) { return state.fenced; })) co_return written;
  if (is_stop(written.error().code)) co_return fence(written.error());
  compact_at_ = 2 * tip_.offset;
  co_return Result<>{};  // the old file is as good as before
}

// Writes the whole map as a new file, which takes the place of the old one, durable. Batches that become
// visible from here on go behind it.
Task<Result<>> LogEngine::write_anew(Call call) {
  Tip tip;
  std::string text = header(tip);
  const std::size_t covered = state_.with([&](const State& state) {
    KvBatch some;
    std::size_t size = 0;
    const auto put_record = [&] {
      if (!some.empty()) text += record(tip, encode(some));
      some.clear();
      size = 0;
    };
    for (const auto& [key, value] : state.map.pairs()) {
      some.put(key, value);
      size += key.size() + value.size();
      if (size >= snapshot_record) put_record();
    }
    put_record();
    return state.unwritten.size();  // these are in the map, and so in the file
  });
  CO_TRY_VOID(co_await remove_file(call, disk_, new_path()));
  CO_TRY(std::shared_ptr<io::File> file, co_await disk_.open(call, new_path(), io::OpenMode::create_new));
  CO_TRY_VOID(co_await file->write_blocks(call, 0, blocks_of(text), io::Sync::data));
  // From here on a failure leaves open which of the two files a crash would find.
  auto placed = co_await disk_.rename(call, new_path(), file_path());
  if (placed) placed = co_await disk_.sync_directory(call, directory_);
  if (!placed) co_return fence(placed.error());
  file_ = std::move(file);
  tip_ = tip;
  compact_at_ = 0;
  state_.with([&](State& state) { state.written(covered); });
  co_return Result<>{};
}

namespace {

class LogPort final : public Kv {
 public:
  LogPort(std::shared_ptr<LogEngine> engine, Shard& shard, Pool& pool, Lane reads) noexcept
      : engine_(std::move(engine)), shard_(shard), pool_(pool), reads_(reads) {}

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    if (shard_.random().chance(engine_->cold(), 1'000'000)) return fail(ErrorCode::busy, "not in memory");
    return engine_->find(key);
  }
  Task<Result<std::optional<std::string>>> get(Call call, std::string key) override {
    auto found = try_get(key);
    if (found || found.error().code != ErrorCode::busy) co_return found;
    co_return co_await run(pool_, call, reads_,
                           [engine = engine_, key = std::move(key)] { return engine->find(key); });
  }
  Task<Result<std::vector<KvPair>>> scan(Call call, std::string from, std::string until,
                                         std::size_t limit) override {
    return run(pool_, call, reads_,
               [engine = engine_, from = std::move(from), until = std::move(until), limit] {
                 return engine->scan(from, until, limit);
               });
  }
  Task<Result<>> make_ready(Call call) override {
    if (engine_->is_ready()) co_return Result<>{};
    co_return co_await engine_->flush(call);
  }
  Task<Result<>> write(Call call, KvBatch batch) override { return engine_->write(call, std::move(batch)); }
  Task<Result<>> flush(Call call) override { return engine_->flush(call); }
  Task<Result<KvVerified>> verify(Call call, std::string) override {
    return run(pool_, call, Lane::read, [engine = engine_] { return engine->verify(); });
  }

 private:
  std::shared_ptr<LogEngine> engine_;
  Shard& shard_;
  Pool& pool_;
  Lane reads_;
};

}  // namespace

std::unique_ptr<Kv> LogEngine::make_port(io::Machine& machine, Lane reads) {
  return std::make_unique<LogPort>(shared_from_this(), machine.shard, machine.pool, reads);
}

LogKvMaker::LogKvMaker(LogKvOptions options) : options_(options), rotten_(std::make_shared<Rotten>()) {}

void LogKvMaker::damage(const std::string& directory, std::string from, std::string until) {
  rotten_->ranges.emplace(directory, std::pair(std::move(from), std::move(until)));
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller's shard outlives it
Task<Result<std::shared_ptr<KvEngine>>> LogKvMaker::open(Call call, io::Machine& machine,
                                                         std::string directory) {
  auto engine = std::make_shared<LogEngine>(*this, machine.disk, std::move(directory));
  CO_TRY_VOID(co_await engine->open(call));
  co_return std::move(engine);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller's shard outlives it
Task<Result<>> LogKvMaker::destroy(Call call, io::Machine& machine, std::string directory) {
  io::Disk& disk = machine.disk;
  rotten_->ranges.erase(directory);
  CO_TRY_VOID(co_await remove_file(call, disk, directory + "/map"));
  CO_TRY_VOID(co_await remove_file(call, disk, directory + "/map-new"));
  auto synced = co_await disk.sync_directory(call, directory);
  if (!synced && synced.error().code == ErrorCode::not_found) co_return Result<>{};
  co_return synced;
}

}  // namespace cairn::store
