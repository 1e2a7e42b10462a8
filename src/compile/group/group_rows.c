/* SPDX-License-Identifier: Apache-2.0 */
/* group_rows.c: kernels of groups with folds: the loops over a row, phase by phase, for lanes that take the elements of
   a row in turn, for neighbouring rows in neighbouring invocations, and for invocations that walk along rows of their
   own. */
#include "compile/group/group_writer.h"
#include "passes/pass.h"

/* What one element of the row is for: folds of this phase, and what is stored in it. */
static void visit_element(flxi_gwriter *w, int phase)
{
    size_t outside = w->known.n;
    flxi_gw_load_kept(w, phase);
    flxi_gw_step_folds(w);
    flxi_gw_store_kept(w, phase);
    flxi_gw_store_all(w, LEVEL_ELEMENT, phase);
    flxi_gw_fold_columns(w, phase);
    w->known.n = outside;
}

/* Values of the row that are known by now, so that the next loop need not compute them for each element. */
static void compute_rows(flxi_gwriter *w, int phase)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        uint32_t i = w->group->nodes[j];
        const flxi_node *n = flxi_node_at(w->g, i);
        for (uint32_t r = 0;
             !flxi_gw_is_fold(w, j) && w->f->level[i] == LEVEL_ROW && w->phase[j] == phase && r < n->nout; r++)
            flxi_gw_value_here(w, n->first + r, LEVEL_ROW);
    }
}

static bool has_element_stores(const flxi_gwriter *w, int phase)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        if (flxi_gw_is_column_fold(w, j) && w->phase[j] == phase)
            return true;
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        for (uint32_t r = 0; w->f->level[w->group->nodes[j]] == LEVEL_ELEMENT && w->phase[j] == phase && r < n->nout;
             r++)
            if (w->f->is_stored[n->first + r])
                return true;
    }
    return false;
}

/* The axes of the anchor: those of outer, of the extent, of inner. */
void flxi_gw_set_element(flxi_gwriter *w, const flxi_row_frame *r, uint32_t k)
{
    flxi_express e = flxi_gw_emitter(w);
    const flxi_space *s = &w->group->space;
    w->element = w->row;
    flxi_gw_unfold(w, &w->anchor, r->from, r->to, k, &w->element);
    uint32_t line = flxi_ku_add(&e, flxi_ku_mul(&e, r->outer, s->extent), k);
    w->element.flat = flxi_ku_add(&e, flxi_ku_mul(&e, line, s->inner), r->inner);
    w->column = k;
}

/* The column of the lane in block b of the row. */
static uint32_t column_of(flxi_gwriter *w, const flxi_row_frame *r, uint32_t b)
{
    flxi_express e = flxi_gw_emitter(w);
    return w->lanes ? flxi_ku_add(&e, flxi_ku_mul(&e, b, w->lanes), r->lane) : b;
}

static uint32_t open_loop(flxi_gwriter *w, int64_t count)
{
    return flxi_kb_var(w->k,
                       flxi_kb_loop(w->k, flxi_kb_fresh_name(w->k, "k"), flxi_gw_u32(w, 0), flxi_gw_u32(w, count)));
}

/* As many blocks as can be folded together are; returns how many. Not those of columns, whose neighbours are computed
   side by side and wait for none: four lines of memory far apart took five times as long as one after the other. */
static int64_t loop_over_free_blocks(flxi_gwriter *w, const flxi_row_frame *r, int phase, int64_t full)
{
    flxi_express e = flxi_gw_emitter(w);
    uint32_t columns[FLXI_FREE_STEPS];
    bool are_columns = !w->lanes && w->group->space.inner > 1;
    if (are_columns || flxi_free_divisor(w->f->free_extents, w->group->space.extent) || full < 2 * FLXI_FREE_STEPS ||
        w->num_kept || has_element_stores(w, phase) || !flxi_gw_steps_are_free(w))
        return 0;
    uint32_t b = flxi_ku_mul(&e, open_loop(w, full / FLXI_FREE_STEPS), FLXI_FREE_STEPS);
    for (uint32_t t = 0; t < FLXI_FREE_STEPS; t++)
        columns[t] = column_of(w, r, flxi_ku_add(&e, b, flxi_gw_u32(w, t)));
    flxi_gw_step_folds_together(w, r, columns);
    flxi_kb_end(w->k);
    return full / FLXI_FREE_STEPS * FLXI_FREE_STEPS;
}

