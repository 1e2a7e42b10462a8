/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_flow.c: tree, crossings and activity of a normalised program. */
#include "kernel/derive/kernel_flow.h"

#include "kernel/derive/kernel_affine.h"
#include "kernel/program/kernel_origin.h"

#include <stdio.h>

typedef struct {
    flxi_kflow *w;
    const flx_kernel *k;
    uint32_t *stamps; /* of variables: the body that last listed them */
    uint32_t stamp;
    uint32_t position;
    bool failed;
    FLXI_VEC(uint32_t) list;
} builder;

/* ---- The tree ---- */

static void count_expr(builder *c, uint32_t expr)
{
    const flxi_kx *e = &c->k->exprs[expr];
    if (e->kind == KX_LOAD)
        c->w->buffers[e->ref].num_loads++;
    if (e->kind == KX_ATOMIC) {
        c->w->buffers[e->ref].num_atomics++;
        c->w->buffers[e->ref].last_write = c->position;
    }
}

static void note_statement(builder *c, flxi_kstep *step)
{
    const flxi_ks *s = step->s;
    flxi_kflow *w = c->w;
    count_expr(c, s->a);
    if (s->kind == KS_STORE) {
        w->buffers[s->buffer].num_stores++;
        w->buffers[s->buffer].last_write = c->position;
    } else if (s->kind == KS_LET || s->kind == KS_LOOP) {
        w->vars[s->var].step = step;
        w->vars[s->var].value = s->kind == KS_LET ? s->a : 0;
    } else if (s->kind == KS_ASSIGN) {
        w->vars[s->var].is_assigned = 1;
    } else if (s->kind == KS_BARRIER) {
        step->has_barrier = true;
        step->has_grid_barrier = s->order == FLX_KERNEL_GRID;
    }
    if (s->kind == KS_LOOP)
        step->number = ++w->num_loops;
}

static void gather_barriers(flxi_kstep *step, flxi_ksteps inside)
{
    for (size_t i = 0; i < inside.n; i++) {
        step->has_barrier |= inside.at[i].has_barrier;
        step->has_grid_barrier |= inside.at[i].has_grid_barrier;
    }
}

static flxi_ksteps steps_of(builder *c, flxi_klist list, const flxi_kstep *parent, bool in_else)
{
    flxi_ksteps steps = {flxi_new(c->w->arena, flxi_kstep, list.n), list.n};
    if (!steps.at) {
        c->failed = true;
        return (flxi_ksteps){0};
    }
    for (size_t i = 0; i < list.n && !c->failed; i++) {
        flxi_kstep *step = &steps.at[i];
        step->s = &list.at[i];
        step->parent = parent;
        step->in_else = in_else;
        step->loop = !parent || parent->s->kind == KS_LOOP ? parent : parent->loop;
        step->begin = ++c->position;
        note_statement(c, step);
        step->body = steps_of(c, step->s->body, step, false);
        step->other = steps_of(c, step->s->other, step, true);
        step->end = ++c->position;
        gather_barriers(step, step->body);
        gather_barriers(step, step->other);
    }
    return steps;
}

/* ---- Variables that cross a boundary ---- */

static void list_var(builder *c, const flxi_kstep *border, uint32_t var)
{
    const flxi_kstep *declared = c->w->vars[var].step;
    if (!declared || declared->begin >= border->begin || c->stamps[var] == c->stamp)
        return;
    c->stamps[var] = c->stamp;
    if (!flxi_push(flxi_kernel_mem(c->k), &c->list, var))
        c->failed = true;
}

static void list_reads_of(builder *c, const flxi_kstep *border, uint32_t expr)
{
    const flxi_kx *e = &c->k->exprs[expr];
    if (e->kind == KX_VAR)
        list_var(c, border, e->ref);
    for (int i = flxi_kx_operands(e); i-- > 0;)
        list_reads_of(c, border, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        list_reads_of(c, border, e->args[i]);
}

static void list_crossings(builder *c, const flxi_kstep *border, flxi_ksteps steps, bool writes)
{
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_ks *s = steps.at[i].s;
        if (writes && s->kind == KS_ASSIGN)
            list_var(c, border, s->var);
        if (!writes) {
            list_reads_of(c, border, s->a);
            list_reads_of(c, border, s->b);
        }
        list_crossings(c, border, steps.at[i].body, writes);
        list_crossings(c, border, steps.at[i].other, writes);
    }
}

