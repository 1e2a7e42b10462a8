# SPDX-License-Identifier: Apache-2.0
"""The namespace of the Python array API standard (2024.12) over arrays of fluxion, inside and outside of traced
functions. fluxion.numpy has NumPy's other names. Numbers of Python adopt the dtype of the arrays that they meet."""

import math

from ..arrays import Array, from_dlpack, to_array  # noqa: F401
from ..dtypes import (as_dtype, bfloat16, bool_, complex64, complex128, float16, float32, float64, int8, int16, int32,
                     int64, uint8, uint16, uint32, uint64)  # noqa: F401
from ..tracing import apply
from ._create import *  # noqa: F401, F403
from ._folds import *  # noqa: F401, F403
from ._info import __array_namespace_info__, can_cast, finfo, iinfo, isdtype, result_type  # noqa: F401
from ._info import public_names as _public_names
from ._operands import _axis, _operands
from ._pointwise import *  # noqa: F401, F403
from ._shapes import *  # noqa: F401, F403

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
__array_api_version__ = "2024.12"
bool = bool_
e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None


# ---- Products ----

def matmul(x1, x2, /):
    """The product of matrices in the last two axes; vectors are rows on the left and columns on the right."""
    (a, b), _ = _operands(x1, x2)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul needs arrays with axes: use x1 * x2")
    left, right = a.ndim == 1, b.ndim == 1
    y = apply("matmul", expand_dims(a, axis=0) if left else a, expand_dims(b, axis=-1) if right else b)
    drop = ([y.ndim - 2] if left else []) + ([y.ndim - 1] if right else [])
    return apply("squeeze", y, axes=drop) if drop else y


def tensordot(x1, x2, /, *, axes=2):
    """Products summed over pairs of axes."""
    (a, b), _ = _operands(x1, x2)
    if isinstance(axes, int):
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        left, right = ([s] if isinstance(s, int) else list(s) for s in axes)
    return apply("dot_general", a, b, lc=[_axis(i, a.ndim) for i in left], rc=[_axis(i, b.ndim) for i in right])


def vecdot(x1, x2, /, *, axis=-1):
    """The sum over an axis of the products of conj(x1) and x2."""
    (a, b), _ = _operands(x1, x2)
    return sum(conj(a) * b, axis=axis, dtype=a.dtype)


def einsum(equation, /, *operands):
    """The product of all operands, summed over the letters that the result does not have."""
    arrays, _ = _operands(*operands)
    return apply("einsum", *arrays, eq=equation.replace(" ", ""))


def isin(x1, x2, /, *, invert=False):
    """Whether elements of x1 are among those of x2."""
    (a, b), _ = _operands(x1, x2)
    found = any(equal(expand_dims(a, axis=-1), reshape(b, (-1,))), axis=-1)  # noqa: F821
    return logical_not(found) if invert else found


from ._sets import unique_all, unique_counts, unique_inverse, unique_values  # noqa: E402, F401
from . import fft, linalg  # noqa: E402, F401

__all__ = _public_names(globals())


def __dir__():
    return [*__all__, "__array_api_version__", "__array_namespace_info__"]
