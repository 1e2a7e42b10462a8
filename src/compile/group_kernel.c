/* SPDX-License-Identifier: Apache-2.0 */
/* group_kernel.c: from a group to a kernel. Three forms:

     map      no folds: one invocation for each element, or for each element of the last axis when others need their
              index (group_map.c);
     lanes    folds along the innermost axes: a workgroup for each row, whose lanes take its elements in turn and then
              fold what they have together; with folds by columns a workgroup has several rows, one after the other, and
              adds their elements to sums in memory;
     serial   all other folds: an invocation for each row, which walks along the row (group_rows.c).

   A device may want other forms (flxi_kernel_form): workgroups along one axis; several elements for each invocation of
   a map; a subgroup for each of several rows; and for long rows, and for those that are not contiguous, several
   invocations that fold through memory of the workgroup.

   Folds that need the results of others come in a later phase; each phase is one loop over the row that computes what
   the folds of that phase want, and stores the elements that are known by then. Elements are computed again in each
   phase rather than kept, since their operands are in the nearest cache by then; except those of expensive functions
   (group_kept.c). Where a device has registers for the operands of a whole row, all of them are loaded before the first
   phase (group_vectors.c). */
#include "compile/group_kernel.h"

#include "compile/group/group_writer.h"

#include <stdio.h>

/* Workgroups of maps; the emitter makes one loop of a line of them. */
enum { MAP_WIDTH = 256, MIN_LANES = 8 };

typedef struct {
    bool is_costly, is_wide;
} element_kind;

/* Whether elements of rows take long, and whether they have 64 bits. */
static element_kind find_elements(const flxi_gwriter *w)
{
    element_kind kind = {false, false};
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        uint32_t i = w->group->nodes[j];
        const flxi_node *n = flxi_node_at(w->g, i);
        kind.is_costly |= w->f->level[i] == LEVEL_ELEMENT && flxi_ops[n->op].traits & TRAIT_COSTLY;
        kind.is_wide |= flx_dtype_size(flxi_type_at(w->g, n->first)->dtype) == 8;
    }
    return kind;
}

/* Rows are folded along their elements, with a fold of the lanes at the end of each, or a vector of rows is walked
   together. Measured with sums and softmax of 1 to 1000 rows on AVX-512: a vector that rows do not fill is slow. */
static int64_t least_extent(const flxi_gwriter *w)
{
    if (w->f->form)
        return w->f->form->lanes;
    if (w->f->has_scalar_rows)
        return 2 * FLXI_MAX_LANES;
    element_kind kind = find_elements(w);
    int64_t lanes = kind.is_wide ? MIN_LANES : FLXI_MAX_LANES, rows = w->group->space.outer;
    if (rows < 2 * lanes)
        return rows / 4 + (kind.is_costly ? 2 : MIN_LANES);
    return kind.is_costly ? lanes * 5 / 8 : 2 * lanes;
}

static bool runs_along_lanes(const flxi_gwriter *w)
{
    return w->group->space.inner == 1 && w->group->space.extent >= least_extent(w);
}

static uint32_t width_of(const flxi_gwriter *w)
{
    if (w->f->form)
        return w->group->has_rows ? 128 : w->f->form->width;
    if (w->group->has_rows)
        return 64;
    if (w->f->free_extents)
        return FLXI_MAX_LANES; /* of any extent; wide ones would all be one for the numbers in place of extents */
    int axis = flxi_gw_line_axis(w);
    int64_t line = axis >= 0 ? w->anchor.dims[axis] : flxi_static_extent(&w->anchor, 0, w->anchor.rank);
    int64_t rounded = (line + FLXI_MAX_LANES - 1) / FLXI_MAX_LANES * FLXI_MAX_LANES;
    return rounded < MAP_WIDTH ? (uint32_t)(rounded ? rounded : FLXI_MAX_LANES) : MAP_WIDTH;
}

static bool has_wide_values(const flx_kernel *k)
{
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        if (flxi_ktype_of(k->exprs[i].type)->bits == 64)
            return true;
    return false;
}

static void write_group(flxi_gwriter *w)
{
    if (!w->group->has_rows)
        flxi_gw_write_map(w);
    else if (w->is_across)
        flxi_gw_write_across(w);
    else if (w->lanes)
        flxi_gw_write_lanes(w);
    else
        flxi_gw_write_serial(w);
}

/* Buffers of values come before those of the workgroup, which no value is in: all values are known from before. */
static void declare_again(flxi_gwriter *w)
{
    for (size_t i = 0; w->declared && i < w->values.n; i++) {
        const flxi_kbuffer *b = &w->declared->buffers[i + 1];
        flxi_kb_buffer(w->k, b);
    }
}

static flx_code lower(flxi_gwriter *w, flx_error *err)
{
    char name[64];
    const flxi_node *last = flxi_node_at(w->g, w->group->nodes[w->group->num_nodes - 1]);
    snprintf(name, sizeof name, "%.40s_%u", flxi_ops[last->op].name, w->group->num_nodes);
    if (!w->group->has_rows)
        w->anchor = *flxi_gw_find_anchor(w);
    const uint32_t along[3] = {w->lanes ? w->lanes : width_of(w), w->rows, 1}, across[3] = {FLXI_ACROSS, w->lanes, 1};
    const uint32_t *size = w->is_across ? across : along;
    w->k = flxi_kb_new(w->g->ctx, name, size, err);
    if (!w->k)
        return FLX_E_OOM;
    w->out->grid[0] = w->out->grid[1] = w->out->grid[2] = 1;
    w->out->lanes = w->is_across ? 0 : flxi_gw_subgroup_lanes(w);
    declare_again(w);
    write_group(w);
    w->out->kernel = flxi_kb_finish(w->k, err);
    return w->out->kernel ? FLX_OK : err && err->code ? (flx_code)err->code : FLX_E_OOM;
}

