/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_jvp.c: flx_kernel_jvp: forward mode. Every varied variable and buffer gets tangents, and every statement is
   followed by that of its tangents, in the same control flow; so nothing is recorded and barriers stay where they are.
   */
#include "kernel/derive/kernel_bits.h"
#include "kernel/derive/kernel_derive.h"
#include "kernel/derive/kernel_normalise.h"
#include "kernel/optimise/kernel_optimise.h"

#include <stdio.h>

typedef struct {
    flxi_kderive *d;
    const flx_kernel *k; /* normalised */
    const flxi_kflow *w;
    flxi_kb *b;
    uint32_t columns;
    uint32_t *vars;     /* by variable: the same in the new program */
    uint32_t *tangents; /* by variable and column: its tangent's variable, or 0 */
    uint32_t *buffers;  /* by buffer: its tangents, or 0 */
} pusher;

static bool ok(const pusher *g)
{
    return flxi_kb_ok(g->b);
}

static bool fail_memory(pusher *g)
{
    if (ok(g))
        flxi_oom(&g->b->err, "the derivative of a kernel");
    return false;
}

/* The bits of a float carry no derivative: that they do not become a float that matters is checked before. */
static bool is_varied(const pusher *g, uint32_t var)
{
    return (g->w->vars[var].activity & KVARIED) != 0 && flxi_ktype_is_float(g->k->vars[var].type);
}

static uint32_t leaf(pusher *g, uint32_t expr)
{
    const flxi_kx *e = &g->k->exprs[expr];
    return e->kind == KX_VAR ? flxi_kb_var(g->b, g->vars[e->ref]) : flxi_kb_rebuild(g->b, e, NULL, NULL);
}

/* The tangent of a leaf; 0 is zero. */
static uint32_t tangent_of(pusher *g, uint32_t expr, uint32_t column)
{
    const flxi_kx *e = &g->k->exprs[expr];
    if (e->kind != KX_VAR || !g->tangents[e->ref * g->columns + column])
        return 0;
    return flxi_kb_var(g->b, g->tangents[e->ref * g->columns + column]);
}

static uint32_t tangent_or_zero(pusher *g, uint32_t expr, uint32_t column, uint32_t type)
{
    uint32_t t = tangent_of(g, expr, column);
    return t ? t : flxi_kb_literal(g->b, type, 0);
}

static uint32_t tangent_index(pusher *g, uint32_t index, uint32_t column)
{
    if (g->columns == 1)
        return index;
    uint32_t row = flxi_kb_binary(g->b, KBIN_mul, index, flxi_kb_u32(g->b, g->columns));
    return flxi_kb_binary(g->b, KBIN_add, row, flxi_kb_u32(g->b, column));
}

static uint32_t bind(pusher *g, const char *name, uint32_t value)
{
    if (!value || flxi_kx_is_leaf(flxi_kb_expr(g->b, value)))
        return value;
    return flxi_kb_var(g->b, flxi_kb_let(g->b, flxi_kb_fresh_name(g->b, name), value));
}

/* ---- Tangents of expressions ---- */

static void refuse(pusher *g, const flxi_kstep *step, const flxi_kx *e)
{
    char path[120];
    if (!ok(g))
        return;
    flxi_kernel_refuse(g->k, e, &g->b->err);
    flxi_at(&g->b->err, "%s", flxi_kflow_path(g->w, step, path, sizeof path));
}

typedef struct {
    const flxi_kstep *step;
    const flxi_kx *e;
    uint32_t x[3];
    uint32_t *args;
    uint32_t z;
} site;

static uint32_t add_terms(pusher *g, uint32_t sum, uint32_t term)
{
    if (!term)
        return sum;
    return sum ? flxi_kb_binary(g->b, KBIN_add, sum, term) : term;
}

static uint32_t tangent_of_call(pusher *g, const site *p, uint32_t column)
{
    const flxi_kfn *f = &g->k->fns[p->e->ref];
    uint32_t sum = 0;
    for (uint32_t i = 0; i < p->e->num_args; i++) {
        uint32_t t = tangent_of(g, p->e->args[i], column);
        uint32_t fn = t ? flxi_kernel_adjoint_fn(g->k, p->e->ref, i) : 0;
        if (t && !fn)
            refuse(g, p->step, p->e);
        uint32_t *args = fn ? flxi_new(&g->d->arena, uint32_t, f->num_params + 2) : NULL;
        if (!fn)
            continue;
        if (!args)
            return fail_memory(g);
        memcpy(args, p->args, f->num_params * sizeof *args);
        args[f->num_params] = p->z;
        args[f->num_params + 1] = flxi_kb_cast(g->b, g->k->vars[g->k->fns[fn].params[f->num_params + 1]].type, t);
        uint32_t term = flxi_kernel_inline_call(g->b, g->k, fn, args, &g->b->err);
        sum = add_terms(g, sum, flxi_kb_cast(g->b, flxi_kernel_adjoint_type(p->e->type), term));
    }
    return sum;
}

