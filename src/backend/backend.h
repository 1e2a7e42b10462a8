/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h: what a device can do. Programs (src/compile) and their runs (src/runtime) know devices by this interface
   only; no folder but the device's own includes the device's headers. The table of devices is devices.def.

   Compiling. The compiler makes kernels of groups of nodes and asks the device about each: it accepts the kernel or
   refuses it with a reason, and then the group's nodes are taken one by one. A node that is in no group is offered too:
   the device may have a way of its own to compute it (a route). What it refuses is computed on the host by the
   reference evaluator. A routine whose steps are all the device's own is offered as a chain, which the device may run
   as one unit, with the loop around it if it is the body of a scan. Then all kernels and accepted chains of a program
   are compiled in one call. What the device makes is known to programs as `const void *code` only.

   Running. A run orders its steps by a queue of the device: threads, a stream, or nothing. Several runs may use one
   queue at the same time. Steps may run asynchronously as long as they take effect in the order of the calls; finish()
   waits for all of them. Tables of addresses that a call passes may change when it has returned. Memory is addresses
   that the device gave out, with which the caller may do arithmetic. The host reads and writes what is there only if
   `uses_host_memory`; otherwise everything goes through copy().

   Stopping. Long steps of a device that computes on the host poll the stop of the thread (base/host/stop.h), and those
   of others between pieces; what a stopped step has written is not used. */
#ifndef FLXI_BACKEND_H
#define FLXI_BACKEND_H

#include "graph/op/op.h"
#include "kernel/interpret/kernel_run.h"

#include <fluxion/exec.h>
#include <fluxion/run.h>
#include <stdatomic.h>

typedef struct flxi_device flxi_device;
typedef struct flxi_queue flxi_queue;             /* the device's own; NULL: it needs none */
typedef struct flxi_device_code flxi_device_code; /* the device's own: what it compiled for a program */
typedef struct flxi_sequence flxi_sequence;       /* the device's own: steps that were noted to be run again */

/* ---- Nodes that are computed one by one ---- */

/* A node by its op, attributes and types, which are static. */
typedef struct {
    flx_context *ctx;
    flxi_opcode op;
    const void *attrs;
    uint32_t nin, nout;
    const flx_type *const *in_types;
    const flx_type *const *out_types;
    const char *label;                /* the node's name, for messages; or NULL */
    const struct flxi_origin *origin; /* the node it was made for, for messages; or NULL */
    bool is_fast;                     /* the last bits of its results may differ between runs: FLX_COMPILE_FAST */
} flxi_device_node;

/* How the device computes a node. */
typedef struct {
    const void *code;   /* the device's own; NULL: it does not compute the node */
    const char *name;   /* for reports */
    size_t scratch;     /* bytes of device memory that a run needs beside operands and results */
    size_t table_bytes; /* bytes of a table that depends on types and attributes alone; prepare_node() fills it */
    const void *table;  /* on the host, aligned to 64 bytes, owned by the caller */
    struct {
        const char *name, *why;
    } refused[4]; /* ways that the device has for the op but that do not apply here */
    int num_refused;
    bool is_small;     /* the reference evaluator is the fastest way for so few elements */
    bool is_in_place;  /* result 0 may be in the memory of operand 0, which has the same type */
    bool is_preferred; /* to a kernel */
    bool calls_bodies; /* it runs the node's bodies: they are routines of the step, whose memory follows the scratch */
} flxi_node_way;

/* ---- Kernels ---- */

/* A kernel of a program after compiling. */
typedef struct {
    const void *code;
    size_t scratch;     /* bytes of device memory that a run needs, for all threads together */
    const char *scalar; /* why it computes one invocation at a time; NULL: it does not */
    bool is_watched;    /* a call that waits for what the kernel says about itself */
} flxi_kernel_code;

