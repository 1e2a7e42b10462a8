# SPDX-License-Identifier: Apache-2.0
"""Cutting, padding, joining and masking against NumPy; exact, in every dtype. `pad` follows the definition of the
manual, element by element: NumPy has neither interior nor negative padding."""
import itertools

import numpy as np

from shape import ODD, write


def pad(x, value, low, high, interior):
    spread = [n and (n - 1) * (i + 1) + 1 for n, i in zip(x.shape, interior)]
    y = np.full([lo + d + hi for lo, d, hi in zip(low, spread, high)], value, x.dtype)
    for at in itertools.product(*map(range, x.shape)):
        to = tuple(lo + i * (gap + 1) for lo, i, gap in zip(low, at, interior))
        if all(0 <= t < n for t, n in zip(to, y.shape)):
            y[to] = x[at]
    return y


def pad_case(shape, low=None, high=None, interior=None):
    given = {"low": low, "high": high, "interior": interior}
    attrs = ", ".join(f"{k}={v}" for k, v in given.items() if v)
    full = [v or [0] * len(shape) for v in given.values()]
    return ("pad", attrs, [shape, ()], lambda x, v: [pad(x, v, *full)])


def slice_case(shape, start, limit, stride=None):
    attrs = f"start={start}, limit={limit}" + (f", stride={stride}" if stride else "")
    cut = tuple(slice(*s) for s in zip(start, limit, stride or [1] * len(shape)))
    return ("slice", attrs, [shape], lambda x: [np.asarray(x[cut])])


def triangle_cases():
    for op, shape, k in itertools.product(("tril", "triu"), ((3, 3), (2, 4), (4, 2), (2, 2, 2), (0, 3)),
                                          (-2, -1, 0, 1, 3)):
        yield (op, f"k={k}", [shape], lambda x, op=op, k=k: [getattr(np, op)(x, k)])


def diagonal_cases():
    for n, k in ((3, 0), (2, 1), (2, -2), (0, 2), (1, 0)):
        yield ("diag", f"k={k}", [(n,)], lambda x, k=k: [np.diag(x, k)])
    for shape, k in itertools.product(((3, 3), (2, 4), (4, 2), (2, 3, 2), (3, 0)), (0, 1, -1, -3, 3, 9)):
        yield ("diag", f"k={k}", [shape], lambda x, k=k: [np.diagonal(x, k, -2, -1)])


CASES = [
    ("narrow", "axis=0, start=1, len=2", [(4, 3)], lambda x: [x[1:3]]),
    ("narrow", "axis=-1, start=0, len=3", [(2, 3)], lambda x: [x]),
    ("narrow", "axis=1, start=2, len=1", [(2, 3, 2)], lambda x: [x[:, 2:]]),
    ("narrow", "axis=0, start=3, len=0", [(3,)], lambda x: [x[3:]]),
    slice_case((4, 5), [1, 0], [3, 5]),
    slice_case((7,), [1], [7], [3]),
    slice_case((7,), [1], [6], [2]),
    slice_case((4, 5), [0, 1], [4, 4], [3, 2]),
    slice_case((3,), [0], [3], [100]),
    slice_case((3,), [2], [2], [2]),
    slice_case((), [], []),
    pad_case((3,), [1], [2]),
    pad_case((2, 3), [1, 0], [0, 1], [0, 2]),
    pad_case((5,), [-1], [-2]),
    pad_case((4,), [-2], [1], [2]),
    pad_case((4,), [1], [-8], [2]),
    pad_case((3,), [4], [-5]),
    pad_case((3,), [-3]),
    pad_case((0,), [1], [2], [3]),
    pad_case((2, 0), [1, 1]),
    pad_case((2, 2)),
    pad_case(()),
    pad_case((2, 2, 2), [0, -1, 1], [1, 1, -1], [1, 0, 1]),
    ("reverse", "axes=[0]", [(4,)], lambda x: [x[::-1]]),
    ("reverse", "axes=[-1]", [(2, 3)], lambda x: [x[:, ::-1]]),
    ("reverse", "axes=[2, 0]", [(2, 3, 2)], lambda x: [x[::-1, :, ::-1]]),
    ("reverse", "axes=[]", [(2, 2)], lambda x: [x]),
    ("reverse", "axes=[0]", [(0, 2)], lambda x: [x]),
    ("concat", "axis=0", [(2, 3), (1, 3)], lambda *x: [np.concatenate(x, 0)]),
    ("concat", "axis=-1", [(2, 3), (2, 1), (2, 2)], lambda *x: [np.concatenate(x, -1)]),
    ("concat", "axis=1", [(2, 1, 2), (2, 2, 2)], lambda *x: [np.concatenate(x, 1)]),
    ("concat", "axis=0", [(3,), (0,), (2,)], lambda *x: [np.concatenate(x, 0)]),
    ("concat", "axis=0", [(2, 2)], lambda x: [x]),
    ("concat", "axis=1", [(0, 2), (0, 1)], lambda *x: [np.concatenate(x, 1)]),
    ("stack", "", [(2, 3), (2, 3)], lambda *x: [np.stack(x)]),
    ("stack", "axis=1", [(2, 2), (2, 2), (2, 2)], lambda *x: [np.stack(x, 1)]),
    ("stack", "axis=-1", [(2, 3), (2, 3)], lambda *x: [np.stack(x, -1)]),
    ("stack", "", [(), (), ()], lambda *x: [np.stack(x)]),
    ("stack", "axis=1", [(2, 0), (2, 0)], lambda *x: [np.stack(x, 1)]),
    ("split", "sizes=[2, 3]", [(5, 2)], lambda x: np.split(x, [2])),
    ("split", "sizes=[1, 0, 3], axis=-1", [(2, 4)], lambda x: np.split(x, [1, 1], -1)),
    ("split", "sizes=[1, 2], axis=1", [(2, 3, 2)], lambda x: np.split(x, [1], 1)),
    ("split", "sizes=[3]", [(3,)], lambda x: [x]),
    ("split", "sizes=[0, 0]", [(0, 2)], lambda x: [x, x]),
    ("unstack", "", [(3, 2)], lambda x: list(x)),
    ("unstack", "axis=-1", [(3, 2)], lambda x: list(x.T)),
    ("unstack", "axis=1", [(2, 3, 2)], lambda x: list(x.swapaxes(0, 1))),
    ("unstack", "", [(2,)], lambda x: list(x)),
    ("unstack", "", [(2, 0)], lambda x: list(x)),
    *triangle_cases(),
    *diagonal_cases(),
]

if __name__ == "__main__":
    write("movement", CASES, [
        ("reverse(a, axes=[0, 1])", ODD[::-1, ::-1]),
        ("concat(a, narrow(a, axis=0, start=1, len=1), axis=0)", ODD[[0, 1, 1]]),
        ("tril(pad(a, 0, low=[1, 0]), k=-1)", np.tril(np.pad(ODD, ((1, 0), (0, 0))), -1)),
    ])
