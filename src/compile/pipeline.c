/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.c: the passes over one graph in order; flxi_program_compile() (program.c) continues from there to code.
   Reading these two is reading the compiler. */
#include "compile/pipeline.h"

#include "autodiff/autodiff.h"
#include "ops/control/control.h"
#include "ops/express/express.h"
#include "passes/calls.h"
#include "passes/hoist/hoist_scan.h"
#include "passes/hoist/reuse_steps.h"
#include "passes/lower_composites.h"

/* ---- Passes ---- */

enum { FEW = 32 }; /* no rule and no device has more operands or results */

/* Whether the device computes the node itself. */
static bool has_way(const flxi_device *device, const flx_graph *g, const flxi_node *n, const flx_type *const *in)
{
    const flx_type *out[FEW];
    flxi_device_node node = {.ctx = g->ctx,
                             .op = n->op,
                             .attrs = n->attrs,
                             .nin = n->nin,
                             .nout = n->nout,
                             .in_types = in,
                             .out_types = out};
    flxi_node_way way = {0};
    for (uint32_t k = 0; k < n->nout && k < FEW; k++)
        out[k] = flxi_type_at(g, n->first + k);
    if (n->nout >= 1 && n->nout <= FEW)
        device->accept_node(&node, 1, &way);
    return way.code;
}

/* Ops that no kernel computes and that consist of others. */
static bool is_composite(const flx_graph *g, uint32_t i, const void *user)
{
    const flxi_node *n = flxi_node_at(g, i);
    const flxi_op *op = &flxi_ops[n->op];
    const flx_type *in[FEW];
    if (!op->rules->decompose)
        return false;
    for (uint32_t k = 0; k < n->nin && k < FEW; k++)
        in[k] = flxi_type_at(g, n->in[k]);
    const flxi_device *device = user;
    if (n->nin > FEW || (op->rules->fold && flxi_wants_splitting(g, i, device->free_extents)))
        return true;
    return (n->nout != 1 || !flxi_can_express(op, n->attrs, in, n->nin)) && !has_way(device, g, n, in);
}

/* A pass that asks the device. */
typedef flx_code (*device_pass)(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                                flx_error *err);

static flx_code pass_decompose(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                               flx_error *err)
{
    return flxi_decompose(in, is_composite, device, out, remap, err);
}

/* A pass, of one kind or the other. */
typedef struct {
    flxi_pass plain;
    device_pass asking;
} pass;

static flx_code run_pass(const pass *p, const flxi_device *device, const flx_graph *in, flx_graph **out,
                         flxi_remap *remap, flx_error *err)
{
    return p->plain ? p->plain(in, out, remap, err) : p->asking(device, in, out, remap, err);
}

