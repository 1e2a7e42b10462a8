/* SPDX-License-Identifier: Apache-2.0 */
/* dequant.c: products with weights that are packed into a few bits (docs/numerics.md, "Packed weights"). Each op means
   its decomposition: the weights decoded by ordinary ops, or for the blocks of GGUF files by dequant_moe_weights, and a
   product. So scales, zero points and the global scale have derivatives, and the packed bytes have none. Half floats
   are multiplied in f32 and rounded once.

   With x_bits=8 the decomposition first rounds x in blocks, as fake_quantize does, and x has its derivative: that of
   x as it is. The value of an f32 product is the one of numeric/gguf_rounded.h, equal on all machines. */
#include "ops/quant/dequant.h"
#include "base/half.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "numeric/gguf_rounded.h"
#include "ops/quant/channel.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/decomposed.h"
#include "ops/rule/link.h"

#define SCHEME_WORDS "int8_block int8_block_asym int4_block fp8_e4m3 fp8_e5m2 nvfp4_block" FLXI_GGUF_WORDS

enum { NVFP4_BLOCK = 16 };

typedef struct {
    int64_t scheme, bs, x_bits;
} matmul_attrs;

typedef struct {
    int64_t scheme; /* flxi_gguf */
    flx_dim N;
} grouped_attrs;

typedef struct {
    int64_t scheme; /* flxi_gguf */
    flx_dim E, K, N;
} weights_attrs;

#define GGUF_ROW(T)                                                                                 \
    {                                                                                               \
        .name = "scheme", .kind = ATTR_WORD, .offset = offsetof(T, scheme), .flags = ATTR_REQUIRED, \
        .words = gguf_words + 1                                                                     \
    }

static const char gguf_words[] = FLXI_GGUF_WORDS; /* a space comes first */

static const flxi_attr matmul_schema[] = {
    A_WORD_REQ(matmul_attrs, scheme, SCHEME_WORDS),
    A_INT(matmul_attrs, bs, 32),
    A_INT(matmul_attrs, x_bits, 0),
    A_END,
};
static const flxi_attr grouped_schema[] = {GGUF_ROW(grouped_attrs), A_DIM_REQ(grouped_attrs, N), A_END};
static const flxi_attr weights_schema[] = {
    GGUF_ROW(weights_attrs),
    A_DIM_REQ(weights_attrs, E),
    A_DIM_REQ(weights_attrs, K),
    A_DIM_REQ(weights_attrs, N),
    A_END,
};

/* ---- Checks of inference ---- */

/* Operands after w have no names in the row: the scheme defines them. */
typedef struct {
    uint32_t at;
    const char *name;
} side;

static const side packed_weights = {1, "w"};
static const side block_scale = {2, "scale"};
static const side zero_point = {3, "zp"};
static const side global_scale = {3, "global"};

static flx_code need_dtype(flxi_infer *f, side o, flxi_dtypes set, const char *what)
{
    if (flxi_in(set, f->in[o.at]->dtype))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_DTYPE, NULL, "%s must be %s: it is %s", o.name, what,
                           flx_dtype_name(f->in[o.at]->dtype));
}

static flx_code need_matrix(flxi_infer *f, side o, flx_dim rows, flx_dim columns, const char *hint)
{
    const flx_type *t = f->in[o.at];
    flxi_type_text text;
    flxi_dim_text a;
    flxi_dim_text b;
    if (t->rank == 2 && flxi_dims_may_equal(f, t->dims[0], rows) && flxi_dims_may_equal(f, t->dims[1], columns))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, hint, "%s must be [%s, %s]: it is %s", o.name,
                           flxi_dim_str(f->ctx, rows, &a), flxi_dim_str(f->ctx, columns, &b),
                           flxi_shape_str(f->ctx, t, &text));
}

static flx_code need_bytes(flxi_infer *f, uint32_t k, flx_dim nbytes)
{
    flxi_type_text text;
    flxi_dim_text n;
    if (flxi_dims_may_equal(f, flxi_type_count(f->ctx, f->in[k]), nbytes))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "w must have %s bytes: it is %s", flxi_dim_str(f->ctx, nbytes, &n),
                           flxi_shape_str(f->ctx, f->in[k], &text));
}

/* The bytes of a row of k numbers. A block never reaches into the next row. */
static flx_code row_bytes(flxi_infer *f, int64_t gguf, flx_dim k, flx_dim *nbytes)
{
    const flxi_gguf_format *b = &flxi_gguf_formats[gguf];
    flxi_dim_text n;
    if (!flxi_dim_is_number(k) || k % b->count != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, "a row consists of whole blocks",
                               "the length of a row must be a multiple of %d: it is %s", b->count,
                               flxi_dim_str(f->ctx, k, &n));
    *nbytes = k / b->count * b->nbytes;
    return FLX_OK;
}

