/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_spelling.h: the spellings that C, CUDA C and OpenCL C share. Templates: kernel_text.h. */
#ifndef FLXI_KERNEL_SPELLING_H
#define FLXI_KERNEL_SPELLING_H

#include "emit/kernel_text.h"

extern const flxi_khelper flxi_khelpers[]; /* ends with a row of zeros */

/* How the file's target writes the op for operands of a type; 16-bit floats: as for f32. NULL: it has no spelling. */
const char *flxi_kspell_unary(const flxi_kfile *f, flxi_kunary op, uint32_t type);
const char *flxi_kspell_binary(const flxi_kfile *f, flxi_kbinary op, uint32_t type);

/* Whether the result for 16-bit floats needs no rounding. */
bool flxi_kspell_unary_is_exact(flxi_kunary op);
bool flxi_kspell_binary_is_exact(flxi_kbinary op);

/* Converts an element as stored in memory, $a, to its value, and back. */
const char *flxi_kspell_decode(uint32_t element);
const char *flxi_kspell_encode(uint32_t element);

#endif
