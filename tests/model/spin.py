#!/usr/bin/env python3
"""spin.py [--only NAME…]: checks registry_head.pml and fair_turns.pml with Spin.

Explores the whole state space for the safety promises, in two shapes, and checks the liveness promises under weak
fairness. Then runs each variant that is wrong on purpose: it must be refuted, by an oracle that fits it.
Fails when a promise does not hold, a search was not exhausted, or a wrong variant passes.
"""
import argparse
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

HEAD = pathlib.Path(__file__).with_name("registry_head.pml")
TURNS = pathlib.Path(__file__).with_name("fair_turns.pml")
LIMIT_SECONDS = 300
DEPTH = 100_000

TWO = {"CLIENTS": 2, "LAST": 3, "CRASHES": 2, "TIMEOUTS": 1}
THREE = {"CLIENTS": 3, "LAST": 2, "CRASHES": 1, "TIMEOUTS": 0}
SMALL = {"CLIENTS": 2, "LAST": 2, "CRASHES": 2, "TIMEOUTS": 1}

FAIR = {"EACH": 2, "SLOTS": 3, "SCHED": 1}
FAIR_ROOMY = {"EACH": 2, "SLOTS": 4, "SCHED": 3}

# Name, shape, formula (None: safety).
RIGHT = [
    ("safety of two clients", TWO, None),
    ("safety of three clients", THREE, None),
    ("progress under fairness", SMALL, "progress"),
    ("answered under fairness", SMALL, "answered"),
]
FAIR_RIGHT = [
    ("fair turns: safety", FAIR, None),
    ("fair turns: roomy", FAIR_ROOMY, None),
]

# What pan says of each oracle.
TWO_ARTIFACTS = "seen["
TWO_ROOTS = "root_of["
LOST_COMMIT = "acknowledged<=head"
LOST_BROADCAST = "announced<=head"
CYCLE = "acceptance cycle"
# Definition in the model, formula (None: safety), the oracles that may refute it.
WRONG = [
    ("NO_CAS", None, (TWO_ARTIFACTS,)),
    ("ACK_BEFORE_SYNC", None, (LOST_COMMIT, TWO_ARTIFACTS)),
    ("BROADCAST_BEFORE_SYNC", None, (LOST_BROADCAST, TWO_ARTIFACTS)),
    ("HEAD_BEFORE_SYNC", None, (TWO_ARTIFACTS,)),
    ("SIGN_BEFORE_SYNC", None, (TWO_ROOTS,)),
    ("RECOVER_SHORT", None, (LOST_COMMIT, LOST_BROADCAST, TWO_ARTIFACTS)),
    ("RECOVER_UNSYNCED", None, (LOST_COMMIT, TWO_ARTIFACTS)),
    ("KEEP_TORN", None, (LOST_COMMIT, LOST_BROADCAST, TWO_ARTIFACTS)),
    ("FORGET_DONE", None, ("file[version]",)),
    ("NO_RETRY", "progress", (CYCLE,)),
]


TURNS_TAKEN = "visits["
QUANTUM = "used["
CREDIT = "deficit["
BOUND = "held["
ANSWERED = "clients_done"
FAIR_WRONG = [
    ("KEEP_CREDIT", None, (CREDIT,)),
    ("SHARE_PLUS_ONE", None, (BOUND,)),
    ("NO_TURNS", None, (TURNS_TAKEN,)),
    ("SAME_QUANTUM", None, (QUANTUM,)),
    ("DROP_UNTOLD", None, (ANSWERED,)),
    ("DROP_KEEPS_SLOT", None, (ANSWERED,)),
    ("DRAIN_FORGETS", None, (ANSWERED,)),
    ("AHEAD", None, ("out<=",)),
]


class Failure(Exception):
    pass


