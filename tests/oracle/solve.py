# SPDX-License-Identifier: Apache-2.0
"""Answers for linear systems: NumPy and SciPy in double precision, rounded once."""
import numpy as np
import scipy.linalg
from oracle import DTYPES, Fixtures

ALL = ["f64", "f32", "c64", "c128"]
REL = 64  # condition numbers below 10, three eliminations of at most five rows


def raised(f, d, *shape, by=3.0):
    return (f.normal(d, shape) * 0.5 + by * np.eye(shape[-1])).astype(DTYPES[d])


def wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def case(f, name, call, fn, **xs):
    y = fn(*[wide(x) for x in xs.values()])
    f.case(f"{name}", call, xs, [np.asarray(y).astype(next(iter(xs.values())).dtype)], rel=REL)


def solves(f):
    for d in ALL:
        case(f, f"solve_vector_{d}", "solve(a, b)", np.linalg.solve, a=raised(f, d, 5, 5), b=f.normal(d, (5,)))
        case(f, f"solve_pivoted_{d}", "solve(a, b)", np.linalg.solve,
             a=f.normal(d, (4, 4)) + np.eye(4)[::-1].astype(DTYPES[d]) * 3, b=f.normal(d, (4, 2)))
        case(f, f"solve_batch_{d}", "solve(a, b)", np.linalg.solve, a=raised(f, d, 2, 3, 3), b=f.normal(d, (2, 3, 2)))
        case(f, f"solve_broadcast_{d}", "solve(a, b)", np.linalg.solve, a=raised(f, d, 3, 3), b=f.normal(d, (2, 3, 1)))
        case(f, f"dense_solve_{d}", "dense_solve(a, b)", np.linalg.solve, a=raised(f, d, 3, 3), b=f.normal(d, (3,)))
        case(f, f"batched_dense_solve_{d}", "batched_dense_solve(a, b)",
             lambda a, b: np.linalg.solve(a, b[..., None])[..., 0], a=raised(f, d, 2, 3, 3), b=f.normal(d, (2, 3)))
        case(f, f"inv_{d}", "inv(a)", np.linalg.inv, a=raised(f, d, 2, 4, 4))
    case(f, "solve_nothing", "solve(a, b)", np.linalg.solve, a=np.zeros((0, 0)), b=np.zeros((0, 2)))
    case(f, "solve_for_nothing", "solve(a, b)", np.linalg.solve, a=np.eye(2), b=np.zeros((2, 0)))
    case(f, "solve_larger", "solve(a, b)", np.linalg.solve, a=f.normal("f64", (12, 12)) + 4 * np.eye(12),
         b=f.normal("f64", (12,)))


def triangles(f):
    for d in ALL:
        for lower in (True, False):
            for trans in ("none", "transpose", "adjoint"):
                for unit in (True, False):
                    t, b = raised(f, d, 3, 3), f.normal(d, (3, 2))
                    attrs = f"lower={str(lower).lower()}, trans={trans}, unit_diagonal={str(unit).lower()}"
                    number = ["none", "transpose", "adjoint"].index(trans)
                    fn = lambda t, b: scipy.linalg.solve_triangular(t, b, lower=lower, trans=number, unit_diagonal=unit)
                    name = f"triangular_{'lower' if lower else 'upper'}_{trans}{'_unit' if unit else ''}_{d}"
                    case(f, name, f"solve_triangular(t, b, {attrs})", fn, t=t, b=b)
                    if d in ("f64", "c128"):
                        def right(t, b):
                            half = np.tril(t) if lower else np.triu(t)
                            if unit:
                                half = half - np.diag(np.diag(half)) + np.eye(3)
                            m = [half, half.T, half.conj().T][number]
                            return b.T @ np.linalg.inv(m)
                        f.case(f"right_{name}", f"solve_triangular(t, b, {attrs}, left_side=false)",
                               {"t": t, "b": b.T.copy()}, [right(t, b)], rel=REL)


def by_factors(f):
    for d in ALL:
        a, b = (f.normal(d, (3, 3)) + np.eye(3)[::-1] * 3).astype(DTYPES[d]), f.normal(d, (3, 2))
        lu, pivots = scipy.linalg.lu_factor(a)
        perm = np.arange(3)
        for k, p in enumerate(pivots):
            perm[[k, p]] = perm[[p, k]]
        for number, trans in enumerate(("none", "transpose", "adjoint")):
            y = scipy.linalg.lu_solve((wide(lu), pivots), wide(b), trans=number).astype(DTYPES[d])
            f.case(f"lu_solve_{trans}_{d}", f"lu_solve(l, p, b, trans={trans})",
                   {"l": lu, "p": perm.astype(np.int32), "b": b}, [y], rel=REL)


if __name__ == "__main__":
    with Fixtures("solve") as f:
        solves(f)
        triangles(f)
        by_factors(f)
