# SPDX-License-Identifier: Apache-2.0
"""Whole programs: test functions of optimisation, statistical models, physics, small networks."""
import jax
import jax.numpy as jnp
import jax.scipy.special as special
import jax.scipy.stats as stats

from gradients import at, normal, uniform


def optimisation(t):
    t.fn("rosenbrock", "a = narrow(x, axis=0, start=0, len=3); b = narrow(x, axis=0, start=1, len=3); "
         "return reduce_sum(add(mul(square(sub(b, square(a))), 100), square(sub(1, a))))",
         lambda x: jnp.sum(100 * (x[1:] - x[:-1]**2)**2 + (1 - x[:-1])**2), "hess nth3 taylor4 vmapgrad", x=normal(4))
    t.fn("himmelblau", "add(square(sub(add(square(x), y), 11)), square(sub(add(x, square(y)), 7)))",
         lambda x, y: (x * x + y - 11)**2 + (x + y * y - 7)**2, "grad hess taylor4", x=normal(), y=normal())
    t.fn("ackley", "a = sqrt(reduce_mean(square(x))); b = reduce_mean(cos(mul(x, 6.283185307179586))); "
         "return sub(sub(22.718281828459045, mul(exp(mul(a, -0.2)), 20)), exp(b))",
         lambda x: -20 * jnp.exp(-0.2 * jnp.sqrt(jnp.mean(x**2))) - jnp.exp(jnp.mean(jnp.cos(2 * jnp.pi * x))) + 20
         + jnp.e, "grad hess", x=normal(3))
    t.fn("rastrigin", "add(reduce_sum(sub(square(x), mul(cos(mul(x, 6.283185307179586)), 10))), 30)",
         lambda x: 30 + jnp.sum(x**2 - 10 * jnp.cos(2 * jnp.pi * x)), "grad hess nth3", x=normal(3))
    t.fn("beale",
         "y2 = square(y); return add_n(square(add(sub(1.5, x), mul(x, y))), square(add(sub(2.25, x), mul(x, y2))), "
         "square(add(sub(2.625, x), mul(x, mul(y2, y)))))",
         lambda x, y: (1.5 - x + x * y)**2 + (2.25 - x + x * y**2)**2 + (2.625 - x + x * y**3)**2, "grad hess",
         x=normal(), y=normal())
    t.fn("log_barrier", "s = sub(b, squeeze(matmul(a, unsqueeze(x, axes=[1])), axes=[1])); "
                        "return sub(reduce_sum(x), reduce_sum(log(s)))",
         lambda x, a, b: jnp.sum(x) - jnp.sum(jnp.log(b - a @ x)), "hvp nth3", x=uniform(-0.3, 0.3, 2), a=normal(3, 2),
         b=uniform(2, 3, 3))
    t.fn("polynomial", "add(mul(pow(x, 4), 3), sub(mul(pow(x, 3), -2), mul(x, 5)))",
         lambda x: 3 * x**4 - 2 * x**3 - 5 * x, "grad hess nth3 taylor4", x=normal())
    t.fn("cubic_is_gone", "reduce_sum(square(x))", lambda x: jnp.sum(x**2), "nth3 taylor4", x=normal(3))


