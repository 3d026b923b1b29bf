"""What storage costs us, against nginx, redis and b3sum: `./dev bench storage`.

As in http.py: CPU per request of the server, all of its threads, and requests per second, as ratios of neighbouring
runs. All servers keep their data below the directory of --out, so on one file system.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import measure
import peers
import stock
import tables
from stock import MIB

GROUP = 64 << 10
CACHE_SMALL = 8 * MIB
DROP_CACHES = pathlib.Path("/proc/sys/vm/drop_caches")
FREE_BYTES = 30 << 30
ECHO_ID = "01JBENCH0000000000000000ID"


class Bench:
    """The directory, the load, and the sizes that --quick makes smaller."""

    def __init__(self, args, temp):
        self.args = args
        self.temp = pathlib.Path(temp)
        pairs, seconds, warmup, repeats = (2, 1.0, 0.2, 0) if args.quick else (args.pairs, args.seconds, 0.5, 2)
        self.load = measure.Load(args.build, pairs, seconds, warmup, repeats)
        self.cold_objects = 128 if args.quick else 1024
        self.range_object = (64 if args.quick else 1024) * MIB
        self.hash_file = (128 if args.quick else 1024) * MIB
        self.million = 20_000 if args.quick else 1_000_000

    def directory(self, name):
        """A new one that the case removes when it is done."""
        path = self.temp / name
        path.mkdir()
        return path

    def storage(self, home, flags=None):
        return peers.Storage(self.args.cairn, home / "data", home / "cairn.log", flags)

    def write_paths(self, home, lines):
        path = home / "paths"
        path.write_text("".join(line + "\n" for line in lines))
        return path


def get_hot(bench, home, case, count, size, connections, request_id=None):
    """Objects that were asked for twice, so that they are in the cache."""
    sendfile = size >= GROUP
    root = home / "root"
    with bench.storage(home) as ours:
        paths = stock.fill(ours, root, count, size)
        stock.verify(ours, root, paths, 3)
        options = {"paths": bench.write_paths(home, paths), "expect-bytes": size, "connections": connections}
        corr_id = "$request_id"
        if request_id is not None:
            options["header"] = f"X-Corr-ID: {request_id}"
            corr_id = "$http_x_corr_id"
        ours_headers = stock.headers(ours, paths[0])
        with peers.nginx(home, root, sendfile, set(ours_headers), corr_id) as peer:
            stock.verify(peer, root, paths)
            peer_headers = stock.headers(peer, paths[0])
            (read,) = stock.counters(ours, "chunks_read_total")
            runs, peer_runs = bench.load.rounds([(ours, options), (peer, options)])
            read = stock.counters(ours, "chunks_read_total")[0] - read
    if read > 0.001 * sum(r["requests"] for r in runs):
        raise RuntimeError(f"{case}: {read:.0f} groups came from disk, so it was not hot")
    return [measure.compared(case, "nginx", runs, peer_runs, ours_headers, peer_headers)]


def get_1k(bench, home):
    return get_hot(bench, home, "get_1k", 64, 1024, 64)


def get_1k_echo(bench, home):
    """As get_1k, but the request brings its correlation id: without the 1.3 us that nginx spends on making one."""
    return get_hot(bench, home, "get_1k_echo", 64, 1024, 64, ECHO_ID)


def get_64k(bench, home):
    return get_hot(bench, home, "get_64k", 64, GROUP, 64)


def get_1m(bench, home):
    return get_hot(bench, home, "get_1m", 16, MIB, 16)


def get_cold(bench, home, case, from_disk):
    """Many times more objects than our cache holds, in random order: each request reads and verifies 1 MiB. The bytes
    are in the kernel's page cache on both sides or, `from_disk`, on neither."""
    root = home / "root"
    with bench.storage(home, {"storage.cache_bytes": CACHE_SMALL}) as ours:
        paths = stock.fill(ours, root, bench.cold_objects, MIB)
        ours_headers = stock.headers(ours, paths[0])
        with peers.nginx(home, root, True, set(ours_headers), aio=from_disk) as peer:
            for server in (ours, peer):
                stock.verify(server, root, paths)
            order = random.Random(1)
            rounds = [order.sample(paths, len(paths)) for _ in range(1 if from_disk else 4)]
            options = {"paths": bench.write_paths(home, sum(rounds, [])), "expect-bytes": MIB, "connections": 16}
            if from_disk:
                options.update({"requests": len(paths), "warmup": 0})
            peer_headers = stock.headers(peer, paths[0])
            (read,) = stock.counters(ours, "chunks_read_total")
            made = ours_requests(ours)
            runs, peer_runs = bench.load.rounds(
                [(ours, options), (peer, options)],
                lambda server, given: run_cold(bench, server, given, from_disk,
                                               home / "data" if server is ours else root))
            read = stock.counters(ours, "chunks_read_total")[0] - read
            made = ours_requests(ours) - made
    share = read * GROUP / (made * MIB)
    if share < 0.9:
        raise RuntimeError(f"{case}: only {share:.2f} of the bytes were read and verified, so it was not cold")
    row = measure.compared(case, "nginx", runs, peer_runs, ours_headers, peer_headers)
    return [{**row, "verified_share": round(share, 4)}]


