# SPDX-License-Identifier: Apache-2.0
"""Facts about dtypes and about the namespace, as the array API standard asks for them."""

from dataclasses import dataclass

from .. import dtypes
from ..arrays import Array
from ..dtypes import as_dtype


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a floating dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtypes.DType


@dataclass(frozen=True)
class IntInfo:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: dtypes.DType


_FLOATS = {"float64": (52, 1023), "float32": (23, 127), "float16": (10, 15), "bfloat16": (7, 127)}


def finfo(type, /):
    """The limits of a floating dtype, or of the parts of a complex one."""
    dtype = type.dtype if isinstance(type, Array) else as_dtype(type)
    if dtype.kind == "complex":
        dtype = dtypes.float32 if dtype is dtypes.complex64 else dtypes.float64
    if dtype.name not in _FLOATS:
        raise ValueError(f"{dtype} is not a floating dtype")
    mantissa, exponent = _FLOATS[dtype.name]
    largest = (2.0 - 2.0**-mantissa) * 2.0**exponent
    return FloatInfo(dtype.bits, 2.0**-mantissa, largest, -largest, 2.0 ** (1 - exponent), dtype)


def iinfo(type, /):
    """The limits of an integer dtype."""
    dtype = type.dtype if isinstance(type, Array) else as_dtype(type)
    if dtype.kind == "signed":
        return IntInfo(dtype.bits, 2 ** (dtype.bits - 1) - 1, -(2 ** (dtype.bits - 1)), dtype)
    if dtype.kind == "unsigned":
        return IntInfo(dtype.bits, 2**dtype.bits - 1, 0, dtype)
    raise ValueError(f"{dtype} is not an integer dtype")


_GROUPS = {"bool": ("bool",), "signed integer": ("signed",), "unsigned integer": ("unsigned",),
           "integral": ("signed", "unsigned"), "real floating": ("float",), "complex floating": ("complex",),
           "numeric": ("signed", "unsigned", "float", "complex")}


def isdtype(dtype, kind):
    """Whether a dtype is of a kind ("real floating"), is another dtype, or any of a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _GROUPS:
            raise ValueError(f"{kind!r} is not a kind of dtypes: {', '.join(_GROUPS)}")
        return as_dtype(dtype).kind in _GROUPS[kind]
    return as_dtype(dtype) is as_dtype(kind)


def result_type(*arrays_and_dtypes):
    """The dtype in which these meet."""
    found, kinds = None, []
    for x in arrays_and_dtypes:
        kind = dtypes.number_kind(x)
        if kind:
            kinds.append(kind)
            continue
        dtype = x.dtype if isinstance(x, Array) else as_dtype(x)
        found = dtype if found is None else dtypes.promote(found, dtype)
    if found is None:
        if not kinds:
            raise ValueError("result_type needs an argument")
        return dtypes.DEFAULT[max(kinds, key=("bool", "int", "float", "complex").index)]
    for kind in kinds:
        found = dtypes.promote_number(found, kind)
    return found


def can_cast(from_, to, /):
    """Whether a dtype becomes another one by promotion."""
    dtype = from_.dtype if isinstance(from_, Array) else as_dtype(from_)
    return dtypes.promote(dtype, as_dtype(to)) is as_dtype(to)


class _Info:
    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 16}

    def default_device(self):
        return "cpu"

    def default_dtypes(self, *, device=None):
        return {"real floating": dtypes.float32, "complex floating": dtypes.complex64, "integral": dtypes.int32,
                "indexing": dtypes.int32}

    def devices(self):
        return ["cpu"]

    def dtypes(self, *, device=None, kind=None):
        standard = [d for d in dtypes.TABLE[1:] if d.name not in ("float16", "bfloat16")]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}


def __array_namespace_info__():
    """Facts about the namespace."""
    return _Info()


_EXPORTED = {"Array", "ndarray", "from_dlpack", "e", "pi", "inf", "nan", "newaxis", "fft", "linalg"}


def public_names(found):
    """Of the names that a module has, those for its users: no helpers, and no modules that it only works with."""
    def is_public(name, value):
        home = getattr(value, "__module__", None) or ""
        is_own = home.startswith(("fluxion.xp", "fluxion.numpy", "fluxion.nn"))
        return name in _EXPORTED or is_own or isinstance(value, dtypes.DType)
    return sorted(n for n, v in found.items() if not n.startswith("_") and n != "public_names" and is_public(n, v))
