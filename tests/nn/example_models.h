/* SPDX-License-Identifier: Apache-2.0 */
/* example_models.h: the graphs that the examples of the same names build. Each example is compiled into the tests by a
   file of its own, with its main() renamed. */
#ifndef TESTS_NN_EXAMPLE_MODELS_H
#define TESTS_NN_EXAMPLE_MODELS_H

#include <fluxion/fluxion.h>

flx_graph *example_gpt2(flx_context *ctx, flx_dtype dtype);
flx_graph *example_llama(flx_context *ctx, flx_dtype dtype);
flx_graph *example_energy(flx_context *ctx, flx_dtype dtype); /* of examples/forces.c: no loss yet */

#endif
