# SPDX-License-Identifier: Apache-2.0
"""Small programs in which details matter (promotion, constants in batches, closures in bodies, aux results ...), with
fluxion and with JAX: the same values, shapes and dtypes."""

import pytest

np = pytest.importorskip("numpy")
jax = pytest.importorskip("jax")
import fluxion as fx  # noqa: E402

X = np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3)

# Each is a function of the library, its NumPy, its control flow, and an array.
CASES = {
    "vmap const": (lambda J, N, L, x: J.vmap(lambda v: 1.0)(x), X),
    "vmap const arr": (lambda J, N, L, x: J.vmap(lambda v: (v, N.ones(2)))(x), X),
    "vmap neg axis": (lambda J, N, L, x: J.vmap(lambda v: v*2, in_axes=-1, out_axes=-1)(x), X),
    "vmap kwargs": (lambda J, N, L, x: J.vmap(lambda v, s: v*s, in_axes=(0,None))(x, 3.0), X),
    "cond closure": (lambda J, N, L, x: J.jit(lambda x: L.cond(x.sum()>0, lambda: x*2, lambda: x))(x), X),
    "nested loops": (lambda J, N, L, x:
        J.jit(lambda x: L.scan(lambda c,v: (L.while_loop(lambda s:s.sum()<10, lambda s:s+N.abs(v)+0.1, c), c.sum()),
        N.zeros(3), x))(x), X),
    "grad nested scan": (lambda J, N, L, x:
        J.grad(lambda x: L.scan(lambda c,v: (L.fori_loop(0,3,lambda i,s: N.sin(s)+v, c), c.sum()), N.zeros(3),
        x)[1].sum())(x), X),
    "int pow": (lambda J, N, L, x: (N.arange(5)**2, 2**N.arange(5), x**-1, x**0.5, x**2.0), np.abs(X)+1),
    "div int": (lambda J, N, L, x:
        (N.arange(1,5)/2, N.arange(5)//2, N.arange(5)%3, -N.arange(5)//2, 7//N.arange(1,4)), X),
    "mean int": (lambda J, N, L, x:
        (N.arange(5).mean(), N.arange(5).sum(), (x>0).sum(), x.std(), x.var(axis=1), x.argmax()), X),
    "grad where nan": (lambda J, N, L, x: J.grad(lambda x: N.where(x>0, N.sqrt(N.where(x>0,x,1.0)), 0.0).sum())(x), X),
    "grad abs max": (lambda J, N, L, x: J.grad(lambda x: N.abs(x).max())(x), X),
    "sort grads": (lambda J, N, L, x: J.grad(lambda x: (N.sort(x.ravel())*N.arange(6)).sum())(x), X[::-1].copy()),
    "jit none": (lambda J, N, L, x: J.jit(lambda a,b: a if b is None else a+b)(x, None), X),
    "jvp of vmap of grad": (lambda J, N, L, x: J.jvp(J.vmap(J.grad(lambda v: (v**3).sum())), (x,), (x,)), X),
    "vjp of jit": (lambda J, N, L, x: J.vjp(J.jit(lambda v: (v*2, v**2)), x)[1]((x,x)), X),
    "hess of jit with closure": (lambda J, N, L, x: J.hessian(J.jit(lambda v: (v*x[0]).sum()**3))(x[1]), X),
    "grad of jit with closure": (lambda J, N, L, x: J.grad(lambda v: J.jit(lambda u: (u*v).sum())(v))(x), X),
    "complex": (lambda J, N, L, x: (N.exp(1j*x), N.abs(x+1j), (x+1j).real, N.conj(x+1j)*2), X),
    "linalg": (lambda J, N, L, x:
        (N.linalg.inv(x@x.T+N.eye(2)), N.linalg.svd(x, full_matrices=False)[1], N.linalg.solve(x@x.T+N.eye(2), x),
        N.linalg.qr(x.T)[1]**2), X),
    "concat stack": (lambda J, N, L, x:
        (N.concatenate([x,x]), N.stack([x,x],axis=1), N.split(x,3,axis=1), N.pad(x,1), N.tile(x,2),
        N.repeat(x,2,axis=1), N.outer(x[0],x[1])), X),
    "clip": (lambda J, N, L, x:
        (N.clip(x,-.5,.5), N.clip(N.arange(5),1,3), N.maximum(x,0), N.minimum(N.arange(3),1.5)), X),
    "scan of dict": (lambda J, N, L, x:
        L.scan(lambda c,v: ({"a":c["a"]+v["x"],"n":c["n"]+1}, {"y":v["x"]*c["n"]}), {"a":N.zeros(3),"n":0},
        {"x":x}), X),
    "scan int carry promote": (lambda J, N, L, x: L.scan(lambda c,v: (c+v.sum(), None), 0.0, x), X),
    "switch grad": (lambda J, N, L, x:
        J.grad(lambda v: L.switch(N.argmax(v[0]), [lambda u: u.sum(), lambda u:(u**2).sum(), lambda u:(u**3).sum()],
        v))(x), X),
    "one_hot etc": (lambda J, N, L, x:
        (J.nn.one_hot(N.arange(3),4), J.nn.gelu(x), J.nn.silu(x), J.nn.logsumexp(x, axis=1), J.nn.leaky_relu(x)),
        X),
    "einsum batch": (lambda J, N, L, x:
        (N.einsum("ij,kj->ik",x,x), N.einsum("ij->j",x), N.einsum("ii",x@x.T), N.dot(x,x[0]),
        N.tensordot(x,x,axes=2)), X),
    "cumsum": (lambda J, N, L, x: (N.cumsum(x,axis=1), N.cumprod(x,axis=0), N.diff(x)), X),
    "bool ops": (lambda J, N, L, x: ((x>0)&(x<1), ~(x>0), (x>0)|(x<-.5), (x>0)==(x<0), N.logical_and(x,1)), X),
    "allclose": (lambda J, N, L, x: N.allclose(x,x), X),
    "jacrev aux": (lambda J, N, L, x: J.jacrev(lambda v: (v**2, v.sum()), has_aux=True)(x), X),
    "value_and_grad aux": (lambda J, N, L, x: J.value_and_grad(lambda v: ((v**2).sum(), {"a":v}), has_aux=True)(x), X),
    "custom_vjp under vmap": (lambda J, N, L, x:
        (lambda f: (f.defvjp(lambda a:(N.sin(a),N.cos(a)), lambda r,g:(r*g*2,)), J.vmap(J.grad(lambda v:
        f(v).sum()))(x))[1])(J.custom_vjp(lambda a: N.sin(a))), X),
    "checkpoint in scan": (lambda J, N, L, x:
        J.grad(lambda x: L.scan(J.checkpoint(lambda c,v: (N.tanh(c+v), None)), N.zeros(3), x)[0].sum())(x), X),
    "float mod": (lambda J, N, L, x: (x%0.3, N.mod(-7.5,2.0), x//0.3), X),
    "shape in jit": (lambda J, N, L, x: J.jit(lambda v: v.reshape(v.shape[0]*v.shape[1]) / v.size)(x), X),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_jax(name):
    program, x = CASES[name]
    ours = fx.tree_leaves(program(fx, fx.numpy, fx, x))
    theirs = jax.tree_util.tree_leaves(program(jax, jax.numpy, jax.lax, x))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape and a.dtype == b.dtype, (a, b)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)
