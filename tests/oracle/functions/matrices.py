# SPDX-License-Identifier: Apache-2.0
"""Linear systems, factorisations, determinants and norms, from jax.numpy.linalg and jax.scipy.linalg."""
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from gradients import at, normal, uniform


def raised(by, *shape, dtype="f64"):
    """Matrices with a large diagonal: well conditioned, and positive definite in their symmetric part."""
    draw = normal(*shape, dtype=dtype)
    return lambda rng, lane: (draw(rng, lane) * 0.5 + by * np.eye(*shape[-2:])).astype(draw(rng, lane).dtype)


def real_loss(y):
    return jnp.sum(jnp.real(y)**2 + 2 * jnp.imag(y)**3) if jnp.iscomplexobj(y) else jnp.sum(jnp.sin(y))


LOSS = "reduce_sum(sin(y))"
COMPLEX_LOSS = "reduce_sum(add(square(real(y)), mul(mul(square(imag(y)), imag(y)), 2)))"


def add(t):
    solves(t)
    triangles(t)
    factors(t)
    determinants(t)
    others(t)


def solves(t):
    def case(name, kinds, a, b, op="solve", loss=LOSS):
        vector = len(b(np.random.default_rng(0), 0).shape) < len(a(np.random.default_rng(0), 0).shape)
        fn = lambda a, b: jnp.linalg.solve(a, b[..., None])[..., 0] if vector else jnp.linalg.solve(a, b)
        t.fn(name, f"y = {op}(a, b); return {loss}", lambda a, b: real_loss(fn(a, b)), kinds, a=a, b=b)
    case("solve_vector", "hvp vmapgrad gradone", raised(3, 3, 3), normal(3))
    case("solve_matrix", "hess", raised(3, 2, 2), normal(2, 2))
    case("solve_batch", "hvp", raised(3, 2, 2, 2), normal(2, 2))
    case("solve_broadcast", "hvp", raised(3, 2, 2), normal(2, 2, 1))
    case("solve_complex", "hvp", raised(3, 2, 2, dtype="c128"), normal(2, 1, dtype="c128"), loss=COMPLEX_LOSS)
    case("solve_f32", "grad", raised(3, 3, 3, dtype="f32"), normal(3, dtype="f32"))
    case("dense_solve", "hvp vmapgrad", raised(3, 3, 3), normal(3), op="dense_solve")
    case("batched_dense_solve", "hvp", raised(3, 2, 3, 3), normal(2, 3, 1), op="batched_dense_solve")
    # Pivots: without an exchange of rows the first division would be by 0.
    case("solve_pivots", "hvp", at(np.array([[0., 2, 1], [1, 0, 3], [4, 1, 0]]),
                                   np.array([[0., 1, 0], [0, 0, 1], [1, 0, 0]])), normal(3))
    t.fn("solve_alone", "solve(a, b)", lambda a, b: jnp.linalg.solve(a, b[:, None])[:, 0],
         "jac jvp taylor4 vmap vmapone", a=raised(3, 2, 2), b=normal(2))
    t.fn("inverse", f"y = inv(a); return {LOSS}", lambda a: real_loss(jnp.linalg.inv(a)), "hvp vmapgrad",
         a=raised(3, 3, 3))
    t.fn("inverse_complex", f"y = inv(a); return {COMPLEX_LOSS}", lambda a: real_loss(jnp.linalg.inv(a)), "hvp",
         a=raised(3, 2, 2, dtype="c128"))
    # Only the factors are kept: the derivative with respect to a goes through them.
    t.fn("lu_then_solve", f"l, p, q = lu(a); y = lu_solve(l, q, b); return {LOSS}",
         lambda a, b: real_loss(jnp.linalg.solve(a, b[:, None])[:, 0]), "hvp", a=raised(1, 3, 3), b=normal(3))
    t.fn("lu_then_adjoint_solve", f"l, p, q = lu(a); y = lu_solve(l, q, b, trans=adjoint); return {COMPLEX_LOSS}",
         lambda a, b: real_loss(jnp.linalg.solve(jnp.conj(a.T), b[:, None])[:, 0]), "hvp",
         a=raised(1, 2, 2, dtype="c128"), b=normal(2, dtype="c128"))


