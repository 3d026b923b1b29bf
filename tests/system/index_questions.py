"""What an index learns from others: announcements, a real DHT among several processes, names of other keys."""

import base64
import json
import os
import socket
import unittest

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import wire
from index_server import Index, provider_record
from registry_server import Registry, node

FIRST, SECOND = "b3:" + "1" * 64, "b3:" + "2" * 64


def free_udp_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def addresses(answer):
    return [one["addr"] for one in answer.json()["providers"]]


class Announcements(unittest.TestCase):
    def test_what_a_node_announces_is_found_and_what_it_withdraws_is_not(self):
        key = Ed25519PrivateKey.generate()
        with Index() as index:
            self.assertEqual(index.ask_openly("GET", f"/providers/{FIRST}").status, 404)
            said = index.announce(provider_record(key, FIRST, port=7001), provider_record(key, SECOND, port=7001))
            self.assertEqual((said.status, said.json()["taken"], said.json()["ignored"]), (200, 2, 0))
            self.assertEqual(addresses(index.ask_openly("GET", f"/providers/{FIRST}")), ["http://127.0.0.1:7001"])
            self.assertEqual(index.ask_openly("GET", f"/resolve/{FIRST}").json()["source"], "db")
            index.announce(provider_record(key, FIRST, sequence=2, withdrawn=True))
            self.assertEqual(index.ask_openly("GET", f"/providers/{FIRST}").status, 404)
            self.assertEqual(index.ask_openly("GET", f"/resolve/{FIRST}").status, 404)
            self.assertEqual(index.ask_openly("GET", f"/providers/{SECOND}").status, 200)

    def test_a_forged_or_older_provider_record_is_ignored(self):
        key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        with Index() as index:
            said = index.announce(provider_record(key, FIRST, signer=other), provider_record(key, FIRST, lives=-5),
                                  provider_record(key, FIRST, lives=1_000_000)).json()
            self.assertEqual((said["taken"], said["ignored"]), (0, 3))
            self.assertEqual(index.ask_openly("GET", f"/providers/{FIRST}").status, 404)
            index.announce(provider_record(key, FIRST, port=7001, sequence=5))
            self.assertEqual(index.announce(provider_record(key, FIRST, port=7002, sequence=4)).json()["ignored"], 1)
            self.assertEqual(addresses(index.ask_openly("GET", f"/providers/{FIRST}")), ["http://127.0.0.1:7001"])
            for reason, count in (("forged", 1), ("expired", 2), ("older", 1)):
                self.assertEqual(index.metric('index_records_refused_total{reason="%s"}' % reason), count)
            for body in (b"{}", b'{"records":[1]}', b'{"records":["!"]}', b'{"records":["AAAA"]}', b'{"records":[],"x":1}',
                         json.dumps({"records": [base64.b64encode(provider_record(key, FIRST)).decode()] * 1001}).encode()):
                self.assertEqual(index.ask("POST", "/providers", body).status, 400, body[:60])

    def test_an_address_has_at_most_32_providers_and_the_fresher_ones_come_first(self):
        with Index() as index:
            keys = [Ed25519PrivateKey.generate() for _ in range(33)]
            said = index.announce(*[provider_record(key, FIRST, port=7000 + i) for i, key in enumerate(keys)]).json()
            self.assertEqual((said["taken"], said["ignored"]), (32, 1))
            self.assertEqual(len(addresses(index.ask_openly("GET", f"/providers/{FIRST}"))), 5)
            self.assertEqual(len(addresses(index.ask_openly("GET", f"/providers/{FIRST}?limit=32"))), 32)
            self.assertEqual(index.ask_openly("GET", f"/providers/{FIRST}?limit=33").status, 400)
            again = index.ask_openly("GET", f"/providers/{FIRST}?limit=32")
            self.assertEqual(addresses(again), addresses(index.ask_openly("GET", f"/providers/{FIRST}?limit=32")))

    def test_a_table_that_may_have_lost_some_has_another_epoch(self):
        key = Ed25519PrivateKey.generate()
        with Index() as index:
            first = index.announce(provider_record(key, FIRST)).json()["epoch"]
            index.restart()
            self.assertEqual(index.announce().json()["epoch"], first)
            self.assertEqual(index.ask_openly("GET", f"/providers/{FIRST}").status, 200)
            index.kill()
            index.start()
            self.assertNotEqual(index.announce().json()["epoch"], first)


