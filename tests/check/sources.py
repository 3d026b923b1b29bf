"""The checks that read the text: who includes whom, what things are called, where a lock may be."""

import os
import re
import subprocess

from tree import Problem, without

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)

# These make the real world. Services meet it through the interfaces beside them, so that the same code
# runs in the simulator.
WORLD = {"io/disk.h", "io/entropy.h", "io/loop.h", "io/open_dht.h", "io/process.h", "io/tcp.h"}
MAY_MAKE_THE_WORLD = re.compile(r"src/(io|cairn)/|src/serve/host(_test)?\.(h|cpp)$|src/store/(kv_setting\.h|.*_test\.cpp)$")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def layers(tree):
    """Includes point upwards in src/layers.txt, never sideways between services, never into tests."""
    order = tree.layers()
    declared = declared_dependencies(tree)
    services_of_file = {}
    for path in tree.files("src", suffixes=(".h", ".cpp", ".def")):
        name = tree.rel(path)
        own = path.relative_to(tree.root / "src").parts
        text = tree.text(path)
        if own[0] not in order:
            yield Problem(name, 1, f"directory src/{own[0]} is not in src/layers.txt", "add its line, in order")
            continue
        for match in INCLUDE.finditer(text):
            quote, target = match.groups()
            parts = target.split("/")
            if quote == "<" and not (parts[0] in order and (tree.root / "src" / target).exists()):
                continue
            problem = wrong_include(tree, order, own, quote, target)
            if not problem and not MAY_MAKE_THE_WORLD.match(name) and target in WORLD:
                problem = (f"{target} is the real world", "take its interface as a parameter")
            if not problem and parts[0] != own[0] and parts[0] not in declared.get(own[0], order):
                problem = (
                    f"{own[0]} includes {parts[0]} without depending on it",
                    f"add cairn_{parts[0]} to layer({own[0]} …) in CMakeLists.txt, or do not include it",
                )
            if not problem and own[0] == "cairn" and parts[0] == "services":
                services_of_file.setdefault(name, {}).setdefault(parts[1], line_of(text, match.start()))
            if problem:
                yield Problem(name, line_of(text, match.start()), *problem)
    for name, services in services_of_file.items():
        if len(services) > 1 and not name.endswith("/compose.cpp"):
            yield Problem(name, max(services.values()), "knows more than one service", "only cairn/compose.cpp may")


def wrong_include(tree, order, own, quote, target):
    parts = target.split("/")
    if ".." in parts or parts[0] == "tests" or (tree.root / "tests" / target).exists():
        return f"src includes {target}", "src never depends on tests; write paths from src/"
    if len(parts) == 1 or parts[0] not in order:
        return f"{target} is not a path from src/ into a layer", "write it as layer/file.h"
    if quote == "<":
        return f"<{target}> is one of ours", 'include it with "quotes"'
    if order.index(parts[0]) > order.index(own[0]):
        return f"{own[0]} includes {parts[0]}, a later line of src/layers.txt", "move the code to a later layer, or what it needs to an earlier one"
    if parts[0] == "services" and own[0] == "services" and parts[1] != own[1]:
        return f"service {own[1]} includes its sibling {parts[1]}", "reach it through peers.h or serve/"
    return None


def declared_dependencies(tree):
    """Layer → the layers its CMake line names, and what those name in turn."""
    cmake = tree.root / "CMakeLists.txt"
    if not cmake.exists():
        return {}
    direct = {
        match[1]: set(re.findall(r"cairn_(\w+)", match[2]))
        for match in re.finditer(r"^layer\((\w+)([^)]*)\)", cmake.read_text(), re.MULTILINE)
    }
    reached = {}
    for layer in direct:
        known, queue = set(), [layer]
        while queue:
            for below in direct.get(queue.pop(), ()):
                if below not in known:
                    known.add(below)
                    queue.append(below)
        reached[layer] = known
    return reached


LOCK = re.compile(
    r"\bstd::(?:recursive_|timed_|recursive_timed_|shared_|shared_timed_)?mutex\b"
    r"|\bstd::(?:lock_guard|unique_lock|scoped_lock|shared_lock|once_flag|call_once)\b"
    r"|^[ \t]*#[ \t]*include[ \t]*<(?:mutex|shared_mutex)>|\bpthread_(?:mutex|rwlock|spin)\w*",
    re.MULTILINE,
)
CONDITION = re.compile(r"\bstd::condition_variable(?:_any)?\b")
THREAD_LOCAL = re.compile(r"\b(?:thread_local|__thread)\b")


