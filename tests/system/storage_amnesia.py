"""Amnesia: everything works, and nothing is left behind, on no disk."""

import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import demo
import storage_addresses
import storage_proofs
import storage_reads
import wire
from storage_server import (Connection, GROUP, MIB, PART, StorageTest, b3sum, binary, cairn, free_port_base,
                            open_files)

CHANCE = random.Random("amnesia")


def snapshot(*directories):
    """Every file and directory below, with what would show a change."""
    found = {}
    for top in directories:
        for path, _, names in os.walk(top):
            for name in [".", *names]:
                one = os.path.join(path, name)
                about = os.lstat(one)
                found[one] = (about.st_mode, about.st_size, about.st_mtime_ns, about.st_ino)
    return found


def written(pid):
    with open(f"/proc/{pid}/io") as file:
        return int(re.search(r"^write_bytes: (\d+)", file.read(), re.M)[1])


def writable_files(pid):
    """Regular files a process has open, but for memory."""
    return [target for target, _ in open_files(pid)
            if target.startswith("/") and not target.startswith(("/dev/", "/memfd:", "/proc/"))]


class Up(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cairn-amnesia-")
        self.addCleanup(shutil.rmtree, self.top, True)
        self.places = [os.path.join(self.top, name) for name in ("work", "home", "tmp", "client")]
        for place in self.places:
            os.mkdir(place)

    def start(self, *arguments):
        """In directories of its own; talks through pipes only."""
        base = free_port_base()
        work, home, tmp, _ = self.places
        self.process = subprocess.Popen([binary(), *arguments, "--port-base", str(base)], cwd=work, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=demo.clean_environment({"HOME": home, "TMPDIR": tmp, "XDG_DATA_HOME": "", "XDG_STATE_HOME": "", "XDG_CACHE_HOME": ""}))
        self.addCleanup(self.end)
        lines = []
        while not lines or not lines[-1].startswith("CAIRN_CAP="):
            lines.append(self.process.stdout.readline())
            if not lines[-1]:
                raise AssertionError(f"did not start: {lines} {self.process.stderr.read()}")
        self.token = lines[-1].strip().removeprefix("CAIRN_CAP=")
        self.url = re.search(r"storage +(http://\S+)", "".join(lines))[1]
        self.address = ("127.0.0.1", base + 10)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def ask(self, method, target, body=None, **fields):
        with Connection(self.address) as connection:
            return connection.ask(method, target, body, Authorization=f"Bearer {self.token}", **fields)

    def test_put_and_get_work_and_no_file_is_left_behind(self):
        before = snapshot(*self.places[:3])
        self.start("up", "--amnesia", "--set", "storage.storage.cache_bytes=64MiB")
        contents = [CHANCE.randbytes(size) for size in (0, 1, GROUP + 1, PART)]
        for content in contents:
            self.assertEqual(self.ask("POST", "/o", content).json()["address"], b3sum(content)[0])
        client = self.places[3]
        large = CHANCE.randbytes(5 * PART + 3)
        with open(os.path.join(client, "file"), "wb") as file:
            file.write(large)
        environment = {"CAIRN_URL": self.url, "CAIRN_CAP": self.token, "HOME": client}
        put = cairn("put", "-q", "file", cwd=client, environment=environment)
        self.assertEqual((put.returncode, put.stdout.strip()), (0, b3sum(large)[0]), put.stderr)
        got = cairn("cat", put.stdout.strip(), cwd=client, environment=environment, text=False)
        self.assertTrue(got.stdout == large)
        for content in contents:
            self.assertTrue(self.ask("GET", f"/o/{b3sum(content)[0]}").body == content)
        self.assertEqual(self.ask("GET", "/metrics").body.decode().count("\namnesia_mode 1\n"), 1)
        self.assertEqual(writable_files(self.process.pid), [])
        self.assertEqual(written(self.process.pid), 0)
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(wire.PATIENCE), 0)
        self.assertEqual(snapshot(*self.places[:3]), before)

    def test_when_the_memory_is_full_it_is_507_and_reads_and_deletes_go_on(self):
        self.start("up", "--amnesia", "--set", "storage.storage.cache_bytes=32MiB", "--set", "storage.safety.danger_ok=true",
                   "--set", "storage.server.max_rps=1000000")
        kept = {}
        while len(kept) < 200:
            content = CHANCE.randbytes(500000)
            answer = self.ask("POST", "/o", content)
            if answer.status == 507:
                break
            self.assertEqual(answer.status, 201, answer)
            kept[answer.json()["address"]] = content
        self.assertEqual((answer.status, answer.error()["code"]), (507, "storage_full"))
        self.assertLessEqual(500000 * len(kept), 32 * MIB)
        self.assertGreater(500000 * len(kept), 12 * MIB)
        for address, content in kept.items():
            self.assertTrue(self.ask("GET", f"/o/{address}").body == content)
        for address in list(kept)[::2]:
            self.assertEqual(self.ask("DELETE", f"/o/{address}").status, 204)
            del kept[address]
        wire.poll(lambda: self.ask("POST", "/o", b"room" * 25000).status in (200, 201), "there is room again")
        for address, content in kept.items():
            self.assertTrue(self.ask("GET", f"/o/{address}").body == content)
        self.assertEqual(written(self.process.pid), 0)

    def test_it_forgets(self):
        self.start("up", "--amnesia")
        address = self.ask("POST", "/o", b"forget me").json()["address"]
        first = self.token
        self.end()
        self.start("up", "--amnesia")
        self.assertEqual(self.ask("GET", f"/o/{address}").status, 404)
        with Connection(self.address) as connection:
            self.assertEqual(connection.ask("GET", "/o", Authorization=f"Bearer {first}").status, 401)


class Alone(StorageTest):
    """`amnesia.enabled` says the same as the flag."""
    settings = {"amnesia.enabled": "true", "storage.cache_bytes": "64MiB"}

    def test_no_data_directory_is_made(self):
        self.assertEqual(self.storage.ask("POST", "/o", b"in memory").status, 201)
        self.assertFalse(os.path.exists(self.storage.data))
        self.assertEqual(writable_files(self.storage.pid), [self.storage.log_path])


# The other tests, with nothing on disk.
AMNESIA = {"amnesia.enabled": "true", "storage.cache_bytes": "512MiB", "limits.max_body_bytes": "16MiB"}


class Addresses(storage_addresses.Addresses):
    settings = AMNESIA

    def tearDown(self):
        super().tearDown()
        self.assertFalse(os.path.exists(self.storage.data))


class Reads(storage_reads.Reads):
    settings = AMNESIA


class Proofs(storage_proofs.Proofs):
    settings = AMNESIA
    test_a_proof_outlives_the_process = None
