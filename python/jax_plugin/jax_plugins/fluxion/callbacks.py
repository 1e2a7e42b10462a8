# SPDX-License-Identifier: Apache-2.0
"""Host callbacks: jax.pure_callback, io_callback, debug.print, debug.callback, checkify.

JAX refuses them for platforms that it does not know. Here a callback becomes the custom call fluxion_callback with a
number; the plugin calls the function below with the number and views of the operands, which finds the Python function
and writes its results.
"""

import ctypes
import itertools
import secrets
import traceback

import ml_dtypes
import numpy as np

from jax._src import callback as jax_callback
from jax._src import core
from jax._src import ffi
from jax._src import xla_bridge

from . import PLATFORM, native

# By flx_dtype.
_DTYPES = {
    1: np.float64, 2: np.float32, 3: np.float16, 4: ml_dtypes.bfloat16, 5: np.complex64, 6: np.complex128, 7: np.int64,
    8: np.int32, 9: np.int16, 10: np.int8, 11: np.uint64, 12: np.uint32, 13: np.uint16, 14: np.uint8, 15: np.bool_,
}


# ---- Running ----

_functions = {}  # by number; entries live as long as the executable that uses them
# A random start: numbers are part of the program, and an executable that another process left in JAX's compilation cache
# must not be found under the number of a different function.
_numbers = itertools.count(secrets.randbits(61) + 1)


def _array(view):
    """The view's memory as an array, without a copy."""
    dtype = np.dtype(_DTYPES[view.dtype])
    shape = tuple(view.dims[i] for i in range(view.rank))
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(view.data)
    return np.frombuffer(memory, dtype=dtype, count=count).reshape(shape)


def _write(target, value):
    if target.size:
        target[...] = np.asarray(value).astype(target.dtype, copy=False).reshape(target.shape)


def _call(number, num_inputs, inputs, num_results, results, error, size):
    try:
        function = _functions[number]
        function.run([_array(inputs[i]) for i in range(num_inputs)], [_array(results[i]) for i in range(num_results)])
        return 0
    except BaseException as e:  # pylint: disable=broad-except
        text = "CpuCallback error calling callback: " + "".join(traceback.format_exception(e))
        data = text.encode("utf-8", "replace")
        if len(data) >= size:  # the end of a traceback says most
            data = data[:200] + b"\n...\n" + data[-(size - 210):]
        ctypes.memmove(error, data + b"\0", len(data) + 1)
        return 1


_callback = native.Callback(_call)


# ---- Lowering ----


class _PythonFunction:
    """A function of arrays, which are copies: it may keep them."""

    def __init__(self, function, dtypes):
        self.function, self.dtypes = function, dtypes

    def run(self, inputs, results):
        args = [np.array(x, dtype=dtype, copy=True) for x, dtype in zip(inputs, self.dtypes)]
        for target, value in zip(results, self.function(*args)):
            _write(target, value)


class _Entry:
    """Keeps a function in the table while an executable needs it. Its run() takes arrays over the memory of operands and
    of results."""

    def __init__(self, function):
        self.number = next(_numbers)
        _functions[self.number] = function

    def __del__(self):
        _functions.pop(self.number, None)


def _checked(function, result_avals):
    """The function with its results checked in JAX's words."""
    from jax._src import dtypes

    def wrapped(*args):
        values = function(*args)
        if len(values) != len(result_avals):
            raise RuntimeError("Mismatched number of outputs from callback. "
                               f"Expected: {len(result_avals)}, Actual: {len(values)}")
        values = tuple(dtypes.canonicalize_value(np.asarray(v)) for v in values)
        for i, (value, aval) in enumerate(zip(values, result_avals)):
            if value.shape != aval.shape:
                raise RuntimeError(f"Incorrect output shape for return value #{i}: "
                                   f"Expected: {aval.shape}, Actual: {value.shape}")
            if value.dtype != aval.dtype:
                raise RuntimeError(f"Incorrect output dtype for return value #{i}: "
                                   f"Expected: {aval.dtype}, Actual: {value.dtype}")
        return values

    return wrapped


def emit_function(ctx, function, operands, *, has_side_effect):
    """A call of function.run() with the operands; its results."""
    entry = _Entry(function)
    ctx.module_context.add_keepalive(entry)
    rule = ffi.build_ffi_lowering_function("fluxion_callback", has_side_effect=has_side_effect)
    return list(rule(ctx, *operands, id=np.int64(entry.number)).results)


def _emit(ctx, function, token, operands, operand_avals, result_avals, *, has_side_effect, returns_token=True,
          partitioned=False, sharding=None):
    del returns_token, partitioned, sharding
    import dataclasses

    called = _PythonFunction(_checked(function, result_avals), [a.dtype for a in operand_avals])
    operands = list(operands)
    if token:
        operands.insert(0, token)
        ctx = dataclasses.replace(ctx, avals_in=[core.abstract_token, *operand_avals],
                                  avals_out=[core.abstract_token, *result_avals])
    else:
        ctx = dataclasses.replace(ctx, avals_in=list(operand_avals), avals_out=list(result_avals))
    results = emit_function(ctx, called, operands, has_side_effect=has_side_effect)
    if token:
        token, *results = results
    return results, token, function


def _replace_emit():
    original = jax_callback.emit_python_callback

    def emit_python_callback(ctx, *args, **kwargs):
        if tuple(ctx.module_context.platforms) == (PLATFORM,):
            return _emit(ctx, *args, **kwargs)
        return original(ctx, *args, **kwargs)

    jax_callback.emit_python_callback = emit_python_callback


def _replace_local_devices():
    """Callbacks put their operands on a CPU device; where there is none, Fluxion's is one."""
    original = xla_bridge.local_devices

    def local_devices(process_index=None, backend=None, host_id=None):
        try:
            return original(process_index, backend, host_id)
        except RuntimeError:
            if backend != "cpu":
                raise
            return original(process_index, None, host_id)

    xla_bridge.local_devices = local_devices


def install(path):
    native.extension(path).set_callback(_callback)
    _replace_emit()
    _replace_local_devices()
