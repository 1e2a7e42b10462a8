# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues, singular values and what is made of them, and matrix exponentials, from jax.numpy.linalg. The losses do
not depend on the phases of vectors, which JAX leaves open; where derivatives have a phase of their own,
tests/ops/derivatives.c sees it."""
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from gradients import at, normal, uniform


def adjoint(x):
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def spread(*shape, dtype="f64"):
    """Matrices whose eigenvalues and singular values keep away from each other and from zero."""
    draw = normal(*shape, dtype=dtype)
    return lambda rng, lane: (draw(rng, lane) * 0.25 + np.eye(*shape[-2:])
                              * (1.5 * np.arange(1, shape[-1] + 1))).astype(
        draw(rng, lane).dtype)


def add(t):
    hermitian(t)
    general(t)
    singular(t)
    inverses(t)
    exponentials(t)


def hermitian(t):
    t.fn("eigh_values", "w, v = eigh(a); return reduce_sum(sin(w))", lambda a: jnp.sum(jnp.sin(jnp.linalg.eigh(a)[0])),
         "hvp vmapgrad taylor4", a=spread(3, 3))
    t.fn("eigh_values_nth", "w, v = eigh(a); return reduce_sum(exp(w))",
         lambda a: jnp.sum(jnp.exp(jnp.linalg.eigh(a)[0])), "nth3", a=normal(2, 2))
    t.fn("eigh_squared_vectors", "w, v = eigh(a); u = square(v); return reduce_sum(mul(mul(u, u), c))",
         lambda a, c: jnp.sum(jnp.linalg.eigh(a)[1]**4 * c), "hvp", a=spread(3, 3), c=normal(3, 3))
    t.fn("eigh_function", "w, v = eigh(a); y = matmul(mul(v, reshape(exp(w), shape=[1, 3])), transpose(v)); "
                          "return reduce_sum(mul(y, c))",
         lambda a, c: jnp.sum(jsl.expm((a + a.T) / 2) * c), "hess", a=spread(3, 3), c=normal(3, 3))
    t.fn("eigh_batch", "w, v = eigh(a); return reduce_sum(mul(square(v), square(v)))",
         lambda a: jnp.sum(jnp.linalg.eigh(a)[1]**4), "hvp vmap", a=spread(2, 2, 2))
    t.fn("eigh_complex", "w, v = eigh(a); s = square(abs(v)); "
                         "return add(reduce_sum(sin(w)), reduce_sum(mul(mul(s, s), c)))",
         lambda a, c: jnp.sum(jnp.sin(jnp.linalg.eigh(a)[0])) + jnp.sum(jnp.abs(jnp.linalg.eigh(a)[1])**4 * c), "hvp",
         a=spread(3, 3, dtype="c128"), c=normal(3, 3))
    t.fn("eigh_f32", "w, v = eigh(a); return reduce_sum(mul(sin(w), c))",
         lambda a, c: jnp.sum(jnp.sin(jnp.linalg.eigh(a)[0]) * c), "grad",
         a=spread(3, 3, dtype="f32"), c=normal(3, dtype="f32"))
    # The derivative of a sum over a repeated eigenvalue is that of any of its bases.
    t.fn("eigh_repeated", "w, v = eigh(a); return reduce_sum(mul(w, square(w)))",
         lambda a: jnp.trace((s := (a + a.T) / 2) @ s @ s), "grad", a=at(np.diag([2., 2, 5]), np.eye(3) * 1.5))


def general(t):
    t.fn("eig_values", "w = eig(a); return reduce_sum(add(exp(mul(real(w), 0.25)), square(square(imag(w)))))",
         lambda a: jnp.sum(jnp.exp(jnp.real(w := jnp.linalg.eigvals(a)) * 0.25) + jnp.imag(w)**4), "grad vmapgrad vmap",
         a=spread(3, 3))
    t.fn("eig_turning", "w = eig(a); return reduce_sum(add(exp(mul(real(w), 0.25)), square(square(imag(w)))))",
         lambda a: jnp.sum(jnp.exp(jnp.real(w := jnp.linalg.eigvals(a)) * 0.25) + jnp.imag(w)**4), "grad",
         a=at(np.array([[1., -2, 0.5], [2, 1.5, 0], [0.25, 1, 3]])))
    t.fn("eig_complex", "w = eig(a); return reduce_sum(add(exp(mul(real(w), 0.25)), square(square(imag(w)))))",
         lambda a: jnp.sum(jnp.exp(jnp.real(w := jnp.linalg.eigvals(a)) * 0.25) + jnp.imag(w)**4), "grad",
         a=spread(3, 3, dtype="c128"))
    # Sums of powers of eigenvalues are traces, which JAX can differentiate as often as one likes.
    t.fn("eig_cubes", "w = eig(a); return real(reduce_sum(mul(w, square(w))))", lambda a: jnp.trace(a @ a @ a), "hess",
         a=spread(3, 3))
    t.fn("eig_exponentials", "w = eig(a); return real(reduce_sum(exp(w)))", lambda a: jnp.trace(jsl.expm(a)), "hvp",
         a=normal(3, 3))


def singular(t):
    svd = lambda a: jnp.linalg.svd(a, full_matrices=False)
    for name, shape in [("tall", (3, 2)), ("wide", (2, 3)), ("square", (3, 3))]:
        k = min(shape)
        t.fn(f"svd_values_{name}", "u, s, vt = svd(a); return reduce_sum(sin(s))",
             lambda a: jnp.sum(jnp.sin(svd(a)[1])), "hvp vmapgrad", a=spread(*shape))
        t.fn(f"svd_vectors_{name}",
             f"u, s, vt = svd(a); y = matmul(mul(u, reshape(sin(s), shape=[1, {k}])), vt); "
             f"return reduce_sum(mul(y, c))",
             lambda a, c: jnp.sum((r := svd(a))[0] * jnp.sin(r[1]) @ r[2] * c), "hvp", a=spread(*shape),
             c=normal(*shape))
        t.fn(f"svd_left_{name}", "u, s, vt = svd(a); w = square(u); return reduce_sum(mul(mul(w, w), c))",
             lambda a, c: jnp.sum(svd(a)[0]**4 * c), "hvp taylor4" if name == "tall" else "hvp", a=spread(*shape),
             c=normal(shape[0], k))
        t.fn(f"svd_right_{name}", "u, s, vt = svd(a); w = square(vt); return reduce_sum(mul(mul(w, w), c))",
             lambda a, c: jnp.sum(svd(a)[2]**4 * c), "hvp", a=spread(*shape), c=normal(k, shape[1]))
    t.fn("svd_complex", "u, s, vt = svd(a); y = matmul(mul(u, reshape(cast(sin(s), to=c128), shape=[1, 2])), vt);"
         "return reduce_sum(add(square(real(y)), mul(mul(square(imag(y)), imag(y)), 2)))",
         lambda a: jnp.sum(jnp.real(y := (r := svd(a))[0] * jnp.sin(r[1]) @ r[2])**2 + 2 * jnp.imag(y)**3), "hvp",
         a=spread(3, 2, dtype="c128"))
    t.fn("svd_complex_wide", "u, s, vt = svd(a); p = square(abs(u)); q = square(abs(vt)); "
                             "return add(reduce_sum(square(p)), reduce_sum(square(q)))",
         lambda a: jnp.sum(jnp.abs((r := svd(a))[0])**4) + jnp.sum(jnp.abs(r[2])**4), "hvp",
         a=spread(2, 3, dtype="c128"))
    t.fn("condition", "cond(a)", lambda a: (s := svd(a)[1])[0] / s[-1], "hvp vmapgrad", a=spread(3, 2))
    t.fn("condition_complex", "cond(a)", lambda a: (s := svd(a)[1])[0] / s[-1], "grad", a=spread(2, 2, dtype="c128"))
    # The sum of all singular values is smooth where they are equal but not zero.
    t.fn("svd_repeated", "u, s, vt = svd(a); return reduce_sum(square(s))", lambda a: jnp.sum(a**2), "grad",
         a=at(np.eye(3) * 2, np.diag([3., 3, 1])))


def inverses(t):
    for name, shape in [("tall", (3, 2)), ("wide", (2, 3)), ("square", (2, 2))]:
        t.fn(f"pinv_{name}", "reduce_sum(sin(pinv(a)))", lambda a: jnp.sum(jnp.sin(jnp.linalg.pinv(a))),
             "hess vmapgrad", a=spread(*shape))
    t.fn("pinv_complex", "y = pinv(a); return reduce_sum(add(square(real(y)), mul(mul(square(imag(y)), imag(y)), 2)))",
         lambda a: jnp.sum(jnp.real(y := jnp.linalg.pinv(a))**2 + 2 * jnp.imag(y)**3), "hvp",
         a=spread(3, 2, dtype="c128"))
    t.fn("pinv_rank_one", "reduce_sum(mul(pinv(matmul(x, y)), c))",
         lambda x, y, c: jnp.sum(y.T @ x.T / (jnp.sum(x**2) * jnp.sum(y**2)) * c), "hvp", x=uniform(0.5, 1.5, 3, 1),
         y=uniform(0.5, 1.5, 1, 2), c=normal(2, 3))
    t.fn("lstsq_vector", "reduce_sum(sin(lstsq(a, b)))",
         lambda a, b: jnp.sum(jnp.sin(jnp.linalg.solve(a.T @ a, a.T @ b))), "hess gradone", a=spread(3, 2), b=normal(3))
    t.fn("lstsq_shortest", "reduce_sum(sin(lstsq(a, b)))",
         lambda a, b: jnp.sum(jnp.sin(a.T @ jnp.linalg.solve(a @ a.T, b))), "hvp", a=spread(2, 3), b=normal(2, 2))
    # By Newton's iteration for the nearest unitary matrix, which knows nothing of singular values.
    def nearest(a):
        for _ in range(12):
            a = (a + adjoint(jnp.linalg.inv(a))) / 2
        return a
    t.fn("polar_unitary", "u, p = polar(a); return reduce_sum(mul(sin(u), c))",
         lambda a, c: jnp.sum(jnp.sin(nearest(a)) * c), "hvp", a=spread(3, 3), c=normal(3, 3))
    t.fn("polar_positive", "u, p = polar(a); return reduce_sum(mul(sin(p), c))",
         lambda a, c: jnp.sum(jnp.sin(nearest(a).T @ a) * c), "hvp", a=spread(2, 2), c=normal(2, 2))
    # Where singular values are equal the unitary factor is as smooth as elsewhere.
    t.fn("polar_of_unitary", "u, p = polar(a); return reduce_sum(mul(add(sin(u), p), c))",
         lambda a, c: jnp.sum((jnp.sin(u := nearest(a)) + u.T @ a) * c), "grad",
         a=at(np.eye(3), np.array([[0., -1, 0], [1, 0, 0], [0, 0, 1]])), c=normal(3, 3))


def exponentials(t):
    t.fn("exponential", "reduce_sum(mul(expm(a), c))", lambda a, c: jnp.sum(jsl.expm(a) * c), "hess vmapgrad",
         a=normal(2, 2), c=normal(2, 2))
    t.fn("exponential_of_three", "reduce_sum(sin(expm(a)))", lambda a: jnp.sum(jnp.sin(jsl.expm(a))), "hvp",
         a=normal(3, 3))
    t.fn("exponential_complex",
         "y = expm(a); return reduce_sum(add(square(real(y)), mul(mul(square(imag(y)), imag(y)), 2)))",
         lambda a: jnp.sum(jnp.real(y := jsl.expm(a))**2 + 2 * jnp.imag(y)**3), "hvp", a=normal(2, 2, dtype="c128"))
    t.fn("exponential_large", "reduce_sum(expm(a))", lambda a: jnp.sum(jsl.expm(a)), "hvp", a=uniform(-6, 6, 3, 3))
    t.fn("exponential_line", "expm(mul(a, s))", lambda a, s: jsl.expm(a * s), "jvp taylor4", a=normal(2, 2),
         s=uniform(0.5, 1.5))
    t.fn("exponential_f32", "reduce_sum(expm(a))", lambda a: jnp.sum(jsl.expm(a)), "grad", a=normal(3, 3, dtype="f32"))
