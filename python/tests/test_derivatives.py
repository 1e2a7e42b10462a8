# SPDX-License-Identifier: Apache-2.0
"""First and second derivatives of functions that the package composes from ops, where compositions go wrong: at equal
operands, zeros and the bounds of cases. What is expected is known from the mathematics."""

import math

import pytest

np = pytest.importorskip("numpy")
import fluxion as fx  # noqa: E402
import fluxion.numpy as fnp  # noqa: E402
from fluxion import nn, xp  # noqa: E402

INF, NAN = math.inf, math.nan
PHI = 1 / math.sqrt(2 * math.pi)


def of_pair(f):
    return lambda v: f(v[0], v[1])


def column(f):
    return lambda v: f(fnp.reshape(v, (-1, 1)))


SOFT3 = (np.eye(3) / 3 - 1 / 9).tolist()  # the second derivatives of logsumexp at equal elements

# (name, function of a vector, point, gradient, Hessian)
SMOOTH = [
    ("logaddexp, equal", of_pair(xp.logaddexp), [0, 0], [.5, .5], [[.25, -.25], [-.25, .25]]),
    ("logaddexp, equal and large", of_pair(xp.logaddexp), [200, 200], [.5, .5], [[.25, -.25], [-.25, .25]]),
    ("logaddexp, one is -inf", of_pair(xp.logaddexp), [-INF, 1], [0, 1], [[0, 0], [0, 0]]),
    ("logaddexp, one is inf", of_pair(xp.logaddexp), [1, INF], [0, 1], [[0, 0], [0, 0]]),
    ("logaddexp of one", lambda v: xp.logaddexp(v[0], 1.0), [1], [.5], [[.25]]),
    ("logaddexp of itself", lambda v: xp.logaddexp(v[0], v[0]), [3], [1], [[0]]),
    ("logaddexp2, equal", lambda v: fnp.logaddexp2(v[0], v[1]), [1, 1], [.5, .5],
     (math.log(2) / 4 * np.array([[1, -1], [-1, 1]])).tolist()),
    ("logsumexp, equal", nn.logsumexp, [1, 1, 1], [1 / 3] * 3, SOFT3),
    ("logsumexp, one is -inf", nn.logsumexp, [1, 1, -INF], [.5, .5, 0],
     [[.25, -.25, 0], [-.25, .25, 0], [0, 0, 0]]),
    ("softmax, equal", lambda v: nn.softmax(v)[0], [0, 0], [.25, -.25], [[0, 0], [0, 0]]),
    ("log_softmax, equal", lambda v: nn.log_softmax(v)[0], [1, 1], [.5, -.5], [[-.25, .25], [.25, -.25]]),
    ("hypot, on the first axis", of_pair(xp.hypot), [3, 0], [1, 0], [[0, 0], [0, 1 / 3]]),
    ("hypot, on the second axis", of_pair(xp.hypot), [0, -3], [0, -1], [[1 / 3, 0], [0, 0]]),
    ("hypot, equal", of_pair(xp.hypot), [1, -1], [.5 ** .5, -.5 ** .5], (.5 ** 1.5 * np.ones((2, 2))).tolist()),
    ("hypot, large", of_pair(xp.hypot), [3e200, 4e200], [.6, .8], [[0, 0], [0, 0]]),
    ("hypot, both zero", of_pair(xp.hypot), [0, 0], [0, 0], None),
    ("vector_norm, a zero", xp.linalg.vector_norm, [3, 0], [1, 0], [[0, 0], [0, 1 / 3]]),
    ("matrix_norm, a zero", column(xp.linalg.matrix_norm), [3, 0], [1, 0], [[0, 0], [0, 1 / 3]]),
    ("matrix_norm, all zero", column(xp.linalg.matrix_norm), [0, 0], [0, 0], None),
    ("var, at the mean", xp.var, [1, 2, 3], [-2 / 3, 0, 2 / 3], ((np.eye(3) - 1 / 3) * 2 / 3).tolist()),
    ("var, equal", xp.var, [2, 2], [0, 0], [[.5, -.5], [-.5, .5]]),
    ("std, at the mean", xp.std, [-1, 1], [-.5, .5], [[0, 0], [0, 0]]),
    ("square of abs", lambda v: xp.square(v[0]), [0], [0], [[2]]),
    ("pow 2", lambda v: v[0] ** 2, [0], [0], [[2]]),
    ("pow 2.0", lambda v: v[0] ** 2.0, [0], [0], [[2]]),
    ("pow 3", lambda v: v[0] ** 3, [0], [0], [[0]]),
    ("pow 1", lambda v: v[0] ** 1, [0], [1], [[0]]),
    ("pow 0", lambda v: v[0] ** 0, [0], [0], [[0]]),
    ("power of two, equal", of_pair(fnp.power), [1, 1], [1, 0], [[0, 1], [1, 0]]),
    ("float_power", lambda v: fnp.float_power(v[0], 2), [0], [0], [[2]]),
    ("prod, a zero", xp.prod, [2, 0, 3], [0, 6, 0], [[0, 3, 0], [3, 0, 2], [0, 2, 0]]),
    ("prod, two zeros", xp.prod, [0, 0, 3], [0, 0, 0], [[0, 3, 0], [3, 0, 0], [0, 0, 0]]),
    ("cumulative_prod, a zero", lambda v: xp.cumulative_prod(v)[-1], [2, 0, 3], [0, 6, 0],
     [[0, 3, 0], [3, 0, 2], [0, 2, 0]]),
    ("det, singular", lambda v: xp.linalg.det(fnp.reshape(v, (2, 2))), [1, 1, 1, 1], [1, -1, -1, 1],
     [[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]]),
    ("vecdot of itself", lambda v: xp.vecdot(v, v), [0, 1], [0, 2], [[2, 0], [0, 2]]),
    ("vdot of itself", lambda v: fnp.vdot(v, v), [0, 1], [0, 2], [[2, 0], [0, 2]]),
    ("outer", lambda v: xp.sum(fnp.outer(v, v)), [0, 0], [0, 0], [[2, 2], [2, 2]]),
    ("cov", lambda v: fnp.cov(fnp.reshape(v, (1, -1)))[0, 0], [2, 2], [0, 0], [[1, -1], [-1, 1]]),
    ("sinc, 0", lambda v: fnp.sinc(v[0]), [0], [0], [[-math.pi ** 2 / 3]]),
    ("sinc, 1", lambda v: fnp.sinc(v[0]), [1], [-1], [[2]]),
    ("sinc, near 0", lambda v: fnp.sinc(v[0]), [.125],
     [math.cos(math.pi / 8) * 8 - 64 / math.pi * math.sin(math.pi / 8)], None),
    ("sigmoid", lambda v: nn.sigmoid(v[0]), [0], [.25], [[0]]),
    ("softplus", lambda v: nn.softplus(v[0]), [0], [.5], [[.25]]),
    ("silu", lambda v: nn.silu(v[0]), [0], [.5], [[.5]]),
    ("mish", lambda v: nn.mish(v[0]), [0], [.6], [[.64]]),
    ("gelu", lambda v: nn.gelu(v[0], approximate=False), [0], [.5], [[2 * PHI]]),
    ("gelu by tanh", lambda v: nn.gelu(v[0]), [0], [.5], [[2 * PHI]]),
    ("tanh", lambda v: xp.tanh(v[0]), [0], [1], [[0]]),
    ("log1p", lambda v: xp.log1p(v[0]), [0], [1], [[-1]]),
    ("expm1", lambda v: xp.expm1(v[0]), [0], [1], [[1]]),
    ("atan2, on the axis", of_pair(xp.atan2), [0, 1], [1, 0], [[0, -1], [-1, 0]]),
    ("interp of a line, at a point", lambda v: fnp.interp(v, [0.0, 1.0, 2.0], [0.0, 2.0, 4.0])[0], [1], [2], [[0]]),
    ("quantile of a line, at a point", lambda v: fnp.quantile(xp.asarray([0.0, 1, 2], dtype="float64"), v[0]), [.5],
     [2], [[0]]),
    ("median, equal", fnp.median, [1, 1], [.5, .5], [[0, 0], [0, 0]]),
    ("average", lambda v: fnp.average(v, weights=[1.0, 3.0]), [0, 0], [.25, .75], [[0, 0], [0, 0]]),
    ("nansum", lambda v: fnp.nansum(v) ** 2, [0, NAN], [0, 0], [[2, 0], [0, 0]]),
    ("nanmean", fnp.nanmean, [0, 2], [.5, .5], [[0, 0], [0, 0]]),
    ("trapezoid", lambda v: fnp.trapezoid(v * v), [0, 0], [0, 0], [[1, 0], [0, 1]]),
    ("maximum of equals is mean", of_pair(lambda a, b: xp.maximum(a, b) + xp.minimum(a, b)), [1, 1], [1, 1],
     [[0, 0], [0, 0]]),
    ("abs of max and min", lambda v: xp.max(v) + xp.min(v), [1, 1], [1, 1], [[0, 0], [0, 0]]),
    ("multiply at", lambda v: xp.sum(v.at[0].multiply(v[0])), [0, 1], [0, 1], [[2, 0], [0, 0]]),
    ("add at", lambda v: xp.sum(v.at[0].add(v[0]) ** 2), [0, 0], [0, 0], [[8, 0], [0, 2]]),
    ("cross", lambda v: xp.sum(xp.linalg.cross(v, v * v)), [0, 0, 0], [0, 0, 0], [[0] * 3] * 3),
    ("layer_norm", lambda v: nn.layer_norm(v, xp.ones_like(v), v * 0, eps=1.0)[0], [0, 0], [.5, -.5],
     [[0, 0], [0, 0]]),
    ("fmod", lambda v: fnp.fmod(v[0], 2.0), [-3], [1], [[0]]),
    ("divide", of_pair(xp.divide), [0, 1], [1, 0], [[0, -1], [-1, 0]]),
    ("matrix_power", lambda v: xp.linalg.matrix_power(fnp.reshape(v, (1, 1)), 2)[0, 0], [0], [0], [[2]]),
    ("fft", lambda v: xp.sum(xp.real(xp.fft.fft(v + 0j) * xp.conj(xp.fft.fft(v + 0j)))), [0, 0], [0, 0],
     [[4, 0], [0, 4]]),
]


