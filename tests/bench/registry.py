"""What the registry costs, against etcd: `./dev bench registry`.

As in http.py: CPU per request of the server, all of its threads, and what was done per second, as ratios of
neighbouring runs. Both servers keep their data below the directory of --out, so on one file system, and wait for it
before they answer. One program drives both.
"""
import argparse
import base64
import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import measure
import peers
import registry_peers
import registry_tables as tables

NODES = 4
FREE_BYTES = 5 << 30
HEAD_KEY = base64.b64encode(b"registry-head").decode()


class Bench:
    """The directory, the load, and the sizes that --quick makes smaller."""

    def __init__(self, args, temp, cache):
        self.args = args
        self.temp = pathlib.Path(temp)
        self.cache = cache
        pairs, seconds, warmup, repeats = (2, 1.0, 0.2, 0) if args.quick else (args.pairs, args.seconds, 0.5, 2)
        self.load = measure.Load(args.build, pairs, seconds, warmup, repeats)
        self.load.binary = str(pathlib.Path(args.build) / "bench_registry")
        self.subscribers = 1000
        self.rounds = 30 if args.quick else 200
        self.versions = 5_000 if args.quick else 100_000
        self.verified = 200_000

    def directory(self, name):
        path = self.temp / name
        path.mkdir()
        return path

    def registry(self, home, flags=None):
        return registry_peers.Registry(self.args.cairn, home / "data", home / "cairn.log", flags)


def writer(server, home, quorum):
    """The options of a client that changes something, and how long the signed bytes of a proposal are."""
    with measure.Client(server) as client:
        _, _, body = client.get("/registry/0")
        items = json.loads(body)["payload"]["items"]
        items += [{"type": "node", "id": f"node-{i}", "addr": f"10.0.0.{i}:7430", "region": "home",
                   "roles": ["storage"], "weight": 10} for i in range(1, NODES)]
        items += [{"type": "node", "id": f"node-{NODES}", "addr": "@" * 16, "region": "home", "roles": ["storage"],
                   "weight": 10}]
        document = json.dumps({"schema_version": "1.0.0", "items": items}, separators=(",", ":"))
        status, _, body = client.ask("POST", "/registry/proposals", document.replace("@", "0").encode(),
                                     Authorization=server.bearer, Content_Type="application/json")
        if status != 202:
            raise RuntimeError(f"a proposal is answered {status}: {body.decode()}")
    signed = len(base64.b64decode(json.loads(body)["payload"]))
    proposal = home / "proposal.json"
    proposal.write_text(document)
    names = [chr(ord("a") + i) for i in range(quorum)]
    return {"bearer-file": server.data / "keys" / "admin.cap", "proposal": proposal,
            "signer": [f"{name}={server.data / 'keys' / (name + '.key')}" for name in names]}, signed


def head_version(server):
    with measure.Client(server) as client:
        return json.loads(client.get("/registry/head")[2])["version"]


def etcd_writes(server):
    """How often the key was written."""
    with measure.Client(server) as client:
        found = json.loads(client.ask("POST", "/v3/kv/range", json.dumps({"key": HEAD_KEY}).encode())[2])
    return int(found["kvs"][0]["version"])


def check_kept(server, kept, runs):
    acknowledged = sum(r["requests"] for r in runs)
    if kept < acknowledged:
        raise RuntimeError(f"{server.name} has {kept} of {acknowledged} changes that it acknowledged")


def commits(bench, home, quorum, signers, connections):
    """Cycles of proposal, approvals and commit, against compare-and-swap: of those who race, one wins."""
    case = f"commits_{quorum}of{signers}_{connections}"
    registry_peers.init(bench.args.cairn, home / "data", quorum, signers)
    with bench.registry(home) as ours, registry_peers.Etcd(home) as etcd:
        options, size = writer(ours, home, quorum)
        shared = {"connections": connections, **({"gather-us": 0} if connections == 1 else {})}
        runs, peer_runs = bench.load.rounds([
            (ours, {"mode": "commits", **shared, **options}),
            (etcd, {"mode": "etcd-swap", "value-bytes": size, **shared}),
        ], bench.load.once)
        check_kept(ours, head_version(ours), runs)
        check_kept(etcd, etcd_writes(etcd), peer_runs)
    return [{**measure.compared(case, tables.peer_of(case), runs, peer_runs), "value_bytes": size}]


