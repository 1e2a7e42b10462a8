/* SPDX-License-Identifier: Apache-2.0 */
/* param_values.h: the values that the file of a model, or the file of weights beside it, has for the parameters of a
   graph made of that model. */
#ifndef FLX_PARAM_VALUES_H
#define FLX_PARAM_VALUES_H

#include "io/load.h"

typedef struct {
    flx_feed *feeds; /* the parameters that have a value, by name; the struct holds the values */
    size_t count;
    size_t missing; /* parameters without one */
    char *from;     /* the file of weights beside the model, whether it exists or not */
} param_values;

/* Free with param_values_free(), also after a failure. Names are borrowed from the graph. */
int param_values_read(param_values *p, const model *m, const flx_graph *g);
void param_values_free(param_values *p);

/* Writes them to the file of weights beside `path`, if there are any. */
int param_values_write(const param_values *p, const char *path);

#endif
