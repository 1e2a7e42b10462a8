/* SPDX-License-Identifier: Apache-2.0 */
/* program.h: the last stage of a graph: steps in order, and memory for everything they read and write.

   A routine is one graph; bodies of control flow are routines of their own, which a step of the outer one runs. Each
   value that is in memory has a slot. Slots are parts of the arena, or memory of the caller (inputs, outputs), or
   constants. Nothing is decided after this stage: running a routine is walking its steps. What runs them is a device,
   of which programs know the interface only (backend/backend.h).

   Invariants, checked by flxi_routine_verify():
     (a) a slot is written by one step, before every step that reads it;
     (b) two slots whose ranges in the arena intersect are never alive at the same step, unless one took over the
         memory of the other in the step where that one died;
     (c) every range is inside the arena and aligned to 64 bytes;
     (d) every output has a slot that some step writes, and every input is one of the graph's. */
#ifndef FLXI_PROGRAM_H
#define FLXI_PROGRAM_H

#include "backend/backend.h"
#include "compile/group_kernel.h"
#include "compile/grouping.h"
#include "ops/custom/custom_kernel_plan.h"

#include <fluxion/exec.h>

typedef enum { SEGMENT_ARENA, SEGMENT_INPUT, SEGMENT_CONST, SEGMENT_OUTPUT } flxi_segment;

typedef struct {
    uint32_t value;  /* of the routine's graph */
    uint8_t segment; /* a flxi_segment */
    uint32_t index;  /* which input, or which output */
    size_t nbytes;
    size_t offset;       /* in the arena */
    uint32_t from, to;   /* the step that writes it, and the last that reads it */
    uint32_t taken_over; /* ARENA: the slot whose range it took over, + 1 */
    const void *data;    /* CONST */
} flxi_slot;

typedef enum {
    STEP_KERNEL,
    STEP_ROUTE,
    STEP_EVALUATE,
    STEP_COPY,
    STEP_SCAN,
    STEP_WHILE,
    STEP_BRANCH,
    STEP_CALL,
    STEP_DISPATCH /* a kernel of the user */
} flxi_step_kind;

typedef struct flxi_routine flxi_routine;
typedef struct flxi_program flxi_program;

typedef struct {
    uint8_t kind;                  /* a flxi_step_kind */
    uint32_t node;                 /* what it computes; of a kernel, the last node of its group */
    uint32_t group;                /* its number in the grouping */
    const uint32_t *slots;         /* operands, then results; of a kernel, by buffer */
    uint32_t num_slots, num_reads; /* kernels: buffers are in the order of the program, so num_reads means nothing */
    uint32_t kernel;               /* number in the program */
    uint32_t grid[3], lanes;
    int64_t work;                      /* elements it touches or computes: whether threads are worth it */
    size_t scratch, scratch_offset;    /* memory for the step alone: of kernels, routes and bodies */
    const flxi_device_node *described; /* of a node that was offered to the device */
    const flxi_node_way *way;          /* … and its answer */
    const flxi_call_plan *call;        /* STEP_DISPATCH; its kernel is the program's */
    uint64_t consumed;                 /* … operands whose memory it may write to: a bit for each of the first 64 */
    flxi_routine *const *bodies;
    uint32_t num_bodies;
    uint32_t parts;        /* of a scan: its body is for that many parts of the examples, which are independent */
    uint32_t workers;      /* of a scan without carries: that many threads run its steps, one each; 0: all do */
    const uint32_t *nodes; /* of a kernel: all that it computes */
    uint32_t num_nodes;
    uint32_t number;       /* in the program's list */
    const char *no_kernel; /* of a node whose kernel the device refused, or that could not be made: why; or NULL */
    bool is_defect;        /* … the latter, or the device refused what it should compile */
    uint32_t ends_before;  /* of an exchange that may run beside the steps after it: the first that must find it ended,
                              or the number of steps; 0: it ends with its own */
    uint32_t awaits;       /* the exchange that must have ended before this step, with all before it, + 1; 0: none */
    const char *called;    /* of a step because of which a loop is not a chain: why; or NULL */
    /* For people (explain_steps.c): */
    const char *name;     /* of the kernel, or of the op with its route */
    const char *computes; /* nodes by op and name */
    const char *why;      /* why no better way was taken, or "" */
    int64_t flops;        /* 0: none, or not known */
    int64_t bytes;        /* read and written at least */
} flxi_step;

