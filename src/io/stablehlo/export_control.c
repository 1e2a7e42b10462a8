/* export_control.c: control flow in terms of StableHLO's: predicates of other dtypes, bounded loops, scan, and iterations that
   run until they have settled. See export_rules.h. */
#include "export_rules.h"

#include <float.h>
#include <stdio.h>

static int64_t integer(const flxi_site *s, const char *name)
{
    return export_int(s->op, s->attrs, name);
}

static flx_val as_scalar(flxi_site *s, flx_val v)
{
    return flxi_reshape_to(s, v, 0, NULL);
}

/* ---- Branches ---- */

/* The same op with another first operand. */
static void with_selector(flxi_site *s, flx_val selector, flx_val *y)
{
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    if (!x)
        return;
    memcpy(x, s->x, s->nin * sizeof *x);
    x[0] = selector;
    flxi_emit(s, NULL, x, s->nin, y);
}

void flxi_export_as_if(flxi_site *s, flx_val *y)
{
    with_selector(s, as_scalar(s, flxi_export_truth(s, s->x[0])), y);
}

/* An index outside the list takes the last branch, also where it does not fit into an i32. */
void flxi_export_as_case(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_graphs *branches = flxi_export_field(s->op, s->attrs, "branches");
    flx_val i = as_scalar(s, flx_cast(g, s->x[0], FLX_I64));
    flx_val last = flxi_number(s, i, (double)branches->n - 1.0);
    flx_val inside = flx_and(g, flx_ge(g, i, flxi_number(s, i, 0.0)), flx_le(g, i, last));
    with_selector(s, flx_cast(g, flx_where(g, inside, i, last), FLX_I32), y);
}

/* Where ok has another dtype. */
void flxi_export_as_check(flxi_site *s, flx_val *y)
{
    flx_val x[2] = {s->x[0], flxi_export_truth(s, s->x[1])};
    y[0] = flxi_emit1(s, NULL, x, 2);
}

/* A program that runs alone is sent nothing. */
void flxi_export_as_recv(flxi_site *s, flx_val *y)
{
    y[0] = flxi_zeros(s, *(const flx_type *const *)flxi_export_field(s->op, s->attrs, "type"));
}

/* ---- Loops ---- */

enum { COUNTER = 0 }; /* carry 0 of the loops made here is an i64 that counts their rounds */

/* A loop being made: its values are those of the graph being built, its types those of the carries of both bodies. */
typedef struct {
    flxi_site *s;
    flx_val *init;  /* of each carry */
    uint32_t count, room;
    flx_graph *cond, *body;
    flx_val *in_cond, *in_body; /* the carries in them */
    flx_val *out;               /* what the body makes of them; as they came unless set */
} loop;

static bool loop_begin(loop *l, flxi_site *s, uint32_t room)
{
    *l = (loop){.s = s, .room = room + 1};
    l->init = flxi_rule_new(s, flx_val, l->room);
    l->in_cond = flxi_rule_new(s, flx_val, l->room);
    l->in_body = flxi_rule_new(s, flx_val, l->room);
    l->out = flxi_rule_new(s, flx_val, l->room);
    l->cond = flx_graph_new(s->ctx, "cond");
    l->body = flx_graph_new(s->ctx, "body");
    if (!l->cond || !l->body)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
    return l->init && l->in_cond && l->in_body && l->out && l->cond && l->body;
}

/* One more carry; its number. */
static uint32_t carry(loop *l, flx_val init)
{
    uint32_t i = l->count;
    char name[24];
    if (i == l->room)
        return i - 1;
    const flx_type *t = flxi_typeof(l->s, init);
    snprintf(name, sizeof name, "c%u", i);
    l->init[i] = init;
    l->in_cond[i] = flx_input(l->cond, name, t);
    l->in_body[i] = l->out[i] = flx_input(l->body, name, t);
    l->count++;
    return i;
}

