# SPDX-License-Identifier: Apache-2.0
"""torch_functions.py: the workloads in PyTorch, eager and compiled.

`function(name, shape, inputs, compiled)` returns a call that runs one step, and a function that turns what the call
returned into the results in the order of workloads.py, as far as the check value needs them.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
import torch
import torch.nn.functional as F

Tensor = torch.Tensor
MAKERS: dict[str, Callable] = {}
# Where a library does all the work, or loops are unrolled for minutes, compiling shows nothing new.
NOT_COMPILED = {"matmul", "solve", "fftconv", "attn_long", "rnn1000_ckpt", "rnn1000", "lstm", "int8"}


def named(*names: str):
    def add(f):
        MAKERS.update({n: f for n in names})
        return f

    return add


def exists(name: str, compiled: bool) -> bool:
    return name in MAKERS and not (compiled and (name in NOT_COMPILED or not hasattr(torch, "compile")))


def function(name: str, shape: dict[str, int], inputs: dict[str, np.ndarray], compiled: bool):
    wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
    tensors = {n: torch.from_numpy(np.array(v)) for n, v in inputs.items()}
    return MAKERS[name](shape, tensors, wrap)


# ---- Parts ----


def leaves(t: dict[str, Tensor], without: tuple[str, ...] = ("x", "label", "d_output")) -> list[Tensor]:
    return [v.requires_grad_() for n, v in t.items() if n not in without]


def cross_entropy(z: Tensor, label: Tensor) -> Tensor:
    return F.cross_entropy(z, label.long())


def pulled_back(f: Callable, given: list[Tensor], d: Tensor, wrap: Callable):
    """One step: f forward and backward with cotangent d; results are the gradients."""
    g = wrap(f)
    return (lambda: torch.autograd.grad(g(*given), given, d)), list


def descent(loss: Callable, p: list[Tensor], data: list[Tensor], wrap: Callable, rate: float | None = 1e-3):
    """One step of SGD, or without a rate the loss and its gradient. Parameters are not replaced: every step is the
    first one, as in the other frameworks."""
    g = wrap(loss)

    def step():
        value = g(p, *data)
        gradient = torch.autograd.grad(value, p)
        if rate is None:
            return [value, *gradient]
        with torch.no_grad():
            return [*torch._foreach_add(p, gradient, alpha=-rate), value]

    return step, list


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> Tensor:
    """[B, T, H, D]"""
    return F.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (q, k, v)), is_causal=causal).transpose(1, 2)


def block(x: Tensor, p: Any, heads: int, causal: bool = True) -> Tensor:
    g1, c1, wq, bq, wo, bo, g2, c2, w1, b1, w2, b2 = p
    width = x.shape[-1]
    q, k, v = (z.unflatten(-1, (heads, -1)) for z in (F.layer_norm(x, (width,), g1, c1) @ wq + bq).split(width, -1))
    x = x + (attention(q, k, v, causal).reshape(x.shape) @ wo + bo)
    return x + (F.gelu(F.layer_norm(x, (width,), g2, c2) @ w1 + b1, approximate="tanh") @ w2 + b2)


# ---- The table ----


def chain(x, y, z):
    return torch.exp(-((x * y + z) ** 2)) * torch.sin(x) + y * torch.sigmoid(z)


@named("ew_fwd")
def ew_fwd(s, t, wrap):
    g = wrap(chain)

    def run():
        with torch.no_grad():
            return [g(*t.values())]

    return run, list


@named("ew_grad")
def ew_grad(s, t, wrap):
    given = leaves(t, ())
    g = wrap(lambda *a: chain(*a).sum())
    return (lambda: torch.autograd.grad(g(*given), given)), list


@named("layernorm")
def layernorm(s, t, wrap):
    given = leaves(t, ("d_output",))
    return pulled_back(lambda x, w, b: F.layer_norm(x, (s["c"],), w, b), given, t["d_output"], wrap)


@named("softmax_xent")
def softmax_xent(s, t, wrap):
    z = t["z"].requires_grad_()
    g = wrap(cross_entropy)

    def run():
        value = g(z, t["label"])
        return [value, *torch.autograd.grad(value, z)]

    return run, list


def mlp_loss(p, x, label):
    w1, b1, w2, b2, w3, b3 = p
    return cross_entropy(F.relu(F.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3, label)


@named("mlp_b1", "mlp_b32", "mlp_b1024")
def mlp(s, t, wrap):
    return descent(mlp_loss, leaves(t), [t["x"], t["label"]], wrap)


@named("matmul")
def matmul(s, t, wrap):
    return (lambda: [t["a"] @ t["b"]]), list


@named("gpt2_block")
def gpt2_block(s, t, wrap):
    given = leaves(t, ("d_output",))
    return pulled_back(lambda x, *p: block(x, p, s["h"]), given, t["d_output"], wrap)


@named("gpt2_124m")
def gpt2(s, t, wrap):
    p = [v.requires_grad_() for n, v in t.items() if n[:2] not in ("m_", "v_") and n not in ("ids", "next", "count")]
    ids, following = t["ids"].long(), t["next"].long()

    def loss(p):
        x = F.embedding(ids, p[0]) + p[1]
        for layer in range(s["l"]):
            x = block(x, p[2 + 12 * layer : 14 + 12 * layer], s["h"])
        z = F.layer_norm(x, (s["c"],), p[-2], p[-1]) @ p[0].t()
        return F.cross_entropy(z.view(-1, s["v"]), following.view(-1))

    g = wrap(loss)
    first = float(loss(p).detach())
    optimiser = torch.optim.AdamW(p, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)

    def step():
        optimiser.zero_grad(set_to_none=True)
        value = g(p)
        value.backward()
        optimiser.step()
        return value

    return step, (lambda _: [torch.tensor(first)])  # parameters change from step to step


@named("attn_long")
def attn_long(s, t, wrap):
    return pulled_back(attention, leaves(t, ("d_output",)), t["d_output"], wrap)


@named("convnet")
def convnet(s, t, wrap):
    def loss(p, x, label):
        k1, b1, k2, b2, w3, b3, w4, b4 = p
        h = F.max_pool2d(F.relu(F.conv2d(F.relu(F.conv2d(x, k1, b1)), k2, b2)), 2)
        return cross_entropy(F.relu(h.flatten(1) @ w3 + b3) @ w4 + b4, label)

    return descent(loss, leaves(t), [t["x"], t["label"]], wrap)


def batch_norm(h, g, b):
    return F.batch_norm(h, None, None, g, b, True)


@named("resblock")
def resblock(s, t, wrap):
    last = torch.channels_last
    for n, v in t.items():
        if v.dim() == 4:
            t[n] = v.contiguous(memory_format=last)
    given = leaves(t, ("d_output",))

    def f(x, k1, k2, g1, g2, c1, c2):
        h = F.relu(batch_norm(F.conv2d(x, k1, padding=1), g1, c1))
        return F.relu(x + batch_norm(F.conv2d(h, k2, padding=1), g2, c2))

    return pulled_back(f, given, t["d_output"], wrap)


@named("embed")
def embed(s, t, wrap):
    table, ids = t["table"].requires_grad_(), t["ids"].long()
    g = wrap(lambda table: F.embedding(ids, table))

    def run():
        y = g(table)
        return [y, *torch.autograd.grad(y, table, t["d_output"])]

    return run, list


def smooth_loss(p, x, label):
    """mlp_loss with tanh; F.cross_entropy has no forward mode of its derivative."""
    w1, b1, w2, b2, w3, b3 = p
    z = torch.tanh(torch.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3
    return (torch.logsumexp(z, -1) - z.gather(1, label.long()[:, None])[:, 0]).mean()


@named("hvp")
def hvp(s, t, wrap):
    names = ("w1", "b1", "w2", "b2", "w3", "b3")
    p, v = tuple(t[n] for n in names), tuple(t[f"tangent_{n}"] for n in names)
    gradient = torch.func.grad(lambda *q: smooth_loss(q, t["x"], t["label"]), argnums=tuple(range(6)))
    g = wrap(lambda *a: torch.func.jvp(gradient, a[:6], a[6:])[1])
    return (lambda: g(*p, *v)), list


@named("perex_grad")
def perex_grad(s, t, wrap):
    p = tuple(t[n] for n in ("w1", "b1", "w2", "b2", "w3", "b3"))
    g = wrap(torch.func.vmap(torch.func.grad(mlp_loss), in_dims=(None, 0, 0)))
    return (lambda: g(p, t["x"], t["label"])), list


@named("rnn1000", "rnn1000_ckpt")
def rnn(s, t, wrap):
    w, b = t["w"].requires_grad_(), t["b"].requires_grad_()

    def part(h, xs, w, b):
        for x in xs.unbind(0):
            h = torch.tanh(h @ w + x + b)
        return h

    def forward():
        if "k" not in s:
            return part(t["h0"], t["xs"], w, b)
        from torch.utils.checkpoint import checkpoint

        h = t["h0"]
        for xs in t["xs"].split(s["k"]):
            h = checkpoint(part, h, xs, w, b, use_reentrant=False)
        return h

    def run():
        value = (forward() ** 2).mean()
        return [value, *torch.autograd.grad(value, (w, b))]

    return run, list


def value_and_grad(f, given, wrap):
    g = wrap(f)

    def run():
        value = g(*given)
        return [value, *torch.autograd.grad(value, given)]

    return run, list


@named("solve")
def solve(s, t, wrap):
    return value_and_grad(lambda a, b: (torch.linalg.solve(a, b) ** 2).mean(), leaves(t, ()), wrap)


@named("fftconv")
def fftconv(s, t, wrap):
    n = s["n"]

    def f(x, k):
        return (torch.fft.irfft(torch.fft.rfft(x, n=2 * n) * torch.fft.rfft(k, n=2 * n), n=2 * n)[:, :n] ** 2).mean()

    return value_and_grad(f, leaves(t, ()), wrap)


@named("jacfwd")
def jacfwd(s, t, wrap):
    def slope(x):
        return (torch.roll(x, -1) - torch.roll(x, 2)) * torch.roll(x, 1) - x + 8.0

    def flow(x):
        h = 0.01
        for _ in range(s["steps"]):
            k1 = slope(x)
            k2 = slope(x + h / 2 * k1)
            k3 = slope(x + h / 2 * k2)
            k4 = slope(x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x

    g = wrap(torch.func.jacfwd(flow))
    return (lambda: [g(t["x"])]), list


# ---- More workloads ----


@named("resnet18")
def resnet18(s, t, wrap):
    for n, v in t.items():
        if v.dim() == 4:
            t[n] = v.contiguous(memory_format=torch.channels_last)
    names = [n for n in t if n not in ("x", "label")]

    def loss(parameters, x, label):
        p = dict(zip(names, parameters))

        def unit(h, name, stride=1):
            k = p[name]
            return batch_norm(F.conv2d(h, k, stride=stride, padding=k.shape[2] // 2), p[name + "_g"], p[name + "_c"])

        h = F.relu(unit(x, "stem"))
        for stage in range(4):
            for i in range(2):
                name, stride = f"s{stage}b{i}", 2 if stage and not i else 1
                y = unit(F.relu(unit(h, name + "c1", stride)), name + "c2")
                h = F.relu(y + (unit(h, name + "short", stride) if name + "short" in p else h))
        return cross_entropy(h.mean((2, 3)) @ p["fc"] + p["fc_b"], label)

    return descent(loss, leaves(t), [t["x"], t["label"]], wrap, None)


@named("vit_tiny")
def vit_tiny(s, t, wrap):
    def loss(p, x, label):
        b, side = x.shape[0], s["s"] // s["p"]
        patches = x.reshape(b, 3, side, s["p"], side, s["p"]).permute(0, 2, 4, 3, 5, 1).reshape(b, side * side, -1)
        h = patches @ p[0] + p[1]
        for layer in range(s["l"]):
            h = block(h, p[2 + 12 * layer : 14 + 12 * layer], s["h"], False)
        return cross_entropy(F.layer_norm(h, (s["c"],), p[-4], p[-3]).mean(1) @ p[-2] + p[-1], label)

    return descent(loss, leaves(t), [t["x"], t["label"]], wrap, None)


@named("lstm")
def lstm(s, t, wrap):
    """PyTorch's own LSTM; its gates have the same order."""
    cell = torch.nn.LSTM(s["h"], s["h"])
    with torch.no_grad():
        cell.weight_ih_l0.copy_(t["w"].t())
        cell.weight_hh_l0.copy_(t["u"].t())
        cell.bias_ih_l0.copy_(t["b"])
        cell.bias_hh_l0.zero_()

    def run():
        value = (cell(t["xs"])[1][0] ** 2).mean()
        return [value, *torch.autograd.grad(value, (cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0))]

    return run, list


