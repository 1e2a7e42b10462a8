# SPDX-License-Identifier: Apache-2.0
"""Minimax polynomials of src/codegen/vector_math_*.c that are fitted here: coefficients with the least largest relative
error, lowest power first, rounded to the format.

    python3 tests/oracle/minimax.py            prints all of them
"""
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


def fit(name, f, weight, count, low, high, bits):
    c, error = remez(f, weight, list(range(count)), mp.mpf(low), mp.mpf(high))
    print(f"{name}: 2^{float(mp.log(error, 2)):.1f}")
    print("   ", ", ".join(hexadecimal(rounded(x, bits), bits) for x in c))


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
