"""`cairn storage` as a process of its own: a data directory that outlives it, port 0, an end whatever happens."""

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import demo
import wire

MIB = 1 << 20
PART, GROUP, CHUNK = MIB, 1 << 16, 1 << 10

# No limit of these gets into the way of a test that is about something else.
ROOMY = {"server.shards": 2, "safety.danger_ok": "true", "server.max_rps": 1000000, "server.max_conns_per_ip": 1024,
         "server.max_inflight": 4096, "server.memory_bytes": "4GiB"}


def binary():
    return os.path.join(demo.BUILD, "cairn")


def cairn(*arguments, environment=None, patience=120, **options):
    """Runs a verb that ends by itself."""
    options = {"capture_output": True, "text": True, **options}
    return subprocess.run([binary(), *arguments], timeout=patience, env=demo.clean_environment(environment), **options)


def b3sum(*contents):
    """The addresses of some bytes, by a program that shares no line with the server."""
    with tempfile.TemporaryDirectory(prefix="cairn-b3sum-") as directory:
        paths = [os.path.join(directory, str(i)) for i in range(len(contents))]
        for path, content in zip(paths, contents):
            with open(path, "wb") as file:
                file.write(content)
        found = []
        for i in range(0, len(paths), 500):
            ended = subprocess.run(["b3sum", "--no-names", *paths[i:i + 500]], capture_output=True, text=True, check=True)
            found += ["b3:" + line for line in ended.stdout.split()]
    return found


