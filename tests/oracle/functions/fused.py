# SPDX-License-Identifier: Apache-2.0
"""Composites (fused_*), grouped products, recurrences and regions. Recurrences are lax.scan on JAX's side."""
import jax
import jax.numpy as jnp
from gradients import at, normal, uniform
from jax import lax


def selective_scan(x, delta, a, b, c):
    def step(h, t):
        x, delta, b, c = t
        h = jnp.exp(delta[:, :, None] * a) * h + (delta * x)[:, :, None] * b[:, None, :]
        return h, jnp.einsum("nhk,nk->nh", h, c)
    h = jnp.zeros((x.shape[0], x.shape[2], a.shape[1]))
    return lax.scan(step, h, [jnp.moveaxis(v, 1, 0) for v in (x, delta, b, c)])[1].swapaxes(0, 1)


def gated_delta_net(q, k, v, gamma, beta, state=None):
    def step(s, t):
        q, k, v, gamma, beta = t
        s = jnp.exp(gamma)[..., None, None] * s
        d = (v - jnp.einsum("bhij,bhi->bhj", s, k)) * beta[..., None]
        s = s + k[..., :, None] * d[..., None, :]
        return s, jnp.einsum("bhij,bhi->bhj", s, q) / jnp.sqrt(q.shape[-1])
    n = q.shape[-1]
    s = jnp.zeros((q.shape[0], q.shape[2], n, n)) if state is None else state
    s, y = lax.scan(step, s, [jnp.moveaxis(x, 1, 0) for x in (q, k, v, gamma, beta)])
    return y.swapaxes(0, 1), s


def recurrences(t):
    xs = {"x": normal(1, 3, 2), "delta": uniform(0.1, 1, 1, 3, 2), "a": uniform(-1, 0, 2, 2), "b": normal(1, 3, 2),
          "c": normal(1, 3, 2)}
    t.fn("selective_scan", "reduce_sum(square(selective_scan(x, delta, a, b, c)))",
         lambda *xs: jnp.sum(selective_scan(*xs)**2), "hvp vmapgrad gradone", **xs)
    t.fn("selective_scan_tangents", "selective_scan(x, delta, a, b, c)", selective_scan, "jvp vmap vmapone taylor4",
         **xs)
    qs = {key: uniform(-1, 1, 1, 3, 1, 2) for key in "qkv"} | {"g": uniform(-1, 0, 1, 3, 1),
                                                               "b": uniform(0.1, 1, 1, 3, 1)}
    t.fn("gated_delta_net", "reduce_sum(square(gated_delta_net(q, k, v, g, b)))",
         lambda *xs: jnp.sum(gated_delta_net(*xs)[0]**2), "hvp vmapgrad", **qs)
    qs["s"] = uniform(-1, 1, 1, 1, 2, 2)
    t.fn("gated_delta_net_state", "y, s2 = gated_delta_net(q, k, v, g, b, s, carry_state=true);"
         "return add(reduce_sum(sin(y)), reduce_sum(exp(s2)))",
         lambda *xs: (lambda y, s: jnp.sum(jnp.sin(y)) + jnp.sum(jnp.exp(s)))(*gated_delta_net(*xs)), "hvp gradone",
         **qs)
    t.fn("gated_delta_net_results", "y, s2 = gated_delta_net(q, k, v, g, b, s, carry_state=true); return y, s2",
         gated_delta_net, "jvp vmap", **qs)


def grouped(t):
    experts = at([2, 0, 2, 1], [1, 1, 0, 2], dtype="i32")
    xs = {"x": normal(4, 2), "w": normal(3, 2, 2), "e": experts}
    t.fn("grouped_matmul", "reduce_sum(sin(grouped_matmul(x, w, e)))",
         lambda x, w, e: jnp.sum(jnp.sin(jnp.einsum("mk,mkn->mn", x, w[e]))), "hvp vmapgrad gradone", **xs)
    t.fn("grouped_matmul_values", "grouped_matmul(x, w, e)", lambda x, w, e: jnp.einsum("mk,mkn->mn", x, w[e]),
         "jac vmap vmapone", **xs)
    t.fn("grouped_weight_sums", "reduce_sum(sin(grouped_matmul_weight_backward(x, g, e, E=3)))",
         lambda x, g, e: jnp.sum(jnp.sin(jnp.zeros((3, 2, 2)).at[e].add(x[:, :, None] * g[:, None, :]))),
         "hvp vmapgrad", x=normal(4, 2), g=normal(4, 2), e=experts)
    t.fn("grouped_complex", "reduce_sum(complex_norm_sq(grouped_matmul(x, w, e)))",
         lambda x, w, e: jnp.sum(jnp.abs(jnp.einsum("mk,mkn->mn", x, w[e]))**2), "grad",
         x=normal(3, 2, dtype="c128"), w=normal(2, 2, 2, dtype="c128"), e=at([1, 0, 1], dtype="i32"))


