/* SPDX-License-Identifier: Apache-2.0 */
/* layout_nodes.c: nodes that compute the same wherever the channels are, and their form with channels last. */
#include "passes/layout/layout.h"

#include "graph/op/attr_access.h"
#include "graph/op/origin.h"
#include "ops/opcode.h"

/* ---- Which nodes these are ---- */

static const flxi_layout_row rows[] = {
    {.op = OP_reduce_sum, .axes = "axes"},
    {.op = OP_reduce_mean, .axes = "axes"},
    {.op = OP_reduce_max, .axes = "axes"},
    {.op = OP_reduce_min, .axes = "axes"},
    {.op = OP_reduce_prod, .axes = "axes"},
    {.op = OP_reduce_any, .axes = "axes"},
    {.op = OP_reduce_all, .axes = "axes"},
    {.op = OP_expand, .lists = {"shape"}},
    {.op = OP_pad, .lists = {"low", "high", "interior"}},
    {.op = OP_slice, .lists = {"start", "limit", "stride"}},
    {.op = OP_narrow, .axis = "axis"},
    {.op = OP_reverse, .axes = "axes"},
    {.op = OP_concat, .axis = "axis"},
    {.op = OP_reduce_window, .lists = {"window", "strides", "pad_low", "pad_high", "base_dilation", "window_dilation"}},
    {.op = OP_select_and_scatter, .lists = {"window", "strides", "pad_low", "pad_high"}},
    {.op = OP_reshape, .is_reshape = true},
    {.op = OP_squeeze, .is_reshape = true},
    {.op = OP_unsqueeze, .is_reshape = true},
    {.op = OP_pool, .is_pool = true},
    {.op = OP_max_pool_backward, .is_pool = true},
};

static bool is_reduction(const flxi_node *n)
{
    return flxi_ops[n->op].op_class == CLASS_REDUCE;
}

const flxi_layout_row *flxi_layout_row_of(const flxi_node *n)
{
    static const flxi_layout_row pointwise = {0};
    if (flxi_ops[n->op].op_class == CLASS_POINTWISE && flxi_ops[n->op].rules->element)
        return &pointwise;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == n->op)
            return &rows[i];
    return NULL;
}

static bool holds(const flx_ints *list, int64_t x)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i] == x)
            return true;
    return false;
}

/* How far the axis of the result is from that of the operand: axes that are not kept are gone, others align at the
   right. */
static int reduced_axis(const flxi_node *n, int axis)
{
    const flx_ints *axes = flxi_node_ints(n, "axes");
    int to = axis;
    for (int k = 0; k < axis; k++)
        to -= holds(axes, k);
    return holds(axes, axis) ? FLXI_NO_CHANNELS : to;
}

/* ---- Axes of extent 1 that come or go ---- */

/* The axis longer than 1 that `number` such axes precede; the rank: there is none. */
static int long_axis(const flx_type *t, int number)
{
    int axis = 0;
    for (; axis < t->rank; axis++)
        if (t->dims[axis] != 1 && number-- == 0)
            break;
    return axis;
}

static int long_axes_before(const flx_type *t, int axis)
{
    int n = 0;
    for (int k = 0; k < axis; k++)
        n += t->dims[k] != 1;
    return n;
}

bool flxi_layout_keeps_axes(const flx_type *x, const flx_type *y)
{
    int n = long_axes_before(x, x->rank);
    bool same = n == long_axes_before(y, y->rank);
    for (int i = 0; same && i < n; i++)
        same = x->dims[long_axis(x, i)] == y->dims[long_axis(y, i)];
    return same;
}

static int reshaped_axis(const flx_type *from, const flx_type *to, int axis)
{
    return from->dims[axis] == 1 ? FLXI_NO_CHANNELS : long_axis(to, long_axes_before(from, axis));
}

/* ---- Which axis becomes which ---- */

