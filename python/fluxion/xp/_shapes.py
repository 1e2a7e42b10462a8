# SPDX-License-Identifier: Apache-2.0
"""fluxion.xp: the same elements in another dtype, shape or order."""

import builtins
import math

from ..arrays import to_array
from ..dtypes import as_dtype, bool_, int32
from ..tracing import apply, apply_all, cast
from ._operands import _axes, _axis, _check_device, _operands, _shape, _truth


def astype(x, dtype, /, *, copy=True, device=None):
    """x in another dtype."""
    _check_device(device)
    x, dtype = to_array(x), as_dtype(dtype)
    if x.dtype.kind == "complex" and dtype.kind not in ("complex", "bool"):
        raise TypeError(f"{x.dtype} cannot become {dtype}: use real(x) or abs(x)")
    if dtype is bool_:
        return _truth(x)
    return cast(x, dtype)


def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes have together."""
    out = []
    for k in range(1, builtins.max(map(len, shapes), default=0) + 1):
        extents = [s[-k] for s in shapes if len(s) >= k]
        wide = [n for n in extents if not (isinstance(n, int) and n == 1)]
        if builtins.any(n != wide[0] for n in wide):
            raise ValueError(f"shapes do not broadcast: {', '.join(str(tuple(s)) for s in shapes)}")
        out.append(wide[0] if wide else 1)
    return tuple(out[::-1])


def broadcast_to(x, /, shape):
    """x repeated to a shape."""
    x, shape = to_array(x), _shape(shape)
    return x if x.shape == shape else apply("expand", x, shape=shape)


def broadcast_arrays(*arrays):
    """The arrays in their common shape."""
    arrays = [to_array(a) for a in arrays]
    shape = broadcast_shapes(*(a.shape for a in arrays))
    return tuple(broadcast_to(a, shape) for a in arrays)


def reshape(x, /, shape, *, copy=None):
    """The elements in another shape; one extent may be -1."""
    x, shape = to_array(x), _shape(shape)
    if -1 in shape and builtins.all(isinstance(n, int) for n in (*x.shape, *shape)):
        known = math.prod(n for n in shape if n != -1)
        if shape.count(-1) > 1 or known == 0 and x.size or known and x.size % known:
            raise ValueError(f"an array of shape {x.shape} does not fit into {shape}")
        shape = tuple((x.size // known if known else 0) if n == -1 else n for n in shape)
    return x if x.shape == shape else apply("reshape", x, shape=shape)


def permute_dims(x, /, axes):
    """The axes in another order."""
    x = to_array(x)
    axes = [a % x.ndim if x.ndim else a for a in axes]
    if sorted(axes) != list(range(x.ndim)):
        raise ValueError(f"axes {axes} are not an order of {x.ndim} axes")
    return x if axes == sorted(axes) else apply("transpose", x, perm=axes)


def matrix_transpose(x, /):
    """The last two axes exchanged."""
    x = to_array(x)
    if x.ndim < 2:
        raise ValueError("matrix_transpose needs at least two axes")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def moveaxis(x, source, destination, /):
    """Axes moved to other positions."""
    x = to_array(x)
    source = [_axis(a, x.ndim) for a in _shape(source)]
    destination = [_axis(a, x.ndim) for a in _shape(destination)]
    order = [a for a in range(x.ndim) if a not in source]
    for d, s in sorted(zip(destination, source)):
        order.insert(d, s)
    return permute_dims(x, order)


def expand_dims(x, /, axis=0):
    """An axis of extent 1 inserted."""
    x = to_array(x)
    axes = (axis,) if isinstance(axis, int) else axis
    return apply("unsqueeze", x, axes=[_axis(a, x.ndim + len(axes)) for a in axes])


def squeeze(x, /, axis):
    """Without axes of extent 1."""
    x = to_array(x)
    axes = _axes(axis, x.ndim)
    if builtins.any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"squeeze of axis {axis} of an array of shape {x.shape}: its extent is not 1")
    return apply("squeeze", x, axes=axes) if axes else x


def concat(arrays, /, *, axis=0):
    """The arrays one after the other."""
    arrays, weak = _operands(*arrays)
    if axis is None:
        arrays, axis = [reshape(a, (-1,)) for a in arrays], 0
    return apply("concat", *arrays, axis=_axis(axis, arrays[0].ndim))


def stack(arrays, /, *, axis=0):
    """The arrays along a new axis."""
    arrays, _ = _operands(*arrays)
    return apply("stack", *arrays, axis=_axis(axis, arrays[0].ndim + 1))


def unstack(x, /, *, axis=0):
    """The slices along an axis."""
    x = to_array(x)
    axis = _axis(axis, x.ndim)
    return tuple(apply_all("unstack", (x,), axis=axis)) if x.shape[axis] else ()


def flip(x, /, *, axis=None):
    """The order reversed along axes."""
    x = to_array(x)
    return apply("reverse", x, axes=_axes(axis, x.ndim)) if x.ndim else x


def roll(x, /, shift, *, axis=None):
    """The elements moved along axes, the last ones to the front."""
    x = to_array(x)
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    axes = _axes(axis, x.ndim)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else shift
    for s, a in zip(shifts, axes):
        if x.shape[a]:
            x = apply("roll", x, shift=s % x.shape[a], axis=a)
    return x


def repeat(x, repeats, /, *, axis=None):
    """Each element a number of times in a row."""
    x = to_array(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = _axis(axis, x.ndim)
    if isinstance(repeats, int):
        return apply("repeat", x, repeats=repeats, axis=axis)
    counts = broadcast_to(to_array(repeats), (x.shape[axis],)).tolist()
    positions = [i for i, n in enumerate(counts) for _ in range(n)]
    return x[(slice(None),) * axis + (to_array(positions, int32),)]


def tile(x, repetitions, /):
    """Copies of x side by side."""
    x = to_array(x)
    repetitions = _shape(repetitions)
    rank = builtins.max(x.ndim, len(repetitions))
    x = reshape(x, (1,) * (rank - x.ndim) + x.shape)
    return apply("tile", x, repeats=(1,) * (rank - len(repetitions)) + repetitions) if rank else x
