# SPDX-License-Identifier: Apache-2.0
"""Loops, branches and functions with rules of their own. JAX cannot differentiate a while loop in reverse: there the
loop is as many masked steps as its bound, which has the derivative at the trip count."""
import jax
import jax.numpy as jnp
from jax import lax

from gradients import at, normal, uniform


def masked(cond, body, carry, steps):
    """while cond(carry): carry = body(carry), at most that many times."""
    active = jnp.array(True)
    for _ in range(steps):
        active = active & cond(*carry)
        carry = tuple(jnp.where(active, new, old) for new, old in zip(body(*carry), carry))
    return carry


def scans(t):
    step = 'graph rnn_step(h: f64[2], w: f64[2, 2], x: f64[2]) { return tanh(add(einsum(h, w, eq="i,ij->j"), x)) }'
    def rnn(h, w, xs):
        for x in xs:
            h = jnp.tanh(h @ w + x)
        return h
    t.fn("rnn", "h = scan(h0, w, xs, body=@rnn_step, num_bcast=1); return reduce_sum(square(h))",
         lambda h0, w, xs: jnp.sum(rnn(h0, w, xs)**2), "hvp vmapgrad", bodies=step, h0=normal(2), w=normal(2, 2),
         xs=normal(3, 2))
    t.fn("rnn_checkpointed", "h = scan(h0, w, xs, body=@rnn_step, num_bcast=1, num_checkpoints=2); "
                             "return reduce_sum(square(h))",
         lambda h0, w, xs: jnp.sum(rnn(h0, w, xs)**2), "hvp", h0=normal(2), w=normal(2, 2), xs=normal(5, 2))
    t.fn("rnn_long_checkpointed",
         "h = scan(h0, w, xs, body=@rnn_step, num_bcast=1, num_checkpoints=3); return reduce_sum(square(h))",
         lambda h0, w, xs: jnp.sum(rnn(h0, w, xs)**2), "grad", h0=normal(2), w=normal(2, 2), xs=normal(11, 2))
    t.fn("checkpointed_backwards", "c, y = scan(c0, k, xs, body=@cell, num_bcast=1, reverse=true, num_checkpoints=2); "
         "return add(c, reduce_sum(square(y)))", lambda c0, k, xs: cells(c0, k, xs[::-1]), "hess vmapgrad taylor4",
         bodies="graph cell(c: f64[], k: f64[], x: f64[]) {\n  n = tanh(add(mul(c, k), x))\n  return n, mul(n, x)\n}",
         c0=normal(), k=normal(), xs=normal(4))
    t.fn("thinned_trajectory",
         "c, y = scan(c0, k, xs, body=@cell, num_bcast=1, save_trajectory=true, num_checkpoints=2); "
         "return reduce_sum(mul(exp(c), const(f64[2], [1, 3])))",
         lambda c0, k, xs: jnp.sum(jnp.exp(cell_rows(c0, k, xs)[0][jnp.array([2, 4])]) * jnp.array([1.0, 3])),
         "hess gradone", c0=normal(), k=normal(), xs=normal(5))
    t.fn("one_step", "c, y = scan(c0, k, xs, body=@cell, num_bcast=1, num_checkpoints=1); "
                     "return add(c, reduce_sum(square(y)))", cells,
         "hess", c0=normal(), k=normal(), xs=normal(1))
    t.fn("no_steps", "c = scan(c0, length=0, body=@logistic_map); return square(c)", lambda c0: c0**2, "hess vmapgrad",
         c0=normal())
    t.fn("hidden_markov", "a = scan(p, m, e, seen, body=@forward_step, num_bcast=2); return log(reduce_sum(a))",
         lambda p, m, e, seen: jnp.log(jnp.sum(hidden_markov(p, m, e, seen))), "hvp gradone",
         bodies='graph forward_step(a: f64[2], m: f64[2, 2], e: f64[2, 3], s: i32[]) '
         '{ return mul(einsum(a, m, eq="i,ij->j"), gather(e, s, axis=1)) }',
         p=uniform(0.2, 0.8, 2), m=uniform(0.2, 0.8, 2, 2), e=uniform(0.1, 0.6, 2, 3),
         seen=at([2, 0, 1, 2], dtype="i32"))
    t.fn("walk_on_table", "i, s = scan(i0, s0, table, length=4, num_carry=2, num_bcast=1, body=@walk); "
                          "return square(s)",
         walk, "hess vmapgrad", bodies="graph walk(i: i32[], s: f64[], table: f64[3]) {\n"
                                       "  n = rem(add(mul(i, 2), 2), 3)\n"
         "  return n, add(mul(s, 0.5), sin(mul(gather(table, i), add(s, 1))))\n}",
         i0=at(0, 1, dtype="i32"), s0=normal(), table=normal(3))
    t.fn("f32_scan", "scan(x, length=4, body=@logistic_map_f32)",
         lambda x: (lambda f: f(f(f(f(x)))))(lambda x: 3.125 * x * (1 - x)),
         "hess nth3 vmapgrad", bodies="graph logistic_map_f32(x: f32[]) { return mul(mul(x, sub(1, x)), 3.125) }",
         x=uniform(0.2, 0.8, dtype="f32"))
    t.fn("scan_unreduced", "c, y = scan(c0, k, xs, body=@cell, num_bcast=1); return c, y",
         lambda c0, k, xs: (lambda n, y: (n[-1], y))(*cell_rows(c0, k, xs)), "jac jvp vmap vmapone", c0=normal(),
         k=normal(), xs=normal(3))
    def states(h, w, xs, reverse=False):
        rows = [None] * len(xs)
        for k in (reversed(range(len(xs))) if reverse else range(len(xs))):
            h = rows[k] = jnp.tanh(h @ w + xs[k])
        return jnp.stack(rows)
    t.fn("rnn_trajectory", "h = scan(h0, w, xs, body=@rnn_step, num_bcast=1, save_trajectory=true); "
                           "return reduce_sum(mul(h, xs))",
         lambda h0, w, xs: jnp.sum(states(h0, w, xs) * xs), "hvp", h0=normal(2), w=normal(2, 2), xs=normal(4, 2))
    t.fn("rnn_reverse", "h = scan(h0, w, xs, body=@rnn_step, num_bcast=1, save_trajectory=true, reverse=true); "
                        "return reduce_sum(mul(h, xs))",
         lambda h0, w, xs: jnp.sum(states(h0, w, xs, True) * xs), "hvp gradone", h0=normal(2), w=normal(2, 2),
         xs=normal(3, 2))
    t.fn("rnn_shared_weights", "scan(h0, w, xs, body=@rnn_step, num_bcast=1)", rnn, "jac vmap vmapone taylor4",
         h0=normal(2), w=normal(2, 2), xs=normal(2, 2))
    t.fn("two_carries", "a, b, y, z = scan(a0, b0, k, xs, ys, body=@pair_step, num_carry=2, num_bcast=1, num_xs=2); "
         "return add_n(square(a), exp(b), reduce_sum(mul(y, z)))",
         lambda a0, b0, k, xs, ys: pair(a0, b0, k, xs, ys), "hvp vmapgrad",
         bodies="graph pair_step(a: f64[], b: f64[], k: f64[], x: f64[], y: f64[]) {\n"
         "  an = add(mul(a, k), sin(mul(b, x)))\n  bn = tanh(add(b, mul(a, y)))\n"
         "  return an, bn, mul(an, y), add(b, x)\n}",
         a0=normal(), b0=normal(), k=normal(), xs=normal(3), ys=normal(3))
    t.fn("horner", "scan(full(f64[], 0), x, c, body=@horner_step, num_bcast=1)", lambda x, c: jnp.polyval(c, x),
         "hess nth3 taylor4 vmapgrad",
         bodies="graph horner_step(s: f64[], x: f64[], c: f64[]) { return fma(s, x, c) }", x=normal(), c=normal(6))
    t.fn("fixed_length", "scan(x, length=5, body=@logistic_map)",
         lambda x: (lambda f: f(f(f(f(f(x))))))(lambda x: 3.1 * x * (1 - x)),
         "hess nth3 taylor4 vmapgrad", bodies="graph logistic_map(x: f64[]) { return mul(mul(x, sub(1, x)), 3.1) }",
         x=uniform(0.2, 0.8))
    t.fn("runge_kutta", "y = scan(y0, p, length=4, num_bcast=1, body=@rk4_step); return reduce_sum(square(y))",
         lambda y0, p: jnp.sum(rk4(y0, p)**2), "hess vmapgrad",
         bodies="graph field(y: f64[2], p: f64[2]) {\n  a, b = unstack(y)\n  c, d = unstack(p)\n"
         "  return stack(mul(c, b), sub(neg(mul(d, sin(a))), mul(b, 0.1)))\n}\n"
         "graph rk4_step(y: f64[2], p: f64[2]) {\n  k1 = custom_fn(y, p, fwd_body=@field)\n"
         "  k2 = custom_fn(add(y, mul(k1, 0.1)), p, fwd_body=@field)\n"
         "  k3 = custom_fn(add(y, mul(k2, 0.1)), p, fwd_body=@field)\n"
         "  k4 = custom_fn(add(y, mul(k3, 0.2)), p, fwd_body=@field)\n"
         "  return add(y, mul(add(add(k1, k4), mul(add(k2, k3), 2)), 0.03333333333333333))\n}",
         y0=normal(2), p=uniform(0.5, 1.5, 2))
    t.fn("nested_scan", "reduce_sum(scan(x, w, body=@outer_step, num_bcast=1, length=3))",
         lambda x, w: jnp.sum(nested(x, w)), "hess vmapgrad",
         bodies="graph inner_step(s: f64[2], c: f64[]) { return mul(sin(s), add(c, 1)) }\n"
         "graph outer_step(s: f64[2], w: f64[3]) { return add(scan(s, w, body=@inner_step), s) }", x=normal(2),
         w=normal(3))
    t.fn("scan_per_step_only", "c, y = scan(full(f64[], 0), x, body=@ema_step); return reduce_sum(mul(y, y))",
         lambda x: jnp.sum(jnp.stack(ema(x))**2), "hess vmapgrad",
         bodies="graph ema_step(c: f64[], x: f64[]) {\n  n = add(mul(c, 0.9), mul(x, 0.1))\n  return n, sub(x, n)\n}",
         x=normal(4))
    t.fn("power_iteration", "v = scan(v0, m, length=3, num_bcast=1, body=@power_step); "
                            "return reduce_sum(mul(v, einsum(m, v, eq=\"ij,j->i\")))",
         lambda v0, m: (lambda v: v @ m @ v)(power(v0, m)), "hvp vmapgrad",
         bodies='graph power_step(v: f64[2], m: f64[2, 2]) {\n  u = einsum(m, v, eq="ij,j->i")\n'
         '  return div(u, sqrt(reduce_sum(square(u))))\n}', v0=uniform(0.5, 1.5, 2), m=uniform(0.5, 2, 2, 2))
    t.fn("sinkhorn", "u = scan(full(f64[2], 1), exp(neg(cost)), length=3, num_bcast=1, body=@sinkhorn_step); "
         "k = exp(neg(cost)); v = div(0.5, einsum(k, u, eq=\"ij,i->j\")); "
         "return einsum(u, k, v, cost, eq=\"i,ij,j,ij->\")",
         lambda cost: sinkhorn(cost), "grad hess",
         bodies='graph sinkhorn_step(u: f64[2], k: f64[2, 2]) {\n  v = div(0.5, einsum(k, u, eq="ij,i->j"))\n'
         '  return div(const(f64[2], [0.3, 0.7]), einsum(k, v, eq="ij,j->i"))\n}', cost=uniform(0, 2, 2, 2))


