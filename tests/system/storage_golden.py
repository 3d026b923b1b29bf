"""Data directories that older versions left: each opens, with all that is in it, and takes writes."""

import json
import os
import shutil
import sys
import tarfile
import tempfile
import unittest

import wire
from registry_server import Registry
from storage_server import Storage, cairn

GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden")
sys.path.insert(0, GOLDEN)
from make import PART, content  # noqa: E402


class Golden(unittest.TestCase):
    def unpack(self, name):
        home = tempfile.mkdtemp(prefix="cairn-golden-")
        self.addCleanup(shutil.rmtree, home, True)
        with tarfile.open(os.path.join(GOLDEN, name)) as archive:
            archive.extractall(home)
        with open(os.path.join(home, "expected.json")) as file:
            return os.path.join(home, "data"), json.load(file)

    def each(self):
        names = sorted(name for name in os.listdir(GOLDEN) if name.endswith(".tar.xz"))
        self.assertGreaterEqual(len(names), 1)
        for name in names:
            with self.subTest(name=name):
                yield self.unpack(name)

    def assert_all_there(self, storage, expected):
        for one in expected["objects"]:
            answer = storage.ask_openly("GET", f"/o/{one['address']}")
            self.assertEqual(answer.status, 200, one)
            self.assertTrue(answer.body == content(one["seed"], one["size"]), one)
        for address in expected["removed"]:
            self.assertEqual(storage.ask_openly("GET", f"/o/{address}").status, 404)
        self.assertEqual(storage.ask("DELETE", f"/o/{expected['pinned']}").status, 409)
        ready = storage.ask_openly("GET", "/readyz")
        self.assertEqual((ready.status, ready.json()["write_ready"], ready.json()["degraded"]), (200, True, False), ready)
        status = storage.status()
        self.assertEqual(status["quarantined"], 0)
        for place in status["data_dirs"]:
            self.assertEqual((place["damaged_places"], place["lost_segments"], place["foreign_files"]), (0, 0, 0))
        ended = cairn("doctor", "--json", "--url", storage.url, "--data", storage.data)
        self.assertNotIn('"check":"store","verdict":"fail"', ended.stdout)

    def test_the_storage_of_every_version_opens_with_all_that_is_in_it(self):
        for data, expected in self.each():
            identity = os.path.join(data, "storage", "index", "IDENTITY")
            with open(identity) as file:
                index = file.read()
            with Storage(directory=data) as storage:
                self.assert_all_there(storage, expected)
                with open(identity) as file:
                    self.assertEqual(file.read(), index, "the index was not made anew")
                upload = expected["upload"]
                target, whole = f"/uploads/{upload['id']}", content(upload["seed"], upload["size"])
                answer = storage.ask("PATCH", target, whole[upload["has"]:], Upload_Offset=upload["has"])
                self.assertEqual(answer.status, 204, answer)
                made = storage.ask("POST", f"{target}/commit", b"")
                self.assertEqual(made.status, 201, made)
                fresh = storage.post(b"written by a later version")
                storage.restart()
                self.assert_all_there(storage, expected)
                self.assertEqual(storage.ask_openly("GET", f"/o/{made.json()['address']}").body, whole)
                self.assertEqual(storage.ask_openly("GET", f"/o/{fresh}").body, b"written by a later version")

    def test_the_storage_of_every_version_makes_its_index_anew(self):
        for data, expected in self.each():
            shutil.rmtree(os.path.join(data, "storage", "index"))
            with Storage(directory=data) as storage:
                self.assert_all_there(storage, expected)

    def test_the_registry_of_every_version_opens_verifies_and_goes_on(self):
        for data, expected in self.each():
            with Registry(directory=data, signers=(), started=False) as registry:
                registry.signers = ("a",)
                registry.load_keys()
                registry.start()
                self.assertEqual(registry.head()["version"], expected["registry"]["head"])
                self.assertIn(expected["registry"]["title"], [item.get("title") for item in registry.items()])
                registry.verify()
                registry.change(registry.next_items())
                self.assertEqual(registry.head()["version"], expected["registry"]["head"] + 1)
                registry.verify()
