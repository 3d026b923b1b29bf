"""Lists that may be long: proposals come in pages, bundles of entries a part at a time."""

from registry_server import Registry, RegistryTest, region
from storage_server import cairn


class Proposals(RegistryTest):
    settings = {"proposals.max_pending": 300}

    def test_pending_proposals_come_in_pages_that_hold_each_of_them_once(self):
        items = self.registry.items()
        made = [self.registry.propose([*items, region(f"r{i}")])["proposal_id"] for i in range(250)]
        for limit in (None, 1, 7, 249, 250, 1000):
            with self.subTest(limit=limit):
                found, after, pages = [], "", 0
                while True:
                    query = "&".join(part for part in (f"limit={limit}" if limit else "", f"after={after}" if after else "") if part)
                    page = self.registry.get("/registry/proposals" + ("?" + query if query else ""))
                    self.assertLessEqual(len(page["proposals"]), limit or 100)
                    found += [one["proposal_id"] for one in page["proposals"]]
                    pages += 1
                    if "next" not in page:
                        break
                    self.assertEqual(page["next"], found[-1])
                    after = page["next"]
                self.assertEqual(found, sorted(made))
                self.assertEqual(pages, -(-250 // (limit or 100)))
        # One that has ended meanwhile is still a place to go on from.
        page = self.registry.get("/registry/proposals?after=00000000000000000000000000&limit=1")
        self.assertEqual(page["proposals"][0]["proposal_id"], min(made))
        listed = cairn("registry", "log", "--pending", "-q", "--data", self.registry.data)
        self.assertEqual(listed.stdout.split(), sorted(made), listed.stderr)

    def test_a_page_that_cannot_be_meant_is_refused(self):
        for query in ("limit=0", "limit=1001", "limit=x", "after=x", "after=", "limit=1&limit=2", "from=1"):
            self.assert_error(self.registry.ask_openly("GET", "/registry/proposals?" + query), 400, "malformed")


class Entries(RegistryTest):
    def test_a_large_bundle_is_sent_as_it_is_read_and_is_the_same_log(self):
        names = [f"{'signer-' * 8}{i}" for i in range(40)]
        with Registry({}, 40, names) as registry:
            for i in range(12):
                registry.change(registry.next_items(region(f"r{i}")), names)
            registry.covered()
            with registry.connect() as connection:
                answer = connection.ask("GET", "/registry/tile/entries/000.p/13")
                self.assertEqual(answer.status, 200)
                self.assertGreater(len(answer.body), 64 << 10)
                self.assertIsNone(answer.get("Content-Length"))
                again = connection.ask("GET", "/registry/head")  # the connection goes on
                self.assertEqual(again.status, 200)
            at, entries = 0, []
            while at < len(answer.body):
                size = int.from_bytes(answer.body[at:at + 2], "big")
                entries.append(answer.body[at + 2:at + 2 + size])
                at += 2 + size
            self.assertEqual(len(entries), 13)
            small = registry.ask_openly("GET", "/registry/tile/entries/000.p/2")
            self.assertEqual(small.get("Content-Length"), str(len(small.body)))
            self.assertTrue(answer.body.startswith(small.body))
            registry.verify()
