// Client: HTTP/1.1 to peers from one shard, over connections that are kept and used again.
//   [C-1] At most connections_max connections are open, idle ones included. Idle ones make room first; then
//         callers wait in order of arrival, at most waiting_max of them, until their deadline. A client with
//         a waiting_max of none tells them at once.
//   [C-2] A connection is used again only after an answer that was read to its very end, allowed it, and left
//         no byte behind. After an error, a cancel or an unread body it is closed.
//   [C-3] A request is sent a second time only if it may be repeated and the kept connection it was sent on
//         broke before the first byte of an answer; then once, on a fresh connection.
//   [C-4] Every wait ends at the call's deadline.
// Errors: `busy` (C-1), `timeout`, `connection_lost` (refused, or broken before the first byte or in the body
// of an answer), `upstream` (the strict parser does not accept the answer as HTTP/1.1, or its head was cut
// off), `integrity` (the peer's certificate), `invalid` (the request cannot be written), `closed`. The side
// is `upstream`, except for errors that our own limits or the caller's request cause.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.h"
#include "http/h1/response_parser.h"
#include "io/machine.h"
#include "io/tls_context.h"
#include "runtime/backoff.h"
#include "runtime/semaphore.h"
#include "runtime/task.h"

namespace cairn::http {

// The context of the `upstream` error when the connection ended within the head of an answer.
inline constexpr const char* head_cut_off = "the answer's head was cut off";

struct ClientOptions {
  std::size_t connections_max = 256;
  std::size_t idle_per_host_max = 16;
  std::size_t waiting_max = 256;
  // Shorter than servers allow (60 s here), so that the peer is rarely the side that closes first.
  Duration idle_timeout = Duration::seconds(30);
  HeadLimits head{};
  // Who vouches for the peers whose endpoints say `tls`.
  std::shared_ptr<const io::TlsClient> tls = {};
};

struct ClientRequest {
  enum class Body : std::uint8_t { none, view, text, stream };

  io::Endpoint endpoint;
  Method method = Method::get;
  std::string target = "/";  // origin-form, already escaped
  std::string host;          // empty: the endpoint
  // Idempotent methods may always be repeated. This flag says that the caller knows it for another method
  // too: the request carries an idempotency key, or only asks.
  bool repeatable = false;

  Body kind = Body::none;
  std::string_view view;  // outlives the sending
  std::string text;
  std::unique_ptr<io::BodySource> source;
  std::optional<std::uint64_t> length;  // of the source's bytes; sent chunked when unknown

  // Asks the peer to go on with this protocol, as Exchange::upgrade has it: a literal. For a GET without a
  // body. An answer that agrees has status 101, and is read and written as it is (ClientResponse::say).
  std::string_view upgrade;

  // The client itself writes the framing fields (Host, Content-Length, Transfer-Encoding, Connection …).
  // Adding one of them, or text that would break the head, makes the request `invalid`.
  void add_field(std::string_view name, std::string_view value);
  void set_view(std::string_view body) noexcept {
    kind = Body::view;
    view = body;
  }
  void set_text(std::string body) noexcept {
    kind = Body::text;
    text = std::move(body);
  }
  void set_source(std::unique_ptr<io::BodySource> body,
                  std::optional<std::uint64_t> size = std::nullopt) noexcept {
    kind = Body::stream;
    source = std::move(body);
    length = size;
  }
  // The added fields, as lines.
  std::string_view field_lines() const noexcept { return lines_; }
  // Prepares for another request, and keeps the room of the texts.
  void clear() noexcept;
  // Idempotent or repeatable, and its body is still there to be sent.
  bool may_repeat() const noexcept;

 private:
  friend class ClientExchange;
  std::string lines_;
  bool broken_ = false;
  bool source_used_ = false;
};

class Client;
class ClientExchange;

// An answer whose head has arrived. It owns its connection until the body has been read to the end. Dropping
// it earlier closes the connection. Must not outlive its client.
class ClientResponse {
 public:
  struct GiveBack {
    void operator()(ClientExchange* exchange) const noexcept;
  };
  explicit ClientResponse(std::unique_ptr<ClientExchange, GiveBack> exchange) noexcept
      : exchange_(std::move(exchange)) {}

