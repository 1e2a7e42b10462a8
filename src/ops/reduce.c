/* reduce.c: reductions over a set of axes, positions of extrema along one axis, and the two forms with a body:
   `reduce`, an arbitrary fold, and `map`.

   Every reduction folds its elements in row-major order. Sums of f16 and bf16 accumulate in f32, everything else in
   double or 64-bit integers, and is rounded once. Nothing reduced gives the identity, for the mean 0/0. */
#include "ops/axis.h"
#include "ops/axis_lists.h"
#include "ir/site.h"
#include "ops/scalar_body.h"

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

#define REDUCTION_RULES .infer = infer_reduction, .schema = reduce_schema, .attrs_size = sizeof(reduce_attrs)

/* The cotangent, stretched back over what was summed. */
static void vjp_sum(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const reduce_attrs *a = s->attrs;
    dx[0] = flxi_unreduce(s, dy[0], a->axes, a->keep_dims, flxi_typeof(s, s->x[0]));
}

/* "Shift": the batch axis comes first, every other axis moves up by one. */
static void batch_reduction(flxi_site *s, flx_val *by)
{
    reduce_attrs *a = flxi_site_attrs(s);
    if (a)
        flxi_shift_axes(s, &a->axes);
    flxi_emit(s, a, s->x, s->nin, by);
}

const flxi_rules flxi_rules_reduce_sum = {REDUCTION_RULES, .eval = eval_sum, .vjp = vjp_sum, .batch = batch_reduction,
                                          .samples = samples_reduction};
const flxi_rules flxi_rules_reduce_mean = {REDUCTION_RULES, .eval = eval_mean, .samples = samples_mean};
const flxi_rules flxi_rules_reduce_max = {REDUCTION_RULES, .eval = eval_max, .samples = samples_reduction};
const flxi_rules flxi_rules_reduce_min = {REDUCTION_RULES, .eval = eval_min, .samples = samples_reduction};
const flxi_rules flxi_rules_reduce_prod = {REDUCTION_RULES, .eval = eval_prod, .samples = samples_reduction};
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

#define ARG_RULES .infer = infer_arg, .schema = arg_schema, .attrs_size = sizeof(arg_attrs), .samples = samples_arg

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

/* Operands are the arrays, then the inits; the body takes accumulators (typed as the inits), then elements. */
static uint32_t fold_operand(uint32_t nin, size_t j)
{
    uint32_t half = nin / 2;
    return (uint32_t)(j < half ? j + half : j - half);
}

static flx_code check_inits(flxi_infer *f, uint32_t n)
{
    flxi_type_text text;
    for (uint32_t i = n; i < f->nin; i++)
        if (f->in[i]->rank != 0)
            return flxi_infer_fail(f, FLX_E_SHAPE, "operands are x1, x2, ..., then one scalar init for each",
                                   "init %d is %s, not a scalar", (int)(i - n) + 1,
                                   flxi_type_str(f->ctx, f->in[i], &text));
    return FLX_OK;
}

static flx_code infer_reduce(flxi_infer *f)
{
    fold_attrs *a = f->attrs;
    uint32_t n = f->nin / 2;
    if (f->nin == 0 || f->nin % 2 != 0)
        return flxi_infer_fail(f, FLX_E_ARITY, "operands are x1, x2, ..., then one scalar init for each",
                               "%u operands are not as many arrays as inits", (unsigned)f->nin);
    flx_type x;
    FLXI_TRY(check_inits(f, n));
    FLXI_TRY(flxi_equal_shapes(f, n, &x));
    FLXI_TRY(flxi_norm_axes(f, "axes", &a->axes, x.rank, true));
    FLXI_TRY(flxi_match_scalar_body(f, "body", a->body, f->nin, fold_operand));
    if (flxi_body_outputs(a->body) != n)
        return flxi_infer_fail(f, FLX_E_ARITY, "the body returns one new accumulator for each init",
                               "body returns %zu values, expected %u", flxi_body_outputs(a->body), (unsigned)n);
    FLXI_TRY(flxi_results(f, n));
    for (uint32_t i = 0; i < n; i++) {
        FLXI_TRY(flxi_match_scalar_output(f, "body", a->body, i, f->in[n + i]->dtype));
        f->out[i] = reduced_type(&x, &a->axes, false);
        f->out[i].dtype = f->in[n + i]->dtype;
    }
    return FLX_OK;
}

