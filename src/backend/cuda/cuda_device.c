/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_device.c: device "cuda": graphs and kernels on an NVIDIA card. Kernels are CUDA C that NVRTC compiles; a queue
   is a stream. What the card does not compute itself, the host does, on copies. */
#include "backend/cuda/cuda_attention.h"
#include "backend/cuda/cuda_index.h"
#include "backend/cuda/cuda_kernel.h"
#include "backend/cuda/cuda_product.h"
#include "backend/cuda/cuda_way.h"
#include "backend/cuda/loop/cuda_loop.h"
#include "backend/kernel_status.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

/* `flx devices` shows what exactly is missing. */
static const char *why_missing(void)
{
    return flxi_cuda_driver(NULL) ? NULL : "there is no NVIDIA card with a driver for CUDA 12 or later here";
}

/* A warp for a row; a block for a long one, the wider the longer it is; 32 columns for a block. Elements of large maps
   are vectors of 16 bytes. */
static const flxi_kernel_form form = {.lanes = 32,
                                      .rows = 8,
                                      .width = 256,
                                      .long_row = 4096,
                                      .fewer_rows = 4096,
                                      .across = 1 << 17,
                                      .longest_row = 16384,
                                      .vector = 16,
                                      .large_map = 1 << 20};

/* ---- Nodes ---- */

static size_t prepare_product(const flxi_device_node *n, void *table)
{
    flxi_cuda_product_plan p = flxi_cuda_plan_product(n);
    memcpy(table, &p, sizeof p);
    return p.workspace ? p.workspace + FLXI_CUDA_WORKSPACE_ALIGNMENT : 0;
}

static flx_code run_product(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, flx_error *err)
{
    return flxi_cuda_run_product(card, stream, s->way->table, s->in, s->out[0], flxi_cuda_aligned(s->scratch), err);
}

static size_t prepare_index(const flxi_device_node *n, void *table)
{
    flxi_cuda_index_plan p = flxi_cuda_plan_index(n);
    memcpy(table, &p, sizeof p);
    return flxi_cuda_index_scratch(&p);
}

static flx_code run_index(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, flx_error *err)
{
    return flxi_cuda_run_index(card, stream, s->node, s->way->table, s->in, s->out[0], s->scratch, err);
}

static size_t prepare_attention(const flxi_device_node *n, void *table)
{
    flxi_cuda_attention_table t;
    size_t scratch = flxi_cuda_prepare_attention(n, &t);
    memcpy(table, &t, sizeof t);
    return scratch + FLXI_CUDA_WORKSPACE_ALIGNMENT;
}

static flx_code run_attention(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, flx_error *err)
{
    flxi_node_step own = *s;
    own.scratch = flxi_cuda_aligned(s->scratch);
    return flxi_cuda_run_attention(card, stream, &own, err);
}

static const flxi_cuda_way product = {"product", flxi_cuda_refuse_product, sizeof(flxi_cuda_product_plan),
                                      prepare_product, run_product};
static const flxi_cuda_way words = {"words", flxi_cuda_refuse_index, sizeof(flxi_cuda_index_plan), prepare_index,
                                    run_index};
static const flxi_cuda_way sums = {"sorted", flxi_cuda_refuse_index, sizeof(flxi_cuda_index_plan), prepare_index,
                                   run_index};
static const flxi_cuda_way attention = {"cudnn", flxi_cuda_refuse_attention, sizeof(flxi_cuda_attention_table),
                                        prepare_attention, run_attention};

_Static_assert(sizeof(flxi_cuda_product_plan) <= FLXI_CUDA_MOST_TABLE, "the largest table");

