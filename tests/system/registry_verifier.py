#!/usr/bin/env python3
"""A verifier of registries that shares no line with them: written from RFC 6962, RFC 8949, RFC 8032, C2SP signed-note,
tlog-checkpoint, tlog-tiles and docs/formats/registry.md. Everything is checked from the trust roots.

    python3 tests/system/registry_verifier.py --trust-roots FILE (--url http://HOST:PORT | --tiles DIR)
"""

import argparse
import base64
import calendar
import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

TAG = b"cairn-registry-approval-v1\0"
ZERO = bytes(32)
WIDTH = 256  # of a tile


class Wrong(Exception):
    """Something does not verify; the text names it."""


def need(condition, what):
    if not condition:
        raise Wrong(what)


def unbase64(text, what, size=None):
    try:
        got = base64.b64decode(text, validate=True)
    except ValueError:
        raise Wrong(f"{what} is not base64: {text!r}") from None
    need(base64.b64encode(got).decode() == (text if isinstance(text, str) else text.decode()), f"{what} has another base64 form")
    need(size is None or len(got) == size, f"{what} has {len(got)} bytes")
    return got


# --- BLAKE3, by b3sum

def blake3_of(contents):
    """The hashes of many byte strings."""
    found = []
    with tempfile.TemporaryDirectory(prefix="cairn-verifier-") as directory:
        paths = []
        for i, content in enumerate(contents):
            paths.append(os.path.join(directory, str(i)))
            with open(paths[-1], "wb") as file:
                file.write(content)
        for i in range(0, len(paths), 500):
            said = subprocess.run(["b3sum", "--no-names", *paths[i:i + 500]], capture_output=True, text=True, check=True).stdout
            found += [bytes.fromhex(line) for line in said.split()]
    need(len(found) == len(contents), "b3sum lost some")
    return found


def named(digest):
    return "b3:" + digest.hex()


# --- Deterministic CBOR (RFC 8949 section 4.2.1): unsigned, bytes, text, array, map with text keys, booleans, null

def _head(major, value):
    for size, code in ((0, None), (1, 24), (2, 25), (4, 26), (8, 27)):
        if size == 0 and value < 24:
            return bytes([major << 5 | value])
        if size and value < 1 << 8 * size:
            return bytes([major << 5 | code]) + value.to_bytes(size, "big")
    raise ValueError(value)


def encode(value):
    if value is False or value is True or value is None:
        return {False: b"\xf4", True: b"\xf5", None: b"\xf6"}[value]
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, (bytes, bytearray)):
        return _head(2, len(value)) + bytes(value)
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    if isinstance(value, (list, tuple)):
        return _head(4, len(value)) + b"".join(map(encode, value))
    if isinstance(value, dict):
        pairs = sorted((encode(key), encode(inner)) for key, inner in value.items())
        return _head(5, len(pairs)) + b"".join(key + inner for key, inner in pairs)
    raise TypeError(type(value))


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        need(self.at + count <= len(self.data), "CBOR ends too early")
        self.at += count
        return self.data[self.at - count:self.at]

    def value(self, depth=0):
        need(depth < 16, "CBOR is nested too deep")
        first = self.take(1)[0]
        major, low = first >> 5, first & 31
        if major == 7:
            need(low in (20, 21, 22), f"CBOR has a simple value or float {low}")
            return {20: False, 21: True, 22: None}[low]
        need(low < 28, "CBOR of no definite length")
        count = low if low < 24 else int.from_bytes(self.take(1 << low - 24), "big")
        need(_head(major, count)[1:] == self.data[self.at - (0 if low < 24 else 1 << low - 24):self.at], "CBOR that is not shortest")
        if major == 0:
            return count
        if major == 1:
            return -1 - count
        if major == 2:
            return self.take(count)
        if major == 3:
            try:
                return self.take(count).decode()
            except UnicodeDecodeError:
                raise Wrong("CBOR text that is not UTF-8") from None
        if major == 4:
            need(count <= len(self.data), "CBOR array that cannot be")
            return [self.value(depth + 1) for _ in range(count)]
        need(major == 5, f"CBOR of major type {major}")
        found, last = {}, b""
        for _ in range(count):
            begin = self.at
            key = self.value(depth + 1)
            need(isinstance(key, str), "CBOR map with a key that is no text")
            need(last < self.data[begin:self.at], "CBOR map keys out of order or twice")
            last = self.data[begin:self.at]
            found[key] = self.value(depth + 1)
        return found


