/* SPDX-License-Identifier: Apache-2.0 */
/* scatter_route.c: scatter_nd by windows: the start of a window is found once, then its elements are combined row by
   row. Updates of one element come in the order of the definition, whatever the threads: they divide what no two
   updates share, a batching axis or an axis of the window that no start moves. With the word `add`, f16 and bf16 are
   summed in f32 in scratch and rounded once. */
#include "backend/cpu/gemm/gemm_engine.h"
#include "backend/cpu/routes/route_index.h"
#include "base/half.h"
#include "base/host/stop.h"
#include "ops/index/gather_nd.h"

/* Combines n updates into elements of y; both have a distance between neighbours. */
typedef void (*combine_row)(void *y, int64_t y_step, const void *updates, int64_t update_step, int64_t n);

typedef struct {
    int64_t extent;
    int64_t update; /* distances between neighbours: in updates, … */
    int64_t index;  /* … in indices … */
    int64_t x;      /* … and in x, where it is a batching axis or one of the window */
    int axis;       /* of x, of the window */
    bool is_moved;  /* by a start */
} scatter_axis;

typedef struct {
    const flxi_route_node *n;
    const flxi_nd_attrs *a;
    scatter_axis index[FLX_MAX_RANK], window[FLX_MAX_RANK]; /* in order of updates */
    int num_index, num_window;
    int64_t extents[FLX_MAX_RANK], size[FLX_MAX_RANK], strides[FLX_MAX_RANK]; /* of x; size: of the window there */
    int64_t vector_step;                                                      /* between the components of a start */
    int64_t first_index, first_update, first_x;
    void *y;
    size_t y_size; /* of an element there */
    combine_row row;
    const flxi_arith *arith;
    flxi_num (*fold)(flxi_num a, flxi_num b); /* where there is no row for the dtype */
} scattering;

/* ---- Rows ---- */

#define ROW(name, A, U, expression)                                                              \
    static void name(void *to, int64_t y_step, const void *from, int64_t update_step, int64_t n) \
    {                                                                                            \
        A *y = to;                                                                               \
        const U *updates = from;                                                                 \
        if (y_step == 1 && update_step == 1)                                                     \
            for (int64_t i = 0; i < n; i++) {                                                    \
                const A a = y[i];                                                                \
                const U b = updates[i];                                                          \
                y[i] = (A)(expression);                                                          \
            }                                                                                    \
        else                                                                                     \
            for (int64_t i = 0; i < n; i++) {                                                    \
                const A a = y[i * y_step];                                                       \
                const U b = updates[i * update_step];                                            \
                y[i * y_step] = (A)(expression);                                                 \
            }                                                                                    \
    }
ROW(add_f64, double, double, a + b)
ROW(add_f32, float, float, a + b)
ROW(add_f16, float, uint16_t, a + flxi_widen_f16(b))
ROW(add_bf16, float, uint16_t, a + flxi_widen_bf16(b))
ROW(add_c64, float _Complex, float _Complex, a + b)
ROW(add_c128, double _Complex, double _Complex, a + b)
ROW(add_8, uint8_t, uint8_t, a + b)
ROW(add_16, uint16_t, uint16_t, a + b)
ROW(add_32, uint32_t, uint32_t, a + b)
ROW(add_64, uint64_t, uint64_t, a + b)
ROW(add_truth, uint8_t, uint8_t, a | b)
ROW(mul_f64, double, double, a *b)
ROW(mul_f32, float, float, a *b)
ROW(set_8, uint8_t, uint8_t, ((void)a, b))
ROW(set_16, uint16_t, uint16_t, ((void)a, b))
ROW(set_32, uint32_t, uint32_t, ((void)a, b))
ROW(set_64, uint64_t, uint64_t, ((void)a, b))

static combine_row add_row(int32_t dtype)
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

static combine_row set_row(int32_t dtype)
{
    size_t size = flx_dtype_size(dtype);
    return size == 1 ? set_8 : size == 2 ? set_16 : size == 4 ? set_32 : size == 8 ? set_64 : NULL;
}

static bool is_half(int32_t dtype)
{
    return dtype == FLX_F16 || dtype == FLX_BF16;
}

