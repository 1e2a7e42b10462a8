/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_quant.c: quantised numbers, as integers with scales and zero points. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

/* A scale or zero point that broadcasts against x: one number, one for each position of an axis, or one for each block
   of `block` positions along it. */
static flx_val spread(onnx_site *s, flx_val x, flx_val v, int64_t axis, int64_t block)
{
    const flx_type *t = flxi_onnx_typeof(s, x);
    int rank = flxi_onnx_rank(s, v);
    if (rank == 0)
        return v;
    if (rank == 1 && (t->rank != 1 || flxi_onnx_dim(s, v, 0) == 1)) {
        if (flxi_onnx_dim(s, v, 0) == 1)
            return flx_reshape(s->g, v, .shape = FLX_NO_INTS);
        int at = flxi_onnx_axis(s, axis, t->rank);
        flx_dim dims[FLX_MAX_RANK];
        for (int i = 0; i < t->rank; i++)
            dims[i] = i == at ? flxi_onnx_dim(s, v, 0) : 1;
        return flx_reshape(s->g, v, .shape = {dims, (size_t)t->rank});
    }
    if (block > 0) {
        int at = flxi_onnx_axis(s, axis, t->rank);
        flx_val wide = flx_repeat(s->g, v, .repeats = block, .axis = at);
        return flxi_onnx_dim(s, wide, at) == t->dims[at]
                   ? wide
                   : flx_narrow(s->g, wide, .axis = at, .start = 0, .len = t->dims[at]);
    }
    return v;
}

static flx_val rounded_to(onnx_site *s, flx_val q, int32_t element)
{
    const onnx_element *e = flxi_onnx_element(element);
    if (flxi_onnx_float_format(element))
        return flxi_onnx_narrow(s, q, element, flxi_onnx_int(s, "saturate", 1) != 0);
    if (e->bits >= 8)
        return flxi_onnx_cast(s, q, e->carrier); /* saturates */
    double top = (double)((1 << (e->carrier == FLX_I8 ? e->bits - 1 : e->bits)) - 1);
    double low = e->carrier == FLX_I8 ? -top - 1 : 0;
    q = flx_clamp(s->g, flxi_onnx_number(s, q, low), q, flxi_onnx_number(s, q, top));
    return flxi_onnx_cast(s, q, e->carrier);
}

void flxi_onnx_import_quantize_linear(onnx_site *s)
{
    int64_t axis = flxi_onnx_int(s, "axis", 1), block = flxi_onnx_int(s, "block_size", 0);
    int32_t element = (int32_t)flxi_onnx_int(s, "output_dtype", 0);
    element = s->in[2].kind == ONNX_T_TENSOR ? s->in[2].element : element ? element : ONNX_UINT8;
    if (!flxi_onnx_element(element)) {
        flxi_onnx_unsupported(s, "this element type of the result");
        return;
    }
    const onnx_element *precision = flxi_onnx_element((int32_t)flxi_onnx_int(s, "precision", 0));
    flx_dtype d = precision ? precision->carrier : flxi_onnx_dtype(s, s->x[1]);
    d = flxi_is_float((int32_t)d) ? d : FLX_F32;
    flx_val x = flxi_onnx_cast(s, s->x[0], d);
    flx_val q = flx_div(s->g, x, spread(s, x, flxi_onnx_cast(s, s->x[1], d), axis, block));
    flx_dtype wide = d == FLX_F64 ? FLX_F64 : FLX_F32;
    q = flxi_onnx_cast(s, q, wide);
    if (!flxi_onnx_float_format(element))
        q = flx_round(s->g, q);
    if (s->in[2].kind == ONNX_T_TENSOR)
        q = flx_add(s->g, q, spread(s, x, flxi_onnx_cast(s, s->x[2], wide), axis, block));
    s->y[0] = rounded_to(s, q, element);
    s->out[0].element = element;
}

void flxi_onnx_import_dequantize_linear(onnx_site *s)
{
    int64_t axis = flxi_onnx_int(s, "axis", 1), block = flxi_onnx_int(s, "block_size", 0);
    const onnx_element *e = flxi_onnx_element((int32_t)flxi_onnx_int(s, "output_dtype", 0));
    flx_dtype d = flxi_onnx_dtype(s, s->x[1]);
    flx_dtype work = d == FLX_F64 ? FLX_F64 : FLX_F32;
    flx_val x = flxi_onnx_cast(s, s->x[0], work);
    if (s->in[2].kind == ONNX_T_TENSOR)
        x = flx_sub(s->g, x, spread(s, x, flxi_onnx_cast(s, s->x[2], work), axis, block));
    flx_val y = flx_mul(s->g, x, spread(s, x, flxi_onnx_cast(s, s->x[1], work), axis, block));
    s->y[0] = flxi_onnx_cast(s, y, e ? e->carrier : d);
}

/* u8 with the scale that the range of x, which includes 0, needs. */
void flxi_onnx_import_dynamic_quantize_linear(onnx_site *s)
{
    flx_val x = s->x[0];
    flx_val zero = flxi_onnx_number(s, x, 0), top = flxi_onnx_number(s, x, 255);
    flx_val high = flx_max(s->g, flx_reduce_max(s->g, x), zero);
    flx_val low = flx_min(s->g, flx_reduce_min(s->g, x), zero);
    flx_val scale = flx_div(s->g, flx_sub(s->g, high, low), top);
    flx_val safe = flx_where(s->g, flx_eq(s->g, scale, zero), flxi_onnx_number(s, x, 1), scale);
    flx_val point = flx_round(s->g, flx_clamp(s->g, zero, flx_neg(s->g, flx_div(s->g, low, safe)), top));
    flx_val q = flx_add(s->g, flx_round(s->g, flx_div(s->g, x, safe)), point);
    s->y[0] = flxi_onnx_cast(s, flx_clamp(s->g, zero, q, top), FLX_U8);
    s->y[1] = scale;
    s->y[2] = flxi_onnx_cast(s, point, FLX_U8);
}