/* How many rows of that size w has: its first axis where the others are one row, else its bytes divided by those of a
   row. */
static flx_code count_rows(flxi_infer *f, uint32_t k, flx_dim nbytes, flx_dim *rows)
{
    const flx_type *w = f->in[k];
    flxi_type_text text;
    flx_dim all = flxi_type_count(f->ctx, w);
    if (w->rank > 1 && flxi_dims_product(f->ctx, w, 1, w->rank) == nbytes) {
        *rows = w->dims[0];
        return FLX_OK;
    }
    if (!flxi_dim_is_number(all) || (nbytes ? all % nbytes : all) != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, "w must be [rows, bytes of a row]",
                               "the number of bytes of w must be a multiple of the %lld bytes of a row: w is %s",
                               (long long)nbytes, flxi_shape_str(f->ctx, w, &text));
    *rows = nbytes ? all / nbytes : 0;
    return FLX_OK;
}

static flx_code need_sides(flxi_infer *f, uint32_t least, uint32_t most, const char *what)
{
    uint32_t n = f->nin - 2;
    if (n >= least && n <= most)
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_ARITY, NULL, "this scheme takes x, w%s: got %u operands", what, f->nin);
}

/* ---- Inference of the schemes; *n receives the columns of the product ---- */

static flx_dim blocks_of(flxi_infer *f, flx_dim k, int64_t bs)
{
    return flx_dim_div(f->ctx, flx_dim_add(f->ctx, k, flxi_dim_is_number(k) ? (bs - k % bs) % bs : 0), bs);
}

/* A float for each block of k and each column; where k is a symbol the number of blocks is not checked. */
static flx_code need_blocks(flxi_infer *f, side o, flx_dim k, int64_t bs, flx_dim n)
{
    bool any = !flxi_dim_is_number(k) && f->in[o.at]->rank == 2;
    flx_dim rows = any ? f->in[o.at]->dims[0] : blocks_of(f, flxi_dim_is_number(k) ? k : 0, bs);
    return need_matrix(f, o, rows, n, "it has one row for each block of bs along x's last axis");
}

/* The half bytes of a [k, n] matrix, rounded up. */
static flx_dim nibble_bytes(flxi_infer *f, flx_dim k, flx_dim n)
{
    flx_dim count = flx_dim_mul(f->ctx, k, n);
    return flx_dim_div(f->ctx, flxi_dim_is_number(count) && count % 2 ? count + 1 : count, 2);
}

/* The columns of a matrix. */
static flx_dim columns_shown(const flxi_infer *f, side o)
{
    return f->in[o.at]->rank == 2 ? f->in[o.at]->dims[1] : 0;
}

/* scale, and zp where it is given. */
static flx_code need_grids(flxi_infer *f, flx_dim k, flx_dim n)
{
    const side sides[] = {block_scale, zero_point};
    for (uint32_t i = 0; i < f->nin - 2; i++) {
        FLXI_TRY(need_dtype(f, sides[i], FLXI_FLOATS, "a float"));
        FLXI_TRY(need_blocks(f, sides[i], k, ((const matmul_attrs *)f->attrs)->bs, n));
    }
    return FLX_OK;
}

static flx_code infer_int8(flxi_infer *f, flx_dim k, flx_dim *n)
{
    const matmul_attrs *a = f->attrs;
    bool asym = a->scheme == SCHEME_INT8_BLOCK_ASYM;
    FLXI_TRY(need_sides(f, asym ? 2 : 1, 2, asym ? ", scale, zp" : ", scale and, unused, zp"));
    FLXI_TRY(need_dtype(f, packed_weights, FLXI_BIT(FLX_I8), "i8"));
    *n = columns_shown(f, packed_weights);
    FLXI_TRY(need_matrix(f, packed_weights, k, *n, NULL));
    return need_grids(f, k, *n);
}

/* The columns are those of the scales: the packed bytes do not determine them. */
static flx_code infer_int4(flxi_infer *f, flx_dim k, flx_dim *n)
{
    FLXI_TRY(need_sides(f, 2, 2, ", scale, zp"));
    FLXI_TRY(need_dtype(f, packed_weights, FLXI_BIT(FLX_U8), "u8"));
    *n = columns_shown(f, block_scale);
    FLXI_TRY(need_grids(f, k, *n));
    return need_bytes(f, 1, nibble_bytes(f, k, *n));
}

static flx_code infer_fp8(flxi_infer *f, flx_dim k, flx_dim *n)
{
    FLXI_TRY(need_sides(f, 1, 1, ", scale"));
    FLXI_TRY(need_dtype(f, packed_weights, FLXI_BIT(FLX_U8), "u8"));
    FLXI_TRY(need_dtype(f, block_scale, FLXI_FLOATS, "a float"));
    *n = columns_shown(f, packed_weights);
    FLXI_TRY(need_matrix(f, packed_weights, k, *n, NULL));
    return flxi_need_per_channel(f, 2, 1, *n, true);
}

