// A stream of pipelined requests, read by the real parser and decoder in fuzz-chosen pieces, must give
// exactly what the slow grammar gives: verdict, code, head, body and where the next message starts.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/grammar.h"
#include "fuzz/splits.h"
#include "http/h1/chunked.h"
#include "http/h1/parser.h"
#include "http/path.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace cairn {
namespace {

using fuzz::require;
using grammar::Message;
using grammar::Verdict;

// A connection: holds what has arrived and is not consumed, hands out exact copies of it.
class Connection {
 public:
  Connection(std::string_view stream, std::uint32_t seed) : stream_(stream), splits_(seed) {}
  bool receive() {
    if (arrived_ == stream_.size()) return false;
    arrived_ += splits_.next(stream_.size() - arrived_);
    return true;
  }
  std::string_view pending() const { return stream_.substr(consumed_, arrived_ - consumed_); }
  void consume(std::size_t count) { consumed_ += count; }
  std::size_t consumed() const { return consumed_; }

 private:
  std::string_view stream_;
  fuzz::Splits splits_;
  std::size_t arrived_ = 0, consumed_ = 0;
};

void check_path(const std::string& raw) {
  const fuzz::Exact input(raw);
  std::string buffer;
  const auto got = http::decode_path(input.view(), buffer);
  const auto want = grammar::decode_path(raw);
  require(got.has_value() == want.has_value(), "path refused");
  if (got) require(*got == *want, "decoded path");
}

void compare_head(const http::RequestHead& head, const http::RequestFraming& framing,
                  const Message& expected) {
  require(http::name_of(head.method) == expected.method, "method");
  require(head.target() == expected.target, "target");
  require(head.path() == expected.path, "path");
  require(head.query() == expected.query, "query");
  require(framing.minor == expected.minor, "minor");
  require(framing.keep_alive == expected.keep_alive, "keep_alive");
  require(framing.expect_continue == expected.expect_continue, "expect_continue");
  require(static_cast<int>(head.body) == static_cast<int>(expected.body_kind), "body kind");
  require(head.content_length == expected.length, "content length");
  check_path(expected.path);
  require(head.fields.size() == expected.fields.size(), "field count");
  for (std::size_t i = 0; i < head.fields.size(); ++i) {
    require(head.fields.name(i) == expected.fields[i].first, "field name");
    require(head.fields.value(i) == expected.fields[i].second, "field value");
    const std::string name = grammar::to_lower(expected.fields[i].first);
    for (std::size_t k = 1; k < http::field_name_count; ++k) {
      const auto known = static_cast<http::FieldName>(k);
      require((head.fields.known(i) == known) == (grammar::to_lower(http::name_of(known)) == name),
              "known name");
    }
  }
}

// False: the stream ended inside the body.
bool read_chunked(Connection& connection, const Message& expected, std::string& body, bool& rejected) {
  http::ChunkedDecoder decoder;
  for (;;) {
    const fuzz::Exact input(connection.pending());
    const auto step = decoder.next(input.view());
    connection.consume(step.consumed);
    body += step.data;
    using Kind = http::ChunkedDecoder::Kind;
    if (step.kind == Kind::done) return true;
    if (step.kind == Kind::failed) {
      rejected = true;
      require(expected.verdict == Verdict::rejected && step.error.code == expected.code, "chunked refusal");
      return false;
    }
    if (step.kind == Kind::need_more) {
      require(step.consumed == input.view().size(), "need_more leaves input");
      if (!connection.receive()) return false;
    }
  }
}

// Reads one message and compares; false when it was the last.
bool check_message(Connection& connection, http::RequestParser& parser, const Message& expected) {
  parser.reset();
  for (;;) {
    const fuzz::Exact input(connection.pending());
    const http::Parsed parsed = parser.parse(input.view());
    if (parsed.progress == http::Progress::failed) {
      require(expected.verdict == Verdict::rejected && !expected.head_complete, "head refused");
      require(parsed.error.code == expected.code, "code of refusal");
      return false;
    }
    if (parsed.progress == http::Progress::complete) {
      require(expected.head_complete, "head complete");
      compare_head(parser.head, parser.framing, expected);
      connection.consume(parsed.size);
      break;
    }
    if (!connection.receive()) {
      require(expected.verdict == Verdict::incomplete && !expected.head_complete, "head incomplete");
      return false;
    }
  }

  std::string body;
  bool complete = true;
  bool rejected = false;
  if (parser.head.body == http::BodyKind::chunked) {
    complete = read_chunked(connection, expected, body, rejected);
  } else if (parser.head.body == http::BodyKind::length) {
    while (body.size() < parser.head.content_length) {
      const std::size_t take = std::min(connection.pending().size(),
                                        static_cast<std::size_t>(parser.head.content_length) - body.size());
      body += connection.pending().substr(0, take);
      connection.consume(take);
      if (take == 0 && !connection.receive()) {
        complete = false;
        break;
      }
    }
  }
  require(body == expected.body, "body");
  if (rejected) return false;
  require(complete == (expected.verdict == Verdict::accepted), "body complete");
  if (complete) require(connection.consumed() == expected.end, "start of the next message");
  return complete;
}

void check_stream(std::string_view stream, std::uint32_t seed, grammar::Limits limits,
                  const std::vector<Message>& expected) {
  Connection connection(stream, seed);
  http::RequestParser parser({.head_bytes = static_cast<std::uint32_t>(limits.head),
                              .target_bytes = static_cast<std::uint32_t>(limits.target)});
  for (const Message& message : expected)
    if (!check_message(connection, parser, message)) {
      require(&message == &expected.back(), "number of messages");
      return;
    }
  require(false, "number of messages");
}

const char* const pieces[] = {
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /a?b=c HTTP/1.1\r\nHost: a:80\r\nContent-Length: 3\r\n\r\nabc",
    "PUT /o/b3:00 HTTP/1.1\r\nHost: [::1]:8080\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
    "3\r\nabc\r\n",
    "A;name=\"value\"\r\n0123456789\r\n",
    "0\r\n\r\n",
    "0\r\nTrailer: x\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://a/ HTTP/1.1\r\nHost: A\r\n\r\n",
    "HEAD / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
    "DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n",
    "PATCH /x HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT ",
    "TRACE ",
    "BREW ",
    " HTTP/1.0\r\n",
    " HTTP/2.0\r\n",
    "\r\n",
    "\r\n\r\n",
    "\r",
    "\n",
    "\t",
    " ",
    "\x7f",
    "\x80",
    "?",
    "#",
    ":",
    ",",
    "Host: a\r\n",
    "Host: b\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: 9223372036854775808\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Connection: close, keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "Expect: x\r\n",
    "X: y\r\n",
    "X : y\r\n",
    " folded\r\n",
    "%2e",
    "%2F",
    "%252e",
    "%c3%a9",
    "%c0%ae",
    "/./",
    "/..",
    "\\",
    "7fffffffffffffff\r\n",
    "8000000000000000\r\n",
    "00000000000000001\r\n",
    ";ext",
};

}  // namespace
}  // namespace cairn

