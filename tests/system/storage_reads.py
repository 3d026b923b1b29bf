"""Reading objects: ranges, conditions and the fields of the answer, from the disk and from memory."""

import random
import re
import unittest

from storage_server import GROUP, PART, Storage, StorageTest

SIZE = 2 * PART + 3 * GROUP + 1000
CONTENT = random.Random("reads").randbytes(SIZE)
SMALL = CONTENT[:5000]


def parse_multipart(answer):
    """[(content type, first, last, size, bytes)], with every byte of the body accounted for."""
    boundary = re.fullmatch(r'multipart/byteranges; ?boundary="?([^"; ]{1,70})"?', answer.get("Content-Type"))[1].encode()
    body, found = answer.body, []
    body = body.removeprefix(b"\r\n")
    while True:
        if not body.startswith(b"--" + boundary):
            raise AssertionError(f"no boundary at {body[:100]!r}")
        body = body[2 + len(boundary):]
        if body.startswith(b"--"):
            if body not in (b"--", b"--\r\n"):
                raise AssertionError(f"bytes behind the end: {body[:100]!r}")
            return found
        head, body = body[2:].split(b"\r\n\r\n", 1)
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        first, last, size = map(int, re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", fields["Content-Range"]).groups())
        content, body = body[:last - first + 1], body[last - first + 1:]
        found.append((fields.get("Content-Type"), first, last, size, content))
        if not body.startswith(b"\r\n"):
            raise AssertionError(f"a part goes on after its end: {body[:50]!r}")
        body = body[2:]


class Reads(StorageTest):
    settings = {"limits.max_body_bytes": "16MiB"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.address = cls.storage.post(CONTENT, Content_Type="image/png")
        cls.small = cls.storage.post(SMALL, Content_Type="text/plain; charset=utf-8")
        cls.empty = cls.storage.post(b"")

    def get(self, address=None, method="GET", **fields):
        return self.storage.ask_openly(method, f"/o/{address or self.address}", **fields)

    def twice(self):
        """Once as it comes, once from memory."""
        yield "first"
        yield "again"

    def assert_object_fields(self, answer, address, content_type):
        self.assertEqual(answer.get("ETag"), f'"{address}"')
        self.assertEqual(answer.get("Accept-Ranges"), "bytes")
        self.assertEqual(answer.get("Cache-Control"), "public, max-age=31536000, immutable")
        self.assertEqual(answer.get("Vary"), "Accept-Encoding")
        if content_type:
            self.assertEqual(answer.get("Content-Type"), content_type)

    def test_the_fields_of_whole_objects(self):
        for address, content, kind in ((self.address, CONTENT, "image/png"), (self.small, SMALL, "text/plain; charset=utf-8"),
                                       (self.empty, b"", "application/octet-stream")):
            for round in self.twice():
                for method in ("GET", "HEAD"):
                    with self.subTest(size=len(content), round=round, method=method):
                        answer = self.get(address, method)
                        self.assertEqual((answer.status, answer.get("Content-Length")), (200, str(len(content))))
                        self.assertEqual(answer.body == content, method == "GET" or not content)
                        self.assert_object_fields(answer, address, kind)

    def test_the_type_is_that_of_the_first_writer(self):
        address = self.storage.post(b"typed", Content_Type="text/css")
        self.storage.post(b"typed", Content_Type="text/html")
        self.assertEqual(self.get(address).get("Content-Type"), "text/css")

    def test_one_range(self):
        last = SIZE - 1
        cases = {"bytes=0-0": (0, 0), "bytes=0-": (0, last), f"bytes={last}-": (last, last), "bytes=-1": (last, last),
                 f"bytes=-{SIZE + 5}": (0, last), "bytes=-1000": (SIZE - 1000, last), f"bytes=0-{SIZE * 2}": (0, last),
                 f"bytes={GROUP - 1}-{GROUP}": (GROUP - 1, GROUP), f"bytes={GROUP}-{GROUP}": (GROUP, GROUP),
                 f"bytes={PART - 1}-{PART}": (PART - 1, PART), f"bytes={PART - GROUP - 1}-{PART + GROUP}": (PART - GROUP - 1, PART + GROUP),
                 f"bytes=100-{2 * PART + 5}": (100, 2 * PART + 5), "bytes= 5-9": (5, 9)}
        chance = random.Random(3)
        for _ in range(20):
            first, end = sorted(chance.sample(range(SIZE), 2))
            cases[f"bytes={first}-{end}"] = (first, end)
        for text, (first, end) in cases.items():
            for round in self.twice():
                with self.subTest(range=text, round=round):
                    answer = self.get(Range=text)
                    self.assertEqual((answer.status, answer.get("Content-Range")), (206, f"bytes {first}-{end}/{SIZE}"))
                    self.assertTrue(answer.body == CONTENT[first:end + 1])
                    self.assert_object_fields(answer, self.address, "image/png")

    def test_several_ranges(self):
        chance = random.Random(4)
        for count in range(2, 9):
            ranges = []
            while len(ranges) < count:
                first = chance.randrange(SIZE - 70000)
                candidate = (first, first + chance.choice([0, 9, 999, 66000]))
                if all(candidate[1] < a or b < candidate[0] for a, b in ranges):
                    ranges.append(candidate)
            answer = self.get(Range="bytes=" + ",".join(f"{a}-{b}" for a, b in ranges))
            with self.subTest(count=count):
                self.assertEqual(answer.status, 206)
                self.assert_object_fields(answer, self.address, None)
                self.assertIsNone(answer.get("Content-Range"))
                self.assertEqual([part[:4] for part in parse_multipart(answer)],
                                 [("image/png", a, b, SIZE) for a, b in ranges])
                self.assertTrue(all(part[4] == CONTENT[part[1]:part[2] + 1] for part in parse_multipart(answer)))

    def test_of_several_ranges_only_those_that_touch_the_object(self):
        answer = self.get(self.small, Range="bytes=0-1,9000-9001,-2")
        self.assertEqual([part[1:3] for part in parse_multipart(answer)], [(0, 1), (4998, 4999)])
        answer = self.get(self.small, Range="bytes=9000-9001,3-4")
        self.assertEqual((answer.status, answer.get("Content-Range"), answer.body), (206, "bytes 3-4/5000", SMALL[3:5]))

    def test_ranges_that_are_not_answered(self):
        nine = "bytes=" + ",".join(f"{i}-{i}" for i in range(0, 18, 2))
        for text in (nine, "bytes=0-100,0-100,0-100,0-100", "lines=1-2", "bytes=5-2", "bytes=x-y", "bytes=", "bytes=-", "5-9"):
            with self.subTest(range=text):
                answer = self.get(self.small, Range=text)
                self.assertEqual((answer.status, answer.get("Content-Range"), answer.body), (200, None, SMALL))

    def test_unsatisfiable_ranges(self):
        for text in (f"bytes={SIZE}-", f"bytes={SIZE}-{SIZE + 5}", "bytes=-0", f"bytes={SIZE}-,{SIZE + 9}-"):
            for round in self.twice():
                with self.subTest(range=text, round=round):
                    answer = self.get(Range=text)
                    self.assert_error(answer, 416, "range_not_satisfiable")
                    self.assertEqual(answer.get("Content-Range"), f"bytes */{SIZE}")
                    self.assertNotIn("immutable", answer.get("Cache-Control") or "")
        self.assertEqual(self.get(self.empty, Range="bytes=0-0").status, 416)

    def test_if_none_match(self):
        tag = f'"{self.address}"'
        for value in (tag, "*", f'"other", {tag}', f"W/{tag}"):
            for method in ("GET", "HEAD"):
                for round in self.twice():
                    with self.subTest(value=value, method=method, round=round):
                        answer = self.get(method=method, If_None_Match=value)
                        self.assertEqual(answer.status, 304)
                        self.assert_object_fields(answer, self.address, None)
        self.assertEqual(self.get(self.small, If_None_Match='"other"').body, SMALL)
        self.assertEqual(self.get(self.small, If_None_Match=tag).status, 200)

    def test_if_match(self):
        for value, status in ((f'"{self.small}"', 200), ("*", 200), ('"other"', 412), (f'W/"{self.small}"', 412)):
            for round in self.twice():
                with self.subTest(value=value, round=round):
                    answer = self.get(self.small, If_Match=value)
                    self.assertEqual(answer.status, status)
                    if status == 412:
                        self.assertEqual(answer.error()["code"], "precondition_failed")
        self.assertEqual(self.get(self.small, If_Match='"other"', Range="bytes=0-1").status, 412)

    def test_if_range(self):
        for value, status in ((f'"{self.small}"', 206), ('"other"', 200), (f'W/"{self.small}"', 200),
                              ("Sun, 06 Nov 1994 08:49:37 GMT", 200)):
            with self.subTest(value=value):
                answer = self.get(self.small, Range="bytes=10-19", If_Range=value)
                self.assertEqual((answer.status, answer.body), (status, SMALL[10:20] if status == 206 else SMALL))

    def test_what_is_not_there(self):
        absent = "b3:" + "0" * 64
        self.assert_error(self.get(absent), 404, "not_found")
        self.assertEqual(self.get(absent, "HEAD").status, 404)
        self.assert_error(self.get(absent, Range="bytes=0-1"), 404, "not_found")
        self.assert_error(self.storage.ask_openly("GET", f"/o/{absent}/proof"), 404, "not_found")
        answer = self.storage.ask("POST", f"/o/{absent}", b"")
        self.assert_error(answer, 405, "method_not_allowed")
        self.assertTrue({"GET", "HEAD", "PUT", "DELETE"} <= set(re.split(", *", answer.get("Allow"))))

    def test_a_read_again_comes_from_memory(self):
        self.get(self.small)
        before = self.storage.metrics()
        for _ in range(5):
            self.assertEqual(self.get(self.small).body, SMALL)
        after = self.storage.metrics()
        self.assertEqual(after["chunks_read_total"], before["chunks_read_total"])
        self.assertEqual(after["cache_hits_total"], before["cache_hits_total"] + 5)
        self.assertEqual(after["bytes_out_total"], before["bytes_out_total"] + 5 * len(SMALL))

    def test_pipelined_reads_come_in_order(self):
        request = "GET /o/{} HTTP/1.1\r\nHost: localhost\r\n{}\r\n"
        wanted = [(self.small, "", SMALL), (self.address, f"Range: bytes=7-{GROUP * 3}\r\n", CONTENT[7:GROUP * 3 + 1]),
                  (self.empty, "", b""), (self.address, "", CONTENT), (self.small, "Range: bytes=-3\r\n", SMALL[-3:])]
        with self.storage.connect() as connection:
            connection.send("".join(request.format(address, fields) for address, fields, _ in wanted).encode())
            for _, _, content in wanted:
                self.assertTrue(connection.read().body == content)


class AfterARestart(unittest.TestCase):
    def test_everything_is_as_it_was(self):
        with Storage({"limits.max_body_bytes": "16MiB"}) as storage:
            addresses = {storage.post(CONTENT[:size], Content_Type="text/x"): size for size in (0, 1, GROUP + 1, PART + 1, SIZE)}
            pinned = next(iter(addresses))
            storage.ask("PUT", f"/pins/{pinned}")
            listed = storage.ask("GET", "/o").json()
            storage.restart()
            for address, size in addresses.items():
                answer = storage.ask_openly("GET", f"/o/{address}")
                self.assertEqual((answer.status, answer.get("Content-Type"), answer.body == CONTENT[:size]), (200, "text/x", True))
            self.assertEqual(storage.ask("GET", "/o").json(), listed)
            self.assertEqual(storage.ask("DELETE", f"/o/{pinned}").status, 409)
