// A response head gives the same verdict, fields and framing however it is split, and its framing is one
// that its fields allow.
#include <string>

#include "fuzz/grammar.h"
#include "fuzz/splits.h"
#include "http/h1/response_parser.h"

namespace cairn {
namespace {

struct Seen {
  http::Progress progress = http::Progress::need_more;
  std::string text;  // everything the head says, as one line
  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen read(std::string_view stream, http::Method method, http::HeadLimits limits, std::uint32_t seed) {
  http::ResponseParser parser(limits);
  parser.reset(method);
  fuzz::Splits splits(seed);
  for (std::size_t arrived = 0;;) {
    const fuzz::Exact input(stream.substr(0, arrived));
    const http::Parsed parsed = parser.parse(input.view());
    if (parsed.progress == http::Progress::failed) {
      fuzz::require(parsed.error.code == ErrorCode::upstream, "code");
      return {parsed.progress, parsed.error.context};
    }
    if (parsed.progress == http::Progress::complete) {
      const http::ResponseHead& head = parser.head;
      fuzz::require(parsed.size <= stream.size() && parsed.size <= limits.head_bytes, "size");
      fuzz::require(stream.substr(0, parsed.size).ends_with("\r\n\r\n"), "end of head");
      fuzz::require(head.body != http::BodyKind::until_close || !head.keep_alive,
                    "until close and kept alive");
      fuzz::require(head.body != http::BodyKind::length || head.fields.has(http::FieldName::content_length),
                    "length");
      Seen seen{parsed.progress, std::to_string(parsed.size)};
      for (std::uint64_t number :
           {static_cast<std::uint64_t>(head.status), static_cast<std::uint64_t>(head.minor),
            static_cast<std::uint64_t>(head.body), static_cast<std::uint64_t>(head.keep_alive),
            head.content_length, static_cast<std::uint64_t>(head.announced)})
        seen.text += ' ' + std::to_string(number);
      seen.text += head.reason();
      for (std::size_t i = 0; i < head.fields.size(); ++i)
        seen.text += std::string(head.fields.name(i)) + ":" + std::string(head.fields.value(i)) + ";";
      return seen;
    }
    if (arrived == stream.size()) return {};
    arrived += splits.next(stream.size() - arrived);
  }
}

// The field section means the same in a request: the slow grammar reads it behind a request line.
void check_fields(std::string_view stream, const Seen& seen) {
  const std::size_t line = stream.find("\r\n");
  if (seen.progress != http::Progress::complete || line == std::string_view::npos) return;
  const std::string request = "GET / HTTP/1.1\r\nHost: a\r\n" + std::string(stream.substr(line + 2));
  const auto message = grammar::Reader(request, 0, {}).read();
  if (message.verdict == grammar::Verdict::incomplete && !message.head_complete)
    fuzz::require(false, "fields incomplete");
  if (!message.head_complete) return;
  std::string fields;
  for (std::size_t i = 1; i < message.fields.size(); ++i)
    fields += message.fields[i].first + ":" + message.fields[i].second + ";";
  fuzz::require(seen.text.ends_with(fields), "fields");
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  if (size < 2) return 0;
  std::string stream(reinterpret_cast<const char*>(data) + 2, size - 2);
  if ((data[1] & 2) != 0) stream = "HTTP/1.1 200 OK\r\n" + stream;
  const http::HeadLimits limits =
      (data[1] & 4) != 0 ? http::HeadLimits{} : http::HeadLimits{.head_bytes = 100};
  const auto method = (data[1] & 1) != 0 ? http::Method::head : http::Method::get;
  const Seen whole = read(stream, method, limits, 0);
  fuzz::require(read(stream, method, limits, 1) == whole, "byte by byte");
  fuzz::require(read(stream, method, limits, 2u + data[0]) == whole, "split");
  check_fields(stream, whole);
  return 0;
}
