#include "h2_link.h"

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "http/h2/connection.h"
#include "io/tls_stream.h"
#include "runtime/wait.h"

namespace cairn::simulator {
namespace {

// How often who waits for the wire looks whether the connection was given up meanwhile.
constexpr Duration look = Duration::millis(200);
constexpr std::size_t output_max = 32u << 10, input_size = 16u << 10;

std::string_view as_view(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

void wake_all(WaitList& list) {
  while (!list.empty()) wake(list.front());
}

std::unexpected<Error> lost(const char* context) {
  return fail(ErrorCode::connection_lost, context, Side::upstream);
}

void take_field(Answer& answer, std::string_view name, std::string_view value) {
  const std::string text(value);
  if (name == "date") answer.dated = true;
  if (name == "x-content-type-options") answer.nosniff = value == "nosniff";
  if (name == "x-corr-id") answer.corr = text;
  if (name == "etag") answer.etag = text;
  if (name == "content-range") answer.content_range = text;
  if (name == "allow") answer.allow = text;
  if (name == "upload-missing") answer.upload_missing = text;
  if (name == "retry-after") answer.retry_after = text;
}

using FieldList = std::vector<std::pair<std::string, std::string>>;

FieldList fields_of(const http::ClientRequest& request) {
  FieldList all{{":method", std::string(http::name_of(request.method))},
                {":scheme", "https"},
                {":authority", request.host},
                {":path", request.target}};
  std::string_view lines = request.field_lines();
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    lines.remove_prefix(line.size() + 2);
    const std::size_t colon = line.find(": ");
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    all.emplace_back(std::move(name), line.substr(colon + 2));
  }
  using Body = http::ClientRequest::Body;
  if (request.kind == Body::view || request.kind == Body::text)
    all.emplace_back("content-length",
                     std::to_string(request.kind == Body::view ? request.view.size() : request.text.size()));
  return all;
}

}  // namespace

struct H2Link::Stream {
  std::int32_t id = 0;
  Answer head;
  bool has_head = false, ended = false, broken = false;
  bool closed = false;       // nghttp2 has forgotten it
  bool asked_at_all = true;  // the server may have seen it
  std::string arrived;       // of the body, not yet taken
  std::string to_send;
  bool sends_more = false;
  WaitList waiters;
};

// --- one connection

class H2Link::Connection {
 public:
  Connection(Shard& shard, std::unique_ptr<io::Stream> with, std::function<void(const std::string&)> told)
      : stream(std::move(with)), made(shard.now()), heard(shard.now()), complain(std::move(told)) {
    nghttp2_session_callbacks* callbacks = nullptr;
    CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &Connection::on_field);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &Connection::on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &Connection::on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &Connection::on_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, &Connection::on_invalid);
    nghttp2_option* option = nullptr;
    CHECK(nghttp2_option_new(&option) == 0);
    // Windows open as somebody takes the bytes.
    nghttp2_option_set_no_auto_window_update(option, 1);
    CHECK(nghttp2_session_client_new2(&session, callbacks, this, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    CHECK(nghttp2_submit_settings(session, 0, nullptr, 0) == 0);
  }
  ~Connection() { nghttp2_session_del(session); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool usable() const noexcept {
    return !given_up && !leaving && nghttp2_session_check_request_allowed(session) != 0;
  }
  void kick() { wake_all(writer); }
  void give_up() {
    if (std::exchange(given_up, true)) return;
    stream->close(false);
    for (auto& [id, one] : streams) {
      one->broken = one->broken || !one->ended;
      wake_all(one->waiters);
    }
    kick();
  }

  std::shared_ptr<Stream> ask(const http::ClientRequest& request) {
    FieldList all = fields_of(request);
    std::vector<nghttp2_nv> fields;
    for (auto& [name, value] : all)
      fields.push_back({reinterpret_cast<std::uint8_t*>(name.data()),
                        reinterpret_cast<std::uint8_t*>(value.data()), name.size(), value.size(),
                        NGHTTP2_NV_FLAG_NONE});
    auto made_stream = std::make_shared<Stream>();
    using Body = http::ClientRequest::Body;
    if (request.kind == Body::view) made_stream->to_send = request.view;
    if (request.kind == Body::text) made_stream->to_send = request.text;
    made_stream->sends_more = request.kind == Body::stream;
    nghttp2_data_provider provider{};
    provider.source.ptr = made_stream.get();
    provider.read_callback = &Connection::read_body;
    const bool has_body = request.kind != Body::none;
    made_stream->id = nghttp2_submit_request(session, nullptr, fields.data(), fields.size(),
                                             has_body ? &provider : nullptr, nullptr);
    CHECK(made_stream->id > 0);
    streams[made_stream->id] = made_stream;
    kick();
    return made_stream;
  }
  // Nobody waits for it any more.
  void drop(Stream& one, Instant asked, Instant now) {
    if (!one.closed && !given_up) {
      (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, one.id, NGHTTP2_CANCEL);
      dropped.push_back(streams[one.id]);
    }
    if (!given_up && !one.arrived.empty())
      (void)nghttp2_session_consume_connection(session, one.arrived.size());
    streams.erase(one.id);
    // Nothing at all was heard for as long as it waited: the connection is dead.
    if (!one.ended && heard < asked && now > asked + Duration::seconds(1)) give_up();
    kick();
  }
  void take(Stream& one, std::size_t size) {
    if (given_up) return;
    (void)nghttp2_session_consume(session, one.id, size);
    kick();
  }
  void send_more(Stream& one) {
    if (!given_up) (void)nghttp2_session_resume_data(session, one.id);
    kick();
  }
  std::string output() {
    std::string out;
    const std::uint8_t* bytes = nullptr;
    while (out.size() < output_max) {
      const ssize_t size = nghttp2_session_mem_send(session, &bytes);
      if (size <= 0) break;
      out += as_view(bytes, static_cast<std::size_t>(size));
    }
    return out;
  }
  // False: it cannot go on.
  bool input(std::string_view got) {
    const ssize_t used =
        nghttp2_session_mem_recv(session, reinterpret_cast<const std::uint8_t*>(got.data()), got.size());
    if (used < 0) complain(fmt::format("HTTP/2: {}", nghttp2_strerror(static_cast<int>(used))));
    kick();
    return used >= 0 && (nghttp2_session_want_read(session) != 0 || nghttp2_session_want_write(session) != 0);
  }

  std::unique_ptr<io::Stream> stream;
  const Instant made;
  Instant heard;
  std::function<void(const std::string&)> complain;
  nghttp2_session* session = nullptr;
  bool given_up = false, leaving = false;
  WaitList writer;
  std::map<std::int32_t, std::shared_ptr<Stream>> streams;
  // nghttp2 may still ask for their bodies.
  std::vector<std::shared_ptr<Stream>> dropped;

 private:
  static Connection& self_of(void* self) { return *static_cast<Connection*>(self); }
  Stream* find(std::int32_t id) {
    const auto at = streams.find(id);
    return at == streams.end() ? nullptr : at->second.get();
  }
  static int on_field(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                      void* self) {
    Stream* const one = self_of(self).find(frame->hd.stream_id);
    if (one == nullptr) return 0;
    const std::string_view key = as_view(name, name_size), text = as_view(value, value_size);
    if (key == ":status")
      (void)std::from_chars(text.data(), text.data() + text.size(), one->head.status);
    else
      take_field(one->head, key, text);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    Connection& connection = self_of(self);
    if (frame->hd.type == NGHTTP2_GOAWAY) connection.leaving = true;
    Stream* const one = connection.find(frame->hd.stream_id);
    if (one == nullptr) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS) {
      if (one->head.status < 200) one->head = Answer();
      one->has_head = one->head.status >= 200;
    }
    const bool answers = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (answers && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) one->ended = true;
    wake_all(one->waiters);
    return 0;
  }
  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                     std::size_t size, void* self) {
    Stream* const one = self_of(self).find(id);
    if (one == nullptr) {
      (void)nghttp2_session_consume_connection(session, size);
      return 0;
    }
    one->arrived += as_view(bytes, size);
    wake_all(one->waiters);
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t code, void* self) {
    Connection& connection = self_of(self);
    std::erase_if(connection.dropped, [id](const auto& each) { return each->id == id; });
    Stream* const one = connection.find(id);
    if (one == nullptr) return 0;
    if (code == NGHTTP2_REFUSED_STREAM) one->asked_at_all = false;
    one->closed = true;
    one->broken = !one->ended;
    wake_all(one->waiters);
    return 0;
  }
  static int on_invalid(nghttp2_session*, const nghttp2_frame* frame, int why, void* self) {
    self_of(self).complain(fmt::format("HTTP/2: a frame of type {} on stream {} is not valid: {}",
                                       frame->hd.type, frame->hd.stream_id, nghttp2_strerror(why)));
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, std::int32_t, std::uint8_t* into, std::size_t room,
                           std::uint32_t* flags, nghttp2_data_source* source, void*) {
    Stream& one = *static_cast<Stream*>(source->ptr);
    const std::size_t size = std::min(room, one.to_send.size());
    std::copy_n(one.to_send.begin(), size, into);
    one.to_send.erase(0, size);
    if (one.to_send.empty()) wake_all(one.waiters);
    if (one.to_send.empty() && !one.sends_more) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return size == 0 && one.sends_more ? NGHTTP2_ERR_DEFERRED : static_cast<ssize_t>(size);
  }
};

