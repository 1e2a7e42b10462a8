# SPDX-License-Identifier: Apache-2.0
"""How much of an answer is rounding. A JAX program is run operation by operation, and again with the result of each
operation that rounds multiplied by 1 + 2^-30 r, r uniform in [-1, 1] (Monte Carlo arithmetic). The answers then move as
they do from the rounding itself, 2^23 times as far in f64. Cancellation shows, by the inputs' condition or inside of
the formula, where an answer's own magnitude hides it. What only moves, compares or selects values is exact and stays
so, ties included; so are results that are integers: counts, orders, masks, differences of equals."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

NOISE = 2.0**-30
ROUNDING = set("""
    acos acosh add add_any asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt conv_general_dilated cos cosh
    cumlogsumexp cumprod cumsum digamma div dot_general erf erf_inv erfc exp exp2 expm1 integer_pow lgamma log log1p
    logistic mul polygamma pow reduce_prod reduce_sum reduce_window reduce_window_sum rem rsqrt scatter-add scatter-mul
    sin sinh sqrt square sub tan tanh zeta""".split())
INLINED = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
           "closed_call": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}


def evaluate(jaxpr, consts, args, rng):
    """The results of a jaxpr, with noise from `rng` (None: without noise)."""
    values = dict(zip(jaxpr.constvars + jaxpr.invars, list(consts) + list(args)))
    for eqn in jaxpr.eqns:
        x = [v.val if isinstance(v, core.Literal) else values[v] for v in eqn.invars]
        inner = eqn.params.get(INLINED.get(eqn.primitive.name))
        if inner is not None:
            closed = isinstance(inner, core.ClosedJaxpr)
            y = evaluate(inner.jaxpr if closed else inner, inner.consts if closed else [], x, rng)
        else:
            y = eqn.primitive.bind(*x, **eqn.params)
            y = y if eqn.primitive.multiple_results else [y]
            y = [blurred(v, rng) if eqn.primitive.name in ROUNDING and rng else v for v in y]
        values.update(zip(eqn.outvars, y))
    return [v.val if isinstance(v, core.Literal) else values[v] for v in jaxpr.outvars]


def blurred(y, rng):
    if y.dtype not in (np.float64, np.complex128):
        return y
    y = np.asarray(y)
    rounded = y != np.round(y)
    return jnp.asarray(y * (1 + NOISE * rng.uniform(-1, 1, y.shape) * rounded))


def run_with_noise(f, xs, samples):
    """The answers f(*xs), and for each how far an element moves at most, in units of the relative error of one
    operation."""
    program = jax.make_jaxpr(f)(*xs)
    answers = [np.asarray(y) for y in evaluate(program.jaxpr, program.consts, xs, None)]
    moved = [0.0] * len(answers)
    rng = np.random.default_rng(0)
    for _ in range(samples):
        for k, y in enumerate(evaluate(program.jaxpr, program.consts, xs, rng)):
            exact = answers[k][np.isfinite(answers[k])]
            change = np.max(np.abs(np.asarray(y)[np.isfinite(answers[k])] - exact), initial=0.0)
            largest = np.max(np.abs(exact), initial=0.0)
            assert change <= 1e-3 * max(1, largest), "noise changes a comparison: write the function without it"
            moved[k] = max(moved[k], change / NOISE)
    return answers, moved
