/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_defaults.c: the attributes of an operation as VHLO wants them: each is there, in the order of the names, and
   structures are taken apart. The reverse of vhlo_properties.c. */
#include "stablehlo/bytecode/vhlo_writer.h"

/* ---- Defaults ---- */

/* Axes that a window moves along: all of the operand, without batch and features in a convolution. */
static int64_t window_rank(const hlo_op *op)
{
    const hlo_attr *dims = flxi_hlo_attr(op, "dimension_numbers");
    const hlo_attr *spatial = flxi_hlo_entry(dims, "input_spatial_dimensions");
    if (dims && dims->kind == HLO_A_DICT)
        return spatial && spatial->kind == HLO_A_LIST ? (int64_t)spatial->num_numbers : 0;
    return op->num_operands ? op->operands[0]->type->rank : 0;
}

static uint64_t put_ones(vhlo_writer *w, const hlo_op *op)
{
    int64_t v[FLX_MAX_RANK];
    int64_t n = window_rank(op);
    for (int i = 0; i < FLX_MAX_RANK; i++)
        v[i] = 1;
    return flxi_vhlo_put_ints(w, HLO_I64, v, 1, &n);
}

static uint64_t put_no_padding(vhlo_writer *w, const hlo_op *op)
{
    int64_t v[2 * FLX_MAX_RANK] = {0};
    int64_t dims[] = {window_rank(op), 2};
    return flxi_vhlo_put_ints(w, HLO_I64, v, 2, dims);
}

static uint64_t put_no_reversal(vhlo_writer *w, const hlo_op *op)
{
    int64_t v[FLX_MAX_RANK] = {0};
    int64_t n = window_rank(op);
    return flxi_vhlo_put_ints(w, HLO_I1, v, 1, &n);
}

static uint64_t put_no_axes(vhlo_writer *w, const hlo_op *op)
{
    int64_t n = 0;
    (void)op;
    return flxi_vhlo_put_ints(w, HLO_I64, NULL, 1, &n);
}

static uint64_t put_false(vhlo_writer *w, const hlo_op *op)
{
    (void)op;
    return flxi_vhlo_put_coded(w, 2, 0);
}

static uint64_t put_zero(vhlo_writer *w, const hlo_op *op)
{
    (void)op;
    return flxi_vhlo_put_int(w, HLO_I64, 0);
}

static uint64_t put_one(vhlo_writer *w, const hlo_op *op)
{
    (void)op;
    return flxi_vhlo_put_int(w, HLO_I64, 1);
}

static uint64_t put_last_axis(vhlo_writer *w, const hlo_op *op)
{
    (void)op;
    return flxi_vhlo_put_int(w, HLO_I64, -1);
}

static uint64_t put_nothing(vhlo_writer *w, const hlo_op *op)
{
    (void)op;
    return flxi_vhlo_put_array(w, NULL, 0);
}

static uint64_t put_no_text(vhlo_writer *w, const hlo_op *op)
{
    (void)op;
    return flxi_vhlo_put_text(w, "");
}

static uint64_t put_original(vhlo_writer *w, const hlo_op *op)
{
    (void)op;
    return flxi_vhlo_put_coded(w, 5, 1);
}

static uint64_t put_no_type(vhlo_writer *w, const hlo_op *op)
{
    (void)op;
    return flxi_vhlo_put_coded(w, 4, 0);
}

static uint64_t put_default_precisions(vhlo_writer *w, const hlo_op *op)
{
    (void)op;
    uint64_t word = flxi_vhlo_put_coded(w, 11, 0);
    return flxi_vhlo_put_array(w, (const uint64_t[]){word, word}, 2);
}

