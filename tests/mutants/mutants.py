#!/usr/bin/env python3
"""mutants.py --build DIR [--of LAYER…] [--only ID…]: are mistakes planted in a layer, or a service, found by its tests?

Runs the named tests over the mutated layer once for each mutant. A mutant is killed by a failing test, a CHECK, a crash,
or by going on without end. Fails unless the code without mutants passes and every mutant is killed.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).parent
LAYERS = ("codec", "io", "http", "serve", "gateway", "index")
LIMIT_SECONDS = 60


def killer(binary, mutant, tests):
    """What killed it, or None."""
    command = [binary, "--gtest_brief=1", "--gtest_fail_fast", f"--gtest_filter={tests}"]
    try:
        done = subprocess.run(command, env=dict(os.environ, CAIRN_MUTANT=str(mutant)), timeout=LIMIT_SECONDS,
                              capture_output=True, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return "hang"
    output = done.stdout + done.stderr
    if done.returncode == 0:
        if not re.search(r"\[  PASSED  \] [1-9]", output):
            raise SystemExit(f"mutant {mutant}: no test is named {tests}")
        return None
    failed = re.search(r"\[  FAILED  \] (\w+\.\w+)", output)
    check = re.search(r"CHECK failed: (.*)", output)
    return failed[1] if failed else f"CHECK {check[1]}" if check else f"crash {done.returncode}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--of", nargs="*", choices=LAYERS, default=LAYERS)
    parser.add_argument("--only", type=int, nargs="*")
    arguments = parser.parse_args()
    start, alive, count = time.monotonic(), 0, 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for layer in arguments.of:
            binary = arguments.build.resolve() / f"{layer}_mutants"
            mutants = tomllib.loads((HERE / f"{layer}.toml").read_text())["mutant"]
            if arguments.only:
                mutants = [m for m in mutants if m["id"] in arguments.only]
            tests = ":".join(sorted({m["test"] for m in mutants}))
            clean = pool.submit(killer, binary, 0, tests) if mutants else None
            jobs = [(m, pool.submit(killer, binary, m["id"], m["test"])) for m in mutants]
            for mutant, job in jobs:
                killed = job.result()
                print(f"{mutant['id']:4}  {mutant['name']:60} {killed or 'SURVIVES'}", flush=True)
                alive += killed is None
            count += len(jobs)
            if clean and clean.result():
                print(f"   0  (no mutant of {layer}): {clean.result()}")
                alive += 1
    print(f"{count} mutants, {alive} alive; {time.monotonic() - start:.0f} s")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