def triangles(t):
    def case(name, kinds, text, fn, a, b, loss=LOSS):
        t.fn(name, f"y = solve_triangular(t, b{text}); return {loss}", lambda t, b: real_loss(fn(t, b)), kinds, t=a,
             b=b)
    case("triangular_lower", "hvp vmapgrad gradone", "", lambda t, b: jsl.solve_triangular(t, b, lower=True),
         raised(3, 3, 3), normal(3))
    case("triangular_upper", "hvp", ", lower=false", lambda t, b: jsl.solve_triangular(t, b, lower=False),
         raised(3, 3, 3), normal(3, 2))
    case("triangular_transpose", "hvp", ", trans=transpose",
         lambda t, b: jsl.solve_triangular(t, b, lower=True, trans=1), raised(3, 3, 3), normal(3, 2))
    case("triangular_unit", "hvp", ", unit_diagonal=true",
         lambda t, b: jsl.solve_triangular(t, b, lower=True, unit_diagonal=True), normal(3, 3), normal(3, 1))
    case("triangular_right", "hvp", ", left_side=false",
         lambda t, b: jsl.solve_triangular(t, b.T, lower=True, trans=1).T, raised(3, 3, 3), normal(2, 3))
    case("triangular_adjoint", "hvp", ", trans=adjoint", lambda t, b: jsl.solve_triangular(t, b, lower=True, trans=2),
         raised(3, 2, 2, dtype="c128"), normal(2, 1, dtype="c128"), COMPLEX_LOSS)
    case("triangular_complex_transpose", "hvp", ", trans=transpose, lower=false",
         lambda t, b: jsl.solve_triangular(t, b, lower=False, trans=1), raised(3, 2, 2, dtype="c128"),
         normal(2, 1, dtype="c128"), COMPLEX_LOSS)


def positive_qr(a):
    q, r = jnp.linalg.qr(a)
    d = jnp.diagonal(r, axis1=-2, axis2=-1)
    phase = d / jnp.abs(d)
    return q * phase[..., None, :], r * jnp.conj(phase)[..., :, None]


def eliminated(a):
    """L below the diagonal, U from it on, partial pivoting; step by step, since JAX's own cannot be run with noise."""
    m, n = a.shape
    for k in range(min(m, n)):
        p = k + jnp.argmax(jnp.abs(jnp.real(a[k:, k])) + jnp.abs(jnp.imag(a[k:, k])))
        a = a[jnp.arange(m).at[k].set(p).at[p].set(k)]
        factor = a[k + 1:, k] / a[k, k]
        a = a.at[k + 1:, k].set(factor).at[k + 1:, k + 1:].add(-jnp.outer(factor, a[k, k + 1:]))
    return a


