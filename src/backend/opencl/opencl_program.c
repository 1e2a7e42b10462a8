/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_program.c: see opencl_program.h. All kernels of a program are one text, which the driver builds. */
#include "backend/opencl/opencl_program.h"

#include "backend/compile_request.h"

typedef struct {
    flxi_card_kernel of;
    cl_kernel object;
} compiled;

struct flxi_device_code {
    flxi_arena arena;
    flxi_opencl_engine *engine;
    compiled *kernels;
    size_t num_kernels;
    cl_program program;
};

/* ---- Accepting ---- */

static bool has_f64(const flx_kernel *k)
{
    for (uint32_t i = 1; i <= k->num_exprs; i++)
        if (flxi_ktype_is_float(k->exprs[i].type) && flxi_ktype_of(k->exprs[i].type)->bits == 64)
            return true;
    return false;
}

const char *flxi_opencl_refuse_kernel(const flx_kernel *k)
{
    flxi_opencl_engine *e;
    if (k->num_buffers > FLXI_OPENCL_MOST_BUFFERS)
        return "an OpenCL device may take no more than 80 buffers in a launch";
    if (flxi_opencl_engine_of(k->ctx, &e, NULL) != FLX_OK)
        return NULL;
    if (flxi_kernel_workgroup(k) > e->max_workgroup)
        return "the OpenCL device takes smaller workgroups only";
    return has_f64(k) && !e->has_f64 ? "the OpenCL device has no f64" : NULL;
}

flx_code flxi_opencl_check_kernel(const flx_kernel *k, flx_error *err)
{
    flxi_kfile file;
    flxi_kentry entry;
    flxi_opencl_engine *e;
    FLXI_TRY(flxi_kernel_check_target(k, &flxi_target_opencl, err));
    flxi_kfile_init(&file, &flxi_target_opencl, flxi_kernel_mem(k));
    flx_code code = flxi_kernel_write(&file, k, &entry, err);
    if (code == FLX_OK && flxi_opencl_engine_of(k->ctx, &e, NULL) == FLX_OK)
        code = flxi_opencl_check(e, k, &file, err);
    flxi_kfile_free(&file);
    return code;
}

flx_code flxi_opencl_check_call(const flx_kernel *k, flx_error *err)
{
    const char *why = flxi_opencl_refuse_kernel(k);
    return why ? flxi_fail(err, FLX_E_UNSUPPORTED, "%s", why) : flxi_opencl_check_kernel(k, err);
}

/* ---- Launching ---- */

static cl_int give_all(flxi_opencl_engine *e, const compiled *k, const flxi_card_dispatch *d)
{
    cl_int status = CL_SUCCESS;
    cl_uint n = 0;
    for (uint32_t i = 0; status == CL_SUCCESS && i < k->of.kernel->num_buffers; i++) {
        const flxi_kbuffer *b = &k->of.kernel->buffers[i + 1];
        if (!flxi_kbuffer_is_bound(b))
            continue;
        uint64_t count = d->count ? d->count[i] : b->count;
        uint32_t length = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
        status = e->cl.clSetKernelArgSVMPointer(k->object, n++, d->data[i]);
        if (status == CL_SUCCESS)
            status = e->cl.clSetKernelArg(k->object, n++, sizeof length, &length);
    }
    if (status == CL_SUCCESS && k->of.entry.has_status)
        status = e->cl.clSetKernelArgSVMPointer(k->object, n++, d->status);
    if (status == CL_SUCCESS && k->of.entry.has_subgroups)
        status = e->cl.clSetKernelArg(k->object, n++, sizeof d->lanes, &d->lanes);
    return status;
}

