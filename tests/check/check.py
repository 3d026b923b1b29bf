#!/usr/bin/env python3
"""What the compiler does not refuse and a reader should not have to: `./dev check [NAME…]`.

Each check is one function from the tree to its problems. A problem is one line: where, what, how to mend it.
"""

import argparse
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import compiled  # noqa: E402  pylint: disable=wrong-import-position
import generated  # noqa: E402  pylint: disable=wrong-import-position
import openapi  # noqa: E402  pylint: disable=wrong-import-position
import sources  # noqa: E402  pylint: disable=wrong-import-position
import symbols  # noqa: E402  pylint: disable=wrong-import-position
from tree import Problem, Tree  # noqa: E402  pylint: disable=wrong-import-position


def self_test(tree):
    """The checks refuse what they should: check_test.py breaks each rule in a tree of its own."""

    def ask(path):
        command = [sys.executable, str(path), "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tree.root, check=False)
        failed = [line for line in done.stderr.splitlines() if line.startswith(("FAIL:", "ERROR:"))]
        if done.returncode != 0 and not failed:
            failed = [done.stderr.strip()[-200:]]
        problems = [Problem(tree.rel(path), 1, line, "run it alone to see more") for line in failed]
        return problems, [*map(str, HERE.glob("*.py")), str(tree.root / ".clang-tidy")]

    return compiled.each(tree, "self", [HERE / "check_test.py"], ask)


CHECKS = {
    "layers": sources.layers,
    "locks": sources.locks,
    "waits": sources.waits,
    "labels": sources.labels,
    "names": sources.names,
    "results": sources.results,
    "aborts": sources.aborts,
    "format": sources.format,
    "symbols": symbols.symbols,
    "paths": symbols.paths,
    "docs": generated.docs,
    "openapi": openapi.openapi,
    "reviews": generated.reviews,
    "headers": compiled.headers,
    "must-fail": compiled.must_fail,
    "tidy": compiled.tidy,
    "self": self_test,
}


def main():
    about = "\n".join(f"  {name:10} {check.__doc__}" for name, check in CHECKS.items())
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", default="build/release", help="the build that symbols, docs and flags come from")
    parser.add_argument("--all", action="store_true", help="tidy looks at what has not changed too, and notes the commit")
    parser.add_argument("names", nargs="*", metavar="NAME", help="checks to run; all without")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in CHECKS]
    if unknown:
        parser.error(f"no check is named {', '.join(unknown)}; there are {', '.join(CHECKS)}")

    tree = Tree(HERE.parent.parent, options.build, options.all)
    failed = 0
    chosen = options.names or list(CHECKS)
    for name in chosen:
        start = time.monotonic()
        problems = list(CHECKS[name](tree))
        for problem in problems:
            print(problem)
        failed += bool(problems)
        verdict = f"{len(problems)} to mend" if problems else "ok"
        print(f"{name:10} {verdict:>12} {time.monotonic() - start:7.1f} s", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
