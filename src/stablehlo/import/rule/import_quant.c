/* SPDX-License-Identifier: Apache-2.0 */
/* import_quant.c: quantised tensors. A value of such a type is the tensor of its stored integers.

   An operation on quantised operands is the operation on the numbers they express: (stored − zero point) · scale,
   and its result is the nearest stored integer, ties to even, within the storage's limits. So its rule sees a
   program without quantisation, in the expressed types. Operations that only move elements move the stored ones
   where all have the same scales; regions and calls hold quantised values as they are stored, and the operations
   inside do the rest. */
#include "graph/type/type.h"
#include "stablehlo/import/import_narrow.h"
#include "stablehlo/import/import_scope.h"

/* ---- Types ---- */

static bool is_quantised(const hlo_type *t)
{
    return t->kind == HLO_TENSOR && t->quant;
}

bool flxi_hlo_same_quant(const hlo_quant *a, const hlo_quant *b)
{
    if (!a || !b)
        return a == b;
    bool is_same = a->storage == b->storage && a->expressed == b->expressed && a->min == b->min && a->max == b->max &&
                   (a->axis < 0) == (b->axis < 0) && a->num_scales == b->num_scales;
    for (size_t i = 0; is_same && i < a->num_scales; i++)
        is_same = a->scales[i] == b->scales[i] && a->zero_points[i] == b->zero_points[i];
    return is_same;
}

/* The first quantised type of the operation, NULL: none; *agree: all others are the same. */
static const hlo_quant *quant_of(const hlo_op *op, bool *agree)
{
    const hlo_quant *first = NULL;
    *agree = true;
    for (size_t i = 0; i < op->num_operands + op->num_results; i++) {
        const hlo_type *t = i < op->num_operands ? op->operands[i]->type : op->results[i - op->num_operands]->type;
        if (!is_quantised(t))
            continue;
        first = first ? first : t->quant;
        *agree &= flxi_hlo_same_quant(first, t->quant);
    }
    return first;
}

bool flxi_hlo_is_expressed(const hlo_site *s)
{
    bool agree;
    if (s->row->as_stored || s->op->num_regions || !quant_of(s->op, &agree))
        return false;
    return !s->row->moves || !agree;
}

/* ---- Scales and zero points ---- */

/* A number per slice as a constant that broadcasts against tensors of type t: a scalar, or along the axis. */
static flx_val per_slice(hlo_site *s, const hlo_quant *q, int rank, const double *numbers, flx_dtype dtype)
{
    flx_type wide = {.dtype = FLX_F64, .rank = q->axis < 0 ? 0 : rank};
    flx_error err = {0};
    for (int i = 0; i < wide.rank; i++)
        wide.dims[i] = i == q->axis ? (int64_t)q->num_scales : 1;
    flx_tensor *exact = flx_tensor_new(s->im->ctx, &wide, numbers, &err);
    flx_tensor *t = exact ? flx_tensor_cast(exact, dtype, &err) : NULL;
    flx_type type = wide;
    type.dtype = (int32_t)dtype;
    flx_val v = t ? flx_const(s->g, &type, t) : FLX_NONE;
    if (!t)
        flxi_graph_fail(s->g, &err);
    flx_tensor_release(t);
    flx_tensor_release(exact);
    return v;
}

static flx_val zero_points(hlo_site *s, const hlo_quant *q, int rank, flx_dtype dtype)
{
    double *numbers = flxi_hlo_new(s, double, q->num_scales);
    for (size_t i = 0; numbers && i < q->num_scales; i++)
        numbers[i] = (double)q->zero_points[i];
    return numbers ? per_slice(s, q, rank, numbers, dtype) : FLX_NONE;
}

/* Slices along an axis must be as many as there are scales. */
static bool has_scales(hlo_site *s, const flx_type *t, const hlo_quant *q)
{
    if (q->axis < 0 || (q->axis < t->rank && t->dims[q->axis] == (int64_t)q->num_scales))
        return true;
    flxi_hlo_fail(s, FLX_E_SHAPE, NULL,
                  "a quantised type has %zu scales along axis %lld, but its extent is another one", q->num_scales,
                  (long long)q->axis);
    return false;
}

