/* SPDX-License-Identifier: Apache-2.0 */
/* layout_convs.c: convolutions of tensors that have their channels last. `conv` takes any layout. The other three do
   not: they become the conv that computes the same sums (ops/signal/conv_rules.c). With r the part of the padded input
   after the last window and a window that reaches over e elements after its first,
       towards the input   the flipped kernel, its two features exchanged, slides over z spread by the stride and padded
                           by e - low and e - high + r,
       towards the weights z, whose batch is the summed feature, slides over x padded by low and high - r. */
#include "passes/layout/layout.h"

#include "graph/op/attr_access.h"
#include "ops/opcode.h"
#include "ops/signal/conv.h"

int flxi_layout_of_conv(const flxi_node *n, uint32_t k)
{
    const flxi_conv_attrs *general = flxi_conv_attrs_of(n->op, n->attrs);
    bool is_kernel = n->op == OP_conv_backward_weight ? k == n->nin : k == 1;
    if (!flxi_conv_common_of(n->op, n->attrs) || n->nin != 2 || is_kernel)
        return FLXI_NO_CHANNELS;
    return general ? (int)(k == n->nin ? general->output_axes : general->input_axes).v[1] : 1;
}

/* ---- Layouts ---- */

typedef struct {
    int64_t v[FLX_MAX_RANK];
    int rank;
} axes;

static flx_ints list_of(const axes *a)
{
    return (flx_ints){a->v, (size_t)a->rank};
}

static axes plain_axes(int rank)
{
    axes a = {.rank = rank};
    for (int k = 0; k < rank; k++)
        a.v[k] = k;
    return a;
}

/* Batch and feature exchanged. */
static axes exchanged(axes a)
{
    int64_t first = a.v[0];
    a.v[0] = a.v[1];
    a.v[1] = first;
    return a;
}

/* Where the parts of an activation are, given the axes they had, or NULL where these were [0, 1, 2, ...]. */
static axes axes_of(const flxi_layout *w, uint32_t value, const flx_ints *before)
{
    int rank = flxi_type_at(w->c.from, value)->rank;
    axes a = plain_axes(rank);
    for (int k = 0; k < rank; k++) {
        a.v[k] = before ? before->v[k] : k;
        if (flxi_layout_moves(&w->choice, value))
            a.v[k] = flxi_layout_axis(a.v[k], w->choice.channel[value], rank);
    }
    return a;
}

/* The value as it was, and as axes_of() says. */
static flx_val plain(flxi_layout *w, uint32_t value)
{
    flxi_layout_first(w, value);
    return (flx_val){w->c.remap.id[value], w->c.to->serial};
}

static flx_val stored(flxi_layout *w, uint32_t value)
{
    if (flxi_layout_moves(&w->choice, value))
        return (flx_val){w->moved[value], w->c.to->serial};
    return plain(w, value);
}

/* ---- One conv for each ---- */

static flx_conv_attrs attrs_of(const flxi_conv_common *a)
{
    flx_conv_attrs to = FLX_CONV_ATTRS;
    to.stride = a->stride;
    to.padding = a->padding;
    to.dilation = a->dilation;
    to.groups = a->groups;
    return to;
}

static flx_val forward(flxi_layout *w, const flxi_node *n)
{
    const flxi_conv_attrs *a = flxi_conv_attrs_of(n->op, n->attrs);
    axes from = axes_of(w, n->in[0], &a->input_axes), to = axes_of(w, n->first, &a->output_axes);
    flx_conv_attrs all = attrs_of(&a->common);
    all.input_dilation = a->input_dilation;
    all.batch_groups = a->batch_groups;
    all.reverse = a->reverse;
    all.input_axes = list_of(&from);
    all.kernel_axes = a->kernel_axes;
    all.output_axes = list_of(&to);
    return flx_conv_with(w->c.to, stored(w, n->in[0]), plain(w, n->in[1]), &all);
}

/* The reach of a window along spatial axis k, and what it leaves of the padded input. */
static int64_t reach_of(const flxi_slide *s)
{
    return (s->window - 1) * s->dilation;
}

static int64_t rest_of(const flxi_slide *s, int64_t positions)
{
    return s->extent + s->low + s->high - reach_of(s) - 1 - (positions - 1) * s->stride;
}