/* The word `add` sums wide numbers; a graph that adds rounds at each step. */
static bool sums_halves(const flxi_route_node *n)
{
    const flxi_nd_attrs *a = flxi_scatter_nd_attrs_of(n->op, n->attrs);
    return is_half(n->out_types[0]->dtype) && !a->combine.graph && a->combine.word == FLXI_SCATTER_ADD;
}

static void choose_row(scattering *s)
{
    int32_t dtype = s->n->out_types[0]->dtype;
    flxi_scatter_word word = s->a->combine.graph ? FLXI_SCATTER_ADD : (flxi_scatter_word)s->a->combine.word;
    s->arith = flxi_arith_of(dtype);
    switch (word) {
    case FLXI_SCATTER_ADD:
        s->row = is_half(dtype) && !sums_halves(s->n) ? NULL : add_row(dtype);
        s->fold = s->arith->add;
        break;
    case FLXI_SCATTER_SET: s->row = set_row(dtype); break;
    case FLXI_SCATTER_MUL:
        s->row = dtype == FLX_F32 ? mul_f32 : dtype == FLX_F64 ? mul_f64 : NULL;
        s->fold = s->arith->mul;
        break;
    case FLXI_SCATTER_MIN: s->fold = s->arith->min; break;
    case FLXI_SCATTER_MAX: s->fold = s->arith->max; break;
    }
}

static void fold_row(const scattering *s, int64_t at, const scatter_axis *w, int64_t update, int64_t n)
{
    const char *updates = s->n->in[2];
    if (s->row) {
        size_t size = flx_dtype_size(s->n->in_types[2]->dtype);
        s->row((char *)s->y + (size_t)at * s->y_size, w->x, updates + (size_t)update * size, w->update, n);
        return;
    }
    for (int64_t i = 0; i < n; i++, at += w->x, update += w->update) {
        flxi_num b = s->arith->load(updates, update);
        s->arith->store(s->y, at, s->fold ? s->fold(s->arith->load(s->y, at), b) : b);
    }
}

/* ---- Geometry ---- */

static bool is_moved(const flxi_nd_attrs *a, int64_t axis)
{
    for (size_t j = 0; j < a->start_index_map.n; j++)
        if (a->start_index_map.v[j] == axis)
            return true;
    return false;
}

static void strides_of(const flx_type *t, int64_t *strides)
{
    int64_t step = 1;
    for (int k = t->rank; k-- > 0; step *= t->dims[k])
        strides[k] = step;
}

