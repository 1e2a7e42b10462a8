/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_attention.c: attention and what is used with it. */
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

#include <math.h>

/* [B, S, H*D] as [B, H, S, D]; a tensor of four axes is that already. */
static flx_val split_heads(onnx_site *s, flx_val x, int64_t heads)
{
    const flx_type *t = flxi_onnx_typeof(s, x);
    if (t->rank == 4)
        return x;
    if (t->rank != 3 || heads < 1 || !flx_dim_is_static(t->dims[2]) || t->dims[2] % heads != 0) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "operands must be [B, H, S, D], or [B, S, H*D] with the number of heads");
        return x;
    }
    flx_val y = flx_reshape(s->g, x, .shape = FLX_INTS(t->dims[0], t->dims[1], heads, t->dims[2] / heads));
    return flx_transpose(s->g, y, .perm = FLX_INTS(0, 2, 1, 3));
}

static flx_val join_heads(onnx_site *s, flx_val x)
{
    const flx_type *t = flxi_onnx_typeof(s, x);
    flx_val y = flx_transpose(s->g, x, .perm = FLX_INTS(0, 2, 1, 3));
    return flx_reshape(s->g, y,
                       .shape = FLX_INTS(t->dims[0], t->dims[2], flx_dim_mul(s->g->ctx, t->dims[1], t->dims[3])));
}

/* Each head of keys or values for all heads of queries that share it. */
static flx_val share_heads(onnx_site *s, flx_val x, flx_dim heads)
{
    flx_dim have = flxi_onnx_dim(s, x, 1);
    if (have == heads || !flx_dim_is_static(have) || !flx_dim_is_static(heads) || have < 1 || heads % have != 0)
        return x;
    return flx_repeat(s->g, x, .repeats = heads / have, .axis = 1);
}

static flx_val transposed_keys(onnx_site *s, flx_val k)
{
    return flx_transpose(s->g, k, .perm = FLX_INTS(0, 1, 3, 2));
}

/* i64 positions along an axis of [1, 1, Q, K]. */
static flx_val positions(onnx_site *s, flx_dim queries, flx_dim keys, int axis)
{
    flx_type grid = {.dtype = FLX_I64, .rank = 4, .dims = {1, 1, queries, keys}};
    return flx_iota(s->g, .type = &grid, .axis = axis);
}

typedef struct {
    flx_val allowed; /* bool; FLX_NONE: all */
    flx_val bias;    /* added; FLX_NONE: nothing */
} masking;

static void allow(onnx_site *s, masking *m, flx_val condition)
{
    m->allowed = flxi_onnx_given(m->allowed) ? flx_and(s->g, m->allowed, condition) : condition;
}

/* A mask may have fewer keys than there are: the others are not allowed. */
static void apply_mask(onnx_site *s, masking *m, flx_val mask, flx_dim keys)
{
    int rank = flxi_onnx_rank(s, mask);
    flx_dim have = flxi_onnx_dim(s, mask, rank - 1);
    bool is_bool = flxi_onnx_dtype(s, mask) == FLX_BOOL;
    if (have != keys && have != 1 && flx_dim_is_static(have) && flx_dim_is_static(keys) && have < keys) {
        int64_t high[FLX_MAX_RANK] = {0};
        high[rank - 1] = keys - have;
        flx_val fill = is_bool ? flx_scalar(s->g, FLX_BOOL, 0) : flxi_onnx_number(s, mask, -(double)INFINITY);
        mask = flx_pad(s->g, mask, fill, .high = {high, (size_t)rank});
    }
    if (is_bool)
        allow(s, m, mask);
    else
        m->bias = mask;
}

/* Causal order, windows and the lengths of examples. */
static masking read_masks(onnx_site *s, flx_dim queries, flx_dim keys)
{
    masking m = {FLX_NONE, FLX_NONE};
    flx_val key = positions(s, queries, keys, 3), query = positions(s, queries, keys, 2);
    flx_val length = FLX_NONE;
    if (flxi_onnx_given(s->x[6])) {
        flx_dim batch = flxi_onnx_dim(s, s->x[6], 0);
        length = flx_reshape(s->g, flxi_onnx_cast(s, s->x[6], FLX_I64), .shape = FLX_INTS(batch, 1, 1, 1));
        allow(s, &m, flx_lt(s->g, key, length));
    }
    flx_val position = query;
    if (flxi_onnx_given(s->x[4]))
        position = flx_add(s->g, query, flx_dim_size(s->g, s->x[4], .axis = 2));
    else if (flxi_onnx_given(length) && s->version >= 24)
        position = flx_add(s->g, query, flx_sub(s->g, length, flx_dim_size(s->g, query, .axis = 2)));
    int64_t left = flxi_onnx_int(s, "left_window_size", -1), right = flxi_onnx_int(s, "right_window_size", -1);
    if (flxi_onnx_int(s, "is_causal", 0))
        allow(s, &m, flx_le(s->g, key, position));
    if (left >= 0)
        allow(s, &m, flx_ge(s->g, key, flx_sub(s->g, position, flx_scalar(s->g, FLX_I64, (double)left))));
    if (right >= 0)
        allow(s, &m, flx_le(s->g, key, flx_add(s->g, position, flx_scalar(s->g, FLX_I64, (double)right))));
    if (flxi_onnx_given(s->x[3]))
        apply_mask(s, &m, s->x[3], keys);
    return m;
}

