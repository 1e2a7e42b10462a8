/* SPDX-License-Identifier: Apache-2.0 */
/* scatter_route.c: scatter_nd and scatter_add by windows: the start of a window is found once, then its elements are
   combined row by row. Starts are checked before anything is written. Updates of one element come in the order of the
   definition, whatever the threads: they divide what no two updates share, a batching axis or an axis of the window
   that no start moves. scatter_add, and scatter_nd with the word `add`, sum f16 and bf16 in f32 in scratch and round
   once. */
#include "backend/cpu/gemm/gemm_engine.h"
#include "backend/cpu/routes/window/index_windows.h"
#include "base/half.h"
#include "base/host/stop.h"
#include "ops/index/gather_nd.h"
#include "ops/opcode.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Combines n updates into elements of y: a row of it, both with a distance between neighbours; elements at offsets,
   where a negative one is dropped; or elements at the starts of a line. */
typedef void (*combine_row)(void *y, int64_t y_step, const void *updates, int64_t update_step, int64_t n);
typedef void (*combine_points)(void *y, const int64_t *at, const void *updates, int64_t update_step, int64_t n);
typedef void (*combine_line)(const flxi_index_windows *w, void *y, const void *updates, const flxi_start_line *l);

typedef struct {
    combine_row row;
    combine_points points;
    combine_line line32, line64; /* by the size of an index */
} combination;

typedef struct {
    const flxi_route_node *n;
    const flxi_index_windows *w;
    const char *updates;
    size_t update_size;
    void *y;
    size_t y_size; /* of an element there */
    combination combine;
    const flxi_arith *arith;
    flxi_num (*fold)(flxi_num a, flxi_num b); /* where there is no loop for the dtype */
    int axis;                                 /* that threads divide */
} scattering;

/* ---- Loops ---- */

enum { STREAMED_BYTES = 32 << 20 };
enum { BLOCK = 16 }; /* of a dense row: a loop of fixed length is compiled to vectors */

/* The beginning of a dense row, where the expression holds for vectors, and where it does not. */
#define BY_VECTORS(A, U, expression)                                                  \
    typedef A vector __attribute__((vector_size(64), aligned(sizeof(A)), may_alias)); \
    for (; i + (int64_t)(64 / sizeof(A)) <= n; i += (int64_t)(64 / sizeof(A))) {      \
        const vector a = *(const vector *)(const void *)(y + i);                      \
        const vector b = *(const vector *)(const void *)(updates + i);                \
        *(vector *)(void *)(y + i) = (expression);                                    \
    }
#define BY_BLOCKS(A, U, expression)               \
    for (; i + BLOCK <= n; i += BLOCK)            \
        for (int64_t j = i; j < i + BLOCK; j++) { \
            const A a = y[j];                     \
            const U b = updates[j];               \
            y[j] = (A)(expression);               \
        }

#define COMBINE_LINE(name, A, U, I, expression)                                                              \
    static void name(const flxi_index_windows *w, void *to, const void *from, const flxi_start_line *l)      \
    {                                                                                                        \
        A *y = (A *)to + l->x;                                                                               \
        const U *updates = (const U *)from + l->moved;                                                       \
        const I *idx = l->indices;                                                                           \
        const int64_t first = w->part[0].x, second = w->num_parts == 2 ? w->part[1].x : 0;                   \
        const int64_t other = w->num_parts == 2 ? w->part_step : 0;                                          \
        for (int64_t i = 0; i < l->n; i++) {                                                                 \
            const int64_t at = i * l->x_step + idx[i * l->step] * first + idx[i * l->step + other] * second; \
            const A a = y[at];                                                                               \
            const U b = updates[i * l->moved_step];                                                          \
            y[at] = (A)(expression);                                                                         \
        }                                                                                                    \
    }

