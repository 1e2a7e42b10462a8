# SPDX-License-Identifier: Apache-2.0
"""Oracle of the activation family: the formulas of the definition in mpmath; at special values their limits."""
import mpmath as mp
import numpy as np
from oracle import DTYPES, Fixtures
from precise import holomorphic, inf, nan, real, unary_cases
from rounding import FLOATS, INTS, limits, rounded, wide

np.seterr(all="ignore")
K, C = mp.mpf("0.7978845608028654"), mp.mpf("0.044715")
SCALE, ALPHA = mp.mpf("1.0507009873554805"), mp.mpf("1.6732632423543772")
HARD = [3, -3, 2.984375, -2.984375, 65504, -65504, 1e-8]
TAILS = [-20, 30, 1e-8, -1e-8, 90]


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def clamp(x):
    return min(max(x, mp.mpf(0)), mp.mpf(1))


def limit(below, above=lambda x: x):
    """A function of special values only: NaN, 0 (which gives 0) and the limits at both infinities."""
    return lambda x: above(x) if x > 0 else below if x < 0 else x


def gate(x):
    """The same for x times a gate that shuts on the left."""
    return x if not x < 0 or np.isfinite(x) else 0.0


def elu(alpha):
    a = mp.mpf(alpha)
    return lambda x: x if x > 0 else a * mp.expm1(x)


# op: call, formula, value at special points, extra points, ulps of f64. Each product and quotient of the evaluation may
# add one unit. gelu_approx: its exponent 2u is off by about 4 units of itself, and |2u| is up to 8 here.
CASES = {
    "relu": ("relu(x)", lambda x: max(x, mp.mpf(0)), lambda x: np.maximum(x, 0), TAILS, 0),
    "sigmoid": ("sigmoid(x)", sigmoid, lambda x: 1 / (1 + np.exp(-x)), TAILS + [-700], 4),
    "silu": ("silu(x)", lambda x: x * sigmoid(x), gate, TAILS + [-90, -720], 4),
    "gelu": ("gelu(x)", lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2, gate, [-9, -30, 12, 1e-8, -1e-8], 4),
    "gelu_approx": ("gelu_approx(x)", lambda x: x * (1 + mp.tanh(K * (x + C * x**3))) / 2, gate, [20, 1e-8, 300], 32),
    "softplus": ("softplus(x)", lambda x: mp.log1p(mp.exp(x)), lambda x: np.logaddexp(x, 0), TAILS + [-700, 800], 2),
    "selu": ("selu(x)", lambda x: SCALE * elu(ALPHA)(x), limit(float(-SCALE * ALPHA)), TAILS, 4),
    "hard_swish": ("hard_swish(x)", lambda x: x * clamp(x / 6 + mp.mpf(1) / 2), gate, HARD, 4),
    "mish": ("mish(x)", lambda x: x * mp.tanh(mp.log1p(mp.exp(x))), gate, TAILS + [-90, -720], 4),
    "elu": ("elu(x)", elu(1), limit(-1.0), TAILS, 2),
    "elu_alpha": ("elu(x, alpha=0.75)", elu(0.75), limit(-0.75), TAILS, 2),
    "celu": ("celu(x)", elu(1), limit(-1.0), TAILS, 2),
    "celu_alpha": ("celu(x, alpha=0.75)", lambda x: x if x > 0 else mp.mpf(0.75) * mp.expm1(x / mp.mpf(0.75)),
                   limit(-0.75), TAILS, 4),
    "leaky_relu": ("leaky_relu(x)", lambda x: x if x > 0 else mp.mpf(0.01) * x, lambda x: x if x > 0 else 0.01 * x,
                   TAILS, 1),
    "leaky_relu_alpha": ("leaky_relu(x, alpha=-0.5)", lambda x: x if x > 0 else x / -2,
                         lambda x: x if x > 0 else -0.5 * x, TAILS, 0),
    "hard_sigmoid": ("hard_sigmoid(x)", lambda x: clamp(x / 6 + mp.mpf(0.5)), lambda x: np.clip(x / 6 + 0.5, 0, 1),
                     [1e-8, 3, -3, 1e30], 4),
    "hard_sigmoid_slope": ("hard_sigmoid(x, alpha=0.25, beta=0.75)", lambda x: clamp(x / 4 + mp.mpf(0.75)),
                           lambda x: np.clip(x / 4 + 0.75, 0, 1), [1, -3], 0),
    "threshold": ("threshold(x, theta=0.5, value=-7)", lambda x: x if x > 0.5 else mp.mpf(-7),
                  lambda x: x if x > 0.5 else -7.0, [0.5, 0.50390625], 0),
}


def float_cases(f):
    for name, (call, fn, plain, extra, ulp) in CASES.items():
        unary_cases(f, name, fn, plain, (-3.5, 3.5), extra, ulp, call)
    for d in FLOATS:
        # theta is rounded to the operand's dtype, so x = 0.1 is not above it; NaN is not above anything.
        x = np.array([0.1, -0.1, 0.125, nan], DTYPES[d])
        value = np.array(0.3, DTYPES[d])
        f.case(f"threshold_tie_{d}", "threshold(x, theta=0.1, value=0.3)", {"x": x},
               [np.array([value, value, x[2], value])])
        x, slope = f.normal(d, (3, 4)), f.normal(d, (4,))
        rule = lambda a, b: a if a > 0 else a * b
        f.case(f"prelu_{d}", "prelu(x, slope)", {"x": x, "slope": slope},
               [rounded(d, np.where(wide(x) > 0, wide(x), wide(x) * wide(slope)))])
        x, slope = np.array([[nan], [0.0], [-inf], [inf]], DTYPES[d]), np.array([0.5, nan, -2.0], DTYPES[d])
        f.case(f"prelu_special_{d}", "prelu(x, slope)", {"x": x, "slope": slope}, [real(d, rule, rule, x, slope)])
        empty = np.zeros((0, 2), DTYPES[d])
        f.case(f"gelu_empty_{d}", "gelu(x)", {"x": empty}, [empty])


def other_cases(f):
    for d in INTS:
        lo, hi = limits(d)
        x = np.array([lo, 0, 1, hi], DTYPES[d])
        f.case(f"relu_{d}", "relu(x)", {"x": x}, [np.maximum(x, 0)])
    for d, ulp in (("c64", 1), ("c128", 8)):
        z = np.append(f.normal(d, (8,)) * 2, [30 + 2j, -1j, 1, -60 + 1j, -20 - 3j, 700 + 5j]).astype(DTYPES[d])
        f.case(f"sigmoid_{d}", "sigmoid(z)", {"z": z}, [holomorphic(d, sigmoid, z)], ulp=ulp)


if __name__ == "__main__":
    with Fixtures("activation") as f:
        float_cases(f)
        other_cases(f)
