/* SPDX-License-Identifier: Apache-2.0 */
/* distribution.c: draws from distributions, each element a function of the key and its own index. Rejection methods
   number their attempts in a stream of their own, so that no element depends on another (docs/numerics.md, "Random
   numbers"). */
#include "base/host/stop.h"
#include "numeric/merge_sort.h"
#include "numeric/token_draw.h"
#include "ops/elementwise/special.h"
#include "ops/elementwise/special_express.h"
#include "ops/express/express_combine.h"
#include "ops/express/express_formula.h"
#include "ops/express/express_rng.h"
#include "ops/random/random.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"

#include <complex.h>
#include <math.h>

/* ---- exponential, truncated_normal: one uniform draw through the inverse distribution function ---- */

typedef struct {
    flx_ints shape;
    int64_t dtype;
} shaped_attrs;

static const flxi_attr shaped_schema[] = {A_DIMS_REQ(shaped_attrs, shape), A_DTYPE(shaped_attrs, dtype, FLX_F32),
                                          A_END};

static flx_code infer_shaped(flxi_infer *f)
{
    const shaped_attrs *a = f->attrs;
    return flxi_random_type(f, &a->shape, a->dtype, FLXI_FLOATS, &f->out[0]);
}

static flx_code eval_exponential(flxi_eval *e)
{
    flx_tensor *y = e->out[0];
    flxi_rng g = flxi_key_rng(e->in[0]);
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++)
        flxi_store_draw(y->type.dtype, y->data, i,
                        -log1p(-flxi_rng_uniform(&g, flxi_draw_bits(y->type.dtype), (uint64_t)i)));
    return FLX_OK;
}

static flx_code eval_truncated_normal(flxi_eval *e)
{
    flx_tensor *y = e->out[0];
    flxi_rng g = flxi_key_rng(e->in[0]);
    double reach = erf(sqrt(2.0));
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++) {
        double u = flxi_rng_open(&g, flxi_draw_bits(y->type.dtype), (uint64_t)i);
        flxi_store_draw(y->type.dtype, y->data, i, sqrt(2.0) * flxi_erf_inv((2 * u - 1) * reach));
    }
    return FLX_OK;
}

/* ---- bernoulli, gamma: a parameter that broadcasts to the shape ---- */

typedef struct {
    flx_ints shape;
} spread_attrs;

static const flxi_attr spread_schema[] = {A_DIMS_REQ(spread_attrs, shape), A_END};

/* Operand 1 broadcasts to `shape`. */
static flx_code infer_spread(flxi_infer *f, int32_t dtype)
{
    const spread_attrs *a = f->attrs;
    const flx_type *p = f->in[1];
    flx_type *y = &f->out[0];
    FLXI_TRY(flxi_random_type(f, &a->shape, dtype, FLXI_FLOATS | FLXI_BOOL, y));
    bool fits = p->rank <= y->rank;
    for (int k = 0; fits && k < p->rank; k++)
        fits = p->dims[k] == 1 || flxi_dims_may_equal(f, p->dims[k], y->dims[y->rank - p->rank + k]);
    if (fits)
        return FLX_OK;
    char name[32];
    flxi_type_text tp;
    flxi_type_text ty;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s, of shape %s, does not broadcast to shape=%s",
                           flxi_operand_name(f, 1, name, sizeof name), flxi_shape_str(f->ctx, p, &tp),
                           flxi_shape_str(f->ctx, y, &ty));
}

static flx_code infer_bernoulli(flxi_infer *f)
{
    return infer_spread(f, FLX_BOOL);
}

static flx_code infer_gamma(flxi_infer *f)
{
    return infer_spread(f, f->in[1]->dtype);
}

/* Calls draw for each element with its parameter. */
static void draw_spread(flxi_eval *e, double (*draw)(const flxi_rng *g, int32_t dtype, uint64_t i, double p))
{
    const flx_tensor *p = e->in[1];
    flx_tensor *y = e->out[0];
    flxi_rng g = flxi_key_rng(e->in[0]);
    int64_t strides[FLX_MAX_RANK];
    int64_t at[FLX_MAX_RANK] = {0};
    flxi_broadcast_strides(&p->type, &y->type, strides);
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++, flxi_next(at, y->type.dims, y->type.rank)) {
        int64_t from = flxi_offset(at, strides, y->type.rank);
        double parameter = flxi_load_double(p->type.dtype, p->data, from);
        flxi_store_draw(y->type.dtype, y->data, i, draw(&g, p->type.dtype, (uint64_t)i, parameter));
    }
}

