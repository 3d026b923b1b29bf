"""The servers of `./dev bench registry`: `cairn registry` and etcd."""
import contextlib
import pathlib
import socket
import subprocess
import time

import peers

ETCD = "/usr/bin/etcd"
# Subscribers hold connections; proposals that are never committed pile up on purpose.
FLAGS = {"server.max_conns": "4096", "server.max_conns_per_ip": "4096", "proposals.max_pending": "16384"}


class Registry(peers.Storage):
    """`cairn registry` over a data directory that outlives it."""

    def __init__(self, binary, data, log, flags=None):
        super().__init__(binary, data, log, {**FLAGS, **(flags or {})})
        self.argv[1] = "registry"
        self.reads_seconds = None

    def __enter__(self):
        self.began = time.monotonic()
        return super().__enter__()

    def _is_ready(self):
        if self.reads_seconds is None:
            if not self._answers("/registry/head"):
                return False
            self.reads_seconds = time.monotonic() - self.began
        return self._answers("/readyz")

    def _answers(self, path):
        with socket.create_connection(("127.0.0.1", self.port), 5) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return s.makefile("rb").readline().startswith(b"HTTP/1.1 200 ")


class Etcd(peers.Server):
    """A cluster of one, durable as it comes."""

    def __init__(self, home):
        port = peers.free_port()
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers.free_port()}"
        argv = [ETCD, "--data-dir", str(pathlib.Path(home) / "etcd"), "--listen-client-urls", client,
                "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"default={peer}", "--logger", "zap", "--log-level", "error"]
        super().__init__("etcd", argv, port, pathlib.Path(home) / "etcd.log")

    def _is_ready(self):
        with socket.create_connection(("127.0.0.1", self.port), 5) as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return b'"true"' in s.makefile("rb").read()


def init(binary, data, quorum, signers):
    """A registry in a new directory; the signers are named by letters."""
    names = [chr(ord("a") + i) for i in range(signers)]
    done = subprocess.run([str(binary), "registry", "init", "--data", str(data), "--m", str(quorum), "--signers",
                           ",".join(names)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"registry init: {done.stderr.strip()}")
    return names


def version():
    with contextlib.suppress(OSError):
        out = subprocess.run([ETCD, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
        return out.split("\n")[0].removeprefix("etcd Version: ")
    return "unknown"
