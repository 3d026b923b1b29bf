"""BLAKE3's tree in plain Python: slow, small, and no relative of the server's. Only what proofs need."""

import struct

GROUP, CHUNK = 1 << 16, 1 << 10
IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
MASK = 0xFFFFFFFF
MIXES = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def compress(chaining, block, counter, length, flags):
    """The first half of the output: a chaining value, eight words."""
    v = [*chaining, *IV[:4], counter & MASK, counter >> 32, length, flags]
    m = list(block)
    for turn in range(7):
        for i, (a, b, c, d) in enumerate(MIXES):
            va, vb, vc, vd = v[a], v[b], v[c], v[d]
            va = va + vb + m[2 * i] & MASK
            vd ^= va
            vd = (vd >> 16 | vd << 16) & MASK
            vc = vc + vd & MASK
            vb ^= vc
            vb = (vb >> 12 | vb << 20) & MASK
            va = va + vb + m[2 * i + 1] & MASK
            vd ^= va
            vd = (vd >> 8 | vd << 24) & MASK
            vc = vc + vd & MASK
            vb ^= vc
            vb = (vb >> 7 | vb << 25) & MASK
            v[a], v[b], v[c], v[d] = va, vb, vc, vd
        if turn < 6:
            m = [m[i] for i in PERMUTATION]
    return tuple(v[i] ^ v[i + 8] for i in range(8))


def words(data):
    return struct.unpack(f"<{len(data) // 4}I", data)


def hash_chunk(data, counter, root):
    chaining = IV
    blocks = [data[i:i + 64] for i in range(0, len(data), 64)] or [b""]
    for i, block in enumerate(blocks):
        flags = (CHUNK_START if i == 0 else 0) | (CHUNK_END | (ROOT if root else 0) if i == len(blocks) - 1 else 0)
        chaining = compress(chaining, words(block.ljust(64, b"\0")), counter, len(block), flags)
    return chaining


def merge(left, right, root):
    return compress(IV, left + right, 0, 64, PARENT | (ROOT if root else 0))


def hash_subtree(data, first_chunk, root):
    """Of bytes that begin at a chunk; the left side is the largest complete tree."""
    if len(data) <= CHUNK:
        return hash_chunk(data, first_chunk, root)
    left = CHUNK
    while left * 2 < len(data):
        left *= 2
    return merge(hash_subtree(data[:left], first_chunk, False), hash_subtree(data[left:], first_chunk + left // CHUNK, False), root)


def digest(data):
    return "b3:" + struct.pack("<8I", *hash_subtree(data, 0, True)).hex()


class Wrong(AssertionError):
    """The proof or the bytes are not the object's."""


class Proof:
    """`application/vnd.cairn.outboard` for bytes first..last, checked against an address as it is read."""

    def __init__(self, address, raw, first, last):
        if len(raw) < 8:
            raise Wrong("no size")
        self.size = struct.unpack_from("<Q", raw)[0]
        if self.size and first >= self.size:
            raise Wrong("the object ends before the range")
        self.count = max(1, -(-self.size // GROUP))
        self.first, self.end = first // GROUP, min(last, max(self.size, 1) - 1) // GROUP + 1
        self.groups = {}
        self.raw, self.at = raw, 8
        self.open(0, self.count, words(bytes.fromhex(address.removeprefix("b3:"))), True)
        if self.at != len(raw):
            raise Wrong(f"{len(raw) - self.at} bytes behind the proof")

    def open(self, first, end, known, root):
        if end <= self.first or self.end <= first:
            return
        if end - first == 1:
            self.groups[first] = (known, root)
            return
        pair = self.raw[self.at:self.at + 64]
        self.at += 64
        if len(pair) != 64:
            raise Wrong("half a proof")
        left, right = words(pair[:32]), words(pair[32:])
        if merge(left, right, root) != known:
            raise Wrong(f"the parent over groups {first}..{end - 1}")
        middle = first + (1 << (end - first - 1).bit_length() - 1)
        self.open(first, middle, left, False)
        self.open(middle, end, right, False)

    def check_group(self, index, data):
        known, root = self.groups[index]
        if len(data) != min(GROUP, self.size - index * GROUP) or hash_subtree(data, index * (GROUP // CHUNK), root) != known:
            raise Wrong(f"group {index}")
