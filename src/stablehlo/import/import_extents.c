/* SPDX-License-Identifier: Apache-2.0 */
/* import_extents.c: extents that are not numbers.

   An extent `?` of an argument of @main is a symbol. Programs compute shapes from such extents with ordinary operations
   on integers, so what a shape operand stands for is found by going back through the graph and calculating with
   dimensions in place of numbers. Where an operation needs two symbols to be equal, one of them becomes the other: the
   import starts again with that knowledge, and the run checks it, as the shapes given must fit the declared ones. */
#include "stablehlo/import/import_scope.h"

#include "graph/type/dim.h"
#include "graph/type/type.h"
#include "ops/opcode.h"

#include <stdio.h>

/* ---- Equal extents ---- */

typedef struct {
    const char *name;
    size_t n;
} symbol_count;

static void count_symbol(void *user, const char *name)
{
    symbol_count *c = user;
    c->name = name;
    c->n++;
}

/* The name of the symbol that d is, NULL when it is anything else. */
static const char *symbol_of(flx_context *ctx, flx_dim d)
{
    symbol_count c = {0};
    if (flxi_dim_is_number(d) || d == FLX_DIM_INVALID)
        return NULL;
    flxi_dim_symbols(ctx, d, count_symbol, &c);
    return c.n == 1 && flx_dim_symbol(ctx, c.name) == d ? c.name : NULL;
}

typedef struct {
    const char *wanted;
    bool found;
} symbol_search;

static void find_symbol(void *user, const char *name)
{
    symbol_search *s = user;
    s->found |= strcmp(s->wanted, name) == 0;
}

static bool has_symbol(flx_context *ctx, flx_dim d, const char *name)
{
    symbol_search s = {.wanted = name};
    if (!flxi_dim_is_number(d))
        flxi_dim_symbols(ctx, d, find_symbol, &s);
    return s.found;
}

/* Takes `a`, when it is a symbol, for b. */
static bool assume(hlo_site *s, flx_dim a, flx_dim b)
{
    hlo_import *im = s->im;
    const char *name = symbol_of(im->ctx, a);
    if (b == FLX_DIM_INVALID || !name || has_symbol(im->ctx, b, name))
        return false;
    if (flxi_push(im->arena.mem, &im->assumed, ((flx_dim_binding){name, b})))
        im->restarts = true;
    flxi_hlo_fail(s, im->restarts ? FLX_E_SHAPE : FLX_E_OOM, NULL, "extents must be equal");
    return true;
}

bool flxi_hlo_equal_extents(hlo_site *s, flx_dim a, flx_dim b)
{
    if (a == b)
        return true;
    if (flxi_dims_differ(s->im->ctx, a, b))
        return false;
    return !assume(s, b, a) && !assume(s, a, b);
}

flx_dim flxi_hlo_assumed_extent(hlo_import *im, flx_dim d)
{
    for (size_t i = 0; i < im->assumed.n && !flxi_dim_is_number(d); i++)
        d = flxi_dim_bind(im->ctx, d, &im->assumed.at[i], 1, NULL);
    return d;
}

/* ---- Extents in bodies ---- */

/* The extents that v holds, a scalar or a short list; NULL when it is anything else. */
static const hlo_extent *extents_in(hlo_site *s, flx_val v, size_t *n)
{
    enum { MAX_EXTENTS = 64 };
    const flx_type *t = flxi_hlo_typeof(s, v);
    if (t->rank > 1 || !flxi_is_int(t->dtype) || s->g->symbols.n == 0)
        return NULL;
    const hlo_extent *x = flxi_hlo_extent_values(s, v, n);
    bool ok = x && *n > 0 && *n <= MAX_EXTENTS;
    for (size_t i = 0; ok && i < *n; i++)
        ok = x[i].dim != FLX_DIM_INVALID && (flxi_dim_is_number(x[i].dim) || x[i].least >= 0);
    return ok ? x : NULL;
}

bool flxi_hlo_is_extent(hlo_site *s, flx_val v)
{
    size_t n;
    return extents_in(s, v, &n) != NULL;
}

