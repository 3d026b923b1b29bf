#include "observe/exposition.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>
#include <utility>

namespace cairn::observe {
namespace {

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\\' || (quotes && c == '"'))
      (out += '\\') += c;
    else
      out += c;
  }
}

void append_real(std::string& out, double value) {
  if (std::isnan(value))
    out += "NaN";
  else if (std::isinf(value))
    out += value > 0 ? "+Inf" : "-Inf";
  else
    fmt::format_to(std::back_inserter(out), "{}", value);
}

std::string_view type_name(MetricKind kind) noexcept {
  constexpr std::array<std::string_view, 3> names{"counter", "gauge", "histogram"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace

Exposition::Exposition(std::string& out, const Declaration& declaration, MetricKind kind)
    : out_(out), declaration_(declaration) {
  ((out_ += "# HELP ") += declaration.name) += ' ';
  append_escaped(out_, declaration.help, false);
  ((((out_ += "\n# TYPE ") += declaration.name) += ' ') += type_name(kind)) += '\n';
}

void Exposition::series(std::string_view suffix, std::size_t cell, std::string_view le) {
  (out_ += declaration_.name) += suffix;
  std::array<std::size_t, max_labels> index{};
  for (std::size_t i = declaration_.labels.size(); i-- > 0;) {
    index[i] = cell % declaration_.labels[i].values.size();
    cell /= declaration_.labels[i].values.size();
  }
  char before = '{';
  for (std::size_t i = 0; i < declaration_.labels.size(); ++i) {
    const Label& label = declaration_.labels[i];
    ((out_ += std::exchange(before, ',')) += label.name) += "=\"";
    append_escaped(out_, label.values[index[i]], true);
    out_ += '"';
  }
  if (!le.empty()) (((out_ += std::exchange(before, ',')) += "le=\"") += le) += '"';
  out_ += before == ',' ? "} " : " ";
}

void Exposition::sample(std::size_t cell, std::uint64_t value) {
  series({}, cell);
  fmt::format_to(std::back_inserter(out_), "{}\n", value);
}

void Exposition::sample(std::size_t cell, std::int64_t value) {
  series({}, cell);
  fmt::format_to(std::back_inserter(out_), "{}\n", value);
}

void Exposition::sample(std::size_t cell, double value) {
  series({}, cell);
  append_real(out_, value);
  out_ += '\n';
}

void Exposition::histogram(std::size_t cell, const Buckets& buckets, std::span<const std::uint64_t> cells) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i <= buckets.bounds().size(); ++i) {
    below += cells[1 + i];
    std::string le = "+Inf";
    if (i < buckets.bounds().size())
      le = fmt::format("{}", static_cast<double>(buckets.bounds()[i]) / buckets.raw_per_unit());
    series("_bucket", cell, le);
    fmt::format_to(std::back_inserter(out_), "{}\n", below);
  }
  series("_sum", cell);
  append_real(out_, static_cast<double>(cells[0]) / buckets.raw_per_unit());
  out_ += '\n';
  // From the same reads as the buckets, so that +Inf and _count agree in every scrape.
  series("_count", cell);
  fmt::format_to(std::back_inserter(out_), "{}\n", below);
}

}  // namespace cairn::observe
