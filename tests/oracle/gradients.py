"""Writes the fixtures of derivatives and batching: functions as graphs, and what JAX says their gradients, Hessians, Jacobians,
tangents, Taylor terms and batched values are. tests/ops/oracle_transforms.c applies the transforms to the graphs and compares.

    t.fn("logistic", "reduce_sum(softplus(x))", lambda x: jnp.sum(jnp.logaddexp(x, 0)), "grad hess", x=normal(4))

is a function: its body as text (statements separated by ";", or one expression), the same in JAX, the kinds wanted, and how
each input is drawn. The fixture holds the graph `logistic` and, for each kind, a graph `logistic__KIND__rel64` that returns
the inputs, the tangents where the kind needs them, and the answers. Kinds:

    grad      the value and the gradient by every floating input     nth3      flx_nth_grad to order 3, by the first one
    hvp       the same, and the Hessian times the tangents           taylor4   flx_taylor to order 4, along tangents of all
    hess      every block of the Hessian                             vmap      all inputs batched
    jac       the Jacobians of every output                          vmapone   the first input batched, the others shared
    jvp       the values and their tangents                          vmapgrad, gradone: per-example gradients, likewise

Answers serve more than one transform: hvp holds grad's, taylor4 holds jvp's, and each lane of a batched case is a case.

How close: rel=N allows N units in the last place of the largest magnitude of an answer. A result is a chain of elementary
functions and sums, each off by a few units on both sides; the default, 64, is for chains of some ten steps, 256 for sums and
products of some ten terms and for the recurrences of high orders, 4096 for what iterates. Points have few digits, so that
both sides read the same number. Answers for f32 are computed in f64 and rounded.

Where JAX has another convention than the specification, the JAX function is written so that its derivative is the specified
one, with a remark beside it. One holds throughout: for complex z = x + iy JAX's gradient of a real loss is dL/dx - i dL/dy,
the conjugate of ours.
"""
import os
import runpy
import sys
import zlib

import jax
import jax.numpy as jnp
import numpy as np
from oracle import DTYPES, HERE, NAMES, literal, type_text

jax.config.update("jax_enable_x64", True)
WIDE = {"f32": np.float64, "c64": np.complex128}


# ---- How inputs are drawn: functions of a generator and the number of the lane ----

def _rounded(x, dtype):
    return np.asarray(np.round(x * 16) / 16 if dtype in ("f32", "c64") else np.round(x, 3)).astype(DTYPES[dtype])


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


# ---- Answers: lists of arrays, in the order of the transform's outputs ----

