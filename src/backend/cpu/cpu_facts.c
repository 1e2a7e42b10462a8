/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_facts.c: what is known about the CPU. Nothing is looked up before it is requested. */
#include "backend/cpu/cpu_facts.h"

#include "backend/cpu/gemm/blas.h"
#include "backend/cpu/jit/c_compiler.h"
#include "emit/vector/vector_emit.h"

#include <stdio.h>
#include <unistd.h>

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
    static const flxi_cache_options reading = {.mode = FLX_CACHE_READ_ONLY};
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
    flxi_object_cache *cache = flxi_object_cache_new(&library_memory, &(flxi_cache_options){.mode = FLX_CACHE_ON});
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

const flxi_device_fact flxi_cpu_facts[] = {
    {"threads", write_threads}, {"vectors", write_vectors}, {"compiler", write_compiler},
    {"cache", write_cache},     {"blas", write_blas},       {0},
};
