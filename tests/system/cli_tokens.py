"""Whom a verb tells the capability of a data directory: that directory's own daemon, and nobody else."""

import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import demo
import wire
from storage_server import Storage, b3sum, binary, cairn


class Thief:
    """Says that it is storage, refuses everything else, and remembers what it was told."""

    def __init__(self, port=0, host="127.0.0.1"):
        self.tokens, self.requests = [], []
        thief = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                thief.requests.append(self.requestline)
                if token := self.headers.get("Authorization"):
                    thief.tokens.append(token)
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                known = self.path == "/version"
                body = json.dumps({"service": "storage", "version": "1", "git": "x", "build": "release", "features": []} if known
                                  else {"error": {"code": "unauthorized", "message": "who are you?", "corr_id": "12345678"}}).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = answer

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self.server = Server((host, port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="cairn-tokens-")
        self.addCleanup(directory.cleanup)
        self.home = directory.name
        self.write("file", "what is put")

    def write(self, name, text):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def cairn(self, *arguments, code=0, environment=None):
        ended = cairn(*arguments, environment={"XDG_STATE_HOME": os.path.join(self.home, "state"), **(environment or {})}, cwd=self.home)
        self.assertEqual(ended.returncode, code, ended.stderr)
        return ended


class WithoutDaemon(Case):
    @classmethod
    def setUpClass(cls):
        cls.storage = cls.enterClassContext(Storage())
        cls.storage.kill()

    def test_who_has_taken_the_daemon_s_port_is_not_told_its_token(self):
        with Thief(self.storage.address[1]) as thief:
            for url in (f"http://127.0.0.1:{thief.port}", f"localhost:{thief.port}"):
                for verb in (["put", "file"], ["ls"], ["status"], ["rm", "b3:" + "0" * 64]):
                    ended = self.cairn(*verb, "--url", url, "--data", self.storage.data, code=8)
                    self.assertIn("CAIRN_CAP", ended.stderr)
                    self.assertIn(self.storage.data, ended.stderr)
            self.assertGreater(len(thief.requests), 8)
            self.assertEqual(thief.tokens, [])
            self.cairn("ls", "--url", url, "--data", self.storage.data, environment={"CAIRN_CAP": "for-you"}, code=8)
            self.assertEqual(set(thief.tokens), {"Bearer for-you"})

    def test_the_usual_data_directory_s_token_stays_at_home_too(self):
        os.symlink(self.storage.data, os.path.join(self.home, "cairn-data"))
        with Thief(self.storage.address[1]) as thief:
            self.cairn("put", "file", environment={"CAIRN_URL": f"http://127.0.0.1:{thief.port}"}, code=8)
            self.assertEqual((bool(thief.requests), thief.tokens), (True, []))

    def test_a_data_directory_that_is_named_and_has_no_daemon_is_said_to_have_none(self):
        for verb in (["put", "file"], ["ls"], ["health"], ["registry", "head"]):
            ended = self.cairn(*verb, "--data", self.storage.data, code=69)
            self.assertTrue(ended.stderr.startswith("error[unreachable]: no "), ended.stderr)
            self.assertIn(self.storage.data, ended.stderr.splitlines()[0])
            self.assertIn(f"--data {self.storage.data}", ended.stderr.splitlines()[-1])
        self.assertIn(self.storage.data, self.cairn("doctor", "--data", self.storage.data, code=1).stdout)

    def test_a_lock_file_that_nobody_holds_is_not_believed(self):
        with Thief() as thief:
            lock = os.path.join(self.storage.data, "storage.lock")
            with open(lock, "a") as file:
                file.write(f"listens 127.0.0.1:{thief.port}\n")
            self.cairn("ls", "--data", self.storage.data, code=69)
            self.assertEqual(thief.requests, [])


class WithDaemon(Case):
    def test_the_daemon_is_found_and_told_wherever_it_listens(self):
        with Storage() as storage:
            self.assertFalse(os.path.exists(os.path.join(storage.data, "cairn.sock")))
            ended = self.cairn("put", "-q", "file", "--data", storage.data)
            self.assertEqual(ended.stdout.strip(), b3sum(b"what is put")[0])
            for url in (storage.url, f"localhost:{storage.address[1]}"):
                self.cairn("status", "--url", url, "--data", storage.data)
            with Thief() as thief:
                self.cairn("ls", "--url", f"127.0.0.1:{thief.port}", "--data", storage.data, code=8)
                self.assertEqual((bool(thief.requests), thief.tokens), (True, []))
            if socket.has_ipv6:
                with contextlib.suppress(OSError), Thief(storage.address[1], "::1") as thief:
                    self.cairn("ls", "--url", f"[::1]:{thief.port}", "--data", storage.data, code=8)
                    self.assertEqual((bool(thief.requests), thief.tokens), (True, []))

    def test_every_address_of_the_machine_includes_loopback(self):
        arguments = [binary(), "storage", "--data", os.path.join(self.home, "data"), "--bind", "0.0.0.0:0", "--set", "safety.danger_ok=true"]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=demo.clean_environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        port = process.stdout.readline().strip().rsplit(":", 1)[1]
        self.cairn("status", "--data", "data")
        self.cairn("status", "--data", "data", "--url", f"127.0.0.1:{port}")

    def test_a_socket_elsewhere_is_its_own_as_well(self):
        socket_path = os.path.join(self.home, "private", "s")
        os.mkdir(os.path.dirname(socket_path), 0o700)
        with Storage({"uds.path": socket_path}) as storage:
            self.assertIn(socket_path, self.cairn("status", "--data", storage.data).stdout)
            self.cairn("status", "--data", storage.data, "--url", "unix:" + socket_path)

    def test_where_a_reload_has_moved_it(self):
        def port_of():
            with socket.create_server(("127.0.0.1", 0)) as probe:
                return probe.getsockname()[1]

        ports = [port_of(), port_of()]
        config = self.write("storage.toml", f'[server]\nbind = "127.0.0.1:{ports[0]}"\n')
        arguments = [binary(), "storage", "--data", os.path.join(self.home, "data"), "--config", config]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=demo.clean_environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        self.assertIn(f":{ports[0]}", self.cairn("status", "--data", "data").stdout)
        self.write("storage.toml", f'[server]\nbind = "127.0.0.1:{ports[1]}"\n')
        process.send_signal(signal.SIGHUP)
        end = time.monotonic() + wire.PATIENCE
        while f":{ports[1]}" not in cairn("status", "--data", "data", cwd=self.home).stdout:
            self.assertLess(time.monotonic(), end)
        with Thief(ports[0]) as thief:
            self.cairn("ls", "--data", "data", "--url", f"127.0.0.1:{ports[0]}", code=8)
            self.assertEqual((bool(thief.requests), thief.tokens), (True, []))

    def test_while_it_drains_its_port_is_nobody_s(self):
        with Storage({"timeouts.drain": "5s"}) as storage:
            with storage.connect() as connection:
                connection.send(b"POST /o HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\nAuthorization: Bearer %s\r\n\r\n12345"
                                % storage.token.encode())
                storage.process.send_signal(signal.SIGTERM)
                end = time.monotonic() + wire.PATIENCE
                while True:
                    try:
                        thief = Thief(storage.address[1])
                        break
                    except OSError:
                        self.assertLess(time.monotonic(), end)
                with thief:
                    self.cairn("ls", "--url", storage.url, "--data", storage.data, code=8)
                    self.cairn("ls", "--data", storage.data, code=69)
                    self.assertEqual((bool(thief.requests), thief.tokens), (True, []))
                connection.send(b"67890")
            storage.wait()


class Refused(Case):
    """What every file would be answered is asked for once."""

    def setUp(self):
        super().setUp()
        for i in range(60):
            self.write(f"many/{i}", f"file {i}")

    def errors(self, text):
        return [line for line in text.splitlines() if line.startswith("error[")]

    def test_a_put_of_a_directory_stops_at_a_refusal_that_will_repeat(self):
        with Thief() as thief:
            for arguments in (["many"], [f"many/{i}" for i in range(60)]):
                thief.requests.clear()
                ended = self.cairn("put", *arguments, "--url", f"127.0.0.1:{thief.port}", code=8)
                self.assertEqual(len(self.errors(ended.stderr)), 1, ended.stderr)
                self.assertIn("not tried", ended.stderr)
                self.assertLess(len(thief.requests), 40)

    def test_so_do_the_other_verbs_with_several_objects(self):
        with Thief() as thief:
            for verb in ("rm", "pin", "unpin", "stat", "cat"):
                ended = self.cairn(verb, *(f"b3:{i:064x}" for i in range(20)), "--url", f"127.0.0.1:{thief.port}", code=8)
                self.assertEqual(len(self.errors(ended.stderr)), 1, ended.stderr)

    def test_a_capability_for_some_objects_is_tried_for_each(self):
        with Storage() as storage:
            token = self.cairn("cap", "mint", "--data", storage.data, "--op", "storage.put", "--max-bytes", "10").stdout.strip()
            self.write("a", "much more than ten bytes")
            self.write("b", "few")
            self.write("c", "again more than ten bytes")
            ended = self.cairn("put", "-q", "a", "b", "c", "--url", storage.url, environment={"CAIRN_CAP": token}, code=2)
            self.assertEqual(ended.stdout.split(), b3sum(b"few"))
            self.assertEqual(len(self.errors(ended.stderr)), 2)
