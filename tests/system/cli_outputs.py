"""Where a verb may write: a file is replaced in one step, anything else is written to and stays what it is."""

import os
import stat
import subprocess
import tempfile
import threading
import unittest

import demo
from registry_server import Registry, region
from storage_server import MIB, Storage, binary, cairn


def setUpModule():
    global SERVER, DATA, ADDRESS
    SERVER = Storage()
    DATA = os.urandom(3 * MIB + 5)
    ADDRESS = SERVER.upload(DATA).json()["address"]


def tearDownModule():
    SERVER.end()


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="cairn-outputs-")
        self.addCleanup(directory.cleanup)
        self.home = directory.name

    def path(self, name):
        return os.path.join(self.home, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)

    def reader_of(self, name):
        """Reads a pipe to its end, from now on."""
        found = []
        thread = threading.Thread(target=lambda: found.append(self.read(name)), daemon=True)
        thread.start()
        self.addCleanup(thread.join, 60)
        return thread, found

    def device(self, name, minor):
        """One of /dev, or its twin when a mistake could replace the system's own."""
        if os.geteuid() != 0:
            return "/dev/" + name
        path = self.path(name)
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
            os.close(os.open(path, os.O_WRONLY))
        except OSError as problem:
            self.skipTest(f"no device can be made here: {problem}")
        self.addCleanup(os.unlink, path)
        return path

    def get(self, to, code=0, address=None, **options):
        ended = cairn("get", address or ADDRESS, "-o", to, "--data", SERVER.data, cwd=self.home, text=False, **options)
        self.assertEqual(ended.returncode, code, ended.stderr)
        return ended

    def names(self):
        return sorted(os.listdir(self.home))


class Get(Case):
    def test_a_pipe_is_written_and_stays_a_pipe(self):
        os.mkfifo(self.path("pipe"))
        os.symlink("pipe", self.path("link"))
        for name in ("pipe", "link"):
            thread, found = self.reader_of("pipe")
            self.get(name)
            thread.join(60)
            self.assertEqual(found, [DATA])
            self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("pipe")).st_mode))
        self.assertEqual(self.names(), ["link", "pipe"])

    def test_a_device_is_written_and_stays_a_device(self):
        null, full = self.device("null", 3), self.device("full", 7)
        self.get(null)
        self.assertIn(b"error[", self.get(full, code=1).stderr)
        for device in (null, full):
            self.assertTrue(stat.S_ISCHR(os.lstat(device).st_mode))
            self.assertFalse(os.path.exists(device + ".part"))

    def test_names_of_this_process_s_own_descriptors_are_those(self):
        # As /dev/stdout and /dev/fd are, without the risk that a mistake replaces those.
        os.symlink("/proc/self/fd/1", self.path("stdout"))
        os.symlink("/proc/self/fd", self.path("fd"))
        self.assertEqual(self.get("stdout").stdout, DATA)
        self.write("log", b"before ")
        with open(self.path("log"), "ab") as log:
            ended = subprocess.run([binary(), "get", ADDRESS, "-o", self.path("stdout"), "--data", SERVER.data], stdout=log,
                                   stderr=subprocess.PIPE, env=demo.clean_environment(), check=False, timeout=60)
        self.assertEqual((ended.returncode, self.read("log")), (0, b"before " + DATA))
        inode = os.stat(self.path("log")).st_ino
        shell = f'"{binary()}" get {ADDRESS} -q -o fd/7 --data "{SERVER.data}" 7>>log'
        subprocess.run(["bash", "-c", shell], cwd=self.home, env=demo.clean_environment(), check=True, timeout=60)
        self.assertEqual(self.read("log"), b"before " + DATA + DATA)
        self.assertEqual(os.stat(self.path("log")).st_ino, inode)
        self.assertEqual(self.names(), ["fd", "log", "stdout"])

    def test_a_link_is_followed_and_what_it_leads_to_is_replaced(self):
        os.mkdir(self.path("deep"))
        self.write("deep/old", b"old")
        os.chmod(self.path("deep/old"), 0o640)
        os.symlink("deep/old", self.path("first"))
        os.symlink(self.path("first"), self.path("second"))
        self.get("second")
        self.assertEqual(self.read("deep/old"), DATA)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("deep/old")).st_mode), 0o640)
        self.assertTrue(os.path.islink(self.path("first")) and os.path.islink(self.path("second")))
        os.symlink("deep/new", self.path("dangling"))
        self.get("dangling")
        self.assertEqual(self.read("deep/new"), DATA)
        self.assertTrue(os.path.islink(self.path("dangling")))
        os.symlink("round", self.path("round"))
        self.assertIn(b"leads nowhere", self.get("round", code=9).stderr)
        self.assertEqual(sorted(os.listdir(self.path("deep"))), ["new", "old"])

    def test_in_a_directory_that_is_fetched_nothing_but_files_is_replaced(self):
        os.mkdir(self.path("tree"))
        self.write("tree/a", b"of a")
        self.write("tree/b", b"of b")
        ended = cairn("put", "-q", "tree", "--data", SERVER.data, cwd=self.home, environment={"XDG_STATE_HOME": self.path("state")})
        os.mkdir(self.path("back"))
        os.mkfifo(self.path("back/a"))
        self.write("outside", b"not ours")
        os.symlink("../outside", self.path("back/b"))
        said = self.get("back", code=2, address=ended.stdout.strip()).stderr
        self.assertIn(b"error[conflict]", said)
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("back/a")).st_mode))
        self.assertEqual((self.read("back/b"), self.read("outside")), (b"of b", b"not ours"))