class H2Link::StreamAnswer final : public Arriving {
 public:
  StreamAnswer(Shard& shard, ConnectionPtr connection, std::shared_ptr<Stream> stream)
      : Arriving(stream->head),
        shard_(shard),
        connection_(std::move(connection)),
        stream_(std::move(stream)),
        asked_(shard.now()) {}
  ~StreamAnswer() override { connection_->drop(*stream_, asked_, shard_.now()); }
  Task<Result<std::string>> next(Call call) override {
    while (stream_->arrived.empty()) {
      if (stream_->ended) co_return std::string();
      if (stream_->broken) co_return lost("the stream was cut off");
      CO_TRY_VOID(co_await ListWait(call, stream_->waiters, "answer"));
    }
    std::string slice = std::exchange(stream_->arrived, {});
    connection_->take(*stream_, slice.size());
    co_return slice;
  }

 private:
  Shard& shard_;
  ConnectionPtr connection_;
  std::shared_ptr<Stream> stream_;
  Instant asked_;
};

// --- the link

H2Link::H2Link(io::sim::Node& node, io::Endpoint endpoint, std::shared_ptr<const io::TlsClient> tls,
               std::function<void(const std::string&)> complain)
    : node_(node),
      machine_(node.machine()),
      endpoint_(std::move(endpoint)),
      tls_(std::move(tls)),
      complain_(std::move(complain)) {}
