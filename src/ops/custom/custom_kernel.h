/* SPDX-License-Identifier: Apache-2.0 */
/* custom_kernel.h: shared by the files of kernel_call: its attributes, which buffer is which operand or result, and its
   transforms. */
#ifndef FLXI_CUSTOM_KERNEL_H
#define FLXI_CUSTOM_KERNEL_H

#include "base/strbuf.h"
#include "graph/op/site.h"
#include "kernel/program/kernel.h"

typedef struct {
    const char *kernel;
    const char *inputs, *results; /* names of buffers separated by commas; "": as declared */
    flx_types outputs;            /* types of the results; absent: flat, with the counts of the buffers */
    flx_ints grid;
    const char *backward; /* the user's own reverse kernel, or "" */
    int64_t max_trips;
    /* Names of buffers that exist only while the kernel runs, and how long each is: a product of numbers, "invocations"
       and elements of one more operand after the inputs, "counts[2]". */
    const char *scratch, *lengths;
} flxi_kernel_call;

enum { FLXI_KERNEL_CALL_BUFFERS = 256 };

typedef struct {
    flx_kernel *k;
    uint32_t inputs[FLXI_KERNEL_CALL_BUFFERS], outputs[FLXI_KERNEL_CALL_BUFFERS]; /* indices of buffers */
    uint32_t scratch[FLXI_KERNEL_CALL_BUFFERS];
    size_t num_inputs, num_outputs, num_scratch;
} flxi_kernel_binding;

/* Reads the kernel and finds its buffers; the caller frees m->k. */
flx_code flxi_kernel_call_bind(flx_context *ctx, const flxi_kernel_call *a, flxi_kernel_binding *m, flx_error *err);
/* The same for a rule; a failure is reported at the site. */
bool flxi_kernel_call_bind_site(flxi_site *s, const flxi_kernel_call *a, flxi_kernel_binding *m);

/* Adds to a list of names, in quotes where the name contains characters of the list. */
void flxi_kernel_call_add_name(flxi_strbuf *names, const char *name);

/* The type of result i where it does not depend on the operands; otherwise its dtype is 0. */
flx_type flxi_kernel_call_type(const flxi_kernel_binding *m, const flxi_kernel_call *a, size_t i);

/* The operand or result that a buffer is; UINT32_MAX when it is neither. */
uint32_t flxi_kernel_call_input(const flxi_kernel_binding *m, uint32_t buffer);
uint32_t flxi_kernel_call_output(const flxi_kernel_binding *m, uint32_t buffer);

/* The length of a scratch buffer, a text that ends before a comma; NULL for other buffers. */
const char *flxi_kernel_call_scratch(const flxi_kernel_binding *m, const flxi_kernel_call *a, uint32_t buffer);

/* The number of elements that such a text says, of which no more than 2^32 - 1 exist; false: more, or not a length. The
   invocations of all workgroups may be UINT64_MAX for more than a number can say. */
bool flxi_kernel_call_length(const char *text, uint64_t invocations, const uint32_t *counts, size_t num_counts,
                             uint64_t *length);
/* Whether it depends on the counts. */
bool flxi_kernel_call_needs_counts(const char *text);

/* ---- Rules ---- */

void flxi_kernel_call_vjp(flxi_site *s, const flx_val *dy, flx_val *dx);
void flxi_kernel_call_jvp(flxi_site *s, const flx_val *tx, flx_val *ty);
void flxi_kernel_call_batch(flxi_site *s, flx_val *by);

#endif
