// Structured logs: recorded into a bounded ring per slot without lock or allocation, rendered elsewhere.
//
// `Log` is owned by a node. Each slot (shard or pool thread) records through its own `Logger` into its own
// ring; one consumer drains all rings: the thread of LogThread, or in simulation the world itself, between
// steps. A record is 512 bytes; a longer one is cut and marked `"truncated":true`. A record that finds its
// ring full is dropped and counted, and the next drain reports the count.
//
// Lines carry `ts` (RFC 3339, milliseconds), `level`, `msg`, the logger's `source`, then the fields in order.
// Secrets, tokens and bodies never reach a record: wrap them in Secret, which prints `[redacted]`.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "observe/log_ring.h"
#include "observe/metric.h"
#include "observe/secret.h"

namespace cairn::observe {

enum class Level : std::uint8_t { debug, info, warn, error };
std::string_view name_of(Level level) noexcept;
std::optional<Level> find_level(std::string_view name) noexcept;

enum class LogFormat : std::uint8_t { json, text };

// A key and a value; views only, read before the logging call returns.
class Field {
 public:
  enum class Kind : std::uint8_t { text, integer, natural, real, boolean };

  Field(std::string_view key, std::string_view value) : key_(key), text_(value), kind_(Kind::text) {}
  Field(std::string_view key, const char* value) : Field(key, std::string_view(value)) {}
  Field(std::string_view key, const std::string& value) : Field(key, std::string_view(value)) {}
  Field(std::string_view key, const Secret&) : Field(key, redacted) {}
  Field(std::string_view key, bool value) : key_(key), bits_(value), kind_(Kind::boolean) {}
  template <std::signed_integral T>
  Field(std::string_view key, T value)
      : key_(key), bits_(static_cast<std::uint64_t>(std::int64_t{value})), kind_(Kind::integer) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Field(std::string_view key, T value) : key_(key), bits_(value), kind_(Kind::natural) {}
  template <std::floating_point T>
  Field(std::string_view key, T value)
      : key_(key), bits_(std::bit_cast<std::uint64_t>(static_cast<double>(value))), kind_(Kind::real) {}

  std::string_view key() const noexcept { return key_; }
  std::string_view text() const noexcept { return text_; }
  std::uint64_t bits() const noexcept { return bits_; }
  Kind kind() const noexcept { return kind_; }

 private:
  std::string_view key_;
  std::string_view text_;
  std::uint64_t bits_ = 0;
  Kind kind_;
};

using Fields = std::initializer_list<Field>;

class Log;

// A slot's way to the log: a copyable value, used only by the slot's thread. `source` is the name of the
// service that logs and must outlive the logger; empty prints nothing.
class Logger {
 public:
  // Records nothing.
  Logger() = default;
  Logger(Log& log, Slot slot, std::string_view source = {});

  Logger named(std::string_view source) const noexcept;

  bool enabled(Level level) const noexcept;
  void debug(std::string_view message, Fields fields = {}) const noexcept {
    record(Level::debug, message, fields);
  }
  void info(std::string_view message, Fields fields = {}) const noexcept {
    record(Level::info, message, fields);
  }
  void warn(std::string_view message, Fields fields = {}) const noexcept {
    record(Level::warn, message, fields);
  }
  void error(std::string_view message, Fields fields = {}) const noexcept {
    record(Level::error, message, fields);
  }
  void record(Level level, std::string_view message, Fields fields) const noexcept;

 private:
  Log* log_ = nullptr;
  LogRing* ring_ = nullptr;
  std::string_view source_;
};

// Takes one or more whole rendered lines, each with its newline. False: they were lost.
using LogSink = std::function<bool(std::string_view lines)>;

class Log {
 public:
  // `now` is called by every slot's thread.
  using Now = std::function<WallTime()>;
  struct Settings {
    std::uint32_t slots = 1;
    std::uint32_t records_per_slot = 256;  // rounded up to a power of two
    Level level = Level::info;
    LogFormat format = LogFormat::json;
  };

  Log(Settings settings, Now now);
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  Level level() const noexcept { return level_.load(std::memory_order_relaxed); }
  void set_level(Level level) noexcept { level_.store(level, std::memory_order_relaxed); }

  // Renders the records, slot by slot, and hands the lines to the sink. One caller at a time. True if there
  // was a record.
  bool drain(const LogSink& sink);
  // True when every earlier record has been handed to the sink. From any thread.
  bool quiet() const noexcept;
  // Blocks until a record was made since the last return, or wake() was called. Only LogThread waits.
  void wait() noexcept;
  void wake() noexcept;

  std::uint64_t dropped() const noexcept;
  // Declares `log_dropped_total` over dropped().
  void declare_metrics(Registry& registry) const;

 private:
  friend class Logger;
  void report_drops(const LogSink& sink);

  std::atomic<Level> level_;
  LogFormat format_;
  Now now_;
  std::vector<std::unique_ptr<LogRing>> rings_;
  std::atomic<std::uint64_t> lost_in_sink_{0};
  // Set while a drain is under way. A ring that looks empty was emptied by a drain that has ended or that is
  // seen here.
  std::atomic<bool> draining_{false};
  std::uint64_t reported_drops_ = 0;
  std::string lines_;  // reused by drain
  // 1: a record may be waiting. Recorders set it after publishing, the consumer clears it before draining;
  // both by read-modify-write (acq_rel), so a record published before a set that found 1 is seen by the drain
  // that follows the clear.
  std::atomic<int> pending_{0};
};

// Lets one line through per period and counts the lines held back. Belongs to one slot.
//   if (auto held = every.due(now)) log.warn("events lag", {{"suppressed", *held}});
class LogEvery {
 public:
  explicit constexpr LogEvery(Duration period) : period_(period) {}
  // The number held back since the last one let through, or nothing if this one is held back too.
  std::optional<std::uint64_t> due(Instant now) noexcept;

 private:
  Duration period_;
  std::optional<Instant> next_;
  std::uint64_t held_ = 0;
};

}  // namespace cairn::observe