static flx_code run_passes(const pass *list, size_t n, const flxi_device *device, const flx_graph *in, flx_graph **out,
                           flxi_remap *remap, flx_error *err)
{
    flx_graph *now = NULL;
    flxi_remap total = {0};
    for (size_t i = 0; i < n; i++) {
        flx_graph *next = NULL;
        flxi_remap step = {0};
        flx_code code = run_pass(&list[i], device, now ? now : in, &next, &step, err);
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

/* The body of a scan as its nodes can be distinguished: no blocks, no composites. */
static flx_code prepare_body(const void *user, const flx_graph *in, flx_graph **out, flx_error *err)
{
    static const pass list[] = {
        {flxi_pass_lower, NULL}, {flxi_pass_drop_stops, NULL}, {flxi_simplify, NULL}, {NULL, pass_decompose}};
    return run_passes(list, sizeof list / sizeof *list, user, in, out, NULL, err);
}

static flx_code hoist(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                      flx_error *err)
{
    return flxi_hoist_scans(in, prepare_body, device, out, remap, err);
}

static flx_code reuse(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                      flx_error *err)
{
    return flxi_reuse_steps(in, prepare_body, device, out, remap, err);
}

/* What has left the loops is simplified and decomposed like the rest. */
static flx_code pass_hoist(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                           flx_error *err)
{
    static const pass list[] = {{NULL, reuse}, {NULL, hoist}, {flxi_simplify, NULL}, {NULL, pass_decompose}};
    bool has_scan = false;
    for (uint32_t i = 0; i < in->node_count && !has_scan; i++)
        has_scan = flxi_scan_attrs(flxi_node_at(in, i)) != NULL;
    return run_passes(list, has_scan ? sizeof list / sizeof *list : 1, device, in, out, remap, err);
}

/* For the host's memory, caches and threads alone. */
static flx_code on_host(flxi_pass run, const flxi_device *device, const flx_graph *in, flx_graph **out,
                        flxi_remap *remap, flx_error *err)
{
    return (device->uses_host_memory ? run : flxi_pass_dce)(in, out, remap, err);
}

static flx_code pass_block_rows(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                                flx_error *err)
{
    return on_host(flxi_pass_block_rows, device, in, out, remap, err);
}

static flx_code pass_join_scatters(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                                   flx_error *err)
{
    return on_host(flxi_pass_join_scatters, device, in, out, remap, err);
}

static flx_code pass_channels_last(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                                   flx_error *err)
{
    return on_host(flxi_pass_channels_last, device, in, out, remap, err);
}

static flx_code pass_repeat_casts(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                                  flx_error *err)
{
    return on_host(flxi_pass_repeat_casts, device, in, out, remap, err);
}

/* A card reads and writes whole arrays at the speed of its memory; caches of the host have them already. */
static flx_code pass_narrow_sums(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                                 flx_error *err)
{
    return device->uses_host_memory ? flxi_pass_dce(in, out, remap, err) : flxi_pass_narrow_sums(in, out, remap, err);
}

static bool has_own_way(const flx_graph *g, uint32_t i, const void *user)
{
    const flxi_node *n = flxi_node_at(g, i);
    const flx_type *in[FEW];
    for (uint32_t k = 0; k < n->nin && k < FEW; k++)
        in[k] = flxi_type_at(g, n->in[k]);
    return n->nin <= FEW && has_way(user, g, n, in);
}

static flx_code pass_join_cotangents(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                                     flx_error *err)
{
    return flxi_join_cotangents(in, has_own_way, device, out, remap, err);
}

static flx_code pass_widen_products(const flxi_device *device, const flx_graph *in, flx_graph **out, flxi_remap *remap,
                                    flx_error *err)
{
    return flxi_widen_products(in, has_own_way, device, out, remap, err);
}

static flx_code pass_split_reductions(const flxi_device *device, const flx_graph *in, flx_graph **out,
                                      flxi_remap *remap, flx_error *err)
{
    return flxi_split_reductions(in, device->free_extents, out, remap, err);
}

/* name, function, whether it pays only if nodes are grouped into kernels; --stage prints the graph after them. */
static const struct {
    const char *name;
    pass pass;
    bool is_for_groups;
} passes[] = {
    {"prune calls", {flxi_pass_prune_calls, NULL}, false},
    {"inline calls", {flxi_pass_inline_calls, NULL}, false},
    {"lower", {flxi_pass_lower, NULL}, false},
    {"drop stops", {flxi_pass_drop_stops, NULL}, false},
    {"simplify", {flxi_simplify, NULL}, false},
    {"join cotangents", {NULL, pass_join_cotangents}, false},
    {"whole windows", {flxi_pass_whole_windows, NULL}, false},
    {"decompose", {NULL, pass_decompose}, false},
    {"hoist", {NULL, pass_hoist}, false},
    {"join scatters", {NULL, pass_join_scatters}, false},
    {"channels last", {NULL, pass_channels_last}, true},
    {"choose along", {flxi_pass_choose_along, NULL}, true},
    {"narrow positions", {flxi_pass_narrow_positions, NULL}, true},
    {"block rows", {NULL, pass_block_rows}, true},
    {"narrow sums", {NULL, pass_narrow_sums}, true},
    {"multiply unsummed", {flxi_pass_multiply_unsummed, NULL}, false},
    {"absorb transposes", {flxi_pass_absorb_transposes, NULL}, false},
    {"spread products", {flxi_pass_spread_products, NULL}, true},
    {"split components", {flxi_pass_split_components, NULL}, true},
    {"widen products", {NULL, pass_widen_products}, false},
    {"split reductions", {NULL, pass_split_reductions}, false},
    {"cut sums", {flxi_pass_cut_sums, NULL}, false},
    {"simplify", {flxi_simplify, NULL}, false},
    {"order", {flxi_pass_order, NULL}, false},
    {"repeat casts", {NULL, pass_repeat_casts}, true},
};

enum { NUM_PASSES = sizeof passes / sizeof *passes };

const char *flxi_compile_pass_name(size_t i)
{
    return i < NUM_PASSES ? passes[i].name : NULL;
}

flx_code flxi_compile_pass(size_t i, const flxi_device *device, const flx_graph *in, flx_graph **out, flx_error *err)
{
    return run_pass(&passes[i].pass, device, in, out, NULL, err);
}

/* No pass is needed for the result: one that fails because of a defect is left out. */
static bool leaves_out(const flx_graph *g, size_t i, flx_code code, const flx_error *why, bool *left_out)
{
    if (code != FLX_E_INTERNAL)
        return false;
    *left_out = true;
    flxi_log(g->ctx, FLX_LOG_REFUSED, g->name, "the pass '%s' was left out: %.300s", passes[i].name, why->message);
    return true;
}

flx_code flxi_optimise(const flx_graph *g, const flxi_device *device, bool groups, flx_graph **out, bool *left_out,
                       flx_error *err)
{
    flx_graph *now = NULL;
    for (size_t i = 0; i < NUM_PASSES; i++) {
        if (passes[i].is_for_groups && !groups)
            continue;
        flx_graph *next = NULL;
        flx_error why = {0};
        flx_code code = flxi_compile_pass(i, device, now ? now : g, &next, &why);
        if (leaves_out(g, i, code, &why, left_out))
            continue;
#ifdef FLX_DEBUG
        if (code == FLX_OK)
            code = flxi_verify(next, &why);
#endif
        flx_graph_release(now);
        now = next;
        if (code != FLX_OK) {
            flx_graph_release(now);
            if (err)
                *err = why;
            return code;
        }
    }
    *out = now;
    return now ? FLX_OK : flxi_pass_dce(g, out, NULL, err);
}

flx_code flxi_routine_compile(flxi_program *m, const flx_graph *g, flxi_routine **out, flx_error *err)
{
    flx_graph *optimised;
    bool groups = !m->grouping.evaluate_all && !m->grouping.keep_apart;
    FLXI_TRY(flxi_optimise(g, m->device, groups, &optimised, &m->is_slow, err));
    return flxi_routine_build(m, optimised, NULL, out, err);
}