def ours_requests(server):
    return sum(stock.counters(server, "cache_hits_total", "cache_misses_total"))


def read_all(directory):
    """So that all of it is in the page cache: a system may let go of pages although it has room."""
    for path in directory.rglob("*"):
        if path.is_file():
            with open(path, "rb", buffering=0) as file:
                while file.read(MIB):
                    pass


def run_cold(bench, server, options, from_disk, files):
    """A run, and the proof that the disk was asked for all of its bytes or for none."""
    os.sync()
    if from_disk:
        DROP_CACHES.write_text("3\n")
    else:
        read_all(files)
    read = server.read_from_disk()
    run = bench.load.once(server, options, patience=300) if from_disk else bench.load.quiet(server, options)
    run["disk_share"] = round((server.read_from_disk() - read) / (run["requests"] * MIB), 4)
    if (run["disk_share"] < 0.9) if from_disk else (run["disk_share"] > 0.01):
        raise RuntimeError(f"{server.name} read {run['disk_share']} of the bytes from the disk")
    return run


def get_1m_cold(bench, home):
    return get_cold(bench, home, "get_1m_cold", from_disk=False)


def get_1m_disk(bench, home):
    return get_cold(bench, home, "get_1m_disk", from_disk=True)


def range_64k(bench, home):
    """256 of the groups of one large object, all in our cache and in nginx's page cache."""
    root = home / "root"
    with bench.storage(home, {"storage.cache_bytes": "2GiB", "server.memory_bytes": "3GiB"}) as ours:
        path = stock.upload(ours, root, bench.range_object)
        firsts = random.Random(1).sample(range(0, bench.range_object, GROUP), 256)
        ranges = [(first, first + GROUP - 1) for first in firsts]
        stock.verify_ranges(ours, root, path, ranges, 3)
        ours_headers = stock.headers(ours, path, Range="bytes=0-9")
        lines = [f"{path}\tRange: bytes={first}-{last}" for first, last in ranges]
        options = {"paths": bench.write_paths(home, lines), "expect-bytes": GROUP, "expect-status": 206}
        with peers.nginx(home, root, True, set(ours_headers)) as peer:
            stock.verify_ranges(peer, root, path, ranges)
            peer_headers = stock.headers(peer, path, Range="bytes=0-9")
            (read,) = stock.counters(ours, "chunks_read_total")
            runs, peer_runs = bench.load.rounds([(ours, options), (peer, options)])
            read = stock.counters(ours, "chunks_read_total")[0] - read
    if read > 0.001 * sum(r["requests"] for r in runs):
        raise RuntimeError(f"range_64k: {read:.0f} groups came from disk, so it was not hot")
    row = measure.compared("range_64k", "nginx", runs, peer_runs, ours_headers, peer_headers)
    return [{**row, "p99_ratio": round(row["ours_p99_us"] / max(row["peer_p99_us"], 0.1), 4)}]


def run_put(bench, put_dir, server, options):
    """What others left to be written is written before, and what nginx took in gives its room back after. Its files
    stay, empty: ext4 passes over inodes that were freed a moment ago one by one, at the cost of whoever makes files."""
    os.sync()
    run = bench.load.once(server, options)
    if server.name == "nginx":
        with os.scandir(put_dir) as entries:
            files = [e.path for e in entries if e.stat().st_size == options["body-bytes"]]
        if len(files) < run["requests"]:
            raise RuntimeError(f"nginx kept {len(files)} files of {run['requests']} PUTs")
        for file in files:
            os.truncate(file, 0)
    return run


def post_options(server, size, connections):
    return {"paths": paths_of(server, "/o"), "method": "POST", "header": f"Authorization: {server.bearer}",
            "body-bytes": size, "distinct": True, "expect-status": 201, "connections": connections}


def paths_of(server, line):
    """A paths file of one line, beside the server's log."""
    path = pathlib.Path(server.log).parent / f"{server.port}.paths"
    path.write_text(line + "\n")
    return path


