/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_opencl.c: a kernel of the user on an OpenCL device. Buffers are copied to the device and those that a kernel
   may write are copied back. */
#include "backend/opencl/kernel_opencl.h"

#include "backend/kernel_status.h"
#include "backend/opencl/opencl_engine.h"

typedef struct {
    cl_program program;
    cl_kernel kernel;
    flxi_kentry entry;
} compiled;

void flxi_opencl_discard_kernel(void *owner, void *data)
{
    flxi_opencl_engine *e = owner;
    compiled *k = data;
    if (k->kernel)
        e->cl.clReleaseKernel(k->kernel);
    if (k->program)
        e->cl.clReleaseProgram(k->program);
    flxi_free(e->mem, k, 1, sizeof *k);
}

/* ---- Compiling ---- */

static flx_code build(flxi_opencl_engine *e, compiled *k, const flxi_strbuf *text, flx_error *err)
{
    cl_int status = CL_SUCCESS;
    FLXI_TRY(flxi_opencl_build(e, e->cache, text, &k->program, NULL, err));
    k->kernel = e->cl.clCreateKernel(k->program, k->entry.name, &status);
    return k->kernel ? FLX_OK : flxi_opencl_fail(err, "clCreateKernel", status);
}

static flx_code compile(void *owner, const flx_kernel *kernel, void *made, flx_error *err)
{
    flxi_opencl_engine *e = owner;
    compiled *k = made;
    flxi_kfile file;
    flxi_strbuf text;
    FLXI_TRY(flxi_kernel_check_target(kernel, &flxi_target_opencl, err));
    flxi_kfile_init(&file, &flxi_target_opencl, e->mem);
    flxi_strbuf_init(&text, e->mem);
    flx_code code = flxi_kernel_write(&file, kernel, &k->entry, err);
    if (code == FLX_OK)
        code = flxi_opencl_check(e, kernel, &file, err);
    if (code == FLX_OK)
        code = flxi_kfile_text(&file, &text, err);
    if (code == FLX_OK)
        code = build(e, k, &text, err);
    flxi_strbuf_free(&text);
    flxi_kfile_free(&file);
    return code;
}

/* ---- Running ---- */

typedef struct {
    flxi_opencl_engine *e;
    const flxi_kdispatch *d;
    const compiled *k;
    cl_mem *memory; /* by buffer number; 0 is the status */
    uint32_t status[KSTATUS_WORDS];
    cl_uint next; /* number of the next argument */
    flx_error *err;
} dispatch;

static size_t size_of(const dispatch *r, uint32_t i)
{
    return flxi_ktype_bytes(r->d->kernel->buffers[i].element, r->d->bound[i].count);
}

/* Device memory of whole words, since there are no empty buffers and 4-bit elements are accessed in words. */
static flx_code send(dispatch *r, uint32_t i, const void *data, size_t size)
{
    const flxi_opencl *cl = &r->e->cl;
    cl_int status = CL_SUCCESS;
    r->memory[i] = cl->clCreateBuffer(r->e->context, CL_MEM_READ_WRITE, (size + 8) / 4 * 4, NULL, &status);
    if (!r->memory[i])
        return flxi_opencl_fail(r->err, "clCreateBuffer", status);
    if (size)
        status = cl->clEnqueueWriteBuffer(r->e->queue, r->memory[i], 1, 0, size, data, 0, NULL, NULL);
    return status == CL_SUCCESS ? FLX_OK : flxi_opencl_fail(r->err, "clEnqueueWriteBuffer", status);
}

static flx_code give(dispatch *r, const void *argument, size_t size)
{
    cl_int status = r->e->cl.clSetKernelArg(r->k->kernel, r->next++, size, argument);
    return status == CL_SUCCESS ? FLX_OK : flxi_opencl_fail(r->err, "clSetKernelArg", status);
}

