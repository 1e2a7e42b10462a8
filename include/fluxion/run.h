/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/run.h: running a graph once, and the devices that graphs run on. */
#ifndef FLUXION_RUN_H
#define FLUXION_RUN_H

#include <fluxion/stop.h>
#include <fluxion/tensor.h>

FLX_BEGIN_DECLS

typedef struct flx_feed {
    const char *name;
    const flx_tensor *value; /* must have the input's dtype and a shape that fits */
} flx_feed;

/* Called for each `print` op that runs, with its message and value. */
typedef void (*flx_print_fn)(void *user, const char *message, const flx_tensor *value);

/* Flags of flx_run_options. */
enum {
    FLX_RUN_CHECK_FINITE = 1 /* the first infinity or NaN that is computed fails the run with NUMERIC */
};

/* What a run reports in *flx_run_options.status. */
enum {
    FLX_RUN_LOOP_CUT = 1,  /* a `while` reached its max_iterations, or an equation is not solved to its tol */
    FLX_RUN_SINGULAR = 2,  /* a matrix was singular, or not positive definite: its part of the result is not finite */
    FLX_RUN_LIST_FULL = 4, /* a scene of splats has more entries than max_list_entries: some are not drawn */
    FLX_RUN_SLOW = 8,      /* on cpu: something was computed in a slower way than usual: no compiler works, or the
                              reference evaluator computes an op; the log (graph.h) and flx_exec_report() say why */
    FLX_RUN_UNSOLVED = 16  /* LOOP_CUT is set because of an equation; the log names it */
};

typedef struct flx_run_options {
    uint32_t struct_size; /* sizeof(flx_run_options); 0: the layout of version 0.2 */
    uint32_t flags;       /* FLX_RUN_CHECK_FINITE or 0 */
    const char *device;   /* NULL: $FLX_DEVICE or "cpu"; "cpu": compiled code (exec.h); "ref": by definition */
    flx_print_fn print;   /* NULL: `print` ops are silent */
    void *print_user;
    const flx_dim_binding *dims; /* extents of symbols that no input shows */
    size_t num_dims;
    uint32_t *status;     /* NULL, or receives what a run that succeeds has to report: FLX_RUN_…, 0 for nothing */
    flx_stop *stop;       /* NULL, or ends the run when it is set; it must outlive the run */
    double time_limit;    /* seconds after which the run ends with TIMEOUT; 0: none */
    int64_t memory_limit; /* bytes that the run may allocate, results included, else it fails with SIZE; 0: that of the
                             context */
    /* For flx_exec_run_at_with() on devices with memory of their own; others ignore them. By position, or NULL: */
    const uint8_t *kept_inputs;  /* not 0: at this address is what the last run of the executable read or, where an
                                    output has the address too, wrote there: it is on the device already */
    const uint8_t *left_outputs; /* not 0: stays on the device until flx_exec_fetch(), or until the next run */
} flx_run_options;

/** Runs `g` on the values given for its inputs and parameters, in any order. Symbolic dimensions take their extents
    from them and from options->dims. `outputs` has room for flx_graph_output_count(g) tensors; on success the caller
    releases each, on failure all are NULL. An output that is an input is the same tensor that was fed. Many threads may
    run one graph. On device cpu the context keeps what was compiled, and the memory of its runs, for the next run of an
    equal graph: up to sixteen of them; the least recently used are evicted first. flx_compile() (exec.h) gives control
    over it. */
FLX_API flx_code flx_run(const flx_graph *g, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                         flx_tensor **outputs, flx_error *err);

/** Name and state of device i ("ref"); FLX_OK if graphs can run on it, FLX_E_DEVICE if not, FLX_E_NAME when `i` is out
    of range. `detail` receives one line of text. */
FLX_API flx_code flx_device(size_t i, const char **name, char *detail, size_t size);

/** The name of the device that is used where none is given: $FLX_DEVICE, or "cpu" where that is unset or empty. It is
    not checked, and is valid until the environment changes. */
FLX_API const char *flx_device_default(void);

/** FLX_OK if graphs can run on the device of this name (NULL: the default). FLX_E_NAME: no device has this name.
    FLX_E_DEVICE: this build or this machine lacks it, or it runs no graphs. All functions that take a device report
    these two in the same words. */
FLX_API flx_code flx_device_check(const char *name, flx_error *err);

/** Fact k about device i: what it is about ("compiler") and a line of text; FLX_E_NAME after the last. With text NULL
    nothing is searched for. */
FLX_API flx_code flx_device_fact(size_t i, size_t k, const char **name, char *text, size_t size);

/** Route k of device i: hand-written code, or a library, that computes an op. The first of an op's routes that accepts
    the types is used, else a generated kernel. FLX_E_NAME after the last. */
FLX_API flx_code flx_device_route(size_t i, size_t k, const char **op, const char **route);

FLX_END_DECLS
#endif
