// Exchange: one request and its answer; the same type whatever carries it.
//
// It lives from the request's first byte to the last byte of the answer and comes from a pool of its
// shard: an idle connection holds none. Handlers read `request` and `body`, and fill `response`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/ulid.h"
#include "base/units.h"
#include "http/head.h"
#include "http/h1/parser.h"
#include "http/piece.h"
#include "http/request_body.h"
#include "http/response_head.h"
#include "http/route.h"
#include "io/file.h"
#include "io/stream.h"
#include "runtime/call.h"
#include "runtime/drain.h"
#include "runtime/permits.h"

namespace cairn::http {

// What is to be sent. Exactly one kind of body; HEAD sends the head of it.
struct Response {
  enum class Body : std::uint8_t { none, view, held, text, file, stream };

  int status = 200;
  Body kind = Body::none;
  bool close = false;      // the connection ends after this answer
  bool abandoned = false;  // nobody is there to read it: the connection ends without it
  std::string_view content_type;
  std::string_view view;           // outlives the exchange (memory of the service), or as long as `hold`
  std::string text;                // owned; keeps its room from request to request
  std::shared_ptr<io::File> file;  // [offset, offset + count)
  std::uint64_t offset = 0, count = 0;
  Hold hold;  // of a held view or a file; released when the last byte was handed over, or by clear()
  std::unique_ptr<BodySource> source;
  // Of a stream: exactly `count` bytes come and Content-Length says so; a source that ends before them, or
  // has a piece that reaches beyond, breaks the connection. Else sent chunked, or until close to an HTTP/1.0
  // client.
  bool sized = false;

  // Further field lines. What is no field name or no field value, and a line that does not fit, spoils
  // the answer: nothing of it is sent, and the client is told `internal` in its place.
  void add_field(std::string_view name, std::string_view value) noexcept;
  void add_number(std::string_view name, std::uint64_t value) noexcept;
  void add_lines(FieldLines lines) noexcept;
  std::string_view lines() const noexcept { return {lines_.data(), lines_size_}; }
  // Whether it may be sent as it is.
  bool is_sound() const noexcept {
    return !spoiled_ && content_type.size() <= content_type_max && is_field_value(content_type);
  }

  void answer_view(std::string_view type, std::string_view body) noexcept {
    kind = Body::view;
    content_type = type;
    view = body;
  }
  void answer_held(std::string_view type, std::string_view body, Hold of) noexcept {
    kind = Body::held;
    content_type = type;
    view = body;
    hold = std::move(of);
  }
  void answer_text(std::string_view type) noexcept {  // `text` was filled by the caller
    kind = Body::text;
    content_type = type;
  }
  void answer_file(std::string_view type, std::shared_ptr<io::File> of, std::uint64_t at, std::uint64_t size,
                   Hold with = {}) noexcept {
    kind = Body::file;
    content_type = type;
    file = std::move(of);
    offset = at;
    count = size;
    hold = std::move(with);
  }
  // Of a file that outlives the exchange, or that the hold keeps.
  void answer_file(std::string_view type, io::File& of, std::uint64_t at, std::uint64_t size,
                   Hold with = {}) noexcept {
    answer_file(type, std::shared_ptr<io::File>(std::shared_ptr<io::File>(), &of), at, size, std::move(with));
  }
  void answer_stream(std::string_view type, std::unique_ptr<BodySource> from) noexcept {
    kind = Body::stream;
    content_type = type;
    source = std::move(from);
    sized = false;
  }
  void answer_sized(std::string_view type, std::unique_ptr<BodySource> from, std::uint64_t size) noexcept {
    answer_stream(type, std::move(from));
    sized = true;
    count = size;
  }
  std::uint64_t size() const noexcept {
    switch (kind) {
      case Body::view:
      case Body::held:
        return view.size();
      case Body::text:
        return text.size();
      case Body::file:
        return count;
      case Body::stream:
        return sized ? count : 0;
      case Body::none:
        break;
    }
    return 0;
  }
  // Whether size() is what Content-Length says.
  bool has_length() const noexcept { return kind != Body::stream || sized; }
  // The bytes of a body that is in memory as a whole.
  std::string_view whole() const noexcept { return kind == Body::text ? std::string_view(text) : view; }
  void clear() noexcept;

 private:
  static constexpr std::size_t content_type_max = 512;
  char* take_room(std::size_t size) noexcept;

