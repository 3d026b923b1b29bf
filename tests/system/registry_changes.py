"""Propose, approve, commit, supersede: what is accepted, what is refused, and with which words."""

import base64
import json
import os
import subprocess
import tempfile
import threading
import unittest

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import registry_verifier as verifier
import wire
from registry_server import CBOR, JSON, Registry, RegistryTest, approval, authority, node, now, public_base64, region, signature, signer_set

NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def draft(items, **fields):
    return {"schema_version": "1.0.0", "items": items, **fields}


def to_cbor(value, key=None):
    """A JSON document's value as the CBOR form has it: keys and signatures are bytes, times are milliseconds."""
    if isinstance(value, str) and key in ("sig", "key"):
        return base64.b64decode(value)
    if isinstance(value, str) and key in ("signed_at", "expiry"):
        return verifier.milliseconds(value)
    if isinstance(value, list):
        return [base64.b64decode(one) if key == "keys" else to_cbor(one) for one in value]
    if isinstance(value, dict):
        return {name: to_cbor(one, name) for name, one in value.items()}
    return value


class Changes(RegistryTest):
    quorum = (2, ("a", "b", "c"))

    def post_cbor(self, target, value):
        body = value if isinstance(value, bytes) else verifier.encode(value)
        return self.registry.ask("POST", target, body, Content_Type=CBOR)

    def test_a_proposal_is_answered_with_exactly_what_is_signed(self):
        head = self.registry.head()
        items = self.registry.next_items(node("n1", keys=["AQID"]), region("eu", title="Europa\u00e4"))
        answer = self.registry.post("/registry/proposals", draft(items))
        self.assertEqual((answer.status, answer.get("Content-Type")), (202, JSON))
        said = answer.json()
        self.assertEqual(list(said), ["proposal_id", "version", "prev", "payload_b3", "payload", "expires_at"])
        self.assertRegex(said["proposal_id"], f"^{wire.ULID.pattern}$")
        self.assertEqual((said["version"], said["prev"]), (head["version"] + 1, head["commit_b3"]))
        payload = base64.b64decode(said["payload"])
        self.assertEqual(verifier.named(verifier.blake3_of([payload])[0]), said["payload_b3"])
        content = verifier.decode(payload)
        self.assertEqual(set(content), {"schema_version", "version", "prev", "items", "created_at"})
        self.assertEqual(verifier.as_json(content["items"]), items)
        self.assertEqual((content["version"], verifier.named(content["prev"])), (said["version"], said["prev"]))

    def test_a_whole_change(self):
        before = self.registry.head()
        one = self.registry.propose(self.registry.next_items(region("whole")))
        for count, name in enumerate(("c", "a"), 1):
            answer = self.registry.approve(one, name)
            self.assertEqual((answer.status, answer.json()), (200, {"approvals": count, "quorum": {"m": 2, "n": 3}}))
        answer = self.registry.commit(one)
        self.assertEqual((answer.status, answer.get("Location")), (201, f"/registry/{before['version'] + 1}"))
        self.assertEqual(list(answer.json()), ["version", "payload_b3", "commit_b3", "committed_at"])
        self.assertEqual(answer.json(), self.registry.head())
        self.assertEqual(answer.json()["payload_b3"], one["payload_b3"])
        again = self.registry.commit(one)
        self.assertEqual((again.status, again.json()), (200, answer.json()))
        self.registry.change(self.registry.next_items(region("whole2")))
        later = self.registry.commit(one)
        self.assertEqual((later.status, later.json()), (200, answer.json()))
        shown = self.registry.get(f"/registry/{answer.json()['version']}")
        self.assertEqual([one["signer_id"] for one in shown["approvals"]], ["a", "c"])

    def test_cbor_bodies_are_as_good_as_json(self):
        head = self.registry.head()["version"]
        answer = self.post_cbor("/registry/proposals", to_cbor(draft(self.registry.next_items(node("cbor", keys=["AAEC"])), expiry="2100-01-01T00:00:00Z")))
        self.assertEqual(answer.status, 202, answer)
        one = answer.json()
        for name in ("a", "b"):
            answer = self.post_cbor(f"/registry/approvals/{one['proposal_id']}", to_cbor(approval(name, self.registry.keys[name], one["payload_b3"])))
            self.assertEqual(answer.status, 200, answer)
        answer = self.registry.ask("POST", f"/registry/commit/{one['proposal_id']}", b"", Content_Type=CBOR)
        self.assertEqual((answer.status, answer.json()["version"]), (201, head + 1))
        self.assertIn(node("cbor", keys=["AAEC"]), [dict(item) for item in self.registry.items()])

    def test_a_supersede_in_cbor_is_as_good_as_json(self):
        one = self.registry.approve_all(self.registry.propose(supersede_of=self.registry.head()["version"], reason="cbor"))
        answer = self.post_cbor("/registry/supersede", {"proposal_id": one["proposal_id"]})
        self.assertEqual(answer.status, 201, answer)

    def test_an_empty_document_commits_too(self):
        for body, kind in ((b"{}", JSON), (b"\xa0", CBOR), (b"", JSON)):
            one = self.registry.approve_all(self.registry.propose())
            answer = self.registry.ask("POST", f"/registry/commit/{one['proposal_id']}", body, Content_Type=kind)
            self.assertEqual(answer.status, 201, (body, answer))

    def test_malformed_proposals_are_400(self):
        items = self.registry.items()
        signers = next(item for item in items if item["type"] == "signer_set")
        key = public_base64(Ed25519PrivateKey.generate())
        bad = {
            "unknown field": draft(items, colour="red"),
            "version is not for the proposer": draft(items, version=5),
            "prev is not for the proposer": draft(items, prev=self.registry.head()["commit_b3"]),
            "created_at is not for the proposer": draft(items, created_at=now()),
            "unknown field of an item": draft([*items, region("x", colour="red")]),
            "unknown type": draft([*items, {"type": "planet", "id": "x"}]),
            "no type": draft([*items, {"id": "x"}]),
            "no schema version": {"items": items},
            "another schema version": {"schema_version": "2.0.0", "items": items},
            "no items": {"schema_version": "1.0.0"},
            "items is no array": draft({}),
            "an item twice": draft([*items, region("x"), region("x", title="other")]),
            "no signer set": draft([region("x")]),
            "nothing": draft([]),
            "two signer sets": draft([*items, signers]),
            "m is zero": draft([{**signers, "m": 0}]),
            "m is more than n": draft([{**signers, "m": 4}]),
            "a signer twice": draft([{**signers, "signers": [*signers["signers"], signers["signers"][0]]}]),
            "a key twice": draft([{**signers, "signers": [*signers["signers"], {**signers["signers"][0], "id": "z"}]}]),
            "a short key": draft([{**signers, "signers": [*signers["signers"], {"id": "z", "algo": "ed25519", "key": "AAAA"}]}]),
            "a key of small order": draft([{**signers, "m": 1, "signers": [{"id": "z", "algo": "ed25519", "key": base64.b64encode(bytes([1]) + bytes(31)).decode()}]}]),
            "a key that is no point": draft([{**signers, "signers": [*signers["signers"], {"id": "z", "algo": "ed25519", "key": base64.b64encode(bytes([2]) + bytes(31)).decode()}]}]),
            "a key that is not canonical": draft([{**signers, "m": 1, "signers": [{"id": "z", "algo": "ed25519", "key": base64.b64encode(b"\xf0" + b"\xff" * 30 + b"\x7f").decode()}]}]),
            "a key that is not base64": draft([{**signers, "signers": [*signers["signers"], {"id": "z", "algo": "ed25519", "key": "*" * 44}]}]),
            "a signer with more": draft([{**signers, "signers": [*signers["signers"], {"id": "z", "algo": "ed25519", "key": key, "x": 1}]}]),
            "revocations that leave too few": draft([*items, {"type": "revocation", "key_id": "a", "reason": "r"}, {"type": "revocation", "key_id": "b", "reason": "r"}]),
            "a node without addr": draft([*items, {"type": "node", "id": "x", "region": "eu", "roles": [], "weight": 1}]),
            "a weight that is no number": draft([*items, node("x", weight="1")]),
            "a negative weight": draft([*items, node("x", weight=-1)]),
            "a fraction": draft([*items, node("x", weight=1.5)]),
            "roles that are no array": draft([*items, node("x", roles="storage")]),
            "an id with a blank": draft([*items, region("x y")]),
            "an empty id": draft([*items, region("")]),
            "a long id": draft([*items, region("x" * 129)]),
            "a long text": draft([*items, region("x", title="x" * 1025)]),
            "an empty text": draft([*items, region("x", title="")]),
            "a control character": draft([*items, region("x", title="a\u0007b")]),
            "supersede_of without reason": draft(items, supersede_of=0),
            "reason without supersede_of": draft(items, reason="r"),
            "an expiry in the past": draft(items, expiry="2001-01-01T00:00:00Z"),
            "an expiry that is no time": draft(items, expiry="tomorrow"),
            "an array": [draft(items)],
            "null": None,
        }
        for what, value in bad.items():
            with self.subTest(what):
                answer = self.registry.post("/registry/proposals", json.dumps(value).encode())
                self.assert_error(answer, 400, "malformed")
        for body in (b"", b"{", b"{}{}", b'{"schema_version":"1.0.0","schema_version":"1.0.0","items":[]}', b"\xff", b'{"schema_version":"1.0.0","items":[],}'):
            with self.subTest(body):
                self.assert_error(self.registry.post("/registry/proposals", body), 400, "malformed")
        good = to_cbor(draft(items))
        longer = verifier.encode(good)
        for body in (b"", longer + b"\0", longer[:-1], b"\xbf" + longer[1:] + b"\xff", verifier.encode({**good, "x": 1}), verifier.encode([good]),
                     b"\xb8\x02" + longer[1:], longer.replace(b"ed25519", b"ed2551\xff"), json.dumps(draft(items)).encode(),
                     verifier.encode({**good, "items": [*good["items"], {"type": "region", "id": "x", "title": b"bytes"}]})):
            with self.subTest(body[:20].hex()):
                self.assert_error(self.post_cbor("/registry/proposals", body), 400, "malformed")
        self.assertEqual(self.registry.ask("POST", "/registry/proposals", b"{}", Content_Type="text/html").status, 415)

    def test_every_type_of_item_is_kept_as_it_was_given(self):
        more = [node("n.1:2@x/y-z", keys=["AQID", "BAUG"], roles=["storage", "edge"], weight=0), node("m", roles=[]),
                {"type": "service", "id": "s", "kind": "storage", "addr": "10.0.0.1:7410", "region": "eu", "node": "m"},
                {"type": "service", "id": "s2", "kind": "edge", "addr": "x"}, region("eu", title="Europe", parent="earth"), region("earth"),
                {"type": "placement", "id": "p", "regions": ["eu", "earth"], "replicas": 3, "data": 6, "parity": 3}, {"type": "placement", "id": "q", "regions": []},
                {"type": "capability_key", "id": "root-1", "note": "of the first machine"}, {"type": "capability_key", "id": "root-2"},
                {"type": "revocation", "key_id": "somebody", "reason": "gone"},
                authority("docs"), authority("docs/guide"), authority("n/" * 126 + "n.n")]
        self.registry.change(self.registry.next_items(*more))
        kept = self.registry.items()
        for item in more:
            self.assertIn(item, kept)

    def test_a_prefix_of_names_has_one_key_that_signatures_verify_under(self):
        same = authority("eu/docs")
        good = [authority("docs"), authority("docs/guide"), authority("docs2"), same, {**same, "prefix": "eu/maps"}]
        self.registry.change(self.registry.next_items(*good))
        for item in good:
            self.assertIn(item, self.registry.items())
        kept = self.registry.items()
        for what, wrong in {"two of one prefix": [authority("docs")], "no name": [{**same, "prefix": "eu//docs"}], "a dot": [{**same, "prefix": "eu/.."}],
                            "nothing": [{**same, "prefix": ""}], "upper case": [{**same, "prefix": "EU"}], "too long": [{**same, "prefix": "n" * 256}],
                            "a short key": [{**same, "prefix": "x", "key": "AQI="}], "no key": [{"type": "name_authority", "prefix": "x"}],
                            "a key of small order": [{**same, "prefix": "x", "key": base64.b64encode(bytes(32)).decode()}],
                            "an id": [{**same, "prefix": "x", "id": "x"}], "more than 256 keys": [authority(f"x/{i}") for i in range(257)]}.items():
            with self.subTest(what):
                self.assert_error(self.registry.post("/registry/proposals", draft(kept + wrong)), 400, "malformed")
                self.assert_error(self.post_cbor("/registry/proposals", to_cbor(draft(kept + wrong))), 400, "malformed")
        self.registry.change(self.registry.next_items(authority("docs"), without=[("name_authority", "docs2")]))
        self.assertEqual(len([item for item in self.registry.items() if item["type"] == "name_authority"]), len(good) - 1)

    def test_a_signer_with_another_algorithm_may_be_named_and_cannot_approve(self):
        with Registry({}, 1, ("a",)) as registry:
            item = signer_set(1, registry.keys)
            item["signers"].append({"id": "future", "org": "lab", "algo": "ml-dsa-65", "key": base64.b64encode(bytes(1952)).decode()})
            registry.change(registry.next_items(item))
            one = registry.propose()
            forged = {**approval("a", registry.keys["a"], one["payload_b3"]), "signer_id": "future", "algo": "ml-dsa-65"}
            answer = registry.post(f"/registry/approvals/{one['proposal_id']}", forged)
            self.assertEqual((answer.status, answer.error()["code"]), (400, "invalid_sig"))
            answer = registry.post("/registry/proposals", draft([{**item, "m": 2}]))
            self.assertEqual(answer.status, 400)
            registry.verify()

    def test_malformed_approvals_are_400(self):
        one = self.registry.propose()
        good = approval("a", self.registry.keys["a"], one["payload_b3"])
        target = f"/registry/approvals/{one['proposal_id']}"
        for what, value in {"unknown field": {**good, "x": 1}, "no signer": {name: good[name] for name in ("algo", "sig", "signed_at")},
                            "no signature": {name: good[name] for name in ("algo", "signer_id", "signed_at")},
                            "no time": {name: good[name] for name in ("algo", "signer_id", "sig")},
                            "a time that is none": {**good, "signed_at": "now"}, "not base64": {**good, "sig": "*"},
                            "a number": {**good, "signer_id": 1}, "an array": [good]}.items():
            with self.subTest(what):
                self.assert_error(self.registry.post(target, value), 400, "malformed")
        for body in (b"", b"{", b"null"):
            self.assert_error(self.registry.post(target, body), 400, "malformed")
        self.assert_error(self.post_cbor(target, {**to_cbor(good), "x": 1}), 400, "malformed")
        self.assert_error(self.post_cbor(target, {**to_cbor(good), "sig": good["sig"]}), 400, "malformed")
        self.assertEqual(self.registry.get(f"/registry/proposals/{one['proposal_id']}")["approvals"], [])

    def test_a_replayed_approval_is_409(self):
        one = self.registry.propose()
        body = approval("a", self.registry.keys["a"], one["payload_b3"])
        target = f"/registry/approvals/{one['proposal_id']}"
        self.assertEqual(self.registry.post(target, body).status, 200)
        self.assert_error(self.registry.post(target, body), 409, "duplicate_approval")
        self.assert_error(self.registry.post(target, {**body, "signed_at": "2001-01-01T00:00:00Z"}), 409, "duplicate_approval")
        self.registry.restart()
        self.assert_error(self.registry.post(target, body), 409, "duplicate_approval")
        self.assert_error(self.registry.commit(one), 409, "quorum_failed")
        other = self.registry.propose(self.registry.next_items(region("replay")))
        self.assert_error(self.registry.post(f"/registry/approvals/{other['proposal_id']}", body), 400, "invalid_sig")

    def test_many_at_once_of_one_signer_count_once(self):
        one = self.registry.propose()
        answers = []

        def run():
            answers.append(self.registry.approve(one, "b"))
        threads = [threading.Thread(target=run) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(answer.status for answer in answers), [200] + [409] * 15)
        self.assert_error(self.registry.commit(one), 409, "quorum_failed")

    def test_a_signature_over_other_bytes_is_400(self):
        one, key = self.registry.propose(), self.registry.keys["a"]
        raw = bytes.fromhex(one["payload_b3"][3:])
        tag = b"cairn-registry-approval-v1"
        target = f"/registry/approvals/{one['proposal_id']}"
        good = signature(key, one["payload_b3"])
        high = int.from_bytes(good[32:], "little") + 2**252 + 27742317777372353535851937790883648493
        for what, sig in {"the hash alone": key.sign(raw), "no zero byte": key.sign(tag + raw), "the hash as text": key.sign(tag + b"\0" + one["payload_b3"].encode()),
                          "another tag": key.sign(b"cairn-registry-approval-v2\0" + raw), "the payload itself": key.sign(tag + b"\0" + base64.b64decode(one["payload"])),
                          "another hash": key.sign(tag + b"\0" + bytes(32)), "a flipped bit": bytes([good[0] ^ 1]) + good[1:],
                          "nothing": bytes(64), "an order added to s": good[:32] + high.to_bytes(33, "little")[:32]}.items():
            with self.subTest(what):
                body = {"signer_id": "a", "algo": "ed25519", "sig": base64.b64encode(sig).decode(), "signed_at": now()}
                self.assert_error(self.registry.post(target, body), 400, "invalid_sig")
        self.assertEqual(self.registry.approve(one, "a").status, 200)

    def test_a_signature_by_another_key_is_400(self):
        one = self.registry.propose()
        target = f"/registry/approvals/{one['proposal_id']}"
        good = approval("a", self.registry.keys["a"], one["payload_b3"])
        self.assert_error(self.registry.approve(one, "a", self.registry.keys["b"]), 400, "invalid_sig")
        self.assert_error(self.registry.approve(one, "a", Ed25519PrivateKey.generate()), 400, "invalid_sig")
        self.assert_error(self.registry.approve(one, "stranger", self.registry.keys["a"]), 400, "invalid_sig")
        for algo in ("ed448", "ED25519", "rsa"):
            self.assert_error(self.registry.post(target, {**good, "algo": algo}), 400, "invalid_sig")
        for size in (63, 65, 0):
            answer = self.registry.post(target, {**good, "sig": base64.b64encode(bytes(size)).decode()})
            self.assertEqual(answer.status, 400)
            self.assertIn(answer.error()["code"], ("invalid_sig", "malformed"))
        self.assertEqual(self.registry.get(f"/registry/proposals/{one['proposal_id']}")["approvals"], [])

    def test_a_proposal_that_is_not_there_is_404(self):
        good = approval("a", self.registry.keys["a"], "b3:" + "0" * 64)
        for name in (NOBODY, "x"):
            self.assert_error(self.registry.post(f"/registry/approvals/{name}", good), 404, "not_found")
            self.assert_error(self.registry.post(f"/registry/commit/{name}"), 404, "not_found")
            self.assert_error(self.registry.post("/registry/supersede", {"proposal_id": name}), 404, "not_found")

    def test_a_commit_with_too_few_approvals_is_409(self):
        one = self.registry.propose()
        self.assert_error(self.registry.commit(one), 409, "quorum_failed")
        self.registry.approve_all(one, ("c",))
        self.assert_error(self.registry.commit(one), 409, "quorum_failed")
        self.registry.approve_all(one, ("b",))
        self.assertEqual(self.registry.commit(one).status, 201)

    def test_two_commits_racing_one_201_one_409(self):
        for turn in range(10):
            pair = [self.registry.approve_all(self.registry.propose(self.registry.next_items(region("race", title=f"{turn} {i}")))) for i in range(2)]
            before, failures = self.registry.head()["version"], self.registry.metric("commit_cas_fail_total")
            answers, gate = [None, None], threading.Barrier(2)

            def run(i):
                with self.registry.connect() as connection:
                    gate.wait()
                    answers[i] = self.registry.commit(pair[i], connection)
            threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(answer.status for answer in answers), [201, 409])
            winner, loser = sorted(range(2), key=lambda i: answers[i].status)
            self.assert_error(answers[loser], 409, "chain_mismatch")
            self.assertEqual(answers[winner].json(), self.registry.head())
            self.assertEqual(self.registry.head()["version"], before + 1)
            self.assertEqual(self.registry.head()["payload_b3"], pair[winner]["payload_b3"])
            self.assertGreater(self.registry.metric("commit_cas_fail_total"), failures)
            self.assert_error(self.registry.approve(pair[loser], "c"), 409, "chain_mismatch")
            again = self.registry.commit(pair[winner])
            self.assertEqual((again.status, again.json()), (200, answers[winner].json()))
        self.registry.restart()
        self.assert_error(self.registry.commit(pair[loser]), 409, "chain_mismatch")

    def test_the_same_commit_by_many_is_201_once_and_200_for_the_rest(self):
        one = self.registry.approve_all(self.registry.propose())
        before, answers = self.registry.head()["version"], []
        threads = [threading.Thread(target=lambda: answers.append(self.registry.commit(one))) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(answer.status for answer in answers), [200] * 11 + [201])
        self.assertEqual({answer.body for answer in answers}, {answers[0].body})
        self.assertEqual(self.registry.head()["version"], before + 1)

    def test_the_whole_verifies(self):
        self.registry.change(self.registry.next_items(region("verified")))
        self.registry.verify()


