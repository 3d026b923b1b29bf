// Conditional requests: If-Match, If-Unmodified-Since, If-None-Match, If-Modified-Since and If-Range in
// the order of RFC 9110 section 13.2.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "http/fields.h"
#include "http/method.h"

namespace cairn::http {

// The present state of the target. An absent one has exists = false and no other validator.
struct Validators {
  std::string_view etag;  // strong, with its quotes; empty: none
  std::optional<WallTime> last_modified;
  bool exists = true;
};

enum class Precondition : std::uint8_t { proceed, not_modified, failed };  // 304, 412

struct Verdict {
  Precondition outcome = Precondition::proceed;
  bool range_applies = false;  // a GET with one Range whose If-Range, if any, holds
};

// A tag list that cannot be parsed never lets a write happen: If-Match always fails, and If-None-Match fails
// for every method but GET and HEAD, which proceed. With an unreadable If-Range the whole object is sent.
// Unreadable or repeated dates count as absent.
Verdict evaluate(const Fields& fields, Method method, const Validators& current) noexcept;

// If-Match and If-None-Match of a write, kept beyond its request: for a service that looks at the present
// state later, where no other write comes between. The lines of a field are joined to one list.
struct WriteConditions {
  std::optional<std::string> if_match = {}, if_none_match = {};
};
WriteConditions keep_conditions(const Fields& fields);
// Whether the write may happen; as evaluate() says it of a method that writes.
bool allows(const WriteConditions& conditions, const Validators& current) noexcept;

}  // namespace cairn::http
