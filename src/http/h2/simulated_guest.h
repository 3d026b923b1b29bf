// For tests: a client of a simulated world that speaks HTTP/2. Guest says what a well-behaved client says,
// by nghttp2; frames made by hand say the rest.
#pragma once

#include <nghttp2/nghttp2.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/sim/guest.h"

namespace cairn::http::h2 {

// --- frames made by hand
inline std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                         std::string_view payload = {}) {
  std::string made;
  for (const int shift : {16, 8, 0}) made += static_cast<char>(payload.size() >> shift);
  made += static_cast<char>(type);
  made += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) made += static_cast<char>(stream >> shift);
  return made.append(payload);
}
inline std::string word(std::uint32_t value) {
  std::string made;
  for (const int shift : {24, 16, 8, 0}) made += static_cast<char>(value >> shift);
  return made;
}
// A literal field without indexing, whatever is in it.
inline std::string field(std::string_view name, std::string_view value) {
  const auto number = [](std::size_t size) {
    std::string made;
    if (size < 127) return made += static_cast<char>(size);
    made += static_cast<char>(127);
    for (size -= 127; size >= 128; size >>= 7) made += static_cast<char>(size % 128 + 128);
    return made += static_cast<char>(size);
  };
  return std::string(1, '\0')
      .append(number(name.size()))
      .append(name)
      .append(number(value.size()))
      .append(value);
}
inline std::string get_fields(std::string_view path, std::string_view more = {}) {
  return field(":method", "GET") + field(":scheme", "https") + field(":authority", "h") +
         field(":path", path) + std::string(more);
}
inline std::string setting(std::uint16_t id, std::uint32_t value) {
  return std::string{static_cast<char>(id >> 8), static_cast<char>(id)} + word(value);
}
inline std::string preface() { return NGHTTP2_CLIENT_MAGIC + frame(NGHTTP2_SETTINGS, 0, 0); }
inline constexpr std::uint8_t end_stream = NGHTTP2_FLAG_END_STREAM, end_headers = NGHTTP2_FLAG_END_HEADERS;
inline std::string get_frame(std::uint32_t stream, std::string_view path) {
  return frame(NGHTTP2_HEADERS, end_stream | end_headers, stream, get_fields(path));
}

struct Reply {
  int status = 0;
  std::vector<int> interim;
  std::map<std::string, std::string> fields;
  std::string body;
  bool ended = false;
  std::optional<std::uint32_t> reset;
  std::string field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? "" : found->second;
  }
};

