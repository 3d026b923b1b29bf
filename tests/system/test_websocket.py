"""The stream of heads over a WebSocket, as another implementation's client sees it."""

import json
import signal
import socket
import struct
import threading
import time
import unittest

import websocket
from websocket import ABNF

from registry_server import Registry, RegistryTest, Weather, region

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class Socket:
    """A subscriber."""

    def __init__(self, registry, query="", receive_buffer=None, **options):
        host, port = registry.address
        sizes = [(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)] if receive_buffer else []
        self.client = websocket.create_connection(f"ws://{host}:{port}/registry/stream{query}", timeout=20, sockopt=sizes,
                                                  http_no_proxy=["127.0.0.1"], **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.shutdown()

    def event(self):
        """(event, id, data)."""
        told = json.loads(self.client.recv())
        if set(told) != {"event", "id", "data"}:
            raise AssertionError(f"not an event: {told}")
        return told["event"], int(told["id"]), told["data"]

    def told(self):
        event, version, data = self.event()
        return event, version, {name: value for name, value in data.items() if name not in ("prev", "size", "root")}

    def until(self, version):
        seen = []
        while not seen or seen[-1][1] < version:
            seen.append(self.event())
        return seen

    def frame(self, data, opcode=ABNF.OPCODE_TEXT, fin=1):
        self.client.send_frame(ABNF.create_frame(data, opcode, fin))

    def raw(self, data):
        self.client.sock.sendall(data)

    def control(self, opcode):
        """The next frame of this kind."""
        while True:
            found, frame = self.client.recv_data_frame(control_frame=True)
            if found == opcode:
                return frame.data
            if found == ABNF.OPCODE_CLOSE:
                raise AssertionError(f"closed: {frame.data!r}")

    def closed(self):
        """The code of the close that comes, and that nothing but the connection's end comes behind it."""
        while True:
            found, frame = self.client.recv_data_frame(control_frame=True)
            if found == ABNF.OPCODE_CLOSE:
                break
        self.client.sock.settimeout(20)
        try:
            rest = self.client.sock.recv(1)
        except ConnectionResetError:
            rest = b""
        if rest:
            raise AssertionError(f"bytes behind the close: {rest!r}")
        return struct.unpack("!H", frame.data[:2])[0] if frame.data else 1005


class Told(RegistryTest):
    def test_a_newcomer_is_told_the_head_and_then_every_commit(self):
        with Socket(self.registry) as stream:
            self.assertEqual(stream.client.status, 101)
            head = self.registry.head()
            self.assertEqual(stream.told(), ("head", head["version"], head))
            for i in range(5):
                head = self.registry.change(self.registry.next_items(region("told", title=str(i))))
                self.assertEqual(stream.told(), ("head", head["version"], head))

    def test_what_was_seen_last_is_where_it_goes_on(self):
        first = self.registry.head()["version"]
        heads = [self.registry.change(self.registry.next_items(region("resume", title=str(i)))) for i in range(4)]
        for options in ({"query": f"?last_event_id={first + 1}"}, {"header": [f"Last-Event-ID: {first + 1}"]}):
            with Socket(self.registry, **options) as stream:
                for head in heads[1:]:
                    self.assertEqual(stream.told(), ("head", head["version"], head))
        with Socket(self.registry, query=f"?last_event_id={heads[-1]['version'] + 100}") as stream:
            event, version, data = stream.event()
            self.assertEqual((event, version, data["last"]), ("rollback", heads[-1]["version"], version + 100))

    def test_what_the_client_says_is_ignored_and_pings_are_answered(self):
        with Socket(self.registry) as stream:
            stream.event()
            stream.frame("hello")
            stream.frame("one ", fin=0)
            stream.frame("ping-1", ABNF.OPCODE_PING)
            stream.frame(b"two ", ABNF.OPCODE_CONT, fin=0)
            stream.frame("three é".encode(), ABNF.OPCODE_CONT)
            stream.frame(b"\xff\x00", ABNF.OPCODE_BINARY)
            self.assertEqual(stream.control(ABNF.OPCODE_PONG), b"ping-1")
            head = self.registry.change(self.registry.next_items(region("said")))
            self.assertEqual(stream.told(), ("head", head["version"], head))

    def test_a_close_is_answered_with_its_code(self):
        for code in (1000, 1001, 3000, 4999):
            with Socket(self.registry) as stream:
                stream.client.send_close(code, b"bye")
                self.assertEqual(stream.closed(), code)

    def test_a_bad_frame_is_told_by_its_code(self):
        mask = b"\0\0\0\0"
        for raw, code in ((b"\x81\x02hi", 1002), (b"\xf1\x80" + mask, 1002), (b"\x83\x80" + mask, 1002),
                          (b"\x88\x82" + mask + struct.pack("!H", 1005), 1002), (b"\x81\x81" + mask + b"\xff", 1007),
                          (b"\x82\xff" + mask + struct.pack("!I", 100_000) + mask, 1009)):
            with Socket(self.registry) as stream:
                stream.event()
                stream.raw(raw)
                self.assertEqual(stream.closed(), code, raw)

    def test_a_handshake_that_is_not_one_is_refused_and_one_that_did_not_ask_gets_events(self):
        asks = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Key": KEY, "Sec_WebSocket_Version": "13"}
        answer = self.registry.ask_openly("GET", "/registry/stream", **{**asks, "Sec_WebSocket_Version": "8"})
        self.assert_error(answer, 426, "upgrade_required")
        self.assertEqual(answer.get("Sec-WebSocket-Version"), "13")
        answer = self.registry.ask_openly("GET", "/registry/stream", **{**asks, "Sec_WebSocket_Key": "short"})
        self.assert_error(answer, 400, "malformed")
        for query in ("?last_event_id=x", "?last_event_id=01", "?other=1"):
            self.assert_error(self.registry.ask_openly("GET", "/registry/stream" + query, **asks), 400, "malformed")
        # Another route does not know it.
        self.assertEqual(self.registry.ask_openly("GET", "/registry/head", **asks).status, 200)

    def test_a_foreign_page_opens_none(self):
        host, port = self.registry.address
        with Socket(self.registry, origin=f"http://{host}:{port}") as stream:
            stream.event()
        for origin in ("https://evil.example", "null", f"http://{host}:{port + 1}"):
            with self.assertRaises(websocket.WebSocketBadStatusException) as refused:
                Socket(self.registry, origin=origin)
            self.assertEqual(refused.exception.status_code, 403)

    def test_sockets_are_connections_and_not_in_flight(self):
        with Registry({"server.max_inflight": 2}) as small:
            streams = [Socket(small) for _ in range(8)]
            for stream in streams:
                stream.event()
            head = small.change([*small.items(), region("x")])
            for stream in streams:
                self.assertEqual(stream.told()[2], head)
                stream.client.shutdown()

    def test_a_client_gone_is_forgotten(self):
        for _ in range(20):
            with Socket(self.registry) as stream:
                stream.event()
        self.registry.change(self.registry.next_items(region("gone")))
        self.assertTrue(self.registry.alive())


class Slow(unittest.TestCase):
    def test_a_slow_reader_gets_everything_or_is_told_what_it_missed(self):
        weather = self.enterContext(Weather())
        weather.set(send_buffer=4096)
        registry = self.enterContext(Registry({"bus.channel_bound": 4, "timeouts.write": "20s"}, environment=weather.environment))
        with Socket(registry, receive_buffer=2048) as stream:
            registry.grow(150)
            events = stream.until(150)
        at = events[0][1]
        for kind, version, data in events[1:]:
            if kind == "head":
                self.assertEqual(version, at + 1, "a gap that nobody told")
            else:
                self.assertEqual(kind, "lagged")
                self.assertIn(data["missed"], (version - at, version - at - 1))
            at = version
        self.assertIn("lagged", {kind for kind, _, _ in events})


class Ends(unittest.TestCase):
    def test_drain_under_load_closes_every_socket_with_1001_and_exits_0(self):
        with Registry() as registry:
            streams = [Socket(registry) for _ in range(20)]
            for stream in streams:
                stream.event()
            codes, busy = [], threading.Event()

            def change():
                try:
                    for i in range(1000):
                        registry.change(registry.next_items(region("load", title=str(i))))
                        busy.set()
                except Exception:  # noqa: BLE001: it ends with the server
                    busy.set()

            def hear(stream):
                codes.append(stream.closed())

            threads = [threading.Thread(target=hear, args=(stream,)) for stream in streams] + [threading.Thread(target=change)]
            for thread in threads:
                thread.start()
            busy.wait(20)
            began = time.monotonic()
            registry.process.send_signal(signal.SIGTERM)
            for thread in threads:
                thread.join(20)
            self.assertEqual(registry.wait(), 0)
            self.assertEqual(codes, [1001] * len(streams))
            self.assertLess(time.monotonic() - began, 20)
            for stream in streams:
                stream.client.shutdown()


if __name__ == "__main__":
    unittest.main()
