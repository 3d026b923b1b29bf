#include "observe/metric.h"

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>

#include "observe/exposition.h"

namespace cairn::observe {
namespace {

constexpr std::size_t cells_per_line = 8;  // 64-byte cache lines
constexpr std::size_t chunk_cells =
    512;  // small families of one slot share pages, so a request touches few lines

std::uint64_t sum_slots(const Cell* first, std::size_t stride, std::uint32_t slots) noexcept {
  std::uint64_t sum = 0;
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    sum += first[slot * stride].load(std::memory_order_relaxed);
  return sum;
}

std::size_t round_up(std::size_t n, std::size_t step) { return (n + step - 1) / step * step; }

bool is_name(std::string_view text) {
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z' && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

void check_declaration(const Declaration& declaration, MetricKind kind) {
  CHECK(is_name(declaration.name));
  CHECK(!declaration.help.empty());
  CHECK(declaration.name.ends_with("_total") == (kind == MetricKind::counter));
  CHECK(declaration.labels.size() <= max_labels);
  for (const Label& label : declaration.labels) {
    CHECK(is_name(label.name) && label.name != "le");
    CHECK(!label.values.empty());
    std::vector<std::string_view> values(label.values.begin(), label.values.end());
    std::ranges::sort(values);
    CHECK(std::ranges::adjacent_find(values) == values.end());
  }
}

struct AlignedDelete {
  void operator()(Cell* cells) const noexcept { ::operator delete[](cells, std::align_val_t{64}); }
};

}  // namespace

// A block of cells with one stretch of `stride` per slot.
struct Registry::Chunk {
  std::unique_ptr<Cell[], AlignedDelete> cells;
  std::size_t stride = 0;
  std::size_t used = 0;
};

struct Registry::Family {
  Declaration declaration;
  MetricKind kind = MetricKind::counter;
  detail::Shape shape;
  std::size_t combinations = 1;
  std::vector<Buckets> buckets;  // one for a histogram, else none
  std::vector<ObservedFamily::Read> reads;
  bool observed = false;
};

std::uint64_t Counter::value() const noexcept { return sum_slots(first_, stride_, slots_); }
std::int64_t Gauge::value() const noexcept {
  return static_cast<std::int64_t>(sum_slots(first_, stride_, slots_));
}

std::uint64_t Histogram::count() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t bucket = 0; bucket <= buckets_->bounds().size(); ++bucket)
    sum += sum_slots(first_ + 1 + bucket, stride_, slots_);
  return sum;
}

Buckets::Buckets(std::span<const std::uint64_t> bounds, double raw_per_unit)
    : count_(bounds.size()), raw_per_unit_(raw_per_unit) {
  CHECK(!bounds.empty() && bounds.size() <= max_count);
  CHECK(std::ranges::adjacent_find(bounds, std::greater_equal<>{}) == bounds.end());
  bounds_.fill(std::numeric_limits<std::uint64_t>::max());
  std::ranges::copy(bounds, bounds_.begin());
  for (std::size_t width = 1; width < first_of_octave_.size(); ++width) {
    const std::uint64_t smallest = std::uint64_t{1} << (width - 1);
    const auto first = std::ranges::lower_bound(bounds, smallest);
    first_of_octave_[width] = static_cast<std::uint8_t>(first - bounds.begin());
  }
}

Buckets Buckets::durations(std::initializer_list<Duration> bounds) {
  std::vector<std::uint64_t> raw;
  for (const Duration bound : bounds) {
    CHECK(bound.ns > 0);
    raw.push_back(static_cast<std::uint64_t>(bound.ns));
  }
  return {raw, 1e9};
}

Buckets Buckets::sizes(std::initializer_list<Bytes> bounds) {
  std::vector<std::uint64_t> raw;
  for (const Bytes bound : bounds) raw.push_back(bound.count);
  return {raw, 1};
}

Buckets Buckets::latency() {
  using D = Duration;
  return durations({D::micros(100), D::micros(250), D::micros(500), D::millis(1), D::micros(2500),
                    D::millis(5), D::millis(10), D::millis(25), D::millis(50), D::millis(100), D::millis(250),
                    D::millis(500), D::seconds(1), D::millis(2500), D::seconds(5), D::seconds(10)});
}

Registry::Registry(std::uint32_t slots) : slots_(slots) { CHECK(slots > 0); }
Registry::~Registry() = default;

