#!/usr/bin/env python3
"""Runs `cairn up` in the foreground and tests, as a person would, that what is put in comes out."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def run(*command, **kwargs):
    return subprocess.run(command, capture_output=True, timeout=30, check=False, **kwargs)


def names_node(cairn, asked, url):
    """Whether the head has a descriptor of this storage, or wants more approvals than one process can give."""
    shown = json.loads(run(cairn, "registry", "show", "head", "--json", *asked).stdout or "{}")
    items = shown.get("payload", {}).get("items", [])
    if any(item["type"] == "signer_set" and item["m"] > 1 for item in items):
        return True
    time.sleep(0.02)
    return any(item["type"] == "node" and url.endswith("//" + item["addr"]) for item in items)


def self_test(cairn, url, storage, data):
    """Each line is something a person would try, through the gateway; the first that fails is named."""
    where = ["--url", url, "--data", data]
    yield "the registry names this node", any(names_node(cairn, where, storage) for _ in range(100))
    yield "the registry verifies", run(cairn, "registry", "verify", *where).returncode == 0
    with tempfile.TemporaryDirectory(prefix="cairn-self-test-") as directory:
        original, copy = Path(directory, "in"), Path(directory, "out")
        original.write_bytes(os.urandom(3_000_000))
        put = run(cairn, "put", "-q", str(original), *where)
        address = put.stdout.decode().strip()
        yield "put", put.returncode == 0 and address.startswith("b3:")
        yield "get", run(cairn, "get", address, "-o", str(copy), *where).returncode == 0
        yield "the same bytes", original.read_bytes() == copy.read_bytes()
        yield "stat", json.loads(run(cairn, "stat", "--json", address, *where).stdout or "{}").get("size") == 3_000_000
        yield "rm", run(cairn, "rm", address, *where).returncode == 0
        yield "gone", run(cairn, "get", address, "-o", str(copy), *where).returncode == 3
        yield "health", run(cairn, "health", *where).returncode == 0


def main():
    cairn, *extra = sys.argv[1:]
    server = subprocess.Popen([cairn, "up", "--json", *extra], stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the server too
    urls = {}
    while "gateway" not in urls:  # said last
        line = server.stdout.readline()
        if not line:
            return server.wait()
        said = json.loads(line)
        urls[said["service"]] = said["url"]
    data = extra[extra.index("--data") + 1] if "--data" in extra else "cairn-data"
    for name, fine in self_test(cairn, urls["gateway"], urls["storage"], data):
        if not fine:
            print(f"self-test failed: {name}", file=sys.stderr)
            server.terminate()
            server.wait()
            return 1
    for service, url in urls.items():
        print(f"{service:<10} {url}")
    print("self-test passed; next, in another terminal: ./cairn put README.md   (Ctrl-C drains)", flush=True)
    return server.wait()


if __name__ == "__main__":
    sys.exit(main())
