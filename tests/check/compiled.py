"""The checks that ask the compiler. Each unit's success is remembered with the contents of every file it
read, so that a second run asks only about what changed."""

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile

import tidied
from tree import Problem

COMPILER = "clang++-19"
HEADER_FLAGS = ["-x", "c++", "-Wno-pragma-once-outside-header", "-Wno-unused-const-variable"]
COROUTINE = re.compile(r"\bco_(?:await|return|yield)\b")
DIAGNOSTIC = re.compile(r"^(.+?):(\d+):(\d+): (?:fatal )?error: (.*)$", re.MULTILINE)


class Memory:
    """Which units passed, and with which inputs. Failures are not remembered: they are asked again."""

    def __init__(self, tree, check):
        self.tree = tree
        self.directory = tree.cache / check
        self.directory.mkdir(parents=True, exist_ok=True)

    def passed(self, unit, key):
        try:
            entry = json.loads(self.file(unit).read_text())
        except (OSError, ValueError):
            return False
        return entry["key"] == key and all(self.stamp(path) == stamp for path, stamp in entry["inputs"].items())

    def remember(self, unit, key, inputs):
        entry = {"key": key, "inputs": {path: self.stamp(path) for path in inputs}}
        part = self.file(unit).with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(entry))
        part.replace(self.file(unit))

    def file(self, unit):
        return self.directory / (hashlib.sha256(unit.encode()).hexdigest()[:24] + ".json")

    @functools.cache
    def stamp(self, path):
        """Ours by content, for a checkout changes times; the system's by size and time."""
        try:
            if pathlib.Path(path).is_relative_to(self.tree.root):
                return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
            status = os.stat(path)
            return f"{status.st_size} {status.st_mtime_ns}"
        except OSError:
            return "gone"


def each(tree, check, units, ask, *extra):
    """Runs ask(unit) → (problems, inputs) for each unit that did not pass before, two at a time."""
    memory = Memory(tree, check)
    version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout

    def one(unit):
        key = hashlib.sha256(repr((version, tree.flags(unit), extra)).encode()).hexdigest()
        if memory.passed(str(unit), key):
            return []
        problems, inputs = ask(unit)
        if not problems:
            memory.remember(str(unit), key, inputs)
        return problems

    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        return sorted({problem for problems in pool.map(one, units) for problem in problems})


def run(tree, command):
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree.root, check=False)
    return done.returncode, done.stdout + done.stderr


def compile_alone(tree, path, *flags):
    """(exit status, output, every file read) of compiling without making anything."""
    kind = HEADER_FLAGS if path.suffix == ".h" else []
    with tempfile.TemporaryDirectory() as directory:
        listing = pathlib.Path(directory) / "inputs"
        command = [COMPILER, *tree.flags(path), *kind, *flags, "-fsyntax-only", "-MD", "-MF", str(listing), str(path)]
        status, output = run(tree, command)
        return status, output, parse_inputs(tree, listing)


@functools.cache
def inputs_of(tree, path):
    kind = HEADER_FLAGS if path.suffix == ".h" else []
    with tempfile.TemporaryDirectory() as directory:
        listing = pathlib.Path(directory) / "inputs"
        run(tree, [COMPILER, *tree.flags(path), *kind, "-M", "-MF", str(listing), str(path)])
        return parse_inputs(tree, listing)


def parse_inputs(tree, listing):
    """The files of a make rule, absolute."""
    if not listing.exists():
        return []
    rule = listing.read_text().replace("\\\n", " ").partition(": ")[2]
    return [os.path.abspath(tree.root / name.replace("\\ ", " ")) for name in re.split(r"(?<!\\)\s+", rule) if name]


def diagnostics(tree, output, mend=""):
    found = []
    for match in DIAGNOSTIC.finditer(output):
        path, line, column = pathlib.Path(os.path.abspath(tree.root / match[1])), int(match[2]), int(match[3])
        what = match[4].replace(",-warnings-as-errors", "")
        if not outlives_its_coroutine(tree, path, line, column, what):
            found.append(Problem(tree.rel(path), line, what, mend))
    return found


# Parameters by reference that every caller keeps alive by design. A type belongs here when all of its references
# are safe; a single function that is right says NOLINTNEXTLINE with its reason.
OWNED_ABOVE = {
    "Exchange": "the connection owns it and awaits the handler before it touches it again",
    "RequestBody": "part of an Exchange",
    "Request": "stays with its Exchange",
    "WireBody": "part of an Exchange",
}
TEST = re.compile(r"src/.*_(test|bench)\.cpp$|tests/(?!check/)")


def outlives_its_coroutine(tree, path, line, column, what):
    """A named exception; or a test, whose locals outlive its loop (a sanitizer sees it when they do not)."""
    if "[cppcoreguidelines-avoid-reference-coroutine-parameters" not in what:
        return False
    if TEST.match(tree.rel(path)):
        return True
    parameter = tree.text(path).splitlines()[line - 1][column - 1 :]
    named = re.match(r"(?:const\s+)?(?:\w+::)*(\w+)\s*&", parameter)
    return named is not None and named[1] in OWNED_ABOVE


