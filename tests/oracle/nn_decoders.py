# SPDX-License-Identifier: Apache-2.0
"""Answers of PyTorch for the decoders of examples/gpt2 and examples/llama, in f64: loss, logits and the gradient with
respect to every parameter.

fixtures/nn/gpt2.npz and fixtures/nn/llama.npz hold the inputs and parameters by the names they have in the graphs,
`loss`, `logits`, and `d_<name>` for each parameter. The models are written out in plain tensor operations. Needs torch.
"""
import math
import pathlib

import numpy as np
import torch
from torch.nn import functional as F

HERE = pathlib.Path(__file__).parent / "fixtures" / "nn"
WORDS, TOKENS, WIDTH, LAYERS, BATCH = 11, 8, 16, 2, 2


class Params:
    """Parameters by name, drawn when they are first asked for."""

    def __init__(self, seed):
        self.made = {}
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, name, *shape):
        if name not in self.made:
            x = torch.randn(*shape, generator=self.generator, dtype=torch.float64)
            around = 1.0 if name.endswith("gamma") else 0.0
            self.made[name] = (around + x / math.sqrt(shape[0] if len(shape) > 1 else 9.0)).requires_grad_()
        return self.made[name]


def linear(p, name, x, units):
    return x @ p(name + ".w", x.shape[-1], units) + p(name + ".b", units)


def layer_norm(p, name, x):
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(var + 1e-5) * p(name + ".gamma", WIDTH) + p(name + ".beta", WIDTH)


def rms_norm(p, name, x):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * p(name + ".gamma", WIDTH)


def heads(x, count):
    return x.reshape(x.shape[0], TOKENS, count, -1).transpose(1, 2)


def attention(q, k, v):
    """[N, H, S, D], each token looking at itself and those before it."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(torch.triu(torch.ones(TOKENS, TOKENS, dtype=torch.bool), 1), -math.inf)
    y = torch.softmax(scores, -1) @ v
    return y.transpose(1, 2).reshape(y.shape[0], TOKENS, -1)


def gpt2(p, words):
    table = p("words.table", WORDS, WIDTH)
    x = table[words] + p("places.table", TOKENS, WIDTH)
    for i in range(LAYERS):
        name = f"layer{i}"
        a = layer_norm(p, name + ".norm1", x)
        q, k, v = (heads(linear(p, f"{name}.attention.{part}", a, WIDTH), 2) for part in "qkv")
        x = x + linear(p, name + ".attention.o", attention(q, k, v), WIDTH)
        up = linear(p, name + ".up", layer_norm(p, name + ".norm2", x), 32)
        x = x + linear(p, name + ".down", F.gelu(up, approximate="tanh"), WIDTH)
    return layer_norm(p, "norm", x) @ table.T


def rotated(x):
    """Elements i and D / 2 + i of a head are a pair, turned by p theta^(-2i / D)."""
    half = x.shape[-1] // 2
    f = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(TOKENS, dtype=torch.float64)[:, None] * f
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def llama(p, words):
    x = p("words.table", WORDS, WIDTH)[words]
    for i in range(LAYERS):
        name = f"layer{i}"
        a = rms_norm(p, name + ".norm1", x)
        q = rotated(heads(a @ p(name + ".attention.q.w", WIDTH, WIDTH), 4))
        k = rotated(heads(a @ p(name + ".attention.k.w", WIDTH, WIDTH // 2), 2))
        v = heads(a @ p(name + ".attention.v.w", WIDTH, WIDTH // 2), 2)
        y = attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
        x = x + y @ p(name + ".attention.o.w", WIDTH, WIDTH)
        a = rms_norm(p, name + ".norm2", x)
        gate, up = (a @ p(f"{name}.{part}.w", WIDTH, 24) for part in ("gate", "up"))
        x = x + (F.silu(gate) * up) @ p(name + ".down.w", 24, WIDTH)
    return rms_norm(p, "norm", x) @ p("head.w", WIDTH, WORDS)


def save(case, model, seed):
    p = Params(seed)
    words, following = torch.randint(0, WORDS, (2, BATCH, TOKENS), generator=p.generator)
    logits = model(p, words).reshape(-1, WORDS)
    loss = F.cross_entropy(logits, following.reshape(-1))
    loss.backward()
    arrays = {"words": words.numpy().astype(np.int32), "next": following.numpy().astype(np.int32),
              "loss": loss.detach().numpy(), "logits": logits.detach().numpy()}
    for name, x in p.made.items():
        arrays[name] = x.detach().numpy()
        arrays["d_" + name] = x.grad.numpy()
    HERE.mkdir(parents=True, exist_ok=True)
    np.savez(HERE / (case + ".npz"), **arrays)


save("gpt2", gpt2, 11)
save("llama", llama, 12)
