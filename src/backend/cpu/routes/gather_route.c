/* SPDX-License-Identifier: Apache-2.0 */
/* gather_route.c: gather, take_along and gather_nd by windows. Starts are checked before anything is written, so one
   out of range fails as in the definition. Elements only move, so threads divide the starts, or where these are few an
   axis of the window. */
#include "backend/cpu/routes/window/index_windows.h"
#include "base/host/stop.h"

#include <string.h>

/* Elements at offsets of x, 0 where they are negative; and a row of x. Both have a distance between neighbours. */
typedef void (*take_elements)(char *y, int64_t y_step, const char *x, const int64_t *offsets, int64_t n);
typedef void (*take_row)(char *y, int64_t y_step, const char *x, int64_t x_step, int64_t n);

typedef void (*take_line)(const flxi_index_windows *w, const char *x, char *y, const flxi_start_line *l);

typedef struct {
    uint64_t part[2];
} bytes16;

/* Elements of a line of starts. */
#define LINE(name, T, I)                                                                                \
    static void name(const flxi_index_windows *w, const char *from, char *to, const flxi_start_line *l) \
    {                                                                                                   \
        T *restrict y = (T *)(void *)to + l->moved;                                                     \
        const T *x = (const T *)(const void *)from + l->x;                                              \
        const I *idx = l->indices;                                                                      \
        const int64_t step = l->step, x_step = l->x_step, y_step = l->moved_step, n = l->n;             \
        const int64_t first = w->part[0].x;                                                             \
        if (w->num_parts == 2) {                                                                        \
            const int64_t second = w->part[1].x, other = w->part_step;                                  \
            if (step == 2 && other == 1 && second == 1 && y_step == 1 && x_step == 0) {                 \
                for (int64_t i = 0; i < n; i++)                                                         \
                    y[i] = x[idx[2 * i] * first + idx[2 * i + 1]];                                      \
                return;                                                                                 \
            }                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                             \
                y[i * y_step] = x[i * x_step + idx[i * step] * first + idx[i * step + other] * second]; \
        } else if (step == 1 && y_step == 1 && x_step == 0 && first == 1) {                             \
            for (int64_t i = 0; i < n; i++)                                                             \
                y[i] = x[idx[i]];                                                                       \
        } else {                                                                                        \
            for (int64_t i = 0; i < n; i++)                                                             \
                y[i * y_step] = x[i * x_step + idx[i * step] * first];                                  \
        }                                                                                               \
    }

