/* SPDX-License-Identifier: Apache-2.0 */
/* vmap.c: batching for users: batch axes by input name, at any position; the engine needs them leading. */
#include "autodiff/autodiff.h"

#include <stdio.h>

typedef struct {
    const flx_graph *g;
    flx_graph *prepared;
    flx_graph *out;
    flxi_remap remap;
    uint32_t *map;
    bool *batched;
    int64_t *axis; /* by position of the leaf: where its batch axis is, or FLX_NO_AXIS */
    flx_dim size;
    flx_error *err;
} vmap_work;

static flx_code read_axes(vmap_work *w, const flx_vmap_axis *in_axes, size_t count)
{
    flxi_value_text text;
    for (size_t i = 0; i < w->g->leaves.n; i++)
        w->axis[i] = FLX_NO_AXIS;
    for (size_t k = 0; k < count; k++) {
        size_t i = 0;
        if (!in_axes[k].name)
            return flxi_fail(w->err, FLX_E_USAGE, "flx_vmap: in_axes[%zu] has no name", k);
        while (i < w->g->leaves.n && strcmp(flxi_value_at(w->g, w->g->leaves.at[i])->name, in_axes[k].name) != 0)
            i++;
        if (i == w->g->leaves.n)
            return flxi_no_input(w->err, w->g, in_axes[k].name);
        for (size_t j = 0; j < k; j++)
            if (strcmp(in_axes[j].name, in_axes[k].name) == 0)
                return flxi_fail(w->err, FLX_E_DUP_NAME, "flx_vmap: the input '%.100s' is named twice",
                                 in_axes[k].name);
        if (in_axes[k].axis == FLX_NO_AXIS)
            continue;
        int rank = flxi_type_at(w->g, w->g->leaves.at[i])->rank + 1;
        int64_t axis = in_axes[k].axis < 0 ? in_axes[k].axis + rank : in_axes[k].axis;
        flxi_value_str(w->g, w->g->leaves.at[i], NULL, &text);
        if (rank > FLX_MAX_RANK)
            return flxi_fail(w->err, FLX_E_SIZE, "%s has the largest allowed rank: it cannot get a batch axis", text.s);
        if (axis < 0 || axis >= rank)
            return flxi_fail(w->err, FLX_E_SHAPE,
                             "the batch axis %lld of %s is outside -%d .. %d, its axes including the batch axis",
                             (long long)in_axes[k].axis, text.s, rank, rank - 1);
        w->axis[i] = axis;
    }
    return FLX_OK;
}

static flx_code declare_leaves(vmap_work *w)
{
    const flx_graph *src = w->prepared;
    flxi_site s = flxi_plain_site(w->out);
    for (size_t i = 0; i < src->leaves.n; i++) {
        uint32_t old = src->leaves.at[i];
        const flxi_value *v = flxi_value_at(src, old);
        flx_type type = *v->type;
        bool is_batched = w->axis[i] != FLX_NO_AXIS;
        if (is_batched) {
            int axis = (int)w->axis[i];
            memmove(type.dims + axis + 1, type.dims + axis, (size_t)(type.rank - axis) * sizeof(flx_dim));
            type.dims[axis] = w->size;
            type.rank++;
        }
        uint32_t id = flxi_add_leaf_like(w->out, src, old, &type);
        if (!id)
            return flxi_built(w->out, w->err);
        w->map[old] = id;
        w->batched[old] = is_batched;
    }
    for (size_t i = 0; i < src->leaves.n; i++) /* after all leaves, so that they stay together */
        if (w->axis[i] != FLX_NO_AXIS) {
            flx_val v = {w->map[src->leaves.at[i]], w->out->serial};
            w->map[src->leaves.at[i]] = flxi_move_axis(&s, v, (int)w->axis[i], 0).id;
        }
    return flxi_built(w->out, w->err);
}