/* A row without an allowed key is zero. */
static flx_val safe_softmax(onnx_site *s, flx_val scores, flx_dtype precision)
{
    flx_dtype d = flxi_onnx_dtype(s, scores);
    flx_val wide = flxi_onnx_cast(s, scores, precision);
    flx_val top = flx_reduce_max(s->g, wide, .axes = FLX_INTS(3), .keep_dims = 1);
    flx_val any = flx_gt(s->g, top, flxi_onnx_number(s, top, -(double)INFINITY));
    flx_val safe = flx_where(s->g, any, wide, flxi_onnx_number(s, wide, 0));
    flx_val p = flx_where(s->g, any, flxi_onnx_softmax(s, safe, 3), flxi_onnx_number(s, wide, 0));
    return flxi_onnx_cast(s, p, d);
}

static flx_val scaled_scores(onnx_site *s, flx_val q, flx_val k)
{
    flx_dim d = flxi_onnx_dim(s, q, 3);
    double scale = flxi_onnx_real(s, "scale", flx_dim_is_static(d) && d > 0 ? 1 / sqrt((double)d) : 1);
    flx_val root = flxi_onnx_number(s, q, sqrt(scale));
    return flx_matmul(s->g, flx_mul(s->g, q, root), flx_mul(s->g, transposed_keys(s, k), root));
}

static flx_val softcapped(onnx_site *s, flx_val x)
{
    double cap = flxi_onnx_real(s, "softcap", 0);
    if (cap <= 0)
        return x;
    flx_val c = flxi_onnx_number(s, x, cap);
    return flx_mul(s->g, c, flx_tanh(s->g, flx_div(s->g, x, c)));
}

static flx_val masked(onnx_site *s, flx_val x, const masking *m)
{
    if (flxi_onnx_given(m->bias))
        x = flx_add(s->g, x, flxi_onnx_cast(s, m->bias, flxi_onnx_dtype(s, x)));
    if (flxi_onnx_given(m->allowed))
        x = flx_where(s->g, m->allowed, x, flxi_onnx_number(s, x, -(double)INFINITY));
    return x;
}

static flx_val with_past(onnx_site *s, flx_val past, flx_val now)
{
    flx_val both[2] = {past, now};
    return flxi_onnx_given(past) ? flx_concat(s->g, both, 2, .axis = 2) : now;
}

void flxi_onnx_import_attention(onnx_site *s)
{
    bool packed = flxi_onnx_rank(s, s->x[0]) == 3;
    flx_val q = split_heads(s, s->x[0], flxi_onnx_int(s, "q_num_heads", 0));
    flx_val k = split_heads(s, s->x[1], flxi_onnx_int(s, "kv_num_heads", 0));
    flx_val v = split_heads(s, s->x[2], flxi_onnx_int(s, "kv_num_heads", 0));
    if (flxi_onnx_failed(s))
        return;
    s->y[1] = with_past(s, s->x[4], k);
    s->y[2] = with_past(s, s->x[5], v);
    flx_dim heads = flxi_onnx_dim(s, q, 1);
    k = share_heads(s, s->y[1], heads);
    v = share_heads(s, s->y[2], heads);
    masking m = read_masks(s, flxi_onnx_dim(s, q, 2), flxi_onnx_dim(s, k, 2));
    flx_val stage[4];
    stage[0] = scaled_scores(s, q, k);
    stage[1] = softcapped(s, stage[0]);
    stage[2] = masked(s, stage[1], &m);
    const onnx_element *e = flxi_onnx_element((int32_t)flxi_onnx_int(s, "softmax_precision", 0));
    stage[3] = safe_softmax(s, stage[2], e ? e->carrier : flxi_onnx_dtype(s, q));
    int64_t mode = flxi_onnx_int(s, "qk_matmul_output_mode", 0);
    s->y[3] = stage[mode >= 0 && mode < 4 ? mode : 0];
    flx_val y = flx_matmul(s->g, stage[3], v);
    s->y[0] = packed ? join_heads(s, y) : y;
}

/* ---- Rotary embedding ---- */

static flx_val pick(onnx_site *s, flx_val table, flx_val at)
{
    flx_val y = flxi_onnx_given(at) ? flx_gather(s->g, table, at, .axis = 0) : table;
    return flx_unsqueeze(s->g, y, .axes = FLX_INTS(2));
}

