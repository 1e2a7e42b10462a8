# SPDX-License-Identifier: Apache-2.0
"""Normalisation and its backward ops. Expected values are PyTorch's in float64 (NumPy's for rms_norm; gradients by
autograd), rounded once. The library computes f16 and bf16 in f32, and sums f32 in f32, so narrow results differ by a
unit in the last place of the largest element, f32 and f64 by the rounding of a dozen operations."""
import numpy as np
import torch
from torch.nn import functional as F

from oracle import DTYPES, Fixtures

FLOATS = ["f64", "f32", "f16", "bf16"]
CLOSE = {"f64": 32, "f32": 32, "f16": 1, "bf16": 1}


def wide(x):
    return torch.tensor(np.asarray(x).astype(np.float64), requires_grad=True)


def narrow(y, dtype):
    return y.detach().numpy().astype(DTYPES[dtype])


def layer(x, gamma, beta, axis, eps):
    moved = F.layer_norm(x.movedim(axis, -1), (x.shape[axis],), gamma, beta, eps)
    return moved.movedim(-1, axis)


def rms(x, gamma, beta, axis, eps):
    shape = [1] * x.dim()
    shape[axis] = -1
    r = 1 / torch.sqrt((x**2).mean(axis, keepdim=True) + eps)
    return x * r * gamma.reshape(shape) + beta.reshape(shape)


def drawn(f, dtype, wider, shape, channels):
    """x and dy in one dtype, gamma and beta in one as wide or wider."""
    return (f.normal(dtype, shape), f.normal(wider, (channels,)), f.normal(wider, (channels,)), f.normal(dtype, shape))


def norm_case(f, name, fn, attrs, dtypes, shape, channels, backward):
    """Forward, and the backward ops as `part: (operands, the operand of fn it is the cotangent of)`."""
    dtype, wider = dtypes
    x, gamma, beta, dy = drawn(f, dtype, wider, shape, channels)
    values = {"x": x, "gamma": gamma, "beta": beta, "dy": dy}
    ins = [wide(x), wide(gamma), wide(beta)]
    y = fn(*ins)
    grads = torch.autograd.grad(y, ins, wide(dy))
    tag = f"{name}_{dtype}" + (f"_{wider}" if wider != dtype else "")
    f.case(tag, f"{name}(x, gamma, beta, {attrs})", {k: values[k] for k in ("x", "gamma", "beta")}, [narrow(y, dtype)],
           rel=CLOSE[dtype])
    for part, (operands, of) in backward.items():
        own = {k: values[k] for k in operands}
        to = dtype if of == 0 or "gamma" not in operands else wider
        f.case(f"{tag}_{part}", f"{name}_backward_{part}({', '.join(operands)}, {attrs})", own, [narrow(grads[of], to)],
               rel=CLOSE[to])


LAYER = {"input": (("x", "gamma", "dy"), 0), "gamma": (("x", "dy"), 1)}
RMS = {part: (("x", "gamma", "beta", "dy"), k) for k, part in enumerate(("input", "gamma", "beta"))}
GROUP = {"input": (("x", "gamma", "beta", "dy"), 0), "gamma": (("x", "dy"), 1), "beta": (("x", "dy"), 2)}


def rows_and_groups(f):
    for dtypes in [(d, d) for d in FLOATS] + [("f16", "f32"), ("bf16", "f32")]:
        for shape, axis, eps in (((3, 8), -1, 1e-5), ((2, 5, 3), 1, 1e-3)):
            attrs = f"axis={axis}, eps={eps}"
            norm_case(f, "layer_norm", lambda x, g, b: layer(x, g, b, axis, eps), attrs, dtypes, shape, shape[axis],
                      LAYER)
            norm_case(f, "rms_norm", lambda x, g, b: rms(x, g, b, axis, eps), attrs, dtypes, shape, shape[axis], RMS)
        for shape, groups in (((2, 6, 3), 3), ((2, 4, 2, 2), 1)):
            norm_case(f, "group_norm", lambda x, g, b: F.group_norm(x, groups, g, b, 1e-5),
                      f"num_groups={groups}, eps=1e-5", dtypes, shape, shape[1], GROUP)
        x, gamma, beta, _ = drawn(f, *dtypes, (2, 5, 2, 2), 5)
        f.case(f"layer_norm2d_{'_'.join(dtypes)}", "layer_norm2d(x, gamma, beta)",
               {"x": x, "gamma": gamma, "beta": beta},
               [narrow(layer(wide(x), wide(gamma), wide(beta), 1, 1e-5), dtypes[0])], rel=CLOSE[dtypes[0]])


