/* SPDX-License-Identifier: Apache-2.0 */
/* import_exchange.c: see import_exchange.h. What a group has is put together in a new first axis: the values of all
   processes, of which those of the group are taken by a table of its members. */
#include "stablehlo/import/import_exchange.h"

#include <fluxion/tensor.h>

const char *flxi_hlo_all_axes(hlo_site *s)
{
    const hlo_mesh *m = flxi_hlo_mesh(s);
    char *text = flxi_hlo_new(s, char, HLO_AXES_TEXT);
    for (int i = 0; text && i < m->num_axes; i++)
        strcat(strcat(text, i ? "," : ""), m->axes[i].name);
    return text ? text : "";
}

static flx_val index_along(hlo_site *s, const char *axes)
{
    const flx_attr name = flx_attr_string("axis_name", axes);
    return flx_op1(s->g, "axis_index", NULL, 0, &name, 1);
}

flx_val flxi_hlo_rank(hlo_site *s)
{
    return index_along(s, flxi_hlo_all_axes(s));
}

/* ---- Groups ---- */

/* Whether the rows of a table, `n` ranks in each, are the groups along these axes, in their order. */
static bool are_groups(const hlo_mesh *m, const flxi_mesh_axes *along, flx_ints table, int64_t n)
{
    if (flxi_mesh_count(along) != n)
        return false;
    for (int64_t i = 0; i < m->ranks; i++) {
        int64_t first = table.v[i / n * n];
        if (flxi_mesh_index(along, first) != 0 || table.v[i] != flxi_mesh_peer(along, first, i % n))
            return false;
    }
    return true;
}

/* Tries axes after those that `along` has; the number of tries is bounded by the orders of eight axes. */
static bool find_axes(const hlo_mesh *m, flxi_mesh_axes *along, flx_ints table, int64_t n, int *tries)
{
    if (are_groups(m, along, table, n))
        return true;
    for (int i = 0; i < m->num_axes && along->n < m->num_axes; i++) {
        bool is_new = m->axes[i].size > 1;
        for (int k = 0; k < along->n; k++)
            is_new &= along->at[k] != &m->axes[i];
        if (!is_new || n % (flxi_mesh_count(along) * m->axes[i].size) || --*tries < 0)
            continue;
        along->at[along->n++] = &m->axes[i];
        if (find_axes(m, along, table, n, tries))
            return true;
        along->n--;
    }
    return false;
}

/* Every rank once, in groups of n. */
static bool is_partition(hlo_site *s, flx_ints table, int64_t n)
{
    const hlo_mesh *m = flxi_hlo_mesh(s);
    bool *seen = flxi_hlo_new(s, bool, m->ranks);
    bool fits = seen && n > 0 && (int64_t)table.n == m->ranks && m->ranks % n == 0;
    for (size_t i = 0; fits && i < table.n; i++) {
        fits = table.v[i] >= 0 && table.v[i] < m->ranks && !seen[table.v[i]];
        if (fits)
            seen[table.v[i]] = true;
    }
    return fits;
}

bool flxi_hlo_groups_of(hlo_site *s, flx_ints ranks, int64_t n, hlo_groups *out)
{
    flxi_mesh_axes along = {.n = 0};
    int tries = 20000;
    *out = (hlo_groups){ranks, n, NULL};
    if (!is_partition(s, ranks, n)) {
        flxi_hlo_unsupported(s, "groups of devices that are not of one size, or do not have every device once");
        return false;
    }
    char *text = flxi_hlo_new(s, char, HLO_AXES_TEXT);
    if (!text || !find_axes(flxi_hlo_mesh(s), &along, ranks, n, &tries))
        return text != NULL;
    for (int i = 0; i < along.n; i++)
        strcat(strcat(text, i ? "," : ""), along.at[i]->name);
    out->axes = text;
    return true;
}

bool flxi_hlo_groups_along(hlo_site *s, const hlo_mesh *m, const char *axes, hlo_groups *out)
{
    flxi_mesh_axes along = {.n = 0};
    int64_t *ranks = flxi_hlo_new(s, int64_t, m->ranks);
    size_t k = 0;
    if (!ranks || flxi_mesh_find_axes(m->axes, m->num_axes, axes, &along, NULL) != FLX_OK)
        return false;
    int64_t n = flxi_mesh_count(&along);
    for (int64_t r = 0; r < m->ranks; r++)
        for (int64_t i = 0; flxi_mesh_index(&along, r) == 0 && i < n; i++)
            ranks[k++] = flxi_mesh_peer(&along, r, i);
    return flxi_hlo_groups_of(s, (flx_ints){ranks, k}, n, out);
}

