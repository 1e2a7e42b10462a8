/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_engine.c: see opencl_engine.h. A key of the cache of objects identifies a text, a device with its driver, and
   the options. */
#include "backend/opencl/opencl_engine.h"

#include "backend/opencl/kernel_opencl.h"

#include <stdio.h>

flx_code flxi_opencl_fail(flx_error *err, const char *what, cl_int status)
{
    return flxi_fail_hint(err, FLX_E_DEVICE, "run it with device cpu or ref", "OpenCL: %s failed with status %d", what,
                          (int)status);
}

/* ---- The device ---- */

static flx_code choose_device(flxi_opencl_engine *e, flx_error *err)
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

static void ask_name(flxi_opencl_engine *e)
{
    static const cl_uint parts[] = {CL_DEVICE_NAME, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(e->name);
        char part[80] = "";
        if (e->cl.clGetDeviceInfo(e->device, parts[i], sizeof part - 1, part, NULL) == CL_SUCCESS)
            snprintf(e->name + n, sizeof e->name - n, "%s%s", i ? ", " : "", part);
    }
}

static void ask_device(flxi_opencl_engine *e)
{
    char extensions[8192] = "";
    cl_bitfield fp = 0, addresses = 0;
    ask_name(e);
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof e->max_workgroup, &e->max_workgroup, NULL);
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof e->local_bytes, &e->local_bytes, NULL);
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof fp, &fp, NULL);
    if (e->cl.clGetDeviceInfo(e->device, CL_DEVICE_SVM_CAPABILITIES, sizeof addresses, &addresses, NULL) != CL_SUCCESS)
        addresses = 0;
    if (e->cl.clGetDeviceInfo(e->device, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, NULL) != CL_SUCCESS)
        extensions[0] = 0;
    e->has_f64 = strstr(extensions, "cl_khr_fp64") != NULL;
    e->has_wide_atomics =
        strstr(extensions, "cl_khr_int64_base_atomics") && strstr(extensions, "cl_khr_int64_extended_atomics");
    e->rounds_division = fp & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    e->has_addresses = addresses & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER && e->cl.clSVMAlloc && e->cl.clSVMFree &&
                       e->cl.clSetKernelArgSVMPointer && e->cl.clEnqueueSVMMemcpy && e->cl.clEnqueueSVMMemFill;
}

static flx_code open_device(flxi_opencl_engine *e, flx_error *err)
{
    cl_int status = CL_SUCCESS;
    FLXI_TRY(flxi_opencl_load(&e->cl, err));
    FLXI_TRY(choose_device(e, err));
    ask_device(e);
    e->context = e->cl.clCreateContext(NULL, 1, &e->device, NULL, NULL, &status);
    if (!e->context)
        return flxi_opencl_fail(err, "clCreateContext", status);
    e->queue = e->cl.clCreateCommandQueue(e->context, e->device, 0, &status);
    return e->queue ? FLX_OK : flxi_opencl_fail(err, "clCreateCommandQueue", status);
}

static void close_device(flxi_opencl_engine *e)
{
    if (e->finding)
        e->cl.clSVMFree(e->context, e->finding);
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
    flxi_opencl_engine *e = flxi_alloc(mem, 1, sizeof *e);
    if (!e)
        return NULL;
    e->mem = mem;
    e->cache = flxi_object_cache_new(mem, &(flxi_cache_options){0});
    int locks = e->cache && pthread_mutex_init(&e->lock, NULL) == 0;
    locks += locks && pthread_mutex_init(&e->launch, NULL) == 0;
    if (locks < 2 || !flxi_kcache_init(&e->kernels, mem, flxi_opencl_discard_kernel, e)) {
        if (locks > 1)
            pthread_mutex_destroy(&e->launch);
        if (locks > 0)
            pthread_mutex_destroy(&e->lock);
        flxi_object_cache_free(e->cache);
        flxi_free(mem, e, 1, sizeof *e);
        return NULL;
    }
    e->is_ready = open_device(e, &e->why_not) == FLX_OK;
    return e;
}

