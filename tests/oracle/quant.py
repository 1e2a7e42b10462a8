# SPDX-License-Identifier: Apache-2.0
"""Answers for quantisation: NumPy's rint and clip, in the dtype that the ops compute with (f32 for half floats),
products of integers by NumPy and convolutions by JAX in int64."""
import jax
import jax.numpy as jnp
import numpy as np
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
FLOATS = ["f64", "f32", "f16", "bf16"]


def wide(x):
    return x if x.dtype == np.float64 else x.astype(np.float32)


def view(v, axis, rank):
    return v if axis is None else v.reshape([-1 if k == axis else 1 for k in range(rank)])


def attribute(axis):
    return "" if axis is None else f", axis={axis}"


def quantize_cases(f):
    grids = [([0.0173], [0], None), ([0.5], [-7], None), ([0.01, 0.25, 3.0], [0, 5, -128], 0),
             ([0.02, 0.011], [127, -1], 1)]
    for d in FLOATS:
        for scales, zeros, axis in grids:
            x = f.normal(d, (3, 2))
            s, z = (view(np.array(v, wide(x).dtype), axis, 2) for v in (scales, zeros))
            q = np.clip(np.rint(wide(x) / s) + z, -128, 127).astype(np.int8)
            attrs = f"scales={scales}, zero_points={zeros}{attribute(axis)}"
            f.case(f"quantize_{d}", f"quantize(x, {attrs})", {"x": x}, [q])
            q = f.rng.integers(-128, 128, (3, 2)).astype(np.int8)
            y = ((q.astype(wide(x).dtype) - z) * s).astype(DTYPES[d])
            f.case(f"dequantize_{d}", f"dequantize(q, {attrs}, dtype={d})", {"q": q}, [y])
    ties = np.array([0.5, 1.5, -0.5, -2.5, 127.5, -128.5, 126.5, np.inf, -np.inf, 1e30], np.float32)
    f.case("quantize_ties", "quantize(x, scales=[1])", {"x": ties}, [np.clip(np.rint(ties), -128, 127).astype(np.int8)])


def per_batch(x, q, axis):
    axes = tuple(k for k in range(x.ndim) if k != axis)
    return np.maximum(np.max(np.abs(x), axis=axes, keepdims=True) / x.dtype.type(q), x.dtype.type(1e-12))


def fake_cases(f):
    for d in FLOATS:
        for bits in (2, 4, 8):
            for axis in (None, 0, 1):
                q = 2 ** (bits - 1) - 1
                x = f.normal(d, (2, 3))
                s = per_batch(wide(x), q, axis)
                y = (np.clip(np.rint(wide(x) / s), -q, q) * s).astype(DTYPES[d])
                f.case(f"fake_{d}_{bits}", f"fake_quantize(x, bits={bits}{attribute(axis)})", {"x": x}, [y])
        q, decay = 7, 0.75
        x = f.normal(d, (3, 2))
        state = np.array([0.3, -1, 0], DTYPES[d])
        cur = per_batch(wide(x), q, 0)
        old = wide(state).reshape(3, 1)
        new = np.where(old <= 0, cur, old * old.dtype.type(decay) + cur * old.dtype.type(1 - decay)).astype(DTYPES[d])
        s = wide(new)
        y = (np.clip(np.rint(wide(x) / s), -q, q) * s).astype(DTYPES[d])
        f.case(f"fake_ema_{d}", f"fake_quantize(x, s, bits=4, axis=0, scale_mode=ema, decay={decay})",
               {"x": x, "s": state}, [y, new.reshape(3)])
        s = np.maximum(wide(np.array([0.2], DTYPES[d])), 1e-12)
        y = (np.clip(np.rint(wide(x) / s), -q, q) * s).astype(DTYPES[d])
        f.case(f"fake_fixed_{d}", "fake_quantize(x, s, bits=4, scale_mode=fixed)",
               {"x": x, "s": np.array([0.2], DTYPES[d])}, [y])


def multiplier(x, s, q, ste):
    z = x / (s * x.dtype.type(q))
    return {"identity": np.ones_like(x), "clipped_identity": (np.abs(np.rint(x / s)) <= q).astype(x.dtype),
            "tanh": 1 - np.tanh(z) ** 2, "hard_tanh": np.maximum(0, 1 - np.abs(z))}[ste]


