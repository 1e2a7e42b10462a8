/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c: reductions over a set of axes, and positions of extrema along one axis. The forms with a body are in
   fold.c.

   Every reduction folds its elements in row-major order. Sums of f16 and bf16 accumulate in f32, everything else in
   double or 64-bit integers, and is rounded once. An empty reduction gives the identity, for the mean 0/0. */
#include "base/complex_arith.h"
#include "base/host/stop.h"
#include "ops/express/express_combine.h"
#include "ops/reduce/axis.h"
#include "ops/reduce/reduction.h"
#include "ops/rule/axis/along.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

#include <complex.h>

/* ---- Axes ---- */

typedef struct {
    flx_ints axes; /* after inference: sorted, non-negative, never absent */
    int64_t keep_dims;
} reduce_attrs;

static const flxi_attr reduce_schema[] = {
    A_INTS(reduce_attrs, axes, "all"),
    A_BOOL(reduce_attrs, keep_dims, 0),
    A_END,
};

static flx_code infer_reduction(flxi_infer *f)
{
    reduce_attrs *a = f->attrs;
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, f->in[0]->rank, true));
    f->out[0] = flxi_reduced_type(f->in[0], &a->axes, a->keep_dims);
    return FLX_OK;
}

/* ---- Folds with an operator ---- */

typedef struct {
    flxi_num (*step)(flxi_num acc, flxi_num x);
    flxi_num start;
    flxi_num (*finish)(flxi_num acc, int64_t count); /* NULL: nothing to do */
} fold;

static flx_code eval_fold(flxi_eval *e, fold f)
{
    const reduce_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    flxi_reduction r = flxi_reduction_of(&x->type, &a->axes);
    int64_t at[FLX_MAX_RANK] = {0};
    for (int64_t o = 0; o < r.kept.count && !flxi_stopped_by_now(); o++) {
        int64_t k[FLX_MAX_RANK] = {0};
        flxi_num acc = f.start;
        for (int64_t i = 0; i < r.reduced.count && !flxi_stopped_by_now(); i++) {
            acc = f.step(acc, t->load(x->data, flxi_reduction_at(&r, at, k)));
            flxi_next(k, r.reduced.dims, r.reduced.rank);
        }
        t->store(e->out[0]->data, o, f.finish ? f.finish(acc, r.reduced.count) : acc);
        flxi_next(at, r.kept.dims, r.kept.rank);
    }
    return FLX_OK;
}

static flxi_num divide_f(flxi_num sum, int64_t count)
{
    return (flxi_num){.f = sum.f / (double)count};
}

static flxi_num divide_c(flxi_num sum, int64_t count)
{
    return (flxi_num){.c = sum.c / (double)count};
}

/* An empty sum is 0. Any other sum starts at -0, the neutral element of addition: starting at 0 would turn -0 into 0,
   and a sum of one term would not be that term. */
static flxi_num sum_f(flxi_num sum, int64_t count)
{
    return (flxi_num){.f = count ? sum.f : 0.0};
}

static flxi_num sum_c(flxi_num sum, int64_t count)
{
    return count ? sum : (flxi_num){.c = 0.0};
}

static flx_code eval_sum(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    if (flxi_is_float(t->dtype))
        return eval_fold(e, (fold){t->accumulate, {.f = -0.0}, sum_f});
    if (flxi_is_complex(t->dtype))
        return eval_fold(e, (fold){t->accumulate, {.c = flxi_cmake(-0.0, -0.0)}, sum_c});
    return eval_fold(e, (fold){t->accumulate, t->zero, NULL});
}

static flx_code eval_mean(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    return eval_fold(e, (fold){t->accumulate, t->zero, flxi_is_complex(t->dtype) ? divide_c : divide_f});
}

static flx_code eval_max(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    return eval_fold(e, (fold){t->max, t->lowest, NULL});
}

static flx_code eval_min(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    return eval_fold(e, (fold){t->min, t->highest, NULL});
}

