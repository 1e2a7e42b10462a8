/* SPDX-License-Identifier: Apache-2.0 */
/* import_jax_calls.c: functions that programs of JAX and XLA call besides LAPACK: annotations of placement, which
   change nothing, and operations that were written as calls. */
#include "stablehlo/import/call/import_custom_call.h"
#include "stablehlo/import/import_scope.h"
#include "stablehlo/import/rule/import_linalg.h"

#include <string.h>

/* ---- Placement ---- */

static void sharding(hlo_site *s)
{
    flxi_hlo_import_pass_on(s);
    if (s->nx == 1 && !flxi_hlo_failed(s))
        s->y[0] = flxi_hlo_sharded(s->g, flxi_hlo_mesh(s), s->x[0], flxi_hlo_attr(s->op, "mhlo.sharding"));
}

/* Between whole values and parts: on one device they are the same. */
static void manual_border(hlo_site *s)
{
    if (flxi_hlo_mesh(s)->ranks > 1)
        flxi_hlo_unsupported(s,
                             "a manual computation without names of axes: JAX writes them with its Shardy partitioner");
    else
        flxi_hlo_import_pass_on(s);
}

/* ---- Operations of MHLO ---- */

static bool counts(hlo_site *s, size_t operands, size_t results)
{
    if (s->nx == operands && s->ny == results)
        return true;
    flxi_hlo_fail(s, FLX_E_ARITY, NULL, "@%.60s takes %zu operands and returns %zu results, not %zu and %zu",
                  flxi_hlo_word(s, "call_target_name", ""), operands, results, s->nx, s->ny);
    return false;
}

/* mhlo.erf and the like: our op of the same name. */
static void function(hlo_site *s)
{
    const char *name = strchr(flxi_hlo_word(s, "call_target_name", ""), '.');
    if (name && counts(s, 1, 1))
        s->y[0] = flxi_hlo_append(s, name + 1, s->x, 1);
}

static void top_k(hlo_site *s, bool largest)
{
    flx_type t;
    if (!counts(s, 1, 2) || !flxi_hlo_static_result(s, 0, &t))
        return;
    if (t.rank < 1 || t.rank != flxi_hlo_typeof(s, s->x[0])->rank) {
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "operand and values must have the same axes, at least one");
        return;
    }
    if (!largest) {
        flxi_hlo_unsupported(s, "the smallest elements");
        return;
    }
    flx_top_k(s->g, s->x[0], s->y, t.dims[t.rank - 1], -1, flxi_hlo_carrier(flxi_hlo_result_type(s, 1)));
}

static void mhlo_topk(hlo_site *s)
{
    top_k(s, !flxi_hlo_has(s, "mhlo.attributes") || flxi_hlo_member_int(s, "mhlo.attributes", "largest", 1) != 0);
}

static void xla_top_k(hlo_site *s)
{
    top_k(s, true);
}

/* Arrays, then an initial value for each: sorted by the function along one axis, of which the first top_k positions
   stay. Here nothing is approximate. */
static void approx_top_k(hlo_site *s)
{
    static const char config[] = "mhlo.backend_config";
    const hlo_function *before = flxi_hlo_called(s);
    int64_t axis = flxi_hlo_member_int(s, config, "reduction_dim", -1);
    int64_t k = flxi_hlo_member_int(s, config, "top_k", -1);
    hlo_op *op = flxi_hlo_new(s, hlo_op, 1);
    hlo_attr *values = flxi_hlo_new(s, hlo_attr, 2);
    hlo_entry *attrs = flxi_hlo_new(s, hlo_entry, 2);
    if (!before || !op || !values || !attrs || flxi_hlo_failed(s))
        return;
    if (s->nx != 2 * s->ny || s->ny == 0 || !flxi_hlo_member_int(s, config, "aggregate_to_topk", 1)) {
        flxi_hlo_unsupported(
            s,
            "an ApproxTopK whose operands are not arrays and initial values, or that keeps more than top_k elements");
        return;
    }
    values[0] = (hlo_attr){.kind = HLO_A_INT, .at = s->op->at, .integer = axis};
    values[1] = (hlo_attr){.kind = HLO_A_BOOL, .at = s->op->at, .integer = 1};
    attrs[0] = (hlo_entry){"dimension", &values[0]};
    attrs[1] = (hlo_entry){"is_stable", &values[1]};
    *op = *s->op;
    op->name = "stablehlo.sort";
    op->num_operands = s->ny;
    op->attrs = attrs;
    op->num_attrs = 2;
    op->regions = &before->body;
    op->num_regions = 1;
    flxi_hlo_import_as(s, op, s->x, s->ny);
    for (size_t i = 0; i < s->ny && !flxi_hlo_failed(s); i++)
        s->y[i] = flx_narrow(s->g, s->y[i], axis, 0, k);
}

