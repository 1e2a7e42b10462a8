/* SPDX-License-Identifier: Apache-2.0 */
/* pass_case.h: a graph from text and the graph that a pass returns for it compute the same, by the reference evaluator
   on inputs of fixed values. */
#ifndef FLX_TESTS_PASS_CASE_H
#define FLX_TESTS_PASS_CASE_H

#include <fluxion/fluxion.h>

typedef struct {
    flx_context *ctx;
    flx_module *m;
    const flx_graph *g; /* the main graph */
} pass_case;

/* Reads the text; pass_case_end() frees. */
pass_case pass_case_begin(const char *text);
void pass_case_end(pass_case *c);

/* Both graphs have outputs of the same bits, or that differ by at most tolerance * (1 + |value|): 0 accepts a zero of
   the other sign. */
void pass_case_same_bits(const pass_case *c, const flx_graph *changed);
void pass_case_near(const pass_case *c, const flx_graph *changed, double tolerance);

#endif
