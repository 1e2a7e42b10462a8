/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_op.c: operations, regions and the values they define. A name is visible from its definition to the end of its
   region, inner regions included; a function sees nothing from outside. */
#include "stablehlo/syntax/hlo_parser.h"

#include <stdio.h>

/* ---- Values ---- */

flx_code flxi_hlop_target(hlo_parser *p, hlo_target *out)
{
    *out = (hlo_target){.at = flxi_hlop_position(p), .num_values = 1};
    if (!flxi_hlop_eat(p, "%"))
        return flxi_hlop_expected(p, "a value such as %0");
    hlo_span name = flxi_hlop_suffix(p);
    if (name.length == 0)
        return flxi_hlop_expected(p, "the name of a value");
    out->name = flxi_intern_number(&p->names, name.at, name.length);
    if (out->name == SIZE_MAX)
        return flxi_hlop_oom(p);
    while (p->visible.n <= out->name)
        HLO_PUSH(p, visible, (hlo_group){0});
    return FLX_OK;
}

static const char *name_of(const hlo_parser *p, size_t name)
{
    return p->names.texts.at[name];
}

hlo_value *flxi_hlop_new_value(hlo_parser *p, const char *name, const hlo_type *type)
{
    hlo_value *v = flxi_new(p->arena, hlo_value, 1);
    if (!v) {
        flxi_hlop_oom(p);
        return NULL;
    }
    *v = (hlo_value){.type = type, .name = name, .number = p->num_values++};
    return v;
}

flx_code flxi_hlop_define(hlo_parser *p, hlo_target target, const hlo_value *const *values)
{
    hlo_group *g = &p->visible.at[target.name];
    if (g->num_values)
        return flxi_hlop_fail_at(p, target.at, FLX_E_DUP_NAME, NULL, "%%%.80s is defined twice",
                                 name_of(p, target.name));
    *g = (hlo_group){values, target.num_values};
    HLO_PUSH(p, scope, target.name);
    return FLX_OK;
}

void flxi_hlop_close_scope(hlo_parser *p, size_t base)
{
    while (p->scope.n > base)
        p->visible.at[p->scope.at[--p->scope.n]] = (hlo_group){0};
}

/* The number after a # or a : in names of values. */
static flx_code parse_count(hlo_parser *p, const char *what, size_t *out)
{
    hlo_location at = flxi_hlop_position(p);
    hlo_span digits = flxi_hlop_suffix(p);
    size_t v = 0;
    for (size_t i = 0; i < digits.length; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "expected %s", what);
        v = v < 1000000000 ? v * 10 + (size_t)(digits.at[i] - '0') : v;
    }
    *out = v;
    return digits.length ? FLX_OK : flxi_hlop_expected(p, what);
}

flx_code flxi_hlop_use(hlo_parser *p)
{
    hlo_target t;
    size_t index = 0;
    FLXI_TRY(flxi_hlop_target(p, &t));
    if (p->c.at < p->end && *p->c.at == '#') {
        p->c.at++;
        FLXI_TRY(parse_count(p, "the number of a result", &index));
    }
    const hlo_group *g = &p->visible.at[t.name];
    if (g->num_values == 0)
        return flxi_hlop_fail_at(p, t.at, FLX_E_NAME,
                                 "a value is defined before it is used, in the same or an enclosing region",
                                 "%%%.80s is not defined", name_of(p, t.name));
    if (index >= g->num_values)
        return flxi_hlop_fail_at(p, t.at, FLX_E_NAME, NULL, "%%%.80s has %zu results, there is no #%zu",
                                 name_of(p, t.name), g->num_values, index);
    HLO_PUSH(p, uses, ((hlo_use){g->values[index], t.at}));
    return FLX_OK;
}

flx_code flxi_hlop_uses(hlo_parser *p)
{
    if (flxi_hlop_peek(p) != '%')
        return FLX_OK;
    do
        FLXI_TRY(flxi_hlop_use(p));
    while (flxi_hlop_eat(p, ","));
    return FLX_OK;
}