def cpu_seconds():
    """Of all children so far: others may use the same cores."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(arguments, directory):
    done = subprocess.run(arguments, cwd=directory, timeout=LIMIT_SECONDS, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def verify(model, shape, formula, variant=None):
    """pan's report, and its CPU seconds without those of the compiler."""
    with tempfile.TemporaryDirectory(prefix="cairn-spin-") as directory:
        definitions = [f"-D{name}={value}" for name, value in shape.items()] + ([f"-D{variant}"] if variant else [])
        status, said = run(["spin", "-a", "-Pclang-19 -E -x c", *definitions, str(model)], directory)
        if status != 0 or not pathlib.Path(directory, "pan.c").exists():
            raise Failure(f"spin: {said}")
        # A wrong variant is refuted after few states: the optimizer would cost more than it saves.
        flags = ["-O0" if variant else "-O2", "-w", *(["-DNFAIR=3"] if formula else ["-DSAFETY", "-DNOCLAIM"])]
        status, said = run(["clang-19", *flags, "-o", "pan", "pan.c"], directory)
        if status != 0:
            raise Failure(f"clang-19: {said}")
        start = cpu_seconds()
        _, said = run(["./pan", f"-m{DEPTH}", *(["-a", "-f", "-N", formula] if formula else [])], directory)
        return said, cpu_seconds() - start


def errors(said):
    found = re.search(r"errors: (\d+)", said)
    if not found:
        raise Failure(f"pan: {said}")
    return int(found.group(1))


def states(said):
    return int(float(re.search(r"^\s*(\d\S*) states, stored", said, re.MULTILINE).group(1)))


def complaint(said):
    found = re.search(r"^pan:\d+: (.*)", said, re.MULTILINE)
    return found.group(1) if found else ""


def unreached(said):
    """Statements of the processes that no schedule comes to; what nobody reaches proves nothing."""
    processes = said.split("unreached in claim")[0]
    return [line for line in re.findall(r"^\t\S+\.pml:(.*)", processes, re.MULTILINE) if '"-end-"' not in line]


def check_right(model, shape, formula):
    """(fine, what was seen)"""
    said, seconds = verify(model, shape, formula)
    if errors(said) != 0:
        return False, f"REFUTED: {complaint(said)}"
    if "max search depth too small" in said or "Search not completed" in said or "out of memory" in said:
        return False, "NOT EXHAUSTED"
    kind = "acceptance   cycles" if formula else "assertion violations"
    if not re.search(re.escape(kind) + r"\s*\t?\+", said) or (formula and "fairness enabled" not in said):
        return False, f"pan did not look for {' '.join(kind.split())}"
    if shape is TWO and unreached(said):
        return False, f"never reached: {unreached(said)}"
    return True, f"{states(said):>9} states {seconds:6.1f} s"


def check_wrong(model, shape, name, formula, oracles):
    said, seconds = verify(model, shape, formula, name)
    if errors(said) == 0:
        return False, "NOT REFUTED"
    oracle = complaint(said)
    if not any(expected in oracle for expected in oracles):
        return False, f"refuted by something else: {oracle}"
    return True, f"refuted in {seconds:.1f} s: {oracle}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*")
    only = parser.parse_args().only
    jobs = [(name, check_right, (HEAD, shape, formula)) for name, shape, formula in RIGHT]
    jobs += [(name, check_wrong, (HEAD, SMALL, name, formula, oracles)) for name, formula, oracles in WRONG]
    jobs += [(name, check_right, (TURNS, shape, formula)) for name, shape, formula in FAIR_RIGHT]
    jobs += [(name, check_wrong, (TURNS, FAIR, name, formula, oracles))
             for name, formula, oracles in FAIR_WRONG]
    jobs = [job for job in jobs if not only or job[0] in only]
    failed = 0
    for name, check, arguments in jobs:
        try:
            fine, seen = check(*arguments)
        except (Failure, subprocess.TimeoutExpired) as error:
            fine, seen = False, str(error)
        failed += not fine
        print(f"{name:26} {'ok  ' if fine else 'FAIL'} {seen}", flush=True)
    print(f"{len(jobs)} runs of two models, {failed} failed, {cpu_seconds():.0f} s of CPU")
    return 0 if jobs and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