int flxi_layout_after(const flx_graph *g, const flxi_node *n, uint32_t k, int channel)
{
    const flx_type *x = flxi_type_at(g, n->in[k]), *y = flxi_type_at(g, n->first);
    if (flxi_layout_row_of(n)->is_reshape)
        return reshaped_axis(x, y, channel);
    if (is_reduction(n) && x->rank != y->rank)
        return reduced_axis(n, channel);
    return channel + y->rank - x->rank;
}

int flxi_layout_before(const flx_graph *g, const flxi_node *n, uint32_t k, int channel)
{
    const flx_type *x = flxi_type_at(g, n->in[k]), *y = flxi_type_at(g, n->first);
    if (flxi_layout_row_of(n)->is_reshape)
        return reshaped_axis(y, x, channel);
    if (!is_reduction(n) || x->rank == y->rank)
        return channel + x->rank - y->rank >= 0 ? channel + x->rank - y->rank : FLXI_NO_CHANNELS;
    for (int axis = 0; axis < x->rank; axis++)
        if (reduced_axis(n, axis) == channel)
            return axis;
    return FLXI_NO_CHANNELS;
}

/* ---- Values in the new graph ---- */

static flx_val value(const flxi_layout *w, uint32_t id)
{
    return (flx_val){id, w->c.to->serial};
}

static void last_dims(const flx_type *t, int channel, int64_t *dims)
{
    for (int k = 0; k < t->rank; k++)
        dims[flxi_layout_axis(k, channel, t->rank)] = t->dims[k];
}

flx_val flxi_layout_last(flxi_layout *w, uint32_t old, int channel)
{
    const flx_type *t = flxi_type_at(w->c.from, old);
    int64_t dims[FLX_MAX_RANK + 1], perm[FLX_MAX_RANK];
    if (channel >= 0 && w->moved[old])
        return value(w, w->moved[old]);
    flxi_layout_first(w, old);
    flx_val x = value(w, w->c.remap.id[old]);
    if (t->rank == 0 || channel == t->rank - 1)
        return x;
    if (channel < 0) {
        memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
        dims[t->rank] = 1;
        return flx_reshape(w->c.to, x, (flx_ints){dims, (size_t)t->rank + 1});
    }
    if (flxi_layout_is_free(t, channel)) {
        last_dims(t, channel, dims);
        return flx_reshape(w->c.to, x, (flx_ints){dims, (size_t)t->rank});
    }
    for (int k = 0; k < t->rank; k++)
        perm[flxi_layout_axis(k, channel, t->rank)] = k;
    if (!w->turned[old])
        w->turned[old] = flx_transpose(w->c.to, x, (flx_ints){perm, (size_t)t->rank}).id;
    return value(w, w->turned[old]);
}

/* `x` with the axis where it was in a value of this type. */
static flx_val with_axis_back(flxi_layout *w, flx_val x, const flx_type *t, int channel)
{
    int64_t perm[FLX_MAX_RANK];
    if (flxi_layout_is_free(t, channel))
        return flx_reshape(w->c.to, x, (flx_ints){t->dims, (size_t)t->rank});
    for (int k = 0; k < t->rank; k++)
        perm[k] = flxi_layout_axis(k, channel, t->rank);
    return flx_transpose(w->c.to, x, (flx_ints){perm, (size_t)t->rank});
}

void flxi_layout_first(flxi_layout *w, uint32_t old)
{
    if (w->c.remap.id[old] || !w->moved[old])
        return;
    flx_val x = with_axis_back(w, value(w, w->moved[old]), flxi_type_at(w->c.from, old), w->choice.channel[old]);
    if (x.id)
        flxi_copy_replace(&w->c, old, x.id);
}

/* ---- Attributes ---- */

/* Another list for a copy of the node's attributes. */
static flx_code set_list(flxi_layout *w, const flxi_node *n, void *attrs, const char *name, const flx_ints *list)
{
    const void *field = flxi_attr_field(&flxi_ops[n->op], attrs, name, STORED_INTS);
    int64_t *own = flxi_new(&w->c.to->arena, int64_t, list->n + 1);
    if (!own)
        return flxi_oom(w->c.err, "a pass");
    memcpy(own, list->v, list->n * sizeof *own);
    if (field)
        *(flx_ints *)((char *)attrs + ((const char *)field - (const char *)attrs)) = (flx_ints){own, list->n};
    return FLX_OK;
}

