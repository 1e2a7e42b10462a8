/* SPDX-License-Identifier: Apache-2.0 */
/* axis.c: ops along one axis that keep the shape: softmax and the running folds.

   Statistics are computed in double, except that sums over f16 and bf16 accumulate in f32; each element is rounded
   once, when it is stored. NaN propagates: a running extremum is NaN from the first NaN on. */
#include "ops/reduce/axis.h"

#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

#include <math.h>

/* ---- Shared with other families ---- */

flx_code flxi_check_positions(flxi_infer *f, int64_t dtype, flx_dim extent)
{
    if (!flxi_is_int((int32_t)dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, "use an integer dtype, e.g. dtype=i32", "positions cannot be %s",
                               flx_dtype_name((int32_t)dtype));
    int bits = flxi_int_bits((int32_t)dtype) - flxi_is_signed((int32_t)dtype);
    if (bits < 63 && flxi_dim_is_number(extent) && extent > 0 && (extent - 1) >> bits != 0)
        return flxi_infer_fail(f, FLX_E_DTYPE, "use a wider dtype, e.g. dtype=i64",
                               "%s cannot represent %lld positions", flx_dtype_name((int32_t)dtype), (long long)extent);
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
    for (int64_t k = 0; k < s.n && !flxi_stopped_by_now(); k++)
        max = t->max(max, t->load(x, base + k * s.inner));
    flxi_num sum = t->zero;
    for (int64_t k = 0; k < s.n && !flxi_stopped_by_now(); k++)
        sum = t->accumulate(sum, (flxi_num){.f = exp(t->load(x, base + k * s.inner).f - max.f)});
    return (row_stats){max.f, sum.f};
}

static double softmax_element(double x, row_stats r)
{
    return exp(x - r.max) / r.sum;
}
static double log_softmax_element(double x, row_stats r)
{
    return x - r.max - log(r.sum);
}

static flx_code eval_rows(flxi_eval *e, double (*element)(double x, row_stats r))
{
    const axis_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    flxi_split s = flxi_split_at(&x->type, a->axis);
    if (x->count == 0)
        return FLX_OK; /* the other dims may be too large to count rows */
    for (int64_t o = 0; o < s.outer && !flxi_stopped_by_now(); o++)
        for (int64_t i = 0; i < s.inner && !flxi_stopped_by_now(); i++) {
            int64_t base = o * s.n * s.inner + i;
            row_stats r = stats_of_row(t, x->data, base, s);
            for (int64_t k = 0; k < s.n && !flxi_stopped_by_now(); k++) {
                int64_t at = base + k * s.inner;
                t->store(e->out[0]->data, at, (flxi_num){.f = element(t->load(x->data, at).f, r)});
            }
        }
    return FLX_OK;
}

static flx_code eval_softmax(flxi_eval *e)
{
    return eval_rows(e, softmax_element);
}
static flx_code eval_log_softmax(flxi_eval *e)
{
    return eval_rows(e, log_softmax_element);
}

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

/* "Shift": the batch axis comes first. */
static void batch_axis(flxi_site *s, flx_val *by)
{
    axis_attrs *a = flxi_site_attrs(s);
    if (a)
        a->axis++;
    flxi_append(s, a, s->x, s->nin, by);
}

static flx_val sum_along(flxi_site *s, flx_val v)
{
    const axis_attrs *a = s->attrs;
    return flx_reduce_sum(s->g, v, FLX_INTS(a->axis), true);
}

/* y (v - Σ y v): the Jacobian is symmetric, so this serves both tangents and cotangents. */
static flx_val through_softmax(flxi_site *s, flx_val v)
{
    flx_val y = s->y[0];
    return flx_mul(s->g, y, flx_sub(s->g, v, sum_along(s, flx_mul(s->g, y, v))));
}

static void vjp_softmax(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = through_softmax(s, dy[0]);
}

static void jvp_softmax(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = through_softmax(s, tx[0]);
}

/* softmax(x), not exp(y): exp would amplify the rounding of a narrow y. */
static flx_val probabilities(flxi_site *s)
{
    const axis_attrs *a = s->attrs;
    return flx_softmax(s->g, s->x[0], a->axis);
}

static void vjp_log_softmax(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flx_sub(s->g, dy[0], flx_mul(s->g, probabilities(s), sum_along(s, dy[0])));
}

static void jvp_log_softmax(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = flx_sub(s->g, tx[0], sum_along(s, flx_mul(s->g, probabilities(s), tx[0])));
}

/* x - max, in f32 where the elements are narrower. The maximum only keeps exp in range: its derivative cancels, so it
   is omitted. */
static flx_val below_max(flxi_site *s)
{
    const axis_attrs *a = s->attrs;
    flx_val x = flxi_widen(s, s->x[0]);
    flx_val max = flx_stop_gradient(s->g, flx_reduce_max(s->g, x, FLX_INTS(a->axis), true));
    return flx_sub(s->g, x, max);
}

static void decompose_softmax(flxi_site *s, flx_val *y)
{
    flx_val e = flx_exp(s->g, below_max(s));
    y[0] = flxi_as_dtype(s, flx_div(s->g, e, sum_along(s, e)), flxi_typeof(s, s->x[0])->dtype);
}

static void decompose_log_softmax(flxi_site *s, flx_val *y)
{
    flx_graph *g = s->g;
    flx_val z = below_max(s);
    flx_val log_softmax = flx_sub(g, z, flx_log(g, sum_along(s, flx_exp(g, z))));
    y[0] = flxi_as_dtype(s, log_softmax, flxi_typeof(s, s->x[0])->dtype);
}

static bool link_axis(const flxi_use *u, flxi_link *l)
{
    return flxi_link_except(u, l, ((const axis_attrs *)u->n->attrs)->axis);
}

#define SOFTMAX_RULES                                                                                         \
    .infer = infer_axis, .schema = axis_schema, .attrs_size = sizeof(axis_attrs), .samples = samples_softmax, \
    .batch = batch_axis, .link = link_axis, .shard = &flxi_shard_linked

const flxi_rules flxi_rules_softmax = {SOFTMAX_RULES, .eval = eval_softmax, .vjp = vjp_softmax, .jvp = jvp_softmax,
                                       .decompose = decompose_softmax};
const flxi_rules flxi_rules_log_softmax = {SOFTMAX_RULES, .eval = eval_log_softmax, .vjp = vjp_log_softmax,
                                           .jvp = jvp_log_softmax, .decompose = decompose_log_softmax};

/* ---- Running folds ---- */

static const flxi_attr running_schema[] = {
    A_INT(axis_attrs, axis, -1),
    A_BOOL(axis_attrs, exclusive, 0),
    A_BOOL(axis_attrs, reverse, 0),
    A_END,
};

typedef flxi_num (*step_fn)(flxi_num acc, flxi_num x);

/* y_k is the fold of the elements before k in walking order, including x_k unless exclusive. */
static flx_code eval_running(flxi_eval *e, const flxi_arith *t, step_fn step, flxi_num start)
{
    const axis_attrs *a = e->attrs;
    const void *x = e->in[0]->data;
    void *y = e->out[0]->data;
    flxi_split s = flxi_split_at(&e->in[0]->type, a->axis);
    if (e->in[0]->count == 0)
        return FLX_OK;
    for (int64_t o = 0; o < s.outer && !flxi_stopped_by_now(); o++)
        for (int64_t i = 0; i < s.inner && !flxi_stopped_by_now(); i++) {
            flxi_num acc = start;
            for (int64_t n = 0; n < s.n && ((n & 63) || !flxi_stopped()); n++) { /* each may touch a new page */
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

/* log(exp(a) + exp(b)). The larger one is factored out, so nothing overflows; where it is infinite it is the result,
   and the difference, which could be inf - inf, is never formed. */
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
    {"T[2, N, 2]", "axis=1, exclusive=true, reverse=true", NULL, FLX_OK},
    {"T[9]", NULL, NULL, FLX_OK},
    {"T[2, 6]", "reverse=true", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {0},
};

/* ---- Derivatives of running folds ---- */

static void vjp_cumsum(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    axis_attrs *a = flxi_site_attrs(s);
    if (a)
        a->reverse = !a->reverse;
    dx[0] = flxi_emit1(s, a, dy, 1);
}

/* The transpose of a reverse cumsum is cumsum itself, not a backward op. */
static void backward_vjp_cumsum(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const axis_attrs *a = s->attrs;
    if (a->reverse)
        vjp_cumsum(s, dy, dx);
    else
        dx[0] = flx_cumsum_backward(s->g, dy[0], a->axis, (int)a->exclusive);
}

/* The node's fold of x, exclusive or not: its own result where that is the one needed. */
static flx_val fold_of_x(flxi_site *s, bool exclusive)
{
    const axis_attrs *own = s->attrs;
    if (own->exclusive == exclusive)
        return s->y[0];
    axis_attrs *a = flxi_site_attrs(s);
    if (a)
        a->exclusive = exclusive;
    return flxi_emit1(s, a, s->x, 1);
}

/* An exclusive fold is the inclusive one shifted by one position, with a constant shifted in. So the rules below are
   those of inclusive folds, with cotangents shifted back before and tangents shifted forward after. */
static flx_val cotangent_of_inclusive(flxi_site *s, flx_val dy)
{
    const axis_attrs *a = s->attrs;
    return a->exclusive ? flxi_move_along(s, dy, a->axis, a->reverse ? 1 : -1) : dy;
}

static flx_val tangent_from_inclusive(flxi_site *s, flx_val ty)
{
    const axis_attrs *a = s->attrs;
    return a->exclusive ? flxi_move_along(s, ty, a->axis, a->reverse ? -1 : 1) : ty;
}

/* The tangent of a running product or sum of exponentials obeys a recurrence in walking order:
   ty[k] = weight[k] tx[k] + link · ty[the one before k]. */
typedef struct {
    flx_val weight, link;
} recurrence;

static flx_val jvp_by_recurrence(flxi_site *s, recurrence r, flx_val tx)
{
    const axis_attrs *a = s->attrs;
    flx_val b = flx_mul(s->g, r.weight, tx);
    return tangent_from_inclusive(s, flxi_recurrence(s, b, r.link, a->axis, a->reverse));
}

static flx_val vjp_by_recurrence(flxi_site *s, recurrence r, flx_val dy)
{
    const axis_attrs *a = s->attrs;
    flx_val g = cotangent_of_inclusive(s, dy);
    flx_val later = flxi_recurrence(s, g, flxi_conj(s, r.link), a->axis, !a->reverse);
    return flx_mul(s->g, flxi_conj(s, r.weight), later);
}

/* y[k] = y[k-1] x[k]: the weight of tx[k] is y[k-1], the link x[k]. No division: exact where factors are zero. */
static recurrence recurrence_of_cumprod(flxi_site *s)
{
    const axis_attrs *a = s->attrs;
    return (recurrence){fold_of_x(s, true), flxi_neighbours(s, s->x[0], a->axis, !a->reverse)};
}

static void vjp_cumprod(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = vjp_by_recurrence(s, recurrence_of_cumprod(s), dy[0]);
}

static void jvp_cumprod(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = jvp_by_recurrence(s, recurrence_of_cumprod(s), tx[0]);
}

/* exp(a - b) for a <= b; 1 where both are the same infinity. */
static flx_val share(flxi_site *s, flx_val a, flx_val b)
{
    flx_graph *g = s->g;
    flx_val same = flx_and(g, flx_eq(g, a, b), flx_is_inf(g, b));
    return flx_exp(g, flx_where(g, same, flxi_number(s, a, 0.0), flx_sub(g, a, b)));
}

/* exp(y[k]) = exp(y[k-1]) + exp(x[k]): weight and link are the shares of the two terms, each at most 1. */
static recurrence recurrence_of_cumlogsumexp(flxi_site *s)
{
    const axis_attrs *a = s->attrs;
    flx_val y = fold_of_x(s, false);
    flx_val before = flxi_neighbours(s, y, a->axis, a->reverse);
    flx_val behind = flxi_neighbours(s, y, a->axis, !a->reverse);
    return (recurrence){share(s, s->x[0], y), share(s, before, behind)};
}

static void vjp_cumlogsumexp(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = vjp_by_recurrence(s, recurrence_of_cumlogsumexp(s), dy[0]);
}

static void jvp_cumlogsumexp(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = jvp_by_recurrence(s, recurrence_of_cumlogsumexp(s), tx[0]);
}

/* For each position, where the extremum so far occurred first: the last position, in walking order, at which the fold
   changed; the first position if it never did. The first NaN is the last change. */
static flx_val winner_so_far(flxi_site *s)
{
    const axis_attrs *a = s->attrs;
    flx_graph *g = s->g;
    const flx_type *x = flxi_typeof(s, s->x[0]);
    flx_val before = fold_of_x(s, true);
    flx_val changed = flx_and(g, flx_ne(g, fold_of_x(s, false), before), flx_not(g, flx_is_nan(g, before)));
    flx_val position = flxi_positions_along(s, x, a->axis);
    if (!a->reverse)
        return flx_cummax(g, flxi_masked(s, changed, position), a->axis, false, false);
    flx_val n = flxi_index_number(s, (flx_dtype)flxi_typeof(s, position)->dtype, x->dims[a->axis]);
    flx_val last = flx_sub(g, n, flxi_number(s, n, 1.0));
    return flx_cummin(g, flx_where(g, changed, position, last), a->axis, false, true);
}

static void vjp_extremum(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const axis_attrs *a = s->attrs;
    flx_val g = cotangent_of_inclusive(s, dy[0]);
    dx[0] = flxi_scatter_along(s, g, winner_so_far(s), a->axis, flxi_typeof(s, s->x[0]), false);
}

static void jvp_extremum(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const axis_attrs *a = s->attrs;
    ty[0] = tangent_from_inclusive(s, flx_take_along(s->g, tx[0], winner_so_far(s), a->axis, NULL));
}

#define RUNNING_RULES                                                                                            \
    .infer = infer_axis, .schema = running_schema, .attrs_size = sizeof(axis_attrs), .samples = samples_running, \
    .batch = batch_axis, .link = link_axis, .shard = &flxi_shard_linked

const flxi_rules flxi_rules_cumsum = {RUNNING_RULES, .eval = eval_cumsum, .vjp = vjp_cumsum,
                                      .backward_vjp = backward_vjp_cumsum};
const flxi_rules flxi_rules_cumprod = {RUNNING_RULES, .eval = eval_cumprod, .vjp = vjp_cumprod, .jvp = jvp_cumprod};
const flxi_rules flxi_rules_cummax = {RUNNING_RULES, .eval = eval_cummax, .vjp = vjp_extremum, .jvp = jvp_extremum};
const flxi_rules flxi_rules_cummin = {RUNNING_RULES, .eval = eval_cummin, .vjp = vjp_extremum, .jvp = jvp_extremum};
const flxi_rules flxi_rules_cumlogsumexp = {RUNNING_RULES, .eval = eval_cumlogsumexp, .vjp = vjp_cumlogsumexp,
                                            .jvp = jvp_cumlogsumexp};
