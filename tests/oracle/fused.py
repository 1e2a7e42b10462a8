# SPDX-License-Identifier: Apache-2.0
"""Answers for composites (fused_*), grouped products, recurrences and regions: their formulas in NumPy, in float64, and
rounded once."""
import numpy as np
from oracle import DTYPES, Fixtures
from scipy import special

FLOATS = ["f64", "f32", "f16", "bf16"]
SOME = ["f64", "f32", "f16", "bf16", "c64", "i8", "u64", "bool"]
ACTS = {"none": lambda x: x, "relu": lambda x: np.maximum(x, 0), "tanh": np.tanh,
        "silu": lambda x: x * special.expit(x), "gelu": lambda x: x * special.ndtr(x)}


def wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64 if x.dtype.kind not in "iub" else x.dtype)


def rounded(y, dtype):
    return [np.asarray(v).astype(DTYPES[dtype]) for v in (y if isinstance(y, tuple) else (y,))]


def case(f, name, call, fn, d, inputs, rel):
    """fn of the inputs, widened and in order. rel: roundings on the way to a result, in units of the largest."""
    y = fn(*[wide(np.asarray(x)) for x in inputs.values()])
    f.case(f"{name}_{d}", call, inputs, rounded(y, d), rel=rel)


def uniform(f, d, lo, hi, *shape):
    return f.rng.uniform(lo, hi, shape).astype(DTYPES[d])


# ---- Products ----

def grouped(x, w, e, policy):
    """Row by row; a Python loop on purpose."""
    y = np.zeros((x.shape[0], w.shape[2]), x.dtype)
    for i, k in enumerate(e):
        if policy == "clamp":
            k = min(max(k, 0), w.shape[0] - 1)
        if 0 <= k < w.shape[0]:
            y[i] = np.einsum("k,kn->n", x[i], w[k])
    return y


def weights(x, g, e, count):
    w = np.zeros((count, x.shape[1], g.shape[1]), x.dtype)
    for i, k in enumerate(e):
        if 0 <= k < count:
            w[k] += np.einsum("k,n->kn", x[i], g[i])
    return w


def exactly(fn, *xs):
    """fn in a wide dtype, rounded to that of the operands: integers modulo 2^bits, bool as or of ands."""
    dtype = xs[0].dtype
    if dtype == bool:
        return fn(*[x.astype(np.int64) for x in xs]) != 0
    if dtype.kind in "iu":
        with np.errstate(over="ignore"):
            return fn(*[x.astype(np.uint64) for x in xs]).astype(dtype)
    return fn(*[wide(x) for x in xs]).astype(dtype)


def grouped_cases(f):
    for d in SOME:
        close = {"rel": 1 if d in ("f16", "bf16") else 8} if d[0] in "fc" or d == "bf16" else {}
        x, w, g = f.normal(d, (5, 3)), f.normal(d, (3, 3, 2)), f.normal(d, (5, 2))
        inside, outside = np.array([2, 0, 2, 2, 0], np.int32), np.array([-1, 3, 1, 0, 1], np.int64)
        for name, e, policy in (("", inside, "error"), ("_zero", outside, "zero"), ("_clamp", outside, "clamp")):
            f.case(f"grouped_matmul{name}_{d}", f"grouped_matmul(x, w, e, oob={policy})", {"x": x, "w": w, "e": e},
                   [exactly(lambda a, b: grouped(a, b, e, policy), x, w)], **close)
        f.case(f"grouped_input_{d}", "grouped_matmul_input_backward(g, w, e)", {"g": g, "w": w, "e": inside},
               [exactly(lambda a, b: grouped(a, b.transpose(0, 2, 1), inside, "error"), g, w)], **close)
        f.case(f"grouped_weight_{d}", "grouped_matmul_weight_backward(x, g, e, E=3)", {"x": x, "g": g, "e": inside},
               [exactly(lambda a, b: weights(a, b, inside, 3), x, g)], **close)
        f.case(f"grouped_weight_zero_{d}", "grouped_matmul_weight_backward(x, g, e, E=2, oob=zero)",
               {"x": x, "g": g, "e": outside}, [exactly(lambda a, b: weights(a, b, outside, 2), x, g)], **close)