static flx_code infer_nvfp4(flxi_infer *f, flx_dim k, flx_dim *n)
{
    FLXI_TRY(need_sides(f, 2, 2, ", scale, global"));
    FLXI_TRY(need_dtype(f, packed_weights, FLXI_BIT(FLX_U8), "u8"));
    FLXI_TRY(need_dtype(f, block_scale, FLXI_BIT(FLX_U8), "u8"));
    FLXI_TRY(need_dtype(f, global_scale, FLXI_FLOATS, "a float"));
    *n = columns_shown(f, block_scale);
    FLXI_TRY(need_blocks(f, block_scale, k, NVFP4_BLOCK, *n));
    FLXI_TRY(flxi_need_per_channel(f, 3, FLXI_ABSENT, 1, true));
    return need_bytes(f, 1, nibble_bytes(f, k, *n));
}

static flx_code infer_gguf(flxi_infer *f, flx_dim k, flx_dim *n)
{
    flx_dim nbytes;
    FLXI_TRY(need_sides(f, 0, 0, " only"));
    FLXI_TRY(need_dtype(f, packed_weights, FLXI_BIT(FLX_U8), "u8"));
    FLXI_TRY(row_bytes(f, ((const matmul_attrs *)f->attrs)->scheme - SCHEME_GGUF, k, &nbytes));
    return count_rows(f, 1, nbytes, n);
}

/* ---- Decoding ---- */

/* A table of constants, looked up by codes. */
static flx_val lookup(flxi_site *s, flx_dtype dtype, const double *table, size_t n, flx_val codes)
{
    return flx_gather(s->g, flxi_constants(s, dtype, table, n), codes, 0, NULL);
}

static flx_val lookup_fp8(flxi_site *s, flx_dtype dtype, double (*value)(uint8_t), bool nan_is_zero, flx_val codes)
{
    double table[256];
    for (int i = 0; i < 256; i++) {
        table[i] = value((uint8_t)i);
        if (nan_is_zero && isnan(table[i]))
            table[i] = 0.0;
    }
    return lookup(s, dtype, table, 256, codes);
}

/* One row for each block as one for each of the k rows. */
static flx_val spread_blocks(flxi_site *s, flx_val v, int64_t bs, flx_dim k)
{
    v = flx_repeat(s->g, v, bs, 0);
    return flxi_typeof(s, v)->dims[0] == k ? v : flx_narrow(s->g, v, 0, 0, k);
}

/* Half bytes in order, the low half first, as [k, n]. */
static flx_val nibbles(flxi_site *s, flx_val w, flx_dim k, flx_dim n)
{
    flx_graph *g = s->g;
    flx_dim flat = flxi_type_count(s->ctx, flxi_typeof(s, w));
    flx_dim both = flx_dim_mul(s->ctx, flat, 2);
    w = flxi_reshape_to(s, w, 1, &flat);
    flx_val halves[2] = {flx_bit_and(g, w, flxi_number(s, w, 15)), flx_shr_logical(g, w, flxi_number(s, w, 4))};
    flx_val codes = flxi_reshape_to(s, flx_stack(g, halves, 2, 1), 1, &both);
    flx_dim count = flx_dim_mul(s->ctx, k, n);
    if (flxi_dim_is_number(count) && count % 2)
        codes = flx_narrow(g, codes, 0, 0, count);
    return flxi_reshape_to(s, codes, 2, (flx_dim[]){k, n});
}

/* (codes - zp) scale; zp may be FLX_NONE. */
static flx_val scaled_codes(flxi_site *s, flx_val codes, uint32_t zp, flx_dtype dtype)
{
    const matmul_attrs *a = s->attrs;
    flx_dim k = flxi_typeof(s, codes)->dims[0];
    flx_val v = flx_cast(s->g, codes, dtype);
    if (zp)
        v = flx_sub(s->g, v, spread_blocks(s, flx_cast(s->g, s->x[zp], dtype), a->bs, k));
    return flx_mul(s->g, v, spread_blocks(s, flx_cast(s->g, s->x[2], dtype), a->bs, k));
}

static flx_val decode_int8(flxi_site *s, flx_dim k, flx_dim n, flx_dtype dtype)
{
    (void)k;
    (void)n;
    return scaled_codes(s, s->x[1], ((const matmul_attrs *)s->attrs)->scheme == SCHEME_INT8_BLOCK_ASYM ? 3 : 0, dtype);
}

static flx_val decode_int4(flxi_site *s, flx_dim k, flx_dim n, flx_dtype dtype)
{
    return scaled_codes(s, nibbles(s, s->x[1], k, n), 3, dtype);
}

