/* SPDX-License-Identifier: Apache-2.0 */
/* random.c: random bits and keys, uniform and normal numbers. Everything is a function of key, stream and element
   index (counter_rng.h), so values depend neither on threads or devices nor on other draws (docs/numerics.md, "Random
   numbers").

   Streams: draws use the stream they are given, by default 0. rng_split and rng_fold_in take the last two of the
   2^64, so that new keys do not repeat words that draws from the old key use. */
#include "ops/random/random.h"

#include "base/half.h"
#include "base/host/stop.h"
#include "ops/express/express_formula.h"
#include "ops/express/express_rng.h"
#include "ops/rule/axis/extent.h"

static const uint64_t split_stream = UINT64_MAX;
static const uint64_t fold_stream = UINT64_MAX - 1;

/* ---- Shared with distribution.c ---- */

flx_code flxi_random_type(flxi_infer *f, const flx_ints *shape, int64_t dtype, flxi_dtypes accepted, flx_type *out)
{
    if (!flxi_in(accepted, (int32_t)dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, accepted == FLXI_FLOATS ? "draw a float dtype and cast" : NULL,
                               "the result cannot be %s", flx_dtype_name((int32_t)dtype));
    FLXI_TRY(flxi_need_result_rank(f, shape->n));
    FLXI_TRY(flxi_need_counts(f, "shape", shape));
    *out = flx_type_make((flx_dtype)dtype, (int32_t)shape->n, shape->v);
    return FLX_OK;
}

flxi_rng flxi_key_rng(const flx_tensor *key)
{
    return flxi_rng_keyed(key->data, 0);
}

void flxi_store_draw(int32_t dtype, void *data, int64_t i, double x)
{
    bool is_narrow = dtype == FLX_F16 || dtype == FLX_BF16;
    flxi_store_double(dtype, data, i, is_narrow ? flxi_round_to(x, 8, 23) : x);
}

/* ---- rng_uniform, rng_normal ---- */

#define REAL_ROW(f, text, v)                                                                 \
    {                                                                                        \
        .name = text, .kind = ATTR_REAL, .offset = offsetof(flxi_draw_attrs, f), .real = (v) \
    }
#define DRAW_ROWS(first, second)                                                                              \
    A_DIMS_REQ(flxi_draw_attrs, shape), A_DTYPE(flxi_draw_attrs, dtype, FLX_F32), REAL_ROW(offset, first, 0), \
        REAL_ROW(scale, second, 1), A_INT(flxi_draw_attrs, seed, 0), A_INT(flxi_draw_attrs, stream, 0)

static const flxi_attr uniform_schema[] = {DRAW_ROWS("lo", "hi"), A_END};
static const flxi_attr normal_schema[] = {DRAW_ROWS("mean", "std"), A_END};

static flx_code infer_draw(flxi_infer *f)
{
    const flxi_draw_attrs *a = f->attrs;
    return flxi_random_type(f, &a->shape, a->dtype, FLXI_FLOATS, &f->out[0]);
}

/* The key operand, if given, replaces the seed. */
static flxi_rng draw_rng(const flxi_eval *e)
{
    const flxi_draw_attrs *a = e->attrs;
    if (e->nin > 0)
        return flxi_rng_keyed(e->in[0]->data, (uint64_t)a->stream);
    return flxi_rng_seeded((uint64_t)a->seed, (uint64_t)a->stream);
}

static flx_code eval_uniform(flxi_eval *e)
{
    const flxi_draw_attrs *a = e->attrs;
    flx_tensor *y = e->out[0];
    flxi_rng g = draw_rng(e);
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++) {
        double u = flxi_rng_uniform(&g, flxi_draw_bits(y->type.dtype), (uint64_t)i);
        flxi_store_draw(y->type.dtype, y->data, i, a->offset + (a->scale - a->offset) * u);
    }
    return FLX_OK;
}

static flx_code eval_normal(flxi_eval *e)
{
    const flxi_draw_attrs *a = e->attrs;
    flx_tensor *y = e->out[0];
    flxi_rng g = draw_rng(e);
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++)
        flxi_store_draw(y->type.dtype, y->data, i,
                        a->offset + a->scale * flxi_rng_normal(&g, flxi_draw_bits(y->type.dtype), (uint64_t)i));
    return FLX_OK;
}

/* ---- rng_bits, rng_bit_generator ---- */

typedef struct {
    flx_ints shape;
    int64_t dtype, algorithm;
} bits_attrs;

