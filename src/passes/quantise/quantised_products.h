/* SPDX-License-Identifier: Apache-2.0 */
/* quantised_products.h: which products of a graph are computed in integers, and in which ranges their operands are. */
#ifndef FLXI_QUANTISED_PRODUCTS_H
#define FLXI_QUANTISED_PRODUCTS_H

#include "graph/graph.h"

#include <fluxion/quantise.h>

typedef struct {
    uint32_t x, w;    /* operands: values of the graph */
    uint32_t weights; /* the parameter or constant that w is, or whose transpose it is */
    int64_t x_axis;   /* of x, and … */
    int64_t w_axis;   /* … of w, which are summed over */
    bool is_transposed;
} flxi_quantised_product;

typedef struct {
    const flx_graph *g;
    flxi_quantised_product *at; /* by node; x is 0 where the node is not one */
    double *low, *high;         /* by value: the range of an operand x, 0 included */
    flxi_arena arena;
} flxi_quantised_products;

/* Freed by flxi_quantised_products_free() in any case. */
flx_code flxi_find_quantised_products(const flx_graph *g, flxi_quantised_products *out, flx_error *err);
void flxi_quantised_products_free(flxi_quantised_products *p);

/* Runs the graph on the batches and finds the ranges (calibrate.c). */
flx_code flxi_calibrate(flxi_quantised_products *p, const flx_quantise_options *o, flx_error *err);

/* The value that was given for a leaf, or that a constant has; NULL: none. */
const flx_tensor *flxi_given_value(const flx_graph *g, uint32_t value, const flx_quantise_options *o);

#endif