/* Whether elements remain after the last whole block of a row; where its extent is free, for some extents. */
static bool has_rest(const flxi_gwriter *w, int64_t extent, int64_t width)
{
    int64_t free = flxi_free_divisor(w->f->free_extents, extent);
    return (free ? extent / free : extent) % width != 0;
}

static void loop_over_row(flxi_gwriter *w, const flxi_row_frame *r, int phase)
{
    flxi_express e = flxi_gw_emitter(w);
    int64_t extent = w->group->space.extent, width = w->lanes ? w->lanes : 1, full = extent / width;
    int64_t done = loop_over_free_blocks(w, r, phase, full);
    if (full > done) {
        uint32_t b = open_loop(w, full - done);
        b = done ? flxi_ku_add(&e, b, flxi_gw_u32(w, done)) : b;
        flxi_gw_set_element(w, r, column_of(w, r, b));
        visit_element(w, phase);
        flxi_gw_gather_parts(w, b);
        flxi_kb_end(w->k);
    }
    if (has_rest(w, extent, width)) {
        flxi_gw_open_guarded(w, r->lane, extent % width);
        flxi_gw_set_element(w, r, flxi_ku_add(&e, r->lane, flxi_gw_u32(w, full * width)));
        visit_element(w, phase);
        flxi_kb_end(w->k);
    }
}

static void write_phases(flxi_gwriter *w, const flxi_row_frame *r)
{
    int last = flxi_gw_find_phases(w);
    flxi_gw_choose_vectors(w);
    flxi_gw_find_kept(w, last);
    flxi_gw_load_row(w, r);
    for (int phase = 0; phase <= last; phase++) {
        flxi_gw_renew_folds(w, phase);
        compute_rows(w, phase);
        flxi_gw_start_folds(w, phase);
        bool has_loop = w->folds.n > 0 || has_element_stores(w, phase);
        if (has_loop && w->vector)
            flxi_gw_walk_vectors(w, r, phase);
        else if (has_loop)
            loop_over_row(w, r, phase);
        flxi_gw_end_folds(w, r->lane);
    }
    flxi_gw_free_row(w);
    if (w->lanes)
        flxi_gw_open_guarded(w, r->lane, 1);
    flxi_gw_store_all(w, LEVEL_ROW, -1);
    if (w->lanes)
        flxi_kb_end(w->k);
}

/* The group's first fold; without one along the rows, the first by columns. */
static uint32_t first_fold(const flxi_gwriter *w)
{
    uint32_t found = 0;
    for (uint32_t j = w->group->num_nodes; j-- > 0;)
        if (flxi_gw_is_fold(w, j) || (flxi_gw_is_column_fold(w, j) && !flxi_gw_is_fold(w, found)))
            found = j;
    return found;
}

/* The input of the first fold gives the shape: it knows where the folded axes are. Those after the ones of a fold by
   columns are the row's. */
static flxi_row_frame find_frame(flxi_gwriter *w)
{
    flxi_row_frame r = {0};
    uint32_t j = first_fold(w);
    const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
    const flx_ints axes = flxi_ops[n->op].rules->fold->axes(n->attrs);
    w->anchor = w->row_anchor = *flxi_type_at(w->g, n->in[0]);
    r.from = axes.n ? (int)axes.v[0] : w->anchor.rank;
    r.to = r.from + (int)axes.n;
    if (flxi_gw_is_column_fold(w, j)) {
        r.from = r.to;
        r.to = w->anchor.rank;
    }
    for (int k = r.from; k < r.to; k++)
        w->row_anchor.dims[k] = 1;
    return r;
}

static void set_row(flxi_gwriter *w, const flxi_row_frame *r)
{
    flxi_express e = flxi_gw_emitter(w);
    flxi_gw_unfold(w, &w->row_anchor, 0, r->from, r->outer, &w->row);
    flxi_gw_unfold(w, &w->row_anchor, r->from, r->to, flxi_gw_u32(w, 0), &w->row);
    flxi_gw_unfold(w, &w->row_anchor, r->to, w->row_anchor.rank, r->inner, &w->row);
    w->row.flat = flxi_ku_add(&e, flxi_ku_mul(&e, r->outer, w->group->space.inner), r->inner);
}

