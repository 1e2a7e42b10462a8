# SPDX-License-Identifier: Apache-2.0
"""fluxion.xp: new arrays."""

import builtins
import math

from .. import dtypes, tracing
from ..arrays import Array, to_array
from ..dtypes import as_dtype, complex64, float32, float64, int32
from ..tracing import apply, apply_all, cast
from ._operands import _check_device, _shape
from ._shapes import astype, broadcast_to, reshape


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of anything; over the memory of the object where that is possible and `copy` does not forbid it."""
    _check_device(device)
    result = to_array(obj, None if dtype is None else as_dtype(dtype), builtins.bool(copy))
    return result._with_weak(False) if result._weak else result


def full(shape, fill_value, *, dtype=None, device=None):
    """One value everywhere."""
    _check_device(device)
    if isinstance(fill_value, Array):
        return broadcast_to(fill_value if dtype is None else astype(fill_value, dtype), _shape(shape))
    dtype = to_array(fill_value).dtype if dtype is None else as_dtype(dtype)
    value, trace = to_array(fill_value, dtype), tracing.current()
    return broadcast_to(value if trace is None else trace.lift(value), _shape(shape))


def zeros(shape, *, dtype=None, device=None):
    """Zeros."""
    return full(shape, 0, dtype=dtype or float32, device=device)


def ones(shape, *, dtype=None, device=None):
    """Ones."""
    return full(shape, 1, dtype=dtype or float32, device=device)


def empty(shape, *, dtype=None, device=None):
    """Zeros: no array has undefined elements."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """One value everywhere, in the shape of x."""
    x = to_array(x)
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros in the shape of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones in the shape of x."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """Zeros in the shape of x."""
    return zeros_like(x, dtype=dtype, device=device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step ... up to but not including stop."""
    _check_device(device)
    if stop is None:
        start, stop = 0, start
    start, stop, step = (v.item() if isinstance(v, Array) else v for v in (start, stop, step))
    if dtype is None:
        dtype = float32 if _any_float(start, stop, step) else int32
    dtype = as_dtype(dtype)
    count = builtins.max(0, math.ceil((stop - start) / step))
    i = apply("iota", type=(dtype, (count,)))
    if step != 1:
        i = i * to_array(step, dtype)
    return i + to_array(start, dtype) if start != 0 else i


def _any_float(*values):
    """Whether a number of Python is a float."""
    return builtins.any(isinstance(v, float) for v in values)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num numbers from start to stop at equal distances."""
    _check_device(device)
    if dtype is None:
        dtype = complex64 if isinstance(start, complex) or isinstance(stop, complex) else float32
    dtype = as_dtype(dtype)
    parts = num - 1 if endpoint else num
    work = dtype if dtypes.is_inexact(dtype) else float64
    i = apply("iota", type=(work, (num,)))
    if parts <= 0:
        return cast(i * 0 + to_array(start, work), dtype)
    t = i / parts
    y = to_array(start, work) * (1 - t) + to_array(stop, work) * t
    return cast(y, dtype)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """A matrix with ones on a diagonal."""
    _check_device(device)
    return apply("eye", n=n_rows, m=n_rows if n_cols is None else n_cols, k=k, dtype=as_dtype(dtype or float32))


def meshgrid(*arrays, indexing="xy"):
    """The vectors broadcast over the grid of all."""
    if not arrays:
        return []
    arrays = [asarray(a) for a in arrays]
    if len(arrays) == 1:
        return [reshape(arrays[0], (-1,))]
    return list(apply_all("meshgrid", tuple(reshape(a, (-1,)) for a in arrays), indexing=indexing))


def tril(x, /, *, k=0):
    """x below and on a diagonal, 0 elsewhere."""
    return apply("tril", to_array(x), k=k)


def triu(x, /, *, k=0):
    """x above and on a diagonal, 0 elsewhere."""
    return apply("triu", to_array(x), k=k)
