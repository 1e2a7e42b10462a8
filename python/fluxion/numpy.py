# SPDX-License-Identifier: Apache-2.0
"""NumPy's names: those of fluxion.xp, and others that programs use: import fluxion.numpy as np."""

import builtins
import math

from . import xp
from .xp import *  # noqa: F401, F403
from .xp import (abs, add, all, any, bitwise_invert, bool, concat, divide, expand_dims, fft, flip, linalg, max,  # noqa
                 min, permute_dims, pow, remainder, reshape, round, stack, sum)
from .arrays import Array as ndarray, to_array  # noqa: F401
from .tracing import apply, apply_all
from .xp._info import public_names as _public_names
from .xp._operands import _operands, _weaken
from .xp._pointwise import _add_exponentials

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


def _sources(mode, n, low, high):
    """For each position of a padded axis of extent n: the position whose element is there."""
    if not n and (low or high):
        raise ValueError(f"pad: an axis without elements cannot be padded in the mode {mode!r}")
    around = range(-low, n + high)
    if mode == "edge":
        return [sorted((0, i, n - 1))[1] for i in around]
    if mode == "wrap":
        return [i % n for i in around]
    period, last = (2 * n, 2 * n - 1) if mode == "symmetric" else (2 * n - 2 or 1, 2 * n - 2)
    return [i % period if i % period < n else last - i % period for i in around]


def pad(x, pad_width, mode="constant", constant_values=0):
    """x with elements around it: a value, or by mode its own: "edge", "reflect", "symmetric" or "wrap"."""
    x = to_array(x)
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise ValueError(f"pad has the modes constant, edge, reflect, symmetric and wrap, got {mode!r}")
    widths = [pad_width] if isinstance(pad_width, int) else list(pad_width)
    if isinstance(widths[0], int):
        widths = [(widths[0], widths[-1])]
    widths = [(p[0], p[-1]) for p in (widths * x.ndim if len(widths) == 1 else widths)]
    if len(widths) != x.ndim or builtins.any(v < 0 for p in widths for v in p):
        raise ValueError(f"pad: the widths {pad_width} are not those of an array of {x.ndim} axes")
    if mode == "constant":
        return apply("pad", x, to_array(constant_values, x.dtype), low=[p[0] for p in widths],
                     high=[p[1] for p in widths])
    for axis, (low, high) in enumerate(widths):
        if low or high:
            x = xp.take(x, to_array(_sources(mode, x.shape[axis], low, high), xp.int32), axis=axis)
    return x


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
    weights = to_array(weights)
    return sum(to_array(x) * weights, axis=axis) / sum(weights, axis=axis)


def clip(x, min=None, max=None):
    """The elements limited to a range."""
    return xp.clip(x, min, max)


# ---- Element by element ----


def fmod(x1, x2):
    """The rest of a division, with the sign of x1."""
    arrays, weak = _operands(x1, x2)
    return _weaken(apply("rem", *arrays), weak)


def float_power(x1, x2):
    """x1 to the power of x2, in 64 bits."""
    x1 = to_array(x1)
    return xp.astype(x1, xp.complex128 if x1.dtype.kind == "complex" else xp.float64) ** x2


def logaddexp2(x1, x2):
    """log2(2^x1 + 2^x2) without overflow."""
    arrays, weak = _operands(x1, x2, minimum="float")
    ln2 = math.log(2)
    return _weaken(_add_exponentials(*xp.broadcast_arrays(*arrays), lambda d: apply("softplus", d * ln2) / ln2), weak)


def sinc(x):
    """sin(pi x) / (pi x), 1 at 0: near 0 by the series, whose derivatives are exact there."""
    (x,), weak = _operands(x, minimum="float")
    y = x * math.pi
    is_near = abs(y) < 0.5
    square, series = y * y, 1
    for k in range(16, 0, -2):
        series = 1 - square / (k * (k + 1)) * series
    return _weaken(xp.where(is_near, series, xp.sin(y) / xp.where(is_near, 1, y)), weak)


# ---- Statistics ----


def quantile(x, q, axis=None):
    """The value that a part q of the sorted elements is below, interpolated between two; of many parts as axis 0."""
    x, q = to_array(x), to_array(q)
    x = reshape(x, (-1,)) if axis is None else xp.moveaxis(x, axis, -1)
    x = xp.sort(x, axis=-1)
    n = x.shape[-1]
    at = q.astype(x.dtype) * (n - 1)
    low = xp.astype(xp.clip(xp.floor(at), 0, n - 1), xp.int32)
    high = xp.clip(low + 1, 0, n - 1)
    part = at - low.astype(x.dtype)
    rows = [xp.take(x, reshape(i, (-1,)), axis=-1) for i in (low, high)]
    part, step = reshape(part, (-1,)), rows[1] - rows[0]
    infinite = xp.logical_and(part == 0, xp.logical_not(xp.isfinite(step)))
    found = rows[0] + xp.where(infinite, 0, step) * part
    found = xp.where(xp.any(xp.isnan(x), axis=-1, keepdims=True), xp.nan, found)
    return xp.moveaxis(found, -1, 0) if q.ndim else found[..., 0]