def statistics(t):
    t.fn("logistic_regression", "z = add(squeeze(matmul(x, unsqueeze(w, axes=[1])), axes=[1]), b); "
         "return add(reduce_mean(softplus(neg(mul(y, z)))), mul(reduce_sum(square(w)), 0.05))",
         lambda w, b, x, y: jnp.mean(jnp.logaddexp(0, -y * (x @ w + b))) + 0.05 * jnp.sum(w**2), "hess",
         w=normal(2), b=normal(), x=normal(2, 2), y=at([1, -1]))
    t.fn("linear_regression", "r = sub(matmul(x, w), y); return reduce_mean(square(r))",
         lambda w, x, y: jnp.mean((x @ w - y)**2), "hvp", w=normal(2, 1), x=normal(3, 2), y=normal(3, 1))
    t.fn("poisson_regression",
         "eta = matmul(x, w); return reduce_sum(add(sub(exp(eta), mul(y, eta)), lgamma(add(y, 1))))",
         lambda w, x, y: jnp.sum(jnp.exp(x @ w) - y * (x @ w) + special.gammaln(y + 1)), "hvp", w=normal(2, 1),
         x=normal(3, 2), y=uniform(0.5, 4, 3, 1))
    t.fn("gaussian_likelihood", "z = div(sub(x, mu), exp(logs)); "
                                "return add(mul(reduce_sum(square(z)), 0.5), mul(logs, 3))",
         lambda mu, logs, x: -jnp.sum(stats.norm.logpdf(x, mu, jnp.exp(logs))) - 1.5 * jnp.log(2 * jnp.pi),
         "hess vmapgrad", mu=normal(), logs=normal(), x=normal(3))
    t.fn("mixture_likelihood", "d = sub(unsqueeze(x, axes=[1]), mu); l = sub(log_softmax(pi), mul(square(d), 0.5)); "
         "m = reduce_max(l, axes=[1], keep_dims=true); "
         "return neg(reduce_sum(add(m, log(reduce_sum(exp(sub(l, m)), axes=[1], keep_dims=true)))))",
         lambda mu, pi, x: -jnp.sum(special.logsumexp(jax.nn.log_softmax(pi) - (x[:, None] - mu)**2 / 2, axis=1)),
         "hvp vmapgrad", mu=normal(2), pi=normal(2), x=normal(3))
    t.fn("student_t", "h = mul(add(nu, 1), 0.5); "
         "return reduce_sum(sub(add(sub(lgamma(h), lgamma(mul(nu, 0.5))), mul(log(nu), -0.5)), mul(h, "
         "log1p(div(square(x), nu)))))",
         lambda nu, x: jnp.sum(stats.t.logpdf(x, nu)) + 3 * 0.5 * jnp.log(jnp.pi), "grad hess", nu=uniform(2, 5),
         x=normal(3))
    t.fn("beta_density", "reduce_sum(add(sub(lgamma(add(a, b)), add(lgamma(a), lgamma(b))), add(mul(sub(a, 1), "
                         "log(x)), mul(sub(b, 1), log1p(neg(x))))))",
         lambda a, b, x: jnp.sum(stats.beta.logpdf(x, a, b)), "grad hess", a=uniform(1.2, 4), b=uniform(1.2, 4),
         x=uniform(0.1, 0.9, 3))
    t.fn("dirichlet", "add(sub(lgamma(reduce_sum(a)), reduce_sum(lgamma(a))), reduce_sum(mul(sub(a, 1), log(p))))",
         lambda a, p: special.gammaln(jnp.sum(a)) - jnp.sum(special.gammaln(a)) + jnp.sum((a - 1) * jnp.log(p)),
         "grad hess", a=uniform(0.8, 3, 3), p=uniform(0.1, 0.6, 3))
    t.fn("von_mises", "sub(mul(k, sub(reduce_sum(cos(sub(x, mu))), 3)), mul(log(bessel_i0e(k)), 3))",
         lambda mu, k, x: k * (jnp.sum(jnp.cos(x - mu)) - 3) - 3 * jnp.log(special.i0e(k)), "grad hess", mu=normal(),
         k=uniform(0.8, 2.5), x=normal(3))
    t.fn("probit", "p = mul(erfc(mul(x, -0.7071067811865476)), 0.5); return reduce_sum(log(p))",
         lambda x: jnp.sum(stats.norm.logcdf(x)), "grad hess nth3", x=normal(3))
    t.fn("rbf_kernel", "d = sub(unsqueeze(x, axes=[1]), unsqueeze(x, axes=[0])); "
                       "k = exp(div(mul(square(d), -0.5), square(l))); "
         'return einsum(y, k, y, eq="i,ij,j->")',
         lambda x, y, l: y @ jnp.exp(-(x[:, None] - x[None])**2 / (2 * l * l)) @ y, "hvp vmapgrad", x=normal(3),
         y=normal(3), l=uniform(0.5, 1.5))


