/* SPDX-License-Identifier: Apache-2.0 */
/* split_reductions.c: reductions in the form that kernels need: over neighbouring axes, and not over a long extent for
   few results. A reduction over axes that are not neighbours becomes one for each run of neighbours, the last first. A
   long one becomes two: the extent is cut into equal parts, which are reduced separately and then together; so there is
   work for all lanes and threads, and sums are more accurate. Sums of f16 and bf16 are widened first: their parts must
   not be rounded. */
#include "ops/express/express.h"
#include "passes/pass.h"

#include <fluxion/ops.h>

/* A part has about this many elements; an extent of less than twice as many is not worth cutting. */
static const int64_t part = 4096;
/* With this many results there is enough to do without cutting. */
static const int64_t enough_rows = 64;

/* A sum of columns is cut into parts of about as many rows, so that the kernel that computes the rows can sum them (the
   groups of compile/grouping.h), with parts on several threads. It must be worth the cost, unless there are more rows
   than such a kernel sums in one chain; and the rows must be long enough for lanes. */
static const int64_t part_rows = 64, least_columns = 32, least_elements = 65536, most_rows = 256;

/* The largest divisor of n up to `size`, if it is not too small. */
static int64_t divisor_near(int64_t n, int64_t size, int64_t least)
{
    for (int64_t d = size; d >= least; d--)
        if (n % d == 0)
            return d;
    return 0;
}

int64_t flxi_free_divisor(const int64_t *free, int64_t extent)
{
    for (int i = 0; free && i < 2; i++)
        if (free[i] && extent % free[i] == 0)
            return free[i];
    return 0;
}

/* How many elements of axes [from, to) a part has; 0: they are not cut. */
static int64_t part_of(const flx_type *t, int from, int to, const int64_t *free)
{
    int64_t count = 0, extent = flxi_static_extent(t, from, to);
    if (!flxi_static_count(t, &count) || count == 0 || from + 2 + (t->rank - to) > FLX_MAX_RANK)
        return 0;
    if (flxi_free_divisor(free, count)) {
        int64_t parts = flxi_free_divisor(free, extent);
        return parts && extent > parts ? extent / parts : 0;
    }
    int64_t outer = flxi_static_extent(t, 0, from), inner = flxi_static_extent(t, to, t->rank);
    bool is_worth = extent >= 2 * part_rows && (count >= least_elements || extent > most_rows);
    if (outer == 1 && inner >= least_columns && is_worth)
        return divisor_near(extent, part_rows, part_rows / 4);
    if (extent >= 2 * part && outer * inner < enough_rows)
        return divisor_near(extent, part, part / 64);
    return 0;
}

typedef struct {
    flx_graph *g;
    const int64_t *free;
    const char *op;
    flx_val x;
} reducing;

static void reduce_axes(reducing *r, const int64_t *axes, size_t n, bool keep_dims)
{
    const flx_attr attrs[2] = {{.key = "axes", .kind = FLX_ATTR_INTS, .as.ints = {axes, n}},
                               {.key = "keep_dims", .kind = FLX_ATTR_INT, .as.i = keep_dims}};
    flx_val y = FLX_NONE;
    flx_op(r->g, r->op, &r->x, 1, attrs, 2, &y, 1);
    r->x = y;
}

static void reduce_in_parts(reducing *r, const flx_type *t, int from, int to, int64_t size);

/* A part of an extent may consist of parts again where two extents stand for any. */
static void reduce_part(reducing *r, int axis)
{
    const flx_type *t = flx_val_type(r->g, r->x);
    int64_t size = t && flxi_free_divisor(r->free, t->dims[axis]) ? part_of(t, axis, axis + 1, r->free) : 0;
    if (size)
        reduce_in_parts(r, t, axis, axis + 1, size);
    else
        reduce_axes(r, &(int64_t){axis}, 1, false);
}

/* Axes [from, to) of x become [parts, part], and each is reduced. */
static void reduce_in_parts(reducing *r, const flx_type *t, int from, int to, int64_t size)
{
    flx_type parted = {.dtype = t->dtype};
    for (int k = 0; k < from; k++)
        parted.dims[parted.rank++] = t->dims[k];
    parted.dims[parted.rank++] = flxi_static_extent(t, from, to) / size;
    parted.dims[parted.rank++] = size;
    for (int k = to; k < t->rank; k++)
        parted.dims[parted.rank++] = t->dims[k];
    r->x = flx_reshape(r->g, r->x, (flx_ints){parted.dims, (size_t)parted.rank});
    reduce_part(r, from + 1);
    reduce_axes(r, &(int64_t){from}, 1, false);
    flx_type kept = *t;
    for (int k = from; k < to; k++)
        kept.dims[k] = 1;
    r->x = flx_reshape(r->g, r->x, (flx_ints){kept.dims, (size_t)kept.rank});
}

/* The same for a fold of positions along an axis. Columns are left whole: no kernel folds their positions by rows. */
static int64_t part_for_positions(const flx_type *t, int axis, const int64_t *free)
{
    bool by_columns = flxi_static_extent(t, 0, axis) == 1 && flxi_static_extent(t, axis + 1, t->rank) >= least_columns;
    return by_columns ? 0 : part_of(t, axis, axis + 1, free);
}

