/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_endings.c: the types at the end of an operation written without quotes: one for all, a function's type, and forms
   between these. Operands are known by then, so their types are compared; the types of the results are taken over. */
#include "stablehlo/syntax/hlo_pretty.h"

flx_code flxi_hlop_one_result(hlo_parser *p, hlo_draft *d, const hlo_type *type)
{
    d->types = flxi_hlop_take(p, &type, 1, sizeof type);
    d->num_types = 1;
    return d->types ? FLX_OK : FLX_E_OOM;
}

static flx_code apply_function(hlo_parser *p, hlo_draft *d, const hlo_type *type)
{
    d->types = type->results;
    d->num_types = type->num_results;
    return flxi_hlop_check_operands(p, d, type->parts, type->num_parts);
}

flx_code flxi_hlop_function_ending(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *type;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(flxi_hlop_function_type(p, &type));
    return apply_function(p, d, type);
}

/* All operands are of this type. */
static flx_code check_each(hlo_parser *p, const hlo_draft *d, const hlo_type *type)
{
    size_t base = p->items.n;
    size_t n = p->uses.n - d->uses;
    for (size_t i = 0; i < n; i++)
        HLO_PUSH(p, items, type);
    FLXI_TRY(flxi_hlop_check_operands(p, d, n ? (const hlo_type *const *)(p->items.at + base) : NULL, n));
    p->items.n = base;
    return FLX_OK;
}

static flx_code type_same(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *type;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(flxi_hlop_type(p, &type));
    if (type->kind == HLO_FUNCTION)
        return apply_function(p, d, type);
    FLXI_TRY(check_each(p, d, type));
    return flxi_hlop_one_result(p, d, type);
}

static flx_code type_result(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *type;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(flxi_hlop_type(p, &type));
    return type->kind == HLO_FUNCTION ? apply_function(p, d, type) : flxi_hlop_one_result(p, d, type);
}

/* Types with commas between them, in the arena. */
static flx_code parse_types(hlo_parser *p, const hlo_type *const **types, size_t *n)
{
    size_t base = p->items.n;
    do {
        const hlo_type *type;
        FLXI_TRY(flxi_hlop_type(p, &type));
        HLO_PUSH(p, items, type);
    } while (flxi_hlop_eat(p, ","));
    *types = (const hlo_type *const *)HLO_TAKE(p, void *, items, base, n);
    return *types ? FLX_OK : FLX_E_OOM;
}

/* The types of the results: what was pushed from `base` on. */
static flx_code take_results(hlo_parser *p, hlo_draft *d, size_t base)
{
    d->types = (const hlo_type *const *)HLO_TAKE(p, void *, items, base, &d->num_types);
    return d->types ? FLX_OK : FLX_E_OOM;
}

/* Absent where there are no operands; one type may stand for all. */
static flx_code type_operands(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *const *types = NULL;
    size_t n = 0;
    if (flxi_hlop_eat(p, ":"))
        FLXI_TRY(parse_types(p, &types, &n));
    else if (p->uses.n > d->uses)
        return flxi_hlop_expect(p, ":");
    if (n == 1 && !flxi_hlop_is_terminator(d->name))
        return check_each(p, d, types[0]);
    return flxi_hlop_check_operands(p, d, types, n);
}

flx_code flxi_hlop_pairs_ending(hlo_parser *p, hlo_draft *d)
{
    FLXI_TRY(type_operands(p, d));
    size_t base = p->items.n;
    for (size_t i = d->uses; i < p->uses.n; i++)
        HLO_PUSH(p, items, p->uses.at[i].value->type);
    return take_results(p, d, base);
}

