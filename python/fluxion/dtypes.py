# SPDX-License-Identifier: Apache-2.0
"""Dtypes: one object for each, with the names of NumPy, and the rules by which operands of different dtypes meet."""

import sys


class DType:
    """The type of the elements of an array. Equal to its name and to NumPy's dtype of that name."""

    __slots__ = ("name", "text", "number", "itemsize", "kind", "bits")

    def __init__(self, name, text, number, itemsize, kind):
        self.name, self.text, self.number, self.itemsize, self.kind = name, text, number, itemsize, kind
        self.bits = 8 * itemsize

    def __repr__(self):
        return "fluxion." + ("bool" if self.name == "bool" else self.name)

    def __str__(self):
        return self.name

    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(other, DType):
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return NotImplemented

    def __hash__(self):
        return hash(self.name)

    def __reduce__(self):
        return (as_dtype, (self.name,))


float64 = DType("float64", "f64", 1, 8, "float")
float32 = DType("float32", "f32", 2, 4, "float")
float16 = DType("float16", "f16", 3, 2, "float")
bfloat16 = DType("bfloat16", "bf16", 4, 2, "float")
complex64 = DType("complex64", "c64", 5, 8, "complex")
complex128 = DType("complex128", "c128", 6, 16, "complex")
int64 = DType("int64", "i64", 7, 8, "signed")
int32 = DType("int32", "i32", 8, 4, "signed")
int16 = DType("int16", "i16", 9, 2, "signed")
int8 = DType("int8", "i8", 10, 1, "signed")
uint64 = DType("uint64", "u64", 11, 8, "unsigned")
uint32 = DType("uint32", "u32", 12, 4, "unsigned")
uint16 = DType("uint16", "u16", 13, 2, "unsigned")
uint8 = DType("uint8", "u8", 14, 1, "unsigned")
bool_ = DType("bool", "bool", 15, 1, "bool")

TABLE = [None, float64, float32, float16, bfloat16, complex64, complex128, int64, int32, int16, int8, uint64, uint32,
         uint16, uint8, bool_]
_BY_NAME = {d.name: d for d in TABLE[1:]} | {d.text: d for d in TABLE[1:]}
_BY_TYPE = {bool: bool_, int: int32, float: float32, complex: complex64}


def as_dtype(x):
    """The DType of a DType, a name, a Python type (float, int ...) or a dtype of NumPy or ml_dtypes."""
    if isinstance(x, DType):
        return x
    if isinstance(x, str):
        found = _BY_NAME.get(x)
    elif isinstance(x, type) and x in _BY_TYPE:
        found = _BY_TYPE[x]
    else:
        name = getattr(x, "name", None) or getattr(x, "__name__", None)
        found = _BY_NAME.get("bool" if name == "bool_" else name) if isinstance(name, str) else None
        if found is None and "numpy" in sys.modules and isinstance(x, type):
            try:
                found = _BY_NAME.get(sys.modules["numpy"].dtype(x).name)
            except TypeError:
                found = None
    if found is None:
        raise TypeError(f"{x!r} is not a dtype of fluxion")
    return found


# ---- Promotion ----

_ORDER = {"bool": 0, "unsigned": 1, "signed": 1, "float": 2, "complex": 3}
_SIGNED_ABOVE = {1: int16, 2: int32, 4: int64}


def _promote_integers(a, b):
    if a.kind == b.kind:
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a.kind == "signed" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    return _SIGNED_ABOVE.get(unsigned.itemsize, float64)


def promote(a, b):
    """The dtype that operands of two dtypes meet in. Integers take the dtype of the floats that they meet."""
    if a is b:
        return a
    low, high = (a, b) if _ORDER[a.kind] <= _ORDER[b.kind] else (b, a)
    if _ORDER[low.kind] < _ORDER[high.kind]:
        if high.kind == "complex" and low is float64:
            return complex128
        return high
    if high.kind in ("signed", "unsigned"):
        return _promote_integers(a, b)
    if a.itemsize != b.itemsize:
        return a if a.itemsize > b.itemsize else b
    return float32 if a.kind == "float" else a  # float16 and bfloat16


_NUMBER = {"bool": 0, "int": 1, "float": 2, "complex": 3}


def number_kind(x):
    """bool, int, float or complex for a number of Python, otherwise None."""
    t = type(x)
    return t.__name__ if t in _BY_TYPE else None


def promote_number(dtype, kind):
    """The dtype in which a number of Python of this kind meets an array: the array's, unless the kind is wider."""
    if _NUMBER[kind] <= _ORDER[dtype.kind]:
        return dtype
    if kind == "complex":
        return complex128 if dtype is float64 else complex64
    return float32 if kind == "float" else int32


DEFAULT = {"bool": bool_, "int": int32, "float": float32, "complex": complex64}
WIDEST = {"bool": bool_, "int": int64, "float": float64, "complex": complex128}


def weak_kind(dtype):
    """The kind of number that a weak array of this dtype is."""
    return "int" if dtype.kind in ("signed", "unsigned") else dtype.kind


def is_inexact(dtype):
    return dtype.kind in ("float", "complex")


def is_integer(dtype):
    return dtype.kind in ("signed", "unsigned")
