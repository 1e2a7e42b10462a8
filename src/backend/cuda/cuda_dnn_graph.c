/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_dnn_graph.c: attention as graphs of cuDNN's operations. The library recognises these graphs and makes one kernel
   of each, which keeps scores on the chip. Logical shapes are [N, H, S, D] with any strides; transposed operands are
   the same memory with two axes exchanged. The gradient is the form that gives the same bits every time,
   unless the faster one is wanted, whose blocks add to the cotangent of the queries as they come. */
#include "backend/cuda/cuda_attention.h"
#include "backend/cuda/cuda_dnn.h"

#include <math.h>

enum { RANK = 4 };

struct flxi_dnn_graph {
    flxi_cuda_attention of;
    flxi_dnn_builder b;
    int64_t next_id;             /* of tensors that exist on the chip only */
    _Alignas(16) float scale[4]; /* the first is the scalar, which is read when the graph is run or captured */
    _Alignas(16) float least[4];
    _Alignas(16) float one[4];
    flxi_dnn_graph *next;
};

/* A tensor; id 0: it exists on the chip only. */
static flxi_dnn_desc tensor(flxi_dnn_graph *g, int64_t id, int type, const int64_t dims[RANK],
                            const int64_t strides[RANK])
{
    const flxi_dnn_tensor t = {.id = id ? id : g->next_id++,
                               .type = type,
                               .rank = RANK,
                               .dims = dims,
                               .strides = strides,
                               .is_virtual = id == 0,
                               .is_by_value = id == FLXI_DNN_SCALE || id == FLXI_DNN_LEAST || id == FLXI_DNN_ONE};
    return flxi_dnn_add_tensor(&g->b, &t);
}

static flxi_dnn_desc scalar(flxi_dnn_graph *g, int64_t id)
{
    static const int64_t ones[RANK] = {1, 1, 1, 1};
    return tensor(g, id, FLXI_DNN_F32, ones, ones);
}

/* ---- Shapes ---- */

static int dtype_of(const flxi_dnn_graph *g)
{
    return g->of.dtype == FLX_BF16 ? FLXI_DNN_BF16 : FLXI_DNN_F16;
}

/* [N, H, tokens, D] in memory; or turned, [N, H, D, tokens]. */
static flxi_dnn_desc heads(flxi_dnn_graph *g, int64_t id, int64_t tokens, bool is_turned)
{
    const flxi_cuda_attention *a = &g->of;
    int64_t row = a->is_heads_first ? a->width : a->heads * a->width;
    int64_t head = a->is_heads_first ? tokens * a->width : a->width, batch = a->heads * tokens * a->width;
    const int64_t dims[] = {a->n, a->heads, tokens, a->width}, strides[] = {batch, head, row, 1};
    const int64_t turned[] = {a->n, a->heads, a->width, tokens}, turned_strides[] = {batch, head, 1, row};
    return tensor(g, id, dtype_of(g), is_turned ? turned : dims, is_turned ? turned_strides : strides);
}

/* [N, H, Sq, columns], dense. */
static flxi_dnn_desc dense(flxi_dnn_graph *g, int64_t id, int type, int64_t columns)
{
    const flxi_cuda_attention *a = &g->of;
    const int64_t dims[] = {a->n, a->heads, a->queries, columns};
    const int64_t strides[] = {a->heads * a->queries * columns, a->queries * columns, columns, 1};
    return tensor(g, id, type, dims, strides);
}

static flxi_dnn_desc scores(flxi_dnn_graph *g, int type)
{
    return dense(g, 0, type, g->of.keys);
}

/* ---- Operations ---- */

typedef struct {
    int mode, math;
    flxi_dnn_desc x, b, t; /* b and t may be NULL */
    int64_t axis;          /* of an index */
} pointwise;

