"""Files of the log that vanish, are cut short, mixed up or another store's; indexes that do not fit: what is left is
served, what is lost is told, and nothing that is whole is thrown away."""

import os
import random
import shutil
import time
import unittest

import wire
from storage_server import MIB, Storage, cairn

CHANCE = random.Random("losses")


class Losses(unittest.TestCase):
    def filled(self, count=40, size=MIB // 2, **options):
        """A store that is down, with some segments, and what is in it."""
        storage = self.enterContext(Storage({"storage.segment_size": "16MiB"}, **options))
        kept = {}
        for _ in range(count):
            content = CHANCE.randbytes(size)
            kept[storage.post(content)] = content
        self.assertEqual(storage.stop(), 0)
        return storage, kept

    def index(self, storage):
        return os.path.join(storage.data, "storage", "index")

    def files(self, storage):
        return sorted(name for name in os.listdir(storage.segments) if ".seg" in name)

    def answers(self, storage, kept):
        """How many answer what. No wrong byte in any."""
        found = {}
        for address, content in kept.items():
            answer = storage.ask_openly("GET", f"/o/{address}")
            found[answer.status] = found.get(answer.status, 0) + 1
            self.assertTrue(answer.status != 200 or answer.body == content)
        return found

    def assert_whole(self, storage, whole):
        wire.poll(lambda: storage.ask_openly("GET", "/readyz").json()["degraded"] is not whole, "readiness says it")
        ready = storage.ask_openly("GET", "/readyz").json()
        self.assertEqual((ready["ready"], ready["write_ready"]), (True, True))
        self.assertEqual("whole" in ready["missing"], not whole)
        self.assertEqual(storage.status()["data_dirs"][0]["whole"], whole)
        ended = cairn("doctor", "--json", "--url", storage.url, "--data", storage.data)
        self.assertEqual("has lost a part of its log" in ended.stdout, not whole, ended)

    def accept(self, storage):
        ended = cairn("doctor", "--accept-loss", "--url", storage.url, "--data", storage.data)
        self.assertEqual(ended.returncode, 0, ended)
        self.assertIn("given up", ended.stderr)
        wire.poll(lambda: storage.status()["data_dirs"][0]["whole"], "it is accepted")
        again = cairn("doctor", "--accept-loss", "--url", storage.url, "--data", storage.data)
        self.assertEqual((again.returncode, again.stderr.strip()), (0, "nothing is lost"), again)

    def test_a_store_that_is_gone_at_a_start_is_not_taken_for_a_new_one(self):
        storage, kept = self.filled(3)
        away = storage.segments + ".away"
        os.rename(storage.segments, away)
        for make in (lambda: None, lambda: os.mkdir(storage.segments)):  # nothing, or a mount point without its disk
            make()
            storage.spawn()
            self.assertEqual(storage.process.wait(60), 1)
            self.assertIn("its segments are gone: mount or restore it", storage.log())
        os.rmdir(storage.segments)
        os.rename(away, storage.segments)
        storage.start()
        for address, content in kept.items():
            self.assertEqual(storage.ask_openly("GET", f"/o/{address}").body, content)

    def test_a_directory_that_goes_under_a_running_store_costs_no_time(self):
        storage, _ = self.filled(3)
        storage.start()
        shutil.rmtree(storage.segments)
        self.assertEqual(storage.ask("POST", "/o", b"more").status, 503)
        wire.poll(lambda: not storage.ask_openly("GET", "/readyz").json()["write_ready"], "it is fenced")

        def spent():
            with open(f"/proc/{storage.pid}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        # It looks for its directory now and then; without a pause it would take all of a core.
        before, began = spent(), time.monotonic()
        wire.poll(lambda: time.monotonic() - began > 3, "three seconds", 10)
        self.assertLess((spent() - before) / os.sysconf("SC_CLK_TCK"), 0.5 * (time.monotonic() - began))

    def test_a_log_cut_to_half_answers_502_for_what_is_lost_and_says_so(self):
        storage, kept = self.filled(30)
        path = os.path.join(storage.segments, "0000000001.seg")
        self.assertEqual(self.files(storage), ["0000000001.seg"])
        os.truncate(path, os.path.getsize(path) // 2)
        size = os.path.getsize(path)
        storage.start()
        found = self.answers(storage, kept)
        self.assertEqual(set(found), {200, 502})
        self.assertGreater(found[502], 5)
        self.assert_whole(storage, False)
        self.assertEqual(os.path.getsize(path), size)
        fresh = storage.post(b"and it goes on")
        storage.restart()
        self.assertEqual(self.answers(storage, kept), found)
        self.assert_whole(storage, False)
        lost = [address for address in kept if storage.ask_openly("GET", f"/o/{address}").status == 502]
        self.assertEqual(storage.ask("PUT", f"/o/{lost[0]}", kept[lost[0]]).status, 201)
        self.assertEqual(storage.ask("DELETE", f"/o/{lost[1]}").status, 204)
        self.accept(storage)
        self.assertEqual(self.answers(storage, kept), {200: found[200] + 1, 404: found[502] - 1})
        self.assertEqual(storage.ask_openly("GET", f"/o/{fresh}").body, b"and it goes on")
        storage.restart()
        self.assert_whole(storage, True)

    def test_a_missing_segment_is_told_until_it_is_accepted(self):
        storage, kept = self.filled(100)
        names = self.files(storage)
        self.assertGreater(len(names), 2)
        path = os.path.join(storage.segments, names[1])
        os.rename(path, os.path.join(storage.home, "away"))
        storage.start()
        self.assertEqual(storage.status()["data_dirs"][0]["lost_segments"], 1)
        self.assert_whole(storage, False)
        found = self.answers(storage, kept)
        self.assertEqual(set(found), {200, 502})
        self.assertEqual(storage.status()["quarantined"], found[502])
        self.accept(storage)
        self.assertEqual(self.answers(storage, kept), {200: found[200], 404: found[502]})
        storage.restart()
        self.assert_whole(storage, True)

    def test_what_lay_behind_the_end_of_a_cut_segment_is_lost_until_it_is_put_again(self):
        storage, kept = self.filled(50, MIB)
        names = self.files(storage)
        self.assertGreater(len(names), 3)
        os.truncate(os.path.join(storage.segments, names[1]), 8_000_000)
        storage.start()
        self.assert_whole(storage, False)
        lost = storage.status()["quarantined"]
        self.assertGreater(lost, 5)
        self.assertEqual(self.answers(storage, kept), {200: 50 - lost, 502: lost})
        gone = [address for address in kept if storage.ask_openly("GET", f"/o/{address}").status == 502]
        self.assertEqual(storage.ask("PUT", f"/o/{gone[0]}", kept[gone[0]]).status, 201)
        self.assertEqual(storage.ask_openly("GET", f"/o/{gone[0]}").body, kept[gone[0]])
        self.assertEqual(storage.ask("DELETE", f"/o/{gone[1]}").status, 204)
        storage.restart()
        self.assertEqual(self.answers(storage, kept), {200: 51 - lost, 404: 1, 502: lost - 2})
        self.accept(storage)
        self.assertEqual(self.answers(storage, kept), {200: 51 - lost, 404: lost - 1})
        storage.restart()
        self.assert_whole(storage, True)

    def test_an_older_copy_of_the_segments_has_lost_what_the_index_knows_beyond_it(self):
        storage, kept = self.filled(10, MIB)
        old = os.path.join(storage.home, "old")
        shutil.copytree(storage.segments, old)
        storage.start()
        later = {}
        for _ in range(20):
            content = CHANCE.randbytes(MIB)
            later[storage.post(content)] = content
        self.assertEqual(storage.stop(), 0)
        shutil.rmtree(storage.segments)
        shutil.copytree(old, storage.segments)
        storage.start()
        self.assert_whole(storage, False)
        self.assertEqual(self.answers(storage, kept), {200: 10})
        for address, content in later.items():
            self.assertEqual(storage.ask("PUT", f"/o/{address}", content).status, 201)
        self.assertEqual(self.answers(storage, kept | later), {200: 30})

    def test_a_segment_that_is_removed_under_a_running_store_is_told_and_nothing_more_goes_there(self):
        storage, kept = self.filled(30, MIB)
        storage.start()
        names = self.files(storage)
        os.remove(os.path.join(storage.segments, names[-1]))
        fresh = storage.post(b"into another file")
        self.assert_whole(storage, False)
        place = storage.status()["data_dirs"][0]
        self.assertEqual((place["lost_segments"], place["first_lost_segment"]), (1, int(names[-1][:10])))
        os.remove(os.path.join(storage.segments, names[0]))
        wire.poll(lambda: storage.status()["data_dirs"][0]["lost_segments"] == 2, "a sealed one is missed", 60)
        wire.poll(lambda: set(self.answers(storage, kept)) == {502}, "all that was in them is lost")
        address = next(iter(kept))
        self.assertEqual(storage.ask("PUT", f"/o/{address}", kept[address]).status, 201)
        storage.restart()
        self.assertEqual(storage.ask_openly("GET", f"/o/{fresh}").body, b"into another file")
        self.assertEqual(self.answers(storage, kept), {200: 1, 502: 29})
        self.accept(storage)
        self.assertEqual(self.answers(storage, kept), {200: 1, 404: 29})

    def test_without_an_index_a_missing_segment_is_told_too(self):
        storage, kept = self.filled(100)
        os.remove(os.path.join(storage.segments, self.files(storage)[1]))
        shutil.rmtree(self.index(storage))
        storage.start()
        self.assertEqual(storage.status()["data_dirs"][0]["lost_segments"], 1)
        self.assert_whole(storage, False)

    def test_compaction_is_no_loss(self):
        storage, kept = self.filled(100)
        storage.start()
        first = self.files(storage)[0]
        for address in list(kept)[:60]:
            self.assertEqual(storage.ask("DELETE", f"/o/{address}").status, 204)
            del kept[address]
        wire.poll(lambda: first not in self.files(storage), "it is compacted")
        for _ in range(2):
            storage.restart()
            self.assert_whole(storage, True)
            self.assertEqual(self.answers(storage, kept), {200: 40})
        storage.kill()
        shutil.rmtree(self.index(storage))
        storage.start()
        self.assert_whole(storage, True)
        self.assertEqual(self.answers(storage, kept), {200: 40})

    def test_segments_whose_names_were_swapped_are_set_aside_whole(self):
        storage, kept = self.filled(100)
        names = self.files(storage)
        first, last = (os.path.join(storage.segments, name) for name in (names[0], names[-1]))
        sizes = os.path.getsize(first), os.path.getsize(last)
        os.rename(first, first + ".x")
        os.rename(last, first)
        os.rename(first + ".x", last)
        storage.start()
        self.assertEqual((os.path.getsize(last + ".foreign"), os.path.getsize(first + ".foreign")), sizes)
        self.assertEqual(storage.status()["data_dirs"][0]["foreign_files"], 2)
        self.assertEqual(set(self.answers(storage, kept)), {200, 502})
        self.assert_whole(storage, False)
        fresh = storage.post(b"meanwhile")
        self.assertEqual(storage.stop(), 0)
        os.rename(last + ".foreign", first)
        os.rename(first + ".foreign", last)
        shutil.rmtree(self.index(storage))
        storage.start()
        # The log says which were lost: they are looked at first.
        wire.poll(lambda: storage.status()["quarantined"] == 0, "what came back is let go")
        self.assertEqual(self.answers(storage, kept), {200: 100})
        self.assertEqual(storage.ask_openly("GET", f"/o/{fresh}").body, b"meanwhile")
        self.assert_whole(storage, True)

    def test_a_segment_of_another_store_is_set_aside_and_the_store_starts(self):
        storage, kept = self.filled(10)
        other, _ = self.filled(10)
        path = os.path.join(storage.segments, "0000000002.seg")
        shutil.copy(os.path.join(other.segments, "0000000001.seg"), path)
        storage.start()
        self.assertEqual(os.path.getsize(path + ".foreign"), os.path.getsize(os.path.join(other.segments, "0000000001.seg")))
        self.assertEqual(self.answers(storage, kept), {200: 10})
        self.assertEqual(storage.status()["data_dirs"][0]["foreign_files"], 1)
        self.assert_whole(storage, True)

    def test_with_the_key_file_of_another_store_it_does_not_start(self):
        storage, kept = self.filled(3)
        other, _ = self.filled(3)
        own = os.path.join(storage.segments, "key")
        shutil.copy(own, own + ".kept")
        shutil.copy(os.path.join(other.segments, "key"), own)
        before = self.files(storage)
        storage.spawn()
        self.assertNotEqual(storage.wait(), 0)
        self.assertEqual(self.files(storage), before)
        os.rename(own + ".kept", own)
        storage.start()
        self.assertEqual(self.answers(storage, kept), {200: 3})

    def test_the_index_of_another_store_or_of_a_fork_is_made_anew(self):
        storage, kept = self.filled(10)
        fork = os.path.join(storage.home, "fork")
        shutil.copytree(storage.data, fork)
        storage.start()
        for _ in range(10):
            content = CHANCE.randbytes(MIB // 2)
            kept[storage.post(content)] = content
        self.assertEqual(storage.stop(), 0)
        for count in (5, 15):
            with Storage({"storage.segment_size": "16MiB"}, directory=fork) as other:
                for _ in range(count):
                    other.post(CHANCE.randbytes(MIB // 2))
            shutil.rmtree(self.index(storage))
            shutil.copytree(os.path.join(fork, "storage", "index"), self.index(storage))
            storage.start()
            self.assertEqual(self.answers(storage, kept), {200: 20})
            self.assertEqual(len(storage.ask("GET", "/o").json()["objects"]), 20)
            self.assert_whole(storage, True)
            self.assertEqual(storage.stop(), 0)
        foreign, _ = self.filled(20)
        shutil.rmtree(self.index(storage))
        shutil.copytree(self.index(foreign), self.index(storage))
        storage.start()
        self.assertEqual(self.answers(storage, kept), {200: 20})

    def test_an_index_older_than_what_was_compacted_is_made_anew(self):
        storage, kept = self.filled(40)
        old = os.path.join(storage.home, "old")
        shutil.copytree(self.index(storage), old)
        storage.start()
        first = self.files(storage)[0]
        for address in list(kept)[:36]:
            self.assertEqual(storage.ask("DELETE", f"/o/{address}").status, 204)
            del kept[address]
        while len(self.files(storage)) < 3 and first in self.files(storage):
            content = CHANCE.randbytes(MIB // 2)
            kept[storage.post(content)] = content
        wire.poll(lambda: first not in self.files(storage), "it is compacted")
        self.assertEqual(storage.stop(), 0)
        shutil.rmtree(self.index(storage))
        shutil.copytree(old, self.index(storage))
        storage.start()
        listed = {one["address"] for one in storage.ask("GET", "/o").json()["objects"]}
        self.assertEqual(listed, set(kept))
        self.assertEqual(self.answers(storage, kept), {200: len(kept)})
        self.assertEqual(storage.status()["quarantined"], 0)
        self.assert_whole(storage, True)

    def test_an_index_that_is_a_file_or_whose_lock_is_a_directory_is_made_anew(self):
        storage, kept = self.filled(5)
        lock = os.path.join(self.index(storage), "LOCK")
        os.remove(lock)
        os.mkdir(lock)
        storage.start()
        self.assertEqual(self.answers(storage, kept), {200: 5})
        self.assertEqual(storage.stop(), 0)
        shutil.rmtree(self.index(storage))
        with open(self.index(storage), "w") as file:
            file.write("not an index")
        storage.start()
        self.assertEqual(self.answers(storage, kept), {200: 5})
