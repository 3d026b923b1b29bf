#include "base/error.h"

#include <array>

namespace cairn {
namespace {

struct Row {
  std::string_view name;
  int status;
  Retry retry;
};

constexpr Row rows[] = {
#define ERROR_CODE(name, status, retry) Row{#name, status, Retry::retry},
#include "base/error_codes.def"
#undef ERROR_CODE
};

constexpr const Row& row(ErrorCode code) { return rows[static_cast<std::size_t>(code)]; }

}  // namespace

Retry Error::retry() const noexcept { return row(code).retry; }
std::string_view name_of(ErrorCode code) noexcept { return row(code).name; }
int status_of(ErrorCode code) noexcept { return row(code).status; }

std::string_view name_of(StopReason reason) noexcept {
  constexpr std::array<std::string_view, 6> names{"none",     "deadline",   "client_gone",
                                                  "draining", "superseded", "aborted"};
  return names[static_cast<std::size_t>(reason)];
}

std::optional<ErrorCode> find_error_code(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(rows); ++i)
    if (rows[i].name == name) return static_cast<ErrorCode>(i);
  return std::nullopt;
}

}  // namespace cairn
