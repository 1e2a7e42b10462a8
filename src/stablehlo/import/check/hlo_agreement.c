/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_agreement.c: types that must agree beyond what a signature says: the arguments and results of regions with those
   of the operation (.regions of its row), those of calls with those of the function, and the checks that single rows
   name. Extents written ? agree with any. */
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
    bool is_same = a->rank == b->rank;
    for (int i = 0; i < a->rank && is_same; i++)
        is_same = a->dims[i] == b->dims[i] || a->dims[i] == HLO_DYNAMIC || b->dims[i] == HLO_DYNAMIC;
    return is_same;
}

/* Fails with "… is A, but must be B" unless `t` is `wanted`, or with `scalar` a scalar with its elements. */
static bool agrees(hlo_site *s, const char *who, const hlo_type *t, const hlo_type *wanted, bool is_scalar)
{
    bool fits = is_scalar ? t->kind == HLO_TENSOR && t->rank == 0 && flxi_hlo_same_element(t, wanted)
                          : flxi_hlo_compatible(t, wanted);
    if (fits)
        return true;
    char have[90];
    char want[90];
    hlo_type one = *wanted;
    if (is_scalar)
        one.rank = 0;
    flxi_hlo_type_print(t, have, sizeof have);
    flxi_hlo_type_print(&one, want, sizeof want);
    flxi_hlo_fail(s, flxi_hlo_same_element(t, wanted) ? FLX_E_SHAPE : FLX_E_DTYPE, NULL, "%s is %s, but must be %s",
                  who, have, want);
    return false;
}

static bool agrees_number(hlo_site *s, const char *what, size_t i, const hlo_type *t, const hlo_type *wanted,
                          bool is_scalar)
{
    char who[60];
    snprintf(who, sizeof who, "%s %zu", what, i);
    return agrees(s, who, t, wanted, is_scalar);
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
    TRUTH,
    OPERANDS,
    RESULTS,
    OPERAND_SCALARS,
    RESULT_SCALARS,
    RESULT_SCALARS_TWICE,
    OPERAND_SCALAR_PAIRS,
    NUM_VALUE_LISTS
} value_list_kind;

static const char *const value_lists[NUM_VALUE_LISTS] = {
    [NOTHING] = "nothing",
    [TRUTH] = "i1",
    [OPERANDS] = "operands",
    [RESULTS] = "results",
    [OPERAND_SCALARS] = "operand_scalars",
    [RESULT_SCALARS] = "result_scalars",
    [RESULT_SCALARS_TWICE] = "result_scalars_twice",
    [OPERAND_SCALAR_PAIRS] = "operand_scalar_pairs",
};

typedef struct {
    value_list_kind args, returns;
    bool repeats; /* for every further region too */
} region_rule;

/* Reads a word of value_lists; NULL when there is no such word. */
static const char *read_values(const char *p, value_list_kind *out)
{
    size_t n = strcspn(p, " ;");
    for (int i = 0; i < NUM_VALUE_LISTS; i++)
        if (strlen(value_lists[i]) == n && strncmp(value_lists[i], p, n) == 0) {
            *out = (value_list_kind)i;
            return p + n;
        }
    return NULL;
}

/* Reads "arguments -> returned values", with a * after the last; returns where the next begins, NULL when it is
   malformed. */
static const char *read_region(const char *p, region_rule *out)
{
    *out = (region_rule){0};
    p = read_values(p, &out->args);
    p = p && strncmp(p, " -> ", 4) == 0 ? read_values(p + 4, &out->returns) : NULL;
    if (p && strcmp(p, " *") == 0) {
        out->repeats = true;
        p += 2;
    }
    if (!p || (*p && strncmp(p, "; ", 2) != 0))
        return NULL;
    return p + (*p ? 2 : 0);
}

static bool is_any(const char *regions)
{
    return strcmp(regions, "any") == 0;
}

int flxi_hlo_region_count(const char *regions)
{
    region_rule r;
    int n = 0;
    if (!regions || is_any(regions))
        return regions != NULL;
    while (regions && *regions && (regions = read_region(regions, &r))) {
        if (r.repeats)
            return HLO_MANY;
        n++;
    }
    return n;
}

bool flxi_hlo_are_regions(const char *regions)
{
    region_rule r;
    while (regions && *regions && !is_any(regions))
        regions = read_region(regions, &r);
    return regions != NULL;
}

