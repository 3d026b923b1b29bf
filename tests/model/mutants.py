#!/usr/bin/env python3
"""mutants.py --build DIR [--only ID…] [--json FILE]: are the planted bugs found?

Runs the explorer over the mutated runtime once for each mutant, until the first finding, and the plain unit tests
with the same mutant. A mutant is killed by a named oracle, by a CHECK of the code, by a crash, or by going on
without end. Fails unless the code without mutants has no finding, every mutant is killed, and enough of them
survive the unit tests to show that the explorer finds what those cannot.
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
LIMIT_SECONDS = 40
UNIT_LIMIT_SECONDS = 15  # the unit tests take a fraction of one
SURVIVORS_MIN = 15


def run(binary, arguments, mutant, limit):
    """(status, output): status None when the limit was reached."""
    environment = dict(os.environ, CAIRN_MUTANT=str(mutant))
    try:
        done = subprocess.run([binary, *arguments], env=environment, timeout=limit, capture_output=True, text=True,
                              errors="replace")
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as expired:
        return None, (expired.stdout or b"").decode(errors="replace")


def verdict(status, output):
    """What killed it, or None."""
    found = re.search(r"FOUND in (\S+): oracle (\w+): (.*)", output)
    if found:
        model, oracle, detail = found.groups()
        return (f"CHECK {detail}" if oracle == "check" else oracle), model
    check = re.search(r"CHECK failed: (.*)", output)
    if check:
        return f"CHECK {check.group(1)}", "?"
    if status is None:
        return "hang", "?"
    return (f"crash {status}", "?") if status != 0 else None


def try_explorer(build, mutant):
    # A finding in the expected model is enough; otherwise every model is explored.
    for arguments in ([mutant["model"]], []) if "model" in mutant else ():
        killed = verdict(*run(build / "explorer_mutants", ["--quick", *arguments], mutant["id"], LIMIT_SECONDS))
        if killed:
            return killed
    return None


def try_units(build, number):
    status, output = run(build / "unit_mutants", ["--gtest_brief=1", "--gtest_fail_fast"], number, UNIT_LIMIT_SECONDS)
    if status == 0:
        return None
    failed = re.search(r"\[  FAILED  \] (\S+\.\S+)", output)
    check = re.search(r"CHECK failed: (.*)", output)
    return failed.group(1) if failed else "CHECK" if check else "hang" if status is None else f"crash {status}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    mutants = tomllib.loads((HERE / "mutants.toml").read_text())["mutant"]
    if arguments.only:
        mutants = [m for m in mutants if m["id"] in arguments.only]
    start = time.monotonic()

    rows = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # The longest: nothing is found.
        clean = pool.submit(lambda: verdict(*run(build / "explorer_mutants", ["--quick"], 0, 120)))
        units = pool.submit(try_units, build, 0)
        jobs = [(m, pool.submit(try_explorer, build, m), pool.submit(try_units, build, m["id"])) for m in mutants]
        for mutant, explored, tested in jobs:
            killed, unit = explored.result(), tested.result()
            if mutant.get("units") and unit:
                killed = killed or ("unit tests", unit)
            rows.append({"id": mutant["id"], "name": mutant["name"], "killed_by": killed and killed[0],
                         "model": killed and killed[1], "unit_tests": unit})
            told = f"{killed[0]} ({killed[1]})" if killed else "SURVIVES"
            print(f"{mutant['id']:4}  {mutant['name']:58} {told:64.64} units: {unit or 'survives'}", flush=True)
        clean, units = clean.result(), units.result()
        print(f"   0  {'(no mutant)':58} {'no finding' if clean is None else clean}, unit tests {units or 'pass'}")

    killed = sum(row["killed_by"] is not None for row in rows)
    survivors = sum(row["unit_tests"] is None for row in rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{time.monotonic() - start:.0f} s")
    print(f"{killed}/{len(rows)} killed, {survivors} survive the unit tests")
    fine = clean is None and units is None and killed == len(rows)
    return 0 if fine and (arguments.only or survivors >= SURVIVORS_MIN) else 1


if __name__ == "__main__":
    sys.exit(main())
