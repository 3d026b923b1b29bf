"""The end of a process while its disk is slow or hangs, a shard hangs, or nobody reads what it says."""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import unittest

import demo
import wire
from storage_server import Storage, binary, free_port_base
from weather import Weather
from wire import request

CHANCE = random.Random("shutdown")
ABORTED = 10


def logged(storage, message):
    """The records with that message."""
    records = []
    for line in storage.log().splitlines():
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return [record for record in records if record.get("msg") == message]


@contextlib.contextmanager
def cold_storage(weather, objects, size, settings=None):
    """A server that has some objects on its disk and none in its memory."""
    with Storage({"storage.cache_bytes": "64MiB", **(settings or {})}, environment=weather.environment) as storage:
        addresses = [storage.post(CHANCE.randbytes(size)) for _ in range(objects)]
        storage.restart()
        weather.set(cold=1)
        yield storage, addresses


class ReadsInFlight(unittest.TestCase):
    def test_clients_that_hang_up_during_cold_reads_do_not_break_the_end(self):
        with Weather() as weather, cold_storage(weather, 40, 40000) as (storage, addresses):
            for round in range(6):
                weather.set(cold=1, read_delay_ms=30)
                with contextlib.ExitStack() as stack:
                    for address in addresses:
                        stack.enter_context(storage.connect()).send(request("GET", f"/o/{address}"))
                    wire.poll(lambda: weather.get("reading") > 0, "reads are under way")
                self.assertEqual(storage.stop(), 0, storage.log()[-2000:])
                weather.set(cold=0, read_delay_ms=0)
                storage.start()

    def test_a_read_that_hangs_does_not_keep_the_process(self):
        for gone in (False, True):
            with self.subTest(gone=gone), Weather() as weather, \
                    cold_storage(weather, 4, 100000, {"timeouts.drain": "1s"}) as (storage, addresses), \
                    contextlib.ExitStack() as connections:
                weather.set(read_delay_ms=3600_000)
                asked = [connections.enter_context(storage.connect()) for _ in addresses]
                for connection, address in zip(asked, addresses):
                    connection.send(request("GET", f"/o/{address}"))
                # The scrubber has one read at a time: of two, one at least is a client's.
                wire.poll(lambda: weather.get("reading") > 1, "a client's read hangs")
                if gone:
                    connections.close()
                self.assertEqual(storage.stop(), ABORTED)
                named = [record["what"] for record in logged(storage, "hangs")]
                self.assertTrue(any("lane read" in what for what in named), storage.log()[-2000:])
                weather.set(read_delay_ms=0, cold=0)

    def test_a_sync_that_hangs_does_not_keep_the_process(self):
        with Weather() as weather, Storage({"timeouts.drain": "1s"}, environment=weather.environment) as storage:
            weather.set(sync_delay_ms=3600_000)
            with storage.connect() as connection:
                connection.send(request("POST", "/o", b"never durable", **storage.bearer()))
                wire.poll(lambda: weather.get("syncing") > 0, "the sync hangs")
                self.assertEqual(storage.stop(), ABORTED)
            self.assertTrue(logged(storage, "hangs"), storage.log()[-2000:])

    def test_the_second_signal_leaves_although_a_read_hangs(self):
        with Weather() as weather, cold_storage(weather, 1, 100000, {"timeouts.drain": "5s"}) as (storage, [address]):
            weather.set(read_delay_ms=3600_000)
            with storage.connect() as connection:
                connection.send(request("GET", f"/o/{address}"))
                wire.poll(lambda: weather.get("reading") > 0, "the read hangs")
                storage.process.send_signal(signal.SIGTERM)
                wire.poll(lambda: logged(storage, "draining"), "it drains")
                self.assertEqual(storage.stop(), ABORTED)
            weather.set(read_delay_ms=0, cold=0)


class ShardsHang(unittest.TestCase):
    def test_a_shard_that_hangs_does_not_keep_the_process_and_is_named(self):
        for shards in (1, 2):
            with self.subTest(shards=shards), Weather() as weather, \
                    Storage({"server.shards": shards, "timeouts.drain": "1s"}, environment=weather.environment) as storage, \
                    contextlib.ExitStack() as stack:
                weather.set(accept_hangs=1)
                # The kernel spreads them over the shards: in the end every shard hangs.
                def one_more():
                    stack.enter_context(storage.connect())
                    return weather.get("accepting") >= shards
                wire.poll(one_more, "all shards hang")
                self.assertEqual(storage.stop(), ABORTED)
                named = " ".join(record["what"] for record in logged(storage, "hangs"))
                for shard in range(shards):
                    self.assertIn(f"shard {shard}", named)

    def test_a_hanging_shard_does_not_keep_the_second_signal_out(self):
        with Weather() as weather, Storage({"server.shards": 1, "timeouts.drain": "5s"}, environment=weather.environment) as storage:
            weather.set(accept_hangs=1)
            with storage.connect():
                wire.poll(lambda: weather.get("accepting") == 1, "the shard hangs")


                def ended():
                    storage.process.send_signal(signal.SIGTERM)  # two at once are one
                    return storage.process.poll() is not None
                wire.poll(ended, "it has left")
                self.assertEqual(storage.wait(), ABORTED)


