/* SPDX-License-Identifier: Apache-2.0 */
/* exec.h: executables, for the rest of the runtime. */
#ifndef FLXI_EXEC_H
#define FLXI_EXEC_H

#include "base/host/stop.h"
#include "compile/pipeline.h"
#include "runtime/feeds.h"
#include "runtime/run_steps.h"

#include <fluxion/exec.h>

/* ---- Variants (variant.c): the graph for one binding of its symbolic dimensions ---- */

/* How many an executable keeps; the least recently used is evicted when one more is wanted. More only while all are in
   use or pinned. */
enum { FLXI_MAX_VARIANTS = 64 };

/* A program and what its runs work in. States belong to the program they were made for. */
typedef struct {
    flxi_program program;
    FLXI_VEC(flxi_state *) states; /* that no run uses; guarded by the executable's lock */
} flxi_tier;

/* Memory that a caller gives to a run (caller_memory.h). */
typedef struct {
    size_t nbytes;
    uintptr_t low_bits; /* of an address: zero where it is aligned */
} flxi_span;

typedef struct {
    flx_exec *exec;
    int64_t *extents; /* by symbol of the graph */
    flx_graph *g;     /* with these extents: what inputs must be */
    flxi_span *spans; /* by leaf of g, then by output */
    flxi_tier first;  /* what runs at once */
    flxi_tier later;  /* what `thread` compiles meanwhile: FLX_COMPILE_BACKGROUND, or code for these extents alone */
    pthread_t thread;
    bool has_thread;
    bool is_lazy;    /* the first tier is without machine code, until its runs have taken long */
    bool is_general; /* the first tier has code for all extents, and a later one may have code for these alone */
    flx_stop stop;   /* of the thread */
    /* Guarded by the executable's lock: */
    flxi_tier *on;     /* which of the two new runs use */
    bool is_compiling; /* the thread is at work */
    flx_error failure; /* why there is no later tier although one was wanted */
    bool is_specialising;
    int64_t run_ns; /* that runs of the first tier took, where a later one may follow */
    uint32_t users; /* runs in progress */
    bool is_pinned; /* the caller has texts of its steps, which live as long as the executable */
    uint64_t last_use;
} flxi_variant;

struct flx_exec {
    flx_context *ctx;
    const flxi_allocator *mem;
    flx_graph *g;         /* a copy, without what no output needs */
    const char **symbols; /* of the graph that was compiled: all that a run may bind */
    size_t num_symbols;
    flx_compile_options options;
    flxi_arena arena; /* texts of the options */
    const flxi_device *device;
    flxi_queue *queue; /* that runs use */
    pthread_mutex_t lock;
    pthread_cond_t compiled;           /* a thread has finished compiling */
    FLXI_VEC(flxi_variant *) variants; /* the newest last */
    bool is_making;                    /* a thread compiles a variant, without the lock */
    bool is_fixing;                    /* flx_compile() is at work, for the extents of its options */
    uint64_t clock;                    /* counts uses of variants */
    flxi_variant *fixed;               /* what was compiled at once, or NULL; does not change and never goes */
    flx_tensor **params;               /* by leaf; NULL: not set */
    const flxi_state *last;            /* of the last run, on a device with memory of its own; it may be gone */
};

/* Made if it is new. One thread at a time compiles. It stays until flxi_variant_leave(). */
flx_code flxi_variant_for(flx_exec *e, const flx_dim_binding *b, size_t n, flxi_variant **out, flx_error *err);
void flxi_variant_leave(flxi_variant *v);
void flxi_variant_pin(flxi_variant *v);
size_t flxi_variant_memory(const flxi_variant *v); /* that a run works in */
bool flxi_variant_may_share(const flxi_variant *v, size_t input, size_t output);
/* The binding of this name, or NULL. */
const flx_dim_binding *flxi_binding_of(const flx_dim_binding *b, size_t n, const char *name);
void flxi_variant_free(flxi_variant *v); /* ends its thread */
flx_code flxi_variant_run(flxi_variant *v, const flxi_run_setup *setup, const void *const *in, void *const *out,
                          flx_error *err);
/* The program that runs of the newest variant use; NULL when nothing is compiled yet. Pins it, so that it lives as long
   as the executable. */
const flxi_program *flxi_exec_program(const flx_exec *e);
/* What runs worked in and the next will work in. */
size_t flxi_exec_held_bytes(const flx_exec *e);

/* ---- Options (exec.c) ---- */

/* All flags of flx_compile_options. */
enum {
    FLXI_COMPILE_FLAGS = FLX_COMPILE_UNGROUPED | FLX_COMPILE_INTERPRET | FLX_COMPILE_SCALAR | FLX_COMPILE_BACKGROUND |
                         FLX_COMPILE_FLUSH | FLX_COMPILE_ATOMIC | FLX_COMPILE_SPECIALISE | FLX_COMPILE_GENERAL |
                         FLX_COMPILE_LAZY | FLX_COMPILE_FAST
};

/* Reads and checks the options of compiling `g` that a user gave to `function`. */
flx_code flxi_compile_options_read(const char *function, const flx_graph *g, const flx_compile_options *given,
                                   flx_compile_options *o, flx_error *err);

/* ---- Running (exec.c) ---- */

/* How runs of this executable are set up. */
flxi_run_setup flxi_exec_setup(const flx_exec *e, const flx_run_options *options);
/* What a caller gives to a run. */
typedef struct {
    const flx_run_options *options;
    const flx_feed *feeds;
    size_t num_feeds;
    flx_tensor **outputs;
} flxi_run_call;

/* Checks what was given to `function` and reads its options to `out`; sets all outputs to NULL and the status to 0. */
flx_code flxi_exec_check_run(const char *function, const flx_exec *e, const flxi_run_call *c, flx_run_options *out,
                             flx_error *err);
flx_code flxi_exec_run_named(flx_exec *e, const flxi_run_setup *setup, const flx_feed *feeds, size_t num_feeds,
                             flx_tensor **outputs, flx_error *err);

/* flx_run() on a device that compiles (exec_cache.c): the executable is kept for the next time. */
flx_code flxi_run_compiled(const flx_graph *g, const flxi_device *device, const flxi_run_call *run, flx_error *err);

#endif
