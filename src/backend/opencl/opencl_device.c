/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_device.c: device "opencl": graphs and kernels on the first device that an OpenCL driver offers. A queue is a
   queue of commands, in order. What the device does not compute itself, the host does, on copies; it drives loops too.
   No driver is asked before it is needed: that takes a moment, and some end the process where they find no device.
   Sizes of workgroups fit every device with 256 invocations in each. */
#include "backend/card/card_conv.h"
#include "backend/card/card_product.h"
#include "backend/opencl/kernel_opencl.h"
#include "backend/opencl/opencl_program.h"
#include "ops/opcode.h"

#include <stdio.h>

static void write_library(char *text, size_t size)
{
    flxi_opencl cl;
    flx_error err = {0};
    if (flxi_opencl_load(&cl, &err) == FLX_OK) {
        snprintf(text, size, "libOpenCL.so.1");
        flxi_opencl_unload(&cl);
    } else {
        snprintf(text, size, "none: %s", err.message);
    }
}

static const flxi_device_fact facts[] = {{"library", write_library}, {0}};

/* Subgroups are made of local memory and barriers, so they are narrow. */
static const flxi_kernel_form form = {.lanes = 16,
                                      .rows = 8,
                                      .width = 256,
                                      .long_row = 4096,
                                      .fewer_rows = 1024,
                                      .across = 1 << 14,
                                      .longest_row = INT64_MAX,
                                      .vector = 16,
                                      .large_map = 1 << 20,
                                      .held_bytes = 16 << 10};

/* ---- Nodes ---- */

static const flxi_card_row ways[] = {
    {OP_matmul, &flxi_card_products},
    {OP_dot_general, &flxi_card_products},
    {OP_conv, &flxi_card_convs},
    {OP_conv_backward_input, &flxi_card_convs},
    {OP_conv_backward_weight, &flxi_card_convs},
    {OP_conv_transpose, &flxi_card_convs},
#define WAY(op, way) {OP_##op, &way},
#include "backend/card/card_ways.def"
};

enum { NUM_WAYS = sizeof ways / sizeof *ways };

static bool route_at(size_t i, const char **op, const char **name)
{
    return flxi_card_route(ways, NUM_WAYS, i, op, name);
}

static bool has_dtype(const flxi_device_node *n, int32_t dtype)
{
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        if ((i < n->nin ? n->in_types[i] : n->out_types[i - n->nin])->dtype == dtype)
            return true;
    return false;
}

/* What not every device has. */
static const char *lacks(const flxi_opencl_engine *e, const flxi_card_way *w, const flxi_device_node *n)
{
    enum { LEAST_WORKGROUP = 256, MOST_LOCAL = 36 << 10 };
    if ((w->needs_f64 || has_dtype(n, FLX_F64) || has_dtype(n, FLX_C128)) && !e->has_f64)
        return "the OpenCL device has no f64";
    if (e->max_workgroup < LEAST_WORKGROUP)
        return "the OpenCL device takes smaller workgroups only";
    return has_dtype(n, FLX_C128) && e->local_bytes < MOST_LOCAL
               ? "its tiles do not fit the OpenCL device's local memory"
               : NULL;
}

static void accept_node(const flxi_device_node *n, int threads, flxi_node_way *way)
{
    flxi_opencl_engine *e;
    const flxi_card_way *w = flxi_card_way_of(ways, NUM_WAYS, n->op);
    const char *why = NULL;
    (void)threads;
    if (w && n->ctx && flxi_opencl_engine_of(n->ctx, &e, NULL) == FLX_OK)
        why = lacks(e, w, n);
    flxi_card_accept(w, why, n, way);
}

/* ---- Queues ---- */

static flx_code open_queue(flx_context *ctx, int threads, flxi_queue **out, flx_error *err)
{
    flxi_opencl_engine *e;
    cl_int status = CL_SUCCESS;
    (void)threads;
    *out = NULL;
    FLXI_TRY(flxi_opencl_graphs_of(ctx, &e, err));
    flxi_queue *q = flxi_alloc(e->mem, 1, sizeof *q);
    if (!q)
        return flxi_oom(err, "a queue of commands");
    *q = (flxi_queue){e, e->cl.clCreateCommandQueue(e->context, e->device, 0, &status)};
    if (!q->queue) {
        flxi_free(e->mem, q, 1, sizeof *q);
        return flxi_opencl_fail(err, "clCreateCommandQueue", status);
    }
    *out = q;
    return FLX_OK;
}

static void close_queue(flxi_queue *q)
{
    if (!q)
        return;
    q->engine->cl.clFinish(q->queue);
    q->engine->cl.clReleaseCommandQueue(q->queue);
    flxi_free(q->engine->mem, q, 1, sizeof *q);
}

