/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_dnn_graph.c: attention as graphs of cuDNN's operations. The library recognises these graphs and makes one kernel
   of each, which keeps scores on the chip. Logical shapes are [N, H, S, D] with any strides; transposed operands are
   the same memory with two axes exchanged. The gradient is the form that gives the same bits every time. */
#include "backend/cuda/cuda_attention.h"

#include <math.h>

enum { MOST_DESCRIPTORS = 128, MOST_OPERATIONS = 24, RANK = 4 };

struct flxi_dnn_graph {
    flxi_cuda_attention of;
    const flxi_cudnn *dnn;
    flxi_dnn_desc owned[MOST_DESCRIPTORS];
    int num_owned;
    flxi_dnn_desc operations[MOST_OPERATIONS];
    int num_operations;
    int64_t next_id; /* of tensors that exist on the chip only */
    bool failed;
    flxi_dnn_desc plan; /* NULL: it is not taken */
    int64_t workspace;
    _Alignas(16) float scale[4]; /* the first is the scalar, which is read when the graph is run or captured */
    _Alignas(16) float least[4];
    _Alignas(16) float one[4];
    flxi_dnn_graph *next;
};

/* ---- Descriptors ---- */

static flxi_dnn_desc make(flxi_dnn_graph *g, int kind)
{
    flxi_dnn_desc d = NULL;
    if (g->num_owned == MOST_DESCRIPTORS || g->dnn->CreateDescriptor(kind, &d) != 0) {
        g->failed = true;
        return NULL;
    }
    return g->owned[g->num_owned++] = d;
}

static void set(flxi_dnn_graph *g, flxi_dnn_desc d, int name, int type, int64_t n, const void *value)
{
    if (!g->failed)
        g->failed = g->dnn->SetAttribute(d, name, type, n, value) != 0;
}

static void set_desc(flxi_dnn_graph *g, flxi_dnn_desc d, int name, flxi_dnn_desc value)
{
    set(g, d, name, FLXI_DNN_OF_DESCRIPTOR, 1, &value);
}

static void finish(flxi_dnn_graph *g, flxi_dnn_desc d)
{
    if (!g->failed)
        g->failed = g->dnn->Finalize(d) != 0;
}

