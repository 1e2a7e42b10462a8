# SPDX-License-Identifier: Apache-2.0
"""Answers for the index family: NumPy's take, take_along_axis and add.at, JAX's one_hot and dynamic slices. The
policies oob=zero and oob=clamp are masks around NumPy's answer for a clipped index."""
import jax
import numpy as np
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
ALL = list(DTYPES)
SOME = ["f64", "f16", "bf16", "c64", "i8", "u64", "bool"]
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 65504.0, 1e-7])


def bad_positions(idx, n):
    """Where an index is outside 0..n-1 or no whole number."""
    v = idx.astype(np.float64)
    return ~((v >= 0) & (v < n) & (v == np.floor(v)))


def clipped(idx, n):
    v = np.nan_to_num(np.trunc(idx.astype(np.float64)), nan=0.0)
    return np.clip(v, 0, n - 1).astype(np.int64)


def gather(table, idx, axis, oob="error"):
    n = table.shape[axis]
    y = np.take(table, clipped(idx, n), axis=axis)
    if oob == "zero":
        axis %= table.ndim
        bad = bad_positions(idx, n)
        mask = bad.reshape((1,) * axis + bad.shape + (1,) * (table.ndim - 1 - axis))
        y = np.where(mask, np.zeros((), table.dtype), y)
    return y


def take_along(x, idx, axis, oob="error"):
    n = x.shape[axis]
    y = np.take_along_axis(x, clipped(idx, n), axis=axis)
    return np.where(bad_positions(idx, n), np.zeros((), x.dtype), y) if oob == "zero" else y


def wide(x):
    """The dtype in which sums are exact enough: rounded once afterwards."""
    if x.dtype.kind == "c":
        return np.complex128
    return x.dtype if x.dtype.kind in "iub" else np.float64


def scatter_add(upd, idx, rows, oob="error"):
    y = np.zeros((rows,) + upd.shape[idx.ndim:], wide(upd))
    keep = ~bad_positions(idx, rows) if oob == "zero" else np.ones(idx.shape, bool)
    add = np.logical_or if upd.dtype == bool else np.add
    with np.errstate(over="ignore"):
        add.at(y, clipped(idx, max(rows, 1))[keep], upd.astype(y.dtype)[keep])
    return y.astype(upd.dtype)


def one_hot(i, n, axis, dtype):
    return np.asarray(jax.nn.one_hot(i, n, axis=axis, dtype=DTYPES[dtype]))


def gather_cases(f):
    for d in ALL:
        table = f.normal(d, (3, 4))
        idx = np.array([2, 0, 2, 1, 0], np.int32)
        f.case(f"gather_{d}", "gather(t, i)", {"t": table, "i": idx}, [gather(table, idx, 0)])
    for d in SOME:
        table = f.normal(d, (2, 3, 2))
        idx = np.array([[0, 2], [1, 1]], np.int64)
        f.case(f"gather_axis_{d}", "gather(t, i, axis=-2)", {"t": table, "i": idx}, [gather(table, idx, 1)])
        far = np.array([-1, 3, 0, -2**31, 2**31 - 1], np.int32)
        for oob in ("zero", "clamp"):
            f.case(f"gather_{oob}_{d}", f"gather(t, i, axis=1, oob={oob})", {"t": table, "i": far},
                   [gather(table, far, 1, oob)])
    table = SPECIAL.reshape(2, 3)
    for d in ("f64", "f32", "f16", "bf16"):
        x = table.astype(DTYPES[d])
        f.case(f"gather_special_{d}", "gather(t, i)", {"t": x, "i": np.array([1, 0], np.uint8)}, [x[[1, 0]]])
    x = f.normal("f32", (4, 2))
    f.case("gather_scalar", "gather(t, i)", {"t": x, "i": np.array(3, np.int16)}, [x[3]])
    f.case("gather_float_index", "gather(t, i)", {"t": x, "i": np.array([3.0, 0.0], np.float32)}, [x[[3, 0]]])
    odd = np.array([0.5, np.nan, np.inf, -np.inf, 1.0, -0.0])
    for oob in ("zero", "clamp"):
        f.case(f"gather_odd_{oob}", f"gather(t, i, oob={oob})", {"t": x, "i": odd}, [gather(x, odd, 0, oob)])
    huge = np.array([2**64 - 1, 1, 2**63], np.uint64)
    for oob in ("zero", "clamp"):
        f.case(f"gather_u64_{oob}", f"gather(t, i, oob={oob})", {"t": x, "i": huge}, [gather(x, huge, 0, oob)])
    empty = np.zeros((0, 3), np.float32)
    f.case("gather_empty_index", "gather(t, i)", {"t": x, "i": np.zeros((0, 2), np.int32)},
           [np.zeros((0, 2, 2), np.float32)])
    f.case("gather_empty_table", "gather(t, i)", {"t": empty, "i": np.zeros((0,), np.int32)}, [empty])
    f.case("gather_empty_row", "gather(t, i, oob=zero)", {"t": empty, "i": np.zeros((2,), np.int32)},
           [np.zeros((2, 3), np.float32)])


