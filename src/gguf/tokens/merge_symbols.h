/* SPDX-License-Identifier: Apache-2.0 */
/* merge_symbols.h: joins neighbouring symbols of a text, the best pair first, until no pair can be joined. */
#ifndef FLXI_MERGE_SYMBOLS_H
#define FLXI_MERGE_SYMBOLS_H

#include "base/error.h"
#include "base/memory.h"

/* Two tokens that become one. */
typedef struct {
    int32_t left, right, token;
} flxi_join;

/* A part of the text. */
typedef struct {
    int32_t token; /* -1: none has this text */
    uint32_t at, size;
    int32_t previous, next; /* -1: none */
} flxi_symbol;

/* What two neighbours become, -1 when they cannot be joined; *rank is smaller for a pair that is joined earlier. Among
   equal ranks the first pair of the text is. */
typedef int32_t (*flxi_join_fn)(void *user, const flxi_symbol *left, const flxi_symbol *right, double *rank);

/* Joins symbols [0, count), neighbours in this order; those that were joined to the one before have the size 0. */
flx_code flxi_merge_symbols(const flxi_allocator *mem, flxi_symbol *symbols, size_t count, flxi_join_fn join,
                            void *user, flx_error *err);

#endif
