/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.h: values for the inputs and parameters of a graph, from --in, --set and the file of parameters beside it. */
#ifndef FLX_INPUTS_H
#define FLX_INPUTS_H

#include "args.h"
#include "io/load.h"

#include <fluxion/run.h>

typedef enum {
    MISSING_IS_ERROR,  /* an input without a value is reported */
    MISSING_IS_FILLED, /* floating ones are `normal`, others `zeros` */
    MISSING_IS_VARIED, /* the same, but input K is `normal:K`, so that no two are equal */
} missing_policy;

typedef struct {
    flx_feed *feeds;     /* one per input, in the graph's order */
    flx_tensor **values; /* the same tensors, which this struct holds */
    size_t num_feeds;
    flx_dim_binding *dims; /* what --set says and files show */
    size_t num_dims;
} inputs;

/* Moves the bindings of dimensions that `g`, a part or a derivative of the model, has to the front, and returns how
   many there are. */
size_t dims_of_graph(const flx_graph *g, flx_dim_binding *dims, size_t n);

/* Free with inputs_free(), also after a failure. */
int inputs_read(inputs *in, const model *m, const args *a, missing_policy policy);
/* Only `dims`, and only what --set says. */
int inputs_read_dims(inputs *in, const model *m, const args *a);
void inputs_free(inputs *in);

#endif