class ReadYourWrites(RegistryTest):
    """Whoever was told of a commit finds it, whichever connection and shard it asks next."""

    def test_a_commit_that_was_acknowledged_is_the_head_for_everybody(self):
        """While every shard is busy with other things."""
        readers = [self.registry.connect() for _ in range(8)]
        stale, over = 0, threading.Event()
        bulk = json.dumps(draft([*self.registry.items(0), *[region(f"r{i}") for i in range(3000)]])).encode()

        def keep_busy():
            with self.registry.connect() as connection:
                while not over.is_set():
                    self.registry.post("/registry/proposals", bulk, connection=connection)
        busy = [threading.Thread(target=keep_busy, daemon=True) for _ in range(4)]
        for thread in busy:
            thread.start()
        try:
            for i in range(60):
                writer = readers[i % len(readers)]  # of every shard there is one among them
                one = self.registry.propose([*self.registry.items(0), region("seen", title=str(i))], writer)
                self.registry.approve(one, "a", connection=writer)
                version = self.registry.commit(one, writer).json()["version"]
                for reader in readers:
                    reader.send(wire.request("GET", "/registry/head"))
                stale += sum(reader.read().json()["version"] < version for reader in readers)
        finally:
            over.set()
            for thread in busy:
                thread.join()
            for reader in readers:
                reader.close()
        self.assertEqual(stale, 0, "reads, of 480 after a commit was acknowledged, that did not know of it")


