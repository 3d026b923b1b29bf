"""The tree under check: its files, their text without comments, and the flags each is compiled with."""

import dataclasses
import functools
import json
import pathlib
import re
import shlex


@dataclasses.dataclass(frozen=True, order=True)
class Problem:
    """One broken rule: where, what, and how to mend it."""

    file: str
    line: int
    what: str
    mend: str = ""

    def __str__(self):
        return f"{self.file}:{self.line}: {self.what}" + (f"; {self.mend}" if self.mend else "")


# One alternative per thing that may hold a quote, so that a quote inside a comment opens no string and a
# digit separator opens no character.
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<raw>R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<number>\b\d[\w.']*)
      | (?P<char>'(?:[^'\\\n]|\\.)+')""",
    re.VERBOSE | re.DOTALL,
)


def without(text, *kinds):
    """The text with its comments or strings blanked; every line keeps its number."""

    def blank(match):
        kind = "string" if match.lastgroup in ("raw", "tag", "string", "char") else match.lastgroup
        return re.sub(r"[^\n]", " ", match.group()) if kind in kinds else match.group()

    return TOKEN.sub(blank, text)


class Tree:
    def __init__(self, root, build=None, whole=False):
        self.root = pathlib.Path(root).resolve()
        self.build = (self.root / (build or "build/release")).resolve()
        self.cache = self.root / "build" / "check-cache"
        self.whole = whole  # tidy looks at what has not changed too

    def rel(self, path):
        path = pathlib.Path(path)
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def files(self, *tops, suffixes=(".h", ".cpp")):
        """Every file below the directories `tops` of the tree with one of the suffixes, in order."""
        found = []
        for top in tops:
            found += [p for p in (self.root / top).rglob("*") if p.suffix in suffixes and p.is_file()]
        return sorted(p for p in found if "__pycache__" not in p.parts)

    @functools.cache
    def text(self, path):
        return path.read_text(encoding="utf-8", errors="replace")

    @functools.cache
    def code(self, path):
        """The text without comments and strings: what the compiler acts on."""
        return without(self.text(path), "comment", "string")

    def layers(self):
        lines = (self.root / "src" / "layers.txt").read_text().splitlines()
        return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]

    @functools.cached_property
    def commands(self):
        """Path → compiler flags, for every file of this tree in the build's compile_commands.json."""
        database = self.build / "compile_commands.json"
        if not database.exists():
            return {}
        found = {}
        for entry in json.loads(database.read_text()):
            path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
            if path.is_relative_to(self.root):
                arguments = entry.get("arguments") or shlex.split(entry["command"])
                # A file that is compiled a second time for the mutants has a precompiled header there, which
                # other tools cannot read.
                if "-include-pch" not in arguments or path not in found:
                    found[path] = flags_of(arguments)
        return found

    def flags(self, path):
        """The file's own flags; for one that is not compiled, those of its nearest neighbour."""
        if path in self.commands:
            return self.commands[path]
        if not self.commands:
            return ["-std=gnu++2b", f"-I{self.root / 'src'}", "-Wall", "-Wextra", "-Werror"]

        def distance(other):
            shared = len([1 for a, b in zip(path.parts, other.parts) if a == b])
            return (-shared, str(other))

        return self.commands[min(self.commands, key=distance)]


def flags_of(arguments):
    """What decides the meaning of the code: not the compiler, the file, the output or the optimisation."""
    flags, skip, keep = [], False, False
    for argument in arguments[1:]:
        if keep or argument == "-isystem":  # a directory follows
            keep = not keep
            flags.append(argument)
        elif skip or argument in ("-o", "-c", "-MF", "-MT", "-MQ"):
            skip = not skip and argument != "-c"
        elif argument.startswith("-") and not re.match(r"-(O|g|M)", argument):
            flags.append(argument)
    return flags