static const struct {
    flxi_opcode op;
    const flxi_cuda_way *way;
} ways[] = {
    {OP_matmul, &product},
    {OP_dot_general, &product},
    {OP_gather, &words},
    {OP_scatter_add, &sums},
    {OP_attention, &attention},
    {OP_attention_backward_all, &attention},
    {OP_cumsum, &flxi_cuda_running},
    {OP_cumprod, &flxi_cuda_running},
    {OP_cummax, &flxi_cuda_running},
    {OP_cummin, &flxi_cuda_running},
    {OP_sort, &flxi_cuda_sorting},
    {OP_argsort, &flxi_cuda_sorting},
    {OP_topk, &flxi_cuda_sorting},
    {OP_top_k, &flxi_cuda_sorting},
    {OP_gather_nd, &flxi_cuda_windows},
    {OP_scatter_nd, &flxi_cuda_scatter},
    {OP_fft, &flxi_cuda_fourier},
    {OP_grouped_matmul, &flxi_cuda_grouped},
    {OP_grouped_matmul_input_backward, &flxi_cuda_grouped},
    {OP_grouped_matmul_weight_backward, &flxi_cuda_grouped},
    {OP_qr, &flxi_cuda_orthogonal},
    {OP_eigh, &flxi_cuda_orthogonal},
    {OP_take_along, &flxi_cuda_along},
    {OP_lu, &flxi_cuda_dense},
    {OP_cholesky, &flxi_cuda_dense},
    {OP_det, &flxi_cuda_dense},
    {OP_inv, &flxi_cuda_dense},
    {OP_solve, &flxi_cuda_dense},
    {OP_solve_triangular, &flxi_cuda_dense},
    {OP_conv, &flxi_cuda_conv},
    {OP_conv_backward_input, &flxi_cuda_conv},
    {OP_conv_backward_weight, &flxi_cuda_conv},
    {OP_conv_transpose, &flxi_cuda_conv},
};

enum { NUM_WAYS = sizeof ways / sizeof *ways };

static bool route_at(size_t i, const char **op, const char **name)
{
    if (i >= NUM_WAYS)
        return false;
    *op = flxi_ops[ways[i].op].name;
    *name = ways[i].way->name;
    return true;
}

static const flxi_cuda_way *way_of(flxi_opcode op)
{
    for (size_t i = 0; i < NUM_WAYS; i++)
        if (ways[i].op == op)
            return ways[i].way;
    return NULL;
}

static void accept_node(const flxi_device_node *n, int threads, flxi_node_way *way)
{
    _Alignas(64) unsigned char table[FLXI_CUDA_MOST_TABLE];
    const flxi_cuda_way *w = way_of(n->op);
    (void)threads;
    *way = (flxi_node_way){0};
    if (!w)
        return;
    const char *why = w->refuse(n);
    if (why) {
        way->refused[way->num_refused].name = w->name;
        way->refused[way->num_refused++].why = why;
        return;
    }
    *way = (flxi_node_way){.code = w,
                           .name = w->name,
                           .table_bytes = w->table_bytes,
                           .scratch = w->prepare(n, table),
                           .is_in_place = n->op == OP_scatter_nd};
}

static flx_code prepare_node(const flxi_device_node *n, const flxi_node_way *way, void *table,
                             const flxi_allocator *mem, flx_error *err)
{
    (void)mem;
    (void)err;
    ((const flxi_cuda_way *)way->code)->prepare(n, table);
    return FLX_OK;
}

/* ---- Streams ---- */

static int count_threads(flx_context *ctx, int threads)
{
    (void)ctx;
    (void)threads;
    return 1;
}

static flx_code open_queue(flx_context *ctx, int threads, flxi_queue **out, flx_error *err)
{
    flxi_card *card;
    (void)threads;
    *out = NULL;
    FLXI_TRY(flxi_card_of(ctx, &card, err));
    flxi_queue *q = flxi_alloc(card->mem, 1, sizeof *q);
    if (!q)
        return flxi_oom(err, "a stream");
    q->card = card;
    flxi_cu_result result = card->cu->StreamCreate(&q->stream, FLXI_CU_STREAM_NON_BLOCKING);
    if (result != FLXI_CU_SUCCESS) {
        flxi_free(card->mem, q, 1, sizeof *q);
        return flxi_cuda_fail(card->cu, "cuStreamCreate", result, err);
    }
    *out = q;
    return FLX_OK;
}