static const flxi_attr bits_schema[] = {
    A_DIMS_REQ(bits_attrs, shape),
    A_DTYPE(bits_attrs, dtype, FLX_U32),
    A_WORD(bits_attrs, algorithm, FLXI_RNG_WORDS),
    A_END,
};

static const flxi_attr generator_schema[] = {
    A_DIMS_REQ(bits_attrs, shape),
    A_DTYPE_REQ(bits_attrs, dtype),
    A_WORD_REQ(bits_attrs, algorithm, FLXI_RNG_WORDS),
    A_END,
};

static bool is_wide(const flx_type *t)
{
    return flxi_int_bits(t->dtype) == 64;
}

static flx_code infer_bits(flxi_infer *f)
{
    const bits_attrs *a = f->attrs;
    return flxi_random_type(f, &a->shape, a->dtype, FLXI_INTS, &f->out[0]);
}

static flx_code eval_bits(flxi_eval *e)
{
    const bits_attrs *a = e->attrs;
    flx_tensor *y = e->out[0];
    flxi_rng g = flxi_key_rng(e->in[0]);
    g.algorithm = (flxi_rng_algorithm)a->algorithm;
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++) {
        uint64_t bits = is_wide(&y->type) ? flxi_rng_wide(&g, (uint64_t)i) : flxi_rng_word(&g, (uint64_t)i);
        flxi_store_int(y->type.dtype, y->data, i, (int64_t)bits);
    }
    return FLX_OK;
}

/* How many 64-bit numbers a state of this type holds, 0 when it is not a state of `algorithm`. */
static int state_length(const flx_type *t, int64_t algorithm)
{
    int words = t->dtype == FLX_U64 ? 1 : t->dtype == FLX_U32 ? 2 : 0; /* per number */
    if (t->rank != 1 || words == 0)
        return 0;
    for (int n = 2; n <= (algorithm == FLXI_PHILOX ? 3 : 2); n++)
        if (t->dims[0] == n * words)
            return n;
    return 0;
}

static flx_code infer_bit_generator(flxi_infer *f)
{
    const bits_attrs *a = f->attrs;
    flxi_type_text t;
    if (state_length(f->in[0], a->algorithm) == 0)
        return flxi_infer_fail(
            f, flxi_in(FLXI_BIT(FLX_U64) | FLXI_BIT(FLX_U32), f->in[0]->dtype) ? FLX_E_SHAPE : FLX_E_DTYPE,
            "philox4x32 also takes u64[3] or u32[6]", "state must be u64[2] or u32[4], but it is %s",
            flxi_type_str(f->ctx, f->in[0], &t));
    f->out[0] = *f->in[0];
    return flxi_random_type(f, &a->shape, a->dtype, FLXI_INTS, &f->out[1]);
}

static uint64_t load_state(const flx_type *type, const void *state, int64_t i)
{
    if (type->dtype == FLX_U64)
        return (uint64_t)flxi_load_int(FLX_U64, state, i);
    const uint32_t *w = state;
    return w[2 * i] | (uint64_t)w[2 * i + 1] << 32;
}

static void store_state(const flx_type *type, void *state, int64_t i, uint64_t x)
{
    if (type->dtype == FLX_U64) {
        flxi_store_int(FLX_U64, state, i, (int64_t)x);
        return;
    }
    uint32_t *w = state;
    w[2 * i] = (uint32_t)(x & UINT32_MAX);
    w[2 * i + 1] = (uint32_t)(x >> 32);
}

flxi_rng flxi_state_rng(const flx_type *type, const void *state, flxi_rng_algorithm algorithm)
{
    uint64_t key = load_state(type, state, 0);
    flxi_rng g = flxi_rng_seeded(key, 0);
    g.algorithm = algorithm;
    g.low = load_state(type, state, 1);
    /* with a short state the key completes the counter */
    g.high = state_length(type, algorithm) == 3 ? load_state(type, state, 2) : key;
    return g;
}

void flxi_state_advance(const flx_type *type, const void *state, const flxi_rng *g, uint64_t blocks, void *next)
{
    uint64_t low = g->low + blocks;
    store_state(type, next, 0, load_state(type, state, 0));
    store_state(type, next, 1, low);
    if (state_length(type, g->algorithm) == 3)
        store_state(type, next, 2, g->high + (low < g->low));
}

/* The interchange formats define where the two words of a Threefry block go when each element takes one word: to
   neighbours along one axis, the first of even extent, or else the first of the largest extent. -1 for a scalar. */
