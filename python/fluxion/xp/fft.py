# SPDX-License-Identifier: Apache-2.0
"""The extension fft of the array API standard."""

from .. import dtypes
from ..arrays import to_array
from ..tracing import apply, cast
from ._info import public_names as _public_names
from ._operands import _axes, _axis


def _xp():
    from .. import xp
    return xp


def _complex(x):
    x = to_array(x)
    if x.dtype.kind == "complex":
        return x
    return cast(x, dtypes.complex128 if x.dtype is dtypes.float64 else dtypes.complex64)


def _real(x):
    x = to_array(x)
    return x if x.dtype in (dtypes.float32, dtypes.float64) else cast(x, dtypes.float32)


def _fit(x, n, axis):
    """The axis padded with zeros or cut to n elements."""
    if n is None or x.shape[axis] == n:
        return x
    high = [0] * x.ndim
    high[axis] = n - x.shape[axis]
    return apply("pad", x, to_array(0, x.dtype), high=high)


def _along(x, n, axis, norm, inverse):
    x = _complex(x)
    axis = _axis(axis, x.ndim)
    return apply("fft_axis", _fit(x, n, axis), axis=axis, inverse=inverse, norm=norm)


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """The discrete Fourier transform along an axis."""
    return _along(x, n, axis, norm, False)


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of fft."""
    return _along(x, n, axis, norm, True)


def _axes_of(x, s, axes):
    x = to_array(x)
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = [_axis(a, x.ndim) for a in axes]
    sizes = [None] * len(axes) if s is None else list(s)
    return list(zip(axes, sizes))


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    """fft along several axes."""
    for axis, n in _axes_of(x, s, axes):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of fftn."""
    for axis, n in _axes_of(x, s, axes):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The first half of the transform of a real signal."""
    xp, x = _xp(), _real(x)
    y = apply("rfft_complex", xp.moveaxis(x, axis, -1), n=n, norm=norm)
    return xp.moveaxis(y, -1, axis)


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of rfft."""
    xp, x = _xp(), _complex(x)
    y = apply("irfft_complex", _half(xp.moveaxis(x, axis, -1), n), n=n, norm=norm)
    return xp.moveaxis(y, -1, axis)


def _half(x, n):
    """The bins that a signal of length n has."""
    return x if n is None else _fit(x, n // 2 + 1, x.ndim - 1)


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    """rfft along the last of the axes, then fft along the others."""
    pairs = _axes_of(x, s, axes)
    axis, n = pairs[-1]
    x = rfft(x, n=n, axis=axis, norm=norm)
    for axis, n in pairs[:-1]:
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of rfftn."""
    pairs = _axes_of(x, s, axes)
    for axis, n in pairs[:-1]:
        x = ifft(x, n=n, axis=axis, norm=norm)
    axis, n = pairs[-1]
    return irfft(x, n=n, axis=axis, norm=norm)


_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform of a signal with Hermitian symmetry, which is real."""
    return irfft(_xp().conj(_complex(x)), n=n, axis=axis, norm=_OPPOSITE[norm])


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of hfft."""
    return _xp().conj(rfft(x, n=n, axis=axis, norm=_OPPOSITE[norm]))


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the bins of fft."""
    return apply("fftfreq", n=n, dtype=dtypes.as_dtype(dtype or dtypes.float32)) / d


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the bins of rfft."""
    return apply("rfftfreq", n=n, dtype=dtypes.as_dtype(dtype or dtypes.float32)) / d


def fftshift(x, /, *, axes=None):
    """The bin of frequency 0 in the middle."""
    xp, x = _xp(), to_array(x)
    axes = _axes(axes, x.ndim)
    return xp.roll(x, tuple(x.shape[a] // 2 for a in axes), axis=tuple(axes))


def ifftshift(x, /, *, axes=None):
    """The inverse of fftshift."""
    xp, x = _xp(), to_array(x)
    axes = _axes(axes, x.ndim)
    return xp.roll(x, tuple(-(x.shape[a] // 2) for a in axes), axis=tuple(axes))


__all__ = _public_names(globals())


def __dir__():
    return __all__
