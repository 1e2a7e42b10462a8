# SPDX-License-Identifier: Apache-2.0
"""fluxion.xp: along axes: sums, extremes, running sums, order, and elements at positions."""

import math
from math import nan

from .. import dtypes
from ..arrays import to_array
from ..dtypes import bool_, int32, uint32
from ..tracing import apply, cast
from ._create import full, zeros
from ._operands import _axes, _axis, _keep, _operands, _truth, _with_value
from ._pointwise import less, less_equal, logical_not, not_equal, remainder, sqrt, where
from ._shapes import astype, broadcast_shapes, broadcast_to, concat, expand_dims, reshape


# ---- Reductions ----

def _total(x, dtype):
    """x as sums and products need it: small integers and bools become the default integer."""
    x = to_array(x)
    if dtype is not None:
        return astype(x, dtype)
    if x.dtype is bool_ or dtypes.is_integer(x.dtype) and x.dtype.itemsize < 4:
        return cast(x, uint32 if x.dtype.kind == "unsigned" else int32)
    return x


def _fold(op, x, axis, keepdims):
    return apply(op, x, axes=_axes(axis, x.ndim), keep_dims=_keep(keepdims)) if x.ndim else x


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum over axes."""
    return _fold("reduce_sum", _total(x, dtype), axis, keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product over axes."""
    return _fold("reduce_prod", _total(x, dtype), axis, keepdims)


def max(x, /, *, axis=None, keepdims=False):
    """The largest over axes."""
    return _fold("reduce_max", to_array(x), axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """The smallest over axes."""
    return _fold("reduce_min", to_array(x), axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    """The mean over axes."""
    (x,), _ = _operands(x, minimum="float")
    return _fold("reduce_mean", x, axis, keepdims)


def _squared_size(x):
    """|x|^2 without the corner that |x| has at zero."""
    return apply("complex_norm_sq", x) if x.dtype.kind == "complex" else apply("square", x)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance over axes; the sum of squares is divided by the count less the correction."""
    (x,), _ = _operands(x, minimum="float")
    axes = _axes(axis, x.ndim)
    count = math.prod(x.shape[a] for a in axes)
    centred = x - mean(x, axis=tuple(axes), keepdims=True) if axes else x - x
    total = sum(_squared_size(centred), axis=tuple(axes), keepdims=keepdims)
    divisor = count - correction
    return total / divisor if divisor > 0 else total * nan


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation over axes."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def any(x, /, *, axis=None, keepdims=False):
    """Whether any element over axes is true."""
    return _fold("reduce_any", _truth(x), axis, keepdims)


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements over axes are true."""
    return _fold("reduce_all", _truth(x), axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not zero."""
    return sum(_truth(x), axis=axis, keepdims=keepdims)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """The running sum along an axis."""
    return _cumulate("cumsum", 0, _total(x, dtype), axis, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """The running product along an axis."""
    return _cumulate("cumprod", 1, _total(x, dtype), axis, include_initial)


def _cumulate(op, initial, x, axis, include_initial):
    if axis is None:
        if x.ndim > 1:
            raise ValueError("an axis must be given for an array of more than one axis")
        x, axis = reshape(x, (-1,)), 0
    axis = _axis(axis, x.ndim)
    y = apply(op, x, axis=axis)
    if include_initial:
        shape = [*x.shape]
        shape[axis] = 1
        y = concat([full(shape, initial, dtype=x.dtype), y], axis=axis)
    return y


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours, n times."""
    x = to_array(x)
    axis = _axis(axis, x.ndim)
    parts = [p for p in (prepend, x, append) if p is not None]
    x = concat(parts, axis=axis) if len(parts) > 1 else x
    for _ in range(n):
        low = [slice(None)] * x.ndim
        high = [slice(None)] * x.ndim
        low[axis], high[axis] = slice(None, -1), slice(1, None)
        x = not_equal(x[tuple(high)], x[tuple(low)]) if x.dtype is bool_ else x[tuple(high)] - x[tuple(low)]
    return x


# ---- Searching and sorting ----

def _arg(op, x, axis, keepdims):
    x = to_array(x)
    if axis is None:
        y = apply(op, reshape(x, (-1,)), axis=0)
        return reshape(y, (1,) * x.ndim) if keepdims else y
    return apply(op, x, axis=_axis(axis, x.ndim), keep_dims=_keep(keepdims))


def argmax(x, /, *, axis=None, keepdims=False):
    """The position of the largest."""
    return _arg("argmax", x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """The position of the smallest."""
    return _arg("argmin", x, axis, keepdims)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements in order along an axis."""
    x = to_array(x)
    return apply("sort", x, axis=_axis(axis, x.ndim), descending=descending, stable=stable)


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The positions that sort along an axis."""
    x = to_array(x)
    return apply("argsort", x, axis=_axis(axis, x.ndim), descending=descending, stable=stable)


def take(x, indices, /, *, axis=None):
    """The elements at positions along an axis."""
    x = to_array(x)
    if axis is None:
        if x.ndim != 1:
            raise ValueError("an axis must be given for an array of more than one axis")
        axis = 0
    axis = _axis(axis, x.ndim)
    return x[(slice(None),) * axis + (to_array(indices),)]


def take_along_axis(x, indices, /, *, axis=-1):
    """The elements at positions that are given for each line along an axis."""
    x, indices = to_array(x), to_array(indices)
    axis = _axis(axis, x.ndim)
    shape = list(broadcast_shapes(x.shape[:axis] + (1,) + x.shape[axis + 1:],
                                  indices.shape[:axis] + (1,) + indices.shape[axis + 1:]))
    x_shape, i_shape = [*shape], [*shape]
    x_shape[axis], i_shape[axis] = x.shape[axis], indices.shape[axis]
    indices = where(less(indices, 0), indices + x.shape[axis], indices)
    return apply("take_along", broadcast_to(x, x_shape), broadcast_to(indices, i_shape), axis=axis)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where x2 would be inserted into the sorted x1."""
    (a, b), _ = _operands(x1, x2)
    if sorter is not None:
        a = take(a, sorter)
    before = less if side == "left" else less_equal
    return cast(sum(before(a, expand_dims(b, axis=-1)), axis=-1), int32)


def nonzero(x, /):
    """The positions of the elements that are not zero, for each axis."""
    x = _with_value(x, "nonzero()")
    if not x.ndim:
        raise ValueError("nonzero needs at least one axis")
    flat = reshape(_truth(x), (-1,))
    count = int(sum(flat)) if x.size else 0
    position = argsort(logical_not(flat))[:count] if x.size else zeros((0,), dtype=int32)
    out = []
    for n in x.shape[::-1]:
        out.append(remainder(position, n) if n else position)
        position = position // n if n else position
    return tuple(out[::-1])
