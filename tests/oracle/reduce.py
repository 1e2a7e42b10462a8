# SPDX-License-Identifier: Apache-2.0
"""Reductions, argmax, argmin, reduce and map. Sums are exact (math.fsum on float64) and rounded once; the library adds
in double (f16 and bf16: in f32) and rounds once, so one unit in the last place is enough, except for f64, where each of
n additions may round."""
import functools
import itertools
import math

import numpy as np
from oracle import DTYPES, Fixtures

FLOATS = ["f64", "f32", "f16", "bf16"]
COMPLEX = ["c64", "c128"]
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
INF, NAN = np.inf, np.nan


def is_int(dtype):
    return dtype[0] in "iu"


def widen(x):
    """The array in Python's own arithmetic: float64, complex128, or integers of any size."""
    if x.dtype.kind in "iub":
        return x.astype(object)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def narrow(y, dtype):
    """Rounds once; integers wrap."""
    y = np.asarray(y)
    if is_int(dtype):
        limits = np.iinfo(DTYPES[dtype])
        wrapped = [(int(v) - limits.min) % 2**limits.bits + limits.min for v in y.ravel()]
        return np.array(wrapped, DTYPES[dtype]).reshape(y.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        return y.astype(DTYPES[dtype])


def fold_rows(x, axes, keep, fold):
    """fold(list of reduced elements in row-major order) at every kept position."""
    axes = tuple(range(x.ndim)) if axes is None else tuple(sorted(a % x.ndim for a in axes))
    kept = [a for a in range(x.ndim) if a not in axes]
    w = widen(x).transpose(*kept, *axes)
    lead = [x.shape[a] for a in kept]
    rows = w.reshape(lead + [math.prod(x.shape[a] for a in axes)])
    out = np.empty(lead, dtype=object)
    for at in itertools.product(*map(range, lead)):
        out[at] = fold(list(rows[at]))
    shape = [1 if a in axes else d for a, d in enumerate(x.shape)] if keep else lead
    return out.reshape(shape)


def add(row):
    if row and isinstance(row[0], (complex, np.complexfloating)):
        return complex(add([v.real for v in row]), add([v.imag for v in row]))
    if row and isinstance(row[0], (float, np.floating)):
        return math.fsum(row) if all(map(math.isfinite, row)) else float(np.sum(row))
    return sum(row)


def largest(row):
    return NAN if any(v != v for v in row) else max(row)


def smallest(row):
    return NAN if any(v != v for v in row) else min(row)


def typed(y, dtype):
    kind = np.complex128 if dtype in COMPLEX else np.float64 if dtype in FLOATS else bool if dtype == "bool" else object
    return narrow(y.astype(kind), dtype)


LAYOUTS = [("", None, False), (", axes=[-1]", [-1], False), (", axes=[0, 2], keep_dims=true", [0, 2], True)]


def sums(f):
    for dtype in FLOATS + COMPLEX + INTS:
        x = f.normal(dtype, (2, 3, 4))
        for attrs, axes, keep in LAYOUTS:
            y = typed(fold_rows(x, axes, keep, add), dtype)
            close = {"rel": 24} if dtype in ("f64", "c128") else {"ulp": 0 if is_int(dtype) else 1}
            f.case(f"reduce_sum_{dtype}", f"reduce_sum(x{attrs})", {"x": x}, [y], **close)
            if not is_int(dtype):
                mean = fold_rows(x, axes, keep, lambda r: add(r) / len(r))
                f.case(f"reduce_mean_{dtype}", f"reduce_mean(x{attrs})", {"x": x}, [typed(mean, dtype)], **close)
    for dtype in FLOATS:
        kind = DTYPES[dtype]
        for row in [[INF, 1, -INF], [INF, 1, 2], [1, NAN, 2], [-0.0, -0.0], []]:
            x = np.array(row, dtype=kind)
            with np.errstate(invalid="ignore"):
                total = np.float64(np.sum(np.array(row))) + 0.0
            f.case(f"reduce_sum_edge_{dtype}", "reduce_sum(x)", {"x": x}, [narrow(total, dtype)])
            mean = total / len(row) if row else NAN
            f.case(f"reduce_mean_edge_{dtype}", "reduce_mean(x)", {"x": x}, [narrow(mean, dtype)])
    # The accumulator is wider than the elements: 2048 + 1 is 2048 in f16, 256 + 1 is 256 in bf16, and a sum past f16's
    # largest number comes back.
    f.case("reduce_sum_wide_f16", "reduce_sum(x)", {"x": np.array([2048, 1, 1, 1, 1], np.float16)}, [np.float16(2052)])
    f.case("reduce_sum_wide_bf16", "reduce_sum(x)", {"x": np.array([256, 1, 1, 1, 1], DTYPES["bf16"])},
           [np.array(260, DTYPES["bf16"])])
    f.case("reduce_sum_past_max_f16", "reduce_sum(x)", {"x": np.array([65504, 65504, -65504], np.float16)},
           [np.float16(65504)])
    f.case("reduce_mean_past_max_f16", "reduce_mean(x)", {"x": np.array([65504, 65504], np.float16)},
           [np.float16(65504)])
    for dtype in INTS:
        top = np.iinfo(DTYPES[dtype])
        x = np.array([top.max, top.max, 3, top.min], DTYPES[dtype])
        f.case(f"reduce_sum_wraps_{dtype}", "reduce_sum(x)", {"x": x}, [typed(fold_rows(x, None, False, add), dtype)])


def products(f):
    for dtype in FLOATS + COMPLEX + INTS:
        x = f.normal(dtype, (2, 2, 4))
        y = fold_rows(x, [0, 2], False, lambda r: functools.reduce(lambda a, b: a * b, r))
        f.case(f"reduce_prod_{dtype}", "reduce_prod(x, axes=[2, 0])", {"x": x}, [typed(y, dtype)],
               **({"rel": 16} if dtype in ("f64", "c128") else {"ulp": 0 if is_int(dtype) else 2}))
        f.case(f"reduce_prod_empty_{dtype}", "reduce_prod(x, axes=[0])", {"x": x[:0, 0]}, [np.ones(4, DTYPES[dtype])])
    for row in [[0, INF], [0, -2, 3], [2, NAN], [-INF, -2]]:
        x = np.array(row, np.float32)
        with np.errstate(invalid="ignore"):
            f.case("reduce_prod_edge", "reduce_prod(x)", {"x": x}, [np.prod(x)])


def extrema(f):
    for dtype in FLOATS + INTS:
        x = f.normal(dtype, (2, 3, 4))
        for name, fold in (("max", largest), ("min", smallest)):
            for attrs, axes, keep in LAYOUTS:
                f.case(f"reduce_{name}_{dtype}", f"reduce_{name}(x{attrs})", {"x": x},
                       [typed(fold_rows(x, axes, keep, fold), dtype)])
            if is_int(dtype):
                limits = np.iinfo(DTYPES[dtype])
                nothing = limits.min if name == "max" else limits.max
            else:
                nothing = -INF if name == "max" else INF
            f.case(f"reduce_{name}_empty_{dtype}", f"reduce_{name}(x, axes=[1])", {"x": x[0, :, :0]},
                   [np.full(3, nothing, DTYPES[dtype])])
    for dtype in FLOATS:
        x = np.array([[1, NAN, 2], [INF, -INF, 0], [-INF, -INF, -INF], [NAN, INF, -INF]], DTYPES[dtype])
        for name, fold in (("max", largest), ("min", smallest)):
            f.case(f"reduce_{name}_edge_{dtype}", f"reduce_{name}(x, axes=[1])", {"x": x},
                   [typed(fold_rows(x, [1], False, fold), dtype)])
    big = np.array([2**64 - 1, 2**63, 1], np.uint64)
    f.case("reduce_max_u64", "reduce_max(x)", {"x": big}, [big.max()])
    f.case("reduce_min_u64", "reduce_min(x)", {"x": big}, [big.min()])


def truths(f):
    x = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], bool)
    for names, y in ((("any", "max", "sum"), x.any(1)), (("all", "min", "prod"), x.all(1))):
        for name in names:
            f.case(f"reduce_{name}_bool", f"reduce_{name}(x, axes=[1])", {"x": x}, [y])
    for name, y in (("any", False), ("max", False), ("sum", False), ("all", True), ("min", True), ("prod", True)):
        f.case(f"reduce_{name}_empty_bool", f"reduce_{name}(x)", {"x": x[:0]}, [np.array(y)])


