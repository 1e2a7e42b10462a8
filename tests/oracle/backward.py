# SPDX-License-Identifier: Apache-2.0
"""Cotangents of small ops against PyTorch's autograd in float64."""
import numpy as np
import torch
from torch.nn import functional as F

from norm import FLOATS, narrow, wide
from oracle import Fixtures

CLOSE = {"f64": 32, "f32": 16, "f16": 6, "bf16": 6}  # every step of a derivative rounds to the narrow type
KINDS = {
    "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "silu": F.silu, "gelu": F.gelu,
    "gelu_approx": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus, "selu": F.selu,
    "hard_swish": F.hardswish,
    "mish": F.mish, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "neg": torch.neg,
    "abs": torch.abs, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "atan": torch.atan, "round": torch.round,
    "erf": torch.erf, "sign": torch.sign, "log1p": torch.log1p, "lgamma": torch.lgamma, "asinh": torch.asinh}
POSITIVE = ("log", "sqrt", "rsqrt", "lgamma")


def activations(f):
    for dtype in FLOATS:
        x, dy = f.normal(dtype, (6,)), f.normal(dtype, (6,))
        x = np.where(np.abs(x) < 0.1, x + x.dtype.type(0.5), x)  # away from kinks
        for kind, fn in KINDS.items():
            at = np.abs(x) if kind in POSITIVE else x / x.dtype.type(4) if kind in ("tan", "log1p") else x
            operand = wide(at)
            grad, = torch.autograd.grad(fn(operand), operand, wide(dy))
            f.case(f"activation_{kind}_{dtype}", f"activation_backward(x, dy, kind={kind})", {"x": at, "dy": dy},
                   [narrow(grad, dtype)], rel=CLOSE[dtype])
        operand = wide(x)
        grad, = torch.autograd.grad(torch.relu(operand), operand, wide(dy))
        f.case(f"relu_{dtype}", "relu_backward(x, dy)", {"x": x, "dy": dy}, [narrow(grad, dtype)])
    kinks = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0])
    f.case("relu_at_zero", "relu_backward(x, dy)", {"x": kinks, "dy": np.array([np.inf, np.nan, 1, 2, 3, 4.0])},
           [np.array([0.0, 0, 0, 2, 0, 4])])


def sums(f):
    for dtype in FLOATS:
        dy = f.normal(dtype, (3, 4))
        for axis in (0, 1):
            for exclusive in (False, True):
                x = wide(np.zeros((3, 4)))
                y = torch.cumsum(x, axis)
                y = y - x if exclusive else y
                grad, = torch.autograd.grad(y, x, wide(dy))
                f.case(f"cumsum_{dtype}", f"cumsum_backward(dy, axis={axis}, exclusive={str(exclusive).lower()})",
                       {"dy": dy}, [narrow(grad, dtype)], rel={"f64": 8, "f32": 8}.get(dtype, 1))


def gathers(f):
    index = np.array([2, 0, 2, 2, 1], np.int32)
    for dtype in FLOATS:
        dy = f.normal(dtype, (5, 3))
        table = wide(np.zeros((4, 3)))
        grad, = torch.autograd.grad(table[torch.tensor(index.astype(np.int64))], table, wide(dy))
        f.case(f"gather_{dtype}", "gather_backward(dy, i, shape=[4, 3])", {"dy": dy, "i": index}, [narrow(grad, dtype)],
               rel=2)
        dy = f.normal(dtype, (2, 2, 5))
        table = wide(np.zeros((2, 3, 5)))
        picked = torch.index_select(table, 1, torch.tensor([2, 2]))
        grad, = torch.autograd.grad(picked, table, wide(dy))
        f.case(f"gather_axis_{dtype}", "gather_backward(dy, i, shape=[2, 3, 5], axis=1)",
               {"dy": dy, "i": np.array([2, 2], np.int64)}, [narrow(grad, dtype)], rel=2)


def complex_parts(f):
    for dtype, part in (("c64", "f32"), ("c128", "f64")):
        z, g = f.normal(dtype, (4,)), f.normal(part, (4,))
        point = torch.tensor(z.astype(np.complex128), requires_grad=True)
        grad, = torch.autograd.grad((point.real**2 + point.imag**2), point, wide(g))
        f.case(f"complex_norm_sq_{dtype}", "complex_norm_sq_backward(z, g)", {"z": z, "g": g},
               [grad.numpy().astype(z.dtype)], rel=4)


def scans(f):
    f.graphs("graph step(c: f64[2], x: f64[2]) { return tanh(add(mul(c, x), x)) }\n"
             "graph back(c: f64[2], x: f64[2], d: f64[2]) {\n"
             "  y = tanh(add(mul(c, x), x))\n  g = mul(d, sub(1, square(y)))\n"
             "  return mul(g, x), mul(g, add(c, 1))\n}\n")
    for trajectory in (False, True):
        for reverse in (False, True):
            c0, xs = f.normal("f64", (2,)), f.normal("f64", (4, 2)) / 4  # not where tanh saturates
            upstream = f.normal("f64", (4, 2) if trajectory else (2,))
            init, rows = wide(c0), wide(xs)
            kept, c = [None] * 4, init
            for t in (reversed(range(4)) if reverse else range(4)):
                c = torch.tanh(c * rows[t] + rows[t])
                kept[t] = c
            y = torch.stack(kept) if trajectory else c
            grads = torch.autograd.grad(y, (init, rows), wide(upstream))
            ins = {"c": c0, "t": torch.stack(kept).detach().numpy(), "u": upstream, "x": xs}
            attrs = (f"body=@step, body_vjp=@back, reverse={str(reverse).lower()}, "
                     f"save_trajectory={str(trajectory).lower()}")
            f.case("scan_start", f"scan_backward(c, t, u, x, {attrs})", ins, [grads[0].numpy()], rel=16)
            f.case("scan_rows", f"scan_backward_xs(c, t, u, x, {attrs}, i=0)", ins, [grads[1].numpy()], rel=16)


if __name__ == "__main__":
    with Fixtures("backward") as fixtures:
        activations(fixtures)
        sums(fixtures)
        gathers(fixtures)
        complex_parts(fixtures)
        scans(fixtures)
