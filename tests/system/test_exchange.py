"""Requests and answers as the protocol has them: framing, keep-alive, pipelining, expectations, codings."""

import gzip
import os
import random
import threading
import unittest
import zlib

import wire
from demo import Demo, DemoTest
from wire import chunked, head, request

KILOBYTE = bytes(ord("a") + i % 26 for i in range(1024))
POST = ("POST /echo HTTP/1.1", "Host: demo")
MIB = 1 << 20


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def sent_beside(connection, data):
    """Sends from a thread, so that an echo cannot block both sides."""
    thread = threading.Thread(target=connection.send_as_it_goes, args=([data],))
    thread.start()
    return thread


class Framing(DemoTest):
    def test_keep_alive(self):
        connection = self.connect()
        for _ in range(200):
            answer = connection.ask("GET", "/mem/x")
            self.assertEqual((answer.status, answer.body, answer.get("Connection")), (200, KILOBYTE, None))

    def test_connection_close_is_obeyed(self):
        for value in ("close", "Close", "keep-alive, close", "foo,CLOSE"):
            with self.subTest(value), self.demo.connect() as connection:
                answer = connection.ask("GET", "/mem/x", Connection=value)
                self.assertTrue(answer.closes())
                connection.expect_end()

    def test_hundred_pipelined_requests_in_order(self):
        connection = self.connect()
        ids = [f"pipelined-{i:03}" for i in range(100)]
        targets = ["/mem/x", "/healthz", "/job/1", "/nothing", "/stream/1"]
        data = b"".join(request("GET", targets[i % 5], X_Corr_ID=ids[i]) for i in range(100))
        thread = sent_beside(connection, data)
        statuses = []
        for i in range(100):
            answer = connection.read()
            self.assertEqual(answer.get("X-Corr-ID"), ids[i])
            statuses.append(answer.status)
        thread.join()
        self.assertEqual(statuses, [200, 200, 200, 404, 200] * 20)

    def test_pipelined_bodies_in_order(self):
        bodies = [noise(i * 37 % 5000, i) for i in range(60)]
        data = b""
        for i, body in enumerate(bodies):
            if i % 2:
                data += request("POST", "/echo", body)
            else:
                data += head(*POST, "Transfer-Encoding: chunked") + chunked(*[body[k : k + 700] for k in range(0, len(body), 700)])
        connection = self.connect()
        thread = sent_beside(connection, data)
        for body in bodies:
            answer = connection.read()
            self.assertEqual((answer.status, answer.body), (200, body))
        thread.join()

    def test_body_of_a_route_without_one_is_skipped(self):
        connection = self.connect()
        connection.send(request("GET", "/mem/x", b"GET /nothing HTTP/1.1\r\nHost: demo\r\n\r\n") + request("GET", "/healthz"))
        self.assertEqual(connection.read().body, KILOBYTE)
        try:
            self.assertEqual(connection.read().body, b"ok\n")
        except wire.NoAnswer:
            pass

    def test_unread_chunked_body_is_never_taken_for_a_request(self):
        inner = request("GET", "/healthz")
        connection = self.connect()
        connection.send(head("GET /mem/x HTTP/1.1", "Host: demo", "Transfer-Encoding: chunked") + chunked(inner) + request("GET", "/job/0"))
        self.assertEqual(connection.read().body, KILOBYTE)
        rest = connection.rest() if connection.socket.fileno() >= 0 else b""
        self.assertNotIn(b"ok\n", rest)

    def test_echo_of_a_mebibyte(self):
        body = noise(MIB)
        connection = self.connect()
        for framing in ("fixed", "chunked", "chunked in one", "chunked in bytes"):
            with self.subTest(framing):
                if framing == "fixed":
                    data, expected = request("POST", "/echo", body), body
                elif framing == "chunked":
                    parts = [body[i : i + 10007] for i in range(0, MIB, 10007)]
                    data, expected = head(*POST, "Transfer-Encoding: chunked") + chunked(*parts), body
                elif framing == "chunked in one":
                    data, expected = head(*POST, "Transfer-Encoding: chunked") + chunked(body), body
                else:
                    expected = body[:5000]
                    data = head(*POST, "Transfer-Encoding: chunked") + chunked(*[expected[i : i + 1] for i in range(5000)])
                thread = sent_beside(connection, data)
                answer = connection.read()
                thread.join()
                self.assertEqual((answer.status, answer.body == expected), (200, True))

    def test_chunked_with_extensions_and_trailers(self):
        connection = self.connect()
        head_bytes = head(*POST, "Transfer-Encoding: Chunked", "Trailer: X-Sum")
        connection.send(head_bytes + chunked(b"abc", b"d" * 20, extension=b';name="va lue";x', trailers=b"X-Sum: 1\r\nContent-Length: 7\r\nTransfer-Encoding: gzip\r\n"))
        self.assertEqual(connection.read().body, b"abc" + b"d" * 20)
        connection.send(head_bytes + b"00003\r\nabc\r\n000A\r\n0123456789\r\n000\r\n\r\n")
        self.assertEqual(connection.read().body, b"abc0123456789")
        connection.send(head_bytes + b"0\r\n\r\n")
        self.assertEqual(connection.read().body, b"")
        self.assertEqual(connection.ask("GET", "/healthz").status, 200)

    def test_body_byte_by_byte(self):
        for data in (request("PUT", "/echo", b"hello world"), head(*POST, "Transfer-Encoding: chunked") + chunked(b"hello", b" world", trailers=b"A: b\r\n")):
            connection = self.connect()
            for i in range(len(data)):
                connection.send(data[i : i + 1])
            answer = connection.read()
            self.assertEqual((answer.status, answer.body), (200, b"hello world"))

    def test_empty_bodies(self):
        connection = self.connect()
        self.assertEqual(connection.ask("POST", "/echo", b"").body, b"")
        self.assertEqual(connection.ask("POST", "/echo").body, b"")
        self.assertEqual(connection.ask("POST", "/job/0", b"").status, 200)

    def test_head_is_get_without_a_body(self):
        connection = self.connect()
        for target in ("/mem/x", "/healthz", "/readyz", "/version"):
            with self.subTest(target):
                whole, bare = connection.ask("GET", target), connection.ask("HEAD", target)
                self.assertEqual((bare.status, bare.get("Content-Length"), bare.get("Content-Type")),
                                 (whole.status, str(len(whole.body)), whole.get("Content-Type")))
        self.assertEqual(connection.ask("HEAD", "/metrics").status, 200)
        self.assertEqual(connection.ask("GET", "/healthz").body, b"ok\n")

    def test_stream_is_chunked(self):
        connection = self.connect()
        answer = connection.ask("GET", "/stream/5")
        self.assertEqual((answer.get("Transfer-Encoding"), answer.body), ("chunked", b"." * 5120))
        self.assertEqual(connection.ask("GET", "/stream/0").body, b"")


