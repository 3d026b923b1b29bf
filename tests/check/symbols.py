"""The checks that read what was compiled: what libraries take from the world and what state they keep, and whether the
program tells where it was built.

Service code runs in the simulator because it takes time, randomness, files, sockets and threads from
interfaces only. The source could hide a call behind a macro or a header; the undefined symbols of the
compiled library cannot. What libc exports is refused unless it is known to compute only.
"""

import pathlib
import re
import subprocess
import tempfile

from tree import Problem

COMPUTES_ONLY = re.compile(
    r"(__)?(mem|str|wmem|wcs)\w+|bcmp|bzero|__explicit_bzero_chk|explicit_bzero|v?snprintf|__v?snprintf_chk"
    r"|malloc|calloc|realloc|free|aligned_alloc|posix_memalign|abort|qsort|bsearch|l?l?abs|l?l?div"
    r"|(__)?(is|to)(alnum|alpha|digit|xdigit|space|upper|lower|punct|print|ascii)\w*|__ctype_\w+|abort|sscanf"
    r"|inet_(pton|ntop)|(hton|ntoh)[sl]|__errno_location|__libc_single_threaded|__stack_chk_fail|__cxa_\w+"
    r"|__assert_fail|__tls_get_addr|__dso_handle|frexp\w*|ldexp\w*|modf\w*|scalbn\w*|copysign\w*|isnan|isinf|finite"
)
# From C++'s own library and others: what waits, draws, opens or prints. Matched on the demangled name.
WORLD = re.compile(
    r"std::(thread|jthread|this_thread|condition_variable|_V2::condition_variable_any|__future_base|random_device)\b"
    r"|std::chrono::.*clock::now|std::filesystem|std::basic_[io]?f(stream|ilebuf)|std::__basic_file"
    r"|std::w?(cin|cout|cerr|clog)\b|std::ios_base::Init|std::__once_|std::locale::global"
    r"|(io_uring_|randombytes|RAND_|uv_|curl_)\w*"
)
# Not service code: io is where the world is touched, cairn is the program.
MAKES_THE_WORLD = {"io", "cairn"}
# (library, symbols, why it is right there and nowhere else)
ALLOWED = [
    ("", r"pthread_mutex_(un)?lock", "Guarded::with is inline; the check 'locks' proves that nobody else locks"),
    ("base", r"poll|write", "the last words of a failed CHECK"),
    ("observe", r"std::thread\b.*|write|poll|sched_yield|syscall", "the log's writer thread, and the futex it sleeps on"),
    ("runtime", r"std::(thread|condition_variable)\b.*|[gs]etpriority", "the pool's threads"),
]
# The last close of a file may take long, so descriptors of files go to the pool. (member of io, why it may close)
MAY_CLOSE = [
    ("closer.cpp", "files, on the pool's threads"),
    ("tcp.cpp", "sockets"),
    ("loop.cpp", "the loop's own descriptors, when it ends"),
    ("process.cpp", "signals, when the process ends"),
    ("watchdog.cpp", "signals and its wake-up, when the process ends"),
    ("memory.cpp", "arenas in memory, when their service ends"),
    ("lock_file.cpp", "of a whole process, before its shards run and after them"),
    ("small_file.cpp", "start-up and pool jobs: its header says so"),
]
CLOSES = {"close", "fclose", "closefrom", "close_range"}
# (library, variable, why there is exactly one in a process)
ALLOWED_STATE = [
    ("base", r"cairn::\(anonymous namespace\)::handler_of_tests", "a failed CHECK has nobody to ask"),
    ("runtime", r".*", "the current shard, by which everything else is found"),
]
FOREIGN = re.compile(r"(guard variable for )?(std|fmt|toml|simdjson|dht|__gnu_cxx|testing)::|DW\.ref\.|\.L|__\w+$")


def symbols(tree):
    """Libraries of services reference no system call, clock, thread or socket, and keep no global state."""
    libc = libc_symbols()
    for library, directory in libraries(tree):
        archive = find_archive(tree, library)
        if archive is None:
            yield Problem(tree.rel(directory), 1, f"{library} is not built in {tree.rel(tree.build)}", "build it first")
            continue
        sources = [p for p in directory.rglob("*.cpp") if not re.search(r"_(test|bench)\.cpp$", p.name)]
        newest = max(sources, key=lambda path: path.stat().st_mtime)
        if newest.stat().st_mtime > archive.stat().st_mtime:
            yield Problem(tree.rel(newest), 1, f"is newer than {archive.name}", "build it first")
        yield from problems_of(tree, archive, short_name(library), sources, libc)


# A NUL-terminated text of the program that is the path of a source file, from the root of some machine on.
SOURCE_PATH = re.compile(rb"(?:^|(?<=\0))(/[\x21-\x7e]+\.(?:cpp|cc|c|h|hpp|S|inc))(?=\0)")


