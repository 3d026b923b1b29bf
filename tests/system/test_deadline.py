"""A deadline is kept: what it stops has no effect, and who leaves stops what was done for them."""

import contextlib
import datetime
import signal
import unittest

import wire
from demo import Demo, DemoTest
from test_limits import JOBS, busy_jobs
from wire import head, request

WORKERS = 8


def rfc3339(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class Shortened(DemoTest):
    settings = {"timeouts.request": "20s"}

    def test_client_shortens(self):
        connection = self.connect()
        for name, fields in (("Request-Timeout", {"Request_Timeout": "0.1"}), ("Request-Timeout 0", {"Request_Timeout": "0"}),
                             ("X-Deadline-Ms", {"X_Deadline_Ms": "100"}), ("X-Deadline-Ms 0", {"X_Deadline_Ms": "0"}),
                             ("Deadline", {"Deadline": rfc3339(0.1)}), ("Deadline of the past", {"Deadline": "2001-01-01T00:00:00Z"}),
                             ("the shortest of several", {"Request_Timeout": "15", "X_Deadline_Ms": "50", "Deadline": rfc3339(15)})):
            with self.subTest(name):
                answer = connection.ask("GET", "/job/15000", **fields)
                self.assert_error(answer, 504, "timeout")
                self.assertFalse(answer.closes())
                self.assertIsNone(answer.get("Retry-After"))

    def test_long_enough(self):
        connection = self.connect()
        for name, fields in (("Request-Timeout", {"Request_Timeout": "10"}), ("X-Deadline-Ms", {"X_Deadline_Ms": "10000"}), ("Deadline", {"Deadline": rfc3339(10)})):
            with self.subTest(name):
                self.assertEqual(connection.ask("GET", "/job/20", **fields).status, 200)

    def test_nonsense_does_not_count(self):
        connection = self.connect()
        for fields in ({"Request_Timeout": "soon"}, {"Request_Timeout": "-1"}, {"X_Deadline_Ms": "1e1"}, {"X_Deadline_Ms": ""}, {"Deadline": "tomorrow"}):
            with self.subTest(fields):
                self.assertEqual(connection.ask("GET", "/job/50", **fields).status, 200)

    def test_deadline_is_over_with_the_response_head(self):
        answer = self.connect().ask("GET", "/stream/60", X_Deadline_Ms="150")
        self.assertEqual((answer.status, len(answer.body)), (200, 60 * 1024))

    def test_deadline_while_the_body_arrives(self):
        connection = self.connect()
        connection.send(head("POST /echo HTTP/1.1", "Host: demo", "Content-Length: 10", "X-Deadline-Ms: 100") + b"abc")
        answer = connection.read()
        self.assertIn((answer.status, answer.error()["code"]), ((504, "timeout"), (408, "timeout_read")))
        self.assertTrue(answer.closes())


class Kept(unittest.TestCase):
    def assert_timeout(self, answer):
        self.assertEqual((answer.status, answer.error()["code"]), (504, "timeout"), answer)

    def test_client_never_lengthens(self):
        with Demo({"timeouts.request": "100ms"}) as demo:
            for fields in ({}, {"Request_Timeout": "60"}, {"X_Deadline_Ms": "60000"}, {"Deadline": rfc3339(60)}, {"X_Deadline_Ms": "9223372036854775807"}):
                with self.subTest(fields):
                    self.assert_timeout(demo.ask("GET", "/job/30000", **fields))

    def test_queued_work_is_never_started(self):
        with Demo({"server.shards": 1, "timeouts.request": "30s"}) as demo, contextlib.ExitStack() as stack:
            self.assertEqual(demo.ask("GET", "/job/0").json()["jobs_done"], 1)
            running = busy_jobs(stack, demo, WORKERS, 1000)
            queued = [stack.enter_context(demo.connect()).send(request("GET", "/job/1", X_Deadline_Ms="50")) for _ in range(10)]
            for connection in queued:
                self.assert_timeout(connection.read())
            counts = [connection.read().json()["jobs_done"] for connection in running]
            self.assertEqual(sorted(counts), list(range(2, 2 + WORKERS)))
            self.assertEqual(demo.ask("GET", "/job/0").json()["jobs_done"], 2 + WORKERS)
            self.assertEqual(demo.metric('queue_depth{queue="work"}'), 0)

    def test_running_work_is_stopped(self):
        with Demo({"server.shards": 1}) as demo:
            self.assert_timeout(demo.ask("GET", "/job/3000", X_Deadline_Ms="50"))
            self.assertEqual(demo.metric(JOBS), 0)
            self.assertEqual(demo.ask("GET", "/job/0").json()["jobs_done"], 1)

    def test_client_that_leaves_cancels_its_work(self):
        with Demo({"timeouts.request": "50s", "server.shards": 1}) as demo:
            with contextlib.ExitStack() as stack:
                busy_jobs(stack, demo, WORKERS + 4, 50000)  # some run, some wait
            wire.poll(lambda: demo.metric(JOBS) == 0, "no job in flight")
            wire.poll(lambda: demo.metric('queue_depth{queue="work"}') == 0, "no job queued")
            self.assertEqual(demo.ask("GET", "/job/0").json()["jobs_done"], 1)

    def test_client_that_resets_cancels_its_work(self):
        import socket
        import struct
        with Demo({"timeouts.request": "50s"}) as demo:
            with contextlib.ExitStack() as stack:
                for connection in busy_jobs(stack, demo, 5, 50000):
                    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.poll(lambda: demo.metric(JOBS) == 0, "no job in flight")

    def test_client_that_left_before_it_was_heard(self):
        # Everything, the end included, is there before the server looks.
        with Demo({"timeouts.request": "50s", "timeouts.read": "50s"}) as demo:
            demo.signal(signal.SIGSTOP)
            for i in range(20):
                with demo.connect() as connection:
                    if i % 2:
                        connection.send(request("GET", "/job/50000"))
                    else:
                        connection.send(head("POST /echo HTTP/1.1", "Host: demo", "Content-Length: 1000") + b"a" * 10)
            demo.signal(signal.SIGCONT)
            for route in (JOBS, 'inflight_requests{route="/echo"}'):
                wire.poll(lambda: demo.metric(route) == 0, f"0 {route}")

    def test_half_closed_client_is_answered_and_let_go(self):
        with Demo() as demo, demo.connect() as connection:
            demo.signal(signal.SIGSTOP)
            connection.send(request("GET", "/mem/x") * 3).finish_sending()
            demo.signal(signal.SIGCONT)
            for _ in range(3):
                self.assertEqual(connection.read().status, 200)
            connection.expect_end()

    def test_client_that_leaves_in_the_middle_of_its_body(self):
        with Demo({"timeouts.request": "50s", "timeouts.read": "50s"}) as demo:
            for _ in range(30):
                with demo.connect() as connection:
                    connection.send(head("POST /echo HTTP/1.1", "Host: demo", "Content-Length: 1000") + b"a" * 10)
            wire.poll(lambda: demo.metric('inflight_requests{route="/echo"}') == 0, "no body in flight")

    def test_client_that_leaves_in_the_middle_of_a_stream(self):
        with Demo() as demo:
            for _ in range(10):
                with demo.connect() as connection:
                    connection.send(request("GET", "/stream/100000"))
                    connection.socket.recv(2000)
            wire.poll(lambda: demo.metric('inflight_requests{route="/stream/{parts:Int}"}') == 0, "no stream in flight")

    def test_half_closed_client_is_not_told_of_a_shutdown(self):
        with Demo() as demo, demo.connect() as connection:
            connection.send(request("GET", "/job/50")).finish_sending()
            try:
                self.assertEqual(connection.read().status, 200)
            except wire.NoAnswer:
                pass  # it may be taken for gone; it must not be told something wrong


if __name__ == "__main__":
    unittest.main()
