"""put, get, cat, ls, stat, rm, pin: what people do all day, through a server of their own."""

import json
import os
import random
import signal
import subprocess
import tempfile
import unittest

import demo
from relay import Relay
from storage_server import MIB, Storage, b3sum, binary, cairn

MANIFEST = "application/vnd.cairn.manifest+cbor"


def setUpModule():
    global SERVER
    SERVER = Storage()


def tearDownModule():
    SERVER.end()


def content(size, seed=7):
    return random.Random(f"{size} {seed}").randbytes(size)


def text_item(text):
    data = text.encode()
    head = bytes([0x60 + len(data)]) if len(data) < 24 else bytes([0x78, len(data)])
    return head + data


def manifest_of(paths):
    """A manifest written by hand, so that it may be wrong."""
    entries = b"".join(
        b"\xa4" + text_item("path") + text_item(path) + text_item("size") + b"\x00" + text_item("type")
        + text_item("text/plain") + text_item("address") + b"\x58\x20" + bytes.fromhex(b3sum(b"")[0][3:])
        for path in paths
    )
    return b"\xa2" + text_item("kind") + text_item("directory") + text_item("entries") + bytes([0x80 + len(paths)]) + entries


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="cairn-cli-")
        self.addCleanup(directory.cleanup)
        self.home = directory.name
        self.environment = {"XDG_STATE_HOME": self.path("state")}
        self.bearer = {**self.environment, "CAIRN_CAP": SERVER.token}  # for a relay, which is not the server

    def path(self, *names):
        return os.path.join(self.home, *names)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def cairn(self, *arguments, url=None, code=0, **options):
        ended = cairn(*arguments, "--url", url or SERVER.url, "--data", SERVER.data,
                      environment=self.bearer if url else self.environment, cwd=self.home, **options)
        said = ended.stderr if isinstance(ended.stderr, str) else ended.stderr.decode()
        self.assertEqual(ended.returncode, code, said)
        return ended

    def put(self, *arguments):
        return self.cairn("put", "-q", *arguments).stdout.strip()


