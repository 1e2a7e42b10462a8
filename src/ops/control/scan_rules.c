/* SPDX-License-Identifier: Apache-2.0 */
/* scan_rules.c: derivatives and batching of `scan`.

   Forward mode scans over pairs of carries and tangents. Reverse mode keeps the carries before each step (as additional
   stacked outputs of the forward scan, which the user does not see) and appends one backward scan: its carries are the
   cotangents of the carries and the sums of the cotangents of the broadcast inputs; its sequences are the kept carries,
   the sequences, and the cotangents of the stacked outputs; what it stacks are the cotangents of the sequences. All
   gradients come from this one sweep, and it is an ordinary scan, so higher orders need nothing more. */
#include "ops/control/control.h"
#include "ops/rule/body/bodies.h"

#include <stdio.h>

__extension__ typedef __int128 wide; /* products of two lengths */

/* ---- Layout ---- */

typedef struct {
    const scan_attrs *a;
    uint32_t inputs;              /* of the body: carries, broadcast inputs, rows of sequences */
    uint32_t carries, bcasts, xs; /* of each kind, in this order */
    uint32_t ys;                  /* stacked outputs */
    flx_dim length;
    int64_t thinned; /* rows of a thinned trajectory, 0: not thinned */
} layout;

static layout layout_of(const flxi_site *s)
{
    const scan_attrs *a = s->attrs;
    layout l = {.a = a, .carries = (uint32_t)a->num_carry, .bcasts = (uint32_t)a->num_bcast};
    l.inputs = (uint32_t)a->body->leaves.n;
    l.xs = l.inputs - l.carries - l.bcasts;
    l.ys = (uint32_t)a->body->outputs.n - l.carries;
    l.length = a->length;
    if (l.length == FLXI_ABSENT) { /* a batched sequence has its batch axis before the leading one */
        uint32_t first = l.carries + l.bcasts;
        l.length = flxi_typeof(s, s->x[first])->dims[s->batched && s->batched[first] ? 1 : 0];
    }
    bool thin = a->save_trajectory && a->num_checkpoints && a->num_checkpoints != l.length;
    l.thinned = thin ? a->num_checkpoints : 0;
    return l;
}

static const flx_type *body_input(const layout *l, uint32_t i)
{
    return flxi_type_at(l->a->body, l->a->body->leaves.at[i]);
}

static const flx_type *body_output(const layout *l, uint32_t k)
{
    return flxi_type_at(l->a->body, l->a->body->outputs.at[k].val);
}

/* The scan's attributes with another body and other counts; the length is unchanged. */
static flx_scan_attrs attrs_like(const layout *l, const flx_graph *body, uint32_t carries, uint32_t bcasts)
{
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    a.body = body;
    a.num_carry = carries;
    a.num_bcast = bcasts;
    a.length = l->length;
    a.reverse = (int)l->a->reverse;
    return a;
}

/* Values of the graph being built, gathered in the order of a scan's operands or results. */
typedef struct {
    flx_val *v;
    uint32_t n;
} value_list;

static void add(value_list *l, flx_val v)
{
    l->v[l->n++] = v;
}

static flx_val declare(flx_graph *g, const flx_type *t)
{
    return flxi_declare(g, 's', t);
}

/* ---- Keeping the carries ---- */

/* With checkpoints nothing is kept: the backward op recomputes (scan_replay.c). */
static bool is_replayed(const scan_attrs *a)
{
    return a->num_checkpoints > 0 && !a->save_trajectory;
}

uint32_t flxi_saved_scan(flxi_site *s)
{
    return is_replayed(s->attrs) ? 0 : layout_of(s).carries;
}

/* The backward ops need the trajectory and support neither thinned ones nor scans without a floating carry. */
static bool has_backward_op(const flxi_site *s, const layout *l)
{
    bool varies = false;
    for (uint32_t i = 0; i < l->carries; i++)
        varies |= flxi_can_vary(body_input(l, i));
    return s->backward_ops && varies && !l->thinned && !is_replayed(l->a);
}