class Others(Case):
    """The registry's verbs write through the same door."""

    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(Registry())
        cls.registry.grow(2)
        cls.registry.covered()

    def cairn(self, *arguments, code=0):
        ended = cairn("registry", *arguments, "--url", self.registry.url, cwd=self.home, environment={"CAIRN_CAP": self.registry.token})
        self.assertEqual(ended.returncode, code, ended.stderr)
        return ended

    def test_each_output_goes_through_links_and_into_pipes(self):
        os.mkfifo(self.path("pipe"))
        proposal = self.registry.propose(self.registry.next_items(region("x")))["proposal_id"]
        self.cairn("show", proposal, "-o", "payload")
        trusting = ("--trust-roots", self.registry.roots_path)
        offline = ("approve", "--offline", "payload", "--key", "a", "--data", self.registry.data)
        for arguments in (("show", "head"), ("verify", *trusting), ("propose", "--add", '{"type":"region","id":"y"}')):
            with self.subTest(arguments[0]):
                thread, found = self.reader_of("pipe")
                self.cairn(*arguments, "-o", "pipe")
                thread.join(60)
                self.assertGreater(len(found[0]), 10)
                self.write("old", b"old")
                os.symlink("old", self.path("link"))
                self.cairn(*arguments, "-o", "link")
                self.assertTrue(os.path.islink(self.path("link")))
                self.assertGreater(len(self.read("old")), 10)
                os.unlink(self.path("link"))
        ended = cairn("registry", *offline, "-o", "/proc/self/fd/1", cwd=self.home)
        self.assertIn("signer_id", ended.stdout)
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("pipe")).st_mode))
        self.assertEqual(self.names(), ["old", "payload", "pipe"])

    def test_a_device_stays_one(self):
        null = self.device("null", 3)
        self.cairn("show", "head", "-o", null)
        self.assertTrue(stat.S_ISCHR(os.lstat(null).st_mode))

    def test_a_checkpoint_that_cannot_be_written_leaves_the_one_that_is_there(self):
        os.mkdir(self.path("full"))
        trusting = ("--trust-roots", self.registry.roots_path)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", self.path("full")], capture_output=True, check=False).returncode != 0:
            self.skipTest("only root may mount")
        self.addCleanup(subprocess.run, ["umount", self.path("full")], check=True)
        self.write("full/checkpoint", b"x" * 4096)
        self.cairn("verify", *trusting, "-o", "full/checkpoint", code=1)
        self.assertEqual(self.read("full/checkpoint"), b"x" * 4096)
        self.assertEqual(os.listdir(self.path("full")), ["checkpoint"])
