# SPDX-License-Identifier: Apache-2.0
"""main.py: JAX on Fluxion beside JAX on XLA's CPU, in one process, alternately.

    python bench/plugin/main.py [call] [compile] [suite] [first] [--only NAME,…] [--rounds N] [--seconds S]

call     a jitted x + 1: processor time of a call
compile  processor time of compiling small programs, whose tracing is done before
suite    the 21 workloads of script/bench, compiled before the first run; and their compile times
first    the first call of a training step of ResNet-18 (Flax) and of GPT-2, with an empty cache of kernels, in a
         process of its own for each

A ratio is Fluxion's time divided by XLA's: wall time and processor time of all threads, each the least of the rounds
(`call`: the medians). JAX_PLATFORMS and FLX_PJRT_LIBRARY are set here; jax, flax and optax must be installed.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIDES = ("fluxion", "cpu")


def prepare() -> None:
    os.environ.setdefault("JAX_PLATFORMS", "fluxion,cpu")
    os.environ.setdefault("FLX_PJRT_LIBRARY", str(ROOT / "build" / "libfluxion_pjrt.so"))
    sys.path[:0] = [str(ROOT / "python" / "jax_plugin"), str(ROOT / "bench" / "suite")]


def device(side: str):
    import jax

    return jax.devices(side)[0]


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def timed(call) -> tuple[float, float]:
    wall, processor = clocks()
    call()
    now = clocks()
    return now[0] - wall, now[1] - processor


def least(times: list[tuple[float, float]]) -> tuple[float, float]:
    return min(t[0] for t in times), min(t[1] for t in times)


def ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs > 0 else math.inf


def geometric(values: list[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))


# ---- call ----


def bench_call(a: argparse.Namespace) -> None:
    import jax
    import jax.numpy as jnp

    found: dict[str, list[float]] = {s: [] for s in SIDES}
    ready = {}
    for side in SIDES:
        x = jax.device_put(jnp.ones(4), device(side))
        ready[side] = (jax.jit(lambda v: v + 1), x)
        for _ in range(1000):
            ready[side][0](x)
    for _ in range(3 * a.rounds):
        for side, (f, x) in ready.items():
            start = time.thread_time()
            for _ in range(2000):
                f(x)
            found[side].append((time.thread_time() - start) / 2000)
    us = {s: statistics.median(v) * 1e6 for s, v in found.items()}
    print(f"| call of a jitted x + 1 | {us['fluxion']:.1f} µs | {us['cpu']:.1f} µs | "
          f"{ratio(us['fluxion'], us['cpu']):.2f} |")


# ---- compile ----


def small_programs() -> dict:
    import jax
    import jax.numpy as jnp
    from jax import lax

    x, m, key = jnp.ones(1000), jnp.ones((32, 32)), jax.random.key(0)

    def mlp(p, v):
        for w in p:
            v = jnp.tanh(v @ w)
        return v.sum()

    return {
        "x + 1": (lambda v: v + 1, (x,)),
        "softmax": (jax.nn.softmax, (m,)),
        "layer norm": (lambda v: (v - v.mean(-1, keepdims=True)) / jnp.sqrt(v.var(-1, keepdims=True) + 1e-5), (m,)),
        "matmul": (lambda v, w: v @ w, (m, m)),
        "sort": (jnp.sort, (x,)),
        "cumsum": (jnp.cumsum, (x,)),
        "top_k": (lambda v: lax.top_k(v, 5), (x,)),
        "random.normal": (lambda k: jax.random.normal(k, (100,)), (key,)),
        "scan": (lambda v: lax.scan(lambda c, y: (jnp.tanh(c + y), c), 0.0, v), (x,)),
        "gradient of an MLP": (jax.grad(mlp), ([m, m, m], m)),
        "cholesky": (lambda v: jnp.linalg.cholesky(v + 40 * jnp.eye(32)), (m,)),
        "convolution": (lambda v, k: lax.conv(v, k, (1, 1), "SAME"), (jnp.ones((1, 3, 8, 8)), jnp.ones((4, 3, 3, 3)))),
    }


def bench_compile(a: argparse.Namespace) -> None:
    import jax

    total = {s: 0.0 for s in SIDES}
    ratios = []
    for name, (f, args) in small_programs().items():
        found: dict[str, list[float]] = {s: [] for s in SIDES}
        for _ in range(a.rounds):
            for side in SIDES:
                jax.clear_caches()
                given = jax.device_put(args, device(side))
                lowered = jax.jit(f).lower(*given)
                found[side].append(timed(lowered.compile)[1])
        ms = {s: min(v) * 1e3 for s, v in found.items()}
        for s in SIDES:
            total[s] += ms[s]
        ratios.append(ratio(ms["fluxion"], ms["cpu"]))
        print(f"| compile: {name} | {ms['fluxion']:.1f} ms | {ms['cpu']:.1f} ms | {ratios[-1]:.2f} |", flush=True)
    print(f"| compile: all | {total['fluxion']:.0f} ms | {total['cpu']:.0f} ms | {geometric(ratios):.2f} mean, "
          f"{max(ratios):.2f} worst |")


# ---- suite ----


def compiled(w, side: str):
    """The workload on a device: a call of it, and the seconds that compiling took."""
    import jax
    import jax_functions

    with jax.default_device(device(side)):
        given = jax_functions.arguments(w.name, w.inputs(w.shape))
        f = jax.jit(jax_functions.function(w.name, w.shape), keep_unused=True)
        lowered = f.lower(*given)
        options = {"fluxion_mode": "compile"} if side == "fluxion" else None
        start = time.perf_counter()
        run = lowered.compile(compiler_options=options)
        return (lambda: jax.block_until_ready(run(*given))), time.perf_counter() - start


def results_agree(w, calls: dict) -> str:
    import jax
    import numpy as np

    both = [[np.asarray(r) for r in jax.tree_util.tree_leaves(calls[s]())] for s in SIDES]
    worst = 0.0
    for ours, theirs in list(zip(*both))[w.compared_from(len(both[0])):]:
        size = np.abs(theirs).max() if theirs.size else 0
        error = np.abs(ours.astype(np.float64) - theirs).max() if theirs.size else 0
        worst = max(worst, float(error / size) if size else float(error))
    return "" if worst <= w.tolerance else f" (results differ by {worst:.0e})"


def bench_suite(a: argparse.Namespace) -> None:
    from workloads import WORKLOADS

    ratios, on_processor, compiles = [], [], []
    for w in WORKLOADS:
        if not w.table or (a.only and w.name not in a.only):
            continue
        calls, took = {}, {}
        for side in SIDES:
            calls[side], took[side] = compiled(w, side)
        note = results_agree(w, calls)
        found: dict[str, list[tuple[float, float]]] = {s: [] for s in SIDES}
        begin = time.perf_counter()
        while len(found["cpu"]) < a.rounds or time.perf_counter() - begin < 2 * a.seconds:
            for side in SIDES:
                found[side].append(timed(calls[side]))
        (wall, processor), (wall_xla, processor_xla) = (least(found[s]) for s in SIDES)
        ratios.append(ratio(wall, wall_xla))
        on_processor.append(ratio(processor, processor_xla))
        compiles.append(ratio(took["fluxion"], took["cpu"]))
        print(f"| {w.name} | {wall * 1e3:.2f} ms | {wall_xla * 1e3:.2f} ms | {ratios[-1]:.2f} | {on_processor[-1]:.2f} "
              f"| {took['fluxion']:.2f} s | {took['cpu']:.2f} s |{note}", flush=True)
        del calls
        gc.collect()
    if ratios:
        print(f"| geometric mean | | | {geometric(ratios):.2f} | {geometric(on_processor):.2f} | | "
              f"{geometric(compiles):.2f} of XLA's time |")
        print(f"| worst | | | {max(ratios):.2f} | {max(on_processor):.2f} | | |")


# ---- first ----


def first_call(name: str, side: str) -> None:
    """In a process of its own: prints the seconds of the first call, of the second, and the loss."""
    import jax

    from models import MODELS

    jax.config.update("jax_default_matmul_precision", "highest")
    step, arguments = MODELS[name]()
    with jax.default_device(device("cpu")):
        given = jax.jit(arguments)()
    given = jax.block_until_ready(jax.device_put(given, device(side)))
    f = jax.jit(step)
    start = clocks()
    jax.block_until_ready(f(*given))
    first = [now - then for now, then in zip(clocks(), start)]
    second, _ = timed(lambda: jax.block_until_ready(f(*given)))
    print(json.dumps({"wall": first[0], "processor": first[1], "second": second, "loss": float(f(*given)[-1])}))


def ask_first(name: str, side: str) -> dict:
    with tempfile.TemporaryDirectory(prefix="flx_bench_") as cache:
        env = dict(os.environ, FLX_CACHE_DIR=cache)
        command = [sys.executable, __file__, "--first-call", name, side]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def bench_first(a: argparse.Namespace) -> None:
    for name in ("resnet18", "gpt2"):
        if a.only and name not in a.only:
            continue
        found: dict[str, list[dict]] = {s: [] for s in SIDES}
        for _ in range(max(1, a.rounds // 2)):
            for side in SIDES:
                found[side].append(ask_first(name, side))
        best = {s: {k: min(r[k] for r in v) for k in v[0]} for s, v in found.items()}
        f, c = best["fluxion"], best["cpu"]
        print(f"| first call of {name} | {f['wall']:.2f} s | {c['wall']:.2f} s | {ratio(f['wall'], c['wall']):.2f} "
              f"(processor {ratio(f['processor'], c['processor']):.2f}) | second {f['second']:.2f} and {c['second']:.2f}"
              f" s, losses {f['loss']:.5f} and {c['loss']:.5f} |", flush=True)


def main() -> None:
    prepare()
    if sys.argv[1:2] == ["--first-call"]:
        first_call(sys.argv[2], sys.argv[3])
        return
    benches = {"call": bench_call, "compile": bench_compile, "suite": bench_suite, "first": bench_first}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=list(benches))
    parser.add_argument("--only", default="", type=lambda text: [t for t in text.split(",") if t])
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--seconds", default=1.0, type=float)
    a = parser.parse_args()
    for what in a.what or benches:
        benches[what](a)


if __name__ == "__main__":
    main()
