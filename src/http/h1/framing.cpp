#include "http/h1/framing.h"

#include <array>

#include "base/ascii.h"
#include "http/scan.h"

namespace cairn::http {
namespace {

constexpr CharacterSet host_characters =
    character_set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~");
constexpr CharacterSet literal_characters = character_set("abcdefABCDEF0123456789:.");

bool all_of(std::string_view text, const CharacterSet& set) noexcept {
  for (char c : text)
    if (!set[static_cast<unsigned char>(c)]) return false;
  return true;
}

bool is_valid_port(std::string_view text) noexcept {
  if (text.empty() || text.size() > 5) return false;
  unsigned port = 0;
  for (char c : text) {
    if (!is_digit(c)) return false;
    port = port * 10 + static_cast<unsigned>(c - '0');
  }
  return port <= 65535;
}

}  // namespace

const char* find_framing_fault(const Fields& fields, unsigned minor, BodyKind& body,
                               std::uint64_t& length) noexcept {
  body = BodyKind::none;
  const bool has_length = fields.has(FieldName::content_length);
  const bool has_coding = fields.has(FieldName::transfer_encoding);
  if (!has_length && !has_coding) return nullptr;
  if (has_length && has_coding) return "Content-Length with Transfer-Encoding";
  if (has_coding) {
    if (fields.repeated(FieldName::transfer_encoding)) return "repeated Transfer-Encoding";
    if (minor == 0) return "Transfer-Encoding in HTTP/1.0";
    if (!equals_ignoring_case(fields.get(FieldName::transfer_encoding), "chunked"))
      return "transfer coding is not chunked";
    body = BodyKind::chunked;
    return nullptr;
  }
  if (fields.repeated(FieldName::content_length)) return "repeated Content-Length";
  const auto parsed = parse_content_length(fields.get(FieldName::content_length));
  if (!parsed) return "Content-Length is not a number";
  body = BodyKind::length;
  length = *parsed;
  return nullptr;
}

bool is_framing(FieldName name) noexcept {
  switch (name) {
    case FieldName::connection:
    case FieldName::content_length:
    case FieldName::expect:
    case FieldName::keep_alive:
    case FieldName::te:
    case FieldName::trailer:
    case FieldName::transfer_encoding:
    case FieldName::upgrade:
      return true;
    default:
      return false;
  }
}

bool names_fields(const Fields& fields) noexcept {
  bool names = false;
  fields.each(FieldName::connection, [&](std::string_view value) {
    names = !equals_ignoring_case(value, "keep-alive") && !equals_ignoring_case(value, "close");
    return !names;
  });
  return names;
}

bool is_of_connection(const Fields& fields, std::string_view name) noexcept {
  std::array<char, 128> lowercase;
  if (name.size() > lowercase.size()) return true;
  for (std::size_t i = 0; i < name.size(); ++i) lowercase[i] = lower(name[i]);
  bool named = false;
  fields.each(FieldName::connection, [&](std::string_view value) {
    named = list_has(value, {lowercase.data(), name.size()});
    return !named;
  });
  return named;
}

bool is_persistent(const Fields& fields, unsigned minor) noexcept {
  bool close = false;
  bool keep = false;
  fields.each(FieldName::connection, [&](std::string_view value) {
    close = close || list_has(value, "close");
    keep = keep || list_has(value, "keep-alive");
    return true;
  });
  return !close && (minor == 1 || keep);
}

std::string_view find_upgrade(const Fields& fields) noexcept {
  if (!fields.has(FieldName::upgrade)) return {};
  bool connection = false, websocket = false;
  fields.each(FieldName::connection, [&](std::string_view value) {
    connection = connection || list_has(value, "upgrade");
    return !connection;
  });
  fields.each(FieldName::upgrade, [&](std::string_view value) {
    websocket = websocket || list_has(value, "websocket");
    return !websocket;
  });
  return connection && websocket ? "websocket" : "";
}

bool is_valid_host(std::string_view text) noexcept {
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos || bracket < 3) return false;
    if (!all_of(text.substr(1, bracket - 1), literal_characters)) return false;
    port = text.substr(bracket + 1);
  } else {
    const std::size_t colon = text.find(':');
    const std::string_view host = text.substr(0, colon);
    if (host.empty() || host.size() > 255 || !all_of(host, host_characters)) return false;
    port = colon == std::string_view::npos ? std::string_view{} : text.substr(colon);
  }
  return port.empty() || (port.front() == ':' && is_valid_port(port.substr(1)));
}

}  // namespace cairn::http
