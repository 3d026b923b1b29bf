"""No family of the gateway's own on /metrics stands still: each is moved here, by what it tells of."""

import os
import re
import threading
import unittest

import wire
from gateway_server import Gateway, Scripted
from storage_server import b3sum
from test_metrics import Ledger
from wire import request

OWN = re.compile(r"(gateway|drr|breaker)_\w+")


def whole(body=b"ok"):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class Own(unittest.TestCase):
    def setUp(self):
        self.ledger = Ledger()

    def serve(self, script, **settings):
        upstream = self.enterContext(Scripted(script))
        gateway = self.enterContext(Gateway({"server.shards": 1, **settings}, storage=upstream.address))
        self.ledger.look(gateway)
        return gateway, upstream

    def lie(self):
        body = os.urandom(1000)

        def script(line, _):
            line.sendall(whole(b"x" + body[1:]))
            return True
        gateway, _ = self.serve(script)
        for _ in range(3):
            with self.assertRaises((wire.Broken, ConnectionResetError)):
                gateway.ask_openly("GET", f"/o/{b3sum(body)[0]}")
        self.ledger.until(gateway, 'gateway_mismatches_total{target="storage"}')

    def die(self):
        gateway, upstream = self.serve(lambda line, _: line.sendall(whole()) or True)
        upstream.close()
        while gateway.ask_openly("GET", "/o/a").status != 503:
            pass
        self.ledger.until(gateway, 'gateway_upstream_failures_total{target="storage"}', 'gateway_retries_total{target="storage"}', "gateway_degraded")

    def wait(self):
        turns = threading.Semaphore(0)

        def script(line, _):
            turns.acquire(timeout=wire.PATIENCE)
            line.sendall(whole())
            return True
        gateway, upstream = self.serve(script, **{"pools.workers": 1, "pools.worker_slots": 1, "timeouts.request": "30s"})
        connections = [self.enterContext(gateway.connect()) for _ in range(4)]
        for connection in connections:
            connection.send(request("GET", "/o/a"))
        self.ledger.until(gateway, 'gateway_drr_queue_depth{tenant="other"}', 'queue_depth{queue="work"}')
        wire.poll(lambda: gateway.metric('queue_depth{queue="work"}') == 3, "three wait")
        turns.release()
        wire.poll(lambda: len(upstream.heads) == 2, "the second has its turn")
        self.ledger.until(gateway, 'drr_deficit{tenant="other"}')  # of its round, while the others wait
        turns.release(3)
        self.assertEqual([connection.read().status for connection in connections], [200] * 4)
        self.ledger.until(gateway, 'drr_served_units_total{tenant="other"}')

    def use_it_up(self):
        gateway, _ = self.serve(lambda line, _: line.sendall(whole()) or True, **{"quota.rps": 5})
        with gateway.connect() as connection:
            while connection.ask("GET", "/o/a").status != 429:
                pass
        self.ledger.until(gateway, 'gateway_quota_exhaustions_total{tenant="other"}')

    def test_no_family_of_the_gateway_s_own_stands_still(self):
        for step in (self.lie, self.die, self.wait, self.use_it_up):
            step()
        own = {name for name in self.ledger.names if OWN.fullmatch(name)}
        self.assertLessEqual({"breaker_state", "drr_deficit", "drr_served_units_total", "gateway_drr_queue_depth", "gateway_quota_exhaustions_total",
                              "gateway_degraded"}, own)
        self.assertEqual(own - self.ledger.names_moved(), set())


if __name__ == "__main__":
    unittest.main()