def physics(t):
    t.fn("black_scholes", "v = mul(sigma, sqrt(t)); d1 = add(div(add(log(div(s, k)), mul(r, t)), v), mul(v, 0.5)); "
                          "d2 = sub(d1, v); "
         "n1 = mul(erfc(mul(d1, -0.7071067811865476)), 0.5); n2 = mul(erfc(mul(d2, -0.7071067811865476)), 0.5); "
         "return sub(mul(s, n1), mul(mul(k, exp(neg(mul(r, t)))), n2))",
         black_scholes, "hess vmapgrad", s=at(100.0, 95.0), k=at(105.0, 100.0), r=at(0.03, 0.01), sigma=at(0.2, 0.35),
         t=at(0.75, 1.5))
    t.fn("lennard_jones", "d = sub(unsqueeze(x, axes=[1]), unsqueeze(x, axes=[0])); "
                          "r2 = add(reduce_sum(square(d), axes=[2]), eye(n=3, dtype=f64)); "
         "i6 = reciprocal(mul(mul(r2, r2), r2)); e = mul(sub(square(i6), i6), sub(1, eye(n=3, dtype=f64))); "
         "return mul(reduce_sum(e), 2)",
         lennard_jones, "hess vmapgrad", x=at([[0, 0], [1.1, 0.1], [0.3, 1.2]], [[0.1, 0], [1.3, 0.1], [0.2, 1]]))
    t.fn("pendulum_lagrangian", "a, b = unstack(q); u, v = unstack(dq); "
         "kinetic = add_n(square(u), mul(square(v), 0.5), mul(mul(mul(u, v), cos(sub(a, b))), 1)); "
         "return add(kinetic, mul(add(mul(cos(a), 2), cos(b)), 9.81))",
         lambda q, dq: dq[0]**2 + dq[1]**2 / 2 + dq[0] * dq[1] * jnp.cos(q[0] - q[1]) + 9.81
         * (2 * jnp.cos(q[0]) + jnp.cos(q[1])), "hess vmapgrad", q=normal(2), dq=normal(2))
    t.fn("kepler_energy", "r = sqrt(reduce_sum(square(x))); return sub(mul(reduce_sum(square(v)), 0.5), div(mu, r))",
         lambda x, v, mu: jnp.sum(v**2) / 2 - mu / jnp.linalg.norm(x), "grad hess nth3 taylor4", x=normal(3),
         v=normal(3), mu=uniform(0.5, 2))
    t.fn("rotation", "c = cos(a); s = sin(a); r = reshape(stack(c, neg(s), s, c), shape=[2, 2]); return matmul(p, r)",
         lambda a, p: p @ jnp.array([[jnp.cos(a), -jnp.sin(a)], [jnp.sin(a), jnp.cos(a)]]), "jac vmap vmapone taylor4",
         a=normal(), p=normal(3, 2))
    t.fn("spherical_coordinates",
         "stack(mul(mul(r, sin(th)), cos(ph)), mul(mul(r, sin(th)), sin(ph)), mul(r, cos(th)))",
         lambda r, th, ph: jnp.stack([r * jnp.sin(th) * jnp.cos(ph), r * jnp.sin(th) * jnp.sin(ph), r * jnp.cos(th)]),
         "jac vmap taylor4", r=uniform(0.5, 2), th=normal(), ph=normal())
    t.fn("heat_step", "l = sub(add(roll(u, shift=1, axis=0), roll(u, shift=-1, axis=0)), mul(u, 2)); "
                      "n = add(u, mul(mul(l, k), 0.1)); "
         "return reduce_sum(square(square(n)))",
         lambda u, k: jnp.sum((u + 0.1 * k * (jnp.roll(u, 1) + jnp.roll(u, -1) - 2 * u))**4), "hvp gradone",
         u=normal(5), k=uniform(0.5, 1.5, 5))


def black_scholes(s, k, r, sigma, t):
    d1 = (jnp.log(s / k) + (r + sigma**2 / 2) * t) / (sigma * jnp.sqrt(t))
    d2 = d1 - sigma * jnp.sqrt(t)
    return s * stats.norm.cdf(d1) - k * jnp.exp(-r * t) * stats.norm.cdf(d2)


