"""The gateway behind TLS: certificates that change and a drain under load, over both protocols and a WebSocket; what TLS itself
promises; what clients that only hold connections cost."""

import contextlib
import os
import re
import resource
import signal
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import types
import unittest

import websocket

import demo
import wire
from gateway_server import TRUSTING, Scripted
from registry_server import Registry, region
from storage_server import MIB, Connection, Storage, binary, free_port_base
from test_h2 import PING, WINDOW_UPDATE, Line, TlsGateway, asking, frame
from test_tls import Authority, Server, ask
from test_websocket import Socket

LOCAL = "127.0.0.1"
# How many connections are held at a time: more in ./dev soak.
HELD = int(os.environ.get("CAIRN_HELD", "0"))


class TlsSocket(Socket):
    """The registry's stream by python3-websocket over TLS."""

    def __init__(self, gateway, authority):
        self.client = websocket.create_connection(f"wss://localhost:{gateway.address[1]}/registry/stream", timeout=20,
                                                  sslopt={"ca_certs": authority.authority, "cert_reqs": ssl.CERT_REQUIRED},
                                                  http_no_proxy=["localhost"])


class Case(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(tempfile.TemporaryDirectory(prefix="cairn-gateway-tls-"))
        self.authority = Authority(self.home)
        self.cert, self.key = self.authority.certify("localhost", LOCAL)
        self.http1 = self.authority.context()
        self.http2 = self.authority.context(protocols=("h2",))

    def serve(self, settings=None, **upstreams):
        tls = {"tls.enabled": "true", "tls.cert": self.cert, "tls.key": self.key}
        return self.enterContext(TlsGateway({**tls, **(settings or {})}, **upstreams))

    def connect(self, gateway, context=None):
        connection = wire.Connection(gateway.address)
        self.addCleanup(connection.close)
        connection.socket = (context or self.http1).wrap_socket(connection.socket, server_hostname="localhost")
        return connection

    def line(self, gateway, **options):
        return self.enterContext(Line(self.http2, gateway.address, **options))


class Reloads(Case):
    def serial(self, gateway):
        with self.connect(gateway).socket as connection:
            return connection.getpeercert()["serialNumber"]

    def test_certificates_reloaded_under_load_drop_no_connection_of_either_protocol(self):
        storage = self.enterContext(Storage(TRUSTING))
        body = os.urandom(100_000)
        target = f"/o/{storage.post(body)}"
        registry = self.enterContext(Registry(TRUSTING))
        gateway = self.serve(storage="%s:%d" % storage.address, registry="%s:%d" % registry.address)
        over, problems, counts = threading.Event(), [], {"h1": 0, "h2": 0}

        def read_over_h1():
            try:
                connection = self.connect(gateway)
                while not over.is_set():
                    answer = connection.ask("GET", target)
                    if (answer.status, answer.body) != (200, body):
                        problems.append(answer.status)
                    counts["h1"] += 1
            except Exception as problem:  # told by the test
                problems.append(repr(problem))

        def read_over_h2():
            try:
                wide = struct.pack(">HI", 4, 0x7fffffff)
                with Line(self.http2, gateway.address, settings=wide) as line:
                    line.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)))
                    stream = 1
                    while not over.is_set():
                        line.send(asking(stream, target.encode()))
                        if (line.answer(stream), line.body.pop(stream)) != (200, body):
                            problems.append(line.status[stream])
                        stream += 2
                        counts["h2"] += 1
                    if line.goaway is not None:
                        problems.append("the connection was told to end")
            except Exception as problem:
                problems.append(repr(problem))

        with TlsSocket(gateway, self.authority) as stream:
            stream.event()
            threads = [threading.Thread(target=run) for run in (read_over_h1, read_over_h2) * 2]
            for thread in threads:
                thread.start()
            try:
                serials = {self.serial(gateway)}
                for _ in range(3):
                    before = dict(counts)
                    self.authority.certify("localhost", LOCAL)
                    gateway.process.send_signal(signal.SIGHUP)
                    serials.add(wire.poll(lambda: (now := self.serial(gateway)) not in serials and now, "the new certificate is shown"))
                    wire.poll(lambda: problems or all(counts[each] > before[each] + 1 for each in counts), "the load goes on")
            finally:
                over.set()
                for thread in threads:
                    thread.join()
            changed = registry.change(registry.next_items(region("told")))
            self.assertEqual(stream.told(), ("head", changed["version"], changed))
        self.assertEqual((problems, len(serials)), ([], 4))


