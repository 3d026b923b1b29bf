"""`cairn index` as a process of its own."""

import base64
import json
import os
import re
import struct
import subprocess
import time

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

import demo
from storage_server import Storage, binary


class Index(Storage):
    """`cairn index` alone."""

    directory = property(lambda self: os.path.join(self.data, "index"))
    map = property(lambda self: os.path.join(self.directory, "index"))

    def spawn(self):
        arguments = [binary(), "index", "--data", self.data, "--bind", self.bind, *self.arguments]
        for key, value in self.settings.items():
            arguments += ["--set", f"{key}={value}"]
        self.code = None
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                                            env=demo.clean_environment(self.environment))
        return self

    def await_ready(self):
        line = self.line()
        match = re.fullmatch(r"index +http://([0-9.]+):([0-9]+)\n", line)
        if not match:
            self.process.kill()
            raise AssertionError(f"did not start ({self.process.wait()}): {line!r} {self.log()[-2000:]}")
        self.address = (match[1], int(match[2]))
        with open(os.path.join(self.data, "keys", "admin.cap")) as file:
            self.token = file.read().strip()
        return self

    def put_name(self, name, manifest, note=None, **fields):
        document = {"manifest": manifest, **({"note": note} if note else {})}
        return self.ask("PUT", f"/names/{name}", json.dumps(document).encode(), **fields)

    def public_key(self):
        """The raw key that this node signs with."""
        with open(os.path.join(self.data, "keys", "node.pub"), "rb") as file:
            return load_pem_public_key(file.read()).public_bytes(Encoding.Raw, PublicFormat.Raw)

    def announce(self, *records):
        return self.ask("POST", "/providers", json.dumps({"records": [base64.b64encode(one).decode() for one in records]}).encode())


# --- records, by an encoder that shares no line with the server (docs/formats/signed-record.md, provider-record.md)

def head(major, number):
    for size, mark, form in ((24, None, None), (1 << 8, 24, ">B"), (1 << 16, 25, ">H"), (1 << 32, 26, ">I"), (1 << 64, 27, ">Q")):
        if number < size:
            return bytes([major << 5 | (number if mark is None else mark)]) + (struct.pack(form, number) if form else b"")
    raise ValueError(number)


def cbor(value):
    if value is True or value is False:
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    return head(5, len(value)) + b"".join(key + one for key, one in sorted((cbor(key), cbor(one)) for key, one in value.items()))


def public_of(key):
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def provider_record(key, address, port=7410, sequence=1, lives=600, ip=(127, 0, 0, 1), withdrawn=False, signer=None):
    endpoints = [] if withdrawn else [[bytes(10) + b"\xff\xff" + bytes(ip), port, False]]
    body = cbor({"address": bytes.fromhex(address.removeprefix("b3:")), "key": public_of(key), "endpoints": endpoints, "sequence": sequence,
                 "expiry": int((time.time() + lives) * 1000)})
    return cbor({"body": body, "sig": (signer or key).sign(b"cairn-provider-record-v1\0" + body)})
