# SPDX-License-Identifier: Apache-2.0
"""Models that PyTorch exports, with random weights, against ONNX Runtime and PyTorch: forward and gradients.

    python3 onnx_models.py FLX [NAME...]     all models, or those with these names

Each model is exported as ONNX, run by `flx run` on both devices, and compared with ONNX Runtime; the gradients of its
output, weighted at random, with respect to the input and all parameters that keep their names are compared with
PyTorch. Needs torch, onnx and onnxruntime."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A residual block of ResNet."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.a = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.na = nn.BatchNorm2d(outputs)
        self.b = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.nb = nn.BatchNorm2d(outputs)
        self.skip = None
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.nb(self.b(F.relu(self.na(self.a(x)))))
        return F.relu(y + (x if self.skip is None else self.skip(x)))


def resnet18():
    layers = [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2), (128, 2)):
        layers += [Block(width, outputs, stride), Block(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)), (torch.randn(2, 3, 64, 64),)


class Inverted(nn.Module):
    """An inverted residual of MobileNet."""

    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        h = inputs * expand
        self.body = nn.Sequential(
            nn.Conv2d(inputs, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU6(),
            nn.Conv2d(h, h, 3, stride, 1, groups=h, bias=False), nn.BatchNorm2d(h), nn.Hardswish(),
            nn.Conv2d(h, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet():
    layers = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()]
    width = 8
    for outputs, stride in ((8, 1), (16, 2), (16, 1), (24, 2), (24, 1)):
        layers.append(Inverted(width, outputs, stride, 4))
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)), (torch.randn(2, 3, 48, 48),)


class ViT(nn.Module):
    def __init__(self, width=32, patch=8, heads=4, depth=2):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.position = nn.Parameter(torch.randn(1, 17, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.encoder(x)[:, 0])


class Bert(nn.Module):
    def __init__(self, width=32, heads=4, depth=2):
        super().__init__()
        self.words = nn.Embedding(100, width)
        self.positions = nn.Embedding(16, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.pool = nn.Linear(width, width)

    def forward(self, tokens):
        at = torch.arange(tokens.shape[1])
        x = self.norm(self.words(tokens) + self.positions(at))
        return torch.tanh(self.pool(self.encoder(x)[:, 0]))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(self.n1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, width=32, heads=4, depth=2):
        super().__init__()
        self.words, self.positions = nn.Embedding(100, width), nn.Embedding(16, width)
        self.blocks = nn.Sequential(*[GptBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 100, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(8, 12, batch_first=True, **options)
        self.head = nn.Linear(24 if options.get("bidirectional") else 12, 4)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class UNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        pair = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.GroupNorm(2, b), nn.SiLU(),
                                          nn.Conv2d(b, b, 3, 1, 1), nn.InstanceNorm2d(b, affine=True), nn.LeakyReLU(0.1))
        self.a, self.b, self.c = pair(3, w), pair(w, 2 * w), pair(4 * w, 2 * w)
        self.mid = pair(2 * w, 2 * w)
        self.up = nn.ConvTranspose2d(2 * w, 2 * w, 2, 2)
        self.d = pair(3 * w, w)
        self.out = nn.Conv2d(w, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        m = self.mid(F.avg_pool2d(b, 2))
        y = self.c(torch.cat([self.up(m), b], 1))
        y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(self.d(torch.cat([y, a], 1)))


class DenseNet(nn.Module):
    def __init__(self, width=8, growth=6, layers=3):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 1, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(width + i * growth), nn.ReLU(), nn.Conv2d(width + i * growth, growth, 3, 1, 1))
            for i in range(layers))
        self.head = nn.Linear(width + layers * growth, 10)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.head(F.avg_pool2d(x, x.shape[-1]).flatten(1))


class Squeeze(nn.Module):
    """A depthwise convolution of EfficientNet whose channels are weighted by their means."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 5, 1, 2, groups=width)
        self.less, self.more = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        y = F.silu(self.conv(x))
        return x + y * torch.sigmoid(self.more(F.silu(self.less(y.mean((2, 3), keepdim=True)))))


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class MixerBlock(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        mlp = lambda n: nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across, self.within = mlp(patches), mlp(width)

    def forward(self, x):
        x = x + self.across(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.n2(x))


class RootMeanSquare(nn.Module):
    """nn.RMSNorm, which the older exporter does not know."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class LlamaBlock(nn.Module):
    """Rotary positions, groups of heads that share keys, root mean square norms, a gated network."""

    def __init__(self, width=32, heads=4, shared=2):
        super().__init__()
        self.heads, self.shared, self.d = heads, shared, width // heads
        self.n1, self.n2 = RootMeanSquare(width), RootMeanSquare(width)
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, shared * self.d, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def turn(self, x):
        at = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(0, self.d, 2) / self.d)
        a, b = x.chunk(2, -1)
        return torch.cat([a * at.cos() - b * at.sin(), b * at.cos() + a * at.sin()], -1)

    def forward(self, x):
        b, t, c = x.shape
        y = self.n1(x)
        q = self.turn(self.q(y).view(b, t, self.heads, self.d).transpose(1, 2))
        k, v = (m(y).view(b, t, self.shared, self.d).transpose(1, 2) for m in (self.k, self.v))
        k, v = (z.repeat_interleave(self.heads // self.shared, 1) for z in (self.turn(k), v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(100, width)
        self.blocks = nn.Sequential(LlamaBlock(width), LlamaBlock(width))
        self.norm = RootMeanSquare(width)
        self.head = nn.Linear(width, 100, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.words(tokens))))


class Translator(nn.Module):
    """An encoder and a decoder that attends to it; both read the same tokens."""

    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(100, width)
        self.pair = nn.Transformer(width, 4, 1, 2, 64, 0.0, batch_first=True)
        self.head = nn.Linear(width, 100)

    def forward(self, tokens):
        x = self.words(tokens)
        mask = torch.triu(torch.full((tokens.shape[1], tokens.shape[1]), float("-inf")), 1)
        return self.head(self.pair(x, x.flip(1), tgt_mask=mask, tgt_is_causal=True))


class AutoEncoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(),
                                  nn.Conv2d(width, 2 * width, 4, 2, 1), nn.Tanh())
        self.mean, self.spread = nn.Linear(2 * width * 16, 6), nn.Linear(2 * width * 16, 6)
        self.back = nn.Linear(6, 2 * width * 16)
        self.up = nn.Sequential(nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ELU(),
                                nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Sigmoid())

    def forward(self, x):
        y = self.down(x)
        code = self.mean(y.flatten(1)) + torch.exp(0.5 * self.spread(y.flatten(1)))
        return self.up(self.back(code).view(y.shape))


def images(n):
    return torch.randn(2, 3, n, n)


def tokens():
    return torch.randint(0, 100, (2, 12))


MODELS = {
    "resnet18": resnet18,
    "mobilenet": mobilenet,
    "vit": lambda: (ViT(), (images(32),)),
    "bert": lambda: (Bert(), (tokens(),)),
    "gpt2": lambda: (Gpt2(), (tokens(),)),
    "lstm": lambda: (Recurrent(nn.LSTM, num_layers=2), (torch.randn(3, 7, 8),)),
    "bilstm": lambda: (Recurrent(nn.LSTM, bidirectional=True), (torch.randn(3, 7, 8),)),
    "gru": lambda: (Recurrent(nn.GRU), (torch.randn(3, 7, 8),)),
    "rnn": lambda: (Recurrent(nn.RNN), (torch.randn(3, 7, 8),)),
    "unet": lambda: (UNet(), (images(16),)),
    "mlp": lambda: (nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.ELU(), nn.Linear(8, 3),
                                  nn.LogSoftmax(-1)), (torch.randn(5, 6),)),
    "conv1d": lambda: (nn.Sequential(nn.Conv1d(4, 8, 3, dilation=2, padding="same"), nn.PReLU(8), nn.AvgPool1d(2),
                                     nn.Conv1d(8, 8, 3, groups=4), nn.Softplus(), nn.Flatten(), nn.LazyLinear(3)),
                       (torch.randn(2, 4, 20),)),
    "conv3d": lambda: (nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.MaxPool3d(2), nn.Mish(),
                                     nn.ConvTranspose3d(4, 2, 2, 2)), (torch.randn(1, 2, 8, 8, 8),)),
    "densenet": lambda: (DenseNet(), (images(8),)),
    "squeeze": lambda: (nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), Squeeze(16), Squeeze(16)), (images(16),)),
    "convnext": lambda: (nn.Sequential(nn.Conv2d(3, 16, 4, 4), ConvNextBlock(16), ConvNextBlock(16)), (images(32),)),
    "mixer": lambda: (nn.Sequential(nn.Conv2d(3, 16, 8, 8), nn.Flatten(2), MixerBlock(16, 16), MixerBlock(16, 16)),
                      (images(32),)),
    "llama": lambda: (Llama(), (tokens(),)),
    "translator": lambda: (Translator(), (tokens(),)),
    "autoenc": lambda: (AutoEncoder(), (images(16),)),
}


def run_flx(flx, path, folder, device, extra=()):
    out = os.path.join(folder, "out." + device)
    os.makedirs(out, exist_ok=True)
    given = [f"--in={n}={os.path.join(folder, n)}.npy" for n in extra]
    subprocess.run([flx, "run", path, "--device", device, "--out", out, *given], check=True, stdout=subprocess.DEVNULL)
    return {f[:-4]: np.load(os.path.join(out, f)) for f in os.listdir(out)}


def ours(name):
    return "_" + name if name[0].isdigit() else name


def worst(a, b, least=1e-6):
    scale = max(np.abs(b).max(), least)
    return float(np.abs(a.astype(np.float64) - b).max() / scale)


def check(flx, name, dynamo):
    torch.manual_seed(0)
    model, args = MODELS[name]()
    model.eval()
    model(*args)
    for q in model.parameters():  # exporters merge initialisers that are equal
        q.data += 0.02 * torch.randn_like(q)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        plain = os.path.join(folder, "plain.onnx")  # norms are not folded into convolutions: parameters are those of torch
        options = {"input_names": ["x"], "output_names": ["y"], "dynamo": dynamo, "verbose": False}
        torch.onnx.export(model, args, path, **options)
        if dynamo:
            torch.onnx.export(model, args, plain, optimize=False, **options)
        else:
            torch.onnx.export(model, args, plain, do_constant_folding=False,
                              training=torch.onnx.TrainingMode.PRESERVE, **options)
        x = args[0].numpy()
        np.save(os.path.join(folder, "x.npy"), x)
        wanted = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
        args[0].requires_grad_(args[0].is_floating_point())
        errors = [worst(run_flx(flx, path, folder, d, ("x",))["y"], wanted) for d in ("ref", "cpu")]
        y = model(*args)
        seed = torch.randn_like(y)
        y.backward(seed)
        np.save(os.path.join(folder, "d_output.npy"), seed.numpy())
        by_name = {ours(n): q.grad.numpy() for n, q in model.named_parameters() if q.grad is not None}
        listed = {ours(i.name) for i in onnx.load(plain).graph.initializer}
        wrt = [n for n in by_name if n in listed]
        if args[0].requires_grad:
            by_name["x"] = args[0].grad.numpy()
            wrt.append("x")
        subprocess.run([flx, "import", plain, "-o", os.path.join(folder, "m.flx")], check=True)
        subprocess.run([flx, "grad", os.path.join(folder, "m.flx"), "--seed", "input", "--wrt", ",".join(wrt), "-o",
                        os.path.join(folder, "g.flx")], check=True)
        os.rename(os.path.join(folder, "m.safetensors"), os.path.join(folder, "g.safetensors"))
        got = run_flx(flx, os.path.join(folder, "g.flx"), folder, "cpu", ("x", "d_output"))
        largest = max(np.abs(by_name[n]).max() for n in wrt)  # a bias before a norm has gradient 0
        grads = [worst(got["d_" + n], by_name[n], 1e-2 * largest) for n in wrt]
    print(f"{name:10} {'dynamo' if dynamo else 'script'}  ref {errors[0]:.1e}  cpu {errors[1]:.1e}  gradients "
          f"{max(grads, default=0):.1e} ({len(wrt)} of {len(by_name)} tensors)", flush=True)
    return max(errors) < 1e-4 and max(grads, default=0) < 1e-3


def main():
    flx, names = sys.argv[1], sys.argv[2:] or list(MODELS)
    failed = 0
    for name in names:
        for dynamo in (True, False):
            try:
                failed += not check(flx, name, dynamo)
            except Exception as e:  # the others still run
                failed += 1
                print(f"{name:10} {'dynamo' if dynamo else 'script'}  FAILED {type(e).__name__}: {str(e)[:300]}", flush=True)
    print(f"{2 * len(names) - failed} agree, {failed} do not")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
