# SPDX-License-Identifier: Apache-2.0
"""Shape ops against NumPy. Elements are only moved, so every case must match exactly, in every dtype."""
import numpy as np

from oracle import DTYPES, Fixtures


def broadcast_in_dim(x, shape, axes):
    """Axis i of x goes to axis axes[i]; NumPy broadcasts once they are in order."""
    order = np.argsort(axes)
    line = [1] * len(shape)
    for axis in order:
        line[axes[axis]] = x.shape[axis]
    return np.broadcast_to(np.transpose(x, order).reshape(line), shape)


# Op, attributes, operand shapes, NumPy's answer as a list of results.
CASES = [
    ("reshape", "shape=[3, 2]", [(2, 3)], lambda x: [x.reshape(3, 2)]),
    ("reshape", "shape=[2, -1, 3]", [(3, 4)], lambda x: [x.reshape(2, -1, 3)]),
    ("reshape", "shape=[]", [(1, 1)], lambda x: [x.reshape(())]),
    ("reshape", "shape=[1, -1]", [()], lambda x: [x.reshape(1, 1)]),
    ("reshape", "shape=[0, 5]", [(2, 0)], lambda x: [x.reshape(0, 5)]),
    ("reshape", "shape=[-1, 4]", [(2, 0)], lambda x: [x.reshape(-1, 4)]),
    ("transpose", "", [(2, 3)], lambda x: [x.T]),
    ("transpose", "", [(2, 3, 2)], lambda x: [x.T]),
    ("transpose", "perm=[1, 2, 0]", [(2, 3, 2)], lambda x: [x.transpose(1, 2, 0)]),
    ("transpose", "perm=[0, -1, 1]", [(2, 3, 2)], lambda x: [x.transpose(0, 2, 1)]),
    ("transpose", "perm=[3, 1, 0, 2]", [(1, 2, 3, 2)], lambda x: [x.transpose(3, 1, 0, 2)]),
    ("transpose", "perm=[]", [()], lambda x: [x]),
    ("transpose", "perm=[1, 0]", [(0, 2)], lambda x: [x.T]),
    ("expand", "shape=[2, 3]", [(2, 1)], lambda x: [np.broadcast_to(x, (2, 3))]),
    ("expand", "shape=[2, 2, 3]", [(2, 1)], lambda x: [np.broadcast_to(x, (2, 2, 3))]),
    ("expand", "shape=[2, -1, 3]", [(2, 1)], lambda x: [np.broadcast_to(x, (2, 2, 3))]),
    ("expand", "shape=[2, 2]", [()], lambda x: [np.broadcast_to(x, (2, 2))]),
    ("expand", "shape=[0, 2]", [(1, 2)], lambda x: [np.broadcast_to(x, (0, 2))]),
    ("broadcast_in_dim", "shape=[3, 2], axes=[0]", [(3,)], lambda x: [broadcast_in_dim(x, (3, 2), [0])]),
    ("broadcast_in_dim", "shape=[2, 2, 3], axes=[2, 0]", [(3, 2)], lambda x: [broadcast_in_dim(x, (2, 2, 3), [2, 0])]),
    ("broadcast_in_dim", "shape=[2, 3], axes=[-1, -2]", [(1, 2)], lambda x: [broadcast_in_dim(x, (2, 3), [1, 0])]),
    ("broadcast_in_dim", "shape=[2, 2], axes=[]", [()], lambda x: [broadcast_in_dim(x, (2, 2), [])]),
    ("squeeze", "", [(1, 3, 1)], lambda x: [np.squeeze(x)]),
    ("squeeze", "axes=[-1]", [(1, 3, 1)], lambda x: [np.squeeze(x, -1)]),
    ("squeeze", "axes=[2, 0]", [(1, 3, 1)], lambda x: [np.squeeze(x, (0, 2))]),
    ("squeeze", "axes=[]", [(1, 3)], lambda x: [x]),
    ("unsqueeze", "axes=[0]", [(3, 2)], lambda x: [np.expand_dims(x, 0)]),
    ("unsqueeze", "axes=[-1, 1]", [(3, 2)], lambda x: [np.expand_dims(x, (-1, 1))]),
    ("unsqueeze", "axes=[1, 0]", [()], lambda x: [np.expand_dims(x, (0, 1))]),
    ("tile", "repeats=[2, 3]", [(2, 2)], lambda x: [np.tile(x, (2, 3))]),
    ("tile", "repeats=[1, 2, 2]", [(2, 1, 3)], lambda x: [np.tile(x, (1, 2, 2))]),
    ("tile", "repeats=[0]", [(3,)], lambda x: [np.tile(x, 0)]),
    ("tile", "repeats=[2, 3]", [(2, 0)], lambda x: [np.tile(x, (2, 3))]),
    ("repeat", "repeats=2, axis=0", [(2, 3)], lambda x: [np.repeat(x, 2, 0)]),
    ("repeat", "repeats=3, axis=-1", [(2, 2)], lambda x: [np.repeat(x, 3, -1)]),
    ("repeat", "repeats=2, axis=1", [(2, 2, 2)], lambda x: [np.repeat(x, 2, 1)]),
    ("repeat", "repeats=0, axis=0", [(3,)], lambda x: [np.repeat(x, 0, 0)]),
    ("roll", "shift=2, axis=0", [(5,)], lambda x: [np.roll(x, 2, 0)]),
    ("roll", "shift=-1, axis=-1", [(2, 4)], lambda x: [np.roll(x, -1, -1)]),
    ("roll", "shift=-4, axis=0", [(4, 2)], lambda x: [np.roll(x, -4, 0)]),
    ("roll", "shift=1000001, axis=1", [(2, 3, 2)], lambda x: [np.roll(x, 1000001, 1)]),
    ("roll", "shift=1, axis=0", [(0,)], lambda x: [x]),
    ("meshgrid", "", [(3,), (2,)], lambda *x: np.meshgrid(*x, indexing="ij")),
    ("meshgrid", "indexing=xy", [(3,), (2,)], lambda *x: np.meshgrid(*x, indexing="xy")),
    ("meshgrid", "indexing=xy", [(3,), (2,), (2,)], lambda *x: np.meshgrid(*x, indexing="xy")),
    ("meshgrid", "indexing=xy", [(3,)], lambda *x: np.meshgrid(*x, indexing="xy")),
    ("meshgrid", "", [(2,), (0,)], lambda *x: np.meshgrid(*x, indexing="ij")),
]


