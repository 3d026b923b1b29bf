#!/usr/bin/env python3
"""Starts cairn-demo on loopback, tests that it answers, says where it is, and stays in the foreground."""
import json
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path


def fetch(url, **kwargs):
    with urllib.request.urlopen(urllib.request.Request(url, **kwargs), timeout=5) as answer:
        return answer.status, answer.read()


def self_test(base):
    """Each line is something a person would try; the first that fails is named."""
    yield "health", fetch(base + "healthz")[1] == b"ok\n"
    yield "readiness", json.loads(fetch(base + "readyz")[1])["ready"] is True
    yield "an answer from memory", len(fetch(base + "mem/hello")[1]) == 1024
    yield "a file", fetch(base + "file/hello.txt")[1] == b"hello from a file\n"
    yield "a range of it", fetch(base + "file/hello.txt", headers={"Range": "bytes=6-9"}) == (206, b"from")
    yield "an echo", fetch(base + "echo", data=b"x" * 100_000, method="POST")[1] == b"x" * 100_000
    yield "a slow job", json.loads(fetch(base + "job/20")[1])["slept_ms"] == 20
    yield "a stream", len(fetch(base + "stream/3")[1]) == 3072
    yield "metrics", b"http_requests_total" in fetch(base + "metrics")[1]


def main():
    binary, *extra = sys.argv[1:]
    bind = [] if "--bind" in extra else ["--bind", "127.0.0.1:7499"]
    with tempfile.TemporaryDirectory(prefix="cairn-demo-") as files:
        Path(files, "hello.txt").write_text("hello from a file\n")
        server = subprocess.Popen([binary, "serve", *bind, "--set", f"demo.files={files}", *extra],
                                  stdout=subprocess.PIPE, text=True)
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the server too
        line = server.stdout.readline().strip()
        if not line:
            return server.wait()
        base = line.split()[-1]
        for name, fine in self_test(base):
            if not fine:
                print(f"self-test failed: {name}", file=sys.stderr)
                server.terminate()
                server.wait()
                return 1
        print(f"{line}\nself-test passed\nnext: curl {base}mem/hello · {base}metrics · {base}debug/topology · Ctrl-C drains",
              flush=True)
        return server.wait()


if __name__ == "__main__":
    sys.exit(main())
