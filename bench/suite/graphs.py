# SPDX-License-Identifier: Apache-2.0
"""graphs.py: the workloads as graphs of ours: text, then the transforms of `flx` (grad, hvp, vmap, jac), then for a
training step one more graph that updates the parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable

import numpy as np

from fluxion import Flx

Shape = dict[str, int]
Inputs = dict[str, np.ndarray]
DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int8": "i8"}
MAKERS: dict[str, Callable] = {}


def named(*names: str):
    def add(f):
        MAKERS.update({n: f for n in names})
        return f

    return add


def exists(name: str) -> bool:
    return name in MAKERS


def make(flx: Flx, name: str, shape: Shape, inputs: Inputs, folder: Path) -> Path:
    """Writes the graph file of a workload, all transforms applied."""
    return MAKERS[name](Maker(flx, folder), shape, inputs)


def type_of(value: np.ndarray) -> str:
    return f"{DTYPES[value.dtype.name]}[{', '.join(map(str, value.shape))}]"


def declared(inputs: Inputs, without: tuple[str, ...] = ("d_output",)) -> str:
    return ", ".join(f"{n}: {type_of(v)}" for n, v in inputs.items() if n not in without)


class Maker:
    def __init__(self, flx: Flx, folder: Path):
        self.flx, self.folder, self.count = flx, folder, 0

    def path(self) -> Path:
        self.count += 1
        return self.folder / f"own{self.count}.flx"

    def text(self, text: str) -> Path:
        path = self.path()
        path.write_text(text)
        return path

    def transformed(self, command: str, source: Path, *options: str) -> Path:
        return self.flx.transform(command, source, self.path(), *options)

    def grad(self, source: Path, wrt: list[str], *options: str) -> Path:
        return self.transformed("grad", source, "--wrt", ",".join(wrt), *options)

    def wrapped(
        self,
        source: Path,
        inputs: Inputs,
        lines: Callable[[list[str]], tuple[list[str], list[str]]],
        more: Inputs | None = None,
    ) -> Path:
        """One more graph around the main graph of a file: `lines` gets the names of its outputs and returns statements
        and the names to return. `more` are inputs that only the new graph has."""
        known = json.loads(self.flx.call("check", str(source), "--json").splitlines()[-1])
        outputs = [o["name"] for o in known["outputs"]]
        operands = [i["name"] for i in known["inputs"] + known["parameters"]]
        body, returned = lines(outputs)
        text = (
            f"graph step({declared(dict(inputs, **(more or {})))}) {{\n"
            f"  {', '.join(outputs)} = call({', '.join(operands)}, body=@{known['graph']})\n"
        )
        text += "".join(f"  {statement}\n" for statement in body) + f"  return {', '.join(returned)}\n}}\n"
        return self.text(source.read_text() + text)

    def sgd(self, source: Path, parameters: list[str], inputs: Inputs) -> Path:
        derived = self.grad(source, parameters, "--value")

        def lines(outputs: list[str]) -> tuple[list[str], list[str]]:
            update = [f"next_{p} = sub({p}, mul(d_{p}, 0.001))" for p in parameters]
            return update, [f"next_{p}" for p in parameters] + outputs[:1]

        return self.wrapped(derived, inputs, lines)


# ---- The table ----

CHAIN = "add(mul(exp(neg(square(add(mul(x, y), z)))), sin(x)), mul(y, sigmoid(z)))"


@named("ew_fwd")
def ew_fwd(m: Maker, s: Shape, inputs: Inputs) -> Path:
    return m.text(f"graph ew({declared(inputs)}) {{\n  return {CHAIN}\n}}\n")


@named("ew_grad")
def ew_grad(m: Maker, s: Shape, inputs: Inputs) -> Path:
    return m.grad(m.text(f"graph ew({declared(inputs)}) {{\n  return reduce_sum({CHAIN})\n}}\n"), ["x", "y", "z"])


@named("layernorm")
def layernorm(m: Maker, s: Shape, inputs: Inputs) -> Path:
    text = m.text(f"graph ln({declared(inputs)}) {{\n  return layer_norm(x, w, b)\n}}\n")
    return m.grad(text, ["x", "w", "b"], "--seed", "input")


@named("softmax_xent")
def softmax_xent(m: Maker, s: Shape, inputs: Inputs) -> Path:
    text = f"graph xent({declared(inputs)}) {{\n  return reduce_mean(softmax_cross_entropy_with_logits(z, label))\n}}\n"
    return m.grad(m.text(text), ["z"], "--value")


def mlp_text(inputs: Inputs, act: str) -> str:
    return (
        f"graph mlp({declared({n: v for n, v in inputs.items() if not n.startswith('tangent_')})}) {{\n"
        f"  z = linear(linear(linear(x, w1, b1, act={act}), w2, b2, act={act}), w3, b3)\n"
        "  return reduce_mean(softmax_cross_entropy_with_logits(z, label))\n}\n"
    )


PARAMETERS = ["w1", "b1", "w2", "b2", "w3", "b3"]


@named("mlp_b1", "mlp_b32", "mlp_b1024")
def mlp(m: Maker, s: Shape, inputs: Inputs) -> Path:
    return m.sgd(m.text(mlp_text(inputs, "relu")), PARAMETERS, inputs)


@named("hvp")
def hvp(m: Maker, s: Shape, inputs: Inputs) -> Path:
    return m.transformed("hvp", m.text(mlp_text(inputs, "tanh")), "--wrt", ",".join(PARAMETERS))


@named("perex_grad")
def perex_grad(m: Maker, s: Shape, inputs: Inputs) -> Path:
    one = {n: v[0] if n in ("x", "label") else v for n, v in inputs.items()}
    derived = m.grad(m.text(mlp_text(one, "relu")), PARAMETERS)
    return m.transformed("vmap", derived, "--in", "x=0,label=0", "--size", str(s["b"]))


@named("matmul")
def matmul(m: Maker, s: Shape, inputs: Inputs) -> Path:
    return m.text(f"graph mm({declared(inputs)}) {{\n  return matmul(a, b)\n}}\n")


def block_text(x: str, out: str, width: int, heads: int, suffix: str = "", mask: str = "causal") -> str:
    p, t = (lambda n: n + suffix), (lambda n: f"{out}_{n}")
    return (
        f"  {t('q')}, {t('k')}, {t('v')} = split(linear(layer_norm({x}, {p('g1')}, {p('c1')}), {p('wq')}, {p('bq')}), "
        f"sizes=[{width}, {width}, {width}], axis=2)\n"
        f"  {t('a')} = attention({t('q')}, {t('k')}, {t('v')}, layout=bsd, num_heads={heads}, mask_kind={mask})\n"
        f"  {t('m')} = add({x}, linear({t('a')}, {p('wo')}, {p('bo')}))\n"
        f"  {t('f')} = linear(layer_norm({t('m')}, {p('g2')}, {p('c2')}), {p('w1')}, {p('b1')}, act=gelu_approx)\n"
        f"  {out} = add({t('m')}, linear({t('f')}, {p('w2')}, {p('b2')}))\n"
    )


@named("gpt2_block")
def gpt2_block(m: Maker, s: Shape, inputs: Inputs) -> Path:
    text = f"graph block({declared(inputs)}) {{\n{block_text('x', 'y', s['c'], s['h'])}  return y\n}}\n"
    return m.grad(m.text(text), [n for n in inputs if n != "d_output"], "--seed", "input")


@named("gpt2_124m")
def gpt2(m: Maker, s: Shape, inputs: Inputs) -> Path:
    own = {n: v for n, v in inputs.items() if n[:2] not in ("m_", "v_") and n != "count"}
    parameters = [n for n in own if n not in ("ids", "next")]
    text = f"graph gpt2({declared(own)}) {{\n  x0 = add(gather(wte, ids), wpe)\n"
    for layer in range(s["l"]):
        text += block_text(f"x{layer}", f"x{layer + 1}", s["c"], s["h"], f"_{layer}")
    text += (
        f"  h = reshape(layer_norm(x{s['l']}, gf, cf), shape=[-1, {s['c']}])\n"
        "  z = dot_general(h, wte, lc=[1], rc=[1])\n"
        "  return reduce_mean(softmax_cross_entropy_with_logits(z, reshape(next, shape=[-1])))\n}\n"
    )
    derived = m.grad(m.text(text), parameters, "--value")

    def lines(outputs: list[str]) -> tuple[list[str], list[str]]:
        body = ["t = add(count, 1)", "f1 = sub(1, pow(0.9, t))", "f2 = sub(1, pow(0.95, t))"]
        for p in parameters:
            body += [
                f"next_m_{p} = add(mul(m_{p}, 0.9), mul(d_{p}, 0.1))",
                f"next_v_{p} = add(mul(v_{p}, 0.95), mul(mul(d_{p}, d_{p}), 0.05))",
                f"next_{p} = sub(mul({p}, 0.99999), mul(0.0001, div(div(next_m_{p}, f1), "
                f"add(sqrt(div(next_v_{p}, f2)), 1e-8))))",
            ]
        return body, [f"next_{k}{p}" for k in ("", "m_", "v_") for p in parameters] + outputs[:1]

    return m.wrapped(derived, inputs, lines)


@named("attn_long")
def attn_long(m: Maker, s: Shape, inputs: Inputs) -> Path:
    text = f"graph a({declared(inputs)}) {{\n  return attention(q, k, v, layout=bshd, mask_kind=causal)\n}}\n"
    return m.grad(m.text(text), ["q", "k", "v"], "--seed", "input")


@named("convnet")
def convnet(m: Maker, s: Shape, inputs: Inputs) -> Path:
    channels = "unsqueeze({0}, axes=[1, 2])"
    text = (
        f"graph net({declared(inputs)}) {{\n"
        f"  h1 = relu(add(conv(x, k1), {channels.format('b1')}))\n"
        f"  h2 = pool(relu(add(conv(h1, k2), {channels.format('b2')})), kind=max, kernel_size=[2, 2])\n"
        f"  h3 = linear(reshape(h2, shape=[{s['b']}, 9216]), w3, b3, act=relu)\n"
        "  return reduce_mean(softmax_cross_entropy_with_logits(linear(h3, w4, b4), label))\n}\n"
    )
    return m.sgd(m.text(text), [n for n in inputs if n not in ("x", "label")], inputs)


@named("resblock")
def resblock(m: Maker, s: Shape, inputs: Inputs) -> Path:
    text = (
        f"graph block({declared(inputs)}) {{\n"
        "  n1, _, _ = batch_norm_training(conv(x, k1, padding=[1, 1]), g1, c1)\n"
        "  n2, _, _ = batch_norm_training(conv(relu(n1), k2, padding=[1, 1]), g2, c2)\n"
        "  return relu(add(x, n2))\n}\n"
    )
    return m.grad(m.text(text), [n for n in inputs if n != "d_output"], "--seed", "input")


@named("embed")
def embed(m: Maker, s: Shape, inputs: Inputs) -> Path:
    text = m.text(f"graph embed({declared(inputs)}) {{\n  return gather(table, ids)\n}}\n")
    return m.grad(text, ["table"], "--seed", "input", "--value")


@named("rnn1000", "rnn1000_ckpt")
def rnn(m: Maker, s: Shape, inputs: Inputs) -> Path:
    h, b = s["h"], s["b"]
    # Snapshots at equal distances: the state at the start of each segment.
    kept = f", num_checkpoints={s['t'] // s['k']}" if "k" in s else ""
    text = (
        f"graph cell(h: f32[{b}, {h}], w: f32[{h}, {h}], b: f32[{h}], x: f32[{b}, {h}]) {{\n"
        "  return tanh(add(add(matmul(h, w), x), b))\n}\n"
        f"graph rnn({declared(inputs)}) {{\n  h = scan(h0, w, b, xs, body=@cell, num_bcast=2{kept})\n"
        "  return reduce_mean(mul(h, h))\n}\n"
    )
    return m.grad(m.text(text), ["w", "b"], "--value")


@named("solve")
def solve(m: Maker, s: Shape, inputs: Inputs) -> Path:
    text = f"graph f({declared(inputs)}) {{\n  x = solve(a, b)\n  return reduce_mean(mul(x, x))\n}}\n"
    return m.grad(m.text(text), ["a", "b"], "--value")


@named("fftconv")
def fftconv(m: Maker, s: Shape, inputs: Inputs) -> Path:
    n = s["n"]
    text = (
        f"graph f({declared(inputs)}) {{\n  xr, xi = rfft(x, n={2 * n})\n  kr, ki = rfft(k, n={2 * n})\n"
        f"  y = irfft(sub(mul(xr, kr), mul(xi, ki)), add(mul(xr, ki), mul(xi, kr)), n={2 * n})\n"
        f"  z = narrow(y, axis=1, start=0, len={n})\n  return reduce_mean(mul(z, z))\n}}\n"
    )
    return m.grad(m.text(text), ["x", "k"], "--value")


@named("jacfwd")
def jacfwd(m: Maker, s: Shape, inputs: Inputs) -> Path:
    n = s["n"]
    roll = "roll(x, shift={0}, axis=0)"
    slope = f"sub(mul(sub({roll.format(-1)}, {roll.format(2)}), {roll.format(1)}), sub(x, 8))"
    text = (
        f"graph slope(x: f64[{n}]) {{\n  return {slope}\n}}\n"
        f"graph step(x: f64[{n}]) {{\n  k1 = call(x, body=@slope)\n"
        "  k2 = call(add(x, mul(k1, 0.005)), body=@slope)\n  k3 = call(add(x, mul(k2, 0.005)), body=@slope)\n"
        "  k4 = call(add(x, mul(k3, 0.01)), body=@slope)\n"
        f"  return add(x, mul(add(add(k1, mul(add(k2, k3), 2)), k4), {0.01 / 6!r}))\n}}\n"
        f"graph flow({declared(inputs)}) {{\n  return scan(x, body=@step, length={s['steps']})\n}}\n"
    )
    return m.transformed("jac", m.text(text), "--wrt", "x", "--mode", "fwd")


# ---- More workloads ----


@named("vit_tiny")
def vit_tiny(m: Maker, s: Shape, inputs: Inputs) -> Path:
    side, p, b = s["s"] // s["p"], s["p"], s["b"]
    text = (
        f"graph vit({declared(inputs)}) {{\n"
        f"  t = transpose(reshape(x, shape=[{b}, 3, {side}, {p}, {side}, {p}]), perm=[0, 2, 4, 3, 5, 1])\n"
        f"  x0 = add(matmul(reshape(t, shape=[{b}, {side * side}, {3 * p * p}]), embed), place)\n"
    )
    for layer in range(s["l"]):
        text += block_text(f"x{layer}", f"x{layer + 1}", s["c"], s["h"], f"_{layer}", "none")
    text += (
        f"  h = reduce_mean(layer_norm(x{s['l']}, gf, cf), axes=[1])\n"
        "  return reduce_mean(softmax_cross_entropy_with_logits(linear(h, head, head_b), label))\n}\n"
    )
    return m.grad(m.text(text), [n for n in inputs if n not in ("x", "label")], "--value")


@named("resnet18")
def resnet18(m: Maker, s: Shape, inputs: Inputs) -> Path:
    lines: list[str] = []

    def unit(h: str, name: str, stride: int, out: str) -> str:
        pad = inputs[name].shape[2] // 2
        lines.append(
            f"{out}, _, _ = batch_norm_training(conv({h}, {name}, stride=[{stride}, {stride}], "
            f"padding=[{pad}, {pad}]), {name}_g, {name}_c)"
        )
        return out

    lines.append(f"h = relu({unit('x', 'stem', 1, 'n')})")
    h = "h"
    for stage in range(4):
        for i in range(2):
            name, stride = f"s{stage}b{i}", 2 if stage and not i else 1
            first = unit(h, name + "c1", stride, name + "n1")
            second = unit(f"relu({first})", name + "c2", 1, name + "n2")
            short = unit(h, name + "short", stride, name + "n3") if name + "short" in inputs else h
            h = name + "h"
            lines.append(f"{h} = relu(add({second}, {short}))")
    text = f"graph net({declared(inputs)}) {{\n" + "".join(f"  {line}\n" for line in lines)
    text += (
        f"  z = linear(reduce_mean({h}, axes=[2, 3]), fc, fc_b)\n"
        "  return reduce_mean(softmax_cross_entropy_with_logits(z, label))\n}\n"
    )
    return m.grad(m.text(text), [n for n in inputs if n not in ("x", "label")], "--value")


@named("lstm")
def lstm(m: Maker, s: Shape, inputs: Inputs) -> Path:
    h, b = s["h"], s["b"]
    state, wide = f"f32[{b}, {h}]", f"f32[{h}, {4 * h}]"
    text = (
        f"graph cell(h: {state}, c: {state}, w: {wide}, u: {wide}, b: f32[{4 * h}], x: {state}) {{\n"
        "  z = add(add(matmul(x, w), matmul(h, u)), b)\n"
        f"  i, f, g, o = split(z, sizes=[{h}, {h}, {h}, {h}], axis=1)\n"
        "  n = add(mul(sigmoid(f), c), mul(sigmoid(i), tanh(g)))\n  return mul(sigmoid(o), tanh(n)), n\n}\n"
        f"graph lstm({declared(inputs)}) {{\n  zero = full({state}, 0)\n"
        "  h, _ = scan(zero, zero, w, u, b, xs, body=@cell, num_carry=2, num_bcast=3)\n"
        "  return reduce_mean(mul(h, h))\n}\n"
    )
    return m.grad(m.text(text), ["w", "u", "b"], "--value")


@named("llama_block")
def llama_block(m: Maker, s: Shape, inputs: Inputs) -> Path:
    half = s["c"] // s["h"] // 2
    text = (
        f"graph block({declared(inputs)}) {{\n"
        f"  frequency = exp(mul(iota(f32[{half}]), {float(-np.log(10000.0) / half)!r}))\n"
        f"  angle = mul(unsqueeze(iota(f32[{s['t']}]), axes=[1]), frequency)\n"
        "  y = decoder_block(x, g1, wq, wk, wv, wo, g2, gate, up, down, cos(angle), sin(angle), "
        f"num_heads={s['h']}, num_kv_heads={s['g']})\n  return y\n}}\n"
    )
    return m.grad(m.text(text), [n for n in inputs if n != "d_output"], "--seed", "input")


@named("md")
def md(m: Maker, s: Shape, inputs: Inputs) -> Path:
    n = s["n"]
    text = (
        f"graph energy({declared(inputs)}) {{\n  d = sub(unsqueeze(x, axes=[1]), unsqueeze(x, axes=[0]))\n"
        f"  e = eye(n={n}, dtype=f64)\n  r = add(reduce_sum(mul(d, d), axes=[2]), e)\n"
        "  s = reciprocal(mul(mul(r, r), r))\n"
        "  return mul(2, reduce_sum(where(gt(e, 0), 0, sub(mul(s, s), s))))\n}\n"
    )
    return m.grad(m.text(text), ["x"], "--value")


@named("int8")
def int8(m: Maker, s: Shape, inputs: Inputs) -> Path:
    return m.text(f"graph mm({declared(inputs)}) {{\n  return matmul(cast(a, to=i32), cast(b, to=i32))\n}}\n")


@named("gmm")
def gmm(m: Maker, s: Shape, inputs: Inputs) -> Path:
    n, d, k = s["n"], s["d"], s["k"]
    rows, columns = np.tril_indices(d, -1)
    places = [[int(r), int(c)] for r, c in zip(rows, columns)]
    text = (
        f"graph gmm({declared(inputs)}) {{\n"
        f"  logs = narrow(icf, axis=1, start=0, len={d})\n  q = exp(logs)\n"
        f"  below = narrow(icf, axis=1, start={d}, len={len(places)})\n"
        f"  at = const(i32[{len(places)}, 2], {places})\n"
        f"  lower = scatter_nd(full(f64[{k}, {d}, {d}], 0), at, below, start_index_map=[1, 2], collapsed_axes=[1, 2], "
        "offset_axes=[0], unique=true)\n"
        "  c = sub(unsqueeze(x, axes=[1]), means)\n"
        '  y = add(mul(q, c), einsum(lower, c, eq="kij,nkj->nki"))\n'
        "  sums = reduce_sum(logs, axes=[1])\n"
        "  inner = sub(add(alphas, sums), mul(reduce_sum(mul(y, y), axes=[2]), 0.5))\n"
        "  top = reduce_max(inner, axes=[1], keep_dims=true)\n"
        "  fit = reduce_sum(add(log(reduce_sum(exp(sub(inner, top)), axes=[1])), squeeze(top, axes=[1])))\n"
        "  high = reduce_max(alphas)\n"
        f"  weight = mul(add(log(reduce_sum(exp(sub(alphas, high)))), high), {n})\n"
        "  prior = mul(add(reduce_sum(mul(q, q)), reduce_sum(mul(below, below))), 0.5)\n"
        f"  return add(sub(sub(fit, weight), {float(n * d * 0.5 * np.log(2 * np.pi))!r}), prior)\n}}\n"
    )
    return m.grad(m.text(text), ["alphas", "means", "icf"], "--value")


@named("nbody")
def nbody(m: Maker, s: Shape, inputs: Inputs) -> Path:
    n = s["n"]
    many = f"f32[{n}, 3]"
    text = (
        f"graph pull(x: {many}, m: f32[{n}]) {{\n  d = sub(unsqueeze(x, axes=[0]), unsqueeze(x, axes=[1]))\n"
        "  r = add(reduce_sum(mul(d, d), axes=[2]), 0.01)\n  w = mul(m, pow(r, -1.5))\n"
        "  return reduce_sum(mul(d, unsqueeze(w, axes=[2])), axes=[1])\n}\n"
        f"graph step(x: {many}, v: {many}, m: f32[{n}]) {{\n"
        "  half = add(v, mul(call(x, m, body=@pull), 0.005))\n  y = add(x, mul(half, 0.01))\n"
        "  return y, add(half, mul(call(y, m, body=@pull), 0.005))\n}\n"
        f"graph bodies({declared(inputs)}) {{\n"
        f"  y, w = scan(x, v, m, body=@step, num_carry=2, num_bcast=1, length={s['steps']})\n  return y, w\n}}\n"
    )
    return m.text(text)


@named("sparse_cg")
def sparse_cg(m: Maker, s: Shape, inputs: Inputs) -> Path:
    n = s["n"]
    grid = f"f32[{n}, {n}]"

    def beside(x: str, axis: int, shift: int) -> str:
        """The neighbours along an axis, with zeros outside."""
        low, high = ([0, 0], [0, 0])
        (low if shift > 0 else high)[axis] = 1
        start = 0 if shift > 0 else 1
        return f"narrow(pad({x}, 0, low={low}, high={high}), axis={axis}, start={start}, len={n})"

    near = [beside("x", axis, shift) for axis in (0, 1) for shift in (1, -1)]
    text = (
        f"graph times(x: {grid}, d: {grid}) {{\n  return sub(mul(add(d, 4), x), add_n({', '.join(near)}))\n}}\n"
        f"graph step(x: {grid}, r: {grid}, p: {grid}, rr: f32[], d: {grid}) {{\n  q = call(p, d, body=@times)\n"
        "  a = div(rr, reduce_sum(mul(p, q)))\n  s = sub(r, mul(q, a))\n  new = reduce_sum(mul(s, s))\n"
        "  return add(x, mul(p, a)), s, add(s, mul(p, div(new, rr))), new\n}\n"
        f"graph cg({declared(inputs)}) {{\n  zero = full({grid}, 0)\n"
        "  x, _, _, _ = scan(zero, b, b, reduce_sum(mul(b, b)), d, body=@step, num_carry=4, num_bcast=1, "
        f"length={s['steps']})\n  return x\n}}\n"
    )
    return m.text(text)
