# SPDX-License-Identifier: Apache-2.0
"""limits.py: what the machine can do at most, measured in the same run as everything else."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Limits:
    memory: float = 0.0  # bytes per second from memory
    cache: float = 0.0  # from the second-level cache
    flops: float = 0.0  # f32 operations per second, a multiply-add counts two

    def seconds(self, flops: float, nbytes: float, wide: bool = False) -> float:
        """The time below which no program can be: arithmetic or memory, whichever is longer. `wide`: f64."""
        arithmetic = flops / (self.flops / (2 if wide else 1)) if self.flops else 0.0
        return max(arithmetic, nbytes / self.memory if self.memory else 0.0)


def measure(folder: Path, threads: int) -> Limits:
    """All zero where there is no C compiler."""
    compiler = next((c for c in ("gcc", "clang", "cc") if shutil.which(c)), None)
    if not compiler:
        return Limits()
    program = folder / "limits"
    source = Path(__file__).with_suffix(".c")
    try:
        subprocess.run(
            [
                compiler,
                "-O3",
                "-march=native",
                "-ffp-contract=fast",
                "-mprefer-vector-width=512",
                "-pthread",
                str(source),
                "-o",
                str(program),
            ],
            check=True,
            capture_output=True,
        )
    except subprocess.CalledProcessError:
        try:
            subprocess.run(
                [compiler, "-O3", "-pthread", str(source), "-o", str(program)], check=True, capture_output=True
            )
        except subprocess.CalledProcessError:
            return Limits()
    done = subprocess.run([str(program), str(threads)], capture_output=True, text=True, check=True)
    return Limits(**json.loads(done.stdout))