def lennard_jones(x):
    total = 0.0
    for i in range(3):
        for j in range(i):
            r2 = jnp.sum((x[i] - x[j])**2)
            total += 4 * (r2**-6 - r2**-3)
    return total


def networks(t):
    t.fn("mlp", "h = tanh(add(matmul(x, w1), b1)); o = add(matmul(h, w2), b2); return reduce_mean(square(sub(o, y)))",
         lambda x, y, w1, b1, w2, b2: jnp.mean((jnp.tanh(x @ w1 + b1) @ w2 + b2 - y)**2), "hvp",
         x=normal(2, 2), y=normal(2, 1), w1=normal(2, 2), b1=normal(2), w2=normal(2, 1), b2=normal(1))
    t.fn("mlp_hessian", "h = sigmoid(matmul(w1, x)); return reduce_sum(square(matmul(w2, h)))",
         lambda w1, w2, x: jnp.sum((w2 @ jax.nn.sigmoid(w1 @ x))**2), "hvp", w1=normal(2, 2), w2=normal(1, 2),
         x=normal(2, 1))
    t.fn("attention_head", "q = matmul(x, wq); k = matmul(x, wk); v = matmul(x, wv); "
         "p = softmax(mul(matmul(q, transpose(k)), 0.7071067811865476)); return reduce_sum(square(matmul(p, v)))",
         lambda x, wq, wk, wv: jnp.sum((jax.nn.softmax((x @ wq) @ (x @ wk).T / jnp.sqrt(2)) @ (x @ wv))**2),
         "hvp vmapgrad", x=normal(3, 2), wq=normal(2, 2), wk=normal(2, 2), wv=normal(2, 2))
    t.fn("causal_attention", "s = mul(matmul(q, transpose(k, perm=[0, 2, 1])), 0.5); m = tril(full(f64[3, 3], 1)); "
         "p = softmax(where(gt(m, 0), s, -inf)); return reduce_sum(sin(matmul(p, v)))",
         lambda q, k, v: jnp.sum(jnp.sin(jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((3, 3))) > 0,
                                                                  q @ k.transpose(0, 2, 1) / 2, -jnp.inf)) @ v)),
         "hvp", q=normal(1, 3, 2), k=normal(1, 3, 2), v=normal(1, 3, 1))
    t.fn("gru_cell", "z = sigmoid(matmul(concat(x, h, axis=1), wz)); r = sigmoid(matmul(concat(x, h, axis=1), wr)); "
         "n = tanh(matmul(concat(x, mul(r, h), axis=1), wn)); "
         "return reduce_sum(square(add(mul(sub(1, z), h), mul(z, n))))",
         gru, "hvp", x=normal(1, 1), h=normal(1, 2), wz=normal(3, 2), wr=normal(3, 2), wn=normal(3, 2))
    t.fn("lstm_cell", "g = add(matmul(x, wx), matmul(h, wh)); a, b, o, u = split(g, sizes=[1, 1, 1, 1], axis=1); "
         "cn = add(mul(sigmoid(b), c), mul(sigmoid(a), tanh(u))); return mul(sigmoid(o), tanh(cn)), cn",
         lstm, "jac vmap vmapone taylor4", x=normal(1, 1), h=normal(1, 1), c=normal(1, 1), wx=normal(1, 4),
         wh=normal(1, 4))
    t.fn("transformer_block", "m = reduce_mean(x, axes=[1], keep_dims=true); "
                              "s = rsqrt(add(reduce_mean(square(sub(x, m)), axes=[1], keep_dims=true), 1e-5)); "
         "n = mul(sub(x, m), s); p = softmax(matmul(n, transpose(n))); h = add(x, matmul(matmul(p, n), wo)); "
         "return reduce_sum(square(add(h, matmul(gelu(matmul(h, w1)), w2))))",
         transformer, "hvp", x=normal(2, 3), wo=normal(3, 3), w1=normal(3, 1), w2=normal(1, 3))
    t.fn("autoencoder", "e = add(matmul(x, w), b); mu, lv = split(e, sizes=[1, 1], axis=1); "
                        "z = add(mu, mul(exp(mul(lv, 0.5)), noise)); "
         "r = sub(matmul(z, d), x); kl = reduce_sum(sub(add(exp(lv), square(mu)), lv)); "
         "return add(reduce_sum(square(r)), mul(kl, 0.5))",
         autoencoder, "hvp", x=normal(2, 2), w=normal(2, 2), b=normal(2), d=normal(1, 2), noise=normal(2, 1))
    t.fn("word_vectors", "u = gather(a, i); v = gather(b, j); s = reduce_sum(mul(u, v), axes=[1]); "
                         "return reduce_sum(softplus(mul(neg(s), y)))",
         lambda a, b, i, j, y: jnp.sum(jnp.logaddexp(0, -y * jnp.sum(a[i] * b[j], 1))), "hvp", a=normal(3, 2),
         b=normal(3, 2), i=at([0, 2, 0, 1], dtype="i32"), j=at([1, 1, 0, 1], dtype="i32"), y=at([1, -1, 1, -1]))
    t.fn("mixture_of_experts", "g = softmax(matmul(x, wg)); v, i = top_k(g, k=2, axis=1); "
                               "e = einsum(x, w, eq=\"nd,edf->nef\"); "
         "p = reduce_sum(mul(take_along(e, expand(unsqueeze(i, axes=[2]), shape=[2, 2, 2]), axis=1), unsqueeze(v, "
         "axes=[2])), axes=[1]); "
         "return reduce_sum(square(p))",
         experts, "hvp", x=normal(2, 2), wg=normal(2, 3), w=normal(3, 2, 2))
    t.fn("graph_convolution", "m = scatter_add(gather(matmul(x, w), src), dst, R=4); "
                              "return reduce_sum(square(relu(add(m, x))))",
         lambda x, w, src, dst: jnp.sum(jax.nn.relu(jnp.zeros((4, 2)).at[dst].add((x @ w)[src]) + x)**2), "hvp",
         x=normal(4, 2), w=normal(2, 2), src=at([0, 1, 2, 3, 0], [1, 1, 0, 3, 2], dtype="i32"),
         dst=at([1, 2, 1, 0, 3], [0, 2, 3, 1, 1], dtype="i32"))


