# SPDX-License-Identifier: Apache-2.0
"""Answers for spmv and sparse_solve: scipy.sparse for products and its direct solver for systems, in double
precision."""
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from oracle import DTYPES, Fixtures
from matrix import wide

FACTORED = ["f64", "f32", "c64", "c128"]


def pattern(rng, n, extra):
    """A diagonal that is permuted, so that the matrix is regular, and some more places."""
    rows = np.concatenate([np.arange(n), rng.integers(0, n, extra)])
    cols = np.concatenate([rng.permutation(n), rng.integers(0, n, extra)])
    return rows, cols


def attrs(rows, cols, n):
    return f"rows={[int(r) for r in rows]}, cols={[int(c) for c in cols]}, n={n}"


def main():
    with Fixtures("sparse") as f:
        for d in FACTORED + ["f16", "bf16"]:
            rows, cols = f.rng.integers(0, 5, 9), f.rng.integers(0, 4, 9)
            for shape in ((4,), (4, 3)):
                v, x = f.normal(d, (9,)), f.normal(d, shape)
                a = scipy.sparse.coo_array((wide(v), (rows, cols)), (5, 4)).tocsr()
                f.case(f"spmv_{len(shape)}_{d}", f"spmv(v, x, {attrs(rows, cols, 5)})", {"v": v, "x": x},
                       [(a @ wide(x)).astype(DTYPES[d])], rel=4 if d in ("f16", "bf16") else 16)
        for d in FACTORED:
            for n, extra, shape in ((1, 0, (1,)), (6, 5, (6,)), (6, 8, (6, 2)), (20, 15, (20,))):
                rows, cols = pattern(f.rng, n, extra)
                v, b = f.normal(d, (n + extra,)), f.normal(d, shape)
                v[:n] = (v[:n] + 4 * np.sign(v[:n].real)).astype(DTYPES[d])
                a = scipy.sparse.coo_array((wide(v), (rows, cols)), (n, n)).tocsc()
                y = scipy.sparse.linalg.splu(a).solve(wide(b))
                f.case(f"sparse_solve_{n}_{len(shape)}_{d}", f"sparse_solve(v, b, {attrs(rows, cols, n)})",
                       {"v": v, "b": b}, [y.astype(DTYPES[d])], rel=256)


if __name__ == "__main__":
    main()
