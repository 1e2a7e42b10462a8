#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JAX functions run and differentiated by Fluxion.

JAX writes each function as StableHLO text, which `flx run` runs as it is; `flx grad` turns the text into the graph of
its gradient, which is piped to `flx run`. Values and gradients are compared with those of JAX.

    examples/jax_functions.py [--device cpu|ref] [--flx PROGRAM] [--keep DIR] [NAME...]

Needs jax, numpy and build/flx (script/build). Prints the largest error of each function, |a - b| / max(1, |b|), and the
time of the commands, compilation included; the exit status is 1 if an error is above the tolerance.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

TOLERANCE = 2e-5  # in f32

# ---- The bridge: all that is needed to hand a JAX function to Fluxion ----


class Flx:
    """Runs JAX functions through the command line."""

    def __init__(self, program, device, keep=None):
        self.program, self.device, self.keep = program, device, keep

    @staticmethod
    def text(f, args):
        return jax.jit(f, keep_unused=True).lower(*args).as_text()

    def _call(self, arguments, stdin):
        done = subprocess.run([self.program, *arguments], input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    def _run(self, program_text, args):
        with tempfile.TemporaryDirectory() as folder:
            given = []
            for i, x in enumerate(args):
                path = f"{folder}/arg{i}.npy"
                np.save(path, np.asarray(x))
                given += ["--in", f"arg{i}={path}"]
            self._call(["run", "-", "--device", self.device, "--out", f"{folder}/out", *given], program_text)
            return {p.stem: np.load(p) for p in pathlib.Path(folder, "out").glob("*.npy")}

    def values(self, name, f, args):
        """The results of f, as a list."""
        text = self.text(f, args)
        if self.keep:
            pathlib.Path(self.keep, f"{name}.mlir").write_text(text)
        out = self._run(text, args)
        return [out[f"out{i}"] for i in range(len(out))]

    def gradients(self, f, args, wrt):
        """The gradients of f, whose only result is a number, by the arguments at the positions `wrt`."""
        graph = self._call(["grad", "-", "--wrt", ",".join(f"arg{i}" for i in wrt)], self.text(f, args))
        out = self._run(graph, args)
        return [out[f"d_arg{i}"] for i in wrt]


# ---- The functions: name, function, arguments, which of them are differentiated with respect to ----

rng = np.random.default_rng(0)


def normal(*shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def symmetric(n):
    a = normal(n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


CASES = []


def case(*args, wrt=()):
    def add(f):
        CASES.append((f.__name__, f, args, wrt))
        return f

    return add


@case(
    normal(8, 5),
    normal(5, 16, scale=0.3),
    normal(16),
    normal(16, 3, scale=0.3),
    np.arange(8, dtype=np.int32) % 3,
    wrt=(1, 2, 3),
)
def softmax_cross_entropy(x, w1, b1, w2, labels):
    logits = jnp.tanh(x @ w1 + b1) @ w2
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(8), labels])


def norm(x, scale, shift):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


@case(normal(4, 6), normal(6), normal(6), wrt=(0, 1, 2))
def layer_norm(x, scale, shift):
    return norm(x, scale, shift)


@case(
    normal(2, 6, 16),
    normal(16, 48, scale=0.2),
    normal(16, 16, scale=0.2),
    normal(16, 32, scale=0.2),
    normal(32, 16, scale=0.2),
    wrt=(0, 1, 2, 3, 4),
)
def transformer_block(x, w_qkv, w_out, w_up, w_down):
    heads, one = 4, jnp.ones(16, x.dtype)
    n, length, width = x.shape
    q, k, v = jnp.split(norm(x, one, 0 * one) @ w_qkv, 3, axis=-1)
    q, k, v = (t.reshape(n, length, heads, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
    scores = jnp.einsum("nhqd,nhkd->nhqk", q, k) / np.sqrt(width / heads).astype(np.float32)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("nhqk,nhkd->nhqd", jax.nn.softmax(scores), v)
    x = x + mixed.transpose(0, 2, 1, 3).reshape(n, length, width) @ w_out
    return x + jax.nn.gelu(norm(x, one, 0 * one) @ w_up) @ w_down


@case(normal(2, 8, 8, 3), normal(3, 3, 3, 4, scale=0.3), normal(3, 3, 4, 5, scale=0.3), normal(5, 2), wrt=(0, 1, 2, 3))
def convolution_net(x, w1, w2, w3):
    def conv(y, w, stride):
        return lax.conv_general_dilated(y, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    y = jax.nn.relu(conv(x, w1, 1))
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    y = jax.nn.relu(conv(y, w2, 2))
    return jnp.mean(y, axis=(1, 2)) @ w3


def lorenz(y):
    return jnp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])


def rk4(f, y, h):
    k1 = f(y)
    k2 = f(y + h / 2 * k1)
    k3 = f(y + h / 2 * k2)
    k4 = f(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@case(normal(3), np.float32(0.01), wrt=(0, 1))
def ode_step(y, h):
    return rk4(lorenz, y, h)


@case(normal(2), np.float32(0.7), wrt=(0, 1))
def ode_loop(y, stiffness):
    def f(y):
        return jnp.stack([y[1], stiffness * (1 - y[0] ** 2) * y[1] - y[0]])

    return lax.fori_loop(0, 40, lambda i, y: rk4(f, y, 0.05), y)


@case(normal(7, 4), normal(3), normal(3, 3, scale=0.4), normal(4, 3, scale=0.4), wrt=(0, 1, 2, 3))
def scan_rnn(xs, h, w, u):
    def step(h, x):
        h = jnp.tanh(h @ w + x @ u)
        return h, h

    return lax.scan(step, h, xs)


@case(np.array([2.0, 9.0, 50.0], np.float32))
def while_newton(x):
    def step(state):
        y, _ = state
        new = (y + x / y) / 2
        return new, jnp.max(jnp.abs(new - y))

    return lax.while_loop(lambda s: s[1] > 1e-6, step, (x, jnp.float32(1)))[0]


@case(normal(5), np.float32(0.3), wrt=(0,))
def cond_and_switch(x, t):
    y = lax.cond(t > 0, jnp.sin, jnp.cos, x)
    return lax.switch(jnp.int32(2 * t + 1), [jnp.exp, jnp.tanh, jnp.square], y)


@case(normal(4, 3), normal(3), wrt=(0, 1))
def jax_gradient(x, w):
    return jax.grad(lambda w: jnp.mean(jnp.log1p(jnp.exp(-jnp.sin(x @ w)))))(w)


@case(normal(4), normal(4), wrt=(0,))
def jax_hessian_product(x, v):
    def rosenbrock(x):
        return jnp.sum(2 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    return jax.jvp(jax.grad(rosenbrock), (x,), (v,))[1]


@case(normal(6, 3), normal(6, 3, 3), wrt=(0, 1))
def vmapped_quadratic(x, a):
    return jax.vmap(lambda v, m: jnp.dot(v, jnp.tanh(m @ v)))(x, a)


@case(normal(4, 9), wrt=(0,))
def sorting(x):
    return jnp.sort(x, axis=1), jnp.argsort(x, axis=1)


@case(normal(3, 8), wrt=(0,))
def cumulative(x):
    return jnp.cumsum(x, axis=1), jnp.cumprod(x, axis=1), lax.cummax(x, axis=1)


@case(normal(3, 10), wrt=(0,))
def top_three(x):
    return lax.top_k(x, 3)


@case(symmetric(4), normal(4, 2), wrt=(0, 1))
def linear_solve(a, b):
    return jnp.linalg.solve(a, b)


@case(symmetric(4), normal(4), wrt=(0, 1))
def gaussian_likelihood(a, x):
    root = jnp.linalg.cholesky(a)
    z = lax.linalg.triangular_solve(root, x[:, None], left_side=True, lower=True)
    return jnp.sum(z**2) / 2 + jnp.sum(jnp.log(jnp.diagonal(root)))


@case(normal(2, 12), wrt=(0,))
def fft_power(x):
    return jnp.abs(jnp.fft.rfft(x)) ** 2


@case(np.array([1, 2], np.uint32), normal(4), wrt=(1,))
def random_dropout(key, x):
    bits, draw = jax.random.split(key)
    kept = jax.random.bernoulli(bits, 0.7, (4,))
    return jnp.where(kept, x / 0.7, 0), jax.random.normal(draw, (3,)), jax.random.bits(draw, (5,))


@case(normal(10, 2), np.array([0, 2, 1, 0, 3, 2, 2, 1, 0, 3], np.int32), wrt=(0,))
def segment_sum(x, segment):
    return jax.ops.segment_sum(x, segment, num_segments=4)


@case(normal(6, 3), normal(4), np.array([5, 0, 2, 2], np.int32), wrt=(0, 1))
def gather_and_scatter(table, update, index):
    return table[index].sum(axis=1), table.at[index, 1].add(update), table.at[index, 0].max(update)


@case(normal(2, 3, 4), normal(4, 3, 5), normal(5), wrt=(0, 1, 2))
def tensor_contraction(a, b, c):
    return jnp.einsum("ijk,kjl,l->il", a, b, c)


@case(normal(3, 5, scale=30), wrt=(0,))
def log_sum_exp(x):
    return jax.nn.logsumexp(x, axis=1)


@case(normal(5), normal(5), wrt=(0, 1))
def complex_function(re, im):
    z = lax.complex(re, im)
    w = jnp.exp(1j * z) * jnp.sqrt(z) / (z**2 + 2)
    return jnp.abs(w), jnp.angle(w), jnp.real(w * jnp.conj(z))


@case(np.linspace(0.5, 4, 6, dtype=np.float32), wrt=(0,))
def special_functions(x):
    return lax.erf(x), lax.lgamma(x), lax.digamma(x), lax.bessel_i1e(x), jax.nn.gelu(x, approximate=False)


# ---- Comparing ----


def as_list(value):
    return [np.asarray(v) for v in jax.tree_util.tree_leaves(value)]


def scalar(f):
    """A loss: the sum of what f returns in floats, each element with another weight."""

    def loss(*args):
        total = jnp.float32(0)
        for y in jax.tree_util.tree_leaves(f(*args)):
            if jnp.issubdtype(y.dtype, jnp.floating):
                total += jnp.sum(y * jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape))
        return total

    return loss


def error_between(ours, theirs):
    worst = 0.0
    if len(ours) != len(theirs):
        raise RuntimeError(f"{len(ours)} results instead of {len(theirs)}")
    for a, b in zip(ours, theirs):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise RuntimeError(f"{a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}")
        if a.size:
            a, b = (v.astype(np.complex128 if np.iscomplexobj(v) else np.float64) for v in (a, b))
            distance = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b) / np.maximum(1, np.abs(b)))
            worst = max(worst, float(np.max(distance)))
    return worst


def measure(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def compare(flx, name, f, args, wrt):
    """Prints one line of the table; whether all agrees."""
    line, ok = f"{name:24}", True
    steps = [(lambda: flx.values(name, f, args), lambda: as_list(jax.jit(f)(*args)))]
    if wrt:
        loss = scalar(f)
        steps.append((lambda: flx.gradients(loss, args, wrt), lambda: as_list(jax.jit(jax.grad(loss, wrt))(*args))))
    for ours, theirs in steps:
        try:
            result, seconds = measure(ours)
            error = error_between(result, theirs())
            ok = ok and error <= TOLERANCE
            line += f" {error:9.1e} {seconds:7.2f} s" + ("" if error <= TOLERANCE else " !")
        except RuntimeError as problem:
            ok = False
            line += f" {problem}"
    print(line if wrt else f"{line}         -")
    return ok


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "ref"])
    parser.add_argument("--flx", default=str(root / "build" / "flx"), help="the program (build/flx)")
    parser.add_argument("--keep", metavar="DIR", help="write the text of each function to DIR/NAME.mlir")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these functions")
    options = parser.parse_args()
    if not os.access(options.flx, os.X_OK):
        parser.error(f"there is no program {options.flx}; run script/build first")
    known = [name for name, *_ in CASES]
    for name in options.names:
        if name not in known:
            parser.error(f"there is no function {name}; known are: {', '.join(known)}")
    if options.keep:
        pathlib.Path(options.keep).mkdir(parents=True, exist_ok=True)

    flx = Flx(options.flx, options.device, options.keep)
    print(f"{'function':24}     value      time  gradient      time")
    results = [compare(flx, *row) for row in CASES if not options.names or row[0] in options.names]
    print(f"{sum(results)} of {len(results)} functions agree with JAX to {TOLERANCE:g}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