/* The body with its incoming carries as further stacked outputs, or with the outgoing ones: the trajectory. */
static flx_graph *recording_body(flxi_site *s, const layout *l, bool outgoing)
{
    flx_graph *g = flxi_new_body(s, l->a->body->name);
    flx_val *in = flxi_rule_new(s, flx_val, l->inputs);
    flx_val *out = flxi_rule_new(s, flx_val, l->a->body->outputs.n);
    if (!g || !in || !out) {
        flx_graph_release(g);
        return NULL;
    }
    for (uint32_t i = 0; i < l->inputs; i++)
        in[i] = declare(g, body_input(l, i));
    flxi_inline(g, l->a->body, in, out);
    for (uint32_t k = 0; k < l->carries + l->ys; k++)
        flx_output(g, out[k], NULL);
    for (uint32_t i = 0; i < l->carries; i++)
        flx_output(g, outgoing ? out[i] : in[i], NULL);
    return flxi_finish_body(s, g);
}

static void record(flxi_site *s, const layout *l, bool outgoing, flx_val *y, flx_val *saved)
{
    uint32_t outputs = l->carries + l->ys;
    flx_val *out = flxi_rule_new(s, flx_val, outputs + l->carries);
    flx_graph *body = recording_body(s, l, outgoing);
    if (out && body) {
        flx_scan_attrs a = attrs_like(l, body, l->carries, l->bcasts);
        a.save_trajectory = (int)l->a->save_trajectory;
        a.num_checkpoints = l->a->save_trajectory ? l->a->num_checkpoints : 0;
        flx_scan_with(s->g, s->x, l->inputs, out, outputs + l->carries, &a);
        for (uint32_t k = 0; y && k < outputs; k++)
            y[k] = out[k];
        for (uint32_t i = 0; i < l->carries; i++)
            saved[i] = out[outputs + i];
    }
    flx_graph_release(body);
}

void flxi_primal_scan(flxi_site *s, flx_val *y, flx_val *saved)
{
    layout l = layout_of(s);
    bool backward_op = has_backward_op(s, &l);
    bool is_trajectory = backward_op && l.a->save_trajectory;
    if (is_replayed(s->attrs) || is_trajectory)
        flxi_append(s, NULL, s->x, s->nin, y);
    else
        record(s, &l, backward_op, y, saved);
    for (uint32_t i = 0; is_trajectory && i < l.carries; i++)
        saved[i] = y[i];
}

/* ---- Reverse mode ---- */

/* A thinned trajectory's cotangent, with zero rows for the steps that were not stored. */
static flx_val spread_rows(flxi_site *s, const layout *l, flx_val dy)
{
    int64_t k = l->thinned;
    int64_t *rows = flxi_rule_new(s, int64_t, k);
    flx_error err = {0};
    flx_type type = {.dtype = FLX_I64, .rank = 1, .dims = {k}};
    if (!rows)
        return FLX_NONE;
    for (int64_t r = 0; r < k; r++) {
        int64_t stored = l->a->reverse ? k - 1 - r : r;
        wide ends = ((wide)stored + 1) * l->length + k - 1;
        int64_t step = (int64_t)(ends / k) - 1;
        rows[r] = l->a->reverse ? l->length - 1 - step : step;
    }
    flx_tensor *t = flx_tensor_new(s->ctx, &type, rows, &err);
    if (!t) {
        flxi_graph_fail(s->g, &err);
        return FLX_NONE;
    }
    flx_val index = flx_const(s->g, &type, t);
    flx_tensor_release(t);
    return flx_scatter_add(s->g, dy, index, l->length, NULL);
}

static bool plan_backward(flxi_site *s, const layout *l, const flx_val *dy, flxi_backward_plan *p)
{
    p->varies = flxi_rule_new(s, bool, l->carries);
    p->seeded = flxi_rule_new(s, bool, l->carries + l->ys);
    p->wanted = flxi_rule_new(s, bool, l->inputs);
    p->has_rows = flxi_rule_new(s, bool, l->carries);
    if (!p->varies || !p->seeded || !p->wanted || !p->has_rows)
        return false;
    for (uint32_t i = 0; i < l->carries; i++) {
        p->varies[i] = p->seeded[i] = p->wanted[i] = flxi_can_vary(body_input(l, i));
        p->has_rows[i] = p->varies[i] && l->a->save_trajectory && !flxi_is_none(dy[i]);
        p->dcarries += p->varies[i];
    }
    for (uint32_t k = 0; k < l->ys; k++)
        p->seeded[l->carries + k] = !flxi_is_none(dy[l->carries + k]);
    for (uint32_t i = l->carries; i < l->inputs; i++) {
        p->wanted[i] = s->wanted[i] && flxi_can_vary(body_input(l, i));
        p->dbcasts += p->wanted[i] && i < l->carries + l->bcasts;
    }
    return true;
}