def gru(x, h, wz, wr, wn):
    z = jax.nn.sigmoid(jnp.concatenate([x, h], 1) @ wz)
    r = jax.nn.sigmoid(jnp.concatenate([x, h], 1) @ wr)
    n = jnp.tanh(jnp.concatenate([x, r * h], 1) @ wn)
    return jnp.sum(((1 - z) * h + z * n)**2)


def lstm(x, h, c, wx, wh):
    a, b, o, u = jnp.split(x @ wx + h @ wh, 4, 1)
    cn = jax.nn.sigmoid(b) * c + jax.nn.sigmoid(a) * jnp.tanh(u)
    return jax.nn.sigmoid(o) * jnp.tanh(cn), cn


def transformer(x, wo, w1, w2):
    n = (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5)
    h = x + jax.nn.softmax(n @ n.T) @ n @ wo
    return jnp.sum((h + jax.nn.gelu(h @ w1, approximate=False) @ w2)**2)


def autoencoder(x, w, b, d, noise):
    mu, lv = jnp.split(x @ w + b, 2, 1)
    z = mu + jnp.exp(lv / 2) * noise
    return jnp.sum((z @ d - x)**2) + 0.5 * jnp.sum(jnp.exp(lv) + mu**2 - lv)


def experts(x, wg, w):
    g = jax.nn.softmax(x @ wg)
    top = jnp.argsort(-g, 1)[:, :2]
    picked = jnp.take_along_axis(g, top, 1)
    return jnp.sum(jnp.einsum("nk,nd,nkdf->nf", picked, x, w[top])**2)


def add(t):
    optimisation(t)
    statistics(t)
    physics(t)
    networks(t)
