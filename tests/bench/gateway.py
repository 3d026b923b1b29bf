"""What the front door costs, against nginx, HAProxy and, for HTTP/2, h2o: `./dev bench gateway`.

As in http.py: CPU per request of the server, all of its threads, and requests per second, as ratios of neighbouring
runs. A proxy has a core of its own; what stands behind it shares the other one with the load.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

import front
import measure
import peers
import stock

SIZES = {"1k": 1024, "64k": 64 * 1024}
GOALS = {
    ("proxy_1k", "nginx"): 1.2, ("proxy_1k", "haproxy"): 1.25,
    ("proxy_64k", "nginx"): 1.1, ("proxy_64k", "haproxy"): 1.3,
    ("inside_1k", "nginx and its upstream"): 2.0,
    ("tls_1k", "nginx"): 1.2, ("tls_1k", "haproxy"): 1.4,
    ("tls_64k", "nginx"): 1.3, ("tls_64k", "haproxy"): 1.5,
    ("h2_1k", "nginx"): 2.2, ("h2_1k", "haproxy"): 1.5,
    ("h2_64k", "nginx"): 1.3, ("h2_64k", "haproxy"): 1.6,
    ("handshake_full", "nginx"): 1.0, ("handshake_resumed", "nginx"): 1.0,
}
JAIN_LEAST, P99_MOST = 0.98, 2.0
ADDRESS = "/o/b3:" + "0" * 64


class Bench:
    def __init__(self, args, temp):
        self.args = args
        self.temp = pathlib.Path(temp)
        self.cairn = pathlib.Path(args.build) / "cairn"
        pairs, self.seconds, warmup = (2, 1.0, 0.2) if args.quick else (args.pairs, args.seconds, 0.5)
        self.load = measure.Load(args.build, pairs, self.seconds, warmup)
        self.root = self.temp / "root"
        (self.root / "o").mkdir(parents=True)

    def constant(self, size):
        """The path of one file of this size below the root."""
        path = f"/o/{size}"
        file = self.root / path[1:]
        if not file.exists():
            file.write_bytes(os.urandom(size))
        return path

    def paths(self, path):
        file = self.temp / f"{path.strip('/').replace('/', '_').replace(':', '_')}.paths"
        file.write_text(path + "\n")
        return file

    def up(self, tls=False):
        where = {}
        if tls:
            cert, key, _ = front.certificate(self.temp)
            where = {"enabled": "true", "cert": cert, "key": key}
        name = f"up-{len(list(self.temp.iterdir()))}"
        return front.Up(self.cairn, self.temp / name, self.temp / f"{name}.log", where)


def stored(server, size):
    """Puts one object by the storage's own door; its path."""
    door = type("Door", (), {"port": server.port + 10, "bearer": server.bearer, "name": "storage"})
    with measure.Client(door) as client:
        return "/o/" + stock.post(client, door, os.urandom(size))


def compare(case, sides, runs):
    """A row for each peer; the first side is ours."""
    return [{"case": case, "peer": name, **figures(case, name, runs[0], peer_runs)}
            for (name, peer_runs) in zip(sides[1:], runs[1:])]


def figures(case, peer, ours, theirs):
    cpu, spread = measure.summary(measure.ratios(theirs, ours, "server_cpu_ns_per_request"))
    rate, rate_spread = measure.summary(measure.ratios(ours, theirs, "req_s"))
    goal = GOALS.get((case, peer))
    return {"cpu_ratio": cpu, "spread": spread, "req_s_ratio": rate, "req_s_spread": rate_spread, "goal": goal,
            "met": goal is None or cpu >= goal,
            "ours_cpu_ns": measure.median_of(ours, "server_cpu_ns_per_request"),
            "peer_cpu_ns": measure.median_of(theirs, "server_cpu_ns_per_request"),
            "ours_req_s": measure.median_of(ours, "req_s"), "peer_req_s": measure.median_of(theirs, "req_s")}


