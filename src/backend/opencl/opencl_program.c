/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_program.c: see opencl_program.h. All kernels of a program are one text, which the driver builds. */
#include "backend/opencl/opencl_program.h"

#include <stdio.h>

struct flxi_device_code {
    flxi_arena arena;
    flxi_opencl_engine *engine;
    flxi_opencl_kernel *kernels;
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

static cl_int give_all(flxi_opencl_engine *e, const flxi_opencl_kernel *k, const flxi_opencl_launch *l)
{
    cl_int status = CL_SUCCESS;
    cl_uint n = 0;
    for (uint32_t i = 0; status == CL_SUCCESS && i < k->kernel->num_buffers; i++) {
        const flxi_kbuffer *b = &k->kernel->buffers[i + 1];
        if (!flxi_kbuffer_is_bound(b))
            continue;
        uint64_t count = l->count ? l->count[i] : b->count;
        uint32_t length = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
        status = e->cl.clSetKernelArgSVMPointer(k->object, n++, l->data[i]);
        if (status == CL_SUCCESS)
            status = e->cl.clSetKernelArg(k->object, n++, sizeof length, &length);
    }
    if (status == CL_SUCCESS && k->entry.has_status)
        status = e->cl.clSetKernelArgSVMPointer(k->object, n++, l->status);
    if (status == CL_SUCCESS && k->entry.has_subgroups)
        status = e->cl.clSetKernelArg(k->object, n++, sizeof l->lanes, &l->lanes);
    return status;
}

flx_code flxi_opencl_run(flxi_opencl_engine *e, cl_command_queue queue, const flxi_opencl_kernel *k,
                         const flxi_opencl_launch *l, flx_error *err)
{
    const size_t groups[3] = {l->grid[0], l->grid[1], l->grid[2]};
    const size_t size[3] = {k->kernel->size[0], k->kernel->size[1], k->kernel->size[2]};
    if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0)
        return FLX_OK;
    pthread_mutex_lock(&e->launch);
    cl_int status = give_all(e, k, l);
    flx_code code = status == CL_SUCCESS ? flxi_opencl_enqueue(e, queue, k->object, groups, size, err)
                                         : flxi_opencl_fail(err, "clSetKernelArg", status);
    pthread_mutex_unlock(&e->launch);
    return code;
}

/* ---- Compiling ---- */

/* The memory of a user's kernel never overlaps; of others, an output may take the place of an operand. */
static flx_code write_text(const flxi_compile_request *q, flxi_kentry *entries, flxi_strbuf *out, flx_error *err)
{
    flxi_kfile file;
    flx_code code = FLX_OK;
    flxi_kfile_init(&file, &flxi_target_opencl, out->mem);
    for (size_t i = 0; code == FLX_OK && i < q->num_kernels; i++) {
        file.may_alias = !q->is_call[i];
        code = flxi_kernel_check_target(q->kernels[i], &flxi_target_opencl, err);
        if (code == FLX_OK)
            code = flxi_kernel_write(&file, q->kernels[i], &entries[i], err);
    }
    if (code == FLX_OK)
        code = flxi_kfile_text(&file, out, err);
    flxi_kfile_free(&file);
    return code;
}

flx_code flxi_opencl_write_source(const flxi_compile_request *q, flxi_strbuf *out, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(q->ctx);
    flxi_kentry *entries = flxi_alloc(mem, q->num_kernels + 1, sizeof *entries);
    flx_code code = entries ? write_text(q, entries, out, err) : flxi_oom(err, "text");
    if (entries)
        flxi_free(mem, entries, q->num_kernels + 1, sizeof *entries);
    return code;
}

/* Emitted text for people: compiling does not fail if it cannot be written. */
static void dump(const char *dir, const flxi_strbuf *text)
{
    char path[600];
    int n = snprintf(path, sizeof path, "%s/kernels.cl", dir);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "w") : NULL;
    if (!f)
        return;
    fwrite(text->at, 1, text->n, f);
    fclose(f);
}

static flx_code find_kernels(flxi_device_code *c, const flxi_compile_request *q, const flxi_kentry *entries,
                             flx_error *err)
{
    for (size_t i = 0; i < q->num_kernels; i++) {
        cl_int status = CL_SUCCESS;
        cl_kernel object = c->engine->cl.clCreateKernel(c->program, entries[i].name, &status);
        if (!object)
            return flxi_opencl_fail(err, "clCreateKernel", status);
        c->kernels[c->num_kernels++] = (flxi_opencl_kernel){object, entries[i], q->kernels[i]};
    }
    return FLX_OK;
}

static flx_code build_text(flxi_device_code *c, const flxi_compile_request *q, flxi_strbuf *text, flx_error *err)
{
    static const flxi_cache_mode modes[] = {FLXI_CACHE_ON, FLXI_CACHE_READ_ONLY, FLXI_CACHE_OFF};
    const flxi_cache_options cache = {.mode = modes[q->options->cache], .dir = q->options->cache_dir};
    flxi_card_build_stats stats = {0};
    flxi_kentry *entries = flxi_new(&c->arena, flxi_kentry, q->num_kernels);
    c->kernels = flxi_new(&c->arena, flxi_opencl_kernel, q->num_kernels);
    if (!entries || !c->kernels)
        return flxi_oom(err, "kernels");
    FLXI_TRY(write_text(q, entries, text, err));
    if (q->options->dump_dir)
        dump(q->options->dump_dir, text);
    FLXI_TRY(flxi_opencl_build(c->engine, &cache, text, &c->program, &stats, err));
    flxi_card_log_cache(q, "opencl", &stats);
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

flx_code flxi_opencl_compile_program(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **out,
                                     flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(q->ctx);
    flxi_device_code *c = flxi_alloc(mem, 1, sizeof *c);
    *out = NULL;
    if (!c)
        return flxi_oom(err, "kernels");
    flxi_arena_init(&c->arena, mem);
    flx_code code = build(c, q, err);
    if (code != FLX_OK) {
        flxi_opencl_free_code(c);
        return code;
    }
    for (size_t i = 0; i < q->num_kernels; i++)
        kernels[i] = (flxi_kernel_code){.code = &c->kernels[i],
                                        .scratch = c->kernels[i].entry.has_status ? FLXI_OPENCL_STATUS_BYTES : 0,
                                        .is_watched = c->kernels[i].entry.has_status};
    *out = c;
    return FLX_OK;
}
