# SPDX-License-Identifier: Apache-2.0
"""Shapes, movement of data, gathers and scatters, with repeated and batched indices."""
import jax
import jax.numpy as jnp
from jax import lax

from gradients import at, normal


def gathers(t):
    t.fn("embedding", "reduce_sum(sin(gather(table, i)))", lambda table, i: jnp.sum(jnp.sin(table[i])), "hess gradone",
         table=normal(4, 2), i=at([1, 3, 1, 0, 1], [2, 2, 0, 3, 2], dtype="i32"))
    t.fn("gather_axis1", "reduce_sum(sin(gather(x, i, axis=1)))", lambda x, i: jnp.sum(jnp.sin(jnp.take(x, i, 1))),
         "hvp vmapone vmapgrad", x=normal(2, 3, 2), i=at([[2, 0], [2, 2]], [[1, 1], [0, 2]], dtype="i64"))
    t.fn("gather_scalar_index", "square(gather(x, i))", lambda x, i: x[i]**2, "hess vmapgrad", x=normal(4),
         i=at(2, 0, dtype="i32"))
    t.fn("gather_out_of_range", "reduce_sum(exp(gather(x, i, oob=zero)))",
         lambda x, i: jnp.sum(jnp.exp(jnp.where((i >= 0) & (i < 3), x[jnp.clip(i, 0, 2)], 0.0))), "jvp vmapgrad",
         x=normal(3), i=at([0, 7, 2, -1], [5, 1, 1, 2], dtype="i32"))
    t.fn("gather_clamped", "reduce_sum(exp(gather(x, i, oob=clamp)))",
         lambda x, i: jnp.sum(jnp.exp(x[jnp.clip(i, 0, 2)])), "vmapgrad",
         x=normal(3), i=at([0, 7, 2, -1], [5, 1, 1, 2], dtype="i32"))
    t.fn("take_along", "reduce_sum(mul(take_along(x, i, axis=0), take_along(x, i, axis=0)))",
         lambda x, i: jnp.sum(jnp.take_along_axis(x, i, 0)**2), "hess vmapgrad", x=normal(3, 2),
         i=at([[0, 2], [0, 1], [2, 2], [0, 0]], [[1, 1], [0, 1], [1, 0], [2, 0]], dtype="i32"))
    t.fn("gather_nd_points",
         "reduce_sum(sin(gather_nd(x, i, slice_sizes=[1, 1], start_index_map=[0, 1], collapsed_axes=[0, 1])))",
         lambda x, i: jnp.sum(jnp.sin(x[i[:, 0], i[:, 1]])), "hess vmapgrad", x=normal(3, 2),
         i=at([[0, 1], [2, 0], [0, 1]], [[1, 1], [1, 1], [2, 1]], dtype="i32"))
    t.fn("gather_nd_windows",
         "reduce_sum(sin(gather_nd(x, i, slice_sizes=[2, 1], start_index_map=[0], offset_axes=[1], "
         "collapsed_axes=[1], index_vector_axis=1)))",
         lambda x, i: jnp.sum(jnp.sin(jnp.stack([x[i, 0], x[i + 1, 0]], 1))), "grad jvp vmapone", x=normal(4, 2),
         i=at([0, 2, 1], [1, 1, 2], dtype="i32"))
    t.fn("gather_nd_batched",
         "reduce_sum(sin(gather_nd(x, i, slice_sizes=[1, 1], start_index_map=[1], collapsed_axes=[1], "
         "operand_batching_axes=[0], indices_batching_axes=[0], index_vector_axis=2)))",
         lambda x, i: jnp.sum(jnp.sin(jnp.take_along_axis(x, i, 1))), "hvp vmapgrad", x=normal(2, 3),
         i=at([[0, 2, 2], [1, 1, 0]], [[1, 1, 1], [2, 0, 2]], dtype="i32"))
    t.fn("gather_twice", "reduce_sum(mul(gather(x, i), gather(x, gather(i, const(i32[3], [2, 2, 0])))))",
         lambda x, i: jnp.sum(x[i] * x[jnp.asarray(i)[jnp.array([2, 2, 0])]]), "hess vmapgrad", x=normal(3),
         i=at([1, 1, 2], [0, 2, 0], dtype="i32"))
    t.fn("gather_unreduced", "gather(sin(x), i, axis=1)", lambda x, i: jnp.take(jnp.sin(x), i, 1),
         "jac jvp vmap taylor4", x=normal(2, 3), i=at([2, 0, 2], [1, 1, 0], dtype="i32"))
    t.fn("one_hot_product", "y = one_hot(i, n=3, dtype=f64); return reduce_sum(square(matmul(y, w)))",
         lambda i, w: jnp.sum((jax.nn.one_hot(i, 3) @ w)**2), "grad hess", i=at([0, 2, 2], dtype="i32"), w=normal(3, 2))