static flx_code type_arrow(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *const *types;
    size_t n;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(parse_types(p, &types, &n));
    if (n == 1 && types[0]->kind == HLO_FUNCTION)
        return apply_function(p, d, types[0]);
    FLXI_TRY(flxi_hlop_check_operands(p, d, types, n));
    FLXI_TRY(flxi_hlop_expect(p, "->"));
    if (!flxi_hlop_eat(p, "("))
        return parse_types(p, &d->types, &d->num_types);
    size_t base = p->items.n;
    FLXI_TRY(flxi_hlop_types_until(p, ")"));
    return take_results(p, d, base);
}

/* : predicate, values */
static flx_code type_select(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *const *types;
    size_t n;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(parse_types(p, &types, &n));
    if (n == 1 && types[0]->kind == HLO_FUNCTION)
        return apply_function(p, d, types[0]);
    if (n != 2)
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "expected the types of the predicate and of the values");
    const hlo_type *all[] = {types[0], types[1], types[1]};
    FLXI_TRY(flxi_hlop_check_operands(p, d, all, 3));
    return flxi_hlop_one_result(p, d, types[1]);
}

/* : the complex type, whose parts the operands are */
static flx_code type_complex(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *type;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(flxi_hlop_type(p, &type));
    if (type->kind == HLO_FUNCTION)
        return apply_function(p, d, type);
    if (type->kind != HLO_TENSOR || !flxi_hlop_is_complex(type->element))
        return flxi_hlop_fail_at(p, at, FLX_E_DTYPE, NULL, "expected a tensor of complex elements");
    hlo_type *part = flxi_hlop_new_type(p, HLO_TENSOR);
    if (!part)
        return FLX_E_OOM;
    *part = *type;
    part->element = flxi_hlop_part(type->element);
    FLXI_TRY(check_each(p, d, part));
    return flxi_hlop_one_result(p, d, type);
}

static flx_code type_tuple(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *type;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(flxi_hlop_type(p, &type));
    if (type->kind == HLO_FUNCTION)
        return apply_function(p, d, type);
    if (type->kind != HLO_TUPLE)
        return flxi_hlop_fail_at(p, at, FLX_E_DTYPE, NULL, "expected the type of a tuple");
    FLXI_TRY(flxi_hlop_check_operands(p, d, type->parts, type->num_parts));
    return flxi_hlop_one_result(p, d, type);
}

/* : from to into */
static flx_code type_to(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *from;
    const hlo_type *into;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(flxi_hlop_type(p, &from));
    FLXI_TRY(flxi_hlop_check_operands(p, d, &from, 1));
    FLXI_TRY(flxi_hlop_expect_word(p, "to"));
    FLXI_TRY(flxi_hlop_type(p, &into));
    return flxi_hlop_one_result(p, d, into);
}

/* : the tensor whose extent is asked for; the axis and the result are of type index. */
static flx_code type_dim(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *tensor;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(flxi_hlop_type(p, &tensor));
    const hlo_type *index = flxi_hlop_scalar_of(p, HLO_INDEX);
    if (!index)
        return FLX_E_OOM;
    FLXI_TRY(flxi_hlop_check_operands(p, d, (const hlo_type *const[]){tensor, index}, 2));
    return flxi_hlop_one_result(p, d, index);
}

/* : the tensor whose elements the operands are */
static flx_code type_elements(hlo_parser *p, hlo_draft *d)
{
    const hlo_type *tensor;
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(flxi_hlop_type(p, &tensor));
    const hlo_type *element = flxi_hlop_scalar_of(p, tensor->element);
    if (!element)
        return FLX_E_OOM;
    FLXI_TRY(check_each(p, d, element));
    return flxi_hlop_one_result(p, d, tensor);
}

const hlo_part flxi_hlop_endings[] = {
    {"func", flxi_hlop_function_ending},
    {"same", type_same},
    {"result", type_result},
    {"operands", type_operands},
    {"arrow", type_arrow},
    {"pairs", flxi_hlop_pairs_ending},
    {"select", type_select},
    {"complex", type_complex},
    {"tuple", type_tuple},
    {"to", type_to},
    {"dim", type_dim},
    {"elements", type_elements},
    {NULL, NULL},
};
