"""Bad things and their answers, of what clients send: each test carries the line it is about."""

import gzip
import os
import random
import re
import subprocess
import unittest

import wire
from storage_races import together
from storage_server import GROUP, MIB, PART, Storage, StorageTest, b3sum

CHANCE = random.Random("bad bodies")


def peak(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]) * 1024


def packed(program, content):
    return subprocess.run(program, input=content, capture_output=True, check=True).stdout


class BadBodies(StorageTest):
    settings = {"limits.max_body_bytes": "16MiB", "limits.decoded_bytes": "16MiB", "timeouts.read": "2s"}

    def assert_nothing_kept(self, *contents):
        for address in b3sum(*contents):
            self.assert_error(self.storage.ask_openly("GET", f"/o/{address}"), 404, "not_found")
        # What arrived of a broken body is dropped after its answer.
        wire.poll(lambda: self.storage.status()["uploads"] == 0, "no upload is left")
        self.assertEqual(self.storage.status()["objects"], self.objects_before)

    def setUp(self):
        super().setUp()
        wire.poll(lambda: self.storage.status()["uploads"] == 0, "the last test's uploads are gone")
        self.objects_before = self.storage.status()["objects"]

    def test_a_truncated_body_is_400_and_nothing_is_kept(self):
        for size, sent in ((1000, 0), (1000, 999), (PART, GROUP + 1), (6 * PART, 3 * PART + 7)):
            content = CHANCE.randbytes(size)
            [address] = b3sum(content)
            for target, method in ((f"/o/{address}", "PUT"), ("/o", "POST")):
                with self.subTest(size=size, sent=sent, method=method), self.storage.connect() as connection:
                    whole = wire.request(method, target, content, **self.storage.bearer())
                    connection.send(whole[:len(whole) - size + sent]).finish_sending()
                    self.assert_error(connection.read(), 400, "malformed")
                    connection.expect_end()
                    self.assert_nothing_kept(content, content[:sent])

    def test_a_truncated_chunked_body_is_400_and_nothing_is_kept(self):
        content = CHANCE.randbytes(2 * PART + 5)
        whole = wire.head("POST /o HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked",
                          f"Authorization: Bearer {self.storage.token}") + wire.chunked(content[:PART], content[PART:])
        for cut in (5, 7, PART // 2, PART + 100):
            with self.subTest(cut=cut), self.storage.connect() as connection:
                connection.send(whole[:-cut]).finish_sending()
                self.assert_error(connection.read(), 400, "malformed")
                self.assert_nothing_kept(content, content[:PART])

    def test_a_client_that_goes_away_in_the_middle_leaves_nothing(self):
        content = CHANCE.randbytes(4 * PART)
        whole = wire.request("POST", "/o", content, **self.storage.bearer())
        with self.storage.connect() as connection:
            connection.send(whole[:3 * PART])
            wire.poll(lambda: self.storage.status()["uploads"] > 0, "it is being taken in")
        self.assert_nothing_kept(content)

    def test_a_client_that_stops_sending_is_408_and_nothing_is_kept(self):
        content = CHANCE.randbytes(3 * PART)
        whole = wire.request("POST", "/o", content, **self.storage.bearer())
        with self.storage.connect() as connection:
            connection.send(whole[:2 * PART])
            self.assert_error(connection.read(), 408, "timeout_read")
        self.assert_nothing_kept(content)

    def test_a_truncated_part_is_400_and_is_not_there(self):
        begun = self.storage.ask("POST", "/uploads", b'{"size":1000}').json()["id"]
        whole = wire.request("PATCH", f"/uploads/{begun}", b"x" * 1000, Upload_Offset=0, **self.storage.bearer())
        with self.storage.connect() as connection:
            connection.send(whole[:-1]).finish_sending()
            self.assert_error(connection.read(), 400, "malformed")
        self.assertEqual(self.storage.ask("HEAD", f"/uploads/{begun}").get("Upload-Missing"), "0-999")
        self.assertEqual(self.storage.ask("DELETE", f"/uploads/{begun}").status, 204)

    def test_a_wrong_address_is_409_and_nothing_is_kept(self):
        for size in (0, 1, 1000, PART, 3 * PART + 5):
            content = CHANCE.randbytes(size)
            wrong = b3sum(content + b"x")[0]
            with self.subTest(size=size):
                self.assert_error(self.storage.ask("PUT", f"/o/{wrong}", content), 409, "conflict")
                self.assert_nothing_kept(content, content + b"x")

    def test_encoded_bodies_are_decoded_before_they_are_hashed(self):
        content = b"".join(b"%d %d\n" % (i, CHANCE.randrange(10**6)) for i in range(20000))
        [address] = b3sum(content)
        for coding, raw in (("gzip", gzip.compress(content)), ("br", packed(["brotli", "-c", "-q", "4", "--lgwin=23"], content)),
                            ("zstd", packed(["zstd", "-c", "-q"], content))):
            with self.subTest(coding):
                answer = self.storage.ask("PUT", f"/o/{address}", raw, Content_Encoding=coding)
                self.assertEqual(answer.status, 201, answer)
                self.assertTrue(self.storage.ask_openly("GET", f"/o/{address}").body == content)
                self.assertEqual(self.storage.ask("DELETE", f"/o/{address}").status, 204)
        self.assert_error(self.storage.ask("POST", "/o", b"x", Content_Encoding="compress"), 415, "unsupported_type")

    def test_a_truncated_encoded_body_is_400_and_nothing_is_kept(self):
        content = CHANCE.randbytes(100000)
        for coding, raw in (("gzip", gzip.compress(content)), ("br", packed(["brotli", "-c", "-q", "1", "--lgwin=23"], content)),
                            ("zstd", packed(["zstd", "-c", "-q"], content))):
            for cut in (1, len(raw) // 2):
                with self.subTest(coding=coding, cut=cut):
                    answer = self.storage.ask("POST", "/o", raw[:-cut], Content_Encoding=coding)
                    self.assert_error(answer, 400, "malformed")
                    self.assert_nothing_kept(content)

    def test_a_zip_bomb_is_413_within_the_caps_memory(self):
        zeros = bytes(200 * MIB)
        bombs = {"gzip": gzip.compress(zeros), "br": packed(["brotli", "-c", "-q", "4", "--lgwin=23"], zeros), "zstd": packed(["zstd", "-c", "-q"], zeros)}
        rejected = lambda: sum(value for name, value in self.storage.metrics().items() if name.startswith("decompress_reject_total"))
        before, counted = peak(self.storage.pid), rejected()
        for coding, raw in bombs.items():
            for _ in range(5):
                with self.subTest(coding=coding, size=len(raw)):
                    answer = self.storage.ask("POST", "/o", raw, Content_Encoding=coding)
                    self.assertEqual(answer.status, 413, answer)
                    self.assertIn(answer.error()["code"], ("decoded_cap", "decoded_ratio"))
        self.assertLess(peak(self.storage.pid) - before, 64 * MIB)
        self.assert_nothing_kept(zeros)
        self.assertEqual(rejected(), counted + 15)

    def test_a_body_that_decodes_to_too_much_is_413_decoded_cap(self):
        line = CHANCE.randbytes(4096)
        raw = gzip.compress(b"".join(line[:CHANCE.randrange(4000)] + CHANCE.randbytes(420) for _ in range(8000)), 6)
        answer = self.storage.ask("POST", "/o", raw, Content_Encoding="gzip")
        self.assert_error(answer, 413, "decoded_cap")

    def test_a_body_over_the_cap_is_413(self):
        whole = wire.request("POST", "/o", bytes(17 * MIB), **self.storage.bearer())
        with self.storage.connect() as connection:
            connection.send(whole[:MIB])
            self.assert_error(connection.read(), 413, "body_cap")


class Stalling(unittest.TestCase):
    def test_a_client_that_stalls_is_cut_at_the_write_timeout_and_its_memory_comes_back(self):
        with Storage({"limits.max_body_bytes": "64MiB", "timeouts.write": "1s", "storage.cache_bytes": "16MiB"}) as storage:
            content = CHANCE.randbytes(40 * MIB)
            address = storage.post(content)
            storage.ask_openly("GET", f"/o/{address}")
            before = storage.resident()
            stalled = [storage.connect(receive_buffer=4096) for _ in range(40)]
            for connection in stalled:
                connection.send(wire.request("GET", f"/o/{address}"))
            wire.poll(lambda: storage.metric('io_timeouts_total{op="write"}') >= 40, "all are cut")
            for connection in stalled:
                with self.assertRaises((wire.Broken, ConnectionResetError)):
                    connection.read()
                connection.close()
            self.assertLess(storage.resident() - before, 32 * MIB)
            self.assertTrue(storage.ask_openly("GET", f"/o/{address}").body == content)


class Abandoned(unittest.TestCase):
    def test_1000_abandoned_uploads_are_bounded_meanwhile(self):
        with Storage() as storage:
            before = storage.resident()

            def begin(count):
                statuses = []
                with storage.connect() as connection:
                    for _ in range(count):
                        answer = connection.ask("POST", "/uploads", b"", **storage.bearer())
                        statuses.append(answer.status)
                        if answer.status != 201:
                            self.assertEqual(answer.error()["code"], "busy")
                            self.assertIsNotNone(answer.get("Retry-After"))
                return statuses
            statuses = sum(together(10, lambda _: begin(420)), [])
            self.assertEqual(set(statuses), {201, 429})
            self.assertEqual(storage.status()["uploads"], statuses.count(201))
            self.assertLessEqual(statuses.count(201), 4096)
            self.assertLess(storage.resident() - before, 64 * MIB)
            # Everything else goes on.
            self.assertEqual(storage.ask("POST", "/o", b"still").status, 201)

    @unittest.skipUnless(os.environ.get("CAIRN_SOAK"), "takes two minutes: the least life of an upload is one")
    def test_1000_abandoned_uploads_are_swept(self):
        with Storage({"uploads.ttl": "1m"}) as storage:
            with storage.connect() as connection:
                for i in range(1000):
                    begun = connection.ask("POST", "/uploads", b"", **storage.bearer()).json()["id"]
                    if i % 10 == 0:
                        connection.ask("PATCH", f"/uploads/{begun}", b"x" * 1000, Upload_Offset=0, **storage.bearer())
            self.assertGreater(storage.status()["uploads"], 0)
            wire.poll(lambda: storage.status()["uploads"] == 0, "all are swept", 150)
            self.assertEqual(storage.ask("HEAD", f"/uploads/{begun}").status, 404)
