#!/usr/bin/env python3
"""Runs the system tests: real processes, real sockets, real clients.

    python3 tests/system/run.py --build build/release [PATTERN]

PATTERN selects tests whose `module.Class.name` contains it; * and ? are wildcards.
"""

import argparse
import fnmatch
import glob
import importlib
import os
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="directory of cairn-demo")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every test, with its time")
    parser.add_argument("pattern", nargs="?", default="")
    options = parser.parse_args()
    demo.BUILD = os.path.abspath(options.build)
    if not os.access(demo.binary(), os.X_OK):
        sys.exit(f"{demo.binary()} is not built")

    kinds = ("test_*.py", "cli_*.py", "storage_*.py", "registry_*.py", "macaroon_*.py")
    names = sorted(os.path.basename(path)[:-3] for kind in kinds for path in glob.glob(os.path.join(HERE, kind))) + ["browser"]
    loaded = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name)) for name in names)
    wanted = f"*{options.pattern}*"
    suite = unittest.TestSuite(test for test in flatten(loaded) if fnmatch.fnmatchcase(test.id(), wanted))
    report = Report(options.verbose)
    began = time.monotonic()
    suite.run(report)
    print(f"{time.monotonic() - began:.0f} s, {len(report.skipped_names)} skipped")
    print(f"{report.passed} passed, {len(report.failed)} failed")
    sys.exit(1 if report.failed or report.testsRun == 0 else 0)


if __name__ == "__main__":
    main()