/* The cotangents of a step's results: those of the carries, with the rows that are added to them, and of the ys. */
static void add_seeds(flx_graph *g, const layout *l, const flxi_backward_plan *p, const flx_val *dc, value_list *in)
{
    uint32_t at = in->n;
    for (uint32_t i = 0; i < l->carries; i++)
        if (p->varies[i])
            add(in, dc[i]);
    for (uint32_t k = 0; k < l->ys; k++)
        if (p->seeded[l->carries + k])
            add(in, declare(g, body_output(l, l->carries + k)));
    for (uint32_t i = 0; i < l->carries; i++) {
        if (p->has_rows[i])
            in->v[at] = flx_add(g, in->v[at], declare(g, body_input(l, i)));
        at += p->varies[i];
    }
}

/* (dc…, sums…; b…; c…, x…, dys…, rows…) → dc'…, sums'…, dx… around body_vjp(c…, b…, x…, dc…, dys…) → dc…, db…, dx… */
static flx_graph *backward_body(flxi_site *s, const layout *l, const flxi_backward_plan *p, const flx_graph *vjp)
{
    flx_graph *g = flxi_new_body(s, "back");
    uint32_t shared = l->carries + l->bcasts;
    flx_val *dc = flxi_rule_new(s, flx_val, l->carries);
    flx_val *sums = flxi_rule_new(s, flx_val, l->bcasts);
    value_list in = {.v = flxi_rule_new(s, flx_val, l->inputs + l->carries + l->ys)};
    flx_val *x = flxi_rule_new(s, flx_val, l->inputs);
    flx_val *out = flxi_rule_new(s, flx_val, l->inputs);
    if (!g || !dc || !sums || !in.v || !x || !out) {
        flx_graph_release(g);
        return NULL;
    }
    for (uint32_t i = 0; i < l->carries; i++)
        dc[i] = p->varies[i] ? declare(g, body_input(l, i)) : FLX_NONE;
    for (uint32_t i = 0; i < l->bcasts; i++)
        sums[i] = p->wanted[l->carries + i] ? declare(g, body_input(l, l->carries + i)) : FLX_NONE;
    for (uint32_t i = l->carries; i < shared; i++)
        x[i] = declare(g, body_input(l, i));
    for (uint32_t i = 0; i < l->inputs; i++)
        if (i < l->carries || i >= shared)
            x[i] = declare(g, body_input(l, i));
    for (uint32_t i = 0; i < l->inputs; i++)
        add(&in, x[i]);
    add_seeds(g, l, p, dc, &in);
    flxi_inline(g, vjp, in.v, out);
    for (uint32_t i = 0, at = 0; i < l->inputs; i++) {
        if (!p->wanted[i])
            continue;
        bool is_bcast = i >= l->carries && i < shared;
        flx_output(g, is_bcast ? flx_add(g, sums[i - l->carries], out[at]) : out[at], NULL);
        at++;
    }
    return flxi_finish_body(s, g);
}

/* One backward scan; `out` receives a cotangent for each wanted input of the body, in order. The sums of broadcast
   inputs begin with `sums`, or with zeros. */
static void scan_back(flxi_site *s, const layout *l, const flxi_backward_plan *p, const flx_graph *vjp,
                      const flx_val *saved, const flx_val *dy, const flx_val *sums, flx_val *out)
{
    value_list in = {.v = flxi_rule_new(s, flx_val, 4 * l->inputs + 2 * (l->carries + l->ys))};
    flx_graph *body = backward_body(s, l, p, vjp);
    uint32_t shared = l->carries + l->bcasts;
    if (!in.v || !body) {
        flx_graph_release(body);
        return;
    }
    for (uint32_t i = 0; i < l->carries; i++)
        if (p->varies[i])
            add(&in, l->a->save_trajectory ? flxi_zeros_like(s, s->x[i]) : flxi_or_zeros(s, dy[i], s->x[i]));
    for (uint32_t i = l->carries; i < shared; i++)
        if (p->wanted[i])
            add(&in, sums ? *sums++ : flxi_zeros_like(s, s->x[i]));
    for (uint32_t i = l->carries; i < shared; i++)
        add(&in, s->x[i]);
    for (uint32_t i = 0; i < l->carries; i++)
        add(&in, saved[i]);
    for (uint32_t i = shared; i < l->inputs; i++)
        add(&in, s->x[i]);
    for (uint32_t k = 0; k < l->ys; k++)
        if (p->seeded[l->carries + k])
            add(&in, dy[l->carries + k]);
    for (uint32_t i = 0; i < l->carries; i++)
        if (p->has_rows[i])
            add(&in, l->thinned ? spread_rows(s, l, dy[i]) : dy[i]);
    flx_scan_attrs a = attrs_like(l, body, p->dcarries + p->dbcasts, l->bcasts);
    a.reverse = !l->a->reverse;
    flx_scan_with(s->g, in.v, in.n, out, l->inputs, &a);
    flx_graph_release(body);
}

