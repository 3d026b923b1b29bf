"""`cairn gateway` as a process of its own, before a storage that is another process, or before a script."""

import os
import re
import socket
import threading
import unittest

import wire
from storage_server import ROOMY, Storage, binary, cairn  # noqa: F401

TRUSTING = {"server.trusted": "127.0.0.0/8,unix"}


class Gateway(Storage):
    """It has no data directory; `token` is the storage's."""

    def __init__(self, settings=None, storage="", index="", registry="", token=None, roomy=True, environment=None):
        self.given_token = token
        super().__init__({"peers.storage": storage, "peers.index": index, "peers.registry": registry, **(settings or {})}, roomy=roomy, environment=environment)

    def spawn(self):
        import subprocess  # as the base class does

        import demo
        arguments = [binary(), "gateway", "--bind", "127.0.0.1:0", "--data", self.data]
        for key, value in self.settings.items():
            arguments += ["--set", f"{key}={value}"]
        self.code = None
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                                            env=demo.clean_environment(self.environment))
        return self

    def await_ready(self):
        line = self.line()
        match = re.fullmatch(r"gateway +http://([0-9.]+):([0-9]+)\n", line)
        if not match:
            self.process.kill()
            raise AssertionError(f"did not start ({self.process.wait()}): {line!r} {self.log()[-2000:]}")
        self.address, self.token = (match[1], int(match[2])), self.given_token
        return self


class Scripted:
    """An upstream on a port of its own: `script(connection, head)` answers each head; True keeps the connection."""

    def __init__(self, script):
        self.script, self.heads, self.connections = script, [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                line, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.open.append(line)
            threading.Thread(target=self.talk, args=(line,), daemon=True).start()

    def talk(self, line):
        got = b""
        try:
            while True:
                while b"\r\n\r\n" not in got:
                    more = line.recv(65536)
                    if not more:
                        return
                    got += more
                head, got = got.split(b"\r\n\r\n", 1)
                self.heads.append(head.decode("latin-1"))
                if not self.script(line, head.decode("latin-1")):
                    return
        except OSError:
            pass
        finally:
            line.close()

    def close(self):
        # A thread that waits in accept() keeps the port until it is woken.
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for line in self.open:
            line.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class GatewayTest(unittest.TestCase):
    """One storage and one gateway for all tests of a class."""

    SETTINGS = {}
    STORAGE = {}

    @classmethod
    def setUpClass(cls):
        cls.storage = Storage({**TRUSTING, **cls.STORAGE})
        cls.addClassCleanup(cls.storage.end)
        cls.gateway = Gateway(cls.SETTINGS, storage="%s:%d" % cls.storage.address, token=cls.storage.token)
        cls.addClassCleanup(cls.gateway.end)

    def connect(self):
        connection = wire.Connection(self.gateway.address)
        self.addCleanup(connection.close)
        return connection

    def bearer(self):
        return {"Authorization": f"Bearer {self.storage.token}"}

    def put(self, body):
        answer = self.connect().ask("POST", "/o", body, **self.bearer())
        self.assertIn(answer.status, (200, 201), answer)
        return answer.json()["address"]
