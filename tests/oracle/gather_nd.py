# SPDX-License-Identifier: Apache-2.0
"""Answers for gather_nd and scatter_nd. Where JAX has the same policy (clamp; windows that lie inside) the answer is
jax.lax's; under oob=zero, which decides for each element where JAX drops whole windows, it is the definition written
out in NumPy below. The definition is checked against JAX in every case that both can do."""
import itertools
import jax
import numpy as np
from jax import lax
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
ALL = list(DTYPES)
SOME = ["f64", "f16", "bf16", "c64", "i8", "u64", "bool"]
TOLERANCE = {"f64": {"rel": 4}, "f32": {"rel": 4}, "f16": {"rel": 1}, "bf16": {"rel": 1}, "c64": {"rel": 4},
             "c128": {"rel": 4}}


class Geometry:
    """The attributes of one case; window: extents along the axes of x."""

    def __init__(self, window, start_index_map, offset_axes=(), collapsed_axes=(), operand_batching_axes=(),
                 indices_batching_axes=(), index_vector_axis=None):
        self.window, self.map, self.offset, self.collapsed = window, start_index_map, offset_axes, collapsed_axes
        self.of_x, self.of_indices, self.v = operand_batching_axes, indices_batching_axes, index_vector_axis

    def text(self, slice_sizes):
        lists = {"slice_sizes": self.window if slice_sizes else (), "offset_axes": self.offset,
                 "collapsed_axes": self.collapsed, "operand_batching_axes": self.of_x,
                 "indices_batching_axes": self.of_indices}
        parts = [f"start_index_map={list(self.map)}"]
        parts += [f"{key}={list(value)}" for key, value in lists.items() if len(value)]
        if self.v is not None:
            parts.append(f"index_vector_axis={self.v}")
        return ", ".join(parts)

    def vector_last(self, indices):
        """Indices with their components in the last axis, as JAX has them."""
        v = indices.ndim - 1 if self.v is None else self.v
        if v == indices.ndim:
            return indices[..., None]
        return np.moveaxis(indices, v, -1)

    def indices_axis(self, indices, axis):
        """The place of an axis of `indices` after vector_last."""
        v = indices.ndim - 1 if self.v is None else self.v
        return axis - (axis > v)

    def shape(self, indices):
        index_dims = list(self.vector_last(indices).shape[:-1])
        window = [w for k, w in enumerate(self.window) if k not in self.collapsed and k not in self.of_x]
        rank = len(index_dims) + len(window)
        return tuple(window.pop(0) if k in self.offset else index_dims.pop(0) for k in range(rank))

    def targets(self, x, indices, oob):
        """(position o, element of x or None) for every o in row-major order: the definition."""
        last = self.vector_last(indices)
        free = [k for k in range(x.ndim) if k not in self.collapsed and k not in self.of_x]
        for o in itertools.product(*map(range, self.shape(indices))):
            w = [o[k] for k in range(len(o)) if k in self.offset]
            b = [o[k] for k in range(len(o)) if k not in self.offset]
            p = [0] * x.ndim
            for j, axis in enumerate(self.map):
                s = int(last[tuple(b) + (j,)])
                if oob == "clamp":
                    s = min(max(s, 0), x.shape[axis] - self.window[axis])
                p[axis] += s
            for axis, paired in zip(self.of_x, self.of_indices):
                p[axis] = b[self.indices_axis(indices, paired)]
            for axis, i in zip(free, w):
                p[axis] += i
            inside = all(0 <= i < n for i, n in zip(p, x.shape))
            if not inside and oob == "error":
                raise IndexError(p)
            yield o, tuple(p) if inside else None

    def numbers(self, make, indices):
        """JAX's dimension numbers; it wants the batching axes of x sorted."""
        pairs = sorted(zip(self.of_x, (self.indices_axis(indices, k) for k in self.of_indices)))
        return make(tuple(self.offset), tuple(self.collapsed), tuple(self.map), tuple(a for a, _ in pairs),
                    tuple(b for _, b in pairs))

    def jax_mode(self, oob):
        return {"clamp": lax.GatherScatterMode.CLIP, "error": lax.GatherScatterMode.PROMISE_IN_BOUNDS}[oob]


