"""The gateway as real clients meet it: before a real storage, before scripts that misbehave, and in `cairn up`."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import types
import unittest

import test_malformed as malformed
import wire
from gateway_server import TRUSTING, Gateway, GatewayTest, Scripted
from registry_server import Registry, region
from registry_up import UpProcess
from storage_server import MIB, Storage, b3sum, binary, cairn
from test_websocket import Socket
from websocket import ABNF
from wire import chunked, head, request


def whole(body=b"ok", status="200 OK", more=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def answering(data):
    def script(line, _):
        line.sendall(data)
        return True
    return script


class Objects(GatewayTest):
    """Storage, through the gateway."""

    def test_put_get_head_range_and_delete(self):
        body = os.urandom(300_000)
        address = self.put(body)
        self.assertEqual(address, b3sum(body)[0])
        connection = self.connect()
        got = connection.ask("GET", f"/o/{address}")
        self.assertEqual((got.status, got.body, got.get("ETag")), (200, body, f'"{address}"'))
        top = connection.ask("HEAD", f"/o/{address}")
        self.assertEqual((top.status, top.get("Content-Length")), (200, "300000"))
        part = connection.ask("GET", f"/o/{address}", Range="bytes=100-65999")
        self.assertEqual((part.status, part.body, part.get("Content-Range")), (206, body[100:66000], "bytes 100-65999/300000"))
        several = connection.ask("GET", f"/o/{address}", Range="bytes=0-9,20-29")
        self.assertEqual((several.status, several.body), (200, body))  # the whole, so that it can be verified
        self.assertEqual(connection.ask("GET", f"/o/{address}", Range="bytes=400000-").status, 416)
        self.assertEqual(connection.ask("GET", f"/o/{address}", If_None_Match=f'"{address}"').status, 304)
        wrong = connection.ask("PATCH", f"/o/{address}", b"")
        self.assertEqual((wrong.status, wrong.get("Allow")), (405, self.storage.ask("PATCH", f"/o/{address}", b"").get("Allow")))
        self.assertEqual(connection.ask("DELETE", f"/o/{address}").status, 401)
        self.assertEqual(connection.ask("DELETE", f"/o/{address}", **self.bearer()).status, 204)
        self.assertEqual(connection.ask("GET", f"/o/{address}").status, 404)

    def test_errors_of_the_upstream_pass_unchanged(self):
        for method, target, fields in (("GET", "/o/b3:" + "0" * 64, {}), ("GET", "/o/nonsense", {}), ("GET", "/o", {}), ("GET", "/o?x=1", self.bearer())):
            with self.subTest(target):
                ours = self.connect().ask(method, target, X_Corr_ID="the-same-id", **fields)
                theirs = self.storage.ask(method, target, X_Corr_ID="the-same-id", **(fields or {"Authorization": ""}))
                self.assertEqual((ours.status, ours.get("WWW-Authenticate")), (theirs.status, theirs.get("WWW-Authenticate")))
                self.assertEqual(ours.error(), theirs.error())

    def test_an_upload_of_several_megabytes_goes_through_in_parts(self):
        body = os.urandom(5 * MIB + 12345)
        connection = self.connect()
        begun = connection.ask("POST", "/uploads", b'{"size":%d}' % len(body), **self.bearer())
        self.assertEqual(begun.status, 201)
        target = f"/uploads/{begun.json()['id']}"
        for at in range(0, len(body), MIB):
            answer = connection.ask("PATCH", target, body[at:at + MIB], Upload_Offset=at, **self.bearer())
            self.assertEqual(answer.status, 204)
        done = connection.ask("POST", f"{target}/commit", b"", **self.bearer())
        self.assertEqual(done.status, 201, done)
        self.assertEqual(self.connect().ask("GET", f"/o/{done.json()['address']}").body, body)

    def test_chunked_and_expect(self):
        connection = self.connect()
        token = f"Authorization: Bearer {self.storage.token}"
        answer = connection.send(head("POST /o HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", token) + chunked(b"abc", b"defg")).read()
        self.assertEqual((answer.status, answer.json()["address"]), (201, b3sum(b"abcdefg")[0]))
        connection.send(head("POST /o HTTP/1.1", "Host: localhost", "Content-Length: 5", "Expect: 100-continue", token))
        self.assertEqual(wire.parse_head(connection._head())[0], 100)
        self.assertEqual(connection.send(b"hello").read().status, 201)

    def test_a_body_that_is_refused_is_answered_before_it_has_come(self):
        connection = self.connect()
        answer = connection.send(head("POST /o HTTP/1.1", "Host: localhost", "Content-Length: 1000000") + b"only this").read()
        self.assertEqual(answer.status, 401)

    def test_a_token_in_a_url_is_400(self):
        for name in ("access_token", "token", "cap"):
            with self.subTest(name):
                self.assertEqual(self.connect().ask("GET", f"/o/b3:{'0' * 64}?{name}={self.storage.token}").status, 400)

    def test_what_is_not_built_says_501(self):
        for target in ("/search/x", "/graph/x", "/edge/x"):
            answer = self.connect().ask("GET", target)
            self.assertEqual((answer.status, answer.error()["code"]), (501, "not_implemented"))

    def test_curl_speaks_to_it(self):
        body = os.urandom(2 * MIB)
        with tempfile.TemporaryDirectory(prefix="cairn-gateway-") as home:
            source, copy = os.path.join(home, "in"), os.path.join(home, "out")
            with open(source, "wb") as file:
                file.write(body[:1_000_000])
            url = f"http://127.0.0.1:{self.gateway.address[1]}"
            put = subprocess.run(["curl", "-sS", "--fail", "-H", f"Authorization: Bearer {self.storage.token}", "--data-binary", f"@{source}", f"{url}/o"],
                                 capture_output=True, timeout=wire.PATIENCE, check=True)
            address = json.loads(put.stdout)["address"]
            subprocess.run(["curl", "-sS", "--fail", "-o", copy, f"{url}/o/{address}"], timeout=wire.PATIENCE, check=True)
            with open(copy, "rb") as file:
                self.assertEqual(file.read(), body[:1_000_000])


class Keys(unittest.TestCase):
    """A gateway alone that is told by which keys tokens are known."""

    def setUp(self):
        self.storage = self.enterContext(Storage(TRUSTING))
        self.keys = os.path.join(self.storage.data, "keys", "capability-root.key")
        self.settings = {"auth.keys": self.keys, "quota.tenants": "alice=1/0B"}

    def gateway(self, **settings):
        return self.enterContext(Gateway({**self.settings, **settings}, storage="%s:%d" % self.storage.address, token=self.storage.token))

    def mint(self, *caveats):
        return cairn("cap", "mint", "--data", self.storage.data, *caveats).stdout.strip()

    def test_tokens_are_known_and_their_tenants_have_quotas(self):
        gateway = self.gateway()
        self.assertEqual(gateway.ask_openly("GET", "/o", Authorization="Bearer junk").status, 401)
        self.assertNotIn('requests_total{route="/o",method="GET",status="401"}', self.storage.metrics(), "storage was asked")
        alice, bob = (self.mint("--op", "storage.list", "--tenant", each) for each in ("alice", "bob"))
        statuses = [gateway.ask_openly("GET", "/o", Authorization=f"Bearer {alice}").status for _ in range(3)]
        self.assertEqual((statuses[0], statuses[-1]), (200, 429))
        self.assertEqual([gateway.ask_openly("GET", "/o", Authorization=f"Bearer {bob}").status for _ in range(3)], [200] * 3)
        told = gateway.ask("GET", "/admin/tenants")
        self.assertEqual(told.status, 200)
        self.assertEqual({"alice", "bob"} - {row["tenant"] for row in told.json()["tenants"] if row["kind"] == "token"}, set())
        self.assertEqual(gateway.ask_openly("GET", "/admin/tenants", Authorization=f"Bearer {bob}").status, 403)

    def test_keys_are_revoked_where_they_are_kept_and_it_is_heard_here(self):
        gateway = self.gateway()
        token = self.mint("--op", "storage.list")
        key = json.loads(cairn("cap", "inspect", "--json", token).stdout)["key_id"]
        with open(self.keys, "rb") as file:
            before = file.read()
        answer = gateway.ask("POST", f"/admin/keys/{key}/revoke")
        self.assertEqual((answer.status, answer.error()["code"]), (403, "forbidden"))
        with open(self.keys, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(self.storage.ask("POST", f"/admin/keys/{key}/revoke").status, 204)
        wire.poll(lambda: gateway.ask_openly("GET", "/o/short", Authorization=f"Bearer {token}").status == 401, "it is known here", 10)

    def test_a_file_that_is_none_or_that_others_can_read_is_exit_78(self):
        for path, mode, said in ((self.storage.data + "/none", None, "none"), (self.keys, 0o640, "can be read or changed by others")):
            with self.subTest(said):
                if mode:
                    os.chmod(path, mode)
                ended = subprocess.run([binary(), "gateway", "--data", tempfile.mkdtemp(), "--bind", "127.0.0.1:0", "--set", f"auth.keys={path}"],
                                       capture_output=True, text=True, timeout=wire.PATIENCE)
                self.assertEqual(ended.returncode, 78, ended)
                self.assertIn(said, ended.stderr)


class Hops(unittest.TestCase):
    """What passes from one hop to the next, seen by a script."""

    def gateway(self, script, **settings):
        upstream = self.enterContext(Scripted(script))
        return upstream, self.enterContext(Gateway(settings.get("settings"), storage=upstream.address))

    def test_a_forged_client_is_not_believed(self):
        upstream, gateway = self.gateway(answering(whole()))
        gateway.ask_openly("GET", "/o/a", X_Forwarded_For="6.6.6.6", Forwarded="for=6.6.6.6", X_Real_IP="6.6.6.6", X_Forwarded_Proto="https")
        [seen] = upstream.heads
        self.assertNotIn("6.6.6.6", seen)
        self.assertIn("X-Forwarded-For: 127.0.0.1\r\n", seen + "\r\n")
        self.assertIn("X-Forwarded-Proto: http\r\n", seen + "\r\n")
        self.assertIn('Forwarded: for=127.0.0.1;host="localhost";proto=http\r\n', seen + "\r\n")

    def test_a_trusted_proxy_is_believed(self):
        upstream, gateway = self.gateway(answering(whole()), settings={"proxy.trusted": "127.0.0.0/8"})
        gateway.ask_openly("GET", "/o/a", Forwarded='for=6.6.6.6, for="[2001:db8::7]:55";host=a.example;proto=https')
        self.assertIn("X-Forwarded-For: 2001:db8:0:0:0:0:0:7\r\n", upstream.heads[0])
        self.assertIn("X-Forwarded-Host: a.example\r\nX-Forwarded-Proto: https", upstream.heads[0])
        self.assertEqual(gateway.ask_openly("GET", "/o/a", Forwarded="for=nonsense").status, 400)
        self.assertEqual(len(upstream.heads), 1)

    def test_hop_by_hop_fields_end_here(self):
        upstream, gateway = self.gateway(answering(whole(more="Connection: X-B\r\nX-B: 1\r\nX-C: 2\r\nVia: 1.1 x\r\n")))
        answer = gateway.ask_openly("GET", "/o/a", Connection="X-A, keep-alive", X_A="1", X_D="2", TE="trailers", Proxy_Authorization="x")
        self.assertEqual((answer.get("X-B"), answer.get("X-C")), (None, "2"))
        for gone in ("X-A", "TE:", "Proxy-", "Connection"):
            self.assertNotIn(gone, upstream.heads[0])
        self.assertIn("X-D: 2", upstream.heads[0])

    def test_every_smuggling_form_is_refused_and_nothing_is_forwarded(self):
        upstream, gateway = self.gateway(answering(whole()))
        with gateway.connect() as connection:
            self.assertEqual(connection.ask("GET", "/o/a").status, 200)
        cases = malformed.FRAMING + malformed.LINES + [
            ("absolute form with another host", b"GET http://a/o/x HTTP/1.1\r\nHost: b\r\n\r\n", 400)]
        for name, data, status in cases:
            with self.subTest(name), gateway.connect() as connection:
                connection.send(data.replace(b"/echo", b"/o/x").replace(b"/mem/", b"/o/").replace(b"Host: demo", b"Host: localhost") + malformed.BEHIND)
                answer = connection.read()
                self.assertEqual(answer.status, status)
                connection.expect_end()
        self.assertEqual(len(upstream.heads), 1)

    def test_broken_chunks_never_end_an_upstream_s_request(self):
        bodies = []

        def script(line, seen):
            line.settimeout(wire.PATIENCE)
            data = b""
            while not data.endswith(b"0\r\n\r\n"):
                more = line.recv(65536)
                if not more:
                    break
                data += more
            bodies.append(data)
            line.sendall(whole())
            return True

        _, gateway = self.gateway(script)
        for name, data, status in malformed.CHUNKS[:8]:
            with self.subTest(name), gateway.connect() as connection:
                connection.send(data.replace(b"/echo", b"/o").replace(b"Host: demo", b"Host: localhost"))
                self.assertEqual(connection.read().status, status)
        wire.poll(lambda: len(bodies) == 8, "each request has ended at the upstream")
        self.assertEqual([body for body in bodies if body.endswith(b"0\r\n\r\n")], [])

    def test_an_answer_that_lies_about_its_length_is_no_whole_answer(self):
        def short(line, _):
            line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            return False

        _, gateway = self.gateway(short)
        with gateway.connect() as connection:
            with self.assertRaises((wire.Broken, ConnectionResetError)):
                connection.ask("GET", "/o/a")

    def test_a_head_that_cannot_pass_is_502(self):
        for data in (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70000):
            with self.subTest(data[:40]):
                _, gateway = self.gateway(answering(data))
                answer = gateway.ask_openly("GET", "/o/a")
                self.assertEqual((answer.status, answer.error()["code"]), (502, "upstream"))

    def test_an_answer_begins_before_the_request_has_ended(self):
        _, gateway = self.gateway(answering(whole(b"no", "403 No")))
        with gateway.connect() as connection:
            connection.send(head("POST /o HTTP/1.1", "Host: localhost", "Content-Length: 900000") + b"a beginning")
            answer = connection.read()
            self.assertEqual((answer.status, answer.body), (403, b"no"))


class Failing(unittest.TestCase):
    def test_a_dead_upstream_opens_the_breaker_and_503_comes_at_once(self):
        with Scripted(answering(whole())) as upstream:
            gateway = self.enterContext(Gateway({"server.shards": 1}, storage=upstream.address))
            self.assertEqual(gateway.ask_openly("GET", "/o/a").status, 200)
        statuses = [gateway.ask_openly("GET", "/o/a").status for _ in range(6)]
        self.assertEqual(statuses[0], 502)
        answer = gateway.ask_openly("GET", "/o/a")
        self.assertEqual((answer.status, answer.error()["code"]), (503, "breaker_open"))
        self.assertEqual(gateway.metric('breaker_state{target="storage",state="open"}') + gateway.metric('breaker_state{target="storage",state="half_open"}'), 1)

    def test_kill_nine_of_the_upstream_under_load_and_back(self):
        storage = self.enterContext(Storage(TRUSTING))
        body = os.urandom(200_000)
        address = storage.post(body)
        # Its start may take longer than the first pauses of the breaker, which double.
        gateway = self.enterContext(Gateway({"breaker.cooldown": "50ms"}, storage="%s:%d" % storage.address))
        wrong, seen, over = [], set(), threading.Event()

        def ask():
            while not over.is_set():
                with contextlib.suppress(wire.Broken, OSError), gateway.connect() as connection:
                    while not over.is_set():
                        answer = connection.ask("GET", f"/o/{address}")
                        seen.add(answer.status)
                        if answer.status == 200 and answer.body != body:
                            wrong.append(len(answer.body))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            wire.poll(lambda: 200 in seen, "it is served")
            storage.kill()
            wire.poll(lambda: 503 in seen, "the breaker is open")
            seen.clear()
            storage.bind = "%s:%d" % storage.address
            storage.start()
            wire.poll(lambda: 200 in seen, "it is served again")
        finally:
            over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(seen, {200, 502, 503})

    def test_drain_under_load_answers_every_request_whose_head_was_read(self):
        def slow(line, _):
            threading.Event().wait(0.3)
            line.sendall(whole())
            return True

        upstream = self.enterContext(Scripted(slow))
        gateway = self.enterContext(Gateway(storage=upstream.address))
        connections = [self.enterContext(gateway.connect()) for _ in range(20)]
        for connection in connections:
            connection.send(request("GET", "/o/a"))
        wire.poll(lambda: len(upstream.heads) == 20, "all are with the upstream")
        gateway.process.send_signal(signal.SIGTERM)
        self.assertEqual([connection.read().status for connection in connections], [200] * 20)
        self.assertEqual(gateway.wait(), 0)

    def test_an_upstream_on_a_unix_socket(self):
        with tempfile.TemporaryDirectory(prefix="cairn-gateway-") as home:
            path = os.path.join(home, "s.sock")
            storage = self.enterContext(Storage({**TRUSTING, "uds.path": path}))
            gateway = self.enterContext(Gateway(storage=f"unix:{path}", token=storage.token))
            address = gateway.post(b"over a socket")
            self.assertEqual(gateway.ask_openly("GET", f"/o/{address}").body, b"over a socket")


class Sockets(unittest.TestCase):
    """The registry's stream over a WebSocket, from another process."""

    def setUp(self):
        self.registry = self.enterContext(Registry(TRUSTING))
        self.gateway = self.enterContext(Gateway(registry="%s:%d" % self.registry.address))

    def test_events_arrive_and_pings_and_a_close_are_answered(self):
        for code in (1000, 3000):
            with Socket(self.gateway) as stream:
                self.assertEqual(stream.client.status, 101)
                version = self.registry.head()["version"]
                self.assertEqual(stream.event()[:2], ("head", version))
                for i in range(3):
                    changed = self.registry.change(self.registry.next_items(region("told", title=f"{code} {i}")))
                    self.assertEqual(stream.told(), ("head", changed["version"], changed))
                stream.frame("are you there", ABNF.OPCODE_PING)
                self.assertEqual(stream.control(ABNF.OPCODE_PONG), b"are you there")
                stream.client.send_close(code, b"bye")
                self.assertEqual(stream.closed(), code)

    def test_a_registry_that_leaves_says_1001_through_the_gateway(self):
        with Socket(self.gateway) as stream:
            stream.event()
            self.registry.process.send_signal(signal.SIGTERM)
            self.assertEqual(stream.closed(), 1001)
            self.assertEqual(self.registry.wait(), 0)

    def test_clients_that_vanish_leave_the_gateway_free_to_end(self):
        for _ in range(10):
            with Socket(self.gateway) as stream:
                stream.event()
        with Socket(self.gateway) as stream:
            stream.event()
            self.gateway.process.send_signal(signal.SIGTERM)
            self.assertEqual(self.gateway.wait(), 0)


