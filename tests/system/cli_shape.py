"""What every verb promises: its streams, its exit codes, its JSON, its help."""

import json
import os
import re
import socket
import subprocess
import tempfile
import unittest

import demo
from storage_server import Storage, b3sum, binary, cairn

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TYPES = {"null": type(None), "object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float)}


def mismatch(schema, value, where="$"):
    """Why a value does not fit a schema (of the words that docs/schemas use); None when it does."""
    known = {"$schema", "title", "description", "type", "properties", "required", "additionalProperties", "enum", "const",
             "pattern", "oneOf", "items", "minimum", "format"}
    if set(schema) - known:
        return f"{where}: the schema says {set(schema) - known}"
    if "oneOf" in schema:
        problems = [mismatch(one, value, where) for one in schema["oneOf"]]
        return None if problems.count(None) == 1 else f"{where}: {problems}"
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r}"
    kind = schema.get("type")
    if kind == "integer":
        if not isinstance(value, int) or isinstance(value, bool) or value < schema.get("minimum", value):
            return f"{where}: {value!r} is not such an integer"
    elif kind and not isinstance(value, TYPES[kind]):
        return f"{where}: {value!r} is not {kind}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{where}: {value!r}"
    if kind == "object":
        missing = [name for name in schema.get("required", []) if name not in value]
        extra = [name for name in value if name not in schema.get("properties", {})]
        if missing or extra and schema.get("additionalProperties") is False:
            return f"{where}: missing {missing}, too many {extra}"
        for name, inner in schema.get("properties", {}).items():
            if name in value and (problem := mismatch(inner, value[name], f"{where}.{name}")):
                return problem
    if kind == "array" and "items" in schema:
        for i, item in enumerate(value):
            if problem := mismatch(schema["items"], item, f"{where}[{i}]"):
                return problem
    return None


def schema_of(name):
    with open(os.path.join(ROOT, "docs", "schemas", name + ".json")) as file:
        return json.load(file)


def setUpModule():
    global SERVER
    SERVER = Storage()


def tearDownModule():
    SERVER.end()


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="cairn-shape-")
        self.addCleanup(directory.cleanup)
        self.home = directory.name

    def cairn(self, *arguments, code=0, environment=None, **options):
        given = {"XDG_STATE_HOME": os.path.join(self.home, "state"), **(environment or {})}
        ended = cairn(*arguments, environment=given, cwd=self.home, **options)
        self.assertEqual(ended.returncode, code, ended.stderr)
        return ended

    def ask(self, *arguments, **options):
        return self.cairn(*arguments, "--url", SERVER.url, "--data", SERVER.data, **options)

    def write(self, name, text):
        with open(os.path.join(self.home, name), "w") as file:
            file.write(text)
        return name


