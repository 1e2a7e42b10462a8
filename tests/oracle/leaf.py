# SPDX-License-Identifier: Apache-2.0
"""Leaves: full, iota, eye and dim_size against NumPy."""
import numpy as np

from oracle import DTYPES, Fixtures

NUMBERS = [d for d in DTYPES if d != "bool"]


def iota(dtype, shape, axis):
    """Counts in 64 bits; casting wraps integers and rounds floats once."""
    wide = np.arange(shape[axis], dtype=np.int64)
    count = wide.astype(np.float64).astype(DTYPES[dtype]) if dtype[0] in "fbc" else wide.astype(DTYPES[dtype])
    line = [1] * len(shape)
    line[axis] = -1
    return np.broadcast_to(count.reshape(line), shape)


with Fixtures("leaf") as f:
    for d, t in DTYPES.items():
        f.case(f"full_{d}", f"full({d}[2, 2], 1)", {}, [np.ones((2, 2), t)])
        f.case(f"eye_{d}", f"eye(n=2, m=3, k=1, dtype={d})", {}, [np.eye(2, 3, 1).astype(t)])
    for value in ("inf", "-inf", "nan", "-0.0", "0.1", "65519", "65520", "1e-45"):
        with np.errstate(over="ignore"):
            for d in ("f64", "f32", "f16", "bf16"):
                f.case("full_edge", f"full({d}[1], {value})", {}, [np.full(1, float(value)).astype(DTYPES[d])])
    f.case("full_max", "full(u64[2], 18446744073709551615)", {}, [np.full(2, 2**64 - 1, np.uint64)])
    f.case("full_min", "full(i64[2], -9223372036854775808)", {}, [np.full(2, -2**63, np.int64)])
    f.case("full_negative_zero", "bitcast(full(f32[2], -0.0), to=u32)", {}, [np.full(2, 2**31, np.uint32)])
    f.case("full_scalar", "full(i8[], -128)", {}, [np.int8(-128)])
    f.case("full_false", "full(bool[3], false)", {}, [np.zeros(3, bool)])
    f.case("full_empty", "full(f32[2, 0], 1)", {}, [np.zeros((2, 0), np.float32)])

    for d in NUMBERS:
        f.case(f"iota_{d}", f"iota({d}[5])", {}, [iota(d, (5,), 0)])
    for axis in range(-3, 3):
        f.case("iota_axis", f"iota(i32[2, 3, 2], axis={axis})", {}, [iota("i32", (2, 3, 2), axis)])
    f.case("iota_empty", "iota(f32[0, 2], axis=1)", {}, [np.zeros((0, 2), np.float32)])
    f.case("iota_empty", "iota(f32[2, 0], axis=1)", {}, [np.zeros((2, 0), np.float32)])
    # The tail of a long count: where a narrow dtype rounds or wraps.
    for d, n in (("bf16", 270), ("f16", 2060), ("i8", 260), ("u8", 260)):
        f.case(f"iota_tail_{d}", f"narrow(iota({d}[{n}]), axis=0, start={n - 12}, len=12)", {},
               [iota(d, (n,), 0)[-12:]])

    for n, m, k in ((3, 3, 0), (3, 3, -2), (3, 3, 3), (4, 2, -1), (1, 4, 2), (0, 3, 0), (3, 0, 0), (2, 2, 9),
                    (2, 2, -9)):
        f.case("eye_shape", f"eye(n={n}, m={m}, k={k})", {}, [np.eye(n, m, k, np.float32)])
    f.case("eye_square", "eye(n=3)", {}, [np.eye(3, dtype=np.float32)])

    x = f.normal("bf16", (2, 0, 3))
    for axis in (0, 1, 2, -1, -3):
        f.case("dim_size", f"dim_size(a, axis={axis})", {"a": x}, [np.int64(x.shape[axis])])
