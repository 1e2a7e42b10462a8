# SPDX-License-Identifier: Apache-2.0
"""Sets of the elements of an array. Their shapes depend on values, so they need arrays that have some."""

from typing import NamedTuple

from .. import dtypes
from ..arrays import Array
from ._operands import _with_value


class UniqueAll(NamedTuple):
    """Each element once, where it is first, where each element is in the list, and how often it occurs."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Each element once, and how often it occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Each element once, and where each element is in the list."""

    values: Array
    inverse_indices: Array


def unique_all(x, /):
    """Each element once in ascending order, with where and how often it occurs. Every NaN is an element of its own."""
    from .. import xp
    x = _with_value(x, "unique_all()")
    flat = xp.reshape(x, (-1,))
    n = flat.shape[0]
    if n == 0:
        none = xp.zeros((0,), dtype=dtypes.int32)
        return UniqueAll(flat, none, xp.reshape(none, x.shape), none)
    if x.dtype.kind == "complex":
        by_imag = xp.argsort(xp.imag(flat))
        order = xp.take(by_imag, xp.argsort(xp.take(xp.real(flat), by_imag)))
    else:
        order = xp.argsort(flat)
    ordered = xp.take(flat, order)
    first = xp.concat([xp.asarray([True]), xp.not_equal(ordered[1:], ordered[:-1])])
    starts = xp.nonzero(first)[0]
    rank = xp.cumulative_sum(first) - 1
    inverse = xp.zeros((n,), dtype=dtypes.int32).at[order].set(rank)
    counts = xp.diff(xp.concat([starts, xp.asarray([n], dtype=dtypes.int32)]))
    return UniqueAll(xp.take(ordered, starts), xp.take(order, starts), xp.reshape(inverse, x.shape), counts)


def unique_counts(x, /):
    """Each element once, and how often it occurs."""
    values, _, _, counts = unique_all(x)
    return UniqueCounts(values, counts)


def unique_inverse(x, /):
    """Each element once, and where each element is in the list."""
    values, _, inverse, _ = unique_all(x)
    return UniqueInverse(values, inverse)


def unique_values(x, /):
    """Each element once."""
    return unique_all(x).values
