"""What a verb prints, and what becomes of it when nobody can, or will, read that."""

import contextlib
import os
import signal
import subprocess
import unittest

import demo
import wire
from storage_server import Storage, binary
from storage_shutdown import full_pipe


class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.storage = cls.enterClassContext(Storage())
        cls.address = cls.storage.post(b"some content\n" * 50_000)

    def run_verb(self, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
        """(code, stdout, stderr); the verb must end by itself."""
        ended = subprocess.run([binary(), *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                               timeout=wire.PATIENCE, env=demo.clean_environment())
        return ended.returncode, ended.stdout, ended.stderr

    def results(self):
        """Verbs whose stdout is what they are for."""
        server = ["--url", self.storage.url, "--data", self.storage.data]
        return [["version"], ["--version"], ["help"], ["put", "--help"], ["completion", "bash"], ["topology", "storage"],
                ["config", "docs", "storage"], ["config", "show", "storage", "--json"], ["version", "--json"],
                ["cat", self.address, *server], ["get", self.address, "-o", "-", *server], ["ls", *server], ["ls", "--json", *server],
                ["status", *server], ["status", "--json", *server]]

    def test_a_result_that_cannot_be_written_is_an_error_with_a_code(self):
        for verb in self.results():
            with self.subTest(verb), open("/dev/full", "w") as full:
                code, _, said = self.run_verb(*verb, stdout=full)
                self.assertEqual(code, 1)
                self.assertIn(b"stdout", said)
                # Even where that cannot be said.
                self.assertEqual(self.run_verb(*verb, stdout=full, stderr=full)[0], 1)

    def test_a_reader_that_has_gone_is_left_without_a_word(self):
        for verb in self.results():
            with self.subTest(verb):
                reader, writer = os.pipe()
                os.close(reader)
                try:
                    code, _, said = self.run_verb(*verb, stdout=writer)
                finally:
                    os.close(writer)
                self.assertEqual((code, said), (0, b""))

    def test_messages_that_nobody_takes_change_nothing(self):
        server = ["--url", self.storage.url, "--data", self.storage.data]
        missing = "b3:" + "0" * 64
        verbs = [["no-such-verb"], [], ["cat", missing, *server], ["cat", "nonsense", *server], ["put", "/no/such/file", *server],
                 ["config", "check", "storage", "/no/such/file"], ["status", "--url", "http://127.0.0.1:1"], ["storage", "--set", "no.such=key"],
                 ["cat", missing, "--json", *server]]
        for verb in verbs:
            with self.subTest(verb):
                code, out, said = self.run_verb(*verb)
                self.assertNotEqual(code, 0)
                self.assertTrue(said)
                with open("/dev/full", "w") as full:
                    self.assertEqual(self.run_verb(*verb, stderr=full)[:2], (code, out))
                reader, writer = os.pipe()
                os.close(reader)
                self.assertEqual(self.run_verb(*verb, stderr=writer)[:2], (code, out))
                os.close(writer)
                reader, writer = full_pipe()
                self.assertEqual(self.run_verb(*verb, stderr=writer)[:2], (code, out))
                os.close(writer)
                os.close(reader)
                script = 'exec "$0" "$@" 2>&-'
                ended = subprocess.run(["sh", "-c", script, binary(), *verb], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       timeout=wire.PATIENCE, env=demo.clean_environment())
                self.assertEqual((ended.returncode, ended.stdout), (code, out))

    def test_a_message_never_goes_into_a_file_that_took_its_number(self):
        with contextlib.ExitStack() as stack:
            home = stack.enter_context(Storage(started=False))
            target = os.path.join(home.home, "got")
            script = 'exec "$0" "$@" >&- 2>&-'
            arguments = ["get", self.address, "-o", target, "--url", self.storage.url, "--data", self.storage.data]
            ended = subprocess.run(["sh", "-c", script, binary(), *arguments], timeout=wire.PATIENCE, env=demo.clean_environment())
            self.assertEqual(ended.returncode, 0)
            with open(target, "rb") as file:
                self.assertEqual(file.read(), b"some content\n" * 50_000)

    def test_a_verb_whose_reader_stands_still_ends_when_it_is_told_to(self):
        for verb in (["cat", self.address], ["ls"]):
            with self.subTest(verb):
                reader, writer = full_pipe()
                arguments = [binary(), *verb, "--url", self.storage.url, "--data", self.storage.data]
                process = subprocess.Popen(arguments, stdout=writer, stderr=subprocess.DEVNULL, env=demo.clean_environment())
                try:
                    wire.poll(lambda: self.waits(process.pid), "it waits for its reader")
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(process.wait(wire.PATIENCE), 130)
                finally:
                    os.close(writer)
                    os.close(reader)
                    if process.poll() is None:
                        process.kill()
                    process.wait()

    @staticmethod
    def waits(pid):
        """Some thread of the process is in a write to a pipe."""
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/syscall") as file:
                if file.read().startswith("1 0x1 "):  # write to stdout
                    return True
        return False
