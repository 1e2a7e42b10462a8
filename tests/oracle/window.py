# SPDX-License-Identifier: Apache-2.0
"""Oracle of the window family. Windows are spelled out: each case lists, for every window, the elements under it (None
for padding), and NumPy folds them in double precision; where XLA has the same op, the answers must agree with it."""
import itertools
import functools
import operator

import jax
import numpy as np
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
FLOATS = ["f64", "f32", "f16", "bf16"]


def widen(x):
    if x.dtype == bool or x.dtype.kind in "iu":
        return x.astype(object) if x.dtype != bool else x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def narrow(y, dtype):
    y = np.asarray(y)
    if dtype[0] in "iu":
        bits = DTYPES[dtype].itemsize * 8
        wrapped = [int(v) % 2**bits for v in y.ravel()]
        return np.array(wrapped, np.uint64).astype(f"u{bits // 8}").view(DTYPES[dtype]).reshape(y.shape)
    return y.astype(DTYPES[dtype])


def positions(extent, window, stride, low, high, base=1, dilation=1):
    """For each window along one axis, what lies under its taps: an index, or None for padding and gaps."""
    spread = 0 if extent == 0 else (extent - 1) * base + 1
    padded = low + spread + high
    reach = (window - 1) * dilation + 1
    count = 0 if reach > padded else (padded - reach) // stride + 1
    result = []
    for o in range(count):
        taps = []
        for k in range(window):
            p = o * stride + k * dilation - low
            taps.append(p // base if 0 <= p < spread and p % base == 0 else None)
        result.append(taps)
    return result


def windows(shape, axes):
    """shape of the result, and for each window in row-major order the list of multi-indices (None for padding)."""
    per_axis = [positions(extent, *a) for extent, a in zip(shape, axes)]
    found = []
    for choice in itertools.product(*per_axis):
        found.append([None if any(p is None for p in tap) else tap for tap in itertools.product(*choice)])
    return tuple(len(p) for p in per_axis), found


def fold(op, values, start):
    return functools.reduce(op, values, start)


def nan_max(a, b):
    return a if a != a else b if b != b else max(a, b)


def nan_min(a, b):
    return a if a != a else b if b != b else min(a, b)


COMBINES = {"add": operator.add, "mul": operator.mul, "max": nan_max, "min": nan_min}
BOOLS = {"add": operator.or_, "mul": operator.and_, "max": operator.or_, "min": operator.and_}


def combine_of(name, dtype):
    return (BOOLS if dtype == "bool" else COMBINES)[name]


def tolerance(dtype, name, terms):
    """max and min choose; sums and products in double round once per step, narrower ones once at the end."""
    if dtype[0] in "iub" and dtype != "bf16" or name in ("max", "min"):
        return {"ulp": 0}
    return {"rel": 2 * terms} if dtype in ("f64", "c128") else {"rel": 1}


def axes_text(axes):
    columns = list(zip(*axes)) if axes else [()] * 6
    names = ["window", "strides", "pad_low", "pad_high", "base_dilation", "window_dilation"]
    return ", ".join(f"{n}={list(c)}" for n, c in zip(names, columns))


# ---- reduce_window ----

GEOMETRY = [  # shape; per axis window, stride, low, high, base dilation, window dilation
    ((3, 4), ((2, 1, 0, 0, 1, 1), (2, 2, 0, 0, 1, 1))),
    ((6,), ((3, 2, 1, 2, 1, 1),)),
    ((4,), ((2, 1, 1, 0, 3, 2),)),
    ((2, 5), ((1, 1, 0, 0, 1, 1), (2, 1, -1, -1, 1, 1))),
    ((0, 2), ((2, 1, 1, 2, 2, 1), (1, 1, 0, 0, 1, 1))),
    ((2,), ((4, 1, 0, 0, 1, 1),)),
    ((), ()),
]
JAX_OPS = {"add": jax.lax.add, "max": jax.lax.max, "min": jax.lax.min, "mul": jax.lax.mul}


def reduce_window_case(f, name, dtype, x, init, axes):
    wide, start = widen(x), widen(np.asarray(init))[()]
    shape, found = windows(x.shape, axes)
    op = combine_of(name, dtype)
    y = np.array([fold(op, [start if at is None else wide[at] for at in taps], start) for taps in found] or [],
                 dtype=object).reshape(shape)
    y = y.astype(bool) if dtype == "bool" else narrow(y.astype(wide.dtype), dtype)
    if dtype in ("f64", "i32") and x.size and axes and name in ("max", "min"):
        identity = {"max": -np.inf, "min": np.inf}[name] if dtype == "f64" else None
        if identity is not None and init == identity and not np.isnan(x).any():
            theirs = jax.lax.reduce_window(x, np.asarray(init), JAX_OPS[name], [a[0] for a in axes],
                                           [a[1] for a in axes],
                                           [(a[2], a[3]) for a in axes], [a[4] for a in axes], [a[5] for a in axes])
            np.testing.assert_array_equal(np.asarray(theirs), y)
    f.case(f"reduce_window_{name}_{dtype}", f"reduce_window(x, init, {axes_text(axes)}, combine={name})",
           {"x": x, "init": np.asarray(init, DTYPES[dtype])}, [y],
           **tolerance(dtype, name, int(np.prod([a[0] for a in axes])) + 1))


def identity_of(name, dtype):
    if dtype == "bool":
        return name in ("mul", "min")
    if name in ("add", "mul"):
        return 0 if name == "add" else 1
    if dtype[0] in "iu":
        limits = np.iinfo(DTYPES[dtype])
        return limits.min if name == "max" else limits.max
    return -np.inf if name == "max" else np.inf


def reduce_window_cases(f):
    for name in COMBINES:
        for dtype in FLOATS + ["i32", "u8", "bool", "c64", "c128"]:
            if dtype[0] == "c" and name in ("max", "min"):
                continue
            for shape, axes in GEOMETRY if dtype in ("f64", "i32") else GEOMETRY[1:4]:
                init = np.asarray(identity_of(name, dtype)).astype(DTYPES[dtype])
                reduce_window_case(f, name, dtype, f.normal(dtype, shape), init, axes)
    special = np.array([np.nan, 1.0, -np.inf, 3.0, np.inf, -0.0, 0.0])
    for name in COMBINES:
        reduce_window_case(f, name, "f64", special, np.float64(identity_of(name, "f64")), ((2, 1, 1, 1, 1, 1),))
    # init counts: once at the start of each fold and once for each padded position.
    reduce_window_case(f, "add", "i32", np.array([1, 2, 3], np.int32), np.int32(10), ((2, 1, 1, 0, 1, 1),))
    reduce_window_case(f, "mul", "f64", np.array([2.0, 3.0]), np.float64(2), ((2, 1, 1, 1, 1, 1),))
    x = np.array([127, 127, 127], np.int8)
    reduce_window_case(f, "add", "i8", x, np.int8(0), ((3, 1, 0, 0, 1, 1),))


def graph_cases(f):
    f.graphs("graph affine(a: f64[], x: f64[]) {\n  return add(mul(a, 2), x)\n}\n")
    x = f.normal("f64", (2, 4))
    axes = ((2, 1, 0, 1, 1, 1), (2, 2, 0, 0, 1, 1))
    shape, found = windows(x.shape, axes)
    y = [fold(lambda a, v: 2 * a + v, [0.5 if at is None else x[at] for at in taps], 0.5) for taps in found]
    f.case("reduce_window_graph", f"reduce_window(x, init, {axes_text(axes)}, combine=@affine)",
           {"x": x, "init": np.array(0.5)}, [np.reshape(y, shape)], rel=8)
    f.graphs("graph first_max(a: f32[], i: i64[], x: f32[], k: i64[]) {\n  p = ge(a, x)\n"
             "  return where(p, a, x), where(p, i, k)\n}\n")
    x = np.array([1, 5, 5, 2, 0, 7], np.float32)
    i = np.arange(6)
    f.case("reduce_window_pair", "reduce_window(x, i, a, b, window=[3], strides=[3], combine=@first_max)",
           {"x": x, "i": i, "a": np.float32(-np.inf), "b": np.int64(-1)},
           [np.array([5, 7], np.float32), np.array([1, 5])])


# ---- select_and_scatter ----

SELECTS = {"ge": operator.ge, "le": operator.le, "gt": operator.gt, "lt": operator.lt}


def scatter_case(f, dtype, select, combine, x, source, init, axes, name=None):
    shape, found = windows(x.shape, axes)
    assert shape == source.shape
    wide, values = widen(x), widen(source).ravel()
    y = np.full(x.shape, widen(np.asarray(init))[()], dtype=object)
    for taps, value in zip(found, values):
        kept = None
        for at in taps:
            if at is not None and (kept is None or not SELECTS[select](wide[kept], wide[at])):
                kept = at
        if kept is not None:
            y[kept] = combine_of(combine, dtype)(y[kept], value)
    y = y.astype(bool) if dtype == "bool" else narrow(y.astype(wide.dtype), dtype)
    text = ", ".join(f"{n}={list(c)}" for n, c in zip(["window", "strides", "pad_low", "pad_high"], zip(*axes)))
    f.case(name or f"scatter_{select}_{combine}_{dtype}",
           f"select_and_scatter(x, source, init, {text}, select={select}, combine={combine})",
           {"x": x, "source": source, "init": np.asarray(init, DTYPES[dtype])}, [y],
           **tolerance(dtype, combine, source.size))


def scatter_cases(f):
    axes = ((2, 2, 0, 0), (3, 1, 1, 1))
    for dtype in FLOATS + ["i32", "u8", "bool"]:
        for select, combine in [("ge", "add"), ("le", "mul"), ("gt", "max"), ("lt", "min")]:
            x = f.normal(dtype, (4, 3))
            shape, _ = windows(x.shape, axes)
            scatter_case(f, dtype, select, combine, x, f.normal(dtype, shape),
                         identity_of(combine, dtype), axes)
    ties = np.array([1.0, 1.0, 1.0, 0.0])
    for select in SELECTS:  # ge keeps the first of equals, gt moves on to the last
        scatter_case(f, "f64", select, "add", ties, np.array([1.0, 2.0, 4.0]), 0.0, ((2, 1, 0, 0),), f"ties_{select}")
    nans = np.array([np.nan, 1.0, np.nan, 2.0, 3.0])  # every comparison with NaN is false, so it is never kept for long
    scatter_case(f, "f64", "ge", "add", nans, np.array([1.0, 2.0, 4.0]), 0.0, ((3, 1, 0, 0),), "nan_ge")
    # Windows of padding only keep nothing.
    scatter_case(f, "f64", "ge", "add", np.array([3.0]), np.array([1.0, 2.0, 4.0]), 0.5, ((1, 1, 1, 1),),
                 "padding_only")
    # Where XLA has the op, it agrees.
    x, source = f.normal("f64", (4, 6)), f.normal("f64", (2, 3))
    from jax._src.lax import windowed_reductions
    theirs = windowed_reductions._select_and_scatter_add(source, x, jax.lax.ge_p, (2, 2), (2, 2), ((0, 0), (0, 0)))
    f.case("scatter_like_xla", "select_and_scatter(x, source, 0, window=[2, 2], strides=[2, 2])",
           {"x": x, "source": source}, [np.asarray(theirs)])
    f.graphs("graph farther(a: f64[], b: f64[]) {\n  return ge(abs(a), abs(b))\n}\n"
             "graph minus(a: f64[], b: f64[]) {\n  return sub(a, b)\n}\n")
    f.case("scatter_graphs", "select_and_scatter(x, s, 1, window=[2], select=@farther, combine=@minus)",
           {"x": np.array([1.0, -3.0, 2.0]), "s": np.array([5.0, 7.0])}, [np.array([1.0, 1.0 - 5.0 - 7.0, 1.0])])


# ---- Pooling ----

POOLS = [  # shape; kernel, stride, (low, high) per spatial axis
    ((1, 2, 6), (2,), (2,), ((0, 0),)),
    ((2, 1, 5), (3,), (2,), ((1, 1),)),
    ((1, 1, 4, 4), (2, 3), (1, 2), ((1, 0), (2, 1))),
    ((1, 1, 2, 2, 3), (2, 1, 2), (1, 1, 1), ((0, 0), (0, 0), (1, 0))),
]


def pool_axes(kernel, stride, padding):
    return ((1, 1, 0, 0), (1, 1, 0, 0)) + tuple((k, s, lo, hi) for k, s, (lo, hi) in zip(kernel, stride, padding))


def pool_text(kernel, stride, padding):
    return f"kernel_size={list(kernel)}, stride={list(stride)}, padding={[list(p) for p in padding]}"


def first_winner(values):
    for i, v in enumerate(values):
        if v != v:
            return i
    return max(range(len(values)), key=lambda i: (values[i], -i))


def pool_value(kind, values, taps, dtype):
    if kind == "prod":
        return fold(combine_of("mul", dtype), values, True if dtype == "bool" else 1)
    if kind in ("max", "min"):
        return fold(combine_of(kind, dtype), values[1:], values[0])
    total = fold(combine_of("add", dtype), values, False if dtype == "bool" else 0)
    return total / {"sum": 1, "mean": taps, "mean_inside": len(values)}[kind] if kind != "sum" else total


def pool_case(f, kind, dtype, x, kernel, stride, padding, name=None):
    wide = widen(x)
    shape, found = windows(x.shape, pool_axes(kernel, stride, padding))
    y = [pool_value(kind, [wide[at] for at in taps if at is not None], len(taps), dtype) for taps in found]
    y = np.array(y, dtype=object).reshape(shape)
    y = y.astype(bool) if dtype == "bool" else narrow(y.astype(wide.dtype), dtype)
    word, extra = ("mean", ", count_include_pad=false") if kind == "mean_inside" else (kind, "")
    f.case(name or f"pool_{kind}_{dtype}", f"pool(x, kind={word}, {pool_text(kernel, stride, padding)}{extra})",
           {"x": x}, [y], **tolerance(dtype, word, int(np.prod(kernel)) + 1))


def winner_cases(f, dtype, x, kernel, stride, padding, name):
    wide = widen(x)
    plane = int(np.prod(x.shape[2:]))
    shape, found = windows(x.shape, pool_axes(kernel, stride, padding))
    inside = [[at for at in taps if at is not None] for taps in found]
    winners = [taps[first_winner([wide[at] for at in taps])] for taps in inside]
    flat = np.array([np.ravel_multi_index(at, x.shape) % plane for at in winners], np.int32).reshape(shape)
    f.case(f"pool_argmax_{name}_{dtype}", f"pool_argmax(x, {pool_text(kernel, stride, padding)})", {"x": x}, [flat])
    if dtype == "bool":
        return
    dy = f.normal(dtype, shape)
    dx = np.zeros(x.shape, widen(dy).dtype)
    for at, v in zip(winners, widen(dy).ravel()):
        dx[at] += v
    f.case(f"max_pool_backward_{name}_{dtype}", f"max_pool_backward(x, dy, {pool_text(kernel, stride, padding)})",
           {"x": x, "dy": dy}, [narrow(dx, dtype)], **tolerance(dtype, "add", int(np.prod(kernel))))


def pool_cases(f):
    for dtype in FLOATS + ["i32", "u8", "bool", "c64"]:
        kinds = ["sum", "prod"]
        kinds += [] if dtype == "c64" else ["max", "min"]
        kinds += ["mean", "mean_inside"] if dtype in FLOATS + ["c64"] else []
        for kind in kinds:
            for shape, kernel, stride, padding in POOLS if dtype == "f64" else POOLS[1:3]:
                pool_case(f, kind, dtype, f.normal(dtype, shape), kernel, stride, padding)
    for dtype in FLOATS + ["i32", "u8", "bool"]:
        for i, (shape, kernel, stride, padding) in enumerate(POOLS if dtype == "f64" else POOLS[1:3]):
            winner_cases(f, dtype, f.normal(dtype, shape), kernel, stride, padding, f"{i}")
    special = np.array([[[1, np.nan, np.inf, 2, -np.inf, -np.inf, -0.0, 0.0]]])
    for kind in ["mean", "sum", "max", "min", "prod"]:
        pool_case(f, kind, "f64", special, (2,), (1,), ((1, 0),), f"pool_{kind}_special")
    winner_cases(f, "f64", special, (2,), (1,), ((1, 0),), "special")
    winner_cases(f, "f32", np.zeros((1, 1, 3, 3), np.float32), (2, 2), (1, 1), ((0, 0), (0, 0)), "ties")
    low = np.full((1, 1, 4), -128, np.int8)  # padding never wins, not even against the least value
    pool_case(f, "max", "i8", low, (2,), (1,), ((1, 1),), "pool_max_least")


with Fixtures("window") as f:
    reduce_window_cases(f)
    graph_cases(f)
    scatter_cases(f)
    pool_cases(f)
