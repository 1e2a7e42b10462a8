/* SPDX-License-Identifier: Apache-2.0 */
/* random_bodies.c: statements with bodies: control flow, scans, functions of the user's own, maps and folds over
   elements. */
#include "random_graph.h"

#include "test.h"

#include <string.h>

static bool is_complex(const random_maker *m)
{
    return m->real == FLX_C64 || m->real == FLX_C128;
}

/* Complex numbers have no order. */
static void say_complex_body(random_maker *m, random_line *l, int depth)
{
    static const char *const calls[] = {"sin(", "cos(", "mul(0.7, ", "conjugate(", "mul(0.4, square("};
    if (depth == 0) {
        random_say(l, random_below(m, 2) ? "a" : "b");
        return;
    }
    int k = random_below(m, 8);
    random_say(l, "%s", k < 5 ? calls[k] : k < 7 ? "mul(" : "add(");
    say_complex_body(m, l, depth - 1);
    if (k >= 5) {
        random_say(l, ", ");
        say_complex_body(m, l, depth - 1);
    }
    random_say(l, k == 4 ? "))" : ")");
}

/* An expression over a and b, of one shape, that gives that shape and stays small when it is iterated. */
static void say_body(random_maker *m, random_line *l, int rank, int depth)
{
    static const char *const calls[] = {"tanh(", "sin(",  "mul(0.7, ", "sigmoid(",
                                        "cos(",  "relu(", "atan(",     "softplus("};
    static const char *const along[] = {"softmax(", "cumsum(", "sort("};
    if (depth == 0) {
        random_say(l, random_below(m, 2) ? "a" : "b");
        return;
    }
    switch (random_below(m, rank ? 6 : 5)) {
    case 0:
    case 1:
        random_say(l, "%s", calls[random_below(m, 8)]);
        say_body(m, l, rank, depth - 1);
        random_say(l, ")");
        break;
    case 2:
    case 3:
        random_say(l, random_below(m, 2) ? "add(" : "mul(");
        say_body(m, l, rank, depth - 1);
        random_say(l, ", ");
        say_body(m, l, rank, depth - 1);
        random_say(l, ")");
        break;
    case 4:
        random_say(l, "where(gt(a, b), ");
        say_body(m, l, rank, depth - 1);
        random_say(l, ", mul(reduce_mean(a), ");
        say_body(m, l, rank, depth - 1);
        random_say(l, "))");
        break;
    default:
        random_say(l, "%s", along[random_below(m, 3)]);
        say_body(m, l, rank, depth - 1);
        random_say(l, ", axis=%d)", random_below(m, rank));
    }
}

static void say_body_graph(random_maker *m, const char *name, const char *extra_in, const char *extra_out,
                           const flx_type *t, int outputs)
{
    random_line *d = &m->draft;
    random_say(d, "graph %s%d(%sa: ", name, m->bodies, extra_in);
    random_say_type(d, m, t);
    random_say(d, ", b: ");
    random_say_type(d, m, t);
    random_say(d, ") {\n  return %s", extra_out);
    for (int i = 0; i < outputs; i++) {
        random_say(d, is_complex(m) ? "%smul(0.6, sin(" : "%stanh(", i ? ", " : "");
        if (is_complex(m))
            say_complex_body(m, d, 1 + random_below(m, 3));
        else
            say_body(m, d, t->rank, 1 + random_below(m, 3));
        random_say(d, is_complex(m) ? "))" : ")");
    }
    random_say(d, "\n}\n");
}

bool random_if(random_maker *m)
{
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    int y = random_pick_like(m, x);
    int c = random_pick(m, FLX_BOOL, 0);
    int outputs = 1 + random_below(m, 2);
    say_body_graph(m, "yes", "", "", &m->v[x].text, outputs);
    say_body_graph(m, "no", "", "", &m->v[x].text, outputs);
    if (random_below(m, 4) == 0)
        random_say(&l, "case(cast(reduce_sum(real(v%d)), to=i32), v%d, v%d, branches=[@yes%d, @no%d])", y, x, y,
                   m->bodies, m->bodies);
    else if (c >= 0)
        random_say(&l, "if(reduce_any(v%d), v%d, v%d, then=@yes%d, else=@no%d)", c, x, y, m->bodies, m->bodies);
    else
        random_say(&l, "if(gt(reduce_sum(real(v%d)), 0.2), v%d, v%d, then=@yes%d, else=@no%d)", y, x, y, m->bodies,
                   m->bodies);
    m->bodies++;
    return random_keep(m, l.s, outputs);
}

