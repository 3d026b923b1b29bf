#include "http/h1/head_writer.h"

#include <cstring>

#include "base/check.h"
#include "http/scan.h"

namespace cairn::http {
namespace {

char* put(char* at, std::string_view text) noexcept {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

}  // namespace

std::string_view reason_of(int status) noexcept {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 103:
      return "Early Hints";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 203:
      return "Non-Authoritative Information";
    case 204:
      return "No Content";
    case 205:
      return "Reset Content";
    case 206:
      return "Partial Content";
    case 300:
      return "Multiple Choices";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 451:
      return "Unavailable For Legal Reasons";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "";
  }
}

char* HeadWriter::take(std::size_t size) noexcept {
  if (failed_ || size > static_cast<std::size_t>(end_ - at_)) {
    failed_ = true;
    return nullptr;
  }
  char* const taken = at_;
  at_ += size;
  return taken;
}

HeadWriter& HeadWriter::status(int status) noexcept {
  CHECK(status >= 100 && status <= 599);
  CHECK(at_ == begin_);
  const std::string_view reason = reason_of(status);
  if (char* at = take(13 + reason.size() + 2)) {
    at = put(at, "HTTP/1.1 ");
    *at++ = static_cast<char>('0' + status / 100);
    *at++ = static_cast<char>('0' + status / 10 % 10);
    *at++ = static_cast<char>('0' + status % 10);
    *at++ = ' ';
    put(put(at, reason), "\r\n");
  }
  return *this;
}

HeadWriter& HeadWriter::request(std::string_view method, std::string_view target) noexcept {
  CHECK(at_ == begin_);
  bool valid = is_field_name(method) && !target.empty();
  for (char c : target) valid = valid && is_target_character(c);
  if (!valid) failed_ = true;
  if (char* at = take(method.size() + target.size() + 12)) {
    at = put(at, method);
    *at++ = ' ';
    put(put(at, target), " HTTP/1.1\r\n");
  }
  return *this;
}

HeadWriter& HeadWriter::append_field(std::string_view name, std::string_view value) noexcept {
  if (!is_field_name(name) || !is_field_value(value)) failed_ = true;
  if (char* at = take(name.size() + value.size() + 4)) put(put(put(put(at, name), ": "), value), "\r\n");
  return *this;
}

HeadWriter& HeadWriter::append_number(std::string_view name, std::uint64_t value) noexcept {
  char digits[decimal_size_max];
  return append_field(name, {digits, format_decimal_to(value, digits)});
}

HeadWriter& HeadWriter::append_date(FieldName name, WallTime time) noexcept {
  char date[http_date_size];
  format_http_date_to(time, date);
  return append_field(name_of(name), {date, http_date_size});
}

HeadWriter& HeadWriter::append_lines(std::string_view lines) noexcept {
  if (char* at = take(lines.size())) put(at, lines);
  return *this;
}

std::optional<std::string_view> HeadWriter::finish() noexcept {
  if (char* at = take(2)) {
    put(at, "\r\n");
    return std::string_view(begin_, static_cast<std::size_t>(at_ - begin_));
  }
  return std::nullopt;
}

}  // namespace cairn::http
