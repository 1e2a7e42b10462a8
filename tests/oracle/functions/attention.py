# SPDX-License-Identifier: Apache-2.0
"""Attention in every layout and with every mask, rotary embedding, and the composites around them. The JAX functions
repeat heads, mask with where, and rotate with complex numbers or by pairs: none of it as the decompositions do."""
import jax
import jax.numpy as jnp

from gradients import at, normal, uniform

HEADS = {"bhsd": lambda x, h: x, "bshd": lambda x, h: x.transpose(0, 2, 1, 3),
         "bsd": lambda x, h: x.reshape(x.shape[0], x.shape[1], h, -1).transpose(0, 2, 1, 3)}
BACK = {"bhsd": lambda y: y, "bshd": lambda y: y.transpose(0, 2, 1, 3),
        "bsd": lambda y: y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)}


def attention(q, k, v, mask=None, layout="bhsd", heads=None, kv=None, kind="none", window=None, scale=None, cap=None):
    kv = kv or heads
    q, k, v = HEADS[layout](q, heads), HEADS[layout](k, kv), HEADS[layout](v, kv)
    k, v = [jnp.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v)]
    l = jnp.einsum("nhid,nhjd->nhij", q, k) * (q.shape[-1]**-0.5 if scale is None else scale)
    l = l if cap is None else cap * jnp.tanh(l / cap)
    i, j = jnp.indices(l.shape[2:])
    i = i + max(0, l.shape[3] - l.shape[2])
    allowed = jnp.ones(l.shape, bool)
    if kind in ("causal", "sliding_window"):
        allowed = allowed & (j <= i) & (j >= i - (l.shape[3] if window is None else window))
    if kind == "custom":
        allowed = allowed & ((mask[:, None, None, :] if mask.ndim == 2 else mask) >= 0.5)
    if kind == "bias":
        allowed = allowed & (mask > -jnp.inf)
        l = l + jnp.where(mask > -jnp.inf, mask, 0)
    m = jax.lax.stop_gradient(jnp.max(l, axis=-1, keepdims=True, initial=-1e30, where=allowed))
    e = jnp.where(allowed, jnp.exp(jnp.where(allowed, l - m, 0)), 0)
    total = jnp.sum(e, axis=-1, keepdims=True)
    return BACK[layout](jnp.einsum("nhij,nhjd->nhid", e / jnp.where(total == 0, 1, total), v))


def rope(x, c, s, layout="bhsd", heads=None, n_rot=None):
    x = HEADS[layout](x, heads)
    h = (n_rot or x.shape[-1]) // 2
    c, s = [t[..., :h] if t.ndim == 2 else t[:, None, :, :h] for t in (c, s)]
    z = jax.lax.complex(x[..., :h], x[..., h:2 * h]) * jax.lax.complex(*jnp.broadcast_arrays(c, s))
    return BACK[layout](jnp.concatenate([z.real, z.imag, x[..., 2 * h:]], axis=-1))


