// Messages of a WebSocket's client: read the same whatever the pieces, and as a slow second reader reads them
// in the whole; what a client wrote as messages is read as those messages; what is too large is refused.
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "fuzz/splits.h"
#include "http/websocket/client_frames.h"
#include "http/websocket/message_reader.h"

namespace cairn {
namespace {

namespace ws = http::websocket;
using Kind = ws::MessageReader::Kind;

struct Message {
  Kind kind;
  std::string content;
  int code = 0;  // of a close
  friend bool operator==(const Message&, const Message&) = default;
};
struct Reading {
  std::vector<Message> messages;
  int refused = 0;  // the close code
  friend bool operator==(const Reading&, const Reading&) = default;
};

Reading parse(std::string_view stream, std::uint32_t seed, std::size_t max) {
  ws::MessageReader reader(max);
  fuzz::Splits splits(seed);
  Reading reading;
  while (!stream.empty() && reading.refused == 0) {
    const std::size_t size = splits.next(stream.size());
    const fuzz::Exact piece(stream.substr(0, size));
    stream.remove_prefix(size);
    for (std::string_view bytes = piece.view(); !bytes.empty() && reading.refused == 0;) {
      const std::size_t before = bytes.size();
      const Kind kind = reader.next(bytes);
      fuzz::require(bytes.size() < before, "no progress");
      if (kind == Kind::need_more) {
        fuzz::require(bytes.empty(), "bytes are left without a message");
      } else if (kind == Kind::failed) {
        reading.refused = static_cast<int>(reader.code());
      } else {
        const int code = kind == Kind::close ? static_cast<int>(reader.code()) : 0;
        reading.messages.push_back({kind, std::string(reader.payload()), code});
        fuzz::require(reader.payload().size() <= std::max(max, ws::control_max), "larger than allowed");
      }
    }
  }
  return reading;
}

// Whether some text that begins with `text` is UTF-8: `text` is, or is with a few bytes behind it. The
// sequence that is cut by the end is tried with every way to go on that could decide it.
bool may_become_utf8(const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t size = utf8_sequence_size(std::string_view(text).substr(at));
    if (size == 0) break;
    at += size;
  }
  const std::string rest = text.substr(at);
  if (rest.empty()) return true;
  if (rest.size() > 3) return false;
  for (const char second : {'\x80', '\x8f', '\x90', '\x9f', '\xa0', '\xbf'}) {
    for (std::size_t more = 1; more <= 3; ++more) {
      std::string whole = rest + second + std::string(more - 1, '\x80');
      if (utf8_sequence_size(whole) == whole.size()) return true;
    }
  }
  return false;
}

class SlowReader {
 public:
  SlowReader(std::string_view stream, std::size_t max) : stream_(stream), max_(max) {}

  Reading read() {
    while (reading_.refused == 0 && !closed_ && at_ < stream_.size()) read_frame();
    return std::move(reading_);
  }

 private:
  unsigned byte(std::size_t i) const { return static_cast<unsigned char>(stream_[at_ + i]); }
  std::size_t left() const { return stream_.size() - at_; }
  void refuse(int code) { reading_.refused = code; }
  void stop() { at_ = stream_.size(); }

