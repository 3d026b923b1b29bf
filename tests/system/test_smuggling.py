"""Requests that two servers may read differently, each by its name, on their way to a real storage: straight to the gateway, with
nginx before it, and over HTTP/2. Each is refused, or carried unchanged; none ever becomes two."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import h2.config
import h2.connection
import h2.events

import test_malformed as malformed
import wire
from gateway_server import TRUSTING, Gateway
from storage_server import Storage, b3sum
from test_h2 import END_STREAM, DATA, H2Case, HEADERS, asking, fields, frame, literal
from wire import chunked, head

POST, HOST, CHUNKED = "POST /o HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked"
NONE, HEAD_ONLY = "nothing", "its head"  # what a storage may see of a request that is refused


class Victim:
    """An object that every hidden request deletes, by the storage's own token. While it is there, none was believed. The storage has
    one shard, so that it has counted what it answered before."""

    def __init__(self, storage):
        self.storage = storage
        self.looks = 0
        self.body = os.urandom(5000)
        self.address = storage.post(self.body)
        self.hidden = head(f"DELETE /o/{self.address} HTTP/1.1", HOST, f"Authorization: Bearer {storage.token}")

    def seen(self):
        """How many requests the storage has had: all, and those that delete. Its metrics and health do not count."""
        self.storage.ask_openly("GET", "/healthz")

        def fresh():
            counts = {}
            for name, value in self.storage.metrics().items():
                if match := re.match(r'http_requests_total\{route="([^"]*)",method="([^"]*)"', name):
                    counts[match.groups()] = counts.get(match.groups(), 0) + int(value)
            # Who asks for metrics very often gets older ones.
            return counts if counts.get(("/healthz", "GET"), 0) > self.looks else None

        counts = wire.poll(fresh, "the metrics are of now")
        self.looks = counts["/healthz", "GET"]
        of_others = {(route, method): count for (route, method), count in counts.items() if route not in ("/metrics", "/healthz")}
        return sum(of_others.values()), sum(count for (_, method), count in of_others.items() if method == "DELETE")


def forms(token, hidden):
    """name, bytes, and what is right: NONE or HEAD_ONLY of a request that is refused, or the body of one that is carried."""
    auth = f"Authorization: Bearer {token}"
    size = f"Content-Length: {len(hidden)}"
    ended = b"0\r\n\r\n" + hidden
    both = f"Content-Length: {len(ended)}"
    inner = b"%x\r\n%s\r\n0\r\n\r\n" % (len(hidden), hidden)

    def post(*lines, behind=b"", line=POST):
        return head(line, HOST, auth, *lines) + behind

    yield "CL.TE", post(both, CHUNKED, behind=ended), NONE
    yield "CL.TE, the length of a part", post("Content-Length: 5", CHUNKED, behind=ended), NONE
    yield "TE.CL", post(CHUNKED, "Content-Length: 4", behind=inner), NONE
    yield "TE.CL, a length of nothing", post(CHUNKED, "Content-Length: 0", behind=inner), NONE
    for name, lines in {
            "another coding": ["Transfer-Encoding: xchunked"], "a blank before the colon": ["Transfer-Encoding : chunked"],
            "two of them": [CHUNKED, "Transfer-Encoding: x"], "two of them, the other way": ["Transfer-Encoding: x", CHUNKED],
            "a list": ["Transfer-Encoding: chunked, identity"], "identity first": ["Transfer-Encoding: identity, chunked"],
            "quoted": ['Transfer-Encoding: "chunked"'], "a vertical tab": ["Transfer-Encoding: \x0bchunked"],
            "a NUL": ["Transfer-Encoding: chunked\0"], "a byte above 0x7f": [b"Transfer-Encoding: \xa0chunked"],
            "a blank first": [" Transfer-Encoding: chunked"], "behind a bare LF": ["X: y\nTransfer-Encoding: chunked"],
            "behind a bare CR": ["X: y\rTransfer-Encoding: chunked"], "twice": [CHUNKED, CHUNKED]}.items():
        yield f"TE.TE: {name}", post(both, *lines, behind=ended), NONE
    yield "obs-fold: a coding", post(both, "Transfer-Encoding:\r\n chunked", behind=ended), NONE
    yield "obs-fold: a length", post("Content-Length:\r\n " + str(len(hidden)), behind=hidden), NONE
    yield "obs-fold: a field", post("X: y\r\n Transfer-Encoding: chunked", both, behind=ended), NONE
    yield "bare LF: behind the line", (f"{POST}\n{HOST}\r\n{auth}\r\n{both}\r\n{CHUNKED}\r\n\r\n").encode() + ended, NONE
    yield "bare LF: as the end of the head", (f"{POST}\r\n{HOST}\r\n{auth}\r\nContent-Length: 0\r\n\n").encode() + hidden, NONE
    yield "bare LF: a length behind it", post(f"X: y\n{size}", behind=hidden), NONE
    yield "absolute form of another host", post("Content-Length: 0", line="POST http://other/o HTTP/1.1", behind=hidden), NONE
    yield "two hosts", post("Host: other", "Content-Length: 0", behind=hidden), NONE
    yield "two equal lengths", post(size, size, behind=hidden), NONE
    yield "two lengths", post("Content-Length: 0", size, behind=hidden), NONE
    yield "a list of lengths", post(f"Content-Length: 0, {len(hidden)}", behind=hidden), NONE
    yield "a length with a plus", post(f"Content-Length: +{len(hidden)}", behind=hidden), NONE
    yield "a length with a blank before its colon", post(f"Content-Length : {len(hidden)}", behind=hidden), NONE
    yield "HTTP/1.0 with a coding", post(both, CHUNKED, line="POST /o HTTP/1.0", behind=ended), NONE
    yield "chunk extension: a bare LF ends it", post(CHUNKED, behind=b"2;\nxx\r\n" + ended), HEAD_ONLY
    yield "chunk extension: a bare CR ends it", post(CHUNKED, behind=b"2;a\rxx\r\n" + ended), HEAD_ONLY
    yield "chunk extension: a line in quotes", post(CHUNKED, behind=b'2;a="\r\nxx\r\n"\r\n' + ended), HEAD_ONLY
    yield "chunk extension: a NUL", post(CHUNKED, behind=b"2;a\0\r\nxx\r\n" + ended), HEAD_ONLY
    yield "chunk extension: too long", post(CHUNKED, behind=b"2;" + b"a" * 300 + b"\r\nxx\r\n" + ended), HEAD_ONLY
    yield "chunk: its size ends in LF", post(CHUNKED, behind=b"2\nxx\r\n" + ended), HEAD_ONLY
    yield "chunk: its size overflows", post(CHUNKED, behind=b"10000000000000002\r\nxx\r\n" + ended), HEAD_ONLY
    yield "chunk: its size in 0x", post(CHUNKED, behind=b"0x2\r\nxx\r\n" + ended), HEAD_ONLY
    yield "chunk: its data is not ended", post(CHUNKED, behind=b"2\r\nxx" + ended), HEAD_ONLY
    yield "chunk: its data ends in two other bytes", post(CHUNKED, behind=b"2\r\nxxyy" + ended), HEAD_ONLY
    yield "chunk: the last one ends in LF", post(CHUNKED, behind=b"2\r\nxx\r\n0\n\n" + hidden), HEAD_ONLY
    yield "carried: a request as a body", post(size, behind=hidden), hidden
    yield "carried: chunks within a body of a length", post(both, behind=ended), ended
    yield "carried: a request in chunks", post(CHUNKED, behind=chunked(hidden[:20], hidden[20:])), hidden
    yield "carried: extensions", post(CHUNKED, behind=chunked(hidden, extension=b';a="b;c";d')), hidden
    yield "carried: trailers that name a length", post(CHUNKED, behind=chunked(b"xx", trailers=b"Content-Length: 7\r\nX: y\r\n")), b"xx"
    yield "carried: a connection that names its length", post(size, "Connection: Content-Length", behind=hidden), hidden
    yield "carried: a connection that names its coding", post(CHUNKED, "Connection: Transfer-Encoding", behind=chunked(hidden)), hidden


def strictest_first(each):
    """The storage may count a request late whose body has ended too early: those come last."""
    return sorted(each, key=lambda form: form[2] == HEAD_ONLY)


class Door(unittest.TestCase):
    PROBES = 3

    def setUp(self):
        self.storage = self.enterContext(Storage({**TRUSTING, "server.shards": 1}))
        self.gateway = self.enterContext(Gateway(storage="%s:%d" % self.storage.address))
        self.victim = Victim(self.storage)
        self.probes = 0

    def probe(self, address):
        """Were a connection between the servers out of step, one of these would get another's answer."""
        for _ in range(self.PROBES):
            self.probes += 1
            with wire.Connection(address) as connection:
                answer = connection.ask("GET", f"/o/{self.victim.address}", Connection="close")
                self.assertEqual((answer.status, answer.body), (200, self.victim.body))

    def run_form(self, address, data):
        """The statuses of all answers, the first one's body, and how much the storage has seen of it."""
        before = self.victim.seen()
        self.probes = 0
        with wire.Connection(address) as connection:
            connection.send_as_it_goes([data])
            got = self.rest(connection)
        self.probe(address)
        after = self.victim.seen()
        self.assertEqual(after[1], before[1], "a hidden request was believed")
        return got, after[0] - before[0] - self.probes

    @staticmethod
    def rest(connection):
        try:
            return connection.rest()
        except ConnectionResetError:
            return connection.buffer

    def check(self, got, seen, right):
        statuses = [int(status) for status in re.findall(rb"(?:^|(?<=\n))HTTP/1\.[01] ([2-5]\d\d)", got)]
        self.assertEqual(len(statuses), 1, got)
        if isinstance(right, bytes):
            self.assertIn(statuses[0], (200, 201), got)  # 200: an earlier one has stored the same
            self.assertEqual(seen, 1)
            self.assertIn(b3sum(right)[0].encode(), got)
        else:
            self.assertGreaterEqual(statuses[0], 400, got)
            if right == NONE:
                self.assertEqual(seen, 0)


