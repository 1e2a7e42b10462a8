# SPDX-License-Identifier: Apache-2.0
"""Oracle of the conv family: XLA's convolution and its transposes (jax.vjp) in double precision, rounded once."""
import jax
import numpy as np
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
FLOATS = ["f64", "f32", "f16", "bf16"]
COMPLEX = ["c64", "c128"]
INTS = ["i32", "i8", "u8", "i64", "u16"]


def widen(x):
    return np.asarray(x).astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def narrow(y, dtype):
    """To the dtype, integers modulo 2^bits; all values here are small enough to be exact in between."""
    if dtype[0] in "iu":
        return np.rint(y).astype(np.int64).astype(DTYPES[dtype])
    return y.astype(DTYPES[dtype])


def tolerance(dtype, terms):
    """A sum of `terms` products in double: each addition rounds once. Narrower dtypes are rounded once from a wider
    sum, which can only differ where that sum is at the border between two neighbours."""
    if dtype in ("f64", "c128"):
        return {"rel": 2 * terms}
    return {"ulp": 0} if dtype[0] in "iu" else {"rel": 1}


def xla_conv(x, w, stride, padding, dilation, groups=1, input_dilation=None, batch_groups=1, axes=None):
    d = x.ndim - 2
    spec = axes or (tuple(range(d + 2)),) * 3
    return jax.lax.conv_general_dilated(
        x, w, stride, padding, lhs_dilation=input_dilation or (1,) * d, rhs_dilation=dilation,
        dimension_numbers=jax.lax.ConvDimensionNumbers(*spec), feature_group_count=groups,
        batch_group_count=batch_groups, precision=jax.lax.Precision.HIGHEST)


# name, shape of x, shape of w, stride, padding pairs, dilation, groups
CASES = [
    ("line", (1, 2, 6), (2, 2, 3), (1,), ((0, 0),), (1,), 1),
    ("strided", (2, 1, 7), (2, 1, 3), (2,), ((1, 1),), (1,), 1),
    ("dilated", (1, 1, 8), (1, 1, 3), (1,), ((0, 2),), (2,), 1),
    ("plane", (1, 1, 4, 5), (2, 1, 2, 3), (1, 2), ((1, 0), (0, 1)), (1, 1), 1),
    ("grouped", (1, 4, 4), (4, 2, 2), (1,), ((0, 0),), (1,), 2),
    ("depthwise", (1, 3, 5), (6, 1, 2), (2,), ((1, 0),), (1,), 3),
    ("cropped", (1, 1, 8), (1, 1, 2), (1,), ((-1, -2),), (1,), 1),
    ("cube", (1, 1, 2, 3, 2), (2, 1, 2, 2, 1), (1, 1, 1), ((0, 1), (1, 0), (0, 0)), (1, 1, 1), 1),
    ("matrix", (2, 3), (4, 3), (), (), (), 1),
    ("no_examples", (0, 2, 4), (3, 2, 2), (1,), ((0, 0),), (1,), 1),
    ("no_features", (2, 0, 4), (3, 0, 2), (1,), ((0, 0),), (1,), 1),
]


def attrs(stride, padding, dilation, groups):
    pads = ", ".join(str(lo) if lo == hi else f"[{lo}, {hi}]" for lo, hi in padding)
    return f"stride={list(stride)}, padding=[{pads}], dilation={list(dilation)}, groups={groups}"


def transposed(fn, shape, dtype, cotangent):
    """The transpose of a linear map applied to a cotangent; complex numbers are not conjugated."""
    zeros = np.zeros(shape, np.complex128 if dtype[0] == "c" else np.float64)
    return np.asarray(jax.vjp(fn, zeros)[1](cotangent)[0])


def plain_cases(f, dtype, cases):
    for name, xs, ws, stride, padding, dilation, groups in cases:
        x, w = f.normal(dtype, xs), f.normal(dtype, ws)
        empty = x.size == 0
        text = attrs(stride, padding, dilation, groups)
        forward = lambda a, b: xla_conv(a, b, stride, padding, dilation, groups)
        shape = jax.eval_shape(forward, widen(x), widen(w)).shape
        z = f.normal(dtype, shape)
        value = np.zeros(shape) if empty else np.asarray(forward(widen(x), widen(w)))
        to_x = np.zeros(xs) if empty else transposed(lambda a: forward(a, widen(w)), xs, dtype, widen(z))
        to_w = np.zeros(ws) if empty else transposed(lambda b: forward(widen(x), b), ws, dtype, widen(z))
        window = int(np.prod(ws[2:]))
        f.case(f"conv_{name}_{dtype}", f"conv(x, w, {text})", {"x": x, "w": w}, [narrow(value, dtype)],
               **tolerance(dtype, ws[1] * window))
        f.case(f"backward_input_{name}_{dtype}", f"conv_backward_input(z, w, input_size={list(xs[2:])}, {text})",
               {"z": z, "w": w}, [narrow(to_x, dtype)], **tolerance(dtype, ws[0] * window))
        f.case(f"backward_weight_{name}_{dtype}", f"conv_backward_weight(x, z, kernel_size={list(ws[2:])}, {text})",
               {"x": x, "z": z}, [narrow(to_w, dtype)], **tolerance(dtype, int(np.prod(shape))))