static bool check_values(hlo_site *s, const char *what, const hlo_value *const *values, size_t n, value_list_kind kind)
{
    static const hlo_type truth = {.kind = HLO_TENSOR, .element = HLO_I1};
    const hlo_op *op = s->op;
    bool of_results = kind == RESULTS || kind == RESULT_SCALARS || kind == RESULT_SCALARS_TWICE;
    size_t each = of_results ? op->num_results : op->num_operands;
    size_t wanted = kind == NOTHING ? 0
                    : kind == TRUTH ? 1
                                    : each * (kind == RESULT_SCALARS_TWICE || kind == OPERAND_SCALAR_PAIRS ? 2 : 1);
    if (!same_count(s, what, n, wanted))
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t k = kind == OPERAND_SCALAR_PAIRS ? i / 2 : kind == RESULT_SCALARS_TWICE ? i % each : i;
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

static bool check_region(hlo_site *s, const hlo_region *r, const region_rule *rule)
{
    const hlo_op *end = terminator(r);
    return check_values(s, "arguments of its region: argument", r->args, r->num_args, rule->args) &&
           (!end ||
            check_values(s, "values returned by its region: value", end->operands, end->num_operands, rule->returns));
}

static bool check_regions(hlo_site *s)
{
    region_rule rule = {0};
    const char *p = s->row->regions;
    if (!p || is_any(p))
        return true;
    for (size_t i = 0; i < s->op->num_regions; i++) {
        if (!rule.repeats)
            p = read_region(p, &rule);
        if (!p || !check_region(s, &s->op->regions[i], &rule))
            return false;
    }
    return true;
}

/* ---- Single operations ---- */

/* A scalar, or of the shape of operand 1. */
static bool check_scalar_or_like(hlo_site *s, size_t i)
{
    const flx_type *t = flxi_hlo_typeof(s, s->x[i]);
    const flx_type *like = flxi_hlo_typeof(s, s->x[1]);
    bool is_same = t->rank == like->rank;
    for (int k = 0; k < t->rank && is_same; k++)
        is_same = flxi_hlo_equal_extents(s, like->dims[k], t->dims[k]);
    if (t->rank == 0 || is_same || flxi_hlo_failed(s))
        return !flxi_hlo_failed(s);
    flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "operand %zu must be a scalar or have the shape of operand 1", i);
    return false;
}

bool flxi_hlo_check_select(hlo_site *s)
{
    return check_scalar_or_like(s, 0);
}

bool flxi_hlo_check_clamp(hlo_site *s)
{
    return check_scalar_or_like(s, 0) && check_scalar_or_like(s, 2);
}

/* compare_type must fit the element type; i1 may be SIGNED or UNSIGNED. */
bool flxi_hlo_check_compare(hlo_site *s)
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

/* Inputs, as many initial values, as many results. */
bool flxi_hlo_check_reduction(hlo_site *s)
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
bool flxi_hlo_check_sort(hlo_site *s)
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
bool flxi_hlo_check_same(hlo_site *s)
{
    if (!same_count(s, "results", s->op->num_results, s->op->num_operands))
        return false;
    for (size_t i = 0; i < s->op->num_results; i++)
        if (!agrees_number(s, "result", i, s->op->results[i]->type, s->op->operands[i]->type, false))
            return false;
    return true;
}

/* N inputs, indices, N updates. */
bool flxi_hlo_check_scatter(hlo_site *s)
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

bool flxi_hlo_check_constant(hlo_site *s)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, "value");
    if (!a || a->kind != HLO_A_DENSE || s->op->num_results != 1)
        return true; /* the rule says what is wrong */
    hlo_type t = *s->op->results[0]->type;
    t.quant = a->type->quant; /* a literal of a quantised type may be written as what is stored */
    return agrees(s, "the literal", a->type, &t, false);
}

bool flxi_hlo_check_tuple(hlo_site *s)
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

bool flxi_hlo_check_get_tuple_element(hlo_site *s)
{
    const hlo_type *t = s->op->num_operands == 1 ? s->op->operands[0]->type : NULL;
    int64_t index = flxi_hlo_int(s, "index", -1);
    bool has = t && t->kind == HLO_TUPLE && index >= 0 && (uint64_t)index < t->num_parts && s->op->num_results == 1;
    return !has || agrees(s, "result 0", s->op->results[0]->type, t->parts[index], false);
}

bool flxi_hlo_check_bitcast(hlo_site *s)
{
    bool from = flxi_hlo_element_class(flxi_hlo_operand_type(s, 0)) == 'c';
    bool to = flxi_hlo_element_class(flxi_hlo_result_type(s, 0)) == 'c';
    if (from != to)
        flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "a bitcast between real and complex numbers is not allowed");
    return from == to;
}

bool flxi_hlo_check_fft(hlo_site *s)
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

bool flxi_hlo_check_agreement(hlo_site *s)
{
    return (!s->row->check || s->row->check(s)) && check_regions(s);
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
