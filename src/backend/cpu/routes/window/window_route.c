/* SPDX-License-Identifier: Apache-2.0 */
/* window_route.c: select_and_scatter and max_pool_backward: each window keeps one position, to which its element of the
   source is added.

   At most two axes next to each other have windows; what is before them are planes, what is after them channels. Lanes
   of a vector are channels, or windows along the last axis: they see one tap after the other, and remember which one
   they keep. Windows of a row of one plane are added from left to right, rows in order, as in the definition. */
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/attr_access.h"
#include "ops/opcode.h"
#include "ops/signal/window.h"

typedef enum { SELECT_GE, SELECT_GT, SELECT_LE, SELECT_LT, SELECT_LARGEST } selection;

typedef struct {
    int64_t in, out, window, stride, low;
} window_axis;

typedef struct {
    selection select;
    int64_t planes, inner; /* inner: channels */
    window_axis axis[2];
    bool is_squares; /* windows of 2 x 2 without gaps that cover a plane */
    int64_t lanes;   /* channels of a task */
} window_plan;

enum { LANES = 128 };

/* Lanes whose tap meets the input, and where the tap of lane 0 is. */
typedef struct {
    int begin, end;
    int64_t at;
} window_span;

static inline window_span span_of(const window_plan *w, int64_t row, int64_t k, int64_t first, int64_t j, int lanes)
{
    const window_axis *h = &w->axis[0];
    const window_axis *v = &w->axis[1];
    int64_t y = row * h->stride + k - h->low;
    int64_t x = first * v->stride + j - v->low;
    window_span s = {.at = (y * v->in + x) * w->inner};
    if (y < 0 || y >= h->in)
        return s;
    if (w->inner > 1) {
        s.end = x >= 0 && x < v->in ? lanes : 0;
        return s;
    }
    int64_t begin = x >= 0 ? 0 : (-x + v->stride - 1) / v->stride;
    int64_t end = x >= v->in ? 0 : (v->in - x + v->stride - 1) / v->stride;
    s.begin = (int)(begin < lanes ? begin : lanes);
    s.end = (int)(end < lanes ? end : lanes);
    return s;
}

typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef double f64x2 __attribute__((vector_size(16)));
typedef int64_t i64x2 __attribute__((vector_size(16)));

#define REAL float
#define INT int32_t
#define V f32x4
#define I i32x4
#define WIDE 4
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define FN(name) f32_##name
#include "backend/cpu/routes/window/window_route.inc"

#define REAL double
#define INT int64_t
#define V f64x2
#define I i64x2
#define WIDE 2
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3)
#define ZIP_LOW EVEN
#define ZIP_HIGH ODD
#define FN(name) f64_##name
#include "backend/cpu/routes/window/window_route.inc"

/* ---- Plans ---- */

/* Along axis k of x; plain ones have one window for each element. */
static window_axis axis_of(const flxi_route_node *n, int k)
{
    window_axis a = {.in = n->in_types[0]->dims[k], .out = n->in_types[1]->dims[k], .window = 1, .stride = 1};
    if (n->op == OP_select_and_scatter) {
        a.window = flxi_route_ints(n, "window").v[k];
        a.stride = flxi_route_ints(n, "strides").v[k];
        a.low = flxi_route_ints(n, "pad_low").v[k];
    } else if (k >= 2) {
        a.window = flxi_route_ints(n, "kernel_size").v[k - 2];
        a.stride = flxi_route_ints(n, "stride").v[k - 2];
        a.low = flxi_route_ints(n, "padding").v[2 * (k - 2)];
    }
    return a;
}

static bool is_plain(const window_axis *a)
{
    return a->window == 1 && a->stride == 1 && a->low == 0 && a->in == a->out;
}

static selection selection_of(const flxi_route_node *n)
{
    static const selection words[] = {[FLXI_SELECT_GE] = SELECT_GE,
                                      [FLXI_SELECT_LE] = SELECT_LE,
                                      [FLXI_SELECT_GT] = SELECT_GT,
                                      [FLXI_SELECT_LT] = SELECT_LT};
    if (n->op != OP_select_and_scatter)
        return SELECT_LARGEST;
    return words[flxi_attr_combine(&flxi_ops[n->op], n->attrs, "select")->word];
}

/* The axes [*begin, *end) have windows; at least the last two of x where none has. */
static void find_windows(const flxi_route_node *n, int *begin, int *end)
{
    int rank = n->in_types[0]->rank;
    *begin = rank;
    *end = 0;
    for (int k = 0; k < rank; k++) {
        window_axis a = axis_of(n, k);
        if (is_plain(&a))
            continue;
        *begin = k < *begin ? k : *begin;
        *end = k + 1;
    }
    if (*begin > *end)
        *begin = *end = rank;
}

