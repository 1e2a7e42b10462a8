# SPDX-License-Identifier: Apache-2.0
"""op_table.py: every op of the op table timed, forward and gradient, beside the fastest of NumPy, SciPy, JAX, PyTorch.

Slow is more than twice the time of the fastest peer or, without a peer, more than eight times the time that the bytes
of operands and results or the known arithmetic take. What seems slow is measured again, since other processes may have
disturbed it; the fastest runs count.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from string import Template

import numpy as np

import operands as ops
from fluxion import Failed, Flx, load_outputs, worst_error
from limits import Limits
from op_cases import CASES, NOT_TIMED, SIZES, Case
from peers import Missing, Peer

PEER_FACTOR, BYTE_FACTOR, OVERHEAD = 2.0, 8.0, 1e-6
TOLERANCE = {"f64": 1e-8, "bf16": 2e-2}
ORDER = {"small": 0, "1MB": 1, "64MB": 2}


@dataclass
class Row:
    name: str
    size: str
    gradient: bool
    ours: float = 0.0  # seconds, of the fastest run: other processes disturb it least
    compile_s: float = 0.0
    peers: dict[str, float] = field(default_factory=dict)
    bound_s: float = 0.0  # the time that the bytes or the arithmetic take at least
    error: float = 0.0  # of forward results, relative
    notes: list[str] = field(default_factory=list)
    failed: str = ""
    steps: str = ""

    @property
    def best(self) -> tuple[str, float]:
        return min(self.peers.items(), key=lambda p: p[1], default=("", 0.0))

    @property
    def ratio(self) -> float:
        """To the fastest peer, or to the time of the bytes; 0 if there is neither."""
        against = self.best[1] or max(self.bound_s, OVERHEAD)
        return self.ours / against if against else 0.0

    @property
    def slow(self) -> bool:
        return bool(self.failed) or self.ratio > (PEER_FACTOR if self.peers else BYTE_FACTOR)

    def merge(self, again: "Row") -> None:
        """Takes the faster times of a second measurement."""
        self.ours = min(self.ours, again.ours) or self.ours
        for peer, seconds in again.peers.items():
            self.peers[peer] = min(seconds, self.peers.get(peer, seconds))

    @property
    def severity(self) -> float:
        return float("inf") if self.failed else self.ratio / (1 if self.peers else BYTE_FACTOR / PEER_FACTOR)


def graph_text(c: Case, listed: list[ops.Operand], extents: dict[str, int]) -> str:
    rows, columns = ops.band(extents["Q"])
    letters: dict[str, object] = dict(extents)
    if "$band" in c.call:
        letters.update(band_rows=rows.tolist(), band_cols=columns.tolist())
    call = c.call or f"{c.op}({', '.join(o.name for o in listed)})"
    declared = ", ".join(f"{o.name}: {o.type_text}" for o in listed)
    names = ", ".join(f"result{i}" for i in range(c.results))
    text = f"{c.bodies}\ngraph main({declared}) {{\n  {names} = {call}\n  return {names}\n}}\n"
    text = Template(text).substitute(letters)
    return re.sub(r"\b(\d+(?:[*/]\d+)+)", lambda m: str(eval(m.group().replace("/", "//"))), text)


class Table:
    def __init__(self, flx: Flx, peers: list[Peer], limits: Limits, work: Path, seconds: float):
        self.flx, self.peers, self.limits, self.work, self.seconds = flx, peers, limits, work, seconds
        self.rules = {o["name"]: o["vjp"] for o in map(json.loads, flx.call("ops", "--json").splitlines())}

    def uncovered(self) -> list[str]:
        """Ops of the table that have neither a case nor a reason to have none, and cases of ops that do not exist."""
        known = {c.op for c in CASES} | set(NOT_TIMED)
        return sorted(set(self.rules) ^ known)

    def differentiated(self, c: Case, listed: list[ops.Operand]) -> list[str]:
        if self.rules[c.op] not in ("rule", "decomposition") or c.wrt == "":
            return []
        floating = [o.name for o in listed if o.dtype in ops.FLOATING]
        return c.wrt.split(",") if c.wrt else floating

    def rows(self, index: int, size: str) -> list[Row]:
        c, extents = CASES[index], SIZES[size]
        if ORDER[c.most] < ORDER[size]:
            return []
        listed = ops.parse(c.operands, extents)
        folder = self.work / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        inputs = {}
        for seed, o in enumerate(listed):
            np.save(folder / f"{o.name}.npy", ops.value(o, seed + 1))
            inputs[o.name] = folder / f"{o.name}.npy"
        source = folder / "main.flx"
        source.write_text(graph_text(c, listed, extents))
        rows = [self.forward(index, c, size, listed, source, inputs)]
        wrt = self.differentiated(c, listed)
        if wrt and not rows[0].failed:
            rows.append(self.backward(index, c, size, wrt, source, inputs))
        return rows

    def explain(self, row: Row, source: Path) -> None:
        if row.slow and not row.failed:
            try:
                row.steps = self.flx.steps(source)
            except Failed as e:
                row.notes.append(str(e))

    def ask_peers(self, row: Row, index: int, wrt: list[str], folder: Path, save: bool) -> None:
        for peer in self.peers:
            try:
                found = peer.ask(
                    do="op", case=index, size=row.size, folder=str(folder), wrt=wrt, seconds=self.seconds, save=save
                )
                row.peers[peer.kind] = found["best"]
            except Missing:
                pass
            except Failed as e:
                row.notes.append(str(e))

    def forward(
        self, index: int, c: Case, size: str, listed: list[ops.Operand], source: Path, inputs: dict[str, Path]
    ) -> Row:
        row = Row(c.name, size, False)
        out = source.parent / "out"
        try:
            timing = self.flx.bench(source, inputs, self.seconds, out)
        except Failed as e:
            row.failed = str(e)
            return row
        row.ours, row.compile_s = timing.best, timing.compile_s
        results = load_outputs(out, [f"result{i}" for i in range(c.results)])
        self.set_bound(row, sum(o.nbytes for o in listed) + sum(r.nbytes for r in results), timing.flops)
        self.ask_peers(row, index, [], source.parent, c.compare)
        if c.compare:
            self.compare(row, c, results, source.parent, listed)
        self.explain(row, source)
        return row

    def set_bound(self, row: Row, nbytes: float, flops: float) -> None:
        rate = self.limits.memory if nbytes > 24 << 20 else self.limits.cache
        row.bound_s = max(nbytes / rate, flops / self.limits.flops) if rate else 0.0

    def compare(self, row: Row, c: Case, results: list[np.ndarray], folder: Path, listed: list[ops.Operand]) -> None:
        tolerance = TOLERANCE.get(listed[0].dtype if listed else "f32", 1e-3)
        for peer in row.peers:
            name = "np" if peer == "numpy" else peer
            expected = [np.load(f) for f in sorted(folder.glob(f"{name}_*.npy"))]
            error = worst_error(expected, results)
            row.error = max(row.error, error)
            if error > tolerance:
                row.notes.append(f"differs from {peer} by {error:.1e}")

    def backward(self, index: int, c: Case, size: str, wrt: list[str], source: Path, inputs: dict[str, Path]) -> Row:
        row = Row(c.name, size, True)
        try:
            derived = self.flx.transform(
                "grad",
                source,
                source.parent / "grad.flx",
                "--wrt",
                ",".join(wrt),
                "--seed",
                "input",
                "--missing",
                "zero",
            )
            timing = self.flx.bench(derived, inputs, self.seconds)
        except Failed as e:
            row.failed = str(e)
            return row
        row.ours, row.compile_s = timing.best, timing.compile_s
        self.set_bound(row, sum(i.stat().st_size for i in inputs.values()) * 2, timing.flops)
        self.ask_peers(row, index, wrt, source.parent, False)
        self.explain(row, derived)
        return row


# ---- Telling ----


def time_text(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def line(row: Row) -> str:
    what = row.name + (" '" if row.gradient else "")
    if row.failed:
        return f"{what:38} {row.size:5} FAILED {row.failed}"
    peer, best = row.best
    against = f"{peer} {time_text(best)}" if peer else f"bound {time_text(row.bound_s)}"
    flag = "SLOW" if row.slow else ""
    more = "; ".join(row.notes + ([row.steps] if row.steps and row.slow else []))
    return f"{what:38} {row.size:5} {time_text(row.ours):>9} {against:>17} {row.ratio:8.2f} {flag:4} {more}".rstrip()


def run(table: Table, sizes: list[str], only: list[str], json_file: str | None, worst: int) -> int:
    if missing := table.uncovered():
        print("script/bench: op_cases.py and the op table differ in: " + ", ".join(missing), file=sys.stderr)
    chosen = [i for i, c in enumerate(CASES) if c.op in table.rules and (not only or c.op in only or c.name in only)]
    print("' is the gradient; times are of the fastest runs; the ratio is to the fastest peer, or to the bound")
    rows: list[Row] = []
    with open(json_file, "w") if json_file else open("/dev/null", "w") as log:
        for size in sizes:
            for i in chosen:
                found = table.rows(i, size)
                if any(r.slow and not r.failed for r in found):
                    for row, again in zip(found, table.rows(i, size)):
                        row.merge(again)
                rows += found
                for row in found:
                    print(line(row), flush=True)
                    log.write(json.dumps(dict(asdict(row), ratio=row.ratio, slow=row.slow)) + "\n")
                    log.flush()
    report(rows, worst)
    return 1 if missing else 0


def report(rows: list[Row], worst: int) -> None:
    slow = sorted((r for r in rows if r.slow), key=lambda r: -r.severity)
    beside = [r.ratio for r in rows if r.peers and not r.failed]
    mean = float(np.exp(np.mean(np.log(beside)))) if beside else 0.0
    print(f"\n{len(rows)} measurements, {len(beside)} beside a peer, geometric mean {mean:.2f}; {len(slow)} slow")
    for title, chosen in (
        ("failed", [r for r in slow if r.failed]),
        ("slower than a peer", [r for r in slow if r.peers and not r.failed]),
        ("slow, without a peer", [r for r in slow if not r.peers and not r.failed]),
    ):
        if chosen:
            print(f"\n{title}: {len(chosen)}")
        for row in chosen[:worst]:
            print(line(row))
