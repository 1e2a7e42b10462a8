/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/exec.h: compiling a graph once and running it many times.

   An executable holds machine code, constants and parameters. Any number of threads may run one at the same time; each
   run works in memory of its own, which is kept for the next. Symbolic dimensions take their extents from the values of
   a run. The machine code takes extents as arguments, so that a new set of extents needs no compiler. Loops whose
   steps depend on the extents are faster with code for one set alone: it is made in the background for sets whose runs
   take long in total, and computes the same bits. */
#ifndef FLUXION_EXEC_H
#define FLUXION_EXEC_H

#include <fluxion/lower.h>
#include <fluxion/run.h>
#include <fluxion/text.h>

FLX_BEGIN_DECLS

typedef struct flx_exec flx_exec;

/* Flags of flx_compile_options. */
enum {
    FLX_COMPILE_UNGROUPED = 1,  /* every op is a kernel of its own */
    FLX_COMPILE_INTERPRET = 2,  /* no compiler is started: routes and the reference evaluator compute everything */
    FLX_COMPILE_SCALAR = 4,     /* the emitted C has no vector types */
    FLX_COMPILE_BACKGROUND = 8, /* begins as with FLX_COMPILE_INTERPRET, while a thread compiles: flx_exec_is_ready() */
    FLX_COMPILE_FLUSH = 16,     /* subnormal operands and results are flushed to zero during a run, except on threads of
                                   a BLAS: faster where they are frequent. x86 only, no effect elsewhere */
    FLX_COMPILE_ATOMIC = 32,    /* inputs whose memory an output shares are overwritten last, by steps that cannot fail:
                                   a run that fails leaves them as they were */
    FLX_COMPILE_SPECIALISE = 64, /* extents that are found when running are compiled separately at once, instead of
                                    sharing their machine code: the compiler runs for each */
    FLX_COMPILE_GENERAL = 128,   /* the machine code for the extents of `dims` serves others too: for a program that
                                    runs few times, whose extents are different the next time */
    FLX_COMPILE_FAST = 512,      /* the last bits of results may differ between runs where that is faster: of the
                                    gradient of attention on the device cuda */
    FLX_COMPILE_LAZY = 256       /* a small graph begins as with FLX_COMPILE_INTERPRET, ready in milliseconds; once its
                                    runs have taken longer than a compiler would, one starts in the background.
                                    Others are compiled at once; with FLX_COMPILE_BACKGROUND all graphs begin so */
};

typedef enum flx_cache_mode {
    FLX_CACHE_ON = 0,
    FLX_CACHE_READ_ONLY = 1,
    FLX_CACHE_OFF = 2
} flx_cache_mode; /* $FLX_CACHE (on, read-only, off) overrides it */

typedef struct flx_share { /* by position */
    size_t input, output;
} flx_share;

typedef struct flx_compile_options {
    uint32_t struct_size;        /* sizeof(flx_compile_options); 0: the layout of version 0.2 */
    uint32_t flags;              /* FLX_COMPILE_… */
    const char *device;          /* NULL: $FLX_DEVICE, or "cpu" where that compiles no graphs */
    int32_t threads;             /* 0: one for each core; results do not depend on it */
    int32_t optimisation;        /* of the C compiler: 0 usual, 1 … 4 for -O0 … -O3 */
    int32_t cache;               /* a flx_cache_mode */
    int32_t reserved;            /* 0 */
    const char *cache_dir;       /* NULL: $FLX_CACHE_DIR, else the user's cache folder */
    const char *dump_dir;        /* emitted text is written there; NULL: nowhere */
    const flx_dim_binding *dims; /* extents of symbolic dimensions that are known already */
    size_t num_dims;
    const flx_share *shares; /* inputs and outputs that should share memory where that is safe */
    size_t num_shares;
    const char *record_path; /* a run that fails is recorded there, as by flx_exec_record(); NULL: nowhere */
    flx_stop *stop;          /* NULL, or ends the compilation when it is set; used by flx_compile() alone */
    double time_limit;       /* seconds after which each compilation ends with TIMEOUT; 0: none. One in the background
                                leaves the executable as it is */
    int64_t memory_limit;    /* bytes that one run may work in, else compiling fails with SIZE, and bytes of the address
                                space of the C compiler where it is less; 0: the context's limit, and 8 GiB */
    size_t guard;            /* 1 + the position of an output, a real scalar: if it is not finite, a run fails with
                                NUMERIC, with FLX_COMPILE_ATOMIC before it overwrites an input; 0: none */
    int64_t memory_budget;   /* bytes that one run may work in: steps are put into an order that needs less, and values
                                are computed again instead of kept, until the plan fits; bits do not change. SIZE when
                                that is not enough, with the least that is. Extents are compiled separately. 0: none */
} flx_compile_options;

