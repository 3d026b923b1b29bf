"""A relay between a client and a server that counts what passes, and can be told to break or to lie."""

import socket
import threading


class Relay:
    """Listens on a port of its own. Forwards bytes both ways until a limit, which then cuts every connection."""

    def __init__(self, target):
        self.target = target
        self.lock = threading.Lock()
        self.up, self.down = 0, 0  # bytes so far
        self.up_limit, self.down_limit = None, None  # at which everything ends
        self.flip = None  # the down byte, counted over all connections, whose lowest bit is turned
        self.requests = []  # first lines of what looks like a request
        self.pairs = []
        self.changed = threading.Condition(self.lock)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    url = property(lambda self: "http://127.0.0.1:%d" % self.listener.getsockname()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            with self.lock:
                self.pairs.append((client, server))
            for one, other, name in ((client, server, "up"), (server, client, "down")):
                threading.Thread(target=self.carry, args=(one, other, name), daemon=True).start()

    def carry(self, one, other, name):
        try:
            while data := one.recv(1 << 16):
                allowed, broken = self.count(name, data)
                other.sendall(allowed)
                if broken:
                    self.cut()
                    return
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def count(self, name, data):
        with self.lock:
            before, limit = (self.up, self.up_limit) if name == "up" else (self.down, self.down_limit)
            broken = limit is not None and before + len(data) >= limit
            if broken:
                data = data[: max(0, limit - before)]
            if name == "up":
                self.up += len(data)
                for method in (b"GET ", b"HEAD ", b"PUT ", b"POST ", b"PATCH ", b"DELETE "):
                    if data.startswith(method):
                        self.requests.append(data.split(b"\r\n", 1)[0].decode(errors="replace"))
            else:
                if self.flip is not None and before <= self.flip < before + len(data):
                    data = bytearray(data)
                    data[self.flip - before] ^= 1
                self.down += len(data)
            self.changed.notify_all()
        return bytes(data), broken

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                end.close()

    def heal(self):
        with self.lock:
            self.up = self.down = 0
            self.up_limit = self.down_limit = self.flip = None
            self.requests = []

    def asked(self, beginning):
        with self.lock:
            return sum(1 for line in self.requests if line.startswith(beginning))

    def wait_for(self, happened, patience=30):
        with self.lock:
            return self.changed.wait_for(happened, patience)