class Supersede(RegistryTest):
    def test_the_head_is_superseded_and_says_so(self):
        wrong = self.registry.change(self.registry.next_items(region("wrong")))
        untouched = self.registry.ask_openly("GET", f"/registry/{wrong['version']}")
        one = self.registry.propose(self.registry.next_items(without=[("region", "wrong")]), supersede_of=wrong["version"], reason="it was wrong")
        shown = self.registry.get(f"/registry/proposals/{one['proposal_id']}")
        self.assertEqual((shown["supersede_of"], shown["reason"]), (wrong["version"], "it was wrong"))
        self.assert_error(self.registry.post("/registry/supersede", {"proposal_id": one["proposal_id"]}), 409, "quorum_failed")
        self.registry.approve_all(one)
        self.assert_error(self.registry.commit(one), 409, "conflict")
        answer = self.registry.post("/registry/supersede", {"proposal_id": one["proposal_id"]})
        self.assertEqual((answer.status, answer.json()["version"]), (201, wrong["version"] + 1))
        self.assertEqual(answer.json(), self.registry.head())
        again = self.registry.post("/registry/supersede", {"proposal_id": one["proposal_id"]})
        self.assertEqual((again.status, again.json()), (200, answer.json()))
        for _ in range(2):
            new = self.registry.get(f"/registry/{answer.json()['version']}")
            self.assertEqual((new["supersedes"], new["payload"]["supersede_of"], new["payload"]["reason"]), (wrong["version"], wrong["version"], "it was wrong"))
            log = {row["version"]: row for row in self.registry.get("/registry/log")["commits"]}
            self.assertEqual(log[wrong["version"]]["superseded_by"], wrong["version"] + 1)
            self.assertNotIn("superseded_by", log[wrong["version"] + 1])
            old = self.registry.ask_openly("GET", f"/registry/{wrong['version']}")
            self.assertEqual(old.json()["superseded_by"], wrong["version"] + 1)
            self.assertNotEqual(old.get("ETag"), untouched.get("ETag"), "two bodies have one tag")
            self.registry.restart()
        self.registry.verify()

    def test_only_the_head_can_be_superseded(self):
        self.registry.change(self.registry.next_items(region("more")))
        head = self.registry.head()["version"]
        for version in (0, head - 1, head + 1, head + 1000):
            if version != head:
                answer = self.registry.post("/registry/proposals", draft(self.registry.items(), supersede_of=version, reason="r"))
                self.assertEqual(answer.status, 409, (version, answer))
        one = self.registry.approve_all(self.registry.propose(supersede_of=head, reason="r"))
        self.registry.change(self.registry.next_items(region("faster")))
        self.assert_error(self.registry.post("/registry/supersede", {"proposal_id": one["proposal_id"]}), 409, "chain_mismatch")

    def test_a_proposal_that_supersedes_nothing_is_409(self):
        one = self.registry.approve_all(self.registry.propose())
        self.assert_error(self.registry.post("/registry/supersede", {"proposal_id": one["proposal_id"]}), 409, "conflict")
        self.assertEqual(self.registry.commit(one).status, 201)

    def test_malformed(self):
        for value in ({}, {"proposal_id": 1}, {"proposal_id": NOBODY, "x": 1}, [], {"id": NOBODY}):
            self.assert_error(self.registry.post("/registry/supersede", value), 400, "malformed")
        self.assert_error(self.registry.post("/registry/supersede", b""), 400, "malformed")


