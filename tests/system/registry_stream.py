"""The stream of heads: what subscribers are told, what slow ones miss, and that nobody waits for them."""

import base64
import json
import signal
import threading
import time
import unittest

import registry_verifier as verifier
import wire
from cli_shape import mismatch, schema_of
from registry_server import Registry, RegistryTest, Weather, region


class Stream:
    """A subscriber."""

    def __init__(self, registry, last=None, **options):
        self.connection = registry.connect(**options)
        fields = {} if last is None else {"Last_Event_ID": last}
        self.connection.send(wire.request("GET", "/registry/stream", **fields))
        self.opened, self.text, self.ended = None, b"", False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def open(self):
        if self.opened is None:
            status, _, fields = wire.parse_head(self.connection._head())
            self.opened = status, {name.lower(): value for name, value in fields}
        return self.opened

    def _chunk(self):
        size = int(self.connection._line(), 16)
        got = self.connection._take(size)
        if self.connection._take(2) != wire.CRLF:
            raise wire.Broken("chunk without its end")
        self.ended = size == 0
        self.text += got

    def event(self):
        """(event, id, data); None at the end of the stream."""
        self.open()
        while True:
            while b"\n\n" not in self.text:
                if self.ended:
                    return None
                self._chunk()
            block, self.text = self.text.split(b"\n\n", 1)
            fields = [line.split(b": ", 1) for line in block.split(b"\n") if not line.startswith(b":")]
            if fields:
                found = {name.decode(): value.decode() for name, value in fields}
                if set(found) != {"event", "id", "data"}:
                    raise wire.Broken(f"not an event: {block!r}")
                data = json.loads(found["data"])
                if problem := mismatch(schema_of(f"http-event-{found['event']}"), data):
                    raise wire.Broken(f"not what the reference says of {found['event']}: {problem}")
                return found["event"], int(found["id"]), data

    def told(self):
        """The next event without what the stream adds to a head."""
        event, version, data = self.event()
        return event, version, {name: value for name, value in data.items() if name not in ("prev", "size", "root")}

    def until(self, version):
        """Every event up to the one that tells of a version."""
        seen = []
        while not seen or seen[-1][1] < version:
            seen.append(self.event())
            if seen[-1] is None:
                raise AssertionError(f"the stream ended: {seen[-3:]}")
        return seen


