"""What fails behind the gateway or within it, under load: it is told, it comes back, and nothing wrong is served."""

import contextlib
import os
import signal
import threading
import time
import unittest

import wire
from gateway_server import TRUSTING, Gateway, Scripted
from storage_server import Storage
from test_chaos import TOO_OFTEN, Chaos, declared, fail_and_await
from wire import request


class Load:
    """Clients that read one object over and over, each answer with its status, and what was wrong."""

    def __init__(self, gateway, address, body, count=4):
        self.gateway, self.address, self.body = gateway, address, body
        self.over, self.seen, self.wrong = threading.Event(), {}, []
        self.threads = [threading.Thread(target=self.run) for _ in range(count)]

    def run(self):
        while not self.over.is_set():
            with contextlib.suppress(wire.Broken, OSError), self.gateway.connect() as connection:
                while not self.over.is_set():
                    answer = connection.ask("GET", f"/o/{self.address}")
                    self.seen[answer.status] = self.seen.get(answer.status, 0) + 1
                    if answer.status == 200 and answer.body != self.body:
                        self.wrong.append(len(answer.body))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def served(self):
        """Waits until something is served from now on."""
        before = self.seen.get(200, 0)
        wire.poll(lambda: self.seen.get(200, 0) > before, "it is served")


def ready(gateway):
    answer = gateway.ask_openly("GET", "/readyz")
    return answer.status, answer.json()["missing"]


class Upstream(unittest.TestCase):
    def test_readyz_tells_of_an_upstream_killed_under_load_and_recovers_when_it_is_back(self):
        storage = self.enterContext(Storage(TRUSTING))
        body = os.urandom(100_000)
        address = storage.post(body)
        gateway = self.enterContext(Gateway({"breaker.cooldown": "200ms"}, storage="%s:%d" % storage.address, token=storage.token))
        # Of so many, some are on the shard that samples.
        with Load(gateway, address, body, 16) as load:
            load.served()
            wire.poll(lambda: ready(gateway) == (200, []), "every worker is there")
            for _ in range(2):
                storage.kill()
                # Reads are still tried; what changes something is shed.
                wire.poll(lambda: ready(gateway) == (200, ["accepts-changes"]), "/readyz tells")
                self.assertGreater(gateway.metric("gateway_degraded"), 0)
                refused = gateway.ask("POST", "/o", b"a change")
                self.assertEqual((refused.status, refused.error()["code"]), (503, "degraded"))
                self.assertEqual(refused.get("Retry-After"), "1")
                storage.bind = "%s:%d" % storage.address
                storage.start()
                load.served()
                wire.poll(lambda: ready(gateway) == (200, []), "/readyz recovers")
                self.assertEqual(gateway.metric("gateway_degraded"), 0)
                # Another process may have to wait long for a loaded disk.
                wire.poll(lambda: gateway.ask("POST", "/o", os.urandom(100)).status == 201, "a change is taken")
        self.assertEqual(load.wrong, [])
        self.assertLessEqual(set(load.seen), {200, 502, 503})

    def test_a_dead_upstream_is_answered_503_at_once_and_nothing_piles_up(self):
        """While the breaker is open a thousand requests need no upstream; then one probe at a time finds it back."""
        with Scripted(lambda line, _: False) as dead:
            address = dead.address
        gateway = self.enterContext(Gateway({"server.shards": 1, "breaker.cooldown": "30s"}, storage=address))
        while gateway.ask_openly("GET", "/o/a").status != 503:
            pass
        with gateway.connect() as connection:
            for _ in range(20):
                connection.send(request("GET", "/o/a") * 50)
                for _ in range(50):
                    answer = connection.read()
                    self.assertEqual((answer.status, answer.error()["code"]), (503, "breaker_open"))
                    self.assertGreaterEqual(int(answer.get("Retry-After")), 1)
        failures = gateway.metric('gateway_upstream_failures_total{target="storage"}')
        self.assertLessEqual(failures, 5)
        self.assertEqual(gateway.metric('queue_depth{queue="work"}'), 0)


