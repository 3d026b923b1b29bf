"""The tree that was tidy as a whole, and what differs from it. `tests/check/tidied` names that tree, as git does, and
the rules by which it was judged. A tree stays what it is when its commit is worded anew or moved. Whenever the file is no
proof, everything is looked at."""

import hashlib
import re
import subprocess

RECORD = "tests/check/tidied"
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
# Lines of the build that change what a file means.
FLAGS = "compile_|include_|CXX|std="


def git(tree, *arguments):
    """(exit status, output)"""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=tree.root, check=False)
    return done.returncode, done.stdout


def digest(*rules):
    return hashlib.sha256(repr(rules).encode()).hexdigest()[:16]


def changed_since(tree, rules):
    """The files that differ from the tree of the record, as they lie here; None when that is not known."""
    try:
        tidy, told = (tree.root / RECORD).read_text().split()
    except (OSError, ValueError):
        return None
    # A clone whose history does not have that tree fails here.
    if told != rules or git(tree, "cat-file", "-t", tidy) != (0, "tree\n"):
        return None
    builds = ["--", "*CMakeLists.txt", "CMakePresets.json"]
    flags = git(tree, "diff", "--name-only", f"-G{FLAGS}", tidy, *builds)
    known = git(tree, "diff", "--name-only", "--no-renames", "-z", tidy)
    new = git(tree, "ls-files", "--others", "--exclude-standard", "-z")
    if any(status != 0 for status, _ in (flags, known, new)) or flags[1]:
        return None
    return {str(tree.root / name) for name in (known[1] + new[1]).split("\0") if name}


def note(tree, rules):
    """Names the present commit's tree in the record. Returns why not, when what was looked at is no commit."""
    status, tidy = git(tree, "rev-parse", "HEAD^{tree}")
    looked_at = ["--", "src", "tests/*.h", "tests/*.cpp", "*CMakeLists.txt", "CMakePresets.json", ".clang-tidy"]
    if status != 0 or git(tree, "status", "--porcelain", *looked_at)[1]:
        return "the tree has changes that are not committed: commit them, then look again"
    (tree.root / RECORD).write_text(f"{tidy.strip()} {rules}\n")
    return ""


class Includes:
    """Which files of the tree a file includes, directly or not: every file that the name of an include could mean."""

    def __init__(self, tree):
        self.tree = tree
        given = {flag[2:] for flags in tree.commands.values() for flag in flags if flag.startswith("-I")}
        self.directories = [tree.root / "src", *(tree.root / name for name in sorted(given))]
        self.found = {}

    def direct(self, path):
        if path not in self.found:
            names = INCLUDE.findall(self.tree.text(path))
            places = [path.parent, *self.directories]
            could = {(place / name).resolve() for name in names for place in places if (place / name).is_file()}
            self.found[path] = {p for p in could if p.is_relative_to(self.tree.root)}
        return self.found[path]

    def all(self, path):
        """`path` too."""
        seen, ahead = set(), [path]
        while ahead:
            at = ahead.pop()
            if at not in seen:
                seen.add(at)
                ahead += self.direct(at)
        return seen
