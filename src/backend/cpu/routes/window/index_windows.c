/* SPDX-License-Identifier: Apache-2.0 */
/* index_windows.c: see index_windows.h. */
#include "backend/cpu/routes/window/index_windows.h"

#include "base/host/stop.h"
#include "ops/index/gather_nd.h"
#include "ops/opcode.h"

#include <math.h>
#include <stdatomic.h>

FLXI_ATTRS_VIEW_OF(gather_nd_attrs_of, flxi_nd_attrs, gather_nd)

/* ---- Geometry ---- */

static const flxi_nd_attrs *nd_attrs_of(const flxi_route_node *n)
{
    return n->op == OP_gather_nd    ? gather_nd_attrs_of(n->op, n->attrs)
           : n->op == OP_scatter_nd ? flxi_scatter_nd_attrs_of(n->op, n->attrs)
                                    : NULL;
}

static void append_axis(flxi_window_axis *axes, int *n, flxi_window_axis a)
{
    if (a.extent != 1)
        axes[(*n)++] = a;
}

/* Neighbours become one where no component of a start moves either by itself. */
static int merge_axes(flxi_window_axis *axes, int n)
{
    int kept = 0;
    for (int k = 0; k < n; k++) {
        flxi_window_axis *last = kept ? &axes[kept - 1] : NULL;
        flxi_window_axis a = axes[k];
        if (last && last->part < 0 && a.part < 0 && last->moved == a.moved * a.extent &&
            last->index == a.index * a.extent && last->x == a.x * a.extent) {
            a.extent *= last->extent;
            *last = a;
            continue;
        }
        axes[kept++] = a;
    }
    return kept;
}

/* A window of one element along an axis is inside of x with its start. */
static void reduce_axes(flxi_index_windows *w)
{
    int num_window = 0;
    for (int k = 0; k < w->num_window; k++) {
        flxi_window_axis a = w->window[k];
        a.part = a.extent > 1 ? a.part : -1;
        w->moves_window |= a.part >= 0;
        append_axis(w->window, &num_window, a);
    }
    w->clips = w->moves_window && w->policy == OOB_ZERO;
    w->num_index = merge_axes(w->index, w->num_index);
    w->num_window = merge_axes(w->window, num_window);
}

static int part_of(const flxi_nd_attrs *a, int64_t axis)
{
    for (size_t j = 0; j < a->start_index_map.n; j++)
        if (a->start_index_map.v[j] == axis)
            return (int)j;
    return -1;
}

static void read_nd(flxi_index_windows *w, const flxi_nd_attrs *a)
{
    flxi_nd_layout l = flxi_nd_layout_of(a, w->x->rank, w->indices->rank);
    int64_t of_x[FLX_MAX_RANK], of_moved[FLX_MAX_RANK], of_indices[FLX_MAX_RANK];
    flxi_strides(w->x, of_x);
    flxi_strides(w->moved, of_moved);
    flxi_strides(w->indices, of_indices);
    w->is_nd = true;
    w->num_parts = (int)a->start_index_map.n;
    w->part_step = a->index_vector_axis < w->indices->rank ? of_indices[a->index_vector_axis] : 0;
    for (int j = 0; j < w->num_parts; j++) {
        int64_t axis = a->start_index_map.v[j];
        w->part[j] = (flxi_start_part){axis, w->x->dims[axis], 1, of_x[axis]};
    }
    for (int k = 0; k < l.rank; k++) {
        flxi_window_axis c = {.extent = w->moved->dims[k], .moved = of_moved[k], .part = -1};
        if (l.in_window[k]) {
            c.x = of_x[l.axis[k]];
            c.part = part_of(a, l.axis[k]);
            if (c.part >= 0)
                w->part[c.part].window = c.extent;
            w->window[w->num_window++] = c;
            continue;
        }
        c.index = of_indices[l.axis[k]];
        for (size_t i = 0; i < a->indices_batching_axes.n; i++)
            if (a->indices_batching_axes.v[i] == l.axis[k])
                c.x = of_x[a->operand_batching_axes.v[i]];
        append_axis(w->index, &w->num_index, c);
    }
}