class Up(UpProcess):
    def test_sigterm_closes_a_socket_with_1001(self):
        process = self.start()
        self.await_version(1)
        with Socket(types.SimpleNamespace(address=("127.0.0.1", self.ports["gateway"]))) as stream:
            self.assertEqual(stream.event()[:2], ("head", 1))
            process.send_signal(signal.SIGTERM)
            self.assertEqual(stream.closed(), 1001)
        self.assertEqual(process.wait(wire.PATIENCE), 0)

    def test_every_verb_works_through_one_address(self):
        process = self.start()
        url = f"http://127.0.0.1:{self.ports['gateway']}"
        self.assertEqual(self.ports["gateway"], self.base)
        self.await_version(1)
        path = os.path.join(self.top, "file")
        body = os.urandom(3_000_000)
        with open(path, "wb") as file:
            file.write(body)
        for where in (["--url", url, "--data", self.data], ["--data", self.data]):
            with self.subTest(where):
                def ask(*arguments, code=0):
                    ended = cairn(*arguments, *where, environment={"HOME": self.top})
                    self.assertEqual(ended.returncode, code, ended.stderr)
                    return ended.stdout.strip()

                address = ask("put", "-q", path)
                ask("get", address, "-o", path + ".copy")
                with open(path + ".copy", "rb") as file:
                    self.assertEqual(file.read(), body)
                os.remove(path + ".copy")
                self.assertIn(address, ask("ls"))
                self.assertIn("3000000", ask("stat", "--json", address))
                ask("pin", address)
                ask("rm", address, code=9)
                ask("unpin", address)
                ask("registry", "verify")
                self.assertEqual(json.loads(ask("registry", "head", "--json"))["version"], 1)
                self.assertIn("gateway", ask("status"))
                self.assertIn("gateway is ready", ask("health"))
                ask("rm", address)
        self.stop(process)