def axial(x, ex, ey, heads, theta=10000.0, repeat=1, interleave=False):
    n, s, _ = x.shape
    d = x.shape[2] // heads
    p = jnp.arange(s) // repeat if interleave else jnp.arange(s) % (ex * ey)
    f = theta**(-4 * jnp.arange(d // 4) / d)
    angle = jnp.concatenate([(p % ex)[:, None] * f, (p // ex)[:, None] * f], axis=1)
    y = x.reshape(n, s, heads, d // 2, 2)
    c, v = jnp.cos(angle)[:, None, :], jnp.sin(angle)[:, None, :]
    return jnp.stack([y[..., 0] * c - y[..., 1] * v, y[..., 0] * v + y[..., 1] * c], axis=-1).reshape(x.shape)


def layer_norm(x, gamma, beta, eps):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(jnp.mean((x - mean)**2, axis=-1, keepdims=True) + eps) * gamma + beta


def block(x, wqkv, wo, mask, bqkv, bo, c=None, s=None, heads=1, **how):
    q, k, v = jnp.split(x @ wqkv + bqkv, 3, axis=-1)
    if c is not None:
        q, k = [rope(t, c, s, "bsd", heads) for t in (q, k)]
    return attention(q, k, v, mask, "bsd", heads, **how) @ wo + bo


def weighted(name, call, f, kinds, t, **inputs):
    """The loss sum(w * op(..)): its gradient is the op's vjp, and its tangents go through both."""
    args = ", ".join(key for key in inputs if key != "w")
    t.fn(name, f"reduce_sum(mul({call[0]}({args}, {call[1]}), w))", lambda *x: jnp.sum(f(*x[:-1]) * x[-1]), kinds,
         **inputs)


def attentions(t):
    def case(name, attrs, kinds, inputs, **how):
        weighted(name, ("attention", attrs), lambda *x: attention(*x, **how), kinds, t, **inputs)

    def heads(q, k, v, w, **mask):
        return dict(q=normal(*q), k=normal(*k), v=normal(*v), **mask, w=normal(*w))

    case("plain", "layout=bhsd", "hvp vmapgrad gradone", heads((1, 2, 2, 3), (1, 2, 3, 3), (1, 2, 3, 2), (1, 2, 2, 2)))
    case("scaled", "layout=bhsd, score_scale=-0.75", "hvp",
         heads((1, 1, 2, 2), (1, 1, 3, 2), (1, 1, 3, 2), (1, 1, 2, 2)), scale=-0.75)
    case("capped", "layout=bshd, softcap=0.5", "hvp", heads((1, 2, 2, 2), (1, 3, 2, 2), (1, 3, 2, 1), (1, 2, 2, 1)),
         layout="bshd", cap=0.5)
    case("grouped", "layout=bhsd, num_kv_heads=2", "hvp vmapgrad",
         heads((1, 4, 2, 2), (1, 2, 2, 2), (1, 2, 2, 2), (1, 4, 2, 2)))
    case("folded_heads", "layout=bsd, num_heads=4, num_kv_heads=2, mask_kind=causal", "hvp",
         heads((1, 2, 8), (1, 3, 4), (1, 3, 6), (1, 2, 12)), layout="bsd", heads=4, kv=2, kind="causal")
    case("causal_square", "layout=bhsd, mask_kind=causal", "hvp", heads(*[(1, 1, 3, 2)] * 4), kind="causal")
    case("causal_short_keys", "layout=bhsd, mask_kind=causal", "grad",
         heads((1, 1, 3, 2), *[(1, 1, 2, 2)] * 2, (1, 1, 3, 2)), kind="causal")
    case("windowed", "layout=bshd, mask_kind=sliding_window, window=1", "hvp", heads(*[(1, 4, 1, 2)] * 4),
         layout="bshd", kind="sliding_window", window=1)
    case("window_leaves_rows_empty", "layout=bhsd, mask_kind=sliding_window, window=0", "hvp",
         heads((1, 1, 4, 2), (1, 1, 2, 2), (1, 1, 2, 2), (1, 1, 4, 2)), kind="sliding_window", window=0)
    mask = at([[[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]]], [[[[0.0, 0.25, 0.75], [1.0, 1.0, 1.0]]]])
    t.fn("custom_with_an_empty_row",
         "m = stop_gradient(mask); return reduce_sum(mul(attention(q, k, v, m, layout=bhsd, mask_kind=custom), w))",
         lambda q, k, v, mask, w: jnp.sum(attention(q, k, v, mask, kind="custom") * w), "hvp vmapgrad",
         **heads((1, 1, 2, 2), (1, 1, 3, 2), (1, 1, 3, 2), (1, 1, 2, 2), mask=mask))
    case("biased", "layout=bhsd, mask_kind=bias, softcap=2", "hvp vmapgrad gradone",
         heads((2, 1, 2, 2), (2, 1, 3, 2), (2, 1, 3, 2), (2, 1, 2, 2), mask=normal(2, 3)), kind="bias", cap=2.0)
    case("biased_per_head", "layout=bhsd, mask_kind=bias", "hvp",
         heads((1, 2, 2, 2), (1, 2, 2, 2), (1, 2, 2, 2), (1, 2, 2, 2), mask=normal(2, 1, 2)), kind="bias")
    t.fn("attention_tangents", "attention(q, k, v, b, layout=bhsd, mask_kind=bias, softcap=1.5)",
         lambda q, k, v, b: attention(q, k, v, b, kind="bias", cap=1.5), "jvp jac vmap vmapone",
         q=normal(1, 1, 2, 2), k=normal(1, 1, 2, 2), v=normal(1, 1, 2, 2), b=normal(1, 1, 2, 2))
    for dtype in ("f32", "f16", "bf16"):
        t.fn(f"attention_in_{dtype}", "reduce_sum(attention(q, k, v, layout=bhsd, mask_kind=causal))",
             lambda q, k, v: jnp.sum(attention(q, k, v, kind="causal")), "grad",
             **{x: uniform(-1, 1, 1, 1, 3, 2, dtype=dtype) for x in "qkv"})


def backwards(t):
    """The backward op is the gradient, and its own gradient the second derivative. That of v does not depend on v:
    hence the sum."""
    for wrt, which in (("query", 0), ("key", 1), ("value", 2), ("bias", 3)):
        def cotangent(q, k, v, dy, b, which=which):
            return jax.grad(lambda *x: jnp.sum(attention(*x, kv=1, kind="bias", cap=1.5, scale=0.8) * dy),
                            which)(q, k, v, b)
        t.fn(f"backward_{wrt}",
             f"add(reduce_sum(square(v)), reduce_sum(square(attention_backward(q, k, v, dy, b, wrt={wrt}, layout=bhsd, "
             f"num_kv_heads=1, "
             "mask_kind=bias, softcap=1.5, score_scale=0.8))))",
             lambda *x, f=cotangent: jnp.sum(x[2]**2) + jnp.sum(f(*x)**2), "grad vmapgrad",
             q=normal(1, 2, 2, 2), k=normal(1, 1, 2, 2), v=normal(1, 1, 2, 2), dy=normal(1, 2, 2, 2), b=normal(2, 2))


def rotations(t):
    weighted("rope_whole", ("rope", "layout=bhsd"), rope, "hvp vmapgrad gradone", t, x=normal(1, 2, 3, 4),
             c=normal(3, 2), s=normal(3, 2), w=normal(1, 2, 3, 4))
    weighted("rope_part", ("rope", "layout=bshd, n_rot=2"), lambda *x: rope(*x, layout="bshd", n_rot=2), "hvp vmapgrad",
             t, x=normal(2, 2, 2, 3), c=normal(2, 2, 2), s=normal(2, 2, 2), w=normal(2, 2, 2, 3))
    weighted("rope_folded", ("rope", "layout=bsd, num_heads=2, n_rot=2"), lambda *x: rope(*x, "bsd", 2, 2), "hvp", t,
             x=normal(2, 2, 6), c=normal(2, 3), s=normal(2, 3), w=normal(2, 2, 6))
    weighted("rope_back", ("rope_backward", "layout=bhsd"), lambda x, c, s: rope(x, c, -s), "hvp vmapgrad", t,
             x=normal(1, 1, 2, 4), c=normal(2, 2), s=normal(2, 2), w=normal(1, 1, 2, 4))
    t.fn("rope_tangents", "rope(x, c, s, layout=bshd, n_rot=2)", lambda x, c, s: rope(x, c, s, "bshd", n_rot=2),
         "jvp jac vmapone", x=normal(1, 2, 1, 3), c=normal(2, 1), s=normal(2, 1))
    t.fn("axial_tiled", "axial_rope2d(x, end_x=3, end_y=2, num_heads=1)", lambda x: axial(x, 3, 2, 1), "jvp vmap",
         x=normal(1, 6, 8))
    weighted("axial_repeated", ("axial_rope2d", "end_x=2, end_y=2, num_heads=2, theta=50, repeat_factor=2"),
             lambda x: axial(x, 2, 2, 2, 50.0, 2), "grad vmapgrad", t, x=normal(1, 8, 8), w=normal(1, 8, 8))
    weighted("axial_interleaved",
             ("axial_rope2d", "end_x=2, end_y=1, num_heads=1, repeat_factor=2, repeat_mode=interleave"),
             lambda x: axial(x, 2, 1, 1, repeat=2, interleave=True), "grad", t, x=normal(1, 4, 4), w=normal(1, 4, 4))


def fused(t):
    keys = at([[True, True, False], [True, False, False]], [[False, True, True], [True, True, True]], dtype="bool")
    t.fn("attention_block",
         "reduce_sum(mul(fused_attention_block(x, wqkv, wo, mask, bqkv, bo, num_heads=2, has_bias=true), w))",
         lambda x, wqkv, wo, mask, bqkv, bo, w: jnp.sum(block(x, wqkv, wo, mask, bqkv, bo, heads=2, kind="custom") * w),
         "hvp",
         x=normal(2, 3, 2), wqkv=normal(2, 6), wo=normal(2, 2), mask=keys, bqkv=normal(6), bo=normal(2),
         w=normal(2, 3, 2))
    t.fn("attention_block_rotated",
         "reduce_sum(square(fused_attention_block(x, wqkv, wo, c, s, num_heads=1, has_rope=true, mask_kind=causal)))",
         lambda x, wqkv, wo, c, s: jnp.sum(block(x, wqkv, wo, None, 0, 0, c, s, kind="causal")**2), "hvp",
         x=normal(1, 2, 2), wqkv=normal(2, 6), wo=normal(2, 2), c=normal(2, 1), s=normal(2, 1))

    def layer(x, wqkv, bqkv, wo, bo, g1, b1, w1, c1, w2, c2, g2, b2, mask):
        h = layer_norm(block(x, wqkv, wo, mask, bqkv, bo, heads=2, kind="custom") + x, g1, b1, 0.1)
        return layer_norm(jnp.tanh(h @ w1 + c1) @ w2 + c2 + h, g2, b2, 0.2)
    t.fn("transformer_layer",
         "reduce_sum(square(fused_transformer_layer(x, wqkv, bqkv, wo, bo, g1, b1, w1, c1, w2, c2, g2, b2, mask, "
         "num_heads=2, act=tanh, eps1=0.1, eps2=0.2)))", lambda *x: jnp.sum(layer(*x)**2), "grad",
         x=normal(2, 3, 2), wqkv=normal(2, 6), bqkv=normal(6), wo=normal(2, 2), bo=normal(2), g1=normal(2),
         b1=normal(2),
         w1=normal(2, 3), c1=normal(3), w2=normal(3, 2), c2=normal(2), g2=normal(2), b2=normal(2), mask=keys)
    t.fn("transformer_layer_unbiased",
         "reduce_sum(square(fused_transformer_layer(x, wqkv, wo, g1, w1, w2, g2, mask, num_heads=2, "
         "has_bias=false, act=tanh, eps1=0.1, eps2=0.2)))",
         lambda x, wqkv, wo, g1, w1, w2, g2, mask: jnp.sum(layer(x, wqkv, 0, wo, 0, g1, 0, w1, 0, w2, 0, g2, 0,
                                                                 mask)**2), "hvp",
         x=normal(2, 3, 2), wqkv=normal(2, 6), wo=normal(2, 2), g1=normal(2), w1=normal(2, 3), w2=normal(3, 2),
         g2=normal(2), mask=keys)


def add(t):
    attentions(t)
    backwards(t)
    rotations(t)
    fused(t)
