"""The servers that are measured: cairn-demo, cairn storage, nginx and redis, each a child process pinned to the server
core.

A server is a context manager; leaving it ends the process by its id and waits for it. Should the harness itself be
killed, the kernel ends the children (PR_SET_PDEATHSIG).
"""
import contextlib
import ctypes
import os
import pathlib
import resource
import signal
import socket
import subprocess
import time

DEMO = "cairn-demo"
DEMO_FLAGS = {
    "server.shards": "1",
    "server.max_rps": "10000000",
    "server.max_inflight": "4096",
    "safety.danger_ok": "true",
}
STORAGE_FLAGS = {**DEMO_FLAGS, "log.level": "error"}
NGINX = "/usr/sbin/nginx"
REDIS = "/usr/bin/redis-server"
TEMPLATES = pathlib.Path(__file__).parent
READY_SECONDS = 10
READY_STEP = 0.01
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def cores():
    """(server core, load core) among those this process may use; the same one twice on a single core."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1] if len(allowed) == 1 else allowed[1]


def open_file_limit():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def child_setup(core):
    """What a child does before exec: its core, ahead of other work there if we may, all the files it may open, and its
    end with ours."""
    limit = open_file_limit()

    def setup():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        os.sched_setaffinity(0, {core})
        # Where the kernel groups processes by session, nice counts only within the group: raise the group.
        os.setsid()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -20)
            pathlib.Path("/proc/self/autogroup").write_text("-20")
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    return setup


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    patience = READY_SECONDS

    def __init__(self, name, argv, port, log, env=None):
        self.name = name
        self.port = port
        self.log = log
        self.argv = argv
        self.env = {**os.environ, **(env or {})}
        self.process = None

    def __enter__(self):
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.env,
                                            preexec_fn=child_setup(cores()[0]))
        try:
            self._wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _wait_ready(self):
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {self._log_tail()}")
            with contextlib.suppress(OSError):
                if self._is_ready():
                    return
            time.sleep(READY_STEP)
        raise RuntimeError(f"{self.name} is not ready after {self.patience} s: {self._log_tail()}")

    def _is_ready(self):
        with socket.create_connection(("127.0.0.1", self.port), 1):
            return True

    def _log_tail(self):
        return pathlib.Path(self.log).read_text(errors="replace")[-2000:].strip()

    @property
    def pid(self):
        """The process that does the work: nginx's one worker, else the process itself."""
        if self.name != "nginx":
            return self.process.pid
        main = self.process.pid
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            children = pathlib.Path(f"/proc/{main}/task/{main}/children").read_text().split()
            if children:
                return int(children[0])
            time.sleep(0.02)
        raise RuntimeError("nginx has no worker")

    def rss_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")

    def runqueue_wait_ns(self):
        """How long its threads were runnable but had to wait for the core: other people's load."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a thread that just ended
                total += int((task / "schedstat").read_text().split()[1])
        return total

    def read_from_disk(self):
        """Bytes that it made the disk deliver so far."""
        for line in pathlib.Path(f"/proc/{self.pid}/io").read_text().splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
        raise RuntimeError("no read_bytes")


class Storage(Server):
    """`cairn storage` over a data directory that outlives it."""

    patience = 300  # with a million objects

    def __init__(self, binary, data, log, flags=None):
        port = free_port()
        argv = [str(binary), "storage", "--data", str(data), "--bind", f"127.0.0.1:{port}"]
        for key, value in {**STORAGE_FLAGS, **(flags or {})}.items():
            argv += ["--set", f"{key}={value}"]
        super().__init__("cairn", argv, port, log)
        self.data = pathlib.Path(data)
        self.ready_seconds = None

    def __enter__(self):
        began = time.monotonic()
        super().__enter__()
        self.ready_seconds = time.monotonic() - began
        return self

    def _is_ready(self):
        with socket.create_connection(("127.0.0.1", self.port), 1) as s:
            s.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return s.makefile("rb").readline().startswith(b"HTTP/1.1 200 ")

    @property
    def bearer(self):
        return "Bearer " + (self.data / "keys" / "admin.cap").read_text().strip()

    def stop(self):
        """Drains; how long that took, in seconds. Anything but a clean end is an error."""
        began = time.monotonic()
        self.process.terminate()
        if self.process.wait(self.patience) != 0:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {self._log_tail()}")
        return time.monotonic() - began

    def kill(self):
        self.process.kill()
        self.process.wait()

    def memory(self):
        """What it has of the machine's memory, in bytes. Pages of a memfd count once, mapped or not."""
        figures = {}
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(("VmRSS:", "RssAnon:", "RssFile:", "RssShmem:")):
                figures[line.split(":")[0]] = int(line.split()[1]) * 1024
        memfd = 0
        for link in pathlib.Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(link).startswith("/memfd:"):
                    memfd += link.stat().st_blocks * 512
        return {"rss": figures["VmRSS"], "anonymous": figures["RssAnon"], "files": figures["RssFile"],
                "memfd": memfd, "total": figures["RssAnon"] + figures["RssFile"] + memfd}


