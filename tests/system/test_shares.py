"""One address that takes all it can get leaves its half to others; alone it has everything."""

import contextlib
import os
import socket
import threading
import unittest

import flood
import wire
from demo import Demo
from storage_server import Storage
from wire import head, request

FLOOD = "127.0.0.2"  # everybody else is 127.0.0.1


def connect(demo, source):
    connection = wire.Connection.__new__(wire.Connection)
    connection.socket = socket.create_connection(demo.address, wire.PATIENCE, source_address=(source, 0))
    connection.buffer = b""
    return connection


class Flood:
    """Connections of one address that pipeline requests and read what comes, until the end."""

    def __init__(self, demo, count):
        self.over = threading.Event()
        self.statuses = {}
        self.threads = [threading.Thread(target=self.run, args=(demo,)) for _ in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def run(self, demo):
        with contextlib.closing(connect(demo, FLOOD)) as connection:
            while not self.over.is_set():
                connection.send(request("GET", "/mem/x") * 50)
                for _ in range(50):
                    status = connection.read().status
                    self.statuses[status] = self.statuses.get(status, 0) + 1


class Shares(unittest.TestCase):
    def answered(self, demo, count, target):
        """How many of these were served, one after the other."""
        with demo.connect() as connection:
            return sum(connection.ask("GET", target).status == 200 for _ in range(count))

    def test_who_pipelines_does_not_take_the_rate_of_others(self):
        with Demo({"server.max_rps": 500}) as demo:
            with Flood(demo, 3) as flood:
                wire.poll(lambda: flood.statuses.get(429, 0) > 500, "the flood is over its rate")
                self.assertGreaterEqual(self.answered(demo, 100, "/job/20"), 99)
            self.assertGreater(flood.statuses[200], 500)

    def test_bodies_that_trickle_do_not_take_the_places_of_others(self):
        settings = {"server.max_inflight": 64, "timeouts.request": "50s", "timeouts.read": "50s"}
        with Demo(settings) as demo, contextlib.ExitStack() as stack:
            half = head("POST /staged HTTP/1.1", "Host: demo", "Content-Length: 100") + b"x"
            slow = [stack.enter_context(contextlib.closing(connect(demo, FLOOD))).send(half) for _ in range(80)]
            wire.poll(lambda: demo.metric('inflight_requests{route="/staged"}') == 64, "every place is taken")
            self.assertEqual(self.answered(demo, 100, "/job/1"), 100)
            with contextlib.closing(connect(demo, FLOOD)) as more:
                self.assertEqual(more.ask("GET", "/mem/x").status, 429)
            for connection in slow:
                connection.close()

    def test_answers_that_are_not_taken_do_not_take_the_places_of_others(self):
        with Demo({"server.max_inflight": 32, "timeouts.request": "50s", "timeouts.write": "50s"}) as demo, contextlib.ExitStack() as stack:
            slow = [stack.enter_context(contextlib.closing(connect(demo, FLOOD))).send(request("GET", "/stream/100000")) for _ in range(32)]
            wire.poll(lambda: demo.metric('inflight_requests{route="/stream/{parts:Int}"}') == 32, "every place is taken")
            self.assertEqual(self.answered(demo, 100, "/mem/x"), 100)
            for connection in slow:
                connection.close()

    def test_an_address_alone_has_everything(self):
        with Demo({"server.max_inflight": 64, "timeouts.request": "50s"}) as demo, contextlib.ExitStack() as stack:
            half = head("POST /staged HTTP/1.1", "Host: demo", "Content-Length: 100") + b"x"
            for _ in range(64):
                stack.enter_context(demo.connect()).send(half)
            wire.poll(lambda: demo.metric('inflight_requests{route="/staged"}') == 64, "every place is taken")

    def test_a_trusted_address_is_held_to_no_share(self):
        settings = {"server.max_inflight": 64, "timeouts.request": "50s", "timeouts.read": "50s", "server.trusted": f"{FLOOD}/32"}
        with Demo(settings) as demo, contextlib.ExitStack() as stack:
            half = head("POST /staged HTTP/1.1", "Host: demo", "Content-Length: 100") + b"x"
            for _ in range(64):
                self.assertEqual(demo.ask("GET", "/mem/x").status, 200)
                stack.enter_context(contextlib.closing(connect(demo, FLOOD))).send(half)
            wire.poll(lambda: demo.metric('inflight_requests{route="/staged"}') == 64, "every place is taken")


class Flooded(unittest.TestCase):
    """Storage as it is by default, one address that takes all it can get, and another one that does a bit of everything."""

    def expect_other_is_served(self, signs, *kinds):
        """`signs`: series that tell that the flood is there, each with how much of it."""
        with Storage(roomy=False) as storage:
            found = storage.post(os.urandom(10_000))
            of_flood, of_other = flood.tokens(storage)
            with flood.Flood(storage, kinds, of_flood, found):
                def is_there():
                    samples = storage.metrics()
                    return all(samples.get(series, 0) >= least for series, least in signs.items())
                wire.poll(is_there, "the flood is there")
                other = flood.Other(storage, of_other, found)
                while len(other.statuses) < 200:
                    other.turn()
            self.assertGreaterEqual(other.served(), 0.99, other.statuses)

    def test_connections_do_not_take_the_places_of_others(self):
        self.expect_other_is_served({'rejected_total{reason="connections"}': 10}, "connections")

    def test_heads_that_trickle_do_not_take_the_places_of_others(self):
        self.expect_other_is_served({'tasks_spawned_total{kind="connection"}': 250}, "heads")

    def test_bodies_do_not_take_the_memory_of_others(self):
        self.expect_other_is_served({'busy_rejections_total{endpoint="/o"}': 10, 'inflight_requests{route="/o"}': 20}, "bodies")

    def test_pipelined_requests_do_not_take_the_rate_of_others(self):
        self.expect_other_is_served({'rejected_total{reason="rate"}': 1000}, "requests")

    def test_uploads_do_not_take_the_places_of_others(self):
        self.expect_other_is_served({"storage_uploads": 50}, "uploads")

    def test_all_of_it_at_once_takes_nothing_from_others(self):
        self.expect_other_is_served({'busy_rejections_total{endpoint="/o"}': 10, 'rejected_total{reason="rate"}': 1000}, *flood.KINDS)


if __name__ == "__main__":
    unittest.main()
