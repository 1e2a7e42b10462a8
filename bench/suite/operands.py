# SPDX-License-Identifier: Apache-2.0
"""operands.py: operand lists of op cases as text, and their values.

    x:f32[R,C]{-1..1} i:i32[R]{0..R-1}

An operand is a name, a dtype, extents and, in braces, what its values are: a range `lo..hi` (floating-point numbers are
uniform in it; integers are uniform and include both ends; default -1..1), or a word:

    sorted lo..hi   ascending
    iota            0, 1, 2 ...
    dominant        matrices with a large diagonal: well conditioned
    definite        symmetric positive definite matrices
    symmetric       symmetric matrices
    tall            as -1..1, with ones on the diagonal
    small           -1..1 divided by the number of rows
    band            a tridiagonal matrix with a large diagonal
    camera          a camera for gaussian_splat_render
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

NUMPY_DTYPES = {
    "f64": "f8",
    "f32": "f4",
    "bf16": "f4",
    "f16": "f2",
    "c64": "c8",
    "c128": "c16",
    "i64": "i8",
    "i32": "i4",
    "i16": "i2",
    "i8": "i1",
    "u64": "u8",
    "u32": "u4",
    "u16": "u2",
    "u8": "u1",
    "bool": "?",
}
BYTES = {"bf16": 2, "f16": 2}
FLOATING = ("f64", "f32", "bf16", "f16", "c64", "c128")
CAMERA = [0, 0, -3, 0, 0, 0, 0, 1, 0, 60, 0.1, 100] + [0] * 11


@dataclass
class Operand:
    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: str

    @property
    def type_text(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def nbytes(self) -> int:
        one = BYTES.get(self.dtype, np.dtype(NUMPY_DTYPES[self.dtype]).itemsize)
        return one * int(np.prod(self.shape, dtype=np.int64))


def extent(text: str, extents: dict[str, int]) -> int:
    return int(eval(text.replace("/", "//"), {}, dict(extents)))


def parse(text: str, extents: dict[str, int]) -> list[Operand]:
    found = []
    for name, dtype, dims, fill in re.findall(r"(\w+):(\w+)\[([^\]]*)\](?:\{([^}]*)\})?", text):
        shape = tuple(extent(d, extents) for d in dims.split(",") if d)
        fill = re.sub(r"[A-Z]-1\b", lambda m: str(extent(m.group(), extents)), fill)
        found.append(Operand(name, dtype, shape, fill or "-1..1"))
    return found


def uniform(rng: np.random.Generator, o: Operand, low: float, high: float) -> np.ndarray:
    kind = NUMPY_DTYPES[o.dtype]
    if o.dtype in ("c64", "c128"):
        both = rng.uniform(low, high, o.shape) + 1j * rng.uniform(low, high, o.shape)
        return both.astype(kind)
    if o.dtype in FLOATING:
        wide = rng.random(o.shape, dtype=np.float32 if o.dtype == "f32" else np.float64)
        return (low + (high - low) * wide).astype(kind)
    return rng.integers(int(low), int(high) + 1, o.shape).astype(kind)


def matrices(rng: np.random.Generator, o: Operand) -> np.ndarray:
    """Values of the words for matrices; the matrices are the last two axes."""
    rows, columns = o.shape[-2:]
    x = rng.uniform(-1, 1, o.shape)
    if o.fill == "dominant":
        x = x / np.sqrt(rows) + 2 * np.eye(rows, columns)
    elif o.fill == "definite":
        x = (x @ x.swapaxes(-1, -2)) / columns + np.eye(rows)
    elif o.fill == "symmetric":
        x = (x + x.swapaxes(-1, -2)) / 2
    elif o.fill == "tall":
        x = x + np.eye(rows, columns)
    elif o.fill == "small":
        x = x / rows
    else:
        raise ValueError(f"operand {o.name}: '{o.fill}' is neither a range nor a word of operands.py")
    return x.astype(NUMPY_DTYPES[o.dtype])


def value(o: Operand, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    word, _, rest = o.fill.partition(" ")
    if word == "iota":
        return np.arange(int(np.prod(o.shape))).reshape(o.shape).astype(NUMPY_DTYPES[o.dtype])
    if word == "camera":
        return np.array(CAMERA, dtype=NUMPY_DTYPES[o.dtype])
    if word == "band":
        x = rng.uniform(-1, 1, o.shape)
        x[: o.shape[0] // 3] = 4
        return x.astype(NUMPY_DTYPES[o.dtype])
    low, dots, high = (rest or word).partition("..")
    if not dots:
        return matrices(rng, o)
    x = uniform(rng, o, float(low), float(high))
    return np.sort(x) if word == "sorted" else x


def band(unknowns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a tridiagonal matrix, the diagonal first; the ends wrap around."""
    i = np.arange(unknowns)
    return np.concatenate((i, i, i)), np.concatenate((i, (i + 1) % unknowns, (i - 1) % unknowns))
