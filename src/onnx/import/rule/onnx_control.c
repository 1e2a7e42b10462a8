/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_control.c: If, Loop and Scan. What is decided when the model is read is expanded: the branch of a known
   condition, the steps of a short loop. Everything else becomes an op with a body. */
#include "onnx/import/onnx_site.h"

#include <stdio.h>

enum { MAX_UNROLLED = 8192 }; /* steps */

/* Declares input i of a body. */
static flx_val numbered_input(flx_graph *g, const char *prefix, size_t i, const flx_type *type)
{
    char name[40];
    snprintf(name, sizeof name, "%s%zu", prefix, i);
    return flx_input(g, name, type);
}

static bool known_int(onnx_site *s, flx_val v, int64_t *out)
{
    flx_tensor *t = flxi_onnx_given(v) ? flxi_onnx_known(s, v) : NULL;
    bool is_known = t && flx_tensor_count(t) == 1;
    if (is_known)
        *out = (int64_t)flx_tensor_get(t, 0);
    flx_tensor_release(t);
    return is_known;
}

static void give(onnx_site *s, size_t i, const onnx_value *v)
{
    s->out[i] = *v;
    s->y[i] = v->kind == ONNX_T_TENSOR ? v->v : FLX_NONE;
}

/* ---- If ---- */

static void declare_outputs(onnx_site *s, const onnx_body *b, size_t first, size_t n)
{
    for (size_t i = first; i < n; i++) {
        if (b->outputs[i].kind != ONNX_T_TENSOR)
            flxi_onnx_unsupported(s, "a body that returns something that is not a tensor");
        else
            flx_output(b->g, b->outputs[i].v, NULL);
    }
}

static void branch_at_run(onnx_site *s, const onnx_graph *const *graphs)
{
    onnx_captures c;
    onnx_body then, other;
    flx_val in[1] = {flx_reshape(s->g, s->x[0], .shape = FLX_NO_INTS)};
    if (!flxi_onnx_captures(s, graphs, 2, &c) || !flxi_onnx_body(s, graphs[0], NULL, NULL, 0, &c, &then) ||
        !flxi_onnx_body(s, graphs[1], NULL, NULL, 0, &c, &other))
        return;
    flx_val *operands = flxi_onnx_new(s, flx_val, c.num_vals + 1);
    declare_outputs(s, &then, 0, graphs[0]->num_outputs);
    declare_outputs(s, &other, 0, graphs[1]->num_outputs);
    if (!operands || flxi_onnx_failed(s))
        return;
    operands[0] = in[0];
    for (size_t i = 0; i < c.num_vals; i++)
        operands[i + 1] = c.vals[i];
    flx_if(s->g, operands, c.num_vals + 1, s->y, s->ny, .then = then.g, .else_ = other.g);
    for (size_t i = 0; i < s->ny && i < graphs[0]->num_outputs; i++)
        s->out[i].element = then.outputs[i].element;
}

void flxi_onnx_import_if(onnx_site *s)
{
    const onnx_graph *graphs[2] = {flxi_onnx_graph(s, "then_branch"), flxi_onnx_graph(s, "else_branch")};
    int64_t taken;
    if (!graphs[0] || !graphs[1])
        return;
    if (!known_int(s, s->x[0], &taken)) {
        branch_at_run(s, graphs);
        return;
    }
    const onnx_graph *g = graphs[taken ? 0 : 1];
    onnx_value *out = flxi_onnx_new(s, onnx_value, g->num_outputs);
    if (!out || !flxi_onnx_inline(s, g, NULL, 0, out))
        return;
    for (size_t i = 0; i < s->ny && i < g->num_outputs; i++)
        give(s, i, &out[i]);
}

/* ---- Loop ---- */

typedef struct {
    const onnx_graph *body;
    size_t num_carried, num_scanned;
    onnx_value *carried; /* current */
    flx_val *steps;      /* num_scanned values of each step */
    size_t num_steps;
    bool has_limit;
    int64_t limit;
} loop;

static bool keep_step(onnx_site *s, loop *l, const onnx_value *out)
{
    flx_val *more = flxi_onnx_new(s, flx_val, (l->num_steps + 1) * l->num_scanned + 1);
    if (!more)
        return false;
    if (l->num_steps && l->num_scanned)
        memcpy(more, l->steps, l->num_steps * l->num_scanned * sizeof *more);
    for (size_t k = 0; k < l->num_scanned; k++) {
        if (out[k].kind != ONNX_T_TENSOR) {
            flxi_onnx_unsupported(s, "a scanned result that is not a tensor");
            return false;
        }
        more[l->num_steps * l->num_scanned + k] = out[k].v;
    }
    l->steps = more;
    l->num_steps++;
    return true;
}

