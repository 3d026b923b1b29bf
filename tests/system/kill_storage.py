#!/usr/bin/env python3
"""Kills a storage server again and again while it is written to, and looks what is left.

    python3 tests/system/kill_storage.py --build build/release --cycles 200 [--seed N]

What the server acknowledged is remembered here, outside of it. After each kill -9 and restart: every acknowledged
object is there with its bytes, what was deleted is gone, pins hold, acknowledged parts of uploads are there; what was
on its way is whole or absent. Some restarts are killed too, and some find their index gone. Copies that kills in the
middle of compaction left in the log do not pile up.
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
import segment_log  # noqa: E402
import wire  # noqa: E402
from storage_server import PART, Storage, b3sum  # noqa: E402

ABSENT, PRESENT, PINNED = "absent", "present", "pinned"
# Of one record, in the log: a kill in the middle of compaction leaves a copy, and the next compaction takes it away.
COPIES_MAX = 32


class Thing:
    """An object, and what may be true of it: one state after an acknowledgement, more while one is awaited."""

    def __init__(self, content):
        self.content, self.address, self.states, self.touched = content, None, {ABSENT}, False
        self.upload = None

    def state(self):
        return next(iter(self.states)) if len(self.states) == 1 else None


class Upload:
    def __init__(self, identifier):
        self.target, self.acknowledged, self.ending = f"/uploads/{identifier}", set(), False


class Loop:
    def __init__(self, options):
        self.chance = random.Random(options.seed)
        self.options = options
        self.storage = Storage({"storage.segment_size": "16MiB", "storage.cache_bytes": "8MiB"}, started=False)
        self.counts = collections.Counter()
        self.failures = []
        self.flying = set()
        self.lock = threading.Lock()
        self.things = [[Thing(self.make_content()) for _ in range(40)] for _ in range(options.writers)]
        everything = self.everything()
        for thing, address in zip(everything, b3sum(*[thing.content for thing in everything])):
            thing.address = address
        self.typical_start = 0.05

    def make_content(self):
        kind = self.chance.random()
        size = (self.chance.randrange(1, 2000) if kind < 0.5 else self.chance.randrange(20000, 140000) if kind < 0.8
                else self.chance.randrange(300000, PART) if kind < 0.92 else self.chance.randrange(PART + 1, 3 * PART))
        return self.chance.randbytes(size)

    def everything(self):
        return [thing for some in self.things for thing in some]

    def fail(self, kind, text):
        with self.lock:
            self.counts[kind] += 1
            self.failures.append(f"cycle {self.counts['cycles']}: {kind}: {text}")

    # --- writing

    def ask(self, connection, writer, method, target, body=None, **fields):
        self.flying.add(writer)
        answer = connection.ask(method, target, body, **fields, **self.storage.bearer())
        self.flying.discard(writer)
        self.counts["acknowledged"] += 1
        return answer

    def write(self, writer, chance):
        """One writer until the server is gone; its things are nobody else's."""
        try:
            with self.storage.connect() as connection:
                while True:
                    thing = chance.choice(self.things[writer])
                    thing.touched = True
                    self.change(connection, writer, chance, thing)
        except (OSError, wire.Broken):
            pass
        finally:
            self.flying.discard(writer)

    def change(self, connection, writer, chance, thing):
        state, roll = thing.state(), chance.random()
        if state == ABSENT and (thing.upload or len(thing.content) > PART or roll < 0.15):
            self.change_upload(connection, writer, chance, thing)
        elif state == ABSENT or roll < 0.2:
            if len(thing.content) <= PART:
                self.step(connection, writer, thing, {state if state == PINNED else PRESENT}, (200, 201), "PUT", f"/o/{thing.address}", thing.content)
        elif state == PRESENT and roll < 0.75:
            self.step(connection, writer, thing, {ABSENT}, (204,), "DELETE", f"/o/{thing.address}")
        elif state == PRESENT:
            self.step(connection, writer, thing, {PINNED}, (204,), "PUT", f"/pins/{thing.address}")
        elif roll < 0.5:
            self.step(connection, writer, thing, {PINNED}, (409,), "DELETE", f"/o/{thing.address}")
        else:
            self.step(connection, writer, thing, {PRESENT}, (204,), "DELETE", f"/pins/{thing.address}")

    def step(self, connection, writer, thing, then, expected, method, target, body=None):
        thing.states = thing.states | then
        answer = self.ask(connection, writer, method, target, body)
        if answer.status in expected:
            thing.states = set(then)
        elif answer.status not in (429, 503):
            self.fail("wrong answers", f"{method} {target} with {thing.states}: {answer}")
        return answer

    def change_upload(self, connection, writer, chance, thing):
        upload, count = thing.upload, -(-len(thing.content) // PART)
        if upload is None:
            answer = self.ask(connection, writer, "POST", "/uploads", b'{"size":%d}' % len(thing.content))
            if answer.status == 201:
                thing.upload = Upload(answer.json()["id"])
            return
        missing = [index for index in range(count) if index not in upload.acknowledged]
        if missing:
            index = chance.choice(missing)
            answer = self.ask(connection, writer, "PATCH", upload.target, thing.content[index * PART:(index + 1) * PART], Upload_Offset=index * PART)
            if answer.status == 204:
                upload.acknowledged.add(index)
            elif answer.status not in (429, 503):
                self.fail("wrong answers", f"PATCH {upload.target}: {answer}")
            return
        upload.ending = True
        if chance.random() < 0.1:
            answer = self.ask(connection, writer, "DELETE", upload.target)
            thing.upload = None
            if answer.status != 204:
                self.fail("wrong answers", f"DELETE {upload.target}: {answer}")
            return
        answer = self.step(connection, writer, thing, {PRESENT}, (200, 201), "POST", f"{upload.target}/commit",
                           b'{"address":"%s"}' % thing.address.encode())
        if answer.status in (200, 201):
            thing.upload = None

    # --- looking

    def look(self, thoroughly):
        """What is there, against what was acknowledged."""
        with self.storage.connect() as connection:
            listed, after = {}, ""
            while after is not None:
                page = connection.ask("GET", f"/o?limit=1000&after={after}", **self.storage.bearer()).json()
                listed.update({one["address"]: one for one in page["objects"]})
                after = page.get("next")
            for some in self.things:
                sample = set(self.chance.sample(range(len(some)), 3))
                for i, thing in enumerate(some):
                    self.look_at(connection, thing, listed.pop(thing.address, None), thoroughly or thing.touched or i in sample)
                    if thing.upload:
                        self.look_at_upload(connection, thing)
                    thing.touched = False
            for address in listed:
                self.fail("came back", f"{address} was never stored")

    def look_at(self, connection, thing, listed, read):
        state = ABSENT if listed is None else PINNED if listed["pinned"] else PRESENT
        if state not in thing.states:
            kind = "lost" if state == ABSENT or PINNED in thing.states else "came back"
            self.fail(kind, f"{thing.address} ({len(thing.content)} bytes) is {state}, acknowledged was {thing.states}")
        thing.states = {state}
        if not read:
            return
        answer = connection.ask("GET", f"/o/{thing.address}")
        self.counts["read"] += 1
        if answer.status == 200 and answer.body != thing.content:
            self.fail("wrong bytes", thing.address)
        elif answer.status != (404 if state == ABSENT else 200):
            self.fail("lost", f"{thing.address} is listed as {state} and answered {answer.status}")

    def look_at_upload(self, connection, thing):
        upload = thing.upload
        answer = connection.ask("HEAD", upload.target, **self.storage.bearer())
        if answer.status == 404:
            if not upload.ending:
                self.fail("lost", f"{upload.target} with the parts {upload.acknowledged}")
            thing.upload = None
            return
        if answer.get("Location"):
            if not upload.ending:
                self.fail("came back", f"{upload.target} was never committed")
            thing.upload = None
            return
        missing = set()
        for text in filter(None, (answer.get("Upload-Missing") or "").split(",")):
            first, last = map(int, text.split("-"))
            missing |= set(range(first // PART, last // PART + 1))
        if missing & upload.acknowledged:
            self.fail("lost", f"{upload.target}: the parts {missing & upload.acknowledged}")
        upload.acknowledged = set(range(-(-len(thing.content) // PART))) - missing
        upload.ending = False

    # --- the loop

    def is_ready(self):
        return bool(select.select([self.storage.process.stdout], [], [], 0)[0])

    def start(self):
        if self.chance.random() < 0.1:
            shutil.rmtree(os.path.join(self.storage.data, "storage", "index"), ignore_errors=True)
            self.counts["rebuilt"] += 1
        while self.chance.random() < 0.25:
            self.storage.spawn()
            time.sleep(self.typical_start * self.chance.random())
            if not self.is_ready():
                self.counts["recovery"] += 1
            self.storage.kill()
        began = time.monotonic()
        self.storage.start()
        self.typical_start = 0.8 * self.typical_start + 0.2 * (time.monotonic() - began)

    def cycle(self):
        self.counts["cycles"] += 1
        writers = [threading.Thread(target=self.write, args=(i, random.Random(self.chance.random())), daemon=True)
                   for i in range(self.options.writers)]
        for writer in writers:
            writer.start()
        time.sleep(self.chance.uniform(0.02, 0.4))
        self.counts["in flight"] += bool(self.flying)
        self.storage.kill()
        for writer in writers:
            writer.join()
        self.start()
        self.look(self.counts["cycles"] % 20 == 0)

    def run(self):
        began = time.monotonic()
        try:
            self.storage.start()
            while self.counts["cycles"] < self.options.cycles and not self.failures:
                self.cycle()
            if not self.failures:
                self.storage.restart()
                self.look(True)
                self.storage.stop()
                self.counts["copies"] = segment_log.most_copies(self.storage.segments)
                if self.counts["copies"] > COPIES_MAX:
                    self.fail("came back", f"one record is {self.counts['copies']} times in the log")
                shutil.rmtree(os.path.join(self.storage.data, "storage", "index"))
                self.storage.start()
                self.look(True)
            compacted = self.storage.log().count("segment compacted")
        except AssertionError as problem:
            self.fail("wrong answers", str(problem))
            compacted = self.storage.log().count("segment compacted")
        finally:
            if self.failures and self.options.keep:
                shutil.copytree(self.storage.home, self.options.keep, dirs_exist_ok=True)
            self.storage.end()
        for failure in self.failures[:20]:
            print(failure)
        c = self.counts
        print(f"{c['cycles']} kills ({c['in flight']} with a write in flight), {c['recovery']} more during recovery, "
              f"{c['rebuilt']} without an index, {compacted} segments compacted, {c['acknowledged']} acknowledged, {c['read']} read back, "
              f"one record at most {c['copies']} times in the log: "
              f"{c['lost']} lost, {c['wrong bytes']} with wrong bytes, {c['came back']} came back, {c['wrong answers']} wrong answers; "
              f"seed {self.options.seed}, {time.monotonic() - began:.0f} s")
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="directory of cairn")
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--writers", type=int, default=6)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--keep", help="where the data goes when something was wrong")
    options = parser.parse_args()
    demo.BUILD = os.path.abspath(options.build)
    sys.exit(Loop(options).run())


if __name__ == "__main__":
    main()
