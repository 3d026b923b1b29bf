"""An HTTP/1.1 client of raw sockets that believes nothing: every answer is checked while it is read."""

import json
import re
import socket
import time

PATIENCE = 30.0  # a bound for a machine under load, never an expectation

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
CRLF = b"\r\n"


class Broken(AssertionError):
    """The server's bytes are not a complete, well-formed answer."""


class NoAnswer(Broken):
    """The connection ended before the first byte of an answer."""


class Answer:
    def __init__(self, status, reason, fields, body, raw_head):
        self.status, self.reason, self.fields, self.body, self.raw_head = status, reason, fields, body, raw_head
        self.interim = []

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def get(self, name):
        values = self.all(name)
        if len(values) > 1:
            raise Broken(f"{name} is repeated: {values}")
        return values[0] if values else None

    def closes(self):
        return (self.get("Connection") or "").lower() == "close"

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The error object, with its shape checked to the letter."""
        whole = json.loads(self.body)
        if list(whole) != ["error"]:
            raise Broken(f"error body has the keys {list(whole)}")
        error = whole["error"]
        expected = ["code", "message", "corr_id"]
        if self.get("Retry-After") is not None:
            expected.append("retry_after")
            if error.get("retry_after") != int(self.get("Retry-After")):
                raise Broken(f"retry_after {error.get('retry_after')} differs from Retry-After {self.get('Retry-After')}")
        if [key for key in error if key != "details"] != expected:
            raise Broken(f"error has the keys {list(error)}, expected {expected}")
        if error["corr_id"] != self.get("X-Corr-ID"):
            raise Broken(f"corr_id {error['corr_id']!r} differs from X-Corr-ID {self.get('X-Corr-ID')!r}")
        if not isinstance(error["message"], str) or not error["message"]:
            raise Broken("error without a message")
        if self.get("Content-Type") != "application/json":
            raise Broken(f"error of type {self.get('Content-Type')}")
        return error

    def __repr__(self):
        return f"<{self.status} {self.reason} {self.fields} {self.body[:200]!r}>"


def parse_head(raw):
    text = raw.decode("latin-1")
    if re.search(r"(?<!\r)\n|\r(?!\n)", text):
        raise Broken(f"bare CR or LF in a head: {raw!r}")
    lines = text.split("\r\n")
    match = re.fullmatch(r"HTTP/1\.1 ([1-5][0-9][0-9]) ([ -~]*)", lines[0])
    if not match:
        raise Broken(f"not a status line: {lines[0]!r}")
    fields = []
    for line in lines[1:]:
        field = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", line)
        if not field:
            raise Broken(f"not a field line: {line!r}")
        fields.append((field[1], field[2]))
    return int(match[1]), match[2], fields


class Connection:
    def __init__(self, address, receive_buffer=None):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            self.socket.connect(address)
        except BaseException:
            self.socket.close()
            raise
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)
        return self

    def send_as_it_goes(self, pieces):
        """Sends until the server stops taking it. True: all of it."""
        try:
            for piece in pieces:
                self.socket.sendall(piece)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def finish_sending(self):
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def _more(self):
        got = self.socket.recv(1 << 16)
        self.buffer += got
        return bool(got)

    def _take(self, count):
        while len(self.buffer) < count:
            if not self._more():
                raise Broken(f"{len(self.buffer)} of {count} bytes, then the end")
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def _line(self):
        while CRLF not in self.buffer:
            if len(self.buffer) > 1000 or not self._more():
                raise Broken(f"no line: {self.buffer[:200]!r}")
        line, self.buffer = self.buffer.split(CRLF, 1)
        return line

    def _head(self):
        while b"\r\n\r\n" not in self.buffer:
            try:
                more = self._more()
            except ConnectionResetError:
                if self.buffer:
                    raise
                raise NoAnswer("reset before an answer") from None
            if not more:
                raise Broken(f"half a head: {self.buffer!r}") if self.buffer else NoAnswer("closed without an answer")
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return head

    def _chunks(self):
        body = bytearray()
        while True:
            line = self._line()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", line):
                raise Broken(f"not a chunk size: {line!r}")
            size = int(line, 16)
            body += self._take(size)
            if self._take(2) != CRLF:
                raise Broken("chunk without its end")
            if size == 0:
                return bytes(body)

    def read(self, method="GET"):
        """One whole answer; interim ones are collected in `interim`."""
        interim = []
        while True:
            raw = self._head()
            status, reason, fields = parse_head(raw)
            if status >= 200:
                break
            interim.append(status)
        answer = Answer(status, reason, fields, b"", raw)
        answer.interim = interim
        coding, length = answer.get("Transfer-Encoding"), answer.get("Content-Length")
        if coding is not None and length is not None:
            raise Broken(f"Content-Length beside Transfer-Encoding: {raw!r}")
        for name in ("Date", "X-Corr-ID"):
            if not answer.get(name):
                raise Broken(f"no {name}: {raw!r}")
        if answer.get("X-Content-Type-Options") != "nosniff":
            raise Broken(f"no nosniff: {raw!r}")
        if method == "HEAD" or status in (204, 304):
            return answer
        if coding is not None:
            if coding != "chunked":
                raise Broken(f"Transfer-Encoding: {coding}")
            answer.body = self._chunks()
        elif length is not None:
            answer.body = self._take(int(length))
        else:
            answer.body = self.rest()
        return answer

    def rest(self):
        """Everything up to the end of the connection."""
        while self._more():
            pass
        rest, self.buffer = self.buffer, b""
        return rest

    def expect_end(self):
        rest = self.rest()
        if rest:
            raise Broken(f"bytes behind the last answer: {rest[:200]!r}")

    def ask(self, method, target, body=None, **fields):
        return self.send(request(method, target, body, **fields)).read(method)


def request(method, target, body=None, host="localhost", **fields):
    """A well-formed request. Field names are written with _ for -."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def head(line, *lines):
    """A head exactly as given, for requests that are wrong on purpose."""
    parts = [part if isinstance(part, bytes) else part.encode("latin-1") for part in (line, *lines)]
    return CRLF.join(parts) + b"\r\n\r\n"


def chunked(*parts, extension=b"", trailers=b""):
    return b"".join(b"%x%s\r\n%s\r\n" % (len(p), extension, p) for p in parts) + b"0\r\n" + trailers + b"\r\n"


def poll(check, what, patience=PATIENCE):
    """Asks again until `check` gives something true."""
    end = time.monotonic() + patience
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"never came true: {what}")
        time.sleep(0.01)