H2Link::~H2Link() = default;

void H2Link::renew(Instant since) {
  if (connection_ && connection_->made < since) connection_->give_up();
}

void H2Link::leave() {
  if (--members_ == 0 && connection_) connection_->give_up();
}

Task<> H2Link::read(Call call, ConnectionPtr connection) {
  std::vector<std::byte> room(input_size);
  while (!connection->given_up && !call.stopped()) {
    if (connection->leaving && connection->streams.empty()) break;
    if (!co_await connection->stream->readable.wait(call.within(look)) || connection->given_up) continue;
    const io::Io got = connection->stream->try_read(room);
    if (got.status == io::IoStatus::would_block) continue;
    if (got.status != io::IoStatus::done) break;
    connection->heard = current_shard()->now();
    if (!connection->input(as_text({room.data(), got.count}))) break;
  }
  connection->give_up();
}

Task<> H2Link::write(Call call, ConnectionPtr connection) {
  while (!connection->given_up && !call.stopped()) {
    const std::string out = connection->output();
    if (out.empty()) {
      (void)co_await ListWait(call.within(look), connection->writer, "something to send");
      continue;
    }
    for (std::size_t at = 0; at < out.size() && !connection->given_up && !call.stopped();) {
      const iovec rest{const_cast<char*>(out.data()) + at, out.size() - at};
      const io::Io sent = connection->stream->try_writev({&rest, 1});
      if (sent.status == io::IoStatus::done)
        at += sent.count;
      else if (sent.status == io::IoStatus::would_block)
        (void)co_await connection->stream->writable.wait(call.within(look));
      else
        connection->give_up();
    }
  }
  connection->give_up();
}