  std::array<char, 1024> lines_;
  std::size_t lines_size_ = 0;
  bool spoiled_ = false;
};

// What a service keeps about one request between its steps.
struct RequestState {
  virtual ~RequestState() = default;
};

struct Exchange {
  explicit Exchange(HeadLimits limits) : parser(limits) {}

  RequestParser parser;
  const RequestHead& request() const noexcept { return parser.head; }
  io::PeerAddress peer;
  bool reserved = false;       // on a connection beyond the caps: health only
  bool without_place = false;  // not even that
  bool attends = false;        // on a connection that was idle when draining began: health only
  std::size_t head_bytes = 0;  // of the input, from its front
  Instant started{};           // the head was complete
  Instant deadline{};          // of the response head
  RouteMatch route;
  RequestBody body;
  Response response;
  // The correlation id as it is echoed: the client's own text, or the ULID's.
  std::array<char, 64> corr_text;
  std::uint8_t corr_size = 0;
  std::string path_text;  // room for a path that had escapes
  CallContext context;    // of a request that a worker runs
  // The capability that the request came with, by what no narrowing of it changes; and the tenant that it is
  // bound to, if any. None: it needs no capability, or nobody does.
  std::optional<Ulid> capability;
  std::string tenant;
  std::unique_ptr<RequestState> state;
  std::string_view corr() const noexcept { return {corr_text.data(), corr_size}; }
  // The body is being taken in: that the peer ended its side is for whoever reads it to find.
  bool taking_body = false;
  // The answer may be waited for long, and a stream of it lasts: whoever waits is told at once that draining
  // has begun (`cancelled`, StopReason::draining), and a stream ends there as if its source had. Set at
  // begin.
  bool stays_open = false;
  // Set at begin: what was asked is answered until the process leaves, and draining does not end its
  // connection.
  bool is_health = false;
  // For the layer above, from begin to finished: what it has counted for this request.
  std::uint32_t counted = 0;
  std::uint32_t share = 0;  // and where it counted what its address has under way
  bool contested = false;   // another address asked, too, when this began

  void clear() noexcept;
};

// What the server asks of whoever answers. One per shard.
class Handler {
 public:
  virtual ~Handler() = default;
  enum class Next : std::uint8_t { answered, handle };

  // A head is complete: answer at once if that needs no wait, or ask to be run as a task.
  virtual Next begin(Exchange& exchange) = 0;
  // Fills the response. The call is stopped when the client goes away, and of what stays open when draining
  // begins.
  virtual Task<> handle(Call call, Exchange& exchange) = 0;
  // Something about this request failed before or beside the handler (framing, time, a bug).
  virtual void refuse(Exchange& exchange, Error error) = 0;
  // The answer was sent, or the connection broke first.
  virtual void finished(Exchange& exchange, bool complete) = 0;
  // A connection arrived: may it stay? `extra`: there is no place for it, but its first head is read,
  // quickly, and place() is asked then. `reserved` holds a place that serves health only.
  enum class Admission : std::uint8_t { welcome, reserved, extra, refused };
  virtual Admission admit(const io::PeerAddress& peer, bool health_only) = 0;
  // The head of an extra connection is complete: which place does it get? A reserved one is `hold`. `soon`: a
  // connection is being asked to give way, so ask again in a moment.
  enum class Place : std::uint8_t { none, soon, reserved, welcome };
  virtual Place place(Exchange& exchange, bool health_only, PermitHold& hold) {
    (void)exchange, (void)health_only, (void)hold;
    return Place::none;
  }
  // What a connection holds for as long as draining is to wait for it.
  virtual DrainGuard enter() { return {}; }
  // An extra connection was closed before its head was complete.
  virtual void closed_unread() {}
  // What a refused connection is told, through refuse().
  virtual Error refusal() const { return {ErrorCode::busy, "too many connections", Side::client}; }
  // What it held is free again. A refused connection is told so through refuse() and leaves too, if there was
  // time to tell it.
  virtual void left(const io::PeerAddress& peer, Admission admission) = 0;
  // A connection's task ended with an exception, which is a bug or want of memory: the connection is closed.
  virtual void broke(const char* what) noexcept { (void)what; }
  // Draining: the last listener for work was closed after its queue was taken in.
  virtual void doors_closed() {}
  // The peer was too slow to send or to take.
  enum class Slow : std::uint8_t { read, write };
  virtual void timed_out(Slow what) = 0;
};

}  // namespace cairn::http
