/* SPDX-License-Identifier: Apache-2.0 */
/* import_chlo.c: operations of CHLO that are not functions of single elements: those that broadcast their operands,
   constants, the largest elements, high halves of products, ragged products, scans. */
#include "stablehlo/import/import_site.h"

#include "graph/type/type.h"

#include <math.h>
#include <string.h>

/* ---- Broadcasting ---- */

/* With broadcast_dimensions the axes of the operand of lower rank are those axes of the other; without, the last
   ones. */
static bool align(hlo_site *s, flx_val x[2])
{
    const flx_type *t[2] = {flxi_hlo_typeof(s, s->x[0]), flxi_hlo_typeof(s, s->x[1])};
    int low = t[0]->rank <= t[1]->rank ? 0 : 1;
    flx_ints axes = flxi_hlo_ints(s, "broadcast_dimensions");
    flx_dim dims[FLX_MAX_RANK];
    x[0] = s->x[0];
    x[1] = s->x[1];
    if (!axes.v)
        return true;
    if (axes.n != (size_t)t[low]->rank) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL,
                      "broadcast_dimensions has %zu entries, but the operand of lower rank has %d axes", axes.n,
                      t[low]->rank);
        return false;
    }
    for (int i = 0; i < t[1 - low]->rank; i++)
        dims[i] = 1;
    for (size_t i = 0; i < axes.n; i++) {
        if (axes.v[i] < 0 || axes.v[i] >= t[1 - low]->rank || (i && axes.v[i] <= axes.v[i - 1])) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "broadcast_dimensions must ascend and stay below %d",
                          t[1 - low]->rank);
            return false;
        }
        dims[axes.v[i]] = t[low]->dims[i];
    }
    x[low] = flx_reshape(s->g, s->x[low], (flx_ints){dims, (size_t)t[1 - low]->rank});
    return true;
}

/* The rule of the operation on operands of one shape does the rest: ours broadcast by themselves. */
void flxi_hlo_import_broadcasting(hlo_site *s)
{
    flx_val x[2];
    if (!align(s, x))
        return;
    hlo_site inner = *s;
    inner.x = x;
    inner.row = flxi_hlo_operation(s->row->stands_for);
    inner.row->import(&inner);
}

void flxi_hlo_import_broadcast_select(hlo_site *s)
{
    s->y[0] = flx_where(s->g, s->x[0], s->x[1], s->x[2]);
}

/* ---- Constants and predicates ---- */

static flx_val constant(hlo_site *s, flx_dtype d, const void *bytes)
{
    flx_type scalar = flx_type_make(d, 0, NULL);
    flx_error err = {0};
    flx_tensor *t = flx_tensor_new(s->g->ctx, &scalar, bytes, &err);
    flx_val v = t ? flx_const(s->g, &scalar, t) : FLX_NONE;
    if (!t)
        flxi_graph_fail(s->g, &err);
    flx_tensor_release(t);
    return v;
}

void flxi_hlo_import_constant_like(hlo_site *s)
{
    const hlo_attr *a = flxi_hlo_attr(s->op, "value");
    flx_dtype d = flxi_hlo_carrier(flxi_hlo_result_type(s, 0));
    flx_val v = FLX_NONE;
    if (a && a->kind == HLO_A_REAL)
        v = flx_scalar(s->g, d, a->real);
    else if (a && (a->kind == HLO_A_INT || a->kind == HLO_A_BOOL))
        v = flx_cast(s->g, constant(s, FLX_I64, &a->integer), d);
    else if (a && a->kind == HLO_A_DENSE && (a->is_splat || a->type->rank == 0))
        v = constant(s, flxi_hlo_carrier(a->type), a->bytes);
    else
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "attribute value must be one number");
    if (!flxi_hlo_failed(s))
        s->y[0] = flxi_hlo_fill(s, v, flxi_hlo_typeof(s, s->x[0]));
}

static void import_is_equal(hlo_site *s, double number)
{
    s->y[0] = flx_eq(s->g, s->x[0], flxi_hlo_number(s, s->x[0], number));
}

void flxi_hlo_import_is_pos_inf(hlo_site *s)
{
    import_is_equal(s, (double)INFINITY);
}

void flxi_hlo_import_is_neg_inf(hlo_site *s)
{
    import_is_equal(s, -(double)INFINITY);
}

/* ---- top_k ---- */

void flxi_hlo_import_top_k(hlo_site *s)
{
    const flx_type *x = flxi_hlo_typeof(s, s->x[0]);
    int64_t k = flxi_hlo_int(s, "k", -1);
    if (s->ny != 2 || x->rank < 1 || k < 0) {
        flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL,
                      "it takes k >= 0 and an operand with an axis, and returns values and indices");
        return;
    }
    flx_top_k(s->g, s->x[0], s->y, k, -1, flxi_hlo_carrier(flxi_hlo_result_type(s, 1)));
}

/* ---- mulhi ---- */

/* The high half of the product of two unsigned 64-bit numbers, from products of their 32-bit halves. */
static flx_val wide_high(flx_graph *g, flx_val a, flx_val b)
{
    flx_val by = flx_scalar(g, FLX_U64, 32);
    flx_val low = flx_scalar(g, FLX_U64, 0xFFFFFFFFu);
    flx_val al = flx_bit_and(g, a, low);
    flx_val ah = flx_shr_logical(g, a, by);
    flx_val bl = flx_bit_and(g, b, low);
    flx_val bh = flx_shr_logical(g, b, by);
    flx_val carried = flx_add(g, flx_mul(g, ah, bl), flx_shr_logical(g, flx_mul(g, al, bl), by));
    flx_val middle = flx_add(g, flx_mul(g, al, bh), flx_bit_and(g, carried, low));
    return flx_add(g, flx_mul(g, ah, bh), flx_add(g, flx_shr_logical(g, carried, by), flx_shr_logical(g, middle, by)));
}

/* Taken as unsigned, a negative number is too large by 2^64. */
static flx_val signed_high(flx_graph *g, flx_val a, flx_val b)
{
    flx_val zero = flx_scalar(g, FLX_I64, 0);
    flx_val high = flx_cast(g, wide_high(g, flx_cast(g, a, FLX_U64), flx_cast(g, b, FLX_U64)), FLX_I64);
    high = flx_sub(g, high, flx_where(g, flx_lt(g, a, zero), b, zero));
    return flx_sub(g, high, flx_where(g, flx_lt(g, b, zero), a, zero));
}

void flxi_hlo_import_mulhi(hlo_site *s)
{
    flx_graph *g = s->g;
    flx_dtype d = flxi_hlo_dtype(s, s->x[0]);
    bool is_signed = flxi_in(FLXI_SIGNED, (int32_t)d);
    if (!flxi_is_int((int32_t)d)) {
        flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "operands must be integers, not %s", flx_dtype_name((int32_t)d));
        return;
    }
    if (flx_dtype_size((int32_t)d) == 8) {
        s->y[0] = is_signed ? signed_high(g, s->x[0], s->x[1]) : wide_high(g, s->x[0], s->x[1]);
        return;
    }
    flx_dtype wide = is_signed ? FLX_I64 : FLX_U64;
    flx_val by = flx_scalar(g, wide, flxi_hlo_element(flxi_hlo_operand_type(s, 0)->element)->bits);
    flx_val product = flx_mul(g, flx_cast(g, s->x[0], wide), flx_cast(g, s->x[1], wide));
    s->y[0] = flx_cast(g, is_signed ? flx_shr_arith(g, product, by) : flx_shr_logical(g, product, by), d);
}