Task<Result<H2Link::ConnectionPtr>> H2Link::make_connection(Call call) {
  CO_TRY(auto stream, co_await machine_.network.connect(call, endpoint_));
  if (tls_) {
    CO_TRY(stream, co_await io::connect_tls(call, tls_, &machine_.shard, &machine_.slab, std::move(stream),
                                            endpoint_.host));
  }
  if (stream->protocol() != http::h2::protocol) {
    complain_("HTTP/2 was not agreed upon");
    co_return lost("no HTTP/2");
  }
  auto made = std::make_shared<Connection>(machine_.shard, std::move(stream), complain_);
  Scope& scope = node_.scope();
  scope.spawn("h2-read", read(scope.call(), made));
  scope.spawn("h2-write", write(scope.call(), made));
  co_return made;
}

Task<Result<H2Link::ConnectionPtr>> H2Link::connect(Call call) {
  while (connecting_) CO_TRY_VOID(co_await ListWait(call, waiting_, "connection"));
  if (connection_ && connection_->usable()) co_return connection_;
  connecting_ = true;
  auto made = co_await make_connection(call);
  connecting_ = false;
  if (made) connection_ = *made;
  wake_all(waiting_);
  co_return made;
}

Task<Result<std::unique_ptr<Arriving>>> H2Link::begin(Call call, http::ClientRequest request) {
  for (bool again = false;; again = true) {
    CO_TRY(const ConnectionPtr connection, co_await connect(call));
    const bool fresh = connection->heard == connection->made;
    const std::shared_ptr<Stream> stream = connection->ask(request);
    // It resets the stream when it goes.
    struct Asked {
      Connection& connection;
      Stream& stream;
      Shard& shard;
      Instant at;
      bool kept = false;
      ~Asked() {
        if (!kept) connection.drop(stream, at, shard.now());
      }
    } asked{*connection, *stream, machine_.shard, machine_.shard.now()};
    while (stream->sends_more && !stream->has_head && !stream->broken) {
      CO_TRY(const io::Piece piece, co_await request.source->next(call));
      stream->sends_more = !piece.empty();
      stream->to_send += as_text(piece.bytes);
      connection->send_more(*stream);
      while (!stream->to_send.empty() && !stream->has_head && !stream->broken)
        CO_TRY_VOID(co_await ListWait(call, stream->waiters, "room"));
    }
    while (!stream->has_head && !stream->broken)
      CO_TRY_VOID(co_await ListWait(call, stream->waiters, "head"));
    if (stream->has_head) {
      asked.kept = true;
      co_return std::unique_ptr<Arriving>(std::make_unique<StreamAnswer>(machine_.shard, connection, stream));
    }
    // What a source has given is gone.
    const bool whole = request.kind != http::ClientRequest::Body::stream && request.may_repeat();
    if (again || !whole || (fresh && stream->asked_at_all)) co_return lost("no answer");
  }
}

}  // namespace cairn::simulator
