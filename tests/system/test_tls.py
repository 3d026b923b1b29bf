"""TLS as strangers see it: curl, openssl s_client and Python's ssl against `cairn storage` and `cairn up --tls`."""

import contextlib
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import demo
import wire
from storage_server import ROOMY, b3sum, cairn

BAD_CONFIG = 78
LOCAL = "127.0.0.1"


class Authority:
    """A directory with an authority of its own and certificates."""

    def __init__(self, directory):
        self.data = directory
        self.authority = self.path("ca.pem")

    def path(self, name):
        return os.path.join(self.data, "keys", "tls", name)

    def certify(self, *names):
        made = cairn("key", "tls", *names, "--data", self.data)
        if made.returncode != 0:
            raise AssertionError(made.stderr)
        name = names[0].replace("*", "_")
        return self.path(f"{name}.pem"), self.path(f"{name}.key")

    def context(self, lowest=ssl.TLSVersion.TLSv1_2, protocols=("http/1.1",)):
        context = ssl.create_default_context(cafile=self.authority)
        context.minimum_version = lowest
        context.set_alpn_protocols(list(protocols))
        return context


class Server:
    """`cairn storage` with TLS, on port 0."""

    def __init__(self, settings, data):
        self.data, self.log_path = data, data + ".log"
        self.config_path = data + ".toml"
        self.settings = {**ROOMY, **settings}

    def __enter__(self):
        arguments = [os.path.join(demo.BUILD, "cairn"), "storage", "--data", self.data, "--bind", f"{LOCAL}:0"]
        for key, value in self.settings.items():
            arguments += ["--set", f"{key}={value}"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                                            env=demo.clean_environment())
        ready, _, _ = select.select([self.process.stdout], [], [], wire.PATIENCE)
        line = self.process.stdout.readline().decode() if ready else ""
        match = re.fullmatch(r"storage +https://([0-9.]+):([0-9]+)\n", line)
        if not match:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            raise AssertionError(f"did not start: {line!r} {self.log()[-2000:]}")
        self.port = int(match[2])
        with open(os.path.join(self.data, "keys", "admin.cap")) as file:
            self.token = file.read().strip()
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(wire.PATIENCE)
        self.process.stdout.close()
        if kind is None and code != 0:
            raise AssertionError(f"exit code {code}: {self.log()[-2000:]}")

    def log(self):
        with open(self.log_path, "rb") as log:
            return log.read().decode(errors="replace")

    def reloads(self, context):
        text = self.get(context, "/metrics")[1].decode()
        return {match[1]: float(match[2]) for match in re.finditer(r'^config_reload_total\{result="(\w+)"\} (\S+)', text, re.M)}

    def reload(self, context):
        """Signals, and waits until the reload was counted. Gives its result."""
        before = self.reloads(context)
        self.process.send_signal(signal.SIGHUP)
        changed = lambda: [result for result, count in self.reloads(context).items() if count != before[result]]
        return wire.poll(changed, "a reload is counted")[0]

    def connect(self, context, name="localhost", session=None):
        raw = socket.create_connection((LOCAL, self.port), wire.PATIENCE)
        try:
            return context.wrap_socket(raw, server_hostname=name, session=session)
        except BaseException:
            raw.close()
            raise

    def get(self, context, path, name="localhost", session=None):
        with self.connect(context, name, session) as connection:
            return ask(connection, path)

    def metric(self, context, result):
        text = self.get(context, "/metrics")[1].decode()
        return float(re.search(rf'^tls_handshakes_total\{{result="{result}"\}} (\S+)', text, re.M)[1])


