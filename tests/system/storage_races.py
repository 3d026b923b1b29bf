"""Many at once: what was acknowledged last holds, there is one copy, and no reader ever sees a wrong byte."""

import os
import random
import threading
import unittest

import wire
from storage_server import GROUP, PART, Storage, b3sum

CHANCE = random.Random("races")


def together(count, work):
    """`work(i)` in threads that begin at once; what each gave, or why it failed."""
    gate, given = threading.Barrier(count), [None] * count

    def run(i):
        gate.wait()
        try:
            given[i] = work(i)
        except Exception as problem:  # told by whoever looks at what was given
            given[i] = problem
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return given


class Writers(unittest.TestCase):
    def test_two_writers_of_one_address_both_succeed_and_there_is_one_copy(self):
        with Storage({"limits.max_body_bytes": "16MiB"}) as storage:
            for round in range(10):
                content = CHANCE.randbytes(CHANCE.choice([0, 100, GROUP + 1, PART]))
                [address] = b3sum(content)
                answers = together(8, lambda i: storage.ask("PUT", f"/o/{address}", content) if i % 2 else storage.ask("POST", "/o", content))
                self.assertTrue({answer.status for answer in answers} <= {200, 201}, answers)
                self.assertTrue(storage.ask_openly("GET", f"/o/{address}").body == content)
                listed = storage.ask("GET", f"/o?prefix={address}").json()["objects"]
                self.assertEqual(len(listed), 1)
                if content:
                    self.assertEqual(self.copies(storage, content), 1)
            large = CHANCE.randbytes(3 * PART + 9)
            answers = together(4, lambda i: storage.upload(large) if i % 2 else storage.ask("POST", "/o", large))
            self.assertTrue({answer.status for answer in answers} <= {200, 201}, answers)
            status = storage.status()
            self.assertEqual(status["bytes"], sum(one["size"] for one in storage.ask("GET", "/o").json()["objects"]))

    def copies(self, storage, content):
        count = 0
        for name in os.listdir(storage.segments):
            if name.endswith(".seg"):
                with open(os.path.join(storage.segments, name), "rb") as file:
                    count += file.read().count(content)
        return count

    def test_a_put_racing_a_delete_what_was_acknowledged_last_holds(self):
        with Storage() as storage:
            for round in range(30):
                content = CHANCE.randbytes(2000)
                [address] = b3sum(content)
                answers = together(6, lambda i: storage.ask("DELETE" if i % 2 else "PUT", f"/o/{address}", None if i % 2 else content).status)
                self.assertTrue(set(answers[::2]) <= {200, 201} and set(answers[1::2]) <= {204, 404}, answers)
                found = storage.ask_openly("GET", f"/o/{address}")
                listed = storage.ask("GET", f"/o?prefix={address}").json()["objects"]
                self.assertEqual((found.status, len(listed)), (200, 1) if listed else (404, 0))
                # Who comes after all of them has the last word.
                if round % 2:
                    storage.ask("DELETE", f"/o/{address}")
                    self.assertEqual(storage.ask_openly("GET", f"/o/{address}").status, 404)
                else:
                    storage.ask("PUT", f"/o/{address}", content)
                    self.assertTrue(storage.ask_openly("GET", f"/o/{address}").body == content)

    def test_a_put_racing_the_compactor_what_was_acknowledged_last_holds(self):
        with Storage({"storage.segment_size": "16MiB"}) as storage:
            last, compacted = {}, lambda: storage.log().count("segment compacted")
            contents = [[CHANCE.randbytes(CHANCE.choice([500, GROUP + 3, 600000])) for _ in range(12)] for _ in range(4)]
            addresses = [b3sum(*some) for some in contents]
            stop = threading.Event()

            def churn(i):
                chance, connection = random.Random(i), storage.connect()
                while not stop.is_set():
                    which = chance.randrange(12)
                    address = addresses[i][which]
                    if chance.random() < 0.55:
                        answer = connection.ask("PUT", f"/o/{address}", contents[i][which], **storage.bearer())
                        assert answer.status in (200, 201), answer
                        last[address] = contents[i][which]
                    else:
                        answer = connection.ask("DELETE", f"/o/{address}", **storage.bearer())
                        assert answer.status in (204, 404), answer
                        last[address] = None
                connection.close()
                return True
            timer = threading.Thread(target=lambda: (wire.poll(lambda: compacted() >= 4, "segments are compacted", 120), stop.set()))
            timer.start()
            try:
                self.assertEqual(together(4, churn), [True] * 4)
            finally:
                stop.set()
                timer.join()
            self.assertGreaterEqual(compacted(), 4)

            def check():
                for address, content in last.items():
                    answer = storage.ask_openly("GET", f"/o/{address}")
                    self.assertEqual((answer.status, content is None or answer.body == content), (404 if content is None else 200, True), address)
                listed = {one["address"] for one in storage.ask("GET", "/o").json()["objects"]}
                self.assertEqual(listed, {address for address, content in last.items() if content is not None})
            check()
            storage.restart()
            check()


class Readers(unittest.TestCase):
    def test_reads_racing_puts_deletes_and_the_compactor_are_right_absent_or_short(self):
        settings = {"storage.segment_size": "16MiB", "storage.cache_bytes": "2MiB", "limits.max_body_bytes": "16MiB"}
        with Storage(settings) as storage:
            contents = [CHANCE.randbytes(size) for size in (100, GROUP, 5 * GROUP + 1, PART, 2 * PART + 1) for _ in range(3)]
            addresses = b3sum(*contents)
            stop, counts = threading.Event(), {200: 0, 404: 0, "short": 0}
            compacted = lambda: storage.log().count("segment compacted")

            def change(chance):
                with storage.connect() as connection:
                    while not stop.is_set():
                        which = chance.randrange(len(contents))
                        put = chance.random() < 0.6
                        answer = connection.ask("PUT" if put else "DELETE", f"/o/{addresses[which]}", contents[which] if put else None, **storage.bearer())
                        assert answer.status in ((200, 201) if put else (204, 404)), answer

            def read(chance):
                connection = storage.connect()
                while not stop.is_set():
                    which = chance.randrange(len(contents))
                    content = contents[which]
                    first = chance.randrange(len(content)) if chance.random() < 0.5 else 0
                    try:
                        answer = connection.ask("GET", f"/o/{addresses[which]}", **({"Range": f"bytes={first}-"} if first else {}))
                    except (wire.Broken, ConnectionResetError):
                        counts["short"] += 1
                        connection.close()
                        connection = storage.connect()
                        continue
                    assert answer.status in (200, 206, 404), answer
                    assert answer.status == 404 or answer.body == content[first:], f"wrong bytes of {addresses[which]}"
                    counts[404 if answer.status == 404 else 200] += 1
                connection.close()

            timer = threading.Thread(target=lambda: (wire.poll(lambda: compacted() >= 4, "segments are compacted", 120), stop.set()))
            timer.start()
            try:
                given = together(8, lambda i: (change if i < 3 else read)(random.Random(i)))
            finally:
                stop.set()
                timer.join()
            self.assertEqual(given, [None] * 8)
            self.assertGreater(counts[200], 50)
            self.assertGreater(counts[404], 10)
            self.assertEqual(storage.metric('integrity_fail_total{reason="checksum"}'), 0)
