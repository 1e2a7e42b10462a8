/* axis.c: ops along one axis that keep the shape: softmax and the running folds.

   Statistics are computed in double, except that sums over f16 and bf16 accumulate in f32; each element is rounded once,
   when it is stored. NaN propagates: a running extremum is NaN from the first NaN on. */
#include "ops/axis.h"

#include "ir/eval.h"

#include <math.h>

/* ---- Shared with other families ---- */

flx_code flxi_check_positions(flxi_infer *f, int64_t dtype, flx_dim extent)
{
    if (!flxi_is_int((int32_t)dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, "use an integer dtype, e.g. dtype=i32",
                               "positions cannot be %s", flx_dtype_name((int32_t)dtype));
    int bits = flxi_int_bits((int32_t)dtype) - flxi_is_signed((int32_t)dtype);
    if (bits < 63 && flxi_dim_is_number(extent) && extent > 0 && (extent - 1) >> bits != 0)
        return flxi_infer_fail(f, FLX_E_DTYPE, "use a wider dtype, e.g. dtype=i64", "%s cannot hold %lld positions",
                               flx_dtype_name((int32_t)dtype), (long long)extent);
    return FLX_OK;
}

/* ---- Softmax ---- */

typedef struct {
    int64_t axis;
    int64_t exclusive, reverse; /* running folds only */
} axis_attrs;

static const flxi_attr axis_schema[] = {A_INT(axis_attrs, axis, -1), A_END};

static flx_code infer_axis(flxi_infer *f)
{
    axis_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    return flxi_infer_same(f);
}

typedef struct {
    double max, sum; /* sum of exp(x - max) */
} row_stats;

/* Over base, base + inner, … A row of only -inf has the sum NaN (-inf - -inf), as the formula says. */
static row_stats stats_of_row(const flxi_arith *t, const void *x, int64_t base, flxi_split s)
{
    flxi_num max = t->lowest;
    for (int64_t k = 0; k < s.n; k++)
        max = t->max(max, t->load(x, base + k * s.inner));
    flxi_num sum = t->zero;
    for (int64_t k = 0; k < s.n; k++)
        sum = t->accumulate(sum, (flxi_num){.f = exp(t->load(x, base + k * s.inner).f - max.f)});
    return (row_stats){max.f, sum.f};
}

static double softmax_element(double x, row_stats r) { return exp(x - r.max) / r.sum; }
static double log_softmax_element(double x, row_stats r) { return x - r.max - log(r.sum); }

static flx_code eval_rows(flxi_eval *e, double (*element)(double x, row_stats r))
{
    const axis_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    flxi_split s = flxi_split_at(&x->type, a->axis);
    if (x->count == 0)
        return FLX_OK; /* the other dims may be too large to count rows */
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t i = 0; i < s.inner; i++) {
            int64_t base = o * s.n * s.inner + i;
            row_stats r = stats_of_row(t, x->data, base, s);
            for (int64_t k = 0; k < s.n; k++) {
                int64_t at = base + k * s.inner;
                t->store(e->out[0]->data, at, (flxi_num){.f = element(t->load(x->data, at).f, r)});
            }
        }
    return FLX_OK;
}

static flx_code eval_softmax(flxi_eval *e) { return eval_rows(e, softmax_element); }
static flx_code eval_log_softmax(flxi_eval *e) { return eval_rows(e, log_softmax_element); }

