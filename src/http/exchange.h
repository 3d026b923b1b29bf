// Exchange: one request and its answer. The type is the same for every carrier: an HTTP/1.1 connection or a
// call inside the process.
//
// It needs no connection: a head and a body from any origin are enough. Handlers read `request()` and `body`,
// and fill `response`. An HTTP/1.1 connection takes an exchange from its shard's pool for the time from the
// request's first byte to the last byte of the answer. An idle connection holds none.
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

class Conversation;

// The answer to send. It has exactly one kind of body; for HEAD only its head is sent.
struct Response {
  enum class Body : std::uint8_t { none, view, held, text, file, stream };

  int status = 200;
  Body kind = Body::none;
  bool close = false;      // the connection ends after this answer
  bool abandoned = false;  // no client is left to read it: the connection ends without an answer
  std::string_view content_type;
  std::string_view view;           // outlives the exchange (memory of the service), or as long as `hold`
  std::string text;                // owned; keeps its room from request to request
  std::shared_ptr<io::File> file;  // [offset, offset + count)
  std::uint64_t offset = 0, count = 0;
  io::Hold hold;  // for a held view or a file; released once the last byte is handed over, or by clear()
  std::unique_ptr<io::BodySource> source;
  // For a stream: exactly `count` bytes come, and Content-Length says so. A source that ends earlier, or has
  // a piece that reaches beyond `count`, breaks the connection. Without `sized` the stream is sent chunked,
  // or until close to an HTTP/1.0 client.
  bool sized = false;
  // For a stream: the answer agrees to Exchange::upgrade. From then on the connection (HTTP/2: the stream)
  // carries the other protocol's bytes: `source` gives what is to be sent, and the request's body what has
  // arrived, without a cap. The end of the source is the end of our side. HTTP/1.1 answers 101 whatever the
  // status is. Set by switch_to() alone.
  bool switches = false;
  Conversation* conversation = nullptr;  // the source, of an answer that switches

  // The fields besides the framing and the content type. If the list has failed, no part of this answer
  // is sent; the client gets `internal` instead.
  FieldList fields;
  void add_field(std::string_view name, std::string_view value) noexcept { (void)fields.add(name, value); }
  void add_number(std::string_view name, std::uint64_t value) noexcept {
    (void)fields.add_number(name, value);
  }
  void add_lines(FieldLines lines) noexcept { (void)fields.add(lines); }
  // Whether the answer may be sent as it is.
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
  // For a file that outlives the exchange, or that the hold keeps alive.
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
  void switch_to(std::unique_ptr<Conversation> with) noexcept;  // http/conversation.h
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
  // Prepares for another answer: clears all but the fields that were kept (FL-2).
  void clear() noexcept;
};

// The answerer's own data about a request, from begin() to the request's end. It stays with the exchange,
// which is reused for later requests.
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
  bool encrypted = false;  // the request came over TLS; of a call inside the process: to its first hop
  // The protocol that the request asks to go on with ("websocket"), and that the carrier could switch to.
  // Empty: none. HTTP/1.1 asks with `Upgrade`, HTTP/2 with an extended CONNECT; the method is GET for both.
  std::string_view upgrade;
  bool inside = false;         // there is no connection: another service of this process calls
  bool reserved = false;       // the connection is beyond the caps: health only
  bool without_place = false;  // the connection has not even a reserved place
  bool attends = false;        // the connection was idle when draining began: health only
  bool health_only = false;    // the listener serves nothing but health

  // --- what the answerer tells the carrier
  // The handler is reading the body. So the carrier does not stop the work when the peer ends its side: the
  // reader of the body finds that end.
  bool taking_body = false;
  // The answer may take long, or be a stream that lasts. When draining begins, a handler that waits is told
  // at once (`cancelled`, StopReason::draining), and a stream ends as if its source had ended. Set in
  // begin().
  bool stays_open = false;
  // Set in begin(): a health request. It is answered until the process leaves, and draining does not end its
  // connection.
  bool is_health = false;

  std::unique_ptr<Attachment> attached;  // the answerer's own

  // Prepares for the carrier's next request. The carrier clears the head and the body itself.
  void clear() noexcept;

 private:
  const RequestHead& head_;
};

}  // namespace cairn::http
