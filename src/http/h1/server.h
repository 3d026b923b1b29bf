// Server: HTTP/1.1 and HTTP/2 on one shard: accepts, reads heads strictly, hands exchanges to the Answerer,
// writes answers, and ends connections so that the answer arrives.
//   [HS-1] One task per connection; it is the only reader and writer of its stream. Once an HTTP/1.1
//   connection
//         has switched to another protocol, the conversation's listener is the reader (http/conversation.h).
//   [HS-2] An idle connection holds no buffer and no exchange.
//   [HS-3] A request whose head was read is answered, or its connection is broken; never silence.
//   [HS-4] Every wait of a connection's task has a deadline: one of the timeouts below, or its request's. The
//         simulation checks it (spawned as `bounded`).
//   [HS-5] While an answer waits for its source or its file, the wait ends when the peer leaves.
//   [HS-6] A connection's task that fails is reported by broke(), and ends its own connection and nothing
//         else.
//   [HS-7] A connection gives way only if it has waited for a head for at least a second and has sent no byte
//         of it. Beyond the caps, the connection that has waited longest for the rest of its head gives way.
//   [HS-8] Connections without a place are bounded: one bound for those with an unread head, one for those
//         being told.
//   [HS-9] Draining does not wait for connections that only attend: those of health-only doors, and those
//         that were idle when it began. They are told of health until leave().
//   [HS-10] Behind an early answer, a connection throws away one piece of the request's body a turn of the
//         loop, so that refused bodies hold up no request that has just arrived.
//   [HS-11] A handshake of TLS has a deadline of its own. At most handshakes_max are under way. One more ends
//         the oldest, so that silent peers cannot keep others from shaking hands.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/answerer.h"
#include "http/head.h"
#include "io/machine.h"
#include "io/tls_context.h"
#include "runtime/scope.h"

namespace cairn::http {

struct ServerTimeouts {
  Duration handshake = Duration::seconds(5);
  Duration head = Duration::seconds(5);   // from its first byte
  Duration read = Duration::seconds(5);   // a body without progress, and the window of the lowest rate
  Duration write = Duration::seconds(5);  // the window of the lowest rate at which an answer is taken
  Duration idle = Duration::seconds(60);
  Duration linger = Duration::seconds(2);
  Duration extra = Duration::seconds(1);    // a connection beyond the caps has sent its head by then
  Duration source = Duration::seconds(60);  // for the source to give one piece of a streamed answer
};

struct ServerOptions {
  ServerTimeouts timeouts;
  HeadLimits head;
  std::uint64_t linger_bytes = 2u << 20;
  std::uint64_t lowest_rate = 1024;  // bytes a second, averaged over timeouts.read or timeouts.write
  unsigned pipelined = 16;           // answers gathered into one write at most
  std::size_t handshakes_max = 256;
  std::string strict_transport = {};  // the field line of answers over TLS, or nothing
  // --- of an HTTP/2 connection
  unsigned max_streams = 100;  // at a time
  unsigned max_running = 32;   // of these, whose handlers run; the others wait

  std::uint64_t least_bytes(Duration window) const noexcept {
    return static_cast<std::uint64_t>(static_cast<double>(lowest_rate) * window.to_seconds());
  }
};

namespace h2 {
class Connection;
struct Stream;
}  // namespace h2
class Connection;
class ServedConnection;
struct WireExchange;

class Server {
 public:
  Server(io::Machine& machine, Gate& gate, Answerer& answerer, ServerOptions options);
  ~Server();

  // Replaces the timeouts for requests that begin from now on.
  void set_options(const ServerOptions& options) { options_ = options; }
  const ServerOptions& options() const noexcept { return options_; }

  // Doors for work that are opened from now on, except Unix sockets, speak TLS. Handshakes that begin later
  // show the certificates of this context; connections that are there stay as they are.
  void set_tls(std::shared_ptr<const io::TlsServer> tls) noexcept { tls_ = std::move(tls); }

