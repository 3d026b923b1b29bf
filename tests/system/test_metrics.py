"""No series stands still: whatever storage and the registry show on /metrics is moved here, on a real process.

What there is is read from the service itself, so a new series that nothing here moves fails; the names that
the specification asks for are typed as facts. Of a histogram the count is looked at."""

import contextlib
import gzip
import http.server
import json
import os
import random
import re
import signal
import socket
import threading
import unittest

import test_chaos
import wire
from registry_bad_days import COMMIT, records, version_of
from registry_server import Registry, approval, region
from registry_stream import Stream
from storage_index import rot
from storage_server import MIB, Storage, find_in_files, flip
from weather import Weather
from wire import head, request

CHANCE = random.Random("metrics")
ABORTED = 10

SHARED = {"http_requests_total", "request_latency_seconds", "inflight_requests", "rejected_total", "queue_depth", "queue_dropped_total",
          "busy_rejections_total", "tasks_spawned_total", "tasks_aborted_total", "tasks_canceled_total", "tasks_panicked_total",
          "io_timeouts_total", "io_orphaned", "backoff_retries_total", "shard_stalls_total", "amnesia_mode", "build_info",
          "config_reload_total", "bus_lagged_total", "log_dropped_total"}
OF_STORAGE = {"storage_get_latency_seconds", "storage_put_latency_seconds", "chunks_read_total", "chunks_written_total", "bytes_in_total",
              "bytes_out_total", "integrity_fail_total", "decompress_reject_total", "cache_hits_total", "cache_misses_total", "cache_bytes", "announce_lag_seconds",
              "announce_covered_keys", "announce_pending_keys", "announce_requests_total"}
OF_REGISTRY = {"registry_updates_total", "registry_pending_proposals", "registry_signers", "commit_cas_fail_total", "storage_backoff_total",
               "registry_recoveries_total", "audit_chain_verify_seconds", "registry_storage_bytes", "registry_log_segments",
               "registry_checkpoint_age_seconds", "registry_reload_success_total", "registry_reload_fail_total", "integrity_fail_total"}
# Of storage only events are broadcast, and they are sent and logged by turns on one shard: nobody lags before 1024
# of them come in one turn. The simulator does that (open_test); the registry's subscribers lag here.
NOT_IN_STORAGE = {"bus_lagged_total"}
# A job waits only while every thread of its lane is busy. The weather makes that so for some lanes; that the others
# can move is for the tests of the pool. Only the index asks a DHT.
OF_OTHERS = re.compile(r'pool_waiting\{lane="\w+"\}|backoff_retries_total\{op="dht"\}')
# Moves only where TLS is spoken: test_tls.
OF_TLS = {"tls_handshakes_total"}


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()


def is_closed(connection):
    connection.socket.setblocking(False)
    try:
        return connection.socket.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


class Ledger:
    """Every series that was ever shown, and whether it ever was something else than 0."""

    def __init__(self):
        self.names, self.moved = set(), {}

    def note(self, text):
        self.names |= set(re.findall(r"^# TYPE (\S+)", text, re.M))
        for line in text.splitlines():
            if line and not line.startswith("#") and not re.match(r"\w+_(bucket|sum)\{|\w+_seconds_sum ", line):
                series, value = line.rsplit(" ", 1)
                self.moved[series] = self.moved.get(series, False) or float(value) != 0

    def look(self, server):
        self.note(server.ask_openly("GET", "/metrics").body.decode())

    def until(self, server, *wanted):
        """Looks until these have moved."""
        def missing():
            self.look(server)
            return [series for series in wanted if not self.moved.get(series)]
        try:
            wire.poll(lambda: not missing(), "")
        except AssertionError:
            raise AssertionError(f"did not move: {missing()}") from None

    def standing(self):
        return sorted(series for series, moved in self.moved.items() if not moved)

    def names_moved(self):
        return {re.sub(r"(?<=_seconds)_count$", "", re.match(r"\w+", series)[0]) for series, moved in self.moved.items() if moved}