/* Over no axes the product is the element itself, which 1 times a complex number with an infinite part is not. */
static flx_code eval_prod(flxi_eval *e)
{
    const reduce_attrs *a = e->attrs;
    if (a->axes.n == 0) {
        if (e->in[0]->nbytes)
            flxi_stop_copy(e->out[0]->data, e->in[0]->data, e->in[0]->nbytes);
        return FLX_OK;
    }
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
    return eval_fold(e, (fold){t->mul, t->one, NULL});
}

static const flxi_sample samples_reduction[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4]", "axes=[1]", NULL, FLX_OK},
    {"T[2, 3, 4]", "axes=[-1, 0], keep_dims=true", NULL, FLX_OK},
    {"T[2, 3, 4]", "axes=[1]", NULL, FLX_OK},
    {"T[2, 3]", "axes=[]", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_OK},
    {"T[0, 3]", "axes=[0]", NULL, FLX_OK},
    {"T[0, 3]", "axes=[1]", NULL, FLX_OK},
    {"T[0]", "keep_dims=true", NULL, FLX_OK},
    {"T[N, 3]", "axes=[0]", NULL, FLX_OK},
    {"T[N, 3]", "axes=[1], keep_dims=true", NULL, FLX_OK},
    {"T[3, 4]", "axes=[2]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "axes=[-3]", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "axes=[1, -1]", NULL, FLX_E_ATTRIBUTE},
    {"T[]", "axes=[0]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_mean[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2, 3, 4]", "axes=[-1, 0]", NULL, FLX_OK},
    {"T[2, 3]", "axes=[], keep_dims=true", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_OK},
    {"T[0, 3]", "axes=[0]", NULL, FLX_OK},
    {"T[N, 3]", "axes=[0], keep_dims=true", NULL, FLX_OK},
    {"T[3, 4]", "axes=[2]", NULL, FLX_E_ATTRIBUTE},
    {"i32[3, 4]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

/* ---- Rules ---- */

/* A value per result, broadcast over the reduced elements. */
static flx_val stretch(flxi_site *s, flx_val v)
{
    const reduce_attrs *a = s->attrs;
    return flxi_unreduce(s, v, a->axes, a->keep_dims, flxi_typeof(s, s->x[0]));
}

/* A value per element, summed as the op reduces. */
static flx_val sum_as_reduced(flxi_site *s, flx_val v)
{
    const reduce_attrs *a = s->attrs;
    return flxi_sum_axes(s, v, a->axes, a->keep_dims);
}

static void vjp_sum(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = stretch(s, dy[0]);
}

/* How many elements each result is reduced from. */
static flx_dim reduced_count(const flxi_site *s)
{
    const reduce_attrs *a = s->attrs;
    flx_dim dims[FLX_MAX_RANK];
    for (size_t i = 0; i < a->axes.n; i++)
        dims[i] = flxi_typeof(s, s->x[0])->dims[a->axes.v[i]];
    return flxi_extents_product(s->ctx, dims, (int)a->axes.n);
}

/* v / n. Few counts are exact in f16 and bf16, so these divide in f32. */
static flx_val divide_by_count(flxi_site *s, flx_val v, flx_val n)
{
    int32_t dtype = flxi_typeof(s, v)->dtype;
    int32_t wide = flxi_wide_dtype(dtype);
    flx_val count = flxi_as_dtype(s, n, flxi_part_dtype(wide));
    return flxi_as_dtype(s, flxi_by_parts(s, flxi_widen(s, v), count, flx_div), dtype);
}

static flx_val count_for_mean(flxi_site *s)
{
    int32_t dtype = flxi_part_dtype(flxi_wide_dtype(flxi_typeof(s, s->x[0])->dtype));
    return flxi_index_number(s, (flx_dtype)dtype, reduced_count(s));
}

static void vjp_mean(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = stretch(s, divide_by_count(s, dy[0], count_for_mean(s)));
}

/* The sum of a mean starts from +0, a sum from its first element: -0 becomes +0. */
static void decompose_mean(flxi_site *s, flx_val *y)
{
    flx_val sum = sum_as_reduced(s, flxi_widen(s, s->x[0]));
    flx_val mean = flxi_by_parts(s, flx_add(s->g, sum, flxi_number(s, sum, 0.0)), count_for_mean(s), flx_div);
    y[0] = flxi_as_dtype(s, mean, flxi_typeof(s, s->x[0])->dtype);
}

/* Which elements are the extremum: those equal to it, or the NaNs if there are any. */
static flx_val winners(flxi_site *s)
{
    flx_val is_best = flx_eq(s->g, s->x[0], stretch(s, s->y[0]));
    return flx_or(s->g, is_best, flx_is_nan(s->g, s->x[0]));
}

/* Divides v among the elements that equal the extremum. An empty reduction has none, and v is 0 or unused. */
static flx_val divide_among(flxi_site *s, flx_val winners_mask, flx_val v)
{
    flx_dim count = reduced_count(s);
    flx_dtype counter = flxi_dim_is_number(count) && count <= INT32_MAX ? FLX_I32 : FLX_I64;
    flx_val n = sum_as_reduced(s, flx_cast(s->g, winners_mask, counter));
    if (!flxi_dim_is_number(count) || count == 0)
        n = flx_max(s->g, n, flxi_number(s, n, 1.0));
    return divide_by_count(s, v, n);
}

static void vjp_extremum(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_val mask = winners(s);
    dx[0] = flxi_masked(s, mask, stretch(s, divide_among(s, mask, dy[0])));
}

static void jvp_extremum(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    flx_val mask = winners(s);
    ty[0] = divide_among(s, mask, sum_as_reduced(s, flxi_masked(s, mask, tx[0])));
}

/* For each element the product of the others it is multiplied with: of those before it and of those after it. Exact
   even if some of them are zero. */
static flx_val product_of_others(flxi_site *s)
{
    const reduce_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val x = s->x[0];
    if (a->axes.n == 0)
        return flxi_number(s, x, 1.0);
    flxi_flattening f = flxi_flatten_axes(s->ctx, flxi_typeof(s, x), a->axes);
    bool one_axis = a->axes.n == 1;
    int64_t axis = one_axis ? a->axes.v[0] : 0;
    flx_val row = one_axis ? x : flxi_flattened(s, &f, x);
    flx_val others = flx_mul(g, flx_cumprod(g, row, axis, true, false), flx_cumprod(g, row, axis, true, true));
    return one_axis ? others : flxi_unflattened(s, &f, others);
}

static void vjp_prod(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flx_mul(s->g, stretch(s, dy[0]), flxi_conj(s, product_of_others(s)));
}

static void jvp_prod(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = sum_as_reduced(s, flx_mul(s->g, product_of_others(s), tx[0]));
}

/* "Shift": the batch axis comes first, every other axis moves up by one. */
static void batch_reduction(flxi_site *s, flx_val *by)
{
    reduce_attrs *a = flxi_site_attrs(s);
    if (a)
        flxi_shift_axes(s, &a->axes);
    flxi_append(s, a, s->x, s->nin, by);
}

/* ---- Kernel expressions ---- */

static flx_ints axes_of(const void *attrs)
{
    return ((const reduce_attrs *)attrs)->axes;
}

/* An empty sum is 0 whatever it starts at, and -0 is the neutral element of addition. */
static flxi_kval start_sum(flxi_express *e)
{
    if (!flxi_in(FLXI_FLOATS | FLXI_COMPLEX, e->dtype))
        return flxi_kcombine_start(e, FLXI_COMBINE_ADD);
    uint32_t zero = flxi_kb_number(e->k, flxi_kernel_dtype(e->dtype), -0.0);
    return (flxi_kval){zero, flxi_is_complex(e->dtype) ? zero : 0};
}

static flxi_kval finish_sum(flxi_express *e, flxi_kval acc, int64_t count)
{
    return count ? acc : flxi_kzero(e, e->dtype);
}

static flxi_kval finish_mean(flxi_express *e, flxi_kval acc, int64_t count)
{
    uint32_t n = flxi_kc(e, acc.re, (double)count);
    return flxi_kparts(e, KBIN_div, acc, (flxi_kval){n, n});
}

#define FOLD(name, op)                                                        \
    static flxi_kval start_##name(flxi_express *e)                            \
    {                                                                         \
        return flxi_kcombine_start(e, op);                                    \
    }                                                                         \
    static flxi_kval step_##name(flxi_express *e, flxi_kval acc, flxi_kval x) \
    {                                                                         \
        return flxi_kcombine(e, op, acc, x);                                  \
    }

FOLD(add, FLXI_COMBINE_ADD)
FOLD(max, FLXI_COMBINE_MAX)
FOLD(min, FLXI_COMBINE_MIN)
FOLD(mul, FLXI_COMBINE_MUL)

static const flxi_kfold fold_sum = {.start = start_sum, .step = step_add, .finish = finish_sum, .axes = axes_of};
static const flxi_kfold fold_mean = {.start = start_add, .step = step_add, .finish = finish_mean, .axes = axes_of};
static const flxi_kfold fold_max = {.start = start_max, .step = step_max, .axes = axes_of, .is_exact = true};
static const flxi_kfold fold_min = {.start = start_min, .step = step_min, .axes = axes_of, .is_exact = true};
static const flxi_kfold fold_prod = {.start = start_mul, .step = step_mul, .axes = axes_of};

static bool link_reduction(const flxi_use *u, flxi_link *l)
{
    const reduce_attrs *a = u->n->attrs;
    int dropped = 0;
    for (size_t i = 0; !a->keep_dims && i < a->axes.n; i++)
        dropped += a->axes.v[i] < l->axis;
    return flxi_link_find(&a->axes, l->axis) < 0 && flxi_link_move(u, l, l->axis - dropped);
}

static int summed_by_reduction(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    (void)g, (void)operand;
    return flxi_link_find(&((const reduce_attrs *)n->attrs)->axes, axis) < 0 ? -1 : axis;
}

/* Parts have equal extents, so the mean of their means is the mean. */
static const struct flxi_shard shard_sum = {.combine = "sum", .summed = summed_by_reduction},
                               shard_mean = {.combine = "mean", .summed = summed_by_reduction},
                               shard_max = {.combine = "max", .summed = summed_by_reduction},
                               shard_min = {.combine = "min", .summed = summed_by_reduction},
                               shard_prod = {.combine = "prod", .summed = summed_by_reduction},
                               shard_any = {.combine = "max", .summed = summed_by_reduction},
                               shard_all = {.combine = "min", .summed = summed_by_reduction};

#define REDUCTION(op, op_fold, op_samples, ...)                                    \
    const flxi_rules flxi_rules_reduce_##op = {.infer = infer_reduction,           \
                                               .schema = reduce_schema,            \
                                               .attrs_size = sizeof(reduce_attrs), \
                                               .batch = batch_reduction,           \
                                               .link = link_reduction,             \
                                               .fold = &(op_fold),                 \
                                               .shard = &shard_##op,               \
                                               .samples = (op_samples),            \
                                               __VA_ARGS__}

REDUCTION(sum, fold_sum, samples_reduction, .eval = eval_sum, .vjp = vjp_sum);
REDUCTION(mean, fold_mean, samples_mean, .eval = eval_mean, .vjp = vjp_mean, .decompose = decompose_mean);
REDUCTION(max, fold_max, samples_reduction, .eval = eval_max, .vjp = vjp_extremum, .jvp = jvp_extremum);
REDUCTION(min, fold_min, samples_reduction, .eval = eval_min, .vjp = vjp_extremum, .jvp = jvp_extremum);
REDUCTION(prod, fold_prod, samples_reduction, .eval = eval_prod, .vjp = vjp_prod, .jvp = jvp_prod);
REDUCTION(any, fold_max, samples_reduction, .eval = eval_max);
REDUCTION(all, fold_min, samples_reduction, .eval = eval_min);

/* ---- Positions of extrema ---- */

typedef struct {
    int64_t axis, keep_dims, dtype;
} arg_attrs;

static const flxi_attr arg_schema[] = {
    A_INT(arg_attrs, axis, -1),
    A_BOOL(arg_attrs, keep_dims, 0),
    A_DTYPE(arg_attrs, dtype, FLX_I32),
    A_END,
};

static flx_code infer_arg(flxi_infer *f)
{
    arg_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    flxi_type_text text;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, x->rank));
    if (x->dims[a->axis] == 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, "an empty axis has no extremum; choose a non-empty one",
                               "axis %d of x %s is empty", (int)a->axis, flxi_shape_str(f->ctx, x, &text));
    FLXI_TRY(flxi_check_positions(f, a->dtype, x->dims[a->axis]));
    flx_ints axes = {&a->axis, 1};
    f->out[0] = flxi_reduced_type(x, &axes, a->keep_dims);
    f->out[0].dtype = (int32_t)a->dtype;
    return FLX_OK;
}

