# SPDX-License-Identifier: Apache-2.0
"""Kernels written by hand in the kernel language, as functions: traced, differentiated and batched like any other."""

from . import dtypes
from .arrays import to_array
from .tracing import apply_all


class Kernel:
    """A kernel as a function of its input buffers; its results are its output buffers."""

    def __init__(self, text, grid, outputs=None, backward=None, max_trips=None):
        self.text, self._grid, self._outputs, self._backward, self._trips = text, grid, outputs, backward, max_trips

    def __call__(self, *arrays):
        arrays = tuple(to_array(a) for a in arrays)
        grid = self._grid(*arrays) if callable(self._grid) else self._grid
        outputs = self._outputs(*arrays) if callable(self._outputs) else self._outputs
        results = apply_all("kernel_call", arrays, kernel=self.text, grid=(grid,) if isinstance(grid, int) else
                            tuple(grid), outputs=None if outputs is None else tuple(map(_type, outputs)),
                            backward=self._backward, max_trips=self._trips)
        return results[0] if len(results) == 1 else results


def _type(x):
    """(dtype, shape) of an array, a ShapeDtype, or a pair (shape, dtype)."""
    if hasattr(x, "dtype"):
        return x.dtype, x.shape
    shape, dtype = x
    return dtypes.as_dtype(dtype), tuple(shape)


def kernel(text, grid, outputs=None, backward=None, max_trips=None):
    """A function from the text of a kernel. `grid` is the number of workgroups along each axis, `outputs` the types of
    the results: arrays like them, or (shape, dtype); both may be functions of the arguments. `backward` is the text of
    a reverse kernel of your own.

    >>> import fluxion as fx
    >>> double = fx.kernel('''kernel double(workgroup = [1, 1, 1]) {
    ...   buffer x: f32[] read;
    ...   buffer y: f32[] output;
    ...   let i = invocation_id(0);
    ...   y[i] = x[i] * x[i];
    ... }''', grid=lambda x: x.shape, outputs=lambda x: [x])
    >>> fx.grad(lambda x: double(x).sum())(fx.array([1.0, 3.0]))
    Array([2, 6], dtype=float32)
    """
    return Kernel(text, grid, outputs, backward, max_trips)
