/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: where graphs can run, and what is known about it. Nothing is looked for before it is asked about. */
#include "runtime/device.h"

#include "backend/cpu/gemm/blas.h"
#include "backend/cpu/jit/c_compiler.h"
#include "backend/cpu/routes/routes.h"
#include "backend/opencl/opencl_api.h"
#include "emit/vector/vector_emit.h"

#include <fluxion/run.h>
#include <stdio.h>
#include <unistd.h>

/* A line of text about a device, into `size` bytes. */
typedef void (*fact_fn)(char *text, size_t size);

typedef struct {
    const char *name;
    fact_fn write;
} fact;

typedef struct {
    const char *name;
    bool present;
    const char *detail;
    const fact *facts; /* ended by {0}; NULL: none */
    bool has_routes;
} device_row;

/* ---- Facts about the CPU ---- */

static void write_threads(char *text, size_t size)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(text, size, "%ld", cores > 0 ? cores : 1);
}

static void write_vectors(char *text, size_t size)
{
    snprintf(text, size, "%u bytes", flxi_vector_host_bytes());
}

static const flxi_allocator library_memory = {flxi_default_alloc, NULL};

static void write_compiler(char *text, size_t size)
{
    static const flxi_process_limits limits = {.jobs = 1, .time_ms = 10000};
    static const flxi_cache_options reading = {.mode = FLXI_CACHE_READ_ONLY};
    flxi_cc cc;
    flx_error err = {0};
    if (flxi_cc_find(&cc, &err) != FLX_OK) {
        snprintf(text, size, "none: %s", err.message);
        return;
    }
    flxi_object_cache *cache = flxi_object_cache_new(&library_memory, &reading);
    if (cache)
        flxi_cc_probe(&cc, cache, &limits);
    flxi_object_cache_free(cache);
    cc.version[strcspn(cc.version, "\n")] = 0;
    snprintf(text, size, "%.200s%s%.200s", cc.path, cc.version[0] ? ": " : "", cc.version);
}

static void write_cache(char *text, size_t size)
{
    flxi_object_cache *cache = flxi_object_cache_new(&library_memory, &(flxi_cache_options){.mode = FLXI_CACHE_ON});
    if (cache)
        flxi_object_cache_describe(cache, text, size);
    else
        snprintf(text, size, "unknown: out of memory");
    flxi_object_cache_free(cache);
}

static void write_blas(char *text, size_t size)
{
    const char *why = "";
    const char *library = flxi_blas_library(&why);
    snprintf(text, size, "%s%s", library ? library : "none: ", library ? "" : why);
}

static const fact cpu_facts[] = {
    {"threads", write_threads}, {"vectors", write_vectors}, {"compiler", write_compiler},
    {"cache", write_cache},     {"blas", write_blas},       {0},
};

/* ---- Facts about OpenCL ---- */

static void write_opencl(char *text, size_t size)
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

static const fact opencl_facts[] = {{"library", write_opencl}, {0}};

/* ---- Devices ---- */

static const device_row devices[] = {
    {"ref", true, "reference evaluator: every op by its definition, one thread", NULL, false},
    {"cpu", true, "compiled code for this machine, on all cores", cpu_facts, true},
    {"opencl", false, "it runs kernels only, no graphs", opencl_facts, false},
    {"cuda", false, "not part of this version", NULL, false},
};

enum { DEVICE_COUNT = sizeof devices / sizeof devices[0] };

flx_code flx_device(size_t i, const char **name, char *detail, size_t size)
{
    if (i >= DEVICE_COUNT)
        return FLX_E_NAME;
    if (name)
        *name = devices[i].name;
    if (detail && size)
        snprintf(detail, size, "%s", devices[i].detail);
    return devices[i].present ? FLX_OK : FLX_E_DEVICE;
}

flx_code flx_device_fact(size_t i, size_t k, const char **name, char *text, size_t size)
{
    const fact *f = i < DEVICE_COUNT ? devices[i].facts : NULL;
    for (; f && f->name && k > 0; k--)
        f++;
    if (!f || !f->name)
        return FLX_E_NAME;
    if (name)
        *name = f->name;
    if (text && size)
        f->write(text, size);
    return FLX_OK;
}

flx_code flx_device_route(size_t i, size_t k, const char **op, const char **route)
{
    size_t count = 0;
    const flxi_route *list = i < DEVICE_COUNT && devices[i].has_routes ? flxi_route_list(&count) : NULL;
    if (!list || k >= count)
        return FLX_E_NAME;
    if (op)
        *op = flxi_ops[list[k].op].name;
    if (route)
        *route = list[k].name;
    return FLX_OK;
}

flx_code flxi_check_device(const char *name, flx_error *err)
{
    char text[40];
    for (size_t i = 0; name && i < DEVICE_COUNT; i++)
        if (strcmp(devices[i].name, name) == 0)
            return devices[i].present ? FLX_OK
                                      : flxi_fail_hint(err, FLX_E_DEVICE, "'flx devices' lists what can be used",
                                                       "the device '%s' cannot be used: %s", name, devices[i].detail);
    if (!name)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_NAME, "devices: ref cpu opencl cuda", "there is no device called '%s'",
                          flxi_printable(text, sizeof text, name, strlen(name)));
}