static flxi_knumbers crossings(builder *c, const flxi_kstep *border, bool writes)
{
    c->stamp++;
    c->list.n = 0;
    list_crossings(c, border, border->body, writes);
    list_crossings(c, border, border->other, writes);
    flxi_knumbers kept = {flxi_dup(c->w->arena, uint32_t, c->list.at, c->list.n), c->list.n};
    c->failed |= !kept.at;
    return kept;
}

static void find_crossings(builder *c, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n && !c->failed; i++) {
        flxi_kstep *step = &steps.at[i];
        if (step->s->kind != KS_IF && step->s->kind != KS_LOOP)
            continue;
        step->reads = crossings(c, step, false);
        step->writes = crossings(c, step, true);
        find_crossings(c, step->body);
        find_crossings(c, step->other);
    }
}

/* ---- Activity ---- */

static size_t operand_count(const flxi_kx *e)
{
    return e->num_args ? e->num_args : (size_t)flxi_kx_operands(e);
}

static uint32_t operand_at(const flxi_kx *e, size_t i)
{
    return e->num_args ? e->args[i] : e->x[i];
}

static uint8_t varied(const flxi_kflow *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    if (e->kind == KX_VAR)
        return w->vars[e->ref].activity & KVARIED;
    if (e->kind == KX_LOAD)
        return flxi_ktype_is_float(e->type) ? w->buffers[e->ref].activity & KVARIED : 0;
    for (size_t i = 0; i < operand_count(e); i++) {
        flxi_kpass pass = flxi_kernel_pass(w->k, e, (int)i);
        if ((pass == KPASS_RULE || pass == KPASS_REFUSED) && varied(w, operand_at(e, i)))
            return KVARIED;
    }
    if (e->kind == KX_ATOMIC && flxi_ktype_is_float(e->type))
        return w->buffers[e->ref].activity & KVARIED;
    return 0;
}

static bool raise_to(uint8_t *activity, uint8_t bits)
{
    bool grew = (*activity | bits) != *activity;
    *activity |= bits;
    return grew;
}

static bool is_stopped(const flxi_kflow *w, uint32_t buffer)
{
    return (w->k->buffers[buffer].flags & FLX_KERNEL_STOP_GRADIENT) != 0;
}

static bool store_varied(flxi_kflow *w, uint32_t buffer, uint32_t value)
{
    return !is_stopped(w, buffer) && varied(w, value) && raise_to(&w->buffers[buffer].activity, KVARIED);
}

static bool spread_varied(flxi_kflow *w, flxi_ksteps steps)
{
    bool grew = false;
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_ks *s = steps.at[i].s;
        const flxi_kx *e = &w->k->exprs[s->a];
        if ((s->kind == KS_LET || s->kind == KS_ASSIGN) && varied(w, s->a))
            grew |= raise_to(&w->vars[s->var].activity, KVARIED);
        if (s->kind == KS_STORE)
            grew |= store_varied(w, s->buffer, s->b);
        if (e->kind == KX_ATOMIC)
            grew |= store_varied(w, e->ref, e->x[1]);
        grew |= spread_varied(w, steps.at[i].body);
        grew |= spread_varied(w, steps.at[i].other);
    }
    return grew;
}

static bool make_useful(flxi_kflow *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    if (e->kind == KX_VAR)
        return flxi_ktype_is_float(e->type) && raise_to(&w->vars[e->ref].activity, KUSEFUL);
    if (e->kind == KX_LOAD)
        return flxi_ktype_is_float(e->type) && !is_stopped(w, e->ref) &&
               raise_to(&w->buffers[e->ref].activity, KUSEFUL);
    bool grew = false;
    for (size_t i = 0; i < operand_count(e); i++) {
        flxi_kpass pass = flxi_kernel_pass(w->k, e, (int)i);
        if (pass == KPASS_RULE || pass == KPASS_REFUSED)
            grew |= make_useful(w, operand_at(e, i));
    }
    return grew;
}

static bool spread_useful(flxi_kflow *w, flxi_ksteps steps)
{
    bool grew = false;
    for (size_t i = steps.n; i-- > 0;) {
        const flxi_ks *s = steps.at[i].s;
        const flxi_kx *e = &w->k->exprs[s->a];
        if ((s->kind == KS_LET || s->kind == KS_ASSIGN) && (w->vars[s->var].activity & KUSEFUL))
            grew |= make_useful(w, s->a);
        if (s->kind == KS_STORE && (w->buffers[s->buffer].activity & KUSEFUL))
            grew |= make_useful(w, s->b);
        if (e->kind == KX_ATOMIC && (w->buffers[e->ref].activity & KUSEFUL))
            grew |= make_useful(w, e->x[1]);
        grew |= spread_useful(w, steps.at[i].body);
        grew |= spread_useful(w, steps.at[i].other);
    }
    return grew;
}

