# SPDX-License-Identifier: Apache-2.0
"""The hints for names of other frameworks, as they are written: their values at infinities, zeros and ties, and their
first and second derivatives there, in f64."""

import math
import re

import pytest

np = pytest.importorskip("numpy")
import fluxion as fx  # noqa: E402
from fluxion import _core, xp  # noqa: E402

INF, NAN = math.inf, math.nan


def recipe(name, inputs, dots):
    """The graph of `write RESULT, a = A, b = B`: each part is defined by those that follow it."""
    note = re.split(r"; | for |, which|, then", re.sub(r"^write ", "", _core.foreign(name)[3]))[0]
    parts = re.split(r",? (?:with |= |: )?(\b[a-z]\w*) = ", note)
    values = dict(zip(parts[1::2], parts[2::2]))
    text = "".join(f"  {n} = {v}\n" for n, v in reversed(values.items())) + f"  result = {parts[0]}\n"
    for d in dots:
        text = text.replace("…", d, 1)
    declared = ", ".join(f"{n}: f64[{e}]" for n, e in inputs.items())
    return fx.from_text(f"graph f({declared}) {{\n{text}  return result\n}}\n")


KEEP = ("keep_dims=true", "axes=[-1], keep_dims=true")
PAIR = {"a": "", "b": ""}
QUARTER = [[.25, -.25], [-.25, .25]]

