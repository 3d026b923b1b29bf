"""Signals: what was begun is finished, what came in time is served, nothing waits for ever."""

import contextlib
import random
import signal
import socket
import threading
import time
import unittest

import wire
from demo import Demo
from test_limits import JOBS, busy_jobs
from wire import head, request

ABORTED = 10


def doors_closed(demo):
    """Every shard has closed its listener."""
    def refused():
        for _ in range(20):
            try:
                socket.create_connection(demo.address, wire.PATIENCE).close()
                return False
            except (ConnectionRefusedError, ConnectionResetError):
                pass
        return True
    wire.poll(refused, "the listeners are closed")


@contextlib.contextmanager
def stopped(demo):
    """What happens inside has happened when the server next runs."""
    demo.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        demo.signal(signal.SIGCONT)


class Quiet(unittest.TestCase):
    def test_idle_server_ends_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number), Demo() as demo:
                demo.signal(number)
                self.assertEqual(demo.wait(), 0)

    def test_idle_connections_are_closed_without_a_word(self):
        with Demo() as demo, contextlib.ExitStack() as stack:
            connections = [stack.enter_context(demo.connect()) for _ in range(50)]
            for connection in connections:
                self.assertEqual(connection.ask("GET", "/mem/x").status, 200)
            demo.signal(signal.SIGTERM)
            for connection in connections:
                connection.expect_end()
            self.assertEqual(demo.wait(), 0)

    def test_silent_connection_is_no_work(self):
        # Nothing was asked on it, so nothing is aborted when it is closed.
        with Demo({"timeouts.drain": "1s"}) as demo, demo.connect() as connection:
            demo.ask("GET", "/mem/x")
            demo.signal(signal.SIGTERM)
            connection.expect_end()
            self.assertEqual(demo.wait(), 0)

    def test_the_end_is_logged(self):
        with Demo() as demo:
            self.assertEqual(demo.stop(), 0)
            self.assertIn('"draining"', demo.log())
            self.assertIn('"drained"', demo.log())


class InTime(unittest.TestCase):
    def test_connections_queued_on_the_listener_are_served(self):
        for _ in range(5):
            with Demo() as demo, contextlib.ExitStack() as stack:
                with stopped(demo):
                    connections = [stack.enter_context(demo.connect()) for _ in range(60)]
                    for i, connection in enumerate(connections):
                        connection.send(request("GET", ("/mem/x", "/job/5", "/stream/3")[i % 3]))
                    demo.signal(signal.SIGTERM)
                for connection in connections:
                    answer = connection.read()
                    self.assertEqual(answer.status, 200)
                self.assertEqual(demo.wait(), 0)

    def test_requests_sent_on_open_connections_are_answered(self):
        for _ in range(5):
            with Demo() as demo, contextlib.ExitStack() as stack:
                connections = [stack.enter_context(demo.connect()) for _ in range(60)]
                for connection in connections:
                    connection.ask("GET", "/mem/x")
                with stopped(demo):
                    for i, connection in enumerate(connections):
                        connection.send(request("GET", ("/mem/x", "/job/5", "/stream/3")[i % 3]))
                    demo.signal(signal.SIGTERM)
                for connection in connections:
                    self.assertEqual(connection.read().status, 200)
                self.assertEqual(demo.wait(), 0)

    def test_answers_while_draining_say_close(self):
        with Demo() as demo, contextlib.ExitStack() as stack:
            fresh = [stack.enter_context(demo.connect()) for _ in range(6)]
            job = busy_jobs(stack, demo, 1, 800)[0]
            half = stack.enter_context(demo.connect()).send(b"GET /mem/x HTTP/1.1\r\nHo")
            body = stack.enter_context(demo.connect()).send(head("POST /echo HTTP/1.1", "Host: demo", "Content-Length: 6") + b"abc")
            demo.signal(signal.SIGTERM)
            doors_closed(demo)
            ready = fresh[0].ask("GET", "/readyz")
            self.assertEqual((ready.status, ready.json()["ready"], ready.json()["write_ready"]), (503, False, False))
            self.assertEqual(ready.get("Retry-After"), str(ready.json()["retry_after"]))
            health = fresh[1].ask("GET", "/healthz")
            self.assertEqual((health.status, health.body), (200, b"ok\n"))
            answers = [ready, health, fresh[2].ask("GET", "/mem/x"), fresh[3].ask("POST", "/echo", b"abc"), fresh[4].ask("GET", "/stream/2"),
                       fresh[5].ask("GET", "/nothing"), half.send(b"st: demo\r\n\r\n").read(), body.send(b"def").read(), job.read()]
            self.assertEqual([answer.status for answer in answers], [503, 200, 200, 200, 200, 404, 200, 200, 200])
            self.assertEqual(answers[7].body, b"abcdef")
            for answer in answers[2:]:  # whoever asks for health may ask again
                self.assertTrue(answer.closes(), answer)
            self.assertEqual(demo.wait(), 0)

    def test_queued_work_is_finished(self):
        with Demo({"server.shards": 1}) as demo, contextlib.ExitStack() as stack:
            connections = busy_jobs(stack, demo, 24, 200)  # three turns of eight workers
            demo.signal(signal.SIGTERM)
            counts = []
            for connection in connections:
                answer = connection.read()
                self.assertTrue(answer.closes())
                counts.append(answer.json()["jobs_done"])
            self.assertEqual(sorted(counts), list(range(1, 25)))
            self.assertEqual(demo.wait(), 0)

    def test_long_answer_is_finished(self):
        with Demo() as demo, demo.connect() as connection:
            connection.send(request("GET", "/stream/100"))  # half a second
            connection.socket.recv(1, socket.MSG_PEEK)
            demo.signal(signal.SIGTERM)
            self.assertEqual(len(connection.read().body), 100 * 1024)
            self.assertEqual(demo.wait(), 0)


