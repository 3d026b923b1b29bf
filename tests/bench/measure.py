"""Runs of the load generator and what is computed from them."""
import json
import pathlib
import socket
import statistics
import subprocess
import time

import peers

CONNECTIONS = 64
# The generator spins this long between rounds: the server then never pays for waking it, and 64 connections keep the
# server busy for at least ten times as long.
GATHER_US = 20
# A run during which the server had to wait for its core this long is somebody else's figure; it is repeated.
CONTENDED_SHARE = 0.05
REPEATS = 2


class Load:
    """How long and how often; and where the generator is."""

    def __init__(self, build, pairs, seconds, warmup):
        self.binary = str(pathlib.Path(build) / "bench_load")
        self.pairs = pairs
        self.seconds = seconds
        self.warmup = warmup

    def once(self, server, options):
        argv = [self.binary, "--target", f"127.0.0.1:{server.port}", "--watch-pid", str(server.pid),
                "--seconds", str(self.seconds), "--warmup", str(self.warmup)]
        own_core = len(set(peers.cores())) == 2
        options = {"connections": CONNECTIONS, "gather-us": GATHER_US if own_core else 0, **options}
        for key, value in options.items():
            argv += [f"--{key}", str(value)]
        waited = server.runqueue_wait_ns()
        began = time.monotonic()
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60 + self.seconds + self.warmup,
                              preexec_fn=peers.child_setup(peers.cores()[1]))
        wall = time.monotonic() - began
        if done.returncode != 0:
            raise RuntimeError(f"load on {server.name} {options}: {done.stderr.strip()} {done.stdout.strip()}")
        figures = json.loads(done.stdout)
        figures["server_wait_share"] = round((server.runqueue_wait_ns() - waited) / 1e9 / wall, 4)
        return figures

    def quiet(self, server, options):
        """One run without neighbours if it can be had, else the quietest of REPEATS + 1."""
        best = None
        for _ in range(1 + REPEATS):
            run = self.once(server, options)
            if best is None or run["server_wait_share"] < best["server_wait_share"]:
                best = run
            if best["server_wait_share"] <= CONTENDED_SHARE:
                break
        return best

    def rounds(self, sides):
        """`sides` is a list of (server, options). Each round runs every side once, every second round in reverse
        (A B, B A, …), so that a drift of the machine falls on all sides alike. Returns a list of runs per side."""
        runs = [[] for _ in sides]
        for i in range(self.pairs):
            order = range(len(sides)) if i % 2 == 0 else reversed(range(len(sides)))
            for side in order:
                runs[side].append(self.quiet(*sides[side]))
        return runs


def ratios(above, below, key):
    return [a[key] / b[key] for a, b in zip(above, below)]


def summary(values):
    """Median and spread (max - min) of the ratios of pairs."""
    return round(statistics.median(values), 4), round(max(values) - min(values), 4)


def median_of(runs, key):
    return round(statistics.median(r[key] for r in runs), 4)


class Client:
    """One kept-alive connection for the few requests whose answer is looked at."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), 5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def get(self, path):
        """(status, headers by lower-case name, body)"""
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        status = int(self.stream.readline().split()[1])
        headers = {}
        while (line := self.stream.readline().rstrip(b"\r\n")):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, self._chunks()
        return status, headers, self.stream.read(int(headers.get("content-length", 0)))

    def _chunks(self):
        body = b""
        while (size := int(self.stream.readline().split(b";")[0], 16)) > 0:
            body += self.stream.read(size)
            self.stream.readline()
        while self.stream.readline() not in (b"\r\n", b""):
            pass
        return body
