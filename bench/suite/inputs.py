# SPDX-License-Identifier: Apache-2.0
"""inputs.py: values of a workload's inputs, from a counter hash: the same numbers in every framework and language, so
that every workload has a check value which any implementation must reproduce."""

from __future__ import annotations

import math

import numpy as np


def hashed(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> np.ndarray:
    """f32, uniform in [-scale, scale)."""
    count = int(np.prod(shape, dtype=np.int64))
    out = np.empty(count, np.float32)
    step = 1 << 18
    for begin in range(0, count, step):
        end = min(count, begin + step)
        h = np.arange(begin, end, dtype=np.uint32) + np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
        h = (h ^ h >> np.uint32(16)) * np.uint32(0x7FEB352D)
        h = (h ^ h >> np.uint32(15)) * np.uint32(0x846CA68B)
        h ^= h >> np.uint32(16)
        out[begin:end] = (h >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    return (out * np.float32(scale)).reshape(shape) if scale != 1.0 else out.reshape(shape)


def hashed_int(shape: tuple[int, ...], seed: int, below: int) -> np.ndarray:
    wide = ((hashed(shape, seed).astype(np.float64) + 1) * 0.5 * below).astype(np.int64)
    return np.minimum(wide, below - 1).astype(np.int32)


def by_fan(shape: tuple[int, ...], seed: int, fan: int, gain: float = 3.0) -> np.ndarray:
    """Weights with variance gain / 3 / fan."""
    return hashed(shape, seed, math.sqrt(gain / fan))


MLP = (784, 512, 512, 10)


def mlp_parameters() -> dict[str, np.ndarray]:
    found = {}
    for i, (rows, columns) in enumerate(zip(MLP, MLP[1:])):
        found[f"w{i + 1}"] = by_fan((rows, columns), 100 + 2 * i, rows)
        found[f"b{i + 1}"] = hashed((columns,), 101 + 2 * i, 0.1)
    return found


def block_parameters(width: int, seed: int, suffix: str = "") -> dict[str, np.ndarray]:
    """A block of GPT-2: weights are hashed, gains one, all else zero."""
    k = 0.02 * math.sqrt(3)
    one, zero = (lambda n: np.ones(n, np.float32)), (lambda n: np.zeros(n, np.float32))
    c = width
    return {
        name + suffix: value
        for name, value in (
            ("g1", one(c)),
            ("c1", zero(c)),
            ("wq", hashed((c, 3 * c), seed, k)),
            ("bq", zero(3 * c)),
            ("wo", hashed((c, c), seed + 1, k)),
            ("bo", zero(c)),
            ("g2", one(c)),
            ("c2", zero(c)),
            ("w1", hashed((c, 4 * c), seed + 2, k)),
            ("b1", zero(4 * c)),
            ("w2", hashed((4 * c, c), seed + 3, k)),
            ("b2", zero(c)),
        )
    }
