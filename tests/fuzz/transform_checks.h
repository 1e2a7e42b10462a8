/* SPDX-License-Identifier: Apache-2.0 */
/* transform_checks.h: what must hold for every graph that a reader accepts when it is used: each transform gives a
   graph that verifies and reads back, or an error with a message; a run ends, and so does one of the compiled graph
   without machine code. INTERNAL is never an answer. */
#ifndef FLX_FUZZ_TRANSFORM_CHECKS_H
#define FLX_FUZZ_TRANSFORM_CHECKS_H

#include "fuzz_checks.h"

#include <fluxion/stablehlo.h>
#include <stdio.h>

enum { MAX_USED_NODES = 300, MAX_DERIVED_NODES = 3000, MAX_WRT = 4, MAX_USED_ELEMENTS = 4096 };

/* Work that takes longer is ended; then the answer is TIMEOUT. */
static const double use_seconds = 2.0;

/* An error as it should be. */
static inline void check_refusal(const flx_error *err)
{
    if (err->code == FLX_E_INTERNAL || err->code == FLX_OK || !err->message[0])
        fprintf(stderr, "%s: %s (%s)\n", flx_code_name(err->code), err->message, err->where);
    need(err->code != FLX_OK && err->code != FLX_E_INTERNAL && err->message[0]);
}

/* A transform's result, which is released. */
static inline void check_made(flx_graph *made, const flx_error *err)
{
    flx_error wrong = {0};
    if (!made) {
        check_refusal(err);
        return;
    }
    if (flx_graph_verify(made, &wrong) != FLX_OK)
        fprintf(stderr, "%s: %s (%s)\n", flx_code_name(wrong.code), wrong.message, wrong.where);
    need(wrong.code == FLX_OK);
    if (flx_graph_node_count(made) <= MAX_DERIVED_NODES) {
        flx_stop *stop = flx_stop_use(NULL); /* reading back is not part of the work that may be ended */
        check_text(made);
        check_bytes(made);
        flx_stop_use(stop);
    }
    flx_graph_release(made);
}

static inline size_t count_nodes(const flx_graph *g)
{
    size_t n = g->node_count;
    for (size_t i = 0; i < g->bodies.n && n <= MAX_USED_NODES; i++)
        n += count_nodes(g->bodies.at[i]);
    return n;
}

static inline size_t float_inputs(const flx_graph *g, const char **names)
{
    size_t n = 0;
    for (size_t i = 0; i < flx_graph_input_count(g) && n < MAX_WRT; i++) {
        flx_val v = flx_graph_input(g, i);
        int32_t dtype = flx_val_type(g, v)->dtype;
        if (dtype >= FLX_F64 && dtype <= FLX_C128)
            names[n++] = flx_val_name(g, v);
    }
    return n;
}

static inline void check_derivatives_of(const flx_graph *g)
{
    const char *wrt[MAX_WRT];
    flx_error err = {0};
    flx_grad_options seeded = {.flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO};
    flx_grad_options zero = {.flags = FLX_GRAD_VALUE | FLX_GRAD_MISSING_ZERO};
    size_t n = float_inputs(g, wrt);
    if (n == 0)
        return;
    flx_graph *made = flx_grad(g, wrt, n, &seeded, &err);
    check_made(made, &err);
    made = flx_grad(g, wrt, n, &zero, &err);
    check_made(made, &err);
    made = flx_jvp(g, wrt, n, &err);
    check_made(made, &err);
    made = flx_hvp(g, wrt, n, &zero, &err);
    check_made(made, &err);
    made = flx_taylor(g, wrt, n, 2, &err);
    check_made(made, &err);
    made = flx_jacobian(g, wrt, n, NULL, &err);
    check_made(made, &err);
}

static inline void check_batches_of(const flx_graph *g)
{
    flx_vmap_axis axes[MAX_INPUTS];
    flx_error err = {0};
    size_t n = flx_graph_input_count(g) < MAX_INPUTS ? flx_graph_input_count(g) : MAX_INPUTS;
    for (size_t i = 0; i < n; i++)
        axes[i] = (flx_vmap_axis){flx_val_name(g, flx_graph_input(g, i)), i % 3 == 2 ? FLX_NO_AXIS : i % 2 ? -1 : 0};
    flx_graph *made = flx_vmap(g, axes, n, NULL, 0, 2, &err);
    check_made(made, &err);
}

