"""The read routes: head, versions, log, proofs, proposals; their headers, their long poll, what is refused."""

import base64
import json
import threading
import time
import unittest

import registry_verifier as verifier
import wire
from registry_server import CBOR, JSON, Registry, RegistryTest, node, region

FOREVER = "public, max-age=31536000, immutable"
HEAD_FIELDS = ["version", "payload_b3", "commit_b3", "committed_at"]


class Reads(RegistryTest):
    quorum = (2, ("a", "b", "c"))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.heads = [cls.registry.head()]
        for i in range(9):
            cls.heads.append(cls.registry.change(cls.registry.next_items(node(f"n{i}"), region("eu"))))

    def get(self, target, **fields):
        return self.registry.ask_openly("GET", target, **fields)

    def test_the_head(self):
        answer = self.get("/registry/head")
        self.assertEqual((answer.status, answer.get("Content-Type")), (200, JSON))
        self.assertEqual(list(answer.json()), HEAD_FIELDS)
        self.assertEqual(answer.json(), self.heads[-1])
        self.assertEqual(answer.json()["version"], 9)
        self.assertRegex(answer.json()["payload_b3"], "^b3:[0-9a-f]{64}$")
        self.assertTrue(answer.get("ETag").startswith('"'))
        self.assertIsNotNone(verifier.milliseconds(answer.json()["committed_at"]))
        head = self.registry.ask_openly("HEAD", "/registry/head")
        self.assertEqual((head.status, head.get("Content-Length"), head.get("ETag")), (200, str(len(answer.body)), answer.get("ETag")))

    def test_conditions_of_the_head(self):
        tag = self.get("/registry/head").get("ETag")
        for value in (tag, f'"x", {tag}', "W/" + tag, "*"):
            answer = self.get("/registry/head", If_None_Match=value)
            self.assertEqual((answer.status, answer.body, answer.get("ETag")), (304, b"", tag), value)
        self.assertEqual(self.get("/registry/head", If_None_Match='"x"').status, 200)
        self.assert_error(self.get("/registry/head", If_Match='"x"'), 412, "precondition_failed")

    def test_versions(self):
        for version, head in enumerate(self.heads):
            answer = self.get(f"/registry/{version}")
            said = answer.json()
            self.assertEqual((answer.status, answer.get("Content-Type"), answer.get("Cache-Control")), (200, JSON, FOREVER))
            self.assertEqual({name: said[name] for name in HEAD_FIELDS}, head)
            self.assertLessEqual({"payload", "payload_cbor", "approvals", "prev"}, set(said))
            self.assertNotIn("supersedes", said)
            self.assertEqual(said["prev"], self.heads[version - 1]["commit_b3"] if version else verifier.named(verifier.ZERO))
            self.assertEqual(said["payload"]["version"], version)
            self.assertGreaterEqual(len(said["approvals"]), 2)
            for approval in said["approvals"]:
                self.assertEqual(set(approval), {"signer_id", "algo", "sig", "signed_at"})
            self.assertEqual(self.get(f"/registry/{version}", If_None_Match=answer.get("ETag")).status, 304)

    def test_versions_as_cbor_are_the_signed_bytes(self):
        for version in range(len(self.heads)):
            answer = self.get(f"/registry/{version}", Accept=CBOR)
            self.assertEqual((answer.status, answer.get("Content-Type"), answer.get("Cache-Control")), (200, CBOR, FOREVER))
            self.assertIn("accept", (answer.get("Vary") or "").lower())
            self.assertEqual(verifier.named(verifier.blake3_of([answer.body])[0]), self.heads[version]["payload_b3"])
            other = self.get(f"/registry/{version}")
            self.assertEqual(base64.b64decode(other.json()["payload_cbor"]), answer.body)
            self.assertNotEqual(other.get("ETag"), answer.get("ETag"))
            self.assertEqual(verifier.decode(answer.body)["version"], version)

    def test_accept_is_a_list(self):
        for value in ("application/cbor, */*", "text/html, application/cbor", "application/cbor;q=0.9, text/plain;q=0.1"):
            self.assertEqual(self.get("/registry/1", Accept=value).get("Content-Type"), CBOR, value)
        for value in ("application/json", "*/*", "text/html"):
            self.assertEqual(self.get("/registry/1", Accept=value).get("Content-Type"), JSON, value)

    def test_versions_that_are_not_there(self):
        for version in ("10", "4294967296", "18446744073709551615"):
            self.assert_error(self.get(f"/registry/{version}"), 404, "not_found")
        for version in ("-1", "01", "1x", "18446744073709551616", "b3:00", "%2F", "%00"):
            self.assert_error(self.get(f"/registry/{version}"), 400, "malformed")
        self.assert_error(self.get("/registry"), 404, "not_found")
        self.assert_error(self.get("/registry/1/2"), 404, "not_found")

    def test_the_log(self):
        whole = self.registry.get("/registry/log")
        self.assertEqual([{name: one[name] for name in HEAD_FIELDS} for one in whole["commits"]], self.heads)
        self.assertNotIn("next", whole)
        part = self.registry.get("/registry/log?from=3&limit=4")
        self.assertEqual([one["version"] for one in part["commits"]], [3, 4, 5, 6])
        self.assertEqual(part["next"], 7)
        self.assertEqual([one["version"] for one in self.registry.get("/registry/log?from=8")["commits"]], [8, 9])
        self.assertEqual(self.registry.get("/registry/log?from=10")["commits"], [])
        seen, after = [], 0
        while after is not None:
            page = self.registry.get(f"/registry/log?from={after}&limit=3")
            seen += page["commits"]
            after = page.get("next")
        self.assertEqual(seen, whole["commits"])
        for query in ("limit=0", "limit=1001", "limit=x", "from=-1", "from=01", "from=1&from=2", "to=3", "from=", "limit", "from=%zz"):
            self.assert_error(self.get(f"/registry/log?{query}"), 400, "malformed")

    def test_the_checkpoint(self):
        size, _ = self.registry.covered()
        answer = self.get("/registry/checkpoint")
        self.assertTrue(answer.get("Content-Type").startswith("text/plain"))
        self.assertEqual(size, 10)
        self.assertEqual(answer.body.split(b"\n")[0].decode(), self.heads[0]["payload_b3"])
        self.assertNotIn("immutable", answer.get("Cache-Control") or "")

    def test_proofs_answer_and_refuse(self):
        self.registry.covered()
        proof = self.registry.get("/registry/proof/inclusion?version=3&size=9")
        self.assertEqual((proof["index"], proof["size"]), (3, 9))
        self.assertEqual(self.get("/registry/proof/inclusion?version=3&size=9").get("Cache-Control"), FOREVER)
        self.assertEqual(self.registry.get("/registry/proof/inclusion?version=3")["size"], 10)
        for query in ("", "size=4", "version=x&size=4", "version=1&size=4&more=1", "version=1&version=2&size=4", "version=-1&size=3"):
            self.assert_error(self.get(f"/registry/proof/inclusion?{query}"), 400, "malformed")
        for query in ("version=4&size=4", "version=1&size=11", "version=10&size=10"):
            self.assert_error(self.get(f"/registry/proof/inclusion?{query}"), 404, "not_found")
        proof = self.registry.get("/registry/proof/consistency?from=3&to=9")
        self.assertEqual(proof["size"], 9)
        for query in ("", "to=4", "from=5&to=4", "from=x&to=4", "from=1&to=3&x=1"):
            self.assert_error(self.get(f"/registry/proof/consistency?{query}"), 400, "malformed")
        for query in ("from=1&to=11", "from=11&to=11"):
            self.assert_error(self.get(f"/registry/proof/consistency?{query}"), 404, "not_found")
        self.assert_error(self.get("/registry/proof/nonsense"), 404, "not_found")

    def test_tiles_are_immutable_bytes(self):
        self.registry.covered()
        for path in ("tile/0/000.p/10", "tile/entries/000.p/10"):
            answer = self.get("/registry/" + path)
            self.assertEqual((answer.status, answer.get("Content-Type"), answer.get("Cache-Control")), (200, "application/octet-stream", FOREVER))

    def test_methods(self):
        for target, allowed in (("/registry/head", "GET"), ("/registry/0", "GET"), ("/registry/log", "GET"), ("/registry/checkpoint", "GET"),
                                ("/registry/stream", "GET"), ("/registry/proof/inclusion", "GET"), ("/registry/tile/0/000", "GET")):
            answer = self.registry.ask("POST", target, b"")
            self.assert_error(answer, 405, "method_not_allowed")
            self.assertIn(allowed, answer.get("Allow"))
        for target in ("/registry/approvals/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/registry/commit/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/registry/supersede"):
            answer = self.get(target)
            self.assert_error(answer, 405, "method_not_allowed")
            self.assertIn("POST", answer.get("Allow"))
        self.assert_error(self.registry.ask("DELETE", "/registry/proposals"), 405, "method_not_allowed")

    def test_health_and_version(self):
        self.assertEqual(self.get("/healthz").body.strip(), b"ok")
        self.assertEqual(self.get("/readyz").json(), {"ready": True, "write_ready": True, "degraded": False, "missing": []})
        self.assertEqual(self.get("/version").json()["service"], "registry")

    def test_long_polls_that_need_not_wait(self):
        began = time.monotonic()
        for query in ("after=8&wait=60s", "after=0&wait=60s", "after=9", "wait=60s", "after=9&wait=0s", "after=9&wait=1ms"):
            answer = self.get(f"/registry/head?{query}")
            self.assertEqual((answer.status, answer.json()["version"]), (200, 9), query)
        self.assertLess(time.monotonic() - began, 30)
        for query in ("after=x&wait=1s", "after=9&wait=x", "after=9&wait=-1s", "after=9&wait=1s&x=1", "after=9&wait=1s&wait=2s", "after=09&wait=1s", "wait"):
            self.assert_error(self.get(f"/registry/head?{query}"), 400, "malformed")

    def test_topology(self):
        live = self.get("/debug/topology").json()
        queues = {queue["name"]: queue["capacity"] for queue in live["queues"]}
        for name, capacity in (("proposals", 512), ("approvals", 512), ("committed", 1024), ("retention_cmd", 8)):
            self.assertEqual(queues.get(name), capacity, name)


