# SPDX-License-Identifier: Apache-2.0
"""The namespace of the Python array API standard (2024.12) over arrays of fluxion, inside and outside of traced
functions. fluxion.numpy has NumPy's other names. Numbers of Python adopt the dtype of the arrays that they meet."""

import builtins
import math

from . import dtypes, tracing
from .arrays import Array, from_dlpack, to_array  # noqa: F401
from .dtypes import (as_dtype, bfloat16, bool_, complex64, complex128, float16, float32, float64, int8, int16, int32,
                     int64, uint8, uint16, uint32, uint64)  # noqa: F401
from .tracing import apply, apply_all, cast
from .xp_info import __array_namespace_info__, can_cast, finfo, iinfo, isdtype, result_type  # noqa: F401

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
__array_api_version__ = "2024.12"
bool = bool_
e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None


# ---- Operands ----

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


def _truth(x):
    x = to_array(x)
    return x if x.dtype is bool_ else not_equal(x, 0)  # noqa: F821


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


def logaddexp(x1, x2, /):
    """log(exp(x1) + exp(x2)) without overflow."""
    (a, b), weak = _operands(x1, x2, minimum="float")
    high = apply("max", a, b)
    sum_ = high + apply("log1p", apply("exp", -abs(a - b)))
    return _weaken(where(equal(a, b), a + math.log(2), sum_), weak)  # noqa: F821


def hypot(x1, x2, /):
    """The length of the vector (x1, x2) without overflow."""
    (a, b), weak = _operands(x1, x2, minimum="float")
    a, b = abs(a), abs(b)
    high, low = apply("max", a, b), apply("min", a, b)
    usual = apply("and", apply("is_finite", high), greater(high, 0))  # noqa: F821
    ratio = low / where(usual, high, 1)
    infinite = logical_or(isinf(a), isinf(b))
    return _weaken(where(usual, high * sqrt(1 + ratio * ratio), where(infinite, inf, high)), weak)  # noqa: F821


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


# ---- Creation ----

def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of anything; over the memory of the object where that is possible and `copy` does not forbid it."""
    _check_device(device)
    result = to_array(obj, None if dtype is None else as_dtype(dtype), builtins.bool(copy))
    return result._with_weak(False) if result._weak else result


def _check_device(device):
    if device not in (None, "cpu"):
        raise ValueError(f"there is no device {device!r}")


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


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
        dtype = float32 if any_float(start, stop, step) else int32
    dtype = as_dtype(dtype)
    count = builtins.max(0, math.ceil((stop - start) / step))
    i = apply("iota", type=(dtype, (count,)))
    if step != 1:
        i = i * to_array(step, dtype)
    return i + to_array(start, dtype) if start != 0 else i


def any_float(*values):
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


# ---- Dtypes and shapes ----

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


def _axis(axis, rank):
    if not -rank <= axis < rank:
        raise IndexError(f"axis {axis} is out of range for an array of {rank} axes")
    return axis % rank


def _axes(axis, rank):
    axes = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
    return [_axis(a, rank) for a in axes]


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
    return take(x, to_array(positions, int32), axis=axis)


def tile(x, repetitions, /):
    """Copies of x side by side."""
    x = to_array(x)
    repetitions = _shape(repetitions)
    rank = builtins.max(x.ndim, len(repetitions))
    x = reshape(x, (1,) * (rank - x.ndim) + x.shape)
    return apply("tile", x, repeats=(1,) * (rank - len(repetitions)) + repetitions) if rank else x


# ---- Reductions ----

def _keep(keepdims):
    return True if keepdims else None


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


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance over axes; the sum of squares is divided by the count less the correction."""
    (x,), _ = _operands(x, minimum="float")
    axes = _axes(axis, x.ndim)
    count = math.prod(x.shape[a] for a in axes)
    centred = x - mean(x, axis=tuple(axes), keepdims=True) if axes else x - x
    size = abs(centred)
    total = sum(size * size, axis=tuple(axes), keepdims=keepdims)
    divisor = count - correction
    return total / divisor if divisor > 0 else total * nan


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation over axes."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))  # noqa: F821


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
        x = not_equal(x[tuple(high)], x[tuple(low)]) if x.dtype is bool_ else x[tuple(high)] - x[tuple(low)]  # noqa
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
    indices = where(less(indices, 0), indices + x.shape[axis], indices)  # noqa: F821
    return apply("take_along", broadcast_to(x, x_shape), broadcast_to(indices, i_shape), axis=axis)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where x2 would be inserted into the sorted x1."""
    (a, b), _ = _operands(x1, x2)
    if sorter is not None:
        a = take(a, sorter)
    before = less if side == "left" else less_equal  # noqa: F821
    return cast(sum(before(a, expand_dims(b, axis=-1)), axis=-1), int32)


def _with_value(x, what):
    x = to_array(x)
    if x._graph is not None:
        raise tracing.TracerError("TRACE", f"the shape of {what} depends on values, and the function "
                                  f"'{x._graph.name}' is being traced")
    return x


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
        out.append(remainder(position, n) if n else position)  # noqa: F821
        position = position // n if n else position
    return tuple(out[::-1])


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


from .xp_sets import unique_all, unique_counts, unique_inverse, unique_values  # noqa: E402, F401
from . import xp_fft as fft, xp_linalg as linalg  # noqa: E402, F401