class Files(Case):
    def test_every_size_comes_back_as_it_went_under_the_address_that_b3sum_gives(self):
        for size in (0, 1, 65536, 65537, MIB, MIB + 1, 5 * MIB + 3):
            with self.subTest(size=size):
                data = content(size)
                path = self.write("file", data)
                address = self.put(path)
                self.assertEqual(address, b3sum(data)[0])
                self.cairn("get", address, "-o", "back")
                self.assertEqual(self.read("back"), data)
                out = self.cairn("cat", address, text=False).stdout
                self.assertEqual(out, data)
                os.unlink(self.path("back"))

    def test_stdin_of_unknown_size_is_stored(self):
        for size in (0, 10, MIB, 3 * MIB + 1):
            with self.subTest(size=size):
                data = content(size, "stdin")
                out = self.cairn("put", "-q", "-", input=data, text=False).stdout
                self.assertEqual(out.decode(), b3sum(data)[0] + "\n")

    def test_addresses_of_several_files_are_told_in_order(self):
        paths = [self.write(f"f{i}", f"file {i}".encode()) for i in range(30)]
        lines = self.cairn("put", "-q", *paths).stdout.split()
        self.assertEqual(lines, b3sum(*[f"file {i}".encode() for i in range(30)]))

    def test_media_type_comes_from_the_name_or_the_flag(self):
        large = self.write("map.pmtiles", content(2 * MIB))
        small = self.write("page.html", b"<p>")
        for path, expected in ((large, "application/vnd.pmtiles"), (small, "text/html; charset=utf-8")):
            line = json.loads(self.cairn("stat", "--json", self.put(path)).stdout)
            self.assertEqual(line["type"], expected)
        forced = self.put(self.write("x", content(77)), "--type", "image/png")
        self.assertEqual(json.loads(self.cairn("stat", "--json", forced).stdout)["type"], "image/png")

    def test_a_second_put_sends_nothing(self):
        path = self.write("file", content(3 * MIB, "again"))
        self.assertTrue(json.loads(self.cairn("put", "--json", path).stdout)["fresh"])
        with Relay(SERVER.address) as relay:
            self.assertFalse(json.loads(self.cairn("put", "--json", path, url=relay.url).stdout)["fresh"])
            self.assertLess(relay.up, 10000)

    def test_a_file_that_is_there_is_not_fetched_again(self):
        address = self.put(self.write("file", content(3 * MIB, "there")))
        self.cairn("get", address, "-o", "back")
        line = json.loads(self.cairn("get", "--json", address, "-o", "back").stdout)
        self.assertEqual((line["size"], line["transferred"]), (3 * MIB, 0))

    def test_some_of_several_failed_is_2_and_the_others_are_stored(self):
        good = self.write("good", b"good")
        ended = self.cairn("put", "-q", good, self.path("absent"), code=2)
        self.assertEqual(ended.stdout, b3sum(b"good")[0] + "\n")
        self.assertIn("absent", ended.stderr)

    def test_rm_pin_unpin(self):
        address = self.put(self.write("file", b"to be pinned"))
        self.cairn("pin", address)
        refused = self.cairn("rm", address, code=9)
        self.assertIn("error[pinned]", refused.stderr)
        self.assertIn("hint", refused.stderr)
        self.cairn("unpin", address)
        self.cairn("rm", address)
        self.cairn("stat", address, code=3)
        self.cairn("get", address, "-o", "gone", code=3)
        self.assertFalse(os.path.exists(self.path("gone")))

    def test_ls_lists_every_page(self):
        contents = [f"listed {i}".encode() for i in range(25)]
        paths = [self.write(f"l{i}", data) for i, data in enumerate(contents)]
        self.put(*paths)
        lines = set(self.cairn("ls", "-q").stdout.split())
        self.assertLessEqual(set(b3sum(*contents)), lines)
        one = b3sum(contents[0])[0]
        self.assertEqual(self.cairn("ls", "-q", "--prefix", one[:20]).stdout, one + "\n")


    def test_a_missing_directory_is_named_and_is_not_the_object_s_fault(self):
        address = self.put(self.write("here", b"bytes"))
        ended = self.cairn("get", address, "-o", "nodir/x", code=1)
        self.assertIn("error[io_failed]", ended.stderr)
        self.assertIn("nodir/x", ended.stderr)
        self.assertIn("no directory nodir\n", ended.stderr)

    def test_a_type_that_is_none_is_refused_before_anything_is_sent(self):
        self.write("file", b"typed")
        for wrong in ("bad type", "text", "text/", "/plain", "text /plain", "a/b/c", "text/pl\u00e4in", "", ";a=b", "text/plain\n"):
            self.assertIn("--type", self.cairn("put", "file", "--type", wrong, code=64).stderr)
        for right in ("text/plain", "text/plain; charset=utf-8", "text/plain;charset=utf-8", "image/svg+xml"):
            address = self.cairn("put", "-q", "file", "--type", right).stdout.strip()
        self.assertEqual(address, b3sum(b"typed")[0])

    def test_what_only_a_directory_has_is_refused_for_a_file(self):
        self.write("file", b"a file")
        self.write("tree/file", b"a file in a directory")
        previous = self.cairn("put", "-q", "tree").stdout.strip()
        for flag in (["--title", "x"], ["--previous", previous], ["--created"]):
            self.assertIn(flag[0], self.cairn("put", "file", *flag, code=64).stderr)
            self.assertIn(flag[0], self.cairn("put", "tree", "-", *flag, input="stdin", code=64).stderr)
            self.cairn("put", "tree", *flag)

    def test_stat_tells_whether_an_object_is_pinned_to_whom_may_list(self):
        address = self.put(self.write("pinned", b"is it pinned"))
        self.assertIs(json.loads(self.cairn("stat", "--json", address).stdout)["pinned"], False)
        self.cairn("pin", address)
        self.assertIs(json.loads(self.cairn("stat", "--json", address).stdout)["pinned"], True)
        self.assertIn("pinned   yes", self.cairn("stat", address).stdout)
        anybody = cairn("stat", "--json", address, "--url", SERVER.url, cwd=self.home)
        self.assertNotIn("pinned", json.loads(anybody.stdout))

    def test_hints_speak_of_what_the_verb_takes(self):
        for verb in ("rm", "pin", "unpin"):
            self.assertNotIn("/PATH", self.cairn(verb, "README.md", code=64).stderr)
        self.assertIn("/PATH", self.cairn("stat", "README.md", code=64).stderr)
        self.assertIn("needs FILE", cairn("config", "check").stderr)
        narrow = cairn("cap", "mint", "--op", "storage.get", "--data", SERVER.data).stdout.strip()
        refused = cairn("ls", "--url", SERVER.url, environment={"CAIRN_CAP": narrow}, cwd=self.home).stderr
        self.assertIn('cairn cap inspect "$CAIRN_CAP"', refused)


class Prefixes(Case):
    def test_a_beginning_names_its_object_and_an_ambiguous_one_lists_the_candidates(self):
        first, second = b"object 3761\n", b"object 597\n"  # both b3:be9f46…
        one, other = b3sum(first, second)
        self.assertEqual(one[:9], other[:9])
        self.put(self.write("one", first))
        self.assertEqual(self.cairn("cat", one[:9]).stdout.encode(), first)
        self.put(self.write("other", second))
        ended = self.cairn("cat", one[:9], code=9)
        self.assertIn(one, ended.stderr)
        self.assertIn(other, ended.stderr)
        self.assertEqual(ended.stdout, "")
        self.assertEqual(self.cairn("cat", one[:20]).stdout.encode(), first)

    def test_what_is_no_address_is_a_mistake_of_usage(self):
        for name in ("README.md", "b3:abc", "b3:" + "g" * 64, "b3:" + "a" * 65):
            self.cairn("stat", name, code=64)

    def test_nothing_begins_so(self):
        self.cairn("cat", "b3:ffffffffffff", code=3)