/* One step, appended; *goes_on is what the body says about the next one. */
static bool unroll_step(onnx_site *s, loop *l, int64_t i, int64_t *goes_on)
{
    onnx_value *args = flxi_onnx_new(s, onnx_value, l->num_carried + 2);
    onnx_value *out = flxi_onnx_new(s, onnx_value, l->body->num_outputs);
    if (!args || !out)
        return false;
    args[0] = (onnx_value){.kind = ONNX_T_TENSOR, .element = ONNX_INT64, .is_const = true};
    args[0].v = flx_scalar(s->g, FLX_I64, (double)i);
    args[1] = (onnx_value){.kind = ONNX_T_TENSOR, .element = ONNX_BOOL, .v = flx_scalar(s->g, FLX_BOOL, 1)};
    args[1].is_const = true;
    memcpy(args + 2, l->carried, l->num_carried * sizeof *args);
    if (!flxi_onnx_inline(s, l->body, args, l->num_carried + 2, out))
        return false;
    memcpy(l->carried, out + 1, l->num_carried * sizeof *args);
    if (!keep_step(s, l, out + 1 + l->num_carried))
        return false;
    if (out[0].kind != ONNX_T_TENSOR || !known_int(s, out[0].v, goes_on)) {
        flxi_onnx_unsupported(s, "a condition that is not known when the model is read");
        return false;
    }
    return true;
}

/* The shape of a scanned result of no steps is what the graph declares. */
static flx_val no_steps(onnx_site *s, const onnx_value_info *info)
{
    flx_dim dims[FLX_MAX_RANK] = {0};
    const onnx_element *e = flxi_onnx_element(info->type.element);
    size_t rank = info->type.rank;
    if (!e || rank + 1 > FLX_MAX_RANK)
        return FLX_NONE;
    for (size_t i = 0; i < rank; i++)
        dims[i + 1] = info->type.dims[i].value >= 0 ? info->type.dims[i].value : 0;
    return flxi_onnx_fill(s, flx_scalar(s->g, e->carrier, 0), (flx_ints){dims, rank + 1});
}

static void finish_unrolled(onnx_site *s, loop *l)
{
    for (size_t i = 0; i < l->num_carried && i < s->ny; i++)
        give(s, i, &l->carried[i]);
    for (size_t k = 0; k < l->num_scanned && l->num_carried + k < s->ny; k++) {
        flx_val *column = flxi_onnx_new(s, flx_val, l->num_steps);
        if (!column)
            return;
        for (size_t i = 0; i < l->num_steps; i++)
            column[i] = l->steps[i * l->num_scanned + k];
        s->y[l->num_carried + k] = l->num_steps ? flx_stack(s->g, column, l->num_steps, .axis = 0)
                                                : no_steps(s, &l->body->outputs[1 + l->num_carried + k]);
    }
}

static void unroll(onnx_site *s, loop *l, int64_t goes_on)
{
    for (int64_t i = 0; goes_on && !(l->has_limit && i >= l->limit); i++) {
        if (i >= MAX_UNROLLED) {
            flxi_onnx_unsupported(s, "a loop of more than %d steps with this body", MAX_UNROLLED);
            return;
        }
        if (!unroll_step(s, l, i, &goes_on))
            return;
    }
    finish_unrolled(s, l);
}

/* ---- A loop whose steps are counted when it runs ---- */

/* Carries of the `while`: index, condition, limit, what the model carries, then what its body captures. */
typedef struct {
    onnx_body body;
    onnx_captures captures;
    size_t num_carried, total;
    flx_val *in;
    flx_type *types;
} run_loop;

enum { FIXED_CARRIES = 3 };

