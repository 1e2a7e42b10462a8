/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_parts.c: parts of operations that no list of items can describe: ranges, windows, loops, reductions. */
#include "stablehlo/syntax/hlo_pretty.h"

/* ---- Attributes ---- */

static flx_code add_int(hlo_parser *p, const char *name, hlo_location at, hlo_element element, int64_t v)
{
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_INT, at);
    if (!a)
        return FLX_E_OOM;
    a->integer = v;
    a->type = flxi_hlop_scalar_of(p, element);
    return a->type ? flxi_hlop_add_attr(p, name, a) : FLX_E_OOM;
}

/* A literal, or in parentheses and braces one whose type is not that of the result: () {value = …} : () -> type */
static flx_code part_constant(hlo_parser *p, hlo_draft *d)
{
    if (flxi_hlop_eat(p, "(")) {
        FLXI_TRY(flxi_hlop_expect(p, ")"));
        bool has_properties = flxi_hlop_eat(p, "<");
        FLXI_TRY(flxi_hlop_optional_dict(p, d));
        if (has_properties)
            FLXI_TRY(flxi_hlop_expect(p, ">"));
        return flxi_hlop_function_ending(p, d);
    }
    FLXI_TRY(flxi_hlop_optional_dict(p, d));
    const hlo_attr *value;
    FLXI_TRY(flxi_hlop_attr_of(p, HLO_A_DENSE, "a literal such as dense<1.0> : tensor<f32>", &value));
    FLXI_TRY(flxi_hlop_add_attr(p, "value", value));
    return flxi_hlop_one_result(p, d, value->type);
}

/* A number, true, false or a literal, the type of which is that of the result. */
static flx_code part_value(hlo_parser *p, hlo_draft *d)
{
    const hlo_attr *value;
    FLXI_TRY(flxi_hlop_optional_dict(p, d));
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(flxi_hlop_attr(p, &value));
    FLXI_TRY(flxi_hlop_add_attr(p, "value", value));
    const hlo_type *type = value->type;
    if (value->kind == HLO_A_BOOL && !(type = flxi_hlop_scalar_of(p, HLO_I1)))
        return FLX_E_OOM;
    if (value->kind == HLO_A_TYPE || value->kind == HLO_A_LIST || !type)
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "expected a number or a literal");
    return flxi_hlop_one_result(p, d, type);
}

/* [0] x [1]: one list for each side */
static flx_code parse_sides(hlo_parser *p, const char *lhs, const char *rhs)
{
    const hlo_attr *dims;
    FLXI_TRY(flxi_hlop_expect(p, "="));
    FLXI_TRY(flxi_hlop_int_list(p, &dims));
    FLXI_TRY(flxi_hlop_add_attr(p, lhs, dims));
    FLXI_TRY(flxi_hlop_expect(p, "x"));
    FLXI_TRY(flxi_hlop_int_list(p, &dims));
    return flxi_hlop_add_attr(p, rhs, dims);
}

/* batching_dims = [0] x [0], contracting_dims = [2] x [1] */
static flx_code part_dot(hlo_parser *p, hlo_draft *d)
{
    (void)d;
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_DICT, flxi_hlop_position(p));
    if (!a)
        return FLX_E_OOM;
    size_t base = p->entries.n;
    if (flxi_hlop_eat_word(p, "batching_dims")) {
        FLXI_TRY(parse_sides(p, "lhs_batching_dimensions", "rhs_batching_dimensions"));
        FLXI_TRY(flxi_hlop_expect(p, ","));
    }
    FLXI_TRY(flxi_hlop_expect_word(p, "contracting_dims"));
    FLXI_TRY(parse_sides(p, "lhs_contracting_dimensions", "rhs_contracting_dimensions"));
    a->entries = HLO_TAKE(p, hlo_entry, entries, base, &a->num_entries);
    a->struct_name = "dot";
    return a->entries ? flxi_hlop_add_attr(p, "dot_dimension_numbers", a) : FLX_E_OOM;
}