/* w [G F, C, K…] as [F, G C, K…]: each group's own features are summed. */
static flx_val turned_kernel(flx_graph *g, flx_val w, int64_t groups)
{
    if (groups == 1 || !w.id)
        return w;
    const flx_type t = *flxi_type_at(g, w.id);
    int64_t dims[FLX_MAX_RANK + 1] = {groups, t.dims[0] / groups}, perm[FLX_MAX_RANK + 1] = {1, 0};
    for (int k = 1; k < t.rank; k++) {
        dims[k + 1] = t.dims[k];
        perm[k + 1] = k + 1;
    }
    flx_val v = flx_reshape(g, w, (flx_ints){dims, (size_t)t.rank + 1});
    v = flx_transpose(g, v, (flx_ints){perm, (size_t)t.rank + 1});
    dims[0] = t.dims[0] / groups;
    dims[1] = groups * t.dims[1];
    memcpy(dims + 2, t.dims + 2, ((size_t)t.rank - 2) * sizeof *dims);
    return flx_reshape(g, v, (flx_ints){dims, (size_t)t.rank});
}

static flx_val to_input(flxi_layout *w, const flxi_node *n)
{
    const flxi_conv_common *a = flxi_conv_common_of(n->op, n->attrs);
    const flx_type *x = flxi_type_at(w->c.from, n->first), *z = flxi_type_at(w->c.from, n->in[0]);
    const flx_type *kernel = flxi_type_at(w->c.from, n->in[1]);
    int64_t padding[2 * FLX_MAX_RANK], flipped[FLX_MAX_RANK], ones[FLX_MAX_RANK];
    axes from = axes_of(w, n->in[0], NULL), middle = exchanged(plain_axes(x->rank)), to = axes_of(w, n->first, NULL);
    size_t spatial = (size_t)x->rank - 2;
    for (size_t k = 0; k < spatial; k++) {
        flxi_slide s = flxi_conv_slide(a, k, x->dims[k + 2], kernel->dims[k + 2]);
        padding[2 * k] = reach_of(&s) - s.low;
        padding[2 * k + 1] = reach_of(&s) - s.high + rest_of(&s, z->dims[k + 2]);
        flipped[k] = ones[k] = 1;
    }
    flx_conv_attrs all = attrs_of(a);
    all.stride = (flx_ints){ones, spatial};
    all.padding = (flx_ints){padding, 2 * spatial};
    all.input_dilation = a->stride;
    all.reverse = (flx_ints){flipped, spatial};
    all.input_axes = list_of(&from);
    all.kernel_axes = list_of(&middle);
    all.output_axes = list_of(&to);
    flx_val turned = turned_kernel(w->c.to, plain(w, n->in[1]), a->groups);
    return flx_conv_with(w->c.to, stored(w, n->in[0]), turned, &all);
}

static flx_val to_weight(flxi_layout *w, const flxi_node *n)
{
    const flxi_conv_common *a = flxi_conv_common_of(n->op, n->attrs);
    const flx_type *x = flxi_type_at(w->c.from, n->in[0]), *z = flxi_type_at(w->c.from, n->in[1]);
    const flx_type *kernel = flxi_type_at(w->c.from, n->first);
    int64_t padding[2 * FLX_MAX_RANK];
    axes from = exchanged(axes_of(w, n->in[0], NULL)), middle = exchanged(axes_of(w, n->in[1], NULL));
    axes to = exchanged(plain_axes(x->rank));
    size_t spatial = (size_t)x->rank - 2;
    for (size_t k = 0; k < spatial; k++) {
        flxi_slide s = flxi_conv_slide(a, k, x->dims[k + 2], kernel->dims[k + 2]);
        padding[2 * k] = s.low;
        padding[2 * k + 1] = s.high - rest_of(&s, z->dims[k + 2]);
    }
    flx_conv_attrs all = attrs_of(a);
    all.stride = a->dilation;
    all.padding = (flx_ints){padding, 2 * spatial};
    all.dilation = a->stride;
    all.groups = 1;
    all.batch_groups = a->groups;
    all.input_axes = list_of(&from);
    all.kernel_axes = list_of(&middle);
    all.output_axes = list_of(&to);
    return flx_conv_with(w->c.to, stored(w, n->in[0]), stored(w, n->in[1]), &all);
}

flx_code flxi_layout_conv(flxi_layout *w, uint32_t i)
{
    const flxi_node *n = flxi_node_at(w->c.from, i);
    bool is_to_weight = n->op == OP_conv_backward_weight;
    flx_val y = n->op == OP_conv ? forward(w, n) : is_to_weight ? to_weight(w, n) : to_input(w, n);
    return flxi_layout_keep(w, n, y);
}
