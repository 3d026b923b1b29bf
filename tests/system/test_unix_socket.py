"""The Unix socket: for its owner only."""

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import unittest

import demo as programs
import wire
from demo import Demo
from wire import head


class UnixSocket(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cairn-uds-")  # 0700
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.path = os.path.join(self.directory, "demo.sock")

    def serve(self, **settings):
        return Demo({"uds.path": self.path, **settings})

    def refused(self, path):
        """It does not start. Gives what it says."""
        result = programs.run("serve", "--bind", "127.0.0.1:0", "--set", f"uds.path={path}", patience=10)
        self.assertIn(result.returncode, (1, 78))
        self.assertEqual(result.stdout, "")
        return result.stderr

    def test_serves(self):
        with self.serve() as demo, wire.Connection(self.path) as connection:
            self.assertEqual(len(connection.ask("GET", "/mem/x").body), 1024)
            self.assertEqual(connection.ask("POST", "/echo", b"abc").body, b"abc")
            self.assertEqual(demo.ask("GET", "/mem/x").status, 200)

    def test_modes(self):
        with self.serve():
            self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
            self.assertTrue(stat.S_ISSOCK(os.stat(self.path).st_mode))

    def test_missing_directory_is_made_private(self):
        self.path = os.path.join(self.directory, "made", "demo.sock")
        with self.serve(), wire.Connection(self.path) as connection:
            self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(self.path)).st_mode), 0o700)
            self.assertEqual(connection.ask("GET", "/healthz").status, 200)

    def test_open_directory_is_refused(self):
        for mode in (0o755, 0o750, 0o701, 0o777):
            with self.subTest(oct(mode)):
                os.chmod(self.directory, mode)
                self.assertIn("0700", self.refused(self.path))
                self.assertFalse(os.path.exists(self.path))

    def test_refusal_names_the_socket(self):
        os.chmod(self.directory, 0o755)
        self.assertIn(self.path, self.refused(self.path))

    def test_socket_is_removed_at_the_end(self):
        with self.serve() as demo:
            self.assertTrue(os.path.exists(self.path))
            self.assertEqual(demo.stop(), 0)
            self.assertFalse(os.path.exists(self.path))

    def test_stale_socket_is_replaced(self):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(self.path)
        with self.serve(), wire.Connection(self.path) as connection:
            self.assertEqual(connection.ask("GET", "/healthz").status, 200)

    def test_file_that_is_no_socket_is_kept(self):
        with open(self.path, "w") as file:
            file.write("precious")
        self.refused(self.path)
        with open(self.path) as file:
            self.assertEqual(file.read(), "precious")

    def test_socket_of_a_living_instance_is_not_taken_away(self):
        with self.serve():
            self.refused(self.path)
            with wire.Connection(self.path) as connection:
                self.assertEqual(connection.ask("GET", "/healthz").status, 200)

    def test_path_too_long(self):
        self.assertIn("107", self.refused("/" + "x" * 200))

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
    def test_only_listed_users_are_served(self):
        stranger = 65534
        for allowed in (False, True):
            # Permissions would let the stranger in: it is the uid that is checked.
            with self.subTest(allowed=allowed), self.serve(**({"uds.allow_uids": f"12345,{stranger}"} if allowed else {})):
                os.chown(self.directory, stranger, stranger)
                os.chown(self.path, stranger, stranger)
                result = subprocess.run(["curl", "-sS", "-w", "%{http_code}", "--unix-socket", self.path, "http://demo/healthz"],
                                        capture_output=True, timeout=wire.PATIENCE, user=stranger, group=stranger, extra_groups=[], cwd="/")
                if allowed:
                    self.assertEqual(result.stdout, b"ok\n200")
                else:
                    self.assertRegex(result.stdout, rb'"code":"forbidden".*uds\.allow_uids.*403$')
                with wire.Connection(self.path) as connection:
                    self.assertEqual(connection.ask("GET", "/mem/x").status, 200)

    def test_early_answer_arrives(self):
        with self.serve():
            for _ in range(5):
                with wire.Connection(self.path) as connection:
                    connection.send_as_it_goes([head("POST /echo HTTP/1.1", "Host: demo", "Content-Length: 1500000"), *[b"x" * 50000] * 30])
                    answer = connection.read()
                    self.assertEqual((answer.status, answer.closes()), (413, True))
                    connection.expect_end()

    def test_curl(self):
        with self.serve():
            result = subprocess.run(["curl", "-sS", "--unix-socket", self.path, "http://demo/healthz"], capture_output=True, timeout=wire.PATIENCE)
            self.assertEqual((result.returncode, result.stdout), (0, b"ok\n"), result.stderr)

    def test_drains(self):
        import signal
        with self.serve() as demo, contextlib.closing(wire.Connection(self.path)) as connection:
            connection.send(wire.request("GET", "/job/300"))
            wire.poll(lambda: demo.metric('inflight_requests{route="/job/{ms:Int}"}') == 1, "the job runs")
            demo.signal(signal.SIGTERM)
            answer = connection.read()
            self.assertEqual((answer.status, answer.closes()), (200, True))
            self.assertEqual(demo.wait(), 0)


if __name__ == "__main__":
    unittest.main()