/* e5m10 */
static flx_code part_precision(hlo_parser *p, hlo_draft *d)
{
    (void)d;
    hlo_location at = flxi_hlop_position(p);
    hlo_span word = flxi_hlop_word(p);
    int64_t bits[2] = {-1, -1};
    size_t i = 0;
    for (int k = 0; k < 2; k++) {
        if (i >= word.length || word.at[i] != "em"[k])
            break;
        size_t start = ++i;
        int64_t v = 0;
        for (; i < word.length && word.at[i] >= '0' && word.at[i] <= '9' && v < 10000; i++)
            v = v * 10 + (word.at[i] - '0');
        bits[k] = i > start ? v : -1;
    }
    if (bits[0] < 0 || bits[1] < 0 || i != word.length)
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "expected a format such as e5m10");
    FLXI_TRY(add_int(p, "exponent_bits", at, HLO_I32, bits[0]));
    return add_int(p, "mantissa_bits", at, HLO_I32, bits[1]);
}

static flx_code add_list(hlo_parser *p, const char *name, hlo_location at, size_t from, size_t step, size_t n)
{
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_LIST, at);
    int64_t *ints = a ? flxi_new(p->arena, int64_t, n) : NULL;
    if (!ints)
        return flxi_hlop_oom(p);
    for (size_t i = 0; i < n; i++)
        ints[i] = p->ints.at[from + i * step];
    a->ints = ints;
    a->num_numbers = n;
    a->type = flxi_hlop_scalar_of(p, HLO_I64);
    return a->type ? flxi_hlop_add_attr(p, name, a) : FLX_E_OOM;
}

/* [0:4, 1:8:2]: start, limit and stride of each axis */
static flx_code part_slice(hlo_parser *p, hlo_draft *d)
{
    (void)d;
    hlo_location at = flxi_hlop_position(p);
    size_t base = p->ints.n;
    FLXI_TRY(flxi_hlop_expect(p, "["));
    while (flxi_hlop_peek(p) != ']') {
        for (int k = 0; k < 3; k++) {
            int64_t v = 1;
            if (k < 2 || flxi_hlop_eat(p, ":")) {
                hlo_numeral n;
                FLXI_TRY(flxi_hlop_numeral(p, &n));
                FLXI_TRY(flxi_hlop_to_int(p, &n, HLO_I64, &v));
            }
            if (k == 0)
                FLXI_TRY(flxi_hlop_expect(p, ":"));
            HLO_PUSH(p, ints, v);
        }
        if (!flxi_hlop_eat(p, ","))
            break;
    }
    FLXI_TRY(flxi_hlop_expect(p, "]"));
    static const char *const names[] = {"start_indices", "limit_indices", "strides"};
    size_t n = (p->ints.n - base) / 3;
    for (size_t k = 0; k < 3; k++)
        FLXI_TRY(add_list(p, names[k], at, base + k, 3, n));
    p->ints.n = base;
    return FLX_OK;
}

/* [[1, 0], [2, 2]] as dense<…> : tensor<nx2xi64> */
static flx_code parse_padding(hlo_parser *p)
{
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_DENSE, flxi_hlop_position(p));
    if (!a)
        return FLX_E_OOM;
    size_t base = p->ints.n;
    FLXI_TRY(flxi_hlop_expect(p, "["));
    while (flxi_hlop_peek(p) != ']') {
        const hlo_attr *pair;
        hlo_location at = flxi_hlop_position(p);
        FLXI_TRY(flxi_hlop_int_list(p, &pair));
        if (pair->num_numbers != 2)
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "expected the padding below and above: [1, 1]");
        HLO_PUSH(p, ints, pair->ints[0]);
        HLO_PUSH(p, ints, pair->ints[1]);
        if (!flxi_hlop_eat(p, ","))
            break;
    }
    FLXI_TRY(flxi_hlop_expect(p, "]"));
    size_t n;
    a->bytes = HLO_TAKE(p, int64_t, ints, base, &n);
    a->num_bytes = n * sizeof(int64_t);
    a->type = flxi_hlop_tensor_of(p, HLO_I64, 2, (const int64_t[]){(int64_t)n / 2, 2});
    return a->bytes && a->type ? flxi_hlop_add_attr(p, "padding", a) : FLX_E_OOM;
}

