# SPDX-License-Identifier: Apache-2.0
"""Fifty training steps of four small models with every optimiser by PyTorch, in f64 and in f32: the loss of each step,
and the running statistics after the last one.

fixtures/train/curves.npz holds, by names in the layout of fluxion/nn.h,
  <model>.<parameter>                       the initial parameters, f32 numbers that both dtypes begin with
  <model>.<input>                           [batches, ...]: step k takes batch k % batches
  <model>.<setting>.<dtype>                 the losses
  <model>.<setting>.<dtype>.<state>         the running statistics at the end
tests/train/curves.c has the same models and settings. Where PyTorch has more than one way to say the same, the one that
has our definition is used, with a comment.
"""
import pathlib
import zlib

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.optim import _muon, lr_scheduler as rates

HERE = pathlib.Path(__file__).parent / "fixtures" / "train"
STEPS, BATCHES = 50, 4
DTYPES = {"f64": torch.float64, "f32": torch.float32}


def linear(name, layer):
    """Ours is [in, out]."""
    return {name + ".w": layer.weight.T, name + ".b": layer.bias}


def norm(name, layer):
    return {name + ".gamma": layer.weight, name + ".beta": layer.bias}


# ---- Models: parameters by our names, as views of PyTorch's; data; the loss of a batch ----

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 16), nn.Linear(16, 12), nn.Linear(12, 4)])

    def names(self):
        return {k: v for i, layer in enumerate(self.layers) for k, v in linear(f"net.{i}", layer).items()}

    @staticmethod
    def data(random):
        x = random.standard_normal((BATCHES, 16, 6))
        teacher = random.standard_normal((6, 8)), random.standard_normal((8, 4))
        return {"x": x, "label": (np.tanh(x @ teacher[0]) @ teacher[1]).argmax(-1).astype(np.int32)}

    def loss(self, x, label):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return F.cross_entropy(self.layers[-1](x), label)


class Conv(nn.Module):
    """The convolutions have no bias: its gradient is zero except for rounding, since a batch norm follows."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.norm2 = nn.Conv2d(4, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 3)

    def names(self):
        return ({"conv1.w": self.conv1.weight, "conv2.w": self.conv2.weight} | norm("norm1", self.norm1) |
                norm("norm2", self.norm2) | linear("head", self.head))

    @staticmethod
    def data(random):
        label = random.integers(0, 3, (BATCHES, 8)).astype(np.int32)
        x = random.standard_normal((BATCHES, 8, 1, 8, 8)) + 3  # not centred, so that the running means move
        rows = np.arange(8) // 3
        x += 0.7 * (rows[:, None] == label[:, :, None, None, None])
        return {"x": x, "label": label}

    def loss(self, x, label):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.relu(self.norm2(self.conv2(x))).mean((2, 3))
        return F.cross_entropy(self.head(x), label)

    def states(self):
        return {f"{n}.{ours}": getattr(getattr(self, n), "running_" + ours)
                for n in ("norm1", "norm2") for ours in ("mean", "var")}


class Lstm(nn.Module):
    """PyTorch adds two biases with the same gradient, so that their sum would move twice as fast: only one is trained,
    and the other one is zero."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 8, batch_first=True), nn.Linear(8, 1)
        self.lstm.bias_hh_l0.data.zero_()
        self.lstm.bias_hh_l0.requires_grad_(False)

    def names(self):
        return {"lstm.w": self.lstm.weight_ih_l0.T, "lstm.u": self.lstm.weight_hh_l0.T,
                "lstm.b": self.lstm.bias_ih_l0} | linear("head", self.head)

    @staticmethod
    def data(random):
        x = random.standard_normal((BATCHES, 6, 7, 3))
        return {"x": x, "target": np.tanh(np.cumsum(x[..., :1] * x[..., 1:2], axis=2))}

    def loss(self, x, target):
        return F.mse_loss(self.head(self.lstm(x)[0]), target)


