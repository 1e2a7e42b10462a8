/* SPDX-License-Identifier: Apache-2.0 */
/* jacobian.h: the parts of Jacobians: where they are zero (sparsity.c), how much a direction costs
   (live_bytes.c), and running one graph on many directions (directions.c). */
#ifndef FLXI_JACOBIAN_H
#define FLXI_JACOBIAN_H

#include "autodiff/autodiff.h"

/* ---- Where a Jacobian is zero ---- */

typedef struct {
    bool reached;                 /* false: the derivative is zero everywhere */
    flxi_link link[FLX_MAX_RANK]; /* by axis of the leaf; axis -1: it may depend on all positions */
} flxi_pattern;

/* The pattern of every output of g, which is prepared for forward mode, with respect to one leaf. Every zero that it
   claims is one. */
flx_code flxi_find_patterns(const flx_graph *g, uint32_t leaf, flxi_pattern *outputs, flx_error *err);

/* ---- What a direction costs ---- */

/* How many copies of g that differ in the input `seed` can run at once when their values may take this many bytes; at
   least 1, and 1 where an extent is not known. Other inputs are not counted. */
flx_code flxi_copies_within(const flx_graph *g, uint32_t seed, int64_t budget, int64_t *copies, flx_error *err);

/* ---- Many directions ---- */

/* Axis `of` of the value whose directions are walked is tied to axis `to` of another: their positions differ by lo …
   hi. */
typedef struct {
    int of, to;
    int64_t lo, hi;
} flxi_tie;

/* The directions along which a value is varied. Positions of one colour are varied together: along an axis with a
   width, positions whose distance is a multiple of it. Without widths there is a colour for each element. */
typedef struct {
    const flx_type *type;
    int64_t width[FLX_MAX_RANK]; /* 0: each position by itself */
    flx_dim colours;
} flxi_directions;

/* Sets the number of colours; drops the widths where there are few directions, or where they do not halve the
   number. */
void flxi_count_colours(flx_context *ctx, flxi_directions *d);

typedef struct {
    flx_graph *g;         /* being built; has the leaves of `one` except for its seed */
    const flx_graph *one; /* one direction at a time: the input called `seed` in, derivatives out */
    const char *seed;
    flxi_directions along;
    int64_t chunk;  /* directions at a time; 0: all */
    int64_t budget; /* bytes for the values of a chunk; 0: any */
    flx_error *err;
} flxi_many;

/* Runs `one` on a direction for each colour; out[k] gets a leading axis of that extent. */
flx_code flxi_run_many(flxi_many *m, flx_val *out);

/* From [colours, other…] to [elements, other…]: each element is taken from its colour, and elements that the ties
   exclude are zero. */
flx_val flxi_spread_colours(flxi_site *s, const flxi_directions *d, flx_val v, const flxi_tie *ties, size_t n);

#endif
