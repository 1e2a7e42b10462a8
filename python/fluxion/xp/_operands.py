# SPDX-License-Identifier: Apache-2.0
"""What the functions of fluxion.xp share: operands of one dtype, and their arguments."""

import builtins

from .. import dtypes
from ..arrays import Array, to_array
from ..dtypes import bool_, float32, float64
from ..tracing import TracerError, apply, cast


def _join(values):
    """The dtype in which operands meet, and whether they are all weak."""
    strong, kinds = None, []
    for v in values:
        kind = dtypes.number_kind(v)
        if kind is None and v._weak:
            kind = dtypes.weak_kind(v.dtype)
        if kind is not None:
            kinds.append(kind)
        else:
            strong = v.dtype if strong is None else dtypes.promote(strong, v.dtype)
    if strong is None:
        weak = builtins.any(isinstance(v, Array) for v in values)
        widest = builtins.max(kinds, key=("bool", "int", "float", "complex").index)
        return (dtypes.WIDEST if weak else dtypes.DEFAULT)[widest], weak
    for kind in kinds:
        strong = dtypes.promote_number(strong, kind)
    return strong, False


def _operands(*values, minimum=None):
    """The values as arrays of one dtype; `minimum` "float": integers become floats. Also whether the result is weak."""
    values = [v if isinstance(v, Array) or dtypes.number_kind(v) else to_array(v) for v in values]
    dtype, weak = _join(values)
    if minimum == "float" and not dtypes.is_inexact(dtype):
        dtype = float64 if weak else float32
    arrays = [to_array(v, dtype) if not isinstance(v, Array) else cast(v, dtype) for v in values]
    return arrays, weak


def _weaken(result, weak):
    return result._with_weak(True) if weak else result


def _truth(x):
    """x as bools: whether elements are not zero."""
    x = to_array(x)
    return x if x.dtype is bool_ else apply("ne", *_operands(x, 0)[0])


def _check_device(device):
    if device not in (None, "cpu"):
        raise ValueError(f"there is no device {device!r}")


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _axis(axis, rank):
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} is out of range for an array of {rank} axes")
    return axis % rank


def _axes(axis, rank):
    axes = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
    return [_axis(a, rank) for a in axes]


def _keep(keepdims):
    return True if keepdims else None


def _with_value(x, what):
    x = to_array(x)
    if x._graph is not None:
        raise TracerError("TRACE", f"the shape of {what} depends on values, and the function "
                          f"'{x._graph.name}' is being traced")
    return x