  // Connections of a `health_only` listener are shown to the gate as such.
  Result<> listen(const io::Endpoint& endpoint, bool health_only = false);
  std::vector<std::string> addresses() const;
  // While running: opens a door at `endpoint` and retires the present ones (not the health-only and Unix
  // ones). A retired door accepts the connections that are queued on it, then closes. On failure nothing
  // changes.
  Result<> rebind(const io::Endpoint& endpoint);
  // Starts accepting. Every task belongs to `scope`, except the tasks of connections that attend (HS-9),
  // which belong to `attending`. Without `attending` no connection attends, and draining ends them all.
  void start(Scope& scope, Scope* attending = nullptr);
  // Accepts the connections that are queued on the listeners, and closes the listeners. Idle connections
  // attend or end; the others answer the requests they have begun, with `Connection: close`. The scope is
  // empty when all have ended.
  void drain() noexcept;
  // After drain(): ends the connections that attend in the same way. Their scope is empty when all have
  // ended.
  void leave() noexcept;
  bool draining() const noexcept { return draining_; }
  std::size_t connections() const noexcept {
    std::size_t all = 0;
    for (const std::size_t count : standing_) all += count;
    return all;
  }
  // How many of these have no place: not yet read, told that there are too many, or about to end.
  std::size_t refusals() const noexcept {
    return standing(Gate::Admission::extra) + standing(Gate::Admission::refused);
  }

  // Among the connections that `fits` accepts: since when the one that would give way has waited.
  struct Among {
    bool (*fits)(const void* context, const io::PeerAddress& peer) noexcept;
    const void* context;
  };
  std::optional<Instant> longest_idle(const Among& among) noexcept;
  // Makes that connection give way. False when there is none.
  bool let_one_give_way(const Among& among) noexcept;

 private:
  friend class ServedConnection;
  friend class Connection;
  friend class h2::Connection;
  std::size_t standing(Gate::Admission admission) const noexcept {
    return standing_[static_cast<std::size_t>(admission)];
  }
  // Whether one more connection may be told that there are too many. Connections above this bound are reset,
  // so that a flood costs nothing.
  bool may_tell() const noexcept;
  ServedConnection* find_idler(const Among& among) noexcept;
  struct Door {
    std::unique_ptr<io::Listener> listener;
    bool health_only;
    bool encrypted;
    bool retired;
    std::unique_ptr<CancelSource> accepting;  // stopped to close the door
  };
  Door& open(std::unique_ptr<io::Listener> listener, const io::Endpoint& endpoint, bool health_only);
  bool attends(const Door& door) const noexcept { return door.health_only && attending_ != nullptr; }
  bool is_over(bool attends) const noexcept { return attends ? left_ : draining_; }
  bool is_over(const Door& door) const noexcept { return door.retired || is_over(attends(door)); }
  void start_accepting(Door& door);
  void forget(Door& door) noexcept;
  Task<> accept(Call call, Door& door);
  bool take_one(Call call, Door& door);
  void welcome(Call call, std::unique_ptr<io::Stream> stream, const Door& door);
  void take_in(Call call, std::unique_ptr<io::Stream> stream, Gate::Admission admission, const Door& door);
  // Keeps a connection that was idle when draining began: it attends from now on.
  void keep(std::unique_ptr<ServedConnection> connection) noexcept;

  // The same connection, taken over by one that speaks what its stream has agreed upon. Null: it does so
  // itself.
  std::unique_ptr<ServedConnection> by_protocol(ServedConnection& connection);

  WireExchange* borrow();
  void give_back(WireExchange* exchange) noexcept;
  h2::Stream* borrow_stream();
  void give_back(h2::Stream* stream) noexcept;
  std::string_view date_line() noexcept;

  io::Machine& machine_;
  Gate& gate_;
  Answerer& answerer_;
  ServerOptions options_;
  std::shared_ptr<const io::TlsServer> tls_;
  Scope* scope_ = nullptr;
  Scope* attending_ = nullptr;
  bool draining_ = false, left_ = false;
  std::array<std::size_t, 4> standing_{};  // connections by their admission
  // Connections with a place that wait for a head's first byte, the longest first.
  List<ServedConnection> idlers_;
  List<ServedConnection> unread_;   // connections without a place that wait for their head
  List<ServedConnection> shaking_;  // connections with a place that shake hands, the oldest first
  std::size_t handshakes_ = 0;      // of these
  std::size_t open_doors_ = 0;      // for work
  std::vector<std::unique_ptr<Door>> doors_;
  std::unique_ptr<CancelSource> idle_;      // stopped when draining begins; idle waits answer to it
  std::unique_ptr<CancelSource> attended_;  // stopped by leave(); attending connections wait under it
  std::vector<std::unique_ptr<WireExchange>> spare_;
  std::vector<std::unique_ptr<h2::Stream>> spare_streams_;
  std::int64_t date_second_ = -1;
  std::array<char, 80> date_line_;
};

}  // namespace cairn::http