/* A dimension as a scalar: the extent of a tensor that has it. */
static flx_val extent_value(flx_graph *g, flx_dim d, const flx_tensor *any, flx_dtype dtype)
{
    if (flxi_dim_is_number(d))
        return flx_scalar(g, dtype, (double)d);
    flx_type row = flx_type_make(FLX_BOOL, 1, &d);
    return flx_cast(g, flx_dim_size(g, flx_full(g, &row, any), 0), dtype);
}

flx_val flxi_hlo_copy_extent(hlo_site *s, flx_graph *body, flx_val v)
{
    size_t n = 0;
    const hlo_extent *x = extents_in(s, v, &n);
    flx_error err = {0};
    flx_type scalar = {.dtype = FLX_BOOL};
    flx_tensor *any = flx_tensor_new(s->im->ctx, &scalar, NULL, &err);
    flx_val *copies = flxi_hlo_new(s, flx_val, n);
    for (size_t i = 0; x && any && copies && i < n; i++)
        copies[i] = extent_value(body, x[i].dim, any, flxi_hlo_dtype(s, v));
    if (any)
        flx_graph_error(s->g, &err);
    flx_tensor_release(any);
    if (!x || !copies || !any) {
        flxi_graph_fail(body, &err);
        return FLX_NONE;
    }
    return flxi_hlo_typeof(s, v)->rank ? flx_stack(body, copies, n, 0) : copies[0];
}

/* ---- Assertions ---- */

/* The remainder is 0: the extent is a multiple. */
static void assume_multiple(hlo_site *s, const hlo_extent *x)
{
    const char *name = symbol_of(s->im->ctx, x->dividend);
    char part[80];
    if (!name)
        return;
    snprintf(part, sizeof part, "%.50s_by%lld", name, (long long)x->divisor);
    assume(s, x->dividend, flx_dim_mul(s->im->ctx, x->divisor, flx_dim_symbol(s->im->ctx, part)));
}

static void learn_equal(hlo_site *s, const hlo_extent *a, const hlo_extent *b)
{
    if (a->divisor > 0 && b->dim == 0)
        assume_multiple(s, a);
    else
        flxi_hlo_equal_extents(s, a->dim, b->dim);
}

/* a ≥ b, where the difference is a symbol and a number. */
static void learn_least(hlo_site *s, const hlo_extent *a, const hlo_extent *b)
{
    hlo_import *im = s->im;
    flx_dim rest = flx_dim_sub(im->ctx, a->dim, b->dim);
    int64_t extent;
    const char *name =
        rest == FLX_DIM_INVALID || flxi_dim_is_number(rest) ? NULL : flxi_dim_solve(im->ctx, rest, 0, &extent);
    if (!name || flx_dim_sub(im->ctx, flx_dim_symbol(im->ctx, name), extent) != rest)
        return;
    if (!flxi_push(im->arena.mem, &im->at_least, ((flx_dim_binding){name, extent})))
        flxi_hlo_fail(s, FLX_E_OOM, NULL, "no memory for a bound");
}

hlo_decision flxi_hlo_learn(hlo_site *s, flx_val holds)
{
    size_t n;
    const hlo_extent *truth = flxi_hlo_extent_values(s, holds, &n);
    if (truth && n == 1 && truth->dim != FLX_DIM_INVALID)
        return truth->dim ? HLO_TRUE : HLO_FALSE;
    const flxi_node *node = flxi_node_of(s->g, holds.id);
    if (node->op != OP_eq && node->op != OP_ge)
        return HLO_OPEN;
    const hlo_extent *x[2];
    for (uint32_t i = 0; i < 2; i++) {
        x[i] = flxi_hlo_extent_values(s, (flx_val){node->in[i], s->g->serial}, &n);
        if (!x[i] || n != 1 || x[i]->dim == FLX_DIM_INVALID)
            return HLO_OPEN;
    }
    if (node->op == OP_eq)
        learn_equal(s, x[0], x[1]);
    else
        learn_least(s, x[0], x[1]);
    return HLO_OPEN;
}
