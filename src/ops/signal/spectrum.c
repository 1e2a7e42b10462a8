/* SPDX-License-Identifier: Apache-2.0 */
/* spectrum.c: signal processing on spectra: frames, powers, convolutions, mel features, peaks. All are
   composites of the transforms in spectral.c. */
#include "graph/op/work.h"
#include "numeric/fourier.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/signal/spectral.h"

#include <math.h>

static flx_dim last_dim(const flx_type *t)
{
    return t->rank ? t->dims[t->rank - 1] : 1;
}

/* ---- stft ---- */

enum { MOST_HOPS = 8 }; /* of a frame that is put together from them, not gathered */

typedef struct {
    int64_t frame_len, hop;
} stft_attrs;

static const flxi_attr stft_schema[] = {A_INT_REQ(stft_attrs, frame_len), A_INT_REQ(stft_attrs, hop), A_END};

/* Frames that fit into `length` elements. */
static flx_dim frames_in(flx_context *ctx, flx_dim length, const stft_attrs *a)
{
    if (flxi_dim_is_number(length) && length < a->frame_len)
        return 0;
    flx_dim room = flx_dim_sub(ctx, length, a->frame_len);
    return flx_dim_add(ctx, flxi_dim_floor_div(ctx, room, a->hop), 1);
}

static flx_code infer_stft(flxi_infer *f)
{
    const stft_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    flxi_type_text tw;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    if (a->frame_len < 1 || a->hop < 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "frame_len and hop must be at least 1, got %lld and %lld",
                               (long long)a->frame_len, (long long)a->hop);
    FLXI_TRY(flxi_need_result_rank(f, (size_t)x->rank + 1));
    if (f->nin > 1 && (f->in[1]->rank != 1 || !flxi_dims_may_equal(f, f->in[1]->dims[0], a->frame_len)))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "window must be [frame_len]: frame_len is %lld, window is %s",
                               (long long)a->frame_len, flxi_shape_str(f->ctx, f->in[1], &tw));
    flx_type *y = &f->out[0];
    *y = *x;
    y->rank = x->rank + 1;
    y->dims[0] = frames_in(f->ctx, last_dim(x), a);
    for (int k = 0; k + 1 < x->rank; k++)
        y->dims[k + 1] = x->dims[k];
    y->dims[x->rank] = flx_dim_mul(f->ctx, 2, flxi_bins_of(f->ctx, a->frame_len));
    return FLX_OK;
}

/* [.., length] to [.., frames, frame_len] where a frame is some hops: hops side by side, which are views of x. */
static flx_val frames_of_hops(flxi_site *s, flx_val x, const stft_attrs *a, flx_dim frames)
{
    flx_val hops[MOST_HOPS];
    int64_t count = a->frame_len / a->hop;
    flx_type t = *flxi_typeof(s, x);
    t.dims[t.rank - 1] = frames;
    t.dims[t.rank++] = a->hop;
    for (int64_t k = 0; k < count; k++)
        hops[k] = flxi_reshape_to(s, flxi_narrow_last(s, x, k * a->hop, frames * a->hop), t.rank, t.dims);
    return count == 1 ? hops[0] : flx_concat(s->g, hops, (size_t)count, -1);
}

/* [.., length] to [.., frames, frame_len]. */
static flx_val frames_of(flxi_site *s, flx_val x, const stft_attrs *a)
{
    const flx_type *t = flxi_typeof(s, x);
    flx_dim frames = frames_in(s->ctx, last_dim(t), a);
    if (flxi_dim_is_number(frames) && frames > 0 && a->frame_len % a->hop == 0 && a->frame_len / a->hop <= MOST_HOPS)
        return frames_of_hops(s, x, a, frames);
    flx_type starts = flx_type_make(FLX_I64, 2, (flx_dim[]){frames, 1});
    flx_type steps = flx_type_make(FLX_I64, 2, (flx_dim[]){1, a->frame_len});
    flx_val start = flx_mul(s->g, flx_iota(s->g, &starts, 0), flx_scalar(s->g, FLX_I64, (double)a->hop));
    return flx_gather(s->g, x, flx_add(s->g, start, flx_iota(s->g, &steps, 1)), t->rank - 1, NULL);
}