static double draw_bernoulli(const flxi_rng *g, int32_t dtype, uint64_t i, double p)
{
    return flxi_rng_uniform(g, flxi_draw_bits(dtype), i) < p;
}

static flx_code eval_bernoulli(flxi_eval *e)
{
    draw_spread(e, draw_bernoulli);
    return FLX_OK;
}

static double draw_gamma(const flxi_rng *key, int32_t dtype, uint64_t i, double a)
{
    (void)dtype; /* all dtypes round the same number */
    return flxi_rng_gamma(key, i, a);
}

static flx_code eval_gamma(flxi_eval *e)
{
    draw_spread(e, draw_gamma);
    return FLX_OK;
}

/* ---- dropout ---- */

typedef struct {
    double rate;
} dropout_attrs;

static const flxi_attr dropout_schema[] = {A_REAL_REQ(dropout_attrs, rate), A_END};

static flx_code infer_dropout(flxi_infer *f)
{
    const dropout_attrs *a = f->attrs;
    if (!(a->rate >= 0 && a->rate <= 1))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "rate must be in [0, 1], got %g", a->rate);
    f->out[0] = *f->in[0];
    return FLX_OK;
}

static flx_code eval_dropout(flxi_eval *e)
{
    const dropout_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    const flxi_arith *t = flxi_arith_of(x->type.dtype);
    flxi_rng g = flxi_key_rng(e->in[1]);
    for (int64_t i = 0; i < x->count && !flxi_stopped_by_now(); i++) {
        /* 24 bits in every dtype: the same key drops the same elements */
        if (flxi_rng_uniform(&g, FLXI_RNG_24, (uint64_t)i) < a->rate)
            continue; /* results are zeroed before */
        flxi_num v = t->load(x->data, i);
        if (flxi_is_complex(t->dtype))
            v.c /= 1 - a->rate;
        else
            v.f /= 1 - a->rate;
        t->store(e->out[0]->data, i, v);
    }
    return FLX_OK;
}

/* ---- Decompositions ---- */

/* Uniform numbers of key, in f64 or f32, which hold them exactly. */
static flx_val uniform_draws(flxi_site *s, flx_val key, flx_ints shape, flx_dtype dtype)
{
    flx_rng_uniform_attrs a = FLX_RNG_UNIFORM_ATTRS;
    a.shape = flxi_dims_list((int)shape.n, shape.v);
    a.dtype = dtype;
    return flx_rng_uniform_with(s->g, key, &a);
}

/* x with one mask for its last `rank` axes. Compared in f64, where the rate is exactly the attribute. */
static flx_val drop_masked(flxi_site *s, flx_val x, flx_val key, double rate, int rank)
{
    flx_graph *g = s->g;
    flx_type t = *flxi_typeof(s, x);
    if (rate == 1)
        return flxi_zeros(s, &t);
    flx_ints shape = {t.dims + t.rank - rank, (size_t)rank};
    flx_val u = flx_cast(g, uniform_draws(s, key, shape, FLX_F32), FLX_F64);
    flx_val kept = flx_ge(g, u, flxi_number(s, u, rate));
    return flxi_masked(s, kept, flx_div(g, x, flxi_number(s, x, 1 - rate)));
}

static void decompose_dropout(flxi_site *s, flx_val *y)
{
    const dropout_attrs *a = s->attrs;
    y[0] = drop_masked(s, s->x[0], s->x[1], a->rate, flxi_typeof(s, s->x[0])->rank);
}

/* The key draws the same mask again: nothing is kept. */
static void vjp_dropout(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = flxi_emit1(s, NULL, (flx_val[]){dy[0], s->x[1]}, 2);
}

/* Draws of this shape that are below p. */
static flx_val below(flxi_site *s, flx_val key, flx_ints shape, flx_val p)
{
    flx_dtype dtype = flxi_typeof(s, p)->dtype == FLX_F64 ? FLX_F64 : FLX_F32;
    return flx_lt(s->g, uniform_draws(s, key, shape, dtype), flx_cast(s->g, p, dtype));
}