flx_code flxi_hlop_check_operands(hlo_parser *p, const hlo_draft *d, const hlo_type *const *types, size_t n)
{
    size_t given = p->uses.n - d->uses;
    if (given != n)
        return flxi_hlop_fail_at(p, d->at, FLX_E_ARITY, NULL, "%.80s has %zu operands, but types of %zu", d->name,
                                 given, n);
    for (size_t i = 0; i < n; i++) {
        const hlo_use *use = &p->uses.at[d->uses + i];
        if (flxi_hlop_same_type(use->value->type, types[i]))
            continue;
        char actual[80];
        char declared[80];
        flxi_hlo_type_print(use->value->type, actual, sizeof actual);
        flxi_hlo_type_print(types[i], declared, sizeof declared);
        return flxi_hlop_fail_at(p, use->at, FLX_E_DTYPE, NULL, "%%%.60s is of type %s, here it is given as %s",
                                 use->value->name, actual, declared);
    }
    return FLX_OK;
}

flx_code flxi_hlop_argument(hlo_parser *p, hlo_value **out)
{
    hlo_target t;
    const hlo_type *type;
    FLXI_TRY(flxi_hlop_target(p, &t));
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(flxi_hlop_type(p, &type));
    hlo_value *v = flxi_hlop_new_value(p, name_of(p, t.name), type);
    const hlo_value **group = v ? flxi_new(p->arena, const hlo_value *, 1) : NULL;
    if (!group)
        return flxi_hlop_oom(p);
    *group = *out = v;
    return flxi_hlop_define(p, t, group);
}

flx_code flxi_hlop_name_argument(hlo_parser *p, hlo_value *argument)
{
    hlo_reference r = {argument, {0}};
    FLXI_TRY(flxi_hlop_location(p, &argument->source, &r.alias));
    if (r.alias.length)
        HLO_PUSH(p, references, r);
    return FLX_OK;
}

/* ---- Regions ---- */

bool flxi_hlop_is_terminator(const char *name)
{
    const char *point = strrchr(name, '.');
    const char *base = point ? point + 1 : name;
    size_t n = strlen(base);
    return strcmp(base, "return") == 0 || (n >= 5 && strcmp(base + n - 5, "yield") == 0);
}

/* ^bb0(%a: type, …): */
static flx_code parse_label(hlo_parser *p)
{
    FLXI_TRY(flxi_hlop_expect(p, "^"));
    flxi_hlop_suffix(p);
    if (flxi_hlop_eat(p, "(") && !flxi_hlop_eat(p, ")")) {
        do {
            hlo_value *arg;
            FLXI_TRY(flxi_hlop_argument(p, &arg));
            FLXI_TRY(flxi_hlop_name_argument(p, arg));
            HLO_PUSH(p, items, arg);
        } while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, ")"));
    }
    return flxi_hlop_expect(p, ":");
}

static flx_code parse_op(hlo_parser *p, hlo_op **out);

/* The operations up to the closing brace. */
static flx_code parse_ops(hlo_parser *p, const hlo_op **first)
{
    const hlo_op **link = first;
    const hlo_op *last = NULL;
    while (!flxi_hlop_eat(p, "}")) {
        hlo_location at = flxi_hlop_position(p);
        if (flxi_hlop_peek(p) == '^')
            return flxi_hlop_fail_at(p, at, FLX_E_UNSUPPORTED, NULL, "a region has one block here");
        if (p->c.at == p->end)
            return flxi_hlop_expect(p, "}");
        if (last && flxi_hlop_is_terminator(last->name))
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "an operation follows %.80s", last->name);
        hlo_op *op = NULL;
        FLXI_TRY(parse_op(p, &op));
        *link = last = op;
        link = &op->next;
    }
    if (!last || !flxi_hlop_is_terminator(last->name))
        return flxi_hlop_fail_at(p, (hlo_location){p->c.line, (uint32_t)(p->c.at - p->c.line_start)}, FLX_E_SYNTAX,
                                 "end it with stablehlo.return or, in a function, return",
                                 "the region does not end with a return");
    return FLX_OK;
}

