# SPDX-License-Identifier: Apache-2.0
"""What a call costs, beside JAX where it is installed: python3 overhead.py FOLDER_OF_THE_PACKAGE. Each figure is the
best of seven rounds, in microseconds."""

import sys
import time

sys.path.insert(0, sys.argv[1])

import fluxion as fx  # noqa: E402

try:
    import jax
except ImportError:
    jax = None


def cost(function, *args, count=20000):
    function(*args)
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(count):
            function(*args)
        best = min(best, (time.perf_counter() - start) / count)
    return best * 1e6


def add(a, b):
    return a + b


def affine(p, x):
    return {"y": p["w"] * x + p["b"]}


def report(name, ours, theirs):
    print(f"{name:28} fluxion {ours:6.2f} us" + (f"   jax {theirs():6.2f} us" if jax else ""))


x = fx.array([1.0, 2.0, 3.0])
y = jax.numpy.array([1.0, 2.0, 3.0]) if jax else None
report("jit, two arrays", cost(fx.jit(add), x, x), lambda: cost(jax.jit(add), y, y))
report("jit, dict of arrays", cost(fx.jit(affine), {"w": x, "b": x}, x),
       lambda: cost(jax.jit(affine), {"w": y, "b": y}, y))
report("jit, array and number", cost(fx.jit(add), x, 2.0), lambda: cost(jax.jit(add), y, 2.0))
report("one operation without jit", cost(add, x, x, count=2000), lambda: cost(add, y, y, count=2000))
