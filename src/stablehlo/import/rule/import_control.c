/* SPDX-License-Identifier: Apache-2.0 */
/* import_control.c: branches, and operations that run beside others. Bodies of our branches see their operands only, so
   what regions use from outside becomes operands. */
#include "stablehlo/import/import_site.h"

#include "graph/op/eval.h"

static bool gives(hlo_site *s, size_t got)
{
    if (got == s->ny)
        return true;
    flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its region returns %zu values, but it has %zu results", got, s->ny);
    return false;
}

/* ---- Branches ---- */

static void inline_branch(hlo_site *s, const hlo_region *r)
{
    size_t n = flxi_hlo_inline_region(s, r, NULL, 0, s->y, s->ny);
    if (!flxi_hlo_failed(s))
        gives(s, n);
}

/* The branch that a known operand 0 takes, NULL where only a run knows. */
static const hlo_region *known_branch(hlo_site *s, bool is_index)
{
    flx_tensor *t = flxi_hlo_known(s, s->x[0]);
    if (!t || flx_tensor_count(t) != 1) {
        flx_tensor_release(t);
        return NULL;
    }
    int64_t i = flxi_load_int(flx_tensor_type(t)->dtype, flx_tensor_const_data(t), 0);
    size_t n = s->op->num_regions;
    flx_tensor_release(t);
    if (!is_index)
        return &s->op->regions[i == 0];
    return &s->op->regions[i >= 0 && (uint64_t)i < n ? (size_t)i : n - 1];
}

/* Branches that have effects and no results return a flag that is not used: a node has at least one result. The body is
   not part of a node yet. */
static bool add_flag(const flx_graph *body)
{
    flx_graph *g = (flx_graph *)(uintptr_t)body;
    return flx_output(g, flx_scalar(g, FLX_BOOL, 0), NULL) == FLX_OK;
}

static void branch(hlo_site *s, bool is_index)
{
    const hlo_op *op = s->op;
    hlo_captures captures;
    const hlo_region *taken = known_branch(s, is_index);
    flx_val unused;
    if (taken)
        inline_branch(s, taken);
    if (taken || flxi_hlo_failed(s))
        return;
    const flx_graph **bodies = flxi_hlo_new(s, const flx_graph *, op->num_regions);
    if (!bodies || !flxi_hlo_captures(s, op->regions, op->num_regions, &captures))
        return;
    for (size_t i = 0; i < op->num_regions; i++) {
        bodies[i] = flxi_hlo_body(s, &op->regions[i], NULL, &captures);
        if (!bodies[i] || !gives(s, bodies[i]->outputs.n) || (s->ny == 0 && !add_flag(bodies[i])))
            return;
    }
    flx_val *x = flxi_hlo_new(s, flx_val, 1 + captures.num_vals);
    if (!x)
        return;
    flx_val *y = s->ny ? s->y : &unused;
    size_t ny = s->ny ? s->ny : 1;
    x[0] = s->x[0];
    for (size_t i = 0; i < captures.num_vals; i++)
        x[1 + i] = captures.vals[i];
    if (is_index)
        flx_case(s->g, x, 1 + captures.num_vals, y, ny, (flx_graphs){bodies, op->num_regions});
    else
        flx_if(s->g, x, 1 + captures.num_vals, y, ny, bodies[0], bodies[1]);
}

void flxi_hlo_import_if(hlo_site *s)
{
    branch(s, false);
}

void flxi_hlo_import_case(hlo_site *s)
{
    if (s->op->num_regions == 0)
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has no branches");
    else
        branch(s, true);
}

/* ---- Other processes ---- */

/* What is started runs at once; the future is its results. */
void flxi_hlo_import_async_start(hlo_site *s)
{
    size_t n = flxi_hlo_inline_region(s, &s->op->regions[0], s->x, s->nx, s->y, s->ny);
    if (!flxi_hlo_failed(s))
        gives(s, n);
}

void flxi_hlo_import_no_other_process(hlo_site *s)
{
    flxi_hlo_unsupported(s, "there is no other process or host to talk to");
}
