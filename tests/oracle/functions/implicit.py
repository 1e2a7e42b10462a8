# SPDX-License-Identifier: Apache-2.0
"""Solutions of equations. JAX has them from dense solves, closed forms, or from as many unrolled steps as rounding asks
for, and differentiates those; Fluxion differentiates the equation. Tolerances of 0 mean: to rounding."""
import jax
import jax.numpy as jnp
import numpy as np

from gradients import normal, uniform

DEFINITE = """graph definite(x: f64[3], m: f64[3, 3]) {
  y = matmul(transpose(m), matmul(m, reshape(x, shape=[3, 1])))
  return add(x, reshape(y, shape=[3]))
}"""
MATRIX = """graph matrix(x: f64[2, 2], m: f64[2, 2]) { return add(mul(x, 4), matmul(m, matmul(x, transpose(m)))) }"""
COMPLEX = """graph complex_matrix(x: c128[2], m: c128[2, 2]) {
  return add(mul(x, 4), reshape(matmul(m, reshape(x, shape=[2, 1])), shape=[2]))
}"""
HALF_COMPLEX = """graph with_conjugate(x: c128[2], m: c128[2]) { return add(mul(x, 4), mul(m, conjugate(x))) }"""
WAVE = """graph wave(x: f64[3], m: f64[3, 3], c: f64[3]) {
  return add(c, mul(tanh(reshape(matmul(m, reshape(x, shape=[3, 1])), shape=[3])), 0.25))
}"""
CUBE = """graph cube(x: f64[2], p: f64[2], q: f64[]) {
  return sub(add(mul(x, square(x)), mul(mul(q, x), reverse(exp(mul(x, -0.25)), axes=[0]))), p)
}"""
KEPLER = """graph kepler(x: f64[], m: f64[], e: f64[]) { return sub(sub(x, mul(e, sin(x))), m) }"""


def repeated(step, x, n):
    for _ in range(n):
        x = step(x)
    return x


def add(t):
    linear(t)
    nonlinear(t)


def linear(t):
    t.fn("cg_solution", "y = cg(b, m, body=@definite, tol=0); return reduce_sum(sin(y))",
         lambda b, m: jnp.sum(jnp.sin(jnp.linalg.solve(jnp.eye(3) + m.T @ m, b))), "hvp vmapgrad gradone",
         bodies=DEFINITE, b=normal(3), m=normal(3, 3))
    t.fn("cg_shared_matrix", "y = cg(b, m, body=@definite2, tol=0); return y",
         lambda b, m: jnp.linalg.solve(jnp.eye(3) + m.T @ m, b), "jac vmap vmapone jvp",
         bodies=DEFINITE.replace("definite", "definite2"), b=normal(3), m=normal(3, 3))
    t.fn("gmres_sylvester", "y = gmres(b, m, body=@matrix, tol=0); return reduce_sum(sin(y))",
         lambda b, m: jnp.sum(jnp.sin(jnp.linalg.solve(4 * jnp.eye(4) + jnp.kron(m, m), b.reshape(-1)))),
         "hess vmapgrad", bodies=MATRIX, b=normal(2, 2), m=normal(2, 2))
    loss = "return reduce_sum(add(square(real(y)), mul(mul(square(imag(y)), imag(y)), 2)))"
    real_loss = lambda y: jnp.sum(jnp.real(y)**2 + 2 * jnp.imag(y)**3)
    t.fn("gmres_complex", f"y = gmres(b, m, body=@complex_matrix, tol=0); {loss}",
         lambda b, m: real_loss(jnp.linalg.solve(4 * jnp.eye(2) + m, b)), "hvp", bodies=COMPLEX,
         b=normal(2, dtype="c128"), m=normal(2, 2, dtype="c128"))
    # 4 x + m conj(x) = b: linear over the reals only.
    t.fn("gmres_conjugate", f"y = gmres(b, m, body=@with_conjugate, tol=0); {loss}",
         lambda b, m: real_loss((4 * b - m * jnp.conj(b)) / (16 - jnp.real(m * jnp.conj(m)))), "hvp",
         bodies=HALF_COMPLEX, b=normal(2, dtype="c128"), m=normal(2, dtype="c128"))


def nonlinear(t):
    t.fn("fixed_point_wave", "y = fixed_point(x, m, c, body=@wave, tol=0); return reduce_sum(sin(y))",
         lambda x, m, c: jnp.sum(jnp.sin(repeated(lambda x: c + jnp.tanh(m @ x) / 4, jax.lax.stop_gradient(x), 60))),
         "hvp vmapgrad", bodies=WAVE, x=normal(3), m=uniform(-0.5, 0.5, 3, 3), c=normal(3))

    def cube(x, p, q):
        f = lambda x: x**3 + q * x * jnp.exp(-x / 4)[::-1] - p
        def newton(x):
            e = jnp.exp(-x / 4)
            jacobian = jnp.diag(3 * x**2 + q * e[::-1]) - jnp.fliplr(jnp.diag(q * x * e[::-1] / 4))
            return x - jnp.linalg.solve(jacobian, f(x))
        return jnp.sum(jnp.sin(repeated(newton, x, 8)))
    t.fn("root_cube", "y = root(x, p, q, body=@cube, tol=0); return reduce_sum(sin(y))", cube, "hvp gradone",
         bodies=CUBE, x=uniform(0.8, 1.2, 2), p=uniform(1, 3, 2), q=uniform(0.5, 1))
    t.fn("root_kepler", "root(x, m, e, body=@kepler, tol=0)",
         lambda x, m, e: repeated(lambda x: x - (x - e * jnp.sin(x) - m) / (1 - e * jnp.cos(x)), x, 8),
         "hess jvp taylor4 vmap", bodies=KEPLER, x=uniform(0.5, 1), m=uniform(0.5, 1), e=uniform(0.1, 0.5))