def gather(x, indices, g, oob):
    y = np.zeros(g.shape(indices), x.dtype)
    for o, p in g.targets(x, indices, oob):
        if p is not None:
            y[o] = x[p]
    if oob == "zero":
        return y
    numbers = g.numbers(lax.GatherDimensionNumbers, indices)
    theirs = lax.gather(x, g.vector_last(indices), numbers, tuple(g.window), mode=g.jax_mode(oob))
    np.testing.assert_array_equal(np.asarray(theirs), y)
    return np.asarray(theirs)


def scatter_add(x, indices, updates, g, oob):
    kind = x.dtype.kind
    y = x.astype(np.complex128 if kind == "c" else x.dtype if kind in "iub" else np.float64)
    with np.errstate(over="ignore"):
        for o, p in g.targets(x, indices, oob):
            if p is not None:
                y[p] = y[p] + updates[o].astype(y.dtype)
    if oob != "zero" and kind in "fc" and x.dtype.itemsize >= 8:
        numbers = g.numbers(lax.ScatterDimensionNumbers, indices)
        theirs = lax.scatter_add(x, g.vector_last(indices), updates, numbers, mode=g.jax_mode(oob))
        np.testing.assert_allclose(np.asarray(theirs), y.astype(x.dtype), rtol=1e-5)
    return y.astype(x.dtype)


def scatter_fold(x, indices, updates, g, oob, fold):
    """Steps in the dtype itself."""
    y = x.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for o, p in g.targets(x, indices, oob):
            if p is not None:
                y[p] = fold(y[p], updates[o])
    return y


ROWS = Geometry((1, 4), [0], [1], [0], index_vector_axis=1)
POINTS = Geometry((1, 1), [0, 1], [], [0, 1])
BLOCKS = Geometry((2, 3), [0, 1], [1, 2])
TURNED = Geometry((2, 3), [1, 0], [0, 2], index_vector_axis=0)
BATCHED = Geometry((1, 2, 2), [2], [1, 3], [], [0], [1], index_vector_axis=2)
TWO_BATCHES = Geometry((1, 1, 1), [1], [], [1], [2, 0], [0, 2], index_vector_axis=1)
SHAPES = {  # geometry, shape of x, starts inside, starts partly outside
    "rows": (ROWS, (3, 4), [2, 0, 2], [3, -1, 1]),
    "points": (POINTS, (3, 4), [[2, 3], [0, 0], [2, 3]], [[3, 0], [1, -1], [2, 3]]),
    "blocks": (BLOCKS, (3, 4), [[1, 1], [0, 0]], [[2, 2], [-1, -2]]),
    "turned": (TURNED, (3, 4), [[1, 0], [1, 0]], [[3, -1], [2, -1]]),
    "batched": (BATCHED, (2, 2, 3), [[0, 1], [1, 1]], [[-1, 2], [3, -2]]),
    "two_batches": (TWO_BATCHES, (2, 3, 2), [[[0, 2]], [[1, 1]]], [[[-1, 2]], [[3, 0]]]),
}


def gather_cases(f):
    for name, (g, shape, inside, outside) in SHAPES.items():
        for d in (ALL if name == "blocks" else SOME):
            x = f.normal(d, shape)
            good, far = np.array(inside, np.int32), np.array(outside, np.int64)
            text = f"gather_nd(x, i, {g.text(True)}"
            f.case(f"gather_nd_{name}_{d}", text + ")", {"x": x, "i": good}, [gather(x, good, g, "error")])
            for oob in ("zero", "clamp") if d in ("f32", "bf16", "u64") else ():
                f.case(f"gather_nd_{name}_{oob}_{d}", text + f", oob={oob})", {"x": x, "i": far},
                       [gather(x, far, g, oob)])
    x = np.array([[np.nan, np.inf, -0.0], [-np.inf, 1.0, 2.0]], np.float32)
    odd = np.array([0.5, np.nan, 1.0, np.inf], np.float32)
    f.case("gather_nd_odd_index", "gather_nd(x, i, slice_sizes=[1, 3], start_index_map=[0], collapsed_axes=[0], "
           "offset_axes=[1], index_vector_axis=1, oob=zero)", {"x": x, "i": odd},
           [np.stack([np.zeros(3), np.zeros(3), x[1], np.zeros(3)]).astype(np.float32)])
    huge = np.array([2**64 - 1, 2**63, 1], np.uint64)
    f.case("gather_nd_huge_index", "gather_nd(x, i, slice_sizes=[1, 3], start_index_map=[0], collapsed_axes=[0], "
           "offset_axes=[1], index_vector_axis=1, oob=zero)", {"x": x, "i": huge},
           [np.stack([np.zeros(3), np.zeros(3), x[1]]).astype(np.float32)])
    f.case("gather_nd_no_component", "gather_nd(x, i, slice_sizes=[2, 2], start_index_map=[], offset_axes=[0, 1])",
           {"x": x, "i": np.zeros(0, np.int32)}, [x[:, :2]])
    f.case("gather_nd_empty", "gather_nd(x, i, slice_sizes=[1, 0], start_index_map=[0], collapsed_axes=[0], "
           "offset_axes=[1], index_vector_axis=1)", {"x": x, "i": np.array([1, 0], np.int32)},
           [np.zeros((2, 0), np.float32)])


