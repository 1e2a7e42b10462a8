# SPDX-License-Identifier: Apache-2.0
"""Answers for matmul, dot_general, einsum and lora_matmul: NumPy's matmul and einsum and JAX's dot_general, in float64
and rounded once; integers modulo 2^bits, bool as or of ands."""
import jax
import numpy as np
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
ALL = list(DTYPES)
SOME = ["f64", "f32", "f16", "bf16", "c64", "i8", "u64", "bool"]
# Sums of at most a dozen terms of size one: their rounding errors stay below these many ulps of the largest result.
TOLERANCE = {"f64": {"rel": 8}, "f32": {"rel": 8}, "f16": {"rel": 1}, "bf16": {"rel": 1}, "c64": {"rel": 8},
             "c128": {"rel": 8}}


def exactly(fn, *xs):
    """fn in a wide dtype, rounded to that of the operands."""
    dtype = xs[0].dtype
    if dtype == bool:
        return fn(*[x.astype(np.int64) for x in xs]) != 0
    if dtype.kind in "iu":
        with np.errstate(over="ignore"):
            return fn(*[x.astype(np.uint64) for x in xs]).astype(dtype)
    return np.asarray(fn(*[x.astype(np.complex128 if dtype.kind == "c" else np.float64) for x in xs])).astype(dtype)


def product_case(f, name, call, fn, d, *shapes):
    xs = [f.normal(d, s) for s in shapes]
    keys = "abcd"[:len(xs)]
    f.case(f"{name}_{d}", f"{call[0]}({', '.join(keys)}{call[1]})", dict(zip(keys, xs)), [exactly(fn, *xs)],
           **TOLERANCE.get(d, {}))


def matmul_cases(f):
    for d in ALL:
        product_case(f, "matmul", ("matmul", ""), np.matmul, d, (3, 4), (4, 2))
    for d in SOME:
        product_case(f, "matmul_batch", ("matmul", ""), np.matmul, d, (2, 1, 2, 3), (2, 3, 2))
        product_case(f, "matmul_shared", ("matmul", ""), np.matmul, d, (2, 2, 3), (3, 2))
        product_case(f, "matmul_nothing", ("matmul", ""), np.matmul, d, (2, 0), (0, 3))
        product_case(f, "matmul_empty", ("matmul", ""), np.matmul, d, (0, 2), (2, 3))
    a = np.array([[np.inf, 0, 1], [np.nan, 1, 2], [-np.inf, -0.0, 3], [1, 2, 3]])
    b = np.array([[0.0, 1, -1], [np.inf, 1, 2], [1, np.inf, -0.0]])
    with np.errstate(invalid="ignore"):
        for d in ("f64", "f32", "f16", "bf16"):
            xs = {"a": a.astype(DTYPES[d]), "b": b.astype(DTYPES[d])}
            f.case(f"matmul_special_{d}", "matmul(a, b)", xs, [np.einsum("ij,jk->ik", a, b).astype(DTYPES[d])])
    # 2048 + 1 + 1 in f16 is 2048 when every step is rounded to f16.
    a, b = np.array([[2048, 1, 1]], np.float16), np.ones((3, 1), np.float16)
    f.case("matmul_wide_f16", "matmul(a, b)", {"a": a, "b": b}, [np.array([[2050]], np.float16)])
    # An intermediate sum above the largest f16 comes back into range.
    a, b = np.array([[60000, 60000, -60000]], np.float16), np.ones((3, 1), np.float16)
    f.case("matmul_range_f16", "matmul(a, b)", {"a": a, "b": b}, [np.array([[60000]], np.float16)])
    a = np.array([[127, 127], [-128, -128], [-128, 1]], np.int8)
    f.case("matmul_wraps_i8", "matmul(a, b)", {"a": a, "b": a[:2].T.copy()}, [exactly(np.matmul, a, a[:2].T)])
    a = np.array([[255, 255], [1, 254]], np.uint8)
    f.case("matmul_wraps_u8", "matmul(a, b)", {"a": a, "b": a}, [exactly(np.matmul, a, a)])
    a = np.array([[2**63 - 1, -2**63], [-1, 3]], np.int64)
    f.case("matmul_wraps_i64", "matmul(a, b)", {"a": a, "b": a}, [exactly(np.matmul, a, a)])
    a = np.array([[2**64 - 1, 2**63], [5, 3]], np.uint64)
    f.case("matmul_wraps_u64", "matmul(a, b)", {"a": a, "b": a}, [exactly(np.matmul, a, a)])


