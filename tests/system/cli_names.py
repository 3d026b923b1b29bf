"""cairn name, resolve and providers, and names wherever an object is meant: over storage and index apart, and through `cairn up`."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import demo
import wire
from cli_objects import MANIFEST, text_item
from cli_shape import mismatch, schema_of
from gateway_server import Scripted
from storage_server import Storage, b3sum, binary, cairn, free_port_base

SITE, OTHER = "b3:" + "0a" * 32, "b3:" + "0b" * 32


class Index(Storage):
    """`cairn index` over a data directory, which may have a storage too."""

    def spawn(self):
        arguments = [binary(), "index", "--data", self.data, "--bind", self.bind]
        for key, value in {"server.shards": 2, **self.settings}.items():
            arguments += ["--set", f"{key}={value}"]
        self.code = None
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, bufsize=0, env=demo.clean_environment())
        return self

    def await_ready(self):
        match = re.fullmatch(r"index +http://([0-9.]+):([0-9]+)\n", self.line())
        if not match:
            self.process.kill()
            raise AssertionError(f"did not start ({self.process.wait()}): {self.log()[-2000:]}")
        self.address = (match[1], int(match[2]))
        return self


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="cairn-names-")
        self.addCleanup(shutil.rmtree, self.home, True)
        self.data = os.path.join(self.home, "data")

    def cairn(self, *arguments, code=0, environment=None, **options):
        given = {"XDG_STATE_HOME": os.path.join(self.home, "state"), **(environment or {})}
        ended = cairn(*arguments, environment=given, cwd=self.home, **options)
        self.assertEqual(ended.returncode, code, f"{arguments} {ended.stdout} {ended.stderr}")
        return ended

    def ask(self, *arguments, **options):
        return self.cairn(*arguments, "--data", self.data, **options)

    def lines(self, schema, *arguments, code=0):
        lines = [json.loads(line) for line in self.ask(*arguments, "--json", code=code).stdout.splitlines()]
        for line in lines:
            self.assertIsNone(mismatch(schema_of(schema), line), line)
        return lines

    def write(self, name, text):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb" if isinstance(text, bytes) else "w") as file:
            file.write(text)
        return name

    def tree(self):
        self.write("tree/index.html", "front")
        self.write("tree/guide/First Steps", "steps")
        return "tree"


class Apart(Case):
    """Storage and index are two processes over one data directory: each verb finds the one that it needs."""

    def setUp(self):
        super().setUp()
        self.storage = Storage(directory=self.data)
        self.addCleanup(self.storage.end)
        self.index = Index(directory=self.data, roomy=False)
        self.addCleanup(self.index.end)

    def test_every_verb_keeps_to_its_schema(self):
        put = self.lines("put", "put", self.tree(), "--name", "home/site", "--note", "the first")[0]
        self.assertEqual((put["name"], put["sequence"]), ("home/site", 1))
        again = self.lines("name-set", "name", "set", "home/site", put["address"], "--if-match", "1")[0]
        self.assertEqual((again["sequence"], again["fresh"], again["manifest"]), (2, False, put["address"]))
        self.assertEqual(self.lines("name-get", "name", "get", "home/site")[0]["sequence"], 2)
        self.assertTrue(self.lines("name-set", "name", "set", "away", SITE)[0]["fresh"])
        self.assertEqual([one["name"] for one in self.lines("name-ls", "name", "ls")], ["away", "home/site"])
        self.assertEqual([one["name"] for one in self.lines("name-ls", "name", "ls", "home")], ["home/site"])
        found = self.lines("resolve", "resolve", "home/site")[0]
        self.assertEqual((found["key"], found["manifest"], found["etag"]), ("name:home/site", put["address"], "2"))
        self.assertEqual(self.lines("resolve", "resolve", put["address"])[0]["kind"], "cid")
        self.assertEqual(self.lines("name-rm", "name", "rm", "home/site")[0]["sequence"], 3)
        past = self.lines("name-history", "name", "history", "home/site")
        self.assertEqual([one["sequence"] for one in past], [3, 2, 1])
        self.assertEqual([one["manifest"] for one in past], [None, put["address"], put["address"]])
        self.assertEqual(past[2]["note"], "the first")

    def test_a_name_stands_wherever_an_object_is_meant(self):
        address = self.ask("put", "-q", self.tree(), "--name", "home/site").stdout.strip()
        self.assertEqual(self.ask("cat", "home/site/index.html").stdout, "front")
        self.assertEqual(self.ask("cat", "name:home/site/guide/First Steps").stdout, "steps")
        self.assertEqual(self.ask("ls", "-q", "home/site").stdout, self.ask("ls", "-q", address).stdout)
        self.assertEqual(self.lines("stat", "stat", "home/site")[0]["address"], address)
        self.ask("get", "home/site")
        with open(os.path.join(self.home, "site", "guide", "First Steps")) as file:
            self.assertEqual(file.read(), "steps")
        self.ask("get", "home/site/index.html")
        self.assertTrue(os.path.isfile(os.path.join(self.home, "index.html")))
        # The longest name decides, and the rest is looked for there and nowhere else.
        self.ask("name", "set", "home/site/guide", self.write("lone", "lone"))
        self.assertEqual(self.ask("cat", "home/site/guide").stdout, "lone")
        self.assertEqual(self.ask("cat", "home/site/index.html").stdout, "front")
        ended = self.ask("cat", "home/site/guide/First Steps", code=1)
        self.assertIn("not a manifest", ended.stderr)
        self.assertIn("no `none`", self.ask("cat", "home/site/none", code=3).stderr)
        ended = self.ask("cat", "home/nobody/x", code=3)
        self.assertIn("home/nobody/x", ended.stderr)
        self.assertRegex(ended.stderr, "(?m)^  asked  names of ")

    def test_a_path_goes_through_directories_inside_directories(self):
        inner = self.ask("put", "-q", self.tree()).stdout.strip()
        entry = (b"\xa4" + text_item("path") + text_item("deep/er") + text_item("size") + b"\x00" + text_item("type") + text_item(MANIFEST)
                 + text_item("address") + b"\x58\x20" + bytes.fromhex(inner[3:]))
        for kind, code in (("directory", 0), ("site", 0), ("pack", 3)):
            outer = b"\xa2" + text_item("kind") + text_item(kind) + text_item("entries") + b"\x81" + entry
            self.ask("put", self.write(kind, outer), "--type", MANIFEST, "--name", "outer")
            ended = self.ask("cat", "outer/deep/er/guide/First Steps", code=code)
            self.assertEqual(ended.stdout, "" if code else "steps")
        self.assertIn("is a pack", ended.stderr)

    def test_a_word_that_is_a_file_here_is_a_name_all_the_same(self):
        self.write("lone", "text")
        self.assertIn("`lone` is a file here: cairn put lone", self.ask("cat", "lone", code=3).stderr)
        self.ask("name", "set", "lone", os.path.join(self.home, "lone"))
        self.write("lone", "changed")
        self.assertEqual(self.ask("cat", "lone").stdout, "text")
        self.assertEqual(self.ask("cat", "name:lone").stdout, "text")
        for word in ("", "b3:", "b3:12", "Upper", "/abs", "name:", "name:A/b", ".."):
            self.assertIn("not an address", self.ask("cat", word, code=64).stderr)
        # Only an address can be deleted or pinned.
        for verb in ("rm", "pin", "unpin"):
            self.ask(verb, "lone", code=64)

    def test_a_condition_that_does_not_hold_is_9_and_changes_nothing(self):
        self.assertEqual(self.ask("name", "set", "site", SITE, "--new", "-q").stdout, "1\n")
        ended = self.ask("name", "set", "site", OTHER, "--new", code=9)
        self.assertIn("cairn name get site", ended.stderr)
        self.assertIn("precondition_failed", self.ask("name", "set", "site", OTHER, "--if-match", "7", code=9).stderr)
        self.ask("put", self.write("lone", "x"), "--name", "site", "--new", code=9)
        self.ask("name", "rm", "site", "--if-match", "7", code=9)
        self.assertEqual(self.ask("name", "get", "site", "-q").stdout.strip(), SITE)
        self.assertEqual(self.ask("name", "set", "site", OTHER, "--if-match", '"1"', "-q").stdout, "2\n")
        self.ask("name", "rm", "site", "--if-match", "2")
        self.assertIn("cairn resolve site", self.ask("name", "get", "site", code=3).stderr)
        self.ask("name", "rm", "site", code=3)
        self.assertEqual(self.ask("name", "ls").stdout, "")
        # The sequence of a name that was removed goes on.
        self.assertEqual(self.ask("name", "set", "site", SITE, "--new", "-q").stdout, "4\n")

    def test_several_paths_get_a_name_as_one_directory(self):
        self.write("lone", "alone")
        self.ask("name", "set", "home/all", self.tree(), "lone")
        listed = [one["path"] for one in self.lines("ls", "ls", "home/all")]
        self.assertEqual(listed, ["lone", "tree/guide/First Steps", "tree/index.html"])
        self.assertEqual(self.ask("cat", "home/all/lone").stdout, "alone")
        # The same content under the same name of a file twice is no directory.
        self.write("other/lone", "another")
        self.ask("name", "set", "home/all", "lone", "other/lone", code=1)
        self.assertEqual(self.ask("name", "set", "home/in", "-", "-q", input="from stdin").stdout, "1\n")
        self.assertEqual(self.ask("cat", "home/in").stdout, "from stdin")

    def test_no_name_leads_to_a_part(self):
        os.symlink("index.html", os.path.join(self.home, self.tree(), "link"))
        self.ask("name", "set", "site", "tree", code=2)
        put = self.lines("put", "put", "tree", "--name", "site", code=2)
        self.assertNotIn("name", put[0])
        self.ask("name", "set", "site", "tree", "none", code=3)
        self.ask("put", "none", "--name", "site", code=3)
        self.ask("name", "get", "site", code=3)
        self.ask("name", "set", "site", "tree", "--follow")
        self.assertEqual(self.ask("cat", "site/link").stdout, "front")

    def test_usage_mistakes_are_64(self):
        for arguments in (["name", "set", "A", SITE], ["name", "set", "a", "b3:abcdef"], ["name", "set", "a", SITE, OTHER], ["name", "set", "a"],
                          ["name", "set", "a", SITE, "--new", "--if-match", "1"], ["name", "set", "a", SITE, "--if-match", "0"],
                          ["name", "set", "a", SITE, "--if-match", "x"], ["name", "set", "a", SITE, "--note", "a\nb"], ["name", "set", "a", SITE, "--note", "n" * 257],
                          ["name", "get", "a/"], ["name", "history", ".."], ["name", "rm", "n" * 256], ["name", "ls", "--limit", "0"], ["name"],
                          ["put", "a", "b", "--name", "c"], ["put", "a", "--name", "C"], ["put", "a", "--new"], ["put", "a", "--note", "x"],
                          ["resolve", "A"], ["resolve", "b3:12"], ["providers", "a"], ["providers", SITE, "--limit", "33"],
                          ["name", "ls", "--index", "gopher://x"], ["name", "ls", "--index", ""]):
            with self.subTest(arguments):
                self.assertTrue(self.ask(*arguments, code=64).stderr.startswith("error[usage]: "))

    def test_a_list_is_as_long_as_it_is_asked_to_be(self):
        for i in range(12):
            self.ask("name", "set", f"n/{i:02}", SITE, "-q")
        self.assertEqual(self.ask("name", "ls", "-q").stdout.split(), [f"n/{i:02}" for i in range(12)])
        ended = self.ask("name", "ls", "-q", "--limit", "5")
        self.assertEqual(ended.stdout.split(), [f"n/{i:02}" for i in range(5)])
        self.assertIn("--limit", self.ask("name", "ls", "--limit", "5").stderr)
        self.assertNotIn("--limit", self.ask("name", "ls", "--limit", "12").stderr)
        self.assertEqual(self.ask("name", "ls", "n/1", "-q").stdout.split(), ["n/10", "n/11"])
        self.assertIn("invalid", self.ask("name", "ls", "N", code=1).stderr)

    def test_without_an_index_addresses_still_work_and_names_say_who_was_asked(self):
        address = self.ask("put", "-q", self.write("lone", "text")).stdout.strip()
        self.index.stop()
        self.assertEqual(self.ask("cat", address).stdout, "text")
        ended = self.ask("cat", "home/site", code=69)
        self.assertIn("no index", ended.stderr)
        self.assertIn("hint   start it: cairn index", ended.stderr)
        self.assertEqual(self.ask("put", "-q", "lone", "--name", "site", code=69).stdout.strip(), address)
        self.ask("name", "get", "site", code=69)

    def test_the_index_may_be_given(self):
        with Index(roomy=False) as other:
            with open(os.path.join(other.data, "keys", "admin.cap")) as file:
                token = {"CAIRN_CAP": file.read().strip()}
            url = "http://%s:%d" % other.address
            self.ask("name", "set", "site", SITE, "--index", url, environment=token)
            self.assertEqual(self.ask("name", "get", "site", "-q", "--index", url).stdout.strip(), SITE)
            self.assertEqual(self.ask("name", "get", "site", "-q", environment={"CAIRN_INDEX": url}).stdout.strip(), SITE)
            self.assertEqual(self.ask("name", "get", "site", "-q", "--url", url, environment={"CAIRN_INDEX": "http://127.0.0.1:1"}).stdout.strip(), SITE)
            self.ask("name", "get", "site", code=3)
            address = self.ask("put", "-q", self.write("lone", "text")).stdout.strip()
            self.cairn("name", "set", "lone", address, "--index", url, environment=token)
            self.assertEqual(self.ask("cat", "name:lone", "--index", url).stdout, "text")
            self.ask("cat", "name:lone", code=3)
            # A storage is no index.
            self.assertIn("there is storage", self.ask("cat", "name:lone", "--index", self.storage.url, code=69).stderr)

    def test_bash_completes_names(self):
        self.ask("name", "set", "home/site", SITE)
        script = self.cairn("completion", "bash").stdout
        environment = demo.clean_environment({"CAIRN_URL": self.index.url, "PATH": demo.BUILD + ":" + os.environ["PATH"]})
        for words in (["cairn", "cat", "ho"], ["cairn", "name", "get", "home/"], ["cairn", "put", "x", "--name", "h"], ["cairn", "resolve", ""]):
            quoted = " ".join(f"'{word}'" for word in words)
            said = f"{script}\ncompopt() {{ :; }}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _cairn; echo \"${{COMPREPLY[@]}}\""
            ended = subprocess.run(["bash", "-c", said], text=True, capture_output=True, cwd=self.home, env=environment, check=False)
            self.assertIn("home/site", ended.stdout.split(), f"{words} {ended.stderr}")


class Liars(Case):
    """An index that is believed no more than it has to be."""

    def answer(self, head):
        line = head.split("\r\n")[0]
        if " /version " in line:
            return "200 OK", '{"service":"index","version":"1","git":"x"}', ""
        return self.said(line)

    def script(self, connection, head):
        status, body, etag = self.answer(head)
        tag = f"ETag: {etag}\r\n" if etag else ""
        connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{tag}Content-Type: application/json\r\n\r\n{body}".encode())
        return True

    def named(self, name="site", manifest=SITE, sequence=3):
        return json.dumps({"name": name, "manifest": manifest, "sequence": sequence, "changed_at": "2026-01-02T03:04:05Z"})

    def test_what_was_not_asked_for_is_refused(self):
        providers = json.dumps({"cid": OTHER, "providers": []})
        cases = ((["name", "get", "site"], ("200 OK", self.named("other"), '"3"'), 4), (["name", "get", "site"], ("200 OK", self.named(), '"4"'), 4),
                 (["name", "get", "site"], ("200 OK", "{", '"3"'), 1), (["name", "set", "site", OTHER], ("200 OK", self.named(), '"3"'), 4),
                 (["name", "get", "site"], ("200 OK", self.named(), '"3"'), 0), (["providers", SITE], ("200 OK", providers, ""), 4),
                 (["providers", OTHER], ("200 OK", providers, ""), 3),
                 (["resolve", "site"], ("504 Gateway Timeout", '{"error":{"code":"timeout","message":"m","corr_id":"c"}}', ""), 7))
        with Scripted(self.script) as server:
            for arguments, said, code in cases:
                with self.subTest(arguments, said=said):
                    self.said = lambda _, said=said: said
                    ended = self.cairn(*arguments, "--index", server.address, code=code)
                    self.assertEqual(ended.stderr == "", code == 0)

    def test_providers_are_shown_the_best_first(self):
        one = {"id": "n1", "addr": "10.0.0.1:7410", "region": "eu", "class": 1, "score": 0.75, "last_seen_s": 9}
        two = {"id": "n2", "addr": "10.0.0.2:7410", "region": "", "class": 0, "score": 0, "last_seen_s": 4}
        said = json.dumps({"cid": SITE, "providers": [one, two], "hedge": {"alpha_ms": 3, "beta_ms": 0, "winner": "dht"}})
        with Scripted(self.script) as server:
            self.said = lambda _: ("200 OK", said, "")
            lines = [json.loads(line) for line in self.cairn("providers", SITE, "--json", "--index", server.address).stdout.splitlines()]
            for line in lines:
                self.assertIsNone(mismatch(schema_of("providers"), line), line)
            self.assertEqual([line["id"] for line in lines], ["n1", "n2"])
            self.assertEqual(self.cairn("providers", SITE, "-q", "--index", server.address).stdout, "10.0.0.1:7410\n10.0.0.2:7410\n")
            self.cairn("providers", SITE, "--region", "eu", "--limit", "7", "--index", server.address)
            self.assertIn(f"GET /providers/{SITE}?limit=7&region=eu HTTP/1.1", server.heads[-1])


class Together(Case):
    """`cairn up`: the gateway has names and objects, and is asked for both."""

    def test_one_server_answers_for_all(self):
        base = free_port_base()
        process = subprocess.Popen([binary(), "up", "--data", self.data, "--port-base", str(base)], cwd=self.home, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, env=demo.clean_environment())
        try:
            while not process.stdout.readline().startswith("gateway"):
                self.assertIsNone(process.poll())
            with open(os.path.join(self.data, "keys", "admin.cap")) as file:
                token = {"CAIRN_CAP": file.read().strip()}
            url = ["--url", f"http://127.0.0.1:{base}"]
            address = self.cairn("put", "-q", self.tree(), "--name", "home/site", *url, environment=token).stdout.strip()
            self.assertEqual(self.cairn("cat", "home/site/index.html", *url).stdout, "front")
            self.assertEqual(self.cairn("resolve", "-q", "home/site", *url).stdout.strip(), address)
            self.assertEqual(self.ask("name", "get", "-q", "home/site").stdout.strip(), address)
            self.assertEqual(b3sum(b"front")[0], self.lines("stat", "stat", "home/site/index.html")[0]["address"])
            services = [line["service"] for line in self.lines("health", "health")]
            self.assertEqual(services, ["gateway", "storage", "index", "registry"])
            self.lines("status", "status")
        finally:
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(wire.PATIENCE), 0)
            process.stdout.close()


if __name__ == "__main__":
    unittest.main()