static void free_engine(void *data)
{
    flxi_opencl_engine *e = data;
    flxi_kcache_free(&e->kernels);
    flxi_opencl_free_own(e);
    close_device(e);
    flxi_object_cache_free(e->cache);
    pthread_mutex_destroy(&e->launch);
    pthread_mutex_destroy(&e->lock);
    flxi_free(e->mem, e, 1, sizeof *e);
}

flx_code flxi_opencl_engine_of(flx_context *ctx, flxi_opencl_engine **out, flx_error *err)
{
    flxi_opencl_engine *e = *out = flxi_context_attached(ctx, make_engine, free_engine);
    if (!e)
        return flxi_oom(err, "OpenCL");
    if (!e->is_ready && err)
        *err = e->why_not;
    return e->is_ready ? FLX_OK : (flx_code)e->why_not.code;
}

static flx_code make_finding(flxi_opencl_engine *e, flx_error *err)
{
    pthread_mutex_lock(&e->lock);
    if (!e->finding)
        e->finding = flxi_opencl_allocate(e, sizeof *e->finding);
    bool is_there = e->finding != NULL;
    pthread_mutex_unlock(&e->lock);
    return is_there ? FLX_OK : flxi_oom(err, "memory of the OpenCL device");
}

flx_code flxi_opencl_graphs_of(flx_context *ctx, flxi_opencl_engine **out, flx_error *err)
{
    FLXI_TRY(flxi_opencl_engine_of(ctx, out, err));
    if (!(*out)->has_addresses)
        return flxi_fail_hint(err, FLX_E_DEVICE, "use device cpu; kernels of the user run on the device",
                              "graphs need memory with addresses (SVM of OpenCL 2.0), which the device has not: %.120s",
                              (*out)->name);
    return make_finding(*out, err);
}

/* ---- Memory and launches ---- */

void *flxi_opencl_allocate(flxi_opencl_engine *e, size_t nbytes)
{
    static const unsigned char zero;
    cl_ulong most = 0;
    e->cl.clGetDeviceInfo(e->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL);
    void *at = nbytes <= most ? e->cl.clSVMAlloc(e->context, CL_MEM_READ_WRITE, nbytes, 0) : NULL;
    if (!at)
        return NULL;
    if (e->cl.clEnqueueSVMMemFill(e->queue, at, &zero, 1, nbytes, 0, NULL, NULL) == CL_SUCCESS &&
        e->cl.clFinish(e->queue) == CL_SUCCESS)
        return at;
    e->cl.clSVMFree(e->context, at);
    return NULL;
}

/* A driver keeps all that is waiting, and a run can be cancelled only between launches: there are never many. */
flx_code flxi_opencl_enqueue(flxi_opencl_engine *e, cl_command_queue queue, cl_kernel k, const size_t groups[3],
                             const size_t size[3], flx_error *err)
{
    enum { MOST_WAITING = 1024 };
    const size_t all[3] = {groups[0] * size[0], groups[1] * size[1], groups[2] * size[2]};
    cl_int status = e->cl.clEnqueueNDRangeKernel(queue, k, 3, NULL, all, size, 0, NULL, NULL);
    if (status != CL_SUCCESS)
        return flxi_opencl_fail(err, "clEnqueueNDRangeKernel", status);
    if (atomic_fetch_add(&e->num_launches, 1) % MOST_WAITING == MOST_WAITING - 1)
        status = e->cl.clFinish(queue);
    return status == CL_SUCCESS ? FLX_OK : flxi_opencl_fail(err, "clFinish", status);
}

/* ---- Building ---- */

flx_code flxi_opencl_check(const flxi_opencl_engine *e, const flx_kernel *k, const flxi_kfile *f, flx_error *err)
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