static uint32_t tangent_of_operation(pusher *g, const site *p, uint32_t column)
{
    const flxi_kx *e = p->e;
    flxi_ksite s = {.b = g->b, .e = e, .type = flxi_kernel_adjoint_type(e->type)};
    s.ties_left = (g->d->options.flags & FLX_KERNEL_TIES_LEFT) != 0;
    for (int i = 0; i < flxi_kx_operands(e); i++) {
        bool is_float = flxi_ktype_is_float(flxi_kb_type(g->b, p->x[i]));
        s.x[i] = is_float && e->kind != KX_CAST ? bind(g, "wide", flxi_kb_cast(g->b, s.type, p->x[i])) : p->x[i];
    }
    s.z = bind(g, "wide", flxi_kb_cast(g->b, s.type, p->z));
    uint32_t sum = 0;
    for (int i = 0; i < flxi_kx_operands(e); i++) {
        uint32_t t = tangent_of(g, e->x[i], column);
        flxi_kpass pass = t ? flxi_kernel_pass(g->k, e, i) : KPASS_NONE;
        if (pass == KPASS_REFUSED)
            refuse(g, p->step, e);
        if (pass == KPASS_RULE)
            sum = add_terms(g, sum, flxi_kernel_partial(&s, i, bind(g, "t", flxi_kb_cast(g->b, s.type, t))));
    }
    return sum;
}

static uint32_t tangent_value(pusher *g, const site *p, uint32_t column)
{
    const flxi_kx *e = p->e;
    switch ((flxi_kx_kind)e->kind) {
    case KX_VAR: return tangent_of(g, p->step->s->a, column);
    case KX_LOAD:
        return g->buffers[e->ref] ? flxi_kb_load(g->b, g->buffers[e->ref], tangent_index(g, p->x[0], column)) : 0;
    case KX_SUBGROUP_ADD: {
        uint32_t t = tangent_of(g, e->x[0], column);
        return t ? flxi_kb_subgroup_add(g->b, t) : 0;
    }
    case KX_SUBGROUP_SHUFFLE: {
        uint32_t t = tangent_of(g, e->x[0], column);
        return t ? flxi_kb_subgroup_shuffle(g->b, t, p->x[1]) : 0;
    }
    case KX_CALL: return tangent_of_call(g, p, column);
    case KX_ATOMIC:
    case KX_OPAQUE: refuse(g, p->step, e); return 0;
    default: return tangent_of_operation(g, p, column);
    }
}

/* ---- Statements ---- */

static void push_list(pusher *g, flxi_ksteps steps);

static bool read_operands(pusher *g, const flxi_kx *e, site *p)
{
    for (int i = 0; i < flxi_kx_operands(e); i++)
        p->x[i] = leaf(g, e->x[i]);
    if (e->num_args == 0)
        return true;
    p->args = flxi_new(&g->d->arena, uint32_t, e->num_args);
    for (size_t i = 0; p->args && i < e->num_args; i++)
        p->args[i] = leaf(g, e->args[i]);
    return p->args || fail_memory(g);
}

static void push_let(pusher *g, const flxi_kstep *step)
{
    const flxi_ks *s = step->s;
    site p = {.step = step, .e = &g->k->exprs[s->a]};
    if (!read_operands(g, p.e, &p))
        return;
    bool is_leaf = flxi_kx_is_leaf(p.e);
    uint32_t value = is_leaf ? leaf(g, s->a) : flxi_kb_rebuild(g->b, p.e, p.x, p.args);
    const char *name = g->k->vars[s->var].name;
    g->vars[s->var] = flxi_kb_let(g->b, flxi_kb_fresh_name(g->b, name), value);
    p.z = flxi_kb_var(g->b, g->vars[s->var]);
    char tangent_name[120];
    snprintf(tangent_name, sizeof tangent_name, "tan_%.100s", name);
    for (uint32_t c = 0; c < g->columns && is_varied(g, s->var) && ok(g); c++) {
        uint32_t type = flxi_kernel_adjoint_type(g->k->vars[s->var].type);
        uint32_t t = tangent_value(g, &p, c);
        t = t ? flxi_kb_cast(g->b, type, t) : flxi_kb_literal(g->b, type, 0);
        g->tangents[s->var * g->columns + c] = flxi_kb_let(g->b, flxi_kb_fresh_name(g->b, tangent_name), t);
    }
}

