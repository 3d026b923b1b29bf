"""Proofs of byte ranges, verified by code that shares nothing with the server's."""

import random

import storage_blake3
from storage_blake3 import Proof, Wrong
from storage_server import CHUNK, GROUP, PART, StorageTest, b3sum

CONTENT = random.Random("proofs").randbytes(5 * PART + 3 * GROUP + 77)


class Proofs(StorageTest):
    settings = {"limits.max_body_bytes": "16MiB"}

    def fetch(self, address, first=None, last=None):
        query = "" if first is None else f"?range={first}-{last}"
        answer = self.storage.ask_openly("GET", f"/o/{address}/proof{query}")
        self.assertEqual((answer.status, answer.get("Content-Type")), (200, "application/vnd.cairn.outboard"), answer)
        return answer.body

    def test_the_verifier_itself_agrees_with_b3sum(self):
        contents = [CONTENT[:size] for size in (0, 1, 64, 65, CHUNK, CHUNK + 1, 3 * CHUNK + 5, 9 * CHUNK)]
        self.assertEqual([storage_blake3.digest(content) for content in contents], b3sum(*contents))

    def test_proofs_of_ranges_verify(self):
        chance = random.Random(11)
        for size in (0, 1, GROUP, GROUP + 1, 3 * GROUP, PART, PART + 1, 2 * PART + 1, 3 * PART + GROUP, len(CONTENT)):
            address = self.storage.post(CONTENT[:size])
            last = max(size, 1) - 1
            ranges = {(0, 0), (0, last), (last, last)}
            ranges |= {tuple(sorted((chance.randint(0, last), chance.randint(0, last)))) for _ in range(6)}
            for first, end in sorted(ranges):
                with self.subTest(size=size, first=first, last=end):
                    proof = Proof(address, self.fetch(address, first, end), first, end)
                    self.assertEqual(proof.size, size)
                    self.assertEqual(sorted(proof.groups), list(range(first // GROUP, end // GROUP + 1)))

    def test_without_a_range_it_is_the_whole_outboard(self):
        address = self.storage.post(CONTENT)
        raw = self.fetch(address)
        self.assertEqual(len(raw), 8 + 64 * (-(-len(CONTENT) // GROUP) - 1))
        Proof(address, raw, 0, len(CONTENT) - 1)

    def test_the_bytes_of_a_range_verify_group_by_group(self):
        address = self.storage.post(CONTENT)
        for first, last in ((PART + 5, PART + 6), (len(CONTENT) - 1, len(CONTENT) - 1), (3 * PART - 1, 3 * PART)):
            proof = Proof(address, self.fetch(address, first, last), first, last)
            for index in proof.groups:
                at = f"bytes={index * GROUP}-{(index + 1) * GROUP - 1}"
                group = self.storage.ask_openly("GET", f"/o/{address}", Range=at).body
                proof.check_group(index, group)
                bad = bytearray(group)
                bad[random.Random(index).randrange(len(bad))] ^= 1 << index % 8
                with self.assertRaises(Wrong):
                    proof.check_group(index, bytes(bad))

    def test_any_flipped_bit_of_a_proof_is_noticed(self):
        address = self.storage.post(CONTENT)
        first, last = 2 * PART - GROUP, 2 * PART + GROUP
        raw = self.fetch(address, first, last)
        chance = random.Random(12)
        for at in [8, len(raw) - 1, *chance.sample(range(8, len(raw)), 30)]:
            bad = bytearray(raw)
            bad[at] ^= 1 << chance.randrange(8)
            with self.assertRaises(Wrong):
                Proof(address, bytes(bad), first, last)
        for bad in (raw[:-1], raw + b"\0", raw[:-64], raw[:8], raw[:7]):
            with self.assertRaises(Wrong):
                Proof(address, bad, first, last)
        with self.assertRaises(Wrong):
            Proof(b3sum(b"another")[0], raw, first, last)

    def test_ranges_that_are_none(self):
        address = self.storage.post(CONTENT[:1000])
        for text in ("x", "1", "-5", "5-2", "a-b", "1-2,3-4"):
            self.assert_error(self.storage.ask_openly("GET", f"/o/{address}/proof?range={text}"), 400, "malformed")
        self.assert_error(self.storage.ask_openly("GET", f"/o/{address}/proof?rang=0-1"), 400, "malformed")
        beyond = self.storage.ask_openly("GET", f"/o/{address}/proof?range=1000-1001")
        self.assert_error(beyond, 416, "range_not_satisfiable")
        self.assertEqual(beyond.get("Content-Range"), "bytes */1000")

    def test_a_proof_outlives_the_process(self):
        address = self.storage.post(CONTENT)
        raw = self.fetch(address, 0, PART)
        self.storage.restart()
        self.assertEqual(self.fetch(address, 0, PART), raw)
