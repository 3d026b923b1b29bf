"""What HTTP costs us, against nginx and against ourselves: `./dev bench http`.

CPU per request (all threads of the server, read by the load generator at the same instants as its request count) is
the main figure; requests per second stand beside it. Only ratios of neighbouring runs are compared with the goals:
absolute figures belong to the machine.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import measure
import peers

NAMES = [f"n{i:02d}" for i in range(64)]
MEM_BYTES = 1024
FILE_BYTES = 64 * 1024
BODY_BYTES = 64 * 1024
IDLE_CONNECTIONS = 10_000
ALLOC_REQUESTS = 1_000
ALLOC_COUNTER = "process_allocations_total"
GOALS = {
    "mem_1k": {"cpu_ratio": (">=", 1.2), "req_s_ratio": (">=", 1.1)},
    "file_64k": {"cpu_ratio": (">=", 1.15), "req_s_ratio": (">=", 1.0)},
    "reject_429": {"cpu_ratio": ("<=", 0.7)},
    "reject_429_body": {"cpu_ratio": ("<=", 0.7)},
    "idle_10k": {"bytes_per_connection": ("<=", 4096)},
    "allocs": {"allocations": ("<=", 0)},
}


class Bench:
    """The directory, the files and the load that all cases share."""

    def __init__(self, args, temp):
        self.args = args
        self.temp = pathlib.Path(temp)
        self.root = self.temp / "root"
        for folder, size in (("mem", MEM_BYTES), ("file", FILE_BYTES)):
            (self.root / folder).mkdir(parents=True)
            for name in NAMES:
                (self.root / folder / name).write_bytes(os.urandom(size))
            self.paths(folder).write_text("".join(f"/{folder}/{name}\n" for name in NAMES))
        self.paths("job").write_text("/job/0\n")
        pairs, seconds, warmup = (2, 1.0, 0.2) if args.quick else (args.pairs, args.seconds, 0.5)
        self.load = measure.Load(args.build, pairs, seconds, warmup)

    def paths(self, folder):
        return self.temp / f"{folder}.paths"

    def demo(self, flags=None, env=None):
        return peers.demo(self.args.build, self.temp, self.root / "file", flags, env)

    def nginx(self, sendfile, match=None, corr_id="$request_id"):
        return peers.nginx(self.temp, self.root, sendfile, match, corr_id)

    def ours(self, sendfile, corr_id):
        return self.nginx(sendfile, corr_id=corr_id) if self.args.peer_only else self.demo()


def answer_headers(server, path):
    with measure.Client(server) as client:
        status, headers, _ = client.get(path)
    if status != 200:
        raise RuntimeError(f"{server.name}: {path} answered {status}")
    return sorted(headers)


def against_nginx(bench, case, folder, size, sendfile, request_id=None):
    options = {"paths": bench.paths(folder), "expect-bytes": size}
    corr_id = "$request_id"
    if request_id is not None:
        options["header"] = f"X-Corr-ID: {request_id}"
        corr_id = "$http_x_corr_id"
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(bench.ours(sendfile, corr_id))
        headers = answer_headers(ours, f"/{folder}/{NAMES[0]}")
        peer = stack.enter_context(bench.nginx(sendfile, set(headers), corr_id))
        peer_headers = answer_headers(peer, f"/{folder}/{NAMES[0]}")
        runs, peer_runs = bench.load.rounds([(ours, options), (peer, options)])
    return [measure.compared(case, peer.name, runs, peer_runs, headers, peer_headers)]


def mem_1k(bench):
    return against_nginx(bench, "mem_1k", "mem", MEM_BYTES, sendfile=False)


def mem_1k_echo(bench):
    """As mem_1k, but the request brings its correlation id: without the 1.3 us that nginx spends on making one."""
    return against_nginx(bench, "mem_1k_echo", "mem", MEM_BYTES, sendfile=False, request_id="01JBENCH0000000000000000ID")


def file_64k(bench):
    return against_nginx(bench, "file_64k", "file", FILE_BYTES, sendfile=True)


def reject_429(bench):
    """A refusal against a served 1 KiB answer; ratios below 1 say that refusing is cheaper. The refusal with an unread
    body costs its connection too, so it is also held against an answer served on a connection of its own."""
    served = {"paths": bench.paths("mem"), "expect-bytes": MEM_BYTES}
    served_fresh = {**served, "header": "Connection: close"}
    # The bucket refills with one request a second, so a handful are served even here.
    refused = {"paths": bench.paths("mem"), "expect-status": "429,200"}
    refused_body = {"paths": bench.paths("job"), "method": "POST", "body-bytes": BODY_BYTES,
                    "expect-status": "429,200"}
    with bench.demo() as open_server, bench.demo({"server.max_rps": "1"}) as shut_server:
        plain, base = bench.load.rounds([(shut_server, refused), (open_server, served)])
        body, body_base, fresh = bench.load.rounds(
            [(shut_server, refused_body), (open_server, served), (open_server, served_fresh)])
    rows = []
    for case, runs, reference in (("reject_429", plain, base), ("reject_429_body", body, body_base)):
        share = sum(r["statuses"].get("429", 0) for r in runs) / sum(r["requests"] for r in runs)
        if share < 0.999:
            raise RuntimeError(f"{case}: only {share:.4f} of the answers were 429")
        cpu_ratio, spread = measure.summary(measure.ratios(runs, reference, "server_cpu_ns_per_request"))
        req_s_ratio, _ = measure.summary(measure.ratios(runs, reference, "req_s"))
        rows.append({"case": case, "peer": "served 1 KiB", "cpu_ratio": cpu_ratio, "spread": spread,
                     "req_s_ratio": req_s_ratio, **measure.side_figures("ours", runs),
                     **measure.side_figures("peer", reference)})
    fresh_ratio, fresh_spread = measure.summary(measure.ratios(body, fresh, "server_cpu_ns_per_request"))
    rows[1].update({"fresh_cpu_ratio": fresh_ratio, "fresh_spread": fresh_spread,
                    **measure.side_figures("fresh", fresh)})
    return rows


def idle_10k(bench):
    """Memory of the process for each connection that has been served once and now waits."""
    # A server refuses a connection cap above half of the open-file limit.
    cap = min(16384, peers.open_file_limit() // 2)
    count = min(IDLE_CONNECTIONS, cap)
    flags = {"server.max_conns": cap, "server.max_conns_per_ip": cap}
    row = {"case": "idle_10k", "peer": "nginx", "connections": count}
    for side, server in (("ours", bench.demo(flags)), ("peer", bench.nginx(sendfile=False))):
        with server:
            bench.load.once(server, {"paths": bench.paths("mem"), "expect-bytes": MEM_BYTES})
            before, held = hold_idle(bench, server, count)
            row[f"{side}_rss_before"], row[f"{side}_rss_held"] = before, held
    row["bytes_per_connection"] = round((row["ours_rss_held"] - row["ours_rss_before"]) / count, 1)
    row["peer_bytes_per_connection"] = round((row["peer_rss_held"] - row["peer_rss_before"]) / count, 1)
    return [row]


def hold_idle(bench, server, count):
    """(RSS before, RSS with `count` connections idle), in bytes."""
    before = server.rss_bytes()
    holder = subprocess.Popen(
        [bench.load.binary, "--target", f"127.0.0.1:{server.port}", "--connections", str(count), "--sources", "4",
         "--paths", str(bench.paths("mem")), "--expect-bytes", str(MEM_BYTES), "--idle-after-one"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=peers.child_setup(peers.cores()[1]))
    try:
        if json.loads(holder.stdout.readline() or "{}").get("held") != count:
            raise RuntimeError(f"{server.name} did not serve {count} connections")
        held = server.rss_bytes()
        holder.communicate(timeout=30)
        if holder.returncode != 0:
            raise RuntimeError(f"{server.name} closed idle connections")
        return before, held
    finally:
        if holder.poll() is None:
            holder.kill()
            holder.wait()


def allocs(bench):
    """Heap allocations between the 2nd and the 1,000th answer on one connection. Reading the counter allocates as
    well: two readings in a row tell how much, and that is subtracted."""
    with bench.demo(env={"CAIRN_COUNT_ALLOCS": "1"}) as server:
        with measure.Client(server) as client, measure.Client(server) as reader:
            for _ in range(2):
                client.get(f"/mem/{NAMES[0]}")
            for _ in range(3):
                read_counter(reader)
            first, second = read_counter(reader), read_counter(reader)
            for i in range(2, ALLOC_REQUESTS):
                status, _, body = client.get(f"/mem/{NAMES[i % len(NAMES)]}")
                if status != 200 or len(body) != MEM_BYTES:
                    raise RuntimeError(f"allocs: answer {i} was {status} with {len(body)} bytes")
            third, fourth = read_counter(reader), read_counter(reader)
    return [{"case": "allocs", "peer": "-", "requests": ALLOC_REQUESTS - 2,
             "allocations": third - second - (second - first),
             "reading_cost_before": second - first, "reading_cost_after": fourth - third}]


def read_counter(client):
    _, _, body = client.get("/metrics")
    values = [float(line.rsplit(" ", 1)[1]) for line in body.decode().splitlines()
              if line.startswith((ALLOC_COUNTER + " ", ALLOC_COUNTER + "{"))]
    if not values:
        raise RuntimeError(f"/metrics has no {ALLOC_COUNTER}")
    return int(sum(values))


CASES = {f.__name__: f for f in (mem_1k, mem_1k_echo, file_64k, reject_429, idle_10k, allocs)}
PEER_ONLY_CASES = ("mem_1k", "mem_1k_echo", "file_64k")


def judge(row):
    """Adds to the row which goals it has and whether it meets them all."""
    goals = GOALS.get(row["case"], {})
    row["goals"] = {key: f"{sign} {bound}" for key, (sign, bound) in goals.items()}
    row["met"] = all(meets(row, key) for key in goals)


def meets(row, key):
    sign, bound = GOALS[row["case"]][key]
    return row[key] >= bound if sign == ">=" else row[key] <= bound


def print_table(rows):
    print(f"\n{'case':<16} {'figure':<22} {'value':>9} {'spread':>7}  {'goal':<9} {'':<7} ours / peer")
    for row in rows:
        for key in row["goals"] or ("cpu_ratio", "req_s_ratio"):
            goal = row["goals"].get(key, "")
            verdict = "" if not goal else "ok" if meets(row, key) else "MISSED"
            spread = {"cpu_ratio": row.get("spread"), "req_s_ratio": row.get("req_s_spread")}.get(key)
            print(f"{row['case']:<16} {key:<22} {row[key]:>9} {'' if spread is None else spread:>7}  {goal:<9} "
                  f"{verdict:<7} {sides(row, key)}")
        if "fresh_cpu_ratio" in row:
            print(f"{'':<16} {'  on a fresh connection':<22} {row['fresh_cpu_ratio']:>8} {row['fresh_spread']:>7}")
    for row in rows:
        if "ours_load_share" in row:
            print(f"{row['case']}: load core busy {row['ours_load_share']:.0%} / {row['peer_load_share']:.0%}, "
                  f"server core {row['ours_server_share']:.0%} / {row['peer_server_share']:.0%}, head "
                  f"{row['ours_head_bytes']} / {row['peer_head_bytes']} bytes")
            if max(row["ours_wait_share"], row["peer_wait_share"]) > measure.CONTENDED_SHARE:
                print(f"{row['case']}: the core was shared with others; requests per second mean little")


def sides(row, key):
    pairs = {"cpu_ratio": ("ours_cpu_ns", "peer_cpu_ns", "ns"), "req_s_ratio": ("ours_req_s", "peer_req_s", "/s"),
             "bytes_per_connection": ("bytes_per_connection", "peer_bytes_per_connection", "B")}
    if key not in pairs:
        return ""
    ours, peer, unit = pairs[key]
    return f"{row[ours]:,.0f} / {row[peer]:,.0f} {unit}"


def parse_args():
    parser = argparse.ArgumentParser(description="HTTP benchmarks against nginx and against ourselves")
    parser.add_argument("--build", default="build/release", help="directory of cairn-demo and bench_load")
    parser.add_argument("--out", default="build/bench/http.json")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; repeatable")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of runs a comparison")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of a run after its warm-up")
    parser.add_argument("--quick", action="store_true", help="2 pairs of 1 s: does it run at all")
    parser.add_argument("--peer-only", action="store_true", help="nginx on both sides: the ratios must be 1")
    parser.add_argument("--enforce", action="store_true", help="exit 1 when a goal is missed")
    return parser.parse_args()


def main():
    args = parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the children are ended on the way out
    names = args.case or list(PEER_ONLY_CASES if args.peer_only else CASES)
    needed = ["bench_load"] + ([] if args.peer_only else [peers.DEMO])
    missing = [n for n in needed if not (pathlib.Path(args.build) / n).exists()]
    if missing or not pathlib.Path(peers.NGINX).exists():
        print(f"not found: {', '.join(missing) or peers.NGINX}", file=sys.stderr)
        return 2
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as temp:
        bench = Bench(args, temp)
        for name in names:
            print(f"{name} …", flush=True)
            try:
                rows += CASES[name](bench)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                failed.append({"case": name, "error": str(error)})
                print(f"{name} failed: {error}", file=sys.stderr)
    for row in rows:
        judge(row)
    out = pathlib.Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows + failed, indent=1) + "\n")
    print_table(rows)
    missed = args.enforce and not all(row["met"] for row in rows)
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