/* ---- Tables by rank ---- */

/* The row of this process in a table with n numbers for each rank; without n its number there. */
static flx_val row_of_rank(hlo_site *s, const int32_t *table, int64_t n)
{
    flx_type type = {.dtype = FLX_I32, .rank = n ? 2 : 1, .dims = {flxi_hlo_mesh(s)->ranks, n}};
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(s->g->ctx, &type, table, &err);
    if (!t)
        flxi_graph_fail(s->g, &err);
    flx_val all = t ? flx_const(s->g, &type, t) : FLX_NONE;
    flx_tensor_release(t);
    return flx_gather(s->g, all, flxi_hlo_rank(s), 0, "clamp");
}

flx_val flxi_hlo_position_in(hlo_site *s, const hlo_groups *g)
{
    if (g->n == 1)
        return flx_scalar(s->g, FLX_I32, 0);
    if (g->axes)
        return index_along(s, g->axes);
    int32_t *table = flxi_hlo_new(s, int32_t, g->ranks.n);
    for (size_t i = 0; table && i < g->ranks.n; i++)
        table[g->ranks.v[i]] = (int32_t)((int64_t)i % g->n);
    return table ? row_of_rank(s, table, 0) : FLX_NONE;
}

/* The values of the group in a new first axis, in its order. */
static flx_val members(hlo_site *s, const hlo_groups *g, flx_val x)
{
    const hlo_groups all = {.n = flxi_hlo_mesh(s)->ranks, .axes = flxi_hlo_all_axes(s)};
    int32_t *table = flxi_hlo_new(s, int32_t, g->ranks.n * (size_t)g->n);
    for (size_t i = 0; table && i < g->ranks.n; i++)
        for (int64_t k = 0; k < g->n; k++)
            table[g->ranks.v[i] * g->n + k] = (int32_t)g->ranks.v[(int64_t)i / g->n * g->n + k];
    flx_val values = flxi_hlo_all_gather(s, &all, flx_unsqueeze(s->g, x, FLX_INTS(0)), 0);
    return table ? flx_gather(s->g, values, row_of_rank(s, table, g->n), 0, "clamp") : FLX_NONE;
}

/* The first axis goes into another one: [n, a, b] becomes [a, n * b] for axis 1. */
static flx_val merge_first(hlo_site *s, flx_val x, int axis)
{
    flx_type t = *flxi_hlo_typeof(s, x);
    int64_t order[FLX_MAX_RANK], dims[FLX_MAX_RANK];
    for (int k = 0; k < t.rank; k++)
        order[k] = k < axis ? k + 1 : k == axis ? 0 : k;
    for (int k = 0; k + 1 < t.rank; k++)
        dims[k] = k == axis ? t.dims[0] * t.dims[k + 1] : t.dims[k + 1];
    x = flx_transpose(s->g, x, (flx_ints){order, (size_t)t.rank});
    return flx_reshape(s->g, x, (flx_ints){dims, (size_t)t.rank - 1});
}

/* ---- Exchanges: those of one process are nothing ---- */

/* The smallest dtype of indices into a value. */
static flx_dtype index_dtype(const flx_type *t)
{
    flx_dtype least = FLX_I32;
    for (int k = 0; k < t->rank; k++)
        if (!flx_dim_is_static(t->dims[k]) || t->dims[k] > INT32_MAX)
            least = FLX_I64;
    return least;
}

flx_val flxi_hlo_part_at(hlo_site *s, flx_val x, int axis, int64_t parts, flx_val position)
{
    const flx_type *t = flxi_hlo_typeof(s, x);
    flx_dtype dtype = index_dtype(t);
    flx_val operands[1 + FLX_MAX_RANK] = {x};
    int64_t sizes[FLX_MAX_RANK];
    for (int k = 0; k < t->rank; k++) {
        sizes[k] = k == axis ? t->dims[k] / parts : t->dims[k];
        operands[1 + k] = flx_scalar(s->g, dtype, 0);
    }
    position = dtype == FLX_I32 ? position : flx_cast(s->g, position, dtype);
    operands[1 + axis] = flx_mul(s->g, position, flx_scalar(s->g, dtype, (double)sizes[axis]));
    const flx_attr attr = flx_attr_ints("sizes", (flx_ints){sizes, (size_t)t->rank});
    return flx_op1(s->g, "dynamic_slice", operands, 1 + (size_t)t->rank, &attr, 1);
}