static flx_code move_list(flxi_layout *w, const flxi_node *n, void *attrs, const char *name, int channel)
{
    const flx_ints *old = flxi_node_ints(n, name);
    int64_t dims[FLX_MAX_RANK];
    if (!old->v)
        return FLX_OK;
    for (size_t k = 0; k < old->n && k < FLX_MAX_RANK; k++)
        dims[flxi_layout_axis((int64_t)k, channel, (int)old->n)] = old->v[k];
    return set_list(w, n, attrs, name, &(flx_ints){dims, old->n});
}

static flx_code move_axes(flxi_layout *w, const flxi_node *n, void *attrs, const char *name, int channel, int rank)
{
    const flx_ints *old = flxi_node_ints(n, name);
    int64_t axes[FLX_MAX_RANK];
    for (size_t k = 0; k < old->n; k++)
        axes[k] = flxi_layout_axis(old->v[k], channel, rank);
    return set_list(w, n, attrs, name, &(flx_ints){axes, old->n});
}

static flx_code copy_attrs(flxi_layout *w, const flxi_node *n, void **attrs)
{
    const flxi_attr_map same = {0};
    return flxi_attrs_clone(w->c.to, &flxi_ops[n->op], n->attrs, &same, attrs, w->c.err);
}

/* `channel` and `rank` are those of the tensor whose axes the attributes mean. */
static flx_code move_attrs(flxi_layout *w, const flxi_node *n, int channel, int rank, void **attrs)
{
    const flxi_layout_row *row = flxi_layout_row_of(n);
    FLXI_TRY(copy_attrs(w, n, attrs));
    for (size_t i = 0; i < sizeof row->lists / sizeof *row->lists && row->lists[i]; i++)
        FLXI_TRY(move_list(w, n, *attrs, row->lists[i], channel));
    if (row->axes)
        FLXI_TRY(move_axes(w, n, *attrs, row->axes, channel, rank));
    if (row->axis)
        flxi_attr_set_int(&flxi_ops[n->op], *attrs, row->axis,
                          flxi_layout_axis(flxi_node_int(n, row->axis), channel, rank));
    return FLX_OK;
}

/* The list with entries for one more spatial axis, along which nothing moves. */
static flx_code longer_list(flxi_layout *w, const flxi_node *n, void *attrs, const char *name, int64_t more, size_t by)
{
    const flx_ints *old = flxi_node_ints(n, name);
    int64_t list[2 * FLX_MAX_RANK + 2];
    memcpy(list, old->v, old->n * sizeof *list);
    list[old->n] = list[old->n + by - 1] = more;
    return set_list(w, n, attrs, name, &(flx_ints){list, old->n + by});
}

static flx_code pool_attrs(flxi_layout *w, const flxi_node *n, void **attrs)
{
    FLXI_TRY(copy_attrs(w, n, attrs));
    FLXI_TRY(longer_list(w, n, *attrs, "kernel_size", 1, 1));
    FLXI_TRY(longer_list(w, n, *attrs, "stride", 1, 1));
    return longer_list(w, n, *attrs, "padding", 0, 2);
}

/* ---- Nodes in the new graph ---- */

/* [N, spatial…, C] as [N, 1, spatial…, C]: one channel, and the channels as the last spatial axis. */
static flx_val as_spatial(flxi_layout *w, flx_val x)
{
    const flx_type *t = flxi_type_at(w->c.to, x.id);
    int64_t dims[FLX_MAX_RANK + 1] = {t->dims[0], 1};
    memcpy(dims + 2, t->dims + 1, ((size_t)t->rank - 1) * sizeof *dims);
    return flx_reshape(w->c.to, x, (flx_ints){dims, (size_t)t->rank + 1});
}