  // Views stay valid as long as this object.
  const ResponseHead& head() const noexcept;
  int status() const noexcept { return head().status; }

  // The next slice of the body, decoded from chunks; empty at the end. One puller at a time. An error is
  // final. Cancel: partial — the connection is closed, the rest of the body is lost.
  Task<Result<Buffer>> next(Call call);
  // The whole body instead, where all of it has come together with its head.
  std::optional<Buffer> take_whole() noexcept;
  bool done() const noexcept;
  // After a switch of protocols next() gives what arrives, as it arrives, and say() sends; one task may be in
  // each. An error of either leaves the other alone. Cancel: partial — some of the bytes were sent.
  Task<Result<>> say(Call call, ByteView bytes);
  // No more will be said.
  void end_saying() noexcept;
  // The whole body; `upstream` when it is longer than `cap`. Cancel: as next().
  Task<Result<std::string>> read_text(Call call, std::size_t cap);

 private:
  std::unique_ptr<ClientExchange, GiveBack> exchange_;
};

class Client {
 public:
  Client(io::Machine& machine, ClientOptions options);
  ~Client();  // CHECKs that close() was awaited or nothing was left to close
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sends and waits for the head of the answer. An answer that comes before all of a body is sent ends the
  // sending. Cancel: partial — the peer may have seen any part of the request; the connection is closed.
  Task<Result<ClientResponse>> send(Call call, ClientRequest request);
  // The same for a request that the caller keeps, to send it again. The request outlives the call.
  Task<Result<ClientResponse>> attempt(Call call, ClientRequest& request);

  // So many connections from now on, if that is more than before.
  void raise_limit(std::size_t connections_max);

  // Closes the connections that have been idle too long, and returns how many. Each send does this too; a
  // background loop calls it for clients that send nothing for a while.
  std::size_t sweep() noexcept;

  // Refuses new requests, closes idle connections, and waits for the answers that are still held.
  // Cancel: partial — answers remain, idle connections do not.
  Task<> close(Call call);

  Shard& shard() noexcept { return machine_.shard; }
  std::size_t open_connections() const noexcept { return open_; }
  std::size_t idle_connections() const noexcept { return idle_.size(); }

 private:
  friend class ClientExchange;
  friend struct ClientResponse::GiveBack;
  struct Connection;
  using Exchanging = std::unique_ptr<ClientExchange, ClientResponse::GiveBack>;

  Exchanging borrow();
  void give_back(ClientExchange* exchange) noexcept;
  Task<Result<Permit>> wait_for_slot(Call call);
  std::unique_ptr<Connection> take_idle(const io::Endpoint& endpoint) noexcept;
  Task<Result<std::unique_ptr<Connection>>> open(Call call, io::Endpoint endpoint);
  Task<Result<std::unique_ptr<io::Stream>>> connect(Call call, io::Endpoint endpoint);
  void keep(std::unique_ptr<Connection> connection) noexcept;
  void touch() const noexcept { machine_.shard.trace(identity_, Access::write); }

  io::Machine& machine_;
  ClientOptions options_;
  std::uint64_t identity_;
  Semaphore slots_;  // one for each request that has a connection or is getting one
  std::size_t waiting_ = 0;
  std::size_t open_ = 0;
  std::size_t live_ = 0;  // requests under way and answers held
  bool closed_ = false;
  std::vector<std::unique_ptr<Connection>> idle_;  // the longest idle first
  std::vector<std::unique_ptr<ClientExchange>> spare_;
  WaitList closers_;
};

struct RetryPolicy {
  BackoffPolicy backoff{};  // 50–100 ms, doubling up to 2 s; three tries
  Duration total = Duration::seconds(1);
};

// Sends up to the policy's number of tries while the error may pass and the request may be repeated, all
// within `total` and the call's deadline. An answer is never retried, whatever its status. Returns the last
// error, at once when the next try would come too late. Cancel: as send().
Task<Result<ClientResponse>> send_with_retries(Call call, Client& client, ClientRequest request,
                                               RetryPolicy policy = {});
// The same for a request that the caller keeps. It outlives the call.
Task<Result<ClientResponse>> attempt_with_retries(Call call, Client& client, ClientRequest& request,
                                                  RetryPolicy policy);

}  // namespace cairn::http
