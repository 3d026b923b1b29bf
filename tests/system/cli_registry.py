"""cairn registry and cairn key: what each verb prints, how it ends, and what verify finds."""

import base64
import json
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

import demo
import wire
from cli_shape import mismatch, schema_of
from storage_server import binary, cairn

EU = '{"type":"region","id":"eu"}'


class Registry:
    """`cairn registry` over a data directory, at a port of its own."""

    def __init__(self, data):
        with open(os.path.join(os.path.dirname(data), "log"), "ab") as log:
            self.process = subprocess.Popen([binary(), "registry", "--data", data, "--bind", "127.0.0.1:0"],
                                            stdout=subprocess.PIPE, stderr=log, bufsize=0, env=demo.clean_environment())
        ready, _, _ = select.select([self.process.stdout], [], [], wire.PATIENCE)
        line = self.process.stdout.readline().decode() if ready else ""
        match = re.fullmatch(r"registry +(http://[0-9.]+:[0-9]+)\n", line)
        if not match:
            self.end()
            raise AssertionError(f"did not start: {line!r}")
        self.url = match[1]

    def end(self):
        self.process.terminate()
        try:
            code = self.process.wait(wire.PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        return code


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="cairn-registry-")
        self.addCleanup(directory.cleanup)
        self.home = directory.name
        self.data = os.path.join(self.home, "data")

    def cairn(self, *arguments, code=0, environment=None):
        ended = cairn(*arguments, environment=environment, cwd=self.home)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended

    def ask(self, *arguments, code=0, environment=None):
        return self.cairn(*arguments, "--data", self.data, code=code, environment=environment)

    def read_json(self, schema, *arguments, code=0):
        lines = [json.loads(line) for line in self.ask(*arguments, "--json", code=code).stdout.splitlines()]
        self.assertTrue(lines, arguments)
        for line in lines:
            self.assertIsNone(mismatch(schema_of(schema), line), line)
        return lines

    def path(self, *parts):
        return os.path.join(self.data, *parts)