int flxi_pair_axis(const flx_type *t)
{
    int best = -1;
    for (int k = 0; k < t->rank; k++) {
        if (t->dims[k] % 2 == 0)
            return k;
        if (best < 0 || t->dims[k] > t->dims[best])
            best = k;
    }
    return best;
}

/* Words in the order of the elements, except for the pairs of Threefry. */
static uint64_t word_index(const flx_type *t, int axis, const int64_t *at)
{
    uint64_t block = 0;
    for (int k = 0; k < t->rank; k++) {
        int64_t extent = k == axis ? (t->dims[k] + 1) / 2 : t->dims[k];
        block = block * (uint64_t)extent + (uint64_t)(k == axis ? at[k] / 2 : at[k]);
    }
    return axis < 0 ? block : 2 * block + (uint64_t)(at[axis] % 2);
}

/* Fills y from block 0 on and returns the number of blocks used. */
static uint64_t fill_bits(const flxi_rng *g, flx_tensor *y)
{
    bool is_paired = g->algorithm == FLXI_THREEFRY && !is_wide(&y->type);
    int axis = is_paired ? flxi_pair_axis(&y->type) : -1;
    int64_t at[FLX_MAX_RANK] = {0};
    uint64_t last = 0;
    for (int64_t i = 0; i < y->count && !flxi_stopped_by_now(); i++, flxi_next(at, y->type.dims, y->type.rank)) {
        uint64_t w = word_index(&y->type, axis, at);
        uint64_t bits = is_wide(&y->type) ? flxi_rng_wide(g, w) : flxi_rng_word(g, w);
        flxi_store_int(y->type.dtype, y->data, i, (int64_t)bits);
        uint64_t word = is_wide(&y->type) ? 2 * w + 1 : w;
        last = word > last ? word : last;
    }
    return y->count == 0 ? 0 : last / (uint64_t)flxi_rng_block_words(g) + 1;
}

static flx_code eval_bit_generator(flxi_eval *e)
{
    const bits_attrs *a = e->attrs;
    const flx_tensor *state = e->in[0];
    flxi_rng g = flxi_state_rng(&state->type, state->data, (flxi_rng_algorithm)a->algorithm);
    uint64_t blocks = fill_bits(&g, e->out[1]);
    flxi_state_advance(&state->type, state->data, &g, blocks, e->out[0]->data);
    return FLX_OK;
}

/* ---- rng_split, rng_fold_in ---- */

typedef struct {
    flx_dim num;
} split_attrs;

static const flxi_attr split_schema[] = {A_DIM(split_attrs, num, 2), A_END};

static flx_code infer_split(flxi_infer *f)
{
    const split_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_count(f, "num", a->num));
    f->out[0] = flx_type_make(FLX_U32, 2, (const flx_dim[]){a->num, 2});
    return FLX_OK;
}

/* Key `i` of a stream of keys. */
static void derive_key(const flx_tensor *key, uint64_t stream, uint64_t block, flx_tensor *out, int64_t i)
{
    flxi_rng g = flxi_rng_keyed(key->data, stream);
    g.low = block;
    for (int64_t k = 0; k < 2; k++)
        flxi_store_int(FLX_U32, out->data, 2 * i + k, flxi_rng_word(&g, (uint64_t)k));
}

static flx_code eval_split(flxi_eval *e)
{
    for (int64_t i = 0; i < e->out[0]->count / 2 && !flxi_stopped_by_now(); i++)
        derive_key(e->in[0], split_stream, (uint64_t)i, e->out[0], i);
    return FLX_OK;
}

static flx_code infer_fold_in(flxi_infer *f)
{
    flxi_type_text t;
    if (f->in[1]->rank != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "data must be a scalar, but it is %s",
                               flxi_type_str(f->ctx, f->in[1], &t));
    f->out[0] = *f->in[0];
    return FLX_OK;
}

static flx_code eval_fold_in(flxi_eval *e)
{
    const flx_tensor *data = e->in[1];
    derive_key(e->in[0], fold_stream, (uint64_t)flxi_load_int(data->type.dtype, data->data, 0), e->out[0], 0);
    return FLX_OK;
}

/* ---- Rules ---- */

