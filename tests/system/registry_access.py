"""Who may do what; what is counted; and that nothing secret is ever said."""

import base64
import os
import re
import signal
import unittest

import wire
from macaroon_tokens import narrow
from registry_server import Registry, RegistryTest, approval, region
from storage_server import cairn
from test_tools import tool

OPERATIONS = ("registry.propose", "registry.approve", "registry.commit", "registry.govern")
OF_ITS_OWN = ("registry_updates_total", "registry_pending_proposals", "registry_signers", "commit_cas_fail_total", "storage_backoff_total",
              "registry_recoveries_total", "audit_chain_verify_seconds", "registry_storage_bytes", "registry_log_segments",
              "registry_checkpoint_age_seconds", "registry_reload_success_total", "registry_reload_fail_total")
OF_THE_SEED = ("queue_depth", "queue_dropped_total", "busy_rejections_total", "tasks_spawned_total", "tasks_aborted_total", "tasks_panicked_total",
               "commit_cas_fail_total", "io_timeouts_total", "backoff_retries_total", "bus_lagged_total")
SHARED = ("http_requests_total", "request_latency_seconds", "inflight_requests", "rejected_total", "queue_depth", "queue_dropped_total",
          "busy_rejections_total", "tasks_canceled_total", "io_orphaned", "shard_stalls_total", "amnesia_mode", "build_info")


