/* SPDX-License-Identifier: Apache-2.0 */
/* export_table.c: what each op is called in StableHLO and CHLO. See export.h. */
#include "ops/opcode.h"
#include "stablehlo/export/export_rules.h"
#include "stablehlo/export/export_writers.h"

/* ---- Which nodes are written as they are ---- */

static bool not_bool(const export_query *q)
{
    return q->in[0]->dtype != FLX_BOOL;
}

static bool not_unsigned(const export_query *q)
{
    return !flxi_in(FLXI_UNSIGNED, q->in[0]->dtype);
}

static bool not_complex(const export_query *q)
{
    return !flxi_is_complex(q->in[0]->dtype);
}

static bool has_predicate(const export_query *q)
{
    return q->in[0]->dtype == FLX_BOOL;
}

static bool has_scalar_predicate(const export_query *q)
{
    return q->in[0]->dtype == FLX_BOOL && q->in[0]->rank == 0;
}

static bool has_scalar_i32(const export_query *q)
{
    return q->in[0]->dtype == FLX_I32 && q->in[0]->rank == 0;
}

static bool checks_bools(const export_query *q)
{
    return q->in[1]->dtype == FLX_BOOL;
}

static bool converts(const export_query *q)
{
    int32_t to = (int32_t)export_int(q->op, q->attrs, "to");
    return q->in[0]->dtype == to || (to != FLX_BOOL && (!flxi_is_complex(q->in[0]->dtype) || flxi_is_complex(to)));
}

static bool shows_bits(const export_query *q)
{
    int32_t to = (int32_t)export_int(q->op, q->attrs, "to");
    return !flxi_in(FLXI_COMPLEX | FLXI_BOOL, to) && !flxi_in(FLXI_COMPLEX | FLXI_BOOL, q->in[0]->dtype);
}

static bool drops_axes(const export_query *q)
{
    return !export_int(q->op, q->attrs, "keep_dims");
}

static bool drops_axes_exactly(const export_query *q)
{
    return drops_axes(q) && !export_is_half(q->in[0]->dtype);
}

static bool has_axes(const export_query *q)
{
    return export_ints(q->op, q->attrs, "axes").n > 0;
}

static bool has_named_add(const export_query *q)
{
    return flxi_export_is_word(q->op, q->attrs, "combine", "add") ||
           flxi_export_is_word(q->op, q->attrs, "combine", "mul");
}

static bool folds_exactly(const export_query *q)
{
    return !export_is_half(q->in[0]->dtype) || !has_named_add(q);
}

static bool has_compare(const export_query *q)
{
    return export_graph(q->op, q->attrs, "compare") != NULL;
}

static bool is_plain_transform(const export_query *q)
{
    return flxi_is_complex(q->in[0]->dtype) && flxi_export_is_word(q->op, q->attrs, "norm", "backward");
}

/* Operands from `first` on are scalars of one integer dtype. */
static bool has_index_scalars(const export_query *q, uint32_t first)
{
    for (uint32_t i = first; i < q->nin; i++)
        if (q->in[i]->rank != 0 || !flxi_is_int(q->in[i]->dtype) || q->in[i]->dtype != q->in[first]->dtype)
            return false;
    return true;
}

static bool slices_plainly(const export_query *q)
{
    return has_index_scalars(q, 1);
}

static bool updates_plainly(const export_query *q)
{
    return has_index_scalars(q, 2);
}

static bool is_oob(const export_query *q, const char *word)
{
    return flxi_export_is_word(q->op, q->attrs, "oob", word);
}

static bool gathers_plainly(const export_query *q)
{
    flx_ints sizes = export_ints(q->op, q->attrs, "slice_sizes");
    for (int i = 0; i < q->in[0]->rank; i++)
        if (q->in[0]->dims[i] < sizes.v[i])
            return false;
    return flxi_is_int(q->in[1]->dtype) && !is_oob(q, "zero");
}

