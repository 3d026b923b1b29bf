"""cap mint, attenuate, inspect, revoke: what a capability allows, and for how long."""

import json
import os
import re
import stat
import subprocess
import tempfile
import unittest

from macaroon_tokens import narrow
from storage_server import Storage, b3sum, cairn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Capabilities(unittest.TestCase):
    def setUp(self):
        self.server = Storage()
        self.addCleanup(self.server.end)
        directory = tempfile.TemporaryDirectory(prefix="cairn-cap-")
        self.addCleanup(directory.cleanup)
        self.home = directory.name

    def cairn(self, *arguments, token=None, code=0, **options):
        environment = {"CAIRN_CAP": token} if token else {}
        ended = cairn(*arguments, environment=environment, cwd=self.home, **options)
        self.assertEqual(ended.returncode, code, ended.stderr)
        return ended

    def mint(self, *arguments):
        return self.cairn("cap", "mint", "--data", self.server.data, *arguments).stdout.strip()

    def admin(self):
        with open(os.path.join(self.server.data, "keys", "admin.cap")) as file:
            return file.read().strip()

    def put(self, text, token, code=0):
        path = os.path.join(self.home, "file")
        with open(path, "w") as file:
            file.write(text)
        return self.cairn("put", "-q", path, "--url", self.server.url, token=token, code=code)

    def test_mint_prints_the_token_alone_and_it_allows_what_it_says(self):
        token = self.mint("--op", "storage.put,storage.get", "--expires", "1h")
        self.assertRegex(token, r"^[A-Za-z0-9_-]+$")
        self.assertEqual(self.put("minted", token).stdout.strip(), b3sum(b"minted")[0])
        self.cairn("ls", "--url", self.server.url, token=token, code=8)

    def test_a_tenants_token_is_good_for_that_tenant(self):
        self.put("of a tenant", self.mint("--op", "storage.put", "--tenant", "home"))

    def test_an_attenuated_token_allows_less_and_needs_no_server(self):
        token = self.mint("--op", "storage.put,storage.get")
        narrower = self.cairn("cap", "attenuate", "-", "--op", "storage.get", input=token).stdout.strip()
        self.put("narrow", token)
        ended = self.put("narrow", narrower, code=8)
        self.assertIn("error[forbidden]", ended.stderr)
        self.assertNotIn(narrower, ended.stderr)
        small = self.cairn("cap", "attenuate", token, "--max-bytes", "4B").stdout.strip()
        self.put("four", small)
        self.put("more than four", small, code=8)

    def test_an_expired_token_is_refused(self):
        token = narrow(self.mint("--op", "storage.put"), "expires < 2020-01-01T00:00:00Z")
        self.put("late", token, code=8)
        self.assertIn("(over)", self.cairn("cap", "inspect", token).stdout)

    def test_a_time_that_is_over_is_refused_before_a_token_exists(self):
        past = ("--expires", "2020-01-01T00:00:00Z")
        for verb in (("mint", "--data", self.server.data, "--op", "storage.put", *past), ("attenuate", self.admin(), *past)):
            ended = self.cairn("cap", *verb, code=64)
            self.assertEqual(ended.stdout, "")
            self.assertIn("2020-01-01T00:00:00Z: this time is over", ended.stderr)
            self.assertRegex(ended.stderr, "hint .*--expires 1h")

    def test_inspect_says_everything_in_words_and_asks_nobody(self):
        token = self.mint("--op", "storage.get", "--svc", "storage", "--tenant", "home", "--addr", b3sum(b"")[0],
                          "--name", "maps/", "--max-bytes", "1MiB", "--ip", "10.0.0.0/8", "--expires", "1h")
        self.server.stop()
        line = json.loads(self.cairn("cap", "inspect", token, "--json").stdout)
        self.assertEqual(len(line["caveats"]), 8)
        for caveat in line["caveats"]:
            self.assertNotEqual(caveat["caveat"], caveat["means"])
            self.assertNotIn("not understood", caveat["means"])
        self.assertIn(line["key_id"], self.cairn("cap", "inspect", "-", input=token + "\n").stdout)
        self.cairn("cap", "inspect", "nonsense", code=1)

    def test_what_cannot_be_meant_is_refused_before_a_token_exists(self):
        for wrong in (["--op", "storage.everything"], ["--op", "storage.get", "--expires", "soon"],
                      ["--op", "storage.get", "--ip", "10.0.0.0/99"], ["--op", "storage.get", "--addr", "b3:12"], []):
            ended = self.cairn("cap", "mint", "--data", self.server.data, *wrong, code=64)
            self.assertEqual(ended.stdout, "")

    def test_the_operations_are_listed_wherever_one_is_asked_for(self):
        """In the help, in the refusal of one that is none, and on the page about the format: the same."""
        operation = r"\b(?:storage|index|registry|edge|gateway|node)\.[a-z]+\b"
        helped = self.cairn("cap", "mint", "--help").stdout
        self.assertNotIn("[--op", helped)
        row = re.sub(r"\s+", " ", helped).split("--op OP[,OP…] What", 1)[1].split("May be repeated", 1)[0]
        known = re.findall(operation, row)
        self.assertIn("storage.put", known)
        refused = self.cairn("cap", "mint", "--data", self.server.data, "--op", "nonsense", code=64).stderr
        self.assertEqual(re.findall(operation, refused.split("hint", 1)[1]), known)
        refused = self.cairn("cap", "attenuate", "-", "--op", "nonsense", input=self.admin(), code=64).stderr
        self.assertEqual(re.findall(operation, refused.split("hint", 1)[1]), known)
        with open(os.path.join(ROOT, "docs", "formats", "capability.md")) as file:
            page = file.read().split("The operations:", 1)[1].split("\n", 1)[0]
        self.assertEqual(re.findall(operation, page), known)

    def test_revoking_a_key_voids_its_tokens_in_the_running_server(self):
        token = self.mint("--op", "storage.put")
        self.put("before", token)
        key = json.loads(self.cairn("cap", "inspect", token, "--json").stdout)["key_id"]
        line = json.loads(self.cairn("cap", "revoke", key, "--data", self.server.data, "--json").stdout)
        self.assertEqual(line["revoked"], key)
        root = os.path.join(self.server.data, "keys", "capability-root.key")
        self.assertEqual(stat.S_IMODE(os.stat(root).st_mode), 0o600)
        for _ in range(20):  # connections are spread over the shards, and every one of them knows
            self.assertEqual(self.server.ask("POST", "/o", b"after", Authorization=f"Bearer {token}").status, 401)
        fresh = self.mint("--op", "storage.put")
        self.assertEqual(json.loads(self.cairn("cap", "inspect", fresh, "--json").stdout)["key_id"], line["new_key"])
        self.put("with the new key", fresh)

    def test_the_admin_capability_survives_the_revocation_of_its_own_key(self):
        old = self.admin()
        self.cairn("cap", "revoke", "-", "--data", self.server.data, input=old)
        self.assertEqual(self.server.ask("GET", "/admin/status", Authorization=f"Bearer {old}").status, 401)
        self.cairn("status", "--url", self.server.url, "--data", self.server.data)

    def test_so_it_does_when_the_daemon_is_asked_to_revoke_it(self):
        for _ in range(2):
            old = self.admin()
            said = self.cairn("cap", "revoke", "-", "--data", self.server.data, "--url", self.server.url, input=old).stdout
            for _ in range(20):
                self.assertEqual(self.server.ask("GET", "/admin/status", Authorization=f"Bearer {old}").status, 401)
            self.cairn("status", "--url", self.server.url, "--data", self.server.data)
            minting = json.loads(self.cairn("cap", "inspect", self.admin(), "--json").stdout)["key_id"]
            self.assertIn(f"minted under {minting}", said)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.server.data, "keys", "admin.cap")).st_mode), 0o600)

    def test_a_capability_under_another_key_is_left_alone(self):
        first = self.admin()
        self.cairn("cap", "revoke", "-", "--data", self.server.data, input=first)
        second = self.admin()
        key = json.loads(self.cairn("cap", "inspect", first, "--json").stdout)["key_id"]
        self.cairn("cap", "revoke", key, "--data", self.server.data, "--url", self.server.url)
        self.cairn("cap", "revoke", key, "--data", self.server.data)
        self.assertEqual(self.admin(), second)

    def test_a_revocation_needs_no_daemon(self):
        self.server.kill()
        old = self.admin()
        ended = self.cairn("cap", "revoke", "-", "--data", self.server.data, input=old)
        self.assertEqual(ended.stderr, "")
        self.assertNotEqual(self.admin(), old)

    def test_the_admin_capability_is_for_this_machine_only(self):
        """Another server must not learn it by being asked."""
        addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
        ours = [address for address in addresses if "." in address and not address.startswith("127.")]
        if not ours:
            self.skipTest("this machine has no address but the loopback")
        with Storage({"server.bind": f"{ours[0]}:0"}, started=False) as server:
            server.spawn()
            line = server.process.stdout.readline().decode()
            if not line.startswith("storage"):
                self.skipTest("the address cannot be bound")
            url = line.split()[1]
            self.cairn("ls", "--url", url, "--data", server.data, code=8)
            with open(os.path.join(server.data, "keys", "admin.cap")) as file:
                self.cairn("ls", "--url", url, token=file.read().strip())

    def test_an_unknown_key_is_not_found(self):
        self.cairn("cap", "revoke", "0123456789abcdef", "--data", self.server.data, code=3)
        self.cairn("cap", "revoke", "0123456789abcdef", "--data", os.path.join(self.home, "nowhere"), code=3)
