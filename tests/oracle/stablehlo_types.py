# SPDX-License-Identifier: Apache-2.0
"""Programs on element types narrower than any dtype, with answers from ml_dtypes, as StableHLO text that checks itself:
fixtures/stablehlo/<type>.mlir. tests/stablehlo/stablehlo_types.c runs them.

Floats: what every code stands for; the code of every value, of every tie between neighbours and of the floats next to
it, and of numbers beyond the format, from f32 and f64; sums and products of all codes with some. Integers: each
operation on all pairs.
"""
import os
import numpy as np
import ml_dtypes as m

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "stablehlo")
FLOATS = {"f4E2M1FN": m.float4_e2m1fn, "f6E2M3FN": m.float6_e2m3fn, "f6E3M2FN": m.float6_e3m2fn,
          "f8E3M4": m.float8_e3m4,
          "f8E4M3": m.float8_e4m3, "f8E4M3FN": m.float8_e4m3fn, "f8E4M3FNUZ": m.float8_e4m3fnuz,
          "f8E4M3B11FNUZ": m.float8_e4m3b11fnuz, "f8E5M2": m.float8_e5m2, "f8E5M2FNUZ": m.float8_e5m2fnuz,
          "f8E8M0FNU": m.float8_e8m0fnu}
INTS = {"i2": m.int2, "i4": m.int4, "ui2": m.uint2, "ui4": m.uint4}
TEXT = {"float32": "f32", "float64": "f64", "uint8": "ui8", "int8": "i8", "int32": "i32"}


class Program:
    def __init__(self):
        self.lines, self.n = [], 0

    def op(self, text):
        self.n += 1
        self.lines.append(f"    %{self.n} = {text}")
        return f"%{self.n}"

    def constant(self, x):
        x = np.ascontiguousarray(x)
        return self.op(f'stablehlo.constant dense<"0x{x.tobytes().hex().upper()}"> : '
                       f'tensor<{x.size}x{TEXT[x.dtype.name]}>')

    def expect(self, value, wanted):
        t = f"tensor<{wanted.size}x{TEXT[wanted.dtype.name]}>"
        self.lines.append(f"    stablehlo.custom_call @check.expect_eq({value}, {self.constant(wanted)}) "
                          f"{{has_side_effect = true}} : ({t}, {t}) -> ()")

    def write(self, name):
        text = ["// Made by tests/oracle/stablehlo_types.py from ml_dtypes; do not edit.", "func.func public @main() {",
                *self.lines, "    return", "}", ""]
        with open(os.path.join(HERE, name + ".mlir"), "w") as f:
            f.write("\n".join(text))


def convert(p, value, n, source, target):
    return p.op(f"stablehlo.convert {value} : (tensor<{n}x{source}>) -> tensor<{n}x{target}>")


def codes_to_values(p, name, dtype, bits):
    codes = np.arange(1 << bits, dtype=np.uint8)
    if bits == 8:
        narrow = p.op(f"stablehlo.bitcast_convert {p.constant(codes)} : (tensor<256xui8>) -> tensor<256x{name}>")
        p.expect(convert(p, narrow, 256, name, "f32"), codes.view(dtype).astype(np.float32))
        back = p.op(f"stablehlo.bitcast_convert {narrow} : (tensor<256x{name}>) -> tensor<256xui8>")
        exact = codes.view(dtype)
        p.expect(back, np.where(np.isnan(exact.astype(np.float32)), canonical_nan(dtype), codes).astype(np.uint8))
    return codes.view(dtype).astype(np.float32)


def canonical_nan(dtype):
    return np.array([np.nan], np.float32).astype(dtype).view(np.uint8)[0]


def interesting(values):
    """All values, the middles of neighbours, and the floats beside those."""
    v = np.unique(values[np.isfinite(values)].astype(np.float64))
    ties = (v[1:] + v[:-1]) / 2
    beyond = np.array([v[-1] * 2, v[-1] * 1.0001, v[-1] + (v[-1] - v[-2]) / 2, v[0] * 2, 1e30, -1e30, 1e-30, -1e-30,
                       np.inf, -np.inf, np.nan, -0.0, 0.0])
    with np.errstate(over="ignore"):
        base = np.concatenate([v, ties, beyond]).astype(np.float32)
        return np.concatenate([base, np.nextafter(base, np.float32(np.inf)), np.nextafter(base, np.float32(-np.inf))])