#define COMBINE(name, A, U, DENSE, expression)                                                         \
    static void row_##name(void *to, int64_t y_step, const void *from, int64_t update_step, int64_t n) \
    {                                                                                                  \
        A *restrict y = to;                                                                            \
        const U *restrict updates = from;                                                              \
        int64_t i = 0;                                                                                 \
        if (y_step == 1 && update_step == 1) {                                                         \
            DENSE(A, U, expression)                                                                    \
        }                                                                                              \
        for (; i < n; i++) {                                                                           \
            const A a = y[i * y_step];                                                                 \
            const U b = updates[i * update_step];                                                      \
            y[i * y_step] = (A)(expression);                                                           \
        }                                                                                              \
    }                                                                                                  \
    static void points_##name(void *to, const int64_t *at, const void *from, int64_t step, int64_t n)  \
    {                                                                                                  \
        A *y = to;                                                                                     \
        const U *updates = from;                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                              \
            if (at[i] < 0)                                                                             \
                continue;                                                                              \
            const A a = y[at[i]];                                                                      \
            const U b = updates[i * step];                                                             \
            y[at[i]] = (A)(expression);                                                                \
        }                                                                                              \
    }                                                                                                  \
    COMBINE_LINE(line32_##name, A, U, int32_t, expression)                                             \
    COMBINE_LINE(line64_##name, A, U, int64_t, expression)                                             \
    static const combination name = {row_##name, points_##name, line32_##name, line64_##name};
COMBINE(add_f64, double, double, BY_VECTORS, a + b)
COMBINE(add_f32, float, float, BY_VECTORS, a + b)
COMBINE(add_f16, float, uint16_t, BY_BLOCKS, a + flxi_widen_f16(b))
COMBINE(add_bf16, float, uint16_t, BY_BLOCKS, a + flxi_widen_bf16(b))
COMBINE(add_c64, float _Complex, float _Complex, BY_BLOCKS, a + b)
COMBINE(add_c128, double _Complex, double _Complex, BY_BLOCKS, a + b)
COMBINE(add_8, uint8_t, uint8_t, BY_VECTORS, a + b)
COMBINE(add_16, uint16_t, uint16_t, BY_VECTORS, a + b)
COMBINE(add_32, uint32_t, uint32_t, BY_VECTORS, a + b)
COMBINE(add_64, uint64_t, uint64_t, BY_VECTORS, a + b)
COMBINE(add_truth, uint8_t, uint8_t, BY_VECTORS, a | b)
COMBINE(mul_f64, double, double, BY_VECTORS, a *b)
COMBINE(mul_f32, float, float, BY_VECTORS, a *b)
COMBINE(set_8, uint8_t, uint8_t, BY_VECTORS, ((void)a, b))
COMBINE(set_16, uint16_t, uint16_t, BY_VECTORS, ((void)a, b))
COMBINE(set_32, uint32_t, uint32_t, BY_VECTORS, ((void)a, b))
COMBINE(set_64, uint64_t, uint64_t, BY_VECTORS, ((void)a, b))

static const combination none = {NULL, NULL, NULL, NULL};

static combination add_of(int32_t dtype)
{
    switch (dtype) {
    case FLX_F64: return add_f64;
    case FLX_F32: return add_f32;
    case FLX_F16: return add_f16;
    case FLX_BF16: return add_bf16;
    case FLX_BOOL: return add_truth;
    case FLX_C64: return add_c64;
    case FLX_C128: return add_c128;
    default: break;
    }
    size_t size = flx_dtype_size(dtype);
    return size == 1 ? add_8 : size == 2 ? add_16 : size == 4 ? add_32 : add_64;
}

static combination set_of(int32_t dtype)
{
    size_t size = flx_dtype_size(dtype);
    return size == 1 ? set_8 : size == 2 ? set_16 : size == 4 ? set_32 : size == 8 ? set_64 : none;
}

static bool is_half(int32_t dtype)
{
    return dtype == FLX_F16 || dtype == FLX_BF16;
}

static const flxi_combine *combine_of(const flxi_route_node *n)
{
    static const flxi_combine add = {.word = FLXI_SCATTER_ADD};
    return n->op == OP_scatter_add ? &add : &flxi_scatter_nd_attrs_of(n->op, n->attrs)->combine;
}

/* The word `add` sums wide numbers; a graph that adds rounds at each step. */
static bool sums_halves(const flxi_route_node *n)
{
    const flxi_combine *c = combine_of(n);
    return is_half(n->out_types[0]->dtype) && !c->graph && c->word == FLXI_SCATTER_ADD;
}

static void choose_loops(scattering *s)
{
    int32_t dtype = s->n->out_types[0]->dtype;
    const flxi_combine *c = combine_of(s->n);
    s->arith = flxi_arith_of(dtype);
    switch (c->graph ? FLXI_SCATTER_ADD : (flxi_scatter_word)c->word) {
    case FLXI_SCATTER_ADD:
        s->combine = is_half(dtype) && !sums_halves(s->n) ? none : add_of(dtype);
        s->fold = s->arith->add;
        break;
    case FLXI_SCATTER_SET: s->combine = set_of(dtype); break;
    case FLXI_SCATTER_MUL:
        s->combine = dtype == FLX_F32 ? mul_f32 : dtype == FLX_F64 ? mul_f64 : none;
        s->fold = s->arith->mul;
        break;
    case FLXI_SCATTER_MIN: s->fold = s->arith->min; break;
    case FLXI_SCATTER_MAX: s->fold = s->arith->max; break;
    }
}

/* ---- Blocks ---- */

static void fold_row(const scattering *s, int64_t at, const flxi_window_axis *w, int64_t update)
{
    if (s->combine.row) {
        s->combine.row((char *)s->y + (size_t)at * s->y_size, w->x, s->updates + (size_t)update * s->update_size,
                       w->moved, w->extent);
        return;
    }
    for (int64_t i = 0; i < w->extent; i++, at += w->x, update += w->moved) {
        flxi_num b = s->arith->load(s->updates, update);
        s->arith->store(s->y, at, s->fold ? s->fold(s->arith->load(s->y, at), b) : b);
    }
}

/* One window, which is at x. */
static void scatter_window(const scattering *s, const flxi_start_block *b, int64_t x, int64_t update)
{
    static const flxi_window_axis one = {.extent = 1};
    int64_t at[FLX_MAX_RANK] = {0};
    int outer = b->num_window ? b->num_window - 1 : 0;
    const flxi_window_axis *last = b->num_window ? &b->window[outer] : &one;
    do {
        int64_t to = x, from = update;
        for (int k = 0; k < outer; k++) {
            to += at[k] * b->window[k].x;
            from += at[k] * b->window[k].moved;
        }
        fold_row(s, to, last, from);
    } while (flxi_window_next(b->window, outer, at) && !flxi_stopped_by_now());
}

/* Whether a block may be walked position by position: no element of x is in two of them, or windows have only one. */
static bool takes_points(const scattering *s, const flxi_start_block *b)
{
    if (!s->combine.points || s->w->clips)
        return false;
    return b->num_window == 0 || (!flxi_block_has_rows(b) && !s->w->moves_window);
}

static void scatter_points(const scattering *s, const flxi_start_block *b)
{
    int64_t at[FLX_MAX_RANK] = {0};
    do {
        int64_t x = 0, update = b->moved;
        for (int k = 0; k < b->num_window; k++) {
            x += at[k] * b->window[k].x;
            update += at[k] * b->window[k].moved;
        }
        s->combine.points((char *)s->y + (size_t)x * s->y_size, b->x, s->updates + (size_t)update * s->update_size,
                          b->moved_step, b->n);
    } while (flxi_window_next(b->window, b->num_window, at) && !flxi_stopped_by_now());
}

static void scatter_block(const void *user, const flxi_start_block *b)
{
    const scattering *s = user;
    if (takes_points(s, b)) {
        scatter_points(s, b);
        return;
    }
    for (int64_t i = 0; i < b->n; i++)
        if (b->x[i] >= 0)
            scatter_window(s, b, b->x[i], b->moved + i * b->moved_step);
}

static void scatter_line(const void *user, const flxi_start_line *l)
{
    const scattering *s = user;
    (s->w->indices->dtype == FLX_I32 ? s->combine.line32 : s->combine.line64)(s->w, s->y, s->updates, l);
}

static void scatter_all(const scattering *s)
{
    int64_t starts = flxi_index_windows_starts(s->w);
    if (s->combine.row && flxi_index_windows_has_lines(s->w))
        flxi_index_windows_lines(s->w, 0, starts, scatter_line, s);
    else
        flxi_index_windows_walk(s->w, 0, starts, scatter_block, s);
}

/* ---- Whether it applies ---- */

static bool is_moved(const flxi_nd_attrs *a, int64_t axis)
{
    for (size_t j = 0; j < a->start_index_map.n; j++)
        if (a->start_index_map.v[j] == axis)
            return true;
    return false;
}

/* Whether visiting one window after the other meets the updates of each element in their order: they follow their
   indices, or have one place in all windows. */
static bool keeps_order(const flxi_route_node *n)
{
    const flxi_nd_attrs *a = flxi_scatter_nd_attrs_of(n->op, n->attrs);
    flxi_nd_layout l = flxi_nd_layout_of(a, n->in_types[0]->rank, n->in_types[1]->rank);
    bool is_moved_before = false;
    for (int k = 0; k < l.rank; k++) {
        if (l.in_window[k])
            is_moved_before |= is_moved(a, l.axis[k]);
        else if (is_moved_before)
            return false;
    }
    return true;
}

const char *flxi_scatter_applies(const flxi_route_node *n)
{
    const char *why = flxi_index_windows_refusal(n);
    if (why || n->op == OP_scatter_add)
        return why;
    const flxi_combine *c = combine_of(n);
    if (c->graph && !flxi_scatter_adds(c))
        return "the graph that combines is not an add";
    return keeps_order(n) ? NULL : "updates of one element are not in the order of their windows";
}

size_t flxi_scatter_scratch(const flxi_route_node *n, int threads)
{
    (void)threads;
    return sums_halves(n) ? (size_t)flxi_route_count(n->out_types[0]) * sizeof(float) : 0;
}

/* ---- Threads ---- */

static void scatter_part(void *user, int64_t begin, int64_t end)
{
    const scattering *s = user;
    flxi_index_windows part = flxi_index_windows_part(s->w, s->axis, begin, end);
    scattering own = *s;
    own.w = &part;
    scatter_all(&own);
}

/* The number of an axis along which no two positions share an element of x, or -1. */
static int find_division(const flxi_index_windows *w)
{
    for (int k = 0; k < w->num_index; k++)
        if (w->index[k].x && w->index[k].extent > 1)
            return k;
    for (int k = 0; k < w->num_window; k++)
        if (w->window[k].part < 0 && w->window[k].extent >= 32)
            return w->num_index + k;
    return -1;
}

/* Few parts for each thread: each of them reads all starts, and pieces of rows should be long. */
static void scatter_divided(const scattering *s)
{
    const flxi_window_axis *axis = flxi_index_windows_axis(s->w, s->axis);
    int64_t bytes = flxi_route_count(s->w->moved) / axis->extent * (int64_t)s->y_size;
    int threads = flxi_pool_threads(s->n->pool);
    int64_t parts = threads == 1 ? 1 : threads < 8 ? 2 * threads : 16;
    int64_t chunk = flxi_route_chunk(axis->extent, bytes), least = (axis->extent + parts - 1) / parts;
    chunk = s->axis >= s->w->num_index && chunk < least ? least : chunk;
    chunk = axis->x == 1 && chunk < 16 ? 16 : chunk; /* whole cache lines, so that threads do not meet in one */
    flxi_pool_run(s->n->pool, axis->extent, chunk, scatter_part, (void *)(uintptr_t)s);
}

#if defined(__x86_64__)
/* Whole lines from `to`, a multiple of 64, past the cache; returns where they end. Stores of 16 bytes take longer on
   some machines. */
static __attribute__((target("avx"))) char *stream_wide_zeros(char *to, const char *end)
{
    for (; end - to >= 64; to += 64)
        for (int k = 0; k < 2; k++)
            _mm256_stream_si256((__m256i *)(void *)to + k, _mm256_setzero_si256());
    return to;
}

static char *stream_zeros(char *to, const char *end)
{
    if (__builtin_cpu_supports("avx"))
        return stream_wide_zeros(to, end);
    for (; end - to >= 64; to += 64)
        for (int k = 0; k < 4; k++)
            _mm_stream_si128((__m128i *)(void *)to + k, _mm_setzero_si128());
    return to;
}
#endif

/* Zeros; past the cache where the result does not fit there, so that no line is read before it is written. */
static void clear(char *to, size_t bytes, size_t whole)
{
#if defined(__x86_64__)
    if (whole >= STREAMED_BYTES) {
        char *end = to + bytes;
        for (; to < end && (uintptr_t)to % 64; to++)
            *to = 0;
        to = stream_zeros(to, end);
        _mm_sfence();
        bytes = (size_t)(end - to);
    }
#endif
    (void)whole;
    memset(to, 0, bytes);
}

/* What y holds before the updates: zeros, or x. */
static void begin_part(void *user, int64_t begin, int64_t end)
{
    const scattering *s = user;
    int32_t dtype = s->n->out_types[0]->dtype;
    size_t bytes = (size_t)(end - begin) * s->y_size;
    char *to = (char *)s->y + (size_t)begin * s->y_size;
    if (s->n->op == OP_scatter_add) {
        clear(to, bytes, (size_t)flxi_route_count(s->n->out_types[0]) * s->y_size);
        return;
    }
    if (s->y == s->n->out[0]) {
        memcpy(to, (const char *)s->n->in[0] + (size_t)begin * s->y_size, bytes);
        return;
    }
    const uint16_t *from = s->n->in[0];
    for (int64_t i = begin; i < end; i++)
        ((float *)s->y)[i] = dtype == FLX_F16 ? flxi_widen_f16(from[i]) : flxi_widen_bf16(from[i]);
}

static void round_part(void *user, int64_t begin, int64_t end)
{
    const scattering *s = user;
    const float *from = s->y;
    uint16_t *to = s->n->out[0];
    bool is_f16 = s->n->out_types[0]->dtype == FLX_F16;
    for (int64_t i = begin; i < end; i++)
        to[i] = is_f16 ? flxi_to_f16((double)from[i]) : flxi_to_bf16((double)from[i]);
}

flx_code flxi_scatter_route(const flxi_route_node *n)
{
    flxi_index_windows w = flxi_index_windows_of(n);
    bool is_wide = sums_halves(n), is_sum = n->op == OP_scatter_add;
    scattering s = {.n = n, .w = &w, .updates = n->in[is_sum ? 0 : 2], .axis = find_division(&w)};
    FLXI_TRY(flxi_index_windows_check(&w));
    if (flxi_stopped())
        return FLX_OK;
    choose_loops(&s);
    s.update_size = flx_dtype_size(w.moved->dtype);
    s.y = is_wide ? n->scratch : n->out[0];
    s.y_size = is_wide ? sizeof(float) : s.update_size;
    int64_t count = flxi_route_count(n->out_types[0]), chunk = flxi_route_chunk(count, (int64_t)s.y_size);
    if (is_sum || s.y != n->in[0])
        flxi_pool_run(n->pool, count, chunk, begin_part, &s);
    if (s.axis >= 0)
        scatter_divided(&s);
    else
        scatter_all(&s);
    if (is_wide)
        flxi_pool_run(n->pool, count, chunk, round_part, &s);
    return FLX_OK;
}
