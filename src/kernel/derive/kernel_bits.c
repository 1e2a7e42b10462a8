/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_bits.c: see kernel_bits.h. */
#include "kernel/derive/kernel_bits.h"

typedef struct {
    const flxi_kflow *w;
    uint8_t *vars, *buffers; /* 1: holds a value computed from the bits of a float that depends on an input */
    bool grew;
} search;

static bool is_discrete(uint32_t type)
{
    return type != FLX_BOOL && !flxi_ktype_is_float(type);
}

/* In a normalised program operands are leaves. A comparison, an address and a lane only select; what they select is
   differentiated as usual. */
static bool is_of_bits(const search *s, uint32_t expr)
{
    const flx_kernel *k = s->w->k;
    const flxi_kx *e = &k->exprs[expr];
    if (!is_discrete(e->type))
        return false;
    if (e->kind == KX_VAR)
        return s->vars[e->ref];
    if (e->kind == KX_LOAD)
        return s->buffers[e->ref];
    const flxi_kx *x = &k->exprs[e->x[0]];
    if (e->kind == KX_BITCAST && x->kind == KX_VAR && flxi_ktype_is_float(x->type))
        return (s->w->vars[x->ref].activity & KVARIED) != 0;
    for (int i = 0; i < flxi_kx_operands(e); i++)
        if (is_of_bits(s, e->x[i]))
            return true;
    return false;
}

static void mark(search *s, uint8_t *flag)
{
    s->grew |= !*flag;
    *flag = 1;
}

static void spread(search *s, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_ks *at = steps.at[i].s;
        const flxi_kx *e = &s->w->k->exprs[at->a];
        if ((at->kind == KS_LET || at->kind == KS_ASSIGN) && is_of_bits(s, at->a))
            mark(s, &s->vars[at->var]);
        if (at->kind == KS_STORE && is_of_bits(s, at->b))
            mark(s, &s->buffers[at->buffer]);
        if (e->kind == KX_ATOMIC && is_of_bits(s, e->x[1]))
            mark(s, &s->buffers[e->ref]);
        spread(s, steps.at[i].body);
        spread(s, steps.at[i].other);
    }
}

/* The first position where bits become a float that an output depends on. */
static const flxi_kstep *find_return(const search *s, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_kstep *step = &steps.at[i];
        const flxi_kx *e = &s->w->k->exprs[step->s->a];
        bool converts = (e->kind == KX_BITCAST || e->kind == KX_CAST) && flxi_ktype_is_float(e->type);
        if (step->s->kind == KS_LET && converts && (s->w->vars[step->s->var].activity & KUSEFUL) &&
            is_of_bits(s, e->x[0]))
            return step;
        const flxi_kstep *inside = find_return(s, step->body);
        if (!inside)
            inside = find_return(s, step->other);
        if (inside)
            return inside;
    }
    return NULL;
}

flx_code flxi_kernel_check_bits(const flxi_kflow *w, flx_error *err)
{
    char path[120];
    search s = {.w = w, .grew = true};
    s.vars = flxi_new(w->arena, uint8_t, w->k->num_vars + 1u);
    s.buffers = flxi_new(w->arena, uint8_t, w->k->num_buffers + 1u);
    if (!s.vars || !s.buffers)
        return flxi_oom(err, "the derivative of a kernel");
    while (s.grew) {
        s.grew = false;
        spread(&s, w->top);
    }
    const flxi_kstep *step = find_return(&s, w->top);
    if (!step)
        return FLX_OK;
    flxi_kernel_fail(err, "not differentiable", "wrap it in stop_gradient, or give its function an adjoint",
                     "bitcast has no derivative");
    return flxi_at(err, "%s", flxi_kflow_path(w, step, path, sizeof path));
}
