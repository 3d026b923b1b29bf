"""cairn-demo as a process of its own: started on port 0, ended by its process id, whatever happens."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import wire

BUILD = "build/release"  # set by the runner
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: .*)?')

# No limit of these gets into the way of a test that is about something else.
ROOMY = {"server.shards": 2, "safety.danger_ok": "true", "server.max_rps": 1000000, "server.max_conns_per_ip": 1024}


def binary():
    return os.path.join(BUILD, "cairn-demo")


def run(*arguments, environment=None, patience=wire.PATIENCE):
    """Runs a verb that ends by itself."""
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=patience,
                          env=clean_environment(environment))


def clean_environment(extra=None):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CAIRN_")}
    return {**kept, **(extra or {})}


class Demo:
    def __init__(self, settings=None, config=None, roomy=True, bind="127.0.0.1:0", environment=None, inherited=()):
        self.directory = tempfile.mkdtemp(prefix="cairn-system-")
        self.process = None
        self.code = None
        arguments = [binary(), "serve"]
        if bind:
            arguments += ["--bind", bind]
        if inherited:  # the configuration comes through the first of these descriptors
            arguments += ["--config", f"/dev/fd/{inherited[0]}"]
        elif config is not None:
            self.write_config(config)
            arguments += ["--config", self.config_path]
        given = {**(ROOMY if roomy else {"server.shards": 2}), "server.names": "demo", **(settings or {})}
        for key, value in given.items():
            arguments += ["--set", f"{key}={value}"]
        try:
            with open(self.log_path, "wb") as log:
                self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, env=clean_environment(environment),
                                                pass_fds=inherited)
            line = self.process.stdout.readline().decode()
            match = re.fullmatch(r"cairn-demo serves http://([0-9.]+):([0-9]+)/\n", line)
            if not match:
                raise AssertionError(f"did not start: {line!r} {self.log()!r}")
            self.address = (match[1], int(match[2]))
        except BaseException:
            self.end()
            raise

    config_path = property(lambda self: os.path.join(self.directory, "demo.toml"))
    log_path = property(lambda self: os.path.join(self.directory, "log"))
    pid = property(lambda self: self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.process.poll() is None:
                code = self.stop()
                if code != 0:
                    raise AssertionError(f"exit code {code} at the end: {self.log()[-2000:]}")
            elif kind is None and self.code is None:
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
        shutil.rmtree(self.directory, ignore_errors=True)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        self.code = self.process.wait(wire.PATIENCE)
        return self.code

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def alive(self):
        return self.process.poll() is None

    def log(self):
        with open(self.log_path, "rb") as log:
            return log.read().decode(errors="replace")

    def write_config(self, text):
        with open(self.config_path, "w") as file:
            file.write(text)

    def reload(self, text):
        """Writes the file, signals, and waits until the reload was counted. Gives its result."""
        before = self.reloads()
        self.write_config(text)
        self.signal(signal.SIGHUP)
        changed = lambda: [result for result, count in self.reloads().items() if count != before[result]]
        return wire.poll(changed, "a reload is counted")[0]

    def reloads(self):
        samples = self.metrics()
        return {result: samples[f'config_reload_total{{result="{result}"}}'] for result in ("applied", "unchanged", "rejected")}

    def connect(self, **options):
        return wire.Connection(self.address, **options)

    def ask(self, method, target, body=None, **fields):
        with self.connect() as connection:
            return connection.ask(method, target, body, **fields)

    def metrics(self):
        samples = {}
        for line in self.ask("GET", "/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                match = SAMPLE.fullmatch(line)
                if not match:
                    raise AssertionError(f"not a sample: {line!r}")
                samples[match[1] + (f"{{{match[2]}}}" if match[2] else "")] = float(match[3])
        return samples

    def metric(self, name):
        return self.metrics().get(name, 0.0)

    def memory(self, what):
        with open(f"/proc/{self.pid}/status") as status:
            return int(re.search(rf"{what}:\s+(\d+) kB", status.read())[1]) * 1024


class DemoTest(unittest.TestCase):
    """Tests that share one server, which must still live, and drain cleanly, after all of them."""

    settings = {}
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.files = tempfile.mkdtemp(prefix="cairn-files-")
        cls.addClassCleanup(shutil.rmtree, cls.files, True)
        cls.fill(cls.files)
        cls.demo = cls.enterClassContext(Demo({"demo.files": cls.files, **cls.settings}))

    @classmethod
    def fill(cls, directory):
        """Puts files there before the server starts."""

    def setUp(self):
        if not self.demo.alive():
            self.fail(f"the server is gone ({self.demo.process.returncode}): {self.demo.log()[-1000:]}")

    def tearDown(self):
        if not self.demo.alive():
            self.fail(f"the server died in this test ({self.demo.process.returncode}): {self.demo.log()[-1000:]}")

    def connect(self, **options):
        connection = self.demo.connect(**options)
        self.addCleanup(connection.close)
        return connection

    def assert_error(self, answer, status, code):
        self.assertEqual((answer.status, answer.error()["code"]), (status, code), answer)