static void forget(flxi_gwriter *w)
{
    w->known.n = w->folds.n = w->num_kept = 0;
    w->element = w->row = (flxi_kindex){0};
    memset(w->phase, 0, w->group->num_nodes);
}

/* The number of lanes follows from the widest value, which is known when the kernel is there. */
static flx_code lower_for_vectors(flxi_gwriter *w, flx_error *err)
{
    bool has_lanes = w->group->has_rows && runs_along_lanes(w);
    w->lanes = has_lanes ? FLXI_MAX_LANES : 0;
    w->rows = 1;
    FLXI_TRY(lower(w, err));
    if (!has_lanes || !has_wide_values(w->out->kernel))
        return FLX_OK;
    flx_kernel_release(w->out->kernel);
    forget(w);
    w->values.n = w->in_place.n = 0;
    w->lanes = MIN_LANES;
    return lower(w, err);
}

/* Whether the folds of the kernel can go through memory of the workgroup, which holds no truth values. */
static bool has_plain_folds(const flxi_gwriter *w)
{
    for (uint32_t j = 0; j < w->group->num_nodes; j++) {
        const flxi_node *n = flxi_node_at(w->g, w->group->nodes[j]);
        if (flxi_gw_is_fold(w, j) &&
            (flxi_type_at(w->g, n->first)->dtype == FLX_BOOL || flxi_ops[n->op].rules->fold->value_op))
            return false;
    }
    return true;
}

static bool is_long(const flxi_gwriter *w)
{
    const flxi_kernel_form *form = w->f->form;
    int64_t least = w->group->space.outer < form->fewer_rows ? form->long_row / 4 : form->long_row;
    return w->group->space.extent >= least && has_plain_folds(w);
}

/* How many lanes a row that is not contiguous has, so that there are about as many invocations as wanted; 0: it is
   walked by one. */
static uint32_t lanes_across(const flxi_gwriter *w)
{
    const flxi_space *s = &w->group->space;
    uint32_t lanes = 1;
    if (!w->group->has_rows || s->outer == 0 || s->inner < 2 || !has_plain_folds(w))
        return 0;
    while (lanes < 32 && s->extent >= 4 * (int64_t)lanes && flxi_space_rows(s) * lanes < w->f->form->across)
        lanes *= 2;
    return lanes > 1 ? lanes : 0;
}

/* Subgroups have rows of their own, or a workgroup has some; its memory is declared after that of values. */
static flx_code lower_for_form(flxi_gwriter *w, flx_error *err)
{
    const flxi_kernel_form *form = w->f->form;
    bool has_lanes = w->group->has_rows && runs_along_lanes(w);
    uint32_t across = has_lanes ? 0 : lanes_across(w);
    w->is_across = across > 0;
    w->lanes = has_lanes ? form->lanes : across;
    w->rows = has_lanes && !is_long(w) ? form->rows : 1;
    while (w->group->space.outer % w->rows)
        w->rows /= 2;
    FLXI_TRY(lower(w, err));
    if (!across && (!has_lanes || !is_long(w)))
        return FLX_OK;
    flx_kernel *before = w->out->kernel;
    forget(w);
    w->declared = before;
    w->lanes = across ? across : w->group->space.extent >= form->longest_row ? 4 * form->width : form->width;
    flx_code code = lower(w, err);
    flx_kernel_release(before);
    return code;
}

static flx_code lower_with_lanes(flxi_gwriter *w, flx_error *err)
{
    return w->f->form ? lower_for_form(w, err) : lower_for_vectors(w, err);
}

flx_code flxi_group_to_kernel(const flxi_grouping *f, const flxi_group *group, flxi_arena *out, flxi_group_kernel *r,
                              flx_error *err)
{
    flx_error local = {0};
    flxi_gwriter w = {
        .f = f, .group = group, .g = f->g, .number = f->group_of[group->nodes[0]], .mem = &f->g->ctx->mem, .out = r};
    *r = (flxi_group_kernel){0};
    w.phase = flxi_alloc(w.mem, group->num_nodes, 1);
    flx_code code = w.phase ? lower_with_lanes(&w, &local) : flxi_oom(&local, "a kernel");
    if (code == FLX_OK && w.failed)
        code = flxi_oom(&local, "a kernel");
    if (code == FLX_OK && w.is_lost)
        code = flxi_fail(&local, FLX_E_INTERNAL, "the group of '%s' reads a fold at another row", r->kernel->name);
    r->values = code == FLX_OK ? flxi_dup(out, uint32_t, w.values.at, w.values.n) : NULL;
    r->reads_in_place = code == FLX_OK ? flxi_dup(out, bool, w.in_place.at, w.in_place.n) : NULL;
    r->num_values = (uint32_t)w.values.n;
    if (code == FLX_OK && (!r->values || !r->reads_in_place))
        code = flxi_oom(&local, "a kernel");
    if (code == FLX_OK)
        code = flx_kernel_encode(r->kernel, &r->wire, &local);
    if (code != FLX_OK) {
        flxi_group_kernel_free(r);
        if (err)
            *err = local;
    }
    flxi_vec_free(w.mem, &w.known);
    flxi_vec_free(w.mem, &w.values);
    flxi_vec_free(w.mem, &w.in_place);
    flxi_vec_free(w.mem, &w.folds);
    if (w.phase)
        flxi_free(w.mem, w.phase, group->num_nodes, 1);
    return code;
}

void flxi_group_kernel_free(flxi_group_kernel *r)
{
    flx_kernel_release(r->kernel);
    flx_buffer_free(&r->wire);
    *r = (flxi_group_kernel){0};
}