class Block(nn.Module):
    """nn.TransformerEncoderLayer with norm_first, but with the weights of queries, keys and values apart: optimisers
    that look at whole tensors, such as LAMB, would see one matrix there and three here."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def names(self, at):
        names = {}
        for part in ("attention.q", "attention.k", "attention.v", "attention.o", "up", "down"):
            names |= linear(f"{at}.{part}", getattr(self, part.split(".")[-1]))
        return names | norm(at + ".norm1", self.norm1) | norm(at + ".norm2", self.norm2)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        x = x + self.o(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    WORDS, TOKENS, WIDTH, LAYERS = 13, 10, 16, 2

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(self.WORDS, self.WIDTH)
        self.places = nn.Parameter(torch.zeros(self.TOKENS, self.WIDTH))
        self.layers = nn.ModuleList([Block(self.WIDTH, 2, 32) for _ in range(self.LAYERS)])
        self.norm, self.head = nn.LayerNorm(self.WIDTH), nn.Linear(self.WIDTH, self.WORDS)

    def names(self):
        names = {"words.table": self.words.weight, "places.table": self.places}
        for i, layer in enumerate(self.layers):
            names |= layer.names(f"layer{i}")
        return names | norm("norm", self.norm) | linear("head", self.head)

    @classmethod
    def data(cls, random):
        """Each word is a function of the one before, in one of two ways."""
        words = np.zeros((BATCHES, 4, cls.TOKENS + 1), np.int32)
        words[..., 0] = random.integers(0, cls.WORDS, (BATCHES, 4))
        factor = random.integers(2, 4, (BATCHES, 4))
        for t in range(cls.TOKENS):
            words[..., t + 1] = (factor * words[..., t] + 1) % cls.WORDS
        return {"words": words[..., :-1], "next": words[..., 1:]}

    def loss(self, words, next):
        x = self.words(words) + self.places
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), next.flatten())


# ---- Settings ----

class WithoutRounding:
    """The module torch for torch.optim._muon, which orthogonalises in bf16 whatever the parameter's dtype is."""

    bfloat16 = None

    def __getattr__(self, name):
        return getattr(torch, name)


def muon(is_exact, rate):
    def make(params):
        params = list(params)
        _muon.torch = torch
        if is_exact:
            _muon.torch = WithoutRounding()
            _muon.torch.bfloat16 = params[0].dtype
        # Matrices by Muon, others by AdamW, as FLX_MUON does; the default of adjust_lr_fn is another factor.
        return [optim.Muon([p for p in params if p.dim() == 2], lr=rate, adjust_lr_fn="match_rms_adamw"),
                optim.AdamW([p for p in params if p.dim() != 2], lr=rate, weight_decay=0.1)]
    return make


class Formula(optim.Optimizer):
    """What PyTorch does not have, from the paper: `update(p, g, state, t)` changes p."""

    def __init__(self, params, lr, weight_decay):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, p.grad, self.state[p], group["lr"], group["weight_decay"])


class Lion(Formula):
    """Chen et al. (2023), with the betas of the paper."""

    def update(self, p, g, s, rate, decay):
        m = s.get("m", torch.zeros_like(p))
        s["m"] = 0.99 * m + 0.01 * g
        p -= rate * decay * p + rate * torch.sign(0.9 * m + 0.1 * g)


class Lamb(Formula):
    """You et al. (2020)."""

    def update(self, p, g, s, rate, decay):
        s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
        s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
        m, v = s["m"] / (1 - 0.9**self.t), s["v"] / (1 - 0.999**self.t)
        along = m / (v.sqrt() + 1e-6) + decay * p
        p -= rate * p.norm() / along.norm() * along


class Clipped(optim.SGD):
    def step(self):
        nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 0.1)
        super().step()


def one(kind, **options):
    return lambda params: [kind(params, **options)]


class Scheduled:
    """An optimiser whose rate follows a schedule of torch.optim.lr_scheduler."""

    def __init__(self, optimiser, schedule):
        self.optimiser, self.schedule = optimiser, schedule(optimiser)

    def step(self):
        self.optimiser.step()
        self.schedule.step()


def scheduled(schedule):
    return lambda params: [Scheduled(optim.Adam(params, lr=RATE), schedule)]


def warm(steps, then):
    """(i + 1) / steps in the first steps, then another schedule, which begins with 1."""
    return lambda o: rates.SequentialLR(o, [rates.LinearLR(o, 1 / steps, 1, steps - 1), then(o)], [steps])


RATE = 0.02
SCHEDULES = {
    "linear": lambda o: rates.LinearLR(o, 1, 0.1, 40),
    "cosine_warmup": warm(8, lambda o: rates.CosineAnnealingLR(o, 42, 0.1 * RATE)),
    "staircase": lambda o: rates.StepLR(o, 15, 0.5),
    "exponential": lambda o: rates.ExponentialLR(o, 0.5 ** (1 / 15)),
    "one_cycle": lambda o: rates.OneCycleLR(o, RATE, total_steps=STEPS, pct_start=0.3, cycle_momentum=False),
    # PyTorch has no class for it: T5's and the original transformer's square root.
    "inverse_sqrt": lambda o: rates.LambdaLR(o, lambda i: min((i + 1) / 10, (10 / (i + 1)) ** 0.5)),
}


