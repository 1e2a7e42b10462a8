/* SPDX-License-Identifier: Apache-2.0 */
/* gpt2_model.c: the graph of examples/gpt2.c. */
#include "example_models.h"

int gpt2_main(void);

#define main gpt2_main
#include "../../examples/gpt2.c"

flx_graph *example_gpt2(flx_context *ctx, flx_dtype dtype)
{
    return build_gpt2(ctx, dtype);
}
