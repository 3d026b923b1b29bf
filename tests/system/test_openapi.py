"""The HTTP reference says what the servers do: every operation is there, asks for what it says, and answers as it says."""

import base64
import json
import os
import tempfile
import unittest

import wire
from cli_shape import mismatch, schema_of
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from index_server import Index, provider_record
from registry_server import Registry, approval, region
from storage_server import PART, Storage, b3sum, cairn

METHODS = ("get", "head", "put", "post", "patch", "delete", "options")
SAMPLES = {"Address": "b3:" + "0" * 64, "Id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "Int": "0", "Rest": "0/000"}


KINDS = (("storage", Storage), ("registry", Registry), ("index", Index))


def setUpModule():
    global DOCUMENTS
    DOCUMENTS = {}
    with tempfile.TemporaryDirectory(prefix="cairn-openapi-") as directory:
        made = cairn("docs", directory)
        if made.returncode != 0:
            raise AssertionError(f"docs: {made}")
        for name in os.listdir(os.path.join(directory, "openapi")):
            with open(os.path.join(directory, "openapi", name)) as file:
                DOCUMENTS[name.removesuffix(".json")] = json.load(file)


class Operation:
    def __init__(self, document, path, method):
        item = document["paths"][path]
        self.document, self.path, self.method, self.said = document, path, method.upper(), item[method]
        self.id, self.responses = self.said["operationId"], self.said["responses"]
        self.parameters = [self.resolve(one) for one in item["parameters"] + self.said.get("parameters", [])]
        self.allowed = ", ".join(sorted(name.upper() for name in METHODS if name in item))

    def resolve(self, value):
        while "$ref" in value:
            name = value["$ref"]
            if name.startswith("../schemas/"):
                return schema_of(name.removeprefix("../schemas/").removesuffix(".json"))
            found = self.document
            for key in name.removeprefix("#/").split("/"):
                found = found[key]
            value = found
        return value

    def sample(self, parameter):
        return SAMPLES[parameter["schema"]["$ref"].rsplit("/", 1)[1]]

    def target(self, **given):
        """The path with what is given, or with something of the right kind."""
        path = self.path
        for one in self.parameters:
            if one["in"] == "path":
                path = path.replace("{%s}" % one["name"], given.get(one["name"]) or self.sample(one))
        needed = [one for one in self.parameters if one["in"] == "query" and one.get("required")]
        return path + ("?" + "&".join(f"{one['name']}={self.sample(one)}" for one in needed) if needed else "")

    def fields(self):
        """Those that it needs."""
        return {one["name"].replace("-", "_"): self.sample(one) for one in self.parameters if one["in"] == "header" and one.get("required")}

    def needs_capability(self, reads_do):
        wanted = self.said.get("security", [])
        return bool(wanted) and (reads_do or {} not in wanted)

    def streams(self):
        return any("text/event-stream" in self.resolve(one).get("content", {}) for one in self.responses.values())

    def ask(self, server, target=None, body=None, token=None, **fields):
        """The answer; of a stream, its head."""
        fields = {**self.fields(), **fields, **(server.bearer(token) if token else {})}
        if body is None and "requestBody" in self.said:
            body = b"{}"
        with server.connect() as connection:
            connection.send(wire.request(self.method, target or self.target(), body, **fields))
            if not self.streams():
                return connection.read(self.method)
            raw = connection._head()
            answer = wire.Answer(*wire.parse_head(raw), b"", raw)
            if answer.get("Content-Type") != "text/event-stream":
                answer.body = connection._take(int(answer.get("Content-Length")))
            return answer

    def wrong(self, answer):
        """Why this is not what it says it answers; None when it is."""
        declared = self.resolve(self.responses.get(str(answer.status), self.responses["default"]))
        if answer.status < 400 and str(answer.status) not in self.responses:
            return f"{answer.status} is not among {list(self.responses)}"
        for name, field in map(lambda one: (one[0], self.resolve(one[1])), declared["headers"].items()):
            value = answer.get(name)
            if field.get("required") and value is None:
                return f"there is no {name}"
            if value is not None and self.resolve(field["schema"]).get("type") == "integer" and not value.isdecimal():
                return f"{name} is no number: {value}"
        untold = {"ETag", "Location", "Content-Range", "Upload-Offset", "Upload-Length", "Upload-Missing"} - set(declared["headers"])
        if told := [name for name in untold if answer.status < 400 and answer.get(name) is not None]:
            return f"{told} are not told"
        if self.method == "HEAD":
            return None
        content, kind = declared.get("content", {}), answer.get("Content-Type")
        if not content or kind is None:
            return None if not content and not answer.body else f"{kind} in place of {list(content)}: {answer}"
        found = content.get(kind, content.get(kind.split(";")[0], content.get("*/*")))
        if found is None:
            return f"{kind} is not among {list(content)}"
        return mismatch(self.resolve(found["schema"]), answer.json()) if "schema" in found else None


def operations(name):
    document = DOCUMENTS[name]
    return [Operation(document, path, method) for path, item in document["paths"].items() for method in METHODS if method in item]


class Case(unittest.TestCase):
    maxDiff = None

    def assert_is_there(self, operation, answer):
        self.assertNotEqual(answer.status, 405, operation.id)
        if answer.status == 404 and operation.method != "HEAD":
            self.assertNotEqual(answer.error()["message"], "no such path", operation.id)
        self.assertIsNone(operation.wrong(answer), operation.id)

    def without_a_token(self, server, name, reads_do):
        for operation in operations(name):
            with self.subTest(operation.id):
                answer = operation.ask(server)
                self.assert_is_there(operation, answer)
                if operation.needs_capability(reads_do):
                    self.assertEqual(answer.status, 401, answer)
                    self.assertEqual(answer.get("WWW-Authenticate"), "Bearer")
                else:
                    self.assertNotEqual(answer.status, 401, answer)


class Doors(Case):
    """What a stranger meets."""

    def test_every_operation_is_there_and_asks_for_the_capability_it_names(self):
        for name, kind in KINDS:
            with kind() as server:
                self.without_a_token(server, name, False)

    def test_where_reads_need_a_capability_the_reads_that_say_so_do(self):
        for name, kind in KINDS:
            with kind({"auth.reads": "required"}) as server:
                self.without_a_token(server, name, True)

    def test_a_path_takes_the_methods_it_says_and_no_other(self):
        for name, kind in KINDS:
            with kind() as server:
                for operation in operations(name):
                    with self.subTest(operation.id):
                        answer = server.ask_openly("OPTIONS", operation.target())
                        self.assertEqual(answer.status, 405, answer)
                        self.assertEqual(", ".join(sorted(answer.get("Allow").split(", "))), operation.allowed)

    def test_the_bounds_of_a_number_are_those_that_are_told(self):
        asked = 0
        for name, kind in KINDS:
            with kind() as server:
                for operation in operations(name):
                    for one in [one for one in operation.parameters if one["in"] == "query" and operation.method == "GET"]:
                        for bound, step in (("minimum", -1), ("maximum", 1)):
                            if (value := one["schema"].get(bound)) is None:
                                continue
                            with self.subTest(f"{operation.id} {bound}"):
                                asked += 1
                                for status, number in ((200, value), (400, value + step)):
                                    answer = operation.ask(server, f"{operation.target()}?{one['name']}={number}", token=server.token)
                                    self.assertEqual(answer.status, status, answer)
        self.assertGreaterEqual(asked, 8)

    def test_a_query_that_is_not_told_is_not_taken(self):
        for name, kind in KINDS:
            with kind() as server:
                for operation in operations(name):
                    told = [one["name"] for one in operation.parameters if one["in"] == "query"]
                    if told and operation.method == "GET":
                        with self.subTest(operation.id):
                            target = operation.target()
                            answer = operation.ask(server, f"{target}{'&' if '?' in target else '?'}unheard_of=1", token=server.token)
                            self.assertEqual((answer.status, answer.error()["code"]), (400, "malformed"))


class Tour(Case):
    """Every operation succeeds once, and what it answers is what it says."""

    def begin(self, server, name):
        self.server, self.left = server, {operation.id: operation for operation in operations(name)}
        self.known = dict(self.left)

    def go(self, operation_id, status, body=None, target=None, query="", fields=None, **given):
        """One operation; of a GET the HEAD, too."""
        operation = self.known[operation_id]
        asked = (target or operation.target(**given)) + query
        answer = operation.ask(self.server, asked, body, self.server.token, **(fields or {}))
        self.assertEqual(answer.status, status, f"{operation_id}: {answer}")
        self.assertIsNone(operation.wrong(answer), operation_id)
        self.left.pop(operation_id, None)
        twin = "head" + operation_id.removeprefix("get")
        if operation.method == "GET" and twin in self.known:
            # A range is asked for with GET alone.
            self.go(twin, 200 if status == 206 else status, target=asked, fields=fields)
        return answer

    def end(self):
        for name in ("healthz", "readyz", "version", "metrics", "debug_topology"):
            self.go(f"get_{name}", 200)
        key = json.loads(cairn("cap", "inspect", "-", "--json", input=self.server.token).stdout)["key_id"]
        self.go("post_admin_keys_by_id_revoke", 204, b"", id=key)
        self.assertEqual(list(self.left), [], "never succeeded")

    def test_through_storage(self):
        with Storage() as server:
            self.begin(server, "storage")
            stored = self.go("post_o", 201, b"some bytes", fields={"Content_Type": "text/plain"}).json()["address"]
            self.go("post_o", 200, b"some bytes")
            self.go("put_o_by_address", 200, b"some bytes", address=stored)
            self.go("get_o_by_address", 200, address=stored)
            self.go("get_o_by_address", 206, address=stored, fields={"Range": "bytes=0-3"})
            self.go("get_o_by_address", 206, address=stored, fields={"Range": "bytes=0-1,4-5"})
            self.go("get_o_by_address", 304, address=stored, fields={"If_None_Match": f'"{stored}"'})
            self.go("get_o_by_address_proof", 200, query="?range=0-3", address=stored)
            self.go("get_o", 200, query="?prefix=b3:&limit=10&after=")
            self.go("post_o", 201, b"other bytes")
            self.assertIn("next", self.go("get_o", 200, query="?limit=1").json())
            upload = self.go("post_uploads", 201, b'{"size":%d,"media_type":"text/plain"}' % (PART + 1)).json()["id"]
            self.go("patch_uploads_by_id", 204, bytes(PART), id=upload)
            self.go("head_uploads_by_id", 200, id=upload)
            self.go("patch_uploads_by_id", 204, b"x", id=upload, fields={"Upload_Offset": PART})
            self.go("post_uploads_by_id_commit", 201, b'{"media_type":"text/html"}', id=upload)
            self.go("delete_uploads_by_id", 204, id=self.go("post_uploads", 201, b"").json()["id"])
            self.go("put_pins_by_address", 204, address=stored)
            self.go("delete_pins_by_address", 204, address=stored)
            self.go("delete_o_by_address", 204, address=stored)
            self.go("get_admin_status", 200)
            self.go("post_admin_scrub", 202)
            self.go("post_admin_accept_loss", 202)
            self.end()

    def test_through_the_index(self):
        first, second = "b3:" + "1" * 64, "b3:" + "2" * 64
        content = b"\xa2dkindidirectorygentries\x80"
        [address] = b3sum(content)
        with Index() as server:
            self.begin(server, "index")
            wish = {"manifest": first, "note": "why"}
            self.assertIsNone(mismatch(schema_of("http-name-set"), wish))
            self.go("put_names_by_name", 201, json.dumps(wish).encode(), name="docs/a")
            self.go("put_names_by_name", 200, json.dumps({"manifest": second}).encode(), name="docs/a")
            self.go("put_names_by_name", 201, json.dumps({"manifest": second}).encode(), name="docs/b")
            self.assertIn("next", self.go("get_names", 200, query="?prefix=docs&limit=1").json())
            self.go("get_names", 200, query="?after=docs/a")
            tag = self.go("get_names_by_name", 200, name="docs/a").get("ETag")
            self.go("get_names_by_name", 304, name="docs/a", fields={"If_None_Match": tag})
            self.assertIn("next", self.go("get_names_by_name", 200, target="/names/docs/a?history&limit=1").json())
            self.go("get_names_by_name", 200, target="/names/docs/a?history&after=2")
            self.go("get_resolve_by_key", 200, key="docs/a")
            self.go("get_resolve_by_key", 304, key="docs/a", fields={"If_None_Match": tag})
            self.go("get_resolve_by_key", 200, key="docs/a", query="?fresh=true")
            self.go("get_resolve_by_key", 200, key="docs/a", query="?scope=local")
            self.go("delete_names_by_name", 200, name="docs/a")
            self.go("put_manifests_by_address", 201, content, address=address)
            self.go("put_manifests_by_address", 200, content, address=address)
            self.go("get_manifests_by_address", 200, address=address)
            said = {"records": [base64.b64encode(provider_record(Ed25519PrivateKey.generate(), first)).decode()]}
            self.assertIsNone(mismatch(schema_of("http-announcement"), said))
            self.go("post_providers", 200, json.dumps(said).encode())
            self.go("get_providers_by_address", 200, query="?region=eu&limit=3&min_freshness=60", address=first)
            self.go("get_resolve_by_key", 200, key=first)
            self.end()

    def propose(self, **fields):
        draft = {"schema_version": "1.0.0", "items": self.server.next_items(), **fields}
        self.assertIsNone(mismatch(schema_of("http-proposal-draft"), draft))
        return self.go("post_registry_proposals", 202, json.dumps(draft).encode()).json()

    def approve(self, proposal):
        said = approval("a", self.server.keys["a"], proposal["payload_b3"])
        self.assertIsNone(mismatch(schema_of("http-approval"), said))
        return self.go("post_registry_approvals_by_id", 200, json.dumps(said).encode(), id=proposal["proposal_id"])

    def test_through_the_registry(self):
        with Registry() as server:
            self.begin(server, "registry")
            server.change(server.next_items(region("eu")))
            waiting, one = self.propose(), self.propose()
            self.go("get_registry_proposals_by_id", 200, id=one["proposal_id"])
            self.assertIn("next", self.go("get_registry_proposals", 200, query="?limit=1").json())
            self.go("get_registry_proposals", 200, query=f"?after={waiting['proposal_id']}&limit=10")
            self.approve(one)
            self.go("get_registry_proposals", 200)
            self.go("post_registry_commit_by_id", 201, b"", id=one["proposal_id"])
            self.go("post_registry_commit_by_id", 200, b"{}", id=one["proposal_id"])
            better = self.propose(supersede_of=2, reason="it was wrong")
            self.go("get_registry_proposals_by_id", 200, id=better["proposal_id"])
            self.approve(better)
            self.go("post_registry_supersede", 201, json.dumps({"proposal_id": better["proposal_id"]}).encode())
            server.covered()
            etag = self.go("get_registry_head", 200).get("ETag")
            self.go("get_registry_head", 200, query="?after=1&wait=1s")
            self.go("get_registry_head", 304, fields={"If_None_Match": etag})
            for version in range(4):
                self.go("get_registry_by_version", 200, version=str(version))
            self.go("get_registry_by_version", 200, version="1", fields={"Accept": "application/cbor"})
            self.go("get_registry_log", 200, query="?from=0&limit=2")
            self.go("get_registry_log", 200)
            self.go("get_registry_stream", 200)
            self.go("get_registry_checkpoint", 200)
            self.go("get_registry_proof_inclusion", 200, target="/registry/proof/inclusion?version=1&size=3")
            self.go("get_registry_proof_consistency", 200, target="/registry/proof/consistency?from=2&to=4")
            self.go("get_registry_tile_by_path", 200, path="0/000.p/4")
            self.go("get_registry_tile_by_path", 200, path="entries/000.p/4")
            # Events are written within a second or two.
            wire.poll(lambda: "next" in self.go("get_registry_audit", 200, query="?after=0&limit=1").json(), "two events")
            self.go("get_registry_audit", 200)
            self.end()