def layer_norm(x, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + eps)


def layers(t):
    vector = normal(3)
    t.fn("fused_residual_ln", "reduce_sum(sin(fused_residual_ln(x, r, b, g, h, has_bias=true)))",
         lambda x, r, b, g, h: jnp.sum(jnp.sin(g * layer_norm(x + r + b, 1e-5) + h)), "hvp vmapgrad",
         x=normal(2, 3), r=normal(2, 3), b=vector, g=vector, h=vector)
    t.fn("fused_residual_rms_norm", "reduce_sum(sin(fused_residual_rms_norm(x, r, g, h, eps=0.1)))",
         lambda x, r, g, h: jnp.sum(jnp.sin(g * (x + r) / jnp.sqrt(((x + r)**2).mean(-1, keepdims=True) + 0.1) + h)),
         "hvp vmapgrad", x=normal(2, 3), r=normal(2, 3), g=vector, h=vector)
    t.fn("fused_ada_layer_norm", "reduce_sum(sin(fused_ada_layer_norm(x, s, b)))",
         lambda x, s, b: jnp.sum(jnp.sin(layer_norm(x, 1e-5) * (1 + s) + b)), "hvp vmapgrad", x=normal(2, 3),
         s=vector, b=vector)
    t.fn("fused_conv_bias_act", "reduce_sum(square(fused_conv_bias_act(x, w, b, act=tanh, stride=[2], padding=[1])))",
         lambda x, w, b: jnp.sum(jnp.tanh(conv(x, w) + b[:, None])**2), "hvp vmapgrad gradone",
         x=normal(1, 2, 5), w=normal(2, 2, 3), b=normal(2))
    t.fn("fused_conv_affine_act",
         "reduce_sum(square(fused_conv_affine_act(x, w, s, b, act=silu, stride=[2], padding=[1])))",
         lambda x, w, s, b: jnp.sum(jax.nn.silu(conv(x, w) * s[:, None] + b[:, None])**2), "hvp vmapgrad",
         x=normal(1, 2, 5), w=normal(2, 2, 3), s=normal(2), b=normal(2))
    t.fn("fused_residuals", "y = fused_matmul_residual(x, w, r); return reduce_sum(sin(fused_gated_residual(y, g, r)))",
         lambda x, w, r, g: jnp.sum(jnp.sin(r + g * (x @ w + r))), "hvp vmapgrad",
         x=normal(2, 3), w=normal(3, 2), r=normal(2, 2), g=normal(2))


def conv(x, w):
    return lax.conv_general_dilated(x, w, (2,), [(1, 1)])


def regions(t):
    t.fn("elementwise_region", "reduce_sum(elementwise_region(x, y, body=@blend))",
         lambda x, y: jnp.sum(jnp.where(x > y, jnp.sin(x) * y, x * y * y)), "hess vmapgrad gradone",
         bodies="graph blend(x: f64[], y: f64[]) { return where(gt(x, y), mul(sin(x), y), mul(x, square(y))) }",
         x=normal(2, 1, 2), y=normal(2, 2))
    t.fn("batch_elementwise_region",
         "y2 = batch_elementwise_region(x, y, body=@wave, axis=1, starts=[0, 3], lens=[2, 1]);"
         "return reduce_sum(square(y2))",
         lambda x, y: jnp.sum((jnp.sin(x[:, jnp.array([0, 1, 3])]) * y)**2), "hess vmapgrad",
         bodies="graph wave(x: f64[], y: f64[]) { return mul(sin(x), y) }", x=normal(2, 4), y=normal(2, 1))
    t.fn("transform_region", "reduce_sum(square(transform_region(x, body=@turned)))",
         lambda x: 2 * 2 * jnp.sum((x[..., 1:] * jnp.array([2.0, 3])[:, None, None] + 1)**2), "hess vmapgrad",
         bodies="graph turned(x: f64[1, 2, 1, 2]) {\n  n = resize_nearest_2x(narrow(x, axis=3, start=1, len=1))\n"
         "  s = add(mul(n, const(f64[2, 1, 1], [[[2]], [[3]]])), 1)\n  return transpose(s)\n}", x=normal(1, 2, 1, 2))


def add(t):
    recurrences(t)
    grouped(t)
    layers(t)
    regions(t)
