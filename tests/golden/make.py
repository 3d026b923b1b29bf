#!/usr/bin/env python3
"""Makes a golden data directory: what a version of cairn leaves on the disk, kept for every later one to open.

    python3 tests/golden/make.py --build build/release NAME

writes tests/golden/NAME.tar.xz: the directory `data`, and `expected.json` with what is in it. Objects are of a pattern
that goes into few bytes when it is packed (see `content`). Made once with each version whose format others must open, and
then never again: tests/system/storage_golden.py opens all of them.

The storage runs under a clock that is years ahead, so that the upload under way does not expire in the archive.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "system"))
sys.dont_write_bytecode = True

import demo  # noqa: E402
import wire  # noqa: E402

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += 60L * 365 * 24 * 3600;
  return result;
}
"""
PART = 1 << 20
SIZES = [0, 1, 1000, 65536, 65537, PART, 2 * PART + 77]  # of objects that stay
FILLERS = 22  # of a part each; most are deleted, and the segment with them is compacted


def content(seed, size):
    """The bytes of an object."""
    block = b"".join(b"cairn golden object %08d, line %d\n" % (seed, i) for i in range(8))
    return (block * (size // len(block) + 1))[:size]


def fill_storage(data, home):
    import storage_server
    source, shim = os.path.join(home, "clock.c"), os.path.join(home, "clock.so")
    with open(source, "w") as file:
        file.write(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    expected = {"objects": [], "removed": [], "pinned": None}
    clean = demo.clean_environment
    demo.clean_environment = lambda extra=None: {**clean(extra), "LD_PRELOAD": shim}
    try:
        with storage_server.Storage({"storage.segment_size": "16MiB", "uploads.ttl": "30d"}, data) as storage:
            fillers = [storage.post(content(100 + i, PART)) for i in range(FILLERS)]
            for seed, size in enumerate(SIZES):
                if size > PART:
                    address = storage.upload(content(seed, size)).json()["address"]
                else:
                    address = storage.post(content(seed, size), Content_Type="text/plain")
                expected["objects"].append({"address": address, "seed": seed, "size": size})
            expected["pinned"] = expected["objects"][2]["address"]
            assert storage.ask("PUT", f"/pins/{expected['pinned']}").status == 204
            begun = storage.ask("POST", "/uploads", b'{"size":%d}' % (PART + 500)).json()["id"]
            answer = storage.ask("PATCH", f"/uploads/{begun}", content(50, PART + 500)[:PART], Upload_Offset=0)
            assert answer.status == 204, answer
            expected["upload"] = {"id": begun, "seed": 50, "size": PART + 500, "has": PART}
            for i, address in enumerate(fillers):
                if i < 2:
                    expected["objects"].append({"address": address, "seed": 100 + i, "size": PART})
                    continue
                assert storage.ask("DELETE", f"/o/{address}").status == 204
                expected["removed"].append(address)
            first = os.path.join(storage.segments, "0000000001.seg")
            wire.poll(lambda: not os.path.exists(first), "the first segment is compacted")
    finally:
        demo.clean_environment = clean
    return expected


def fill_registry(data):
    import registry_server
    with registry_server.Registry({}, directory=data) as registry:
        registry.change(registry.next_items(registry_server.region("golden", title="kept")))
        registry.covered_on_disk()
        return {"head": registry.head()["version"], "title": "kept"}


def pack(data, expected, path):
    with tarfile.open(path, "w:xz", preset=9) as archive:
        text = json.dumps(expected, indent=1).encode()
        about = tarfile.TarInfo("expected.json")
        about.size = len(text)
        archive.addfile(about, io.BytesIO(text))
        for directory, _, names in sorted(os.walk(data)):
            for name in sorted(names):
                full = os.path.join(directory, name)
                # The reserve is noise that is made again; a lock and a socket are the process's, not the data's.
                if name == "reserve" or not os.path.isfile(full) or os.path.islink(full):
                    continue
                info = archive.gettarinfo(full, os.path.join("data", os.path.relpath(full, data)))
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                with open(full, "rb") as file:
                    archive.addfile(info, file)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", default="build/release")
    options.add_argument("name")
    options = options.parse_args()
    demo.BUILD = os.path.abspath(options.build)
    with tempfile.TemporaryDirectory(prefix="cairn-golden-") as home:
        data = os.path.join(home, "data")
        expected = fill_storage(data, home)
        expected["registry"] = fill_registry(data)
        path = os.path.join(HERE, options.name + ".tar.xz")
        pack(data, expected, path)
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
