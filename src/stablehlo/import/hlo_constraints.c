/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_constraints.c: what the language demands of attributes, one row per attribute.

   Our ops count axes from the back when they are negative and fill in what is left out; here that is a mistake in the
   program. */
#include "stablehlo/import/import_scope.h"

#include <stdio.h>

/* ---- Attributes ---- */

typedef enum {
    AXIS,         /* one axis */
    SIGNED_AXIS,  /* the same, or counted from the back */
    AXIS_OR_END,  /* one axis, or their number */
    AXES,         /* different axes */
    PERMUTATION,  /* all axes once */
    PER_AXIS,     /* a number per axis */
    NOT_NEGATIVE, /* a number ≥ 0 per axis */
    POSITIVE,     /* a number ≥ 1 per axis */
    WORD          /* one of `words` */
} attribute_kind;

enum { /* flags of a row; it speaks of the axes of operand 0 unless one says otherwise */
       OPTIONAL = 1,
       RESULT = 2,       /* axes of result 0 */
       LAST_OPERAND = 4, /* axes of the last operand */
       INDICES = 8,      /* axes of the operand in the middle, the indices of gather and scatter */
       SPATIAL = 16,     /* two axes less */
       SORTED = 32
};

typedef struct {
    const char *op, *attribute, *member; /* member NULL: the attribute itself */
    attribute_kind kind;
    uint32_t flags;
    const char *words; /* " A B " */
} attribute_row;

#define TRANSPOSES " NO_TRANSPOSE TRANSPOSE ADJOINT "
static const attribute_row attribute_rows[] = {
    {"stablehlo.batch_norm_grad", "feature_index", NULL, AXIS, 0, NULL},
    {"stablehlo.batch_norm_inference", "feature_index", NULL, AXIS, 0, NULL},
    {"stablehlo.batch_norm_training", "feature_index", NULL, AXIS, 0, NULL},
    {"stablehlo.broadcast_in_dim", "broadcast_dimensions", NULL, AXES, RESULT, NULL},
    {"stablehlo.compare", "comparison_direction", NULL, WORD, 0, " EQ NE GE GT LE LT "},
    {"stablehlo.compare", "compare_type", NULL, WORD, OPTIONAL, " NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED "},
    {"stablehlo.concatenate", "dimension", NULL, AXIS, 0, NULL},
    {"stablehlo.convolution", "dimension_numbers", "input_spatial_dimensions", AXES, OPTIONAL, NULL},
    {"stablehlo.convolution", "dimension_numbers", "kernel_spatial_dimensions", AXES, OPTIONAL | LAST_OPERAND, NULL},
    {"stablehlo.convolution", "dimension_numbers", "output_spatial_dimensions", AXES, OPTIONAL | RESULT, NULL},
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
    {"stablehlo.dynamic_gather", "dimension_numbers", "offset_dims", AXES, OPTIONAL | RESULT | SORTED, NULL},
    {"stablehlo.dynamic_gather", "dimension_numbers", "collapsed_slice_dims", AXES, OPTIONAL | SORTED, NULL},
    {"stablehlo.dynamic_gather", "dimension_numbers", "operand_batching_dims", AXES, OPTIONAL | SORTED, NULL},
    {"stablehlo.dynamic_gather", "dimension_numbers", "start_indices_batching_dims", AXES, OPTIONAL | INDICES, NULL},
    {"stablehlo.dynamic_gather", "dimension_numbers", "start_index_map", AXES, OPTIONAL, NULL},
    {"stablehlo.dynamic_gather", "dimension_numbers", "index_vector_dim", AXIS_OR_END, OPTIONAL | INDICES, NULL},
    {"stablehlo.dynamic_iota", "iota_dimension", NULL, AXIS, RESULT, NULL},
    {"stablehlo.dynamic_slice", "slice_sizes", NULL, NOT_NEGATIVE, 0, NULL},
    {"stablehlo.fft", "fft_type", NULL, WORD, 0, " FFT IFFT RFFT IRFFT "},
    {"stablehlo.gather", "dimension_numbers", "offset_dims", AXES, OPTIONAL | RESULT | SORTED, NULL},
    {"stablehlo.gather", "dimension_numbers", "collapsed_slice_dims", AXES, OPTIONAL | SORTED, NULL},
    {"stablehlo.gather", "dimension_numbers", "operand_batching_dims", AXES, OPTIONAL | SORTED, NULL},
    {"stablehlo.gather", "dimension_numbers", "start_indices_batching_dims", AXES, OPTIONAL | INDICES, NULL},
    {"stablehlo.gather", "dimension_numbers", "start_index_map", AXES, OPTIONAL, NULL},
    {"stablehlo.gather", "dimension_numbers", "index_vector_dim", AXIS_OR_END, OPTIONAL | INDICES, NULL},
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
    {"stablehlo.scatter", "scatter_dimension_numbers", "update_window_dims", AXES, OPTIONAL | LAST_OPERAND | SORTED,
     NULL},
    {"stablehlo.scatter", "scatter_dimension_numbers", "inserted_window_dims", AXES, OPTIONAL | SORTED, NULL},
    {"stablehlo.scatter", "scatter_dimension_numbers", "input_batching_dims", AXES, OPTIONAL | SORTED, NULL},
    {"stablehlo.scatter", "scatter_dimension_numbers", "scatter_indices_batching_dims", AXES, OPTIONAL | INDICES, NULL},
    {"stablehlo.scatter", "scatter_dimension_numbers", "scatter_dims_to_operand_dims", AXES, OPTIONAL, NULL},
    {"stablehlo.scatter", "scatter_dimension_numbers", "index_vector_dim", AXIS_OR_END, OPTIONAL | INDICES, NULL},
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
    size_t operand = row->flags & LAST_OPERAND ? s->nx - 1 : row->flags & INDICES ? s->nx / 2 : 0;
    int rank = flxi_hlo_typeof(s, s->x[operand])->rank;
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
        if ((row->flags & SORTED) && i > 0 && v.v[i] < v.v[i - 1]) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "%s must be sorted", label_of(row));
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
    case AXIS_OR_END:
    case SIGNED_AXIS:
        if (v.n == 1 && v.v[0] < rank + (row->kind == AXIS_OR_END) && v.v[0] >= (row->kind == SIGNED_AXIS ? -rank : 0))
            return true;
        return refuse_axis(s, row, v.n ? v.v[0] : 0, rank);
    case AXES:
        return check_distinct_axes(s, row, v, rank);
    case PERMUTATION:
        return check_count(s, row, v, rank) && check_distinct_axes(s, row, v, rank);
    case PER_AXIS:
    case NOT_NEGATIVE:
    case POSITIVE:
        return check_count(s, row, v, rank) && check_numbers(s, row, v);
    case WORD:
        break;
    }
    return true;
}

bool flxi_hlo_check_attributes(hlo_site *s)
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
