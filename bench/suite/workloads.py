# SPDX-License-Identifier: Apache-2.0
"""workloads.py: what is measured: names, shapes, inputs, costs, and the values that results must reproduce.

The functions themselves are in graphs.py (our text and transforms), jax_functions.py and torch_functions.py; each takes
the inputs in the order given here and returns results in the same order.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable

import numpy as np

from inputs import MLP, block_parameters, by_fan, hashed, hashed_int, mlp_parameters

Shape = dict[str, int]
Inputs = dict[str, np.ndarray]


@dataclass
class Check:
    """One number of the results: its output, how it is reduced, the value for the full shapes, and the tolerance."""
    output: int = 0
    kind: str = "value"
    value: float | None = None
    relative: float = 1e-4
    absolute: float = 0.0

    def of(self, results: list[np.ndarray]) -> float:
        x = np.asarray(results[self.output]).astype(np.float64)
        if self.kind == "rows":  # the mean norm of examples
            return float(np.sqrt((x.reshape(x.shape[0], -1) ** 2).sum(1)).mean())
        return float({"value": lambda: x.reshape(-1)[0], "mean": x.mean, "abs_mean": lambda: np.abs(x).mean(),
                      "top_abs_mean": lambda: np.abs(x[:64]).mean(), "abs_sum": lambda: np.abs(x).sum()}[self.kind]())

    def agrees(self, value: float, expected: float) -> bool:
        return abs(value - expected) <= max(self.absolute, self.relative * abs(expected))


@dataclass
class Workload:
    name: str
    about: str
    shape: Shape
    quick: Shape
    inputs: Callable[[Shape], Inputs]
    check: Check
    flops: Callable[[Shape], float] = lambda s: 0.0
    bytes: Callable[[Shape], float] = lambda s: 0.0
    wide: bool = False  # f64
    flush: bool = False  # subnormal numbers occur, which JAX flushes to zero
    table: bool = True  # one of the 21 rows whose mean is reported; the others have a mean of their own
    tolerance: float = 2e-3  # of results against those of JAX, relative to the largest
    compared_from: Callable[[int], int] = lambda n: 0  # the first of n results that is compared

    def at(self, quick: bool) -> Shape:
        return dict(self.shape, **(self.quick if quick else {}))


WORKLOADS: list[Workload] = []


def workload(*arguments, **named) -> None:
    WORKLOADS.append(Workload(*arguments, **named))


# ---- Inputs ----

def three(s: Shape) -> Inputs:
    return {name: hashed((s["n"],), i + 1) for i, name in enumerate("xyz")}


def norm_inputs(s: Shape) -> Inputs:
    m, c = s["m"], s["c"]
    return {"x": hashed((m, c), 1), "w": hashed((c,), 2), "b": hashed((c,), 3), "d_output": hashed((m, c), 4)}


def logits(s: Shape) -> Inputs:
    return {"z": hashed((s["m"], s["c"]), 1, 4.0), "label": hashed_int((s["m"],), 2, s["c"])}


def mlp_inputs(s: Shape) -> Inputs:
    return dict(mlp_parameters(), x=hashed((s["b"], 784), 5), label=hashed_int((s["b"],), 6, 10))


def hvp_inputs(s: Shape) -> Inputs:
    p = mlp_parameters()
    return dict(mlp_inputs(s), **{f"tangent_{n}": hashed(v.shape, 50 + i) for i, (n, v) in enumerate(p.items())})


def perex_inputs(s: Shape) -> Inputs:
    return dict(mlp_parameters(), x=hashed((s["b"], 1, 784), 5), label=hashed_int((s["b"], 1), 6, 10))


def square(s: Shape) -> Inputs:
    return {"a": hashed((s["n"], s["n"]), 1), "b": hashed((s["n"], s["n"]), 2)}


def block_inputs(s: Shape) -> Inputs:
    x = (s["b"], s["t"], s["c"])
    return {"x": hashed(x, 5), **block_parameters(s["c"], 10), "d_output": hashed(x, 6)}


def gpt2_parameters(s: Shape) -> Inputs:
    k = 0.02 * math.sqrt(3)
    p = {"wte": hashed((s["v"], s["c"]), 1, k), "wpe": hashed((s["t"], s["c"]), 2, k)}
    for layer in range(s["l"]):
        p.update(block_parameters(s["c"], 10 + 4 * layer, f"_{layer}"))
    return dict(p, gf=np.ones(s["c"], np.float32), cf=np.zeros(s["c"], np.float32))


def gpt2_inputs(s: Shape) -> Inputs:
    p = gpt2_parameters(s)
    words = hashed_int((s["b"], s["t"] + 1), 7, s["v"] - 47 if s["v"] > 1000 else s["v"])
    moments = {f"{m}_{n}": np.zeros_like(v) for m in "mv" for n, v in p.items()}
    return dict(p, **moments, ids=words[:, :-1].copy(), next=words[:, 1:].copy(), count=np.zeros((), np.float32))


def attention_inputs(s: Shape) -> Inputs:
    """[B, T, H, D], with the values of [B, H, T, D]."""
    shape = (s["b"], s["h"], s["t"], s["d"])
    return {n: np.ascontiguousarray(hashed(shape, i + 1).transpose(0, 2, 1, 3)) for i, n in
            enumerate(("q", "k", "v", "d_output"))}


def convnet_inputs(s: Shape) -> Inputs:
    shapes = (("k1", (32, 1, 3, 3), 9), ("b1", (32,), 9), ("k2", (64, 32, 3, 3), 288), ("b2", (64,), 288),
              ("w3", (9216, 128), 9216), ("b3", (128,), 9216), ("w4", (128, 10), 128), ("b4", (10,), 128))
    p = {n: hashed(shape, 20 + i, 1 / math.sqrt(fan)) for i, (n, shape, fan) in enumerate(shapes)}
    return dict(p, x=hashed((s["b"], 1, 28, 28), 5), label=hashed_int((s["b"],), 6, 10))


def resblock_inputs(s: Shape) -> Inputs:
    c, k, x = s["c"], 1 / math.sqrt(9 * s["c"]), (s["b"], s["c"], s["s"], s["s"])
    p = {"k1": hashed((c, c, 3, 3), 1, k), "k2": hashed((c, c, 3, 3), 2, k)}
    p.update({n: hashed((c,), i, 0.1) + np.float32(i < 5) for n, i in (("g1", 3), ("g2", 4), ("c1", 5), ("c2", 6))})
    return {"x": hashed(x, 7), **p, "d_output": hashed(x, 8)}


def embed_inputs(s: Shape) -> Inputs:
    return {"table": hashed((s["v"], s["c"]), 1), "ids": hashed_int((s["b"], s["t"]), 2, s["v"]),
            "d_output": hashed((s["b"], s["t"], s["c"]), 3)}


def rnn_inputs(s: Shape) -> Inputs:
    h, b = s["h"], s["b"]
    return {"w": hashed((h, h), 1, 0.9 * math.sqrt(3.0 / h)), "b": hashed((h,), 2, 0.1),
            "xs": hashed((s["t"], b, h), 3),
            "h0": hashed((b, h), 4)}


def solve_inputs(s: Shape) -> Inputs:
    n = s["n"]
    a = hashed((n, n), 1).astype(np.float64) / math.sqrt(n) + 2 * np.eye(n)
    return {"a": a, "b": hashed((n, s["r"]), 2).astype(np.float64)}


def fftconv_inputs(s: Shape) -> Inputs:
    return {"x": hashed((s["b"], s["n"]), 1), "k": hashed((s["n"],), 2, 1 / math.sqrt(s["n"]))}


def lorenz_inputs(s: Shape) -> Inputs:
    return {"x": (hashed((s["n"],), 1) + np.float32(8)).astype(np.float64)}


# ---- Costs ----

WEIGHTS = sum(a * b for a, b in zip(MLP, MLP[1:]))


def mlp_flops(s: Shape) -> float:
    return 2.0 * WEIGHTS * s["b"] * 3 - 2.0 * MLP[0] * MLP[1] * s["b"]  # nothing is computed for the images


def gpt2_flops(s: Shape) -> float:
    layers = s.get("l", 1)
    weights = 12 * s["c"] ** 2 * layers + s.get("v", 0) * s["c"]
    return 6.0 * (weights + layers * s["c"] * s["t"]) * s["b"] * s["t"]


def rnn_flops(s: Shape) -> float:
    return 6.0 * s["t"] * s["b"] * s["h"] ** 2 * (4 / 3 if "k" in s else 1)


# ---- The 21 rows ----

def table() -> None:
    chain = "exp(-(xy+z)^2) sin x + y sigmoid z"
    workload("ew_fwd", chain, dict(n=1 << 22), dict(n=4096), three, Check(0, "mean", 1.67721e-4, absolute=1e-6),
             bytes=lambda s: 16.0 * s["n"])
    workload("ew_grad", "its gradient with respect to x, y, z", dict(n=1 << 22), dict(n=4096), three,
             Check(0, "mean", 0.5359673), bytes=lambda s: 24.0 * s["n"])
    workload("layernorm", "layer norm, forward and backward", dict(m=1024, c=768), dict(m=16), norm_inputs,
             Check(1, "abs_mean", 14.541252), bytes=lambda s: 20.0 * s["m"] * s["c"])
    workload("softmax_xent", "cross-entropy and its gradient", dict(m=256, c=50304), dict(m=8, c=512), logits,
             Check(0, "value", 12.671746), bytes=lambda s: 12.0 * s["m"] * s["c"])
    for batch, value in ((1, 2.6120601), (32, 2.2795157), (1024, 2.3465779)):
        workload(f"mlp_b{batch}", f"784-512-512-10, ReLU, SGD step, {batch} examples", dict(b=batch),
                 dict(b=min(batch, 8)), mlp_inputs, Check(6, "value", value), flops=mlp_flops,
                 bytes=lambda s: 12.0 * WEIGHTS)
    workload("matmul", "1024^3", dict(n=1024), dict(n=64), square, Check(0, "top_abs_mean", 8.471824),
             flops=lambda s: 2.0 * s["n"] ** 3)
    workload("gpt2_block", "a block of GPT-2, forward and backward", dict(b=1, t=256, c=768, h=12),
             dict(t=16, c=48, h=3),
             block_inputs, Check(0, "abs_mean", 0.5729423), flops=gpt2_flops)
    workload("gpt2_124m", "GPT-2 with 12 layers, AdamW step", dict(b=4, t=64, c=768, h=12, l=12, v=50304),
             dict(b=1, t=16, c=48, h=3, l=2, v=128), gpt2_inputs, Check(-1, "value", 10.987593), flops=gpt2_flops,
             compared_from=lambda n: n // 3)  # Adam divides tiny gradients by their size: signs of rounding errors
    workload("attn_long", "causal attention, forward and backward", dict(b=1, t=1024, h=4, d=64), dict(t=64, h=2),
             attention_inputs, Check(2, "abs_mean", 0.02370554),
             flops=lambda s: 7.0 * s["b"] * s["h"] * s["t"] ** 2 * s["d"])
    workload("convnet", "two convolutions, pool, two layers, SGD step", dict(b=32), dict(b=2), convnet_inputs,
             Check(8, "value", 2.2954502),
             flops=lambda s: 6.0 * s["b"] * (26 * 26 * 32 * 9 + 24 * 24 * 64 * 288 + 9216 * 128 + 1280))
    workload("resblock", "conv-BN-ReLU-conv-BN-add-ReLU, forward and backward", dict(b=2, c=64, s=56),
             dict(b=1, c=8, s=8),
             resblock_inputs, Check(0, "abs_mean", 0.7582830),
             flops=lambda s: 12.0 * s["b"] * s["s"] ** 2 * s["c"] ** 2 * 9)
    workload("embed", "gather of rows, and the gradient of the table", dict(v=50304, c=768, b=4, t=256),
             dict(v=100, c=16, b=2, t=8), embed_inputs, Check(1, "abs_mean", 0.010093969),
             bytes=lambda s: 4.0 * (s["v"] * s["c"] + 5 * s["b"] * s["t"] * s["c"]))
    workload("hvp", "Hessian-vector product of the network with tanh", dict(b=128), dict(b=4), hvp_inputs,
             Check(0, "abs_mean", 0.02452226), flops=lambda s: 2 * mlp_flops(s))
    workload("perex_grad", "a gradient for each of 32 examples (vmap)", dict(b=32), dict(b=4), perex_inputs,
             Check(0, "rows", 7.445934), flops=mlp_flops, bytes=lambda s: 4.0 * s["b"] * WEIGHTS)
    workload("rnn1000", "tanh network of 1000 steps, loss and gradient", dict(b=8, h=128, t=1000),
             dict(t=20, h=16, b=2),
             rnn_inputs, Check(0, "value", 0.3179227), flops=rnn_flops, flush=True)
    workload("rnn1000_ckpt", "the same with checkpoints every 40 steps", dict(b=8, h=128, t=1000, k=40),
             dict(t=20, k=4, h=16, b=2), rnn_inputs, Check(0, "value", 0.3179227), flops=rnn_flops, flush=True)
    workload("solve", "gradient of mean(solve(A, B)^2), f64", dict(n=256, r=16), dict(n=16, r=2), solve_inputs,
             Check(0, "value", 0.09312951126, relative=1e-9), wide=True, tolerance=1e-8,
             flops=lambda s: 2.0 * s["n"] ** 3 / 3 + 6.0 * s["n"] ** 2 * s["r"])
    workload("fftconv", "gradient of mean(irfft(rfft x * rfft k)^2)", dict(b=8, n=16384), dict(b=2, n=64),
             fftconv_inputs,
             Check(0, "value", 0.05620427), flops=lambda s: (5 * s["b"] + 3) * 5.0 * s["n"] * math.log2(2 * s["n"]))
    workload("jacfwd", "Jacobian of 20 steps of Lorenz-96, f64", dict(n=40, steps=20), dict(n=8, steps=3),
             lorenz_inputs,
             Check(0, "abs_sum", 286.6381776899, relative=1e-9), wide=True, tolerance=1e-8,
             flops=lambda s: 32.0 * (s["n"] + 1) * s["steps"] * s["n"])


# ---- More workloads, without a place in the table ----

def resnet18_inputs(s: Shape) -> Inputs:
    w = s["w"]
    p: Inputs = {}

    def conv(name: str, out: int, inner: int, size: int) -> None:
        p[name] = by_fan((out, inner, size, size), 200 + len(p), inner * size * size, 6.0)
        p[name + "_g"], p[name + "_c"] = np.ones(out, np.float32), np.zeros(out, np.float32)
    conv("stem", w, 3, 3)
    inner = w
    for stage, out in enumerate((w, 2 * w, 4 * w, 8 * w)):
        for block in range(2):
            conv(f"s{stage}b{block}c1", out, inner, 3)
            conv(f"s{stage}b{block}c2", out, out, 3)
            if inner != out:
                conv(f"s{stage}b{block}short", out, inner, 1)
            inner = out
    p["fc"], p["fc_b"] = by_fan((inner, 10), 300, inner), np.zeros(10, np.float32)
    return dict(p, x=hashed((s["b"], 3, s["s"], s["s"]), 5), label=hashed_int((s["b"],), 6, 10))


def resnet18_flops(s: Shape) -> float:
    """Each convolution three times: forward, and the gradients of its input and its weights."""
    found = 0.0
    for name, k in resnet18_inputs(dict(s, b=1, s=8)).items():
        if k.ndim == 4 and name != "x":
            stage = 0 if name == "stem" else int(name[1])
            found += 6.0 * k.size * (s["s"] >> stage) ** 2 * s["b"]
    return found


def vit_inputs(s: Shape) -> Inputs:
    c, patch = s["c"], s["p"] ** 2 * 3
    tokens = (s["s"] // s["p"]) ** 2
    p = {"embed": by_fan((patch, c), 1, patch), "place": hashed((tokens, c), 2, 0.02)}
    for layer in range(s["l"]):
        p.update(block_parameters(c, 10 + 4 * layer, f"_{layer}"))
    p.update(gf=np.ones(c, np.float32), cf=np.zeros(c, np.float32))
    p.update(head=by_fan((c, 10), 3, c), head_b=np.zeros(10, np.float32))
    return dict(p, x=hashed((s["b"], 3, s["s"], s["s"]), 5), label=hashed_int((s["b"],), 6, 10))


def vit_flops(s: Shape) -> float:
    tokens = (s["s"] // s["p"]) ** 2
    return 6.0 * s["b"] * tokens * s["l"] * (12 * s["c"] ** 2 + 2 * s["c"] * tokens)


def lstm_inputs(s: Shape) -> Inputs:
    h = s["h"]
    return {"w": by_fan((h, 4 * h), 1, h), "u": by_fan((h, 4 * h), 2, h), "b": hashed((4 * h,), 3, 0.1),
            "xs": hashed((s["t"], s["b"], h), 4)}


def llama_inputs(s: Shape) -> Inputs:
    c, kv, f = s["c"], s["c"] * s["g"] // s["h"], s["f"]
    p = {"g1": np.ones(c, np.float32)}
    for i, (n, rows, columns) in enumerate((("wq", c, c), ("wk", c, kv), ("wv", c, kv), ("wo", c, c))):
        p[n] = by_fan((rows, columns), 10 + i, rows)
    p["g2"] = np.ones(c, np.float32)
    for i, (n, rows, columns) in enumerate((("gate", c, f), ("up", c, f), ("down", f, c))):
        p[n] = by_fan((rows, columns), 20 + i, rows)
    return p


def llama_step_inputs(s: Shape) -> Inputs:
    x = (s["b"], s["t"], s["c"])
    return {"x": hashed(x, 5), **llama_inputs(s), "d_output": hashed(x, 6)}


def llama_flops(s: Shape) -> float:
    weights = s["c"] ** 2 * (2 + 2 * s["g"] / s["h"]) + 3 * s["c"] * s["f"]
    return 6.0 * s["b"] * s["t"] * (weights + s["c"] * s["t"])


def decode_inputs(s: Shape) -> Inputs:
    cache = (s["b"], s["t"], s["g"], s["c"] // s["h"])
    return {"x": hashed((s["b"], 1, s["c"]), 5), **llama_inputs(s), "keys": hashed(cache, 6),
            "values": hashed(cache, 7),
            "at": np.int32(s["t"] - 1)}


def decode_bytes(s: Shape) -> float:
    """The weights once, and the cache: read, and copied with one more row."""
    shared = s["g"] / s["h"]
    cache = 2 * s["b"] * s["t"] * s["c"] * shared
    return 4.0 * (s["c"] ** 2 * (2 + 2 * shared) + 3 * s["c"] * s["f"] + 2 * cache)


def int8_inputs(s: Shape) -> Inputs:
    n = s["n"]
    a, b = (hashed_int((n, n), i, 255) - 127 for i in (1, 2))
    return {"a": a.astype(np.int8), "b": b.astype(np.int8)}


def gmm_inputs(s: Shape) -> Inputs:
    d, k = s["d"], s["k"]
    f8 = np.float64
    return {"alphas": hashed((k,), 1).astype(f8), "means": hashed((k, d), 2).astype(f8),
            "icf": hashed((k, d * (d + 1) // 2), 3).astype(f8), "x": hashed((s["n"], d), 4).astype(f8)}


def ba_inputs(s: Shape) -> Inputs:
    cameras = hashed((s["n"], 11), 1, 0.1).astype(np.float64) + np.array([0] * 6 + [1, 0, 0, 0, 0])
    points = hashed((s["m"], 3), 2).astype(np.float64) + np.array([0, 0, 4.0])
    return {"cameras": cameras, "points": points, "weights": hashed((s["p"],), 3).astype(np.float64),
            "camera_of": hashed_int((s["p"],), 4, s["n"]), "point_of": hashed_int((s["p"],), 5, s["m"]),
            "features": hashed((s["p"], 2), 6).astype(np.float64)}


def lattice_inputs(s: Shape) -> Inputs:
    side = round(s["n"] ** (1 / 3))
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)[: s["n"]]
    return {"x": grid.astype(np.float64) * 1.2 + hashed((s["n"], 3), 1, 0.1)}


def nbody_inputs(s: Shape) -> Inputs:
    return {"x": hashed((s["n"], 3), 1), "v": hashed((s["n"], 3), 2, 0.1),
            "m": hashed((s["n"],), 3, 0.4) + np.float32(0.5)}


def cg_inputs(s: Shape) -> Inputs:
    return {"d": hashed((s["n"], s["n"]), 1, 0.5) + np.float32(0.6), "b": hashed((s["n"], s["n"]), 2)}


def more() -> None:
    outside = dict(table=False)
    workload("resnet18", "ResNet-18, 64 x 64 images, loss and gradient", dict(b=8, s=64, w=64), dict(b=1, s=16, w=8),
             resnet18_inputs, Check(0, "value"), flops=resnet18_flops, tolerance=5e-2,  # rounding decides some ReLUs
             **outside)
    workload("vit_tiny", "ViT-tiny, 64 x 64 images, patches of 8, loss and gradient",
             dict(b=8, s=64, p=8, c=192, h=3, l=12), dict(b=1, s=16, c=24, l=2), vit_inputs, Check(0, "value"),
             flops=vit_flops, **outside)
    workload("lstm", "LSTM of 100 steps, loss and gradient", dict(b=16, h=256, t=100), dict(b=2, h=16, t=5),
             lstm_inputs,
             Check(0, "value"), flush=True, flops=lambda s: 48.0 * s["t"] * s["b"] * s["h"] ** 2, **outside)
    workload("llama_block", "rotary positions, grouped heads, gated network; forward and backward",
             dict(b=1, t=256, c=768, h=12, g=4, f=2048), dict(t=16, c=48, h=4, g=2, f=64), llama_step_inputs,
             Check(0, "abs_mean"), flops=llama_flops, **outside)
    workload("decode", "one token through that block with a cache of 1024 keys and values",
             dict(b=1, t=1024, c=768, h=12, g=4, f=2048), dict(t=16, c=48, h=4, g=2, f=64), decode_inputs,
             Check(0, "abs_mean"), bytes=decode_bytes, **outside)
    workload("int8", "1024^3, int8 to int32", dict(n=1024), dict(n=64), int8_inputs, Check(0, "abs_mean"), **outside)
    workload("gmm", "Gaussian mixture of the AD benchmarks, loss and gradient, f64", dict(n=1000, d=10, k=25),
             dict(n=20, d=3, k=4), gmm_inputs, Check(0, "value"), wide=True, tolerance=1e-8, **outside)
    workload("ba", "bundle adjustment of the AD benchmarks, reprojection errors and their Jacobian, f64",
             dict(n=49, m=7776, p=31843), dict(n=3, m=20, p=40), ba_inputs, Check(0, "abs_mean"), wide=True,
             tolerance=1e-8, **outside)
    workload("md", "Lennard-Jones force of 64 particles, f64", dict(n=64), dict(n=8), lattice_inputs,
             Check(1, "abs_mean"),
             wide=True, tolerance=1e-8, **outside)
    workload("nbody", "10 leapfrog steps of 1024 bodies", dict(n=1024, steps=10), dict(n=16, steps=2), nbody_inputs,
             Check(0, "abs_mean"), flops=lambda s: 20.0 * s["steps"] * s["n"] ** 2, **outside)
    workload("sparse_cg", "50 steps of conjugate gradients, five-point stencil on 256 x 256", dict(n=256, steps=50),
             dict(n=16, steps=5), cg_inputs, Check(0, "abs_mean"), **outside)


table()
more()
