#!/usr/bin/env python3
"""mutants.py --build DIR [--of store|registry|index] [--both] [--only ID…] [--json FILE]: are the planted mistakes found?

Runs the mutated code once for each mutant: those whose row says `suite = true` in the crash suite in a small
configuration, until the first finding, the others in the code's own tests. A mutant is killed by a named oracle of
the suite, by a test, by a CHECK of the code, by a crash, or by going on without end. Fails unless the code without
mutants has no finding and every mutant is killed where its row says so.

--both runs every mutant in both. A run in which nothing is found takes the longest, so that is for a soak.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).parent
LIMIT_SECONDS = 120
# Of what: the list of mutants, the crash suite and the tests with them built in.
SUITES = {"store": ("mutants.toml", "crash_mutants", "store_mutants"),
          "registry": ("registry/mutants.toml", "crash_registry_mutants", "registry_mutants"),
          "index": ("index/mutants.toml", "crash_index_mutants", "ledger_mutants")}


def run(binary, arguments, mutant):
    """(status, output): status None when the limit was reached."""
    environment = dict(os.environ, CAIRN_MUTANT=str(mutant))
    try:
        done = subprocess.run([binary, *arguments], env=environment, timeout=LIMIT_SECONDS, capture_output=True,
                              text=True, errors="replace")
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as expired:
        return None, (expired.stdout or b"").decode(errors="replace")


def verdict(status, output, pattern, tell):
    """What killed it, or None."""
    found = re.search(pattern, output)
    if found:
        return tell(found)
    check = re.search(r"CHECK failed: (.*)", output)
    if check:
        return f"CHECK {check.group(1)}"
    if status is None:
        return "hang"
    return f"crash {status}" if status != 0 else None


def try_suite(binary, mutant):
    return verdict(*run(binary, ["--quick"], mutant), r"FOUND in (\S+): oracle (\w+): (.*)",
                   lambda found: f"{found.group(2)} ({found.group(1)[:40]})")


def try_tests(binary, mutant):
    return verdict(*run(binary, ["--gtest_brief=1", "--gtest_fail_fast"], mutant),
                   r"\[  FAILED  \] (\S+\.\S+)", lambda found: found.group(1).rstrip(","))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--of", choices=SUITES, default="store")
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    names, *binaries = SUITES[arguments.of]
    suite, tests = (arguments.build.resolve() / binary for binary in binaries)
    mutants = tomllib.loads((HERE / names).read_text())["mutant"]
    if arguments.only:
        mutants = [m for m in mutants if m["id"] in arguments.only]
    start = time.monotonic()

    rows = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # The longest: nothing is found.
        clean = pool.submit(try_suite, suite, 0), pool.submit(try_tests, tests, 0)
        jobs = []
        for mutant in mutants:
            wanted = mutant.get("suite", False)
            jobs.append((mutant,
                         pool.submit(try_suite, suite, mutant["id"]) if arguments.both or wanted else None,
                         pool.submit(try_tests, tests, mutant["id"]) if arguments.both or not wanted else None))
        for mutant, *both in jobs:
            killed = [job.result() if job else None for job in both]
            tell = [found or ("survives" if job else "not asked") for job, found in zip(both, killed)]
            rows.append({"id": mutant["id"], "name": mutant["name"], "suite": killed[0], "tests": killed[1]})
            print(f"{mutant['id']:4}  {mutant['name']:60} suite: {tell[0]:52.52} tests: {tell[1]}", flush=True)
        clean = tuple(job.result() for job in clean)
        print(f"   0  {'(no mutant)':60} suite: {clean[0] or 'no finding'}  tests: {clean[1] or 'pass'}", flush=True)

    killed = sum(row["suite"] is not None or row["tests"] is not None for row in rows)
    by_suite = sum(row["suite"] is not None for row in rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    wrong = [m["id"] for m, row in zip(mutants, rows) if m.get("suite", False) and row["suite"] is None]
    if wrong:
        print(f"the crash suite does not find what it should: {wrong}")
    print(f"{killed}/{len(rows)} killed, {by_suite} by the crash suite; {time.monotonic() - start:.0f} s")
    return 0 if clean == (None, None) and killed == len(rows) and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
