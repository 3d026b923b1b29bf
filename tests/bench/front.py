"""The servers that `./dev bench gateway` compares: ours as a front door, nginx and HAProxy, and what stands behind."""
import contextlib
import json
import pathlib
import re
import socket
import subprocess
import time

import peers

HAPROXY = "/usr/sbin/haproxy"
H2LOAD = "/usr/bin/h2load"
H2O = "/usr/bin/h2o"
# What else would cap or time the load: not what is measured here.
FREE = {"server.max_rps": "10000000", "server.max_inflight": "4096", "safety.danger_ok": "true", "log.level": "error"}


def certificate(temp):
    """(chain, key, both in one file): P-256, as all of them use."""
    cert, key, pem = (pathlib.Path(temp) / f"bench.{ext}" for ext in ("crt", "key", "pem"))
    if not pem.exists():
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
        key.chmod(0o600)
        pem.write_text(cert.read_text() + key.read_text())
        pem.chmod(0o600)
    return cert, key, pem


class Behind(peers.Server):
    """What a proxy stands before. It runs on the load's core, so that the proxy has its own."""

    def __enter__(self):
        super().__enter__()
        subprocess.run(["taskset", "-a", "-p", "-c", str(peers.cores()[1]), str(self.pid)], check=True,
                       capture_output=True)
        return self


def files_behind(temp, root, size):
    """nginx with files of this size, as the upstream of everybody. Small ones leave it in one piece with their head."""
    server = peers.nginx(temp, root, sendfile=size > 4096, match=None)
    return Behind(server.name, server.argv, server.port, server.log)


class Up(peers.Server):
    """`cairn up`, asked at its gateway; everything in one process and on one shard."""

    def __init__(self, binary, data, log, tls=None):
        port = peers.free_port()
        argv = [str(binary), "up", "--data", str(data), "--port-base", str(port), "--set", "shards=1",
                "--set", "log.level=error"]
        for service in ("gateway", "storage"):
            for key in ("server.max_rps", "server.max_inflight", "safety.danger_ok"):
                argv += ["--set", f"{service}.{key}={FREE[key]}"]
        for key, value in (tls or {}).items():
            argv += ["--set", f"gateway.tls.{key}={value}"]
        super().__init__("cairn", argv, port, log)
        self.data = pathlib.Path(data)

    def _is_ready(self):
        # The storage's door is plain, whatever the gateway's is.
        with socket.create_connection(("127.0.0.1", self.port + 10), 1) as s:
            s.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if not s.makefile("rb").readline().startswith(b"HTTP/1.1 200 "):
                return False
        return super()._is_ready()

    @property
    def bearer(self):
        return "Bearer " + (self.data / "keys" / "admin.cap").read_text().strip()


def gateway(binary, temp, upstream, more=None):
    """`cairn gateway` before one upstream. It checks no bytes: neither do the others."""
    port = peers.free_port()
    data = pathlib.Path(temp) / f"gateway-{port}"
    argv = [str(binary), "gateway", "--data", str(data), "--bind", f"127.0.0.1:{port}"]
    flags = {**FREE, "server.shards": "1", "upstream.storage": f"127.0.0.1:{upstream.port}", "proxy.verify": "false",
             **(more or {})}
    for key, value in flags.items():
        argv += ["--set", f"{key}={value}"]
    return peers.Server("cairn", argv, port, pathlib.Path(temp) / f"gateway-{port}.log")


def nginx_proxy(temp, upstream):
    return peers._nginx(temp, temp, "proxy.conf", {"UPSTREAM": upstream.port})


def nginx_tls(temp, root, http2, record, sendfile):
    cert, key, _ = certificate(temp)
    return peers._nginx(temp, root, "tls.conf", {
        "CERT": cert, "KEY": key, "HTTP2": "http2" if http2 else "", "RECORD": record,
        "SENDFILE": "on" if sendfile else "off"})


