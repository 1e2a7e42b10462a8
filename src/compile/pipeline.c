/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c: the compiler. flxi_routine_compile() lists the passes over one graph in order; flxi_program_compile()
   goes from a graph to machine code. Reading these two is reading the compiler. */
#include "compile/pipeline.h"

#include "autodiff/autodiff.h"
#include "graph/op/opcode.h"
#include "ops/express/express.h"
#include "passes/hoist/hoist_scan.h"
#include "passes/lower_blocks.h"

/* ---- Passes ---- */

enum { FEW = 32 }; /* no rule or route takes more operands */

static bool has_route(const flx_graph *g, const flxi_node *n, const flx_type *const *in)
{
    const flx_type *out = flxi_type_at(g, n->first);
    flxi_route_node node = {
        .op = n->op, .attrs = n->attrs, .nin = n->nin, .nout = n->nout, .in_types = in, .out_types = &out};
    return n->nout == 1 && flxi_route_find(&node, NULL);
}

/* Ops that no kernel computes and that consist of others. */
static bool is_composite(const flx_graph *g, uint32_t i, const void *user)
{
    const flxi_node *n = flxi_node_at(g, i);
    const flxi_op *op = &flxi_ops[n->op];
    const flx_type *in[FEW];
    (void)user;
    if (!op->rules->decompose)
        return false;
    for (uint32_t k = 0; k < n->nin && k < FEW; k++)
        in[k] = flxi_type_at(g, n->in[k]);
    if (n->nin > FEW || (op->rules->fold && flxi_wants_splitting(g, i)))
        return true;
    return (n->nout != 1 || !flxi_can_express(op, n->attrs, in, n->nin)) && !has_route(g, n, in);
}

static flx_code pass_decompose(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    return flxi_decompose(in, is_composite, NULL, out, remap, err);
}

static flx_code run_passes(const flxi_pass *list, size_t n, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                           flx_error *err)
{
    flx_graph *now = NULL;
    flxi_remap total = {0};
    for (size_t i = 0; i < n; i++) {
        flx_graph *next = NULL;
        flxi_remap step = {0};
        flx_code code = list[i](now ? now : in, &next, &step, err);
        flx_graph_release(now);
        now = next;
        if (code != FLX_OK) {
            flxi_remap_free(&total);
            return code;
        }
        if (i == 0) {
            total = step;
            continue;
        }
        flxi_remap_compose(&total, &step);
        flxi_remap_free(&step);
    }
    *out = now;
    if (remap)
        *remap = total;
    else
        flxi_remap_free(&total);
    return FLX_OK;
}

/* The body of a scan as its nodes can be told apart: no blocks, no composites. */
static flx_code prepare_body(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    static const flxi_pass list[] = {flxi_pass_lower, flxi_simplify, pass_decompose};
    return run_passes(list, sizeof list / sizeof *list, in, out, remap, err);
}

static flx_code hoist(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    return flxi_hoist_scans(in, prepare_body, out, remap, err);
}

/* What has left the loops is simplified and decomposed like the rest. */
static flx_code pass_hoist(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    static const flxi_pass list[] = {hoist, flxi_simplify, pass_decompose};
    bool has_scan = false;
    for (uint32_t i = 0; i < in->node_count && !has_scan; i++)
        has_scan = flxi_node_at(in, i)->op == OP_scan;
    return run_passes(list, has_scan ? sizeof list / sizeof *list : 1, in, out, remap, err);
}

/* name, function, whether it pays only if nodes are fused into kernels; --stage prints the graph after them. */
static const struct {
    const char *name;
    flxi_pass run;
    bool is_for_fusion;
} passes[] = {
    {"lower", flxi_pass_lower, false},
    {"simplify", flxi_simplify, false},
    {"decompose", pass_decompose, false},
    {"hoist", pass_hoist, false},
    {"absorb transposes", flxi_pass_absorb_transposes, false},
    {"spread products", flxi_pass_spread_products, true},
    {"split reductions", flxi_pass_split_reductions, false},
    {"simplify", flxi_simplify, false},
    {"order", flxi_pass_order, false},
};

enum { NUM_PASSES = sizeof passes / sizeof *passes };

flxi_pass flxi_compile_pass(size_t i, const char **name)
{
    if (i >= NUM_PASSES)
        return NULL;
    *name = passes[i].name;
    return passes[i].run;
}