/* Whether the node has something to split. */
static bool is_split(const flx_graph *g, const flxi_node *n, const int64_t *free)
{
    const flxi_kfold *f = flxi_ops[n->op].rules->fold;
    if (!f || !flxi_type_is_static(flxi_type_at(g, n->in[0])))
        return false;
    const flx_ints axes = f->axes(n->attrs);
    const flx_type *t = flxi_type_at(g, n->in[0]);
    if (f->value_op)
        return part_for_positions(t, (int)axes.v[0], free) > 0;
    for (size_t k = 1; k < axes.n; k++)
        if (axes.v[k] != axes.v[k - 1] + 1)
            return true;
    return axes.n && part_of(t, (int)axes.v[0], (int)axes.v[axes.n - 1] + 1, free);
}

bool flxi_wants_splitting(const flx_graph *g, uint32_t i, const int64_t *free)
{
    return is_split(g, flxi_node_at(g, i), free);
}

static flx_val positions_along(flx_graph *g, const char *op, flx_val x, int64_t axis, bool keep_dims)
{
    const flx_attr attrs[3] = {{.key = "axis", .kind = FLX_ATTR_INT, .as.i = axis},
                               {.key = "keep_dims", .kind = FLX_ATTR_INT, .as.i = keep_dims},
                               {.key = "dtype", .kind = FLX_ATTR_WORD, .as.s = "i64"}};
    flx_val y = FLX_NONE;
    flx_op(g, op, &x, 1, attrs, 3, &y, 1);
    return y;
}

/* The winner of each part and its value, then the first part whose value wins: ties and NaN keep their order. */
static flx_code split_positions(flxi_copy *c, const flxi_node *n, const int64_t *free)
{
    flx_graph *g = c->to;
    const flxi_kfold *f = flxi_ops[n->op].rules->fold;
    const flx_type *t = flxi_type_at(c->from, n->in[0]), *out = flxi_type_at(c->from, n->first);
    int axis = (int)f->axes(n->attrs).v[0];
    int64_t size = part_for_positions(t, axis, free);
    flx_type parted = {.dtype = t->dtype, .rank = t->rank + 1};
    for (int k = 0; k < parted.rank; k++)
        parted.dims[k] = t->dims[k - (k > axis)];
    parted.dims[axis] = t->dims[axis] / size;
    parted.dims[axis + 1] = size;
    flx_val x = {c->remap.id[n->in[0]], g->serial};
    flx_ints shape = {parted.dims, (size_t)parted.rank}, result = {out->dims, (size_t)out->rank};
    x = flx_reshape(g, x, shape);
    flx_val inside = positions_along(g, flxi_ops[n->op].name, x, axis + 1, false);
    reducing values = {g, free, f->value_op, x};
    reduce_axes(&values, &(int64_t){axis + 1}, 1, false);
    flx_val which = positions_along(g, flxi_ops[n->op].name, values.x, axis, true);
    flx_val rest = flx_take_along(g, inside, which, axis, "clamp"); /* always in range: without a check */
    flx_val y = flx_add(g, flx_mul(g, which, flx_scalar(g, FLX_I64, (double)size)), rest);
    y = flx_cast(g, flx_reshape(g, y, result), (flx_dtype)out->dtype);
    flx_code code = flx_graph_error(g, c->err);
    if (code == FLX_OK)
        flxi_copy_replace(c, n->first, y.id);
    return code;
}

static flx_code split(flxi_copy *c, const flxi_node *n, const int64_t *free)
{
    if (flxi_ops[n->op].rules->fold->value_op)
        return split_positions(c, n, free);
    const flx_type *t = flxi_type_at(c->from, n->in[0]), *out = flxi_type_at(c->from, n->first);
    const flx_ints axes = flxi_ops[n->op].rules->fold->axes(n->attrs);
    reducing r = {c->to, free, flxi_ops[n->op].name, {c->remap.id[n->in[0]], c->to->serial}};
    bool is_narrow = t->dtype == FLX_F16 || t->dtype == FLX_BF16;
    if (is_narrow)
        r.x = flx_cast(c->to, r.x, FLX_F32);
    for (size_t end = axes.n; end > 0;) {
        size_t begin = end - 1;
        while (begin > 0 && axes.v[begin - 1] + 1 == axes.v[begin])
            begin--;
        const flx_type *now = flx_val_type(c->to, r.x);
        int from = (int)axes.v[begin], to = (int)axes.v[end - 1] + 1;
        int64_t size = now ? part_of(now, from, to, free) : 0;
        if (size)
            reduce_in_parts(&r, now, from, to, size);
        else
            reduce_axes(&r, axes.v + begin, end - begin, true);
        end = begin;
    }
    r.x = flx_reshape(c->to, r.x, (flx_ints){out->dims, (size_t)out->rank});
    if (is_narrow)
        r.x = flx_cast(c->to, r.x, (flx_dtype)t->dtype);
    flx_code code = flx_graph_error(c->to, c->err);
    if (code == FLX_OK)
        flxi_copy_replace(c, n->first, r.x.id);
    return code;
}

flx_code flxi_split_reductions(const flx_graph *in, const int64_t *free, flx_graph **out, flxi_remap *remap,
                               flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        code = is_split(in, n, free) ? split(&c, n, free) : flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}