def paths(tree):
    """The program's messages carry no path of the machine that built it."""
    for program in ("cairn", "cairn-demo"):
        binary = tree.build / program
        if not binary.exists():
            yield Problem(tree.rel(binary), 1, "is not built", "build it first")
            continue
        loaded = loaded_bytes(binary)
        found = {match[1].decode() for match in SOURCE_PATH.finditer(loaded)}
        if str(tree.root).encode() in loaded:
            found.add(str(tree.root))
        for path in sorted(found):
            yield Problem(tree.rel(binary), 1, f"carries {path}", "map it in CMakeLists.txt (-fmacro-prefix-map)")


def loaded_bytes(binary):
    """What of the program is loaded when it runs: without what a debugger reads beside it."""
    with tempfile.NamedTemporaryFile() as kept:
        subprocess.run(["llvm-objcopy-19", "--strip-all", str(binary), kept.name], check=True)
        return pathlib.Path(kept.name).read_bytes()


def libraries(tree):
    """(archive's name, its sources' directory) of every library whose code must be pure or stateless."""
    found = []
    for layer in tree.layers():
        directories = [tree.root / "src" / layer]
        if layer == "services":
            directories = sorted(p for p in directories[0].glob("*") if p.is_dir())
        for directory in directories:
            name = "_".join(directory.relative_to(tree.root / "src").parts)
            if any(not re.search(r"_(test|bench)\.cpp$", p.name) for p in directory.rglob("*.cpp")):
                found.append((f"libcairn_{name}.a", directory))
    if (tree.root / "tests/demo/service.cpp").exists():
        found.append(("libdemo.a", tree.root / "tests/demo"))
    return [(name, directory) for name, directory in found if short_name(name) != "cairn"]


def short_name(library):
    return re.sub(r"^lib(cairn_)?|\.a$", "", library)


def find_archive(tree, library):
    found = sorted(tree.build.glob(library)) + sorted(tree.build.glob(f"*/*/{library}"))
    return found[0] if found else None


def problems_of(tree, archive, library, sources, libc):
    """What one archive refers to or keeps and should not."""
    seen = set()
    for member, raw, name, section in read_symbols(archive):
        if section == "*UND*":
            if library == "io" and raw in CLOSES and member.removesuffix(".o") not in dict(MAY_CLOSE):
                what, mend = f"{member} references {name}", "give descriptors of files to Closer"
                if (member, what) not in seen:
                    seen.add((member, what))
                    yield Problem(*place(tree, sources, member, name), what, mend)
                continue
            if library in MAKES_THE_WORLD or not touches_the_world(raw, name, libc) or allowed(ALLOWED, library, name):
                continue
            what, mend = f"{archive.name} references {name}", "take it from an interface of runtime or io"
        elif re.match(r"\.(t?bss|t?data)\b(?!\.rel\.ro)", section):
            if FOREIGN.match(name) or allowed(ALLOWED_STATE, library, name):
                continue
            what, mend = f"{archive.name} keeps state in {name}", "make it constexpr or a member of an instance"
        else:
            continue
        if (member, what) not in seen:
            seen.add((member, what))
            yield Problem(*place(tree, sources, member, name), what, mend)


def touches_the_world(raw, name, libc):
    if raw in libc:
        return not COMPUTES_ONLY.fullmatch(raw)
    return WORLD.match(name) is not None


def allowed(table, library, name):
    return any(owner in ("", library) and re.fullmatch(names, name) for owner, names, _ in table)


def read_symbols(archive):
    """(member, raw name, demangled name, section) of each symbol in the archive."""
    command = ["llvm-nm-19", "-A", "--format=sysv", "--no-demangle", str(archive)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = []
    for line in output.splitlines():
        fields = line.split("|")
        if len(fields) == 7 and (match := re.match(r".*\.a:(\S+?): ?(\S+)", fields[0])):
            rows.append((match[1], match[2], fields[6].strip()))
    names = "\n".join(raw for _, raw, _ in rows)
    plain = subprocess.run(["llvm-cxxfilt-19"], input=names, capture_output=True, text=True, check=True).stdout
    names = [re.sub(r" \(\.[^)]*\)$", "", name) for name in plain.splitlines()]  # a clone's suffix
    return [(member, raw, name, section) for (member, raw, section), name in zip(rows, names)]


def libc_symbols():
    path = subprocess.run(
        ["clang++-19", "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True
    ).stdout.strip()
    output = subprocess.run(
        ["llvm-nm-19", "-D", "--defined-only", "--format=just-symbols", path], capture_output=True, text=True, check=True
    ).stdout
    return {line.split("@")[0] for line in output.split()}


def place(tree, sources, member, name):
    """The source line that most likely made the symbol: an archive knows only the file."""
    plain = re.sub(r"\(anonymous namespace\)::|<.*>|\(.*", "", name)
    words = [word.removeprefix("basic_") for word in re.findall(r"[A-Za-z_]\w+", plain)]
    candidates = [path for path in sources if path.name == member.removesuffix(".o")]
    for path in candidates:
        code = re.sub(r"(?m)^[ \t]*#[ \t]*include.*", "", tree.code(path))
        for word in [*words[-2:-1], *words[-1:]]:
            if match := re.search(rf"\b{word}\b", code):
                return tree.rel(path), code.count("\n", 0, match.start()) + 1
    return (tree.rel(candidates[0]) if candidates else member), 1