def scatters(t):
    t.fn("scatter_add_collisions", "reduce_sum(sin(scatter_add(u, i, R=4)))",
         lambda u, i: jnp.sum(jnp.sin(jnp.zeros((4, 2)).at[i].add(u))), "hvp gradone", u=normal(5, 2),
         i=at([1, 3, 1, 1, 0], [2, 2, 0, 3, 2], dtype="i32"))
    t.fn("segment_softmax", "e = exp(x); s = scatter_add(e, i, R=3); p = div(e, gather(s, i)); "
                            "return reduce_sum(mul(p, p))",
         lambda x, i: (lambda e: jnp.sum((e / jnp.zeros(3).at[i].add(e)[i])**2))(jnp.exp(x)), "hess vmapgrad",
         x=normal(5), i=at([0, 2, 0, 1, 2], [1, 1, 0, 1, 2], dtype="i32"))
    one = "start_index_map=[0], collapsed_axes=[0], index_vector_axis=1"
    i = at([1, 0, 1, 3], [2, 2, 2, 0], dtype="i32")
    def fold(op):
        """One update after the other; the positions of a lane are numbers, so this unrolls."""
        def f(x, i, u):
            for k in range(4):
                x = x.at[i[k]].set(op(x[i[k]], u[k]))
            return jnp.sum(jnp.sin(x))
        return f
    def case(name, combine, op, kinds, u):
        t.fn(name, f"reduce_sum(sin(scatter_nd(x, i, u, {one}, combine={combine})))", fold(op), kinds, x=normal(4), i=i,
             u=u)
    case("scatter_nd_add", "add", lambda a, b: a + b, "hvp vmapgrad", normal(4))
    case("scatter_nd_set", "set", lambda a, b: b, "hess vmapgrad", normal(4))
    case("scatter_nd_mul", "mul", lambda a, b: a * b, "hvp vmapgrad", normal(4))
    case("scatter_nd_mul_zeros", "mul", lambda a, b: a * b, "grad hess", at([0, 2, 3, 0]))
    case("scatter_nd_max", "max", jnp.maximum, "hess vmapgrad", normal(4))
    case("scatter_nd_min", "min", jnp.minimum, "grad jvp", normal(4))
    t.fn("scatter_nd_dropped", f"reduce_sum(sin(scatter_nd(x, i, u, {one}, combine=add, oob=zero)))",
         lambda x, i, u: jnp.sum(jnp.sin(x.at[jnp.where(i < 0, 9, i)].add(u, mode="drop"))), "hvp vmapgrad",
         x=normal(3), i=at([1, 7, 1, -1], [0, 2, 5, 0], dtype="i32"), u=normal(4))
    t.fn("scatter_nd_rows",
         "reduce_sum(sin(scatter_nd(x, i, u, start_index_map=[0], offset_axes=[1], collapsed_axes=[0], "
         "index_vector_axis=1, combine=add)))", lambda x, i, u: jnp.sum(jnp.sin(x.at[i].add(u))), "hvp gradone",
         x=normal(3, 2), i=at([2, 0, 2], dtype="i32"), u=normal(3, 2))
    t.fn("scatter_nd_windows",
         "reduce_sum(exp(scatter_nd(x, i, u, start_index_map=[0], offset_axes=[1], index_vector_axis=1, "
         "combine=add)))",
         lambda x, i, u: jnp.sum(jnp.exp(x.at[i[:, None] + jnp.arange(2)].add(u))), "hvp vmapgrad", x=normal(4),
         i=at([2, 0, 1], [0, 0, 2], dtype="i32"), u=normal(3, 2))
    t.fn("scatter_nd_batched",
         "reduce_sum(sin(scatter_nd(x, i, u, start_index_map=[1], collapsed_axes=[1], operand_batching_axes=[0], "
         "indices_batching_axes=[0], index_vector_axis=2, combine=add)))",
         lambda x, i, u: jnp.sum(jnp.sin(x.at[jnp.arange(2)[:, None], i].add(u))), "hvp", x=normal(2, 3),
         i=at([[0, 2], [1, 1]], dtype="i32"), u=normal(2, 2))
    t.fn("histogram_of_weights", "h = scatter_add(exp(w), i, R=3); return reduce_sum(mul(h, log(h)))",
         lambda w, i: (lambda h: jnp.sum(h * jnp.log(h)))(jnp.zeros(3).at[i].add(jnp.exp(w))), "hess nth3 taylor4",
         w=normal(5), i=at([0, 2, 1, 0, 2], dtype="i32"))
    t.fn("scatter_nd_max_tie", f"reduce_sum(mul(scatter_nd(x, i, u, {one}, combine=max), const(f64[3], [6, 5, 4])))",
         lambda x, i, u: 6 * (x[0] + u[0] + u[1]) / 3 + 5 * u[2] + 4 * x[2], "grad jvp",
         note="all candidates equal to the result share equally; JAX has no rule", x=at([2, 0, 1]),
         i=at([0, 0, 1], dtype="i32"), u=at([2, 2, 3]))


