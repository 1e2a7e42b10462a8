# SPDX-License-Identifier: Apache-2.0
"""models.py: the two programs whose first call is timed: a training step of ResNet-18 written with Flax, and one of a
GPT-2 in the form that transformer libraries give it (modules, dropout off, a causal mask, AdamW of Optax)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Block(nn.Module):
    width: int
    stride: int = 1

    @nn.compact
    def __call__(self, x):
        y = nn.Conv(self.width, (3, 3), self.stride, padding=1, use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9)(y))
        y = nn.Conv(self.width, (3, 3), padding=1, use_bias=False)(y)
        y = nn.BatchNorm(use_running_average=False, momentum=0.9)(y)
        if y.shape != x.shape:
            x = nn.Conv(self.width, (1, 1), self.stride, use_bias=False)(x)
            x = nn.BatchNorm(use_running_average=False, momentum=0.9)(x)
        return nn.relu(x + y)


class ResNet18(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(64, (7, 7), 2, padding=3, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        for stage in range(4):
            for i in range(2):
                x = Block(64 << stage, 2 if stage and not i else 1)(x)
        return nn.Dense(1000)(x.mean((1, 2)))


class Attention(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x):
        b, t, c = x.shape
        q, k, v = jnp.split(nn.Dense(3 * c)(x), 3, -1)
        q, k, v = (z.reshape(b, t, self.heads, -1) for z in (q, k, v))
        mask = nn.make_causal_mask(jnp.ones((b, t), "i4"), dtype="bool")
        bias = jnp.where(mask, 0.0, jnp.finfo(jnp.float32).min).astype(jnp.float32)
        weights = nn.dot_product_attention_weights(q, k, bias=bias)
        return nn.Dense(c)(jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, t, c))


class Gpt2(nn.Module):
    layers: int = 12
    width: int = 768
    heads: int = 12
    words: int = 50257

    @nn.compact
    def __call__(self, ids):
        table = nn.Embed(self.words, self.width)
        x = table(ids) + nn.Embed(1024, self.width)(jnp.arange(ids.shape[1])[None])
        for _ in range(self.layers):
            x = x + Attention(self.heads)(nn.LayerNorm(epsilon=1e-5)(x))
            h = nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm(epsilon=1e-5)(x)), approximate=True)
            x = x + nn.Dense(self.width)(h)
        return table.attend(nn.LayerNorm(epsilon=1e-5)(x))


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def resnet18():
    """The step, and a function that makes its arguments."""
    model, optimiser = ResNet18(), optax.sgd(0.1, momentum=0.9)

    def loss(parameters, statistics, images, labels):
        variables = {"params": parameters, "batch_stats": statistics}
        logits, found = model.apply(variables, images, mutable=["batch_stats"])
        return cross_entropy(logits, labels), found["batch_stats"]

    def step(parameters, statistics, state, images, labels):
        (value, statistics), slope = jax.value_and_grad(loss, has_aux=True)(parameters, statistics, images, labels)
        updates, state = optimiser.update(slope, state)
        return optax.apply_updates(parameters, updates), statistics, state, value

    def arguments():
        images = jax.random.normal(jax.random.key(1), (2, 64, 64, 3))
        variables = model.init(jax.random.key(0), images)
        parameters = variables["params"]
        return parameters, variables["batch_stats"], optimiser.init(parameters), images, jnp.array([3, 7])

    return step, arguments


def gpt2():
    model, optimiser = Gpt2(), optax.adamw(1e-4)

    def loss(parameters, ids):
        return cross_entropy(model.apply(parameters, ids[:, :-1]), ids[:, 1:])

    def step(parameters, state, ids):
        value, slope = jax.value_and_grad(loss)(parameters, ids)
        updates, state = optimiser.update(slope, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    def arguments():
        ids = jax.random.randint(jax.random.key(1), (1, 65), 0, 50257)
        parameters = model.init(jax.random.key(0), ids[:, :-1])
        return parameters, optimiser.init(parameters), ids

    return step, arguments


MODELS = {"resnet18": resnet18, "gpt2": gpt2}