struct flxi_routine {
    const flxi_program *program;
    uint32_t number;   /* in the program */
    uint32_t num_uses; /* steps that run it, and the program's list */
    bool is_offered, is_explained, is_planned;
    flx_graph *g; /* the graph that the slots and nodes are of; owned */
    flxi_arena arena;
    const flxi_position *positions; /* by node, of a graph with copies for the sake of memory; or NULL */
    flxi_slot *slots;
    uint32_t num_slots;
    uint32_t *slot_of; /* by value: number + 1; 0: not in memory */
    flxi_step *steps;
    uint32_t num_steps;
    uint32_t commit;   /* steps from here on overwrite inputs that share memory with outputs, and cannot fail; num_steps
                          unless FLX_COMPILE_ATOMIC */
    uint32_t *outputs; /* slots, by output */
    uint32_t *views;   /* nodes that no step computes: what reads them finds their elements in their operands */
    uint32_t num_views;
    flxi_chain *chain;  /* all steps as one unit of the device, once it has code; NULL: the device refused */
    uint32_t depth;     /* 0, or how deep inside loops, branches and calls, where it is met first */
    size_t arena_bytes; /* everything that a run of the routine needs, bodies included */
    size_t max_live;    /* what no plan can go below */
};

typedef struct {
    const flxi_routine *routine;
    uint32_t step;
} flxi_step_ref;

/* All routines of a program share their kernels. */
typedef struct {
    flx_kernel *kernel;
    uint64_t hash;
    bool is_call;               /* a user wrote it: see flxi_compile_request */
    flx_buffer wire;            /* what it is known by */
    const bool *reads_in_place; /* by buffer - 1: elements are read only by the invocation that writes the same one */
} flxi_program_kernel;

/* A body that other steps run in the same way is compiled once. */
typedef struct {
    flx_graph *body;  /* held */
    uint32_t carries; /* of the scan around it, + 1; 0: none */
    uint32_t shared;
    int threads;           /* that its steps may use */
    flxi_routine *routine; /* one use of it */
} flxi_shared_routine;

struct flxi_program {
    flx_context *ctx;
    const flxi_allocator *mem; /* NULL: there is no program */
    const flxi_device *device;
    flx_compile_options options; /* texts and lists are the caller's, and only there while it compiles */
    flxi_grouping_options grouping;
    int threads;
    char note[200];      /* why nothing was compiled to kernels although it was requested, or "" */
    bool checks_kernels; /* each kernel is checked alone before the device compiles them all */
    bool is_slow;        /* something is computed in a slower way than usual: runs say so in their status */
    bool lacks_chains;   /* the code is for all extents, which some chains cannot be: code for these alone is faster */
    flxi_arena arena;
    FLXI_VEC(flxi_program_kernel) kernels;
    flxi_index index;           /* of kernels by hash */
    flxi_kernel_code *compiled; /* by kernel, once they are */
    flxi_device_code *code;
    flxi_routine *main;
    size_t usual_bytes; /* what a run would take without a budget; 0: there is none */
    FLXI_VEC(flxi_shared_routine) routines;
    flxi_index routine_index; /* by the hash of the body */
    uint32_t num_routines;
    FLXI_VEC(flxi_step_ref) all_steps; /* all steps, each before those of its bodies */
};

/* graph → passes → groups → steps; bodies too. Takes a graph of static types. */
flx_code flxi_routine_compile(flxi_program *m, const flx_graph *g, flxi_routine **out, flx_error *err);
/* From a graph that went through the passes, which it takes over in any case; positions: of its nodes, or NULL. */
flx_code flxi_routine_build(flxi_program *m, flx_graph *g, const flxi_position *positions, flxi_routine **out,
                            flx_error *err);
/* Offsets in the arena; after the kernels' own scratch is known. */
flx_code flxi_routine_plan(flxi_program *m, flxi_routine *l, flx_error *err);
/* Whether the caller's memory for an output may be that of an input: the kernel that writes the one is the last that
   reads the other, and reads each element where it writes it. */
