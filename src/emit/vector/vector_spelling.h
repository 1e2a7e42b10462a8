/* SPDX-License-Identifier: Apache-2.0 */
/* vector_spelling.h: how C with the vectors of gcc and clang writes ops and memory accesses for several invocations
   at once. Templates: kernel_text.h. Operations without their own spelling are functions that loop over the lanes
   and do for each what the scalar text does, so everything can be written. */
#ifndef FLXI_VECTOR_SPELLING_H
#define FLXI_VECTOR_SPELLING_H

#include "emit/kernel_text.h"

/* A function on vectors for one type, or for all types (0). */
typedef struct {
    flxi_khelper helper;
    uint32_t type;
} flxi_vhelper;

extern const flxi_vhelper flxi_vector_math_f32[], flxi_vector_math_f64[]; /* end with a row of zeros */

extern const flxi_kvector_spelling flxi_vector_spelling; /* for flxi_kfile.vector_spelling */

/* Whether elements of the type are moved as vectors; otherwise one by one. */
bool flxi_vspell_moves(uint32_t element);

/* ---- Ops on texts ---- */

/* The name of a vector type, which is added to the file: "k_f32x16". */
void flxi_vtext_type(flxi_kfile *f, flxi_strbuf *out, uint32_t type, unsigned lanes);
void flxi_vtext_unary(flxi_kfile *f, flxi_strbuf *out, flxi_kunary op, const flxi_ksubject *s);
void flxi_vtext_binary(flxi_kfile *f, flxi_strbuf *out, flxi_kbinary op, const flxi_ksubject *s);
void flxi_vtext_fma(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s);
void flxi_vtext_cast(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s);    /* from type to result */
void flxi_vtext_bitcast(flxi_kfile *f, flxi_strbuf *out, const flxi_ksubject *s); /* from type to result */

#endif