class Expectations(DemoTest):
    settings = {"limits.max_body_bytes": "64KiB"}

    def test_accepted_body_is_asked_for(self):
        connection = self.connect()
        for framing, body in (("Content-Length: 5", b"hello"), ("Transfer-Encoding: chunked", chunked(b"hello"))):
            connection.send(head(*POST, framing, "Expect: 100-Continue"))
            self.assertEqual(connection._head(), b"HTTP/1.1 100 Continue")
            answer = connection.send(body).read()
            self.assertEqual((answer.status, answer.body, answer.interim), (200, b"hello", []))

    def test_refused_body_is_not_asked_for(self):
        for line, extra, status in ((POST[0], ["Content-Length: 70000"], 413), ("POST /nothing HTTP/1.1", ["Content-Length: 5"], 404),
                                    ("DELETE /echo HTTP/1.1", ["Content-Length: 5"], 405),
                                    (POST[0], ["Content-Length: 5", "Content-Encoding: foo"], 415)):
            with self.subTest(line), self.demo.connect() as connection:
                connection.send(head(line, POST[1], "Expect: 100-continue", *extra))
                answer = connection.read()
                self.assertEqual((answer.status, answer.interim), (status, []))
                # Whether a body follows is unknown now: the connection must end.
                self.assertTrue(answer.closes())
                connection.expect_end()

    def test_route_that_ignores_the_body_never_asks(self):
        connection = self.connect()
        connection.send(head("POST /job/0 HTTP/1.1", "Host: demo", "Expect: 100-continue", "Content-Length: 5"))
        answer = connection.read()
        self.assertEqual((answer.status, answer.interim, answer.closes()), (200, [], True))

    def test_nothing_to_wait_for(self):
        connection = self.connect()
        answer = connection.ask("POST", "/echo", b"", Expect="100-continue")
        self.assertEqual((answer.status, answer.interim), (200, []))

    def test_http_1_0_is_not_asked(self):
        connection = self.connect()
        answer = connection.send(head("POST /echo HTTP/1.0", "Host: demo", "Content-Length: 3", "Expect: 100-continue") + b"abc").read()
        self.assertEqual((answer.status, answer.body, answer.interim), (200, b"abc", []))


