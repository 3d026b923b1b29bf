"""Every cap says no in its own words, and lets go again."""

import contextlib
import json
import re
import unittest
import uuid

import wire
from demo import Demo, DemoTest
from wire import head, request

JOBS = 'inflight_requests{route="/job/{ms:Int}"}'
RESERVE = 16


def busy_jobs(stack, demo, count, ms=20000):
    """Starts jobs, each on a connection of its own, and waits until all are counted."""
    connections = [stack.enter_context(demo.connect()).send(request("GET", f"/job/{ms}")) for _ in range(count)]
    wire.poll(lambda: demo.metric(JOBS) >= count, f"{count} jobs in flight")
    return connections


class Case(unittest.TestCase):
    def assert_error(self, answer, status, code):
        self.assertEqual((answer.status, answer.error()["code"]), (status, code), answer)

    def assert_busy(self, answer):
        self.assert_error(answer, 429, "busy")
        self.assertEqual(answer.get("Retry-After"), "1")


class Connections(Case):
    def check_reserve(self, demo, cap):
        with contextlib.ExitStack() as stack:
            connect = lambda: stack.enter_context(demo.connect())
            inside = busy_jobs(stack, demo, cap)  # who is busy does not give way
            reserve = [connect() for _ in range(RESERVE)]
            for i, connection in enumerate(reserve):
                target = ("/healthz", "/readyz", "/version", "/metrics")[i % 4]
                method = ("GET", "HEAD")[i // 4 % 2]
                answer = connection.ask(method, target)
                self.assertEqual((answer.status, answer.get("Connection")), (200, None), target)
            # A reserve connection serves health as often as asked.
            self.assertEqual(reserve[0].ask("GET", "/healthz").status, 200)

            # Beyond the reserve: a well-formed refusal of anything, and silence is closed.
            with demo.connect() as outside, demo.connect() as silent:
                refused = outside.ask("GET", "/healthz")
                self.assertEqual((refused.status, json.loads(refused.body)["error"]["code"], refused.closes()), (429, "busy", True))
                outside.expect_end()
                silent.expect_end()

            for connection in reserve[:3]:
                answer = connection.ask("GET", "/mem/x")
                self.assert_busy(answer)
                self.assertTrue(answer.closes())
                connection.expect_end()
                connection.close()
            # A place that became free can be taken again.
            inside.pop().close()
            def again():
                with demo.connect() as connection:
                    return connection.ask("GET", "/mem/x").status == 200
            wire.poll(again, "the freed place is used")

    def test_total(self):
        with Demo({"server.max_conns": 5, "timeouts.request": "30s"}) as demo:
            self.check_reserve(demo, 5)

    def test_per_address(self):
        with Demo({"server.max_conns_per_ip": 5, "timeouts.request": "30s"}) as demo:
            self.check_reserve(demo, 5)

    def test_per_address_is_per_address(self):
        with Demo({"server.max_conns_per_ip": 2}) as demo, contextlib.ExitStack() as stack:
            for _ in range(2):
                self.assertEqual(stack.enter_context(demo.connect()).ask("GET", "/mem/x").status, 200)
            import socket
            other = stack.enter_context(socket.socket())
            other.settimeout(wire.PATIENCE)
            other.bind(("127.0.0.2", 0))
            other.connect(demo.address)
            other.sendall(request("GET", "/mem/x"))
            self.assertTrue(other.recv(100).startswith(b"HTTP/1.1 200 "))

    def test_any_other_request_on_a_reserve_connection(self):
        with Demo({"server.max_conns": 1, "timeouts.request": "30s"}) as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 1)
            for method, target in (("GET", "/nothing"), ("POST", "/healthz"), ("GET", "/debug/topology"), ("POST", "/echo")):
                with self.subTest(f"{method} {target}"), demo.connect() as connection:
                    answer = connection.ask(method, target)
                    self.assert_busy(answer)
                    self.assertTrue(answer.closes())

    def test_refusal_arrives_although_a_request_was_sent(self):
        with Demo({"server.max_conns": 1, "timeouts.request": "30s"}) as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 1)
            for _ in range(20):
                with demo.connect() as connection:
                    connection.send_as_it_goes([request("GET", "/mem/x")])
                    self.assertEqual(connection.read().status, 429)

    def test_counted(self):
        with Demo({"server.max_conns": 1, "timeouts.request": "30s"}) as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 1)
            with demo.connect() as told, demo.connect() as silent:
                self.assertEqual(told.ask("GET", "/mem/x").status, 429)
                silent.expect_end()
            self.assertEqual(demo.metric('rejected_total{reason="connections"}'), 2)