/* Differences of stored integers are exact in f64, which rounds them once to the expressed type. */
static flx_val dequantised(hlo_site *s, flx_val x, const hlo_quant *q)
{
    const flx_type *t = flxi_hlo_typeof(s, x);
    flx_dtype expressed = flxi_hlo_element(q->expressed)->carrier;
    if (!has_scales(s, t, q))
        return FLX_NONE;
    flx_val steps = flx_sub(s->g, flx_cast(s->g, x, FLX_F64), zero_points(s, q, t->rank, FLX_F64));
    flx_val y = flx_mul(s->g, flx_cast(s->g, steps, expressed), per_slice(s, q, t->rank, q->scales, expressed));
    return flxi_hlo_round(s, y, q->expressed);
}

static flx_val quantised(hlo_site *s, flx_val x, const hlo_quant *q)
{
    const flx_type *t = flxi_hlo_typeof(s, x);
    flx_dtype expressed = flxi_hlo_element(q->expressed)->carrier;
    if (!has_scales(s, t, q))
        return FLX_NONE;
    x = flx_cast(s->g, x, expressed);
    flx_val steps = flx_round(s->g, flx_div(s->g, x, per_slice(s, q, t->rank, q->scales, expressed)), NULL);
    flx_val y = flx_add(s->g, flx_cast(s->g, steps, FLX_F64), zero_points(s, q, t->rank, FLX_F64));
    y = flx_clamp(s->g, flx_scalar(s->g, FLX_F64, (double)q->min), y, flx_scalar(s->g, FLX_F64, (double)q->max));
    return flx_cast(s->g, y, flxi_hlo_element(q->storage)->carrier);
}

/* ---- The program without quantisation ---- */

static const hlo_value *expressed_value(hlo_site *s, const hlo_value *v)
{
    if (!is_quantised(v->type))
        return v;
    hlo_type *type = flxi_hlo_new(s, hlo_type, 1);
    hlo_value *copy = flxi_hlo_new(s, hlo_value, 1);
    if (!type || !copy)
        return NULL;
    *type = *v->type;
    type->element = v->type->quant->expressed;
    type->quant = NULL;
    *copy = *v;
    copy->type = type;
    return copy;
}

static const hlo_value **expressed_values(hlo_site *s, const hlo_value *const *values, size_t n)
{
    const hlo_value **out = flxi_hlo_new(s, const hlo_value *, n);
    for (size_t i = 0; out && i < n; i++) {
        out[i] = expressed_value(s, values[i]);
        if (!out[i])
            return NULL;
    }
    return out;
}

void flxi_hlo_import_expressed(hlo_site *s)
{
    const hlo_op *op = s->op;
    hlo_op plain = *op;
    if (s->nx != op->num_operands || s->ny != op->num_results) {
        flxi_hlo_unsupported(s, "quantised tensors beside tuples or tokens");
        return;
    }
    plain.operands = expressed_values(s, op->operands, op->num_operands);
    plain.results = expressed_values(s, op->results, op->num_results);
    flx_val *x = flxi_hlo_new(s, flx_val, s->nx);
    if (!plain.operands || !plain.results || !x)
        return;
    for (size_t i = 0; i < s->nx; i++)
        x[i] = is_quantised(op->operands[i]->type) ? dequantised(s, s->x[i], op->operands[i]->type->quant) : s->x[i];
    flxi_hlo_import_as(s, &plain, x, s->nx);
    for (size_t i = 0; i < s->ny && !flxi_hlo_failed(s); i++)
        if (is_quantised(op->results[i]->type))
            s->y[i] = quantised(s, s->y[i], op->results[i]->type->quant);
}

/* ---- The operations that quantise ---- */

void flxi_hlo_import_uniform_quantize(hlo_site *s)
{
    const hlo_type *from = flxi_hlo_operand_type(s, 0);
    const hlo_quant *to = flxi_hlo_result_type(s, 0)->quant;
    flx_val x = from->quant ? dequantised(s, s->x[0], from->quant) : s->x[0];
    hlo_element expressed = from->quant ? from->quant->expressed : from->element;
    if (expressed != to->expressed)
        flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "operand 0 expresses %s, but the result %s",
                      flxi_hlo_element(expressed)->text, flxi_hlo_element(to->expressed)->text);
    else
        s->y[0] = quantised(s, x, to);
}

void flxi_hlo_import_uniform_dequantize(hlo_site *s)
{
    const hlo_quant *q = flxi_hlo_operand_type(s, 0)->quant;
    if (flxi_hlo_result_type(s, 0)->element != q->expressed)
        flxi_hlo_fail(s, FLX_E_DTYPE, NULL, "operand 0 expresses %s, but the result is %s",
                      flxi_hlo_element(q->expressed)->text,
                      flxi_hlo_element(flxi_hlo_result_type(s, 0)->element)->text);
    else
        s->y[0] = dequantised(s, s->x[0], q);
}
