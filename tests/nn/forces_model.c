/* SPDX-License-Identifier: Apache-2.0 */
/* forces_model.c: the graph of examples/forces.c. */
#include "example_models.h"

int forces_main(void);

#define main forces_main
#include "../../examples/forces.c"

flx_graph *example_energy(flx_context *ctx, flx_dtype dtype)
{
    return build_energy(ctx, dtype);
}