static void push_assign(pusher *g, const flxi_ks *s)
{
    uint32_t type = flxi_kernel_adjoint_type(g->k->vars[s->var].type);
    for (uint32_t c = 0; c < g->columns && is_varied(g, s->var); c++)
        flxi_kb_assign(g->b, g->tangents[s->var * g->columns + c], tangent_or_zero(g, s->a, c, type));
    flxi_kb_assign(g->b, g->vars[s->var], leaf(g, s->a));
}

static void push_store(pusher *g, const flxi_ks *s)
{
    uint32_t index = leaf(g, s->a);
    uint32_t type = flxi_kernel_adjoint_type(g->k->buffers[s->buffer].element);
    bool holds_back = flxi_ktype_of(g->k->buffers[s->buffer].element)->storage;
    flxi_kb_store(g->b, s->buffer, index, leaf(g, s->b));
    for (uint32_t c = 0; c < g->columns && g->buffers[s->buffer]; c++) {
        uint32_t t = holds_back ? flxi_kb_literal(g->b, type, 0) : tangent_or_zero(g, s->b, c, type);
        flxi_kb_store(g->b, g->buffers[s->buffer], tangent_index(g, index, c), t);
    }
}

static void push_effect(pusher *g, const flxi_kstep *step)
{
    const flxi_kx *e = &g->k->exprs[step->s->a];
    site p = {.step = step, .e = e};
    if (!read_operands(g, e, &p))
        return;
    flxi_kb_effect(g->b, flxi_kb_rebuild(g->b, e, p.x, p.args));
    if (e->kind != KX_ATOMIC || !g->buffers[e->ref])
        return;
    if (e->op != FLX_KERNEL_ATOMIC_ADD && e->op != FLX_KERNEL_ATOMIC_SUB) {
        refuse(g, step, e);
        return;
    }
    for (uint32_t c = 0; c < g->columns; c++) {
        uint32_t t = tangent_of(g, e->x[1], c);
        if (t)
            flxi_kb_effect(g->b, flxi_kb_atomic(g->b, (flx_kernel_atomic)e->op, g->buffers[e->ref],
                                                tangent_index(g, p.x[0], c), t, 0, (flx_kernel_order)e->order));
    }
}

static void push_step(pusher *g, const flxi_kstep *step)
{
    const flxi_ks *s = step->s;
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET: push_let(g, step); break;
    case KS_ASSIGN: push_assign(g, s); break;
    case KS_STORE: push_store(g, s); break;
    case KS_EFFECT: push_effect(g, step); break;
    case KS_IF:
        flxi_kb_if(g->b, leaf(g, s->a));
        push_list(g, step->body);
        if (step->other.n) {
            flxi_kb_else(g->b);
            push_list(g, step->other);
        }
        flxi_kb_end(g->b);
        break;
    case KS_LOOP:
        g->vars[s->var] =
            flxi_kb_loop(g->b, flxi_kb_fresh_name(g->b, g->k->vars[s->var].name), leaf(g, s->a), leaf(g, s->b));
        push_list(g, step->body);
        flxi_kb_end(g->b);
        break;
    case KS_TRAP: {
        flxi_ks t = *s;
        t.a = leaf(g, s->a);
        flxi_kb_simple(g->b, &t);
        break;
    }
    case KS_BARRIER: flxi_kb_barrier(g->b, (flx_kernel_order)s->order); break;
    case KS_OPAQUE: flxi_kb_simple(g->b, s); break;
    default:
        if (ok(g))
            flxi_kernel_fail(&g->b->err, "unsupported statement", "rewrite the kernel without it",
                             "this kind of statement has no derivative");
    }
}

static void push_list(pusher *g, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n && ok(g); i++)
        push_step(g, &steps.at[i]);
}

/* ---- Buffers ---- */

static bool is_bound(const flxi_kbuffer *b)
{
    return b->access != FLX_KERNEL_WORKGROUP && b->access != FLX_KERNEL_PRIVATE;
}

static void declare_primal(pusher *g, uint32_t i)
{
    const flxi_kbuffer *b = &g->k->buffers[i];
    flxi_kbuffer copy = *b;
    copy.binding = i; /* any that no tangent gets: they are made dense at the end */
    flxi_kb_buffer(g->b, &copy);
    if (!is_bound(b))
        return;
    bool is_written = g->w->buffers[i].last_write != 0;
    flxi_kneed need = {.name = b->name,
                       .forward = i,
                       .role = is_written ? FLX_KERNEL_RESULT : FLX_KERNEL_PRIMAL,
                       .element = b->element,
                       .length = {.forward = i, .slots = 1}};
    if (!flxi_kernel_derived_add_need(g->d->result, &need))
        fail_memory(g);
}