static void close_queue(flxi_queue *q)
{
    if (!q)
        return;
    if (q->card->cu->CtxSetCurrent(q->card->context) == FLXI_CU_SUCCESS)
        q->card->cu->StreamDestroy(q->stream);
    flxi_free(q->card->mem, q, 1, sizeof *q);
}

/* Runs on the card are counted: what a kernel found is forgotten when none is active. */
static void begin(const flxi_device_run *r)
{
    flxi_card *card;
    if (flxi_card_of(r->ctx, &card, NULL) == FLX_OK)
        atomic_fetch_add(&card->active, 1);
}

static void end(const flxi_device_run *r)
{
    flxi_card *card;
    if (flxi_card_of(r->ctx, &card, NULL) == FLX_OK && atomic_fetch_sub(&card->active, 1) == 1)
        card->finding->is_set = card->finding->status = 0;
}

/* In the words of the definition. */
static flx_code fail_index(const flxi_cuda_finding *t, flx_error *err)
{
    const flxi_device_node *n = t->node;
    if (n->op == OP_gather_nd || n->op == OP_scatter_nd)
        return flxi_cuda_fail_start(t, err);
    return flxi_index_fail(&flxi_ops[n->op], n->label, n->origin, FLX_I64, &t->value, 0, t->extent, err);
}

static flx_code finish(const flxi_device_run *r)
{
    flxi_card *card;
    FLXI_TRY(flxi_card_of(r->ctx, &card, r->err));
    FLXI_CU_TRY(card->cu, r->err, StreamSynchronize, flxi_card_stream(card, r));
    if (r->status)
        *r->status |= *(volatile uint32_t *)&card->finding->status;
    return *(volatile uint32_t *)&card->finding->is_set ? fail_index(card->finding, r->err) : FLX_OK;
}

/* ---- Sequences: graphs of the driver ---- */

struct flxi_sequence {
    flxi_card *card;
    flxi_cu_graph_exec graph;
};

/* A stream of its own: other runs may use the queue meanwhile. */
static flx_code note(const flxi_device_run *r, flxi_queue **out)
{
    FLXI_TRY(open_queue(r->ctx, 1, out, r->err));
    const flxi_cuda *cu = (*out)->card->cu;
    flxi_cu_result result = cu->StreamBeginCapture((*out)->stream, FLXI_CU_CAPTURE_THREAD_LOCAL);
    if (result == FLXI_CU_SUCCESS)
        return FLX_OK;
    close_queue(*out);
    *out = NULL;
    return flxi_cuda_fail(cu, "cuStreamBeginCapture", result, r->err);
}

static void free_sequence(flxi_sequence *s)
{
    if (!s)
        return;
    if (s->graph && s->card->cu->CtxSetCurrent(s->card->context) == FLXI_CU_SUCCESS)
        s->card->cu->GraphExecDestroy(s->graph);
    flxi_free(s->card->mem, s, 1, sizeof *s);
}

static flx_code make_sequence(flxi_card *card, flxi_cu_graph graph, flxi_sequence **out, flx_error *err)
{
    flxi_sequence *s = flxi_alloc(card->mem, 1, sizeof *s);
    if (!s)
        return flxi_oom(err, "a sequence of steps");
    s->card = card;
    flxi_cu_result result = card->cu->GraphInstantiate(&s->graph, graph, 0);
    if (result != FLXI_CU_SUCCESS) {
        free_sequence(s);
        return flxi_cuda_fail(card->cu, "cuGraphInstantiate", result, err);
    }
    *out = s;
    return FLX_OK;
}

