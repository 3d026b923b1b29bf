#include "http/h2/head_builder.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/check.h"
#include "http/field_list.h"
#include "http/scan.h"

namespace cairn::http::h2 {
namespace {

// As HPACK counts a field, so that a flood of empty ones counts too.
constexpr std::size_t field_overhead = 32;

bool is_lowercase_name(std::string_view name) noexcept {
  return is_field_name(name) && std::ranges::none_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
}

bool is_exact_value(std::string_view value) noexcept {
  return is_field_value(value) && (value.empty() || (!is_blank(value.front()) && !is_blank(value.back())));
}

bool is_path(std::string_view path) noexcept {
  return !path.empty() && (path.front() == '/' || path == "*") &&
         std::ranges::all_of(path, is_target_character);
}

// Fields that describe one HTTP/1.1 connection.
bool is_of_connection(std::string_view name) noexcept {
  static constexpr std::string_view names[] = {"connection", "keep-alive", "proxy-connection",
                                               "transfer-encoding", "upgrade"};
  return std::ranges::find(names, name) != std::end(names);
}

}  // namespace

void HeadBuilder::reset(HeadLimits limits) noexcept {
  parser_.reset();
  parser_.set_limits(limits);
  for (std::string* text :
       {&text_, &cookie_, &method_.text, &scheme_.text, &authority_.text, &path_.text, &protocol_.text}) {
    constexpr std::size_t kept_max = 2048;  // a long head does not stay as memory of the exchange
    text->clear();
    if (text->capacity() > kept_max) std::string().swap(*text);
  }
  for (Pseudo* each : {&method_, &scheme_, &authority_, &path_, &protocol_}) each->given = false;
  upgrade_ = {};
  fault_.reset();
  seen_ = 0;
  in_fields_ = has_host_ = expects_continue_ = false;
}

HeadBuilder::Pseudo* HeadBuilder::find_pseudo(std::string_view name) noexcept {
  if (name == ":method") return &method_;
  if (name == ":scheme") return &scheme_;
  if (name == ":authority") return &authority_;
  if (name == ":path") return &path_;
  if (name == ":protocol") return &protocol_;
  return nullptr;
}

void HeadBuilder::add(std::string_view name, std::string_view value) {
  seen_ += name.size() + value.size() + field_overhead;
  if (name == ":path" && value.size() > parser_.limits().target_bytes)
    give_up(ErrorCode::uri_too_long, "target over its limit");
  if (seen_ > parser_.limits().head_bytes) give_up(ErrorCode::headers_too_large, "head over its limit");
  if (fault_) return;
  if (name.starts_with(':'))
    add_pseudo(name, value);
  else
    add_plain(name, value);
}

void HeadBuilder::add_pseudo(std::string_view name, std::string_view value) {
  Pseudo* const pseudo = find_pseudo(name);
  if (pseudo == nullptr) return give_up(ErrorCode::malformed, "unknown pseudo-header field");
  if (in_fields_) return give_up(ErrorCode::malformed, "pseudo-header field behind the others");
  if (pseudo->given) return give_up(ErrorCode::malformed, "repeated pseudo-header field");
  if (!is_exact_value(value)) return give_up(ErrorCode::malformed, "character not allowed in a field value");
  pseudo->given = true;
  pseudo->text = value;
}

void HeadBuilder::add_plain(std::string_view name, std::string_view value) {
  if (!is_lowercase_name(name)) return give_up(ErrorCode::malformed, "field name is not a lowercase token");
  if (!is_exact_value(value)) return give_up(ErrorCode::malformed, "character not allowed in a field value");
  if (is_of_connection(name)) return give_up(ErrorCode::malformed, "field of a connection");
  if (name == "te" && value != "trailers") return give_up(ErrorCode::malformed, "TE is not trailers");
  if (!in_fields_) write_request_line();
  if (name == "cookie") {  // HPACK compresses a cookie better in crumbs
    if (!cookie_.empty()) cookie_ += "; ";
    cookie_ += value;
    return;
  }
  if (name == "host" && authority_.given) {
    if (!std::ranges::equal(value, authority_.text, {}, lower, lower))
      return give_up(ErrorCode::malformed, "Host differs from :authority");
    if (std::exchange(has_host_, true)) give_up(ErrorCode::malformed, "repeated Host");
    return;
  }
  append_line(name, value);
}

void HeadBuilder::append_line(std::string_view name, std::string_view value) {
  text_.append(name).append(": ").append(value).append("\r\n");
}

// Once the pseudo-header fields are over.
void HeadBuilder::write_request_line() {
  in_fields_ = true;
  if (!method_.given || !scheme_.given || !path_.given)
    return give_up(ErrorCode::malformed, "missing pseudo-header field");
  if (!is_field_name(method_.text)) return give_up(ErrorCode::malformed, "method is not a token");
  if (scheme_.text != "http" && scheme_.text != "https")
    return give_up(ErrorCode::malformed, "unknown scheme");
  if (!is_path(path_.text)) return give_up(ErrorCode::malformed, "target is not a path");
  const bool connects = method_.text == "CONNECT";
  if (protocol_.given && !connects) return give_up(ErrorCode::malformed, ":protocol without CONNECT");
  if (protocol_.given && protocol_.text != "websocket")
    return give_up(ErrorCode::not_implemented, "unknown protocol");
  if (protocol_.given) upgrade_ = "websocket";
  text_.append(upgrade_.empty() ? method_.text : "GET").append(" ").append(path_.text);
  text_.append(" HTTP/1.1\r\n");
  if (authority_.given) append_line("host", authority_.text);
}

Result<> HeadBuilder::finish(bool bodiless) {
  if (!in_fields_ && !fault_) write_request_line();
  if (!cookie_.empty() && !fault_) append_line("cookie", cookie_);
  if (fault_) return fail(*fault_);
  text_ += "\r\n";
  const Parsed parsed = parser_.parse(text_);
  if (parsed.progress == Progress::failed) return fail(parsed.error);
  CHECK(parsed.progress == Progress::complete && parsed.size == text_.size());  // HB-1
  RequestHead& head = parser_.head;
  if (!upgrade_.empty()) {
    if (head.body != BodyKind::none) return fail(ErrorCode::malformed, "CONNECT with a length", Side::client);
    return {};
  }
  if (bodiless && head.body == BodyKind::length && head.content_length != 0)
    return fail(ErrorCode::malformed, "the body is shorter than its length", Side::client);
  if (!bodiless && head.body == BodyKind::none) head.body = BodyKind::chunked;
  expects_continue_ = !bodiless && head.fields.has(FieldName::expect);
  return {};
}

}  // namespace cairn::http::h2