def positions(f):
    for dtype in FLOATS + INTS + ["bool"]:
        x = f.normal(dtype, (2, 3, 4))
        f.case(f"argmax_{dtype}", "argmax(x, axis=1, dtype=i64)", {"x": x}, [np.argmax(x, axis=1)])
        f.case(f"argmin_{dtype}", "argmin(x, keep_dims=true)", {"x": x},
               [np.argmin(x, axis=-1, keepdims=True).astype(np.int32)])
    for dtype in FLOATS:
        rows = np.array([[1, 3, 3, 2], [0.0, -0.0, 0.0, -0.0], [1, NAN, INF, NAN], [-INF, NAN, -INF, 1],
                         [-INF, -INF, -INF, -INF], [NAN, 1, 2, 3]], DTYPES[dtype])
        w = rows.astype(np.float64)
        f.case(f"argmax_edge_{dtype}", "argmax(x, dtype=u8)", {"x": rows}, [np.argmax(w, axis=1).astype(np.uint8)])
        f.case(f"argmin_edge_{dtype}", "argmin(x, dtype=i16)", {"x": rows}, [np.argmin(w, axis=1).astype(np.int16)])
    big = np.array([1, 2**63, 2**64 - 1, 0], np.uint64)
    f.case("argmax_u64", "argmax(x)", {"x": big}, [np.int32(2)])
    f.case("argmin_u64", "argmin(x)", {"x": big}, [np.int32(3)])


