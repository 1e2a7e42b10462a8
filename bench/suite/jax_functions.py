# SPDX-License-Identifier: Apache-2.0
"""jax_functions.py: the workloads in JAX. `function(name, shape)` takes the inputs of workloads.py in their order and
returns the results in theirs; what it lowers to is also what Fluxion reads as StableHLO."""

from __future__ import annotations

from typing import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "highest")
jax.config.update("jax_enable_compilation_cache", False)

FUNCTIONS: dict[str, Callable] = {}


def named(*names: str):
    def add(f):
        FUNCTIONS.update({n: f for n in names})
        return f

    return add


def function(name: str, shape: dict[str, int]) -> Callable:
    return FUNCTIONS[name](shape)


def arguments(name: str, inputs: dict[str, np.ndarray]) -> list[jax.Array]:
    """Channels come last in convolutions with batch norm, the layout that XLA prefers on this machine."""
    turned = {}
    if name in ("resblock", "resnet18"):
        turned = {
            n: (v.transpose(0, 2, 3, 1) if n in ("x", "d_output") else v.transpose(2, 3, 1, 0))
            for n, v in inputs.items()
            if v.ndim == 4
        }
    return [jnp.asarray(turned.get(n, v)) for n, v in inputs.items()]


def results(name: str, found: list[np.ndarray]) -> list[np.ndarray]:
    """Results with the channels first again, as in the other frameworks."""
    if name == "resblock":
        return [found[0].transpose(0, 3, 1, 2)] + [v.transpose(3, 2, 0, 1) for v in found[1:3]] + found[3:]
    if name == "resnet18":
        return [v.transpose(3, 2, 0, 1) if v.ndim == 4 else v for v in found]
    return found


# ---- Parts ----


def layer_norm(x, w, b):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b


def rms_norm(x, g):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


def cross_entropy(z, label):
    return (jax.nn.logsumexp(z, axis=-1) - jnp.take_along_axis(z, label[..., None], axis=-1)[..., 0]).mean()


def mlp_loss(p, x, label, activation=jax.nn.relu):
    w1, b1, w2, b2, w3, b3 = p
    return cross_entropy(activation(activation(x @ w1 + b1) @ w2 + b2) @ w3 + b3, label)


def block(x, p, heads, causal=True):
    g1, c1, wq, bq, wo, bo, g2, c2, w1, b1, w2, b2 = p
    split = [z.reshape(z.shape[:2] + (heads, -1)) for z in jnp.split(layer_norm(x, g1, c1) @ wq + bq, 3, -1)]
    x = x + (jax.nn.dot_product_attention(*split, is_causal=causal).reshape(x.shape) @ wo + bo)
    return x + (jax.nn.gelu(layer_norm(x, g2, c2) @ w1 + b1) @ w2 + b2)


def sgd(loss, count):
    def step(*a):
        value, gradient = jax.value_and_grad(lambda p: loss(p, *a[count:]))(a[:count])
        return [p - 1e-3 * g for p, g in zip(a[:count], gradient)] + [value]

    return step


def pulled_back(f, count):
    """Cotangents of the first `count` arguments of f; the last argument is the cotangent of its result."""
    return lambda *a: jax.vjp(lambda *p: f(*p, *a[count:-1]), *a[:count])[1](a[-1])


# ---- The table ----


def chain(x, y, z):
    return jnp.exp(-((x * y + z) ** 2)) * jnp.sin(x) + y * jax.nn.sigmoid(z)


@named("ew_fwd")
def ew_fwd(s):
    return chain


@named("ew_grad")
def ew_grad(s):
    return jax.grad(lambda *a: chain(*a).sum(), argnums=(0, 1, 2))


@named("layernorm")
def layernorm(s):
    return pulled_back(layer_norm, 3)


@named("softmax_xent")
def softmax_xent(s):
    return jax.value_and_grad(cross_entropy)


@named("mlp_b1", "mlp_b32", "mlp_b1024")
def mlp(s):
    return sgd(mlp_loss, 6)


@named("matmul")
def matmul(s):
    return lambda a, b: a @ b


@named("gpt2_block")
def gpt2_block(s):
    return pulled_back(lambda x, *p: block(x, p, s["h"]), 13)