def slices(t):
    t.fn("dynamic_slice", "reduce_sum(sin(dynamic_slice(x, i, j, sizes=[2, 2])))",
         lambda x, i, j: jnp.sum(jnp.sin(lax.dynamic_slice(x, (i, j), (2, 2)))), "hess gradone", x=normal(3, 3),
         i=at(1, 0, dtype="i32"), j=at(2, 1, dtype="i32"))
    t.fn("dynamic_update_slice", "reduce_sum(sin(mul(dynamic_update_slice(x, u, i, j), x)))",
         lambda x, u, i, j: jnp.sum(jnp.sin(lax.dynamic_update_slice(x, u, (i, j)) * x)), "hvp gradone", x=normal(3, 3),
         u=normal(2, 1), i=at(2, 0, dtype="i32"), j=at(1, 0, dtype="i32"))
    t.fn("strided_slice", "reduce_sum(square(slice(x, start=[0, 1], limit=[3, 5], stride=[2, 3])))",
         lambda x: jnp.sum(x[0:3:2, 1:5:3]**2), "hvp vmapgrad", x=normal(3, 5))
    t.fn("pad_interior", "reduce_sum(sin(pad(x, v, low=[1, -1], high=[0, 2], interior=[1, 2])))",
         lambda x, v: jnp.sum(jnp.sin(lax.pad(x, v, ((1, 0, 1), (-1, 2, 2))))), "hess gradone", x=normal(2, 2),
         v=normal())
    t.fn("narrow_concat", "a = narrow(x, axis=1, start=1, len=2); return reduce_sum(sin(concat(a, y, a, axis=1)))",
         lambda x, y: jnp.sum(jnp.sin(jnp.concatenate([x[:, 1:3], y, x[:, 1:3]], 1))), "hvp vmapone vmapgrad",
         x=normal(2, 4), y=normal(2, 1))
    t.fn("stack_split", "a, b = split(stack(x, y, axis=1), sizes=[1, 2], axis=0); return reduce_sum(mul(exp(a), b))",
         lambda x, y: (lambda s: jnp.sum(jnp.exp(s[:1]) * s[1:]))(jnp.stack([x, y], 1)), "hess vmapgrad", x=normal(3),
         y=normal(3))
    t.fn("unstack_rows", "a, b, c = unstack(x); return reduce_sum(mul(mul(a, b), sin(c)))",
         lambda x: jnp.sum(x[0] * x[1] * jnp.sin(x[2])), "hess vmapgrad", x=normal(3, 2))
    t.fn("finite_differences", "d = sub(roll(x, shift=-1, axis=0), x); return reduce_sum(mul(square(d), d))",
         lambda x: jnp.sum((jnp.roll(x, -1) - x)**3), "grad hess nth3 taylor4", x=normal(5))


