"""Clients that take their time: each is cut, counted, and costs little memory."""

import contextlib
import os
import socket
import threading
import unittest

import wire
from demo import Demo, DemoTest
from wire import chunked, head, request

POST = ("POST /echo HTTP/1.1", "Host: demo")
READS = 'io_timeouts_total{op="read"}'
WRITES = 'io_timeouts_total{op="write"}'


@contextlib.contextmanager
def dripping(connection, data, pause):
    """Sends byte after byte beside the test, until all is sent or the server has enough."""
    stop = threading.Event()

    def drip():
        with contextlib.suppress(OSError):
            for i in range(len(data)):
                connection.socket.send(data[i : i + 1])
                if stop.wait(pause):
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Slow(DemoTest):
    settings = {"timeouts.read": "300ms", "timeouts.write": "300ms", "timeouts.idle": "300ms", "timeouts.request": "20s"}

    @classmethod
    def fill(cls, directory):
        with open(os.path.join(directory, "large"), "wb") as file:
            file.truncate(64 << 20)

    def expect_cut(self, connection):
        answer = connection.read()
        self.assert_error(answer, 408, "timeout_read")
        self.assertTrue(answer.closes())
        self.assertIsNone(answer.get("Retry-After"))
        connection.expect_end()

    def test_half_a_head(self):
        for start in (b"G", b"GET /mem/x HTT", head("GET /mem/x HTTP/1.1", "Host: demo")[:-2], head("GET /mem/x HTTP/1.1", "A: " + "b" * 20000)[:-1]):
            before = self.demo.metric(READS)
            with self.subTest(start[:30]), self.demo.connect() as connection:
                connection.send(start)
                self.expect_cut(connection)
                self.assertEqual(self.demo.metric(READS), before + 1)

    def test_half_a_head_with_a_corr_id(self):
        with Demo(self.settings) as demo, demo.connect() as connection:
            connection.send(b"GET /mem/x HTTP/1.1\r\nX-Corr-ID: abcdefgh-12345678\r\nHost: de")
            self.expect_cut(connection)

    def test_head_byte_by_byte(self):
        connection = self.connect()
        with dripping(connection, head("GET /mem/x HTTP/1.1", "Host: demo", "A: " + "b" * 2000), 0.02):
            self.expect_cut(connection)

    def test_second_head_on_a_connection(self):
        connection = self.connect()
        self.assertEqual(connection.send(request("GET", "/mem/x") + b"GET /m").read().status, 200)
        self.expect_cut(connection)

    def test_body_without_progress(self):
        for start in (head(*POST, "Content-Length: 10"), head(*POST, "Content-Length: 10") + b"abc",
                      head(*POST, "Transfer-Encoding: chunked"), head(*POST, "Transfer-Encoding: chunked") + b"5\r\nab",
                      head(*POST, "Transfer-Encoding: chunked") + b"5\r\nabcde\r\n0\r\n"):
            before = self.demo.metric(READS)
            with self.subTest(start), self.demo.connect() as connection:
                connection.send(start)
                self.expect_cut(connection)
                self.assertEqual(self.demo.metric(READS), before + 1)

    def test_body_stops_after_much(self):
        connection = self.connect()
        connection.send(head(*POST, "Content-Length: 500000") + b"a" * 400000)
        self.expect_cut(connection)

    def test_body_below_the_lowest_rate(self):
        # A byte every 20 ms is progress, but 50 B/s.
        before = self.demo.metric(READS)
        for name, start, data in (("fixed", head(*POST, "Content-Length: 1000"), b"a" * 1000),
                                  ("chunked", head(*POST, "Transfer-Encoding: chunked"), chunked(*[b"a"] * 300)),
                                  ("extension", head(*POST, "Transfer-Encoding: chunked"), b"1;" + b"e" * 200 + b"\r\na\r\n0\r\n\r\n"),
                                  ("trailers", head(*POST, "Transfer-Encoding: chunked") + b"1\r\na\r\n0\r\n", b"A: b\r\n" * 50 + b"\r\n")):
            with self.subTest(name), self.demo.connect() as connection, dripping(connection.send(start), data, 0.02):
                self.expect_cut(connection)
        self.assertEqual(self.demo.metric(READS), before + 4)

    def test_body_above_the_lowest_rate_is_taken(self):
        # More than a window long, 100 B every 10 ms.
        connection = self.connect()
        body = b"a" * 8000
        connection.send(head(*POST, f"Content-Length: {len(body)}"))
        pause = threading.Event()
        for i in range(0, len(body), 100):
            connection.send(body[i : i + 100])
            pause.wait(0.01)
        answer = connection.read()
        self.assertEqual((answer.status, answer.body), (200, body))

    def test_expected_body_that_never_comes(self):
        connection = self.connect()
        connection.send(head(*POST, "Content-Length: 10", "Expect: 100-continue"))
        answer = connection.read()
        self.assertEqual(answer.interim, [100])
        self.assert_error(answer, 408, "timeout_read")

    def test_slow_reader_is_cut(self):
        before = self.demo.metric(WRITES)
        connection = self.connect(receive_buffer=4096)
        connection.send(request("GET", "/file/large"))
        wire.poll(lambda: self.demo.metric(WRITES) == before + 1, "the slow reader is counted")
        with self.assertRaises((ConnectionResetError, wire.Broken)):
            connection.read()
        wire.poll(lambda: self.demo.metric('inflight_requests{route="/file/{name:Name}"}') == 0, "its place is free")

    def test_steady_reader_is_never_cut(self):
        # The kernel tells of room in its buffer only every few seconds at this rate: many windows long.
        before = self.demo.metric(WRITES)
        connection = self.connect()
        connection.send(request("GET", "/file/large"))
        pause = threading.Event()
        for _ in range(60):
            got = 0
            while got < 16384:
                piece = connection.socket.recv(16384 - got)
                self.assertTrue(piece, "cut")
                got += len(piece)
            pause.wait(0.05)
        self.assertEqual(self.demo.metric(WRITES), before)

    def test_slow_reader_of_pipelined_answers_is_cut(self):
        before = self.demo.metric(WRITES)
        connection = self.connect(receive_buffer=4096)
        # Requests without end, no answer read: the server must stop reading, then give up.
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            while True:
                connection.socket.sendall(request("GET", "/mem/x") * 100)
        self.assertEqual(self.demo.metric(WRITES), before + 1)

    def test_idle_connection_is_closed_without_a_word(self):
        connection = self.connect()
        connection.expect_end()
        used = self.connect()
        self.assertEqual(used.ask("GET", "/mem/x").status, 200)
        used.expect_end()

    def test_idle_is_no_timeout_of_reading(self):
        before = self.demo.metrics()
        self.connect().expect_end()
        after = self.demo.metrics()
        self.assertEqual((after[READS], after[WRITES]), (before[READS], before[WRITES]))


