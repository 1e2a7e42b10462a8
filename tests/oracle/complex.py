# SPDX-License-Identifier: Apache-2.0
"""Oracle of the complex family: NumPy, in float64 and rounded once."""
import numpy as np
from oracle import DTYPES, Fixtures
from rounding import FLOATS, INTS, rounded, wide

nan, inf = np.nan, np.inf
PARTS = {"c64": "f32", "c128": "f64"}


def edges(dtype):
    """Zeros of all signs, infinities and NaNs in either part."""
    re = np.array([0.0, -0.0, 0.0, -0.0, -1.0, -1.0, 1.0, inf, -inf, nan, 2.0, 0.0])
    im = np.array([0.0, 0.0, -0.0, -0.0, 0.0, -0.0, inf, nan, -inf, 1.0, nan, -3.0])
    z = np.empty(re.shape, DTYPES[dtype])
    z.real, z.imag = re, im
    return z


def angle(x):
    return np.arctan2(x.imag, x.real) if x.dtype.kind == "c" else np.arctan2(0.0, x)


if __name__ == "__main__":
    np.seterr(all="ignore")
    with Fixtures("complex") as f:
        for d, part in PARTS.items():
            re, im = f.normal(part, (2, 3)), f.normal(part, (3,))
            z = np.empty((2, 3), DTYPES[d])
            z.real, z.imag = re, im
            f.case(f"complex_{part}", "complex(re, im)", {"re": re, "im": im}, [z])
            e = edges(d)
            f.case(f"complex_edges_{part}", "complex(re, im)", {"re": e.real.copy(), "im": e.imag.copy()}, [e])
            empty = np.zeros((0, 2), DTYPES[part])
            f.case(f"complex_empty_{part}", "complex(re, im)", {"re": empty, "im": empty[:, :1]},
                   [empty.astype(DTYPES[d])])
            for tag, x in (("", f.normal(d, (3, 2))), ("_edges", e), ("_scalar", f.normal(d, ()))):
                w = wide(x)
                f.case(f"real{tag}_{d}", "real(z)", {"z": x}, [x.real])
                f.case(f"imag{tag}_{d}", "imag(z)", {"z": x}, [x.imag])
                f.case(f"conjugate{tag}_{d}", "conjugate(z)", {"z": x}, [np.conj(x)])
                f.case(f"angle{tag}_{d}", "angle(z)", {"z": x}, [rounded(part, angle(w))], ulp=1)
                f.case(f"complex_norm_sq{tag}_{d}", "complex_norm_sq(z)", {"z": x},
                       [rounded(part, w.real * w.real + w.imag * w.imag)])
        for d in FLOATS:
            x = np.array([0.0, -0.0, 2.5, -2.5, inf, -inf, nan]).astype(DTYPES[d])
            f.case(f"real_{d}", "real(x)", {"x": x}, [x])
            f.case(f"imag_{d}", "imag(x)", {"x": x}, [np.zeros_like(x)])
            f.case(f"conjugate_{d}", "conjugate(x)", {"x": x}, [x])
            f.case(f"angle_{d}", "angle(x)", {"x": x}, [rounded(d, angle(wide(x)))], ulp=1)
        for d in INTS + ["bool"]:
            x = f.normal(d, (4,))
            f.case(f"conjugate_{d}", "conjugate(x)", {"x": x}, [x])
