/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_pool.c: poolings. */
#include "graph/type/type.h"
#include "onnx/import/rule/onnx_window.h"

/* A fold over windows of [N, C, spatial…]; padding is `start`. */
static flx_val fold(onnx_site *s, flx_val x, const onnx_window *w, const char *combine, flx_val start, bool is_padded)
{
    int64_t window[FLX_MAX_RANK] = {1, 1}, stride[FLX_MAX_RANK] = {1, 1}, dilation[FLX_MAX_RANK] = {1, 1};
    int64_t low[FLX_MAX_RANK] = {0}, high[FLX_MAX_RANK] = {0};
    size_t n = (size_t)w->spatial + 2;
    for (int i = 0; i < w->spatial; i++) {
        window[i + 2] = w->kernel[i];
        stride[i + 2] = w->stride[i];
        dilation[i + 2] = w->dilation[i];
        low[i + 2] = is_padded ? w->low[i] : 0;
        high[i + 2] = is_padded ? w->high[i] + w->extra[i] : w->extra[i];
    }
    flx_val in[2] = {x, start}, y = FLX_NONE;
    flx_reduce_window(s->g, in, 2, &y, 1, .window = {window, n}, .combine = {.word = combine}, .strides = {stride, n},
                      .window_dilation = {dilation, n}, .pad_low = {low, n}, .pad_high = {high, n});
    return y;
}

static bool is_plain(const onnx_window *w)
{
    for (int i = 0; i < w->spatial; i++)
        if (w->dilation[i] != 1 || w->extra[i] || w->low[i] >= w->kernel[i] || w->high[i] >= w->kernel[i])
            return false;
    return true;
}

static flx_val plain_pool(onnx_site *s, flx_val x, const onnx_window *w, const char *kind, bool with_pad)
{
    size_t n = (size_t)w->spatial;
    return flx_pool(s->g, x, .kind = kind, .kernel_size = {w->kernel, n}, .stride = {w->stride, n},
                    .padding = flxi_onnx_padding(s, w), .count_include_pad = with_pad);
}

/* ---- Averages ---- */

