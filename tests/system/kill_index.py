#!/usr/bin/env python3
"""Kills an index again and again while its names are written to, and looks what is left.

    python3 tests/system/kill_index.py --build build/release --cycles 120 [--seed N] [--soak]

Every change that a writer asks for leads to an address of its own, so that each entry of a history names the request it
came from. After each kill -9 and restart: no acknowledged change is lost, in state, history and list; sequences have no
gap; a write under a condition was done on what it named, or changed nothing; what a 412 was for is still there; whatever a
reader was told stays true; manifests have their bytes. Some restarts are killed too, and some find the map gone.
"""

import argparse
import collections
import os
import random
import select
import shutil
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import demo  # noqa: E402
import wire  # noqa: E402
from index_server import Index  # noqa: E402
from storage_server import b3sum  # noqa: E402

GONE = (OSError, wire.Broken)
JSON = "application/json"
MANIFESTS_EACH, OWN_EACH, SHARED = 24, 4, 3
PAGE = 7  # of the list: more than one


def cbor_text(text):
    return bytes([0x78, len(text)]) + text.encode() if len(text) > 23 else bytes([0x60 + len(text)]) + text.encode()


def make_manifest(chance, entries):
    """The bytes of one, in its only encoding (docs/formats/manifest.md)."""
    out = b"\xa3" + cbor_text("kind") + cbor_text("directory") + cbor_text("title") + cbor_text("%032x" % chance.getrandbits(128))
    out += cbor_text("entries") + b"\x99" + entries.to_bytes(2, "big") if entries > 255 else cbor_text("entries") + (
        b"\x98" + bytes([entries]) if entries > 23 else bytes([0x80 + entries]))
    for i in range(entries):
        out += b"\xa4" + cbor_text("path") + cbor_text("%08d" % i) + cbor_text("size") + b"\x01" + cbor_text("type") + cbor_text("text/plain")
        out += cbor_text("address") + b"\x58\x20" + chance.randbytes(32)
    return out


class Attempt:
    """A change that somebody asked for. Without an outcome nobody knows."""

    def __init__(self, target, match=None, absent=False, guess=False):
        self.target, self.match, self.absent, self.guess = target, match, absent, guess
        self.sequence, self.status = None, None  # what was acknowledged, or how it was refused

    unknown = property(lambda self: self.sequence is None and self.status is None)


class Name:
    def __init__(self, text):
        self.text = text
        self.history = []  # what was found, from the first change on: an address, or None for a removal
        self.attempts, self.told = [], []  # since then; told: (sequence, address) that a reader saw
        self.tag = 0  # of the newest change that somebody saw; 0: it leads nowhere
        self.target = f"/names/{text}"


class Manifest:
    def __init__(self, content):
        self.content, self.address, self.states = content, None, {False}


