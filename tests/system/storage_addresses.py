"""Addresses are BLAKE3 of the bytes, whatever their size and the way they came; b3sum is the judge."""

import os
import random
import tempfile

from storage_server import CHUNK, GROUP, PART, StorageTest, b3sum, cairn

SMALL = [0, 1, 63, 64, 65, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 1,
         5 * CHUNK + 7, GROUP - CHUNK, GROUP - 1, GROUP, GROUP + 1, GROUP + CHUNK, GROUP + CHUNK + 1, 2 * GROUP - 1, 2 * GROUP,
         2 * GROUP + 1, 3 * GROUP, 3 * GROUP + 1, 7 * GROUP + 5, 8 * GROUP + 1, PART - GROUP, PART - GROUP + 1, PART - 1, PART]
LARGE = [PART + 1, PART + CHUNK, PART + GROUP - 1, PART + GROUP, PART + GROUP + 1, 2 * PART - 1, 2 * PART, 2 * PART + 1,
         3 * PART, 3 * PART + GROUP + 1, 4 * PART - 1, 4 * PART, 4 * PART + 1, 5 * PART + 12345, 7 * PART + 1, 8 * PART,
         8 * PART + CHUNK + 1, 10 * PART - 1, 10 * PART]


def make(size, seed):
    return random.Random(f"{seed} {size}").randbytes(size)


