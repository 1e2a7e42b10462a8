# SPDX-License-Identifier: Apache-2.0
"""Places where a derivative is a choice: ties, zeros, edges, branches that are not taken. Where JAX chooses otherwise,
the JAX function is built from `where` and gathers so that it chooses as specified; the note says how JAX has it, and
`plain` is that."""
import jax
import jax.numpy as jnp
import jax.scipy.special as special
from jax import lax

from gradients import at, distinct, normal

NAN = float("nan")
INF = float("inf")


def ties(t):
    x, y = at([1.5, -2, 0.5, 3]), at([1.5, 1, 0.5, -3])
    t.fn("max_tie", "reduce_sum(mul(max(x, y), max(x, y)))", lambda x, y: jnp.sum(jnp.maximum(x, y)**2),
         "grad jvp hess", x=x, y=y)
    t.fn("min_tie", "reduce_sum(exp(min(x, y)))", lambda x, y: jnp.sum(jnp.exp(jnp.minimum(x, y))), "grad jvp hess",
         x=x, y=y)
    rows = at([[2, 1, 2], [0.5, 0.5, 0.5], [1, 3, -1]])
    t.fn("reduce_max_tie", "reduce_sum(square(reduce_max(x, axes=[1])))", lambda x: jnp.sum(jnp.max(x, 1)**2),
         "grad jvp hess", x=rows)
    t.fn("reduce_min_tie", "reduce_sum(exp(reduce_min(x, axes=[0])))", lambda x: jnp.sum(jnp.exp(jnp.min(x, 0))),
         "grad jvp", x=rows)
    t.fn("reduce_max_all_tie", "square(reduce_max(x))", lambda x: jnp.max(x)**2, "hvp nth3", x=at([[3, 1], [3, 3]]))
    first = "the first of equals gets all; JAX splits between the last two equals again and again"
    t.fn("cummax_tie", "reduce_sum(mul(cummax(x), const(f64[5], [1, 2, 3, 4, 5])))",
         lambda x: jnp.sum(x[jnp.array([0, 1, 1, 1, 4])] * jnp.arange(1.0, 6)), "grad jvp vmap", note=first,
         plain=lambda x: jnp.sum(lax.cummax(x) * jnp.arange(1.0, 6)), x=at([1, 2, 2, 0, 3]))
    t.fn("cummin_tie", "reduce_sum(mul(cummin(x), const(f64[5], [1, 2, 3, 4, 5])))",
         lambda x: jnp.sum(x[jnp.array([0, 1, 1, 3, 3])] * jnp.arange(1.0, 6)), "grad jvp", note=first,
         plain=lambda x: jnp.sum(lax.cummin(x) * jnp.arange(1.0, 6)), x=at([2, 1, 1, 0, 0]))
    t.fn("cummax_reverse_tie", "reduce_sum(mul(cummax(x, reverse=true), const(f64[4], [1, 2, 3, 4])))",
         lambda x: jnp.sum(x[jnp.array([3, 3, 3, 3])] * jnp.arange(1.0, 5)), "hvp", note=first,
         plain=lambda x: jnp.sum(lax.cummax(x, reverse=True) * jnp.arange(1.0, 5)), x=at([1, 2, 2, 2]))
    t.fn("max_tie_high_order", "m = max(x, y); return reduce_sum(mul(exp(m), mul(x, y)))",
         lambda x, y: jnp.sum(jnp.exp(jnp.maximum(x, y)) * x * y), "grad hess nth3 taylor4", x=at([2, -1, 0.5]),
         y=at([2, 3, 0.5]))
    t.fn("min_tie_scalar_operand", "reduce_sum(square(min(x, 2)))", lambda x: jnp.sum(jnp.minimum(x, 2.0)**2),
         "hess vmapgrad", x=at([2, 1, 3], [0, 2, 2]))
    t.fn("reduce_max_tie_lanes", "reduce_sum(exp(reduce_max(x, axes=[0])))", lambda x: jnp.sum(jnp.exp(jnp.max(x, 0))),
         "vmapgrad", x=at([[1, 2], [1, 0]], [[0, 3], [2, 3]]))
    t.fn("sort_tie", "s = sort(x); return reduce_sum(mul(s, const(f64[5], [1, 2, 3, 4, 5])))",
         lambda x: jnp.sum(jnp.sort(x) * jnp.arange(1.0, 6)), "grad jvp", x=at([2, 1, 2, 0, 1]))
    t.fn("top_k_tie", "v, i = top_k(x, k=3); return reduce_sum(mul(v, const(f64[3], [1, 2, 3])))",
         lambda x: jnp.sum(lax.top_k(x, 3)[0] * jnp.arange(1.0, 4)), "grad jvp", x=at([2, 1, 2, 0, 2]))
    pool = at([[[[1, 1, 0, 2], [1, 1, 2, 2], [0, 3, 3, 0], [3, 0, 0, 0]]]])
    t.fn("max_pool_tie", "p = pool(x, kind=max, kernel_size=[2, 2]); "
                         "return reduce_sum(mul(p, const(f64[2, 2], [[1, 2], [3, 4]])))",
         lambda x: jnp.sum(lax.reduce_window(x, -INF, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
                           * jnp.array([[1., 2], [3, 4]])),
         "grad", x=pool)
    t.fn("median", "s = sort(x, axis=1); return reduce_sum(square(narrow(s, axis=1, start=2, len=1)))",
         lambda x: jnp.sum(jnp.sort(x, 1)[:, 2]**2), "grad hess jvp", x=distinct(2, 5))
    t.fn("largest_gap", "square(sub(reduce_max(x), reduce_min(x)))", lambda x: jnp.ptp(x)**2, "grad hess",
         x=at([1, 4, -2, 4, -2, -2]))


def edges(t):
    zero = at([0, -1.5, 2])
    t.fn("relu_at_zero", "reduce_sum(mul(relu(x), exp(x)))", lambda x: jnp.sum(jax.nn.relu(x) * jnp.exp(x)),
         "grad hess jvp", x=zero)
    t.fn("abs_at_zero", "reduce_sum(mul(abs(x), exp(x)))", lambda x: jnp.sum(jnp.sign(x) * x * jnp.exp(x)),
         "grad hess jvp", note="slope 0 at 0; JAX has 1", plain=lambda x: jnp.sum(jnp.abs(x) * jnp.exp(x)), x=zero)
    t.fn("elu_at_zero", "reduce_sum(elu(x, alpha=0.5))", lambda x: jnp.sum(jnp.where(x > 0, x, 0.5 * jnp.expm1(x))),
         "grad hess jvp", x=zero)
    t.fn("leaky_relu_at_zero", "reduce_sum(square(add(leaky_relu(x, alpha=0.2), 1)))",
         lambda x: jnp.sum((jnp.where(x > 0, x, 0.2 * x) + 1)**2), "grad hess jvp",
         note="slope alpha at 0; jax.nn.leaky_relu has 1", plain=lambda x: jnp.sum((jax.nn.leaky_relu(x, 0.2) + 1)**2),
         x=zero)
    t.fn("prelu_at_zero", "reduce_sum(prelu(x, slope))", lambda x, slope: jnp.sum(jnp.where(x > 0, x, slope * x)),
         "grad jvp", x=zero, slope=at(0.3))
    def hard_sigmoid(x):
        return jnp.where((x > -3) & (x < 3), x / 6 + 0.5, jnp.where(x >= 3, 1.0, 0.0))
    t.fn("hard_sigmoid_edges", "reduce_sum(mul(hard_sigmoid(x, alpha=0.25, beta=0.5), x))",
         lambda x: jnp.sum(jnp.where((x > -2) & (x < 2), x / 4 + 0.5, jnp.where(x >= 2, 1.0, 0.0)) * x), "grad hess",
         note="slope 0 at both edges; JAX's clip has half the slope of the ramp there",
         plain=lambda x: jnp.sum(jnp.clip(x / 4 + 0.5, 0, 1) * x), x=at([-2, 2, 0.5, -7, 7]))
    t.fn("hard_swish", "reduce_sum(hard_swish(x))", lambda x: jnp.sum(x * hard_sigmoid(x)), "grad hess nth3",
         x=at([-2, 1, 0.5, -7, 7]))
    t.fn("threshold", "reduce_sum(square(threshold(x, theta=0.5, value=-3)))",
         lambda x: jnp.sum(jnp.where(x > 0.5, x, -3.0)**2), "grad hess", x=at([0.5, 0.75, -1]))
    t.fn("clamp_edges", "reduce_sum(mul(clamp(lo, x, hi), const(f64[5], [1, 2, 3, 4, 5])))",
         lambda lo, x, hi: jnp.sum(jnp.minimum(jnp.maximum(x, lo), hi) * jnp.arange(1.0, 6)), "grad jvp",
         note="ties split as those of max and min; lax.clamp gives x nothing there",
         plain=lambda lo, x, hi: jnp.sum(lax.clamp(lo, x, hi) * jnp.arange(1.0, 6)),
         lo=at([-1, -1, -1, 2, 1]), x=at([-1, 1, 0, 3, 1]), hi=at([1, 1, 1, 1, 1]))
    t.fn("steps_are_flat", "reduce_sum(mul(add_n(floor(x), ceil(x), trunc(x), sign(x), round(x), round_away(x)), x))",
         lambda x: jnp.sum((jnp.floor(x) + jnp.ceil(x) + jnp.trunc(x) + jnp.sign(x) + 2 * jnp.round(x)) * x),
         "grad hess", x=at([0.25, -1.75, 2.25]))
    t.fn("straight_through", "reduce_sum(square(round(x, ste=identity)))",
         lambda x: jnp.sum((x + lax.stop_gradient(jnp.round(x) - x))**2), "grad hess jvp", x=at([0.3, -1.7, 2.4]))
    def atan2(y, x):
        away = (x != 0) | (y != 0)
        return jnp.where(away, jnp.arctan2(y, jnp.where(away, x, 1.0)), 0.0)
    t.fn("atan2_origin", "reduce_sum(atan2(y, x))",
         lambda y, x: jnp.sum(jnp.where((x != 0) | (y != 0), 1, 0) * atan2(y, x)),
         "grad jvp", note="slopes 0 at the origin; JAX has NaN", plain=lambda y, x: jnp.sum(jnp.arctan2(y, x)),
         y=at([0, 1, 0]), x=at([0, 0, -2]))
    t.fn("bessel_at_zero", "reduce_sum(add(bessel_i0e(x), mul(bessel_i1e(x), 2)))",
         lambda x: jnp.sum(special.i0e(x) + 2 * special.i1e(x)), "grad", x=at([0, 1.5]))
    t.fn("ends_of_domains", "reduce_sum(add_n(asin(x), acos(x), mul(atanh(mul(x, 0.5)), 2)))",
         lambda x: jnp.sum(jnp.arcsin(x) + jnp.arccos(x) + 2 * jnp.arctanh(x / 2)), "grad", x=at([0.5, -0.25]))
    t.fn("arc_sine_at_one", "reduce_sum(asin(x))", lambda x: jnp.sum(jnp.arcsin(x)), "grad jvp", x=at([1, -1, 0.5]))
    t.fn("log_at_zero", "reduce_sum(log(x))", lambda x: jnp.sum(jnp.log(x)), "grad jvp", x=at([0, 2]))
    t.fn("norm_at_zero", "sqrt(reduce_sum(square(x)))", lambda x: jnp.sqrt(jnp.sum(x**2)), "grad", x=at([0, 0]))
    t.fn("sign_of_difference", "reduce_sum(mul(sign(sub(x, y)), mul(x, y)))",
         lambda x, y: jnp.sum(jnp.sign(x - y) * x * y), "grad hess jvp", x=at([1, 2, 3]), y=at([1, 3, 2]))


def logic(t):
    """Predicates carry no derivative; what they select does."""
    t.fn("predicates", "p = and(gt(x, 0), not(gt(x, 1))); q = or(lt(x, -1), xor(eq(y, 2), ge(x, y))); "
         "return reduce_sum(add(where(p, mul(x, x), y), where(q, exp(x), mul(x, y))))",
         lambda x, y: jnp.sum(jnp.where((x > 0) & ~(x > 1), x * x, y)
                              + jnp.where((x < -1) | ((y == 2) ^ (x >= y)), jnp.exp(x), x * y)), "hess vmapgrad",
         x=at([0.5, -2, 1.5, -0.5], [1, 0, 3, -1.5]), y=at([2, 1, 2, -0.5], [0, 2, -1, 2]))
    t.fn("finite_elements_only", "ok = and(is_finite(x), not(or(is_nan(x), is_inf(x)))); "
                                 "return reduce_sum(where(ok, square(x), 0))",
         lambda x: jnp.sum(jnp.where(jnp.isfinite(x), jnp.where(jnp.isfinite(x), x, 0.0)**2, 0.0)), "grad hess jvp",
         note="slope 0 where nothing is selected; JAX has NaN",
         plain=lambda x: jnp.sum(jnp.where(jnp.isfinite(x), x * x, 0.0)), x=at([1, NAN, INF, -2]))
    t.fn("any_and_all", "a = reduce_any(gt(x, 1), axes=[1]); b = reduce_all(lt(x, 1), axes=[1]); "
                        "m = reduce_sum(mul(x, x), axes=[1]); "
         "return reduce_sum(add(where(a, m, 0), where(b, exp(m), m)))",
         lambda x: (lambda m: jnp.sum(jnp.where(jnp.any(x > 1, 1), m, 0.0)
                                      + jnp.where(jnp.all(x < 1, 1), jnp.exp(m), m)))(
             jnp.sum(x * x, 1)), "hvp vmapgrad", x=at([[2, 0.5], [0.5, -0.25]], [[0, 0.5], [1, -1]]))


def zeros(t):
    t.fn("prod_no_zero", "reduce_prod(x)", jnp.prod, "grad hess nth3", x=normal(4))
    t.fn("prod_one_zero", "reduce_prod(x)", jnp.prod, "grad hess jvp nth3", x=at([2, 0, -1.5, 3]))
    t.fn("prod_two_zeros", "reduce_prod(x)", jnp.prod, "grad hess jvp nth3", x=at([0, 2, 0, 3]))
    t.fn("prod_three_zeros", "reduce_prod(x)", jnp.prod, "grad hess nth3", x=at([0, 2, 0, 0]))
    t.fn("prod_rows", "reduce_sum(mul(reduce_prod(x, axes=[0, 2]), const(f64[3], [1, -2, 3])))",
         lambda x: jnp.sum(jnp.prod(x, (0, 2)) * jnp.array([1., -2, 3])), "hvp jvp vmapgrad",
         x=at([[[1, 2], [0, 3], [0, 4]], [[5, 6], [2, -1], [0, 7]]],
              [[[1, 0], [1, 3], [2, 4]], [[0, 6], [2, 0.5], [3, 7]]]))
    t.fn("cumprod_zeros", "reduce_sum(mul(cumprod(x), const(f64[6], [1, 2, 3, 4, 5, 6])))",
         lambda x: jnp.sum(jnp.cumprod(x) * jnp.arange(1.0, 7)), "grad hess jvp nth3", x=at([2, -1, 0, 3, 0, 1.5]))
    t.fn("cumprod_zeros_lanes", "reduce_sum(sin(cumprod(x, axis=0)))", lambda x: jnp.sum(jnp.sin(jnp.cumprod(x, 0))),
         "hvp vmapgrad", x=at([[0, 2], [3, 0], [1, 4]], [[1, 0], [0, 0], [2, 5]]))
    t.fn("cumprod_reverse_exclusive", "reduce_sum(exp(cumprod(x, exclusive=true, reverse=true)))",
         lambda x: jnp.sum(jnp.exp(jnp.concatenate([jnp.cumprod(x[::-1])[:-1][::-1], jnp.ones(1)]))), "grad hess jvp",
         x=at([2, -1, 0, 0.5]))
    def power(x, y):
        both = (x == 0) & (y == 0)
        return jnp.where(both, 1.0, jnp.where(both, 1.0, x)**y)
    t.fn("pow_zero_base", "reduce_sum(pow(x, const(f64[6], [0, 1, 2, 3, 0.5, 2.5])))",
         lambda x: jnp.sum(power(x, jnp.array([0, 1, 2, 3, 0.5, 2.5]))), "grad",
         note="slope 0 by the base at 0^0; JAX has NaN", plain=lambda x: jnp.sum(x**jnp.array([0, 1, 2, 3, 0.5, 2.5])),
         x=at([0, 0, 0, 0, 0, 0]))
    t.fn("pow_zero_base_hessian", "reduce_sum(pow(x, const(f64[3], [1, 2, 3])))",
         lambda x: jnp.stack([x[0], x[1]**2, x[2]**3]).sum(), "grad hess nth3", x=at([0, 0, 0]))
    t.fn("pow_zero_both", "reduce_sum(pow(x, y))", lambda x, y: jnp.sum(power(x, y)), "grad jvp",
         note="slopes 0 at 0^0; JAX has NaN", plain=lambda x, y: jnp.sum(x**y), x=at([0, 0, 2, 0]), y=at([0, 2, 0, 1]))
    t.fn("pow_negative_base", "reduce_sum(pow(x, const(f64[3], [2, 3, -1])))",
         lambda x: jnp.sum(jnp.stack([x[0]**2, x[1]**3, 1 / x[2]])), "grad hess", x=at([-1.5, -2, -0.5]))
    t.fn("norm_squared_at_zero", "add(reduce_sum(square(x)), reduce_sum(pow(x, 2)))", lambda x: 2 * jnp.sum(x**2),
         "grad hess", x=at([0, 0]))
    t.fn("sqrt_at_zero", "reduce_sum(sqrt(x))", lambda x: jnp.sum(jnp.sqrt(x)), "grad", x=at([0, 4]))
    t.fn("xlogx_at_zero", "safe = where(gt(x, 0), x, 1); return reduce_sum(mul(x, log(safe)))",
         lambda x: jnp.sum(x * jnp.log(jnp.where(x > 0, x, 1.0))), "grad hess", x=at([0, 0.5, 2]))


def untaken(t):
    t.fn("where_nan_operand", "reduce_sum(square(where(const(bool[4], [true, false, true, false]), a, b)))",
         lambda a, b: jnp.sum(jnp.where(jnp.array([True, False, True, False]), a, b)**2), "grad hess jvp",
         a=at([1, NAN, 3, INF]), b=at([NAN, 2, -INF, 4]))
    t.fn("where_double_guard_sqrt", "ok = gt(x, 0); y = sqrt(where(ok, x, 1)); return reduce_sum(where(ok, y, 0))",
         lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)), "grad hess nth3 jvp",
         x=at([-1, 0, 4, 2]))
    t.fn("where_double_guard_log",
         "ok = gt(x, 0); y = log(where(ok, x, 1)); return reduce_sum(where(ok, y, mul(x, x)))",
         lambda x: jnp.sum(jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), x * x)), "grad hess taylor4",
         x=at([-1, 0, 4]))
    t.fn("where_divide", "ok = ne(y, 0); return reduce_sum(where(ok, div(x, where(ok, y, 1)), x))",
         lambda x, y: jnp.sum(jnp.where(y != 0, x / jnp.where(y != 0, y, 1.0), x)), "hess vmapgrad",
         x=at([1, 2, 3], [0, 4, 5]), y=at([0, 2, 0], [1, 0, 2]))
    t.fn("where_broadcast_branches", "reduce_sum(mul(where(gt(x, 0), a, b), x))",
         lambda x, a, b: jnp.sum(jnp.where(x > 0, a, b) * x),
         "jvp vmapone gradone", x=normal(3, 2), a=normal(2), b=normal(3, 1))
    t.fn("masked_softmax", "keep = const(bool[4], [true, false, true, true]); p = softmax(where(keep, x, -inf)); "
         "return reduce_sum(mul(p, w))",
         lambda x, w: jnp.sum(jax.nn.softmax(jnp.where(jnp.array([True, False, True, True]), x, -INF)) * w), "hvp jvp",
         x=normal(4), w=normal(4))
    t.fn("running_with_minus_infinity", "reduce_sum(mul(cumlogsumexp(x), const(f64[4], [1, 2, 3, 4])))",
         lambda x: jnp.sum(lax.cumlogsumexp(x) * jnp.arange(1.0, 5)), "grad jvp hess", x=at([0.5, -INF, 1, -2]))
    t.fn("relu_of_infinity", "reduce_sum(mul(relu(x), w))", lambda x, w: jnp.sum(jax.nn.relu(x) * w), "grad",
         x=at([-1, 2, -3]), w=at([INF, 1, -INF]))


def add(t):
    ties(t)
    edges(t)
    logic(t)
    zeros(t)
    untaken(t)
