#include "http/h1/parser.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace cairn::http {
namespace {

using namespace std::literals;

struct Outcome {
  Progress progress = Progress::need_more;
  ErrorCode code = ErrorCode::ok;
  std::size_t size = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Outcome& o) {
    return out << static_cast<int>(o.progress) << ' ' << name_of(o.code) << ' ' << o.size;
  }
};

Outcome outcome(const Parsed& parsed) {
  return {parsed.progress, parsed.progress == Progress::failed ? parsed.error.code : ErrorCode::ok,
          parsed.size};
}

// Feeds the prefixes of `text` that end at the given cuts, each in memory of its own, then all of it.
Outcome feed(RequestParser& parser, std::string_view text, std::initializer_list<std::size_t> cuts) {
  for (std::size_t cut : cuts) {
    const std::string part(text.substr(0, cut));
    const Outcome early = outcome(parser.parse(part));
    if (early.progress != Progress::need_more) return early;
  }
  return outcome(parser.parse(text));
}

Outcome once(std::string_view text) {
  RequestParser parser;
  return feed(parser, text, {});
}

// The verdict may not depend on how the bytes arrive.
void expect_same_for_all_splits(std::string_view text) {
  const Outcome whole = once(text);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    RequestParser parser;
    ASSERT_EQ(feed(parser, text, {cut}), whole) << "cut at " << cut << " of " << testing::PrintToString(text);
  }
  RequestParser parser;
  Outcome last;
  for (std::size_t i = 0; i <= text.size() && last.progress == Progress::need_more; ++i)
    last = outcome(parser.parse(std::string(text.substr(0, i))));
  EXPECT_EQ(last, whole) << testing::PrintToString(text);
}

std::string with_fields(std::string_view lines) { return "GET / HTTP/1.1\r\n" + std::string(lines) + "\r\n"; }
std::string with_line(std::string_view line) { return std::string(line) + "\r\nHost: a\r\n\r\n"; }

struct Row {
  const char* promise;
  std::string text;
  ErrorCode code;
};