/* The body as the model has it: (index, condition, carried...). */
static bool make_loop_body(onnx_site *s, const loop *l, run_loop *r)
{
    size_t n = l->num_carried;
    flx_type *types = flxi_onnx_new(s, flx_type, n + 2);
    int32_t *elements = flxi_onnx_new(s, int32_t, n + 2);
    if (!types || !elements || !flxi_onnx_captures(s, &l->body, 1, &r->captures))
        return false;
    types[0] = flx_type_make(FLX_I64, 0, NULL);
    types[1] = flx_type_make(FLX_BOOL, 0, NULL);
    elements[0] = ONNX_INT64;
    elements[1] = ONNX_BOOL;
    for (size_t i = 0; i < n; i++) {
        types[i + 2] = *flxi_onnx_typeof(s, l->carried[i].v);
        elements[i + 2] = l->carried[i].element;
    }
    if (!flxi_onnx_body(s, l->body, types, elements, n + 2, &r->captures, &r->body))
        return false;
    declare_outputs(s, &r->body, 0, 1 + n);
    return !flxi_onnx_failed(s);
}

static bool take_carries(onnx_site *s, const loop *l, run_loop *r)
{
    size_t n = l->num_carried;
    r->num_carried = n;
    r->total = FIXED_CARRIES + n + r->captures.num_vals;
    r->in = flxi_onnx_new(s, flx_val, r->total);
    r->types = flxi_onnx_new(s, flx_type, r->total);
    if (!r->in || !r->types)
        return false;
    r->in[0] = flx_scalar(s->g, FLX_I64, 0);
    r->in[1] =
        flxi_onnx_given(s->x[1]) ? flx_reshape(s->g, s->x[1], .shape = FLX_NO_INTS) : flx_scalar(s->g, FLX_BOOL, 1);
    r->in[2] = flxi_onnx_given(s->x[0]) ? flx_reshape(s->g, flxi_onnx_cast(s, s->x[0], FLX_I64), .shape = FLX_NO_INTS)
                                        : r->in[0];
    for (size_t i = 0; i < n; i++)
        r->in[FIXED_CARRIES + i] = l->carried[i].v;
    for (size_t i = 0; i < r->captures.num_vals; i++)
        r->in[FIXED_CARRIES + n + i] = r->captures.vals[i];
    for (size_t i = 0; i < r->total; i++)
        r->types[i] = *flxi_onnx_typeof(s, r->in[i]);
    return true;
}

/* A graph with all carries as inputs; NULL with the error in s->g. */
static flx_graph *graph_of_carries(onnx_site *s, const run_loop *r, const char *name, flx_val **args)
{
    flx_graph *g = flxi_onnx_keep(s, flx_graph_new(flx_graph_context(s->g), name));
    *args = flxi_onnx_new(s, flx_val, r->total);
    for (size_t i = 0; g && *args && i < r->total; i++)
        (*args)[i] = numbered_input(g, "c", i, &r->types[i]);
    return *args ? g : NULL;
}

static bool pass_error(onnx_site *s, const flx_graph *g)
{
    flx_error err = {0};
    if (flx_graph_error(g, &err) == FLX_OK)
        return true;
    flxi_graph_fail(s->g, &err);
    return false;
}

static const flx_graph *make_condition(onnx_site *s, const run_loop *r)
{
    flx_val *args;
    flx_graph *g = graph_of_carries(s, r, "cond", &args);
    if (!g)
        return NULL;
    flx_val go = args[1];
    if (flxi_onnx_given(s->x[0]))
        go = flx_and(g, go, flx_lt(g, args[0], args[2]));
    flx_output(g, go, "go");
    return pass_error(s, g) ? g : NULL;
}

/* One step on all carries: the body of the model does not know the limit, nor returns what it captures. */
static const flx_graph *make_step(onnx_site *s, const run_loop *r)
{
    flx_val *args, *inner = flxi_onnx_new(s, flx_val, r->total), *out = flxi_onnx_new(s, flx_val, r->total);
    flx_graph *g = graph_of_carries(s, r, "step", &args);
    size_t n = r->num_carried;
    if (!g || !inner || !out)
        return NULL;
    for (size_t i = 0; i < r->total; i++) /* all but the limit */
        if (i != 2)
            inner[i < 2 ? i : i - 1] = args[i];
    flx_inline(g, r->body.g, inner, r->total - 1, out, 1 + n);
    flx_output(g, flx_add(g, args[0], flx_scalar(g, FLX_I64, 1)), "index");
    flx_output(g, flx_reshape(g, out[0], .shape = FLX_NO_INTS), "go");
    flx_output(g, args[2], "limit");
    for (size_t i = 0; i < n; i++)
        flx_output(g, out[1 + i], NULL);
    for (size_t i = FIXED_CARRIES + n; i < r->total; i++)
        flx_output(g, args[i], NULL);
    return pass_error(s, g) ? g : NULL;
}