/* x is [outer, n, inner]. gather: moved is [outer, indices, inner]; scatter_add: [indices, inner]. */
static void read_rows(flxi_index_windows *w, int64_t axis)
{
    flxi_split s = flxi_split_at(w->x, axis);
    int64_t count = flxi_route_count(w->indices);
    append_axis(w->window, &w->num_window,
                (flxi_window_axis){.extent = s.outer, .moved = count * s.inner, .x = s.n * s.inner, .part = -1});
    append_axis(w->index, &w->num_index, (flxi_window_axis){.extent = count, .moved = s.inner, .index = 1, .part = -1});
    append_axis(w->window, &w->num_window, (flxi_window_axis){.extent = s.inner, .moved = 1, .x = 1, .part = -1});
    w->part[0] = (flxi_start_part){axis, s.n, 1, s.inner};
}

/* Each index is for one element of moved. */
static void read_along(flxi_index_windows *w, int64_t axis)
{
    flxi_split s = flxi_split_at(w->x, axis), i = flxi_split_at(w->indices, axis);
    const flxi_window_axis axes[] = {
        {.extent = s.outer, .moved = i.n * s.inner, .index = i.n * s.inner, .x = s.n * s.inner, .part = -1},
        {.extent = i.n, .moved = s.inner, .index = s.inner, .part = -1},
        {.extent = s.inner, .moved = 1, .index = 1, .x = 1, .part = -1},
    };
    for (int k = 0; k < 3; k++)
        append_axis(w->index, &w->num_index, axes[k]);
    w->part[0] = (flxi_start_part){axis, s.n, 1, s.inner};
}

flxi_index_windows flxi_index_windows_of(const flxi_route_node *n)
{
    bool is_scatter_add = n->op == OP_scatter_add;
    const flxi_nd_attrs *nd = nd_attrs_of(n);
    flxi_index_windows w = {.n = n, .num_parts = 1, .indices = n->in_types[1]};
    w.x = is_scatter_add ? n->out_types[0] : n->in_types[0];
    w.moved = is_scatter_add ? n->in_types[0] : n->op == OP_scatter_nd ? n->in_types[2] : n->out_types[0];
    w.policy = nd ? (flxi_oob)nd->oob : (flxi_oob)flxi_route_int(n, "oob");
    if (nd)
        read_nd(&w, nd);
    else if (n->op == OP_take_along)
        read_along(&w, flxi_route_int(n, "axis"));
    else
        read_rows(&w, is_scatter_add ? 0 : flxi_route_int(n, "axis"));
    reduce_axes(&w);
    return w;
}

const char *flxi_index_windows_refusal(const flxi_route_node *n)
{
    for (uint32_t i = 0; i < n->nin; i++)
        if (flxi_route_count(n->in_types[i]) == 0)
            return flxi_route_too_small;
    return flxi_route_count(n->out_types[0]) == 0 ? flxi_route_too_small : NULL;
}

static int64_t extents_of(const flxi_window_axis *axes, int n)
{
    int64_t count = 1;
    for (int k = 0; k < n; k++)
        count *= axes[k].extent;
    return count;
}

int64_t flxi_index_windows_starts(const flxi_index_windows *w)
{
    return extents_of(w->index, w->num_index);
}

int64_t flxi_index_windows_elements(const flxi_index_windows *w)
{
    return extents_of(w->window, w->num_window);
}

flxi_index_windows flxi_index_windows_part(const flxi_index_windows *w, int number, int64_t begin, int64_t end)
{
    flxi_index_windows part = *w;
    flxi_window_axis *axis = number < w->num_index ? &part.index[number] : &part.window[number - w->num_index];
    part.first_index += begin * axis->index;
    part.first_moved += begin * axis->moved;
    part.first_x += begin * axis->x;
    axis->extent = end - begin;
    return part;
}

/* ---- Starts ---- */

