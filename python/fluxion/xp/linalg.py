# SPDX-License-Identifier: Apache-2.0
"""The extension linalg of the array API standard. Matrices are in the last two axes."""

import math
from typing import NamedTuple

from .. import dtypes
from ..arrays import Array, to_array
from ..tracing import apply, apply_all, cast
from . import matmul, matrix_transpose, tensordot, vecdot  # noqa: F401
from ._info import public_names as _public_names
from ._operands import _axes, _keep, _operands


def _xp():
    from .. import xp
    return xp


class EigenResult(NamedTuple):
    """Eigenvalues and eigenvectors."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Q and R."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """The sign and the logarithm of the absolute value of a determinant."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """U, S and Vh."""

    U: Array
    S: Array
    Vh: Array


def _wide(x):
    """x in a dtype that the factorisations have."""
    x = to_array(x)
    return x if x.dtype.kind == "complex" or x.dtype.itemsize > 2 and x.dtype.kind == "float" else cast(
        x, dtypes.float32)


def cholesky(x, /, *, upper=False):
    """The triangle whose product with its conjugate transpose is x."""
    return apply("cholesky", _wide(x), lower=not upper)


def det(x, /):
    """The determinant."""
    return apply("det", _wide(x))


def inv(x, /):
    """The inverse."""
    return apply("inv", _wide(x))


def slogdet(x, /):
    """The determinant as sign and logarithm."""
    return SlogdetResult(*apply_all("slogdet", (_wide(x),)))


def solve(x1, x2, /):
    """The y with x1 y = x2; x2 is a vector, or matrices."""
    xp = _xp()
    (a, b), _ = _operands(_wide(x1), _wide(x2))
    vector = b.ndim == 1
    if vector:
        b = xp.expand_dims(b, axis=-1)
    batch = xp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    y = apply("solve", xp.broadcast_to(a, batch + a.shape[-2:]), xp.broadcast_to(b, batch + b.shape[-2:]))
    return xp.squeeze(y, -1) if vector else y


def eigh(x, /):
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices."""
    return EigenResult(*apply_all("eigh", (_wide(x),)))


def eigvalsh(x, /):
    """Eigenvalues of Hermitian matrices, ascending."""
    return eigh(x).eigenvalues


def eig(x, /):
    """Eigenvalues and eigenvectors of any matrices, complex."""
    return EigenResult(*apply_all("eig_pairs", (_wide(x),)))


def eigvals(x, /):
    """Eigenvalues of any matrices, complex."""
    return apply("eig", _wide(x))


def _with_identity(x):
    """x with the columns of an identity after its own: their factorisation has an orthonormal basis of everything."""
    xp = _xp()
    m = x.shape[-2]
    return xp.concat([x, xp.broadcast_to(xp.eye(m, dtype=x.dtype), x.shape[:-2] + (m, m))], axis=-1)


def _completed(u):
    """A square matrix whose first columns are those of u, orthonormal, and the others orthogonal to them."""
    rest = QRResult(*apply_all("qr", (_with_identity(u),))).Q[..., u.shape[-1]:]
    return _xp().concat([u, rest], axis=-1)


def qr(x, /, *, mode="reduced"):
    """x = Q R with orthonormal columns and an upper triangle; "complete": Q is square."""
    x = _wide(x)
    if mode not in ("reduced", "complete"):
        raise ValueError(f"mode must be 'reduced' or 'complete', got {mode!r}")
    if mode == "reduced" or x.shape[-2] <= x.shape[-1]:
        return QRResult(*apply_all("qr", (x,)))
    q, r = apply_all("qr", (_with_identity(x),))
    return QRResult(q, r[..., :x.shape[-1]])


def svd(x, /, *, full_matrices=True):
    """Singular values, descending, with their vectors; full_matrices: U and Vh are square."""
    x = _wide(x)
    u, s, vh = apply_all("svd", (x,))
    m, n = x.shape[-2:]
    if full_matrices and m > n:
        u = _completed(u)
    if full_matrices and n > m:
        vh = _xp().conj(matrix_transpose(_completed(_xp().conj(matrix_transpose(vh)))))
    return SVDResult(u, s, vh)


def svdvals(x, /):
    """Singular values, descending."""
    return svd(x, full_matrices=False).S


def pinv(x, /, *, rtol=None):
    """The pseudoinverse."""
    return apply("pinv", _wide(x), rcond=None if rtol is None else float(rtol))


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are above rtol times the largest."""
    xp = _xp()
    x = _wide(x)
    s = svdvals(x)
    if rtol is None:
        rtol = max(x.shape[-2:]) * xp.finfo(s.dtype).eps
    bound = xp.max(s, axis=-1, keepdims=True) * rtol
    return xp.count_nonzero(xp.greater(s, bound), axis=-1)


def matrix_power(x, n, /):
    """The product of n factors."""
    return apply("matrix_power", _wide(x), n=int(n))


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of matrices."""
    xp = _xp()
    x = _wide(x)
    if ord == "fro":
        y = vector_norm(x, axis=(-2, -1), keepdims=True)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = xp.sum(xp.abs(x), axis=-2 if abs(ord) == 1 else -1, keepdims=True)
        y = (xp.max if ord > 0 else xp.min)(sums, axis=(-2, -1), keepdims=True)
    elif ord in (2, -2, "nuc"):
        s = svdvals(x)
        pick = xp.sum if ord == "nuc" else xp.max if ord > 0 else xp.min
        y = xp.expand_dims(pick(s, axis=-1, keepdims=True), axis=-1)
    else:
        raise ValueError(f"{ord!r} is not a norm of matrices")
    return y if keepdims else xp.squeeze(y, (-2, -1))


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """A norm of vectors along axes."""
    xp = _xp()
    (x,), _ = _operands(x, minimum="float")
    if not x.ndim:
        return xp.abs(x) if ord != 0 else xp.astype(xp.not_equal(x, 0), xp.abs(x).dtype)
    return apply("norm", x, ord=float(ord), axes=_axes(axis, x.ndim), keep_dims=_keep(keepdims))


def diagonal(x, /, *, offset=0):
    """A diagonal of each matrix."""
    x = to_array(x)
    if x.ndim < 2:
        raise ValueError("diagonal needs matrices")
    if not -x.shape[-2] < offset < x.shape[-1]:
        return _xp().zeros(x.shape[:-2] + (0,), dtype=x.dtype)
    return apply("diag", x, k=offset)


def trace(x, /, *, offset=0, dtype=None):
    """The sum of a diagonal."""
    return _xp().sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def outer(x1, x2, /):
    """The products of all pairs of two vectors."""
    xp = _xp()
    (a, b), _ = _operands(x1, x2)
    return xp.expand_dims(a, axis=-1) * xp.expand_dims(b, axis=0)


def cross(x1, x2, /, *, axis=-1):
    """The cross product of vectors of three elements."""
    xp = _xp()
    a, b = xp.broadcast_arrays(*_operands(x1, x2)[0])
    if a.shape[axis] != 3:
        raise ValueError(f"cross needs an axis of extent 3, got {a.shape[axis]}")
    return xp.roll(a, -1, axis=axis) * xp.roll(b, 1, axis=axis) - xp.roll(a, 1, axis=axis) * xp.roll(
        b, -1, axis=axis)


__all__ = _public_names(globals())


def __dir__():
    return __all__
