/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h: turning the samples of the op table into graphs and input values, for all generic tests. */
#ifndef FLX_SAMPLE_H
#define FLX_SAMPLE_H

#include "graph/op/op.h"

#include <fluxion/fluxion.h>

enum { SAMPLE_MAX_OPERANDS = 16, SAMPLE_EXTENT = 3 }; /* symbols in samples are bound to this */

typedef enum {
    FILL_RANDOM,  /* what the sample asks for */
    FILL_SPECIAL, /* NaN, infinities, zeros of both signs, extremes: whatever the sample asks for */
    FILL_TAME,    /* the same without extremes: whatever the order, sums and products overflow nowhere */
    FILL_ONES,
    FILL_ZEROS,   /* floats: zeros of both signs and a few small numbers, whatever the sample asks for */
    FILL_NEGATIVE /* floats: -0 */
} sample_fill;

/* One row of the dtype matrix: an op, one of its samples, one dtype. */
typedef struct {
    flxi_opcode op;
    const flxi_sample *sample;
    int32_t dtype; /* what T stands for; FLX_DTYPE_NONE when the sample does not say T */
    int32_t real;  /* not 0: what f32 in the sample's text becomes, for derivative tests; with f64, c64 becomes c128 */
} sample_case;

/* Calls fn for every op (whose name contains the variable FLX_TEST_CASE, if set), sample and dtype. */
void sample_each(void (*fn)(const sample_case *c));

/* The text of a graph `sample` that applies the op to inputs a0, a1 … and returns its results. `operands` limits how
   many of the operands are used (-1: all); `extra` is appended to the attributes, or NULL. The caller frees it. */
char *sample_text(const sample_case *c, int operands, const char *extra);

/* Parses it; the context is new and is returned too. NULL on error. */
flx_module *sample_parse(flx_context *ctx, const sample_case *c, flx_error *err);

/* Where the values of a case begin; it does not depend on the other ops of the table. */
uint64_t sample_seed(const sample_case *c);

/* Values for the inputs of g and a run; outputs as from flx_run. Symbols are bound to SAMPLE_EXTENT. */
flx_code sample_run(const flx_graph *g, const sample_case *c, sample_fill fill, flx_tensor **out, flx_error *err);

/* A value for operand i as the sample asks for it; `state` is that of test_random(). */
flx_tensor *sample_value(flx_context *ctx, const sample_case *c, size_t i, const flx_type *type, sample_fill fill,
                         uint64_t *state, flx_error *err);

bool sample_uses_t(const flxi_sample *s);

/* Whether the dtype ("f32") is written in its operands, attributes or graphs. */
bool sample_says(const flxi_sample *s, const char *dtype);

/* "softmax f32 (T[3, 4]; axis=0)" for messages; static storage. */
const char *sample_describe(const sample_case *c);

#endif
