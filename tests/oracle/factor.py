# SPDX-License-Identifier: Apache-2.0
"""Answers for factorisations and determinants: LAPACK by way of SciPy and NumPy in double precision, rounded once."""
import numpy as np
import scipy.linalg
from oracle import DTYPES, Fixtures
from solve import ALL, raised, wide

REL = 64


def rounded(d, *ys):
    return [np.asarray(y).astype(DTYPES[d]) for y in ys]


def lu_of(a):
    lu, pivots = scipy.linalg.lapack.get_lapack_funcs(("getrf",), (a,))[0](a)[:2]
    perm = np.arange(a.shape[0])
    for k, p in enumerate(pivots):
        perm[[k, p]] = perm[[p, k]]
    return lu, pivots.astype(np.int32), perm.astype(np.int32)


def positive_qr(a):
    q, r = np.linalg.qr(a)
    d = np.diagonal(r)
    phase = d / np.abs(d)
    return q * phase, r * phase.conj()[:, None]


def factors(f):
    for d in ALL:
        for m, n in ((1, 1), (4, 4), (5, 3), (3, 5)):
            a = f.normal(d, (m, n))
            lu, pivots, perm = lu_of(wide(a))
            f.case(f"lu_{m}_{n}_{d}", "lu(a)", {"a": a}, [lu.astype(DTYPES[d]), pivots, perm], rel=REL)
            q, r = positive_qr(wide(a))
            f.case(f"qr_{m}_{n}_{d}", "qr(a)", {"a": a}, rounded(d, q, r), rel=REL)
        a = raised(f, d, 2, 3, 3)
        herm = (wide(a) + np.swapaxes(wide(a), -1, -2).conj()) / 2
        l = np.linalg.cholesky(herm)
        f.case(f"cholesky_{d}", "cholesky(a)", {"a": a}, rounded(d, l), rel=REL)
        f.case(f"cholesky_upper_{d}", "cholesky(a, lower=false)", {"a": a}, rounded(d, np.swapaxes(l, -1, -2).conj()),
               rel=REL)


def determinants(f):
    for d in ALL:
        a = f.normal(d, (2, 4, 4))
        sign, size = np.linalg.slogdet(wide(a))
        f.case(f"det_{d}", "det(a)", {"a": a}, rounded(d, np.linalg.det(wide(a))), rel=REL)
        f.case(f"slogdet_{d}", "slogdet(a)", {"a": a}, [sign.astype(DTYPES[d]), size.astype(a.real.dtype)], rel=REL)
        f.case(f"logdet_{d}", "logdet(a)", {"a": a}, [size.astype(a.real.dtype)], rel=REL)
        adjugate = np.linalg.det(wide(a))[:, None, None] * np.linalg.inv(wide(a))
        f.case(f"adjugate_{d}", "adjugate(a)", {"a": a}, rounded(d, adjugate), rel=REL)
    # By minors, which singular matrices have too.
    for k, a in enumerate((np.array([[1., 2, 3], [4, 5, 6], [7, 8, 9]]), np.outer([1., 2, 3], [1., 0, -1]),
                           np.zeros((3, 3)),
                           np.array([[0., 1, 2], [0, 3, 4], [0, 5, 6]]), np.array([[0., 0, 0], [1, 2, 3], [4, 5, 7]]))):
        minor = lambda i, j: np.delete(np.delete(a, i, 0), j, 1)
        cofactors = np.array([[(-1)**(i + j)
                               * (minor(i, j)[0, 0] * minor(i, j)[1, 1] - minor(i, j)[0, 1] * minor(i, j)[1, 0])
                               for j in range(3)] for i in range(3)])
        f.case(f"adjugate_singular_{k}", "adjugate(a)", {"a": a}, [cofactors.T], rel=REL)
    f.case("det_nothing", "det(a)", {"a": np.zeros((2, 0, 0))}, [np.ones(2)])
    f.case("slogdet_nothing", "slogdet(a)", {"a": np.zeros((0, 0))}, [np.ones(()), np.zeros(())])
    f.case("slogdet_singular", "slogdet(a)", {"a": np.ones((2, 2))}, [np.zeros(()), np.array(-np.inf)])
    # The determinant itself overflows.
    a = 1e200 * np.array([[2., 1], [1, 3]])
    f.case("slogdet_large", "slogdet(a)", {"a": a}, [np.ones(()), np.array(np.log(5) + 400 * np.log(10))], rel=4)


with Fixtures("factor") as f:
    factors(f)
    determinants(f)
