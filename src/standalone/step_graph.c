/* SPDX-License-Identifier: Apache-2.0 */
/* step_graph.c: the step that a trainer compiles, so that a file takes the same steps. */
#include "standalone/step_graph.h"

#include "train/train.h"

flx_code flxi_sa_step_graph(const flx_graph *loss, const flx_train_options *options, flxi_arena *arena,
                            flxi_sa_step *out, flx_error *err)
{
    flx_train_options o;
    flxi_training t = {0};
    *out = (flxi_sa_step){0};
    FLXI_TRY(flxi_train_options_read(&o, options, err));
    flx_code code = flxi_training_make(&t, loss, &o, true, err);
    if (code == FLX_OK) {
        *out = (flxi_sa_step){.g = flx_graph_retain(t.g),
                              .first_state = t.first_state,
                              .num_results = t.num_results,
                              .guard = t.guard,
                              .num_updated = t.num_updated,
                              .updated = flxi_dup(arena, size_t, t.updated, t.num_updated)};
        code = out->updated ? FLX_OK : flxi_oom(err, "a training step");
    }
    flxi_training_free(&t);
    return code;
}
