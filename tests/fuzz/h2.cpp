// A stranger's frames behind the preface, through an HTTP/2 connection of a simulated server. Whatever comes
// in, the process lives, every request that the answerer was told of is finished exactly once, no answer
// comes for a stream that was not asked for or comes twice, and when the connection has ended all memory is
// back.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "fuzz/splits.h"
#include "http/h1/server.h"
#include "http/h2/simulated_guest.h"
#include "runtime/wait.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace cairn {
namespace {

using fuzz::require;
using http::Exchange;
using http::h2::field;
using http::h2::frame;

// Says what it gets: bodies are pulled on /read, /wait waits, the rest is answered at once.
class Desk final : public http::Gate, public http::Answerer {
 public:
  Next begin(Exchange& exchange) override {
    begin_of(exchange);
    const http::RequestHead& head = exchange.request();
    for (std::size_t i = 0; i < head.fields.size(); ++i) {
      require(http::is_field_name(head.fields.name(i)), "a field name that is none");
      require(http::is_field_value(head.fields.value(i)), "a field value that is none");
    }
    require(head.path().starts_with('/') || head.path() == "*", "a path that is none");
    require(!head.host().empty(), "no host");
    if (head.path() == "/read" || head.path() == "/wait") return Next::handle;
    exchange.stays_open = head.path() == "/open";
    exchange.response.answer_view("text/plain", head.path() == "/big" ? std::string_view(big_) : "ok");
    return Next::answered;
  }
  Task<> handle(Call call, Exchange& exchange) override {
    std::uint64_t size = 0;
    if (exchange.request().path() == "/wait") (void)co_await sleep_for(call, Duration::millis(50));
    if (exchange.request().path() == "/read") {
      for (;;) {
        const auto slice = co_await exchange.body.next(call.within(Duration::seconds(2)));
        if (!slice) exchange.response.status = 400;
        if (!slice || slice->empty()) break;
        size += slice->size();
      }
      const bool whole = exchange.response.status == 200;
      const http::RequestHead& head = exchange.request();
      require(!whole || head.body != http::BodyKind::length || size == head.content_length,
              "a body of another length than its head says");
    }
    exchange.response.answer_view("text/plain", "ok");
  }
  void refuse(Exchange& exchange, Error error) override {
    const bool does_not_switch = error.code == ErrorCode::not_implemented && error.side == Side::self;
    const bool was_begun =
        error.code == ErrorCode::internal || error.code == ErrorCode::busy || does_not_switch;
    if (!was_begun) begin_of(exchange);
    exchange.response.status = status_of(error.code);
    exchange.response.answer_view("text/plain", "refused");
  }
  void finished(Exchange& exchange, bool) override {
    require(begun_.erase(&exchange) == 1, "an exchange that is finished twice, or was never begun");
  }
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow) override {}
  void broke(const char*) noexcept override { require(false, "a connection failed"); }
  bool admit_stream(const io::PeerAddress&) override { return ++places_, true; }
  void stream_left(const io::PeerAddress&) override { --places_; }
  bool has_all_back() const { return begun_.empty() && places_ == 0; }

