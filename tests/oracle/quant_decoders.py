# SPDX-License-Identifier: Apache-2.0
"""Packed weight formats, decoded slowly: a block is one long string of bits, and every field is cut out of it by its
place, so that nothing of the usual byte arithmetic is repeated here. From the public descriptions of the formats
(GGUF's block structures; OCP 8-bit floats; NVFP4). Numbers are exact fractions until the last step, but for scales that
are not finite.

    decode("q4_k", bytes) -> list of floats, one block
"""
from fractions import Fraction
import math
import struct


class Bits:
    """Bit i of byte b is bit 8 b + i."""

    def __init__(self, data):
        self.bits = [byte >> i & 1 for byte in data for i in range(8)]

    def unsigned(self, start, width):
        return sum(bit << i for i, bit in enumerate(self.bits[start:start + width]))

    def signed(self, start, width):
        v = self.unsigned(start, width)
        return v - (1 << width) if v >> (width - 1) else v

    def real(self, byte, exponent, mantissa, bias, infinities=True):
        """A float stored from this byte on; a Fraction, or a float where it is inf or nan."""
        start = 8 * byte
        m = self.unsigned(start, mantissa)
        e = self.unsigned(start + mantissa, exponent)
        sign = -1 if self.bits[start + mantissa + exponent] else 1
        top = (1 << exponent) - 1
        if e == top and infinities:
            return sign * math.inf if m == 0 else math.nan
        if e == top and m == (1 << mantissa) - 1:
            return math.nan
        if e == 0:
            return sign * Fraction(m, 1 << mantissa) * Fraction(2) ** (1 - bias)
        return sign * (1 + Fraction(m, 1 << mantissa)) * Fraction(2) ** (e - bias)

    def half(self, byte):
        return self.real(byte, 5, 10, 15)


def times(*factors):
    """A product that is exact where it is finite."""
    if any(isinstance(f, float) for f in factors):
        y = 1.0
        for f in factors:
            y *= float(f)
        return y
    y = Fraction(1)
    for f in factors:
        y *= f
    return y


def plus(a, b):
    return float(a) + float(b) if isinstance(a, float) or isinstance(b, float) else a + b


def rounded(x):
    """To f32, to nearest even, once."""
    if isinstance(x, float):
        return x
    if x == 0:
        return 0.0
    sign, x = (-1, -x) if x < 0 else (1, x)
    e = math.floor(math.log2(x))
    while Fraction(2) ** e > x:
        e -= 1
    while Fraction(2) ** (e + 1) <= x:
        e += 1
    unit = Fraction(2) ** (max(e, -126) - 23)
    n, rest = divmod(x, unit)
    n = int(n) + (1 if rest * 2 > unit or (rest * 2 == unit and n % 2) else 0)
    y = n * unit
    return sign * (math.inf if y >= Fraction(2) ** 128 else float(y))


