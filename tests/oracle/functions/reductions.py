# SPDX-License-Identifier: Apache-2.0
"""Reductions, normalisations, losses and running sums."""
import jax
import jax.numpy as jnp
import jax.scipy.special as special
from jax import lax

from gradients import at, distinct, integers, normal, uniform


def losses(t):
    x = normal(2, 3)
    t.fn("softmax_weighted", "reduce_sum(mul(softmax(x, axis=1), w))", lambda x, w: jnp.sum(jax.nn.softmax(x, 1) * w),
         "hvp taylor4 vmapgrad", x=x, w=normal(2, 3))
    t.fn("softmax_axis0", "softmax(x, axis=0)", lambda x: jax.nn.softmax(x, 0), "jac vmap taylor4", x=x)
    t.fn("log_softmax_rows", "reduce_sum(mul(log_softmax(x), w))", lambda x, w: jnp.sum(jax.nn.log_softmax(x) * w),
         "hvp vmapgrad", x=x, w=normal(3))
    t.fn("softmax_large_logits", "reduce_sum(mul(softmax(x), const(f64[3], [1, 2, 3])))",
         lambda x: jnp.sum(jax.nn.softmax(x) * jnp.arange(1.0, 4)), "grad hess", x=at([1000, 1001, 999.5]))
    t.fn("logsumexp", "m = reduce_max(x, axes=[1], keep_dims=true); "
                      "e = reduce_sum(exp(sub(x, m)), axes=[1], keep_dims=true); "
         "return reduce_sum(add(m, log(e)))", lambda x: jnp.sum(special.logsumexp(x, 1)), "hess vmapgrad", x=x)
    t.fn("cross_entropy", "logp = log_softmax(x); picked = take_along(logp, unsqueeze(label, axes=[1]), axis=1); "
         "return neg(reduce_mean(picked))",
         lambda x, label: -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), label[:, None], 1)),
         "hvp vmapgrad", x=normal(3, 4), label=integers(0, 4, 3))
    t.fn("cross_entropy_one_hot", "y = one_hot(label, n=4, dtype=f64); return neg(reduce_sum(mul(y, log_softmax(x))))",
         lambda x, label: -jnp.sum(jax.nn.one_hot(label, 4) * jax.nn.log_softmax(x)), "hvp vmapgrad",
         x=normal(2, 4), label=integers(0, 4, 2))
    t.fn("binary_cross_entropy", "reduce_mean(sub(softplus(x), mul(x, y)))",
         lambda x, y: jnp.mean(jnp.logaddexp(x, 0) - x * y), "hvp", x=normal(5), y=uniform(0, 1, 5))
    t.fn("focal_loss", "p = sigmoid(x); return neg(reduce_sum(mul(square(sub(1, p)), log(p))))",
         lambda x: -jnp.sum((1 - jax.nn.sigmoid(x))**2 * jnp.log(jax.nn.sigmoid(x))), "grad hess nth3", x=normal(4))
    t.fn("entropy", "p = softmax(x); return neg(reduce_sum(mul(p, log(p))))",
         lambda x: -jnp.sum(jax.nn.softmax(x) * jax.nn.log_softmax(x)), "grad hess taylor4", x=normal(4))
    t.fn("kl_divergence", "p = softmax(a); return reduce_sum(mul(p, sub(log_softmax(a), log_softmax(b))))",
         lambda a, b: jnp.sum(jax.nn.softmax(a) * (jax.nn.log_softmax(a) - jax.nn.log_softmax(b))), "hvp vmapgrad",
         a=normal(3), b=normal(3))
    t.fn("kl_of_gaussians", "v = exp(logvar); return mul(reduce_sum(sub(add(v, square(mu)), add(logvar, 1))), 0.5)",
         lambda mu, logvar: 0.5 * jnp.sum(jnp.exp(logvar) + mu**2 - 1 - logvar), "grad hess", mu=normal(3),
         logvar=normal(3))
    t.fn("hinge", "reduce_mean(relu(sub(1, mul(x, y))))", lambda x, y: jnp.mean(jax.nn.relu(1 - x * y)), "grad jvp",
         x=normal(4), y=at([1, -1, 1, -1]))
    t.fn("triplet", "d1 = reduce_sum(square(sub(a, p)), axes=[1]); d2 = reduce_sum(square(sub(a, n)), axes=[1]); "
         "return reduce_sum(relu(add(sub(d1, d2), 2)))",
         lambda a, p, n: jnp.sum(jax.nn.relu(jnp.sum((a - p)**2, 1) - jnp.sum((a - n)**2, 1) + 2)), "hvp",
         a=normal(2, 2), p=normal(2, 2), n=normal(2, 2))
    t.fn("contrastive", "s = mul(matmul(a, transpose(b)), 2); return neg(reduce_sum(diag(log_softmax(s))))",
         lambda a, b: -jnp.sum(jnp.diag(jax.nn.log_softmax(2 * a @ b.T))), "hvp vmapgrad", a=normal(3, 2),
         b=normal(3, 2))
    t.fn("f32_cross_entropy", "logp = log_softmax(x); return neg(reduce_sum(mul(logp, y)))",
         lambda x, y: -jnp.sum(jax.nn.log_softmax(x) * y), "hvp", x=normal(2, 3, dtype="f32"),
         y=normal(2, 3, dtype="f32"))