def headers(tree):
    """Every header of src compiles alone."""
    built = compiled_first(tree)

    def ask(path):
        status, output, inputs = compile_alone(tree, path)
        found = diagnostics(tree, output, f"{tree.rel(path)} must include what it uses")[:1] if status else []
        if status and not found:
            found = [Problem(tree.rel(path), 1, output.strip().splitlines()[-1] if output.strip() else "does not compile")]
        return found, inputs

    return each(tree, "headers", [p for p in tree.files("src", suffixes=(".h",)) if p not in built], ask)


def compiled_first(tree):
    """Headers that a source of the build includes before anything else: building it has shown what is asked here."""
    sources = [p for p in tree.commands if p.suffix == ".cpp" and not TEST.match(tree.rel(p)) and p.exists()]
    firsts = [re.search(r'^#include "([^"]+)"|^#include', tree.text(p), re.MULTILINE) for p in sources]
    return {tree.root / "src" / first[1] for first in firsts if first and first[1]}


def coroutine_files(tree):
    """What is compiled and has a coroutine in it, and the headers that have one."""
    files = [p for p in tree.commands if p.is_relative_to(tree.root / "src") or p.is_relative_to(tree.root / "tests")]
    files += tree.files("src", suffixes=(".h",))
    return sorted(p for p in files if p.exists() and COROUTINE.search(tree.code(p)))


def run_tidy(tree, path, *flags):
    kind = HEADER_FLAGS if path.suffix == ".h" else []
    config = f"--config-file={tree.root / '.clang-tidy'}"
    return run(tree, ["clang-tidy-19", "--quiet", config, str(path), "--", *tree.flags(path), *kind, *flags])


def tidy_rules(tree):
    """What decides whether a file is tidy, besides the file: the tool, its settings, our exceptions."""
    told = subprocess.run(["clang-tidy-19", "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"version \S+", told)[0]
    return tidied.digest(version, (tree.root / ".clang-tidy").read_text(), OWNED_ABOVE, TEST.pattern)


def tidy(tree):
    """clang-tidy's coroutine set and a few checks that find real bugs (.clang-tidy)."""
    if not tree.commands:
        yield Problem(tree.rel(tree.build), 1, "has no compile_commands.json", "cmake --preset release")
    rules = tidy_rules(tree)
    changed = None if tree.whole else tidied.changed_since(tree, rules)
    files = to_tidy(tree, changed)

    def ask(path):
        status, output = run_tidy(tree, path)
        found = diagnostics(tree, output, "mend it, or say why not: NOLINTNEXTLINE(check): reason")
        if status and not DIAGNOSTIC.search(output):
            found = [Problem(tree.rel(path), 1, f"clang-tidy-19 failed: {output.strip()[-200:]}")]
        return found, inputs_of(tree, path) if not found else []

    problems = each(tree, "tidy", files, ask, rules)
    yield from problems
    if tree.whole and tree.commands and not problems and (why := tidied.note(tree, rules)):
        yield Problem(tidied.RECORD, 1, "was not written", why)


def to_tidy(tree, changed):
    """The files that hold coroutines and can have changed: all of them when `changed` is None."""
    files = coroutine_files(tree)
    if changed is not None:
        includes = tidied.Includes(tree)
        files = [p for p in files if any(str(each) in changed for each in includes.all(p))]
    # A header is judged with what includes it.
    sources = [p for p in files if p.suffix == ".cpp"]
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        read = {name for names in pool.map(functools.partial(inputs_of, tree), sources) for name in names}
    return [p for p in files if p.suffix == ".cpp" or str(p) not in read]


EXPECT = re.compile(r"// expect(-tidy)?: (.+)")


def must_fail(tree):
    """Each file of must_fail is refused for the reason its first line names, and accepted with -DRIGHT."""
    directory = tree.root / "tests" / "check" / "must_fail"
    files = sorted(directory.glob("*.cpp"))
    if not files:
        yield Problem(tree.rel(directory), 1, "holds no file", "a rule without a test that breaks it is a wish")

    def ask(path):
        name = tree.rel(path)
        expected = EXPECT.match(tree.text(path))
        if not expected or "RIGHT" not in tree.text(path):
            return [Problem(name, 1, "lacks its '// expect: regex' line or its RIGHT form")], []
        status, output, inputs = compile_alone(tree, path, "-DRIGHT")
        if status == 0 and expected[1]:
            status, output = run_tidy(tree, path, "-DRIGHT")
        if status != 0:
            first = diagnostics(tree, output)[:1]
            return [Problem(name, first[0].line if first else 1, f"its RIGHT form is refused: {first[0].what if first else output}")], []
        status, output = run_tidy(tree, path) if expected[1] else compile_alone(tree, path)[:2]
        if status == 0:
            return [Problem(name, 1, "is accepted", "the rule it breaks is no longer enforced")], []
        if not re.search(expected[2], output):
            said = diagnostics(tree, output)
            return [Problem(name, 1, f"is refused for another reason: {said[0].what if said else output}")], []
        return [], inputs

    yield from each(tree, "must-fail", files, ask, (tree.root / ".clang-tidy").read_text())
