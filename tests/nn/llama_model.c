/* SPDX-License-Identifier: Apache-2.0 */
/* llama_model.c: the graph of examples/llama.c. */
#include "example_models.h"

int llama_main(void);

#define main llama_main
#include "../../examples/llama.c"

flx_graph *example_llama(flx_context *ctx, flx_dtype dtype)
{
    return build_llama(ctx, dtype);
}
