/* SPDX-License-Identifier: Apache-2.0 */
/* spectral.c: Fourier transforms. fft is the only primitive of the family; all others consist of it and of ops that
   move elements. All but fftn and ifftn have derivatives of their own, which are again transforms of the family, so
   that a device with a faster way for them meets them in gradients too.

   Complex dtypes hold N numbers along the axis, real ones 2N: the N real parts, then the N imaginary parts. The
   transform is y = α F x with F symmetric, so its adjoint is α times the transform in the other direction without a
   factor of its own. The norms "backward" and "forward" differ in which direction carries 1/N: the adjoint of one is
   the transform in the other direction with the other one. So no rule needs an explicit factor, and none can have the
   wrong dtype. */
#include "ops/signal/spectral.h"

#include "base/complex_arith.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "graph/op/work.h"
#include "numeric/fourier.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"
#include "ops/rule/shard.h"

#include <complex.h>

/* ---- fft ---- */

typedef struct {
    int64_t inverse, norm;
} fft_attrs;

static const flxi_attr fft_schema[] = {
    A_BOOL(fft_attrs, inverse, 0),
    A_WORD(fft_attrs, norm, FLXI_FOURIER_NORMS),
    A_END,
};

flx_code flxi_need_parts(flxi_infer *f, uint32_t i)
{
    const flx_type *x = f->in[i];
    flxi_type_text tx;
    char name[16];
    FLXI_TRY(flxi_need_rank(f, i, 1));
    flx_dim last = x->dims[x->rank - 1];
    if (flx_dim_is_static(last) && last % 2)
        return flxi_infer_fail(f, FLX_E_SHAPE, "real tensors hold [re, im]; for a real signal use rfft",
                               "the last axis of %s must have as many imaginary as real parts: it is %s",
                               flxi_operand_name(f, i, name, sizeof name), flxi_shape_str(f->ctx, x, &tx));
    return FLX_OK;
}

static flx_code infer_fft(flxi_infer *f)
{
    if (flxi_is_complex(f->in[0]->dtype))
        FLXI_TRY(flxi_need_rank(f, 0, 1));
    else
        FLXI_TRY(flxi_need_parts(f, 0));
    return flxi_infer_same(f);
}

/* One row after the other, in double, rounded once. */
typedef struct {
    flxi_fourier plan;
    double *table, *re, *im, *work;
    double scale;
    bool inverse;
} transform;

static void transform_row(const transform *t, const flx_tensor *x, flx_tensor *y, int64_t row)
{
    int64_t n = t->plan.n;
    int32_t dtype = x->type.dtype;
    bool is_complex = flxi_is_complex(dtype);
    for (int64_t k = 0; k < n && !flxi_stopped_by_now(); k++) {
        double _Complex z = is_complex ? flxi_load_complex(dtype, x->data, row * n + k) : 0;
        t->re[k] = is_complex ? creal(z) : flxi_load_double(dtype, x->data, 2 * row * n + k);
        t->im[k] = is_complex ? cimag(z) : flxi_load_double(dtype, x->data, 2 * row * n + n + k);
    }
    flxi_fourier_f64(&t->plan, t->table, t->inverse ? t->im : t->re, t->inverse ? t->re : t->im, 1, t->work);
    for (int64_t k = 0; k < n && !flxi_stopped_by_now(); k++) {
        double re = t->re[k] * t->scale, im = t->im[k] * t->scale;
        if (is_complex) {
            flxi_store_complex(dtype, y->data, row * n + k, flxi_cmake(re, im));
        } else {
            flxi_store_double(dtype, y->data, 2 * row * n + k, re);
            flxi_store_double(dtype, y->data, 2 * row * n + n + k, im);
        }
    }
}

