"""Several data directories write side by side: the sync of one does not wait for that of another."""

import os
import threading
import time
import unittest

from storage_server import Storage
from weather import Weather

CLIENTS = 12
SPAN = 3.0  # seconds of load
# Each commit of an upload is a group of its own, so that a log does as many as its disk syncs.
ALONE = "compares how much is done in a span"


class Writers:
    """Clients that make uploads of one small part, one after the other, until they are told to end."""

    def __init__(self, storage, count):
        self.storage, self.ended, self.done, self.problems = storage, threading.Event(), [0] * count, []
        self.threads = [threading.Thread(target=self.write, args=(i,), daemon=True) for i in range(count)]

    def write(self, number):
        try:
            while not self.ended.is_set():
                answer = self.storage.upload(os.urandom(1000))
                if answer.status != 201:
                    raise AssertionError(answer)
                self.done[number] += 1
        except Exception as problem:  # told by whoever looks
            self.problems.append(repr(problem))

    def run(self, span):
        for thread in self.threads:
            thread.start()
        time.sleep(span)
        self.ended.set()
        for thread in self.threads:
            thread.join()
        return sum(self.done)


class Drives(unittest.TestCase):
    def load(self, directories):
        """What clients get done with so many directories: uploads, syncs, and how many of these overlapped."""
        with Weather() as disk, Storage(started=False, environment=disk.environment) as storage:
            names = [os.path.join(storage.home, f"drive{i}") for i in range(directories)]
            storage.settings["storage.data_dirs"] = ",".join(names)
            storage.start()
            homes = [one["home_shard"] for one in storage.status()["data_dirs"]]
            self.assertEqual(homes, list(range(directories)))
            disk.set(sync_delay_ms=5)
            writers = Writers(storage, CLIENTS)
            done = writers.run(SPAN)
            told = done, disk.get("segment_syncs"), disk.get("syncs_together")
            disk.set(sync_delay_ms=0)
            self.assertEqual(writers.problems, [])
            return told

    def test_two_directories_sync_at_the_same_time(self):
        one, one_syncs, one_together = self.load(1)
        two, two_syncs, two_together = self.load(2)
        told = (f"uploads {one} and {two} ({two / one:.2f}), syncs {one_syncs} and {two_syncs} "
                f"({two_syncs / one_syncs:.2f}), together {two_together}")
        if os.environ.get("CAIRN_FIGURES"):
            print(told)
        self.assertEqual(one_together, 0, told)
        # Most syncs of two busy disks overlap; a slow machine gives them less to do.
        self.assertGreater(two_together, two_syncs / 5, told)
        self.assertGreater(two, one * 1.1, told)


if __name__ == "__main__":
    unittest.main()
