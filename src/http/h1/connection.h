// Connection: the task of one HTTP/1.1 connection. Internal to the server.
#pragma once

#include <memory>

#include "http/conversation.h"
#include "http/h1/body.h"
#include "http/h1/pace.h"
#include "http/h1/parser.h"
#include "http/h1/server.h"
#include "http/served_connection.h"

namespace cairn::http {

class HeadWriter;

// The parts of an HTTP/1.1 connection's exchange. Views of the head point into the connection's input.
struct WireParts {
  RequestParser parser;
  WireBody wire_body;
  std::size_t head_bytes = 0;  // of the input, from its front
};

struct WireExchange : WireParts, Exchange {
  explicit WireExchange(HeadLimits limits)
      : WireParts{RequestParser(limits), {}}, Exchange(parser.head, wire_body) {}
  void clear() noexcept {
    parser.reset();
    wire_body.clear();
    Exchange::clear();
  }
};

class Connection final : public ServedConnection {
 public:
  Connection(Server& server, std::unique_ptr<io::Stream> stream, io::TlsStream* handshake,
             Gate::Admission admission, bool health_only, bool attends);
  ~Connection() override;
  std::string_view speaks() const noexcept override { return "http/1.1"; }

 private:
  friend class WireBody;
  enum class Read : std::uint8_t { got, ended, timed_out };

  Task<> serve(Call call) override;
  Task<> turn_away(Call call) override;
  void abandon() override;
  // The cancel source for the waits of a request, below the connection's own stop.
  CancelSource& parent_of_waits(const Call& call) const noexcept {
    return exchange_->stays_open ? *server_.idle_ : call.cancel();
  }
  // Reads more of the head into input_; makes room first.
  bool make_room();
  void begin_request(std::size_t head_bytes) noexcept;
  void drop_behind_head(std::size_t count) noexcept;
  Answerer::Next begin();
  Task<> run_handler(Call call);
  void answer_failure();
  void finish(bool complete);
  // --- send.cpp
  // Leaves room for a usual head behind an answer that is already gathered.
  static constexpr std::size_t head_room = 2048;
  // An upper bound of the size of the answer's head.
  std::size_t head_size_max() const noexcept {
    return head_room - FieldList::inside_size + exchange_->response.fields.lines().size();
  }
  // A connection sends at most this much to a fast reader before other tasks get their turn.
  static constexpr std::size_t turn_bytes_max = std::size_t{1} << 20;
  // A cache must keep every piece of a run until all of the run is sent. So the runs of a slow reader are
  // short. They grow as long as the socket takes each run at once.
  static constexpr std::size_t run_pieces_min = 4, run_pieces_max = 16;
  enum class Sent : std::uint8_t { all, full, cold, turn, broken };
  class Run;
  class WhileThere;

  // Whether the answer has a body on the wire: not to HEAD, and not with a status that has none.
  bool sends_body() const noexcept;
  // The head of the answer, appended to out_. False when it does not fit (a bug: the connection breaks).
  bool write_head() noexcept;
  bool claim_head(HeadWriter& head) noexcept;
  bool append_small_answer() noexcept;
  Task<bool> send_answer(Call call);
  Task<bool> send_stream(Call call);
  // For an open stream: whether the peer's kernel has acknowledged nothing for a long time. Checked now and
  // then.
  bool has_vanished() noexcept;
  // The next piece of the source. A stream that stays open ends when draining begins.
  Task<Result<io::Piece>> pull(Call call);
  // Ends the turn of a connection that has sent much in it: other tasks run first.
  Task<bool> give_way(Call call);
  // Sends as much of [piece.offset, + piece.count) as goes now, takes it off the piece, and returns why it
  // stopped.
  Sent try_send_range(io::Piece& piece) noexcept;
  // Waits until the obstacle that stopped try_send_range() is gone.
  Task<bool> get_past(Call call, Sent obstacle, const io::Piece* piece);
  Task<bool> send_file(Call call);
  // Waits until the kernel takes more. False when the peer is too slow, and when the call ends.
  Task<bool> wait_writable(Call call);
  Task<bool> flush(Call call, std::span<iovec> parts);

  Task<> linger(Call call);
  // An encrypted connection says its end in a record, for which there may be no room yet.
  Task<> say_end(Call call);
  Task<Result<>> send_continue(Call call);
  // Drops the rest of a body if it has already arrived; false when more would have to be read.
  bool skip_body() noexcept;

  // --- switch.cpp
  // The protocol that the request asks for, if this connection may switch to it.
  std::string_view wanted_protocol() const noexcept;
  // Carries the conversation that the answer switches to, to its end. True: our side ended as it should.
  Task<bool> converse(Call call);
  // What has arrived, in the order in which it came.
  Task<Result<Buffer>> next_raw(Call call);

  Task<Result<Buffer>> next_length(Call call, WireBody& body);
  Task<Result<Buffer>> next_chunked(Call call, WireBody& body);
  Task<Result<>> wait_body(Call call, WireBody& body);

  bool fresh_ = true;           // no request was read yet
  bool answering_ = false;      // the answerer has been told of a request, and not yet of its end
  unsigned gathered_ = 0;       // answers in out_
  std::size_t turn_bytes_ = 0;  // bytes sent since other tasks last had their turn
  std::size_t run_pieces_ = run_pieces_min;
  Pace pace_;
  Instant look_at_{};  // when has_vanished() looks next
  Buffer input_;       // bytes received and not yet used, from the current head's first byte on
  // Bytes behind the head of a chunked request, so that the head can stay where it is; or those of a
  // conversation.
  Buffer chunks_;
  Buffer out_;  // answers not yet sent
  WireExchange* exchange_ = nullptr;
  Conversing* conversing_ = nullptr;  // while it carries another protocol
};

}  // namespace cairn::http
