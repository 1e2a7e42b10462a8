/* SPDX-License-Identifier: Apache-2.0 */
/* window_fold.c: reduce_window of one f32 or f64 tensor by sums, products, maxima or minima: pooling, and the gradient
   of means over windows.

   At most two axes next to each other have windows; what is before them are planes, what is after them channels. Lanes
   of a vector are channels, or windows along the last axis: these read copies of rows that are spread and padded, so
   that no lane is special. Taps are combined in order, as in the definition. */
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/attr_access.h"
#include "ops/opcode.h"
#include "ops/signal/window.h"

enum { MOST_TAPS = 256, COPIED = 4096 /* elements */ };
static const int64_t PADDING = INT64_MIN;

typedef struct {
    int64_t in, out, window, stride, dilation, spread, low;
} fold_axis;

typedef struct {
    int word;
    int64_t planes, inner; /* inner: channels */
    fold_axis axis[2];
} fold_plan;

typedef struct {
    int n;
    int64_t at[MOST_TAPS]; /* PADDING: combines with init */
} fold_taps;

/* Index that tap j of window o meets, which may be outside of the input; PADDING for gaps. */
static inline int64_t tap_at(const fold_axis *a, int64_t o, int64_t j)
{
    int64_t at = o * a->stride + j * a->dilation - a->low;
    if (a->spread == 1)
        return at;
    return at % a->spread == 0 ? at / a->spread : PADDING;
}

static inline bool is_inside(const fold_axis *a, int64_t at)
{
    return at >= 0 && at < a->in;
}

/* Rows that window row o sees, as offsets. */
static void list_rows(const fold_plan *w, int64_t o, fold_taps *rows)
{
    const fold_axis *h = &w->axis[0];
    rows->n = (int)h->window;
    for (int64_t k = 0; k < h->window; k++) {
        int64_t at = tap_at(h, o, k);
        rows->at[k] = is_inside(h, at) ? at * w->axis[1].in * w->inner : PADDING;
    }
}

/* All taps of the window at column o, in order; without padding where that is neutral. */
static void list_taps(const fold_plan *w, const fold_taps *rows, int64_t o, bool is_neutral, fold_taps *taps)
{
    const fold_axis *v = &w->axis[1];
    taps->n = 0;
    for (int k = 0; k < rows->n; k++)
        for (int64_t j = 0; j < v->window; j++) {
            int64_t at = tap_at(v, o, j);
            bool meets = rows->at[k] != PADDING && is_inside(v, at);
            if (meets || !is_neutral)
                taps->at[taps->n++] = meets ? rows->at[k] + at * w->inner : PADDING;
        }
}

/* Windows along the last axis whose rows fit the copies; at most 0 where none does. */
static int64_t lanes_at_once(const fold_plan *w)
{
    const fold_axis *v = &w->axis[1];
    int64_t width = COPIED / w->axis[0].window;
    return (width - (v->window - 1) * v->dilation - 1) / v->stride + 1;
}

typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef double f64x2 __attribute__((vector_size(16)));
typedef int64_t i64x2 __attribute__((vector_size(16)));

#define REAL float
#define V f32x4
#define I i32x4
#define WIDE 4
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define TARGET
#define FN(name) generic_f32_##name
#include "backend/cpu/routes/window/window_fold.inc"

#define REAL double
#define V f64x2
#define I i64x2
#define WIDE 2
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2)
#define TARGET
#define FN(name) generic_f64_##name
#include "backend/cpu/routes/window/window_fold.inc"

#if defined(__x86_64__)

typedef float f32x8 __attribute__((vector_size(32)));
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef double f64x4 __attribute__((vector_size(32)));
typedef int64_t i64x4 __attribute__((vector_size(32)));

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef double f64x8 __attribute__((vector_size(64)));
typedef int64_t i64x8 __attribute__((vector_size(64)));

#define REAL float
#define V f32x8
#define I i32x8
#define WIDE 8
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define TARGET __attribute__((target("avx2")))
#define FN(name) avx2_f32_##name
#include "backend/cpu/routes/window/window_fold.inc"

#define REAL double
#define V f64x4
#define I i64x4
#define WIDE 4
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define TARGET __attribute__((target("avx2")))
#define FN(name) avx2_f64_##name
#include "backend/cpu/routes/window/window_fold.inc"

#define REAL float
#define V f32x16
#define I i32x16
#define WIDE 16
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define TARGET __attribute__((target("avx512f,avx512dq")))
#define FN(name) avx512_f32_##name
#include "backend/cpu/routes/window/window_fold.inc"

#define REAL double
#define V f64x8
#define I i64x8
#define WIDE 8
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define TARGET __attribute__((target("avx512f,avx512dq")))
#define FN(name) avx512_f64_##name
#include "backend/cpu/routes/window/window_fold.inc"

#endif

typedef void (*fold_rows_fn)(const fold_plan *w, const void *x, const void *start, void *y, int64_t begin, int64_t end);

static fold_rows_fn fold_rows_of(int32_t dtype)
{
    bool is_f64 = dtype == FLX_F64;
#if defined(__x86_64__)
    if (flxi_isa_available(FLXI_ISA_AVX512) && __builtin_cpu_supports("avx512dq"))
        return is_f64 ? avx512_f64_fold_rows : avx512_f32_fold_rows;
    if (flxi_isa_available(FLXI_ISA_AVX2))
        return is_f64 ? avx2_f64_fold_rows : avx2_f32_fold_rows;
#endif
    return is_f64 ? generic_f64_fold_rows : generic_f32_fold_rows;
}

/* ---- Plans ---- */

