# SPDX-License-Identifier: Apache-2.0
"""standalone.py: the workloads as C files (`flx build`) beside compiled graphs (`flx bench`), alternately, with the same
threads and vectors; and whether results have the same bits."""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import graphs
from fluxion import Failed, Flx, load_outputs, worst_error
from workloads import WORKLOADS, Workload

FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fno-math-errno", "-march=native", "-fPIC", "-shared"]

DRIVER = """#include "model.h"
#include <time.h>
size_t memory_bytes(void);
int prepare(model *m, void *memory);
int runs(model *m, void *const *at, int n, double *seconds);
size_t memory_bytes(void)
{
    return MODEL_MEMORY_BYTES;
}
%s
int runs(model *m, void *const *at, int n, double *seconds)
{
    for (int i = 0; i < n; i++) {
        struct timespec a, b;
        clock_gettime(%s, &a);
        int code = model_run(m%s);
        clock_gettime(%s, &b);
        seconds[i] = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        if (code)
            return code;
    }
    return 0;
}
"""

ONE = """int prepare(model *m, void *memory)
{
    return model_init(m, memory);
}"""

TEAM = """static model_team team;
int prepare(model *m, void *memory)
{
    int code = model_init(m, memory);
    return code ? code : model_start(m, &team, %d);
}"""


def aligned(nbytes: int) -> np.ndarray:
    """Bytes that begin at a multiple of 64."""
    whole = np.zeros(nbytes + 64, np.uint8)
    return whole[-whole.ctypes.data % 64 :]


def aligned_like(x: np.ndarray) -> np.ndarray:
    """A copy that begins at a multiple of 64, as the tensors of a session do."""
    copy = aligned(x.nbytes)[: x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


@dataclass
class File:
    """A C file, compiled, with memory for its operands and results."""

    flx: Flx
    folder: Path
    by_processor: bool = False  # processor time is measured
    build_s: float = 0.0
    results: list[np.ndarray] = field(default_factory=list)

    def make(self, graph: Path, inputs: dict[str, np.ndarray], like: list[np.ndarray]) -> None:
        start = time.perf_counter()
        threads = self.flx.threads
        kind = "pthreads" if threads > 1 else "0"
        self.flx.call("build", str(graph), "-o", str(self.folder / "model.c"), "--header", str(self.folder / "model.h"),
                      "--name", "model", "--target", "host", "--threads", kind)
        order = [i["name"] for i in json.loads(self.flx.call("check", str(graph), "--json").splitlines()[-1])["inputs"]]
        given = [aligned_like(inputs[name]) for name in order]
        self.results = [aligned_like(np.zeros_like(x)) for x in like]
        self.kept = given
        at = [x.ctypes.data for x in given + self.results]
        clock = "CLOCK_PROCESS_CPUTIME_ID" if self.by_processor else "CLOCK_MONOTONIC"
        given_at = "".join(f", at[{i}]" for i in range(len(at)))
        text = DRIVER % (TEAM % threads if threads > 1 else ONE, clock, given_at, clock)
        (self.folder / "driver.c").write_text("#define _POSIX_C_SOURCE 199309L\n" + text)
        command = os.environ.get("CC", "cc").split() + FLAGS + ["-o", str(self.folder / "model.so"), "-pthread"]
        done = subprocess.run(command + [str(self.folder / f) for f in ("driver.c", "model.c")] + ["-lm"],
                              capture_output=True, text=True)
        if done.returncode:
            raise Failed("cc: " + (done.stderr.strip().splitlines() or ["failed"])[0])
        self.build_s = time.perf_counter() - start
        self.library = ctypes.CDLL(str(self.folder / "model.so"))
        self.library.memory_bytes.restype = ctypes.c_size_t
        self.at = (ctypes.c_void_p * len(at))(*at)
        self.model = ctypes.create_string_buffer(1 << 16)
        self.memory = aligned(self.library.memory_bytes())
        if self.library.prepare(self.model, ctypes.c_void_p(self.memory.ctypes.data)):
            raise Failed("model_init: not prepared")

    def run(self, n: int) -> np.ndarray:
        seconds = np.zeros(n)
        code = self.library.runs(self.model, self.at, n, ctypes.c_void_p(seconds.ctypes.data))
        if code:
            raise Failed(f"model_run: code {code}")
        return seconds

    def bench(self, seconds: float, best: bool) -> float:
        """The median of runs for that long, or the best of them, after one that is not counted."""
        once = float(self.run(2)[1])
        times = self.run(max(3, min(100000, int(seconds / max(once, 1e-7)))))
        return float(times.min() if best else np.median(times))


def bits_of(found: list[np.ndarray], expected: list[np.ndarray]) -> str:
    if all(a.tobytes() == b.tobytes() for a, b in zip(found, expected)):
        return "same bits"
    return f"differ by {worst_error(expected, found):.1e}"


def measure(w: Workload, a: argparse.Namespace, flx: Flx, folder: Path) -> tuple[float, float, str]:
    shape, seconds = w.at(a.quick), min(a.seconds, 0.1) if a.quick else a.seconds
    given = w.inputs(shape)
    paths = {name: folder / f"in_{name}.npy" for name in given}
    for name, value in given.items():
        np.save(paths[name], value)
    graph = graphs.make(flx, w.name, shape, given, folder)

    def of_session(out: Path | None = None) -> float:
        found = flx.bench(graph, paths, seconds, out, flush=w.flush)
        return found.processor if a.processor else found.best if a.best else found.median

    session = of_session(folder / "out")
    like = load_outputs(folder / "out", flx.outputs_of(graph))
    f = File(flx, folder, a.processor)
    f.make(graph, given, like)
    alone = f.bench(seconds, a.best or a.processor)
    words = bits_of(f.results, like)
    for _ in range(1, 1 if a.quick else a.rounds):
        session = min(session, of_session())
        alone = min(alone, f.bench(seconds, a.best or a.processor))
    return session, alone, words


def run_standalone(a: argparse.Namespace, flx: Flx, work: Path) -> int:
    print(f"{'workload':14} {'session':>10} {'C file':>10} {'speed':>6}  results", flush=True)
    speeds, failed = [], 0
    for w in WORKLOADS:
        if not graphs.exists(w.name) or (w.name not in a.only if a.only else not w.table):
            continue
        folder = work / w.name
        folder.mkdir()
        try:
            session, alone, words = measure(w, a, flx, folder)
            speeds.append(session / alone)
            print(f"{w.name:14} {session * 1e3:7.3f} ms {alone * 1e3:7.3f} ms {speeds[-1]:6.2f}  {words}", flush=True)
        except Failed as e:
            failed += 1
            print(f"{w.name:14} {e}", flush=True)
        shutil.rmtree(folder)
    if speeds:
        mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
        print(f"speed of C files in parts of the session's: mean {mean:.2f}, worst {min(speeds):.2f}, "
              f"{sum(s >= 0.95 for s in speeds)} of {len(speeds)} rows at 0.95 or more")
    return 1 if failed else 0
