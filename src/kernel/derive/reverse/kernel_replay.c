/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_replay.c: the forward part of a reverse, and its repetitions: the program with a variable for each value. */
#include "kernel/derive/reverse/kernel_reverser.h"

static uint32_t length_of(flxi_kreverser *g, uint32_t buffer)
{
    uint32_t same = g->primal[buffer] ? g->primal[buffer] : g->adjoint[buffer];
    return flxi_kb_length(g->b, same);
}

static uint32_t leaf(flxi_kreverser *g, uint32_t expr)
{
    const flxi_kx *e = &g->k->exprs[expr];
    if (e->kind == KX_VAR)
        return g->now[e->ref];
    if (e->kind == KX_LENGTH)
        return length_of(g, e->ref);
    return expr ? flxi_kb_rebuild(g->b, e, NULL, NULL) : 0;
}

static bool read_operands(flxi_kreverser *g, const flxi_kx *e, flxi_kpast *p)
{
    for (int i = 0; i < flxi_kx_operands(e); i++)
        p->x[i] = leaf(g, e->x[i]);
    if (e->num_args == 0)
        return true;
    p->args = SCRATCH(g, uint32_t, e->num_args);
    for (size_t i = 0; p->args && i < e->num_args; i++)
        p->args[i] = leaf(g, e->args[i]);
    return p->args != NULL;
}

/* The value of an expression of a let, from operands that are already loaded. */
static uint32_t value_of(flxi_kreverser *g, const flxi_kx *e, const flxi_kpast *p)
{
    flxi_kx there = *e;
    if (e->kind == KX_LOAD || e->kind == KX_ATOMIC)
        there.ref = g->primal[e->ref];
    return flxi_kb_rebuild(g->b, &there, p->x, p->args);
}

/* The reverse may run parts of the program again: effects would happen twice. */
static void refuse_effects(flxi_kreverser *g, const flxi_kstep *step, const flxi_kx *e)
{
    char path[120];
    if (e->kind != KX_OPAQUE || g->k->opaques[e->ref].pure || !flxi_krev_ok(g))
        return;
    flxi_kernel_fail(&g->b->err, "not differentiable", "remove it from the kernel to be differentiated",
                     "extension '%.80s' is impure: its effects cannot be repeated", g->k->opaques[e->ref].extension);
    flxi_at(&g->b->err, "%s", flxi_kflow_path(g->w, step, path, sizeof path));
}

static void forward_let(flxi_kreverser *g, const flxi_kstep *step, flxi_kpast *p)
{
    const flxi_ks *s = step->s;
    const flxi_kx *e = &g->k->exprs[s->a];
    if (flxi_kx_is_leaf(e)) {
        p->x[0] = p->z = g->now[s->var] = leaf(g, s->a);
        return;
    }
    if (!read_operands(g, e, p))
        return;
    refuse_effects(g, step, e);
    size_t tape = g->site_tapes[s->var];
    if (tape && g->mode == MODE_REPLAY) {
        g->now[s->var] = flxi_krev_restore(g, tape - 1, flxi_krev_site_slot(g, step->loop), flxi_krev_name(g, s->var));
    } else {
        g->now[s->var] = flxi_krev_let(g, flxi_krev_name(g, s->var), value_of(g, e, p));
        if (tape && g->mode == MODE_FORWARD && g->tapes.at[tape - 1].is_kept)
            flxi_krev_record(g, tape - 1, flxi_krev_site_slot(g, step->loop), g->now[s->var]);
    }
    p->z = g->now[s->var];
}

/* The caller has the stored values: an operation's result can be loaded from there instead of being recomputed. */
static void use_given(flxi_kreverser *g, const flxi_kpast *p, uint32_t buffer)
{
    const flxi_kx *e = flxi_kb_expr(g->b, p->x[1]);
    uint32_t var = e->ref;
    if (e->kind != KX_VAR || flxi_ktype_of(g->k->buffers[buffer].element)->storage)
        return;
    uint32_t value = flxi_krev_let(g, "given", flxi_kb_load(g->b, g->primal[buffer], p->x[0]));
    if (!flxi_push(flxi_kernel_mem(g->k), &g->saved, ((flxi_ksaved){var, value})))
        flxi_krev_check(g, NULL);
}

static void forward_store(flxi_kreverser *g, const flxi_kstep *step, flxi_kpast *p)
{
    const flxi_ks *s = step->s;
    p->x[0] = leaf(g, s->a);
    p->x[1] = leaf(g, s->b);
    if (g->mode != MODE_REPLAY && g->keeps_stores[s->buffer])
        flxi_kb_store(g->b, g->primal[s->buffer], p->x[0], p->x[1]);
    bool is_given = (g->q->options->flags & FLX_KERNEL_SAVED) && g->primal[s->buffer] && !g->keeps_stores[s->buffer] &&
                    g->q->outputs[s->buffer] && g->mode != MODE_COUNT;
    if (is_given)
        use_given(g, p, s->buffer);
}

