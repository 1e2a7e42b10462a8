# SPDX-License-Identifier: Apache-2.0
"""peers.py: processes that run peers, the same cores for all, one request at a time."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from fluxion import Failed


class Missing(Failed):
    """The peer has no such function, or is not installed."""


MODULES = {"numpy": "numpy", "jax": "jax", "torch": "torch", "torch-compile": "torch"}


def available(kind: str) -> bool:
    return importlib.util.find_spec(MODULES[kind]) is not None


def version(module: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:
        return ""


def pin(threads: int) -> list[int]:
    """Keeps this process and those that it starts on as many cores as there are threads. Returns the cores."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    cores = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, cores)
    return cores


class Peer:
    """A worker process; started on its first request, and again after it crashed or hung."""

    def __init__(self, kind: str, mode: str, threads: int, is_timed: bool = True):
        self.kind, self.mode, self.threads, self.is_timed = kind, mode, threads, is_timed
        self.process: subprocess.Popen | None = None
        self.left = ""

    def start(self) -> None:
        counts = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        env = dict(os.environ, JAX_PLATFORMS="cpu", OMP_WAIT_POLICY="passive", PYTHONWARNINGS="ignore", **counts)
        env["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # times to compile are of the first time
        script = str(Path(__file__).with_name("worker.py"))
        quiet = None if os.environ.get("FLX_BENCH_TRACE") else subprocess.DEVNULL
        self.process = subprocess.Popen(
            [sys.executable, script, self.kind, self.mode, str(self.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=quiet,
            env=env,
        )
        self.left = ""

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def line(self, timeout: float) -> str:
        assert self.process and self.process.stdout
        fd = self.process.stdout.fileno()
        while "\n" not in self.left:
            if not select.select([fd], [], [], timeout)[0]:
                self.stop()
                raise Failed(f"{self.kind}: no answer after {timeout:.0f} s")
            data = os.read(fd, 1 << 16)
            if not data:
                self.stop()
                raise Failed(f"{self.kind}: the process ended")
            self.left += data.decode()
        first, _, self.left = self.left.partition("\n")
        return first

    def ask(self, timeout: float = 120, **request: Any) -> dict[str, Any]:
        if not self.process:
            self.start()
        assert self.process and self.process.stdin
        try:
            self.process.stdin.write((json.dumps(request) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            self.stop()
            raise Failed(f"{self.kind}: the process ended") from None
        answer = json.loads(self.line(timeout))
        if "error" in answer:
            raise (Missing if answer.get("missing") else Failed)(f"{self.kind}: {answer['error']}")
        return answer
