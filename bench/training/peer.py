#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Milliseconds of a training step in PyTorch, of the models that `flx model gpt` and `flx model convnet` print, with
AdamW and the batch sizes of examples/gpt.train and examples/digits_conv.train.

    bench/training/compare        runs this beside `flx train --dry-run`
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)


def rotate(x):
    """Rotary positions of [N, heads, T, width], pairs of neighbours."""
    t, width = x.shape[2], x.shape[3]
    rates = 10000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(t)[:, None] * rates
    a, b = x[..., 0::2], x[..., 1::2]
    c, s = angles.cos(), angles.sin()
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        n, t, width = x.shape
        y = self.norm1(x)
        q, k, v = (f(y).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class GPT(nn.Module):
    def __init__(self, vocabulary=256, layers=3, width=96, heads=4):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x)))).flatten(0, 1)


def convnet():
    parts, channels = [], 1
    for i, width in enumerate((16, 32, 64)):
        parts += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if i < 2 else [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
        channels = width
    return nn.Sequential(*parts)


def step_ms(model, x, y, clip):
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.001)

    def step():
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimiser.step()
        return loss.item()

    for _ in range(5):
        step()
    best = float("inf")
    for _ in range(40):
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


torch.manual_seed(1)
tokens = torch.randint(0, 256, (16, 65))
print(f"gpt {step_ms(GPT(), tokens[:, :-1], tokens[:, 1:].flatten(), True):.3f}")
print(f"digits_conv {step_ms(convnet(), torch.rand(64, 1, 28, 28), torch.randint(0, 10, (64,)), False):.3f}")