def _several(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def _conj(x):
    return np.conj(x) if np.iscomplexobj(x) else np.asarray(x)


class Problem:
    """A function at a point. `wrt` are the numbers of its floating inputs."""

    def __init__(self, f, args, tangents):
        self.f, self.args, self.tangents = f, args, tangents
        self.wrt = [k for k, x in enumerate(args) if x.dtype.kind in "fc"]

    def of_wrt(self, f=None):
        """The function of the floating inputs alone, and where they are."""
        def g(*floats):
            args = list(self.args)
            for k, x in zip(self.wrt, floats):
                args[k] = x
            return (f or self.f)(*args)
        return g, [jnp.asarray(self.args[k]) for k in self.wrt]

    def grad(self):
        g, xs = self.of_wrt()
        value, grads = jax.value_and_grad(g, tuple(range(len(xs))))(*xs)
        return [value] + [_conj(d) for d in grads]

    def hvp(self):
        g, xs = self.of_wrt()
        grads = jax.grad(g, tuple(range(len(xs))))
        return self.grad() + [_conj(t) for t in jax.jvp(grads, xs, list(map(jnp.asarray, self.tangents)))[1]]

    def hess(self):
        g, xs = self.of_wrt()
        return [b for row in jax.hessian(g, tuple(range(len(xs))))(*xs) for b in row]

    def jac(self):
        g, xs = self.of_wrt()
        jacobians = jax.jacfwd(lambda *x: _several(g(*x)), tuple(range(len(xs))))(*xs)
        return [j for row in jacobians for j in row]

    def jvp(self):
        g, xs = self.of_wrt()
        values, tangents = jax.jvp(lambda *x: _several(g(*x)), xs, list(map(jnp.asarray, self.tangents)))
        return values + tangents

    def taylor4(self):
        g, xs = self.of_wrt()
        def along(t):
            return _several(g(*[x + t * v for x, v in zip(xs, self.tangents)]))
        terms = along(0.0)
        for _ in range(4):
            along = jax.jacfwd(along)
            terms += along(0.0)
        return terms

    def nth3(self):
        g, xs = self.of_wrt()
        def contracted(f):
            return jax.grad(lambda x: jnp.sum(f(x)))
        return [contracted(contracted(contracted(lambda x: g(x, *xs[1:]))))(xs[0])]

    def value(self):
        return _several(self.f(*map(jnp.asarray, self.args)))


LANES = 2
BATCHED = {"vmap": "value", "vmapone": "value", "vmapgrad": "grad", "gradone": "grad"}


class Topic:
    """One fixture file."""

    def __init__(self, name):
        self.name, self.lines, self.functions, self.cases = name, [], 0, 0

    def fn(self, name, text, f, kinds, rel=64, bodies="", **inputs):
        assert "__" not in name
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        lanes = [[np.asarray(draw(rng, k)) for draw in inputs.values()] for k in range(LANES)]
        tangents = [[_rounded(rng.standard_normal(x.shape) + (1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else 0),
                              NAMES[x.dtype.name]) for x in lanes[0] if x.dtype.kind in "fc"]]
        narrow = [x for x in lanes[0] if NAMES[x.dtype.name] in WIDE]
        if "return" not in text:
            text = "return " + text
        declared = ", ".join(f"{key}: {type_text(x)}" for key, x in zip(inputs, lanes[0]))
        body = "\n".join("  " + line.strip() for line in text.split(";"))
        self.lines.append(bodies.strip() + "\n" if bodies else "")
        self.lines.append(f"graph {name}({declared}) {{\n{body}\n}}\n")
        self.functions += 1
        for kind in kinds.split():
            given, answers = self.answer(kind, f, lanes, tangents[0])
            answers = [np.asarray(y) for y in answers]
            if narrow:
                answers = [y.astype({"f": np.float32, "c": np.complex64}.get(y.dtype.kind, y.dtype)) for y in answers]
            returned = ",\n    ".join(map(short_literal, given)) + ",\n    " + ",\n    ".join(map(short_literal, answers))
            self.lines.append(f"graph {name}__{kind}__rel{rel}() {{\n  return {returned}\n}}\n")
            self.cases += 1

    @staticmethod
    def answer(kind, f, lanes, tangents):
        wide = [[x.astype(WIDE.get(NAMES[x.dtype.name], x.dtype)) for x in lane] for lane in lanes]
        steps = [x.astype(WIDE.get(NAMES[x.dtype.name], x.dtype)) for x in tangents]
        if kind not in BATCHED:
            given = lanes[0] + (tangents if kind in ("jvp", "hvp", "taylor4") else [])
            return given, getattr(Problem(f, wide[0], steps), kind)()
        one = kind in ("vmapone", "gradone")
        points = [lane[:1] + wide[0][1:] if one else lane for lane in wide]
        rows = [getattr(Problem(f, point, steps), BATCHED[kind])() for point in points]
        given = [np.stack([lane[k] for lane in lanes]) if k == 0 or not one else lanes[0][k] for k in range(len(lanes[0]))]
        return given, [np.stack([np.asarray(row[k]) for row in rows]) for k in range(len(rows[0]))]

    def write(self):
        path = os.path.join(HERE, "transforms", self.name + ".flx")
        with open(path, "w") as out:
            out.write(f"# Generated by tests/oracle/gradients.py from functions/{self.name}.py; do not edit.\n"
                      + "".join(self.lines))
        print(f"transforms/{self.name}: {self.functions} functions, {self.cases} cases, {os.path.getsize(path)} bytes")


def short_literal(x):
    """The elements as a list where that is shorter than their bytes."""
    def nested(v):
        if isinstance(v, list):
            return "[" + ", ".join(map(nested, v)) + "]"
        return str(v).lower() if isinstance(v, bool) else repr(v).removesuffix(".0")
    x = np.asarray(x, order="C")
    if x.dtype.kind == "c":
        return literal(x)
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
