# SPDX-License-Identifier: Apache-2.0
"""Transforms against JAX, with the same programs: each case is a function of a namespace, called with fluxion's and
with JAX's. Without JAX they are left out."""

import pytest

np = pytest.importorskip("numpy")
jax = pytest.importorskip("jax")
import fluxion as fx  # noqa: E402
from fluxion import xp  # noqa: E402

jnp = jax.numpy


class Names:
    """The names of JAX, with those of a library that are elsewhere in it."""

    def __init__(self, library, control, is_ours, **modules):
        self.library, self.control, self.is_ours = library, control, is_ours
        self.__dict__.update(modules)

    def __getattr__(self, name):
        found = getattr(self.library, name, None)
        return found if found is not None else getattr(self.control, name)


def Ours():
    return Names(fx, fx, True, np=fx.numpy, nn=fx.nn, random=fx.random)


def Theirs():
    return Names(jax, jax.lax, False, np=jnp, nn=jax.nn, random=jax.random)


X = np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3)
W = np.linspace(0.5, 1.5, 12, dtype="f4").reshape(3, 4)
P = {"w": W, "b": np.ones(4, "f4"), "more": [np.float32(2.0), (np.ones((2, 4), "f4"),)]}


def network(t):
    def f(p, x):
        h = t.np.tanh(x @ p["w"] + p["b"]) * p["more"][0]
        return t.np.mean((h - p["more"][1][0]) ** 2)
    return f


def loop_sum(t):
    return lambda x: t.fori_loop(0, 4, lambda i, v: t.np.sin(v) + x * i, x).sum()


def recurrent(t):
    def f(w, xs):
        def step(h, x):
            h = t.np.tanh(h @ w + x)
            return h, h.sum()
        h, ys = t.scan(step, t.np.zeros(3), xs)
        return h.sum() + (ys ** 2).sum()
    return f


SQUARE = np.linspace(-0.5, 0.5, 9, dtype="f4").reshape(3, 3)
SEQUENCE = np.linspace(-1, 1, 15, dtype="f4").reshape(5, 3)


def soft_clip(t):
    @t.custom_vjp
    def f(x, limit):
        return t.np.clip(x, -limit, limit)
    f.defvjp(lambda x, limit: (f(x, limit), (x, limit)),
             lambda r, g: (g * r[0] * 3, None if t.is_ours else g.sum() * 0))
    return f




def counted(t):
    """A function that also returns integers, which have no cotangent."""
    @t.custom_vjp
    def f(x):
        return x * 2, t.np.sum(x > 0)
    f.defvjp(lambda x: (f(x), x), lambda r, g: (g[0] * r,))
    return f


def own_jvp(t, scale):
    """The rule uses an array from outside, and the derivative is not that of the function."""
    @t.custom_jvp
    def f(x, y):
        return t.np.sin(x) * y
    f.defjvp(lambda p, dp: (f(*p), dp[0] * p[1] * scale + dp[1] * t.np.cos(p[0])))
    return f


