// Transport: sends requests to one server on behalf of one bearer, and waits about as long as a person would.
//   [T-1] No wait is endless: the head of an answer comes within first_byte of the last byte sent, and no
//         transfer stands still for longer than stall. The total time of a transfer is not limited.
//   [T-2] Only requests that may be repeated are repeated: after a lost connection or a server's own timeout
//         `tries` times, after a 429 or 503 as long as the waits together stay within first_byte. Retry-After
//         is obeyed. If the server stays silent for all of first_byte, the failure is final.
//   [T-3] The token is sent to this endpoint and nowhere else, and is in no message.
// Answers of 2xx are returned; every other one becomes a Failure with the server's words.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "client/failure.h"
#include "http/client.h"
#include "io/machine.h"
#include "runtime/backoff.h"
#include "runtime/task.h"

namespace cairn::client {

struct TransportOptions {
  Endpoint endpoint;
  std::string token = {};  // empty: anonymous
  // The hint of a failure when the server asks for a token and there is none.
  std::string anonymous_hint = {};
  Duration first_byte = Duration::seconds(30);
  Duration stall = Duration::seconds(60);
  BackoffPolicy backoff{};
  std::size_t connections_max = 32;
  // Who vouches for the server, if the endpoint says `tls`.
  std::shared_ptr<const io::TlsClient> tls = {};
};

struct Ask {
  http::Method method = http::Method::get;
  std::string target = "/";
  std::vector<std::pair<std::string, std::string>> fields = {};
  std::string text = {};  // the body, or
  ByteView view = {};     // the body, which outlives the call
  bool has_body = false;
  bool repeatable = false;  // besides the idempotent methods
  // False: one try only, as for a question whose answer must not be waited for.
  bool patient = true;
  // Every answer is returned, whatever its status.
  bool any_answer = false;
};

class Transport {
 public:
  Transport(io::Machine& machine, TransportOptions options);

  // Sends and waits for the head of the answer. Cancel: partial — the server may have acted.
  Task<Outcome<http::ClientResponse>> send(Call call, Ask ask);
  // The same, and reads the body. Cancel: as send().
  Task<Outcome<std::string>> send_for_text(Call call, Ask ask, std::size_t cap);
  // The next slice of a body, bounded by `stall`. Cancel: partial — the rest of the body is lost.
  Task<Result<Buffer>> next(Call call, http::ClientResponse& response);

  // Closes idle connections and waits for answers that are held. Cancel: partial — as http::Client::close.
  Task<> close(Call call) { return client_.close(call); }

  io::Machine& machine() noexcept { return machine_; }
  const TransportOptions& options() const noexcept { return options_; }
  std::string describe(const Ask& ask) const;

 private:
  struct Watched;
  Task<Outcome<http::ClientResponse>> try_once(Call call, const Ask* ask);
  Task<Result<http::ClientResponse>> attempt(Call call, http::ClientRequest request, Watched* watched);
  http::ClientRequest make_request(const Ask& ask, Watched* watched) const;
  static Task<> watch(Call call, Watched* watched, CancelSource* stop, Duration stall);

  io::Machine& machine_;
  TransportOptions options_;
  http::Client client_;
};

// Whether the same request may succeed a little later.
bool may_pass(const Failure& failure) noexcept;

}  // namespace cairn::client