def proposals_64(bench, home):
    """Each proposal and each approval counts, as each of etcd's puts."""
    registry_peers.init(bench.args.cairn, home / "data", 1, 1)
    with bench.registry(home) as ours, registry_peers.Etcd(home) as etcd:
        options, size = writer(ours, home, 1)
        runs, peer_runs = bench.load.rounds([
            (ours, {"mode": "proposals", **options}),
            (etcd, {"mode": "etcd-put", "value-bytes": size}),
        ], bench.load.once)
        check_kept(etcd, etcd_writes(etcd), peer_runs)
    row = measure.compared("proposals_64", tables.peer_of("proposals_64"), runs, peer_runs)
    return [{**row, "value_bytes": size}]


def head(bench, home):
    registry_peers.init(bench.args.cairn, home / "data", 1, 1)
    with bench.registry(home) as ours, registry_peers.Etcd(home) as etcd:
        bench.load.once(etcd, {"mode": "etcd-put", "connections": 1, "requests": 1, "warmup": 0})
        runs, peer_runs = bench.load.rounds([(ours, {"mode": "head"}), (etcd, {"mode": "etcd-range"})])
    return [measure.compared("head", tables.peer_of("head"), runs, peer_runs)]


def fanout(bench, home):
    """From the commit request, or the put, until each subscriber has its event; one change at a time."""
    registry_peers.init(bench.args.cairn, home / "data", 1, 1)
    with bench.registry(home) as ours, registry_peers.Etcd(home) as etcd:
        options, _ = writer(ours, home, 1)
        shared = {"subscribers": bench.subscribers, "requests": bench.rounds, "gather-us": 0, "connections": 1}
        runs, peer_runs = bench.load.rounds([
            (ours, {"mode": "commits", **shared, **options}),
            (etcd, {"mode": "etcd-put", **shared}),
        ], bench.load.once)
    row = measure.compared("fanout", tables.peer_of("fanout"), runs, peer_runs)
    row["subscribers"] = bench.subscribers
    for which in ("p50", "p99"):
        row[f"{which}_ratio"], row[f"{which}_spread"] = measure.summary(measure.ratios(runs, peer_runs, f"{which}_us"))
    return [row]


