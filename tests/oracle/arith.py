# SPDX-License-Identifier: Apache-2.0
"""Oracle of the arith family. Floats: NumPy in float64, rounded once. Integers: Python's own. Complex quotients and
fma: exact fractions. nextafter: NumPy and JAX."""
from fractions import Fraction

import jax
import numpy as np
from oracle import DTYPES, Fixtures
from rounding import FLOATS, INTS, SIGNED, exactly, limits, rounded, wide, wrapped

jax.config.update("jax_enable_x64", True)
nan, inf = np.nan, np.inf
np.seterr(all="ignore")

# ulps: the C library and NumPy may differ in the last place of a transcendental function.
FLOAT_OPS = {"add": (np.add, 0), "sub": (np.subtract, 0), "mul": (np.multiply, 0), "div": (np.divide, 0),
             "max": (np.maximum, 0), "min": (np.minimum, 0), "rem": (np.fmod, 0), "mod": (np.mod, 0),
             "pow": (np.power, 2), "atan2": (np.arctan2, 2)}


def truncated(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def int_div(a, b):
    return -1 if b == 0 else truncated(a, b)


def int_rem(a, b):
    return a if b == 0 else a - b * truncated(a, b)


def int_mod(a, b):
    return a if b == 0 else a % b


def int_pow(a, b):
    return a**b if b >= 0 else (a if b % 2 else 1) if a in (1, -1) else 0


INT_OPS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": int_div,
           "rem": int_rem, "mod": int_mod, "max": max, "min": min, "pow": int_pow}


def pairs(fn, a, b):
    """fn over broadcast integer arrays, in Python integers."""
    a, b = np.broadcast_arrays(a, b)
    return np.array([fn(int(x), int(y)) for x, y in zip(a.reshape(-1), b.reshape(-1))], dtype=object).reshape(a.shape)


def float_cases(f):
    for d in FLOATS:
        special_a = np.array([[nan], [inf], [-inf], [0.0], [-0.0], [-2.5]]).astype(DTYPES[d])
        special_b = np.array([nan, inf, 0.0, 1.5]).astype(DTYPES[d])
        for op, (fn, ulp) in FLOAT_OPS.items():
            a, b = f.normal(d, (2, 3)), f.normal(d, (3,))
            for tag, x, y in (("", a, b), ("_special", special_a, special_b)):
                f.case(f"{op}{tag}_{d}", f"{op}(a, b)", {"a": x, "b": y}, [rounded(d, fn(wide(x), wide(y)))], ulp=ulp)
        big = np.array([3.0, 1e-3, 1.0, -1.0]).astype(DTYPES[d]) * np.array(8192.0).astype(DTYPES[d])
        for op in ("mul", "div", "add"):
            y = big[::-1].copy()
            f.case(f"{op}_range_{d}", f"{op}(a, b)", {"a": big, "b": y},
                   [rounded(d, FLOAT_OPS[op][0](wide(big), wide(y)))])
        empty = np.zeros((0, 2), DTYPES[d])
        f.case(f"sub_empty_{d}", "sub(a, b)", {"a": empty, "b": empty[:, :1]}, [empty])
    tie = np.array([0.0, 1.0, -1.0, 0.0, -2.0, 2.0, 0.5])
    exp = np.array([0.0, nan, inf, -1.0, 3.0, 0.5, -inf])
    for d in ("f64", "f32"):
        a, b = tie.astype(DTYPES[d]), exp.astype(DTYPES[d])
        f.case(f"pow_edges_{d}", "pow(a, b)", {"a": a, "b": b}, [rounded(d, np.power(wide(a), wide(b)))], ulp=1)
    a, b = np.array([5.5, -5.5, 5.5, -5.5, 6.0, -6.0]), np.array([2.0, 2.0, -2.0, -2.0, -3.0, 3.0])
    for op in ("rem", "mod"):
        f.case(f"{op}_signs", f"{op}(a, b)", {"a": a, "b": b}, [FLOAT_OPS[op][0](a, b)])