class Drains(Case):
    def test_no_request_whose_head_was_read_goes_unanswered_over_tls_h2_and_websockets(self):
        opened = threading.Event()

        def slow(line, _):
            opened.wait(wire.PATIENCE)
            line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return True

        self.enterContext(contextlib.closing(types.SimpleNamespace(close=opened.set)))
        upstream = self.enterContext(Scripted(slow))
        registry = self.enterContext(Registry(TRUSTING))
        gateway = self.serve({"timeouts.drain": "5s", "pools.workers": 2, "pools.worker_slots": 16}, storage=upstream.address,
                             registry="%s:%d" % registry.address)
        stream = self.enterContext(TlsSocket(gateway, self.authority))
        stream.event()
        plain = [self.connect(gateway) for _ in range(5)]
        for connection in plain:
            connection.send(wire.request("GET", "/o/a"))
        lines = [self.line(gateway) for _ in range(5)]
        for line in lines:
            line.send(b"".join(asking(i, b"/o/a") for i in range(1, 11, 2)))
        idle = self.connect(gateway)
        self.assertEqual(idle.ask("GET", "/healthz").status, 200)
        # A tenant has three quarters of the slots; its other requests wait for their turn.
        wire.poll(lambda: len(upstream.heads) == 24, "those that have a turn are with the upstream")
        depth = lambda: re.search(rb'queue_depth\{queue="work"\} (\d+)', self.connect(gateway).ask("GET", "/metrics").body)[1]
        wire.poll(lambda: depth() == b"6", "the others wait")
        gateway.process.send_signal(signal.SIGTERM)
        opened.set()
        self.assertEqual([(answer.status, answer.body) for answer in (connection.read() for connection in plain)], [(200, b"ok")] * 5)
        for line in lines:
            self.assertEqual(line.end(), 0)
            self.assertEqual((line.status, line.ended), ({i: 200 for i in range(1, 11, 2)}, set(range(1, 11, 2))))
        idle.expect_end()
        with contextlib.suppress(websocket.WebSocketException, OSError):
            while True:
                self.assertIn(stream.client.recv_data_frame(control_frame=True)[0], (websocket.ABNF.OPCODE_CLOSE, websocket.ABNF.OPCODE_TEXT))
        self.assertEqual(gateway.wait(), 0)


    def test_whoever_is_cut_by_the_end_of_the_drain_is_told_so_over_both_protocols(self):
        upstream = self.enterContext(Scripted(lambda *_: time.sleep(wire.PATIENCE)))
        gateway = self.serve({"timeouts.drain": "1s", "timeouts.request": "60s", "pools.workers": 1, "pools.worker_slots": 4}, storage=upstream.address)
        plain = [self.connect(gateway) for _ in range(3)]
        for connection in plain:
            connection.send(wire.request("GET", "/o/a"))
        line = self.line(gateway)
        # Some of them have a turn, the others wait for one; the last one's body does not come.
        line.send(b"".join(asking(i, b"/o/a") for i in range(1, 11, 2)) + asking(11, b"/o", b"POST", end=False))
        wire.poll(lambda: len(upstream.heads) >= 3, "some are with the upstream")
        gateway.process.send_signal(signal.SIGTERM)
        self.assertEqual([connection.read().status for connection in plain], [503] * 3)
        line.end()
        self.assertEqual(line.status, {i: 503 for i in range(1, 13, 2)})
        self.assertEqual(gateway.wait(), 10)
        self.assertIn('"waited_for":', gateway.log())  # the process has ended, and so has its log