static void loop_at_run(onnx_site *s, const loop *l)
{
    run_loop r = {.total = 0};
    if (!make_loop_body(s, l, &r) || !take_carries(s, l, &r))
        return;
    const flx_graph *step = make_step(s, &r), *cond = step ? make_condition(s, &r) : NULL;
    flx_val *out = flxi_onnx_new(s, flx_val, r.total);
    if (!cond || !out)
        return;
    flx_while(s->g, r.in, r.total, out, r.total, .cond = cond, .body = step);
    for (size_t i = 0; i < l->num_carried && i < s->ny; i++) {
        s->y[i] = out[FIXED_CARRIES + i];
        s->out[i].element = l->carried[i].element;
    }
}

void flxi_onnx_import_loop(onnx_site *s)
{
    const onnx_graph *body = flxi_onnx_graph(s, "body");
    loop l = {.body = body, .num_carried = s->nx > 2 ? s->nx - 2 : 0};
    int64_t goes_on = 1;
    if (!body || body->num_outputs < 1 + l.num_carried) {
        flxi_onnx_fail(s, FLX_E_ARITY, NULL, "its body returns too few values");
        return;
    }
    l.num_scanned = body->num_outputs - 1 - l.num_carried;
    l.carried = flxi_onnx_new(s, onnx_value, l.num_carried);
    if (!l.carried)
        return;
    memcpy(l.carried, s->in + (s->nx > 2 ? 2 : 0), l.num_carried * sizeof *l.carried);
    bool limit_known = known_int(s, s->x[0], &l.limit);
    bool go_known = !flxi_onnx_given(s->x[1]) || known_int(s, s->x[1], &goes_on);
    l.has_limit = flxi_onnx_given(s->x[0]);
    bool tensors = true;
    for (size_t i = 0; i < l.num_carried; i++)
        tensors &= l.carried[i].kind == ONNX_T_TENSOR;
    if (l.num_scanned == 0 && tensors && (!go_known || (l.has_limit && !limit_known))) {
        loop_at_run(s, &l);
        return;
    }
    if (!go_known || (l.has_limit && !limit_known)) {
        flxi_onnx_unsupported(s, "a number of steps that is not known when the model is read");
        return;
    }
    unroll(s, &l, goes_on);
}

/* ---- Scan ---- */

/* The sequence axis first, in the order of the steps. */
static flx_val sequence_first(onnx_site *s, flx_val x, int axis, bool backward)
{
    int rank = flxi_onnx_rank(s, x);
    int64_t perm[FLX_MAX_RANK];
    int k = 0;
    perm[k++] = axis;
    for (int i = 0; i < rank; i++)
        if (i != axis)
            perm[k++] = i;
    flx_val y = axis == 0 ? x : flx_transpose(s->g, x, .perm = {perm, (size_t)rank});
    return backward ? flx_reverse(s->g, y, .axes = FLX_INTS(0)) : y;
}

