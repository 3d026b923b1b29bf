"""The servers that are measured: cairn-demo and nginx, each a child process pinned to the server core.

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
NGINX = "/usr/sbin/nginx"
TEMPLATE = pathlib.Path(__file__).parent / "nginx" / "static.conf"
READY_SECONDS = 10
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
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _wait_ready(self):
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {self._log_tail()}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"{self.name} does not listen after {READY_SECONDS} s: {self._log_tail()}")

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
            total += int((task / "schedstat").read_text().split()[1])
        return total


def demo(build, temp, files, flags=None, env=None):
    port = free_port()
    argv = [str(pathlib.Path(build) / DEMO), "serve", "--bind", f"127.0.0.1:{port}"]
    for key, value in {**DEMO_FLAGS, "demo.files": str(files), **(flags or {})}.items():
        argv += ["--set", f"{key}={value}"]
    return Server("cairn", argv, port, pathlib.Path(temp) / f"cairn-{port}.log", env)


def nginx(temp, root, sendfile, match, corr_id="$request_id"):
    """`match` is the set of lower-case header names of the answer it is compared with (None: nginx's own); `corr_id`
    the nginx variable that becomes X-Corr-ID."""
    port = free_port()
    prefix = pathlib.Path(temp) / f"nginx-{port}"
    prefix.mkdir()
    limit = open_file_limit()
    words = {
        "PREFIX": prefix,
        "PORT": port,
        "ROOT": root,
        "FILES": limit,
        "CONNECTIONS": min(16384, limit - 64),
        "SENDFILE": "on" if sendfile else "off",
        "CORR_ID": corr_id,
        "MATCH": "\n    ".join(_match_lines(match)),
    }
    text = TEMPLATE.read_text()
    for word, value in words.items():
        text = text.replace(f"@{word}@", str(value))
    conf = prefix / "nginx.conf"
    conf.write_text(text)
    return Server("nginx", [NGINX, "-p", str(prefix), "-c", str(conf)], port, prefix / "stderr.log")


def _match_lines(headers):
    if headers is None:
        return []
    lines = ["etag on;" if "etag" in headers else "etag off;"]
    if "accept-ranges" not in headers:
        lines.append("max_ranges 0;")
    if "last-modified" not in headers:
        lines.append('add_header Last-Modified "";')
    return lines
