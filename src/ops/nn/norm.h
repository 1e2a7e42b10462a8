/* SPDX-License-Identifier: Apache-2.0 */
/* norm.h: shared by normalisations and their backward ops.

   Every one of them has data operands (rows without a role: x, dy), all of one shape, and parameters (role any: gamma,
   beta, mean, var), one element per channel. Narrow floats are computed in f32 and rounded once, so a parameter may be
   f32 with them. Statistics are biased, eps is added under the root. */
#ifndef FLXI_NORM_H
#define FLXI_NORM_H

#include "graph/op/infer.h"
#include "graph/op/site.h"

typedef struct {        /* of all ops here; an op's schema lists those it has, its inference sets the others */
    int64_t axis;       /* of the channels; the normalised axis unless there are groups */
    int64_t num_groups; /* 0: no groups */
    double eps;
} flxi_norm_attrs;

#define NORM_AXIS A_INT(flxi_norm_attrs, axis, -1)
#define NORM_GROUPS A_INT_REQ(flxi_norm_attrs, num_groups)
#define NORM_EPS A_REAL(flxi_norm_attrs, eps, 1e-5)

/* What all norms accept, composites too: a finite number >= 0. Zero is for rows that are known not to be constant. */
flx_code flxi_check_eps(flxi_infer *f, const char *name, double eps);

extern const flxi_attr flxi_norm_axis_schema[];   /* axis, eps */
extern const flxi_attr flxi_norm_groups_schema[]; /* num_groups, eps */
extern const flxi_attr flxi_norm_eps_schema[];    /* eps */

/* ---- Inference ---- */

/* Attributes and operands; the result is the caller's. */
flx_code flxi_check_axis_norm(flxi_infer *f);    /* along attribute axis */
flx_code flxi_check_group_norm(flxi_infer *f);   /* channels are axis 1, in groups */
flx_code flxi_check_channel_norm(flxi_infer *f); /* channels are axis 1 */

/* ---- Pieces of decompositions; values are in the wide dtype ---- */

typedef struct {
    flx_val hat;   /* (x - mean) r, or x r */
    flx_val scale; /* r = 1 / sqrt(variance + eps), with the normalised axis kept */
} flxi_normalised;

/* The rows that are normalised: v itself, or with groups [N, G, the rest]; and back. */
flx_val flxi_norm_rows(flxi_site *s, flx_val v);
flx_val flxi_norm_unrows(flxi_site *s, flx_val rows, flx_val like);

/* Of rows: the mean along the normalised axis, which is kept; and the normalised rows. */
flx_val flxi_norm_mean(flxi_site *s, flx_val rows);
flxi_normalised flxi_normalise(flxi_site *s, flx_val rows, bool centred);

/* A parameter, wide, in a shape that broadcasts along the axis of the channels of a tensor of that rank. */
flx_val flxi_norm_parameter(flxi_site *s, flx_val p, int rank);

/* 1 / sqrt(var + eps), wide. */
flx_val flxi_norm_scale(flxi_site *s, flx_val var);

/* Sums over all axes but that of the channels. */
flx_val flxi_norm_sum(flxi_site *s, flx_val v);

/* ---- Batching ---- */

/* Parameters shared: the op with its axis shifted, or with the batch folded into axis 0; otherwise the decomposition is
   used. */
void flxi_batch_axis_norm(flxi_site *s, flx_val *by);
void flxi_batch_folded(flxi_site *s, flx_val *by);

#endif
