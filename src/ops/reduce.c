/* reduce.c: reductions over a set of axes, positions of extrema along one axis, and the two forms with a body:
   `reduce`, an arbitrary fold, and `map`.

   Every reduction folds its elements in row-major order. Sums of f16 and bf16 accumulate in f32, everything else in
   double or 64-bit integers, and is rounded once. Nothing reduced gives the identity, for the mean 0/0. */
#include "ops/axis.h"
#include "ops/axis_lists.h"
#include "ops/along.h"
#include "ops/copy.h"
#include "ops/fold_body.h"

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

static flx_type reduced_type(const flx_type *x, const flx_ints *axes, bool keep_dims)
{
    flx_type y = {.dtype = x->dtype};
    for (int k = 0; k < x->rank; k++) {
        bool reduced = flxi_has_axis(*axes, k);
        if (!reduced || keep_dims)
            y.dims[y.rank++] = reduced ? 1 : x->dims[k];
    }
    return y;
}

static flx_code infer_reduction(flxi_infer *f)
{
    reduce_attrs *a = f->attrs;
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, f->in[0]->rank, true));
    f->out[0] = reduced_type(f->in[0], &a->axes, a->keep_dims);
    return FLX_OK;
}

/* ---- Walking: kept axes outside, reduced axes inside ---- */

typedef struct {
    int rank;
    int64_t count; /* elements, 1 for rank 0 */
    flx_dim dims[FLX_MAX_RANK];
    int64_t strides[FLX_MAX_RANK]; /* in x */
} axis_group;

typedef struct {
    axis_group kept, reduced;
} reduction;

/* A product that does not fit belongs to an empty tensor whose other group holds the 0: then it is never counted to. */
static int64_t count_of(const axis_group *g)
{
    int64_t count = 1;
    bool fits = true;
    for (int k = 0; k < g->rank; k++) {
        if (g->dims[k] == 0)
            return 0;
        fits = fits && !__builtin_mul_overflow(count, g->dims[k], &count);
    }
    return fits ? count : INT64_MAX;
}

static reduction reduction_of(const flx_type *x, const flx_ints *axes)
{
    reduction r = {0};
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(x, strides);
    for (int k = 0; k < x->rank; k++) {
        axis_group *g = flxi_has_axis(*axes, k) ? &r.reduced : &r.kept;
        g->dims[g->rank] = x->dims[k];
        g->strides[g->rank++] = strides[k];
    }
    r.kept.count = count_of(&r.kept);
    r.reduced.count = count_of(&r.reduced);
    return r;
}