def scatter_add_cases(f):
    tolerance = {"f64": {"rel": 4}, "f32": {"rel": 4}, "f16": {"rel": 1}, "bf16": {"rel": 1}, "c64": {"rel": 4},
                 "c128": {"rel": 4}}
    for d in ALL:
        upd = f.normal(d, (6, 2))
        idx = np.array([1, 0, 1, 3, 1, 0], np.int32)
        f.case(f"scatter_add_{d}", "scatter_add(u, i, R=4)", {"u": upd, "i": idx}, [scatter_add(upd, idx, 4)],
               **tolerance.get(d, {}))
    for d in SOME:
        upd = f.normal(d, (2, 3, 2))
        idx = np.array([[-1, 0, 2], [3, 2, 2]], np.int64)
        for oob in ("zero", "clamp"):
            f.case(f"scatter_add_{oob}_{d}", f"scatter_add(u, i, R=3, oob={oob})", {"u": upd, "i": idx},
                   [scatter_add(upd, idx, 3, oob)], **tolerance.get(d, {}))
    # 2048 + 1 is 2048 in f16; four ones added one by one would be lost without the wide sum.
    upd = np.array([2048, 1, 1, 1, 1], np.float16)
    zeros = np.zeros(5, np.int32)
    f.case("scatter_add_wide_f16", "scatter_add(u, i, R=1)", {"u": upd, "i": zeros}, [np.array([2052], np.float16)])
    upd = np.array([256, 1, 1, 1, 1], DTYPES["bf16"])
    f.case("scatter_add_wide_bf16", "scatter_add(u, i, R=1)", {"u": upd, "i": zeros},
           [np.array([260], DTYPES["bf16"])])
    upd = np.array([127, 1, 127], np.int8)
    f.case("scatter_add_wraps", "scatter_add(u, i, R=1)", {"u": upd, "i": zeros[:3]}, [np.array([-1], np.int8)])
    upd = np.array([np.inf, -np.inf, np.nan, 1.0, -0.0], np.float32)
    idx = np.array([0, 0, 1, 2, 3], np.int32)
    f.case("scatter_add_special", "scatter_add(u, i, R=4)", {"u": upd, "i": idx},
           [np.array([np.nan, np.nan, 1, 0], np.float32)])
    f.case("scatter_add_scalar_index", "scatter_add(u, i, R=2)",
           {"u": np.array([1, 2], np.float32), "i": np.array(1, np.int32)}, [np.array([[0, 0], [1, 2]], np.float32)])
    f.case("scatter_add_empty", "scatter_add(u, i, R=2)",
           {"u": np.zeros((0, 3), np.float32), "i": np.zeros(0, np.int32)}, [np.zeros((2, 3), np.float32)])