static fold_axis axis_of(const flxi_route_node *n, int k)
{
    fold_axis a = {.in = n->in_types[0]->dims[k],
                   .out = n->out_types[0]->dims[k],
                   .window = flxi_route_ints(n, "window").v[k],
                   .stride = flxi_route_ints(n, "strides").v[k],
                   .dilation = flxi_route_ints(n, "window_dilation").v[k],
                   .spread = flxi_route_ints(n, "base_dilation").v[k],
                   .low = flxi_route_ints(n, "pad_low").v[k]};
    return a;
}

static bool is_plain(const fold_axis *a)
{
    return a->window == 1 && a->stride == 1 && a->spread == 1 && a->low == 0 && a->in == a->out;
}

/* The axes [*begin, *end) have windows. */
static void find_windows(const flxi_route_node *n, int *begin, int *end)
{
    int rank = n->in_types[0]->rank;
    *begin = *end = rank;
    for (int k = rank - 1; k >= 0; k--) {
        fold_axis a = axis_of(n, k);
        if (is_plain(&a))
            continue;
        *end = *begin == rank && *end == rank ? k + 1 : *end;
        *begin = k;
    }
}

static fold_plan plan_of(const flxi_route_node *n)
{
    fold_plan w = {.planes = 1, .inner = 1};
    int begin;
    int end;
    w.word = (int)flxi_window_word(flxi_attr_combine(&flxi_ops[n->op], n->attrs, "combine"));
    find_windows(n, &begin, &end);
    w.axis[0] = w.axis[1] = (fold_axis){.in = 1, .out = 1, .window = 1, .stride = 1, .dilation = 1, .spread = 1};
    for (int k = 0; k < n->in_types[0]->rank; k++) {
        if (k < begin)
            w.planes *= n->in_types[0]->dims[k];
        else if (k >= end)
            w.inner *= n->in_types[0]->dims[k];
        else
            w.axis[k - end + 2] = axis_of(n, k);
    }
    return w;
}

/* ---- The route ---- */

static bool is_moderate(const fold_axis *a)
{
    const int64_t most = INT32_MAX;
    return a->in < most && a->out < most && a->stride < most && a->dilation < most && a->spread < most &&
           a->low < most && a->low > -most && a->out * a->stride < most && a->window * a->dilation < most;
}

const char *flxi_fold_applies(const flxi_route_node *n)
{
    int begin;
    int end;
    int64_t taps = 1;
    int32_t dtype = n->out_types[0]->dtype;
    if (n->nin != 2 || n->nout != 1)
        return "several tensors are folded at once";
    if (dtype != FLX_F32 && dtype != FLX_F64)
        return "only f32 and f64 have a loop of their own";
    if (flxi_window_word(flxi_attr_combine(&flxi_ops[n->op], n->attrs, "combine")) < 0)
        return "the combination is given by a graph";
    if (flxi_route_count(n->out_types[0]) == 0 || flxi_route_count(n->in_types[0]) == 0)
        return "the operand or the result is empty";
    find_windows(n, &begin, &end);
    if (end - begin > 2)
        return "windows along more than two axes";
    for (int k = begin; k < end; k++) {
        fold_axis a = axis_of(n, k);
        if (!is_moderate(&a))
            return "extents or paddings beyond 2^31";
        taps = a.window > MOST_TAPS ? MOST_TAPS + 1 : taps * a.window;
        if (taps > MOST_TAPS)
            return "the window has too many elements";
    }
    fold_plan w = plan_of(n);
    if (w.inner == 1 && lanes_at_once(&w) < 64)
        return "the window is too wide";
    return NULL;
}

/* Kernels test every tap where some are outside of the input. */
bool flxi_fold_is_preferred(const flxi_route_node *n)
{
    const int64_t many = 1 << 14; /* elements that are worth a step of their own */
    fold_plan w = plan_of(n);
    bool is_inside_always = true;
    for (int k = 0; k < 2; k++) {
        const fold_axis *a = &w.axis[k];
        int64_t last = (a->out - 1) * a->stride + (a->window - 1) * a->dilation - a->low;
        is_inside_always &= a->spread == 1 && a->low <= 0 && last < a->in;
    }
    return !is_inside_always && flxi_route_count(n->out_types[0]) >= many;
}

typedef struct {
    const flxi_route_node *n;
    fold_plan w;
    fold_rows_fn fold_rows;
} fold_run;

/* Rows of windows [begin, end), of all planes. */
static void run_rows(void *user, int64_t begin, int64_t end)
{
    const fold_run *r = user;
    const fold_plan *w = &r->w;
    const flxi_route_node *n = r->n;
    size_t size = flx_dtype_size(n->out_types[0]->dtype);
    int64_t in = w->axis[0].in * w->axis[1].in * w->inner;
    int64_t out = w->axis[0].out * w->axis[1].out * w->inner;
    int64_t last;
    for (int64_t i = begin; i < end && !flxi_stopped(); i = last) {
        int64_t plane = i / w->axis[0].out;
        last = (plane + 1) * w->axis[0].out < end ? (plane + 1) * w->axis[0].out : end;
        r->fold_rows(w, (const char *)n->in[0] + (size_t)(plane * in) * size, n->in[1],
                     (char *)n->out[0] + (size_t)(plane * out) * size, i - plane * w->axis[0].out,
                     last - plane * w->axis[0].out);
    }
}

flx_code flxi_fold_route(const flxi_route_node *n)
{
    fold_run r = {.n = n, .w = plan_of(n), .fold_rows = fold_rows_of(n->out_types[0]->dtype)};
    int64_t rows = r.w.planes * r.w.axis[0].out;
    int64_t bytes = r.w.axis[1].out * r.w.inner * (int64_t)flx_dtype_size(n->out_types[0]->dtype);
    flxi_pool_run(n->pool, rows, flxi_route_chunk(rows, bytes), run_rows, &r);
    return FLX_OK;
}
