"""An index that rots under a server that is in use: nothing is lost, nothing wrong is served, and it mends itself."""

import collections
import os
import random
import threading
import unittest

import wire
from storage_server import Storage, b3sum, cairn, flip

CHANCE = random.Random("index")


def tables(storage):
    """The tables of the index, the largest first."""
    place = os.path.join(storage.data, "storage")
    found = [os.path.join(place, index, name) for index in os.listdir(place) if index.startswith("index")
             and os.path.isdir(os.path.join(place, index)) for name in os.listdir(os.path.join(place, index))
             if name.endswith(".sst")]
    return sorted(found, key=os.path.getsize, reverse=True)


def rot(storage):
    """A bit in the first half of a table, where the entries are."""
    path = tables(storage)[0]
    flip(path, CHANCE.randrange(os.path.getsize(path) // 2), CHANCE.randrange(8))


def index_state(storage):
    return storage.status()["data_dirs"][0]["index"]


class DamagedIndex(unittest.TestCase):
    def setUp(self):
        self.storage = self.enterContext(Storage({"storage.cache_bytes": "1MiB", "scrub.rate": "1000MiB/s"}))

    def fill(self, count, size=1500):
        contents = [CHANCE.randbytes(size) for _ in range(count)]
        with self.storage.connect() as connection:
            for content in contents:
                self.assertEqual(connection.ask("POST", "/o", content, **self.storage.bearer()).status, 201)
        self.storage.restart()  # so that it is in tables, and not in memory
        return dict(zip(b3sum(*contents), contents))

    def assert_whole(self, objects):
        with self.storage.connect() as connection:
            for address, content in objects.items():
                answer = connection.ask("GET", f"/o/{address}")
                self.assertEqual((answer.status, answer.body == content), (200, True), address)

    def mended(self):
        self.storage.ask("POST", "/admin/scrub")
        wire.poll(lambda: index_state(self.storage) == "ok" and not self.is_old(), "a new index is in use", 60)

    def is_old(self):
        """Whether the index that was in use when the bit flipped still is."""
        return os.path.exists(self.rotten)

    def rot(self):
        if not tables(self.storage):
            self.storage.restart()  # what is only in memory goes to a table
        self.rotten = os.path.dirname(tables(self.storage)[0])
        rot(self.storage)

    def test_one_flipped_bit_costs_503_for_a_while_and_then_every_object_answers(self):
        objects = self.fill(1500)
        doomed = dict(list(objects.items())[:200])
        kept = {address: content for address, content in objects.items() if address not in doomed}
        seen, wrong, stop = collections.Counter(), [], threading.Event()
        added, removed = {}, set()
        lock = threading.Lock()

        def note(method, address, answer, allowed):
            with lock:
                seen[method, answer.status] += 1
                if answer.status not in allowed:
                    wrong.append((method, address, answer.status, answer.body[:200]))

        def read(seed):
            chance, names = random.Random(seed), list(kept)
            with self.storage.connect() as connection:
                while not stop.is_set():
                    address = chance.choice(names)
                    answer = connection.ask("GET", f"/o/{address}")
                    note("GET", address, answer, (200, 503))
                    if answer.status == 200 and answer.body != kept[address]:
                        wrong.append(("bytes", address))

        def write(seed):
            chance, left = random.Random(seed), list(doomed)
            fresh = [chance.randbytes(700) for _ in range(3000)]
            addresses = b3sum(*fresh)
            with self.storage.connect() as connection:
                while not stop.is_set() and fresh:
                    content, address = fresh.pop(), addresses.pop()
                    answer = connection.ask("PUT", f"/o/{address}", content, **self.storage.bearer())
                    note("PUT", address, answer, (200, 201, 503))
                    if answer.status in (200, 201):
                        added[address] = content
                    if left and chance.random() < 0.2:
                        victim = left.pop()
                        answer = connection.ask("DELETE", f"/o/{victim}", **self.storage.bearer())
                        # A delete that was refused may have been done.
                        note("DELETE", victim, answer, (204, 503))
                        removed.add(victim)
                    listed = connection.ask("GET", "/o?limit=10", **self.storage.bearer())
                    note("LIST", "", listed, (200, 503))

        threads = [threading.Thread(target=read, args=(i,)) for i in range(3)]
        threads += [threading.Thread(target=write, args=(9,))]
        self.rot()
        for thread in threads:
            thread.start()
        try:
            self.mended()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong[:5], [], seen)
        self.assert_whole({**kept, **added})
        for address in removed:
            self.assertIn(self.storage.ask("GET", f"/o/{address}").status, (200, 404))
        ready = self.storage.ask_openly("GET", "/readyz").json()
        self.assertEqual((ready["write_ready"], ready["missing"]), (True, []))
        told = cairn("doctor", "--url", self.storage.url, "--data", self.storage.data)
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        self.storage.restart()
        self.assert_whole({**kept, **added})

    def test_every_kind_of_request_for_a_key_in_a_bad_block_is_never_404_and_never_502(self):
        objects = self.fill(300)
        self.rot()
        statuses = collections.Counter()
        for address, content in objects.items():
            for method, body in (("GET", None), ("HEAD", None), ("PUT", content), ("DELETE", None)):
                answer = self.storage.ask(method, f"/o/{address}", body)
                statuses[method, answer.status] += 1
                self.assertNotIn(answer.status, (404, 500, 502), (method, address))
            put = self.storage.ask("PUT", f"/o/{address}", content)
            self.assertIn(put.status, (200, 201, 503))
            if put.status == 503:
                wire.poll(lambda: self.storage.ask("PUT", f"/o/{address}", content).status != 503, "it is mended", 30)
        self.assert_whole(objects)

    def test_a_server_that_is_killed_while_it_makes_a_new_index_has_all_objects_afterwards(self):
        objects = self.fill(4000, 200)
        rounds = collections.Counter()
        for turn in range(12):
            self.rot()
            self.storage.ask("POST", "/admin/scrub")
            threading.Event().wait(CHANCE.random() * 0.25)
            rounds[index_state(self.storage)] += 1
            self.storage.kill()
            self.storage.start()
            for address, content in CHANCE.sample(list(objects.items()), 100):
                answer = self.storage.ask_openly("GET", f"/o/{address}")
                self.assertIn(answer.status, (200, 503), (turn, address))
                if answer.status == 200:
                    self.assertEqual(answer.body, content)
            self.storage.ask("POST", "/admin/scrub")
            wire.poll(lambda: index_state(self.storage) == "ok" and self.storage.ask_openly("GET", "/readyz").json()[
                "write_ready"], "a new index is in use", 60)
            if turn % 4 == 3:
                wire.poll(lambda: not self.is_old() or self.storage.status()["data_dirs"][0]["scrub"]["passes"] > 0,
                          "it was looked through", 60)
        self.storage.ask("POST", "/admin/scrub")
        wire.poll(lambda: self.storage.status()["data_dirs"][0]["scrub"]["passes"] > 0, "all was looked through", 60)
        wire.poll(lambda: index_state(self.storage) == "ok", "the index is whole", 60)
        self.assert_whole(objects)
        self.assertEqual(self.storage.status()["objects"], len(objects))


if __name__ == "__main__":
    unittest.main()