static flx_val decode_fp8(flxi_site *s, flx_dim k, flx_dim n, flx_dtype dtype)
{
    (void)k;
    (void)n;
    bool e4m3 = ((const matmul_attrs *)s->attrs)->scheme == SCHEME_FP8_E4M3;
    flx_val v = lookup_fp8(s, dtype, e4m3 ? flxi_from_f8_e4m3 : flxi_from_f8_e5m2, false, s->x[1]);
    return flx_mul(s->g, v, flx_cast(s->g, s->x[2], dtype));
}

static flx_val decode_nvfp4(flxi_site *s, flx_dim k, flx_dim n, flx_dtype dtype)
{
    static const double codes[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
    flx_graph *g = s->g;
    flx_val v = lookup(s, dtype, codes, 16, nibbles(s, s->x[1], k, n));
    flx_val scale = lookup_fp8(s, dtype, flxi_from_f8_e4m3, true, s->x[2]);
    v = flx_mul(g, v, spread_blocks(s, scale, NVFP4_BLOCK, k));
    return flx_mul(g, v, flxi_reshape_to(s, flx_cast(g, s->x[3], dtype), 0, NULL));
}

/* [E, K, N] in this dtype */
static flx_val decode_matrices(flxi_site *s, flx_val w, int64_t gguf, const flx_dim *dims, flx_dtype dtype)
{
    static const char *const names[] = {
#define NAME(name, count, nbytes) "gguf_" #name,
        FLXI_GGUF_MAP(NAME)
#undef NAME
    };
    flx_attr attrs[] = {flx_attr_word("scheme", names[gguf]), flx_attr_int("E", dims[0]), flx_attr_int("K", dims[1]),
                        flx_attr_int("N", dims[2])};
    return flx_cast(s->g, flx_op1(s->g, "dequant_moe_weights", &w, 1, attrs, 4), dtype);
}

static flx_val decode_gguf(flxi_site *s, flx_dim k, flx_dim n, flx_dtype dtype)
{
    flx_val v = decode_matrices(s, s->x[1], ((const matmul_attrs *)s->attrs)->scheme - SCHEME_GGUF,
                                (flx_dim[]){1, k, n}, dtype);
    return flxi_reshape_to(s, v, 2, (flx_dim[]){k, n});
}

/* ---- dequant_matmul ---- */

typedef struct {
    flx_code (*infer)(flxi_infer *f, flx_dim k, flx_dim *n);
    flx_val (*decode)(flxi_site *s, flx_dim k, flx_dim n, flx_dtype dtype); /* as [k, n] */
} scheme;

static const scheme *scheme_of(const void *attrs)
{
    static const scheme schemes[] = {
        [SCHEME_INT8_BLOCK] = {infer_int8, decode_int8}, [SCHEME_INT8_BLOCK_ASYM] = {infer_int8, decode_int8},
        [SCHEME_INT4_BLOCK] = {infer_int4, decode_int4}, [SCHEME_FP8_E4M3] = {infer_fp8, decode_fp8},
        [SCHEME_FP8_E5M2] = {infer_fp8, decode_fp8},     [SCHEME_NVFP4_BLOCK] = {infer_nvfp4, decode_nvfp4},
        [SCHEME_GGUF] = {infer_gguf, decode_gguf},
    };
    int64_t i = ((const matmul_attrs *)attrs)->scheme;
    return &schemes[i < SCHEME_GGUF ? i : SCHEME_GGUF];
}

/* The grid of the scheme where x is rounded; NULL where it is not. */
static const flxi_gguf_grid *rounding_grid(const matmul_attrs *a)
{
    return a->x_bits && a->scheme >= SCHEME_GGUF ? &flxi_gguf_grids[a->scheme - SCHEME_GGUF] : NULL;
}

static flx_code check_rounding(flxi_infer *f)
{
    const matmul_attrs *a = f->attrs;
    const flxi_gguf_grid *grid = rounding_grid(a);
    if (a->x_bits == 0 || (a->x_bits == 8 && grid && grid->count > 0))
        return FLX_OK;
    if (a->x_bits != 8)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "x_bits must be 0 or 8: it is %lld", (long long)a->x_bits);
    return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "x_bits=0 multiplies by x as it is",
                           "x_bits=8 needs a scheme of GGUF files whose blocks are integers with scales, as gguf_q4_0");
}

static flx_code infer_matmul(flxi_infer *f)
{
    const matmul_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    flx_dim n;
    FLXI_TRY(flxi_need_rank(f, 0, 2));
    if (a->bs < 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "bs must be at least 1: it is %lld", (long long)a->bs);
    FLXI_TRY(check_rounding(f));
    FLXI_TRY(scheme_of(a)->infer(f, x->dims[x->rank - 1], &n));
    f->out[0] = *x;
    f->out[0].dims[x->rank - 1] = n;
    return FLX_OK;
}

