"""Requests that stay open: streams of events and long polls."""

import contextlib
import signal
import time
import unittest

import wire
from demo import Demo, DemoTest
from wire import request

WRITES = 'io_timeouts_total{op="write"}'
STREAMS = 'inflight_requests{route="/events/{beat:Int}"}'
HOUR = 3600000


class Stream:
    """A stream of events on a connection, read as it comes."""

    def __init__(self, connection, beat=HOUR):
        self.connection, self.text = connection, b""
        connection.send(request("GET", f"/events/{beat}"))
        status, _, fields = wire.parse_head(connection._head())
        if status != 200:
            raise AssertionError(f"{status} {connection.rest()!r}")
        self.fields = dict(fields)

    def block(self):
        """What comes up to the next empty line; None at the clean end."""
        while b"\n\n" not in self.text:
            size = int(self.connection._line(), 16)
            self.text += self.connection._take(size)
            if self.connection._take(2) != wire.CRLF:
                raise wire.Broken("chunk without its end")
            if size == 0:
                if self.text:
                    raise wire.Broken(f"half an event: {self.text!r}")
                return None
        block, self.text = self.text.split(b"\n\n", 1)
        return block.decode()


def version_event(version):
    return f'event: version\nid: {version}\ndata: {{"version":{version}}}'


class Open(DemoTest):
    # One shard: what one client changes is what another one waits for.
    settings = {"server.shards": 1, "timeouts.request": "1s"}

    def version(self):
        return self.demo.ask("POST", "/bump").json()["version"]

    def test_stream_tells_what_is_and_what_changes(self):
        now = self.version()
        stream = Stream(self.connect())
        self.assertEqual(stream.fields["Content-Type"], "text/event-stream")
        self.assertEqual(stream.fields["Cache-Control"], "no-store")
        self.assertEqual(stream.fields["X-Accel-Buffering"], "no")
        self.assertEqual(stream.block(), version_event(now))
        for _ in range(3):
            now = self.version()
            self.assertEqual(stream.block(), version_event(now))

    def test_heartbeat_when_nothing_happens(self):
        stream = Stream(self.connect(), beat=50)
        stream.block()
        self.assertEqual([stream.block() for _ in range(3)], [": "] * 3)

    def test_long_poll_is_answered_by_a_change(self):
        now = self.version()
        connection = self.connect()
        connection.send(request("GET", f"/poll/{now}/60000"))
        wire.poll(lambda: self.version() > now, "a change")
        answer = connection.read()
        self.assertEqual(answer.status, 200)
        self.assertGreater(answer.json()["version"], now)
        self.assertEqual(connection.ask("GET", "/mem/x").status, 200)

    def test_long_poll_that_knows_less_does_not_wait(self):
        now = self.version()
        self.assertEqual(self.demo.ask("GET", f"/poll/{now - 1}/60000").json()["version"], now)

    def test_long_poll_ends_with_its_wait(self):
        now = self.version()
        began = time.monotonic()
        answer = self.demo.ask("GET", f"/poll/{now}/1500")
        self.assertGreaterEqual(time.monotonic() - began, 1.5)  # and not with timeouts.request
        self.assertEqual((answer.status, answer.json()["version"]), (200, now))

    def test_client_may_shorten_the_wait(self):
        self.assert_error(self.demo.ask("GET", "/poll/1000000/60000", X_Deadline_Ms="100"), 504, "timeout")

    def test_client_that_leaves_is_forgotten(self):
        with Demo({"server.max_conns": 8}) as demo:
            for _ in range(3):
                with contextlib.ExitStack() as stack:
                    # All there may be; the next round finds their places free.
                    for _ in range(7):
                        Stream(stack.enter_context(demo.connect())).block()

                def room():
                    with demo.connect() as connection:
                        return connection.ask("GET", "/mem/x").status == 200
                wire.poll(room, "their places are free")


class InFlight(unittest.TestCase):
    def test_open_requests_are_connections_and_not_in_flight(self):
        with Demo({"server.max_inflight": 8}) as demo, contextlib.ExitStack() as stack:
            streams = [Stream(stack.enter_context(demo.connect())) for _ in range(20)]
            for stream in streams:
                self.assertEqual(stream.block(), version_event(0))
            polls = [stack.enter_context(demo.connect()).send(request("GET", "/poll/1000/60000")) for _ in range(20)]
            self.assertEqual(demo.metric(STREAMS), 0)
            for _ in range(20):
                self.assertEqual(demo.ask("GET", "/job/1").status, 200)
            self.assertEqual(demo.metric('rejected_total{reason="inflight"}'), 0)
            self.assertEqual(demo.stop(), 0, demo.log()[-1000:])
            for poll in polls:
                answer = poll.read()
                self.assertEqual((answer.status, answer.json(), answer.closes()), (200, {"version": 0}, True))
            for stream in streams:
                self.assertIsNone(stream.block())


class Draining(unittest.TestCase):
    def test_open_streams_end_cleanly_and_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number), Demo({"timeouts.drain": "5s"}) as demo, contextlib.ExitStack() as stack:
                streams = [Stream(stack.enter_context(demo.connect())) for _ in range(50)]
                for stream in streams:
                    stream.block()
                demo.signal(number)
                for stream in streams:
                    self.assertIsNone(stream.block())
                    stream.connection.expect_end()
                # At the deadline they would have been aborted: 10.
                self.assertEqual(demo.wait(), 0, demo.log()[-1000:])

    def test_stream_that_is_never_silent_ends_too(self):
        with Demo({"timeouts.drain": "5s"}) as demo, demo.connect() as connection:
            connection.send(request("GET", "/flood"))
            connection._take(20000)
            demo.signal(signal.SIGTERM)
            rest = connection.rest()
            self.assertTrue(rest.endswith(b"\r\n0\r\n\r\n"), rest[-100:])
            self.assertEqual(demo.wait(), 0, demo.log()[-1000:])


class SlowReader(unittest.TestCase):
    READERS = 50

    def test_subscriber_that_never_reads_is_cut_and_costs_little(self):
        with Demo({"timeouts.write": "500ms"}) as demo, contextlib.ExitStack() as stack:
            demo.ask("GET", "/mem/x")
            before = demo.memory("VmRSS")
            readers = [stack.enter_context(demo.connect(receive_buffer=4096)) for _ in range(self.READERS)]
            for reader in readers:
                reader.send(request("GET", "/flood"))
            wire.poll(lambda: demo.metric(WRITES) == self.READERS, "each is cut and counted")
            # Of each: its frames, its exchange and one chunk of 8000 bytes; the kernel's buffers are not ours.
            grown = demo.memory("VmHWM") - before
            self.assertLessEqual(grown, self.READERS * 64 * 1024, f"{grown // self.READERS} B a reader")
            for reader in readers:
                with self.assertRaises((ConnectionResetError, wire.Broken)):
                    reader.read()
            self.assertEqual(demo.ask("GET", "/mem/x").status, 200)


if __name__ == "__main__":
    unittest.main()