/* A line of starts: n elements of indices, a step apart. */
typedef struct {
    const void *indices;
    int64_t first, step, n;
} start_line;

/* Loops over one component, for dtypes whose values fit into i64. `inside`: whether all values are from 0 to `last`,
   by signs alone, which vectors can collect. The others add steps of x: to values that are inside, to those that are
   clamped, or -1 where a value is dropped. */
#define PART_LOOPS(suffix, T, U)                                                                               \
    static bool inside_##suffix(const start_line *l, int64_t last)                                             \
    {                                                                                                          \
        const T *idx = (const T *)l->indices + l->first;                                                       \
        const U most = (U)last;                                                                                \
        U signs = 0;                                                                                           \
        if (l->step == 1)                                                                                      \
            for (int64_t i = 0; i < l->n; i++)                                                                 \
                signs |= (U)idx[i] | (most - (U)idx[i]);                                                       \
        else                                                                                                   \
            for (int64_t i = 0; i < l->n; i++)                                                                 \
                signs |= (U)idx[i * l->step] | (most - (U)idx[i * l->step]);                                   \
        return signs >> (sizeof(U) * 8 - 1) == 0;                                                              \
    }                                                                                                          \
    static void add_##suffix(const start_line *l, int64_t x, int64_t *offsets)                                 \
    {                                                                                                          \
        const T *idx = (const T *)l->indices + l->first;                                                       \
        for (int64_t i = 0; i < l->n; i++)                                                                     \
            offsets[i] += (int64_t)idx[i * l->step] * x;                                                       \
    }                                                                                                          \
    static void drop_##suffix(const start_line *l, int64_t last, int64_t x, int64_t *offsets)                  \
    {                                                                                                          \
        const T *idx = (const T *)l->indices + l->first;                                                       \
        for (int64_t i = 0; i < l->n; i++) {                                                                   \
            int64_t k = (int64_t)idx[i * l->step];                                                             \
            bool is_inside = ((uint64_t)k <= (uint64_t)last) & (offsets[i] >= 0);                              \
            offsets[i] = is_inside ? offsets[i] + k * x : -1;                                                  \
        }                                                                                                      \
    }                                                                                                          \
    static void clamp_##suffix(const start_line *l, int64_t last, int64_t x, int64_t *offsets)                 \
    {                                                                                                          \
        const T *idx = (const T *)l->indices + l->first;                                                       \
        for (int64_t i = 0; i < l->n; i++) {                                                                   \
            int64_t k = (int64_t)idx[i * l->step];                                                             \
            offsets[i] += (k < 0 ? 0 : k > last ? last : k) * x;                                               \
        }                                                                                                      \
    }                                                                                                          \
    static void part_##suffix(flxi_oob policy, const start_line *l, int64_t last, int64_t x, int64_t *offsets) \
    {                                                                                                          \
        if (policy == OOB_ERROR)                                                                               \
            add_##suffix(l, x, offsets);                                                                       \
        else if (policy == OOB_CLAMP)                                                                          \
            clamp_##suffix(l, last, x, offsets);                                                               \
        else                                                                                                   \
            drop_##suffix(l, last, x, offsets);                                                                \
    }
PART_LOOPS(i32, int32_t, uint32_t)
PART_LOOPS(i64, int64_t, uint64_t)
PART_LOOPS(u32, uint32_t, uint64_t)
PART_LOOPS(u8, uint8_t, uint32_t)

