#include "http/exchange.h"

#include <cstring>

namespace cairn::http {

void Response::add_field(std::string_view name, std::string_view value) noexcept {
  const std::size_t size = name.size() + 2 + value.size() + 2;
  CHECK(lines_size_ + size <= lines_.size());
  char* at = lines_.data() + lines_size_;
  std::memcpy(at, name.data(), name.size());
  at += name.size();
  std::memcpy(at, ": ", 2);
  std::memcpy(at + 2, value.data(), value.size());
  std::memcpy(at + 2 + value.size(), "\r\n", 2);
  lines_size_ += size;
}

void Response::add_lines(std::string_view ready) noexcept {
  CHECK(lines_size_ + ready.size() <= lines_.size());
  std::memcpy(lines_.data() + lines_size_, ready.data(), ready.size());
  lines_size_ += ready.size();
}

void Response::add_number(std::string_view name, std::uint64_t value) noexcept {
  char digits[decimal_size_max];
  add_field(name, {digits, format_decimal_to(value, digits)});
}

void Response::clear() noexcept {
  status = 200;
  kind = Body::none;
  close = false;
  abandoned = false;
  content_type = {};
  view = {};
  text.clear();
  file.reset();
  offset = count = 0;
  source.reset();
  sized = false;
  hold.reset();
  lines_size_ = 0;
}

void Exchange::clear() noexcept {
  taking_body = false;
  stays_open = false;
  parser.reset();
  reserved = without_place = false;
  route.outcome = RouteMatch::Outcome::not_found;
  body.clear();
  response.clear();
  state.reset();
  corr_size = 0;
  counted = 0;
}

}  // namespace cairn::http
