/* SPDX-License-Identifier: Apache-2.0 */
/* token_draw.h: an index drawn with the probabilities of a softmax, restricted to the likely ones. */
#ifndef FLXI_TOKEN_DRAW_H
#define FLXI_TOKEN_DRAW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    double *logit;  /* not NaN, some above -inf; those of excluded tokens become -inf */
    int64_t *order; /* room for 2 n */
    int64_t n;
    int64_t top_k; /* 0: all */
    double top_p, temperature;
    double most; /* the largest logit; set by the call */
} flxi_token_row;

/* The first of the largest. */
int64_t flxi_argmax(const double *row, int64_t n);
/* Keeps the first top_k tokens, values descending, indices ascending, and of these the shortest prefix that has top_p
   of their probability. Of them, the first whose cumulative probability exceeds u of [0, 1), or else the last possible
   one. */
int64_t flxi_draw_token(flxi_token_row *row, double u);

#endif