def demo(build, temp, files, flags=None, env=None):
    port = free_port()
    argv = [str(pathlib.Path(build) / DEMO), "serve", "--bind", f"127.0.0.1:{port}"]
    for key, value in {**DEMO_FLAGS, "demo.files": str(files), **(flags or {})}.items():
        argv += ["--set", f"{key}={value}"]
    return Server("cairn", argv, port, pathlib.Path(temp) / f"cairn-{port}.log", env)


def nginx(temp, root, sendfile, match, corr_id="$request_id", aio=False):
    """`match` is the set of lower-case header names of the answer it is compared with (None: nginx's own); `corr_id`
    the nginx variable that becomes X-Corr-ID; `aio` lets threads wait for the disk."""
    return _nginx(temp, root, "static.conf", {
        "SENDFILE": "on" if sendfile else "off",
        "AIO": "threads" if aio else "off",
        "CORR_ID": corr_id,
        "MATCH": "\n    ".join(_match_lines(match)),
    })


def nginx_dav(temp, root, buffer):
    """Takes PUT; `buffer` is how much of a body it holds before it writes."""
    return _nginx(temp, root, "dav.conf", {"BUFFER": buffer})


def _nginx(temp, root, template, words):
    port = free_port()
    prefix = pathlib.Path(temp) / f"nginx-{port}"
    prefix.mkdir()
    limit = open_file_limit()
    conf = _fill("nginx/" + template, prefix, {
        "PORT": port, "ROOT": root, "FILES": limit, "CONNECTIONS": min(16384, limit - 64), **words})
    return Server("nginx", [NGINX, "-p", str(prefix), "-c", str(conf)], port, prefix / "stderr.log")


def redis(temp):
    """Durable: an answer means that the value is on the disk below `temp`."""
    port = free_port()
    prefix = pathlib.Path(temp) / f"redis-{port}"
    prefix.mkdir()
    return Server("redis", [REDIS, str(_fill("redis/durable.conf", prefix, {"PORT": port}))], port,
                  prefix / "stderr.log")


def _fill(template, prefix, words):
    text = (TEMPLATES / template).read_text()
    for word, value in {"PREFIX": prefix, **words}.items():
        text = text.replace(f"@{word}@", str(value))
    conf = prefix / pathlib.Path(template).name
    conf.write_text(text)
    return conf


def _match_lines(headers):
    if headers is None:
        return []
    lines = ["etag on;" if "etag" in headers else "etag off;"]
    if "accept-ranges" not in headers:
        lines.append("max_ranges 0;")
    if "last-modified" not in headers:
        lines.append('add_header Last-Modified "";')
    if "cache-control" in headers:
        lines.append('add_header Cache-Control "public, max-age=31536000, immutable";')
    if "vary" in headers:
        lines.append("add_header Vary Accept-Encoding;")
    return lines
