"""Two services in one process: each with its own table, listener and metrics; one start and one end."""

import os
import re
import signal
import subprocess
import tempfile
import threading
import unittest

import demo
import wire


class Pair:
    def __init__(self, *settings, config=None):
        self.directory = tempfile.TemporaryDirectory(prefix="cairn-pair-")
        self.log_path = os.path.join(self.directory.name, "log")
        self.config_path = os.path.join(self.directory.name, "pair.toml")
        arguments = [demo.binary(), "pair"]
        if config is not None:
            self.write_config(config)
            arguments += ["--config", self.config_path]
        for setting in settings:
            arguments += ["--set", setting]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env=demo.clean_environment())
        lines = [self.process.stdout.readline() for _ in range(2)]
        found = [re.fullmatch(r"cairn-demo serves http://([0-9.]+):([0-9]+)/\n", line) for line in lines]
        if not all(found):
            said = self.log()
            self.end()
            raise AssertionError(f"did not start: {lines} {said}")
        self.below, self.above = ((match[1], int(match[2])) for match in found)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.directory.cleanup()

    def write_config(self, text):
        with open(self.config_path, "w") as file:
            file.write(text)

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def ask(self, address, method, target, body=None):
        with wire.Connection(address) as connection:
            return connection.ask(method, target, body)


class Together(unittest.TestCase):
    def test_each_service_has_its_own_table_listener_and_metrics(self):
        with Pair("shards=2", "above.limits.max_body_bytes=10B", "log.level=warn") as pair:
            self.assertEqual(pair.ask(pair.below, "POST", "/echo", b"x" * 100).status, 200)
            self.assertEqual(pair.ask(pair.above, "POST", "/echo", b"x" * 100).status, 413)
            for address, seen in ((pair.below, 0), (pair.above, 1)):
                metrics = pair.ask(address, "GET", "/metrics").body.decode()
                self.assertIn(f'rejected_total{{reason="body_cap"}} {seen}', metrics)
            pair.process.send_signal(signal.SIGTERM)
            self.assertEqual(pair.process.wait(wire.PATIENCE), 0)

    def test_what_belongs_to_the_process_is_no_key_of_a_service(self):
        for setting in ("above.server.shards=1", "above.log.level=warn", "server.bind=127.0.0.1:0"):
            ended = demo.run("pair", "--set", setting)
            self.assertEqual(ended.returncode, 78, setting)
            self.assertIn("unknown key", ended.stderr)

    def test_a_taken_port_is_told_at_once(self):
        with Pair("shards=2") as pair:
            ended = demo.run("pair", "--set", f"above.server.bind=127.0.0.1:{pair.below[1]}")
            self.assertEqual(ended.returncode, 1)
            self.assertIn("cannot listen on", ended.stderr)

    def test_reload_reaches_the_service_it_names(self):
        with Pair("shards=2", config="") as pair:
            self.assertEqual(pair.ask(pair.above, "POST", "/echo", b"x" * 100).status, 200)
            pair.write_config("[above.limits]\nmax_body_bytes = \"10B\"\n")
            pair.process.send_signal(signal.SIGHUP)
            wire.poll(lambda: pair.ask(pair.above, "POST", "/echo", b"x" * 100).status == 413, "it holds")
            self.assertEqual(pair.ask(pair.below, "POST", "/echo", b"x" * 100).status, 200)
            pair.write_config("[above.limits]\nmax_body_bytes = \"ten\"\n")
            pair.process.send_signal(signal.SIGHUP)
            wire.poll(lambda: "configuration refused" in pair.log(), "it is refused")
            self.assertEqual(pair.ask(pair.above, "POST", "/echo", b"x" * 100).status, 413)

    def test_the_doors_of_all_close_at_once_and_what_runs_is_answered(self):
        with Pair("shards=2") as pair, wire.Connection(pair.above) as running, wire.Connection(pair.below) as idle:
            answers = []
            thread = threading.Thread(target=lambda: answers.append(running.ask("GET", "/job/3000")))
            thread.start()
            inflight = 'inflight_requests{route="/job/{ms:Int}"} 1'
            wire.poll(lambda: inflight in pair.ask(pair.above, "GET", "/metrics").body.decode(), "it runs")
            pair.process.send_signal(signal.SIGTERM)
            wire.poll(lambda: idle.ask("GET", "/readyz").status == 503, "the end has begun")
            # Each shard hears of the end by its own mail. Until then work is admitted and answered; what the end meets on
            # its way is answered too, and says that it was the last on this connection.
            def is_last():
                late = idle.ask("POST", "/echo", b"too late")
                self.assertIn((late.status, late.get("Connection")), ((200, None), (200, "close"), (503, "close")))
                return late.get("Connection") == "close"

            wire.poll(is_last, "nothing more is admitted")
            with self.assertRaises(ConnectionRefusedError):
                wire.poll(lambda: wire.Connection(pair.below).close(), "nobody listens")
            thread.join()
            self.assertEqual(answers[0].status, 200)
            self.assertEqual(pair.process.wait(wire.PATIENCE), 0)

    def test_one_deadline_for_all(self):
        with Pair("shards=2", "above.timeouts.drain=1s", "below.timeouts.drain=1s", "above.timeouts.request=60s",
                  "below.timeouts.request=60s") as pair:
            connections = [wire.Connection(address) for address in (pair.above, pair.below)]
            for connection, address in zip(connections, (pair.above, pair.below)):
                connection.send(wire.request("GET", "/job/50000"))
                inflight = 'inflight_requests{route="/job/{ms:Int}"} 1'
                wire.poll(lambda: inflight in pair.ask(address, "GET", "/metrics").body.decode(), "it runs")
            pair.process.send_signal(signal.SIGTERM)
            self.assertEqual(pair.process.wait(wire.PATIENCE), 10)
            for connection in connections:
                connection.close()


