/* SPDX-License-Identifier: Apache-2.0 */
/* card_case.h: graphs whose results on a card are compared with those of the device cpu. */
#ifndef FLX_CARD_CASE_H
#define FLX_CARD_CASE_H

#include <fluxion/fluxion.h>

typedef struct {
    const char *text;
    const char *wrt[2]; /* the gradient with respect to these inputs, if any, is taken of the graph */
    double most;        /* distance from the device cpu */
} card_case;

flx_graph *card_case_graph(flx_context *ctx, const card_case *c);
/* A random value of an input: between -1 and 1, or -1 … 7 for indices. */
flx_tensor *card_case_value(flx_context *ctx, const flx_type *type, uint64_t *seed);
/* All of them, where there is a card: the first run, the second, and the third, which is a graph of the driver. */
void card_cases_agree(const card_case *cases, size_t n);

#endif