def decode(data):
    reader = _Reader(data)
    value = reader.value()
    need(reader.at == len(data), "bytes behind the CBOR")
    need(encode(value) == data, "CBOR that is not deterministic")
    return value


# --- Merkle trees (RFC 6962 section 2.1)

def leaf_hash(entry):
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def _split(size):
    return 1 << (size - 1).bit_length() - 1


def root_of(leaves):
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    middle = _split(len(leaves))
    return node_hash(root_of(leaves[:middle]), root_of(leaves[middle:]))


def inclusion_proof(index, leaves):
    """PATH(m, D[n]) as the RFC defines it."""
    if len(leaves) == 1:
        return []
    middle = _split(len(leaves))
    if index < middle:
        return inclusion_proof(index, leaves[:middle]) + [root_of(leaves[middle:])]
    return inclusion_proof(index - middle, leaves[middle:]) + [root_of(leaves[:middle])]


def consistency_proof(old, leaves):
    """PROOF(m, D[n]) as the RFC defines it."""
    def sub(count, some, whole):
        if count == len(some):
            return [] if whole else [root_of(some)]
        middle = _split(len(some))
        if count <= middle:
            return sub(count, some[:middle], whole) + [root_of(some[middle:])]
        return sub(count - middle, some[middle:], False) + [root_of(some[:middle])]
    return sub(old, leaves, True) if 0 < old < len(leaves) else []


def verify_inclusion(index, size, leaf, proof, root):
    need(0 <= index < size, f"leaf {index} is not in a tree of {size}")
    here, last, found = index, size - 1, leaf
    for one in proof:
        need(last > 0, "inclusion proof is too long")
        if here & 1 or here == last:
            found = node_hash(one, found)
            while not here & 1 and here:
                here, last = here >> 1, last >> 1
        else:
            found = node_hash(found, one)
        here, last = here >> 1, last >> 1
    need(last == 0, "inclusion proof is too short")
    need(found == root, f"leaf {index} is not under the root of size {size}")


def verify_consistency(old, old_root, new, new_root, proof):
    need(0 < old <= new, f"no consistency from {old} to {new}")
    if old == new:
        need(not proof and old_root == new_root, f"two roots of size {old}")
        return
    path = list(proof)
    if old & (old - 1) == 0:
        path.insert(0, old_root)
    need(path, "consistency proof is empty")
    here, last = old - 1, new - 1
    while here & 1:
        here, last = here >> 1, last >> 1
    left = right = path[0]
    for one in path[1:]:
        need(last > 0, "consistency proof is too long")
        if here & 1 or here == last:
            left, right = node_hash(one, left), node_hash(one, right)
            while not here & 1 and here:
                here, last = here >> 1, last >> 1
        else:
            right = node_hash(right, one)
        here, last = here >> 1, last >> 1
    need(last == 0, "consistency proof is too short")
    need(left == old_root, f"the tree of {new} does not extend the one of {old}")
    need(right == new_root, f"the proof does not lead to the root of {new}")


# --- Signed notes and checkpoints (C2SP)

class VerifierKey:
    def __init__(self, text):
        parts = text.split("+", 2)
        need(len(parts) == 3 and parts[0] and not re.search(r"[\s+]", parts[0]), f"not a verifier key: {text!r}")
        self.name = parts[0]
        need(re.fullmatch(r"[0-9a-f]{8}", parts[1]) is not None, "a key id is 8 hex digits")
        material = unbase64(parts[2], "the verifier key", 33)
        need(material[0] == 1, f"a key of algorithm {material[0]}")
        self.id = hashlib.sha256(self.name.encode() + b"\n" + material).digest()[:4]
        need(self.id.hex() == parts[1], "the verifier key's id is not its hash")
        self.key = Ed25519PublicKey.from_public_bytes(material[1:])


