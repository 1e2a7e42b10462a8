/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_fold.h: simplifies one expression whose operands are already simplified. */
#ifndef FLXI_KERNEL_FOLD_H
#define FLXI_KERNEL_FOLD_H

#include "kernel/program/kernel_rewrite.h"

typedef struct {
    flxi_kb *b;
    uint32_t flags; /* FLXI_KERNEL_… of kernel_optimise.h */
    bool holds;     /* some buffer has a prescribed number of uses: an operand must be examined before it is dropped */
} flxi_kfolder;

flxi_kfolder flxi_kfolder_of(flxi_kb *b, uint32_t flags);

/* An expression of the builder that has the same value and effects, and no operation on literals at its root. Every
   pass that replaces variables by expressions calls it for what it builds: literal indices out of range and literal
   zero divisors, which a valid program does not contain, vanish here. */
uint32_t flxi_kfold(const flxi_kfolder *f, uint32_t e);

/* Copies a store or an atomic unless its index is a literal out of range; false for other statements. */
bool flxi_kfold_stmt(flxi_krewrite *r, const flxi_kfolder *f, const flxi_ks *s);

/* Whether operands may be swapped without a change of the result's bits. */
bool flxi_kbinary_commutes(uint8_t op);

#endif