class Straight(Door):
    def test_straight_to_the_gateway_each_is_refused_or_carried_unchanged(self):
        all_of_it = list(strictest_first(forms(self.storage.token, self.victim.hidden)))
        start = self.victim.seen()[0]
        allowed = 0
        for name, data, right in all_of_it:
            with self.subTest(name):
                if isinstance(right, bytes):
                    data = data.replace(HOST.encode(), HOST.encode() + b"\r\nConnection: close", 1)
                got, seen = self.run_form(self.gateway.address, data)
                self.check(got, seen, right)
                if not isinstance(right, bytes):
                    self.assertRegex(got, rb"^HTTP/1\.1 400 ")
            allowed += self.PROBES + (right != NONE)
        self.assertLessEqual(self.victim.seen()[0] - start, allowed)

    def test_what_is_malformed_never_reaches_the_storage(self):
        before = self.victim.seen()
        for name, data, status in malformed.FRAMING + malformed.LINES + malformed.HEADS:
            data = data.replace(b"/echo", b"/o").replace(b"/mem/", b"/o/").replace(b"Host: demo", HOST.encode())
            with self.subTest(name), wire.Connection(self.gateway.address) as connection:
                connection.send_as_it_goes([data + self.victim.hidden])
                self.assertEqual(connection.read().status, status)
                connection.expect_end()
        self.assertEqual(self.victim.seen(), before)
        self.probe(self.gateway.address)


