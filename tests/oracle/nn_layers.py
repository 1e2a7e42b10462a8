# SPDX-License-Identifier: Apache-2.0
"""Answers of PyTorch for the convolutions, pools, norms, recurrences, attention with a cache, decoder blocks and losses
of fluxion/nn.h, in f64: results, states and gradients. What PyTorch lacks (mixtures of experts, Mamba) is written with
its ops, token by token, from the formulas of the papers.

The format is that of nn.py. Each case is seeded by its name, so a new one leaves the others alone.
"""
import zlib

import torch
from torch import nn
from torch.nn import functional as F

from nn import HERE, attention_inputs, linear, save, tensor, transposed

CASES = []


def case(function):
    CASES.append(function)
    return function


def randomise(*layers):
    for layer in layers:
        for p in layer.parameters():
            p.data.normal_()


# ---- Convolution and pooling ----

def convolution(name, layer, *shape, post=lambda t: t):
    randomise(layer)
    x = tensor(*shape)
    inputs = {"x": x, "c.w": layer.weight}
    if layer.bias is not None:
        inputs["c.b"] = layer.bias
    save(name, inputs, post(layer(x)))


@case
def conv1():
    convolution("conv1", nn.Conv1d(3, 4, 3, padding=1), 2, 3, 7, post=F.silu)


@case
def conv2():
    convolution("conv2", nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(0, 3), dilation=(2, 3), groups=2), 2, 4, 8, 7)


@case
def conv3():
    convolution("conv3", nn.Conv3d(2, 3, 2, stride=2, bias=False), 1, 2, 4, 5, 4)


@case
def conv_depthwise():
    convolution("conv_depthwise", nn.Conv2d(3, 6, 3, padding=1, groups=3), 2, 3, 4, 5)


@case
def conv_even():
    convolution("conv_even", nn.Conv1d(2, 3, 4, padding="same", dilation=3), 2, 2, 11)


@case
def conv_sides():
    layer = nn.Conv1d(2, 3, 3, padding=0)
    randomise(layer)
    x = tensor(2, 2, 5)
    save("conv_sides", {"x": x, "c.w": layer.weight, "c.b": layer.bias}, layer(F.pad(x, (2, 1))))


@case
def conv_transpose1():
    convolution("conv_transpose1", nn.ConvTranspose1d(3, 4, 2, stride=2), 2, 3, 5)


@case
def conv_transpose2():
    layer = nn.ConvTranspose2d(4, 6, 3, stride=(2, 3), padding=1, output_padding=(1, 2), dilation=(1, 2), groups=2)
    convolution("conv_transpose2", layer, 1, 4, 3, 4)


@case
def conv_transpose3():
    convolution("conv_transpose3", nn.ConvTranspose3d(2, 3, 2, stride=2, bias=False), 1, 2, 2, 3, 2)


def pooled(name, layer, *shape):
    x = tensor(*shape)
    save(name, {"x": x}, layer(x))


@case
def max_pool():
    pooled("max_pool", nn.MaxPool2d((3, 2), stride=2, padding=(1, 0)), 2, 3, 7, 6)


@case
def avg_pool():
    pooled("avg_pool", nn.AvgPool2d(3, stride=2, padding=1), 2, 3, 7, 6)


@case
def avg_pool_exclude():
    pooled("avg_pool_exclude", nn.AvgPool1d(3, stride=2, padding=1, count_include_pad=False), 2, 3, 7)


@case
def adaptive_pool():
    pooled("adaptive_pool", nn.AdaptiveAvgPool2d((3, 2)), 2, 3, 7, 5)


@case
def adaptive_pool3():
    pooled("adaptive_pool3", nn.AdaptiveAvgPool3d((2, 3, 5)), 1, 2, 4, 5, 7)


@case
def global_avg_pool():
    pooled("global_avg_pool", lambda x: x.mean((2, 3)), 2, 3, 4, 5)


@case
def global_max_pool():
    pooled("global_max_pool", lambda x: x.amax((2, 3)), 2, 3, 4, 5)