static flxi_dnn_desc apply(flxi_dnn_graph *g, const pointwise *p, flxi_dnn_desc y)
{
    flxi_dnn_desc what = flxi_dnn_make(&g->b, FLXI_DNN_POINTWISE), d = flxi_dnn_make(&g->b, FLXI_DNN_POINTWISE_NODE);
    flxi_dnn_set(&g->b, what, FLXI_DNN_POINTWISE_MODE, FLXI_DNN_OF_POINTWISE_MODE, 1, &p->mode);
    flxi_dnn_set(&g->b, what, FLXI_DNN_POINTWISE_MATH, FLXI_DNN_OF_DATA_TYPE, 1, &p->math);
    if (p->mode == FLXI_DNN_INDEX)
        flxi_dnn_set(&g->b, what, FLXI_DNN_POINTWISE_AXIS, FLXI_DNN_OF_INT64, 1, &p->axis);
    flxi_dnn_finish(&g->b, what);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_NODE_POINTWISE, what);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_NODE_POINTWISE + 1, p->x);
    if (p->b)
        flxi_dnn_set_desc(&g->b, d, FLXI_DNN_NODE_POINTWISE + 2, p->b);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_NODE_POINTWISE + 3, y);
    if (p->t)
        flxi_dnn_set_desc(&g->b, d, FLXI_DNN_NODE_T, p->t);
    flxi_dnn_add_operation(&g->b, d);
    return y;
}

static flxi_dnn_desc combine(flxi_dnn_graph *g, int mode, flxi_dnn_desc x, flxi_dnn_desc b, flxi_dnn_desc y)
{
    return apply(g, &(pointwise){.mode = mode, .math = FLXI_DNN_F32, .x = x, .b = b}, y);
}

static flxi_dnn_desc product(flxi_dnn_graph *g, flxi_dnn_desc a, flxi_dnn_desc b, flxi_dnn_desc c)
{
    flxi_dnn_desc what = flxi_dnn_make(&g->b, FLXI_DNN_MATMUL), d = flxi_dnn_make(&g->b, FLXI_DNN_MATMUL_NODE);
    const int math = FLXI_DNN_F32;
    flxi_dnn_set(&g->b, what, FLXI_DNN_MATMUL_MATH, FLXI_DNN_OF_DATA_TYPE, 1, &math);
    flxi_dnn_finish(&g->b, what);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_MATMUL_A, a);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_MATMUL_A + 1, b);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_MATMUL_A + 2, c);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_MATMUL_A + 3, what);
    flxi_dnn_add_operation(&g->b, d);
    return c;
}

/* Along the last axis. */
static flxi_dnn_desc reduce(flxi_dnn_graph *g, int how, flxi_dnn_desc x, flxi_dnn_desc y)
{
    flxi_dnn_desc what = flxi_dnn_make(&g->b, FLXI_DNN_REDUCTION), d = flxi_dnn_make(&g->b, FLXI_DNN_REDUCTION_NODE);
    const int math = FLXI_DNN_F32;
    flxi_dnn_set(&g->b, what, FLXI_DNN_REDUCTION_OPERATOR, FLXI_DNN_OF_REDUCTION, 1, &how);
    flxi_dnn_set(&g->b, what, FLXI_DNN_REDUCTION_MATH, FLXI_DNN_OF_DATA_TYPE, 1, &math);
    flxi_dnn_finish(&g->b, what);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_REDUCTION_X, x);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_REDUCTION_X + 1, y);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_REDUCTION_X + 2, what);
    flxi_dnn_add_operation(&g->b, d);
    return y;
}

static flxi_dnn_desc reshape(flxi_dnn_graph *g, flxi_dnn_desc x, flxi_dnn_desc y)
{
    flxi_dnn_desc d = flxi_dnn_make(&g->b, FLXI_DNN_RESHAPE_NODE);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_RESHAPE_X, x);
    flxi_dnn_set_desc(&g->b, d, FLXI_DNN_RESHAPE_X + 1, y);
    flxi_dnn_add_operation(&g->b, d);
    return y;
}

/* ---- Attention ---- */

/* -inf where a key comes after its query. */
static flxi_dnn_desc masked(flxi_dnn_graph *g, flxi_dnn_desc s)
{
    if (!g->of.is_causal)
        return s;
    flxi_dnn_desc at[2];
    for (int k = 0; k < 2; k++)
        at[k] = apply(g, &(pointwise){.mode = FLXI_DNN_INDEX, .math = FLXI_DNN_F32, .x = s, .axis = 2 + k},
                      scores(g, FLXI_DNN_I32));
    flxi_dnn_desc keep = apply(g, &(pointwise){.mode = FLXI_DNN_GE, .math = FLXI_DNN_BOOL, .x = at[0], .b = at[1]},
                               scores(g, FLXI_DNN_BOOL));
    return apply(
        g,
        &(pointwise){.mode = FLXI_DNN_SELECT, .math = FLXI_DNN_F32, .x = s, .b = scalar(g, FLXI_DNN_LEAST), .t = keep},
        scores(g, FLXI_DNN_F32));
}

