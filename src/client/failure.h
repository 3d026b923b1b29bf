// Failure: an Error with the facts that people need to act on it: the request, the server, and the server's
// words.
//
// Code needs only the Error. A person at a terminal also wants the server's words and the correlation id that
// finds the server's log line. Outcome<T> carries a Failure; TRY and CO_TRY work with it as with a Result.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/result.h"
#include "base/units.h"

namespace cairn::client {

struct Failure {
  Error error;
  int status = 0;            // of the server's answer; 0: none came
  std::string message = {};  // the server's words, else ours
  std::string corr_id = {};  // empty: none
  std::string asked = {};    // `GET /o/b3:… of 127.0.0.1:7410`; empty: no request was made
  std::optional<Duration> retry_after = {};
  std::string hint = {};  // advice, where more is known than the code tells

  Failure() = default;
  Failure(Error of) : error(of), message(of.context) {}  // NOLINT(google-explicit-constructor): see CO_TRY
  Failure(ErrorCode code, std::string words, Side side = Side::self)
      : error(code, "client", side), message(std::move(words)) {}

  ErrorCode code() const noexcept { return error.code; }
};

template <class T = void>
using Outcome = std::expected<T, Failure>;

// The code that a status means when the body does not tell.
ErrorCode code_of_status(int status) noexcept;
// Reads the body of an error answer. If the body is not in our format, the status alone decides.
Failure parse_failure(int status, std::string_view body);

}  // namespace cairn::client

namespace cairn {
inline std::unexpected<client::Failure> fail(client::Failure failure) {
  return std::unexpected<client::Failure>(std::move(failure));
}
}  // namespace cairn
