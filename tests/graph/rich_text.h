/* SPDX-License-Identifier: Apache-2.0 */
/* rich_text.h: one file with a bit of everything: bodies, symbols, parameters, literals of all forms, pins, aliases. */
#ifndef FLX_TEST_RICH_TEXT_H
#define FLX_TEST_RICH_TEXT_H

static const char rich_text[] =
    "# a bit of everything\n"
    "graph step(h: f32[M], w: f32[M], x: f32[M]) {\n"
    "  n = tanh(add(mul(h, w), x))\n"
    "  return n, reduce_sum(n)\n"
    "}\n"
    "graph more(i: i32[], x: f32[M]) { return lt(i, 4) }\n"
    "graph next(i: i32[], x: f32[M]) { return add(i, 1), mul(x, 0.5) }\n"
    "graph yes(x: f32[M]) { return print(x, message=\"yes\\n\\\"\") }\n"
    "graph no(x: f32[M]) { return neg(x) }\n"
    "graph main(p: bool[], xs: f32[N, M], param w: f32[M] ~ normal(0.02), k: c64[2]) {\n"
    "  h0 = full(f32[M], 0.25)\n"
    "  h, ys = scan(h0, w, xs, body=@step, num_bcast=1)\n"
    "  i0 = const(i32[], 0)\n"
    "  _, z = while(i0, h, cond=@more, body=@next, max_iterations=9)\n"
    "  pin q = if(p, z, then=@yes, else=@no)\n"
    "  t = const(f32[2, 3], [[1, -2.5, inf], [nan, 1e-40, -0.0]])\n"
    "  u = const(f16[2], \"007c0100\")\n"
    "  c = const(c64[2], [[1, -2], 3])\n"
    "  flat = reshape(xs, shape=[N * M])\n"
    "  half = narrow(concat(flat, flat, axis=0), axis=0, start=1, len=N * M)\n"
    "  v, i = top_k(flat, k=1)\n"
    "  pin _ = i\n"
    "  e = where(gt(xs, 0), xs, -1)\n"
    "  alias = e\n"
    "  return q, q, alias, reduce_mean(ys), add(c, k), half, transpose(t, perm=[1, 0]), u, v\n"
    "}\n";

#endif