class Nginx:
    """One that passes on as much as it can: unbuffered, odd fields too, over kept connections to the gateway. A client's connection
    has one request: what is behind it is not for nginx."""

    CONFIG = """
        daemon off; worker_processes 1; pid {home}/pid; error_log {home}/error.log;
        events {{ worker_connections 256; }}
        http {{
            access_log off;
            client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
            uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
            upstream gateway {{ server 127.0.0.1:{gateway}; keepalive 4; }}
            server {{
                listen 127.0.0.1:{port};
                keepalive_timeout 0; client_header_timeout 1s; client_body_timeout 1s;
                ignore_invalid_headers off; underscores_in_headers on; merge_slashes off; client_max_body_size 0;
                location / {{
                    proxy_pass http://gateway; proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off;
                    proxy_set_header Host $http_host; proxy_set_header Connection "";
                    proxy_next_upstream off;
                }}
            }}
        }}"""

    def __init__(self, gateway):
        self.home = tempfile.mkdtemp(prefix="cairn-nginx-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = probe.getsockname()
        path = os.path.join(self.home, "conf")
        with open(path, "w") as file:
            file.write(self.CONFIG.format(home=self.home, gateway=gateway.address[1], port=self.address[1]))
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self.process = subprocess.Popen([program, "-p", self.home, "-c", path, "-e", os.path.join(self.home, "error.log")],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def serves(self):
        if self.process.poll() is not None:
            with open(os.path.join(self.home, "error.log")) as file:
                raise AssertionError(file.read()[-2000:])
        try:
            socket.create_connection(self.address, wire.PATIENCE).close()
        except ConnectionRefusedError:
            return False
        return True

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(wire.PATIENCE)
        shutil.rmtree(self.home, ignore_errors=True)


class BehindNginx(Door):
    def setUp(self):
        super().setUp()
        self.nginx = Nginx(self.gateway)
        self.addCleanup(self.nginx.end)
        wire.poll(self.nginx.serves, "nginx serves")

    def probe(self, address):
        for _ in range(self.PROBES):
            self.probes += 1
            with wire.Connection(address) as connection:
                raw = self.rest(connection.send(wire.request("GET", f"/o/{self.victim.address}")))
                top, body = raw.split(b"\r\n\r\n", 1)
                self.assertEqual((top[:12], body), (b"HTTP/1.1 200", self.victim.body))

    def test_nginx_and_the_gateway_never_make_two_requests_of_one(self):
        all_of_it = sorted(forms(self.storage.token, self.victim.hidden), key=lambda form: not isinstance(form[2], bytes))
        start = self.victim.seen()[0]
        for name, data, right in all_of_it:
            with self.subTest(name):
                got, seen = self.run_form(self.nginx.address, data)
                statuses = re.findall(rb"(?:^|(?<=\n))HTTP/1\.[01] ([2-5]\d\d)", got)
                self.assertLessEqual(len(statuses), 1, got)
                if isinstance(right, bytes):
                    self.check(got, seen, right)
        # Of what nginx takes for a whole request, the gateway may refuse a part.
        self.assertLessEqual(self.victim.seen()[0] - start, len(all_of_it) * (1 + self.PROBES))


class H2Forms(H2Case):
    """What an HTTP/2 client may put into a field or a body, seen by the storage behind as HTTP/1.1."""

    STORAGE = {"server.shards": 1}

    def setUp(self):
        self.victim = Victim(self.storage)
        self.token = (b"authorization", f"Bearer {self.storage.token}".encode())

    def probe(self):
        for _ in range(3):
            with self.line() as line:
                self.assertEqual(line.send(asking(1, f"/o/{self.victim.address}".encode())).answer(1), 200)
                self.assertEqual(line.body[1], self.victim.body)

    def run_frames(self, data):
        before = self.victim.seen()
        with self.line() as line:
            line.send(data)
            line.until(lambda: 1 in line.ended or 1 in line.resets or line.goaway is not None or line.closed)
            status, body = line.status.get(1), line.body.get(1, b"")
        self.probe()
        after = self.victim.seen()
        self.assertEqual(after[1], before[1], "a hidden request was believed")
        return status, body, after[0] - before[0] - 3

    def post(self, more=(), body=b"", path=b"/o", **named):
        return asking(1, path, b"POST", [self.token, *more], end=False, **named) + frame(DATA, END_STREAM, 1, body)


class OverHttp2(H2Forms):
    def test_what_would_be_another_request_in_http_1_1_is_refused(self):
        hidden = self.victim.hidden
        ended = b"0\r\n\r\n" + hidden
        split = b"\r\n\r\n" + hidden
        cases = {
            "H2.TE": self.post([(b"transfer-encoding", b"chunked")], ended),
            "H2.TE in upper case": self.post([(b"Transfer-Encoding", b"chunked")], ended),
            "H2.TE behind a blank": self.post([(b"transfer-encoding ", b"chunked")], ended),
            "H2.TE in a value": self.post([(b"x", b"y\r\ntransfer-encoding: chunked")], ended),
            "H2.TE in a value, bare LF": self.post([(b"x", b"y\ntransfer-encoding: chunked")], ended),
            "H2.TE in a value, folded": self.post([(b"x", b"y\r\n transfer-encoding: chunked")], ended),
            "H2.TE in a name": self.post([(b"x: y\r\ntransfer-encoding", b"chunked")], ended),
            "H2.TE in a name without its end": self.post([(b"transfer-encoding:chunked", b"")], ended),
            "H2.TE in a trailer of the head": self.post([(b"te", b"chunked")], ended),
            "two lengths": self.post([(b"content-length", b"0"), (b"content-length", b"%d" % len(hidden))], hidden),
            "a list of lengths": self.post([(b"content-length", b"0, %d" % len(hidden))], hidden),
            "a length in a value": self.post([(b"x", b"y\r\ncontent-length: 0")], hidden),
            "connection": self.post([(b"connection", b"content-length"), (b"content-length", b"%d" % len(hidden))], hidden),
            "upgrade": self.post([(b"upgrade", b"h2c")], hidden),
            "a request in a value": self.post([(b"x", b"y" + split)]),
            "a request in a cookie": self.post([(b"cookie", b"a=b" + split)]),
            "a request in the path": self.post(path=b"/o HTTP/1.1\r\nHost: localhost" + split),
            "a request in the path, bare LF": self.post(path=b"/o HTTP/1.1\nHost: localhost\n\n" + hidden),
            "a request in the authority": self.post(authority=b"localhost" + split),
            "a request in the scheme": self.post(scheme=b"https" + split),
            "a request in the method": asking(1, b"/o", b"GET /o HTTP/1.1\r\nHost: localhost" + split, [self.token]),
            "absolute form": self.post(path=b"http://other/o"),
            "another host": self.post([(b"host", b"other")]),
            "two hosts": self.post([(b"host", b"localhost"), (b"host", b"other")]),
            "two authorities": frame(HEADERS, 5, 1, literal(b":authority", b"other") + fields(b"/o", b"POST", [self.token])),
            "two paths": frame(HEADERS, 5, 1, literal(b":path", b"/uploads") + fields(b"/o", b"POST", [self.token])),
        }
        for name, data in cases.items():
            with self.subTest(name):
                status, _, seen = self.run_frames(data)
                self.assertIn(status, (400, None))
                self.assertEqual(seen, 0)

    def test_what_only_looks_like_a_request_is_carried_unchanged(self):
        hidden = self.victim.hidden
        ended = b"0\r\n\r\n" + hidden
        trailers = frame(HEADERS, 5, 1, literal(b"x", b"y"))
        begun = asking(1, b"/o", b"POST", [self.token], end=False)
        cases = {
            "a request as a body": (self.post([(b"content-length", b"%d" % len(hidden))], hidden), hidden),
            "a request as a body without a length": (self.post(body=hidden), hidden),
            "chunks as a body": (self.post(body=ended), ended),
            "chunks as a body of a length": (self.post([(b"content-length", b"%d" % len(ended))], ended), ended),
            "a body in frames that end within its lines": (begun + b"".join(
                frame(DATA, 0, 1, ended[i:i + 3]) for i in range(0, len(ended), 3)) + frame(DATA, END_STREAM, 1), ended),
            "trailers": (begun + frame(DATA, 0, 1, hidden) + trailers, hidden),
        }
        for name, (data, body) in cases.items():
            with self.subTest(name):
                status, said, seen = self.run_frames(data)
                self.assertIn(status, (200, 201), said)
                self.assertEqual(seen, 1)
                self.assertIn(b3sum(body)[0].encode(), said)

    def test_another_implementation_that_checks_nothing_gets_the_same(self):
        """python3-h2, told to send whatever it is given."""
        def ask(*more):
            loose = h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False)
            connection = h2.connection.H2Connection(loose)
            with self.line(greet=False) as line:
                connection.initiate_connection()
                connection.send_headers(1, [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/o"),
                                            ("authorization", f"Bearer {self.storage.token}"), *more])
                connection.send_data(1, b"0\r\n\r\n" + self.victim.hidden, end_stream=True)
                line.socket.sendall(connection.data_to_send())
                end = time.monotonic() + wire.PATIENCE
                while time.monotonic() < end:
                    for event in connection.receive_data(line.socket.recv(65536)):
                        if isinstance(event, h2.events.ResponseReceived):
                            return dict(event.headers)[":status"]
                        if isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                            return "reset"
            raise AssertionError("no answer")
        before = self.victim.seen()
        for more in ([("transfer-encoding", "chunked")], [("connection", "close")], [("x", "y\r\ntransfer-encoding: chunked")], [("host", "other")]):
            with self.subTest(more):
                self.assertIn(ask(*more), ("400", "reset"))
        self.assertEqual(self.victim.seen(), before)
        self.assertIn(ask(), ("200", "201"))
        self.probe()


class BodiesOverHttp2(H2Forms):
    def test_a_body_that_does_not_fit_its_length_ends_its_request_and_no_other(self):
        hidden = self.victim.hidden
        cases = {"H2.CL, a length of nothing": [(b"content-length", b"0")], "H2.CL, too short": [(b"content-length", b"5")],
                 "H2.CL, too long": [(b"content-length", b"%d" % (len(hidden) + 100))]}
        frames = {name: self.post(more, hidden) for name, more in cases.items()}
        frames["a trailer that names a length"] = (asking(1, b"/o", b"POST", [self.token], end=False) + frame(DATA, 0, 1, hidden) +
                                                   frame(HEADERS, 5, 1, literal(b"content-length", b"7")))
        start = self.victim.seen()[0]
        for name, data in frames.items():
            with self.subTest(name):
                self.assertIn(self.run_frames(data)[0], (400, None))
        self.assertLessEqual(self.victim.seen()[0] - start, len(frames) * 4)  # each may be seen, and three that ask for the victim


if __name__ == "__main__":
    unittest.main()
