/* SPDX-License-Identifier: Apache-2.0 */
/* conv_patches.c: see conv_patches.h. Indices are taken apart once for each run of neighbours; within a run nothing is
   divided. */
#include "backend/cpu/conv/conv_patches.h"

#include "backend/cpu/gemm/gemm_engine.h"

typedef struct { /* which part of the matrix, and the steps of the destination */
    int64_t position, positions, position_step;
    int64_t tap, taps, tap_step;
} patch_part;

typedef struct {
    int64_t outer; /* image of a position, channel of a tap */
    int64_t at[FLX_MAX_RANK];
} patch_index;

static patch_index position_index(const flxi_patches *x, int64_t i)
{
    patch_index p;
    for (int k = x->spatial - 1; k >= 0; k--) {
        p.at[k] = i % x->axis[k].out;
        i /= x->axis[k].out;
    }
    p.outer = i;
    return p;
}

static patch_index tap_index(const flxi_patches *x, int64_t i)
{
    patch_index p;
    if (x->by_channel) {
        p.outer = i % x->channels;
        i /= x->channels;
    }
    for (int k = x->spatial - 1; k >= 0; k--) {
        p.at[k] = i % x->axis[k].taps;
        i /= x->axis[k].taps;
    }
    if (!x->by_channel)
        p.outer = i;
    return p;
}

/* In the order (channel, taps). */
static void next_tap(const flxi_patches *x, patch_index *tap)
{
    for (int k = x->spatial - 1; k >= 0; k--) {
        if (++tap->at[k] < x->axis[k].taps)
            return;
        tap->at[k] = 0;
    }
    tap->outer++;
}

/* Index `at` of the spread and padded axis as an index of the input, or -1. */
static inline int64_t input_index(const flxi_patch_axis *x, int64_t at)
{
    if (at < 0 || (x->spread != 1 && at % x->spread != 0))
        return -1;
    at = x->spread == 1 ? at : at / x->spread;
    return at < x->extent ? at : -1;
}

/* The element's offset as far as the image, the channel and the first `axes` axes say, or -1 for padding. */
static inline int64_t outer_offset(const flxi_patches *x, const patch_index *o, const patch_index *tap, int axes)
{
    int64_t offset = o->outer * x->image_step + tap->outer * x->channel_step;
    for (int k = 0; k < axes; k++) {
        const flxi_patch_axis *a = &x->axis[k];
        int64_t at = input_index(a, o->at[k] * a->stride + tap->at[k] * a->dilation - a->low);
        if (at < 0)
            return -1;
        offset += at * a->step;
    }
    return offset;
}

typedef struct { /* n positions from o on along one axis, under one tap */
    int64_t o, n;
    int64_t reach;      /* of the tap: position o meets index o stride + reach */
    int64_t begin, end; /* which of the n meet the input, where it has no gaps */
} patch_span;

static inline patch_span span_of(const flxi_patch_axis *x, int64_t tap, int64_t o, int64_t n)
{
    patch_span s = {.o = o, .n = n, .reach = tap * x->dilation - x->low};
    int64_t first = s.reach >= 0 ? 0 : x->stride == 1 ? -s.reach : (-s.reach + x->stride - 1) / x->stride;
    int64_t last = s.reach >= x->extent ? 0
                   : x->stride == 1     ? x->extent - s.reach
                                        : (x->extent - 1 - s.reach) / x->stride + 1;
    s.begin = first < o ? 0 : first - o < n ? first - o : n;
    s.end = last < o + s.begin ? s.begin : last - o < n ? last - o : n;
    return s;
}

#define SAME(x) (x)

#define S float
#define D float
#define CONVERT SAME
#define FN(name) f32_##name
#include "backend/cpu/conv/conv_patches.inc"

#define S double
#define D double
#define CONVERT SAME
#define FN(name) f64_##name
#include "backend/cpu/conv/conv_patches.inc"

#define S uint32_t
#define D uint32_t
#define CONVERT SAME
#define FN(name) u32_##name
#include "backend/cpu/conv/conv_patches.inc"

#define S uint64_t
#define D uint64_t
#define CONVERT SAME
#define FN(name) u64_##name
#include "backend/cpu/conv/conv_patches.inc"

