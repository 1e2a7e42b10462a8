# SPDX-License-Identifier: Apache-2.0
"""Answers for trace, kron, matrix_power, diagonals and norm: NumPy in double precision, rounded once."""
import numpy as np
from oracle import DTYPES, Fixtures

FLOATS = ["f64", "f32", "f16", "bf16", "c64", "c128"]
FACTORED = ["f64", "f32", "c64", "c128"]
# A decomposition rounds after each op: in narrow types a handful of them.
REL = {"f16": 4, "bf16": 4}


def wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64
                    if x.dtype.name in ("float64", "float32", "float16", "bfloat16") else x.dtype)


def case(f, name, call, fn, d, *shapes, real=False):
    xs = [f.normal(d, s) for s in shapes]
    y = np.asarray(fn(*[wide(x) for x in xs]))
    dtype = xs[0].real.dtype if real and d[0] == "c" else xs[0].dtype
    f.case(f"{name}_{d}", call, dict(zip("ab", xs)), [y.astype(dtype)], rel=REL.get(d, 16))


def kron(a, b):
    """Of the last two axes; the leading ones broadcast."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    y = np.einsum("...ij,...kl->...ikjl", a, b)
    return y.reshape(*lead, a.shape[-2] * b.shape[-2], a.shape[-1] * b.shape[-1])


def main():
    with Fixtures("matrix") as f:
        for d in FLOATS + ["i32", "u8"]:
            case(f, "trace", "trace(a)", lambda a: np.trace(a, axis1=-2, axis2=-1), d, (2, 3, 4))
            case(f, "kron", "kron(a, b)", np.kron, d, (2, 3), (3, 2))
            case(f, "kron_vectors", "kron(a, b)", np.kron, d, (2,), (3,))
            case(f, "kron_batch", "kron(a, b)", kron, d, (2, 1, 2, 2), (3, 1, 2))
        for d in FLOATS + ["i32", "bool"]:
            case(f, "diag_extract", "diag_extract(a)", lambda a: np.diagonal(a, axis1=-2, axis2=-1), d, (2, 4, 3))
            case(f, "diag_set", "diag_set(a)", lambda a: np.eye(3, dtype=a.dtype) * a[..., None, :] if a.dtype != bool
                 else
                 np.eye(3, dtype=bool) & a[..., None, :], d, (2, 3))
        for d in FACTORED:
            for n in (-3, -1, 0, 1, 2, 7):
                case(f, f"matrix_power_{n}".replace("-", "minus_"), f"matrix_power(a, n={n})",
                     lambda a: np.linalg.matrix_power(a, n), d, (2, 3, 3))
        for d in FLOATS:
            for ord, name in ((2, "two"), (1, "one"), (0, "zero"), (3, "three"), (0.5, "half"), (-1, "minus_one"),
                              (np.inf, "inf"), (-np.inf, "minus_inf")):
                case(f, f"norm_{name}", f"norm(a, ord={ord})", lambda a: np.linalg.norm(a.ravel(), ord), d, (2, 3),
                     real=True)
            case(f, "norm_axis", "norm(a, axes=[-2], keep_dims=true)",
                 lambda a: np.linalg.norm(a, axis=-2, keepdims=True), d, (2, 3, 2), real=True)
        # Squares would overflow, or vanish.
        f.case("norm_large", "norm(a)", {"a": np.array([3e200, -4e200])}, [np.array(5e200)], ulp=2)
        f.case("norm_small", "norm(a)", {"a": np.array([3e-200, 4e-200])}, [np.array(5e-200)], ulp=2)
        f.case("norm_large_f16", "norm(a)", {"a": np.array([3000, 4000], np.float16)}, [np.array(5000, np.float16)],
               ulp=2)
        f.case("norm_zeros", "norm(a, axes=[1])", {"a": np.zeros((2, 3))}, [np.zeros(2)])
        f.case("norm_nothing", "norm(a, axes=[1])", {"a": np.zeros((2, 0))}, [np.zeros(2)])
        f.case("norm_inf", "norm(a)", {"a": np.array([1, -np.inf])}, [np.array(np.inf)])
        f.case("norm_nan", "norm(a, ord=3)", {"a": np.array([1, np.nan])}, [np.array(np.nan)])


if __name__ == "__main__":
    main()