def int_cases(f):
    for d in INTS:
        lo, hi = limits(d)
        low = -1 if d in SIGNED else hi - 1
        a = np.array([[lo], [hi], [low], [0], [7]], dtype=DTYPES[d])
        b = np.array([lo, hi, low, 0, 3 % hi], dtype=DTYPES[d])[:4]
        c = np.array([3, 2, 1, 5], dtype=DTYPES[d])
        for op, fn in INT_OPS.items():
            if op == "pow":  # keep Python's exact powers small
                b_pow = np.array([0, 1, 13, 6], dtype=DTYPES[d])
                f.case(f"pow_{d}", "pow(a, b)", {"a": a, "b": b_pow}, [wrapped(d, pairs(fn, a, b_pow))])
                continue
            f.case(f"{op}_extreme_{d}", f"{op}(a, b)", {"a": a, "b": b}, [wrapped(d, pairs(fn, a, b))])
            f.case(f"{op}_{d}", f"{op}(a, b)", {"a": a, "b": c}, [wrapped(d, pairs(fn, a, c))])
        x, y, z = f.normal(d, (2, 3)), f.normal(d, (3,)), a[0]
        f.case(f"fma_{d}", "fma(a, b, c)", {"a": x, "b": y, "c": z},
               [wrapped(d, x.astype(object) * y.astype(object) + z.astype(object))])
        f.case(f"clamp_{d}", "clamp(lo, x, hi)", {"lo": c[2], "x": a, "hi": c[:1]}, [np.clip(a, c[2], c[0])])
        f.case(f"add_n_{d}", "add_n(a, b, c)", {"a": a, "b": b, "c": z},
               [wrapped(d, a.astype(object) + b.astype(object) + z.astype(object))])
    for d in SIGNED:
        a = np.array([[1], [-1], [0], [2], [-3]], dtype=DTYPES[d])
        b = np.array([-1, -2, limits(d)[0], 0], dtype=DTYPES[d])
        f.case(f"pow_negative_{d}", "pow(a, b)", {"a": a, "b": b}, [wrapped(d, pairs(int_pow, a, b))])
    a, b = np.array([[True], [False]]), np.array([True, False])
    for op, fn in (("add", np.logical_or), ("max", np.logical_or), ("mul", np.logical_and), ("min", np.logical_and)):
        f.case(f"{op}_bool", f"{op}(a, b)", {"a": a, "b": b}, [fn(a, b)])
    f.case("add_n_bool", "add_n(a, b, c)", {"a": a, "b": b, "c": a[1]}, [a | b | a[1]])
    f.case("clamp_bool", "clamp(lo, x, hi)", {"lo": a[1], "x": a, "hi": b}, [(a | a[1]) & b])


def ternary_cases(f):
    for d in FLOATS:
        lo, hi = np.array([[-0.5], [nan], [2.0]]).astype(DTYPES[d]), np.array(0.5).astype(DTYPES[d])
        x = np.array([-inf, -1.0, -0.5, 0.25, 0.5, inf, nan]).astype(DTYPES[d])
        f.case(f"clamp_{d}", "clamp(lo, x, hi)", {"lo": lo, "x": x, "hi": hi},
               [rounded(d, np.minimum(np.maximum(wide(x), wide(lo)), wide(hi)))])

        a, b, c = f.normal(d, (2, 4)), f.normal(d, (4,)), f.normal(d, (2, 1))
        exact = [[Fraction(float(a[i, k])) * Fraction(float(b[k])) + Fraction(float(c[i, 0])) for k in range(4)]
                 for i in range(2)]
        f.case(f"fma_{d}", "fma(a, b, c)", {"a": a, "b": b, "c": c}, [exactly(d, exact)])
        a, b = np.array([inf, inf, nan, 0.0, 2.0]).astype(DTYPES[d]), np.array([0.0, 1.0, 1.0, -1.0,
                                                                                3.0]).astype(DTYPES[d])
        c = np.array([1.0, -inf, 1.0, -0.0, inf]).astype(DTYPES[d])
        f.case(f"fma_special_{d}", "fma(a, b, c)", {"a": a, "b": b, "c": c}, [rounded(d, wide(a) * wide(b) + wide(c))])

        # Sums of f16 and bf16 are kept in f32 and rounded at the end.
        parts = [f.normal(d, (2, 3)), f.normal(d, (3,)), f.normal(d, (2, 1)), f.normal(d, ())]
        held = np.float32 if d in ("f16", "bf16") else np.float64
        total = parts[0].astype(held)
        for p in parts[1:]:
            total = total + p.astype(held)
        f.case(f"add_n_{d}", "add_n(a, b, c, d)", dict(zip("abcd", parts)), [rounded(d, total.astype(np.float64))])

    # Products that end on a tie of the narrow format, which the addend breaks from far below: 2^24+1 = 24929 * 673.
    a, b = np.float32([24929, 24929, -24929, 3]), np.float32([673 * 2.0**-24, 673 * 2.0**-24, 673 * 2.0**-24,
                                                              2.0**-149])
    c = np.float32([2.0**-60, -(2.0**-60), -(2.0**-60), -(2.0**-149)])
    exact = [Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)) for p, q, r in zip(a, b, c)]
    f.case("fma_tie_f32", "fma(a, b, c)", {"a": a, "b": b, "c": c}, [exactly("f32", exact)])
    a = np.array([1 + 2.0**-30, 1 + 2.0**-52, 1e308])
    b = np.array([1 - 2.0**-30, 1 - 2.0**-52, 10.0])
    c = np.array([-1.0, -1.0, -1.7e308])
    exact = [Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)) for p, q, r in zip(a[:2], b, c)]
    f.case("fma_cancel_f64", "fma(a, b, c)", {"a": a, "b": b, "c": c}, [np.append(exactly("f64", exact), inf)])
    x = np.array([65504.0, 65504.0, -65504.0, -65504.0]).astype(np.float16).reshape(4, 1)
    f.case("add_n_f16_range", "add_n(a, b, c, d)", dict(zip("abcd", x)), [np.float16([0])])


