/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/quantise.h: products with weights in integers of 8 bits. */
#ifndef FLUXION_QUANTISE_H
#define FLUXION_QUANTISE_H

#include <fluxion/run.h>

FLX_BEGIN_DECLS

/* Flags of flx_quantise_options. */
enum { FLX_QUANTISE_TRAIN = 1 }; /* the graph is to be trained: nothing is in integers, but everything is rounded */

typedef struct flx_quantise_options {
    uint32_t struct_size;   /* sizeof(flx_quantise_options) */
    uint32_t flags;         /* FLX_QUANTISE_… */
    int32_t weight_bits;    /* 2 to 8; 0: 8. Fewer use fewer of the integers */
    int32_t reserved;       /* 0 */
    const flx_feed *params; /* values of the parameters, or at least of those that are weights */
    size_t num_params;
    const flx_feed *batches; /* the inputs of each batch, one batch after the other */
    size_t num_inputs;       /* of one batch */
    size_t num_batches;
} flx_quantise_options;

/** The same computation with integers: a matmul, linear or dot_general of an f32 value with a matrix of weights (a
    parameter or constant, or its transpose) multiplies i8 with i8 and sums in i32. Weights have a scale for each column
    of the result and are constants of it: parameters that only such products read are not parameters any more. Other
    operands have one scale and zero point each, from their smallest and largest element in the batches, on which the
    graph is run. All other ops stay as they are, and so do products in bodies and convolutions.

    With FLX_QUANTISE_TRAIN the products stay in f32, on operands that fake_quantize rounds: weights to `weight_bits`
    for each column, other operands to 8 bits with a scale that is a state of the graph, `quantise0.scale` …, an average
    over the steps of a training. Derivatives pass straight through the rounding. Neither params nor batches are read.

    Composites become primitive ops. NULL on failure: USAGE for options out of range or no batches,
    MISSING_INPUT for a weight without value, NUMERIC for a range that is not finite, and what a run reports. */
FLX_API flx_graph *flx_quantise(const flx_graph *g, const flx_quantise_options *options, flx_error *err);

FLX_END_DECLS
#endif