/* The form of kernels that are made of groups of nodes, where it is not the one for the vectors of a CPU. */
typedef struct {
    uint32_t lanes;      /* of a subgroup: they fold rows of at least as many elements together */
    uint32_t rows;       /* that a workgroup has at most, a subgroup for each: a power of two */
    uint32_t width;      /* of maps, and of the workgroups that have a long row alone */
    int64_t long_row;    /* elements of such a row … */
    int64_t fewer_rows;  /* … or a quarter of that, where there are fewer rows than this */
    int64_t across;      /* rows that are not contiguous, where there are fewer, have several invocations each */
    int64_t longest_row; /* elements of a row that has four times as wide a workgroup */
    uint32_t vector;     /* bytes of neighbouring elements that an invocation has … */
    int64_t large_map;   /* … in maps with at least as many elements */
    int64_t held_bytes;  /* of memory of a workgroup, for operands of a row alone */
} flxi_kernel_form;

/* ---- Chains ---- */

/* CHAIN_FOREIGN: control flow, or a node that the host computes. No device accepts a chain with one. */
typedef enum { CHAIN_KERNEL, CHAIN_NODE, CHAIN_COPY, CHAIN_FOREIGN } flxi_chain_kind;

typedef struct {
    uint8_t kind;          /* a flxi_chain_kind */
    const uint32_t *slots; /* of a kernel by buffer; of a node operands, then results; of a copy from, to */
    uint32_t num_slots;
    int64_t work;            /* elements that it touches */
    uint32_t kernel;         /* CHAIN_KERNEL: its number in the program … */
    const flx_kernel *text;  /* … the kernel … */
    uint32_t grid[3], lanes; /* … and its dispatch */
    flxi_device_node node;   /* CHAIN_NODE … */
    const void *code;        /* … and the way in which it is computed */
    size_t nbytes;           /* CHAIN_COPY */
    const char *called;      /* set by a device that refuses the chain because of this step: why; else NULL */
} flxi_chain_step;

/* A slot of the body, and which operand or result of the scan it is: operands first. */
typedef struct {
    uint32_t slot, value;
} flxi_chain_link;

/* The loop of a scan around its body. */
typedef struct {
    const flxi_chain_link *rows, *shared; /* what moves from step to step, and what does not */
    uint32_t num_rows, num_shared;
    const uint32_t *carry_in, *carry_out; /* slots; FLXI_NO_SLOT: the body does not read the carry */
    uint32_t num_carries;
} flxi_chain_loop;

#define FLXI_NO_SLOT UINT32_MAX

typedef struct {
    flxi_chain_step *steps; /* in order */
    uint32_t n;
    const size_t *slot_bytes; /* by slot */
    uint32_t num_slots;
    const flxi_chain_loop *loop; /* of the body of a scan, or NULL */
    int threads;                 /* that the steps may use */
    const void *code;            /* set by compile(): runs all steps; NULL: they run one by one */
} flxi_chain;

/* Where a slot is in step t of a loop: at + t * step. */
typedef struct {
    unsigned char *at;
    int64_t step;
} flxi_loop_row;

/* A carry is read where the previous step wrote it. It is written to the rows of a trajectory, or to two buffers
   alternately. */
typedef struct {
    const unsigned char *in;
    unsigned char *buffer[2]; /* both the first row of a trajectory … */
    int64_t step;             /* … whose rows are this far apart; 0: there is none */
} flxi_loop_carry;

/* The examples of a scan may be cut into parts, which are independent of each other. */
typedef struct {
    void **at; /* by slot of the body */
    flxi_loop_row *rows;
    flxi_loop_carry *carries;
} flxi_loop_part;

/* ---- Compiling ---- */

typedef struct flxi_compile_request flxi_compile_request;

struct flxi_compile_request {
    flx_context *ctx;
    flx_kernel *const *kernels;
    const bool *is_call;  /* by kernel: a user wrote it, and it means what the interpreter says, to the bit */
    const bool *is_apart; /* likewise: nothing that it writes is in the memory of what it reads; NULL: not known */
    size_t num_kernels;
    flxi_chain *const *chains; /* that the device accepted */
    size_t num_chains;
    int threads;                        /* that runs use at most */
    const flx_compile_options *options; /* optimisation, cache, dump_dir and FLX_COMPILE_SCALAR */
    bool *is_slow;                      /* set when something is slower than it should be, which the log then has */
    /* The same program for other extents of its symbolic dimensions, the i-th that there is, or NULL: a device may
       learn from them how to make code that serves all extents. NULL: code for these extents alone is wanted. */
    flx_code (*sample)(void *user, size_t i, const flxi_compile_request **out, flx_error *err);
    void *sample_user;
};