/* The window has one element along each axis that an index moves it on. */
static bool scatters_elements(const export_query *q)
{
    flx_ints starts = export_ints(q->op, q->attrs, "start_index_map");
    flx_ints collapsed = export_ints(q->op, q->attrs, "collapsed_axes");
    for (size_t j = 0; j < starts.n; j++) {
        size_t i = 0;
        while (i < collapsed.n && collapsed.v[i] != starts.v[j])
            i++;
        if (i == collapsed.n)
            return false;
    }
    return true;
}

static bool scatters_plainly(const export_query *q)
{
    bool exact = !export_is_half(q->in[0]->dtype) || !flxi_export_is_word(q->op, q->attrs, "combine", "add");
    bool in_range = is_oob(q, "error") || (is_oob(q, "zero") && scatters_elements(q));
    return exact && in_range && flxi_is_int(q->in[1]->dtype) && flxi_static_extent(q->in[0], 0, q->in[0]->rank) > 0 &&
           flxi_static_extent(q->in[2], 0, q->in[2]->rank) > 0;
}

static bool has_wide_state(const export_query *q)
{
    return q->in[0]->dtype == FLX_U64;
}

static bool loops_plainly(const export_query *q)
{
    const flx_graph *cond = export_graph(q->op, q->attrs, "cond");
    const flx_type *t = flxi_type_at(cond, cond->outputs.at[0].val);
    return export_int(q->op, q->attrs, "max_iterations") == FLXI_ABSENT && t->dtype == FLX_BOOL && t->rank == 0;
}

/* ---- Rows ---- */

