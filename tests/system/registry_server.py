"""`cairn registry` as a process of its own, with the keys of its signers at hand."""

import base64
import json
import os
import re
import subprocess
import time
import unittest

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

import demo
import registry_verifier as verifier
import wire
from storage_server import Storage, binary, cairn
from weather import Weather  # noqa: F401: tests of the registry have it from here

JSON, CBOR = "application/json", "application/cbor"


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def public_bytes(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def public_base64(key):
    return base64.b64encode(public_bytes(key)).decode()


def signature(key, payload_b3):
    """Over the tag, a zero byte and the hash, as docs/formats/registry.md says."""
    return key.sign(b"cairn-registry-approval-v1\0" + bytes.fromhex(payload_b3.removeprefix("b3:")))


def approval(signer_id, key, payload_b3):
    return {"signer_id": signer_id, "algo": "ed25519", "sig": base64.b64encode(signature(key, payload_b3)).decode(), "signed_at": now()}


def signer_set(m, keys):
    """An item; keys by id."""
    return {"type": "signer_set", "m": m, "signers": [{"id": name, "algo": "ed25519", "key": public_base64(key)} for name, key in keys.items()]}


def node(name, **fields):
    return {"type": "node", "id": name, "addr": "127.0.0.1:7410", "region": "eu", "roles": ["storage"], "weight": 100, **fields}


def authority(prefix):
    """With a key of its own."""
    return {"type": "name_authority", "prefix": prefix, "key": public_base64(Ed25519PrivateKey.generate())}


def region(name, **fields):
    return {"type": "region", "id": name, **fields}


class Registry(Storage):
    """A server over a registry that `cairn registry init` made; `start` and `stop` as often as wanted."""

    def __init__(self, settings=None, m=1, signers=("a",), roomy=True, started=True, environment=None, directory=None, arguments=()):
        self.m, self.signers = m, signers
        super().__init__(settings, directory, roomy=roomy, started=False, arguments=arguments, environment=environment)
        try:
            amnesia = self.settings.get("amnesia.enabled") == "true"
            if signers and not amnesia:
                made = cairn("registry", "init", "--data", self.data, "--m", str(m), "--signers", ",".join(signers))
                if made.returncode != 0:
                    raise AssertionError(f"init: {made}")
                self.load_keys()
            if started:
                self.start()
        except BaseException:
            self.end()
            raise

    directory = property(lambda self: os.path.join(self.data, "registry"))
    segments = property(lambda self: os.path.join(self.data, "registry", "segments"))
    roots_path = property(lambda self: os.path.join(self.data, "registry", "trust-roots.json"))

    def key_path(self, name):
        return os.path.join(self.data, "keys", name + ".key")

    def load_keys(self):
        self.keys = {}
        for name in self.signers:
            with open(self.key_path(name), "rb") as file:
                self.keys[name] = load_pem_private_key(file.read(), None)

    def spawn(self):
        arguments = [binary(), "registry", "--data", self.data, "--bind", self.bind, *self.arguments]
        for key, value in self.settings.items():
            arguments += ["--set", f"{key}={value}"]
        self.code = None
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                                            env=demo.clean_environment(self.environment))
        return self

    def await_ready(self):
        line = self.line()
        match = re.fullmatch(r"registry +http://([0-9.]+):([0-9]+)\n", line)
        if not match:
            self.process.kill()
            raise AssertionError(f"did not start ({self.process.wait()}): {line!r} {self.log()[-2000:]}")
        self.address = (match[1], int(match[2]))
        if self.settings.get("amnesia.enabled") == "true":
            said = self.line()
            if not said.startswith("CAIRN_CAP="):
                raise AssertionError(f"no token with amnesia: {said!r}")
            self.token = said.strip().removeprefix("CAIRN_CAP=")
        else:
            with open(os.path.join(self.data, "keys", "admin.cap")) as file:
                self.token = file.read().strip()
        return self

    # --- asking

    def post(self, target, value=None, token=None, connection=None):
        body = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        fields = {"Content_Type": JSON, **self.bearer(token)}
        if connection is not None:
            return connection.ask("POST", target, body, **fields)
        return self.ask("POST", target, body, **fields)

    def get(self, target):
        """The JSON of a read that succeeds."""
        answer = self.ask_openly("GET", target)
        if answer.status != 200:
            raise AssertionError(f"GET {target}: {answer}")
        return answer.json()

    def head(self):
        return self.get("/registry/head")

    def items(self, version=None):
        """Those of a version, as JSON that can be proposed again."""
        return self.get(f"/registry/{self.head()['version'] if version is None else version}")["payload"]["items"]

    def next_items(self, *added, without=()):
        """The head's, with some added or replaced and some left out: [(type, id)]."""
        def name(item):
            return item["type"], item.get("id", item.get("key_id", item.get("prefix")))
        gone = {name(item) for item in added} | set(without)
        return [item for item in self.items() if name(item) not in gone] + list(added)

    def propose(self, items=None, connection=None, **fields):
        """The answer's JSON."""
        draft = {"schema_version": "1.0.0", "items": self.next_items() if items is None else items, **fields}
        answer = self.post("/registry/proposals", draft, connection=connection)
        if answer.status != 202:
            raise AssertionError(f"propose: {answer}")
        return answer.json()

    def approve(self, proposal, name, key=None, connection=None):
        """The answer."""
        return self.post(f"/registry/approvals/{proposal['proposal_id']}", approval(name, key or self.keys[name], proposal["payload_b3"]),
                         connection=connection)

    def approve_all(self, proposal, names=None, connection=None):
        for name in names or list(self.keys)[:self.m]:
            answer = self.approve(proposal, name, connection=connection)
            if answer.status != 200:
                raise AssertionError(f"approve: {answer}")
        return proposal

    def commit(self, proposal, connection=None):
        """The answer."""
        return self.post(f"/registry/commit/{proposal['proposal_id']}", connection=connection)

    def change(self, items=None, names=None, connection=None, **fields):
        """One whole change. The new head."""
        answer = self.commit(self.approve_all(self.propose(items, connection, **fields), names, connection), connection)
        if answer.status != 201:
            raise AssertionError(f"commit: {answer}")
        return answer.json()

    def grow(self, count, items=None):
        """So many changes, quickly, over one connection."""
        with self.connect() as connection:
            items = items or self.items()
            for i in range(count):
                head = self.change([item for item in items if item.get("id") != "turn"] + [region("turn", title=str(i))], connection=connection)
        return head

    # --- verifying

    def roots(self):
        return verifier.load_roots(self.roots_path)

    def remote(self):
        return verifier.Server(*self.address, token=self.token)

    def covered(self):
        """Waits until a checkpoint covers the head. (size, root)"""
        size = self.head()["version"] + 1
        _, key = self.roots()

        def look():
            note = self.ask_openly("GET", "/registry/checkpoint")
            found = verifier.verify_checkpoint(note.body, key) if note.status == 200 else (0, None)
            return found if found[0] >= size else None
        return wire.poll(look, f"a checkpoint covers {size}")

    def covered_on_disk(self):
        """Waits until the files do."""
        size = self.head()["version"] + 1
        _, key = self.roots()

        def look():
            note = verifier.Directory(self.directory).get("checkpoint")
            return note and verifier.verify_checkpoint(note, key)[0] >= size
        wire.poll(look, f"the file covers {size}")

    def verify(self, first=0, every=1):
        """Everything, or what is kept, by the verifier that shares nothing with the server. The JSON only of every so many."""
        self.covered()
        roots, key = self.roots()
        with self.remote() as server:
            return verifier.verify_kept(server, key, first, every) if first else verifier.verify_server(server, roots, key, every)

    def verify_by_cli(self, *arguments, environment=None):
        return cairn("registry", "verify", *arguments, environment=environment)


class RegistryTest(unittest.TestCase):
    """Tests that share one server, which must still live, and drain cleanly, after all of them."""

    settings = {}
    quorum = (1, ("a",))
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(Registry(cls.settings, *cls.quorum))

    def setUp(self):
        if not self.registry.alive():
            self.fail(f"the server is gone ({self.registry.process.returncode}): {self.registry.log()[-1000:]}")

    tearDown = setUp

    def assert_error(self, answer, status, code):
        self.assertEqual((answer.status, answer.error()["code"]), (status, code), answer)
        return answer.error()