/* The columns, inferred again: which operand determines them depends on the scheme. */
static flx_dim columns_of(flxi_site *s)
{
    const flx_type **types = flxi_rule_new(s, const flx_type *, s->nin);
    flx_type y;
    flx_type *out = &y;
    uint32_t nout = 1;
    flx_error err = {0};
    void *attrs = flxi_site_attrs(s);
    if (!types || !attrs)
        return 0;
    for (uint32_t i = 0; i < s->nin; i++)
        types[i] = flxi_typeof(s, s->x[i]);
    if (flxi_infer_node(s->g, (flxi_opcode)(s->op - flxi_ops), types, s->nin, attrs, &out, &nout, &err) != FLX_OK) {
        flxi_graph_fail(s->g, &err);
        return 0;
    }
    return y.dims[y.rank - 1];
}

/* x rounded to 8 bits in blocks of `count` numbers. */
static flx_val round_blocks(flxi_site *s, flx_val x, int count)
{
    const flx_type t = *flxi_typeof(s, x);
    flx_dim dims[2] = {flx_dim_div(s->ctx, flxi_type_count(s->ctx, &t), count), count};
    flx_val blocks = flxi_reshape_to(s, x, 2, dims);
    const flx_attr attrs[] = {flx_attr_int("axis", 0), flx_attr_word("ste", "identity")};
    return flxi_reshape_to(s, flx_op1(s->g, "fake_quantize", &blocks, 1, attrs, 2), t.rank, t.dims);
}

static void decompose_matmul(flxi_site *s, flx_val *y)
{
    flx_val x = flxi_wide(s, s->x[0]);
    const flx_type *t = flxi_typeof(s, x);
    flx_dim k = t->rank ? t->dims[t->rank - 1] : 0;
    const flxi_gguf_grid *grid = rounding_grid(s->attrs);
    if (grid) {
        x = round_blocks(s, x, grid->count);
        t = flxi_typeof(s, x);
    }
    flx_val w = scheme_of(s->attrs)->decode(s, k, columns_of(s), (flx_dtype)t->dtype);
    y[0] = flxi_as(s, flx_matmul(s->g, x, w), s->x[0]);
}

static flx_code eval_rounded(flxi_eval *e, flxi_gguf format)
{
    const flx_type *x = &e->in[0]->type;
    const int64_t k = x->dims[x->rank - 1], columns = e->out[0]->type.dims[x->rank - 1];
    const int64_t rows = columns ? e->out[0]->count / columns : 0;
    const int64_t row_bytes = k / flxi_gguf_grids[format].count * flxi_gguf_grids[format].nbytes;
    const flxi_rounded_layout layout = flxi_rounded_layout_of(format, k);
    const size_t size = (size_t)(rows * layout.size) + 64;
    char *room = flxi_alloc(e->mem, 1, size);
    if (!room)
        return flxi_oom(e->err, "a rounded operand");
    char *rounded = room + (64 - (uintptr_t)room % 64) % 64;
    for (int64_t i = 0; i < rows; i++)
        flxi_round_row(format, (const float *)e->in[0]->data + i * k, k, rounded + i * layout.size);
    for (int64_t j = 0; j < columns && !flxi_stopped(); j++)
        flxi_rounded_products(format, (const uint8_t *)e->in[1]->data + j * row_bytes, rounded, rows, k,
                              (float *)e->out[0]->data + j, columns);
    flxi_free(e->mem, room, 1, size);
    return FLX_OK;
}

static flx_code eval_matmul(flxi_eval *e)
{
    const matmul_attrs *a = e->attrs;
    bool is_rounded = rounding_grid(a) && e->in[0]->type.dtype == FLX_F32;
    return is_rounded ? eval_rounded(e, (flxi_gguf)(a->scheme - SCHEME_GGUF)) : flxi_eval_decomposed(e);
}

/* A batch of x alone becomes more leading axes; a batch of weights is decoded one example at a time. */
static void batch_matmul(flxi_site *s, flx_val *by)
{
    for (uint32_t i = 1; i < s->nin; i++)
        if (s->batched[i]) {
            flxi_batch_decomposed(s, by);
            return;
        }
    flxi_append(s, NULL, s->x, s->nin, by);
}

/* ---- dequant_moe_weights ---- */

static flx_code infer_weights(flxi_infer *f)
{
    const weights_attrs *a = f->attrs;
    flx_dim nbytes;
    FLXI_TRY(flxi_need_count(f, "E", a->E));
    FLXI_TRY(flxi_need_count(f, "K", a->K));
    FLXI_TRY(flxi_need_count(f, "N", a->N));
    FLXI_TRY(row_bytes(f, a->scheme, a->K, &nbytes));
    FLXI_TRY(need_bytes(f, 0, flx_dim_mul(f->ctx, nbytes, flx_dim_mul(f->ctx, a->E, a->N))));
    f->out[0] = flx_type_make(FLX_F32, 3, (flx_dim[]){a->E, a->K, a->N});
    return FLX_OK;
}

