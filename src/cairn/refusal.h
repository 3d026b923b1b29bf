// Refusal: among several requests in a row, a failure that every further request would get too.
#pragma once

#include <cstddef>
#include <optional>

#include "cairn/exit_code.h"
#include "cairn/session.h"

namespace cairn::cli {

// Whether every further request would fail in the same way: the server is gone, full or too busy, or the
// capability is not good. `token` is the capability that was sent; it may allow only some objects.
bool will_repeat(const client::Failure& failure, std::string_view token);

class Refusal {
 public:
  explicit Refusal(Session* session) noexcept : session_(session) {}

  // To be called with every failure when it happens.
  void add(const client::Failure& failure);
  // True: no further request is to be begun.
  bool repeats() const noexcept { return repeated_.has_value(); }
  // Prints a failure, unless it repeats and was printed already. Interrupts are not printed.
  void tell(const client::Failure& failure, std::string_view subject);
  // Counts requests that were not begun. Their exit is that of the refused one.
  void skip(std::size_t count, ExitOfSeveral& exits) noexcept;
  // Prints how many requests were not begun.
  void conclude() const;

 private:
  Session* session_;
  std::optional<client::Failure> repeated_;
  bool told_ = false;
  std::size_t skipped_ = 0;
};

}  // namespace cairn::cli
