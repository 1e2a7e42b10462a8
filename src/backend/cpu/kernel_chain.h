/* kernel_chain.h: the kernels of a small block as one function. Where every kernel is small, calling them one by one costs as much
   as their work; the compiler sees the calls of a chain with all their numbers and makes straight code of them. */
#ifndef FLXI_KERNEL_CHAIN_H
#define FLXI_KERNEL_CHAIN_H

#include "base/strbuf.h"
#include "codegen/kernel_emit.h"

typedef struct {
    uint32_t kernel;       /* number among those that are compiled */
    const uint32_t *slots; /* places of its buffers in the table */
    uint32_t num_slots;
    uint32_t grid[3], lanes;
} flxi_chain_call;

typedef struct {
    const flxi_chain_call *calls; /* in order */
    uint32_t n;
    void (*run)(void *const *at); /* `at`: addresses by slot. Set by compiling; NULL: the kernels are called one by one */
    size_t file;                  /* while it is compiled: the number of its file + 1; 0: none */
} flxi_chain;

/* The name of chain `number`'s function, in `name` of 24 bytes. */
const char *flxi_chain_name(char *name, size_t number);
/* Whether the kernels [begin, end) have all of the chain's, and none needs scratch. `entries` is by kernel. */
bool flxi_chain_fits(const flxi_chain *c, const flxi_kentry *entries, size_t begin, size_t end);
/* The text of the function, behind that of the kernels. */
void flxi_chain_write(const flxi_chain *c, size_t number, const flxi_kentry *entries, flxi_strbuf *out);

#endif