class TooLate(unittest.TestCase):
    settings = {"timeouts.drain": "1s", "timeouts.request": "50s"}

    def expect_aborted(self, connections):
        for connection in connections:
            try:
                answer = connection.read()
                self.assertEqual((answer.status, answer.error()["code"], answer.closes()), (503, "draining", True))
            except (wire.Broken, ConnectionResetError):
                pass  # broken off is an answer too; a 200 would not be

    def test_work_beyond_the_drain_deadline_is_aborted(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number), Demo(self.settings) as demo, contextlib.ExitStack() as stack:
                connections = busy_jobs(stack, demo, 3, 40000)
                demo.signal(number)
                self.expect_aborted(connections)
                self.assertEqual(demo.wait(), ABORTED)

    def test_queued_work_beyond_the_drain_deadline_is_aborted(self):
        with Demo({**self.settings, "server.shards": 1}) as demo, contextlib.ExitStack() as stack:
            connections = busy_jobs(stack, demo, 20, 40000)
            demo.signal(signal.SIGTERM)
            self.expect_aborted(connections)
            self.assertEqual(demo.wait(), ABORTED)

    def test_endless_stream_is_broken_off(self):
        with Demo(self.settings) as demo, demo.connect() as connection:
            connection.send(request("GET", "/stream/100000"))
            connection.socket.recv(1, socket.MSG_PEEK)
            demo.signal(signal.SIGTERM)
            with self.assertRaises((wire.Broken, ConnectionResetError)):
                connection.read()
            self.assertEqual(demo.wait(), ABORTED)
            self.assertIn("connections were cut", demo.log())

    def test_slow_clients_do_not_hold_it_up(self):
        with Demo({**self.settings, "timeouts.read": "50s"}) as demo, contextlib.ExitStack() as stack:
            connections = [stack.enter_context(demo.connect()) for _ in range(4)]
            connections[0].send(b"GET /mem/x HTTP/1.1\r\nHo")
            connections[1].send(head("POST /echo HTTP/1.1", "Host: demo", "Content-Length: 6") + b"abc")
            connections[2].send(request("GET", "/healthz") + b"GET /")
            connections[3].send(head("POST /echo HTTP/1.1", "Host: demo", "Transfer-Encoding: chunked") + b"5\r\nab")
            wire.poll(lambda: demo.metric('inflight_requests{route="/echo"}') == 2, "the bodies have begun")
            demo.signal(signal.SIGTERM)
            self.assertEqual(demo.wait(), ABORTED)

    def test_second_signal_aborts_at_once(self):
        for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)):
            # The drain deadline is far longer than it takes; that it is not waited for shows in the log.
            with self.subTest(first=first, second=second), Demo({**self.settings, "timeouts.drain": "5s"}) as demo, contextlib.ExitStack() as stack:
                connections = busy_jobs(stack, demo, 3, 40000)
                demo.signal(first)
                doors_closed(demo)
                demo.signal(second)
                self.expect_aborted(connections)
                self.assertEqual(demo.wait(), ABORTED)
                self.assertIn("second signal", demo.log())


