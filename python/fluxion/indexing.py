# SPDX-License-Identifier: Apache-2.0
"""Indexing in the manner of NumPy: slices, integers, None, ..., arrays of integers and masks; and updates at an index.

Slices and integers become ops on shapes. Arrays of integers become one gather: the indexed axes are brought together,
and their indices combined. An index out of range fails when it runs. A mask decides the shape of the result, so it
needs a value; a traced function uses where() instead. An update finds the positions by indexing the numbers of all
elements, and scatters to them, so that everything that can be read can be updated."""

import math

from . import dtypes, tracing
from .tracing import apply


def _xp():
    from . import xp
    return xp


def _normal(x, index):
    """The index as a list with one entry for each axis and None for new ones; masks become integers."""
    items = list(index) if isinstance(index, tuple) else [index]
    out = []
    for i in items:
        if isinstance(i, (int, slice)) and not isinstance(i, bool) or i is None or i is Ellipsis:
            out.append(i)
            continue
        a = tracing.to_array(i)
        if a.dtype is dtypes.bool_:
            out += _mask_positions(a)
        elif a.dtype.kind not in ("signed", "unsigned"):
            raise IndexError(f"arrays of {a.dtype} are no indices: use integers or bools")
        else:
            out.append(a)
    used = sum(i is not None and i is not Ellipsis for i in out)
    if sum(i is Ellipsis for i in out) > 1:
        raise IndexError("an index can only have a single ellipsis")
    if used > x.ndim:
        raise IndexError(f"too many indices: the array has {x.ndim} axes, but {used} were indexed")
    at = next((k for k, i in enumerate(out) if i is Ellipsis), len(out))
    return out[:at] + [slice(None)] * (x.ndim - used) + out[at + 1:]


def _mask_positions(mask):
    if mask._graph is not None:
        raise tracing.TracerError("TRACE", "the shape of x[mask] depends on the values of the mask, and the function "
                                  f"'{mask._graph.name}' is being traced", "", "use where(mask, x, 0)")
    return list(_xp().nonzero(mask))


def _wrap(i, n):
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for an axis of extent {n}")
    return i + n if i < 0 else i


def get(x, index):
    """x[index]"""
    items = _normal(x, index)
    arrays = [i for i in items if not isinstance(i, (int, slice, type(None)))]
    if arrays:  # beside arrays, an integer is an array too
        items = [tracing.to_array(i) if isinstance(i, int) else i for i in items]
    x, items = _slice_axes(x, items)
    return _gather(x, items) if arrays else _reshape_axes(x, items)


def _slice_axes(x, items):
    """Applies slices and integers; what remains for each axis is a full slice, None, 0 for an integer, or an array."""
    start, limit, stride, flipped, rest, axis = [], [], [], [], [], 0
    for i in items:
        if i is None:
            rest.append(None)
            continue
        n = x.shape[axis]
        if isinstance(i, int):
            i = _wrap(i, n)
            bounds = (i, i + 1, 1)
            rest.append(0)
        elif isinstance(i, slice):
            if i == slice(None):
                bounds = (0, n, 1)
            else:
                bounds = _bounds(i, n)
                if bounds[3]:
                    flipped.append(axis)
                bounds = bounds[:3]
            rest.append(slice(None))
        else:
            bounds = (0, n, 1)
            rest.append(i)
        start.append(bounds[0])
        limit.append(bounds[1])
        stride.append(bounds[2])
        axis += 1
    if any(s != 0 or t != 1 or e is not n and e != n for s, e, t, n in zip(start, limit, stride, x.shape)):
        x = apply("slice", x, start=start, limit=limit, stride=stride)
    if flipped:
        x = apply("reverse", x, axes=flipped)
    return x, rest


def _bounds(s, n):
    """(start, limit, stride, whether reversed) of a slice of an axis of extent n."""
    first, stop, step = s.indices(n)
    count = len(range(first, stop, step))
    if count == 0:
        return 0, 0, 1, False
    if step > 0:
        return first, first + (count - 1) * step + 1, step, False
    last = first + (count - 1) * step
    return last, first + 1, -step, True


def _reshape_axes(x, items):
    drop, shape, axis, changed = [], [], 0, False
    for i in items:
        if i is None:
            shape.append(1)
            changed = True
        else:
            if isinstance(i, int):
                drop.append(axis)
                changed = True
            else:
                shape.append(x.shape[axis])
            axis += 1
    return apply("reshape", x, shape=shape) if changed else x


