# SPDX-License-Identifier: Apache-2.0
"""Answers for eigenvalues, singular values, pseudoinverses and matrix exponentials, from NumPy, SciPy and mpmath,
rounded once. Vectors get Fluxion's phase: the first component of at least half the largest modulus of its column is
real and positive. Spectra with repeated values have no definite vectors: there what is made of them is compared."""
import math

import mpmath
import numpy as np
import scipy.linalg
from oracle import DTYPES, Fixtures

FLOATS = ["f64", "f32", "c128", "c64"]


def wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def narrow(y, dtype):
    """y, real or complex, with the precision of the dtype."""
    small = dtype in ("f32", "c64")
    if np.iscomplexobj(y):
        return y.astype(np.complex64 if small else np.complex128)
    return y.astype(np.float32 if small else np.float64)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def anchors(v):
    """For each column the component that fixes its phase, as an array of one row."""
    size = np.abs(v)
    large = size >= 0.5 * size.max(axis=-2, keepdims=True)
    return np.take_along_axis(v, np.argmax(large, axis=-2)[..., None, :], axis=-2)


def gap_of(w):
    """By how much errors of a matrix come out larger in its vectors: its size over its smallest gap."""
    gaps = np.abs(np.subtract.outer(w, w))[~np.eye(len(w), dtype=bool)]
    return np.max(np.abs(w)) / np.min(gaps) if len(w) > 1 else 1.0


def units(n, amplified=1.0):
    """A backward error of n units of the matrix is what both sides may have."""
    return 4 * math.ceil(n * amplified)


def hermitian_cases(f):
    for d in FLOATS:
        for shape in [(1, 1), (2, 2), (3, 3), (5, 5), (2, 3, 3)]:
            a = f.normal(d, shape)
            w, v = np.linalg.eigh((wide(a) + adjoint(wide(a))) / 2)
            at = anchors(v)
            worst = max(gap_of(row) for row in w.reshape(-1, shape[-1]))
            f.case(f"eigh_{d}_{shape[-1]}", "eigh(a)", {"a": a},
                   [narrow(w, d), narrow(v * np.conj(at) / np.abs(at), d)], rel=units(shape[-1], worst))
    f.graphs("graph rebuilt(a: f64[4, 4]) {\n  w, v = eigh(a)\n"
             "  return w, matmul(mul(v, reshape(w, shape=[1, 4])), transpose(v)), matmul(transpose(v), v)\n}")
    q = np.linalg.qr(f.normal("f64", (4, 4)))[0]
    for name, w in [("double", [1, 2, 2, 5]), ("triple", [-3, -3, -3, 7]), ("equal", [2, 2, 2, 2]),
                    ("none", [0, 0, 0, 0])]:
        a = q @ np.diag(np.array(w, float)) @ q.T
        f.case(f"eigh_repeated_{name}", "custom_fn(a, fwd_body=@rebuilt)", {"a": a}, [np.array(w, float), a, np.eye(4)],
               rel=32)


def general_cases(f):
    def case(name, a, d, amplified):
        w = np.linalg.eigvals(wide(a)).astype(np.complex128)
        w = np.where(np.abs(w.imag) < 1e-13 * np.abs(w).max(), w.real, w)
        # Equal real parts of a conjugate pair may differ in the last digit here.
        order = sorted(range(len(w)), key=lambda k: (round(w[k].real, 10), w[k].imag))
        f.case(name, "eig(a)", {"a": a}, [narrow(w[order], d)], rel=units(len(w), amplified))
    for d in FLOATS:
        for n in [1, 2, 3, 5, 6]:
            a = f.normal(d, (n, n))
            _, left, right = scipy.linalg.eig(wide(a), left=True)
            bent = 1 / np.min(np.abs(np.sum(np.conj(left) * right, axis=0)))
            case(f"eig_{d}_{n}", a, d, bent)
    case("eig_rotation", np.array([[0., -1], [1, 0]]), "f64", 1)
    case("eig_permutation", np.roll(np.eye(5), 1, axis=0), "f64", 1)
    case("eig_triangular", np.triu(np.arange(1., 17).reshape(4, 4)), "f64", 16)
    case("eig_diagonal", np.diag([3., -1, 2]), "f64", 1)
    case("eig_zero", np.zeros((3, 3)), "f64", 1)


