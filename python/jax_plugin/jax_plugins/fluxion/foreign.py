# SPDX-License-Identifier: Apache-2.0
"""jax.ffi: functions of other libraries, written for XLA's foreign function interface (version 0.3) on a CPU.

A function is registered for the platform fluxion or cpu (jax.ffi.register_ffi_target); both are processors with the
same memory. A call of it is a host callback, whose function is called with a frame of the interface instead of NumPy
arrays. The structs below are what the interface says; every one begins with its size and a list of extensions.
"""

import ctypes
import threading

import numpy as np
from jax._src import core, ffi
from jax._src.interpreters import mlir
from jax._src.lib import xla_client

from . import PLATFORM, callbacks

# ---- The interface ----

_BUFFER = 1  # the kind of arguments and results
_ARRAY, _DICTIONARY, _SCALAR, _STRING = 1, 2, 3, 4  # kinds of attributes
_STAGES = ("prepare", "initialize", "execute")
_STAGE_NUMBERS = {"prepare": 1, "initialize": 2, "execute": 3}

_DTYPES = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9,
    "float16": 10, "float32": 11, "float64": 12, "complex64": 15, "bfloat16": 16, "complex128": 18, "float8_e5m2": 19,
    "float8_e4m3fn": 20, "int4": 21, "uint4": 22, "float8_e4m3b11fnuz": 23, "float8_e5m2fnuz": 24,
    "float8_e4m3fnuz": 25, "int2": 26, "uint2": 27, "float8_e4m3": 28, "float8_e3m4": 29, "float4_e2m1fn": 32,
    "float8_e8m0fnu": 33,
}

_POINTER = ctypes.c_void_p


def _struct(name, *fields):
    fields = [("struct_size", ctypes.c_size_t), ("extensions", _POINTER), *fields]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_Buffer = _struct("_Buffer", ("dtype", ctypes.c_int32), ("data", _POINTER), ("rank", ctypes.c_int64),
                  ("dims", _POINTER))
_List = _struct("_List", ("size", ctypes.c_int64), ("types", _POINTER), ("values", _POINTER))
_Named = _struct("_Named", ("size", ctypes.c_int64), ("types", _POINTER), ("names", _POINTER), ("values", _POINTER))
_Frame = _struct("_Frame", ("api", _POINTER), ("context", _POINTER), ("stage", ctypes.c_int32), ("arguments", _List),
                 ("results", _List), ("attributes", _Named), ("future", _POINTER))


class _Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class _Scalar(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("value", _POINTER)]


class _Array(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("size", ctypes.c_size_t), ("data", _POINTER)]


_Version = _struct("_Version", ("major", ctypes.c_int32), ("minor", ctypes.c_int32))
_Handler = ctypes.CFUNCTYPE(_POINTER, _POINTER)

# ---- What functions may ask for ----


class _Handles:
    """Objects under numbers, which the other side takes for pointers."""

    def __init__(self):
        self._lock, self._next, self._objects = threading.Lock(), 1, {}

    def add(self, value):
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._objects[number] = value
        return number

    def get(self, number):
        return self._objects.get(number)

    def take(self, number):
        with self._lock:
            return self._objects.pop(number, None)


class _Future:
    def __init__(self):
        self.event, self.error = threading.Event(), None


_errors, _futures, _memory = _Handles(), _Handles(), {}
_CreateError = _struct("_CreateError", ("message", ctypes.c_char_p), ("code", ctypes.c_int32))
_GetMessage = _struct("_GetMessage", ("error", _POINTER), ("message", _POINTER))
_OneHandle = _struct("_OneHandle", ("handle", _POINTER), ("second", _POINTER))
_Memory = _struct("_Memory", ("context", _POINTER), ("size", ctypes.c_size_t), ("last", _POINTER), ("data", _POINTER))
_Task = _struct("_Task", ("context", _POINTER), ("task", ctypes.CFUNCTYPE(None, _POINTER)), ("data", _POINTER))
_Number = _struct("_Number", ("context", _POINTER), ("value", _POINTER))


def _create_error(args):
    message = _CreateError.from_address(args).message or b""
    return _errors.add(ctypes.create_string_buffer(message))


def _get_message(args):
    a = _GetMessage.from_address(args)
    a.message = ctypes.addressof(_errors.get(a.error))


def _destroy_error(args):
    _errors.take(_OneHandle.from_address(args).handle)


def _allocate(args):
    a = _Memory.from_address(args)  # here `last` is the alignment
    alignment = max(int(a.last or 1), 1)
    block = ctypes.create_string_buffer(a.size + alignment)
    start = ctypes.addressof(block)
    a.data = start + -start % alignment
    _memory[a.data] = block


def _free(args):
    _memory.pop(_Memory.from_address(args).last, None)  # here `last` is the memory