static void decompose_stft(flxi_site *s, flx_val *y)
{
    const stft_attrs *a = s->attrs;
    flx_val parts[2];
    flx_val frames = frames_of(s, s->x[0], a);
    if (s->nin > 1)
        frames = flx_mul(s->g, frames, s->x[1]);
    flxi_rfft(s, frames, a->frame_len, parts);
    flx_val both = flxi_join_last(s, parts[0], parts[1]);
    y[0] = flxi_move_axis(s, both, flxi_typeof(s, both)->rank - 2, 0);
}

static const flxi_sample samples_stft[] = {
    {"T[9], T[4]", "frame_len=4, hop=2", NULL, FLX_OK},
    {"T[2, 7]", "frame_len=3, hop=1", NULL, FLX_OK},
    {"T[2, 2, 5], T[2]", "frame_len=2, hop=3", NULL, FLX_OK},
    {"T[3], T[4]", "frame_len=4, hop=1", NULL, FLX_OK},
    {"T[0, 6]", "frame_len=4, hop=2", NULL, FLX_OK},
    {"T[N, 6], T[4]", "frame_len=4, hop=2", NULL, FLX_OK},
    {"T[2, N + 4]", "frame_len=4, hop=1", NULL, FLX_OK},
    {"T[]", "frame_len=1, hop=1", NULL, FLX_E_SHAPE},
    {"T[9], T[5]", "frame_len=4, hop=2", NULL, FLX_E_SHAPE},
    {"T[9], T[1, 4]", "frame_len=4, hop=2", NULL, FLX_E_SHAPE},
    {"T[9]", "frame_len=4, hop=0", NULL, FLX_E_ATTRIBUTE},
    {"T[9]", "frame_len=0, hop=1", NULL, FLX_E_ATTRIBUTE},
    {"T[9]", "frame_len=4", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_stft = {
    .infer = infer_stft,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_stft,
    .schema = stft_schema,
    .attrs_size = sizeof(stft_attrs),
    .samples = samples_stft,
    .work = flxi_work_decomposed,
};

/* ---- psd ---- */

typedef struct {
    flx_dim n;
} psd_attrs;

static const flxi_attr psd_schema[] = {A_DIM_OPT(psd_attrs, n, "2*bins - 2"), A_END};

static flx_code infer_psd(flxi_infer *f)
{
    psd_attrs *a = f->attrs;
    flx_type shape;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_equal_shapes(f, 2, &shape));
    FLXI_TRY(flxi_norm_length(f, &a->n, flx_dim_mul(f->ctx, flx_dim_sub(f->ctx, last_dim(&shape), 1), 2)));
    f->out[0] = shape;
    return FLX_OK;
}

static void decompose_psd(flxi_site *s, flx_val *y)
{
    const psd_attrs *a = s->attrs;
    flx_val power = flx_add(s->g, flx_square(s->g, s->x[0]), flx_square(s->g, s->x[1]));
    flx_dtype dtype = (flx_dtype)flxi_typeof(s, s->x[0])->dtype;
    y[0] = flx_div(s->g, power, flxi_index_number(s, dtype, a->n));
}

static const flxi_sample samples_psd[] = {
    {"T[2, 4], T[2, 4]", NULL, NULL, FLX_OK},         {"T[3], T[3]", "n=5", NULL, FLX_OK},
    {"T[0, 3], T[0, 3]", NULL, NULL, FLX_OK},         {"T[N, 3], T[N, 3]", NULL, NULL, FLX_OK},
    {"T[2, N + 1], T[2, N + 1]", NULL, NULL, FLX_OK}, {"T[], T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3], T[2]", NULL, NULL, FLX_E_SHAPE},          {"T[1], T[1]", NULL, NULL, FLX_E_SHAPE},
    {"T[3], T[3]", "n=0", NULL, FLX_E_ATTRIBUTE},     {0},
};

const flxi_rules flxi_rules_psd = {
    .infer = infer_psd,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_psd,
    .schema = psd_schema,
    .attrs_size = sizeof(psd_attrs),
    .samples = samples_psd,
};

/* ---- fft_conv1d ---- */

static flx_dim convolved_length(flx_context *ctx, const flx_type *a, const flx_type *b)
{
    return flx_dim_sub(ctx, flx_dim_add(ctx, last_dim(a), last_dim(b)), 1);
}

static flx_code infer_fft_conv1d(flxi_infer *f)
{
    flx_type rows[2];
    const flx_type *const both[2] = {&rows[0], &rows[1]};
    flxi_type_text text;
    char name[16];
    for (uint32_t i = 0; i < 2; i++) {
        FLXI_TRY(flxi_need_rank(f, i, 1));
        rows[i] = *f->in[i];
        if (rows[i].dims[--rows[i].rank] == 0)
            return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "a signal must have at least one element: %s is %s",
                                   flxi_operand_name(f, i, name, sizeof name), flxi_shape_str(f->ctx, f->in[i], &text));
    }
    flx_type *y = &f->out[0];
    FLXI_TRY(flxi_broadcast(f, both, 2, y));
    y->dtype = f->in[0]->dtype;
    y->dims[y->rank++] = convolved_length(f->ctx, f->in[0], f->in[1]);
    return FLX_OK;
}

