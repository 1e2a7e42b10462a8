/* SPDX-License-Identifier: Apache-2.0 */
/* import_elementwise.c: operations on each element. Most are an op of ours under another name. */
#include "graph/type/type.h"
#include "stablehlo/import/import_narrow.h"

#include <math.h>
#include <string.h>

void flxi_hlo_import_named(hlo_site *s)
{
    const char *op = s->row->ours;
    if (s->row->ours_bool && flxi_hlo_dtype(s, s->x[0]) == FLX_BOOL)
        op = s->row->ours_bool;
    s->y[0] = flxi_hlo_append(s, op, s->x, s->nx);
}

/* Operations that look at the bits of operand 0: those of its own width. */
void flxi_hlo_import_bitwise(hlo_site *s)
{
    hlo_element e = flxi_hlo_operand_type(s, 0)->element;
    int idle = flxi_hlo_is_narrow_int(e) ? 8 - flxi_hlo_element(e)->bits : 0;
    flx_val x[2] = {flxi_hlo_bits_of_int(s, s->x[0], e), s->x[s->nx - 1]};
    if (idle && strcmp(s->row->ours, "shr_arith") == 0) { /* the sign is the highest bit, also for unsigned numbers */
        flx_val up = flxi_hlo_number(s, x[0], idle);
        x[0] = flx_shr_arith(s->g, flx_shl(s->g, x[0], up), up);
    }
    s->y[0] = flxi_hlo_append(s, s->row->ours, x, s->nx);
    if (idle && strcmp(s->row->ours, "clz") == 0)
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

void flxi_hlo_import_compare(hlo_site *s)
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

void flxi_hlo_import_convert(hlo_site *s)
{
    s->y[0] = flxi_hlo_convert(s, s->x[0], flxi_hlo_result_type(s, 0)->element);
}

void flxi_hlo_import_bitcast_convert(hlo_site *s)
{
    s->y[0] = flxi_hlo_bitcast(s, s->x[0], flxi_hlo_operand_type(s, 0)->element, flxi_hlo_result_type(s, 0)->element);
}

void flxi_hlo_import_reduce_precision(hlo_site *s)
{
    s->y[0] =
        flx_reduce_precision(s->g, s->x[0], flxi_hlo_int(s, "exponent_bits", 0), flxi_hlo_int(s, "mantissa_bits", 0));
}

/* real and imag of a real number are the number and zero. */
void flxi_hlo_import_complex_part(hlo_site *s)
{
    if (flxi_is_complex((int32_t)flxi_hlo_dtype(s, s->x[0])))
        flxi_hlo_import_named(s);
    else if (strcmp(s->row->ours, "real") == 0)
        s->y[0] = s->x[0];
    else
        s->y[0] = flxi_hlo_fill(s, flxi_hlo_number(s, s->x[0], 0), flxi_hlo_typeof(s, s->x[0]));
}

/* ---- Functions of complex numbers that ours are not ---- */

static bool is_complex(const hlo_site *s)
{
    return flxi_is_complex((int32_t)flxi_hlo_dtype(s, s->x[0]));
}

/* Ours have the limits of C at infinities (Annex G), where StableHLO has what its formulas give: NaN. */

static flx_val is_infinite(hlo_site *s, flx_val x)
{
    return flx_eq(s->g, flx_abs(s->g, x), flxi_hlo_number(s, x, (double)INFINITY));
}

/* NaN where the real part is infinite and the imaginary part is so too, or, for `at_zero`, 0. */
static void import_except_at_infinity(hlo_site *s, bool at_zero)
{
    flx_graph *g = s->g;
    flxi_hlo_import_named(s);
    if (!is_complex(s) || flxi_hlo_failed(s))
        return;
    flx_val re = flx_real(g, s->x[0]), im = flx_imag(g, s->x[0]);
    flx_val nan = flxi_hlo_number(s, re, (double)NAN);
    flx_val second = at_zero ? flx_eq(g, im, flxi_hlo_number(s, im, 0)) : is_infinite(s, im);
    s->y[0] = flx_where(g, flx_and(g, is_infinite(s, re), second), flx_complex(g, nan, nan), s->y[0]);
}

void flxi_hlo_import_cosh(hlo_site *s)
{
    import_except_at_infinity(s, false);
}

void flxi_hlo_import_expm1(hlo_site *s)
{
    import_except_at_infinity(s, false);
}

void flxi_hlo_import_tan(hlo_site *s)
{
    import_except_at_infinity(s, true);
}

/* z / |z|, and 0 for 0. */
void flxi_hlo_import_sign(hlo_site *s)
{
    flx_graph *g = s->g;
    if (!is_complex(s)) {
        flxi_hlo_import_named(s);
        return;
    }
    flx_val re = flx_real(g, s->x[0]), im = flx_imag(g, s->x[0]), length = flx_abs(g, s->x[0]);
    flx_val quotient = flx_complex(g, flx_div(g, re, length), flx_div(g, im, length));
    s->y[0] = flx_where(g, flx_eq(g, length, flxi_hlo_number(s, length, 0)), s->x[0], quotient);
}

/* The principal branch: z^(1/3). */
void flxi_hlo_import_cbrt(hlo_site *s)
{
    if (is_complex(s))
        s->y[0] = flx_pow(s->g, s->x[0], flxi_hlo_number(s, s->x[0], 1.0 / 3));
    else
        flxi_hlo_import_named(s);
}

/* -i log((x + iy) / √(x² + y²)) */
void flxi_hlo_import_atan2(hlo_site *s)
{
    flx_graph *g = s->g;
    if (!is_complex(s)) {
        flxi_hlo_import_named(s);
        return;
    }
    flx_dtype part = flxi_hlo_dtype(s, s->x[0]) == FLX_C64 ? FLX_F32 : FLX_F64;
    flx_val i = flx_complex(g, flx_scalar(g, part, 0), flx_scalar(g, part, 1));
    flx_val point = flx_add(g, s->x[1], flx_mul(g, i, s->x[0]));
    flx_val length = flx_sqrt(g, flx_add(g, flx_square(g, s->x[0]), flx_square(g, s->x[1])));
    s->y[0] = flx_mul(g, flx_neg(g, i), flx_log(g, flx_div(g, point, length)));
}

void flxi_hlo_import_extremum(hlo_site *s)
{
    if (!is_complex(s)) {
        flxi_hlo_import_named(s);
        return;
    }
    const char *before = strcmp(s->row->ours, "max") == 0 ? "gt" : "lt";
    s->y[0] = flx_where(s->g, compare_complex(s, before, s->x[0], s->x[1]), s->x[0], s->x[1]);
}

/* The neighbour among all numbers of the format; a wider carrier has others between them. */
void flxi_hlo_import_next_after(hlo_site *s)
{
    hlo_element e = flxi_hlo_operand_type(s, 0)->element;
    if (flxi_hlo_is_narrow_float(e))
        flxi_hlo_unsupported(s, "neighbours among the numbers of %s", flxi_hlo_element(e)->text);
    else
        flxi_hlo_import_named(s);
}

/* ---- Choices ---- */

void flxi_hlo_import_clamp(hlo_site *s)
{
    if (!is_complex(s)) {
        s->y[0] = flx_clamp(s->g, s->x[0], s->x[1], s->x[2]);
        return;
    }
    flx_val x = flx_where(s->g, compare_complex(s, "lt", s->x[1], s->x[0]), s->x[0], s->x[1]);
    s->y[0] = flx_where(s->g, compare_complex(s, "gt", x, s->x[2]), s->x[2], x);
}
