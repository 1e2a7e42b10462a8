# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions and their compositions, each as the sum over a few points, so that the gradient is f', the
Hessian is diag f'' and the third gradient f'''."""
import jax
import jax.numpy as jnp
import jax.scipy.special as special
from jax import lax

from gradients import at, normal, uniform

ONE = normal(3)
POSITIVE = uniform(0.3, 3, 3)
INSIDE = uniform(-0.85, 0.85, 3)
ABOVE = uniform(1.3, 4, 3)

# name, text, JAX, points, kinds
ROWS = [
    ("exp_sin", "exp(sin(x))", lambda x: jnp.exp(jnp.sin(x)), ONE, "grad nth3 taylor4"),
    ("log_one_plus_square", "log(add(square(x), 1))", lambda x: jnp.log(x * x + 1), ONE, "grad nth3 taylor4"),
    ("tanh_scaled", "tanh(mul(x, 0.7))", lambda x: jnp.tanh(0.7 * x), ONE, "nth3 taylor4"),
    ("sigmoid_product", "mul(x, sigmoid(x))", lambda x: x * jax.nn.sigmoid(x), ONE, "grad nth3 taylor4"),
    ("silu", "silu(x)", jax.nn.silu, ONE, "grad hess nth3"),
    ("softplus", "softplus(x)", lambda x: jnp.logaddexp(x, 0), ONE, "grad nth3 taylor4"),
    ("gelu", "gelu(x)", lambda x: jax.nn.gelu(x, approximate=False), ONE, "grad nth3 taylor4"),
    ("gelu_approx", "gelu_approx(x)", lambda x: jax.nn.gelu(x, approximate=True), ONE, "grad hess nth3"),
    ("mish", "mish(x)", lambda x: x * jnp.tanh(jnp.logaddexp(x, 0)), ONE, "grad hess nth3"),
    ("elu", "elu(x, alpha=1.5)", lambda x: jax.nn.elu(x, 1.5), ONE, "grad hess"),
    ("celu", "celu(x, alpha=0.8)", lambda x: jax.nn.celu(x, 0.8), ONE, "grad nth3"),
    ("selu", "selu(x)", jax.nn.selu, ONE, "grad hess"),
    ("softsign", "div(x, add(abs(x), 1))", jax.nn.soft_sign, ONE, "grad hess nth3"),
    ("log_sigmoid", "neg(log1p(exp(neg(x))))", jax.nn.log_sigmoid, ONE, "grad nth3 taylor4"),
    ("pseudo_huber", "sub(sqrt(add(square(x), 1)), 1)", lambda x: jnp.sqrt(1 + x * x) - 1, ONE, "grad nth3 taylor4"),
    ("inverse_root", "rsqrt(add(square(x), 2))", lambda x: lax.rsqrt(x * x + 2), ONE, "grad hess taylor4"),
    ("cube_root", "cbrt(x)", jnp.cbrt, POSITIVE, "grad hess nth3"),
    ("cauchy", "reciprocal(add(square(x), 1))", lambda x: 1 / (1 + x * x), ONE, "nth3 taylor4"),
    ("gaussian", "exp(mul(square(x), -0.5))", lambda x: jnp.exp(-x * x / 2), ONE, "nth3 taylor4"),
    ("expm1_sine", "expm1(sin(x))", lambda x: jnp.expm1(jnp.sin(x)), ONE, "grad nth3 taylor4"),
    ("log1p_square", "log1p(square(x))", lambda x: jnp.log1p(x * x), ONE, "grad hess taylor4"),
    ("base_two", "mul(exp2(x), log2(add(square(x), 1)))", lambda x: jnp.exp2(x) * jnp.log2(x * x + 1), ONE,
     "grad hess taylor4"),
    ("decades", "square(log10(x))", lambda x: jnp.log10(x)**2, POSITIVE, "grad hess nth3"),
    ("sinh_by_cosh", "div(sinh(x), cosh(x))", lambda x: jnp.sinh(x) / jnp.cosh(x), ONE, "grad hess taylor4"),
    ("tangent", "tan(x)", jnp.tan, INSIDE, "grad nth3 taylor4"),
    ("arc_sine", "asin(x)", jnp.arcsin, INSIDE, "grad hess nth3"),
    ("arc_cosine", "acos(mul(x, x))", lambda x: jnp.arccos(x * x), INSIDE, "grad hess"),
    ("arc_tangent", "atan(exp(x))", lambda x: jnp.arctan(jnp.exp(x)), ONE, "grad nth3 taylor4"),
    ("area_sine", "asinh(x)", jnp.arcsinh, ONE, "grad hess nth3"),
    ("area_cosine", "acosh(x)", jnp.arccosh, ABOVE, "grad hess"),
    ("area_tangent", "atanh(x)", jnp.arctanh, INSIDE, "grad hess nth3"),
    ("sine_over_x", "div(sin(x), x)", lambda x: jnp.sin(x) / x, POSITIVE, "grad hess nth3 taylor4"),
    ("chirp", "sin(square(x))", lambda x: jnp.sin(x * x), ONE, "grad nth3 taylor4"),
    ("cosine_of_log", "cos(log(x))", lambda x: jnp.cos(jnp.log(x)), POSITIVE, "grad hess taylor4"),
    ("x_to_the_x", "pow(x, x)", lambda x: x**x, POSITIVE, "grad hess nth3"),
    ("x_to_the_2_5", "pow(x, 2.5)", lambda x: x**2.5, POSITIVE, "grad nth3 taylor4"),
    ("cube_of_negative", "pow(x, 3)", lambda x: x**3, at([-1.5, -0.25, 2]), "grad nth3 taylor4"),
    ("two_to_the_x", "pow(2, x)", lambda x: jnp.exp2(x), ONE, "grad hess"),
    ("quintic", "add(mul(add(mul(square(x), 3), -2), mul(square(x), x)), x)", lambda x: 3 * x**5 - 2 * x**3 + x, ONE,
     "grad nth3 taylor4"),
    ("rational", "div(sub(square(x), 1), add(mul(x, 2), 9))", lambda x: (x * x - 1) / (2 * x + 9), ONE,
     "grad nth3 taylor4"),
    ("nested_tanh", "tanh(tanh(tanh(x)))", lambda x: jnp.tanh(jnp.tanh(jnp.tanh(x))), ONE, "grad nth3 taylor4"),
]

SPECIAL = [
    ("erf", "erf(x)", special.erf, ONE, "grad nth3 taylor4"),
    ("erfc_square", "erfc(square(x))", lambda x: special.erfc(x * x), ONE, "grad hess"),
    ("erf_inv", "erf_inv(x)", special.erfinv, INSIDE, "grad hess nth3"),
    ("lgamma", "lgamma(x)", special.gammaln, ABOVE, "grad hess nth3"),
    ("lgamma_negative", "lgamma(x)", special.gammaln, at([-0.4, -1.6, -2.25]), "grad hess"),
    ("digamma", "digamma(x)", special.digamma, ABOVE, "grad hess nth3"),
    ("polygamma_two", "polygamma(full(f64[], 2), x)", lambda x: special.polygamma(2, x), ABOVE, "grad hess"),
    ("beta_function", "sub(mul(lgamma(x), 2), lgamma(mul(x, 2)))",
     lambda x: 2 * special.gammaln(x) - special.gammaln(2 * x), ABOVE, "grad hess"),
    ("hurwitz_zeta", "zeta(full(f64[], 2.5), x)", lambda x: special.zeta(2.5, x), ABOVE, "grad hess"),
    ("bessel_i0e", "bessel_i0e(x)", special.i0e, ONE, "grad hess"),
    ("bessel_i1e", "bessel_i1e(x)", special.i1e, ONE, "grad hess"),
    ("log_bessel", "add(log(bessel_i0e(x)), abs(x))", lambda x: jnp.log(special.i0e(x)) + jnp.abs(x), POSITIVE,
     "grad hess"),
]


def binary(t):
    x, y, z = normal(3), normal(3), uniform(0.4, 2, 3)
    t.fn("product_of_sines", "reduce_sum(mul(sin(x), cos(y)))", lambda x, y: jnp.sum(jnp.sin(x) * jnp.cos(y)),
         "grad hess taylor4", x=x, y=y)
    t.fn("quotient", "reduce_sum(div(mul(x, y), add(square(x), add(square(y), 1))))",
         lambda x, y: jnp.sum(x * y / (x**2 + y**2 + 1)), "grad hess taylor4", x=x, y=y)
    t.fn("hypotenuse", "reduce_sum(sqrt(add(square(x), square(y))))", lambda x, y: jnp.sum(jnp.hypot(x, y)),
         "grad hess taylor4", x=x, y=y)
    t.fn("angle_of_point", "reduce_sum(atan2(y, x))", lambda x, y: jnp.sum(jnp.arctan2(y, x)), "grad hess nth3", x=x,
         y=y)
    t.fn("log_add_exp", "m = max(x, y); reduced = add(m, log(add(exp(sub(x, m)), exp(sub(y, m))))); "
                        "return reduce_sum(reduced)",
         lambda x, y: jnp.sum(jnp.logaddexp(x, y)), "grad hess", x=x, y=y)
    t.fn("power_of_two_inputs", "reduce_sum(pow(x, y))", lambda x, y: jnp.sum(x**y), "grad hess", x=z, y=y)
    t.fn("remainders", "reduce_sum(add(mul(rem(x, y), x), mul(mod(x, y), y)))",
         lambda x, y: jnp.sum(lax.rem(x, y) * x + jnp.mod(x, y) * y), "grad hess", x=at([5.3, -4.1, 2.2]),
         y=at([1.7, 1.2, -0.9]))
    t.fn("fused_multiply_add", "reduce_sum(tanh(fma(x, y, z)))", lambda x, y, z: jnp.sum(jnp.tanh(x * y + z)),
         "hvp", x=x, y=y, z=normal(1))
    t.fn("sum_of_five", "reduce_sum(exp(add_n(x, y, x, z, y)))", lambda x, y, z: jnp.sum(jnp.exp(2 * x + 2 * y + z)),
         "hvp", x=x, y=y, z=normal(3))
    t.fn("clamped", "reduce_sum(square(clamp(lo, x, hi)))",
         lambda lo, x, hi: jnp.sum(jnp.minimum(jnp.maximum(x, lo), hi)**2),
         "grad hess", lo=at(-0.5), x=at([-1.2, 0.3, 0.4, 2.5]), hi=at(0.9))
    t.fn("largest_of_three", "reduce_sum(square(max(max(x, y), z)))",
         lambda x, y, z: jnp.sum(jnp.maximum(jnp.maximum(x, y), z)**2), "grad hess", x=x, y=y, z=normal(3))
    t.fn("huber", "d = sub(x, y); a = abs(d); reduced = where(le(a, 1), mul(square(d), 0.5), sub(a, 0.5)); "
                  "return reduce_sum(reduced)",
         lambda x, y: jnp.sum(jnp.where(jnp.abs(x - y) <= 1, (x - y)**2 / 2, jnp.abs(x - y) - 0.5)), "grad hess", x=x,
         y=y)
    t.fn("prelu", "reduce_sum(square(prelu(x, slope)))", lambda x, slope: jnp.sum(jnp.where(x > 0, x, slope * x)**2),
         "grad hess", x=normal(2, 3), slope=uniform(0.1, 0.4, 3))
    t.fn("broadcast_everywhere", "reduce_sum(mul(sin(mul(a, b)), add(c, mul(d, a))))",
         lambda a, b, c, d: jnp.sum(jnp.sin(a * b) * (c + d * a)), "hvp vmap vmapone",
         a=normal(2, 1, 3), b=normal(2, 1), c=normal(), d=normal(3))
    t.fn("shared_subterm", "s = mul(x, y); e = exp(s); return reduce_sum(add(mul(e, s), div(s, add(e, 1))))",
         lambda x, y: jnp.sum(jnp.exp(x * y) * x * y + x * y / (jnp.exp(x * y) + 1)), "grad hess taylor4", x=x, y=y)
    t.fn("f32_mixture", "reduce_sum(mul(tanh(x), exp(mul(y, 0.5))))",
         lambda x, y: jnp.sum(jnp.tanh(x) * jnp.exp(y / 2)),
         "hess vmapgrad", x=normal(3, dtype="f32"), y=normal(3, dtype="f32"))
    t.fn("through_f32", "reduce_sum(square(cast(sin(cast(x, to=f64)), to=f32)))", lambda x: jnp.sum(jnp.sin(x)**2),
         "grad hess", x=normal(3, dtype="f32"))
    t.fn("stopped", "reduce_sum(mul(x, stop_gradient(exp(x))))", lambda x: jnp.sum(x * lax.stop_gradient(jnp.exp(x))),
         "grad hess", x=x)
    t.fn("no_reduction", "y = mul(sin(x), exp(w)); return y, square(y)",
         lambda x, w: (jnp.sin(x) * jnp.exp(w), (jnp.sin(x) * jnp.exp(w))**2), "jac vmap vmapone taylor4", x=normal(2),
         w=normal(2, 1))


def add(t):
    for name, text, f, x, kinds in ROWS:
        t.fn(name, f"reduce_sum({text})", lambda x, f=f: jnp.sum(f(x)), kinds,
             x=x)
    for name, text, f, x, kinds in SPECIAL:
        t.fn(name, f"reduce_sum({text})", lambda x, f=f: jnp.sum(f(x)), kinds, x=x)
    binary(t)