static uint32_t carry_counter(loop *l)
{
    return carry(l, flx_scalar(l->s->g, FLX_I64, 0.0));
}

static void count_round(loop *l)
{
    l->out[COUNTER] = flx_add(l->body, l->in_body[COUNTER], flx_scalar(l->body, FLX_I64, 1.0));
}

static flx_val below(loop *l, int64_t bound)
{
    return flx_lt(l->cond, l->in_cond[COUNTER], flx_scalar(l->cond, FLX_I64, (double)bound));
}

/* Emits the loop, as long as `going` (of cond) is true; y receives the carries. */
static void loop_end(loop *l, flx_val going, flx_val *y)
{
    flx_graph *g = l->s->g;
    flx_output(l->cond, going, NULL);
    for (uint32_t i = 0; i < l->count; i++)
        flx_output(l->body, l->out[i], NULL);
    if (l->cond->error.code)
        flxi_graph_fail(g, &l->cond->error);
    if (l->body->error.code)
        flxi_graph_fail(g, &l->body->error);
    flx_while(g, l->init, l->count, l->cond, l->body, FLX_DEFAULT, y, l->count);
}

static void loop_free(loop *l)
{
    flx_graph_free(l->cond);
    flx_graph_free(l->body);
}

/* ---- while ---- */

void flxi_export_as_while(flxi_site *s, flx_val *y)
{
    int64_t most = integer(s, "max_iterations");
    bool bounded = most != FLXI_ABSENT;
    flx_val *made = flxi_rule_new(s, flx_val, s->nin + 1);
    uint32_t first = bounded ? 1 : 0;
    flx_val truth = FLX_NONE;
    loop l;
    if (loop_begin(&l, s, s->nin) && made) {
        if (bounded)
            carry_counter(&l);
        for (uint32_t i = 0; i < s->nin; i++)
            carry(&l, s->x[i]);
        flxi_inline(l.cond, export_graph(s->op, s->attrs, "cond"), l.in_cond + first, &truth);
        flxi_site inner = *s;
        inner.g = l.cond;
        truth = as_scalar(&inner, flxi_export_truth(&inner, truth));
        flxi_inline(l.body, export_graph(s->op, s->attrs, "body"), l.in_body + first, l.out + first);
        if (bounded) {
            truth = flx_and(l.cond, truth, below(&l, most));
            count_round(&l);
        }
        loop_end(&l, truth, made);
        memcpy(y, made + first, s->nin * sizeof *y);
    }
    loop_free(&l);
}

/* ---- scan ---- */

typedef struct {
    flxi_site *s;
    const flx_graph *body;
    uint32_t carries, shared; /* operands that are carries; that are carries or broadcast */
    uint32_t outputs;
    int64_t length;
    bool reverse, save;
    uint32_t *stack; /* by output: the carry of the loop that collects it */
} scanning;

static scanning read_scan(flxi_site *s)
{
    scanning q = {.s = s, .body = export_graph(s->op, s->attrs, "body"), .carries = (uint32_t)integer(s, "num_carry"),
                  .reverse = integer(s, "reverse"), .save = integer(s, "save_trajectory")};
    q.shared = q.carries + (uint32_t)integer(s, "num_bcast");
    q.outputs = (uint32_t)q.body->outputs.n;
    q.length = integer(s, "length");
    if (q.length == FLXI_ABSENT)
        q.length = flxi_typeof(s, s->x[q.shared])->dims[0];
    q.stack = flxi_rule_new(s, uint32_t, q.outputs);
    return q;
}

static flx_type stack_of(const scanning *q, uint32_t k)
{
    flx_type t = *flxi_type_at(q->body, q->body->outputs.at[k].val);
    for (int i = t.rank++; i > 0; i--)
        t.dims[i] = t.dims[i - 1];
    t.dims[0] = q->length;
    return t;
}

/* Positions for a window that starts at row t. */
static void start_at(flxi_site *in, flx_val t, int rank, flx_val *positions)
{
    for (int i = 0; i < rank; i++)
        positions[i] = i ? flx_scalar(in->g, FLX_I64, 0.0) : t;
}

