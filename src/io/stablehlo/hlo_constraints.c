/* hlo_constraints.c: what the language demands of attributes, regions and calls beyond the types of operands.

   Our ops count axes from the back when they are negative and fill in what is left out; here that is a mistake in the
   program. Attributes are rows of a table; regions and a few operations have a function each. */
#include "io/stablehlo/lowering.h"

#include <stdio.h>

/* ---- Attributes ---- */

typedef enum {
    AXIS,         /* one axis */
    SIGNED_AXIS,  /* the same, or counted from the back */
    AXES,         /* different axes */
    PERMUTATION,  /* all axes once */
    PER_AXIS,     /* a number per axis */
    NOT_NEGATIVE, /* a number ≥ 0 per axis */
    POSITIVE,     /* a number ≥ 1 per axis */
    WORD          /* one of `words` */
} attribute_kind;

enum {
    OPTIONAL = 1,
    RESULT = 2,
    LAST_OPERAND = 4,
    SPATIAL = 8
}; /* whose axes: operand 0 unless the flags say otherwise */

typedef struct {
    const char *op, *attribute, *member; /* member NULL: the attribute itself */
    attribute_kind kind;
    uint32_t flags;
    const char *words; /* " A B " */
} attribute_row;

#define TRANSPOSES " NO_TRANSPOSE TRANSPOSE ADJOINT "
#define GATHER(op)                                                               \
    {op, "dimension_numbers", "offset_dims", AXES, OPTIONAL | RESULT, NULL},     \
        {op, "dimension_numbers", "collapsed_slice_dims", AXES, OPTIONAL, NULL}, \
        {op, "dimension_numbers", "start_index_map", AXES, OPTIONAL, NULL},      \
    {                                                                            \
        op, "dimension_numbers", "operand_batching_dims", AXES, OPTIONAL, NULL   \
    }

