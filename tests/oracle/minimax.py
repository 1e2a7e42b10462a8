# SPDX-License-Identifier: Apache-2.0
"""Polynomials of src/emit/vector/vector_math_*.c and src/ops/elementwise/special_express.c that are fitted here:
coefficients with the least largest relative error, or those of the interpolation in Chebyshev's nodes, which is close
to it; lowest power first, rounded to the format.

    python3 tests/oracle/minimax.py            prints all of them
    python3 tests/oracle/minimax.py WORD...    those whose name has one of the words
"""
import sys

import mpmath as mp

mp.mp.prec = 240


def rounded(x, bits):
    """To nearest, `bits` bits."""
    m, e = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(m, bits)), int(e) - bits)


def remez(f, weight, powers, low, high, rounds=14):
    """Coefficients of the powers that make max |weight (f - p)| over [low, high] least."""
    n = len(powers)
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / n) for i in range(n + 1)]
    for _ in range(rounds):
        rows = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for i, x in enumerate(points):
            for j, power in enumerate(powers):
                rows[i, j] = x ** power
            rows[i, n] = (-1) ** i / weight(x)
            right[i] = f(x)
        solved = mp.lu_solve(rows, right)
        c = [solved[j] for j in range(n)]

        def error(x):
            return weight(x) * (f(x) - sum(c[j] * x ** p for j, p in enumerate(powers)))

        grid = [low + (high - low) * (1 - mp.cos(mp.pi * i / (40 * n))) / 2 for i in range(40 * n + 1)]
        values = [error(x) for x in grid]
        peaks = []
        for i, v in enumerate(values):
            left = values[i - 1] if i else mp.mpf(0)
            after = values[i + 1] if i + 1 < len(values) else mp.mpf(0)
            if abs(v) >= abs(left) and abs(v) >= abs(after):
                if peaks and mp.sign(peaks[-1][1]) == mp.sign(v):
                    if abs(v) > abs(peaks[-1][1]):
                        peaks[-1] = (grid[i], v)
                else:
                    peaks.append((grid[i], v))
        if len(peaks) < n + 1:
            break
        while len(peaks) > n + 1:
            peaks.pop(0 if abs(peaks[0][1]) < abs(peaks[-1][1]) else -1)
        points = [x for x, _ in peaks]
    return c, max(abs(v) for v in values)


def is_wanted(name):
    return not sys.argv[1:] or any(word in name for word in sys.argv[1:])


def show(name, c, error, bits):
    print(f"{name}: 2^{float(mp.log(error, 2)):.1f}")
    print("   ", ", ".join(hexadecimal(rounded(x, bits), bits) for x in c), flush=True)


def fit(name, f, weight, count, low, high, bits):
    if is_wanted(name):
        c, error = remez(f, weight, list(range(count)), mp.mpf(low), mp.mpf(high))
        show(name, c, error, bits)


def interpolate(name, f, count, low, high, bits):
    """For functions that are expensive, or for which the exchange does not settle."""
    if not is_wanted(name):
        return
    low, high = mp.mpf(low), mp.mpf(high)
    rows, right = mp.matrix(count, count), mp.matrix(count, 1)
    for i in range(count):
        x = (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count))
        for j in range(count):
            rows[i, j] = x ** j
        right[i] = f(x)
    c = list(mp.lu_solve(rows, right))
    error = mp.mpf(0)
    for i in range(61):
        x = low + (high - low) * (1 - mp.cos(mp.pi * i / 60)) / 2
        error = max(error, abs(mp.polyval(c[::-1], x) / f(x) - 1))
    show(name, c, error, bits)


def hexadecimal(x, bits):
    if x == 0:
        return "0x0p0"
    m, e = mp.frexp(abs(x))
    digits = (bits - 1 + 3) // 4
    body = int(mp.ldexp(m * 2 - 1, digits * 4))
    text = f"{body:0{digits}x}".rstrip("0")
    return f"{'-' if x < 0 else ''}0x1{'.' if text else ''}{text}p{int(e) - 1}"


def series(numerators, x):
    return sum(c * x ** i for i, c in enumerate(numerators))


def atan_part(z):
    """(atan(x) - x) / x^3 of z = x^2."""
    if z < mp.mpf(2) ** -40:
        return series([-mp.mpf(1) / 3, mp.mpf(1) / 5, -mp.mpf(1) / 7], z)
    x = mp.sqrt(z)
    return (mp.atan(x) - x) / (x * z)


def asin_part(z):
    if z < mp.mpf(2) ** -40:
        return series([mp.mpf(1) / 6, mp.mpf(3) / 40, mp.mpf(15) / 336], z)
    x = mp.sqrt(z)
    return (mp.asin(x) - x) / (x * z)


def sinh_part(z):
    if z < mp.mpf(2) ** -40:
        return series([mp.mpf(1) / 6, mp.mpf(1) / 120, mp.mpf(1) / 5040], z)
    x = mp.sqrt(z)
    return (mp.sinh(x) - x) / (x * z)


