#!/usr/bin/env python3
"""Kills a registry again and again while it is written to, and looks what is left.

    python3 tests/system/kill_registry.py --build build/release --cycles 200 [--seed N] [--retention N] [--soak]

What the server acknowledged, and every head and checkpoint it ever served, is remembered here, outside of it. After each
kill -9 and restart: no acknowledged proposal, approval or commit is lost, a head that was served is still what it was,
versions have no gap, and there are never two roots for one size. Some restarts are killed too, and some find their
snapshot or their tiles gone. At the end everything is verified from the trust roots, twice: by `cairn registry verify`
and by a verifier that shares no line with it. With --retention, so many versions are kept and older ones are pruned.
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
import registry_verifier as verifier  # noqa: E402
import segment_log  # noqa: E402
import wire  # noqa: E402
from registry_server import Registry, node, region, signer_set  # noqa: E402
from storage_server import cairn  # noqa: E402

GONE = (OSError, wire.Broken)
# Of one record, in the log: a kill while a segment is pruned leaves a copy, and the next pruning takes it away.
COPIES_MAX = 32


class Loop:
    def __init__(self, options):
        self.options, self.chance = options, random.Random(options.seed)
        settings = {"storage.segment_size": "1MiB", "storage.checkpoint_interval": "1s"}
        if options.retention:
            settings.update({"retention.policy": "by-count", "retention.max_count": options.retention})
        self.registry = Registry(settings, started=False)
        self.roots, self.key = self.registry.roots()
        self.base = [signer_set(1, self.registry.keys), *[node(f"n{i}") for i in range(20)]]
        self.counts, self.failures, self.lock = collections.Counter(), [], threading.Lock()
        self.flying = set()
        self.heads = {}  # version: head, of every one that was acknowledged or served
        self.proposals = {}  # id: (version, payload_b3, approved), of those that were acknowledged
        self.checkpoints = {}  # size: root
        self.size = 0  # of the log, when it was last looked at
        self.first = 0  # the oldest version that was still there
        self.typical_start = 0.03

    def fail(self, kind, text):
        with self.lock:
            self.counts[kind] += 1
            self.failures.append(f"cycle {self.counts['cycles']}: {kind}: {text}")

    # --- remembering

    def remember_head(self, head):
        with self.lock:
            known = self.heads.setdefault(head["version"], head)
        if known != head:
            self.fail("two heads", f"{known} and {head}")

    def remember_checkpoint(self, note):
        try:
            size, root = verifier.verify_checkpoint(note, self.key)
        except verifier.Wrong as problem:
            self.fail("bad checkpoint", f"{problem}: {note!r}")
            return
        with self.lock:
            known = self.checkpoints.setdefault(size, root)
        if known != root:
            self.fail("two roots", f"of size {size}")

    # --- writing

    def write(self, writer, chance):
        """One writer until the server is gone: proposes, approves, commits; most lose the race for the head."""
        try:
            with self.registry.connect() as connection:
                while True:
                    self.flying.add(writer)
                    self.change(connection, writer, chance)
        except GONE:
            pass
        finally:
            self.flying.discard(writer)

    def change(self, connection, writer, chance):
        title = "%030x" % chance.getrandbits(120) * chance.choice((1, 1, 1, 30))
        answer = self.registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": [*self.base, region(f"w{writer}", title=title)]},
                                    connection=connection)
        if answer.status != 202:
            return self.unexpected("propose", answer, (429, 503))
        one = answer.json()
        self.acknowledge(one, False)
        if chance.random() < 0.1:
            return None
        answer = self.registry.approve(one, "a", connection=connection)
        if answer.status != 200:
            return self.unexpected("approve", answer, (409, 429, 503))
        self.acknowledge(one, True)
        if chance.random() < 0.1:
            return None
        answer = self.registry.commit(one, connection)
        if answer.status != 201:
            return self.unexpected("commit", answer, (409, 429, 503))
        self.counts["commits"] += 1
        self.remember_head(answer.json())
        if answer.json()["payload_b3"] != one["payload_b3"]:
            self.fail("wrong answers", f"another payload was committed: {one} {answer}")
        return None

    def acknowledge(self, one, approved):
        self.counts["approvals" if approved else "proposals"] += 1
        with self.lock:
            self.proposals[one["proposal_id"]] = (one["version"], one["payload_b3"], approved)

    def unexpected(self, what, answer, fine):
        if answer.status not in fine or answer.status == 409 and answer.error()["code"] != "chain_mismatch":
            self.fail("wrong answers", f"{what}: {answer}")

    def watch(self):
        """Whatever a reader is told must stay true."""
        last = -1
        try:
            with self.registry.connect() as connection:
                while True:
                    head = connection.ask("GET", "/registry/head").json()
                    if head["version"] < last:
                        self.fail("went back", f"{head} after version {last}")
                    last = head["version"]
                    self.remember_head(head)
                    note = connection.ask("GET", "/registry/checkpoint")
                    if note.status == 200:
                        self.remember_checkpoint(note.body)
                    time.sleep(0.005)
        except GONE:
            pass

    # --- looking

    def look(self, thoroughly):
        """What is there, against what was said."""
        note = verifier.Directory(self.registry.directory).get("checkpoint")
        if note:
            self.remember_checkpoint(note)
        with self.registry.connect() as connection:
            head = connection.ask("GET", "/registry/head").json()
            if self.heads and head["version"] < max(self.heads):
                self.fail("lost", f"the head is {head['version']}, version {max(self.heads)} was told")
            self.remember_head(head)
            self.look_at_pruned(connection, head)
            at = self.first if thoroughly else max(self.first, self.size - 2)
            while at is not None:
                answer = connection.ask("GET", f"/registry/log?from={at}&limit=1000")
                if answer.status == 410 and self.options.retention:  # pruned a moment ago
                    self.look_at_pruned(connection, head)
                    at = max(at, self.first)
                    continue
                page = answer.json()
                for i, row in enumerate(page["commits"]):
                    if row["version"] != at + i:
                        self.fail("gap", f"{row} where {at + i} was expected")
                    self.remember_head(row)
                at = page.get("next")
            for version in range(max(self.size, self.first), head["version"] + 1):
                said = connection.ask("GET", f"/registry/{version}")
                if said.status == 410 and self.options.retention and version <= head["version"] + 1 - self.options.retention:
                    continue
                known = self.heads.get(version - 1, {"commit_b3": verifier.named(verifier.ZERO)} if version == 0 else None)
                if said.status != 200 or said.json()["commit_b3"] != self.heads[version]["commit_b3"]:
                    self.fail("broken chain", f"{said}")
                elif known and said.json()["prev"] != known["commit_b3"]:
                    self.fail("broken chain", f"version {version} does not follow {known}")
                self.counts["read"] += 1
            self.size = head["version"] + 1
            self.look_at_proposals(connection, head)

    def look_at_pruned(self, connection, head):
        """What is gone stays gone, and is no more than retention allows."""
        answer = connection.ask("GET", "/registry/log?limit=1")
        first = answer.error()["details"]["first_kept"] if answer.status == 410 else answer.json()["commits"][0]["version"]
        if first < self.first:
            self.fail("came back", f"version {first}, pruned below {self.first}")
        if first > max(0, head["version"] + 1 - self.options.retention) or first and not self.options.retention:
            self.fail("lost", f"versions below {first} at {head['version']}")
        self.first = max(self.first, first)

    def look_at_proposals(self, connection, head):
        listed = {one["proposal_id"]: one for one in connection.ask("GET", "/registry/proposals?limit=1000").json()["proposals"]}
        for one in listed.values():
            if one["version"] != head["version"] + 1 or one["prev"] != head["commit_b3"]:
                self.fail("came back", f"{one} is pending at {head}")
        for name, (version, payload_b3, approved) in self.proposals.items():
            if version <= head["version"]:
                if name in listed:
                    self.fail("came back", f"{name} of version {version}")
            elif name not in listed or listed[name]["payload_b3"] != payload_b3:
                self.fail("lost", f"proposal {name} of version {version} at {head['version']}")
            elif approved and [one["signer_id"] for one in listed[name]["approvals"]] != ["a"]:
                self.fail("lost", f"approval of {name}")
        self.proposals = {name: about for name, about in self.proposals.items() if about[0] > head["version"]}

    # --- the loop

    def is_ready(self):
        return bool(select.select([self.registry.process.stdout], [], [], 0)[0])

    def start(self):
        if self.chance.random() < 0.05:
            os.path.exists(self.snapshot) and os.remove(self.snapshot)
            self.counts["without snapshot"] += 1
        if self.chance.random() < 0.03:
            shutil.rmtree(os.path.join(self.registry.directory, "tile"), ignore_errors=True)
            os.path.exists(self.file) and os.remove(self.file)
        while self.chance.random() < 0.35:
            self.registry.spawn()
            time.sleep(self.typical_start * self.chance.random())
            if not self.is_ready():
                self.counts["recovery"] += 1
            self.registry.kill()
        began = time.monotonic()
        self.registry.start()
        self.typical_start = 0.8 * self.typical_start + 0.2 * (time.monotonic() - began)

    snapshot = property(lambda self: os.path.join(self.registry.directory, "state"))
    file = property(lambda self: os.path.join(self.registry.directory, "checkpoint"))

    def cycle(self):
        self.counts["cycles"] += 1
        threads = [threading.Thread(target=self.write, args=(i, random.Random(self.chance.random())), daemon=True) for i in range(self.options.writers)]
        threads.append(threading.Thread(target=self.watch, daemon=True))
        for thread in threads:
            thread.start()
        # Checkpoints come a moment after commits: some lives are long enough to be ended in the middle of one.
        time.sleep(self.chance.uniform(0.01, 0.12) if self.chance.random() < 0.8 else self.chance.uniform(0.3, 0.9))
        self.counts["in flight"] += bool(self.flying)
        self.registry.kill()
        for thread in threads:
            thread.join()
        note = verifier.Directory(self.registry.directory).get("checkpoint")
        if note:
            self.remember_checkpoint(note)
            if self.heads and max(self.heads) + 1 > verifier.verify_checkpoint(note, self.key)[0]:
                self.counts["uncovered"] += 1
        self.start()
        self.look(self.counts["cycles"] % 20 == 0)

    def verify(self):
        """From the first version that is there; once more when that one was pruned meanwhile."""
        while True:
            self.registry.covered()
            with self.registry.connect() as connection:
                self.look_at_pruned(connection, self.registry.head())
                before = self.first
                try:
                    size, _, leaves, *_ = self.registry.verify(before, every=20)
                    return size, leaves
                except verifier.Wrong:
                    self.look_at_pruned(connection, self.registry.head())
                    if self.first == before:
                        raise

    def finish(self):
        """All of it from the trust roots, and every checkpoint ever seen against the one tree there is."""
        self.look(True)
        began = time.monotonic()
        size, leaves = self.verify()
        self.counts["verified"] = size - self.first
        for one, root in sorted(self.checkpoints.items()):
            if one > size or verifier.root_of(leaves[:one]) != root:
                self.fail("two roots", f"of size {one}")
        self.registry.covered_on_disk()
        ways = [("--data", self.registry.data)]
        if self.first == 0:
            verifier.verify_directory(self.registry.directory, self.roots, self.key)
            ways.append(("--tiles", self.registry.directory, "--trust-roots", self.registry.roots_path))
        for arguments in ways:
            ended = cairn("registry", "verify", *arguments)
            if ended.returncode != 0:
                self.fail("not verified", str(ended))
        self.counts["seconds to verify"] = round(time.monotonic() - began)
        if self.registry.stop() != 0:
            self.fail("wrong answers", "it did not drain")
        copies = segment_log.most_copies(self.registry.segments)
        if copies > COPIES_MAX:
            self.fail("wrong answers", f"one record is {copies} times in the log")

    def run(self):
        began = time.monotonic()
        try:
            self.registry.start()
            self.look(True)
            while self.counts["cycles"] < self.options.cycles and not self.failures:
                self.cycle()
            if not self.failures:
                self.finish()
        except (AssertionError, verifier.Wrong) as problem:
            self.fail("wrong answers", str(problem))
        finally:
            if self.registry.alive():
                self.registry.kill()
            try:
                if self.failures and self.options.keep:
                    shutil.copytree(self.registry.home, self.options.keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
            finally:
                self.registry.end()
        c = self.counts
        if not self.failures and self.options.cycles >= 100:
            if c["in flight"] < 0.9 * c["cycles"]:
                self.failures.append(f"only {c['in flight']} of {c['cycles']} kills met a write in flight")
            if c["recovery"] < 20:
                self.failures.append(f"only {c['recovery']} kills during recovery")
        for failure in self.failures[:20]:
            print(failure)
        bad = sum(c[kind] for kind in ("lost", "came back", "gap", "two heads", "two roots", "went back", "broken chain", "bad checkpoint", "not verified"))
        print(f"{c['cycles']} kills ({c['in flight']} with a write in flight, {c['uncovered']} with commits no checkpoint covered), "
              f"{c['recovery']} more during recovery, {c['without snapshot']} without a snapshot, {self.first} versions pruned; "
              f"acknowledged {c['proposals']} proposals, {c['approvals']} approvals, {c['commits']} commits; "
              f"{c['verified']} versions and {len(self.checkpoints)} checkpoints verified in {c['seconds to verify']} s: "
              f"{bad} wrong, {c['wrong answers']} wrong answers; seed {self.options.seed}, {time.monotonic() - began:.0f} s")
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="directory of cairn")
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--soak", action="store_true", help="ten such loops, each from an empty registry, so that starts stay short")
    parser.add_argument("--retention", type=int, default=0, help="keep only so many versions")
    parser.add_argument("--writers", type=int, default=6)
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
