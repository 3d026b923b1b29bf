// What is sent on an HTTP/2 connection: nghttp2 makes the frames, they are gathered in one buffer, and large
// writes carry them away. The bytes of bodies are copied once, to behind the head of their frame.
#include <algorithm>
#include <array>
#include <cstring>

#include "http/h2/connection.h"

namespace cairn::http::h2 {
namespace {

constexpr std::size_t frame_head_size = 9;
// A frame of a body that would be smaller than this, for want of room, waits for an empty buffer.
constexpr std::size_t frame_least = 1024;

}  // namespace

ssize_t Connection::read_body(Stream& stream, std::size_t room, std::uint32_t* flags) {
  const MutableByteView free = out_.room();
  if (free.size() < frame_head_size + std::min(room, frame_least)) {
    full_ = true;
    return NGHTTP2_ERR_PAUSE;
  }
  // A stream that always has more to send ends here, too.
  if (stream.stays_open && !stream.response.switches && server_.idle_->reason() == StopReason::draining)
    stream.flow.end();
  Outflow::State state = stream.flow.look();
  body_size_ = 0;
  if (state == Outflow::State::ready) {
    const std::size_t most = std::min(room, free.size() - frame_head_size);
    body_size_ = stream.flow.copy(free.subspan(frame_head_size, most));
    if (body_size_ == 0) state = stream.flow.look();
  }
  if (state == Outflow::State::failed) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (state == Outflow::State::waits) {
    hungry_ += stream.hungry ? 0 : 1;
    stream.hungry = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (stream.flow.is_spent()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  stream.pace.sent(body_size_);
  body_pace_.sent(body_size_);
  controls_.earn(static_cast<std::int64_t>(body_size_ / frame_least));
  return static_cast<ssize_t>(body_size_);
}

// read_body() has put the bytes where they belong.
void Connection::write_data(const std::uint8_t* frame_head, std::size_t size) noexcept {
  CHECK(size == body_size_);
  std::memcpy(out_.room().data(), frame_head, frame_head_size);
  out_.fill(frame_head_size + size);
}

// Fills out_. True: there is more than fits.
bool Connection::write_frames() {
  full_ = false;
  if (!out_) {
    const std::size_t size = head_bytes_ > Slab::medium ? Slab::medium : Slab::large;  // H2-3
    out_ = server_.machine_.slab.take(size);
  }
  for (;;) {
    const std::size_t fits = std::min(leftover_.size(), out_.room().size());
    if (fits > 0) {
      std::memcpy(out_.room().data(), leftover_.data(), fits);
      out_.fill(fits);
      leftover_.remove_prefix(fits);
    }
    if (!leftover_.empty()) return true;
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_.get(), &bytes);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    if (size < 0) throw std::bad_alloc();  // the only failure there is
    if (size == 0) return full_;
    leftover_ = {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)};
  }
}

Connection::Sent Connection::try_send() {
  for (;;) {
    const bool pending = out_ && !out_.empty();
    bool more = true;
    if (!pending) more = write_frames();
    while (!out_.empty()) {
      const iovec all{const_cast<std::byte*>(out_.bytes().data()), out_.size()};
      const io::Io sent = stream_->try_writev({&all, 1});
      blocked_ = sent.status == io::IoStatus::would_block;
      if (blocked_) return Sent::blocked;
      if (sent.status != io::IoStatus::done) return Sent::broken;
      out_.consume(sent.count);
      pace_.sent(sent.count);
      turn_bytes_ += sent.count;
    }
    out_.clear();
    if (leftover_.empty()) finish_written();
    if (!more) return Sent::all;
    if (turn_bytes_ >= turn_bytes_max) return Sent::turn;
  }
}

// All that was written down has left.
void Connection::finish_written() {
  while (!written_.empty()) {
    Stream& stream = written_.pop_front();
    live_.push_back(stream);
    finish(stream, true);
    if (stream.is_open) decline_body(stream);
    release_if_done(stream);
  }
}

}  // namespace cairn::http::h2
