/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_oracle.h: cases with independent answers, compiled, many at a time, each in one of the ways
   (compile/compiled_ways.h). Compiled code may differ from an answer by more than the reference evaluator does, by as
   much as it may differ from the evaluator (compile/error_bound.h). */
#ifndef FLX_TEST_COMPILED_ORACLE_H
#define FLX_TEST_COMPILED_ORACLE_H

#include "compile/bundle.h"

/* The graph must give the answers, one for each output; `case_name` and the names of outputs of `scales` (or NULL) say
   how closely (fixture.h). `find` gives inputs by name. Everything is copied. */
void compiled_oracle_add(const char *case_name, const flx_graph *g, bundle_find find, const void *user,
                         flx_tensor *const *answers, const flx_graph *scales);

/* Outputs 0, 2, 4 … of a graph without inputs, as a graph whose constants are inputs, so that nothing is computed
   before it runs. oracle_constant() finds their values by name in `constants`. NULL, and nothing to release: they are
   too many. */
flx_graph *oracle_open(const flx_graph *g, flx_graph **constants);
const flx_tensor *oracle_constant(const void *constants, const char *name);

/* The same for outputs 0, 2, 4 … of such a graph, whose answers are the others. */
void compiled_oracle_add_pairs(const flx_graph *g, flx_tensor *const *outputs);

/* Compiles and compares what was added since the last time. */
void compiled_oracle_end(void);

#endif
