/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_opencl.c: device "opencl" of kernels: the first device that any driver offers. Buffers are copied to the
   device and those that a kernel may write are copied back. */
#include "backend/opencl/kernel_opencl.h"

#include "backend/kernel_cache.h"
#include "backend/kernel_status.h"
#include "backend/opencl/opencl_api.h"
#include "emit/kernel_emit.h"

#include <stdio.h>

typedef struct {
    const flxi_allocator *mem;
    flxi_opencl cl;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    size_t max_workgroup;
    cl_ulong local_bytes;
    bool has_f64, has_wide_atomics, rounds_division;
    flxi_kcache kernels;
    pthread_mutex_t lock; /* arguments of a kernel object are shared state: one dispatch at a time */
    bool is_ready;
    flx_error why_not; /* if it is not */
} engine;

typedef struct {
    cl_program program;
    cl_kernel kernel;
    flxi_kentry entry;
} compiled;

static flx_code fail(flx_error *err, const char *what, cl_int status)
{
    return flxi_fail_hint(err, FLX_E_DEVICE, "run it with device cpu or ref", "OpenCL: %s failed with status %d", what,
                          (int)status);
}

/* ---- The device ---- */

static flx_code choose_device(engine *e, flx_error *err)
{
    cl_platform_id platforms[16];
    cl_uint n = 0;
    cl_int status = e->cl.clGetPlatformIDs(16, platforms, &n);
    for (cl_uint i = 0; status == CL_SUCCESS && i < n && i < 16; i++)
        if (e->cl.clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &e->device, NULL) == CL_SUCCESS)
            return FLX_OK;
    return flxi_fail_hint(err, FLX_E_DEVICE, "install an OpenCL driver, such as pocl-opencl-icd, or use device cpu",
                          "OpenCL offers no device");
}

static void ask_device(engine *e)
{
    char extensions[8192] = "";
    cl_bitfield fp = 0;
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof e->max_workgroup, &e->max_workgroup, NULL);
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof e->local_bytes, &e->local_bytes, NULL);
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof fp, &fp, NULL);
    if (e->cl.clGetDeviceInfo(e->device, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, NULL) != CL_SUCCESS)
        extensions[0] = 0;
    e->has_f64 = strstr(extensions, "cl_khr_fp64") != NULL;
    e->has_wide_atomics =
        strstr(extensions, "cl_khr_int64_base_atomics") && strstr(extensions, "cl_khr_int64_extended_atomics");
    e->rounds_division = fp & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
}

static flx_code open_device(engine *e, flx_error *err)
{
    cl_int status = CL_SUCCESS;
    FLXI_TRY(flxi_opencl_load(&e->cl, err));
    FLXI_TRY(choose_device(e, err));
    ask_device(e);
    e->context = e->cl.clCreateContext(NULL, 1, &e->device, NULL, NULL, &status);
    if (!e->context)
        return fail(err, "clCreateContext", status);
    e->queue = e->cl.clCreateCommandQueue(e->context, e->device, 0, &status);
    return e->queue ? FLX_OK : fail(err, "clCreateCommandQueue", status);
}

static void free_compiled(void *owner, void *data)
{
    engine *e = owner;
    compiled *k = data;
    if (k->kernel)
        e->cl.clReleaseKernel(k->kernel);
    if (k->program)
        e->cl.clReleaseProgram(k->program);
    flxi_free(e->mem, k, 1, sizeof *k);
}

static void close_device(engine *e)
{
    if (e->queue)
        e->cl.clReleaseCommandQueue(e->queue);
    if (e->context)
        e->cl.clReleaseContext(e->context);
    flxi_opencl_unload(&e->cl);
}

/* Without a device there is an engine too: it knows why. */
static void *make_engine(flx_context *ctx)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    engine *e = flxi_alloc(mem, 1, sizeof *e);
    if (!e)
        return NULL;
    e->mem = mem;
    bool has_lock = pthread_mutex_init(&e->lock, NULL) == 0;
    if (!has_lock || !flxi_kcache_init(&e->kernels, mem, free_compiled, e)) {
        if (has_lock)
            pthread_mutex_destroy(&e->lock);
        flxi_free(mem, e, 1, sizeof *e);
        return NULL;
    }
    e->is_ready = open_device(e, &e->why_not) == FLX_OK;
    return e;
}

static void free_engine(void *data)
{
    engine *e = data;
    flxi_kcache_free(&e->kernels);
    close_device(e);
    pthread_mutex_destroy(&e->lock);
    flxi_free(e->mem, e, 1, sizeof *e);
}

static flx_code engine_of(flx_context *ctx, engine **e, flx_error *err)
{
    *e = flxi_context_attached(ctx, make_engine, free_engine);
    if (!*e)
        return flxi_oom(err, "OpenCL");
    if (!(*e)->is_ready && err)
        *err = (*e)->why_not;
    return (*e)->is_ready ? FLX_OK : (flx_code)(*e)->why_not.code;
}

