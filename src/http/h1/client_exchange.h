// ClientExchange: one request and its answer on the wire. Internal to the client.
#pragma once

#include <memory>
#include <optional>

#include "http/client.h"
#include "http/h1/chunked.h"

namespace cairn::http {

inline std::unexpected<Error> lost(const char* context) noexcept {
  return fail(ErrorCode::connection_lost, context, Side::upstream);
}
inline std::unexpected<Error> not_understood(const char* context) noexcept {
  return fail(ErrorCode::upstream, context, Side::upstream);
}

// A timeout while a peer was asked is the peer's fault.
inline Error blame_upstream(Error error) noexcept {
  if (error.code == ErrorCode::timeout) error.side = Side::upstream;
  return error;
}
inline Result<> blame_upstream(Result<> waited) noexcept {
  if (waited) return waited;
  return fail(blame_upstream(waited.error()));
}

struct Client::Connection {
  Connection(Client& owner, const io::Endpoint& to) : client(owner), endpoint(to) { ++client.open_; }
  ~Connection() {
    if (stream) {
      stream->on_peer_gone(nullptr, nullptr);
      stream->close();
    }
    --client.open_;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void attach(std::unique_ptr<io::Stream> connected) noexcept {
    stream = std::move(connected);
    stream->on_peer_gone([](void* self) noexcept { static_cast<Connection*>(self)->peer_gone(); }, this);
  }
  // The end may arrive together with the last bytes; once these were read no other event tells of it. A task
  // that waits for room to send is woken too, to see whether an answer is the reason.
  void peer_gone() noexcept {
    gone = true;
    stream->writable.signal();
  }
  // Nothing has arrived since the last answer: no byte, and no end either.
  bool is_quiet() noexcept {
    if (gone) return false;
    if (!stream->readable.ready()) return true;
    std::byte unasked;
    return stream->try_read({&unasked, 1}).status == io::IoStatus::would_block;
  }

  Client& client;
  io::Endpoint endpoint;
  std::unique_ptr<io::Stream> stream;
  Instant idle_since{};
  bool gone = false;
};

// One request and its answer on one connection at a time. The client keeps spare exchanges and reuses them.
// An exchange outlives its use of the connection, so that the head can still be read.
class ClientExchange {
 public:
  explicit ClientExchange(Client& client) : client_(client), parser_(client.options_.head) {}

  Client& client() noexcept { return client_; }
  const ResponseHead& head() const noexcept { return parser_.head; }
  bool done() const noexcept { return done_; }
  bool answered() const noexcept { return answered_; }

  Result<> write_head(const ClientRequest& request);
  void use(Permit permit) noexcept { permit_ = std::move(permit); }
  void use(std::unique_ptr<Client::Connection> connection) noexcept { connection_ = std::move(connection); }
  // Sends the request and reads the head of the answer. Cancel: partial — drop() must follow an error.
  Task<Result<>> run(Call call, ClientRequest& request);
  Task<Result<Buffer>> next(Call call);
  std::optional<Buffer> take_whole() noexcept;
  // --- client_switch.cpp
  Task<Result<>> say(Call call, ByteView bytes);
  void end_saying() noexcept;
  void drop() noexcept { connection_.reset(); }
  void clear() noexcept;

 private:
  // False when the sending ended because the answer is here.
  Task<Result<bool>> send_body(Call call, ClientRequest& request);
  Task<Result<std::optional<io::Piece>>> pull(Call call, io::BodySource* source);
  Task<Result<bool>> write(Call call, std::span<iovec> parts);
  Task<Result<bool>> write_file(Call call, io::Piece* piece);
  // The peer reads no more of the request. False: it sent an answer that may say why.
  Result<bool> stopped_taking();
  // Reads the bytes that have arrived, without waiting; true when the answer's head is complete.
  Result<bool> poll_head();
  Result<bool> parse_head();
  void make_room();
  void start_body() noexcept;
  void finish() noexcept;

  // The connection stays until the exchange is given back: a task that says something may wait on it.
  Task<Result<Buffer>> next_said(Call call);
  Task<Result<Buffer>> next_plain(Call call);
  Task<Result<Buffer>> next_chunk(Call call);
  // A block with at least one byte and at most `most`; empty at the end of the stream.
  Task<Result<Buffer>> receive(Call call, std::uint64_t most);

  io::Stream& stream() noexcept { return *connection_->stream; }
  Slab& slab() noexcept { return client_.machine_.slab; }

  Client& client_;
  Permit permit_;
  std::unique_ptr<Client::Connection> connection_;
  Method method_ = Method::get;
  Buffer out_;  // the request's head, until it was sent for good
  ResponseParser parser_;
  Buffer input_;  // from the answer's first byte on; its head points in here
  std::size_t head_bytes_ = 0;
  unsigned interim_heads_ = 0;
  bool answered_ = false;  // a byte of an answer has come
  bool reusable_ = false;
  bool done_ = false;
  std::string_view upgrade_;  // asked for
  bool switched_ = false;
  Buffer raw_;  // body bytes received and not yet given out
  std::uint64_t left_ = 0;
  ChunkedDecoder chunks_;
  std::optional<Error> failure_;
};

}  // namespace cairn::http
