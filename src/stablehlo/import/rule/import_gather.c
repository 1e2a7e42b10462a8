/* SPDX-License-Identifier: Apache-2.0 */
/* import_gather.c: elements selected by indices. Starts are moved into range, as the language requires. */
#include "stablehlo/import/import_site.h"

static void gather(hlo_site *s, flx_ints sizes)
{
    static const char numbers[] = "dimension_numbers";
    flx_gather_nd_attrs a = FLX_GATHER_ND_ATTRS;
    a.slice_sizes = sizes;
    a.start_index_map = flxi_hlo_member_ints(s, numbers, "start_index_map");
    a.offset_axes = flxi_hlo_member_ints(s, numbers, "offset_dims");
    a.collapsed_axes = flxi_hlo_member_ints(s, numbers, "collapsed_slice_dims");
    a.operand_batching_axes = flxi_hlo_member_ints(s, numbers, "operand_batching_dims");
    a.indices_batching_axes = flxi_hlo_member_ints(s, numbers, "start_indices_batching_dims");
    a.index_vector_axis = flxi_hlo_member_int(s, numbers, "index_vector_dim", 0);
    a.oob = "clamp";
    if (!flxi_hlo_failed(s))
        s->y[0] = flx_gather_nd_with(s->g, s->x[0], s->x[1], &a);
}

void flxi_hlo_import_gather(hlo_site *s)
{
    gather(s, flxi_hlo_ints_of(s, "slice_sizes", (size_t)flxi_hlo_typeof(s, s->x[0])->rank, 1));
}

void flxi_hlo_import_dynamic_gather(hlo_site *s)
{
    flx_ints sizes;
    if (flxi_hlo_extents(s, s->x[2], &sizes))
        gather(s, sizes);
}

static int64_t *counted(hlo_site *s, int64_t first, int64_t n)
{
    int64_t *v = flxi_hlo_new(s, int64_t, n > 0 ? n : 0);
    for (int64_t i = 0; v && i < n; i++)
        v[i] = first + i;
    return v;
}

/* y[b, p, i, q] = x[b, p, index[b, i], q]: i replaces the axis dim of x, b are the first batch_dims axes. */
void flxi_hlo_import_torch_index_select(hlo_site *s)
{
    const flx_type *x = flxi_hlo_typeof(s, s->x[0]);
    const flx_type *index = flxi_hlo_typeof(s, s->x[1]);
    int64_t dim = flxi_hlo_int(s, "dim", 0);
    int64_t batch = flxi_hlo_int(s, "batch_dims", 0);
    dim += dim < 0 ? x->rank : 0;
    batch += batch < 0 ? index->rank : 0;
    if (dim < 0 || dim >= x->rank || batch < 0 || batch > dim || batch > index->rank) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL,
                      "dim is %lld and batch_dims is %lld, but the operand has %d axes, index %d", (long long)dim,
                      (long long)batch, x->rank, index->rank);
        return;
    }
    int64_t kept = index->rank - batch; /* axes that replace dim */
    int64_t *sizes = flxi_hlo_new(s, int64_t, x->rank);
    int64_t *offset = flxi_hlo_new(s, int64_t, x->rank);
    int64_t *same = counted(s, 0, batch);
    size_t n = 0;
    if (!sizes || !offset || !same)
        return;
    for (int64_t k = 0; k < x->rank; k++) {
        bool is_window = k >= batch && k != dim;
        sizes[k] = is_window ? x->dims[k] : 1;
        if (is_window)
            offset[n++] = k < dim ? k : k - 1 + kept;
    }
    flx_gather_nd_attrs a = FLX_GATHER_ND_ATTRS;
    a.slice_sizes = (flx_ints){sizes, (size_t)x->rank};
    a.start_index_map = FLX_INTS(dim);
    a.collapsed_axes = FLX_INTS(dim);
    a.offset_axes = (flx_ints){offset, n};
    a.operand_batching_axes = (flx_ints){same, (size_t)batch};
    a.indices_batching_axes = (flx_ints){same, (size_t)batch};
    a.index_vector_axis = index->rank;
    a.oob = "clamp";
    s->y[0] = flx_gather_nd_with(s->g, s->x[0], s->x[1], &a);
}
