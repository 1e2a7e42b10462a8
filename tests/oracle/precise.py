# SPDX-License-Identifier: Apache-2.0
"""Elementwise references for the scripts beside it: mpmath with 60 digits on ordinary points, and where mpmath has no
answer (NaN, infinities, signed zeros, poles, overflow) the plain function given. Running this file does nothing."""
import mpmath as mp
import numpy as np
from oracle import DTYPES
from rounding import FLOATS, rounded, wide

mp.mp.dps = 60
nan, inf = np.nan, np.inf
SPECIAL = [nan, inf, -inf, 0.0, -0.0]


def at(fn, plain, *args):
    """fn, a function of mpmath numbers, at floats; where an argument or the value is special, plain at floats."""
    with np.errstate(all="ignore"):
        y = plain(*(np.float64(v) for v in args))
    if not np.isfinite(y) or any(not np.isfinite(v) or v == 0 for v in args):
        return y
    return float(fn(*(mp.mpf(float(v)) for v in args)))


def real(dtype, fn, plain, *arrays):
    """fn over broadcast float arrays, rounded once to the dtype."""
    arrays = np.broadcast_arrays(*(wide(a) for a in arrays))
    flat = [at(fn, plain, *v) for v in zip(*(a.reshape(-1) for a in arrays))]
    return rounded(dtype, np.array(flat, np.float64).reshape(arrays[0].shape))


def holomorphic(dtype, fn, z):
    """fn, a function of mpmath complex numbers, over a complex array."""
    flat = [complex(fn(mp.mpc(v.real, v.imag))) for v in wide(z).reshape(-1)]
    return rounded(dtype, np.array(flat).reshape(z.shape))


def points(f, dtype, lo, hi, n, extra=()):
    """n random points of an interval and the extra ones, in the dtype; duplicates of rounding are kept."""
    return np.append(f.rng.uniform(lo, hi, n), extra).astype(DTYPES[dtype])


def unary_cases(f, op, fn, plain, interval, extra=(), ulp=2, call=None, n=10):
    """One case per float dtype: random points, extra points and the special values."""
    for d in FLOATS:
        x = points(f, d, *interval, n, list(extra) + SPECIAL)
        want = real(d, fn, plain, x)
        # A narrow result is a double rounded once: it differs only if the double's error crosses a tie.
        f.case(f"{op}_{d}", call or f"{op}(x)", {"x": x}, [want], ulp=ulp if d == "f64" else min(ulp, 1))