void Registry::place(detail::Shape& shape, std::size_t cells) {
  if (chunks_.empty() || chunks_.back().stride - chunks_.back().used < cells) {
    Chunk chunk;
    chunk.stride = std::max(chunk_cells, round_up(cells, cells_per_line));
    const std::size_t all = chunk.stride * slots_;
    auto* memory = static_cast<Cell*>(::operator new[](all * sizeof(Cell), std::align_val_t{64}));
    std::uninitialized_value_construct_n(memory, all);
    chunk.cells.reset(memory);
    chunks_.push_back(std::move(chunk));
  }
  Chunk& chunk = chunks_.back();
  shape.first = chunk.cells.get() + chunk.used;
  shape.stride = chunk.stride;
  shape.slots = slots_;
  chunk.used += cells;
}

Registry::Family& Registry::declare(Declaration declaration, MetricKind kind, std::size_t cells_each,
                                    bool observed) {
  check_declaration(declaration, kind);
  auto family = std::make_unique<Family>();
  for (std::size_t i = 0; i < declaration.labels.size(); ++i) {
    family->shape.sizes[i] = static_cast<std::uint32_t>(declaration.labels[i].values.size());
    family->combinations *= declaration.labels[i].values.size();
  }
  family->declaration = std::move(declaration);
  family->kind = kind;
  family->observed = observed;
  if (observed)
    family->reads.resize(family->combinations);
  else
    place(family->shape, family->combinations * cells_each);
  const auto by_name = [](const auto& f) -> std::string_view { return f->declaration.name; };
  const auto at =
      std::ranges::lower_bound(families_, std::string_view(family->declaration.name), {}, by_name);
  CHECK(at == families_.end() || (*at)->declaration.name != family->declaration.name);
  return **families_.insert(at, std::move(family));
}

CounterFamily Registry::counters(Declaration declaration) {
  return CounterFamily(declare(std::move(declaration), MetricKind::counter, 1, false).shape);
}
GaugeFamily Registry::gauges(Declaration declaration) {
  return GaugeFamily(declare(std::move(declaration), MetricKind::gauge, 1, false).shape);
}
HistogramFamily Registry::histograms(Declaration declaration, Buckets buckets) {
  Family& family = declare(std::move(declaration), MetricKind::histogram, buckets.bounds().size() + 2, false);
  family.buckets.push_back(buckets);
  return {family.shape, &family.buckets[0]};
}
ObservedFamily Registry::observed_counters(Declaration declaration) {
  Family& family = declare(std::move(declaration), MetricKind::counter, 0, true);
  return {family.shape, &family.reads};
}
ObservedFamily Registry::observed_gauges(Declaration declaration) {
  Family& family = declare(std::move(declaration), MetricKind::gauge, 0, true);
  return {family.shape, &family.reads};
}

Counter Registry::counter(std::string name, std::string help) {
  return counters({.name = std::move(name), .help = std::move(help)}).at();
}
Gauge Registry::gauge(std::string name, std::string help) {
  return gauges({.name = std::move(name), .help = std::move(help)}).at();
}
Histogram Registry::histogram(std::string name, std::string help, Buckets buckets) {
  return histograms({.name = std::move(name), .help = std::move(help)}, buckets).at();
}
void Registry::observed_counter(std::string name, std::string help, ObservedFamily::Read read) {
  observed_counters({.name = std::move(name), .help = std::move(help)}).bind(std::move(read));
}
void Registry::observed_gauge(std::string name, std::string help, ObservedFamily::Read read) {
  observed_gauges({.name = std::move(name), .help = std::move(help)}).bind(std::move(read));
}

void Registry::expose_family(const Family& family, std::string& out) const {
  Exposition text(out, family.declaration, family.kind);
  const auto skips_zero = [&](std::size_t combination) {
    const std::vector<std::size_t>& still = family.declaration.still;
    return family.declaration.print == Print::touched || std::ranges::find(still, combination) != still.end();
  };
  const std::size_t width = family.buckets.empty() ? 1 : family.buckets[0].bounds().size() + 2;
  std::vector<std::uint64_t> sums(width);
  for (std::size_t i = 0; i < family.combinations; ++i) {
    if (family.observed) {
      if (family.reads[i]) text.sample(i, family.reads[i]());
      continue;
    }
    for (std::size_t cell = 0; cell < width; ++cell)
      sums[cell] = sum_slots(family.shape.first + i * width + cell, family.shape.stride, slots_);
    if (skips_zero(i) && std::ranges::all_of(sums, [](std::uint64_t n) { return n == 0; })) continue;
    if (family.kind == MetricKind::counter)
      text.sample(i, sums[0]);
    else if (family.kind == MetricKind::gauge)
      text.sample(i, static_cast<std::int64_t>(sums[0]));
    else
      text.histogram(i, family.buckets[0], sums);
  }
}

void Registry::expose(std::string& out) const {
  for (const auto& family : families_) expose_family(*family, out);
}

std::vector<Registry::View> Registry::families() const {
  std::vector<View> views;
  for (const auto& family : families_) views.push_back({&family->declaration, family->kind});
  return views;
}

}  // namespace cairn::observe
