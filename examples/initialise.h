/* SPDX-License-Identifier: Apache-2.0 */
/* initialise.h: initialises the parameters of a trainer, each as the graph says; shared by the examples that train
   networks of fluxion/nn.h. */
#ifndef INITIALISE_H
#define INITIALISE_H

#include <fluxion/fluxion.h>
#include <fluxion/nn.h>

/* `g` is the loss that the trainer was compiled from. */
static flx_code initialise(flx_context *ctx, const flx_graph *g, flx_trainer *t, flx_error *err)
{
    flx_code code = FLX_OK;
    for (size_t i = 0; code == FLX_OK && i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        const char *name = flx_val_name(g, v);
        if (!flx_graph_input_is_param(g, i))
            continue;
        flx_tensor *x = flx_init_tensor(ctx, flx_val_type(g, v), flx_graph_input_init(g, i), 100 + i, err);
        code = x ? flx_trainer_set_param(t, name, x, err) : (flx_code)err->code;
        flx_tensor_release(x);
    }
    return code;
}

#endif
