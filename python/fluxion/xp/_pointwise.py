# SPDX-License-Identifier: Apache-2.0
"""fluxion.xp: functions that are applied element by element."""

import math
from math import inf, nan

from .. import dtypes
from ..arrays import to_array
from ..dtypes import bool_, int16, int32, int64
from ..tracing import apply, cast
from ._create import full, zeros_like
from ._operands import _operands, _truth, _weaken
from ._shapes import broadcast_arrays, broadcast_shapes, broadcast_to


def _pointwise(op, name, doc, minimum=None, count=1, exact=False):
    """A function of the standard for an op. With `exact` integers and bools are returned as they are."""
    if count == 1:
        def function(x, /):
            (x,), weak = _operands(x, minimum=minimum)
            return _weaken(x if exact and not dtypes.is_inexact(x.dtype) else apply(op, x), weak)
    else:
        def function(x1, x2, /):
            arrays, weak = _operands(x1, x2, minimum=minimum)
            return _weaken(apply(op, *arrays), weak)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


# name: (op, what integers become, operands, whether integers are returned as they are)
_POINTWISE = {
    "acos": ("acos", "float", 1), "acosh": ("acosh", "float", 1), "asin": ("asin", "float", 1),
    "asinh": ("asinh", "float", 1), "atan": ("atan", "float", 1), "atanh": ("atanh", "float", 1),
    "cos": ("cos", "float", 1), "cosh": ("cosh", "float", 1), "exp": ("exp", "float", 1),
    "expm1": ("expm1", "float", 1), "log": ("log", "float", 1), "log1p": ("log1p", "float", 1),
    "reciprocal": ("reciprocal", "float", 1), "sin": ("sin", "float", 1), "sinh": ("sinh", "float", 1),
    "sqrt": ("sqrt", "float", 1), "tan": ("tan", "float", 1), "tanh": ("tanh", "float", 1),
    "rsqrt": ("rsqrt", "float", 1), "exp2": ("exp2", "float", 1), "cbrt": ("cbrt", "float", 1),
    "erf": ("erf", "float", 1), "sigmoid": ("sigmoid", "float", 1),
    "negative": ("neg", None, 1), "square": ("square", None, 1), "sign": ("sign", None, 1),
    "ceil": ("ceil", None, 1, True), "floor": ("floor", None, 1, True), "trunc": ("trunc", None, 1, True),
    "add": ("add", None, 2), "subtract": ("sub", None, 2), "multiply": ("mul", None, 2),
    "divide": ("div", "float", 2), "remainder": ("mod", None, 2), "maximum": ("max", None, 2),
    "minimum": ("min", None, 2), "atan2": ("atan2", "float", 2), "nextafter": ("nextafter", "float", 2),
}
for _name, (_op, _minimum, _count, *_exact) in _POINTWISE.items():
    globals()[_name] = _pointwise(_op, _name, f"The op {_op}, element by element.", _minimum, _count, _exact == [True])


def _comparison(op, name):
    def function(x1, x2, /):
        arrays, _ = _operands(x1, x2)
        return apply(op, *arrays)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The op {op}, element by element, as bool."
    return function


for _name, _op in {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
                   "greater_equal": "ge"}.items():
    globals()[_name] = _comparison(_op, _name)


def _bitwise(op, name, logical):
    def function(x1, x2, /):
        arrays, weak = _operands(x1, x2)
        is_bool = arrays[0].dtype is bool_
        if is_bool and logical is None:
            raise TypeError(f"{name} needs integers")
        return _weaken(apply(logical if is_bool else op, *arrays), weak)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The op {op}, element by element."
    return function


for _name, _op, _logical in (("bitwise_and", "bit_and", "and"), ("bitwise_or", "bit_or", "or"),
                             ("bitwise_xor", "bit_xor", "xor"), ("bitwise_left_shift", "shl", None)):
    globals()[_name] = _bitwise(_op, _name, _logical)


def bitwise_right_shift(x1, x2, /):
    """x1 shifted right, filled with its sign."""
    (a, b), weak = _operands(x1, x2)
    return _weaken(apply("shr_logical" if a.dtype.kind == "unsigned" else "shr_arith", a, b), weak)


def bitwise_invert(x, /):
    """All bits inverted; of a bool, not x."""
    (x,), weak = _operands(x)
    return _weaken(apply("not" if x.dtype is bool_ else "bit_not", x), weak)


def logical_and(x1, x2, /):
    """Whether both are true."""
    return apply("and", _truth(x1), _truth(x2))


def logical_or(x1, x2, /):
    """Whether at least one is true."""
    return apply("or", _truth(x1), _truth(x2))


def logical_xor(x1, x2, /):
    """Whether exactly one is true."""
    return apply("xor", _truth(x1), _truth(x2))


def logical_not(x, /):
    """Whether it is false."""
    return apply("not", _truth(x))


# ---- Pointwise functions with cases ----

def abs(x, /):
    """The absolute value; of a complex number its length."""
    (x,), weak = _operands(x)
    return _weaken(x if x.dtype.kind in ("unsigned", "bool") else apply("abs", x), weak)


def positive(x, /):
    """x itself."""
    return to_array(x)


def round(x, /):
    """The nearest integers, halves to even."""
    (x,), weak = _operands(x)
    if x.dtype.kind == "complex":
        return apply("complex", round(real(x)), round(imag(x)))
    return _weaken(apply("round", x) if x.dtype.kind == "float" else x, weak)


