/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/build.h: a graph as C text that needs nothing but a C compiler: no library, no allocation, no globals but
   constants, no functions of the C library but memcpy, memset and those of <math.h>.

   For a graph `mlp` the file has a type `mlp`, the function mlp_init() and, by what is asked for, mlp_run(), mlp_grad()
   and mlp_step(). docs/standalone.md shows the whole. The same graph and options give the same text. */
#ifndef FLUXION_BUILD_H
#define FLUXION_BUILD_H

#include <fluxion/train.h>

FLX_BEGIN_DECLS

/* Where parameters come from. */
typedef enum flx_build_params {
    FLX_BUILD_CALLER = 0, /* the caller sets the pointers of the model */
    FLX_BUILD_EMBED = 1,  /* they are arrays of the file, with the values of flx_build_options.values */
    FLX_BUILD_FILE = 2    /* a function finds them in a safetensors file in memory */
} flx_build_params;

/* How many threads compute a run. Results have the same bits for any number of threads. */
typedef enum flx_build_threads {
    FLX_BUILD_ONE_THREAD = 0,
    FLX_BUILD_PTHREADS = 1, /* a team of POSIX threads, between NAME_start() and NAME_stop() */
    FLX_BUILD_OPENMP = 2    /* those of OpenMP; one, where the compiler does not have it */
} flx_build_threads;

/* Flags of flx_build_options. */
enum {
    FLX_BUILD_GRAD = 1,   /* NAME_grad(): the loss (output 0) and its gradients with respect to all parameters */
    FLX_BUILD_TABLES = 2, /* functions take tables of pointers, to inputs and to outputs in order of declaration */
    FLX_BUILD_FUSED = 4   /* the machine has fused multiply-adds; with vectors of 32 and 64 bytes it always does */
};

typedef struct flx_build_options {
    uint32_t struct_size;        /* sizeof(flx_build_options); 0: the layout of version 0.2 */
    uint32_t flags;              /* FLX_BUILD_… */
    const char *name;            /* prefix of all names; NULL: that of the graph, `model` for `main` */
    const char *header;          /* name of the header that the file includes; NULL: the file has the declarations */
    int32_t params;              /* a flx_build_params */
    int32_t vector_bytes;        /* 16, 32 or 64: vectors of this size by extensions of gcc and clang; 0: plain C */
    const flx_params *values;    /* values of parameters, for FLX_BUILD_EMBED; NULL: none */
    const flx_dim_binding *dims; /* extents of symbolic dimensions; others, at most two, are arguments of functions */
    size_t num_dims;
    const flx_train_options *train; /* NULL: no NAME_step(); otherwise a training step with these options */
    int64_t memory_budget; /* bytes that the arena may have, as flx_compile_options.memory_budget; 0: no bound */
    int32_t threads;       /* a flx_build_threads */
    int32_t reserved;      /* 0 */
} flx_build_options;

/* What the model takes; where functions take extents: for extents of 1. */
typedef struct flx_build_sizes {
    uint32_t struct_size;   /* set by the caller */
    uint32_t num_functions; /* static functions: kernels and others */
    int64_t constant_bytes; /* of constants, embedded parameters included */
    int64_t arena_bytes;    /* of the memory that runs work in */
    int64_t memory_bytes;   /* what NAME_init() is given: the arena, and what training changes; at least 16 */
    int64_t flops;          /* of one call of each function: run, gradient, step together; one round of a while; with
                               those of integer products */
    int64_t text_bytes;     /* of the C file */
} flx_build_sizes;

/** Writes a graph as C. `header` and `sizes` may be NULL; where options->header is NULL, the header is empty. The
    caller frees the buffers. UNSUPPORTED when a node cannot be in such a file, which the error names; UNBOUND_DIM for a
    symbolic dimension that must have an extent; MISSING_INPUT when values of parameters to embed are missing; SIZE when
    the arena cannot be as small as the budget. */
FLX_API flx_code flx_build_c(const flx_graph *g, const flx_build_options *options, flx_buffer *source,
                             flx_buffer *header, flx_build_sizes *sizes, flx_error *err);

FLX_END_DECLS

#endif
