#include "observe/log.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "observe/log_line.h"

namespace cairn::observe {
namespace {

constexpr std::array<std::string_view, 4> level_names{"debug", "info", "warn", "error"};
// A sink gets whole lines in pieces of about this size, so that one drain of full rings stays bounded.
constexpr std::size_t batch_size = 64 * 1024;

}  // namespace

std::string_view name_of(Level level) noexcept { return level_names[static_cast<std::size_t>(level)]; }

std::optional<Level> find_level(std::string_view name) noexcept {
  const auto found = std::ranges::find(level_names, name);
  if (found == level_names.end()) return std::nullopt;
  return static_cast<Level>(found - level_names.begin());
}

Logger::Logger(Log& log, Slot slot, std::string_view source) : log_(&log), source_(source) {
  CHECK(slot < log.rings_.size());
  ring_ = log.rings_[slot].get();
}

Logger Logger::named(std::string_view source) const noexcept {
  Logger other = *this;
  other.source_ = source;
  return other;
}

bool Logger::enabled(Level level) const noexcept { return log_ != nullptr && level >= log_->level(); }

void Logger::record(Level level, std::string_view message, Fields fields) const noexcept {
  if (!enabled(level)) return;
  if (LogRecord* record = ring_->try_claim()) {
    record->wall_ms = log_->now_().ms;
    record->level = static_cast<std::uint8_t>(level);
    pack_record(*record, source_, message, fields);
    ring_->publish();
  }
  log_->wake();
}

Log::Log(Settings settings, Now now)
    : level_(settings.level), format_(settings.format), now_(std::move(now)) {
  CHECK(settings.slots > 0);
  for (std::uint32_t slot = 0; slot < settings.slots; ++slot)
    rings_.push_back(std::make_unique<LogRing>(settings.records_per_slot));
}

bool Log::quiet() const noexcept {
  for (const auto& ring : rings_)
    if (!ring->empty()) return false;
  return !draining_.load(std::memory_order_acquire);
}

bool Log::drain(const LogSink& sink) {
  draining_.store(
      true, std::memory_order_relaxed);  // before a record is released: that release publishes this flag
  bool any = false;
  bool writable = true;  // a sink that failed is not tried again in this drain: it may wait each time
  std::uint64_t lines_held = 0;
  const auto flush = [&] {
    if (lines_.empty()) return;
    writable = writable && sink(lines_);
    if (!writable) lost_in_sink_.fetch_add(lines_held, std::memory_order_relaxed);
    lines_.clear();
    lines_held = 0;
  };
  for (const auto& ring : rings_) {
    while (const LogRecord* record = ring->front()) {
      render_record(*record, format_, lines_);
      ring->release();
      any = true;
      ++lines_held;
      if (lines_.size() >= batch_size) flush();
    }
  }
  flush();
  if (writable) report_drops(sink);
  draining_.store(false, std::memory_order_release);
  return any;
}

void Log::report_drops(const LogSink& sink) {
  const std::uint64_t drops = dropped();
  if (drops == reported_drops_) return;
  LogRecord record;
  record.wall_ms = now_().ms;
  record.level = static_cast<std::uint8_t>(Level::warn);
  pack_record(record, {}, "log records were dropped", {{"dropped", drops - reported_drops_}});
  render_record(record, format_, lines_);
  // A report that is lost is made again, so it is not counted as a loss of its own.
  if (sink(lines_)) reported_drops_ = drops;
  lines_.clear();
}

void Log::wait() noexcept {
  pending_.wait(0, std::memory_order_acquire);
  pending_.exchange(0, std::memory_order_acq_rel);
}

void Log::wake() noexcept {
  if (pending_.exchange(1, std::memory_order_acq_rel) == 0) pending_.notify_one();
}

std::uint64_t Log::dropped() const noexcept {
  std::uint64_t sum = lost_in_sink_.load(std::memory_order_relaxed);
  for (const auto& ring : rings_) sum += ring->dropped();
  return sum;
}

void Log::declare_metrics(Registry& registry) const {
  registry.observed_counter("log_dropped_total", "Log records lost because the ring or the sink was full.",
                            [this] { return static_cast<double>(dropped()); });
}

std::optional<std::uint64_t> LogEvery::due(Instant now) noexcept {
  if (next_ && now < *next_) {
    ++held_;
    return std::nullopt;
  }
  next_ = now + period_;
  return std::exchange(held_, 0);
}

}  // namespace cairn::observe
