// Answer: what a client got, and what every answer of every service owes its client.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/h1/response_parser.h"
#include "http/method.h"

namespace cairn::simulator {

struct Answer {
  int status = 0;
  bool last = false;  // the connection ends behind it
  bool dated = false, nosniff = false;
  std::string corr, etag, content_range, allow, retry_after, upload_missing;
  std::string body;
  // Of an error's body.
  std::optional<ErrorCode> code;
  std::string message;
  bool well_formed_error = false;

  bool passed_on = false;  // by who has asked another one
  bool unread = false;     // answered before a head was read whole: the id is not the request's
};
Answer read_head(const http::ResponseHead& head);

// Reads the error out of the body, and says what is wrong with the answer whatever it was asked for; empty:
// nothing. `corr` is the id that was sent, empty if none that must be echoed. `bare`: this status has a body
// of its own or none.
std::string find_fault(Answer& answer, http::Method method, std::string_view corr, bool bare);

}  // namespace cairn::simulator