def verify(bench, _home):
    """The chain alone, in memory, on one core."""
    runs = []
    for _ in range(3):
        done = subprocess.run([str(pathlib.Path(bench.args.build) / "bench_verify"), str(bench.verified)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
                              preexec_fn=peers.child_setup(peers.cores()[0]))
        if done.returncode != 0:
            raise RuntimeError(f"bench_verify: {done.stderr.strip()}")
        runs.append(json.loads(done.stdout))
    return [{"case": "verify", "peer": "-", "runs": runs, "commit_bytes": runs[0]["commit_bytes"],
             **{key: int(measure.median_of(runs, key)) for key in ("entries_s", "signed_entries_s")}}]


def grown(bench, home):
    """A data directory of many versions whose server was killed; made once, kept beside --out."""
    kept = bench.cache / f"registry-{bench.versions}"
    if kept.exists():
        return kept
    registry_peers.init(bench.args.cairn, home / "data", 1, 1)
    with bench.registry(home, {"storage.fsync": "false"}) as server:
        options, _ = writer(server, home, 1)
        made = bench.load.once(server, {"mode": "commits", "connections": 1, "requests": bench.versions, "warmup": 0,
                                        "gather-us": 0, **options}, patience=3600)
        print(f"large: {made['req_s']:.0f} commits a second, not synced", file=sys.stderr)
        server.kill()
    (home / "data").rename(kept)
    return kept


def large(bench, home):
    """Memory, and how soon reads are answered after a kill and after a clean stop."""
    kept = grown(bench, home)
    shutil.rmtree(home / "data", ignore_errors=True)
    shutil.copytree(kept, home / "data", ignore=shutil.ignore_patterns("*.sock"))
    row = {"case": "large", "peer": "-", "versions": bench.versions}
    for how in ("kill", "stop"):
        with bench.registry(home) as server:
            row[f"reads_ms_after_{how}"] = round(server.reads_seconds * 1000)
            row[f"ready_ms_after_{how}"] = round(server.ready_seconds * 1000)
            if head_version(server) < bench.versions:
                raise RuntimeError(f"{head_version(server)} versions; remove {kept} if it is of another form")
            time.sleep(2)  # its verifier walks the chain meanwhile
            row[f"memory_after_{how}"] = server.memory()
            row["stop_seconds"] = round(server.stop(), 3)
    row["memory_bytes"] = max(row[f"memory_after_{how}"]["total"] for how in ("kill", "stop"))
    row["disk_bytes"] = sum(p.stat().st_blocks * 512 for p in (home / "data" / "registry").rglob("*") if p.is_file())
    return [row]


CASES = {
    "commits_1of1_1": lambda bench, home: commits(bench, home, 1, 1, 1),
    "commits_1of1_64": lambda bench, home: commits(bench, home, 1, 1, 64),
    "commits_3of5_1": lambda bench, home: commits(bench, home, 3, 5, 1),
    "commits_3of5_64": lambda bench, home: commits(bench, home, 3, 5, 64),
    "proposals_64": proposals_64, "head": head, "fanout": fanout, "verify": verify, "large": large,
}


def parse_args():
    parser = argparse.ArgumentParser(description="registry benchmarks against etcd")
    parser.add_argument("--build", default="build/release", help="directory of cairn, bench_registry and bench_verify")
    parser.add_argument("--cairn", help="the server, if it is not in --build")
    parser.add_argument("--out", default="build/bench/registry.json",
                        help="the figures; the servers' data is beside it")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; repeatable")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of runs a comparison")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of a run after its warm-up")
    parser.add_argument("--quick", action="store_true", help="2 pairs of 1 s, 5,000 versions: does it run")
    parser.add_argument("--markdown", action="store_true", help="the table as in docs/benchmarks.md")
    parser.add_argument("--render", action="store_true", help="run nothing, print what --out has")
    parser.add_argument("--enforce", action="store_true", help="exit 1 when a goal is missed")
    args = parser.parse_args()
    args.cairn = pathlib.Path(args.cairn or pathlib.Path(args.build) / "cairn").resolve()
    return args


def run_cases(args, names, parent):
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="registry-bench-", dir=parent) as temp:
        bench = Bench(args, temp, parent)
        for name in names:
            print(f"{name} …", file=sys.stderr, flush=True)
            home = bench.directory(name)
            began = time.monotonic()
            try:
                found = CASES[name](bench, home)
                rows += [{**row, "case_seconds": round(time.monotonic() - began, 1)} for row in found]
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                failed.append({"case": name, "error": str(error)})
                print(f"{name} failed: {error}", file=sys.stderr)
            finally:
                with contextlib.suppress(OSError):
                    shutil.rmtree(home)
    return rows, failed


def missing_programs(args):
    needed = [args.cairn, *(pathlib.Path(args.build) / n for n in ("bench_registry", "bench_verify")),
              pathlib.Path(registry_peers.ETCD)]
    return [str(p) for p in needed if not p.exists()]


def main():
    args = parse_args()
    out = pathlib.Path(args.out).resolve()
    if args.render:
        rows = [row for row in json.loads(out.read_text()) if "error" not in row]
        tables.show(rows, args.markdown)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the children are ended on the way out
    out.parent.mkdir(parents=True, exist_ok=True)
    if missing := missing_programs(args):
        print(f"not found: {', '.join(missing)}", file=sys.stderr)
        return 2
    if shutil.disk_usage(out.parent).free < FREE_BYTES:
        print(f"{out.parent} needs {FREE_BYTES >> 30} GiB of room", file=sys.stderr)
        return 2
    rows, failed = run_cases(args, args.case or list(CASES), out.parent)
    for row in rows:
        row["quick"] = args.quick
        row["etcd"] = registry_peers.version()
        tables.judge(row)
    out.write_text(json.dumps(rows + failed, indent=1) + "\n")
    tables.show(rows, args.markdown)
    missed = args.enforce and not all(row["met"] for row in rows)
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
