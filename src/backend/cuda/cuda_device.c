/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_device.c: device "cuda": graphs and kernels on an NVIDIA card. Kernels are CUDA C that NVRTC compiles; a queue
   is a stream. What the card does not compute itself, the host does, on copies. */
#include "backend/cuda/cuda_kernel.h"
#include "backend/cuda/cuda_note.h"
#include "backend/cuda/cuda_way.h"
#include "backend/cuda/loop/cuda_loop.h"
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
                                      .large_map = 1 << 20,
                                      .held_bytes = 60 << 10};

/* ---- Nodes ---- */

static const flxi_card_row ways[] = {
    {OP_matmul, &flxi_cuda_products},
    {OP_dot_general, &flxi_cuda_products},
    {OP_attention, &flxi_cuda_attention_way},
    {OP_attention_backward_all, &flxi_cuda_attention_way},
    {OP_qr, &flxi_cuda_orthogonal},
    {OP_eigh, &flxi_cuda_orthogonal},
    {OP_svd, &flxi_cuda_singular},
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
    flxi_card_accept(flxi_card_way_of(ways, NUM_WAYS, n->op), NULL, n, way);
}

/* ---- Runs ---- */

static flx_code launcher_of(const flxi_device_run *r, flxi_cuda_launcher *out)
{
    flxi_card *card;
    FLXI_TRY(flxi_card_of(r->ctx, &card, r->err));
    *out = flxi_cuda_launcher_for(card, flxi_card_stream(card, r));
    return FLX_OK;
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

/* The driver takes the bytes of the host before it returns, unless the caller pinned them. */
static flx_code send(const flxi_device_run *r, const flxi_cuda_launcher *c, void *to, const void *from, size_t nbytes)
{
    FLXI_CU_TRY(c->card->cu, r->err, MemcpyHtoDAsync, (flxi_cu_address)(uintptr_t)to, from, nbytes, c->stream);
    if (!r->queue)
        FLXI_CU_TRY(c->card->cu, r->err, StreamSynchronize, c->stream);
    return FLX_OK;
}

static flx_code copy(const flxi_device_run *r, void *to, const void *from, size_t nbytes, flxi_copy_kind kind)
{
    flxi_cuda_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    if (kind == COPY_TO_DEVICE)
        return send(r, &c, to, from, nbytes);
    return (kind == COPY_WITHIN ? c.on.copy : c.on.fetch)(&c.on, to, from, nbytes, r->err);
}

static flx_code clear_memory(const flxi_device_run *r, void *to, size_t nbytes)
{
    flxi_cuda_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    return c.on.clear(&c.on, to, nbytes, r->err);
}

/* ---- Steps ---- */

static flx_code run_kernel(const flxi_device_run *r, const flxi_kernel_step *s)
{
    flxi_cuda_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    return flxi_card_run_kernel(&c.on, s, r->err);
}

static flx_code run_call(const flxi_device_run *r, const flxi_call_step *s)
{
    flxi_cuda_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    return flxi_card_run_call(&c.on, s, r->err);
}

static flx_code run_node(const flxi_device_run *r, const flxi_node_step *s)
{
    flxi_cuda_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    return flxi_card_run_node(&c.on, s, r->err);
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
    .open_queue = flxi_cuda_open_queue,
    .close_queue = flxi_cuda_close_queue,
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
    .note = flxi_cuda_note,
    .note_piece = flxi_cuda_note_piece,
    .end_note = flxi_cuda_end_note,
    .run_sequence = flxi_cuda_run_sequence,
    .free_sequence = flxi_cuda_free_sequence,
};