static flx_code eval_fft(flxi_eval *e)
{
    const fft_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    transform t = {.inverse = a->inverse};
    int64_t last = x->type.dims[x->type.rank - 1];
    int64_t n = flxi_is_complex(x->type.dtype) ? last : last / 2;
    if (x->count == 0)
        return FLX_OK;
    if (!flxi_fourier_plan(n, &t.plan))
        return flxi_eval_fail(e, FLX_E_SIZE, NULL, "a transform of %lld numbers is too long", (long long)n);
    size_t table = flxi_fourier_table_count(&t.plan);
    size_t count = table + 2 * (size_t)n + flxi_fourier_work_count(&t.plan);
    t.table = flxi_alloc(e->mem, count, sizeof(double));
    if (!t.table)
        return flxi_oom(e->err, "a Fourier transform");
    t.re = t.table + table;
    t.im = t.re + n;
    t.work = t.im + n;
    t.scale = flxi_fourier_scale(a->norm, a->inverse, n);
    flx_code code = flxi_fourier_fill(&t.plan, FLX_F64, t.table, e->mem, e->err);
    for (int64_t row = 0; code == FLX_OK && row < x->count / last && !flxi_stopped(); row++)
        transform_row(&t, x, e->out[0], row);
    flxi_free(e->mem, t.table, count, sizeof(double));
    return code;
}

static const int64_t adjoint_norm[] = {[FLXI_NORM_BACKWARD] = FLXI_NORM_FORWARD,
                                       [FLXI_NORM_FORWARD] = FLXI_NORM_BACKWARD,
                                       [FLXI_NORM_ORTHO] = FLXI_NORM_ORTHO,
                                       [FLXI_NORM_NONE] = FLXI_NORM_NONE};

static void vjp_fft(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const fft_attrs *a = s->attrs;
    dx[0] = flxi_fft(s, dy[0], !a->inverse, adjoint_norm[a->norm]);
}

/* The axis is the last one, whatever is before it. */
static void batch_fft(flxi_site *s, flx_val *by)
{
    flxi_append(s, NULL, s->x, 1, by);
}