void flxi_gw_write_lanes(flxi_gwriter *w)
{
    flxi_express e = flxi_gw_emitter(w);
    flxi_row_frame r = find_frame(w);
    int64_t rows = w->group->column_rows ? w->group->column_rows : 1, parts = w->group->space.outer / rows;
    w->part = parts == 1 ? flxi_gw_u32(w, 0) : flxi_gw_bound_id(w, "row", FLX_KERNEL_WORKGROUP_ID, 0);
    r.lane = flxi_gw_bound_id(w, "lane", FLX_KERNEL_LOCAL_ID, 0);
    r.inner = flxi_gw_u32(w, 0);
    w->out->grid[0] = (uint32_t)(parts / w->rows);
    flxi_gw_open_guarded(w, w->part, parts / w->rows); /* always true; it bounds the indices */
    if (w->rows > 1) {
        uint32_t own =
            flxi_kb_binary(w->k, KBIN_min, flxi_kb_id(w->k, FLX_KERNEL_LOCAL_ID, 1), flxi_gw_u32(w, w->rows - 1));
        w->part = flxi_ku_add(&e, flxi_ku_mul(&e, w->part, w->rows), own);
        w->part = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "row"), w->part));
    }
    r.outer = w->part;
    if (w->group->column_rows) {
        w->row_of_part = flxi_kb_var(
            w->k, flxi_kb_loop(w->k, flxi_kb_fresh_name(w->k, "r"), flxi_gw_u32(w, 0), flxi_gw_u32(w, rows)));
        r.outer = flxi_ku_add(&e, flxi_ku_mul(&e, w->part, rows), w->row_of_part);
    }
    set_row(w, &r);
    write_phases(w, &r);
    if (w->group->column_rows)
        flxi_kb_end(w->k);
    flxi_kb_end(w->k);
}

/* Rows past the last one are the last one again, so that all invocations reach the barriers. */
void flxi_gw_write_across(flxi_gwriter *w)
{
    flxi_express e = flxi_gw_emitter(w);
    const flxi_space *s = &w->group->space;
    flxi_row_frame r = find_frame(w);
    int64_t rows = flxi_space_rows(s);
    w->column_id = flxi_gw_bound_id(w, "l", FLX_KERNEL_LOCAL_ID, 0);
    r.lane = flxi_gw_bound_id(w, "lane", FLX_KERNEL_LOCAL_ID, 1);
    uint32_t group = flxi_gw_bound_id(w, "o", FLX_KERNEL_WORKGROUP_ID, 0);
    w->out->grid[0] = flxi_gw_blocks(rows, FLXI_ACROSS);
    flxi_gw_open_guarded(w, group, w->out->grid[0]); /* always true; it bounds the indices */
    uint32_t i = flxi_ku_add(&e, flxi_ku_mul(&e, group, FLXI_ACROSS), w->column_id);
    if (rows % FLXI_ACROSS)
        i = flxi_kb_binary(w->k, KBIN_min, i, flxi_gw_u32(w, rows - 1));
    i = flxi_kb_var(w->k, flxi_kb_let(w->k, flxi_kb_fresh_name(w->k, "i"), i));
    r.outer = s->outer == 1 ? flxi_gw_u32(w, 0) : flxi_ku_div(&e, i, s->inner);
    r.inner = s->outer == 1 ? i : flxi_ku_mod(&e, i, s->inner);
    set_row(w, &r);
    write_phases(w, &r);
    flxi_kb_end(w->k);
}

void flxi_gw_write_serial(flxi_gwriter *w)
{
    flxi_express e = flxi_gw_emitter(w);
    const flxi_space *s = &w->group->space;
    flxi_row_frame r = find_frame(w);
    uint32_t i = flxi_gw_bound_id(w, "i", FLX_KERNEL_INVOCATION_ID, 0);
    bool is_wide = s->inner >= FLXI_MAX_LANES && !w->f->form;
    flxi_gw_open_guarded(w, i, is_wide ? s->inner : flxi_space_rows(s));
    w->out->grid[0] = flxi_gw_blocks(is_wide ? s->inner : flxi_space_rows(s), w->k->k->size[0]);
    r.outer =
        is_wide ? flxi_gw_bound_id(w, "o", FLX_KERNEL_WORKGROUP_ID, 1) : flxi_ku_div(&e, i, s->inner ? s->inner : 1);
    r.inner = is_wide || s->outer == 1 ? i : flxi_ku_mod(&e, i, s->inner ? s->inner : 1);
    if (s->outer == 1)
        r.outer = flxi_gw_u32(w, 0);
    if (is_wide) {
        w->out->grid[1] = (uint32_t)s->outer;
        flxi_gw_open_guarded(w, r.outer, s->outer);
    }
    set_row(w, &r);
    write_phases(w, &r);
    if (is_wide)
        flxi_kb_end(w->k);
    flxi_kb_end(w->k);
}
