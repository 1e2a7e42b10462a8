/* SPDX-License-Identifier: Apache-2.0 */
/* vector_writer.h: shared by the files that emit a kernel in vectors.

   vector_survey.c     which values differ between lanes and how; whether the kernel has a vector form
   vector_value.c      expressions
   vector_statement.c  statements, and masks where lanes diverge
   vector_frame.c      the loops around them, and the public functions

   A value is uniform (one for all lanes), a ramp (it grows by a constant from lane to lane, like the id of an
   invocation) or varying. Uniform values and the first lane of ramps are scalars, written by the scalar writer; only
   varying values are vectors. Several vectors may be processed together: these are the parts, and a varying variable
   then has a name for each, v3_0 and v3_1. */
#ifndef FLXI_VECTOR_WRITER_H
#define FLXI_VECTOR_WRITER_H

#include "emit/kernel_writer.h"
#include "emit/vector/vector_emit.h"

enum { KSTEP_VARYING = INT32_MIN };

struct flxi_kvectors {
    unsigned lanes, parts; /* of one vector; vectors */
    int32_t *exprs;        /* by expression: its stride from lane to lane; 0: uniform; KSTEP_VARYING */
    int32_t *vars;         /* by variable */
    uint32_t *factors;     /* by variable: a power of two that divides its value in the first lane; 0: not known */
    unsigned span;         /* of the lanes of all parts, once it is chosen; 0: not yet */
    uint8_t *is_known;     /* by expression: `exprs` is valid in this round */
    uint8_t *streams;      /* by buffer */
    const char *reason;    /* why it has no vector form */
    uint32_t end;          /* of the frame `if (i < end)`, or 0 */
    uint32_t mask;         /* number of the current mask, 0: all lanes are active */
    bool selects;          /* inactive lanes keep the values of their variables */
    bool has_subgroups;
    bool uses_stream; /* a store goes past the cache: a fence is needed */
};

/* Analyses the kernel; sets a reason if it has to be written in the scalar form. */
void flxi_vw_survey(flxi_kwriter *w, flxi_kvectors *v);

/* The text of part `part` of an expression as a vector. */
const char *flxi_vw_value(flxi_kwriter *w, uint32_t expr, unsigned part);
const char *flxi_vw_truth(flxi_kwriter *w, uint32_t expr, unsigned part); /* as a mask */
const char *flxi_vw_name(flxi_kwriter *w, uint32_t var, unsigned part);
/* The index of the first lane of a part, for an index that is uniform or grows by one. */
const char *flxi_vw_first(flxi_kwriter *w, uint32_t expr, unsigned part);
/* Expands a template for vectors; the text is kept with the words. */
const char *flxi_vw_text(flxi_kwriter *w, const char *text, const flxi_ksubject *s);
/* A constant of the vector type of `type`. */
const char *flxi_vw_bind(flxi_kwriter *w, uint32_t type, const char *text);

void flxi_vw_list(flxi_kwriter *w, flxi_klist list);

static inline int32_t flxi_vw_step(const flxi_kwriter *w, uint32_t expr)
{
    return w->vectors->exprs[expr];
}

#endif
