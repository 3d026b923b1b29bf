"""A browser shows it. Runs where chromium is installed."""

import shutil
import subprocess
import tempfile
import unittest

import wire
from demo import DemoTest

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


@unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
class Browser(DemoTest):
    def show(self, path):
        with tempfile.TemporaryDirectory(prefix="cairn-browser-", ignore_cleanup_errors=True) as profile:
            result = subprocess.run(["chromium", *FLAGS, f"--user-data-dir={profile}", "--dump-dom", f"http://127.0.0.1:{self.demo.address[1]}{path}"],
                                    capture_output=True, text=True, timeout=wire.PATIENCE * 4)
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


if __name__ == "__main__":
    unittest.main()