const Row refused[] = {
    // Framing that two recipients could read differently.
    {"repeated Content-Length", with_fields("Host: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n"),
     ErrorCode::malformed},
    {"conflicting Content-Length", with_fields("Host: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n"),
     ErrorCode::malformed},
    {"length then coding", with_fields("Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
     ErrorCode::malformed},
    {"coding then length", with_fields("Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
     ErrorCode::malformed},
    {"repeated coding",
     with_fields("Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
     ErrorCode::malformed},
    {"coding gzip", with_fields("Host: a\r\nTransfer-Encoding: gzip\r\n"), ErrorCode::malformed},
    {"coding gzip, chunked", with_fields("Host: a\r\nTransfer-Encoding: gzip, chunked\r\n"),
     ErrorCode::malformed},
    {"coding chunked, chunked", with_fields("Host: a\r\nTransfer-Encoding: chunked, chunked\r\n"),
     ErrorCode::malformed},
    {"coding with comma", with_fields("Host: a\r\nTransfer-Encoding: chunked,\r\n"), ErrorCode::malformed},
    {"coding with parameter", with_fields("Host: a\r\nTransfer-Encoding: chunked;q=1\r\n"),
     ErrorCode::malformed},
    {"coding quoted", with_fields("Host: a\r\nTransfer-Encoding: \"chunked\"\r\n"), ErrorCode::malformed},
    {"coding identity", with_fields("Host: a\r\nTransfer-Encoding: identity\r\n"), ErrorCode::malformed},
    {"coding empty", with_fields("Host: a\r\nTransfer-Encoding:\r\n"), ErrorCode::malformed},
    {"coding with vertical tab", with_fields("Host: a\r\nTransfer-Encoding: \vchunked\r\n"),
     ErrorCode::malformed},
    {"coding in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
     ErrorCode::malformed},
    {"length empty", with_fields("Host: a\r\nContent-Length:\r\n"), ErrorCode::malformed},
    {"length signed", with_fields("Host: a\r\nContent-Length: +5\r\n"), ErrorCode::malformed},
    {"length negative", with_fields("Host: a\r\nContent-Length: -5\r\n"), ErrorCode::malformed},
    {"length hex", with_fields("Host: a\r\nContent-Length: 0x5\r\n"), ErrorCode::malformed},
    {"length list", with_fields("Host: a\r\nContent-Length: 5, 5\r\n"), ErrorCode::malformed},
    {"length with blank inside", with_fields("Host: a\r\nContent-Length: 5 5\r\n"), ErrorCode::malformed},
    {"length fraction", with_fields("Host: a\r\nContent-Length: 5.0\r\n"), ErrorCode::malformed},
    {"length 2^63", with_fields("Host: a\r\nContent-Length: 9223372036854775808\r\n"), ErrorCode::malformed},
    {"length 2^64+5", with_fields("Host: a\r\nContent-Length: 18446744073709551621\r\n"),
     ErrorCode::malformed},
    {"length of 40 digits", with_fields("Host: a\r\nContent-Length: " + std::string(40, '9') + "\r\n"),
     ErrorCode::malformed},
    // Lines and characters.
    {"bare LF behind the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", ErrorCode::malformed},
    {"bare LF behind a field", with_fields("Host: a\nX: y\r\n"), ErrorCode::malformed},
    {"another character in the place of CR", with_fields("Host: a\r\nX: y\x01\n"), ErrorCode::malformed},
    {"bare LF as the end", "GET / HTTP/1.1\r\nHost: a\r\n\n", ErrorCode::malformed},
    {"bare CR in a value", with_fields("Host: a\r\nX: a\rb\r\n"), ErrorCode::malformed},
    {"bare CR behind a field", with_fields("Host: a\rX: y\r\n"), ErrorCode::malformed},
    {"bare CR at the end", "GET / HTTP/1.1\r\nHost: a\r\n\rX", ErrorCode::malformed},
    {"NUL in a value", with_fields("Host: a\r\nX: a\0b\r\n"sv), ErrorCode::malformed},
    {"NUL in a name", with_fields("Host: a\r\nX\0Y: b\r\n"sv), ErrorCode::malformed},
    {"control character in a value", with_fields("Host: a\r\nX: a\x01\r\n"), ErrorCode::malformed},
    {"DEL in a value", with_fields("Host: a\r\nX: a\x7f\r\n"), ErrorCode::malformed},
    {"folding by blank", with_fields("Host: a\r\nX: a\r\n b\r\n"), ErrorCode::malformed},
    {"folding by tab", with_fields("Host: a\r\nX: a\r\n\tb\r\n"), ErrorCode::malformed},
    {"blank before the first field", with_fields(" Host: a\r\n"), ErrorCode::malformed},
    {"blank before colon", with_fields("Host: a\r\nX : b\r\n"), ErrorCode::malformed},
    {"tab before colon", with_fields("Host: a\r\nX\t: b\r\n"), ErrorCode::malformed},
    {"blank before the colon of a known name", with_fields("Host : a\r\n"), ErrorCode::malformed},
    {"empty name", with_fields("Host: a\r\n: b\r\n"), ErrorCode::malformed},
    {"no colon", with_fields("Host: a\r\nGarbage\r\n"), ErrorCode::malformed},
    {"name above 0x7f", with_fields("Host: a\r\nX\xe9: b\r\n"), ErrorCode::malformed},
    {"name in parentheses", with_fields("Host: a\r\n(X): b\r\n"), ErrorCode::malformed},
    {"name that only looks known", with_fields("Host: a\r\nContent\rLength: 5\r\n"), ErrorCode::malformed},
    {"two leading CRLF", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", ErrorCode::malformed},
    {"leading CR alone", "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", ErrorCode::malformed},
    {"leading LF", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", ErrorCode::malformed},
    {"leading blank", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", ErrorCode::malformed},
    {"a TLS hello", "\x16\x03\x01\x02\x00\x01", ErrorCode::malformed},
    // Request line.
    {"two blanks before the target", with_line("GET  / HTTP/1.1"), ErrorCode::malformed},
    {"two blanks before the version", with_line("GET /  HTTP/1.1"), ErrorCode::malformed},
    {"tab as separator", with_line("GET\t/ HTTP/1.1"), ErrorCode::malformed},
    {"blank behind the version", with_line("GET / HTTP/1.1 "), ErrorCode::malformed},
    {"no version", with_line("GET /"), ErrorCode::malformed},
    {"no target", with_line("GET HTTP/1.1"), ErrorCode::malformed},
    {"version in lower case", with_line("GET / http/1.1"), ErrorCode::malformed},
    {"version with two digits", with_line("GET / HTTP/1.10"), ErrorCode::malformed},
    {"version that is a word", with_line("GET / HTCPCP/1.0"), ErrorCode::malformed},
    {"method in parentheses", with_line("(GET) / HTTP/1.1"), ErrorCode::malformed},
    {"CONNECT", with_line("CONNECT a:80 HTTP/1.1"), ErrorCode::malformed},
    {"relative target", with_line("GET x HTTP/1.1"), ErrorCode::malformed},
    {"asterisk for GET", with_line("GET * HTTP/1.1"), ErrorCode::malformed},
    {"asterisk with more", with_line("OPTIONS *x HTTP/1.1"), ErrorCode::malformed},
    {"authority as target", with_line("GET a:80 HTTP/1.1"), ErrorCode::malformed},
    {"foreign scheme", with_line("GET ftp://a/ HTTP/1.1"), ErrorCode::malformed},
    {"absolute target without authority", with_line("GET http:///x HTTP/1.1"), ErrorCode::malformed},
    {"absolute target with a user", with_line("GET http://u@a/x HTTP/1.1"), ErrorCode::malformed},
    {"absolute target of another host", with_line("GET http://b/x HTTP/1.1"), ErrorCode::malformed},
    {"fragment", with_line("GET /a#b HTTP/1.1"), ErrorCode::malformed},
    {"quote in the target", with_line("GET /a\"b HTTP/1.1"), ErrorCode::malformed},
    {"angle bracket in the target", with_line("GET /a<b HTTP/1.1"), ErrorCode::malformed},
    {"byte above 0x7f in the target", with_line("GET /\xc3\xa9 HTTP/1.1"), ErrorCode::malformed},
    {"DEL in the target", with_line("GET /\x7f HTTP/1.1"), ErrorCode::malformed},
    {"NUL in the target", with_line("GET /\0 HTTP/1.1"sv), ErrorCode::malformed},
    {"unknown method", with_line("BREW / HTTP/1.1"), ErrorCode::not_implemented},
    {"method in lower case", with_line("get / HTTP/1.1"), ErrorCode::not_implemented},
    {"method with a known start", with_line("GETS / HTTP/1.1"), ErrorCode::not_implemented},
    {"known start of eight letters", with_line("POSTPOST / HTTP/1.1"), ErrorCode::not_implemented},
    {"TRACE", with_line("TRACE / HTTP/1.1"), ErrorCode::not_implemented},
    {"a method without end", std::string(33, 'A'), ErrorCode::not_implemented},
    {"HTTP/2.0", with_line("GET / HTTP/2.0"), ErrorCode::bad_version},
    {"HTTP/1.2", with_line("GET / HTTP/1.2"), ErrorCode::bad_version},
    {"HTTP/0.9", with_line("GET / HTTP/0.9"), ErrorCode::bad_version},
    // Host.
    {"no Host", "GET / HTTP/1.1\r\n\r\n", ErrorCode::malformed},
    {"bad Host in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n", ErrorCode::malformed},
    {"repeated Host in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", ErrorCode::malformed},
    {"repeated Host", with_fields("Host: a\r\nHost: a\r\n"), ErrorCode::malformed},
    {"empty Host", with_fields("Host:\r\n"), ErrorCode::malformed},
    {"list in Host", with_fields("Host: a, b\r\n"), ErrorCode::malformed},
    {"blank in Host", with_fields("Host: a b\r\n"), ErrorCode::malformed},
    {"user in Host", with_fields("Host: u@a\r\n"), ErrorCode::malformed},
    {"path in Host", with_fields("Host: a/b\r\n"), ErrorCode::malformed},
    {"escape in Host", with_fields("Host: a%41\r\n"), ErrorCode::malformed},
    {"port that is no number", with_fields("Host: a:x\r\n"), ErrorCode::malformed},
    {"port too large", with_fields("Host: a:65536\r\n"), ErrorCode::malformed},
    {"port empty", with_fields("Host: a:\r\n"), ErrorCode::malformed},
    {"unclosed literal", with_fields("Host: [::1\r\n"), ErrorCode::malformed},
    {"text behind a literal", with_fields("Host: [::1]x\r\n"), ErrorCode::malformed},
    {"byte above 0x7f in Host", with_fields("Host: \xe9\r\n"), ErrorCode::malformed},
    // Expectations.
    {"unknown expectation", with_fields("Host: a\r\nExpect: 200-ok\r\n"), ErrorCode::malformed},
    {"repeated expectation", with_fields("Host: a\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n"),
     ErrorCode::malformed},
};

std::string many_fields(std::size_t count) {
  std::string lines = "Host: a\r\n";
  for (std::size_t i = 1; i < count; ++i) lines += "X-Field: value\r\n";
  return with_fields(lines);
}

}  // namespace

TEST(RequestParser, every_strict_rule_refuses_with_its_code_whatever_the_split) {
  for (const Row& row : refused) {
    EXPECT_EQ(once(row.text), (Outcome{Progress::failed, row.code, 0})) << row.promise;
    expect_same_for_all_splits(row.text);
  }
}

TEST(RequestParser, a_head_is_understood) {
  const std::string text =
      "GET /o/b3:00?range=0-9&x=? HTTP/1.1\r\nhOST: Example.org:8080\r\nX-Empty:\r\nX-Other: \t a \t b \t\r\n"
      "Accept: */*\r\nACCEPT: text/html\r\nX-Latin: caf\xe9\r\n\r\nbody";
  RequestParser parser;
  EXPECT_EQ(feed(parser, text, {}), (Outcome{Progress::complete, ErrorCode::ok, text.size() - 4}));
  const RequestHead& head = parser.head;
  EXPECT_EQ(head.method, Method::get);
  EXPECT_EQ(parser.framing.minor, 1);
  EXPECT_EQ(head.target(), "/o/b3:00?range=0-9&x=?");
  EXPECT_EQ(head.path(), "/o/b3:00");
  EXPECT_EQ(head.query(), "range=0-9&x=?");
  EXPECT_EQ(head.body, BodyKind::none);
  EXPECT_TRUE(parser.framing.keep_alive);
  EXPECT_FALSE(parser.framing.expect_continue);
  ASSERT_EQ(head.fields.size(), 6u);
  EXPECT_EQ(head.fields.get(FieldName::host), "Example.org:8080");
  EXPECT_EQ(head.fields.find("x-empty"), "");
  EXPECT_EQ(head.fields.find("X-OTHER"), "a \t b");
  EXPECT_EQ(head.fields.find("x-latin"), "caf\xe9");
  EXPECT_EQ(head.fields.get(FieldName::accept), "*/*");
  EXPECT_TRUE(head.fields.repeated(FieldName::accept));
  EXPECT_FALSE(head.fields.repeated(FieldName::host));
  EXPECT_FALSE(head.fields.has(FieldName::range));
  EXPECT_EQ(head.fields.known(4), FieldName::accept);
  EXPECT_EQ(head.fields.name(4), "ACCEPT");
  std::string joined;
  head.fields.each(FieldName::accept,
                   [&](std::string_view value) { return joined += value, joined += ';', true; });
  EXPECT_EQ(joined, "*/*;text/html;");
  expect_same_for_all_splits(text);
}

TEST(RequestParser, every_method_is_known) {
  for (Method method :
       {Method::get, Method::head, Method::post, Method::put, Method::del, Method::patch, Method::options}) {
    const std::string text = with_line(std::string(name_of(method)) + " /x HTTP/1.1");
    RequestParser parser;
    EXPECT_EQ(feed(parser, text, {}).progress, Progress::complete) << name_of(method);
    EXPECT_EQ(parser.head.method, method);
    expect_same_for_all_splits(text);
  }
}

TEST(RequestParser, http_1_0_may_name_no_host) {
  RequestParser parser;
  const std::string plain = "GET / HTTP/1.0\r\n\r\n", absolute = "GET http://a:80/x HTTP/1.0\r\n\r\n";
  ASSERT_EQ(parser.parse(plain).progress, Progress::complete);
  EXPECT_EQ(parser.head.host(), "");
  parser.reset();
  ASSERT_EQ(parser.parse(absolute).progress, Progress::complete);
  EXPECT_EQ(parser.head.host(), "a:80");
  EXPECT_EQ(parser.head.path(), "/x");
}

TEST(RequestParser, targets_take_only_the_characters_of_a_uri) {
  const std::string_view allowed =
      "!$%&'()*+,-./:;=?@[]_~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (c == ' ') continue;
    // In a block of 16 and behind the last one.
    for (const std::string& before : {std::string("/"), "/" + std::string(40, 'a')})
      for (const std::string& behind : {std::string(), std::string(40, 'b')}) {
        const Outcome got = once(with_line("GET " + before + c + behind + " HTTP/1.1"));
        EXPECT_EQ(got.progress == Progress::complete, allowed.contains(c)) << byte;
        if (got.progress == Progress::failed) EXPECT_EQ(got.code, ErrorCode::malformed) << byte;
      }
  }
}

TEST(RequestParser, every_form_of_target_gives_its_path) {
  struct {
    const char *line, *path, *query;
  } const rows[] = {{"GET / HTTP/1.1", "/", ""},
                    {"GET /? HTTP/1.1", "/", ""},
                    {"GET //a HTTP/1.1", "//a", ""},
                    {"GET /a!b$c[d]~@ HTTP/1.1", "/a!b$c[d]~@", ""},
                    {"GET http://a/x/y?z HTTP/1.1", "/x/y", "z"},
                    {"GET HTTPS://A/x HTTP/1.1", "/x", ""},
                    {"GET http://a HTTP/1.1", "/", ""},
                    {"GET http://a?q/r HTTP/1.1", "/", "q/r"},
                    {"OPTIONS * HTTP/1.1", "*", ""}};
  for (const auto& row : rows) {
    const std::string text = with_line(row.line);
    RequestParser parser;
    EXPECT_EQ(feed(parser, text, {5, 9}).progress, Progress::complete) << row.line;
    EXPECT_EQ(parser.head.path(), row.path);
    EXPECT_EQ(parser.head.query(), row.query);
    expect_same_for_all_splits(text);
  }
}

TEST(RequestParser, hosts_of_every_shape_are_taken) {
  for (const char* host :
       {"a", "a.b-c_d~e", "a:0", "a:65535", "127.0.0.1:8080", "[::1]", "[2001:db8::1]:443"})
    EXPECT_EQ(once(with_fields("Host: " + std::string(host) + "\r\n")).progress, Progress::complete) << host;
}

TEST(RequestParser, framing_is_what_the_fields_say) {
  struct {
    const char* fields;
    BodyKind body;
    std::uint64_t length;
    bool continues;
  } const rows[] = {
      {"", BodyKind::none, 0, false},
      {"Content-Length: 0\r\n", BodyKind::length, 0, false},
      {"content-length: 0042 \r\n", BodyKind::length, 42, false},
      {"Content-Length: 9223372036854775807\r\n", BodyKind::length, 9223372036854775807u, false},
      {"Transfer-Encoding: ChunkeD\r\n", BodyKind::chunked, 0, false},
      {"Content-Length: 5\r\nExpect: 100-Continue\r\n", BodyKind::length, 5, true},
      {"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", BodyKind::chunked, 0, true},
      {"Content-Length: 0\r\nExpect: 100-continue\r\n", BodyKind::length, 0, false},
      {"Expect: 100-continue\r\n", BodyKind::none, 0, false},
  };
  for (const auto& row : rows) {
    RequestParser parser;
    EXPECT_EQ(feed(parser, with_fields("Host: a\r\n" + std::string(row.fields)), {}).progress,
              Progress::complete)
        << row.fields;
    EXPECT_EQ(parser.head.body, row.body) << row.fields;
    EXPECT_EQ(parser.head.content_length, row.length) << row.fields;
    EXPECT_EQ(parser.framing.expect_continue, row.continues) << row.fields;
  }
}

TEST(RequestParser, persistence_follows_version_and_connection) {
  struct {
    const char *version, *fields;
    bool keep_alive;
  } const rows[] = {{"1.1", "", true},
                    {"1.1", "Connection: close\r\n", false},
                    {"1.1", "Connection: Close\r\n", false},
                    {"1.1", "Connection: upgrade, close\r\n", false},
                    {"1.1", "Connection: keep-alive\r\nConnection: close\r\n", false},
                    {"1.1", "Connection: closed\r\n", true},
                    {"1.0", "", false},
                    {"1.0", "Connection: Keep-Alive\r\n", true},
                    {"1.0", "Connection: keep-alive, close\r\n", false}};
  for (const auto& row : rows) {
    RequestParser parser;
    const std::string text =
        "GET / HTTP/" + std::string(row.version) + "\r\nHost: a\r\n" + row.fields + "\r\n";
    EXPECT_EQ(feed(parser, text, {}).progress, Progress::complete);
    EXPECT_EQ(parser.framing.keep_alive, row.keep_alive) << row.version << ' ' << row.fields;
  }
}

TEST(RequestParser, one_leading_crlf_is_skipped_and_counted) {
  const std::string text = "\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n";
  RequestParser parser;
  EXPECT_FALSE(parser.started());
  EXPECT_EQ(feed(parser, text, {1, 2, 3}), (Outcome{Progress::complete, ErrorCode::ok, text.size()}));
  EXPECT_TRUE(parser.started());
  EXPECT_EQ(parser.head.path(), "/x");
}

TEST(RequestParser, limits_hold_to_the_byte) {
  const HeadLimits limits{.head_bytes = 200, .target_bytes = 50};
  const auto verdict = [&](const std::string& text) {
    RequestParser parser(limits);
    const Outcome whole = outcome(parser.parse(text));
    RequestParser slow(limits);
    Outcome last;
    for (std::size_t i = 0; i <= text.size() && last.progress == Progress::need_more; ++i)
      last = outcome(slow.parse(std::string_view(text).substr(0, i)));
    EXPECT_EQ(whole, last);
    return whole;
  };
  const auto target = [](std::size_t size) {
    return with_line("GET /" + std::string(size - 1, 'a') + " HTTP/1.1");
  };
  EXPECT_EQ(verdict(target(50)).progress, Progress::complete);
  EXPECT_EQ(verdict(target(51)).code, ErrorCode::uri_too_long);
  EXPECT_EQ(verdict("GET /" + std::string(50, 'a')).code, ErrorCode::uri_too_long);
  EXPECT_EQ(verdict("GET /" + std::string(49, 'a') + "?").code, ErrorCode::uri_too_long);

  const std::string shell = with_fields("Host: a\r\nX: \r\n");
  const auto head = [&](std::size_t size) {
    return with_fields("Host: a\r\nX: " + std::string(size - shell.size(), 'v') + "\r\n");
  };
  EXPECT_EQ(verdict(head(200)), (Outcome{Progress::complete, ErrorCode::ok, 200}));
  EXPECT_EQ(verdict(head(201)).code, ErrorCode::headers_too_large);
  // A head of 200 bytes that wants another one can no longer keep within them.
  EXPECT_EQ(verdict(head(201).substr(0, 200)).code, ErrorCode::headers_too_large);
  EXPECT_EQ(verdict(head(201).substr(0, 199)).progress, Progress::need_more);
  EXPECT_EQ(verdict(head(199).substr(0, 198) + std::string(10, 'v')).progress, Progress::failed);
}

TEST(RequestParser, the_default_limits_are_those_of_the_specification) {
  EXPECT_EQ(once(with_line("GET /" + std::string(8191, 'a') + " HTTP/1.1")).progress, Progress::complete);
  EXPECT_EQ(once(with_line("GET /" + std::string(8192, 'a') + " HTTP/1.1")).code, ErrorCode::uri_too_long);
  const std::string shell = with_fields("Host: a\r\nX: \r\n");
  EXPECT_EQ(once(with_fields("Host: a\r\nX: " + std::string(32768 - shell.size(), 'v') + "\r\n")).size,
            32768u);
  EXPECT_EQ(once(with_fields("Host: a\r\nX: " + std::string(32769 - shell.size(), 'v') + "\r\n")).code,
            ErrorCode::headers_too_large);
  EXPECT_EQ(once(many_fields(100)).progress, Progress::complete);
  EXPECT_EQ(once(many_fields(101)).code, ErrorCode::headers_too_large);
}

TEST(RequestParser, pipelined_heads_are_read_one_after_the_other) {
  const std::string first = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
  const std::string second = "GET /b HTTP/1.1\r\nHost: b\r\n\r\n";
  const std::string stream = first + "abc" + second;
  RequestParser parser;
  EXPECT_EQ(parser.parse(stream).size, first.size());
  parser.reset();
  EXPECT_EQ(parser.parse(std::string_view(stream).substr(first.size() + 3)).size, second.size());
  EXPECT_EQ(parser.head.path(), "/b");
  EXPECT_EQ(parser.head.body, BodyKind::none);
  EXPECT_EQ(parser.head.content_length, 0u);
  EXPECT_TRUE(parser.framing.keep_alive);
  EXPECT_EQ(parser.head.fields.size(), 1u);
}

TEST(Fields, every_known_name_is_found_in_any_case_and_nothing_else) {
  for (std::size_t i = 1; i < field_name_count; ++i) {
    const auto name = static_cast<FieldName>(i);
    std::string text(name_of(name));
    EXPECT_EQ(find_field_name(text), name);
    for (char& c : text) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(find_field_name(text), name);
    // In a buffer with room behind, the wide comparison is taken.
    const std::string wide =
        with_fields("Host: a\r\n" + text + ": 1\r\nX-Padding: 0123456789012345678901234567890\r\n");
    RequestParser parser;
    if (parser.parse(wide).progress == Progress::complete)
      EXPECT_EQ(parser.head.fields.known(1), name) << text;
    for (std::size_t at = 0; at < text.size(); ++at) {
      std::string other = text;
      other[at] = static_cast<char>(other[at] == '-' ? '\r' : other[at] ^ 0x40);
      EXPECT_NE(find_field_name(other), name) << other;
    }
    EXPECT_NE(find_field_name(text + "s"), name);
  }
  EXPECT_EQ(find_field_name(""), FieldName::other);
  EXPECT_EQ(find_field_name(std::string(300, 'a')), FieldName::other);
}

}  // namespace cairn::http