CASES = {
    "grad of a network": (lambda t: t.grad(network(t)), P, X),
    "value and grad of both": (lambda t: t.value_and_grad(network(t), argnums=(0, 1)), P, X),
    "grad by the second": (lambda t: t.grad(network(t), argnums=1), P, X),
    "grad with aux": (lambda t: t.grad(lambda x: ((x ** 3).sum(), {"y": x * 2}), has_aux=True), X),
    "grad of grad": (lambda t: t.grad(lambda x: t.grad(lambda y: (y ** 4).sum())(x).sum()), X),
    "jit of grad": (lambda t: t.jit(t.grad(network(t))), P, X),
    "vmap of grad": (lambda t: t.vmap(t.grad(lambda x, w: (t.np.sin(x) @ w).sum()), in_axes=(0, None)), X, W),
    "vmap with axes": (lambda t: t.vmap(lambda x, w: x * w.sum(), in_axes=(1, None), out_axes=1), X, W),
    "vmap of trees": (lambda t: t.vmap(lambda p, x: {"y": p["a"] * x, "z": p["b"]},
                                       in_axes=({"a": 0, "b": None}, 0), out_axes={"y": 0, "z": None}),
                      {"a": X, "b": np.float32(2)}, X),
    "vmap of vmap": (lambda t: t.vmap(t.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None)), X[0], W[0]),
    "jvp": (lambda t: lambda x, v: t.jvp(lambda y: (t.np.sin(y), y.sum()), (x,), (v,)), X, X * 2),
    "vjp": (lambda t: lambda x, w: t.vjp(lambda a, b: {"m": a @ b, "s": a.sum()}, x, w)[1](
        {"m": t.np.ones((2, 4)), "s": t.np.ones(())}), X, W),
    "jacfwd": (lambda t: t.jacfwd(lambda x: t.np.cumsum(x, axis=0) * x), X),
    "jacrev": (lambda t: t.jacrev(lambda x, w: t.np.tanh(x @ w), argnums=(0, 1)), X, W),
    "hessian": (lambda t: t.hessian(lambda x: t.np.sin(x @ x.T).sum()), X),
    "hessian of a tree": (lambda t: t.hessian(lambda p: (p["a"] * p["b"] ** 2).sum()), {"a": X, "b": X * 3}),
    "jacfwd of jacrev": (lambda t: t.jacfwd(t.jacrev(lambda x: x ** 3)), X[0]),
    "checkpoint": (lambda t: t.grad(lambda x: t.checkpoint(lambda y: t.np.sin(t.np.sin(y)))(x).sum()), X),
    "stop_gradient": (lambda t: t.grad(lambda x: (x * t.stop_gradient(x * 2)).sum()), X),
    "custom_vjp": (lambda t: t.grad(lambda x: soft_clip(t)(x, 0.5).sum()), X),
    "custom_vjp with integers": (lambda t: t.grad(lambda x: counted(t)(x)[0].sum()), X),
    "custom_jvp": (lambda t: t.grad(lambda x: own_jvp(t, X)(x, 2.0).sum()), X),
    "jvp of custom_jvp": (lambda t: lambda x, v: t.jvp(lambda y: own_jvp(t, x)(y, y * 2), (x,), (v,)), X, X * 2),
    "vmap of custom_jvp": (lambda t: t.vmap(t.grad(lambda x: own_jvp(t, 1.0)(x, 3.0).sum())), X),
    "cond, traced": (lambda t: t.jit(lambda x: t.cond(x.sum() > 0, lambda y: y * 2, lambda y: -y, x)), X + 1),
    "grad of cond": (lambda t: t.grad(lambda x: t.cond(x.sum() > 0, lambda y: (y ** 2).sum(), lambda y: y.sum(), x)),
                     X + 1),
    "switch": (lambda t: t.jit(lambda i, x: t.switch(i, [lambda y: y, lambda y: y * 2, lambda y: y * 3], x)),
               np.int32(5), X),
    "while": (lambda t: t.jit(lambda x: t.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x))), X),
    "fori_loop": (lambda t: t.jit(loop_sum(t)), X),
    "grad of fori_loop": (lambda t: t.grad(loop_sum(t)), X),
    "scan": (lambda t: recurrent(t), SQUARE, SEQUENCE),
    "grad of scan": (lambda t: t.grad(recurrent(t), argnums=(0, 1)), SQUARE, SEQUENCE),
    "reverse scan": (lambda t: lambda xs: t.scan(lambda c, x: (c + x, c * x), t.np.zeros(3), xs, reverse=True),
                     SEQUENCE),
    "scan without xs": (lambda t: lambda x: t.scan(lambda c, _: (c * 2, c), x, None, length=3), X),
    "hessian of scan": (lambda t: t.hessian(lambda w: recurrent(t)(w, SEQUENCE)), SQUARE),
    "vmap of scan": (lambda t: t.vmap(recurrent(t), in_axes=(None, 0)), SQUARE, np.stack([SEQUENCE, -SEQUENCE])),
    "vmap of cond": (lambda t: t.vmap(lambda x: t.cond(x.sum() > 0, lambda y: y * 2, lambda y: -y, x)), X),
    "softmax and logs": (lambda t: t.grad(lambda x: (t.nn.log_softmax(x) * t.nn.softmax(x)).sum()), X),
    "linalg": (lambda t: t.grad(lambda a: t.np.linalg.det(a @ a.T + t.np.eye(3)) + t.np.linalg.inv(
        a + 2 * t.np.eye(3)).sum()), SQUARE),
    "indexing": (lambda t: t.grad(lambda x: (x[0, 1:] * x[1, [0, 2]] + x[..., -1]).sum()), X),
    "updates": (lambda t: t.grad(lambda x: (x.at[0].set(1.0).at[:, 1].add(x[:, 0]) ** 2).sum()), X),
    "where and maximum": (lambda t: t.grad(lambda x: t.np.where(x > 0, t.np.maximum(x, 0.3), x * x).sum()), X),
    "einsum": (lambda t: t.jacrev(lambda x, w: t.np.einsum("ij,jk->ik", x, w)), X, W),
    "integers beside": (lambda t: t.grad(lambda x, n: (x ** n).sum()), X, np.int32(3)),
}