def factors(t):
    t.fn("cholesky", f"y = cholesky(a); return {LOSS}", lambda a: real_loss(jnp.linalg.cholesky(a)), "hvp vmapgrad",
         a=raised(3, 3, 3))
    t.fn("cholesky_upper", f"y = cholesky(a, lower=false); return {LOSS}",
         lambda a: real_loss(jnp.linalg.cholesky(a).T), "hvp", a=raised(3, 3, 3))
    t.fn("cholesky_complex", f"y = cholesky(a); return {COMPLEX_LOSS}", lambda a: real_loss(jnp.linalg.cholesky(a)),
         "hvp", a=raised(3, 2, 2, dtype="c128"))
    t.fn("lu", f"y, p, q = lu(a); return {LOSS}", lambda a: real_loss(eliminated(a)), "hvp", a=raised(1, 3, 3))
    t.fn("lu_tall", f"y, p, q = lu(a); return {LOSS}", lambda a: real_loss(eliminated(a)), "hvp", a=normal(4, 2))
    t.fn("lu_wide", f"y, p, q = lu(a); return {LOSS}", lambda a: real_loss(eliminated(a)), "hvp", a=normal(2, 4))
    t.fn("lu_complex", f"y, p, q = lu(a); return {COMPLEX_LOSS}", lambda a: real_loss(eliminated(a)), "hvp",
         a=raised(2, 2, 2, dtype="c128"))
    t.fn("qr_both", "q, r = qr(a); return add(reduce_sum(sin(q)), reduce_sum(cos(r)))",
         lambda a: (lambda q, r: jnp.sum(jnp.sin(q)) + jnp.sum(jnp.cos(r)))(*positive_qr(a)), "hvp", a=raised(2, 2, 2))
    t.fn("qr_of_r", "q, r = qr(a); return reduce_sum(sin(r))", lambda a: jnp.sum(jnp.sin(positive_qr(a)[1])), "hvp",
         a=normal(4, 2))
    t.fn("qr_of_q", "q, r = qr(a); return reduce_sum(sin(q))", lambda a: jnp.sum(jnp.sin(positive_qr(a)[0])), "hvp",
         a=normal(3, 2))


def determinants(t):
    t.fn("det", "reduce_sum(sin(det(a)))", lambda a: jnp.sum(jnp.sin(jnp.linalg.det(a))), "grad hess vmapgrad",
         a=normal(3, 3))
    t.fn("det_batch", "reduce_sum(sin(det(a)))", lambda a: jnp.sum(jnp.sin(jnp.linalg.det(a))), "hvp",
         a=normal(2, 2, 2))
    t.fn("det_third", "det(a)", jnp.linalg.det, "nth3", a=normal(4, 4))
    t.fn("det_complex", "y = det(a); return add(square(real(y)), mul(mul(square(imag(y)), imag(y)), 2))",
         lambda a: real_loss(jnp.linalg.det(a)), "hvp", a=normal(2, 2, dtype="c128"))
    # By rows, so that no inverse is taken of a singular matrix.
    by_minors = lambda a: (a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1]) - a[0, 1]
                           * (a[1, 0] * a[2, 2] - a[1, 2] * a[2, 0])
                           + a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0]))
    rank_two = np.array([[1., 2, 3], [4, 5, 6], [7, 8, 9]])
    t.fn("det_singular", "det(a)", by_minors, "hess", a=at(rank_two))
    t.fn("det_of_rank_one", "det(a)", by_minors, "hess", a=at(np.outer([1., 2, -1], [3., 1, 2])))
    t.fn("det_of_zeros", "det(a)", by_minors, "hess", a=at(np.zeros((3, 3))))
    # The square of the determinant, so that the point where it vanishes is not all that is asked for.
    t.fn("det_singular_loss", "square(add(det(a), 1))", lambda a: (by_minors(a) + 1)**2, "hess hvp vmapgrad",
         a=at(rank_two, np.outer([1., 2, -1], [3., 1, 2])))
    t.fn("lu_taylor", "y, p, q = lu(a); return y", eliminated, "jvp taylor4", a=raised(2, 2, 2))
    t.fn("cholesky_taylor", "cholesky(a)", jnp.linalg.cholesky, "jvp taylor4", a=raised(3, 2, 2))
    t.fn("inverse_taylor", "inv(a)", jnp.linalg.inv, "jvp taylor4", a=raised(3, 2, 2))
    t.fn("logdet_taylor", "logdet(a)", lambda a: jnp.linalg.slogdet(a)[1], "taylor4", a=raised(2, 2, 2))
    t.fn("logdet", "logdet(a)", lambda a: jnp.linalg.slogdet(a)[1], "hess vmapgrad nth3", a=raised(2, 3, 3))
    t.fn("logdet_complex", "logdet(a)", lambda a: jnp.linalg.slogdet(a)[1], "hvp", a=raised(2, 2, 2, dtype="c128"))
    t.fn("slogdet", "s, l = slogdet(a); return reduce_sum(mul(s, sin(l)))",
         lambda a: (lambda s, l: jnp.sum(s * jnp.sin(l)))(*jnp.linalg.slogdet(a)), "hvp", a=normal(2, 2, 2))
    t.fn("slogdet_complex", "s, l = slogdet(a); return mul(real(s), l)",
         lambda a: (lambda s, l: jnp.real(s) * l)(*jnp.linalg.slogdet(a)), "hvp", a=raised(1, 2, 2, dtype="c128"))