static bool greater(const flxi_arith *t, flxi_num a, flxi_num b)
{
    return t->less(b, a);
}
static bool smaller(const flxi_arith *t, flxi_num a, flxi_num b)
{
    return t->less(a, b);
}

/* The first position k of base + k*stride whose element is the extremum; the first NaN ends the search. */
static int64_t find_best(const flxi_arith *t, const flx_tensor *x, int64_t base, flxi_split s,
                         bool (*beats)(const flxi_arith *, flxi_num, flxi_num))
{
    int64_t best = 0;
    flxi_num top = t->load(x->data, base);
    for (int64_t k = 1; k < s.n && t->equal(top, top) && !flxi_stopped_by_now(); k++) {
        flxi_num v = t->load(x->data, base + k * s.inner);
        if (beats(t, v, top) || !t->equal(v, v)) {
            best = k;
            top = v;
        }
    }
    return best;
}

static flx_code eval_arg(flxi_eval *e, bool (*beats)(const flxi_arith *, flxi_num, flxi_num))
{
    const arg_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    flxi_split s = flxi_split_at(&x->type, a->axis);
    if (s.n == 0)
        return flxi_eval_fail(e, FLX_E_SHAPE, NULL, "axis %d is empty", (int)a->axis);
    for (int64_t o = 0; o < s.outer && !flxi_stopped_by_now(); o++)
        for (int64_t i = 0; i < s.inner && !flxi_stopped_by_now(); i++)
            flxi_store_int(e->out[0]->type.dtype, e->out[0]->data, o * s.inner + i,
                           find_best(t, x, o * s.n * s.inner + i, s, beats));
    return FLX_OK;
}

