# SPDX-License-Identifier: Apache-2.0
"""Oracle of the identity family. Casts between all dtypes and reduce_precision follow the definitions in exact
arithmetic; bitcast is NumPy's view."""
from fractions import Fraction

import numpy as np
from oracle import DTYPES, Fixtures
from rounding import FLOATS, INTS, exactly, limits, rounded, wide, wrapped

nan, inf = np.nan, np.inf


def values(d):
    if d == "bool":
        return np.array([False, True])
    if d in FLOATS:
        x = [0.0, -0.0, 1.5, -2.5, 300.75, -1e5, 3e9, 1e19, inf, -inf, nan, 2049.0, 1 + 2.0**-8 + 2.0**-40, 6e-8]
        return rounded(d, np.array(x))
    if d[0] == "c":
        return np.array([0, 1.5 - 2j, -3e9, complex(nan, 1), complex(0, -0.5), 70000.0,
                         complex(1, inf)]).astype(DTYPES[d])
    lo, hi = limits(d)
    x = [0, 1, lo, hi, hi - 2, hi // 3, 100, hi // 2 + 1]
    if hi > 2**32:  # just above ties of f32 and of bf16, by less than double can hold
        x += [2**62 + 2**38 + 1, 2**62 + 2**54 + 1, 2**62 + 3 * 2**54 - 1]
    return np.array(x, DTYPES[d])


def saturated(d, v):
    lo, hi = limits(d)
    if np.isnan(v):
        return 0
    if np.isinf(v):
        return hi if v > 0 else lo
    return min(max(int(v), lo), hi)


def cast(x, src, dst):
    if dst == "bool":
        return x != 0 if src[0] in "iub" and src != "bf16" else wide(x) != 0
    if src[0] == "c" and dst[0] != "c":
        src, x = {"c64": "f32", "c128": "f64"}[src], x.real
    if dst[0] == "c":
        if src[0] == "c":
            return x.astype(DTYPES[dst])
        part = {"c64": "f32", "c128": "f64"}[dst]
        return cast(x, src, part).astype(DTYPES[dst])
    if src in FLOATS:
        w = wide(x)
        return rounded(dst, w) if dst in FLOATS else np.array([saturated(dst, v) for v in w], DTYPES[dst])
    exact = [int(v) for v in x]
    return exactly(dst, exact) if dst in FLOATS else wrapped(dst, exact)


def casts(f):
    kinds = list(DTYPES)
    for src in kinds:
        x = values(src)
        for dst in kinds:
            with np.errstate(all="ignore"):
                f.case(f"cast_{src}_{dst}", f"cast(x, to={dst})", {"x": x}, [cast(x, src, dst)])
    f.case("cast_scalar", "cast(x, to=i32)", {"x": np.float64(-7.9)}, [np.int32(-7)])
    f.case("cast_empty", "cast(x, to=f16)", {"x": np.zeros((2, 0))}, [np.zeros((2, 0), np.float16)])


def bitcasts(f):
    x = np.float32([[1.5, nan], [-0.0, inf]])
    for dst in ("i32", "u16", "u8", "f16", "bf16", "u32"):
        ratio = 4 // DTYPES[dst].itemsize
        want = x.view(DTYPES[dst]).reshape(x.shape + ((ratio,) if ratio > 1 else ()))
        f.case(f"bitcast_f32_{dst}", f"bitcast(x, to={dst})", {"x": x}, [want])
    y = np.arange(16, dtype=np.uint8).reshape(1, 16)
    f.case("bitcast_u8_c128", "bitcast(x, to=c128)", {"x": y}, [y.view(np.complex128).reshape(1)])
    z = np.array([1 + 2j, -3j], np.complex64)
    f.case("bitcast_c64_f32", "bitcast(x, to=f32)", {"x": z}, [z.view(np.float32).reshape(2, 2)])
    f.case("bitcast_c64_u64", "bitcast(x, to=u64)", {"x": z}, [z.view(np.uint64)])
    b = np.array([[True, False, False, True]])
    f.case("bitcast_bool_u32", "bitcast(x, to=u32)", {"x": b}, [b.view(np.uint32).reshape(1)])
    f.case("bitcast_scalar", "bitcast(reshape(x, shape=[]), to=u16)", {"x": np.int32([-2])},
           [np.array([0xFFFE, 0xFFFF], np.uint16)])


def with_precision(v, exponent, mantissa):
    """v to the nearest number of a format with that many bits, ties to the even significand, subnormals kept."""
    if not np.isfinite(v) or v == 0:
        return v
    x, bias = abs(Fraction(float(v))), 2 ** (exponent - 1) - 1
    e = 0
    while Fraction(2) ** (e + 1) <= x:
        e += 1
    while Fraction(2) ** e > x:
        e -= 1
    step = Fraction(2) ** (max(e, 1 - bias) - mantissa)
    y = round(x / step) * step
    return np.copysign(inf if y >= Fraction(2) ** (bias + 1) else float(y), v)


def precisions(f):
    base = np.array([1.1, -2.7182818, 65519.0, 65520.0, -1e30, 3e-8, 6e-5, 0.0, -0.0, inf, -inf, nan,
                     1 + 2.0**-11, 1 + 3 * 2.0**-11, 240.0, 248.0, -0.3, 2.0, 3.9])
    for d in FLOATS:
        x = rounded(d, base)
        for e, m in ((5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (11, 52), (3, 60), (1, 2), (30, 4)):
            w = wide(x)
            want = [with_precision(v, min(e, 11), min(m, 52)) for v in w]
            f.case(f"reduce_precision_{d}_{e}_{m}", f"reduce_precision(x, exponent={e}, mantissa={m})", {"x": x},
                   [rounded(d, want)])
    x = np.array([1e-310, -4e-324, 1.1, 1e308])
    f.case("reduce_precision_tiny", "reduce_precision(x, exponent=11, mantissa=20)", {"x": x},
           [np.array([with_precision(v, 11, 20) for v in x])])


def identities(f):
    for d in DTYPES:
        x = values(d)
        f.case(f"stop_gradient_{d}", "stop_gradient(x)", {"x": x}, [x])
    a, b = values("f32"), values("i8")
    f.case("optimization_barrier", "optimization_barrier(a, b)", {"a": a, "b": b}, [a, b])
    f.case("print", 'print(x, message="x")', {"x": a}, [a])
    f.case("check", 'check(x, ok, message="ok")', {"x": a, "ok": np.array([[1, -1]])}, [a])
    f.case("check_empty", 'check(x, ok, message="ok")', {"x": a, "ok": np.zeros((0, 2), bool)}, [a])


if __name__ == "__main__":
    with Fixtures("identity") as f:
        casts(f)
        bitcasts(f)
        precisions(f)
        identities(f)
