"""What storage counts: reads from memory have a latency too, and a commit that took too long is told."""

import unittest

import wire
from storage_server import Storage
from weather import Weather


class Counters(unittest.TestCase):
    def test_a_read_from_memory_is_observed_like_one_from_the_disk(self):
        with Storage({}) as storage:
            address = storage.post(b"x" * 1000)
            large = storage.post(b"y" * 200_000)
            count = lambda range_: storage.metrics().get(f'storage_get_latency_seconds_count{{route="/o/{{address:Address}}",range="{range_}"}}', 0)
            for asked in (address, large):
                storage.ask_openly("GET", f"/o/{asked}")  # from memory from now on
            before = {name: count(name) for name in ("whole", "single", "multi")}
            hits = storage.metrics()["cache_hits_total"]
            for asked in (address, large):
                storage.ask_openly("GET", f"/o/{asked}")
                storage.ask_openly("GET", f"/o/{asked}", Range="bytes=5-9")
                storage.ask_openly("GET", f"/o/{asked}", Range="bytes=5-9,20-29")
            self.assertEqual(storage.metrics()["cache_hits_total"], hits + 6)
            self.assertEqual({name: count(name) - before[name] for name in before}, {"whole": 2, "single": 2, "multi": 2})

    def test_a_commit_that_takes_too_long_is_counted(self):
        with Weather() as weather, Storage({"timeouts.drain": "5s"}, environment=weather.environment) as storage:
            storage.post(b"in time")
            weather.set(sync_delay_ms=1500)
            self.assertEqual(storage.ask("POST", "/o", b"too late", Request_Timeout="0.2").status, 504)
            self.assertEqual(storage.metrics()['io_timeouts_total{op="commit"}'], 1)
            weather.clear()
            wire.poll(lambda: storage.ask("POST", "/o", b"again in time").status == 201, "it commits again")


if __name__ == "__main__":
    unittest.main()
