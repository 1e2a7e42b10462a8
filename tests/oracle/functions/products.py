# SPDX-License-Identifier: Apache-2.0
"""Matrix products, contractions and small pieces of linear algebra written with them."""
import jax.numpy as jnp
from jax import lax

from gradients import normal, uniform


def add(t):
    a, b = normal(2, 3), normal(3, 2)
    t.fn("matmul_chain", "reduce_sum(square(matmul(matmul(a, b), c)))", lambda a, b, c: jnp.sum((a @ b @ c)**2), "hvp",
         a=a, b=b, c=normal(2, 1))
    t.fn("matmul", "matmul(a, b)", lambda a, b: a @ b, "jac vmap vmapone taylor4", a=a, b=b)
    t.fn("matmul_batched", "reduce_sum(sin(matmul(a, b)))", lambda a, b: jnp.sum(jnp.sin(a @ b)), "hvp",
         a=normal(2, 2, 3), b=normal(2, 3, 2))
    t.fn("matmul_broadcast", "reduce_sum(tanh(matmul(a, b)))", lambda a, b: jnp.sum(jnp.tanh(a @ b)), "hvp vmap",
         a=normal(2, 1, 2, 3), b=normal(2, 3, 1))
    t.fn("matmul_shared_matrix", "matmul(x, w)", lambda x, w: x @ w, "vmap vmapone", x=normal(2, 3), w=normal(3, 2))
    t.fn("matmul_f32", "reduce_sum(exp(matmul(a, b)))", lambda a, b: jnp.sum(jnp.exp(a @ b)), "hvp vmapgrad",
         a=normal(2, 2, dtype="f32"), b=normal(2, 2, dtype="f32"))
    t.fn("quadratic_form", "reduce_sum(mul(x, squeeze(matmul(q, unsqueeze(x, axes=[1])), axes=[1])))",
         lambda x, q: x @ q @ x, "hvp nth3 taylor4 vmapgrad", x=normal(3), q=normal(3, 3))
    t.fn("gram_log_det", "g = add(matmul(transpose(x), x), eye(n=2, dtype=f64)); "
         "p = mul(slice(g, start=[0, 0], limit=[1, 1]), slice(g, start=[1, 1], limit=[2, 2])); "
         "q = mul(slice(g, start=[0, 1], limit=[1, 2]), slice(g, start=[1, 0], limit=[2, 1])); "
         "return reduce_sum(log(sub(p, q)))",
         lambda x: jnp.log(jnp.linalg.det(x.T @ x + jnp.eye(2))), "grad hess nth3", x=normal(3, 2))
    t.fn("matrix_fourth_power", "p = matmul(a, a); return reduce_sum(diag(matmul(p, p)))",
         lambda a: jnp.trace(jnp.linalg.matrix_power(a, 4)), "hvp nth3 taylor4", a=normal(3, 3))
    t.fn("newton_schulz", "i2 = mul(eye(n=2, dtype=f64), 2); x0 = mul(eye(n=2, dtype=f64), 0.5); "
                          "x1 = matmul(x0, sub(i2, matmul(a, x0))); "
         "x2 = matmul(x1, sub(i2, matmul(a, x1))); x3 = matmul(x2, sub(i2, matmul(a, x2))); return x3",
         lambda a: (lambda step: step(step(step(jnp.eye(2) / 2))))(lambda x: x @ (2 * jnp.eye(2) - a @ x)),
         "jac vmap taylor4", a=uniform(0.6, 1.4, 2, 2))
    t.fn("rayleigh_quotient", "m = matmul(q, unsqueeze(x, axes=[1])); "
                              "return div(reduce_sum(mul(x, squeeze(m))), reduce_sum(square(x)))",
         lambda q, x: x @ q @ x / (x @ x), "hvp", q=normal(3, 3), x=normal(3))
    t.fn("outer_product_norm", "reduce_sum(log1p(square(mul(unsqueeze(x, axes=[1]), y))))",
         lambda x, y: jnp.sum(jnp.log1p(jnp.outer(x, y)**2)), "grad hess", x=normal(2), y=normal(3))
    einsums(t)
    dots(t)


def einsums(t):
    def case(name, eq, kinds, **inputs):
        keys = list(inputs)
        t.fn(name, f'reduce_sum(sin(einsum({", ".join(keys)}, eq="{eq}")))',
             lambda *x: jnp.sum(jnp.sin(jnp.einsum(eq, *x))), kinds, **inputs)
    case("einsum_matmul", "ij,jk->ik", "hvp", a=normal(2, 3), b=normal(3, 2))
    case("einsum_trace", "ii->", "hess vmapgrad", a=normal(3, 3))
    case("einsum_diagonal", "bii->bi", "hess vmapgrad", a=normal(2, 2, 2))
    case("einsum_bilinear", "i,ijk,k->j", "hvp", x=normal(2), w=normal(2, 3, 2), y=normal(2))
    case("einsum_outer", "i,j->ij", "grad hess", x=normal(2), y=normal(3))
    case("einsum_ellipsis", "...ij,...j->i...", "hvp vmap", a=normal(2, 2, 3), x=normal(2, 3))
    case("einsum_heads", "bqhd,bkhd->bhqk", "grad jvp", q=normal(1, 2, 2, 3), k=normal(1, 3, 2, 3))
    case("einsum_sums_axes", "ijk->j", "hvp", x=normal(2, 3, 2))
    case("einsum_transposes", "abc,cd->dba", "hvp vmap", x=normal(2, 2, 3), y=normal(3, 2))
    case("einsum_four", "ab,bc,cd,da->", "hvp", a=normal(2, 2), b=normal(2, 3), c=normal(3, 2), d=normal(2, 2))
    t.fn("einsum_unreduced", 'einsum(x, y, eq="bij,bkj->bik")', lambda x, y: jnp.einsum("bij,bkj->bik", x, y),
         "jac jvp vmap vmapone", x=normal(2, 2, 2), y=normal(2, 1, 2))


def dots(t):
    def case(name, dims, kinds, l, r):
        (lc, rc), (lb, rb) = dims
        t.fn(name, f"reduce_sum(sin(dot_general(l, r, lc={list(lc)}, rc={list(rc)}, lb={list(lb)}, rb={list(rb)})))",
             lambda l, r: jnp.sum(jnp.sin(lax.dot_general(l, r, dims))), kinds, l=l, r=r)
    case("dot_crossed_pairs", (((0, 2), (2, 0)), ((), ())), "hvp", normal(2, 3, 2), normal(2, 1, 2))
    case("dot_batch_last", (((0,), (1,)), ((2,), (0,))), "hvp vmap", normal(2, 2, 3), normal(3, 2, 2))
    case("dot_two_batches", (((3,), (1,)), ((1, 0), (2, 3))), "grad jvp vmapone", normal(2, 2, 1, 2),
         normal(1, 2, 2, 2))
    case("dot_no_contraction", (((), ()), ((0,), (1,))), "hvp", normal(2, 2), normal(2, 2))
    case("dot_to_scalar", (((0, 1), (1, 0)), ((), ())), "hvp", normal(2, 3), normal(3, 2))
    t.fn("lora", "reduce_sum(tanh(lora_matmul(x, w, a, b, scale=0.5)))",
         lambda x, w, a, b: jnp.sum(jnp.tanh(x @ w + 0.5 * (x @ a) @ b)),
         "hvp", x=normal(2, 3), w=normal(3, 2), a=normal(3, 1), b=normal(1, 2))