def _schedule(args):
    a = _Task.from_address(args)
    a.task(a.data)


def _number_of(kind, value):
    def answer(args):
        kind.from_address(_Number.from_address(args).value).value = value

    return answer


def _write(offset, kind, value):
    """An answer that is a field of the arguments."""

    def answer(args):
        kind.from_address(args + offset).value = value

    return answer


def _create_future(args):
    _OneHandle.from_address(args).handle = _futures.add(_Future())


def _set_available(args):
    _futures.get(_OneHandle.from_address(args).handle).event.set()


def _set_error(args):
    a = _OneHandle.from_address(args)
    future = _futures.get(a.handle)
    future.error = a.second
    future.event.set()


def _refuse(what):
    def answer(args):
        del args
        return _errors.add(ctypes.create_string_buffer(f"Fluxion has no {what} for foreign functions".encode()))

    return answer


_AFTER_CONTEXT = 24  # struct_size, extensions, context

# In the order of the interface.
_FUNCTIONS = [
    _create_error, _get_message, _destroy_error, _refuse("registration by handlers"), _refuse("streams"),
    _refuse("registration of types"), _refuse("context of the execution"), _refuse("state"), _refuse("state"),
    _allocate, _free, _schedule, _number_of(ctypes.c_int64, 1), _create_future, _set_available, _set_error,
    _write(_AFTER_CONTEXT, ctypes.c_int64, 0), _write(_AFTER_CONTEXT, ctypes.c_int32, 0),
]


def _entry(function):
    """A function that returns an error or nothing."""
    return _Handler(lambda args: function(args) or None)


class _Api(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extensions", _POINTER), ("version", _Version),
                ("internal", _POINTER), ("functions", _POINTER * len(_FUNCTIONS))]


_entries = [_entry(f) for f in _FUNCTIONS]
_api = _Api(struct_size=ctypes.sizeof(_Api))
_api.version = _Version(struct_size=ctypes.sizeof(_Version), major=0, minor=3)
for _i, _f in enumerate(_entries):
    _api.functions[_i] = ctypes.cast(_f, _POINTER).value

# ---- Frames ----


def _dtype_number(dtype):
    name = np.dtype(dtype).name
    if name not in _DTYPES:
        raise NotImplementedError(f"arrays of {name} in calls of foreign functions")
    return _DTYPES[name]


class _Keeper(list):
    """Keeps what a frame points to, and gives its address."""

    def address(self, value):
        self.append(value)
        return value.ctypes.data if isinstance(value, np.ndarray) else ctypes.addressof(value)

    def addresses(self, values):
        return self.address((_POINTER * max(len(values), 1))(*[self.address(v) for v in values]))

    def kinds(self, values):
        return self.address((ctypes.c_int32 * max(len(values), 1))(*values))


def _attribute(keep, value):
    """Kind and struct of an attribute: numbers of Python have 64 bits, as in a program of JAX."""
    if isinstance(value, (str, bytes)):
        data = value.encode() if isinstance(value, str) else value
        return _STRING, _Text(data, len(data))
    if isinstance(value, dict):
        return _DICTIONARY, _named(keep, value)
    if isinstance(value, np.dtype) or not (np.isscalar(value) or isinstance(value, np.ndarray)):
        raise NotImplementedError(f"an attribute {value!r} of a foreign function")
    kind = _ARRAY if isinstance(value, np.ndarray) and value.ndim else _SCALAR
    data = np.ascontiguousarray(value)
    if kind == _ARRAY:
        return kind, _Array(_dtype_number(data.dtype), data.size, keep.address(data))
    return kind, _Scalar(_dtype_number(data.dtype), keep.address(data))


def _named(keep, attributes):
    names = sorted(attributes)
    found = [_attribute(keep, attributes[n]) for n in names]
    texts = [_Text(n.encode(), len(n.encode())) for n in names]
    return _Named(ctypes.sizeof(_Named), None, len(names), keep.kinds([kind for kind, _ in found]),
                  keep.addresses(texts), keep.addresses([value for _, value in found]))


def _buffers(keep, arrays, shapes):
    made = []
    for array, shape in zip(arrays, shapes):
        dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        made.append(_Buffer(ctypes.sizeof(_Buffer), None, _dtype_number(array.dtype), array.ctypes.data, len(shape),
                            keep.address(dims)))
    keep.extend(arrays)
    return _List(ctypes.sizeof(_List), None, len(made), keep.kinds([_BUFFER] * len(made)), keep.addresses(made))


def _raise(error):
    text = _errors.take(error)
    raise RuntimeError(text.value.decode("utf-8", "replace") if text else "a foreign function failed")


