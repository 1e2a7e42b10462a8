/* SPDX-License-Identifier: Apache-2.0 */
/* export_lines.c: operations of one line. See export_writers.h. */
#include "stablehlo/export/export_writers.h"

static flx_ints ints(const export_node *n, const char *name)
{
    return *flxi_attr_ints(n->op, n->attrs, name);
}

static int64_t integer(const export_node *n, const char *name)
{
    return export_int(n->op, n->attrs, name);
}

static void put(export_node *n, const char *text)
{
    flxi_add_text(&n->w->out, text);
}

static void put_list(export_node *n, const char *before, flx_ints list)
{
    put(n, before);
    flxi_export_list(n->w, list.v, list.n);
}

/* name %in…, with what follows the operands still to come. */
static void open_line(export_node *n)
{
    flxi_export_open(n->w, n->name, n->in, n->nin, n->out);
}

static void close_line(export_node *n)
{
    flxi_export_signature(n->w, n->in, n->nin, n->out, n->nout);
}

/* ---- Pointwise ---- */

static void stretch_operands(export_node *n)
{
    for (uint32_t i = 0; i < n->nin; i++)
        n->in[i] = flxi_export_broadcast(n->w, n->in[i], n->out[0].type);
}

void flxi_export_write_pointwise(export_node *n)
{
    stretch_operands(n);
    open_line(n);
    if (n->in[0].type->dtype != n->out[0].type->dtype) {
        close_line(n);
        return;
    }
    put(n, " : ");
    flxi_export_type(n->w, n->out[0].type);
}

void flxi_export_write_chlo(export_node *n)
{
    stretch_operands(n);
    flxi_export_generic(n->w, n->name, n->in, n->nin, n->out, 1);
    close_line(n);
}

/* The row's name is the direction. */
void flxi_export_write_compare(export_node *n)
{
    int32_t dtype = n->in[0].type->dtype;
    const char *kind = flxi_is_signed(dtype)                       ? "SIGNED"
                       : flxi_in(FLXI_UNSIGNED | FLXI_BOOL, dtype) ? "UNSIGNED"
                                                                   : "FLOAT";
    stretch_operands(n);
    flxi_export_results(n->w, n->out, 1);
    flxi_addf(&n->w->out, "stablehlo.compare %s, ", n->name);
    flxi_export_values(n->w, n->in, 2);
    flxi_addf(&n->w->out, ", %s", kind);
    close_line(n);
}

void flxi_export_write_select(export_node *n)
{
    stretch_operands(n);
    open_line(n);
    put(n, " : ");
    flxi_export_types(n->w, n->in, 2);
}

void flxi_export_write_convert(export_node *n)
{
    if (flxi_type_equal(n->in[0].type, n->out[0].type)) {
        n->out[0].number = n->in[0].number;
        return;
    }
    open_line(n);
    close_line(n);
}

void flxi_export_write_reduce_precision(export_node *n)
{
    open_line(n);
    flxi_addf(&n->w->out, ", format = e%lldm%lld : ", (long long)integer(n, "exponent"),
              (long long)integer(n, "mantissa"));
    flxi_export_type(n->w, n->out[0].type);
}

/* ---- Identities ---- */

void flxi_export_write_alias(export_node *n)
{
    for (uint32_t k = 0; k < n->nout; k++)
        n->out[k].number = n->in[k].number;
}

void flxi_export_write_barrier(export_node *n)
{
    flxi_export_generic(n->w, n->name, n->in, n->nin, n->out, n->nout);
    close_line(n);
}

/* Every element of the second operand, a bool, is true. */
void flxi_export_write_check(export_node *n)
{
    export_val pair[2] = {n->in[1], flxi_export_number(n->w, n->in[1].type, 1.0)};
    flxi_export_line(n->w);
    put(n, "stablehlo.custom_call @check.expect_eq(");
    flxi_export_values(n->w, pair, 2);
    put(n, ") {has_side_effect = true}");
    flxi_export_signature(n->w, pair, 2, NULL, 0);
    n->out[0].number = n->in[0].number;
}

/* ---- Leaves ---- */

void flxi_export_write_const(export_node *n)
{
    const flx_tensor *t = flxi_attr_tensor(n->op, n->attrs, "data");
    flxi_export_constant(n->w, &t->type, t->data, false, n->out);
}

void flxi_export_write_full(export_node *n)
{
    const flx_tensor *t = flxi_attr_tensor(n->op, n->attrs, "value");
    flxi_export_constant(n->w, n->out[0].type, t->data, true, n->out);
}

void flxi_export_write_iota(export_node *n)
{
    flxi_export_results(n->w, n->out, 1);
    flxi_addf(&n->w->out, "stablehlo.iota dim = %lld : ", (long long)integer(n, "axis"));
    flxi_export_type(n->w, n->out[0].type);
}

/* ---- Shapes ---- */

