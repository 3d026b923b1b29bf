"""What is not a request, or not one this server takes, gets its status and an end."""

import unittest

import wire
from demo import Demo, DemoTest
from wire import chunked, head, request

GET = "GET /mem/x HTTP/1.1"
POST = "POST /echo HTTP/1.1"
HOST = "Host: demo"
CHUNKED = "Transfer-Encoding: chunked"
BEHIND = request("GET", "/healthz")  # must never be answered


def body_of(data):
    return head(POST, HOST, CHUNKED) + data


# name, bytes, status, code. The connection ends behind each.
FRAMING = [
    ("length, then transfer coding", head(POST, HOST, "Content-Length: 5", CHUNKED) + b"0\r\n\r\n", 400),
    ("transfer coding, then length", head(POST, HOST, CHUNKED, "Content-Length: 5") + b"0\r\n\r\n", 400),
    ("transfer coding gzip", head(POST, HOST, "Transfer-Encoding: gzip"), 400),
    ("transfer coding gzip, then length", head(POST, HOST, "Transfer-Encoding: gzip", "Content-Length: 3") + b"abc", 400),
    ("transfer coding gzip, chunked", head(POST, HOST, "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n", 400),
    ("transfer coding chunked, gzip", head(POST, HOST, "Transfer-Encoding: chunked, gzip"), 400),
    ("transfer coding chunked twice in a list", head(POST, HOST, "Transfer-Encoding: chunked, chunked"), 400),
    ("transfer coding identity", head(POST, HOST, "Transfer-Encoding: identity"), 400),
    ("transfer coding empty", head(POST, HOST, "Transfer-Encoding:"), 400),
    ("transfer coding with a parameter", head(POST, HOST, "Transfer-Encoding: chunked;q=1"), 400),
    ("transfer coding with a vertical tab", head(POST, HOST, "Transfer-Encoding: \x0bchunked"), 400),
    ("transfer coding repeated", head(POST, HOST, CHUNKED, CHUNKED), 400),
    ("transfer coding in HTTP/1.0", head("POST /echo HTTP/1.0", HOST, CHUNKED) + b"0\r\n\r\n", 400),
    ("length empty", head(POST, HOST, "Content-Length:"), 400),
    ("length with a plus", head(POST, HOST, "Content-Length: +5") + b"abcde", 400),
    ("length negative", head(POST, HOST, "Content-Length: -5"), 400),
    ("length in hex", head(POST, HOST, "Content-Length: 0x5") + b"abcde", 400),
    ("length a list of equals", head(POST, HOST, "Content-Length: 5, 5") + b"abcde", 400),
    ("length with a blank inside", head(POST, HOST, "Content-Length: 1 1"), 400),
    ("length with a letter", head(POST, HOST, "Content-Length: 5a"), 400),
    ("length with a fraction", head(POST, HOST, "Content-Length: 5.0"), 400),
    ("length repeated, equal", head(POST, HOST, "Content-Length: 5", "Content-Length: 5") + b"abcde", 400),
    ("length repeated, conflicting", head(POST, HOST, "Content-Length: 5", "Content-Length: 6") + b"abcde", 400),
    ("length 2^63", head(POST, HOST, "Content-Length: 9223372036854775808"), 400),
    ("length 2^64 + 5", head(POST, HOST, "Content-Length: 18446744073709551621") + b"abcde", 400),
    ("length of a hundred digits", head(POST, HOST, "Content-Length: " + "9" * 100), 400),
]

LINES = [
    ("bare LF behind the request line", b"GET /mem/x HTTP/1.1\nHost: demo\r\n\r\n", 400),
    ("bare LF behind a field", b"GET /mem/x HTTP/1.1\r\nHost: demo\nA: b\r\n\r\n", 400),
    ("bare LF as the end of the head", b"GET /mem/x HTTP/1.1\r\nHost: demo\r\n\n", 400),
    ("only bare LFs", b"GET /mem/x HTTP/1.1\nHost: demo\n\n", 400),
    ("bare CR in a value", head(GET, HOST, "A: b\rc"), 400),
    ("bare CR behind the request line", b"GET /mem/x HTTP/1.1\rHost: demo\r\n\r\n", 400),
    ("bare CR before the request line", b"\rGET /mem/x HTTP/1.1\r\nHost: demo\r\n\r\n", 400),
    ("bare CR as the end of the head", b"GET /mem/x HTTP/1.1\r\nHost: demo\r\n\rX", 400),
    ("two CRs before LF", b"GET /mem/x HTTP/1.1\r\nHost: demo\r\r\n\r\n", 400),
    ("NUL in a value", head(GET, HOST, "A: b\0c"), 400),
    ("NUL in a name", head(GET, HOST, "A\0: b"), 400),
    ("NUL in the target", head("GET /mem/\0 HTTP/1.1", HOST), 400),
    ("control character in a value", head(GET, HOST, "A: b\x01c"), 400),
    ("DEL in a value", head(GET, HOST, "A: b\x7fc"), 400),
    ("folded line", head(GET, HOST, "A: b", " c"), 400),
    ("folded line with a tab", head(GET, HOST, "A: b", "\tc"), 400),
    ("blank line of blanks", head(GET, HOST, " "), 400),
    ("blank before the first field", head(GET, " Host: demo"), 400),
    ("blank before a colon", head(GET, HOST, "A : b"), 400),
    ("tab before a colon", head(GET, HOST, "A\t: b"), 400),
    ("blank before Host's colon", head(GET, "Host : demo"), 400),
    ("blank before Content-Length's colon", head(POST, HOST, "Content-Length : 5") + b"abcde", 400),
    ("empty name", head(GET, HOST, ": b"), 400),
    ("no colon", head(GET, HOST, "Abc"), 400),
    ("name with a byte above 0x7f", head(GET, HOST, b"A\xc3\xa9: b"), 400),
    ("name with a parenthesis", head(GET, HOST, "A(b): c"), 400),
    ("name with a blank", head(GET, HOST, "A b: c"), 400),
    ("folded Transfer-Encoding", head(POST, HOST, "Transfer-Encoding:", " chunked") + b"0\r\n\r\n", 400),
]

CHUNKS = [
    ("size missing", body_of(b"\r\nabc\r\n0\r\n\r\n"), 400),
    ("size not hex", body_of(b"g\r\nabc\r\n0\r\n\r\n"), 400),
    ("size with 0x", body_of(b"0x3\r\nabc\r\n0\r\n\r\n"), 400),
    ("size with a plus", body_of(b"+3\r\nabc\r\n0\r\n\r\n"), 400),
    ("size negative", body_of(b"-3\r\nabc\r\n0\r\n\r\n"), 400),
    ("size with a blank before", body_of(b" 3\r\nabc\r\n0\r\n\r\n"), 400),
    ("size with a blank behind", body_of(b"3 \r\nabc\r\n0\r\n\r\n"), 400),
    ("size 2^64", body_of(b"10000000000000000\r\nabc\r\n0\r\n\r\n"), 400),
    ("size of seventeen digits", body_of(b"00000000000000003\r\nabc\r\n0\r\n\r\n"), 400),
    ("size all ones", body_of(b"ffffffffffffffff\r\nabc\r\n0\r\n\r\n"), 400),
    ("size ends in LF", body_of(b"3\nabc\r\n0\r\n\r\n"), 400),
    ("size ends in CR", body_of(b"3\rabc\r\n0\r\n\r\n"), 400),
    ("data longer than its size", body_of(b"3\r\nabcd\r\n0\r\n\r\n"), 400),
    ("data not ended by CRLF", body_of(b"3\r\nabc0\r\n\r\n"), 400),
    ("data ended by LF", body_of(b"3\r\nabc\n0\r\n\r\n"), 400),
    ("extension over 256 bytes", body_of(b"3;" + b"a" * 300 + b"\r\nabc\r\n0\r\n\r\n"), 400),
    ("extension with a control character", body_of(b"3;a\x01\r\nabc\r\n0\r\n\r\n"), 400),
    ("extension with LF", body_of(b"3;a\nb\r\nabc\r\n0\r\n\r\n"), 400),
    ("trailer without a colon", body_of(b"0\r\nabc\r\n\r\n"), 400),
    ("trailer with a blank before the colon", body_of(b"0\r\nA : b\r\n\r\n"), 400),
    ("trailer folded", body_of(b"0\r\nA: b\r\n c\r\n\r\n"), 400),
    ("trailer with NUL", body_of(b"0\r\nA: \0\r\n\r\n"), 400),
    ("trailers over 100", body_of(b"0\r\n" + b"A: b\r\n" * 101 + b"\r\n"), 400),
    ("trailers over 8 KiB", body_of(b"0\r\n" + (b"A: " + b"b" * 1000 + b"\r\n") * 9 + b"\r\n"), 400),
    ("end with a bare LF", body_of(b"0\r\n\n"), 400),
]

HEADS = [
    ("head over 32 KiB in many fields", head(GET, HOST, *[f"A{i}: {'b' * 1000}" for i in range(40)]), 431),
    ("head over 32 KiB in one field", head(GET, HOST, "A: " + "b" * 33000), 431),
    ("head over 32 KiB in one name", head(GET, HOST, "A" * 33000 + ": b"), 431),
    ("101 fields", head(GET, HOST, *["A: b"] * 100), 431),
    ("a thousand fields", head(GET, HOST, *["A: b"] * 1000), 431),
    ("target over 8 KiB", head(f"GET /mem/{'x' * 8200} HTTP/1.1", HOST), 414),
    ("query over 8 KiB", head(f"GET /mem/x?{'x' * 8200} HTTP/1.1", HOST), 414),
    ("target over 40 KiB", head(f"GET /mem/{'x' * 40000} HTTP/1.1", HOST), 414),
    ("no Host", head(GET), 400),
    ("no Host, other fields", head(GET, "A: b"), 400),
    ("Host repeated, equal", head(GET, HOST, HOST), 400),
    ("Host repeated, different", head(GET, HOST, "Host: other"), 400),
    ("Host empty", head(GET, "Host:"), 400),
    ("Host with a path", head(GET, "Host: demo/x"), 400),
    ("Host with a user", head(GET, "Host: me@demo"), 400),
    ("Host with a blank", head(GET, "Host: demo x"), 400),
    ("Host with a bad port", head(GET, "Host: demo:99999"), 400),
    ("Host list", head(GET, "Host: demo, other"), 400),
    ("Host other than the target's", head("GET http://other/mem/x HTTP/1.1", HOST), 400),
    ("unknown method", head("BREW /mem/x HTTP/1.1", HOST), 501),
    ("method in lower case", head("get /mem/x HTTP/1.1", HOST), 501),
    ("method of a hundred letters", head("A" * 100 + " /mem/x HTTP/1.1", HOST), 501),
    ("TRACE", head("TRACE /mem/x HTTP/1.1", HOST), 501),
    ("CONNECT", head("CONNECT demo:80 HTTP/1.1", HOST), 400),
    ("CONNECT to a path", head("CONNECT /mem/x HTTP/1.1", HOST), 400),
    ("method not a token", head("G(ET /mem/x HTTP/1.1", HOST), 400),
    ("no method", head(" /mem/x HTTP/1.1", HOST), 400),
    ("two blanks behind the method", head("GET  /mem/x HTTP/1.1", HOST), 400),
    ("two blanks before the version", head("GET /mem/x  HTTP/1.1", HOST), 400),
    ("tab as separator", head("GET\t/mem/x\tHTTP/1.1", HOST), 400),
    ("blank behind the version", head("GET /mem/x HTTP/1.1 ", HOST), 400),
    ("blank in the target", head("GET /mem/x y HTTP/1.1", HOST), 400),
    ("no version", head("GET /mem/x", HOST), 400),
    ("lower-case version", head("GET /mem/x http/1.1", HOST), 400),
    ("version of two digits", head("GET /mem/x HTTP/1.10", HOST), 400),
    ("version without a minor", head("GET /mem/x HTTP/1", HOST), 400),
    ("version 2.0", head("GET /mem/x HTTP/2.0", HOST), 505),
    ("version 1.2", head("GET /mem/x HTTP/1.2", HOST), 505),
    ("version 0.9", head("GET /mem/x HTTP/0.9", HOST), 505),
    ("version 3.0", head("GET /mem/x HTTP/3.0", HOST), 505),
    ("asterisk with GET", head("GET * HTTP/1.1", HOST), 400),
    ("relative target", head("GET mem/x HTTP/1.1", HOST), 400),
    ("foreign scheme", head("GET ftp://demo/mem/x HTTP/1.1", HOST), 400),
    ("byte above 0x7f in the target", head(b"GET /mem/\xc3\xa9 HTTP/1.1", HOST), 400),
    ("backslash", head("GET /\\ HTTP/1.1", HOST), 400),
    ("backslash in a path", head("GET /mem/a\\b HTTP/1.1", HOST), 400),
    ("quotes in the target", head('GET /mem/"x" HTTP/1.1', HOST), 400),
    ("brackets of angles in the target", head("GET /mem/<x> HTTP/1.1", HOST), 400),
    ("caret in the target", head("GET /mem/^ HTTP/1.1", HOST), 400),
    ("backtick in the target", head("GET /mem/` HTTP/1.1", HOST), 400),
    ("braces in the target", head("GET /mem/{x} HTTP/1.1", HOST), 400),
    ("bar in the query", head("GET /mem/x?a|b HTTP/1.1", HOST), 400),
    ("fragment in the target", head("GET /mem/x#y HTTP/1.1", HOST), 400),
    ("unknown expectation", head(POST, HOST, "Expect: 200-ok", "Content-Length: 3") + b"abc", 400),
    ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)), 400),
    ("an SSH banner", b"SSH-2.0-OpenSSH_9.2\r\n", 400),
]

