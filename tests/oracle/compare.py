# SPDX-License-Identifier: Apache-2.0
"""Oracle of the compare family: NumPy; shifts and bit counts by JAX, which defines shifts past the width as we do."""
import operator

import jax
import numpy as np
from oracle import DTYPES, Fixtures
from rounding import FLOATS, INTS, SIGNED, limits, wide

jax.config.update("jax_enable_x64", True)
nan, inf = np.nan, np.inf
RELATIONS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
             "ge": operator.ge}


def relations(f):
    for d in FLOATS + INTS + ["bool"]:
        if d == "bool":
            a, b = np.array([[False], [True]]), np.array([False, True])
        elif d in FLOATS:
            a = np.array([[nan], [inf], [-inf], [0.0], [1.5]]).astype(DTYPES[d])
            b = np.array([nan, inf, -0.0, 1.5]).astype(DTYPES[d])
        else:
            lo, hi = limits(d)
            a, b = np.array([[lo], [hi], [3]], DTYPES[d]), np.array([lo, hi, 2, 3], DTYPES[d])
        for op, fn in RELATIONS.items():
            x, y = (wide(a), wide(b)) if d in FLOATS else (a, b)
            f.case(f"{op}_{d}", f"{op}(a, b)", {"a": a, "b": b}, [fn(x, y)])
    for d in ("c64", "c128"):
        a = np.array([[1 + 2j], [1 - 2j], [complex(nan, 0)], [complex(0, -0.0)]]).astype(DTYPES[d])
        b = np.array([1 + 2j, 1, 0]).astype(DTYPES[d])
        for op in ("eq", "ne"):
            f.case(f"{op}_{d}", f"{op}(a, b)", {"a": a, "b": b}, [RELATIONS[op](a, b)])
    f.case("lt_empty", "lt(a, b)", {"a": np.zeros((0, 3)), "b": np.zeros(3)}, [np.zeros((0, 3), bool)])


def questions(f):
    for d in FLOATS + ["c64", "c128"]:
        x = np.array([0, -0.0, 1e-8, -3, inf, -inf, nan])
        if d[0] == "c":
            x = x[:, None] + 0j
            x = np.concatenate([x, np.array([[complex(1, nan), complex(inf, nan), complex(-2, -inf), 5j, 0, 0, 0]]).T],
                               axis=1)
        x = x.astype(DTYPES[d])
        for op, fn in (("is_finite", np.isfinite), ("is_nan", np.isnan), ("is_inf", np.isinf)):
            f.case(f"{op}_{d}", f"{op}(x)", {"x": x}, [fn(wide(x))])


def logic(f):
    a, b = np.array([[False], [True]]), np.array([False, True])
    for op, fn in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        f.case(f"{op}_bool", f"{op}(a, b)", {"a": a, "b": b}, [fn(a, b)])
    f.case("not_bool", "not(a)", {"a": b}, [~b])


def bits(f):
    for d in INTS:
        lo, hi = limits(d)
        width = 8 * DTYPES[d].itemsize
        a = np.array([[lo], [hi], [hi - 1], [5], [hi // 3]], DTYPES[d])
        b = np.array([lo, hi, 6, 0], DTYPES[d])
        for op, fn in (("bit_and", np.bitwise_and), ("bit_or", np.bitwise_or), ("bit_xor", np.bitwise_xor)):
            f.case(f"{op}_{d}", f"{op}(a, b)", {"a": a, "b": b}, [fn(a, b)])
        n = np.array([0, 1, width - 1, width], DTYPES[d])
        if d in SIGNED:
            n[3], a[2] = -1, -6
        lax = jax.lax
        for op, fn in (("shl", lax.shift_left), ("shr_arith", lax.shift_right_arithmetic),
                       ("shr_logical", lax.shift_right_logical)):
            x, y = np.broadcast_arrays(a, n)
            f.case(f"{op}_{d}", f"{op}(a, b)", {"a": a, "b": n}, [np.asarray(fn(x, y))])
            past = np.array([width, hi], DTYPES[d])
            x, y = np.broadcast_arrays(a, past)
            f.case(f"{op}_past_{d}", f"{op}(a, b)", {"a": a, "b": past}, [np.asarray(fn(x, y))])
        x = np.concatenate([a[:, 0], b, np.array([1], DTYPES[d])])
        for op, fn in (("bit_not", lax.bitwise_not), ("popcount", lax.population_count), ("clz", lax.clz)):
            f.case(f"{op}_{d}", f"{op}(x)", {"x": x}, [np.asarray(fn(x))])


def selections(f):
    for d in FLOATS + INTS + ["bool", "c64", "c128"]:
        c, a, b = f.normal("bool", (2, 3)), f.normal(d, (3,)), f.normal(d, (2, 1))
        f.case(f"where_{d}", "where(c, a, b)", {"c": c, "a": a, "b": b}, [np.where(c, a, b)])
    a, b = np.float32([nan, inf, 1, 2, -0.0]), np.float32([0, 1, nan, -inf, 7])
    for d, c in (("f32", [nan, 0, -0.0, 1e-30, inf]), ("i8", [0, 1, -1, 0, 127]), ("u64", [0, 2**63, 1, 0, 0]),
                 ("f16", [0, nan, 6e-8, 0, -1]), ("c64", [0, 1j, complex(0, nan), -0.0, 1])):
        c = np.array(c).astype(DTYPES[d])
        f.case(f"where_by_{d}", "where(c, a, b)", {"c": c, "a": a, "b": b},
               [np.where(wide(c) != 0 if d[0] in "fc" else c != 0, a, b)])
    f.case("where_empty", "where(c, a, b)", {"c": np.zeros((0, 1), bool), "a": a, "b": np.float32(0)},
           [np.zeros((0, 5), np.float32)])


if __name__ == "__main__":
    with Fixtures("compare") as f:
        relations(f)
        questions(f)
        logic(f)
        bits(f)
        selections(f)
