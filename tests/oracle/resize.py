# SPDX-License-Identifier: Apache-2.0
"""Oracle of resize: positions as exact fractions, nearest by their definition, linear by numpy.interp, cubic by Keys'
kernel; one axis after the other in double precision, rounded once."""
from fractions import Fraction
import math

import jax
import numpy as np
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
HALF = Fraction(1, 2)


def position(coordinates, i, n, m):
    if coordinates == "half_pixel":
        return (i + HALF) * n / m - HALF
    if coordinates == "align_corners":
        return Fraction(i * (n - 1), m - 1) if m > 1 else Fraction(0)
    return Fraction(i * n, m)


def keys(d, a=-0.75):
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def resize_line(line, m, mode, coordinates):
    n = len(line)
    at = [position(coordinates, i, n, m) for i in range(m)]
    if mode == "nearest":
        index = [math.floor(p) if coordinates == "asymmetric" else math.ceil(p - HALF) for p in at]
        return line[np.clip(index, 0, n - 1)]
    if mode == "linear":
        where = [float(p) for p in at]
        parts = [np.interp(where, range(n), part) for part in (line.real, line.imag)]
        return parts[0] + 1j * parts[1] if np.iscomplexobj(line) else parts[0]
    taps = [[(min(max(j, 0), n - 1), keys(float(p - j))) for j in range(math.floor(p) - 1, math.floor(p) + 3)]
            for p in at]
    return np.array([sum(w * line[j] for j, w in t) for t in taps])


def resize(x, shape, mode, coordinates):
    for axis, m in enumerate(shape):
        if m != x.shape[axis]:
            x = np.apply_along_axis(resize_line, axis, x, m, mode, coordinates)
    return x


CASES = [((2, 3), (5, 2)), ((4,), (9,)), ((5,), (3,)), ((6,), (1,)), ((1,), (4,)), ((3, 2), (3, 5)),
         ((1, 1, 2, 3), (1, 1, 3, 4))]

with Fixtures("resize") as f:
    for mode in ["nearest", "linear", "cubic"]:
        for coordinates in ["half_pixel", "align_corners", "asymmetric"]:
            dtypes = ["f64", "f32", "f16", "bf16", "c64"] + (["i32", "u8", "bool", "c128"] if mode == "nearest" else [])
            for dtype in dtypes:
                for shape, to in CASES if dtype in ("f64", "i32") else CASES[:2]:
                    x = f.normal(dtype, shape)
                    wide = x.astype(np.complex128 if dtype[0] == "c" else np.float64) if mode != "nearest" else x
                    y = resize(wide, to, mode, coordinates)
                    if mode == "linear" and coordinates == "half_pixel" and dtype == "f64":
                        theirs = jax.image.resize(x, to, "linear", antialias=False)
                        np.testing.assert_allclose(y, np.asarray(theirs), rtol=1e-12, atol=1e-12)
                    # each axis rounds positions, weights, products and their sum
                    close = {"ulp": 0} if mode == "nearest" else {"rel": 32} if dtype == "f64" else {"rel": 1}
                    f.case(f"{mode}_{coordinates}_{dtype}", f"resize(x, shape={list(to)}, mode={mode}, "
                           f"coordinates={coordinates})", {"x": x}, [y.astype(DTYPES[dtype])], **close)
    # Whole positions read one element: an infinity beside it does not leak.
    x = np.array([1.0, np.inf, 3.0, np.nan, 5.0])
    for mode in ["linear", "cubic"]:
        f.case(f"{mode}_keeps_infinities_apart", f"resize(x, shape=[3], mode={mode}, coordinates=align_corners)",
               {"x": x}, [np.array([1.0, 3.0, 5.0])])
        f.case(f"{mode}_same_extent", f"resize(x, shape=[5], mode={mode})", {"x": x}, [x])
    for dtype in ["f64", "bf16", "i16", "bool", "c64"]:
        x = f.normal(dtype, (1, 2, 2, 3))
        f.case(f"nearest_2x_{dtype}", "resize_nearest_2x(x)", {"x": x}, [x.repeat(2, axis=2).repeat(2, axis=3)])