def cell_rows(c, k, xs):
    rows = []
    for x in xs:
        c = jnp.tanh(c * k + x)
        rows.append((c, c * x))
    return [jnp.stack(column) for column in zip(*rows)]


def cells(c, k, xs):
    n, y = cell_rows(c, k, xs)
    return n[-1] + jnp.sum(y**2)


def hidden_markov(a, m, e, seen):
    for s in seen:
        a = (a @ m) * e[:, s]
    return a


def walk(i, s, table):
    for _ in range(4):
        i, s = (2 * i + 2) % 3, 0.5 * s + jnp.sin(table[i] * (s + 1))
    return s**2


def pair(a, b, k, xs, ys):
    total = 0.0
    for x, y in zip(xs, ys):
        an, bn = a * k + jnp.sin(b * x), jnp.tanh(b + a * y)
        total += an * y * (b + x)
        a, b = an, bn
    return a**2 + jnp.exp(b) + total


def rk4(y, p):
    def field(y):
        return jnp.stack([p[0] * y[1], -p[1] * jnp.sin(y[0]) - 0.1 * y[1]])
    for _ in range(4):
        k1 = field(y)
        k2 = field(y + 0.1 * k1)
        k3 = field(y + 0.1 * k2)
        k4 = field(y + 0.2 * k3)
        y = y + 0.2 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def nested(x, w):
    for _ in range(3):
        s = x
        for c in w:
            s = jnp.sin(s) * (c + 1)
        x = s + x
    return x


