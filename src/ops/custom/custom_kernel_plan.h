/* SPDX-License-Identifier: Apache-2.0 */
/* custom_kernel_plan.h: a kernel_call of static types as a dispatch on the memory of its operands and results. What
   depends on types alone is decided once: which memory each buffer is, and what must be done before and after. */
#ifndef FLXI_CUSTOM_KERNEL_PLAN_H
#define FLXI_CUSTOM_KERNEL_PLAN_H

#include "graph/graph.h"
#include "graph/op/eval.h"
#include "ops/custom/custom_kernel.h"

/* Operands that the kernel only reads and results are used where they are. A buffer has memory of its own if the kernel
   writes to an operand that is not a result, if it is scratch, or if it holds bools, which are words in kernels and
   bytes in tensors. */
typedef struct {
    uint32_t operand, result; /* that it is; UINT32_MAX: none */
    bool is_ours;             /* it has memory of its own, at `offset` */
    bool is_bools;
    bool is_zeroed; /* before the run; else it starts as its operand */
    bool is_flag;   /* a word that is not zero is the number of trips that exceeded max_trips */
    uint32_t count; /* elements; 0 if `length` says it */
    size_t nbytes, offset;
    const char *length; /* of scratch whose length is known only when the kernel runs; else NULL */
} flxi_call_buffer;

typedef struct {
    flx_kernel *kernel; /* with the counts of the operands and results */
    uint32_t grid[3];
    const flxi_call_buffer *buffers; /* by number of the buffer - 1 */
    uint32_t num_buffers;
    uint32_t counts;   /* the operand that lengths refer to; UINT32_MAX: none */
    size_t num_counts; /* its elements */
    bool is_open;      /* some length is known only when the kernel runs */
    size_t own_bytes;  /* for all buffers with memory of their own and a known length */
} flxi_call_plan;

/* Whether the node is a kernel_call. */
bool flxi_is_kernel_call(const flxi_node *n);

/* The plan of a kernel_call, in `arena`; the caller releases its kernel. What the definition rejects fails here too:
   then the reference evaluator should have the word. */
flx_code flxi_call_plan_make(const flx_graph *g, const flxi_node *n, flxi_arena *arena, flxi_call_plan *p,
                             flx_error *err);

/* A run. */
typedef struct {
    const void *const *in;
    void *const *out;
    uint64_t consumed;  /* operands whose memory may be written to: a bit for each of the first 64 */
    unsigned char *own; /* own_bytes, aligned to 64 */
    void **data;        /* by buffer: set by flxi_call_begin() */
    uint32_t *count;    /* likewise */
    const flxi_allocator *mem;
    /* Where the host cannot reach the memory: how bytes are copied there (`from` NULL: zeros), and how they are read
       until the next call. Both NULL: it can. */
    flx_code (*move)(void *user, void *to, const void *from, size_t n);
    flx_code (*look)(void *user, const void *at, size_t n, const void **out);
    void *user;
    unsigned char *open; /* memory for lengths that were not known before; freed by flxi_call_end() */
    size_t open_bytes;
} flxi_call_run;

/* NULL, or why a run on memory that the host cannot reach is not possible. */
const char *flxi_call_needs_host(const flxi_call_plan *p);
/* Whether the host reads something of the kernel's when it is over. */
bool flxi_call_is_read(const flxi_call_plan *p);

flx_code flxi_call_begin(const flxi_call_plan *p, flxi_call_run *r, flxi_eval *e);
/* `code` and `why` are those of the dispatch. */
flx_code flxi_call_end(const flxi_call_plan *p, flxi_call_run *r, flxi_eval *e, flx_code code, const flx_error *why);

#endif