static flx_val sequence_back(onnx_site *s, flx_val x, int64_t given, bool backward)
{
    int rank = flxi_onnx_rank(s, x);
    int axis = flxi_onnx_axis(s, given, rank);
    int64_t perm[FLX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    flx_val y = backward ? flx_reverse(s->g, x, .axes = FLX_INTS(0)) : x;
    return axis == 0 ? y : flx_transpose(s->g, y, .perm = {perm, (size_t)rank});
}

/* The body of our scan: (states, captures, elements) instead of (states, elements, captures). */
static const flx_graph *scan_body(onnx_site *s, const onnx_body *b, const flx_type *types, size_t states, size_t xs,
                                  const onnx_captures *c, size_t outputs)
{
    flx_graph *g = flxi_onnx_keep(s, flx_graph_new(flx_graph_context(s->g), "step"));
    size_t total = states + xs + c->num_vals;
    flx_val *args = flxi_onnx_new(s, flx_val, total), *out = flxi_onnx_new(s, flx_val, outputs);
    if (!g || !args || !out)
        return NULL;
    for (size_t i = 0; i < states; i++)
        args[i] = numbered_input(g, "state", i, &types[i]);
    for (size_t i = 0; i < c->num_vals; i++)
        args[states + xs + i] = numbered_input(g, "outer", i, flxi_onnx_typeof(s, c->vals[i]));
    for (size_t i = 0; i < xs; i++)
        args[states + i] = numbered_input(g, "x", i, &types[states + i]);
    flx_inline(g, b->g, args, total, out, outputs);
    for (size_t i = 0; i < outputs; i++)
        flx_output(g, out[i], NULL);
    flx_error err = {0};
    if (flx_graph_error(g, &err) != FLX_OK)
        flxi_graph_fail(s->g, &err);
    return g;
}

typedef struct {
    const onnx_graph *body;
    size_t states, xs, outputs;
    flx_val *in; /* states, then sequences with their axis first */
    flx_ints out_axes, out_directions;
} scan_parts;

static void run_scan(onnx_site *s, const scan_parts *p, const onnx_value *first, flx_val *results)
{
    onnx_captures c;
    onnx_body body;
    size_t n = p->states + p->xs;
    flx_type *types = flxi_onnx_new(s, flx_type, n);
    int32_t *elements = flxi_onnx_new(s, int32_t, n);
    if (!types || !elements || !flxi_onnx_captures(s, &p->body, 1, &c))
        return;
    for (size_t i = 0; i < n; i++) {
        types[i] = *flxi_onnx_typeof(s, p->in[i]);
        elements[i] = first[i].element;
        if (i >= p->states) {
            types[i].rank--;
            memmove(types[i].dims, types[i].dims + 1, sizeof types[i].dims - sizeof *types[i].dims);
        }
    }
    if (!flxi_onnx_body(s, p->body, types, elements, n, &c, &body))
        return;
    declare_outputs(s, &body, 0, p->outputs);
    const flx_graph *step = flxi_onnx_failed(s) ? NULL : scan_body(s, &body, types, p->states, p->xs, &c, p->outputs);
    flx_val *in = flxi_onnx_new(s, flx_val, n + c.num_vals);
    if (!step || !in || flxi_onnx_failed(s))
        return;
    for (size_t i = 0; i < p->states; i++)
        in[i] = p->in[i];
    for (size_t i = 0; i < c.num_vals; i++)
        in[p->states + i] = c.vals[i];
    for (size_t i = 0; i < p->xs; i++)
        in[p->states + c.num_vals + i] = p->in[p->states + i];
    flx_scan(s->g, in, n + c.num_vals, results, p->outputs, .body = step, .num_carry = (int64_t)p->states,
             .num_bcast = (int64_t)c.num_vals, .num_xs = (int64_t)p->xs);
}

void flxi_onnx_import_scan(onnx_site *s)
{
    const onnx_graph *body = flxi_onnx_graph(s, "body");
    int64_t xs = flxi_onnx_int(s, "num_scan_inputs", 1);
    if (!body || xs < 1 || (size_t)xs > s->nx) {
        flxi_onnx_fail(s, FLX_E_ATTRIBUTE, NULL, "num_scan_inputs does not fit its operands");
        return;
    }
    scan_parts p = {.body = body, .states = s->nx - (size_t)xs, .xs = (size_t)xs, .outputs = body->num_outputs};
    if (p.outputs < p.states) {
        flxi_onnx_fail(s, FLX_E_ARITY, NULL, "its body returns too few values");
        return;
    }
    size_t scanned = p.outputs - p.states;
    flx_ints axes = flxi_onnx_ints_of(s, "scan_input_axes", p.xs, 0);
    flx_ints directions = flxi_onnx_ints_of(s, "scan_input_directions", p.xs, 0);
    p.out_axes = flxi_onnx_ints_of(s, "scan_output_axes", scanned, 0);
    p.out_directions = flxi_onnx_ints_of(s, "scan_output_directions", scanned, 0);
    p.in = flxi_onnx_new(s, flx_val, s->nx);
    flx_val *results = flxi_onnx_new(s, flx_val, p.outputs);
    if (!p.in || !results || flxi_onnx_failed(s))
        return;
    for (size_t i = 0; i < s->nx; i++) {
        p.in[i] = s->x[i];
        if (i >= p.states) {
            int axis = flxi_onnx_axis(s, axes.v[i - p.states], flxi_onnx_rank(s, s->x[i]));
            p.in[i] = sequence_first(s, s->x[i], axis, directions.v[i - p.states] != 0);
        }
    }
    run_scan(s, &p, s->in, results);
    for (size_t i = 0; i < p.outputs && i < s->ny && !flxi_onnx_failed(s); i++)
        s->y[i] = i < p.states
                      ? results[i]
                      : sequence_back(s, results[i], p.out_axes.v[i - p.states], p.out_directions.v[i - p.states] != 0);
}
