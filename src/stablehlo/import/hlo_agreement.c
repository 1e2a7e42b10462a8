/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_agreement.c: types that must agree beyond what a signature says: the arguments and results of regions with
   the operation's own, those of calls with the function's, and a few operations. Extents written ? agree with any. */
#include "stablehlo/import/import_scope.h"

#include <stdio.h>

/* ---- Types that must agree ---- */

bool flxi_hlo_compatible(const hlo_type *a, const hlo_type *b)
{
    if (a->kind != b->kind || a->num_parts != b->num_parts)
        return false;
    for (size_t i = 0; i < a->num_parts; i++)
        if (!flxi_hlo_compatible(a->parts[i], b->parts[i]))
            return false;
    if (a->kind != HLO_TENSOR && a->kind != HLO_SCALAR)
        return true;
    if (!flxi_hlo_same_element(a, b) || !flxi_hlo_same_quant(a->quant, b->quant))
        return false;
    if (a->is_unranked || b->is_unranked)
        return true;
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++)
        same = a->dims[i] == b->dims[i] || a->dims[i] == HLO_DYNAMIC || b->dims[i] == HLO_DYNAMIC;
    return same;
}

/* Fails with "… is A, but must be B" unless `t` is `wanted`, or with `scalar` a scalar with its elements. */
static bool agrees(hlo_site *s, const char *who, const hlo_type *t, const hlo_type *wanted, bool scalar)
{
    bool fits = scalar ? t->kind == HLO_TENSOR && t->rank == 0 && flxi_hlo_same_element(t, wanted)
                       : flxi_hlo_compatible(t, wanted);
    if (fits)
        return true;
    char have[90];
    char want[90];
    hlo_type one = *wanted;
    if (scalar)
        one.rank = 0;
    flxi_hlo_type_print(t, have, sizeof have);
    flxi_hlo_type_print(&one, want, sizeof want);
    flxi_hlo_fail(s, flxi_hlo_same_element(t, wanted) ? FLX_E_SHAPE : FLX_E_DTYPE, NULL, "%s is %s, but must be %s",
                  who, have, want);
    return false;
}

static bool agrees_number(hlo_site *s, const char *what, size_t i, const hlo_type *t, const hlo_type *wanted,
                          bool scalar)
{
    char who[60];
    snprintf(who, sizeof who, "%s %zu", what, i);
    return agrees(s, who, t, wanted, scalar);
}

static bool same_count(hlo_site *s, const char *what, size_t got, size_t wanted)
{
    if (got == wanted)
        return true;
    flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it has %zu %s, but needs %zu", got, what, wanted);
    return false;
}

/* ---- Regions ---- */

typedef enum {
    NOTHING,
    OPERANDS,        /* the types of the operands */
    RESULTS,         /* the types of the results */
    OPERAND_SCALARS, /* a scalar for each operand */
    RESULT_SCALARS,  /* a scalar for each result */
    TWO_LISTS,       /* scalars for the results, twice: a0, b0 … then a1, b1 … */
    PAIRS,           /* two scalars for each operand: a0, a1, b0, b1 … */
    TRUTH            /* a scalar i1 */
} value_list_kind;

static const struct {
    const char *op;
    int region; /* −1: all */
    value_list_kind args, returns;
} region_rows[] = {
    {"stablehlo.while", 0, OPERANDS, TRUTH},
    {"stablehlo.while", 1, OPERANDS, OPERANDS},
    {"stablehlo.if", -1, NOTHING, RESULTS},
    {"stablehlo.case", -1, NOTHING, RESULTS},
    {"stablehlo.reduce", 0, TWO_LISTS, RESULT_SCALARS},
    {"stablehlo.reduce_window", 0, TWO_LISTS, RESULT_SCALARS},
    {"stablehlo.scatter", 0, TWO_LISTS, RESULT_SCALARS},
    {"stablehlo.select_and_scatter", 0, TWO_LISTS, TRUTH},
    {"stablehlo.select_and_scatter", 1, TWO_LISTS, RESULT_SCALARS},
    {"stablehlo.sort", 0, PAIRS, TRUTH},
    {"stablehlo.map", 0, OPERAND_SCALARS, RESULT_SCALARS},
};

static bool check_values(hlo_site *s, const char *what, const hlo_value *const *values, size_t n, value_list_kind kind)
{
    static const hlo_type truth = {.kind = HLO_TENSOR, .element = HLO_I1};
    const hlo_op *op = s->op;
    bool of_results = kind == RESULTS || kind == RESULT_SCALARS || kind == TWO_LISTS;
    size_t each = of_results ? op->num_results : op->num_operands;
    size_t wanted = kind == NOTHING ? 0 : kind == TRUTH ? 1 : each * (kind == TWO_LISTS || kind == PAIRS ? 2 : 1);
    if (!same_count(s, what, n, wanted))
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t k = kind == PAIRS ? i / 2 : kind == TWO_LISTS ? i % each : i;
        const hlo_type *t = kind == TRUTH ? &truth : of_results ? op->results[k]->type : op->operands[k]->type;
        if (!agrees_number(s, what, i, values[i]->type, t, kind != OPERANDS && kind != RESULTS))
            return false;
    }
    return true;
}