class LongPoll(RegistryTest):
    def ask_after(self, version, wait, fields=None):
        """In a thread: [answer, seconds]."""
        got = []

        def run():
            began = time.monotonic()
            answer = self.registry.ask_openly("GET", f"/registry/head?after={version}&wait={wait}", **(fields or {}))
            got.extend([answer, time.monotonic() - began])
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread, got

    def test_a_commit_answers_those_who_wait_at_once(self):
        version = self.registry.head()["version"]
        waiting = [self.ask_after(version, "50s") for _ in range(20)]
        head = self.registry.change(self.registry.next_items(region("poll")))
        for thread, got in waiting:
            thread.join(wire.PATIENCE)
            self.assertEqual((got[0].status, got[0].json()), (200, head))
            self.assertLess(got[1], 40)

    def test_without_a_commit_it_answers_the_present_head_when_its_time_is_over(self):
        version = self.registry.head()["version"]
        thread, got = self.ask_after(version, "700ms")
        thread.join(wire.PATIENCE)
        self.assertEqual((got[0].status, got[0].json()["version"]), (200, version))
        self.assertGreaterEqual(got[1], 0.65)

    def test_it_outlives_the_deadline_of_other_requests(self):
        version = self.registry.head()["version"]
        with Registry({"timeouts.request": "100ms"}) as quick:
            began = time.monotonic()
            answer = quick.ask_openly("GET", "/registry/head?after=0&wait=600ms")
            self.assertEqual((answer.status, answer.json()["version"]), (200, 0))
            self.assertGreaterEqual(time.monotonic() - began, 0.55)
        self.assertEqual(self.registry.head()["version"], version)

    def test_a_wait_past_a_version_that_is_not_there_yet_waits_for_it(self):
        version = self.registry.head()["version"]
        thread, got = self.ask_after(version + 1, "50s")
        self.registry.change(self.registry.next_items(region("one")))
        head = self.registry.change(self.registry.next_items(region("two")))
        thread.join(wire.PATIENCE)
        self.assertEqual(got[0].json(), head)

    def test_the_present_one_s_tag_is_304_when_nothing_came(self):
        head = self.registry.ask_openly("GET", "/registry/head")
        answer = self.registry.ask_openly("GET", f"/registry/head?after={head.json()['version']}&wait=100ms", If_None_Match=head.get("ETag"))
        self.assertEqual(answer.status, 304)

    def test_polls_are_connections_and_not_in_flight(self):
        with Registry({"server.max_inflight": 2}) as small:
            connections = [small.connect() for _ in range(10)]
            for connection in connections:
                connection.send(wire.request("GET", "/registry/head?after=0&wait=50s"))
            head = small.change([*small.items(), region("x")])
            for connection in connections:
                answer = connection.read()
                self.assertEqual((answer.status, answer.json()), (200, head))
                connection.close()

    def test_whoever_hangs_up_is_forgotten(self):
        version = self.registry.head()["version"]
        connections = [self.registry.connect() for _ in range(30)]
        for connection in connections:
            connection.send(wire.request("GET", f"/registry/head?after={version}&wait=50s"))
        for connection in connections:
            connection.close()
        self.registry.change(self.registry.next_items(region("after")))