@case
def unet():
    c1, c2 = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
    up, u1, u2 = nn.ConvTranspose2d(4, 3, 2, stride=2), nn.Conv2d(7, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
    n1, n2 = nn.GroupNorm(2, 4), nn.GroupNorm(2, 4)
    randomise(c1, c2, up, u1, u2, n1, n2)
    x = tensor(1, 2, 4, 6)
    skip = F.silu(n2(c2(F.silu(n1(c1(x))))))
    y = torch.cat((up(F.max_pool2d(skip, 2)), skip), 1)
    out = F.relu(u2(F.relu(u1(y))))
    inputs = {"x": x}
    for name, layer in (("d.conv1", c1), ("d.conv2", c2), ("u.up", up), ("u.conv1", u1), ("u.conv2", u2)):
        inputs |= {name + ".w": layer.weight, name + ".b": layer.bias}
    for name, norm in (("d.norm1", n1), ("d.norm2", n2)):
        inputs |= {name + ".gamma": norm.weight, name + ".beta": norm.bias}
    save("unet", inputs, out)


# ---- Norms ----

def normed(name, layer, *shape):
    randomise(layer)
    x = tensor(*shape)
    save(name, {"x": x, "n.gamma": layer.weight, "n.beta": layer.bias}, layer(x))


@case
def layer_norm():
    normed("layer_norm", nn.LayerNorm(5), 2, 3, 5)


@case
def group_norm():
    normed("group_norm", nn.GroupNorm(2, 4, eps=1e-3), 2, 4, 3, 2)


@case
def instance_norm():
    normed("instance_norm", nn.InstanceNorm2d(4, affine=True), 2, 4, 3, 2)


@case
def rms_norm():
    layer = nn.RMSNorm(5, eps=1e-5)
    randomise(layer)
    x = tensor(2, 3, 5)
    save("rms_norm", {"x": x, "n.gamma": layer.weight}, layer(x))


def batch_normed(name, layer, is_training, *shape):
    randomise(layer)
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2)
    x = tensor(*shape)
    inputs = {"x": x, "n.gamma": layer.weight, "n.beta": layer.bias, "n.mean": layer.running_mean.clone(),
              "n.var": layer.running_var.clone()}
    layer.train(is_training)
    out = layer(x)
    if is_training:
        inputs |= {"new_n.mean": layer.running_mean, "new_n.var": layer.running_var}
    save(name, inputs, out)


@case
def batch_norm():
    batch_normed("batch_norm", nn.BatchNorm2d(3), True, 4, 3, 2, 3)


@case
def batch_norm_rows():
    batch_normed("batch_norm_rows", nn.BatchNorm1d(3, eps=1e-3, momentum=0.25), True, 5, 3)


@case
def batch_norm_inference():
    batch_normed("batch_norm_inference", nn.BatchNorm1d(3), False, 4, 3, 5)


# ---- Recurrence ----

def recurrent(name, kind, layers, both, lengths):
    width, units, steps, n = 3, 4, 5, 3
    layer = kind(width, units, num_layers=layers, bidirectional=both, batch_first=True)
    x = tensor(n, steps, width)
    inputs = {"x": x}
    for i in range(layers):
        for suffix in ("", "_reverse") if both else ("",):
            of = "l" + (f".{i}" if layers > 1 else "") + (".reverse" if suffix else "")
            inputs[of + ".w"] = transposed(getattr(layer, f"weight_ih_l{i}{suffix}"))
            inputs[of + ".u"] = transposed(getattr(layer, f"weight_hh_l{i}{suffix}"))
            inputs[of + ".b"] = getattr(layer, f"bias_ih_l{i}{suffix}")
            if kind is nn.GRU:
                inputs[of + ".c"] = getattr(layer, f"bias_hh_l{i}{suffix}")
            else:
                getattr(layer, f"bias_hh_l{i}{suffix}").data.zero_()
    h = tensor(layers * (1 + both), n, units)
    initial = (h, tensor(*h.shape)) if kind is nn.LSTM else h
    inputs["hidden"] = h
    if kind is nn.LSTM:
        inputs["cell"] = initial[1]
    if lengths:
        inputs["lengths"] = torch.tensor(lengths, dtype=torch.int32)
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        y, last = layer(packed, initial)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=steps)
    else:
        y, last = layer(x, initial)
    parts = [y] + list(last if kind is nn.LSTM else [last])
    save(name, inputs, torch.cat([p.flatten() for p in parts]))