def ema(x):
    c, rows = 0.0, []
    for v in x:
        c = 0.9 * c + 0.1 * v
        rows.append(v - c)
    return rows


def power(v, m):
    for _ in range(3):
        v = m @ v
        v = v / jnp.linalg.norm(v)
    return v


def sinkhorn(cost):
    k, u = jnp.exp(-cost), jnp.ones(2)
    for _ in range(3):
        u = jnp.array([0.3, 0.7]) / (k @ (0.5 / (k.T @ u)))
    return jnp.sum(u[:, None] * k * (0.5 / (k.T @ u)) * cost)


def whiles(t):
    masks = "JAX cannot differentiate a while loop in reverse: there it is as many masked steps as its bound"
    t.fn("newton_root", "x, b = while(x0, a, cond=@newton_open, body=@newton_step, max_iterations=8); return x",
         lambda x0, a: masked(lambda x, a: jnp.abs(x * x - a) > 1e-3, lambda x, a: ((x + a / x) / 2, a), (x0, a), 8)[0],
         "hess vmapgrad", note=masks,
         bodies="graph newton_open(x: f64[], a: f64[]) { return gt(abs(sub(square(x), a)), 1e-3) }\n"
         "graph newton_step(x: f64[], a: f64[]) { return mul(add(x, div(a, x)), 0.5), a }", x0=at(1.0, 1.4),
         a=at(7.0, 2.0))
    t.fn("newton_unbounded", "x, b = while(x0, a, cond=@newton_open, body=@newton_step); return x",
         lambda x0, a: masked(lambda x, a: jnp.abs(x * x - a) > 1e-3, lambda x, a: ((x + a / x) / 2, a), (x0, a), 8)[0],
         "hess vmapgrad", note=masks, x0=at(0.5, 2.0), a=at(3.0, 4.5))
    t.fn("counted_loop", "i, y = while(n, x, cond=@count_open, body=@count_step); return reduce_sum(square(y))",
         lambda n, x: jnp.sum(masked(lambda i, y: i > 0, lambda i, y: (i - 1, jnp.sin(y) * 1.5), (n, x), 5)[1]**2),
         "hess vmapgrad taylor4", note=masks,
         bodies="graph count_open(i: i32[], y: f64[2]) { return gt(i, 0) }\n"
         "graph count_step(i: i32[], y: f64[2]) { return sub(i, 1), mul(sin(y), 1.5) }", n=at(3, 5, dtype="i32"),
         x=normal(2))
    t.fn("no_trips", "i, y = while(n, x, cond=@count_open, body=@count_step); return reduce_sum(square(y))",
         lambda n, x: jnp.sum(x**2) + 0 * n, "grad hess", n=at(0, dtype="i32"), x=normal(2))
    t.fn("bound_reached", "i, y = while(n, x, cond=@count_open, body=@count_step, max_iterations=2); "
                          "return reduce_sum(square(y))",
         lambda n, x: jnp.sum((1.5 * jnp.sin(1.5 * jnp.sin(x)))**2), "hess vmapgrad", n=at(9, 4, dtype="i32"),
         x=normal(2))
    t.fn("gradient_descent",
         "x, q, s = while(x0, p, full(i32[], 0), cond=@descent_open, body=@descent_step, max_iterations=6); "
         "return reduce_sum(mul(x, p))",
         lambda x0, p: jnp.sum(masked(lambda x, p, s: s < 4,
                                      lambda x, p, s: (x - 0.2 * (2 * x * p + jnp.cos(x)), p, s + 1),
                                      (x0, p, jnp.array(0)), 6)[0] * p), "hess vmapgrad", note=masks,
         bodies="graph descent_open(x: f64[2], p: f64[2], s: i32[]) { return lt(s, 4) }\n"
         "graph descent_step(x: f64[2], p: f64[2], s: i32[]) { return sub(x, mul(add(mul(mul(x, p), 2), cos(x)), "
         "0.2)), p, add(s, 1) }",
         x0=normal(2), p=uniform(0.5, 1.5, 2))
    t.fn("while_unreduced", "i, y = while(n, x, cond=@count_open, body=@count_step); return y, mul(y, x)",
         lambda n, x: (lambda y: (y, y * x))(1.5 * jnp.sin(1.5 * jnp.sin(x))), "jac jvp vmapone", n=at(2, dtype="i32"),
         x=normal(2))
    t.fn("while_nested", "i, y = while(n, x, cond=@outer_open, body=@outer_body); return y",
         lambda n, x: (lambda f: f(f(x)))(lambda y: 0.5 * y + jnp.sin(jnp.sin(jnp.sin(y)))), "hess nth3",
         bodies="graph sines_open(i: i32[], y: f64[]) { return gt(i, 0) }\n"
         "graph sines_body(i: i32[], y: f64[]) { return sub(i, 1), sin(y) }\n"
         "graph outer_open(i: i32[], y: f64[]) { return gt(i, 0) }\n"
         "graph outer_body(i: i32[], y: f64[]) {\n"
         "  j, s = while(add(mul(i, 0), 3), y, cond=@sines_open, body=@sines_body)\n"
         "  return sub(i, 1), add(mul(y, 0.5), s)\n}", n=at(2, dtype="i32"), x=normal())
    t.fn("scan_inside_while", "i, y, w2 = while(n, x, w, cond=@pass_open, body=@pass_body); return y", passes, "hess",
         bodies="graph pass_step(c: f64[], w: f64[]) { return tanh(mul(c, w)) }\n"
         "graph pass_open(i: i32[], y: f64[], w: f64[2]) { return gt(i, 0) }\n"
         "graph pass_body(i: i32[], y: f64[], w: f64[2]) { return sub(i, 1), add(scan(y, w, body=@pass_step), 0.5), w "
         "}",
         n=at(2, dtype="i32"), x=normal(), w=normal(2))
    t.fn("while_inside_scan", "scan(x, n, body=@loop_step)",
         lambda x, n: masked_rows(x, n), "hess vmapgrad", note=masks,
         bodies="graph shrink_open(i: i32[], y: f64[]) { return gt(i, 0) }\n"
         "graph shrink(i: i32[], y: f64[]) { return sub(i, 1), tanh(mul(y, 1.2)) }\n"
         "graph loop_step(c: f64[], n: i32[]) {\n  i, y = while(n, c, cond=@shrink_open, body=@shrink)\n"
         "  return add(y, c)\n}",
         x=normal(), n=at([2, 0, 1], [1, 3, 1], dtype="i32"))