static flx_code eval_weights(flxi_eval *e)
{
    const flxi_gguf_format *b = &flxi_gguf_formats[((const weights_attrs *)e->attrs)->scheme];
    const flx_dim *dims = e->out[0]->type.dims;
    const uint8_t *block = e->in[0]->data;
    float *y = (float *)e->out[0]->data;
    double numbers[FLXI_GGUF_MOST];
    if (e->out[0]->count == 0)
        return FLX_OK;
    for (int64_t row = 0; row < dims[0] * dims[2] && !flxi_stopped(); row++) {
        float *to = y + row / dims[2] * dims[1] * dims[2] + row % dims[2];
        for (int64_t p = 0; p < dims[1]; p += b->count, block += b->nbytes) {
            b->decode(block, numbers);
            for (int i = 0; i < b->count; i++)
                to[(p + i) * dims[2]] = (float)numbers[i];
        }
    }
    return FLX_OK;
}

/* A batch of lists of matrices is one longer list. */
static void batch_weights(flxi_site *s, flx_val *by)
{
    weights_attrs *a = flxi_site_attrs(s);
    if (!a)
        return;
    flx_dim dims[4] = {s->size, a->E, a->K, a->N};
    a->E = flx_dim_mul(s->ctx, s->size, a->E);
    by[0] = flxi_reshape_to(s, flxi_emit1(s, a, s->x, 1), 4, dims);
}

/* ---- dequant_grouped_matmul ---- */

static flx_code infer_grouped(flxi_infer *f)
{
    const grouped_attrs *a = f->attrs;
    const flx_type *x = f->in[0];
    const flx_type *e = f->in[2];
    flxi_type_text tx;
    flxi_type_text te;
    flx_dim nbytes;
    flx_dim count;
    FLXI_TRY(flxi_need_count(f, "N", a->N));
    FLXI_TRY(need_dtype(f, packed_weights, FLXI_BIT(FLX_U8), "u8"));
    if (x->rank != 2 || e->rank != 1 || !flxi_dims_may_equal(f, x->dims[0], e->dims[0]))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "x must be [M, K] and e [M]: x is %s, e is %s",
                               flxi_shape_str(f->ctx, x, &tx), flxi_shape_str(f->ctx, e, &te));
    FLXI_TRY(row_bytes(f, a->scheme, x->dims[1], &nbytes));
    FLXI_TRY(count_rows(f, 1, flx_dim_mul(f->ctx, nbytes, a->N), &count));
    f->out[0] = *x;
    f->out[0].dims[1] = a->N;
    return FLX_OK;
}

/* The number of matrices follows from the bytes. */
static flx_dim matrices_of(flxi_site *s, flx_dim k)
{
    const grouped_attrs *a = s->attrs;
    const flxi_gguf_format *b = &flxi_gguf_formats[a->scheme];
    flx_dim nbytes = flx_dim_mul(s->ctx, flx_dim_div(s->ctx, k, b->count), flx_dim_mul(s->ctx, a->N, b->nbytes));
    flx_dim all = flxi_type_count(s->ctx, flxi_typeof(s, s->x[1]));
    return nbytes == 0 ? 0 : flx_dim_div(s->ctx, all, nbytes);
}

static void decompose_grouped(flxi_site *s, flx_val *y)
{
    const grouped_attrs *a = s->attrs;
    flx_val x = flxi_wide(s, s->x[0]);
    const flx_type *t = flxi_typeof(s, x);
    flx_dim dims[3] = {matrices_of(s, t->dims[1]), t->dims[1], a->N};
    flx_val in[3] = {x, decode_matrices(s, s->x[1], a->scheme, dims, (flx_dtype)t->dtype), s->x[2]};
    y[0] = flxi_as(s, flx_op1(s->g, "grouped_matmul", in, 3, NULL, 0), s->x[0]);
}

/* The rows of all examples together, where they share the weights. */
static void batch_grouped(flxi_site *s, flx_val *by)
{
    if (s->batched[1]) {
        flxi_batch_decomposed(s, by);
        return;
    }
    flx_val x = flxi_lift(s, 0);
    const flx_type t = *flxi_typeof(s, x);
    flx_dim rows = flx_dim_mul(s->ctx, t.dims[0], t.dims[1]);
    flx_val in[3] = {flxi_reshape_to(s, x, 2, (flx_dim[]){rows, t.dims[2]}), s->x[1],
                     flxi_reshape_to(s, flxi_lift(s, 2), 1, &rows)};
    by[0] = flxi_reshape_to(s, flxi_emit1(s, NULL, in, 3), 3,
                            (flx_dim[]){t.dims[0], t.dims[1], ((const grouped_attrs *)s->attrs)->N});
}

/* ---- Rules ---- */

