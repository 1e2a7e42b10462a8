/* SPDX-License-Identifier: Apache-2.0 */
/* dim.h: arithmetic on dimensions.

   A flx_dim at or above FLXI_DIM_SYMBOLIC_END is a plain number (negative ones occur only in attributes such as pad's
   low). Below it, it refers to an entry of the context's table: a polynomial with integer coefficients over atoms; an
   atom is a symbol or a quotient that does not divide out. Entries are kept in one canonical form, so equal dimensions
   are equal numbers: comparing shapes is comparing integers. */
#ifndef FLXI_DIM_H
#define FLXI_DIM_H

#include "base/context.h"
#include "base/strbuf.h"

#define FLXI_DIM_SYMBOLIC_END (INT64_MIN / 2)
#define FLXI_DIM_LARGEST (-FLXI_DIM_SYMBOLIC_END) /* larger numbers are rejected on input */

static inline bool flxi_dim_is_number(flx_dim d)
{
    return d >= FLXI_DIM_SYMBOLIC_END;
}

/* A number, or a handle that the context gave out. */
bool flxi_dim_is_known(flx_context *ctx, flx_dim d);

/* How often memory ran out so far: when it changes during a computation, the result is not valid. */
unsigned flxi_dim_starvations(flx_context *ctx);
/* Whether the last FLX_DIM_INVALID was caused by lack of memory. */
bool flxi_dim_starved(flx_context *ctx);

flxi_dim_table *flxi_dim_table_new(const flxi_allocator *mem);
void flxi_dim_table_free(flxi_dim_table *t);

/* Floor division; with a symbolic part it prints as a // b. */
flx_dim flxi_dim_floor_div(flx_context *ctx, flx_dim a, flx_dim b);
/* ⌈a / b⌉ */
flx_dim flxi_dim_ceil_div(flx_context *ctx, flx_dim a, flx_dim b);

/* True when a and b differ for all values of the symbols (their difference is a nonzero number). */
bool flxi_dims_differ(flx_context *ctx, flx_dim a, flx_dim b);
/* True when d is a number below `bound`, or d - bound is a negative number. */
bool flxi_dim_below(flx_context *ctx, flx_dim d, flx_dim bound);

/* A lower bound of d, given a lower bound ≥ 0 for each symbol; false where none is known. */
bool flxi_dim_least(flx_context *ctx, flx_dim d, int64_t (*least)(void *user, const char *symbol), void *user,
                    int64_t *out);

/* d with the bound symbols replaced; it may be negative. FLX_DIM_INVALID with err filled: overflow, an inexact
   division, memory exhausted. */
flx_dim flxi_dim_bind(flx_context *ctx, flx_dim d, const flx_dim_binding *b, size_t n, flx_error *err);

/* If d is `coef * symbol + rest` in one symbol alone, finds the extent that makes it `value`: for matching a declared
   input type with a tensor. Returns the symbol's name and its extent (negative: there is no solution), or NULL. */
const char *flxi_dim_solve(flx_context *ctx, flx_dim d, int64_t value, int64_t *extent);

void flxi_dim_write(flx_context *ctx, flx_dim d, flxi_strbuf *out);

/* Calls fn with the name of each symbol of d; a name may be passed more than once. */
void flxi_dim_symbols(flx_context *ctx, flx_dim d, void (*fn)(void *user, const char *name), void *user);

/* A hash that is the same in every context. */
uint64_t flxi_dim_hash(flx_context *ctx, uint64_t h, flx_dim d);

#endif
