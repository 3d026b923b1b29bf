"""A browser shows it. Runs where chromium is installed."""

import contextlib
import hashlib
import os
import shutil
import signal
import sqlite3
import ssl
import subprocess
import tempfile
import unittest

import demo
import wire
from demo import DemoTest
from storage_server import binary, free_port_base

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


def trust(profile, authority):
    """Makes an authority one that this profile believes for web sites, as a person does in its settings."""
    with open(authority) as file:
        certificate = ssl.PEM_cert_to_DER_cert(file.read())
    os.makedirs(os.path.join(profile, "Default"))
    with contextlib.closing(sqlite3.connect(os.path.join(profile, "Default", "ServerCertificate"))) as known:
        known.executescript("""
            CREATE TABLE meta(key LONGVARCHAR NOT NULL UNIQUE PRIMARY KEY, value LONGVARCHAR);
            INSERT INTO meta VALUES ('mmap_status', '-1'), ('version', '1'), ('last_compatible_version', '1');
            CREATE TABLE certificates(sha256hash_hex TEXT PRIMARY KEY,der_cert BLOB NOT NULL,trust_settings BLOB NOT NULL);""")
        trusted = bytes([0x0a, 2, 0x08, 3])  # a message whose field 1 has the field 1: trusted
        known.execute("INSERT INTO certificates VALUES (?, ?, ?)", (hashlib.sha256(certificate).hexdigest(), certificate, trusted))
        known.commit()


def browse(url, authority=None):
    with tempfile.TemporaryDirectory(prefix="cairn-browser-", ignore_cleanup_errors=True) as profile:
        if authority is not None:
            trust(profile, authority)
        return subprocess.run(["chromium", *FLAGS, f"--user-data-dir={profile}", "--dump-dom", url], capture_output=True, text=True,
                              timeout=wire.PATIENCE * 4)


@unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
class Browser(DemoTest):
    def show(self, path):
        result = browse(f"http://127.0.0.1:{self.demo.address[1]}{path}")
        self.assertEqual(result.returncode, 0, result.stderr[-2000:])
        return result.stdout

    def test_health(self):
        self.assertIn("ok", self.show("/healthz"))

    def test_json(self):
        self.assertIn('"service"', self.show("/version"))

    def test_stream(self):
        self.assertIn("." * 2048, self.show("/stream/2"))

    def test_error(self):
        self.assertIn('"not_found"', self.show("/nothing"))


@unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
class Trusting(unittest.TestCase):
    """`cairn up --tls`, and a browser that was told of its authority."""

    def setUp(self):
        home = self.enterContext(tempfile.TemporaryDirectory(prefix="cairn-browser-up-"))
        self.data = os.path.join(home, "data")
        with open(os.path.join(home, "log"), "wb") as log:
            self.process = subprocess.Popen([binary(), "up", "--tls", "--data", self.data, "--port-base", str(free_port_base())],
                                            stdout=subprocess.PIPE, stderr=log, text=True, env=demo.clean_environment())
        self.addCleanup(self.end)
        self.urls = dict(self.process.stdout.readline().split() for _ in range(4))
        self.authority = os.path.join(self.data, "keys", "tls", "ca.pem")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(wire.PATIENCE)
        self.process.stdout.close()
        self.assertEqual(code, 0)

    def test_chromium_shows_pages_over_tls_once_it_trusts_the_authority(self):
        self.assertTrue(self.urls["gateway"].startswith("https://"), self.urls)
        gateway = self.urls["gateway"].replace("127.0.0.1", "localhost")
        for path, said in (("/healthz", "ok"), ("/version", '"h2"'), ("/nothing", '"not_found"')):
            with self.subTest(path):
                shown = browse(gateway + path, self.authority)
                self.assertEqual(shown.returncode, 0, shown.stderr[-2000:])
                self.assertIn(said, shown.stdout)
        stranger = browse(gateway + "/healthz")
        self.assertIn("ERR_CERT_AUTHORITY_INVALID", stranger.stderr)


if __name__ == "__main__":
    unittest.main()
