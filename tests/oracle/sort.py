# SPDX-License-Identifier: Apache-2.0
"""Sorting. Results are permutations, so everything is exact. JAX gives lax.sort (NaN last, -0 equal to +0, stable) and
lax.top_k (ties: the lower index); where its rules differ from ours (NaN in top_k, descending), the order is Python's
stable sort under the key that the specification states."""
import jax
import numpy as np
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
FLOATS = ["f64", "f32", "f16", "bf16"]
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
INF, NAN = np.inf, np.nan
EDGE = [1, NAN, -INF, 0.0, INF, -0.0, NAN, 1, -1, INF, 0.0]


def key(v):
    """NaN above everything; -0 equals +0."""
    v = v.item() if hasattr(v, "item") else v
    return (1, 0) if v != v else (0, v)


def permutation(columns, descending):
    """Stable order of the rows of several key columns. sorted() keeps the order of equals with reverse as well."""
    columns = [c.astype(np.float64) if c.dtype.kind not in "iub" else c for c in columns]
    return sorted(range(len(columns[0])), key=lambda i: [key(c[i]) for c in columns], reverse=descending)


def along(x, axis, fn):
    """fn on every row along the axis."""
    moved = np.moveaxis(x, axis, -1)
    rows = [fn(r) for r in moved.reshape(-1, moved.shape[-1])]
    return np.moveaxis(np.array(rows).reshape(*moved.shape[:-1], -1), -1, axis)


def argsort(x, axis, descending):
    return along(x, axis, lambda r: permutation([r], descending))


def sorts(f):
    for dtype in FLOATS + INTS + ["bool"]:
        x = f.normal(dtype, (2, 3, 4))
        f.case(f"sort_{dtype}", "sort(x)", {"x": x}, [np.asarray(jax.lax.sort(x))])
        f.case(f"sort_axis_{dtype}", "sort(x, axis=1, descending=true)", {"x": x},
               [np.take_along_axis(x, argsort(x, 1, True), 1)])
        f.case(f"argsort_{dtype}", "argsort(x, axis=-2)", {"x": x}, [argsort(x, 1, False).astype(np.int32)])
        f.case(f"argsort_descending_{dtype}", "argsort(x, descending=true, dtype=i64)", {"x": x}, [argsort(x, 2, True)])
        f.case(f"topk_{dtype}", "topk(x, k=2)", {"x": x}, [argsort(x, 2, True)[:, :, :2].astype(np.int32)])
        at = argsort(x, 0, True)[:1]
        f.case(f"top_k_{dtype}", "top_k(x, k=1, axis=0, dtype=u16)", {"x": x},
               [np.take_along_axis(x, at, 0), at.astype(np.uint16)])


def edges(f):
    for dtype in FLOATS:
        x = np.array(EDGE, DTYPES[dtype])
        for descending in (False, True):
            at = permutation([x], descending)
            flag = ", descending=true" * descending
            f.case(f"argsort_edge_{dtype}", f"argsort(x{flag})", {"x": x}, [np.array(at, np.int32)])
            # The positions are sorted along, which distinguishes equal keys.
            f.case(f"sort_edge_{dtype}", f"sort(x, i{flag})", {"x": x, "i": np.arange(len(x))},
                   [x[at], np.arange(len(x))[at]])
        f.case(f"topk_edge_{dtype}", f"topk(x, k={len(x)}, dtype=u8)", {"x": x},
               [np.array(permutation([x], True), np.uint8)])
        low = np.array([-INF, -INF, 1, -INF], DTYPES[dtype])
        f.case(f"top_k_low_{dtype}", "top_k(x, k=3)", {"x": low}, [low[[2, 0, 1]], np.array([2, 0, 1], np.int32)])
    for dtype in INTS:
        limits = np.iinfo(DTYPES[dtype])
        x = np.array([0, limits.max, limits.min, 1, limits.max, limits.min], DTYPES[dtype])
        f.case(f"sort_limits_{dtype}", "sort(x)", {"x": x}, [np.sort(x)])
        v, i = jax.lax.top_k(x, 3)
        f.case(f"top_k_limits_{dtype}", "top_k(x, k=3)", {"x": x}, [np.asarray(v), np.asarray(i)])
    f.case("sort_empty_axis", "sort(x, axis=0)", {"x": np.zeros((0, 3), np.float32)}, [np.zeros((0, 3), np.float32)])
    f.case("top_k_no_rows", "top_k(x, k=2)", {"x": np.zeros((0, 3), np.float32)},
           [np.zeros((0, 2), np.float32), np.zeros((0, 2), np.int32)])


def several(f):
    a = np.array([2, 1, 2, 1, 2, 1], np.int16)
    b = np.array([0.5, NAN, -0.0, 3, 0.0, 3], np.float32)
    c = np.arange(6) * (1 + 2j)
    d = np.array([1, 0, 1, 1, 0, 0], bool)
    for keys in (1, 2):
        s = jax.lax.sort((a, b, c, d), num_keys=keys, is_stable=True)
        f.case("sort_keys", f"sort(a, b, c, d, num_keys={keys})", {"a": a, "b": b, "c": c, "d": d},
               [np.asarray(v) for v in s])
    at = permutation([a, b], True)
    f.case("sort_keys_descending", "sort(a, b, c, d, num_keys=2, descending=true)", {"a": a, "b": b, "c": c, "d": d},
           [v[at] for v in (a, b, c, d)])
    x = f.normal("f32", (3, 4))
    y = f.normal("i64", (3, 4))
    s = jax.lax.sort((x, y), dimension=0, num_keys=1)
    f.case("sort_pair_axis", "sort(x, y, axis=-2)", {"x": x, "y": y}, [np.asarray(v) for v in s])


def compares(f):
    f.graphs("graph by_size(a: c64[], b: c64[], i: i32[], j: i32[]) { return lt(abs(a), abs(b)) }")
    f.graphs("graph larger(a: i32[], b: i32[]) { return gt(a, b) }")
    f.graphs("graph never(a: i32[], b: i32[]) { return ne(a, a) }")
    z = np.array([3 + 4j, 1j, -2, 5, -1], np.complex64)
    at = sorted(range(5), key=lambda i: abs(z[i]))
    i = np.arange(5, dtype=np.int32)
    f.case("sort_compare", "sort(z, i, compare=@by_size)", {"z": z, "i": i}, [z[at], i[at]])
    x = f.normal("i32", (3, 4))
    f.case("sort_compare_axis", "sort(x, axis=0, compare=@larger)", {"x": x}, [-np.sort(-x, axis=0)])
    f.case("sort_compare_never", "sort(x, compare=@never)", {"x": x}, [x])


with Fixtures("sort") as fixtures:
    for part in (sorts, edges, several, compares):
        part(fixtures)