# The head is in order, the path is not: the connection may stay.
PATHS = [
    ("dot segments", "/mem/../healthz", 400),
    ("a dot segment", "/./healthz", 400),
    ("dot segments at the end", "/mem/..", 400),
    ("escaped dot segments", "/mem/%2e%2e/healthz", 400),
    ("escaped dot segments in upper case", "/mem/%2E%2E", 400),
    ("half-escaped dot segments", "/mem/.%2e/x", 400),
    ("escaped slash", "/mem/a%2fb", 400),
    ("escaped slash in upper case", "/mem/a%2Fb", 400),
    ("escaped NUL", "/mem/a%00b", 400),
    ("escaped CR LF", "/mem/a%0d%0ab", 400),
    ("escape cut at the end", "/mem/a%2", 400),
    ("escape not hex", "/mem/a%zz", 400),
    ("percent alone", "/mem/%", 400),
    ("escaped twice", "/mem/%252e%252e", 400),
    ("escaped backslash", "/mem/a%5cb", 400),
    ("overlong UTF-8", "/mem/%c0%ae%c0%ae", 400),
    ("not UTF-8", "/mem/%ff", 400),
    ("parameter not a number", "/job/abc", 400),
    ("parameter too large", "/job/99999999999999999999999999", 400),
    ("no such path", "/nothing", 404),
    ("root", "/", 404),
    ("prefix of a route", "/mem", 404),
    ("trailing slash", "/mem/x/", 404),
    ("case matters", "/MEM/x", 404),
]