/* A transform of at least the length of the convolution does not wrap around; any such length will do, so one with
   small factors is chosen. */
static void decompose_fft_conv1d(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_dim length = convolved_length(s->ctx, flxi_typeof(s, s->x[0]), flxi_typeof(s, s->x[1]));
    flx_dim n = flxi_dim_is_number(length) ? flxi_fourier_good_length(length) : length;
    flx_val a[2], b[2];
    flxi_rfft(s, s->x[0], n, a);
    flxi_rfft(s, s->x[1], n, b);
    flx_val product[] = {flx_sub(g, flx_mul(g, a[0], b[0]), flx_mul(g, a[1], b[1])),
                         flx_add(g, flx_mul(g, a[0], b[1]), flx_mul(g, a[1], b[0]))};
    y[0] = flxi_narrow_last(s, flxi_irfft(s, product, n), 0, length);
}

static const flxi_sample samples_fft_conv1d[] = {
    {"T[5], T[3]", NULL, NULL, FLX_OK},          {"T[2, 4], T[2]", NULL, NULL, FLX_OK},
    {"T[2, 1, 3], T[3, 2]", NULL, NULL, FLX_OK}, {"T[1], T[1]", NULL, NULL, FLX_OK},
    {"T[0, 3], T[2]", NULL, NULL, FLX_OK},       {"T[N, 3], T[2]", NULL, NULL, FLX_OK},
    {"T[N], T[3]", NULL, NULL, FLX_OK},          {"T[], T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[0], T[3]", NULL, NULL, FLX_E_SHAPE},     {"T[2, 3], T[4, 3]", NULL, NULL, FLX_E_SHAPE},
    {"c64[3], c64[2]", NULL, NULL, FLX_E_DTYPE}, {0},
};

const flxi_rules flxi_rules_fft_conv1d = {
    .infer = infer_fft_conv1d,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_fft_conv1d,
    .samples = samples_fft_conv1d,
    .work = flxi_work_decomposed,
    .link = flxi_link_dense,
};

/* ---- fftfreq, rfftfreq ---- */

typedef struct {
    flx_dim n;
    int64_t dtype;
} freq_attrs;

static const flxi_attr freq_schema[] = {A_DIM_REQ(freq_attrs, n), A_DTYPE(freq_attrs, dtype, FLX_F32), A_END};