/* What all ops that go backward through the loop have; `wanted` and `seeded` are copied. */
enum { BACKWARD_ATTRS = 8 };

static int64_t *copy_flags(flxi_site *s, const bool *flags, uint32_t n)
{
    int64_t *copy = flxi_rule_new(s, int64_t, n);
    for (uint32_t i = 0; copy && i < n; i++)
        copy[i] = flags[i];
    return copy;
}

static bool set_backward_attrs(flxi_site *s, const layout *l, const flxi_backward_plan *p, const flx_graph *vjp,
                               flx_attr attrs[BACKWARD_ATTRS])
{
    uint32_t outputs = l->carries + l->ys;
    int64_t *wanted = copy_flags(s, p->wanted, l->inputs);
    int64_t *seeded = copy_flags(s, p->seeded, outputs);
    *attrs++ = flx_attr_graph("body", l->a->body);
    *attrs++ = flx_attr_graph("body_vjp", vjp);
    *attrs++ = flx_attr_int("num_carry", l->carries);
    *attrs++ = flx_attr_int("num_bcast", l->bcasts);
    *attrs++ = flx_attr_int("length", l->length);
    *attrs++ = flx_attr_int("reverse", l->a->reverse);
    *attrs++ = flx_attr_ints("wanted", (flx_ints){wanted, l->inputs});
    *attrs++ = flx_attr_ints("seeded", (flx_ints){seeded, outputs});
    return wanted && seeded;
}

/* The op that recomputes: scan_replay.c. */
static void replay_back(flxi_site *s, const layout *l, const flxi_backward_plan *p, const flx_graph *vjp,
                        const flx_val *dy, flx_val *out)
{
    flx_attr attrs[BACKWARD_ATTRS + 1];
    value_list in = {.v = flxi_rule_new(s, flx_val, s->nin + l->carries + l->ys)};
    if (!in.v || !set_backward_attrs(s, l, p, vjp, attrs))
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        add(&in, s->x[i]);
    for (uint32_t i = 0; i < l->carries; i++)
        if (p->varies[i])
            add(&in, flxi_or_zeros(s, dy[i], s->x[i]));
    for (uint32_t k = l->carries; k < l->carries + l->ys; k++)
        if (p->seeded[k])
            add(&in, dy[k]);
    attrs[BACKWARD_ATTRS] = flx_attr_int("num_checkpoints", l->a->num_checkpoints);
    flx_op(s->g, "scan_replay_backward", in.v, in.n, attrs, BACKWARD_ATTRS + 1, out, l->inputs);
}

static void add_backward_operands(flxi_site *s, const layout *l, const flxi_backward_plan *p, const flx_val *dy,
                                  value_list *in)
{
    for (uint32_t i = 0; i < l->carries; i++)
        add(in, s->x[i]);
    for (uint32_t i = 0; i < l->carries; i++)
        add(in, s->saved[i]);
    for (uint32_t k = 0; k < l->carries + l->ys; k++)
        if (p->seeded[k])
            add(in, flxi_or_zeros(s, dy[k], s->y[k]));
    for (uint32_t i = l->carries; i < l->inputs; i++)
        add(in, s->x[i]);
}