def verify_note(note, key):
    """The text of a signed note (bytes)."""
    try:
        text = note.decode()
    except UnicodeDecodeError:
        raise Wrong("the note is not UTF-8") from None
    need(not re.search(r"[\x00-\x09\x0b-\x1f]", text), "the note has control characters")
    end = text.rfind("\n\n")
    need(end >= 0 and text.endswith("\n"), "the note has no signatures")
    message, lines = text[:end + 1], text[end + 2:].split("\n")[:-1]
    need(lines, "the note has no signatures")
    signed = False
    for line in lines:
        match = re.fullmatch("\u2014 ([^\\s+]+) (\\S+)", line)
        need(match, f"not a signature line: {line!r}")
        blob = unbase64(match[2], "a note's signature")
        need(len(blob) > 4, "a note's signature is too short")
        if match[1] == key.name and blob[:4] == key.id:
            try:
                key.key.verify(blob[4:], message.encode())
            except InvalidSignature:
                raise Wrong("the note's signature is wrong") from None
            need(not signed, "the note is signed twice by the key")
            signed = True
    need(signed, "the note is not signed by the key")
    return message


def verify_checkpoint(note, key):
    """(size, root) of a checkpoint whose origin is the key's name."""
    lines = verify_note(note, key).split("\n")[:-1]
    need(len(lines) >= 3 and all(lines), "a checkpoint has three lines or more")
    need(lines[0] == key.name, f"the origin is {lines[0]}")
    need(re.fullmatch(r"0|[1-9][0-9]{0,18}", lines[1]), f"{lines[1]!r} is not a size")
    return int(lines[1]), unbase64(lines[2], "the root", 32)


# --- Tiles (C2SP tlog-tiles)

def tile_path(level, index, width=WIDTH):
    digits = f"{index:03d}"
    digits = "0" * (-len(digits) % 3) + digits
    parts = [digits[i:i + 3] for i in range(0, len(digits), 3)]
    path = "/".join("x" + part for part in parts[:-1]) + ("/" if len(parts) > 1 else "") + parts[-1]
    return f"tile/{level}/{path}" + (f".p/{width}" if width < WIDTH else "")


