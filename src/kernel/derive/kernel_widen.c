/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_widen.c: replaces narrow floats by f64. */
#include "kernel/derive/kernel_widen.h"

#include "base/half.h"
#include "kernel/check/kernel_validate.h"
#include "kernel/program/kernel_rewrite.h"

static uint8_t wide(uint8_t type)
{
    return type == FLX_F32 || type == FLX_F16 || type == FLX_BF16 ? FLX_F64 : type;
}

static double value_of(const flxi_kx *e)
{
    union {
        uint32_t bits;
        float f;
    } pun = {.bits = (uint32_t)e->bits};
    if (e->type == FLX_F16)
        return flxi_from_f16((uint16_t)e->bits);
    return e->type == FLX_BF16 ? flxi_from_bf16((uint16_t)e->bits) : (double)pun.f;
}

static uint32_t widen_expr(flxi_krewrite *r, uint32_t expr)
{
    const flxi_kx *e = &r->from->exprs[expr];
    if (wide(e->type) == e->type)
        return 0;
    if (e->kind == KX_LITERAL)
        return flxi_kb_number(r->to, FLX_F64, value_of(e));
    if (e->kind == KX_CAST)
        return flxi_kb_cast(r->to, FLX_F64, flxi_krewrite_expr(r, e->x[0]));
    return 0;
}

/* A view of k whose tables use f64; it lives as long as the arena and is never freed. */
static bool view_wide(const flx_kernel *k, flxi_arena *arena, flx_kernel *view)
{
    flxi_kbuffer *buffers = flxi_dup(arena, flxi_kbuffer, k->buffers, k->num_buffers + 1);
    flxi_kvar *vars = flxi_dup(arena, flxi_kvar, k->vars, k->num_vars + 1);
    flxi_kfn *fns = flxi_dup(arena, flxi_kfn, k->fns, k->num_fns + 1);
    if (!buffers || !vars || !fns)
        return false;
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        buffers[i].element = wide(buffers[i].element);
    for (uint32_t i = 1; i <= k->num_vars; i++)
        vars[i].type = wide(vars[i].type);
    for (uint32_t i = 1; i <= k->num_fns; i++)
        fns[i].type = wide(fns[i].type);
    memcpy(view, k, sizeof *view);
    view->buffers = buffers;
    view->vars = vars;
    view->fns = fns;
    return true;
}

flx_kernel *flxi_kernel_widen(const flx_kernel *k, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.expr = widen_expr};
    flxi_arena arena;
    flx_kernel view;
    flx_kernel *made = NULL;
    flxi_arena_init(&arena, flxi_kernel_mem(k));
    if (view_wide(k, &arena, &view)) {
        flxi_krewrite r = {.from = &view, .hooks = &hooks};
        made = flxi_krewrite_run(&r, err);
    } else {
        flxi_oom(err, "widening");
    }
    flxi_arena_free(&arena);
    if (made && flxi_kernel_check(made, err) != FLX_OK) {
        flx_kernel_release(made);
        return NULL;
    }
    return made;
}