def proxy(bench, name):
    """One upstream over kept TCP connections: nginx with a file, on the other core."""
    size = SIZES[name]
    (bench.root / ADDRESS[1:]).write_bytes(os.urandom(size))
    options = {"paths": bench.paths(ADDRESS), "expect-bytes": size}
    with contextlib.ExitStack() as stack:
        behind = stack.enter_context(front.files_behind(bench.temp, bench.root, size))
        sides = [stack.enter_context(server) for server in (
            front.gateway(bench.cairn, bench.temp, behind), front.nginx_proxy(bench.temp, behind),
            front.haproxy_proxy(bench.temp, behind))]
        runs = bench.load.rounds([(server, options) for server in sides])
    return compare(f"proxy_{name}", [s.name for s in sides], runs)


def inside_1k(bench):
    """The storage in our own process, against a proxy and its upstream together."""
    size = SIZES["1k"]
    path = bench.constant(size)
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(bench.up())
        upstream = stack.enter_context(peers.nginx(bench.temp, bench.root, sendfile=False, match=None))
        peer = stack.enter_context(front.nginx_proxy(bench.temp, upstream))
        runs = bench.load.rounds([
            (ours, {"paths": bench.paths(stored(ours, size)), "expect-bytes": size}),
            (peer, {"paths": bench.paths(path), "expect-bytes": size, "watch-pid": upstream.pid})])
    return compare("inside_1k", ["cairn", "nginx and its upstream"], runs)


def encrypted(bench, case, name, http2, connections, streams):
    """A hot object through the gateway of `cairn up`, against constant answers of the others."""
    size = SIZES[name]
    path = bench.constant(size)
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(bench.up(tls=True))
        others = [stack.enter_context(front.nginx_tls(bench.temp, bench.root, http2, "4k" if name == "1k" else "16k",
                                                      sendfile=False)),
                  stack.enter_context(front.haproxy_constant(bench.temp, bench.root / path[1:], http2))]
        if http2:  # the fastest that speaks it; reported beside the goals
            others.append(stack.enter_context(front.h2o(bench.temp, bench.root)))
        sides = [(ours, stored(ours, size))] + [(server, path) for server in others]
        counts = []
        for server, target in sides:  # warms up, and tells how many requests fill the time
            trial = front.h2load(server, target, http2=http2, connections=connections, streams=streams, requests=4000)
            counts.append(max(4000, int(trial["req_s"] * bench.seconds)))
        sides = [(server, (target, count)) for (server, target), count in zip(sides, counts)]
        runs = bench.load.rounds(sides, lambda server, what: front.h2load(
            server, what[0], http2=http2, connections=connections, streams=streams, requests=what[1]))
    return compare(case, [server.name for server, _ in sides], runs)


def handshake(bench, resume):
    path = bench.constant(SIZES["1k"])
    binary = pathlib.Path(bench.args.build) / "bench_handshakes"
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(bench.up(tls=True))
        peer = stack.enter_context(front.nginx_tls(bench.temp, bench.root, False, "4k", sendfile=False))
        runs = bench.load.rounds([(ours, stored(ours, SIZES["1k"])), (peer, path)],
                                 lambda server, target: front.handshakes(binary, server, target, bench.seconds, resume))
    return compare("handshake_resumed" if resume else "handshake_full", ["cairn", "nginx"], runs)


def refused(bench):
    """A refusal (429) against an answer that comes from inside: below 1 it is cheaper."""
    size = SIZES["1k"]
    with bench.up() as open_door, bench.up() as shut_door:
        path = stored(open_door, size)
        options = {"paths": bench.paths(path), "expect-bytes": size}
        shut = {"paths": bench.paths(ADDRESS), "header": "Authorization: Bearer not-a-token", "expect-status": 401}
        runs, served = bench.load.rounds([(shut_door, shut), (open_door, options)])
    return compare("refused", ["cairn", "served 1 KiB"], [runs, served])


def jain(values):
    return sum(values) ** 2 / (len(values) * sum(v * v for v in values))