class Governance(unittest.TestCase):
    """Who may approve is what the present head says."""

    def setUp(self):
        self.registry = self.enterContext(Registry({}, 2, ("a", "b", "c")))
        self.fresh = Ed25519PrivateKey.generate()

    def assert_error(self, answer, status, code):
        self.assertEqual((answer.status, answer.error()["code"]), (status, code), answer)

    def test_rotation(self):
        keys = self.registry.keys
        rotated = signer_set(2, {"a": keys["a"], "d": self.fresh})
        one = self.registry.propose(self.registry.next_items(rotated))
        self.assert_error(self.registry.approve(one, "d", self.fresh), 400, "invalid_sig")  # not in force yet
        self.registry.approve_all(one, ("a", "b"))
        self.assertEqual(self.registry.commit(one).status, 201)
        two = self.registry.propose(self.registry.next_items(region("after")))
        for name in ("b", "c"):
            self.assert_error(self.registry.approve(two, name), 400, "invalid_sig")
        self.assertEqual(self.registry.approve(two, "d", self.fresh).json(), {"approvals": 1, "quorum": {"m": 2, "n": 2}})
        self.assert_error(self.registry.commit(two), 409, "quorum_failed")
        self.registry.restart()
        self.assertEqual(self.registry.approve(two, "a").status, 200)
        self.assertEqual(self.registry.commit(two).status, 201)
        self.registry.verify()

    def test_a_key_that_is_replaced_under_its_id_no_longer_approves(self):
        keys = {**self.registry.keys, "a": self.fresh}
        self.registry.change(self.registry.next_items(signer_set(2, keys)), names=("b", "c"))
        one = self.registry.propose()
        self.assert_error(self.registry.approve(one, "a"), 400, "invalid_sig")
        self.assertEqual(self.registry.approve(one, "a", self.fresh).status, 200)

    def test_rotation_in_the_middle_of_a_proposal(self):
        waiting = self.registry.approve_all(self.registry.propose(self.registry.next_items(region("waiting"))), ("a", "b"))
        self.registry.change(self.registry.next_items(signer_set(1, {"d": self.fresh})), names=("b", "c"))
        self.assert_error(self.registry.commit(waiting), 409, "chain_mismatch")
        self.assert_error(self.registry.approve(waiting, "c"), 409, "chain_mismatch")
        self.assertEqual(self.registry.get("/registry/proposals")["proposals"], [])
        one = self.registry.propose(self.registry.next_items(region("again")))
        self.assert_error(self.registry.approve(one, "a"), 400, "invalid_sig")
        self.assertEqual(self.registry.approve(one, "d", self.fresh).json(), {"approvals": 1, "quorum": {"m": 1, "n": 1}})
        self.assertEqual(self.registry.commit(one).status, 201)
        self.registry.verify()

    def test_revocation_in_the_middle_of_a_proposal(self):
        waiting = self.registry.approve_all(self.registry.propose(self.registry.next_items(region("waiting"))), ("a", "b"))
        self.registry.change(self.registry.next_items({"type": "revocation", "key_id": "a", "reason": "stolen"}), names=("b", "c"))
        answer = self.registry.commit(waiting)
        self.assertEqual(answer.status, 409)
        self.assertIn(answer.error()["code"], ("revoked_key", "chain_mismatch"))
        one = self.registry.propose(self.registry.next_items(region("later")))
        self.assert_error(self.registry.approve(one, "a"), 409, "revoked_key")
        self.assertEqual(self.registry.approve(one, "b").json(), {"approvals": 1, "quorum": {"m": 2, "n": 2}})
        self.assert_error(self.registry.commit(one), 409, "quorum_failed")
        self.registry.restart()
        self.assert_error(self.registry.approve(one, "a"), 409, "revoked_key")
        self.assertEqual(self.registry.approve(one, "c").status, 200)
        self.assertEqual(self.registry.commit(one).status, 201)
        self.registry.verify()
        self.assertEqual(self.registry.metric('registry_signers{org="other"}'), 2)

    def test_a_revoked_key_stays_revoked_until_its_revocation_is_taken_back(self):
        self.registry.change(self.registry.next_items({"type": "revocation", "key_id": "a", "reason": "stolen"}), names=("a", "c"))
        self.registry.change(self.registry.next_items(region("between")), names=("b", "c"))
        one = self.registry.propose(self.registry.next_items(without=[("revocation", "a")]))
        self.assert_error(self.registry.approve(one, "a"), 409, "revoked_key")
        self.registry.approve_all(one, ("b", "c"))
        self.assertEqual(self.registry.commit(one).status, 201)
        self.assertEqual(self.registry.approve(self.registry.propose(), "a").status, 200)
        self.registry.verify()


