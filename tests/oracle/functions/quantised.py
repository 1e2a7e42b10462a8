# SPDX-License-Identifier: Apache-2.0
"""Quantisation: straight-through derivatives, which JAX is given as rules of its own for forward mode (custom_jvp);
reverse mode, second order and batches follow from them. Scales are constant for every derivative. Integers carry f32
derivatives, so chains through them are of f32."""
import functools

import jax
import jax.numpy as jnp

from gradients import normal, uniform


def multiplier(x, s, q, ste):
    z = x / (q * s)
    if ste == "identity":
        return jnp.ones_like(x)
    if ste == "clipped_identity":
        return jnp.where(jnp.abs(jnp.round(x / s)) <= q, 1.0, 0.0)
    return 1 - jnp.tanh(z) ** 2 if ste == "tanh" else jax.nn.relu(1 - jnp.abs(z))


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def rounded(x, s, q, ste):
    return jnp.clip(jnp.round(x / s), -q, q) * s


@rounded.defjvp
def _(q, ste, primals, tangents):
    x, s = primals
    return rounded(x, s, q, ste), multiplier(x, jax.lax.stop_gradient(s), q, ste) * tangents[0]


def per_batch(x, q, axis=None):
    axes = tuple(k for k in range(x.ndim) if k != axis)
    return jax.lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(x), axis=axes, keepdims=True) / q, 1e-12))


def fake_quantize(t):
    for ste in ("identity", "clipped_identity", "tanh", "hard_tanh"):
        if ste != "hard_tanh":  # whose corner is at the maximum itself
            t.fn(f"fake_batch_{ste}", f"reduce_sum(sin(fake_quantize(x, bits=4, axis=1, ste={ste})))",
                 lambda x, ste=ste: jnp.sum(jnp.sin(rounded(x, per_batch(x, 7, 1), 7, ste))), "hvp vmapgrad",
                 x=normal(2, 3))
        t.fn(f"fake_fixed_{ste}", f"reduce_sum(sin(fake_quantize(x, s, bits=3, ste={ste}, scale_mode=fixed)))",
             lambda x, s, ste=ste: jnp.sum(jnp.sin(rounded(x, jax.lax.stop_gradient(s), 3, ste))),
             "hvp vmapgrad gradone", x=normal(5), s=uniform(0.3, 0.5, 1))
    def average(x, s):
        now = per_batch(x, 7)
        scale = jax.lax.stop_gradient(jnp.where(s <= 0, now.reshape(1), 0.75 * s + 0.25 * now.reshape(1)))
        return jnp.sum(jnp.sin(rounded(x, scale, 7, "tanh"))) + jnp.sum(scale)
    t.fn("fake_average", "y, u = fake_quantize(x, s, bits=4, ste=tanh, scale_mode=ema, decay=0.75); "
         "return add(reduce_sum(sin(y)), reduce_sum(u))", average, "hvp vmapgrad gradone", x=normal(2, 2),
         s=uniform(0.1, 0.2, 1))


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def stepped(x, s, q, slope):
    return jnp.clip(jnp.round(x / s), -q, q) * s


@stepped.defjvp
def _(q, slope, primals, tangents):
    x, s = primals
    z = x / s
    inside = jnp.abs(z) <= q
    psi = jnp.where(inside, jax.lax.stop_gradient(jnp.round(z)) - z, jnp.sign(z) * q)
    return stepped(x, s, q, slope), jnp.where(inside, tangents[0], 0) + slope * psi * tangents[1]


def learned_step(t):
    t.fn("step", "reduce_sum(sin(fake_quantize_lsq(x, s, bits=3, grad_scale=0.5)))",
         lambda x, s: jnp.sum(jnp.sin(stepped(x, jnp.broadcast_to(s, x.shape), 3, 0.5))), "hvp vmapgrad gradone",
         x=normal(2, 3), s=uniform(0.3, 0.6, 1))
    t.fn("step_of_channels", "reduce_sum(sin(fake_quantize_lsq(x, s, bits=4, axis=1)))",
         lambda x, s: jnp.sum(jnp.sin(stepped(x, jnp.broadcast_to(s, x.shape), 7, 1.0))), "hvp vmapgrad gradone",
         x=normal(2, 3), s=uniform(0.2, 0.5, 3))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def code(v, zero, mult):
    """round(v mult) + zero, saturated, and straight through."""
    return jnp.clip(jnp.round(v * mult) + zero, -128, 127)


