/* SPDX-License-Identifier: Apache-2.0 */
/* export_control.c: control flow in terms of StableHLO's: predicates of other dtypes, bounded loops and scan. See
   export_rules.h. */
#include "stablehlo/export/export_loop.h"

static flx_val as_scalar(flxi_site *s, flx_val v)
{
    return flxi_reshape_to(s, v, 0, NULL);
}

/* ---- Functions ---- */

/* Its value as a function of the text, without its rules for derivatives. */
void flxi_export_as_custom_fn(flxi_site *s, flx_val *y)
{
    const flx_graph *body = site_graph(s, "fwd_body");
    flx_val *out = flxi_rule_new(s, flx_val, body->outputs.n);
    if (!out)
        return;
    flx_call(s->g, s->x, s->nin, out, body->outputs.n, body);
    memcpy(y, out, s->nout * sizeof *y);
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
    flxi_append(s, NULL, x, s->nin, y);
}

void flxi_export_as_if(flxi_site *s, flx_val *y)
{
    with_selector(s, as_scalar(s, flxi_export_truth(s, s->x[0])), y);
}

/* An index outside the list takes the last branch, also where it does not fit into an i32. */
void flxi_export_as_case(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    const flx_graphs *branches = flxi_attr_graphs(s->op, s->attrs, "branches");
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

/* A program that runs alone receives nothing. */
void flxi_export_as_recv(flxi_site *s, flx_val *y)
{
    y[0] = flxi_zeros(s, flxi_attr_type(s->op, s->attrs, "type"));
}

/* ---- while ---- */

void flxi_export_as_while(flxi_site *s, flx_val *y)
{
    int64_t most = site_int(s, "max_iterations");
    bool is_bounded = most != FLXI_ABSENT;
    flx_val *made = flxi_rule_new(s, flx_val, s->nin + 1);
    uint32_t first = is_bounded ? 1 : 0;
    flx_val truth = FLX_NONE;
    export_loop l;
    if (flxi_loop_begin(&l, s, s->nin) && made) {
        if (is_bounded)
            flxi_loop_counter(&l);
        for (uint32_t i = 0; i < s->nin; i++)
            flxi_loop_carry(&l, s->x[i]);
        flxi_inline(l.cond, site_graph(s, "cond"), l.in_cond + first, &truth);
        flxi_site inner = *s;
        inner.g = l.cond;
        truth = as_scalar(&inner, flxi_export_truth(&inner, truth));
        flxi_inline(l.body, site_graph(s, "body"), l.in_body + first, l.out + first);
        if (is_bounded) {
            truth = flx_and(l.cond, truth, flxi_loop_below(&l, most));
            flxi_loop_count(&l);
        }
        flxi_loop_end(&l, truth, made);
        memcpy(y, made + first, s->nin * sizeof *y);
    }
    flxi_loop_free(&l);
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
    scanning q = {.s = s,
                  .body = site_graph(s, "body"),
                  .carries = (uint32_t)site_int(s, "num_carry"),
                  .reverse = site_int(s, "reverse"),
                  .save = site_int(s, "save_trajectory")};
    q.shared = q.carries + (uint32_t)site_int(s, "num_bcast");
    q.outputs = (uint32_t)q.body->outputs.n;
    q.length = site_int(s, "length");
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
    if (row.rank < 1)
        return xs; /* the graph holds the error */
    start_at(in, t, row.rank, x + 1);
    row.dims[0] = 1;
    flx_val window = flx_dynamic_slice(in->g, x, 1 + (size_t)row.rank, (flx_ints){row.dims, (size_t)row.rank});
    return flxi_reshape_to(in, window, row.rank - 1, row.dims + 1);
}

static flx_val with_row(flxi_site *in, flx_val stack, flx_val value, flx_val t)
{
    flx_type row = *flxi_typeof(in, stack);
    if (row.rank < 1)
        return stack; /* the graph holds the error */
    row.dims[0] = 1;
    flx_val x[2 + FLX_MAX_RANK] = {stack, flxi_reshape_to(in, value, row.rank, row.dims)};
    start_at(in, t, row.rank, x + 2);
    return flx_dynamic_update_slice(in->g, x, 2 + (size_t)row.rank);
}

/* One step: the scan's body on row t of the sequences, its results into the carries and the stacks. */
static void write_step(const scanning *q, export_loop *l)
{
    flxi_site *s = q->s;
    flxi_site in = *s;
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    flx_val *made = flxi_rule_new(s, flx_val, q->outputs);
    if (!x || !made)
        return;
    in.g = l->body;
    flx_val t = l->in_body[EXPORT_COUNTER];
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
    flxi_loop_count(l);
}

/* Of a full stack the rows that are kept: in walking order those after steps ⌈(k+1)L/K⌉ − 1. */
static flx_val thinned(const scanning *q, flx_val stack)
{
    flxi_site *s = q->s;
    int64_t kept = site_int(s, "num_checkpoints");
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
    export_loop l;
    if (q.length == 0 || !q.stack) {
        write_nothing(&q, y);
        return;
    }
    flx_val *made = flxi_rule_new(s, flx_val, 1 + s->nin + q.outputs);
    if (flxi_loop_begin(&l, s, s->nin + q.outputs) && made) {
        flxi_loop_counter(&l);
        for (uint32_t i = 0; i < s->nin; i++)
            flxi_loop_carry(&l, s->x[i]);
        for (uint32_t k = 0; k < q.outputs; k++) {
            flx_type t = stack_of(&q, k);
            if (k >= q.carries || q.save)
                q.stack[k] = flxi_loop_carry(&l, flxi_zeros(s, &t));
        }
        write_step(&q, &l);
        flxi_loop_end(&l, flxi_loop_below(&l, q.length), made);
        for (uint32_t k = 0; k < q.outputs; k++)
            y[k] = !q.stack[k] ? made[1 + k] : k < q.carries ? thinned(&q, made[q.stack[k]]) : made[q.stack[k]];
    }
    flxi_loop_free(&l);
}