def masked_rows(x, n):
    for k in n:
        x = masked(lambda i, y: i > 0, lambda i, y: (i - 1, jnp.tanh(1.2 * y)), (k, x), 3)[1] + x
    return x


def passes(n, y, w):
    for _ in range(2):
        y = jnp.tanh(jnp.tanh(y * w[0]) * w[1]) + 0.5
    return y


def branches(t):
    bodies = ("graph take_log(x: f64[3], y: f64[3]) { return reduce_sum(mul(log(x), y)) }\n"
              "graph take_square(x: f64[3], y: f64[3]) { return reduce_sum(mul(square(x), exp(y))) }")
    t.fn("if_singular_else", "if(gt(reduce_sum(x), 0), x, y, then=@take_square, else=@take_log)",
         lambda x, y: jnp.sum(x**2 * jnp.exp(y)), "grad hess taylor4", bodies=bodies, x=at([0, 2, -1]), y=normal(3))
    t.fn("if_other_way", "if(gt(reduce_sum(x), 10), x, y, then=@take_square, else=@take_log)",
         lambda x, y: jnp.sum(jnp.log(x) * y), "grad hess", x=uniform(0.5, 2, 3), y=normal(3))
    t.fn("if_per_lane", "if(gt(reduce_sum(x), 0), x, y, then=@take_log, else=@take_square)",
         lambda x, y: lax.cond(jnp.sum(x) > 0, lambda: jnp.sum(jnp.log(x) * y), lambda: jnp.sum(x**2 * jnp.exp(y))),
         "vmapgrad", x=at([1, 2, 0.5], [0, -2, 1]), y=normal(3))
    t.fn("if_unused_capture", "add(if(lt(x, 0), x, y, then=@first_only, else=@second_only), mul(x, y))",
         lambda x, y: jnp.sin(x) + x * y, "grad hess",
         bodies="graph first_only(x: f64[], y: f64[]) { return sin(x) }\n"
                "graph second_only(x: f64[], y: f64[]) { return log(sub(y, y)) }",
         x=at(-0.7), y=at(1.3))
    t.fn("case_of_three", "case(i, x, branches=[@branch_sin, @branch_exp, @branch_cube])",
         lambda i, x: lax.switch(i, [lambda x: jnp.sum(jnp.sin(x)), lambda x: jnp.sum(jnp.exp(x)),
                                     lambda x: jnp.sum(x**3)], x),
         "hess vmapgrad", bodies="graph branch_sin(x: f64[2]) { return reduce_sum(sin(x)) }\n"
         "graph branch_exp(x: f64[2]) { return reduce_sum(exp(x)) }\n"
         "graph branch_cube(x: f64[2]) { return reduce_sum(mul(x, square(x))) }",
         i=at(2, 0, dtype="i32"), x=normal(2))
    t.fn("if_inside_scan", "scan(x, w, body=@gate)",
         lambda x, w: gated(x, w), "hess vmapgrad",
         bodies="graph up(c: f64[], w: f64[]) { return sqrt(mul(c, w)) }\n"
                "graph down(c: f64[], w: f64[]) { return add(sin(c), mul(w, w)) }\n"
         "graph gate(c: f64[], w: f64[]) { return if(gt(mul(c, w), 0.1), c, w, then=@up, else=@down) }",
         x=at(0.8, -0.6), w=at([0.5, -0.3, 2], [1, 0.7, -1]))


