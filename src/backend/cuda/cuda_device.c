/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_device.c: device "cuda": graphs and kernels on an NVIDIA card. Kernels are CUDA C that NVRTC compiles; a queue
   is a stream. What the card does not compute itself, the host does, on copies. */
#include "backend/cuda/cuda_kernel.h"
#include "backend/cuda/cuda_way.h"
#include "backend/cuda/loop/cuda_loop.h"
#include "backend/kernel_status.h"
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

static const flxi_card_row ways[] = {
    {OP_matmul, &flxi_cuda_products},
    {OP_dot_general, &flxi_cuda_products},
    {OP_attention, &flxi_cuda_attention_way},
    {OP_attention_backward_all, &flxi_cuda_attention_way},
    {OP_qr, &flxi_cuda_orthogonal},
    {OP_eigh, &flxi_cuda_orthogonal},
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
#define WAY(op, way) {OP_##op, &way},
#include "backend/card/card_ways.def"
};

enum { NUM_WAYS = sizeof ways / sizeof *ways };

static bool route_at(size_t i, const char **op, const char **name)
{
    return flxi_card_route(ways, NUM_WAYS, i, op, name);
}

static void accept_node(const flxi_device_node *n, int threads, flxi_node_way *way)
{
    (void)threads;
    flxi_card_accept(flxi_card_way_of(ways, NUM_WAYS, n->op), n, way);
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

static flx_code finish(const flxi_device_run *r)
{
    flxi_card *card;
    FLXI_TRY(flxi_card_of(r->ctx, &card, r->err));
    FLXI_CU_TRY(card->cu, r->err, StreamSynchronize, flxi_card_stream(card, r));
    if (r->status)
        *r->status |= *(volatile uint32_t *)&card->finding->status;
    return *(volatile uint32_t *)&card->finding->is_set ? flxi_card_fail(card->finding, r->err) : FLX_OK;
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
    const flxi_cuda_launcher c = flxi_cuda_launcher_for(card, flxi_card_stream(card, r));
    return ((const flxi_card_way *)s->way->code)->run(&c.on, s, r->err);
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
    .prepare_node = flxi_card_prepare,
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