def open_files(pid):
    """What a process has open: where it leads and what it is. A file that is closed meanwhile is not open."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        with contextlib.suppress(FileNotFoundError):
            found.append((os.readlink(path), os.stat(path)))
    return found


class Connection(wire.Connection):
    """For bodies of many megabytes."""

    def _take(self, count):
        if len(self.buffer) >= count:
            return super()._take(count)
        taken = bytearray(count)
        at = len(self.buffer)
        taken[:at], self.buffer = self.buffer, b""
        view = memoryview(taken)
        while at < count:
            got = self.socket.recv_into(view[at:])
            if got == 0:
                raise wire.Broken(f"{at} of {count} bytes, then the end")
            at += got
        return bytes(taken)


class Storage:
    """A server over a data directory. `start` and `stop` as often as wanted; the directory goes at the end."""

    def __init__(self, settings=None, directory=None, roomy=True, started=True, arguments=(), environment=None):
        self.home = tempfile.mkdtemp(prefix="cairn-storage-")
        self.data = directory or os.path.join(self.home, "data")
        self.settings = {**(ROOMY if roomy else {"server.shards": 2}), **(settings or {})}
        self.arguments = arguments
        self.environment = environment
        self.bind = "127.0.0.1:0"
        self.process, self.code, self.address, self.token = None, None, None, None
        if started:
            try:
                self.start()
            except BaseException:
                self.end()
                raise

    log_path = property(lambda self: os.path.join(self.home, "log"))
    pid = property(lambda self: self.process.pid)
    url = property(lambda self: f"http://{self.address[0]}:{self.address[1]}")
    segments = property(lambda self: os.path.join(self.data, "storage", "segments"))

    def spawn(self):
        """Starts the process and does not wait for it."""
        arguments = [binary(), "storage", "--data", self.data, "--bind", self.bind, *self.arguments]
        for key, value in self.settings.items():
            arguments += ["--set", f"{key}={value}"]
        self.code = None
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                                            env=demo.clean_environment(self.environment))
        return self

    def line(self):
        """The next one on its stdout; nothing when it ended or says nothing."""
        ready, _, _ = select.select([self.process.stdout], [], [], wire.PATIENCE)
        return self.process.stdout.readline().decode() if ready else ""

    def await_ready(self):
        line = self.line()
        match = re.fullmatch(r"storage +http://([0-9.]+):([0-9]+)\n", line)
        if not match:
            self.process.kill()
            raise AssertionError(f"did not start ({self.process.wait()}): {line!r} {self.log()[-2000:]}")
        self.address = (match[1], int(match[2]))
        if self.settings.get("amnesia.enabled") == "true":
            said = self.line()
            if not said.startswith("CAIRN_CAP="):
                raise AssertionError(f"no token with amnesia: {said!r}")
            self.token = said.strip().removeprefix("CAIRN_CAP=")
        else:
            with open(os.path.join(self.data, "keys", "admin.cap")) as file:
                self.token = file.read().strip()
        return self

    def start(self):
        return self.spawn().await_ready()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.process is not None and self.process.poll() is None:
                code = self.stop()
                if code != 0:
                    raise AssertionError(f"exit code {code} at the end: {self.log()[-2000:]}")
            elif kind is None and self.process is not None and self.code is None:
                raise AssertionError(f"ended by itself with {self.process.returncode}: {self.log()[-2000:]}")
        finally:
            self.end()

    def end(self):
        """Leaves nothing behind."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def wait(self):
        self.code = self.process.wait(wire.PATIENCE)
        self.process.stdout.close()
        return self.code

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        self.process.kill()
        return self.wait()

    def restart(self):
        code = self.stop()
        if code != 0:
            raise AssertionError(f"exit code {code}: {self.log()[-2000:]}")
        return self.start()

    def alive(self):
        return self.process.poll() is None

    def log(self):
        with open(self.log_path, "rb") as log:
            return log.read().decode(errors="replace")

    def connect(self, **options):
        return Connection(self.address, **options)

    def bearer(self, token=None):
        return {"Authorization": f"Bearer {token or self.token}"}

    def ask(self, method, target, body=None, **fields):
        """As the administrator, on a connection of its own."""
        if "Authorization" not in fields:
            fields.update(self.bearer())
        with self.connect() as connection:
            return connection.ask(method, target, body, **fields)

    def ask_openly(self, method, target, body=None, **fields):
        """Without a token."""
        with self.connect() as connection:
            return connection.ask(method, target, body, **fields)

    def post(self, body, **fields):
        answer = self.ask("POST", "/o", body, **fields)
        if answer.status not in (200, 201):
            raise AssertionError(f"POST /o: {answer}")
        return answer.json()["address"]

    def upload(self, content, order=None, commit=None):
        """Through an upload, parts in the order of `order`. The answer to the commit."""
        connection = self.connect()
        with connection:
            begun = connection.ask("POST", "/uploads", b'{"size":%d}' % len(content), **self.bearer())
            if begun.status != 201:
                raise AssertionError(f"POST /uploads: {begun}")
            target = f"/uploads/{begun.json()['id']}"
            for index in order if order is not None else range(-(-len(content) // PART)):
                part = content[index * PART:(index + 1) * PART]
                answer = connection.ask("PATCH", target, part, Upload_Offset=index * PART, **self.bearer())
                if answer.status != 204:
                    raise AssertionError(f"PATCH {index}: {answer}")
            return connection.ask("POST", f"{target}/commit", commit or b"", **self.bearer())

    def status(self):
        return self.ask("GET", "/admin/status").json()

    def metrics(self):
        samples = {}
        for line in self.ask_openly("GET", "/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def metric(self, name):
        samples = self.metrics()
        if name not in samples:
            raise AssertionError(f"no metric {name}")
        return samples[name]

    def resident(self):
        """The memory it has, in bytes: what is mapped, and what its memory files hold whether mapped or not."""
        held = sum(about.st_blocks * 512 for target, about in open_files(self.pid) if target.startswith("/memfd:"))
        with open(f"/proc/{self.pid}/smaps_rollup") as file:
            rss = int(re.search(r"^Rss:\s+(\d+) kB", file.read(), re.M)[1]) * 1024
        with open(f"/proc/{self.pid}/status") as file:
            shared = int(re.search(r"^RssShmem:\s+(\d+) kB", file.read(), re.M)[1]) * 1024
        return rss - shared + max(held, shared)


class StorageTest(unittest.TestCase):
    """Tests that share one server, which must still live, and drain cleanly, after all of them."""

    settings = {}
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.storage = cls.enterClassContext(Storage(cls.settings))

    def setUp(self):
        if not self.storage.alive():
            self.fail(f"the server is gone ({self.storage.process.returncode}): {self.storage.log()[-1000:]}")

    tearDown = setUp

    def assert_error(self, answer, status, code):
        self.assertEqual((answer.status, answer.error()["code"]), (status, code), answer)


def flip(path, offset, bit=0):
    """One bit of a file, behind everybody's back."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))


def find_in_files(directory, needle):
    """[(path, offset)] of every place where some bytes are."""
    found = []
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if not name.endswith(".seg"):
            continue
        with open(path, "rb") as file:
            content = file.read()
        at = content.find(needle)
        while at >= 0:
            found.append((path, at))
            at = content.find(needle, at + 1)
    return found


def free_port_base():
    """A base such that base, base+10, … base+40 were free a moment ago."""
    for _ in range(100):
        held = []
        try:
            first = socket.socket()
            held.append(first)
            first.bind(("127.0.0.1", 0))
            base = first.getsockname()[1]
            if base > 65000:
                continue
            for offset in (10, 20, 30, 40):
                more = socket.socket()
                held.append(more)
                more.bind(("127.0.0.1", base + offset))
            return base
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    raise AssertionError("no free ports")
