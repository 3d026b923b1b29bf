"""Tasks that end with an exception in a real process under load: it is told, they come back, nothing wrong is served."""

import contextlib
import os
import tempfile
import threading
import unittest

import wire
from registry_server import Registry, region
from storage_server import Storage
from storage_weather import Client

# Not under a supervisor: the shard's own. What an exception does to them is not for a supervisor to mend.
UNSUPERVISED = {"supervisor", "listener", "connection", "conversation"}
# It would read its own name again after each restart, until it stays down.
UNFIT = {"chaos"}
ONLY_IN_UP = {"afterwards"}
TOO_OFTEN = 6  # more than five restarts in a minute


class Chaos:
    """The file by which a test makes tasks fail (see HostOptions::chaos)."""

    def __init__(self, stack):
        self.path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="cairn-chaos-")), "chaos")
        self.environment = {"CAIRN_CHAOS": self.path}
        self.number = 0

    def fail(self, service, task):
        self.number += 1
        with open(self.path + ".new", "w") as file:
            file.write(f"{self.number} {service} {task}\n")
        os.rename(self.path + ".new", self.path)


def declared(server):
    """name → kind of every task that a supervisor keeps and that runs."""
    tasks = {task["name"]: task["kind"] for task in server.ask("GET", "/debug/topology").json()["tasks"]}
    return {name: kind for name, kind in tasks.items()
            if name not in UNSUPERVISED | ONLY_IN_UP | UNFIT and server.metric(f'tasks_spawned_total{{kind="{kind}"}}') > 0}


def fail_and_await(server, chaos, service, task, kind):
    """Makes it fail, and waits until that was counted and the task runs again."""
    panicked, spawned = f'tasks_panicked_total{{kind="{kind}"}}', f'tasks_spawned_total{{kind="{kind}"}}'
    before = server.metrics()
    chaos.fail("host" if kind == "host" else service, task)

    def restarted():
        now = server.metrics()
        fell = now[panicked] - before[panicked]
        return fell > 0 and now[spawned] - before[spawned] >= fell
    wire.poll(restarted, f"{task} has failed and is back")