#define TAKE(suffix, T)                                                                                     \
    static void elements_##suffix(char *to, int64_t y_step, const char *from, const int64_t *at, int64_t n) \
    {                                                                                                       \
        T *restrict y = (T *)(void *)to;                                                                    \
        const T *x = (const T *)(const void *)from;                                                         \
        static const T none = {0};                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                     \
            y[i * y_step] = *(at[i] < 0 ? &none : x + at[i]);                                               \
    }                                                                                                       \
    static void row_##suffix(char *to, int64_t y_step, const char *from, int64_t x_step, int64_t n)         \
    {                                                                                                       \
        T *restrict y = (T *)(void *)to;                                                                    \
        const T *x = (const T *)(const void *)from;                                                         \
        for (int64_t i = 0; i < n; i++)                                                                     \
            y[i * y_step] = x[i * x_step];                                                                  \
    }                                                                                                       \
    LINE(line32_##suffix, T, int32_t)                                                                       \
    LINE(line64_##suffix, T, int64_t)
TAKE(1, uint8_t)
TAKE(2, uint16_t)
TAKE(4, uint32_t)
TAKE(8, uint64_t)
TAKE(16, bytes16)

typedef struct {
    const flxi_index_windows *w;
    const char *x;
    char *y;
    size_t size;
    take_elements elements;
    take_row row;
    take_line line; /* or NULL */
    int axis;       /* that threads divide, or -1: the starts */
} gathering;

static gathering gathering_of(const flxi_index_windows *w)
{
    static const struct {
        take_elements elements;
        take_row row;
        take_line line32, line64;
    } of_size[] = {{elements_1, row_1, line32_1, line64_1},
                   {elements_2, row_2, line32_2, line64_2},
                   {elements_4, row_4, line32_4, line64_4},
                   {elements_8, row_8, line32_8, line64_8},
                   {elements_16, row_16, line32_16, line64_16}};
    gathering g = {.w = w, .x = w->n->in[0], .y = w->n->out[0], .size = flx_dtype_size(w->x->dtype), .axis = -1};
    int k = g.size == 1 ? 0 : g.size == 2 ? 1 : g.size == 4 ? 2 : g.size == 8 ? 3 : 4;
    g.elements = of_size[k].elements;
    g.row = of_size[k].row;
    if (flxi_index_windows_has_lines(w))
        g.line = w->indices->dtype == FLX_I32 ? of_size[k].line32 : of_size[k].line64;
    return g;
}

/* ---- Blocks ---- */

/* One row of each window, at an offset in both tensors. */
static void take_rows(const gathering *g, const flxi_start_block *b, const flxi_window_axis *a, int64_t y, int64_t x)
{
    bool is_dense = a->x == 1 && a->moved == 1;
    size_t bytes = (size_t)a->extent * g->size;
    for (int64_t i = 0; i < b->n; i++, y += b->moved_step) {
        char *to = g->y + (size_t)y * g->size;
        const char *from = g->x + (size_t)(b->x[i] < 0 ? 0 : b->x[i] + x) * g->size;
        if (b->x[i] < 0)
            for (int64_t k = 0; k < a->extent; k++)
                memset(to + (size_t)(k * a->moved) * g->size, 0, g->size);
        else if (is_dense)
            memcpy(to, from, bytes);
        else
            g->row(to, a->moved, from, a->x, a->extent);
    }
}

/* One element of each window. */
static void take_points(const gathering *g, const flxi_start_block *b, int64_t y, int64_t x)
{
    g->elements(g->y + (size_t)y * g->size, b->moved_step, g->x + (size_t)x * g->size, b->x, b->n);
}

/* Windows of a block are walked together, position by position: of rows or of elements. */
static void gather_block(const void *user, const flxi_start_block *b)
{
    const gathering *g = user;
    int64_t at[FLX_MAX_RANK] = {0};
    const flxi_window_axis *last = b->num_window ? &b->window[b->num_window - 1] : NULL;
    bool by_rows = flxi_block_has_rows(b);
    int outer = by_rows ? b->num_window - 1 : b->num_window;
    do {
        int64_t y = b->moved, x = 0;
        for (int k = 0; k < outer; k++) {
            y += at[k] * b->window[k].moved;
            x += at[k] * b->window[k].x;
        }
        if (by_rows)
            take_rows(g, b, last, y, x);
        else
            take_points(g, b, y, x);
    } while (flxi_window_next(b->window, outer, at) && !flxi_stopped_by_now());
}

static void gather_line(const void *user, const flxi_start_line *l)
{
    const gathering *g = user;
    g->line(g->w, g->x, g->y, l);
}

/* ---- Threads ---- */

static void gather_starts(void *user, int64_t begin, int64_t end)
{
    const gathering *g = user;
    if (g->line)
        flxi_index_windows_lines(g->w, begin, end, gather_line, g);
    else
        flxi_index_windows_walk(g->w, begin, end, gather_block, g);
}

static void gather_part(void *user, int64_t begin, int64_t end)
{
    const gathering *g = user;
    flxi_index_windows part = flxi_index_windows_part(g->w, g->axis, begin, end);
    flxi_index_windows_walk(&part, 0, flxi_index_windows_starts(&part), gather_block, g);
}

/* The axis of the window that threads divide, or -1: the longest one, where starts are few, or the first, where the
   result has rows of starts. */
static int divided_axis(const flxi_index_windows *w, int64_t starts)
{
    int longest = 0;
    if (w->num_window == 0 || w->clips)
        return -1;
    for (int k = 1; k < w->num_window; k++)
        longest = w->window[k].extent > w->window[longest].extent ? k : longest;
    if (starts < 32)
        return w->num_index + longest;
    const flxi_window_axis *first = &w->window[0];
    return first->extent >= 32 && first->moved > w->index[0].moved ? w->num_index : -1;
}

static void clear_part(void *user, int64_t begin, int64_t end)
{
    const gathering *g = user;
    memset(g->y + (size_t)begin * g->size, 0, (size_t)(end - begin) * g->size);
}

const char *flxi_gather_applies(const flxi_route_node *n)
{
    return flxi_index_windows_refusal(n);
}

flx_code flxi_gather_route(const flxi_route_node *n)
{
    flxi_index_windows w = flxi_index_windows_of(n);
    FLXI_TRY(flxi_index_windows_check(&w));
    if (flxi_stopped())
        return FLX_OK;
    gathering g = gathering_of(&w);
    int64_t starts = flxi_index_windows_starts(&w), window = flxi_index_windows_elements(&w);
    int64_t count = starts * window;
    if (w.clips)
        flxi_pool_run(n->pool, count, flxi_route_chunk(count, (int64_t)g.size), clear_part, &g);
    g.axis = divided_axis(&w, starts);
    int64_t items = g.axis < 0 ? starts : flxi_index_windows_axis(&w, g.axis)->extent;
    int64_t bytes = count / items * (int64_t)g.size + 8;
    flxi_pool_run(n->pool, items, flxi_route_chunk(items, bytes), g.axis < 0 ? gather_starts : gather_part, &g);
    return FLX_OK;
}