static const flxi_sample samples_fft[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 2, 6]", "inverse=true", NULL, FLX_OK},
    {"T[10]", "norm=ortho", NULL, FLX_OK},
    {"T[2, 14]", "norm=forward", NULL, FLX_OK},
    {"T[12]", "norm=ortho, inverse=true", NULL, FLX_OK},
    {"T[8]", "norm=none, inverse=true", NULL, FLX_OK},
    {"T[16]", "norm=forward, inverse=true", NULL, FLX_OK},
    {"T[74]", NULL, NULL, FLX_OK},
    {"T[2]", NULL, NULL, FLX_OK},
    {"T[0, 4]", NULL, NULL, FLX_OK},
    {"T[2, 0]", NULL, NULL, FLX_OK},
    {"T[N, 6]", NULL, NULL, FLX_OK},
    {"T[2, 2*N]", "inverse=true", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"f32[2, 5]", NULL, NULL, FLX_E_SHAPE},
    {"T[4]", "norm=unitary", NULL, FLX_E_ATTRIBUTE},
    {"i32[4]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* 5 n log2 n for each row of n complex numbers. */
static void work_fft(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    const flx_type *x = flxi_type_at(g, n->in[0]);
    bool is_complex = flxi_is_complex(x->dtype);
    int64_t length = flxi_work_extent(x->dims[x->rank - 1]) / (is_complex ? 1 : 2);
    int64_t count = flxi_work_count(x) / (is_complex ? 1 : 2);
    int64_t rounds = 0;
    while (INT64_C(1) << rounds < length)
        rounds++;
    w->flops = flxi_times(5, flxi_times(count, rounds));
}

const flxi_rules flxi_rules_fft = {
    .infer = infer_fft,
    .eval = eval_fft,
    .schema = fft_schema,
    .attrs_size = sizeof(fft_attrs),
    .vjp = vjp_fft,
    .batch = batch_fft,
    .samples = samples_fft,
    .work = work_fft,
    .link = flxi_link_rows,
    .shard = &flxi_shard_linked,
};

/* ---- Pieces ---- */

static const char *const norms[] = {"backward", "forward", "ortho", "none"};

flx_val flxi_fft(flxi_site *s, flx_val x, bool inverse, int64_t norm)
{
    flx_attr attrs[] = {flx_attr_int("inverse", inverse), flx_attr_word("norm", norms[norm])};
    return flx_op1(s->g, "fft", &x, 1, attrs, 2);
}

flx_val flxi_fit_last(flxi_site *s, flx_val x, flx_dim n)
{
    const flx_type *t = flxi_typeof(s, x);
    flx_dim low[FLX_MAX_RANK] = {0}, high[FLX_MAX_RANK] = {0};
    if (t->rank > 0)
        high[t->rank - 1] = flx_dim_sub(s->ctx, n, t->dims[t->rank - 1]);
    return flxi_pad_zeros(s, x, low, high);
}

flx_val flxi_narrow_last(flxi_site *s, flx_val x, flx_dim start, flx_dim len)
{
    return flx_narrow(s->g, x, -1, start, len);
}

flx_val flxi_join_last(flxi_site *s, flx_val a, flx_val b)
{
    return flx_concat(s->g, ((flx_val[]){a, b}), 2, -1);
}

flx_val flxi_power_of_bins(flxi_site *s, flx_val spec, flx_dim bins)
{
    const flx_type *t = flxi_typeof(s, spec);
    flx_dim n = flx_dim_div(s->ctx, t->rank ? t->dims[t->rank - 1] : 0, 2);
    flx_val re = flxi_narrow_last(s, spec, 0, bins);
    flx_val im = flxi_narrow_last(s, spec, n, bins);
    return flx_add(s->g, flx_square(s->g, re), flx_square(s->g, im));
}

flx_dim flxi_bins_of(flx_context *ctx, flx_dim n)
{
    return flx_dim_add(ctx, flxi_dim_floor_div(ctx, n, 2), 1);
}

flx_code flxi_norm_length(flxi_infer *f, flx_dim *n, flx_dim fallback)
{
    bool is_given = *n != FLXI_ABSENT;
    *n = is_given ? *n : fallback;
    if (flxi_dim_is_number(*n) && *n < 1)
        return flxi_infer_fail(f, is_given ? FLX_E_ATTRIBUTE : FLX_E_SHAPE, is_given ? NULL : "give the length as n",
                               "the length of a transform must be at least 1, got %lld", (long long)*n);
    return FLX_OK;
}

/* ---- fft_axis, fftn, ifftn ---- */

static flx_val fft_along(flxi_site *s, flx_val x, int64_t axis, bool is_inverse, int64_t norm)
{
    return flx_fft_axis(s->g, x, axis, is_inverse, norms[norm]);
}

typedef struct {
    int64_t axis, inverse, norm;
} fft_axis_attrs;

static const flxi_attr fft_axis_schema[] = {
    A_INT_REQ(fft_axis_attrs, axis),
    A_BOOL(fft_axis_attrs, inverse, 0),
    A_WORD(fft_axis_attrs, norm, FLXI_FOURIER_NORMS),
    A_END,
};

/* Real tensors hold both parts along the axis, so its extent must be even. */
static flx_code need_parts_along(flxi_infer *f, int64_t axis)
{
    const flx_type *x = f->in[0];
    flxi_type_text tx;
    if (!flxi_is_complex(x->dtype) && flx_dim_is_static(x->dims[axis]) && x->dims[axis] % 2)
        return flxi_infer_fail(f, FLX_E_SHAPE, "real tensors hold [re, im]; for a real signal use rfft",
                               "axis %lld must have as many imaginary as real parts: x is %s", (long long)axis,
                               flxi_shape_str(f->ctx, x, &tx));
    return FLX_OK;
}

static flx_code infer_fft_axis(flxi_infer *f)
{
    fft_axis_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    FLXI_TRY(need_parts_along(f, a->axis));
    return flxi_infer_same(f);
}

/* The axis is moved to the end and back. */
static void decompose_fft_axis(flxi_site *s, flx_val *y)
{
    const fft_axis_attrs *a = s->attrs;
    int last = flxi_typeof(s, s->x[0])->rank - 1;
    flx_val moved = flxi_move_axis(s, s->x[0], (int)a->axis, last);
    y[0] = flxi_move_axis(s, flxi_fft(s, moved, a->inverse, a->norm), last, (int)a->axis);
}

static void vjp_fft_axis(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const fft_axis_attrs *a = s->attrs;
    dx[0] = fft_along(s, dy[0], a->axis, !a->inverse, adjoint_norm[a->norm]);
}

static void batch_fft_axis(flxi_site *s, flx_val *by)
{
    fft_axis_attrs *a = flxi_site_attrs(s);
    if (a)
        a->axis++;
    flxi_append(s, a, s->x, 1, by);
}

static const flxi_sample samples_fft_axis[] = {
    {"T[3, 4]", "axis=-1", NULL, FLX_OK},
    {"T[4, 3]", "axis=0, norm=ortho", NULL, FLX_OK},
    {"T[2, 6, 2]", "axis=1, inverse=true", NULL, FLX_OK},
    {"T[0, 4]", "axis=1", NULL, FLX_OK},
    {"T[6, N]", "axis=0, norm=forward", NULL, FLX_OK},
    {"T[2*N, 2]", "axis=0", NULL, FLX_OK},
    {"T[]", "axis=0", NULL, FLX_E_SHAPE},
    {"f32[3, 4]", "axis=0", NULL, FLX_E_SHAPE},
    {"T[4]", "axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[4]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_fft_axis = {
    .infer = infer_fft_axis,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_fft_axis,
    .schema = fft_axis_schema,
    .attrs_size = sizeof(fft_axis_attrs),
    .vjp = vjp_fft_axis,
    .batch = batch_fft_axis,
    .samples = samples_fft_axis,
    .work = flxi_work_decomposed,
    .link = flxi_link_dense,
};

typedef struct {
    flx_ints axes;
    int64_t norm;
} fftn_attrs;

static const flxi_attr fftn_schema[] = {
    A_INTS(fftn_attrs, axes, "all"),
    A_WORD(fftn_attrs, norm, FLXI_FOURIER_NORMS),
    A_END,
};

static flx_code infer_fftn(flxi_infer *f)
{
    fftn_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, x->rank, false));
    if (a->axes.n > 1 && !flxi_is_complex(x->dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, "make it complex: complex(re, im)",
                               "a transform along %zu axes needs complex numbers: x is %s", a->axes.n,
                               flx_dtype_name(x->dtype));
    for (size_t i = 0; i < a->axes.n; i++)
        FLXI_TRY(need_parts_along(f, a->axes.v[i]));
    return flxi_infer_same(f);
}

static void decompose_along_all(flxi_site *s, flx_val *y, bool is_inverse)
{
    const fftn_attrs *a = s->attrs;
    y[0] = s->x[0];
    for (size_t i = 0; i < a->axes.n; i++)
        y[0] = fft_along(s, y[0], a->axes.v[i], is_inverse, a->norm);
}

static void decompose_fftn(flxi_site *s, flx_val *y)
{
    decompose_along_all(s, y, false);
}

static void decompose_ifftn(flxi_site *s, flx_val *y)
{
    decompose_along_all(s, y, true);
}

static const flxi_sample samples_fftn[] = {
    {"T[6]", NULL, NULL, FLX_OK},
    {"T[3, 4]", "axes=[1], norm=ortho", NULL, FLX_OK},
    {"T[2, 3, 2]", "axes=[-1]", NULL, FLX_OK},
    {"c64[2, 3]", NULL, NULL, FLX_OK},
    {"c128[2, 3, 2]", "axes=[2, 0], norm=forward", NULL, FLX_OK},
    {"c128[3, 0]", NULL, NULL, FLX_OK},
    {"c128[N, 2]", "axes=[0, 1]", NULL, FLX_OK},
    {"f32[2, 4]", NULL, NULL, FLX_E_DTYPE},
    {"f64[3, 4]", "axes=[0]", NULL, FLX_E_SHAPE},
    {"T[4]", "axes=[1]", NULL, FLX_E_ATTRIBUTE},
    {"c64[4, 4]", "axes=[1, 1]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

#define FFTN_RULES                                                                                              \
    .infer = infer_fftn, .eval = flxi_eval_decomposed, .schema = fftn_schema, .attrs_size = sizeof(fftn_attrs), \
    .samples = samples_fftn
const flxi_rules flxi_rules_fftn = {FFTN_RULES, .link = flxi_link_dense, .work = flxi_work_decomposed,
                                    .decompose = decompose_fftn};
const flxi_rules flxi_rules_ifftn = {FFTN_RULES, .link = flxi_link_dense, .work = flxi_work_decomposed,
                                     .decompose = decompose_ifftn};

/* ---- rfft, irfft ---- */

typedef struct {
    flx_dim n;
    int64_t norm;
} rfft_attrs;

static const flxi_attr rfft_schema[] = {
    A_DIM_OPT(rfft_attrs, n, "length"),
    A_WORD(rfft_attrs, norm, FLXI_FOURIER_NORMS),
    A_END,
};

static flx_code infer_rfft(flxi_infer *f)
{
    rfft_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_length(f, &a->n, x->dims[x->rank - 1]));
    f->out[0] = *x;
    f->out[0].dims[x->rank - 1] = flxi_bins_of(f->ctx, a->n);
    f->out[1] = f->out[0];
    return FLX_OK;
}

static void real_to_bins(flxi_site *s, flx_val x, flx_dim n, int64_t norm, flx_val parts[2])
{
    flx_val signal = flxi_fit_last(s, x, n);
    flx_val all = flxi_fft(s, flxi_join_last(s, signal, flxi_zeros_like(s, signal)), false, norm);
    flx_dim bins = flxi_bins_of(s->ctx, n);
    parts[0] = flxi_narrow_last(s, all, 0, bins);
    parts[1] = flxi_narrow_last(s, all, n, bins);
}

static void rfft_with(flxi_site *s, flx_val x, flx_dim n, int64_t norm, flx_val parts[2])
{
    flx_rfft(s->g, x, parts, n, norms[norm]);
}

static flx_val irfft_with(flxi_site *s, const flx_val parts[2], flx_dim n, int64_t norm)
{
    return flx_irfft(s->g, parts[0], parts[1], n, norms[norm]);
}

void flxi_rfft(flxi_site *s, flx_val x, flx_dim n, flx_val parts[2])
{
    rfft_with(s, x, n, FLXI_NORM_BACKWARD, parts);
}

static void decompose_rfft(flxi_site *s, flx_val *y)
{
    const rfft_attrs *a = s->attrs;
    real_to_bins(s, s->x[0], a->n, a->norm, y);
}

/* Bins 0 and, for even n, n/2 have no partner among the bins of a complex transform; all others have one. */
static flx_val is_unpaired(flxi_site *s, flx_dim n)
{
    flx_dim bins = flxi_bins_of(s->ctx, n);
    flx_type row = flx_type_make(FLX_I64, 1, &bins);
    flx_val k = flx_iota(s->g, &row, 0);
    flx_val is_first = flx_eq(s->g, k, flx_scalar(s->g, FLX_I64, 0));
    return flx_or(s->g, is_first, flx_eq(s->g, flx_add(s->g, k, k), flxi_index_number(s, FLX_I64, n)));
}

/* dx_j = α Re Σ_k (dre_k + i dim_k) exp(2πi jk/n) over bins 0 … n/2. irfft adds the conjugate of every paired bin, so
   these are halved. */
static void vjp_rfft(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const rfft_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_val alone = is_unpaired(s, a->n), parts[2];
    for (int k = 0; k < 2; k++) {
        flx_val part = flxi_or_zeros(s, dy[k], s->y[k]);
        parts[k] = flx_where(s->g, alone, part, flx_mul(s->g, part, flxi_number(s, part, 0.5)));
    }
    flx_dim length = x->rank ? x->dims[x->rank - 1] : 1;
    dx[0] = flxi_fit_last(s, irfft_with(s, parts, a->n, adjoint_norm[a->norm]), length);
}

/* The axis is the last one, whatever is before it. */
static void batch_rows(flxi_site *s, flx_val *by)
{
    flx_val x[2] = {FLX_NONE, FLX_NONE};
    for (uint32_t i = 0; i < s->nin; i++)
        x[i] = flxi_lift(s, i);
    flxi_append(s, NULL, x, s->nin, by);
}

/* Half of a complex transform of as many numbers. */
static void work_real(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    const flx_type *rows = flxi_type_at(g, n->in[0]);
    const rfft_attrs *a = n->attrs;
    int64_t length = flxi_work_extent(a->n), extent = flxi_work_extent(rows->dims[rows->rank - 1]);
    int64_t count = extent ? flxi_work_count(rows) / extent : 0, rounds = 0;
    while (INT64_C(1) << rounds < length)
        rounds++;
    w->flops = flxi_times(5, flxi_times(count, flxi_times(length, rounds))) / 2;
}

static const flxi_sample samples_rfft[] = {
    {"T[2, 6]", NULL, NULL, FLX_OK},
    {"T[5]", "norm=ortho", NULL, FLX_OK},
    {"T[3]", "n=8, norm=forward", NULL, FLX_OK},
    {"T[2, 7]", "n=4, norm=none", NULL, FLX_OK},
    {"T[1]", NULL, NULL, FLX_OK},
    {"T[0]", "n=3", NULL, FLX_OK},
    {"T[0, 4]", NULL, NULL, FLX_OK},
    {"T[N, 4]", NULL, NULL, FLX_OK},
    {"T[2, N]", NULL, NULL, FLX_OK},
    {"T[2, N]", "n=2*N", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 0]", NULL, NULL, FLX_E_SHAPE},
    {"T[4]", "n=0", NULL, FLX_E_ATTRIBUTE},
    {"c64[4]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_rfft = {
    .infer = infer_rfft,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_rfft,
    .schema = rfft_schema,
    .attrs_size = sizeof(rfft_attrs),
    .vjp = vjp_rfft,
    .batch = batch_rows,
    .samples = samples_rfft,
    .work = work_real,
    .link = flxi_link_rows,
    .shard = &flxi_shard_linked,
};

static const flxi_attr irfft_schema[] = {
    A_DIM_OPT(rfft_attrs, n, "2*bins - 2"),
    A_WORD(rfft_attrs, norm, FLXI_FOURIER_NORMS),
    A_END,
};

static flx_code infer_irfft(flxi_infer *f)
{
    rfft_attrs *a = f->attrs;
    flx_type shape;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_equal_shapes(f, 2, &shape));
    flx_dim before = flx_dim_sub(f->ctx, shape.dims[shape.rank - 1], 1);
    FLXI_TRY(flxi_norm_length(f, &a->n, flx_dim_mul(f->ctx, before, 2)));
    f->out[0] = shape;
    f->out[0].dims[shape.rank - 1] = a->n;
    return FLX_OK;
}

/* Bins n//2 + 1 … n - 1 are the conjugates of bins n - k: of 1 … m, m = (n - 1)//2. Bin 0 and, for even n, bin n/2 have
   no partner, and no imaginary part: there are n//2 - m = 0 or 1 bins after the first m + 1. */
static flx_val bins_to_real(flxi_site *s, const flx_val parts[2], flx_dim n, int64_t norm)
{
    flx_graph *g = s->g;
    flx_dim bins = flxi_bins_of(s->ctx, n);
    flx_dim m = flxi_dim_floor_div(s->ctx, flx_dim_sub(s->ctx, n, 1), 2);
    flx_dim first = flx_dim_add(s->ctx, m, 1);
    flx_val re = flxi_fit_last(s, parts[0], bins);
    flx_val im = flxi_narrow_last(s, flxi_fit_last(s, parts[1], bins), 1, m);
    int last = flxi_typeof(s, re)->rank - 1;
    flx_dim low[FLX_MAX_RANK] = {0}, high[FLX_MAX_RANK] = {0};
    if (g->error.code)
        return FLX_NONE;
    low[last] = 1;
    high[last] = flx_dim_sub(s->ctx, bins, first);
    flx_val mirrored_re = flx_reverse(g, flxi_narrow_last(s, re, 1, m), FLX_INTS(last));
    flx_val mirrored_im = flx_neg(g, flx_reverse(g, im, FLX_INTS(last)));
    flx_val all[] = {re, mirrored_re, flxi_pad_zeros(s, im, low, high), mirrored_im};
    return flxi_narrow_last(s, flxi_fft(s, flx_concat(g, all, 4, last), true, norm), 0, n);
}

flx_val flxi_irfft(flxi_site *s, const flx_val parts[2], flx_dim n)
{
    return irfft_with(s, parts, n, FLXI_NORM_BACKWARD);
}

static void decompose_irfft(flxi_site *s, flx_val *y)
{
    const rfft_attrs *a = s->attrs;
    y[0] = bins_to_real(s, s->x, a->n, a->norm);
}

/* The bins of the cotangent; every paired bin occurs twice in a result. The imaginary parts of the others do not occur
   at all. */
static void vjp_irfft(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const rfft_attrs *a = s->attrs;
    flx_graph *g = s->g;
    const flx_type *bins = flxi_typeof(s, s->x[0]);
    flx_dim given = bins->rank ? bins->dims[bins->rank - 1] : 1;
    flx_val alone = is_unpaired(s, a->n), parts[2] = {FLX_NONE, FLX_NONE};
    rfft_with(s, dy[0], a->n, adjoint_norm[a->norm], parts);
    for (int k = 0; k < 2; k++) {
        flx_val twice = flx_mul(g, parts[k], flxi_number(s, parts[k], 2.0));
        flx_val once = k == 0 ? parts[0] : flxi_number(s, twice, 0.0);
        if (s->wanted[k])
            dx[k] = flxi_fit_last(s, flx_where(g, alone, once, twice), given);
    }
}

static const flxi_sample samples_irfft[] = {
    {"T[2, 4], T[2, 4]", NULL, NULL, FLX_OK},
    {"T[3], T[3]", "n=5, norm=ortho", NULL, FLX_OK},
    {"T[3], T[3]", "n=1", NULL, FLX_OK},
    {"T[2], T[2]", "norm=forward", NULL, FLX_OK},
    {"T[3], T[3]", "n=8", NULL, FLX_OK},
    {"T[2, 4], T[2, 4]", "n=3, norm=none", NULL, FLX_OK},
    {"T[0, 3], T[0, 3]", NULL, NULL, FLX_OK},
    {"T[N, 3], T[N, 3]", NULL, NULL, FLX_OK},
    {"T[2, N + 1], T[2, N + 1]", NULL, NULL, FLX_OK},
    {"T[], T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3], T[4]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 1], T[2, 1]", NULL, NULL, FLX_E_SHAPE},
    {"T[3], T[3]", "n=-2", NULL, FLX_E_ATTRIBUTE},
    {0},
};

const flxi_rules flxi_rules_irfft = {
    .infer = infer_irfft,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_irfft,
    .schema = irfft_schema,
    .attrs_size = sizeof(rfft_attrs),
    .vjp = vjp_irfft,
    .batch = batch_rows,
    .samples = samples_irfft,
    .work = work_real,
    .link = flxi_link_rows,
    .shard = &flxi_shard_linked,
};

/* ---- rfft_complex, irfft_complex ---- */

static flx_code infer_rfft_complex(flxi_infer *f)
{
    rfft_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_length(f, &a->n, x->dims[x->rank - 1]));
    f->out[0] = *x;
    f->out[0].dtype = flxi_complex_dtype(x->dtype);
    f->out[0].dims[x->rank - 1] = flxi_bins_of(f->ctx, a->n);
    return FLX_OK;
}

static void decompose_rfft_complex(flxi_site *s, flx_val *y)
{
    const rfft_attrs *a = s->attrs;
    flx_val parts[2] = {FLX_NONE, FLX_NONE};
    rfft_with(s, s->x[0], a->n, a->norm, parts);
    y[0] = flx_complex(s->g, parts[0], parts[1]);
}

/* As for rfft: dz is dre + i dim. */
static void vjp_rfft_complex(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const rfft_attrs *a = s->attrs;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_val half = flx_mul(s->g, dy[0], flxi_number(s, dy[0], 0.5));
    flx_val bins = flx_where(s->g, is_unpaired(s, a->n), dy[0], half);
    flx_val signal = flx_irfft_complex(s->g, bins, a->n, norms[adjoint_norm[a->norm]]);
    dx[0] = flxi_fit_last(s, signal, x->rank ? x->dims[x->rank - 1] : 1);
}

static const flxi_sample samples_rfft_complex[] = {
    {"T[2, 6]", NULL, NULL, FLX_OK},
    {"T[5]", "norm=ortho", NULL, FLX_OK},
    {"T[3]", "n=8, norm=forward", NULL, FLX_OK},
    {"T[2, 7]", "n=4, norm=none", NULL, FLX_OK},
    {"T[0]", "n=3", NULL, FLX_OK},
    {"T[0, 4]", NULL, NULL, FLX_OK},
    {"T[N, 4]", NULL, NULL, FLX_OK},
    {"T[2, N]", "n=2*N", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 0]", NULL, NULL, FLX_E_SHAPE},
    {"T[4]", "n=0", NULL, FLX_E_ATTRIBUTE},
    {"c64[4]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_rfft_complex = {
    .infer = infer_rfft_complex,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_rfft_complex,
    .schema = rfft_schema,
    .attrs_size = sizeof(rfft_attrs),
    .vjp = vjp_rfft_complex,
    .batch = batch_rows,
    .samples = samples_rfft_complex,
    .work = work_real,
    .link = flxi_link_rows,
    .shard = &flxi_shard_linked,
};

static flx_code infer_irfft_complex(flxi_infer *f)
{
    rfft_attrs *a = f->attrs;
    const flx_type *z = f->in[0];
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    flx_dim before = flx_dim_sub(f->ctx, z->dims[z->rank - 1], 1);
    FLXI_TRY(flxi_norm_length(f, &a->n, flx_dim_mul(f->ctx, before, 2)));
    f->out[0] = *z;
    f->out[0].dtype = flxi_part_dtype(z->dtype);
    f->out[0].dims[z->rank - 1] = a->n;
    return FLX_OK;
}

static void decompose_irfft_complex(flxi_site *s, flx_val *y)
{
    const rfft_attrs *a = s->attrs;
    const flx_val parts[2] = {flx_real(s->g, s->x[0]), flx_imag(s->g, s->x[0])};
    y[0] = irfft_with(s, parts, a->n, a->norm);
}

/* As for irfft. */
static void vjp_irfft_complex(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const rfft_attrs *a = s->attrs;
    flx_graph *g = s->g;
    const flx_type *z = flxi_typeof(s, s->x[0]);
    flx_val bins = flx_rfft_complex(g, dy[0], a->n, norms[adjoint_norm[a->norm]]);
    flx_val re = flx_real(g, bins);
    flx_val once = flx_complex(g, re, flxi_number(s, re, 0.0));
    flx_val twice = flx_mul(g, bins, flxi_number(s, bins, 2.0));
    dx[0] = flxi_fit_last(s, flx_where(g, is_unpaired(s, a->n), once, twice), z->rank ? z->dims[z->rank - 1] : 1);
}

static const flxi_sample samples_irfft_complex[] = {
    {"T[2, 4]", NULL, NULL, FLX_OK},
    {"T[3]", "n=5, norm=ortho", NULL, FLX_OK},
    {"T[3]", "n=1", NULL, FLX_OK},
    {"T[3]", "n=8, norm=forward", NULL, FLX_OK},
    {"T[2, 4]", "n=3, norm=none", NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[N, 3]", NULL, NULL, FLX_OK},
    {"T[2, N + 1]", NULL, NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 1]", NULL, NULL, FLX_E_SHAPE},
    {"T[3]", "n=-2", NULL, FLX_E_ATTRIBUTE},
    {"f32[3]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_irfft_complex = {
    .infer = infer_irfft_complex,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_irfft_complex,
    .schema = irfft_schema,
    .attrs_size = sizeof(rfft_attrs),
    .vjp = vjp_irfft_complex,
    .batch = batch_rows,
    .samples = samples_irfft_complex,
    .work = work_real,
    .link = flxi_link_rows,
    .shard = &flxi_shard_linked,
};
