"""The audit trail: who asked for which change and what became of it, whatever was in the way."""

import json
import os
import re
import time
import unittest

import wire
from cli_shape import mismatch, schema_of
from registry_server import Registry, RegistryTest, region
from storage_server import cairn

WHO = r"[0-9a-f]{16}/[0-9a-f]{16}"


class Trail(RegistryTest):
    def mint(self, *arguments):
        made = cairn("cap", "mint", "--data", self.registry.data, *arguments)
        self.assertEqual(made.returncode, 0, made)
        return made.stdout.strip()

    def events(self, query="after=0&limit=1000"):
        answer = self.registry.ask("GET", f"/registry/audit?{query}")
        self.assertEqual(answer.status, 200, answer)
        return answer.json()["events"]

    def told(self, wanted, after):
        """Those behind a sequence that fit, once there is one: they are written within a second or two."""
        end = time.monotonic() + wire.PATIENCE
        while time.monotonic() < end:
            found = [event for event in self.events(f"after={after}&limit=1000") if wanted(event)]
            if found:
                return found
            self.registry.ask_openly("GET", "/healthz")
        self.fail(f"nothing such in the trail: {self.events()}")

    def last(self):
        return max((event["sequence"] for event in self.events()), default=0)

    def test_what_is_refused_before_the_capability_is_counted_by_reason_and_second(self):
        after = self.last()
        for _ in range(40):
            self.assert_error(self.registry.ask_openly("POST", "/registry/proposals", b"{}"), 401, "unauthorized")
        narrow = self.mint("--op", "registry.approve")
        for _ in range(10):
            self.assert_error(self.registry.post("/registry/proposals", {}, narrow), 403, "forbidden")
        marker = self.registry.propose()["proposal_id"]
        self.told(lambda event: event.get("proposal_id") == marker, after)
        counts = {"unauthorized": 0, "forbidden": 0}
        end = time.monotonic() + wire.PATIENCE
        while counts != {"unauthorized": 40, "forbidden": 10} and time.monotonic() < end:
            found = [event for event in self.events(f"after={after}&limit=1000") if event["code"] in counts]
            counts = {code: sum(event["count"] for event in found if event["code"] == code) for code in counts}
        self.assertEqual(counts, {"unauthorized": 40, "forbidden": 10})
        seconds = [(event["op"], event["code"], event["at"]) for event in found]
        self.assertEqual(len(seconds), len(set(seconds)))
        self.assertLess(len(found), 20)
        for event in found:
            self.assertNotIn("who", event)
            self.assertEqual(event["op"], "propose")

    def test_what_is_refused_after_it_is_told_with_the_token_s_name(self):
        after = self.last()
        token = self.mint("--op", "registry.propose,registry.approve,registry.commit,registry.govern")
        one = self.registry.propose()
        self.assertEqual(self.registry.post("/registry/proposals", b"{", token).status, 400)
        self.assertEqual(self.registry.post("/registry/supersede", {"wrong": 1}, token).status, 400)
        self.assertEqual(self.registry.post(f"/registry/commit/{one['proposal_id']}", None, token).status, 409)
        self.assertEqual(self.registry.post("/registry/commit/01ARZ3NDEKTSV4RRFFQ69G5FAV", None, token).status, 404)
        self.assertEqual(self.registry.post("/registry/commit/none", None, token).status, 404)
        self.assertEqual(self.registry.post("/registry/proposals", b"x" * (2 << 20), token).status, 413)
        self.told(lambda event: event["code"] == "body_cap", after)
        found = [event for event in self.events(f"after={after}&limit=1000") if event["code"] != "ok"]
        self.assertEqual([(event["op"], event["code"]) for event in found],
                         [("propose", "malformed"), ("supersede", "malformed"), ("commit", "quorum_failed"), ("commit", "not_found"),
                          ("commit", "not_found"), ("propose", "body_cap")])
        self.assertEqual(len({event["who"] for event in found}), 1)
        for event in found:
            self.assertRegex(event["who"], f"^{WHO}$")
            self.assertEqual(event["count"], 1)
        # No part of the token is its name, and a narrower token has the same.
        inspected = json.loads(cairn("cap", "inspect", "--json", token).stdout)
        self.assertNotIn(found[0]["who"].split("/")[1], json.dumps(inspected))
        narrower = cairn("cap", "attenuate", "--op", "registry.commit", token)
        self.assertEqual(narrower.returncode, 0, narrower)
        self.assertEqual(self.registry.post("/registry/commit/none", None, narrower.stdout.strip()).status, 404)
        again = self.told(lambda event: event["code"] != "ok", found[-1]["sequence"])
        self.assertEqual(again[0]["who"], found[0]["who"])

    def test_what_is_accepted_carries_the_name_in_the_trail_and_in_the_log(self):
        after = self.last()
        one = self.registry.propose(self.registry.next_items(region("audited")))
        self.registry.approve_all(one)
        self.assertEqual(self.registry.commit(one).status, 201)
        self.assertEqual(self.registry.commit(one).status, 200)
        self.told(lambda event: event["op"] == "commit", after)
        found = [event for event in self.events(f"after={after}&limit=1000") if event.get("proposal_id") == one["proposal_id"]]
        self.assertEqual([(event["op"], event["code"]) for event in found],
                         [("propose", "ok"), *[("approve", "ok")] * len(self.registry.signers), ("commit", "ok"), ("commit", "ok")])
        for event in found[:-1]:
            self.assertEqual(event["hash"], one["payload_b3"])
        with open(f"{self.registry.segments}/0000000001.seg", "rb") as file:
            kept = file.read()
        self.assertIn(found[0]["who"].encode(), kept)

    def test_only_who_administers_reads_it_page_by_page(self):
        self.assert_error(self.registry.ask_openly("GET", "/registry/audit"), 401, "unauthorized")
        for op in ("registry.govern", "registry.read"):
            answer = self.registry.ask("GET", "/registry/audit", Authorization=f"Bearer {self.mint('--op', op)}")
            self.assert_error(answer, 403, "forbidden")
        auditor = self.mint("--op", "registry.admin")
        after = self.last()
        for _ in range(3):
            self.registry.propose()
        self.told(lambda event: event["sequence"] >= after + 3, after)
        seen, behind = [], after
        for _ in range(3):
            page = self.registry.ask("GET", f"/registry/audit?after={behind}&limit=1", Authorization=f"Bearer {auditor}").json()
            [event] = page["events"]
            seen.append(event["sequence"])
            behind = page.get("next", event["sequence"])
            self.assertEqual(behind, event["sequence"])
        self.assertEqual(seen, [after + 1, after + 2, after + 3])
        newest = self.registry.ask("GET", "/registry/audit?limit=2").json()
        self.assertEqual([event["sequence"] for event in newest["events"]], [self.last() - 1, self.last()])
        self.assertNotIn("next", newest)
        for query in ("limit=0", "limit=1001", "limit=x", "after=-1", "after=01", "from=1"):
            self.assert_error(self.registry.ask("GET", f"/registry/audit?{query}"), 400, "malformed")

    def test_the_verb_lists_it(self):
        after = self.last()
        one = self.registry.propose()
        self.told(lambda event: event.get("proposal_id") == one["proposal_id"], after)
        listed = cairn("registry", "audit", "--data", self.registry.data, "--after", str(after), "--json")
        self.assertEqual(listed.returncode, 0, listed)
        lines = [json.loads(line) for line in listed.stdout.splitlines()]
        for line in lines:
            self.assertIsNone(mismatch(schema_of("registry-audit"), line), line)
        self.assertEqual([line["sequence"] for line in lines], list(range(after + 1, after + 1 + len(lines))))
        newest = cairn("registry", "audit", "--data", self.registry.data, "--limit", "1")
        self.assertRegex(newest.stdout, rf"^ *[0-9]+  20[0-9T:.Z-]+  propose +ok +by {WHO}  {one['proposal_id']}\n$")
        everything = cairn("registry", "audit", "--data", self.registry.data, "--limit", "100000", "--json")
        self.assertEqual(len(everything.stdout.splitlines()), len(self.events()))
        self.assertEqual(cairn("registry", "audit", "--data", self.registry.data, "--limit", "x").returncode, 64)


