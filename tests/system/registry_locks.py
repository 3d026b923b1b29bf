"""Whoever writes to a data directory has it alone, whatever the services beside it do."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import demo
import wire
from storage_server import binary, cairn, free_port_base

AMNESIC = ("--set", "storage.amnesia.enabled=true")


class Locks(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cairn-locks-")
        self.addCleanup(shutil.rmtree, self.top, True)
        self.data = os.path.join(self.top, "data")

    def start(self, *arguments):
        process = subprocess.Popen([binary(), *arguments, "--data", self.data], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, env=demo.clean_environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertIn("http://", process.stdout.readline())
        return process

    def up(self, *arguments):
        return self.start("up", "--port-base", str(free_port_base()), *arguments)

    def refused(self, *arguments):
        ended = cairn(*arguments, "--data", self.data, patience=30)
        self.assertEqual((ended.returncode, ended.stdout), (1, ""), ended.stderr)
        return re.search(r"in use by process (\d+)", ended.stderr)[1]

    def test_a_registry_beside_an_amnesic_service_has_one_writer(self):
        first = self.up(*AMNESIC)
        for arguments in (["up", "--port-base", str(free_port_base()), *AMNESIC], ["up", "--port-base", str(free_port_base())],
                          ["registry", "--bind", "127.0.0.1:0"]):
            self.assertEqual(self.refused(*arguments), str(first.pid))
        self.assertFalse(os.path.exists(os.path.join(self.data, "storage.lock")))
        self.assertFalse(os.path.exists(os.path.join(self.data, "keys", "admin.cap")))
        # What the amnesic service does not write is free for another.
        second = self.start("storage", "--bind", "127.0.0.1:0")
        for process in (second, first):
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(wire.PATIENCE), 0)
        self.assertEqual(cairn("registry", "verify", "--data", self.data).returncode, 0)

    def test_storage_beside_an_amnesic_registry_has_one_writer(self):
        first = self.up("--set", "registry.amnesia.enabled=true")
        self.assertEqual(self.refused("storage", "--bind", "127.0.0.1:0"), str(first.pid))
        self.assertFalse(os.path.exists(os.path.join(self.data, "registry.lock")))

    def test_a_gateway_alone_has_its_directory_alone(self):
        self.data = os.path.join(self.top, "gateway")
        first = self.start("gateway", "--bind", "127.0.0.1:0")
        self.assertEqual(os.stat(self.data).st_mode & 0o777, 0o700)
        self.assertEqual(self.refused("gateway", "--bind", "127.0.0.1:0"), str(first.pid))
        self.assertEqual(self.refused("up", "--port-base", str(free_port_base())), str(first.pid))
        # One that keeps nothing needs none, and storage has a lock of its own.
        others = [self.start("gateway", "--bind", "127.0.0.1:0", "--set", "amnesia.enabled=true"),
                  self.start("storage", "--bind", "127.0.0.1:0")]
        told = cairn("health", "--data", self.data)
        self.assertEqual((told.returncode, told.stdout), (0, "storage is ready\n"), "a gateway is not where the capability goes")
        for process in (first, *others):
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(wire.PATIENCE), 0)
        again = self.start("gateway", "--bind", "127.0.0.1:0")
        again.send_signal(signal.SIGTERM)
        self.assertEqual(again.wait(wire.PATIENCE), 0)

    def test_a_service_that_does_not_answer_is_told_beside_the_one_that_does(self):
        self.assertEqual(cairn("registry", "init", "--data", self.data).returncode, 0)
        registry, _ = [self.start(verb, "--bind", "127.0.0.1:0") for verb in ("registry", "storage")]
        self.assertEqual(cairn("health", "--data", self.data).stdout, "storage is ready\nregistry is ready\n")
        registry.send_signal(signal.SIGSTOP)
        told = cairn("health", "--data", self.data)
        self.assertEqual((told.returncode, told.stdout), (69, "storage is ready\n"), told.stderr)
        self.assertIn("registry does not answer", told.stderr)
        told = cairn("doctor", "--data", self.data)
        self.assertEqual(told.returncode, 1, told.stdout)
        self.assertRegex(told.stdout, "(?m)^fail +registry ")

    def test_services_that_start_together_for_the_first_time_agree_on_the_keys(self):
        for _ in range(5):
            shutil.rmtree(self.data, True)
            self.assertEqual(cairn("registry", "init", "--data", self.data).returncode, 0)
            verbs = ("storage", "registry")
            processes = [subprocess.Popen([binary(), verb, "--data", self.data, "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True, env=demo.clean_environment()) for verb in verbs]
            try:
                for verb, process in zip(verbs, processes):
                    self.assertTrue(process.stdout.readline().startswith(verb), verb)
                self.assertEqual(cairn("status", "--data", self.data).returncode, 0)
                ended = cairn("registry", "log", "--pending", "--data", self.data)
                self.assertEqual(ended.returncode, 0, ended.stderr)
            finally:
                for process in processes:
                    process.kill()
                    process.communicate()