static flx_val row_of(flxi_site *in, flx_val xs, flx_val t)
{
    flx_type row = *flxi_typeof(in, xs);
    flx_val x[1 + FLX_MAX_RANK] = {xs};
    start_at(in, t, row.rank, x + 1);
    row.dims[0] = 1;
    flx_val window = flx_dynamic_slice(in->g, x, 1 + (size_t)row.rank, (flx_ints){row.dims, (size_t)row.rank});
    return flxi_reshape_to(in, window, row.rank - 1, row.dims + 1);
}

static flx_val with_row(flxi_site *in, flx_val stack, flx_val value, flx_val t)
{
    flx_type row = *flxi_typeof(in, stack);
    row.dims[0] = 1;
    flx_val x[2 + FLX_MAX_RANK] = {stack, flxi_reshape_to(in, value, row.rank, row.dims)};
    start_at(in, t, row.rank, x + 2);
    return flx_dynamic_update_slice(in->g, x, 2 + (size_t)row.rank);
}

/* One step: the scan's body on row t of the sequences, its results into the carries and the stacks. */
static void write_step(const scanning *q, loop *l)
{
    flxi_site *s = q->s;
    flxi_site in = *s;
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    flx_val *made = flxi_rule_new(s, flx_val, q->outputs);
    if (!x || !made)
        return;
    in.g = l->body;
    flx_val t = l->in_body[COUNTER];
    if (q->reverse)
        t = flx_sub(l->body, flx_scalar(l->body, FLX_I64, (double)q->length - 1.0), t);
    for (uint32_t i = 0; i < s->nin; i++)
        x[i] = i < q->shared ? l->in_body[1 + i] : row_of(&in, l->in_body[1 + i], t);
    flxi_inline(l->body, q->body, x, made);
    for (uint32_t k = 0; k < q->outputs; k++) {
        if (k < q->carries)
            l->out[1 + k] = made[k];
        if (q->stack[k])
            l->out[q->stack[k]] = with_row(&in, l->in_body[q->stack[k]], made[k], t);
    }
    count_round(l);
}

/* Of a full stack the rows that are kept: in walking order those after steps ⌈(k+1)L/K⌉ − 1. */
static flx_val thinned(const scanning *q, flx_val stack)
{
    flxi_site *s = q->s;
    int64_t kept = integer(s, "num_checkpoints");
    if (kept == 0 || kept == q->length)
        return stack;
    flx_val *rows = flxi_rule_new(s, flx_val, kept);
    for (int64_t k = 0; rows && k < kept; k++) {
        int64_t step = ((k + 1) * q->length + kept - 1) / kept - 1;
        int64_t row = q->reverse ? kept - 1 - k : k;
        rows[row] = flx_narrow(s->g, stack, 0, q->reverse ? q->length - 1 - step : step, 1);
    }
    return rows ? flx_concat(s->g, rows, (size_t)kept, 0) : FLX_NONE;
}

/* No step at all: the carries as they are, empty stacks. */
static void write_nothing(const scanning *q, flx_val *y)
{
    for (uint32_t k = 0; k < q->outputs; k++) {
        flx_type t = stack_of(q, k);
        y[k] = k < q->carries && !q->save ? q->s->x[k] : flxi_zeros(q->s, &t);
    }
}

void flxi_export_as_scan(flxi_site *s, flx_val *y)
{
    scanning q = read_scan(s);
    loop l;
    if (q.length == 0 || !q.stack) {
        write_nothing(&q, y);
        return;
    }
    flx_val *made = flxi_rule_new(s, flx_val, 1 + s->nin + q.outputs);
    if (loop_begin(&l, s, s->nin + q.outputs) && made) {
        carry_counter(&l);
        for (uint32_t i = 0; i < s->nin; i++)
            carry(&l, s->x[i]);
        for (uint32_t k = 0; k < q.outputs; k++) {
            flx_type t = stack_of(&q, k);
            if (k >= q.carries || q.save)
                q.stack[k] = carry(&l, flxi_zeros(s, &t));
        }
        write_step(&q, &l);
        loop_end(&l, below(&l, q.length), made);
        for (uint32_t k = 0; k < q.outputs; k++)
            y[k] = !q.stack[k] ? made[1 + k] : k < q.carries ? thinned(&q, made[q.stack[k]]) : made[q.stack[k]];
    }
    loop_free(&l);
}

