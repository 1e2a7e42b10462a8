# SPDX-License-Identifier: Apache-2.0
"""Derivatives in f16 and bf16. The answers are those of f64, rounded; each operation of ours rounds to the narrow
type."""
import jax
import jax.numpy as jnp

from gradients import at, integers, normal, uniform


def add(t):
    for dtype in ("f16", "bf16"):
        def of(*shape, dtype=dtype):
            return normal(*shape, dtype=dtype)
        t.fn(f"{dtype}_waves", "reduce_sum(mul(sin(x), exp(y)))", lambda x, y: jnp.sum(jnp.sin(x) * jnp.exp(y)),
             "hess taylor4 vmapgrad", x=of(3), y=of(3))
        t.fn(f"{dtype}_activations", "reduce_sum(add_n(tanh(x), sigmoid(x), gelu(x), softplus(x)))",
             lambda x: jnp.sum(jnp.tanh(x) + jax.nn.sigmoid(x) + jax.nn.gelu(x, approximate=False)
                               + jnp.logaddexp(x, 0)), "hvp",
             x=of(4))
        small = uniform(-0.75, 0.75, 2, 2, dtype=dtype)
        t.fn(f"{dtype}_network", "reduce_mean(square(matmul(tanh(matmul(x, w)), v)))",
             lambda x, w, v: jnp.mean((jnp.tanh(x @ w) @ v)**2), "hvp", x=small, w=small, v=small)
        t.fn(f"{dtype}_cross_entropy",
             "p = take_along(log_softmax(x), unsqueeze(i, axes=[1]), axis=1); return neg(reduce_mean(p))",
             lambda x, i: -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), i[:, None], 1)), "hvp vmapgrad",
             x=of(2, 4), i=integers(0, 4, 2))
        t.fn(f"{dtype}_conv", "reduce_sum(square(conv(x, w)))",
             lambda x, w: jnp.sum((x[0, 0, :-1] * w[0, 0, 0] + x[0, 0, 1:] * w[0, 0, 1])**2), "hvp", x=of(1, 1, 4),
             w=of(1, 1, 2))
        t.fn(f"{dtype}_running", "reduce_sum(mul(cumsum(x), cumprod(x)))",
             lambda x: jnp.sum(jnp.cumsum(x) * jnp.cumprod(x)), "hvp", x=of(4))
        t.fn(f"{dtype}_roots", "reduce_sum(div(sqrt(x), add(log(x), 2)))",
             lambda x: jnp.sum(jnp.sqrt(x) / (jnp.log(x) + 2)), "grad hess", x=uniform(0.5, 3, 3, dtype=dtype))
        t.fn(f"{dtype}_scan", "scan(x, w, body=@%s_step)" % dtype, lambda x, w: jnp.tanh(jnp.tanh(x * w[0]) * w[1]),
             "hess vmapgrad",
             bodies="graph %s_step(c: %s[], w: %s[]) { return tanh(mul(c, w)) }" % (dtype, dtype, dtype), x=of(),
             w=of(2))
        t.fn(f"{dtype}_ties", "reduce_sum(square(reduce_max(x, axes=[1])))", lambda x: jnp.sum(jnp.max(x, 1)**2), "hvp",
             x=at([[1, 2, 2], [0.5, 0.5, 0.5]], dtype=dtype))