static const attribute_row attribute_rows[] = {
    {"stablehlo.batch_norm_grad", "feature_index", NULL, AXIS, 0, NULL},
    {"stablehlo.batch_norm_inference", "feature_index", NULL, AXIS, 0, NULL},
    {"stablehlo.batch_norm_training", "feature_index", NULL, AXIS, 0, NULL},
    {"stablehlo.broadcast_in_dim", "broadcast_dimensions", NULL, AXES, RESULT, NULL},
    {"stablehlo.compare", "comparison_direction", NULL, WORD, 0, " EQ NE GE GT LE LT "},
    {"stablehlo.compare", "compare_type", NULL, WORD, OPTIONAL, " NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED "},
    {"stablehlo.concatenate", "dimension", NULL, AXIS, 0, NULL},
    {"stablehlo.convolution", "window_strides", NULL, POSITIVE, OPTIONAL | SPATIAL, NULL},
    {"stablehlo.convolution", "lhs_dilation", NULL, POSITIVE, OPTIONAL | SPATIAL, NULL},
    {"stablehlo.convolution", "rhs_dilation", NULL, POSITIVE, OPTIONAL | SPATIAL, NULL},
    {"stablehlo.dot_general", "dot_dimension_numbers", "lhs_batching_dimensions", AXES, OPTIONAL, NULL},
    {"stablehlo.dot_general", "dot_dimension_numbers", "lhs_contracting_dimensions", AXES, OPTIONAL, NULL},
    {"stablehlo.dot_general", "dot_dimension_numbers", "rhs_batching_dimensions", AXES, OPTIONAL | LAST_OPERAND, NULL},
    {"stablehlo.dot_general", "dot_dimension_numbers", "rhs_contracting_dimensions", AXES, OPTIONAL | LAST_OPERAND,
     NULL},
    {"stablehlo.dynamic_broadcast_in_dim", "broadcast_dimensions", NULL, AXES, RESULT, NULL},
    {"stablehlo.dynamic_broadcast_in_dim", "known_expanding_dimensions", NULL, AXES, OPTIONAL, NULL},
    {"stablehlo.dynamic_broadcast_in_dim", "known_nonexpanding_dimensions", NULL, AXES, OPTIONAL, NULL},
    GATHER("stablehlo.dynamic_gather"),
    {"stablehlo.dynamic_iota", "iota_dimension", NULL, AXIS, RESULT, NULL},
    {"stablehlo.dynamic_slice", "slice_sizes", NULL, NOT_NEGATIVE, 0, NULL},
    {"stablehlo.fft", "fft_type", NULL, WORD, 0, " FFT IFFT RFFT IRFFT "},
    GATHER("stablehlo.gather"),
    {"stablehlo.gather", "slice_sizes", NULL, NOT_NEGATIVE, 0, NULL},
    {"stablehlo.get_dimension_size", "dimension", NULL, AXIS, 0, NULL},
    {"stablehlo.iota", "iota_dimension", NULL, AXIS, RESULT, NULL},
    {"stablehlo.pad", "edge_padding_low", NULL, PER_AXIS, 0, NULL},
    {"stablehlo.pad", "edge_padding_high", NULL, PER_AXIS, 0, NULL},
    {"stablehlo.pad", "interior_padding", NULL, NOT_NEGATIVE, 0, NULL},
    {"stablehlo.reduce", "dimensions", NULL, AXES, 0, NULL},
    {"stablehlo.reduce_window", "window_dimensions", NULL, POSITIVE, 0, NULL},
    {"stablehlo.reduce_window", "window_strides", NULL, POSITIVE, OPTIONAL, NULL},
    {"stablehlo.reduce_window", "base_dilations", NULL, POSITIVE, OPTIONAL, NULL},
    {"stablehlo.reduce_window", "window_dilations", NULL, POSITIVE, OPTIONAL, NULL},
    {"stablehlo.reverse", "dimensions", NULL, AXES, 0, NULL},
    {"stablehlo.rng", "rng_distribution", NULL, WORD, 0, " UNIFORM NORMAL "},
    {"stablehlo.rng_bit_generator", "rng_algorithm", NULL, WORD, 0, " DEFAULT THREE_FRY PHILOX "},
    {"stablehlo.scatter", "scatter_dimension_numbers", "inserted_window_dims", AXES, OPTIONAL, NULL},
    {"stablehlo.scatter", "scatter_dimension_numbers", "scatter_dims_to_operand_dims", AXES, OPTIONAL, NULL},
    {"stablehlo.scatter", "scatter_dimension_numbers", "input_batching_dims", AXES, OPTIONAL, NULL},
    {"stablehlo.scatter", "scatter_dimension_numbers", "update_window_dims", AXES, OPTIONAL | LAST_OPERAND, NULL},
    {"stablehlo.select_and_scatter", "window_dimensions", NULL, POSITIVE, OPTIONAL, NULL},
    {"stablehlo.select_and_scatter", "window_strides", NULL, POSITIVE, OPTIONAL, NULL},
    {"stablehlo.set_dimension_size", "dimension", NULL, AXIS, 0, NULL},
    {"stablehlo.slice", "start_indices", NULL, NOT_NEGATIVE, 0, NULL},
    {"stablehlo.slice", "limit_indices", NULL, NOT_NEGATIVE, 0, NULL},
    {"stablehlo.slice", "strides", NULL, POSITIVE, 0, NULL},
    {"stablehlo.sort", "dimension", NULL, SIGNED_AXIS, OPTIONAL, NULL},
    {"stablehlo.transpose", "permutation", NULL, PERMUTATION, 0, NULL},
    {"stablehlo.triangular_solve", "transpose_a", NULL, WORD, OPTIONAL, TRANSPOSES},
};

static const char *label_of(const attribute_row *row)
{
    return row->member ? row->member : row->attribute;
}

static const hlo_attr *given(const hlo_site *s, const attribute_row *row)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, row->attribute);
    if (a && row->member)
        return a->kind == HLO_A_DICT ? flxi_hlo_entry(a, row->member) : NULL;
    return a;
}

/* Number of axes that the attribute speaks of; −1: not known. */
static int axes_of(const hlo_site *s, const attribute_row *row)
{
    if (row->flags & RESULT) {
        const hlo_type *t = s->op->num_results ? flxi_hlo_result_type(s, 0) : NULL;
        return t && t->kind == HLO_TENSOR && !t->is_unranked ? t->rank : -1;
    }
    if (s->nx == 0 || s->nx != s->op->num_operands)
        return -1;
    int rank = flxi_hlo_typeof(s, s->x[row->flags & LAST_OPERAND ? s->nx - 1 : 0])->rank;
    return row->flags & SPATIAL ? (rank < 2 ? 0 : rank - 2) : rank;
}