def backward_cases(f):
    for ste in ("identity", "clipped_identity", "tanh", "hard_tanh"):
        x, g, s = f.normal("f64", (2, 3)), f.normal("f64", (2, 3)), np.array([0.1, 0.4])
        f.case(f"backward_{ste}", f"fake_quantize_backward(x, g, s, bits=4, axis=0, ste={ste}, scale_mode=fixed)",
               {"x": x, "g": g, "s": s}, [g * multiplier(x, s.reshape(2, 1), 7, ste)], ulp=4)
        f.case(f"backward_own_{ste}", f"fake_quantize_backward(x, g, bits=3, ste={ste})", {"x": x, "g": g},
               [g * multiplier(x, per_batch(x, 3, None), 3, ste)], ulp=4)


def step_cases(f):
    for d in FLOATS:
        x, g = f.normal(d, (2, 4)), f.normal(d, (2, 4))
        s = np.array([0.25, 0.75], DTYPES[d])
        w, q = wide(s).reshape(2, 1), 3
        z = wide(x) / w
        inside = np.abs(z) <= q
        psi = np.where(inside, np.rint(z) - z, np.sign(z) * q)
        given = {"x": x, "s": s, "g": g}
        tail = ", bits=3, axis=0, grad_scale=0.5)"
        f.case(f"step_{d}", "fake_quantize_lsq(x, s" + tail, {"x": x, "s": s},
               [(np.clip(np.rint(z), -q, q) * w).astype(DTYPES[d])])
        f.case(f"step_x_{d}", "fake_quantize_lsq_backward_x(x, s, g" + tail, given,
               [np.where(inside, g, 0).astype(DTYPES[d])])
        f.case(f"step_s_{d}", "fake_quantize_lsq_backward_scale(x, s, g" + tail, given,
               [np.sum(0.5 * g.astype(np.float64) * psi, axis=1).astype(DTYPES[d])], rel=4)


def requantised(acc, mult, zero):
    return np.clip(np.rint(acc.astype(np.float64) * mult) + zero, -128, 127).astype(np.int8)


def product_cases(f):
    for m, k, n, mult, zps in ((3, 4, 2, 0.004, (0, 0, 0)), (2, 5, 3, 0.0031, (7, -3, 11)),
                               (1, 70, 1, -1e-4, (-128, 127, -5))):
        x, w = (f.rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
        b = f.rng.integers(-9000, 9000, n).astype(np.int32)
        acc = (x.astype(np.int64) - zps[0]) @ (w.astype(np.int64) - zps[1]) + b
        f.case("q_matmul", f"q_matmul(x, w, b, mult={mult}, x_zp={zps[0]}, w_zp={zps[1]}, out_zp={zps[2]})",
               {"x": x, "w": w, "b": b}, [requantised(acc, mult, zps[2])])
    geometries = [((2, 2, 6), (3, 2, 3), "", {}), ((1, 4, 5), (2, 2, 2), ", groups=2, stride=[2], padding=[1]",
                                                  {"stride": [2], "pad": [(1, 1)], "groups": 2}),
                  ((1, 2, 4, 3), (2, 2, 2, 2), ", padding=[[0, 2], 1], dilation=[2, 1]",
                   {"pad": [(0, 2), (1, 1)], "dil": [2, 1]})]
    for xs, ws, attrs, g in geometries:
        x, w = (f.rng.integers(-128, 128, s).astype(np.int8) for s in (xs, ws))
        b = f.rng.integers(-9000, 9000, ws[0]).astype(np.int32)
        d = len(xs) - 2
        acc = jax.lax.conv_general_dilated(jnp.asarray(x, jnp.int64) - 9, jnp.asarray(w, jnp.int64) + 4,
                                           g.get("stride", [1] * d),
                                           g.get("pad", [(0, 0)] * d), None, g.get("dil", [1] * d),
                                           feature_group_count=g.get("groups", 1))
        acc = np.asarray(acc) + b.astype(np.int64).reshape([-1] + [1] * d)
        f.case("q_conv", f"q_conv(x, w, b, mult=0.003, x_zp=9, w_zp=-4, out_zp=2{attrs})", {"x": x, "w": w, "b": b},
               [requantised(acc, 0.003, 2)])


with Fixtures("quant") as f:
    quantize_cases(f)
    fake_cases(f)
    backward_cases(f)
    step_cases(f)
    product_cases(f)