CODES = {400: "malformed", 404: "not_found", 414: "uri_too_long", 431: "headers_too_large", 501: "not_implemented",
         505: "bad_version"}


class Malformed(DemoTest):
    def check(self, table, pieces_of):
        for name, data, status in table:
            with self.subTest(name), self.demo.connect() as connection:
                connection.send_as_it_goes(pieces_of(data + BEHIND))
                answer = connection.read()
                self.assert_error(answer, status, CODES[status])
                self.assertTrue(answer.closes(), answer)
                self.assertRegex(answer.get("X-Corr-ID"), wire.ULID)
                connection.expect_end()
            self.assertTrue(self.demo.alive(), name)

    def test_framing_in_one_write(self):
        self.check(FRAMING, lambda data: [data])

    def test_lines_in_one_write(self):
        self.check(LINES, lambda data: [data])

    def test_chunks_in_one_write(self):
        self.check(CHUNKS, lambda data: [data])

    def test_heads_in_one_write(self):
        self.check(HEADS, lambda data: [data])

    def test_split_in_two(self):
        self.check(FRAMING + LINES + CHUNKS, lambda data: [data[: len(data) // 2], data[len(data) // 2 :]])

    def test_byte_by_byte(self):
        short = [row for row in FRAMING + LINES + CHUNKS + HEADS if len(row[1]) < 130]
        self.assertGreater(len(short), 80)
        self.check(short, lambda data: [data[i : i + 1] for i in range(len(data))])

    def test_behind_a_good_request(self):
        for name, data, status in FRAMING + LINES:
            with self.subTest(name), self.demo.connect() as connection:
                connection.send(request("GET", "/mem/x") + data + BEHIND)
                self.assertEqual(connection.read().status, 200)
                self.assertEqual(connection.read().status, status)
                connection.expect_end()

    def test_paths(self):
        with self.demo.connect() as connection:
            for name, path, status in PATHS:
                with self.subTest(name):
                    self.assert_error(connection.ask("GET", path), status, CODES[status])

    def test_malformed_heads_are_counted(self):
        for data in (head(GET), head(POST), head("HEAD /mem/x HTTP/1.1")):
            before = self.demo.metric('rejected_total{reason="head"}')
            with self.demo.connect() as connection:
                connection.send(data)
                connection.socket.recv(1000)
            with self.subTest(data):
                self.assertEqual(self.demo.metric('rejected_total{reason="head"}'), before + 1)

    def test_refused_head_request_has_no_body(self):
        with self.demo.connect() as connection:
            connection.send(head("HEAD /nothing HTTP/1.1", HOST, "Connection: close"))
            answer = connection.read("HEAD")
            self.assertEqual(answer.status, 404)
            self.assertGreater(int(answer.get("Content-Length")), 0)
            connection.expect_end()


class CorrIdOfABadHead(unittest.TestCase):
    """The id stands in a head that was never completed."""

    def test_first_request_of_a_process(self):
        for fault in ("A : b", " folded", "A: \x01"):
            with self.subTest(fault=fault), Demo() as demo, demo.connect() as connection:
                connection.send(head(GET, HOST, "X-Corr-ID: abcdefgh-12345678", fault))
                answer = connection.read()
                self.assertEqual((answer.status, answer.error()["code"]), (400, "malformed"))

    def test_never_shows_bytes_of_another_request(self):
        with Demo({"server.shards": 1}) as demo, demo.connect() as before:
            secret = "S" * 64
            before.ask("GET", "/mem/x", Cookie=secret * 20)
            for size in (8, 26, 64):
                with self.subTest(size), demo.connect() as connection:
                    connection.send(head(GET, HOST, "X-Corr-ID: " + "a" * size, "A : b"))
                    given = connection.read().get("X-Corr-ID")
                    self.assertTrue(given == "a" * size or wire.ULID.fullmatch(given), given)


class Forms(DemoTest):
    """Requests that look unusual and have an answer of their own."""

    def test_options_asterisk_is_answered_and_the_connection_stays(self):
        connection = self.connect()
        answer = connection.send(head("OPTIONS * HTTP/1.1", HOST)).read()
        self.assertIn(answer.status, (200, 204, 404, 405))
        self.assertEqual(connection.ask("GET", "/healthz").status, 200)

    def test_wrong_method_names_the_right_ones(self):
        connection = self.connect()
        for method, target, allowed in (("POST", "/mem/x", {"GET", "HEAD"}), ("GET", "/echo", {"POST", "PUT"}),
                                        ("DELETE", "/job/1", {"GET", "POST"}), ("OPTIONS", "/healthz", {"GET", "HEAD"}),
                                        ("PUT", "/metrics", {"GET", "HEAD"}), ("PATCH", "/stream/1", {"GET"})):
            with self.subTest(f"{method} {target}"):
                answer = connection.ask(method, target)
                self.assert_error(answer, 405, "method_not_allowed")
                self.assertEqual({name.strip() for name in answer.get("Allow").split(",")} - {"HEAD"}, allowed - {"HEAD"})

    def test_absolute_form(self):
        connection = self.connect()
        for target in ("http://demo/mem/x", "HTTP://demo/mem/x?y=1", "http://demo/mem/x?"):
            with self.subTest(target):
                self.assertEqual(connection.ask("GET", target, host="demo").status, 200)
        self.assertEqual(connection.ask("GET", "http://demo:81/healthz", host="demo:81").status, 200)
        self.assertEqual(connection.ask("GET", "http://demo", host="demo").status, 404)

    def test_blank_line_before_a_request(self):
        connection = self.connect()
        self.assertEqual(connection.send(b"\r\n" + request("GET", "/healthz")).read().status, 200)
        self.assertEqual(connection.send(b"\r\n" + request("GET", "/healthz")).read().status, 200)

    def test_http_1_0_closes(self):
        connection = self.connect()
        answer = connection.send(head("GET /mem/x HTTP/1.0", HOST)).read()
        self.assertEqual((answer.status, len(answer.body)), (200, 1024))
        self.assertTrue(answer.closes())
        connection.expect_end()

    def test_http_1_0_keeps_alive_when_asked(self):
        connection = self.connect()
        for _ in range(3):
            answer = connection.send(head("GET /mem/x HTTP/1.0", HOST, "Connection: keep-alive")).read()
            self.assertEqual((answer.status, answer.get("Connection")), (200, "keep-alive"))

    def test_http_1_0_stream_ends_with_the_connection(self):
        connection = self.connect()
        answer = connection.send(head("GET /stream/3 HTTP/1.0", HOST, "Connection: keep-alive")).read()
        self.assertEqual((answer.status, answer.get("Transfer-Encoding"), answer.body), (200, None, b"." * 3072))

    def test_http_2_preface_is_refused(self):
        connection = self.connect()
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(18) + BEHIND)
        answer = connection.read()
        self.assertIn((answer.status, answer.error()["code"]), ((505, "bad_version"), (501, "not_implemented"), (400, "malformed")))
        connection.expect_end()

    def test_limits_themselves_are_allowed(self):
        connection = self.connect()
        self.assertEqual(connection.send(head(GET, HOST, *["A: b"] * 99)).read().status, 200)
        room = 32 * 1024 - len(head(GET, HOST, "A: "))
        self.assertEqual(connection.send(head(GET, HOST, "A: " + "b" * room)).read().status, 200)
        self.assertEqual(connection.ask("GET", "/mem/x?" + "q" * (8192 - len("/mem/x?"))).status, 200)

    def test_escapes_are_decoded_once(self):
        connection = self.connect()
        self.assertEqual(connection.ask("GET", "/%68ealthz").body, b"ok\n")
        self.assertEqual(connection.ask("GET", "/mem/%c3%a9").status, 200)

    def test_truncated_body_is_not_the_servers_fault(self):
        for data in (head(POST, HOST, "Content-Length: 10") + b"abc", head(POST, HOST, CHUNKED) + b"5\r\nab",
                     head(POST, HOST, CHUNKED) + chunked(b"abc")[:-2]):
            with self.subTest(data), self.demo.connect() as connection:
                connection.send(data).finish_sending()
                try:
                    answer = connection.read()
                except wire.NoAnswer:
                    continue
                self.assertLess(answer.status, 500, answer)


if __name__ == "__main__":
    unittest.main()