/* Bytes up to 59 give f16 scales below 1; the 32 terms of a sum have the same sign, so that nothing cancels. */
static const flxi_sample samples_matmul[] = {
    {"T[2, 5], i8[5, 3]{-128..127}, T[3, 3]{0.01..0.02}", "scheme=int8_block, bs=2", NULL, FLX_OK},
    {"T[2, 2, 4], i8[4, 2]{-128..127}, T[1, 2]{0.01..0.02}, T[1, 2]", "scheme=int8_block", NULL, FLX_OK},
    {"T[2, 5], i8[5, 2]{-128..127}, T[2, 2]{0.01..0.02}, T[2, 2]{-8..8}", "scheme=int8_block_asym, bs=3", NULL, FLX_OK},
    {"T[2, 4], u8[6]{0..255}, T[2, 3]{0.1..0.2}, T[2, 3]{7..9}", "scheme=int4_block, bs=2", NULL, FLX_OK},
    {"T[1, 3], u8[5]{0..255}, T[1, 3]{0.1..0.2}, T[1, 3]{7..9}", "scheme=int4_block", NULL, FLX_OK},
    {"T[2, 3], u8[3, 2]{0..90}, T[2]{0.5..1}", "scheme=fp8_e4m3", NULL, FLX_OK},
    {"T[2, 3], u8[3, 2]{128..180}, T[1]{0.5..1}", "scheme=fp8_e5m2", NULL, FLX_OK},
    {"T[2, 18], u8[18]{0..255}, u8[2, 2]{30..80}, T[1]{0.5..1}", "scheme=nvfp4_block", NULL, FLX_OK},
    {"T[2, 32]{0.5..1}, u8[2, 20]{0..59}", "scheme=gguf_q4_1", NULL, FLX_OK},
    {"T[1, 32]{0.5..1}, u8[48]{0..59}", "scheme=gguf_q5_1", NULL, FLX_OK},
    {"T[N, 32]{0.5..1}, u8[M, 34]{0..59}", "scheme=gguf_q8_0", NULL, FLX_OK},
    {"T[N, 4], i8[4, 2], T[2, 2]{0.5..1}", "scheme=int8_block, bs=2", NULL, FLX_OK},
    {"T[0, 2], i8[2, 2], T[1, 2]", "scheme=int8_block", NULL, FLX_OK},
    {"T[2, 0], i8[0, 2], T[0, 2], T[0, 2]", "scheme=int8_block_asym", NULL, FLX_OK},
    {"T[2, 32], u8[0, 18]", "scheme=gguf_q4_0", NULL, FLX_OK},
    {"T[2, 32]{0.5..1}, u8[2, 20]{0..59}", "scheme=gguf_q4_1, x_bits=8", NULL, FLX_OK},
    {"T[N, 32]{0.5..1}, u8[3, 34]{0..59}", "scheme=gguf_q8_0, x_bits=8", NULL, FLX_OK},
    {"T[1, 256]{0.5..1}, u8[2, 144]{0..59}", "scheme=gguf_q4_k, x_bits=8", NULL, FLX_OK},
    {"T[2, 0], u8[2, 0]", "scheme=gguf_q4_0, x_bits=8", NULL, FLX_OK},
    {"T[2, 4], i8[4, 2], T[1, 2]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"T[2, 4], i8[4, 2], T[1, 2]", "scheme=int8_block, bs=0", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 4], i8[4, 2], T[1, 2]", "scheme=int3", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 4], i8[4, 2], T[1, 2]", "scheme=int8_block, x_bits=8", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 32], u8[2, 18]", "scheme=gguf_q4_0, x_bits=4", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 32], u8[2, 64]", "scheme=gguf_f16, x_bits=8", NULL, FLX_E_ATTRIBUTE},
    {"T[2, 4], i8[4, 2], T[1, 2]", "scheme=int8_block_asym", NULL, FLX_E_ARITY},
    {"T[2, 4], i8[4, 2], T[1, 2]", "scheme=int8_block, bs=2", NULL, FLX_E_SHAPE},
    {"T[2, 4], i8[3, 2], T[1, 2]", "scheme=int8_block", NULL, FLX_E_SHAPE},
    {"T[2, 4], u8[4, 2], T[1, 2]", "scheme=int8_block", NULL, FLX_E_DTYPE},
    {"T[2, 4], i8[4, 2], i32[1, 2]", "scheme=int8_block", NULL, FLX_E_DTYPE},
    {"T[4], i8[4, 2], T[1, 2]", "scheme=int8_block", NULL, FLX_E_SHAPE},
    {"T[2, 4], u8[5], T[1, 3], T[1, 3]", "scheme=int4_block", NULL, FLX_E_SHAPE},
    {"T[2, 3], u8[3, 2], T[3]", "scheme=fp8_e4m3", NULL, FLX_E_SHAPE},
    {"T[2, 16], u8[16], f32[1, 2], T[1]", "scheme=nvfp4_block", NULL, FLX_E_DTYPE},
    {"T[2, 16], u8[4, 9]", "scheme=gguf_q4_0", NULL, FLX_E_SHAPE},
    {"T[2, 32], u8[2, 17]", "scheme=gguf_q4_0", NULL, FLX_E_SHAPE},
    {"T[2, 32], u8[2, 18], T[1, 2]", "scheme=gguf_q4_0", NULL, FLX_E_ARITY},
    {0},
};

