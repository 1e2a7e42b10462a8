/* conv_patches.c: see conv_patches.h. Indices are taken apart once for each run of neighbours; within a run nothing is
   divided. */
#include "backend/cpu/conv_patches.h"

#include "backend/cpu/gemm_engine.h"

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

/* Place `at` of the spread and padded axis as a place of the input, or -1. */
static inline int64_t place_of(const flxi_patch_axis *x, int64_t at)
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
        int64_t at = place_of(a, o->at[k] * a->stride + tap->at[k] * a->dilation - a->low);
        if (at < 0)
            return -1;
        offset += at * a->step;
    }
    return offset;
}

#define SAME(x) (x)

#define S float
#define D float
#define CONVERT SAME
#define FN(name) f32_##name
#include "backend/cpu/conv_patches.inc"

#define S double
#define D double
#define CONVERT SAME
#define FN(name) f64_##name
#include "backend/cpu/conv_patches.inc"

#define S uint16_t
#define D float
#define CONVERT flxi_widen_f16
#define FN(name) f16_##name
#include "backend/cpu/conv_patches.inc"

#define S uint16_t
#define D float
#define CONVERT flxi_widen_bf16
#define FN(name) bf16_##name
#include "backend/cpu/conv_patches.inc"

static void fill(const flxi_patches *x, const void *base, void *to, const patch_part *p)
{
    switch (x->dtype) {
    case FLX_F64: f64_fill(x, base, to, p); return;
    case FLX_F16: f16_fill(x, base, to, p); return;
    case FLX_BF16: bf16_fill(x, base, to, p); return;
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
