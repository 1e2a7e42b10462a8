/* SPDX-License-Identifier: Apache-2.0 */
/* complex.c: building complex numbers and extracting their parts. A complex tensor is stored as pairs of its part
   dtype, so the evaluators read and write parts, which are exact whatever infinities or NaNs they hold. A real number
   counts as complex with imaginary part 0. */
#include "base/host/stop.h"
#include "ops/express/express_complex.h"
#include "ops/express/express_formula.h"
#include "ops/rule/broadcast.h"
#include "ops/rule/pointwise.h"

/* ---- Samples ---- */

static const flxi_sample samples_complex[] = {
    {"T[3, 4], T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 1], T[4]", NULL, NULL, FLX_OK},
    {"T[], T[2]", NULL, NULL, FLX_OK},
    {"T[], T[]", NULL, NULL, FLX_OK},
    {"T[0, 3], T[1, 3]", NULL, NULL, FLX_OK},
    {"T[N, 3], T[N, 1]", NULL, NULL, FLX_OK},
    {"T[3], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"f32[2], f64[2]", NULL, NULL, FLX_E_DTYPE},
    {"f16[2], f16[2]", NULL, NULL, FLX_E_DTYPE},
    {"c64[2], c64[2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

#define SAMPLES_PART                                                                               \
    {"T[3, 4]", NULL, NULL, FLX_OK}, {"T[]", NULL, NULL, FLX_OK}, {"T[2, 0]", NULL, NULL, FLX_OK}, \
        {"T[N, 3]", NULL, NULL, FLX_OK},                                                           \
    {                                                                                              \
        "T[2], T[2]", NULL, NULL, FLX_E_ARITY                                                      \
    }

static const flxi_sample samples_part[] = {SAMPLES_PART, {"i32[2]", NULL, NULL, FLX_E_DTYPE}, {0}};
static const flxi_sample samples_conjugate[] = {SAMPLES_PART, {0}};
static const flxi_sample samples_norm[] = {SAMPLES_PART, {"f32[2]", NULL, NULL, FLX_E_DTYPE}, {0}};

/* ---- complex ---- */

static flx_code infer_complex(flxi_infer *f)
{
    f->out[0].dtype = flxi_complex_dtype(f->in[0]->dtype);
    return flxi_broadcast(f, f->in, f->nin, &f->out[0]);
}

static flx_code eval_complex(flxi_eval *e)
{
    int32_t part = e->in[0]->type.dtype;
    void *z = e->out[0]->data;
    for (flxi_lanes at = flxi_lanes_begin(e); at.i < at.count; flxi_lanes_next(&at)) {
        flxi_store_double(part, z, 2 * at.i, flxi_load_double(part, e->in[0]->data, at.at[0]));
        flxi_store_double(part, z, 2 * at.i + 1, flxi_load_double(part, e->in[1]->data, at.at[1]));
    }
    return FLX_OK;
}

static void vjp_complex(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (s->wanted[0])
        dx[0] = flx_real(s->g, dy[0]);
    if (s->wanted[1])
        dx[1] = flx_imag(s->g, dy[0]);
}

ELEMENT_KERNEL(complex, ((flxi_kval){x[0].re, x[1].re}))

const flxi_rules flxi_rules_complex = {
    .infer = infer_complex,
    .eval = eval_complex,
    .element = element_complex,
    .vjp = vjp_complex,
    .samples = samples_complex,
};

/* ---- Real functions of the parts ---- */

static flx_code infer_part(flxi_infer *f)
{
    f->out[0] = *f->in[0];
    f->out[0].dtype = flxi_part_dtype(f->in[0]->dtype);
    return FLX_OK;
}

static flx_code eval_part(flxi_eval *e, double (*value)(double re, double im))
{
    const flx_tensor *z = e->in[0];
    int32_t part = e->out[0]->type.dtype;
    bool is_paired = flxi_is_complex(z->type.dtype);
    for (int64_t i = 0; i < z->count && !flxi_stopped_by_now(); i++) {
        double re = flxi_load_double(part, z->data, is_paired ? 2 * i : i);
        double im = is_paired ? flxi_load_double(part, z->data, 2 * i + 1) : 0;
        flxi_store_double(part, e->out[0]->data, i, value(re, im));
    }
    return FLX_OK;
}

static double real_part(double re, double im)
{
    (void)im;
    return re;
}

static double imag_part(double re, double im)
{
    (void)re;
    return im;
}

static double angle_of(double re, double im)
{
    return atan2(im, re);
}

static double norm_sq(double re, double im)
{
    return re * re + im * im;
}

static bool is_complex(const flxi_site *s, flx_val v)
{
    return flxi_is_complex(flxi_typeof(s, v)->dtype);
}

/* The real cotangent of one part, as a complex number whose other part is 0. A real operand is its own real part. */
static void vjp_real(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = is_complex(s, s->x[0]) ? flx_complex(s->g, dy[0], flxi_number(s, dy[0], 0.0)) : dy[0];
}

static void vjp_imag(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    if (is_complex(s, s->x[0]))
        dx[0] = flx_complex(s->g, flxi_number(s, dy[0], 0.0), dy[0]);
}

/* Its derivative, i z/|z|² and 0 at 0, is that of atan2. */
static void decompose_angle(flxi_site *s, flx_val *y)
{
    y[0] = flx_atan2(s->g, flx_imag(s->g, s->x[0]), flx_real(s->g, s->x[0]));
}

/* 2 g z and 2 Re(conj(z) t), part by part: an infinite part does not reach the other one. */
static void vjp_norm_sq(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_graph *g = s->g;
    flx_val twice = flx_mul(g, dy[0], flxi_number(s, dy[0], 2.0));
    dx[0] = flx_complex(g, flx_mul(g, twice, flx_real(g, s->x[0])), flx_mul(g, twice, flx_imag(g, s->x[0])));
}

static void backward_vjp_norm_sq(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flx_complex_norm_sq_backward(s->g, s->x[0], dy[0]);
}

static void jvp_norm_sq(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_graph *g = s->g;
    flx_val re = flx_mul(g, flx_real(g, s->x[0]), flx_real(g, tx[0]));
    flx_val im = flx_mul(g, flx_imag(g, s->x[0]), flx_imag(g, tx[0]));
    ty[0] = flx_mul(g, flx_add(g, re, im), flxi_number(s, re, 2.0));
}

static uint32_t imag_k(flxi_express *e, flxi_kval z)
{
    return z.im ? z.im : NUM(z.re, 0);
}

static flxi_kval element_complex_norm_sq(flxi_express *e, const flxi_kval *x)
{
    flxi_kval z = flxi_kcwide(e, x[0]);
    uint32_t sum = F2(add, F2(mul, z.re, z.re), F2(mul, z.im, z.im));
    return flxi_kreal(flxi_kb_cast(e->k, flxi_kb_type(e->k, x[0].re), sum));
}

ELEMENT_KERNEL(real, flxi_kreal(x[0].re))
ELEMENT_KERNEL(imag, flxi_kreal(imag_k(e, x[0])))
ELEMENT_KERNEL(angle, flxi_kreal(F2(atan2, imag_k(e, x[0]), x[0].re)))
ELEMENT_KERNEL(conjugate, ((flxi_kval){x[0].re, x[0].im ? F1(neg, x[0].im) : 0}))

#define PART(name, value, list, ...)          \
    static flx_code eval_##name(flxi_eval *e) \
    {                                         \
        return eval_part(e, value);           \
    }                                         \
    const flxi_rules flxi_rules_##name = {    \
        .infer = infer_part, .eval = eval_##name, .element = element_##name, .samples = list, __VA_ARGS__};

PART(real, real_part, samples_part, .vjp = vjp_real)
PART(imag, imag_part, samples_part, .vjp = vjp_imag)
PART(angle, angle_of, samples_part, .decompose = decompose_angle)
PART(complex_norm_sq, norm_sq, samples_norm, .vjp = vjp_norm_sq, .jvp = jvp_norm_sq,
     .backward_vjp = backward_vjp_norm_sq)

/* ---- conjugate ---- */

static flx_code eval_conjugate(flxi_eval *e)
{
    FLXI_TRY(flxi_eval_copy(e));
    flx_tensor *y = e->out[0];
    if (!flxi_is_complex(y->type.dtype))
        return FLX_OK;
    int32_t part = flxi_part_dtype(y->type.dtype);
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++)
        flxi_store_double(part, y->data, 2 * i + 1, -flxi_load_double(part, y->data, 2 * i + 1));
    return FLX_OK;
}

static void vjp_conjugate(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flxi_conj(s, dy[0]);
}

const flxi_rules flxi_rules_conjugate = {.infer = flxi_infer_same,
                                         .eval = eval_conjugate,
                                         .element = element_conjugate,
                                         .vjp = vjp_conjugate,
                                         .samples = samples_conjugate};