class Told(RegistryTest):
    def test_a_newcomer_is_told_the_head_and_then_every_commit(self):
        with Stream(self.registry) as stream:
            status, fields = stream.open()
            self.assertEqual((status, fields["content-type"].split(";")[0]), (200, "text/event-stream"))
            self.assertIn("no-", fields["cache-control"])
            head = self.registry.head()
            self.assertEqual(stream.told(), ("head", head["version"], head))
            for i in range(5):
                head = self.registry.change(self.registry.next_items(region("told", title=str(i))))
                self.assertEqual(stream.told(), ("head", head["version"], head))

    def test_what_was_seen_last_is_where_it_goes_on(self):
        first = self.registry.head()["version"]
        heads = [self.registry.change(self.registry.next_items(region("resume", title=str(i)))) for i in range(6)]
        with Stream(self.registry, last=first + 2) as stream:
            for head in heads[2:]:
                self.assertEqual(stream.told(), ("head", head["version"], head))
            more = self.registry.change(self.registry.next_items(region("resume", title="more")))
            self.assertEqual(stream.told(), ("head", more["version"], more))
        with Stream(self.registry, last=more["version"]) as stream:
            self.registry.change(self.registry.next_items(region("resume", title="last")))
            self.assertEqual(stream.event()[1], more["version"] + 1)

    def test_a_stream_that_has_nothing_to_tell_begins_all_the_same(self):
        """A browser calls its page connected when the head of the answer is there."""
        with Stream(self.registry, last=self.registry.head()["version"]) as stream:
            stream.connection.socket.settimeout(10)  # a heartbeat comes after 15 s
            try:
                self.assertEqual(stream.open()[0], 200)
            except TimeoutError:
                self.fail("no head of an answer after 10 s")

    def test_a_head_carries_what_it_follows_and_the_tree_it_ends(self):
        first = self.registry.head()
        with Stream(self.registry) as stream:
            seen = [stream.event()[2]]
            for i in range(4):
                self.registry.change(self.registry.next_items(region("follows", title=str(i))))
                seen.append(stream.event()[2])
        self.assertEqual(seen[0]["commit_b3"], first["commit_b3"])
        for before, after in zip(seen, seen[1:]):
            self.assertEqual((after["prev"], after["size"]), (before["commit_b3"], before["size"] + 1))
        proof = self.registry.get(f"/registry/proof/consistency?from={seen[0]['size']}&to={seen[-1]['size']}")
        roots = [base64.b64decode(one["root"]) for one in (seen[0], seen[-1])]
        verifier.verify_consistency(seen[0]["size"], roots[0], seen[-1]["size"], roots[1], [base64.b64decode(one) for one in proof["hashes"]])
        self.assertEqual(self.registry.covered(), (seen[-1]["size"], roots[-1]))

    def test_whoever_has_seen_more_than_there_is_is_told_so(self):
        head = self.registry.head()
        with Stream(self.registry, last=head["version"] + 100) as stream:
            event, version, data = stream.event()
            self.assertEqual((event, version, data["last"], data["head"]["commit_b3"]),
                             ("rollback", head["version"], head["version"] + 100, head["commit_b3"]))
            more = self.registry.change(self.registry.next_items(region("after", title="a rollback")))
            self.assertEqual(stream.told(), ("head", more["version"], more))

    def test_a_bad_id_is_400(self):
        for value in ("x", "-1", "01", "1.5", "18446744073709551616"):
            self.assert_error(self.registry.ask_openly("GET", "/registry/stream", Last_Event_ID=value), 400, "malformed")

    def test_many_subscribers_see_the_same(self):
        streams = [Stream(self.registry) for _ in range(40)]
        try:
            for stream in streams:
                stream.event()
            heads = [self.registry.change(self.registry.next_items(region("many", title=str(i)))) for i in range(5)]
            for stream in streams:
                self.assertEqual([stream.told() for _ in heads], [("head", head["version"], head) for head in heads])
        finally:
            for stream in streams:
                stream.connection.close()

    def test_streams_are_connections_and_not_in_flight(self):
        with Registry({"server.max_inflight": 2}) as small:
            streams = [Stream(small) for _ in range(8)]
            for stream in streams:
                stream.event()
            head = small.change([*small.items(), region("x")])
            for stream in streams:
                self.assertEqual(stream.told()[2], head)
                stream.connection.close()

    def test_a_subscriber_gone_is_forgotten(self):
        for _ in range(20):
            with Stream(self.registry) as stream:
                stream.event()
        self.registry.change(self.registry.next_items(region("gone")))
        self.assertTrue(self.registry.alive())


class Slow(unittest.TestCase):
    """With small buffers, so that a subscriber is behind after kilobytes."""

    def setUp(self):
        self.weather = self.enterContext(Weather())
        self.weather.set(send_buffer=4096)

    def start(self, settings):
        return self.enterContext(Registry(settings, environment=self.weather.environment))

    def test_a_subscriber_that_never_reads_does_not_stop_commits(self):
        registry = self.start({"bus.channel_bound": 4, "timeouts.write": "2s"})
        with Stream(registry, receive_buffer=2048) as deaf:
            deaf.open()
            head = registry.grow(150)
            self.assertEqual(head["version"], 150)
            with Stream(registry, last=0) as good:
                self.assertEqual(good.until(150)[-1][1], 150)
            wire.poll(lambda: sum(value for name, value in registry.metrics().items() if name.startswith("bus_lagged_total") and "connection" in name) > 0,
                      "the lag is counted", 10)

    def test_a_slow_reader_gets_everything_or_is_told_what_it_missed(self):
        registry = self.start({"bus.channel_bound": 4, "timeouts.write": "20s"})
        with Stream(registry, receive_buffer=2048) as stream:
            stream.open()
            registry.grow(150)
            events = stream.until(150)
            head = registry.change(registry.next_items(region("then")))
            events += stream.until(151)
            self.assertEqual((*events[-1][:2], events[-1][2]["commit_b3"]), ("head", 151, head["commit_b3"]))
        # Either it gets everything, or a gap is told with its size; never a gap that is not told, nor one that is not there.
        at = events[0][1]
        for kind, version, data in events[1:]:
            if kind == "head":
                self.assertEqual((version, data["version"]), (at + 1, version), "a gap that nobody told")
            else:
                self.assertEqual((kind, set(data), data["head"]["version"]), ("lagged", {"missed", "head"}, version))
                self.assertGreater(version, at, f"told of {data['missed']} that were missed when none was")
                self.assertIn(data["missed"], (version - at, version - at - 1), f"after {at}, at {version}")
            at = version

    def test_one_that_does_not_take_anything_is_cut_by_the_write_timeout(self):
        registry = self.start({"timeouts.write": "500ms"})
        with Stream(registry, receive_buffer=2048) as stream:
            stream.open()
            registry.grow(150)
            wire.poll(lambda: registry.metric('io_timeouts_total{op="write"}') > 0, "it is cut", 10)
        registry.change(registry.next_items(region("on")))