static void declare_tangent(pusher *g, uint32_t i)
{
    flxi_kbuffer buffer = g->k->buffers[i];
    bool is_varied_buffer = (g->w->buffers[i].activity & KVARIED) != 0 && flxi_ktype_is_float(buffer.element);
    if (!is_varied_buffer && !g->d->outputs[i])
        return;
    char name[1100];
    snprintf(name, sizeof name, "tan_%.1024s", buffer.name);
    buffer.name = flxi_kb_fresh_name(g->b, name);
    buffer.element = (uint8_t)flxi_kernel_adjoint_type(buffer.element);
    buffer.count *= g->columns;
    buffer.binding = (uint32_t)g->b->buffers.n;
    buffer.usage = 0;
    buffer.num_predicates = 0;
    buffer.range_begin = buffer.range_end = 0;
    buffer.flags &= FLX_KERNEL_EXCLUSIVE | FLX_KERNEL_OUTPUT | FLX_KERNEL_LIVE_OUT;
    if (buffer.access == FLX_KERNEL_UNIFORM)
        buffer.access = FLX_KERNEL_READ;
    uint32_t number = flxi_kb_buffer(g->b, &buffer);
    if (is_varied_buffer)
        g->buffers[i] = number;
    if (!is_bound(&buffer))
        return;
    flxi_kneed need = {.name = buffer.name,
                       .forward = i,
                       .role = FLX_KERNEL_TANGENT,
                       .element = buffer.element,
                       .flags = g->d->inputs[i] ? 0 : FLX_KERNEL_NEED_ZERO,
                       .length = {.forward = i, .slots = g->columns}};
    if (!flxi_kernel_derived_add_need(g->d->result, &need))
        fail_memory(g);
}

/* ---- The whole ---- */

static flx_kernel *push_forward(pusher *g, flx_error *err)
{
    const flx_kernel *k = g->k;
    flxi_arena *arena = &g->d->arena;
    g->b = flxi_kb_like(k, err);
    if (!g->b)
        return NULL;
    g->vars = flxi_new(arena, uint32_t, k->num_vars + 1);
    g->tangents = flxi_new(arena, uint32_t, ((size_t)k->num_vars + 1) * g->columns);
    g->buffers = flxi_new(arena, uint32_t, k->num_buffers + 1);
    if (!g->vars || !g->tangents || !g->buffers)
        fail_memory(g);
    for (uint32_t i = 1; i <= k->num_buffers && ok(g); i++)
        declare_primal(g, i);
    for (uint32_t i = 1; i <= k->num_buffers && ok(g); i++)
        declare_tangent(g, i);
    flxi_kb_copy_opaques(g->b, k);
    if (ok(g))
        flxi_kernel_copy_functions(g->b, k);
    if (ok(g))
        push_list(g, g->w->top);
    return flxi_kb_finish(g->b, err);
}

static flx_code differentiate(flxi_kderive *d, const flx_kernel *k, flx_error *err)
{
    flxi_kflow w;
    FLXI_TRY(flxi_kderive_check_types(d, k, err));
    FLXI_TRY(flxi_kernel_flow(&w, &d->arena, k, d->inputs, d->outputs, err));
    w.source = d->source;
    FLXI_TRY(flxi_kernel_check_bits(&w, err));
    FLXI_TRY(flxi_kderive_warn(d, &w, err));
    pusher g = {.d = d, .k = k, .w = &w, .columns = d->options.columns ? d->options.columns : 1};
    flx_kernel *raw = push_forward(&g, err);
    flxi_ksimplify_options o = {.flags = FLXI_KERNEL_ZERO_SUMS};
    flx_kernel *lean = raw ? flxi_kernel_simplify(raw, &o, err) : NULL;
    flx_kernel_release(raw);
    if (!lean)
        return (flx_code)err->code;
    return flxi_kderive_finish(d, lean, err);
}

flx_kernel_derived *flx_kernel_jvp(const flx_kernel *k, const char *const *outputs, size_t num_outputs,
                                   const char *const *inputs, size_t num_inputs, const flx_kernel_grad_options *options,
                                   flx_error *err)
{
    flx_error local = {0};
    flxi_kderive d = {0};
    flx_kernel *normalised = NULL;
    const flxi_kderive_request q = {k, outputs, inputs, num_outputs, num_inputs, options};
    flx_code code = flxi_kderive_start(&d, "flx_kernel_jvp", &q, &local);
    if (code == FLX_OK && !(normalised = flxi_kernel_normalise(d.k, &local)))
        code = (flx_code)local.code;
    if (code == FLX_OK)
        code = differentiate(&d, normalised, &local);
    flx_kernel_release(normalised);
    if (err)
        *err = local;
    return flxi_kderive_end(&d, code);
}