/* ---- Matrices ---- */

static void qr(hlo_site *s)
{
    if (counts(s, 1, 2) && flxi_hlo_need_matrix(s, s->x[0]))
        flxi_hlo_reflect(s, s->x[0], &s->y[0], &s->y[1]);
}

static void reflections(hlo_site *s)
{
    const flx_type *a = s->nx ? flxi_hlo_typeof(s, s->x[0]) : NULL;
    if (counts(s, 2, 1) && flxi_hlo_need_matrix(s, s->x[0]))
        s->y[0] = flxi_hlo_reflected(s, s->x[0], s->x[1], a->dims[a->rank - 1]);
}

/* Factors, exchanges and permutation, counted from 0. */
static void lu(hlo_site *s)
{
    if (!counts(s, 1, 3))
        return;
    flx_lu(s->g, s->x[0], s->y);
    s->y[1] = flx_cast(s->g, s->y[1], FLX_I32);
    s->y[2] = flx_cast(s->g, s->y[2], FLX_I32);
}

/* Vectors and eigenvalues; the configuration begins with 1 where the lower triangle counts: "1,1,100,1e-6". */
static void eigh(hlo_site *s)
{
    flx_val pair[2];
    if (!counts(s, 1, 2) || !flxi_hlo_need_matrix(s, s->x[0]))
        return;
    flx_eigh(s->g, flxi_hlo_hermitian(s, s->x[0], flxi_hlo_word(s, "backend_config", "1")[0] == '1'), pair);
    s->y[0] = pair[1];
    s->y[1] = pair[0];
}

/* ---- Memory and random words ---- */

static void allocate(hlo_site *s)
{
    flx_type t;
    if (counts(s, 0, 1) && flxi_hlo_static_result(s, 0, &t))
        s->y[0] = flxi_hlo_fill(s, flx_scalar(s->g, (flx_dtype)t.dtype, 0), &t);
}

static flx_val rotated(flx_graph *g, flx_val x, int by)
{
    flx_val up = flx_shl(g, x, flx_scalar(g, FLX_U32, by));
    return flx_bit_or(g, up, flx_shr_logical(g, x, flx_scalar(g, FLX_U32, 32 - by)));
}

/* Threefry of each element: two words of key, two of counter. */
static void threefry(hlo_site *s)
{
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    flx_graph *g = s->g;
    if (!counts(s, 4, 2))
        return;
    flx_val parity = flx_bit_xor(g, flx_bit_xor(g, s->x[0], s->x[1]), flx_scalar(g, FLX_U32, 0x1BD11BDA));
    flx_val k[3] = {s->x[0], s->x[1], parity};
    flx_val a = flx_add(g, s->x[2], k[0]);
    flx_val b = flx_add(g, s->x[3], k[1]);
    for (int group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            a = flx_add(g, a, b);
            b = flx_bit_xor(g, rotated(g, b, rotations[group % 2][round]), a);
        }
        a = flx_add(g, a, k[(group + 1) % 3]);
        b = flx_add(g, flx_add(g, b, k[(group + 2) % 3]), flx_scalar(g, FLX_U32, group + 1));
    }
    s->y[0] = a;
    s->y[1] = b;
}

const hlo_call_target flxi_hlo_jax_targets[] = {
    {"Sharding", sharding},
    {"SPMDFullToShardShape", manual_border},
    {"SPMDShardToFullShape", manual_border},
    {"annotate_device_placement", flxi_hlo_import_pass_on},
    {"LayoutConstraint", flxi_hlo_import_pass_on},
    {"MoveToHost", flxi_hlo_import_pass_on},
    {"MoveToDevice", flxi_hlo_import_pass_on},
    {"xla.sdy.FuncResultSharding", flxi_hlo_import_pass_on},
    {"xla.sdy.GlobalToLocalShape", flxi_hlo_import_pass_on},
    {"xla.sdy.LocalToGlobalShape", flxi_hlo_import_pass_on},
    {"mhlo.acos", function},
    {"mhlo.acosh", function},
    {"mhlo.asin", function},
    {"mhlo.asinh", function},
    {"mhlo.atan", function},
    {"mhlo.atanh", function},
    {"mhlo.cosh", function},
    {"mhlo.erf", function},
    {"mhlo.sinh", function},
    {"mhlo.tan", function},
    {"mhlo.topk", mhlo_topk},
    {"TopK", xla_top_k},
    {"ApproxTopK", approx_top_k},
    {"Qr", qr},
    {"ProductOfElementaryHouseholderReflectors", reflections},
    {"LuDecomposition", lu},
    {"Eigh", eigh},
    {"AllocateBuffer", allocate},
    {"cu_threefry2x32_ffi", threefry},
    {"hip_threefry2x32_ffi", threefry},
    {0},
};
