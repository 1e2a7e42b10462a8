/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h: the parts of parts.def, and what they share: elements of every dtype as values in C. */
#ifndef FLXI_PARTS_H
#define FLXI_PARTS_H

#include "graph/op/attr_access.h"
#include "standalone/standalone.h"

const char *flxi_sa_always(const flxi_device_node *n);

#define PART(op, name, applies, scratch, write)     \
    const char *applies(const flxi_device_node *n); \
    size_t scratch(const flxi_device_node *n);      \
    void write(flxi_sa_writer *w);
#define FAILING_PART PART
#define CALLING_PART PART
#define SHARED_PART(op, name, applies, scratch, write) \
    PART(op, name, applies, scratch, write)            \
    flxi_sa_cuts write##_cuts(const flxi_device_node *n);
#define VECTOR_PART SHARED_PART
#define BLOCK_PART(op, write) PART(op, blocks, flxi_sa_blocks_applies, flxi_sa_blocks_scratch, write)
#define TABLE_PART(op, name, applies, scratch, write)                \
    PART(op, name, applies, scratch, write)                          \
    void write##_table(const flxi_device_node *n, flxi_sa_table *t); \
    void write##_fill(flxi_sa_writer *w);
#define PLAIN_PART(op, name, applies, write)        \
    const char *applies(const flxi_device_node *n); \
    void write(flxi_sa_writer *w);
#include "standalone/parts/parts.def"

/* ---- Values ---- */

/* The type in which the dtype is computed: f16 and bf16 in float, integers without a sign, so that they wrap. */
const char *flxi_sa_arithmetic(int32_t dtype);
/* An element in memory, given as an expression, as a value of that type; and back, rounded. */
const char *flxi_sa_load(flxi_sa_writer *w, int32_t dtype, const char *element);
const char *flxi_sa_store(flxi_sa_writer *w, int32_t dtype, const char *value);
/* An integer element as int64_t. */
const char *flxi_sa_index(flxi_sa_writer *w, int32_t dtype, const char *element);
/* A function of the kernel writer for the dtype, such as max_nan: its name. */
const char *flxi_sa_function_of(flxi_sa_writer *w, const char *name, int32_t dtype);

/* A value in double as an element, rounded once, or for f16 and bf16 first to f32. */
const char *flxi_sa_rounded(flxi_sa_writer *w, int32_t dtype, const char *value);
/* re, im += l r of complex numbers, given as names of pointers and of variables. */
void flxi_sa_complex_term(flxi_sa_writer *w, const char *l, const char *r, const char *re, const char *im);
/* A literal in double. */
const char *flxi_sa_real(flxi_sa_writer *w, double x);

const char *flxi_sa_print(flxi_sa_writer *w, const char *fmt, ...) FLX_PRINTF(2, 3);

/* The memory that offsets of scratch memory are in: that of the thread, where several compute the node. */
static inline const char *flxi_sa_own(const flxi_sa_writer *w)
{
    return w->units > 1 ? "own" : "scratch";
}

/* A call of the node's k-th graph with these arguments, of which the first is its memory; a failure is returned. */
void flxi_sa_call_body(flxi_sa_writer *w, uint32_t k, const char *arguments);

/* ---- Attributes ---- */

static inline int64_t flxi_sa_int(const flxi_device_node *n, const char *name)
{
    return flxi_attr_int(&flxi_ops[n->op], n->attrs, name);
}

static inline flx_ints flxi_sa_ints(const flxi_device_node *n, const char *name)
{
    return *flxi_attr_ints(&flxi_ops[n->op], n->attrs, name);
}

/* Elements of a type; those of dims [from, to). */
int64_t flxi_sa_count(const flx_type *t);

#endif