/* The carry has the type of a row of the sequence; b is that row. */
bool random_scan(random_maker *m)
{
    int xs = random_pick(m, m->real, 1);
    random_line l = {0};
    random_line carry = {0};
    if (xs < 0)
        return false;
    flx_type t = m->v[xs].text;
    t.rank--;
    memmove(t.dims, t.dims + 1, (size_t)t.rank * sizeof(flx_dim));
    say_body_graph(m, "step", "", "", &t, 2);
    random_say(&carry, "gather(v%d, 0)", random_pick_like(m, xs));
    random_say(&l, "scan(%s, v%d, body=@step%d, reverse=%s", carry.s, xs, m->bodies, random_yes_no(m));
    if (random_below(m, 3) == 0)
        random_say(&l, ", num_checkpoints=%d", 1 + random_below(m, (int)m->v[xs].type.dims[0]));
    random_say(&l, ")");
    m->bodies++;
    return random_keep(m, l.s, 2);
}

bool random_while(random_maker *m)
{
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    if (x < 0)
        return false;
    const flx_type *t = &m->v[x].text;
    random_say(&m->draft, "graph more%d(i: i32[], a: ", m->bodies);
    random_say_type(&m->draft, m, t);
    random_say(&m->draft, ", b: ");
    random_say_type(&m->draft, m, t);
    random_say(&m->draft, ") {\n  return %s\n}\n",
               random_below(m, 2) ? "lt(i, 3)" : "and(lt(i, 4), lt(reduce_sum(real(a)), 1.5))");
    say_body_graph(m, "turn", "i: i32[], ", "add(i, 1), ", t, 2);
    int other = random_pick_like(m, x);
    random_say(&l, "while(const(i32[], %d), v%d, v%d, cond=@more%d, body=@turn%d", random_below(m, 3), x, other,
               m->bodies, m->bodies);
    if (random_below(m, 2))
        random_say(&l, ", max_iterations=%d", 2 + random_below(m, 4));
    random_say(&l, ")");
    m->bodies++;
    return random_keep(m, l.s, 3);
}

/* A function with correct rules: a sin(b), by hand in both modes; or one without rules. */
bool random_custom(random_maker *m)
{
    int x = random_pick(m, m->real, 0);
    random_line l = {0};
    random_line t = {0};
    if (x < 0)
        return false;
    random_line *d = &m->draft;
    int n = m->bodies++;
    int y = random_pick_like(m, x);
    random_say_type(&t, m, &m->v[x].text);
    if (random_below(m, 2)) {
        m->bodies--;
        say_body_graph(m, "fn", "", "", &m->v[x].text, 2);
        m->bodies++;
        random_say(&l, "custom_fn(v%d, v%d, fwd_body=@fn%d)", x, y, n);
        return random_keep(m, l.s, 2);
    }
    bool vjp = random_below(m, 2);
    bool jvp = !vjp || random_below(m, 2);
    random_say(d, "graph fn%d(a: %s, b: %s) {\n  return mul(a, sin(b)), cos(b)\n}\n", n, t.s, t.s);
    if (vjp)
        random_say(d,
                   "graph back%d(a: %s, b: %s, y: %s, r: %s, dy: %s) {\n  return mul(dy, conjugate(sin(b))), mul(dy, "
                   "conjugate(mul(a, r)))\n}\n",
                   n, t.s, t.s, t.s, t.s, t.s);
    if (jvp)
        random_say(d,
                   "graph push%d(a: %s, b: %s, ta: %s, tb: %s, y: %s) {\n  return add(mul(ta, sin(b)), mul(mul(a, "
                   "cos(b)), tb))\n}\n",
                   n, t.s, t.s, t.s, t.s, t.s);
    random_say(&l, "custom_fn(v%d, v%d, fwd_body=@fn%d, num_residuals=1", x, y, n);
    if (vjp)
        random_say(&l, ", vjp_body=@back%d", n);
    if (jvp)
        random_say(&l, ", jvp_body=@push%d", n);
    random_say(&l, ")");
    return random_keep(m, l.s, 1);
}

/* Scalar bodies over elements. */
bool random_map(random_maker *m)
{
    const flx_type scalar = {.dtype = m->real};
    int x = random_pick(m, m->real, 1);
    random_line l = {0};
    if (x < 0)
        return false;
    int outputs = 1 + random_below(m, 2);
    if (random_below(m, 2)) {
        say_body_graph(m, "each", "", "", &scalar, outputs);
        random_say(&l, "map(v%d, v%d, body=@each%d)", x, random_pick_like(m, x), m->bodies++);
        return random_keep(m, l.s, outputs);
    }
    say_body_graph(m, "fold", "", "", &scalar, 1);
    random_say(&l, "reduce(v%d, 0.4, body=@fold%d, axes=[%d])", x, m->bodies++, random_any_axis(m, x));
    return random_keep(m, l.s, 1);
}