static inline void check_other_transforms_of(const flx_graph *g)
{
    flx_error err = {0};
    flx_graph *made = flx_simplify(g, &err);
    check_made(made, &err);
    made = flx_widen(g, &err);
    check_made(made, &err);
    for (int policy = FLX_POLICY_DIRECT; policy <= FLX_POLICY_FOR_AUTODIFF; policy++) {
        made = flx_lower(g, (flx_policy)policy, &err);
        check_made(made, &err);
    }
    made = flx_rewrite_patterns(g, &(flx_rewrite_options){.flags = FLX_REWRITE_REGIONS}, NULL, &err);
    check_made(made, &err);
}

/* What is exported can be imported. */
static inline void check_export_of(const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer text = {0};
    if (flx_export_stablehlo(g, &text, &err) != FLX_OK) {
        check_refusal(&err);
        return;
    }
    flx_module *back = flx_import_stablehlo(flx_graph_context(g), text.data, text.size, "exported", &err);
    if (!back && err.code != FLX_E_TIMEOUT && err.code != FLX_E_SIZE)
        fprintf(stderr, "%s: %s (%s)\n%.*s\n", flx_code_name(err.code), err.message, err.where, (int)text.size,
                text.data);
    need(back || err.code == FLX_E_TIMEOUT || err.code == FLX_E_SIZE);
    flx_module_free(back);
    flx_buffer_free(&text);
}

/* ---- Running ---- */

static inline int has_small_inputs(const flx_graph *g)
{
    int64_t sum = 0;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        int64_t count;
        if (!flxi_static_count(flx_val_type(g, flx_graph_input(g, i)), &count) || count > MAX_USED_ELEMENTS)
            return 0;
        sum += count;
    }
    return flx_graph_input_count(g) <= MAX_INPUTS && flx_graph_output_count(g) <= MAX_OUTPUTS &&
           sum <= MAX_USED_ELEMENTS;
}

static inline void check_run(flx_code code, flx_error *err, size_t n, flx_tensor **out)
{
    if (code != FLX_OK) {
        check_refusal(err);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        need(out[i] != NULL);
        flx_tensor_release(out[i]);
    }
}

static inline void check_runs_of(const flx_graph *g)
{
    flx_feed feeds[MAX_INPUTS];
    flx_tensor *in[MAX_INPUTS], *out[MAX_OUTPUTS];
    flx_error err = {0};
    size_t n = flx_graph_input_count(g), outputs = flx_graph_output_count(g);
    if (!has_small_inputs(g))
        return;
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        in[i] = awkward(flx_graph_context(g), flx_val_type(g, v), (unsigned)i);
        feeds[i] = (flx_feed){flx_val_name(g, v), in[i]};
    }
    flx_run_options by_definition = {.device = "ref", .time_limit = use_seconds};
    flx_code code = flx_run(g, &by_definition, feeds, n, out, &err);
    check_run(code, &err, outputs, out);
    flx_compile_options interpreted = {
        .flags = FLX_COMPILE_INTERPRET, .device = "cpu", .threads = 1, .time_limit = use_seconds};
    flx_exec *e = flx_compile(g, &interpreted, &err);
    if (!e)
        check_refusal(&err);
    flx_run_options limited = {.time_limit = use_seconds};
    for (int round = 0; e && round < 2; round++) {
        code = flx_exec_run(e, &limited, feeds, n, out, &err);
        check_run(code, &err, outputs, out);
    }
    flx_exec_free(e);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(in[i]);
}

/* ---- All of it ---- */

/* The graph with small extents for its symbols; NULL when that is refused. The caller releases it. */
static inline flx_graph *with_small_extents(const flx_graph *g)
{
    flx_dim_binding dims[MAX_WRT];
    flx_error err = {0};
    size_t n = 0;
    for (; n < MAX_WRT && flx_graph_symbol(g, n); n++)
        dims[n] = (flx_dim_binding){flx_graph_symbol(g, n), (int64_t)(2 + n)};
    flx_graph *bound = flx_specialise(g, dims, n, &err);
    if (!bound)
        check_refusal(&err);
    return bound;
}

static inline void check_uses(const flx_graph *g)
{
    flx_error err = {0};
    if (count_nodes(g) > MAX_USED_NODES)
        return;
    flx_stop *stop = flx_stop_new(flx_graph_context(g), use_seconds, &err);
    need(stop != NULL);
    flx_stop_use(stop);
    check_other_transforms_of(g);
    check_derivatives_of(g);
    check_batches_of(g);
    flx_graph *bound = with_small_extents(g);
    if (bound) {
        check_export_of(bound);
        check_runs_of(bound);
    }
    flx_graph_release(bound);
    flx_stop_use(NULL);
    flx_stop_free(stop);
}

#endif