void flxi_export_write_reshape(export_node *n)
{
    flxi_export_write_convert(n);
}

void flxi_export_write_expand(export_node *n)
{
    n->out[0].number = flxi_export_broadcast(n->w, n->in[0], n->out[0].type).number;
}

static void line_with_list(export_node *n, const char *before, const char *attr)
{
    open_line(n);
    put_list(n, before, ints(n, attr));
    close_line(n);
}

void flxi_export_write_broadcast_in_dim(export_node *n)
{
    line_with_list(n, ", dims = ", "axes");
}

void flxi_export_write_transpose(export_node *n)
{
    line_with_list(n, ", dims = ", "perm");
}

static void write_ranges(export_node *n, const int64_t *start, const int64_t *limit, const int64_t *stride)
{
    open_line(n);
    put(n, " [");
    for (int i = 0; i < n->in[0].type->rank; i++) {
        flxi_addf(&n->w->out, "%s%lld:%lld", i ? ", " : "", (long long)start[i], (long long)limit[i]);
        if (stride[i] != 1)
            flxi_addf(&n->w->out, ":%lld", (long long)stride[i]);
    }
    put(n, "]");
    close_line(n);
}

void flxi_export_write_slice(export_node *n)
{
    write_ranges(n, ints(n, "start").v, ints(n, "limit").v, ints(n, "stride").v);
}

void flxi_export_write_narrow(export_node *n)
{
    int64_t start[FLX_MAX_RANK] = {0};
    int64_t limit[FLX_MAX_RANK];
    int64_t stride[FLX_MAX_RANK];
    int64_t axis = integer(n, "axis");
    for (int i = 0; i < n->in[0].type->rank; i++) {
        limit[i] = n->in[0].type->dims[i];
        stride[i] = 1;
    }
    start[axis] = integer(n, "start");
    limit[axis] = start[axis] + integer(n, "len");
    write_ranges(n, start, limit, stride);
}

void flxi_export_write_pad(export_node *n)
{
    open_line(n);
    put_list(n, ", low = ", ints(n, "low"));
    put_list(n, ", high = ", ints(n, "high"));
    put_list(n, ", interior = ", ints(n, "interior"));
    close_line(n);
}

void flxi_export_write_reverse(export_node *n)
{
    open_line(n);
    put_list(n, ", dims = ", ints(n, "axes"));
    put(n, " : ");
    flxi_export_type(n->w, n->out[0].type);
}

void flxi_export_write_concat(export_node *n)
{
    open_line(n);
    flxi_addf(&n->w->out, ", dim = %lld", (long long)integer(n, "axis"));
    close_line(n);
}

/* ---- Indexing ---- */

void flxi_export_write_dynamic_slice(export_node *n)
{
    line_with_list(n, ", sizes = ", "sizes");
}

void flxi_export_write_dynamic_update_slice(export_node *n)
{
    open_line(n);
    close_line(n);
}

void flxi_export_write_gather_nd(export_node *n)
{
    flx_ints sizes = ints(n, "slice_sizes");
    flxi_export_generic(n->w, n->name, n->in, 2, n->out, 1);
    put_list(n, " <{dimension_numbers = #stablehlo.gather<offset_dims = ", ints(n, "offset_axes"));
    put_list(n, ", collapsed_slice_dims = ", ints(n, "collapsed_axes"));
    put_list(n, ", operand_batching_dims = ", ints(n, "operand_batching_axes"));
    put_list(n, ", start_indices_batching_dims = ", ints(n, "indices_batching_axes"));
    put_list(n, ", start_index_map = ", ints(n, "start_index_map"));
    flxi_addf(&n->w->out, ", index_vector_dim = %lld>, indices_are_sorted = false, ",
              (long long)integer(n, "index_vector_axis"));
    flxi_export_array(n->w, "slice_sizes", sizes.v, sizes.n);
    put(n, "}>");
    close_line(n);
}

/* ---- Products ---- */

static void put_pair(export_node *n, const char *before, const char *left, const char *right)
{
    put_list(n, before, ints(n, left));
    put_list(n, " x ", ints(n, right));
}

/* Narrow floats are summed in f32 and rounded once: the value of the product itself, whose type is `wide`. */
static export_val sum_of(export_node *n, flx_type *wide)
{
    bool is_narrow = n->out[0].type->dtype == FLX_F16 || n->out[0].type->dtype == FLX_BF16;
    *wide = *n->out[0].type;
    wide->dtype = is_narrow ? FLX_F32 : wide->dtype;
    return (export_val){.type = wide};
}

static void close_product(export_node *n, export_val sum)
{
    flxi_export_signature(n->w, n->in, 2, &sum, 1);
    n->out[0].number = flxi_export_convert(n->w, sum, n->out[0].type->dtype).number;
}