@case
def lstm_states():
    recurrent("lstm_states", nn.LSTM, 1, False, None)


@case
def lstm_padded():
    recurrent("lstm_padded", nn.LSTM, 2, True, [3, 5, 1])


@case
def gru_padded():
    recurrent("gru_padded", nn.GRU, 2, True, [5, 2, 4])


@case
def rnn_padded():
    recurrent("rnn_padded", nn.RNN, 1, True, [1, 5, 3])


# ---- Attention ----

def rotate(x, first, theta):
    """x [N, S, heads, D]: halves of each head rotated by the positions from `first` on."""
    half = x.shape[-1] // 2
    p = torch.arange(first, first + x.shape[1])[:, None] * theta ** (-torch.arange(half) / half)
    cos, sin = p.cos()[:, None, :], p.sin()[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def cached(name, kind, window=None):
    n, steps, width, heads, kv, d, capacity, first, theta = 2, 3, 8, 4, 2, 4, 9, 4, 50.0
    layers = {"q": nn.Linear(width, heads * d), "k": nn.Linear(width, kv * d), "v": nn.Linear(width, kv * d),
              "o": nn.Linear(heads * d, width)}
    x, keys, values = tensor(n, steps, width), tensor(n, capacity, kv * d), tensor(n, capacity, kv * d)
    q = rotate(layers["q"](x).view(n, steps, heads, d), first, theta)
    k = rotate(layers["k"](x).view(n, steps, kv, d), first, theta).reshape(n, steps, kv * d)
    new_keys = torch.cat((keys[:, :first], k, keys[:, first + steps:]), 1)
    new_values = torch.cat((values[:, :first], layers["v"](x), values[:, first + steps:]), 1)
    token, key = torch.arange(first, first + steps)[:, None], torch.arange(capacity)[None, :]
    allowed = key <= (token if kind != "none" else first + steps - 1)
    if window is not None:
        allowed = allowed & (key >= token - window)
    spread = lambda t: t.view(n, capacity, kv, d).repeat_interleave(heads // kv, 2).transpose(1, 2)
    y = F.scaled_dot_product_attention(q.transpose(1, 2), spread(new_keys), spread(new_values), attn_mask=allowed)
    out = layers["o"](y.transpose(1, 2).reshape(n, steps, heads * d))
    inputs = {"x": x, "keys": keys, "values": values, "position": torch.tensor(first, dtype=torch.int32)}
    for part, layer in layers.items():
        inputs |= linear("a." + part, layer)
    save(name, inputs, torch.cat((out.flatten(), new_keys.flatten(), new_values.flatten())))


@case
def attention_cache():
    cached("attention_cache", "causal")


@case
def attention_cache_all():
    cached("attention_cache_all", "none")


@case
def attention_cache_window():
    cached("attention_cache_window", "sliding_window", 2)


def decoder(name, norm_first):
    width = 8
    layer = nn.TransformerDecoderLayer(width, 2, 16, dropout=0.0, activation="gelu", batch_first=True,
                                       norm_first=norm_first)
    norms = layer.norm1, layer.norm2, layer.norm3
    randomise(*norms)
    x, context = tensor(2, 3, width), tensor(2, 4, width)
    mask = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1)
    out = layer(x, context, tgt_mask=mask)
    inputs = {"x": x, "context": context} | attention_inputs("t.attention", layer.self_attn, width)
    inputs |= attention_inputs("t.cross", layer.multihead_attn, width)
    inputs |= linear("t.up", layer.linear1) | linear("t.down", layer.linear2)
    for k, norm in enumerate(norms):
        inputs |= {f"t.norm{k + 1}.gamma": norm.weight, f"t.norm{k + 1}.beta": norm.bias}
    save(name, inputs, out)


@case
def decoder_pre_norm():
    decoder("decoder_pre_norm", True)


@case
def decoder_post_norm():
    decoder("decoder_post_norm", False)


@case
def moe():
    experts, top, width, hidden = 4, 2, 5, 6
    x, gate = tensor(2, 3, width), tensor(width, experts)
    up, up_b = tensor(experts, width, hidden), tensor(experts, 1, hidden)
    down, down_b = tensor(experts, hidden, width), tensor(experts, 1, width)
    tokens = x.reshape(-1, width)
    logits = tokens @ gate
    rows, counts = [], torch.zeros(experts)
    for token, l in zip(tokens, logits):
        values, chosen = l.topk(top)
        weights = values.softmax(-1)
        y = 0
        for w, e in zip(weights, chosen):
            counts[e] += 1
            y = y + w * (F.gelu(token @ up[e] + up_b[e, 0]) @ down[e] + down_b[e, 0])
        rows.append(y)
    balance = experts * (counts / counts.sum() * logits.softmax(-1).mean(0)).sum()
    out = torch.cat((torch.stack(rows).flatten(), balance[None]))
    save("moe", {"x": x, "m.gate.w": gate, "m.up.w": up, "m.up.b": up_b, "m.down.w": down, "m.down.b": down_b}, out)


@case
def mamba():
    n, steps, width, inner, states, kernel, rank = 2, 5, 4, 6, 3, 3, 2
    x, w_in, w_out = tensor(n, steps, width), tensor(width, 2 * inner), tensor(inner, width)
    conv, conv_b = tensor(inner, 1, kernel), tensor(inner)
    select, step, step_b = tensor(inner, rank + 2 * states), tensor(rank, inner), tensor(inner)
    a, d = tensor(inner, states), tensor(inner)
    u, z = (x @ w_in).split(inner, -1)
    u = F.silu(F.conv1d(F.pad(u.transpose(1, 2), (kernel - 1, 0)), conv, conv_b, groups=inner)).transpose(1, 2)
    delta, b, c = (u @ select).split((rank, states, states), -1)
    delta = F.softplus(delta @ step + step_b)
    rates = -a.exp() * torch.arange(1, states + 1)
    h, ys = torch.zeros(n, inner, states), []
    for t in range(steps):
        h = (delta[:, t, :, None] * rates).exp() * h + (delta[:, t] * u[:, t])[:, :, None] * b[:, t, None, :]
        ys.append((h * c[:, t, None, :]).sum(-1))
    out = ((torch.stack(ys, 1) + u * d) * F.silu(z)) @ w_out
    save("mamba", {"x": x, "m.in.w": w_in, "m.out.w": w_out, "m.conv.w": conv, "m.conv.b": conv_b, "m.select.w": select,
                   "m.step.w": step, "m.step.b": step_b, "m.a": a, "m.d": d}, out)


@case
def gpt():
    width, heads, vocabulary, layers = 8, 2, 11, 2
    hidden, d = 2 * width, width // heads
    words = torch.randint(0, vocabulary, (2, 5), dtype=torch.int32)
    table = nn.Embedding(vocabulary, width)
    norm, head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, vocabulary, bias=False)
    inputs = {"words": words, "g.tokens.table": table.weight, "g.norm.gamma": norm.weight,
              "g.head.w": transposed(head.weight)}
    x = table(words)
    for k in range(layers):
        parts = {part: nn.Linear(*sizes, bias=False) for part, sizes in
                 {"attention.q": (width, width), "attention.k": (width, width), "attention.v": (width, width),
                  "attention.o": (width, width), "gate": (width, hidden), "up": (width, hidden),
                  "down": (hidden, width)}.items()}
        norms = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        randomise(*norms)
        y = norms[0](x)
        q, k_, v = (parts["attention." + part](y).view(2, 5, heads, d) for part in "qkv")
        q, k_ = rotate(q, 0, 10000.0), rotate(k_, 0, 10000.0)
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k_, v)), is_causal=True)
        x = x + parts["attention.o"](y.transpose(1, 2).reshape(2, 5, width))
        y = norms[1](x)
        x = x + parts["down"](F.silu(parts["gate"](y)) * parts["up"](y))
        inputs |= {f"g.block{k}.{part}.w": transposed(layer.weight) for part, layer in parts.items()}
        inputs |= {f"g.block{k}.norm{i + 1}.gamma": n.weight for i, n in enumerate(norms)}
    save("gpt", inputs, head(norm(x)))