/* Position of an element in x: `at` is the place among the kept axes, `k` that among the reduced ones. */
static int64_t element_of(const reduction *r, const int64_t *at, const int64_t *k)
{
    return flxi_offset(at, r->kept.strides, r->kept.rank) + flxi_offset(k, r->reduced.strides, r->reduced.rank);
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
    reduction r = reduction_of(&x->type, &a->axes);
    int64_t at[FLX_MAX_RANK] = {0};
    for (int64_t o = 0; o < r.kept.count; o++) {
        int64_t k[FLX_MAX_RANK] = {0};
        flxi_num acc = f.start;
        for (int64_t i = 0; i < r.reduced.count; i++) {
            acc = f.step(acc, t->load(x->data, element_of(&r, at, k)));
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

static flx_code eval_sum(flxi_eval *e)
{
    const flxi_arith *t = flxi_arith_of(e->in[0]->type.dtype);
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

static flx_code eval_prod(flxi_eval *e)
{
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

/* A value per result, stretched back over what was reduced. */
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

/* Product of extents, 0 where one of them is. One that overflows counts part of an empty tensor, which is divided by nothing
   and reshaped to anything: then 1 will do. */
static flx_dim product_of(flx_context *ctx, const flx_dim *dims, int n)
{
    flx_dim product = 1;
    for (int k = 0; k < n; k++)
        if (dims[k] == 0)
            return 0;
    for (int k = 0; k < n; k++)
        product = flx_dim_mul(ctx, product, dims[k]);
    return product == FLX_DIM_INVALID ? 1 : product;
}

/* How many elements each result is reduced from. */
static flx_dim reduced_count(const flxi_site *s)
{
    const reduce_attrs *a = s->attrs;
    flx_dim dims[FLX_MAX_RANK];
    for (size_t i = 0; i < a->axes.n; i++)
        dims[i] = flxi_typeof(s, s->x[0])->dims[a->axes.v[i]];
    return product_of(s->ctx, dims, (int)a->axes.n);
}

/* v / n. Few counts are numbers of f16 and bf16, so these divide in f32. */
static flx_val divide_by_count(flxi_site *s, flx_val v, flx_val n)
{
    int32_t dtype = flxi_typeof(s, v)->dtype;
    int32_t wide = flxi_wide_dtype(dtype);
    return flxi_as_dtype(s, flx_div(s->g, flxi_widen(s, v), flxi_as_dtype(s, n, wide)), dtype);
}

static flx_val count_for_mean(flxi_site *s)
{
    int32_t dtype = flxi_wide_dtype(flxi_typeof(s, s->x[0])->dtype);
    return flxi_index_number(s, (flx_dtype)dtype, reduced_count(s));
}

static void vjp_mean(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = stretch(s, divide_by_count(s, dy[0], count_for_mean(s)));
}

static void decompose_mean(flxi_site *s, flx_val *y)
{
    flx_val mean = flx_div(s->g, sum_as_reduced(s, flxi_widen(s, s->x[0])), count_for_mean(s));
    y[0] = flxi_as_dtype(s, mean, flxi_typeof(s, s->x[0])->dtype);
}

/* Which elements are the extremum: those equal to it, or the NaNs if there are any. */
static flx_val winners(flxi_site *s)
{
    flx_val is_best = flx_eq(s->g, s->x[0], stretch(s, s->y[0]));
    return flx_or(s->g, is_best, flx_is_nan(s->g, s->x[0]));
}

/* Divides what the winners share by their number. Where nothing is reduced there are none, and v is 0 or unused. */
static flx_val divide_among(flxi_site *s, flx_val winners_mask, flx_val v)
{
    flx_dim count = reduced_count(s);
    flx_val n = sum_as_reduced(s, flx_cast(s->g, winners_mask, FLX_I64));
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

/* ---- Reduced axes as one leading axis ---- */

typedef struct {
    int rank, kept;             /* axes in all; axes not reduced */
    int64_t perm[FLX_MAX_RANK]; /* reduced axes first */
    int64_t inverse[FLX_MAX_RANK];
    flx_dim permuted[FLX_MAX_RANK];
    flx_dim dims[FLX_MAX_RANK + 1]; /* the count of reduced elements, then the kept extents */
} flattening;

static flattening flatten_axes(flx_context *ctx, const flx_type *x, flx_ints axes)
{
    flattening f = {.rank = x->rank, .kept = x->rank - (int)axes.n};
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < x->rank; k++)
            if (flxi_has_axis(axes, k) == (pass == 0)) {
                f.inverse[k] = n;
                f.permuted[n] = x->dims[k];
                f.perm[n++] = k;
            }
    f.dims[0] = product_of(ctx, f.permuted, (int)axes.n);
    for (int k = 0; k < f.kept; k++)
        f.dims[k + 1] = f.permuted[(int)axes.n + k];
    return f;
}

static flx_val flattened(flxi_site *s, const flattening *f, flx_val v)
{
    v = flx_transpose(s->g, v, (flx_ints){f->perm, (size_t)f->rank});
    return flxi_reshape_to(s, v, f->kept + 1, f->dims);
}

static flx_val unflattened(flxi_site *s, const flattening *f, flx_val v)
{
    v = flxi_reshape_to(s, v, f->rank, f->permuted);
    return flx_transpose(s->g, v, (flx_ints){f->inverse, (size_t)f->rank});
}

/* For each element the product of the others it is multiplied with: of those before it and of those behind it. Exact
   whichever of them are zero. */
static flx_val product_of_others(flxi_site *s)
{
    const reduce_attrs *a = s->attrs;
    flx_graph *g = s->g;
    flx_val x = s->x[0];
    if (a->axes.n == 0)
        return flxi_number(s, x, 1.0);
    flattening f = flatten_axes(s->ctx, flxi_typeof(s, x), a->axes);
    bool one_axis = a->axes.n == 1;
    int64_t axis = one_axis ? a->axes.v[0] : 0;
    flx_val row = one_axis ? x : flattened(s, &f, x);
    flx_val others = flx_mul(g, flx_cumprod(g, row, axis, true, false), flx_cumprod(g, row, axis, true, true));
    return one_axis ? others : unflattened(s, &f, others);
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
    flxi_emit(s, a, s->x, s->nin, by);
}

#define REDUCTION_RULES \
    .infer = infer_reduction, .schema = reduce_schema, .attrs_size = sizeof(reduce_attrs), .batch = batch_reduction

const flxi_rules flxi_rules_reduce_sum = {REDUCTION_RULES, .eval = eval_sum, .vjp = vjp_sum,
                                          .samples = samples_reduction};
const flxi_rules flxi_rules_reduce_mean = {REDUCTION_RULES, .eval = eval_mean, .vjp = vjp_mean,
                                           .decompose = decompose_mean, .samples = samples_mean};
const flxi_rules flxi_rules_reduce_max = {REDUCTION_RULES, .eval = eval_max, .vjp = vjp_extremum, .jvp = jvp_extremum,
                                          .samples = samples_reduction};
const flxi_rules flxi_rules_reduce_min = {REDUCTION_RULES, .eval = eval_min, .vjp = vjp_extremum, .jvp = jvp_extremum,
                                          .samples = samples_reduction};
const flxi_rules flxi_rules_reduce_prod = {REDUCTION_RULES, .eval = eval_prod, .vjp = vjp_prod, .jvp = jvp_prod,
                                           .samples = samples_reduction};
const flxi_rules flxi_rules_reduce_any = {REDUCTION_RULES, .eval = eval_max, .samples = samples_reduction};
const flxi_rules flxi_rules_reduce_all = {REDUCTION_RULES, .eval = eval_min, .samples = samples_reduction};

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
        return flxi_infer_fail(f, FLX_E_SHAPE, "an empty axis has no extremum; reduce over a non-empty one",
                               "axis %d of x %s is empty", (int)a->axis, flxi_shape_str(f->ctx, x, &text));
    FLXI_TRY(flxi_check_positions(f, a->dtype, x->dims[a->axis]));
    flx_ints axes = {&a->axis, 1};
    f->out[0] = reduced_type(x, &axes, a->keep_dims);
    f->out[0].dtype = (int32_t)a->dtype;
    return FLX_OK;
}

static bool greater(const flxi_arith *t, flxi_num a, flxi_num b) { return t->less(b, a); }
static bool smaller(const flxi_arith *t, flxi_num a, flxi_num b) { return t->less(a, b); }

/* The first position k of base + k*stride that no other beats; the first NaN ends the search. */
static int64_t find_best(const flxi_arith *t, const flx_tensor *x, int64_t base, flxi_split s,
                         bool (*beats)(const flxi_arith *, flxi_num, flxi_num))
{
    int64_t best = 0;
    flxi_num top = t->load(x->data, base);
    for (int64_t k = 1; k < s.n && t->equal(top, top); k++) {
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
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t i = 0; i < s.inner; i++)
            flxi_store_int(e->out[0]->type.dtype, e->out[0]->data, o * s.inner + i,
                           find_best(t, x, o * s.n * s.inner + i, s, beats));
    return FLX_OK;
}

static flx_code eval_argmax(flxi_eval *e) { return eval_arg(e, greater); }
static flx_code eval_argmin(flxi_eval *e) { return eval_arg(e, smaller); }

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

static void batch_arg(flxi_site *s, flx_val *by)
{
    arg_attrs *a = flxi_site_attrs(s);
    if (a)
        a->axis++;
    flxi_emit(s, a, s->x, s->nin, by);
}

#define ARG_RULES                                                                                          \
    .infer = infer_arg, .schema = arg_schema, .attrs_size = sizeof(arg_attrs), .batch = batch_arg,         \
    .samples = samples_arg

const flxi_rules flxi_rules_argmax = {ARG_RULES, .eval = eval_argmax};
const flxi_rules flxi_rules_argmin = {ARG_RULES, .eval = eval_argmin};

/* ---- reduce: a fold whose step is a graph ---- */

typedef struct {
    const flx_graph *body;
    flx_ints axes;
} fold_attrs;

static const flxi_attr fold_schema[] = {
    A_GRAPH_AS(fold_attrs, body, "body"),
    A_INTS(fold_attrs, axes, "all"),
    A_END,
};

static flx_code infer_reduce(flxi_infer *f)
{
    fold_attrs *a = f->attrs;
    uint32_t n;
    flx_type x;
    FLXI_TRY(flxi_need_inits(f, &n));
    FLXI_TRY(flxi_equal_shapes(f, n, &x));
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, x.rank, true));
    FLXI_TRY(flxi_match_fold_body(f, "body", a->body));
    FLXI_TRY(flxi_results(f, n));
    for (uint32_t i = 0; i < n; i++) {
        f->out[i] = reduced_type(&x, &a->axes, false);
        f->out[i].dtype = f->in[n + i]->dtype;
    }
    return FLX_OK;
}

static flx_code fold_one(flxi_scalar_body *b, const reduction *r, const int64_t *at)
{
    int64_t k[FLX_MAX_RANK] = {0};
    flxi_fold_start(b);
    for (int64_t i = 0; i < r->reduced.count; i++) {
        FLXI_TRY(flxi_fold_step(b, element_of(r, at, k)));
        flxi_next(k, r->reduced.dims, r->reduced.rank);
    }
    return FLX_OK;
}

static flx_code eval_reduce(flxi_eval *e)
{
    const fold_attrs *a = e->attrs;
    reduction r = reduction_of(&e->in[0]->type, &a->axes);
    int64_t at[FLX_MAX_RANK] = {0};
    flxi_scalar_body b;
    flx_code code = flxi_fold_begin(&b, e, a->body);
    for (int64_t o = 0; code == FLX_OK && o < r.kept.count; o++) {
        code = fold_one(&b, &r, at);
        flxi_fold_store(&b, o);
        flxi_next(at, r.kept.dims, r.kept.rank);
    }
    flxi_scalar_body_end(&b);
    return code;
}

#define GRAPH_SUM "graph f(a: T[], x: T[]) { return add(a, x) }"
#define GRAPH_HORNER "graph f(a: T[], x: T[]) { return add(mul(a, x), mul(x, x)) }"
#define GRAPH_PAIR \
    "graph f(a: T[], n: i32[], x: T[], k: i32[]) { return mul(a, x), add(n, k) }"

static const flxi_sample samples_reduce[] = {
    {"T[3, 4], T[]", "body=@f", GRAPH_SUM, FLX_OK},
    {"T[3, 4], T[]", "body=@f, axes=[-1]", GRAPH_SUM, FLX_OK},
    {"T[2, 3], i32[2, 3], T[], i32[]", "body=@f, axes=[0]", GRAPH_PAIR, FLX_OK},
    {"T[], T[]", "body=@f", GRAPH_SUM, FLX_OK},
    {"T[2, 2], T[]", "body=@f, axes=[]", GRAPH_SUM, FLX_OK},
    {"T[0, 3], T[]", "body=@f, axes=[0]", GRAPH_SUM, FLX_OK},
    {"T[N, 3], T[]", "body=@f, axes=[0]", GRAPH_SUM, FLX_OK},
    {"T[2, 3], T[]", "body=@f, axes=[1]", GRAPH_HORNER, FLX_OK},
    {"T[2, 3, 2], T[]", "body=@f, axes=[0, 2]", GRAPH_HORNER, FLX_OK},
    {"T[4], T[]", "body=@f", GRAPH_HORNER, FLX_OK},
    {"T[2, N, 3], T[]", "body=@f, axes=[1]", GRAPH_HORNER, FLX_OK},
    {"T[3, 4]", "body=@f", GRAPH_SUM, FLX_E_ARITY},
    {"T[3, 4], T[4]", "body=@f", GRAPH_SUM, FLX_E_SHAPE},
    {"T[2, 3], i32[3, 3], T[], i32[]", "body=@f", GRAPH_PAIR, FLX_E_SHAPE},
    {"T[3, 4], T[]", "body=@f, axes=[2]", GRAPH_SUM, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[]", "body=@f", "graph f(a: T[], x: T[]) { return a, x }", FLX_E_ARITY},
    {"T[3, 4], T[]", "body=@f", "graph f(a: T[], x: T[]) { return reshape(a, shape=[1]) }", FLX_E_SHAPE},
    {0},
};

/* Room for n values; NULL with the error in s->g. */
static flx_val *new_values(flxi_site *s, uint32_t n)
{
    flx_val *v = flxi_new(&s->g->arena, flx_val, n);
    if (!v)
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
    return v;
}

/* The shape that operands of equal shape have: numbers where any of them shows one for a symbol. */
static flx_type common_shape(flxi_site *s, const flx_val *x, uint32_t n)
{
    flx_type shape = *flxi_typeof(s, x[0]);
    for (uint32_t i = 1; i < n; i++)
        for (int k = 0; k < shape.rank; k++)
            shape.dims[k] = flxi_agreed_dim(shape.dims[k], flxi_typeof(s, x[i])->dims[k]);
    return shape;
}

/* The scalar body on all elements of an axis of extent n; NULL with the error in s->g. */
static flx_graph *body_along(flxi_site *s, const flx_graph *body, uint32_t nin, uint32_t nout, flx_dim n)
{
    flxi_site inner = *s;
    bool *all = flxi_new(&s->g->arena, bool, nin + nout);
    if (!all) {
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
        return NULL;
    }
    memset(all, true, (size_t)nin + nout);
    inner.size = n;
    return s->bodies->vmap(&inner, body, all, all + nin, true);
}

/* The op of a body that is one named combination of an accumulator and an element; NULL for other bodies. */
static const flxi_op *combination(const flx_graph *body)
{
    const flxi_op *op = NULL;
    uint32_t result = 0;
    if (body->leaves.n != 2 || body->outputs.n != 1)
        return NULL;
    for (uint32_t i = 0; i < body->node_count; i++) {
        const flxi_node *n = flxi_node_at(body, i);
        if (flxi_ops[n->op].traits & TRAIT_DECLARED)
            continue;
        if (op || n->nin != 2 || n->in[0] == n->in[1])
            return NULL;
        op = &flxi_ops[n->op];
        result = n->first;
    }
    return op && body->outputs.at[0].val == result ? op : NULL;
}

/* The reduction that folds with an op; OP_NONE when there is none. */
static flxi_opcode reduction_by(const flxi_op *op)
{
    static const struct {
        flxi_opcode combine, reduction;
    } rows[] = {
        {OP_add, OP_reduce_sum}, {OP_mul, OP_reduce_prod}, {OP_max, OP_reduce_max},
        {OP_min, OP_reduce_min}, {OP_and, OP_reduce_all},  {OP_or, OP_reduce_any},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (op == &flxi_ops[rows[i].combine])
            return rows[i].reduction;
    return OP_NONE;
}

/* An initial value, which has the batch axis or no axis, for each of the kept elements: [their count]. */
static flx_val init_row(flxi_site *s, flx_val init, const flattening *f, flx_dim count)
{
    flx_dim dims[FLX_MAX_RANK];
    const flx_type *t = flxi_typeof(s, init);
    for (int k = 0; k < f->kept; k++)
        dims[k] = k == 0 && t->rank == 1 ? t->dims[0] : 1;
    if (t->rank == 1)
        init = flxi_expand_to(s, flxi_reshape_to(s, init, f->kept, dims), f->kept, f->dims + 1);
    return t->rank == 1 ? flxi_reshape_to(s, init, 1, &count) : flxi_expand_to(s, init, 1, &count);
}

/* A scan over the reduced elements in row-major order; its step is the body on all kept elements at once. */
static void fold_by_scan(flxi_site *s, const flx_val *x, const flx_val *init, flx_ints axes, flx_val *y)
{
    const fold_attrs *own = s->attrs;
    uint32_t n = s->nin / 2;
    flx_type shape = common_shape(s, x, n);
    flattening f = flatten_axes(s->ctx, &shape, axes);
    flx_dim rows[2] = {f.dims[0], product_of(s->ctx, f.dims + 1, f.kept)};
    flx_val *in = new_values(s, s->nin);
    flx_graph *step = in && f.kept ? body_along(s, own->body, s->nin, n, rows[1]) : NULL;
    if (s->g->error.code)
        return;
    for (uint32_t i = 0; i < n; i++) {
        flx_val rest = flxi_reshape_to(s, x[i], shape.rank, shape.dims);
        in[i] = f.kept ? init_row(s, init[i], &f, rows[1]) : init[i];
        in[n + i] = flxi_reshape_to(s, flattened(s, &f, rest), f.kept ? 2 : 1, rows);
    }
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    a.body = step ? step : own->body;
    a.num_carry = n;
    flx_scan(s->g, in, s->nin, &a, y, n);
    for (uint32_t i = 0; i < n; i++)
        y[i] = flxi_reshape_to(s, y[i], f.kept, f.dims + 1);
    flx_graph_free(step);
}

/* Named combinations become their reductions, with init combined in at the end. */
static void decompose_reduce(flxi_site *s, flx_val *y)
{
    const fold_attrs *a = s->attrs;
    const flxi_op *combine = combination(a->body);
    flxi_opcode named = combine ? reduction_by(combine) : OP_NONE;
    if (named == OP_NONE) {
        fold_by_scan(s, s->x, s->x + s->nin / 2, a->axes, y);
        return;
    }
    flx_attr axes = flx_attr_ints("axes", a->axes);
    flx_val pair[2] = {s->x[1], flx_op1(s->g, flxi_ops[named].name, s->x, 1, &axes, 1)};
    y[0] = flx_op1(s->g, combine->name, pair, 2, NULL, 0);
}

/* "Shift" while all examples start from the same values; otherwise a scan, whose carries may differ. */
static void batch_reduce(flxi_site *s, flx_val *by)
{
    uint32_t n = s->nin / 2;
    bool shared = true;
    flx_val *x = new_values(s, s->nin);
    fold_attrs *a = flxi_site_attrs(s);
    if (!x || !a)
        return;
    flxi_shift_axes(s, &a->axes);
    for (uint32_t i = 0; i < s->nin; i++) {
        x[i] = i < n ? flxi_lift(s, i) : s->x[i];
        shared = shared && (i < n || !s->batched[i]);
    }
    if (shared)
        flxi_emit(s, a, x, s->nin, by);
    else
        fold_by_scan(s, x, x + n, a->axes, by);
}

const flxi_rules flxi_rules_reduce = {
    .infer = infer_reduce,
    .eval = eval_reduce,
    .schema = fold_schema,
    .attrs_size = sizeof(fold_attrs),
    .batch = batch_reduce,
    .decompose = decompose_reduce,
    .samples = samples_reduce,
};

/* ---- map ---- */

typedef struct {
    const flx_graph *body;
} map_attrs;

static const flxi_attr map_schema[] = {A_GRAPH_AS(map_attrs, body, "body"), A_END};

static uint32_t map_operand(uint32_t nin, size_t j)
{
    (void)nin;
    return (uint32_t)j;
}

static flx_code infer_map(flxi_infer *f)
{
    const map_attrs *a = f->attrs;
    size_t n = flxi_body_outputs(a->body);
    flx_type shape;
    FLXI_TRY(flxi_need_operands(f));
    FLXI_TRY(flxi_equal_shapes(f, f->nin, &shape));
    FLXI_TRY(flxi_match_scalar_body(f, "body", a->body, f->nin, map_operand));
    if (n == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, "each value the body returns becomes a result", "body returns nothing");
    FLXI_TRY(flxi_results(f, n));
    for (size_t i = 0; i < n; i++) {
        FLXI_TRY(flxi_match_scalar_output(f, "body", a->body, i, FLX_DTYPE_NONE));
        f->out[i] = shape;
        f->out[i].dtype = flxi_body_output(a->body, i)->dtype;
    }
    return FLX_OK;
}

static flx_code eval_map(flxi_eval *e)
{
    const map_attrs *a = e->attrs;
    flxi_scalar_body b;
    flx_code code = flxi_scalar_body_begin(&b, e, a->body, e->nin, map_operand);
    for (int64_t k = 0; code == FLX_OK && k < e->in[0]->count; k++) {
        for (uint32_t j = 0; j < e->nin; j++)
            flxi_scalar_body_set(&b, j, e->in[j]->data, k);
        code = flxi_scalar_body_call(&b);
        for (uint32_t i = 0; code == FLX_OK && i < e->nout; i++)
            flxi_copy_element(e->out[i]->data, k, flxi_scalar_body_result(&b, i), 0,
                              flx_dtype_size(e->out[i]->type.dtype));
    }
    flxi_scalar_body_end(&b);
    return code;
}

#define GRAPH_MAP "graph f(x: T[], k: i32[]) { return add(x, x), k }"

static const flxi_sample samples_map[] = {
    {"T[3, 4]", "body=@f", "graph f(x: T[]) { return mul(x, x) }", FLX_OK},
    {"T[2, 3], i32[2, 3]", "body=@f", GRAPH_MAP, FLX_OK},
    {"T[], i32[]", "body=@f", GRAPH_MAP, FLX_OK},
    {"T[0, 2], i32[0, 2]", "body=@f", GRAPH_MAP, FLX_OK},
    {"T[N], i32[N]", "body=@f", GRAPH_MAP, FLX_OK},
    {"T[2, N, 2], T[2, N, 2]", "body=@f", "graph f(x: T[], y: T[]) { return mul(x, mul(x, y)), y }", FLX_OK},
    {"T[3], i32[4]", "body=@f", GRAPH_MAP, FLX_E_SHAPE},
    {"T[3], i32[1]", "body=@f", GRAPH_MAP, FLX_E_SHAPE},
    {"T[3]", "body=@f", "graph f(x: T[]) { return reshape(x, shape=[1]) }", FLX_E_SHAPE},
    {0},
};

/* The body on all elements at once, inlined. */
static void decompose_map(flxi_site *s, flx_val *y)
{
    const map_attrs *a = s->attrs;
    flx_type shape = common_shape(s, s->x, s->nin);
    flx_dim count = product_of(s->ctx, shape.dims, shape.rank);
    if (shape.rank == 0) {
        flxi_inline(s->g, a->body, s->x, y);
        return;
    }
    flx_val *row = new_values(s, s->nin);
    flx_graph *rows = row ? body_along(s, a->body, s->nin, s->nout, count) : NULL;
    for (uint32_t i = 0; rows && i < s->nin; i++)
        row[i] = flxi_reshape_to(s, s->x[i], 1, &count);
    if (rows)
        flxi_inline(s->g, rows, row, y);
    for (uint32_t i = 0; rows && i < s->nout; i++)
        y[i] = flxi_reshape_to(s, y[i], shape.rank, shape.dims);
    flx_graph_free(rows);
}

const flxi_rules flxi_rules_map = {
    .infer = infer_map,
    .eval = eval_map,
    .schema = map_schema,
    .attrs_size = sizeof(map_attrs),
    .decompose = decompose_map,
    .samples = samples_map,
};