static flx_code eval_argmax(flxi_eval *e)
{
    return eval_arg(e, greater);
}
static flx_code eval_argmin(flxi_eval *e)
{
    return eval_arg(e, smaller);
}

static const flxi_sample samples_arg[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4]", "axis=0, keep_dims=true", NULL, FLX_OK},
    {"T[2, 3, 4]", "axis=-2, dtype=i64", NULL, FLX_OK},
    {"T[5]", "dtype=u8", NULL, FLX_OK},
    {"T[0, 3]", "axis=1", NULL, FLX_OK},
    {"T[N, 3]", "axis=1", NULL, FLX_OK},
    {"T[N, 3]", "axis=0", NULL, FLX_OK},
    {"T[0, 3]", "axis=0", NULL, FLX_E_SHAPE},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4]", "axis=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "dtype=f32", NULL, FLX_E_DTYPE},
    {"T[129]", "dtype=i8", NULL, FLX_E_DTYPE},
    {0},
};

static int arg_becomes(const flx_graph *g, const flxi_node *n, uint32_t operand, int axis)
{
    const arg_attrs *a = n->attrs;
    (void)g, (void)operand;
    return axis == a->axis ? -1 : axis - (!a->keep_dims && axis > a->axis);
}

static const struct flxi_shard shard_arg = {.becomes = arg_becomes};