static flx_code write_output(vmap_work *w, size_t k, int64_t axis)
{
    const flx_graph *src = w->prepared;
    const flxi_output *o = &src->outputs.at[k];
    const flx_type *t = flxi_type_at(src, o->val);
    flxi_site s = flxi_plain_site(w->out);
    flx_val v = {w->map[o->val], w->out->serial};
    flxi_value_text text;
    if (axis == FLX_NO_AXIS) {
        if (w->batched[o->val])
            return flxi_fail_hint(w->err, FLX_E_SHAPE, "specify its axis: --out-axes 0",
                                  "the output %s depends on the batch and needs a batch axis",
                                  flxi_value_str(src, o->val, o->name, &text));
        return flx_output(w->out, v, o->name);
    }
    int64_t position = axis < 0 ? axis + t->rank + 1 : axis;
    flxi_value_str(src, o->val, o->name, &text);
    if (t->rank == FLX_MAX_RANK)
        return flxi_fail(w->err, FLX_E_SIZE, "the output %s has the largest allowed rank: it cannot get a batch axis",
                         text.s);
    if (position < 0 || position > t->rank)
        return flxi_fail(w->err, FLX_E_SHAPE,
                         "the batch axis %lld of the output %s is outside -%d .. %d, its axes including the batch axis",
                         (long long)axis, text.s, t->rank + 1, t->rank);
    if (!w->batched[o->val]) {
        flx_dim dims[FLX_MAX_RANK];
        dims[0] = w->size;
        memcpy(dims + 1, t->dims, (size_t)t->rank * sizeof *dims);
        v = flxi_expand_to(&s, v, t->rank + 1, dims);
    }
    flx_output(w->out, flxi_move_axis(&s, v, 0, (int)position), o->name);
    return flxi_built(w->out, w->err);
}

static flx_code wrong_count(vmap_work *w, size_t num_outputs)
{
    char list[100] = "";
    size_t at = 0;
    for (size_t k = 0; k < w->g->outputs.n && at < sizeof list; k++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", k ? ", " : "", w->g->outputs.at[k].name);
    flxi_fail(w->err, FLX_E_ARITY, "%zu output axes are given for %zu outputs", num_outputs, w->g->outputs.n);
    flxi_hint(w->err, "outputs: %s%s", list, at < sizeof list ? "" : "...");
    return FLX_E_ARITY;
}

static flx_code batch_graph(vmap_work *w, const flx_vmap_axis *in_axes, size_t count, const int64_t *out_axes,
                            size_t num_outputs)
{
    const flxi_allocator *mem = &w->g->ctx->mem;
    if (out_axes && num_outputs != w->g->outputs.n)
        return wrong_count(w, num_outputs);
    if (w->size == FLX_DIM_INVALID)
        return flxi_fail(w->err, FLX_E_SHAPE, "the batch size is not a dimension");
    if (flxi_dim_is_number(w->size) && w->size < 0)
        return flxi_fail(w->err, FLX_E_SHAPE, "the batch size %lld is negative", (long long)w->size);
    FLXI_TRY(flxi_prepare(w->g, MODE_BATCH, &w->prepared, &w->remap, w->err));
    size_t n = (size_t)w->prepared->value_count + 1;
    w->out = flxi_derived_graph(w->g, "vmap");
    w->map = flxi_alloc(mem, n, sizeof *w->map);
    w->batched = flxi_alloc(mem, n, sizeof *w->batched);
    w->axis = flxi_alloc(mem, w->g->leaves.n, sizeof *w->axis);
    if (!w->out || !w->map || !w->batched || !w->axis)
        return flxi_oom(w->err, "batching");
    FLXI_TRY(read_axes(w, in_axes, count));
    FLXI_TRY(declare_leaves(w));
    flxi_batching b = {.src = w->prepared, .g = w->out, .map = w->map, .batched = w->batched, .size = w->size};
    FLXI_TRY(flxi_batch_sweep(&b, w->err));
    for (size_t k = 0; k < w->prepared->outputs.n; k++)
        FLXI_TRY(write_output(w, k, out_axes ? out_axes[k] : 0));
    return flxi_finish(&w->out, w->err);
}

flx_graph *flx_vmap(const flx_graph *g, const flx_vmap_axis *in_axes, size_t count, const int64_t *out_axes,
                    size_t num_outputs, flx_dim size, flx_error *err)
{
    flx_error local = {0};
    vmap_work w = {.g = g, .size = size, .err = &local};
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK)
        code = count && !in_axes ? flxi_fail(&local, FLX_E_USAGE, "flx_vmap: in_axes must be given")
                                 : batch_graph(&w, in_axes, count, out_axes, num_outputs);
    w.out = flxi_transformed(w.out, g, "vmap", &local, err);
    if (w.prepared) {
        const flxi_allocator *mem = &g->ctx->mem;
        size_t n = (size_t)w.prepared->value_count + 1;
        flxi_free(mem, w.map, n, sizeof *w.map);
        flxi_free(mem, w.batched, n, sizeof *w.batched);
        flxi_free(mem, w.axis, g->leaves.n, sizeof *w.axis);
        flxi_remap_free(&w.remap);
        flx_graph_release(w.prepared);
    }
    return w.out;
}