def percentile(x, q, axis=None):
    """quantile() of parts in hundredths."""
    return quantile(x, to_array(q) / 100.0, axis=axis)


def median(x, axis=None):
    """The element in the middle, or the mean of the two there."""
    return quantile(x, 0.5, axis=axis)


def cov(m):
    """The covariances of the rows of a matrix, one variable each."""
    m = to_array(m)
    m = m - xp.mean(m, axis=-1, keepdims=True)
    return m @ xp.conj(m).T / (m.shape[-1] - 1)


def ptp(x, axis=None):
    """The largest element minus the smallest."""
    return max(x, axis=axis) - min(x, axis=axis)


# ---- Elements that are NaN ----


def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    """Numbers in place of NaN and infinities; those of the dtype's limits unless given."""
    x = to_array(x)
    limits = xp.finfo(x.dtype)
    x = xp.where(xp.isnan(x), to_array(nan, x.dtype), x)
    x = xp.where(x == xp.inf, to_array(limits.max if posinf is None else posinf, x.dtype), x)
    return xp.where(x == -xp.inf, to_array(limits.min if neginf is None else neginf, x.dtype), x)


def nansum(x, axis=None):
    """The sum without elements that are NaN."""
    x = to_array(x)
    return sum(xp.where(xp.isnan(x), xp.zeros_like(x), x), axis=axis)


def nanmean(x, axis=None):
    """The mean without elements that are NaN."""
    x = to_array(x)
    return nansum(x, axis) / sum(xp.astype(~xp.isnan(x), x.dtype), axis=axis)


def nanmax(x, axis=None):
    """The largest element that is not NaN."""
    x = to_array(x)
    return max(xp.where(xp.isnan(x), xp.full_like(x, -xp.inf), x), axis=axis)


def nanmin(x, axis=None):
    """The smallest element that is not NaN."""
    return -nanmax(-to_array(x), axis)


# ---- Products, sequences and integrals ----


def vdot(a, b):
    """The sum of products of all elements, with the conjugate of a."""
    return sum(xp.conj(ravel(to_array(a))) * ravel(to_array(b)))


def kron(a, b):
    """The Kronecker product of two arrays of one rank."""
    a, b = to_array(a), to_array(b)
    if a.ndim != b.ndim:
        raise ValueError(f"kron takes arrays of one rank, not {a.ndim} and {b.ndim}")
    left = reshape(a, tuple(n for d in a.shape for n in (d, 1)))
    right = reshape(b, tuple(n for d in b.shape for n in (1, d)))
    return reshape(left * right, tuple(m * n for m, n in zip(a.shape, b.shape)))


def logspace(start, stop, num=50, base=10.0):
    """Powers of the base with evenly spaced exponents."""
    return base ** xp.linspace(start, stop, num)


def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral by trapezoids, over positions x or steps dx."""
    y = xp.moveaxis(to_array(y), axis, -1)
    step = dx if x is None else xp.moveaxis(to_array(x), -1 if to_array(x).ndim == 1 else axis, -1)
    step = step if x is None else step[..., 1:] - step[..., :-1]
    return sum((y[..., 1:] + y[..., :-1]) * step / 2, axis=-1)


def interp(x, points, values):
    """Linear interpolation between points in rising order; outside of them the first or last value."""
    x, points, values = to_array(x), to_array(points), to_array(values)
    flat = xp.clip(ravel(x), points[0], points[-1])
    high = xp.clip(xp.searchsorted(points, flat, side="right"), 1, points.shape[0] - 1)
    x0, x1, y0, y1 = (xp.take(a, i) for a in (points, values) for i in (high - 1, high))
    width = x1 - x0
    part = xp.where(width == 0, 1, (flat - x0) / xp.where(width == 0, 1, width))
    return reshape(y0 + (y1 - y0) * part, x.shape)


def array_equal(a, b):
    """Whether two arrays have one shape and equal elements."""
    a, b = to_array(a), to_array(b)
    return all(xp.equal(a, b)) if a.shape == b.shape else to_array(False)


cross, diagonal, around, rint = linalg.cross, linalg.diagonal, round, round


def degrees(x):
    """Angles in radians as degrees."""
    return to_array(x) * (180.0 / xp.pi)


def radians(x):
    """Angles in degrees as radians."""
    return to_array(x) * (xp.pi / 180.0)


rad2deg, deg2rad = degrees, radians


__all__ = _public_names(globals())


def __dir__():
    return __all__