static void decompose_bernoulli(flxi_site *s, flx_val *y)
{
    const spread_attrs *a = s->attrs;
    y[0] = below(s, s->x[0], a->shape, s->x[1]);
}

/* ---- Batching ---- */

/* A shared key draws the same for every example; examples with their own keys are drawn in a loop. */
static void batch_dropout(flxi_site *s, flx_val *by)
{
    const dropout_attrs *a = s->attrs;
    if (!s->batched[1])
        by[0] = drop_masked(s, s->x[0], s->x[1], a->rate, flxi_example_rank(s, 0));
}

static void batch_bernoulli(flxi_site *s, flx_val *by)
{
    const spread_attrs *a = s->attrs;
    if (!s->batched[0])
        by[0] = below(s, s->x[0], a->shape, flxi_align(s, s->x[1], true, (int)a->shape.n));
}

/* ---- permutation ---- */

typedef struct {
    flx_dim n;
} permutation_attrs;

static const flxi_attr permutation_schema[] = {A_DIM_REQ(permutation_attrs, n), A_END};

static flx_code infer_permutation(flxi_infer *f)
{
    const permutation_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_count(f, "n", a->n));
    if (flxi_dim_is_number(a->n) && a->n > INT32_MAX)
        return flxi_infer_fail(f, FLX_E_SIZE, NULL, "%lld positions exceed the range of i32", (long long)a->n);
    f->out[0] = flx_type_make(FLX_I32, 1, &a->n);
    return FLX_OK;
}

static bool draw_before(void *user, int64_t a, int64_t b)
{
    const uint64_t *draws = user;
    return draws[a] < draws[b];
}

static flx_code eval_permutation(flxi_eval *e)
{
    flx_tensor *y = e->out[0];
    size_t n = (size_t)y->count;
    flxi_rng g = flxi_key_rng(e->in[0]);
    uint64_t *draws = flxi_alloc(e->mem, n, sizeof *draws);
    int64_t *order = flxi_alloc(e->mem, n, 2 * sizeof *order);
    bool is_held = draws && order;
    if (is_held) {
        for (size_t i = 0; i < n && !flxi_stopped_by_now(); i++) {
            draws[i] = flxi_rng_wide(&g, i);
            order[i] = (int64_t)i;
        }
        const int64_t *sorted = flxi_sort_positions(order, order + n, y->count, draw_before, draws);
        for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++)
            flxi_store_int(FLX_I32, y->data, i, sorted[i]);
    }
    if (draws)
        flxi_free(e->mem, draws, n, sizeof *draws);
    if (order)
        flxi_free(e->mem, order, n, 2 * sizeof *order);
    return is_held ? FLX_OK : flxi_oom(e->err, "the draws of a permutation");
}

/* The draws themselves are sorted: both steps have fast ways. */
static void decompose_permutation(flxi_site *s, flx_val *y)
{
    const permutation_attrs *a = s->attrs;
    flx_rng_bits_attrs bits = FLX_RNG_BITS_ATTRS;
    bits.shape = flxi_dims_list(1, &a->n);
    bits.dtype = FLX_U64;
    y[0] = flx_argsort(s->g, flx_rng_bits_with(s->g, s->x[0], &bits), 0);
}

/* ---- Rows of logits ---- */

/* Operand i is [.., V]; the result is an i32 token for each row. */
static flx_code infer_tokens(flxi_infer *f, uint32_t i)
{
    const flx_type *x = f->in[i];
    FLXI_TRY(flxi_need_rank(f, i, 1));
    flx_dim tokens = x->dims[x->rank - 1];
    if (tokens == 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "the last axis of logits is empty: there is nothing to draw");
    if (flxi_dim_is_number(tokens) && tokens > INT32_MAX)
        return flxi_infer_fail(f, FLX_E_SIZE, NULL, "%lld tokens exceed the range of i32", (long long)tokens);
    f->out[0] = flx_type_make(FLX_I32, x->rank - 1, x->dims);
    return FLX_OK;
}

flx_code flxi_random_nan(flxi_eval *e, int64_t i, int64_t row)
{
    return flxi_eval_fail(e, FLX_E_NUMERIC, NULL, "logit %lld of row %lld is NaN", (long long)i, (long long)row);
}

/* Row r as doubles; NaN is an error. */
static flx_code load_row(flxi_eval *e, const flx_tensor *x, int64_t r, int64_t n, double *row)
{
    for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++) {
        row[i] = flxi_load_double(x->type.dtype, x->data, r * n + i);
        if (isnan(row[i]))
            return flxi_random_nan(e, i, r);
    }
    return FLX_OK;
}