@named("gpt2_124m")
def gpt2(s):
    def loss(p, ids, following):
        x = p[0][ids] + p[1]
        for layer in range(s["l"]):
            x = block(x, p[2 + 12 * layer : 14 + 12 * layer], s["h"])
        return cross_entropy(layer_norm(x, p[-2], p[-1]) @ p[0].T, following)

    def step(*a):
        n = (len(a) - 3) // 3
        p, m, v, (ids, following, count) = a[:n], a[n : 2 * n], a[2 * n : 3 * n], a[3 * n :]
        value, gradient = jax.value_and_grad(loss)(p, ids, following)
        count = count + jnp.float32(1)
        m = [0.9 * x + 0.1 * g for x, g in zip(m, gradient)]
        v = [0.95 * x + 0.05 * g * g for x, g in zip(v, gradient)]
        c1, c2 = 1 - jnp.float32(0.9) ** count, 1 - jnp.float32(0.95) ** count
        p = [q * (1 - 1e-5) - 1e-4 * (x / c1) / (jnp.sqrt(y / c2) + 1e-8) for q, x, y in zip(p, m, v)]
        return p + m + v + [value]

    return step


@named("attn_long")
def attn_long(s):
    return pulled_back(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), 3)


@named("convnet")
def convnet(s):
    def loss(p, x, label):
        k1, b1, k2, b2, w3, b3, w4, b4 = p
        h = jax.nn.relu(lax.conv(x, k1, (1, 1), "VALID") + b1[:, None, None])
        h = jax.nn.relu(lax.conv(h, k2, (1, 1), "VALID") + b2[:, None, None])
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return cross_entropy(jax.nn.relu(h.reshape(h.shape[0], -1) @ w3 + b3) @ w4 + b4, label)

    return sgd(loss, 8)


