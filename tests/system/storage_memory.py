"""Large objects: memory stays bounded, and a transfer that was broken off goes on where it was.

CAIRN_LARGE says how large, in MiB (300).
"""

import os
import shutil
import subprocess
import tempfile
import threading
import unittest

import demo
import wire
from storage_server import MIB, PART, Storage, binary, cairn

SIZE = int(os.environ.get("CAIRN_LARGE", "300")) * MIB + 12345
BOUND = 256 * MIB
IN_FLIGHT = 16 * PART  # what may be sent and not yet acknowledged when somebody dies
PATIENCE = 60 + SIZE / MIB  # a bound for a machine under load


class Watch:
    """The largest memory a server had meanwhile."""

    def __init__(self, storage):
        self.storage, self.most, self.ended = storage, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ended.wait(0.05):
            self.most = max(self.most, self.storage.resident())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


class Large(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="cairn-large-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, True)
        cls.path = os.path.join(cls.directory, "large")
        with open(cls.path, "wb") as file:
            for at in range(0, SIZE, MIB):
                file.write(os.urandom(min(MIB, SIZE - at)))
        cls.address = "b3:" + subprocess.run(["b3sum", "--no-names", cls.path], capture_output=True, text=True, check=True).stdout.strip()

    def setUp(self):
        self.storage = self.enterContext(Storage({"storage.cache_bytes": "64MiB"}))
        self.storage.bind = "{}:{}".format(*self.storage.address)  # the same again after a restart
        self.environment = {"CAIRN_URL": self.storage.url, "CAIRN_CAP": self.storage.token, "HOME": tempfile.mkdtemp(dir=self.directory)}

    def put(self):
        return cairn("put", "-q", self.path, environment=self.environment, patience=PATIENCE)

    def assert_put(self):
        put = self.put()
        self.assertEqual((put.returncode, put.stdout.strip()), (0, self.address), put.stderr)

    def received(self):
        return self.storage.metric("bytes_in_total")

    def begin(self):
        """A put of its own process, until a third has arrived."""
        process = subprocess.Popen([binary(), "put", "-q", self.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=demo.clean_environment(self.environment))
        self.addCleanup(self.end, process)
        wire.poll(lambda: self.received() > SIZE / 3 or process.poll() is not None, "a third arrived", PATIENCE)
        self.assertIsNone(process.poll(), "it was over before it could be broken off")
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def test_memory_is_bounded_while_a_large_object_comes_and_goes(self):
        with Watch(self.storage) as coming:
            self.assert_put()
        self.assertLessEqual(coming.most, BOUND)
        self.assertEqual(self.received(), SIZE)
        back = os.path.join(self.directory, "back")
        with Watch(self.storage) as going:
            got = cairn("get", self.address, "-o", back, environment=self.environment, patience=PATIENCE)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(subprocess.run(["cmp", self.path, back]).returncode, 0)
        os.remove(back)
        self.assertLessEqual(going.most, BOUND)
        # The same file again is not sent again.
        self.assert_put()
        self.assertLessEqual(self.received(), SIZE + IN_FLIGHT)

    def test_a_client_killed_midway_goes_on_and_sends_only_what_is_missing(self):
        process = self.begin()
        process.kill()
        process.wait()
        self.assertEqual(self.storage.ask_openly("GET", f"/o/{self.address}").status, 404)
        self.assert_put()
        self.assertLessEqual(self.received(), SIZE + IN_FLIGHT)
        self.assertEqual(self.storage.ask_openly("HEAD", f"/o/{self.address}").get("Content-Length"), str(SIZE))

    def test_after_a_server_was_killed_midway_only_what_is_missing_is_sent(self):
        process = self.begin()
        before = self.received()
        self.storage.kill()
        self.storage.start()
        try:
            process.wait(5)  # it may give up, or find the server again
        except subprocess.TimeoutExpired:
            pass
        self.end(process)
        self.assert_put()
        self.assertLessEqual(self.received(), SIZE - before + IN_FLIGHT)
        self.assertEqual(self.storage.ask_openly("HEAD", f"/o/{self.address}").get("Content-Length"), str(SIZE))
