/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c: a graph at each stage of compiling, as text. */
#include "backend/devices.h"
#include "compile/budget/fit_memory.h"
#include "passes/pass.h"
#include "runtime/exec.h"

/* A symbol without extent, or NULL. */
static const char *free_symbol(const flx_graph *g, const flx_compile_options *o)
{
    for (size_t i = 0; i < g->symbols.n; i++) {
        bool is_bound = false;
        for (size_t k = 0; k < o->num_dims; k++)
            is_bound |= strcmp(o->dims[k].name, g->symbols.at[i]) == 0;
        if (!is_bound)
            return g->symbols.at[i];
    }
    return NULL;
}

static flx_code bind_dims(const flx_graph *g, const flx_compile_options *o, flx_graph **out, flx_error *err)
{
    const char *symbol = free_symbol(g, o);
    if (symbol)
        return flxi_fail_hint(err, FLX_E_UNBOUND_DIM, "give it with --set, or in flx_compile_options.dims",
                              "the dimension %s has no extent", symbol);
    return flxi_specialise(g, o->dims, o->num_dims, out, NULL, err);
}

/* What can be said while there are no extents: the passes need them, lowering does not. */
static flx_code show_lowered(const flx_graph *g, const flx_compile_options *o, flx_buffer *out, flx_error *err)
{
    flx_graph *bound;
    FLXI_TRY(flxi_specialise(g, o->dims, o->num_dims, &bound, NULL, err));
    flx_graph *low = flx_lower(bound, FLX_POLICY_DIRECT, err);
    flx_graph_release(bound);
    if (!low)
        return err && err->code ? (flx_code)err->code : FLX_E_OOM;
    flx_code code = flx_graph_print(low, out, err);
    flx_graph_release(low);
    return code;
}

static flx_code show_program(const flx_graph *g, const flxi_device *device, flx_stage stage,
                             const flx_compile_options *o, flxi_strbuf *out, flx_error *err)
{
    flxi_program m;
    flx_compile_options plain = *o;
    plain.threads = 1; /* the text is the same on all machines */
    flxi_program_init(&m, g->ctx, device, &plain);
    flx_code code = o->memory_budget ? flxi_fit_memory(&m, g, (size_t)o->memory_budget, &m.main, err)
                                     : flxi_routine_compile(&m, g, &m.main, err);
    if (code == FLX_OK && stage == FLX_STAGE_LIR) {
        code = flxi_routine_plan(&m, m.main, err);
        if (code == FLX_OK)
            flxi_routine_print(&m, m.main, false, out);
    } else if (code == FLX_OK) {
        flxi_compile_request q = {.ctx = g->ctx, .threads = m.threads, .options = &plain};
        flxi_chain **chains = NULL;
        code = flxi_program_kernels(&m, &q, err);
        if (code == FLX_OK)
            code = flxi_program_chains(&m, &chains, &q.num_chains, err);
        q.chains = chains;
        if (code == FLX_OK)
            code = device->write_source(&q, out, err);
    }
    flxi_program_free(&m);
    return code;
}

flx_code flx_show_stage(const flx_graph *g, flx_stage stage, const flx_compile_options *options, flx_buffer *out,
                        flx_error *err)
{
    flx_compile_options o;
    const flxi_device *device;
    FLXI_TRY(flx_graph_error(g, err));
    FLXI_TRY(flxi_compile_options_read("flx_show_stage", g, options, &o, err));
    if (!out || stage < FLX_STAGE_HIR || stage > FLX_STAGE_C)
        return flxi_fail(err, FLX_E_USAGE, "flx_show_stage: a stage and where to write the text must be given");
    FLXI_TRY(flxi_device_for_showing(o.device, &device, err));
    if (stage == FLX_STAGE_C && !device->write_source)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "the device '%.40s' has no source text", device->name);
    if (stage == FLX_STAGE_HIR)
        return flx_graph_print(g, out, err);
    if (stage == FLX_STAGE_MIR && free_symbol(g, &o))
        return show_lowered(g, &o, out, err);
    flx_graph *bound = NULL, *optimised = NULL;
    FLXI_TRY(bind_dims(g, &o, &bound, err));
    flxi_strbuf text;
    flxi_strbuf_init(&text, flxi_context_mem(g->ctx));
    flx_code code = FLX_OK;
    if (stage == FLX_STAGE_MIR) {
        bool is_left_out;
        code = flxi_optimise(bound, device, true, &optimised, &is_left_out, err);
        if (code == FLX_OK)
            code = flx_graph_print(optimised, out, err);
    } else {
        code = show_program(bound, device, stage, &o, &text, err);
        if (code == FLX_OK)
            code = flxi_buffer_finish(&text, g->ctx, out, err);
        else
            flxi_strbuf_free(&text);
    }
    flx_graph_release(bound);
    flx_graph_release(optimised);
    return code;
}
