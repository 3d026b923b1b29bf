"""Storage announces itself to the index: who has an object is known soon after it came, went, or the process died."""

import json
import os
import re
import subprocess
import tempfile
import unittest

import wire
from registry_up import UpProcess
from storage_server import Connection, Storage, b3sum, binary, cairn, free_port_base

INDEX = 20


class Announcing(UpProcess):
    def port(self, service):
        return {"gateway": self.base, "storage": self.base + 10, "index": self.base + INDEX}[service]

    def bearer(self):
        with open(os.path.join(self.data, "keys", "admin.cap")) as file:
            return {"Authorization": f"Bearer {file.read().strip()}"}

    def ask(self, service, method, target, body=None, **fields):
        with Connection(("127.0.0.1", self.port(service))) as connection:
            return connection.ask(method, target, body, **fields)

    def providers(self, service, address):
        """The addresses at which the object is said to be; none: nobody says that."""
        answer = self.ask(service, "GET", f"/providers/{address}")
        self.assertIn(answer.status, (200, 404), answer)
        return [one["addr"] for one in answer.json()["providers"]] if answer.status == 200 else []

    def put(self, content):
        [address] = b3sum(content)
        answer = self.ask("storage", "PUT", f"/o/{address}", content, **self.bearer())
        self.assertIn(answer.status, (200, 201), answer)
        return address

    def await_provider(self, address):
        here = [f"http://127.0.0.1:{self.port('storage')}"]
        wire.poll(lambda: self.providers("index", address) == here, "the index knows who has it")
        self.assertEqual(self.providers("gateway", address), here)

    def await_none(self, address):
        wire.poll(lambda: self.providers("index", address) == [], "the index knows that nobody has it")

    def metric(self, name):
        text = self.ask("storage", "GET", "/metrics").body.decode()
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])

    def test_what_is_put_is_found_and_what_is_removed_is_found_no_more(self):
        process = self.start()
        kept, gone = self.put(b"kept"), self.put(b"gone")
        self.await_provider(kept)
        self.await_provider(gone)
        self.assertEqual(self.ask("storage", "DELETE", f"/o/{gone}", **self.bearer()).status, 204)
        self.await_none(gone)
        self.assertEqual(self.ask("gateway", "GET", f"/providers/{gone}").status, 404)
        self.await_provider(kept)
        wire.poll(lambda: self.metric("announce_pending_keys") == 0, "nothing is left to say")
        self.assertEqual(self.metric("announce_covered_keys"), 1)
        self.assertEqual(self.metric("announce_lag_seconds"), 0)
        self.stop(process)

    def test_what_was_there_before_a_kill_is_found_after_it(self):
        process = self.start()
        addresses = [self.put(b"object %d" % number) for number in range(20)]
        self.await_provider(addresses[-1])
        process.kill()
        process.wait()
        process = self.start(base=self.base)
        for address in addresses:
            self.await_provider(address)
        late = self.put(b"late")
        self.await_provider(late)
        self.stop(process)

    def test_a_revoked_root_key_ends_no_announcing(self):
        process = self.start()
        self.await_provider(self.put(b"before"))
        shown = cairn("cap", "inspect", "--json", self.bearer()["Authorization"].split()[1])
        key = json.loads(shown.stdout)["key_id"]
        self.assertEqual(self.ask("storage", "POST", f"/admin/keys/{key}/revoke", **self.bearer()).status // 100, 2)
        self.await_provider(self.put(b"after"))
        self.stop(process)

    def test_with_amnesia_it_is_announced_too(self):
        self.base = free_port_base()
        process = subprocess.Popen([binary(), "up", "--amnesia", "--port-base", str(self.base)], cwd=self.top, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.processes.append(process)
        token = None
        while token is None:
            line = process.stdout.readline()
            self.assertTrue(line, "it did not start")
            token = line.split("=", 1)[1].strip() if line.startswith("CAIRN_CAP=") else None
        [address] = b3sum(b"forgotten")
        answer = self.ask("storage", "PUT", f"/o/{address}", b"forgotten", Authorization=f"Bearer {token}")
        self.assertEqual(answer.status, 201, answer)
        self.await_provider(address)
        self.stop(process)


class Apart(unittest.TestCase):
    """Storage in a process of its own, with an index that another data directory's keys guard."""

    def test_an_index_elsewhere_is_shown_the_token_of_the_file(self):
        with tempfile.TemporaryDirectory(prefix="cairn-announce-") as top:
            up = Announcing()
            up.setUp()
            self.addCleanup(up.doCleanups)
            up.start()
            minted = cairn("cap", "mint", "--op", "node.peer", "--data", up.data)
            self.assertEqual(minted.returncode, 0, minted.stderr)
            token = os.path.join(top, "peer.cap")
            settings = {"peers.index": f"127.0.0.1:{up.port('index')}", "announce.token_file": token,
                        "announce.endpoints": "10.1.2.3:7410,https://[2001:db8::1]:443"}
            storage = Storage(settings)
            self.addCleanup(storage.end)
            address = storage.post(b"from elsewhere")
            wire.poll(lambda: storage.metric('announce_requests_total{result="unauthorized"}') > 0, "it has tried")
            self.assertEqual(up.providers("index", address), [])
            with open(token, "w") as file:
                file.write(minted.stdout)
            wire.poll(lambda: up.ask("index", "GET", f"/providers/{address}").status == 200, "the index knows who has it")
            [provider] = up.ask("index", "GET", f"/providers/{address}").json()["providers"]
            self.assertEqual(provider["addr"], "http://10.1.2.3:7410")
            self.assertEqual(provider["others"], ["https://[2001:db8::1]:443"])
            self.assertEqual(storage.ask("DELETE", f"/o/{address}").status, 204)
            wire.poll(lambda: up.ask("index", "GET", f"/providers/{address}").status == 404, "the index knows that it is gone")
            self.assertEqual(storage.stop(), 0)


if __name__ == "__main__":
    unittest.main()