static flx_code fail_build(flxi_opencl_engine *e, cl_program program, cl_int status, flx_error *err)
{
    char log[400] = "", shown[160];
    char *whole = flxi_alloc(e->mem, 1 << 16, 1); /* only we cut it off */
    if (whole &&
        e->cl.clGetProgramBuildInfo(program, e->device, CL_PROGRAM_BUILD_LOG, 1 << 16, whole, NULL) == CL_SUCCESS)
        snprintf(log, sizeof log, "%s", whole);
    if (whole)
        flxi_free(e->mem, whole, 1 << 16, 1);
    return flxi_fail_hint(err, FLX_E_DEVICE, "run it with device cpu or ref",
                          "OpenCL cannot build the kernel (status %d): %s", (int)status,
                          flxi_printable(shown, sizeof shown, log, strlen(log)));
}

static const char *options_of(const flxi_opencl_engine *e)
{
    return e->rounds_division ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
}

static flx_code build_text(flxi_opencl_engine *e, const flxi_strbuf *text, cl_program *out, flx_error *err)
{
    cl_int status = CL_SUCCESS;
    const char *source = text->at;
    *out = e->cl.clCreateProgramWithSource(e->context, 1, &source, &text->n, &status);
    if (!*out)
        return flxi_opencl_fail(err, "clCreateProgramWithSource", status);
    status = e->cl.clBuildProgram(*out, 1, &e->device, options_of(e), NULL, NULL);
    if (status == CL_SUCCESS)
        return FLX_OK;
    flx_code code = fail_build(e, *out, status, err);
    e->cl.clReleaseProgram(*out);
    *out = NULL;
    return code;
}

static void find_key(const flxi_opencl_engine *e, const flxi_strbuf *text, unsigned char key[FLXI_SHA256_BYTES])
{
    flxi_sha256 h;
    flxi_sha256_init(&h);
    flxi_sha256_add_field(&h, "opencl 1", 8);
    flxi_sha256_add_field(&h, e->name, strlen(e->name));
    flxi_sha256_add_field(&h, options_of(e), strlen(options_of(e)));
    flxi_sha256_add_field(&h, text->at, text->n);
    flxi_sha256_end(&h, key);
}

/* Whether there is a program in the cache that the driver accepts. */
static bool find_program(flxi_opencl_engine *e, flxi_object_cache *cache, const unsigned char *key, cl_program *out)
{
    flxi_cache_entry found;
    cl_int status = CL_SUCCESS, loaded = CL_SUCCESS;
    if (!flxi_object_cache_read(cache, key, &found))
        return false;
    const unsigned char *bytes = found.bytes;
    *out = e->cl.clCreateProgramWithBinary(e->context, 1, &e->device, &found.n, &bytes, &loaded, &status);
    if (*out && e->cl.clBuildProgram(*out, 1, &e->device, options_of(e), NULL, NULL) != CL_SUCCESS) {
        e->cl.clReleaseProgram(*out);
        *out = NULL;
    }
    if (!*out)
        flxi_object_cache_reject(cache, "the OpenCL driver refuses it");
    flxi_cache_entry_free(cache, &found);
    return *out != NULL;
}

static void keep_program(flxi_opencl_engine *e, flxi_object_cache *cache, const unsigned char *key, cl_program program)
{
    flxi_cache_entry made = {0};
    if (e->cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof made.n, &made.n, NULL) != CL_SUCCESS || !made.n)
        return;
    made.bytes = flxi_alloc(e->mem, made.n, 1);
    if (!made.bytes)
        return;
    if (e->cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof made.bytes, &made.bytes, NULL) == CL_SUCCESS) {
        flxi_sha256_of(made.bytes, made.n, made.digest);
        flxi_object_cache_write(cache, key, &made);
    }
    flxi_free(e->mem, made.bytes, made.n, 1);
}

flx_code flxi_opencl_build(flxi_opencl_engine *e, flxi_object_cache *cache, const flxi_strbuf *text, cl_program *out,
                           bool *is_found, flx_error *err)
{
    unsigned char key[FLXI_SHA256_BYTES];
    find_key(e, text, key);
    bool is_there = find_program(e, cache, key, out);
    if (is_found)
        *is_found = is_there;
    if (is_there)
        return FLX_OK;
    FLXI_TRY(build_text(e, text, out, err));
    keep_program(e, cache, key, *out);
    return FLX_OK;
}
