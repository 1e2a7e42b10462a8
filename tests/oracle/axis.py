# SPDX-License-Identifier: Apache-2.0
"""Softmax and the running folds. Expected values are computed in float64 (SciPy, NumPy's accumulate) and rounded once.
The library does the same in double (sums over f16 and bf16 in f32), so narrow floats differ by at most one unit in the
last place; f64 by a few: exp, log and each addition may round differently."""
import numpy as np
import scipy.special
from oracle import DTYPES, Fixtures

FLOATS = ["f64", "f32", "f16", "bf16"]
COMPLEX = ["c64", "c128"]
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
INF, NAN = np.inf, np.nan


def widen(x):
    if x.dtype.kind in "iub":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def narrow(y, dtype):
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(y).astype(DTYPES[dtype])


def running(x, axis, exclusive, reverse, accumulate, start):
    """accumulate(array, axis) gives the inclusive fold; the rest is moving it."""
    w = np.flip(widen(x), axis) if reverse else widen(x)
    with np.errstate(all="ignore"):
        y = accumulate(w, axis)
    if exclusive:
        first = np.full_like(np.take(w, [0], axis), start)
        y = np.concatenate([first, np.delete(y, -1, axis)], axis)
    return np.flip(y, axis) if reverse else y


def softmaxes(f):
    for dtype in FLOATS:
        x = f.normal(dtype, (2, 3, 4))
        for axis in (-1, 1, 0):
            for name, fn in (("softmax", scipy.special.softmax), ("log_softmax", scipy.special.log_softmax)):
                f.case(f"{name}_{dtype}", f"{name}(x, axis={axis})", {"x": x}, [narrow(fn(widen(x), axis=axis), dtype)],
                       **({"rel": 8} if dtype == "f64" else {"ulp": 1}))
        rows = np.array([[1000, 0, -1000], [1e4, 1e4, 1e4], [-INF, 0, 0], [-INF, -INF, 2]], DTYPES[dtype])
        w = widen(rows)
        close = {"ulp": 4 if dtype == "f64" else 1}
        f.case(f"softmax_large_{dtype}", "softmax(x)", {"x": rows}, [narrow(scipy.special.softmax(w, axis=-1), dtype)],
               **close)
        f.case(f"log_softmax_large_{dtype}", "log_softmax(x)", {"x": rows},
               [narrow(scipy.special.log_softmax(w, axis=-1), dtype)], **close)
        bad = np.array([[-INF, -INF], [INF, 1], [NAN, 1]], DTYPES[dtype])
        f.case(f"softmax_nan_{dtype}", "softmax(x)", {"x": bad}, [np.full((3, 2), NAN, DTYPES[dtype])])
        f.case(f"log_softmax_nan_{dtype}", "log_softmax(x)", {"x": bad}, [np.full((3, 2), NAN, DTYPES[dtype])])
        one = np.array([[5], [-1e4]], DTYPES[dtype])
        f.case(f"softmax_one_{dtype}", "softmax(x)", {"x": one}, [np.ones((2, 1), DTYPES[dtype])])
        f.case(f"log_softmax_one_{dtype}", "log_softmax(x)", {"x": one}, [np.zeros((2, 1), DTYPES[dtype])])
    f.case("softmax_empty", "softmax(x, axis=0)", {"x": np.zeros((0, 2), np.float32)}, [np.zeros((0, 2), np.float32)])


def lowest(dtype):
    return -INF if dtype in FLOATS else np.iinfo(DTYPES[dtype]).min


def highest(dtype):
    return INF if dtype in FLOATS else np.iinfo(DTYPES[dtype]).max


FOLDS = {
    "cumsum": (FLOATS + COMPLEX + INTS, lambda d: 0, lambda w, axis: np.add.accumulate(w, axis, dtype=w.dtype)),
    "cumprod": (FLOATS + COMPLEX + INTS, lambda d: 1, lambda w, axis: np.multiply.accumulate(w, axis, dtype=w.dtype)),
    "cummax": (FLOATS + INTS, lowest, np.maximum.accumulate),
    "cummin": (FLOATS + INTS, highest, np.minimum.accumulate),
    "cumlogsumexp": (FLOATS, lowest, np.logaddexp.accumulate),
}
SETTINGS = [(-1, False, False), (0, True, False), (1, False, True), (-2, True, True)]