class Requests(Case):
    def test_inflight(self):
        with Demo({"server.max_inflight": 3, "timeouts.request": "30s"}) as demo, contextlib.ExitStack() as stack:
            jobs = busy_jobs(stack, demo, 3)
            with demo.connect() as connection:
                for target in ("/mem/x", "/job/0"):
                    answer = connection.ask("GET", target)
                    self.assert_busy(answer)
                    self.assertFalse(answer.closes())
                for target in ("/healthz", "/readyz", "/version", "/metrics"):
                    self.assertEqual(connection.ask("GET", target).status, 200)
            samples = demo.metrics()
            self.assertEqual(samples['rejected_total{reason="inflight"}'], 2)
            self.assertEqual(samples['busy_rejections_total{endpoint="/mem/{name:Segment}"}'], 1)
            jobs[0].close()
            wire.poll(lambda: demo.ask("GET", "/mem/x").status == 200, "the freed place is used")

    def test_rate(self):
        with Demo({"server.max_rps": 5}) as demo, demo.connect() as connection:
            answers = [connection.send(request("GET", "/mem/x")).read() for _ in range(40)]
            refused = [answer for answer in answers if answer.status != 200]
            self.assertGreaterEqual(len(answers) - len(refused), 5)
            self.assertGreater(len(refused), 10)
            for answer in refused:
                self.assert_error(answer, 429, "quota")
                self.assertGreaterEqual(int(answer.get("Retry-After")), 1)
                self.assertFalse(answer.closes())
            for _ in range(20):
                self.assertEqual(connection.ask("GET", "/healthz").status, 200)
            self.assertEqual(demo.metric('rejected_total{reason="rate"}'), len(refused))
            wire.poll(lambda: connection.ask("GET", "/mem/x").status == 200, "the bucket fills again")

    def test_work_queue(self):
        with Demo({"queues.work": 4, "timeouts.request": "30s"}) as demo, contextlib.ExitStack() as stack:
            connections = [stack.enter_context(demo.connect()).send(request("GET", "/job/700")) for _ in range(60)]
            answers = [connection.read() for connection in connections]
            done = [answer for answer in answers if answer.status == 200]
            refused = [answer for answer in answers if answer.status != 200]
            # Four places beside sixteen workers.
            self.assertGreaterEqual(len(done), 4)
            self.assertLessEqual(len(done), 4 + 16)
            for answer in refused:
                self.assert_busy(answer)
                self.assertFalse(answer.closes())
            samples = demo.metrics()
            self.assertEqual(samples['queue_dropped_total{queue="work"}'], len(refused))
            self.assertEqual(samples['rejected_total{reason="queue"}'], len(refused))
            self.assertEqual(samples['queue_depth{queue="work"}'], 0)
            self.assertEqual(demo.ask("GET", "/job/0").status, 200)

    def test_queue_has_places_beside_the_workers(self):
        with Demo({"queues.work": 4, "server.shards": 1, "timeouts.request": "30s"}) as demo, contextlib.ExitStack() as stack:
            # Eight idle workers take eight jobs, whatever the places to wait are.
            connections = []
            for i in range(8):
                connections.append(stack.enter_context(demo.connect()).send(request("GET", "/job/500")))
                wire.poll(lambda: demo.metric(JOBS) == i + 1 or demo.metric('queue_dropped_total{queue="work"}') > 0, "the job runs")
            self.assertEqual([connection.read().status for connection in connections], [200] * 8)

    def test_work_queue_depth_is_shown(self):
        with Demo({"server.shards": 1, "timeouts.request": "30s"}) as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 11)  # eight workers
            self.assertEqual(demo.metric('queue_depth{queue="work"}'), 3)
            work = next(q for q in demo.ask("GET", "/debug/topology").json()["queues"] if q["name"] == "work")
            self.assertEqual(work["depth"], 3)


class Errors(DemoTest):
    def test_shape_of_an_error(self):
        answer = self.demo.ask("GET", "/nothing", X_Corr_ID="my-corr-id-1")
        self.assertEqual(answer.body, b'{"error":{"code":"not_found","message":"no such path","corr_id":"my-corr-id-1"}}')
        self.assertEqual(answer.get("Content-Type"), "application/json")

    def test_shape_of_an_error_with_retry(self):
        with Demo({"server.max_inflight": 1, "timeouts.request": "30s"}) as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 1)
            answer = demo.ask("GET", "/mem/x", X_Corr_ID="my-corr-id-1")
            self.assertRegex(answer.body.decode(), r'^\{"error":\{"code":"busy","message":"[a-z ]+","corr_id":"my-corr-id-1","retry_after":1\}\}$')

    def test_corr_id_is_echoed(self):
        connection = self.connect()
        ids = ["01ARZ3NDEKTSV4RRFFQ69G5FAV", str(uuid.UUID(int=7)), "abcdefgh", "A_b-9" * 3, "z" * 64, "--------"]
        for wanted in ids:
            for target in ("/mem/x", "/nothing", "/healthz", "/job/0"):
                with self.subTest(f"{wanted} {target}"):
                    self.assertEqual(connection.ask("GET", target, X_Corr_ID=wanted).get("X-Corr-ID"), wanted)

    def test_unfit_corr_id_is_replaced(self):
        connection = self.connect()
        for given in ("", "short", "1234567", "z" * 65, "has blank", "semi;colon", "quote\"quote", "caf\xe9caf\xe9", "a/b/c/d/e", "x" * 5000):
            with self.subTest(given):
                self.assertRegex(connection.ask("GET", "/mem/x", X_Corr_ID=given).get("X-Corr-ID"), rf"^{wire.ULID.pattern}$")

    def test_repeated_corr_id_is_no_injection(self):
        connection = self.connect()
        connection.send(head("GET /mem/x HTTP/1.1", "Host: demo", "X-Corr-ID: abcdefgh-1", "X-Corr-ID: abcdefgh-2"))
        given = connection.read().get("X-Corr-ID")
        self.assertTrue(given == "abcdefgh-1" or wire.ULID.fullmatch(given))

    def test_fresh_corr_ids_differ_and_grow(self):
        connection = self.connect()
        ids = [connection.ask("GET", "/mem/x").get("X-Corr-ID") for _ in range(200)]
        self.assertEqual(len(set(ids)), 200)
        times = [given[:10] for given in ids]
        self.assertEqual(times, sorted(times))

    def test_date_is_now(self):
        import email.utils
        import time
        seen = email.utils.parsedate_to_datetime(self.demo.ask("GET", "/mem/x").get("Date")).timestamp()
        self.assertLess(abs(seen - time.time()), wire.PATIENCE)
        self.assertTrue(re.fullmatch(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", self.demo.ask("GET", "/mem/x").get("Date")))


if __name__ == "__main__":
    unittest.main()