static flx_code send_all(dispatch *r)
{
    const flx_kernel *k = r->d->kernel;
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        if (!flxi_kbuffer_is_bound(&k->buffers[i]))
            continue;
        uint32_t length = flxi_kbound_length(&r->d->bound[i]);
        FLXI_TRY(send(r, i, r->d->bound[i].data, size_of(r, i)));
        FLXI_TRY(give(r, &r->memory[i], sizeof r->memory[i]));
        FLXI_TRY(give(r, &length, sizeof length));
    }
    if (r->k->entry.has_status) {
        FLXI_TRY(send(r, 0, r->status, sizeof r->status));
        FLXI_TRY(give(r, &r->memory[0], sizeof r->memory[0]));
    }
    if (r->k->entry.has_subgroups)
        FLXI_TRY(give(r, &r->d->options.subgroup_size, sizeof r->d->options.subgroup_size));
    return FLX_OK;
}

static flx_code receive(dispatch *r, uint32_t i, void *data, size_t size)
{
    cl_int status = CL_SUCCESS;
    if (size)
        status = r->e->cl.clEnqueueReadBuffer(r->e->queue, r->memory[i], 1, 0, size, data, 0, NULL, NULL);
    return status == CL_SUCCESS ? FLX_OK : flxi_opencl_fail(r->err, "clEnqueueReadBuffer", status);
}

static flx_code launch(dispatch *r)
{
    size_t groups[3], size[3];
    for (int a = 0; a < 3; a++) {
        size[a] = r->d->kernel->size[a];
        groups[a] = r->d->grid[a];
    }
    FLXI_TRY(flxi_opencl_enqueue(r->e, r->e->queue, r->k->kernel, groups, size, r->err));
    cl_int status = r->e->cl.clFinish(r->e->queue);
    return status == CL_SUCCESS ? FLX_OK : flxi_opencl_fail(r->err, "clFinish", status);
}

static flx_code fetch_all(dispatch *r)
{
    const flx_kernel *k = r->d->kernel;
    for (uint32_t i = 1; i <= k->num_buffers; i++)
        if (k->buffers[i].access == FLX_KERNEL_WRITE || k->buffers[i].access == FLX_KERNEL_READ_WRITE)
            FLXI_TRY(receive(r, i, r->d->bound[i].data, size_of(r, i)));
    return r->k->entry.has_status ? receive(r, 0, r->status, sizeof r->status) : FLX_OK;
}

static flx_code run(dispatch *r)
{
    FLXI_TRY(send_all(r));
    FLXI_TRY(launch(r));
    FLXI_TRY(fetch_all(r));
    return flxi_kernel_report_status(r->d, r->status, r->err);
}

flx_code flxi_kernel_run_opencl(const flxi_kdispatch *d, flx_error *err)
{
    dispatch r = {.d = d, .err = err};
    flxi_kcached *held;
    size_t n = d->kernel->num_buffers + 1u;
    FLXI_TRY(flxi_opencl_engine_of(d->kernel->ctx, &r.e, err));
    FLXI_TRY(flxi_kcache_get(&r.e->kernels, d->kernel, sizeof(compiled), compile, &held, err));
    r.k = flxi_kcached_data(held);
    r.memory = flxi_alloc(r.e->mem, n, sizeof *r.memory);
    bool is_empty = d->grid[0] == 0 || d->grid[1] == 0 || d->grid[2] == 0;
    flx_code code = r.memory ? FLX_OK : flxi_oom(err, "the memory of a kernel");
    if (code == FLX_OK && !is_empty) {
        pthread_mutex_lock(&r.e->lock);
        code = run(&r);
        pthread_mutex_unlock(&r.e->lock);
    }
    for (size_t i = 0; r.memory && i < n; i++)
        if (r.memory[i])
            r.e->cl.clReleaseMemObject(r.memory[i]);
    if (r.memory)
        flxi_free(r.e->mem, r.memory, n, sizeof *r.memory);
    flxi_kcache_put_back(&r.e->kernels, held);
    return code;
}