# A NaN's payload, a signalling NaN, a negative zero: what arithmetic would not keep.
ODD = np.array([[0x7fc12345, 0xffc54321], [0x80000000, 0x7f800001]], np.uint32)


def write(family, cases, odd):
    """Each case in two dtypes, each op in every dtype; the dtypes take turns. `odd` are expressions over a, with their
    answers for ODD: elements are moved as bytes."""
    with Fixtures(family) as f:
        names, turn = list(DTYPES), 0
        for op in dict.fromkeys(c[0] for c in cases):
            of_op = [c for c in cases if c[0] == op]
            for k in range(max(2 * len(of_op), len(names))):
                d, turn = names[turn % len(names)], turn + 1
                _, attrs, shapes, answer = of_op[k % len(of_op)]
                xs = {chr(ord("a") + i): f.normal(d, s) for i, s in enumerate(shapes)}
                call = f"{op}({', '.join([*xs, attrs] if attrs else xs)})"
                f.case(f"{op}_{d}", call, xs, answer(*xs.values()))
        for call, answer in odd:
            f.case("odd_bits", f"bitcast({call}, to=u32)", {"a": ODD.view(np.float32)}, [answer])


if __name__ == "__main__":
    write("shape", CASES, [("transpose(a)", ODD.T), ("tile(roll(a, shift=1, axis=0), repeats=[1, 2])",
                                                     np.tile(np.roll(ODD, 1, 0), (1, 2)))])