class Alone(unittest.TestCase):
    def trail(self, registry):
        return registry.ask("GET", "/registry/audit?after=0&limit=1000").json()["events"]

    def test_the_trail_is_there_after_a_restart_and_after_it_was_damaged_or_taken_away(self):
        with Registry() as registry:
            first = registry.propose()["proposal_id"]
            self.assertEqual(registry.stop(), 0)
            path = os.path.join(registry.directory, "audit")
            self.assertEqual(os.path.getsize(path) % 256, 0)
            registry.start()
            second = registry.propose()["proposal_id"]
            self.assertEqual(registry.stop(), 0)
            registry.start()
            end = time.monotonic() + wire.PATIENCE
            ids = []
            while len(ids) < 2 and time.monotonic() < end:
                ids = [event["proposal_id"] for event in self.trail(registry)]
            self.assertEqual(ids, [first, second])
            self.assertEqual(registry.stop(), 0)
            with open(path, "r+b") as file:
                file.write(os.urandom(100))
            registry.start()
            end = time.monotonic() + wire.PATIENCE
            while ids != [second] and time.monotonic() < end:
                ids = [event["proposal_id"] for event in self.trail(registry)]
            self.assertEqual(ids, [second])
            self.assertEqual(registry.stop(), 0)
            with open(path, "wb") as file:
                file.write(os.urandom(1 << 20))
            registry.start()
            third = registry.approve_all(registry.propose())
            self.assertEqual(registry.commit(third).status, 201)
            self.assertEqual(registry.stop(), 0)
            os.unlink(path)
            os.mkdir(path)
            registry.start()
            self.assertEqual(registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": registry.items()}).status, 202)
            wire.poll(lambda: registry.metric("registry_audit_dropped_total") > 0, "the event is counted as dropped")
            self.assertTrue(registry.ask_openly("GET", "/readyz").json()["ready"])
            self.assertEqual(registry.stop(), 0)
            self.assertEqual(len(re.findall("the audit trail is not written", registry.log())), 1)
            os.rmdir(path)
            registry.start()

    def test_without_a_disk_it_is_kept_in_memory(self):
        with Registry({"amnesia.enabled": "true"}, signers=()) as registry:
            registry.ask_openly("POST", "/registry/proposals", b"{}")
            end = time.monotonic() + wire.PATIENCE
            events = []
            while not events and time.monotonic() < end:
                events = self.trail(registry)
            self.assertEqual([(event["op"], event["code"], event["count"]) for event in events], [("propose", "unauthorized", 1)])

    def test_the_bus_is_told_of_new_events(self):
        with Registry({"storage.kind": "ram", "log.level": "debug"}) as registry:
            registry.ask_openly("POST", "/registry/proposals", b"{}")
            end = time.monotonic() + wire.PATIENCE
            while "registry audited" not in registry.log() and time.monotonic() < end:
                registry.ask_openly("GET", "/healthz")
            self.assertRegex(registry.log(), r'"registry audited".*"sequence":1\b')


if __name__ == "__main__":
    unittest.main()