static const hlo_op *terminator(const hlo_region *r)
{
    const hlo_op *op = r->first;
    while (op && op->next)
        op = op->next;
    return op;
}

static bool check_regions(hlo_site *s)
{
    for (size_t i = 0; i < sizeof region_rows / sizeof *region_rows; i++) {
        if (strcmp(region_rows[i].op, s->op->name) != 0)
            continue;
        for (size_t k = 0; k < s->op->num_regions; k++) {
            const hlo_region *r = &s->op->regions[k];
            const hlo_op *end = terminator(r);
            if (region_rows[i].region >= 0 && (size_t)region_rows[i].region != k)
                continue;
            if (!check_values(s, "arguments of its region: argument", r->args, r->num_args, region_rows[i].args) ||
                (end && !check_values(s, "values returned by its region: value", end->operands, end->num_operands,
                                      region_rows[i].returns)))
                return false;
        }
    }
    return true;
}

/* ---- Single operations ---- */

/* A scalar, or of the shape of operand 1. */
static bool check_scalar_or_like(hlo_site *s, size_t i)
{
    const flx_type *t = flxi_hlo_typeof(s, s->x[i]);
    const flx_type *like = flxi_hlo_typeof(s, s->x[1]);
    bool same = t->rank == like->rank;
    for (int k = 0; k < t->rank && same; k++)
        same = flxi_hlo_equal_extents(s, like->dims[k], t->dims[k]);
    if (t->rank == 0 || same || flxi_hlo_failed(s))
        return !flxi_hlo_failed(s);
    flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "operand %zu must be a scalar or have the shape of operand 1", i);
    return false;
}

static bool check_select(hlo_site *s)
{
    return check_scalar_or_like(s, 0);
}

static bool check_clamp(hlo_site *s)
{
    return check_scalar_or_like(s, 0) && check_scalar_or_like(s, 2);
}

/* What a comparison is called must be what it is; i1 is compared by either name. */
static bool check_compare(hlo_site *s)
{
    static const struct {
        const char *type, *classes;
    } rows[] = {{"FLOAT", "fcq"}, {"TOTALORDER", "f"}, {"SIGNED", "ibq"}, {"UNSIGNED", "ubq"}};
    const char *type = flxi_hlo_word(s, "compare_type", "");
    const hlo_type *t = flxi_hlo_operand_type(s, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].type, type) == 0 && !strchr(rows[i].classes, flxi_hlo_element_class(t))) {
            flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "compare_type %s does not fit %s", type,
                          flxi_hlo_element(t->element)->text);
            return false;
        }
    return true;
}

/* Inputs, as many first values, as many results. */
static bool check_reduction(hlo_site *s)
{
    const hlo_op *op = s->op;
    size_t n = op->num_operands / 2;
    if (n == 0 || op->num_operands % 2)
        return same_count(s, "operands", op->num_operands, 2 * (n + 1));
    if (!same_count(s, "results", op->num_results, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        hlo_type shape = *op->operands[0]->type;
        shape.element = op->operands[i]->type->element;
        shape.quant = op->operands[i]->type->quant;
        if (!agrees_number(s, "operand", i, op->operands[i]->type, &shape, false) ||
            !agrees_number(s, "operand", n + i, op->operands[n + i]->type, op->operands[i]->type, true))
            return false;
    }
    return true;
}

/* Results like operands; one shape. */
static bool check_sort(hlo_site *s)
{
    const hlo_op *op = s->op;
    if (op->num_operands == 0)
        return same_count(s, "operands", 0, 1);
    if (!same_count(s, "results", op->num_results, op->num_operands))
        return false;
    for (size_t i = 0; i < op->num_operands; i++) {
        hlo_type shape = *op->operands[0]->type;
        shape.element = op->operands[i]->type->element;
        shape.quant = op->operands[i]->type->quant;
        if (!agrees_number(s, "operand", i, op->operands[i]->type, &shape, false) ||
            !agrees_number(s, "result", i, op->results[i]->type, op->operands[i]->type, false))
            return false;
    }
    return true;
}

/* Every result has the type of its operand. */
static bool check_same(hlo_site *s)
{
    if (!same_count(s, "results", s->op->num_results, s->op->num_operands))
        return false;
    for (size_t i = 0; i < s->op->num_results; i++)
        if (!agrees_number(s, "result", i, s->op->results[i]->type, s->op->operands[i]->type, false))
            return false;
    return true;
}

/* N inputs, indices, N updates. */
static bool check_scatter(hlo_site *s)
{
    const hlo_op *op = s->op;
    size_t n = op->num_operands / 2;
    if (op->num_operands < 3 || op->num_operands % 2 == 0)
        return same_count(s, "operands", op->num_operands, 2 * (n ? n : 1) + 1);
    if (!same_count(s, "results", op->num_results, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        const hlo_type *update = op->operands[n + 1 + i]->type;
        hlo_type like = *update;
        like.element = op->operands[i]->type->element;
        like.quant = op->operands[i]->type->quant;
        if (!agrees_number(s, "operand", n + 1 + i, update, &like, false) ||
            !agrees_number(s, "result", i, op->results[i]->type, op->operands[i]->type, false))
            return false;
    }
    if (strchr("iux", flxi_hlo_element_class(op->operands[n]->type)))
        return true;
    flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "operand %zu, the indices, must hold integers", n);
    return false;
}

static bool check_constant(hlo_site *s)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, "value");
    if (!a || a->kind != HLO_A_DENSE || s->op->num_results != 1)
        return true; /* the rule says what is wrong */
    hlo_type t = *s->op->results[0]->type;
    t.quant = a->type->quant; /* a literal of a quantised type may be written as what is stored */
    return agrees(s, "the literal", a->type, &t, false);
}