 private:
  void begin_of(Exchange& exchange) {
    require(begun_.emplace(&exchange, true).second, "an exchange that is begun twice");
  }
  std::map<const Exchange*, bool> begun_;
  int places_ = 0;
  std::string big_ = std::string(100'000, 'b');
};

std::uint32_t number(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// The frames that the server has said, as far as they are whole.
void judge(std::string_view got, std::string_view asked) {
  std::map<std::uint32_t, int> ends;
  while (got.size() >= 9) {
    const std::size_t size = number(got, 0, 3);
    if (got.size() < 9 + size) break;
    const std::uint32_t type = number(got, 3, 1), flags = number(got, 4, 1), id = number(got, 5, 4);
    require(size <= 16384, "a frame over the size that was allowed");
    if (type == NGHTTP2_HEADERS || type == NGHTTP2_DATA) {
      require(id % 2 == 1, "an answer to a stream that no client begins");
      require(ends[id] == 0, "more of an answer behind its end");
      if ((flags & NGHTTP2_FLAG_END_STREAM) != 0) ++ends[id];
    }
    got.remove_prefix(9 + size);
  }
  require(ends.size() <= asked.size() / 9, "more answers than frames");
}

void try_frames(std::string_view frames, std::uint32_t seed, bool leaves) {
  io::sim::World world(1);
  world.network().protocol = "h2";
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& away = world.add_node("away");
  Desk desk;
  io::Machine machine = host.machine();
  http::ServerOptions options;
  options.timeouts.idle = Duration::seconds(1);
  http::Server& server = host.make<http::Server>(machine, desk, desk, options);
  {
    ShardScope here(host.shard());
    require(server.listen({"host", 80, {}}).has_value(), "listen");
    server.start(host.scope());
  }
  const std::string all = http::h2::preface() + std::string(frames);
  {
    io::sim::Guest guest(world, away, {"host", 80, {}});
    fuzz::Splits splits(seed);
    for (std::string_view rest = all; !rest.empty();) {
      const std::size_t size = splits.next(rest.size());
      guest.send(rest.substr(0, size));
      rest.remove_prefix(size);
      if (!rest.empty()) guest.run_for(Duration::micros(200));
    }
    if (leaves) guest.close(true);
    if (!leaves) require(guest.until_ended(Duration::seconds(300)), "a connection that never ends");
    judge(guest.got(), all);
  }
  world.run_until([&] { return server.connections() == 0; }, Duration::seconds(300));
  require(server.connections() == 0, "a connection that never ends");
  require(desk.has_all_back(), "a request that was begun and never finished");
  require(machine.slab.outstanding() == 0, "a buffer that was kept");
  world.stop();
}

std::string head(std::string_view method, std::string_view path) {
  return field(":method", method) + field(":scheme", "https") + field(":authority", "h") +
         field(":path", path);
}

const std::string& piece(std::size_t i) {
  using namespace http::h2;
  static const std::string all[] = {
      get_frame(1, "/x"),
      get_frame(3, "/wait"),
      get_frame(5, "/big"),
      get_frame(7, "/open"),
      get_frame(9, "/open"),
      frame(NGHTTP2_HEADERS, end_headers, 1, head("POST", "/read")),
      frame(NGHTTP2_HEADERS, end_headers, 3, head("POST", "/read") + field("content-length", "4")),
      frame(NGHTTP2_HEADERS, end_headers, 5, head("POST", "/x")),
      frame(NGHTTP2_HEADERS, 0, 11, head("GET", "/x")),
      frame(NGHTTP2_CONTINUATION, end_headers, 11, field("x-a", "b")),
      frame(NGHTTP2_DATA, end_stream, 1, "body"),
      frame(NGHTTP2_DATA, 0, 3, "body"),
      frame(NGHTTP2_DATA, 0, 5, ""),
      frame(NGHTTP2_RST_STREAM, 0, 1, word(8)),
      frame(NGHTTP2_RST_STREAM, 0, 3, word(8)),
      frame(NGHTTP2_RST_STREAM, 0, 7, word(0)),
      frame(NGHTTP2_SETTINGS, 0, 0, setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0)),
      frame(NGHTTP2_SETTINGS, 0, 0, setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100)),
      frame(NGHTTP2_SETTINGS, 0, 0, setting(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0)),
      frame(NGHTTP2_SETTINGS, 1, 0),
      frame(NGHTTP2_WINDOW_UPDATE, 0, 0, word(100'000)),
      frame(NGHTTP2_WINDOW_UPDATE, 0, 5, word(100'000)),
      frame(NGHTTP2_WINDOW_UPDATE, 0, 5, word(0)),
      frame(NGHTTP2_PING, 0, 0, "12345678"),
      frame(NGHTTP2_PRIORITY, 0, 5, word(3) + "\x10"),
      frame(NGHTTP2_GOAWAY, 0, 0, word(0) + word(0)),
      frame(NGHTTP2_HEADERS, end_headers, 13, head("CONNECT", "/x") + field(":protocol", "websocket")),
      frame(NGHTTP2_HEADERS, end_headers | end_stream, 1, field("x-trailer", "b")),
      field("x-a", "b\r\nc: d"),
      field("host", "other"),
      field("cookie", "a"),
      field("expect", "100-continue"),
  };
  return all[i % std::size(all)];
}

}  // namespace
}  // namespace cairn

// Most of the mutations put a frame somewhere: bytes alone rarely make one.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  if ((seed & 3) == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string& piece = cairn::piece(seed >> 3);
  const std::size_t at = size == 0 ? 0 : (seed & 4) != 0 ? size : (seed >> 9) % size;
  if (size + piece.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memmove(data + at + piece.size(), data + at, size - at);
  std::memcpy(data + at, piece.data(), piece.size());
  return size + piece.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view frames(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::uint32_t seed = size < 1024 ? data[0] >> 1 : 0;
  cairn::try_frames(frames, seed > 3 ? 0 : seed, (data[0] & 1) != 0);
  return 0;
}