def put_1k(bench, home):
    """New objects of 1 KiB: ours and redis answer when they are on the disk, nginx at once."""
    root = home / "root"
    (root / "put").mkdir(parents=True)
    with bench.storage(home) as ours, peers.redis(home) as redis, peers.nginx_dav(home, root, "16k") as nginx:
        runs, redis_runs, nginx_runs = bench.load.rounds([
            (ours, post_options(ours, 1024, 64)),
            (redis, {"redis-set": True, "body-bytes": 1024, "connections": 64}),
            (nginx, {"paths": paths_of(nginx, "/put/o="), "method": "PUT", "body-bytes": 1024, "distinct": True,
                     "expect-status": 201, "connections": 64}),
        ], lambda server, options: run_put(bench, root / "put", server, options))
        check_kept(ours, stock.object_count(ours), runs)
        check_kept(redis, stock.redis_count(redis), redis_runs)
    return [measure.compared("put_1k", "redis", runs, redis_runs),
            measure.compared("put_1k", "nginx, not durable", runs, nginx_runs)]


def put_1m(bench, home):
    root = home / "root"
    (root / "put").mkdir(parents=True)
    with bench.storage(home) as ours, peers.nginx_dav(home, root, "512k") as nginx:
        runs, nginx_runs = bench.load.rounds([
            (ours, post_options(ours, MIB, 16)),
            (nginx, {"paths": paths_of(nginx, "/put/o="), "method": "PUT", "body-bytes": MIB, "distinct": True,
                     "expect-status": 201, "connections": 16}),
        ], lambda server, options: run_put(bench, root / "put", server, options))
        check_kept(ours, stock.object_count(ours), runs)
    return [measure.compared("put_1m", "nginx, not durable", runs, nginx_runs)]


def check_kept(server, kept, runs):
    acknowledged = sum(r["requests"] for r in runs)
    if kept < acknowledged:
        raise RuntimeError(f"{server.name} has {kept} objects of {acknowledged} that it acknowledged")


def hash_1g(bench, home):
    """The hashing of what comes in, against the reference program on one thread."""
    file = home / "file"
    with open(file, "wb") as out:
        for _ in range(bench.hash_file // MIB):
            out.write(os.urandom(MIB))
    ours = [str(pathlib.Path(bench.args.build) / "bench_hash"), str(file)]
    peer = ["b3sum", "--num-threads", "1", "--no-mmap", "--no-names", str(file)]
    runs, peer_runs = [], []
    for argv in (ours, peer):
        run_program(argv)  # the file is in the page cache, the programs too
    for i in range(bench.load.pairs):
        sides = [(ours, runs), (peer, peer_runs)]
        for argv, into in sides if i % 2 == 0 else reversed(sides):
            into.append(run_program(argv))
    if {r["hash"] for r in runs} != {"b3:" + r["hash"] for r in peer_runs}:
        raise RuntimeError("the two programs do not agree on the hash")
    cpu_ratio, spread = measure.summary(measure.ratios(peer_runs, runs, "cpu_s"))
    req_s_ratio, req_s_spread = measure.summary(measure.ratios(peer_runs, runs, "wall_s"))
    row = {"case": "hash", "peer": "b3sum", "cpu_ratio": cpu_ratio, "spread": spread,
           "req_s_ratio": req_s_ratio, "req_s_spread": req_s_spread, "file_bytes": bench.hash_file}
    for side, of in (("ours", runs), ("peer", peer_runs)):
        row[f"{side}_cpu_ns"] = round(measure.median_of(of, "cpu_s") * 1e9)
        row[f"{side}_req_s"] = round(1 / measure.median_of(of, "wall_s"), 3)
        row[f"{side}_gib_s"] = round(bench.hash_file / measure.median_of(of, "cpu_s") / (1 << 30), 3)
        row[f"{side}_runs"] = of
    return [row]


def run_program(argv):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
                          preexec_fn=peers.child_setup(peers.cores()[0]))
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]}: {done.stderr.strip()}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"hash": done.stdout.strip(), "cpu_s": cpu, "wall_s": wall}


