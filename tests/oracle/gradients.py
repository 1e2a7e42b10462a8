# SPDX-License-Identifier: Apache-2.0
"""Writes the fixtures of derivatives and batching: functions as graphs, and what JAX says their gradients, Hessians,
Jacobians, tangents, Taylor terms and batched values are. tests/ops/oracle/oracle_transforms.c applies the transforms to the
graphs and compares.

    t.fn("logistic", "reduce_sum(softplus(x))", lambda x: jnp.sum(jnp.logaddexp(x, 0)), "grad hess", x=normal(4))

is a function: its body as text (statements separated by ";", or one expression), the same in JAX, the kinds wanted, and
how each input is drawn. The fixture holds the graph `logistic`; `logistic__point`, which returns the inputs, with lanes
along a leading axis if a kind is batched, and then tangents if a kind has them; and for each kind a graph
`logistic__KIND__rel64` that returns the answers. Kinds:

    grad      the value and the gradient with respect to every floating input
    hvp       the same, and the Hessian times the tangents
    hess      every block of the Hessian
    jac       the Jacobians of every output
    jvp       the values and their tangents
    nth3      flx_nth_grad to order 3, with respect to the first input
    taylor4   flx_taylor to order 4, along tangents of all inputs
    vmap      all inputs batched
    vmapone   the first input batched, the others shared
    vmapgrad  per-example gradients, all inputs batched; gradone: the first one batched

Answers serve more than one transform: hvp holds grad's, taylor4 holds jvp's, and each lane of a batched case is a case.

How close: to N = 64 units in the last place of the largest magnitude of an answer (4 for f16 and bf16). Where rounding
alone can take more, by the noise that noise.py measures in the JAX program, the answer is called yK__2pE, and the units
are those of 2^E (m: of 2^-E). So an answer that is zero except for rounding can be compared. Points have few digits, so
that both sides read the same number. Answers for narrow types are computed in f64 and rounded.

Where JAX has another convention than the specification, the JAX function is written so that its derivative is the
specified one: `note` says how, also in the fixture, and `plain` is the function as JAX alone has it, of the same
values; the note must hold, so its derivative must be another. One convention holds throughout: for complex z = x + iy
JAX's gradient of a real loss is dL/dx - i dL/dy, the conjugate of ours, and conjugated here.
"""
import math
import os
import runpy
import sys
import zlib

import jax
import jax.numpy as jnp
import numpy as np
from noise import run_with_noise
from oracle import DTYPES, HERE, NAMES, literal, type_text

jax.config.update("jax_enable_x64", True)
WIDE = {"f32": np.float64, "f16": np.float64, "bf16": np.float64, "c64": np.complex128}


# ---- How inputs are drawn: functions of a generator and the number of the lane ----

def _rounded(x, dtype):
    return np.asarray(np.round(x * 16) / 16 if dtype in WIDE else np.round(x, 2)).astype(DTYPES[dtype])


def normal(*shape, dtype="f64"):
    def draw(rng, lane):
        x = rng.standard_normal(shape)
        return _rounded(x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x, dtype)
    return draw


def uniform(lo, hi, *shape, dtype="f64"):
    return lambda rng, lane: _rounded(rng.uniform(lo, hi, shape), dtype)


def distinct(*shape, dtype="f64"):
    """No two elements closer than 0.1: for functions that compare their inputs."""
    count = int(np.prod(shape))
    return lambda rng, lane: _rounded((rng.permutation(count) - count / 2.2) * 0.25 + rng.uniform(0, 0.15, count),
                                      dtype).reshape(shape)


def integers(lo, hi, *shape, dtype="i32"):
    return lambda rng, lane: np.asarray(rng.integers(lo, hi, shape)).astype(DTYPES[dtype])


def at(*lanes, dtype="f64"):
    """These points, one for each lane, over and over."""
    return lambda rng, lane: np.asarray(lanes[lane % len(lanes)]).astype(DTYPES[dtype])


# ---- Answers: functions of the floating inputs that give lists of arrays, in the order of the transform's outputs ----