static flx_code infer_freq(flxi_infer *f, bool is_half)
{
    freq_attrs *a = f->attrs;
    FLXI_TRY(flxi_norm_length(f, &a->n, FLXI_ABSENT));
    if (!flxi_is_float((int32_t)a->dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, "use a float dtype, e.g. dtype=f32", "frequencies cannot be %s",
                               flx_dtype_name((int32_t)a->dtype));
    flx_dim count = is_half ? flxi_bins_of(f->ctx, a->n) : a->n;
    f->out[0] = flx_type_make((flx_dtype)a->dtype, 1, &count);
    return FLX_OK;
}

static flx_code infer_fftfreq(flxi_infer *f)
{
    return infer_freq(f, false);
}

static flx_code infer_rfftfreq(flxi_infer *f)
{
    return infer_freq(f, true);
}

/* Quotients of whole numbers, in f64, rounded once. */
static flx_val frequencies(flxi_site *s, flx_val k)
{
    const freq_attrs *a = s->attrs;
    flx_val wide = flx_cast(s->g, k, FLX_F64);
    flx_val quotient = flx_div(s->g, wide, flxi_index_number(s, FLX_F64, a->n));
    return flxi_as_dtype(s, quotient, (int32_t)a->dtype);
}

static void decompose_fftfreq(flxi_site *s, flx_val *y)
{
    const freq_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_type row = flx_type_make(FLX_I64, 1, &a->n);
    flx_val k = flx_iota(g, &row, 0);
    flx_val n = flxi_index_number(s, FLX_I64, a->n);
    flx_val is_low = flx_lt(g, flx_add(g, k, k), n);
    y[0] = frequencies(s, flx_where(g, is_low, k, flx_sub(g, k, n)));
}

static void decompose_rfftfreq(flxi_site *s, flx_val *y)
{
    const freq_attrs *a = s->attrs;
    flx_dim bins = flxi_bins_of(s->ctx, a->n);
    flx_type row = flx_type_make(FLX_I64, 1, &bins);
    y[0] = frequencies(s, flx_iota(s->g, &row, 0));
}

static const flxi_sample samples_freq[] = {
    {"", "n=8", NULL, FLX_OK},
    {"", "n=7, dtype=f64", NULL, FLX_OK},
    {"", "n=1, dtype=f16", NULL, FLX_OK},
    {"", "n=6, dtype=bf16", NULL, FLX_OK},
    {"", "n=N", NULL, FLX_OK},
    {"", NULL, NULL, FLX_E_ATTRIBUTE},
    {"", "n=0", NULL, FLX_E_ATTRIBUTE},
    {"", "n=4, dtype=i32", NULL, FLX_E_DTYPE},
    {0},
};

#define FREQ_RULES \
    .eval = flxi_eval_decomposed, .schema = freq_schema, .attrs_size = sizeof(freq_attrs), .samples = samples_freq
const flxi_rules flxi_rules_fftfreq = {FREQ_RULES, .infer = infer_fftfreq, .decompose = decompose_fftfreq};
const flxi_rules flxi_rules_rfftfreq = {FREQ_RULES, .infer = infer_rfftfreq, .decompose = decompose_rfftfreq};

/* ---- log_mel ---- */

typedef struct {
    double floor;
} mel_attrs;

static const flxi_attr mel_schema[] = {A_REAL(mel_attrs, floor, 1e-10), A_END};

/* The bins of spec [.., 2N]: N//2 + 1. */
static flx_dim bins_of_spec(flx_context *ctx, const flx_type *spec)
{
    return flxi_bins_of(ctx, flx_dim_div(ctx, last_dim(spec), 2));
}

static flx_code infer_mel(flxi_infer *f, flx_type *y)
{
    const mel_attrs *a = f->attrs;
    const flx_type *spec = f->in[0], *filt = f->in[1];
    flxi_type_text ts, tf;
    FLXI_TRY(flxi_need_parts(f, 0));
    if (last_dim(spec) == 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "a spectrum must have at least one bin: spec is %s",
                               flxi_shape_str(f->ctx, spec, &ts));
    if (filt->rank != 2 || !flxi_dims_may_equal(f, filt->dims[1], bins_of_spec(f->ctx, spec)))
        return flxi_infer_fail(f, FLX_E_SHAPE, "the last axis of spec is 2N, re then im; filters read bins 0 to N//2",
                               "filt must be [M, N//2 + 1]: spec is %s, filt is %s", flxi_shape_str(f->ctx, spec, &ts),
                               flxi_shape_str(f->ctx, filt, &tf));
    if (!(a->floor > 0))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "floor must be above 0: it is %g", a->floor);
    *y = *spec;
    y->dims[spec->rank - 1] = filt->dims[0];
    return FLX_OK;
}

