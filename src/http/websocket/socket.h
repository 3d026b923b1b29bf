// WebSocket (RFC 6455): a conversation in messages, for a service. The carrier may be HTTP/1.1 or HTTP/2.
//
// What a service says is pulled, like the events of http/sse.h: it is asked for the next message once the
// carrier has taken the one before. So an open socket costs one rendered piece beside the buffers of its
// connection, and a peer that reads slowly is a reader that falls behind, not a queue that grows. What the
// peer says is pulled too: while the service handles a message, no more is read.
//   [WS-1] Of all pings that were not answered yet, only the newest is owed an answer. A flood of pings holds
//         up no message.
//   [WS-2] At most one close frame is sent, and nothing behind it.
//   [WS-3] The peer's close is answered with its code. Ours waits for the peer's for a bounded time.
//   [WS-4] A peer that sends nothing for `silence`, although it was pinged, is gone. Time during which the
//         service handles a message does not count.
//   [WS-5] What the peer does wrong is told by the close code; nothing that it sends after that is read.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/conversation.h"
#include "http/websocket/message_reader.h"

namespace cairn::http::websocket {

// What a service says on one socket, and what it does with what it hears.
class Talk {
 public:
  enum class More : std::uint8_t { yes, no };

  virtual ~Talk() = default;
  // Waits for the next message and appends it to `out` with append_text(), with further messages that are at
  // hand, up to about piece_max. `no`: that was the last; the socket is closed. An error closes it as well.
  // A deadline that has passed asks for what is at hand. Cancel: clean — nothing was appended, and the next
  // call goes on from there.
  virtual Task<Result<More>> next(Call call, std::string& out) = 0;
  // The peer said this. An error closes the socket. Without an override the message is ignored. `message` is
  // valid until the return. Cancel: clean.
  virtual Task<Result<>> hear(Call call, Opcode kind, std::string_view message);
};

inline constexpr std::size_t piece_max = std::size_t{16} << 10;

struct Options {
  Duration ping = Duration::seconds(15);
  Duration silence = Duration::seconds(45);  // longer than `ping`
  Duration close = Duration::seconds(5);     // for the peer to answer a close
  std::size_t message_max = MessageReader::default_message_max;
};

class WebSocket final : public Conversation {
 public:
  explicit WebSocket(std::unique_ptr<Talk> talk, Options options = {});

  Task<Result<io::Piece>> next(Call call) override;
  Task<> listen(Call call, RequestBody& arriving) override;
  void drain() noexcept override;

 private:
  class Sleep;
  // The control frames that are due.
  void append_owed(Instant now);
  // When the next ping is due, or the peer is found to be silent.
  Instant wakes_at() const noexcept;
  // Our close was sent: until the peer has answered it, or the time is up.
  Task<Result<>> wait_for_close(Call call);
  Task<Result<>> ask_talk(Call call, Instant until);
  // Handles all that has arrived. False: nothing more is to be read.
  Task<bool> take(Call call, std::string_view bytes);
  void owe_close(CloseCode code, std::string_view reason = {});
  void wake_sender() noexcept;

  std::unique_ptr<Talk> talk_;
  Options options_;
  MessageReader reader_;
  std::string piece_;  // that is being sent

  // --- of the peer
  Instant answers_by_ = Instant::never();  // to the oldest ping since it was last heard
  bool is_handled_ = false;                // the service handles a message of it
  bool has_ended_ = false;                 // nothing more is read: it closed, went wrong, or ended its side
  std::optional<Error> lost_;
  std::array<char, control_max> pinged_{};  // the content of the newest ping
  std::optional<std::size_t> pong_owed_;    // its size

  // --- of ours
  Instant ping_at_;
  std::optional<CloseCode> close_;  // owed or sent
  std::string reason_;
  bool close_sent_ = false;
  Instant close_until_{};
  CancelSource* asleep_ = nullptr;  // ends the sender's wait
};

}  // namespace cairn::http::websocket