def batches(f):
    for dtype, wider in [(d, d) for d in FLOATS] + [("bf16", "f32")]:
        x, gamma, beta, dy = drawn(f, dtype, wider, (3, 4, 2), 4)
        mean, var = f.normal(wider, (4,)), np.abs(f.normal(wider, (4,))) + DTYPES[wider].type(0.5)
        ins = [wide(v) for v in (x, gamma, beta, mean, var)]
        shaped = [v.reshape(4, 1) for v in ins[1:]]
        y = shaped[0] * (ins[0] - shaped[2]) / torch.sqrt(shaped[3] + 1e-5) + shaped[1]
        torch.testing.assert_close(y, F.batch_norm(ins[0], ins[3].detach(), ins[4].detach(), ins[1], ins[2], False, 0.1,
                                                   1e-5))
        grads = torch.autograd.grad(y, ins, wide(dy))
        named = {"x": x, "gamma": gamma, "beta": beta, "mean": mean, "var": var, "dy": dy}
        tag = f"{dtype}_{wider}"
        for part, operands, to, expected in (("", "x gamma beta mean var", dtype, y),
                                             ("_backward_input", "x gamma mean var dy", dtype, grads[0]),
                                             ("_backward_gamma", "x mean var dy", dtype, grads[1]),
                                             ("_backward_beta", "dy", dtype, grads[2])):
            f.case(f"batch_norm_inference{part}_{tag}", f"batch_norm_inference{part}({', '.join(operands.split())})",
                   {k: named[k] for k in operands.split()}, [narrow(expected, to)], rel=CLOSE[to])
        running = [torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)]
        y = F.batch_norm(ins[0], *running, ins[1], ins[2], True, 1.0, 1e-5)
        biased = running[1] * (6 - 1) / 6  # PyTorch keeps the unbiased one
        f.case(f"batch_norm_training_{tag}", "batch_norm_training(x, gamma, beta)",
               {"x": x, "gamma": gamma, "beta": beta},
               [narrow(y, dtype), narrow(running[0], wider), narrow(biased, wider)],
               rel=max(CLOSE[dtype], CLOSE[wider]))


def degenerate(f):
    constant = np.full((2, 3), 7.25)
    one, zero = np.ones(3), np.zeros(3)
    f.case("layer_norm_of_equal_elements", "layer_norm(x, gamma, beta)",
           {"x": constant, "gamma": one, "beta": zero + 2}, [np.full((2, 3), 2.0)])
    f.case("rms_norm_of_zeros", "rms_norm(x, gamma)", {"x": np.zeros((2, 3)), "gamma": one}, [np.zeros((2, 3))])
    f.case("layer_norm_of_one_element", "layer_norm(x, gamma, beta)", {"x": constant[:, :1], "gamma": one[:1] + 4,
           "beta": one[:1]}, [np.ones((2, 1))])
    # d_x of equal elements: r (h - mean h), r = 1 / sqrt(eps)
    dy = np.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]])
    f.case("layer_norm_backward_input_of_equal_elements", "layer_norm_backward_input(x, gamma, dy, eps=0.25)",
           {"x": constant, "gamma": one, "dy": dy}, [2 * (dy - dy.mean(1, keepdims=True))], ulp=2)


if __name__ == "__main__":
    with Fixtures("norm") as fixtures:
        rows_and_groups(fixtures)
        batches(fixtures)
        degenerate(fixtures)