static void build_forward(flxi_dnn_graph *g)
{
    const flxi_cuda_attention *a = &g->of;
    flxi_dnn_desc s = product(g, heads(g, FLXI_DNN_Q, a->queries, false), heads(g, FLXI_DNN_K, a->keys, true),
                              scores(g, FLXI_DNN_F32));
    s = combine(g, FLXI_DNN_MUL, s, scalar(g, FLXI_DNN_SCALE), scores(g, FLXI_DNN_F32));
    s = masked(g, s);
    flxi_dnn_desc most = reduce(g, FLXI_DNN_MAX, s, dense(g, 0, FLXI_DNN_F32, 1));
    s = combine(g, FLXI_DNN_SUB, s, most, scores(g, FLXI_DNN_F32));
    s = combine(g, FLXI_DNN_EXP, s, NULL, scores(g, FLXI_DNN_F32));
    flxi_dnn_desc sum = reduce(g, FLXI_DNN_SUM, s, dense(g, 0, FLXI_DNN_F32, 1));
    flxi_dnn_desc log = combine(g, FLXI_DNN_LOG, sum, NULL, dense(g, 0, FLXI_DNN_F32, 1));
    combine(g, FLXI_DNN_ADD, most, log, dense(g, FLXI_DNN_STATS, FLXI_DNN_F32, 1));
    flxi_dnn_desc p = combine(g, FLXI_DNN_DIV, s, sum, scores(g, dtype_of(g)));
    product(g, p, heads(g, FLXI_DNN_V, a->keys, false), heads(g, FLXI_DNN_Y, a->queries, false));
}

/* [N, H, Sk, Sq] from [N, H, Sq, Sk]. */
static flxi_dnn_desc turned_scores(flxi_dnn_graph *g, flxi_dnn_desc s)
{
    const flxi_cuda_attention *a = &g->of;
    const int64_t dims[] = {a->n, a->heads, a->keys, a->queries};
    const int64_t strides[] = {a->heads * a->queries * a->keys, a->queries * a->keys, 1, a->keys};
    return reshape(g, s, tensor(g, 0, dtype_of(g), dims, strides));
}

static void build_backward(flxi_dnn_graph *g)
{
    const flxi_cuda_attention *a = &g->of;
    flxi_dnn_desc q = heads(g, FLXI_DNN_Q, a->queries, false), k = heads(g, FLXI_DNN_K, a->keys, true);
    flxi_dnn_desc dy = heads(g, FLXI_DNN_DY, a->queries, false), scale = scalar(g, FLXI_DNN_SCALE);
    flxi_dnn_desc delta =
        combine(g, FLXI_DNN_MUL, dy, heads(g, FLXI_DNN_Y, a->queries, false), dense(g, 0, FLXI_DNN_F32, a->width));
    delta = reduce(g, FLXI_DNN_SUM, delta, dense(g, 0, FLXI_DNN_F32, 1));
    delta = combine(g, FLXI_DNN_MUL, delta, scalar(g, FLXI_DNN_ONE), dense(g, FLXI_DNN_DELTA, FLXI_DNN_F32, 1));
    flxi_dnn_desc s = product(g, q, k, scores(g, FLXI_DNN_F32));
    s = combine(g, FLXI_DNN_MUL, s, scale, scores(g, FLXI_DNN_F32));
    s = combine(g, FLXI_DNN_SUB, s, dense(g, FLXI_DNN_STATS, FLXI_DNN_F32, 1), scores(g, FLXI_DNN_F32));
    s = masked(g, s);
    flxi_dnn_desc p = combine(g, FLXI_DNN_EXP, s, NULL, scores(g, FLXI_DNN_F32));
    product(g, turned_scores(g, p), dy, heads(g, FLXI_DNN_DV, a->keys, false));
    flxi_dnn_desc ds = product(g, dy, heads(g, FLXI_DNN_V, a->keys, true), scores(g, FLXI_DNN_F32));
    ds = combine(g, FLXI_DNN_SUB, ds, delta, scores(g, FLXI_DNN_F32));
    ds = combine(g, FLXI_DNN_MUL, ds, p, scores(g, FLXI_DNN_F32));
    ds = combine(g, FLXI_DNN_MUL, ds, scale, scores(g, FLXI_DNN_F32));
    product(g, turned_scores(g, ds), q, heads(g, FLXI_DNN_DK, a->keys, false));
    k = reshape(g, k, heads(g, 0, a->keys, false));
    if (!a->is_fast) {
        product(g, ds, k, heads(g, FLXI_DNN_DQ, a->queries, false));
        return;
    }
    flxi_dnn_desc sums = product(g, ds, k, dense(g, FLXI_DNN_SUMS, FLXI_DNN_F32, a->width));
    combine(g, FLXI_DNN_IDENTITY, sums, NULL, heads(g, FLXI_DNN_DQ, a->queries, false));
}

