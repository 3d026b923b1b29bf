"""Reads a segment log from outside (docs/formats/segment-log.md), to judge what a store leaves on the disk."""
import collections
import glob
import os
import struct

FIRST_RECORD = 4096
HEADER = 64


def records(directory):
    """(kind, origin) of every record, copies and all. The process that writes it must not be running."""
    for path in sorted(glob.glob(os.path.join(directory, "*.seg"))):
        with open(path, "rb") as file:
            log = file.read()
        at = FIRST_RECORD
        while log[at:at + 4] == b"cnrc":
            meta, data, _, origin = struct.unpack_from("<IIQQ", log, at + 8)
            yield log[at + 4], origin
            at += (HEADER + meta + data + 7) // 8 * 8


def most_copies(directory):
    """Of one record. Each kill in the middle of a copy leaves one more; they must not breed."""
    return max(collections.Counter(records(directory)).values(), default=0)