def nibble(bits, byte, e):
    """Number e of 32 four-bit codes that begin at this byte: 16 in the low halves, 16 in the high ones."""
    return bits.unsigned(8 * (byte + e % 16) + 4 * (e // 16), 4)


def q4_0(b):
    return [times(b.half(0), nibble(b, 2, e) - 8) for e in range(32)]


def q4_1(b):
    return [plus(times(b.half(0), nibble(b, 4, e)), b.half(2)) for e in range(32)]


def q5_0(b):
    return [times(b.half(0), nibble(b, 6, e) + 16 * b.bits[8 * 2 + e] - 16) for e in range(32)]


def q5_1(b):
    return [plus(times(b.half(0), nibble(b, 8, e) + 16 * b.bits[8 * 4 + e]), b.half(2)) for e in range(32)]


def q8_0(b):
    return [times(b.half(0), b.signed(8 * (2 + e), 8)) for e in range(32)]


def crumb(b, byte, e):
    """Number e of 256 two-bit codes: halves of 128 numbers share 32 bytes, four layers of 32 numbers deep."""
    half, layer, place = e // 128, e % 128 // 32, e % 32
    return b.unsigned(8 * (byte + 32 * half + place) + 2 * layer, 2)


def q2_k(b):
    d, least = b.half(80), b.half(82)
    return [plus(times(d, b.unsigned(8 * (e // 16), 4), crumb(b, 16, e)),
                 times(-1, least, b.unsigned(8 * (e // 16) + 4, 4)))
            for e in range(256)]


def q3_scales(b):
    """Sixteen six-bit scales in twelve bytes: four low bits of each in the first eight, two high bits in the last
    four."""
    low = [b.unsigned(8 * (96 + t % 8) + 4 * (t // 8), 4) for t in range(16)]
    high = [b.unsigned(8 * (104 + t % 4) + 2 * (t // 4), 2) for t in range(16)]
    return [l + 16 * h - 32 for l, h in zip(low, high)]


def q3_k(b):
    scales = q3_scales(b)
    # One bit of the mask for each number: byte e mod 32, bit e div 32.
    code = [crumb(b, 32, e) + 4 * b.bits[8 * (e % 32) + e // 32] - 4 for e in range(256)]
    return [times(b.half(108), scales[e // 16], code[e]) for e in range(256)]


def six_bit(b, t):
    """Scale and minimum of sub-block t."""
    if t < 4:
        return b.unsigned(8 * (4 + t), 6), b.unsigned(8 * (8 + t), 6)
    return (b.unsigned(8 * (8 + t), 4) + 16 * b.unsigned(8 * t + 6, 2),
            b.unsigned(8 * (8 + t) + 4, 4) + 16 * b.unsigned(8 * (4 + t) + 6, 2))


def pairs(b, high_bits, codes):
    y = []
    for e in range(256):
        t, place = e // 32, e % 32
        scale, least = six_bit(b, t)
        code = b.unsigned(8 * (codes + 32 * (t // 2) + place) + 4 * (t % 2), 4)
        if high_bits:
            code += 16 * b.bits[8 * (high_bits + place) + t]
        y.append(plus(times(b.half(0), scale, code), times(-1, b.half(2), least)))
    return y


def q4_k(b):
    return pairs(b, 0, 16)


def q5_k(b):
    return pairs(b, 16, 48)


def q6_k(b):
    y = []
    for e in range(256):
        half, layer, place = e // 128, e % 128 // 32, e % 32
        low = b.unsigned(8 * (64 * half + 32 * (layer % 2) + place) + 4 * (layer // 2), 4)
        high = b.unsigned(8 * (128 + 32 * half + place) + 2 * layer, 2)
        y.append(times(b.half(208), b.signed(8 * (192 + e // 16), 8), low + 16 * high - 32))
    return y


def q8_k(b):
    return [times(b.real(0, 8, 23, 127), b.signed(8 * (4 + e), 8)) for e in range(256)]


SIZES = {"q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q8_0": (32, 34), "q2_k": (256, 84),
         "q3_k": (256, 110), "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210), "q8_k": (256, 292)}
# Where the f16 scales stand.
HALVES = {"q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q2_k": [80, 82], "q3_k": [108],
          "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208], "q8_k": []}


def decode(scheme, block):
    assert len(block) == SIZES[scheme][1]
    return [rounded(x) for x in globals()[scheme](Bits(block))]


def e4m3(byte):
    return float(Bits([byte]).real(0, 4, 3, 7, infinities=False))


def e5m2(byte):
    return float(Bits([byte]).real(0, 5, 2, 15))


def e2m1(code):
    """1-2-1, bias 1, neither infinities nor NaN."""
    e, m = code >> 1 & 3, code & 1
    return (-1.0 if code >> 3 else 1.0) * (m * 0.5 if e == 0 else (1 + m * 0.5) * 2.0 ** (e - 1))


def check():
    """The decoders against values that the formats' descriptions state."""
    assert [e4m3(c) for c in (0x00, 0x01, 0x08, 0x38, 0x7e)] == [0, 2.0 ** -9, 2.0 ** -6, 1,
                                                                 448] and math.isnan(e4m3(0x7f))
    assert [e5m2(c) for c in (0x01, 0x04, 0x3c, 0x7b, 0x7c)] == [2.0 ** -16, 2.0 ** -14, 1, 57344, math.inf]
    assert [e2m1(c) for c in range(8)] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    for bits in (0x0001, 0x03ff, 0x0400, 0x3c00, 0x7bff, 0xfbff, 0x7c00, 0xfc00):
        assert float(Bits(struct.pack("<H", bits)).half(0)) == struct.unpack("<e", struct.pack("<H", bits))[0]


check()