def gated(c, w):
    for v in w:
        on = c * v > 0.1
        c = jnp.where(on, jnp.sqrt(jnp.where(on, c * v, 1.0)), jnp.sin(c) + v * v)
    return c


def custom(t):
    @jax.custom_vjp
    def clipped(x):
        return jnp.sin(x)
    clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.clip(g * jnp.cos(x), -0.5, 0.5),))
    t.fn("custom_clipped_gradient", "reduce_sum(mul(custom_fn(x, fwd_body=@clip_f, vjp_body=@clip_b), w))",
         lambda x, w: jnp.sum(clipped(x) * w), "vmapgrad", bodies="graph clip_f(x: f64[3]) { return sin(x) }\n"
         "graph clip_b(x: f64[3], y: f64[3], g: f64[3]) { return clamp(-0.5, mul(g, cos(x)), 0.5) }", x=normal(3),
         w=normal(3))

    @jax.custom_vjp
    def scaled(x, y):
        return x * y
    scaled.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (3 * g * r[1], g * r[0]**2))
    t.fn("custom_residuals",
         "reduce_sum(square(custom_fn(x, y, fwd_body=@scale_f, vjp_body=@scale_b, num_residuals=1)))",
         lambda x, y: jnp.sum(scaled(x, y)**2), "hvp vmapgrad",
         bodies="graph scale_f(x: f64[2], y: f64[2]) { return mul(x, y), square(x) }\n"
         "graph scale_b(x: f64[2], y: f64[2], p: f64[2], r: f64[2], g: f64[2]) { return mul(mul(g, y), 3), mul(g, r) }",
         x=normal(2), y=normal(2))

    @jax.custom_jvp
    def steep(x):
        return jnp.tanh(x)
    # the rule reads the result of steep, not of tanh, so the second derivative goes through the rule again
    steep.defjvp(lambda x, v: (lambda y: (y, 2 * (1 - y**2) * v[0]))(steep(x[0])))
    t.fn("custom_tangent", "reduce_sum(mul(custom_fn(x, fwd_body=@steep_f, jvp_body=@steep_t), x))",
         lambda x: jnp.sum(steep(x) * x), "jvp hess vmapgrad", bodies="graph steep_f(x: f64[3]) { return tanh(x) }\n"
         "graph steep_t(x: f64[3], v: f64[3], y: f64[3]) { return mul(mul(sub(1, square(y)), v), 2) }", x=normal(3))
    both = 'reduce_sum(mul(custom_fn(x, fwd_body=@both_f, vjp_body=@both_b, jvp_body=@both_t), x))'
    alone = "a function of JAX has a rule for reverse mode or one for forward mode; here it has the {} one"
    @jax.custom_vjp
    def backward(x):
        return jnp.exp(x)
    backward.defvjp(lambda x: (jnp.exp(x), x), lambda x, g: (3 * g * x,))
    t.fn("custom_both_backward", both, lambda x: jnp.sum(backward(x) * x), "vmapgrad", note=alone.format("reverse"),
         bodies="graph both_f(x: f64[2]) { return exp(x) }\n"
                "graph both_b(x: f64[2], y: f64[2], g: f64[2]) { return mul(mul(g, x), 3) }\n"
         "graph both_t(x: f64[2], v: f64[2], y: f64[2]) { return mul(mul(v, y), 5) }", x=normal(2))
    @jax.custom_jvp
    def forward(x):
        return jnp.exp(x)
    forward.defjvp(lambda x, v: (jnp.exp(x[0]), 5 * jnp.exp(x[0]) * v[0]))
    t.fn("custom_both_forward", both, lambda x: jnp.sum(forward(x) * x), "jvp", note=alone.format("forward"),
         x=normal(2))
    t.fn("custom_inside_scan", "h = scan(x, w, body=@custom_step); return reduce_sum(square(h))",
         lambda x, w: jnp.sum(clipped(clipped(x * w[0]) * w[1])**2), "hvp",
         bodies="graph custom_step(c: f64[3], w: f64[]) { return custom_fn(mul(c, w), fwd_body=@clip_f, "
                "vjp_body=@clip_b) }",
         x=normal(3), w=normal(2))
    t.fn("custom_index_operand",
         "reduce_sum(mul(custom_fn(x, i, fwd_body=@pick_f, vjp_body=@pick_b), const(f64[3], [1, 2, 3])))",
         lambda x, i: jnp.sum(-2 * x[i] * jnp.arange(1.0, 4) + lax.stop_gradient(3 * x[i] * jnp.arange(1.0, 4))),
         "vmapgrad", bodies="graph pick_f(x: f64[4], i: i32[3]) { return gather(x, i) }\n"
         "graph pick_b(x: f64[4], i: i32[3], y: f64[3], g: f64[3]) { return mul(scatter_add(g, i, R=4), -2) }",
         x=normal(4), i=at([1, 3, 1], [0, 0, 2], dtype="i32"))
    t.fn("implicit_root", "custom_fn(a, fwd_body=@root_f, vjp_body=@root_b)", jnp.sqrt, "hess vmapgrad",
         bodies="graph root_step(y: f64[], a: f64[]) { return mul(add(y, div(a, y)), 0.5) }\n"
         "graph root_f(a: f64[]) { return scan(a, a, length=8, num_bcast=1, body=@root_step) }\n"
         "graph root_b(a: f64[], y: f64[], g: f64[]) { return div(g, mul(y, 2)) }", a=uniform(0.5, 4))
    t.fn("custom_inlined", "reduce_sum(custom_fn(x, y, fwd_body=@plain_f))", lambda x, y: jnp.sum(jnp.exp(x) * y),
         "grad hess taylor4 vmap",
         bodies="graph plain_f(x: f64[2], y: f64[2]) { return mul(exp(x), y) }", x=normal(2), y=normal(2))
    t.fn("map_body", "reduce_sum(map(x, y, body=@each))", lambda x, y: jnp.sum(jnp.where(x > y, jnp.sin(x) * y, x * x)),
         "hess vmapgrad",
         bodies="graph each(x: f64[], y: f64[]) { return where(gt(x, y), mul(sin(x), y), square(x)) }", x=normal(2, 2),
         y=normal(2, 2))
    t.fn("reduce_body", "y = reduce(x, 0.5, body=@fold, axes=[1]); return reduce_sum(square(y))",
         lambda x: jnp.sum(folded(x)**2), "hess vmapgrad",
         bodies="graph fold(a: f64[], x: f64[]) { return add(mul(a, 0.5), sin(mul(a, x))) }", x=normal(2, 3))


def folded(x):
    a = jnp.full(x.shape[0], 0.5)
    for k in range(x.shape[1]):
        a = 0.5 * a + jnp.sin(a * x[:, k])
    return a


def add(t):
    scans(t)
    whiles(t)
    branches(t)
    custom(t)