class Series:
    """What is the same for every service. `Server` makes one; `slow` is a request that waits for the log."""

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.weather = self.stack.enter_context(Weather())
        self.chaos = test_chaos.Chaos(self.stack)
        self.ledger = Ledger()

    @contextlib.contextmanager
    def server(self, settings=None, **options):
        """Calm weather at the end; what it shows at the start and at the end is noted."""
        environment = {**self.weather.environment, **self.chaos.environment}
        with self.Server({**(settings or {})}, environment=environment, **options) as server:
            if options.get("started", True):
                self.ledger.look(server)
            try:
                yield server
                if server.process is not None and server.alive():
                    self.ledger.look(server)
            finally:
                self.calm()

    def calm(self):
        """Not what the weather tells: who waits in it now has still to say that it has left."""
        self.weather.set(**dict.fromkeys(("sync_delay_ms", "index_sync_delay_ms", "config_delay_ms", "read_delay_ms", "read_fails", "cold", "send_buffer",
                                          "accept_hangs", "no_memory"), 0))

    def connect(self, server, stack, **options):
        return stack.enter_context(server.connect(**options))

    def half_body(self, server):
        """Of a request that takes a body: the rest does not come."""
        method, target = self.takes_body
        return head(f"{method} {target} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {server.token}",
                    "Content-Type: application/json", "Content-Length: 1000") + b"{"

    # --- each of these moves some

    def refuse_connections(self):
        with self.server({"server.max_conns_per_ip": 4, "timeouts.read": "30s", "timeouts.request": "30s"}) as server, contextlib.ExitStack() as stack:
            for _ in range(4):
                self.connect(server, stack).send(self.half_body(server))
            def refused():
                with server.connect() as more:
                    return more.ask("GET", "/nothing").status == 429
            wire.poll(refused, "there is no place left")
            self.ledger.until(server, 'rejected_total{reason="connections"}', 'busy_rejections_total{endpoint="other"}')

    def refuse_requests(self):
        with self.server({"server.max_inflight": 4, "server.max_rps": 50, "limits.max_body_bytes": "100KiB", "limits.decoded_bytes": "64KiB",
                          "timeouts.read": "1s"}) as server, contextlib.ExitStack() as stack:
            with server.connect() as wrong:
                self.assertEqual(wrong.send(head("GET / HTTP/1.1", "Host: nobody.example")).read().status, 421)
            method, target = self.takes_body
            self.assertEqual(server.ask_openly(method, target, b"{}").status, 401)
            self.assertEqual(server.ask(method, target, b"{" * 200_000, Content_Type="application/json").status, 413)
            self.assertEqual(server.ask(method, target, b"{}", Content_Type="application/json", Content_Encoding="lzw").status, 415)
            for bomb in (bytes(150_000), CHANCE.randbytes(30_000) + bytes(60_000)):
                self.assertEqual(server.ask(method, target, gzip.compress(bomb), Content_Type="application/json", Content_Encoding="gzip").status, 413)
            with server.connect() as quick:
                self.assertIn(429, [quick.ask("GET", "/nothing").status for _ in range(120)])
            self.ledger.until(server, *(f'rejected_total{{reason="{reason}"}}' for reason in ("head", "unauthorized", "body_cap", "decode", "decoded_ratio", "decoded_cap", "rate")))
        with self.server({"server.max_inflight": 4, "timeouts.read": "1s"}) as server, contextlib.ExitStack() as stack:
            for _ in range(4):
                self.connect(server, stack).send(self.half_body(server))
            wire.poll(lambda: server.ask_openly("GET", "/nothing").status == 429, "there is no place left")
            self.ledger.until(server, 'rejected_total{reason="inflight"}', 'io_timeouts_total{op="read"}')

    def refuse_while_starting(self):
        with self.server(started=False) as server:
            server.start()
            server.stop()
            address = free_address()
            server.bind = "%s:%d" % address
            self.weather.set(sync_delay_ms=60_000)
            server.spawn()
            def refused():
                with contextlib.suppress(OSError, wire.Broken), wire.Connection(address) as connection:
                    return connection.ask("GET", "/nothing").status == 503
            wire.poll(refused, "it is starting")
            with wire.Connection(address) as connection:
                self.ledger.note(connection.ask("GET", "/metrics").body.decode())
            self.calm()
            server.await_ready()
            self.assertTrue(self.ledger.moved['rejected_total{reason="not_ready"}'])

    def fill_the_work_queue(self):
        with self.server({"queues.work": 2, "server.shards": 1, "timeouts.request": "50s"}) as server, contextlib.ExitStack() as stack:
            self.prepare(server)
            self.weather.set(sync_delay_ms=600_000)
            # 128 workers wait for the log, two requests for a worker, and the next are refused.
            connections = []
            def one_more():
                for _ in range(20):
                    connections.append(self.connect(server, stack).send(self.slow(server, len(connections))))
                self.ledger.look(server)
                return self.ledger.moved['queue_depth{queue="work"}'] and self.ledger.moved['rejected_total{reason="queue"}']
            wire.poll(one_more, "the queue is full")
            self.ledger.until(server, 'queue_dropped_total{queue="work"}')
            self.calm()
            self.assertLessEqual({connection.read().status for connection in connections}, {200, 201, 202, 429})

    def block_every_route(self):
        """Answers that nobody takes keep their requests in flight."""
        self.weather.set(send_buffer=4096)
        with self.server({"timeouts.write": "50s", "timeouts.request": "50s"}) as server:
            wanted = [series for series in self.ledger.moved if series.startswith("inflight_requests{")]
            self.assertTrue(wanted)
            for series in wanted:
                route = re.fullmatch(r'inflight_requests\{route="(.*)"\}', series)[1]
                target = re.sub(r"\{\w+:(\w+)\}", lambda match: SAMPLES[match[1]], route)
                method = next(method for method in ("GET", "POST", "PUT", "PATCH", "DELETE") if server.ask(method, target).status != 405)
                with self.subTest(route), server.connect(receive_buffer=2048) as deaf:
                    deaf.send(request(method, target, None if method == "GET" else b"", **server.bearer()) * 100)
                    self.ledger.until(server, series)

    def wait_too_long(self):
        with self.server({"timeouts.write": "200ms", "timeouts.request": "300ms"}) as server:
            self.prepare(server)
            self.weather.set(sync_delay_ms=600_000)
            with server.connect() as late:
                self.assertEqual(late.send(self.slow(server, 0)).read().status, 504)
            self.ledger.until(server, 'io_timeouts_total{op="commit"}')
            self.calm()
            self.weather.set(send_buffer=4096)
            with server.connect(receive_buffer=2048) as deaf:
                deaf.send(request("GET", "/debug/topology") * 100)
                self.ledger.until(server, 'io_timeouts_total{op="write"}')

    def hang_a_shard(self):
        with self.server({"server.shards": 1}) as server:
            self.weather.set(accept_hangs=1)
            with server.connect():
                wire.poll(lambda: self.weather.get("accepting") == 1, "the shard hangs")
                threading.Event().wait(0.02)  # more than what counts as a stall; no test waits for it to be over
            self.calm()
            self.ledger.until(server, "shard_stalls_total")

    def run_out_of_memory(self):
        """What a request needs is not given: that costs its connection."""
        with self.server() as server:
            with contextlib.ExitStack() as stack:
                self.weather.set(no_memory=4096)
                connections = [self.connect(server, stack).send(b"GET /version HTTP/1.1\r\n") for _ in range(20)]
                # Those for whom there was memory left wait for the rest of their heads.
                wire.poll(lambda: any(is_closed(connection) for connection in connections), "a connection is lost")
                self.calm()
            self.ledger.until(server, 'tasks_panicked_total{kind="connection"}')

    def fail_every_task(self):
        with self.server() as server:
            for task, kind in test_chaos.declared(server).items():
                test_chaos.fail_and_await(server, self.chaos, self.name, task, kind)
            self.ledger.until(server, 'backoff_retries_total{op="restart"}')

    def reload(self):
        with self.server(started=False) as server:
            path = os.path.join(server.home, "config.toml")
            def write(text):
                with open(path + ".new", "w") as file:
                    file.write(text)
                os.rename(path + ".new", path)
            def count():
                return sum(value for series, value in server.metrics().items() if series.startswith("config_reload_total"))
            def hang_up():
                before = count()
                server.process.send_signal(signal.SIGHUP)
                wire.poll(lambda: count() > before, "it was read again")
            write('[log]\nlevel = "info"\n')
            server.arguments = ("--config", path)
            server.start()
            for text in ('[log]\nlevel = "debug"\n', '[log]\nlevel = "debug"\n', '[log]\nlevel = "nonsense"\n'):
                write(text)
                hang_up()
            self.ledger.until(server, *(f'config_reload_total{{result="{result}"}}' for result in ("applied", "unchanged", "rejected")))
            # A file that takes long keeps the reloader: signals queue up, until they are one too many.
            self.weather.set(config_delay_ms=600_000)
            depth, dropped = 'queue_depth{queue="cfg_reload"}', 'queue_dropped_total{queue="cfg_reload"}'
            def one_more():
                server.process.send_signal(signal.SIGHUP)
                self.ledger.look(server)
                return self.ledger.moved[depth] and self.ledger.moved[dropped]
            wire.poll(one_more, "too many reloads wait")
            self.weather.set(config_delay_ms=0)

    def lose_log_lines(self):
        with self.server(started=False) as server:
            os.symlink("/dev/full", server.log_path)
            server.start()
            self.ledger.until(server, "log_dropped_total")
            os.remove(server.log_path)
            with open(server.log_path, "w"):
                pass

    def forget_everything(self):
        with self.server({"amnesia.enabled": "true", **self.amnesia}) as server:
            self.ledger.until(server, "amnesia_mode")

    def end(self, hurry):
        """Scrapes until the last moment; two signals are a hurry."""
        address = free_address()
        settings = {"server.metrics_addr": "%s:%d" % address, "timeouts.drain": "5s", "timeouts.request": "50s", "timeouts.read": "50s"}
        with self.server(settings) as server, contextlib.ExitStack() as stack:
            kept = self.connect(server, stack)
            self.assertEqual(kept.ask("GET", "/version").status, 200)
            busy = self.connect(server, stack).send(self.half_body(server))
            wire.poll(lambda: sum(value for series, value in server.metrics().items() if series.startswith("inflight_requests")), "one is under way")
            scraper = stack.enter_context(wire.Connection(address))
            server.process.send_signal(signal.SIGTERM)
            wire.poll(lambda: '"draining"' in server.log(), "it drains")
            wire.poll(lambda: scraper.ask("GET", "/readyz").status == 503, "it says so")
            # One that was idle when the drain began attends from then on.
            self.assertEqual(kept.ask("GET", "/nothing").status, 503)
            if hurry:
                server.process.send_signal(signal.SIGTERM)
            else:
                self.weather.set(sync_delay_ms=300)  # the log is closed slowly, while somebody looks
                busy.close()

            def scraped():
                try:
                    self.ledger.note(scraper.ask("GET", "/metrics").body.decode())
                except (wire.Broken, OSError):
                    return True
            wire.poll(scraped, "it leaves")
            self.assertEqual(server.wait(), ABORTED if hurry else 0)

    def test_no_series_stands_still(self):
        for step in (self.refuse_connections, self.refuse_requests, self.refuse_while_starting, self.fill_the_work_queue, self.block_every_route,
                     self.wait_too_long, self.hang_a_shard, self.run_out_of_memory, self.fail_every_task, self.reload, self.lose_log_lines,
                     self.forget_everything, *self.own_steps(), lambda: self.end(False), lambda: self.end(True)):
            step()
        standing = [series for series in self.ledger.standing() if not OF_OTHERS.fullmatch(series)]
        self.assertEqual([series for series in standing if series not in self.excepted], [])
        self.assertEqual((self.ledger.names | self.facts) - self.ledger.names_moved(), self.excepted)