static scattering scattering_of(const flxi_route_node *n)
{
    const flxi_nd_attrs *a = flxi_scatter_nd_attrs_of(n->op, n->attrs);
    const flx_type *x = n->in_types[0], *indices = n->in_types[1], *updates = n->in_types[2];
    scattering s = {.n = n, .a = a, .y_size = flx_dtype_size(x->dtype)};
    flxi_nd_layout l = flxi_nd_layout_of(a, x->rank, indices->rank);
    int64_t of_updates[FLX_MAX_RANK], of_indices[FLX_MAX_RANK];
    strides_of(updates, of_updates);
    strides_of(indices, of_indices);
    strides_of(x, s.strides);
    for (int k = 0; k < x->rank; k++) {
        s.extents[k] = x->dims[k];
        s.size[k] = 1;
    }
    if (a->index_vector_axis < indices->rank)
        s.vector_step = of_indices[a->index_vector_axis];
    for (int k = 0; k < l.rank; k++) {
        scatter_axis c = {.extent = updates->dims[k], .update = of_updates[k], .axis = l.axis[k]};
        if (l.in_window[k]) {
            c.x = s.strides[c.axis];
            c.is_moved = is_moved(a, c.axis);
            s.size[c.axis] = c.extent;
            s.window[s.num_window++] = c;
            continue;
        }
        c.index = of_indices[c.axis];
        for (size_t i = 0; i < a->indices_batching_axes.n; i++)
            if (a->indices_batching_axes.v[i] == c.axis)
                c.x = s.strides[a->operand_batching_axes.v[i]];
        s.index[s.num_index++] = c;
    }
    return s;
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

const char *flxi_windows_applies(const flxi_route_node *n)
{
    const flxi_nd_attrs *a = flxi_scatter_nd_attrs_of(n->op, n->attrs);
    for (uint32_t i = 0; i < 3; i++)
        if (flxi_route_count(n->in_types[i]) == 0)
            return flxi_route_too_small;
    if (flxi_is_float(n->in_types[1]->dtype))
        return "indices are floats";
    if (a->combine.graph && !flxi_scatter_adds(&a->combine))
        return "the graph that combines is not an add";
    return keeps_order(n) ? NULL : "updates of one element are not in the order of their windows";
}

size_t flxi_windows_scratch(const flxi_route_node *n, int threads)
{
    (void)threads;
    return sums_halves(n) ? (size_t)flxi_route_count(n->out_types[0]) * sizeof(float) : 0;
}

/* ---- Starts ---- */

/* Adds the start whose first component is element i of indices. False: oob=zero drops the window, or -1 in *failed: the
   component that is an error. */
static bool find_start(const scattering *s, int64_t i, int64_t *p, int64_t *failed)
{
    int32_t dtype = s->n->in_types[1]->dtype;
    for (size_t j = 0; j < s->a->start_index_map.n; j++, i += s->vector_step) {
        int64_t axis = s->a->start_index_map.v[j], last = s->extents[axis] - s->size[axis];
        int64_t k = flxi_load_int(dtype, s->n->in[1], i);
        bool is_above = k > last || (dtype == FLX_U64 && k < 0);
        if (s->a->oob == OOB_CLAMP)
            k = is_above ? last : k < 0 ? 0 : k;
        else if (s->a->oob == OOB_ZERO && (k <= -s->size[axis] || k >= s->extents[axis] || (dtype == FLX_U64 && k < 0)))
            return false;
        else if (s->a->oob == OOB_ERROR && (is_above || k < 0)) {
            *failed = (int64_t)j;
            return false;
        }
        p[axis] = k;
    }
    return true;
}

/* The next position; false after the last. */
static bool advance(const scatter_axis *axes, int n, int64_t *at)
{
    for (int k = n; k-- > 0;) {
        if (++at[k] < axes[k].extent)
            return true;
        at[k] = 0;
    }
    return false;
}

static int64_t index_at(const scattering *s, const int64_t *b)
{
    int64_t at = s->first_index;
    for (int k = 0; k < s->num_index; k++)
        at += b[k] * s->index[k].index;
    return at;
}

/* Before anything is written. */
static flx_code check_starts(const scattering *s)
{
    int64_t b[FLX_MAX_RANK] = {0}, p[FLX_MAX_RANK];
    if (s->a->oob != OOB_ERROR)
        return FLX_OK;
    do {
        int64_t failed = -1, at = index_at(s, b);
        if (find_start(s, at, p, &failed) || failed < 0)
            continue;
        int64_t axis = s->a->start_index_map.v[failed];
        const flxi_nd_start start = {s->n->in_types[1]->dtype, s->n->in[1],  at + failed * s->vector_step, axis,
                                     s->extents[axis],         s->size[axis]};
        return flxi_nd_start_fail(&flxi_ops[s->n->op], s->n->label, s->n->origin, &start, s->n->err);
    } while (advance(s->index, s->num_index, b));
    return FLX_OK;
}

/* ---- Windows ---- */

/* One window, at p in x; elements outside of x are dropped. */
static void scatter_window(const scattering *s, const int64_t *p, int64_t at, int64_t update)
{
    scatter_axis w[FLX_MAX_RANK] = {{.extent = 1}};
    int64_t c[FLX_MAX_RANK] = {0};
    int n = s->num_window;
    for (int k = 0; k < n; k++) {
        w[k] = s->window[k];
        int64_t low = w[k].is_moved && p[w[k].axis] < 0 ? -p[w[k].axis] : 0;
        int64_t room = w[k].is_moved ? s->extents[w[k].axis] - p[w[k].axis] : w[k].extent;
        w[k].extent = (room < w[k].extent ? room : w[k].extent) - low;
        at += low * w[k].x;
        update += low * w[k].update;
    }
    const scatter_axis *last = &w[n ? n - 1 : 0];
    do {
        int64_t to = at, from = update;
        for (int k = 0; k + 1 < n; k++) {
            to += c[k] * w[k].x;
            from += c[k] * w[k].update;
        }
        fold_row(s, to, last, from, last->extent);
    } while (n && advance(w, n - 1, c));
}

static void scatter_all(const scattering *s)
{
    int64_t b[FLX_MAX_RANK] = {0}, p[FLX_MAX_RANK] = {0}, failed;
    do {
        if (!find_start(s, index_at(s, b), p, &failed))
            continue;
        int64_t at = s->first_x, update = s->first_update;
        for (size_t j = 0; j < s->a->start_index_map.n; j++)
            at += p[s->a->start_index_map.v[j]] * s->strides[s->a->start_index_map.v[j]];
        for (int k = 0; k < s->num_index; k++) {
            at += b[k] * s->index[k].x;
            update += b[k] * s->index[k].update;
        }
        scatter_window(s, p, at, update);
    } while (advance(s->index, s->num_index, b) && !flxi_stopped_by_now());
}

/* ---- Threads ---- */

/* Axes of indices come first, then those of the window. */
static scatter_axis *axis_at(scattering *s, int number)
{
    return number < s->num_index ? &s->index[number] : &s->window[number - s->num_index];
}

typedef struct {
    const scattering *s;
    int axis; /* that threads divide */
} division;

static void scatter_part(void *user, int64_t begin, int64_t end)
{
    const division *d = user;
    scattering part = *d->s;
    scatter_axis *axis = axis_at(&part, d->axis);
    part.first_index += begin * axis->index;
    part.first_update += begin * axis->update;
    part.first_x += begin * axis->x;
    axis->extent = end - begin;
    scatter_all(&part);
}

/* The number of an axis along which no two positions share an element of x, or -1. */
static int find_division(const scattering *s)
{
    for (int k = 0; k < s->num_index; k++)
        if (s->index[k].x && s->index[k].extent > 1)
            return k;
    for (int k = 0; k < s->num_window; k++)
        if (!s->window[k].is_moved && s->window[k].extent >= 32)
            return s->num_index + k;
    return -1;
}

static void scatter_divided(scattering *s, int number)
{
    const division d = {s, number};
    const scatter_axis *axis = axis_at(s, number);
    int64_t bytes = flxi_route_count(s->n->in_types[2]) / axis->extent * (int64_t)s->y_size;
    int64_t chunk = flxi_route_chunk(axis->extent, bytes);
    chunk = axis->x == 1 && chunk < 16 ? 16 : chunk; /* whole cache lines, so that threads do not meet in one */
    flxi_pool_run(s->n->pool, axis->extent, chunk, scatter_part, (void *)(uintptr_t)&d);
}

static void copy_part(void *user, int64_t begin, int64_t end)
{
    const scattering *s = user;
    const flx_type *x = s->n->in_types[0];
    size_t size = flx_dtype_size(x->dtype);
    if (s->y == s->n->out[0]) {
        memcpy((char *)s->y + (size_t)begin * size, (const char *)s->n->in[0] + (size_t)begin * size,
               (size_t)(end - begin) * size);
        return;
    }
    const uint16_t *from = s->n->in[0];
    float *to = s->y;
    for (int64_t i = begin; i < end; i++)
        to[i] = x->dtype == FLX_F16 ? flxi_widen_f16(from[i]) : flxi_widen_bf16(from[i]);
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

flx_code flxi_windows_route(const flxi_route_node *n)
{
    scattering s = scattering_of(n);
    bool is_wide = sums_halves(n);
    int64_t count = flxi_route_count(n->out_types[0]), chunk = flxi_route_chunk(count, (int64_t)s.y_size);
    FLXI_TRY(check_starts(&s));
    choose_row(&s);
    s.y = is_wide ? n->scratch : n->out[0];
    s.y_size = is_wide ? sizeof(float) : s.y_size;
    if (s.y != n->in[0])
        flxi_pool_run(n->pool, count, chunk, copy_part, &s);
    int number = find_division(&s);
    if (number >= 0)
        scatter_divided(&s, number);
    else
        scatter_all(&s);
    if (is_wide)
        flxi_pool_run(n->pool, count, chunk, round_part, &s);
    return FLX_OK;
}
