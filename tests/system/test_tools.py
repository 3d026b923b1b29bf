"""Other people's programs understand it: promtool, curl, wrk; and what it says of itself is true."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import demo as programs
import wire
from demo import Demo, DemoTest
from wire import request


def tool(test, *command, **options):
    """Runs an installed program; one that is missing is a failure, not a reason to skip."""
    if shutil.which(command[0]) is None:
        test.fail(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, timeout=wire.PATIENCE * 2, **options)


class Metrics(DemoTest):
    def exercise(self):
        for method, target, body in (("GET", "/mem/x", None), ("POST", "/echo", b"abc"), ("GET", "/job/1", None), ("GET", "/nothing", None),
                                     ("GET", "/job/abc", None), ("DELETE", "/echo", None), ("GET", "/stream/1", None), ("HEAD", "/healthz", None)):
            self.demo.ask(method, target, body)

    def test_promtool_has_nothing_to_say(self):
        for state in ("fresh", "used"):
            with self.subTest(state):
                result = tool(self, "promtool", "check", "metrics", input=self.demo.ask("GET", "/metrics").body)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))
            self.exercise()

    def test_type(self):
        self.assertRegex(self.demo.ask("GET", "/metrics").get("Content-Type"), r"^text/plain; ?version=0\.0\.4")

    def test_shared_metrics_are_there(self):
        self.exercise()
        families = {re.split(r"[{ ]", name)[0] for name in self.demo.metrics()}
        for name in ("http_requests_total", "request_latency_seconds_bucket", "request_latency_seconds_sum", "request_latency_seconds_count",
                     "inflight_requests", "rejected_total", "queue_depth", "queue_dropped_total", "tasks_spawned_total", "tasks_aborted_total",
                     "tasks_canceled_total", "tasks_panicked_total", "io_timeouts_total", "io_orphaned", "backoff_retries_total",
                     "shard_stalls_total", "amnesia_mode", "build_info", "config_reload_total"):
            with self.subTest(name):
                self.assertIn(name, families)

    def test_requests_are_counted(self):
        name = 'http_requests_total{route="/mem/{name:Segment}",method="GET",status="200"}'
        before = self.demo.metric(name)
        with self.demo.connect() as connection:
            for i in range(25):
                connection.ask("GET", f"/mem/{i}")
        self.assertEqual(self.demo.metric(name), before + 25)

    def test_labels_do_not_grow_with_what_strangers_send(self):
        for i in range(3):
            self.demo.ask("GET", f"/nothing/{i}")
            self.demo.ask("GET", f"/mem/{i}")
            before = set(self.demo.metrics())  # asking is counted too, so the first time does not tell
        for i in range(100, 150):
            self.demo.ask("GET", f"/nothing/{i}")
            self.demo.ask("GET", f"/mem/{i}")
        self.assertEqual(set(self.demo.metrics()), before)

    def test_nothing_is_left_in_flight(self):
        self.exercise()
        # The client has its last byte a moment before the server has ended the exchange.
        left = lambda: {name for name, value in self.demo.metrics().items() if name.startswith("inflight_requests") and value != 0}
        wire.poll(lambda: not left(), "no request is in flight")


class Pages(DemoTest):
    def test_version(self):
        answer = self.demo.ask("GET", "/version")
        self.assertEqual(answer.get("Content-Type"), "application/json")
        self.assertEqual(list(answer.json()), ["service", "version", "git", "build", "features"])
        self.assertEqual(answer.json()["service"], "demo")
        self.assertIsInstance(answer.json()["features"], list)

    def test_readiness(self):
        answer = self.demo.ask("GET", "/readyz")
        self.assertEqual((answer.status, answer.json()), (200, {"ready": True, "write_ready": True, "degraded": False, "missing": []}))

    def test_health(self):
        answer = self.demo.ask("GET", "/healthz")
        self.assertEqual((answer.status, answer.body.strip()), (200, b"ok"))

    def test_topology(self):
        live = self.demo.ask("GET", "/debug/topology").json()
        declared = json.loads(programs.run("topology", "--json").stdout)
        queues = {queue["name"]: queue for queue in live["queues"]}
        self.assertEqual(queues["work"]["capacity"], 512)
        self.assertEqual(queues["work"].pop("depth"), 0)
        for row in live["queues"] + live["tasks"] + live["lanes"]:
            for number in ("depth", "running", "waiting"):
                row.pop(number, None)
        self.assertEqual(live, declared)

    def test_topology_shows_the_configured_capacity(self):
        with Demo({"queues.work": 7}) as demo:
            work = next(queue for queue in demo.ask("GET", "/debug/topology").json()["queues"] if queue["name"] == "work")
            self.assertEqual(work["capacity"], 7)

    def test_topology_is_drawn(self):
        result = programs.run("topology", "--mermaid")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"(?m)^\s*(flowchart|graph) ")
        for name in ("work", "worker", "connection", "listener"):
            self.assertIn(name, result.stdout)
        text = programs.run("topology")
        self.assertEqual(text.returncode, 0)
        self.assertIn("work", text.stdout)

    def test_docs_are_written(self):
        with tempfile.TemporaryDirectory() as directory:
            os.mkdir(os.path.join(directory, "config"))
            os.mkdir(os.path.join(directory, "concurrency"))
            self.assertEqual(programs.run("docs", directory).returncode, 0)
            for name in ("config", "concurrency"):
                with open(os.path.join(directory, name, "demo.md")) as page:
                    self.assertIn("demo", page.read())

    def test_log_is_json_lines(self):
        with Demo(config="[server]\nmax_conns = 10\n") as demo:
            demo.reload("[server]\nmax_conns = 0\n")
            demo.stop()
            lines = demo.log().splitlines()
            self.assertGreaterEqual(len(lines), 2)
            for line in lines:
                self.assertIsInstance(json.loads(line), dict)


class Clients(DemoTest):
    @classmethod
    def fill(cls, directory):
        with open(os.path.join(directory, "data"), "wb") as file:
            file.write(bytes(range(256)) * 4000)

    def curl(self, path, *arguments, **options):
        result = tool(self, "curl", "-sS", "--fail-with-body", f"http://127.0.0.1:{self.demo.address[1]}{path}", *arguments, **options)
        self.assertEqual(result.returncode, 0, result)
        return result.stdout

    def test_curl_gets(self):
        self.assertEqual(len(self.curl("/mem/x")), 1024)
        self.assertEqual(self.curl("/stream/3"), b"." * 3072)
        self.assertEqual(self.curl("/file/data", "-r", "1000-1999"), (bytes(range(256)) * 4000)[1000:2000])
        self.assertEqual(self.curl("/healthz", "--http1.0"), b"ok\n")

    def test_curl_sends(self):
        body = os.urandom(900_000)  # over a mebibyte would be refused; over a kilobyte curl expects 100 Continue
        self.assertEqual(self.curl("/echo", "--data-binary", "@-", input=body), body)
        self.assertEqual(self.curl("/echo", "-T", "-", input=body), body)  # chunked
        self.assertEqual(self.curl("/echo", "--data-binary", "@-", "-H", "Expect: 100-continue", input=body), body)

    def test_curl_sees_the_early_answer(self):
        result = tool(self, "curl", "-sS", "-o", "-", "-w", "%{http_code}", f"http://127.0.0.1:{self.demo.address[1]}/echo", "--data-binary", "@-",
                      "-H", "Expect:", input=os.urandom(1_900_000))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.endswith(b"413"), result.stdout)

    def wrk(self, demo, target):
        result = tool(self, "wrk", "-t1", "-c16", "-d1s", f"http://127.0.0.1:{demo.address[1]}{target}", text=True)
        self.assertEqual(result.returncode, 0, result)
        self.assertNotIn("Socket errors", result.stdout)
        return result.stdout

    def test_wrk_below_the_rate_sees_success_only(self):
        for target in ("/mem/x", "/file/data", "/stream/0"):
            with self.subTest(target):
                output = self.wrk(self.demo, target)
                self.assertNotIn("Non-2xx", output)
                self.assertGreater(int(re.search(r"(\d+) requests in", output)[1]), 0)

    def test_wrk_over_the_rate_sees_refusals(self):
        with Demo({"server.max_rps": 500}) as demo:
            output = self.wrk(demo, "/mem/x")
            total = int(re.search(r"(\d+) requests in", output)[1])
            refused = int(re.search(r"Non-2xx or 3xx responses: (\d+)", output)[1])
            self.assertGreaterEqual(total - refused, 500)
            self.assertLess(total - refused, total)
            with demo.connect() as connection:
                connection.send(request("GET", "/mem/x") * 700)
                codes = set()
                for _ in range(700):
                    answer = connection.read()
                    codes.add(answer.status if answer.status == 200 else (answer.status, answer.error()["code"]))
                self.assertLessEqual(codes, {200, (429, "quota")})
                self.assertIn((429, "quota"), codes)


if __name__ == "__main__":
    unittest.main()