def locks(tree):
    """The tree's only mutex is in Guarded, its only thread_local is the current shard."""
    for path in tree.files("src"):
        name, code = tree.rel(path), tree.code(path)
        rules = []
        if name not in ("src/runtime/guarded.h", "src/runtime/condition.h", "src/runtime/condition.cpp"):
            rules.append((LOCK, "a lock of its own", "use Guarded<T, rank>::with"))
        if not name.startswith("src/runtime/"):
            rules.append((CONDITION, "a condition variable outside runtime", "use a channel, or Guarded::wait"))
        if name != "src/runtime/shard.cpp":
            rules.append((THREAD_LOCAL, "thread-local state", "many nodes share a thread: keep it in an instance"))
        for pattern, what, mend in rules:
            for match in pattern.finditer(code):
                yield Problem(name, line_of(code, match.start()), f"{match.group().strip()}: {what}", mend)


UNBOUNDED = re.compile(r"\.\s*unbounded\(\)(?!\s*\.\s*(?:within|by)\()")
# Who waits without a deadline, for what is itself about to end and uses the waiter's memory.
MAY_WAIT_UNBOUNDED = re.compile(
    r"src/runtime/scope\.cpp$"  # the end of a task, in the waiter's own frame
    r"|src/store/group_commit\.h$"  # a committer's own task: each step has a bound
    r"|src/(client|cairn)/"  # a program that a person can end
)


def waits(tree):
    """Every wait has a deadline: Call::unbounded is for the few who are named here, or is bounded at once."""
    for path in tree.files("src"):
        name, code = tree.rel(path), tree.code(path)
        if MAY_WAIT_UNBOUNDED.match(name) or re.search(r"_(test|bench)\.cpp$", name):
            continue
        for match in UNBOUNDED.finditer(code):
            yield Problem(name, line_of(code, match.start()), "a wait without a deadline", "bound it with within() or by()")


# An invariant is defined in the comment that explains it, and named by its label elsewhere.
LABEL_DEFINED = re.compile(r"^(?://| \*) {2,}\[([A-Z]{1,3})-(\d+)\] ", re.M)
LABEL = re.compile(r"(?<![\w-])([A-Z]{1,3})-(\d+)(?![\w.-]*\w)")


def labels(tree):
    """A label of an invariant means one invariant in the whole tree, and every label that is named is defined."""
    paths = list(tree.files("src", "tests", suffixes=(".h", ".cpp", ".pml")))
    defined = {}
    for path in paths:
        text = tree.text(path)
        for match in LABEL_DEFINED.finditer(text):
            label, place = f"{match[1]}-{match[2]}", f"{tree.rel(path)}:{line_of(text, match.start())}"
            if label in defined:
                yield Problem(*place.rsplit(":", 1), f"[{label}] is defined in {defined[label]} too", "choose letters that nobody has")
            defined.setdefault(label, place)
    letters = {label.split("-")[0] for label in defined}
    for path in paths:
        text = tree.text(path)
        for match in LABEL.finditer(text):
            if match[1] in letters and match[0] not in defined:
                yield Problem(tree.rel(path), line_of(text, match.start()), f"{match[0]} is defined nowhere", "name the invariant that is meant")


FORBIDDEN_PART = {"util", "utils", "common", "misc", "helper", "helpers", "manager", "types", "impl"}
TYPE_NAME = re.compile(r"\b(?:class|struct|union|enum(?:\s+class)?|concept)\s+(?:\[\[\w+\]\]\s*)?([A-Z]\w*)")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|WI" r"P)\b|\bnot yet imple" r"mented\b")
DEBUG_PRINT = re.compile(
    r"\b(?:std::)?(?:v?f?printf|puts|fputs|putchar|perror)\s*\(|\bstd::(?:cout|cerr|clog)\b|\bfmt::print(?:ln)?\b"
)
# A print throws, or waits for its reader. One file writes to stdout and stderr in a way that can do neither.
STREAM = re.compile(r"\bstd(?:out|err)\b(?!_)|\bwrite\s*\(\s*[12]\s*,")
MAY_PRINT = re.compile(r"src/cairn/output\.cpp$|src/base/check\.cpp$")
# Text that is true on one machine or at one moment only.
BANNED = [
    (re.compile(r"(?<![\w.])/(?:wo" r"rk|ho" r"me|ro" r"ot)/\w"), "a path of one machine", "use a relative path"),
    (re.compile(r"@auth" r"or\b|^\W*Auth" r"or:", re.I), "an author's name", "the history knows it"),
    (re.compile(r"\b(?:black|white)list", re.I), "a word that explains nothing", "say what is allowed or refused"),
]
NOLINT = re.compile(r"//\s*NOLINT(?:NEXTLINE|BEGIN)?\b(?!\([\w*,. -]+\): \S)")


