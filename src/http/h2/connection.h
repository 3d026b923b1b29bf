// Connection: the task of one HTTP/2 connection. Internal to the server. nghttp2 reads and writes the frames,
// in memory; this task alone reads and writes the stream.
//   [H2-1] Each request whose head was accepted is answered, or its stream is reset, exactly once; and the
//         answerer is told of its end exactly once.
//   [H2-2] Only bytes of a body that were pulled are acknowledged: no more than the connection's window is
//         kept, whatever the handlers do.
//   [H2-3] What a connection keeps for its peer is bounded: heads, unread bodies, unsent frames, and answers
//         not yet taken. When a bound is reached, requests wait to be begun, or are refused unbegun.
//   [H2-4] At most max_running handlers run; the others wait in the order of arrival, at most max_streams.
//   [H2-5] A peer that resets, or controls, beyond its allowance is told to calm down, and the connection
//         ends.
//   [H2-6] Every wait of this task has a deadline; every wait of a handler ends when its stream does.
//   [H2-7] A stream that carries a conversation is not finished before the listener has returned, however the
//         stream ends (CV-3).
#pragma once

#include <nghttp2/nghttp2.h>

#include <exception>
#include <memory>
#include <vector>

#include "http/h1/pace.h"
#include "http/h1/server.h"
#include "http/h2/allowance.h"
#include "http/h2/stream.h"
#include "http/served_connection.h"

namespace cairn::http::h2 {

inline constexpr std::string_view protocol = "h2";  // its name in TLS

class Connection final : public ServedConnection {
 public:
  // Both ends have agreed upon HTTP/2, and nothing was read yet.
  explicit Connection(ServedConnection&& before) noexcept;
  ~Connection() override;
  std::string_view speaks() const noexcept override { return protocol; }

 private:
  friend class StreamBody;
  struct Callbacks;  // what nghttp2 calls

  // The window of all bodies of the connection. It is the least that the protocol allows.
  static constexpr std::int32_t window = 65535;
  // Streams beyond one are refused while the heads that are kept are larger than this together.
  static constexpr std::size_t heads_max = std::size_t{48} << 10;
  // No request is begun while the texts of the answers that wait for the peer are larger than this together.
  static constexpr std::size_t texts_max = std::size_t{64} << 10;
  // Pieces of sources that are kept, or are being got, are no larger than this together, except those of
  // streams that stay open, and one each of so many sources that are not prompt.
  static constexpr std::size_t pieces_max = 2 * Slab::large;
  static constexpr unsigned slow_max = 32;
  static constexpr Duration prompt = Duration::millis(10);
  // While more frames than this wait to be sent, nothing is read.
  static constexpr std::size_t outbound_max = 256;
  static constexpr std::size_t turn_bytes_max = std::size_t{1} << 20;
  // After this much of a head, or of trailers, the connection ends: the rest would be decompressed in vain.
  static constexpr std::size_t heads_seen_max = std::size_t{128} << 10;

  Task<> serve(Call call) override;
  Task<> turn_away(Call call) override;
  void abandon() override;

  // --- connection.cpp: the task
  void start_session();
  Task<> run_session(Call call);
  Task<> say_last(Call call);
  Task<bool> wait(Call call);
  Instant next_deadline() const noexcept;
  bool keep_time() noexcept;
  bool judge_peer(Instant now) noexcept;
  bool is_due(Instant& since, Instant now) const noexcept;
  bool drain_step() noexcept;
  void end_session(std::uint32_t code) noexcept;
  bool has_ended() const noexcept;
  bool is_idle() const noexcept;
  void poke() noexcept;
  bool may_read() const noexcept;
  bool window_is_used_up() const noexcept;

  // --- receive.cpp: what arrives
  bool read_some();
  void on_frame_begins(const nghttp2_frame_hd& frame) noexcept;
  int on_head_begins(const nghttp2_frame& frame);
  int on_field(const nghttp2_frame& frame, std::string_view name, std::string_view value);
  int on_bad_field(const nghttp2_frame& frame);
  int on_data(std::int32_t id, ByteView bytes);
  int on_frame(const nghttp2_frame& frame);
  int on_closed(std::int32_t id, std::uint32_t code);
  void on_head(Stream& stream, bool bodiless);
  Stream* find(std::int32_t id) const noexcept;

