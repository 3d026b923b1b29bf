// Metrics: an instance-owned registry of counters, gauges and histograms, recorded without a lock.
//
// A family is declared once, with the closed list of values of every label, so each of its cells exists
// from the start, the cardinality is bounded by the declaration, and a cell is found by index, not by hash.
//
// Every cell exists once per slot (a shard or a pool thread). A slot has exactly one writing thread, and the
// cells of two slots never share a cache line, so recording is one relaxed load and one relaxed store. A
// scrape sums the slots; it may miss concurrent recordings but never sees a sum go back.
//
//   [M-1] Only the slot's own thread records under its slot number.
//   [M-2] Families are declared and callbacks bound while no scrape runs; recording allocates nothing.
//   [M-3] Handles (Counter, CounterFamily, …) are copyable values, valid as long as their Registry.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace cairn::observe {

using Slot = std::uint32_t;
using Cell = std::atomic<std::uint64_t>;

struct Label {
  std::string name;
  std::vector<std::string> values;  // closed; an index into it names the cell
};

constexpr std::size_t max_labels = 3;

// Whether a cell that never moved is printed: all for small families, only the touched ones where the
// product of the labels is large and mostly impossible.
enum class Print : std::uint8_t { all, touched };

// All of a family but its cells. The exposed text, the docs and the dashboards are made from it.
struct Declaration {
  std::string name;
  std::string help;
  std::vector<Label> labels = {};
  Print print = Print::all;
  // Label combinations that no known code moves, by position: their zeros are not printed. One that moves
  // after all is printed.
  std::vector<std::size_t> still = {};
};