static void forward_effect(flxi_kreverser *g, const flxi_kstep *step, flxi_kpast *p)
{
    const flxi_kx *e = &g->k->exprs[step->s->a];
    if (!read_operands(g, e, p))
        return;
    if (g->mode != MODE_REPLAY && e->kind == KX_ATOMIC && g->keeps_stores[e->ref])
        flxi_kb_effect(g->b, value_of(g, e, p));
}

static uint32_t *values_now(flxi_kreverser *g, flxi_knumbers vars)
{
    uint32_t *values = SCRATCH(g, uint32_t, vars.n);
    for (size_t i = 0; values && i < vars.n; i++)
        values[i] = g->now[vars.at[i]];
    return values;
}

/* Gives each variable its value at entry, runs the body, and passes the new values to the outer variables. */
static void forward_branch(flxi_kreverser *g, const flxi_kstep *step, flxi_ksteps body, const flxi_kpast *p,
                           const uint32_t *joined)
{
    for (size_t i = 0; i < step->writes.n; i++)
        g->now[step->writes.at[i]] = p->writes[i];
    flxi_krev_forward(g, body, NULL);
    for (size_t i = 0; i < step->writes.n; i++)
        if (g->now[step->writes.at[i]] != p->writes[i])
            flxi_kb_assign(g->b, joined[i], g->now[step->writes.at[i]]);
}

static uint32_t *new_joined(flxi_kreverser *g, const flxi_kstep *step)
{
    uint32_t *joined = SCRATCH(g, uint32_t, step->writes.n);
    for (size_t i = 0; joined && i < step->writes.n; i++) {
        uint32_t var = step->writes.at[i];
        joined[i] = flxi_krev_new_var(g, flxi_krev_name(g, var), g->now[var]);
    }
    return joined;
}

static void take_joined(flxi_kreverser *g, const flxi_kstep *step, const uint32_t *joined)
{
    for (size_t i = 0; i < step->writes.n; i++)
        g->now[step->writes.at[i]] = flxi_kb_var(g->b, joined[i]);
}

static bool keep_entry(flxi_kreverser *g, const flxi_kstep *step, flxi_kpast *p)
{
    p->reads = values_now(g, step->reads);
    p->writes = values_now(g, step->writes);
    return p->reads && p->writes;
}

static void forward_if(flxi_kreverser *g, const flxi_kstep *step, flxi_kpast *p)
{
    p->x[0] = leaf(g, step->s->a);
    uint32_t *joined = keep_entry(g, step, p) ? new_joined(g, step) : NULL;
    if (!joined)
        return;
    flxi_kb_if(g->b, p->x[0]);
    forward_branch(g, step, step->body, p, joined);
    if (step->other.n) {
        flxi_kb_else(g->b);
        forward_branch(g, step, step->other, p, joined);
    }
    flxi_kb_end(g->b);
    take_joined(g, step, joined);
}

/* max(to - from, 0) */
static uint32_t trips_of(flxi_kreverser *g, uint32_t from, uint32_t to)
{
    flxi_kb *b = g->b;
    const flxi_kx *f = flxi_kb_expr(b, from), *t = flxi_kb_expr(b, to);
    if (f->kind == KX_LITERAL && t->kind == KX_LITERAL)
        return flxi_kb_u32(b, t->bits > f->bits ? (uint32_t)(t->bits - f->bits) : 0);
    if (f->kind == KX_LITERAL && f->bits == 0)
        return to;
    uint32_t more = flxi_kb_binary(b, KBIN_gt, to, from);
    return flxi_krev_let(g, "trips", flxi_kb_select(b, more, flxi_kb_binary(b, KBIN_sub, to, from), flxi_kb_u32(b, 0)));
}

/* Unknown trip counts are counted, or compared with the limit that the caller gave. */
static void watch_trips(flxi_kreverser *g, const flxi_kstep *step, uint32_t trips)
{
    flxi_kb *b = g->b;
    if (flxi_kernel_trip_bound(g->w, step) != UINT64_MAX)
        return;
    if (g->mode == MODE_COUNT) {
        uint32_t at = flxi_kb_u32(b, step->number - 1);
        flxi_kb_effect(b, flxi_kb_atomic(b, FLX_KERNEL_ATOMIC_MAX, g->counts, at, trips, 0, FLX_KERNEL_RELAXED));
    } else if (g->mode == MODE_FORWARD && g->overflow) {
        flxi_kb_if(b, flxi_kb_binary(b, KBIN_gt, trips, flxi_kb_u32(b, g->q->options->max_trips)));
        flxi_kb_effect(
            b, flxi_kb_atomic(b, FLX_KERNEL_ATOMIC_MAX, g->overflow, flxi_kb_u32(b, 0), trips, 0, FLX_KERNEL_RELAXED));
        flxi_kb_end(b);
    }
}

static void record_entry(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p)
{
    for (size_t i = 0; i < step->writes.n && flxi_krev_ok(g); i++)
        flxi_krev_record(g, p->tape + i, g->iteration[step->number], g->now[step->writes.at[i]]);
}

/* The tapes of a loop are created where its reverse follows: once. */
static void add_loop_tapes(flxi_kreverser *g, const flxi_kstep *step, flxi_kpast *p)
{
    p->tape = g->tapes.n;
    for (size_t i = 0; i < step->writes.n && flxi_krev_ok(g); i++)
        flxi_krev_add_tape(g, g->k->vars[step->writes.at[i]].type, step, true);
}

