#include "http/h2/stream.h"

#include <cstring>

#include "http/h2/connection.h"

namespace cairn::http::h2 {

void StreamBody::start(Connection& connection, Stream& stream, bool bodiless) noexcept {
  connection_ = &connection;
  stream_ = &stream;
  ended_ = bodiless;
  reset(bodiless);
}

void StreamBody::clear() noexcept {
  constexpr std::size_t kept_max = 1024;
  connection_ = nullptr;
  stream_ = nullptr;
  unread_.clear();
  if (unread_.capacity() > kept_max) std::string().swap(unread_);
  arrived_ = 0;
  ended_ = granted_ = false;
  broken_.reset();
  pace_.clear();
  reset(true);
}

bool StreamBody::arrive(ByteView bytes) {
  const RequestHead& head = stream_->request();
  arrived_ += bytes.size();
  if (head.body == BodyKind::length && arrived_ > head.content_length) return false;
  unread_ += as_text(bytes);
  tell_reader();
  return true;
}

bool StreamBody::end() noexcept {
  const RequestHead& head = stream_->request();
  if (head.body == BodyKind::length && arrived_ < head.content_length) return false;
  ended_ = true;
  tell_reader();
  return true;
}

void StreamBody::break_off(const Error& error) noexcept {
  if (!broken_) broken_ = error;
  tell_reader();
}

std::size_t StreamBody::drop_unread() noexcept {
  const std::size_t size = unread_.size();
  std::string().swap(unread_);
  return size;
}

Task<Result<Buffer>> StreamBody::pull(Call call) { return connection_->next_of_body(call, *this); }

void Stream::clear() noexcept {
  head.reset({});
  flow.clear();
  wire_body.clear();
  Exchange::clear();
  id = 0;
  has_head = is_open = is_begun = runs = fetches = hungry = is_slow = answered = sent_all = has_place =
      refused = false;
  fault.reset();
  pace = Pace(false);
  fetches_since = shut_since = declined_at = {};
  thrown_away = 0;
  CHECK(!carried);  // H2-7
  stop.reset();
}

}  // namespace cairn::http::h2
