# SPDX-License-Identifier: Apache-2.0
"""Times on a card beside those of the peers, from lines of JSON: card_table.py OURS [PEERS]."""
import json
import math
import os
import sys


def read(path):
    rows = []
    if os.path.exists(path):
        for line in open(path):
            if line.startswith("{"):
                rows.append(json.loads(line))
    return [r for r in rows if r.get("status") == "ok"]


def agree(ours, theirs):
    """Check values that are known on both sides differ by rounding only."""
    if ours is None or theirs is None:
        return ""
    return "" if abs(ours - theirs) <= 2e-3 * max(abs(ours), abs(theirs)) + 1e-5 else " (check %.6g, %.6g)" % (ours, theirs)


def main():
    ours = {r["workload"]: r for r in read(sys.argv[1])}
    peers = {}
    for r in read(sys.argv[2]) if len(sys.argv) > 2 else []:
        peers.setdefault(r["workload"], {})[r["variant"]] = r
    logs = []
    print("| workload | us | best peer | us | ratio |")
    print("|---|---|---|---|---|")
    for name, row in ours.items():
        line = "| %s | %.1f |" % (name, row["seconds"] * 1e6)
        best = min(peers.get(name, {}).values(), key=lambda r: r["seconds"], default=None)
        if best:
            ratio = row["seconds"] / best["seconds"]
            logs.append(math.log(ratio))
            note = agree(row.get("check"), best.get("check"))
            line += " %s | %.1f | %.2f%s |" % (best["variant"], best["seconds"] * 1e6, ratio, note)
        else:
            line += " | | |"
        print(line)
    if logs:
        print("geometric mean %.2f, worst %.2f" % (math.exp(sum(logs) / len(logs)), math.exp(max(logs))))


if __name__ == "__main__":
    main()