/* ---- Which steps are active ---- */

uint32_t flxi_kflow_active_leaf(const flxi_kflow *w, uint32_t e)
{
    const flxi_kx *x = &w->k->exprs[e];
    return x->kind == KX_VAR && flxi_kflow_var_is_active(w, x->ref) ? x->ref : 0;
}

static bool passes_on(const flxi_kflow *w, const flxi_ks *s)
{
    const flxi_kx *e = &w->k->exprs[s->a];
    if (e->kind == KX_ATOMIC && flxi_kflow_buffer_is_active(w, e->ref))
        return true;
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET:
    case KS_ASSIGN: return flxi_kflow_var_is_active(w, s->var);
    case KS_STORE: return flxi_kflow_buffer_is_active(w, s->buffer);
    default: return false;
    }
}

static bool mark_active(flxi_kflow *w, flxi_ksteps steps)
{
    bool any = false;
    for (size_t i = 0; i < steps.n; i++) {
        flxi_kstep *step = &steps.at[i];
        step->is_active = passes_on(w, step->s);
        step->is_active |= mark_active(w, step->body);
        step->is_active |= mark_active(w, step->other);
        any |= step->is_active;
    }
    return any;
}

bool flxi_kflow_may_change(const flxi_kflow *w, const flxi_kstep *load)
{
    const flxi_kx *e = &w->k->exprs[load->s->a];
    uint32_t last = w->buffers[e->ref].last_write;
    if (last == 0)
        return false;
    if (last > load->begin)
        return true;
    const flxi_kstep *outermost = load->loop;
    while (outermost && outermost->loop)
        outermost = outermost->loop;
    return outermost && last > outermost->begin;
}

static bool write_path(flxi_ksteps steps, const flxi_kstep *target, char *buffer, size_t size, size_t n)
{
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_kstep *s = &steps.at[i];
        if (target->begin < s->begin || target->begin >= s->end)
            continue;
        int m = snprintf(buffer + n, size - n, "/%zu", i);
        if (m < 0 || (size_t)m >= size - n || s == target)
            return true;
        n += (size_t)m;
        if (write_path(s->body, target, buffer, size, n))
            return true;
        m = snprintf(buffer + n, size - n, "/else");
        if (m < 0 || (size_t)m >= size - n)
            return true;
        return write_path(s->other, target, buffer, size, n + (size_t)m);
    }
    return false;
}

const char *flxi_kflow_path(const flxi_kflow *w, const flxi_kstep *step, char *buffer, size_t size)
{
    if (w->source && flxi_kernel_origin(w->source, step->s->position, buffer, size))
        return buffer;
    int n = snprintf(buffer, size, "body");
    write_path(w->top, step, buffer, size, (size_t)n);
    return buffer;
}

/* ---- The whole ---- */

static bool build(builder *c)
{
    flxi_kflow *w = c->w;
    const flx_kernel *k = c->k;
    w->vars = flxi_new(w->arena, flxi_kvar_facts, k->num_vars + 1);
    w->buffers = flxi_new(w->arena, flxi_kbuffer_facts, k->num_buffers + 1);
    c->stamps = flxi_new(w->arena, uint32_t, k->num_vars + 1);
    if (!w->vars || !w->buffers || !c->stamps)
        return false;
    w->top = steps_of(c, k->body, NULL, false);
    if (!c->failed)
        find_crossings(c, w->top);
    flxi_vec_free(flxi_kernel_mem(k), &c->list);
    return !c->failed;
}

flx_code flxi_kernel_flow(flxi_kflow *w, flxi_arena *arena, const flx_kernel *k, const uint8_t *inputs,
                          const uint8_t *outputs, flx_error *err)
{
    *w = (flxi_kflow){.k = k, .arena = arena};
    builder c = {.w = w, .k = k};
    if (!build(&c))
        return flxi_oom(err, "the derivative of a kernel");
    for (uint32_t a = 0; a < 3; a++)
        w->has_axis[a] = flxi_kernel_mentions_axis(k, a);
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        bool carries = flxi_ktype_is_float(k->buffers[i].element) && !is_stopped(w, i);
        if (inputs[i] && carries)
            w->buffers[i].activity |= KVARIED;
        if (outputs[i] && carries)
            w->buffers[i].activity |= KUSEFUL;
    }
    while (spread_varied(w, w->top))
        continue;
    while (spread_useful(w, w->top))
        continue;
    mark_active(w, w->top);
    return FLX_OK;
}