def ask(connection, path, close=True):
    """A request over an open connection: the status and the body; all of it, or an error."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{'Connection: close' if close else 'X-A: b'}\r\n\r\n".encode())
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            raise AssertionError(f"ended within the head: {received!r}")
        received += piece
    head, body = received.split(b"\r\n\r\n", 1)
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(body) < length:
        piece = connection.recv(65536)
        if not piece:
            raise AssertionError("ended within the body")
        body += piece
    if close and connection.recv(1) != b"":
        raise AssertionError("bytes behind the answer")
    return int(head.split(b" ")[1]), body


class TlsCase(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory(prefix="cairn-tls-"))
        self.authority = Authority(os.path.join(self.directory, "authority"))
        self.cert, self.key = self.authority.certify("localhost", LOCAL)
        self.context = self.authority.context()

    def settings(self, **more):
        return {"tls.enabled": "true", "tls.cert": self.cert, "tls.key": self.key,
                **{"tls." + key: value for key, value in more.items()}}

    def serve(self, settings=None):
        return self.enterContext(Server(settings or self.settings(), os.path.join(self.directory, "data")))

    def openssl(self, server, *arguments, text="Q\n"):
        return subprocess.run(["openssl", "s_client", "-connect", f"{LOCAL}:{server.port}", "-CAfile", self.authority.authority,
                               *arguments], input=text, capture_output=True, text=True, timeout=wire.PATIENCE)


class Clients(TlsCase):
    def test_curl_verifies_and_gets(self):
        server = self.serve()
        url = f"https://localhost:{server.port}/healthz"
        got = subprocess.run(["curl", "-sS", "--cacert", self.authority.authority, "-w", "%{http_code} %{ssl_verify_result}", "-o",
                              os.devnull, url], capture_output=True, text=True)
        self.assertEqual((got.returncode, got.stdout), (0, "200 0"), got.stderr)
        untrusted = subprocess.run(["curl", "-sS", url], capture_output=True, text=True)
        self.assertEqual(untrusted.returncode, 60, untrusted.stderr)

    def test_an_object_goes_in_and_out_whole(self):
        server = self.serve(self.settings() | {"limits.max_body_bytes": "16MiB"})
        content = os.urandom(5 << 20)
        source = os.path.join(self.directory, "object")
        with open(source, "wb") as file:
            file.write(content)
        address = b3sum(content)[0]
        environment = {"CAIRN_CAP": server.token, "CAIRN_URL": f"https://localhost:{server.port}"}
        put = cairn("put", "-q", source, "--ca", self.authority.authority, environment=environment)
        self.assertEqual((put.returncode, put.stdout.strip()), (0, address), put.stderr)
        target = os.path.join(self.directory, "back")
        got = cairn("get", address, "-o", target, environment={**environment, "CAIRN_CA": self.authority.authority})
        self.assertEqual(got.returncode, 0, got.stderr)
        with open(target, "rb") as file:
            self.assertEqual(file.read(), content)
        fetched = subprocess.run(["curl", "-sS", "--cacert", self.authority.authority,
                                  f"https://localhost:{server.port}/o/{address}"], capture_output=True)
        self.assertEqual(fetched.stdout, content, fetched.stderr)

    def test_the_cli_asks_nobody_whom_it_cannot_verify(self):
        server = self.serve()
        url = f"https://localhost:{server.port}"
        stranger = cairn("status", "--url", url)
        self.assertNotEqual(stranger.returncode, 0)
        self.assertIn("certificate", stranger.stderr)
        missing = cairn("status", "--url", url, "--ca", "/nowhere/ca.pem")
        self.assertIn("/nowhere/ca.pem", missing.stderr)
        plain = cairn("status", "--url", f"http://localhost:{server.port}")
        self.assertNotEqual(plain.returncode, 0)
        trusted = cairn("status", "--url", url, "--ca", self.authority.authority, environment={"CAIRN_CAP": server.token})
        self.assertEqual(trusted.returncode, 0, trusted.stderr)


class Handshakes(TlsCase):
    def test_versions_below_the_configured_are_refused(self):
        server = self.serve()
        for version in ("-tls1", "-tls1_1", "-tls1_2"):
            refused = self.openssl(server, version, "-cipher", "ALL:@SECLEVEL=0")
            self.assertNotEqual(refused.returncode, 0, version)
            self.assertIn("Cipher is (NONE)", refused.stdout, version)
        self.assertIn("TLSv1.3", self.openssl(server, "-tls1_3").stdout)

    def test_tls_12_by_choice_has_forward_secret_suites_only(self):
        server = self.serve(self.settings(min_version="1.2"))
        self.assertRegex(self.openssl(server, "-tls1_2").stdout, r"Cipher is ECDHE-\S+(GCM|CHACHA20)")
        for suites in ("AES128-GCM-SHA256:AES256-SHA", "ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384", "aNULL", "DHE"):
            refused = self.openssl(server, "-tls1_2", "-cipher", suites + ":@SECLEVEL=0")
            self.assertIn("Cipher is (NONE)", refused.stdout, suites)
        self.assertIn("Cipher is (NONE)", self.openssl(server, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0").stdout)

    def test_there_is_no_compression_and_no_renegotiation(self):
        server = self.serve(self.settings(min_version="1.2"))
        for version in ("-tls1_2", "-tls1_3"):
            self.assertIn("Compression: NONE", self.openssl(server, version, "-comp").stdout)
        asked = subprocess.Popen(["openssl", "s_client", "-connect", f"{LOCAL}:{server.port}", "-tls1_2", "-CAfile", self.authority.authority],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with contextlib.closing(asked.stdout):
            asked.stdin.write("R\n")
            asked.stdin.flush()
            self.assertRegex(asked.stdout.read(), "no renegotiation|unexpected eof|sslv3 alert|handshake failure")
            asked.stdin.close()
            asked.wait(wire.PATIENCE)

    def test_protocols_are_agreed_upon_or_the_handshake_fails(self):
        server = self.serve()
        with server.connect(self.context) as connection:
            self.assertEqual(connection.selected_alpn_protocol(), "http/1.1")
        with self.assertRaises(ssl.SSLError):
            server.connect(self.authority.context(protocols=("gopher",)))

    def test_the_name_picks_the_certificate(self):
        one, two = self.authority.certify("one.test"), self.authority.certify("*.two.test", "two.test")
        server = self.serve(self.settings(certs=f"{one[0]}:{one[1]},{two[0]}:{two[1]}"))
        for name in ("localhost", "one.test", "two.test", "www.two.test"):
            with server.connect(self.context, name) as connection:
                names = [value for kind, value in connection.getpeercert()["subjectAltName"]]
                self.assertTrue(any(name == each or each.startswith("*.") and name.endswith(each[1:]) for each in names), names)
        with self.assertRaises(ssl.SSLCertVerificationError):
            server.connect(self.context, "three.test")

    def test_tickets_resume_and_each_use_gives_a_new_one(self):
        server = self.serve()
        sessions = []
        for i in range(4):
            with server.connect(self.context, session=sessions[-1] if sessions else None) as connection:
                self.assertEqual(connection.session_reused, i > 0)
                self.assertEqual(ask(connection, "/healthz")[0], 200)
                sessions.append(connection.session)
        self.assertEqual(server.metric(self.context, "resumed"), 3)
        said = self.openssl(server, "-tls1_3", "-ign_eof", text="GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").stdout
        self.assertEqual(said.count("Post-Handshake New Session Ticket arrived"), 1)

    def test_strangers_bytes_cost_their_own_connection(self):
        server = self.serve()
        for text in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70000, b"\x80\x2e\x01\x03\x01" * 40):
            with socket.create_connection((LOCAL, server.port), wire.PATIENCE) as raw:
                with contextlib.suppress(ConnectionError):
                    raw.sendall(text)
                    while raw.recv(4096):
                        pass
        self.assertEqual(server.get(self.context, "/healthz")[0], 200)
        self.assertGreaterEqual(server.metric(self.context, "failed"), 3)

    def test_silent_handshakes_are_cut_and_take_no_place_from_others(self):
        server = self.serve(self.settings() | {"server.max_conns": "64", "server.max_conns_per_ip": "64", "server.shards": "1"})
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection((LOCAL, server.port), wire.PATIENCE)) for _ in range(100)]
            self.assertEqual(server.get(self.context, "/healthz")[0], 200)
            for each in silent:
                with contextlib.suppress(ConnectionError):
                    self.assertEqual(each.recv(1), b"")
            self.assertLess(time.monotonic() - began, wire.PATIENCE)
        self.assertEqual(server.get(self.context, "/healthz")[0], 200)


class Ends(TlsCase):
    def test_a_body_that_is_cut_is_an_error_for_the_client_and_for_the_server(self):
        server = self.serve()
        # Ours, cut by the client: without close_notify it is no end. The object must not come to be.
        raw = socket.create_connection((LOCAL, server.port), wire.PATIENCE)
        connection = self.context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False)
        connection.sendall((f"POST /o HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
                            "Content-Length: 100000\r\n\r\n").encode() + b"x" * 1000)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ssl.SSLError, OSError):
            while connection.recv(4096):
                pass
        connection.close()
        self.assertEqual(server.get(self.context, "/healthz")[0], 200)

    def test_the_server_says_its_end(self):
        server = self.serve()
        raw = socket.create_connection((LOCAL, server.port), wire.PATIENCE)
        # A missing close_notify would be an exception here.
        with self.context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as connection:
            self.assertEqual(ask(connection, "/healthz")[0], 200)

    def test_draining_says_the_end_to_idle_connections(self):
        server = self.serve()
        raw = socket.create_connection((LOCAL, server.port), wire.PATIENCE)
        with self.context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as connection:
            self.assertEqual(ask(connection, "/version", close=False)[0], 200)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(connection.recv(1), b"")

    def test_browsers_are_told_to_stay_only_if_a_key_says_so(self):
        server = self.serve(self.settings(hsts="1h"))
        got = subprocess.run(["curl", "-sSi", "--cacert", self.authority.authority, f"https://localhost:{server.port}/healthz"],
                             capture_output=True, text=True)
        self.assertIn("Strict-Transport-Security: max-age=3600\n", got.stdout)


class Reloads(TlsCase):
    def load(self, server, stop, problems, counts):
        """Requests over kept connections, which must not break, and over new ones."""
        try:
            with server.connect(self.context) as kept:
                while not stop.is_set():
                    if ask(kept, "/version", close=False)[0] != 200 or server.get(self.context, "/version")[0] != 200:
                        problems.append("a refused request")
                    counts.append(1)
        except Exception as problem:  # told by the test
            problems.append(repr(problem))

    def serial(self, server):
        with server.connect(self.context) as connection:
            return connection.getpeercert()["serialNumber"]

    def test_a_new_certificate_under_load_drops_no_connection(self):
        server = self.serve()
        stop, problems, counts = threading.Event(), [], []
        threads = [threading.Thread(target=self.load, args=(server, stop, problems, counts)) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            serials = {self.serial(server)}
            for _ in range(3):
                self.authority.certify("localhost", LOCAL)
                self.assertIn(server.reload(self.context), ("applied", "unchanged"))
                wire.poll(lambda: self.serial(server) not in serials, "the new certificate is shown")
                serials.add(self.serial(server))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(problems, [])
        self.assertEqual(len(serials), 4)
        self.assertGreater(len(counts), 8)

    def test_a_bad_certificate_is_refused_and_the_old_one_stays(self):
        server = self.serve()
        before = self.serial(server)
        with open(self.cert) as file:
            good = file.read()
        with open(self.cert, "w") as file:
            file.write("no certificate")
        self.assertEqual(server.reload(self.context), "rejected")
        self.assertEqual(self.serial(server), before)
        self.assertIn(self.cert, server.log())
        with open(self.cert, "w") as file:
            file.write(good)
        self.assertIn(server.reload(self.context), ("applied", "unchanged"))


class Refusals(TlsCase):
    def refused(self, settings):
        arguments = [item for key, value in settings.items() for item in ("--set", f"{key}={value}")]
        ended = cairn("storage", "--data", os.path.join(self.directory, "data"), "--bind", f"{LOCAL}:0", *arguments)
        self.assertEqual(ended.returncode, BAD_CONFIG, ended.stderr)
        return ended.stderr

    def test_a_key_that_others_can_read_is_refused(self):
        for mode in (0o644, 0o640, 0o604, 0o602):
            os.chmod(self.key, mode)
            self.assertRegex(self.refused(self.settings()), rf"tls.key: {self.key}: can be read or changed by others.*chmod 600")
        self.assertFalse(os.path.exists(os.path.join(self.directory, "data", "storage")))

    def test_what_is_missing_or_bad_is_named(self):
        self.assertIn("/nowhere.pem: cannot be read", self.refused(self.settings() | {"tls.cert": "/nowhere.pem"}))
        self.assertIn("holds no certificate", self.refused(self.settings() | {"tls.cert": self.key}))
        other = self.authority.certify("other")[1]
        self.assertIn("the key does not belong to the certificate", self.refused(self.settings() | {"tls.key": other}))
        self.assertIn("tls.ocsp", self.refused(self.settings(ocsp=self.cert)))
        self.assertIn("needs tls.cert and tls.key", self.refused({"tls.enabled": "true"}))
        self.assertIn("CERT:KEY", self.refused(self.settings(certs="one")))


class Stapling(TlsCase):
    def test_an_ocsp_answer_is_stapled(self):
        answer = os.path.join(self.directory, "ocsp.der")
        index = os.path.join(self.directory, "index.txt")
        serial = subprocess.run(["openssl", "x509", "-in", self.cert, "-noout", "-serial"], capture_output=True, text=True,
                                check=True).stdout.strip().split("=")[1]
        with open(index, "w") as file:
            file.write(f"V\t351231235959Z\t\t{serial}\tunknown\t/CN=localhost\n")
        made = subprocess.run(["openssl", "ocsp", "-index", index, "-CA", self.authority.authority, "-rsigner", self.authority.authority,
                               "-rkey", self.authority.path("ca.key"), "-issuer", self.authority.authority, "-cert", self.cert,
                               "-respout", answer, "-ndays", "7"], capture_output=True, text=True)
        self.assertTrue(os.path.exists(answer), made.stderr)
        server = self.serve(self.settings(ocsp=answer))
        self.assertIn("OCSP Response Status: successful", self.openssl(server, "-status", "-servername", "localhost").stdout)


class Up(unittest.TestCase):
    def test_up_makes_what_it_needs_and_says_how_to_trust_it(self):
        home = self.enterContext(tempfile.TemporaryDirectory(prefix="cairn-up-tls-"))
        data = os.path.join(home, "data")
        with socket.socket() as probe:
            probe.bind((LOCAL, 0))
            base = max(1024, probe.getsockname()[1] - 40)
        with open(os.path.join(home, "log"), "wb") as log:
            process = subprocess.Popen([os.path.join(demo.BUILD, "cairn"), "up", "--tls", "--data", data, "--port-base", str(base)],
                                       stdout=subprocess.PIPE, stderr=log, text=True, env=demo.clean_environment())
        try:
            urls = dict(process.stdout.readline().split() for _ in range(4))
            self.assertEqual({name: url.split(":")[0] for name, url in urls.items()},
                             {"gateway": "https", "storage": "http", "index": "http", "registry": "http"})
            authority = os.path.join(data, "keys", "tls", "ca.pem")
            for version, spoken in (("--http1.1", "1.1"), ("--http2", "2")):
                got = subprocess.run(["curl", "-sS", version, "--cacert", authority, "-o", os.devnull,
                                      "-w", "%{http_code} %{http_version}", urls["gateway"] + "/healthz"],
                                     capture_output=True, text=True)
                self.assertEqual(got.stdout, f"200 {spoken}", got.stderr)
            for name in ("ca.key", "localhost.key"):
                self.assertEqual(os.stat(os.path.join(data, "keys", "tls", name)).st_mode & 0o777, 0o600)
            status = cairn("status", "--data", data)
            self.assertEqual(status.returncode, 0, status.stderr)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(wire.PATIENCE)
            process.stdout.close()
        self.assertEqual(code, 0)
        with open(os.path.join(home, "log")) as log:
            self.assertIn(f"curl --cacert {authority}", log.read())


if __name__ == "__main__":
    unittest.main()