static void batch_arg(flxi_site *s, flx_val *by)
{
    arg_attrs *a = flxi_site_attrs(s);
    if (a)
        a->axis++;
    flxi_append(s, a, s->x, s->nin, by);
}

/* ---- Kernel expressions of positions ----

   The accumulator is a value and its position. It starts with the value that nothing loses against and no position. An
   element takes over when it wins: equal ones come later, so they do not. If none ever wins, all elements equal the
   start, and the first position is 0. */

static flx_ints axis_of(const void *attrs)
{
    return (flx_ints){&((const arg_attrs *)attrs)->axis, 1};
}

/* x is strictly better than best, or is NaN where best is not. */
static uint32_t wins(flxi_express *e, bool largest, uint32_t x, uint32_t best)
{
    if (e->dtype == FLX_BOOL) {
        uint32_t high = largest ? x : best, low = largest ? best : x;
        return flxi_k2(e, KBIN_logical_and, high, flxi_k1(e, KUN_logical_not, low));
    }
    if (!flxi_is_float(e->dtype))
        return flxi_k2(e, largest ? KBIN_gt : KBIN_lt, x, best);
    uint32_t holds = flxi_k2(e, largest ? KBIN_ge : KBIN_le, best, x); /* false if either is NaN */
    uint32_t stays = flxi_k2(e, KBIN_logical_or, holds, flxi_k1(e, KUN_is_nan, best));
    return flxi_k1(e, KUN_logical_not, stays);
}