class FromOutside(unittest.TestCase):
    """A probe and a scraper, while it drains."""

    def setUp(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.health = ("127.0.0.1", free.getsockname()[1])
        self.settings = {"timeouts.request": "50s", "server.metrics_addr": "%s:%d" % self.health}

    def expect_health(self, connection):
        ready = connection.ask("GET", "/readyz")
        self.assertEqual((ready.status, ready.json()["ready"], ready.json()["missing"]), (503, False, ["draining"]))
        alive = connection.ask("GET", "/healthz")
        self.assertEqual((alive.status, alive.body, alive.closes()), (200, b"ok\n", False))

    def test_readiness_is_503_and_health_200_until_the_end(self):
        with Demo(self.settings) as demo, contextlib.ExitStack() as stack:
            idle = [stack.enter_context(demo.connect()) for _ in range(8)]
            for connection in idle:
                connection.ask("GET", "/mem/x")
            job = busy_jobs(stack, demo, 1, 1500)[0]
            demo.signal(signal.SIGTERM)
            doors_closed(demo)
            for connection in idle:
                self.expect_health(connection)
            for _ in range(3):
                with wire.Connection(self.health) as probe:
                    self.expect_health(probe)
            late = idle[0].ask("GET", "/mem/x")
            self.assertEqual((late.status, late.error()["code"], late.closes()), (503, "draining", True))
            self.assertEqual(job.read().status, 200)
            self.assertEqual(demo.wait(), 0)
            for connection in idle[1:]:
                connection.expect_end()

    def test_the_last_scrape_shows_what_was_aborted(self):
        with Demo({**self.settings, "timeouts.drain": "1s"}) as demo, contextlib.ExitStack() as stack:
            scraper = stack.enter_context(wire.Connection(self.health))
            busy_jobs(stack, demo, 3, 40000)
            demo.signal(signal.SIGTERM)
            last = b""
            with contextlib.suppress(wire.Broken, wire.NoAnswer, ConnectionResetError, BrokenPipeError):
                while True:
                    last = scraper.ask("GET", "/metrics").body
            self.assertEqual(demo.wait(), ABORTED)
            self.assertIn(b'tasks_aborted_total{kind="connection"} 3\n', last)


class Load:
    """One client thread: keeps asking, and remembers what became of every request."""

    MIX = [("GET", "/mem/x", None), ("GET", "/job/3", None), ("POST", "/echo", b"e" * 3000), ("GET", "/stream/2", None), ("GET", "/healthz", None)]

    def __init__(self, demo, seed, reuse, ending):
        self.demo, self.random, self.reuse, self.ending = demo, random.Random(seed), reuse, ending
        self.complete, self.problems, self.lost = 0, [], []  # lost: when a request was sent that got no byte back
        self.closing_answers = 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while self.session():
                pass
        except Exception as problem:  # a broken client must not look like a quiet one
            self.problems.append(repr(problem))

    def session(self):
        try:
            connection = self.demo.connect()
        except OSError:
            return False  # the doors are closed
        with connection:
            for _ in range(self.random.randrange(1, 40) if self.reuse else 1):
                method, target, body = self.random.choice(self.MIX)
                sent = None
                try:
                    connection.send(request(method, target, body))
                    sent = time.monotonic()
                    answer = connection.read()
                except (wire.NoAnswer, BrokenPipeError, ConnectionResetError) as end:
                    if connection.buffer:
                        self.problems.append(f"{target} broke off behind {connection.buffer[:100]!r}: {end!r}")
                    elif sent is not None:
                        self.lost.append((sent, target))
                    return True
                except wire.Broken as problem:
                    self.problems.append(f"{target}: {problem!r}")
                    return True
                # Work on a connection that was idle when the end began is told so.
                late = answer.status == 503 and answer.closes() and answer.error()["code"] == "draining"
                if late and self.ending.is_set():
                    return True
                if answer.status != 200:
                    self.problems.append(f"{target}: {answer!r}")
                self.complete += 1
                if answer.closes():
                    self.closing_answers += 1
                    return True
        return True


class UnderLoad(unittest.TestCase):
    def check(self, number, rounds):
        for turn in range(rounds):
            with self.subTest(turn=turn), Demo({"server.max_conns": 2000, "server.max_inflight": 2000, "timeouts.drain": "5s", "timeouts.request": "20s"}) as demo:
                ending = threading.Event()
                clients = [Load(demo, turn * 100 + i, reuse=i % 4 != 0, ending=ending) for i in range(24)]
                for client in clients:
                    client.thread.start()
                try:
                    wire.poll(lambda: sum(client.complete for client in clients) > 300 + turn * 37, "the load runs")
                    killed = time.monotonic()
                    ending.set()
                    demo.signal(number)
                finally:
                    if not any(client.complete for client in clients):
                        demo.process.kill()
                    for client in clients:
                        client.thread.join()
                self.assertEqual(demo.wait(), 0, demo.log()[-1000:])
                self.assertEqual([problem for client in clients for problem in client.problems], [])
                # Sent before the signal: in the server's hands, so it must have been answered.
                early = [target for client in clients for sent, target in client.lost if sent < killed]
                self.assertEqual(early, [], "requests sent before the signal were lost")

    def test_terminate(self):
        self.check(signal.SIGTERM, 6)

    def test_interrupt(self):
        self.check(signal.SIGINT, 2)


if __name__ == "__main__":
    unittest.main()
