/* SPDX-License-Identifier: Apache-2.0 */
/* import_expect_calls.c: the check functions of self-checking programs: each becomes a `check` that the run makes. */
#include "graph/type/type.h"
#include "stablehlo/import/call/import_custom_call.h"

#include <stdio.h>
#include <string.h>

static const flx_dtype bits_of[FLX_DTYPE_COUNT] = {/* floats as unsigned integers of their width */
                                                   [FLX_F64] = FLX_U64,
                                                   [FLX_F32] = FLX_U32,
                                                   [FLX_F16] = FLX_U16,
                                                   [FLX_BF16] = FLX_U16};

static flx_val both_nan(hlo_site *s, flx_val a, flx_val b)
{
    return flx_and(s->g, flx_is_nan(s->g, a), flx_is_nan(s->g, b));
}

/* ---- Equality: the same bits; one NaN is as good as another ---- */

static flx_val same_bits(hlo_site *s, flx_val a, flx_val b)
{
    flx_dtype bits = bits_of[flxi_hlo_dtype(s, a)];
    if (!bits)
        return flx_eq(s->g, a, b);
    return flx_or(s->g, flx_eq(s->g, flx_bitcast(s->g, a, bits), flx_bitcast(s->g, b, bits)), both_nan(s, a, b));
}

/* ---- Distance in units of the last place ---- */

/* A number's position among all of its format, as u64; both zeros have the same one. */
static flx_val position_of(hlo_site *s, flx_val x)
{
    flx_dtype d = flxi_hlo_dtype(s, x);
    double sign_bit = d == FLX_F64 ? 0x1p63 : d == FLX_F32 ? 0x1p31 : 0x1p15;
    flx_val bits = flx_cast(s->g, flx_bitcast(s->g, x, bits_of[d]), FLX_U64);
    flx_val zero = flx_scalar(s->g, FLX_U64, sign_bit);
    return flx_where(s->g, flx_ge(s->g, bits, zero), flx_sub(s->g, zero, flx_sub(s->g, bits, zero)),
                     flx_add(s->g, zero, bits));
}

static flx_val ulps_between(hlo_site *s, flx_val a, flx_val b)
{
    flx_val p = position_of(s, a);
    flx_val q = position_of(s, b);
    return flx_sub(s->g, flx_max(s->g, p, q), flx_min(s->g, p, q));
}

static flx_val is_close(hlo_site *s, flx_val a, flx_val b)
{
    if (!bits_of[flxi_hlo_dtype(s, a)])
        return flx_eq(s->g, a, b);
    flx_val most = flx_scalar(s->g, FLX_U64, (double)flxi_hlo_int(s, "max_ulp_difference", 3));
    flx_val least = flx_scalar(s->g, FLX_U64, (double)flxi_hlo_int(s, "min_ulp_difference", 0));
    flx_val ulps = ulps_between(s, a, b);
    flx_val near = flx_and(s->g, flx_le(s->g, ulps, most), flx_ge(s->g, ulps, least));
    flx_val finite = flx_and(s->g, flx_is_finite(s->g, a), flx_is_finite(s->g, b));
    return flx_where(s->g, finite, near, flx_or(s->g, flx_eq(s->g, a, b), both_nan(s, a, b)));
}

/* ---- Distance as a number ---- */

static flx_val is_almost_equal(hlo_site *s, flx_val a, flx_val b)
{
    const double tolerance = 1e-3;
    if (!bits_of[flxi_hlo_dtype(s, a)])
        return flx_eq(s->g, a, b);
    flx_val wide_a = flx_cast(s->g, a, FLX_F64);
    flx_val wide_b = flx_cast(s->g, b, FLX_F64);
    flx_val distance = flx_abs(s->g, flx_sub(s->g, wide_a, wide_b));
    flx_val near = flx_le(s->g, distance, flx_scalar(s->g, FLX_F64, tolerance));
    return flx_or(s->g, near, flx_or(s->g, flx_eq(s->g, a, b), both_nan(s, a, b)));
}

/* ---- The calls ---- */

typedef flx_val (*agreement)(hlo_site *s, flx_val a, flx_val b);

static flx_val agree(hlo_site *s, agreement how, flx_val a, flx_val b)
{
    if (!flxi_is_complex((int32_t)flxi_hlo_dtype(s, a)))
        return how(s, a, b);
    return flx_and(s->g, how(s, flx_real(s->g, a), flx_real(s->g, b)), how(s, flx_imag(s->g, a), flx_imag(s->g, b)));
}

/* What a failing check shows: the two values of an element. */
static flx_val side_by_side(hlo_site *s, flx_val a, flx_val b)
{
    int32_t rank = flxi_hlo_typeof(s, a)->rank;
    return rank < FLX_MAX_RANK ? flx_stack(s->g, ((flx_val[]){a, b}), 2, rank) : a;
}

/* Whether the operands have one type, as far as it is known. */
static bool are_alike(hlo_site *s)
{
    const flx_type *a = flxi_hlo_typeof(s, s->x[0]);
    const flx_type *b = flxi_hlo_typeof(s, s->x[1]);
    if (flxi_hlo_operand_type(s, 0)->element != flxi_hlo_operand_type(s, 1)->element || a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] && flx_dim_is_static(a->dims[i]) && flx_dim_is_static(b->dims[i]))
            return false;
    return true;
}

static void expect(hlo_site *s, agreement how)
{
    if (s->op->num_operands != 2 || s->nx != 2) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "it compares 2 values, but has %zu", s->op->num_operands);
        return;
    }
    if (!are_alike(s)) {
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "the values to compare have different types");
        return;
    }
    char message[160];
    snprintf(message, sizeof message, "%.40s(%%%.20s, %%%.20s) at line %u", flxi_hlo_word(s, "call_target_name", ""),
             s->op->operands[0]->name, s->op->operands[1]->name, s->op->at.line);
    flx_check(s->g, side_by_side(s, s->x[0], s->x[1]), agree(s, how, s->x[0], s->x[1]), message);
}

static void expect_eq(hlo_site *s)
{
    expect(s, same_bits);
}

static void expect_close(hlo_site *s)
{
    expect(s, is_close);
}

static void expect_almost_eq(hlo_site *s)
{
    expect(s, is_almost_equal);
}

const hlo_call_target flxi_hlo_check_targets[] = {
    {"check.expect_eq", expect_eq},
    {"check.expect_close", expect_close},
    {"check.expect_almost_eq", expect_almost_eq},
    {"check.eq", expect_eq},
    {0},
};