flx_code flxi_optimise(const flx_graph *g, bool fuses, flx_graph **out, flx_error *err)
{
    flx_graph *now = NULL;
    for (size_t i = 0; i < NUM_PASSES; i++) {
        if (passes[i].is_for_fusion && !fuses)
            continue;
        flx_graph *next = NULL;
        flx_code code = passes[i].run(now ? now : g, &next, NULL, err);
#ifdef FLX_DEBUG
        if (code == FLX_OK)
            code = flxi_verify(next, err);
#endif
        flx_graph_release(now);
        now = next;
        if (code != FLX_OK) {
            flx_graph_release(now);
            return code;
        }
    }
    *out = now;
    return FLX_OK;
}

flx_code flxi_routine_compile(flxi_program *m, const flx_graph *g, flxi_routine **out, flx_error *err)
{
    flx_graph *optimised;
    bool fuses = !m->fusion.evaluate_all && !m->fusion.keep_apart;
    FLXI_TRY(flxi_optimise(g, fuses, &optimised, err));
    return flxi_routine_build(m, optimised, out, err);
}

/* ---- Kernels of a module ---- */

flx_code flxi_program_keep(flxi_program *m, const flxi_group_kernel *r, uint32_t *number, flx_error *err)
{
    flxi_program_kernel k = {.kernel = r->kernel};
    flx_code code = flx_kernel_encode(r->kernel, &k.wire, err);
    if (code != FLX_OK) {
        flx_kernel_release(r->kernel);
        return code;
    }
    k.hash = flxi_hash_bytes(FLXI_HASH_SEED, k.wire.data, k.wire.size);
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&m->index, k.hash); flxi_index_next(&m->index, &p, &i);)
        if (m->kernels.at[i].wire.size == k.wire.size &&
            memcmp(m->kernels.at[i].wire.data, k.wire.data, k.wire.size) == 0) {
            flx_kernel_release(r->kernel);
            flx_buffer_free(&k.wire);
            *number = i;
            return FLX_OK;
        }
    k.reads_in_place = flxi_dup(&m->arena, bool, r->reads_in_place, r->num_values);
    *number = (uint32_t)m->kernels.n;
    if (k.reads_in_place && flxi_index_add(m->mem, &m->index, k.hash, *number) && flxi_push(m->mem, &m->kernels, k))
        return FLX_OK;
    flx_kernel_release(r->kernel);
    flx_buffer_free(&k.wire);
    return flxi_oom(err, "kernels");
}

static flx_code build_kernels(flxi_program *m, flxi_compile_service *s, const flxi_native_options *o, flx_error *err)
{
    flx_kernel **list = flxi_new(&m->arena, flx_kernel *, m->kernels.n);
    m->native = flxi_new(&m->arena, flxi_native, m->kernels.n);
    if (!list || !m->native)
        return flxi_oom(err, "kernels");
    for (size_t i = 0; i < m->kernels.n; i++)
        list[i] = m->kernels.at[i].kernel;
    flxi_native_program p = {.kernels = list, .n = m->kernels.n};
    FLXI_TRY(flxi_program_chains(m, o->is_scalar, &p.chains, &p.num_chains, err));
    return flxi_native_build(s, &p, o, m->native, &m->code, err);
}

/* ---- The whole ---- */

flx_code flxi_program_compile(flxi_program *m, const flx_graph *g, flxi_compile_service *s,
                              const flxi_native_options *o, flx_error *err)
{
    FLXI_TRY(flxi_routine_compile(m, g, &m->main, err));
    flxi_routine_share(m, m->main, m->shares, m->num_shares);
    FLXI_TRY(build_kernels(m, s, o, err));
    FLXI_TRY(flxi_routine_explain(m, m->main, err));
    return flxi_routine_plan(m, m->main, err);
}

void flxi_program_init(flxi_program *m, flx_context *ctx)
{
    *m = (flxi_program){.ctx = ctx, .mem = flxi_context_mem(ctx), .threads = 1};
    flxi_arena_init(&m->arena, m->mem);
}

void flxi_program_free(flxi_program *m)
{
    flxi_routine_free(m->main);
    for (size_t i = 0; i < m->kernels.n; i++) {
        flx_kernel_release(m->kernels.at[i].kernel);
        flx_buffer_free(&m->kernels.at[i].wire);
    }
    flxi_vec_free(m->mem, &m->kernels);
    flxi_vec_free(m->mem, &m->places);
    flxi_index_free(m->mem, &m->index);
    flxi_native_free(m->code);
    flxi_arena_free(&m->arena);
}
