// Connection: the task of one HTTP/1.1 connection. Internal to the server.
#pragma once

#include <memory>

#include "http/h1/body.h"
#include "http/h1/pace.h"
#include "http/h1/parser.h"
#include "http/h1/server.h"

namespace cairn::http {

// What the exchange of an HTTP/1.1 connection is made of: views of the head point into the connection's
// input.
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

// Linked into one of its server's lists while it waits for a head.
class Connection : public Link {
 public:
  // `attends`: draining does not wait for it.
  Connection(Server& server, std::unique_ptr<io::Stream> stream, Gate::Admission admission, bool health_only,
             bool attends);
  ~Connection();

  // Serves requests until the connection ends. Cancel: partial — the connection is broken.
  static Task<> run(Call call, std::unique_ptr<Connection> self);

  const io::Stream& stream() const noexcept { return *stream_; }
  Instant waits_since() const noexcept { return waits_since_; }
  // Ends its wait for a head, and with it the connection. What it held is free at once.
  void give_way() noexcept;
  // From now on draining does not wait for it.
  void attend() noexcept;

 private:
  friend class WireBody;
  enum class Read : std::uint8_t { got, ended, timed_out };

  Task<> serve(Call call);
  void stand(Gate::Admission admission) noexcept;
  // Draining has begun, or its end has come, and this connection is idle: it may be kept to attend.
  bool may_be_kept() const noexcept {
    return !attends_ && server_.attending_ != nullptr && admission_ != Gate::Admission::extra;
  }
  // Around every wait for bytes of a head. After it: false when this connection has given way, or should
  // have.
  void start_waiting() noexcept;
  bool stop_waiting(const Result<>& waited) noexcept;
  Call head_wait(const Call& call) const noexcept {
    return admission_ == Gate::Admission::extra ? call.by(extra_until_) : call;
  }
  // Of an extra connection, its head being there: a place, or none. False: it is not even told so.
  Task<bool> find_place(Call call, bool whole);
  // The task failed: the peer sees a reset, and what was counted for its request is given back.
  void break_off(const char* what) noexcept;
  // Says why this connection may not stay, without reading from it.
  Task<> turn_away(Call call);
  // What the waits of a request answer to below the connection's own stop.
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
  // What the head of the answer takes at most.
  std::size_t head_size_max() const noexcept {
    return head_room - FieldList::inside_size + exchange_->response.fields.lines().size();
  }
  // A fast reader gets this much and then lets others have their turn.
  static constexpr std::size_t turn_bytes_max = std::size_t{1} << 20;
  // What a slow reader keeps of a cache is all of a run: its runs are short, and get longer as long as it
  // takes them at once.
  static constexpr std::size_t run_pieces_min = 4, run_pieces_max = 16;
  enum class Sent : std::uint8_t { all, full, cold, turn, broken };
  class Run;
  class WhileThere;

  // Whether the answer has a body on the wire: not to HEAD, and not with a status that has none.
  bool sends_body() const noexcept;
  // The head of the answer, appended to out_. False when it does not fit (a bug: the connection breaks).
  bool write_head() noexcept;
  bool append_small_answer() noexcept;
  Task<bool> send_answer(Call call);
  Task<bool> send_stream(Call call);
  // Of an open stream: the peer's kernel has acknowledged nothing for a long time. Looked at now and then.
  bool has_vanished() noexcept;
  // The next piece of the source. One that stays open ends when draining begins.
  Task<Result<io::Piece>> pull(Call call);
  // The end of the turn, for whoever has sent much in it.
  Task<bool> give_way(Call call);
  // As much of [piece.offset, + piece.count) as goes now, taken off the piece; why it stopped there.
  Sent try_send_range(io::Piece& piece) noexcept;
  // Waits for what stopped it.
  Task<bool> get_past(Call call, Sent obstacle, const io::Piece* piece);
  Task<bool> send_file(Call call);
  // Until the kernel takes more. False when the peer is too slow, and when the call ends.
  Task<bool> wait_writable(Call call);
  Task<bool> flush(Call call, std::span<iovec> parts);

  Task<> linger(Call call);
  Task<Result<>> send_continue(Call call);
  // Drops what is left of a body that is already here; false when more would have to be read.
  bool skip_body() noexcept;

  Task<Result<Buffer>> next_length(Call call, WireBody& body);
  Task<Result<Buffer>> next_chunked(Call call, WireBody& body);
  Task<Result<>> wait_body(Call call, WireBody& body);

  Server& server_;
  std::unique_ptr<io::Stream> stream_;
  Gate::Admission admission_;
  bool health_only_;  // came in by a door that serves health only
  bool attends_;
  bool is_kept_ = false;        // its task ends, and one that attends follows
  DrainGuard inside_;           // unless it attends, or was refused
  bool gave_way_ = false;       // and is to end without another word
  PermitHold place_;            // of a reserved one
  Instant waits_since_{};       // for a head
  Instant extra_until_{};       // its head is complete by then
  bool fresh_ = true;           // no request was read yet
  bool answering_ = false;      // the answerer has been told of a request, and not yet of its end
  unsigned gathered_ = 0;       // answers in out_
  std::size_t turn_bytes_ = 0;  // sent since others last had their turn
  std::size_t run_pieces_ = run_pieces_min;
  Pace pace_;
  Instant look_at_{};  // for a peer that has vanished
  Buffer input_;       // bytes received and not yet used, from the current head's first byte on
  Buffer chunks_;      // of a chunked body: what is behind the head, so that the head can stay where it is
  Buffer out_;         // answers not yet sent
  WireExchange* exchange_ = nullptr;
};

}  // namespace cairn::http
