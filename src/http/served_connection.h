// ServedConnection: what the server knows of a connection, whatever protocol it speaks: how it was admitted,
// whether it waits for a request and so may give way, and how it ends. Each protocol derives its own. A
// connection over TLS begins as one of HTTP/1.1; if the handshake agrees on HTTP/2, one of HTTP/2 takes over.
#pragma once

#include <memory>
#include <string_view>

#include "http/answerer.h"
#include "io/tls_stream.h"

namespace cairn::http {

class Server;

// Linked into one of its server's lists while it waits for a head.
class ServedConnection : public Link {
 public:
  // `handshake`: the stream itself, if it still has to shake hands. `attends`: draining does not wait for it.
  ServedConnection(Server& server, std::unique_ptr<io::Stream> stream, io::TlsStream* handshake,
                   Gate::Admission admission, bool health_only, bool attends);
  // Takes over the connection that `before` has served so far, and leaves it without one.
  explicit ServedConnection(ServedConnection&& before) noexcept;
  virtual ~ServedConnection();

  // Serves requests until the connection ends. Cancel: partial — the connection is broken.
  static Task<> run(Call call, std::unique_ptr<ServedConnection> self);

  // The protocol, by its name in TLS (ALPN).
  virtual std::string_view speaks() const noexcept = 0;
  const io::Stream& stream() const noexcept { return *stream_; }
  Instant waits_since() const noexcept { return waits_since_; }
  // Ends this connection's wait for a head, and with it the connection. Its place is free at once.
  void give_way() noexcept;
  // From now on draining does not wait for it.
  void attend() noexcept;

 protected:
  // A connection that has sent no request yet when draining begins may still send one within this time.
  static constexpr Duration fresh_grace = Duration::millis(250);

  // The stream is ready. Until the connection ends, or until it is to be kept (is_kept_).
  virtual Task<> serve(Call call) = 0;
  // Says why this connection may not stay, without reading from it.
  virtual Task<> turn_away(Call call) = 0;
  // The connection is broken: tells the answerer of the end of the requests that it knows of.
  virtual void abandon() = 0;

  void stand(Gate::Admission admission) noexcept;
  // Draining has begun or is over, and this connection is idle: it may be kept to attend.
  bool may_be_kept() const noexcept;
  // Called before and after every wait for bytes of a head. `unused`: no byte of it has come. `since`: when
  // the last byte came. A wait may end without a byte, because TLS has records without data, and goes on
  // then. stop_waiting() is false when this connection has given way, or should have.
  void start_waiting(bool unused, Instant since) noexcept;
  bool stop_waiting(const Result<>& waited) noexcept;
  Call head_wait(const Call& call) const noexcept {
    return admission_ == Gate::Admission::extra ? call.by(extra_until_) : call;
  }
  // The head of an extra connection is complete: finds a place for it, or none. False: the connection ends
  // without being told so.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the connection's own
  Task<bool> find_place(Call call, Exchange& exchange, bool whole);

  // Ends our side, then reads what still arrives, to throw it away, until the peer ends its side; bounded in
  // time and bytes.
  Task<> drop_arriving(Call call);

  Server& server_;
  std::unique_ptr<io::Stream> stream_;  // none: another connection has taken over
  Gate::Admission admission_;
  bool health_only_;  // came in by a door that serves health only
  bool attends_;
  bool is_kept_ = false;   // its task ends, and another one that attends follows
  DrainGuard inside_;      // unless it attends, or was refused
  bool gave_way_ = false;  // and must end without another word
  PermitHold place_;       // of a reserved connection
  Instant waits_since_{};  // for a head
  Instant extra_until_{};  // its head is complete by then

 private:
  // Over TLS alone. Not inline: the compiler would make room for their frames in that of run(), which every
  // connection has as long as it lives.
  // Shakes hands. False: the connection ends.
  [[gnu::noinline]] Task<bool> shake_hands(Call call);
  Task<bool> shake_hands_here(Call call);
  // Tells the peer that nothing more will come, as far as it takes that.
  [[gnu::noinline]] Task<> say_end(Call call);
  // The task failed: resets the connection, and undoes the counts of its requests.
  void break_off(const char* what) noexcept;

  io::TlsStream* handshake_ = nullptr;  // the stream, until the handshake is done
  io::TlsStream* encrypted_ = nullptr;  // the stream, if the server has encrypted it
};

}  // namespace cairn::http