static const flxi_sample samples_softmax[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4]", "axis=1", NULL, FLX_OK},
    {"T[3, 4]{-80..80}", "axis=-2", NULL, FLX_OK},
    {"T[4, 1]", NULL, NULL, FLX_OK},
    {"T[3, 0]", NULL, NULL, FLX_OK},
    {"T[0, 3]", NULL, NULL, FLX_OK},
    {"T[N, 3]", "axis=0", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "axis=-3", NULL, FLX_E_ATTRIBUTE},
    {"i32[3, 4]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

#define SOFTMAX_RULES \
    .infer = infer_axis, .schema = axis_schema, .attrs_size = sizeof(axis_attrs), .samples = samples_softmax

const flxi_rules flxi_rules_softmax = {SOFTMAX_RULES, .eval = eval_softmax};
const flxi_rules flxi_rules_log_softmax = {SOFTMAX_RULES, .eval = eval_log_softmax};

/* ---- Running folds ---- */

static const flxi_attr running_schema[] = {
    A_INT(axis_attrs, axis, -1),
    A_BOOL(axis_attrs, exclusive, 0),
    A_BOOL(axis_attrs, reverse, 0),
    A_END,
};

typedef flxi_num (*step_fn)(flxi_num acc, flxi_num x);

/* y_k is the fold of what lies before k in walking order, with x_k itself unless exclusive. */
static flx_code eval_running(flxi_eval *e, const flxi_arith *t, step_fn step, flxi_num start)
{
    const axis_attrs *a = e->attrs;
    const void *x = e->in[0]->data;
    void *y = e->out[0]->data;
    flxi_split s = flxi_split_at(&e->in[0]->type, a->axis);
    if (e->in[0]->count == 0)
        return FLX_OK;
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t i = 0; i < s.inner; i++) {
            flxi_num acc = start;
            for (int64_t n = 0; n < s.n; n++) {
                int64_t k = a->reverse ? s.n - 1 - n : n;
                int64_t at = (o * s.n + k) * s.inner + i;
                flxi_num next = step(acc, t->load(x, at));
                t->store(y, at, a->exclusive ? acc : next);
                acc = next;
            }
        }
    return FLX_OK;
}

static flx_code eval_cumsum(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    return eval_running(e, t, t->accumulate, t->zero);
}

static flx_code eval_cumprod(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    return eval_running(e, t, t->mul, t->one);
}

static flx_code eval_cummax(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    return eval_running(e, t, t->max, t->lowest);
}

static flx_code eval_cummin(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    return eval_running(e, t, t->min, t->highest);
}

/* log(exp(a) + exp(b)). The larger one is taken out, so nothing overflows; where it is infinite it is the answer, and
   the difference, which could be inf - inf, is never formed. */
static flxi_num log_add_exp(flxi_num a, flxi_num b)
{
    if (isnan(a.f) || isnan(b.f))
        return (flxi_num){.f = a.f + b.f};
    double high = a.f > b.f ? a.f : b.f;
    double low = a.f > b.f ? b.f : a.f;
    return (flxi_num){.f = isinf(high) ? high : high + log1p(exp(low - high))};
}

static flx_code eval_cumlogsumexp(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    return eval_running(e, t, log_add_exp, t->lowest);
}

static const flxi_sample samples_running[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4]", "axis=1, exclusive=true", NULL, FLX_OK},
    {"T[2, 3, 4]", "axis=-3, reverse=true", NULL, FLX_OK},
    {"T[5]", "exclusive=true, reverse=true", NULL, FLX_OK},
    {"T[1, 3]", "axis=0, exclusive=true", NULL, FLX_OK},
    {"T[3, 0]", NULL, NULL, FLX_OK},
    {"T[0, 3]", "exclusive=true", NULL, FLX_OK},
    {"T[N, 3]", "axis=0", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {0},
};

#define RUNNING_RULES \
    .infer = infer_axis, .schema = running_schema, .attrs_size = sizeof(axis_attrs), .samples = samples_running

const flxi_rules flxi_rules_cumsum = {RUNNING_RULES, .eval = eval_cumsum};
const flxi_rules flxi_rules_cumprod = {RUNNING_RULES, .eval = eval_cumprod};
const flxi_rules flxi_rules_cummax = {RUNNING_RULES, .eval = eval_cummax};
const flxi_rules flxi_rules_cummin = {RUNNING_RULES, .eval = eval_cummin};
const flxi_rules flxi_rules_cumlogsumexp = {RUNNING_RULES, .eval = eval_cumlogsumexp};