static flx_code end_note(const flxi_device_run *r, flxi_queue *queue, flxi_sequence **out)
{
    flxi_card *card = queue->card;
    flxi_cu_graph graph = NULL;
    flx_code code = FLX_OK;
    flxi_cu_result result = card->cu->StreamEndCapture(queue->stream, &graph);
    if (out)
        code = result == FLXI_CU_SUCCESS && graph ? make_sequence(card, graph, out, r->err)
                                                  : flxi_cuda_fail(card->cu, "cuStreamEndCapture", result, r->err);
    if (graph)
        card->cu->GraphDestroy(graph);
    close_queue(queue);
    return code;
}

static flx_code run_sequence(const flxi_device_run *r, flxi_sequence *s)
{
    FLXI_CU_TRY(s->card->cu, r->err, CtxSetCurrent, s->card->context);
    FLXI_CU_TRY(s->card->cu, r->err, GraphLaunch, s->graph, flxi_card_stream(s->card, r));
    return FLX_OK;
}

/* ---- Memory ---- */

static flx_code clear(flxi_card *card, flxi_cu_address at, size_t nbytes, flx_error *err)
{
    FLXI_CU_TRY(card->cu, err, MemsetD8Async, at, 0, nbytes, card->stream);
    FLXI_CU_TRY(card->cu, err, StreamSynchronize, card->stream);
    return FLX_OK;
}

/* 16 bytes more than wanted: reads of whole words and vectors stay inside. */
static flx_code allocate(flx_context *ctx, size_t nbytes, flxi_device_memory *out, flx_error *err)
{
    flxi_card *card;
    flxi_cu_address at = 0;
    *out = (flxi_device_memory){0};
    if (nbytes > SIZE_MAX - 16)
        return flxi_oom(err, "memory of the card");
    FLXI_TRY(flxi_card_of(ctx, &card, err));
    FLXI_CU_TRY(card->cu, err, MemAlloc, &at, nbytes + 16);
    flx_code code = clear(card, at, nbytes + 16, err);
    if (code != FLX_OK) {
        card->cu->MemFree(at);
        return code;
    }
    *out = (flxi_device_memory){(void *)(uintptr_t)at, (void *)(uintptr_t)at, nbytes};
    return FLX_OK;
}

static void release(flx_context *ctx, flxi_device_memory *m)
{
    flxi_card *card;
    if (m->handle && flxi_card_of(ctx, &card, NULL) == FLX_OK)
        card->cu->MemFree((flxi_cu_address)(uintptr_t)m->handle);
    *m = (flxi_device_memory){0};
}

static flx_code copy(const flxi_device_run *r, void *to, const void *from, size_t nbytes, flxi_copy_kind kind)
{
    flxi_card *card;
    flxi_cu_address at = (flxi_cu_address)(uintptr_t)to, source = (flxi_cu_address)(uintptr_t)from;
    FLXI_TRY(flxi_card_of(r->ctx, &card, r->err));
    flxi_cu_stream stream = flxi_card_stream(card, r);
    if (kind == COPY_WITHIN) {
        FLXI_CU_TRY(card->cu, r->err, MemcpyDtoDAsync, at, source, nbytes, stream);
        return FLX_OK;
    }
    if (kind == COPY_TO_DEVICE) { /* the driver takes the bytes before it returns, unless the caller pinned them */
        FLXI_CU_TRY(card->cu, r->err, MemcpyHtoDAsync, at, from, nbytes, stream);
        if (r->queue)
            return FLX_OK;
    } else
        FLXI_CU_TRY(card->cu, r->err, MemcpyDtoHAsync, to, source, nbytes, stream);
    FLXI_CU_TRY(card->cu, r->err, StreamSynchronize, stream);
    return FLX_OK;
}

