"""A registry that is restored from an old copy, or went on differently: who tells whom."""

import json
import os
import select
import shutil
import subprocess
import unittest

import demo
import wire
from registry_server import Registry, region
from storage_server import binary, cairn

INTEGRITY = 4


class Follower:
    """`cairn registry follow` against one address."""

    def __init__(self, url, *arguments):
        self.process = subprocess.Popen([binary(), "registry", "follow", "--json", "--url", url, *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, bufsize=0, env=demo.clean_environment())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def version(self):
        ready, _, _ = select.select([self.process.stdout], [], [], wire.PATIENCE)
        if not ready:
            raise AssertionError("it says nothing")
        return json.loads(self.process.stdout.readline())["version"]

    def end(self):
        """(exit code, what it said)"""
        code = self.process.wait(wire.PATIENCE)
        return code, self.process.stderr.read().decode()


class Rollback(unittest.TestCase):
    def setUp(self):
        self.registry = self.enterContext(Registry())
        # Those who come back find it where it was.
        self.registry.bind = f"127.0.0.1:{self.registry.address[1]}"
        self.checkpoint = os.path.join(self.registry.home, "seen")

    def grow(self, count, name):
        for i in range(count):
            head = self.registry.change(self.registry.next_items(region(name, title=str(i))))
        return head["version"]

    def remember(self):
        """As a verifier does who comes again."""
        self.registry.covered()
        self.verify("-o", self.checkpoint)

    def verify(self, *arguments, code=0):
        ended = cairn("registry", "verify", "--url", self.registry.url, "--trust-roots", self.registry.roots_path, *arguments)
        self.assertEqual(ended.returncode, code, ended)
        return ended.stdout + ended.stderr

    def copy(self, name="copy"):
        self.registry.covered_on_disk()
        self.assertEqual(self.registry.stop(), 0)
        to = os.path.join(self.registry.home, name)
        shutil.copytree(self.registry.directory, to)
        self.registry.start()
        return to

    def restore(self, copy, *names):
        """Everything, or these files of it; the others stay."""
        for name in names or [""]:
            there = os.path.join(self.registry.directory, name)
            shutil.rmtree(there)
            shutil.copytree(os.path.join(copy, name), there)

    def remove_signed(self):
        os.unlink(os.path.join(self.registry.directory, "checkpoint"))
        shutil.rmtree(os.path.join(self.registry.directory, "tile"))

    def seen_and_stopped(self, follower):
        """It goes on to version 5 while somebody follows, and is stopped."""
        self.assertEqual(follower.version(), 2)
        self.grow(3, "lost")
        self.assertEqual([follower.version() for _ in range(3)], [3, 4, 5])
        self.remember()
        self.assertEqual(self.registry.stop(), 0)

    def assert_fenced(self, why):
        wire.poll(lambda: why in self.registry.log(), why)
        answer = self.registry.post("/registry/proposals", {"schema_version": "1.0.0", "items": self.registry.items()})
        self.assertEqual((answer.status, answer.error()["code"]), (503, "degraded"), answer)
        # Another start finds the same: what is said must not promise that it helps.
        self.assertIn("until its segments are restored", answer.error()["message"])
        self.assertNotIn("until the next start", self.registry.log())
        self.assertIn("accept the loss", self.registry.log())
        self.assertEqual(self.registry.head()["version"], 2)

    def test_a_directory_restored_as_a_whole_is_told_by_those_who_saw_more(self):
        self.grow(2, "kept")
        copy = self.copy()
        with Follower(self.registry.url) as follower:
            self.seen_and_stopped(follower)
            self.restore(copy)
            self.registry.start()
            code, said = follower.end()
            self.assertEqual(code, INTEGRITY, said)
            self.assertIn("rolled back", said)
        self.assertIn("shrunk", self.verify("--since", self.checkpoint, code=INTEGRITY))
        for arguments in (("head", "--wait", "--after", "5"), ("follow", "--from", "6")):
            ended = cairn("registry", *arguments, "--url", self.registry.url)
            self.assertEqual(ended.returncode, INTEGRITY, ended)
            self.assertIn("rolled back", ended.stderr)
        # Whoever saw nothing, and the server itself, cannot know.
        self.verify()
        self.grow(1, "on")

    def test_a_fork_of_the_same_keys_is_told_by_those_who_saw_the_other(self):
        self.grow(2, "kept")
        copy = self.copy()
        with Follower(self.registry.url) as follower:
            self.seen_and_stopped(follower)
            self.restore(copy)
            # It is as long again, and longer, before anybody asks.
            self.registry.bind, bind = "127.0.0.1:0", self.registry.bind
            self.registry.start()
            self.grow(4, "other")
            self.registry.covered()
            self.assertEqual(self.registry.stop(), 0)
            self.registry.bind = bind
            self.registry.start()
            code, said = follower.end()
            self.assertEqual(code, INTEGRITY, said)
            self.assertIn("another history", said)
        self.assertIn("rewritten", self.verify("--since", self.checkpoint, code=INTEGRITY))
        self.verify()

    def test_segments_restored_alone_fence_the_server(self):
        self.grow(2, "kept")
        copy = self.copy()
        self.grow(3, "lost")
        self.registry.covered_on_disk()
        self.assertEqual(self.registry.stop(), 0)
        self.restore(copy, "segments")
        self.registry.start()
        self.assert_fenced("the log has lost versions that its checkpoint covers")

    def test_without_checkpoint_and_tiles_the_snapshot_still_knows(self):
        self.grow(2, "kept")
        copy = self.copy()
        self.grow(3, "lost")
        self.registry.covered_on_disk()
        self.assertEqual(self.registry.stop(), 0)
        self.restore(copy, "segments")
        self.remove_signed()
        for _ in range(2):
            self.registry.start()
            self.assert_fenced("the log has lost versions that its snapshot knows")
            self.assertEqual(self.registry.stop(), 0)
        self.registry.start()

    def test_a_log_that_is_gone_is_not_begun_anew(self):
        self.grow(2, "kept")
        self.registry.covered_on_disk()
        self.assertEqual(self.registry.stop(), 0)
        shutil.rmtree(self.registry.segments)
        self.remove_signed()
        self.registry.spawn()
        self.assertNotEqual(self.registry.wait(), 0)
        self.assertIn("its snapshot is not", self.registry.log())