static flx_code infer_log_mel(flxi_infer *f)
{
    return infer_mel(f, &f->out[0]);
}

/* Σ_k filt[m, k] P_k. */
typedef struct {
    flx_val power, energy;
    flx_val is_floored; /* NaN is not: it is kept */
    flx_val safe;       /* the energy, 1 where it is not used */
} mel;

static mel mel_of(flxi_site *s, flx_val spec, flx_val filt)
{
    const mel_attrs *a = s->attrs;
    flx_graph *g = s->g;
    const flx_type *t = flxi_typeof(s, spec);
    mel m;
    m.power = flxi_power_of_bins(s, spec, bins_of_spec(s->ctx, t));
    m.energy = flx_dot_general(g, m.power, filt, FLX_INTS(t->rank - 1), FLX_INTS(1), FLX_NO_INTS, FLX_NO_INTS);
    m.is_floored = flx_le(g, m.energy, flxi_number(s, m.energy, a->floor));
    m.safe = flx_where(g, m.is_floored, flxi_number(s, m.energy, 1.0), m.energy);
    return m;
}

/* Not max: where both are equal the floor wins, and no cotangent passes. */
static void decompose_log_mel(flxi_site *s, flx_val *y)
{
    const mel_attrs *a = s->attrs;
    mel m = mel_of(s, s->x[0], s->x[1]);
    y[0] = flx_where(s->g, m.is_floored, flxi_number(s, m.safe, log10(a->floor)), flx_log10(s->g, m.safe));
}

/* The cotangent of the energies: dy / (e ln 10), 0 where the floor is active. */
static flx_val energy_cotangent(flxi_site *s, const mel *m, flx_val dy)
{
    static const double ln10 = 2.30258509299404568402;
    flx_val slope = flx_div(s->g, dy, flx_mul(s->g, m->safe, flxi_number(s, m->safe, ln10)));
    return flx_where(s->g, m->is_floored, flxi_number(s, slope, 0.0), slope);
}

/* The cotangent of filt is de ⊗ P, summed over all rows. */
static void backward_vjp_log_mel(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const mel_attrs *a = s->attrs;
    flx_attr floor = flx_attr_real("floor", a->floor);
    int64_t rows[FLX_MAX_RANK];
    flx_ints leading = {rows, 0};
    for (int k = 0; k + 1 < flxi_typeof(s, s->x[0])->rank; k++)
        rows[leading.n++] = k;
    if (s->wanted[0])
        dx[0] = flx_op1(s->g, "log_mel_backward", (flx_val[]){s->x[0], s->x[1], dy[0]}, 3, &floor, 1);
    if (!s->wanted[1])
        return;
    mel m = mel_of(s, s->x[0], s->x[1]);
    dx[1] = flx_dot_general(s->g, energy_cotangent(s, &m, dy[0]), m.power, leading, leading, FLX_NO_INTS, FLX_NO_INTS);
}