/* The number of elements that each window has: a window over ones. */
static flx_val counts(onnx_site *s, flx_val x, onnx_window w, bool with_pad)
{
    const flx_type *t = flxi_onnx_typeof(s, x);
    flx_dim dims[FLX_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        dims[i] = i < 2 ? 1 : t->dims[i] + (with_pad ? w.low[i - 2] + w.high[i - 2] : 0);
    flx_val ones = flxi_onnx_fill(s, flxi_onnx_number(s, x, 1), (flx_ints){dims, (size_t)t->rank});
    return fold(s, ones, &w, "add", flxi_onnx_number(s, x, 0), !with_pad);
}

void flxi_onnx_import_average_pool(onnx_site *s)
{
    onnx_window w;
    bool with_pad = flxi_onnx_int(s, "count_include_pad", 0) != 0;
    if (!flxi_onnx_window(s, s->x[0], NULL, &w))
        return;
    if (is_plain(&w)) {
        s->y[0] = plain_pool(s, s->x[0], &w, "mean", with_pad);
        return;
    }
    if (!flxi_type_is_static(flxi_onnx_typeof(s, s->x[0]))) {
        flxi_onnx_unsupported(s, "ceil_mode or dilations with symbolic extents");
        return;
    }
    flx_val sum = fold(s, s->x[0], &w, "add", flxi_onnx_number(s, s->x[0], 0), true);
    s->y[0] = flx_div(s->g, sum, counts(s, s->x[0], w, with_pad));
}

/* Over all positions. */
void flxi_onnx_import_global_pool(onnx_site *s)
{
    int rank = flxi_onnx_rank(s, s->x[0]);
    int64_t axes[FLX_MAX_RANK];
    for (int i = 2; i < rank; i++)
        axes[i - 2] = i;
    flx_attr a[] = {flx_attr_ints("axes", (flx_ints){axes, rank > 2 ? (size_t)rank - 2 : 0}),
                    flx_attr_int("keep_dims", 1)};
    s->y[0] = flx_op1(s->g, s->row->ours, s->x, 1, a, 2);
}

static flx_val powers(onnx_site *s, flx_val x, double p)
{
    return p == 2 ? flx_square(s->g, x) : flx_pow(s->g, flx_abs(s->g, x), flxi_onnx_number(s, x, p));
}

void flxi_onnx_import_lp_pool(onnx_site *s)
{
    onnx_window w;
    double p = (double)flxi_onnx_int(s, "p", 2);
    if (!flxi_onnx_window(s, s->x[0], NULL, &w))
        return;
    flx_val sum = fold(s, powers(s, s->x[0], p), &w, "add", flxi_onnx_number(s, s->x[0], 0), true);
    s->y[0] = flx_pow(s->g, sum, flxi_onnx_number(s, sum, 1 / p));
}

void flxi_onnx_import_global_lp_pool(onnx_site *s)
{
    double p = (double)flxi_onnx_int(s, "p", 2);
    int rank = flxi_onnx_rank(s, s->x[0]);
    int64_t axes[FLX_MAX_RANK];
    for (int i = 2; i < rank; i++)
        axes[i - 2] = i;
    flx_val sum =
        flx_reduce_sum(s->g, powers(s, s->x[0], p), .axes = {axes, rank > 2 ? (size_t)rank - 2 : 0}, .keep_dims = 1);
    s->y[0] = flx_pow(s->g, sum, flxi_onnx_number(s, sum, 1 / p));
}

/* ---- Maxima ---- */

/* The lowest number of the dtype, as the start of a maximum. */
static flx_val lowest(onnx_site *s, flx_val x)
{
    flx_type none = {.dtype = (int32_t)flxi_onnx_dtype(s, x), .rank = 1, .dims = {0}};
    flx_val empty =
        flx_reshape(s->g, flxi_onnx_fill(s, flxi_onnx_number(s, x, 0), (flx_ints){none.dims, 1}), .shape = FLX_INTS(0));
    return flx_reduce_max(s->g, empty);
}

/* Positions in the whole tensor, as the second result has them. With storage_order 1 the axes of a position run the
   other way. */
static flx_val whole_positions(onnx_site *s, flx_val x, flx_val at)
{
    const flx_type *t = flxi_onnx_typeof(s, x);
    int64_t plane = 1;
    for (int i = 2; i < t->rank; i++)
        plane *= t->dims[i];
    if (flxi_onnx_int(s, "storage_order", 0) && t->rank == 4) {
        flx_val w = flx_scalar(s->g, FLX_I64, (double)t->dims[3]), h = flx_scalar(s->g, FLX_I64, (double)t->dims[2]);
        at = flx_add(s->g, flx_mul(s->g, flx_rem(s->g, at, w), h), flx_div(s->g, at, w));
    }
    flx_type planes = flx_type_make(FLX_I64, 1, &(flx_dim){t->dims[0] * t->dims[1]});
    flx_val first = flx_mul(s->g, flx_iota(s->g, .type = &planes), flx_scalar(s->g, FLX_I64, (double)plane));
    flx_dim dims[FLX_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        dims[i] = i < 2 ? t->dims[i] : 1;
    return flx_add(s->g, at, flx_reshape(s->g, first, .shape = {dims, (size_t)t->rank}));
}

void flxi_onnx_import_max_pool(onnx_site *s)
{
    onnx_window w;
    flx_val x = s->x[0];
    if (!flxi_onnx_window(s, x, NULL, &w))
        return;
    bool plain = is_plain(&w);
    bool with_positions = s->ny > 1 && s->node->outputs[1][0];
    s->y[0] = plain ? plain_pool(s, x, &w, "max", true) : fold(s, x, &w, "max", lowest(s, x), true);
    if (!with_positions)
        return;
    if (!plain || !flxi_type_is_static(flxi_onnx_typeof(s, x))) {
        flxi_onnx_unsupported(s, "positions of a pooling with dilations, ceil_mode or symbolic extents");
        return;
    }
    size_t n = (size_t)w.spatial;
    flx_val at = flx_pool_argmax(s->g, x, .kernel_size = {w.kernel, n}, .stride = {w.stride, n},
                                 .padding = flxi_onnx_padding(s, &w));
    s->y[1] = whole_positions(s, x, flxi_onnx_cast(s, at, FLX_I64));
}

/* Each value goes to its position in a tensor of zeros. */
void flxi_onnx_import_max_unpool(onnx_site *s)
{
    onnx_window w;
    flx_val x = s->x[0];
    const flx_type *t = flxi_onnx_typeof(s, x);
    if (!flxi_onnx_window(s, x, NULL, &w) || !flxi_type_is_static(t)) {
        flxi_onnx_unsupported(s, "a symbolic extent");
        return;
    }
    flx_dim dims[FLX_MAX_RANK];
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++) {
        dims[i] =
            i < 2 ? t->dims[i] : (t->dims[i] - 1) * w.stride[i - 2] + w.kernel[i - 2] - w.low[i - 2] - w.high[i - 2];
        count *= dims[i];
    }
    flx_val at = flx_reshape(s->g, s->x[1], .shape = FLX_INTS(-1));
    flx_val y = flx_scatter_add(s->g, flx_reshape(s->g, x, .shape = FLX_INTS(-1)), at, .R = count);
    y = flx_reshape(s->g, y, .shape = {dims, (size_t)t->rank});
    flx_ints shape;
    int64_t high[FLX_MAX_RANK] = {0};
    if (flxi_onnx_given(s->x[2]) && flxi_onnx_extents(s, 2, &shape) && (int)shape.n == t->rank) {
        for (int i = 0; i < t->rank; i++)
            high[i] = shape.v[i] - dims[i];
        y = flx_pad(s->g, y, flxi_onnx_number(s, y, 0), .high = {high, (size_t)t->rank});
    }
    s->y[0] = y;
}
