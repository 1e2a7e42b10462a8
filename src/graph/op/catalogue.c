/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue.c: the public view of the op table: plain text and numbers, no pointers to internal types. */
#include "graph/op/attr_kinds.h"

#include <fluxion/catalogue.h>
#include <stdio.h>

size_t flx_op_count(void)
{
    return flxi_op_rows - 1;
}

static uint32_t attr_count(const flxi_op *op)
{
    uint32_t n = 0;
    for (const flxi_attr *a = op->rules->schema; a && a->name; a++)
        n++;
    return n;
}

static void describe(const flxi_op *op, flx_op_view *out)
{
    const flxi_rules *r = op->rules;
    const flxi_operands *o = flxi_operands_of(op);
    int32_t vjp = flxi_rule_kind(op, MODE_VJP);
    int32_t jvp = flxi_rule_kind(op, MODE_JVP);
    *out = (flx_op_view){
        .name = op->name,
        .family = op->family,
        .operands = op->operands,
        .results = op->results,
        .doc = op->doc,
        .dtypes = op->dtypes,
        .min_operands = o->required,
        .max_operands = o->variadic ? -1 : o->count,
        .num_attrs = attr_count(op),
        .vjp = vjp,
        .jvp = jvp,
        .vmap = flxi_rule_kind(op, MODE_BATCH),
        .order2 = vjp == FLX_RULE_NONE ? jvp : vjp,
        .reason = r->undefined ? r->undefined : "",
    };
}

const char *flxi_op_signature(const flxi_op *op, char *buffer, size_t size)
{
    size_t at = (size_t)snprintf(buffer, size, "%s(%s", op->name, op->operands);
    bool any = op->operands[0], any_named = false;
    for (uint32_t i = 0; i < attr_count(op) && at < size; i++) {
        flx_attr_view attr;
        char part[80];
        flx_op_attr(op->name, i, &attr);
        const char *between = attr.positional ? (any ? ", " : "") : any_named ? ", " : "; ";
        size_t n = (size_t)snprintf(part, sizeof part, "%s%s%s%s", between, attr.name, attr.required ? "" : "=",
                                    attr.required ? "" : attr.fallback);
        bool is_last = i + 1 == attr_count(op);
        if (at + n + (is_last ? 1 : sizeof ", …") >= size) { /* what does not fit is left out */
            at += (size_t)snprintf(buffer + at, size - at, "%s…", between);
            break;
        }
        at += (size_t)snprintf(buffer + at, size - at, "%s", part);
        any = true;
        any_named = !attr.positional;
    }
    if (at + 1 < size)
        snprintf(buffer + at, size - at, ")");
    return buffer;
}

flx_code flx_op_at(size_t i, flx_op_view *out)
{
    if (!out)
        return FLX_E_USAGE;
    if (i >= flx_op_count())
        return FLX_E_NAME;
    describe(&flxi_ops[i + 1], out);
    return FLX_OK;
}

flx_code flx_op_find(const char *name, flx_op_view *out)
{
    if (!name || !out)
        return FLX_E_USAGE;
    flxi_opcode op = flxi_op_lookup(name, strlen(name));
    if (op == OP_NONE)
        return FLX_E_NAME;
    describe(&flxi_ops[op], out);
    return FLX_OK;
}

flx_code flx_op_attr(const char *op, uint32_t i, flx_attr_view *out)
{
    if (!op || !out)
        return FLX_E_USAGE;
    flxi_opcode code = flxi_op_lookup(op, strlen(op));
    if (code == OP_NONE || i >= attr_count(&flxi_ops[code]))
        return FLX_E_NAME;
    const flxi_attr *a = &flxi_ops[code].rules->schema[i];
    *out = (flx_attr_view){.name = a->name,
                           .kind = flxi_attr_kinds[a->kind].name,
                           .words = a->words ? a->words : "",
                           .positional = (a->flags & ATTR_POSITIONAL) != 0,
                           .required = (a->flags & ATTR_REQUIRED) != 0};
    if (a->note && !out->required)
        snprintf(out->fallback, sizeof out->fallback, "%s", a->note);
    else if (!out->required)
        flxi_attr_kinds[a->kind].write_default(a, out->fallback, sizeof out->fallback);
    return FLX_OK;
}