def _several(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def _by_all(transform, g, xs):
    return transform(g, tuple(range(len(xs))))(*xs)


def _gradient(g, xs):
    """Of a real loss; by complex inputs the conjugate of what JAX gives."""
    return [jnp.conj(d) for d in _by_all(jax.grad, g, xs)]


def value(g, xs, tangents):
    return _several(g(*xs))


def grad(g, xs, tangents):
    return _several(g(*xs)) + _gradient(g, xs)


def hvp(g, xs, tangents):
    return grad(g, xs, tangents) + jax.jvp(lambda *x: _gradient(g, x), xs, tangents)[1]


def hess(g, xs, tangents):
    return [block for row in _by_all(jax.hessian, g, xs) for block in row]


def jac(g, xs, tangents):
    return [j for row in _by_all(jax.jacfwd, lambda *x: _several(g(*x)), xs) for j in row]


def jvp(g, xs, tangents):
    values, moved = jax.jvp(lambda *x: _several(g(*x)), xs, tangents)
    return values + moved


def taylor4(g, xs, tangents):
    def derivative(f):
        return lambda *x: jax.jvp(f, x, tuple(tangents))[1]
    along, terms = lambda *x: _several(g(*x)), []
    for _ in range(5):
        terms += along(*xs)
        along = derivative(along)
    return terms


def nth3(g, xs, tangents):
    def contracted(f):
        return jax.grad(lambda x: jnp.sum(f(x)))
    return [contracted(contracted(contracted(lambda x: g(x, *xs[1:]))))(xs[0])]


KINDS = {f.__name__: f for f in (grad, hvp, hess, jac, jvp, taylor4, nth3)}
BATCHED = {"vmap": value, "vmapone": value, "vmapgrad": grad, "gradone": grad}
LANES = 2


def answer(kind, f, args, tangents, samples=4):
    """At one point, in f64: the answers, and how much each suffers from rounding (noise.py)."""
    wrt = [k for k, x in enumerate(args) if is_floating(x)]
    args, tangents = [[widened(x) for x in xs] for xs in (args, tangents)]
    def of_floats(*xs):
        floats = dict(zip(wrt, xs))
        return f(*[floats.get(k, x) for k, x in enumerate(args)])
    return run_with_noise(lambda *xs: kind(of_floats, list(xs), tangents), [jnp.asarray(args[k]) for k in wrt], samples)


def is_floating(x):
    return NAMES[x.dtype.name][0] in "fcb" and x.dtype != bool


def widened(x):
    return x.astype(WIDE.get(NAMES[x.dtype.name], x.dtype))


def narrowed(y, inputs):
    """Answers have the precision of the inputs, which is one."""
    names = {NAMES[x.dtype.name] for x in inputs} & set(WIDE)
    if not names or y.dtype.kind not in "fc":
        return y
    if y.dtype.kind == "c" or names == {"c64"}:
        return y.astype(np.complex64 if y.dtype.kind == "c" else np.float32)
    return y.astype(DTYPES[(names - {"c64"}).pop()])


# ---- Fixtures ----

def scale_of(y, moved, rel):
    """-inf where the largest magnitude of y can be the measure of its error. Otherwise cancellation has left y, or a
    lane of it, smaller than what it was made from, or it is made in many steps, and this is the exponent of a power of
    two to measure with. Rounding moves each side by `moved` half units in the last place of 1; twice that for two
    sides, four times that for another order of operations."""
    needed = 8 * moved / 2
    largest = np.max(np.abs(y[np.isfinite(y)]), initial=0.0)
    return math.ceil(math.log2(needed / rel)) if needed > rel * largest / 2 else -math.inf


def check_note(name, f, plain, args):
    """The function as JAX has it must have the values, and not the derivatives."""
    (mine, theirs) = [[np.asarray(y) for y in answer(grad, g, args, [], samples=0)[0]] for g in (f, plain)]
    assert np.allclose(mine[0], theirs[0]), f"{name}: another function than what JAX has"
    same = all(np.allclose(a, b) for a, b in zip(mine, theirs))
    assert not same, f"{name}: JAX has the same derivative, so the note is wrong"


class Topic:
    """One fixture file."""

    def __init__(self, name):
        self.name, self.lines, self.functions, self.cases, self.scaled = name, [], 0, 0, 0

    def fn(self, name, text, f, kinds, bodies="", note="", plain=None, **inputs):
        assert "__" not in name
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        lanes = [[np.asarray(draw(rng, k)) for draw in inputs.values()] for k in range(LANES)]
        tangents = [_rounded(rng.standard_normal(x.shape)
                             + (1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else 0),
                             NAMES[x.dtype.name]) for x in lanes[0] if is_floating(x)]
        if plain:
            check_note(name, f, plain, lanes[0])
        if any(x.dtype.kind == "c" for x in lanes[0]) and any(kind in kinds for kind in ("grad", "hvp")):
            note += "\ngradients by complex inputs: the conjugates of JAX's"
        if "return" not in text:
            text = "return " + text
        declared = ", ".join(f"{key}: {type_text(x)}" for key, x in zip(inputs, lanes[0]))
        body = "\n".join("  " + line.strip() for line in text.split(";"))
        self.lines.append(bodies.strip() + "\n" if bodies else "")
        self.lines.append("".join(f"# {line.strip()}\n" for line in note.strip().splitlines()))
        self.lines.append(f"graph {name}({declared}) {{\n{body}\n}}\n")
        self.functions += 1
        given = [np.stack(rows) for rows in zip(*lanes)] if set(kinds.split()) & set(BATCHED) else lanes[0]
        self.graph(f"{name}__point", given + (tangents if set(kinds.split()) & {"hvp", "jvp", "taylor4"} else []))
        for kind in kinds.split():
            self.case(name, kind, f, lanes, tangents)

    def graph(self, name, tensors, names=None):
        """A graph of constants; those with a name get it."""
        texts = [short_literal(x) for x in tensors]
        lines = [f"  {names[k]} = {texts[k]}\n" for k in sorted(names or {})]
        returned = ",\n    ".join((names or {}).get(k, text) for k, text in enumerate(texts))
        self.lines.append(f"graph {name}() {{\n{''.join(lines)}  return {returned}\n}}\n")

    def case(self, name, kind, f, lanes, tangents):
        rel = 4 if any(x.dtype.itemsize == 2 and is_floating(x) for x in lanes[0]) else 64
        answers, names = [], {}
        for k, rows in enumerate(self.answers(kind, f, lanes, tangents)):
            y = np.stack([y for y, _ in rows]) if kind in BATCHED else rows[0][0]
            scale = max((scale_of(*row, rel) for row in rows if is_floating(y)), default=-math.inf)
            if scale > -math.inf:
                names[k] = f"y{k}__2{'m' if scale < 0 else 'p'}{abs(scale)}"
            answers.append(narrowed(y, lanes[0]))
        self.graph(f"{name}__{kind}__rel{rel}", answers, names)
        self.cases += 1
        self.scaled += len(names)

    @staticmethod
    def answers(kind, f, lanes, tangents):
        """For each answer its rows with their noise: one, or one for each lane."""
        if kind in KINDS:
            points = lanes[:1]
        else:
            points = [lane[:1] + lanes[0][1:] for lane in lanes] if kind in ("vmapone", "gradone") else lanes
        transform = KINDS.get(kind) or BATCHED[kind]
        return list(zip(*[zip(*answer(transform, f, point, tangents)) for point in points]))

    def write(self):
        path = os.path.join(HERE, "transforms", self.name + ".flx")
        with open(path, "w") as out:
            out.write(f"# Generated by tests/oracle/gradients.py from functions/{self.name}.py; do not edit.\n"
                      + "".join(self.lines))
        print(f"transforms/{self.name}: {self.functions} functions, {self.cases} cases, {self.scaled} scaled answers, "
              f"{os.path.getsize(path)} bytes")


def short_literal(x):
    """The elements as a list where that is shorter than their bytes."""
    def nested(v):
        if isinstance(v, list):
            return "[" + ", ".join(map(nested, v)) + "]"
        if isinstance(v, complex):
            return nested([v.real, v.imag]) if v.imag else nested(v.real)
        return str(v).lower() if isinstance(v, bool) else repr(v).removesuffix(".0")
    x = np.asarray(x, order="C")
    listed = f"const({type_text(x)}, {nested(x.tolist())})"
    return min(listed, literal(x), key=len)


def main():
    folder = os.path.join(HERE, "functions")
    for script in sorted(os.listdir(folder)):
        if script.endswith(".py") and (len(sys.argv) < 2 or script[:-3] in sys.argv[1:]):
            topic = Topic(script[:-3])
            runpy.run_path(os.path.join(folder, script))["add"](topic)
            topic.write()


if __name__ == "__main__":
    main()
