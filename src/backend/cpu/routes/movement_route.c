/* SPDX-License-Identifier: Apache-2.0 */
/* movement_route.c: transpose and concat, which only move bytes.

   A transposition is first reduced: axes of extent 1 vanish, and axes that stay neighbours become one. Where the last
   axis stays last, rows are copied; else squares of the plane spanned by the last axis of x and that of y are turned,
   so that both sides are read and written in whole cache lines. */
#include "backend/cpu/gemm/gemm_square.h"
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"

#include <string.h>

const char *flxi_always_applies(const flxi_route_node *n)
{
    (void)n;
    return NULL;
}

/* ---- transpose ---- */

typedef struct {
    int rank;
    int64_t dims[FLX_MAX_RANK];  /* of y */
    int64_t steps[FLX_MAX_RANK]; /* of x, in elements, along the axes of y */
    size_t size;
    const char *x;
    char *y;
    int64_t y_steps[FLX_MAX_RANK];
    int turned; /* the axis of y along which x is dense; rank - 1: rows are copied */
} turning;

static turning reduced(const flxi_route_node *n)
{
    turning t = {.size = flx_dtype_size(n->out_types[0]->dtype)};
    const flx_type *y = n->out_types[0];
    flx_ints perm = flxi_route_ints(n, "perm");
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(n->in_types[0], strides);
    for (int k = 0; k < y->rank; k++) {
        int64_t step = strides[perm.v[k]];
        int last = t.rank - 1;
        if (y->dims[k] == 1)
            continue;
        if (t.rank > 0 && t.steps[last] == step * y->dims[k]) {
            t.dims[last] *= y->dims[k];
            t.steps[last] = step;
            continue;
        }
        t.dims[t.rank] = y->dims[k];
        t.steps[t.rank++] = step;
    }
    if (t.rank == 0) {
        t.dims[0] = t.steps[0] = 1;
        t.rank = 1;
    }
    int64_t step = 1;
    for (int k = t.rank - 1; k >= 0; k--) {
        t.y_steps[k] = step;
        step *= t.dims[k];
        if (t.steps[k] == 1)
            t.turned = k;
    }
    return t;
}

/* Offsets of item `index` of all axes but `skip` and the last one. */
static void offsets_of(const turning *t, int skip, int64_t index, int64_t *x, int64_t *y)
{
    *x = *y = 0;
    for (int k = t->rank - 2; k >= 0; k--) {
        if (k == skip)
            continue;
        *x += index % t->dims[k] * t->steps[k];
        *y += index % t->dims[k] * t->y_steps[k];
        index /= t->dims[k];
    }
}

static void copy_rows(void *user, int64_t begin, int64_t end)
{
    const turning *t = user;
    size_t row = (size_t)t->dims[t->rank - 1] * t->size;
    for (int64_t i = begin; i < end; i++) {
        int64_t x;
        int64_t y;
        offsets_of(t, -1, i, &x, &y);
        flxi_stop_copy(t->y + (size_t)y * t->size, t->x + (size_t)x * t->size, row);
    }
}

enum { SQUARE = 32, LEAST_TURNED = 1 << 13 };

/* rows x cols of y, whose rows are y_row apart; x is dense along the rows. */
#define TURN(name, T)                                                                                      \
    static void name(const char *from, char *to, int64_t rows, int64_t cols, int64_t x_col, int64_t y_row) \
    {                                                                                                      \
        const T *x = (const T *)(const void *)from;                                                        \
        T *y = (T *)(void *)to;                                                                            \
        for (int64_t i = 0; i < rows; i++)                                                                 \
            for (int64_t j = 0; j < cols; j++)                                                             \
                y[i * y_row + j] = x[i + j * x_col];                                                       \
    }
typedef struct {
    uint64_t part[2];
} bytes16;
TURN(turn_1, uint8_t)
TURN(turn_2, uint16_t)
TURN(turn_rest_4, uint32_t)
TURN(turn_8, uint64_t)
TURN(turn_16, bytes16)

/* Words, in squares of 4 x 4 in registers. */
static void turn_4(const char *from, char *to, int64_t rows, int64_t cols, int64_t x_col, int64_t y_row)
{
    const uint32_t *x = (const uint32_t *)(const void *)from;
    uint32_t *y = (uint32_t *)(void *)to;
    int64_t whole_rows = rows / 4 * 4, whole_cols = cols / 4 * 4;
    for (int64_t i = 0; i < whole_rows; i += 4)
        for (int64_t j = 0; j < whole_cols; j += 4) {
            flxi_word4 line[4];
            for (int k = 0; k < 4; k++)
                line[k] = flxi_load_word4(x + i + (j + k) * x_col);
            flxi_turn_square(line, y + i * y_row + j, y_row);
        }
    turn_rest_4((const char *)(x + whole_cols * x_col), (char *)(y + whole_cols), whole_rows, cols - whole_cols, x_col,
                y_row);
    turn_rest_4((const char *)(x + whole_rows), (char *)(y + whole_rows * y_row), rows - whole_rows, cols, x_col,
                y_row);
}

