#!/usr/bin/env python3
"""One address asks for all that it can get; what another one's requests take meanwhile, against quiet.

    python3 tests/system/flood.py --build build/release [--requests N] [--rounds N] [KIND ...]

Reports and judges nothing: that the other one is served is asserted by test_shares.
"""

import argparse
import contextlib
import multiprocessing
import os
import random
import select
import socket
import statistics
import sys
import time

import demo
import wire
from storage_server import MIB, PART, Connection, Storage, cairn
from wire import head, request

FLOOD, OTHER = "127.0.0.2", "127.0.0.3"
LINK = 125_000_000  # bytes a second: what one client on another machine has, 1 Gbit/s
GONE = (wire.Broken, OSError)


def connect(address, source, kind=wire.Connection):
    connection = kind.__new__(kind)
    connection.socket = socket.create_connection(address, wire.PATIENCE, source_address=(source, 0))
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.buffer = b""
    return connection


class Link:
    """Lets pass what a link does. Loopback has none: it carries what the cores can, which are the server's own."""

    rate = None

    @classmethod
    def carry(cls, size):
        if cls.rate is not None:
            time.sleep(size / cls.rate)


def hold(address, count, begin, trickle):
    """So many connections at all times: each begins in one way and goes on a byte at a time; who is cut comes again."""
    held = []
    while True:
        while len(held) < count:
            try:
                connection = connect(address, FLOOD)
                connection.socket.setblocking(False)
                held.append(connection.socket)
                with contextlib.suppress(BlockingIOError):
                    Link.carry(connection.socket.send(begin))
            except GONE:
                break
        readable, _, _ = select.select([one for one in held if one.fileno() < 1024], [], [], 0.05)
        for one in readable:
            with contextlib.suppress(OSError):
                if one.recv(1 << 16):
                    continue
            held.remove(one)
            one.close()
        for one in held:
            with contextlib.suppress(OSError):
                one.send(trickle)


def connections(address, token, found):
    """More than its cap, silent ones, again and again."""
    held = []
    while True:
        with contextlib.suppress(OSError):
            held.append(connect(address, FLOOD))
        if len(held) > 400:
            held.pop(random.randrange(len(held))).close()


def heads(address, token, found):
    hold(address, 250, b"GET /o HTTP/1.1\r\nHost: localhost\r\nX-Long: ", b"x")


def bodies(address, token, found):
    """Almost whole, so that they hold memory; the end comes slowly."""
    begin = head("POST /o HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", f"Content-Length: {MIB}")
    hold(address, 250, begin + bytes(MIB - 5000), b"x" * 100)


def requests(address, token, found):
    asked = request("GET", f"/o/{found}") * 50
    while True:
        with contextlib.suppress(*GONE), connect(address, FLOOD) as connection:
            while True:
                connection.send(asked)
                for _ in range(50):
                    connection.read()


def uploads(address, token, found):
    """Begun and filled, never ended."""
    part = os.urandom(PART)
    while True:
        with contextlib.suppress(*GONE), connect(address, FLOOD) as connection:
            while True:
                begun = connection.ask("POST", "/uploads", b'{"size":%d}' % (4 * PART), Authorization=f"Bearer {token}")
                if begun.status == 201:
                    Link.carry(PART)
                    connection.ask("PATCH", f"/uploads/{begun.json()['id']}", part, Upload_Offset=0, Authorization=f"Bearer {token}")


KINDS = {"connections": (connections,), "heads": (heads,), "bodies": (bodies,), "requests": (requests,) * 3, "uploads": (uploads,) * 3}
FLOODS = {**{kind: (kind,) for kind in KINDS}, "all": tuple(KINDS)}


class Away:
    """The core that stands for the other machine. A process that floods would otherwise keep the server from its core for as
    long as one of its system calls takes, whatever its priority."""

    core = None

    @classmethod
    def split(cls):
        """From now on this process, and whatever it starts, has the other cores."""
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            cls.core = cores.pop()
            os.sched_setaffinity(0, cores)


def run_away(run, *arguments):
    if Away.core is not None:
        os.sched_setaffinity(0, {Away.core})
    os.nice(19)
    Link.rate = LINK
    run(*arguments)