/* An op of src/ops/collective along the axes of the groups. */
static flx_val exchange(hlo_site *s, const hlo_groups *g, const char *op, flx_val x, flx_attr *attrs, size_t n)
{
    attrs[0] = flx_attr_string("axis_name", g->axes);
    return flx_op1(s->g, op, &x, 1, attrs, n);
}

static flx_val reduce_first(hlo_site *s, flx_val x, const char *reduction)
{
    static const char *const ops[][2] = {{"sum", "reduce_sum"},   {"max", "reduce_max"}, {"min", "reduce_min"},
                                         {"prod", "reduce_prod"}, {"and", "reduce_all"}, {"or", "reduce_any"}};
    const int64_t first[] = {0};
    const flx_attr attr = flx_attr_ints("axes", (flx_ints){first, 1});
    bool is_logical = strcmp(reduction, "and") == 0 || strcmp(reduction, "or") == 0;
    if (is_logical && flxi_hlo_dtype(s, x) != FLX_BOOL) {
        flxi_hlo_unsupported(s, "the bitwise reduction among these groups of devices");
        return x;
    }
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(reduction, ops[i][0]) == 0)
            return flx_op1(s->g, ops[i][1], &x, 1, &attr, 1);
    return x;
}

flx_val flxi_hlo_all_reduce(hlo_site *s, const hlo_groups *g, flx_val x, const char *reduction)
{
    if (g->n == 1)
        return x;
    flx_attr attrs[3] = {{0}, flx_attr_int("size", g->n), flx_attr_word("op", reduction)};
    return g->axes ? exchange(s, g, "all_reduce", x, attrs, 3) : reduce_first(s, members(s, g, x), reduction);
}

flx_val flxi_hlo_all_gather(hlo_site *s, const hlo_groups *g, flx_val x, int axis)
{
    if (g->n == 1)
        return x;
    flx_attr attrs[3] = {{0}, flx_attr_int("size", g->n), flx_attr_int("axis", axis)};
    return g->axes ? exchange(s, g, "all_gather", x, attrs, 3) : merge_first(s, members(s, g, x), axis);
}

flx_val flxi_hlo_reduce_scatter(hlo_site *s, const hlo_groups *g, flx_val x, int axis, const char *reduction)
{
    if (g->n == 1)
        return x;
    flx_attr attrs[3] = {{0}, flx_attr_int("size", g->n), flx_attr_int("axis", axis)};
    if (g->axes && strcmp(reduction, "sum") == 0 && flxi_hlo_dtype(s, x) != FLX_BOOL)
        return exchange(s, g, "reduce_scatter", x, attrs, 3);
    return flxi_hlo_part_at(s, flxi_hlo_all_reduce(s, g, x, reduction), axis, g->n, flxi_hlo_position_in(s, g));
}

flx_val flxi_hlo_all_to_all(hlo_site *s, const hlo_groups *g, flx_val x, int split, int concat)
{
    if (g->n == 1)
        return x;
    flx_attr attrs[4] = {
        {0}, flx_attr_int("size", g->n), flx_attr_int("split_axis", split), flx_attr_int("concat_axis", concat)};
    if (g->axes)
        return exchange(s, g, "all_to_all", x, attrs, 4);
    flx_val parts = flxi_hlo_part_at(s, members(s, g, x), split + 1, g->n, flxi_hlo_position_in(s, g));
    return merge_first(s, parts, concat);
}

flx_val flxi_hlo_from_first(hlo_site *s, const hlo_groups *g, flx_val x)
{
    if (g->n == 1)
        return x;
    flx_attr attrs[2] = {{0}, flx_attr_int("root", 0)};
    if (g->axes)
        return exchange(s, g, "broadcast", x, attrs, 2);
    return flx_gather(s->g, members(s, g, x), flx_scalar(s->g, FLX_I32, 0), 0, "clamp");
}
