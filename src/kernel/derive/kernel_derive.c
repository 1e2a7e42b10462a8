/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_derive.c: the common beginning and end of both modes of differentiation. */
#include "kernel/derive/kernel_derive.h"

#include "base/options.h"
#include "kernel/check/kernel_validate.h"
#include "kernel/derive/kernel_affine.h"
#include "kernel/optimise/kernel_optimise.h"
#include "kernel/program/kernel_origin.h"

#include <stdio.h>

/* ---- Beginning ---- */

static flx_code find_buffers(const flx_kernel *k, const char *const *names, size_t n, uint8_t *flags, const char *what,
                             flx_error *err)
{
    if (n == 0)
        return flxi_fail(err, FLX_E_USAGE, "a derivative needs at least one %s", what);
    for (size_t i = 0; i < n; i++) {
        if (!names || !names[i])
            return flxi_fail(err, FLX_E_USAGE, "the derivative of '%.80s': the name of an %s is NULL", k->name, what);
        uint32_t b = flxi_kernel_find_buffer(k, names[i]);
        if (!b)
            return flxi_kernel_fail(err, "buffer not found", "flx kernel check lists a kernel's buffers",
                                    "'%.80s', requested as an %s of '%.80s'", names[i], what, k->name);
        if (flags[b])
            return flxi_fail(err, FLX_E_DUP_NAME, "the derivative of '%.80s': the %s '%.80s' is named twice", k->name,
                             what, names[i]);
        if (k->buffers[b].access == FLX_KERNEL_WORKGROUP || k->buffers[b].access == FLX_KERNEL_PRIVATE)
            return flxi_kernel_fail(err, "buffer not found", "name a bound buffer",
                                    "'%.80s' exists only while the kernel runs and cannot be an %s", names[i], what);
        flags[b] = 1;
    }
    return FLX_OK;
}

static flx_code read_options(const char *function, const flx_kernel_grad_options *given, flx_kernel_grad_options *o,
                             flx_error *err)
{
    const uint32_t known = FLX_KERNEL_SEED_ONES | FLX_KERNEL_OVERWRITE | FLX_KERNEL_WITH_FORWARD | FLX_KERNEL_SAVED |
                           FLX_KERNEL_STRICT | FLX_KERNEL_DETERMINISTIC | FLX_KERNEL_PRIMAL_TYPES |
                           FLX_KERNEL_TIES_LEFT;
    FLXI_TRY(FLXI_READ_OPTIONS(flx_kernel_grad_options, o, given, err));
    if (o->flags & ~known)
        return flxi_fail(err, FLX_E_USAGE, "%s: unknown flags 0x%x", function, (unsigned)(o->flags & ~known));
    return FLX_OK;
}

flx_code flxi_kderive_start(flxi_kderive *d, const char *function, const flxi_kderive_request *q, flx_error *err)
{
    const flx_kernel *k = q->k;
    if (!k)
        return flxi_fail(err, FLX_E_USAGE, "%s: the kernel is NULL", function);
    FLXI_TRY(read_options(function, q->options, &d->options, err));
    FLXI_TRY(flxi_kernel_check(k, err));
    flxi_arena_init(&d->arena, flxi_kernel_mem(k));
    d->has_arena = true;
    flxi_ksimplify_options simplify = {0};
    flx_kernel *numbered = flxi_kernel_numbered(k, err);
    d->source = k;
    d->k = numbered ? flxi_kernel_simplify(numbered, &simplify, err) : NULL;
    flx_kernel_release(numbered);
    if (!d->k)
        return (flx_code)err->code;
    k = d->k;
    d->inputs = flxi_new(&d->arena, uint8_t, k->num_buffers + 1);
    d->outputs = flxi_new(&d->arena, uint8_t, k->num_buffers + 1);
    if (!d->inputs || !d->outputs)
        return flxi_oom(err, "the derivative of a kernel");
    FLXI_TRY(find_buffers(k, q->outputs, q->num_outputs, d->outputs, "output", err));
    FLXI_TRY(find_buffers(k, q->inputs, q->num_inputs, d->inputs, "input", err));
    d->result = flxi_kernel_derived_new(k, err);
    return d->result ? FLX_OK : FLX_E_OOM;
}

/* ---- Types ---- */

/* The first operation on a value from the buffer, in text order. */
static const flxi_kx *first_operation(const flx_kernel *k, flxi_klist list, uint32_t buffer, uint8_t *tainted)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        const flxi_kx *e = &k->exprs[s->a];
        bool comes = e->kind == KX_LOAD && e->ref == buffer;
        for (int j = 0; j < flxi_kx_operands(e); j++) {
            const flxi_kx *x = &k->exprs[e->x[j]];
            if (e->kind != KX_LOAD && x->kind == KX_VAR && tainted[x->ref])
                return e;
        }
        comes |= e->kind == KX_VAR && tainted[e->ref];
        if (comes && (s->kind == KS_LET || s->kind == KS_ASSIGN))
            tainted[s->var] = 1;
        const flxi_kx *found = first_operation(k, s->body, buffer, tainted);
        if (!found)
            found = first_operation(k, s->other, buffer, tainted);
        if (found)
            return found;
    }
    return NULL;
}