@code.defjvp
def _(zero, mult, primals, tangents):
    v = jnp.round(primals[0] * mult) + zero
    return code(primals[0], zero, mult), jnp.where((v >= -128) & (v <= 127), tangents[0] * mult, 0)


def integers(t):
    """No multiple of a scale is near a half, where noise would choose the other code."""
    t.fn("codes", "q = quantize(x, scales=[0.27], zero_points=[3]); "
         "return reduce_sum(sin(dequantize(q, scales=[0.5], zero_points=[-1])))",
         lambda x: jnp.sum(jnp.sin((code(x, 3, 1 / 0.27) + 1) * 0.5)), "hvp vmapgrad taylor4",
         x=uniform(-2, 2, 4, dtype="f32"))
    t.fn("codes_saturated", "q = quantize(x, scales=[0.0157]); return reduce_sum(sin(dequantize(q, scales=[0.0157])))",
         lambda x: jnp.sum(jnp.sin(code(x, 0, 1 / 0.0157) * 0.0157)), "hvp vmapgrad", x=uniform(-4, 4, 6, dtype="f32"))

    def product(x, w, b):
        acc = (code(x, 0, 1 / 0.27) - 2) @ (code(w, 0, 1 / 0.13) + 3) + code(b, 0, 1 / 1.1)
        return jnp.sum(jnp.sin(code(acc, 1, 0.131) * 0.0625))
    t.fn("product_of_codes", "qx = quantize(x, scales=[0.27]); qw = quantize(w, scales=[0.13]); "
                             "qb = cast(quantize(b, scales=[1.1]), to=i32); "
         "q = q_matmul(qx, qw, qb, mult=0.131, x_zp=2, w_zp=-3, out_zp=1); "
         "return reduce_sum(sin(dequantize(q, scales=[0.0625])))",
         product, "hvp vmapgrad gradone", x=normal(2, 3, dtype="f32"), w=normal(3, 2, dtype="f32"),
         b=uniform(-9, 9, 2, dtype="f32"))

    def convolution(x, w):
        acc = jax.lax.conv_general_dilated(code(x, 0, 1 / 0.27) - 2, code(w, 0, 1 / 0.13), (1,), [(1, 1)],
                                           precision="highest")
        return jnp.sum(jnp.sin(code(acc, 0, 0.131) * 0.0625))
    t.fn("convolution_of_codes", "qx = quantize(x, scales=[0.27]); qw = quantize(w, scales=[0.13]); "
         "q = q_conv(qx, qw, full(i32[2], 0), mult=0.131, x_zp=2, padding=[1]); "
         "return reduce_sum(sin(dequantize(q, scales=[0.0625])))",
         convolution, "hvp vmapgrad gradone", x=normal(1, 2, 4, dtype="f32"), w=normal(2, 2, 2, dtype="f32"))


def packed(t):
    codes = jnp.array([[5, -7], [100, 3], [-128, 127]], jnp.float64)
    w = "w = const(i8[3, 2], [[5, -7], [100, 3], [-128, 127]]); "

    def blocks(x, s, z):
        rows = jnp.array([0, 0, 1])
        return jnp.sum(jnp.sin(x @ ((codes - z[rows]) * s[rows])))
    t.fn("packed_blocks", w + "return reduce_sum(sin(dequant_matmul(x, w, s, z, scheme=int8_block_asym, bs=2)))",
         blocks, "hvp vmapgrad gradone", x=normal(2, 3), s=uniform(0.01, 0.02, 2, 2), z=normal(2, 2))
    t.fn("packed_fp8", "w = const(u8[2, 2], [[56, 64], [180, 40]]); "
                       "return reduce_sum(sin(dequant_matmul(x, w, s, scheme=fp8_e4m3)))",
         lambda x, s: jnp.sum(jnp.sin(x @ (jnp.array([[1, 2], [-0.75, 0.25]]) * s))), "hvp vmapgrad gradone",
         x=normal(1, 2), s=uniform(0.5, 1, 2))


def add(t):
    fake_quantize(t)
    learned_step(t)
    integers(t)
    packed(t)
