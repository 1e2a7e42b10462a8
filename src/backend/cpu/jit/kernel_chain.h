/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_chain.h: the steps of a small block as one function. Where every step is small, calling them one by one costs
   as much as their work; the compiler sees the calls of a chain with all their numbers and makes straight code of them.
   If the block is the body of a scan, a second function is the whole loop. */
#ifndef FLXI_KERNEL_CHAIN_H
#define FLXI_KERNEL_CHAIN_H

#include "backend/cpu/jit/small_product.h"
#include "emit/kernel_emit.h"

typedef enum { CHAIN_KERNEL, CHAIN_PRODUCT, CHAIN_COPY } flxi_chain_kind;

typedef struct {
    uint8_t kind;          /* a flxi_chain_kind */
    uint32_t kernel;       /* number among those that are compiled */
    const uint32_t *slots; /* places of its buffers in the table; of a product a, b, c; of a copy from, to */
    uint32_t num_slots;
    uint32_t grid[3], lanes;
    flxi_small_product product;
    size_t nbytes; /* of a copy */
} flxi_chain_call;

/* Where a slot is in step t of a loop: at + t * step. */
typedef struct {
    unsigned char *at;
    int64_t step;
} flxi_chain_row;

/* A carry is read where the step before wrote it. It is written to the rows of a trajectory, or to two places in
   turns. */
typedef struct {
    const unsigned char *in;
    unsigned char *place[2]; /* both the first row of a trajectory … */
    int64_t step;            /* … whose rows are so far apart; 0: there is none */
} flxi_chain_carry;

/* A slot of the body, and which operand or result of the scan it is: operands first. */
typedef struct {
    uint32_t slot, value;
} flxi_chain_link;

typedef struct {
    const flxi_chain_link *rows, *shared; /* what moves from step to step, and what does not */
    uint32_t num_rows, num_shared;
    const uint32_t *carry_in, *carry_out; /* slots; FLXI_NO_SLOT: nobody reads it */
    uint32_t num_carries;
} flxi_chain_loop;

#define FLXI_NO_SLOT UINT32_MAX

typedef struct {
    const flxi_chain_call *calls; /* in order */
    uint32_t n;
    const flxi_chain_loop *loop; /* of the body of a scan; NULL: it is none */
    /* Set by compiling; NULL: the steps are run one by one. `at`: addresses by slot. The loop runs steps [from, to). */
    void (*run)(void *const *at);
    void (*run_loop)(void **at, const flxi_chain_row *rows, flxi_chain_carry *carries, int64_t from, int64_t to);
    size_t file; /* while it is compiled: the number of its file + 1; 0: none */
} flxi_chain;

/* Room for the names of functions. */
typedef struct {
    char s[24];
} flxi_chain_name;
/* The name of chain `number`'s function; of its loop. */
const char *flxi_chain_function(flxi_chain_name *name, size_t number);
const char *flxi_chain_loop_function(flxi_chain_name *name, size_t number);

/* Whether the kernels [begin, end) have all of the chain's, and none needs scratch. `entries` is by kernel. */
bool flxi_chain_fits(const flxi_chain *c, const flxi_kentry *entries, size_t begin, size_t end);
/* The text of its functions, behind that of the kernels. */
void flxi_chain_write(const flxi_chain *c, size_t number, const flxi_kentry *entries, flxi_kfile *f);

#endif