static flxi_kval take_if(flxi_express *e, uint32_t takes, flxi_kval x, flxi_kval acc)
{
    takes = flxi_khold(e, takes);
    return (flxi_kval){flxi_kb_select(e->k, takes, x.re, acc.re), flxi_kb_select(e->k, takes, x.im, acc.im)};
}

static flxi_kval start_arg(flxi_express *e, bool largest)
{
    flxi_kval value = flxi_kcombine_start(e, largest ? FLXI_COMBINE_MAX : FLXI_COMBINE_MIN);
    return (flxi_kval){value.re, flxi_kb_u32(e->k, UINT32_MAX)};
}

static flxi_kval step_arg(flxi_express *e, bool largest, flxi_kval acc, flxi_kval x)
{
    x.re = flxi_khold(e, x.re);
    return take_if(e, wins(e, largest, x.re, acc.re), x, acc);
}

/* Two lanes: among equal values the lower position wins. */
static flxi_kval join_arg(flxi_express *e, bool largest, flxi_kval a, flxi_kval b)
{
    a = flxi_khold_value(e, a);
    b = flxi_khold_value(e, b);
    uint32_t loses = wins(e, largest, a.re, b.re);
    uint32_t is_lower = flxi_k2(e, KBIN_lt, b.im, a.im);
    uint32_t on_tie = flxi_k2(e, KBIN_logical_and, is_lower, flxi_k1(e, KUN_logical_not, loses));
    return take_if(e, flxi_k2(e, KBIN_logical_or, wins(e, largest, b.re, a.re), on_tie), b, a);
}

static flxi_kval finish_arg(flxi_express *e, flxi_kval acc, int64_t count)
{
    (void)count;
    uint32_t none = flxi_k2(e, KBIN_eq, acc.im, flxi_kb_u32(e->k, UINT32_MAX));
    uint32_t position = flxi_kb_select(e->k, none, flxi_kb_u32(e->k, 0), acc.im);
    return flxi_kreal(flxi_kb_cast(e->k, (uint32_t)e->out[0]->dtype, position));
}

#define ARG_FOLD(name, largest, op)                                           \
    static flxi_kval start_##name(flxi_express *e)                            \
    {                                                                         \
        return start_arg(e, largest);                                         \
    }                                                                         \
    static flxi_kval step_##name(flxi_express *e, flxi_kval acc, flxi_kval x) \
    {                                                                         \
        return step_arg(e, largest, acc, x);                                  \
    }                                                                         \
    static flxi_kval join_##name(flxi_express *e, flxi_kval a, flxi_kval b)   \
    {                                                                         \
        return join_arg(e, largest, a, b);                                    \
    }                                                                         \
    static const flxi_kfold fold_##name = {.start = start_##name,             \
                                           .step = step_##name,               \
                                           .finish = finish_arg,              \
                                           .axes = axis_of,                   \
                                           .join = join_##name,               \
                                           .value_op = op};

ARG_FOLD(argmax, true, "reduce_max")
ARG_FOLD(argmin, false, "reduce_min")

#define ARG_RULES                                                                                  \
    .infer = infer_arg, .schema = arg_schema, .attrs_size = sizeof(arg_attrs), .batch = batch_arg, \
    .shard = &shard_arg, .samples = samples_arg

const flxi_rules flxi_rules_argmax = {ARG_RULES, .eval = eval_argmax, .fold = &fold_argmax};
const flxi_rules flxi_rules_argmin = {ARG_RULES, .eval = eval_argmin, .fold = &fold_argmin};