static bool check_tuple(hlo_site *s)
{
    const hlo_type *t = s->op->num_results == 1 ? s->op->results[0]->type : NULL;
    if (!t || t->kind != HLO_TUPLE)
        return same_count(s, "results that are tuples", 0, 1);
    if (!same_count(s, "operands", s->op->num_operands, t->num_parts))
        return false;
    for (size_t i = 0; i < t->num_parts; i++)
        if (!agrees_number(s, "operand", i, s->op->operands[i]->type, t->parts[i], false))
            return false;
    return true;
}

static bool check_get_tuple_element(hlo_site *s)
{
    const hlo_type *t = s->op->num_operands == 1 ? s->op->operands[0]->type : NULL;
    int64_t index = flxi_hlo_int(s, "index", -1);
    bool has = t && t->kind == HLO_TUPLE && index >= 0 && (uint64_t)index < t->num_parts && s->op->num_results == 1;
    return !has || agrees(s, "result 0", s->op->results[0]->type, t->parts[index], false);
}

static bool check_bitcast(hlo_site *s)
{
    bool from = flxi_hlo_element_class(flxi_hlo_operand_type(s, 0)) == 'c';
    bool to = flxi_hlo_element_class(flxi_hlo_result_type(s, 0)) == 'c';
    if (from != to)
        flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "real numbers do not become complex ones, nor the reverse");
    return from == to;
}

static bool check_fft(hlo_site *s)
{
    const char *type = flxi_hlo_word(s, "fft_type", "");
    bool from = flxi_hlo_element_class(flxi_hlo_operand_type(s, 0)) == 'c';
    bool to = flxi_hlo_element_class(flxi_hlo_result_type(s, 0)) == 'c';
    if (from == (strcmp(type, "RFFT") != 0) && to == (strcmp(type, "IRFFT") != 0))
        return true;
    flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "%s goes from %s to %s numbers", type,
                  strcmp(type, "RFFT") ? "complex" : "real", strcmp(type, "IRFFT") ? "complex" : "real");
    return false;
}

static const struct {
    const char *op;
    bool (*check)(hlo_site *s);
} op_checks[] = {
    {"chlo.constant", check_constant},
    {"stablehlo.all_reduce", check_same},
    {"stablehlo.bitcast_convert", check_bitcast},
    {"stablehlo.clamp", check_clamp},
    {"stablehlo.collective_broadcast", check_same},
    {"stablehlo.collective_permute", check_same},
    {"stablehlo.compare", check_compare},
    {"stablehlo.constant", check_constant},
    {"stablehlo.fft", check_fft},
    {"stablehlo.get_tuple_element", check_get_tuple_element},
    {"stablehlo.optimization_barrier", check_same},
    {"stablehlo.reduce", check_reduction},
    {"stablehlo.reduce_window", check_reduction},
    {"stablehlo.scatter", check_scatter},
    {"stablehlo.select", check_select},
    {"stablehlo.sort", check_sort},
    {"stablehlo.tuple", check_tuple},
    {"stablehlo.while", check_same},
};

bool flxi_hlo_check_agreement(hlo_site *s)
{
    for (size_t i = 0; i < sizeof op_checks / sizeof *op_checks; i++)
        if (strcmp(op_checks[i].op, s->op->name) == 0 && !op_checks[i].check(s))
            return false;
    return check_regions(s);
}

/* ---- Calls ---- */

bool flxi_hlo_check_call(hlo_site *s, const hlo_function *f)
{
    const hlo_op *op = s->op;
    if (!same_count(s, "operands", op->num_operands, f->body.num_args) ||
        !same_count(s, "results", op->num_results, f->num_results))
        return false;
    for (size_t i = 0; i < op->num_operands; i++)
        if (!agrees_number(s, "operand", i, op->operands[i]->type, f->body.args[i]->type, false))
            return false;
    for (size_t i = 0; i < op->num_results; i++)
        if (!agrees_number(s, "result", i, op->results[i]->type, f->results[i], false))
            return false;
    return true;
}