class EarlyAnswers(DemoTest):
    """A final answer before the body was read arrives, and not a reset."""

    settings = {"limits.max_body_bytes": "64KiB"}

    def check_arrives(self, demo, start, size, status, code):
        for _ in range(5):
            with demo.connect() as connection:
                # All of the body before the first look at the answer: what a simple client does.
                whole = connection.send_as_it_goes([start, *[b"x" * 65536] * (size // 65536)])
                answer = connection.read()
                self.assertEqual((answer.status, answer.error()["code"], answer.closes()), (status, code, True))
                connection.expect_end()
                if size <= 2 * MIB - 65536:
                    self.assertTrue(whole, "the body was not taken")

    def test_body_over_its_cap(self):
        for size in (128 << 10, MIB, 2 * MIB - 65536):
            with self.subTest(size):
                self.check_arrives(self.demo, head(*POST, f"Content-Length: {size}"), size, 413, "body_cap")

    def test_chunked_body_over_its_cap(self):
        size = MIB
        self.check_arrives(self.demo, head(*POST, "Transfer-Encoding: chunked") + b"%x\r\n" % size, size, 413, "body_cap")

    def test_chunks_over_the_cap_together(self):
        connection = self.connect()
        connection.send_as_it_goes([head(*POST, "Transfer-Encoding: chunked"), chunked(*[b"x" * 4096] * 17)])
        self.assert_error(connection.read(), 413, "body_cap")

    def test_the_cap_itself_is_allowed(self):
        connection = self.connect()
        body = noise(65536)
        self.assertEqual(connection.ask("POST", "/echo", body).body, body)
        connection.send(head(*POST, "Transfer-Encoding: chunked") + chunked(body))
        self.assertEqual(connection.read().body, body)

    def test_huge_body_is_announced(self):
        connection = self.connect()
        connection.send(head(*POST, "Content-Length: 9223372036854775807"))
        self.assert_error(connection.read(), 413, "body_cap")

    def test_body_is_not_swallowed_for_ever(self):
        # Far over what is discarded: sending must fail at some point.
        connection = self.connect()
        self.assertFalse(connection.send_as_it_goes([head(*POST, "Content-Length: 1000000000"), *[b"x" * 65536] * 2000]))

    def test_unknown_path_and_method(self):
        for line, status, code in (("POST /nothing HTTP/1.1", 404, "not_found"), ("DELETE /echo HTTP/1.1", 405, "method_not_allowed")):
            with self.subTest(line):
                self.check_arrives(self.demo, head(line, "Host: demo", f"Content-Length: {MIB}"), MIB, status, code)

    def test_rate(self):
        with Demo({"server.max_rps": 1, "limits.max_body_bytes": "4MiB"}) as demo:
            demo.ask("GET", "/mem/x")
            self.check_arrives(demo, head(*POST, f"Content-Length: {MIB}"), MIB, 429, "quota")

    def test_malformed_chunk_in_a_large_body(self):
        start = head(*POST, "Transfer-Encoding: chunked") + b"zz\r\n"
        self.check_arrives(self.demo, start, MIB, 400, "malformed")

    def test_large_head(self):
        start = b"GET /mem/x HTTP/1.1\r\nHost: demo\r\nA: "
        self.check_arrives(self.demo, start, MIB, 431, "headers_too_large")


class Codings(DemoTest):
    def echo(self, body, coding, **fields):
        return self.demo.ask("POST", "/echo", body, Content_Encoding=coding, **fields)

    def test_compressed_bodies_are_decoded(self):
        text = noise(3000) * 3
        raw = zlib.compressobj(9, zlib.DEFLATED, -15)
        for name, coding, body in (("gzip", "gzip", gzip.compress(text)), ("x-gzip", "x-gzip", gzip.compress(text)), ("GZIP", "GZIP", gzip.compress(text)),
                                   ("deflate", "deflate", zlib.compress(text)), ("raw deflate", "deflate", raw.compress(text) + raw.flush()),
                                   ("identity", "identity", text), ("empty", "gzip", gzip.compress(b""))):
            with self.subTest(name):
                answer = self.echo(body, coding)
                self.assertEqual((answer.status, answer.body), (200, b"" if name == "empty" else text))

    def test_compressed_and_chunked(self):
        body = gzip.compress(KILOBYTE * 3 + noise(2000))
        connection = self.connect()
        connection.send(head(*POST, "Transfer-Encoding: chunked", "Content-Encoding: gzip") + chunked(*[body[i : i + 7] for i in range(0, len(body), 7)]))
        self.assertEqual(connection.read().body, KILOBYTE * 3 + noise(2000))

    def test_bomb_by_ratio(self):
        for name, coding, pack in (("gzip", "gzip", gzip.compress), ("deflate", "deflate", zlib.compress)):
            with self.subTest(name):
                self.assert_error(self.echo(pack(bytes(4 * MIB)), coding), 413, "decoded_ratio")

    def test_bomb_by_size(self):
        # Every random kilobyte ten times: about 9:1, below the ratio, above 8 MiB.
        body = gzip.compress(b"".join(noise(1024, i) * 10 for i in range(880)), 6)
        self.assertLess(len(body), MIB)
        self.assert_error(self.echo(body, "gzip"), 413, "decoded_cap")

    def test_connection_lives_after_a_decoded_body(self):
        connection = self.connect()
        for _ in range(3):
            self.assertEqual(connection.ask("POST", "/echo", gzip.compress(b"abc"), Content_Encoding="gzip").body, b"abc")

    def test_unknown_coding(self):
        for coding in ("foo", "compress", "", "gzip;q=1"):
            with self.subTest(coding):
                self.assert_error(self.echo(b"abc", coding), 415, "unsupported_type")

    def test_two_codings(self):
        twice = gzip.compress(gzip.compress(b"abc"))
        self.assert_error(self.echo(twice, "gzip, gzip"), 415, "unsupported_type")
        connection = self.connect()
        connection.send(head(*POST, "Content-Encoding: gzip", "Content-Encoding: gzip", f"Content-Length: {len(twice)}") + twice)
        self.assert_error(connection.read(), 415, "unsupported_type")

    def test_damaged_streams(self):
        good = gzip.compress(noise(3000))
        for name, body in (("cut", good[:-20]), ("wrong sum", good[:-8] + bytes(8)), ("bytes behind", good + b"x"), ("no stream", b"hello"), ("nothing", b"")):
            with self.subTest(name):
                self.assert_error(self.echo(body, "gzip"), 400, "malformed")

    def test_configured_guard_is_used(self):
        with Demo({"limits.decoded_ratio": 2, "limits.decoded_bytes": "200KiB"}) as demo:
            answer = demo.ask("POST", "/echo", gzip.compress(noise(30000) * 5), Content_Encoding="gzip")
            self.assertIn((answer.status, answer.error()["code"]) if answer.status != 200 else 200, [(413, "decoded_ratio")])
            answer = demo.ask("POST", "/echo", gzip.compress(noise(300 << 10)), Content_Encoding="gzip")
            self.assertIn((answer.status, answer.error()["code"]) if answer.status != 200 else 200, [(413, "decoded_cap")])


class Files(DemoTest):
    @classmethod
    def fill(cls, directory):
        cls.content = noise(200_000)
        for name, content in (("big", cls.content), ("empty", b"")):
            with open(os.path.join(directory, name), "wb") as file:
                file.write(content)

    def get(self, connection, name="big", method="GET", **fields):
        return connection.ask(method, f"/file/{name}", **fields)

    def test_whole_file(self):
        connection = self.connect()
        for _ in range(3):
            answer = self.get(connection)
            self.assertEqual((answer.status, answer.body, answer.get("Accept-Ranges")), (200, self.content, "bytes"))
        self.assertEqual(self.get(connection, "empty").body, b"")
        self.assert_error(self.get(connection, "missing"), 404, "not_found")
        bare = self.get(connection, method="HEAD")
        self.assertEqual((bare.status, bare.get("Content-Length")), (200, "200000"))
        self.assertEqual(self.get(connection).status, 200)

    def test_single_ranges(self):
        connection = self.connect()
        for value, first, last in (("bytes=0-0", 0, 0), ("bytes=0-99", 0, 99), ("bytes=100-", 100, 199999), ("bytes=199999-", 199999, 199999),
                                   ("bytes=-5", 199995, 199999), ("bytes=-999999", 0, 199999), ("bytes=10-999999999999999999999", 10, 199999),
                                   ("BYTES=5-6", 5, 6), ("bytes= 5-6", 5, 6), ("bytes=,5-6,", 5, 6)):
            with self.subTest(value):
                answer = self.get(connection, Range=value)
                self.assertEqual((answer.status, answer.get("Content-Range")), (206, f"bytes {first}-{last}/200000"))
                self.assertEqual(answer.body, self.content[first : last + 1])

    def test_unsatisfiable_ranges(self):
        connection = self.connect()
        for value in ("bytes=200000-", "bytes=999999-9999999", "bytes=-0", "bytes=99999999999999999999999-"):
            with self.subTest(value):
                answer = self.get(connection, Range=value)
                self.assertEqual((answer.status, answer.get("Content-Range")), (416, "bytes */200000"))
        self.assertEqual(self.get(connection).status, 200)

    def test_unsatisfiable_range_has_the_error_body(self):
        self.assert_error(self.get(self.connect(), Range="bytes=200000-"), 416, "range_not_satisfiable")

    def test_ranges_that_do_not_count(self):
        connection = self.connect()
        nine = ",".join(f"{i * 10}-{i * 10 + 1}" for i in range(9))
        for value in (f"bytes={nine}", "bytes=0-100,50-150,90-200,95-300", "bytes=5-4", "bytes=a-b", "bytes=", "bytes=-", "bytes", "items=0-5",
                      "bytes=0-5,x", "bytes=--5", "bytes=0x0-0x5", "bytes=1-2-3", "bytes =0-5"):
            with self.subTest(value):
                answer = self.get(connection, Range=value)
                self.assertEqual((answer.status, len(answer.body), answer.get("Content-Range")), (200, 200000, None))

    def test_few_ranges_are_parts_or_the_whole(self):
        answer = self.get(self.connect(), Range="bytes=0-9,100-109")
        if answer.status == 206:
            self.assertTrue(answer.get("Content-Type").startswith("multipart/byteranges"))
        else:
            self.assertEqual((answer.status, answer.body), (200, self.content))

    def test_head_ignores_ranges(self):
        self.assertEqual(self.get(self.connect(), method="HEAD", Range="bytes=0-5").status, 200)

    def test_if_none_match(self):
        connection = self.connect()
        etag = self.get(connection).get("ETag")
        self.assertRegex(etag, r'"[!#-~]+"')
        for value in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            with self.subTest(value):
                for method in ("GET", "HEAD"):
                    answer = self.get(connection, method=method, If_None_Match=value)
                    self.assertEqual((answer.status, answer.get("ETag"), answer.get("Content-Length")), (304, etag, None))
        for value in ('"other"', etag.strip('"'), f"{etag}x"):
            with self.subTest(value):
                self.assertEqual(self.get(connection, If_None_Match=value).status, 200)

    def test_if_match(self):
        connection = self.connect()
        etag = self.get(connection).get("ETag")
        for value in (etag, "*", f'"other", {etag}'):
            with self.subTest(value):
                self.assertEqual(self.get(connection, If_Match=value).status, 200)
        for value in ('"other"', f"W/{etag}"):
            with self.subTest(value):
                self.assert_error(self.get(connection, If_Match=value), 412, "precondition_failed")

    def test_if_range(self):
        connection = self.connect()
        etag = self.get(connection).get("ETag")
        self.assertEqual(self.get(connection, Range="bytes=0-9", If_Range=etag).status, 206)
        for value in ('"other"', f"W/{etag}", "Sun, 06 Nov 1994 08:49:37 GMT", "nonsense"):
            with self.subTest(value):
                self.assertEqual(self.get(connection, Range="bytes=0-9", If_Range=value).status, 200)


if __name__ == "__main__":
    unittest.main()
