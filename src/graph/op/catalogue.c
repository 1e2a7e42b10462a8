/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue.c: the public view of the op table: plain text and numbers, no pointers to internal types. */
#include "base/number.h"
#include "graph/graph.h"
#include "graph/op/opcode.h"

#include <fluxion/catalogue.h>
#include <stdio.h>

size_t flx_op_count(void)
{
    return OP_COUNT - 1;
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

flx_code flx_op_at(size_t i, flx_op_view *out)
{
    if (!out || i >= flx_op_count())
        return FLX_E_NAME;
    describe(&flxi_ops[i + 1], out);
    return FLX_OK;
}

flx_code flx_op_find(const char *name, flx_op_view *out)
{
    flxi_opcode op = name ? flxi_op_lookup(name, strlen(name)) : OP_NONE;
    if (!out || op == OP_NONE)
        return FLX_E_NAME;
    describe(&flxi_ops[op], out);
    return FLX_OK;
}

static const char *const kind_names[] = {
    [ATTR_INT] = "int",         [ATTR_BOOL] = "bool",   [ATTR_REAL] = "real",   [ATTR_WORD] = "word",
    [ATTR_DTYPE] = "dtype",     [ATTR_DIM] = "dim",     [ATTR_INTS] = "ints",   [ATTR_BOOLS] = "bools",
    [ATTR_DIMS] = "dims",       [ATTR_PAIRS] = "pairs", [ATTR_REALS] = "reals", [ATTR_STRING] = "string",
    [ATTR_TYPE] = "type",       [ATTR_TYPES] = "types", [ATTR_GRAPH] = "graph", [ATTR_GRAPHS] = "graphs",
    [ATTR_COMBINE] = "combine", [ATTR_DATA] = "data",   [ATTR_VALUE] = "value",
};

/* Defaults as text, written into the view's own storage, since callers keep no buffer for them. */
static void write_fallback(const flxi_attr *a, char *buffer, size_t size)
{
    size_t n;
    const char *word;
    char number[FLXI_NUMBER_MAX];
    switch (a->kind) {
    case ATTR_BOOL:
        snprintf(buffer, size, "%s", a->fallback ? "true" : "false");
        break;
    case ATTR_REAL:
        flxi_write_double(number, a->real, 53);
        snprintf(buffer, size, "%s", number);
        break;
    case ATTR_WORD:
    case ATTR_COMBINE:
        word = flxi_word_at(a->words, a->fallback, &n);
        snprintf(buffer, size, "%.*s", (int)n, word);
        break;
    case ATTR_DTYPE:
        snprintf(buffer, size, "%s", flx_dtype_name((int32_t)a->fallback));
        break;
    case ATTR_STRING:
        snprintf(buffer, size, "\"\"");
        break;
    default:
        snprintf(buffer, size, "%lld", (long long)a->fallback);
        break;
    }
}

flx_code flx_op_attr(const char *op, uint32_t i, flx_attr_view *out)
{
    flxi_opcode code = op ? flxi_op_lookup(op, strlen(op)) : OP_NONE;
    if (!out || code == OP_NONE || i >= attr_count(&flxi_ops[code]))
        return FLX_E_NAME;
    const flxi_attr *a = &flxi_ops[code].rules->schema[i];
    *out = (flx_attr_view){.name = a->name,
                           .kind = kind_names[a->kind],
                           .words = a->words ? a->words : "",
                           .positional = (a->flags & ATTR_POSITIONAL) != 0,
                           .required = (a->flags & ATTR_REQUIRED) != 0};
    if (a->note)
        snprintf(out->fallback, sizeof out->fallback, "%s", a->note);
    else if (!out->required)
        write_fallback(a, out->fallback, sizeof out->fallback);
    return FLX_OK;
}