class Behind(unittest.TestCase):
    def test_whoever_resumes_far_behind_gets_all_of_it_or_is_told(self):
        with Registry() as registry:
            registry.grow(1100)
            with Stream(registry, last=0) as stream:
                events = stream.until(1100)
            # A shard tells what it was told: the last versions may reach it after the stream began.
            told = 0
            if events[0][0] == "lagged":
                lag = events.pop(0)[2]
                told = lag["head"]["version"]
                self.assertEqual(lag["missed"], told)
                self.assertGreater(told, 1024)
                with Stream(registry, last=told - 1) as again:
                    self.assertEqual(again.event(), ("head", told, lag["head"]))
            self.assertEqual([one[:2] for one in events], [("head", version) for version in range(told + 1, 1101)])
            with Stream(registry, last=500) as stream:
                self.assertEqual([one[1] for one in stream.until(1100)], list(range(501, 1101)))


class Ends(unittest.TestCase):
    def test_drain_with_open_streams_and_polls_exits_0(self):
        with Registry() as registry:
            streams = [Stream(registry) for _ in range(20)]
            for stream in streams:
                stream.event()
            polls = [registry.connect() for _ in range(5)]
            for poll in polls:
                poll.send(wire.request("GET", "/registry/head?after=0&wait=50s"))
            wire.poll(lambda: registry.metric('tasks_spawned_total{kind="connection"}') >= 25, "all are connected")
            began = time.monotonic()
            registry.process.send_signal(signal.SIGTERM)
            for stream in streams:
                try:
                    self.assertIsNone(stream.event())
                except wire.Broken:
                    self.fail("the stream was not ended but cut")
                stream.connection.close()
            for poll in polls:
                answer = poll.read()
                self.assertIn(answer.status, (200, 503))
                poll.close()
            self.assertEqual(registry.wait(), 0)
            self.assertLess(time.monotonic() - began, 20)

    def test_a_commit_under_way_when_the_end_begins_is_finished_and_told(self):
        with Weather() as weather, Registry({"storage.slow_sync": "10s"}, environment=weather.environment) as registry:
            one = registry.approve_all(registry.propose())
            weather.set(sync_delay_ms=60000)
            answers = []
            thread = threading.Thread(target=lambda: answers.append(registry.commit(one)), daemon=True)
            thread.start()
            wire.poll(lambda: weather.get("syncing") > 0, "it is being written")
            registry.process.send_signal(signal.SIGTERM)
            wire.poll(lambda: "draining" in registry.log(), "the end has begun")
            weather.set(sync_delay_ms=0)
            thread.join(wire.PATIENCE)
            self.assertEqual(answers[0].status, 201)
            self.assertEqual(registry.wait(), 0)
            registry.start()
            self.assertEqual(registry.head(), answers[0].json())

    def test_sigint_drains_too(self):
        with Registry() as registry:
            registry.process.send_signal(signal.SIGINT)
            self.assertEqual(registry.wait(), 0)
            registry.start()


if __name__ == "__main__":
    unittest.main()
