"""Servers that lie, and logs that fork: the command line believes neither. Also what its other tests leave out."""

import base64
import contextlib
import http.client
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import unittest

from registry_server import Registry, now, region
from storage_server import cairn


class Liar:
    """In front of a registry: hands everything on, but changes answers. `lie(target, body)` gives the body."""

    def __init__(self, registry, lie):
        self.posted, self.alter = [], lambda body: body
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self):
                size = int(self.headers.get("Content-Length") or 0)
                sent = self.rfile.read(size)
                if self.command == "POST":
                    liar.posted.append((self.path, sent))
                    sent = liar.alter(sent)
                connection = http.client.HTTPConnection(*registry.address, timeout=30)
                with contextlib.closing(connection):
                    fields = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection", "content-length")}
                    connection.request(self.command, self.path, sent if self.command == "POST" else None, fields)
                    answer = connection.getresponse()
                    body = answer.read()
                if answer.status == 200:
                    body = lie(self.path, body)
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "connection", "date", "server", "transfer-encoding"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = pass_on

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def change_json(body, change):
    value = json.loads(body)
    change(value)
    return json.dumps(value).encode()


def flip_base64(text, at=5):
    raw = bytearray(base64.b64decode(text))
    raw[at] ^= 1
    return base64.b64encode(raw).decode()


def flip_bytes(body, at):
    changed = bytearray(body)
    changed[at] ^= 1
    return bytes(changed)


class Lies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(Registry({}, 2, ("a", "b", "c")))
        cls.registry.grow(5)
        cls.registry.covered_on_disk()

    def verify(self, lie, code):
        with Liar(self.registry, lie) as liar:
            ended = cairn("registry", "verify", "--url", liar.url, "--trust-roots", self.registry.roots_path)
        self.assertEqual(ended.returncode, code, ended)
        return ended

    def test_an_honest_one_is_believed(self):
        self.verify(lambda target, body: body, 0)

    def test_no_lie_about_the_log_is_believed(self):
        def of_version(change):
            return lambda target, body: change_json(body, change) if target.startswith("/registry/3") else body

        def spoil_approval(value):
            value["approvals"][0]["sig"] = flip_base64(value["approvals"][0]["sig"])
            commit = bytearray(base64.b64decode(value["commit_cbor"]))
            at = bytes(commit).find(b"csigX@") + 20
            commit[at] ^= 1
            value["commit_cbor"] = base64.b64encode(commit).decode()

        lies = {
            "payload_cbor": of_version(lambda value: value.update(payload_cbor=flip_base64(value["payload_cbor"], 60))),
            "an approval": of_version(spoil_approval),
            "another version": lambda target, body: self.registry.ask_openly("GET", "/registry/2").body if target.startswith("/registry/3") else body,
            "the checkpoint's root": lambda target, body: flip_bytes(body, 80) if "checkpoint" in target else body,
            "the checkpoint's signature": lambda target, body: flip_bytes(body, len(body) - 20) if "checkpoint" in target else body,
            "a smaller head": lambda target, body: self.registry.ask_openly("GET", "/registry/log?from=2&limit=1").body if target == "/registry/head" else body,
        }
        for what, lie in lies.items():
            with self.subTest(what):
                with Liar(self.registry, lie) as liar:
                    ended = cairn("registry", "verify", "--url", liar.url, "--trust-roots", self.registry.roots_path)
                self.assertIn(ended.returncode, (1, 4), ended)
                self.assertNotEqual(ended.stderr + ended.stdout, "")
                if what != "a smaller head":
                    self.assertEqual(ended.returncode, 4, ended)

    def test_nobody_signs_bytes_that_are_not_the_proposal_s(self):
        one = self.registry.propose(self.registry.next_items(region("honest")))
        target = f"/registry/proposals/{one['proposal_id']}"
        other = self.registry.propose(self.registry.next_items(region("evil")))
        for what, change in {"another hash": lambda value: value.update(payload_b3=other["payload_b3"]),
                             "another payload": lambda value: value.update(payload=other["payload"]),
                             "a flipped bit": lambda value: value.update(payload=flip_base64(value["payload"], 70))}.items():
            with self.subTest(what), Liar(self.registry, lambda path, body: change_json(body, change) if path == target else body) as liar:
                ended = cairn("registry", "approve", one["proposal_id"], "--key", "a", "--url", liar.url, "--data", self.registry.data,
                              environment={"CAIRN_CAP": self.registry.token})
                self.assertEqual(ended.returncode, 4, ended)
                self.assertEqual(liar.posted, [], "something was signed and sent")
        self.assertEqual(self.registry.get(target)["approvals"], [])

    def test_a_version_that_is_not_what_was_signed_is_not_shown(self):
        for what, change in {"payload": lambda value: value.update(payload_cbor=flip_base64(value["payload_cbor"], 70)),
                             "hash": lambda value: value.update(payload_b3="b3:" + "0" * 64)}.items():
            with self.subTest(what), Liar(self.registry, lambda path, body: change_json(body, change) if path == "/registry/2" else body) as liar:
                ended = cairn("registry", "show", "2", "--url", liar.url, "--data", self.registry.data)
                self.assertEqual(ended.returncode, 4, ended)

    def test_a_proposal_that_was_changed_on_its_way_is_found(self):
        """The server is asked for more than the user asked for; its honest answer shows it."""
        with Liar(self.registry, lambda path, body: body) as liar:
            liar.alter = lambda body: change_json(body, lambda value: value["items"].append(region("smuggled")))
            ended = cairn("registry", "propose", "--add", '{"type":"region","id":"asked"}', "--url", liar.url, "--data", self.registry.data,
                              environment={"CAIRN_CAP": self.registry.token})
        self.assertEqual(ended.returncode, 4, ended)


