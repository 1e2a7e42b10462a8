# SPDX-License-Identifier: Apache-2.0
"""Fluxion: a differentiable tensor compiler.

Functions of Python on arrays are traced, differentiated, batched and compiled:

    >>> import fluxion as fx
    >>> f = fx.jit(fx.grad(lambda x: (x * fx.xp.exp(-x)).sum()))
    >>> f(fx.array([0.0, 1.0, 2.0]))
    Array([1, 0, -0.1353353], dtype=float32)
"""

from . import _core, arrays, dtypes, errors, tracing, tree
from .arrays import Array, from_dlpack, to_array
from .dims import Dim, symbol
from .dtypes import (DType, bfloat16, bool_, complex64, complex128, float16, float32, float64, int8, int16, int32,
                     int64, uint8, uint16, uint32, uint64)
from .errors import (DTypeError, Error, FileProblem, IndexOutOfRangeError, MemoryProblem, NotDifferentiableError,
                     NumericError, ShapeError, SyntaxProblem, TracerError, UnsupportedError, UsageError)

_core.setup(Array, dtypes.TABLE, errors.BY_CODE, Dim, tree.NODES, to_array)

from .control import cond, fori_loop, scan, switch, while_loop  # noqa: E402
from .jit import jit, log_compiles  # noqa: E402
from .transforms import (checkpoint, custom_jvp, custom_vjp, grad, hessian, hvp, jacfwd, jacrev, jvp,  # noqa: E402
                         stop_gradient, taylor, value_and_grad, vjp, vmap)
from .tree import (register_dataclass, register_pytree_node, tree_flatten, tree_leaves, tree_map,  # noqa: E402
                   tree_structure, tree_unflatten)

__version__ = _core.version()
bool = bool_

# Modules that are loaded when they are first used, and functions that are in them.
_MODULES = ("xp", "numpy", "ops", "nn", "random", "files", "train", "kernels")
_FUNCTIONS = {"load": "files", "load_arrays": "files", "save": "files", "save_arrays": "files", "from_jax": "files",
              "from_text": "files", "from_torch": "files", "Graph": "files", "trace": "files", "ShapeDtype": "files",
              "Trainer": "train", "schedule": "train", "kernel": "kernels", "where": "xp", "asarray": "xp"}


def array(obj, dtype=None, copy=True):
    """A new array with the elements of a number, a nested list or an array of any library."""
    result = to_array(obj, None if dtype is None else dtypes.as_dtype(dtype), copy)
    return result._with_weak(False) if result._weak else result


def __getattr__(name):
    import importlib
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    if name in _FUNCTIONS:
        return getattr(importlib.import_module("." + _FUNCTIONS[name], __name__), name)
    hint = _core.foreign(name)
    if hint and hint[2]:
        raise AttributeError(f"fluxion has no attribute {name!r}: it is the op fluxion.ops.{hint[2]} {hint[3]}".strip())
    raise AttributeError(f"fluxion has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_MODULES, *_FUNCTIONS})
