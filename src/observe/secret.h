// Secret: a text that no log line, dump or answer may show. Printing one gives `[redacted]`.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace cairn::observe {

constexpr std::string_view redacted = "[redacted]";

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}

  // The only way to the text; the name is meant to be found by grep.
  std::string_view reveal() const noexcept { return value_; }

 private:
  std::string value_;
};

// fmt and the logger print this.
constexpr std::string_view format_as(const Secret&) noexcept { return redacted; }

}  // namespace cairn::observe
