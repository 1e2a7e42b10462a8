# SPDX-License-Identifier: Apache-2.0
"""NumPy's names: those of fluxion.xp, and others that programs use: import fluxion.numpy as np."""

from . import xp
from .xp import *  # noqa: F401, F403
from .xp import (abs, add, all, any, bitwise_invert, bool, concat, divide, expand_dims, fft, flip, linalg, max,  # noqa
                 min, permute_dims, pow, remainder, reshape, round, stack, sum)
from .arrays import Array as ndarray, to_array  # noqa: F401
from .tracing import apply, apply_all
from .xp._operands import _operands

concatenate, power, mod, true_divide, absolute, invert = concat, pow, remainder, divide, abs, bitwise_invert
amax, amin, bool_ = max, min, bool
arccos, arcsin, arctan, arctan2 = xp.acos, xp.asin, xp.atan, xp.atan2
arccosh, arcsinh, arctanh = xp.acosh, xp.asinh, xp.atanh
conjugate, cumsum, cumprod = xp.conj, xp.cumulative_sum, xp.cumulative_prod


def array(obj, dtype=None, copy=True):
    """A new array with the elements of a number, a nested list or an array of any library."""
    return xp.asarray(obj, dtype=dtype, copy=copy)


def dot(a, b):
    """The product of matrices or vectors; with a number, element by element."""
    a, b = to_array(a), to_array(b)
    if not a.ndim or not b.ndim:
        return a * b
    return a @ b if b.ndim <= 2 else xp.tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 2,)))


def transpose(x, axes=None):
    """The axes in another order, reversed unless one is given."""
    x = to_array(x)
    return permute_dims(x, tuple(range(x.ndim))[::-1] if axes is None else axes)


def swapaxes(x, a, b):
    """Two axes exchanged."""
    return to_array(x).swapaxes(a, b)


def ravel(x):
    """All elements along one axis."""
    return reshape(x, (-1,))


def outer(a, b):
    """The products of all pairs."""
    return linalg.outer(ravel(a), ravel(b))


def inner(a, b):
    """Products summed over the last axes."""
    a, b = to_array(a), to_array(b)
    return xp.tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


def split(x, parts, axis=0):
    """Consecutive parts: that many of equal extent, or cut at the given positions."""
    x = to_array(x)
    n = x.shape[axis]
    if isinstance(parts, int):
        if n % parts:
            raise ValueError(f"an axis of extent {n} cannot be split into {parts} equal parts")
        cuts = [n // parts * i for i in range(1, parts)]
    else:
        cuts = list(parts)
    bounds = [0, *cuts, n]
    return list(apply_all("split", (x,), sizes=[b - a for a, b in zip(bounds, bounds[1:])], axis=axis % x.ndim))


def hstack(arrays):
    """The arrays one after the other along axis 1, vectors along axis 0."""
    arrays = [to_array(a) for a in arrays]
    return concat(arrays, axis=0 if arrays[0].ndim == 1 else 1)


def vstack(arrays):
    """The arrays as rows."""
    return concat([a if a.ndim > 1 else reshape(a, (1, -1)) for a in map(to_array, arrays)], axis=0)


def pad(x, pad_width, mode="constant", constant_values=0):
    """x with a value around it."""
    x = to_array(x)
    if mode != "constant":
        raise ValueError(f"pad has the mode 'constant' only, got {mode!r}")
    if isinstance(pad_width, int):
        pad_width = [(pad_width, pad_width)] * x.ndim
    elif isinstance(pad_width[0], int):
        pad_width = [tuple(pad_width)] * x.ndim
    return apply("pad", x, to_array(constant_values, x.dtype), low=[p[0] for p in pad_width],
                 high=[p[1] for p in pad_width])


def atleast_1d(x):
    """x with at least one axis."""
    x = to_array(x)
    return x if x.ndim else reshape(x, (1,))


def diag(x, k=0):
    """A vector as a diagonal, or a diagonal of a matrix."""
    return apply("diag", to_array(x), k=k)


def trace(x, offset=0):
    """The sum of a diagonal."""
    return linalg.trace(x, offset=offset)


def isclose(a, b, rtol=1e-5, atol=1e-8):
    """Whether elements agree within a tolerance."""
    (a, b), _ = _operands(a, b)
    return xp.logical_or(xp.equal(a, b), xp.less_equal(abs(a - b), atol + rtol * abs(b)))


def allclose(a, b, rtol=1e-5, atol=1e-8):
    """Whether all elements agree within a tolerance."""
    return all(isclose(a, b, rtol, atol))


def average(x, axis=None, weights=None):
    """The mean, with weights where they are given."""
    if weights is None:
        return xp.mean(x, axis=axis)
    return sum(to_array(x) * weights, axis=axis) / sum(to_array(weights), axis=axis)


def clip(x, min=None, max=None):
    """The elements limited to a range."""
    return xp.clip(x, min, max)
