/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_checkpoint.c: nests loops, so that reverse mode keeps one state per piece instead of one per iteration. */
#include "kernel/derive/reverse/kernel_checkpoint.h"

#include "kernel/program/kernel_rewrite.h"

static uint32_t let(flxi_krewrite *r, const char *name, uint32_t value)
{
    return flxi_kb_var(r->to, flxi_kb_let(r->to, flxi_krewrite_fresh_name(r, name), value));
}

/* The smallest p with p * p >= n. */
static uint32_t root_above(uint64_t n)
{
    uint64_t p = 1;
    while (p * p < n)
        p++;
    return (uint32_t)p;
}

/* Iterations of a piece: a number if the trip count is one, else computed. Any piece is correct; about the square root
   is best. */
static uint32_t piece_of(flxi_krewrite *r, uint32_t trips)
{
    flxi_kb *b = r->to;
    const flxi_kx *n = flxi_kb_expr(b, trips);
    if (n->kind == KX_LITERAL)
        return flxi_kb_u32(b, root_above(n->bits));
    uint32_t wide = let(r, "wide", flxi_kb_cast(b, FLX_F64, trips));
    uint32_t root = let(r, "root", flxi_kb_unary(b, KUN_sqrt, wide));
    uint32_t whole = let(r, "root", flxi_kb_cast(b, FLX_U32, root));
    return let(r, "piece", flxi_kb_binary(b, KBIN_add, whole, flxi_kb_u32(b, 1)));
}

static uint32_t trips_of(flxi_krewrite *r, uint32_t from, uint32_t to)
{
    flxi_kb *b = r->to;
    const flxi_kx *f = flxi_kb_expr(b, from), *t = flxi_kb_expr(b, to);
    if (f->kind == KX_LITERAL && t->kind == KX_LITERAL)
        return flxi_kb_u32(b, t->bits > f->bits ? (uint32_t)(t->bits - f->bits) : 0);
    uint32_t more = let(r, "more", flxi_kb_binary(b, KBIN_gt, to, from));
    uint32_t difference = let(r, "span", flxi_kb_binary(b, KBIN_sub, to, from));
    return let(r, "trips", flxi_kb_select(b, more, difference, flxi_kb_u32(b, 0)));
}

static bool cut_loop(flxi_krewrite *r, const flxi_ks *s)
{
    const uint8_t *is_cut = r->user;
    if (s->kind != KS_LOOP || !is_cut[s->var])
        return false;
    flxi_kb *b = r->to;
    uint32_t from = flxi_krewrite_expr(r, s->a), to = flxi_krewrite_expr(r, s->b);
    uint32_t trips = trips_of(r, from, to), piece = piece_of(r, trips), one = flxi_kb_u32(b, 1);
    uint32_t short_of = let(r, "most", flxi_kb_binary(b, KBIN_sub, piece, one));
    uint32_t rounded = let(r, "most", flxi_kb_binary(b, KBIN_add, trips, short_of));
    uint32_t pieces = let(r, "pieces", flxi_kb_binary(b, KBIN_div, rounded, piece));
    const flxi_kx *n = flxi_kb_expr(b, trips);
    if (n->kind == KX_LITERAL) {
        uint64_t p = flxi_kb_expr(b, piece)->bits;
        pieces = flxi_kb_u32(b, (uint32_t)((n->bits + p - 1) / p));
    }
    uint32_t which = flxi_kb_loop(b, flxi_krewrite_fresh_name(r, "part"), flxi_kb_u32(b, 0), pieces);
    uint32_t done = let(r, "done", flxi_kb_binary(b, KBIN_mul, flxi_kb_var(b, which), piece));
    uint32_t low = let(r, "low", flxi_kb_binary(b, KBIN_add, from, done));
    uint32_t left = let(r, "left", flxi_kb_binary(b, KBIN_sub, to, low));
    uint32_t own = let(r, "own", flxi_kb_binary(b, KBIN_min, piece, left));
    uint32_t high = let(r, "high", flxi_kb_binary(b, KBIN_add, low, own));
    const char *name = flxi_kb_text(b, r->from->vars[s->var].name, strlen(r->from->vars[s->var].name));
    r->vars[s->var] = flxi_kb_loop(b, name ? name : "", low, high);
    flxi_krewrite_list(r, s->body);
    flxi_kb_end(b);
    flxi_kb_end(b);
    return true;
}

flx_kernel *flxi_kernel_cut_loops(const flx_kernel *k, const uint8_t *is_cut, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.stmt = cut_loop};
    flxi_krewrite r = {.from = k, .hooks = &hooks, .user = (void *)(uintptr_t)is_cut};
    return flxi_krewrite_run(&r, err);
}