  // --- answer.cpp: requests and their answers
  Task<bool> begin_waiting(Call call);
  void begin(Stream& stream);
  bool may_begin() const noexcept;
  Answerer::Next ask(Stream& stream);
  Task<> run_handler(Call call, Stream* stream);
  void answer_failure(Stream& stream);
  bool take_place(Stream& stream);
  void submit(Stream& stream);
  void agree(Stream& stream);
  void add_fields(const Stream& stream);
  void add_field(std::string_view name, std::string_view value, std::uint8_t flags = 0);
  void start_fetches();
  Task<> fetch(Call call, Stream* stream);
  Task<> hang_up(Stream* stream);
  Task<> end_conversation(Stream* stream);
  CancelSource& stop_of(Stream& stream);
  void reset_stream(Stream& stream, std::uint32_t code) noexcept;
  void note_sent(Stream& stream);
  void note_goaway() noexcept;
  void decline_body(Stream& stream) noexcept;
  void throw_away(Stream& stream, std::size_t count) noexcept;
  void decline_bodies(Instant now) noexcept;
  void finish(Stream& stream, bool complete);
  void break_stream(Stream& stream);
  void release_if_done(Stream& stream);

  // --- send.cpp: what is sent
  enum class Sent : std::uint8_t { all, blocked, turn, broken };
  Sent try_send();
  bool write_frames();
  ssize_t read_body(Stream& stream, std::size_t room, std::uint32_t* flags);
  void write_data(const std::uint8_t* frame_head, std::size_t size) noexcept;
  void finish_written();

  // --- body.cpp
  Task<Result<Buffer>> next_of_body(Call call, StreamBody& body);
  Task<Result<>> wait_body(Call call, StreamBody& body);
  void grant(Stream& stream) noexcept;
  void widen(const Stream& stream) noexcept;
  void on_settings_known() noexcept;

  struct SessionDelete {
    void operator()(nghttp2_session* session) const noexcept { nghttp2_session_del(session); }
  };
  std::unique_ptr<nghttp2_session, SessionDelete> session_;
  Scope* tasks_ = nullptr;  // the handlers; while the session is served
  List<Stream> heads_;      // whose heads are coming in
  List<Stream> waiting_;    // to be begun
  List<Stream> live_;       // begun, or waiting for nothing but their release
  List<Stream> written_;    // their last frame is in out_
  std::size_t streams_ = 0;
  std::size_t running_ = 0;  // handlers that are not of open streams
  std::size_t open_ = 0;     // streams that stay open
  std::size_t hungry_ = 0;
  std::size_t head_bytes_ = 0, text_bytes_ = 0;
  std::size_t block_bytes_ = 0;  // of the fields that are coming in
  std::int32_t refused_ = 0;     // the stream of these, if it is refused

  WaitList poked_;
  bool work_ = false;
  bool is_cut_ = false;         // the end of the drain has stopped it
  bool blocked_ = false;        // the socket takes no more
  bool over_ = false;           // no more is read or begun; what is written is sent, then the connection ends
  bool calm_ = false;           // the peer has spent its allowance
  bool closes_ = false;         // after an answer that says so
  bool fresh_ = true;           // no request was read yet
  bool greeted_ = false;        // the peer's first frame has come
  bool full_ = false;           // out_ has no room for the next frame
  std::exception_ptr failure_;  // of a callback or a task

  Buffer out_;
  std::string_view leftover_;  // of a frame that did not fit into out_
  std::size_t body_size_ = 0;  // of the DATA frame that is being written
  std::size_t turn_bytes_ = 0;
  Pace pace_;       // of all that is sent
  Pace body_pace_;  // of bodies alone
  Allowance resets_{200, 33}, controls_{2000, 100};
  unsigned continuations_ = 0;
  Instant head_since_{};  // of a head that has begun
  Instant idle_since_{};
  Instant judge_at_ = Instant::never();
  Instant decline_at_ = Instant::never();
  Instant fetch_at_ = Instant::never();  // when a source that keeps the others waiting is taken for slow
  enum class Drain : std::uint8_t { no, noticed, told } drain_ = Drain::no;
  bool goaway_waits_ =
      false;  // which names the last request that is answered: no more are read until it is written
  Instant told_at_ = Instant::never();
  Instant over_until_{};
  Instant shut_since_{};  // the peer takes nothing
  std::vector<nghttp2_nv> fields_;
};

}  // namespace cairn::http::h2
