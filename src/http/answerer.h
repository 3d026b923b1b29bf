// The two interfaces that a carrier of requests calls: the Gate says which connections may stay, the Answerer
// answers requests. There is one of each per shard. A call inside the process needs no gate.
#pragma once

#include "http/exchange.h"
#include "runtime/call.h"
#include "runtime/drain.h"
#include "runtime/permits.h"

namespace cairn::http {

class Answerer {
 public:
  virtual ~Answerer() = default;
  enum class Next : std::uint8_t { answered, handle };

  // The limits of the heads that it takes.
  virtual HeadLimits head_limits() const noexcept { return {}; }
  // A head is complete: answer at once if that needs no wait, or ask to be run as a task.
  virtual Next begin(Exchange& exchange) = 0;
  // Fills the response. The call is stopped when the client goes away. For a request that stays open it is
  // also stopped when draining begins. The answerer narrows the call to the request's deadline.
  virtual Task<> handle(Call call, Exchange& exchange) = 0;
  // Something about this request failed before or beside the handler (framing, time, a bug), or its answer
  // cannot be sent as it is (HTTP/2: to a CONNECT that does not switch).
  virtual void refuse(Exchange& exchange, Error error) = 0;
  // The answer was sent, or the connection broke first.
  virtual void finished(Exchange& exchange, bool complete) = 0;
};

class Gate {
 public:
  virtual ~Gate() = default;

  // A connection arrived: may it stay? `extra`: there is no place for it, but the server still reads its
  // first head, within a short time, and then calls place(). `reserved` holds a place that serves health
  // only.
  enum class Admission : std::uint8_t { welcome, reserved, extra, refused };
  virtual Admission admit(const io::PeerAddress& peer, bool health_only) = 0;
  // The head of an extra connection is complete: which place does the connection get? `hold` receives a
  // reserved place. `soon`: another connection is being asked to give way, so ask again in a moment.
  enum class Place : std::uint8_t { none, soon, reserved, welcome };
  virtual Place place(Exchange& exchange, bool health_only, PermitHold& hold) {
    (void)exchange, (void)health_only, (void)hold;
    return Place::none;
  }
  // A connection keeps this guard for as long as draining has to wait for it.
  virtual DrainGuard enter() { return {}; }
  // An extra connection was closed before its head was complete.
  virtual void closed_unread() {}
  // The error that the answerer's refuse() sends to a refused connection.
  virtual Error refusal() const { return {ErrorCode::busy, "too many connections", Side::client}; }
  // A connection gave back its admission: the place that it held is free again. A refused connection does so
  // too, if there was time to tell it that it is refused.
  virtual void left(const io::PeerAddress& peer, Admission admission) = 0;
  // An HTTP/2 connection carries one more stream that stays open, beside its first: may it? Such a stream
  // takes the place of a connection, until stream_left().
  virtual bool admit_stream(const io::PeerAddress& peer) { return (void)peer, true; }
  virtual void stream_left(const io::PeerAddress& peer) { (void)peer; }
  // A connection's task ended with an exception, which is a bug or a lack of memory. The connection is
  // closed.
  virtual void broke(const char* what) noexcept { (void)what; }
  // Draining: the last listener for work was closed, after the connections queued on it were accepted.
  virtual void doors_closed() {}
  // How a handshake of TLS ended. `gave_way`: to another one, because too many were under way. `flooded`: it
  // was done, and the connection ended later because the peer sent records without data and no end of them.
  enum class Hands : std::uint8_t { full, resumed, failed, timed_out, gave_way, flooded };
  virtual void shook_hands(Hands how) { (void)how; }
  // The peer was too slow to send its request or to read its answer.
  enum class Slow : std::uint8_t { read, write };
  virtual void timed_out(Slow what) = 0;
};

}  // namespace cairn::http