class Proposals(RegistryTest):
    quorum = (2, ("a", "b"))

    def test_pending_ones_are_listed_with_their_approvals_and_shown(self):
        self.assertEqual(self.registry.get("/registry/proposals"), {"proposals": []})
        made = [self.registry.propose(self.registry.next_items(region(name))) for name in ("x", "y")]
        self.registry.approve_all(made[1], ("b",))
        listed = {one["proposal_id"]: one for one in self.registry.get("/registry/proposals")["proposals"]}
        self.assertEqual(set(listed), {one["proposal_id"] for one in made})
        for one in made:
            for name in ("version", "prev", "payload_b3", "expires_at"):
                self.assertEqual(listed[one["proposal_id"]][name], one[name])
            shown = self.registry.get(f"/registry/proposals/{one['proposal_id']}")
            self.assertEqual(shown["payload"], one["payload"])
            self.assertEqual(verifier.named(verifier.blake3_of([base64.b64decode(one["payload"])])[0]), one["payload_b3"])
        self.assertEqual([one["signer_id"] for one in listed[made[1]["proposal_id"]]["approvals"]], ["b"])
        self.assertEqual(listed[made[0]["proposal_id"]]["approvals"], [])
        self.assertEqual(self.registry.metric("registry_pending_proposals"), 2)
        self.registry.restart()
        self.assertEqual({one["proposal_id"]: one for one in self.registry.get("/registry/proposals")["proposals"]}, listed)
        self.registry.approve_all(made[1], ("a",))
        self.assertEqual(self.registry.commit(made[1]).status, 201)
        self.assertEqual(self.registry.get("/registry/proposals"), {"proposals": []})
        self.assertEqual(self.registry.metric("registry_pending_proposals"), 0)
        for one in made:
            answer = self.registry.ask_openly("GET", f"/registry/proposals/{one['proposal_id']}")
            self.assertIn(answer.status, (404, 409), answer)

    def test_one_that_is_not_there_is_404(self):
        for name in ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "x", "0", "01ARZ3NDEKTSV4RRFFQ69G5FA"):
            self.assert_error(self.registry.ask_openly("GET", f"/registry/proposals/{name}"), 404, "not_found")


