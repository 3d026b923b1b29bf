// Stream: one request of an HTTP/2 connection, and its answer. Internal to the server.
//
// The server keeps used streams, so that a connection in steady state makes none.
#pragma once

#include <optional>

#include "http/exchange.h"
#include "http/h1/body_pace.h"
#include "http/h1/pace.h"
#include "http/h2/head_builder.h"
#include "http/h2/outflow.h"
#include "runtime/cancel.h"

namespace cairn::http::h2 {

class Connection;
struct Stream;

// A request's body: what has arrived and was not yet pulled. Only what is pulled is acknowledged to the peer,
// so that it can never be more than the windows.
class StreamBody final : public RequestBody {
 public:
  void start(Connection& connection, Stream& stream, bool bodiless) noexcept;
  // The answer agrees to another protocol: the body is what arrives from now on.
  void open() noexcept { reset(ended_ && unread_.empty()); }
  void clear() noexcept;

  // --- of the connection
  // False: more than the length that the head gives.
  bool arrive(ByteView bytes);
  // False: less than that length.
  bool end() noexcept;
  void break_off(const Error& error) noexcept;
  std::size_t unread() const noexcept { return unread_.size(); }
  std::size_t drop_unread() noexcept;

 private:
  friend class Connection;
  Task<Result<Buffer>> pull(Call call) override;
  void tell_reader() noexcept {
    if (!reader_.empty()) wake(reader_.front());
  }

  Connection* connection_ = nullptr;
  Stream* stream_ = nullptr;
  std::string unread_;
  std::uint64_t arrived_ = 0;
  bool ended_ = false;    // the peer has sent all
  bool granted_ = false;  // the window was opened
  std::optional<Error> broken_;
  BodyPace pace_;
  WaitList reader_;
};

// A conversation that a stream carries.
struct Carried {
  Carried(Shard& shard, Scope& tasks, CancelSource& draining, Exchange& exchange, Conversing::Times times)
      : stop(shard, &tasks.source()),
        conversing(shard, tasks.call().under(stop), draining, exchange, times) {}

  CancelSource stop;  // of both its sides; draining leaves it alone
  Conversing conversing;
};

struct StreamParts {
  HeadBuilder head;
  StreamBody wire_body;
};

// In one of its connection's lists from the first byte of its head to its release.
struct Stream : StreamParts, Exchange, Link {
  Stream() : Exchange(head.head(), wire_body), pace(false) {}
  void clear() noexcept;

  std::int32_t id = 0;
  bool has_head = false;   // the head is complete
  bool is_open = false;    // on the wire
  bool is_begun = false;   // the answerer knows it, and must be told of its end
  bool runs = false;       // its handler runs
  bool fetches = false;    // a task gets the next bytes of its answer
  bool hungry = false;     // and one has to
  bool is_slow = false;    // they did not come promptly, the last time or now
  bool answered = false;   // the head of the answer was handed over
  bool sent_all = false;   // the last frame of the answer was written down
  bool has_place = false;  // of the gate, as an open stream
  bool refused = false;    // for want of room, which is no fault of the peer's
  std::optional<Error> fault;
  Outflow flow;
  Pace pace;
  Instant fetches_since{};
  Instant shut_since{};           // its window
  Instant declined_at{};          // when the peer is told that the rest of the request is not wanted
  std::uint64_t thrown_away = 0;  // of the body, behind the answer
  std::optional<CancelSource> stop;
  std::optional<Carried> carried;  // until its listener has ended
};

}  // namespace cairn::http::h2