class Offline(Case):
    def test_init_makes_keys_genesis_and_trust_roots_once(self):
        made = self.read_json("registry-init", "registry", "init", "--m", "2", "--signers", "a,b,c")[0]
        self.assertEqual([one["id"] for one in made["signers"]], ["a", "b", "c"])
        for name in ("a", "b", "c", "registry-log"):
            self.assertEqual(stat.S_IMODE(os.stat(self.path("keys", name + ".key")).st_mode), 0o600)
            by_openssl = subprocess.run(["openssl", "pkey", "-in", self.path("keys", name + ".key"), "-pubout"],
                                        capture_output=True, check=True).stdout
            with open(self.path("keys", name + ".pub"), "rb") as file:
                self.assertEqual(file.read(), by_openssl)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("keys")).st_mode), 0o700)
        with open(self.path("registry", "trust-roots.json")) as file:
            roots = json.load(file)
        self.assertEqual(roots["genesis_payload_b3"], made["genesis_payload_b3"])
        with open(self.path("registry", "genesis.cbor"), "rb") as file:
            before = file.read()
        self.assertIn("error[conflict]", self.ask("registry", "init", code=9).stderr)
        with open(self.path("registry", "genesis.cbor"), "rb") as file:
            self.assertEqual(file.read(), before)

    def test_init_uses_keys_that_are_there(self):
        key = self.read_json("key-new", "key", "new", "a")[0]["key"]
        made = self.read_json("registry-init", "registry", "init", "--signers", "a,b")[0]
        self.assertEqual([(one["made"], one["key"] == key) for one in made["signers"]], [(False, True), (True, False)])
        self.assertEqual(made["m"], 1)

    def test_init_refuses_what_could_never_approve(self):
        for arguments in (["--m", "2"], ["--m", "0"], ["--m", "x"], ["--signers", "a,../b"], ["--signers", "a,,b"],
                          ["--signers", "admin"]):
            self.ask("registry", "init", *arguments, code=64)
        self.assertFalse(os.path.exists(self.path("registry")))
        self.ask("registry", "init", "--signers", "a,a", code=1)

    def test_keys_show_their_public_part_only(self):
        self.ask("key", "new", "signer")
        shown = self.ask("key", "show", "signer").stdout + self.ask("key", "ls").stdout
        with open(self.path("keys", "signer.key")) as file:
            secret = file.read().splitlines()[1]
        self.assertNotIn(secret, shown)
        self.assertNotIn(base64.b64encode(base64.b64decode(secret)[-32:]).decode(), shown)
        self.assertEqual(self.read_json("key-ls", "key", "ls"), self.read_json("key-show", "key", "show", "signer"))
        self.assertIn("error[conflict]", self.ask("key", "new", "signer", code=9).stderr)
        self.ask("key", "show", "nobody", code=3)
        self.ask("key", "new", "../x", code=64)
        self.ask("key", "new", "registry-log", code=64)

    def test_a_private_key_that_others_can_read_is_not_used(self):
        self.ask("key", "new", "a")
        os.chmod(self.path("keys", "a.key"), 0o644)
        self.assertIn("chmod 600", self.ask("registry", "init", "--signers", "a", code=1).stderr)

    def test_keys_are_not_taken_from_a_directory_that_others_can_write_to(self):
        self.ask("registry", "init", "--signers", "a")
        for mode in (0o720, 0o702, 0o777):
            os.chmod(self.path("keys"), mode)
            with self.subTest(mode):
                ended = self.ask("registry", "--bind", "127.0.0.1:0", code=1)
                self.assertIn("chmod 700", ended.stderr)
                self.assertIn("chmod 700", self.ask("key", "new", "b", code=8).stderr)
        os.chmod(self.path("keys"), 0o755)
        self.ask("key", "new", "b")

    @unittest.skipUnless(os.getuid() == 0, "only root can give a directory away")
    def test_keys_are_not_taken_from_a_directory_of_somebody_else(self):
        self.ask("registry", "init", "--signers", "a")
        os.chown(self.path("keys"), 12345, 12345)
        self.assertIn("another user", self.ask("registry", "--bind", "127.0.0.1:0", code=1).stderr)
        # Whoever owns the data directory owns its keys; root's are good everywhere.
        os.chown(self.data, 12345, 12345)
        self.ask("key", "new", "b")
        os.chown(self.path("keys"), 0, 0)
        self.ask("key", "new", "c")

    def test_a_registry_that_is_lost_is_not_made_anew(self):
        made = self.read_json("registry-init", "registry", "init", "--signers", "a")[0]
        with open(self.path("registry.genesis")) as file:
            self.assertEqual(file.read().strip(), made["genesis_payload_b3"])
        os.rename(self.path("registry"), self.path("elsewhere"))
        for arguments, code in ((("registry", "init"), 1), (("registry", "--bind", "127.0.0.1:0"), 1), (("up",), 1)):
            with self.subTest(arguments):
                self.assertIn("restore", self.ask(*arguments, code=code).stderr)
                self.assertFalse(os.path.exists(self.path("registry", "genesis.cbor")))
        os.remove(self.path("registry.genesis"))
        other = self.read_json("registry-init", "registry", "init", "--signers", "a")[0]
        self.assertNotEqual(other["genesis_payload_b3"], made["genesis_payload_b3"])
        # Neither is another one taken for it.
        shutil.rmtree(self.path("registry"))
        os.rename(self.path("elsewhere"), self.path("registry"))
        self.assertIn("another genesis", self.ask("registry", "--bind", "127.0.0.1:0", code=1).stderr)

    def test_nobody_there_is_69_and_says_how_to_start_it(self):
        ended = self.cairn("registry", "head", "--url", "http://127.0.0.1:1", code=69)
        self.assertIn("start it: cairn registry --data DIR", ended.stderr)

    def test_an_option_of_the_service_is_none_of_its_verbs(self):
        self.assertIn("--bind", self.cairn("registry", "--bind", "127.0.0.1:0", "head", code=64).stderr)


