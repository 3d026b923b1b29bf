"""More readers than the disk can serve, and files that are closed: commits go on, nothing is fenced, no shard waits."""

import json
import os
import threading
import time
import unittest

import wire
from storage_server import MIB, Storage
from weather import Weather


def eventually(holds):
    until = time.monotonic() + wire.PATIENCE
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


class Readers:
    """So many threads that read objects again and again; what came of it."""

    def __init__(self, storage, disk, addresses, count):
        self.disk = disk
        self.storage, self.addresses, self.ended = storage, addresses, threading.Event()
        self.lock, self.statuses, self.cut = threading.Lock(), {}, []
        self.threads = [threading.Thread(target=self.read, args=(i,), daemon=True) for i in range(count)]

    def read(self, at):
        while not self.ended.is_set():
            begun = False
            try:
                with self.storage.connect() as connection:
                    answer = connection.ask("GET", "/o/" + self.addresses[at % len(self.addresses)],
                                            **self.storage.bearer())
                    begun = True
                with self.lock:
                    self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
            except (wire.Broken, OSError) as error:
                with self.lock:
                    self.cut.append((begun, repr(error)))
            at += 7

    def count(self, status):
        with self.lock:
            return self.statuses.get(status, 0)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.disk.set(cold=0, read_delay_ms=0)
        for thread in self.threads:
            thread.join(wire.PATIENCE)


class Overload(unittest.TestCase):
    def setUp(self):
        self.disk = self.enterContext(Weather())

    def start(self, **settings):
        return self.enterContext(Storage({"server.shards": 2, **settings}, environment=self.disk.environment))

    def status(self, storage):
        return json.loads(storage.ask("GET", "/admin/status").body)["data_dirs"][0]

    def store(self, storage, body):
        answer = storage.ask("POST", "/o", body)
        self.assertIn(answer.status, (200, 201), answer)
        return json.loads(answer.body)["address"]

    def newest(self, storage):
        return max(name for name in os.listdir(storage.segments) if name.endswith(".seg"))

    def test_many_cold_readers_never_fence_the_log(self):
        storage = self.start(**{"server.shards": 4, "storage.segment_size": "16MiB", "storage.cache_bytes": "16MiB"})
        addresses = [self.store(storage, os.urandom(70000)) for _ in range(300)]
        self.disk.set(cold=1, read_delay_ms=20)
        with Readers(storage, self.disk, addresses, 500) as readers:
            self.assertTrue(eventually(lambda: readers.count(200) >= 50))
            # Segments are begun, and what was appended is found in the index, while all of them wait.
            began = self.newest(storage)
            for _ in range(40):
                self.store(storage, os.urandom(MIB))
            self.assertNotEqual(self.newest(storage), began)
            for address in addresses[:5]:
                answer = storage.ask("DELETE", "/o/" + address)
                self.assertEqual(answer.status, 204, answer)
        self.assertFalse(self.status(storage)["fenced"])
        self.assertEqual(readers.cut, [])
        self.assertLessEqual(set(readers.statuses), {200, 404, 429, 504})
        self.assertNotIn("root keys cannot be read", storage.log())

    def test_a_flush_of_the_index_does_not_delay_a_put(self):
        storage = self.start(**{"storage.segment_size": "16MiB"})
        addresses = [self.store(storage, os.urandom(MIB)) for _ in range(40)]
        # Compaction flushes the index and syncs the directory: that hangs, and puts do not.
        self.disk.set(index_sync_delay_ms=600_000)
        try:
            for address in addresses:
                self.assertEqual(storage.ask("DELETE", "/o/" + address).status, 204)
            self.assertTrue(eventually(lambda: self.disk.get("index_syncing") > 0))
            for _ in range(20):
                self.store(storage, os.urandom(1000))
            self.assertGreater(self.disk.get("index_syncing"), 0)
        finally:
            self.disk.set(index_sync_delay_ms=0)

    def test_no_shard_closes_a_segment(self):
        storage = self.start(**{"server.shards": 1, "storage.segment_size": "16MiB"})
        addresses = [self.store(storage, os.urandom(MIB)) for _ in range(64)]
        self.disk.set(cold=1)
        for address in addresses:
            self.assertEqual(storage.ask("GET", "/o/" + address).status, 200)
        before = self.disk.get("closed")
        for address in addresses:
            self.assertEqual(storage.ask("DELETE", "/o/" + address).status, 204)
        self.assertTrue(eventually(lambda: self.disk.get("closed") - before >= 3))
        self.assertEqual(self.disk.get("closed_here"), 0)
        self.disk.set(cold=0)


if __name__ == "__main__":
    unittest.main()
