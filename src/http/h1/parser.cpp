#include "http/h1/parser.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "http/h1/framing.h"
#include "http/scan.h"

namespace cairn::http {
namespace {

// Longer than any method there is; a bound so that a stream of letters is refused early.
constexpr std::size_t method_size_max = 32;
constexpr std::string_view version_line = "HTTP/1.1\r\n";

Parsed failed(ErrorCode code, const char* context) noexcept {
  return {Progress::failed, 0, Error(code, context, Side::client)};
}
Parsed malformed(const char* context) noexcept { return failed(ErrorCode::malformed, context); }

constexpr std::uint32_t word(const char (&text)[5]) noexcept {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(text[i]);
  return value;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

// Bytes of the scheme and `://` of an absolute-form target, or 0.
std::size_t scheme_size(std::string_view target) noexcept {
  for (std::string_view scheme : {std::string_view("http://"), std::string_view("https://")})
    if (equals_ignoring_case(target.substr(0, scheme.size()), scheme)) return scheme.size();
  return 0;
}

// Splits the target into authority, path and query; `query` is 0 when the target holds no '?', else the
// offset behind it. False: not a form this server takes.
bool split_target(RequestHead& head, std::string_view target, std::size_t query) noexcept {
  const std::size_t at = head.target_at;
  const std::size_t end = at + target.size();
  const std::size_t path_end = query == 0 ? end : query - 1;
  std::size_t path = at;
  head.target_size = static_cast<std::uint16_t>(target.size());
  head.query_at = static_cast<std::uint16_t>(query == 0 ? end : query);
  head.query_size = static_cast<std::uint16_t>(end - head.query_at);
  if (target.empty()) return false;
  if (target.front() == '*') {
    if (target.size() != 1 || head.method != Method::options) return false;
  } else if (target.front() != '/') {
    const std::size_t scheme = scheme_size(target);
    if (scheme == 0) return false;
    const std::size_t authority = at + scheme;
    path = std::min(target.find('/', scheme), target.size()) + at;
    path = std::min(path, path_end);
    head.authority_at = static_cast<std::uint16_t>(authority);
    head.authority_size = static_cast<std::uint16_t>(path - authority);
    if (!is_valid_host(target.substr(scheme, head.authority_size))) return false;
    if (path == path_end) {
      // An empty path means "/"; the second slash of the scheme is one to point at.
      head.path_at = static_cast<std::uint16_t>(authority - 1);
      head.path_size = 1;
      return true;
    }
  }
  head.path_at = static_cast<std::uint16_t>(path);
  head.path_size = static_cast<std::uint16_t>(path_end - path);
  return true;
}

// Applies the complete header section. Returns why it must be refused, or nullptr.
const char* apply_fields(RequestHead& head, RequestFraming& framing) noexcept {
  const Fields& fields = head.fields;
  if (!fields.has(FieldName::host) && framing.minor >= 1) return "no Host";
  if (fields.repeated(FieldName::host)) return "repeated Host";
  const std::string_view host = head.host();
  if (fields.has(FieldName::host) && !is_valid_host(fields.get(FieldName::host))) return "Host is not a host";
  if (head.authority_size != 0 &&
      !equal_ignoring_case(host, {head.base + head.authority_at, head.authority_size}))
    return "Host differs from the target's authority";
  if (const char* fault = find_framing_fault(fields, framing.minor, head.body, head.content_length))
    return fault;
  framing.keep_alive = is_persistent(fields, framing.minor);
  if (fields.has(FieldName::expect)) {
    if (fields.repeated(FieldName::expect) ||
        !equals_ignoring_case(fields.get(FieldName::expect), "100-continue"))
      return "unknown expectation";
    const bool empty =
        head.body == BodyKind::none || (head.body == BodyKind::length && head.content_length == 0);
    framing.expect_continue = framing.minor == 1 && !empty;
  }
  return nullptr;
}

struct MethodToken {
  Method method;
  std::uint8_t size;  // with the blank behind it; 0: not a common method
};

// `p` has 8 readable bytes.
MethodToken common_method(const char* p) noexcept {
  std::uint32_t start;
  std::memcpy(&start, p, 4);
  switch (start) {
    case word("GET "):
      return {Method::get, 4};
    case word("PUT "):
      return {Method::put, 4};
    case word("HEAD"):
      return {Method::head, static_cast<std::uint8_t>(p[4] == ' ' ? 5 : 0)};
    case word("POST"):
      return {Method::post, static_cast<std::uint8_t>(p[4] == ' ' ? 5 : 0)};
    default:
      return {Method::get, 0};
  }
}

}  // namespace

RequestParser::RequestParser(HeadLimits limits) noexcept { set_limits(limits); }

void RequestParser::set_limits(HeadLimits limits) noexcept {
  CHECK(limits.head_bytes <= 65535);
  limits_ = limits;
}

void RequestParser::reset() noexcept {
  head.fields.clear();
  head.method = Method::get;
  framing = {};
  head.body = BodyKind::none;
  head.content_length = 0;
  head.target_size = head.path_size = head.query_size = head.authority_size = 0;
  state_ = State::blank_line;
  position_ = 0;
}

// Everything up to the end of the request line; complete when the fields may follow.
Parsed RequestParser::request_line(std::string_view bytes) noexcept {
  const char* const base = bytes.data();
  const char* const end = base + bytes.size();
  const char* p = base + position_;
  const auto offset = [base](const char* at) { return static_cast<std::uint32_t>(at - base); };
  const auto pause = [&](State state) {
    state_ = state;
    position_ = offset(p);
    return Parsed{};
  };

  switch (state_) {
    case State::blank_line:
      if (p == end) return pause(State::blank_line);
      if (*p == '\r') {
        ++p;
        [[fallthrough]];
        case State::blank_line_feed:
          if (p == end) return pause(State::blank_line_feed);
          if (*p != '\n') return malformed("bare CR before the request line");
          ++p;
      }
      [[fallthrough]];

    case State::method: {
      MethodToken token{};
      if (end - p >= 8) token = common_method(p);
      if (token.size == 0) {
        const char* stop = p;
        while (stop != end && is_token_character(*stop)) ++stop;
        const std::string_view name(p, static_cast<std::size_t>(stop - p));
        if (name.size() > method_size_max) return failed(ErrorCode::not_implemented, "unknown method");
        if (stop == end) return pause(State::method);
        if (*stop != ' ' || name.empty()) return malformed("method is not a token");
        const auto* known = std::find(std::begin(method_names), std::end(method_names), name);
        token.method = static_cast<Method>(known - std::begin(method_names));
        token.size = static_cast<std::uint8_t>(name.size() + 1);
        if (token.method == Method::connect) return malformed("CONNECT");
        if (known == std::end(method_names) || token.method == Method::trace)
          return failed(ErrorCode::not_implemented, "unknown method");
      }
      head.method = token.method;
      p += token.size;
      head.target_at = static_cast<std::uint16_t>(offset(p));
      query_at_ = 0;
    }
      [[fallthrough]];

    case State::target: {
      const char* const target = base + head.target_at;
      for (;;) {
        p = find_target_stop(p, end);
        if (p - target > static_cast<std::ptrdiff_t>(limits_.target_bytes))
          return failed(ErrorCode::uri_too_long, "target over its limit");
        if (p == end) return pause(State::target);
        if (*p != '?') break;
        ++p;
        if (query_at_ == 0) query_at_ = offset(p);
      }
      if (*p != ' ') return malformed("character not allowed in a target");
      if (!split_target(head, {target, static_cast<std::size_t>(p - target)}, query_at_))
        return malformed("target is neither a path nor a URI of this server");
      ++p;
    }
      [[fallthrough]];

    case State::version: {
      const auto available = std::min(static_cast<std::size_t>(end - p), version_line.size());
      if (available < version_line.size() || std::memcmp(p, version_line.data(), version_line.size()) != 0) {
        for (std::size_t i = 0; i < available; ++i)
          if (is_digit(version_line[i]) ? !is_digit(p[i]) : p[i] != version_line[i])
            return malformed("request line does not end in a version and CRLF");
        if (available < version_line.size()) return pause(State::version);
        if (p[5] != '1' || p[7] > '1') return failed(ErrorCode::bad_version, "neither HTTP/1.1 nor 1.0");
      }
      framing.minor = static_cast<std::uint8_t>(p[7] - '0');
      state_ = State::fields;
      return {Progress::complete, offset(p) + static_cast<std::uint32_t>(version_line.size()), {}};
    }

    case State::fields:
      break;
  }
  __builtin_unreachable();
}

Parsed RequestParser::parse(std::string_view bytes) noexcept {
  const std::string_view visible = bytes.substr(0, limits_.head_bytes);
  Parsed parsed;
  if (state_ != State::fields) {
    parsed = request_line(visible);
    if (parsed.progress == Progress::complete) scanner_.start(parsed.size);
  }
  if (state_ == State::fields) {
    parsed = scanner_.scan(visible, head.fields);
    if (parsed.progress == Progress::complete) {
      head.rebase(bytes.data());
      if (const char* fault = apply_fields(head, framing)) return malformed(fault);
      return parsed;
    }
  }
  if (parsed.progress == Progress::need_more && bytes.size() >= limits_.head_bytes)
    return failed(ErrorCode::headers_too_large, "head over its limit");
  return parsed;
}

}  // namespace cairn::http