def call(name, axis, exclusive, reverse):
    flags = ", exclusive=true" * exclusive + ", reverse=true" * reverse
    return f"{name}(x, axis={axis}{flags})"


def closeness(name, dtype):
    if name in ("cummax", "cummin") or dtype in INTS:
        return {"ulp": 0}
    return {"rel": 16} if dtype in ("f64", "c128") else {"ulp": 2 if dtype in COMPLEX else 1}


def folds(f):
    for name, (dtypes, start, accumulate) in FOLDS.items():
        for dtype in dtypes:
            x = f.normal(dtype, (2, 2, 4))
            for k, (axis, exclusive, reverse) in enumerate(SETTINGS):
                if dtype in ("i16", "u16", "u32", "f16") and k not in (0, 3):
                    continue
                y = running(x, axis, exclusive, reverse, accumulate, start(dtype))
                f.case(f"{name}_{dtype}", call(name, axis, exclusive, reverse), {"x": x}, [narrow(y, dtype)],
                       **closeness(name, dtype))
        row = np.array([1, INF, -2, -INF, 3, NAN, 4, -0.0])
        for dtype in FLOATS:
            x = row.astype(DTYPES[dtype])
            for reverse in (False, True):
                y = running(x, 0, False, reverse, accumulate, start(dtype))
                f.case(f"{name}_edge_{dtype}", call(name, 0, False, reverse), {"x": x}, [narrow(y, dtype)], ulp=1)
        f.case(f"{name}_empty", f"{name}(x, axis=1)", {"x": np.zeros((2, 0), np.float32)},
               [np.zeros((2, 0), np.float32)])
    x = np.array([[1, 0, 1, 0], [0, 0, 1, 0]], bool)
    for names, y in ((("cumsum", "cummax"), np.logical_or.accumulate(x, 1)),
                     (("cumprod", "cummin"), np.logical_and.accumulate(x, 1))):
        for name in names:
            f.case(f"{name}_bool", f"{name}(x)", {"x": x}, [y])


def precision(f):
    ones = np.ones(6, np.float16)
    ones[0] = 2048
    f.case("cumsum_wide_f16", "cumsum(x)", {"x": ones}, [narrow(np.cumsum(widen(ones)), "f16")])
    past = np.array([65504, 65504, -65504], np.float16)
    f.case("cumsum_past_max_f16", "cumsum(x)", {"x": past}, [np.array([65504, INF, 65504], np.float16)])
    for dtype in ("i8", "u8", "i64", "u64"):
        top = np.iinfo(DTYPES[dtype])
        x = np.array([top.max, 1, top.max, 3], DTYPES[dtype])
        f.case(f"cumsum_wraps_{dtype}", "cumsum(x)", {"x": x}, [np.cumsum(x, dtype=x.dtype)])
        f.case(f"cumprod_wraps_{dtype}", "cumprod(x)", {"x": x}, [np.cumprod(x, dtype=x.dtype)])
        f.case(f"cummax_limits_{dtype}", "cummax(x, exclusive=true)", {"x": x},
               [np.array([top.min, top.max, top.max, top.max], DTYPES[dtype])])
    zeros = np.array([2, 0, 3, 0, 4], np.float32)
    f.case("cumprod_zeros", "cumprod(x, reverse=true)", {"x": zeros}, [np.array([0, 0, 0, 0, 4], np.float32)])
    for x in ([-INF, -INF, 0, -INF], [1000, 1000, -1000, 1000], [-1000, -1001, -999, INF], [INF, -INF, INF, 0]):
        for dtype in ("f64", "f32"):
            w = np.array(x, np.float64)
            f.case(f"cumlogsumexp_far_{dtype}", "cumlogsumexp(x)", {"x": w.astype(DTYPES[dtype])},
                   [narrow(np.logaddexp.accumulate(w), dtype)], ulp=2)


with Fixtures("axis") as fixtures:
    for part in (softmaxes, folds, precision):
        part(fixtures)