class Capabilities(RegistryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tokens = {operation: cls.mint("--op", operation) for operation in OPERATIONS}

    @classmethod
    def mint(cls, *arguments):
        made = cairn("cap", "mint", "--data", cls.registry.data, *arguments)
        if made.returncode != 0:
            raise AssertionError(made)
        return made.stdout.strip()

    def mutations(self):
        """(operation, target, body) of each, with things that would succeed."""
        one = self.registry.propose()
        two = self.registry.approve_all(self.registry.propose(self.registry.next_items(region("cap"))))
        three = self.registry.approve_all(self.registry.propose(supersede_of=self.registry.head()["version"], reason="r"))
        return (("registry.propose", "/registry/proposals", {"schema_version": "1.0.0", "items": self.registry.items()}),
                ("registry.approve", f"/registry/approvals/{one['proposal_id']}", approval("a", self.registry.keys["a"], one["payload_b3"])),
                ("registry.commit", f"/registry/commit/{two['proposal_id']}", None),
                ("registry.govern", "/registry/supersede", {"proposal_id": three["proposal_id"]}))

    def test_without_a_token_it_is_401_with_another_operation_403_and_with_its_own_fine(self):
        head = self.registry.head()
        mutations = self.mutations()
        for operation, target, body in mutations:
            with self.subTest(operation):
                answer = self.registry.ask_openly("POST", target, b"{}")
                self.assert_error(answer, 401, "unauthorized")
                for token in ("nonsense", self.registry.token[:-8] + "AAAAAAAA", ""):
                    answer = self.registry.ask("POST", target, b"{}", Authorization=f"Bearer {token}")
                    self.assert_error(answer, 401, "unauthorized")
                for other in OPERATIONS:
                    if other != operation:
                        self.assert_error(self.registry.post(target, body, self.tokens[other]), 403, "forbidden")
                self.assert_error(self.registry.post(target, body, self.mint("--op", "storage.put,registry.read")), 403, "forbidden")
                self.assert_error(self.registry.post(target, body, self.mint("--op", operation, "--svc", "storage")), 403, "forbidden")
                self.assert_error(self.registry.post(target, body, narrow(self.mint("--op", operation), "expires < 2001-01-01T00:00:00Z")), 403, "forbidden")
                self.assert_error(self.registry.post(target, body, self.mint("--op", operation, "--ip", "10.0.0.0/8")), 403, "forbidden")
        self.assertEqual(self.registry.head(), head)
        for operation, target, body in mutations[:2]:
            self.assertIn(self.registry.post(target, body, self.tokens[operation]).status, (200, 202), operation)
        self.assertEqual(self.registry.post(mutations[3][1], mutations[3][2], self.tokens["registry.govern"]).status, 201)
        [_, _, (operation, target, body), _] = self.mutations()
        self.assertEqual(self.registry.post(target, body, self.mint("--op", operation, "--svc", "registry", "--ip", "127.0.0.0/8", "--expires", "1h")).status, 201)

    def test_whoever_may_revoke_keys_can_be_given_that_alone(self):
        token = self.mint("--op", "registry.admin")
        target = "/admin/keys/0123456789abcdef/revoke"
        self.assert_error(self.registry.post(target, token=self.tokens["registry.govern"]), 403, "forbidden")
        self.assert_error(self.registry.post(target, token=token), 404, "not_found")
        self.assert_error(self.registry.post("/registry/proposals", {}, token), 403, "forbidden")

    def test_reads_are_public(self):
        self.registry.covered()
        for target in ("head", "0", "log", "checkpoint", "proposals", "proof/inclusion?version=0&size=1", "proof/consistency?from=1&to=1",
                       "tile/0/000.p/1", "tile/entries/000.p/1"):
            self.assertEqual(self.registry.ask_openly("GET", f"/registry/{target}").status, 200, target)

    def test_an_attenuated_token_is_good_for_what_is_left(self):
        made = cairn("cap", "attenuate", "-", "--op", "registry.propose", input=self.registry.token)
        self.assertEqual(made.returncode, 0)
        token, items = made.stdout.strip(), self.registry.items()
        answer = self.registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": items}, token)
        self.assertEqual(answer.status, 202)
        self.assert_error(self.registry.post(f"/registry/commit/{answer.json()['proposal_id']}", None, token), 403, "forbidden")

    def test_max_bytes_caps_the_body(self):
        token = self.mint("--op", "registry.propose", "--max-bytes", "100")
        answer = self.registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": self.registry.items()}, token)
        self.assertIn(answer.status, (403, 413))


class Required(unittest.TestCase):
    def test_reads_need_a_capability_when_told(self):
        with Registry({"auth.reads": "required"}) as registry:
            token = cairn("cap", "mint", "--data", registry.data, "--op", "registry.read").stdout.strip()
            other = cairn("cap", "mint", "--data", registry.data, "--op", "registry.propose").stdout.strip()
            wire.poll(lambda: registry.ask("GET", "/registry/checkpoint", Authorization=f"Bearer {token}").status == 200, "there is a checkpoint")
            for target in ("head", "head?after=0&wait=1s", "0", "log", "checkpoint", "stream", "proposals", "proof/inclusion?version=0&size=1",
                           "proof/consistency?from=1&to=1", "tile/0/000.p/1", "tile/entries/000.p/1", "proposals/01ARZ3NDEKTSV4RRFFQ69G5FAV"):
                with self.subTest(target):
                    answer = registry.ask_openly("GET", f"/registry/{target}")
                    self.assertEqual((answer.status, answer.error()["code"]), (401, "unauthorized"))
                    answer = registry.ask("GET", f"/registry/{target}", Authorization=f"Bearer {other}")
                    self.assertEqual((answer.status, answer.error()["code"]), (403, "forbidden"))
                    if target != "stream":
                        answer = registry.ask("GET", f"/registry/{target}", Authorization=f"Bearer {token}")
                        self.assertIn(answer.status, (200, 404))
            for target in ("/healthz", "/readyz", "/metrics", "/version"):
                self.assertEqual(registry.ask_openly("GET", target).status, 200)

    def test_a_revoked_root_key_is_401_here_too(self):
        with Registry() as registry:
            token = registry.token
            self.assertEqual(cairn("cap", "revoke", "--data", registry.data, token).returncode, 0)
            body = b'{"schema_version":"1.0.0","items":[]}'
            wire.poll(lambda: registry.ask("POST", "/registry/proposals", body, Authorization=f"Bearer {token}").status == 401, "it is revoked", 15)


class Metrics(RegistryTest):
    def exercise(self):
        one = self.registry.approve_all(self.registry.propose())
        self.registry.approve(one, "a")
        self.registry.commit(one)
        self.registry.commit(one)
        for target in ("/registry/head", "/registry/0", "/registry/99", "/registry/log", "/registry/proposals", "/registry/tile/0/000.p/1", "/nothing"):
            self.registry.ask_openly("GET", target)
        self.registry.ask_openly("POST", "/registry/proposals", b"{}")

    def test_promtool_has_nothing_to_say(self):
        for state in ("fresh", "used"):
            with self.subTest(state):
                result = tool(self, "promtool", "check", "metrics", input=self.registry.ask_openly("GET", "/metrics").body)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))
            self.exercise()

    def test_the_names_of_the_specification_are_there(self):
        self.exercise()
        declared = set(re.findall(r"^# TYPE (\S+)", self.registry.ask_openly("GET", "/metrics").body.decode(), re.M))
        for name in {*OF_ITS_OWN, *OF_THE_SEED, *SHARED}:
            with self.subTest(name):
                self.assertIn(name, declared)
        samples = self.registry.metrics()
        for name in ('registry_updates_total{result="committed"}', 'storage_backoff_total{op="read"}', 'queue_depth{queue="proposals"}',
                     'queue_dropped_total{queue="approvals"}', 'io_timeouts_total{op="commit"}'):
            with self.subTest(name):
                self.assertIn(name, samples)
        self.assertTrue(any(re.fullmatch(r'registry_signers\{org=".*"\}', name) for name in samples), "registry_signers has its label")

    def test_a_full_table_of_proposals_is_busy_and_counted_but_no_full_queue(self):
        with Registry(settings={"proposals.max_pending": "1"}) as registry:
            registry.propose()
            refused = registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": registry.next_items(region("one-too-many"))})
            self.assertEqual((refused.status, refused.error()["code"]), (429, "busy"))
            self.assertIsNotNone(refused.get("Retry-After"))
            samples = registry.metrics()
            self.assertEqual(samples['busy_rejections_total{endpoint="/registry/proposals"}'], 1)
            self.assertEqual(samples.get('queue_dropped_total{queue="proposals"}', 0), 0)
            self.assertEqual(samples['registry_updates_total{result="rejected"}'], 1)

    def test_what_happens_is_counted(self):
        before = self.registry.metrics()
        self.registry.grow(3)
        self.registry.approve(self.registry.propose(), "stranger", self.registry.keys["a"])
        after = self.registry.metrics()
        for result, more in (("committed", 3), ("rejected", 1)):
            name = f'registry_updates_total{{result="{result}"}}'
            self.assertEqual(after[name] - before[name], more, name)
        self.assertGreater(after["registry_storage_bytes"], before["registry_storage_bytes"])
        self.assertGreaterEqual(after["registry_log_segments"], 1)
        self.registry.covered()
        self.assertLess(self.registry.metric("registry_checkpoint_age_seconds"), 60)