/* ---- categorical ---- */

static flx_code infer_categorical(flxi_infer *f)
{
    return infer_tokens(f, 1);
}

static flx_code eval_categorical(flxi_eval *e)
{
    const flx_tensor *x = e->in[1];
    flx_tensor *y = e->out[0];
    flxi_rng g = flxi_key_rng(e->in[0]);
    int64_t n = x->type.dims[x->type.rank - 1];
    double *row = flxi_alloc(e->mem, (size_t)n, sizeof *row);
    flx_code code = row ? FLX_OK : flxi_oom(e->err, "a row of logits");
    for (int64_t r = 0; code == FLX_OK && r < y->count && !flxi_stopped_by_now(); r++) {
        code = load_row(e, x, r, n, row);
        for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++)
            row[i] -= log(-log(flxi_rng_open(&g, flxi_draw_bits(x->type.dtype), (uint64_t)(r * n + i))));
        flxi_store_int(FLX_I32, y->data, r, flxi_argmax(row, n));
    }
    if (row)
        flxi_free(e->mem, row, (size_t)n, sizeof *row);
    return code;
}

/* ---- sample ---- */

typedef struct {
    int64_t top_k; /* 0: all */
    double top_p, temperature;
    int64_t seed;
} sample_attrs;

static const flxi_attr sample_schema[] = {
    A_INT(sample_attrs, top_k, 0),
    A_REAL(sample_attrs, top_p, 1),
    A_REAL(sample_attrs, temperature, 1),
    A_INT(sample_attrs, seed, 0),
    A_END,
};

static flx_code infer_sample(flxi_infer *f)
{
    const sample_attrs *a = f->attrs;
    FLXI_TRY(infer_tokens(f, 0));
    flx_dim tokens = f->in[0]->dims[f->in[0]->rank - 1];
    if (a->top_k < 0 || (flxi_dim_is_number(tokens) && a->top_k > tokens))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "0 keeps all", "top_k must be in 0 .. number of tokens, got %lld",
                               (long long)a->top_k);
    if (!(a->top_p >= 0 && a->top_p <= 1))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "1 keeps all", "top_p must be in [0, 1], got %g", a->top_p);
    if (isnan(a->temperature))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "0 takes the largest logit", "temperature must be a number");
    return FLX_OK;
}

static flx_code sample_row(flxi_eval *e, flxi_token_row *row, int64_t r, int64_t *token)
{
    const sample_attrs *a = e->attrs;
    const flx_tensor *x = e->in[0];
    FLXI_TRY(load_row(e, x, r, row->n, row->logit));
    *token = flxi_argmax(row->logit, row->n);
    if (a->temperature <= 0)
        return FLX_OK;
    if (row->logit[*token] == -INFINITY)
        return flxi_eval_fail(e, FLX_E_NUMERIC, NULL,
                              "all logits of row %lld are -inf: no token has a nonzero probability", (long long)r);
    flxi_rng g = flxi_rng_seeded((uint64_t)a->seed, (uint64_t)r);
    *token = flxi_draw_token(row, flxi_rng_uniform(&g, flxi_draw_bits(x->type.dtype), 0));
    return FLX_OK;
}

static flx_code eval_sample(flxi_eval *e)
{
    const sample_attrs *a = e->attrs;
    const flx_type *x = &e->in[0]->type;
    flx_tensor *y = e->out[0];
    flxi_token_row row = {
        .n = x->dims[x->rank - 1], .top_k = a->top_k, .top_p = a->top_p, .temperature = a->temperature};
    row.logit = flxi_alloc(e->mem, (size_t)row.n, sizeof *row.logit);
    row.order = flxi_alloc(e->mem, (size_t)row.n, 2 * sizeof *row.order);
    flx_code code = row.logit && row.order ? FLX_OK : flxi_oom(e->err, "a row of logits");
    for (int64_t r = 0; code == FLX_OK && r < y->count && !flxi_stopped_by_now(); r++) {
        int64_t token = 0;
        code = sample_row(e, &row, r, &token);
        flxi_store_int(FLX_I32, y->data, r, token);
    }
    if (row.logit)
        flxi_free(e->mem, row.logit, (size_t)row.n, sizeof *row.logit);
    if (row.order)
        flxi_free(e->mem, row.order, (size_t)row.n, 2 * sizeof *row.order);
    return code;
}

