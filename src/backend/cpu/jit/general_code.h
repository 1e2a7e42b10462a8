/* SPDX-License-Identifier: Apache-2.0 */
/* general_code.h: machine code that serves all extents of symbolic dimensions. Kernels whose texts have the same
   outline (kernel_outline.h) run the same code, with their numbers as arguments. A context keeps such code, so that
   other extents need no compiler. */
#ifndef FLXI_GENERAL_CODE_H
#define FLXI_GENERAL_CODE_H

#include "backend/cpu/jit/native.h"

/* The kernels of a program for other extents, from which general code learns what depends on them. */
typedef struct {
    /* The i-th; `out->n` is SIZE_MAX when there are no more. */
    flx_code (*sample)(void *user, size_t i, flxi_native_program *out, flx_error *err);
    void *user;
} flxi_native_samples;

typedef struct flxi_general_code flxi_general_code; /* what holds the functions */

/* Like flxi_native_build(). A chain has code only where its text does not depend on the extents. */
flx_code flxi_general_build(flxi_compile_service *s, const flxi_native_program *p, const flxi_native_options *o,
                            const flxi_native_samples *samples, flxi_native *out, flxi_general_code **code,
                            flx_error *err);
void flxi_general_free(flxi_general_code *code); /* NULL is fine */

#endif
