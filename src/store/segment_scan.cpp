// SegmentScan: reads record after record. Past damage it goes on at the next place that holds a sealed record
// of this segment.
#include <algorithm>
#include <cstring>

#include "store/log.h"
#include "store/second_look.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr std::size_t window_size = 64 << 10;
constexpr std::size_t window_kept = 1 << 20;  // a larger one, for a large meta, is not kept
constexpr std::size_t piece_size = 4096;      // how much a disk fails to read at once
constexpr std::uint32_t fills_per_wait = 8;

}  // namespace

struct SegmentScan::State {
  io::Machine machine;  // a bundle of references
  std::shared_ptr<io::File> file;
  std::uint32_t segment;
  SealKey key;
  std::uint64_t offset;  // of the bytes looked at next
  std::uint64_t end;
  bool head_due;  // the header comes first
  bool past_cache = false;
  bool known = false;      // whether `last` is
  std::uint64_t last = 0;  // the sequence of the record before
  std::uint64_t watermark = 0;
  std::array<std::byte, 16> seal{};
  std::optional<std::uint64_t> damage_from{};  // looking for the next record since here
  std::optional<Entry> held{};                 // found behind damage that is told first
  // The bytes read last: `filled` bytes from `base`.
  std::shared_ptr<HeapBytes> window{};
  std::uint64_t base = 0;
  std::uint32_t fills = 0;
  // The range of bytes that could not be read since damage was last told.
  std::uint64_t hole_from = 0, hole_to = 0;

  Task<Result<ByteView>> view(Call call, std::uint64_t at, std::size_t count);
  Task<Result<>> fill(Call call, std::uint64_t at, std::size_t count);
  Task<Result<>> fill_pieces(Call call, std::uint64_t at, std::size_t count);
  Task<Result<std::optional<Damage>>> read_head(Call call);
  Task<Result<std::optional<Entry>>> probe(Call call);
  bool seek(ByteView from_offset) noexcept;
  Damage damage(std::uint64_t from, std::uint64_t to, std::uint64_t next) noexcept;
  Found found(Entry entry);
  Found finish() noexcept;
};

SegmentScan::SegmentScan(io::Machine& machine, std::shared_ptr<io::File> file, std::uint32_t segment,
                         SealKey key, std::uint64_t from, std::uint64_t end)
    : state_(new State{machine, std::move(file), segment, key, from, end, from < segment_header_size}) {}
SegmentScan::~SegmentScan() = default;

void SegmentScan::expect(std::uint64_t sequence) noexcept {
  CHECK(sequence > 0);
  state_->known = true;
  state_->last = sequence - 1;
}
void SegmentScan::look_past_cache() noexcept {
  state_->past_cache = true;
  state_->window.reset();
}
std::uint64_t SegmentScan::offset() const noexcept { return state_->offset; }
std::array<std::byte, 16> SegmentScan::seal() const noexcept { return state_->seal; }
std::uint64_t SegmentScan::watermark() const noexcept { return state_->watermark; }

Task<Result<SegmentScan::Found>> SegmentScan::next(Call call) {
  State& state = *state_;
  if (state.held) {
    Found found{std::move(state.held), std::nullopt};
    state.held.reset();
    co_return std::move(found);
  }
  if (state.head_due) {
    CO_TRY(std::optional<Damage> damage, co_await state.read_head(call));
    if (damage) co_return Found{std::nullopt, damage};
  }
  while (state.offset + record_header_size <= state.end) {
    if (state.damage_from) {
      CO_TRY(const ByteView bytes, co_await state.view(call, state.offset, record_header_size));
      if (!state.seek(bytes)) continue;
    }
    CO_TRY(std::optional<Entry> entry, co_await state.probe(call));
    if (entry) co_return state.found(std::move(*entry));
  }
  co_return state.finish();
}

// Moves on to the next place where a header may begin. False: there is none in these bytes.
bool SegmentScan::State::seek(ByteView from_offset) noexcept {
  while (from_offset.size() >= record_header_size) {
    if (std::memcmp(from_offset.data(), record_magic.data(), record_magic.size()) == 0) return true;
    from_offset = from_offset.subspan(record_alignment);
    offset += record_alignment;
  }
  return false;
}

// The record at `offset`, if there is one; moves behind it, or begins or continues damage.
Task<Result<std::optional<Entry>>> SegmentScan::State::probe(Call call) {
  CO_TRY(ByteView bytes, co_await view(call, offset, record_header_size));
  const std::optional<RecordHeader> header = peek_header(bytes);
  if (header && header->offset == offset && header->sequence > last && is_tagged(bytes, key)) {
    const std::size_t sealed = record_header_size + header->meta_size;
    if (offset + sealed <= end) {
      CO_TRY(bytes, co_await view(call, offset, sealed));
      if (bytes.size() >= sealed &&
          is_sealed(bytes, bytes.subspan(record_header_size, header->meta_size), key)) {
        watermark = std::max(watermark, header->watermark);
        if (offset + header->size() <= end) {
          seal = seal_in(bytes);
          Entry entry{*header,
                      {segment, static_cast<std::uint32_t>(offset)},
                      std::string(as_text(bytes.subspan(record_header_size, header->meta_size)))};
          co_return std::optional<Entry>(std::move(entry));
        }
        // The end of the record is missing, and the bytes that are there belong to its data.
        if (!damage_from) damage_from = offset;
        offset = end;
        co_return std::optional<Entry>();
      }
    }
  }
  if (!damage_from) damage_from = offset;
  offset += record_alignment;
  co_return std::optional<Entry>();
}