class Directories(Case):
    def setUp(self):
        super().setUp()
        self.files = {"tree/index.html": b"<h1>", "tree/a/empty": b"", "tree/a/b/large.bin": content(2 * MIB + 5),
                      "tree/a b/ü": b"name", "tree/a.txt": b"beside a/"}
        for name, data in self.files.items():
            self.write(name, data)

    def test_the_same_directory_has_the_same_address_wherever_it_is(self):
        address = self.put("tree")
        os.rename(self.path("tree"), self.path("moved"))
        self.assertEqual(self.put("moved/"), address)
        self.assertNotEqual(self.put("moved", "--title", "A title"), address)
        self.write("moved/more", b"")
        self.assertNotEqual(self.put("moved"), address)

    def test_a_directory_comes_back_whole(self):
        address = self.put("tree")
        self.cairn("get", address, "-o", "back")
        self.assertEqual(subprocess.run(["diff", "-r", self.path("tree"), self.path("back")], check=False).returncode, 0)
        again = [json.loads(line) for line in self.cairn("get", "--json", address, "-o", "back").stdout.splitlines()]
        self.assertEqual(sum(line["transferred"] for line in again), 0)

    def test_ls_and_cat_look_into_it(self):
        address = self.put("tree")
        lines = [json.loads(line) for line in self.cairn("ls", "--json", address).stdout.splitlines()]
        self.assertEqual([line["path"] for line in lines],
                         sorted((name[5:] for name in self.files), key=str.encode))
        self.assertEqual(self.cairn("cat", address + "/a b/ü").stdout, "name")
        self.cairn("cat", address + "/nowhere", code=3)
        self.cairn("cat", address, code=1)

    def test_a_manifest_over_the_body_cap_is_still_a_directory(self):
        for i in range(9000):
            self.write(f"wide/{'x' * 60}{i}", b"same")
        address = self.put("wide")
        facts = json.loads(self.cairn("stat", "--json", address).stdout)
        self.assertEqual((facts["type"], facts["entries"]), (MANIFEST, 9000))
        self.assertGreater(facts["size"], MIB)

    def test_links_and_pipes_are_skipped_with_a_warning_and_2(self):
        plain = self.put("tree")
        os.symlink("index.html", self.path("tree/link"))
        os.mkfifo(self.path("tree/pipe"))
        ended = self.cairn("put", "-q", "tree", code=2)
        self.assertEqual(ended.stdout.strip(), plain)
        self.assertIn("tree/link", ended.stderr)
        self.assertIn("tree/pipe", ended.stderr)
        os.unlink(self.path("tree/pipe"))
        followed = self.put("tree", "--follow")
        self.assertEqual(self.cairn("cat", followed + "/link").stdout, "<h1>")

    def test_a_link_that_leads_up_does_not_make_an_endless_tree(self):
        os.symlink("..", self.path("tree/a/up"))
        ended = self.cairn("put", "-q", "tree", "--follow", code=2)
        self.assertIn("leads back", ended.stderr)

    def test_a_manifest_whose_paths_lead_out_is_refused_whole(self):
        self.put(self.write("empty", b""))
        for paths in (["../escaped"], ["/tmp/escaped"], ["a/../../escaped"], ["a//b"], ["b", "a"], ["a", "a/b"]):
            with self.subTest(paths=paths):
                address = self.put(self.write("evil", manifest_of(paths)), "--type", MANIFEST)
                self.cairn("get", address, "-o", "into", code=1)
                self.assertFalse(os.path.exists(self.path("escaped")))
                self.assertFalse(os.path.exists(self.path("into")))
        address = self.put(self.write("good", manifest_of(["a/b"])), "--type", MANIFEST)
        self.cairn("get", address, "-o", "into")
        self.assertEqual(self.read("into/a/b"), b"")

    def test_a_link_in_the_destination_is_not_followed(self):
        address = self.put("tree")
        os.makedirs(self.path("back"))
        os.makedirs(self.path("outside"))
        os.symlink(self.path("outside"), self.path("back/a"))
        self.cairn("get", address, "-o", "back", code=2)
        self.assertEqual(os.listdir(self.path("outside")), [])
        self.assertEqual(self.read("back/index.html"), b"<h1>")


