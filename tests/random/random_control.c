/* SPDX-License-Identifier: Apache-2.0 */
/* random_control.c: nested control flow. A level is a graph of (a, b, c): two values of one type and a captured one,
   which is a scalar or of that type too. It computes a result of the type by branches, loops, scans, calls, maps and
   functions that are recomputed, whose bodies are levels again. The captured value goes down to all of them. */
#include "random_graph.h"

#include "test.h"

#include <string.h>

typedef struct {
    flx_type value, captured;
} level_type;

/* ---- Expressions ---- */

static const char *any_operand(random_maker *m)
{
    static const char *const names[] = {"a", "b", "a", "b", "c"};
    return names[random_below(m, 5)];
}

/* Of the type of a, and bounded however often it is iterated. */
static void say_expression(random_maker *m, random_line *l)
{
    const char *x = any_operand(m), *y = any_operand(m);
    random_say(l, "add(mul(0.3, a), ");
    switch (random_below(m, 6)) {
    case 0: random_say(l, "tanh(add(%s, mul(0.6, %s)))", x, y); break;
    case 1: random_say(l, "mul(0.7, sin(mul(%s, %s)))", x, y); break;
    case 2: random_say(l, "sigmoid(sub(%s, %s))", x, y); break;
    case 3: random_say(l, "where(gt(reduce_sum(%s), 0.3), 0.4, mul(0.8, cos(%s)))", x, y); break;
    case 4: random_say(l, "div(%s, add(1.5, square(%s)))", x, y); break;
    default: random_say(l, "atan(mul(%s, exp(mul(-0.5, square(%s)))))", x, y); break;
    }
    random_say(l, ")");
}

static void say_signature(random_maker *m, random_line *l, const level_type *t)
{
    random_say(l, "a: ");
    random_say_type(l, m, &t->value);
    random_say(l, ", b: ");
    random_say_type(l, m, &t->value);
    random_say(l, ", c: ");
    random_say_type(l, m, &t->captured);
}

/* A condition that holds at some points and not at others. */
static void say_condition(random_maker *m, random_line *l)
{
    static const char *const bounds[] = {"-0.4", "0.1", "0.7"};
    const char *bound = bounds[random_below(m, 3)]; /* the graph of a seed must not depend on the order of arguments */
    random_say(l, "gt(reduce_sum(%s), %s)", any_operand(m), bound);
}

/* ---- Kinds of control flow: statements that define q ---- */

static int say_level(random_maker *m, const level_type *t, int depth);

static void say_call(random_maker *m, const level_type *t, int depth, random_line *l)
{
    int inner = say_level(m, t, depth);
    bool again = random_below(m, 2);
    random_say(l, "  %s = call(a, ", again ? "p" : "q");
    say_expression(m, l);
    random_say(l, ", c, body=@level%d)\n", inner);
    if (again) /* one body, two callers */
        random_say(l, "  q = call(p, b, c, body=@level%d)\n", inner);
}

static void say_if(random_maker *m, const level_type *t, int depth, random_line *l)
{
    int yes = say_level(m, t, depth), no = say_level(m, t, random_below(m, depth + 1));
    random_say(l, "  q = if(");
    say_condition(m, l);
    random_say(l, ", a, b, c, then=@level%d, else=@level%d)\n", yes, no);
}

static void say_case(random_maker *m, const level_type *t, int depth, random_line *l)
{
    int first = say_level(m, t, depth), second = say_level(m, t, 0), third = say_level(m, t, 0);
    random_say(l,
               "  q = case(cast(mul(1.7, reduce_sum(%s)), to=i32), a, b, c, branches=[@level%d, @level%d, @level%d])\n",
               any_operand(m), first, second, third);
}

/* Carries: a count, a, b, and the captured value, which does not change. */
static void say_while(random_maker *m, const level_type *t, int depth, random_line *l)
{
    int inner = say_level(m, t, depth), n = m->bodies++;
    random_line *d = &m->draft;
    random_say(d, "graph more%d(i: i32[], ", n);
    say_signature(m, d, t);
    random_say(d, ") {\n  return %s\n}\ngraph turn%d(i: i32[], ",
               random_below(m, 2) ? "lt(i, 3)" : "and(lt(i, 4), lt(reduce_sum(a), 1.3))", n);
    say_signature(m, d, t);
    random_say(d, ") {\n  n = call(a, b, c, body=@level%d)\n  return add(i, 1), n, mul(0.8, a), c\n}\n", inner);
    random_say(l, "  i, q, r, s = while(const(i32[], %d), a, b, c, cond=@more%d, body=@turn%d", random_below(m, 2), n,
               n);
    if (random_below(m, 2))
        random_say(l, ", max_iterations=%d", 2 + random_below(m, 3));
    random_say(l, ")\n");
}

