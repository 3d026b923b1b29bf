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

    def __init__(self, build, pairs, seconds, warmup, repeats=REPEATS):
        self.binary = str(pathlib.Path(build) / "bench_load")
        self.pairs = pairs
        self.seconds = seconds
        self.warmup = warmup
        self.repeats = repeats

    def once(self, server, options, patience=60):
        """One run. An option that is True is a flag; one that is a list is given several times."""
        argv = [self.binary, "--target", f"127.0.0.1:{server.port}", "--watch-pid", str(server.pid),
                "--seconds", str(self.seconds), "--warmup", str(self.warmup)]
        own_core = len(set(peers.cores())) == 2
        options = {"connections": CONNECTIONS, "gather-us": GATHER_US if own_core else 0, **options}
        for key, values in options.items():
            for value in values if isinstance(values, list) else [values]:
                argv += [f"--{key}"] if value is True else [f"--{key}", str(value)]
        waited = server.runqueue_wait_ns()
        began = time.monotonic()
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=patience + self.seconds + self.warmup,
                              preexec_fn=peers.child_setup(peers.cores()[1]))
        wall = time.monotonic() - began
        if done.returncode != 0:
            raise RuntimeError(f"load on {server.name} {options}: {done.stderr.strip()} {done.stdout.strip()}")
        figures = json.loads(done.stdout)
        figures["server_wait_share"] = round((server.runqueue_wait_ns() - waited) / 1e9 / wall, 4)
        return figures

    def quiet(self, server, options):
        """One run without neighbours if it can be had, else the quietest of all repeats."""
        best = None
        for _ in range(1 + self.repeats):
            run = self.once(server, options)
            if best is None or run["server_wait_share"] < best["server_wait_share"]:
                best = run
            if best["server_wait_share"] <= CONTENDED_SHARE:
                break
        return best

    def rounds(self, sides, one=None):
        """`sides` is a list of (server, options). Each round runs every side once, every second round in reverse
        (A B, B A, …), so that a drift of the machine falls on all sides alike. Returns a list of runs per side.
        `one(server, options)` is how a run is made, where that takes more than the load."""
        runs = [[] for _ in sides]
        for i in range(self.pairs):
            order = range(len(sides)) if i % 2 == 0 else reversed(range(len(sides)))
            for side in order:
                runs[side].append((one or self.quiet)(*sides[side]))
        return runs


def ratios(above, below, key):
    return [a[key] / b[key] for a, b in zip(above, below)]


def summary(values):
    """Median and spread (max - min) of the ratios of pairs."""
    return round(statistics.median(values), 4), round(max(values) - min(values), 4)


def median_of(runs, key):
    return round(statistics.median(r[key] for r in runs), 4)


def side_figures(side, runs, headers=None):
    figures = {
        f"{side}_cpu_ns": median_of(runs, "server_cpu_ns_per_request"),
        f"{side}_req_s": median_of(runs, "req_s"),
        f"{side}_p50_us": median_of(runs, "p50_us"),
        f"{side}_p99_us": median_of(runs, "p99_us"),
        f"{side}_head_bytes": runs[-1]["head_bytes"],
        f"{side}_load_share": median_of(runs, "load_cpu_share"),
        f"{side}_server_share": median_of(runs, "server_cpu_share"),
        f"{side}_wait_share": median_of(runs, "server_wait_share"),
        f"{side}_runs": runs,
    }
    if headers is not None:
        figures[f"{side}_headers"] = headers
    return figures


def compared(case, peer, runs, peer_runs, headers=None, peer_headers=None):
    """The row of a comparison. Ratios above 1 say that ours is better: peer / ours for CPU, ours / peer for requests
    per second."""
    cpu_ratio, spread = summary(ratios(peer_runs, runs, "server_cpu_ns_per_request"))
    req_s_ratio, req_s_spread = summary(ratios(runs, peer_runs, "req_s"))
    return {
        "case": case, "peer": peer, "cpu_ratio": cpu_ratio, "spread": spread,
        "req_s_ratio": req_s_ratio, "req_s_spread": req_s_spread,
        **side_figures("ours", runs, headers), **side_figures("peer", peer_runs, peer_headers),
    }


class Client:
    """One kept-alive connection for the few requests whose answer is looked at."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def get(self, path):
        """(status, headers by lower-case name, body)"""
        return self.ask("GET", path)

    def ask(self, method, path, body=None, **fields):
        """As get; the fields are written as they are named, with `_` for `-`."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        status = int(self.stream.readline().split()[1])
        headers = {}
        while (line := self.stream.readline().rstrip(b"\r\n")):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, self._chunks()
        if status == 204:
            return status, headers, b""
        return status, headers, self.stream.read(int(headers.get("content-length", 0)))

    def _chunks(self):
        body = b""
        while (size := int(self.stream.readline().split(b";")[0], 16)) > 0:
            body += self.stream.read(size)
            self.stream.readline()
        while self.stream.readline() not in (b"\r\n", b""):
            pass
        return body
