"""What a storage server holds before it is measured, and the same bytes as files for nginx."""
import json
import os

import measure

MIB = 1 << 20


def post(client, server, body):
    """Puts an object; its address."""
    status, _, answer = client.ask("POST", "/o", body, Authorization=server.bearer)
    if status != 201:
        raise RuntimeError(f"POST /o answered {status}: {answer[:300]!r}")
    return json.loads(answer)["address"]


def fill(server, root, count, size):
    """Puts `count` objects of random bytes, and the files /o/ADDRESS below `root`; their paths."""
    (root / "o").mkdir(parents=True, exist_ok=True)
    paths = []
    with measure.Client(server) as client:
        for _ in range(count):
            body = os.urandom(size)
            path = "/o/" + post(client, server, body)
            (root / path[1:]).write_bytes(body)
            paths.append(path)
    return paths


def upload(server, root, size):
    """Puts one object of `size` bytes in parts of 1 MiB, and its file; its path."""
    (root / "o").mkdir(parents=True, exist_ok=True)
    pending = root / "pending"
    with measure.Client(server) as client, open(pending, "wb") as file:
        bearer = server.bearer
        status, _, answer = client.ask("POST", "/uploads", b'{"size":%d}' % size, Authorization=bearer)
        if status != 201:
            raise RuntimeError(f"POST /uploads answered {status}: {answer[:300]!r}")
        target = "/uploads/" + json.loads(answer)["id"]
        for offset in range(0, size, MIB):
            part = os.urandom(min(MIB, size - offset))
            file.write(part)
            status, _, answer = client.ask("PATCH", target, part, Upload_Offset=offset, Authorization=bearer)
            if status != 204:
                raise RuntimeError(f"PATCH at {offset} answered {status}: {answer[:300]!r}")
        status, _, answer = client.ask("POST", target + "/commit", b"", Authorization=bearer)
        if status != 201:
            raise RuntimeError(f"the commit answered {status}: {answer[:300]!r}")
    path = "/o/" + json.loads(answer)["address"]
    pending.rename(root / path[1:])
    return path


def verify(server, root, paths, times=1):
    """Every answer has the bytes of its file; a side effect is that they are in whatever memory the server has."""
    with measure.Client(server) as client:
        for path in paths * times:
            status, _, body = client.get(path)
            if status != 200 or body != (root / path[1:]).read_bytes():
                raise RuntimeError(f"{server.name}: {path} answered {status} with {len(body)} other bytes")


def verify_ranges(server, root, path, ranges, times=1):
    with measure.Client(server) as client, open(root / path[1:], "rb") as file:
        for first, last in ranges * times:
            status, _, body = client.ask("GET", path, Range=f"bytes={first}-{last}")
            file.seek(first)
            if status != 206 or body != file.read(last + 1 - first):
                raise RuntimeError(f"{server.name}: {first}-{last} answered {status} with {len(body)} bytes")


def headers(server, path, **fields):
    """The names of the answer's fields."""
    with measure.Client(server) as client:
        status, found, _ = client.ask("GET", path, **fields)
    if status not in (200, 206):
        raise RuntimeError(f"{server.name}: {path} answered {status}")
    return sorted(found)


def counters(server, *names):
    """The sums of some metrics."""
    with measure.Client(server) as client:
        _, _, body = client.get("/metrics")
    sums = dict.fromkeys(names, 0.0)
    seen = set()
    for line in body.decode().splitlines():
        name = line.split("{")[0].split(" ")[0]
        if name in sums:
            sums[name] += float(line.rsplit(" ", 1)[1])
            seen.add(name)
    if seen != set(names):
        raise RuntimeError(f"/metrics has no {', '.join(set(names) - seen)}")
    return [sums[name] for name in names]


def object_count(server):
    with measure.Client(server) as client:
        status, _, body = client.ask("GET", "/admin/status", Authorization=server.bearer)
    if status != 200:
        raise RuntimeError(f"/admin/status answered {status}: {body[:300]!r}")
    return json.loads(body)["objects"]


def redis_count(server):
    with measure.Client(server) as client:
        client.socket.sendall(b"DBSIZE\r\n")
        answer = client.stream.readline()
    if not answer.startswith(b":"):
        raise RuntimeError(f"DBSIZE answered {answer!r}")
    return int(answer[1:])


def listed(server, count):
    """The paths of the first `count` objects."""
    paths, after = [], ""
    with measure.Client(server) as client:
        while len(paths) < count:
            status, _, body = client.ask("GET", f"/o?limit=1000&after={after}" if after else "/o?limit=1000",
                                         Authorization=server.bearer)
            if status != 200:
                raise RuntimeError(f"GET /o answered {status}: {body[:300]!r}")
            page = json.loads(body)
            paths += ["/o/" + one["address"] for one in page["objects"]]
            after = page.get("next")
            if not after:
                break
    if len(paths) < count:
        raise RuntimeError(f"only {len(paths)} of {count} objects are listed")
    return paths[:count]