// The client side of one connection, between the world's steps.
class H2Guest {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  // `raw`: nothing is said but what the test says; what the server says is read all the same.
  H2Guest(io::sim::World& world, io::sim::Node& from, Endpoint to, bool raw = false,
          std::uint32_t window = 65535)
      : guest(world, from, std::move(to)), raw_(raw) {
    nghttp2_session_callbacks* callbacks = nullptr;
    CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &H2Guest::on_field);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &H2Guest::on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &H2Guest::on_data);
    nghttp2_option* option = nullptr;
    CHECK(nghttp2_option_new(&option) == 0);
    nghttp2_option_set_peer_max_concurrent_streams(option, 1000);
    nghttp2_option_set_no_auto_window_update(option, window == 65535 ? 0 : 1);
    CHECK(nghttp2_session_client_new2(&session_, callbacks, this, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
    CHECK(nghttp2_submit_settings(session_, 0, settings, 1) == 0);
  }
  H2Guest(const H2Guest&) = delete;
  H2Guest& operator=(const H2Guest&) = delete;
  ~H2Guest() {
    if (inflater_ != nullptr) nghttp2_hd_inflate_del(inflater_);
    nghttp2_session_del(session_);
  }

  // A body that is not ended stays open for send_data().
  std::int32_t ask(std::string_view method, std::string_view path, std::string_view body = {},
                   bool end = true, const Fields& more = {}) {
    Fields all{{":method", std::string(method)},
               {":scheme", "https"},
               {":authority", "h"},
               {":path", std::string(path)}};
    all.insert(all.end(), more.begin(), more.end());
    std::vector<nghttp2_nv> fields;
    for (auto& [name, value] : all)
      fields.push_back({reinterpret_cast<std::uint8_t*>(name.data()),
                        reinterpret_cast<std::uint8_t*>(value.data()), name.size(), value.size(),
                        NGHTTP2_NV_FLAG_NONE});
    Upload& upload = uploads_[next_];
    upload.text = body;
    upload.ends = end;
    nghttp2_data_provider provider{};
    provider.source.ptr = &upload;
    provider.read_callback = &H2Guest::read_upload;
    const std::int32_t id = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                                                   body.empty() && end ? nullptr : &provider, this);
    CHECK(id == next_);
    next_ += 2;
    pump();
    return id;
  }
  std::int32_t get(std::string_view path, const Fields& more = {}) {
    return ask("GET", path, {}, true, more);
  }
  void send_data(std::int32_t id, std::string_view more, bool end) {
    uploads_[id].text += more;
    uploads_[id].ends = end;
    (void)nghttp2_session_resume_data(session_, id);
    pump();
  }
  void reset(std::int32_t id) {
    CHECK(nghttp2_submit_rst_stream(session_, 0, id, NGHTTP2_CANCEL) == 0);
    pump();
  }
  void open_window(std::int32_t id, std::int32_t by) {
    CHECK(nghttp2_submit_window_update(session_, 0, id, by) == 0);
    pump();
  }
  // Bytes of the test's own making.
  void send(std::string_view bytes) { guest.send(bytes); }

  const Reply& reply(std::int32_t id) { return replies_[id]; }
  const Reply& wait(std::int32_t id, Duration within = Duration::seconds(3600)) {
    until([&] { return replies_[id].ended || replies_[id].reset; }, within);
    return replies_[id];
  }
  template <class Done>
  bool until(Done done, Duration within = Duration::seconds(3600)) {
    return guest.until(
               [&] {
                 pump();
                 return done() || guest.ended() || guest.broken();
               },
               within) &&
           done();
  }
  bool until_ended(Duration within = Duration::seconds(3600)) {
    const bool ended = guest.until_ended(within);
    pump();
    return ended;
  }
  void run_for(Duration span) {
    guest.run_for(span);
    pump();
  }
  std::size_t acks() const noexcept { return acks_; }

  io::sim::Guest guest;
  std::optional<std::uint32_t> goaway;  // the last one's code
  std::vector<std::int32_t> last_ids;   // of all of them
  std::uint64_t window_given = 0;       // on all streams together

 private:
  struct Upload {
    std::string text;
    bool ends = true;
  };
  static std::string_view as_view(const std::uint8_t* bytes, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
  }
  static int on_field(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                      void* self) {
    static_cast<H2Guest*>(self)->take_field(frame->hd.stream_id, as_view(name, name_size),
                                            as_view(value, value_size));
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    auto& guest = *static_cast<H2Guest*>(self);
    const bool answers = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (answers && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
      guest.replies_[frame->hd.stream_id].ended = true;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
      guest.replies_[frame->hd.stream_id].reset = frame->rst_stream.error_code;
    if (frame->hd.type == NGHTTP2_WINDOW_UPDATE && frame->hd.stream_id != 0)
      guest.window_given += static_cast<std::uint64_t>(frame->window_update.window_size_increment);
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) ++guest.acks_;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      guest.goaway = frame->goaway.error_code;
      guest.last_ids.push_back(frame->goaway.last_stream_id);
    }
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                     std::size_t size, void* self) {
    static_cast<H2Guest*>(self)->replies_[id].body += as_view(bytes, size);
    return 0;
  }
  static ssize_t read_upload(nghttp2_session*, std::int32_t, std::uint8_t* into, std::size_t room,
                             std::uint32_t* flags, nghttp2_data_source* source, void*) {
    Upload& upload = *static_cast<Upload*>(source->ptr);
    const std::size_t size = std::min(room, upload.text.size());
    std::copy_n(upload.text.begin(), size, into);
    upload.text.erase(0, size);
    if (upload.text.empty() && upload.ends) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return size == 0 && !upload.ends ? NGHTTP2_ERR_DEFERRED : static_cast<ssize_t>(size);
  }
  // Reads the frames itself: the session knows nothing of streams that it has not begun.
  void read_raw(std::string_view got) {
    unread_ += got;
    while (unread_.size() >= 9) {
      const auto byte = [&](std::size_t i) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(unread_[i]));
      };
      const auto number = [&](std::size_t i) {
        return byte(i) << 24 | byte(i + 1) << 16 | byte(i + 2) << 8 | byte(i + 3);
      };
      const std::size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (unread_.size() < 9 + size) return;
      const std::uint32_t type = byte(3), flags = byte(4);
      const auto id = static_cast<std::int32_t>(number(5));
      const bool answers = type == NGHTTP2_DATA || type == NGHTTP2_HEADERS;
      if (type == NGHTTP2_HEADERS) inflate(id, std::string_view(unread_).substr(9, size));
      if (type == NGHTTP2_DATA) replies_[id].body.append(unread_, 9, size);
      if (answers && (flags & end_stream) != 0) replies_[id].ended = true;
      if (type == NGHTTP2_RST_STREAM) replies_[id].reset = number(9);
      if (type == NGHTTP2_PING) ++acks_;
      if (type == NGHTTP2_GOAWAY) {
        last_ids.push_back(static_cast<std::int32_t>(number(9)));
        goaway = number(13);
      }
      unread_.erase(0, 9 + size);
    }
  }
  void inflate(std::int32_t id, std::string_view block) {
    if (inflater_ == nullptr) CHECK(nghttp2_hd_inflate_new(&inflater_) == 0);
    const auto* at = reinterpret_cast<const std::uint8_t*>(block.data());
    for (std::size_t left = block.size();;) {
      nghttp2_nv line;
      int flags = 0;
      const ssize_t used = nghttp2_hd_inflate_hd2(inflater_, &line, &flags, at, left, 1);
      CHECK(used >= 0);
      at += used;
      left -= static_cast<std::size_t>(used);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
        take_field(id, as_view(line.name, line.namelen), as_view(line.value, line.valuelen));
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) continue;
      CHECK(nghttp2_hd_inflate_end_headers(inflater_) == 0);
      return;
    }
  }
  void take_field(std::int32_t id, std::string_view key, std::string_view text) {
    Reply& reply = replies_[id];
    if (key != ":status") {
      reply.fields[std::string(key)] = text;
    } else if (const int status = std::stoi(std::string(text)); status < 200) {
      reply.interim.push_back(status);
    } else {
      CHECK(reply.status == 0);
      reply.status = status;
    }
  }
  void pump() {
    const std::string got = guest.take_all();
    if (raw_) return read_raw(got);
    if (!got.empty())
      (void)nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(got.data()), got.size());
    const std::uint8_t* bytes = nullptr;
    std::string out;
    for (ssize_t size; (size = nghttp2_session_mem_send(session_, &bytes)) > 0;)
      out += as_view(bytes, static_cast<std::size_t>(size));
    if (!out.empty()) guest.send(out);
  }

  bool raw_;
  nghttp2_session* session_ = nullptr;
  nghttp2_hd_inflater* inflater_ = nullptr;  // these two when raw
  std::string unread_;
  std::int32_t next_ = 1;
  std::map<std::int32_t, Reply> replies_;
  std::map<std::int32_t, Upload> uploads_;
  std::size_t acks_ = 0;
};

}  // namespace cairn::http::h2
