/* SPDX-License-Identifier: Apache-2.0 */
/* step_trace.c: the times of a training step that is not taken. The executable of a trainer has parameters and state as
   inputs, so it runs like any other, and its results, in memory of their own, are released. */
#include "train/params.h"

static size_t add_set(const flx_params *set, flx_feed *feeds, size_t n)
{
    for (size_t i = 0; i < flx_params_count(set); i++)
        if (flx_params_at(set, i))
            feeds[n++] = (flx_feed){flx_params_name(set, i), flx_params_at(set, i)};
    return n;
}

static flx_code trace_step(const flx_trainer *t, const flx_feed *feeds, size_t num_feeds, flxi_arena *arena,
                           flx_run_trace *trace, flx_error *err)
{
    const flx_params *params = flx_trainer_params(t), *state = flx_trainer_state(t);
    size_t n = num_feeds, outputs = flx_graph_output_count(flxi_trainer_graph(t));
    flx_feed *all = flxi_new(arena, flx_feed, n + flx_params_count(params) + flx_params_count(state));
    flx_tensor **out = flxi_new(arena, flx_tensor *, outputs);
    if (!all || !out)
        return flxi_oom(err, "the trace of a step");
    if (n)
        memcpy(all, feeds, n * sizeof *all);
    n = add_set(state, all, add_set(params, all, n));
    flx_exec *e = (flx_exec *)(uintptr_t)flx_trainer_exec(t);
    flx_code code = flx_exec_trace(e, NULL, all, n, out, trace, err);
    for (size_t i = 0; i < outputs; i++)
        flx_tensor_release(out[i]);
    return code;
}

flx_code flx_trainer_trace(flx_trainer *t, const flx_feed *feeds, size_t num_feeds, flx_run_trace *trace,
                           flx_error *err)
{
    flx_error local = {0};
    flxi_arena arena;
    if (!t || !trace || (num_feeds && !feeds))
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_trace: the trainer, feeds and a trace must be given");
    flxi_arena_init(&arena, flx_trainer_params(t)->mem);
    flx_code code = trace_step(t, feeds, num_feeds, &arena, trace, &local);
    flxi_arena_free(&arena);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