def full_pipe():
    """A pipe with no room left whose reader does not read: (to read, to write)."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"." * 4096)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b".")
    os.set_blocking(writer, True)
    return reader, writer


class NobodyReads(unittest.TestCase):
    """What a service says to people must not keep it from anything."""

    def run_up(self, stdout, stderr):
        """Starts all services, waits until they answer, ends them. The exit code."""
        base = free_port_base()
        with contextlib.ExitStack() as stack:
            home = stack.enter_context(Storage(started=False))
            arguments = [binary(), "up", "--data", home.data, "--port-base", str(base), "--set", "shards=2"]
            process = subprocess.Popen(arguments, stdout=stdout, stderr=stderr, env=demo.clean_environment())
            stack.callback(lambda: process.poll() is None and (process.kill(), process.wait()))

            def ready():
                self.assertIsNone(process.poll(), "it has ended by itself")
                for port in (base + 10, base + 30):
                    with wire.Connection(("127.0.0.1", port)) as connection:
                        if connection.ask("GET", "/readyz").status != 200:
                            return False
                return True

            def answers():
                try:
                    return ready()
                except OSError:
                    return False
            wire.poll(answers, "it is ready")
            process.send_signal(signal.SIGTERM)
            return process.wait(wire.PATIENCE)

    def test_a_full_device_for_stderr_does_not_matter(self):
        with open("/dev/full", "w") as full:
            self.assertEqual(self.run_up(subprocess.DEVNULL, full), 0)

    def test_a_full_device_for_stdout_does_not_matter(self):
        with open("/dev/full", "w") as full:
            self.assertEqual(self.run_up(full, subprocess.DEVNULL), 0)
            self.assertEqual(self.run_up(full, full), 0)

    def test_a_reader_that_left_does_not_matter(self):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            self.assertEqual(self.run_up(writer, writer), 0)
        finally:
            os.close(writer)

    def test_a_reader_that_leaves_after_three_lines_does_not_matter(self):
        reader, writer = os.pipe()

        def read():
            with open(reader, "rb") as lines:
                for _ in range(3):
                    lines.readline()
        thread = threading.Thread(target=read)
        thread.start()
        try:
            self.assertEqual(self.run_up(writer, writer), 0)
        finally:
            os.close(writer)
            thread.join()

    def test_a_reader_that_does_not_read_does_not_matter(self):
        reader, writer = full_pipe()
        try:
            self.assertEqual(self.run_up(writer, writer), 0)
        finally:
            os.close(writer)
            os.close(reader)

    def test_closed_descriptors_do_not_matter(self):
        with Storage(started=False) as home:
            script = f'exec "{binary()}" storage --data "{home.data}" --bind 127.0.0.1:0 --set uds.path="{home.home}/sock" >&- 2>&-'
            process = subprocess.Popen(["sh", "-c", script], env=demo.clean_environment())
            try:
                wire.poll(lambda: os.path.exists(f"{home.home}/sock") or process.poll() is not None, "it listens")
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(wire.PATIENCE), 0)
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()


class Starting(unittest.TestCase):
    def test_metrics_are_answered_while_it_starts(self):
        with Weather() as weather, Storage(started=False, environment=weather.environment) as storage:
            path = os.path.join(storage.home, "sock")
            os.chmod(storage.home, 0o700)
            storage.settings["uds.path"] = path
            weather.set(sync_delay_ms=300)
            storage.spawn()
            stop, answers = threading.Event(), []

            def ask():
                while not stop.is_set():
                    with contextlib.suppress(OSError, wire.Broken):
                        with wire.Connection(path) as connection:
                            answers.append(connection.ask("GET", "/metrics").status)
            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            try:
                wire.poll(lambda: weather.get("syncing") > 0 and len(answers) > 20, "it starts and is asked")
                weather.set(sync_delay_ms=0)
                storage.await_ready()
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(set(answers), {200})
