# SPDX-License-Identifier: Apache-2.0
"""Answers for products with packed weights: weights decoded by quant_decoders.py (GGUF, 8-bit floats, NVFP4) or by
loops over elements here (integer blocks), and NumPy's product in float64. Derivatives with respect to
scales and zero points are sums over the blocks."""
import math
import struct

import numpy as np
import quant_decoders as packed
from oracle import DTYPES, Fixtures

f64 = np.float64
# A dozen or so products in f32: less than these many ulps of the largest.
NEAR = {"f64": {"rel": 4096}, "f32": {"rel": 32}, "f16": {"rel": 2}, "bf16": {"rel": 2}}


SPECIAL = [0x8001, 0xfc00, 0x03ff, 0x7e00, 0x7bff, 0x0000]
SPECIAL_F32 = [-1e-45, -math.inf, 1e-39, math.nan, 3e38, 0.0]


def blocks(f, scheme, count, special=0):
    """Random bytes with tame scales, then some blocks with scales that are subnormal, infinite, no number, largest or
    0."""
    turn = 2 * list(packed.SIZES).index(scheme)
    data = []
    for i in range(count + special):
        b = bytearray(f.rng.integers(0, 256, packed.SIZES[scheme][1]).astype(np.uint8).tobytes())
        k = None if i < count else (turn + i) % len(SPECIAL)
        for at in packed.HALVES[scheme]:
            b[at:at + 2] = struct.pack("<e", f.rng.uniform(-2, 2)) if k is None else struct.pack("<H", SPECIAL[k])
        if scheme == "q8_k":
            b[0:4] = struct.pack("<f", f.rng.uniform(-2, 2) if k is None else SPECIAL_F32[k])
        data.append(bytes(b))
    return data


def decoded(scheme, data):
    return np.array([packed.decode(scheme, b) for b in data], np.float32)


def weights_cases(f):
    for scheme, (count, size) in packed.SIZES.items():
        rows = blocks(f, scheme, *((1, 3) if count == 256 else (4, 6)))
        w = np.frombuffer(b"".join(rows), np.uint8)
        y = decoded(scheme, rows)
        f.case(f"weights_{scheme}", f"dequant_moe_weights(w, scheme=gguf_{scheme}, E=1, K={count}, N={len(rows)})",
               {"w": w}, [y.T[None].copy()])
    # Two blocks in a row, three rows, two matrices.
    rows = blocks(f, "q4_1", 12)
    y = decoded("q4_1", rows).reshape(2, 3, 64)
    f.case("weights_order", "dequant_moe_weights(w, scheme=gguf_q4_1, E=2, K=64, N=3)",
           {"w": np.frombuffer(b"".join(rows), np.uint8)}, [y.transpose(0, 2, 1).copy()])


def gguf_matmul_cases(f):
    for scheme, (count, size) in packed.SIZES.items():
        rows = blocks(f, scheme, 2)
        w = np.frombuffer(b"".join(rows), np.uint8).reshape(2, size)
        y = decoded(scheme, rows).astype(f64)
        for d in ("f64", "f32", "f16", "bf16") if scheme == "q4_0" else ("f32",):
            x = f.normal(d, (1 if count == 256 else 2, count)) / 16
            x = x.astype(DTYPES[d])
            f.case(f"matmul_{scheme}_{d}", f"dequant_matmul(x, w, scheme=gguf_{scheme})", {"x": x, "w": w},
                   [(x.astype(f64) @ y.T).astype(DTYPES[d])], **({"rel": 256} if count == 256 else NEAR[d]))