class Forks(unittest.TestCase):
    """One genesis, one set of keys, two histories."""

    def test_a_fork_is_found_by_whoever_kept_a_checkpoint(self):
        with tempfile.TemporaryDirectory(prefix="cairn-fork-") as top, Registry() as one:
            one.grow(5)
            one.covered_on_disk()
            self.assertEqual(one.stop(), 0)
            shutil.copytree(one.data, os.path.join(top, "data"), ignore=shutil.ignore_patterns("*.sock", "*.lock"))
            one.start()
            with Registry(signers=(), directory=os.path.join(top, "data"), started=False) as two:
                two.signers = ("a",)
                two.load_keys()
                two.start()
                kept = {}
                for name, registry in (("one", one), ("two", two)):
                    registry.change([*registry.items(), region(name)])
                    registry.grow(3)
                    registry.covered()
                    kept[name] = os.path.join(top, name)
                    ended = cairn("registry", "verify", "--url", registry.url, "--trust-roots", one.roots_path, "-o", kept[name])
                    self.assertEqual(ended.returncode, 0, ended)
                for name, registry, code in (("one", one, 0), ("two", two, 0), ("two", one, 4), ("one", two, 4)):
                    ended = cairn("registry", "verify", "--url", registry.url, "--trust-roots", one.roots_path, "--since", kept[name])
                    self.assertEqual(ended.returncode, code, (name, ended))
                one.grow(1)
                one.covered()
                for name, code in (("one", 0), ("two", 4)):
                    ended = cairn("registry", "verify", "--url", one.url, "--trust-roots", one.roots_path, "--since", kept[name])
                    self.assertEqual(ended.returncode, code, (name, ended))

    def test_a_log_that_was_cut_back_is_found(self):
        with tempfile.TemporaryDirectory(prefix="cairn-cut-") as top, Registry() as one:
            one.grow(3)
            one.covered_on_disk()
            self.assertEqual(one.stop(), 0)
            old = os.path.join(top, "old")
            shutil.copytree(one.data, old, ignore=shutil.ignore_patterns("*.sock", "*.lock"))
            one.start()
            one.grow(3)
            one.covered()
            note = os.path.join(top, "note")
            self.assertEqual(cairn("registry", "verify", "--url", one.url, "--trust-roots", one.roots_path, "-o", note).returncode, 0)
            with Registry(signers=(), directory=old) as cut:
                ended = cairn("registry", "verify", "--url", cut.url, "--trust-roots", one.roots_path, "--since", note)
                self.assertEqual(ended.returncode, 4, ended)