class Reload(unittest.TestCase):
    def test_a_reload_is_counted_by_its_names_and_a_bad_one_changes_nothing(self):
        with Registry(started=False) as registry:
            path = os.path.join(registry.home, "registry.toml")
            registry.arguments = ("--config", path)

            def write(text):
                with open(path, "w") as file:
                    file.write(text)

            def total(name):
                return sum(value for key, value in registry.metrics().items() if key.startswith(name))
            write("[retention]\nmax_count = 5\n")
            registry.start()
            write('[retention]\nmax_count = 7\n\n[storage]\ncheckpoint_interval = "5m"\n')
            registry.process.send_signal(signal.SIGHUP)
            wire.poll(lambda: total("registry_reload_success_total") == 1, "it is counted")
            registry.process.send_signal(signal.SIGHUP)
            wire.poll(lambda: total("registry_reload_success_total") == 2, "so is one that finds nothing new")
            write("[retention]\nmax_count = 0\n")
            registry.process.send_signal(signal.SIGHUP)
            wire.poll(lambda: total("registry_reload_fail_total") == 1, "it is refused")
            registry.change(registry.next_items(region("on")))


class Secrets(unittest.TestCase):
    def test_no_key_token_or_body_is_ever_logged_or_answered(self):
        with Registry({"log.level": "debug"}, 1, ("a", "b")) as registry:
            registry.change([*registry.items(), region("a-region-that-only-a-body-names")])
            registry.ask("POST", "/registry/proposals", b'{"password":"in-a-bad-body"', Content_Type="application/json")
            registry.ask("POST", "/registry/proposals", b"{}", Authorization="Bearer bad-token-of-a-stranger")
            one = registry.propose()
            registry.approve(one, "a")
            registry.approve(one, "a")
            registry.ask_openly("GET", "/registry/999")
            registry.covered_on_disk()
            answers = b"".join(registry.ask_openly("GET", target).body for target in
                               ("/metrics", "/debug/topology", "/readyz", "/version", "/registry/head", "/registry/1", "/registry/proposals"))
            self.assertEqual(registry.stop(), 0)
            secrets = {"token": registry.token, "stranger": "bad-token-of-a-stranger", "body": "in-a-bad-body"}
            for name in ("a", "b", "registry-log", "capability-root"):
                with open(registry.key_path(name)) as file:
                    lines = [line.strip() for line in file if "-----" not in line and line.strip()]
                secrets.update({f"{name} {i}": line for i, line in enumerate(lines) if len(line) > 20})
                for i, line in enumerate(lines):
                    try:
                        raw = base64.b64decode(line, validate=True)[-32:]
                    except ValueError:
                        continue
                    secrets[f"{name} {i} raw"], secrets[f"{name} {i} hex"] = base64.b64encode(raw).decode(), raw.hex()
            self.assertGreater(len(secrets), 8)
            log = registry.log()
            for name, secret in secrets.items():
                self.assertNotIn(secret, log, name)
                self.assertNotIn(secret.encode(), answers, name)
            self.assertNotIn("a-region-that-only-a-body-names", log)
            with open(f"{registry.segments}/0000000001.seg", "rb") as file:
                kept = file.read()
            for name, secret in secrets.items():
                self.assertNotIn(secret.encode(), kept, name)
            registry.start()

    def test_every_mutation_leaves_an_audit_record(self):
        """Accepted ones are their own; refused ones have kind 5 with operation, code and hash."""
        with Registry() as registry:
            one = registry.propose()
            registry.approve(one, "a", registry.keys["a"])
            registry.approve(one, "a", registry.keys["a"])
            registry.approve(one, "stranger", registry.keys["a"])
            self.assertEqual(registry.commit(one).status, 201)
            registry.commit({"proposal_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
            self.assertEqual(registry.stop(), 0)
            with open(f"{registry.segments}/0000000001.seg", "rb") as file:
                kept = file.read()
            for words in (b"duplicate_approval", b"invalid_sig", b"not_found", b"approve", b"commit"):
                self.assertIn(words, kept)
            registry.start()


if __name__ == "__main__":
    unittest.main()
