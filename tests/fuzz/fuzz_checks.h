/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_checks.h: what must hold for every graph, however it was made: it verifies, reads back from text and bytes, and
   runs within its buffers. A check that fails ends the process, which the fuzzer reports. */
#ifndef FLX_FUZZ_CHECKS_H
#define FLX_FUZZ_CHECKS_H

#include "passes/pass.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The allocator of contexts; NULL: the C library's. */
#ifndef FUZZ_ALLOC
#define FUZZ_ALLOC NULL
#endif

#define need(condition) need_at((condition), #condition, __FILE__, __LINE__)

static inline void need_at(int holds, const char *condition, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

/* ---- Reading back ---- */

static inline void check_text(const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer once = {0};
    flx_buffer twice = {0};
    need(flx_graph_print(g, &once, &err) == FLX_OK);
    flx_module *again = flx_parse(flx_graph_context(g), once.data, once.size, "printed", &err);
    need(again && flx_graph_hash(flx_module_main(again)) == flx_graph_hash(g));
    need(flx_graph_print(flx_module_main(again), &twice, &err) == FLX_OK);
    need(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    flx_buffer_free(&once);
    flx_buffer_free(&twice);
    flx_module_free(again);
}

static inline void check_bytes(const flx_graph *g)
{
    flx_error err = {0};
    flx_buffer bytes = {0};
    need(flx_graph_encode(g, &bytes, &err) == FLX_OK);
    flx_module *m = flx_decode(flx_graph_context(g), bytes.data, bytes.size, "encoded", &err);
    need(m && flx_graph_hash(flx_module_main(m)) == flx_graph_hash(g));
    flx_module_free(m);
    flx_buffer_free(&bytes);
}

static inline void check_graph(const flx_graph *g)
{
    flx_error err = {0};
    need(flx_graph_verify(g, &err) == FLX_OK);
    check_text(g);
    check_bytes(g);
}

/* A pass returns a graph that verifies and has the same signature, or an error with a message. */
static inline void check_passes(const flx_graph *g)
{
    static const flxi_pass passes[] = {flxi_pass_dce, flxi_pass_cse, flxi_simplify};
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        flx_error err = {0};
        flx_graph *out = NULL;
        flxi_remap remap = {0};
        need(passes[i](g, &out, &remap, &err) == FLX_OK);
        need(flx_graph_verify(out, &err) == FLX_OK);
        need(out->leaves.n == g->leaves.n && out->outputs.n == g->outputs.n && remap.n == g->value_count + 1u);
        for (size_t k = 0; k < g->outputs.n; k++)
            need(flxi_type_equal(flxi_type_at(g, g->outputs.at[k].val), flxi_type_at(out, out->outputs.at[k].val)));
        flxi_remap_free(&remap);
        flx_graph_release(out);
    }
}

/* ---- Running ---- */

enum { MAX_NODES = 48, MAX_ELEMENTS = 300, MAX_OUTPUTS = 16, MAX_INPUTS = 16 };

/* Whether the work of a run is bounded by the sizes of operands and results, and these are small. */
static inline int is_cheap(const flx_graph *g)
{
    const unsigned cheap = 1u << CLASS_LEAF | 1u << CLASS_POINTWISE | 1u << CLASS_REDUCE | 1u << CLASS_AXIS |
                           1u << CLASS_SHAPE | 1u << CLASS_INDEX | 1u << CLASS_IDENTITY;
    if (g->node_count > MAX_NODES || g->leaves.n > MAX_INPUTS || g->outputs.n > MAX_OUTPUTS || g->bodies.n)
        return 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (!(cheap >> flxi_ops[flxi_node_at(g, i)->op].op_class & 1) || flxi_node_at(g, i)->nin > 32)
            return 0;
    for (uint32_t id = 1; id <= g->value_count; id++) {
        int64_t count;
        if (!flxi_static_count(flxi_type_at(g, id), &count) || count > MAX_ELEMENTS)
            return 0;
    }
    return 1;
}

/* Values that ops find awkward. */
static inline flx_tensor *awkward(flx_context *ctx, const flx_type *type, unsigned salt)
{
    static const double values[] = {0.0, 1.0, -1.0, 2.5, 1e30, -3.0, (double)INFINITY, 7.0, 1e-40, -0.0, (double)NAN};
    flx_type wide = *type;
    wide.dtype = FLX_F64;
    flx_tensor *w = flx_tensor_new(ctx, &wide, NULL, NULL);
    need(w != NULL);
    double *x = flx_tensor_data(w);
    for (int64_t i = 0; i < flx_tensor_count(w); i++)
        x[i] = values[(salt * 7 + (unsigned)i * 3) % 11];
    flx_tensor *t = flx_tensor_cast(w, (flx_dtype)type->dtype, NULL);
    need(t != NULL);
    flx_tensor_release(w);
    return t;
}

static inline void run_on_awkward_values(const flx_graph *g)
{
    flx_error err = {0};
    flx_feed feeds[MAX_INPUTS];
    flx_tensor *in[MAX_INPUTS];
    flx_tensor *out[MAX_OUTPUTS];
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        in[i] = awkward(flx_graph_context(g), flx_val_type(g, v), (unsigned)i);
        feeds[i] = (flx_feed){flx_val_name(g, v), in[i]};
    }
    flx_code code = flx_run(g, &(flx_run_options){.device = "ref"}, feeds, n, out, &err);
    need(code != FLX_E_INTERNAL);
    for (size_t i = 0; code == FLX_OK && i < flx_graph_output_count(g); i++)
        flx_tensor_release(out[i]);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(in[i]);
}

#endif
