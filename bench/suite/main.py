# SPDX-License-Identifier: Apache-2.0
"""main.py: the command line of script/bench, which explains the options."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import limits
import peers
from fluxion import Failed, Flx
from op_cases import CASES, SIZES
from workloads import WORKLOADS


def split(text: str) -> list[str]:
    return [t for t in text.split(",") if t]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/bench", description="script/bench --help explains everything")
    parser.add_argument("what", nargs="?", choices=["suite", "ops", "standalone"], default="suite")
    parser.add_argument("--flx", default="build/flx", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", type=split)
    parser.add_argument("--peers", default=None, type=split)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--json")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--seconds", default=1.0, type=float)
    parser.add_argument("--svg")
    parser.add_argument("--best", action="store_true")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--no-own", action="store_true")
    parser.add_argument("--no-stablehlo", action="store_true")
    parser.add_argument("--size", default=["1MB"], type=split)
    parser.add_argument("--worst", default=40, type=int)
    arguments = parser.parse_args()
    kinds = ["numpy", "jax", "torch"] if arguments.what == "ops" else ["jax", "torch", "torch-compile"]
    if arguments.what == "standalone":
        arguments.peers = []
    if arguments.peers is None:
        arguments.peers = [k for k in kinds if peers.available(k)]
    elif arguments.peers == ["none"]:
        arguments.peers = []
    unknown = [p for p in arguments.peers if p not in kinds]
    if unknown:
        parser.error(f"argument --peers: '{unknown[0]}' is not one of {', '.join(kinds)}, none")
    for p in arguments.peers:
        if not peers.available(p):
            parser.error(f"argument --peers: {p} is not installed for {sys.executable}")
    for size in arguments.size:
        if size not in SIZES:
            parser.error(f"argument --size: '{size}' is not one of {', '.join(SIZES)}")
    known = {c.op for c in CASES} | {c.name for c in CASES} if arguments.what == "ops" else {w.name for w in WORKLOADS}
    for name in arguments.only:
        if name not in known:
            parser.error(f"argument --only: there is no '{name}'; --list shows all names")
    return arguments


def commit() -> str:
    """The commit of the working tree, with a mark if it has changes; empty outside of a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def environment(arguments: argparse.Namespace, cores: list[int], most: limits.Limits) -> str:
    model = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "")
    named = {"numpy": ["numpy", "scipy"], "jax": ["jax"], "torch": ["torch"], "torch-compile": ["torch"]}
    versions = ", ".join(dict.fromkeys(f"{m} {peers.version(m)}" for p in arguments.peers for m in named[p]))
    return (
        f"commit {commit() or 'unknown'}; {model}; {arguments.threads} threads on cores {','.join(map(str, cores))}; "
        f"peers: {versions or 'none'}\n"
        f"limits: {most.memory / 1e9:.1f} GB/s from memory, {most.cache / 1e9:.0f} GB/s from caches, "
        f"{most.flops / 1e9:.0f} GFLOP/s in f32"
    )


def main() -> int:
    a = parse_arguments()
    if a.list:
        names = [c.name for c in CASES] if a.what == "ops" else [f"{w.name:14} {w.about}" for w in WORKLOADS]
        print("\n".join(names))
        return 0
    cores = peers.pin(a.threads)
    flx = Flx(a.flx, a.threads)
    with tempfile.TemporaryDirectory(prefix="flx_bench_") as folder:
        work = Path(folder)
        flx.env["FLX_CACHE_DIR"] = str(work / "cache")
        most = limits.measure(work, a.threads)
        print(environment(a, cores, most), flush=True)
        started = [peers.Peer(kind, a.what, a.threads) for kind in a.peers]
        try:
            if a.what == "ops":
                from op_table import Table, run

                flx.timeout = 60
                return run(
                    Table(flx, started, most, work, 0.1 if a.seconds == 1.0 else a.seconds),
                    a.size,
                    a.only,
                    a.json,
                    a.worst,
                )
            if a.what == "standalone":
                from standalone import run_standalone

                return run_standalone(a, flx, work)
            from suite import run_suite

            if "jax" not in a.peers and not a.no_stablehlo and peers.available("jax"):
                started.insert(0, peers.Peer("jax", a.what, a.threads, is_timed=False))  # writes StableHLO
            return run_suite(a, flx, started, most, work)
        finally:
            for peer in started:
                peer.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the temporary files
    try:
        sys.exit(main())
    except Failed as e:
        sys.exit(f"script/bench: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