/* A tensor; id 0: it exists on the chip only. */
static flxi_dnn_desc tensor(flxi_dnn_graph *g, int64_t id, int type, const int64_t dims[RANK],
                            const int64_t strides[RANK])
{
    flxi_dnn_desc d = make(g, FLXI_DNN_TENSOR);
    bool is_virtual = id == 0, is_by_value = id == FLXI_DNN_SCALE || id == FLXI_DNN_LEAST || id == FLXI_DNN_ONE;
    int64_t alignment = is_by_value ? sizeof(float) : 16, own = id ? id : g->next_id++;
    set(g, d, FLXI_DNN_TENSOR_TYPE, FLXI_DNN_OF_DATA_TYPE, 1, &type);
    set(g, d, FLXI_DNN_TENSOR_DIMENSIONS, FLXI_DNN_OF_INT64, RANK, dims);
    set(g, d, FLXI_DNN_TENSOR_STRIDES, FLXI_DNN_OF_INT64, RANK, strides);
    set(g, d, FLXI_DNN_TENSOR_ID, FLXI_DNN_OF_INT64, 1, &own);
    set(g, d, FLXI_DNN_TENSOR_ALIGNMENT, FLXI_DNN_OF_INT64, 1, &alignment);
    if (is_virtual)
        set(g, d, FLXI_DNN_TENSOR_IS_VIRTUAL, FLXI_DNN_OF_BOOLEAN, 1, &is_virtual);
    if (is_by_value)
        set(g, d, FLXI_DNN_TENSOR_IS_BY_VALUE, FLXI_DNN_OF_BOOLEAN, 1, &is_by_value);
    finish(g, d);
    return d;
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

static void add_operation(flxi_dnn_graph *g, flxi_dnn_desc d)
{
    finish(g, d);
    if (g->num_operations == MOST_OPERATIONS)
        g->failed = true;
    else
        g->operations[g->num_operations++] = d;
}

typedef struct {
    int mode, math;
    flxi_dnn_desc x, b, t; /* b and t may be NULL */
    int64_t axis;          /* of an index */
} pointwise;

static flxi_dnn_desc apply(flxi_dnn_graph *g, const pointwise *p, flxi_dnn_desc y)
{
    flxi_dnn_desc what = make(g, FLXI_DNN_POINTWISE), d = make(g, FLXI_DNN_POINTWISE_NODE);
    set(g, what, FLXI_DNN_POINTWISE_MODE, FLXI_DNN_OF_POINTWISE_MODE, 1, &p->mode);
    set(g, what, FLXI_DNN_POINTWISE_MATH, FLXI_DNN_OF_DATA_TYPE, 1, &p->math);
    if (p->mode == FLXI_DNN_INDEX)
        set(g, what, FLXI_DNN_POINTWISE_AXIS, FLXI_DNN_OF_INT64, 1, &p->axis);
    finish(g, what);
    set_desc(g, d, FLXI_DNN_NODE_POINTWISE, what);
    set_desc(g, d, FLXI_DNN_NODE_POINTWISE + 1, p->x);
    if (p->b)
        set_desc(g, d, FLXI_DNN_NODE_POINTWISE + 2, p->b);
    set_desc(g, d, FLXI_DNN_NODE_POINTWISE + 3, y);
    if (p->t)
        set_desc(g, d, FLXI_DNN_NODE_T, p->t);
    add_operation(g, d);
    return y;
}

static flxi_dnn_desc combine(flxi_dnn_graph *g, int mode, flxi_dnn_desc x, flxi_dnn_desc b, flxi_dnn_desc y)
{
    return apply(g, &(pointwise){.mode = mode, .math = FLXI_DNN_F32, .x = x, .b = b}, y);
}

static flxi_dnn_desc product(flxi_dnn_graph *g, flxi_dnn_desc a, flxi_dnn_desc b, flxi_dnn_desc c)
{
    flxi_dnn_desc what = make(g, FLXI_DNN_MATMUL), d = make(g, FLXI_DNN_MATMUL_NODE);
    const int math = FLXI_DNN_F32;
    set(g, what, FLXI_DNN_MATMUL_MATH, FLXI_DNN_OF_DATA_TYPE, 1, &math);
    finish(g, what);
    set_desc(g, d, FLXI_DNN_MATMUL_A, a);
    set_desc(g, d, FLXI_DNN_MATMUL_A + 1, b);
    set_desc(g, d, FLXI_DNN_MATMUL_A + 2, c);
    set_desc(g, d, FLXI_DNN_MATMUL_A + 3, what);
    add_operation(g, d);
    return c;
}

/* Along the last axis. */
static flxi_dnn_desc reduce(flxi_dnn_graph *g, int how, flxi_dnn_desc x, flxi_dnn_desc y)
{
    flxi_dnn_desc what = make(g, FLXI_DNN_REDUCTION), d = make(g, FLXI_DNN_REDUCTION_NODE);
    const int math = FLXI_DNN_F32;
    set(g, what, FLXI_DNN_REDUCTION_OPERATOR, FLXI_DNN_OF_REDUCTION, 1, &how);
    set(g, what, FLXI_DNN_REDUCTION_MATH, FLXI_DNN_OF_DATA_TYPE, 1, &math);
    finish(g, what);
    set_desc(g, d, FLXI_DNN_REDUCTION_X, x);
    set_desc(g, d, FLXI_DNN_REDUCTION_X + 1, y);
    set_desc(g, d, FLXI_DNN_REDUCTION_X + 2, what);
    add_operation(g, d);
    return y;
}

static flxi_dnn_desc reshape(flxi_dnn_graph *g, flxi_dnn_desc x, flxi_dnn_desc y)
{
    flxi_dnn_desc d = make(g, FLXI_DNN_RESHAPE_NODE);
    set_desc(g, d, FLXI_DNN_RESHAPE_X, x);
    set_desc(g, d, FLXI_DNN_RESHAPE_X + 1, y);
    add_operation(g, d);
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
    product(g, ds, reshape(g, k, heads(g, 0, a->keys, false)), heads(g, FLXI_DNN_DQ, a->queries, false));
}

/* ---- Plans ---- */

/* The first engine that the library suggests and can build: it was always the fastest. */
static void make_plan(flxi_dnn_graph *g, flxi_dnn_handle handle)
{
    enum { MOST = 4 };
    flxi_dnn_desc graph = make(g, FLXI_DNN_GRAPH), heur = make(g, FLXI_DNN_ENGINEHEUR), configs[MOST];
    const int mode = FLXI_DNN_HEUR_MODE_A;
    int64_t count = 0;
    set(g, graph, FLXI_DNN_GRAPH_OPS, FLXI_DNN_OF_DESCRIPTOR, g->num_operations, g->operations);
    set(g, graph, FLXI_DNN_GRAPH_HANDLE, FLXI_DNN_OF_HANDLE, 1, &handle);
    finish(g, graph);
    set_desc(g, heur, FLXI_DNN_HEUR_GRAPH, graph);
    set(g, heur, FLXI_DNN_HEUR_MODE, FLXI_DNN_OF_HEUR_MODE, 1, &mode);
    finish(g, heur);
    for (int i = 0; i < MOST; i++)
        configs[i] = make(g, FLXI_DNN_ENGINECFG);
    if (g->failed || g->dnn->GetAttribute(heur, FLXI_DNN_HEUR_RESULTS, FLXI_DNN_OF_DESCRIPTOR, MOST, &count, configs))
        return;
    for (int64_t i = 0; i < count && i < MOST && !g->plan; i++) {
        flxi_dnn_desc plan = make(g, FLXI_DNN_PLAN);
        set(g, plan, FLXI_DNN_PLAN_HANDLE, FLXI_DNN_OF_HANDLE, 1, &handle);
        set_desc(g, plan, FLXI_DNN_PLAN_CONFIG, configs[i]);
        if (!g->failed && g->dnn->Finalize(plan) == 0 &&
            g->dnn->GetAttribute(plan, FLXI_DNN_PLAN_WORKSPACE, FLXI_DNN_OF_INT64, 1, &count, &g->workspace) == 0)
            g->plan = plan;
    }
}

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
    for (int i = g->num_owned; i-- > 0;)
        g->dnn->DestroyDescriptor(g->owned[i]);
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
    g->dnn = dnn;
    add_operations(g);
    bool failed = g->failed;
    *out = g->num_operations;
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
    if (g || !dnn || (!card->dnn && dnn->Create(&card->dnn) != 0))
        return g;
    g = flxi_alloc(card->mem, 1, sizeof *g);
    if (!g)
        return NULL;
    g->of = *of;
    g->dnn = dnn;
    add_operations(g);
    if (!g->failed)
        make_plan(g, card->dnn);
    g->next = card->dnn_graphs;
    return card->dnn_graphs = g;
}