/* [true, false], which older texts write as [1, 0] */
static flx_code parse_flags(hlo_parser *p, const hlo_attr **out)
{
    const hlo_attr *list;
    FLXI_TRY(flxi_hlop_int_list(p, &list));
    hlo_attr *flags = flxi_hlop_new_attr(p, HLO_A_LIST, list->at);
    if (!flags)
        return FLX_E_OOM;
    *flags = *list;
    flags->type = flxi_hlop_scalar_of(p, HLO_I1);
    *out = flags;
    return flags->type ? FLX_OK : FLX_E_OOM;
}

/* stride = [2, 2], pad = [[1, 1], [0, 0]], lhs_dilate = …, rhs_dilate = …, reverse = … */
static flx_code part_window(hlo_parser *p, hlo_draft *d)
{
    (void)d;
    static const struct {
        const char *word, *name;
    } lists[] = {{"stride", "window_strides"},
                 {"lhs_dilate", "lhs_dilation"},
                 {"rhs_dilate", "rhs_dilation"},
                 {"reverse", "window_reversal"}};
    enum { reverse = 3 };
    size_t base = p->entries.n;
    while (flxi_hlop_peek(p) != '}') {
        hlo_location at = flxi_hlop_position(p);
        hlo_span word = flxi_hlop_word(p);
        size_t k = 0;
        while (k < 4 && !flxi_hlop_is(word, lists[k].word))
            k++;
        if (k == 4 && !flxi_hlop_is(word, "pad"))
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL,
                                     "expected stride, pad, lhs_dilate, rhs_dilate or reverse");
        FLXI_TRY(flxi_hlop_expect(p, "="));
        if (k == 4) {
            FLXI_TRY(parse_padding(p));
        } else {
            const hlo_attr *list;
            FLXI_TRY(k == reverse ? parse_flags(p, &list) : flxi_hlop_int_list(p, &list));
            FLXI_TRY(flxi_hlop_add_attr(p, lists[k].name, list));
        }
        const char *added = p->entries.at[p->entries.n - 1].name;
        for (size_t i = base; i + 1 < p->entries.n; i++)
            if (strcmp(p->entries.at[i].name, added) == 0)
                return flxi_hlop_fail_at(p, at, FLX_E_ATTRIBUTE, NULL, "the window has %.*s twice", (int)word.length,
                                         word.at);
        if (!flxi_hlop_eat(p, ","))
            break;
    }
    return FLX_OK;
}

/* How many of the operands or results belong to the first of two groups and to the second. */
static flx_code add_segments(hlo_parser *p, const char *name, hlo_location at, size_t first, size_t second)
{
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_LIST, at);
    if (!a)
        return FLX_E_OOM;
    a->ints = flxi_hlop_take(p, (const int64_t[]){(int64_t)first, (int64_t)second}, 2, sizeof(int64_t));
    a->num_numbers = 2;
    a->type = flxi_hlop_scalar_of(p, HLO_I32);
    return a->ints && a->type ? flxi_hlop_add_attr(p, name, a) : FLX_E_OOM;
}

static flx_code parse_group(hlo_parser *p)
{
    FLXI_TRY(flxi_hlop_expect(p, "("));
    FLXI_TRY(flxi_hlop_uses(p));
    return flxi_hlop_expect(p, ")");
}