static void enter_iteration(flxi_kreverser *g, const flxi_kstep *step, uint32_t from, uint32_t var)
{
    uint32_t v = flxi_kb_var(g->b, var);
    const flxi_kx *f = flxi_kb_expr(g->b, from);
    bool from_zero = f->kind == KX_LITERAL && f->bits == 0;
    g->now[step->s->var] = v;
    g->iteration[step->number] = from_zero ? v : flxi_krev_let(g, "k", flxi_kb_binary(g->b, KBIN_sub, v, from));
}

/* Starts from variables that hold the carried values, and leaves the new values in them. */
static void run_iterations(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p, uint32_t to,
                           const uint32_t *carried, bool is_recorded)
{
    uint32_t var = flxi_kb_loop(g->b, flxi_kb_fresh_name(g->b, flxi_krev_name(g, step->s->var)), p->from, to);
    enter_iteration(g, step, p->from, var);
    for (size_t i = 0; i < step->writes.n;
         i++) { /* a copy: the variable is assigned at the end, maybe before it is read */
        uint32_t v = step->writes.at[i];
        g->now[v] = flxi_kb_var(g->b, flxi_krev_new_var(g, flxi_krev_name(g, v), flxi_kb_var(g->b, carried[i])));
    }
    if (is_recorded)
        record_entry(g, step, p);
    flxi_krev_forward(g, step->body, NULL);
    for (size_t i = 0; i < step->writes.n; i++)
        flxi_kb_assign(g->b, carried[i], g->now[step->writes.at[i]]);
    flxi_kb_end(g->b);
    take_joined(g, step, carried);
}

void flxi_krev_rerun(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p)
{
    uint32_t at = g->now[step->s->var], iteration = g->iteration[step->number];
    uint32_t *carried = new_joined(g, step);
    flxi_krev_mode before = g->mode;
    if (!carried)
        return;
    g->mode = MODE_REPLAY;
    run_iterations(g, step, p, at, carried, false);
    g->mode = before;
    g->now[step->s->var] = at;
    g->iteration[step->number] = iteration;
}

static void forward_loop(flxi_kreverser *g, const flxi_kstep *step, flxi_kpast *p, bool is_reversed)
{
    const flxi_ks *s = step->s;
    bool is_recorded = is_reversed && !flxi_krev_is_rerun(step);
    p->from = leaf(g, s->a);
    uint32_t to = leaf(g, s->b);
    p->trips = trips_of(g, p->from, to);
    watch_trips(g, step, p->trips);
    if (is_recorded)
        add_loop_tapes(g, step, p);
    uint32_t *carried = keep_entry(g, step, p) ? new_joined(g, step) : NULL;
    if (carried)
        run_iterations(g, step, p, to, carried, is_recorded);
}

static void refuse_statement(flxi_kreverser *g, const flxi_kstep *step, const char *what)
{
    char path[120];
    if (!flxi_krev_ok(g))
        return;
    flxi_kernel_fail(&g->b->err, "unsupported statement", "rewrite the kernel without it", "%s has no derivative",
                     what);
    flxi_at(&g->b->err, "%s", flxi_kflow_path(g->w, step, path, sizeof path));
}

static const char *const statement_names[KS_KIND_COUNT] = {
    [KS_INDIRECT] = "indirect_dispatch",
    [KS_RESUME] = "resume",
    [KS_COLLECTIVE] = "a collective",
    [KS_OPAQUE] = "an opaque statement",
};

static void forward_step(flxi_kreverser *g, const flxi_kstep *step, flxi_kpast *p, bool is_reversed)
{
    const flxi_ks *s = step->s;
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET: forward_let(g, step, p); break;
    case KS_ASSIGN: p->x[0] = g->now[s->var] = leaf(g, s->a); break;
    case KS_STORE: forward_store(g, step, p); break;
    case KS_EFFECT: forward_effect(g, step, p); break;
    case KS_IF: forward_if(g, step, p); break;
    case KS_LOOP: forward_loop(g, step, p, is_reversed); break;
    case KS_BARRIER:
        if (g->mode != MODE_REPLAY)
            flxi_kb_barrier(g->b, (flx_kernel_order)s->order);
        break;
    case KS_TRAP:
        if (g->mode != MODE_REPLAY) {
            flxi_ks t = *s;
            t.a = leaf(g, s->a);
            flxi_kb_simple(g->b, &t);
        }
        break;
    default: refuse_statement(g, step, statement_names[s->kind] ? statement_names[s->kind] : "this statement");
    }
}

/* With a trace, the reverse of the list follows in the same scope. */
void flxi_krev_forward(flxi_kreverser *g, flxi_ksteps steps, flxi_kpast *trace)
{
    for (size_t i = 0; i < steps.n && flxi_krev_ok(g); i++) {
        flxi_kpast unused = {0};
        forward_step(g, &steps.at[i], trace ? &trace[i] : &unused, trace != NULL);
    }
}