def others(t):
    def norm(name, ord, kinds, x, np_ord=None):
        t.fn(f"norm_{name}", f"norm(x, ord={ord})",
             lambda x: jnp.linalg.norm(x.ravel(), ord if np_ord is None else np_ord), kinds, x=x)
    norm("two", 2, "hess vmapgrad nth3", normal(4))
    norm("one", 1, "grad", normal(4))
    norm("three", 3, "hess", uniform(-2, 2, 3))
    norm("half", 0.5, "hess", uniform(0.5, 2, 3))
    norm("largest", "inf", "grad", normal(2, 2), np.inf)
    norm("smallest", "-inf", "grad", normal(4), -np.inf)
    t.fn("norm_complex", "norm(x)", lambda x: jnp.linalg.norm(x), "hvp", x=normal(3, dtype="c128"))
    t.fn("norm_axes", "reduce_sum(sin(norm(x, axes=[0, 2])))",
         lambda x: jnp.sum(jnp.sin(jnp.sqrt(jnp.sum(x**2, (0, 2))))), "hvp vmapgrad", x=normal(2, 2, 3))
    t.fn("matrix_power", f"y = matrix_power(a, n=5); return {LOSS}", lambda a: real_loss(jnp.linalg.matrix_power(a, 5)),
         "hvp", a=normal(2, 2))
    t.fn("matrix_power_negative", f"y = matrix_power(a, n=-3); return {LOSS}",
         lambda a: real_loss(jnp.linalg.matrix_power(a, -3)), "hvp", a=raised(2, 2, 2))
    t.fn("kron", f"y = kron(a, b); return {LOSS}", lambda a, b: real_loss(jnp.kron(a, b)), "hvp vmapgrad",
         a=normal(2, 1), b=normal(1, 3))
    t.fn("trace", "sin(trace(matmul(a, a)))", lambda a: jnp.sin(jnp.trace(a @ a)), "hvp", a=normal(3, 3))
    t.fn("diagonals", "reduce_sum(sin(matmul(diag_set(diag_extract(a)), a)))",
         lambda a: jnp.sum(jnp.sin(jnp.diag(jnp.diag(a)) @ a)), "hvp vmapgrad", a=normal(3, 3))
    rows, cols = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 2, 1, 0, 1, 2])
    pattern = f"rows={list(map(int, rows))}, cols={list(map(int, cols))}, n=3"
    dense = lambda v: jnp.zeros((3, 3)).at[rows, cols].add(v)
    t.fn("spmv", f"y = spmv(v, x, {pattern}); return {LOSS}", lambda v, x: real_loss(dense(v) @ x),
         "hvp vmapgrad gradone", v=normal(6), x=normal(3))
    t.fn("sparse_solve", f"y = sparse_solve(v, b, {pattern}); return {LOSS}",
         lambda v, b: real_loss(jnp.linalg.solve(dense(v), b[:, None])[:, 0]),
         "hvp vmapgrad gradone", v=uniform(0.5, 2, 6), b=normal(3))
    t.fn("sparse_solve_matrix", f"y = sparse_solve(v, b, {pattern}); return {LOSS}",
         lambda v, b: real_loss(jnp.linalg.solve(dense(v), b)), "hvp vmap", v=uniform(0.5, 2, 6), b=normal(3, 2))