static flx_code clear_memory(const flxi_device_run *r, void *to, size_t nbytes)
{
    flxi_card *card;
    FLXI_TRY(flxi_card_of(r->ctx, &card, r->err));
    FLXI_CU_TRY(card->cu, r->err, MemsetD8Async, (flxi_cu_address)(uintptr_t)to, 0, nbytes, flxi_card_stream(card, r));
    return FLX_OK;
}

/* ---- Steps ---- */

static flx_code run_kernel(const flxi_device_run *r, const flxi_kernel_step *s)
{
    flxi_card *card;
    FLXI_TRY(flxi_card_of(r->ctx, &card, r->err));
    flxi_cuda_launch l = {.data = s->data, .grid = {s->grid[0], s->grid[1], s->grid[2]}};
    return flxi_cuda_run(card, flxi_card_stream(card, r), s->code, &l, r->err);
}

/* The host waits for the status of a kernel that has one. */
static flx_code run_call(const flxi_device_run *r, const flxi_call_step *s)
{
    flxi_card *card;
    const flxi_cuda_kernel *k = s->code;
    uint32_t status[KSTATUS_WORDS];
    flxi_cu_address scratch = (flxi_cu_address)(uintptr_t)s->scratch;
    flxi_cuda_launch l = {
        .data = s->data, .count = s->count, .grid = {s->grid[0], s->grid[1], s->grid[2]}, .status = scratch};
    FLXI_TRY(flxi_card_of(r->ctx, &card, r->err));
    flxi_cu_stream stream = flxi_card_stream(card, r);
    if (k->entry.has_status)
        FLXI_CU_TRY(card->cu, r->err, MemsetD8Async, scratch, 0, sizeof status, stream);
    FLXI_TRY(flxi_cuda_run(card, stream, k, &l, r->err));
    if (!k->entry.has_status)
        return FLX_OK;
    FLXI_CU_TRY(card->cu, r->err, MemcpyDtoHAsync, status, scratch, sizeof status, stream);
    FLXI_CU_TRY(card->cu, r->err, StreamSynchronize, stream);
    flxi_kdispatch d = {.kernel = s->kernel};
    return status[KSTATUS_TRAPPED] ? flxi_kernel_report_status(&d, status, r->err) : FLX_OK;
}

static flx_code run_node(const flxi_device_run *r, const flxi_node_step *s)
{
    flxi_card *card;
    FLXI_TRY(flxi_card_of(r->ctx, &card, r->err));
    return ((const flxi_cuda_way *)s->way->code)->run(card, flxi_card_stream(card, r), s, r->err);
}

extern const flxi_device flxi_device_cuda; /* devices.def */

const flxi_device flxi_device_cuda = {
    .name = "cuda",
    .about = "compiled code for an NVIDIA card",
    .why_missing = why_missing,
    .facts = flxi_cuda_facts,
    .route = route_at,
    .run_dispatch = flxi_kernel_run_cuda,
    .form = &form,
    .refuse_kernel = flxi_cuda_refuse_kernel,
    .check_kernel = flxi_cuda_check_kernel,
    .check_call = flxi_cuda_check_call,
    .accept_node = accept_node,
    .prepare_node = prepare_node,
    .accept_chain = flxi_cuda_accept_loop,
    .compile = flxi_cuda_compile_program,
    .free_code = flxi_cuda_free_code,
    .write_source = flxi_cuda_write_source,
    .count_threads = count_threads,
    .open_queue = open_queue,
    .close_queue = close_queue,
    .min_parallel = INT64_MAX,
    .loop_parts = FLXI_LOOP_PARTS,
    .allocate = allocate,
    .release = release,
    .copy = copy,
    .clear = clear_memory,
    .begin = begin,
    .end = end,
    .finish = finish,
    .run_kernel = run_kernel,
    .run_call = run_call,
    .run_node = run_node,
    .run_loop = flxi_cuda_run_loop,
    .note = note,
    .end_note = end_note,
    .run_sequence = run_sequence,
    .free_sequence = free_sequence,
};