class Network(unittest.TestCase):
    """A registry and index nodes that find each other over OpenDHT on loopback."""

    def settings(self, registry, port, *bootstrap):
        return {"peers.registry": f"127.0.0.1:{registry.address[1]}", "dht.mode": "private", "dht.port": port,
                "dht.allow_loopback": "true", **({"dht.bootstrap": ",".join(f"127.0.0.1:{one}" for one in bootstrap)} if bootstrap else {})}

    def await_dht(self, index):
        wire.poll(lambda: not index.ask_openly("GET", "/readyz").json()["degraded"], "the DHT")

    def test_an_object_that_is_announced_to_one_node_is_found_from_the_others(self):
        key = Ed25519PrivateKey.generate()
        ports = [free_udp_port() for _ in range(3)]
        with Registry() as registry, Index(self.settings(registry, ports[0])) as a, \
                Index(self.settings(registry, ports[1], ports[0])) as b, Index(self.settings(registry, ports[2], ports[0])) as c:
            for index in (b, c):
                self.await_dht(index)
            a.announce(provider_record(key, FIRST, port=7001), provider_record(key, SECOND, port=7001))
            for index in (b, c):
                # Until the put has come through; what nobody had is remembered for three seconds.
                wire.poll(lambda index=index: index.ask_openly("GET", f"/providers/{FIRST}").status == 200, "the record")
                found = index.ask_openly("GET", f"/providers/{FIRST}").json()
                self.assertEqual(found["providers"][0]["addr"], "http://127.0.0.1:7001")
                self.assertIn(index.ask_openly("GET", f"/resolve/{FIRST}").json()["source"], ("dht", "cache"))
                nobody = index.ask_openly("GET", "/providers/b3:" + "9" * 64)
                self.assertEqual((nobody.status, nobody.error()["code"]), (404, "not_found"))
            # It is found after its node has gone, until the DHT forgets it; and a node that comes back finds the network again.
            a.stop()
            b.restart()
            self.await_dht(b)
            wire.poll(lambda: b.ask_openly("GET", f"/providers/{SECOND}").status == 200, "the record of a node that is gone")
            a.start()

    def test_all_dht_peers_dead_is_504_by_the_deadline_and_names_are_still_answered(self):
        ports = [free_udp_port() for _ in range(2)]
        with Registry() as registry, Index(self.settings(registry, ports[0])) as a, \
                Index({**self.settings(registry, ports[1], ports[0]), "dht.deadline": "700ms"}) as b:
            self.await_dht(b)
            b.put_name("own", FIRST)
            a.kill()
            answer = b.ask_openly("GET", f"/providers/{SECOND}")
            self.assertIn((answer.status, answer.error()["code"]), ((504, "timeout"), (503, "degraded")), answer)
            self.assertEqual(b.ask_openly("GET", "/resolve/own").json()["manifest_cid"], FIRST)

    def test_a_name_of_another_key_is_asked_for_and_never_answered_from_here(self):
        with Registry() as registry, Index({"peers.registry": f"127.0.0.1:{registry.address[1]}"}) as a, \
                Index({"peers.registry": f"127.0.0.1:{registry.address[1]}"}) as b:
            a.put_name("team/own", FIRST)
            speaker = base64.b64encode(b.public_key()).decode()
            registry.change(registry.next_items(
                {"type": "name_authority", "prefix": "team", "key": speaker},
                node("index-a", addr="127.0.0.1:%d" % a.address[1], roles=["index"], keys=[base64.b64encode(a.public_key()).decode()]),
                node("index-b", addr="127.0.0.1:%d" % b.address[1], roles=["index"], keys=[speaker])))
            # The registry is another process here, so it is read every 30 s; a restart reads it at once.
            for index in (a, b):
                index.bind = "127.0.0.1:%d" % index.address[1]
                index.restart()
            wire.poll(lambda: a.put_name("team/x", FIRST).status == 403, "the authority")
            refused = a.put_name("team/x", FIRST)
            self.assertEqual(refused.error()["code"], "forbidden")
            self.assertEqual(a.ask("DELETE", "/names/team/own").status, 403)
            self.assertEqual(a.ask_openly("GET", "/names/team/own").status, 404)
            self.assertEqual(a.ask_openly("GET", "/names").json()["names"], [])
            self.assertEqual(a.ask_openly("GET", "/resolve/team/own").status, 404)
            self.assertEqual(b.put_name("team/x", SECOND).status, 201)
            found = a.ask_openly("GET", "/resolve/team/x")
            self.assertEqual((found.status, found.json()["manifest_cid"], found.json()["source"]), (200, SECOND, "dht"))
            self.assertEqual(a.ask_openly("GET", "/resolve/team/x").json()["source"], "cache")
            # Cached for 15 s, and asked for again on demand.
            b.put_name("team/x", FIRST)
            self.assertEqual(a.ask_openly("GET", "/resolve/team/x?fresh=true").json()["manifest_cid"], FIRST)
            self.assertEqual(a.put_name("teams/x", FIRST).status, 201)
            # Without the registry a start does not know who speaks for what: it answers, and changes nothing.
            port = registry.address[1]
            registry.stop()
            a.restart()
            refused = a.put_name("alone", FIRST)
            self.assertEqual((refused.status, refused.error()["code"]), (503, "not_ready"))
            self.assertFalse(a.ask_openly("GET", "/readyz").json()["write_ready"])
            self.assertEqual(a.ask_openly("GET", "/resolve/teams/x").status, 200)
            registry.bind = f"127.0.0.1:{port}"
            registry.start()
            wire.poll(lambda: a.put_name("alone", FIRST).status == 201, "the registry")
            self.assertEqual(a.ask_openly("GET", "/resolve/team/x").json()["manifest_cid"], FIRST)
            # Nobody answered is not nobody has it.
            b.kill()
            gone = a.ask_openly("GET", "/resolve/team/other")
            self.assertIn(gone.status, (503, 504), gone)
            self.assertEqual(a.ask_openly("GET", "/resolve/team/x").json()["manifest_cid"], FIRST)
            self.assertTrue(os.path.isdir(b.data))


if __name__ == "__main__":
    unittest.main()