/* ---- Plans ---- */

static void add_operations(flxi_dnn_graph *g)
{
    g->next_id = FLXI_DNN_FIRST_VIRTUAL;
    g->scale[0] = (float)g->of.scale;
    g->least[0] = -INFINITY;
    g->one[0] = 1;
    if (g->of.is_backward)
        build_backward(g);
    else
        build_forward(g);
}

static void free_graph(const flxi_allocator *mem, flxi_dnn_graph *g)
{
    flxi_dnn_free(&g->b);
    flxi_free(mem, g, 1, sizeof *g);
}

flx_code flxi_dnn_count_operations(const flxi_allocator *mem, const flxi_cuda_attention *of, int *out, flx_error *err)
{
    const flxi_cudnn *dnn = flxi_cuda_dnn(err);
    if (!dnn)
        return FLX_E_DEVICE;
    flxi_dnn_graph *g = flxi_alloc(mem, 1, sizeof *g);
    if (!g)
        return flxi_oom(err, "attention");
    g->of = *of;
    g->b.dnn = dnn;
    add_operations(g);
    bool failed = g->b.failed;
    *out = g->b.num_operations;
    free_graph(mem, g);
    return failed ? flxi_fail(err, FLX_E_DEVICE, "cuDNN does not take operation %d of attention", *out) : FLX_OK;
}

void flxi_cuda_free_dnn(flxi_card *card)
{
    for (flxi_dnn_graph *g = card->dnn_graphs, *next; g; g = next) {
        next = g->next;
        free_graph(card->mem, g);
    }
    card->dnn_graphs = NULL;
    if (card->dnn)
        flxi_cuda_dnn(NULL)->Destroy(card->dnn);
    card->dnn = NULL;
}

/* With the lock held. */
static flxi_dnn_graph *find(flxi_card *card, const flxi_cuda_attention *of)
{
    const flxi_cudnn *dnn = flxi_cuda_dnn(NULL);
    flxi_dnn_graph *g = card->dnn_graphs;
    while (g && memcmp(&g->of, of, sizeof *of) != 0)
        g = g->next;
    if (g || !flxi_dnn_handle_of(card))
        return g;
    g = flxi_alloc(card->mem, 1, sizeof *g);
    if (!g)
        return NULL;
    g->of = *of;
    g->b.dnn = dnn;
    add_operations(g);
    if (!g->b.failed)
        flxi_dnn_make_plan(&g->b, card->dnn, 0);
    g->next = card->dnn_graphs;
    return card->dnn_graphs = g;
}

const flxi_dnn_graph *flxi_cuda_attention_plan(flxi_card *card, const flxi_cuda_attention *of)
{
    pthread_mutex_lock(&card->lock);
    const flxi_dnn_graph *g = find(card, of);
    pthread_mutex_unlock(&card->lock);
    return g && g->b.plan ? g : NULL;
}

size_t flxi_dnn_workspace(const flxi_dnn_graph *g)
{
    return g->b.workspace > 0 ? (size_t)g->b.workspace : 0;
}

/* ---- Running ---- */

flx_code flxi_dnn_run(flxi_card *card, flxi_cu_stream stream, const flxi_dnn_graph *g, const int64_t *ids,
                      void *const *pointers, size_t n, void *workspace, flx_error *err)
{
    enum { MOST = 16 };
    int64_t all_ids[MOST], count = 0;
    void *all[MOST];
    for (size_t i = 0; i < n && count < MOST - 3; i++) {
        all_ids[count] = ids[i];
        all[count++] = pointers[i];
    }
    all_ids[count] = FLXI_DNN_SCALE;
    all[count++] = (void *)(uintptr_t)g->scale;
    if (g->of.is_causal) {
        all_ids[count] = FLXI_DNN_LEAST;
        all[count++] = (void *)(uintptr_t)g->least;
    }
    if (g->of.is_backward) {
        all_ids[count] = FLXI_DNN_ONE;
        all[count++] = (void *)(uintptr_t)g->one;
    }
    return flxi_dnn_execute(card, stream, &g->b, &(flxi_dnn_operands){all_ids, all, count, workspace}, "attention",
                            err);
}