namespace detail {

// The layout of a family's cells: the cells of one slot are contiguous, slot by slot `stride` apart.
struct Shape {
  Cell* first = nullptr;
  std::size_t stride = 0;  // cells between two slots
  std::uint32_t slots = 0;
  std::array<std::uint32_t, max_labels> sizes{1, 1, 1};
};

template <class Index>
constexpr std::size_t index_of(Index index) noexcept {
  static_assert(std::is_integral_v<Index> || std::is_enum_v<Index>);
  return static_cast<std::size_t>(index);
}

// Row-major position of up to three label indices. Missing trailing labels have size 1.
template <class... Index>
std::size_t position(const Shape& shape, Index... index) noexcept {
  static_assert(sizeof...(Index) <= max_labels);
  std::array<std::size_t, max_labels> at{index_of(index)...};
  CHECK(at[0] < shape.sizes[0] && at[1] < shape.sizes[1] && at[2] < shape.sizes[2]);
  return (at[0] * shape.sizes[1] + at[1]) * shape.sizes[2] + at[2];
}

inline Cell& cell_of(Cell* first, std::size_t stride, std::uint32_t slots, Slot slot) noexcept {
  CHECK(slot < slots);
  return first[slot * stride];
}

// One writer per cell, so load and store need not be one step; relaxed, because a scrape only sums.
inline void bump(Cell& cell, std::uint64_t n) noexcept {
  cell.store(cell.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace detail

class Counter {
 public:
  Counter() = default;
  void add(Slot slot, std::uint64_t n = 1) const noexcept {
    detail::bump(detail::cell_of(first_, stride_, slots_, slot), n);
  }
  // The sum over the slots. For tests and for code that reports its own numbers.
  std::uint64_t value() const noexcept;

 private:
  friend class CounterFamily;
  Counter(Cell* first, std::size_t stride, std::uint32_t slots)
      : first_(first), stride_(stride), slots_(slots) {}
  Cell* first_ = nullptr;
  std::size_t stride_ = 0;
  std::uint32_t slots_ = 0;
};

class CounterFamily {
 public:
  CounterFamily() = default;
  // One index per label, integral or enum, in the order of the declaration.
  template <class... Index>
  Counter at(Index... index) const noexcept {
    return {shape_.first + detail::position(shape_, index...), shape_.stride, shape_.slots};
  }

 private:
  friend class Registry;
  explicit CounterFamily(const detail::Shape& shape) : shape_(shape) {}
  detail::Shape shape_;
};

// A level that goes up and down. Each slot holds its part and the sum is shown, so a shard counts only its
// own items in flight. A process-wide level is set by one slot only.
class Gauge {
 public:
  Gauge() = default;
  void set(Slot slot, std::int64_t value) const noexcept {
    detail::cell_of(first_, stride_, slots_, slot)
        .store(static_cast<std::uint64_t>(value), std::memory_order_relaxed);
  }
  void add(Slot slot, std::int64_t delta) const noexcept {
    detail::bump(detail::cell_of(first_, stride_, slots_, slot), static_cast<std::uint64_t>(delta));
  }
  std::int64_t value() const noexcept;

 private:
  friend class GaugeFamily;
  Gauge(Cell* first, std::size_t stride, std::uint32_t slots)
      : first_(first), stride_(stride), slots_(slots) {}
  Cell* first_ = nullptr;
  std::size_t stride_ = 0;
  std::uint32_t slots_ = 0;
};

class GaugeFamily {
 public:
  GaugeFamily() = default;
  template <class... Index>
  Gauge at(Index... index) const noexcept {
    return {shape_.first + detail::position(shape_, index...), shape_.stride, shape_.slots};
  }

 private:
  friend class Registry;
  explicit GaugeFamily(const detail::Shape& shape) : shape_(shape) {}
  detail::Shape shape_;
};

// The buckets of a histogram: ascending upper bounds in raw units (nanoseconds, bytes), and how many raw
// units one shown unit has. Prometheus wants base units, so durations are shown in seconds.
class Buckets {
 public:
  static Buckets durations(std::initializer_list<Duration> bounds);
  static Buckets sizes(std::initializer_list<Bytes> bounds);
  // 1 ms to 10 s by 1, 2.5, 5: the shape of a request's latency.
  static Buckets latency();

  // The first bucket whose bound is not below `value`; bounds().size() is the bucket +Inf.
  std::size_t find(std::uint64_t value) const noexcept {
    // Bounds of one octave are few: the table jumps to the first of the value's octave.
    std::size_t at = first_of_octave_[static_cast<std::size_t>(std::bit_width(value))];
    while (value > bounds_[at]) ++at;  // ends: the last bound is the largest number there is
    return at;
  }
  std::span<const std::uint64_t> bounds() const noexcept { return {bounds_.data(), count_}; }
  double raw_per_unit() const noexcept { return raw_per_unit_; }

  static constexpr std::size_t max_count = 31;

 private:
  Buckets(std::span<const std::uint64_t> bounds, double raw_per_unit);
  std::array<std::uint64_t, max_count + 1> bounds_{};  // padded with the largest number
  std::array<std::uint8_t, 65> first_of_octave_{};
  std::size_t count_ = 0;
  double raw_per_unit_ = 1;
};

class Histogram {
 public:
  Histogram() = default;
  // A negative duration (a clock that stepped) counts as zero.
  void observe(Slot slot, Duration duration) const noexcept {
    observe(slot, duration.ns < 0 ? std::uint64_t{0} : static_cast<std::uint64_t>(duration.ns));
  }
  void observe(Slot slot, Bytes bytes) const noexcept { observe(slot, bytes.count); }
  std::uint64_t count() const noexcept;

 private:
  friend class HistogramFamily;
  Histogram(Cell* first, std::size_t stride, std::uint32_t slots, const Buckets* buckets)
      : first_(first), stride_(stride), slots_(slots), buckets_(buckets) {}
  // Cells of one histogram: the sum, then a count per bucket, +Inf last.
  void observe(Slot slot, std::uint64_t raw) const noexcept {
    Cell* cells = &detail::cell_of(first_, stride_, slots_, slot);
    detail::bump(cells[0], raw);
    detail::bump(cells[1 + buckets_->find(raw)], 1);
  }
  Cell* first_ = nullptr;
  std::size_t stride_ = 0;
  std::uint32_t slots_ = 0;
  const Buckets* buckets_ = nullptr;
};

class HistogramFamily {
 public:
  HistogramFamily() = default;
  template <class... Index>
  Histogram at(Index... index) const noexcept {
    return {shape_.first + detail::position(shape_, index...) * width_, shape_.stride, shape_.slots,
            buckets_};
  }

 private:
  friend class Registry;
  HistogramFamily(const detail::Shape& shape, const Buckets* buckets)
      : shape_(shape), buckets_(buckets), width_(buckets->bounds().size() + 2) {}
  detail::Shape shape_;
  const Buckets* buckets_ = nullptr;
  std::size_t width_ = 0;
};

// A number that another object keeps (a queue's depth, its drops). It is read at the scrape, on the scraping
// thread. An unbound cell is not printed. The object that keeps the number unbinds the cell before its own
// end.
class ObservedFamily {
 public:
  using Read = std::function<double()>;
  ObservedFamily() = default;
  template <class... Index>
  void bind(Read read, Index... index) const {
    (*reads_)[detail::position(shape_, index...)] = std::move(read);
  }
  template <class... Index>
  void unbind(Index... index) const {
    (*reads_)[detail::position(shape_, index...)] = nullptr;
  }

 private:
  friend class Registry;
  ObservedFamily(const detail::Shape& shape, std::vector<Read>* reads) : shape_(shape), reads_(reads) {}
  detail::Shape shape_;
  std::vector<Read>* reads_ = nullptr;
};

enum class MetricKind : std::uint8_t { counter, gauge, histogram };

// Names follow the rules of `promtool check metrics`: counters, and only counters, end in `_total`, and help
// is never empty. A name that breaks this, or comes twice, is a bug of the declaration and fails a CHECK.
class Registry {
 public:
  explicit Registry(std::uint32_t slots);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  std::uint32_t slots() const noexcept { return slots_; }

  CounterFamily counters(Declaration declaration);
  GaugeFamily gauges(Declaration declaration);
  HistogramFamily histograms(Declaration declaration, Buckets buckets);
  ObservedFamily observed_counters(Declaration declaration);
  ObservedFamily observed_gauges(Declaration declaration);

  // Families of one cell.
  Counter counter(std::string name, std::string help);
  Gauge gauge(std::string name, std::string help);
  Histogram histogram(std::string name, std::string help, Buckets buckets);
  void observed_counter(std::string name, std::string help, ObservedFamily::Read read);
  void observed_gauge(std::string name, std::string help, ObservedFamily::Read read);

  // Appends the Prometheus text format (0.0.4): families by name, cells by label index.
  void expose(std::string& out) const;

  struct View {
    const Declaration* declaration;
    MetricKind kind;
  };
  std::vector<View> families() const;  // by name

 private:
  struct Family;
  struct Chunk;
  Family& declare(Declaration declaration, MetricKind kind, std::size_t cells_each, bool observed);
  void place(detail::Shape& shape, std::size_t cells);
  void expose_family(const Family& family, std::string& out) const;

  std::uint32_t slots_;
  std::vector<std::unique_ptr<Family>> families_;  // sorted by name
  std::vector<Chunk> chunks_;
};

}  // namespace cairn::observe