/* (%x) inits (%a) dimension=0 attributes {…} {…} : … */
static flx_code part_scan(hlo_parser *p, hlo_draft *d)
{
    hlo_region r;
    const hlo_attr *dimension;
    FLXI_TRY(parse_group(p));
    size_t num_inputs = p->uses.n - d->uses;
    FLXI_TRY(flxi_hlop_expect_word(p, "inits"));
    FLXI_TRY(parse_group(p));
    size_t num_carries = p->uses.n - d->uses - num_inputs;
    FLXI_TRY(flxi_hlop_expect_word(p, "dimension"));
    FLXI_TRY(flxi_hlop_expect(p, "="));
    FLXI_TRY(flxi_hlop_int(p, HLO_I64, &dimension));
    FLXI_TRY(flxi_hlop_add_attr(p, "dimension", dimension));
    if (flxi_hlop_eat_word(p, "attributes"))
        FLXI_TRY(flxi_hlop_optional_dict(p, d));
    FLXI_TRY(flxi_hlop_region(p, p->scope.n, p->items.n, &r));
    HLO_PUSH(p, regions, r);
    FLXI_TRY(flxi_hlop_function_ending(p, d));
    if (d->num_types < num_carries)
        return flxi_hlop_fail_at(p, d->at, FLX_E_ARITY, NULL, "%.80s has %zu results, but carries %zu values", d->name,
                                 d->num_types, num_carries);
    FLXI_TRY(add_segments(p, "operandSegmentSizes", d->at, num_inputs, num_carries));
    return add_segments(p, "resultSegmentSizes", d->at, d->num_types - num_carries, num_carries);
}

/* ---- While ---- */

/* The arguments of one region of a loop: the names that stand for what is carried. */
static flx_code open_loop_region(hlo_parser *p, const hlo_draft *d, size_t targets)
{
    size_t n = p->uses.n - d->uses;
    for (size_t i = 0; i < n; i++) {
        hlo_target t = p->targets.at[targets + i];
        hlo_value *v = flxi_hlop_new_value(p, p->names.texts.at[t.name], p->uses.at[d->uses + i].value->type);
        const hlo_value **group = v ? flxi_new(p->arena, const hlo_value *, 1) : NULL;
        if (!group)
            return flxi_hlop_oom(p);
        *group = v;
        FLXI_TRY(flxi_hlop_define(p, t, group));
        HLO_PUSH(p, items, v);
    }
    return FLX_OK;
}

/* (%i = %c, …) : types attributes {…} cond {…} do {…} */
static flx_code part_while(hlo_parser *p, hlo_draft *d)
{
    static const char *const words[] = {"cond", "do"};
    size_t targets = p->targets.n;
    FLXI_TRY(flxi_hlop_expect(p, "("));
    if (!flxi_hlop_eat(p, ")")) {
        do {
            hlo_target t;
            FLXI_TRY(flxi_hlop_target(p, &t));
            HLO_PUSH(p, targets, t);
            FLXI_TRY(flxi_hlop_expect(p, "="));
            FLXI_TRY(flxi_hlop_use(p));
        } while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, ")"));
    }
    FLXI_TRY(flxi_hlop_pairs_ending(p, d));
    if (flxi_hlop_eat_word(p, "attributes"))
        FLXI_TRY(flxi_hlop_optional_dict(p, d));
    for (int k = 0; k < 2; k++) {
        FLXI_TRY(flxi_hlop_expect_word(p, words[k]));
        hlo_region r;
        size_t scope = p->scope.n;
        size_t args = p->items.n;
        FLXI_TRY(open_loop_region(p, d, targets));
        FLXI_TRY(flxi_hlop_region(p, scope, args, &r));
        HLO_PUSH(p, regions, r);
    }
    p->targets.n = targets;
    return FLX_OK;
}

/* ---- Manual computations ---- */