static const flxi_sample samples_grouped[] = {
    {"T[3, 32]{0.5..1}, u8[2, 40]{0..59}, i32[3]{0..1}", "scheme=gguf_q4_1, N=2", NULL, FLX_OK},
    {"T[2, 32]{0.5..1}, u8[60]{0..59}, i64[2]{0..2}", "scheme=gguf_q4_1, N=1", NULL, FLX_OK},
    {"T[M, 32]{0.5..1}, u8[2, 34]{0..59}, i32[M]{0..1}", "scheme=gguf_q8_0, N=1", NULL, FLX_OK},
    {"T[0, 32], u8[1, 36]{0..59}, i32[0]", "scheme=gguf_q4_0, N=2", NULL, FLX_OK},
    {"T[3, 32], u8[2, 36], i32[2]", "scheme=gguf_q4_0, N=2", NULL, FLX_E_SHAPE},
    {"T[3, 16], u8[2, 36], i32[3]", "scheme=gguf_q4_0, N=2", NULL, FLX_E_SHAPE},
    {"T[3, 32], u8[2, 35], i32[3]", "scheme=gguf_q4_0, N=2", NULL, FLX_E_SHAPE},
    {"T[3, 32], i8[2, 36], i32[3]", "scheme=gguf_q4_0, N=2", NULL, FLX_E_DTYPE},
    {"T[3, 32], u8[2, 36], i32[3]", "scheme=fp8_e4m3, N=2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 32], u8[2, 36], i32[3]", "scheme=gguf_q4_0", NULL, FLX_E_ATTRIBUTE},
    {0},
};

#define BLOCKS(text, count, nbytes) \
    {"u8[2, " #nbytes "]{0..255}", "scheme=gguf_" #text ", E=1, K=" #count ", N=2", NULL, FLX_OK},

static const flxi_sample samples_weights[] = {
    FLXI_GGUF_MAP(BLOCKS) /* every scheme */
    {"u8[144]{0..255}", "scheme=gguf_q4_0, E=2, K=64, N=2", NULL, FLX_OK},
    {"u8[M, 18]{0..255}", "scheme=gguf_q4_0, E=1, K=32, N=M", NULL, FLX_OK},
    {"u8[0]", "scheme=gguf_q4_k, E=0, K=256, N=3", NULL, FLX_OK},
    {"u8[2, 18]", "scheme=gguf_q4_0, E=1, K=32, N=3", NULL, FLX_E_SHAPE},
    {"u8[2, 18]", "scheme=gguf_q4_0, E=1, K=16, N=4", NULL, FLX_E_SHAPE},
    {"u8[2, 18]", "scheme=gguf_q4_0, E=1, K=K, N=2", NULL, FLX_E_SHAPE},
    {"u8[2, 18]", "scheme=gguf_q4_0, E=-1, K=32, N=2", NULL, FLX_E_ATTRIBUTE},
    {"u8[2, 18]", "scheme=gguf_q4_0, E=1, K=32", NULL, FLX_E_ATTRIBUTE},
    {"i8[2, 18]", "scheme=gguf_q4_0, E=1, K=32, N=2", NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_dequant_matmul = {
    .infer = infer_matmul,
    .eval = eval_matmul,
    .decompose = decompose_matmul,
    .vjp = flxi_vjp_decomposed,
    .jvp = flxi_jvp_decomposed,
    .batch = batch_matmul,
    .schema = matmul_schema,
    .attrs_size = sizeof(matmul_attrs),
    .samples = samples_matmul,
    .link = flxi_link_dense,
};

const flxi_rules flxi_rules_dequant_grouped_matmul = {
    .infer = infer_grouped,
    .eval = flxi_eval_decomposed,
    .decompose = decompose_grouped,
    .vjp = flxi_vjp_decomposed,
    .jvp = flxi_jvp_decomposed,
    .batch = batch_grouped,
    .schema = grouped_schema,
    .attrs_size = sizeof(grouped_attrs),
    .samples = samples_grouped,
    .link = flxi_link_dense,
};

const flxi_rules flxi_rules_dequant_moe_weights = {
    .infer = infer_weights,
    .eval = eval_weights,
    .batch = batch_weights,
    .schema = weights_schema,
    .attrs_size = sizeof(weights_attrs),
    .samples = samples_weights,
};
