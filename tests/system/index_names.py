"""Names over HTTP: set, list, history, conditions, and the faults that the specification names."""

import os
import shutil
import signal
import socket
import unittest

import wire
from index_server import Index
from storage_server import b3sum, cairn

FIRST, SECOND = "b3:" + "1" * 64, "b3:" + "2" * 64


def is_closed(connection):
    """By the server; or it has said that it will be."""
    try:
        return connection.socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) is not None
    except BlockingIOError:
        return False
    except OSError:
        return True


class Names(unittest.TestCase):
    def test_a_name_leads_where_it_was_set_and_its_history_is_kept(self):
        with Index() as index:
            made = index.put_name("docs/readme", FIRST, note="first")
            self.assertEqual((made.status, made.get("ETag"), made.get("Location")), (201, '"1"', "/names/docs/readme"))
            again = index.put_name("docs/readme", SECOND)
            self.assertEqual((again.status, again.get("ETag")), (200, '"2"'))
            found = index.ask_openly("GET", "/resolve/docs/readme")
            self.assertEqual(found.get("Cache-Control"), "public, max-age=5")
            self.assertEqual(found.json(), {"key": "name:docs/readme", "kind": "name", "manifest_cid": SECOND, "source": "db",
                                            "etag": "2", "freshness_s": 0, "providers_hint": f"/providers/{SECOND}"})
            self.assertEqual(index.ask_openly("GET", "/resolve/name:docs/readme").body, found.body)
            self.assertEqual(index.ask_openly("GET", "/resolve/docs/readme", If_None_Match='"2"').status, 304)
            removed = index.ask("DELETE", "/names/docs/readme", If_Match='"2"')
            self.assertEqual((removed.status, removed.get("ETag")), (200, '"3"'))
            self.assertEqual(index.ask_openly("GET", "/resolve/docs/readme").status, 404)
            self.assertEqual(index.ask("DELETE", "/names/docs/readme").status, 404)
            past = index.ask_openly("GET", "/names/docs/readme?history").json()["changes"]
            self.assertEqual([(one["sequence"], one["manifest"]) for one in past], [(3, None), (2, SECOND), (1, FIRST)])
            self.assertEqual(past[2]["note"], "first")
            self.assertTrue(all(one["by"] for one in past))
            page = index.ask_openly("GET", "/names/docs/readme?history&limit=2").json()
            self.assertEqual((len(page["changes"]), page["next"]), (2, 2))
            rest = index.ask_openly("GET", "/names/docs/readme?history&after=2").json()
            self.assertEqual([one["sequence"] for one in rest["changes"]], [1])
            self.assertNotIn("next", rest)

    def test_a_write_under_a_condition_that_does_not_hold_is_412(self):
        with Index() as index:
            self.assertEqual(index.put_name("a", FIRST, If_Match='"1"').status, 412)
            self.assertEqual(index.put_name("a", FIRST, If_None_Match="*").status, 201)
            for fields in ({"If_None_Match": "*"}, {"If_Match": '"2"'}, {"If_Match": 'W/"1"'}, {"If_Match": "1"}):
                answer = index.put_name("a", SECOND, **fields)
                self.assertEqual((answer.status, answer.error()["code"]), (412, "precondition_failed"), fields)
            self.assertEqual(index.put_name("a", SECOND, If_Match='"7", "1"').status, 200)
            self.assertEqual(len(index.ask_openly("GET", "/names/a?history").json()["changes"]), 2)

    def test_names_are_listed_in_pages(self):
        with Index() as index:
            for i in range(25):
                self.assertEqual(index.put_name(f"list/{i:02}", FIRST).status, 201)
            index.put_name("other", FIRST)
            index.ask("DELETE", "/names/list/07")
            seen, after = [], ""
            while True:
                page = index.ask_openly("GET", f"/names?prefix=list/&limit=7&after={after}").json()
                seen += [one["name"] for one in page["names"]]
                if "next" not in page:
                    break
                after = page["next"]
            self.assertEqual(seen, [f"list/{i:02}" for i in range(25) if i != 7])

    def test_a_name_with_dots_nul_or_300_bytes_is_400(self):
        with Index() as index:
            for name in ("a/../b", "a/%2e%2e/b", "..", "a%00b", "x" * 300, "A", "a//b", "a/", "%2Fa", "a%20b", "a%C3%A9"):
                for method, target in (("PUT", f"/names/{name}"), ("GET", f"/names/{name}"), ("GET", f"/resolve/{name}"), ("DELETE", f"/names/{name}")):
                    body = b'{"manifest":"%s"}' % FIRST.encode() if method == "PUT" else None
                    answer = index.ask(method, target, body)
                    self.assertEqual((answer.status, answer.error()["code"]), (400, "malformed"), (method, name, answer))
            for key in ("b3:", "b3:12", "b3:" + "g" * 64, "b3:" + "1" * 65, "name:", "name:b3:x"):
                self.assertEqual(index.ask_openly("GET", f"/resolve/{key}").status, 400, key)

    def test_an_unknown_json_field_is_400(self):
        with Index() as index:
            for body in (b'{"manifest":"%s","x":1}' % FIRST.encode(), b"{}", b"[]", b'{"manifest":1}', b'{"manifest":"b3:1"}',
                         b'{"manifest":"%s","note":"a\\u0001"}' % FIRST.encode(), b'{"manifest":"%s","note":"%s"}' % (FIRST.encode(), b"n" * 257)):
                answer = index.ask("PUT", "/names/a", body)
                self.assertEqual((answer.status, answer.error()["code"]), (400, "malformed"), (body, answer))
            self.assertEqual(index.ask("PUT", "/names/a", b" " * 5000).status, 413)
            self.assertEqual(index.ask_openly("GET", "/names/a").status, 404)

    def test_writes_need_a_capability_and_reads_do_not(self):
        with Index() as index:
            for method, target in (("PUT", "/names/a"), ("DELETE", "/names/a"), ("PUT", f"/manifests/{FIRST}"), ("POST", "/providers")):
                self.assertEqual(index.ask_openly(method, target, b"{}" if method != "DELETE" else None).status, 401, target)
            for target in ("/names", "/names/a", "/resolve/a", f"/providers/{FIRST}", f"/manifests/{FIRST}"):
                self.assertIn(index.ask_openly("GET", target).status, (200, 404), target)

    def test_a_capability_for_some_names_changes_no_others(self):
        with Index() as index:
            minted = cairn("cap", "mint", "--data", index.data, "--op", "index.write", "--name", "docs/")
            self.assertEqual(minted.returncode, 0, minted.stderr)
            narrow = index.bearer(minted.stdout.strip())
            self.assertEqual(index.put_name("docs/a", FIRST, **narrow).status, 201)
            for name in ("docs", "docs2/a", "a"):
                self.assertEqual(index.put_name(name, FIRST, **narrow).status, 403, name)
            self.assertEqual(index.ask("DELETE", "/names/docs/a", **narrow).status, 200)
            self.assertEqual(index.ask("PUT", f"/manifests/{FIRST}", b"x", **narrow).status, 403)

    def test_one_client_with_1000_connections_is_refused_its_257th_and_others_are_served(self):
        with Index({"server.max_conns_per_ip": 256, "uds.path": ""}) as index:
            index.put_name("a", FIRST)
            held = []
            try:
                for _ in range(256):
                    held.append(index.connect())
                    held[-1].send(b"GET /resolve/a HTTP/1.1\r\n")
                for _ in range(44):
                    held.append(index.connect())
                    held[-1].send(b"GET /resolve/a HTTP/1.1\r\n")
                # A newcomer is refused, or one that is idle gives way to it: more are never held.
                wire.poll(lambda: sum(not is_closed(one) for one in held) <= 256 + 8, "the cap")
                with socket.create_connection(index.address, wire.PATIENCE, ("127.0.0.2", 0)) as other:
                    other.sendall(b"GET /resolve/a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                    self.assertTrue(other.recv(64).startswith(b"HTTP/1.1 200 "))
            finally:
                for one in held:
                    one.close()


class Manifests(unittest.TestCase):
    def manifest(self):
        # {"kind": "directory", "entries": []} in its one encoding.
        return b"\xa2dkindidirectorygentries\x80"

    def test_a_manifest_is_kept_under_its_address_alone(self):
        with Index() as index:
            content = self.manifest()
            [address] = b3sum(content)
            self.assertEqual(index.ask("PUT", f"/manifests/{FIRST}", content).status, 409)
            self.assertEqual(index.ask("PUT", f"/manifests/{address}", content).status, 201)
            self.assertEqual(index.ask("PUT", f"/manifests/{address}", content).status, 200)
            found = index.ask_openly("GET", f"/manifests/{address}")
            self.assertEqual((found.status, found.body, found.get("Content-Type")), (200, content, "application/vnd.cairn.manifest+cbor"))
            self.assertEqual(index.ask_openly("GET", f"/resolve/{address}").json()["kind"], "cid")
            [other] = b3sum(content + b"\0")
            self.assertEqual(index.ask("PUT", f"/manifests/{other}", content + b"\0").status, 400)
            self.assertEqual(index.ask("PUT", f"/manifests/{address}", b"\0" * ((1 << 20) + 1)).status, 413)

    def test_bytes_that_do_not_match_are_502_and_dropped(self):
        with Index() as index:
            content = self.manifest()
            [address] = b3sum(content)
            index.ask("PUT", f"/manifests/{address}", content)
            directory = os.path.join(index.directory, "segments")
            # Behind it comes another record, or it would be a torn tail, which is cut.
            index.put_name("later", FIRST)
            index.stop()
            with open(path_of(directory, content), "r+b") as file:
                data = file.read()
                file.seek(data.index(content))
                file.write(content[:-1] + b"\x81")
            index.start()
            answer = index.ask_openly("GET", f"/manifests/{address}")
            self.assertEqual((answer.status, answer.error()["code"]), (502, "integrity"))
            self.assertEqual(index.metric('integrity_fail_total{reason="checksum"}'), 1)
            for _ in range(100):
                if index.ask_openly("GET", f"/manifests/{address}").status == 404:
                    break
            self.assertEqual(index.ask_openly("GET", f"/manifests/{address}").status, 404)
            self.assertEqual(index.ask("PUT", f"/manifests/{address}", content).status, 201)


def path_of(directory, content):
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        with open(path, "rb") as file:
            if content in file.read():
                return path
    raise AssertionError("no segment has it")


class Lives(unittest.TestCase):
    def test_names_survive_a_kill_and_a_lost_map(self):
        with Index() as index:
            for i in range(200):
                self.assertIn(index.put_name(f"n/{i % 50}", FIRST if i % 2 else SECOND).status, (200, 201))
            index.process.send_signal(signal.SIGKILL)
            index.wait()
            index.start()
            self.assertEqual(len(index.ask_openly("GET", "/names?limit=1000").json()["names"]), 50)
            index.kill()
            shutil.rmtree(index.map)
            index.start()
            self.assertEqual(len(index.ask_openly("GET", "/names?limit=1000").json()["names"]), 50)
            self.assertEqual(index.ask_openly("GET", "/names/n/7").json()["sequence"], 4)


if __name__ == "__main__":
    unittest.main()