def compare(ours, theirs):
    ours, theirs = fx.tree_leaves(ours), jax.tree_util.tree_leaves(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape and a.dtype == b.dtype, (a, b)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_jax(name):
    build, *args = CASES[name]
    compare(build(Ours())(*args), build(Theirs())(*args))


@pytest.mark.parametrize("name", CASES)
def test_agrees_under_jit(name):
    build, *args = CASES[name]
    compare(fx.jit(build(Ours()))(*args), build(Theirs())(*args))


def test_taylor_and_hvp():
    value, series = fx.taylor(xp.exp, (0.5,), (1.0,), 4)
    assert all(abs(s.item() - np.exp(0.5)) < 1e-5 for s in series) and abs(value.item() - np.exp(0.5)) < 1e-6
    x = fx.array(X)
    full = fx.hessian(lambda v: xp.sin(v @ v.T).sum())(x)
    product = fx.hvp(lambda v: xp.sin(v @ v.T).sum(), (x,), (x,))
    np.testing.assert_allclose(product, xp.tensordot(full, x, axes=2), rtol=1e-4, atol=1e-5)


def test_wrong_calls_are_reported():
    for call, error in [
            (lambda: fx.grad(lambda x: x)(fx.array([1.0, 2.0])), TypeError),
            (lambda: fx.grad(lambda x: x.sum())(fx.array([1, 2])), TypeError),
            (lambda: fx.grad(lambda x: x.sum(), argnums=1)(fx.array([1.0])), ValueError),
            (lambda: fx.vmap(lambda a, b: a + b)(xp.ones((2,)), xp.ones((3,))), ValueError),
            (lambda: fx.vmap(lambda a: a, in_axes=None)(xp.ones((2,))), ValueError),
            (lambda: fx.vmap(lambda a: a)(1.0), ValueError),
            (lambda: fx.scan(lambda c, x: (c[:1], c), xp.ones((2,)), xp.ones((3,))), TypeError),
            (lambda: fx.scan(lambda c, x: c, 0.0, xp.ones((3,))), TypeError),
            (lambda: fx.while_loop(lambda v: v, lambda v: v, 1.0), TypeError),
            (lambda: fx.jit(lambda x: fx.cond(x > 0, lambda: (1, 2), lambda: 1))(1.0), TypeError),
            (lambda: fx.jvp(lambda x: x, (1.0,), (xp.ones((2,)),)), ValueError),
            (lambda: fx.custom_vjp(lambda x: x)(1.0), AttributeError)]:
        with pytest.raises(error):
            call()


def test_from_jax_agrees_and_differentiates(tmp_path):
    graph = fx.from_jax(network(Theirs()), P, X)
    compare(graph(P, X), network(Theirs())(P, X))
    compare(fx.grad(lambda p: graph(p, X))(P), jax.grad(network(Theirs()))(P, X))
    for extension in ("flx", "flxb", "mlir"):
        path = tmp_path / f"m.{extension}"
        graph.save(path)
        leaves = fx.tree_leaves((P, X))
        compare(fx.load(path)(*leaves), network(Theirs())(P, X))


def test_a_function_is_transformed_once_and_traced_each_time(monkeypatch):
    calls = []
    real = fx.tracing._core.grad
    monkeypatch.setattr(fx.tracing, "_transformed", {})

    def counted(*args):
        calls.append(1)
        return real(*args)
    counted.__name__ = "grad"
    monkeypatch.setattr(fx.transforms._core, "grad", counted)
    scale = 2.0
    f = fx.grad(lambda x: (scale * x ** 2).sum())
    x = fx.array([1.0, 2.0])
    assert f(x).tolist() == [4.0, 8.0] and f(x).tolist() == [4.0, 8.0] and len(calls) == 1
    scale = 3.0  # what a function uses from outside may change, unlike under jit
    assert f(x).tolist() == [6.0, 12.0] and len(calls) == 2
    g = fx.grad(lambda other: (scale * other ** 2).sum())  # other names: results are found by them
    assert g(x).tolist() == [6.0, 12.0]
