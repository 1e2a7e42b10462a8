/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_wrap.c: traps for dispatches in which an index would wrap around. Proofs that invocations access different
   elements hold for unbounded numbers; where ranges do not prove that an index stays below 2^32, the derivative checks
   it at run time. */
#include "kernel/derive/kernel_wrap.h"

#include "kernel/derive/kernel_normalise.h"
#include "kernel/program/kernel_rewrite.h"

#define LIMIT (UINT64_C(1) << 32)

void flxi_kwraps_add(flxi_kwraps *x, const flxi_allocator *mem, const flxi_kwrap *wrap)
{
    for (size_t i = 0; i < x->list.n; i++) {
        const flxi_kwrap *y = &x->list.at[i];
        if (y->known == wrap->known && y->factor == wrap->factor && y->symbol == wrap->symbol &&
            y->extent == wrap->extent && y->axis == wrap->axis)
            return;
    }
    if (!flxi_push(mem, &x->list, *wrap))
        x->failed = true;
}

typedef struct {
    const flxi_kflow *w;
    const flxi_kwraps *wraps;
    uint32_t *made; /* by variable: its value before the program */
} guard;

static uint32_t bind(flxi_krewrite *r, uint32_t e)
{
    if (!e || flxi_kx_is_leaf(flxi_kb_expr(r->to, e)))
        return e;
    return flxi_kb_var(r->to, flxi_kb_let(r->to, flxi_krewrite_fresh_name(r, "t"), e));
}

/* A value that all invocations agree on, computed again at a position where no variable is declared yet. */
static uint32_t again(flxi_krewrite *r, uint32_t expr)
{
    guard *g = r->user;
    const flxi_kx *e = &r->from->exprs[expr];
    uint32_t x[3] = {0};
    if (e->kind == KX_VAR && g->made[e->ref])
        return g->made[e->ref];
    if (e->kind == KX_VAR)
        return g->made[e->ref] = again(r, g->w->vars[e->ref].value);
    for (int i = 0; i < flxi_kx_operands(e); i++)
        x[i] = again(r, e->x[i]);
    return bind(r, flxi_krewrite_rebuild(r, e, x, NULL));
}

static uint32_t extent_of(flxi_krewrite *r, const flxi_kwrap *c)
{
    return c->extent ? again(r, c->extent) : flxi_kb_id(r->to, FLX_KERNEL_NUM_WORKGROUPS, c->axis);
}

static uint32_t wide(flxi_krewrite *r, uint32_t e)
{
    return bind(r, flxi_kb_cast(r->to, FLX_U64, e));
}

/* Whether the condition is violated. Products of three numbers need more than 64 bits, so they saturate. */
static uint32_t is_broken(flxi_krewrite *r, const flxi_kwrap *c)
{
    flxi_kb *b = r->to;
    uint64_t room = c->known < LIMIT ? (LIMIT - c->known) / c->factor : 0;
    if (!c->symbol) {
        uint32_t most = flxi_kb_u32(b, room > UINT32_MAX ? UINT32_MAX : (uint32_t)room);
        return bind(r, flxi_kb_binary(b, KBIN_gt, extent_of(r, c), most));
    }
    uint32_t symbol = wide(r, again(r, c->symbol)), extent = wide(r, extent_of(r, c));
    uint32_t product = flxi_kb_binary(b, KBIN_saturating_mul, symbol, extent);
    return bind(r, flxi_kb_binary(b, KBIN_gt, bind(r, product), flxi_kb_literal(b, FLX_U64, room)));
}

static void guard_body(flxi_krewrite *r, flxi_klist list)
{
    const guard *g = r->user;
    if (list.at != r->from->body.at)
        return;
    for (size_t i = 0; i < g->wraps->list.n && flxi_kb_ok(r->to); i++) {
        flxi_ks trap = {.kind = KS_TRAP, .a = flxi_kb_u32(r->to, (uint32_t)i), .text = "index_wraps"};
        flxi_kb_if(r->to, is_broken(r, &g->wraps->list.at[i]));
        flxi_kb_simple(r->to, &trap);
        flxi_kb_end(r->to);
    }
}

flx_kernel *flxi_kernel_guard_wraps(const flxi_kflow *w, const flxi_kwraps *wraps, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.open = guard_body};
    guard g = {.w = w, .wraps = wraps};
    g.made = flxi_new(w->arena, uint32_t, w->k->num_vars + 1u);
    if (!g.made) {
        flxi_oom(err, "the derivative of a kernel");
        return NULL;
    }
    flxi_krewrite r = {.from = w->k, .hooks = &hooks, .user = &g};
    return flxi_krewrite_run(&r, err);
}