def fairness(bench):
    """Eight tenants before an upstream of 10 to 30 ms, 32 slots for all: one has 800 connections, the others 8 each; then
    the others ask by the clock, alone and beside it. Without a scheduler for contrast."""
    seconds = 5 if bench.args.quick else 30
    rows = []
    for name, order in (("cairn", "true"), ("no scheduler", "false")):
        settings = {"pools.workers": "2", "pools.worker_slots": "16", "drr.enabled": order, "server.max_inflight": "512",
                    "server.max_conns": "4096"}
        with front.Crowd(pathlib.Path(bench.args.build) / "bench_crowd") as crowd, \
                front.gateway(bench.cairn, bench.temp, crowd, settings) as server:
            units = [tenant["served"] for tenant in crowd.run(server, "units", seconds)]
            quiet, flooded = (statistics.median(tenant["p99_us"] for tenant in crowd.run(server, phase, seconds)[1:])
                              for phase in ("quiet", "flood"))
        rows.append({"case": "fairness", "peer": name, "jain": round(jain(units), 4), "units": units,
                     "quiet_p99_us": quiet, "flooded_p99_us": flooded, "p99_ratio": round(flooded / quiet, 3),
                     "met": name != "cairn" or (jain(units) >= JAIN_LEAST and flooded <= P99_MOST * quiet)})
    return rows


CASES = {
    "proxy_1k": lambda bench: proxy(bench, "1k"), "proxy_64k": lambda bench: proxy(bench, "64k"),
    "inside_1k": inside_1k,
    "tls_1k": lambda bench: encrypted(bench, "tls_1k", "1k", False, 64, 1),
    "tls_64k": lambda bench: encrypted(bench, "tls_64k", "64k", False, 64, 1),
    "h2_1k": lambda bench: encrypted(bench, "h2_1k", "1k", True, 8, 32),
    "h2_64k": lambda bench: encrypted(bench, "h2_64k", "64k", True, 8, 8),
    "handshake_full": lambda bench: handshake(bench, False),
    "handshake_resumed": lambda bench: handshake(bench, True),
    "refused": refused, "fairness": fairness,
}


def show(rows):
    print(f"\n{'case':<18} {'peer':<24} {'CPU':>6} {'spread':>7} {'goal':>6} {'':<7} {'req/s':>6}  ours / peer")
    for row in rows:
        if row["case"] == "fairness":
            continue
        verdict = "" if row["goal"] is None else "ok" if row["met"] else "MISSED"
        print(f"{row['case']:<18} {row['peer']:<24} {row['cpu_ratio']:>6.2f} {row['spread']:>7.2f} "
              f"{row['goal'] or '':>6} {verdict:<7} {row['req_s_ratio']:>6.2f}  "
              f"{row['ours_cpu_ns'] / 1000:.1f} / {row['peer_cpu_ns'] / 1000:.1f} us")
    for row in rows:
        if row["case"] == "fairness":
            print(f"fairness, {row['peer']:<14} Jain {row['jain']:.3f} (at least {JAIN_LEAST}), p99 of the others "
                  f"{row['p99_ratio']:.2f} x quiet (at most {P99_MOST:g}) {'' if row['met'] else 'MISSED'}")


def main():
    parser = argparse.ArgumentParser(description="the gateway against nginx, HAProxy and h2o")
    parser.add_argument("--build", default="build/release", help="directory of cairn, bench_load and bench_handshakes")
    parser.add_argument("--out", default="build/bench/gateway.json")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; repeatable")
    parser.add_argument("--pairs", type=int, default=6, help="rounds a comparison")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of a run after its warm-up")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 1 s: does it run at all")
    parser.add_argument("--enforce", action="store_true", help="exit 1 when a goal is missed")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the children are ended on the way out
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as temp:
        for name in args.case or CASES:
            print(f"{name} …", flush=True)
            directory = pathlib.Path(temp) / name
            directory.mkdir()
            try:
                rows += CASES[name](Bench(args, directory))
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                failed.append({"case": name, "error": str(error)})
                print(f"{name} failed: {error}", file=sys.stderr)
    out = pathlib.Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows + failed, indent=1) + "\n")
    show(rows)
    return 1 if failed or (args.enforce and not all(row["met"] for row in rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
