/* SPDX-License-Identifier: Apache-2.0 */
/* import_elementwise.c: operations on each element. Most are an op of ours under another name. */
#include "graph/type/type.h"
#include "stablehlo/import/import_narrow.h"

#include <string.h>

static void import_named(hlo_site *s)
{
    const char *op = s->rule->ours;
    if (s->rule->ours_bool && flxi_hlo_dtype(s, s->x[0]) == FLX_BOOL)
        op = s->rule->ours_bool;
    s->y[0] = flxi_hlo_append(s, op, s->x, s->nx);
}

/* Operations that look at the bits of operand 0: those of its own width. */
static void import_bits(hlo_site *s)
{
    hlo_element e = flxi_hlo_operand_type(s, 0)->element;
    int idle = flxi_hlo_is_narrow_int(e) ? 8 - flxi_hlo_element(e)->bits : 0;
    flx_val x[2] = {flxi_hlo_bits_of_int(s, s->x[0], e), s->x[s->nx - 1]};
    if (idle && strcmp(s->rule->ours, "shr_arith") == 0) { /* the sign is the uppermost bit, of unsigned numbers too */
        flx_val up = flxi_hlo_number(s, x[0], idle);
        x[0] = flx_shr_arith(s->g, flx_shl(s->g, x[0], up), up);
    }
    s->y[0] = flxi_hlo_append(s, s->rule->ours, x, s->nx);
    if (idle && strcmp(s->rule->ours, "clz") == 0)
        s->y[0] = flx_sub(s->g, s->y[0], flxi_hlo_number(s, s->y[0], idle));
}

/* ---- Comparison ---- */

/* Floats as integers of the same order: −NaN < −inf < … < −0 < +0 < … < inf < NaN. */
static flx_val total_order_key(hlo_site *s, flx_val x)
{
    static const flx_dtype same_width[FLX_DTYPE_COUNT] = {
        [FLX_F64] = FLX_I64, [FLX_F32] = FLX_I32, [FLX_F16] = FLX_I16, [FLX_BF16] = FLX_I16};
    flx_dtype to = same_width[flxi_hlo_dtype(s, x)];
    flx_val bits = flx_bitcast(s->g, x, to);
    flx_val zero = flx_scalar(s->g, to, 0);
    flx_val lowest = flx_bit_not(s->g, flx_shr_logical(s->g, flx_bit_not(s->g, zero), flx_scalar(s->g, to, 1)));
    return flx_where(s->g, flx_lt(s->g, bits, zero), flx_bit_xor(s->g, flx_bit_not(s->g, bits), lowest), bits);
}

/* Complex numbers are in the order of their real parts, then of their imaginary parts. */
static flx_val compare_complex(hlo_site *s, const char *op, flx_val a, flx_val b)
{
    flx_graph *g = s->g;
    flx_val re[2] = {flx_real(g, a), flx_real(g, b)};
    flx_val im[2] = {flx_imag(g, a), flx_imag(g, b)};
    return flx_where(g, flx_eq(g, re[0], re[1]), flxi_hlo_append(s, op, im, 2), flxi_hlo_append(s, op, re, 2));
}

static void import_compare(hlo_site *s)
{
    static const char *const directions[][2] = {{"EQ", "eq"}, {"NE", "ne"}, {"GE", "ge"},
                                                {"GT", "gt"}, {"LE", "le"}, {"LT", "lt"}};
    const char *direction = flxi_hlo_word(s, "comparison_direction", "");
    const char *type = flxi_hlo_word(s, "compare_type", "");
    flx_val x[2] = {s->x[0], s->x[1]};
    if (strcmp(type, "TOTALORDER") == 0 && flxi_is_float((int32_t)flxi_hlo_dtype(s, x[0])))
        for (int i = 0; i < 2; i++)
            x[i] = total_order_key(s, x[i]);
    for (size_t i = 0; i < sizeof directions / sizeof *directions; i++)
        if (strcmp(direction, directions[i][0]) == 0) {
            bool is_ordered = i >= 2 && flxi_is_complex((int32_t)flxi_hlo_dtype(s, x[0]));
            s->y[0] = is_ordered ? compare_complex(s, directions[i][1], x[0], x[1])
                                 : flxi_hlo_append(s, directions[i][1], x, 2);
            return;
        }
    flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "comparison_direction must be EQ, NE, GE, GT, LE or LT");
}

/* ---- Conversions ---- */