const flxi_dnn_graph *flxi_cuda_attention_plan(flxi_card *card, const flxi_cuda_attention *of)
{
    pthread_mutex_lock(&card->lock);
    const flxi_dnn_graph *g = find(card, of);
    pthread_mutex_unlock(&card->lock);
    return g && g->plan ? g : NULL;
}

size_t flxi_dnn_workspace(const flxi_dnn_graph *g)
{
    return g->workspace > 0 ? (size_t)g->workspace : 0;
}

/* ---- Running ---- */

static int execute(flxi_card *card, flxi_cu_stream stream, const flxi_dnn_graph *g, flxi_dnn_desc pack)
{
    pthread_mutex_lock(&card->lock); /* the handle has one stream at a time */
    int status = g->dnn->SetStream(card->dnn, stream);
    if (status == 0)
        status = g->dnn->Execute(card->dnn, g->plan, pack);
    pthread_mutex_unlock(&card->lock);
    return status;
}

flx_code flxi_dnn_run(flxi_card *card, flxi_cu_stream stream, const flxi_dnn_graph *g, const int64_t *ids,
                      void *const *pointers, size_t n, void *workspace, flx_error *err)
{
    enum { MOST = 16 };
    const flxi_cudnn *dnn = g->dnn;
    flxi_dnn_desc pack = NULL;
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
    int status = dnn->CreateDescriptor(FLXI_DNN_PACK, &pack);
    if (status == 0)
        status = dnn->SetAttribute(pack, FLXI_DNN_PACK_IDS, FLXI_DNN_OF_INT64, count, all_ids);
    if (status == 0)
        status = dnn->SetAttribute(pack, FLXI_DNN_PACK_POINTERS, FLXI_DNN_OF_POINTER, count, all);
    if (status == 0)
        status = dnn->SetAttribute(pack, FLXI_DNN_PACK_WORKSPACE, FLXI_DNN_OF_POINTER, 1, &workspace);
    if (status == 0)
        status = dnn->Finalize(pack);
    if (status == 0)
        status = execute(card, stream, g, pack);
    if (pack)
        dnn->DestroyDescriptor(pack);
    return status == 0 ? FLX_OK : flxi_fail(err, FLX_E_DEVICE, "cuDNN: attention failed with status %d", status);
}