void flxi_export_write_dot_general(export_node *n)
{
    flx_type wide;
    export_val sum = sum_of(n, &wide);
    flxi_export_open(n->w, n->name, n->in, 2, &sum);
    if (ints(n, "lb").n)
        put_pair(n, ", batching_dims = ", "lb", "rb");
    put_pair(n, ", contracting_dims = ", "lc", "rc");
    close_product(n, sum);
}

/* [b, f, 0, 1]: which part each axis plays; axes[0] and axes[1] are the letters, the others the spatial axes. */
static void put_parts(export_node *n, const char *letters, flx_ints axes)
{
    put(n, "[");
    for (size_t at = 0; at < axes.n; at++) {
        size_t part = 0;
        while (part < axes.n && axes.v[part] != (int64_t)at)
            part++;
        put(n, at ? ", " : "");
        if (part < 2)
            flxi_add_char(&n->w->out, letters[part]);
        else
            flxi_addf(&n->w->out, "%u", (unsigned)(part - 2));
    }
    put(n, "]");
}

static void put_window(export_node *n)
{
    flx_ints padding = ints(n, "padding");
    flx_ints reverse = ints(n, "reverse");
    put_list(n, ", window = {stride = ", ints(n, "stride"));
    put(n, ", pad = [");
    for (size_t i = 0; i + 1 < padding.n; i += 2)
        flxi_addf(&n->w->out, "%s[%lld, %lld]", i ? ", " : "", (long long)padding.v[i], (long long)padding.v[i + 1]);
    put_list(n, "], lhs_dilate = ", ints(n, "input_dilation"));
    put_list(n, ", rhs_dilate = ", ints(n, "dilation"));
    put(n, ", reverse = [");
    for (size_t i = 0; i < reverse.n; i++)
        flxi_addf(&n->w->out, "%s%s", i ? ", " : "", reverse.v[i] ? "true" : "false");
    put(n, "]}");
}

void flxi_export_write_conv(export_node *n)
{
    flx_type wide;
    export_val sum = sum_of(n, &wide);
    flxi_export_results(n->w, &sum, 1);
    flxi_addf(&n->w->out, "%s(", n->name);
    flxi_export_values(n->w, n->in, 2);
    put(n, ") dim_numbers = ");
    put_parts(n, "bf", ints(n, "input_axes"));
    put(n, "x");
    put_parts(n, "oi", ints(n, "kernel_axes"));
    put(n, "->");
    put_parts(n, "bf", ints(n, "output_axes"));
    put_window(n);
    flxi_addf(&n->w->out, " {batch_group_count = %lld : i64, feature_group_count = %lld : i64}",
              (long long)integer(n, "batch_groups"), (long long)integer(n, "groups"));
    close_product(n, sum);
}

/* ---- Transforms and factors ---- */

void flxi_export_write_fft(export_node *n)
{
    const flx_type *t = n->in[0].type;
    open_line(n);
    flxi_addf(&n->w->out, ", type = %s, length = ", integer(n, "inverse") ? "IFFT" : "FFT");
    flxi_export_list(n->w, &t->dims[t->rank - 1], 1);
    close_line(n);
}

void flxi_export_write_real_fft(export_node *n)
{
    flx_dim length = integer(n, "n");
    open_line(n);
    flxi_addf(&n->w->out, ", type = %s, length = ", flxi_is_complex(n->in[0].type->dtype) ? "IRFFT" : "RFFT");
    flxi_export_list(n->w, &length, 1);
    close_line(n);
}

void flxi_export_write_cholesky(export_node *n)
{
    open_line(n);
    flxi_addf(&n->w->out, ", lower = %s : ", integer(n, "lower") ? "true" : "false");
    flxi_export_type(n->w, n->out[0].type);
}

void flxi_export_write_solve_triangular(export_node *n)
{
    static const char *const transposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}; /* by the word of trans */
    static const char *const flags[] = {"left_side", "lower"};
    flxi_export_generic(n->w, n->name, n->in, 2, n->out, 1);
    put(n, " <{");
    for (int i = 0; i < 2; i++)
        flxi_addf(&n->w->out, "%s = %s, ", flags[i], integer(n, flags[i]) ? "true" : "false");
    flxi_addf(&n->w->out, "transpose_a = #stablehlo<transpose %s>, unit_diagonal = %s}>",
              transposes[integer(n, "trans")], integer(n, "unit_diagonal") ? "true" : "false");
    close_line(n);
}

void flxi_export_write_rng_bit_generator(export_node *n)
{
    bool is_philox = flxi_attr_is_word(n->op, n->attrs, "algorithm", "philox4x32");
    flxi_export_results(n->w, n->out, 2);
    flxi_addf(&n->w->out, "%s ", n->name);
    flxi_export_values(n->w, n->in, 1);
    flxi_addf(&n->w->out, ", algorithm = %s", is_philox ? "PHILOX" : "THREE_FRY");
    close_line(n);
}