def million(bench, home):
    """A million objects of 1 KiB: how fast they come in, what they cost in memory and on the disk, also when many were
    read twice, and how long a start takes after a kill, after a clean end, and when the index has to be made anew."""
    flags = {"storage.cache_bytes": 64 * MIB}
    count = bench.million
    row = {"case": "million", "peer": "-", "objects": count}
    with bench.storage(home, flags) as first:
        row["memory_empty"] = first.memory()
        load = bench.load.once(first, {**post_options(first, 1024, 64), "requests": count, "warmup": 0}, patience=3600)
        row["put"] = load
        row["memory_after_put"] = first.memory()
        paths = stock.listed(first, min(count, 100_000))
        options = {"paths": bench.write_paths(home, paths), "expect-bytes": 1024, "requests": 2 * len(paths),
                   "warmup": 0}
        row["get"] = bench.load.once(first, options, patience=600)
        row["memory_after_get"] = first.memory()
        (row["cached_bytes"],) = stock.counters(first, "cache_bytes")
        # Those that were under way when the last was counted may be there as well.
        kept = stock.object_count(first)
        first.kill()
    row["disk_bytes"] = {name: disk_bytes(home / "data" / "storage" / name) for name in ("segments", "index")}
    for how in ("kill", "stop", "loss"):
        if how == "loss":
            shutil.rmtree(home / "data" / "storage" / "index")
        with bench.storage(home, flags) as server:
            row[f"ready_seconds_after_{how}"] = round(server.ready_seconds, 3)
            row[f"memory_after_{how}"] = server.memory()
            now = stock.object_count(server)
            if now < max(count, kept) or now > kept + 64:
                raise RuntimeError(f"{now} objects after a {how}, {kept} before, {count} acknowledged")
            row["stop_seconds"] = round(server.stop(), 3)
    row["put_req_s"], row["put_cpu_ns"] = load["req_s"], load["server_cpu_ns_per_request"]
    row["memory_bytes"] = max(row["memory_after_put"]["total"], row["memory_after_get"]["total"])
    return [row]


def disk_bytes(path):
    return sum(p.stat().st_blocks * 512 for p in path.rglob("*") if p.is_file())


CASES = {"get_1k": get_1k, "get_1k_echo": get_1k_echo, "get_64k": get_64k, "get_1m": get_1m,
         "get_1m_cold": get_1m_cold, "get_1m_disk": get_1m_disk, "range_64k": range_64k, "put_1k": put_1k,
         "put_1m": put_1m, "hash": hash_1g, "million": million}


def parse_args():
    parser = argparse.ArgumentParser(description="storage benchmarks against nginx, redis and b3sum")
    parser.add_argument("--build", default="build/release", help="directory of cairn, bench_load and bench_hash")
    parser.add_argument("--cairn", help="the server, if it is not in --build")
    parser.add_argument("--out", default="build/bench/storage.json", help="the figures; the servers' data is beside it")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; repeatable")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of runs a comparison")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of a run after its warm-up")
    parser.add_argument("--quick", action="store_true", help="2 pairs of 1 s, small sizes, no million: does it run")
    parser.add_argument("--markdown", action="store_true", help="the table as in docs/benchmarks.md")
    parser.add_argument("--render", action="store_true", help="run nothing, print what --out has")
    parser.add_argument("--enforce", action="store_true", help="exit 1 when a goal is missed")
    args = parser.parse_args()
    args.cairn = pathlib.Path(args.cairn or pathlib.Path(args.build) / "cairn").resolve()
    return args


def run_cases(args, names, parent):
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="storage-", dir=parent) as temp:
        # Where ext4 is told so, each case gets a part of the disk of its own, free of what others just deleted.
        subprocess.run(["chattr", "+T", temp], stderr=subprocess.DEVNULL, check=False)
        bench = Bench(args, temp)
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
    needed = [args.cairn, *(pathlib.Path(args.build) / n for n in ("bench_load", "bench_hash"))]
    missing = [str(p) for p in [*needed, pathlib.Path(peers.NGINX), pathlib.Path(peers.REDIS)] if not p.exists()]
    return missing + ([] if shutil.which("b3sum") else ["b3sum"])


def main():
    args = parse_args()
    out = pathlib.Path(args.out).resolve()
    if args.render:
        rows = [row for row in json.loads(out.read_text()) if "error" not in row]
        tables.show(rows, args.markdown)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the children are ended on the way out
    names = args.case or [n for n in CASES if n != "million" or not args.quick]
    out.parent.mkdir(parents=True, exist_ok=True)
    if missing := missing_programs(args):
        print(f"not found: {', '.join(missing)}", file=sys.stderr)
        return 2
    if shutil.disk_usage(out.parent).free < FREE_BYTES:
        print(f"{out.parent} needs {FREE_BYTES >> 30} GiB of room", file=sys.stderr)
        return 2
    rows, failed = run_cases(args, names, out.parent)
    for row in rows:
        row["quick"] = args.quick
        tables.judge(row)
    out.write_text(json.dumps(rows + failed, indent=1) + "\n")
    tables.show(rows, args.markdown)
    missed = args.enforce and not all(row["met"] for row in rows)
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
