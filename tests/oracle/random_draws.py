# SPDX-License-Identifier: Apache-2.0
"""Oracle of the random family (a file called random.py would hide the standard module). Philox and Threefry are written
out in Python integers, rng_bit_generator comes from XLA; the rest follows the documentation of the ops, with
Python's and SciPy's functions."""
import math

import jax
import numpy as np
import scipy.special
from oracle import DTYPES, Fixtures

jax.config.update("jax_enable_x64", True)
MASK = 2**32 - 1


def split(x):
    return x & MASK, x >> 32


def philox(key, counter):
    k0, k1 = key
    c = list(counter)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & MASK, (p0 >> 32) ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def threefry(key, counter):
    ks = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    x = [(counter[0] + ks[0]) & MASK, (counter[1] + ks[1]) & MASK]
    for group in range(5):
        for r in [(13, 15, 26, 6), (17, 29, 16, 24)][group % 2]:
            x[0] = (x[0] + x[1]) & MASK
            x[1] = ((x[1] << r | x[1] >> (32 - r)) & MASK) ^ x[0]
        x = [(x[0] + ks[(group + 1) % 3]) & MASK, (x[1] + ks[(group + 2) % 3] + group + 1) & MASK]
    return x


assert philox((0, 0), (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox((MASK, MASK), (MASK,) * 4) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
assert threefry((0, 0), (0, 0)) == [0x6B200159, 0x99BA4EFE]
assert threefry((MASK, MASK), (MASK, MASK)) == [0x1CB996FC, 0xBB002BE7]
assert threefry((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3)) == [0xC4923A9C, 0x483DF7A0]


class Stream:
    """Draws of one key; `bits` 24 or 53."""

    def __init__(self, key, stream=0, block=philox):
        self.key, self.stream, self.block = key, stream, block
        self.words = 4 if block is philox else 2

    def word(self, i):
        counter = split(i // self.words) + (split(self.stream) if self.block is philox else ())
        return self.block(self.key, counter)[i % self.words]

    def wide(self, i):
        return self.word(2 * i) | self.word(2 * i + 1) << 32

    def whole(self, bits, i):
        return self.word(i) >> 8 if bits == 24 else self.wide(i) >> 11

    def uniform(self, bits, i):
        return self.whole(bits, i) * 2.0**-bits

    def open(self, bits, i):
        return self.whole(bits, i) * 2.0**-bits + 2.0**-(bits + 1)

    def normal(self, bits, i):
        j = i - i % 2
        u1, u2 = (self.whole(bits, j) + 1) * 2.0**-bits, self.uniform(bits, j + 1)
        return math.sqrt(-2 * math.log(u1)) * [math.cos, math.sin][i % 2](2 * math.pi * u2)


def bits_of(dtype):
    return 53 if dtype == "f64" else 24


def rounded(values, dtype, shape):
    """f16 and bf16 are rounded from the f32 value."""
    x = np.reshape(np.array(values, np.float64), shape)
    return (x if dtype == "f64" else x.astype(np.float32)).astype(DTYPES[dtype])


KEY = (0x01234567, 0x89ABCDEF)
KEY_ARRAY = np.array(KEY, np.uint32)
FLOATS = ["f64", "f32", "f16", "bf16"]


def draws(fn, n):
    return [fn(i) for i in range(n)]


def uniform_and_normal(f):
    for dtype in FLOATS:
        b = bits_of(dtype)
        for seed, stream in [(0, 0), (2**40 + 17, 5), (-1, -1)]:
            s = Stream(split(seed % 2**64), stream % 2**64)
            text = f"shape=[2, 5], dtype={dtype}, seed={seed}, stream={stream}"
            u = rounded(draws(lambda i: s.uniform(b, i), 10), dtype, (2, 5))
            z = rounded(draws(lambda i: s.normal(b, i), 10), dtype, (2, 5))
            f.case(f"uniform_{dtype}", f"rng_uniform({text})", {}, [u])
            f.case(f"normal_{dtype}", f"rng_normal({text})", {}, [z], rel=4)
        s = Stream(KEY, 2)
        f.case(f"uniform_key_{dtype}", f"rng_uniform(k, shape=[9], dtype={dtype}, lo=-3, hi=5, seed=99, stream=2)",
               {"k": KEY_ARRAY}, [rounded(draws(lambda i: -3 + 8 * s.uniform(b, i), 9), dtype, (9,))], rel=1)
        f.case(f"normal_key_{dtype}", f"rng_normal(k, shape=[9], dtype={dtype}, mean=2, std=0.25, seed=99, stream=2)",
               {"k": KEY_ARRAY}, [rounded(draws(lambda i: 2 + 0.25 * s.normal(b, i), 9), dtype, (9,))], rel=4)
    s = Stream((0, 0))
    f.case("uniform_scalar", "rng_uniform(shape=[])", {}, [np.float32(s.uniform(24, 0))])
    f.case("uniform_empty", "rng_uniform(shape=[0, 3])", {}, [np.zeros((0, 3), np.float32)])


def raw_bits(f):
    for algorithm, block in [("philox4x32", philox), ("threefry2x32", threefry)]:
        for key in [(0, 0), KEY]:
            s = Stream(key, 0, block)
            for dtype in ["u32", "u64", "u16", "i8", "i64"]:
                size = DTYPES[dtype].itemsize * 8
                v = draws(s.wide if size == 64 else s.word, 7)
                y = np.array([x % 2**size for x in v], f"u{size // 8}").view(DTYPES[dtype])
                f.case(f"bits_{algorithm}_{dtype}", f"rng_bits(k, shape=[7], dtype={dtype}, algorithm={algorithm})",
                       {"k": np.array(key, np.uint32)}, [y])
    # Random123's known answers for all ones.
    ones = np.array([MASK, MASK], np.uint32)
    y = np.array(threefry((MASK, MASK), (MASK, MASK)), np.uint32)
    f.case("generator_known_answer", "rng_bit_generator(s, shape=[2], dtype=u32, algorithm=threefry2x32)",
           {"s": np.array([2**64 - 1, 2**64 - 1], np.uint64)}, [np.array([2**64 - 1, 0], np.uint64), y])


def interchange(f):
    algorithms = {"philox4x32": jax.lax.RandomAlgorithm.RNG_PHILOX,
                  "threefry2x32": jax.lax.RandomAlgorithm.RNG_THREE_FRY}
    for name, algorithm in algorithms.items():
        for state in [np.array([3, 3], np.uint64), np.array([0x1122334455667788, 2**64 - 2], np.uint64),
                      np.array([1, 2, 0xFFFFFFFF, 4], np.uint32)]:
            for dtype, shapes in [("u32", [(), (5,), (2, 3), (3, 2), (3, 3), (1, 5)]), ("u64", [(3,), (2, 2)]),
                                  ("u16", [(3, 4)]), ("u8", [(7,)])]:
                for shape in shapes:
                    after, bits = jax.lax.rng_bit_generator(state, shape, DTYPES[dtype].type, algorithm=algorithm)
                    f.case(f"generator_{name}_{dtype}",
                           f"rng_bit_generator(s, shape={list(shape)}, dtype={dtype}, algorithm={name})", {"s": state},
                           [np.asarray(after), np.asarray(bits)])
    # The long Philox state is a 128-bit counter; the carry goes on to its high half.
    key, low, high = 0x1122334455667788, 2**64 - 1, 7
    words = philox(split(key), split(low) + split(high)) + philox(split(key), split(0) + split(high + 1))
    f.case("generator_carry", "rng_bit_generator(s, shape=[8], dtype=u32, algorithm=philox4x32)",
           {"s": np.array([key, low, high], np.uint64)},
           [np.array([key, 1, high + 1], np.uint64), np.array(words, np.uint32)])


def keys(f):
    derive = lambda stream, block: philox(KEY, split(block) + split(stream))[:2]
    f.case("split", "rng_split(k, num=4)", {"k": KEY_ARRAY},
           [np.array(draws(lambda i: derive(2**64 - 1, i), 4), np.uint32)])
    f.case("split_none", "rng_split(k, num=0)", {"k": KEY_ARRAY}, [np.zeros((0, 2), np.uint32)])
    for data in [np.int32(0), np.int8(-1), np.uint64(2**64 - 1), np.uint16(7), np.int64(2**40)]:
        f.case("fold_in", "rng_fold_in(k, d)", {"k": KEY_ARRAY, "d": data},
               [np.array(derive(2**64 - 2, int(data) % 2**64), np.uint32)])


def gamma(s, i, a):
    if not a > 0:
        return math.nan
    if math.isinf(a):
        return a
    d = (a + 1 if a < 1 else a) - 1 / 3
    block = lambda c: philox(s.key, split(i) + split(2**63 + c))
    wide = lambda w: [w[0] | w[1] << 32, w[2] | w[3] << 32]
    boost = ((wide(block(1))[1] >> 11) + 0.5) * 2.0**-53
    for t in range(1000):
        v = wide(block(2 * t))
        z = math.sqrt(-2 * math.log(((v[0] >> 11) + 1) * 2.0**-53)) * math.cos(2 * math.pi * (v[1] >> 11) * 2.0**-53)
        u = ((wide(block(2 * t + 1))[0] >> 11) + 0.5) * 2.0**-53
        x = (1 + z / math.sqrt(9 * d))**3
        if x > 0 and math.log(u) < z * z / 2 + d - d * x + d * math.log(x):
            return d * x * (boost**(1 / a) if a < 1 else 1)


def distributions(f):
    s = Stream(KEY)
    root2 = math.sqrt(2)
    for dtype in FLOATS:
        b = bits_of(dtype)
        f.case(f"exponential_{dtype}", f"exponential(k, shape=[10], dtype={dtype})", {"k": KEY_ARRAY},
               [rounded(draws(lambda i: -math.log1p(-s.uniform(b, i)), 10), dtype, (10,))], rel=4)
        z = draws(lambda i: root2 * scipy.special.erfinv((2 * s.open(b, i) - 1) * math.erf(root2)), 10)
        f.case(f"truncated_normal_{dtype}", f"truncated_normal(k, shape=[10], dtype={dtype})", {"k": KEY_ARRAY},
               [rounded(z, dtype, (10,))], rel=8)
        p = np.array([0, 0.25, 0.5, 0.75, 1, np.nan, -1, 2], DTYPES[dtype])
        y = [[s.uniform(b, 8 * r + i) < float(p[i]) for i in range(8)] for r in range(3)]
        f.case(f"bernoulli_{dtype}", "bernoulli(k, p, shape=[3, 8])", {"k": KEY_ARRAY, "p": p}, [np.array(y)])
        a = np.array([[0.01, 0.3, 1, 2.5, 100, np.inf, 0, -1, np.nan]]).astype(DTYPES[dtype])
        y = [[gamma(s, 9 * r + i, float(a[0, i])) for i in range(9)] for r in range(2)]
        f.case(f"gamma_{dtype}", "gamma(k, a, shape=[2, 9])", {"k": KEY_ARRAY, "a": a},
               [rounded(y, dtype, (2, 9))], ulp=16)
        x = f.normal(dtype, (3, 5))
        kept = np.reshape(draws(lambda i: s.uniform(24, i) >= 0.4, 15), (3, 5))
        y = np.where(kept, x.astype(np.float64) / (1 - 0.4), 0)
        f.case(f"dropout_{dtype}", "dropout(x, k, rate=0.4)", {"x": x, "k": KEY_ARRAY}, [y.astype(DTYPES[dtype])],
               ulp=1)
        logits = f.normal(dtype, (4, 5))
        logits[1] = [-np.inf, 1, -np.inf, 0, 0]
        logits[2] = [0, np.inf, 1, np.inf, 0]
        logits[3] = -np.inf
        g = np.reshape(draws(lambda i: -math.log(-math.log(s.open(b, i))), 20), (4, 5))
        f.case(f"categorical_{dtype}", "categorical(k, x)", {"k": KEY_ARRAY, "x": logits},
               [np.argmax(logits.astype(np.float64) + g, axis=1).astype(np.int32)])
    x = np.array([np.inf, np.nan, 1, 2, 3, 4], np.complex64)
    f.case("dropout_everything", "dropout(x, k, rate=1)", {"x": x, "k": KEY_ARRAY}, [np.zeros(6, np.complex64)])
    f.case("dropout_nothing", "dropout(x, k, rate=0)", {"x": x[2:], "k": KEY_ARRAY}, [x[2:]])
    order = sorted(range(20), key=lambda i: (s.wide(i), i))
    f.case("permutation", "permutation(k, n=20)", {"k": KEY_ARRAY}, [np.array(order, np.int32)])
    f.case("permutation_empty", "permutation(k, n=0)", {"k": KEY_ARRAY}, [np.zeros(0, np.int32)])


def sample(row, r, bits, top_k=0, top_p=1.0, temperature=1.0, seed=0):
    if temperature <= 0:
        return int(np.argmax(row))
    order = sorted(range(len(row)), key=lambda i: (-row[i], i))[:top_k or len(row)]
    top = row[order[0]]
    w = {i: 1.0 if row[i] == top else 0.0 if math.isinf(top) else math.exp((row[i] - top) / temperature) for i in order}
    total, held, kept = sum(w.values()), 0.0, []
    for i in order:
        if kept and held >= top_p * total:
            break
        kept.append(i)
        held += w[i]
    if top_p >= 1:
        kept = order
    total, held = sum(w[i] for i in sorted(kept)), 0.0
    u = Stream(split(seed), r).uniform(bits, 0)
    for i in sorted(kept):
        held += w[i]
        if u * total < held:
            return i
    return max(i for i in kept if w[i] > 0)


def samples(f):
    for dtype in FLOATS:
        x = f.normal(dtype, (4, 6))
        x[1, :] = 1  # ties: exactly k are kept, in index order
        x[2, ::2] = -np.inf
        x[3, 2:4] = np.inf
        for options in [{}, {"top_k": 2}, {"top_p": 0.5}, {"top_k": 4, "top_p": 0.7, "temperature": 0.3, "seed": 11},
                        {"temperature": 0}, {"top_p": 0.0, "seed": 3}, {"temperature": 5.0, "seed": 2**33 + 1}]:
            text = "".join(f", {k}={v}" for k, v in options.items())
            y = [sample([float(v) for v in x[r]], r, bits_of(dtype), **options) for r in range(4)]
            f.case(f"sample_{dtype}", f"sample(x{text})", {"x": x}, [np.array(y, np.int32)])
    x = np.zeros((24, 3), np.float32)
    f.case("sample_rows_differ", "sample(x, seed=5)", {"x": x},
           [np.array([sample([0.0] * 3, r, 24, seed=5) for r in range(24)], np.int32)])


with Fixtures("random_draws") as f:
    uniform_and_normal(f)
    raw_bits(f)
    interchange(f)
    keys(f)
    distributions(f)
    samples(f)