def dot_general(lc, rc, lb, rb):
    def fn(l, r):
        return np.asarray(jax.lax.dot_general(l, r, ((lc, rc), (lb, rb))))
    return fn, ("dot_general", f", lc={lc}, rc={rc}, lb={lb}, rb={rb}")


def dot_general_cases(f):
    rows = {
        "matrix": (([1], [0], [], []), (3, 4), (4, 2)),
        "outer": (([], [], [], []), (2, 3), (2,)),
        "scalar": (([], [], [], []), (), (3,)),
        "all": (([0, 1], [1, 0], [], []), (2, 3), (3, 2)),
        "crossed": (([2, 0], [0, 1], [], []), (2, 2, 3), (3, 2, 2)),
        "batch": (([2], [1], [1, 0], [0, 2]), (2, 3, 2), (3, 2, 2)),
        "diagonal": (([], [], [0], [1]), (3,), (2, 3)),
        "nothing": (([1], [0], [], []), (2, 0), (0, 3)),
    }
    for name, (axes, *shapes) in rows.items():
        fn, call = dot_general(*axes)
        for d in (ALL if name == "batch" else SOME):
            product_case(f, f"dot_general_{name}", call, fn, d, *shapes)
    fn, _ = dot_general([2], [1], [0], [0])
    product_case(f, "dot_general_negative", ("dot_general", ", lc=[-1], rc=[-2], lb=[-3], rb=[-3]"), fn, "f32",
                 (2, 2, 3), (2, 3, 2))


def einsum_cases(f):
    rows = {
        "matmul": ("ij,jk->ik", (3, 4), (4, 2)),
        "implicit": ("ij,jk", (3, 4), (4, 2)),
        "implicit_order": ("bA,Ac", (2, 3), (3, 2)),
        "transpose": ("ba", (2, 3)),
        "trace": ("ii", (3, 3)),
        "diagonal": ("ii->i", (3, 3)),
        "diagonals": ("iijj->ji", (2, 2, 3, 3)),
        "sum": ("ij->", (2, 3)),
        "row_sums": (" i j -> i ", (2, 3)),
        "outer": ("i,j->ji", (3,), (2,)),
        "scalar": (",i->i", (), (3,)),
        "three": ("ij,jk,kl->il", (2, 3), (3, 2), (2, 2)),
        "bilinear": ("bi,ioj,bj->bo", (2, 2), (2, 3, 2), (2, 2)),
        "dots": ("...ij,...jk->...ik", (2, 1, 2, 2), (3, 2, 2)),
        "dots_last": ("i...->...i", (2, 3, 2)),
        "dots_middle": ("i...j,j->i...", (2, 3, 2), (2,)),
        "dots_implicit": ("...b,...a", (2, 2), (1, 3)),
        "dots_none": ("...i,i...->...", (3,), (3,)),
        "dots_trace": ("i...i", (2, 3, 2)),
        "nothing": ("ij,jk->ik", (2, 0), (0, 3)),
        "empty": ("ij,jk->ik", (0, 2), (2, 3)),
    }
    for name, (eq, *shapes) in rows.items():
        for d in (ALL if name == "dots" else SOME if name in ("three", "diagonal") else ["f32", "i32"]):
            product_case(f, f"einsum_{name}", ("einsum", f', eq="{eq}"'), lambda *xs: np.einsum(eq, *xs), d, *shapes)
    x = np.array([[-0.0, np.nan], [np.inf, 1]], np.float32)
    f.case("einsum_moves", 'einsum(x, eq="ij->ji")', {"x": x}, [x.T.copy()])
    x = np.array(3.5, np.float32)
    f.case("einsum_no_axes", 'einsum(x, eq="")', {"x": x}, [x])


def lora_cases(f):
    for scale in (1, 0.5):
        for d in ("f64", "f32", "f16", "bf16", "c64", "c128"):
            product_case(f, "lora", ("lora_matmul", f", scale={scale}"),
                         lambda x, w, a, b: x @ w + scale * (x @ a) @ b, d, (2, 3), (3, 4), (3, 2), (2, 4))
    product_case(f, "lora_rank_0", ("lora_matmul", ""), lambda x, w, a, b: x @ w, "f32", (2, 3), (3, 2), (3, 0), (0, 2))


with Fixtures("product") as fixtures:
    matmul_cases(fixtures)
    dot_general_cases(fixtures)
    einsum_cases(fixtures)
    lora_cases(fixtures)