class Json(Case):
    def lines(self, schema, *arguments, ask=True, code=0, stream="stdout"):
        ended = (self.ask if ask else self.cairn)(*arguments, "--json", code=code)
        lines = getattr(ended, stream).splitlines()
        self.assertTrue(lines, arguments)
        for line in lines:
            self.assertIsNone(mismatch(schema_of(schema), json.loads(line)), arguments)
        return [json.loads(line) for line in lines]

    def test_every_verb_keeps_to_its_schema(self):
        os.mkdir(os.path.join(self.home, "dir"))
        self.write("dir/a", "in a directory")
        file = self.lines("put", "put", self.write("file", "json"))[0]["address"]
        tree = self.lines("put", "put", "dir", "--title", "T", "--created", "--previous", file)[0]["address"]
        self.lines("get", "get", tree, "-o", "back")
        self.lines("ls", "ls")
        self.lines("ls", "ls", tree)
        self.lines("stat", "stat", file, tree)
        self.lines("pin", "pin", file)
        self.lines("error", "rm", file, code=9, stream="stderr")
        self.lines("unpin", "unpin", file)
        self.lines("rm", "rm", file)
        self.lines("error", "stat", file, code=3, stream="stderr")
        self.lines("status", "status")
        self.lines("health", "health")
        self.lines("doctor", "doctor")
        token = self.lines("cap-mint", "cap", "mint", "--data", SERVER.data, "--op", "storage.get", ask=False)[0]["token"]
        self.lines("cap-attenuate", "cap", "attenuate", token, "--tenant", "home", ask=False)
        self.lines("cap-inspect", "cap", "inspect", token, ask=False)
        self.lines("config-show", "config", "show", "storage", ask=False)
        self.write("good.toml", "[server]\nmax_conns = 10\n")
        self.write("bad.toml", "[server]\nmax_conns = 0\nmax_cons = 1\n")
        self.lines("config-check", "config", "check", "storage", "good.toml", ask=False)
        self.assertEqual(len(self.lines("config-check", "config", "check", "storage", "bad.toml", ask=False, code=78)), 2)
        self.lines("config-show", "config", "show", ask=False)
        self.write("up.toml", "shards = 2\n[storage.server]\nmax_conns = 10\n[registry.server]\nmax_conns = 20\n")
        self.write("bad_up.toml", "[storage.server]\nmax_conns = 0\n[registry]\nmax_cons = 1\n")
        self.lines("config-check", "config", "check", "up.toml", ask=False)
        self.assertEqual(len(self.lines("config-check", "config", "check", "bad_up.toml", ask=False, code=78)), 2)
        shown = {line["key"]: line for line in self.lines("config-show", "config", "show", "--config", "up.toml", ask=False)}
        self.assertEqual((shown["shards"]["value"], shown["storage.server.max_conns"]["value"]), (2, 10))
        self.assertEqual(shown["registry.server.max_conns"]["value"], 20)
        self.write("large.toml", '[server]\nmemory_bytes = "128MiB"\n[storage]\ncache_bytes = "8GiB"\n')
        large = self.lines("config-check", "config", "check", "storage", "large.toml", ask=False, code=78)
        self.assertIn("storage.cache_bytes", large[0]["rule"])
        self.lines("config-docs", "config", "docs", "storage", ask=False)
        self.lines("topology", "topology", "storage", ask=False)
        self.lines("version", "version", ask=False)
        self.lines("error", "no-such-verb", ask=False, code=64, stream="stderr")

    def test_every_schema_is_one(self):
        for name in os.listdir(os.path.join(ROOT, "docs", "schemas")):
            self.assertIn("title", schema_of(name.removesuffix(".json")))