flx_code flxi_kderive_check_types(const flxi_kderive *d, const flx_kernel *normalised, flx_error *err)
{
    const flx_kernel *k = d->k;
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        if ((!d->inputs[i] && !d->outputs[i]) || flxi_ktype_is_float(k->buffers[i].element))
            continue;
        flxi_arena scratch;
        flxi_arena_init(&scratch, flxi_kernel_mem(k));
        uint8_t *tainted = flxi_new(&scratch, uint8_t, normalised->num_vars + 1);
        const flxi_kx *e = tainted ? first_operation(normalised, normalised->body, i, tainted) : NULL;
        flxi_arena_free(&scratch);
        return flxi_kernel_fail(err, "not differentiable", "differentiate only with respect to buffers of floats",
                                "%s: buffer '%.80s' holds %s, which has no derivative", e ? flxi_kx_name(e) : "buffer",
                                k->buffers[i].name, flxi_ktype_of(k->buffers[i].element)->name);
    }
    return FLX_OK;
}

/* ---- Warnings ---- */

static flx_code warn_about(flxi_kderive *d, const flxi_kflow *w, const flxi_kstep *step, const flxi_kx *e,
                           flx_error *err)
{
    char path[120], text[240];
    flxi_kflow_path(w, step, path, sizeof path);
    if (d->options.flags & FLX_KERNEL_STRICT) {
        flxi_kernel_fail(err, "not differentiable", "wrap its operand in stop_gradient if this is intended",
                         "%s is piecewise constant: its derivative is zero", flxi_kx_name(e));
        return flxi_at(err, "%s", path);
    }
    snprintf(text, sizeof text, "%s: %s is piecewise constant, its derivative is zero", path, flxi_kx_name(e));
    return flxi_kernel_derived_warn(d->result, text) ? FLX_OK : flxi_oom(err, "the derivative of a kernel");
}

static flx_code warn_steps(flxi_kderive *d, const flxi_kflow *w, flxi_ksteps steps, flx_error *err)
{
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_kstep *step = &steps.at[i];
        const flxi_kx *e = &w->k->exprs[step->s->a];
        bool matters =
            step->s->kind == KS_LET && ((w->vars[step->s->var].activity & KUSEFUL) || !flxi_ktype_is_float(e->type));
        for (int j = 0; matters && j < flxi_kx_operands(e); j++) {
            const flxi_kx *x = &w->k->exprs[e->x[j]];
            if (x->kind == KX_VAR && (w->vars[x->ref].activity & KVARIED) && flxi_kernel_pass(w->k, e, j) == KPASS_ZERO)
                FLXI_TRY(warn_about(d, w, step, e, err));
        }
        FLXI_TRY(warn_steps(d, w, step->body, err));
        FLXI_TRY(warn_steps(d, w, step->other, err));
    }
    return FLX_OK;
}

flx_code flxi_kderive_warn(flxi_kderive *d, const flxi_kflow *w, flx_error *err)
{
    return warn_steps(d, w, w->top, err);
}

static bool is_certain(const flxi_kstep *step)
{
    for (; step; step = step->parent)
        if (step->s->kind == KS_IF || step->s->kind == KS_LOOP)
            return false;
    return true;
}

flx_code flxi_kderive_check_races(const flxi_kflow *w, flx_error *err)
{
    for (size_t i = 0; i < w->top.n; i++) {
        const flxi_kstep *step = &w->top.at[i];
        const flxi_ks *s = step->s;
        char path[120];
        if (s->kind != KS_STORE || w->k->buffers[s->buffer].access == FLX_KERNEL_PRIVATE || !is_certain(step) ||
            flxi_kernel_workgroup(w->k) == 1 || !flxi_kernel_is_group_leaf(w, s->a))
            continue;
        flxi_kernel_fail(
            err, "racy",
            "guard the store, as in if (local_id(0) == 0), or use an index that differs between invocations",
            "all invocations of a workgroup store to the same element of '%.80s'", w->k->buffers[s->buffer].name);
        return flxi_at(err, "%s", flxi_kflow_path(w, step, path, sizeof path));
    }
    return FLX_OK;
}

/* ---- Ending ---- */

/* The fresh kernel is not shared yet, so its table may be modified in place. */
static void bind_densely(flx_kernel *k)
{
    uint32_t next = 0;
    flxi_kbuffer *buffers = (flxi_kbuffer *)(uintptr_t)k->buffers;
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        if (buffers[i].access != FLX_KERNEL_WORKGROUP && buffers[i].access != FLX_KERNEL_PRIVATE)
            buffers[i].binding = next++;
}

/* Needs of buffers that simplification dropped are dropped too. */
static void drop_needs(flx_kernel_derived *d, const flx_kernel *k)
{
    size_t n = 0;
    for (size_t i = 0; i < d->needs.n; i++)
        if (flxi_kernel_find_buffer(k, d->needs.at[i].name))
            d->needs.at[n++] = d->needs.at[i];
    d->needs.n = n;
}

flx_code flxi_kderive_finish(flxi_kderive *d, flx_kernel *k, flx_error *err)
{
    bind_densely(k);
    drop_needs(d->result, k);
    for (uint32_t a = 0; a < 3; a++)
        d->result->lone_axes[a] = !flxi_kernel_mentions_axis(d->k, a);
    flx_code code = flxi_kernel_check(k, err);
    if (code != FLX_OK)
        flx_kernel_release(k);
    else if (!flxi_kernel_derived_add_kernel(d->result, k))
        code = flxi_oom(err, "the derivative of a kernel");
    return code;
}

flx_kernel_derived *flxi_kderive_end(flxi_kderive *d, flx_code code)
{
    flx_kernel_release(d->k);
    if (d->has_arena)
        flxi_arena_free(&d->arena);
    if (code == FLX_OK)
        return d->result;
    flx_kernel_derived_free(d->result);
    return NULL;
}