def conv(x, k, stride=1):
    return lax.conv_general_dilated(
        x,
        k,
        (stride, stride),
        "SAME" if k.shape[0] > 1 and stride == 1 else [(k.shape[0] // 2, k.shape[0] // 2)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def batch_norm(h, g, b):
    m = h.mean((0, 1, 2))
    v = ((h - m) ** 2).mean((0, 1, 2))
    return (h - m) * lax.rsqrt(v + 1e-5) * g + b


@named("resblock")
def resblock(s):
    def f(x, k1, k2, g1, g2, c1, c2):
        h = jax.nn.relu(batch_norm(conv(x, k1), g1, c1))
        return jax.nn.relu(x + batch_norm(conv(h, k2), g2, c2))

    return pulled_back(f, 7)


@named("embed")
def embed(s):
    def f(table, ids, d):
        y, back = jax.vjp(lambda t: t[ids], table)
        return y, back(d)[0]

    return f


@named("hvp")
def hvp(s):
    def f(*a):
        p, (x, label), tangents = a[:6], a[6:8], a[8:]
        return jax.jvp(jax.grad(lambda q: mlp_loss(q, x, label, jnp.tanh)), (p,), (tangents,))[1]

    return f


@named("perex_grad")
def perex_grad(s):
    return lambda *a: jax.vmap(jax.grad(mlp_loss), in_axes=(None, 0, 0))(a[:6], a[6], a[7])


@named("rnn1000", "rnn1000_ckpt")
def rnn(s):
    def loss(w, b, xs, h0):
        def cell(h, x):
            return jnp.tanh(h @ w + x + b), None

        if "k" not in s:
            h = lax.scan(cell, h0, xs)[0]
        else:
            part = jax.checkpoint(lambda h, x: (lax.scan(cell, h, x)[0], None))
            h = lax.scan(part, h0, xs.reshape((-1, s["k"]) + xs.shape[1:]))[0]
        return (h**2).mean()

    return jax.value_and_grad(loss, argnums=(0, 1))


@named("solve")
def solve(s):
    return jax.value_and_grad(lambda a, b: (jnp.linalg.solve(a, b) ** 2).mean(), argnums=(0, 1))


@named("fftconv")
def fftconv(s):
    n = s["n"]

    def f(x, k):
        return (jnp.fft.irfft(jnp.fft.rfft(x, n=2 * n) * jnp.fft.rfft(k, n=2 * n), n=2 * n)[:, :n] ** 2).mean()

    return jax.value_and_grad(f, argnums=(0, 1))


@named("jacfwd")
def jacfwd(s):
    def slope(x):
        return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + 8.0

    def step(x, _):
        h = 0.01
        k1 = slope(x)
        k2 = slope(x + h / 2 * k1)
        k3 = slope(x + h / 2 * k2)
        k4 = slope(x + h * k3)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return jax.jacfwd(lambda x: lax.scan(step, x, None, length=s["steps"])[0])


# ---- More workloads ----


@named("resnet18")
def resnet18(s):
    from workloads import resnet18_inputs

    names = list(resnet18_inputs(dict(s, b=1, s=8)))[:-2]

    def loss(parameters, x, label):
        p = dict(zip(names, parameters))

        def unit(h, name, stride=1):
            return batch_norm(conv(h, p[name], stride), p[name + "_g"], p[name + "_c"])

        h = jax.nn.relu(unit(x, "stem"))
        for stage in range(4):
            for i in range(2):
                name, stride = f"s{stage}b{i}", 2 if stage and not i else 1
                y = unit(jax.nn.relu(unit(h, name + "c1", stride)), name + "c2")
                h = jax.nn.relu(y + (unit(h, name + "short", stride) if name + "short" in p else h))
        return cross_entropy(h.mean((1, 2)) @ p["fc"] + p["fc_b"], label)

    return lambda *a: flat(jax.value_and_grad(loss)(a[:-2], *a[-2:]))


def flat(value_and_gradient):
    return [value_and_gradient[0], *value_and_gradient[1]]


@named("vit_tiny")
def vit_tiny(s):
    def loss(p, x, label):
        b, side = x.shape[0], s["s"] // s["p"]
        patches = x.reshape(b, 3, side, s["p"], side, s["p"]).transpose(0, 2, 4, 3, 5, 1).reshape(b, side * side, -1)
        h = patches @ p[0] + p[1]
        for layer in range(s["l"]):
            h = block(h, p[2 + 12 * layer : 14 + 12 * layer], s["h"], causal=False)
        return cross_entropy(layer_norm(h, p[-4], p[-3]).mean(1) @ p[-2] + p[-1], label)

    return lambda *a: flat(jax.value_and_grad(loss)(a[:-2], *a[-2:]))


@named("lstm")
def lstm(s):
    def loss(w, u, b, xs):
        def cell(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(x @ w + h @ u + b, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zero = jnp.zeros(xs.shape[1:], xs.dtype)
        return (lax.scan(cell, (zero, zero), xs)[0][0] ** 2).mean()

    return jax.value_and_grad(loss, argnums=(0, 1, 2))


def rotate(x, position):
    """Rotary positions; x [B, T, H, D], position [T]."""
    half = x.shape[-1] // 2
    angle = position[:, None] * jnp.exp(jnp.arange(half, dtype=jnp.float32) * (-np.log(10000.0) / half)).astype(x.dtype)
    c, z = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate((a * c - b * z, b * c + a * z), -1)


def heads(x, w, count):
    return (x @ w).reshape(x.shape[:2] + (count, -1))


def gated(x, g2, gate, up, down):
    h = rms_norm(x, g2)
    return x + (jax.nn.silu(h @ gate) * (h @ up)) @ down


@named("llama_block")
def llama_block(s):
    def f(x, g1, wq, wk, wv, wo, g2, gate, up, down):
        h, position = rms_norm(x, g1), jnp.arange(x.shape[1], dtype=x.dtype)
        q, k = rotate(heads(h, wq, s["h"]), position), rotate(heads(h, wk, s["g"]), position)
        y = jax.nn.dot_product_attention(q, k, heads(h, wv, s["g"]), is_causal=True)
        return gated(x + y.reshape(x.shape) @ wo, g2, gate, up, down)

    return pulled_back(f, 10)


@named("decode")
def decode(s):
    def f(x, g1, wq, wk, wv, wo, g2, gate, up, down, keys, values, at):
        h, position = rms_norm(x, g1), at[None].astype(x.dtype)
        q, k = rotate(heads(h, wq, s["h"]), position), rotate(heads(h, wk, s["g"]), position)
        zero = jnp.zeros((), at.dtype)
        keys = lax.dynamic_update_slice(keys, k, (zero, at, zero, zero))
        values = lax.dynamic_update_slice(values, heads(h, wv, s["g"]), (zero, at, zero, zero))
        mask = (jnp.arange(keys.shape[1]) <= at)[None, None, None]
        y = jax.nn.dot_product_attention(q, keys, values, mask=mask)
        return gated(x + y.reshape(x.shape) @ wo, g2, gate, up, down), keys, values

    return f


@named("int8")
def int8(s):
    return lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32)


@named("gmm")
def gmm(s):
    d, gamma, m = s["d"], 1.0, 0
    rows, columns = np.tril_indices(d, -1)

    def loss(alphas, means, icf, x):
        q, below = jnp.exp(icf[:, :d]), icf[:, d:]
        lower = jnp.zeros((icf.shape[0], d, d), icf.dtype).at[:, rows, columns].set(below)
        centred = x[:, None] - means[None]
        y = q[None] * centred + jnp.einsum("kij,nkj->nki", lower, centred)
        inner = alphas + icf[:, :d].sum(1) - 0.5 * (y**2).sum(-1)
        fit = jax.nn.logsumexp(inner, axis=1).sum() - x.shape[0] * jax.nn.logsumexp(alphas)
        prior = 0.5 * gamma**2 * ((q**2).sum() + (below**2).sum()) - m * icf[:, :d].sum()
        return fit - x.shape[0] * d * 0.5 * np.log(2 * np.pi) + prior

    return lambda *a: flat(jax.value_and_grad(loss, argnums=(0, 1, 2))(*a))


@named("ba")
def ba(s):
    def project(camera, point):
        axis, centre, focal, middle, k = camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:]
        squared = (axis**2).sum()
        angle = jnp.sqrt(squared)
        x = point - centre
        unit = axis / angle
        turned = (
            x * jnp.cos(angle) + jnp.cross(unit, x) * jnp.sin(angle) + unit * jnp.dot(unit, x) * (1 - jnp.cos(angle))
        )
        flat_point = turned[:2] / turned[2]
        r = (flat_point**2).sum()
        return flat_point * (1 + k[0] * r + k[1] * r * r) * focal + middle

    def error(camera, point, weight, feature):
        return weight * (project(camera, point) - feature)

    def f(cameras, points, weights, camera_of, point_of, features):
        given = (cameras[camera_of], points[point_of], weights, features)
        jacobian = jax.vmap(jax.jacfwd(error, argnums=(0, 1, 2)))(*given)
        return (jax.vmap(error)(*given),) + jacobian

    return f


@named("md")
def md(s):
    def energy(x):
        n = x.shape[0]
        d = x[:, None] - x[None]
        r2 = (d**2).sum(-1) + jnp.eye(n)
        s6 = 1.0 / (r2 * r2 * r2)
        return 2.0 * jnp.where(jnp.eye(n, dtype=bool), 0.0, s6 * s6 - s6).sum()

    return jax.value_and_grad(energy)


@named("nbody")
def nbody(s):
    def pull(x, m):
        d = x[None] - x[:, None]
        r2 = (d**2).sum(-1) + 1e-2
        return (d * (m * r2**-1.5)[..., None]).sum(1)

    def f(x, v, m):
        def step(c, _):
            x, v = c
            v = v + 0.005 * pull(x, m)
            x = x + 0.01 * v
            return (x, v + 0.005 * pull(x, m)), None

        return lax.scan(step, (x, v), None, length=s["steps"])[0]

    return f


@named("sparse_cg")
def sparse_cg(s):
    def f(d, b):
        def times(x):
            p = jnp.pad(x, 1)
            return (4 + d) * x - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]

        def step(c, _):
            x, r, p, rr = c
            q = times(p)
            a = rr / (p * q).sum()
            r = r - a * q
            new = (r * r).sum()
            return (x + a * p, r, r + new / rr * p, new), None

        return lax.scan(step, (jnp.zeros_like(b), b, b, (b * b).sum()), None, length=s["steps"])[0][0]

    return f