  void read_frame() {
    const bool last = (byte(0) & 0x80) != 0;
    const unsigned opcode = byte(0) & 15;
    const bool control = opcode >= 8;
    const bool known = opcode <= 2 || (opcode >= 8 && opcode <= 10);
    if ((byte(0) & 0x70) != 0 || !known || (control && !last)) return refuse(1002);
    if (!control && (opcode == 0) != begun_.has_value()) return refuse(1002);
    if (left() < 2) return stop();
    const unsigned short_size = byte(1) & 127;
    if ((byte(1) & 0x80) == 0 || (control && short_size > 125) || (opcode == 8 && short_size == 1))
      return refuse(1002);
    const std::size_t extra = short_size == 126 ? 2 : short_size == 127 ? 8 : 0;
    if (extra == 8 && left() > 2 && byte(2) >= 0x80) return refuse(1002);
    if (left() < 2 + extra) return stop();
    std::uint64_t size = extra == 0 ? short_size : 0;
    for (std::size_t i = 0; i < extra; ++i) size = size * 256 + byte(2 + i);
    if ((extra == 2 && size < 126) || (extra == 8 && size < 65536)) return refuse(1002);
    if (!control && size + text_.size() > max_) return refuse(1009);
    if (left() < 6 + extra) return stop();
    const std::size_t here = static_cast<std::size_t>(std::min<std::uint64_t>(size, left() - 6 - extra));
    std::string content;
    for (std::size_t i = 0; i < here; ++i)
      content += static_cast<char>(byte(6 + extra + i) ^ byte(2 + extra + i % 4));
    at_ += 6 + extra + here;
    if (control)
      finish_control(opcode, content, here == size);
    else
      go_on(opcode, content, here == size, last);
  }
  void go_on(unsigned opcode, const std::string& content, bool whole, bool last) {
    if (opcode != 0) begun_ = opcode;
    text_ += content;
    const bool is_text = *begun_ == 1;
    if (is_text && !may_become_utf8(text_)) return refuse(1007);
    if (!whole || !last) return;
    if (is_text && !is_utf8(text_)) return refuse(1007);
    reading_.messages.push_back({is_text ? Kind::text : Kind::binary, text_});
    text_.clear();
    begun_.reset();
  }
  void finish_control(unsigned opcode, const std::string& content, bool whole) {
    if (!whole) return;
    if (opcode != 8) {
      reading_.messages.push_back({opcode == 9 ? Kind::ping : Kind::pong, content});
      return;
    }
    int code = 1005;
    if (!content.empty()) {
      code = static_cast<unsigned char>(content[0]) * 256 + static_cast<unsigned char>(content[1]);
      const bool registered = code >= 1000 && code <= 1014 && (code < 1004 || code > 1006);
      if (!registered && (code < 3000 || code > 4999)) return refuse(1002);
      if (!is_utf8(content.substr(2))) return refuse(1007);
    }
    reading_.messages.push_back({Kind::close, content.empty() ? "" : content.substr(2), code});
    closed_ = true;
  }

  std::string_view stream_;
  std::size_t max_;
  std::size_t at_ = 0;
  std::optional<unsigned> begun_;  // the opcode of the message that has begun
  std::string text_;
  bool closed_ = false;
  Reading reading_;
};

// The input as one message, in parts with pings between them, and as what a server writes.
void check_round_trip(std::string_view content, std::uint32_t seed) {
  fuzz::Splits splits(seed);
  std::string stream;
  Reading expected;
  const bool text = is_utf8(content);
  ws::Opcode opcode = text ? ws::Opcode::text : ws::Opcode::binary;
  std::string_view rest = content;
  do {
    const std::string_view part = rest.substr(0, splits.next(rest.size()));
    rest.remove_prefix(part.size());
    stream += ws::client_frame(opcode, part, rest.empty(), "\x01\x80\xff\x7e");
    opcode = ws::Opcode::more;
    if (rest.empty()) break;
    const std::string ping(part.substr(0, ws::control_max));
    stream += ws::client_frame(ws::Opcode::ping, ping);
    expected.messages.push_back({Kind::ping, ping});
  } while (true);
  expected.messages.push_back({text ? Kind::text : Kind::binary, std::string(content)});
  fuzz::require(parse(stream, seed, content.size()) == expected, "what was written is read");
  std::string out;
  ws::append_frame(out, ws::Opcode::binary, content);
  const auto frames = ws::read_server_frames(out);
  fuzz::require(frames && frames->size() == 1 && frames->front().payload == content, "what a server writes");
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string stream(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t max = data[1] < 200 ? data[1] : 70'000;
  const cairn::Reading expected = cairn::SlowReader(stream, max).read();
  for (const std::uint32_t seed : {0u, 1u, 2u + data[0]})
    cairn::fuzz::require(cairn::parse(stream, seed, max) == expected, "reading");
  cairn::check_round_trip(stream, 2u + data[0]);
  return 0;
}