class Flood:
    """Processes of their own, so that they take nothing from who measures. `away`: they stand for another machine, which takes
    no core from the server and has a link to it."""

    def __init__(self, storage, kinds, token, found, away=False):
        asked = (storage.address, token, found)
        self.processes = [multiprocessing.get_context("fork").Process(target=run_away if away else run, daemon=True,
                                                                      args=(run, *asked) if away else asked)
                          for kind in kinds for run in KINDS[kind]]

    def __enter__(self):
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()


class Other:
    """A client that does a bit of everything, each request with its status and time."""

    def __init__(self, storage, token, found):
        self.storage, self.fields, self.found = storage, {"Authorization": f"Bearer {token}"}, found
        self.statuses, self.times = [], []

    def ask(self, connection, method, target, body=None, **fields):
        began = time.monotonic()
        try:
            answer = connection.ask(method, target, body, **fields, **self.fields)
            self.statuses.append(answer.status)
        except GONE as problem:
            answer = None
            self.statuses.append(repr(problem))
        self.times.append(time.monotonic() - began)
        return answer

    def turn(self):
        """Ten requests over a connection of its own."""
        with connect(self.storage.address, OTHER, Connection) as connection:
            for _ in range(4):
                self.ask(connection, "GET", f"/o/{self.found}")
            self.ask(connection, "GET", "/o?limit=5")
            self.ask(connection, "POST", "/o", os.urandom(1000))
            self.ask(connection, "POST", "/o", os.urandom(MIB // 2))
            begun = self.ask(connection, "POST", "/uploads", b'{"size":1000}')
            if begun is not None and begun.status == 201:
                target = f"/uploads/{begun.json()['id']}"
                self.ask(connection, "PATCH", target, os.urandom(1000), Upload_Offset=0)
                self.ask(connection, "POST", f"{target}/commit", b"")

    def served(self):
        """The part of the requests that were answered 2xx."""
        return sum(isinstance(status, int) and 200 <= status < 300 for status in self.statuses) / len(self.statuses)

    def p99(self):
        return sorted(self.times)[int(0.99 * (len(self.times) - 1))]


def mint(storage, *operations):
    made = cairn("cap", "mint", "--data", storage.data, "--op", ",".join(operations))
    if made.returncode != 0:
        raise AssertionError(made)
    return made.stdout.strip()


def tokens(storage):
    """One for the flood, one for the other."""
    return [mint(storage, "storage.put", "storage.get", "storage.list") for _ in range(2)]


def pace(turn):
    """At most ten turns a second: well within the other's share of the rate."""
    until = time.monotonic() + 0.1
    turn()
    time.sleep(max(0, until - time.monotonic()))


def measure(kinds, requests):
    """What the other one met under a flood of these kinds, or of none."""
    with Storage(roomy=False) as storage:
        found = storage.post(os.urandom(10_000))
        of_flood, of_other = tokens(storage)
        with Flood(storage, kinds, of_flood, found, away=True):
            warm, other = Other(storage, of_other, found), Other(storage, of_other, found)
            for _ in range(20):
                pace(warm.turn)
            while len(other.statuses) < requests:
                pace(other.turn)
    return other


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(FLOODS)}; none: each of them")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--requests", type=int, default=1000, help="of the other, in each case")
    parser.add_argument("--rounds", type=int, default=3, help="each of them quiet and then under the flood")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(FLOODS):
        parser.error(f"no such flood: {', '.join(sorted(unknown))}")
    demo.BUILD = os.path.abspath(options.build)
    Away.split()
    print(f"{'flood':<12} {'served':>8} {'quiet ms':>9} {'p99 ms':>8} {'of quiet':>9}")
    for name in options.kinds or FLOODS:
        # What else runs on the machine comes and goes: a flood is held against the quiet just before it.
        pairs = [(measure((), options.requests), measure(FLOODS[name], options.requests)) for _ in range(options.rounds)]
        served = min(flooded.served() for _, flooded in pairs)
        quiet, p99, ratio = (statistics.median(each) for each in zip(*(
            (quiet.p99() * 1000, flooded.p99() * 1000, flooded.p99() / quiet.p99()) for quiet, flooded in pairs)))
        print(f"{name:<12} {served:>8.2%} {quiet:>9.2f} {p99:>8.2f} {ratio:>8.1f}x", flush=True)
    print("medians of the rounds. p99 under a flood against quiet: the goal is 2x, on a machine with cores to spare")


if __name__ == "__main__":
    sys.exit(main())