#define S uint16_t
#define D float
#define CONVERT flxi_widen_f16
#define FN(name) f16_##name
#include "backend/cpu/conv/conv_patches.inc"

#define S uint16_t
#define D float
#define CONVERT flxi_widen_bf16
#define FN(name) bf16_##name
#include "backend/cpu/conv/conv_patches.inc"

/* ---- Neighbouring channels ---- */

static void clear_positions(char *to, size_t size, int64_t pitch, int64_t begin, int64_t end, int64_t depths)
{
    for (int64_t d = 0; begin < end && d < depths; d++)
        memset(to + (size_t)(d * pitch + begin) * size, 0, (size_t)(end - begin) * size);
}

/* Positions of one line under one tap are a matrix in memory whose rows are channels: it is packed as such.
   For inputs without gaps, and positions that are neighbours in the panel. */
static void fill_matrices(const flxi_patches *x, const char *base, char *to, const patch_part *p)
{
    const flxi_patch_axis *last = &x->axis[x->spatial - 1];
    size_t in = flx_dtype_size(x->dtype);
    size_t out = flxi_gemm_packed_size(x->dtype);
    int64_t n;
    int64_t channels;
    for (int64_t i = 0; i < p->positions; i += n) {
        patch_index o = position_index(x, p->position + i);
        int64_t o_last = o.at[x->spatial - 1];
        n = last->out - o_last < p->positions - i ? last->out - o_last : p->positions - i;
        for (int64_t t = 0; t < p->taps; t += channels) {
            patch_index tap = tap_index(x, p->tap + t);
            int64_t rest = x->channels - tap.outer;
            channels = rest < p->taps - t ? rest : p->taps - t;
            int64_t at = outer_offset(x, &o, &tap, x->spatial - 1);
            patch_span span = span_of(last, tap.at[x->spatial - 1], o_last, n);
            char *line = to + (size_t)(i + t * p->tap_step) * out;
            if (at < 0)
                span.begin = span.end = n;
            clear_positions(line, out, p->tap_step, 0, span.begin, channels);
            clear_positions(line, out, p->tap_step, span.end, n, channels);
            int64_t first = at + ((o_last + span.begin) * last->stride + span.reach) * last->step;
            const flxi_gemm_view run = {base + first * (int64_t)in, span.end - span.begin, last->stride * last->step,
                                        channels, x->channel_step};
            if (span.begin < span.end)
                flxi_gemm_pack_block(x->dtype, &run, line + (size_t)span.begin * out, p->tap_step);
        }
    }
}

/* ---- Entry ---- */

static void fill(const flxi_patches *x, const void *base, void *to, const patch_part *p)
{
    if (p->positions == 0 || p->taps == 0)
        return; /* an extent may be 0, by which nothing can be divided */
    if (x->by_channel && x->axis[x->spatial - 1].spread == 1 && p->position_step == 1) {
        fill_matrices(x, base, to, p);
        return;
    }
    switch (x->dtype) {
    case FLX_F64: f64_fill(x, base, to, p); return;
    case FLX_F16: f16_fill(x, base, to, p); return;
    case FLX_BF16: bf16_fill(x, base, to, p); return;
    case FLX_I32:
    case FLX_U32: u32_fill(x, base, to, p); return;
    case FLX_I64:
    case FLX_U64: u64_fill(x, base, to, p); return;
    default: f32_fill(x, base, to, p); return;
    }
}

int64_t flxi_patch_positions(const flxi_patches *x)
{
    int64_t count = x->images;
    for (int k = 0; k < x->spatial; k++)
        count *= x->axis[k].out;
    return count;
}

int64_t flxi_patch_taps(const flxi_patches *x)
{
    int64_t count = x->channels;
    for (int k = 0; k < x->spatial; k++)
        count *= x->axis[k].taps;
    return count;
}

void flxi_pack_positions(const void *user, const void *base, void *to, int64_t pitch, int64_t line, int64_t lines,
                         int64_t depth, int64_t depths)
{
    patch_part p = {line, lines, 1, depth, depths, pitch};
    fill(user, base, to, &p);
}

void flxi_pack_taps(const void *user, const void *base, void *to, int64_t pitch, int64_t line, int64_t lines,
                    int64_t depth, int64_t depths)
{
    patch_part p = {depth, depths, pitch, line, lines, 1};
    fill(user, base, to, &p);
}