def _call_handler(handler, frame):
    error = handler(ctypes.addressof(frame))
    if error:
        _raise(error)
    future = _futures.get(frame.future) if frame.future else None
    if future:
        future.event.wait()
        _futures.take(frame.future)
        if future.error:
            _raise(future.error)


# ---- Calls ----


class _Foreign:
    """The function of a callback: called with views, as callbacks.py has them."""

    def __init__(self, handlers, attributes, avals_in, avals_out, layouts_in, layouts_out, aliases):
        self.handlers, self.attributes, self.aliases = handlers, attributes, dict(aliases)
        self.avals_in, self.avals_out = avals_in, avals_out
        # From what is most to what is least significant.
        self.orders_in = [tuple(reversed(order)) for order in layouts_in]
        self.orders_out = [tuple(reversed(order)) for order in layouts_out]

    def run(self, inputs, results):
        given = [np.ascontiguousarray(x.astype(a.dtype, copy=False).transpose(order))
                 for x, a, order in zip(inputs, self.avals_in, self.orders_in)]
        made = [self._place(y, a, order) for y, a, order in zip(results, self.avals_out, self.orders_out)]
        for i, k in self.aliases.items():
            made[k][...] = given[i]
            given[i] = made[k]
        keep = _Keeper()
        frame = _Frame(struct_size=_Frame.future.offset, api=ctypes.addressof(_api))
        frame.arguments = _buffers(keep, given, [a.shape for a in self.avals_in])
        frame.results = _buffers(keep, made, [a.shape for a in self.avals_out])
        frame.attributes = _named(keep, self.attributes)
        for stage, handler in self.handlers:
            frame.stage = _STAGE_NUMBERS[stage]
            _call_handler(handler, frame)
        for y, made_here, order in zip(results, made, self.orders_out):
            if y.size and made_here is not y:
                y[...] = made_here.transpose(np.argsort(order)).astype(y.dtype, copy=False)

    @staticmethod
    def _place(y, aval, order):
        """Where the function writes a result: in its memory, if it has the element type and the order there."""
        if y.dtype == aval.dtype and order == tuple(range(len(order))) and y.flags.c_contiguous:
            return y
        return np.zeros([aval.shape[k] for k in order], aval.dtype)


def _address_of(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = _POINTER, (ctypes.py_object, ctypes.c_char_p)
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    return get(capsule, name(capsule))


_own = {}  # what is registered for this platform, by name


def _remember(name, function, platform, api_version=1, traits=0):
    del platform, api_version, traits
    _own[name.decode() if isinstance(name, bytes) else name] = function


def _registered(target):
    """What was registered under this name, by stage; None: nothing. JAX keeps what is registered for a CPU in a list
    until it uses one, and then in a table."""
    cpu = xla_client.xla_platform_names.get("cpu", "cpu")
    waiting = {name: function for name, function, _, _ in xla_client._custom_callback.get(cpu, [])}
    for known in (_own, waiting, xla_client.custom_call_targets(cpu)):
        if target in known:
            return known[target] if isinstance(known[target], dict) else {"execute": known[target]}
    return None


def _handlers(target):
    found = _registered(target)
    if found is None:
        return None
    if "instantiate" in found:
        raise NotImplementedError(f"the foreign function {target} has state, which Fluxion does not keep")
    return [(stage, _Handler(_address_of(found[stage]))) for stage in _STAGES if stage in found]


def _lower(ctx, *operands, target_name, has_side_effect, input_layouts, output_layouts, input_output_aliases,
           custom_call_api_version, legacy_backend_config, attributes, **rest):
    # The library computes LAPACK's functions itself.
    is_own = target_name.startswith("lapack_") or tuple(ctx.module_context.platforms) != (PLATFORM,)
    handlers = None if is_own or custom_call_api_version < 4 else _handlers(target_name)
    if handlers is None:
        return ffi.ffi_call_lowering(ctx, *operands, target_name=target_name, has_side_effect=has_side_effect,
                                     input_layouts=input_layouts, output_layouts=output_layouts,
                                     input_output_aliases=input_output_aliases,
                                     custom_call_api_version=custom_call_api_version,
                                     legacy_backend_config=legacy_backend_config, attributes=attributes, **rest)
    if any(a is core.abstract_token for a in (*ctx.avals_in, *ctx.avals_out)):
        raise NotImplementedError(f"tokens of the foreign function {target_name}")
    function = _Foreign(handlers, ffi._unwrap_kwargs_hashable(attributes), ctx.avals_in, ctx.avals_out, input_layouts,
                        output_layouts, input_output_aliases)
    return callbacks.emit_function(ctx, function, operands, has_side_effect=has_side_effect)


def install():
    mlir.register_lowering(ffi.ffi_call_p, _lower, platform=PLATFORM, cacheable=False)
    xla_client.register_custom_call_handler(PLATFORM, _remember)
