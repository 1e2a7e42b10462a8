/* SPDX-License-Identifier: Apache-2.0 */
/* grouped_route.c: grouped_matmul and its transposes, one matrix product for each group.

   Rows are sorted by the matrix they meet and copied side by side, group after group. How many there are in a group is
   known only when it runs, while scratch is asked for before: so a group is filled up with rows of zeros to one of few
   sizes, at most an eighth more than it has. Rows are taken in order and each group is one product, so nothing depends
   on the threads. */
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/routes/route_index.h"
#include "base/host/stop.h"
#include "ops/opcode.h"

typedef struct {
    const flxi_route_node *n;
    flxi_route_index e;
    bool to_weight, to_input;
    int64_t rows, groups;
    int64_t depth, columns; /* of a row of operand 0, and of a row of the result or of its cotangent */
    size_t size;
    int64_t *starts, *order; /* group g has the rows order[starts[g]] … order[starts[g + 1] - 1] */
    char *left, *right;      /* rows of x; of the result, or of its cotangent */
    char *rest;              /* for the product */
} grouping;

static grouping grouping_of(const flxi_route_node *n)
{
    bool to_weight = n->op == OP_grouped_matmul_weight_backward;
    bool to_input = n->op == OP_grouped_matmul_input_backward;
    const flx_dim *w = to_weight ? n->out_types[0]->dims : n->in_types[1]->dims;
    return (grouping){.n = n,
                      .e = flxi_route_indices(n, 2, w[0]),
                      .to_weight = to_weight,
                      .to_input = to_input,
                      .rows = n->in_types[0]->dims[0],
                      .groups = w[0],
                      .depth = to_input ? w[2] : w[1],
                      .columns = to_input ? w[1] : w[2],
                      .size = flx_dtype_size(n->out_types[0]->dtype)};
}

/* Whether there is anything to multiply. */
static bool has_products(const grouping *q)
{
    return q->rows && q->groups && q->depth && q->columns;
}

/* ---- Sizes ---- */

/* The size to which a group of that many rows is padded. */
static int64_t filled(int64_t count)
{
    int64_t step = 1;
    while (16 * step < count)
        step *= 2;
    return (count + step - 1) / step * step;
}

static flxi_gemm product_of(const grouping *q, int64_t count)
{
    int32_t dtype = q->n->out_types[0]->dtype;
    if (q->to_weight)
        return flxi_gemm_matrices(dtype, q->depth, q->columns, filled(count), 1, q->depth, q->columns, 1);
    return flxi_gemm_matrices(dtype, filled(count), q->columns, q->depth, q->depth, 1, q->to_input ? 1 : q->columns,
                              q->to_input ? q->depth : 1);
}

static size_t aligned(int64_t count, size_t size)
{
    return ((size_t)count * size + 63) / 64 * 64;
}

/* Where the parts of scratch begin. */
typedef struct {
    size_t order, left, right, rest; /* in bytes; the starts are first */
} layout;

static layout layout_of(const grouping *q)
{
    int64_t most = filled(q->rows);
    layout l;
    l.order = aligned(q->groups + 1, sizeof *q->starts);
    l.left = l.order + aligned(q->rows, sizeof *q->order);
    l.right = l.left + aligned(most * q->depth, q->size);
    l.rest = l.right + aligned(most * q->columns, q->size);
    return l;
}

static void assign_scratch(grouping *q, char *scratch)
{
    layout l = layout_of(q);
    q->starts = (void *)scratch;
    q->order = (void *)(scratch + l.order);
    q->left = scratch + l.left;
    q->right = scratch + l.right;
    q->rest = scratch + l.rest;
}

const char *flxi_grouped_applies(const flxi_route_node *n)
{
    (void)n;
    return NULL; /* every dtype */
}

size_t flxi_grouped_scratch(const flxi_route_node *n, int threads)
{
    grouping q = grouping_of(n);
    size_t most = 0;
    if (!has_products(&q))
        return 0;
    for (int64_t count = 1; count <= filled(q.rows); count = filled(count + 1)) {
        flxi_gemm p = product_of(&q, count);
        size_t nbytes = flxi_gemm_scratch(&p, threads);
        most = nbytes > most ? nbytes : most;
    }
    return layout_of(&q).rest + most;
}