class OpenSsl(unittest.TestCase):
    """Any Ed25519 will do: here, the command."""

    def setUp(self):
        self.registry = self.enterContext(Registry({}, 1, ("a",)))
        directory = tempfile.TemporaryDirectory(prefix="cairn-openssl-")
        self.addCleanup(directory.cleanup)
        self.home = directory.name

    def sign(self, message):
        path = os.path.join(self.home, "message")
        with open(path, "wb") as file:
            file.write(message)
        made = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.registry.key_path("a"), "-in", path], capture_output=True, check=True)
        return {"signer_id": "a", "algo": "ed25519", "sig": base64.b64encode(made.stdout).decode(), "signed_at": now()}

    def test_its_signature_is_accepted_and_one_over_other_bytes_is_not(self):
        one = self.registry.propose()
        target = f"/registry/approvals/{one['proposal_id']}"
        raw = bytes.fromhex(one["payload_b3"].removeprefix("b3:"))
        for message in (raw, b"cairn-registry-approval-v1" + raw, base64.b64decode(one["payload"]), b"cairn-registry-approval-v1\0" + raw + b"\n"):
            answer = self.registry.post(target, self.sign(message))
            self.assertEqual((answer.status, answer.error()["code"]), (400, "invalid_sig"))
        self.assertEqual(self.registry.post(target, self.sign(b"cairn-registry-approval-v1\0" + raw)).status, 200)
        self.assertEqual(self.registry.commit(one).status, 201)
        self.registry.verify()

    def test_the_public_key_is_what_genesis_says(self):
        ended = subprocess.run(["openssl", "pkey", "-in", self.registry.key_path("a"), "-pubout", "-outform", "DER"], capture_output=True, check=True)
        [signers] = [item for item in self.registry.items(0) if item["type"] == "signer_set"]
        self.assertEqual(base64.b64decode(signers["signers"][0]["key"]), ended.stdout[-32:])