/* ---- Compiling ---- */

static flx_code check_abilities(const engine *e, const flx_kernel *k, const flxi_kfile *f, flx_error *err)
{
    if (f->uses_f64 && !e->has_f64)
        return flxi_kernel_fail(err, "K31", "use f32, or run it with device cpu",
                                "the OpenCL device has no f64 (cl_khr_fp64)");
    if (f->uses_wide_atomics && !e->has_wide_atomics)
        return flxi_kernel_fail(err, "K31", "use 32-bit elements, or run it with device cpu",
                                "the OpenCL device has no atomics of 64 bits (cl_khr_int64_base_atomics)");
    if (flxi_kernel_workgroup(k) > e->max_workgroup)
        return flxi_kernel_fail(err, "K01", "use a smaller workgroup", "%u invocations: the OpenCL device takes %zu",
                                flxi_kernel_workgroup(k), e->max_workgroup);
    return FLX_OK;
}

static flx_code fail_build(engine *e, compiled *k, cl_int status, flx_error *err)
{
    char log[400] = "", shown[160];
    char *whole = flxi_alloc(e->mem, 1 << 16, 1); /* only we cut it off */
    if (whole &&
        e->cl.clGetProgramBuildInfo(k->program, e->device, CL_PROGRAM_BUILD_LOG, 1 << 16, whole, NULL) == CL_SUCCESS)
        snprintf(log, sizeof log, "%s", whole);
    if (whole)
        flxi_free(e->mem, whole, 1 << 16, 1);
    return flxi_fail_hint(err, FLX_E_DEVICE, "run it with device cpu or ref",
                          "OpenCL cannot build the kernel (status %d): %s", (int)status,
                          flxi_printable(shown, sizeof shown, log, strlen(log)));
}

static flx_code build(engine *e, compiled *k, const flxi_strbuf *text, flx_error *err)
{
    cl_int status = CL_SUCCESS;
    const char *source = text->at;
    const char *options = e->rounds_division ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
    k->program = e->cl.clCreateProgramWithSource(e->context, 1, &source, &text->n, &status);
    if (!k->program)
        return fail(err, "clCreateProgramWithSource", status);
    status = e->cl.clBuildProgram(k->program, 1, &e->device, options, NULL, NULL);
    if (status != CL_SUCCESS)
        return fail_build(e, k, status, err);
    k->kernel = e->cl.clCreateKernel(k->program, k->entry.name, &status);
    return k->kernel ? FLX_OK : fail(err, "clCreateKernel", status);
}

static flx_code compile(void *owner, const flx_kernel *kernel, void *made, flx_error *err)
{
    engine *e = owner;
    compiled *k = made;
    flxi_kfile file;
    flxi_strbuf text;
    FLXI_TRY(flxi_kernel_check_target(kernel, &flxi_target_opencl, err));
    flxi_kfile_init(&file, &flxi_target_opencl, e->mem);
    flxi_strbuf_init(&text, e->mem);
    flx_code code = flxi_kernel_write(&file, kernel, &k->entry, err);
    if (code == FLX_OK)
        code = check_abilities(e, kernel, &file, err);
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
    engine *e;
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
        return fail(r->err, "clCreateBuffer", status);
    if (size)
        status = cl->clEnqueueWriteBuffer(r->e->queue, r->memory[i], 1, 0, size, data, 0, NULL, NULL);
    return status == CL_SUCCESS ? FLX_OK : fail(r->err, "clEnqueueWriteBuffer", status);
}

static flx_code give(dispatch *r, const void *argument, size_t size)
{
    cl_int status = r->e->cl.clSetKernelArg(r->k->kernel, r->next++, size, argument);
    return status == CL_SUCCESS ? FLX_OK : fail(r->err, "clSetKernelArg", status);
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
    return status == CL_SUCCESS ? FLX_OK : fail(r->err, "clEnqueueReadBuffer", status);
}

static flx_code launch(dispatch *r)
{
    size_t local[3], global[3];
    for (int a = 0; a < 3; a++) {
        local[a] = r->d->kernel->size[a];
        global[a] = (size_t)r->d->grid[a] * local[a];
    }
    cl_int status = r->e->cl.clEnqueueNDRangeKernel(r->e->queue, r->k->kernel, 3, NULL, global, local, 0, NULL, NULL);
    if (status != CL_SUCCESS)
        return fail(r->err, "clEnqueueNDRangeKernel", status);
    status = r->e->cl.clFinish(r->e->queue);
    return status == CL_SUCCESS ? FLX_OK : fail(r->err, "clFinish", status);
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
    FLXI_TRY(engine_of(d->kernel->ctx, &r.e, err));
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
