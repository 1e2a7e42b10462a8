/* SPDX-License-Identifier: Apache-2.0 */
/* whole_windows.c: windows that cover a whole axis are reductions over it. Frameworks write a mean over all positions
   as a pool with one window; as a reduction it is divided among lanes and threads, and joins the group around it,
   while windows are folded one tap after the other. The cotangent of a maximum over all positions goes to one of them,
   which is found by argmax.

   Only where all other axes have windows of one element, and padding does not change the result. */
#include "passes/pass.h"

#include "graph/op/attr_access.h"
#include "graph/op/site.h"
#include "ops/opcode.h"
#include "ops/signal/window.h"

#include <fluxion/ops.h>
#include <math.h>

typedef enum { FOLD_SUM, FOLD_MEAN, FOLD_MAX, FOLD_MIN, FOLD_PROD, FOLD_NONE } fold;

/* Fewer elements of a window are as fast one after the other. */
enum { FEW = 4 };

/* The axes that windows cover. */
typedef struct {
    int64_t axis[FLX_MAX_RANK];
    size_t n;
    bool is_padded;
} covered;

/* One window that has every element of the axis once. */
static bool covers(const flxi_slide *m, int64_t windows)
{
    return windows == 1 && m->dilation == 1 && m->base_dilation == 1 && m->low >= 0 && m->window - m->low >= m->extent;
}

static bool is_single(const flxi_slide *m, int64_t windows)
{
    return m->window == 1 && m->stride == 1 && m->base_dilation == 1 && m->low == 0 && m->extent == windows;
}

/* Of a pool: 1 for examples and channels. */
static int64_t entry(const flxi_node *n, const char *list, int64_t k, int64_t absent)
{
    const flx_ints *v = flxi_node_ints(n, list);
    return v->v && k >= 0 && k < (int64_t)v->n ? v->v[k] : absent;
}

static flxi_slide slide_of(const flxi_node *n, int k, int64_t extent)
{
    if (n->op == OP_reduce_window)
        return (flxi_slide){.extent = extent,
                            .window = entry(n, "window", k, 1),
                            .stride = entry(n, "strides", k, 1),
                            .low = entry(n, "pad_low", k, 0),
                            .base_dilation = entry(n, "base_dilation", k, 1),
                            .dilation = entry(n, "window_dilation", k, 1)};
    return (flxi_slide){.extent = extent,
                        .window = entry(n, "kernel_size", k - 2, 1),
                        .stride = entry(n, "stride", k - 2, 1),
                        .low = entry(n, "padding", 2 * (k - 2), 0),
                        .base_dilation = 1,
                        .dilation = 1};
}

/* False: there are other windows, or none that is worth it. `windows` has an element for each. */
static bool find_covered(const flx_graph *g, const flxi_node *n, uint32_t windows, covered *to)
{
    const flx_type *x = flxi_type_at(g, n->in[0]), *y = flxi_type_at(g, windows);
    int64_t elements = 1;
    *to = (covered){0};
    if (!flxi_is_float(x->dtype) || !flxi_type_is_static(x) || !flxi_type_is_static(y))
        return false;
    for (int k = 0; k < x->rank; k++) {
        flxi_slide m = slide_of(n, k, x->dims[k]);
        if (is_single(&m, y->dims[k]))
            continue;
        if (!covers(&m, y->dims[k]))
            return false;
        to->axis[to->n++] = k;
        to->is_padded = to->is_padded || m.window > m.extent;
        elements *= x->dims[k];
    }
    return elements > FEW;
}

/* ---- What is folded ---- */

static bool is_neutral(const flx_graph *g, uint32_t init, double neutral)
{
    const flx_tensor *t = flxi_uniform(g, init);
    return t && flx_tensor_get(t, 0) == neutral;
}

static fold fold_of_window(const flx_graph *g, const flxi_node *n)
{
    static const struct {
        fold fold;
        double neutral;
    } words[] = {[FLXI_WINDOW_ADD] = {FOLD_SUM, 0},
                 [FLXI_WINDOW_MAX] = {FOLD_MAX, -INFINITY},
                 [FLXI_WINDOW_MIN] = {FOLD_MIN, INFINITY},
                 [FLXI_WINDOW_MUL] = {FOLD_PROD, 1}};
    const flxi_combine *combine = flxi_attr_combine(&flxi_ops[n->op], n->attrs, "combine");
    if (n->nin != 2 || n->nout != 1 || !combine || flxi_window_word(combine) < 0)
        return FOLD_NONE;
    int64_t word = flxi_window_word(combine);
    return is_neutral(g, n->in[1], words[word].neutral) ? words[word].fold : FOLD_NONE;
}

