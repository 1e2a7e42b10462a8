/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_chain.h: the steps of a small block as one function. Where every step is small, calling them one by one costs
   as much as their work; the compiler sees the calls of a chain with all their numbers and makes straight code of them.
   If the block is the body of a scan, a second function is the whole loop. */
#ifndef FLXI_KERNEL_CHAIN_H
#define FLXI_KERNEL_CHAIN_H

#include "backend/backend.h"
#include "backend/cpu/jit/small_product.h"
#include "emit/kernel_emit.h"

/* A chain (backend.h) and its functions. */
typedef struct {
    const flxi_chain *chain;
    const flxi_small_product *products; /* by step, of those that are nodes */
    /* Set by compiling; NULL: the steps are run one by one. `at`: addresses by slot. The loop runs steps [from, to). */
    void (*run)(void *const *at);
    void (*run_loop)(void **at, const flxi_loop_row *rows, flxi_loop_carry *carries, int64_t from, int64_t to);
    size_t file; /* while it is compiled: the number of its file + 1; 0: none */
} flxi_chain_code;

/* Steps with fewer elements than this run on one thread. */
enum { FLXI_MIN_PARALLEL = 16384 };

/* accept_chain of the interface: whether all steps are kernels, small products and copies. Why products are called
   instead is written to their steps. */
bool flxi_chain_accept(flxi_chain *c, const flx_compile_options *o);
/* The product that the node of an accepted chain is. */
void flxi_chain_product(const flxi_chain_step *s, int threads, flxi_small_product *out);

/* Room for the names of functions. */
typedef struct {
    char s[24];
} flxi_chain_name;
/* The name of chain `number`'s function; of its loop. */
const char *flxi_chain_function(flxi_chain_name *name, size_t number);
const char *flxi_chain_loop_function(flxi_chain_name *name, size_t number);

/* Whether the kernels [begin, end) have all of the chain's, and none needs scratch. `entries` is by kernel. */
bool flxi_chain_fits(const flxi_chain_code *c, const flxi_kentry *entries, size_t begin, size_t end);
/* The text of its functions, after that of the kernels. */
void flxi_chain_write(const flxi_chain_code *c, size_t number, const flxi_kentry *entries, flxi_kfile *f);

#endif
