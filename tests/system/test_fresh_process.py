"""Malformed input as the first thing that a process ever sees: no buffer is warm, no table is filled."""

import unittest

import storage_bad_bodies
import test_malformed
from demo import Demo
from storage_server import Storage
from wire import head

EMPTY = "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"  # of no bytes
HOST, CHUNKED = "Host: localhost", "Transfer-Encoding: chunked"

# name, head lines, body, status, code. The token is added.
FIRST = [
    ("a backslash", ["GET /\\ HTTP/1.1"], b"", 400, "malformed"),
    ("a backslash in a path", ["GET /o\\x HTTP/1.1"], b"", 400, "malformed"),
    ("a cut escape", ["GET /% HTTP/1.1"], b"", 400, "malformed"),
    ("a query that is none", ["GET /o?x HTTP/1.1"], b"", 400, "malformed"),
    ("a query of 8 KiB", [f"GET /o?prefix={'a' * 8000} HTTP/1.1"], b"", 400, "malformed"),
    ("a proof of what is not there", [f"GET /o/{EMPTY}/proof?range=b-a HTTP/1.1"], b"", 404, "not_found"),
    ("an address that is none", ["GET /o/b3:00 HTTP/1.1"], b"", 400, "malformed"),
    ("another address", [f"PUT /o/{EMPTY} HTTP/1.1", "Content-Length: 1"], b"x", 409, "conflict"),
    ("a coding that is none", ["POST /o HTTP/1.1", "Content-Encoding: x", "Content-Length: 1"], b"x", 415, "unsupported_type"),
    ("a body that is no gzip", ["POST /o HTTP/1.1", "Content-Encoding: gzip", "Content-Length: 4"], b"abcd", 400, "malformed"),
    ("a length over the cap", ["POST /o HTTP/1.1", "Content-Length: 9223372036854775807"], b"", 413, "body_cap"),
    ("a chunk of all ones", ["POST /o HTTP/1.1", CHUNKED], b"ffffffffffffffff\r\n", 400, "malformed"),
    ("a document that is none", ["POST /uploads HTTP/1.1", "Content-Length: 1"], b"{", 400, "malformed"),
    ("a document of brackets", ["POST /uploads HTTP/1.1", "Content-Length: 4000"], b"[" * 4000, 400, "malformed"),
    ("a document over its cap", ["POST /uploads HTTP/1.1", "Content-Length: 5000"], b" " * 5000, 413, "body_cap"),
    ("an unknown field", ["POST /uploads HTTP/1.1", "Content-Length: 7"], b'{"x":1}', 400, "malformed"),
    ("an offset that is none", ["PATCH /uploads/01ARZ3NDEKTSV4RRFFQ69G5FAV HTTP/1.1", "Upload-Offset: -1", "Content-Length: 1"], b"x", 400, "malformed"),
    ("an upload that is none", ["POST /uploads/x/commit HTTP/1.1", "Content-Length: 0"], b"", 404, "not_found"),
    ("a key id that is none", ["POST /admin/keys/%20/revoke HTTP/1.1", "Content-Length: 0"], b"", 400, "malformed"),
]


class OfTheDemo(unittest.TestCase):
    def test_every_malformed_head_and_body(self):
        tables = (test_malformed.FRAMING, test_malformed.LINES, test_malformed.CHUNKS, test_malformed.HEADS)
        for name, data, status in (case for table in tables for case in table):
            with self.subTest(name), Demo() as demo:
                with demo.connect() as connection:
                    connection.send_as_it_goes([data + test_malformed.BEHIND])
                    answer = connection.read()
                    self.assertEqual((answer.status, answer.error()["code"]), (status, test_malformed.CODES[status]), answer)
                    self.assertTrue(answer.closes(), answer)
                self.assertEqual(demo.ask("GET", "/healthz").status, 200)

    def test_every_malformed_path(self):
        for name, path, status in test_malformed.PATHS:
            with self.subTest(name), Demo() as demo:
                answer = demo.ask("GET", path)
                self.assertEqual((answer.status, answer.error()["code"]), (status, test_malformed.CODES[status]), answer)
                self.assertEqual(demo.ask("GET", "/healthz").status, 200)


class OfStorage(unittest.TestCase):
    def test_every_malformed_request(self):
        for name, lines, body, status, code in FIRST:
            with self.subTest(name), Storage() as storage:
                with storage.connect() as connection:
                    connection.send(head(lines[0], HOST, f"Authorization: Bearer {storage.token}", *lines[1:]) + body)
                    answer = connection.read()
                    self.assertEqual((answer.status, answer.error()["code"]), (status, code), answer)
                self.assertEqual(storage.post(b"it lives"), "b3:" + storage_bad_bodies.b3sum(b"it lives")[0][3:])


class OfBadBodies(storage_bad_bodies.BadBodies):
    """The same promises, each kept by a process that has done nothing before."""

    def setUp(self):
        self.storage = self.enterContext(Storage(self.settings))
        super().setUp()


if __name__ == "__main__":
    unittest.main()