class Certificates(Case):
    def openssl(self, *arguments, text=None):
        ended = subprocess.run(["openssl", *arguments], input=text, capture_output=True, text=True, timeout=wire.PATIENCE)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def days_left(self, certificate):
        end = self.openssl("x509", "-noout", "-enddate", "-in", certificate).strip().partition("=")[2]
        return (ssl.cert_time_to_seconds(end) - time.time()) / 86400

    def shorten(self, authority, days):
        """Puts a certificate of the same authority and key in the place of the one for localhost."""
        request, names = (os.path.join(self.home, name) for name in ("request", "names"))
        with open(names, "w") as file:
            file.write("subjectAltName=DNS:localhost,IP:127.0.0.1")
        self.openssl("req", "-new", "-key", authority.path("localhost.key"), "-subj", "/CN=localhost", "-out", request)
        self.openssl("x509", "-req", "-in", request, "-CA", authority.authority, "-CAkey", authority.path("ca.key"), "-set_serial", "7", "-days", str(days),
                     "-extfile", names, "-out", authority.path("localhost.pem"))

    def run_up(self, data):
        with open(os.path.join(self.home, "log"), "wb") as log:
            process = subprocess.Popen([binary(), "up", "--tls", "--data", data, "--port-base", str(free_port_base())], stdout=subprocess.PIPE, stderr=log,
                                       text=True, env=demo.clean_environment())
        with contextlib.closing(process.stdout):
            self.assertTrue(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            self.assertIn(process.wait(wire.PATIENCE), (0, 10))

    def test_up_renews_its_own_within_the_last_30_days(self):
        data = os.path.join(self.home, "up")
        self.run_up(data)
        authority = Authority(data)
        for days, renewed in ((40, False), (20, True)):
            self.shorten(authority, days)
            self.run_up(data)
            self.assertEqual(self.days_left(authority.path("localhost.pem")) > 300, renewed, days)
        # What somebody else has signed is not ours to replace.
        self.shorten(authority, 20)
        self.openssl("x509", "-in", authority.path("localhost.pem"), "-signkey", authority.path("localhost.key"), "-days", "20", "-out",
                     os.path.join(self.home, "foreign"))
        os.rename(os.path.join(self.home, "foreign"), authority.path("localhost.pem"))
        self.run_up(data)
        self.assertLess(self.days_left(authority.path("localhost.pem")), 30)

    def test_the_log_says_when_it_ends_and_warns_before(self):
        gateway = self.serve()
        wire.poll(lambda: '"msg":"the certificate in use"' in gateway.log(), "its end is told")
        self.shorten(self.authority, 20)
        gateway.process.send_signal(signal.SIGHUP)
        wire.poll(lambda: "the certificate ends soon" in gateway.log(), "a warning")

    def test_that_of_an_upstream_which_nobody_vouches_for_is_502_upstream(self):
        other = Authority(os.path.join(self.home, "other"))
        other.certify("localhost", LOCAL)
        storage = self.enterContext(Server({"tls.enabled": "true", "tls.cert": self.cert, "tls.key": self.key}, os.path.join(self.home, "storage")))
        gateway = self.serve({"tls.ca": other.authority}, storage=f"https://{LOCAL}:{storage.port}")
        answer = self.connect(gateway).ask("GET", f"/o/b3:{'0' * 64}")
        self.assertEqual((answer.status, answer.error()["code"]), (502, "upstream"))
        wire.poll(lambda: re.search('"service":"storage","code":"integrity","why":"[^"]*issuer', gateway.log()), "the cause is told")


class Promises(Case):
    def openssl(self, gateway, *arguments, text="Q\n"):
        return subprocess.run(["openssl", "s_client", "-connect", f"{LOCAL}:{gateway.address[1]}", "-CAfile", self.authority.authority,
                               *arguments], input=text, capture_output=True, text=True, errors="replace", timeout=wire.PATIENCE)

    def test_openssl_finds_no_old_version_no_compression_and_forward_secrecy_only(self):
        gateway = self.serve()
        for version in ("-tls1", "-tls1_1", "-tls1_2"):
            self.assertIn("Cipher is (NONE)", self.openssl(gateway, version, "-cipher", "ALL:@SECLEVEL=0").stdout, version)
        for protocol in ("h2", "http/1.1"):
            said = self.openssl(gateway, "-tls1_3", "-comp", "-alpn", protocol).stdout
            for expected in ("TLSv1.3", "Compression: NONE", "Expansion: NONE", "Verify return code: 0 (ok)", f"ALPN protocol: {protocol}"):
                self.assertIn(expected, said)
            # All that TLS 1.3 may do here is ephemeral.
            self.assertRegex(said, "Server Temp Key: (X25519|ECDH)")
        # A ticket alone, without a new exchange of keys, resumes nothing.
        kept = os.path.join(self.home, "session")
        asked = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        self.openssl(gateway, "-ign_eof", "-sess_out", kept, text=asked)
        self.assertIn("Reused, TLSv1.3", self.openssl(gateway, "-ign_eof", "-sess_in", kept, text=asked).stdout)
        again = self.openssl(gateway, "-ign_eof", "-sess_in", kept, "-allow_no_dhe_kex", text=asked).stdout
        self.assertRegex(again, "Server Temp Key: (X25519|ECDH)")

    def test_tls_12_by_choice_is_forward_secret_and_does_not_renegotiate(self):
        gateway = self.serve({"tls.min_version": "1.2"})
        self.assertRegex(self.openssl(gateway, "-tls1_2").stdout, r"Cipher is ECDHE-\S+(GCM|CHACHA20)")
        self.assertIn("Cipher is (NONE)", self.openssl(gateway, "-tls1_2", "-cipher", "kRSA:DHE:aNULL:@SECLEVEL=0").stdout)
        self.assertIn("Cipher is (NONE)", self.openssl(gateway, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0").stdout)
        asked = subprocess.Popen(["openssl", "s_client", "-connect", f"{LOCAL}:{gateway.address[1]}", "-tls1_2", "-CAfile", self.authority.authority],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with contextlib.closing(asked.stdout):
            asked.stdin.write("R\n")
            asked.stdin.flush()
            self.assertRegex(asked.stdout.read(), "no renegotiation|unexpected eof|sslv3 alert|handshake failure")
            asked.stdin.close()
            asked.wait(wire.PATIENCE)
        self.assertEqual(self.connect(gateway).ask("GET", "/healthz").status, 200)

    def test_each_ticket_that_is_used_is_replaced_by_another(self):
        gateway = self.serve()
        sessions = []
        for i in range(4):
            with contextlib.closing(wire.Connection(gateway.address)) as plain:
                with self.http1.wrap_socket(plain.socket, server_hostname="localhost", session=sessions[-1] if sessions else None) as connection:
                    self.assertEqual(connection.session_reused, i > 0)
                    self.assertEqual(ask(connection, "/healthz")[0], 200)
                    sessions.append(connection.session)
        self.assertEqual(len({session.id for session in sessions}), 4)


class Held(Case):
    """What is held costs memory of ours: the resident memory with so many more of them, less what it was before."""

    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.most = min(hard // 2, 16384)
        self.room = {"server.max_conns": self.most, "server.max_conns_per_ip": self.most, "server.max_inflight": 16384,
                     "server.memory_bytes": "16GiB", **{f"timeouts.{each}": "60s" for each in ("idle", "read", "write", "request")}}
        self.storage = self.enterContext(Storage(TRUSTING))

    def cost(self, gateway, count, hold, warm=50):
        """Of one, in bytes. The first ones bring what stays: pools, and pages of libraries."""
        with contextlib.ExitStack() as stack:
            for _ in range(warm):
                hold(stack)
            before = gateway.resident()
            for _ in range(count):
                hold(stack)
            return (gateway.resident() - before) / count

    def report(self, what, count, each):
        print(f"held: {count} {what}: {each / 1024:.1f} KiB each", flush=True)

    def test_idle_tls_connections_cost_at_most_18_kib_each(self):
        gateway = self.serve(self.room, storage="%s:%d" % self.storage.address)

        def hold(stack):
            plain = wire.Connection(gateway.address)
            plain.socket = stack.enter_context(self.http1.wrap_socket(plain.socket, server_hostname="localhost"))
            self.assertEqual(plain.ask("GET", "/healthz").status, 200)
        count = min(HELD, self.most - 100) or 2000
        each = self.cost(gateway, count, hold)
        self.report("idle TLS connections", count, each)
        self.assertLessEqual(each, 18 * 1024)

    def test_connections_of_a_hundred_idle_streams_have_bounded_memory(self):
        """Bodies that never come: 32 of a connection's streams run and wait for theirs, the others wait for their turn."""
        gateway = self.serve(self.room, storage="%s:%d" % self.storage.address)
        bearer = [(b"authorization", f"Bearer {self.storage.token}".encode())]

        def hold(stack):
            line = stack.enter_context(Line(self.http2, gateway.address))
            line.send(b"".join(asking(i, b"/o", b"POST", bearer, end=False) for i in range(1, 201, 2)))
            line.send(frame(PING, 0, 0, b"12345678"))
            line.until(lambda: line.pongs > 0)
        count = HELD // 10 or 60
        each = self.cost(gateway, count, hold, 10)
        self.report("HTTP/2 connections with 100 idle streams", count, each)
        self.assertEqual(gateway.alive(), True)
        self.assertLessEqual(each, 1 * MIB)

    RUNNING = 16

    def never_read(self, window, least):
        """So many heads of the answers arrive, and nothing of their bodies is taken. Each answer keeps a connection to the storage, of
        which a shard has 256: there are shards enough for all."""
        gateway = self.serve({**self.room, "server.shards": 8}, storage="%s:%d" % self.storage.address)
        # Small enough for what the kernel keeps of so many, and larger than any buffer of ours.
        target = f"/o/{self.storage.post(os.urandom(200_000))}".encode()

        def hold(stack):
            line = stack.enter_context(Line(self.http2, gateway.address, settings=struct.pack(">HI", 4, window), receive=4096))
            line.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)))
            line.send(b"".join(asking(i, target) for i in range(1, 2 * self.RUNNING, 2)))
            line.until(lambda: len(line.status) >= least)
        count = 25
        each = self.cost(gateway, count, hold, 15)
        self.report(f"HTTP/2 connections with {self.RUNNING} answers that are not read", count, each)
        return each

    def test_a_client_that_never_reads_costs_no_more_than_two_buffers_of_each_stream_that_runs(self):
        # Where storage is another process: 16 KiB with the head of the answer, and as much of its body.
        self.assertLessEqual(self.never_read(0x7fffffff, 1), self.RUNNING * 44 * 1024)

    def test_a_window_that_stays_shut_costs_no_more_than_the_heads_of_the_streams_that_run(self):
        self.assertLessEqual(self.never_read(0, self.RUNNING), self.RUNNING * 14 * 1024 + 64 * 1024)


class HeldByUp(Case):
    def test_a_client_that_never_reads_costs_at_most_128_kib(self):
        """Where storage is in the same process, answers are parts of objects that are in memory anyway."""
        data = os.path.join(self.home, "up")
        arguments = [binary(), "up", "--tls", "--data", data, "--port-base", str(free_port_base())]
        for key, value in {"safety.danger_ok": "true", "server.max_rps": 1000000, "server.max_conns_per_ip": 1024, "server.max_inflight": 4096,
                           "timeouts.write": "60s", "server.memory_bytes": "4GiB"}.items():
            arguments += ["--set", f"gateway.{key}={value}"]
        with open(os.path.join(self.home, "log"), "wb") as log:
            process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True, env=demo.clean_environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        urls = dict(process.stdout.readline().split() for _ in range(4))
        address, storage = ((LOCAL, int(urls[name].rsplit(":", 1)[1])) for name in ("gateway", "storage"))
        with open(os.path.join(data, "keys", "admin.cap")) as file:
            token = file.read().strip()
        with Connection(storage) as connection:
            object_ = connection.ask("POST", "/o", os.urandom(900_000), Authorization=f"Bearer {token}").json()["address"]
        context = Authority(data).context(protocols=("h2",))

        def resident():
            with open(f"/proc/{process.pid}/status") as file:
                return int(re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M)[1]) * 1024
        with contextlib.ExitStack() as stack:
            for i in range(250):
                if i == 50:
                    before = resident()
                line = stack.enter_context(Line(context, address, settings=struct.pack(">HI", 4, 0x7fffffff), receive=4096))
                line.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)))
                line.send(b"".join(asking(i, f"/o/{object_}".encode()) for i in range(1, 201, 2)))
                line.until(lambda: line.status)
            each = (resident() - before) / 200
        print(f"held: 200 HTTP/2 connections with 100 answers that are not read: {each / 1024:.1f} KiB each", flush=True)
        self.assertLessEqual(each, 128 * 1024)


if __name__ == "__main__":
    unittest.main()
