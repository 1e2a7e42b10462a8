# SPDX-License-Identifier: Apache-2.0
"""Oracle of the unary family. Floats: mpmath, special values NumPy. Complex: mpmath, on the branch cuts Python's cmath.
Integers: Python's own. Differences accepted: two units in the last place of f64 for what the C library computes."""
import cmath

import mpmath as mp
import numpy as np
from oracle import DTYPES, Fixtures
from precise import holomorphic, inf, nan, points, unary_cases
from rounding import FLOATS, INTS, SIGNED, limits, rounded, wide, wrapped

np.seterr(all="ignore")
ANY, POSITIVE, INSIDE, ABOVE = (-4, 4), (0.05, 9), (-1, 1), (1, 9)

# op: mpmath, NumPy, interval, extra points
FUNCTIONS = {
    "exp": (mp.exp, np.exp, ANY, [1e-8, -20, 11, 89, -88, 710, -745.5, 1e300]),
    "exp2": (lambda x: mp.mpf(2) ** x, np.exp2, ANY, [1e-8, -14.5, 15, 127.5, -149, 1024, -1074]),
    "expm1": (mp.expm1, np.expm1, ANY, [1e-300, -1e-10, 1e-4, -40, 11, 710]),
    "log": (mp.log, np.log, POSITIVE, [1, 1 + 2.0**-7, 1e-7, 65504, 5e-324, 1.7e308, -1]),
    "log2": (lambda x: mp.log(x, 2), np.log2, POSITIVE, [1, 8, 0.125, 1 - 2.0**-8, 5e-324, -1]),
    "log10": (mp.log10, np.log10, POSITIVE, [1, 1000, 0.1, 5e-324, 1e308, -1]),
    "log1p": (mp.log1p, np.log1p, (-0.9, 4), [1e-300, -1e-10, 1e-4, -1, -2, 65504]),
    "sqrt": (mp.sqrt, np.sqrt, POSITIVE, [4, 2, 1e-7, 65504, 5e-324, 1.7e308, -1]),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), lambda x: 1 / np.sqrt(x), POSITIVE, [4, 2, 1e-7, 65504, 5e-324, -1]),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), np.cbrt, ANY, [8, -27, 1e-7, 65504, 5e-324, -1.7e308]),
    "reciprocal": (lambda x: 1 / x, np.reciprocal, ANY, [3, 1e-7, 65504, 1e-310, 1.7e308]),
    "square": (lambda x: x * x, np.square, ANY, [255, 1e-7, 300, 1e155, 1e-170]),
    "sin": (mp.sin, np.sin, ANY, [1e-8, 3.140625, 100, 65504, 1e22]),
    "cos": (mp.cos, np.cos, ANY, [1e-8, 1.5703125, 100, 65504, 1e22]),
    "tan": (mp.tan, np.tan, ANY, [1e-8, 1.5703125, 100, 65504, 1e22]),
    "asin": (mp.asin, np.arcsin, INSIDE, [1e-8, 1, -1, 1 - 2.0**-8, 1.5]),
    "acos": (mp.acos, np.arccos, INSIDE, [1e-8, 1, -1, 1 - 2.0**-8, 1.5]),
    "atan": (mp.atan, np.arctan, ANY, [1e-8, 65504, -1e300]),
    "sinh": (mp.sinh, np.sinh, ANY, [1e-8, 12, -90, 710]),
    "cosh": (mp.cosh, np.cosh, ANY, [1e-8, 12, -90, 710]),
    "tanh": (mp.tanh, np.tanh, ANY, [1e-8, 12, -90, 710]),
    "asinh": (mp.asinh, np.arcsinh, ANY, [1e-8, 65504, -1e300]),
    "acosh": (mp.acosh, np.arccosh, ABOVE, [1, 1 + 2.0**-7, 65504, 1e300, 0.5]),
    "atanh": (mp.atanh, np.arctanh, INSIDE, [1e-8, 1, -1, 1 - 2.0**-8, 1.5]),
}

EXACT = {"neg": np.negative, "abs": np.abs, "sign": lambda x: np.where(x == 0, x, np.sign(x)), "floor": np.floor,
         "ceil": np.ceil, "trunc": np.trunc,
         "round": np.rint, "round_away": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)}

# op: mpmath, and for those with cuts a function that knows signed zeros
COMPLEX = {
    "exp": (mp.exp, cmath.exp), "log": (mp.log, cmath.log), "sqrt": (mp.sqrt, cmath.sqrt),
    "rsqrt": (lambda z: 1 / mp.sqrt(z), None), "square": (lambda z: z * z, None),
    "reciprocal": (lambda z: 1 / z, None), "neg": (lambda z: -z, None), "sign": (lambda z: z / abs(z), None),
    "sin": (mp.sin, cmath.sin), "cos": (mp.cos, cmath.cos), "tan": (mp.tan, cmath.tan),
    "asin": (mp.asin, cmath.asin), "acos": (mp.acos, cmath.acos), "atan": (mp.atan, cmath.atan),
    "sinh": (mp.sinh, cmath.sinh), "cosh": (mp.cosh, cmath.cosh), "tanh": (mp.tanh, cmath.tanh),
    "asinh": (mp.asinh, cmath.asinh), "acosh": (mp.acosh, cmath.acosh), "atanh": (mp.atanh, cmath.atanh),
    "log1p": (lambda z: mp.log(1 + z), None), "expm1": (lambda z: mp.exp(z) - 1, None),
}

