// Exchange: one request and its answer; the same type whatever carries it.
//
// It can be made without a connection: of a head and a body, from wherever they come. Handlers read
// `request()` and `body`, and fill `response`. An HTTP/1.1 connection has one from the request's first byte
// to the last byte of the answer, from a pool of its shard: an idle connection holds none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/units.h"
#include "http/field_list.h"
#include "http/head.h"
#include "http/request_body.h"
#include "io/file.h"
#include "io/piece.h"
#include "io/stream.h"

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
  io::Hold hold;  // of a held view or a file; released when the last byte was handed over, or by clear()
  std::unique_ptr<io::BodySource> source;
  // Of a stream: exactly `count` bytes come and Content-Length says so; a source that ends before them, or
  // has a piece that reaches beyond, breaks the connection. Else sent chunked, or until close to an HTTP/1.0
  // client.
  bool sized = false;

  // Beside those of the framing and the type. A list that has failed spoils the answer: nothing of it
  // is sent, and the client is told `internal` in its place.
  FieldList fields;
  void add_field(std::string_view name, std::string_view value) noexcept { (void)fields.add(name, value); }
  void add_number(std::string_view name, std::uint64_t value) noexcept {
    (void)fields.add_number(name, value);
  }
  void add_lines(FieldLines lines) noexcept { (void)fields.add(lines); }
  // Whether it may be sent as it is.
  bool is_sound() const noexcept {
    return !fields.failed() && content_type.size() <= content_type_max && is_field_value(content_type);
  }

  void answer_view(std::string_view type, std::string_view body) noexcept {
    kind = Body::view;
    content_type = type;
    view = body;
  }
  void answer_held(std::string_view type, std::string_view body, io::Hold of) noexcept {
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
                   io::Hold with = {}) noexcept {
    kind = Body::file;
    content_type = type;
    file = std::move(of);
    offset = at;
    count = size;
    hold = std::move(with);
  }
  // Of a file that outlives the exchange, or that the hold keeps.
  void answer_file(std::string_view type, io::File& of, std::uint64_t at, std::uint64_t size,
                   io::Hold with = {}) noexcept {
    answer_file(type, std::shared_ptr<io::File>(std::shared_ptr<io::File>(), &of), at, size, std::move(with));
  }
  void answer_stream(std::string_view type, std::unique_ptr<io::BodySource> from) noexcept {
    kind = Body::stream;
    content_type = type;
    source = std::move(from);
    sized = false;
  }
  void answer_sized(std::string_view type, std::unique_ptr<io::BodySource> from,
                    std::uint64_t size) noexcept {
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
  static constexpr std::size_t content_type_max = 512;
  // To answer anew: nothing is left but the fields that were kept (FL-2).
  void clear() noexcept;
};

// What the answerer knows of a request, from begin() to its end. It stays with the exchange, which is used
// again.
class Attachment {
 public:
  virtual ~Attachment() = default;
  virtual void clear() noexcept = 0;
};

struct Exchange {
  // Both belong to the carrier, and outlive the exchange.
  Exchange(const RequestHead& head, RequestBody& pulled) noexcept : body(pulled), head_(head) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const RequestHead& request() const noexcept { return head_; }
  RequestBody& body;
  Response response;
  io::PeerAddress peer;
  Instant started{};  // the head was complete

  // --- what the carrier knows of the connection
  bool inside = false;         // there is none: a call of another service of this process
  bool reserved = false;       // beyond the caps: health only
  bool without_place = false;  // not even that
  bool attends = false;        // was idle when draining began: health only

  // --- what the answerer tells the carrier
  // The body is being taken in: that the peer ended its side is for whoever reads it to find.
  bool taking_body = false;
  // The answer may be waited for long, and a stream of it lasts: whoever waits is told at once that draining
  // has begun (`cancelled`, StopReason::draining), and a stream ends there as if its source had. Set at
  // begin.
  bool stays_open = false;
  // Set at begin: what was asked is answered until the process leaves, and draining does not end its
  // connection.
  bool is_health = false;

  std::unique_ptr<Attachment> attached;  // the answerer's own

  // For another request of the same carrier, which clears head and body itself.
  void clear() noexcept;

 private:
  const RequestHead& head_;
};

}  // namespace cairn::http