/* The same for n neighbours, of which every other one has a limit of its own: the components of points. */
#define DENSE_LOOP(suffix, T, U)                                                          \
    static bool dense_##suffix(const void *indices, int64_t n, int64_t even, int64_t odd) \
    {                                                                                     \
        typedef U vector __attribute__((vector_size(64), aligned(sizeof(U)), may_alias)); \
        enum { LANES = 64 / sizeof(U) };                                                  \
        const T *idx = indices;                                                           \
        const U limit[] = {(U)even, (U)odd};                                              \
        vector most, many = {0};                                                          \
        U signs = 0;                                                                      \
        int64_t i = 0;                                                                    \
        for (int k = 0; k < LANES; k++)                                                   \
            most[k] = limit[k % 2];                                                       \
        for (; i + LANES <= n; i += LANES) {                                              \
            const vector v = *(const vector *)(const void *)(idx + i);                    \
            many |= v | (most - v);                                                       \
        }                                                                                 \
        for (; i < n; i++)                                                                \
            signs |= (U)idx[i] | (limit[i % 2] - (U)idx[i]);                              \
        for (int k = 0; k < LANES; k++)                                                   \
            signs |= many[k];                                                             \
        return signs >> (sizeof(U) * 8 - 1) == 0;                                         \
    }
DENSE_LOOP(i32, int32_t, uint32_t)
DENSE_LOOP(i64, int64_t, uint64_t)

/* The value at element i of indices, of any dtype; false where no window can be: it is not an integer, or too large. */
static bool read_start(const flxi_index_windows *w, int64_t i, int64_t *k)
{
    int32_t dtype = w->indices->dtype;
    const void *indices = w->n->in[1];
    *k = flxi_load_int(dtype, indices, i);
    if (dtype == FLX_U64 && *k < 0)
        *k = INT64_MAX / 2; /* further out than any axis is long; a window added to it does not overflow */
    if (!flxi_is_float(dtype))
        return *k < INT64_MAX / 2 && *k > INT64_MIN / 2;
    double v = flxi_load_double(dtype, indices, i);
    return v == trunc(v) && fabs(v) < 4.0e18;
}

/* A component of a start: its value, or -1 when it is dropped, or -2: an error. */
static int64_t resolve(const flxi_index_windows *w, int64_t i, int64_t last)
{
    int64_t k;
    bool is_start = read_start(w, i, &k);
    if (is_start && k >= 0 && k <= last)
        return k;
    if (w->policy == OOB_CLAMP)
        return k > last ? last : k < 0 ? 0 : k;
    return w->policy == OOB_ZERO ? -1 : -2;
}

static bool are_inside(const flxi_index_windows *w, const start_line *l, int64_t last)
{
    switch (last < INT32_MAX ? w->indices->dtype : FLX_DTYPE_NONE) {
    case FLX_I32: return inside_i32(l, last);
    case FLX_I64: return inside_i64(l, last);
    case FLX_U32: return inside_u32(l, last);
    case FLX_U8: return inside_u8(l, last);
    default: break;
    }
    for (int64_t i = 0; i < l->n; i++)
        if (resolve(w, l->first + i * l->step, last) < 0)
            return false;
    return true;
}

static void add_part(const flxi_index_windows *w, const start_line *l, const flxi_start_part *p, int64_t *offsets)
{
    int64_t last = p->extent - p->window;
    switch (w->indices->dtype) {
    case FLX_I32: part_i32(w->policy, l, last, p->x, offsets); return;
    case FLX_I64: part_i64(w->policy, l, last, p->x, offsets); return;
    case FLX_U32: part_u32(w->policy, l, last, p->x, offsets); return;
    case FLX_U8: part_u8(w->policy, l, last, p->x, offsets); return;
    default: break;
    }
    for (int64_t i = 0; i < l->n; i++) {
        int64_t k = resolve(w, l->first + i * l->step, last);
        offsets[i] = k < 0 || offsets[i] < 0 ? -1 : offsets[i] + k * p->x;
    }
}

/* ---- Lines ---- */

enum { CHECKED = 4096, PARTED_CHECK = 1 << 16 }; /* starts at a time; more than this are worth several threads */

/* Where a line of starts begins: the offsets of start `at`, and how many follow it along the innermost index axis. */
typedef struct {
    int64_t index, moved, x, n;
    flxi_window_axis step;
} line_start;