def integer_cases(f):
    for k, n, bs in ((5, 3, 2), (4, 2, 4), (6, 1, 32)):
        nb = -(-k // bs)
        s = f.normal("f32", (nb, n))
        z = f.normal("f32", (nb, n))
        q8 = f.rng.integers(-128, 128, (k, n)).astype(np.int8)
        q4 = f.rng.integers(0, 256, -(-k * n // 2)).astype(np.uint8)
        flat = [int(q4[i // 2]) % 16 if i % 2 == 0 else int(q4[i // 2]) // 16 for i in range(k * n)]
        codes = {"int8_block": q8.astype(f64), "int8_block_asym": q8.astype(f64),
                 "int4_block": np.array(flat, f64).reshape(k, n)}
        for scheme, q in codes.items():
            used = 0 if scheme == "int8_block" else 1
            w = np.array([[(q[p, j] - used * f64(z[p // bs, j])) * f64(s[p // bs, j]) for j in range(n)]
                          for p in range(k)])
            x = f.normal("f32", (2, k))
            given = {"x": x, "w": q4 if scheme == "int4_block" else q8, "s": s, "z": z}
            f.case(f"{scheme}_{k}_{n}_{bs}", f"dequant_matmul(x, w, s, z, scheme={scheme}, bs={bs})", given,
                   [(x.astype(f64) @ w).astype(np.float32)], rel=32)


def float8_cases(f):
    every = np.arange(256, dtype=np.uint8)
    one = np.ones((1, 1), np.float32)
    for scheme, value in (("fp8_e4m3", packed.e4m3), ("fp8_e5m2", packed.e5m2)):
        table = np.array([value(c) for c in range(256)])
        f.case(f"{scheme}_every_code", f"dequant_matmul(x, w, s, scheme={scheme})",
               {"x": one, "w": every[None], "s": np.array([0.5], np.float32)}, [(table * 0.5).astype(np.float32)[None]])
        w = f.rng.integers(0, 0x70, (5, 3)).astype(np.uint8)
        for shape in ((3,), (1,)):
            s, x = f.normal("f32", shape), f.normal("f32", (2, 5))
            f.case(f"{scheme}_scales_{shape[0]}", f"dequant_matmul(x, w, s, scheme={scheme})", {"x": x, "w": w, "s": s},
                   [(x.astype(f64) @ (table[w] * s.astype(f64))).astype(np.float32)], rel=32)


def nvfp4_cases(f):
    for k, n in ((16, 2), (18, 3), (5, 1)):
        nb = -(-k // 16)
        w = f.rng.integers(0, 256, -(-k * n // 2)).astype(np.uint8)
        scale = f.rng.integers(0, 256, (nb, n)).astype(np.uint8)
        scale[0, 0] = 0x7f
        g = f.normal("f32", (1,))
        table = np.array([0.0 if math.isnan(packed.e4m3(c)) else packed.e4m3(c) for c in range(256)])
        codes = np.array([packed.e2m1(int(w[i // 2]) >> 4 * (i % 2) & 15) for i in range(k * n)]).reshape(k, n)
        whole = codes * np.repeat(table[scale], 16, axis=0)[:k] * f64(g[0])
        x = f.normal("f32", (2, k))
        f.case(f"nvfp4_{k}_{n}", "dequant_matmul(x, w, s, g, scheme=nvfp4_block)", {"x": x, "w": w, "s": scale, "g": g},
               [(x.astype(f64) @ whole).astype(np.float32)], rel=64)


def grouped_cases(f):
    for scheme in ("q4_0", "q5_1", "q8_0"):
        rows = blocks(f, scheme, 6)
        w = decoded(scheme, rows).astype(f64).reshape(3, 2, 32)
        x, e = f.normal("f32", (4, 32)), np.array([2, 0, 2, 1], np.int32)
        y = np.stack([w[e[i]] @ x[i].astype(f64) for i in range(4)])
        f.case(f"grouped_{scheme}", f"dequant_grouped_matmul(x, w, e, scheme=gguf_{scheme}, N=2)",
               {"x": x, "w": np.frombuffer(b"".join(rows), np.uint8), "e": e}, [y.astype(np.float32)], rel=32)


with Fixtures("dequant") as f:
    weights_cases(f)
    gguf_matmul_cases(f)
    integer_cases(f)
    float8_cases(f)
    nvfp4_cases(f)
    grouped_cases(f)