class Expiry(unittest.TestCase):
    def test_a_proposal_whose_time_is_over_is_gone_and_cannot_be_committed(self):
        with Registry({"proposals.ttl": "1s"}, 1, ("a",)) as registry:
            one = registry.approve_all(registry.propose())
            self.assertGreater(verifier.milliseconds(one["expires_at"]), 0)
            wire.poll(lambda: registry.get("/registry/proposals")["proposals"] == [], "it is swept")
            answer = registry.commit(one)
            self.assertIn((answer.status, answer.error()["code"]), ((404, "not_found"), (409, "conflict")))
            self.assertEqual(registry.head()["version"], 0)
            registry.restart()
            self.assertEqual(registry.get("/registry/proposals")["proposals"], [])
            registry.change([*registry.items(), region("later")])


class SmallLimits(unittest.TestCase):
    def test_the_shared_limits_hold_here_too(self):
        with Registry({"server.max_rps": 5}, roomy=False) as registry:
            codes = [registry.ask_openly("GET", "/registry/head").status for _ in range(20)]
            self.assertIn(429, codes)
            self.assertIn(200, codes)
            answer = next(one for one in iter(lambda: registry.ask_openly("GET", "/registry/head"), None) if one.status == 429)
            self.assertEqual(answer.error()["code"], "quota")
            self.assertIsNotNone(answer.get("Retry-After"))

    def test_a_body_over_the_cap_is_413(self):
        with Registry({"limits.max_body_bytes": "10KiB"}) as registry:
            draft = {"schema_version": "1.0.0", "items": [*registry.items(), *[region(f"r{i}", title="t" * 100) for i in range(100)]]}
            answer = registry.post("/registry/proposals", draft)
            self.assertEqual((answer.status, answer.error()["code"]), (413, "body_cap"))
            answer = registry.ask("POST", "/registry/proposals", json.dumps(draft).encode(), Content_Type="text/plain")
            self.assertIn(answer.status, (413, 415))


if __name__ == "__main__":
    unittest.main()