class Online(Case):
    def setUp(self):
        super().setUp()
        self.ask("registry", "init", "--m", "2", "--signers", "a,b,c")
        self.server = Registry(self.data)
        self.addCleanup(lambda: self.server and self.server.end())

    def stop(self):
        server, self.server = self.server, None
        self.assertEqual(server.end(), 0)

    def commit(self, *arguments, verb="commit"):
        proposal = self.ask("registry", "propose", "-q", *arguments).stdout.strip()
        for name in ("a", "b"):
            self.ask("registry", "approve", proposal, "--key", name, "-q")
        return int(self.ask("registry", verb, proposal, "-q").stdout)

    def await_checkpoint(self, size):
        """The checkpoint follows a commit by itself; asking for the head again is what passes the time."""
        for _ in range(2000):
            with open(self.path("registry", "checkpoint")) as file:
                if file.read().splitlines()[1] == str(size):
                    return
            self.ask("registry", "head")
        self.fail("no checkpoint")

    def test_every_verb_keeps_to_its_schema(self):
        self.read_json("registry-head", "registry", "head")
        proposal = self.read_json("registry-propose", "registry", "propose", "--add", EU)[0]
        self.assertEqual(proposal["version"], 1)
        name = proposal["proposal_id"]
        self.read_json("registry-log", "registry", "log", "--pending")
        self.read_json("registry-show", "registry", "show", name)
        count = self.read_json("registry-approve", "registry", "approve", name, "--key", "a")[0]
        self.assertEqual((count["approvals"], count["quorum"]), (1, {"m": 2, "n": 3}))
        self.read_json("registry-approve", "registry", "approve", name, "--key", "c")
        head = self.read_json("registry-commit", "registry", "commit", name)[0]
        self.assertTrue(head["fresh"])
        for more in ((), ("--key", "a")):
            again = self.read_json("registry-commit", "registry", "commit", name, *more)[0]
            self.assertEqual({**again, "fresh": True}, head)
        shown = self.read_json("registry-show", "registry", "show", "head")[0]
        self.assertEqual([one["signer_id"] for one in shown["approvals"]], ["a", "c"])
        replaced = self.ask("registry", "propose", "-q", "--supersede-of", "1", "--reason", "a mistake",
                            "--remove", "region:eu").stdout.strip()
        for signer in ("a", "b"):
            self.ask("registry", "approve", replaced, "--key", signer, "-q")
        self.assertEqual(self.read_json("registry-supersede", "registry", "supersede", replaced)[0]["version"], 2)
        log = self.read_json("registry-log", "registry", "log")
        self.assertEqual([(one["version"], "superseded" in one) for one in log], [(0, False), (1, True), (2, False)])
        self.assertEqual(self.read_json("registry-log", "registry", "log", "--from", "1", "--limit", "1"), log[1:2])
        self.assertEqual(self.ask("registry", "log", "--limit", "0").stdout, "")
        self.assertEqual(self.read_json("registry-show", "registry", "show", "2")[0]["supersedes"], 1)

    def test_a_proposal_is_shown_with_all_that_would_be_signed(self):
        add = self.ask("registry", "propose", "-q", "--add", EU).stdout.strip()
        for signer in ("a", "b"):
            self.ask("registry", "approve", add, "--key", signer, "-q")
        self.ask("registry", "commit", add, "-q")
        name = self.ask("registry", "propose", "-q", "--supersede-of", "1", "--reason", "a mistake", "--remove", "region:eu",
                        "--expiry", "2099-01-02T03:04:05Z").stdout.strip()
        shown = self.read_json("registry-show", "registry", "show", name)[0]
        self.assertEqual((shown["supersedes"], shown["payload"]["expiry"], shown["payload"]["reason"]), (1, "2099-01-02T03:04:05Z", "a mistake"))
        text = self.ask("registry", "show", name).stdout
        self.assertRegex(text, "(?m)^expiry +2099-01-02T03:04:05Z$")
        self.assertRegex(text, "(?m)^supersedes +1$")
        self.assertRegex(text, "(?m)^reason +a mistake$")

    def test_whoever_approves_a_superseding_proposal_is_told_what_commits_it(self):
        plain = self.ask("registry", "propose", "-q", "--add", EU).stdout.strip()
        self.assertNotIn("next:", self.ask("registry", "approve", plain, "--key", "a").stderr)
        self.assertIn(f"next: cairn registry commit {plain}\n", self.ask("registry", "approve", plain, "--key", "b").stderr)
        self.assertIn(f"cairn registry commit {plain}\n", self.ask("registry", "supersede", plain, code=9).stderr)
        self.ask("registry", "commit", plain)
        self.ask("registry", "supersede", plain, code=9)
        replaced = self.ask("registry", "propose", "-q", "--supersede-of", "1", "--reason", "a mistake").stdout.strip()
        self.ask("registry", "approve", replaced, "--key", "a")
        said = self.ask("registry", "approve", replaced, "--key", "b").stderr
        self.assertIn(f"next: cairn registry supersede {replaced}\n", said)
        self.assertIn(f"cairn registry supersede {replaced}\n", self.ask("registry", "commit", replaced, code=9).stderr)
        self.ask("registry", "supersede", replaced)

    def test_a_set_in_a_file_has_the_form_that_the_help_and_the_hint_tell(self):
        now = json.loads(self.ask("registry", "show", "head", "--json").stdout)["payload"]["items"]
        path = os.path.join(self.home, "next.json")
        for text in ("[]", "{}", json.dumps({"items": now}), '{"schema_version":"1.0.0","items":[]}'):
            with open(path, "w") as file:
                file.write(text)
            self.assertIn('{"schema_version":"1.0.0","items":[', self.ask("registry", "propose", path, code=1).stderr)
        self.assertIn('{"schema_version":"1.0.0","items":[', self.cairn("registry", "propose", "--help").stdout)
        self.assertIn('{"type":"region"', self.ask("registry", "propose", "--add", "{}", code=1).stderr)
        with open(path, "w") as file:
            json.dump({"schema_version": "1.0.0", "items": now + [json.loads(EU)]}, file)
        self.assertIn("version 1", self.ask("registry", "propose", path).stdout)

    def test_who_may_change_names_is_proposed_like_any_item(self):
        key = self.ask("key", "new", "docs-editor", "-q").stdout.strip()
        item = {"type": "name_authority", "prefix": "docs/guide", "key": key}
        self.commit("--add", json.dumps(item))
        self.assertIn(item, self.read_json("registry-show", "registry", "show", "head")[0]["payload"]["items"])
        other = self.ask("key", "new", "other-editor", "-q").stdout.strip()
        said = self.ask("registry", "propose", "--add", json.dumps({**item, "key": other})).stderr
        self.assertIn("0 added, 1 changed, 0 removed", said)
        self.ask("registry", "propose", "--remove", "name_authority:docs", code=3)
        self.assertIn("1 removed", self.ask("registry", "propose", "--remove", "name_authority:docs/guide").stderr)
        for wrong in ({**item, "prefix": "/docs"}, {**item, "key": "AQI="}):
            self.assertIn("docs/formats/registry.md", self.ask("registry", "propose", "--add", json.dumps(wrong), code=1).stderr)

    def test_a_checkpoint_that_is_none_is_told_by_its_own_option(self):
        path = os.path.join(self.home, "no-checkpoint")
        with open(path, "w") as file:
            file.write("text\n")
        for since, code in ((path, 4), (path + "-absent", 3)):
            ended = self.ask("registry", "verify", "--url", self.server.url, "--since", since, code=code)
            self.assertIn("--since", ended.stderr)
            self.assertNotIn("--trust-roots", ended.stderr)

    def test_refusals_have_their_exit_codes(self):
        proposal = self.ask("registry", "propose", "-q", "--add", EU).stdout.strip()
        self.assertIn("quorum_failed", self.ask("registry", "commit", proposal, code=9).stderr)
        self.ask("registry", "approve", proposal, "--key", "a", "-q")
        self.assertIn("duplicate_approval", self.ask("registry", "approve", proposal, "--key", "a", "-q", code=9).stderr)
        ended = self.ask("registry", "approve", proposal, "--key", "a", "--signer", "b", "-q", code=4)
        self.assertIn("invalid_sig", ended.stderr)
        self.ask("registry", "show", "99", code=3)
        self.ask("registry", "approve", proposal, "--key", "nobody", code=3)
        self.ask("registry", "propose", "--remove", "region:nowhere", code=3)
        self.ask("registry", "commit", "not-an-id", code=64)
        weak = self.cairn("cap", "mint", "--data", self.data, "--op", "registry.propose,registry.approve").stdout.strip()
        self.ask("registry", "commit", proposal, code=8, environment={"CAIRN_CAP": weak})
        stale = self.ask("registry", "propose", "-q", "--add", '{"type":"region","id":"us"}').stdout.strip()
        self.ask("registry", "approve", proposal, "--key", "b", "-q")
        self.ask("registry", "commit", proposal)
        self.assertIn("chain_mismatch", self.ask("registry", "commit", stale, code=9).stderr)

    def test_a_signer_without_a_network(self):
        answer = self.ask("registry", "propose", "--add", EU, "--json", "-o", "payload.cbor").stdout
        proposal = json.loads(answer)
        with open(os.path.join(self.home, "answer.json"), "w") as file:
            file.write(answer)
        stick = os.path.join(self.home, "stick")
        os.makedirs(os.path.join(stick, "keys"), 0o700)
        os.rename(self.path("keys", "b.key"), os.path.join(stick, "keys", "b.key"))
        nowhere = {"CAIRN_URL": "http://127.0.0.1:1"}
        for payload in ("payload.cbor", "answer.json"):
            ended = self.cairn("registry", "approve", "--offline", payload, "--key", "b", "--data", stick, "-o", "b.json",
                               environment=nowhere)
            self.assertIn('"eu"', ended.stderr)
        with open(os.path.join(self.home, "b.json")) as file:
            self.assertIsNone(mismatch(schema_of("registry-approve"), json.load(file)))
        proposal["payload_b3"] = "b3:" + "0" * 64
        with open(os.path.join(self.home, "forged.json"), "w") as file:
            json.dump(proposal, file)
        self.cairn("registry", "approve", "--offline", "forged.json", "--key", "b", "--data", stick, code=4)
        self.ask("registry", "approve", proposal["proposal_id"], "--from", "b.json")
        self.ask("registry", "approve", proposal["proposal_id"], "--key", "c", "-q")
        self.assertEqual(self.ask("registry", "commit", proposal["proposal_id"], "-q").stdout, "1\n")

    def test_a_whole_set_from_a_file_and_who_signs_next(self):
        shown = self.read_json("registry-show", "registry", "show", "0")[0]
        items = shown["payload"]["items"]
        items[0]["m"] = 1
        with open(os.path.join(self.home, "next.json"), "w") as file:
            json.dump({"schema_version": "1.0.0", "items": items + [json.loads(EU)]}, file)
        self.assertEqual(self.commit("next.json"), 1)
        proposal = self.ask("registry", "propose", "-q", "--remove", "region:eu").stdout.strip()
        self.ask("registry", "approve", proposal, "--key", "c", "-q")
        self.assertEqual(self.ask("registry", "commit", proposal, "-q").stdout, "2\n")

    def test_follow_prints_heads_across_a_restart_and_ends_with_130(self):
        with open(os.path.join(self.home, "said"), "wb") as said:
            process = subprocess.Popen([binary(), "registry", "follow", "--json", "--data", self.data], stdout=subprocess.PIPE,
                                       stderr=said, bufsize=0, env=demo.clean_environment())
        try:
            def version():
                ready, _, _ = select.select([process.stdout], [], [], wire.PATIENCE)
                self.assertTrue(ready)
                line = json.loads(process.stdout.readline())
                self.assertIsNone(mismatch(schema_of("registry-follow"), line))
                return line["version"]
            self.assertEqual(version(), 0)
            self.commit("--add", EU)
            self.assertEqual(version(), 1)
            self.stop()
            self.server = Registry(self.data)
            self.commit("--remove", "region:eu")
            self.assertEqual(version(), 2)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(wire.PATIENCE), 130)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def test_verify_over_server_directory_and_tiles(self):
        self.cairn("registry", "verify", "--url", self.server.url, "--data", self.data, "-o", "early")
        self.commit("--add", EU)
        self.commit("--add", '{"type":"region","id":"us"}')
        self.await_checkpoint(3)
        ended = self.cairn("registry", "verify", "--url", self.server.url, "--data", self.data, "--since", "early", "--json")
        report = json.loads(ended.stdout)
        self.assertIsNone(mismatch(schema_of("registry-verify"), report))
        self.assertEqual((report["versions"], report["approvals_checked"], report["source"]), (3, True, "server"))
        shutil.copytree(self.path("registry"), os.path.join(self.home, "mirror"))
        for name in ("as", "af", "sa"):
            self.commit("--add", json.dumps({"type": "region", "id": name}))
            self.expect_told_of_what_no_checkpoint_covers()
        self.await_checkpoint(6)
        self.assertTrue(self.expect_told_of_what_no_checkpoint_covers())
        self.stop()
        report = self.read_json("registry-verify", "registry", "verify")[0]
        self.assertEqual((report["versions"], report["source"]), (6, "data"))
        roots = self.path("registry", "trust-roots.json")
        tiles = self.cairn("registry", "verify", "--tiles", "mirror", "--trust-roots", roots, "--since", "early")
        self.assertIn("approvals NOT checked", tiles.stdout)
        self.spoil_tiles(roots)

    def expect_told_of_what_no_checkpoint_covers(self):
        """Whether it covers everything."""
        ended = self.cairn("registry", "verify", "--url", self.server.url, "--data", self.data)
        versions, size = map(int, re.match(r"ok  (\d+) versions from 0 on, checkpoint of (\d+),", ended.stdout).groups())
        self.assertEqual(f"no checkpoint covers the versions from {size} on" in ended.stderr, size < versions, ended)
        return size == versions

    def spoil_tiles(self, roots):
        bundle = os.path.join(self.home, "mirror", "tile", "entries", "000.p", "3")
        with open(bundle, "r+b") as file:
            first = int.from_bytes(file.read(2), "big")
            file.seek(2 + first + 2 + 40)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 4]))
        ended = self.cairn("registry", "verify", "--tiles", "mirror", "--trust-roots", roots, code=4)
        self.assertRegex(ended.stderr, r"^error\[integrity\]: version 1: ")
        ended = self.cairn("registry", "verify", "--tiles", "mirror", "--trust-roots", roots, "--json", code=4)
        found = json.loads(ended.stdout)
        self.assertIsNone(mismatch(schema_of("registry-verify"), found))
        self.assertEqual((found["ok"], found["version"]), (False, 1))
