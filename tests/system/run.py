#!/usr/bin/env python3
"""Runs the system tests: real processes, real sockets, real clients.

    python3 tests/system/run.py --build build/release [--jobs N] [PATTERN]

PATTERN selects tests whose `module.Class.name` contains it; * and ? are wildcards.

Most tests wait for a process or a clock, so with --jobs several modules run beside each other, each in a process of
its own. A module whose tests need the machine for themselves says why: ALONE = "reason". Those run last, one by one.
"""

import argparse
import concurrent.futures
import fnmatch
import glob
import importlib
import os
import re
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.append("/usr/lib/python3/dist-packages")  # Debian's modules, also for another python that comes first in PATH
sys.dont_write_bytecode = True

import demo  # noqa: E402


class Report(unittest.TestResult):
    """One line for a test, everything for one that failed."""

    def __init__(self, verbose):
        super().__init__()
        self.verbose, self.passed, self.failed, self.skipped_names, self.began = verbose, 0, set(), set(), 0.0

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def _fail(self, test, error):
        name = getattr(test, "test_case", test).id() if hasattr(test, "id") else str(test)
        if name not in self.failed:
            self.failed.add(name)
            print(f"FAILED {name}", flush=True)
        text = self._exc_info_to_string(error, test)
        about = f" [{test._subDescription()}]" if hasattr(test, "_subDescription") else ""
        print("    " + (about + "\n" + text).strip().replace("\n", "\n    "), flush=True)

    def addFailure(self, test, error):
        self._fail(test, error)

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self._fail(subtest, error)

    def addSkip(self, test, reason):
        self.skipped_names.add(test.id())
        print(f"SKIPPED {test.id()}: {reason}", flush=True)

    def stopTest(self, test):
        super().stopTest(test)
        if test.id() in self.failed or test.id() in self.skipped_names:
            return
        self.passed += 1
        if self.verbose:
            print(f"ok {test.id()} ({time.monotonic() - self.began:.2f} s)", flush=True)


def flatten(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test


KINDS = ("index_*.py", "test_*.py", "cli_*.py", "storage_*.py", "registry_*.py", "macaroon_*.py", "browser.py")
TOTALS = re.compile(r"(\d+) s, (\d+) skipped\n(\d+) passed, (\d+) failed\n\Z")


def module_names():
    return sorted(os.path.basename(path)[:-3] for kind in KINDS for path in glob.glob(os.path.join(HERE, kind)))


def tests_of(name, pattern):
    loaded = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name))
    return [test for test in flatten(loaded) if fnmatch.fnmatchcase(test.id(), f"*{pattern}*")]


def run_here(tests, verbose):
    """(passed, failed, skipped) of the tests, in this process."""
    report = Report(verbose)
    unittest.TestSuite(tests).run(report)
    return report.passed, len(report.failed), len(report.skipped_names)


def run_apart(name, options):
    """The same for one module, in a process of its own."""
    command = [sys.executable, os.path.abspath(__file__), "--build", demo.BUILD, "--module", name]
    done = subprocess.run([*command, *(["-v"] if options.verbose else []), "--", options.pattern], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    totals = TOTALS.search(done.stdout)
    print(done.stdout[: totals.start()] if totals else done.stdout, end="", flush=True)
    seconds, skipped, passed, failed = map(int, totals.groups()) if totals else (0, 0, 0, 0)
    if failed == 0 and done.returncode != 0:
        print(f"FAILED {name}: ended with {done.returncode}", flush=True)
        failed = 1
    if options.verbose:
        print(f"module {name}: {seconds} s", flush=True)
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="directory of cairn-demo")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every test, with its time")
    parser.add_argument("--jobs", type=int, default=1, help="modules that run at the same time")
    parser.add_argument("--module", help="the tests of this one only")
    parser.add_argument("pattern", nargs="?", default="")
    options = parser.parse_args()
    demo.BUILD = os.path.abspath(options.build)
    if not os.access(demo.binary(), os.X_OK):
        sys.exit(f"{demo.binary()} is not built")

    began = time.monotonic()
    wanted = {name: tests_of(name, options.pattern) for name in ([options.module] if options.module else module_names())}
    wanted = {name: tests for name, tests in wanted.items() if tests}
    if options.jobs == 1 or len(wanted) == 1:
        results = [run_here([test for tests in wanted.values() for test in tests], options.verbose)]
    else:
        alone = [name for name in wanted if hasattr(sys.modules[name], "ALONE")]
        together = sorted((name for name in wanted if name not in alone), key=lambda name: -len(wanted[name]))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda name: run_apart(name, options), together))
        results += [run_apart(name, options) for name in alone]
    passed, failed, skipped = map(sum, zip(*results, (0, 0, 0)))
    print(f"{time.monotonic() - began:.0f} s, {skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or passed + skipped == 0 else 0)


if __name__ == "__main__":
    main()
