/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_export_formulas.c: pointwise ops and reductions that ONNX does not have, by those that it has. */
#include "onnx/export/onnx_writer.h"

#include "graph/type/type.h"

static onnx_label scalar_like(const onnx_source *n, double x)
{
    return flxi_onnx_put_scalar(n->w, (flx_dtype)flxi_onnx_in_type(n, 0)->dtype, x);
}

/* out = operation(a, b) */
static void put_result(const onnx_source *n, const char *operation, onnx_label a, onnx_label b)
{
    const onnx_label in[2] = {a, b};
    onnx_label out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, operation, in, 2, &out);
}

static onnx_label put1(const onnx_source *n, const char *operation, onnx_label x)
{
    onnx_label y = flxi_onnx_fresh(n->w);
    flxi_onnx_put1(n->w, operation, &x, 1, &y);
    return y;
}

void flxi_onnx_write_square(const onnx_source *n)
{
    put_result(n, "Mul", flxi_onnx_in(n, 0), flxi_onnx_in(n, 0));
}

void flxi_onnx_write_rsqrt(const onnx_source *n)
{
    onnx_label root = put1(n, "Sqrt", flxi_onnx_in(n, 0)), out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Reciprocal", &root, 1, &out);
}

void flxi_onnx_write_silu(const onnx_source *n)
{
    put_result(n, "Mul", flxi_onnx_in(n, 0), put1(n, "Sigmoid", flxi_onnx_in(n, 0)));
}

/* exp(x) - 1, log(1 + x) and 1 - erf(x), without the accuracy near the ends that ours have. */
void flxi_onnx_write_expm1(const onnx_source *n)
{
    put_result(n, "Sub", put1(n, "Exp", flxi_onnx_in(n, 0)), scalar_like(n, 1));
}

void flxi_onnx_write_log1p(const onnx_source *n)
{
    const onnx_label in[2] = {flxi_onnx_in(n, 0), scalar_like(n, 1)};
    onnx_label sum = flxi_onnx_fresh(n->w), out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Add", in, 2, &sum);
    flxi_onnx_put1(n->w, "Log", &sum, 1, &out);
}

void flxi_onnx_write_erfc(const onnx_source *n)
{
    put_result(n, "Sub", scalar_like(n, 1), put1(n, "Erf", flxi_onnx_in(n, 0)));
}

void flxi_onnx_write_exp2(const onnx_source *n)
{
    put_result(n, "Pow", scalar_like(n, 2), flxi_onnx_in(n, 0));
}

void flxi_onnx_write_log2(const onnx_source *n)
{
    put_result(n, "Mul", put1(n, "Log", flxi_onnx_in(n, 0)), scalar_like(n, 1.44269504088896340736)); /* 1 / log 2 */
}

void flxi_onnx_write_log10(const onnx_source *n)
{
    put_result(n, "Mul", put1(n, "Log", flxi_onnx_in(n, 0)), scalar_like(n, 0.43429448190325182765)); /* 1 / log 10 */
}

/* Towards zero: the ceiling of negative numbers, the floor of others. */
void flxi_onnx_write_trunc(const onnx_source *n)
{
    const onnx_label x = flxi_onnx_in(n, 0), sides[2] = {x, scalar_like(n, 0)};
    onnx_label in[3] = {flxi_onnx_fresh(n->w), put1(n, "Ceil", x), put1(n, "Floor", x)}, out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Less", sides, 2, &in[0]);
    flxi_onnx_put1(n->w, "Where", in, 3, &out);
}

void flxi_onnx_write_is_finite(const onnx_source *n)
{
    const onnx_label x = flxi_onnx_in(n, 0), in[2] = {put1(n, "IsInf", x), put1(n, "IsNaN", x)};
    onnx_label either = flxi_onnx_fresh(n->w), out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Or", in, 2, &either);
    flxi_onnx_put1(n->w, "Not", &either, 1, &out);
}

void flxi_onnx_write_clamp(const onnx_source *n)
{
    const onnx_label low[2] = {flxi_onnx_in(n, 1), flxi_onnx_in(n, 0)};
    onnx_label raised = flxi_onnx_fresh(n->w);
    flxi_onnx_put1(n->w, "Max", low, 2, &raised);
    put_result(n, "Min", raised, flxi_onnx_in(n, 2));
}

void flxi_onnx_write_fma(const onnx_source *n)
{
    const onnx_label factors[2] = {flxi_onnx_in(n, 0), flxi_onnx_in(n, 1)};
    onnx_label product = flxi_onnx_fresh(n->w);
    flxi_onnx_put1(n->w, "Mul", factors, 2, &product);
    put_result(n, "Add", product, flxi_onnx_in(n, 2));
}

void flxi_onnx_write_not_equal(const onnx_source *n)
{
    const onnx_label in[2] = {flxi_onnx_in(n, 0), flxi_onnx_in(n, 1)};
    onnx_label same = flxi_onnx_fresh(n->w), out = flxi_onnx_out(n, 0);
    flxi_onnx_put1(n->w, "Equal", in, 2, &same);
    flxi_onnx_put1(n->w, "Not", &same, 1, &out);
}

/* Results follow the operands: nothing is moved across them there either. */
void flxi_onnx_write_same(const onnx_source *n)
{
    for (uint32_t i = 0; i < n->nout; i++) {
        onnx_label x = flxi_onnx_in(n, i), out = flxi_onnx_out(n, i);
        flxi_onnx_put1(n->w, "Identity", &x, 1, &out);
    }
}