def nextafter_cases(f):
    for d in FLOATS:
        info = jax.numpy.finfo(DTYPES[d])
        a = np.array([1, 1, -1, 0, -0.0, 0, inf, -inf, 2, nan, 1, float(info.max), float(info.tiny)]).astype(DTYPES[d])
        b = np.array([2, -2, 0, 1, -1, -0.0, 0, -inf, inf, 1, nan, inf, 0]).astype(DTYPES[d])
        want = np.asarray(jax.lax.nextafter(a, b)) if d == "bf16" else np.nextafter(a, b)
        f.case(f"nextafter_{d}", "nextafter(a, b)", {"a": a, "b": b}, [want])


def quotient(a, b):
    """Exact quotient of finite complex numbers, each part rounded once."""
    ar, ai, br, bi = (Fraction(float(v)) for v in (a.real, a.imag, b.real, b.imag))
    den = br * br + bi * bi
    return complex(float((ar * br + ai * bi) / den), float((ai * br - ar * bi) / den))


def complex_cases(f):
    for d in ("c64", "c128"):
        a, b = f.normal(d, (2, 3)), f.normal(d, (3,))
        x, y = np.broadcast_arrays(wide(a), wide(b))
        for op, fn in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            f.case(f"{op}_{d}", f"{op}(a, b)", {"a": a, "b": b}, [rounded(d, fn(x, y))], rel=1)
        want = np.array([quotient(p, q) for p, q in zip(x.reshape(-1), y.reshape(-1))]).reshape(x.shape)
        f.case(f"div_{d}", "div(a, b)", {"a": a, "b": b}, [rounded(d, want)], rel=4)
        f.case(f"pow_{d}", "pow(a, b)", {"a": a, "b": b}, [rounded(d, np.asarray(jax.lax.pow(x, y)))], rel=16)
        a = np.array([0, 0, 0, 1j, -1, 2, 4, 1 + 1j]).astype(DTYPES[d])
        b = np.array([0, 1, -1, 2, 0.5, 1j, -0.5, 0]).astype(DTYPES[d])
        f.case(f"pow_edges_{d}", "pow(a, b)", {"a": a, "b": b}, [rounded(d, np.asarray(jax.lax.pow(wide(a), wide(b))))],
               rel=8)
        a = np.array([1 + 1j, 1, 0, complex(inf, 0), 1 + 1j, complex(nan, 1), -2j]).astype(DTYPES[d])
        b = np.array([0, 0, 0, 1, complex(inf, 1), 1, complex(0, inf)]).astype(DTYPES[d])
        f.case(f"div_special_{d}", "div(a, b)", {"a": a, "b": b}, [rounded(d, np.divide(wide(a), wide(b)))])
        f.case(f"mul_special_{d}", "mul(a, b)", {"a": a, "b": b}, [rounded(d, np.multiply(wide(a), wide(b)))])
        parts = [f.normal(d, (2, 3)), f.normal(d, (3,)), f.normal(d, ())]
        f.case(f"add_n_{d}", "add_n(a, b, c)", dict(zip("abc", parts)), [rounded(d, sum(wide(p) for p in parts))],
               rel=1)
    # Neither the squares of the parts nor their sums fit; the quotients do.
    a = np.array([1e300 + 1e300j, 1e308 + 1e308j, 1e-300 + 1e-300j, 4e-320 + 8e-320j, 1e300 + 1e-300j, 1e-10 - 1j])
    b = np.array([1e300 - 1e300j, 1.7e308 + 1.7e308j, 1e-300 - 2e-300j, 4e-320 + 0j, 1 + 0j, 1e300 + 1e-300j])
    want = np.array([quotient(p, q) for p, q in zip(a, b)])
    for k in range(a.size):
        f.case("div_range_c128", "div(a, b)", {"a": a[k:k + 1], "b": b[k:k + 1]}, [want[k:k + 1]], rel=4)


if __name__ == "__main__":
    with Fixtures("arith") as f:
        float_cases(f)
        int_cases(f)
        ternary_cases(f)
        nextafter_cases(f)
        complex_cases(f)
