"""A real server on a bad disk: slow, failing and full by chance, under clients who remember what they were told."""

import os
import random
import threading
import time
import unittest

import wire
from storage_server import GROUP, Storage, b3sum
from weather import Weather

SEED = os.environ.get("WEATHER_SEED", "1")
SECONDS = float(os.environ.get("WEATHER_SECONDS", "25"))
CLIENTS = 6
PRESENT, ABSENT, UNKNOWN = "present", "absent", "unknown"
# Each lasts about a second. Chances are in a million calls on a segment.
SKIES = [
    {},
    {"cold": 1, "slow": 300_000, "slow_ms": 60},
    {"slow": 500_000, "slow_ms": 300},
    {"sync_delay_ms": 400},
    {"cold": 1, "read_fails": 50_000},
    {"cold": 1, "read_fails": 300_000, "slow": 100_000, "slow_ms": 20},
    {"write_full": 100_000},
    {"write_full": 1_000_000},
    {"write_full": 300_000, "slow": 200_000, "slow_ms": 50},
    {"write_fails": 20_000},
    {"sync_fails": 10_000},
]


class Client:
    """Changes and reads objects that are its own. What it was told is the truth; what it was not told, nobody knows."""

    def __init__(self, storage, number, gate):
        self.storage, self.gate = storage, gate
        self.random = random.Random(f"{SEED} {number}")
        sizes = [0, 1, 700, GROUP - 1, GROUP, GROUP + 1, 3 * GROUP + 5, 900_000]
        self.contents = [self.random.randbytes(self.random.choice(sizes)) + bytes([number, which]) for which in range(24)]
        self.addresses = b3sum(*self.contents)
        self.state = [ABSENT] * len(self.contents)
        self.problems, self.counts = [], {}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.stop.is_set():
                self.gate.wait()
                self.step()
        except Exception as problem:  # a broken client must not look like a quiet one
            self.problems.append(repr(problem))

    def step(self):
        which, dice = self.random.randrange(len(self.contents)), self.random.random()
        verb = "GET" if dice < 0.5 else "PUT" if dice < 0.85 else "DELETE"
        status = self.ask(verb, which)
        self.counts[verb, status] = self.counts.get((verb, status), 0) + 1

    def ask(self, verb, which):
        before = self.state[which]
        if verb == "PUT" and before != PRESENT or verb == "DELETE" and before != ABSENT:
            self.state[which] = UNKNOWN  # until the answer is there
        try:
            with self.storage.connect() as connection:
                answer = connection.ask(verb, f"/o/{self.addresses[which]}", self.contents[which] if verb == "PUT" else None, **self.storage.bearer())
        except (wire.Broken, OSError) as problem:
            return type(problem).__name__
        if verb == "GET":
            self.check(which, answer)
        elif verb == "PUT" and answer.status in (200, 201):
            self.state[which] = PRESENT
        elif verb == "DELETE" and answer.status == 204:
            self.state[which] = ABSENT
            if before == ABSENT:
                self.problems.append(f"deleted twice: {self.addresses[which]}")
        elif verb == "DELETE" and answer.status == 404:
            self.state[which] = ABSENT
            if before == PRESENT:
                self.problems.append(f"an acknowledged object could not be deleted: {self.addresses[which]}")
        elif answer.status < 500 and answer.status != 429:
            self.problems.append(f"{verb}: {answer}")
        return answer.status

    def check(self, which, answer):
        state, address = self.state[which], self.addresses[which]
        if answer.status == 200:
            if answer.body != self.contents[which]:
                self.problems.append(f"wrong bytes of {address}")
            if state == ABSENT:
                self.problems.append(f"an acknowledged delete came back: {address}")
        elif answer.status == 404:
            if state == PRESENT:
                self.problems.append(f"an acknowledged object is gone: {address}")
        elif answer.status < 500 and answer.status != 429:
            self.problems.append(f"GET: {answer}")

    def check_all(self):
        """In calm weather: whatever was acknowledged is there, or gone, for good."""
        for which, state in enumerate(self.state):
            answer = self.storage.ask("GET", f"/o/{self.addresses[which]}")
            self.check(which, answer)
            if answer.status not in (200, 404):
                self.problems.append(f"{state} and not readable in calm weather: {self.addresses[which]}: {answer}")


class Disk(unittest.TestCase):
    def test_a_bad_disk_costs_no_acknowledged_object_and_serves_no_wrong_byte(self):
        chance = random.Random(SEED)
        settings = {"storage.segment_size": "16MiB", "storage.cache_bytes": "4MiB"}
        with Weather() as weather, Storage(settings, environment=weather.environment) as storage:
            gate = threading.Event()
            gate.set()
            clients = [Client(storage, number, gate) for number in range(CLIENTS)]
            for client in clients:
                client.thread.start()
            restarts = faults = 0
            end = time.monotonic() + SECONDS
            try:
                while time.monotonic() < end and not any(client.problems for client in clients):
                    weather.set(seed=chance.getrandbits(62), **chance.choice(SKIES))
                    time.sleep(chance.uniform(0.3, 1.2))
                    faults += weather.get("faults")
                    weather.clear()
                    self.assertTrue(storage.alive(), storage.log()[-3000:])
                    if not storage.ask_openly("GET", "/readyz").json()["write_ready"] and self.fenced(storage):
                        gate.clear()
                        self.assertIn(storage.stop(), (0, 10), storage.log()[-3000:])
                        storage.start()
                        restarts += 1
                        gate.set()
            finally:
                weather.clear()
                gate.set()
                for client in clients:
                    client.stop.set()
                for client in clients:
                    client.thread.join()
            self.expect_truth(clients)
            self.assertTrue(storage.alive())
            self.assertGreater(faults, 0)
            if self.fenced(storage):
                storage.restart()
            wire.poll(lambda: storage.ask_openly("GET", "/readyz").json()["write_ready"], "it takes writes in calm weather")
            for again in (False, True):
                if again:
                    storage.restart()
                for client in clients:
                    client.check_all()
                self.expect_truth(clients)
            done = {}
            for client in clients:
                for key, count in client.counts.items():
                    done[key] = done.get(key, 0) + count
            self.assertGreater(done.get(("PUT", 201), 0), 20, done)
            self.assertGreater(done.get(("GET", 200), 0), 20, done)

    @staticmethod
    def fenced(storage):
        """A disk that failed a write or a sync is believed again only after a restart."""
        return any(one["fenced"] for one in storage.status()["data_dirs"])

    def expect_truth(self, clients):
        problems = [problem for client in clients for problem in client.problems]
        self.assertEqual(problems, [], f"with WEATHER_SEED={SEED}")