# ---- Linear layers ----

@case
def mlp():
    layers = nn.Linear(3, 5), nn.Linear(5, 4), nn.Linear(4, 2)
    x = tensor(2, 4, 3)
    inputs = {"x": x}
    for k, layer in enumerate(layers):
        inputs |= linear(f"n.{k}", layer)
    save("mlp", inputs, layers[2](F.gelu(layers[1](F.gelu(layers[0](x))))))


@case
def embedding():
    table, project = nn.Embedding(7, 4), nn.Linear(4, 3, bias=False)
    words = torch.tensor([[0, 6, 3], [3, 3, 1]], dtype=torch.int32)
    save("embedding", {"words": words, "e.table": table.weight, "p.w": transposed(project.weight)},
         project(table(words)))


# ---- Losses ----

def loss(name, function, **inputs):
    save(name, inputs, function(*inputs.values()))


@case
def nll():
    loss("nll", lambda x, labels: F.nll_loss(x, labels.long()), x=tensor(3, 5),
         labels=torch.tensor([4, 0, 2], dtype=torch.int32))


@case
def focal():
    def focal_loss(x, t, alpha=0.25, gamma=3.0):
        p = x.sigmoid()
        p_t = p * t + (1 - p) * (1 - t)
        entropy = F.binary_cross_entropy_with_logits(x, t, reduction="none")
        return ((alpha * t + (1 - alpha) * (1 - t)) * (1 - p_t) ** gamma * entropy).mean()
    loss("focal", focal_loss, x=tensor(3, 4), target=torch.randint(0, 2, (3, 4)).double())


