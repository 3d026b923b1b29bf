"""What runs is what is declared: tasks, queues and lanes of `cairn up`, by /debug/topology against `cairn topology`."""

import json
import os
import re

import wire
from registry_up import UpProcess
from storage_server import Connection, cairn

SHARDS = 2
DIRECTORIES = 2
# Tasks that belong to their server, and tasks that come and go.
UNCOUNTED = {"listener", "supervisor"}
SOMETIMES = {"afterwards", "pages", "connection", "conversation"}


def how_many(count):
    """How many there are of a task whose row says so."""
    if match := re.fullmatch(r"(one|\d+) per shard", count):
        return SHARDS * (1 if match[1] == "one" else int(match[1]))
    workers = max(SHARDS, min(os.cpu_count(), 8))
    return {"one": 1, "1": 1, "1, where quotas are kept": 1, "one, where there is an index": 1, "one per process": 1, "one per data directory": DIRECTORIES,
            "one, in tests of whole processes": 0, "pools.workers in the process, at least one per shard": workers}[count]


class Topology(UpProcess):
    def start(self, *settings):
        directories = ",".join(os.path.join(self.top, f"disk{i}") for i in range(DIRECTORIES))
        super().start("--set", f"shards={SHARDS}", "--set", f"storage.storage.data_dirs={directories}", *settings)

    def live(self, service):
        with Connection(("127.0.0.1", self.ports[service])) as connection:
            answer = connection.ask("GET", "/debug/topology")
            self.assertEqual(answer.status, 200, answer)
            return answer.json()

    def metrics(self, service):
        with Connection(("127.0.0.1", self.ports[service])) as connection:
            return connection.ask("GET", "/metrics").body.decode()

    def test_what_runs_is_what_is_declared(self):
        self.start()
        for service in ("storage", "registry", "gateway"):
            declared = json.loads(cairn("topology", service, "--json").stdout)
            expected = {task["name"]: how_many(task["count"]) for task in declared["tasks"] if task["name"] not in UNCOUNTED | SOMETIMES}
            self.assertGreater(len(expected), 8)

            def running():
                found = self.live(service)
                counts = {task["name"]: task["running"] for task in found["tasks"] if task["name"] in expected}
                return found if counts == expected else None

            found = wire.poll(running, f"the declared tasks of {service}: {expected}")
            for task in found["tasks"]:
                self.assertEqual("running" in task, task["name"] not in UNCOUNTED, task)
                task.pop("running", None)
            for queue in found["queues"]:
                self.assertEqual("depth" in queue, queue["kind"] != "watch", queue)
                depth = queue.pop("depth", 0)
                self.assertLessEqual(depth, queue["capacity"] * SHARDS, queue)
            for lane, row in zip(found["lanes"], declared["lanes"], strict=True):
                self.assertLessEqual(lane.pop("waiting"), lane["queue"])
                # A thread for each seat: the least that a lane has is what its row says.
                self.assertGreaterEqual(lane["threads"], DIRECTORIES + 1 if lane["name"] == "commit" else row["threads"])
                lane["threads"] = row["threads"]
            self.assertEqual(found, declared)

    def test_each_capacity_that_has_a_key_is_shown_as_configured(self):
        self.start("--set", "storage.queues.work=77", "--set", "storage.queues.changes=5", "--set", "registry.queues.proposals=3",
                   "--set", "registry.queues.audit=11", "--set", "registry.bus.channel_bound=9", "--set", "pools.read=4", "--set", "pools.dns=2")
        for service, expected in (("storage", {"work": 77, "changes": 5}), ("registry", {"proposals": 3, "audit": 11, "committed": 9, "feed": 9, "work": 512})):
            queues = {queue["name"]: queue["capacity"] for queue in self.live(service)["queues"]}
            self.assertEqual({name: queues[name] for name in expected}, expected)
            lanes = {lane["name"]: lane["threads"] for lane in self.live(service)["lanes"]}
            self.assertEqual((lanes["read"], lanes["dns"]), (4, 2))

    def test_a_queue_that_is_full_is_as_long_as_its_key_says(self):
        """Of the trail of refusals: those beyond its capacity within a second are counted as dropped."""
        self.start("--set", "registry.queues.audit=1")

        def refused():
            with Connection(("127.0.0.1", self.ports["registry"])) as connection:
                for target in ("/registry/proposals", "/registry/proposals/01J00000000000000000000000/approve", "/registry/proposals/01J00000000000000000000000/commit"):
                    connection.ask("POST", target, b"{}")
            return re.search(r"^registry_audit_dropped_total [1-9]", self.metrics("registry"), re.M)

        wire.poll(refused, "a dropped record of the audit trail")

    def test_how_many_jobs_wait_for_a_lane_is_a_metric_of_each_that_is_declared(self):
        self.start()
        for service in ("storage", "registry", "gateway"):
            shown = dict(re.findall(r'^pool_waiting\{lane="(\w+)"\} (\d+)$', self.metrics(service), re.M))
            self.assertEqual(set(shown), {lane["name"] for lane in self.live(service)["lanes"]})
            self.assertEqual(shown["dns"], "0")

    def test_how_many_tasks_run_is_a_metric(self):
        self.start()
        text = self.metrics("storage")
        self.assertRegex(text, r'tasks_running\{task="committer"\} 2')
        for task in ("listener", "connection", "conversation"):  # they belong to their server
            self.assertNotIn(f'tasks_running{{task="{task}"}}', text)

