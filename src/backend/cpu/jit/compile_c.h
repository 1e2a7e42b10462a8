/* SPDX-License-Identifier: Apache-2.0 */
/* compile_c.h: from C text to functions in this process, by the system's compiler.

   Several texts are compiled at once by several processes. What was made before, by any process of this user, is taken
   from the cache on disk (object_cache.h). The compiler is $FLX_CC, else the best that there is (c_compiler.h); it is
   looked for at every use, so a changed variable or an update counts at once. */
#ifndef FLXI_COMPILE_C_H
#define FLXI_COMPILE_C_H

#include "backend/cpu/jit/c_compiler.h"
#include "backend/cpu/jit/shared_object.h"
#include "backend/object_cache.h"

typedef struct {
    flxi_cache_options cache;
    int jobs;              /* compilers at once; 0: one for each core */
    int64_t time_ms;       /* of a compiler; 0: five minutes */
    uint64_t memory_bytes; /* of a compiler; 0: 8 GiB */
    uint64_t object_bytes; /* the largest object that is accepted; 0: 64 MiB */
} flxi_service_options;

typedef struct {
    uint64_t hits;   /* objects from the cache */
    uint64_t misses; /* objects that were compiled */
    double compile_seconds;
    flxi_cache_stats cache;
} flxi_compile_stats;

typedef struct flxi_compile_service flxi_compile_service; /* threads may share one */

/* NULL when memory is exhausted. The options (NULL: all usual) are copied; `mem` must outlive it and its objects. */
flxi_compile_service *flxi_compile_service_new(const flxi_allocator *mem, const flxi_service_options *options);
void flxi_compile_service_free(flxi_compile_service *s); /* NULL is fine; objects stay */
void flxi_compile_service_stats(flxi_compile_service *s, flxi_compile_stats *out);

typedef struct {
    const char *text; /* must not depend on any header */
    size_t n;
    flxi_object *object; /* out; the caller frees it */
} flxi_c_unit;

/* Compiles and loads all units, or none. Files are made only in a directory that only this user can enter and that is
   gone when this returns. DEVICE when there is no compiler, it fails, takes too long or makes something else than an
   object; the message has the beginning of what it printed. */
flx_code flxi_compile_c(flxi_compile_service *s, flxi_c_unit *units, size_t n, flxi_c_level level, unsigned flags,
                        flx_error *err);

#endif
