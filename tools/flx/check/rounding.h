/* SPDX-License-Identifier: Apache-2.0 */
/* rounding.h: how far rounding alone may move the results of a graph. */
#ifndef FLX_ROUNDING_H
#define FLX_ROUNDING_H

#include "io/inputs.h"

/* The distance of neighbouring numbers near 1 in the coarsest floating dtype that the graph and its sub-graphs compute
   with; 0 when they have none. */
double coarsest_spacing(const flx_graph *g);

/* What an element of each output may differ by because of rounding alone, as |a - b|: one list for each output, NULL
   for integers and bools. `results` are those of device ref. Free with rounding_free(), also after a failure. */
typedef struct {
    double **bounds;
    size_t count;
} rounding_effect;

int rounding_measure(rounding_effect *r, const model *m, const inputs *in, flx_tensor *const *results);
void rounding_free(rounding_effect *r);

#endif