/* Rotates the pairs of x [B, S, H, R]. */
static flx_val rotated(onnx_site *s, flx_val x, flx_val c, flx_val sn, bool interleaved)
{
    const flx_type *t = flxi_onnx_typeof(s, x);
    flx_dim dims[5] = {t->dims[0], t->dims[1], t->dims[2], interleaved ? t->dims[3] / 2 : 2,
                       interleaved ? 2 : t->dims[3] / 2};
    int axis = interleaved ? 4 : 3;
    flx_val pairs = flx_reshape(s->g, x, .shape = {dims, 5});
    flx_val a = flx_squeeze(s->g, flxi_onnx_slice_axis(s, pairs, axis, 0, 1), .axes = FLX_INTS(axis));
    flx_val b = flx_squeeze(s->g, flxi_onnx_slice_axis(s, pairs, axis, 1, 2), .axes = FLX_INTS(axis));
    flx_val both[2] = {flx_sub(s->g, flx_mul(s->g, c, a), flx_mul(s->g, sn, b)),
                       flx_add(s->g, flx_mul(s->g, sn, a), flx_mul(s->g, c, b))};
    return flx_reshape(s->g, flx_stack(s->g, both, 2, .axis = axis), .shape = flxi_onnx_dims(t));
}

void flxi_onnx_import_rotary_embedding(onnx_site *s)
{
    flx_val x = s->x[0];
    const flx_type *t = flxi_onnx_typeof(s, x);
    int64_t heads = flxi_onnx_int(s, "num_heads", 0);
    bool is_packed = t->rank == 3;
    if (is_packed && (heads < 1 || !flx_dim_is_static(t->dims[2]) || t->dims[2] % heads)) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "num_heads does not fit the last axis");
        return;
    }
    flx_ints shape = flxi_onnx_dims(t);
    x = is_packed ? flx_reshape(s->g, x, .shape = FLX_INTS(t->dims[0], t->dims[1], heads, t->dims[2] / heads))
                  : flx_transpose(s->g, x, .perm = FLX_INTS(0, 2, 1, 3));
    flx_dim width = flxi_onnx_dim(s, x, 3);
    int64_t part = flxi_onnx_int(s, "rotary_embedding_dim", 0);
    part = part ? part : width;
    if (!flx_dim_is_static(width) || part > width || part % 2) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "rotary_embedding_dim does not fit heads of %lld", (long long)width);
        return;
    }
    flx_val c = pick(s, s->x[1], s->x[3]), sn = pick(s, s->x[2], s->x[3]);
    flx_val turn = part == width ? x : flxi_onnx_slice_axis(s, x, 3, 0, part);
    flx_val y = rotated(s, turn, c, sn, flxi_onnx_int(s, "interleaved", 0) != 0);
    flx_val both[2] = {y, part == width ? y : flxi_onnx_slice_axis(s, x, 3, part, width)};
    y = part == width ? y : flx_concat(s->g, both, 2, .axis = 3);
    s->y[0] = is_packed ? flx_reshape(s->g, y, .shape = shape) : flx_transpose(s->g, y, .perm = FLX_INTS(0, 2, 1, 3));
}

/* ---- Others ---- */

void flxi_onnx_import_swiglu(onnx_site *s)
{
    flx_val a = s->x[0];
    flx_val gate = flx_sigmoid(s->g, flx_mul(s->g, a, flxi_onnx_number(s, a, flxi_onnx_real(s, "alpha", 1))));
    s->y[0] = flx_mul(s->g, flx_mul(s->g, a, gate), s->x[1]);
}

/* A depthwise convolution along the last axis that sees the past; the last k - 1 positions are kept for the next. */
void flxi_onnx_import_causal_conv(onnx_site *s)
{
    flx_val x = s->x[0];
    const flx_type *t = flxi_onnx_typeof(s, x);
    flx_dim k = flxi_onnx_dim(s, s->x[1], 2);
    if (t->rank != 3 || !flx_dim_is_static(k) || !flx_dim_is_static(t->dims[2]) || !flx_dim_is_static(t->dims[1])) {
        flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "its operand must be [N, C, L] with static extents");
        return;
    }
    flx_val past = flxi_onnx_given(s->x[3])
                       ? s->x[3]
                       : flxi_onnx_fill(s, flxi_onnx_number(s, x, 0), FLX_INTS(t->dims[0], t->dims[1], k - 1));
    flx_val both[2] = {past, x};
    flx_val all = flx_concat(s->g, both, 2, .axis = 2);
    flx_val y = flx_conv(s->g, all, s->x[1], .groups = t->dims[1]);
    if (flxi_onnx_given(s->x[2]))
        y = flx_add(s->g, y, flx_reshape(s->g, s->x[2], .shape = FLX_INTS(t->dims[1], 1)));
    const char *act = flxi_onnx_word(s, "activation", "none");
    s->y[0] = strcmp(act, "none") == 0 ? y : flx_silu(s->g, y);
    s->y[1] = flxi_onnx_slice_axis(s, all, 2, t->dims[2], t->dims[2] + k - 1);
}