/* Carries a and b, the captured value for all steps, and a sequence made from it where it is a scalar. */
static void say_scan(random_maker *m, const level_type *t, int depth, random_line *l)
{
    int inner = say_level(m, t, depth), n = m->bodies++;
    bool has_xs = t->captured.rank == 0 && random_below(m, 2), keeps = random_below(m, 4) == 0;
    random_line *d = &m->draft;
    const char *dtype = flx_dtype_name(t->value.dtype);
    random_say(d, "graph step%d(", n);
    say_signature(m, d, t);
    if (has_xs)
        random_say(d, ", x: %s[]", dtype);
    random_say(d, ") {\n  n = call(a, b, c, body=@level%d)\n  return %s, mul(0.5, a), reduce_sum(n)\n}\n", inner,
               has_xs ? "add(n, mul(0.1, x))" : "n");
    if (has_xs)
        random_say(l, "  xs = mul(c, mul(0.4, iota(%s[3])))\n", dtype);
    random_say(l, "  %s, r, ys = scan(a, b, c%s, num_carry=2, num_bcast=1, num_xs=%d, %sreverse=%s", keeps ? "qs" : "q",
               has_xs ? ", xs" : "", has_xs, has_xs ? "" : "length=3, ", random_yes_no(m));
    if (keeps)
        random_say(l, ", save_trajectory=true");
    else if (random_below(m, 3) == 0)
        random_say(l, ", num_checkpoints=%d", 1 + random_below(m, 3));
    random_say(l, ", body=@step%d)\n", n);
    if (keeps)
        random_say(l, "  q = gather(qs, %d)\n", random_below(m, 3));
}

/* The levels below are of scalars. */
static void say_map(random_maker *m, const level_type *t, int depth, random_line *l)
{
    level_type scalar = {{.dtype = t->value.dtype}, {.dtype = t->value.dtype}};
    int inner = say_level(m, &scalar, depth);
    random_say(l, "  q = map(a, b, add(c, mul(0, a)), body=@level%d)\n", inner);
}

static void say_recomputed(random_maker *m, const level_type *t, int depth, random_line *l)
{
    int inner = say_level(m, t, depth);
    random_say(l, "  q = custom_fn(a, b, c, fwd_body=@level%d, recompute=%s)\n", inner, random_yes_no(m));
}

/* Writes a level and those below it to the draft; returns its number. */
static int say_level(random_maker *m, const level_type *t, int depth)
{
    static void (*const kinds[])(random_maker *, const level_type *, int, random_line *) = {
        say_call, say_if, say_case, say_while, say_scan, say_scan, say_map, say_recomputed};
    random_line body = {0};
    if (depth > 0)
        kinds[random_below(m, 8)](m, t, depth - 1, &body);
    int n = m->bodies++;
    random_line *d = &m->draft;
    random_say(d, "graph level%d(", n);
    say_signature(m, d, t);
    random_say(d, ") {\n%s  return ", body.s);
    if (depth > 0)
        random_say(d, "add(mul(0.5, q), ");
    say_expression(m, d);
    random_say(d, depth > 0 ? ")\n}\n" : "\n}\n");
    return n;
}

bool random_control(random_maker *m)
{
    int x = random_pick(m, m->real, 0);
    random_line l = {0}, c = {0};
    if (x < 0 || m->real == FLX_C64 || m->real == FLX_C128)
        return false;
    int y = random_pick_like(m, x), z = random_pick_like(m, x);
    level_type t = {m->v[x].text, m->v[x].text};
    if (random_below(m, 2)) {
        t.captured = (flx_type){.dtype = m->real};
        random_say(&c, "reduce_mean(v%d)", z);
    } else {
        random_say(&c, "v%d", z);
    }
    int n = say_level(m, &t, 1 + random_below(m, 3));
    switch (random_below(m, 3)) {
    case 0: random_say(&l, "call(v%d, v%d, %s, body=@level%d)", x, y, c.s, n); break;
    case 1:
        random_say(&l, "custom_fn(v%d, v%d, %s, fwd_body=@level%d, recompute=%s)", x, y, c.s, n, random_yes_no(m));
        break;
    default: {
        int other = say_level(m, &t, 1);
        random_say(&l, "if(gt(reduce_sum(v%d), 0.2), v%d, v%d, %s, then=@level%d, else=@level%d)", y, x, y, c.s, n,
                   other);
    }
    }
    return random_keep(m, l.s, 1);
}
