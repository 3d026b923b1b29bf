"""HTTP/2 as strangers speak it to a gateway behind TLS: curl, nghttp, h2load and python3-h2; and what attackers of the
protocol do, each by its name, with frames made by hand."""

import contextlib
import os
import re
import resource
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import h2.config
import h2.connection
import h2.events
import hpack

import wire
from gateway_server import TRUSTING, Gateway
from storage_server import MIB, Storage
from test_tls import Authority

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, CALM = 0, 1, 3, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
READ_TIME = 1.0  # timeouts.read of these gateways


class TlsGateway(Gateway):
    def await_ready(self):
        line = self.line()
        match = re.fullmatch(r"gateway +https://([0-9.]+):([0-9]+)\n", line)
        if not match:
            self.process.kill()
            raise AssertionError(f"did not start ({self.process.wait()}): {line!r} {self.log()[-2000:]}")
        self.address, self.token = (match[1], int(match[2])), self.given_token
        return self

    def memory(self):
        with open(f"/proc/{self.pid}/status") as file:
            return int(re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M)[1]) * 1024


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A field without indexing and without any check."""
    def text(data):
        size = len(data)
        if size < 127:
            return bytes([size]) + data
        head, size = b"\x7f", size - 127
        while size >= 128:
            head, size = head + bytes([size % 128 + 128]), size >> 7
        return head + bytes([size]) + data
    return b"\0" + text(name) + text(value)


def fields(path=b"/healthz", method=b"GET", more=(), authority=b"localhost", scheme=b"https"):
    pseudo = ((b":method", method), (b":scheme", scheme), (b":authority", authority), (b":path", path))
    return b"".join(literal(*each) for each in (*pseudo, *more))


def asking(stream, *arguments, end=True, **named):
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, fields(*arguments, **named))


class Line:
    """A connection on which only what a test says is sent. What the server says is kept by stream."""

    def __init__(self, context, address, settings=b"", greet=True, receive=None):
        raw = socket.socket()
        raw.settimeout(wire.PATIENCE)
        if receive:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        raw.connect(address)
        self.socket = context.wrap_socket(raw, server_hostname="localhost")
        self.buffer, self.decoder = b"", hpack.Decoder()
        self.status, self.body, self.resets, self.ended = {}, {}, {}, set()
        self.goaway, self.last, self.closed, self.pongs = None, None, False, 0
        if greet:
            self.send(PREFACE + frame(SETTINGS, 0, 0, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """What the server has closed already takes nothing."""
        with contextlib.suppress(OSError):
            self.socket.sendall(data)
        return self

    def read(self):
        try:
            got = self.socket.recv(65536)
        except TimeoutError as error:
            raise AssertionError("nothing came, and no end") from error
        except OSError:
            got = b""
        self.closed = self.closed or not got
        self.buffer += got
        while len(self.buffer) >= 9:
            size = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + size:
                return
            kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
            self.take(kind, flags, stream, self.buffer[9:9 + size])
            self.buffer = self.buffer[9 + size:]

    def take(self, kind, flags, stream, payload):
        if kind == HEADERS:
            self.status[stream] = int(dict(self.decoder.decode(payload))[":status"])
        elif kind == DATA:
            self.body[stream] = self.body.get(stream, b"") + payload
        elif kind == RST_STREAM:
            self.resets[stream] = int.from_bytes(payload, "big")
        elif kind == PING and flags & ACK:
            self.pongs += 1
        elif kind == GOAWAY:
            self.last, self.goaway = struct.unpack(">II", payload[:8])
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.ended.add(stream)

    def until(self, done):
        while not done():
            if self.closed:
                raise AssertionError(f"ended: {self.status} {self.resets} {self.goaway}")
            self.read()
        return self

    def answer(self, stream):
        """The status, or nothing for a stream that was reset."""
        self.until(lambda: stream in self.ended or stream in self.resets)
        return self.status.get(stream)

    def end(self):
        """Reads to the end of the connection. What its GOAWAY said."""
        while not self.closed:
            self.read()
        return self.goaway


class H2Case(unittest.TestCase):
    SETTINGS = {}
    STORAGE = {}

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="cairn-h2-"))
        cls.authority = Authority(cls.home)
        cert, key = cls.authority.certify("localhost", "127.0.0.1")
        cls.tls = {"tls.enabled": "true", "tls.cert": cert, "tls.key": key}
        cls.storage = Storage({**TRUSTING, **cls.STORAGE})
        cls.addClassCleanup(cls.storage.end)
        cls.gateway = cls.start()
        cls.context = cls.authority.context(protocols=("h2",))

    @classmethod
    def start(cls):
        gateway = TlsGateway({"timeouts.read": f"{int(READ_TIME * 1000)}ms", **cls.SETTINGS, **cls.tls},
                             storage="%s:%d" % cls.storage.address, token=cls.storage.token)
        cls.addClassCleanup(gateway.end)
        return gateway

    def tearDown(self):
        """Whatever a test has done, the process serves the next one."""
        self.assertEqual(self.healthy(), 200)
        self.assertTrue(self.gateway.alive())

    def healthy(self):
        with self.line() as line:
            return line.send(asking(1)).answer(1)

    url = property(lambda self: f"https://localhost:{self.gateway.address[1]}")

    def line(self, gateway=None, **options):
        return Line(self.context, (gateway or self.gateway).address, **options)

    def curl(self, *arguments, **options):
        return subprocess.run(["curl", "-sS", "--max-time", str(wire.PATIENCE), "--cacert", self.authority.authority, *arguments],
                              capture_output=True, timeout=2 * wire.PATIENCE, **options)

    def file(self, content):
        path = os.path.join(self.home, f"body-{len(content)}")
        with open(path, "wb") as file:
            file.write(content)
        return path

    def put(self, body):
        answer = self.storage.ask("POST", "/o", body, **self.storage.bearer())
        self.assertEqual(answer.status, 201)
        return answer.json()["address"]


class Clients(H2Case):
    def test_curl_gets_the_same_over_both_protocols(self):
        body = os.urandom(900_000)
        address = self.put(body)
        for option, version in (("--http2", b"2"), ("--http1.1", b"1.1")):
            with self.subTest(option):
                got = self.curl(option, "-w", "%{stderr}%{http_version}", f"{self.url}/o/{address}")
                self.assertEqual((got.returncode, got.stdout, got.stderr), (0, body, version))

    def test_curl_puts(self):
        path = self.file(os.urandom(900_000))
        put = self.curl("--http2", "--fail", "-H", f"Authorization: Bearer {self.storage.token}", "--data-binary", f"@{path}", f"{self.url}/o")
        self.assertEqual(put.returncode, 0, put.stderr)

    def test_nghttp_reads_many_streams_of_one_connection(self):
        done = subprocess.run(["nghttp", "-v", "-n", "-m", "50", f"{self.url}/healthz"], capture_output=True, text=True, timeout=wire.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(":status: 200"), 50)

    def test_h2load_sees_no_failure(self):
        done = subprocess.run(["h2load", "-n", "3000", "-c", "10", "-m", "20", f"{self.url}/healthz"], capture_output=True, text=True,
                              timeout=wire.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3000 succeeded, 0 failed, 0 errored, 0 timeout", done.stdout)
        self.assertIn("3000 2xx", done.stdout)

    def test_python_reads_an_object_through_its_windows(self):
        body = os.urandom(MIB)
        address = self.put(body)
        connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        with Line(self.context, self.gateway.address, greet=False) as line:
            connection.initiate_connection()
            connection.send_headers(1, [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", f"/o/{address}")], True)
            got, ended = b"", False
            while not ended:
                line.socket.sendall(connection.data_to_send())
                for event in connection.receive_data(line.socket.recv(65536)):
                    if isinstance(event, h2.events.DataReceived):
                        got += event.data
                        connection.acknowledge_received_data(event.flow_controlled_length, 1)
                    self.assertNotIsInstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated))
                    ended = ended or isinstance(event, h2.events.StreamEnded)
        self.assertEqual(got, body)

    def test_version_names_it(self):
        self.assertIn(b"h2", self.curl("--http2", f"{self.url}/version").stdout)


class EarlyAnswers(H2Case):
    """The answer ends before the body of the request has been taken."""

    def test_curl_shows_the_whole_answer_and_ends_well(self):
        cases = (("/o", 413, 8_000_000), ("/o", 401, 900_000), ("/nowhere", 404, 8_000_000), ("/healthz", 405, 900_000))
        for path, status, size in cases:
            body = self.file(bytes(size))
            for how in (("-X", "POST", "-T", body), ("--data-binary", f"@{body}"), ("-H", "Expect:", "--data-binary", f"@{body}")):
                with self.subTest(path=path, how=how):
                    got = self.curl("--http2", *how, "-w", "\n%{http_code} %{http_version}", self.url + path)
                    self.assertEqual(got.returncode, 0, got.stderr)
                    said, result = got.stdout.rsplit(b"\n", 1)
                    self.assertEqual(result, b"%d 2" % status)
                    self.assertTrue(said.startswith(b'{"error":') and said.endswith(b"}}"), said)

    def test_curl_uses_the_connection_again(self):
        body = self.file(bytes(8_000_000))
        common = ("--http2", "--cacert", self.authority.authority, "-o", os.devnull, "-w", "%{http_code} %{num_connects}\n")
        got = self.curl(*common, "--data-binary", f"@{body}", f"{self.url}/nowhere", "--next", *common, f"{self.url}/healthz")
        self.assertEqual((got.returncode, got.stdout), (0, b"404 1\n200 0\n"), got.stderr)

    def test_nghttp_ends_well(self):
        for size in (100_000, 1_500_000):
            done = subprocess.run(["nghttp", "-v", "-n", "-d", self.file(bytes(size)), f"{self.url}/nowhere"], capture_output=True, text=True,
                                  timeout=wire.PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(":status: 404", done.stdout)

    def test_a_body_without_end_is_declined_and_other_streams_go_on(self):
        connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        pseudo = [(":scheme", "https"), (":authority", "localhost")]
        seen, resets = {}, {}
        with Line(self.context, self.gateway.address, greet=False) as line:
            connection.initiate_connection()
            connection.send_headers(1, [(":method", "POST"), *pseudo, (":path", "/nowhere")])
            sent = 0
            while 1 not in resets:
                if 1 in seen:
                    room = min(connection.local_flow_control_window(1), connection.max_outbound_frame_size)
                    if room > 0:
                        connection.send_data(1, bytes(room))
                        sent += room
                line.socket.sendall(connection.data_to_send())
                if 1 in seen and connection.local_flow_control_window(1) > 0:
                    continue
                for event in connection.receive_data(line.socket.recv(65536)):
                    if isinstance(event, h2.events.ResponseReceived):
                        seen[event.stream_id] = dict(event.headers)[":status"]
                    elif isinstance(event, h2.events.StreamReset):
                        resets[event.stream_id] = event.error_code
            self.assertEqual((seen[1], resets[1]), ("404", NO_ERROR))
            self.assertGreater(sent, 2 * MIB)
            self.assertLess(sent, 3 * MIB)
            connection.send_headers(3, [(":method", "GET"), *pseudo, (":path", "/healthz")], True)
            while 3 not in seen:
                line.socket.sendall(connection.data_to_send())
                for event in connection.receive_data(line.socket.recv(65536)):
                    if isinstance(event, h2.events.ResponseReceived):
                        seen[event.stream_id] = dict(event.headers)[":status"]
        self.assertEqual(seen[3], "200")


class Floods(H2Case):
    """Frames that bring no request further: the peer is told to calm down, and the connection ends."""

    def flood(self, line, pieces):
        """Sends until the server has had enough, and reads what it says in between."""
        for piece in pieces:
            line.send(piece)
            while line.socket.pending() or select.select([line.socket], [], [], 0)[0]:
                line.read()
                if line.closed or line.goaway is not None:
                    return line.goaway
        return line.end()

    def test_rapid_reset(self):
        with self.line() as line:
            cancel = struct.pack(">I", 8)
            pieces = (asking(i, b"/o") + frame(RST_STREAM, 0, i, cancel) for i in range(1, 20000, 2))
            self.assertEqual(self.flood(line, pieces), CALM)

    def test_continuation_flood(self):
        with self.line() as line:
            line.send(frame(HEADERS, END_STREAM, 1, fields()))
            goaway = self.flood(line, (frame(CONTINUATION, 0, 1, literal(b"x-a", b"b")) for _ in range(100_000)))
            self.assertEqual((goaway, line.status), (CALM, {}))

    def test_floods_of_frames_that_do_nothing(self):
        floods = {"empty data": frame(DATA, 0, 1), "settings": frame(SETTINGS, 0, 0, struct.pack(">HI", 5, 20_000)),
                  "ping": frame(PING, 0, 0, b"12345678"), "priority": frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 16)),
                  "window update": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))}
        for name, piece in floods.items():
            with self.subTest(name), self.line() as line:
                line.send(asking(1, b"/o", b"POST", [(b"authorization", f"Bearer {self.storage.token}".encode())], end=False))
                self.assertEqual(self.flood(line, (piece * 10 for _ in range(100_000))), CALM)

    def test_a_header_bomb_is_431_or_ends_the_connection(self):
        with self.line() as line:
            self.assertEqual(line.send(asking(1, more=[(b"x-long", b"l" * 12_000)])).answer(1), 200)
            block = fields(more=[(b"x-%d" % i, b"v" * 3_000) for i in range(13)])
            cut = [block[i:i + 16_000] for i in range(0, len(block), 16_000)]
            line.send(frame(HEADERS, END_STREAM, 3, cut[0]))
            for i, piece in enumerate(cut[1:], 2):
                line.send(frame(CONTINUATION, END_HEADERS if i == len(cut) else 0, 3, piece))
            self.assertEqual(line.answer(3), 431)
        with self.line() as line:
            # A field of nearly the whole table, then its index, again and again.
            large = b"\x40\x01z" + literal(b"", b"v" * 4_000)[2:]
            self.assertEqual(line.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, fields() + large)).answer(1), 200)
            line.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, fields() + b"\xbe" * 10_000))
            self.assertEqual(line.end(), CALM)


class Heads(H2Case):
    def test_what_could_be_another_head_is_malformed(self):
        cases = {
            "CR LF in a value": {"more": [(b"x-a", b"b\r\nx-smuggled: 1")]}, "CR in a value": {"more": [(b"x-a", b"b\rc")]},
            "LF in a value": {"more": [(b"x-a", b"b\nc")]}, "NUL in a value": {"more": [(b"x-a", b"b\0c")]},
            "a path without a slash": {"path": b"healthz"}, "an empty path": {"path": b""}, "a whole URL": {"path": b"https://localhost/healthz"},
            "a path that holds a request": {"path": b"/healthz HTTP/1.1\r\nX: y"},
            "Connection": {"more": [(b"connection", b"close")]}, "Transfer-Encoding": {"more": [(b"transfer-encoding", b"chunked")]},
            "Upgrade": {"more": [(b"upgrade", b"h2c")]}, "TE": {"more": [(b"te", b"gzip")]}, "an upper-case name": {"more": [(b"X-A", b"b")]},
            "Host differs from :authority": {"more": [(b"host", b"other")]}, "Content-Length without a body": {"more": [(b"content-length", b"7")]},
            "a late pseudo-header field": {"more": [(b"x-a", b"b"), (b":path", b"/version")]},
        }
        for name, case in cases.items():
            with self.subTest(name), self.line() as line:
                status = line.send(asking(1, **case)).answer(1)
                self.assertTrue(status == 400 or (status is None and line.resets[1] == PROTOCOL_ERROR), (status, line.resets))
                self.assertEqual(line.send(asking(3)).answer(3), 200, "the connection goes on")

    def test_a_content_length_that_does_not_fit_is_never_taken_for_whole(self):
        for body in (b"abc", b"abcdefg"):
            with self.subTest(body), self.line() as line:
                more = [(b"content-length", b"5"), (b"authorization", f"Bearer {self.storage.token}".encode())]
                line.send(asking(1, b"/o", b"POST", more, end=False) + frame(DATA, END_STREAM, 1, body))
                self.assertIn(line.answer(1), (400, None))
                self.assertEqual(line.send(asking(3)).answer(3), 200)

    def test_stream_ids_that_go_back_or_are_the_servers(self):
        with self.line() as line:
            self.assertEqual(line.send(asking(5)).answer(5), 200)
            line.send(asking(3))
            self.assertEqual(line.send(asking(7)).answer(7), 200)
            self.assertNotIn(3, line.status)
            self.assertEqual(line.send(asking(2)).end(), PROTOCOL_ERROR)

    def test_a_slow_head_is_cut_when_its_time_is_up(self):
        beginnings = {"half a preface": (False, PREFACE[:10]), "a head that does not end": (True, frame(HEADERS, END_STREAM, 1, fields())),
                      "half a frame": (True, asking(1)[:30])}
        for name, (greets, beginning) in beginnings.items():
            with self.subTest(name), self.line(greet=greets) as line:
                began = time.monotonic()
                line.send(beginning).end()
                self.assertGreater(time.monotonic() - began, 0.9 * READ_TIME)
                self.assertEqual(line.status, {})


class Windows(H2Case):
    SETTINGS = {"timeouts.write": "1s", "server.shards": "1"}

    def test_a_window_of_zero_is_ended_and_nothing_stays(self):
        address = self.put(os.urandom(900_000))
        with self.line(settings=struct.pack(">HI", 4, 0)) as line:
            line.send(b"".join(asking(i, f"/o/{address}".encode()) for i in range(1, 41, 2)))
            line.until(lambda: line.resets or line.goaway is not None)
            self.assertEqual(line.ended, set())

    def test_a_client_that_never_reads_is_ended(self):
        address = self.put(os.urandom(900_000))
        before = self.gateway.memory()
        with contextlib.ExitStack() as stack:
            wide = struct.pack(">HI", 4, 0x7fffffff)
            lines = [stack.enter_context(self.line(settings=wide, receive=4096)) for _ in range(5)]
            for line in lines:
                line.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)))
                line.send(b"".join(asking(i, f"/o/{address}".encode()) for i in range(1, 101, 2)))
            self.assertEqual(self.healthy(), 200)
            wire.poll(lambda: not self.sockets(), "all of them are closed")
            self.assertLess(self.gateway.memory() - before, 32 * MIB)

    def sockets(self):
        """The gateway's own ends that are established."""
        port = f":{self.gateway.address[1]:04X}"
        with open("/proc/net/tcp") as file:
            rows = [row.split() for row in file.readlines()[1:]]
        return [row for row in rows if row[1].endswith(port) and row[3] == "01"]

    def test_a_window_beyond_its_maximum_is_an_error(self):
        with self.line() as line:
            self.assertEqual(line.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fffffff))).end(), FLOW_CONTROL_ERROR)

    def test_more_body_than_the_window_is_an_error(self):
        with self.line() as line:
            line.send(asking(1, b"/o", b"POST", [(b"authorization", f"Bearer {self.storage.token}".encode())], end=False))
            line.send(frame(DATA, 0, 1, bytes(16_000)) * 20)
            self.assertEqual(line.end(), FLOW_CONTROL_ERROR)