ADDRESS = "b3:" + "0" * 64
SAMPLES = {"Address": ADDRESS, "Id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "Int": "0", "Ulid": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "Segment": "x", "Rest": "0/000"}


class ScriptedIndex:
    """Says to each batch of records what it is told to say; "wait": nothing, until it is told something else."""

    def __init__(self, stack):
        self.says, self.changed = 200, threading.Condition()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                with owner.changed:
                    owner.changed.wait_for(lambda: owner.says != "wait")
                    status = owner.says
                body = json.dumps({"taken": 1, "ignored": 0, "epoch": SAMPLES["Ulid"]}).encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads, server.block_on_close, server.handle_error = True, False, lambda *_: None
        self.address = "%s:%d" % server.server_address
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        stack.callback(lambda: (self.say(200), server.shutdown(), thread.join(), server.server_close()))

    def say(self, what):
        with self.changed:
            self.says = what
            self.changed.notify_all()


class StorageSeries(Series, unittest.TestCase):
    Server, name = Storage, "storage"
    takes_body = ("POST", "/o")
    amnesia = {"storage.cache_bytes": "64MiB"}
    facts = SHARED | OF_STORAGE

    def setUp(self):
        super().setUp()
        self.index = ScriptedIndex(self.stack)

    def server(self, settings=None, **options):
        return super().server({"peers.index": self.index.address, **(settings or {})}, **options)

    def prepare(self, server):
        pass

    def slow(self, server, number):
        return request("POST", "/o", b"slow %d" % number, **server.bearer())

    @property
    def excepted(self):
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
            return NOT_IN_STORAGE | OF_TLS | ({"cache_large_page_bytes"} if "[never]" in file.read() else set())

    def own_steps(self):
        return (self.keep_and_serve, self.refuse_decoding, self.find_damage, self.damage_the_index, self.fill_changes, self.leave_a_read,
                self.announce)

    def keep_and_serve(self):
        with self.server({"scrub.rate": "1000MiB/s"}) as storage:
            content = CHANCE.randbytes(300_000)
            address = storage.post(content)
            storage.ask("DELETE", "/o/" + storage.post(b"gone"))
            storage.restart()
            for range_ in (None, "bytes=5-9", "bytes=5-9,20-29"):
                for _ in range(2):
                    storage.ask_openly("GET", f"/o/{address}", **({"Range": range_} if range_ else {}))
            upload = storage.ask("POST", "/uploads", b'{"size":%d}' % (2 * MIB)).json()["id"]
            self.assertEqual(storage.ask("PATCH", f"/uploads/{upload}", CHANCE.randbytes(MIB), Upload_Offset=0).status, 204)
            storage.post(b"more")
            storage.ask("POST", "/admin/scrub")
            self.ledger.until(storage, "storage_uploads", "storage_upload_bytes", "scrubbed_bytes_total", "storage_dead_bytes", "cache_hits_total",
                              "cache_misses_total", "chunks_read_total", "chunks_written_total", "storage_put_latency_seconds_count")

    def refuse_decoding(self):
        with self.server({"limits.decoded_bytes": "64KiB", "limits.decoded_ratio": 20}) as storage:
            for body in (gzip.compress(b"x" * 1_000_000), gzip.compress(CHANCE.randbytes(100_000)), b"not gzip at all"):
                self.assertGreaterEqual(storage.ask("POST", "/o", body, Content_Encoding="gzip").status, 400)
            self.ledger.until(storage, *(f'decompress_reject_total{{reason="{reason}"}}' for reason in ("ratio", "size", "malformed")))

    def announce(self):
        """To an index that says everything that one can say, and nothing for a while."""
        with self.server({"queues.changed": 4}) as storage:
            storage.post(b"announced")
            self.ledger.until(storage, 'announce_requests_total{result="taken"}', "announce_covered_keys")
            for status, result in ((429, "busy"), (401, "unauthorized"), (400, "refused"), (503, "unanswered")):
                self.index.say(status)
                storage.post(b"announced when it says %d" % status)
                self.ledger.until(storage, f'announce_requests_total{{result="{result}"}}')
                self.index.say(200)
            self.index.say("wait")
            def one_more():
                storage.post(CHANCE.randbytes(100))
                self.ledger.look(storage)
                return all(self.ledger.moved[series] for series in ("announce_lag_seconds", "announce_pending_keys", 'queue_depth{queue="changed"}',
                                                                    'queue_dropped_total{queue="changed"}'))
            wire.poll(one_more, "more has changed than there is room for")
            self.ledger.until(storage, 'io_timeouts_total{op="rpc"}', 'backoff_retries_total{op="upstream"}')
            self.index.say(200)
        # A listener whose places are all taken leaves everybody else waiting.
        with contextlib.ExitStack() as stack:
            deaf = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            for _ in range(8):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(deaf.getsockname())
            with self.server({"peers.index": "%s:%d" % deaf.getsockname()}) as storage:
                self.ledger.until(storage, 'io_timeouts_total{op="connect"}')

    def find_damage(self):
        with self.server({"storage.segment_size": "16MiB", "storage.cache_bytes": "1MiB"}) as storage:
            content = CHANCE.randbytes(50_000)
            address = storage.post(content)
            for _ in range(20):
                storage.post(CHANCE.randbytes(MIB))
            storage.restart()
            [(path, offset)] = find_in_files(storage.segments, content[:100])
            flip(path, offset + 50)
            self.assertEqual(storage.ask_openly("GET", f"/o/{address}").status, 502)
            self.ledger.until(storage, 'integrity_fail_total{reason="checksum"}', "storage_quarantined")
            storage.stop()
            os.remove(os.path.join(storage.segments, min(name for name in os.listdir(storage.segments) if name.endswith(".seg"))))
            storage.start()
            self.ledger.until(storage, "storage_lost_segments")

    def damage_the_index(self):
        with self.server({"storage.cache_bytes": "1MiB", "scrub.rate": "1000MiB/s"}) as storage:
            with storage.connect() as connection:
                for _ in range(500):
                    connection.ask("POST", "/o", CHANCE.randbytes(700), **storage.bearer())
            storage.restart()
            # What makes the new one waits for the disk, until somebody has looked.
            self.weather.set(index_sync_delay_ms=600_000)
            rot(storage)
            storage.ask("POST", "/admin/scrub")
            self.ledger.until(storage, "storage_index_damaged")
            self.calm()
            wire.poll(lambda: storage.status()["data_dirs"][0]["index"] == "ok", "a new one is in use", 60)

    def fill_changes(self):
        """More than 512 changes, of as many workers."""
        with self.server({"server.shards": 8, "timeouts.request": "50s"}) as storage, contextlib.ExitStack() as stack:
            self.weather.set(sync_delay_ms=600_000)
            connections = []
            def one_more():
                for _ in range(50):
                    connections.append(self.connect(storage, stack).send(self.slow(storage, len(connections))))
                self.ledger.look(storage)
                return self.ledger.moved['queue_dropped_total{queue="changes"}']
            wire.poll(one_more, "a change is refused")
            self.ledger.until(storage, 'queue_depth{queue="changes"}', 'busy_rejections_total{endpoint="/o"}')
            self.calm()
            self.assertLessEqual({connection.read().status for connection in connections}, {200, 201, 429})

    def leave_a_read(self):
        with self.server({"storage.cache_bytes": "1MiB", "timeouts.request": "300ms"}) as storage:
            address = storage.post(CHANCE.randbytes(100_000))
            storage.restart()
            self.weather.set(cold=1, read_delay_ms=600_000)
            with storage.connect() as connection:
                connection.send(request("GET", f"/o/{address}"))
                self.ledger.until(storage, "io_orphaned")
            self.calm()


class RegistrySeries(Series, unittest.TestCase):
    Server, name = Registry, "registry"
    takes_body = ("POST", "/registry/proposals")
    amnesia = {}
    facts, excepted = SHARED | OF_REGISTRY, OF_TLS

    def prepare(self, server):
        self.items = server.items()

    def slow(self, server, number):
        return self.post(server, "/registry/proposals", {"schema_version": "1.0.0", "items": [*self.items, region(f"r{number}")]})

    def post(self, server, target, value):
        return request("POST", target, json.dumps(value).encode(), Content_Type="application/json", **server.bearer())

    def own_steps(self):
        return (self.change, self.find_damage, self.read_again, self.skip_a_prune, self.lag, self.fill_queues, self.wait_with_a_chore,
                self.drop_audits)

    def change(self):
        with self.server() as registry:
            registry.grow(3)
            one, two = (registry.approve_all(registry.propose(registry.next_items(region(name)))) for name in "ab")
            self.assertEqual(registry.commit(one).status, 201)
            self.assertEqual(registry.commit(two).status, 409)
            registry.propose()
            registry.covered()
            self.ledger.until(registry, "commit_cas_fail_total", "registry_pending_proposals", 'registry_updates_total{result="accepted"}',
                              "registry_checkpoint_age_seconds", "registry_verified_version", "audit_chain_verify_seconds")
            registry.kill()
            registry.start()
            self.ledger.until(registry, "registry_recoveries_total")

    def drop_audits(self):
        with self.server() as registry:
            registry.stop()
            trail = os.path.join(registry.data, "registry", "audit")
            with contextlib.suppress(FileNotFoundError):
                os.remove(trail)
            os.mkdir(trail)  # no file to write to
            registry.start()
            registry.ask_openly("POST", "/registry/proposals", b"{}")
            self.ledger.until(registry, "registry_audit_dropped_total")

    def find_damage(self):
        with self.server() as registry:
            registry.grow(5)
            registry.restart()
            path = os.path.join(registry.segments, "0000000001.seg")
            [(at, size)] = [(at, size) for at, size, kind, meta in records(path) if kind == COMMIT and version_of(meta) == 3]
            flip(path, at + size - 1)
            self.assertEqual(registry.ask_openly("GET", "/registry/3").status, 502)
            self.ledger.until(registry, 'integrity_fail_total{reason="checksum"}', "registry_damaged_versions")

    def read_again(self):
        with self.server() as registry:
            registry.grow(3)
            registry.restart()
            self.weather.set(cold=1, read_fails=1_000_000)
            registry.ask_openly("GET", "/registry/2")
            self.ledger.until(registry, 'storage_backoff_total{op="read"}')
            self.calm()
            self.weather.set(cold=1, read_delay_ms=600_000)
            with registry.connect() as connection:
                connection.send(request("GET", "/registry/2", Request_Timeout="0.2"))
                self.ledger.until(registry, "io_orphaned")

    def skip_a_prune(self):
        """A pruner that stays down takes no orders."""
        with self.server({"retention.policy": "by-count", "retention.max_count": 2}) as registry:
            panicked, spawned = ('tasks_%s_total{kind="pruner"}' % what for what in ("panicked", "spawned"))
            for count in range(1, test_chaos.TOO_OFTEN + 1):
                wire.poll(lambda: registry.metric(spawned) == count, "it runs")
                self.chaos.fail("registry", "pruner")
                wire.poll(lambda: registry.metric(panicked) == count, "it has failed")
            for _ in range(10):
                registry.grow(1)
                registry.covered()
            self.ledger.until(registry, "registry_prunes_skipped_total")

    def lag(self):
        self.weather.set(send_buffer=4096)
        with self.server({"bus.channel_bound": 4, "timeouts.write": "5s"}) as registry, Stream(registry, receive_buffer=2048) as deaf:
            deaf.open()
            def behind():
                registry.grow(50)
                self.ledger.look(registry)
                return self.ledger.moved['queue_dropped_total{queue="committed"}']
            wire.poll(behind, "it misses some")
            self.ledger.until(registry, 'bus_lagged_total{topic="committed",consumer="connection"}')

    def fill_queues(self):
        """More than 512 of a kind, of as many workers."""
        with self.server({"server.shards": 8, "timeouts.request": "50s", "storage.slow_sync": "30s", "proposals.max_pending": 65536}) as registry:
            self.prepare(registry)
            pending = registry.propose()
            approved = approval("a", registry.keys["a"], pending["payload_b3"])
            for queue, ask in (("proposals", lambda i: self.slow(registry, i)),
                               ("approvals", lambda i: self.post(registry, f"/registry/approvals/{pending['proposal_id']}", approved)),
                               ("commits", lambda i: self.post(registry, f"/registry/commit/{pending['proposal_id']}", {}))):
                with self.subTest(queue), contextlib.ExitStack() as stack:
                    self.weather.set(sync_delay_ms=600_000)
                    connections = [self.connect(registry, stack).send(self.slow(registry, "-" + queue))]
                    wire.poll(lambda: self.weather.get("syncing") > 0, "the committer waits for the disk")
                    def one_more():
                        for _ in range(50):
                            connections.append(self.connect(registry, stack).send(ask(len(connections))))
                        self.ledger.look(registry)
                        return self.ledger.moved[f'queue_dropped_total{{queue="{queue}"}}']
                    wire.poll(one_more, f"{queue} refuses one")
                    self.ledger.until(registry, f'queue_depth{{queue="{queue}"}}')
                    self.calm()
                    self.assertLessEqual({connection.read().status for connection in connections}, {200, 201, 202, 409, 429})

    def wait_with_a_chore(self):
        """What a checkpoint has to write waits behind proposals."""
        with self.server({"timeouts.request": "50s", "storage.slow_sync": "30s"}) as registry, registry.connect() as busy:
            self.prepare(registry)
            self.weather.set(sync_delay_ms=250)

            def one_more():
                registry.grow(1)
                busy.send(self.slow(registry, CHANCE.randrange(1 << 60)))
                self.ledger.look(registry)
                return self.ledger.moved['queue_depth{queue="chores"}']
            wire.poll(one_more, "a chore waits")


if __name__ == "__main__":
    unittest.main()