def log2_short(z):
    """log2((1 + s) / (1 - s)) / s of z = s^2."""
    if z < mp.mpf(2) ** -60:
        return 2 / mp.log(2) * (1 + z / 3)
    s = mp.sqrt(z)
    return mp.log((1 + s) / (1 - s), 2) / s


def exp2_short(r):
    return mp.expm1(r * mp.log(2)) / r if abs(r) > mp.mpf(2) ** -60 else mp.log(2)


def atanh_rest(z):
    """(atanh(s) / s - 1 - z / 3) / z^2 of z = s^2."""
    s = mp.sqrt(z)
    return (mp.atanh(s) / s - 1 - z / 3) / z ** 2


def erfc_scaled(z):
    """e^(a^2) erfc(a) (2 a + 1) of z = (a - 3) / (a + 3)."""
    a = 3 * (1 + z) / (1 - z)
    return mp.erfc(a) * mp.exp(a * a) * (1 + 2 * a)


def erf_inv_quotient(w):
    """erf_inv(x) / x of w = -log(1 - x^2)."""
    if w < mp.mpf(10) ** -20:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def bessel_near(order):
    """I(a) / a^order of z = a^2."""
    def value(z):
        if order == 1 and z < mp.mpf(10) ** -30:
            return mp.mpf(1) / 2
        return mp.besseli(order, mp.sqrt(z)) / mp.sqrt(z) ** order
    return value


def bessel_far(order, limit):
    """sqrt(a) e^-a I(a) of v = 2 limit / a - 1."""
    def value(v):
        u, m = (v + 1) / (2 * limit), 4 * order
        if u < mp.mpf(10) ** -9:
            terms = [1, -(m - 1) / mp.mpf(8), (m - 1) * (m - 9) / mp.mpf(128)]
            return series(terms, u) / mp.sqrt(2 * mp.pi)
        return mp.besseli(order, 1 / u) * mp.exp(-1 / u) / mp.sqrt(u)
    return value


def log_gamma_part(t):
    """log gamma(x) / ((x - 1) (x - 2)) of t = x - 2."""
    if abs(t) < mp.mpf(10) ** -25:
        return mp.digamma(2)
    if abs(t + 1) < mp.mpf(10) ** -25:
        return -mp.digamma(1)
    return mp.loggamma(t + 2) / ((t + 1) * t)


def inverse(f):
    return lambda x: 1 / f(x)


def relative(part, function):
    """The weight that makes the error of x + x z p(z) relative to the function."""
    def weight(z):
        if z < mp.mpf(2) ** -40:
            return z if z else mp.mpf(2) ** -60
        x = mp.sqrt(z)
        return x * z / function(x)
    return weight


if __name__ == "__main__":
    fit("atan f32, |x| <= 1", atan_part, relative(atan_part, mp.atan), 9, "1e-30", 1, 24)
    fit("asin f32, |x| <= 1/2", asin_part, relative(asin_part, mp.asin), 5, "1e-30", 0.25, 24)
    fit("atan f64, |x| <= 1", atan_part, relative(atan_part, mp.atan), 19, "1e-30", 1, 53)
    fit("asin f64, |x| <= 1/2", asin_part, relative(asin_part, mp.asin), 12, "1e-30", 0.25, 53)
    fit("sinh f32, |x| <= 1", sinh_part, relative(sinh_part, mp.sinh), 4, "1e-30", 1, 24)
    fit("sinh f64, |x| <= 1", sinh_part, relative(sinh_part, mp.sinh), 7, "1e-30", 1, 53)
    largest = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
    fit("log2_short", log2_short, inverse(log2_short), 5, "1e-30", largest, 53)
    fit("exp2_short", exp2_short, lambda r: r / 2 ** r if r else mp.mpf(2) ** -50, 7, -0.5, 0.5, 53)
    fit("log_pair", atanh_rest, lambda z: z * z, 8, largest / 1000, largest, 53)
    fit("erfc f64, a >= 1/2", erfc_scaled, inverse(erfc_scaled), 24, mp.mpf(-5) / 7, mp.mpf(49) / 61, 53)
    near, root = (lambda t: erf_inv_quotient(t + mp.mpf(5) / 2)), mp.sqrt(5)
    interpolate("erf_inv, w < 5", near, 10, -2.5, 2.5, 24)
    interpolate("erf_inv f32, sqrt(w) - 3", lambda t: erf_inv_quotient((t + 3) ** 2), 10, root - 3, "1.1", 24)
    interpolate("erf_inv f64, sqrt(w) - 4", lambda t: erf_inv_quotient((t + 4) ** 2), 14, root - 4, "2.1", 53)
    for order, counts in ((0, (11, 7, 19, 18)), (1, (10, 7, 19, 18))):
        for limit, bits, count, far_count in ((8, 24, *counts[:2]), (12, 53, *counts[2:])):
            f, g = bessel_near(order), bessel_far(order, limit)
            fit(f"bessel_i{order} f{bits}, a < {limit}", f, inverse(f), count, "1e-40", limit * limit, bits)
            fit(f"bessel_i{order} f{bits}, a >= {limit}", g, inverse(g), far_count, -1, 1, bits)
    interpolate("log_gamma", log_gamma_part, 24, -1, 1, 53)
