# SPDX-License-Identifier: Apache-2.0
"""fluxion.py: timing a graph file with `flx bench`, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


class Failed(Exception):
    """What a program or a peer said when it could not run a workload; one line."""


@dataclass
class Timing:
    """Seconds of one run, and what else was measured."""

    median: float
    best: float
    compile_s: float = 0.0
    memory: int = 0
    spread: float = 0.0
    bytes: int = 0
    flops: int = 0
    check: float | None = None
    processor: float = 0.0  # the least of all runs, of all threads


@dataclass
class Flx:
    program: str
    threads: int
    timeout: float = 300
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def call(self, *arguments: str, timeout: float | None = None) -> str:
        command = [self.program, *arguments]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout or self.timeout, env=self.env
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"flx {arguments[0]}: no result after {timeout or self.timeout:.0f} s") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise Failed(f"flx {arguments[0]}: {lines[0]}")
        return done.stdout

    def bench(
        self, path: Path, inputs: dict[str, Path], seconds: float, out: Path | None = None, flush: bool = False
    ) -> Timing:
        given = [a for name, file in inputs.items() for a in ("--in", f"{name}={file}")]
        more = (["--out", str(out)] if out else []) + (["--flush"] if flush else [])
        text = self.call(
            "bench",
            str(path),
            "--json",
            "--threads",
            str(self.threads),
            "--cache",
            "off",
            "--seconds",
            str(seconds),
            *more,
            *given,
        )
        found = json.loads(text.strip().splitlines()[-1])
        return Timing(
            median=found["median_ms"] / 1e3,
            best=found["best_ms"] / 1e3,
            processor=found["processor_ms"] / 1e3,
            compile_s=(found["compile_ms"] or 0) / 1e3,
            memory=found["memory_bytes"],
            spread=found["spread"],
            bytes=found["bytes"] or 0,
            flops=found["flops"] or 0,
        )

    def transform(self, command: str, source: Path, target: Path, *options: str) -> Path:
        self.call(command, str(source), "-o", str(target), *options)
        return target

    def outputs_of(self, path: Path) -> list[str]:
        """The names of the outputs of a graph file, in order."""
        found = json.loads(self.call("check", str(path), "--json").strip().splitlines()[-1])
        return [o["name"] for o in found["outputs"]]

    def steps(self, path: Path) -> str:
        """How the graph runs, in words: `2 kernels, matmul by gemm, evaluate sort`."""
        words: dict[str, int] = {}
        for line in self.call("show", str(path), "--stage", "lir").splitlines():
            kind, _, rest = line.partition(" = ")[2].partition(" ")
            if kind == "kernel":
                words["kernel"] = words.get("kernel", 0) + 1
            elif kind:
                word = ("" if kind == "route" else kind + " ") + rest.split("(")[0].strip()
                words[word] = words.get(word, 0) + 1
        return ", ".join(
            f"{n} {w}s" if w == "kernel" and n > 1 else f"{n} x {w}" if n > 1 else w for w, n in words.items()
        )


def load_outputs(folder: Path, names: list[str]) -> list[np.ndarray]:
    return [np.load(folder / f"{name}.npy") for name in names]


def worst_error(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
    """The largest difference relative to the largest expected number of its array; infinite for other shapes."""
    worst = 0.0
    for a, b in zip(expected, found):
        if a.shape != b.shape:
            return float("inf")
        if not a.size:
            continue
        a, b = (x.astype(np.complex128 if np.iscomplexobj(a) else np.float64) for x in (a, b))
        with np.errstate(invalid="ignore"):
            difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
        largest = np.abs(np.where(np.isfinite(a), a, 0)).max()
        worst = max(worst, float(difference.max()) / (float(largest) + 1e-30))
    return worst