def norms(t):
    t.fn("norm_l1", "reduce_sum(abs(x))", lambda x: jnp.sum(jnp.abs(x)), "grad hess", x=normal(4))
    t.fn("norm_l2", "sqrt(reduce_sum(square(x)))", jnp.linalg.norm, "grad hess nth3 taylor4", x=normal(4))
    t.fn("norm_l3", "cbrt(reduce_sum(pow(abs(x), 3)))", lambda x: jnp.sum(jnp.abs(x)**3)**(1 / 3), "grad hess",
         x=normal(4))
    t.fn("norm_max", "reduce_max(abs(x))", lambda x: jnp.max(jnp.abs(x)), "grad hess", x=normal(4))
    t.fn("norm_frobenius", "sqrt(reduce_sum(mul(x, x)))", lambda x: jnp.sqrt(jnp.sum(x * x)), "hess", x=normal(2, 3))
    t.fn("cosine_similarity", "div(reduce_sum(mul(a, b)), sqrt(mul(reduce_sum(square(a)), reduce_sum(square(b)))))",
         lambda a, b: a @ b / jnp.sqrt((a @ a) * (b @ b)), "hvp vmapone vmapgrad taylor4", a=normal(3), b=normal(3))
    t.fn("unit_vector", "div(x, sqrt(reduce_sum(square(x))))", lambda x: x / jnp.linalg.norm(x), "jac taylor4 vmap",
         x=normal(3))
    t.fn("variance", "c = sub(x, reduce_mean(x, axes=[1], keep_dims=true)); "
                     "return reduce_sum(log(reduce_mean(square(c), axes=[1])))",
         lambda x: jnp.sum(jnp.log(jnp.var(x, 1))), "hvp nth3", x=normal(2, 4))
    t.fn("layer_norm", "c = sub(x, reduce_mean(x, axes=[1], keep_dims=true)); "
                       "v = reduce_mean(square(c), axes=[1], keep_dims=true); "
         "y = add(mul(mul(c, rsqrt(add(v, 1e-5))), gamma), beta); return reduce_sum(mul(y, sin(y)))",
         lambda x, gamma, beta: (lambda y: jnp.sum(y * jnp.sin(y)))(
             (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-5) * gamma + beta),
         "hvp", x=normal(2, 4), gamma=normal(4), beta=normal(4))
    t.fn("rms_norm", "r = rsqrt(add(reduce_mean(square(x), axes=[1], keep_dims=true), 1e-6)); "
                     "return mul(mul(x, r), gamma)",
         lambda x, gamma: x * lax.rsqrt(jnp.mean(x**2, 1, keepdims=True) + 1e-6) * gamma, "jac vmap vmapone taylor4",
         x=normal(2, 3), gamma=normal(3))
    t.fn("batch_norm", "m = reduce_mean(x, axes=[0]); v = sub(reduce_mean(square(x), axes=[0]), square(m)); "
         "return reduce_sum(exp(mul(div(sub(x, m), sqrt(add(v, 0.1))), gamma)))",
         lambda x, gamma: jnp.sum(jnp.exp((x - x.mean(0)) / jnp.sqrt(x.var(0) + 0.1) * gamma)), "hvp gradone",
         x=normal(4, 2), gamma=normal(2))
    t.fn("group_norm", "g = reshape(x, shape=[1, 2, 4]); c = sub(g, reduce_mean(g, axes=[2], keep_dims=true)); "
         "y = div(c, sqrt(add(reduce_mean(square(c), axes=[2], keep_dims=true), 1e-5))); "
         "return reduce_sum(tanh(mul(reshape(y, shape=[1, 4, 2]), gamma)))",
         lambda x, gamma: (lambda g: jnp.sum(jnp.tanh(((g - g.mean(2, keepdims=True))
                                                       / jnp.sqrt(g.var(2, keepdims=True) + 1e-5))
                                                      .reshape(1, 4, 2) * gamma)))(x.reshape(1, 2, 4)),
         "hvp vmapgrad", x=normal(1, 4, 2), gamma=normal(4, 1))
    t.fn("mean_axes", "reduce_sum(exp(reduce_mean(x, axes=[0, 2])))", lambda x: jnp.sum(jnp.exp(x.mean((0, 2)))),
         "hvp vmapgrad", x=normal(2, 2, 3))
    t.fn("max_of_sums", "reduce_max(reduce_sum(square(x), axes=[0]))", lambda x: jnp.max(jnp.sum(x**2, 0)),
         "hess vmapgrad", x=normal(2, 3))
    t.fn("soft_maximum", "div(reduce_sum(mul(x, exp(x))), reduce_sum(exp(x)))",
         lambda x: jnp.sum(x * jnp.exp(x)) / jnp.sum(jnp.exp(x)),
         "grad hess nth3 taylor4", x=normal(4))  # <1, gradient> = 1, its gradients are 0 except for rounding
    t.fn("sum_of_probabilities", "reduce_sum(softmax(x))", lambda x: jnp.sum(jax.nn.softmax(x)), "hvp nth3",
         x=normal(4))
    t.fn("angles_of_triangle", "a = atan2(y, x); b = atan2(x, y); return reduce_sum(add(a, b))",
         lambda x, y: jnp.sum(jnp.arctan2(y, x) + jnp.arctan2(x, y)), "hess taylor4", x=normal(2), y=normal(2))