/* scan_backward for the carries and the broadcast inputs, scan_backward_xs for each sequence (scan_backward.c). */
static void append_backward_ops(flxi_site *s, const layout *l, const flxi_backward_plan *p, const flx_graph *vjp,
                                const flx_val *dy, flx_val *dx)
{
    enum { TRAJECTORY = BACKWARD_ATTRS, INDEX, COUNT };
    uint32_t shared = l->carries + l->bcasts;
    flx_attr attrs[COUNT];
    value_list in = {.v = flxi_rule_new(s, flx_val, s->nin + 2 * l->carries + l->ys)};
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    if (!in.v || !out || !set_backward_attrs(s, l, p, vjp, attrs))
        return;
    add_backward_operands(s, l, p, dy, &in);
    attrs[TRAJECTORY] = flx_attr_int("save_trajectory", l->a->save_trajectory);
    flx_op(s->g, "scan_backward", in.v, in.n, attrs, INDEX, out, s->nin);
    for (uint32_t i = 0, at = 0; i < shared; i++)
        if (p->wanted[i])
            dx[i] = out[at++];
    for (uint32_t i = shared; i < l->inputs; i++) {
        attrs[INDEX] = flx_attr_int("i", i - shared);
        if (p->wanted[i])
            dx[i] = flx_op1(s->g, "scan_backward_xs", in.v, in.n, attrs, COUNT);
    }
}

static void reverse_scan(flxi_site *s, bool backward_op, const flx_val *dy, flx_val *dx)
{
    layout l = layout_of(s);
    flxi_backward_plan p = {0};
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    if (!out || !plan_backward(s, &l, dy, &p))
        return;
    flx_graph *vjp = s->bodies->vjp(s, l.a->body, p.seeded, p.wanted);
    if (!vjp)
        return;
    if (backward_op)
        append_backward_ops(s, &l, &p, vjp, dy, dx);
    else if (is_replayed(l.a))
        replay_back(s, &l, &p, vjp, dy, out);
    else
        scan_back(s, &l, &p, vjp, s->saved, dy, NULL, out);
    flx_graph_release(vjp);
    for (uint32_t i = 0, at = 0; !backward_op && i < s->nin; i++)
        if (p.wanted[i])
            dx[i] = out[at++];
}

void flxi_vjp_scan(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    reverse_scan(s, false, dy, dx);
}

void flxi_backward_vjp_scan(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    layout l = layout_of(s);
    reverse_scan(s, has_backward_op(s, &l), dy, dx);
}

void flxi_scan_back(flxi_site *s, const flxi_backward_plan *p, const flx_graph *vjp, const flx_val *saved,
                    const flx_val *dy, const flx_val *sums, flx_val *y)
{
    layout l = layout_of(s);
    scan_back(s, &l, p, vjp, saved, dy, sums, y);
}

void flxi_scan_record(flxi_site *s, flx_val *saved)
{
    layout l = layout_of(s);
    record(s, &l, false, NULL, saved);
}

/* ---- Forward mode ---- */

/* jvp(body) with its inputs as c…, tc…, b…, tb…, x…, tx… and its outputs as c…, tc…, y…, ty… */
static flx_graph *tangent_body(flxi_site *s, const layout *l, const bool *active)
{
    flx_graph *jvp = s->bodies->jvp(s, l->a->body, active);
    flx_graph *g = flxi_new_body(s, l->a->body->name);
    uint32_t outputs = l->carries + l->ys;
    flx_val *in = flxi_rule_new(s, flx_val, 2 * s->nin);
    flx_val *out = flxi_rule_new(s, flx_val, 2 * outputs);
    uint32_t *position = flxi_rule_new(s, uint32_t, s->nin); /* of an input's tangent among jvp's inputs */
    if (!jvp || !g || !in || !out || !position) {
        flx_graph_release(jvp);
        flx_graph_release(g);
        return NULL;
    }
    uint32_t n = s->nin;
    for (uint32_t i = 0; i < s->nin; i++)
        position[i] = active[i] ? n++ : 0;
    uint32_t ends[3] = {l->carries, l->carries + l->bcasts, s->nin};
    for (uint32_t kind = 0, from = 0; kind < 3; from = ends[kind++]) {
        for (uint32_t i = from; i < ends[kind]; i++)
            in[i] = declare(g, body_input(l, i));
        for (uint32_t i = from; i < ends[kind]; i++)
            if (active[i])
                in[position[i]] = declare(g, body_input(l, i));
    }
    flxi_inline(g, jvp, in, out);
    uint32_t at = outputs;
    uint32_t *tangent = flxi_rule_new(s, uint32_t, outputs);
    for (uint32_t k = 0; tangent && k < outputs; k++)
        tangent[k] = flxi_can_vary(body_output(l, k)) ? at++ : 0;
    uint32_t parts[2] = {l->carries, outputs};
    for (uint32_t part = 0, from = 0; tangent && part < 2; from = parts[part++]) {
        for (uint32_t k = from; k < parts[part]; k++)
            flx_output(g, out[k], NULL);
        for (uint32_t k = from; k < parts[part]; k++)
            if (tangent[k])
                flx_output(g, out[tangent[k]], NULL);
    }
    flx_graph_release(jvp);
    return flxi_finish_body(s, g);
}