def shapes(t):
    t.fn("transpose_reshape", "y = reshape(transpose(x, perm=[2, 0, 1]), shape=[3, 4]); "
                              "return reduce_sum(mul(sin(y), w))",
         lambda x, w: jnp.sum(jnp.sin(x.transpose(2, 0, 1).reshape(3, 4)) * w), "hvp vmap", x=normal(2, 2, 3),
         w=normal(4))
    t.fn("expand_reverse", "y = reverse(expand(x, shape=[3, 2]), axes=[0, 1]); return reduce_sum(mul(exp(y), w))",
         lambda x, w: jnp.sum(jnp.exp(jnp.flip(jnp.broadcast_to(x, (3, 2)))) * w), "hvp vmapgrad", x=normal(3, 1),
         w=normal(3, 2))
    t.fn("broadcast_in_dim", "y = broadcast_in_dim(x, shape=[2, 3, 2], axes=[1, 2]); return reduce_sum(sin(mul(y, w)))",
         lambda x, w: jnp.sum(jnp.sin(x[None] * w)), "hvp", x=normal(3, 1), w=normal(2, 3, 2))
    t.fn("tile_repeat",
         "reduce_sum(mul(tile(sin(x), repeats=[2, 2]), repeat(repeat(x, repeats=2, axis=0), repeats=2, axis=1)))",
         lambda x: jnp.sum(jnp.tile(jnp.sin(x), (2, 2)) * jnp.repeat(jnp.repeat(x, 2, 0), 2, 1)), "hess vmapgrad",
         x=normal(2, 2))
    t.fn("triangles", "reduce_sum(mul(tril(exp(x)), triu(x, k=-1)))",
         lambda x: jnp.sum(jnp.tril(jnp.exp(x)) * jnp.triu(x, -1)), "hess vmapgrad", x=normal(3, 3))
    t.fn("diagonals", "reduce_sum(sin(matmul(diag(x), diag(diag(y, k=1), k=-1))))",
         lambda x, y: jnp.sum(jnp.sin(jnp.diag(x) @ jnp.diag(jnp.diag(y, 1), -1))), "hvp vmapgrad", x=normal(3),
         y=normal(3, 3))
    t.fn("meshgrid_distance", "a, b = meshgrid(x, y); return reduce_sum(sqrt(add(square(a), square(b))))",
         lambda x, y: jnp.sum(jnp.hypot(*jnp.meshgrid(x, y, indexing="ij"))), "hess vmapgrad", x=normal(2), y=normal(3))
    t.fn("squeeze_unsqueeze", "y = unsqueeze(squeeze(x, axes=[1]), axes=[0, 2]); "
                              "return reduce_sum(mul(y, sin(mul(x, w))))",
         lambda x, w: jnp.sum(x[:, 0][None, :, None] * jnp.sin(x * w)), "hess vmapgrad", x=normal(2, 1), w=normal(2))
    t.fn("permuted_jacobian", "reshape(transpose(mul(x, x)), shape=[4])", lambda x: (x * x).T.reshape(4),
         "jac vmap taylor4", x=normal(2, 2))


def add(t):
    gathers(t)
    scatters(t)
    slices(t)
    shapes(t)
