"""Capabilities on a real process: what is asked for, what is allowed, and how a key is revoked."""

import base64
import hashlib
import hmac
import os
import shutil
import tempfile
import unittest

import wire
from demo import Demo

KEY = ("0123456789abcdef", bytes(range(32)))
OTHER = ("fedcba9876543210", bytes(range(100, 132)))


def key_file(keys, revoked=()):
    """The text of a file of root keys, as docs/formats/capability-root.md says."""
    body = "".join(f"key {name} 2026-01-01T00:00:00Z {'revoked' if name in revoked else 'active'} {secret.hex()}\n"
                   for name, secret in keys)
    return f"cairn-capability-root 1.0 sha256:{hashlib.sha256(body.encode()).hexdigest()}\n{body}"


def mint(key, *caveats):
    """A token in the V2 binary form, made without a line of the server's code."""
    def mac(secret, message):
        return hmac.new(secret, message, hashlib.sha256).digest()

    def field(kind, data):
        assert len(data) < 128
        return bytes([kind, len(data)]) + data
    name, secret = key
    location = b"demo"
    identifier = f"v1 {name} 01J9ZQ4W3E5R6T7Y8K9M0P1Q2S ".encode() + location
    signature = mac(mac(b"macaroons-key-generator", secret), identifier)
    packet = b"\x02" + field(1, location) + field(2, identifier) + b"\x00"
    for caveat in map(str.encode, caveats):
        signature = mac(signature, caveat)
        packet += field(2, caveat) + b"\x00"
    packet += b"\x00" + field(6, signature)
    return base64.urlsafe_b64encode(packet).rstrip(b"=").decode()


class Capabilities(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cairn-keys-")
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.path = os.path.join(self.directory, "capability-root.key")
        self.rewrite([KEY, OTHER])
        self.demo = self.enterContext(Demo({"demo.root_keys": self.path}))

    def rewrite(self, keys, revoked=()):
        """As another process does it."""
        with open(self.path + ".other", "w") as file:
            file.write(key_file(keys, revoked))
        os.chmod(self.path + ".other", 0o600)  # others may not even read it
        os.rename(self.path + ".other", self.path)

    def ask(self, token=None, method="POST", target="/guarded"):
        fields = {"Authorization": f"Bearer {token}"} if token else {}
        return self.demo.ask(method, target, b"" if method == "POST" else None, **fields)

    def assert_everywhere(self, status, token):
        """Connections are spread over the shards."""
        for _ in range(20):
            self.assertEqual(self.ask(token).status, status)

    def test_a_token_is_asked_for_and_its_caveats_count(self):
        refused = self.ask()
        self.assertEqual((refused.status, refused.error()["code"]), (401, "unauthorized"))
        self.assertEqual(refused.get("WWW-Authenticate"), "Bearer")
        self.assert_everywhere(200, mint(KEY))
        self.assert_everywhere(200, mint(OTHER, "op = demo.write", "ip = 127.0.0.0/8"))
        self.assertEqual(self.ask(mint(KEY, "op = demo.read")).status, 403)
        self.assertEqual(self.ask(mint(KEY, "expires < 2020-01-01T00:00:00Z")).status, 403)
        self.assertEqual(self.ask(mint((KEY[0], OTHER[1]))).status, 401)
        self.assertEqual(self.ask(target="/mem/x", method="GET").status, 200)

    def test_a_revocation_is_durable_and_holds_on_every_shard(self):
        token = mint(KEY)
        self.assert_everywhere(200, token)
        self.assertEqual(self.ask(token, target=f"/admin/keys/{'0' * 16}/revoke").status, 404)
        self.assertEqual(self.ask(mint(KEY, "op = demo.write"), target=f"/admin/keys/{KEY[0]}/revoke").status, 403)
        self.assertEqual(self.ask(token, target=f"/admin/keys/{KEY[0]}/revoke").status, 204)
        with open(self.path) as file:
            self.assertEqual(file.read(), key_file([KEY, OTHER], {KEY[0]}))
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)
        self.assert_everywhere(401, token)
        self.assert_everywhere(200, mint(OTHER))

    def test_what_another_process_revokes_is_taken_up(self):
        token = mint(KEY)
        self.assert_everywhere(200, token)
        self.rewrite([KEY, OTHER], {KEY[0]})
        wire.poll(lambda: all(self.ask(token).status == 401 for _ in range(20)), "every shard refuses it")
        self.assert_everywhere(200, mint(OTHER))

    def test_a_damaged_file_changes_nothing_and_is_said(self):
        with open(self.path, "w") as file:
            file.write("damaged")
        wire.poll(lambda: "those known stay in force" in self.demo.log(), "it is said")
        self.assert_everywhere(200, mint(KEY))

    def test_no_token_is_logged(self):
        token = mint(KEY, "op = demo.read")
        self.assertEqual(self.ask(token).status, 403)
        self.assertEqual(self.demo.stop(), 0)
        self.assertNotIn(token, self.demo.log())


class Absent(unittest.TestCase):
    def test_a_key_file_that_is_missing_or_damaged_is_named_and_nothing_starts(self):
        with tempfile.TemporaryDirectory(prefix="cairn-keys-") as directory:
            path = os.path.join(directory, "capability-root.key")
            for text in (None, "damaged"):
                if text is not None:
                    with open(path, "w") as file:
                        file.write(text)
                with self.assertRaisesRegex(AssertionError, "did not start.*capability-root.key"):
                    Demo({"demo.root_keys": path})
