// What arrives on an HTTP/2 connection: nghttp2 reads the frames and calls back.
#include "http/h2/connection.h"
#include "http/h2/memory.h"

namespace cairn::http::h2 {
namespace {

// So that our allowance ends before nghttp2's own, which calls it an error of this side.
constexpr std::int64_t reset_cost = 4;

std::string_view as_view(const std::uint8_t* bytes, std::size_t size) noexcept {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

Stream* Connection::find(std::int32_t id) const noexcept {
  return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session_.get(), id));
}

// False: the connection is broken, or has ended.
bool Connection::read_some() {
  Buffer input = server_.machine_.slab.take(Slab::medium);
  const io::Io got = stream_->try_read(input.room());
  if (got.status == io::IoStatus::would_block) return true;
  if (got.status != io::IoStatus::done) return false;
  input.fill(got.count);
  if (!greeted_ && head_since_ == Instant{}) head_since_ = server_.machine_.shard.now();
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(input.bytes().data());
  const ssize_t used = nghttp2_session_mem_recv(session_.get(), bytes, input.size());
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  // nghttp2 has bounds of its own, and reads nothing more behind them; it still writes what the peer is told.
  const bool flooded = calm_ || used == NGHTTP2_ERR_FLOODED;
  if (flooded && !over_) end_session(NGHTTP2_ENHANCE_YOUR_CALM);
  return used >= 0 || flooded;
}

// Frames that bring no request further cost of the allowance (H2-5).
void Connection::on_frame_begins(const nghttp2_frame_hd& frame) noexcept {
  const Instant now = server_.machine_.shard.now();
  // Of a head whose stream was reset nothing more is told, not even its end; this frame is behind it.
  if (greeted_ && frame.type != NGHTTP2_CONTINUATION) head_since_ = {};
  bool allowed = true;
  switch (frame.type) {
    case NGHTTP2_DATA:
      if (frame.length == 0 && (frame.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        allowed = controls_.spend(now);
      else
        controls_.earn(static_cast<std::int64_t>(frame.length / 1024));
      break;
    case NGHTTP2_HEADERS:
      continuations_ = 0;
      allowed = controls_.spend(now);
      break;
    case NGHTTP2_CONTINUATION: {
      constexpr unsigned continuations_max = 7;  // below nghttp2's own bound, as above
      allowed = ++continuations_ <= continuations_max && controls_.spend(now);
      break;
    }
    case NGHTTP2_RST_STREAM:
      allowed = controls_.spend(now, reset_cost);
      break;
    default:
      allowed = controls_.spend(now);
  }
  if (!allowed) calm_ = true;
}

int Connection::on_head_begins(const nghttp2_frame& frame) {
  head_since_ = server_.machine_.shard.now();
  block_bytes_ = 0;
  refused_ = 0;
  if (frame.headers.cat != NGHTTP2_HCAT_REQUEST) return 0;  // trailers
  const std::int32_t id = frame.hd.stream_id;
  // Streams that the peer has reset count until their handlers have ended. One that is refused is reset when
  // its head is complete.
  if (over_ || calm_ || streams_ >= server_.options_.max_streams) {
    refused_ = id;
    return 0;
  }
  Stream* const stream = server_.borrow_stream();
  ++streams_;
  heads_.push_back(*stream);
  stream->id = id;
  stream->is_open = true;
  return nghttp2_session_set_stream_user_data(session_.get(), id, stream);
}

int Connection::on_field(const nghttp2_frame& frame, std::string_view name, std::string_view value) {
  constexpr std::size_t overhead = 32;  // as HPACK counts a field
  block_bytes_ += name.size() + value.size() + overhead;
  if (block_bytes_ > heads_seen_max) {
    calm_ = true;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  Stream* const stream = find(frame.hd.stream_id);
  if (stream != nullptr && !stream->has_head) stream->head.add(name, value);  // else refused, or a trailer
  return 0;
}

int Connection::on_bad_field(const nghttp2_frame& frame) {
  Stream* const stream = find(frame.hd.stream_id);
  if (stream != nullptr && !stream->has_head) stream->head.refuse("field that HTTP/2 does not allow");
  return 0;
}

void Connection::on_head(Stream& stream, bool bodiless) {
  stream.has_head = true;
  stream.unlink();
  if (const Result<> whole = stream.head.finish(bodiless); !whole) stream.fault = whole.error();
  // A CONNECT has no body in the sense of HTTP until both ends have agreed.
  stream.wire_body.start(*this, stream, bodiless || !stream.head.upgrade().empty());
  stream.wire_body.ended_ = bodiless;
  stream.upgrade = stream.head.upgrade();
  stream.peer = stream_->peer();
  stream.encrypted = stream_->is_encrypted();
  const bool fits = streams_ == 1 || head_bytes_ + stream.head.kept() <= heads_max;
  head_bytes_ += stream.head.kept();
  if (fits) return waiting_.push_back(stream);
  live_.push_back(stream);
  stream.refused = true;
  reset_stream(stream, NGHTTP2_REFUSED_STREAM);  // H2-3
}

int Connection::on_data(std::int32_t id, ByteView bytes) {
  Stream* const stream = find(id);
  if (stream != nullptr && stream->sent_all) throw_away(*stream, bytes.size());
  if (stream == nullptr || stream->sent_all) return nghttp2_session_consume(session_.get(), id, bytes.size());
  if (!stream->wire_body.arrive(bytes)) {
    stream->wire_body.break_off({ErrorCode::malformed, "more body than its length", Side::client});
    reset_stream(*stream, NGHTTP2_PROTOCOL_ERROR);
    return nghttp2_session_consume(session_.get(), id, bytes.size());
  }
  return 0;
}

int Connection::on_frame(const nghttp2_frame& frame) {
  if (!std::exchange(greeted_, true)) head_since_ = {};
  if (frame.hd.type == NGHTTP2_SETTINGS && (frame.hd.flags & NGHTTP2_FLAG_ACK) != 0) on_settings_known();
  if (frame.hd.type != NGHTTP2_DATA && frame.hd.type != NGHTTP2_HEADERS) return 0;
  const bool last = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (frame.hd.type == NGHTTP2_HEADERS) head_since_ = {};
  if (frame.hd.type == NGHTTP2_HEADERS && frame.hd.stream_id == refused_)
    return nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, std::exchange(refused_, 0),
                                     NGHTTP2_REFUSED_STREAM);
  Stream* const stream = find(frame.hd.stream_id);
  if (stream == nullptr) return 0;
  if (frame.hd.type == NGHTTP2_HEADERS && !stream->has_head) {
    on_head(*stream, last);
  } else if (last && !stream->sent_all && !stream->wire_body.end()) {
    stream->wire_body.break_off({ErrorCode::malformed, "the body ended before its length", Side::client});
    reset_stream(*stream, NGHTTP2_PROTOCOL_ERROR);
  }
  return 0;
}

int Connection::on_closed(std::int32_t id, std::uint32_t code) {
  Stream* const stream = find(id);
  if (stream == nullptr) return 0;
  stream->is_open = false;
  if (const std::size_t unread = stream->wire_body.drop_unread(); unread > 0)
    (void)nghttp2_session_consume_connection(session_.get(), unread);
  if (stream->sent_all) {
    release_if_done(*stream);
    return 0;
  }
  if (!stream->refused && !resets_.spend(server_.machine_.shard.now())) calm_ = true;
  const bool framing = code == NGHTTP2_PROTOCOL_ERROR;
  stream->wire_body.break_off(
      framing ? Error{ErrorCode::malformed, "the body does not fit its head", Side::client}
              : Error{ErrorCode::connection_lost, "the stream was reset", Side::client});
  break_stream(*stream);
  return 0;
}

// An exception must not pass through nghttp2: it is kept, and ends the connection.
struct Connection::Callbacks {
  template <class F>
  static int guarded(void* self, F f) noexcept {
    auto& connection = *static_cast<Connection*>(self);
    try {
      return f(connection);
    } catch (...) {
      connection.failure_ = std::current_exception();
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }
  static int frame_begins(nghttp2_session*, const nghttp2_frame_hd* frame, void* self) noexcept {
    static_cast<Connection*>(self)->on_frame_begins(*frame);
    return 0;
  }
  static int head_begins(nghttp2_session*, const nghttp2_frame* frame, void* self) noexcept {
    return guarded(self, [&](Connection& connection) { return connection.on_head_begins(*frame); });
  }
  static int field(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                   std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                   void* self) noexcept {
    return guarded(self, [&](Connection& connection) {
      return connection.on_field(*frame, as_view(name, name_size), as_view(value, value_size));
    });
  }
  static int bad_field(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t*, std::size_t,
                       const std::uint8_t*, std::size_t, std::uint8_t, void* self) noexcept {
    return guarded(self, [&](Connection& connection) { return connection.on_bad_field(*frame); });
  }
  static int data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                  std::size_t size, void* self) noexcept {
    return guarded(self, [&](Connection& connection) {
      return connection.on_data(id, {reinterpret_cast<const std::byte*>(bytes), size});
    });
  }
  static int frame(nghttp2_session*, const nghttp2_frame* frame, void* self) noexcept {
    return guarded(self, [&](Connection& connection) { return connection.on_frame(*frame); });
  }
  static int bad_frame(nghttp2_session*, const nghttp2_frame* frame, int, void* self) noexcept {
    if (frame->hd.type == NGHTTP2_HEADERS) static_cast<Connection*>(self)->head_since_ = {};
    return 0;
  }
  static int closed(nghttp2_session*, std::int32_t id, std::uint32_t code, void* self) noexcept {
    return guarded(self, [&](Connection& connection) { return connection.on_closed(id, code); });
  }
  static int sent(nghttp2_session*, const nghttp2_frame* frame, void* self) noexcept {
    return guarded(self, [&](Connection& connection) {
      if (frame->hd.type == NGHTTP2_GOAWAY) connection.note_goaway();
      const bool answers = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
      if (!answers || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
      if (Stream* stream = connection.find(frame->hd.stream_id)) connection.note_sent(*stream);
      return 0;
    });
  }
  static int write_data(nghttp2_session*, nghttp2_frame*, const std::uint8_t* head, std::size_t size,
                        nghttp2_data_source*, void* self) noexcept {
    static_cast<Connection*>(self)->write_data(head, size);
    return 0;
  }
  static void set(nghttp2_session_callbacks* all) noexcept {
    nghttp2_session_callbacks_set_on_begin_frame_callback(all, frame_begins);
    nghttp2_session_callbacks_set_on_begin_headers_callback(all, head_begins);
    nghttp2_session_callbacks_set_on_header_callback(all, field);
    nghttp2_session_callbacks_set_on_invalid_header_callback(all, bad_field);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(all, data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(all, frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(all, bad_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(all, closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(all, sent);
    nghttp2_session_callbacks_set_send_data_callback(all, write_data);
  }
};

void Connection::start_session() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
  const std::unique_ptr<nghttp2_session_callbacks, decltype(&nghttp2_session_callbacks_del)> holds_callbacks(
      callbacks, &nghttp2_session_callbacks_del);
  if (nghttp2_option_new(&option) != 0) throw std::bad_alloc();
  const std::unique_ptr<nghttp2_option, decltype(&nghttp2_option_del)> holds_option(option,
                                                                                    &nghttp2_option_del);
  Callbacks::set(callbacks);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_deflate_dynamic_table_size(option, 4096);
  nghttp2_session* session = nullptr;
  nghttp2_mem memory = session_memory(server_.machine_.shard.frames());
  if (nghttp2_session_server_new3(&session, callbacks, this, option, &memory) != 0) throw std::bad_alloc();
  session_.reset(session);

  const auto streams = static_cast<std::uint32_t>(server_.options_.max_streams);
  // Bodies that nobody reads yet never use up the window of the connection, which those that are read need.
  const auto each = static_cast<std::uint32_t>(window) * 3 / 4 / std::max(streams, 1u);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, each},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, server_.options_.head.head_bytes},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
  };
  if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, std::size(settings)) != 0)
    throw std::bad_alloc();
}

}  // namespace cairn::http::h2