void flxi_jvp_scan(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    layout l = layout_of(s);
    bool *active = flxi_rule_new(s, bool, s->nin);
    value_list in = {.v = flxi_rule_new(s, flx_val, 2 * s->nin)};
    flx_val *out = flxi_rule_new(s, flx_val, 2 * s->nout);
    if (!active || !in.v || !out)
        return;
    for (uint32_t i = 0; i < s->nin; i++) /* a tangent may reach any carry through the others */
        active[i] = i < l.carries ? flxi_can_vary(body_input(&l, i)) : !flxi_is_none(tx[i]);
    flx_graph *body = tangent_body(s, &l, active);
    if (!body)
        return;
    uint32_t ends[3] = {l.carries, l.carries + l.bcasts, s->nin};
    uint32_t counts[3] = {0};
    for (uint32_t kind = 0, from = 0; kind < 3; from = ends[kind++]) {
        uint32_t before = in.n;
        for (uint32_t i = from; i < ends[kind]; i++)
            add(&in, s->x[i]);
        for (uint32_t i = from; i < ends[kind]; i++)
            if (active[i])
                add(&in, flxi_or_zeros(s, tx[i], s->x[i]));
        counts[kind] = in.n - before;
    }
    flx_scan_attrs a = attrs_like(&l, body, counts[0], counts[1]);
    a.save_trajectory = (int)l.a->save_trajectory;
    a.num_checkpoints = l.a->num_checkpoints;
    flx_scan_with(s->g, in.v, in.n, out, 2 * s->nout, &a);
    flx_graph_release(body);
    uint32_t at = 0;
    uint32_t parts[2] = {l.carries, s->nout};
    for (uint32_t part = 0, from = 0; part < 2; from = parts[part++]) {
        for (uint32_t k = from; k < parts[part]; k++)
            s->new_y[k] = out[at++];
        for (uint32_t k = from; k < parts[part]; k++)
            if (flxi_can_vary(flxi_typeof(s, s->y[k])))
                ty[k] = out[at++];
    }
}

/* ---- Batching ---- */

/* Carries that the body makes batched are batched from the start; found by iterating until nothing changes. */
static bool settle(flxi_site *s, const layout *l, bool *in, bool *out)
{
    for (bool changed = true; changed;) {
        flx_graph *trial = s->bodies->vmap(s, l->a->body, in, out, false);
        if (!trial)
            return false;
        flx_graph_release(trial);
        changed = false;
        for (uint32_t i = 0; i < l->carries; i++)
            if (out[i] && !in[i])
                in[i] = changed = true;
    }
    for (uint32_t i = 0; i < l->carries; i++)
        out[i] = in[i];
    return true;
}

void flxi_batch_scan(flxi_site *s, flx_val *by)
{
    layout l = layout_of(s);
    bool *in = flxi_rule_new(s, bool, s->nin);
    bool *out = flxi_rule_new(s, bool, s->nout);
    flx_val *x = flxi_rule_new(s, flx_val, s->nin);
    if (!in || !out || !x)
        return;
    memcpy(in, s->batched, s->nin * sizeof *in);
    if (!settle(s, &l, in, out))
        return;
    flx_graph *body = s->bodies->vmap(s, l.a->body, in, out, true);
    for (uint32_t i = 0; body && i < s->nin; i++) {
        bool sequence = i >= l.carries + l.bcasts;
        x[i] = i < l.carries && in[i] ? flxi_lift(s, i) : s->x[i];
        if (sequence && in[i])
            x[i] = flxi_move_axis(s, x[i], 0, 1); /* time first, then the batch */
    }
    if (body) {
        flx_scan_attrs a = attrs_like(&l, body, l.carries, l.bcasts);
        a.save_trajectory = (int)l.a->save_trajectory;
        a.num_checkpoints = l.a->num_checkpoints;
        flx_scan_with(s->g, x, s->nin, by, s->nout, &a);
    }
    flx_graph_release(body);
    for (uint32_t k = 0; k < s->nout; k++) {
        bool stacked = k >= l.carries || l.a->save_trajectory;
        s->by_batched[k] = out[k];
        if (out[k] && stacked)
            by[k] = flxi_move_axis(s, by[k], 1, 0);
    }
}