static line_start line_at(const flxi_index_windows *w, int64_t at)
{
    int last = w->num_index - 1;
    line_start l = {w->first_index, w->first_moved, w->first_x, 1, {.extent = 1}};
    if (last < 0)
        return l;
    l.step = w->index[last];
    for (int k = last; k >= 0; k--) {
        const flxi_window_axis *a = &w->index[k];
        int64_t i = at % a->extent;
        at /= a->extent;
        l.index += i * a->index;
        l.moved += i * a->moved;
        l.x += i * a->x;
        if (k == last)
            l.n = a->extent - i;
    }
    return l;
}

static flx_code start_fails(const flxi_index_windows *w, const flxi_start_part *p, int64_t at)
{
    const flxi_route_node *n = w->n;
    const flxi_op *op = &flxi_ops[n->op];
    const flxi_nd_start start = {w->indices->dtype, n->in[1], at, p->axis, p->extent, p->window};
    if (!w->is_nd)
        return flxi_index_fail((flxi_index_reader){op, n->label, n->origin}, w->indices->dtype, n->in[1], at, p->extent,
                               n->err);
    return flxi_nd_start_fail(op, n->label, n->origin, &start, n->err);
}

/* The first error of a line that has one. */
static flx_code line_fails(const flxi_index_windows *w, const line_start *l)
{
    for (int64_t i = 0; i < l->n; i++)
        for (int j = 0; j < w->num_parts; j++) {
            const flxi_start_part *p = &w->part[j];
            int64_t at = l->index + i * l->step.index + j * w->part_step;
            if (resolve(w, at, p->extent - p->window) < 0)
                return start_fails(w, p, at);
        }
    return FLX_OK;
}

/* Whether all starts of [begin, end) are inside of x. */
typedef struct {
    const flxi_index_windows *w;
    atomic_bool leaves;
} start_check;

static bool line_is_inside(const flxi_index_windows *w, const line_start *l)
{
    const flxi_start_part *p = w->part;
    int64_t parts = w->num_parts, even = p[0].extent - p[0].window;
    int64_t odd = parts == 2 ? p[1].extent - p[1].window : even;
    bool is_dense = (parts == 1 || (parts == 2 && w->part_step == 1)) && l->step.index == parts;
    if (is_dense && even < INT32_MAX && odd < INT32_MAX && w->indices->dtype == FLX_I32)
        return dense_i32((const int32_t *)w->n->in[1] + l->index, l->n * parts, even, odd);
    if (is_dense && w->indices->dtype == FLX_I64)
        return dense_i64((const int64_t *)w->n->in[1] + l->index, l->n * parts, even, odd);
    for (int j = 0; j < w->num_parts; j++) {
        const start_line s = {w->n->in[1], l->index + j * w->part_step, l->step.index, l->n};
        if (!are_inside(w, &s, p[j].extent - p[j].window))
            return false;
    }
    return true;
}

static void check_part(void *user, int64_t begin, int64_t end)
{
    start_check *c = user;
    const flxi_index_windows *w = c->w;
    while (begin < end && !atomic_load_explicit(&c->leaves, memory_order_relaxed) && !flxi_stopped_by_now()) {
        line_start l = line_at(w, begin);
        l.n = l.n < end - begin ? l.n : end - begin;
        l.n = l.n < CHECKED ? l.n : CHECKED;
        if (!line_is_inside(w, &l))
            atomic_store_explicit(&c->leaves, true, memory_order_relaxed);
        begin += l.n;
    }
}

static flx_code first_failure(const flxi_index_windows *w)
{
    int64_t starts = flxi_index_windows_starts(w);
    for (int64_t at = 0; at < starts;) {
        line_start l = line_at(w, at);
        FLXI_TRY(line_fails(w, &l));
        at += l.n;
    }
    return FLX_OK;
}

/* Reading starts of other dtypes one by one costs as much as dropping them. */
static bool is_checked_fast(int32_t dtype)
{
    return dtype == FLX_I32 || dtype == FLX_I64 || dtype == FLX_U32 || dtype == FLX_U8;
}

