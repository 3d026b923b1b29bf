"""Configuration: a mistake is named with its place and nothing starts; a reload changes what it may."""

import contextlib
import json
import os
import signal
import socket
import tempfile
import unittest

import demo as programs
import wire
from demo import Demo
from test_limits import busy_jobs
from weather import Weather
from wire import head, request

BAD_CONFIG = 78


class Refused(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory(prefix="cairn-config-"))

    def file(self, text):
        path = os.path.join(self.directory, "demo.toml")
        with open(path, "w") as file:
            file.write(text)
        return path

    def refused(self, *arguments, environment=None):
        """Both verbs refuse, with the same words. Gives the lines."""
        check = programs.run("config", "check", *arguments, environment=environment)
        served = programs.run("serve", "--bind", "127.0.0.1:0", *arguments, environment=environment)
        self.assertEqual((check.returncode, served.returncode), (BAD_CONFIG, BAD_CONFIG), check.stderr + served.stderr)
        self.assertEqual(served.stdout, "")
        self.assertEqual(check.stderr.splitlines()[0], served.stderr.splitlines()[0])
        return [line for line in served.stderr.splitlines() if line]

    def test_bad_value_names_its_place(self):
        path = self.file('[server]\nmax_conns = 10\nmax_inflight = "many"\n')
        lines = self.refused("--config", path)
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], rf"^{path}:3:\d+: server.max_inflight = .*many")

    def test_every_problem_has_a_line(self):
        path = self.file('[server]\nmax_conns = 0\nmax_inflght = 3\n\n[timeouts]\nread = "5 parsecs"\n')
        lines = self.refused("--config", path)
        self.assertEqual([line.split(": ")[0].rsplit(":", 1)[0] for line in lines], [f"{path}:2", f"{path}:3", f"{path}:6"])

    def test_unknown_key_is_met_with_a_suggestion(self):
        path = self.file("[server]\nmax_inflght = 3\n")
        self.assertIn("did you mean server.max_inflight?", self.refused("--config", path)[0])
        self.assertIn("did you mean timeouts.drain?", self.refused("--set", "timeouts.drian=1s")[0])
        self.assertIn("CAIRN_SERVER__MAX_RPS", self.refused(environment={"CAIRN_SERVER__MAX_RSP": "1"})[0])

    def test_broken_toml_names_its_place(self):
        path = self.file("[server]\nmax_conns = = 3\n")
        self.assertRegex(self.refused("--config", path)[0], rf"^{path}:2:\d+: ")

    def test_missing_file(self):
        path = os.path.join(self.directory, "missing.toml")
        for verb in (("config", "check"), ("serve", "--bind", "127.0.0.1:0")):
            with self.subTest(verb[0]):
                result = programs.run(*verb, "--config", path)
                self.assertEqual(result.returncode, BAD_CONFIG)
                self.assertIn(path, result.stderr)

    def test_what_is_not_built_says_so(self):
        for setting in ("amnesia.enabled=true", "tracing.endpoint=http://127.0.0.1:1"):
            with self.subTest(setting):
                self.assertRegex(self.refused("--set", setting)[0], "not built")
        path = self.file("[tracing]\nendpoint = 'http://127.0.0.1:1'\n")
        self.assertRegex(self.refused("--config", path)[0], rf"^{path}:2:\d+: tracing.endpoint.*not built")

    def test_metrics_address_is_served_or_refused(self):
        # Accepting it and doing nothing would promise what does not happen.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        try:
            demo = Demo({"server.metrics_addr": f"127.0.0.1:{port}"})
        except AssertionError:
            return
        with demo, wire.Connection(("127.0.0.1", port)) as connection:
            self.assertEqual(connection.ask("GET", "/metrics").status, 200)

    def test_danger_needs_consent(self):
        for setting in ("server.max_inflight=4097", "server.max_rps=2001", "limits.max_body_bytes=2MiB", "limits.decoded_bytes=9MiB",
                        "limits.decoded_ratio=11", "server.max_conns=16385"):
            with self.subTest(setting):
                self.assertIn("safety.danger_ok", self.refused("--set", setting)[0])
                if "max_conns" not in setting:
                    self.assertEqual(programs.run("config", "check", "--set", setting, "--set", "safety.danger_ok=true").returncode, 0)
        for setting in ("server.max_inflight=4096", "server.max_rps=2000", "limits.max_body_bytes=1MiB", "limits.decoded_ratio=10"):
            with self.subTest(setting):
                self.assertEqual(programs.run("config", "check", "--set", setting).returncode, 0)

    def test_foreign_bind_needs_consent(self):
        for bind in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0"):
            with self.subTest(bind):
                result = programs.run("serve", "--bind", bind)
                self.assertEqual(result.returncode, BAD_CONFIG)
                self.assertIn("loopback", result.stderr)
        with Demo({"safety.danger_ok": "true"}, bind="0.0.0.0:0") as demo:
            self.assertEqual(demo.address[0], "0.0.0.0")

    def test_bind_is_checked(self):
        for bind in ("127.0.0.1", "127.0.0.1:99999", "nonsense", ":80", ""):
            with self.subTest(bind):
                self.assertEqual(programs.run("serve", "--bind", bind).returncode, BAD_CONFIG)

    def test_more_connections_than_descriptors(self):
        result = programs.run("serve", "--bind", "127.0.0.1:0", "--set", "safety.danger_ok=true", "--set", "server.max_conns=1048576",
                              "--set", "server.memory_bytes=64GiB")
        self.assertEqual(result.returncode, BAD_CONFIG)
        self.assertIn("open files", result.stderr)

    def test_port_taken(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            address = "127.0.0.1:%d" % holder.getsockname()[1]
            result = programs.run("serve", "--bind", address)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn(address, result.stderr)
            self.assertRegex(result.stderr, "in use|taken|conflict")

    def test_port_of_another_instance(self):
        with Demo() as first:
            second = None
            try:
                second = Demo(bind="%s:%d" % first.address)
            except AssertionError:
                pass  # it refused to start
            if second is not None:
                second.end()
                self.fail("two instances share a port without knowing of each other")
            self.assertEqual(first.ask("GET", "/mem/x").status, 200)

    def test_wrong_arguments(self):
        for arguments in ((), ("dance",), ("serve", "--what"), ("serve", "--set"), ("serve", "--set", "novalue"), ("config",)):
            with self.subTest(arguments):
                result = programs.run(*arguments)
                self.assertEqual((result.returncode, "usage" in result.stderr), (64, True))


class Precedence(unittest.TestCase):
    def test_flag_over_environment_over_file_over_default(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[server]\nmax_rps = 11\nmax_conns = 11\nmax_inflight = 11\n')
            file.flush()
            result = programs.run("config", "show", "--json", "--config", file.name, "--set", "server.max_rps=13",
                                  environment={"CAIRN_SERVER__MAX_RPS": "12", "CAIRN_SERVER__MAX_CONNS": "12"})
            self.assertEqual(result.returncode, 0, result.stderr)
            shown = {line["key"]: str(line["value"]) for line in map(json.loads, result.stdout.splitlines())}
            for key, value in (("server.max_rps", "13"), ("server.max_conns", "12"), ("server.max_inflight", "11"), ("server.max_conns_per_ip", "256")):
                with self.subTest(key):
                    self.assertEqual(shown[key], value)

    def test_other_spellings(self):
        for setting in ("ingress.rps_limit=100", "limits.inflight=5", "read_timeout=1s", "timeout_secs=5", "drain_deadline=2s"):
            with self.subTest(setting):
                result = programs.run("config", "check", "--set", setting)
                self.assertEqual(result.returncode, 0, result.stderr)


class Reload(unittest.TestCase):
    def test_limit_changes_live(self):
        with Demo({"timeouts.request": "30s"}, config="[server]\nmax_inflight = 2\n") as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 2)
            self.assertEqual(demo.ask("GET", "/mem/x").status, 429)
            self.assertEqual(demo.reload("[server]\nmax_inflight = 3\n"), "applied")
            self.assertEqual(demo.ask("GET", "/mem/x").status, 200)
            self.assertEqual(demo.reload("[server]\nmax_inflight = 1\n"), "applied")
            self.assertEqual(demo.ask("GET", "/mem/x").status, 429)

    def test_body_cap_timeouts_and_caps_change_live(self):
        with Demo(config='[limits]\nmax_body_bytes = "1KiB"\n') as demo, demo.connect() as old:
            self.assertEqual(demo.ask("POST", "/echo", b"a" * 2000).status, 413)
            self.assertEqual(old.ask("GET", "/mem/x").status, 200)
            self.assertEqual(demo.reload('[limits]\nmax_body_bytes = "4KiB"\n[timeouts]\nread = "200ms"\nrequest = "300ms"\n'), "applied")
            self.assertEqual(old.ask("POST", "/echo", b"a" * 2000).status, 200)
            self.assertEqual(demo.ask("GET", "/job/20000").status, 504)
            self.assertEqual(old.send(head("POST /echo HTTP/1.1", "Host: demo", "Content-Length: 5")).read().status, 408)

    def test_head_limit_changes_live(self):
        with Demo(config='[limits]\nmax_header_bytes = "32KiB"\n') as demo:
            big = {"A": "b" * 4000}
            self.assertEqual(demo.ask("GET", "/mem/x", **big).status, 200)
            demo.reload('[limits]\nmax_header_bytes = "2KiB"\n')
            def refused():
                with demo.connect() as connection:
                    return connection.send(request("GET", "/mem/x", **big)).read().status == 431
            wire.poll(lambda: all(refused() for _ in range(20)), "the head limit is in force on every shard", patience=5)

    def test_more_connections_than_descriptors_are_refused_at_reload_too(self):
        with Demo({"server.memory_bytes": "64GiB"}, config="[server]\nmax_conns = 50\n") as demo:
            self.assertEqual(demo.reload("[server]\nmax_conns = 1048576\n"), "rejected")
            wire.poll(lambda: "open files" in demo.log(), "the log says why")
            self.assertEqual(demo.reload("[server]\nmax_conns = 60\n"), "applied")

    def test_a_file_that_cannot_be_read_for_long_holds_nobody_up(self):
        with Weather() as weather, Demo(config="[server]\nmax_conns = 50\n", environment=weather.environment) as demo, contextlib.ExitStack() as stack:
            connections = [stack.enter_context(demo.connect()) for _ in range(16)]  # on every shard
            weather.set(config_delay_ms=600_000)
            demo.write_config("[server]\nmax_conns = 70\n")
            demo.signal(signal.SIGHUP)
            wire.poll(lambda: weather.get("config_reading") == 1, "the file is being read")
            for connection in connections:
                self.assertEqual(connection.ask("GET", "/mem/x").status, 200)
            demo.signal(signal.SIGHUP)  # asked again while it reads: read again, once
            wire.poll(lambda: demo.metric('queue_depth{queue="cfg_reload"}') == 1, "the signal waits")
            again = demo.config_path + ".new"
            with open(again, "w") as file:
                file.write("[server]\nmax_conns = 80\n")
            os.replace(again, demo.config_path)
            weather.clear()
            wire.poll(lambda: demo.reloads()["applied"] == 2, "both were applied")
            self.assertEqual(demo.metric('queue_depth{queue="cfg_reload"}'), 0)

    def assert_refused(self, demo, why):
        """The file as it is now is refused, and the two places of before are still all there are."""
        before = demo.reloads()["rejected"]
        demo.signal(signal.SIGHUP)
        wire.poll(lambda: demo.reloads()["rejected"] == before + 1, "the reload is refused")
        wire.poll(lambda: "the old one stays" in demo.log() and why in demo.log(), "the log says why")
        self.assertEqual(demo.ask("GET", "/mem/x").status, 429)

    def test_a_pipe_is_read_at_start_and_refused_at_a_reload(self):
        source, end = os.pipe()
        os.write(end, b"[server]\nmax_inflight = 2\n")
        os.close(end)
        self.addCleanup(os.close, source)
        with Demo({"timeouts.request": "30s"}, inherited=(source,)) as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 2)
            self.assert_refused(demo, f"/dev/fd/{source}: is not a regular file")

    def test_a_fifo_in_place_of_the_file_blocks_no_reload(self):
        with Demo({"timeouts.request": "30s"}, config="[server]\nmax_inflight = 2\n") as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 2)
            os.unlink(demo.config_path)
            os.mkfifo(demo.config_path)
            self.assert_refused(demo, f"{demo.config_path}: is not a regular file")
            os.unlink(demo.config_path)
            self.assertEqual(demo.reload("[server]\nmax_inflight = 3\n"), "applied")  # the lane is free

    def test_an_empty_file_is_refused_at_a_reload(self):
        with Demo({"timeouts.request": "30s"}, config="[server]\nmax_inflight = 2\n") as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 2)
            demo.write_config("")
            self.assert_refused(demo, f"{demo.config_path}: is empty")
            self.assertEqual(demo.reload("# every default\n"), "applied")

    def test_unchanged_file(self):
        with Demo(config="[server]\nmax_conns = 50\n") as demo:
            self.assertEqual(demo.reload("[server]\nmax_conns = 50\n"), "unchanged")

    def test_bad_file_is_refused_and_the_old_stays(self):
        with Demo({"timeouts.request": "30s"}, config="[server]\nmax_inflight = 2\n") as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 2)
            for text in ("[server]\nmax_inflight = 0\n", "[server\n", "[server]\nmax_inflght = 9\n", "[server]\nmax_inflight = 9\n[tls]\nenabled = true\n"):
                with self.subTest(text):
                    self.assertEqual(demo.reload(text), "rejected")
                    self.assertEqual(demo.ask("GET", "/mem/x").status, 429)
            self.assertIn(f"{demo.config_path}:2:", demo.log())
            self.assertIn("the old one stays", demo.log())
            os.unlink(demo.config_path)
            before = demo.reloads()["rejected"]
            demo.signal(signal.SIGHUP)
            wire.poll(lambda: demo.reloads()["rejected"] == before + 1, "a missing file is refused")
            self.assertEqual(demo.ask("GET", "/mem/x").status, 429)

    def test_restart_key_is_reported_and_the_rest_applied(self):
        with Demo({"timeouts.request": "30s"}, config='[queues]\nwork = 5\n[server]\nmax_inflight = 1\n') as demo, contextlib.ExitStack() as stack:
            busy_jobs(stack, demo, 1)
            self.assertEqual(demo.ask("GET", "/mem/x").status, 429)
            self.assertEqual(demo.reload('[queues]\nwork = 6\n[server]\nmax_inflight = 9\n'), "applied")
            self.assertEqual(demo.ask("GET", "/mem/x").status, 200)
            wire.poll(lambda: "queues.work" in demo.log(), "the restart key is logged")

    def test_changed_bind_moves_the_listeners(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            there = probe.getsockname()
        with Demo(config='[server]\nbind = "127.0.0.1:0"\n', bind=None) as demo, demo.connect() as old:
            self.assertEqual(old.ask("GET", "/mem/x").status, 200)
            demo.write_config(f'[server]\nbind = "127.0.0.1:{there[1]}"\n')
            demo.signal(signal.SIGHUP)

            def served(address):
                with contextlib.suppress(ConnectionError, wire.NoAnswer), wire.Connection(address) as connection:
                    return connection.ask("GET", "/healthz").status == 200

            wire.poll(lambda: served(there), "the new address is served", patience=10)
            wire.poll(lambda: not served(demo.address), "the old address is closed", patience=10)
            self.assertEqual(old.ask("GET", "/mem/x").status, 200)

    def test_bind_that_fails_keeps_the_old(self):
        with socket.socket() as holder, Demo(config='[server]\nbind = "127.0.0.1:0"\nmax_conns = 50\n', bind=None) as demo:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            self.assertEqual(demo.reload(f'[server]\nbind = "127.0.0.1:{holder.getsockname()[1]}"\nmax_conns = 60\n'), "rejected")
            self.assertEqual(demo.ask("GET", "/mem/x").status, 200)

    def test_requests_never_notice_a_reload(self):
        with Demo(config="[server]\nmax_conns = 100\n") as demo, demo.connect() as connection:
            for i in range(30):
                demo.write_config(f"[server]\nmax_conns = {100 + i}\n")
                demo.signal(signal.SIGHUP)
                for target in ("/mem/x", "/job/1", "/stream/1"):
                    self.assertEqual(connection.ask("GET", target).status, 200)


if __name__ == "__main__":
    unittest.main()