/** Compiles a graph. A graph without symbolic dimensions (or with all of them bound by options->dims) is compiled at
    once, others when they are first run. Without a working C compiler everything is computed as with
    FLX_COMPILE_INTERPRET, and the report says so. The graph may be released afterwards. NULL on failure; free the
    result with flx_exec_free(). */
FLX_API flx_exec *flx_compile(const flx_graph *g, const flx_compile_options *options, flx_error *err);
/** NULL is fine; no run may be active. A compiler in the background is ended. */
FLX_API void flx_exec_free(flx_exec *e);

/** Whether nothing is being compiled in the background: 1 without FLX_COMPILE_BACKGROUND. Runs that begin later use the
    compiled program. Results may differ between the two in the last bits, as they may between devices. */
FLX_API int flx_exec_is_ready(const flx_exec *e);
/** Waits until then. An error gives the reason why compiling failed; the executable runs anyway, without machine code.
    */
FLX_API flx_code flx_exec_wait_ready(flx_exec *e, flx_error *err);

/** Runs on values given by name, as flx_run() does; parameters that were set need not be given. */
FLX_API flx_code flx_exec_run(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                              flx_tensor **outputs, flx_error *err);

/** Runs on memory of the caller, by position: inputs and parameters in the order of their declaration, then outputs.
    Symbolic dimensions must have extents, from flx_compile_options.dims or the options of the run. Nothing is copied
    and nothing is allocated after the first run, except by ops that only the reference evaluator knows. Elements are
    dense, row-major and aligned as in an array of their C type. Outputs overlap neither inputs nor each other, unless
    flx_exec_may_share() allows it. Memory that breaks these rules is USAGE; overlaps are found where the number of
    outputs times that of inputs and outputs is at most 512. A parameter that was set may be NULL. */
FLX_API flx_code flx_exec_run_at(flx_exec *e, const void *const *inputs, void *const *outputs, flx_error *err);

/** The same with options: flags, print, dims, status, stop, time_limit and memory_limit are used. Where dims are given,
    the first run of a set of extents prepares it, and later ones allocate nothing. */
FLX_API flx_code flx_exec_run_at_with(flx_exec *e, const flx_run_options *options, const void *const *inputs,
                                      void *const *outputs, flx_error *err);

/** Copies the outputs that the last run left on the device (flx_run_options.left_outputs) to the addresses that it was
    given. No run may be active. */
FLX_API flx_code flx_exec_fetch(flx_exec *e, flx_error *err);
/** 1 if flx_exec_run_at() may be given the same memory for this input and this output, by position: the output then
    overwrites the input. 0 when it may not, or types are not static. Any number of pairs may share at once. Listing the
    pairs in flx_compile_options.shares makes sharing possible more often. */
FLX_API int flx_exec_may_share(const flx_exec *e, size_t input, size_t output);
/** The same for runs with the extents options->dims, which are prepared if they are new; *may receives the answer. */
FLX_API flx_code flx_exec_may_share_at(flx_exec *e, const flx_run_options *options, size_t input, size_t output,
                                       int *may, flx_error *err);

/** Keeps a copy of a parameter's value for all later runs. NAME when there is no such parameter, DTYPE or SHAPE when
    the value does not fit. No run may be active. */
FLX_API flx_code flx_exec_set_param(flx_exec *e, const char *name, const flx_tensor *value, flx_error *err);
/** Makes all later runs read this tensor as the parameter, without a copy: what is written to its elements between
    runs, such as by a trainer, is seen. The executable holds the tensor. Errors are those of flx_exec_set_param(). */
FLX_API flx_code flx_exec_share_param(flx_exec *e, const char *name, flx_tensor *value, flx_error *err);
/** The name of parameter i of the graph, counted without its inputs; NULL when out of range. */
FLX_API const char *flx_exec_param_name(const flx_exec *e, size_t i);
/** The value of a parameter, which the caller releases; NULL when it was not set. */
FLX_API flx_tensor *flx_exec_param(const flx_exec *e, const char *name);

/* ---- Asynchronous runs ---- */

typedef struct flx_job flx_job;

/** Starts a run like flx_exec_run() on a thread of its own. Any number of jobs of one executable may be active at once.
    Feeds are held and names copied; *options->status and what options->print uses must live until the job is waited
    for, and print is called on the job's thread. NULL with an error when the run cannot be started. Free with
    flx_job_free(), before the executable. */
FLX_API flx_job *flx_exec_start(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                                flx_error *err);
FLX_API int flx_job_is_done(const flx_job *j);
/** Waits for the end of the run and returns its outputs, once, or what it failed with. One thread may wait for a
    job. */
FLX_API flx_code flx_job_wait(flx_job *j, flx_tensor **outputs, flx_error *err);
/** Asks the run to end, which it does within milliseconds, also inside of a long step or while it compiles; it then
    fails with CANCELLED. A run that has finished is not changed. Any thread may call it. */