static bool check_word(hlo_site *s, const attribute_row *row)
{
    char word[40];
    snprintf(word, sizeof word, " %.36s ", flxi_hlo_word(s, row->attribute, ""));
    if (flxi_hlo_failed(s))
        return false;
    if (strstr(row->words, word))
        return true;
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s must be one of%.100s, but is%s", row->attribute, row->words, word);
    return false;
}

static bool refuse_axis(hlo_site *s, const attribute_row *row, int64_t axis, int rank)
{
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s has %lld, but there are %d axes, from 0", label_of(row),
                  (long long)axis, rank);
    return false;
}

static bool check_distinct_axes(hlo_site *s, const attribute_row *row, flx_ints v, int rank)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < v.n; i++) {
        if (v.v[i] < 0 || v.v[i] >= rank)
            return refuse_axis(s, row, v.v[i], rank);
        if (seen >> v.v[i] & 1) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s has %lld twice", label_of(row), (long long)v.v[i]);
            return false;
        }
        seen |= UINT32_C(1) << v.v[i];
    }
    return true;
}

static bool check_numbers(hlo_site *s, const attribute_row *row, flx_ints v)
{
    int64_t least = row->kind == POSITIVE ? 1 : row->kind == NOT_NEGATIVE ? 0 : INT64_MIN;
    for (size_t i = 0; i < v.n; i++)
        if (v.v[i] < least) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s has %lld, but must be at least %lld", label_of(row),
                          (long long)v.v[i], (long long)least);
            return false;
        }
    return true;
}

static bool check_count(hlo_site *s, const attribute_row *row, flx_ints v, int rank)
{
    if (v.n == (size_t)rank)
        return true;
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s has %zu entries, but needs %d: one per axis", label_of(row), v.n, rank);
    return false;
}

static bool check_list(hlo_site *s, const attribute_row *row, const hlo_attr *a)
{
    flx_ints v;
    int rank = axes_of(s, row);
    if (!flxi_hlo_ints_in(s, a, &v)) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s must be a list of integers", label_of(row));
        return false;
    }
    if (rank < 0)
        return true;
    switch (row->kind) {
    case AXIS:
    case SIGNED_AXIS:
        if (v.n == 1 && v.v[0] < rank && v.v[0] >= (row->kind == AXIS ? 0 : -rank))
            return true;
        return refuse_axis(s, row, v.n ? v.v[0] : 0, rank);
    case AXES: return check_distinct_axes(s, row, v, rank);
    case PERMUTATION: return check_count(s, row, v, rank) && check_distinct_axes(s, row, v, rank);
    case PER_AXIS:
    case NOT_NEGATIVE:
    case POSITIVE: return check_count(s, row, v, rank) && check_numbers(s, row, v);
    case WORD: break;
    }
    return true;
}

static bool check_attributes(hlo_site *s)
{
    for (size_t i = 0; i < sizeof attribute_rows / sizeof *attribute_rows; i++) {
        const attribute_row *row = &attribute_rows[i];
        if (strcmp(row->op, s->op->name) != 0)
            continue;
        const hlo_attr *a = given(s, row);
        if (!a && !(row->flags & OPTIONAL)) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute %s is missing", label_of(row));
            return false;
        }
        if (a && !(row->kind == WORD ? check_word(s, row) : check_list(s, row, a)))
            return false;
    }
    return true;
}

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

static bool check_while(hlo_site *s)
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

static const struct {
    const char *op;
    bool (*check)(hlo_site *s);
} op_checks[] = {
    {"stablehlo.clamp", check_clamp},      {"stablehlo.compare", check_compare},
    {"stablehlo.reduce", check_reduction}, {"stablehlo.reduce_window", check_reduction},
    {"stablehlo.scatter", check_scatter},  {"stablehlo.select", check_select},
    {"stablehlo.sort", check_sort},        {"stablehlo.while", check_while},
};

bool flxi_hlo_check_constraints(hlo_site *s)
{
    if (!check_attributes(s))
        return false;
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