def bodies(f):
    f.graphs("graph horner(a: f32[], x: f32[]) { return add(mul(a, 2), x) }")
    f.graphs("graph widen_sum(a: i64[], x: i8[]) { return add(a, cast(x, to=i64)) }")
    f.graphs("graph arg_largest(v: f64[], k: i32[], x: f64[], i: i32[]) {\n"
             "  c = gt(x, v)\n  return where(c, x, v), where(c, i, k)\n}")
    f.graphs("graph swap(a: i32[], b: i32[], x: i32[], y: i32[]) { return b, a }")
    f.graphs("graph last(a: u16[], x: u16[]) { return x }")
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    row_major = lambda rows, init: functools.reduce(lambda a, v: 2 * a + v, rows, init)
    f.case("reduce_order", "reduce(x, a, body=@horner)", {"x": x, "a": np.float32(1)},
           [np.float32(row_major(x.ravel().astype(float), 1.0))])
    f.case("reduce_order_axis", "reduce(x, a, body=@horner, axes=[0])", {"x": x, "a": np.float32(3)},
           [np.array([row_major(x[:, k].astype(float), 3.0) for k in range(4)], np.float32)])
    x8 = np.array([[127, 127, 1], [-128, -128, -1]], np.int8)
    f.case("reduce_widens", "reduce(x, a, body=@widen_sum, axes=[1])", {"x": x8, "a": np.int64(10)},
           [x8.sum(axis=1, dtype=np.int64) + 10])
    v = f.normal("f64", (3, 4))
    i = np.broadcast_to(np.arange(4, dtype=np.int32), (3, 4))
    f.case("reduce_pair", "reduce(x, i, a, k, body=@arg_largest, axes=[-1])",
           {"x": v, "i": i, "a": np.float64(-INF), "k": np.int32(-1)}, [v.max(1), v.argmax(1).astype(np.int32)])
    z = np.zeros(3, np.int32)
    f.case("reduce_swap", "reduce(x, x, a, b, body=@swap)", {"x": z, "a": np.int32(1), "b": np.int32(2)},
           [np.int32(2), np.int32(1)])
    u = np.array([[7, 8], [9, 65535]], np.uint16)
    f.case("reduce_last", "reduce(x, a, body=@last, axes=[0])", {"x": u, "a": np.uint16(1)}, [u[-1]])
    f.case("reduce_nothing", "reduce(x, a, body=@last, axes=[0])", {"x": u[:0], "a": np.uint16(5)},
           [np.array([5, 5], np.uint16)])
    f.case("reduce_identity", "reduce(x, a, body=@horner, axes=[])", {"x": x[0], "a": np.float32(1)}, [x[0] + 2])

    f.graphs("graph split_sign(x: f32[], k: i64[]) { return lt(x, 0), add(k, cast(x, to=i64)), x }")
    m = np.array([[1.5, -2.5, 0], [-0.0, 7, -7]], np.float32)
    k = np.array([[1, 2, 3], [4, 5, 6]], np.int64)
    f.case("map_mixed", "map(x, k, body=@split_sign)", {"x": m, "k": k}, [m < 0, k + np.trunc(m).astype(np.int64), m])
    f.case("map_scalar", "map(x, k, body=@split_sign)", {"x": m[0, 0], "k": k[0, 0]},
           [np.array(False), np.int64(2), m[0, 0]])


with Fixtures("reduce") as fixtures:
    for part in (sums, products, extrema, truths, positions, bodies):
        part(fixtures)