def running(t):
    w = "const(f64[4], [1, -2, 3, 0.5])"
    weights = jnp.array([1, -2, 3, 0.5])
    t.fn("cumsum_square", f"reduce_sum(mul(square(cumsum(x)), {w}))", lambda x: jnp.sum(jnp.cumsum(x)**2 * weights),
         "hess vmapgrad", x=normal(4))
    t.fn("cumsum_flags", "a = cumsum(x, axis=0, exclusive=true); b = cumsum(x, axis=1, reverse=true); "
                         "return reduce_sum(mul(sin(a), b))",
         lambda x: jnp.sum(jnp.sin(jnp.cumsum(x, 0) - x) * jnp.flip(jnp.cumsum(jnp.flip(x, 1), 1), 1)), "hess vmapgrad",
         x=normal(2, 3))
    t.fn("cumprod", f"reduce_sum(mul(sin(cumprod(x)), {w}))", lambda x: jnp.sum(jnp.sin(jnp.cumprod(x)) * weights),
         "hess vmapgrad nth3", x=normal(4))
    t.fn("cumprod_axis0", "cumprod(x, axis=0)", lambda x: jnp.cumprod(x, 0), "jac vmap taylor4", x=normal(3, 2))
    t.fn("cummax", f"reduce_sum(mul(square(cummax(x)), {w}))", lambda x: jnp.sum(lax.cummax(x)**2 * weights),
         "hess vmapgrad", x=distinct(4))
    t.fn("cummin_reverse", f"reduce_sum(mul(exp(cummin(x, reverse=true)), {w}))",
         lambda x: jnp.sum(jnp.exp(lax.cummin(x, reverse=True)) * weights), "grad hess vmap", x=distinct(4))
    t.fn("cumlogsumexp", f"reduce_sum(mul(cumlogsumexp(x), {w}))", lambda x: jnp.sum(lax.cumlogsumexp(x) * weights),
         "hess vmapgrad", x=normal(4))
    t.fn("cumlogsumexp_matrix", "cumlogsumexp(x, axis=0, reverse=true)", lambda x: lax.cumlogsumexp(x, 0, reverse=True),
         "jac vmap", x=normal(3, 2))
    t.fn("sorted_weighted", f"s = sort(x, descending=true); return reduce_sum(mul(square(s), {w}))",
         lambda x: jnp.sum(jnp.sort(x)[::-1]**2 * weights), "hess vmapgrad", x=distinct(4))
    t.fn("sort_by_key", "k, v = sort(key, value, axis=1); return reduce_sum(mul(cumsum(v, axis=1), sin(k)))",
         lambda key, value: (lambda i: jnp.sum(jnp.cumsum(jnp.take_along_axis(value, i, 1), 1)
                                               * jnp.sin(jnp.take_along_axis(key, i, 1))))(jnp.argsort(key, 1)),
         "hvp gradone", key=distinct(2, 3), value=normal(2, 3))
    t.fn("top_two", "v, i = top_k(x, k=2, axis=0); return reduce_sum(mul(v, v))",
         lambda x: jnp.sum(jnp.sort(x, 0)[-2:]**2), "hess vmapgrad", x=distinct(4, 2))
    t.fn("sort_columns", "sort(x, axis=0)", lambda x: jnp.sort(x, 0), "jac jvp vmap taylor4", x=distinct(3, 2))
    t.fn("sort_by_magnitude", f"s = sort(x, compare=@smaller_magnitude); return reduce_sum(mul(exp(s), {w}))",
         lambda x: jnp.sum(jnp.exp(x[jnp.argsort(jnp.abs(x))]) * weights), "hess vmapgrad",
         bodies="graph smaller_magnitude(a: f64[], b: f64[]) { return lt(abs(a), abs(b)) }",
         x=at([0.5, -1.25, 0.25, -2], [-3, 0.75, 1.5, -0.25]))
    t.fn("sort_by_two_keys", "a, b, v = sort(k, x, y, num_keys=2); "
                             "return reduce_sum(mul(v, mul(sin(b), const(f64[4], [1, 2, 3, 4]))))",
         lambda k, x, y: (lambda i: jnp.sum(y[i] * jnp.sin(x[i]) * jnp.arange(1.0, 5)))(jnp.lexsort((x, k))),
         "hess vmapgrad", k=at([1, 0, 1, 0], [2, 2, 0, 2], dtype="i32"), x=distinct(4), y=normal(4))
    t.fn("sorted_gaps", "s = sort(x); d = sub(narrow(s, axis=0, start=1, len=3), narrow(s, axis=0, start=0, len=3)); "
                        "return reduce_sum(log(d))",
         lambda x: jnp.sum(jnp.log(jnp.diff(jnp.sort(x)))), "hess nth3 taylor4", x=distinct(4))
    t.fn("ranks", "r = cast(argsort(argsort(x)), to=f64); return reduce_sum(mul(r, square(x)))",
         lambda x: jnp.sum(jnp.argsort(jnp.argsort(x)) * x**2), "hess vmapgrad", x=distinct(4))
    t.fn("top_two_columns", "v, i = top_k(x, k=2, axis=0); return v, mul(v, cast(i, to=f64))",
         lambda x: (lambda i: (lambda v: (v, v * i))(jnp.take_along_axis(x, i, 0)))(jnp.argsort(-x, 0)[:2]),
         "jac jvp vmap", x=distinct(3, 2))
    t.fn("argmin_gather", "i = argmin(x, axis=1, keep_dims=true); "
                          "return reduce_sum(exp(take_along(mul(x, y), i, axis=1)))",
         lambda x, y: jnp.sum(jnp.exp(jnp.take_along_axis(x * y, jnp.argmin(x, 1, keepdims=True), 1))), "hvp vmapgrad",
         x=distinct(2, 3), y=normal(2, 3))
    t.fn("topk_positions", "reduce_sum(square(gather(x, topk(x, k=2))))", lambda x: jnp.sum(jnp.sort(x)[-2:]**2),
         "hess vmapgrad", x=distinct(4))
    t.fn("running_sum_and_product", "cumsum(x), cumprod(x, reverse=true)",
         lambda x: (jnp.cumsum(x), jnp.cumprod(x[::-1])[::-1]), "jac taylor4 vmap", x=normal(3))
    t.fn("running_maximum_exclusive", f"reduce_sum(mul(exp(max(cummax(x, exclusive=true), -3)), {w}))",
         lambda x: jnp.sum(jnp.exp(jnp.concatenate([jnp.array([-3.0]), jnp.maximum(lax.cummax(x)[:-1], -3)]))
                           * weights), "hess vmapgrad",
         x=distinct(4))
    t.fn("running_logsumexp_high_order", f"reduce_sum(mul(square(cumlogsumexp(x)), {w}))",
         lambda x: jnp.sum(lax.cumlogsumexp(x)**2 * weights), "nth3 taylor4", x=normal(4))
    t.fn("argsort_gather", "reduce_sum(mul(gather(y, argsort(x)), x))", lambda x, y: jnp.sum(y[jnp.argsort(x)] * x),
         "jvp vmapgrad", x=distinct(4), y=normal(4))
    t.fn("argmax_gather", "square(gather(y, argmax(x)))", lambda x, y: y[jnp.argmax(x)]**2 + 0 * jnp.sum(x),
         "jvp vmapgrad", x=distinct(4), y=normal(4))
    t.fn("sparsemax", "s = sort(x, descending=true); c = cumsum(s); k = const(f64[4], [1, 2, 3, 4]); "
         "ok = gt(add(mul(k, s), 1), c); n = reduce_sum(cast(ok, to=f64)); "
         "tau = div(sub(reduce_sum(where(ok, s, 0)), 1), n); return relu(sub(x, tau))",
         lambda x: (lambda s: (lambda ok: jax.nn.relu(x - (jnp.sum(jnp.where(ok, s, 0.0)) - 1) / jnp.sum(ok)))(
             1 + jnp.arange(1.0, 5) * s > jnp.cumsum(s)))(jnp.sort(x)[::-1]), "jac jvp vmap", x=distinct(4))


def add(t):
    losses(t)
    norms(t)
    running(t)