static const flxi_sample samples_log_mel[] = {
    {"T[2, 6], T[3, 2]{0.25..1}", NULL, NULL, FLX_OK},
    {"T[8], T[2, 3]{0.25..1}", "floor=1e-3", NULL, FLX_OK},
    {"T[2, 4]{-0.5..0.5}, T[2, 2]{0.25..1}", "floor=100", NULL, FLX_OK},
    {"T[2, 2, 2], T[2, 1]{0.25..1}", NULL, NULL, FLX_OK},
    {"T[0, 4], T[2, 2]", NULL, NULL, FLX_OK},
    {"T[2, 4], T[0, 2]", NULL, NULL, FLX_OK},
    {"T[N, 4], T[2, 2]{0.25..1}", NULL, NULL, FLX_OK},
    {"T[], T[2, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 5], T[2, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 0], T[2, 1]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 8], T[2, 4]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 4], T[2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 4], T[2, 2]", "floor=0", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_log_mel = {
    .infer = infer_log_mel,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_log_mel,
    .backward_vjp = backward_vjp_log_mel,
    .schema = mel_schema,
    .attrs_size = sizeof(mel_attrs),
    .samples = samples_log_mel,
    .work = flxi_work_decomposed,
};

/* ---- log_mel_backward ---- */

static flx_code infer_log_mel_backward(flxi_infer *f)
{
    flx_type y;
    flxi_type_text ty, td;
    FLXI_TRY(infer_mel(f, &y));
    bool is_same = f->in[2]->rank == y.rank;
    for (int k = 0; is_same && k < y.rank; k++)
        is_same = flxi_dims_may_equal(f, f->in[2]->dims[k], y.dims[k]);
    if (!is_same)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "dy must have the shape of the features, %s: it is %s",
                               flxi_shape_str(f->ctx, &y, &ty), flxi_shape_str(f->ctx, f->in[2], &td));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

/* dP = de filt; 2 re dP and 2 im dP, and 0 for the mirrored bins. */
static void decompose_log_mel_backward(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val spec = s->x[0];
    const flx_type *t = flxi_typeof(s, spec);
    flx_dim n = flx_dim_div(s->ctx, last_dim(t), 2), bins = bins_of_spec(s->ctx, t);
    int last = t->rank - 1;
    mel m = mel_of(s, spec, s->x[1]);
    flx_val de = energy_cotangent(s, &m, s->x[2]);
    flx_val dp = flx_dot_general(g, de, s->x[1], FLX_INTS(last), FLX_INTS(0), FLX_NO_INTS, FLX_NO_INTS);
    flx_val twice = flx_add(g, dp, dp);
    flx_val dre = flx_mul(g, flxi_narrow_last(s, spec, 0, bins), twice);
    flx_val dim = flx_mul(g, flxi_narrow_last(s, spec, n, bins), twice);
    y[0] = flxi_join_last(s, flxi_fit_last(s, dre, n), flxi_fit_last(s, dim, n));
}

static const flxi_sample samples_log_mel_backward[] = {
    {"T[2, 6], T[3, 2]{0.25..1}, T[2, 3]", NULL, NULL, FLX_OK},
    {"T[8], T[2, 3]{0.25..1}, T[2]", "floor=1e-3", NULL, FLX_OK},
    {"T[2, 4]{-0.5..0.5}, T[2, 2]{0.25..1}, T[2, 2]", "floor=100", NULL, FLX_OK},
    {"T[0, 4], T[2, 2], T[0, 2]", NULL, NULL, FLX_OK},
    {"T[N, 4], T[2, 2]{0.25..1}, T[N, 2]", NULL, NULL, FLX_OK},
    {"T[2, 5], T[2, 2], T[2, 2]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 4], T[2, 2], T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 4], T[2, 2], T[2]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_log_mel_backward = {
    .infer = infer_log_mel_backward,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_log_mel_backward,
    .schema = mel_schema,
    .attrs_size = sizeof(mel_attrs),
    .samples = samples_log_mel_backward,
    .work = flxi_work_decomposed,
};

/* ---- log_mel_normalize ---- */

typedef struct {
    double range, shift, scale;
} normalize_attrs;

static const flxi_attr normalize_schema[] = {
    A_REAL(normalize_attrs, range, 8.0),
    A_REAL(normalize_attrs, shift, 4.0),
    A_REAL(normalize_attrs, scale, 4.0),
    A_END,
};

static flx_code infer_normalize(flxi_infer *f)
{
    const normalize_attrs *a = f->attrs;
    if (!isfinite(a->range) || !isfinite(a->shift) || !isfinite(a->scale) || a->scale == 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "range, shift and scale must be finite, and scale must not be 0");
    return flxi_infer_same(f);
}

static void decompose_normalize(flxi_site *s, flx_val *y)
{
    const normalize_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val x = s->x[0];
    flx_val least = flx_sub(g, flx_reduce_max(g, x, FLX_ALL, 0), flxi_number(s, x, a->range));
    flx_val shifted = flx_add(g, flx_max(g, x, least), flxi_number(s, x, a->shift));
    y[0] = flx_div(g, shifted, flxi_number(s, x, a->scale));
}

static const flxi_sample samples_normalize[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 5]", "range=1.5, shift=0.5, scale=-2", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[N, 2]", "range=1", NULL, FLX_OK},
    {"T[3]", "scale=0", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_log_mel_normalize = {
    .infer = infer_normalize,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_normalize,
    .schema = normalize_schema,
    .attrs_size = sizeof(normalize_attrs),
    .samples = samples_normalize,
};

/* ---- welch_peaks ---- */

typedef struct {
    flx_dim k;
} peaks_attrs;

static const flxi_attr peaks_schema[] = {A_DIM_REQ(peaks_attrs, k), A_END};

static flx_code infer_peaks(flxi_infer *f)
{
    const peaks_attrs *a = f->attrs;
    const flx_type *spec = f->in[0];
    flxi_type_text ts;
    flxi_dim_text tk;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    FLXI_TRY(flxi_need_parts(f, 0));
    flx_dim bins = flx_dim_div(f->ctx, last_dim(spec), 2);
    if (flxi_dim_below(f->ctx, bins, a->k) || flxi_dim_below(f->ctx, a->k, 1))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "the last axis of spec is re then im: half of it are bins",
                               "k must be at least 1 and at most the number of bins: k is %s, spec is %s",
                               flxi_dim_str(f->ctx, a->k, &tk), flxi_shape_str(f->ctx, spec, &ts));
    f->out[0] = flx_type_make((flx_dtype)spec->dtype, spec->rank - 1, spec->dims + 1);
    f->out[0].dims[spec->rank - 2] = a->k;
    f->out[1] = f->out[0];
    f->out[1].dtype = FLX_I32;
    return FLX_OK;
}

static void decompose_peaks(flxi_site *s, flx_val *y)
{
    const peaks_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_dim bins = flx_dim_div(s->ctx, last_dim(flxi_typeof(s, s->x[0])), 2);
    flx_val mean = flx_reduce_mean(g, flxi_power_of_bins(s, s->x[0], bins), FLX_INTS(0), 0);
    y[1] = flx_topk(g, mean, a->k, FLX_I32);
    y[0] = flx_take_along(g, mean, y[1], -1, NULL);
}

static const flxi_sample samples_peaks[] = {
    {"T[3, 8]", "k=2", NULL, FLX_OK},
    {"T[2, 2, 6]", "k=3", NULL, FLX_OK},
    {"T[2, 0, 4]", "k=1", NULL, FLX_OK},
    {"T[N, 6]", "k=1", NULL, FLX_OK},
    {"T[6]", "k=1", NULL, FLX_E_SHAPE},
    {"T[2, 5]", "k=1", NULL, FLX_E_SHAPE},
    {"T[2, 6]", "k=4", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 6]", "k=0", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_welch_peaks = {
    .infer = infer_peaks,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_peaks,
    .schema = peaks_schema,
    .attrs_size = sizeof(peaks_attrs),
    .samples = samples_peaks,
};