bool flxi_routine_may_share(const flxi_program *m, const flxi_routine *l, size_t input, size_t output);
/* Orders the steps so that less memory is in use at once, where much is; when all are listed. */
flx_code flxi_routine_order(flxi_routine *l, const flxi_allocator *mem, flx_error *err);
/* Finds the exchanges with other processes that may run beside other steps, and keeps their memory until they have
   ended; when all steps are listed. */
flx_code flxi_routine_overlap(flxi_routine *l, const flxi_allocator *mem, flx_error *err);
/* Says which step awaits which exchange; when steps are moved no more. */
void flxi_routine_await(flxi_routine *l);
/* Moves steps back so that these pairs may share where that is possible; before the arena is planned. */
void flxi_routine_share(const flxi_program *m, flxi_routine *l, const flx_share *pairs, size_t n);
flx_code flxi_routine_verify(const flxi_routine *l, flx_error *err);
/* Invariant (b) alone, in time that grows with the square of the number of slots: part of the former in debug
   builds. */
flx_code flxi_routine_verify_offsets(const flxi_routine *l, flx_error *err);
/* Ends one use of it. */
void flxi_routine_free(flxi_routine *l);
/* What is said about steps to people, bodies too, and the list of them all; after the kernels are compiled, if they
   are. */
flx_code flxi_routine_explain(flxi_program *m, flxi_routine *l, flx_error *err);

/* Whether the device takes the body of a scan, whose examples are cut into parts, as a chain with its loop
   (describe_chains.c). */
flx_code flxi_routine_is_loop_chain(flxi_program *m, const flxi_routine *l, const flxi_node *scan, bool *out,
                                    flx_error *err);
/* The chains that the device accepts; their routines know them. */
flx_code flxi_program_chains(flxi_program *m, flxi_chain ***chains, size_t *n, flx_error *err);

/* Whether the step, which is not a kernel, is part of the code of its routine's chain instead of a call. */
bool flxi_step_is_emitted(const flxi_routine *l, const flxi_step *s);

/* Whether the reference evaluator computes the step although machine code would be faster: not for effects, not where
   the work is in bodies that are routines, and not where the device prefers it. */
bool flxi_step_is_slow(const flxi_routine *l, const flxi_step *s);

/* Memory that the bodies of a step share: no two of them run at the same time. */
size_t flxi_step_body_bytes(const flxi_step *s);

/* Whether the step's k-th slot is written. */
bool flxi_step_writes(const flxi_program *m, const flxi_step *s, uint32_t k);
/* NUMERIC when something that the step wrote to its k-th slot is not finite; `data`: a host address of it. */
flx_code flxi_step_check_finite(const flxi_routine *l, const flxi_step *s, uint32_t k, const void *data,
                                flx_error *err);

/* ---- The whole (program.c) ---- */

/* An empty program for a device and with options; freed by flxi_program_free(). */
void flxi_program_init(flxi_program *m, flx_context *ctx, const flxi_device *device, const flx_compile_options *o);
/* Where a graph of static types comes from: the graph with symbolic dimensions, and their extents. */
typedef struct {
    const flx_graph *g;
    const flx_dim_binding *dims;
    size_t n;
} flxi_specialised_from;

/* From a graph of static types to a program that can run; without kernels if the device cannot compile at the moment,
   as the note then tells. `from`: machine code should serve other extents as well; NULL: these alone. Freed by
   flxi_program_free() in any case. */
flx_code flxi_program_compile(flxi_program *m, const flx_graph *g, const flxi_specialised_from *from,
                              const flxi_device *device, const flx_compile_options *o, flx_error *err);
void flxi_program_free(flxi_program *m); /* zeroes are fine */

/* The number of an equal kernel of the program, or of this group's, which is taken over in any case. */
flx_code flxi_program_keep(flxi_program *m, flxi_group_kernel *r, uint32_t *number, flx_error *err);
/* Lists of the program's kernels, in its arena. */
flx_code flxi_program_kernels(flxi_program *m, flxi_compile_request *q, flx_error *err);

const char *flxi_step_kind_name(const flxi_routine *l, const flxi_step *s);
/* The steps as text; explained: with what each computes, and why. */
void flxi_routine_print(const flxi_program *m, const flxi_routine *l, bool is_explained, flxi_strbuf *out);
void flxi_program_report(const flxi_program *m, flxi_strbuf *out);

#endif