def scatter_cases(f):
    f.graphs("graph later(a: f32[], b: f32[]) { return sub(b, mul(a, 0.5)) }")
    for name, (g, shape, inside, outside) in SHAPES.items():
        for d in (ALL if name == "points" else SOME):
            x = f.normal(d, shape)
            good, far = np.array(inside, np.int32), np.array(outside, np.int64)
            u = f.normal(d, g.shape(good))
            text = f"scatter_nd(x, i, u, {g.text(False)}"
            f.case(f"scatter_nd_{name}_{d}", text + ")", {"x": x, "i": good, "u": u},
                   [scatter_add(x, good, u, g, "error")], **TOLERANCE.get(d, {}))
            for oob in ("zero", "clamp") if d in ("f32", "bf16", "u64") else ():
                f.case(f"scatter_nd_{name}_{oob}_{d}", text + f", oob={oob})", {"x": x, "i": far, "u": u},
                       [scatter_add(x, far, u, g, oob)], **TOLERANCE.get(d, {}))
    text = f"scatter_nd(x, i, u, {ROWS.text(False)}"
    i = np.array([1, 0, 1], np.int32)
    last = lambda y, u: u
    for d in ALL:
        x, u = f.normal(d, (2, 4)), f.normal(d, (3, 4))
        times = (lambda y, v: y & v) if d == "bool" else (lambda y, v: (y * v).astype(y.dtype))
        # numpy's complex product need not round like ours
        f.case(f"scatter_nd_mul_{d}", text + ", combine=mul)", {"x": x, "i": i, "u": u},
               [scatter_fold(x, i, u, ROWS, "error", times)], **({"rel": 4} if d[0] == "c" else {}))
        f.case(f"scatter_nd_set_{d}", text + ", combine=set)", {"x": x, "i": i, "u": u},
               [scatter_fold(x, i, u, ROWS, "error", last)])
        if d[0] != "c":
            for word, fold in (("min", np.minimum), ("max", np.maximum)):
                f.case(f"scatter_nd_{word}_{d}", text + f", combine={word})", {"x": x, "i": i, "u": u},
                       [scatter_fold(x, i, u, ROWS, "error", fold)])
    x = np.array([[1, -0.0, np.inf, 5], [np.nan, 2, 3, 4]], np.float32)
    u = np.array([[7, 7, np.nan, 0], [np.nan, 0.0, -np.inf, 9], [1, 2, 3, 3]], np.float32)
    for word, fold in (("min", np.minimum), ("max", np.maximum), ("set", last)):
        f.case(f"scatter_nd_{word}_special", text + f", combine={word})", {"x": x, "i": i, "u": u},
               [scatter_fold(x, i, u, ROWS, "error", fold)])
    x, u = f.normal("f32", (2, 4)), f.normal("f32", (3, 4))
    later = lambda y, v: (v - (y * np.float32(0.5))).astype(np.float32)
    f.case("scatter_nd_body", text + ", combine=@later)", {"x": x, "i": i, "u": u},
           [scatter_fold(x, i, u, ROWS, "error", later)], ulp=1)
    f.case("scatter_nd_empty", text + ")", {"x": x, "i": i[:0], "u": u[:0]}, [x])
    x = np.array([2048.0], np.float16)
    f.case("scatter_nd_wide_f16", "scatter_nd(x, i, u, start_index_map=[0], collapsed_axes=[0], index_vector_axis=1)",
           {"x": x, "i": np.zeros(4, np.int32), "u": np.ones(4, np.float16)}, [np.array([2052.0], np.float16)])


with Fixtures("gather_nd") as fixtures:
    gather_cases(fixtures)
    scatter_cases(fixtures)
