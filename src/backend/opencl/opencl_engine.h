/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_engine.h: the first device that any OpenCL driver offers, as a context of the library sees it. Made when it is
   first needed. */
#ifndef FLXI_OPENCL_ENGINE_H
#define FLXI_OPENCL_ENGINE_H

#include "backend/card/card_way.h"
#include "backend/kernel_cache.h"
#include "backend/object_cache.h"
#include "backend/opencl/opencl_api.h"
#include "emit/kernel_emit.h"

typedef struct flxi_opencl_own flxi_opencl_own; /* opencl_own.c */

typedef struct {
    const flxi_allocator *mem;
    flxi_opencl cl;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue; /* of what belongs to no run */
    char name[256];         /* of the device and its driver */
    size_t max_workgroup;
    cl_ulong local_bytes;
    bool has_f64, has_wide_atomics, rounds_division;
    bool has_addresses;     /* memory is known by addresses, as graphs need it */
    flxi_kcache kernels;    /* of the user's dispatches */
    pthread_mutex_t lock;   /* guards dispatches of the user, and functions of our own */
    pthread_mutex_t launch; /* arguments of a kernel are shared state: one launch at a time; guards `active` too */
    atomic_uint num_launches;
    flxi_opencl_own *own;
    flxi_object_cache *cache;   /* of texts that belong to no program */
    flxi_card_finding *finding; /* memory of the device, or NULL */
    atomic_bool may_find;       /* kernels of this time may have written there */
    int active;                 /* runs */
    bool is_ready;
    flx_error why_not; /* if it is not */
} flxi_opencl_engine;

struct flxi_queue {
    flxi_opencl_engine *engine;
    cl_command_queue queue;
};

flx_code flxi_opencl_engine_of(flx_context *ctx, flxi_opencl_engine **out, flx_error *err);
/* The same, and graphs can run there. */
flx_code flxi_opencl_graphs_of(flx_context *ctx, flxi_opencl_engine **out, flx_error *err);

flx_code flxi_opencl_fail(flx_error *err, const char *what, cl_int status);
/* Whether the device has what the kernel needs. */
flx_code flxi_opencl_check(const flxi_opencl_engine *e, const flx_kernel *k, const flxi_kfile *f, flx_error *err);

/* A text to a program; from the cache, if it is there. `is_found` says so, and may be NULL. */
flx_code flxi_opencl_build(flxi_opencl_engine *e, flxi_object_cache *cache, const flxi_strbuf *text, cl_program *out,
                           bool *is_found, flx_error *err);

/* With the arguments set and the lock of launches held. */
flx_code flxi_opencl_enqueue(flxi_opencl_engine *e, cl_command_queue queue, cl_kernel k, const size_t groups[3],
                             const size_t size[3], flx_error *err);

/* Memory of the device that has addresses; zeros. NULL: there is not enough. */
void *flxi_opencl_allocate(flxi_opencl_engine *e, size_t nbytes);

/* ---- Functions of our own: opencl_own.c ---- */

typedef struct {
    flxi_launcher on;
    flxi_opencl_engine *engine;
    cl_command_queue queue;
} flxi_opencl_launcher;

flxi_opencl_launcher flxi_opencl_launcher_for(flxi_opencl_engine *e, cl_command_queue queue);
/* Its kernels of programs: opencl_program.c. */
flx_code flxi_opencl_run(const flxi_launcher *on, const flxi_card_kernel *k, const flxi_card_dispatch *d,
                         flx_error *err);
void flxi_opencl_free_own(flxi_opencl_engine *e);

#endif
