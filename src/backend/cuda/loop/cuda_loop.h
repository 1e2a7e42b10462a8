/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_loop.h: the loop of a scan as one launch. Each part of the examples has a cluster of blocks of its own, which
   runs all steps of the body for all steps of the loop. Values that the body computes stay in the shared memory of
   every block: each block computes all elements of the kernels, and a share of the columns of the products, which it
   sends to the others. The weights of products stay in registers. So nothing waits for the memory of the card, and
   nothing for another cluster. */
#ifndef FLXI_CUDA_LOOP_H
#define FLXI_CUDA_LOOP_H

#include "backend/cuda/cuda_card.h"
#include "backend/cuda/cuda_product.h"

enum {
    FLXI_LOOP_PARTS = 32,  /* of the examples at most: clusters of four blocks then fill a card */
    FLXI_LOOP_SLOTS = 128, /* of a body … */
    FLXI_LOOP_STEPS = 64,
    FLXI_LOOP_LINES = 160, /* a launch has 4096 bytes of parameters */
    FLXI_LOOP_STAGES = 4,  /* steps of the loop whose rows are on their way or there: a power of two */
    FLXI_LOOP_ROWS = 16,   /* of a product at most, in each part */
};

/* Where a slot of the body is. */
typedef enum {
    LOOP_UNUSED,
    LOOP_GLOBAL,    /* in the card's memory, the same in every step */
    LOOP_ROW,       /* a row of a sequence that is read: copied to shared memory some steps ahead */
    LOOP_RESULT,    /* a row of a sequence that is written: two buffers that take turns, copied from there */
    LOOP_CARRY_IN,  /* what the step before wrote … */
    LOOP_CARRY_OUT, /* … and this one does: two buffers that take turns */
    LOOP_OWN,       /* what only the step itself needs */
} flxi_loop_kind;

typedef struct {
    uint8_t kind;      /* a flxi_loop_kind */
    uint32_t line;     /* of the parameters; of a carry: where it comes from, then its two buffers */
    uint32_t at, each; /* in shared memory, and bytes of each of the buffers there */
} flxi_loop_slot;

/* A product of the body, with its strides in elements: c[m, n] = sum over k of a[m, k] b[k, n]. */
typedef struct {
    uint32_t m, n, k;
    int32_t a_line, a_depth, b_line, b_depth;
} flxi_loop_product;

/* How the body of a loop is laid out; it follows from the chain alone. Lines are those of the rows, three for each
   carry, and those of global slots in order. */
typedef struct {
    flxi_loop_slot slots[FLXI_LOOP_SLOTS];
    flxi_loop_product products[FLXI_LOOP_STEPS]; /* by step, of those that are products */
    uint32_t num_lines, num_products;
    uint32_t exchange; /* in shared memory: what blocks send each other, two buffers for each product … */
    uint32_t barriers; /* … and as many barriers */
    uint32_t memory;   /* bytes of shared memory */
    uint32_t blocks, threads;
    bool holds_weights; /* in registers */
} flxi_loop_plan;

/* NULL, or why the loop is run step by step; then *step is the step that is the reason. */
const char *flxi_cuda_plan_loop(const flxi_chain *c, flxi_loop_plan *plan, uint32_t *step);

/* Whether the step writes its k-th slot. */
bool flxi_cuda_loop_writes(const flxi_chain_step *s, uint32_t k);

/* Whether two slots are in the same memory of a block, at different times. */
bool flxi_cuda_loop_overlaps(const flxi_loop_plan *p, uint32_t a, uint32_t b);

/* accept_chain of the interface. */
bool flxi_cuda_accept_loop(flxi_chain *c, const flx_compile_options *o);

/* The text of some loops, whose functions are "flxl_" and their numbers. */
flx_code flxi_cuda_write_loops(flxi_chain *const *chains, size_t n, flxi_strbuf *out, flx_error *err);

extern const char *const flxi_cuda_loop_helpers[]; /* texts that come before them, ended by NULL */

/* What a chain is compiled to. */
typedef struct {
    flxi_cu_function function;
    flxi_loop_plan plan;
} flxi_cuda_loop;

/* The function with that number of a module. */
flx_code flxi_cuda_find_loop(const flxi_card *card, flxi_cu_module module, size_t number, flxi_chain *c,
                             flxi_cuda_loop *out, flx_error *err);
/* run_loop of the interface. */
flx_code flxi_cuda_run_loop(const flxi_device_run *r, const flxi_chain *c, const flxi_loop_part *parts,
                            uint32_t num_parts, int64_t length);

#endif