def _gather(x, items):
    """x with arrays for some axes. The result has the axes of the arrays where those were, if they were neighbours,
    otherwise first, as in NumPy."""
    xp = _xp()
    places = [k for k, i in enumerate(items) if i is not None and not isinstance(i, slice)]
    together = places == list(range(places[0], places[-1] + 1))
    axes, plain, new_axes, axis, arrays = [], [], [], 0, []
    before = 0  # plain axes of the result before the arrays
    for k, i in enumerate(items):
        if i is None:
            new_axes.append((k, len(plain)))
            if k < places[0]:
                before += 1
            plain.append(None)
            continue
        if isinstance(i, slice):
            plain.append(axis)
            if k < places[0]:
                before += 1
        else:
            axes.append(axis)
            arrays.append(i)
        axis += 1
    arrays = xp.broadcast_arrays(*arrays)
    position, extent = None, 1
    for a, array in zip(axes, arrays):
        n = x.shape[a]
        array = tracing.cast(array, dtypes.int64 if n > 2**31 - 1 else dtypes.int32)
        array = xp.where(array < 0, array + n, array)
        if len(axes) > 1:  # combined indices hide one that is out of range, so it is moved out of range altogether
            bad = xp.logical_or(array < 0, array >= n)
            array = xp.where(bad, -(2**30), array)
        position = array if position is None else position * n + array
        extent *= n
    kept = [p for p in plain if p is not None]
    if axes != list(range(len(axes))):
        x = apply("transpose", x, perm=axes + kept)
    if len(axes) > 1:
        x = apply("reshape", x, shape=[extent, *x.shape[len(axes):]])
    y = apply("gather", x, position, axis=0)
    rank = position.ndim
    order = list(range(rank, rank + len(kept)))
    at = sum(p is not None for p in plain[:before]) if together else 0
    perm = order[:at] + list(range(rank)) + order[at:]
    if perm != list(range(y.ndim)):
        y = apply("transpose", y, perm=perm)
    if new_axes:
        shape = [1 if p is None else y.shape[_axis_of(p, kept, at, rank)] for p in plain]
        insert = before if together else 0
        shape[insert:insert] = list(position.shape)
        y = apply("reshape", y, shape=shape)
    return y


def _axis_of(p, kept, at, rank):
    k = kept.index(p)
    return k if k < at else k + rank


# ---- Updates ----

class At:
    """x.at; x.at[index] has the updates."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    def __getitem__(self, index):
        return AtIndex(self.array, index)


class AtIndex:
    """x.at[index]: arrays that differ from x at the index. Where an index is repeated, updates are made in order."""

    __slots__ = ("array", "index")

    def __init__(self, array, index):
        self.array, self.index = array, index

    def get(self):
        """x[index]"""
        return self.array[self.index]

    def set(self, values):
        """x with these values at the index."""
        return self._update(values, "set")

    def add(self, values):
        """x with the values added at the index."""
        return self._update(values, "add")

    def multiply(self, values):
        """x with its elements at the index multiplied."""
        return self._update(values, "mul")

    mul = multiply

    def subtract(self, values):
        """x with the values subtracted at the index."""
        return self._update(-tracing.to_array(values), "add")

    def divide(self, values):
        """x with its elements at the index divided."""
        return self._update(1 / tracing.to_array(values), "mul")

    def min(self, values):
        """x with the smaller of its elements and the values at the index."""
        return self._update(values, "min")

    def max(self, values):
        """x with the larger of its elements and the values at the index."""
        return self._update(values, "max")

    def apply(self, function):
        """x with function(x[index]) at the index."""
        return self.set(function(self.get()))

    def _update(self, values, combine):
        xp, x = _xp(), self.array
        numbers = xp.reshape(xp.arange(math.prod(x.shape), dtype=dtypes.int32), x.shape)
        positions = numbers[self.index]
        values = xp.broadcast_to(tracing.cast(tracing.to_array(values), x.dtype), positions.shape)
        y = apply("scatter_nd", xp.reshape(x, (-1,)), xp.reshape(positions, (-1, 1)), xp.reshape(values, (-1,)),
                  start_index_map=[0], collapsed_axes=[0], combine=combine)
        return xp.reshape(y, x.shape)