flx_code flxi_hlop_region(hlo_parser *p, size_t scope, size_t args, hlo_region *out)
{
    *out = (hlo_region){0};
    FLXI_TRY(flxi_hlop_enter(p));
    FLXI_TRY(flxi_hlop_expect(p, "{"));
    if (flxi_hlop_peek(p) == '^' && p->items.n == args)
        FLXI_TRY(parse_label(p));
    out->args = (const hlo_value *const *)HLO_TAKE(p, void *, items, args, &out->num_args);
    if (!out->args)
        return FLX_E_OOM;
    FLXI_TRY(parse_ops(p, &out->first));
    flxi_hlop_close_scope(p, scope);
    flxi_hlop_leave(p);
    return FLX_OK;
}

/* ---- Operations ---- */

flx_code flxi_hlop_optional_dict(hlo_parser *p, const hlo_draft *d)
{
    size_t base = p->entries.n;
    hlo_location at = flxi_hlop_position(p);
    if (!flxi_hlop_eat(p, "{"))
        return FLX_OK;
    FLXI_TRY(flxi_hlop_dict_entries(p, "}"));
    for (size_t i = base; i < p->entries.n; i++) {
        for (size_t k = d->entries; k < base; k++)
            if (strcmp(p->entries.at[k].name, p->entries.at[i].name) == 0)
                return flxi_hlop_fail_at(p, at, FLX_E_ATTRIBUTE, NULL, "the attribute %.60s is given twice",
                                         p->entries.at[i].name);
        hlo_entry e = p->entries.at[i];
        FLXI_TRY(flxi_hlop_modernise(p, &e));
        p->entries.at[i] = e;
    }
    return FLX_OK;
}

/* (%a, %b) <{…}> ({…}, {…}) {…} : (types) -> types */
static flx_code parse_generic(hlo_parser *p, hlo_draft *d)
{
    FLXI_TRY(flxi_hlop_expect(p, "("));
    FLXI_TRY(flxi_hlop_uses(p));
    FLXI_TRY(flxi_hlop_expect(p, ")"));
    if (flxi_hlop_peek(p) == '[')
        return flxi_hlop_fail_at(p, flxi_hlop_position(p), FLX_E_UNSUPPORTED, NULL,
                                 "operations with successors are not supported");
    if (flxi_hlop_eat(p, "<")) {
        FLXI_TRY(flxi_hlop_optional_dict(p, d));
        FLXI_TRY(flxi_hlop_expect(p, ">"));
    }
    if (flxi_hlop_eat(p, "(")) {
        do {
            hlo_region r;
            FLXI_TRY(flxi_hlop_region(p, p->scope.n, p->items.n, &r));
            HLO_PUSH(p, regions, r);
        } while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, ")"));
    }
    FLXI_TRY(flxi_hlop_optional_dict(p, d));
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    const hlo_type *type;
    FLXI_TRY(flxi_hlop_function_type(p, &type));
    d->types = type->results;
    d->num_types = type->num_results;
    return flxi_hlop_check_operands(p, d, type->parts, type->num_parts);
}

/* %a:2, %b = */
static flx_code parse_targets(hlo_parser *p)
{
    if (flxi_hlop_peek(p) != '%')
        return FLX_OK;
    do {
        hlo_target t;
        FLXI_TRY(flxi_hlop_target(p, &t));
        if (flxi_hlop_eat(p, ":")) {
            hlo_location at = flxi_hlop_position(p);
            FLXI_TRY(parse_count(p, "the number of results", &t.num_values));
            if (t.num_values == 0)
                return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "a name must name one result or more");
        }
        HLO_PUSH(p, targets, t);
    } while (flxi_hlop_eat(p, ","));
    return flxi_hlop_expect(p, "=");
}

/* "0#1": a result of several under one name */
static const char *numbered_name(hlo_parser *p, const char *name, size_t i)
{
    char number[24];
    int digits = snprintf(number, sizeof number, "#%zu", i);
    size_t length = strlen(name);
    char *text = flxi_new(p->arena, char, length + (size_t)digits + 1);
    if (!text) {
        flxi_hlop_oom(p);
        return NULL;
    }
    memcpy(text, name, length);
    memcpy(text + length, number, (size_t)digits);
    return text;
}

