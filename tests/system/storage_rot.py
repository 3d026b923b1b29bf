"""Bad things and their answers, of what disks do: bits that flip, ends that are torn, space that runs out."""

import os
import random
import shutil
import subprocess
import tempfile
import unittest

import wire
from storage_server import GROUP, MIB, PART, Storage, cairn, find_in_files, flip

CHANCE = random.Random("rot")
CHECKSUM = 'integrity_fail_total{reason="checksum"}'


def record_of(storage, content):
    """(path, where its header begins, where its bytes begin) of the record that holds some bytes."""
    [(path, at)] = find_in_files(storage.segments, content[:64])
    with open(path, "rb") as file:
        before = file.read(at)
    return path, before.rindex(b"cnrc"), at


def rest_or_reset(connection):
    """Everything up to the end, however the end comes."""
    got = bytearray()
    try:
        while more := connection.socket.recv(1 << 16):
            got += more
    except ConnectionResetError:
        pass
    return bytes(got)


class Rot(unittest.TestCase):
    def setUp(self):
        self.storage = self.enterContext(Storage({"limits.max_body_bytes": "16MiB"}))

    def assert_rotten(self, address):
        answer = self.storage.ask_openly("GET", f"/o/{address}")
        self.assertEqual((answer.status, answer.error()["code"]), (502, "integrity"), answer)

    def assert_good(self, address, content):
        answer = self.storage.ask_openly("GET", f"/o/{address}")
        self.assertEqual((answer.status, answer.body == content), (200, True))

    def rot(self, *places):
        """Flips a bit of each (path, offset) while the server is down."""
        self.assertEqual(self.storage.stop(), 0)
        for path, offset in places:
            flip(path, offset, CHANCE.randrange(8))
        self.storage.start()

    def test_bit_rot_is_502_never_the_bad_bytes_never_404_and_a_put_heals_it(self):
        contents = [CHANCE.randbytes(size) for size in (100, GROUP, PART, 2 * PART + 500)]
        addresses = [self.storage.post(content) for content in contents]
        bystander = CHANCE.randbytes(1000)
        other = self.storage.post(bystander)
        self.rot(*[(path, at + CHANCE.randrange(min(len(content), 100) - 1))
                   for content in contents for path, _, at in [record_of(self.storage, content)]])
        for content, address in zip(contents, addresses):
            with self.subTest(size=len(content)):
                failures = self.storage.metric(CHECKSUM)
                self.assert_rotten(address)
                self.assertGreater(self.storage.metric(CHECKSUM), failures)
                self.assert_rotten(address)
                ranged = self.storage.ask_openly("GET", f"/o/{address}", Range="bytes=0-9")
                self.assertEqual(ranged.status, 502)
                self.assert_good(other, bystander)
                healed = self.storage.ask("PUT", f"/o/{address}", content)
                self.assertIn(healed.status, (200, 201))
                self.assert_good(address, content)
        self.storage.restart()
        for content, address in zip(contents, addresses):
            self.assert_good(address, content)

    def test_rot_behind_the_first_group_ends_the_answer_short_and_never_with_bad_bytes(self):
        content = CHANCE.randbytes(PART - 5)
        address = self.storage.post(content)
        path, _, at = record_of(self.storage, content)
        bad = 9 * GROUP + 77
        self.rot((path, at + bad))
        failures = self.storage.metric(CHECKSUM)
        with self.storage.connect() as connection:
            connection.send(wire.request("GET", f"/o/{address}"))
            got = rest_or_reset(connection)
        head, body = got.split(b"\r\n\r\n", 1)
        self.assertTrue(head.startswith(b"HTTP/1.1 200") or head.startswith(b"HTTP/1.1 502"), head)
        if head.startswith(b"HTTP/1.1 200"):
            self.assertLess(len(body), bad)
            self.assertTrue(content.startswith(body))
        self.assertGreater(self.storage.metric(CHECKSUM), failures)
        self.assertEqual(self.storage.ask("PUT", f"/o/{address}", content).status // 100, 2)
        self.assert_good(address, content)

    def test_what_is_rotten_is_named_in_the_log_and_counted(self):
        content = CHANCE.randbytes(5000)
        address = self.storage.post(content)
        path, _, at = record_of(self.storage, content)
        self.rot((path, at + 7))
        self.assert_rotten(address)
        wire.poll(lambda: self.storage.status()["quarantined"] == 1, "it is quarantined")
        wire.poll(lambda: address in self.storage.log(), "it is named", 10)
        with tempfile.TemporaryDirectory() as place:
            told = cairn("get", address, "-o", os.path.join(place, "x"), "--url", self.storage.url)
        self.assertEqual((told.returncode, "error[integrity]" in told.stderr), (4, True), told)
        self.assertEqual(self.storage.metric("storage_quarantined"), 1)
        self.storage.restart()
        self.assert_rotten(address)

    def test_the_scrubber_begins_with_the_service(self):
        content = CHANCE.randbytes(PART)
        self.storage.post(content)
        path, _, at = record_of(self.storage, content)
        self.rot((path, at + 1000))
        wire.poll(lambda: self.storage.status()["quarantined"] == 1, "the scrubber found it, unasked")

    def test_the_scrubber_finds_what_nobody_asks_for(self):
        contents = [CHANCE.randbytes(3000) for _ in range(20)]
        addresses = [self.storage.post(content) for content in contents]
        path, _, at = record_of(self.storage, contents[11])
        self.rot((path, at + 2999))
        self.assertEqual(self.storage.ask("POST", "/admin/scrub").status, 202)
        wire.poll(lambda: self.storage.status()["quarantined"] == 1, "the scrubber found it")
        for i, (content, address) in enumerate(zip(contents, addresses)):
            self.assert_rotten(address) if i == 11 else self.assert_good(address, content)

    def test_what_is_whole_again_leaves_quarantine_by_itself(self):
        contents = [CHANCE.randbytes(size) for size in (3000, 2 * PART + 500)]
        addresses = [self.storage.post(content) for content in contents]
        places = [(path, at + 20) for content in contents for path, _, at in [record_of(self.storage, content)]]
        self.assertEqual(self.storage.stop(), 0)
        for path, offset in places:
            flip(path, offset)
        self.storage.start()
        for address in addresses:
            self.assert_rotten(address)
        self.assertEqual(self.storage.status()["quarantined"], 2)
        for path, offset in places:
            flip(path, offset)
        self.assertEqual(self.storage.ask("POST", "/admin/scrub").status, 202)
        wire.poll(lambda: self.storage.status()["quarantined"] == 0, "they are let go")
        for content, address in zip(contents, addresses):
            self.assert_good(address, content)
        self.storage.restart()
        for content, address in zip(contents, addresses):
            self.assert_good(address, content)

    def test_a_pinned_object_that_is_healed_is_pinned(self):
        content = CHANCE.randbytes(3000)
        address = self.storage.post(content)
        self.assertEqual(self.storage.ask("PUT", f"/pins/{address}").status, 204)
        path, _, at = record_of(self.storage, content)
        self.rot((path, at + 5))
        self.assert_rotten(address)
        self.assertEqual(self.storage.ask("PUT", f"/o/{address}", content).status // 100, 2)
        self.assertEqual(self.storage.ask("DELETE", f"/o/{address}").status, 409)

    def test_a_rotten_object_can_be_deleted(self):
        content = CHANCE.randbytes(3000)
        address = self.storage.post(content)
        path, _, at = record_of(self.storage, content)
        self.rot((path, at + 5))
        self.assert_rotten(address)
        self.assertEqual(self.storage.ask("DELETE", f"/o/{address}").status, 204)
        self.assertEqual(self.storage.ask_openly("GET", f"/o/{address}").status, 404)

    def mid_log(self, damage, forget_index):
        contents = [CHANCE.randbytes(CHANCE.choice([200, 5000, GROUP + 9])) for _ in range(30)]
        addresses = [self.storage.post(content) for content in contents]
        path, header, at = record_of(self.storage, contents[14])
        self.assertEqual(self.storage.stop(), 0)
        damage(path, header, at)
        if forget_index:
            shutil.rmtree(os.path.join(self.storage.data, "storage", "index"))
        self.storage.start()
        for i, (content, address) in enumerate(zip(contents, addresses)):
            if i != 14:
                self.assert_good(address, content)
        answer = self.storage.ask_openly("GET", f"/o/{addresses[14]}")
        # Bytes that are still right may be served. An index made anew cannot know of a record that cannot be read.
        self.assertIn(answer.status, (404, 502) if forget_index else (200, 502), answer)
        self.assertTrue(answer.status != 200 or answer.body == contents[14])
        self.assertEqual(self.storage.ask("PUT", f"/o/{addresses[14]}", contents[14]).status // 100, 2)
        self.assert_good(addresses[14], contents[14])
        self.storage.restart()
        for content, address in zip(contents, addresses):
            self.assert_good(address, content)

    def test_rot_in_the_middle_of_the_log_loses_only_that_record(self):
        self.mid_log(lambda path, header, at: flip(path, header + 5), False)

    def test_rot_in_the_middle_of_the_log_loses_only_that_record_when_the_index_is_made_anew(self):
        self.mid_log(lambda path, header, at: flip(path, header + 5), True)

    def test_rot_of_the_meta_in_the_middle_of_the_log_loses_only_that_record(self):
        self.mid_log(lambda path, header, at: flip(path, at - 1), True)

    def test_rot_of_the_bytes_in_the_middle_of_the_log_is_known_when_the_index_is_made_anew(self):
        self.mid_log(lambda path, header, at: flip(path, at + 50), True)

    def test_a_torn_tail_is_cut_and_what_came_before_it_stays(self):
        content = CHANCE.randbytes(5000)
        address = self.storage.post(content)
        self.storage.kill()
        last = sorted(name for name in os.listdir(self.storage.segments) if name.endswith(".seg"))[-1]
        with open(os.path.join(self.storage.segments, last), "ab") as file:
            file.write(b"cnrc" + CHANCE.randbytes(300))
        self.storage.start()
        self.assert_good(address, content)
        self.assertEqual(self.storage.status()["quarantined"], 0)
        more = CHANCE.randbytes(5000)
        after = self.storage.post(more)
        self.storage.kill()
        self.storage.start()
        self.assert_good(address, content)
        self.assert_good(after, more)


class Truncated(unittest.TestCase):
    def test_bytes_that_go_while_they_are_sent_end_the_answer_short_and_the_next_request_works(self):
        with Storage({"limits.max_body_bytes": "64MiB", "storage.cache_bytes": "1MiB", "storage.segment_size": "256MiB"}) as storage:
            small = CHANCE.randbytes(1000)
            kept = storage.post(small)
            content = CHANCE.randbytes(32 * MIB)
            address = storage.post(content)
            storage.restart()
            path, _, at = record_of(storage, content[16 * MIB:])
            with storage.connect(receive_buffer=4096) as connection:
                connection.send(wire.request("GET", f"/o/{address}"))
                got = connection.socket.recv(1000)
                os.truncate(path, at)
                got += rest_or_reset(connection)
            head, body = got.split(b"\r\n\r\n", 1)
            self.assertTrue(head.startswith(b"HTTP/1.1 200"), head)
            self.assertLessEqual(len(body), 16 * MIB)
            self.assertTrue(content.startswith(body))
            self.assertEqual(storage.ask_openly("GET", f"/o/{kept}").body, small)


@unittest.skipUnless(os.geteuid() == 0, "mounts a small disk")
class FullDisk(unittest.TestCase):
    def setUp(self):
        self.mount = tempfile.mkdtemp(prefix="cairn-full-")
        self.addCleanup(os.rmdir, self.mount)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", self.mount], check=True)
        self.addCleanup(subprocess.run, ["umount", self.mount], check=True)

    def test_a_full_disk_is_507_reads_and_deletes_go_on_and_space_comes_back(self):
        with Storage(directory=os.path.join(self.mount, "data")) as storage:
            kept = {}
            while len(kept) < 120:
                content = CHANCE.randbytes(900000)
                answer = storage.ask("POST", "/o", content)
                if answer.status == 507:
                    break
                self.assertEqual(answer.status, 201, answer)
                kept[answer.json()["address"]] = content
            self.assertEqual((answer.status, answer.error()["code"]), (507, "storage_full"))
            self.assertGreater(len(kept), 40)
            wire.poll(lambda: storage.ask_openly("GET", "/readyz").json()["write_ready"] is False, "it says so")
            self.assertEqual(storage.ask_openly("GET", "/readyz").status, 200)
            for address, content in kept.items():
                self.assertTrue(storage.ask_openly("GET", f"/o/{address}").body == content)
            self.assertEqual(storage.ask("POST", "/o", CHANCE.randbytes(900000)).status, 507)
            listed = {one["address"] for one in storage.ask("GET", "/o").json()["objects"]}
            self.assertEqual(listed, set(kept))
            gone = list(kept)[::2]
            for address in gone:
                answer = storage.ask("DELETE", f"/o/{address}")
                self.assertEqual(answer.status, 204, answer)
                self.assertEqual(storage.ask_openly("GET", f"/o/{address}").status, 404)
                del kept[address]
            content = CHANCE.randbytes(900000)
            wire.poll(lambda: storage.ask("POST", "/o", content).status in (200, 201), "there is room again")
            for address, content in kept.items():
                self.assertTrue(storage.ask_openly("GET", f"/o/{address}").body == content)
            storage.restart()
            for address, content in kept.items():
                self.assertTrue(storage.ask_openly("GET", f"/o/{address}").body == content)
            self.assertTrue(all(storage.ask_openly("GET", f"/o/{address}").status == 404 for address in gone))

    def test_an_upload_that_does_not_fit_leaves_nothing_behind(self):
        with Storage({"storage.segment_size": "16MiB"}, os.path.join(self.mount, "data")) as storage, \
                tempfile.TemporaryDirectory(prefix="cairn-large-") as own:
            paths = [os.path.join(own, name) for name in ("large", "small")]
            for path, size in zip(paths, (200 * MIB, 40 * MIB)):
                with open(path, "wb") as file:
                    file.write(CHANCE.randbytes(MIB) * (size // MIB))

            def put(*what, **options):
                return cairn("put", "-q", *what, "--url", storage.url, "--data", storage.data,
                             environment={"XDG_STATE_HOME": own}, **options)

            # A file says its size: nothing of it is sent.
            before = storage.metric("bytes_in_total")
            ended = put(paths[0])
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn("no room", ended.stderr)
            self.assertEqual(storage.metric("bytes_in_total"), before)
            self.assertFalse(storage.status()["data_dirs"][0]["full"])
            # A stream cannot: the disk fills, and what was sent is dropped.
            with open(paths[0], "rb") as stream:
                ended = put("-", stdin=stream)
            self.assertNotEqual(ended.returncode, 0)
            self.assertGreater(storage.metric("bytes_in_total"), before + 20 * MIB)
            status = storage.status()
            self.assertEqual((status["uploads"], status["upload_bytes"]), (0, 0), status)
            wire.poll(lambda: put(paths[1]).returncode == 0, "there is room again", 30)
            # One that nobody dropped is told.
            begun = storage.ask("POST", "/uploads").json()["id"]
            part = CHANCE.randbytes(PART)
            self.assertEqual(storage.ask("PATCH", f"/uploads/{begun}", part, Upload_Offset=0).status, 204)
            told = cairn("status", "--url", storage.url, "--data", storage.data).stdout
            self.assertRegex(told, r"(?m)^uploads +1$")
            self.assertRegex(told, rf"(?m)^upload_bytes +{PART} ")
            self.assertEqual(storage.metric("storage_upload_bytes"), PART)

    def test_a_server_starts_on_a_full_disk_and_reads(self):
        with Storage({"storage.segment_size": "16MiB"}, os.path.join(self.mount, "data")) as storage:
            contents = [CHANCE.randbytes(500000) for _ in range(20)]
            addresses = [storage.post(content) for content in contents]
            self.assertEqual(storage.stop(), 0)
            with open(os.path.join(self.mount, "filler"), "wb") as file:
                try:
                    while True:
                        file.write(bytes(1 << 16))
                        file.flush()
                except OSError:
                    pass
            storage.start()
            for address, content in zip(addresses, contents):
                self.assertTrue(storage.ask_openly("GET", f"/o/{address}").body == content)
            self.assertEqual(storage.ask("DELETE", f"/o/{addresses[0]}").status, 204)
            self.assertEqual(storage.ask_openly("GET", f"/o/{addresses[0]}").status, 404)
            answer = storage.ask("POST", "/o", CHANCE.randbytes(900000))
            self.assertIn(answer.status, (201, 507))
            os.remove(os.path.join(self.mount, "filler"))
            wire.poll(lambda: storage.ask("POST", "/o", b"room").status in (200, 201), "there is room again")


@unittest.skipUnless(os.geteuid() == 0, "mounts a small disk")
class SeveralDirectories(unittest.TestCase):
    def test_when_one_is_full_the_others_take_the_writes(self):
        mount = tempfile.mkdtemp(prefix="cairn-full-")
        self.addCleanup(os.rmdir, mount)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", mount], check=True)
        self.addCleanup(subprocess.run, ["umount", mount], check=True)
        roomy = tempfile.mkdtemp(prefix="cairn-roomy-")
        self.addCleanup(shutil.rmtree, roomy, True)
        places = [os.path.join(mount, "a"), os.path.join(roomy, "b")]
        with Storage({"storage.segment_size": "16MiB", "storage.data_dirs": ",".join(places)}) as storage:
            kept = {}
            for _ in range(120):
                content = CHANCE.randbytes(900000)
                # The one that finds out may be refused, and is asked to come again.
                refused = storage.ask("POST", "/o", content)
                self.assertIn(refused.status, (201, 507))
                kept[storage.post(content)] = content
            used = [one["objects"] for one in storage.status()["data_dirs"]]
            self.assertTrue(all(count > 5 for count in used), used)
            self.assertEqual(sum(used), 120)
            storage.restart()
            for address, content in kept.items():
                self.assertTrue(storage.ask_openly("GET", f"/o/{address}").body == content)
                self.assertEqual(storage.ask("PUT", f"/o/{address}", content).status, 200)
            self.assertEqual({one["address"] for one in storage.ask("GET", "/o").json()["objects"]}, set(kept))
            for address in kept:
                self.assertEqual(storage.ask("DELETE", f"/o/{address}").status, 204)
                self.assertEqual(storage.ask_openly("GET", f"/o/{address}").status, 404)