def tiles_of(size, level):
    """[(index, width)] of one level, for a tree of this size."""
    count = size >> 8 * level
    return [(i, min(WIDTH, count - i * WIDTH)) for i in range(-(-count // WIDTH))]


def split_entries(bundle, width, what):
    entries, at = [], 0
    while at < len(bundle):
        need(at + 2 <= len(bundle), f"{what} ends in a length")
        size = int.from_bytes(bundle[at:at + 2], "big")
        need(at + 2 + size <= len(bundle), f"{what} ends in an entry")
        entries.append(bundle[at + 2:at + 2 + size])
        at += 2 + size
    need(len(entries) == width, f"{what} has {len(entries)} entries instead of {width}")
    return entries


class Directory:
    """A checkpoint and tile/, from wherever they came."""

    def __init__(self, path):
        self.path = path

    def get(self, name):
        try:
            with open(os.path.join(self.path, name), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None


class Server:
    """A registry's own answers."""

    def __init__(self, host, port, token=None):
        self.connection = http.client.HTTPConnection(host, port, timeout=60)
        self.fields = {"Authorization": f"Bearer {token}"} if token else {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def ask(self, target, **fields):
        self.connection.request("GET", target, headers={**self.fields, **{name.replace("_", "-"): text for name, text in fields.items()}})
        answer = self.connection.getresponse()
        return answer.status, answer.read(), answer.headers

    def get(self, name):
        status, body, _ = self.ask("/registry/" + name)
        need(status in (200, 404, 410), f"/registry/{name} answered {status}")
        return body if status == 200 else None

    def payload(self, version):
        status, body, headers = self.ask(f"/registry/{version}", Accept="application/cbor")
        need(status == 200 and headers["Content-Type"] == "application/cbor", f"version {version} answered {status}")
        return body

    def json(self, target):
        status, body, _ = self.ask(target)
        need(status == 200, f"{target} answered {status}: {body[:200]!r}")
        return json.loads(body)


def read_tile(source, kind, index, width, wanted):
    """A tile of at least this width; a full one may stand for a partial one."""
    body = source.get(tile_path(kind, index, width))
    if body is None and width < WIDTH:
        body, wanted = source.get(tile_path(kind, index)), WIDTH
    need(body is not None, f"{tile_path(kind, index, width)} is missing")
    return body, wanted


def verify_hashes(source, key):
    """(size, root, leaf hashes) of a log: every tile of hashes, up to the signed root."""
    note = source.get("checkpoint")
    need(note is not None, "there is no checkpoint")
    size, root = verify_checkpoint(note, key)
    need(size > 0, "the log is empty")
    leaves, level, below = [], 0, None
    while size >> 8 * level:
        hashes = []
        for index, width in tiles_of(size, level):
            name = tile_path(level, index, width)
            body, held = read_tile(source, level, index, width, width)
            need(len(body) == 32 * held, f"{name} has {len(body)} bytes")
            hashes += [body[i:i + 32] for i in range(0, 32 * width, 32)]
        if below is None:
            leaves = hashes
        else:
            for i, one in enumerate(hashes):
                need(root_of(below[i * WIDTH:(i + 1) * WIDTH]) == one, f"{tile_path(level, i // WIDTH)}: hash {i} is not that of the tile below")
        level, below = level + 1, hashes
    need(len(leaves) == size, f"{len(leaves)} leaves for the size {size}")
    need(root_of(leaves) == root, f"the tiles do not have the root of the checkpoint of size {size}")
    return size, root, leaves


def verify_tiles(source, key):
    """(size, root, leaf hashes, entries by version) of a log, all of it hashed."""
    size, root, leaves = verify_hashes(source, key)
    entries = {}
    for index, width in tiles_of(size, 0):
        name = tile_path("entries", index, width)
        body, held = read_tile(source, "entries", index, width, width)
        for i, entry in enumerate(split_entries(body, held, name)[:width]):
            version = index * WIDTH + i
            need(leaf_hash(entry) == leaves[version], f"{name}: the entry of version {version} is not leaf {version}")
            entries[version] = entry
    return size, root, leaves, entries


# --- The chain

def signers_in_force(payload):
    """(m, {id: key}) as a descriptor set says."""
    sets = [item for item in payload["items"] if item["type"] == "signer_set"]
    need(len(sets) == 1, "a set has exactly one signer_set")
    revoked = {item["key_id"] for item in payload["items"] if item["type"] == "revocation"}
    listed = [one["id"] for one in sets[0]["signers"]]
    need(len(set(listed)) == len(listed), "two signers of one id")
    able = {one["id"]: one["key"] for one in sets[0]["signers"] if one["algo"] == "ed25519" and one["id"] not in revoked}
    need(1 <= sets[0]["m"] <= len(able), f"nobody could follow: {sets[0]['m']} of {len(able)}")
    return sets[0]["m"], able


def check_commit(commit, version):
    need(isinstance(commit, dict) and set(commit) == {"prev", "version", "approvals", "payload_b3", "committed_at"},
         f"the commit of version {version} has other fields")
    need(commit["version"] == version, f"leaf {version} is the commit of version {commit['version']}")
    need(len(commit["prev"]) == 32 and len(commit["payload_b3"]) == 32, f"hashes of version {version}")
    names = []
    for approval in commit["approvals"]:
        need(set(approval) == {"sig", "algo", "signed_at", "signer_id"}, f"an approval of version {version} has other fields")
        names.append(approval["signer_id"].encode())
    need(names == sorted(set(names)), f"approvals of version {version} are not sorted and single")


def is_name(text):
    segments = text.split("/")
    return len(text) <= 255 and all(re.fullmatch("[a-z0-9._-]+", one) and one not in (".", "..") for one in segments)


def check_payload(payload, commit, version):
    must, may = {"prev", "items", "version", "created_at", "schema_version"}, {"expiry", "reason", "supersede_of"}
    need(isinstance(payload, dict) and must <= set(payload) <= must | may, f"the payload of version {version} has other fields")
    need(payload["version"] == version and payload["schema_version"] == "1.0.0", f"the payload of version {version} says another version")
    need(payload["prev"] == commit["prev"], f"payload and commit of version {version} have different predecessors")
    need(("reason" in payload) == ("supersede_of" in payload), f"version {version}: reason and supersede_of come together")
    need(payload.get("supersede_of", version - 1) == version - 1, f"version {version} supersedes {payload.get('supersede_of')}")
    need(commit["committed_at"] <= payload.get("expiry", commit["committed_at"]), f"version {version} was committed after its expiry")
    names = [(item["type"], item.get("id", item.get("key_id", item.get("prefix")))) for item in payload["items"]]
    need(len(set(names)) == len(names), f"version {version} has an item twice")
    for item in payload["items"]:
        if item["type"] == "name_authority":
            need(set(item) == {"key", "type", "prefix"} and len(item["key"]) == 32, f"version {version} has an authority of other fields")
            need(is_name(item["prefix"]), f"version {version} has an authority over {item['prefix']!r}, which is no name")


def check_approvals(commit, governor, version):
    m, able = signers_in_force(governor)
    good = 0
    for approval in commit["approvals"]:
        who = approval["signer_id"]
        need(approval["algo"] == "ed25519" and who in able, f"version {version} is approved by {who}, who may not")
        try:
            Ed25519PublicKey.from_public_bytes(able[who]).verify(approval["sig"], TAG + commit["payload_b3"])
        except InvalidSignature:
            raise Wrong(f"version {version}: the signature of {who} is wrong") from None
        good += 1
    need(good >= m, f"version {version} has {good} approvals of {m}")


def verify_chain(entries, payload_of=None, roots=None, governor=None):
    """Commits (bytes by version, without gaps), each against the one before; with payloads, the approvals too.

    From version 0 the trust roots say what genesis is. From a later one, `governor` is the payload of the version before.
    Gives (commits, payloads, hashes) by version."""
    versions = sorted(entries)
    need(versions == list(range(versions[0], versions[0] + len(versions))), "versions are missing")
    hashes = dict(zip(versions, blake3_of([entries[version] for version in versions])))
    commits = {}
    for version in versions:
        try:
            commits[version] = decode(entries[version])
        except Wrong as problem:
            raise Wrong(f"the commit of version {version}: {problem}") from None
        check_commit(commits[version], version)
        if version == 0:
            need(commits[0]["prev"] == ZERO, "genesis has a predecessor")
            need(roots is None or roots["genesis_commit_b3"] == named(hashes[0]), "this is another genesis commit")
            need(roots is None or roots["genesis_payload_b3"] == named(commits[0]["payload_b3"]), "this is another genesis")
        elif version - 1 in commits:
            need(commits[version]["prev"] == hashes[version - 1], f"version {version} does not follow version {version - 1}")
            need(commits[version]["committed_at"] >= commits[version - 1]["committed_at"], f"version {version} is earlier than version {version - 1}")
    if payload_of is None:
        return commits, {}, hashes
    raw = {version: payload_of(version) for version in versions}
    payloads = {}
    for version, digest in zip(versions, blake3_of([raw[version] for version in versions])):
        need(digest == commits[version]["payload_b3"], f"the payload of version {version} is not the one that was signed")
        payloads[version] = decode(raw[version])
        check_payload(payloads[version], commits[version], version)
        before = payloads[0] if version == 0 else payloads.get(version - 1, governor)
        if before is not None:
            check_approvals(commits[version], before, version)
    return commits, payloads, hashes


def load_roots(path):
    with open(path) as file:
        roots = json.load(file)
    need(set(roots) == {"version", "genesis_payload_b3", "genesis_commit_b3", "log_key"} and roots["version"] == 1, "trust roots of another form")
    key = VerifierKey(roots["log_key"])
    need(key.name == roots["genesis_payload_b3"], "the log key is not named after the genesis")
    return roots, key


def milliseconds(text):
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z", text)
    need(match, f"not a time: {text!r}")
    return calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S")) * 1000 + int(((match[2] or "0") + "00")[:3])


def as_json(value, key=None):
    """What the JSON form of a decoded descriptor set or approval should be, with times as milliseconds."""
    if isinstance(value, bytes):
        return named(value) if key in ("prev", "payload_b3") else base64.b64encode(value).decode()
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if isinstance(value, dict):
        return {name: as_json(one, name) for name, one in value.items()}
    return value


def from_json(value, key=None):
    if key in ("created_at", "expiry", "signed_at", "committed_at"):
        return milliseconds(value)
    if isinstance(value, list):
        return [from_json(one) for one in value]
    if isinstance(value, dict):
        return {name: from_json(one, name) for name, one in value.items()}
    return value


def verify_answers(server, commits, payloads, hashes, every=1):
    """The JSON of a version says what its signed bytes say."""
    for version, commit in list(commits.items())[::every]:
        said = server.json(f"/registry/{version}")
        need(unbase64(said["payload_cbor"], "payload_cbor") == encode(payloads[version]), f"payload_cbor of version {version}")
        need(said["commit_b3"] == named(hashes[version]), f"commit_b3 of version {version}")
        for name in ("version", "prev", "payload_b3", "committed_at", "approvals"):
            need(from_json(said[name], name) == as_json(commit)[name], f"{name} of version {version} is not what was signed")
        need(from_json(said["payload"]) == as_json(payloads[version]), f"the payload of version {version} is not what was signed")


def verify_proofs(server, size, root, leaves, pairs):
    """The server's proofs for these (old, new) sizes: what the RFC defines, and enough to verify with."""
    roots = {}
    for old, new in pairs:
        for one in (old, new):
            roots.setdefault(one, root_of(leaves[:one]))
        proof = server.json(f"/registry/proof/consistency?from={old}&to={new}")
        hashes = [unbase64(one, "a hash", 32) for one in proof["hashes"]]
        verify_consistency(old, roots[old], new, roots[new], hashes)
        need(hashes == consistency_proof(old, leaves[:new]), f"the consistency proof from {old} to {new} is not the RFC's")
        index = old - 1
        proof = server.json(f"/registry/proof/inclusion?version={index}&size={new}")
        need((proof["index"], proof["size"]) == (index, new), "the proof is about something else")
        hashes = [unbase64(one, "a hash", 32) for one in proof["hashes"]]
        verify_inclusion(index, new, leaves[index], hashes, roots[new])
        need(hashes == inclusion_proof(index, leaves[:new]), f"the inclusion proof of {index} in {new} is not the RFC's")
    need(roots.get(size, root) == root, "the root of the checkpoint is another one")


def verify_server(server, roots, key, every=1):
    """Everything that a server has, from the trust roots. Gives (size, root, leaves, commits, payloads, hashes)."""
    size, root, leaves, entries = verify_tiles(server, key)
    commits, payloads, hashes = verify_chain(entries, server.payload, roots)
    verify_answers(server, commits, payloads, hashes, every)
    return size, root, leaves, commits, payloads, hashes


def verify_kept(server, key, first, every=1):
    """What a server has when versions below `first` are pruned: the root still vouches for those, nothing else does."""
    size, root, leaves = verify_hashes(server, key)
    entries = {}
    for version in range(first, size):
        entries[version] = unbase64(server.json(f"/registry/{version}")["commit_cbor"], "commit_cbor")
        need(leaf_hash(entries[version]) == leaves[version], f"the commit of version {version} is not leaf {version}")
    commits, payloads, hashes = verify_chain(entries, server.payload)
    verify_answers(server, commits, payloads, hashes, every)
    return size, root, leaves, commits, payloads, hashes


def verify_directory(path, roots, key):
    """Tiles alone hold no payloads: no approvals are checked."""
    size, root, leaves, entries = verify_tiles(Directory(path), key)
    commits, _, hashes = verify_chain(entries, None, roots)
    return size, root, leaves, commits, hashes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trust-roots", required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url")
    where.add_argument("--tiles")
    options = parser.parse_args()
    try:
        roots, key = load_roots(options.trust_roots)
        if options.tiles:
            size, root, *_ = verify_directory(options.tiles, roots, key)
        else:
            host, port = re.fullmatch(r"https?://([^/:]+):(\d+)/?", options.url).groups()
            with Server(host, int(port)) as server:
                size, root, *_ = verify_server(server, roots, key)
    except Wrong as problem:
        sys.exit(f"wrong: {problem}")
    print(f"{size} versions, root {base64.b64encode(root).decode()}" + (", approvals not checked" if options.tiles else ""))


if __name__ == "__main__":
    main()