class Loop:
    def __init__(self, options):
        self.options, self.chance = options, random.Random(options.seed)
        self.index = Index({}, started=False)
        self.counts, self.failures, self.lock = collections.Counter(), [], threading.Lock()
        self.flying = set()
        self.shared = [Name(f"shared/{i}") for i in range(SHARED)]
        self.own = [[Name(f"own/{writer}/{i}") for i in range(OWN_EACH)] for writer in range(options.writers)]
        self.names = self.shared + [name for some in self.own for name in some]
        self.manifests = [[Manifest(make_manifest(self.chance, self.chance.choice((0, 1, 20, 300)))) for _ in range(MANIFESTS_EACH)]
                          for _ in range(options.writers)]
        everything = self.every_manifest()
        for manifest, address in zip(everything, b3sum(*[manifest.content for manifest in everything])):
            manifest.address = address
        self.typical_start = 0.05

    def every_manifest(self):
        return [manifest for some in self.manifests for manifest in some]

    def fail(self, kind, text):
        with self.lock:
            self.counts[kind] += 1
            self.failures.append(f"cycle {self.counts['cycles']}: {kind}: {text}")

    # --- writing

    def write(self, writer, chance):
        """One writer until the server is gone."""
        try:
            with self.index.connect() as connection:
                while True:
                    if chance.random() < 0.08:
                        self.put_manifest(connection, writer, chance.choice(self.manifests[writer]))
                    else:
                        self.change(connection, writer, chance)
        except GONE:
            pass
        finally:
            self.flying.discard(writer)

    def ask(self, connection, writer, *arguments, **fields):
        self.flying.add(writer)
        answer = connection.ask(*arguments, **fields, **self.index.bearer())
        self.flying.discard(writer)
        return answer

    def change(self, connection, writer, chance):
        name = chance.choice(self.shared if chance.random() < 0.5 else self.own[writer])
        roll, tag = chance.random(), name.tag
        removes = roll < 0.15
        attempt = Attempt(None if removes else "b3:%064x" % chance.getrandbits(256))
        if chance.random() < 0.7:
            attempt.guess = chance.random() < 0.1  # a tag that nobody has given yet
            attempt.match, attempt.absent = (tag + 100 if attempt.guess else tag) or None, tag == 0 and not attempt.guess
        fields = {"If_Match": f'"{attempt.match}"'} if attempt.match else {"If_None_Match": "*"} if attempt.absent else {}
        name.attempts.append(attempt)
        if removes:
            answer = self.ask(connection, writer, "DELETE", name.target, **fields)
        else:
            body = b'{"manifest":"%s"}' % attempt.target.encode()
            answer = self.ask(connection, writer, "PUT", name.target, body, Content_Type=JSON, **fields)
        if answer.status in (200, 201):
            said = answer.json()
            attempt.sequence = said["sequence"]
            name.tag = 0 if removes else attempt.sequence
            self.counts["acknowledged"] += 1
            if answer.get("ETag") != f'"{attempt.sequence}"' or said.get("manifest") != attempt.target:
                self.fail("wrong answers", f"{name.target} to {attempt.target}: {answer}")
            if attempt.guess or attempt.match and attempt.sequence != attempt.match + 1:
                self.fail("dishonest", f"{name.target} under {attempt.match}: {answer}")
        elif answer.status in (412, 429) or answer.status == 404 and removes:
            attempt.status = answer.status
            self.counts["refused"] += 1
            if answer.status == 412 and not fields:
                self.fail("wrong answers", f"{name.target} without a condition: {answer}")
            self.see(connection, name)
        elif answer.status not in (503, 504):
            self.fail("wrong answers", f"{name.target}: {answer}")

    def see(self, connection, name):
        answer = connection.ask("GET", name.target)
        if answer.status == 200:
            said = answer.json()
            name.told.append((said["sequence"], said["manifest"]))
            name.tag = said["sequence"]
        elif answer.status == 404:
            name.tag = 0
        else:
            self.fail("wrong answers", f"{name.target}: {answer}")

    def put_manifest(self, connection, writer, manifest):
        manifest.states = manifest.states | {True}
        answer = self.ask(connection, writer, "PUT", f"/manifests/{manifest.address}", manifest.content)
        if answer.status in (200, 201):
            manifest.states = {True}
            self.counts["manifests"] += 1
        elif answer.status not in (429, 503, 504):
            self.fail("wrong answers", f"manifest {manifest.address}: {answer}")

    def watch(self, chance):
        """Whatever a reader is told must stay true."""
        try:
            with self.index.connect() as connection:
                while True:
                    self.see(connection, chance.choice(self.names))
                    time.sleep(0.002)
        except GONE:
            pass

    # --- looking

    def look(self, thoroughly):
        """What is there, against what was said."""
        with self.index.connect() as connection:
            for name in self.names:
                self.look_at(connection, name, thoroughly)
            self.look_at_list(connection)
            some = self.every_manifest()
            for manifest in some if thoroughly else self.chance.sample(some, 20):
                self.look_at_manifest(connection, manifest)
            if thoroughly:
                wanted = {"index_names": sum(bool(name.history and name.history[-1]) for name in self.names),
                          "index_changes": sum(len(name.history) for name in self.names),
                          "index_manifests": sum(manifest.states == {True} for manifest in some)}
                found = {key: value for key, value in self.index.metrics().items() if key in wanted}
                if found != wanted:
                    self.fail("totals", f"{found}, not {wanted}")

    def read_history(self, connection, name, known):
        """The changes behind the first `known`, the oldest first."""
        newest_first, after = [], ""
        while True:
            answer = connection.ask("GET", f"{name.target}?history&limit=200{after}")
            if answer.status == 404:
                return []
            page = answer.json()
            newest_first += [one for one in page["changes"] if one["sequence"] > known]
            if "next" not in page or page["next"] <= known:
                return newest_first[::-1]
            after = f"&after={page['next']}"

    def look_at(self, connection, name, thoroughly):
        known = 0 if thoroughly else len(name.history)
        found = self.read_history(connection, name, known)
        for i, one in enumerate(found):
            if one["sequence"] != known + i + 1:
                self.fail("gap", f"{name.text}: {one['sequence']} where {known + i + 1} was expected")
        history = name.history[:known] + [one["manifest"] for one in found]
        if history[:len(name.history)] != name.history:
            self.fail("lost", f"{name.text}: of {len(name.history)} changes some are others, or are gone")
        self.counts["changes"] += len(history) - len(name.history)
        self.judge(name, history, len(name.history))
        newest = history[-1] if history else None
        answer = connection.ask("GET", name.target)
        state = (answer.json()["sequence"], answer.json()["manifest"]) if answer.status == 200 else None
        if state != ((len(history), newest) if newest else None):
            self.fail("half", f"{name.text}: {answer} and a history of {len(history)} up to {newest}")
        name.history, name.attempts, name.told = history, [], []
        name.tag = len(history) if newest else 0

    def judge(self, name, history, before):
        """Every new entry has somebody who asked for it, and every answer its entry."""
        def at(sequence):
            return history[sequence - 1] if 0 < sequence <= len(history) else None
        by_target = {attempt.target: attempt for attempt in name.attempts if attempt.target}
        removed = {attempt.sequence for attempt in name.attempts if attempt.target is None}
        unknown_removals = sum(attempt.target is None and attempt.unknown for attempt in name.attempts)
        for sequence in range(before + 1, len(history) + 1):
            target = at(sequence)
            if target is None:
                unknown_removals -= sequence not in removed
                continue
            attempt = by_target.get(target)
            if attempt is None:
                self.fail("came back", f"{name.text}: change {sequence} to {target} was not asked for")
            elif attempt.status is not None:
                self.fail("dishonest", f"{name.text}: change {sequence} was refused with {attempt.status}")
            elif attempt.match and (sequence != attempt.match + 1 or at(attempt.match) is None):
                self.fail("dishonest", f"{name.text}: change {sequence} was for {attempt.match}")
            elif attempt.absent and at(sequence - 1) is not None:
                self.fail("dishonest", f"{name.text}: change {sequence} was for a name that is not there")
        if unknown_removals < 0:
            self.fail("came back", f"{name.text}: a removal that nobody asked for")
        for attempt in name.attempts:
            if attempt.sequence is not None and (attempt.sequence > len(history) or at(attempt.sequence) != attempt.target):
                self.fail("lost", f"{name.text}: change {attempt.sequence} to {attempt.target}")
            if attempt.status == 412 and not attempt.guess and not self.is_reason(attempt, history, at):
                self.fail("dishonest", f"{name.text}: 412 for {attempt.match or 'a name that is there'}, and it is not so")
        for sequence, target in name.told:
            if at(sequence) != target:
                self.fail("lost", f"{name.text}: a reader was told {sequence}, {target}")

    @staticmethod
    def is_reason(attempt, history, at):
        if attempt.absent:
            return bool(history)
        return len(history) > attempt.match or at(attempt.match) is None

    def look_at_list(self, connection):
        listed, after = {}, ""
        while after is not None:
            page = connection.ask("GET", f"/names?limit={PAGE}&after={after}").json()
            for one in page["names"]:
                if listed and one["name"] <= max(listed):
                    self.fail("half", f"the list goes back to {one['name']}")
                listed[one["name"]] = one["manifest"]
            after = page.get("next")
        if listed != {name.text: name.history[-1] for name in self.names if name.history and name.history[-1]}:
            self.fail("half", f"the list has {len(listed)} names, or leads elsewhere")

    def look_at_manifest(self, connection, manifest):
        answer = connection.ask("GET", f"/manifests/{manifest.address}")
        self.counts["read"] += 1
        there = answer.status == 200
        if answer.status not in (200, 404) or there not in manifest.states:
            self.fail("lost", f"manifest {manifest.address}: {answer}, acknowledged was {manifest.states}")
        elif there and answer.body != manifest.content:
            self.fail("wrong bytes", f"manifest {manifest.address}")
        manifest.states = {there}

    # --- the loop

    def is_ready(self):
        return bool(select.select([self.index.process.stdout], [], [], 0)[0])

    def start(self):
        if self.chance.random() < 0.1:
            shutil.rmtree(self.index.map, ignore_errors=True)
            self.counts["rebuilt"] += 1
        while self.chance.random() < 0.3:
            self.index.spawn()
            time.sleep(self.typical_start * self.chance.random())
            if not self.is_ready():
                self.counts["recovery"] += 1
            self.index.kill()
        began = time.monotonic()
        self.index.start()
        self.typical_start = 0.8 * self.typical_start + 0.2 * (time.monotonic() - began)

    def cycle(self):
        self.counts["cycles"] += 1
        threads = [threading.Thread(target=self.write, args=(i, random.Random(self.chance.random())), daemon=True)
                   for i in range(self.options.writers)]
        threads.append(threading.Thread(target=self.watch, args=(random.Random(self.chance.random()),), daemon=True))
        for thread in threads:
            thread.start()
        time.sleep(self.chance.uniform(0.02, 0.3))
        self.counts["in flight"] += bool(self.flying)
        self.index.kill()
        for thread in threads:
            thread.join()
        self.start()
        self.look(self.counts["cycles"] % 20 == 0)

    def finish(self):
        """As the map was kept, and as it is made anew."""
        self.look(True)
        if self.index.stop() != 0:
            self.fail("wrong answers", "it did not drain")
        shutil.rmtree(self.index.map)
        self.index.start()
        self.look(True)
        self.counts["segments"] = sum(name.endswith(".seg") for name in os.listdir(os.path.join(self.index.directory, "segments")))
        if self.index.stop() != 0:
            self.fail("wrong answers", "it did not drain")

    def run(self):
        began = time.monotonic()
        try:
            self.index.start()
            while self.counts["cycles"] < self.options.cycles and not self.failures:
                self.cycle()
            if not self.failures:
                self.finish()
        except AssertionError as problem:
            self.fail("wrong answers", str(problem))
        finally:
            if self.index.alive():
                self.index.kill()
            try:
                if self.failures and self.options.keep:
                    shutil.copytree(self.index.home, self.options.keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
            finally:
                self.index.end()
        c = self.counts
        if not self.failures and self.options.cycles >= 100:
            if c["in flight"] < 0.9 * c["cycles"]:
                self.failures.append(f"only {c['in flight']} of {c['cycles']} kills met a write in flight")
            if c["recovery"] < 15:
                self.failures.append(f"only {c['recovery']} kills during recovery")
        for failure in self.failures[:20]:
            print(failure)
        bad = sum(c[kind] for kind in ("gap", "half", "came back", "wrong bytes", "totals"))
        print(f"{c['cycles']} kills ({c['in flight']} with a write in flight), {c['recovery']} more during recovery, {c['rebuilt']} without a map; "
              f"acknowledged {c['acknowledged']} changes and {c['manifests']} manifests, refused {c['refused']}; {c['changes']} changes and {c['read']} "
              f"manifests read back: {c['lost']} lost, {c['dishonest']} dishonest conditions, {bad} otherwise wrong, {c['wrong answers']} wrong answers; "
              f"seed {self.options.seed}, {time.monotonic() - began:.0f} s")
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="directory of cairn")
    parser.add_argument("--cycles", type=int, default=120)
    parser.add_argument("--soak", action="store_true", help="ten such loops, each from an empty index, so that starts stay short")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--keep", help="where the data goes when something was wrong")
    options = parser.parse_args()
    demo.BUILD = os.path.abspath(options.build)
    for _ in range(10 if options.soak else 1):
        if Loop(options).run() != 0:
            sys.exit(1)
        options.seed += 1


if __name__ == "__main__":
    main()