flx_code flxi_index_windows_check(flxi_index_windows *w)
{
    int64_t starts = flxi_index_windows_starts(w);
    start_check c = {.w = w};
    if (w->policy != OOB_ERROR && !is_checked_fast(w->indices->dtype))
        return FLX_OK;
    flxi_pool_run(w->n->pool, starts, starts > PARTED_CHECK ? starts / 16 : starts, check_part, &c);
    if (flxi_stopped())
        return FLX_OK;
    if (!c.leaves) {
        w->policy = OOB_ERROR;
        w->clips = false;
        return FLX_OK;
    }
    return w->policy == OOB_ERROR ? first_failure(w) : FLX_OK;
}

/* ---- Walks ---- */

static void walk_block(const flxi_index_windows *w, const line_start *l,
                       void (*fn)(const void *user, const flxi_start_block *b), const void *user)
{
    int64_t offsets[FLXI_START_BLOCK];
    for (int64_t i = 0; i < l->n; i++)
        offsets[i] = l->x + i * l->step.x;
    for (int j = 0; j < w->num_parts; j++) {
        const start_line s = {w->n->in[1], l->index + j * w->part_step, l->step.index, l->n};
        add_part(w, &s, &w->part[j], offsets);
    }
    fn(user, &(flxi_start_block){l->n, offsets, l->moved, l->step.moved, w->window, w->num_window});
}

void flxi_index_windows_lines(const flxi_index_windows *w, int64_t begin, int64_t end,
                              void (*fn)(const void *user, const flxi_start_line *l), const void *user)
{
    size_t size = flx_dtype_size(w->indices->dtype);
    while (begin < end && !flxi_stopped_by_now()) {
        line_start l = line_at(w, begin);
        l.n = l.n < end - begin ? l.n : end - begin;
        l.n = l.n < CHECKED ? l.n : CHECKED;
        fn(user, &(flxi_start_line){.indices = (const char *)w->n->in[1] + (size_t)l.index * size,
                                    .n = l.n,
                                    .step = l.step.index,
                                    .x = l.x,
                                    .x_step = l.step.x,
                                    .moved = l.moved,
                                    .moved_step = l.step.moved});
        begin += l.n;
    }
}

/* One start under oob=zero: what is left of its window. */
static void walk_clipped(const flxi_index_windows *w, const line_start *l, int64_t i,
                         void (*fn)(const void *user, const flxi_start_block *b), const void *user)
{
    int64_t start[FLX_MAX_RANK];
    flxi_window_axis left[FLX_MAX_RANK];
    int64_t x = l->x + i * l->step.x, moved = l->moved + i * l->step.moved;
    for (int j = 0; j < w->num_parts; j++) {
        const flxi_start_part *p = &w->part[j];
        bool is_start = read_start(w, l->index + i * l->step.index + j * w->part_step, &start[j]);
        if (!is_start || start[j] <= -p->window || start[j] >= p->extent)
            return;
        x += start[j] * p->x;
    }
    for (int k = 0; k < w->num_window; k++) {
        flxi_window_axis a = w->window[k];
        int64_t s = a.part >= 0 ? start[a.part] : 0, low = s < 0 ? -s : 0;
        int64_t room = a.part >= 0 ? w->part[a.part].extent - s : a.extent;
        a.extent = (room < a.extent ? room : a.extent) - low;
        x += low * a.x;
        moved += low * a.moved;
        left[k] = a;
    }
    fn(user, &(flxi_start_block){1, &x, moved, 0, left, w->num_window});
}

void flxi_index_windows_walk(const flxi_index_windows *w, int64_t begin, int64_t end,
                             void (*fn)(const void *user, const flxi_start_block *b), const void *user)
{
    while (begin < end && !flxi_stopped_by_now()) {
        line_start l = line_at(w, begin);
        l.n = l.n < end - begin ? l.n : end - begin;
        l.n = l.n < FLXI_START_BLOCK ? l.n : FLXI_START_BLOCK;
        if (!w->clips)
            walk_block(w, &l, fn, user);
        for (int64_t i = 0; w->clips && i < l.n; i++)
            walk_clipped(w, &l, i, fn, user);
        begin += l.n;
    }
}