CUT = [complex(a, b) for a in (-2.5, 2.5) for b in (0.0, -0.0)] + [complex(a, b) for b in (-2.5, 2.5)
                                                                   for a in (0.0, -0.0)]


def float_cases(f):
    for op, (fn, plain, interval, extra) in FUNCTIONS.items():
        unary_cases(f, op, fn, plain, interval, extra)
    steps = [0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.25, -0.75, 3, -3, 0.0, -0.0, nan, inf, -inf, 1025, -2047]
    for op, fn in EXACT.items():
        for d in FLOATS:
            x = points(f, d, -6, 6, 6, steps)
            f.case(f"{op}_{d}", f"{op}(x)", {"x": x}, [rounded(d, fn(wide(x)))])
    # Above 2^52 every double is an integer; just below 0.5 adding a half would round up.
    x = np.array([0.49999999999999994, -0.49999999999999994, 4503599627370495.5, 4503599627370497.0, 1e300, 5e-324])
    for op, want in {"floor": [0, -1, 4503599627370495, 4503599627370497, 1e300, 0],
                     "ceil": [1, -0.0, 4503599627370496, 4503599627370497, 1e300, 1],
                     "trunc": [0, -0.0, 4503599627370495, 4503599627370497, 1e300, 0],
                     "round": [0, -0.0, 4503599627370496, 4503599627370497, 1e300, 0],
                     "round_away": [0, -0.0, 4503599627370496, 4503599627370497, 1e300, 0]}.items():
        f.case(f"{op}_edges", f"{op}(x)", {"x": x}, [np.array(want, np.float64)])
    x = np.array([0.5, 1.5, 2.5, -0.5], np.float32)
    f.case("round_identity", "round(x, ste=identity)", {"x": x}, [np.rint(x)])
    for d in FLOATS:
        empty = np.zeros((2, 0), DTYPES[d])
        f.case(f"exp_empty_{d}", "exp(x)", {"x": empty}, [empty])
        f.case(f"exp_scalar_{d}", "exp(x)", {"x": np.zeros((), DTYPES[d])}, [np.ones((), DTYPES[d])])


def int_cases(f):
    for d in INTS:
        lo, hi = limits(d)
        x = np.array([lo, lo + 1, 0, 1, 11, 100, hi - 1, hi] + ([-1, -11] if d in SIGNED else []), DTYPES[d])
        values = [int(v) for v in x]
        for op, fn in (("neg", lambda v: -v), ("abs", abs), ("sign", lambda v: (v > 0) - (v < 0)),
                       ("square", lambda v: v * v)):
            f.case(f"{op}_{d}", f"{op}(x)", {"x": x}, [wrapped(d, [fn(v) for v in values])])


def complex_cases(f):
    for d, ulp in (("c64", 1), ("c128", 8)):
        near = [1e-9 + 2e-9j, -3e-12 + 1e-11j, 2e-5j - 2e-10, -2e-20 + 2e-10j]
        for op, (fn, plain) in COMPLEX.items():
            z = f.normal(d, (2, 4)) * DTYPES[d].type(1.5)
            f.case(f"{op}_{d}", f"{op}(z)", {"z": z}, [holomorphic(d, fn, z)], ulp=ulp)
            if plain:
                z = np.array(CUT, DTYPES[d])
                f.case(f"{op}_cut_{d}", f"{op}(z)", {"z": z}, [rounded(d, np.array([plain(v) for v in CUT]))], ulp=ulp)
            if op in ("expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh"):
                z = np.array(near, DTYPES[d])
                f.case(f"{op}_near_zero_{d}", f"{op}(z)", {"z": z}, [holomorphic(d, fn, z)], ulp=ulp)
        z = np.array([0, complex(-0.0, 0.0), 3 - 4j, -1e-30j, 1e30 + 1e30j, complex(nan, 0)], DTYPES[d])
        want = np.array([0, complex(-0.0, 0.0), 0.6 - 0.8j, -1j, (1 + 1j) * np.sqrt(0.5), complex(nan, nan)])
        f.case(f"sign_special_{d}", "sign(z)", {"z": z}, [rounded(d, want)], ulp=2)
        part = {"c64": "f32", "c128": "f64"}[d]
        z = np.append(f.normal(d, (7,)),
                      [0, 3 - 4j, complex(inf, nan), complex(nan, -inf), complex(nan, 1),
                       1e30 + 1e30j]).astype(DTYPES[d])
        f.case(f"abs_{d}", "abs(z)", {"z": z}, [rounded(part, np.hypot(wide(z).real, wide(z).imag))], ulp=1)
        empty = np.zeros((0, 3), DTYPES[d])
        f.case(f"abs_empty_{d}", "abs(z)", {"z": empty}, [empty.real])
    # log1p where 1 + z lies on the unit circle, so that the real part is a difference.
    z = np.array([-1e-10 + 1.4142135623e-5j, -0.5 + 0.8660254037844386j, -0.02 + 0.19899748742132398j])
    f.case("log1p_circle_real", "real(log1p(z))", {"z": z}, [holomorphic("c128", lambda w: mp.log(1 + w), z).real],
           ulp=4)


if __name__ == "__main__":
    with Fixtures("unary") as f:
        float_cases(f)
        int_cases(f)
        complex_cases(f)