FLX_API void flx_job_cancel(flx_job *j);
FLX_API void flx_job_free(flx_job *j); /* NULL is fine; cancels and waits for the end */

/* ---- What an executable is made of ---- */

/** Bytes that one run works in, in addition to inputs, parameters, constants and outputs; 0 before a graph with
    symbolic dimensions has been run. Known before running: no run of these extents takes more. The memory is allocated
    by the first run, once for each run that is active at the same time; where it is larger than the context's
    memory_limit, runs fail with SIZE. */
FLX_API size_t flx_exec_memory(const flx_exec *e);

/* What a run works in, and what a budget costs. */
typedef struct flx_memory_plan {
    uint32_t struct_size; /* sizeof(flx_memory_plan) */
    uint32_t recomputed;  /* how many values are computed again because of the budget */
    uint64_t bytes;       /* as flx_exec_memory() */
    uint64_t usual_bytes; /* what it would be without a budget */
    int64_t flops;        /* floating-point operations of a run that the budget adds, as far as ops tell them */
} flx_memory_plan;

/** Fills `out` for the extents that were compiled last; zeroes before there are any. USAGE for a size that no layout
    has. */
FLX_API flx_code flx_exec_memory_plan(const flx_exec *e, flx_memory_plan *out, flx_error *err);

/** Which kernel, route or evaluator computes each op, what it reads and writes, and why no better way was taken, as
    text. */
FLX_API flx_code flx_exec_report(const flx_exec *e, flx_buffer *out, flx_error *err);

/* A step of a run. Texts live as long as the executable. */
typedef struct flx_step {
    const char *kind;     /* kernel, route, evaluate, copy, scan, while or branch; emitted: no kernel, but part of the
                             function that the steps of its routine are compiled to */
    const char *name;     /* of the kernel, or of the op with its route */
    const char *routine;  /* the graph that it is a step of */
    const char *computes; /* nodes, each by its op and its name, separated by commas */
    const char *why;      /* why no better way was taken; "" when there is nothing to say */
    int32_t depth;        /* 0, or how deep inside loops and branches */
    int32_t reserved;
    int64_t bytes; /* that one run reads and writes at least */
    int64_t flops; /* of one run at least; 0: none, or not known */
} flx_step;

/** Step i, each before those of its bodies; of the extents that were compiled last. NAME when there is none. */
FLX_API flx_code flx_exec_step(const flx_exec *e, size_t i, flx_step *out);

/* What a step of a run took. */
typedef struct flx_step_time {
    const char *name; /* of the kernel, route or op; lives as long as the executable */
    int64_t runs;     /* how often it ran */
    int64_t time_ns;  /* in total */
    int64_t bytes;    /* that one run reads and writes at least */
    int64_t flops;    /* of one run at least; 0: none, or not known */
    int32_t depth;    /* 0, or how deep inside loops and branches, whose time includes it */
    int32_t reserved;
} flx_step_time;

/** Runs once like flx_exec_run() and writes the times of up to `capacity` steps, in the order of flx_exec_step();
    *count receives how many there are, which may be more. */
FLX_API flx_code flx_exec_profile(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                                  flx_tensor **outputs, flx_step_time *steps, size_t capacity, size_t *count,
                                  flx_error *err);

/* One time that a step ran. */
typedef struct flx_step_event {
    int64_t start_ns; /* since the first step began */
    int64_t time_ns;
    uint32_t step;   /* as in flx_exec_step() */
    uint32_t thread; /* 0, 1 …: differs only where the steps of a loop are independent and threads share them */
} flx_step_event;

/* What a traced run took; the lists are the caller's and may be NULL where their capacity is 0. */
typedef struct flx_run_trace {
    flx_step_time *steps;            /* times of each step, in the order of flx_exec_step() */
    size_t step_capacity, num_steps; /* how many fit, and how many there are, which may be more */
    flx_step_event *events;          /* in the order in which they ended: those inside of a loop before the loop */
    size_t event_capacity, num_events;
} flx_run_trace;

/** Runs once like flx_exec_profile() and also writes when each step ran. */
FLX_API flx_code flx_exec_trace(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                                flx_tensor **outputs, flx_run_trace *trace, flx_error *err);

/** The graph at a stage of compiling, as text: the graph itself, the graph after all passes, the steps with their
    memory, or the C that the kernels become. Symbolic dimensions must be bound by options->dims for the last two; where
    they are not, MIR is the graph as flx_lower() makes it. */
FLX_API flx_code flx_show_stage(const flx_graph *g, flx_stage stage, const flx_compile_options *options,
                                flx_buffer *out, flx_error *err);

FLX_END_DECLS
#endif
