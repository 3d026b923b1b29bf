"""Those who want too much of the gateway: each is told so in its own words, costs little, and takes nothing from others."""

import contextlib
import gzip
import os
import re
import socket
import threading
import time
import unittest

import wire
from gateway_server import TRUSTING, Gateway, GatewayTest, Scripted
from storage_server import MIB, Storage
from wire import head, request

FLOOD, OTHER = "127.0.1.1", "127.0.2.1"  # of two networks: two tenants


def connect(gateway, source):
    connection = wire.Connection.__new__(wire.Connection)
    connection.socket = socket.create_connection(gateway.address, wire.PATIENCE, source_address=(source, 0))
    connection.buffer = b""
    return connection


def forget_peak(server):
    with open(f"/proc/{server.pid}/clear_refs", "w") as file:
        file.write("5")


def peak(server):
    """The most memory it has had since, in bytes."""
    with open(f"/proc/{server.pid}/status") as file:
        return int(re.search(r"^VmHWM:\s+(\d+) kB", file.read(), re.M)[1]) * 1024


def packed(size, decoded):
    """`size` bytes or a little more of gzip that become so many: noise, and then nothing."""
    noise = os.urandom(size)
    return gzip.compress(noise + bytes(decoded - size), 9)


class Bombs(GatewayTest):
    AT_ONCE = 16

    def expect_refused(self, body, code):
        def ask():
            with self.gateway.connect() as connection:
                return connection.ask("POST", "/o", body, Content_Encoding="gzip", **self.bearer())
        counted = f'rejected_total{{reason="{code}"}}'
        before = self.gateway.metrics().get(counted, 0)
        objects = self.storage.status()["objects"]
        answers = [ask()]
        forget_peak(self.gateway)
        quiet = peak(self.gateway)

        def ask_again():
            answers.append(ask())
        threads = [threading.Thread(target=ask_again) for _ in range(self.AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([(answer.status, answer.error()["code"]) for answer in answers], [(413, code)] * (1 + self.AT_ONCE))
        # As encoded they are a megabyte each at most; decoded, more than eight.
        self.assertLess(peak(self.gateway) - quiet, self.AT_ONCE * 2 * MIB)
        self.assertEqual(self.storage.status()["objects"], objects)
        return self.gateway.metrics().get(counted, 0) - before

    def test_100_kib_that_become_12_mib_are_413_decoded_ratio_in_bounded_memory(self):
        body = packed(85 * 1024, 12 * MIB)
        self.assertLess(abs(len(body) - 100 * 1024), 4096, len(body))
        self.assertEqual(self.expect_refused(body, "decoded_ratio"), 1 + self.AT_ONCE)

    def test_900_kib_that_become_8_5_mib_are_413_decoded_cap_in_bounded_memory(self):
        body = packed(900 * 1024, 8 * MIB + MIB // 2)
        self.assertLess(len(body), MIB)
        self.assertEqual(self.expect_refused(body, "decoded_cap"), 1 + self.AT_ONCE)


class Rates(unittest.TestCase):
    def setUp(self):
        self.storage = self.enterContext(Storage(TRUSTING))
        self.found = self.storage.post(b"x" * 1000)

    def ask_many(self, gateway, source, count, answers):
        """Pipelined, so that they come as fast as they are taken."""
        with contextlib.closing(connect(gateway, source)) as connection:
            left = count
            while left > 0:
                part = min(left, 50)
                connection.send(request("GET", f"/o/{self.found}") * part)
                answers += [connection.read() for _ in range(part)]
                left -= part

    def test_600_requests_a_second_against_500_and_the_surplus_is_429_with_retry_after(self):
        gateway = self.enterContext(Gateway({"server.max_rps": 500}, storage="%s:%d" % self.storage.address))
        began = time.monotonic()
        rounds = 0
        refused = []
        served = 0
        # A slow machine may need more than a second for a round.
        while len(refused) < 100 and time.monotonic() < began + wire.PATIENCE:
            rounds += 1
            answers = []
            threads = [threading.Thread(target=self.ask_many, args=(gateway, "127.0.0.1", 100, answers)) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(answers), 600)
            served += sum(answer.status == 200 for answer in answers)
            refused += [answer for answer in answers if answer.status != 200]
        self.assertGreaterEqual(len(refused), 100)
        self.assertLessEqual(served, 500 + 500 * (time.monotonic() - began))
        self.assertGreaterEqual(served, 500)
        self.assertEqual({(answer.status, answer.error()["code"]) for answer in refused}, {(429, "quota")})
        self.assertTrue(all(int(answer.get("Retry-After")) >= 1 for answer in refused))

    def test_ten_thousand_requests_of_one_tenant_take_nothing_from_another(self):
        gateway = self.enterContext(Gateway(storage="%s:%d" % self.storage.address, roomy=False))
        flood = []
        threads = [threading.Thread(target=self.ask_many, args=(gateway, FLOOD, 1000, flood)) for _ in range(10)]
        for thread in threads:
            thread.start()
        other = []
        with contextlib.closing(connect(gateway, OTHER)) as connection:
            while any(thread.is_alive() for thread in threads) or len(other) < 100:
                other.append(connection.ask("GET", f"/o/{self.found}").status)
                time.sleep(0.01)  # well within its share of the rate
        for thread in threads:
            thread.join()
        self.assertEqual(set(other), {200})
        self.assertEqual(len(flood), 10_000)
        self.assertEqual({answer.status for answer in flood}, {200, 429})
        self.assertTrue(all(int(answer.get("Retry-After")) >= 1 for answer in flood if answer.status == 429))

    def test_a_forged_client_address_gives_nobody_another_share(self):
        gateway = self.enterContext(Gateway({"server.max_rps": 1000000, "quota.rps": 20}, storage="%s:%d" % self.storage.address))
        statuses = []
        with gateway.connect() as connection:
            for i in range(200):
                forged = f"6.6.{i}.6"
                statuses.append(connection.ask("GET", f"/o/{self.found}", X_Forwarded_For=forged, Forwarded=f"for={forged}", X_Real_IP=forged).status)
                if statuses.count(429) >= 10:
                    break
        self.assertEqual(set(statuses), {200, 429})
        with contextlib.closing(connect(gateway, OTHER)) as connection:
            self.assertEqual(connection.ask("GET", f"/o/{self.found}").status, 200)


class Full(unittest.TestCase):
    def test_a_full_work_queue_is_429_busy_and_who_waits_is_answered(self):
        opened = threading.Event()

        def slow(line, _):
            opened.wait(wire.PATIENCE)
            line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return True

        upstream = self.enterContext(Scripted(slow))
        settings = {"server.shards": 1, "pools.workers": 1, "pools.worker_slots": 4, "queues.work": 4, "timeouts.request": "30s"}
        gateway = self.enterContext(Gateway(settings, storage=upstream.address))
        waiting = [self.enterContext(gateway.connect()) for _ in range(7)]
        try:
            # Three have a turn, for a tenant has three quarters of the slots; four wait.
            for count, connection in enumerate(waiting, 1):
                connection.send(request("GET", "/o/a"))
                wire.poll(lambda: len(upstream.heads) + gateway.metric('queue_depth{queue="work"}') == count, "it is there")
            for _ in range(5):
                refused = gateway.ask_openly("GET", "/o/a")
                self.assertEqual((refused.status, refused.error()["code"]), (429, "busy"))
                self.assertGreaterEqual(int(refused.get("Retry-After")), 1)
            self.assertEqual(gateway.metric('busy_rejections_total{endpoint="/o/{rest:Rest}"}'), 5)
            self.assertEqual(gateway.ask_openly("GET", "/healthz").status, 200)
        finally:
            opened.set()
        self.assertEqual([connection.read().status for connection in waiting], [200] * 7)
        self.assertEqual(gateway.metric('queue_depth{queue="work"}'), 0)

    def test_a_slow_reader_of_a_large_object_makes_the_storage_wait_and_costs_little(self):
        size = 32 * MIB
        storage = self.enterContext(Storage({**TRUSTING, "timeouts.write": "60s"}))
        content = os.urandom(MIB) * (size // MIB)
        made = storage.upload(content)
        self.assertEqual(made.status, 201)
        gateway = self.enterContext(Gateway({"timeouts.write": "60s"}, storage="%s:%d" % storage.address))
        readers = [self.enterContext(gateway.connect(receive_buffer=65536)) for _ in range(8)]
        forget_peak(gateway)
        quiet = peak(gateway)
        for reader in readers:
            reader.send(request("GET", f"/o/{made.json()['address']}"))
            self.assertIn(b" 200 OK", reader._head())
        # While two of them read all, the others read nothing.
        for reader in readers[:2]:
            got = len(reader.buffer)
            while got < size:
                more = reader.socket.recv(MIB)
                self.assertTrue(more, "the end came too early")
                got += len(more)
            self.assertEqual(got, size)
        self.assertLess(peak(gateway) - quiet, 16 * MIB)
        for reader in readers:
            reader.close()


class Slow(GatewayTest):
    """With the time that is the default: five seconds."""

    READ_SECONDS = 5

    def cases(self):
        """What is sent at once, and what then comes byte by byte."""
        post = ("POST /o HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.storage.token}")
        yield "half a head", b"GET /o/x HTTP/1.1\r\nHost: loc", b""
        yield "a head byte by byte", b"GET /o/x HTTP/1.1\r\nHost: localhost\r\nX: ", b"y" * 10_000
        yield "half a body", head(*post, "Content-Length: 1000") + b"x" * 500, b""
        yield "no body", head(*post, "Content-Length: 1000"), b""
        yield "a body byte by byte", head(*post, "Content-Length: 10000"), b"x" * 10_000
        yield "half a chunk", head(*post, "Transfer-Encoding: chunked") + b"5\r\nab", b""
        yield "an extension byte by byte", head(*post, "Transfer-Encoding: chunked") + b"5;", b"x" * 10_000

    def test_half_heads_and_half_bodies_are_cut_at_five_seconds_and_nothing_is_left(self):
        objects = self.storage.status()["objects"]
        ended = {}

        def be_slow(name, start, rest):
            with self.gateway.connect() as connection:
                began = time.monotonic()
                connection.send(start)
                connection.socket.settimeout(0.1)
                at, got = 0, b""
                while time.monotonic() < began + wire.PATIENCE:
                    with contextlib.suppress(TimeoutError):
                        more = connection.socket.recv(65536)
                        got += more
                        if not more:
                            break
                    with contextlib.suppress(OSError):
                        connection.socket.send(rest[at:at + 1])
                        at += 1
                ended[name] = (time.monotonic() - began, got)
        threads = [threading.Thread(target=be_slow, args=case) for case in self.cases()]
        for thread in threads:
            thread.start()
        # Others are served meanwhile.
        while any(thread.is_alive() for thread in threads):
            self.assertEqual(self.gateway.ask_openly("GET", "/healthz").status, 200)
            time.sleep(0.1)
        for name, _, _ in self.cases():
            with self.subTest(name):
                seconds, got = ended[name]
                self.assertRegex(got, rb"^HTTP/1\.1 408 ")
                self.assertIn(b'"timeout_read"', got)
                self.assertGreaterEqual(seconds, 0.9 * self.READ_SECONDS)
                self.assertLess(seconds, wire.PATIENCE)
        self.assertEqual(self.storage.status()["objects"], objects)
        wire.poll(lambda: self.gateway.metric('inflight_requests{route="/o"}') == 0, "nothing is in flight")
        wire.poll(lambda: self.storage.metric('inflight_requests{route="/o"}') == 0, "nothing is in flight behind it")


if __name__ == "__main__":
    unittest.main()