/* The first n inputs of the body are the accumulators; they hold the fold's state between calls. */
static flx_code fold_one(flxi_scalar_body *b, const reduction *r, const int64_t *at)
{
    size_t n = b->nin / 2;
    int64_t k[FLX_MAX_RANK] = {0};
    for (size_t j = 0; j < n; j++)
        flxi_scalar_body_set(b, j, b->e->in[n + j]->data, 0);
    for (int64_t i = 0; i < r->reduced.count; i++) {
        for (size_t j = 0; j < n; j++)
            flxi_scalar_body_set(b, n + j, b->e->in[j]->data, element_of(r, at, k));
        FLXI_TRY(flxi_scalar_body_call(b));
        for (size_t j = 0; j < n; j++)
            flxi_scalar_body_set(b, j, flxi_scalar_body_result(b, j), 0);
        flxi_next(k, r->reduced.dims, r->reduced.rank);
    }
    return FLX_OK;
}

static void put_element(flx_tensor *y, int64_t i, const void *element)
{
    size_t size = flx_dtype_size(y->type.dtype);
    memcpy((char *)y->data + (size_t)i * size, element, size);
}

static flx_code eval_reduce(flxi_eval *e)
{
    const fold_attrs *a = e->attrs;
    reduction r = reduction_of(&e->in[0]->type, &a->axes);
    int64_t at[FLX_MAX_RANK] = {0};
    flxi_scalar_body b;
    flx_code code = flxi_scalar_body_begin(&b, e, a->body, e->nin, fold_operand);
    for (int64_t o = 0; code == FLX_OK && o < r.kept.count; o++) {
        code = fold_one(&b, &r, at);
        for (uint32_t j = 0; j < e->nout; j++)
            put_element(e->out[j], o, b.in[j]->data);
        flxi_next(at, r.kept.dims, r.kept.rank);
    }
    flxi_scalar_body_end(&b);
    return code;
}

#define GRAPH_SUM "graph f(a: T[], x: T[]) { return add(a, x) }"
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
    {"T[3, 4]", "body=@f", GRAPH_SUM, FLX_E_ARITY},
    {"T[3, 4], T[4]", "body=@f", GRAPH_SUM, FLX_E_SHAPE},
    {"T[2, 3], i32[3, 3], T[], i32[]", "body=@f", GRAPH_PAIR, FLX_E_SHAPE},
    {"T[3, 4], T[]", "body=@f, axes=[2]", GRAPH_SUM, FLX_E_ATTRIBUTE},
    {"T[3, 4], T[]", "body=@f", "graph f(a: T[], x: T[]) { return a, x }", FLX_E_ARITY},
    {"T[3, 4], T[]", "body=@f", "graph f(a: T[], x: T[]) { return reshape(a, shape=[1]) }", FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_reduce = {
    .infer = infer_reduce,
    .eval = eval_reduce,
    .schema = fold_schema,
    .attrs_size = sizeof(fold_attrs),
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
    if (f->nin == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "needs at least one operand");
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
            put_element(e->out[i], k, flxi_scalar_body_result(&b, i));
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
    {"T[3], i32[4]", "body=@f", GRAPH_MAP, FLX_E_SHAPE},
    {"T[3], i32[1]", "body=@f", GRAPH_MAP, FLX_E_SHAPE},
    {"T[3]", "body=@f", "graph f(x: T[]) { return reshape(x, shape=[1]) }", FLX_E_SHAPE},
    {0},
};

const flxi_rules flxi_rules_map = {
    .infer = infer_map,
    .eval = eval_map,
    .schema = map_schema,
    .attrs_size = sizeof(map_attrs),
    .samples = samples_map,
};
