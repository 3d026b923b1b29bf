#include "store/index_rebuild.h"

#include <algorithm>

#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr std::size_t batch_changes = 512;
constexpr Rate read_rate{128u << 20};
constexpr std::uint64_t window = 64u << 10;  // bytes read of a record at most, when its meta is small

}  // namespace

IndexRebuild::IndexRebuild(const Sources& sources, std::uint64_t number, std::string directory,
                           std::uint64_t indexed)
    : sources_(sources),
      number_(number),
      directory_(std::move(directory)),
      indexed_(indexed),
      pace_(sources.machine.shard, read_rate, Bytes{1u << 20}) {}
IndexRebuild::~IndexRebuild() = default;

Task<Result<>> IndexRebuild::open(Call call) {
  CO_TRY_VOID(co_await sources_.maker.destroy(call, sources_.machine, directory_));
  CO_TRY(auto engine, co_await sources_.maker.open(call, sources_.machine, directory_));
  index_ = std::make_shared<OpenIndex>(std::move(engine), number_);
  kv_ = index_->engine->make_port(sources_.machine, Lane::index);
  indexer_ = std::make_unique<Indexer>(*kv_);
  CO_TRY_VOID(co_await indexer_->load(call));
  co_return Result<>{};
}

Task<Result<>> IndexRebuild::close(Call call) {
  indexer_.reset();
  kv_.reset();
  if (const auto index = std::exchange(index_, nullptr))
    co_return co_await index->engine->close(call, sources_.machine);
  co_return Result<>{};
}

Task<Result<>> IndexRebuild::make(Call call) {
  CO_TRY_VOID(co_await read(call, true));
  CO_TRY_VOID(co_await indexer_->end_rebuilding(call));
  CO_TRY_VOID(co_await write(call));
  made_ = true;
  co_return Result<>{};
}

Task<Result<std::uint64_t>> IndexRebuild::follow(Call call) { return read(call, false); }

Task<Result<>> IndexRebuild::flush(Call call) { return kv_->flush(call); }

Task<Result<>> IndexRebuild::write(Call call) {
  CO_TRY(KvBatch batch, indexer_->take(reached_));
  co_return co_await kv_->write(call, std::move(batch));
}

Task<Result<std::uint64_t>> IndexRebuild::read(Call call, bool paced) {
  std::uint64_t records = 0;
  for (;;) {
    const LogPoint end = sources_.log.end();
    const std::vector<SegmentInfo> all = sources_.log.segments();
    const auto next = std::find_if(all.begin(), all.end(),
                                   [&](const SegmentInfo& one) { return one.id >= reached_.next.segment; });
    if (next == all.end()) break;
    if (next->id != reached_.next.segment) reached_.next = {next->id, segment_header_size};
    const bool last = next->id == end.next.segment;
    CO_TRY(const std::uint64_t some,
           co_await read_segment(call, next->id, last ? end.next.offset : next->size, paced));
    records += some;
    if (last) {
      reached_ = end;
      break;
    }
    reached_.next = {next->id + 1, segment_header_size};
  }
  CO_TRY_VOID(co_await write(call));
  co_return records;
}

Task<Result<std::uint64_t>> IndexRebuild::read_segment(Call call, std::uint32_t segment, std::uint64_t until,
                                                       bool paced) {
  auto file = co_await sources_.files.get(call, segment);
  if (!file && file.error().code == ErrorCode::not_found) {
    damaged.push_back({.segment = segment, .to = until, .lost = true});
    co_return std::uint64_t{0};
  }
  if (!file) co_return fail(file.error());
  SegmentScan scan(sources_.machine, *file, segment, sources_.log.key_of(segment), reached_.next.offset,
                   until);
  for (std::uint64_t records = 0;;) {
    CO_TRY(auto found, co_await scan.next(call));
    if (found.damage) damaged.push_back(*found.damage);
    if (found.damage) continue;
    if (!found.entry) co_return records;
    Entry& entry = *found.entry;
    const std::uint64_t size = entry.header.size();
    if (paced) CO_TRY_VOID(co_await pace_.take(call, std::min(size, window)));
    CO_TRY_VOID(co_await indexer_->apply(call, entry.header, entry.at, std::move(entry.meta)));
    for (const Address& address : indexer_->take_gone())
      if (entry.header.sequence > indexed_) sources_.cache.erase(address);
    reached_ = {entry.header.sequence, {segment, static_cast<std::uint32_t>(entry.at.offset + size)}};
    ++records;
    if (indexer_->changes() >= batch_changes) CO_TRY_VOID(co_await write(call));
  }
}

}  // namespace cairn::store