def pow(x1, x2, /):
    """x1 to the power of x2."""
    if type(x2) is int and x2 == 2:
        return square(x1)  # noqa: F821
    arrays, weak = _operands(x1, x2)
    return _weaken(apply("pow", *arrays), weak)


def floor_divide(x1, x2, /):
    """The largest integer that is not above x1 / x2."""
    (a, b), weak = _operands(x1, x2)
    if dtypes.is_integer(a.dtype):
        quotient = apply("div", a, b)
        if a.dtype.kind == "signed":
            rest = apply("rem", a, b)
            inexact = apply("and", not_equal(rest, 0), apply("ne", less(rest, 0), less(b, 0)))  # noqa: F821
            quotient = where(inexact, quotient - 1, quotient)
        return _weaken(quotient, weak)
    return _weaken(_floor_divide_floats(*broadcast_arrays(a, b)), weak)


def _floor_divide_floats(a, b):
    """(a - a mod b) / b, rounded to the whole number that it is; zeros and infinities as in Python and NumPy."""
    exact = apply("round", apply("div", apply("sub", a, apply("mod", a, b)), b))
    opposite = logical_and(logical_xor(less(a, 0), less(b, 0)), not_equal(a, 0))  # noqa: F821
    by_infinity = where(isnan(a), nan, where(isinf(a), nan, where(opposite, -1.0, 0.0)))
    usual = where(isinf(a), nan, exact)
    return cast(where(equal(b, 0), apply("div", a, b), where(isinf(b), by_infinity, usual)), a.dtype)  # noqa: F821


def _log_base(op, base):
    def function(x, /):
        (x,), weak = _operands(x, minimum="float")
        if x.dtype.kind == "complex":
            return apply("log", x) / math.log(base)
        return _weaken(apply(op, x), weak)
    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"The logarithm to base {base}."
    return function


log2, log10 = _log_base("log2", 2), _log_base("log10", 10)


def _add_exponentials(a, b, tail):
    """The larger of two + tail(the other - it): the derivatives are also right where they are equal."""
    is_first = greater(a, b)  # noqa: F821
    high, low = apply("where", is_first, a, b), apply("where", is_first, b, a)
    return high + tail(low - where(isinf(low), 0, high))


def logaddexp(x1, x2, /):
    """log(exp(x1) + exp(x2)) without overflow."""
    arrays, weak = _operands(x1, x2, minimum="float")
    return _weaken(_add_exponentials(*broadcast_arrays(*arrays), lambda d: apply("softplus", d)), weak)


def hypot(x1, x2, /):
    """The length of the vector (x1, x2) without overflow."""
    (a, b), weak = _operands(x1, x2, minimum="float")
    high = apply("max", abs(a), abs(b))
    usual = apply("and", apply("is_finite", high), greater(high, 0))  # noqa: F821
    scale = apply("stop_gradient", where(usual, high, 1))  # the length does not depend on it
    total = square(a / scale) + square(b / scale)  # noqa: F821
    is_zero = equal(total, 0)  # noqa: F821
    length = where(is_zero, 0, scale * sqrt(where(is_zero, 1, total)))  # noqa: F821
    return _weaken(where(logical_or(isinf(a), isinf(b)), inf, length), weak)


def signbit(x, /):
    """Whether the sign is negative, of zeros and NaN too."""
    (x,), _ = _operands(x, minimum="float")
    same_size = {2: int16, 4: int32, 8: int64}[x.dtype.itemsize]
    return less(apply("bitcast", x, to=same_size), 0)  # noqa: F821


def copysign(x1, x2, /):
    """The size of x1 with the sign of x2."""
    (a, b), weak = _operands(x1, x2, minimum="float")
    size = abs(a)
    return _weaken(where(signbit(b), -size, size), weak)


def isfinite(x, /):
    """Whether neither infinite nor NaN."""
    x = to_array(x)
    return apply("is_finite", x) if dtypes.is_inexact(x.dtype) else full(x.shape, True)


def isinf(x, /):
    """Whether infinite."""
    x = to_array(x)
    return apply("is_inf", x) if dtypes.is_inexact(x.dtype) else full(x.shape, False)


def isnan(x, /):
    """Whether NaN."""
    x = to_array(x)
    return apply("is_nan", x) if dtypes.is_inexact(x.dtype) else full(x.shape, False)


def real(x, /):
    """The real part."""
    x = to_array(x)
    return apply("real", x) if x.dtype.kind == "complex" else x


def imag(x, /):
    """The imaginary part."""
    x = to_array(x)
    return apply("imag", x) if x.dtype.kind == "complex" else zeros_like(x)


def conj(x, /):
    """The complex conjugate."""
    x = to_array(x)
    return apply("conjugate", x) if x.dtype.kind == "complex" else x


def clip(x, /, min=None, max=None):
    """x limited to a range; a bound may be None. The dtype is that of x where the bounds are numbers."""
    x = to_array(x)
    if max is not None and min is not None:
        x = maximum(x, min)  # noqa: F821
        return minimum(x, max)  # noqa: F821
    if min is not None:
        x = maximum(x, min)  # noqa: F821
    return minimum(x, max) if max is not None else x  # noqa: F821


def where(condition, x1, x2, /):
    """x1 where the condition is true, x2 elsewhere."""
    (a, b), weak = _operands(x1, x2)
    condition = _truth(condition)
    shape = broadcast_shapes(condition.shape, a.shape, b.shape)
    return _weaken(apply("where", broadcast_to(condition, shape), broadcast_to(a, shape), broadcast_to(b, shape)),
                   weak)