class StorageTasks(unittest.TestCase):
    def test_every_task_may_fail_under_load_and_nothing_wrong_is_served(self):
        with contextlib.ExitStack() as stack:
            chaos = Chaos(stack)
            storage = stack.enter_context(Storage({"storage.segment_size": "16MiB", "storage.cache_bytes": "4MiB"},
                                                  environment=chaos.environment))
            tasks = declared(storage)
            self.assertTrue({"worker", "event-log", "committer", "compactor", "scrubber", "sweeper", "gates", "reloader"} <= set(tasks), tasks)
            gate = threading.Event()
            gate.set()
            clients = [Client(storage, number, gate) for number in range(4)]
            for client in clients:
                client.thread.start()
            try:
                for _ in range(3):
                    for task, kind in tasks.items():
                        fail_and_await(storage, chaos, "storage", task, kind)
                        self.assertEqual(storage.ask_openly("GET", "/readyz").status, 200, task)
                        storage.post(task.encode())  # the committer is there
            finally:
                for client in clients:
                    client.stop.set()
                for client in clients:
                    client.thread.join()
            for again in (False, True):
                if again:
                    storage.restart()
                for client in clients:
                    client.check_all()
                self.assertEqual([problem for client in clients for problem in client.problems], [])
            statuses = {status for client in clients for _, status in client.counts}
            # What a worker had taken when it failed is answered all the same; 504 is the deadline of what it had not.
            self.assertTrue(statuses <= {200, 201, 204, 404, 503, 504}, statuses)

    def fails_too_often(self, storage, chaos, task):
        for count in range(1, TOO_OFTEN + 1):
            self.assertEqual(storage.ask_openly("GET", "/readyz").json()["missing"], [])
            chaos.fail("storage", task)
            wire.poll(lambda: storage.metric(f'tasks_panicked_total{{kind="{task}"}}') == count, "it has failed")
            if count < TOO_OFTEN:
                wire.poll(lambda: storage.metric(f'tasks_spawned_total{{kind="{task}"}}') == count + 1, "it is back")
        return wire.poll(lambda: (answer := storage.ask_openly("GET", "/readyz")).json()["missing"] and answer, "it is told")

    def test_a_degrading_task_that_fails_too_often_degrades_the_service_until_the_next_start(self):
        with contextlib.ExitStack() as stack:
            chaos = Chaos(stack)
            storage = stack.enter_context(Storage(environment=chaos.environment))
            ready = self.fails_too_often(storage, chaos, "sweeper")
            self.assertEqual(ready.status, 200)
            self.assertEqual({name: ready.json()[name] for name in ("ready", "write_ready", "degraded", "missing")},
                             {"ready": True, "write_ready": True, "degraded": True, "missing": ["background"]})
            self.assertEqual(storage.metric('tasks_running{task="sweeper"}'), 0)
            storage.post(b"still served")
            storage.restart()
            self.assertFalse(storage.ask_openly("GET", "/readyz").json()["degraded"])

    def test_an_essential_task_that_fails_too_often_makes_the_service_not_ready_until_the_next_start(self):
        with contextlib.ExitStack() as stack:
            chaos = Chaos(stack)
            storage = stack.enter_context(Storage(environment=chaos.environment))
            address = storage.post(b"before")
            ready = self.fails_too_often(storage, chaos, "committer")
            self.assertEqual((ready.status, ready.json()["missing"]), (503, ["tasks"]))
            self.assertEqual(storage.ask_openly("GET", "/healthz").status, 200)
            self.assertEqual(storage.ask_openly("GET", f"/o/{address}").body, b"before")
            storage.restart()
            self.assertEqual(storage.ask_openly("GET", "/readyz").status, 200)
            self.assertEqual(storage.ask_openly("GET", f"/o/{address}").body, b"before")

    def test_the_watch_on_the_keys_comes_back(self):
        with contextlib.ExitStack() as stack:
            chaos = Chaos(stack)
            storage = stack.enter_context(Storage(environment=chaos.environment))
            chaos.fail("host", "watch-keys")
            told = lambda: storage.log().count('"a task ended with an exception"')
            wire.poll(lambda: told() == 1, "it has failed")
            self.assertEqual(storage.ask_openly("GET", "/readyz").status, 200)
            storage.post(b"still served")

    def test_without_the_variable_there_is_no_such_file(self):
        with contextlib.ExitStack() as stack:
            chaos = Chaos(stack)
            chaos.fail("storage", "sweeper")
            storage = stack.enter_context(Storage())
            self.assertNotIn("chaos", storage.log())
            self.assertEqual(storage.metric('tasks_panicked_total{kind="sweeper"}'), 0)


class RegistryTasks(unittest.TestCase):
    def test_every_task_may_fail_under_load_and_the_history_verifies(self):
        with contextlib.ExitStack() as stack:
            chaos = Chaos(stack)
            registry = stack.enter_context(Registry(environment=chaos.environment))
            tasks = declared(registry)
            self.assertTrue({"worker", "event-log", "committer", "sweeper", "checkpointer", "pruner", "verifier", "publisher"} <= set(tasks), tasks)
            stop, problems, told = threading.Event(), [], []

            def change():
                turn = 0
                try:
                    while not stop.is_set():
                        turn += 1
                        told.append(registry.change(registry.next_items(region("turn", title=str(turn))))["version"])
                except Exception as problem:  # told by whoever looks
                    problems.append(repr(problem))

            def read():
                seen = 0
                try:
                    while not stop.is_set():
                        version = registry.head()["version"]
                        if version < seen:
                            problems.append(f"the head went back from {seen} to {version}")
                        seen = version
                except Exception as problem:
                    problems.append(repr(problem))
            threads = [threading.Thread(target=change), threading.Thread(target=read), threading.Thread(target=read)]
            for thread in threads:
                thread.start()
            try:
                for _ in range(3):
                    for task, kind in tasks.items():
                        fail_and_await(registry, chaos, "registry", task, kind)
                        self.assertEqual(registry.ask_openly("GET", "/readyz").status, 200, task)
                before = len(told)
                wire.poll(lambda: len(told) > before + 1 or problems, "commits go on")
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(problems, [])
            self.assertEqual(told, list(range(told[0], told[0] + len(told))))
            self.assertEqual(registry.head()["version"], told[-1])
            registry.verify(every=16)
            registry.restart()
            self.assertEqual(registry.head()["version"], told[-1])
            registry.verify(every=16)