static flx_val from_spatial(flxi_layout *w, flx_val x)
{
    const flx_type *t = flxi_type_at(w->c.to, x.id);
    int64_t dims[FLX_MAX_RANK] = {t->dims[0]};
    memcpy(dims + 1, t->dims + 2, ((size_t)t->rank - 2) * sizeof *dims);
    return flx_reshape(w->c.to, x, (flx_ints){dims, (size_t)t->rank - 1});
}

static flx_code append(flxi_layout *w, const flxi_node *n, const flx_val *x, void *attrs, flx_val *y)
{
    uint32_t *in = flxi_new(&w->c.to->arena, uint32_t, n->nin);
    if (!in)
        return flxi_oom(w->c.err, "a pass");
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = x[k].id;
    FLXI_TRY(flxi_built(w->c.to, w->c.err));
    w->c.to->pending_label = flxi_value_at(w->c.from, n->first)->name;
    *y = value(w, flxi_add_node(w->c.to, n->op, in, n->nin, attrs));
    w->c.to->pending_label = NULL;
    return flxi_built(w->c.to, w->c.err);
}

flx_code flxi_layout_keep(flxi_layout *w, const flxi_node *n, flx_val y)
{
    const char *name = flxi_value_at(w->c.from, n->first)->name;
    FLXI_TRY(flxi_built(w->c.to, w->c.err));
    flxi_copy_origin(w->c.to, n);
    if (!flxi_layout_moves(&w->choice, n->first)) {
        flxi_copy_replace(&w->c, n->first, y.id);
        return FLX_OK;
    }
    w->moved[n->first] = y.id;
    if (name)
        flxi_label(w->c.to, y.id, name, strlen(name));
    return FLX_OK;
}

/* The node on operands with their channels last; its result has them last too. */
static flx_code append_moved(flxi_layout *w, const flxi_node *n, flx_val *in, flx_val *result)
{
    const flx_type *x = flxi_type_at(w->c.from, n->in[0]), *y = flxi_type_at(w->c.from, n->first);
    const flxi_layout_row *row = flxi_layout_row_of(n);
    int channel = w->choice.channel[n->first];
    int64_t dims[FLX_MAX_RANK];
    void *attrs;
    if (row->is_reshape) {
        last_dims(y, channel, dims);
        *result = flx_reshape(w->c.to, in[0], (flx_ints){dims, (size_t)y->rank});
        return flxi_built(w->c.to, w->c.err);
    }
    for (uint32_t k = 0; row->is_pool && k < n->nin; k++)
        in[k] = as_spatial(w, in[k]);
    if (row->is_pool)
        FLXI_TRY(pool_attrs(w, n, &attrs));
    else if (is_reduction(n))
        FLXI_TRY(move_attrs(w, n, w->choice.channel[n->in[0]], x->rank, &attrs));
    else
        FLXI_TRY(move_attrs(w, n, channel, y->rank, &attrs));
    FLXI_TRY(append(w, n, in, attrs, result));
    *result = row->is_pool ? from_spatial(w, *result) : *result;
    return FLX_OK;
}

flx_code flxi_layout_follow(flxi_layout *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->c.from, i);
    int channel = w->choice.channel[n->first];
    flx_val *in = flxi_new(&w->c.to->arena, flx_val, n->nin), result;
    if (!in)
        return flxi_oom(w->c.err, "a pass");
    for (uint32_t k = 0; k < n->nin; k++) {
        int before = is_reduction(n) ? w->choice.channel[n->in[k]] : flxi_layout_before(w->c.from, n, k, channel);
        in[k] = flxi_layout_last(w, n->in[k], before);
        FLXI_TRY(flxi_built(w->c.to, w->c.err));
    }
    FLXI_TRY(append_moved(w, n, in, &result));
    if (channel >= 0 && !flxi_layout_moves(&w->choice, n->first))
        result = with_axis_back(w, result, flxi_type_at(w->c.from, n->first), channel);
    return flxi_layout_keep(w, n, result);
}
