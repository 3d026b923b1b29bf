"""The figures of `./dev bench storage` as text: for the terminal, and for docs/benchmarks.md."""
import measure

# Verified once and held, it should cost what an unverified server costs; verified at each read, at most twice that.
GOALS = {
    "get_1k": {"req_s_ratio": (">=", 0.95)},
    "get_64k": {"req_s_ratio": (">=", 0.95)},
    "get_1m": {"req_s_ratio": (">=", 0.95)},
    "get_1m_cold": {"req_s_ratio": (">=", 0.5)},
    "range_64k": {"req_s_ratio": (">=", 0.95), "p99_ratio": ("<=", 1.3)},
}
TITLES = {
    "get_1k": "GET 1 KiB, hot",
    "get_1k_echo": "the same, the client brings `X-Corr-ID`",
    "get_64k": "GET 64 KiB, hot",
    "get_1m": "GET 1 MiB, hot",
    "get_1m_cold": "GET 1 MiB, verified at each read, in the page cache",
    "get_1m_disk": "GET 1 MiB, verified at each read, from the disk",
    "range_64k": "64 KiB range of a 1 GiB object, hot",
    "put_1k": "PUT 1 KiB, durable, 64 clients",
    "put_1m": "PUT 1 MiB, durable, 16 clients",
    "hash": "BLAKE3 of a file of 1 GiB, one thread",
}


def judge(row):
    """Adds to the row which goals it has and whether it meets them all."""
    goals = GOALS.get(row["case"], {})
    row["goals"] = {key: f"{sign} {bound}" for key, (sign, bound) in goals.items()}
    row["met"] = all(meets(row, key) for key in goals)


def meets(row, key):
    sign, bound = GOALS[row["case"]][key]
    return row[key] >= bound if sign == ">=" else row[key] <= bound


def show(rows, markdown):
    if any(row["quick"] for row in rows):
        print("From a quick run, with smaller sizes: it shows that the cases run, and no more.")
    if markdown:
        print_markdown(rows)
    else:
        print_plain(rows)


def is_comparison(row):
    return "cpu_ratio" in row


def print_plain(rows):
    print(f"\n{'case':<12} {'peer':<19} {'figure':<12} {'value':>8} {'spread':>7}  {'goal':<8} {'':<7} ours / peer")
    for row in filter(is_comparison, rows):
        for key in ("cpu_ratio", "req_s_ratio", "p99_ratio"):
            if key in row:
                goal = row["goals"].get(key, "")
                verdict = "" if not goal else "ok" if meets(row, key) else "MISSED"
                spread = {"cpu_ratio": row["spread"], "req_s_ratio": row["req_s_spread"]}.get(key, "")
                print(f"{row['case']:<12} {row['peer']:<19} {key:<12} {row[key]:>8} {spread:>7}  {goal:<8} "
                      f"{verdict:<7} {sides(row, key)}")
    for row in rows:
        if "ours_load_share" in row:
            print(f"{row['case']}, {row['peer']}: load core busy {row['ours_load_share']:.0%} / "
                  f"{row['peer_load_share']:.0%}, server core {row['ours_server_share']:.0%} / "
                  f"{row['peer_server_share']:.0%}, p99 {row['ours_p99_us']:,.0f} / {row['peer_p99_us']:,.0f} us, head "
                  f"{row['ours_head_bytes']} / {row['peer_head_bytes']} bytes")
            if max(row["ours_wait_share"], row["peer_wait_share"]) > measure.CONTENDED_SHARE:
                print(f"{row['case']}, {row['peer']}: threads waited for the core {row['ours_wait_share']:.0%} / "
                      f"{row['peer_wait_share']:.0%}: a server's own or somebody else's")
        for name, value in million_lines(row):
            print(f"{row['case']}: {name}: {value}")


def sides(row, key):
    ours, peer, unit, scale = {
        "cpu_ratio": ("ours_cpu_ns", "peer_cpu_ns", "us", 1e-3),
        "req_s_ratio": ("ours_req_s", "peer_req_s", "/s", 1),
        "p99_ratio": ("ours_p99_us", "peer_p99_us", "us", 1),
    }[key]
    return f"{figure(row[ours] * scale)} / {figure(row[peer] * scale)} {unit}"


def figure(value):
    """Three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def print_markdown(rows):
    print("| case | peer | CPU per request | requests/s | spread of the CPU ratio | ours / peer |")
    print("|---|---|---|---|---|---|")
    for row in filter(is_comparison, rows):
        unit = f"{row['ours_gib_s']:.2f} / {row['peer_gib_s']:.2f} GiB/s" if "ours_gib_s" in row else (
            sides(row, "cpu_ratio").replace("us", "µs"))
        print(f"| {TITLES[row['case']]} | {row['peer']} | {row['cpu_ratio']:.2f} | {row['req_s_ratio']:.2f} | "
              f"{row['spread']:.2f} | {unit} |")
    lines = [line for row in rows for line in million_lines(row)]
    if lines:
        print("\n| figure | |\n|---|---|")
        for name, value in lines:
            print(f"| {name} | {value} |")


def million_lines(row):
    if row["case"] != "million":
        return []
    disk = row["disk_bytes"]
    return [
        ("objects of 1 KiB", f"{row['objects']:,}"),
        ("durable PUTs, 64 clients", f"{row['put_req_s']:,.0f} /s, {row['put_cpu_ns'] / 1000:.1f} µs of CPU each"),
        ("memory of the empty server", memory(row["memory_empty"])),
        ("memory after the PUTs", memory(row["memory_after_put"])),
        (f"memory after GETs, {row['cached_bytes'] / (1 << 20):.0f} MiB of them in a cache of 64",
         memory(row["memory_after_get"])),
        ("on the disk, an object", f"{disk['segments'] / row['objects']:,.0f} bytes of log, "
         f"{disk['index'] / row['objects']:,.0f} of index"),
        ("`kill -9`, start: ready after", f"{row['ready_seconds_after_kill']:.2f} s"),
        ("its memory then", memory(row["memory_after_kill"])),
        ("clean stop, start: ready after", f"{row['ready_seconds_after_stop']:.2f} s"),
        ("its memory then", memory(row["memory_after_stop"])),
        ("index lost, start: ready after", f"{row['ready_seconds_after_loss']:.2f} s"),
    ]


def memory(of):
    mib = 1 << 20
    return (f"{of['total'] / mib:.0f} MiB ({of['memfd'] / mib:.0f} memfd, {of['anonymous'] / mib:.0f} heap, "
            f"{of['files'] / mib:.0f} program)")