class Memory(unittest.TestCase):
    """What strangers can make the server hold."""

    CONNECTIONS = 400

    def grown_by(self, demo, attack):
        """How far the memory rose above what it was, at its highest, while `attack` held its connections."""
        for _ in range(50):
            demo.ask("GET", "/mem/x")
            demo.ask("POST", "/echo", b"warm")
        with open(f"/proc/{demo.pid}/clear_refs", "w") as file:
            file.write("5")
        before = demo.memory("VmRSS")
        with contextlib.ExitStack() as stack:
            attack([stack.enter_context(demo.connect()) for _ in range(self.CONNECTIONS)])
            return demo.memory("VmHWM") - before

    def check(self, attack):
        with Demo({"timeouts.read": "20s", "timeouts.request": "30s", "server.max_inflight": 1000, "server.max_conns": 1000}) as demo:
            grown = self.grown_by(demo, lambda connections: attack(demo, connections))
            self.assertLessEqual(grown, self.CONNECTIONS * 64 * 1024, f"{grown // self.CONNECTIONS} B a connection")

    def all_seen(self, demo):
        """Everything sent so far was read by the server."""
        def nothing_queued():
            queued = 0
            with open(f"/proc/{demo.pid}/net/tcp") as table:
                for line in table.readlines()[1:]:
                    columns = line.split()
                    if int(columns[1].split(":")[1], 16) == demo.address[1]:
                        queued += int(columns[4].split(":")[1], 16)
            return queued == 0
        wire.poll(nothing_queued, "the server has read everything")

    def test_idle_connections(self):
        def attack(demo, connections):
            for connection in connections:
                connection.ask("GET", "/mem/x")
        self.check(attack)

    def test_half_heads(self):
        def attack(demo, connections):
            for connection in connections:
                connection.send(head("GET /mem/x HTTP/1.1", "Host: demo", "A: " + "b" * 30000)[:-2])
            self.all_seen(demo)
        self.check(attack)

    def test_half_bodies(self):
        def attack(demo, connections):
            for i, connection in enumerate(connections):
                framing = ("Content-Length: 100000", "Transfer-Encoding: chunked")[i % 2]
                connection.send(head(*POST, framing) + b"4000\r\n" + b"a" * 8000)
            wire.poll(lambda: demo.metric('inflight_requests{route="/echo"}') == len(connections), "all have begun")
        self.check(attack)

    def test_malformed_requests(self):
        def attack(demo, connections):
            for connection in connections:
                connection.send(head("GET /mem/x HTTP/1.1", "Host: demo", "A: " + "b" * 30000, "A : b"))
                self.assertEqual(connection.read().status, 400)
        self.check(attack)

    def test_readers_that_do_not_read(self):
        def attack(demo, connections):
            for connection in connections:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.send_as_it_goes([request("GET", "/mem/x") * 50])
        self.check(attack)


if __name__ == "__main__":
    unittest.main()
