#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms in SciPy (pocketfft), JAX (jit, CPU) and Fluxion, on one thread: fft of complex numbers, rfft and
irfft. JAX lowers its function to StableHLO, which `flx bench` times. Every program repeats each case for about
`--seconds`; the tables have the shortest times, in microseconds, and for Fluxion 5 n log2 n flop (half of it for real
transforms) for each second.

  taskset -c 1 python3 bench/peers_fourier.py build/flx [--seconds 0.3] [--lengths 64,1024] [--batches 1,64]

Needs jax, scipy and numpy.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("flx")
parser.add_argument("--seconds", type=float, default=0.3)
parser.add_argument("--lengths", default="64,256,1000,1009,1024,4096,12288,16384,262144,1048576")
parser.add_argument("--batches", default="1,64")
options = parser.parse_args()
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402 (the environment is set first)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import scipy.fft  # noqa: E402

jax.config.update("jax_enable_x64", True)
MOST = 1 << 22  # numbers of one case
rng = np.random.default_rng(1)


def shortest(run):
    best, end = float("inf"), time.perf_counter() + options.seconds
    while time.perf_counter() < end or best == float("inf"):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def fluxion(function, x, expected):
    with tempfile.TemporaryDirectory() as folder:
        program, operand = os.path.join(folder, "f.mlir"), os.path.join(folder, "x.npy")
        with open(program, "w") as f:
            f.write(jax.jit(function).lower(x).as_text())
        np.save(operand, x)
        repeat = max(20, min(20000, int(options.seconds * 1e6 / expected)))
        args = [options.flx, "bench", program, "--json", "--threads", "1", "--repeat", str(repeat), "--in",
                f"arg0={operand}"]
        return json.loads(subprocess.run(args, check=True, capture_output=True, text=True).stdout)["best_ms"] * 1e3


def case(name, n, batch, dtype):
    shape = (batch, n) if batch > 1 else (n,)
    x = rng.standard_normal(shape).astype(dtype)
    if name == "fft":
        x = (x + 1j * rng.standard_normal(shape)).astype(np.result_type(dtype, np.complex64))
    if name == "irfft":
        x = scipy.fft.rfft(x)
    extra = (n,) if name == "irfft" else ()
    scipy_us = shortest(lambda: getattr(scipy.fft, name)(x, *extra, workers=1))
    compiled, y = jax.jit(lambda v: getattr(jnp.fft, name)(v, *extra)), jnp.asarray(x)
    compiled(y).block_until_ready()
    jax_us = shortest(lambda: compiled(y).block_until_ready())
    us = fluxion(lambda v: getattr(jnp.fft, name)(v, *extra), x, min(scipy_us, jax_us) / 3)
    flop = 5 * n * np.log2(n) * batch / (1 if name == "fft" else 2)
    return scipy_us, jax_us, us, flop / us * 1e-3


for batch in map(int, options.batches.split(",")):
    for dtype in (np.float32, np.float64):
        print(f"\nbatch {batch}, {np.dtype(dtype).name}: SciPy, JAX, Fluxion us (GFLOP/s)")
        print("| n | fft | rfft | irfft |\n|---|---|---|---|")
        for n in map(int, options.lengths.split(",")):
            if n * batch > MOST:
                continue
            cells = [case(name, n, batch, dtype) for name in ("fft", "rfft", "irfft")]
            text = " | ".join("%.3g, %.3g, %.3g (%.0f)" % c for c in cells)
            print(f"| {n} | {text} |", flush=True)