static flx_code define_results(hlo_parser *p, const hlo_draft *d, size_t base, hlo_op *op)
{
    size_t named = 0;
    for (size_t i = base; i < p->targets.n; i++)
        named += p->targets.at[i].num_values;
    if (p->targets.n > base && named != d->num_types)
        return flxi_hlop_fail_at(p, d->at, FLX_E_ARITY, NULL, "%.80s has %zu results, %zu are named", d->name,
                                 d->num_types, named);
    const hlo_value **values = flxi_new(p->arena, const hlo_value *, d->num_types);
    if (!values)
        return flxi_hlop_oom(p);
    size_t target = base;
    size_t within = 0;
    for (size_t i = 0; i < d->num_types; i++) {
        const char *name = "";
        if (target < p->targets.n) {
            const hlo_target *t = &p->targets.at[target];
            name = name_of(p, t->name);
            if (t->num_values > 1)
                name = numbered_name(p, name, within);
            if (++within == t->num_values) {
                target++;
                within = 0;
            }
        }
        values[i] = name ? flxi_hlop_new_value(p, name, d->types[i]) : NULL;
        if (!values[i])
            return FLX_E_OOM;
    }
    size_t first = 0;
    for (size_t i = base; i < p->targets.n; i++) {
        FLXI_TRY(flxi_hlop_define(p, p->targets.at[i], values + first));
        first += p->targets.at[i].num_values;
    }
    op->results = values;
    op->num_results = d->num_types;
    return FLX_OK;
}

/* Moves what was gathered into the operation. */
static flx_code finish(hlo_parser *p, const hlo_draft *d, size_t targets, hlo_op **out)
{
    hlo_op *op = flxi_new(p->arena, hlo_op, 1);
    if (!op)
        return flxi_hlop_oom(p);
    op->name = d->name;
    op->at = d->at;
    op->num_operands = p->uses.n - d->uses;
    const hlo_value **operands = flxi_new(p->arena, const hlo_value *, op->num_operands);
    if (!operands)
        return flxi_hlop_oom(p);
    for (size_t i = 0; i < op->num_operands; i++)
        operands[i] = p->uses.at[d->uses + i].value;
    p->uses.n = d->uses;
    op->operands = operands;
    op->attrs = HLO_TAKE(p, hlo_entry, entries, d->entries, &op->num_attrs);
    op->regions = HLO_TAKE(p, hlo_region, regions, d->regions, &op->num_regions);
    if (!op->attrs || !op->regions)
        return FLX_E_OOM;
    FLXI_TRY(define_results(p, d, targets, op));
    p->targets.n = targets;
    *out = op;
    return FLX_OK;
}

/* The short names that functions use for operations of their own dialect. */
static hlo_span full_name(hlo_span name)
{
    if (flxi_hlop_is(name, "return"))
        return (hlo_span){"func.return", 11};
    if (flxi_hlop_is(name, "call"))
        return (hlo_span){"func.call", 9};
    return name;
}

static flx_code parse_op(hlo_parser *p, hlo_op **out)
{
    size_t targets = p->targets.n;
    FLXI_TRY(parse_targets(p));
    hlo_draft d = {.at = flxi_hlop_position(p), .uses = p->uses.n, .entries = p->entries.n, .regions = p->regions.n};
    bool is_generic = flxi_hlop_peek(p) == '"';
    hlo_span name;
    if (is_generic)
        FLXI_TRY(flxi_hlop_string(p, &name));
    else
        name = full_name(flxi_hlop_word(p));
    if (name.length == 0)
        return flxi_hlop_expected(p, "an operation");
    d.name = flxi_hlop_keep(p, name);
    if (!d.name)
        return FLX_E_OOM;
    FLXI_TRY(is_generic ? parse_generic(p, &d) : flxi_hlop_pretty(p, &d));
    FLXI_TRY(flxi_hlop_skip_location(p));
    return finish(p, &d, targets, out);
}

const hlo_attr *flxi_hlo_attr(const hlo_op *op, const char *name)
{
    for (size_t i = 0; i < op->num_attrs; i++)
        if (strcmp(op->attrs[i].name, name) == 0)
            return op->attrs[i].value;
    return NULL;
}