/* ---- Running ---- */

/* What all steps of a run share. */
typedef struct {
    flx_context *ctx;
    flxi_queue *queue;
    bool is_large;        /* some step is worth more than one thread */
    int64_t min_parallel; /* elements from which on a step is; 0: the device's own number */
    uint32_t *status;     /* FLX_RUN_… of fluxion/run.h; or NULL */
    flx_error *err;
} flxi_device_run;

typedef struct {
    const void *code;  /* of flxi_kernel_code */
    void *const *data; /* by buffer */
    uint32_t grid[3], lanes;
    int64_t work;
    void *scratch;
} flxi_kernel_step;

/* A dispatch of a user's kernel. Its memory is bound and initialised. */
typedef struct {
    const void *code; /* of flxi_kernel_code */
    const flx_kernel *kernel;
    void *const *data;     /* by buffer */
    const uint32_t *count; /* elements, likewise */
    uint32_t grid[3];
    int64_t work;
    void *scratch;
} flxi_call_step;

typedef struct {
    const flxi_device_node *node;
    const flxi_node_way *way;
    const void *const *in;
    void *const *out;
    void *scratch;
} flxi_node_step;

typedef struct {
    void *at;     /* aligned to 64 bytes; its bytes are zero at first */
    void *handle; /* the device's own */
    size_t nbytes;
} flxi_device_memory;

typedef enum { COPY_WITHIN, COPY_TO_DEVICE, COPY_TO_HOST } flxi_copy_kind;

/* ---- The device ---- */

/* A line of text about a device, into `size` bytes. */
typedef struct {
    const char *name;
    void (*write)(char *text, size_t size);
} flxi_device_fact;

struct flxi_device {
    const char *name;
    const char *about; /* one line for people */

    /* Why nothing can run there on this machine; NULL: it can. Not there: it always can. */
    const char *(*why_missing)(void);

    /* For `flx devices`. */
    const char *no_graphs;         /* why it runs no graphs; NULL: it does, by run_graph or by compile */
    const flxi_device_fact *facts; /* ended by {0}; NULL: none */
    bool (*route)(size_t i, const char **op, const char **name); /* the i-th way for nodes; NULL: none */

    /* A kernel of the user; NULL: it runs none. checks_kernels: it detects races, checks arithmetic and has
       schedules. */
    flx_code (*run_dispatch)(const flxi_kdispatch *d, flx_error *err);
    bool checks_kernels;

    /* A graph of static types as it is, on tensors of the host; NULL: graphs are compiled to programs. `out` receives a
       new reference for each output. */
    flx_code (*run_graph)(const flx_graph *g, const flx_run_options *options, const flx_tensor *const *in,
                          flx_tensor **out, flx_error *err);

    /* Everything below is there if `compile` is; members that may be NULL say so. */

    const flxi_kernel_form *form; /* NULL: vectors of a CPU */
    bool has_scalar_rows;         /* … but it has none: rows that are not long are walked by one invocation each */
    int64_t free_extents[2];      /* stand for any extent: the form of a program must not follow from them. 0: none */

    /* Accepting. A reason means no. */
    const char *(*refuse_kernel)(const flx_kernel *k); /* NULL: it takes all */
    /* Whether compile() will take the kernel; asked only after it has failed with KERNEL or INTERNAL, to find out which
       kernel is the reason. NULL: it takes all. */
    flx_code (*check_kernel)(const flx_kernel *k, flx_error *err);
    /* A kernel of the user as a node of a graph; an error says why the device does not take it. NULL: it takes none.
       Without host memory it needs clear(). */
    flx_code (*check_call)(const flx_kernel *k, flx_error *err);
    void (*accept_node)(const flxi_device_node *n, int threads, flxi_node_way *way);
    flx_code (*prepare_node)(const flxi_device_node *n, const flxi_node_way *way, void *table,
                             const flxi_allocator *mem, flx_error *err); /* only if table_bytes is ever set */
    bool (*accept_chain)(flxi_chain *c, const flx_compile_options *o);   /* NULL: never */