def names(tree):
    """File and type names that say something; nothing unfinished; no debug prints; no text of one machine."""
    for path in tree.files("src", "tests", suffixes=(".h", ".cpp", ".def", ".py", ".sh", ".txt", ".ts")):
        name = tree.rel(path)
        for part in sorted(set(re.split(r"[_.\-]", path.name.lower())) & FORBIDDEN_PART):
            yield Problem(name, 1, f"'{part}' in a file name says nothing", "name it after its noun or verb")
        text = tree.text(path)
        for number, line in enumerate(text.splitlines(), 1):
            if match := UNFINISHED.search(line):
                yield Problem(name, number, f"unfinished: {match.group()}", "finish it or open an issue")
            for pattern, what, mend in BANNED:
                if match := pattern.search(line):
                    yield Problem(name, number, f"{what}: {match.group()}", mend)
        if path.suffix not in (".h", ".cpp"):
            continue
        for match in NOLINT.finditer(text):
            yield Problem(name, line_of(text, match.start()), "NOLINT without check or reason", "write NOLINT(check): why")
        code = tree.code(path)
        for match in TYPE_NAME.finditer(code):
            words = {word.lower() for word in re.findall(r"[A-Z][a-z0-9]*", match[1])}
            for part in sorted(words & FORBIDDEN_PART):
                yield Problem(name, line_of(code, match.start(1)), f"'{part}' in type {match[1]}", "say what it does")
        if name.startswith("src/") and not MAY_PRINT.match(name) and not re.search(r"_(test|bench)\.cpp$", name):
            for match in (*DEBUG_PRINT.finditer(code), *STREAM.finditer(code)):
                call = match.group().rstrip("( ,1234567890")
                yield Problem(name, line_of(code, match.start()), f"prints with {call}", "use the log, or cairn/output.h")


AWAIT_RESUME = re.compile(r"^[ \t]*(.*[\w>&*][ \t]+)await_resume\(", re.MULTILINE)


def results(tree):
    """No awaited value is dropped without a word ((void) is one): every await_resume that returns one is [[nodiscard]]."""
    for path in tree.files("src", "tests"):
        code = tree.code(path)
        for match in AWAIT_RESUME.finditer(code):
            if not re.search(r"\[\[nodiscard\]\]|\bvoid[ \t]+$|\breturn[ \t]+$", match[1]):
                what = "what it returns can be dropped unseen"
                yield Problem(tree.rel(path), line_of(code, match.start(1)), what, "make await_resume [[nodiscard]]")


AUDITED = ("http", "serve", "codec", "crypto", "format", "client", "store", "services")
# What only tests include.
OF_TESTS = re.compile(r"_test\.cpp$|/(?:simulated|sample)_\w+\.h$|_fixture\.h$|/kv_setting\.h$")
REASON = re.compile(r"^- `(.+)`: \S")


def checked_conditions(text):
    """The condition of each CHECK and where it stands."""
    code = without(text, "comment")
    for match in re.finditer(r"\bCHECK\(", code):
        depth, end = 1, match.end()
        while depth > 0 and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        yield " ".join(code[match.end() : end - 1].split()), line_of(code, match.start())


def aborts(tree):
    """Every CHECK that a stranger's bytes could come near has its line in docs/checks.md, which says why they cannot."""
    page = tree.root / "docs" / "checks.md"
    listed, section = {}, None
    for number, line in enumerate(page.read_text().splitlines() if page.exists() else [], 1):
        if line.startswith("## "):
            section = line[3:].strip()
        elif match := REASON.match(line):
            listed.setdefault((section, match[1]), []).append(number)
    for path in tree.files(*(f"src/{layer}" for layer in AUDITED)):
        name = tree.rel(path)
        if OF_TESTS.search(name):
            continue
        for condition, line in checked_conditions(tree.text(path)):
            lines = listed.get((name[len("src/") :], condition))
            if lines:
                lines.pop()
            else:
                mend = "say there why no request, answer or damaged file reaches it, or make it an error"
                yield Problem(name, line, f"CHECK({condition}) has no line in docs/checks.md", mend)
    for (section, condition), lines in listed.items():
        for number in lines:
            yield Problem("docs/checks.md", number, f"no CHECK({condition}) in src/{section}", "remove the line")


def format(tree):  # pylint: disable=redefined-builtin
    """clang-format has nothing to say."""
    paths = [str(p) for p in tree.files("src", "tests")]
    seen = set()
    for start in range(0, len(paths), 100):
        command = ["clang-format-19", "--dry-run", "-Werror", "--ferror-limit=0", *paths[start : start + 100]]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tree.root, check=False)
        for match in re.finditer(r"^(.+?):(\d+):\d+: error: ", done.stderr, re.MULTILINE):
            name = tree.rel(os.path.abspath(tree.root / match[1]))
            if name not in seen:
                seen.add(name)
                yield Problem(name, int(match[2]), "not formatted", f"clang-format-19 -i {name}")
        if done.returncode != 0 and not seen:
            yield Problem(".clang-format", 1, done.stderr.strip() or "clang-format-19 failed")