static const flxi_sample samples_draw[] = {
    {"", "shape=[3, 4]", NULL, FLX_OK},
    {"u32[2]", "shape=[5], dtype=f64", NULL, FLX_OK},
    {"u32[2]", "shape=[5], dtype=f16, stream=3", NULL, FLX_OK},
    {"", "shape=[7], dtype=bf16, seed=-1, stream=9", NULL, FLX_OK},
    {"", "shape=[]", NULL, FLX_OK},
    {"", "shape=[0, 3]", NULL, FLX_OK},
    {"", "shape=[N, 2*N]", NULL, FLX_OK},
    {"", "shape=[2, -1]", NULL, FLX_E_ATTRIBUTE},
    {"", "shape=[2], dtype=i32", NULL, FLX_E_DTYPE},
    {"", NULL, NULL, FLX_E_ATTRIBUTE},
    {"u32[3]", "shape=[2]", NULL, FLX_E_SHAPE},
    {"i32[2]", "shape=[2]", NULL, FLX_E_DTYPE},
    {0},
};

static const flxi_sample samples_bits[] = {
    {"u32[2]", "shape=[3, 4]", NULL, FLX_OK},
    {"u32[2]", "shape=[5], dtype=u64, algorithm=threefry2x32", NULL, FLX_OK},
    {"u32[2]", "shape=[5], dtype=i8", NULL, FLX_OK},
    {"u32[2]", "shape=[]", NULL, FLX_OK},
    {"u32[2]", "shape=[0]", NULL, FLX_OK},
    {"u32[2]", "shape=[N]", NULL, FLX_OK},
    {"u32[2]", "shape=[3], dtype=f32", NULL, FLX_E_DTYPE},
    {"u32[2]", "shape=[-3]", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_bit_generator[] = {
    {"u64[2]", "shape=[3, 4], dtype=u32, algorithm=threefry2x32", NULL, FLX_OK},
    {"u64[2]", "shape=[3, 4], dtype=u64, algorithm=philox4x32", NULL, FLX_OK},
    {"u64[3]", "shape=[5], dtype=u16, algorithm=philox4x32", NULL, FLX_OK},
    {"u32[4]", "shape=[3, 5], dtype=i32, algorithm=threefry2x32", NULL, FLX_OK},
    {"u32[6]", "shape=[], dtype=u8, algorithm=philox4x32", NULL, FLX_OK},
    {"u64[2]", "shape=[0, 3], dtype=u32, algorithm=threefry2x32", NULL, FLX_OK},
    {"u64[2]", "shape=[N, 3], dtype=u32, algorithm=threefry2x32", NULL, FLX_OK},
    {"u64[3]", "shape=[2], dtype=u32, algorithm=threefry2x32", NULL, FLX_E_SHAPE},
    {"u64[]", "shape=[2], dtype=u32, algorithm=philox4x32", NULL, FLX_E_SHAPE},
    {"i32[4]", "shape=[2], dtype=u32, algorithm=philox4x32", NULL, FLX_E_DTYPE},
    {"u64[2]", "shape=[2], dtype=f32, algorithm=philox4x32", NULL, FLX_E_DTYPE},
    {"u64[2]", "shape=[2], dtype=u32", NULL, FLX_E_ATTRIBUTE},
    {0},
};

static const flxi_sample samples_split[] = {
    {"u32[2]", NULL, NULL, FLX_OK},
    {"u32[2]", "num=5", NULL, FLX_OK},
    {"u32[2]", "num=0", NULL, FLX_OK},
    {"u32[2]", "num=N", NULL, FLX_OK},
    {"u32[2]", "num=-1", NULL, FLX_E_ATTRIBUTE},
    {"u32[2, 2]", NULL, NULL, FLX_E_SHAPE},
    {0},
};

static const flxi_sample samples_fold_in[] = {
    {"u32[2], i32[]", NULL, NULL, FLX_OK},      {"u32[2], u64[]", NULL, NULL, FLX_OK},
    {"u32[2], i8[]", NULL, NULL, FLX_OK},       {"u32[2], i32[2]", NULL, NULL, FLX_E_SHAPE},
    {"u32[2], f32[]", NULL, NULL, FLX_E_DTYPE}, {0},
};

/* ---- Kernel expressions ---- */

static uint32_t position_in(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    flxi_kindex to = *at;
    return HOLD(flxi_at_flat(e, e->out[result], &to));
}

static flxi_krng draw_krng(flxi_express *e)
{
    const flxi_draw_attrs *a = e->attrs;
    if (e->nin > 0)
        return flxi_krng_keyed(e, 0, (uint64_t)a->stream);
    return flxi_krng_seeded(e, (uint64_t)a->seed, (uint64_t)a->stream);
}

/* offset + scale·x in f64. */
static flxi_kval as_draw(flxi_express *e, int32_t dtype, uint32_t x, double offset, double scale)
{
    return flxi_krng_rounded(e, F2(add, NUM(x, offset), F2(mul, NUM(x, scale), x)), dtype);
}

static flxi_kval pull_uniform(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const flxi_draw_attrs *a = e->attrs;
    int32_t dtype = e->out[result]->dtype;
    flxi_krng g = draw_krng(e);
    uint32_t u = flxi_krng_uniform(e, &g, flxi_draw_bits(dtype), position_in(e, result, at));
    return as_draw(e, dtype, u, a->offset, a->scale - a->offset);
}

static flxi_kval pull_normal(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const flxi_draw_attrs *a = e->attrs;
    int32_t dtype = e->out[result]->dtype;
    flxi_krng g = draw_krng(e);
    uint32_t z = flxi_krng_normal(e, &g, flxi_draw_bits(dtype), position_in(e, result, at));
    return as_draw(e, dtype, z, a->offset, a->scale);
}

static flxi_kval pull_bits(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    const bits_attrs *a = e->attrs;
    const flx_type *y = e->out[result];
    flxi_krng g = flxi_krng_keyed(e, 0, 0);
    g.algorithm = (flxi_rng_algorithm)a->algorithm;
    uint32_t i = position_in(e, result, at);
    uint32_t bits = is_wide(y) ? flxi_krng_wide(e, &g, i) : flxi_krng_word(e, &g, i);
    return flxi_kreal(flxi_kb_cast(e->k, (uint32_t)y->dtype, bits));
}

/* Word `which` of block (low, high) of a stream of keys. */
static flxi_kval pull_key(flxi_express *e, uint64_t stream, uint32_t low, uint32_t high, uint32_t which)
{
    uint32_t w[4];
    flxi_krng g = flxi_krng_keyed(e, 0, stream);
    flxi_krng_block(e, &g, low, high, w);
    return flxi_kreal(HOLD(PICK(F2(eq, which, flxi_ku(e, 0)), w[0], w[1])));
}

static flxi_kval pull_split(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    (void)result;
    flxi_kindex to = flxi_at_axes(e, at);
    return pull_key(e, split_stream, HOLD(to.dim[0]), flxi_ku(e, 0), to.dim[1]);
}

static flxi_kval pull_fold_in(flxi_express *e, uint32_t result, const flxi_kindex *at)
{
    uint32_t data = flxi_operand_at(e, 1, &(flxi_kindex){.flat = flxi_ku(e, 0)}).re;
    uint32_t block = HOLD(flxi_kb_cast(e->k, FLX_U64, data)); /* a signed number keeps its sign */
    uint32_t high = HOLD(flxi_kb_cast(e->k, FLX_U32, F2(shr, block, NUM(block, 32))));
    return pull_key(e, fold_stream, flxi_kb_cast(e->k, FLX_U32, block), high, position_in(e, result, at));
}

const flxi_rules flxi_rules_rng_uniform = {
    .infer = infer_draw,
    .eval = eval_uniform,
    .pull = pull_uniform,
    .batch = flxi_batch_draw,
    .schema = uniform_schema,
    .attrs_size = sizeof(flxi_draw_attrs),
    .samples = samples_draw,
};

const flxi_rules flxi_rules_rng_normal = {
    .infer = infer_draw,
    .eval = eval_normal,
    .pull = pull_normal,
    .batch = flxi_batch_draw,
    .schema = normal_schema,
    .attrs_size = sizeof(flxi_draw_attrs),
    .samples = samples_draw,
};

const flxi_rules flxi_rules_rng_bits = {
    .infer = infer_bits,
    .eval = eval_bits,
    .pull = pull_bits,
    .schema = bits_schema,
    .attrs_size = sizeof(bits_attrs),
    .samples = samples_bits,
};

const flxi_rules flxi_rules_rng_bit_generator = {
    .infer = infer_bit_generator,
    .eval = eval_bit_generator,
    .schema = generator_schema,
    .attrs_size = sizeof(bits_attrs),
    .samples = samples_bit_generator,
};

const flxi_rules flxi_rules_rng_split = {
    .infer = infer_split,
    .eval = eval_split,
    .pull = pull_split,
    .schema = split_schema,
    .attrs_size = sizeof(split_attrs),
    .samples = samples_split,
};

const flxi_rules flxi_rules_rng_fold_in = {
    .infer = infer_fold_in,
    .eval = eval_fold_in,
    .pull = pull_fold_in,
    .samples = samples_fold_in,
};
