"""`cairn up` and `cairn storage` as commands: what they make, what they say, and how they end."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import unittest

import demo
import wire
from storage_server import Connection, b3sum, binary, cairn, free_port_base


def contents(directory):
    """Every file below, with mode, time and bytes."""
    found = {}
    for path, _, names in os.walk(directory):
        for name in names:
            one = os.path.join(path, name)
            about = os.lstat(one)
            with open(one, "rb") as file:
                found[one] = (about.st_mode, about.st_mtime_ns, about.st_ino, file.read())
    return found


class Up(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cairn-up-")
        self.addCleanup(shutil.rmtree, self.top, True)
        self.data = os.path.join(self.top, "data")
        self.keys = os.path.join(self.data, "keys")
        self.processes = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def start(self, *arguments, verb="up", base=None):
        """Waits until it has said where storage is."""
        self.base = base or free_port_base()
        place = ["--port-base", str(self.base)] if verb == "up" else ["--bind", "127.0.0.1:0"]
        process = subprocess.Popen([binary(), verb, "--data", self.data, *place, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=demo.clean_environment())
        self.processes.append(process)
        self.said = []
        while not self.said or "storage" not in self.said[-1]:
            self.said.append(process.stdout.readline())
            if not self.said[-1]:
                raise AssertionError(f"did not start: {self.said} {process.stderr.read()}")
        self.address = ("127.0.0.1", int(re.search(r"http://127\.0\.0\.1:(\d+)", self.said[-1])[1]))
        return process

    def stop(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        return process.wait(wire.PATIENCE)

    def run_up(self, *arguments, verb="up"):
        return cairn(verb, "--data", self.data, *arguments, patience=30)

    def ask(self, method, target, body=None):
        with open(os.path.join(self.keys, "admin.cap")) as file:
            token = file.read().strip()
        with Connection(self.address) as connection:
            return connection.ask(method, target, body, Authorization=f"Bearer {token}")

    def test_the_first_start_makes_everything_and_the_second_changes_nothing(self):
        process = self.start()
        self.assertEqual(self.address[1], self.base + 10)
        self.assertEqual(self.ask("GET", "/readyz").json()["ready"], True)
        for path, mode in ((self.data, 0o700), (self.keys, 0o700), (os.path.join(self.keys, "admin.cap"), 0o600),
                           (os.path.join(self.keys, "capability-root.key"), 0o600), (os.path.join(self.data, "cairn.sock"), 0o600),
                           (os.path.join(self.data, "storage.sock"), 0o600)):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), mode, path)
        for path, _, names in os.walk(self.keys):
            self.assertEqual([name for name in names if stat.S_IMODE(os.stat(os.path.join(path, name)).st_mode) & 0o077], [])
        address = self.ask("POST", "/o", b"kept").json()["address"]
        made = contents(self.keys)
        self.assertEqual(self.stop(process), 0)
        process = self.start()
        self.assertEqual(contents(self.keys), made)
        self.assertEqual(self.ask("GET", f"/o/{address}").body, b"kept")
        self.assertEqual(self.stop(process), 0)
        self.assertEqual(contents(self.keys), made)

    def test_a_client_finds_it_by_its_data_directory(self):
        self.start()
        path = os.path.join(self.top, "file")
        with open(path, "wb") as file:
            file.write(b"found")
        environment = {"HOME": self.top}
        put = cairn("put", "-q", "--data", self.data, path, environment=environment)
        self.assertEqual((put.returncode, put.stdout), (0, b3sum(b"found")[0] + "\n"), put.stderr)
        address = put.stdout.strip()
        self.assertEqual(cairn("cat", "--data", self.data, address[:12], environment=environment).stdout, "found")
        self.assertIn(address, cairn("ls", "--data", self.data, environment=environment).stdout)
        self.assertEqual(cairn("stat", "--data", self.data, address, environment=environment).returncode, 0)
        self.assertEqual(cairn("pin", "--data", self.data, address, environment=environment).returncode, 0)
        self.assertEqual(cairn("rm", "--data", self.data, address, environment=environment).returncode, 9)
        self.assertEqual(cairn("unpin", "--data", self.data, address, environment=environment).returncode, 0)
        self.assertEqual(cairn("rm", "--data", self.data, address, environment=environment).returncode, 0)
        self.assertEqual(cairn("cat", "--data", self.data, address, environment=environment).returncode, 3)
        self.assertEqual(cairn("health", "--data", self.data, environment=environment).returncode, 0)

    def test_json(self):
        process = self.start("--json")
        self.assertIn({"service": "storage", "url": f"http://127.0.0.1:{self.base + 10}"}, [json.loads(line) for line in self.said])
        refused = self.run_up("--json", "--port-base", str(free_port_base()))
        self.assertNotEqual(refused.returncode, 0)
        for line in (refused.stdout + refused.stderr).splitlines():
            json.loads(line)
        self.assertEqual(self.stop(process), 0)
        for line in process.stdout.read().splitlines():
            json.loads(line)

    def test_a_data_directory_that_is_in_use_is_named_with_its_user(self):
        process = self.start()
        before = contents(self.keys)
        for verb, place in (("up", ["--port-base", str(free_port_base())]), ("storage", ["--bind", "127.0.0.1:0"])):
            refused = self.run_up(*place, verb=verb)
            self.assertEqual(refused.returncode, 1, refused)
            self.assertEqual(refused.stdout, "")
            for what in (self.data, str(process.pid)):
                self.assertIn(what, refused.stderr)
            self.assertRegex(refused.stderr, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
        self.assertEqual(self.ask("POST", "/o", b"undisturbed").status, 201)
        self.assertEqual(contents(self.keys), before)

    def test_a_port_that_is_taken_is_named(self):
        base = free_port_base()
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", base + 10))
            holder.listen()
            refused = self.run_up("--port-base", str(base))
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertIn(f"127.0.0.1:{base + 10}", refused.stderr)
            self.assertFalse(os.path.exists(self.data), "nothing was made")
        self.assertEqual(self.stop(self.start(base=base)), 0)

    def test_after_kill_nine_the_locks_and_the_socket_are_no_obstacle(self):
        process = self.start()
        process.kill()
        process.wait()
        self.assertEqual(self.stop(self.start()), 0)

    def test_signals_drain_and_end_with_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start()
            with Connection(self.address) as idle:
                self.assertEqual(idle.ask("GET", "/healthz").status, 200)
                self.assertEqual(self.stop(process, number), 0)
        self.assertFalse(os.path.exists(os.path.join(self.data, "cairn.sock")))

    def is_ending(self, connection):
        """It says so, or has let an idle connection go."""
        try:
            return connection.ask("GET", "/readyz").status == 503
        except (wire.NoAnswer, OSError):
            return True

    def test_a_put_under_way_when_the_end_begins_is_finished(self):
        process = self.start()
        with open(os.path.join(self.keys, "admin.cap")) as file:
            whole = wire.request("POST", "/o", b"x" * 100000, Authorization=f"Bearer {file.read().strip()}")
        with Connection(self.address) as connection, Connection(self.address) as other:
            connection.send(whole[:50000])
            wire.poll(lambda: 'inflight_requests{route="/o"} 1' in other.ask("GET", "/metrics").body.decode(), "it is under way")
            process.send_signal(signal.SIGTERM)
            wire.poll(lambda: self.is_ending(other), "the end has begun")
            answer = connection.send(whole[50000:]).read()
            self.assertEqual((answer.status, answer.closes()), (201, True))
        self.assertEqual(process.wait(wire.PATIENCE), 0)
        process = self.start()
        self.assertEqual(self.ask("GET", f"/o/{answer.json()['address']}").body, b"x" * 100000)
        self.assertEqual(self.stop(process), 0)

    def test_a_body_that_does_not_come_is_aborted_at_the_end_and_said(self):
        process = self.start("--set", "storage.timeouts.drain=1s")
        with open(os.path.join(self.keys, "admin.cap")) as file:
            whole = wire.request("POST", "/o", b"x" * 100000, Authorization=f"Bearer {file.read().strip()}")
        with Connection(self.address) as connection, Connection(self.address) as other:
            connection.send(whole[:50000])
            wire.poll(lambda: 'inflight_requests{route="/o"} 1' in other.ask("GET", "/metrics").body.decode(), "it is under way")
            self.assertEqual(self.stop(process), 10)

    def test_bad_configuration_is_78_and_nothing_is_made(self):
        config = os.path.join(self.top, "cairn.toml")
        with open(config, "w") as file:
            file.write('[storage.limits]\nmax_body_bytes = "lots"\n\n[storage.nonsense]\nkey = 1\n')
        refused = self.run_up("--config", config)
        self.assertEqual((refused.returncode, refused.stdout), (78, ""))
        for what in (f"{config}:2:", "max_body_bytes", "lots", "nonsense"):
            self.assertIn(what, refused.stderr)
        for setting in ("storage.server.max_inflight=100000", "storage.storage.segment_size=1KiB", "storage.x=1", "nonsense=1",
                        "storage.server.bind=0.0.0.0:0", "storage.limits.max_body_bytes=2MiB"):
            refused = self.run_up("--set", setting)
            self.assertEqual((refused.returncode, refused.stdout), (78, ""), setting)
            self.assertIn(setting.split("=")[0].rsplit(".", 1)[-1], refused.stderr)
        self.assertFalse(os.path.exists(self.data))

    def test_usage_is_64(self):
        for arguments in (("--port-base", "x"), ("--port-base", "70000"), ("--nonsense",)):
            self.assertEqual(self.run_up(*arguments).returncode, 64, arguments)

    def test_what_is_taken_is_told_with_the_option_that_names_another(self):
        process = self.start()
        second = self.run_up("--port-base", str(free_port_base()))
        self.assertIn("in use", second.stderr)
        self.assertRegex(second.stderr, "hint .*--data DIR")
        third = cairn("up", "--data", os.path.join(self.top, "other"), "--port-base", str(self.base), patience=30)
        self.assertRegex(third.stderr, "hint .*--port-base")
        self.assertEqual(self.stop(process), 0)

    def test_keys_that_others_can_read_are_refused(self):
        self.assertEqual(self.stop(self.start()), 0)
        path = os.path.join(self.keys, "capability-root.key")
        os.chmod(path, 0o644)
        refused = self.run_up("--port-base", str(free_port_base()))
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(path, refused.stderr)

    def test_quiet_says_the_address_and_nothing_else(self):
        process = self.start("-q", verb="storage")
        self.assertEqual(self.stop(process), 0)