class Addresses(StorageTest):
    settings = {"limits.max_body_bytes": "16MiB"}

    def check(self, sizes, seed, store):
        contents = [make(size, seed) for size in sizes]
        for content, address in zip(contents, b3sum(*contents)):
            with self.subTest(size=len(content)):
                answer = store(content, address)
                # The bytes of the empty object are the same whoever made them.
                self.assertIn(answer.status, (200, 201) if not content else (201,), answer)
                self.assertEqual(answer.get("Location"), f"/o/{address}")
                self.assertEqual(answer.json(), {"address": address, "size": len(content)})
                back = self.storage.ask_openly("GET", f"/o/{address}")
                self.assertEqual((back.status, back.get("ETag"), back.body == content), (200, f'"{address}"', True))
                head = self.storage.ask_openly("HEAD", f"/o/{address}")
                self.assertEqual((head.status, head.get("Content-Length")), (200, str(len(content))))

    def test_put_of_one_part(self):
        self.check(SMALL, "put", lambda content, address: self.storage.ask("PUT", f"/o/{address}", content))

    def test_post_of_one_part(self):
        self.check(SMALL, "post", lambda content, _: self.storage.ask("POST", "/o", content))

    def test_put_of_more_where_the_cap_allows_it(self):
        self.check(LARGE[::2], "large put", lambda content, address: self.storage.ask("PUT", f"/o/{address}", content))

    def test_post_of_more_where_the_cap_allows_it(self):
        self.check(LARGE[1::2], "large post", lambda content, _: self.storage.ask("POST", "/o", content))

    def test_uploads_with_parts_in_any_order(self):
        chance = random.Random(7)

        def store(content, address):
            order = list(range(-(-len(content) // PART)))
            chance.shuffle(order)
            said = b'{"address":"%s"}' % address.encode() if chance.random() < 0.5 else None
            return self.storage.upload(content, order, said)
        self.check([1, CHUNK, GROUP + 1, PART - 1, PART, *LARGE], "upload", store)

    def test_the_same_bytes_have_the_same_address_by_every_way_and_are_kept_once(self):
        content = make(2 * PART + 17, "ways")
        [address] = b3sum(content)
        before = self.storage.status()["objects"]
        self.assertEqual(self.storage.upload(content).status, 201)
        self.assertEqual(self.storage.ask("PUT", f"/o/{address}", content).status, 200)
        again = self.storage.ask("POST", "/o", content)
        self.assertEqual((again.status, again.json()["address"]), (200, address))
        self.assertEqual(self.storage.upload(content).status, 200)
        self.assertEqual(self.storage.status()["objects"], before + 1)

    def test_upper_case_hex_is_normalised(self):
        content = make(1000, "case")
        [address] = b3sum(content)
        answer = self.storage.ask("PUT", "/o/b3:" + address[3:].upper(), content)
        self.assertEqual((answer.status, answer.get("Location")), (201, f"/o/{address}"))
        self.assertEqual(self.storage.ask_openly("GET", "/o/b3:" + address[3:].upper()).body, content)

    def test_what_is_no_address_is_malformed(self):
        for wrong in ("b3:", "b3:" + "0" * 63, "b3:" + "0" * 65, "b3:" + "g" * 64, "B3:" + "0" * 64, "0" * 64):
            with self.subTest(wrong):
                self.assert_error(self.storage.ask("GET", f"/o/{wrong}"), 400, "malformed")

    def test_put_and_get_by_the_command_line(self):
        with tempfile.TemporaryDirectory(prefix="cairn-cli-") as directory:
            environment = {"CAIRN_URL": self.storage.url, "CAIRN_CAP": self.storage.token, "HOME": directory}
            for size in (0, 1, GROUP + 1, PART, 3 * PART + 5):
                content = make(size, "cli")
                path = os.path.join(directory, "file")
                with open(path, "wb") as file:
                    file.write(content)
                put = cairn("put", "-q", path, environment=environment)
                self.assertEqual((put.returncode, put.stdout.strip()), (0, b3sum(content)[0]), put.stderr)
                got = cairn("get", put.stdout.strip(), "-o", path + ".back", environment=environment)
                self.assertEqual(got.returncode, 0, got.stderr)
                with open(path + ".back", "rb") as file:
                    self.assertEqual(file.read(), content)
                os.remove(path + ".back")
                cat = cairn("cat", put.stdout.strip(), environment=environment, text=False)
                self.assertEqual((cat.returncode, cat.stdout == content), (0, True), cat.stderr)


class Uploads(StorageTest):
    def begin(self, document=b""):
        answer = self.storage.ask("POST", "/uploads", document)
        self.assertEqual(answer.status, 201, answer)
        self.assertEqual(sorted(answer.json()), ["expires_at", "id"])
        return f"/uploads/{answer.json()['id']}"

    def patch(self, target, offset, content):
        return self.storage.ask("PATCH", target, content, Upload_Offset=offset)

    def test_head_says_what_is_there_and_what_is_missing(self):
        target = self.begin(b'{"size":%d}' % (4 * PART + 5))
        head = self.storage.ask("HEAD", target)
        self.assertEqual((head.get("Upload-Offset"), head.get("Upload-Missing")), ("0", f"0-{4 * PART + 4}"))
        content = make(4 * PART + 5, "missing")
        for index in (0, 2):
            self.assertEqual(self.patch(target, index * PART, content[index * PART:(index + 1) * PART]).status, 204)
        head = self.storage.ask("HEAD", target)
        self.assertEqual(head.get("Upload-Offset"), str(PART))
        self.assertEqual(head.get("Upload-Missing"), f"{PART}-{2 * PART - 1},{3 * PART}-{4 * PART + 4}")
        self.assert_error(self.storage.ask("POST", f"{target}/commit", b""), 409, "upload_gap")
        for index in (4, 3, 1):
            self.assertEqual(self.patch(target, index * PART, content[index * PART:(index + 1) * PART]).status, 204)
        self.assertIsNone(self.storage.ask("HEAD", target).get("Upload-Missing"))
        self.assertEqual(self.storage.ask("POST", f"{target}/commit", b"").json()["address"], b3sum(content)[0])

    def test_a_wrong_address_at_the_commit_is_a_conflict(self):
        target = self.begin()
        self.assertEqual(self.patch(target, 0, b"x" * 100).status, 204)
        wrong = b"b3:" + b"0" * 64
        self.assert_error(self.storage.ask("POST", f"{target}/commit", b'{"address":"%s"}' % wrong), 409, "conflict")
        self.assertEqual(self.storage.ask_openly("GET", f"/o/{b3sum(b'x' * 100)[0]}").status, 404)

    def test_a_part_must_be_aligned_and_of_at_most_one_mebibyte(self):
        target = self.begin()
        for offset in ("1", "65536", "-1", "x", "", str(PART + 1), "9" * 30):
            with self.subTest(offset=offset):
                self.assert_error(self.patch(target, offset, b"x"), 400, "malformed")
        self.assert_error(self.storage.ask("PATCH", target, b"x"), 400, "malformed")
        self.assert_error(self.patch(target, 0, b"x" * (PART + 1)), 413, "body_cap")

    def test_an_ended_upload_is_not_found(self):
        target = self.begin()
        self.assertEqual(self.patch(target, 0, b"x").status, 204)
        self.assertEqual(self.storage.ask("DELETE", target).status, 204)
        self.assertEqual(self.storage.ask("HEAD", target).status, 404)
        self.assert_error(self.patch(target, 0, b"x"), 404, "not_found")
        self.assert_error(self.storage.ask("POST", f"{target}/commit", b""), 404, "not_found")

    def test_a_part_sent_again_replaces_the_first(self):
        target = self.begin()
        for content in (b"first", b"second one"):
            self.assertEqual(self.patch(target, 0, content).status, 204)
        made = self.storage.ask("POST", f"{target}/commit", b"")
        self.assertEqual(made.json()["address"], b3sum(b"second one")[0], made)

    def test_a_commit_said_twice_answers_the_same(self):
        target = self.begin()
        self.assertEqual(self.patch(target, 0, b"twice").status, 204)
        first = self.storage.ask("POST", f"{target}/commit", b"")
        again = self.storage.ask("POST", f"{target}/commit", b"")
        self.assertEqual((first.status, again.status), (201, 200), again)
        self.assertEqual(first.json(), again.json())

    def test_unknown_fields_are_malformed(self):
        self.assert_error(self.storage.ask("POST", "/uploads", b'{"sise":1}'), 400, "malformed")
        self.assert_error(self.storage.ask("POST", f"{self.begin()}/commit", b'{"adress":"x"}'), 400, "malformed")


class Listing(StorageTest):
    def test_pages_prefixes_and_pins(self):
        contents = [b"listed %d" % i for i in range(60)]
        addresses = sorted(self.storage.post(content) for content in contents)
        self.assertEqual(self.storage.ask("PUT", f"/pins/{addresses[7]}").status, 204)
        seen, after = [], ""
        while True:
            page = self.storage.ask("GET", f"/o?limit=7&after={after}").json()
            seen += page["objects"]
            self.assertLessEqual(len(page["objects"]), 7)
            if "next" not in page:
                break
            after = page["next"]
        self.assertEqual([one["address"] for one in seen], addresses)
        self.assertEqual([one["address"] for one in seen if one["pinned"]], [addresses[7]])
        for length in (1, 2, 3, 64):
            prefix = addresses[30][:3 + length]
            found = self.storage.ask("GET", f"/o?prefix={prefix}").json()["objects"]
            self.assertEqual([one["address"] for one in found], [one for one in addresses if one.startswith(prefix)])
        for wrong in ("limit=0", "limit=1001", "limit=x", "after=x", "prefix=xyz", "sort=size"):
            self.assert_error(self.storage.ask("GET", f"/o?{wrong}"), 400, "malformed")

    def test_a_pinned_object_is_not_deleted(self):
        address = self.storage.post(b"pinned")
        self.assertEqual(self.storage.ask("PUT", f"/pins/{address}").status, 204)
        self.assert_error(self.storage.ask("DELETE", f"/o/{address}"), 409, "pinned")
        self.assertEqual(self.storage.ask("DELETE", f"/pins/{address}").status, 204)
        self.assertEqual(self.storage.ask("DELETE", f"/o/{address}").status, 204)
        self.assert_error(self.storage.ask("DELETE", f"/o/{address}"), 404, "not_found")
        self.assert_error(self.storage.ask("PUT", f"/pins/{address}"), 404, "not_found")