class Ends(H2Case):
    def test_sigterm_under_load_is_goaway_and_whole_answers(self):
        body = os.urandom(300_000)
        target = f"/o/{self.put(body)}".encode()
        gateway = self.start()
        wide = struct.pack(">HI", 4, 0x7fffffff)
        with contextlib.ExitStack() as stack:
            lines = [stack.enter_context(self.line(gateway, settings=wide)) for _ in range(4)]
            for line in lines:
                line.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)))
                line.send(b"".join(asking(i, target) for i in range(1, 41, 2)))
                line.until(lambda: line.status)
            gateway.process.terminate()
            readers = [threading.Thread(target=line.end) for line in lines]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join(wire.PATIENCE)
            for line in lines:
                self.assertEqual(line.goaway, NO_ERROR)
                self.assertEqual(line.ended, {i for i in range(1, 41, 2) if i <= line.last})
                self.assertEqual({line.body[i] for i in line.ended}, {body})
        self.assertEqual(gateway.wait(), 0)


class Idle(H2Case):
    COUNT = 500
    SETTINGS = {"timeouts.idle": "30s", "server.max_conns_per_ip": "2048", "server.max_conns": "2048"}

    def test_idle_connections_cost_little_and_their_memory_comes_back(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)

        def hold():
            with contextlib.ExitStack() as stack:
                for _ in range(self.COUNT):
                    line = stack.enter_context(self.line())
                    self.assertEqual(line.send(asking(1)).answer(1), 200)
                return self.gateway.memory()
        before = self.gateway.memory()
        first = hold()
        self.assertLess((first - before) / self.COUNT, 96 * 1024)
        # What the first round left is used again by the second.
        self.assertLess(hold() - first, 8 * 1024 * self.COUNT)


if __name__ == "__main__":
    unittest.main()
