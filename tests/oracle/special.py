# SPDX-License-Identifier: Apache-2.0
"""Oracle of the special family: mpmath on ordinary points, SciPy at poles and special values. The Hurwitz zeta function
is summed here with 60 digits, as mpmath's own is accurate in the absolute sense only."""
import mpmath as mp
import numpy as np
import scipy.special as sp
from oracle import DTYPES, Fixtures
from precise import inf, nan, points, real, unary_cases
from rounding import FLOATS

np.seterr(all="ignore")


def hurwitz(s, q):
    """Sum of (q+k)^-s: terms up to a = q + n >= 60 + s, then Euler-Maclaurin with 40 Bernoulli terms."""
    n = max(0, int(60 + s - q))
    a = q + n
    tail, factor = a / (s - 1) + mp.mpf(1) / 2, s / (2 * a)
    for j in range(1, 41):
        tail += mp.bernoulli(2 * j) * factor
        factor *= (s + 2 * j - 1) * (s + 2 * j) / ((2 * j + 1) * (2 * j + 2) * a * a)
    power = (lambda b: b ** -int(s)) if s == int(s) else (lambda b: b ** -s)
    return mp.fsum(power(q + k) for k in range(n)) + power(a) * tail


def polygamma(n, x):
    return mp.digamma(x) if n == 0 else (-1) ** (int(n) + 1) * mp.factorial(int(n)) * hurwitz(n + 1, x)


def zeta_plain(s, q):
    """SciPy's, which also has values for some NaN operands and, at poles in q, for s < 1."""
    return sp.zeta(s, q) if s >= 1 and not np.isnan(q) else nan


def lgamma_plain(x):
    """SciPy's, which has -inf at -inf; C and JAX have +inf."""
    return inf if x == -inf else sp.gammaln(x)


def polygamma_plain(n, x):
    if n < 0 or n != np.floor(n):
        return nan
    if n == 0:
        return sp.digamma(x)
    return nan if x == -inf else float(sp.polygamma(int(n), x))


BESSEL = [1e-8, -1e-300, 8, 12.5, 29.984375, 30, -31, 700, 65504, 1e300]


def bessel(order):
    def value(x):
        if abs(x) < 1e6:
            return mp.besseli(order, x) * mp.exp(-abs(x))
        return mp.sign(x) ** order / mp.sqrt(2 * mp.pi * abs(x)) * (1 + (1 - 4 * order) / (8 * abs(x)))
    return value


def unary(f):
    unary_cases(f, "erf", mp.erf, sp.erf, (-3, 3), [1e-8, 1e-300, 6, -27], 2)
    unary_cases(f, "erfc", mp.erfc, sp.erfc, (-3, 3), [1e-8, 6, 9.5, 26.5, -27], 4)
    unary_cases(f, "erf_inv", mp.erfinv, sp.erfinv, (-1, 1), [1, -1, 1.5, 1e-8, 1e-300, 1 - 2.0**-8, 2.0**-53 - 1], 4)
    unary_cases(f, "lgamma", lambda x: mp.log(abs(mp.gamma(x))), lgamma_plain, (0.01, 8),
                [1, 2, 1.0078125, 1.9921875, 100, 1e-300, 65504, -0.5, -2.75, -1, -7], 8)
    unary_cases(f, "digamma", mp.digamma, sp.digamma, (0.01, 12),
                [1.4609375, 1.46875, 1e-8, 65504, 1e300, -0.25, -1.75, -9.875, -1, -7], 8)
    # Beside the root the value is small, but not its relative accuracy.
    x = np.array([1.4616321449683622, 1.4616321449683624, 1.46163, 1.47])
    f.case("digamma_root", "digamma(x)", {"x": x}, [real("f64", mp.digamma, sp.digamma, x)], ulp=8)
    for order, plain in ((0, sp.i0e), (1, sp.i1e)):
        unary_cases(f, f"bessel_i{order}e", bessel(order), plain, (-40, 40), BESSEL, 8)


def binary(f):
    for d in FLOATS:
        ulp = 8 if d == "f64" else 1
        s, q = points(f, d, 1.05, 9, 4, [2, 1.0078125]).reshape(-1, 1), points(f, d, 0.1, 30, 2, [1, 0.5])
        f.case(f"zeta_{d}", "zeta(x, q)", {"x": s, "q": q}, [real(d, hurwitz, zeta_plain, s, q)], ulp=ulp)
        s, q = np.array([[2], [3], [7]], DTYPES[d]), np.array([-0.25, -0.5, -2.5, -1.875, 100, 1e-3], DTYPES[d])
        f.case(f"zeta_whole_{d}", "zeta(x, q)", {"x": s, "q": q}, [real(d, hurwitz, zeta_plain, s, q)], ulp=ulp)
        s, q = np.array([[1], [0.5], [2], [2.5], [nan], [-1]], DTYPES[d]), np.array([nan, inf, 0, -1], DTYPES[d])
        f.case(f"zeta_special_{d}", "zeta(x, q)", {"x": s, "q": q}, [real(d, hurwitz, zeta_plain, s, q)], ulp=ulp)
        n, x = np.array([[0], [1], [2], [3], [6]], DTYPES[d]), points(f, d, 0.1, 20, 2, [1, 0.5])
        f.case(f"polygamma_{d}", "polygamma(n, x)", {"n": n, "x": x}, [real(d, polygamma, polygamma_plain, n, x)],
               ulp=ulp)
        n, x = np.array([[1], [2], [5]], DTYPES[d]), np.array([-0.25, -1.5, -3.875], DTYPES[d])
        f.case(f"polygamma_negative_{d}", "polygamma(n, x)", {"n": n, "x": x},
               [real(d, polygamma, polygamma_plain, n, x)], ulp=ulp)
        n, x = np.array([[0], [1], [2], [-1], [0.5], [nan]], DTYPES[d]), np.array([nan, inf, 0, -2], DTYPES[d])
        f.case(f"polygamma_special_{d}", "polygamma(n, x)", {"n": n, "x": x},
               [real(d, polygamma, polygamma_plain, n, x)], ulp=ulp)
    n, x = np.array([30.0, 100.0, 170.0, 175.0]), np.array([[2.5], [20.0], [0.75]])
    f.case("polygamma_high", "polygamma(n, x)", {"n": n, "x": x},
           [real("f64", polygamma, lambda a, b: float(polygamma(mp.mpf(a), mp.mpf(b))), n, x)], ulp=16)
    s, q = np.array([[2.0], [2.5]]), np.array([1e5, 1e100, 1e300])  # q^-s underflows before the sum does
    f.case("zeta_far", "zeta(x, q)", {"x": s, "q": q}, [real("f64", hurwitz, lambda a, b: 0.0, s, q)], ulp=8)
    s, q = np.array([inf, inf, inf, 1e300]), np.array([0.5, 1.0, 2.0, 3.0])
    f.case("zeta_steep", "zeta(x, q)", {"x": s, "q": q}, [np.array([inf, 1.0, 0.0, 0.0])])


if __name__ == "__main__":
    with Fixtures("special") as f:
        unary(f)
        binary(f)