# (name, inputs, what stands for dots, point, value, gradient, Hessian); None: not compared
CASES = [
    ("logaddexp", PAIR, (), [1, 1], 1 + math.log(2), [.5, .5], QUARTER),
    ("logaddexp", PAIR, (), [-INF, -INF], -INF, None, None),
    ("logaddexp", PAIR, (), [INF, INF], INF, None, None),
    ("logaddexp", PAIR, (), [INF, 1], INF, [1, 0], [[0, 0], [0, 0]]),
    ("logaddexp", PAIR, (), [-INF, 1], 1, [0, 1], [[0, 0], [0, 0]]),
    ("logaddexp", PAIR, (), [1e300, -1e300], 1e300, [1, 0], [[0, 0], [0, 0]]),
    ("logaddexp", PAIR, (), [0, -30], math.log1p(math.exp(-30)), None, None),
    ("xlogy", {"x": "", "y": ""}, (), [0, 2], 0, [math.log(2), 0], [[0, .5], [.5, 0]]),
    ("xlogy", {"x": "", "y": ""}, (), [0, 0], 0, None, None),
    ("xlogy", {"x": "", "y": ""}, (), [0, INF], 0, None, None),
    ("xlogy", {"x": "", "y": ""}, (), [1, 0], -INF, None, None),
    ("hypot", PAIR, (), [3, 0], 3, [1, 0], [[0, 0], [0, 1 / 3]]),
    ("hypot", PAIR, (), [0, 0], 0, [0, 0], None),
    ("hypot", PAIR, (), [3e200, 4e200], 5e200, [.6, .8], [[0, 0], [0, 0]]),
    ("logsumexp", {"x": 2}, KEEP, [1, 1], 1 + math.log(2), [.5, .5], QUARTER),
    ("logsumexp", {"x": 2}, KEEP, [-INF, -INF], -INF, None, None),
    ("logsumexp", {"x": 2}, KEEP, [1e300, 1e300], 1e300, [.5, .5], None),
    ("logsumexp", {"x": 2}, KEEP, [INF, 1], INF, None, None),
    ("reduce_log_sum_exp", {"x": 2}, KEEP, [1e300, -INF], 1e300, [1, 0], None),
    ("sinc", {"x": ""}, (), [0], 1, [0], [[-math.pi ** 2 / 3]]),
    ("sinc", {"x": ""}, (), [.5], 2 / math.pi, [-4 / math.pi], None),
    ("kl_div", {"p": 1, "log_q": 1}, (), [0, -3], 0, None, None),
    ("kl_div", {"p": 1, "log_q": 1}, (), [.5, -1], .5 * math.log(.5) + .5, [math.log(.5) + 2, -.5], [[2, -1], [-1, 0]]),
    ("logit", {"p": ""}, (), [.5], 0, [4], [[0]]),
    ("logsigmoid", {"x": ""}, (), [0], -math.log(2), [.5], [[-.25]]),
    ("logsigmoid", {"x": ""}, (), [-INF], -INF, [1], None),
    ("softsign", {"x": ""}, (), [0], 0, [1], None),
    ("cosine_similarity", {"a": 2, "b": 2}, (), [1, 0, 1, 0], 1, [0, 0, 0, 0],
     [[0, 0, 0, 0], [0, -1, 0, 1], [0, 0, 0, 0], [0, 1, 0, -1]]),
    ("std", {"x": 2}, (), [1, 3], 1, [-.5, .5], [[0, 0], [0, 0]]),
    ("reduce_std", {"x": 2}, (), [1, 3], 1, [-.5, .5], [[0, 0], [0, 0]]),
    ("var", {"x": 2}, (), [2, 2], 0, [0, 0], [[.5, -.5], [-.5, .5]]),
    ("tanhshrink", {"x": ""}, (), [0], 0, [0], [[0]]),
    ("cdist", {"a": "1, 2", "b": "1, 2"}, (), [0, 0, 3, 0], 3, [-1, 0, 1, 0], None),
    ("i0", {"x": ""}, (), [0], 1, [0], [[.5]]),
    ("i1", {"x": ""}, (), [0], 0, [.5], [[0]]),
    ("fmax", PAIR, (), [NAN, 2], 2, [0, 1], None),
    ("isclose", PAIR | {"atol": "", "rtol": ""}, (), [INF, INF, 1e-8, 1e-5], True, None, None),
    ("isclose", PAIR | {"atol": "", "rtol": ""}, (), [1, INF, 1e-8, 1e-5], False, None, None),
    ("allclose", PAIR | {"atol": "", "rtol": ""}, (), [INF, INF, 1e-8, 1e-5], True, None, None),
    ("allclose", PAIR | {"atol": "", "rtol": ""}, (), [1, -INF, 1e-8, 1e-5], False, None, None),
    ("floor_divide", PAIR, (), [-7, 2], -4, [0, 0], [[0, 0], [0, 0]]),
    ("copysign", {"x": "", "y": ""}, (), [2, -1], -2, [-1, 0], None),
    ("heaviside", {"x": "", "h": ""}, (), [0, .5], .5, None, None),
    ("huber_loss", {"y": "", "t": ""}, (), [1, 1], 0, [0, 0], [[1, -1], [-1, 1]]),
    ("huber_loss", {"y": "", "t": ""}, (), [4, 1], 2.5, [1, -1], [[0, 0], [0, 0]]),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{c[0]} {c[3]}" for c in CASES])
def test_recipe(case):
    name, inputs, dots, point, value, gradient, hessian = case
    graph = recipe(name, inputs, dots)
    x = xp.asarray(point, dtype="float64")

    def function(v):
        values, at = [], 0
        for extent in inputs.values():
            shape = tuple(int(n) for n in str(extent).split(",")) if extent else ()
            count = math.prod(shape)
            values.append(xp.reshape(v[at:at + count], shape))
            at += count
        found = graph(*values)
        return xp.reshape(found[0] if isinstance(found, tuple) else found, ())

    np.testing.assert_allclose(np.asarray(function(x)), value, rtol=1e-14)
    if gradient is not None:
        np.testing.assert_allclose(np.asarray(fx.grad(function)(x)), gradient, rtol=1e-8, atol=1e-10)
    if hessian is not None:
        np.testing.assert_allclose(np.asarray(fx.hessian(function)(x)), hessian, rtol=1e-6, atol=1e-8)