/* ---- Iterations ---- */

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
    double tol = export_real(s->op, s->attrs, "tol");
    double least = 8.0 * (part == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
    return tol > least ? tol : least;
}

static int64_t bound_of(flxi_site *s, int64_t own)
{
    int64_t given = integer(s, "max_iterations");
    return given == FLXI_ABSENT ? own : given;
}

/* body(x, params…) in the graph of a loop whose carries from `params` on are the params. */
static flx_val apply_body(loop *l, flx_val x, uint32_t params)
{
    flxi_site *s = l->s;
    flx_val *in = flxi_rule_new(s, flx_val, s->nin);
    flx_val y = FLX_NONE;
    if (!in)
        return y;
    in[0] = x;
    for (uint32_t i = 1; i < s->nin; i++)
        in[i] = l->in_body[params + i - 1];
    flxi_inline(l->body, export_graph(s->op, s->attrs, "body"), in, &y);
    return y;
}

static void carry_params(loop *l)
{
    for (uint32_t i = 1; i < l->s->nin; i++)
        carry(l, l->s->x[i]);
}

/* Until a step is no longer than tol (1 + |x|), or is no number. */
void flxi_export_as_fixed_point(flxi_site *s, flx_val *y)
{
    enum { MOST = 10000, X = 1, MOVED = 2, FIRST_PARAM = 3 };
    flx_dtype part = part_of(s, s->x[0]);
    flx_val *made = flxi_rule_new(s, flx_val, s->nin + FIRST_PARAM);
    loop l;
    if (loop_begin(&l, s, s->nin + FIRST_PARAM) && made) {
        carry_counter(&l);
        carry(&l, s->x[0]);
        carry(&l, flx_scalar(s->g, part, (double)FLT_MAX));
        carry_params(&l);
        flx_val next = apply_body(&l, l.in_body[X], FIRST_PARAM);
        flx_val size = flx_add(l.body, length_of(l.body, next), flx_scalar(l.body, part, 1.0));
        flx_val moved = flx_div(l.body, length_of(l.body, flx_sub(l.body, next, l.in_body[X])), size);
        l.out[X] = next;
        l.out[MOVED] = moved;
        count_round(&l);
        flx_val far = flx_gt(l.cond, l.in_cond[MOVED], flx_scalar(l.cond, part, tolerance_of(s, part)));
        flx_val going = flx_and(l.cond, far, flx_is_finite(l.cond, l.in_cond[MOVED]));
        loop_end(&l, flx_and(l.cond, going, below(&l, bound_of(s, MOST))), made);
        y[0] = made[X];
    }
    loop_free(&l);
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
    loop l;
    if (loop_begin(&l, s, s->nin + FIRST_PARAM) && made) {
        flx_val rr = inner(s->g, s->x[0], s->x[0]);
        carry_counter(&l);
        carry(&l, flxi_zeros_like(s, s->x[0]));
        carry(&l, s->x[0]);
        carry(&l, s->x[0]);
        carry(&l, rr);
        carry(&l, flx_mul(s->g, rr, flx_scalar(s->g, part, tol * tol)));
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
        count_round(&l);
        flx_val far = flx_gt(l.cond, l.in_cond[RR], l.in_cond[GOAL]);
        loop_end(&l, flx_and(l.cond, far, below(&l, bound_of(s, 10 * numbers + 100))), made);
        y[0] = made[X];
    }
    loop_free(&l);
}