static fold fold_of(const flx_graph *g, const flxi_node *n, const covered *c)
{
    static const struct {
        const char *kind;
        fold fold;
    } kinds[] = {{"mean", FOLD_MEAN}, {"sum", FOLD_SUM}, {"max", FOLD_MAX}, {"min", FOLD_MIN}, {"prod", FOLD_PROD}};
    fold found = FOLD_NONE;
    if (n->op == OP_reduce_window)
        return fold_of_window(g, n);
    for (size_t i = 0; n->op == OP_pool && i < sizeof kinds / sizeof *kinds; i++)
        if (flxi_attr_is_word(&flxi_ops[n->op], n->attrs, "kind", kinds[i].kind))
            found = kinds[i].fold;
    bool counts_padding = c->is_padded && flxi_node_int(n, "count_include_pad") != 0;
    return found == FOLD_MEAN && counts_padding ? FOLD_NONE : found;
}

/* ---- In the new graph ---- */

static flx_val reduced(flx_graph *g, flx_val x, fold how, const covered *c)
{
    const flx_ints axes = {c->axis, c->n};
    switch (how) {
    case FOLD_MEAN: return flx_reduce_mean(g, x, axes, 1);
    case FOLD_MAX: return flx_reduce_max(g, x, axes, 1);
    case FOLD_MIN: return flx_reduce_min(g, x, axes, 1);
    case FOLD_PROD: return flx_reduce_prod(g, x, axes, 1);
    default: return flx_reduce_sum(g, x, axes, 1);
    }
}

/* dy at the position of the largest element, zero elsewhere. */
static flx_val at_largest(flx_graph *g, flx_val x, flx_val dy, const flx_type *t)
{
    const int64_t rows = flxi_static_extent(t, 0, 2), row = flxi_static_extent(t, 2, t->rank);
    const flx_type positions = flx_type_make(FLX_I32, 1, &row);
    flxi_site s = flxi_plain_site(g);
    flx_val flat = flx_reshape(g, x, (flx_ints){(const int64_t[]){rows, row}, 2});
    flx_val at = flx_argmax(g, flat, 1, 1, FLX_I32);
    flx_val is_largest = flx_eq(g, flx_iota(g, &positions, 0), at);
    dy = flx_reshape(g, dy, (flx_ints){(const int64_t[]){rows, 1}, 2});
    flx_val dx = flx_where(g, is_largest, dy, flxi_number(&s, dy, 0));
    return flx_reshape(g, dx, (flx_ints){t->dims, (size_t)t->rank});
}

/* All spatial axes are one window, of which positions are counted in 32 bits. */
static bool is_one_largest(const flx_graph *g, const flxi_node *n, const covered *c)
{
    const flx_type *x = flxi_type_at(g, n->in[0]);
    return n->op == OP_max_pool_backward && flxi_static_extent(x, 2, x->rank) < INT32_MAX && x->rank >= 3 && c->n > 0 &&
           flxi_static_extent(flxi_type_at(g, n->in[1]), 2, x->rank) == 1;
}

/* FLX_NONE: the node stays. */
static flx_val replacement(const flxi_copy *c, const flxi_node *n)
{
    bool is_backward = n->op == OP_max_pool_backward;
    covered axes;
    if (n->op != OP_pool && n->op != OP_reduce_window && !is_backward)
        return FLX_NONE;
    if (!find_covered(c->from, n, is_backward ? n->in[1] : n->first, &axes))
        return FLX_NONE;
    const flx_val x = {c->remap.id[n->in[0]], c->to->serial};
    if (is_backward && is_one_largest(c->from, n, &axes))
        return at_largest(c->to, x, (flx_val){c->remap.id[n->in[1]], c->to->serial}, flxi_type_at(c->from, n->in[0]));
    fold how = is_backward ? FOLD_NONE : fold_of(c->from, n, &axes);
    return how == FOLD_NONE ? FLX_NONE : reduced(c->to, x, how, &axes);
}

flx_code flxi_pass_whole_windows(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        flx_val y = replacement(&c, n);
        code = flxi_built(c.to, err);
        if (code == FLX_OK && y.id)
            flxi_copy_replace(&c, n->first, y.id);
        else if (code == FLX_OK)
            code = flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}
