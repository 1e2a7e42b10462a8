# SPDX-License-Identifier: Apache-2.0
"""Correct rounding for the scripts beside it: a value is computed in float64 or as an exact fraction and rounded once.
NumPy converts float64 to float32 and float16 in one rounding; ml_dtypes goes to bfloat16 by way of float32, which
rounds twice, so that step is done here with rounding to odd. Running this file does nothing."""
from fractions import Fraction

import numpy as np
from oracle import DTYPES

FLOATS = ["f64", "f32", "f16", "bf16"]
SIGNED = ["i64", "i32", "i16", "i8"]
UNSIGNED = ["u64", "u32", "u16", "u8"]
INTS = SIGNED + UNSIGNED


def to_odd(y, exact):
    """y, a float array that rounds `exact` (comparable elements); where inexact, the neighbour with an odd last bit."""
    y = np.array(y)
    bits = y.view({4: np.uint32, 8: np.uint64}[y.itemsize])
    flat, e = y.reshape(-1), np.asarray(exact).reshape(-1)
    for i in range(flat.size):
        v = float(flat[i])
        if np.isfinite(v) and Fraction(v) != Fraction(e[i]) and not int(bits.reshape(-1)[i]) & 1:
            up = Fraction(e[i]) > Fraction(v)
            flat[i] = np.nextafter(flat[i], flat.dtype.type(np.inf if up else -np.inf))
    return y


def rounded(dtype, x):
    """x (float64 or complex128) in a float or complex dtype, rounded once."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if dtype == "bf16":
            x = to_odd(x.astype(np.float32), x)
        return x.astype(DTYPES[dtype])


def exactly(dtype, fractions):
    """An array of exact numbers (ints or Fractions) in a float dtype, rounded once."""
    a = np.asarray(fractions, dtype=object)
    y = np.array([float(Fraction(v)) for v in a.reshape(-1)], dtype=np.float64)
    if dtype != "f64":
        y = to_odd(y, a.reshape(-1))
    return rounded(dtype, y).reshape(a.shape)


def wide(x):
    """A float or complex array as float64 or complex128; exact."""
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def wrapped(dtype, ints):
    """Python integers modulo 2^bits as an integer dtype."""
    d = DTYPES[dtype]
    bits = 8 * d.itemsize
    a = np.asarray(ints, dtype=object)
    out = [(v + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) if dtype[0] == "i" else v % 2**bits for v in a.reshape(-1)]
    return np.array(out, dtype=d).reshape(a.shape)


def limits(dtype):
    info = np.iinfo(DTYPES[dtype])
    return int(info.min), int(info.max)