def singular_cases(f):
    for d in FLOATS:
        for shape in [(1, 1), (3, 2), (2, 3), (4, 4), (2, 3, 2), (5, 3)]:
            a = f.normal(d, shape)
            u, s, vt = np.linalg.svd(wide(a), full_matrices=False)
            at = anchors(u)
            phase = np.conj(at) / np.abs(at)
            worst = max(max(gap_of(row), row[0] / row[-1]) for row in s.reshape(-1, s.shape[-1]))
            f.case(f"svd_{d}_{shape[-2]}x{shape[-1]}", "svd(a)", {"a": a},
                   [narrow(u * phase, d), narrow(s, d), narrow(np.swapaxes(np.conj(phase), -1, -2) * vt, d)],
                   rel=units(max(shape), worst))
            f.case(f"cond_{d}_{shape[-2]}x{shape[-1]}", "cond(a)", {"a": a}, [narrow(s[..., 0] / s[..., -1], d)],
                   rel=units(max(shape), worst))
    f.graphs("graph remade(a: f64[4, 3]) {\n  u, s, vt = svd(a)\n"
             "  return s, matmul(mul(u, reshape(s, shape=[1, 3])), vt), matmul(transpose(u), u), matmul(vt, "
             "transpose(vt))\n}")
    q, r = (np.linalg.qr(f.normal("f64", (n, n)))[0] for n in (4, 3))
    for name, s in [("double", [5, 2, 2]), ("equal", [1, 1, 1]), ("rank2", [3, 1, 0]), ("rank1", [3, 0, 0]),
                    ("none", [0, 0, 0])]:
        a = q[:, :3] @ np.diag(np.array(s, float)) @ r
        f.case(f"svd_repeated_{name}", "custom_fn(a, fwd_body=@remade)", {"a": a},
               [np.array(s, float), a, np.eye(3), np.eye(3)], rel=32)


def inverse_cases(f):
    for d in FLOATS:
        for shape in [(1, 1), (3, 2), (2, 3), (3, 3), (2, 4, 2)]:
            a = f.normal(d, shape)
            s = np.linalg.svd(wide(a), compute_uv=False)
            worst = np.max(s[..., 0] / s[..., -1])
            f.case(f"pinv_{d}", "pinv(a)", {"a": a}, [narrow(np.linalg.pinv(wide(a)), d)], rel=units(max(shape), worst))
        a, b, c = f.normal(d, (4, 2)), f.normal(d, (4,)), f.normal(d, (4, 3))
        solution = lambda a, b: np.linalg.lstsq(wide(a), wide(b), rcond=None)[0]
        f.case(f"lstsq_vector_{d}", "lstsq(a, b)", {"a": a, "b": b}, [narrow(solution(a, b), d)], rel=256)
        f.case(f"lstsq_matrix_{d}", "lstsq(a, b)", {"a": a, "b": c}, [narrow(solution(a, c), d)], rel=256)
        wide_a = f.normal(d, (2, 3))
        f.case(f"lstsq_shortest_{d}", "lstsq(a, b)", {"a": wide_a, "b": b[:2]}, [narrow(solution(wide_a, b[:2]), d)],
               rel=256)
        for shape in [(3, 3), (4, 2)]:
            a = f.normal(d, shape)
            u, p = scipy.linalg.polar(wide(a))
            f.case(f"polar_{d}", "polar(a)", {"a": a}, [narrow(u, d), narrow(p, d)],
                   rel=units(4, np.linalg.cond(wide(a))))
    low = np.array([[1., 2, 3], [2, 4, 6], [1, 1, 1]])
    f.case("pinv_rank_deficient", "pinv(a)", {"a": low}, [np.linalg.pinv(low, rcond=1e-12)], rel=64)
    f.case("pinv_zero", "pinv(a)", {"a": np.zeros((2, 3))}, [np.zeros((3, 2))])
    f.case("pinv_cut", "pinv(a, rcond=0.2)", {"a": np.diag([10., 1, 3])}, [np.diag([0.1, 0, 1 / 3])], rel=2)
    f.case("pinv_uncut", "pinv(a, rcond=0)", {"a": np.diag([10., 1e-20])}, [np.diag([0.1, 1e20])], rel=2)


def exponential(a):
    """In 60 digits: SciPy loses three of sixteen where squaring grows fast."""
    with mpmath.workdps(60):
        return np.array([[complex(x) if np.iscomplexobj(a) else float(x) for x in row]
                         for row in mpmath.expm(mpmath.matrix(a.tolist()), method="taylor").tolist()])


def exponential_cases(f):
    for d in FLOATS:
        for n, scale in [(1, 1), (2, 1), (3, 0.01), (3, 4), (4, 20)]:
            a = (f.normal(d, (n, n)) * scale).astype(DTYPES[d])
            y = exponential(wide(a))
            f.case(f"expm_{d}_{n}", "expm(a)", {"a": a}, [narrow(y, d)],
                   rel=units(4 * n, scipy.linalg.expm_cond(wide(a))))
        f.case(f"expm_batch_{d}", "expm(a)", {"a": (b := f.normal(d, (2, 1, 2, 2)))},
               [narrow(scipy.linalg.expm(wide(b)), d)], rel=64)
    f.case("expm_zero", "expm(a)", {"a": np.zeros((3, 3))}, [np.eye(3)])
    f.case("expm_nilpotent", "expm(a)", {"a": np.triu(np.ones((3, 3)), 1)},
           [np.array([[1., 1, 1.5], [0, 1, 1], [0, 0, 1]])], rel=4)
    f.case("expm_rotation", "expm(a)", {"a": np.array([[0., -1], [1, 0]])},
           [np.array([[math.cos(1), -math.sin(1)], [math.sin(1), math.cos(1)]])], rel=8)


with Fixtures("spectrum") as f:
    hermitian_cases(f)
    general_cases(f)
    singular_cases(f)
    inverse_cases(f)
    exponential_cases(f)
