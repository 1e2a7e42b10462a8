# SPDX-License-Identifier: Apache-2.0
"""Answers for attention, attention_backward, rope, rope_backward, axial_rope2d and the composites around them. Attention
and its cotangents are PyTorch's scaled_dot_product_attention and autograd where that has the mask, and loops over
queries in NumPy where it has not (softcap, windows, rows without a key); a transformer layer is PyTorch's. All in
float64, rounded once."""
import math

import numpy as np
import torch
import torch.nn.functional as F

from oracle import DTYPES, Fixtures

FLOATS = ["f64", "f32", "f16", "bf16"]
# A softmax of few scores of size one, and two products: a dozen roundings in the wide dtype, one in a narrow one.
TOLERANCE = {"f64": {"rel": 16}, "f32": {"rel": 16}, "f16": {"rel": 1}, "bf16": {"rel": 1}}
TO = {"bhsd": lambda x, h: x, "bshd": lambda x, h: x.transpose(0, 2, 1, 3),
      "bsd": lambda x, h: x.reshape(*x.shape[:2], h, x.shape[2] // h).transpose(0, 2, 1, 3)}
FROM = {"bhsd": lambda y: y, "bshd": lambda y: y.transpose(0, 2, 1, 3),
        "bsd": lambda y: y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)}


def wide(x):
    return x if x.dtype == bool or x.dtype.kind in "iu" else x.astype(np.float64)


def by_query(q, k, v, allowed, scale, cap=None, bias=None):
    """[N, H, S, D], one query after the other."""
    n, h, sq, _ = q.shape
    y = np.zeros((n, h, sq, v.shape[3]))
    group = h // k.shape[1]
    for b, head, i in np.ndindex(n, h, sq):
        keys = [j for j in range(k.shape[2]) if allowed[b, head, i, j]]
        if not keys:
            continue
        l = np.array([scale * np.dot(q[b, head, i], k[b, head // group, j]) for j in keys])
        l = l if cap is None else cap * np.tanh(l / cap)
        l = l if bias is None else l + bias[b, head, i, keys]
        e = np.exp(l - np.max(l))
        y[b, head, i] = e / np.sum(e) @ v[b, head // group, keys]
    return y


def looped(f, d, name, layout, attrs, shapes, allowed, heads=None, kv=None, mask=None, scale=None, cap=None, bias=None):
    q, k, v = [f.normal(d, s) for s in shapes]
    qh, kh, vh = TO[layout](wide(q), heads), TO[layout](wide(k), kv or heads), TO[layout](wide(v), kv or heads)
    full = (qh.shape[0], qh.shape[1], qh.shape[2], kh.shape[2])
    y = by_query(qh, kh, vh, np.broadcast_to(allowed(*np.indices(full[2:])), full), scale or qh.shape[3]**-0.5, cap,
                 None if bias is None else np.broadcast_to(wide(bias), full))
    fourth = {"m": mask if bias is None else bias} if mask is not None or bias is not None else {}
    f.case(f"{name}_{d}", f"attention(q, k, v{', m' if fourth else ''}, layout={layout}{attrs})",
           dict(q=q, k=k, v=v, **fourth), [FROM[layout](y).astype(DTYPES[d])], **TOLERANCE[d])


def values(f, d):
    looped(f, d, "window", "bhsd", ", mask_kind=sliding_window, window=1", [(1, 1, 4, 2)] * 3,
           lambda i, j: (j <= i) & (j >= i - 1))
    looped(f, d, "window_of_a_cache", "bshd", ", mask_kind=sliding_window, window=1, num_kv_heads=1",
           [(1, 2, 2, 2), (1, 4, 1, 2), (1, 4, 1, 3)], lambda i, j: (j <= i + 2) & (j >= i + 1), kv=1)
    looped(f, d, "window_beside_the_keys", "bhsd", ", mask_kind=sliding_window, window=0",
           [(1, 1, 3, 2), (1, 1, 1, 2), (1, 1, 1, 2)], lambda i, j: i == j)
    looped(f, d, "softcap", "bsd", ", num_heads=2, softcap=0.5", [(1, 2, 4), (1, 3, 4), (1, 3, 4)], lambda i, j: j >= 0,
           heads=2, cap=0.5)
    looped(f, d, "softcap_before_the_bias", "bhsd", ", mask_kind=bias, softcap=0.25",
           [(1, 1, 2, 2), (1, 1, 3, 2), (1, 1, 3, 2)],
           lambda i, j: j != 1, cap=0.25, bias=np.array([[2.0, -np.inf, -1.0]]).astype(DTYPES[d]))
    looped(f, d, "no_keys", "bhsd", "", [(1, 2, 2, 3), (1, 2, 0, 3), (1, 2, 0, 2)], lambda i, j: j >= 0)
    mask = np.array([[True, False, True], [False, False, False]])
    looped(f, d, "keys_of_each_item", "bhsd", ", mask_kind=custom", [(2, 1, 2, 2), (2, 1, 3, 2), (2, 1, 3, 2)],
           lambda i, j: mask[:, None, None, :], mask=mask)
    numbers = np.array([[[0.5, 0.49, 1.0], [0.0, -3.0, 0.25]]]).astype(np.float32)
    looped(f, d, "mask_of_numbers", "bhsd", ", mask_kind=custom", [(2, 1, 2, 2), (2, 1, 3, 2), (2, 1, 3, 2)],
           lambda i, j: numbers[None] >= 0.5, mask=numbers)


def torch_attention(q, k, v, bias=None, causal=False, scale=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal, scale=scale,
                                          enable_gqa=q.shape[1] != k.shape[1])


def by_torch(f, d, name, layout, attrs, shapes, heads=None, kv=None, causal=False, scale=None, bias=None):
    """The value, and the cotangent of each operand."""
    q, k, v = [f.normal(d, s) for s in shapes]
    fourth = {} if bias is None else {"m": f.normal(d, bias)}
    x = [torch.tensor(np.ascontiguousarray(TO[layout](wide(t), h)), requires_grad=True)
         for t, h in ((q, heads), (k, kv or heads), (v, kv or heads))]
    x += [torch.tensor(wide(m), requires_grad=True) for m in fourth.values()]
    y = torch_attention(*x, causal=causal, scale=scale)
    call = f"layout={layout}{attrs}"
    given = dict(q=q, k=k, v=v)
    f.case(f"{name}_{d}", f"attention(q, k, v{', m' if fourth else ''}, {call})", given | fourth,
           [FROM[layout](y.detach().numpy()).astype(DTYPES[d])], **TOLERANCE[d])
    dy = f.normal(d, FROM[layout](y.detach().numpy()).shape)
    y.backward(torch.tensor(np.ascontiguousarray(TO[layout](wide(dy), heads))))
    for wrt, t in zip(("query", "key", "value", "bias"), x):
        back = t.grad.numpy() if wrt == "bias" else FROM[layout](t.grad.numpy())
        f.case(f"{name}_{wrt}_{d}", f"attention_backward(q, k, v, dy{', m' if fourth else ''}, wrt={wrt}, {call})",
               given | {"dy": dy} | fourth, [back.astype(DTYPES[d])], **TOLERANCE[d])


def shared_cases(f, d):
    by_torch(f, d, "plain", "bhsd", "", [(2, 2, 3, 4), (2, 2, 2, 4), (2, 2, 2, 3)])
    by_torch(f, d, "causal", "bshd", ", mask_kind=causal", [(1, 3, 2, 2)] * 3, causal=True)
    by_torch(f, d, "grouped", "bsd", ", num_heads=4, num_kv_heads=2, score_scale=0.3",
             [(1, 2, 8), (1, 3, 4), (1, 3, 6)], heads=4, kv=2, scale=0.3)
    by_torch(f, d, "biased", "bhsd", ", mask_kind=bias", [(1, 2, 2, 3), (1, 2, 3, 3), (1, 2, 3, 3)], bias=(1, 1, 2, 3))


def rotated(x, c, s, n_rot, back=False):
    """[N, H, S, D] by 2 x 2 matrices, pair by pair; tables [N, S, T]."""
    y, half = x.copy(), n_rot // 2
    for n, h, t, i in np.ndindex(*x.shape[:3], half):
        turn = np.array([[c[n, t, i], -s[n, t, i]], [s[n, t, i], c[n, t, i]]])
        y[n, h, t, [i, half + i]] = (turn.T if back else turn) @ x[n, h, t, [i, half + i]]
    return y


def rotations(f, d):
    for layout, attrs, shape, heads, table, n_rot in (("bhsd", "", (2, 1, 3, 4), None, (3, 2), 4),
                                                      ("bshd", ", n_rot=2", (2, 3, 2, 5), None, (2, 3, 2), 2),
                                                      ("bsd", ", num_heads=2, n_rot=2", (1, 3, 6), 2, (3, 4), 2)):
        x, c, s = f.normal(d, shape), f.normal(d, table), f.normal(d, table)
        full = [np.broadcast_to(wide(t), (shape[0],) + t.shape[-2:]) for t in (c, s)]
        for op, back in (("rope", False), ("rope_backward", True)):
            y = FROM[layout](rotated(TO[layout](wide(x), heads), *full, n_rot, back))
            f.case(f"{op}_{layout}_{d}", f"{op}(x, c, s, layout={layout}{attrs})", dict(x=x, c=c, s=s),
                   [y.astype(DTYPES[d])], **({"rel": 1} if d[0] == "b" or d == "f16" else {"rel": 2}))
    for mode, place in (("tile", lambda t: t % 6), ("interleave", lambda t: t // 2)):
        x = f.normal(d, (1, 12, 16))
        y = wide(x).copy()
        for t, head, half, c in np.ndindex(12, 2, 2, 2):
            p = place(t)
            angle = (p // 3 if half else p % 3) * 100.0**(-4 * c / 8)
            at = head * 8 + half * 4 + 2 * c
            u, v = wide(x)[0, t, at:at + 2]
            y[0, t, at:at + 2] = u * math.cos(angle) - v * math.sin(angle), u * math.sin(angle) + v * math.cos(angle)
        f.case(f"axial_{mode}_{d}",
               f"axial_rope2d(x, end_x=3, end_y=2, num_heads=2, theta=100, repeat_factor=2, repeat_mode={mode})",
               dict(x=x), [y.astype(DTYPES[d])], rel=1 if d[0] == "b" or d == "f16" else 4)


def layers(f):
    """PyTorch's encoder layer is post-norm, with the projections of q, k and v in one matrix; its weights are
    transposed."""
    n, s, e, h, width = 2, 3, 4, 2, 5
    keep = np.array([[True, True, False], [True, False, True]])
    for biased in (True, False):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(e, h, width, dropout=0.0, activation="gelu", layer_norm_eps=1e-3,
                                                 batch_first=True, bias=biased, dtype=torch.float64)
        for p in layer.parameters():
            torch.nn.init.normal_(p)
        x = torch.tensor(f.normal("f64", (n, s, e)), requires_grad=False)
        layer.train()
        y = layer(x, src_key_padding_mask=torch.tensor(~keep))
        a, p = layer.self_attn, lambda t: t.detach().numpy()
        m = dict(x=p(x), wqkv=p(a.in_proj_weight).T, bqkv=a.in_proj_bias, wo=p(a.out_proj.weight).T, bo=a.out_proj.bias,
                 g1=p(layer.norm1.weight), b1=layer.norm1.bias, w1=p(layer.linear1.weight).T, c1=layer.linear1.bias,
                 w2=p(layer.linear2.weight).T, c2=layer.linear2.bias, g2=p(layer.norm2.weight), b2=layer.norm2.bias,
                 mask=keep)
        m = {k: p(t) if torch.is_tensor(t) else t for k, t in m.items() if t is not None}
        f.case("layer_biased" if biased else "layer",
               f"fused_transformer_layer({', '.join(m)}, num_heads=2, head_dim=2, ffn_dim=5, "
               f"has_bias={str(biased).lower()}, eps1=0.001, eps2=0.001)", m, [p(y)], rel=64)
        block = a(x, x, x, key_padding_mask=torch.tensor(~keep), need_weights=False)[0]
        names = ["x", "wqkv", "wo", "mask"] + (["bqkv", "bo"] if biased else [])
        f.case("block_biased" if biased else "block",
               f"fused_attention_block({', '.join(names)}, num_heads=2, head_dim=2, has_bias="
               f"{str(biased).lower()})", {k: m[k] for k in names}, [p(block)], rel=16)


def main():
    with Fixtures("attention") as f:
        for d in FLOATS:
            values(f, d)
            shared_cases(f, d)
            rotations(f, d)
        layers(f)


if __name__ == "__main__":
    main()
