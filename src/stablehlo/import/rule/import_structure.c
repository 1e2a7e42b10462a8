/* SPDX-License-Identifier: Apache-2.0 */
/* import_structure.c: operations that compute nothing: constants, calls, tuples, tokens, barriers. */
#include "stablehlo/import/import_scope.h"

#include <string.h>

/* ---- Constants ---- */

static flx_val literal(hlo_site *s, const hlo_attr *a)
{
    flx_type type = {.dtype = (int32_t)flxi_hlo_carrier(a->type), .rank = a->type->rank};
    for (int i = 0; i < type.rank; i++)
        type.dims[i] = a->type->dims[i];
    flx_type stored = type;
    if (a->is_splat)
        stored.rank = 0;
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(s->g->ctx, &stored, a->bytes, &err);
    flx_val v = FLX_NONE;
    if (!t)
        flxi_graph_fail(s->g, &err);
    else
        v = a->is_splat && type.rank ? flx_full(s->g, &type, t) : flx_const(s->g, &type, t);
    flx_tensor_release(t);
    return v;
}

void flxi_hlo_import_constant(hlo_site *s)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, "value");
    if (a && a->kind == HLO_A_DENSE && s->ny == 1)
        s->y[0] = literal(s, a);
    else
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute value must be a dense literal");
}

/* ---- Calls ---- */

static void call(hlo_site *s, const char *attribute)
{
    const char *callee = flxi_hlo_word(s, attribute, NULL);
    if (!callee) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute %s must name a function", attribute);
        return;
    }
    size_t n = flxi_hlo_call(s, callee, s->x, s->nx, s->y, s->ny);
    if (n != s->ny)
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "@%.80s returns %zu values, but %zu results are named", callee, n, s->ny);
}

void flxi_hlo_import_call(hlo_site *s)
{
    call(s, "callee");
}

/* A composite of this name is an operation of CHLO, the attributes of which are those of the composite. */
static bool is_known_operation(const hlo_site *s, hlo_op *op)
{
    const hlo_attr *name = flxi_hlo_attr(s->op, "name");
    const hlo_attr *attrs = flxi_hlo_attr(s->op, "composite_attributes");
    if (!name || name->kind != HLO_A_STRING || strncmp(name->text, "chlo.", 5) != 0 || s->op->num_regions)
        return false;
    const hlo_operation *row = flxi_hlo_operation(name->text);
    *op = *s->op;
    op->name = name->text;
    bool has_entries = attrs && attrs->kind == HLO_A_DICT;
    op->attrs = has_entries ? attrs->entries : NULL;
    op->num_attrs = has_entries ? attrs->num_entries : 0;
    return row && row->import && !row->regions;
}

/* The operation itself is faster and more accurate than its decomposition, and has a derivative of its own. */
void flxi_hlo_import_composite(hlo_site *s)
{
    hlo_op op;
    if (is_known_operation(s, &op))
        flxi_hlo_import_checked(s, &op);
    else
        call(s, "decomposition");
}

/* ---- Values passed on ---- */

void flxi_hlo_import_pass_on(hlo_site *s)
{
    if (s->ny != s->nx) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has %zu results for %zu operands", s->ny, s->nx);
        return;
    }
    for (size_t i = 0; i < s->nx; i++)
        s->y[i] = s->x[i];
}

void flxi_hlo_import_optimization_barrier(hlo_site *s)
{
    if (s->nx != s->ny)
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has %zu results for %zu operands", s->ny, s->nx);
    else if (s->nx)
        flx_optimization_barrier(s->g, s->x, s->nx, s->y, s->ny);
}

void flxi_hlo_import_get_tuple_element(hlo_site *s)
{
    const hlo_type *t = flxi_hlo_operand_type(s, 0);
    int64_t index = flxi_hlo_int(s, "index", -1);
    if (t->kind != HLO_TUPLE || index < 0 || (uint64_t)index >= t->num_parts) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "the operand has no element %lld", (long long)index);
        return;
    }
    size_t at = 0;
    for (int64_t i = 0; i < index; i++)
        at += flxi_hlo_parts(t->parts[i]);
    if (flxi_hlo_parts(t->parts[index]) != s->ny)
        flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "the result's type is not that of element %lld", (long long)index);
    for (size_t i = 0; i < s->ny && !flxi_hlo_failed(s); i++)
        s->y[i] = s->x[at + i];
}

/* A token is nothing: what has an effect is ordered by the graph itself. */
void flxi_hlo_import_token(hlo_site *s)
{
    (void)s;
}
