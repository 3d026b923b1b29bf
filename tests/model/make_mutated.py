#!/usr/bin/env python3
"""make_mutated.py LIST SOURCE TARGET: copies a layer from SOURCE to TARGET with every mutant of LIST built in.

Each place a mutant changes becomes a choice made at run time by ::cairn::mutant::active. Fails, and so fails the
build, when a mutant's text is not found exactly once or two mutants overlap without naming the same text.
"""
import pathlib
import sys
import tomllib


def locate(mutant, text):
    before, after = mutant.get("before", ""), mutant.get("after", "")
    context = before + mutant["old"] + after
    found = text.count(context)
    if found != 1:
        sys.exit(f"mutant {mutant['id']} ({mutant['name']}): its text is found {found} times in {mutant['file']}, "
                 f"not once; bring tests/model/mutants.toml up to date:\n{context}")
    start = text.index(context) + len(before)
    return start, start + len(mutant["old"])


def choice(kind, old, mutants):
    """The text that is `old` unless one of the mutants is active."""
    if kind == "expr":
        cases = "".join(f"::cairn::mutant::active == {m['id']} ? ({m['new']}) : " for m in mutants)
        return f"({cases}({old}))"
    cases = "".join(f"if (::cairn::mutant::active == {m['id']}) {{ {m['new']} }} else " for m in mutants)
    return f"{{ {cases}{{ {old} }} }}"  # in braces, for it may stand between an if and its else


def mutate(text, mutants):
    places = {}
    for mutant in mutants:
        places.setdefault(locate(mutant, text), []).append(mutant)
    last = len(text)
    for (start, end), here in sorted(places.items(), reverse=True):
        kinds = {m["kind"] for m in here}
        if end > last or len(kinds) != 1:
            sys.exit(f"mutants overlap: {[m['id'] for m in here]} in {here[0]['file']}")
        text = text[:start] + choice(kinds.pop(), text[start:end], here) + text[end:]
        last = start
    return '#include "model/mutant.h"\n' + text


def main():
    list_path, source, target = map(pathlib.Path, sys.argv[1:4])
    mutants = tomllib.loads(list_path.read_text())["mutant"]
    if len({m["id"] for m in mutants}) != len(mutants):
        sys.exit("mutants: two have the same id")
    files = {str(path.relative_to(source)): path for pattern in ("*.h", "*.cpp") for path in source.rglob(pattern)}
    for mutant in mutants:
        if mutant["file"] not in files:
            sys.exit(f"mutant {mutant['id']}: there is no {mutant['file']}")
    target.mkdir(parents=True, exist_ok=True)
    for name, path in files.items():
        text = path.read_text()
        here = [m for m in mutants if m["file"] == name]
        new = mutate(text, here) if here else text
        out = target / name
        out.parent.mkdir(parents=True, exist_ok=True)
        if not out.exists() or out.read_text() != new:  # an unchanged file is not built again
            out.write_text(new)
    for stale in set(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()) - set(files) - {"stamp"}:
        (target / stale).unlink()
    (target / "stamp").touch()


if __name__ == "__main__":
    main()