/* WORD = […] or {…}, kept as the generic form writes it: with `before` and > around it. */
static flx_code parse_written(hlo_parser *p, const char *name, const char *before, char open, char close)
{
    const char opening[] = {open, 0};
    FLXI_TRY(flxi_hlop_expect_word(p, name));
    FLXI_TRY(flxi_hlop_expect(p, "="));
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_OPAQUE, flxi_hlop_position(p));
    const char *start = p->c.at;
    if (!a)
        return FLX_E_OOM;
    FLXI_TRY(flxi_hlop_expect(p, opening));
    FLXI_TRY(flxi_hlop_skip_balanced(p, close));
    size_t length = (size_t)(p->c.at - start), more = strlen(before);
    char *text = flxi_new(p->arena, char, more + length + 2);
    if (!text)
        return flxi_hlop_oom(p);
    memcpy(text, before, more);
    memcpy(text + more, start, length);
    text[more + length] = '>';
    a->text = text;
    a->length = more + length + 1;
    return flxi_hlop_add_attr(p, name, a);
}

/* (%x, …) in_shardings=[…] out_shardings=[…] manual_axes={…} (%a: t, …) {…} : … */
static flx_code part_manual(hlo_parser *p, hlo_draft *d)
{
    hlo_region r;
    size_t scope = p->scope.n, args = p->items.n;
    FLXI_TRY(parse_group(p));
    FLXI_TRY(parse_written(p, "in_shardings", "#sdy.sharding_per_value<", '[', ']'));
    FLXI_TRY(parse_written(p, "out_shardings", "#sdy.sharding_per_value<", '[', ']'));
    FLXI_TRY(parse_written(p, "manual_axes", "#sdy<manual_axes", '{', '}'));
    FLXI_TRY(flxi_hlop_expect(p, "("));
    if (!flxi_hlop_eat(p, ")")) {
        do {
            hlo_value *arg;
            FLXI_TRY(flxi_hlop_argument(p, &arg));
            FLXI_TRY(flxi_hlop_skip_location(p));
            HLO_PUSH(p, items, arg);
        } while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, ")"));
    }
    FLXI_TRY(flxi_hlop_region(p, scope, args, &r));
    HLO_PUSH(p, regions, r);
    return flxi_hlop_function_ending(p, d);
}

/* ---- Reduce ---- */

/* (%x init: %a), (%y init: %b): the operands are %x, %y, %a, %b. */
static flx_code parse_reduced(hlo_parser *p, const hlo_draft *d)
{
    size_t n = 0;
    do {
        FLXI_TRY(flxi_hlop_expect(p, "("));
        FLXI_TRY(flxi_hlop_use(p));
        FLXI_TRY(flxi_hlop_expect_word(p, "init"));
        FLXI_TRY(flxi_hlop_expect(p, ":"));
        FLXI_TRY(flxi_hlop_use(p));
        FLXI_TRY(flxi_hlop_expect(p, ")"));
        n++;
    } while (flxi_hlop_eat(p, ","));
    hlo_use *uses = flxi_new(p->arena, hlo_use, 2 * n);
    if (!uses)
        return flxi_hlop_oom(p);
    for (size_t i = 0; i < n; i++) {
        uses[i] = p->uses.at[d->uses + 2 * i];
        uses[n + i] = p->uses.at[d->uses + 2 * i + 1];
    }
    memcpy(p->uses.at + d->uses, uses, 2 * n * sizeof *uses);
    return FLX_OK;
}

/* The region (a, b) { r = op(a, b); return r } on scalars of the element type of the first operand. */
static flx_code make_applied_region(hlo_parser *p, const hlo_draft *d, const char *name, hlo_location at)
{
    const hlo_type *first = p->uses.at[d->uses].value->type;
    hlo_type *scalar = flxi_hlop_new_type(p, HLO_TENSOR);
    const hlo_value **values = flxi_new(p->arena, const hlo_value *, 3);
    hlo_op *ops = flxi_new(p->arena, hlo_op, 2);
    if (!scalar || !values || !ops)
        return flxi_hlop_oom(p);
    scalar->element = first->element;
    scalar->quant = first->quant && first->quant->axis < 0 ? first->quant : NULL;
    for (int i = 0; i < 3; i++) {
        values[i] = flxi_hlop_new_value(p, "", scalar);
        if (!values[i])
            return FLX_E_OOM;
    }
    ops[0] = (hlo_op){.name = name,
                      .at = at,
                      .operands = values,
                      .num_operands = 2,
                      .results = values + 2,
                      .num_results = 1,
                      .next = &ops[1]};
    ops[1] = (hlo_op){.name = "stablehlo.return", .at = at, .operands = values + 2, .num_operands = 1};
    HLO_PUSH(p, regions, ((hlo_region){.args = values, .num_args = 2, .first = ops}));
    return FLX_OK;
}