/* One band of SQUARE rows along the turned axis, for all columns. */
static void turn_bands(void *user, int64_t begin, int64_t end)
{
    const turning *t = user;
    int64_t rows = t->dims[t->turned];
    int64_t cols = t->dims[t->rank - 1];
    int64_t bands = (rows + SQUARE - 1) / SQUARE;
    void (*turn)(const char *, char *, int64_t, int64_t, int64_t, int64_t) = t->size == 1   ? turn_1
                                                                             : t->size == 2 ? turn_2
                                                                             : t->size == 4 ? turn_4
                                                                             : t->size == 8 ? turn_8
                                                                                            : turn_16;
    for (int64_t i = begin; i < end; i++) {
        int64_t x;
        int64_t y;
        int64_t row = i % bands * SQUARE;
        offsets_of(t, t->turned, i / bands, &x, &y);
        for (int64_t col = 0; col < cols && !flxi_stopped_by_now(); col += SQUARE)
            turn(t->x + (size_t)(x + row + col * t->steps[t->rank - 1]) * t->size,
                 t->y + (size_t)(y + row * t->y_steps[t->turned] + col) * t->size,
                 rows - row < SQUARE ? rows - row : SQUARE, cols - col < SQUARE ? cols - col : SQUARE,
                 t->steps[t->rank - 1], t->y_steps[t->turned]);
    }
}

/* A kernel reads single elements of lines that are far apart, where the last axis moves. */
bool flxi_transpose_is_preferred(const flxi_route_node *n)
{
    if (flxi_route_count(n->out_types[0]) < LEAST_TURNED)
        return false;
    turning t = reduced(n);
    return t.turned != t.rank - 1 && t.dims[t.turned] >= 8 && t.dims[t.rank - 1] >= 8;
}

flx_code flxi_transpose_route(const flxi_route_node *n)
{
    int64_t count = flxi_route_count(n->out_types[0]);
    if (count == 0)
        return FLX_OK;
    turning t = reduced(n);
    t.x = n->in[0];
    t.y = n->out[0];
    int64_t cols = t.dims[t.rank - 1];
    if (t.turned == t.rank - 1) {
        flxi_pool_run(n->pool, count / cols, flxi_route_chunk(count / cols, cols * (int64_t)t.size), copy_rows, &t);
        return FLX_OK;
    }
    int64_t rows = t.dims[t.turned];
    int64_t bands = count / cols / rows * ((rows + SQUARE - 1) / SQUARE);
    flxi_pool_run(n->pool, bands, flxi_route_chunk(bands, SQUARE * cols * (int64_t)t.size), turn_bands, &t);
    return FLX_OK;
}

/* ---- concat ---- */

typedef struct {
    const flxi_route_node *n;
    int64_t axis;
    size_t row; /* bytes of one row of y, from the axis on */
} joining;

static size_t row_bytes(const flx_type *t, int64_t axis)
{
    flxi_split s = flxi_split_at(t, axis);
    return (size_t)(s.n * s.inner) * flx_dtype_size(t->dtype);
}

static void join_rows(void *user, int64_t begin, int64_t end)
{
    const joining *j = user;
    size_t at = 0;
    for (uint32_t k = 0; k < j->n->nin; k++) {
        size_t row = row_bytes(j->n->in_types[k], j->axis);
        for (int64_t i = begin; row > 0 && i < end; i++)
            flxi_stop_copy((char *)j->n->out[0] + (size_t)i * j->row + at, (const char *)j->n->in[k] + (size_t)i * row,
                           row);
        at += row;
    }
}

flx_code flxi_concat_route(const flxi_route_node *n)
{
    const flx_type *y = n->out_types[0];
    if (flxi_route_count(y) == 0)
        return FLX_OK;
    joining j = {.n = n, .axis = flxi_route_int(n, "axis")};
    j.row = row_bytes(y, j.axis);
    int64_t rows = flxi_split_at(y, j.axis).outer;
    flxi_pool_run(n->pool, rows, flxi_route_chunk(rows, (int64_t)j.row), join_rows, &j);
    return FLX_OK;
}
