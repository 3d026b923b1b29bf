#include "http/exchange.h"

#include <cstring>

namespace cairn::http {

// Nowhere when there is not that much: the answer is spoiled.
char* Response::take_room(std::size_t size) noexcept {
  spoiled_ = spoiled_ || size > lines_.size() - lines_size_;
  if (spoiled_) return nullptr;
  char* const at = lines_.data() + lines_size_;
  lines_size_ += size;
  return at;
}

void Response::add_field(std::string_view name, std::string_view value) noexcept {
  if (!is_field_name(name) || !is_field_value(value)) spoiled_ = true;
  char* at = take_room(name.size() + 2 + value.size() + 2);
  if (at == nullptr) return;
  std::memcpy(at, name.data(), name.size());
  at += name.size();
  std::memcpy(at, ": ", 2);
  std::memcpy(at + 2, value.data(), value.size());
  std::memcpy(at + 2 + value.size(), "\r\n", 2);
}

void Response::add_lines(FieldLines lines) noexcept {
  if (char* at = take_room(lines.text().size())) std::memcpy(at, lines.text().data(), lines.text().size());
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
  spoiled_ = false;
}

void Exchange::clear() noexcept {
  taking_body = false;
  stays_open = false;
  parser.reset();
  reserved = without_place = attends = is_health = false;
  route.outcome = RouteMatch::Outcome::not_found;
  body.clear();
  response.clear();
  state.reset();
  corr_size = 0;
  capability.reset();
  tenant.clear();
  counted = 0;
}

}  // namespace cairn::http
