"""What a registry says can be verified from its trust roots by others, and what was changed cannot."""

import base64
import json
import os
import random
import shutil
import tempfile
import unittest

import registry_verifier as verifier
from registry_server import Registry, node, region, signer_set
from registry_verifier import Wrong
from storage_server import cairn, flip

CHANCE = random.Random("proofs")
SIZE = 530  # more than two tiles


class Verifier(unittest.TestCase):
    """The verifier itself: it must be able to say no."""

    def setUp(self):
        self.leaves = [verifier.leaf_hash(CHANCE.randbytes(5)) for _ in range(70)]

    def test_reference_proofs_verify_and_changed_ones_do_not(self):
        for size in range(1, 33):
            root = verifier.root_of(self.leaves[:size])
            for index in range(size):
                proof = verifier.inclusion_proof(index, self.leaves[:size])
                verifier.verify_inclusion(index, size, self.leaves[index], proof, root)
                grown = verifier.consistency_proof(index + 1, self.leaves[:size])
                old = verifier.root_of(self.leaves[:index + 1])
                verifier.verify_consistency(index + 1, old, size, root, grown)
                for bad in ([*proof, bytes(32)], proof[:-1] if proof else [bytes(32)], proof[::-1] if proof[::-1] != proof else [bytes(32)] * 9):
                    with self.assertRaises(Wrong):
                        verifier.verify_inclusion(index, size, self.leaves[index], bad, root)
                with self.assertRaises(Wrong):
                    verifier.verify_inclusion(index, size, bytes(32), proof, root)
                with self.assertRaises(Wrong):
                    verifier.verify_consistency(index + 1, bytes(32), size, root, grown)

    def test_known_answers(self):
        """The test vectors that came with Certificate Transparency."""
        inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
        leaves = [verifier.leaf_hash(bytes.fromhex(one)) for one in inputs]
        self.assertEqual(verifier.root_of([]).hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        self.assertEqual(verifier.root_of(leaves[:1]).hex(), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d")
        self.assertEqual(verifier.root_of(leaves).hex(), "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328")

    def test_cbor_is_deterministic_or_refused(self):
        for text in ("1800", "190001", "5f4100ff", "a2616201616102", "a2616101616101", "f90000", "c000", "61ff", "9fff", "00ff", "1a", "a10000"):
            with self.assertRaises(Wrong, msg=text):
                verifier.decode(bytes.fromhex(text))
        value = {"b": [1, 300, -5, True, None], "aa": b"\1", "z": {"x": "\u00e9"}}
        self.assertEqual(verifier.decode(verifier.encode(value)), value)


class Proofs(unittest.TestCase):
    """One log of a few hundred versions, whose signers change on the way."""

    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(Registry({}, 2, ("a", "b", "c")))
        cls.roots, cls.key = cls.registry.roots()
        cls.registry.grow(39)
        cls.registry.covered_on_disk()
        cls.early = cls.registry.ask_openly("GET", "/registry/checkpoint").body
        with cls.registry.remote() as server:
            size, root, leaves, *_ = verifier.verify_server(server, cls.roots, cls.key)
            assert size == 40
            verifier.verify_proofs(server, size, root, leaves, [(old, new) for new in range(1, 41) for old in range(1, new + 1)])
        keys = cls.registry.keys
        cls.registry.change(cls.registry.next_items(signer_set(1, {name: keys[name] for name in ("b", "c")})), names=("a", "b"))
        cls.registry.m, cls.registry.keys = 1, {"c": keys["c"], "b": keys["b"]}
        cls.registry.change(cls.registry.next_items({"type": "revocation", "key_id": "b", "reason": "lost"}, node("n1", keys=["AAEC"])))
        cls.registry.grow(SIZE - 42, cls.registry.items())
        cls.registry.covered_on_disk()

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="cairn-proofs-")
        self.addCleanup(directory.cleanup)
        self.home = directory.name

    def copy(self):
        """The static files, as a mirror would have them."""
        place = os.path.join(self.home, "mirror")
        os.mkdir(place)
        shutil.copy(os.path.join(self.registry.directory, "checkpoint"), place)
        shutil.copytree(os.path.join(self.registry.directory, "tile"), os.path.join(place, "tile"))
        return place

    def verify_tiles(self, place, code=0):
        ended = cairn("registry", "verify", "--tiles", place, "--trust-roots", self.registry.roots_path)
        self.assertEqual(ended.returncode, code, ended)
        return ended

    def test_everything_verifies_over_http(self):
        with self.registry.remote() as server:
            size, root, leaves, commits, payloads, _ = verifier.verify_server(server, self.roots, self.key)
            self.assertEqual((size, len(commits), len(payloads)), (SIZE, SIZE, SIZE))
            pairs = [(CHANCE.randint(1, new), new) for new in [CHANCE.randint(41, SIZE) for _ in range(200)]]
            pairs += [(256, 512), (256, 257), (1, SIZE), (512, SIZE), (SIZE, SIZE), (255, 256), (513, 514)]
            verifier.verify_proofs(server, size, root, leaves, pairs)

    def test_the_log_only_grew(self):
        old, old_root = verifier.verify_checkpoint(self.early, self.key)
        with self.registry.remote() as server:
            size, root = verifier.verify_checkpoint(server.get("checkpoint"), self.key)
            proof = server.json(f"/registry/proof/consistency?from={old}&to={size}")
            verifier.verify_consistency(old, old_root, size, root, [base64.b64decode(one) for one in proof["hashes"]])

    def test_static_files_verify_without_a_server(self):
        place = self.copy()
        size, root, _, commits, _ = verifier.verify_directory(place, self.roots, self.key)
        self.assertEqual((size, len(commits)), (SIZE, SIZE))
        ended = self.verify_tiles(place)
        self.assertIn(str(SIZE), ended.stdout)
        self.assertIn("not checked", (ended.stdout + ended.stderr).lower())
        with self.registry.remote() as server:
            self.assertEqual(verifier.verify_checkpoint(server.get("checkpoint"), self.key), (size, root))

    def test_files_and_answers_are_the_same_bytes_and_old_partial_tiles_are_gone(self):
        found = set()
        for path, _, names in os.walk(os.path.join(self.registry.directory, "tile")):
            for name in names:
                one = os.path.relpath(os.path.join(path, name), self.registry.directory)
                found.add(one)
                with open(os.path.join(self.registry.directory, one), "rb") as file:
                    self.assertEqual(self.registry.ask_openly("GET", "/registry/" + one).body, file.read(), one)
        expected = {verifier.tile_path(level, index, width) for level in (0, 1) for index, width in verifier.tiles_of(SIZE, level)}
        expected |= {verifier.tile_path("entries", index, width) for index, width in verifier.tiles_of(SIZE, 0)}
        self.assertLessEqual(expected, found)
        self.assertEqual(expected, found)

    def test_every_cut_of_a_verified_log_is_one(self):
        """A partial tile of any width is the beginning of a wider one."""
        whole = self.registry.ask_openly("GET", "/registry/" + verifier.tile_path(0, 1)).body
        for width in (1, 2, 100, 255):
            answer = self.registry.ask_openly("GET", "/registry/" + verifier.tile_path(0, 1, width))
            self.assertEqual((answer.status, answer.body), (200, whole[:32 * width]))
            bundle = self.registry.ask_openly("GET", "/registry/" + verifier.tile_path("entries", 1, width)).body
            entries = verifier.split_entries(bundle, width, "bundle")
            self.assertEqual([verifier.leaf_hash(one) for one in entries], [whole[i:i + 32] for i in range(0, 32 * width, 32)])

    def test_tiles_that_are_not_there_are_404(self):
        for path in ("0/003", "0/002.p/19", "1/000", "1/000.p/3", "2/000", "entries/003", "entries/002.p/19", "0/2", "0/0001", "00/000", "0/000.p/0",
                     "0/000.p/256", "0/000.p/01", "64/000", "0/x000/000", "0/x001", "data/000", "", "0", "-1/000", "0/000.p", "0/000/x001",
                     "0/x999/x999/x999/x999/x999/x999/999", "entries/000.p/300"):
            answer = self.registry.ask_openly("GET", "/registry/tile/" + path)
            self.assertEqual((answer.status, answer.error()["code"]), (404, "not_found"), path)

    def test_a_flipped_bit_in_any_static_file_is_found_by_both(self):
        place = self.copy()
        files = [os.path.join(path, name) for path, _, names in os.walk(place) for name in names]
        self.assertGreater(len(files), 7)
        for path in files:
            size = os.path.getsize(path)
            for offset in {0, size - 1, size // 2, *[CHANCE.randrange(size) for _ in range(3)]}:
                bit = CHANCE.randrange(8)
                flip(path, offset, bit)
                with self.subTest(path=os.path.relpath(path, place), offset=offset, bit=bit):
                    with self.assertRaises(Wrong):
                        verifier.verify_directory(place, self.roots, self.key)
                    self.verify_tiles(place, 4)
                flip(path, offset, bit)
        self.verify_tiles(place)

    def test_a_missing_or_cut_file_is_found_by_both(self):
        place = self.copy()
        for name in (verifier.tile_path(0, 0), verifier.tile_path("entries", 1), verifier.tile_path(1, 0, 2), verifier.tile_path("entries", 2, SIZE - 512)):
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                content = file.read()
            for damage in (lambda: os.remove(path), lambda: os.truncate(path, len(content) - 1), lambda: os.truncate(path, 0)):
                damage()
                with self.assertRaises(Wrong, msg=name):
                    verifier.verify_directory(place, self.roots, self.key)
                ended = cairn("registry", "verify", "--tiles", place, "--trust-roots", self.registry.roots_path)
                self.assertIn(ended.returncode, (3, 4), (name, ended))
                with open(path, "wb") as file:
                    file.write(content)

    def test_every_bit_of_a_checkpoint_counts(self):
        note = verifier.Directory(self.registry.directory).get("checkpoint")
        place = self.copy()
        for offset in range(len(note)):
            for bit in range(8):
                changed = bytearray(note)
                changed[offset] ^= 1 << bit
                with self.assertRaises(Wrong, msg=f"{offset} {bit}"):
                    verifier.verify_checkpoint(bytes(changed), self.key)
        for offset in range(0, len(note), 7):
            changed = bytearray(note)
            changed[offset] ^= 1 << CHANCE.randrange(8)
            with open(os.path.join(place, "checkpoint"), "wb") as file:
                file.write(changed)
            with self.subTest(offset=offset):
                self.verify_tiles(place, 4)

    def test_a_flipped_bit_in_a_proof_is_found(self):
        with self.registry.remote() as server:
            leaves = verifier.verify_tiles(server, self.key)[2]
            root = verifier.root_of(leaves)
            for index in (0, 77, 300, SIZE - 1):
                proof = [base64.b64decode(one) for one in server.json(f"/registry/proof/inclusion?version={index}&size={SIZE}")["hashes"]]
                grown = [base64.b64decode(one) for one in server.json(f"/registry/proof/consistency?from={index + 1}&to={SIZE}")["hashes"]]
                for i in range(max(len(proof), len(grown))):
                    for hashes, check in ((proof, lambda p: verifier.verify_inclusion(index, SIZE, leaves[index], p, root)),
                                          (grown, lambda p: verifier.verify_consistency(index + 1, verifier.root_of(leaves[:index + 1]), SIZE, root, p))):
                        check(hashes)
                        if i < len(hashes):
                            changed = bytearray(hashes[i])
                            changed[CHANCE.randrange(32)] ^= 1 << CHANCE.randrange(8)
                            with self.assertRaises(Wrong):
                                check([*hashes[:i], bytes(changed), *hashes[i + 1:]])

    def test_another_log_s_roots_are_refused_by_both(self):
        with Registry(signers=("a",)) as other:
            other.covered_on_disk()
            roots, key = other.roots()
            with self.assertRaises(Wrong):
                verifier.verify_directory(self.registry.directory, roots, key)
            for arguments in (("--tiles", self.registry.directory), ("--url", self.registry.url)):
                ended = cairn("registry", "verify", *arguments, "--trust-roots", other.roots_path)
                self.assertEqual(ended.returncode, 4, ended)

    def test_the_cli_verifies_over_http_and_over_the_data_directory(self):
        for arguments in (("--url", self.registry.url, "--trust-roots", self.registry.roots_path), ("--data", self.registry.data)):
            ended = cairn("registry", "verify", "--json", *arguments)
            self.assertEqual(ended.returncode, 0, ended)
            said = json.loads(ended.stdout.splitlines()[-1])
            self.assertIn(SIZE, said.values(), said)

    def test_since_an_earlier_checkpoint(self):
        early, kept = os.path.join(self.home, "early"), os.path.join(self.home, "kept")
        with open(early, "wb") as file:
            file.write(self.early)
        base = ("registry", "verify", "--url", self.registry.url, "--trust-roots", self.registry.roots_path)
        self.assertEqual(cairn(*base, "--since", early, "-o", kept).returncode, 0)
        self.assertEqual(verifier.verify_checkpoint(verifier.Directory(self.home).get("kept"), self.key)[0], SIZE)
        self.assertEqual(cairn(*base, "--since", kept).returncode, 0)
        flip(early, 80)
        self.assertEqual(cairn(*base, "--since", early).returncode, 4)


class Forgery(unittest.TestCase):
    """Whoever has the log's key still cannot do what the signers did not."""

    def setUp(self):
        self.registry = self.enterContext(Registry({}, 2, ("a", "b", "c")))
        self.registry.grow(3)
        self.roots, self.key = self.registry.roots()
        with self.registry.remote() as server:
            self.registry.covered()
            *_, entries = verifier.verify_tiles(server, self.key)
            self.entries = entries
            self.payloads = {version: server.payload(version) for version in entries}

    def check(self, entries=None, payloads=None):
        verifier.verify_chain(entries or self.entries, (payloads or self.payloads).__getitem__, self.roots)

    def test_the_chain_as_it_is_verifies(self):
        self.check()

    def test_fewer_approvals_than_m_are_found(self):
        commit = verifier.decode(self.entries[3])
        commit["approvals"] = commit["approvals"][:1]
        with self.assertRaisesRegex(Wrong, "version 3 has 1 approvals of 2"):
            self.check({**self.entries, 3: verifier.encode(commit)})

    def test_an_approval_twice_is_found(self):
        commit = verifier.decode(self.entries[3])
        commit["approvals"] = [commit["approvals"][0]] * 2
        with self.assertRaisesRegex(Wrong, "not sorted and single"):
            self.check({**self.entries, 3: verifier.encode(commit)})

    def test_another_payload_is_found(self):
        payload = verifier.decode(self.payloads[3])
        payload["items"] = [*payload["items"], region("smuggled")]
        with self.assertRaisesRegex(Wrong, "payload of version 3"):
            self.check(payloads={**self.payloads, 3: verifier.encode(payload)})

    def test_a_version_left_out_is_found(self):
        entries = {version: entry for version, entry in self.entries.items() if version != 2}
        with self.assertRaisesRegex(Wrong, "missing"):
            self.check(entries)
        entries = {0: self.entries[0], 1: self.entries[1], 2: self.entries[3]}
        with self.assertRaisesRegex(Wrong, "commit of version 3"):
            self.check(entries)

    def test_a_changed_commit_breaks_the_chain_behind_it(self):
        commit = verifier.decode(self.entries[1])
        commit["committed_at"] += 1
        with self.assertRaisesRegex(Wrong, "version 2 does not follow|version 2 is earlier"):
            self.check({**self.entries, 1: verifier.encode(commit)})


if __name__ == "__main__":
    unittest.main()