// Half of the mutations put a whole piece of grammar somewhere: bytes alone rarely find the second message.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  if ((seed & 1) != 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string_view piece = cairn::pieces[(seed >> 1) % std::size(cairn::pieces)];
  const std::size_t at = size == 0 ? 0 : ((seed >> 8) & 1) != 0 ? size : (seed >> 9) % size;
  if (size + piece.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memmove(data + at + piece.size(), data + at, size - at);
  std::memcpy(data + at, piece.data(), piece.size());
  return size + piece.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint32_t seed = data[0];
  // Small limits half of the time, so that short inputs reach them.
  const cairn::grammar::Limits limits =
      (data[1] & 1) != 0 ? cairn::grammar::Limits{} : cairn::grammar::Limits{.head = 120, .target = 24};
  std::string_view stream(reinterpret_cast<const char*>(data) + 2, size - 2);
  // Sometimes the stream ends exactly where the limit of its first head is.
  if ((data[1] & 2) != 0) stream = stream.substr(0, limits.head);
  cairn::check_path("/" + std::string(stream.substr(0, 200)));
  const auto expected = cairn::grammar::read_stream(stream, limits);
  cairn::check_stream(stream, 0, limits, expected);
  cairn::check_stream(stream, 2 + seed, limits, expected);
  if (stream.size() < 512) cairn::check_stream(stream, 1, limits, expected);
  return 0;
}