static void import_convert(hlo_site *s)
{
    s->y[0] = flxi_hlo_convert(s, s->x[0], flxi_hlo_result_type(s, 0)->element);
}

static void import_bitcast(hlo_site *s)
{
    s->y[0] = flxi_hlo_bitcast(s, s->x[0], flxi_hlo_operand_type(s, 0)->element, flxi_hlo_result_type(s, 0)->element);
}

static void import_reduce_precision(hlo_site *s)
{
    s->y[0] =
        flx_reduce_precision(s->g, s->x[0], flxi_hlo_int(s, "exponent_bits", 0), flxi_hlo_int(s, "mantissa_bits", 0));
}

/* real and imag of a real number are the number and zero. */
static void import_part(hlo_site *s)
{
    if (flxi_is_complex((int32_t)flxi_hlo_dtype(s, s->x[0])))
        import_named(s);
    else if (strcmp(s->rule->ours, "real") == 0)
        s->y[0] = s->x[0];
    else
        s->y[0] = flxi_hlo_fill(s, flxi_hlo_number(s, s->x[0], 0), flxi_hlo_typeof(s, s->x[0]));
}

/* ---- Functions of complex numbers that ours are not ---- */

static bool is_complex(const hlo_site *s)
{
    return flxi_is_complex((int32_t)flxi_hlo_dtype(s, s->x[0]));
}

/* The principal branch: z^(1/3). */
static void import_cbrt(hlo_site *s)
{
    if (is_complex(s))
        s->y[0] = flx_pow(s->g, s->x[0], flxi_hlo_number(s, s->x[0], 1.0 / 3));
    else
        import_named(s);
}

/* -i log((x + iy) / √(x² + y²)) */
static void import_atan2(hlo_site *s)
{
    flx_graph *g = s->g;
    if (!is_complex(s)) {
        import_named(s);
        return;
    }
    flx_dtype part = flxi_hlo_dtype(s, s->x[0]) == FLX_C64 ? FLX_F32 : FLX_F64;
    flx_val i = flx_complex(g, flx_scalar(g, part, 0), flx_scalar(g, part, 1));
    flx_val point = flx_add(g, s->x[1], flx_mul(g, i, s->x[0]));
    flx_val length = flx_sqrt(g, flx_add(g, flx_square(g, s->x[0]), flx_square(g, s->x[1])));
    s->y[0] = flx_mul(g, flx_neg(g, i), flx_log(g, flx_div(g, point, length)));
}

static void import_extreme(hlo_site *s)
{
    if (!is_complex(s)) {
        import_named(s);
        return;
    }
    const char *before = strcmp(s->rule->ours, "max") == 0 ? "gt" : "lt";
    s->y[0] = flx_where(s->g, compare_complex(s, before, s->x[0], s->x[1]), s->x[0], s->x[1]);
}

/* The neighbour among all numbers of the format; a wider carrier has others between them. */
static void import_next_after(hlo_site *s)
{
    hlo_element e = flxi_hlo_operand_type(s, 0)->element;
    if (flxi_hlo_is_narrow_float(e))
        flxi_hlo_unsupported(s, "neighbours among the numbers of %s", flxi_hlo_element(e)->text);
    else
        import_named(s);
}

/* ---- Choices ---- */

static void import_clamp(hlo_site *s)
{
    if (!is_complex(s)) {
        s->y[0] = flx_clamp(s->g, s->x[0], s->x[1], s->x[2]);
        return;
    }
    flx_val x = flx_where(s->g, compare_complex(s, "lt", s->x[1], s->x[0]), s->x[0], s->x[1]);
    s->y[0] = flx_where(s->g, compare_complex(s, "gt", x, s->x[2]), s->x[2], x);
}

#define SAME (HLO_SAME_TYPE | HLO_ELEMENTS)
#define UNARY(theirs, ours)                                                \
    {                                                                      \
        "stablehlo." theirs, 1, 0, HLO_SAME_TYPE, import_named, ours, NULL \
    }
#define BINARY(theirs, ours)                                      \
    {                                                             \
        "stablehlo." theirs, 2, 0, SAME, import_named, ours, NULL \
    }
#define LOGIC(theirs, n, ours, ours_bool)                              \
    {                                                                  \
        "stablehlo." theirs, n, 0, SAME, import_named, ours, ours_bool \
    }
#define CHLO(theirs, n, ours)                                \
    {                                                        \
        "chlo." theirs, n, 0, SAME, import_named, ours, NULL \
    }

