/* SPDX-License-Identifier: Apache-2.0 */
/* native.h: kernels of an executable as machine code. */
#ifndef FLXI_NATIVE_H
#define FLXI_NATIVE_H

#include "backend/cpu/jit/compile_c.h"
#include "backend/cpu/jit/kernel_chain.h"
#include "base/host/thread_pool.h"
#include "emit/kernel_emit.h"

#include <stdatomic.h>

/* The layout that emitted code knows as k_dispatch. */
typedef struct {
    void *const *data;
    const uint32_t *count; /* of kernels of groups never read: their buffers have fixed lengths */
    uint32_t grid[3], lanes;
    const void *sizes; /* of general code (general_code.h): its arguments */
} flxi_native_args;

typedef struct {
    void (*run)(const flxi_native_args *d, uint64_t begin, uint64_t end, unsigned char *scratch, uint32_t *status);
    const void *sizes;  /* for its arguments */
    size_t scratch;     /* bytes for each thread that runs it */
    const char *scalar; /* why it works on one invocation at a time; NULL: in vectors */
    bool is_ordered;    /* its result depends on the order of workgroups */
} flxi_native;

typedef struct flxi_native_code flxi_native_code; /* what holds the functions */

typedef struct {
    flxi_c_level level;
    unsigned flags;       /* of compile_c.h */
    bool is_scalar;       /* text without vector types */
    const char *dump_dir; /* a folder: the text of each file is written to kernels_0.c, kernels_1.c … there; or NULL */
} flxi_native_options;

typedef struct {
    flx_kernel *const *kernels;
    const bool *is_call; /* by kernel: as flx_kernel_run() has it; NULL: none is */
    size_t n;
    flxi_chain_code *chains; /* of these kernels */
    size_t num_chains;
} flxi_native_program;

/* Files are compiled at the same time. */
enum { FLXI_NATIVE_FILES = 16 };
size_t flxi_native_files(size_t kernels); /* how many to make */

/* Adds kernel i to a file. */
flx_code flxi_native_write(flxi_kfile *file, const flxi_native_program *p, size_t i, const flxi_native_options *o,
                           flxi_kentry *entry, const char **scalar, flx_error *err);

/* The text of all kernels, in one file. `scalar` has room for n: see flxi_native; or is NULL. */
flx_code flxi_native_text(const flxi_native_program *p, const flxi_native_options *o, flxi_strbuf *out,
                          flxi_kentry *entries, const char **scalar, flx_error *err);

/* Compiles the kernels and chains; `out` has room for as many as there are kernels. IO when the text cannot be written
   to dump_dir. */
flx_code flxi_native_build(flxi_compile_service *s, const flxi_native_program *p, const flxi_native_options *o,
                           flxi_native *out, flxi_native_code **code, flx_error *err);
void flxi_native_free(flxi_native_code *code); /* NULL is fine */

/* Runs all workgroups of a kernel, on the threads of the pool (NULL: on the caller), in pieces between which it can be
   stopped. `work`: elements that all of them touch. `scratch` has room for each thread. */
void flxi_native_run(const flxi_native *k, const flxi_native_args *args, int64_t work, flxi_pool *pool,
                     unsigned char *scratch);

/* The same for a kernel of the user: in order if it has to be; `status` receives the KSTATUS words of the first
   workgroup that trapped. Ends early when the run is stopped. */
void flxi_native_call(const flxi_native *k, const flxi_native_args *args, flxi_pool *pool, unsigned char *scratch,
                      uint32_t *status);

#endif
