"""Capabilities: minted by us, narrowed by another library (pymacaroons), honoured to the letter and no further."""

import base64
import gzip
import json
import os
import random
import subprocess
import time
import unittest

import wire
from storage_server import Storage, StorageTest, b3sum, cairn

# The library lives with the system's own interpreter.
PYTHON = "/usr/bin/python3"
NARROW = """
import json, sys
from pymacaroons import Macaroon
for line in sys.stdin:
    token, caveats = json.loads(line)
    macaroon = Macaroon.deserialize(token)
    for caveat in caveats:
        macaroon.add_first_party_caveat(caveat)
    print(macaroon.serialize())
"""
OPERATIONS = ("storage.get", "storage.list", "storage.put", "storage.pin", "storage.delete", "storage.admin")


def narrow(token, *caveats):
    return narrow_all([(token, caveats)])[0]


def narrow_all(wanted):
    lines = "".join(json.dumps([token, list(caveats)]) + "\n" for token, caveats in wanted)
    ended = subprocess.run([PYTHON, "-c", NARROW], input=lines, capture_output=True, text=True, timeout=60)
    if ended.returncode != 0:
        raise AssertionError(ended.stderr)
    return ended.stdout.split()


def decode(token):
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def encode(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def mint(storage, *arguments):
    ended = cairn("cap", "mint", "--data", storage.data, *arguments)
    if ended.returncode != 0 or len(ended.stdout.split()) != 1:
        raise AssertionError(f"cap mint: {ended}")
    return ended.stdout.strip()


class Tokens(StorageTest):
    settings = {"auth.reads": "required", "log.level": "debug"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.minted = mint(cls.storage, "--op", ",".join(OPERATIONS))
        cls.content = b"guarded"
        cls.address = cls.storage.post(cls.content)
        cls.used = {cls.minted}

    def ask(self, token, method, target, body=None, **fields):
        if token:
            self.used.add(token)
            fields["Authorization"] = f"Bearer {token}"
        return self.storage.ask_openly(method, target, body, **fields)

    def requests(self):
        """One request of each operation."""
        return {"storage.get": ("GET", f"/o/{self.address}"), "storage.list": ("GET", "/o"), "storage.put": ("POST", "/o", self.content),
                "storage.pin": ("DELETE", f"/pins/{self.address}"), "storage.delete": ("DELETE", "/o/b3:" + "0" * 64),
                "storage.admin": ("GET", "/admin/status")}

    def allowed(self, token):
        """The operations a token is good for; everything else must have been refused properly."""
        good = set()
        for operation, request in self.requests().items():
            answer = self.ask(token, *request)
            if answer.status in (401, 403):
                self.assertEqual(answer.error()["code"], {401: "unauthorized", 403: "forbidden"}[answer.status])
            else:
                self.assertIn(answer.status, (200, 201, 204, 404), answer)
                good.add(operation)
        return good

    def assert_forbidden(self, token, *request, **fields):
        self.assert_error(self.ask(token, *(request or self.requests()["storage.get"]), **fields), 403, "forbidden")

    def test_without_a_token_nothing_is_done(self):
        self.assertEqual(self.allowed(None), set())
        self.assert_error(self.ask(None, "GET", "/o"), 401, "unauthorized")
        for target in ("/healthz", "/readyz", "/version", "/metrics"):
            self.assertEqual(self.ask(None, "GET", target).status, 200)

    def test_who_may_not_write_is_told_before_the_body_is_sent(self):
        for token, status in ((None, 401), (narrow(self.minted, "op = storage.get"), 403), (self.minted, 201)):
            lines = [f"Authorization: Bearer {token}"] if token else []
            with self.storage.connect() as connection:
                connection.send(wire.head("POST /o HTTP/1.1", "Host: localhost", "Content-Length: 12", "Expect: 100-continue", *lines))
                if status == 201:
                    self.assertTrue(connection.socket.recv(1000).startswith(b"HTTP/1.1 100"))
                    connection.send(b"a new object")
                answer = connection.read()
                self.assertEqual((answer.status, answer.interim), (status, []))

    def test_reads_that_are_in_memory_are_guarded_too(self):
        for _ in range(3):
            self.assertEqual(self.ask(self.minted, "GET", f"/o/{self.address}").body, self.content)
        for method, target in (("GET", f"/o/{self.address}"), ("HEAD", f"/o/{self.address}"), ("GET", f"/o/{self.address}/proof")):
            for fields in ({}, {"Range": "bytes=0-1"}, {"If_None_Match": f'"{self.address}"'}):
                self.assertEqual(self.ask(None, method, target, **fields).status, 401)

    def test_a_minted_token_has_what_it_names(self):
        self.assertEqual(self.allowed(self.minted), set(OPERATIONS))
        for operation in OPERATIONS:
            self.assertEqual(self.allowed(mint(self.storage, "--op", operation)), {operation})

    def test_another_library_narrows_it_and_exactly_that_is_honoured(self):
        chance = random.Random(5)
        cases = [{operation} for operation in OPERATIONS] + [set(chance.sample(OPERATIONS, 3)) for _ in range(3)]
        tokens = narrow_all([(self.minted, ["op = " + " ".join(sorted(case))]) for case in cases])
        for case, token in zip(cases, tokens):
            with self.subTest(sorted(case)):
                self.assertEqual(self.allowed(token), case)

    def test_several_caveats_intersect_and_nothing_widens_again(self):
        token = narrow(self.minted, "op = storage.get storage.put", "op = storage.put storage.delete")
        self.assertEqual(self.allowed(token), {"storage.put"})
        self.assertEqual(self.allowed(narrow(token, "op = storage.get storage.list storage.admin")), set())
        self.assertEqual(self.allowed(narrow(mint(self.storage, "--op", "storage.get"), "op = " + " ".join(OPERATIONS))), {"storage.get"})

    def test_services_and_networks(self):
        for caveat, good in (("svc = storage", True), ("svc = index storage", True), ("svc = index", False),
                             ("ip = 127.0.0.0/8", True), ("ip = 127.0.0.1/32", True), ("ip = 10.0.0.0/8", False), ("ip = ::1/128", False)):
            with self.subTest(caveat):
                self.assertEqual(self.allowed(narrow(self.minted, caveat)), set(OPERATIONS) if good else set())

    def test_an_address_is_the_only_one(self):
        token = narrow(self.minted, f"addr = {self.address}")
        self.assertEqual(self.ask(token, "GET", f"/o/{self.address}").status, 200)
        self.assertEqual(self.ask(token, "PUT", f"/o/{self.address}", self.content).status, 200)
        other = self.storage.post(b"another")
        for request in (("GET", f"/o/{other}"), ("PUT", f"/o/{other}", b"another"), ("DELETE", f"/o/{other}"), ("PUT", f"/pins/{other}"),
                        ("POST", "/o", self.content), ("GET", "/o"), ("POST", "/uploads", b""), ("GET", f"/o/{other}/proof")):
            with self.subTest(request[:2]):
                self.assert_forbidden(token, *request)

    def test_bytes_are_bounded_whatever_the_framing(self):
        token = narrow(self.minted, "max_bytes <= 1000")
        self.assertEqual(self.ask(token, "POST", "/o", b"x" * 1000).status, 201)
        self.assertEqual(self.ask(token, "GET", f"/o/{self.address}").status, 200)
        self.assert_forbidden(token, "POST", "/o", b"y" * 1001)
        line = random.Random(1).randbytes(300)
        packed = gzip.compress(line * 8)
        self.assertLess(len(packed), 1000)
        self.assert_forbidden(token, "POST", "/o", packed, Content_Encoding="gzip")
        with self.storage.connect() as connection:
            connection.send(wire.head("POST /o HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", f"Authorization: Bearer {token}") + wire.chunked(b"z" * 2000))
            self.assert_error(connection.read(), 403, "forbidden")
        self.assertEqual([self.storage.ask("GET", f"/o/{address}").status for address in b3sum(b"y" * 1001, line * 8, b"z" * 2000)], [404] * 3)

    def test_a_bounded_token_cannot_assemble_more_than_its_bound(self):
        token = narrow(self.minted, "max_bytes <= 1000")
        begun = self.ask(token, "POST", "/uploads", b'{"size":3000000}')
        if begun.status == 403:
            return
        target = f"/uploads/{begun.json()['id']}"
        self.assert_forbidden(token, "PATCH", target, b"x" * 1001, Upload_Offset=0)

    def test_what_is_unknown_or_malformed_is_forbidden(self):
        for caveat in ("colour = red", "op", "op =", "op=storage.get", "op  = storage.get", "OP = storage.get", "expires < tomorrow",
                       "expires > 2020-01-01T00:00:00Z", "max_bytes <= lots", "max_bytes <= -1", "addr = b3:00", "ip = 127.0.0.1/33", "name ^ x/", "", " "):
            with self.subTest(caveat):
                self.assert_forbidden(narrow(self.minted, caveat))

    def test_expiry(self):
        stamp = lambda seconds: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        self.assertEqual(self.allowed(narrow(self.minted, f"expires < {stamp(3600)}")), set(OPERATIONS))
        self.assert_forbidden(narrow(self.minted, f"expires < {stamp(-1)}"))
        self.assert_forbidden(narrow(self.minted, f"expires < {stamp(3600)}", f"expires < {stamp(-3600)}"))
        soon = narrow(self.minted, f"expires < {stamp(3)}")
        self.assertEqual(self.ask(soon, "GET", f"/o/{self.address}").status, 200)
        wire.poll(lambda: self.ask(soon, "GET", f"/o/{self.address}").status == 403, "it is over", 10)
        self.assertEqual(self.allowed(mint(self.storage, "--op", "storage.get", "--expires", "1h")), {"storage.get"})

    def test_any_changed_byte_is_refused(self):
        raw = decode(narrow(self.minted, "op = storage.get"))
        with self.storage.connect() as connection:
            for at in range(len(raw)):
                bad = bytearray(raw)
                bad[at] ^= 1 << at % 8
                token = encode(bytes(bad))
                self.used.add(token)
                answer = connection.ask("GET", f"/o/{self.address}", Authorization=f"Bearer {token}")
                self.assert_error(answer, 401, "unauthorized")
                if answer.closes():
                    connection.close()
                    connection.__init__(self.storage.address)

    def test_a_token_cut_or_stretched_is_refused(self):
        token = narrow(self.minted, "op = storage.get")
        raw = decode(token)
        last = raw.rindex(b"op = storage.get")
        without = raw[:last - 2] + raw[last + len(b"op = storage.get") + 1:]
        for wrong in (encode(raw[:-1]), encode(raw + b"\0"), encode(without), token[:-1], token + "A", token + "==", "", "x", "=" * 40, "A" * 9000):
            with self.subTest(wrong[:20]):
                answer = self.ask(None, "GET", f"/o/{self.address}", Authorization=f"Bearer {wrong}")
                self.assertIn(answer.status, (401, 431), answer)

    def test_at_most_64_caveats(self):
        own = 1  # minted with its operations
        self.assertEqual(self.allowed(narrow(self.minted, *["svc = storage"] * (64 - own))), set(OPERATIONS))
        self.assertEqual(self.allowed(narrow(self.minted, *["svc = storage"] * (65 - own))), set())

    def test_our_own_narrowing_and_theirs_agree(self):
        ended = cairn("cap", "attenuate", self.minted, "--op", "storage.list")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stdout.strip(), narrow(self.minted, "op = storage.list"))

    @classmethod
    def tearDownClass(cls):
        """No token ever appears in the log, which says as much as it can."""
        log = cls.storage.log()
        for token in cls.used | {cls.storage.token}:
            for piece in (token, token[-30:]):
                if len(piece) >= 20 and piece in log:
                    raise AssertionError(f"a token is in the log: …{piece[-10:]}")
        if not log:
            raise AssertionError("the log is empty")


class OpenReads(unittest.TestCase):
    def test_reads_are_public_by_default_and_nothing_else_is(self):
        with Storage() as storage:
            address = storage.post(b"public")
            for method, target in (("GET", f"/o/{address}"), ("HEAD", f"/o/{address}"), ("GET", f"/o/{address}/proof")):
                self.assertEqual(storage.ask_openly(method, target).status, 200)
            for request in (("GET", "/o"), ("PUT", f"/o/{address}", b"public"), ("POST", "/o", b"x"), ("POST", "/uploads", b""), ("PUT", f"/pins/{address}"),
                            ("DELETE", f"/o/{address}"), ("GET", "/admin/status"), ("POST", "/admin/scrub"), ("POST", "/admin/keys/0123456789abcdef/revoke")):
                answer = storage.ask_openly(*request)
                self.assertEqual((answer.status, answer.error()["code"]), (401, "unauthorized"), request)


class Revoked(unittest.TestCase):
    def setUp(self):
        self.storage = self.enterContext(Storage({"log.level": "debug"}))
        self.token = mint(self.storage, "--op", "storage.list")
        self.key = json.loads(cairn("cap", "inspect", "--json", self.token).stdout)["key_id"]

    def statuses(self, token):
        """Connections are spread over the shards."""
        return {self.storage.ask_openly("GET", "/o", **self.storage.bearer(token)).status for _ in range(20)}

    def test_cap_revoke_takes_effect_while_the_server_runs_and_new_tokens_work(self):
        self.assertEqual(self.statuses(self.token), {200})
        old_admin = self.storage.token
        ended = cairn("cap", "revoke", "--data", self.storage.data, self.key)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        # Five seconds are promised; the rest is for a machine under load.
        wire.poll(lambda: self.statuses(self.token) == {401}, "every shard refuses it", 15)
        self.assertEqual(self.statuses(narrow(self.token, "svc = storage")), {401})
        self.assertEqual(self.statuses(old_admin), {401})
        fresh = mint(self.storage, "--op", "storage.list")
        wire.poll(lambda: self.statuses(fresh) == {200}, "new tokens are good")
        with open(os.path.join(self.storage.data, "keys", "admin.cap")) as file:
            self.assertEqual(self.statuses(file.read().strip()), {200})
        self.storage.restart()
        self.assertEqual((self.statuses(self.token), self.statuses(fresh)), ({401}, {200}))
        for token in (self.token, old_admin, fresh):
            self.assertNotIn(token, self.storage.log())

    def test_the_server_revokes_for_who_may_administer_it(self):
        target = f"/admin/keys/{self.key}/revoke"
        self.assertEqual(self.storage.ask("POST", target, Authorization=f"Bearer {self.token}").status, 403)
        self.assertEqual(self.storage.ask("POST", "/admin/keys/0123456789abcdef/revoke").status, 404)
        self.assertEqual(self.statuses(self.token), {200})
        self.assertIn(self.storage.ask("POST", target).status, (200, 202, 204))
        wire.poll(lambda: self.statuses(self.token) == {401}, "every shard refuses it", 10)
        self.assertEqual(self.statuses(self.storage.token), {401})
        self.storage.restart()
        self.assertEqual(self.statuses(self.token), {401})