flx_code flxi_opencl_run(const flxi_launcher *on, const flxi_card_kernel *kernel, const flxi_card_dispatch *d,
                         flx_error *err)
{
    const flxi_opencl_launcher *c = (const flxi_opencl_launcher *)on;
    const compiled *k = (const compiled *)kernel;
    const size_t groups[3] = {d->grid[0], d->grid[1], d->grid[2]};
    const size_t size[3] = {kernel->kernel->size[0], kernel->kernel->size[1], kernel->kernel->size[2]};
    if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0)
        return FLX_OK;
    pthread_mutex_lock(&c->engine->launch);
    cl_int status = give_all(c->engine, k, d);
    flx_code code = status == CL_SUCCESS ? flxi_opencl_enqueue(c->engine, c->queue, k->object, groups, size, err)
                                         : flxi_opencl_fail(err, "clSetKernelArg", status);
    pthread_mutex_unlock(&c->engine->launch);
    return code;
}

/* ---- Compiling ---- */

static const flxi_card_style style = {.target = &flxi_target_opencl};

flx_code flxi_opencl_write_source(const flxi_compile_request *q, flxi_strbuf *out, flx_error *err)
{
    return flxi_card_write_source(&style, q, out, err);
}

static flx_code find_kernels(flxi_device_code *c, const flxi_compile_request *q, const flxi_kentry *entries,
                             flx_error *err)
{
    for (size_t i = 0; i < q->num_kernels; i++) {
        cl_int status = CL_SUCCESS;
        cl_kernel object = c->engine->cl.clCreateKernel(c->program, entries[i].name, &status);
        if (!object)
            return flxi_opencl_fail(err, "clCreateKernel", status);
        c->kernels[c->num_kernels++] = (compiled){{entries[i], q->kernels[i]}, object};
    }
    return FLX_OK;
}

/* From the cache of the request, or by the driver. */
static flx_code build_program(flxi_device_code *c, const flxi_compile_request *q, const flxi_strbuf *text,
                              flx_error *err)
{
    flxi_object_cache *cache;
    bool is_found = false;
    FLXI_TRY(flxi_open_cache(q, &cache, err));
    flx_code code = flxi_opencl_build(c->engine, cache, text, &c->program, &is_found, err);
    flxi_close_cache(q, "opencl", cache, is_found, code == FLX_OK && !is_found);
    return code;
}

static flx_code build_text(flxi_device_code *c, const flxi_compile_request *q, flxi_strbuf *text, flx_error *err)
{
    flxi_kentry *entries = flxi_new(&c->arena, flxi_kentry, q->num_kernels);
    c->kernels = flxi_new(&c->arena, compiled, q->num_kernels);
    if (!entries || !c->kernels)
        return flxi_oom(err, "kernels");
    FLXI_TRY(flxi_card_write(&style, q, NULL, 0, entries, text, err));
    if (q->options->dump_dir)
        FLXI_TRY(flxi_dump_text(q->options->dump_dir, 0, "cl", text, err));
    FLXI_TRY(build_program(c, q, text, err));
    return find_kernels(c, q, entries, err);
}

static flx_code build(flxi_device_code *c, const flxi_compile_request *q, flx_error *err)
{
    flxi_strbuf text;
    FLXI_TRY(flxi_opencl_graphs_of(q->ctx, &c->engine, err));
    if (q->num_kernels == 0)
        return FLX_OK;
    flxi_strbuf_init(&text, c->arena.mem);
    flx_code code = build_text(c, q, &text, err);
    flxi_strbuf_free(&text);
    return code;
}

void flxi_opencl_free_code(flxi_device_code *c)
{
    if (!c)
        return;
    const flxi_allocator *mem = c->arena.mem;
    for (size_t i = 0; i < c->num_kernels; i++)
        c->engine->cl.clReleaseKernel(c->kernels[i].object);
    if (c->program)
        c->engine->cl.clReleaseProgram(c->program);
    flxi_arena_free(&c->arena);
    flxi_free(mem, c, 1, sizeof *c);
}

static const flxi_card_kernel *kernel_at(const flxi_device_code *c, size_t i)
{
    return &c->kernels[i].of;
}

flx_code flxi_opencl_compile_program(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **out,
                                     flx_error *err)
{
    static const flxi_card_compiler by = {sizeof(flxi_device_code), build, kernel_at, flxi_opencl_free_code};
    return flxi_card_compile(&by, q, kernels, out, err);
}