class Full(unittest.TestCase):
    def listed(self, registry):
        """All proposals by id, page by page."""
        page = registry.get("/registry/proposals?limit=500")
        found = page["proposals"]
        while "next" in page:
            page = registry.get(f"/registry/proposals?limit=500&after={page['next']}")
            found += page["proposals"]
        return {one["proposal_id"]: one for one in found}

    def test_the_1025th_proposal_is_429_and_none_is_lost(self):
        with Registry() as registry:
            items, made = registry.items(), []
            with registry.connect() as connection:
                for i in range(1024):
                    made.append(registry.propose([*items, region(f"r{i}")], connection)["proposal_id"])
                answer = registry.post("/registry/proposals", draft([*items, region("more")]), connection=connection)
                self.assertEqual((answer.status, answer.error()["code"]), (429, "busy"))
                self.assertIsNotNone(answer.get("Retry-After"))
                self.assertEqual(registry.metric("registry_pending_proposals"), 1024)
            self.assertEqual(set(self.listed(registry)), set(made))
            registry.kill()
            registry.start()
            self.assertEqual(set(self.listed(registry)), set(made))
            last = self.listed(registry)[made[-1]]
            registry.approve_all(last)
            self.assertEqual(registry.commit(last).status, 201)
            self.assertIn(region("r1023"), registry.items())
            self.assertEqual(registry.get("/registry/proposals")["proposals"], [])
            registry.propose()

    def test_a_smaller_table(self):
        with Registry({"proposals.max_pending": 3}) as registry:
            for _ in range(3):
                registry.propose()
            self.assertEqual(registry.post("/registry/proposals", draft(registry.items())).status, 429)


if __name__ == "__main__":
    unittest.main()
