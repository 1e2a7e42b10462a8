/* SPDX-License-Identifier: Apache-2.0 */
/* export_implicit.c: results that equations define, as loops that run until they have settled. See export_rules.h.

   Linear equations without symmetry are solved by elimination: the body, batched over a basis, gives the matrix.
   Complex ones are solved over the reals, since a body need only be linear over them. */
#include "stablehlo/export/export_loop.h"

#include <float.h>

/* The square root of the sum of |v|^2 over all elements. */
static flx_val length_of(flx_graph *g, flx_val v)
{
    const flx_type *t = flx_val_type(g, v);
    bool is_complex = t && flxi_is_complex(t->dtype);
    flx_val squares = is_complex ? flx_complex_norm_sq(g, v) : flx_square(g, v);
    return flx_sqrt(g, flx_reduce_sum(g, squares, FLX_ALL, 0));
}

static flx_dtype part_of(flxi_site *s, flx_val v)
{
    return (flx_dtype)flxi_part_dtype(flxi_typeof(s, v)->dtype);
}

static double tolerance_of(flxi_site *s, flx_dtype part)
{
    double tol = site_real(s, "tol");
    double least = 8.0 * (part == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
    return tol > least ? tol : least;
}

static int64_t bound_of(flxi_site *s, int64_t own)
{
    int64_t given = site_int(s, "max_iterations");
    return given == FLXI_ABSENT ? own : given;
}

/* body(x, params…) in the graph of a loop whose carries from `params` on are the params. */
static flx_val apply_body(export_loop *l, flx_val x, uint32_t params)
{
    flxi_site *s = l->s;
    flx_val *in = flxi_rule_new(s, flx_val, s->nin);
    flx_val y = FLX_NONE;
    if (!in)
        return y;
    in[0] = x;
    for (uint32_t i = 1; i < s->nin; i++)
        in[i] = l->in_body[params + i - 1];
    flxi_inline(l->body, site_graph(s, "body"), in, &y);
    return y;
}

static void carry_params(export_loop *l)
{
    for (uint32_t i = 1; i < l->s->nin; i++)
        flxi_loop_carry(l, l->s->x[i]);
}

/* Until a step is no longer than tol (1 + |x|), or is not a number. */
void flxi_export_as_fixed_point(flxi_site *s, flx_val *y)
{
    enum { MOST = 10000, X = 1, MOVED = 2, FIRST_PARAM = 3 };
    flx_dtype part = part_of(s, s->x[0]);
    flx_val *made = flxi_rule_new(s, flx_val, s->nin + FIRST_PARAM);
    export_loop l;
    if (flxi_loop_begin(&l, s, s->nin + FIRST_PARAM) && made) {
        flxi_loop_counter(&l);
        flxi_loop_carry(&l, s->x[0]);
        flxi_loop_carry(&l, flx_scalar(s->g, part, (double)FLT_MAX));
        carry_params(&l);
        flx_val next = apply_body(&l, l.in_body[X], FIRST_PARAM);
        flx_val size = flx_add(l.body, length_of(l.body, next), flx_scalar(l.body, part, 1.0));
        flx_val moved = flx_div(l.body, length_of(l.body, flx_sub(l.body, next, l.in_body[X])), size);
        l.out[X] = next;
        l.out[MOVED] = moved;
        flxi_loop_count(&l);
        flx_val far = flx_gt(l.cond, l.in_cond[MOVED], flx_scalar(l.cond, part, tolerance_of(s, part)));
        flx_val going = flx_and(l.cond, far, flx_is_finite(l.cond, l.in_cond[MOVED]));
        flxi_loop_end(&l, flx_and(l.cond, going, flxi_loop_below(&l, bound_of(s, MOST))), made);
        y[0] = made[X];
    }
    flxi_loop_free(&l);
}

/* The real part of the sum of conj(a) b. */
static flx_val inner(flx_graph *g, flx_val a, flx_val b)
{
    const flx_type *t = flx_val_type(g, a);
    if (t && flxi_is_complex(t->dtype))
        return flx_real(g, flx_reduce_sum(g, flx_mul(g, flx_conjugate(g, a), b), FLX_ALL, 0));
    return flx_reduce_sum(g, flx_mul(g, a, b), FLX_ALL, 0);
}

/* A real number times a tensor that may be complex. */
static flx_val times(flxi_site *in, flx_val number, flx_val v)
{
    flx_dtype dtype = (flx_dtype)flxi_typeof(in, v)->dtype;
    return flx_mul(in->g, flxi_is_complex(dtype) ? flx_cast(in->g, number, dtype) : number, v);
}

/* Conjugate gradients from x = 0, with residual r, direction p and |r|^2, until |r| <= tol |b|. */
void flxi_export_as_cg(flxi_site *s, flx_val *y)
{
    enum { X = 1, R = 2, P = 3, RR = 4, GOAL = 5, FIRST_PARAM = 6 };
    flx_dtype part = part_of(s, s->x[0]);
    double tol = tolerance_of(s, part);
    const flx_type *t = flxi_typeof(s, s->x[0]);
    int64_t numbers = flxi_static_extent(t, 0, t->rank) * (flxi_is_complex(t->dtype) ? 2 : 1);
    flx_val *made = flxi_rule_new(s, flx_val, s->nin + FIRST_PARAM);
    export_loop l;
    if (flxi_loop_begin(&l, s, s->nin + FIRST_PARAM) && made) {
        flx_val rr = inner(s->g, s->x[0], s->x[0]);
        flxi_loop_counter(&l);
        flxi_loop_carry(&l, flxi_zeros_like(s, s->x[0]));
        flxi_loop_carry(&l, s->x[0]);
        flxi_loop_carry(&l, s->x[0]);
        flxi_loop_carry(&l, rr);
        flxi_loop_carry(&l, flx_mul(s->g, rr, flx_scalar(s->g, part, tol * tol)));
        carry_params(&l);
        flxi_site in = *s;
        in.g = l.body;
        flx_val ap = apply_body(&l, l.in_body[P], FIRST_PARAM);
        flx_val step = flx_div(l.body, l.in_body[RR], inner(l.body, l.in_body[P], ap));
        l.out[X] = flx_add(l.body, l.in_body[X], times(&in, step, l.in_body[P]));
        l.out[R] = flx_sub(l.body, l.in_body[R], times(&in, step, ap));
        l.out[RR] = inner(l.body, l.out[R], l.out[R]);
        flx_val turn = flx_div(l.body, l.out[RR], l.in_body[RR]);
        l.out[P] = flx_add(l.body, l.out[R], times(&in, turn, l.in_body[P]));
        flxi_loop_count(&l);
        flx_val far = flx_gt(l.cond, l.in_cond[RR], l.in_cond[GOAL]);
        flxi_loop_end(&l, flx_and(l.cond, far, flxi_loop_below(&l, bound_of(s, 10 * numbers + 100))), made);
        y[0] = made[X];
    }
    flxi_loop_free(&l);
}

/* ---- Equations by elimination ---- */

static const int64_t most_unknowns = 4096; /* the matrix has their square */

/* How many real numbers an unknown has. */
static int64_t numbers_of(const flx_type *t)
{
    return flxi_static_extent(t, 0, t->rank) * (flxi_is_complex(t->dtype) ? 2 : 1);
}

/* [k, numbers] of k unknowns of a type, with a leading axis k: real parts, then imaginary ones. */
static flx_val as_numbers(flxi_site *in, flx_val v, flx_dim k)
{
    const flx_type *t = flxi_typeof(in, v);
    flx_dim flat[2] = {k, flxi_static_extent(t, 0, t->rank) / (k ? k : 1)};
    if (!flxi_is_complex(t->dtype))
        return flxi_reshape_to(in, v, 2, flat);
    flx_val parts[2] = {flxi_reshape_to(in, flx_real(in->g, v), 2, flat),
                        flxi_reshape_to(in, flx_imag(in->g, v), 2, flat)};
    return flx_concat(in->g, parts, 2, 1);
}

/* k unknowns of type t, along a new leading axis, from their numbers. */
static flx_val of_numbers(flxi_site *in, flx_val v, flx_dim k, const flx_type *t)
{
    flx_dim dims[FLX_MAX_RANK + 1] = {k};
    int64_t half = numbers_of(t) / 2;
    for (int i = 0; i < t->rank; i++)
        dims[i + 1] = t->dims[i];
    if (flxi_is_complex(t->dtype))
        v = flx_complex(in->g, flx_narrow(in->g, v, 1, 0, half), flx_narrow(in->g, v, 1, half, half));
    return flxi_reshape_to(in, v, t->rank + 1, dims);
}

/* x with J x = b, where `map` (its first leaf, or the one called `along`) gives J times a vector. `args` are its
   leaves; that one is left out. The result is result `k` of map. */
static flx_val solve_map(flxi_site *in, const flx_graph *map, size_t leaf, flx_val *args, uint32_t k, flx_val b)
{
    const flx_type *t = flxi_typeof(in, b);
    flx_dim n = numbers_of(t);
    flxi_site each = *in;
    bool *batched = flxi_rule_new(in, bool, map->leaves.n);
    bool *out = flxi_rule_new(in, bool, map->outputs.n);
    flx_val *made = flxi_rule_new(in, flx_val, map->outputs.n);
    each.size = n;
    if (!batched || !out || !made)
        return FLX_NONE;
    batched[leaf] = true;
    args[leaf] = of_numbers(in, flx_eye(in->g, n, n, 0, part_of(in, b)), n, t);
    flx_graph *rows = in->bodies->vmap(&each, map, batched, out, true);
    if (!rows)
        return FLX_NONE;
    flxi_inline(in->g, rows, args, made);
    flx_graph_release(rows);
    flx_val transposed = as_numbers(in, made[k], n);
    flx_val side = flxi_reshape_to(in, as_numbers(in, flx_unsqueeze(in->g, b, FLX_INTS(0)), 1), 2, (flx_dim[]){n, 1});
    flx_val x = flx_solve(in->g, flx_transpose(in->g, transposed, FLX_INTS(1, 0)), side);
    return flxi_reshape_to(in, of_numbers(in, flxi_reshape_to(in, x, 2, (flx_dim[]){1, n}), 1, t), t->rank, t->dims);
}

static bool is_solvable(flxi_site *s)
{
    const flx_type *t = flxi_typeof(s, s->x[0]);
    if (numbers_of(t) <= most_unknowns)
        return true;
    flxi_site_fail(s, FLX_E_UNSUPPORTED, "cg is written as iterations, whatever its size",
                   "%lld unknowns are too many to be solved for by elimination", (long long)numbers_of(t));
    return false;
}

void flxi_export_as_gmres(flxi_site *s, flx_val *y)
{
    const flx_graph *body = site_graph(s, "body");
    flx_val *args = flxi_rule_new(s, flx_val, s->nin);
    if (!args || !is_solvable(s))
        return;
    memcpy(args, s->x, s->nin * sizeof *args);
    y[0] = numbers_of(flxi_typeof(s, s->x[0])) ? solve_map(s, body, 0, args, 0, s->x[0]) : s->x[0];
}

/* The body with a tangent of its first input as last input; its tangent is the second result. */
static flx_graph *tangent_body(flxi_site *s)
{
    bool *active = flxi_rule_new(s, bool, s->nin);
    if (!active)
        return NULL;
    active[0] = true;
    return s->bodies->jvp(s, site_graph(s, "body"), active);
}

/* Newton's method, until a step is no longer than tol (1 + |x|), or is not a number. */
static void write_newton(flxi_site *s, export_loop *l, const flx_graph *moved, flx_val *made)
{
    enum { MOST = 100, X = 1, MOVED = 2, FIRST_PARAM = 3 };
    flx_dtype part = part_of(s, s->x[0]);
    flx_val *args = flxi_rule_new(s, flx_val, s->nin + 1);
    flxi_site in = *s;
    flxi_loop_counter(l);
    flxi_loop_carry(l, s->x[0]);
    flxi_loop_carry(l, flx_scalar(s->g, part, (double)FLT_MAX));
    carry_params(l);
    if (!args)
        return;
    in.g = l->body;
    args[0] = l->in_body[X];
    for (uint32_t i = 1; i < s->nin; i++)
        args[i] = l->in_body[FIRST_PARAM + i - 1];
    flx_val value = apply_body(l, l->in_body[X], FIRST_PARAM);
    flx_val step = solve_map(&in, moved, s->nin, args, 1, value);
    l->out[X] = flx_sub(l->body, l->in_body[X], step);
    flx_val size = flx_add(l->body, length_of(l->body, l->out[X]), flx_scalar(l->body, part, 1.0));
    l->out[MOVED] = flx_div(l->body, length_of(l->body, step), size);
    flxi_loop_count(l);
    flx_val far = flx_gt(l->cond, l->in_cond[MOVED], flx_scalar(l->cond, part, tolerance_of(s, part)));
    flx_val going = flx_and(l->cond, far, flx_is_finite(l->cond, l->in_cond[MOVED]));
    flxi_loop_end(l, flx_and(l->cond, going, flxi_loop_below(l, bound_of(s, MOST))), made);
    made[0] = made[X];
}

void flxi_export_as_root(flxi_site *s, flx_val *y)
{
    flx_val *made = flxi_rule_new(s, flx_val, s->nin + 4);
    flx_graph *moved = is_solvable(s) ? tangent_body(s) : NULL;
    export_loop l;
    if (!moved)
        return;
    if (numbers_of(flxi_typeof(s, s->x[0])) == 0) {
        y[0] = s->x[0];
    } else {
        if (flxi_loop_begin(&l, s, s->nin + 4) && made)
            write_newton(s, &l, moved, made);
        flxi_loop_free(&l);
        y[0] = made ? made[0] : FLX_NONE;
    }
    flx_graph_release(moved);
}