static window_plan plan_of(const flxi_route_node *n)
{
    window_plan w = {.select = selection_of(n), .planes = 1, .inner = 1};
    int begin;
    int end;
    find_windows(n, &begin, &end);
    w.axis[0] = w.axis[1] = (window_axis){.in = 1, .out = 1, .window = 1, .stride = 1};
    for (int k = 0; k < n->in_types[0]->rank; k++) {
        if (k < begin)
            w.planes *= n->in_types[0]->dims[k];
        else if (k >= end)
            w.inner *= n->in_types[0]->dims[k];
        else
            w.axis[k - end + 2] = axis_of(n, k);
    }
    w.is_squares = true;
    for (int k = 0; k < 2; k++) {
        const window_axis *a = &w.axis[k];
        w.is_squares &= a->window == 2 && a->stride == 2 && a->low == 0 && a->in == 2 * a->out;
    }
    w.lanes = w.inner < LANES ? w.inner : LANES;
    return w;
}

/* ---- The route ---- */

const char *flxi_window_applies(const flxi_route_node *n)
{
    int begin;
    int end;
    int64_t taps = 1;
    int32_t dtype = n->out_types[0]->dtype;
    if (dtype != FLX_F32 && dtype != FLX_F64)
        return "only f32 and f64 have a loop of their own";
    if (n->op == OP_select_and_scatter) {
        const flxi_combine *combine = flxi_attr_combine(&flxi_ops[n->op], n->attrs, "combine");
        if (flxi_attr_combine(&flxi_ops[n->op], n->attrs, "select")->graph)
            return "the selection is given by a graph";
        if (flxi_window_word(combine) != FLXI_WINDOW_ADD)
            return "only sums have a loop of their own";
    }
    if (flxi_route_count(n->out_types[0]) == 0 || flxi_route_count(n->in_types[1]) == 0)
        return "an operand is empty";
    find_windows(n, &begin, &end);
    if (end - begin > 2)
        return "windows along more than two axes";
    for (int k = 0; k < n->in_types[0]->rank; k++) {
        window_axis a = axis_of(n, k);
        if (a.window > INT16_MAX || a.in > INT32_MAX || a.out > INT32_MAX || a.stride > INT32_MAX ||
            a.low > INT32_MAX || a.low < -INT32_MAX)
            return "extents or paddings beyond 2^31";
        taps = taps > FLXI_FEW_TO_ROUTES ? taps : taps * a.window;
    }
    if (n->op == OP_max_pool_backward && taps > FLXI_FEW_TO_ROUTES)
        return "blocks are faster: the window has too many elements";
    return NULL;
}

typedef struct {
    const flxi_route_node *n;
    window_plan w;
    int64_t blocks; /* of channels, in a plane */
} window_run;

static void run_planes(void *user, int64_t begin, int64_t end)
{
    const window_run *r = user;
    const window_plan *w = &r->w;
    const flxi_route_node *n = r->n;
    size_t size = flx_dtype_size(n->out_types[0]->dtype);
    int64_t in = w->axis[0].in * w->axis[1].in * w->inner;
    int64_t out = w->axis[0].out * w->axis[1].out * w->inner;
    for (int64_t i = begin; i < end && !flxi_stopped(); i++) {
        int64_t plane = i / r->blocks;
        int64_t c = i % r->blocks * w->lanes;
        int lanes = (int)(w->inner - c < w->lanes ? w->inner - c : w->lanes);
        (size == 8 ? f64_run_plane : f32_run_plane)(w, (const char *)n->in[0] + (size_t)(plane * in) * size,
                                                    (const char *)n->in[1] + (size_t)(plane * out) * size,
                                                    n->nin > 2 ? n->in[2] : NULL,
                                                    (char *)n->out[0] + (size_t)(plane * in) * size, c, lanes);
    }
}

flx_code flxi_window_route(const flxi_route_node *n)
{
    window_run r = {.n = n, .w = plan_of(n)};
    r.blocks = (r.w.inner + r.w.lanes - 1) / r.w.lanes;
    int64_t bytes = r.w.axis[0].in * r.w.axis[1].in * r.w.lanes * (int64_t)flx_dtype_size(n->out_types[0]->dtype);
    int64_t count = r.w.planes * r.blocks;
    flxi_pool_run(n->pool, count, flxi_route_chunk(count, bytes), run_planes, &r);
    return FLX_OK;
}
