# SPDX-License-Identifier: Apache-2.0
"""Answers of PyTorch for the layers and losses of fluxion/nn.h, in f64: results and gradients.

Each case is fixtures/nn/<case>.npz with the inputs and parameters by the names they have in the graph, `out`, the
cotangent `seed` of out (losses: none), and `d_<name>` for everything that has a gradient. Needs torch: pip install
torch.
"""
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).parent / "fixtures" / "nn"
torch.set_default_dtype(torch.float64)


def tensor(*shape, scale=1.0):
    return (torch.randn(*shape) * scale).requires_grad_()


def save(case, inputs, out):
    """inputs: name -> tensor, or (tensor, function that brings its gradient into the graph's layout)."""
    arrays = {}
    if out.dim():
        seed = torch.randn(out.shape)
        arrays["seed"] = seed.numpy()
        (out * seed).sum().backward()
    else:
        out.backward()
    arrays["out"] = out.detach().numpy()
    for name, value in inputs.items():
        x, turn = value if isinstance(value, tuple) else (value, lambda t: t)
        arrays[name] = turn(x.detach()).contiguous().numpy()
        if x.grad is not None:
            arrays["d_" + name] = turn(x.grad).contiguous().numpy()
    np.savez(HERE / (case + ".npz"), **arrays)


def transposed(p):
    return (p, lambda t: t.T)


def linear(name, layer):
    return {name + ".w": transposed(layer.weight), name + ".b": layer.bias}


def recurrent(case, kind, gates):
    layer = kind(3, 4, batch_first=True)
    x = tensor(2, 5, 3)
    out, _ = layer(x)
    inputs = {"x": x, "l.w": transposed(layer.weight_ih_l0), "l.u": transposed(layer.weight_hh_l0)}
    if kind is nn.GRU:
        inputs |= {"l.b": layer.bias_ih_l0, "l.c": layer.bias_hh_l0}
    else:
        layer.bias_hh_l0.data.zero_()
        out, _ = layer(x)
        inputs["l.b"] = layer.bias_ih_l0
    save(case, inputs, out)


def attention_inputs(name, mha, width):
    parts = {}
    for k, part in enumerate("qkv"):
        rows = slice(k * width, (k + 1) * width)
        parts[f"{name}.{part}.w"] = (mha.in_proj_weight, lambda t, rows=rows: t[rows].T)
        parts[f"{name}.{part}.b"] = (mha.in_proj_bias, lambda t, rows=rows: t[rows])
    return parts | linear(name + ".o", mha.out_proj)


def multi_head(case, causal, cross):
    width, heads = 8, 2
    mha = nn.MultiheadAttention(width, heads, batch_first=True)
    mha.in_proj_bias.data.normal_()
    x, context = tensor(2, 3, width), tensor(2, 4, width)
    keys = context if cross else x
    mask = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1) if causal else None
    out, _ = mha(x, keys, keys, attn_mask=mask)
    inputs = {"x": x} | ({"context": context} if cross else {}) | attention_inputs("a", mha, width)
    save(case, inputs, out)


def block(case, norm_first):
    width = 8
    layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, activation="gelu", batch_first=True,
                                       norm_first=norm_first)
    for norm in (layer.norm1, layer.norm2):
        norm.weight.data.normal_()
        norm.bias.data.normal_()
    x = tensor(2, 3, width)
    out = layer(x)
    inputs = {"x": x} | attention_inputs("t.attention", layer.self_attn, width)
    inputs |= linear("t.up", layer.linear1) | linear("t.down", layer.linear2)
    for k, norm in ((1, layer.norm1), (2, layer.norm2)):
        inputs |= {f"t.norm{k}.gamma": norm.weight, f"t.norm{k}.beta": norm.bias}
    save(case, inputs, out)


def convolution():
    layer, norm = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), nn.GroupNorm(3, 6)
    norm.weight.data.normal_()
    x = tensor(2, 4, 5, 6)
    out = F.silu(norm(layer(x)))
    save("conv_block", {"x": x, "c.w": layer.weight, "c.b": layer.bias, "c.gamma": norm.weight, "c.beta": norm.bias},
         out)


def ctc(case, labels, input_lengths, label_lengths, steps, classes):
    logits = tensor(len(input_lengths), steps, classes)
    log_probs = F.log_softmax(logits, -1)
    log_probs.retain_grad()
    losses = F.ctc_loss(log_probs.transpose(0, 1), torch.tensor(labels), torch.tensor(input_lengths),
                        torch.tensor(label_lengths), blank=0, reduction="none")
    out = losses.mean()
    out.backward(retain_graph=True)
    # PyTorch's gradient is that of the logits: softmax's part is in it. Only that one is compared.
    grad = logits.grad.clone()
    arrays = {"x": logits.detach().numpy(), "d_x": grad.numpy(), "out": out.detach().numpy(),
              "labels": np.array(labels, np.int32), "input_lengths": np.array(input_lengths, np.int32),
              "label_lengths": np.array(label_lengths, np.int32)}
    np.savez(HERE / (case + ".npz"), **arrays)


def losses():
    y, t = tensor(3, 4), torch.randn(3, 4)
    save("mse", {"x": y, "target": t}, F.mse_loss(y, t))
    y = tensor(3, 4)
    save("mae", {"x": y, "target": t}, F.l1_loss(y, t))
    y = tensor(3, 4)
    save("huber", {"x": y, "target": t}, F.huber_loss(y, t, delta=0.7))
    y = tensor(3, 4, scale=30.0)
    save("bce", {"x": y, "target": t.sigmoid()}, F.binary_cross_entropy_with_logits(y, t.sigmoid()))
    y, labels = tensor(3, 5), torch.tensor([4, 0, 2], dtype=torch.int32)
    save("cross_entropy", {"x": y, "labels": labels}, F.cross_entropy(y, labels.long(), label_smoothing=0.1))
    y, p = tensor(3, 5), torch.softmax(torch.randn(3, 5), -1)
    p[1] = torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0])
    save("kl", {"x": y, "target": p}, F.kl_div(y, p, reduction="batchmean"))


def main():
    torch.manual_seed(7)
    HERE.mkdir(parents=True, exist_ok=True)
    recurrent("rnn", nn.RNN, 1)
    recurrent("gru", nn.GRU, 3)
    recurrent("lstm", nn.LSTM, 4)
    multi_head("attention", False, False)
    multi_head("attention_causal", True, False)
    multi_head("attention_cross", False, True)
    block("block_pre_norm", True)
    block("block_post_norm", False)
    convolution()
    losses()
    ctc("ctc", [[1, 2, 2], [3, 1, 0], [2, 0, 0]], [6, 5, 3], [3, 2, 1], 6, 4)
    ctc("ctc_no_labels", [[0], [1]], [4, 2], [0, 1], 4, 3)


if __name__ == "__main__":
    main()
