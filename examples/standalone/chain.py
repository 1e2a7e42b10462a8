#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chain.py: a JAX function as StableHLO text, from which `flx build` makes a C file. The function is a step of a
simulation: beads that springs connect, with the forces as the gradient of the energy.

    examples/standalone/chain.py examples/standalone/chain.mlir

writes the text, and prints the numbers that chain_run.c compares with. Needs jax; the text is in the repository, so that
the example does not.
"""
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

BEADS, STEP = 8, 0.01


def energy(x):
    """Of springs of length 1 between neighbours, and of bending."""
    d = x[1:] - x[:-1]
    length = jnp.sqrt(jnp.sum(d * d, axis=1))
    bends = x[2:] - 2 * x[1:-1] + x[:-2]
    return 50 * jnp.sum((length - 1) ** 2) + 5 * jnp.sum(bends * bends)


def chain(x, v):
    """Positions and velocities after a step, and the energy with that of motion."""
    force = jax.grad(energy)
    middle = v - STEP / 2 * force(x)
    x = x + STEP * middle
    v = middle - STEP / 2 * force(x)
    return x, v, energy(x) + 0.5 * jnp.sum(v * v)


def start():
    i = jnp.arange(BEADS, dtype=jnp.float32)
    return jnp.stack([i * 1.1, 0.2 * jnp.sin(i)], axis=1), jnp.zeros((BEADS, 2), jnp.float32)


if __name__ == "__main__":
    x, v = start()
    step = jax.jit(chain)
    with open(sys.argv[1], "w") as f:
        f.write(step.lower(x, v).as_text())
    for _ in range(100):
        x, v, total = step(x, v)
    print(x.tolist(), float(total))