def optimisers(x):
    """Every optimiser, with x times the rates of the MLP."""
    return {
        "sgd": one(optim.SGD, lr=0.5 * x),
        "momentum": one(optim.SGD, lr=0.1 * x, momentum=0.9),
        "nesterov": one(optim.SGD, lr=0.1 * x, momentum=0.9, nesterov=True),
        "adam": one(optim.Adam, lr=0.02 * x),
        "adamw": one(optim.AdamW, lr=0.02 * x, weight_decay=0.1),
        # 0.96^(momentum_decay t) = 0: the momentum is beta1 throughout, as in ours. PyTorch's default is 0.004.
        "nadam": one(optim.NAdam, lr=0.02 * x, momentum_decay=1e6),
        "adagrad": one(optim.Adagrad, lr=0.05 * x),
        "rmsprop": one(optim.RMSprop, lr=0.01 * x),
        "lion": one(Lion, lr=0.004 * x, weight_decay=0.1),
        "adafactor": one(optim.Adafactor, lr=0.1 * x, weight_decay=0.02),
        "lamb": one(Lamb, lr=0.02 * x, weight_decay=0.1),
        "muon": muon(True, 0.02 * x),
    }


MLP_SETTINGS = optimisers(1) | {
    "adam_decay": one(optim.Adam, lr=0.02, weight_decay=0.01),
    "muon_bf16": muon(False, 0.02),
    "clip_norm": one(Clipped, lr=1.0),
} | {name: scheduled(schedule) for name, schedule in SCHEDULES.items()}
MODELS = {"mlp": (Mlp, MLP_SETTINGS), "conv": (Conv, optimisers(0.5)), "lstm": (Lstm, optimisers(1)),
          "gpt": (Gpt, optimisers(0.25))}


# ---- Training ----

def initial(random, name, shape):
    """Numbers of the usual size, and no zeros, ones or equal rows that could hide a mistake."""
    x = random.standard_normal(shape)
    if name.endswith(".w"):
        return x / np.sqrt(np.prod(shape[1:] if len(shape) == 4 else shape[:1]))
    return 1 + 0.1 * x if name.endswith(".gamma") else 0.1 * x if len(shape) == 1 else 0.5 * x


def train(kind, make, dtype, weights, data):
    torch.set_default_dtype(dtype)  # also of the counters of the optimisers
    model = kind()
    with torch.no_grad():
        for name, view in model.names().items():
            view.copy_(torch.from_numpy(weights[name]))
    optimisers = make(p for p in model.parameters() if p.requires_grad)
    batches = {name: torch.from_numpy(x) for name, x in data.items()}
    batches = {name: x.to(dtype) if x.is_floating_point() else x.long() for name, x in batches.items()}
    losses = []
    for k in range(STEPS):
        loss = model.loss(**{name: x[k % BATCHES] for name, x in batches.items()})
        model.zero_grad()
        loss.backward()
        for o in optimisers:
            o.step()
        losses.append(loss.item())
    states = {name: x.numpy() for name, x in model.states().items()} if hasattr(model, "states") else {}
    return np.array(losses, np.float64 if dtype is torch.float64 else np.float32), states


def main():
    torch.set_num_threads(1)
    arrays = {}
    for name, (kind, settings) in MODELS.items():
        random = np.random.default_rng(zlib.crc32(name.encode()))
        data = {k: x if x.dtype == np.int32 else x.astype(np.float32) for k, x in kind.data(random).items()}
        weights = {k: initial(random, k, tuple(v.shape)).astype(np.float32) for k, v in kind().names().items()}
        arrays |= {f"{name}.{k}": np.ascontiguousarray(v) for k, v in (data | weights).items()}
        for setting, make in settings.items():
            curves = {}
            for dtype, exact in DTYPES.items():
                key = f"{name}.{setting}.{dtype}"
                arrays[key], states = train(kind, make, exact, weights, data)
                arrays |= {f"{key}.{k}": v for k, v in states.items()}
                curves[dtype] = arrays[key]
            apart = np.abs(curves["f32"] / curves["f64"] - 1).max()
            print(f"{name}.{setting}: {curves['f64'][0]:.3f} to {curves['f64'][-1]:.3f}, f32 differs by {apart:.1e}")
    HERE.mkdir(parents=True, exist_ok=True)
    np.savez(HERE / "curves.npz", **arrays)


if __name__ == "__main__":
    main()
