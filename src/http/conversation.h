// Conversation: what a connection carries after a switch of protocols, both ways at once. A handler gives one
// to its response (Response::switch_to). The carrier sends what it says, and lets it listen meanwhile.
//   [CV-1] It listens in a task of its own, beside the sending: neither direction waits for the other.
//   [CV-2] The end of what it says ends the whole: the carrier stops the listener, and ends the connection.
//         The end of the listener alone ends nothing.
//   [CV-3] The listener has returned before the conversation, the exchange or the connection goes.
//   [CV-4] When draining begins the conversation is told once, and has a short time to say goodbye.
#pragma once

#include <exception>

#include "http/exchange.h"
#include "runtime/scope.h"

namespace cairn::http {

class Conversation : public io::BodySource {
 public:
  // Takes what arrives, until it ends. `arriving` outlives the call. Cancel: clean.
  virtual Task<> listen(Call call, RequestBody& arriving) = 0;
  // Draining has begun: what it says should end soon.
  virtual void drain() noexcept = 0;
};

// The conversation as its carrier leads it, in the carrier's own task. Made once the request's body gives
// what arrives; end() is awaited before it goes.
class Conversing {
 public:
  struct Times {
    Duration piece;    // for the conversation to say something
    Duration goodbye;  // for it to end once draining has begun
  };
  // `exchange.response` switches. `draining` is stopped when draining begins, and whenever the call's
  // source is.
  Conversing(Shard& shard, Call call, CancelSource& draining, Exchange& exchange, Times times);

  // The next piece to send; an empty one is the end of our side. Cancel: clean.
  Task<Result<io::Piece>> next();
  // Stops the listener and waits for its end. Rethrows what the listener threw. Cancel: shielded.
  Task<> end();

 private:
  Shard& shard_;
  Call call_;
  CancelSource& draining_;
  Conversation& conversation_;
  Times times_;
  Instant goodbye_until_{};
  bool told_ = false;  // of the draining
  Scope listener_;
};

}  // namespace cairn::http