@case
def dice():
    def dice_loss(x, t):
        return (1 - (2 * (x * t).sum((1, 2)) + 0.5) / (x.sum((1, 2)) + t.sum((1, 2)) + 0.5)).mean()
    x = torch.rand(3, 4, 2).requires_grad_()
    loss("dice", dice_loss, x=x, target=torch.randint(0, 2, (3, 4, 2)).double())


@case
def hinge():
    loss("hinge", lambda x, t: (1 - x * t).clamp(min=0).mean(), x=tensor(3, 4),
         target=torch.randint(0, 2, (3, 4)).double() * 2 - 1)


@case
def cosine():
    loss("cosine", lambda x, t: F.cosine_embedding_loss(x, t, torch.ones(3)), x=tensor(3, 4), target=tensor(3, 4))


@case
def triplet():
    loss("triplet", lambda x, p, q: F.triplet_margin_loss(x, p, q, margin=0.7), x=tensor(4, 3), positive=tensor(4, 3),
         negative=tensor(4, 3))


@case
def contrastive():
    def info_nce(x, b):
        return F.cross_entropy(F.normalize(x) @ F.normalize(b).T / 0.2, torch.arange(4))
    loss("contrastive", info_nce, x=tensor(4, 3), target=tensor(4, 3))


@case
def gaussian_nll():
    var = (torch.rand(3, 4) + 0.5).requires_grad_()
    loss("gaussian_nll", lambda x, t, v: F.gaussian_nll_loss(x, t, v), x=tensor(3, 4), target=torch.randn(3, 4), var=var)


@case
def poisson_nll():
    loss("poisson_nll", lambda x, t: F.poisson_nll_loss(x, t), x=tensor(3, 4),
         target=torch.randint(0, 5, (3, 4)).double())


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    for function in CASES:
        torch.manual_seed(zlib.crc32(function.__name__.encode()))
        function()


if __name__ == "__main__":
    main()
