# SPDX-License-Identifier: Apache-2.0
"""Arrays: the class with its operators, and the ways in and out: numbers and lists, buffers, NumPy, DLPack."""

import math
import sys

from . import _core, dtypes, tracing
from .errors import TracerError

_lazy = {}


def _xp():
    """The namespace with the functions that operators call, loaded with the first of them."""
    if "xp" not in _lazy:
        from . import xp
        _lazy["xp"] = xp
    return _lazy["xp"]


def _traced_hint(what):
    """What a function under a transform does instead of asking for a value."""
    if what == "bool()":
        return "use fluxion.cond, fluxion.where or fluxion.while_loop, or a static argument"
    return "keep it an array of one element, return it, or make it a static argument"


def _binary(name, flip=False):
    def method(self, other):
        if not isinstance(other, Array) and dtypes.number_kind(other) is None and not _is_arraylike(other):
            return NotImplemented
        function = getattr(_xp(), name)
        return function(other, self) if flip else function(self, other)
    return method


def _unary(name):
    def method(self):
        return getattr(_xp(), name)(self)
    return method


def _is_arraylike(x):
    return hasattr(x, "__array__") or hasattr(x, "__dlpack__")


class Array(_core.ArrayBase):
    """An array: elements of one dtype, with a value, or a value of a function that is being traced.

    Arrays never change. `x.at[i].set(v)` gives an array that differs in some elements."""

    __slots__ = ()
    __array_priority__ = 1000

    # ---- Facts ----

    @property
    def size(self):
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self):
        """The number of bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self):
        """The number of bytes of an element."""
        return self.dtype.itemsize

    @property
    def device(self):
        """The device that has the memory: the host."""
        return "cpu"

    @property
    def weak_type(self):
        """Whether the value comes from numbers of Python, which adopt the dtype of other operands."""
        return self._weak

    def to_device(self, device, /, *, stream=None):
        """The same array: there is one device."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"there is no device {device!r}: arrays are in the memory of the host")
        return self

    def __array_namespace__(self, *, api_version=None):
        xp = _xp()
        if api_version is not None and api_version not in xp.API_VERSIONS:
            raise ValueError(f"API version {api_version!r} is not supported")
        return xp

    def __len__(self):
        if not self.ndim:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __iter__(self):
        if not self.ndim:
            raise TypeError("an array without axes cannot be iterated")
        return (self[i] for i in range(self.shape[0]))

    # ---- Values ----

    def _need_value(self, what):
        if self._graph is not None:
            raise TracerError("TRACE", f"{what} of {tracing.describe(self)} needs its value, but the function "
                              f"'{self._graph.name}' is being traced", "", _traced_hint(what))

    def _value(self, what):
        self._need_value(what)
        if self.size != 1:
            raise TypeError(f"{what} of an array of {self.size} elements: only arrays of one element are numbers")
        return self._element(0)

    def item(self, *index):
        """The only element, or that at an index, as a number of Python."""
        return self[index]._value("item()") if index else self._value("item()")

    def tolist(self):
        """The elements as nested lists."""
        self._need_value("tolist()")
        return super().tolist()

    def __bool__(self):
        return bool(self._value("bool()"))

    def __float__(self):
        return float(self._value("float()"))

    def __int__(self):
        return int(self._value("int()"))

    def __complex__(self):
        return complex(self._value("complex()"))

    def __index__(self):
        if self.dtype.kind not in ("signed", "unsigned"):
            raise TypeError("only an array of integers is an index")
        return self._value("index()")

    def __array__(self, dtype=None, copy=None):
        numpy = _numpy()
        if self._graph is not None:
            raise TracerError("TRACE", f"NumPy needs the value of {tracing.describe(self)}, but the function "
                              f"'{self._graph.name}' is being traced", "", "use the functions of fluxion.xp")
        if self.dtype is dtypes.bfloat16:
            x = numpy.asarray(memoryview(self._retag(dtypes.uint16))).view(_ml_dtypes().bfloat16)
        else:
            x = numpy.asarray(memoryview(self))
        if dtype is not None and x.dtype != dtype:
            return x.astype(dtype)
        return x.copy() if copy else x

    def numpy(self):
        """A NumPy array over the same memory, read-only."""
        return self.__array__()

    def __repr__(self):
        if self._graph is not None:
            return f"Traced({tracing.describe(self)})"
        return _format(self)

    def __format__(self, spec):
        return format(self._value("format()"), spec) if spec else str(self)

    def __reduce__(self):
        if self._graph is not None:
            raise TracerError("TRACE", "an array of a traced function cannot be pickled")
        raw = self if self.dtype is not dtypes.bfloat16 else self._retag(dtypes.uint16)
        return (_from_bytes, (self.dtype, self.shape, memoryview(raw).tobytes()))

    def __hash__(self):
        raise TypeError("arrays have no hash: a static argument must be a value such as a tuple")

    def block_until_ready(self):
        """The array itself: runs end before they return."""
        return self

    # ---- Operators ----

    __add__, __radd__ = _binary("add"), _binary("add", True)
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", True)
    __mul__, __rmul__ = _binary("multiply"), _binary("multiply", True)
    __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", True)
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _binary("floor_divide", True)
    __mod__, __rmod__ = _binary("remainder"), _binary("remainder", True)
    __pow__, __rpow__ = _binary("pow"), _binary("pow", True)
    __matmul__, __rmatmul__ = _binary("matmul"), _binary("matmul", True)
    __and__, __rand__ = _binary("bitwise_and"), _binary("bitwise_and", True)
    __or__, __ror__ = _binary("bitwise_or"), _binary("bitwise_or", True)
    __xor__, __rxor__ = _binary("bitwise_xor"), _binary("bitwise_xor", True)
    __lshift__, __rlshift__ = _binary("bitwise_left_shift"), _binary("bitwise_left_shift", True)
    __rshift__, __rrshift__ = _binary("bitwise_right_shift"), _binary("bitwise_right_shift", True)
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __neg__, __pos__, __abs__ = _unary("negative"), _unary("positive"), _unary("abs")
    __invert__ = _unary("bitwise_invert")

    def __divmod__(self, other):
        return self // other, self % other

    def __round__(self, ndigits=None):
        return _xp().round(self)

    # ---- Indexing ----

    def __getitem__(self, index):
        from . import indexing
        return indexing.get(self, index)

    def __setitem__(self, index, value):
        raise TypeError("arrays do not change: use x = x.at[index].set(value)")

    @property
    def at(self):
        """x.at[index].set(v), .add(v), .multiply(v), .min(v), .max(v): arrays that differ at the index."""
        from . import indexing
        return indexing.At(self)

    # ---- Methods in the manner of NumPy ----

    @property
    def T(self):
        """The array with its axes reversed."""
        return _xp().permute_dims(self, tuple(range(self.ndim))[::-1])

    @property
    def mT(self):
        """The array with its last two axes exchanged."""
        return _xp().matrix_transpose(self)

    @property
    def real(self):
        """The real part."""
        return _xp().real(self)

    @property
    def imag(self):
        """The imaginary part."""
        return _xp().imag(self)

    def astype(self, dtype, /, *, copy=True):
        """The array in another dtype."""
        return _xp().astype(self, dtype, copy=copy)

    def reshape(self, *shape):
        """The elements in another shape; one extent may be -1."""
        return _xp().reshape(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def transpose(self, *axes):
        """The axes in another order, reversed unless one is given."""
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = tuple(axes[0])
        return _xp().permute_dims(self, axes or tuple(range(self.ndim))[::-1])

    def swapaxes(self, a, b):
        """Two axes exchanged."""
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return _xp().permute_dims(self, tuple(order))

    def flatten(self):
        """All elements along one axis."""
        return _xp().reshape(self, (-1,))

    ravel = flatten

    def squeeze(self, axis=None):
        """Without axes of extent 1."""
        if axis is None:
            axis = tuple(i for i, n in enumerate(self.shape) if n == 1)
        return _xp().squeeze(self, axis)

    def conj(self):
        """The complex conjugate."""
        return _xp().conj(self)

    def dot(self, other):
        """The product with another array, as of matrices."""
        return self @ other

    def copy(self):
        """The array itself, which never changes."""
        return self

    def clip(self, min=None, max=None):
        """The elements limited to a range."""
        return _xp().clip(self, min, max)


def _reduction(name):
    def method(self, axis=None, keepdims=False, **options):
        return getattr(_xp(), name)(self, axis=axis, keepdims=keepdims, **options)
    method.__name__ = name
    method.__doc__ = f"xp.{name} over axes."
    return method


for _name in ("sum", "mean", "max", "min", "prod", "any", "all", "std", "var", "argmax", "argmin"):
    setattr(Array, _name, _reduction(_name))
Array.cumsum = lambda self, axis=None: _xp().cumulative_sum(self, axis=axis)
Array.round = lambda self: _xp().round(self)


# ---- In ----

_FORMAT = {"float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
           "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "?", "complex64": "f", "complex128": "d"}


def _from_bytes(dtype, shape, data):
    return _core.from_bytes(dtype, shape, data)


def _nested_shape(x):
    shape = []
    while isinstance(x, (list, tuple)):
        shape.append(len(x))
        if not x:
            break
        x = x[0]
    return tuple(shape)


def _nested_leaves(x, shape, out):
    if not shape:
        out.append(x)
        return
    if not isinstance(x, (list, tuple)) or len(x) != shape[0]:
        raise ValueError("a nested list must have the same number of elements in every row")
    for item in x:
        _nested_leaves(item, shape[1:], out)


def _from_numbers(values, shape, dtype):
    """An array of numbers of Python, in row-major order."""
    if dtype is None:
        kinds = {dtypes.number_kind(v) for v in values} or {"float"}
        if None in kinds:
            raise TypeError("an array is made of numbers, lists of numbers, or objects with a buffer or __dlpack__")
        dtype = dtypes.DEFAULT[max(kinds, key=("bool", "int", "float", "complex").index)]
    if dtype is dtypes.bfloat16:
        return tracing.cast(_from_numbers(values, shape, dtypes.float32), dtype)
    if dtype.kind == "complex":
        values = [part for v in values for part in (complex(v).real, complex(v).imag)]
    elif dtype.kind == "float":
        values = [float(v) for v in values]
    elif dtype.kind == "bool":
        values = [bool(v) for v in values]
    else:
        values = [int(v) for v in values]
    import struct
    code = _FORMAT[dtype.name]
    try:
        data = struct.pack(f"={len(values)}{code}", *values)
    except struct.error as problem:
        raise OverflowError(f"a number does not fit into {dtype}: {problem}") from None
    except OverflowError:
        data = struct.pack(f"={len(values)}{code}", *map(_clamp_float, values))
    return _core.from_bytes(dtype, shape, data)


def _clamp_float(v):
    return v if abs(v) < 3.4028235677973366e38 else math.copysign(math.inf, v)


def _numpy():
    import numpy
    return numpy


def _ml_dtypes():
    import ml_dtypes
    return ml_dtypes


def _from_numpy(x, copy):
    """NumPy arrays and scalars share their memory, also bfloat16 of ml_dtypes, which buffers cannot describe. Floats of
    8 bits and fewer, for which there is no dtype here, become float32, which has all their values."""
    if x.dtype.name == "bfloat16":
        return _core.from_buffer(x.view("uint16"), copy)._retag(dtypes.bfloat16)
    if x.dtype.name.startswith(("float8_", "float6_", "float4_")):
        x = x.astype("float32")
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    return _core.from_buffer(x, copy)


def _convert(x, dtype, copy):
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic)):
        return _from_numpy(x, copy)
    if isinstance(x, (list, tuple)):
        shape = _nested_shape(x)
        leaves = []
        _nested_leaves(x, shape, leaves)
        if any(isinstance(v, Array) for v in leaves):
            return _xp().reshape(_xp().stack([to_array(v) for v in leaves]), shape + to_array(leaves[0]).shape)
        if leaves and dtypes.number_kind(leaves[0]) is None:
            return _convert(_numpy().asarray(x), dtype, copy)
        return _from_numbers(leaves, shape, dtype)
    if hasattr(x, "__dlpack__"):
        return from_dlpack(x, copy=copy)
    try:
        return _core.from_buffer(x, copy)
    except TypeError:
        pass
    if hasattr(x, "__array__"):
        return _from_numpy(_numpy().asarray(x), copy)
    where = tracing.user_frame()
    place = f" ({where.f_code.co_filename}:{where.f_lineno})" if where else ""
    raise TypeError(f"{type(x).__name__} is not an array, a number or a list of numbers{place}")


