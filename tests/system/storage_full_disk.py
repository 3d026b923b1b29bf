"""A small disk full of small objects: deletes go on in any order, a start serves it, and all the room comes back. The index
is as large as what is stored there, so what RocksDB takes for itself decides."""

import concurrent.futures
import contextlib
import os
import random
import resource
import subprocess
import tempfile
import threading
import unittest

import wire
from storage_server import Storage

SIZE = 16  # of an object
CLIENTS = 8


def free(place):
    about = os.statvfs(place)
    return about.f_bavail * about.f_frsize


@unittest.skipUnless(os.geteuid() == 0, "mounts a small disk")
class SmallObjects(unittest.TestCase):
    def setUp(self):
        self.mount = tempfile.mkdtemp(prefix="cairn-small-")
        self.addCleanup(os.rmdir, self.mount)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", self.mount], check=True)
        self.addCleanup(subprocess.run, ["umount", self.mount], check=True)

    def fill(self, storage, until=lambda: False):
        """What was stored when the first was refused, or `until` said so."""
        stored, full = [], threading.Event()

        def put(seed):
            chance, own = random.Random(seed), []
            with storage.connect() as connection:
                while not full.is_set() and not until():
                    answer = connection.ask("POST", "/o", chance.randbytes(SIZE), Authorization=f"Bearer {storage.token}")
                    if answer.status == 507:
                        full.set()
                    else:
                        self.assertEqual(answer.status, 201, answer)
                        own.append(answer.json()["address"])
            return own

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            for own in clients.map(put, range(CLIENTS)):
                stored += own
        return stored

    def empty(self, storage, addresses):
        """Every one is deleted, however often it takes; only `busy` is a reason to ask again."""
        random.Random("order").shuffle(addresses)

        def remove(own):
            with storage.connect() as connection:
                for address in own:
                    while True:
                        answer = connection.ask("DELETE", f"/o/{address}", Authorization=f"Bearer {storage.token}")
                        if answer.status == 204:
                            break
                        self.assertEqual((answer.status, answer.error()["code"]), (429, "busy"), answer)

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(remove, [addresses[i::CLIENTS] for i in range(CLIENTS)]))

    def assert_usable(self, storage):
        wire.poll(lambda: storage.ask("POST", "/o", b"there is room").status in (200, 201), "there is room again")
        status = storage.status()["data_dirs"][0]
        self.assertEqual((status["objects"], status["fenced"], status["index"]), (1, False, "ok"))
        wire.poll(lambda: storage.status()["data_dirs"][0]["log_bytes"] < 4 << 20, "the segments are gone")

    def test_a_disk_full_of_small_objects_is_emptied_after_a_kill(self):
        with Storage(directory=os.path.join(self.mount, "data")) as storage:
            stored = self.fill(storage)
            self.assertGreater(len(stored), 40_000)
            storage.kill()
            storage.start()
            self.assertEqual(storage.ask_openly("GET", f"/o/{stored[0]}").status, 200)
            self.empty(storage, stored)
            self.assert_usable(storage)
            storage.restart()
            self.assert_usable(storage)

    def test_a_disk_that_another_program_filled_is_emptied(self):
        with Storage(directory=os.path.join(self.mount, "data")) as storage:
            stored = self.fill(storage, until=lambda: free(self.mount) < 16 << 20)
            self.assertGreater(len(stored), 10_000)
            # Unbuffered, so that nothing is left to be written when it is closed.
            with open(os.path.join(self.mount, "filler"), "wb", buffering=0) as file:
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(1 << 14))
            storage.kill()
            storage.start()
            self.assertEqual(storage.ask_openly("GET", f"/o/{stored[0]}").status, 200)
            self.assertFalse(storage.ask_openly("GET", "/readyz").json()["write_ready"])
            self.empty(storage, stored)
            os.remove(os.path.join(self.mount, "filler"))
            self.assert_usable(storage)


class LimitedFiles(unittest.TestCase):
    def test_a_file_that_may_not_grow_is_a_full_disk_and_not_the_end(self):
        with Storage() as storage:
            kept = storage.post(b"before")
            _, hard = resource.prlimit(storage.pid, resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
            answer = storage.ask("POST", "/o", random.Random("limit").randbytes(900_000))
            self.assertEqual((answer.status, answer.error()["code"]), (507, "storage_full"), answer)
            self.assertEqual(storage.ask_openly("GET", f"/o/{kept}").body, b"before")
            resource.prlimit(storage.pid, resource.RLIMIT_FSIZE, (hard, hard))
            wire.poll(lambda: storage.ask("POST", "/o", b"after").status in (200, 201), "it goes on")