const hlo_rule flxi_hlo_elementwise_rules[] = {
    UNARY("abs", "abs"),
    {"stablehlo.cbrt", 1, 0, HLO_SAME_TYPE, import_cbrt, "cbrt", NULL},
    UNARY("ceil", "ceil"),
    UNARY("cosine", "cos"),
    UNARY("exponential", "exp"),
    UNARY("exponential_minus_one", "expm1"),
    UNARY("floor", "floor"),
    UNARY("is_finite", "is_finite"),
    UNARY("log", "log"),
    UNARY("log_plus_one", "log1p"),
    UNARY("logistic", "sigmoid"),
    UNARY("negate", "neg"),
    UNARY("round_nearest_afz", "round_away"),
    UNARY("round_nearest_even", "round"),
    UNARY("rsqrt", "rsqrt"),
    UNARY("sign", "sign"),
    UNARY("sine", "sin"),
    UNARY("sqrt", "sqrt"),
    UNARY("tan", "tan"),
    UNARY("tanh", "tanh"),
    BINARY("add", "add"),
    {"stablehlo.atan2", 2, 0, SAME, import_atan2, "atan2", NULL},
    BINARY("complex", "complex"),
    BINARY("divide", "div"),
    {"stablehlo.maximum", 2, 0, SAME, import_extreme, "max", NULL},
    {"stablehlo.minimum", 2, 0, SAME, import_extreme, "min", NULL},
    BINARY("multiply", "mul"),
    BINARY("power", "pow"),
    BINARY("remainder", "rem"),
    BINARY("shift_left", "shl"),
    BINARY("subtract", "sub"),
    LOGIC("and", 2, "bit_and", "and"),
    LOGIC("or", 2, "bit_or", "or"),
    LOGIC("xor", 2, "bit_xor", "xor"),
    LOGIC("not", 1, "bit_not", "not"),
    {"stablehlo.count_leading_zeros", 1, 0, HLO_SAME_TYPE, import_bits, "clz", NULL},
    {"stablehlo.popcnt", 1, 0, HLO_SAME_TYPE, import_bits, "popcount", NULL},
    {"stablehlo.shift_right_arithmetic", 2, 0, SAME, import_bits, "shr_arith", NULL},
    {"stablehlo.shift_right_logical", 2, 0, SAME, import_bits, "shr_logical", NULL},
    {"stablehlo.real", 1, 0, HLO_SAME_TYPE, import_part, "real", NULL},
    {"stablehlo.imag", 1, 0, HLO_SAME_TYPE, import_part, "imag", NULL},
    {"stablehlo.compare", 2, 0, SAME, import_compare, NULL, NULL},
    {"stablehlo.convert", 1, 0, HLO_SAME_TYPE | HLO_MOVES, import_convert, NULL, NULL},
    {"stablehlo.bitcast_convert", 1, 0, HLO_MOVES, import_bitcast, NULL, NULL},
    {"stablehlo.reduce_precision", 1, 0, HLO_SAME_TYPE, import_reduce_precision, NULL, NULL},
    {"stablehlo.clamp", 3, 0, HLO_ELEMENTS, import_clamp, NULL, NULL},
    {"stablehlo.select", 3, 0, HLO_MOVES, import_named, "where", NULL},
    CHLO("acos", 1, "acos"),
    CHLO("acosh", 1, "acosh"),
    CHLO("asin", 1, "asin"),
    CHLO("asinh", 1, "asinh"),
    CHLO("atan", 1, "atan"),
    CHLO("atanh", 1, "atanh"),
    CHLO("bessel_i1e", 1, "bessel_i1e"),
    CHLO("conj", 1, "conjugate"),
    CHLO("cosh", 1, "cosh"),
    CHLO("digamma", 1, "digamma"),
    CHLO("erf", 1, "erf"),
    CHLO("erf_inv", 1, "erf_inv"),
    CHLO("erfc", 1, "erfc"),
    CHLO("is_inf", 1, "is_inf"),
    CHLO("lgamma", 1, "lgamma"),
    {"chlo.next_after", 2, 0, SAME, import_next_after, "nextafter", NULL},
    CHLO("polygamma", 2, "polygamma"),
    CHLO("sinh", 1, "sinh"),
    CHLO("square", 1, "square"),
    CHLO("tan", 1, "tan"),
    CHLO("zeta", 2, "zeta"),
    {0},
};