static const struct {
    const char *name;
    uint64_t (*put)(vhlo_writer *w, const hlo_op *op);
} defaults[] = {
    {"api_version", put_original},
    {"backend_config", put_no_text},
    {"base_dilations", put_ones},
    {"batch_group_count", put_one},
    {"called_computations", put_nothing},
    {"channel_id", put_zero},
    {"collapsed_slice_dims", put_no_axes},
    {"compare_type", put_no_type},
    {"dimension", put_last_axis},
    {"feature_group_count", put_one},
    {"has_side_effect", put_false},
    {"index_vector_dim", put_zero},
    {"indices_are_sorted", put_false},
    {"input_batching_dims", put_no_axes},
    {"input_spatial_dimensions", put_no_axes},
    {"inserted_window_dims", put_no_axes},
    {"is_stable", put_false},
    {"kernel_spatial_dimensions", put_no_axes},
    {"lhs_batching_dimensions", put_no_axes},
    {"lhs_contracting_dimensions", put_no_axes},
    {"lhs_dilation", put_ones},
    {"lower", put_false},
    {"offset_dims", put_no_axes},
    {"operand_batching_dims", put_no_axes},
    {"operand_layouts", put_nothing},
    {"output_operand_aliases", put_nothing},
    {"output_spatial_dimensions", put_no_axes},
    {"padding", put_no_padding},
    {"precision_config", put_default_precisions},
    {"result_layouts", put_nothing},
    {"rhs_batching_dimensions", put_no_axes},
    {"rhs_contracting_dimensions", put_no_axes},
    {"rhs_dilation", put_ones},
    {"scatter_dims_to_operand_dims", put_no_axes},
    {"scatter_indices_batching_dims", put_no_axes},
    {"start_index_map", put_no_axes},
    {"start_indices_batching_dims", put_no_axes},
    {"unique_indices", put_false},
    {"update_window_dims", put_no_axes},
    {"use_global_device_ids", put_false},
    {"window_dilations", put_ones},
    {"window_reversal", put_no_reversal},
    {"window_strides", put_ones},
};

static uint64_t put_default(vhlo_writer *w, const hlo_op *op, const char *name)
{
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (strcmp(defaults[i].name, name) == 0)
            return defaults[i].put(w, op);
    flxi_vhlo_writer_fail(w, op->at, FLX_E_UNSUPPORTED, NULL, "%.60s without %.60s is not written", op->name, name);
    return 0;
}

/* ---- Properties ---- */

/* The attribute of this name, or the member of the structure that VHLO takes apart. */
static const hlo_attr *find_attr(const hlo_op *op, const vhlo_row *row, const char *name, bool is_member)
{
    if (is_member)
        return flxi_hlo_entry(flxi_hlo_attr(op, row->attribute), name);
    if (strcmp(name, "channel_id") == 0)
        return flxi_hlo_entry(flxi_hlo_attr(op, "channel_handle"), "handle");
    return flxi_hlo_attr(op, name);
}

/* Whether the word is one of the list, without marks. */
static bool is_listed(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *s = words; (s = strstr(s, word)); s += n)
        if ((s == words || s[-1] == ' ') && (s[n] == ' ' || s[n] == 0))
            return true;
    return false;
}

bool flxi_vhlo_has_all(vhlo_writer *w, const hlo_op *op, const vhlo_row *row)
{
    for (size_t i = 0; i < op->num_attrs; i++) {
        const char *name = op->attrs[i].name;
        bool is_struct = row && row->attribute && strcmp(row->attribute, name) == 0;
        bool is_channel = strcmp(name, "channel_handle") == 0;
        if (is_struct || (row && is_listed(row->properties, is_channel ? "channel_id" : name)))
            continue;
        flxi_vhlo_writer_fail(w, op->at, FLX_E_UNSUPPORTED, NULL, "the attribute %.60s of %.60s is not written", name,
                              op->name);
        return false;
    }
    return true;
}

uint64_t flxi_vhlo_put_properties(vhlo_writer *w, const hlo_op *op, const vhlo_row *row)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    for (const char *words = row->properties; *words;) {
        char name[64] = "";
        bool is_member = *words == '.';
        words += is_member;
        size_t n = strcspn(words, " ");
        memcpy(name, words, n < sizeof name ? n : sizeof name - 1);
        words += n + (words[n] == ' ');
        const hlo_attr *a = find_attr(op, row, name, is_member);
        flxi_vhlo_put_varint(&b, a ? flxi_vhlo_put_attr(w, name, a) : put_default(w, op, name));
    }
    return flxi_vhlo_intern(w, &w->properties, VHLO_VHLO, &b);
}
