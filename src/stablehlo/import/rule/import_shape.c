/* SPDX-License-Identifier: Apache-2.0 */
/* import_shape.c: operations that move elements. */
#include "stablehlo/import/import_site.h"

void flxi_hlo_import_broadcast_in_dim(hlo_site *s)
{
    flx_type to;
    flx_ints axes = flxi_hlo_ints_of(s, "broadcast_dimensions", (size_t)flxi_hlo_typeof(s, s->x[0])->rank, 0);
    if (flxi_hlo_static_result(s, 0, &to))
        s->y[0] = flx_broadcast_in_dim(s->g, s->x[0], flxi_hlo_dims(&to), axes);
}

/* New leading axes. */
void flxi_hlo_import_broadcast(hlo_site *s)
{
    const flx_type *t = flxi_hlo_typeof(s, s->x[0]);
    flx_ints sizes = flxi_hlo_ints(s, "broadcast_sizes");
    int64_t *shape = flxi_hlo_new(s, int64_t, sizes.n + (size_t)t->rank);
    for (size_t i = 0; shape && i < sizes.n; i++)
        shape[i] = sizes.v[i];
    for (int i = 0; shape && i < t->rank; i++)
        shape[sizes.n + (size_t)i] = t->dims[i];
    if (shape)
        s->y[0] = flx_expand(s->g, s->x[0], (flx_ints){shape, sizes.n + (size_t)t->rank});
}

void flxi_hlo_import_reshape(hlo_site *s)
{
    flx_type to;
    if (flxi_hlo_static_result(s, 0, &to))
        s->y[0] = flx_reshape(s->g, s->x[0], flxi_hlo_dims(&to));
}

void flxi_hlo_import_transpose(hlo_site *s)
{
    s->y[0] =
        flx_transpose(s->g, s->x[0], flxi_hlo_ints_of(s, "permutation", (size_t)flxi_hlo_typeof(s, s->x[0])->rank, 0));
}

void flxi_hlo_import_reverse(hlo_site *s)
{
    s->y[0] = flx_reverse(s->g, s->x[0], flxi_hlo_ints(s, "dimensions"));
}

void flxi_hlo_import_slice(hlo_site *s)
{
    size_t rank = (size_t)flxi_hlo_typeof(s, s->x[0])->rank;
    s->y[0] = flx_slice(s->g, s->x[0], flxi_hlo_ints_of(s, "start_indices", rank, 0),
                        flxi_hlo_ints_of(s, "limit_indices", rank, 0), flxi_hlo_ints_of(s, "strides", rank, 1));
}

void flxi_hlo_import_pad(hlo_site *s)
{
    size_t rank = (size_t)flxi_hlo_typeof(s, s->x[0])->rank;
    s->y[0] =
        flx_pad(s->g, s->x[0], s->x[1], flxi_hlo_ints_of(s, "edge_padding_low", rank, 0),
                flxi_hlo_ints_of(s, "edge_padding_high", rank, 0), flxi_hlo_ints_of(s, "interior_padding", rank, 0));
}

void flxi_hlo_import_concatenate(hlo_site *s)
{
    s->y[0] = flx_concat(s->g, s->x, s->nx, flxi_hlo_int(s, "dimension", 0));
}

void flxi_hlo_import_iota(hlo_site *s)
{
    flx_type to;
    if (flxi_hlo_static_result(s, 0, &to))
        s->y[0] = flx_iota(s->g, &to, flxi_hlo_int(s, "iota_dimension", 0));
}

void flxi_hlo_import_dynamic_slice(hlo_site *s)
{
    size_t rank = (size_t)flxi_hlo_typeof(s, s->x[0])->rank;
    s->y[0] = flx_dynamic_slice(s->g, s->x, s->nx, flxi_hlo_ints_of(s, "slice_sizes", rank, 0));
}

void flxi_hlo_import_dynamic_update_slice(hlo_site *s)
{
    s->y[0] = flx_dynamic_update_slice(s->g, s->x, s->nx);
}