def rotate(x, position):
    half = x.shape[-1] // 2
    angle = position[:, None] * torch.exp(torch.arange(half, dtype=x.dtype) * (-math.log(10000.0) / half))
    c, z = torch.cos(angle)[:, None], torch.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * c - b * z, b * c + a * z), -1)


@named("llama_block")
def llama_block(s, t, wrap):
    def rms(x, g):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g

    def f(x, g1, wq, wk, wv, wo, g2, gate, up, down):
        h, position = rms(x, g1), torch.arange(x.shape[1], dtype=x.dtype)
        q = rotate((h @ wq).unflatten(-1, (s["h"], -1)), position)
        k = rotate((h @ wk).unflatten(-1, (s["g"], -1)), position)
        v = (h @ wv).unflatten(-1, (s["g"], -1))
        k, v = (z.repeat_interleave(s["h"] // s["g"], 2) for z in (k, v))
        x = x + attention(q, k, v).reshape(x.shape) @ wo
        h = rms(x, g2)
        return x + (F.silu(h @ gate) * (h @ up)) @ down

    return pulled_back(f, leaves(t, ("d_output",)), t["d_output"], wrap)


@named("int8")
def int8(s, t, wrap):
    return (lambda: [torch._int_mm(t["a"], t["b"])]), list


@named("md")
def md(s, t, wrap):
    eye = torch.eye(s["n"], dtype=torch.float64)

    def energy(x):
        r2 = ((x[:, None] - x[None]) ** 2).sum(-1) + eye
        s6 = 1.0 / (r2 * r2 * r2)
        return 2.0 * torch.where(eye > 0, 0.0, s6 * s6 - s6).sum()

    return value_and_grad(energy, leaves(t, ()), wrap)


@named("nbody")
def nbody(s, t, wrap):
    def pull(x, m):
        d = x[None] - x[:, None]
        return (d * (m * ((d**2).sum(-1) + 1e-2) ** -1.5)[..., None]).sum(1)

    def f(x, v, m):
        for _ in range(s["steps"]):
            v = v + 0.005 * pull(x, m)
            x = x + 0.01 * v
            v = v + 0.005 * pull(x, m)
        return x, v

    g = wrap(f)

    def run():
        with torch.no_grad():
            return list(g(*t.values()))

    return run, list