def conv2d(x, w, stride, pad, groups=1):
    """[N, C, H, W] with [O, C / groups, h, w], straight from the definition."""
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    out, per, h, v = w.shape
    rows, columns = (x.shape[2] - h) // stride + 1, (x.shape[3] - v) // stride + 1
    z = np.zeros((x.shape[0], out, rows, columns))
    for o in range(out):
        first = o // (out // groups) * per
        for i in range(rows):
            for j in range(columns):
                patch = x[:, first:first + per, i * stride:i * stride + h, j * stride:j * stride + v]
                z[:, o, i, j] = np.einsum("nchw,chw->n", patch, w[o])
    return z


def conv_cases(f):
    for d in FLOATS:
        x, w, b = f.normal(d, (2, 2, 4, 5)), f.normal(d, (4, 1, 2, 3)), f.normal(d, (4,))
        scale = f.normal(d, (4,))
        channels = (slice(None), None, None)
        for act in ("none", "relu", "gelu"):
            case(f, f"fused_conv_bias_{act}",
                 f"fused_conv_bias_act(x, w, b, act={act}, stride=[2, 2], padding=[1, 1], groups=2)",
                 lambda x, w, b: ACTS[act](conv2d(x, w, 2, 1, 2) + b[channels]), d, {"x": x, "w": w, "b": b}, 8)
        case(f, "fused_conv_affine", "fused_conv_affine_act(x, w, s, b, act=silu, groups=2)",
             lambda x, w, s, b: ACTS["silu"](conv2d(x, w, 1, 0, 2) * s[channels] + b[channels]), d,
             {"x": x, "w": w, "s": scale, "b": b}, 8)


# ---- Residuals ----

def layer_norm(x, gamma, beta, eps):
    centred = x - x.mean(-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) + beta


def rms_norm(x, gamma, beta, eps):
    return gamma * x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) + beta


def residual_cases(f):
    for d in FLOATS:
        x, r, b, gamma, beta = [f.normal(d, s) for s in ((2, 3, 4), (2, 3, 4), (4,), (4,), (4,))]
        for op, norm in (("fused_residual_ln", layer_norm), ("fused_residual_rms_norm", rms_norm)):
            # The rounded sum is off by half a unit of up to twice the largest result; each factor adds another half.
            case(f, op, f"{op}(x, r, gamma, beta)", lambda x, r, g, b: norm(x + r, g, b, 1e-5), d,
                 {"x": x, "r": r, "gamma": gamma, "beta": beta}, 8)
            case(f, f"{op}_bias", f"{op}(x, r, b, gamma, beta, has_bias=true, eps=0.125)",
                 lambda x, r, b, g, h: norm(x + r + b, g, h, 0.125), d,
                 {"x": x, "r": r, "b": b, "gamma": gamma, "beta": beta}, 8)
        scale = f.normal(d, (2, 1, 4))
        case(f, "fused_ada_layer_norm", "fused_ada_layer_norm(x, s, b, eps=0.01)",
             lambda x, s, b: layer_norm(x, 1, 0, 0.01) * (1 + s) + b, d, {"x": x, "s": scale, "b": b}, 8)
        w = f.normal(d, (4, 3))
        case(f, "fused_matmul_residual", "fused_matmul_residual(x, w, r)", lambda x, w, r: x @ w + r, d,
             {"x": x, "w": w, "r": f.normal(d, (3, 3))}, 8)
        case(f, "fused_gated_residual", "fused_gated_residual(x, s, r)", lambda x, s, r: r + s * x, d,
             {"x": x, "s": scale, "r": r}, 2)


# ---- Recurrences ----

def selective_scan(x, delta, a, b, c):
    h = np.zeros((x.shape[0], x.shape[2], a.shape[1]))
    y = np.zeros_like(x)
    for t in range(x.shape[1]):
        h = np.exp(delta[:, t, :, None] * a) * h + (delta[:, t] * x[:, t])[:, :, None] * b[:, t, None, :]
        y[:, t] = np.einsum("nhk,nk->nh", h, c[:, t])
    return y


