// Refusal: of several things that are asked one after the other, the answer that all others would get too.
#pragma once

#include <cstddef>
#include <optional>

#include "cairn/exit_code.h"
#include "cairn/session.h"

namespace cairn::cli {

// Whether the next request would be refused as well, whatever it is about: the server is gone, full or too
// busy, or the capability is not good. `token` is the one that was sent: it may allow some objects only.
bool will_repeat(const client::Failure& failure, std::string_view token);

class Refusal {
 public:
  explicit Refusal(Session* session) noexcept : session_(session) {}

  // Every failure comes here when it happens.
  void add(const client::Failure& failure);
  // Nothing more is to be begun.
  bool repeats() const noexcept { return repeated_.has_value(); }
  // Says a failure, unless it is one that repeats and has been said. Interrupts are not said.
  void tell(const client::Failure& failure, std::string_view subject);
  // These were not begun. They end as the one that was refused did.
  void skip(std::size_t count, ExitOfSeveral& exits) noexcept;
  // Says how many were not begun.
  void conclude() const;

 private:
  Session* session_;
  std::optional<client::Failure> repeated_;
  bool told_ = false;
  std::size_t skipped_ = 0;
};

}  // namespace cairn::cli