def to_array(x, dtype=None, copy=False):
    """An array of anything, over its memory where that is possible."""
    if isinstance(x, Array):
        a = x
    elif dtypes.number_kind(x):
        a = _from_numbers([x], (), dtype)
    else:
        a = _convert(x, dtype, copy)
    if dtype is not None and a.dtype is not dtype:
        return tracing.cast(a, dtype)
    return a


def from_dlpack(x, /, *, device=None, copy=None):
    """An array over the memory of an object with __dlpack__: of NumPy, PyTorch, JAX and others."""
    if device not in (None, "cpu"):
        raise ValueError(f"there is no device {device!r}")
    if isinstance(x, Array):
        return x
    if type(x).__name__ == "PyCapsule":
        return _core.from_dlpack(x, bool(copy))
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except (TypeError, BufferError):
        capsule = x.__dlpack__()
    return _core.from_dlpack(capsule, bool(copy))


# ---- Text ----

def _format(a):
    """The elements as nested lists, abbreviated where there are many."""
    edge = 3
    full = a.size <= 1000

    def text(v):
        return format(v, ".7g") if isinstance(v, float) else str(v)

    def write(axis, offset, indent):
        if axis == a.ndim:
            return text(a._element(offset))
        n = a.shape[axis]
        step = math.prod(a.shape[axis + 1:])
        rows = range(n) if full or n <= 2 * edge else [*range(edge), None, *range(n - edge, n)]
        parts = ["..." if r is None else write(axis + 1, offset + r * step, indent + 1) for r in rows]
        separator = ", " if axis == a.ndim - 1 else ",\n" + " " * (indent + 1)
        return "[" + separator.join(parts) + "]"

    body = write(0, 0, len("Array("))
    return f"Array({body}, dtype={a.dtype.name})"


tracing.to_array = to_array