#define SAME(op, theirs) [OP_##op] = {.name = "stablehlo." theirs, .write = flxi_export_write_pointwise}
#define SAME_IF(op, theirs, when, rule)                \
    [OP_##op] = {.name = "stablehlo." theirs,          \
                 .write = flxi_export_write_pointwise, \
                 .plain = (when),                      \
                 .rewrite = flxi_export_as_##rule}
#define CHLO(op, theirs) [OP_##op] = {.name = "chlo." theirs, .write = flxi_export_write_chlo}
#define COMPARE(op, direction) [OP_##op] = {.name = direction, .write = flxi_export_write_compare}
#define ALIAS(op) [OP_##op] = {.write = flxi_export_write_alias}
#define LINE(op, theirs, writer) [OP_##op] = {.name = "stablehlo." theirs, .write = flxi_export_write_##writer}
#define LINE_IF(op, theirs, writer, when, rule)       \
    [OP_##op] = {.name = "stablehlo." theirs,         \
                 .write = flxi_export_write_##writer, \
                 .plain = (when),                     \
                 .rewrite = flxi_export_as_##rule}
#define REDUCTION(op, word, when) \
    [OP_##op] = {                 \
        .name = word, .write = flxi_export_write_reduction, .plain = (when), .rewrite = flxi_export_as_keep_dims}
#define RULE(op) [OP_##op] = {.rewrite = flxi_export_as_##op}
#define WRAPPED(op, theirs, writer)                   \
    [OP_##op] = {.name = "stablehlo." theirs,         \
                 .write = flxi_export_write_##writer, \
                 .plain = never,                      \
                 .rewrite = flxi_export_as_##op,      \
                 .wraps = true}

static bool never(const export_query *q)
{
    (void)q;
    return false;
}

static const export_row rows[OP_COUNT] = {
    /* arithmetic */
    SAME_IF(add, "add", not_bool, or),
    SAME(sub, "subtract"),
    SAME_IF(mul, "multiply", not_bool, and),
    SAME(div, "divide"),
    SAME_IF(max, "maximum", not_bool, or),
    SAME_IF(min, "minimum", not_bool, and),
    SAME(pow, "power"),
    SAME(rem, "remainder"),
    RULE(mod),
    SAME(atan2, "atan2"),
    CHLO(nextafter, "next_after"),
    [OP_clamp] = {.name = "stablehlo.clamp", .write = flxi_export_write_pointwise, .plain = not_bool},
    RULE(fma),
    RULE(add_n),
    /* comparison, logic, bits */
    COMPARE(eq, "EQ"),
    COMPARE(ne, "NE"),
    COMPARE(lt, "LT"),
    COMPARE(le, "LE"),
    COMPARE(gt, "GT"),
    COMPARE(ge, "GE"),
    SAME_IF(is_finite, "is_finite", not_complex, is_finite),
    RULE(is_nan),
    RULE(is_inf),
    SAME(and, "and"),
    SAME(or, "or"),
    SAME(xor, "xor"),
    SAME(not, "not"),
    SAME(bit_and, "and"),
    SAME(bit_or, "or"),
    SAME(bit_xor, "xor"),
    SAME(bit_not, "not"),
    SAME(shl, "shift_left"),
    SAME(shr_arith, "shift_right_arithmetic"),
    SAME(shr_logical, "shift_right_logical"),
    SAME(popcount, "popcnt"),
    SAME(clz, "count_leading_zeros"),
    LINE_IF(where, "select", select, has_predicate, where),
    /* elementary functions */
    SAME(exp, "exponential"),
    RULE(exp2),
    SAME(expm1, "exponential_minus_one"),
    SAME(log, "log"),
    RULE(log2),
    RULE(log10),
    SAME(log1p, "log_plus_one"),
    SAME(sqrt, "sqrt"),
    SAME(rsqrt, "rsqrt"),
    SAME(cbrt, "cbrt"),
    RULE(reciprocal),
    RULE(square),
    SAME(neg, "negate"),
    SAME_IF(abs, "abs", not_unsigned, identity),
    SAME_IF(sign, "sign", not_unsigned, sign),
    SAME(sin, "sine"),
    SAME(cos, "cosine"),
    SAME(tan, "tan"),
    CHLO(asin, "asin"),
    CHLO(acos, "acos"),
    CHLO(atan, "atan"),
    CHLO(sinh, "sinh"),
    CHLO(cosh, "cosh"),
    SAME(tanh, "tanh"),
    CHLO(asinh, "asinh"),
    CHLO(acosh, "acosh"),
    CHLO(atanh, "atanh"),
    SAME(floor, "floor"),
    SAME(ceil, "ceil"),
    RULE(trunc),
    SAME(round, "round_nearest_even"),
    SAME(round_away, "round_nearest_afz"),
    RULE(relu),
    SAME(sigmoid, "logistic"),
    RULE(silu),
    CHLO(erf, "erf"),
    CHLO(erfc, "erfc"),
    CHLO(erf_inv, "erf_inv"),
    CHLO(lgamma, "lgamma"),
    CHLO(digamma, "digamma"),
    CHLO(polygamma, "polygamma"),
    CHLO(zeta, "zeta"),
    RULE(bessel_i0e),
    CHLO(bessel_i1e, "bessel_i1e"),
    /* complex numbers */
    SAME(complex, "complex"),
    SAME(real, "real"),
    SAME(imag, "imag"),
    [OP_conjugate] = {.write = flxi_export_write_alias, .plain = not_complex, .rewrite = flxi_export_as_conjugate},
    RULE(complex_norm_sq),
    /* leaves, conversions, identities */
    [OP_const] = {.write = flxi_export_write_const},
    [OP_full] = {.write = flxi_export_write_full},
    [OP_iota] = {.write = flxi_export_write_iota},
    RULE(eye),
    RULE(dim_size),
    LINE_IF(cast, "convert", convert, converts, cast),
    LINE_IF(bitcast, "bitcast_convert", convert, shows_bits, bitcast),
    LINE(reduce_precision, "reduce_precision", reduce_precision),
    LINE(optimization_barrier, "optimization_barrier", barrier),
    ALIAS(stop_gradient),
    ALIAS(print),
    LINE_IF(check, "custom_call", check, checks_bools, check),
    /* shapes */
    LINE(reshape, "reshape", reshape),
    LINE(squeeze, "reshape", reshape),
    LINE(unsqueeze, "reshape", reshape),
    LINE(transpose, "transpose", transpose),
    [OP_expand] = {.write = flxi_export_write_expand},
    LINE(broadcast_in_dim, "broadcast_in_dim", broadcast_in_dim),
    LINE(slice, "slice", slice),
    LINE(narrow, "slice", narrow),
    LINE(pad, "pad", pad),
    LINE(reverse, "reverse", reverse),
    LINE(concat, "concatenate", concat),
    /* indexing */
    RULE(gather),
    RULE(take_along),
    RULE(scatter_add),
    LINE_IF(dynamic_slice, "dynamic_slice", dynamic_slice, slices_plainly, dynamic_slice),
    LINE_IF(dynamic_update_slice, "dynamic_update_slice", dynamic_update_slice, updates_plainly, dynamic_update_slice),
    LINE_IF(gather_nd, "gather", gather_nd, gathers_plainly, gather_nd),
    LINE_IF(scatter_nd, "scatter", scatter_nd, scatters_plainly, scatter_nd),
    /* reductions, running folds, orders */
    REDUCTION(reduce_sum, "add", drops_axes_exactly),
    REDUCTION(reduce_prod, "mul", drops_axes_exactly),
    REDUCTION(reduce_max, "max", drops_axes),
    REDUCTION(reduce_min, "min", drops_axes),
    REDUCTION(reduce_any, "max", drops_axes),
    REDUCTION(reduce_all, "min", drops_axes),
    LINE_IF(reduce, "reduce", reduce, has_axes, reduce),
    LINE_IF(reduce_window, "reduce_window", reduce_window, folds_exactly, widened),
    LINE_IF(select_and_scatter, "select_and_scatter", select_and_scatter, folds_exactly, widened),
    RULE(argmax),
    RULE(argmin),
    RULE(cumsum),
    RULE(cumprod),
    RULE(cummax),
    RULE(cummin),
    RULE(cumlogsumexp),
    LINE_IF(sort, "sort", sort, has_compare, sort),
    RULE(argsort),
    RULE(topk),
    RULE(top_k),
    RULE(pool_argmax),
    RULE(rope),
    LINE_IF(fft, "fft", fft, is_plain_transform, fft),
    /* products */
    LINE_IF(dot_general, "dot_general", dot_general, not_bool, dot_general),
    RULE(matmul),
    RULE(grouped_matmul),
    RULE(grouped_matmul_input_backward),
    RULE(grouped_matmul_weight_backward),
    LINE_IF(conv, "convolution", conv, not_bool, conv),
    RULE(conv_backward_input),
    RULE(conv_backward_weight),
    RULE(dequant_moe_weights),
    /* linear algebra */
    WRAPPED(cholesky, "cholesky", cholesky),
    WRAPPED(solve_triangular, "triangular_solve", solve_triangular),
    RULE(lu),
    RULE(solve),
    RULE(inv),
    RULE(det),
    RULE(adjugate),
    RULE(qr),
    RULE(sparse_solve),
    RULE(eigh),
    RULE(svd),
    RULE(pinv),
    RULE(expm),
    /* random numbers */
    LINE_IF(rng_bit_generator, "rng_bit_generator", rng_bit_generator, has_wide_state, rng_bit_generator),
    RULE(rng_bits),
    RULE(rng_uniform),
    RULE(rng_normal),
    RULE(rng_split),
    RULE(rng_fold_in),
    RULE(exponential),
    RULE(truncated_normal),
    RULE(categorical),
    RULE(permutation),
    RULE(sample),
    RULE(gamma),
    /* a mesh of one process */
    ALIAS(broadcast),
    ALIAS(send),
    ALIAS(barrier),
    RULE(recv),
    /* control flow */
    LINE_IF(if, "if", if, has_scalar_predicate, if),
    LINE_IF(case, "case", case, has_scalar_i32, case),
    LINE_IF(while, "while", while, loops_plainly, while),
    RULE(scan),
    RULE(fixed_point),
    RULE(cg),
    RULE(gmres),
    RULE(root),
};

const export_row *flxi_export_row(flxi_opcode op)
{
    return &rows[op];
}