/* ---- Rules ---- */

static const flxi_sample samples_shaped[] = {
    {"u32[2]", "shape=[3, 4]", NULL, FLX_OK},
    {"u32[2]", "shape=[5], dtype=f64", NULL, FLX_OK},
    {"u32[2]", "shape=[5], dtype=bf16", NULL, FLX_OK},
    {"u32[2]", "shape=[]", NULL, FLX_OK},
    {"u32[2]", "shape=[0]", NULL, FLX_OK},
    {"u32[2]", "shape=[N]", NULL, FLX_OK},
    {"u32[2]", "shape=[-1]", NULL, FLX_E_ATTRIBUTE},
    {"u32[2]", "shape=[2], dtype=c64", NULL, FLX_E_DTYPE},
    {"u32[2]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_spread[] = {
    {"u32[2], T[]", "shape=[3, 4]", NULL, FLX_OK},           {"u32[2], T[4]{0..1}", "shape=[3, 4]", NULL, FLX_OK},
    {"u32[2], T[3, 1]{0..9}", "shape=[3, 4]", NULL, FLX_OK}, {"u32[2], T[0]", "shape=[2, 0]", NULL, FLX_OK},
    {"u32[2], T[N]", "shape=[2, N]", NULL, FLX_OK},          {"u32[2], T[3]", "shape=[4]", NULL, FLX_E_SHAPE},
    {"u32[2], T[3]", "shape=[]", NULL, FLX_E_SHAPE},         {0},
};

static const flxi_sample samples_dropout[] = {
    {"T[3, 4], u32[2]", "rate=0.5", NULL, FLX_OK},
    {"T[3, 4], u32[2]", "rate=1", NULL, FLX_OK},
    {"T[], u32[2]", "rate=0", NULL, FLX_OK},
    {"T[0, 2], u32[2]", "rate=0.1", NULL, FLX_OK},
    {"T[N, 2], u32[2]", "rate=0.1", NULL, FLX_OK},
    {"T[3], u32[2]", "rate=1.5", NULL, FLX_E_ATTRIBUTE},
    {"T[3], u32[2]", "rate=nan", NULL, FLX_E_ATTRIBUTE},
    {"T[3], u32[3]", "rate=0.5", NULL, FLX_E_SHAPE},
    {0},
};

static const flxi_sample samples_permutation[] = {
    {"u32[2]", "n=7", NULL, FLX_OK},
    {"u32[2]", "n=0", NULL, FLX_OK},
    {"u32[2]", "n=2*N", NULL, FLX_OK},
    {"u32[2]", "n=-1", NULL, FLX_E_ATTRIBUTE},
    {"u32[2]", "n=3000000000", NULL, FLX_E_SIZE},
    {0},
};

static const flxi_sample samples_categorical[] = {
    {"u32[2], T[3, 4]", NULL, NULL, FLX_OK},
    {"u32[2], T[5]", NULL, NULL, FLX_OK},
    {"u32[2], T[0, 4]", NULL, NULL, FLX_OK},
    {"u32[2], T[N, 4]", NULL, NULL, FLX_OK},
    {"u32[2], T[]", NULL, NULL, FLX_E_SHAPE},
    {"u32[2], T[3, 0]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

static const flxi_sample samples_sample[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[3, 4]", "top_k=2, top_p=0.8, temperature=0.5, seed=7", NULL, FLX_OK},
    {"T[2, 3, 4]", "temperature=0", NULL, FLX_OK},
    {"T[5]", "top_p=0", NULL, FLX_OK},
    {"T[0, 4]", NULL, NULL, FLX_OK},
    {"T[N, 4]", "top_k=4", NULL, FLX_OK},
    {"T[]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 0]", NULL, NULL, FLX_E_SHAPE},
    {"T[3, 4]", "top_k=5", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "top_k=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "top_p=1.5", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static flxi_kval pull_exponential(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    int32_t dtype = e->out[result]->dtype;
    flxi_kindex to = *at;
    flxi_krng g = flxi_krng_keyed(e, 0, 0);
    uint32_t u = flxi_krng_uniform(e, &g, flxi_draw_bits(dtype), HOLD(flxi_at_flat(e, e->out[result], &to)));
    return flxi_krng_rounded(e, F1(neg, F1(log1p, F1(neg, u))), dtype);
}

const flxi_rules flxi_rules_exponential = {
    .infer = infer_shaped,
    .eval = eval_exponential,
    .pull = pull_exponential,
    .schema = shaped_schema,
    .attrs_size = sizeof(shaped_attrs),
    .samples = samples_shaped,
};

/* In f64, like the definition. */
static flxi_kval pull_truncated_normal(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    int32_t dtype = e->out[result]->dtype;
    flxi_kindex to = *at;
    flxi_krng g = flxi_krng_keyed(e, 0, 0);
    uint32_t u = flxi_krng_open(e, &g, flxi_draw_bits(dtype), HOLD(flxi_at_flat(e, e->out[result], &to)));
    uint32_t centred = F2(sub, F2(mul, NUM(u, 2), u), NUM(u, 1));
    flxi_kval inside = flxi_kreal(HOLD(F2(mul, centred, NUM(u, erf(sqrt(2.0))))));
    return flxi_krng_rounded(e, F2(mul, NUM(u, sqrt(2.0)), flxi_element_erf_inv(e, &inside).re), dtype);
}

const flxi_rules flxi_rules_truncated_normal = {
    .infer = infer_shaped,
    .eval = eval_truncated_normal,
    .pull = pull_truncated_normal,
    .schema = shaped_schema,
    .attrs_size = sizeof(shaped_attrs),
    .samples = samples_shaped,
};

const flxi_rules flxi_rules_bernoulli = {
    .infer = infer_bernoulli,
    .eval = eval_bernoulli,
    .batch = batch_bernoulli,
    .schema = spread_schema,
    .attrs_size = sizeof(spread_attrs),
    .decompose = decompose_bernoulli,
    .samples = samples_spread,
};

const flxi_rules flxi_rules_gamma = {
    .infer = infer_gamma,
    .eval = eval_gamma,
    .schema = spread_schema,
    .attrs_size = sizeof(spread_attrs),
    .undefined =
        "a draw by rejection has no derivative with respect to its shape a; use stop_gradient(a) if none is needed",
    .samples = samples_spread,
};

/* u < rate for u = k·2^-24 with a whole k is k < ⌈rate·2^24⌉, in which nothing is rounded. */
static flxi_kval pull_dropout(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const dropout_attrs *a = e->attrs;
    flxi_kindex to = *at;
    flxi_krng g = flxi_krng_keyed(e, 1, 0);
    uint32_t word = flxi_krng_word(e, &g, HOLD(flxi_at_flat(e, e->out[result], &to)));
    uint32_t drops = HOLD(F2(lt, F2(shr, word, NUM(word, 8)), NUM(word, ceil(a->rate * 0x1p24))));
    flxi_kval x = flxi_kas(e, flxi_operand_at(e, 0, at), e->dtype);
    uint32_t rest = NUM(x.re, 1 - a->rate);
    flxi_kval kept = flxi_kparts(e, KBIN_div, x, (flxi_kval){rest, rest});
    return flxi_kas(e, flxi_kchoose(e, drops, flxi_kzero(e, e->dtype), kept), e->out[result]->dtype);
}

const flxi_rules flxi_rules_dropout = {
    .infer = infer_dropout,
    .eval = eval_dropout,
    .pull = pull_dropout,
    .schema = dropout_schema,
    .attrs_size = sizeof(dropout_attrs),
    .vjp = vjp_dropout,
    .batch = batch_dropout,
    .decompose = decompose_dropout,
    .samples = samples_dropout,
    .link = flxi_link_aligned,
};

const flxi_rules flxi_rules_permutation = {
    .infer = infer_permutation,
    .eval = eval_permutation,
    .schema = permutation_schema,
    .attrs_size = sizeof(permutation_attrs),
    .decompose = decompose_permutation,
    .samples = samples_permutation,
};

const flxi_rules flxi_rules_categorical = {
    .infer = infer_categorical,
    .eval = eval_categorical,
    .samples = samples_categorical,
};

const flxi_rules flxi_rules_sample = {
    .infer = infer_sample,
    .eval = eval_sample,
    .batch = flxi_batch_sample,
    .schema = sample_schema,
    .attrs_size = sizeof(sample_attrs),
    .samples = samples_sample,
};
