/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_path.h: the location of a statement as text: statement indices from the top, as in "body/2/else/0". */
#ifndef FLXI_KERNEL_PATH_H
#define FLXI_KERNEL_PATH_H

#include "kernel/program/kernel.h"

typedef struct {
    uint32_t index; /* of the statement in its list */
    bool in_else;   /* the list is the other branch of the `if` around it */
} flxi_kposition;

/* Kept while walking a program: `n` is the number of levels, outermost first. */
typedef struct {
    const char *root; /* "body", or a declaration: then there are no levels */
    flxi_kposition at[FLXI_KERNEL_MAX_NESTING + 2];
    unsigned n;
} flxi_kpath;

/* A list begins: the walk sets at[n - 1].index before each statement; then it ends. */
void flxi_kpath_open(flxi_kpath *p, bool in_else);
void flxi_kpath_close(flxi_kpath *p);

/* A path that does not fit is cut at the start: "..." and its end are written. Returns `out`. */
const char *flxi_kpath_write(const flxi_kpath *p, char *out, size_t size);

#endif