/* reducer(%a: t, %b: t) (%c: u, %d: u) {…}: the arguments of the region are %a, %c, %b, %d. */
static flx_code parse_reducer(hlo_parser *p, hlo_location at, size_t num_inputs)
{
    hlo_region r;
    size_t scope = p->scope.n;
    size_t args = p->items.n;
    uint32_t first = p->num_values;
    FLXI_TRY(flxi_hlop_expect_word(p, "reducer"));
    for (size_t i = 0; i < 2 * num_inputs; i++)
        HLO_PUSH(p, items, NULL);
    for (size_t i = 0; i < num_inputs; i++) {
        static const char *const marks[] = {"(", ","};
        for (size_t side = 0; side < 2; side++) {
            hlo_value *arg;
            FLXI_TRY(flxi_hlop_expect(p, marks[side]));
            FLXI_TRY(flxi_hlop_argument(p, &arg));
            FLXI_TRY(flxi_hlop_skip_location(p));
            arg->number = first + (uint32_t)(side * num_inputs + i);
            p->items.at[args + side * num_inputs + i] = arg;
        }
        FLXI_TRY(flxi_hlop_expect(p, ")"));
    }
    if (flxi_hlop_peek(p) == '(')
        return flxi_hlop_fail_at(p, at, FLX_E_ARITY, NULL,
                                 "the reducer has more pairs of arguments than the %zu inputs", num_inputs);
    FLXI_TRY(flxi_hlop_region(p, scope, args, &r));
    HLO_PUSH(p, regions, r);
    return FLX_OK;
}

/* (%x init: %a) applies stablehlo.add across dimensions = [0] : …, or without `applies` and followed by a reducer. */
static flx_code part_reduce(hlo_parser *p, hlo_draft *d)
{
    const char *applied = NULL;
    const hlo_attr *dims;
    FLXI_TRY(parse_reduced(p, d));
    size_t num_inputs = (p->uses.n - d->uses) / 2;
    hlo_location at = flxi_hlop_position(p);
    if (flxi_hlop_eat_word(p, "applies")) {
        at = flxi_hlop_position(p);
        hlo_span name = flxi_hlop_word(p);
        if (name.length == 0)
            return flxi_hlop_expected(p, "an operation");
        applied = flxi_hlop_keep(p, name);
        if (!applied)
            return FLX_E_OOM;
        if (num_inputs != 1)
            return flxi_hlop_fail_at(p, at, FLX_E_ARITY, NULL, "one operation reduces one input, but there are %zu",
                                     num_inputs);
    }
    FLXI_TRY(flxi_hlop_expect_word(p, "across"));
    FLXI_TRY(flxi_hlop_expect_word(p, "dimensions"));
    FLXI_TRY(flxi_hlop_expect(p, "="));
    FLXI_TRY(flxi_hlop_int_list(p, &dims));
    FLXI_TRY(flxi_hlop_add_attr(p, "dimensions", dims));
    FLXI_TRY(flxi_hlop_optional_dict(p, d));
    FLXI_TRY(flxi_hlop_function_ending(p, d));
    FLXI_TRY(flxi_hlop_skip_location(p));
    return applied ? make_applied_region(p, d, applied, at) : parse_reducer(p, at, num_inputs);
}

const hlo_part flxi_hlop_parts[] = {
    {"constant", part_constant}, {"value", part_value},   {"dot", part_dot},   {"precision", part_precision},
    {"slice", part_slice},       {"window", part_window}, {"scan", part_scan}, {"while", part_while},
    {"reduce", part_reduce},     {"manual", part_manual}, {NULL, NULL},
};
