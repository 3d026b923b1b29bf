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
from storage_server import Storage, cairn

SIZE = 16  # of an object
CLIENTS = 8


def free(place):
    about = os.statvfs(place)
    return about.f_bavail * about.f_frsize


def reserve_of(storage):
    return os.path.join(storage.data, "storage", "segments", "reserve")


@unittest.skipUnless(os.geteuid() == 0, "mounts a small disk")
class SmallObjects(unittest.TestCase):
    def setUp(self):
        self.mount = tempfile.mkdtemp(prefix="cairn-small-")
        self.addCleanup(os.rmdir, self.mount)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", self.mount], check=True)
        self.addCleanup(subprocess.run, ["umount", self.mount], check=True)

    def fill_as_another(self):
        """Unbuffered, so that nothing is left to be written when it is closed. Down to the last block."""
        with open(os.path.join(self.mount, "filler"), "ab", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 12))

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
            self.fill_as_another()
            self.assertTrue(os.path.exists(reserve_of(storage)), "nobody needed it yet")
            storage.kill()
            storage.start()
            self.assertEqual(storage.ask_openly("GET", f"/o/{stored[0]}").status, 200)
            self.assertFalse(storage.ask_openly("GET", "/readyz").json()["write_ready"])
            self.empty(storage, stored)
            os.remove(os.path.join(self.mount, "filler"))
            self.assert_usable(storage)

    def test_a_start_serves_a_disk_on_which_nothing_is_left_not_even_the_reserve(self):
        with Storage(directory=os.path.join(self.mount, "data")) as storage:
            stored = self.fill(storage, until=lambda: free(self.mount) < 24 << 20)
            storage.kill()
            os.remove(reserve_of(storage))
            self.fill_as_another()
            storage.start()
            self.assertEqual(storage.ask_openly("GET", f"/o/{stored[0]}").status, 200)
            self.assertFalse(storage.ask_openly("GET", "/readyz").json()["write_ready"])
            os.remove(os.path.join(self.mount, "filler"))
            self.empty(storage, stored)
            self.assert_usable(storage)


@unittest.skipUnless(os.geteuid() == 0, "mounts a small disk")
class NoFiles(unittest.TestCase):
    """A disk that has bytes left, and no inode."""

    def mount(self, size, files):
        self.place = tempfile.mkdtemp(prefix="cairn-files-")
        self.addCleanup(os.rmdir, self.place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={files}", "tmpfs", self.place], check=True)
        self.addCleanup(subprocess.run, ["umount", self.place], check=True)
        self.data = os.path.join(self.place, "data")

    def take_all_files(self):
        others = os.path.join(self.place, "others")
        os.makedirs(others, exist_ok=True)
        with contextlib.suppress(OSError):
            for i in range(len(os.listdir(others)), 10_000):
                open(os.path.join(others, str(i)), "x").close()
        self.assertEqual(os.statvfs(self.place).f_favail, 0)

    def readiness(self, storage):
        answer = storage.ask_openly("GET", "/readyz")
        return answer.status, answer.json()["write_ready"]

    def assert_reads_and_deletes(self, storage, kept, doomed):
        self.assertEqual(self.readiness(storage), (200, False))
        self.assertEqual(storage.ask_openly("GET", f"/o/{kept}").status, 200)
        answer = storage.ask("POST", "/o", b"one more")
        self.assertEqual((answer.status, answer.error()["code"]), (507, "storage_full"), answer)
        self.assertEqual(storage.ask("DELETE", f"/o/{doomed}").status, 204)
        self.assertEqual(storage.ask_openly("GET", f"/o/{doomed}").status, 404)

    def test_when_others_take_every_file_reads_and_deletes_go_on_after_a_kill(self):
        self.mount("128m", 200)
        chance = random.Random("files")
        with Storage(directory=self.data) as storage:
            stored = [storage.post(chance.randbytes(1000)) for _ in range(100)]
            self.assertEqual(self.readiness(storage), (200, True))
            # A small disk is not a full one.
            told = cairn("doctor", "--data", self.data)
            self.assertEqual((told.returncode, "507" in told.stdout), (0, False), told.stdout)
            self.take_all_files()
            wire.poll(lambda: self.readiness(storage) == (200, False), "it knows before a write is refused")
            told = cairn("doctor", "--data", self.data)
            self.assertEqual(told.returncode, 1, told.stdout)
            self.assertIn(f"{self.data}/storage is full, of bytes or of files: writes are refused (507)", told.stdout)
            self.assertRegex(told.stdout, "warn +space .* 0 files of 200")
            self.assert_reads_and_deletes(storage, stored[0], stored[1])
            storage.kill()
            storage.start()
            self.assert_reads_and_deletes(storage, stored[0], stored[2])
            self.assertEqual(storage.ask_openly("GET", f"/o/{stored[1]}").status, 404)
            storage.kill()
            storage.start()
            self.assert_reads_and_deletes(storage, stored[0], stored[3])
            subprocess.run(["rm", "-r", os.path.join(self.place, "others")], check=True)
            wire.poll(lambda: self.readiness(storage) == (200, True), "there is room again")
            self.assertEqual(storage.ask("POST", "/o", b"one more").status, 201)

    def test_the_doctor_says_that_a_file_system_cannot_be_written_to(self):
        self.mount("64m", 200)
        with Storage(directory=self.data) as storage:
            self.assertEqual(storage.stop(), 0)
        subprocess.run(["mount", "-o", "remount,ro", self.place], check=True)
        told = cairn("doctor", "--data", self.data)
        self.assertEqual(told.returncode, 1, told.stdout)
        self.assertRegex(told.stdout, "fail +space .* cannot be written to")

    def test_its_own_files_leave_enough_to_start_and_to_be_emptied(self):
        self.mount("64m", 110)
        chance = random.Random("own files")
        with Storage(directory=self.data) as storage:
            stored = []
            while (answer := storage.ask("POST", "/o", chance.randbytes(700_000))).status == 201:
                stored.append(answer.json()["address"])
            self.assertEqual((answer.status, answer.error()["code"]), (507, "storage_full"), answer)
            self.assertGreater(free(self.place), 20 << 20, "it was the files")
            wire.poll(lambda: self.readiness(storage) == (200, False), "it says so")
            storage.kill()
            storage.start()
            self.assert_reads_and_deletes(storage, stored[0], stored.pop())
            for address in stored:
                self.assertEqual(storage.ask("DELETE", f"/o/{address}").status, 204)
            wire.poll(lambda: storage.ask("POST", "/o", b"there is room").status == 201, "there is room again")

    def test_a_start_that_finds_no_file_to_make_names_the_directory(self):
        self.mount("64m", 200)
        with Storage(directory=self.data) as storage:
            storage.kill()
            segments = os.path.join(self.data, "storage", "segments")
            for name in os.listdir(segments):
                if name.startswith("reserve"):
                    os.unlink(os.path.join(segments, name))
            self.take_all_files()
            storage.spawn()
            self.assertEqual(storage.process.wait(60), 1)
            self.assertRegex(storage.log(), f"storage cannot start: {self.data}/storage: .*storage_full")
            storage.code = 1


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