SegmentScan::Found SegmentScan::State::found(Entry entry) {
  const std::uint64_t sequence = entry.header.sequence;
  std::optional<Damage> before;
  if (damage_from || (known && sequence != last + 1))
    before = damage(damage_from.value_or(offset), offset, sequence);
  damage_from.reset();
  offset += entry.header.size();
  known = true;
  last = sequence;
  if (!before) return {std::move(entry), std::nullopt};
  held = std::move(entry);
  return {std::nullopt, before};
}

SegmentScan::Found SegmentScan::State::finish() noexcept {
  const std::uint64_t from = damage_from.value_or(offset);
  damage_from.reset();
  offset = std::max(offset, end);
  if (from >= end) return {};
  return {std::nullopt, damage(from, end, 0)};
}

// `next`: the sequence of the record behind it, or 0.
Damage SegmentScan::State::damage(std::uint64_t from, std::uint64_t to, std::uint64_t next) noexcept {
  Damage damage{segment, from, to, 0, 0, hole_from < to && from < hole_to};
  hole_from = hole_to = 0;
  if (known && next != last + 1) damage.first_sequence = last + 1;
  if (next != 0 && !(known && next == last + 1)) damage.last_sequence = next - 1;
  return damage;
}

Task<Result<std::optional<Damage>>> SegmentScan::State::read_head(Call call) {
  offset = 0;  // whatever it was: the header is one piece
  CO_TRY(const ByteView bytes, co_await view(call, 0, head_size));
  SegmentHeader header;
  const bool good = decode_segment_header(bytes, header) == HeadState::good && header.id == segment;
  if (good && !known) {
    known = true;
    last = header.first_sequence - 1;
  }
  if (good) watermark = std::max(watermark, header.watermark);
  head_due = false;
  offset = std::min<std::uint64_t>(segment_header_size, end);
  if (good || end == 0) co_return std::optional<Damage>();
  const bool unreadable = hole_from < head_size && hole_to > 0;
  co_return std::optional<Damage>(Damage{segment, 0, offset, 0, 0, unreadable});
}

// The bytes at `at`: at least `count`, unless the file ends before.
Task<Result<ByteView>> SegmentScan::State::view(Call call, std::uint64_t at, std::size_t count) {
  const bool there = window != nullptr && at >= base && at + count <= base + window->size();
  if (!there) {
    const std::size_t wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(std::max(count, window_size), end - at));
    CO_TRY_VOID(co_await fill(call, at, wanted));
    if (window->size() < wanted) end = at + window->size();
  }
  co_return std::as_const(*window).bytes().subspan(static_cast<std::size_t>(at - base));
}

Task<Result<>> SegmentScan::State::fill(Call call, std::uint64_t at, std::size_t count) {
  if (past_cache) {
    auto bytes = co_await read_past_cache(call, file, at, count);
    if (bytes) {
      window = std::make_shared<HeapBytes>(std::move(*bytes));
      base = at;
      co_return Result<>{};
    }
    window.reset();
    if (bytes.error().code != ErrorCode::io_failed) co_return fail(bytes.error());
    co_return co_await fill_pieces(call, at, count);
  }
  // The old window goes first: an operation whose waiter left may still write to its own.
  if (window == nullptr || window->capacity() < count || window->capacity() > window_kept)
    window = std::make_shared<HeapBytes>(std::max(count, window_size));
  window->clear();
  base = at;
  const MutableByteView room = window->room().first(count);
  // Every now and then a read waits, so that other tasks get a turn and a stop is seen.
  if (++fills % fills_per_wait != 0) {
    if (const auto got = file->try_read_into(at, room); got && *got == count) {
      window->fill(count);
      co_return Result<>{};
    }
  }
  const auto got = co_await file->read_into(call, at, {room, window});
  if (got) {
    window->fill(*got);
    co_return Result<>{};
  }
  window.reset();
  if (got.error().code != ErrorCode::io_failed) co_return fail(got.error());
  co_return co_await fill_pieces(call, at, count);
}

// After an error: everything that can be read, zeros for the rest. Zeros are no record.
Task<Result<>> SegmentScan::State::fill_pieces(Call call, std::uint64_t at, std::size_t count) {
  auto whole = std::make_shared<HeapBytes>(std::max(count, window_size));
  while (whole->size() < count) {
    const std::uint64_t from = at + whole->size();
    const MutableByteView room = whole->room().first(std::min<std::size_t>(
        piece_size - static_cast<std::size_t>(from % piece_size), count - whole->size()));
    const auto got = co_await file->read_into(call, from, {room, whole});
    if (!got && got.error().code != ErrorCode::io_failed) co_return fail(got.error());
    if (!got) {
      std::memset(room.data(), 0, room.size());
      hole_from = hole_to == 0 ? from : std::min(hole_from, from);
      hole_to = std::max(hole_to, from + room.size());
    }
    whole->fill(got ? *got : room.size());
    if (got && *got < room.size()) break;  // the file ends here
  }
  base = at;
  window = std::move(whole);
  co_return Result<>{};
}

}  // namespace cairn::store