@pytest.mark.parametrize("case", SMOOTH, ids=[c[0] for c in SMOOTH])
def test_derivatives(case):
    _, f, point, gradient, hessian = case
    x = xp.asarray(point, dtype="float64")
    np.testing.assert_allclose(np.asarray(fx.grad(f)(x)), gradient, rtol=1e-10, atol=1e-12)
    if hessian is not None:
        np.testing.assert_allclose(np.asarray(fx.hessian(f)(x)), hessian, rtol=1e-10, atol=1e-12)


def test_complex_norms():
    z = xp.asarray([3 + 4j, 0], dtype="complex128")
    for f in (lambda z: xp.linalg.matrix_norm(fnp.reshape(z, (1, -1))), xp.linalg.vector_norm):
        assert float(f(z)) == 5
    assert float(xp.var(xp.asarray([1j, -1j], dtype="complex128"))) == 1


def test_values_at_extremes():
    """The values that NumPy has, also at infinities and NaN."""
    special = [-INF, -3e38, -1.0, -0.0, 1e-30, 2.5, 90.0, 3e38, INF, NAN]
    a, b = (v.ravel() for v in np.meshgrid(np.float32(special), np.float32(special)))
    with np.errstate(all="ignore"):
        for name in ("logaddexp", "logaddexp2", "hypot", "fmod"):
            ours = np.asarray(getattr(fnp, name)(fx.array(a), fx.array(b)))
            np.testing.assert_allclose(ours, getattr(np, name)(a, b), rtol=4e-7, atol=1e-37, err_msg=name)
    assert float(xp.logaddexp(0.0, -20.0)) == pytest.approx(math.log1p(math.exp(-20)), rel=1e-6)
