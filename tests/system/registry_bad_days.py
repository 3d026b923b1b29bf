"""Bad things and their answers: kills between two steps, bits that flip, disks that are slow, clocks that jump, old versions that go."""

import base64
import collections
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import registry_verifier as verifier
import wire
from registry_server import Registry, Weather, node, region
from storage_amnesia import snapshot, writable_files
from storage_server import cairn, flip

CHANCE = random.Random("bad days")
ITEM, PROPOSAL, APPROVAL, COMMIT, AUDIT, EXPIRED, CHECKPOINT, PRUNED = range(1, 9)
KINDS = ["", "item", "proposal", "approval", "commit", "audit", "expired", "checkpoint", "pruned"]


def records(path):
    """[(offset, size, kind, meta)] of a segment, as docs/formats/segment-log.md has them."""
    with open(path, "rb") as file:
        content = file.read()
    found, at = [], 4096
    while content[at:at + 4] == b"cnrc":
        meta, data = struct.unpack_from("<II", content, at + 8)
        size = 64 + meta + data
        found.append((at, size, content[at + 4], content[at + 64:at + 64 + meta]))
        at += -(-size // 8) * 8
    return found


def version_of(meta):
    """Which version a commit's or a proposal's record speaks of."""
    value = verifier.decode(meta)
    return verifier.decode(value["commit"])["version"] if "commit" in value else value["version"]


class Killed(unittest.TestCase):
    def after(self, registry, one, before, acknowledged=None):
        """All or nothing, and everything verifies."""
        registry.start()
        head = registry.head()
        if acknowledged is not None:
            self.assertEqual(head, acknowledged)
        self.assertIn(head["version"], (before["version"], before["version"] + 1))
        if head["version"] == before["version"]:
            self.assertEqual(head, before)
        else:
            self.assertEqual(head["payload_b3"], one["payload_b3"])
        answer = registry.commit(one)
        self.assertEqual(answer.status, 201 if head == before else 200, answer)
        self.assertEqual(answer.json(), registry.head())
        again = registry.commit(one)
        self.assertEqual((again.status, again.json()), (200, answer.json()))
        registry.verify()
        self.assertEqual(cairn("registry", "verify", "--data", registry.data).returncode, 0)
        return head != before

    def test_kill_9_between_append_and_ack_leaves_all_or_nothing(self):
        with Weather() as weather, Registry({"storage.slow_sync": "20s"}, environment=weather.environment) as registry:
            outcomes = {}
            for death in (Weather.BEFORE_SYNC, Weather.AFTER_SYNC, Weather.BEFORE_WRITE, Weather.HALF_A_WRITE):
                for _ in range(2):
                    one = registry.approve_all(registry.propose(registry.next_items(region("kill", title=str(CHANCE.random())))))
                    registry.covered_on_disk()
                    before = registry.head()
                    weather.set(death=death)
                    with self.assertRaises((OSError, wire.Broken)):
                        registry.commit(one)
                    registry.wait()
                    weather.set(death=0)
                    with self.subTest(death=death):
                        outcomes[death] = self.after(registry, one, before)
            self.assertTrue(outcomes[Weather.AFTER_SYNC])
            self.assertFalse(outcomes[Weather.BEFORE_WRITE])
            self.assertFalse(outcomes[Weather.HALF_A_WRITE])

    def test_kill_9_in_the_middle_of_a_sync_leaves_all_or_nothing(self):
        with Weather() as weather, Registry({"storage.slow_sync": "20s"}, environment=weather.environment) as registry:
            for _ in range(2):
                one = registry.approve_all(registry.propose(registry.next_items(region("kill", title=str(CHANCE.random())))))
                before = registry.head()
                weather.set(sync_delay_ms=60000)
                thread = threading.Thread(target=self.swallow, args=(registry, one), daemon=True)
                thread.start()
                wire.poll(lambda: weather.get("syncing") > 0, "it is being written")
                self.assertEqual(registry.head(), before, "told before it was durable")
                registry.kill()
                thread.join()
                weather.set(sync_delay_ms=0, syncing=0)
                self.after(registry, one, before)

    @staticmethod
    def swallow(registry, one):
        try:
            registry.commit(one)
        except (OSError, wire.Broken):
            pass

    def test_kill_9_loses_no_proposal_and_no_approval_that_was_acknowledged(self):
        with Weather() as weather, Registry({}, 2, ("a", "b", "c"), environment=weather.environment) as registry:
            kept = registry.approve_all(registry.propose(registry.next_items(region("kept"))), ("a",))
            for death in (Weather.BEFORE_SYNC, Weather.AFTER_SYNC, Weather.BEFORE_WRITE, Weather.HALF_A_WRITE):
                registry.covered_on_disk()
                items = registry.next_items(region("lost"))
                weather.set(death=death)
                with self.assertRaises((OSError, wire.Broken)):
                    registry.propose(items) if death % 2 else registry.approve(kept, "b")
                registry.wait()
                weather.set(death=0)
                registry.start()
                listed = {one["proposal_id"]: one for one in registry.get("/registry/proposals")["proposals"]}
                self.assertIn(kept["proposal_id"], listed)
                self.assertIn("a", [one["signer_id"] for one in listed[kept["proposal_id"]]["approvals"]])
                self.assertLessEqual(len(listed), 3)
            registry.approve(kept, "b")
            self.assertEqual(registry.commit(kept).status, 201)
            registry.verify()

    def test_kill_9_and_a_start_find_the_same_head(self):
        with Registry() as registry:
            head = registry.grow(30)
            pending = registry.propose()
            for _ in range(3):
                registry.kill()
                registry.start()
                self.assertEqual(registry.head(), head)
                self.assertEqual([one["proposal_id"] for one in registry.get("/registry/proposals")["proposals"]], [pending["proposal_id"]])
            self.assertEqual(registry.verify()[0], 31)
            registry.restart()
            self.assertEqual(registry.head(), head)
            registry.kill()
            shutil.rmtree(os.path.join(registry.directory, "tile"))
            os.remove(os.path.join(registry.directory, "state"))
            registry.start()
            self.assertEqual(registry.head(), head)
            registry.change(registry.next_items(region("more")))
            registry.verify()


class Damaged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(Registry({"log.level": "info"}, 1, ("a",)))
        for i in range(8):
            cls.registry.change([*[item for item in cls.registry.items() if item["type"] == "signer_set"], node(f"n{i}"), region("r", title=str(i))])
        cls.registry.propose()
        cls.registry.approve(cls.registry.propose(), "stranger", cls.registry.keys["a"])
        cls.registry.covered_on_disk()
        cls.head = cls.registry.head()
        assert cls.registry.stop() == 0
        cls.path = os.path.join(cls.registry.segments, "0000000001.seg")
        cls.records = records(cls.path)
        cls.snapshot = os.path.join(cls.registry.directory, "state")
        cls.place = tempfile.mkdtemp(prefix="cairn-damaged-")
        cls.addClassCleanup(shutil.rmtree, cls.place, True)

    @classmethod
    def tearDownClass(cls):
        cls.registry.start()

    def copy(self):
        """A data directory of its own, to be damaged."""
        made = os.path.join(self.place, "data")
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(self.registry.data, made, ignore=shutil.ignore_patterns("*.sock", "*.lock"))
        return made, os.path.join(made, "registry", "segments", "0000000001.seg")

    def test_the_log_is_as_its_format_says(self):
        kinds = [kind for _, _, kind, _ in self.records]
        for kind in (ITEM, PROPOSAL, APPROVAL, COMMIT, AUDIT, CHECKPOINT):
            self.assertIn(kind, kinds)
        self.assertEqual([version_of(meta) for _, _, kind, meta in self.records if kind == COMMIT], list(range(9)))
        for _, _, kind, meta in self.records:
            if kind == COMMIT:
                self.assertEqual(set(verifier.decode(meta)), {"at", "id", "who", "commit"})
            elif kind == APPROVAL:
                self.assertEqual(set(verifier.decode(meta)), {"at", "id", "who", "approval"})
            elif kind == AUDIT:
                self.assertLessEqual({"at", "op", "who", "code"}, set(verifier.decode(meta)))
            elif kind == CHECKPOINT:
                self.assertEqual(set(verifier.decode(meta)), {"at", "note", "size", "verified"})
            elif kind == PROPOSAL:
                self.assertLessEqual({"id", "at", "who", "list", "prev", "expires", "version", "created_at", "payload_b3"}, set(verifier.decode(meta)))

    def test_a_flipped_bit_anywhere_in_the_log_is_found_by_verify(self):
        data, path = self.copy()
        self.assertEqual(cairn("registry", "verify", "--data", data).returncode, 0)
        last, unseen = max(i for i, (_, _, kind, _) in enumerate(self.records) if kind == COMMIT), collections.Counter()
        for at, size, kind, meta in self.records[:last + 1]:
            for offset in {0, 5, 44, 50, size - 1, CHANCE.randrange(size)}:
                bit = CHANCE.randrange(8)
                flip(path, at + offset, bit)
                ended = cairn("registry", "verify", "--data", data)
                flip(path, at + offset, bit)
                unseen[KINDS[kind]] += ended.returncode == 0
                self.assertIn(ended.returncode, (0, 4), ended)
                if kind == COMMIT:
                    self.assertRegex(ended.stdout + ended.stderr, rf"\b{version_of(meta)}\b")
        self.assertEqual({kind: count for kind, count in unseen.items() if count}, {})
        self.assertEqual(cairn("registry", "verify", "--data", data).returncode, 0)

    def found_by_server(self, kind, version, offset, forget):
        """Flips, starts, and looks. A header is only looked at when the log is read: when the snapshot is gone."""
        [(at, size, _, _)] = [one for one in self.records if one[2] == kind and version_of(one[3]) == version]
        flip(self.path, at + (offset if offset >= 0 else size + offset))
        if forget:
            os.path.exists(self.snapshot) and os.remove(self.snapshot)
        log = self.registry.log()
        checkpoint = verifier.Directory(self.registry.directory).get("checkpoint")
        try:
            self.registry.start()
            answer = self.registry.ask_openly("GET", f"/registry/{version}")
            self.assertEqual((answer.status, answer.error()["code"]), (502, "integrity"), answer)
            for other in range(9):
                if other != version:
                    self.assertEqual(self.registry.ask_openly("GET", f"/registry/{other}").status, 200, other)
            fresh = wire.poll(lambda: re.search(rf'"version":{version}\b', self.registry.log()[len(log):]), f"version {version} is named in the log", 10)
            self.assertTrue(fresh)
            self.assertEqual(self.registry.metric("registry_damaged_versions"), 1)
            wire.poll(lambda: self.registry.get("/readyz")["write_ready"] is False, "writes are not ready")
            self.assertEqual(self.registry.head(), self.head)
            answer = self.registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": self.registry.items(0)})
            self.assertEqual((answer.status, answer.error()["code"]), (503, "degraded"))
            self.assertEqual(verifier.Directory(self.registry.directory).get("checkpoint"), checkpoint)
            self.assertEqual(self.registry.ask_openly("GET", "/registry/checkpoint").body, checkpoint)
            self.registry.stop()
            self.assertEqual(verifier.Directory(self.registry.directory).get("checkpoint"), checkpoint)
        finally:
            if self.registry.alive():
                self.registry.kill()
            flip(self.path, at + (offset if offset >= 0 else size + offset))
            os.path.exists(self.snapshot) and os.remove(self.snapshot)
        self.registry.start()
        self.assertEqual(self.registry.ask_openly("GET", f"/registry/{version}").status, 200)
        self.assertEqual(self.registry.head(), self.head)
        self.assertEqual(self.registry.stop(), 0)

    def test_a_flipped_bit_anywhere_in_the_log_is_found_and_named(self):
        for kind, version, offset, forget in ((COMMIT, 4, 100, False), (COMMIT, 6, -1, False), (PROPOSAL, 5, 100, False), (COMMIT, 3, 2, True),
                                              (PROPOSAL, 2, 50, True), (COMMIT, 7, 100, True)):
            with self.subTest(kind=kind, version=version, offset=offset, forget=forget):
                self.found_by_server(kind, version, offset, forget)

    def test_what_nobody_reads_is_found_and_named_too(self):
        [(at, _, _, _)] = [one for one in self.records if one[2] == COMMIT and version_of(one[3]) == 3]
        flip(self.path, at + 100)
        log = self.registry.log()
        try:
            self.registry.start()
            wire.poll(lambda: re.search(r'"version":3\b', self.registry.log()[len(log):]), "version 3 is named in the log", 8)
            self.assertEqual(self.registry.metric("registry_damaged_versions"), 1)
        finally:
            if self.registry.alive():
                self.registry.kill()
            flip(self.path, at + 100)

    def test_a_pending_proposal_that_is_damaged_is_named_in_the_log(self):
        with Registry() as registry:
            one = registry.propose(registry.next_items(region("unlucky")))
            registry.propose(registry.next_items(region("lucky")))
            self.assertEqual(registry.stop(), 0)
            os.remove(os.path.join(registry.directory, "state"))
            path = os.path.join(registry.segments, sorted(os.listdir(registry.segments))[0])
            [at] = [at for at, _, kind, meta in records(path) if kind == ITEM and b"unlucky" in meta]
            flip(path, at + 64 + 5)
            registry.start()
            wire.poll(lambda: re.search(rf'a pending proposal is damaged[^\n]*{one["proposal_id"]}', registry.log()), "the proposal is named")
            self.assertEqual(registry.log().count("a pending proposal is damaged"), 1)

    def test_a_damaged_snapshot_or_tile_or_checkpoint_file_is_made_anew(self):
        data, _ = self.copy()
        with Registry(signers=(), directory=data, started=False) as registry:
            registry.signers = ("a",)
            registry.load_keys()
            for name in ("state", "checkpoint", "tile/entries/000.p/9", "tile/0/000.p/9"):
                flip(os.path.join(data, "registry", name), 20)
            registry.start()
            self.assertEqual(registry.head(), self.head)
            roots, key = registry.roots()

            def good():
                try:
                    return verifier.verify_directory(registry.directory, roots, key)[0] == registry.head()["version"] + 1
                except verifier.Wrong:
                    return False
            wire.poll(good, "the files are made anew, though nothing is committed", 10)
            registry.change(registry.next_items(region("renewed")))
            wire.poll(good, "the files are made anew", 10)
            registry.verify()

    def test_another_genesis_or_other_trust_roots_are_refused_at_the_start(self):
        data, _ = self.copy()
        other = os.path.join(self.place, "other")
        shutil.rmtree(other, ignore_errors=True)
        self.assertEqual(cairn("registry", "init", "--data", other, "--signers", "z").returncode, 0)
        roots = os.path.join(other, "registry", "trust-roots.json")
        for setting in (f"bootstrap.trust_roots_path={roots}", "bootstrap.trust_roots_hash=b3:" + "0" * 64):
            ended = cairn("registry", "--data", data, "--bind", "127.0.0.1:0", "--set", setting, patience=20)
            self.assertNotEqual(ended.returncode, 0)
            self.assertEqual(ended.stdout, "")
            self.assertIn("trust", ended.stderr)
        path = os.path.join(data, "registry", "trust-roots.json")
        [digest] = verifier.blake3_of([verifier.Directory(data).get("registry/trust-roots.json")])
        with Registry({"bootstrap.trust_roots_hash": verifier.named(digest)}, signers=(), directory=data) as registry:
            self.assertEqual(registry.head(), self.head)
        self.assertTrue(os.path.exists(path))


class LostEnd(unittest.TestCase):
    """The file `checkpoint` and the tiles are proof of what was signed, even when the log has forgotten it."""

    def setUp(self):
        self.registry = self.enterContext(Registry())
        self.registry.grow(4)
        self.registry.covered_on_disk()
        _, key = self.registry.roots()
        self.key, self.note = key, verifier.Directory(self.registry.directory).get("checkpoint")
        self.assertEqual(self.registry.stop(), 0)

    def check(self):
        """It may refuse to start, or to write; it must not sign a second root for a size."""
        size, root = verifier.verify_checkpoint(self.note, self.key)
        self.registry.spawn()
        if not self.registry.line():
            self.assertNotEqual(self.registry.wait(), 0)
            self.assertRegex(self.registry.log(), "checkpoint|signed")
            return
        self.registry.kill()
        self.registry.start()
        items = self.registry.items(0)
        for i in range(6):
            answer = self.registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": [*items, region("other", title=str(i))]})
            if answer.status == 503:
                return
            self.registry.approve_all(answer.json())
            if self.registry.commit(answer.json()).status == 503:
                return
        self.registry.covered()
        with self.registry.remote() as server:
            _, _, leaves = verifier.verify_hashes(server, self.key)
            self.assertGreaterEqual(len(leaves), size)
            self.assertEqual(verifier.root_of(leaves[:size]), root, f"two signed roots of size {size}")

    def test_a_log_that_lost_its_end_is_not_signed_a_second_time(self):
        path = os.path.join(self.registry.segments, "0000000001.seg")
        at = [at for at, _, kind, _ in records(path) if kind == COMMIT][-2]
        os.truncate(path, at)
        os.remove(os.path.join(self.registry.directory, "state"))
        self.check()

    def test_a_log_that_is_gone_is_not_begun_again_beside_its_checkpoint(self):
        shutil.rmtree(self.registry.segments)
        self.check()


@unittest.skipUnless(os.geteuid() == 0, "mounts a small disk")
class FullDisk(unittest.TestCase):
    def test_a_full_disk_is_507_reads_go_on_and_nothing_that_was_acknowledged_is_lost(self):
        mount = tempfile.mkdtemp(prefix="cairn-full-")
        self.addCleanup(os.rmdir, mount)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", mount], check=True)
        self.addCleanup(subprocess.run, ["umount", mount], check=True)
        with Registry({"storage.segment_size": "8MiB"}, directory=os.path.join(mount, "data")) as registry:
            signers = registry.items()
            head = registry.head()
            for i in range(400):
                bulk = [region(f"r{i}.{k}", title=CHANCE.randbytes(500).hex()) for k in range(800)]
                answer = registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": [*signers, *bulk]})
                if answer.status != 202:
                    break
                answer = registry.approve(answer.json(), "a")
                if answer.status != 200:
                    break
                pending = registry.get("/registry/proposals")["proposals"][0]
                answer = registry.commit(pending)
                if answer.status != 201:
                    break
                head = answer.json()
            self.assertEqual((answer.status, answer.error()["code"]), (507, "storage_full"))
            self.assertGreater(head["version"], 20)
            self.assertEqual(registry.head(), head)
            wire.poll(lambda: registry.get("/readyz")["write_ready"] is False, "it says so", 10)
            self.assertEqual(registry.ask_openly("GET", "/readyz").status, 200)
            for version in (0, 1, head["version"]):
                self.assertEqual(registry.ask_openly("GET", f"/registry/{version}").status, 200)
            registry.kill()
            registry.start()
            self.assertEqual(registry.head(), head)
            subprocess.run(["mount", "-o", "remount,size=128m", mount], check=True)

            def room():
                answer = registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": [*signers, region("room")]})
                return answer.json() if answer.status == 202 else None
            one = registry.approve_all(wire.poll(room, "there is room again"))
            self.assertEqual(registry.commit(one).status, 201)
            registry.verify()


class SlowDisk(unittest.TestCase):
    def test_slow_syncs_make_writes_unready_first(self):
        with Weather() as weather, Registry({"storage.slow_sync": "100ms"}, environment=weather.environment) as registry:
            registry.covered_on_disk()
            one = registry.approve_all(registry.propose())
            weather.set(sync_delay_ms=2500)
            answers = []
            thread = threading.Thread(target=lambda: answers.append(registry.commit(one)), daemon=True)
            thread.start()
            wire.poll(lambda: weather.get("syncing") > 0, "it is being written")
            def unready():
                said = registry.ask_openly("GET", "/readyz")
                return said if said.json()["write_ready"] is False else None
            ready = wire.poll(unready, "writes are not ready")
            self.assertEqual((ready.status, ready.json()["ready"]), (200, True))
            self.assertTrue(ready.json()["missing"])
            for target in ("head", "0", "log", "checkpoint", "proposals"):
                self.assertEqual(registry.ask_openly("GET", f"/registry/{target}").status, 200)
            thread.join(wire.PATIENCE)
            self.assertEqual(answers[0].status, 201)
            weather.set(sync_delay_ms=0)
            wire.poll(lambda: registry.get("/readyz")["write_ready"] is True, "writes are ready again")
            registry.change(registry.next_items(region("again")))
            registry.verify()

    def test_a_disk_that_can_no_longer_be_read_makes_reads_unready_until_it_can(self):
        with Weather() as weather, Registry(environment=weather.environment) as registry:
            registry.grow(3)
            registry.restart()
            self.assertEqual(registry.get("/readyz")["missing"], [])
            weather.set(cold=1, read_fails=1_000_000)
            self.assertGreaterEqual(registry.ask_openly("GET", "/registry/2").status, 500)

            def readiness():
                return registry.ask_openly("GET", "/readyz").json()
            wire.poll(lambda: readiness()["ready"] is False, "reads are not ready")
            self.assertIn("store", readiness()["missing"])
            self.assertEqual(registry.head()["version"], 3, "what is in memory is answered all the same")
            weather.set(cold=0, read_fails=0)
            wire.poll(lambda: readiness()["ready"] is True, "reads are ready again")
            self.assertEqual(registry.ask_openly("GET", "/registry/2").status, 200)

    def test_a_commit_that_comes_too_late_is_504_and_whole_or_absent(self):
        with Weather() as weather, Registry({"storage.slow_sync": "20s", "timeouts.request": "300ms"}, environment=weather.environment) as registry:
            one = registry.approve_all(registry.propose())
            weather.set(sync_delay_ms=60000)
            answer = registry.commit(one)
            self.assertEqual((answer.status, answer.error()["code"]), (504, "timeout"))
            self.assertEqual(registry.head()["version"], 0)
            queued = registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": registry.items(0)})
            self.assertEqual((queued.status, queued.error()["code"]), (504, "timeout"))
            self.assertEqual(registry.metric('io_timeouts_total{op="commit"}'), 2)
            weather.set(sync_delay_ms=0)
            wire.poll(lambda: registry.head()["version"] == 1, "it was finished all the same")
            self.assertEqual(registry.commit(one).status, 200)
            self.assertEqual(registry.metric('registry_updates_total{result="committed"}'), 1, "once, though nobody waited, and no repeat")
            self.assertEqual(registry.metric('registry_updates_total{result="rejected"}'), 0)
            self.assertEqual(registry.get("/registry/proposals")["proposals"], [], "what was still queued was never begun")


class Clock(unittest.TestCase):
    @staticmethod
    def jump(weather, registry, milliseconds):
        """Waits until the committer has seen it: the clock is looked at when there is time."""
        weather.set(clock_ms=milliseconds)

        def seen():
            payload = verifier.decode(base64.b64decode(registry.propose()["payload"]))
            time.sleep(0.05)
            return abs(payload["created_at"] / 1000 - time.time() - milliseconds / 1000) < 60
        wire.poll(seen, "the clock has jumped", 10)

    def test_a_clock_that_jumps_back(self):
        with Weather() as weather, Registry(environment=weather.environment) as registry:
            self.jump(weather, registry, 3600_000)
            ahead = registry.change(registry.next_items(region("ahead")))
            self.assertGreater(verifier.milliseconds(ahead["committed_at"]), 1000 * (time.time() + 3000))
            self.jump(weather, registry, -86400_000)
            last = verifier.milliseconds(ahead["committed_at"])
            for i in range(4):
                head = registry.change(registry.next_items(region("back", title=str(i))))
                self.assertGreaterEqual(verifier.milliseconds(head["committed_at"]), last)
                last = verifier.milliseconds(head["committed_at"])
                if i == 1:
                    registry.restart()
            self.jump(weather, registry, 7200_000)
            self.assertGreater(verifier.milliseconds(registry.change(registry.next_items(region("forth")))["committed_at"]), last)
            registry.verify()


class Retention(unittest.TestCase):
    def grow_past(self, registry, count):
        """Big changes, so that segments end."""
        with registry.connect() as connection:
            signers = [item for item in registry.items() if item["type"] == "signer_set"]
            for i in range(count):
                bulk = [region(f"r{i}.{k}", title=CHANCE.randbytes(500).hex()) for k in range(60)]
                registry.change([*signers, *bulk], connection=connection)

    def test_by_count_prunes_what_a_checkpoint_covers_and_nothing_else(self):
        with Registry({"storage.segment_size": "1MiB", "retention.policy": "by-count", "retention.max_count": 10}) as registry:
            early = registry.ask_openly("GET", "/registry/0")
            self.assertEqual(early.status, 200)
            self.grow_past(registry, 60)
            registry.covered_on_disk()

            wire.poll(lambda: registry.ask_openly("GET", "/registry/log").status == 410, "version 0 is pruned")
            answer = registry.ask_openly("GET", "/registry/3")
            self.assertEqual(answer.status, 410)
            error = answer.error()
            self.assertEqual(error["code"], "pruned")
            roots, key = registry.roots()
            size, root = verifier.verify_checkpoint(error["details"]["checkpoint"].encode(), key)
            first = error["details"]["first_kept"]
            self.assertEqual(size, 61)
            self.assertGreater(first, 0)
            self.assertLessEqual(first, 51)
            self.assertGreaterEqual(registry.head()["version"] - first + 1, 10)
            for version in range(first):
                for _ in range(4):  # whichever shard it comes to, and whatever was read there before
                    self.assertEqual(registry.ask_openly("GET", f"/registry/{version}").status, 410, version)
            for version in range(first, 61):
                self.assertEqual(registry.ask_openly("GET", f"/registry/{version}").status, 200, version)
            self.assertEqual(registry.ask_openly("GET", "/registry/log").status, 410)
            self.assertEqual(registry.get(f"/registry/log?from={first}")["commits"][0]["version"], first)
            wire.poll(lambda: not os.path.exists(os.path.join(registry.segments, "0000000001.seg")), "its room is given back")
            with registry.remote() as server:
                proof = server.json(f"/registry/proof/inclusion?version=0&size={size}")
                leaf = verifier.leaf_hash(verifier.unbase64(early.json()["commit_cbor"], "commit"))
                verifier.verify_inclusion(0, size, leaf, [verifier.unbase64(one, "hash") for one in proof["hashes"]], root)
            for _ in range(2):
                self.assertEqual(registry.verify(first)[:2], (size, root))
                self.assertEqual(cairn("registry", "verify", "--data", registry.data).returncode, 0)
                registry.kill()
                registry.start()
            registry.change(registry.next_items(region("after")))
            self.assertEqual(registry.ask_openly("GET", "/registry/0").status, 410)

    def test_none_prunes_nothing(self):
        with Registry({"storage.segment_size": "1MiB"}) as registry:
            self.grow_past(registry, 40)
            registry.covered_on_disk()
            self.assertGreater(registry.metric("registry_log_segments"), 1)
            self.assertEqual(registry.verify()[0], 41)

    def test_it_can_be_turned_on_by_a_reload(self):
        with Registry({"storage.segment_size": "1MiB"}, started=False) as registry:
            path = os.path.join(registry.home, "registry.toml")
            registry.arguments = ("--config", path)
            with open(path, "w") as file:
                file.write('[storage]\ncheckpoint_interval = "1s"\n')
            registry.start()
            self.grow_past(registry, 40)
            with open(path, "w") as file:
                file.write('[storage]\ncheckpoint_interval = "1s"\n\n[retention]\npolicy = "by-count"\nmax_count = 5\n')
            registry.process.send_signal(1)
            wire.poll(lambda: registry.ask_openly("GET", "/registry/log").status == 410, "it is pruned")
            self.assertEqual(registry.ask_openly("GET", "/registry/0").status, 410)

    def test_a_drain_in_the_middle_of_pruning_exits_0(self):
        for _ in range(5):
            settings = {"storage.segment_size": "1MiB", "retention.policy": "by-count", "retention.max_count": 5}
            with Registry(settings) as registry:
                self.grow_past(registry, 40)
                wire.poll(lambda: registry.ask_openly("GET", "/registry/log").status == 410, "pruning has begun")
                self.assertEqual(registry.stop(), 0, registry.log()[-500:])
                self.assertEqual(cairn("registry", "verify", "--data", registry.data).returncode, 0)
                registry.start()

    def test_small_changes_cost_small_records(self):
        with Registry() as registry:
            bulk = [node(f"n{i}", addr="10.0.0.1:7410") for i in range(700)]
            registry.change([*registry.items(), *bulk])
            before = registry.metric("registry_storage_bytes")
            for i in range(20):
                registry.change(registry.next_items(region("small", title=str(i))))
            self.assertLess((registry.metric("registry_storage_bytes") - before) / 20, 7000, "bytes a change, of a set of more than 60 kB")
            registry.verify()


class Amnesia(unittest.TestCase):
    def test_amnesia_leaves_no_file_behind(self):
        with tempfile.TemporaryDirectory(prefix="cairn-amnesia-") as top:
            data = os.path.join(top, "data")
            before = snapshot(top)
            with Registry({"amnesia.enabled": "true"}, directory=data, started=False) as registry:
                registry.start()
                head = registry.head()
                self.assertEqual(head["version"], 0)
                self.assertEqual(registry.metric("amnesia_mode"), 1)
                wire.poll(lambda: registry.ask_openly("GET", "/registry/checkpoint").status == 200, "there is a checkpoint")
                answer = registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": registry.items()})
                self.assertEqual(answer.status, 202)
                self.assertEqual([path for path in writable_files(registry.pid) if not path.startswith(registry.home)], [])
                self.assertEqual(registry.ask_openly("GET", "/registry/tile/0/000.p/1").status, 200)
                self.assertEqual(registry.stop(), 0)
                self.assertEqual(snapshot(top), before)
                registry.start()
                self.assertEqual(registry.get("/registry/proposals")["proposals"], [])

    def test_storage_kind_ram_keeps_the_log_in_memory_only(self):
        with Registry({"storage.kind": "ram"}) as registry:
            registry.grow(5)
            self.assertEqual(registry.verify()[0], 6)
            self.assertFalse(os.path.exists(registry.segments))
            registry.restart()
            self.assertEqual(registry.head()["version"], 0)


if __name__ == "__main__":
    unittest.main()