class Tasks(unittest.TestCase):
    def setUp(self):
        self.chaos = Chaos(self.enterContext(contextlib.ExitStack()))
        self.storage = self.enterContext(Storage(TRUSTING))
        self.body = os.urandom(50_000)
        self.address = self.storage.post(self.body)
        # Few slots, so that requests wait and the scheduler has work.
        self.gateway = self.enterContext(Gateway({"pools.workers": 2, "pools.worker_slots": 2}, storage="%s:%d" % self.storage.address,
                                                 environment=self.chaos.environment))

    def test_every_task_may_fail_under_load_and_nothing_wrong_is_served(self):
        tasks = {name: kind for name, kind in declared(self.gateway).items() if self.gateway.metric(f'tasks_running{{task="{name}"}}') > 0}
        self.assertTrue({"worker", "scheduler", "prober", "history", "quota-keeper"} <= set(tasks), tasks)
        with Load(self.gateway, self.address, self.body, 8) as load:
            for _ in range(2):
                for task, kind in tasks.items():
                    fail_and_await(self.gateway, self.chaos, "gateway", task, kind)
                    wire.poll(lambda: ready(self.gateway) == (200, []), f"/readyz recovers from {task}")
                    load.served()
        self.assertEqual(load.wrong, [])
        # 504 is the deadline of what a worker had not begun when it failed.
        self.assertLessEqual(set(load.seen), {200, 503, 504})
        wire.poll(lambda: self.gateway.metric('inflight_requests{route="/o/{rest:Rest}"}') == 0, "nothing is left in flight")

    def test_workers_killed_too_often_are_told_by_readyz_until_the_next_start(self):
        with Load(self.gateway, self.address, self.body) as load:
            load.served()
            count = lambda what: self.gateway.metric(f'tasks_{what}_total{{kind="worker"}}')
            told = []
            for turn in range(TOO_OFTEN):
                wire.poll(lambda: count("spawned") == 2 * (turn + 1), "both run")
                self.chaos.fail("gateway", "worker")
                wire.poll(lambda: count("panicked") == 2 * (turn + 1), "both have failed")
                # Each restart waits longer than the one before.
                until = time.monotonic() + 0.3
                while time.monotonic() < until and (not told or told[-1][0] != 503):
                    told.append(ready(self.gateway))
            self.assertTrue(any(status == 503 and {"slots", "workers"} <= set(missing) for status, missing in told), told)
            wire.poll(lambda: ready(self.gateway) == (503, ["slots", "workers", "tasks"]), "/readyz tells that they stay down")
            self.assertEqual(self.gateway.ask_openly("GET", "/healthz").status, 200)
        self.assertIn(self.gateway.stop(), (0, 10))
        os.remove(self.chaos.path)
        self.gateway.start()
        # The workers of the other shard begin in their own time.
        wire.poll(lambda: ready(self.gateway) == (200, []), "/readyz recovers")
        self.assertEqual(self.gateway.ask_openly("GET", f"/o/{self.address}").body, self.body)

    def waiting_for_a_worker(self):
        """A gateway without a worker for a moment, and six requests that wait for it. Nothing, if the moment was too short."""
        settings = {"server.shards": 1, "pools.workers": 1, "pools.worker_slots": 8, "queues.sched": 1}
        chaos = Chaos(self.enterContext(contextlib.ExitStack()))
        gateway = self.enterContext(Gateway(settings, storage="%s:%d" % self.storage.address, environment=chaos.environment))
        count = lambda what: gateway.metric(f'tasks_{what}_total{{kind="worker"}}')
        for turn in range(TOO_OFTEN - 1):  # each restart waits longer than the one before
            wire.poll(lambda: count("spawned") == turn + 1, "it runs")
            chaos.fail("gateway", "worker")
            wire.poll(lambda: count("panicked") == turn + 1, "it has failed")
        connections = [self.enterContext(gateway.connect()) for _ in range(6)]
        for connection in connections:
            connection.send(request("GET", f"/o/{self.address}"))
        wire.poll(lambda: gateway.metric('queue_depth{queue="work"}') == 6 or count("spawned") == TOO_OFTEN, "they wait")
        return (gateway, connections) if count("spawned") < TOO_OFTEN else None

    def test_a_full_sched_drops_the_oldest_and_its_client_is_told_503_degraded(self):
        """Grants for all that wait come at once when a worker is back, and `sched` has room for one."""
        gateway, connections = next(filter(None, (self.waiting_for_a_worker() for _ in range(5))))
        answers = [connection.read() for connection in connections]
        dropped = [answer for answer in answers if answer.status != 200]
        self.assertTrue(0 < len(dropped) < 6, answers)
        self.assertEqual({(answer.status, answer.error()["code"], answer.get("Retry-After")) for answer in dropped}, {(503, "degraded", "1")})
        self.assertEqual(gateway.metric('queue_dropped_total{queue="sched"}'), len(dropped))
        self.assertEqual({answer.body for answer in answers if answer.status == 200}, {self.body})

    def test_the_drain_deadline_holds_while_workers_fail(self):
        with Load(self.gateway, self.address, self.body, 8) as load:
            load.served()
            self.chaos.fail("gateway", "worker")
            wire.poll(lambda: self.gateway.metric('tasks_panicked_total{kind="worker"}') >= 1, "a worker has failed")
            self.gateway.process.send_signal(signal.SIGTERM)
            self.chaos.fail("gateway", "worker")
            began = time.monotonic()
            self.assertIn(self.gateway.wait(), (0, 10))
            # Three seconds of drain; a machine under load may take its time.
            self.assertLess(time.monotonic() - began, wire.PATIENCE)
        self.assertEqual(load.wrong, [])


if __name__ == "__main__":
    unittest.main()