class Finding(Case):
    def test_nobody_there_is_69_with_what_was_asked_and_what_to_do(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        ended = self.cairn("ls", "--url", f"http://127.0.0.1:{port}", code=69)
        lines = ended.stderr.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertTrue(lines[0].startswith("error[unreachable]: "))
        self.assertTrue(lines[1].startswith("  asked  ") and str(port) in lines[1])
        self.assertTrue(lines[2].startswith("  hint   "))
        self.assertEqual(ended.stdout, "")

    def test_something_that_is_not_cairn_is_69(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            process = subprocess.Popen([binary(), "health", "--url", "127.0.0.1:%d" % other.getsockname()[1]],
                                       stderr=subprocess.PIPE, env=demo.clean_environment())
            connection, _ = other.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
            self.assertEqual(process.wait(60), 69)
            process.stderr.close()

    def test_the_environment_names_the_server_and_a_flag_is_stronger(self):
        self.cairn("health", environment={"CAIRN_URL": SERVER.url})
        self.cairn("health", "--url", SERVER.url, environment={"CAIRN_URL": "http://127.0.0.1:1"})
        self.cairn("health", "--url", "gopher://x", code=64)

    def test_the_data_directory_s_socket_is_found(self):
        with Storage({"uds.path": os.path.join(self.home, "data", "storage.sock")}, directory=os.path.join(self.home, "data")):
            ended = self.cairn("put", "-q", self.write("file", "by socket"), "--data", "data")
            self.assertEqual(ended.stdout.strip(), b3sum(b"by socket")[0])
            self.assertIn("storage.sock", self.cairn("status", "--data", "data").stdout)


class Talking(Case):
    def test_help_of_every_verb(self):
        top = self.cairn("help").stdout
        verbs = re.findall(r"^  ([a-z]+) {2,}[A-Z]", top, re.MULTILINE)
        self.assertIn("put", verbs)
        for verb in verbs:
            self.assertIn(f"cairn {verb}", self.cairn(verb, "--help").stdout)
            for below in re.findall(r"^  ([a-z]+) {2,}[A-Z]", self.cairn(verb, "-h").stdout, re.MULTILINE):
                if verb in ("cap", "config", "registry", "key"):
                    self.assertIn(f"cairn {verb} {below}", self.cairn("help", verb, below).stdout)

    def test_usage_mistakes_are_64_and_say_what_is_near(self):
        for arguments, near in ((["pt", "x"], "cairn put"), (["put", "--jsn", "x"], "--json"), (["put"], "PATH"),
                                (["cap"], "--help"), (["stat", "--color", "pink", "b3:abcdef"], "auto|always|never"),
                                (["version", "extra"], "extra"), (["put", "-x", "f"], "-x"),
                                (["get", "b3:abcdef", "-o"], "FILE"), (["ls", "--prefix", "a", "--prefix", "b"], "twice"),
                                (["ls", "--data", ""], "--data is empty"), (["ls", "--url="], "--url is empty"),
                                (["get", "b3:abcdef", "-o", ""], "--output is empty"), (["put", ""], "PATH is empty"),
                                (["put", "--previous", "x", "f"], "--previous"), (["put", "--type", "a\r\nb: c", "f"], "media type")):
            ended = self.cairn(*arguments, code=64)
            self.assertTrue(ended.stderr.startswith("error[usage]: "), ended.stderr)
            self.assertIn(near, ended.stderr)
            self.assertEqual(ended.stdout, "")
        self.assertNotEqual(self.cairn(code=64).stderr, "")

    def test_options_may_stand_anywhere_and_two_dashes_end_them(self):
        self.write("--odd", "odd name")
        for arguments in (["--json", "put", "file"], ["put", "file", "--json"], ["put", "--json", "--", "file"]):
            self.write("file", "anywhere")
            json.loads(self.ask(*arguments[:-1], *arguments[-1:]).stdout if "--" not in arguments else
                       self.cairn("put", "--json", f"--url={SERVER.url}", "--data", SERVER.data, "--", "file").stdout)
        ended = self.cairn("put", "-q", "--url", SERVER.url, "--data", SERVER.data, "--", "--odd")
        self.assertEqual(ended.stdout.strip(), b3sum(b"odd name")[0])

    def test_colour_only_where_it_is_wanted(self):
        self.assertNotIn("\033", self.ask("stat", "b3:" + "0" * 64, code=3).stderr)
        self.assertIn("\033", self.ask("stat", "b3:" + "0" * 64, "--color", "always", code=3).stderr)

    def test_names_of_strangers_do_not_drive_the_terminal(self):
        os.mkdir(os.path.join(self.home, "dir"))
        self.write("dir/\033[31mred\n", "x")
        address = self.ask("put", "-q", "dir").stdout.strip()
        out = self.ask("ls", address).stdout
        self.assertNotIn("\033", out)
        self.assertEqual(len(out.splitlines()), 1)

    def test_completions_are_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.cairn("completion", shell).stdout
            self.assertIn("attenuate", script)
        checked = subprocess.run(["bash", "-n"], input=self.cairn("completion", "bash").stdout, text=True,
                                 capture_output=True, check=False)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.cairn("completion", "tcsh", code=64)

    def test_bash_completes_verbs_options_choices_and_files(self):
        self.write("some-file", "")
        script = self.cairn("completion", "bash").stdout
        for words, expected in ((["cairn", "pu"], "put"), (["cairn", "cap", "at"], "attenuate"), (["cairn", "put", "--fol"], "--follow"),
                                (["cairn", "put", "some-"], "some-file"), (["cairn", "ls", "--color", "al"], "always"),
                                (["cairn", "topology", "sto"], "storage"), (["cairn", "--json", "sta"], "stat")):
            quoted = " ".join(f"'{word}'" for word in words)
            ask = f"{script}\ncompopt() {{ :; }}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _cairn; echo \"${{COMPREPLY[@]}}\""
            ended = subprocess.run(["bash", "-c", ask], text=True, capture_output=True, cwd=self.home, check=False)
            self.assertIn(expected, ended.stdout.split(), f"{words} {ended.stderr}")

    def test_the_reference_page_is_what_the_program_says(self):
        self.cairn("docs", "made")
        with open(os.path.join(self.home, "made", "cli.md")) as made, open(os.path.join(ROOT, "docs", "cli.md")) as kept:
            self.assertEqual(made.read(), kept.read())


class Doctor(Case):
    def test_a_key_that_others_can_read_is_found(self):
        with Storage() as server:
            key = os.path.join(server.data, "keys", "admin.cap")
            self.cairn("doctor", "--url", server.url, "--data", server.data)
            os.chmod(key, 0o644)
            ended = self.cairn("doctor", "--url", server.url, "--data", server.data, code=1)
            self.assertRegex(ended.stdout, r"(?m)^fail +keys +.*admin\.cap")
            self.assertIn("chmod 600", ended.stdout)
            os.chmod(key, 0o600)

    def test_no_server_is_a_finding_not_an_end(self):
        ended = self.cairn("doctor", "--url", "http://127.0.0.1:1", code=1)
        self.assertRegex(ended.stdout, r"(?m)^fail +server ")
        self.assertRegex(ended.stdout, r"(?m)^ok +space ")