def _haproxy(temp, template, words):
    port = peers.free_port()
    prefix = pathlib.Path(temp) / f"haproxy-{port}"
    prefix.mkdir()
    conf = peers._fill("haproxy/" + template, prefix, {"PORT": port, "CONNECTIONS": 4096, **words})
    return peers.Server("haproxy", [HAPROXY, "-db", "-f", str(conf)], port, prefix / "stderr.log")


def haproxy_proxy(temp, upstream):
    return _haproxy(temp, "proxy.cfg", {"UPSTREAM": upstream.port, "TLS": ""})


def haproxy_constant(temp, file, http2):
    _, _, pem = certificate(temp)
    return _haproxy(temp, "constant.cfg", {"FILE": file, "PEM": pem, "ALPN": "h2,http/1.1" if http2 else "http/1.1"})


def h2o(temp, root):
    cert, key, _ = certificate(temp)
    port = peers.free_port()
    prefix = pathlib.Path(temp) / f"h2o-{port}"
    prefix.mkdir()
    conf = peers._fill("h2o/tls.conf", prefix, {"PORT": port, "ROOT": root, "CERT": cert, "KEY": key})
    return peers.Server("h2o", [H2O, "-c", str(conf)], port, prefix / "stderr.log")


def cpu_ns(pids):
    """What all threads of these processes have run so far."""
    total = 0
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                total += int((task / "schedstat").read_text().split()[0])
    return total


def h2load(server, path, *, http2, connections, streams, requests):
    """One run of h2load; figures as bench_load gives them."""
    argv = [H2LOAD, "-t1", f"-c{connections}", f"-m{streams}", f"-n{requests}"] + ([] if http2 else ["--h1"])
    before, began = cpu_ns([server.pid]), time.monotonic()
    done = subprocess.run([*argv, f"https://127.0.0.1:{server.port}{path}"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, preexec_fn=peers.child_setup(peers.cores()[1]))
    wall, cpu = time.monotonic() - began, cpu_ns([server.pid]) - before
    counts = re.search(r"requests: (\d+) total.* (\d+) succeeded, (\d+) failed, (\d+) errored", done.stdout)
    statuses = re.search(r"status codes: (\d+) 2xx", done.stdout)
    protocol = re.search(r"Application protocol: (\S+)", done.stdout)
    if done.returncode != 0 or not counts or not statuses or int(statuses[1]) != requests:
        raise RuntimeError(f"h2load on {server.name}{path}: {done.stderr.strip()} {done.stdout.strip()[-600:]}")
    if protocol and protocol[1] != ("h2" if http2 else "http/1.1"):
        raise RuntimeError(f"{server.name} spoke {protocol[1]}")
    return {"requests": requests, "req_s": requests / wall, "server_cpu_ns_per_request": cpu / requests}


def handshakes(binary, server, path, seconds, resume):
    argv = [str(binary), str(server.port), str(seconds), "--path", path, "--watch-pid", str(server.pid)]
    done = subprocess.run(argv + (["--resume"] if resume else []), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60 + seconds, preexec_fn=peers.child_setup(peers.cores()[1]))
    if done.returncode != 0:
        raise RuntimeError(f"handshakes with {server.name}: {done.stderr.strip()}")
    run = json.loads(done.stdout)
    return {"requests": run["handshakes"], "req_s": run["handshakes_s"], "server_cpu_ns_per_request": run["server_cpu_ns"]}


class Crowd:
    """Tenants and the upstream that they share; `run` gives what a phase brought to each of them."""

    def __init__(self, binary):
        self.process = subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=peers.child_setup(peers.cores()[1]))
        self.port = json.loads(self.process.stdout.readline())["upstream"]

    def run(self, server, phase, seconds):
        self.process.stdin.write(f"{server.port} {phase} {seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the crowd before {server.name} is gone: {self.process.wait()}")
        return json.loads(line)["tenants"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