def beside_ties(values, dtype):
    """Numbers of f64 so near to a tie that f32 would make ties of them (as ml_dtypes does), and the values they belong
    to."""
    v = np.unique(values[np.isfinite(values)].astype(np.float64))
    ties = (v[1:] + v[:-1]) / 2
    near = np.concatenate([np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
    nearest = np.concatenate([v[1:], v[:-1]]).astype(np.float32)
    zero = np.copysign(np.float32(0), near).astype(np.float32).astype(dtype).astype(np.float32)
    return near, np.where(nearest == 0, zero, nearest)


def floats(name, dtype, bits):
    p = Program()
    values = codes_to_values(p, name, dtype, bits)
    x = interesting(values)
    if name == "f8E8M0FNU":  # of numbers next to 2^-127 ml_dtypes does not find the nearest power
        x = x[~((x > 2.0**-127) & (x < 1.5 * 2.0**-127))]
    narrow = convert(p, p.constant(x), x.size, "f32", name)
    rounded = x.astype(dtype).astype(np.float32)
    p.expect(convert(p, narrow, x.size, name, "f32"), rounded)
    near, nearest = beside_ties(values, dtype)
    wide = convert(p, p.constant(near), near.size, "f64", name)
    p.expect(convert(p, wide, near.size, name, "f32"), nearest)
    finite = values[np.isfinite(values)]
    for op, f in (("add", np.add), ("multiply", np.multiply), ("divide", np.divide), ("subtract", np.subtract)):
        with np.errstate(all="ignore"):
            y = np.roll(finite, 7)
            a, b = (convert(p, p.constant(v), finite.size, "f32", name) for v in (finite, y))
            exact = f(finite.astype(np.float64), y.astype(np.float64))
            p.expect(convert(p, p.op(f"stablehlo.{op} {a}, {b} : tensor<{finite.size}x{name}>"), finite.size, name,
                             "f32"),
                     exact.astype(dtype).astype(np.float32))
    p.write(name)


def wrap(x, bits, signed):
    x = np.asarray(x, np.int64) & ((1 << bits) - 1)
    return np.where(x >= 1 << (bits - 1), x - (1 << bits), x) if signed else x


def integers(name, bits, signed):
    p = Program()
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    a, b = (v.ravel() for v in np.meshgrid(np.arange(low, high), np.arange(low, high)))
    mask = (1 << bits) - 1
    ua, ub = a & mask, b & mask
    n, t, carrier = a.size, f"tensor<{a.size}x{name}>", np.int8 if signed else np.uint8
    x, y = (convert(p, p.constant(v.astype(np.int32)), n, "i32", name) for v in (a, b))

    def expect(value, wanted):
        p.expect(convert(p, value, n, name, TEXT[np.dtype(carrier).name]), wrap(wanted, bits, signed).astype(carrier))

    quotient = np.sign(a) * np.sign(b) * (abs(a) // np.maximum(abs(b), 1))
    binary = {"add": a + b, "subtract": a - b, "multiply": a * b, "maximum": np.maximum(a, b),
              "minimum": np.minimum(a, b),
              "and": a & b, "or": a | b, "xor": a ^ b, "shift_left": np.where(ub < bits, ua << np.minimum(ub, bits), 0),
              "shift_right_logical": np.where(ub < bits, ua >> np.minimum(ub, bits), 0),
              "shift_right_arithmetic": (a if signed else wrap(a, bits, True)) >> np.minimum(ub, bits)}
    for op, wanted in binary.items():
        expect(p.op(f"stablehlo.{op} {x}, {y} : {t}"), wanted)
    nonzero = convert(p, p.constant(np.where(b == 0, 1, b).astype(np.int32)), n, "i32", name)
    expect(p.op(f"stablehlo.divide {x}, {nonzero} : {t}"), np.where(b == 0, a, quotient))
    expect(p.op(f"stablehlo.remainder {x}, {nonzero} : {t}"), np.where(b == 0, 0, a - quotient * b))
    expect(p.op(f"stablehlo.negate {x} : {t}"), -a)
    expect(p.op(f"stablehlo.not {x} : {t}"), ~a)
    expect(p.op(f"stablehlo.popcnt {x} : {t}"), [bin(v).count("1") for v in ua])
    expect(p.op(f"stablehlo.count_leading_zeros {x} : {t}"), [bits - int(v).bit_length() for v in ua])
    if signed:
        expect(p.op(f"stablehlo.abs {x} : {t}"), abs(a))
        expect(p.op(f"stablehlo.sign {x} : {t}"), np.sign(a))
    expect(p.op(f"stablehlo.iota dim = 0 : {t}"), np.arange(n))
    many = np.arange(n, dtype=np.int32) * 37 - 700
    expect(convert(p, p.constant(many), n, "i32", name), many)
    per = 8 // bits
    pack = p.op(f"stablehlo.reshape {x} : ({t}) -> tensor<{n // per}x{per}x{name}>")
    packed = p.op(f"stablehlo.bitcast_convert {pack} : (tensor<{n // per}x{per}x{name}>) -> tensor<{n // per}xui8>")
    codes = (ua.reshape(-1, per) << (np.arange(per) * bits)).sum(1).astype(np.uint8)
    p.expect(packed, codes)
    back = p.op(f"stablehlo.bitcast_convert {packed} : (tensor<{n // per}xui8>) -> tensor<{n // per}x{per}x{name}>")
    expect(p.op(f"stablehlo.reshape {back} : (tensor<{n // per}x{per}x{name}>) -> {t}"), a)
    p.write(name)


if __name__ == "__main__":
    os.makedirs(HERE, exist_ok=True)
    for name, dtype in FLOATS.items():
        floats(name, dtype, int(name[1]))
    for name in INTS:
        integers(name, int(name[-1]), not name.startswith("u"))