def general_cases(f, dtype):
    def one(name, xs, ws, text, reverse=(), **options):
        x, w = f.normal(dtype, xs), f.normal(dtype, ws)
        kernel = np.flip(widen(w), reverse) if reverse else widen(w)
        y = np.asarray(xla_conv(widen(x), kernel, **options))
        f.case(f"general_{name}_{dtype}", f"conv(x, w, {text})", {"x": x, "w": w}, [narrow(y, dtype)],
               **tolerance(dtype, w.size))

    plain = {"stride": (1,), "padding": ((0, 0),), "dilation": (1,)}
    one("input_dilation", (1, 2, 4), (2, 2, 3), "input_dilation=[3], padding=[[2, 1]]", stride=(1,),
        padding=((2, 1),), dilation=(1,), input_dilation=(3,))
    one("both_dilations", (1, 1, 5), (1, 1, 3), "input_dilation=[2], dilation=[3], stride=[2]", stride=(2,),
        padding=((0, 0),), dilation=(3,), input_dilation=(2,))
    one("batch_groups", (4, 2, 3), (4, 2, 2), "batch_groups=2", batch_groups=2, **plain)
    one("batch_depthwise", (3, 1, 4), (3, 1, 2), "batch_groups=3, padding=[1]", batch_groups=3, stride=(1,),
        padding=((1, 1),), dilation=(1,))
    one("reversed", (1, 1, 3, 4), (1, 1, 2, 3), "reverse=[true, false]", reverse=(2,), stride=(1, 1),
        padding=((0, 0), (0, 0)), dilation=(1, 1))
    one("channels_last", (1, 3, 3, 2), (2, 2, 2, 3), "input_axes=[0, 3, 1, 2], kernel_axes=[-1, -2, 0, 1], "
        "output_axes=[0, 3, 1, 2]", stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1),
        axes=((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)))
    one("output_moved", (1, 2, 4), (3, 2, 2), "output_axes=[2, 0, 1]", axes=((0, 1, 2), (0, 1, 2), (2, 0, 1)), **plain)


def transpose_cases(f, dtype):
    # x, w [Cin, Cout/groups, K], stride, padding pairs, dilation, groups, output padding
    for name, xs, ws, stride, padding, dilation, groups, extra in [
            ("line", (1, 2, 3), (2, 3, 3), (1,), ((0, 0),), (1,), 1, (0,)),
            ("upsampling", (1, 2, 3), (2, 1, 3), (2,), ((1, 1),), (1,), 1, (1,)),
            ("grouped", (2, 4, 2), (4, 1, 2), (3,), ((0, 1),), (2,), 2, (2,)),
            ("plane", (1, 1, 2, 3), (1, 2, 2, 2), (2, 1), ((1, 0), (0, 0)), (1, 2), 1, (1, 0))]:
        x, w = f.normal(dtype, xs), f.normal(dtype, ws)
        size = [(s - 1) * st - lo - hi + r * (k - 1) + q + 1
                for s, st, (lo, hi), r, k, q in zip(xs[2:], stride, padding, dilation, ws[2:], extra)]
        forward = lambda a: xla_conv(a, widen(w), stride, padding, dilation, groups)
        y = transposed(forward, (xs[0], ws[1] * groups, *size), dtype, widen(x))
        f.case(f"transpose_{name}_{dtype}",
               f"conv_transpose(x, w, {attrs(stride, padding, dilation, groups)}, output_padding={list(extra)})",
               {"x": x, "w": w}, [narrow(y, dtype)], **tolerance(dtype, x.size))


with Fixtures("conv") as f:
    for dtype in FLOATS + ["c128"] + INTS[:2]:
        plain_cases(f, dtype, CASES if dtype in ("f64", "f32") else CASES[1::3])
    for dtype in ["c64"] + INTS[2:]:
        plain_cases(f, dtype, CASES[3:5])
    for dtype in ["f64", "f32", "bf16", "i32"]:
        general_cases(f, dtype)
    for dtype in ["f64", "f32", "f16", "c64", "i8"]:
        transpose_cases(f, dtype)
    # Integers wrap, and padding is skipped rather than multiplied: an infinite weight over it is not NaN.
    x = np.array([[[127, 2, -128]]], np.int8)
    w = np.array([[[100, 3]]], np.int8)
    f.case("wraps", "conv(x, w)", {"x": x, "w": w}, [np.array([[[(12700 + 6) % 256 - 256, 200 - 384 + 256]]], np.int64)
                                                     .astype(np.int8)])
    x = np.array([[[1.0, 2.0]]])
    w = np.array([[[np.inf, 1.0]]])
    f.case("infinite_weight_over_padding", "conv(x, w, padding=[[1, 0]])", {"x": x, "w": w},
           [np.array([[[1.0, np.inf]]])])
    x = np.array([[[np.nan, 1.0, 2.0, np.inf]]], np.float32)
    w = np.array([[[1.0, 1.0]]], np.float32)
    f.case("nan_stays_local", "conv(x, w)", {"x": x, "w": w}, [np.array([[[np.nan, 3.0, np.inf]]], np.float32)])