    /* Compiling. `kernels` has room for each of the request. DEVICE when the device cannot compile at the moment; the
       program is then made without kernels. */
    flx_code (*compile)(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **code,
                        flx_error *err);
    void (*free_code)(flxi_device_code *code); /* NULL is fine; NULL: there is nothing to free */
    /* Kernels as source text; NULL: the device has none. */
    flx_code (*write_source)(const flxi_compile_request *q, flxi_strbuf *out, flx_error *err);

    /* Threads and queues. `threads`: as in flx_compile_options, 0 for the device's choice. NULL: always one. */
    int (*count_threads)(flx_context *ctx, int threads);
    flx_code (*open_queue)(flx_context *ctx, int threads, flxi_queue **out, flx_error *err);
    void (*close_queue)(flxi_queue *queue); /* NULL is fine */
    int64_t min_parallel;                   /* steps with fewer elements run on one thread */
    int loop_parts; /* that the examples of a loop are cut into at most; 0: as many as there are threads */

    /* Memory. */
    bool uses_host_memory;
    flx_code (*allocate)(flx_context *ctx, size_t nbytes, flxi_device_memory *out, flx_error *err);
    void (*release)(flx_context *ctx, flxi_device_memory *m); /* zeroes are fine */
    /* It returns when the bytes have arrived in the host's memory, or have been taken from there: then they arrive
       before the next step. */
    flx_code (*copy)(const flxi_device_run *r, void *to, const void *from, size_t nbytes, flxi_copy_kind kind);

    /* Zeros; may be NULL if it uses host memory. */
    flx_code (*clear)(const flxi_device_run *r, void *to, size_t nbytes);

    /* Steps, between begin and end; both may be NULL. finish() waits for all steps so far; NULL: a step has ended when
       its function returns. */
    void (*begin)(const flxi_device_run *r);
    void (*end)(const flxi_device_run *r);
    flx_code (*finish)(const flxi_device_run *r);
    flx_code (*run_kernel)(const flxi_device_run *r, const flxi_kernel_step *s);
    flx_code (*run_call)(const flxi_device_run *r, const flxi_call_step *s); /* if check_call is there */
    flx_code (*run_node)(const flxi_device_run *r, const flxi_node_step *s);
    /* `at`: by slot. NULL: the device accepts no chains without a loop, and runs none outside of it. */
    flx_code (*run_chain)(const flxi_device_run *r, const flxi_chain *c, void *const *at);
    /* All steps of a loop for all parts. A cancelled run may return before the end. */
    flx_code (*run_loop)(const flxi_device_run *r, const flxi_chain *c, const flxi_loop_part *parts, uint32_t num_parts,
                         int64_t length);
    /* Steps that are noted and run again as one. note() gives a queue whose steps are noted instead of run, with their
       addresses; copies to and from the host are not among them. end_note() closes that queue in any case, and gives
       the sequence unless `out` is NULL. They have run before, so nothing has to be prepared. NULL: never. */
    flx_code (*note)(const flxi_device_run *r, flxi_queue **out);
    /* What is noted from here on is piece i, counted from 0 and in order. It may begin when the pieces `after` and all
       that they come after have ended, and run beside others. NULL, or before the first call: one after the other. */
    flx_code (*note_piece)(const flxi_device_run *r, uint32_t i, const uint32_t *after, uint32_t num_after);
    flx_code (*end_note)(const flxi_device_run *r, flxi_queue *queue, flxi_sequence **out);
    flx_code (*run_sequence)(const flxi_device_run *r, flxi_sequence *s);
    void (*free_sequence)(flxi_sequence *s); /* NULL is fine */
    /* Calls fn for 0 … count - 1, in any order, at the same time where the queue has threads, and returns when all have
       returned. Steps that fn runs use no queue. NULL: never. */
    void (*run_apart)(const flxi_device_run *r, int64_t count, void (*fn)(void *user, int64_t i), void *user);
};

#endif
