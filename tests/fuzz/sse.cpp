// Server-sent events: read the same whatever the pieces, and as a slow second reader reads them; what was
// written as one event is read as that event; what is too large is refused.
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "fuzz/splits.h"
#include "http/sse.h"
#include "http/sse_parser.h"

namespace cairn {
namespace {

struct Reading {
  std::vector<http::SseEvent> events;
  std::optional<ErrorCode> refused;
  friend bool operator==(const Reading&, const Reading&) = default;
};

Reading parse(std::string_view stream, std::uint32_t seed, std::size_t max) {
  http::SseParser parser(max);
  fuzz::Splits splits(seed);
  Reading reading;
  while (!stream.empty() && !reading.refused) {
    const std::size_t size = splits.next(stream.size());
    const fuzz::Exact piece(stream.substr(0, size));
    stream.remove_prefix(size);
    for (std::string_view bytes = piece.view(); !bytes.empty() && !reading.refused;) {
      const std::size_t before = bytes.size();
      const auto complete = parser.next(bytes);
      fuzz::require(bytes.size() < before || !complete, "no progress");
      if (!complete) {
        reading.refused = complete.error().code;
      } else if (*complete) {
        reading.events.push_back(parser.event());
        fuzz::require(reading.events.back().data.size() <= max, "larger than allowed");
      } else {
        fuzz::require(bytes.empty(), "bytes are left without an event");
      }
    }
  }
  return reading;
}

// Line by line over the whole; sizes are added up as they are kept.
Reading read_slowly(std::string stream, std::size_t max) {
  Reading reading;
  http::SseEvent event;
  std::string data;  // with the LF behind each line
  bool first = true;
  for (std::size_t at = 0; at < stream.size();) {
    std::size_t end = at;
    while (end < stream.size() && stream[end] != '\n' && stream[end] != '\r') ++end;
    std::string line = stream.substr(at, end - at);
    if (line.size() + data.size() + event.event.size() + event.id.size() > max) {
      reading.refused = ErrorCode::body_cap;
      return reading;
    }
    if (end == stream.size()) return reading;
    at = end + (stream.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    if (first && line.substr(0, 3) == "\xef\xbb\xbf") line.erase(0, 3);
    first = false;
    if (line.empty()) {
      if (!data.empty()) {
        event.data = data.substr(0, data.size() - 1);
        reading.events.push_back(event);
      }
      data.clear();
      event.event.clear();
      continue;
    }
    if (!is_utf8(line)) {
      reading.refused = ErrorCode::malformed;
      return reading;
    }
    const std::size_t colon = line.find(':');
    const std::string name = line.substr(0, colon);
    std::string value = colon == std::string::npos ? "" : line.substr(colon + 1);
    if (!value.empty() && value[0] == ' ') value.erase(0, 1);
    if (name == "data") data += value + "\n";
    if (name == "event") event.event = value;
    if (name != "id") continue;
    if (value.find('\0') != std::string::npos) {
      reading.refused = ErrorCode::malformed;
      return reading;
    }
    event.id = value;
  }
  return reading;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c != '\r' && c != '\n' && c != '\0') out += c;
  return out;
}

std::string plain_lines(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  return out;
}

// Two events made of the input, with a heartbeat between them.
void check_round_trip(std::string_view text, std::uint32_t seed) {
  if (!is_utf8(text)) return;
  const std::size_t first = text.find('\x1f');
  const std::string_view event = text.substr(0, first);
  const std::string_view rest = first == text.npos ? std::string_view() : text.substr(first + 1);
  const std::size_t second = rest.find('\x1f');
  const std::string_view id = rest.substr(0, second);
  const std::string_view data = second == rest.npos ? std::string_view() : rest.substr(second + 1);
  std::string stream;
  http::append_event(stream, event, id, data);
  http::append_comment(stream, event);
  http::append_event(stream, {}, {}, event);
  const Reading read = parse(stream, seed, stream.size());
  fuzz::require(!read.refused && read.events.size() == 2, "what was written is read");
  const http::SseEvent expected{one_line(event), one_line(id), plain_lines(data)};
  fuzz::require(read.events[0] == expected, "the event that was written");
  fuzz::require(read.events[1] == http::SseEvent{"", one_line(id), plain_lines(event)}, "the one behind it");
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string stream(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t max = data[1] < 200 ? data[1] : 4096;
  const cairn::Reading expected = cairn::read_slowly(stream, max);
  for (const std::uint32_t seed : {0u, 1u, 2u + data[0]})
    cairn::fuzz::require(cairn::parse(stream, seed, max) == expected, "reading");
  cairn::check_round_trip(stream, 2u + data[0]);
  return 0;
}