static flx_code launcher_of(const flxi_device_run *r, flxi_opencl_launcher *out)
{
    flxi_opencl_engine *e;
    FLXI_TRY(flxi_opencl_graphs_of(r->ctx, &e, r->err));
    *out = flxi_opencl_launcher_for(e, r->queue ? r->queue->queue : e->queue);
    return FLX_OK;
}

/* ---- Memory ---- */

/* 16 bytes more than wanted: reads of whole words stay inside. */
static flx_code allocate(flx_context *ctx, size_t nbytes, flxi_device_memory *out, flx_error *err)
{
    flxi_opencl_engine *e;
    *out = (flxi_device_memory){0};
    FLXI_TRY(flxi_opencl_graphs_of(ctx, &e, err));
    void *at = nbytes <= SIZE_MAX - 16 ? flxi_opencl_allocate(e, nbytes + 16) : NULL;
    if (!at)
        return flxi_oom(err, "memory of the OpenCL device");
    *out = (flxi_device_memory){at, at, nbytes};
    return FLX_OK;
}

static void release(flx_context *ctx, flxi_device_memory *m)
{
    flxi_opencl_engine *e;
    if (m->handle && flxi_opencl_engine_of(ctx, &e, NULL) == FLX_OK)
        e->cl.clSVMFree(e->context, m->handle);
    *m = (flxi_device_memory){0};
}

static flx_code copy(const flxi_device_run *r, void *to, const void *from, size_t nbytes, flxi_copy_kind kind)
{
    flxi_opencl_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    return (kind == COPY_WITHIN ? c.on.copy : c.on.fetch)(&c.on, to, from, nbytes, r->err);
}

static flx_code clear_memory(const flxi_device_run *r, void *to, size_t nbytes)
{
    flxi_opencl_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    return c.on.clear(&c.on, to, nbytes, r->err);
}

/* ---- Steps ---- */

static void begin(const flxi_device_run *r)
{
    flxi_opencl_engine *e;
    if (flxi_opencl_engine_of(r->ctx, &e, NULL) != FLX_OK)
        return;
    pthread_mutex_lock(&e->launch);
    e->active++;
    pthread_mutex_unlock(&e->launch);
}

/* What a kernel found is forgotten when no run is active; none begins meanwhile. */
static void end(const flxi_device_run *r)
{
    flxi_opencl_engine *e;
    if (flxi_opencl_engine_of(r->ctx, &e, NULL) != FLX_OK)
        return;
    pthread_mutex_lock(&e->launch);
    if (--e->active == 0 && atomic_exchange(&e->may_find, false)) {
        const flxi_opencl_launcher c = flxi_opencl_launcher_for(e, e->queue);
        if (c.on.clear(&c.on, e->finding, sizeof *e->finding, NULL) == FLX_OK)
            e->cl.clFinish(e->queue);
    }
    pthread_mutex_unlock(&e->launch);
}

static flx_code finish(const flxi_device_run *r)
{
    flxi_opencl_launcher c;
    flxi_card_finding found = {0};
    FLXI_TRY(launcher_of(r, &c));
    cl_int status = c.engine->cl.clFinish(c.queue);
    if (status != CL_SUCCESS)
        return flxi_opencl_fail(r->err, "clFinish", status);
    if (atomic_load(&c.engine->may_find))
        FLXI_TRY(c.on.fetch(&c.on, &found, c.engine->finding, sizeof found, r->err));
    if (r->status)
        *r->status |= found.status;
    return found.is_set ? flxi_card_fail(&found, r->err) : FLX_OK;
}

static flx_code run_kernel(const flxi_device_run *r, const flxi_kernel_step *s)
{
    flxi_opencl_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    return flxi_card_run_kernel(&c.on, s, r->err);
}

static flx_code run_call(const flxi_device_run *r, const flxi_call_step *s)
{
    flxi_opencl_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    return flxi_card_run_call(&c.on, s, r->err);
}

static flx_code run_node(const flxi_device_run *r, const flxi_node_step *s)
{
    flxi_opencl_launcher c;
    FLXI_TRY(launcher_of(r, &c));
    return flxi_card_run_node(&c.on, s, r->err);
}

extern const flxi_device flxi_device_opencl; /* devices.def */

const flxi_device flxi_device_opencl = {
    .name = "opencl",
    .about = "compiled code for the first device that an OpenCL driver offers",
    .facts = facts,
    .route = route_at,
    .run_dispatch = flxi_kernel_run_opencl,
    .form = &form,
    .refuse_kernel = flxi_opencl_refuse_kernel,
    .check_kernel = flxi_opencl_check_kernel,
    .check_call = flxi_opencl_check_call,
    .accept_node = accept_node,
    .prepare_node = flxi_card_prepare,
    .compile = flxi_opencl_compile_program,
    .free_code = flxi_opencl_free_code,
    .write_source = flxi_opencl_write_source,
    .open_queue = open_queue,
    .close_queue = close_queue,
    .min_parallel = INT64_MAX,
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
};