def take_along_cases(f):
    for d in ALL:
        x = f.normal(d, (3, 4))
        idx = np.array([[3, 0], [1, 1], [0, 2]], np.int32)
        f.case(f"take_along_{d}", "take_along(x, i)", {"x": x, "i": idx}, [take_along(x, idx, 1)])
    for d in SOME:
        x = f.normal(d, (3, 2, 2))
        idx = np.array([[[-1, 2], [0, 3]]], np.int64)
        for oob in ("zero", "clamp"):
            f.case(f"take_along_{oob}_{d}", f"take_along(x, i, axis=0, oob={oob})", {"x": x, "i": idx},
                   [take_along(x, idx, 0, oob)])
    f.case("take_along_empty", "take_along(x, i)", {"x": np.ones((2, 3), np.float32), "i": np.zeros((2, 0), np.int32)},
           [np.zeros((2, 0), np.float32)])


def one_hot_cases(f):
    i = np.array([[0, 2], [1, 2]], np.int32)
    for d in ALL:
        f.case(f"one_hot_{d}", f"one_hot(i, n=3, dtype={d})", {"i": i}, [one_hot(i, 3, -1, d)])
    f.case("one_hot_front", "one_hot(i, n=3, axis=0)", {"i": i}, [one_hot(i, 3, 0, "f32")])
    f.case("one_hot_middle", "one_hot(i, n=4, axis=-2)", {"i": i}, [one_hot(i, 4, 1, "f32")])
    far = np.array([-1, 3, 1, 100], np.int8)
    f.case("one_hot_zero", "one_hot(i, n=3, oob=zero)", {"i": far}, [one_hot(far, 3, -1, "f32")])
    f.case("one_hot_clamp", "one_hot(i, n=3, oob=clamp)", {"i": far}, [one_hot(np.clip(far, 0, 2), 3, -1, "f32")])
    f.case("one_hot_scalar", "one_hot(i, n=2)", {"i": np.array(1, np.uint16)}, [np.array([0, 1], np.float32)])
    f.case("one_hot_none", "one_hot(i, n=0, oob=zero)", {"i": far}, [np.zeros((4, 0), np.float32)])


def dynamic_cases(f):
    # Compiled, because JAX looks at the sign of an index it can see.
    cut = jax.jit(lambda x, at: jax.lax.dynamic_slice(x, at, (2, 3), allow_negative_indices=False))
    update = jax.jit(lambda x, u, at: jax.lax.dynamic_update_slice(x, u, at, allow_negative_indices=False))
    starts = [(0, 0), (1, 2), (-3, 9), (5, -1)]
    for k, d in enumerate(ALL):
        x = f.normal(d, (3, 4))
        u = f.normal(d, (2, 3))
        at = np.array(starts[k % 4])
        feeds = {"x": x, "p": np.array(at[0], np.int32), "q": np.array(at[1], np.int64)}
        f.case(f"dynamic_slice_{d}", "dynamic_slice(x, p, q, sizes=[2, 3])", feeds, [cut(x, at)])
        f.case(f"dynamic_update_slice_{d}", "dynamic_update_slice(x, u, p, q)", {"u": u, **feeds}, [update(x, u, at)])
    x = np.array([1, 2, 3], np.float32)
    f.case("dynamic_slice_scalar", "dynamic_slice(x, sizes=[])", {"x": x[0]}, [x[0]])
    f.case("dynamic_slice_empty", "dynamic_slice(x, i, sizes=[0])", {"x": x, "i": np.array(7, np.int32)}, [x[:0]])
    f.case("dynamic_update_slice_whole", "dynamic_update_slice(x, u, i)", {"x": x, "u": -x, "i": np.array(2, np.int32)},
           [-x])


with Fixtures("index") as fixtures:
    for cases in (gather_cases, scatter_add_cases, take_along_cases, one_hot_cases, dynamic_cases):
        cases(fixtures)