def gated_delta_net(q, k, v, gamma, beta, state=None):
    batch, length, heads, n = q.shape
    s = np.zeros((batch, heads, n, n)) if state is None else state.copy()
    y = np.zeros_like(v)
    for t in range(length):
        s = np.exp(gamma[:, t])[..., None, None] * s
        d = (v[:, t] - np.einsum("bhij,bhi->bhj", s, k[:, t])) * beta[:, t, :, None]
        s = s + k[:, t, :, :, None] * d[:, :, None, :]
        y[:, t] = np.einsum("bhij,bhi->bhj", s, q[:, t]) / np.sqrt(n)
    return y, s


def recurrence_cases(f):
    # A step rounds about eight times, and what it leaves in the state decays; 32 units are those of four steps. Narrow
    # floats are computed in f32.
    for d in FLOATS:
        rel = 32 if d in ("f64", "f32") else 1
        for tokens in (4, 1, 0):
            xs = {"x": f.normal(d, (2, tokens, 3)), "delta": uniform(f, d, 0.1, 1, 2, tokens, 3),
                  "a": uniform(f, d, -1, 0, 3, 2), "b": f.normal(d, (2, tokens, 2)), "c": f.normal(d, (2, tokens, 2))}
            case(f, f"selective_scan_{tokens}", "selective_scan(x, delta, a, b, c)", selective_scan, d, xs, rel)
            qs = {key: uniform(f, d, -1, 1, 1, tokens, 2, 3) for key in "qkv"}
            qs |= {"g": uniform(f, d, -1, 0, 1, tokens, 2), "b": uniform(f, d, 0, 1, 1, tokens, 2)}
            case(f, f"gated_delta_net_{tokens}", "gated_delta_net(q, k, v, g, b)",
                 lambda *xs: gated_delta_net(*xs)[0], d, qs, rel)
            case(f, f"gated_delta_net_state_{tokens}", "gated_delta_net(q, k, v, g, b, s, carry_state=true)",
                 gated_delta_net, d, qs | {"s": uniform(f, d, -1, 1, 1, 2, 3, 3)}, rel)


# ---- Regions ----

def region_cases(f):
    f.graphs("""graph chain(x: f32[2, 3, 4], y: f32[2, 1, 4], k: i32[3, 1]) {
  z = sub(mul(x, y), 0.5)
  return where(gt(k, 0), tanh(z), add(z, cast(k, to=f32)))
}
graph each(x: f32[], y: f32[]) { return max(mul(x, x), y) }
graph picture(x: f32[1, 2, 3, 4]) {
  n = narrow(x, axis=3, start=1, len=2)
  r = resize_nearest_2x(n)
  s = fma(r, const(f32[2, 1, 1], [[[2]], [[-0.5]]]), const(f32[2, 1, 1], [[[1]], [[3]]]))
  return transpose(s, perm=[0, 2, 3, 1])
}""")
    x, y, k = f.normal("f32", (2, 3, 4)), f.normal("f32", (2, 1, 4)), np.array([[1], [-2], [0]], np.int32)
    z = (x.astype(float) * y - 0.5)
    f.case("elementwise_region", "elementwise_region(x, y, k, body=@chain)", {"x": x, "y": y, "k": k},
           [np.where(k > 0, np.tanh(z), z + k).astype(np.float32)], rel=4)
    x, y = f.normal("f32", (2, 6)), f.normal("f32", (2, 1))
    kept = np.concatenate([x[:, :2], x[:, 3:6]], 1)
    f.case("batch_elementwise_region",
           "batch_elementwise_region(x, y, body=@each, axis=-1, starts=[0, 3], lens=[2, 3])",
           {"x": x, "y": y}, [np.maximum(kept * kept, y)], ulp=1)
    x = f.normal("f32", (1, 2, 3, 4))
    up = x[..., 1:3].repeat(2, 2).repeat(2, 3)
    s = up * np.array([2, -0.5], np.float32)[:, None, None] + np.array([1, 3], np.float32)[:, None, None]
    f.case("transform_region", "transform_region(x, body=@picture)", {"x": x}, [s.transpose(0, 2, 3, 1).copy()], ulp=1)


with Fixtures("fused") as f:
    grouped_cases(f)
    conv_cases(f)
    residual_cases(f)
    recurrence_cases(f)
    region_cases(f)