class Codes(unittest.TestCase):
    def setUp(self):
        self.registry = self.enterContext(Registry())
        self.where = ("--url", self.registry.url, "--data", self.registry.data)

    def test_exit_codes_of_what_the_server_refuses(self):
        def run(*arguments, code, **options):
            ended = cairn("registry", *arguments, *self.where, **options)
            self.assertEqual(ended.returncode, code, (arguments, ended))
            return ended
        run("propose", "--add", '{"type":"region","id":"x"}', code=0)
        run("propose", "--add", '{"type":"region","id":"a b"}', code=1)
        reader = cairn("cap", "mint", "--data", self.registry.data, "--op", "registry.read").stdout.strip()
        for token in ("nonsense", reader):
            run("propose", "--add", '{"type":"region","id":"z"}', code=8, environment={"CAIRN_CAP": token})
        run("commit", "01ARZ3NDEKTSV4RRFFQ69G5FAV", code=3)
        run("supersede", "01ARZ3NDEKTSV4RRFFQ69G5FAV", code=3)
        run("show", "7", code=3)
        run("show", "x", code=64)
        run("log", "--limit", "x", code=64)
        run("propose", code=64)
        run("nonsense", code=64)
        self.assertEqual(cairn("registry", "init", "--data", self.registry.data).returncode, 9)

    def test_an_approval_by_openssl_goes_through_the_command_line(self):
        with tempfile.TemporaryDirectory(prefix="cairn-openssl-") as top:
            said = json.loads(cairn("registry", "propose", "--json", "--add", '{"type":"region","id":"x"}', *self.where).stdout)
            message, file = os.path.join(top, "message"), os.path.join(top, "approval.json")
            for tag, code in ((b"another-tag\0", 4), (b"cairn-registry-approval-v1\0", 0)):
                with open(message, "wb") as out:
                    out.write(tag + bytes.fromhex(said["payload_b3"][3:]))
                command = ["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.registry.key_path("a"), "-in", message]
                sig = subprocess.run(command, capture_output=True, check=True).stdout
                with open(file, "w") as out:
                    json.dump({"signer_id": "a", "algo": "ed25519", "sig": base64.b64encode(sig).decode(), "signed_at": now()}, out)
                self.assertEqual(cairn("registry", "approve", said["proposal_id"], "--from", file, *self.where).returncode, code)
            self.assertEqual(cairn("registry", "commit", said["proposal_id"], *self.where).returncode, 0)

    def test_a_second_server_on_the_same_directory_is_refused_by_name(self):
        ended = cairn("registry", "--data", self.registry.data, "--bind", "127.0.0.1:0", patience=20)
        self.assertEqual((ended.returncode, ended.stdout), (1, ""))
        for what in (self.registry.data, str(self.registry.pid)):
            self.assertIn(what, ended.stderr)

    def test_bad_configuration_is_78(self):
        for setting in ("storage.kind=etcd", "retention.policy=sometimes", "proposals.max_pending=0", "bus.channel_bound=0", "storage.nonsense=1",
                        "storage.segment_size=1KiB", "server.bind=0.0.0.0:0"):
            ended = cairn("registry", "--data", self.registry.data, "--set", setting, patience=20)
            self.assertEqual((ended.returncode, ended.stdout), (78, ""), setting)
            self.assertIn(setting.split("=")[0], ended.stderr)

    def test_without_a_genesis_it_says_what_to_do(self):
        with tempfile.TemporaryDirectory(prefix="cairn-empty-") as top:
            ended = cairn("registry", "--data", os.path.join(top, "none"), "--bind", "127.0.0.1:0", patience=20)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn("registry init", ended.stderr)


if __name__ == "__main__":
    unittest.main()