/* ---- Rows ---- */

/* A counting sort: rows of a group stay in order, rows whose group is out of range are left out. */
static void sort_rows(grouping *q)
{
    memset(q->starts, 0, (size_t)(q->groups + 1) * sizeof *q->starts);
    for (int64_t i = 0; i < q->rows; i++) {
        int64_t at = flxi_route_position(&q->e, i);
        if (at >= 0)
            q->starts[at + 1]++;
    }
    for (int64_t g = 0; g < q->groups; g++)
        q->starts[g + 1] += q->starts[g];
    for (int64_t i = 0; i < q->rows; i++) {
        int64_t at = flxi_route_position(&q->e, i);
        if (at >= 0)
            q->order[q->starts[at]++] = i;
    }
    for (int64_t g = q->groups; g > 0; g--) /* each has moved on to where the next begins */
        q->starts[g] = q->starts[g - 1];
    q->starts[0] = 0;
}

/* Rows of a tensor, by their numbers, and the same rows side by side. */
typedef struct {
    const int64_t *order;
    char *apart, *together;
    size_t row; /* bytes */
    bool gather;
} row_move;

static void move_rows(void *user, int64_t begin, int64_t end)
{
    const row_move *m = user;
    for (int64_t i = begin; i < end; i++) {
        char *apart = m->apart + (size_t)m->order[i] * m->row;
        char *together = m->together + (size_t)i * m->row;
        memcpy(m->gather ? together : apart, m->gather ? apart : together, m->row);
    }
}

static void copy_rows(const grouping *q, row_move *m, int64_t count, int64_t width)
{
    m->row = (size_t)width * q->size;
    flxi_pool_run(q->n->pool, count, flxi_route_chunk(count, (int64_t)m->row), move_rows, m);
    if (m->gather)
        memset(m->together + (size_t)count * m->row, 0, (size_t)(filled(count) - count) * m->row);
}

static void gather(const grouping *q, uint32_t operand, int64_t group, char *together, int64_t width)
{
    row_move m = {.order = q->order + q->starts[group],
                  .apart = (char *)(uintptr_t)q->n->in[operand], /* only read */
                  .together = together,
                  .gather = true};
    copy_rows(q, &m, q->starts[group + 1] - q->starts[group], width);
}

/* ---- Products ---- */

/* The rows of one group through its matrix, which is read as stored, transposed or not. */
static void run_rows(const grouping *q, int64_t group, int64_t count)
{
    flxi_gemm p = product_of(q, count);
    gather(q, 0, group, q->left, q->depth);
    p.a.data = q->left;
    p.b.data = (const char *)q->n->in[1] + (size_t)(group * q->depth * q->columns) * q->size;
    p.c = q->right;
    flxi_gemm_run(&p, q->n->pool, q->rest);
    row_move back = {.order = q->order + q->starts[group], .apart = q->n->out[0], .together = q->right};
    copy_rows(q, &back, count, q->columns);
}

/* The sum over the rows of one group. */
static void run_to_weight(const grouping *q, int64_t group, int64_t count)
{
    flxi_gemm p = product_of(q, count);
    gather(q, 0, group, q->left, q->depth);
    gather(q, 1, group, q->right, q->columns);
    p.a.data = q->left;
    p.b.data = q->right;
    p.c = (char *)q->n->out[0] + (size_t)(group * q->depth * q->columns) * q->size;
    flxi_gemm_run(&p, q->n->pool, q->rest);
}

flx_code flxi_grouped_route(const flxi_route_node *n)
{
    grouping q = grouping_of(n);
    size_t nbytes = (size_t)flxi_route_count(n->out_types[0]) * q.size;
    FLXI_TRY(flxi_route_check_indices(&q.e));
    if (nbytes)
        memset(n->out[0], 0, nbytes); /* rows that are dropped, groups without a row */
    if (!has_products(&q))
        return FLX_OK;
    assign_scratch(&q, n->scratch);
    sort_rows(&q);
    for (int64_t g = 0; g < q.groups && !flxi_stopped(); g++) {
        int64_t count = q.starts[g + 1] - q.starts[g];
        if (count > 0)
            (q.to_weight ? run_to_weight : run_rows)(&q, g, count);
    }
    return FLX_OK;
}
