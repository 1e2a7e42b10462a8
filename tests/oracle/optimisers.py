# SPDX-License-Identifier: Apache-2.0
"""Fifty steps of each optimiser on a small network, in f64, by optax; where optax computes something else or has no such
optimiser, by the formula of its paper, written in NumPy.

fixtures/train/optimisers.npz holds the data (x, y), the initial parameters (w1, b1, w2, b2) and for each setting the
parameters after all steps, as <setting>.<parameter>. tests/train/optimiser_oracle.c has the settings.
"""
import pathlib

import jax
import numpy as np
import optax
from jax import numpy as jnp

jax.config.update("jax_enable_x64", True)

HERE = pathlib.Path(__file__).parent / "fixtures" / "train"
STEPS = 50


def loss(p, x, y):
    z = jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
    return -(y * jax.nn.log_softmax(z, axis=-1)).mean()


def norm(a):
    return np.sqrt((a * a).sum())


class Formula:
    """An optimiser as a function of one parameter: step(p, g, state, t) returns the next parameter."""

    def __init__(self, step):
        self.step = step

    def run(self, p, x, y):
        state = {name: {} for name in p}
        for t in range(1, STEPS + 1):
            g = jax.grad(loss)(p, x, y)
            p = {name: self.step(np.asarray(p[name]), np.asarray(g[name]), state[name], t) for name in p}
        return p


def adagrad(p, g, s, t, rate=0.05, eps=1e-10):
    s["v"] = s.get("v", 0) + g * g
    return p - rate * g / (np.sqrt(s["v"]) + eps)


def adamw(p, g, s, t, rate, decay, b1=0.9, b2=0.999, eps=1e-8):
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    p = p - rate * decay * p
    return p - rate * (s["m"] / (1 - b1**t)) / (np.sqrt(s["v"] / (1 - b2**t)) + eps)


def adafactor(p, g, s, t, rate=0.05, eps=1e-3, decay=0.02):
    """Shazeer and Stern (2018), in the form of torch.optim.Adafactor."""
    tiny = np.finfo(p.dtype).eps
    weight = t**-0.8
    if p.ndim < 2:
        s["v"] = (1 - weight) * s.get("v", 0) + weight * g * g
        v = s["v"]
    else:
        s["r"] = (1 - weight) * s.get("r", 0) + weight * (g * g).mean(-1, keepdims=True)
        s["c"] = (1 - weight) * s.get("c", 0) + weight * (g * g).mean(-2, keepdims=True)
        v = s["r"] * s["c"] / np.maximum(s["r"].mean(-2, keepdims=True), tiny)
    step = g / np.sqrt(np.maximum(v, tiny * tiny))
    size = max(eps, norm(p) / np.sqrt(p.size)) * min(rate, 1 / np.sqrt(t))
    return p - rate * decay * p - size / max(1, norm(step) / np.sqrt(p.size)) * step


def muon(p, g, s, t, rate=0.02, decay=0.1, mu=0.95):
    """Jordan (2024) for matrices, with the scale of Liu et al. (2025), so that AdamW for vectors has the same rate."""
    if p.ndim != 2:
        return adamw(p, g, s, t, rate, decay)
    s["m"] = mu * s.get("m", 0) + (1 - mu) * g
    x = mu * s["m"] + (1 - mu) * g
    x = x / (norm(x) + 1e-7)
    x = x.T if p.shape[0] > p.shape[1] else x
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    x = x.T if p.shape[0] > p.shape[1] else x
    return p - rate * decay * p - rate * 0.2 * np.sqrt(max(p.shape)) * x


def lamb(p, g, s, t, rate=0.02, decay=0.05, b1=0.9, b2=0.999, eps=1e-6):
    """You et al. (2020)."""
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    r = (s["m"] / (1 - b1**t)) / (np.sqrt(s["v"] / (1 - b2**t)) + eps) + decay * p
    trust = norm(p) / norm(r) if norm(p) > 0 and norm(r) > 0 else 1
    return p - rate * trust * r


class Optax:
    def __init__(self, transform):
        self.transform = transform

    def run(self, p, x, y):
        state = self.transform.init(p)
        for _ in range(STEPS):
            updates, state = self.transform.update(jax.grad(loss)(p, x, y), state, p)
            p = optax.apply_updates(p, updates)
        return p


def is_matrix(p):
    return {name: value.ndim == 2 for name, value in p.items()}


def scheduled(factor):
    """Adam with a rate that is computed in f64; optax's own schedules compute in f32."""
    return Optax(optax.adam(lambda count: 0.02 * factor(count.astype(jnp.float64))))


SETTINGS = {
    "sgd": Optax(optax.sgd(0.5)),
    "sgd_decay": Optax(optax.chain(optax.add_decayed_weights(0.05), optax.sgd(0.5))),
    "momentum": Optax(optax.sgd(0.1, momentum=0.9)),
    "nesterov": Optax(optax.sgd(0.1, momentum=0.9, nesterov=True)),
    "adam": Optax(optax.adam(0.02)),
    "adamw": Optax(optax.adamw(0.02, weight_decay=0.1)),
    "adamw_matrices": Optax(optax.adamw(0.02, weight_decay=0.1, mask=is_matrix)),
    "nadam": Optax(optax.nadam(0.02)),
    "adagrad": Formula(adagrad),
    "rmsprop": Optax(optax.rmsprop(0.01, decay=0.99, eps=1e-8, eps_in_sqrt=False)),
    "lion": Optax(optax.lion(0.003, b1=0.9, b2=0.99, weight_decay=0.1)),
    "adafactor": Formula(adafactor),
    "lamb": Formula(lamb),
    "lamb_optax": Optax(optax.lamb(0.02, weight_decay=0.05)),
    "muon": Formula(muon),
    "clip_norm": Optax(optax.chain(optax.clip_by_global_norm(0.05), optax.sgd(0.5))),
    "clip_value": Optax(optax.chain(optax.clip(0.01), optax.sgd(0.5))),
    "cosine": scheduled(lambda i: 0.1 + 0.9 * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(i / 40, 1)))),
    "linear": scheduled(lambda i: 1 - 0.9 * jnp.minimum(i / 40, 1)),
    "staircase": scheduled(lambda i: 0.5 ** jnp.floor(i / 10)),
    "exponential": scheduled(lambda i: 0.5 ** (i / 10)),
}


def main():
    rng = np.random.default_rng(31)
    p = {"w1": rng.normal(size=(6, 8)) * 0.5, "b1": rng.normal(size=8) * 0.1,
         "w2": rng.normal(size=(8, 4)) * 0.5, "b2": rng.normal(size=4) * 0.1}
    x, y = rng.normal(size=(16, 6)), rng.dirichlet(np.ones(4), size=16)
    arrays = dict(p, x=x, y=y)
    for name, setting in SETTINGS.items():
        for param, value in setting.run(p, x, y).items():
            arrays[f"{name}.{param}"] = np.asarray(value)
    HERE.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(HERE / "optimisers.npz", **arrays)


main()
