"""The registry of `cairn up`: one signer, this node in it, and nothing that changes without a reason."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import demo
import registry_verifier as verifier
import wire
from storage_server import Connection, binary, cairn, free_port_base
from storage_up import contents


class UpProcess(unittest.TestCase):
    """A `cairn up` of its own for each test, with what it says."""

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cairn-up-")
        self.addCleanup(shutil.rmtree, self.top, True)
        self.data = os.path.join(self.top, "data")
        self.processes = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

    def start(self, *arguments, base=None):
        """Waits until every service has said where it is. {service: port}"""
        self.base = base or free_port_base()
        with open(os.path.join(self.top, "log"), "ab") as log:
            process = subprocess.Popen([binary(), "up", "--data", self.data, "--port-base", str(self.base), *arguments], cwd=self.top,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, env=demo.clean_environment())
        self.processes.append(process)
        found = {}
        while not {"registry", "storage", "gateway"} <= set(found):
            line = process.stdout.readline()
            if not line:
                with open(os.path.join(self.top, "log")) as log:
                    raise AssertionError(f"did not start: {found} {log.read()[-1000:]}")
            if match := re.match(r"(registry|storage|gateway) +http://127\.0\.0\.1:(\d+)", line):
                found[match[1]] = int(match[2])
        self.ports = found
        return process

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(wire.PATIENCE), 0)

    def get(self, target):
        with Connection(("127.0.0.1", self.ports["registry"])) as connection:
            answer = connection.ask("GET", target)
            self.assertEqual(answer.status, 200, answer)
            return answer.json()

    def is_ready(self):
        with Connection(("127.0.0.1", self.ports["registry"])) as connection:
            return connection.ask("GET", "/readyz").status == 200

    def await_version(self, version):
        """A service tells the registry of itself when both are up. The head."""
        wire.poll(self.is_ready, "the registry is ready")
        return wire.poll(lambda: next((head for head in [self.get("/registry/head")] if head["version"] >= version), None), f"version {version}")

    def nodes(self, version):
        return [item for item in self.get(f"/registry/{version}")["payload"]["items"] if item["type"] == "node"]

    def verify(self):
        roots, key = verifier.load_roots(os.path.join(self.data, "registry", "trust-roots.json"))
        size = self.get("/registry/head")["version"] + 1
        with verifier.Server("127.0.0.1", self.ports["registry"]) as server:
            wire.poll(lambda: server.ask("/registry/checkpoint")[1].split(b"\n")[1:2] == [str(size).encode()], "a checkpoint covers the head")
            return verifier.verify_server(server, roots, key)


class Up(UpProcess):
    def test_a_key_that_a_commit_revokes_opens_no_service_any_more(self):
        process = self.start("--set", "log.level=debug")
        self.await_version(1)
        with open(os.path.join(self.data, "keys", "admin.cap")) as file:
            token = file.read().strip()
        key = json.loads(cairn("cap", "inspect", token, "--json").stdout)["key_id"]

        def list_with(bearer):
            with Connection(("127.0.0.1", self.ports["storage"])) as connection:
                return connection.ask("GET", "/o", Authorization=f"Bearer {bearer}").status

        self.assertEqual(list_with(token), 200)
        item = os.path.join(self.top, "revocation.json")
        with open(item, "w") as file:
            json.dump({"type": "revocation", "key_id": key, "reason": "it leaked"}, file)
        proposal = cairn("registry", "propose", "-q", "--add", item, "--data", self.data).stdout.strip()
        self.assertEqual(cairn("registry", "approve", proposal, "--key", "operator", "--data", self.data).returncode, 0)
        self.assertEqual(cairn("registry", "commit", proposal, "--data", self.data).returncode, 0)
        wire.poll(lambda: list_with(token) == 401, "storage refuses the key")

        def renewed():
            with open(os.path.join(self.data, "keys", "admin.cap")) as file:
                fresh = file.read().strip()
            return fresh if fresh != token else None

        # Every service refuses the key before its capability is renewed.
        fresh = wire.poll(renewed, "the capability is renewed")
        self.assertEqual(list_with(fresh), 200)
        # The event itself was heard by every service of the process.
        def heard():
            with open(os.path.join(self.top, "log")) as log:
                lines = [json.loads(line) for line in log if line.startswith("{") and line.endswith("}\n")]
            return {line["source"] for line in lines if line["msg"] == "registry updated" and line["version"] == 2}

        wire.poll(lambda: heard() == {"registry", "storage", "index", "gateway"}, "all have heard of it")
        self.stop(process)

    def test_the_registry_is_ready_once_the_first_version_is_there(self):
        # Who commits in the moment when it becomes ready gets the next version, and no conflict.
        for _ in range(3):
            process = self.start()
            wire.poll(self.is_ready, "the registry is ready")
            self.assertEqual(self.get("/registry/head")["version"], 1)
            self.stop(process)
            shutil.rmtree(self.data)

    def test_a_fresh_directory_has_one_signer_and_this_node_at_version_1(self):
        process = self.start()
        self.assertEqual((self.ports["registry"], self.ports["storage"]), (self.base + 30, self.base + 10))
        [signers] = [item for item in self.get("/registry/0")["payload"]["items"] if item["type"] == "signer_set"]
        self.assertEqual((signers["m"], len(signers["signers"])), (1, 1))
        self.assertEqual(self.nodes(0), [])
        self.await_version(1)
        [node] = self.nodes(1)
        self.assertEqual((node["addr"], node["roles"]), (f"127.0.0.1:{self.base + 10}", ["storage"]))
        self.assertEqual(self.verify()[0], 2)
        self.assertEqual(cairn("registry", "verify", "--data", self.data).returncode, 0)
        self.assertEqual(cairn("registry", "head", "-q", "--data", self.data, environment={"HOME": self.top}).returncode, 0)
        self.stop(process)

    def test_again_changes_nothing_and_another_port_is_exactly_one_commit(self):
        process = self.start()
        first = self.await_version(1)
        self.stop(process)
        keys = contents(os.path.join(self.data, "keys"))
        for _ in range(2):
            process = self.start(base=self.base)
            self.assertEqual(self.get("/registry/head"), first)
            self.stop(process)
        self.assertEqual(contents(os.path.join(self.data, "keys")), keys)
        process = self.start()
        self.assertEqual(self.await_version(2)["version"], 2)
        [before], [after] = self.nodes(first["version"]), self.nodes(first["version"] + 1)
        self.assertEqual(after, {**before, "addr": f"127.0.0.1:{self.base + 10}"})
        self.assertNotEqual(before, after)
        head = self.get("/registry/head")
        self.verify()
        process.kill()
        process.wait()
        process = self.start(base=self.base)
        self.assertEqual(self.get("/registry/head"), head)
        self.stop(process)

    def tell(self, verb, *arguments, code=0):
        told = cairn(verb, "--json", "--data", self.data, *arguments, environment={"HOME": self.top})
        self.assertEqual(told.returncode, code, told.stderr)
        return [json.loads(line) for line in told.stdout.splitlines()]

    def test_status_and_health_tell_of_every_service(self):
        process = self.start()
        self.await_version(1)
        gateway, storage, index, registry = self.tell("status")
        self.assertEqual([(one["service"], one["ready"], one["write_ready"]) for one in (gateway, storage, index, registry)],
                         [("gateway", True, True), ("storage", True, True), ("index", True, True), ("registry", True, True)])
        self.assertEqual(storage["status"]["objects"], 0)
        self.assertEqual(registry["status"], self.get("/registry/head"))
        [alone] = self.tell("status", "--url", f"http://127.0.0.1:{self.ports['registry']}")
        self.assertEqual((alone["service"], alone["status"]["version"]), ("registry", 1))
        self.assertEqual([(one["service"], one["ready"]) for one in self.tell("health")],
                         [("gateway", True), ("storage", True), ("index", True), ("registry", True)])
        lost = cairn("ls", "--url", f"127.0.0.1:{self.ports['registry']}")
        self.assertEqual((lost.returncode, lost.stdout), (69, ""), lost)
        self.assertIn(f"there is registry at 127.0.0.1:{self.ports['registry']}", lost.stderr)
        self.assertRegex(lost.stderr, "hint .*is the address right")
        self.assertIn(("registry", "ok"), [(one["check"], one["verdict"]) for one in self.tell("doctor")])
        self.assertIn(("ready", "ok"), [(one["check"], one["verdict"]) for one in self.tell("doctor", "--url", f"127.0.0.1:{self.ports['registry']}")])
        self.stop(process)

    def test_a_registry_of_several_signers_is_not_changed_by_the_process(self):
        self.assertEqual(cairn("registry", "init", "--data", self.data, "--m", "2", "--signers", "a,b").returncode, 0)
        process = self.start()
        self.assertEqual(self.get("/registry/head")["version"], 0)
        self.stop(process)

    def test_amnesia(self):
        before = sorted(os.listdir(self.top))
        process = self.start("--amnesia")
        self.await_version(1)
        self.assertEqual(len(self.nodes(1)), 1)
        self.stop(process)
        self.assertEqual(sorted(os.listdir(self.top)), sorted({*before, "log"}))

    def test_amnesia_signs_no_second_history_of_a_directory(self):
        process = self.start()
        self.await_version(1)
        kept = self.get("/registry/0")
        self.stop(process)
        process = self.start("--amnesia")
        self.await_version(1)
        self.assertNotEqual(self.get("/registry/0")["payload"], kept["payload"])
        self.stop(process)

    def test_the_self_test_of_dev_up_passes(self):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "up.py")
        process = subprocess.Popen([sys.executable, program, binary(), "--data", self.data, "--port-base", str(free_port_base())], cwd=self.top,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=demo.clean_environment())
        self.processes.append(process)
        lines = []
        while not lines or "self-test" not in lines[-1]:
            lines.append(process.stdout.readline())
            self.assertTrue(lines[-1], lines)
        self.assertIn("self-test passed", lines[-1])
        self.stop(process)


if __name__ == "__main__":
    unittest.main()
