/* SPDX-License-Identifier: Apache-2.0 */
/* rounded_rows.h: products of packed rows with rows rounded to 8 bits (numeric/gguf_rounded.h), for each instruction
   set. All give the bits of flxi_rounded_products(). */
#ifndef FLXI_ROUNDED_ROWS_H
#define FLXI_ROUNDED_ROWS_H

#include "backend/cpu/gemm/gemm.h"
#include "numeric/gguf_rounded.h"

enum { FLXI_ROUNDED_FEW = 8, FLXI_ROUNDED_MANY = 32 }; /* the most packed rows of one call */

/* `columns` packed rows of k numbers, `row_bytes` apart, times rounded rows. */
typedef struct {
    flxi_gguf format;
    const uint8_t *w;
    int64_t row_bytes, columns;
    const void *x; /* rounded rows */
    flxi_rounded_layout layout;
    int64_t k, rows;
    float *y; /* y[i * y_step + j]: row i of x, packed row j */
    int64_t y_step;
} flxi_rounded_call;

typedef struct {
    void (*round)(flxi_gguf format, const float *x, int64_t k, void *out); /* as flxi_round_row() */
    void (*few)(const flxi_rounded_call *c);  /* best for few rows; at most FLXI_ROUNDED_FEW packed rows */
    void (*many)(const flxi_rounded_call *c); /* best for many; at most FLXI_ROUNDED_MANY packed rows */
} flxi_rounded_engine;

/* Of this machine, and for an instruction set, which the machine must have; not BEST. The format has a grid
   (numeric/gguf_codes.h). */
flxi_rounded_engine flxi_rounded_engine_of(flxi_gguf format);
flxi_rounded_engine flxi_rounded_engine_for(flxi_gguf format, flxi_isa isa);

/* Whether the machine has what the engine for an instruction set uses. */
bool flxi_rounded_isa_available(flxi_isa isa);

#endif
