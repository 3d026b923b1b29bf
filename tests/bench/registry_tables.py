"""The figures of `./dev bench registry` as text: for the terminal, and for docs/benchmarks.md."""
import measure
from tables import figure

MIB = 1 << 20
# A commit is a proposal, its approvals and a chained record, each durable; etcd's is one write of one key.
GOALS = {
    "commits_1of1_1": {"req_s_ratio": (">=", 1.0)},
    "commits_1of1_64": {"req_s_ratio": (">=", 1.0)},
    "proposals_64": {"req_s_ratio": (">=", 1.5)},
    "head": {"cpu_ratio": (">=", 5)},
    "fanout": {"p99_ratio": ("<=", 1.0)},
    "verify": {"entries_s": (">=", 500_000)},
    "large": {"memory_bytes": ("<=", 200 * MIB), "reads_ms_after_stop": ("<=", 800),
              "reads_ms_after_kill": ("<=", 800)},
}
TITLES = {
    "commits_1of1_1": "serial commits, 1 of 1, 1 client",
    "commits_1of1_64": "serial commits, 1 of 1, 64 clients",
    "commits_3of5_1": "serial commits, 3 of 5, 1 client",
    "commits_3of5_64": "serial commits, 3 of 5, 64 clients",
    "proposals_64": "proposals and approvals, durable, 64 clients",
    "head": "head reads, 64 clients",
    "fanout": "a commit told to 1,000 subscribers, an event",
}
PEERS = {
    "commits": "etcd, compare-and-swap of one key",
    "proposals_64": "etcd, puts of the same size",
    "head": "etcd, linearizable range",
    "fanout": "etcd, a put and 1,000 watchers",
}


def peer_of(case):
    return PEERS.get(case) or PEERS[case.split("_")[0]]


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
    print(f"\n{'case':<16} {'figure':<20} {'value':>11} {'spread':>7}  {'goal':<12} {'':<7} ours / etcd")
    for row in rows:
        keys = ("req_s_ratio", "cpu_ratio", "p50_ratio", "p99_ratio") if is_comparison(row) else row["goals"]
        for key in keys:
            if key not in row:
                continue
            goal = row["goals"].get(key, "")
            verdict = "" if not goal else "ok" if meets(row, key) else "MISSED"
            spread = {"cpu_ratio": row.get("spread"), "req_s_ratio": row.get("req_s_spread"),
                      "p99_ratio": row.get("p99_spread")}.get(key)
            print(f"{row['case']:<16} {key:<20} {row[key]:>11} {'' if spread is None else spread:>7}  {goal:<12} "
                  f"{verdict:<7} {sides(row, key) if is_comparison(row) else ''}")
    for row in filter(is_comparison, rows):
        print(f"{row['case']}: load core busy {row['ours_load_share']:.0%} / {row['peer_load_share']:.0%}, server core "
              f"{row['ours_server_share']:.0%} / {row['peer_server_share']:.0%}, p50 {row['ours_p50_us']:,.0f} / "
              f"{row['peer_p50_us']:,.0f} us, p99 {row['ours_p99_us']:,.0f} / {row['peer_p99_us']:,.0f} us")
        if max(row["ours_wait_share"], row["peer_wait_share"]) > measure.CONTENDED_SHARE:
            print(f"{row['case']}: threads waited for the core {row['ours_wait_share']:.0%} / "
                  f"{row['peer_wait_share']:.0%}: a server's own or somebody else's")
    for name, value in alone_lines(rows):
        print(f"{name}: {value}")


def sides(row, key):
    ours, peer, unit, scale = {
        "cpu_ratio": ("ours_cpu_ns", "peer_cpu_ns", "us", 1e-3),
        "req_s_ratio": ("ours_req_s", "peer_req_s", "/s", 1),
        "p50_ratio": ("ours_p50_us", "peer_p50_us", "us", 1),
        "p99_ratio": ("ours_p99_us", "peer_p99_us", "us", 1),
    }[key]
    return f"{figure(row[ours] * scale)} / {figure(row[peer] * scale)} {unit}"


def print_markdown(rows):
    print("| case | peer | per second | spread | CPU of each | ours / etcd, per second | ours / etcd, CPU |")
    print("|---|---|---|---|---|---|---|")
    for row in filter(is_comparison, rows):
        print(f"| {TITLES[row['case']]} | {row['peer']} | {row['req_s_ratio']:.2f} | {row['req_s_spread']:.2f} | "
              f"{row['cpu_ratio']:.2f} | {sides(row, 'req_s_ratio').removesuffix(' /s')} | "
              f"{sides(row, 'cpu_ratio').replace('us', 'µs')} |")
    lines = [line for row in rows for line in fanout_lines(row)] + alone_lines(rows)
    if lines:
        print("\n| figure | |\n|---|---|")
        for name, value in lines:
            print(f"| {name} | {value} |")


def fanout_lines(row):
    if row["case"] != "fanout":
        return []
    return [(f"from the commit until a subscriber of {row['subscribers']:,} knows, {which}: ours against etcd's",
             f"{row[which + '_ratio']:.2f} ({figure(row[f'ours_{which}_us'] / 1000)} / "
             f"{figure(row[f'peer_{which}_us'] / 1000)} ms)") for which in ("p50", "p99")]


def alone_lines(rows):
    lines = []
    for row in rows:
        if row["case"] == "verify":
            lines += [("deep verify on one core, hashes alone", f"{row['entries_s']:,} commits/s"),
                      ("the same with a signature each", f"{row['signed_entries_s']:,} commits/s")]
        if row["case"] == "large":
            kept = f"{row['versions']:,} versions"
            lines += [
                (f"{kept}: memory", f"{row['memory_bytes'] / MIB:.0f} MiB"),
                (f"{kept}: on the disk", f"{row['disk_bytes'] / row['versions']:,.0f} bytes each"),
                (f"{kept}: reads after a clean stop", f"{row['reads_ms_after_stop']:,} ms after the start"),
                (f"{kept}: reads after `kill -9`", f"{row['reads_ms_after_kill']:,} ms after the start"),
            ]
    return lines
