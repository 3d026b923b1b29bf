"""Connections that say nothing: they keep neither health nor anybody else out."""

import contextlib
import resource
import socket
import threading
import unittest

import wire
from demo import Demo
from wire import request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Idle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))

    def silent(self, stack, demo, count):
        for _ in range(count):
            stack.enter_context(demo.connect())

    def ask(self, demo, target, address=None):
        with wire.Connection(address or demo.address) as connection:
            return connection.ask("GET", target).status

    def check(self, demo, count, address=None):
        with contextlib.ExitStack() as stack:
            self.silent(stack, demo, count)
            for target in ("/healthz", "/readyz", "/metrics"):
                self.assertEqual(self.ask(demo, target), 200)
                self.assertEqual(self.ask(demo, target, address), 200)
            # The silent ones have to have been silent for a second before one of them gives way.
            wire.poll(lambda: self.ask(demo, "/mem/x") == 200, "an ordinary request finds a place")
            for _ in range(20):
                self.assertEqual(self.ask(demo, "/mem/x"), 200)

    def test_more_than_the_cap(self):
        for shards in (1, 3):
            with self.subTest(shards), Demo({"server.shards": shards}) as demo:
                self.check(demo, 1040)

    def test_more_than_an_address_may_have(self):
        port = free_port()
        settings = {"server.max_conns_per_ip": 256, "server.metrics_addr": f"127.0.0.1:{port}"}
        with Demo(settings) as demo:
            self.check(demo, 272, ("127.0.0.1", port))

    def test_silence_at_the_metrics_address(self):
        port = free_port()
        with Demo({"server.metrics_addr": f"127.0.0.1:{port}"}) as demo, contextlib.ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(wire.Connection(("127.0.0.1", port)))
            self.assertEqual(self.ask(demo, "/healthz", ("127.0.0.1", port)), 200)
            self.assertEqual(self.ask(demo, "/mem/x"), 200)

    def test_who_asks_again_and_again_keeps_its_connection(self):
        with Demo({"server.max_conns": 16}) as demo, contextlib.ExitStack() as stack:
            busy = [stack.enter_context(demo.connect()) for _ in range(4)]
            self.silent(stack, demo, 12)
            stop = threading.Event()
            problems = []

            def ask_on(connection):
                try:
                    while not stop.wait(0.05):
                        if connection.ask("GET", "/mem/x").status != 200:
                            raise AssertionError("refused")
                except (OSError, AssertionError) as problem:
                    problems.append(problem)

            threads = [threading.Thread(target=ask_on, args=(connection,)) for connection in busy]
            for thread in threads:
                thread.start()
            try:
                wire.poll(lambda: self.ask(demo, "/mem/x") == 200, "a silent one gives way")
                for _ in range(12):
                    newcomer = stack.enter_context(demo.connect())
                    wire.poll(lambda: self.ask(demo, "/healthz") == 200, "health")
                    newcomer.send(request("GET", "/mem/x"))
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(problems, [])


if __name__ == "__main__":
    unittest.main()