class Breaks(Case):
    def test_a_broken_put_sends_only_what_is_missing(self):
        path = self.write("file", content(12 * MIB, "broken put"))
        with Relay(SERVER.address) as relay:
            relay.up_limit = 6 * MIB
            self.cairn("put", path, url=relay.url, code=69)
            relay.heal()
            self.assertEqual(self.cairn("put", "-q", path, url=relay.url).stdout.strip(), b3sum(self.read("file"))[0])
            self.assertLess(relay.up, 11 * MIB)
            self.assertEqual(relay.asked("POST /uploads HTTP"), 0)
        self.assertEqual(os.listdir(self.path("state/cairn/uploads")), [])

    def test_a_file_that_changed_meanwhile_begins_anew(self):
        path = self.write("file", content(8 * MIB, "first"))
        with Relay(SERVER.address) as relay:
            relay.up_limit = 4 * MIB
            self.cairn("put", path, url=relay.url, code=69)
            relay.heal()
            changed = content(8 * MIB, "second")
            self.write("file", changed)
            os.utime(path, ns=(1, 1))
            self.assertEqual(self.cairn("put", "-q", path, url=relay.url).stdout.strip(), b3sum(changed)[0])

    def test_a_broken_get_transfers_only_the_rest(self):
        data = content(9 * MIB, "broken get")
        address = self.put(self.write("file", data))
        with Relay(SERVER.address) as relay:
            relay.down_limit = 4 * MIB
            self.cairn("get", address, "-o", "back", url=relay.url, code=69)
            self.assertFalse(os.path.exists(self.path("back")))
            held = os.path.getsize(self.path("back.part"))
            self.assertGreater(held, MIB)
            relay.heal()
            line = json.loads(self.cairn("get", "--json", address, "-o", "back", url=relay.url).stdout)
            self.assertLessEqual(line["transferred"], len(data) - held // 65536 * 65536)
        self.assertEqual(self.read("back"), data)
        self.assertFalse(os.path.exists(self.path("back.part")))

    def test_a_damaged_part_is_found_and_replaced(self):
        data = content(3 * MIB, "damaged")
        address = self.put(self.write("file", data))
        wrong = bytearray(data[: 2 * MIB])
        wrong[MIB + 5] ^= 0x40
        self.write("back.part", bytes(wrong))
        line = json.loads(self.cairn("get", "--json", address, "-o", "back").stdout)
        self.assertEqual(line["transferred"], 2 * MIB)
        self.assertEqual(self.read("back"), data)

    def test_a_bit_that_turned_on_the_way_is_an_integrity_failure(self):
        data = content(400_000, "flipped")
        address = self.put(self.write("file", data))
        with Relay(SERVER.address) as relay:
            relay.flip = 250_000
            ended = self.cairn("get", address, "-o", "back", url=relay.url, code=4)
            self.assertIn("error[integrity]", ended.stderr)
            self.assertFalse(os.path.exists(self.path("back")))
            relay.heal()
            relay.flip = 250_000
            out = self.cairn("cat", address, url=relay.url, code=4, text=False).stdout
            self.assertTrue(data.startswith(out) and len(out) < len(data))

    def test_an_interrupt_is_130_and_the_next_put_goes_on(self):
        path = self.write("file", content(40 * MIB, "interrupted"))
        with Relay(SERVER.address) as relay:
            arguments = [binary(), "put", "-q", path, "--url", relay.url, "--data", SERVER.data]
            process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       env=demo.clean_environment(self.bearer))
            self.assertTrue(relay.wait_for(lambda: relay.up > 8 * MIB))
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130)
            process.stdout.close()
            relay.heal()
            self.cairn("put", "-q", path, url=relay.url)
            self.assertLess(relay.up, 36 * MIB)

    def test_an_interrupt_while_stdin_is_awaited_is_130(self):
        with Relay(SERVER.address) as relay:
            arguments = [binary(), "put", "-", "--url", relay.url, "--data", SERVER.data]
            process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       env=demo.clean_environment(self.bearer))
            process.stdin.write(content(3 * MIB))
            process.stdin.flush()
            self.assertTrue(relay.wait_for(lambda: relay.up > 2 * MIB))
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130)
            process.stdin.close()

    def test_a_reader_that_leaves_is_no_reason_to_complain(self):
        address = self.put(self.write("file", content(5 * MIB, "pipe")))
        process = subprocess.Popen([binary(), "cat", address, "--url", SERVER.url], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=demo.clean_environment(self.environment))
        process.stdout.read(10)
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()
        process.wait(60)


class Busy(Case):
    def test_a_rate_limit_is_obeyed_and_everything_arrives(self):
        for i in range(120):
            self.write(f"many/{i}", f"rated {i}".encode())
        with Storage({"server.max_rps": 40}, roomy=False) as server:
            ended = cairn("put", "-q", self.path("many"), "--url", server.url, "--data", server.data,
                          environment=self.environment)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertGreater(server.metric('rejected_total{reason="rate"}'), 0)
