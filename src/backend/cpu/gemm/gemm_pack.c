/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_pack.c: the border of the matrix product: elements of any dtype and layout come in as panels of the type
   products are computed in, and finished sums go out, rounded or wrapped once. */
#include "backend/cpu/gemm/gemm_engine.h"
#include "backend/cpu/gemm/gemm_square.h"
#include "backend/cpu/gemm/gemm_turn.h"
#include "base/half.h"

/* ---- Kinds ---- */

flxi_gemm_kind flxi_gemm_kind_of(int32_t dtype)
{
    switch (dtype) {
    case FLX_F64: return GEMM_F64;
    case FLX_F32:
    case FLX_F16:
    case FLX_BF16: return GEMM_F32;
    case FLX_C64: return GEMM_C64;
    case FLX_C128: return GEMM_C128;
    case FLX_I64:
    case FLX_U64: return GEMM_U64;
    case FLX_BOOL: return GEMM_TRUTH;
    default: return GEMM_U32;
    }
}

bool flxi_gemm_is_native(int32_t dtype)
{
    return flxi_in(FLXI_BIT(FLX_F64) | FLXI_BIT(FLX_F32) | FLXI_BIT(FLX_I64) | FLXI_BIT(FLX_U64) | FLXI_BIT(FLX_I32) |
                       FLXI_BIT(FLX_U32),
                   dtype);
}

/* ---- Walks ---- */

void flxi_walk_push(flxi_walk *w, int64_t dim, int64_t step)
{
    if (dim == 1)
        return;
    if (w->rank > 0 && w->steps[w->rank - 1] == dim * step) {
        w->dims[w->rank - 1] *= dim;
        w->steps[w->rank - 1] = step;
        return;
    }
    w->dims[w->rank] = dim;
    w->steps[w->rank++] = step;
}

int64_t flxi_walk_count(const flxi_walk *w)
{
    int64_t count = 1;
    for (int k = 0; k < w->rank; k++)
        count *= w->dims[k];
    return count;
}

int64_t flxi_walk_at(const flxi_walk *w, int64_t index, int64_t *run)
{
    if (w->rank == 0) {
        *run = 1;
        return 0;
    }
    int last = w->rank - 1;
    if (last == 0) {
        *run = w->dims[0] - index;
        return index * w->steps[0];
    }
    int64_t offset = index % w->dims[last] * w->steps[last];
    *run = w->dims[last] - index % w->dims[last];
    index /= w->dims[last];
    for (int k = last - 1; k >= 0; k--) {
        offset += index % w->dims[k] * w->steps[k];
        index /= w->dims[k];
    }
    return offset;
}

/* ---- Reading elements ---- */

#define SAME(x) (x)
#define WIDE(x) ((uint32_t)(x))
#define WIDE64(x) ((uint64_t)(x))
#define MASK(x) ((x) ? UINT32_MAX : 0)

/* Rows of `nbytes`, copied as they are. The common lengths are constants: then a row is a few vector moves. */
#define COPY_ROWS(n)                                  \
    for (int64_t k = 0; k < depths; k++)              \
        memcpy(to + k * pitch, from + k * step, (n)); \
    return
static void copy_rows(const char *from, int64_t step, char *to, int64_t pitch, size_t nbytes, int64_t depths)
{
    switch (nbytes) {
    case 24: COPY_ROWS(24);
    case 32: COPY_ROWS(32);
    case 48: COPY_ROWS(48);
    case 64: COPY_ROWS(64);
    case 256: COPY_ROWS(256);
    default: COPY_ROWS(nbytes);
    }
}

/* Four lines of `depths` words, turned in squares of 4 x 4. */
static void turn_words(const uint32_t *s, int64_t line_step, uint32_t *d, int64_t pitch, int64_t depths)
{
    for (int64_t k = 0; k + 4 <= depths; k += 4) {
        const flxi_word4 line[4] = {flxi_load_word4(s + k), flxi_load_word4(s + line_step + k),
                                    flxi_load_word4(s + 2 * line_step + k), flxi_load_word4(s + 3 * line_step + k)};
        flxi_turn_square(line, d + k * pitch, pitch);
    }
    for (int64_t k = depths / 4 * 4; k < depths; k++)
        for (int64_t i = 0; i < 4; i++)
            d[k * pitch + i] = s[i * line_step + k];
}

/* A block with one step along lines and one along the depth. Lines are taken four at a time, so that their cache lines
   fit even where their distance is a power of two. */
#define PACK(name, S, D, convert)                                                                                 \
    static void name(const void *from, void *to, int64_t pitch, int64_t lines, int64_t line_step, int64_t depths, \
                     int64_t depth_step)                                                                          \
    {                                                                                                             \
        const S *s = from;                                                                                        \
        D *d = to;                                                                                                \
        int64_t i = 0;                                                                                            \
        if (line_step == 1) {                                                                                     \
            for (int64_t k = 0; k < depths; k++)                                                                  \
                for (i = 0; i < lines; i++)                                                                       \
                    d[k * pitch + i] = convert(s[k * depth_step + i]);                                            \
            return;                                                                                               \
        }                                                                                                         \
        for (; i + 4 <= lines; i += 4) {                                                                          \
            const S *s0 = s + i * line_step;                                                                      \
            const S *s1 = s0 + line_step;                                                                         \
            const S *s2 = s1 + line_step;                                                                         \
            const S *s3 = s2 + line_step;                                                                         \
            D *p = d + i;                                                                                         \
            for (int64_t k = 0; k < depths; k++, p += pitch) {                                                    \
                p[0] = convert(s0[k * depth_step]);                                                               \
                p[1] = convert(s1[k * depth_step]);                                                               \
                p[2] = convert(s2[k * depth_step]);                                                               \
                p[3] = convert(s3[k * depth_step]);                                                               \
            }                                                                                                     \
        }                                                                                                         \
        for (; i < lines; i++)                                                                                    \
            for (int64_t k = 0; k < depths; k++)                                                                  \
                d[k * pitch + i] = convert(s[i * line_step + k * depth_step]);                                    \
    }

PACK(pack_any_64, uint64_t, uint64_t, SAME)
PACK(pack_any_32, uint32_t, uint32_t, SAME)
PACK(pack_f16, uint16_t, float, flxi_widen_f16)
PACK(pack_bf16, uint16_t, float, flxi_widen_bf16)
PACK(pack_i16, int16_t, uint32_t, WIDE)
PACK(pack_u16, uint16_t, uint32_t, WIDE)
PACK(pack_i8, int8_t, uint32_t, WIDE)
PACK(pack_u8, uint8_t, uint32_t, WIDE)
PACK(pack_truth, uint8_t, uint32_t, MASK)

/* Elements that are computed with as they are: only their bytes move. */
static void pack_32(const void *from, void *to, int64_t pitch, int64_t lines, int64_t line_step, int64_t depths,
                    int64_t depth_step)
{
    const uint32_t *s = from;
    uint32_t *d = to;
    int64_t i = 0;
    if (line_step == 1) {
        copy_rows(from, depth_step * 4, to, pitch * 4, (size_t)lines * 4, depths);
        return;
    }
    if (depth_step == 1 && flxi_turn_words(FLXI_ISA_BEST, from, to, pitch, lines, line_step, depths))
        return;
    if (depth_step == 1)
        for (; i + 4 <= lines; i += 4)
            turn_words(s + i * line_step, line_step, d + i, pitch, depths);
    pack_any_32(s + i * line_step, d + i, pitch, lines - i, line_step, depths, depth_step);
}

static void pack_64(const void *from, void *to, int64_t pitch, int64_t lines, int64_t line_step, int64_t depths,
                    int64_t depth_step)
{
    if (line_step == 1)
        copy_rows(from, depth_step * 8, to, pitch * 8, (size_t)lines * 8, depths);
    else
        pack_any_64(from, to, pitch, lines, line_step, depths, depth_step);
}

typedef void (*pack_fn)(const void *from, void *to, int64_t pitch, int64_t lines, int64_t line_step, int64_t depths,
                        int64_t depth_step);

static const pack_fn packers[FLX_DTYPE_COUNT] = {
    [FLX_F64] = pack_64,  [FLX_F32] = pack_32,  [FLX_F16] = pack_f16, [FLX_BF16] = pack_bf16, [FLX_C64] = pack_32,
    [FLX_C128] = pack_64, [FLX_I64] = pack_64,  [FLX_U64] = pack_64,  [FLX_I32] = pack_32,    [FLX_U32] = pack_32,
    [FLX_I16] = pack_i16, [FLX_U16] = pack_u16, [FLX_I8] = pack_i8,   [FLX_U8] = pack_u8,     [FLX_BOOL] = pack_truth,
};

size_t flxi_gemm_packed_size(int32_t dtype)
{
    switch (flxi_gemm_kind_of(dtype)) {
    case GEMM_F64:
    case GEMM_C128:
    case GEMM_U64: return 8;
    default: return 4;
    }
}

void flxi_gemm_pack_block(int32_t dtype, const flxi_gemm_view *from, void *to, int64_t pitch)
{
    packers[dtype](from->at, to, pitch, from->lines, from->line_step, from->depths, from->depth_step);
}

/* Clears lines [lines, width) of a panel. */
static void clear_rest(char *to, size_t size, int64_t pitch, int64_t width, int64_t lines, int64_t depths)
{
    for (int64_t d = 0; lines < width && d < depths; d++)
        memset(to + (size_t)(d * pitch + lines) * size, 0, (size_t)(width - lines) * size);
}

/* One part (0 real, 1 imaginary) of all elements of a block, run by run. */
static void pack_part(const flxi_gemm_operand *x, int32_t dtype, const char *base, const flxi_gemm_region *r, char *to,
                      int64_t pitch)
{
    size_t unit = flx_dtype_size(dtype);
    size_t size = flxi_gemm_packed_size(dtype);
    int64_t spread = flxi_is_complex(dtype) ? 2 : 1;
    int64_t line_run;
    int64_t depth_run;
    for (int64_t d = 0; d < r->depths; d += depth_run) {
        int64_t depth_at = flxi_walk_at(&x->depth, r->depth + d, &depth_run);
        depth_run = depth_run < r->depths - d ? depth_run : r->depths - d;
        for (int64_t i = 0; i < r->lines; i += line_run) {
            int64_t line_at = flxi_walk_at(&x->line, r->line + i, &line_run);
            line_run = line_run < r->lines - i ? line_run : r->lines - i;
            packers[dtype](base + (depth_at + line_at) * (int64_t)unit, to + (size_t)(d * pitch + i) * size, pitch,
                           line_run, flxi_walk_step(&x->line) * spread, depth_run, flxi_walk_step(&x->depth) * spread);
        }
    }
}

void flxi_gemm_pack(const flxi_gemm_operand *x, int32_t dtype, const void *base, const flxi_gemm_region *r, void *to,
                    int64_t width)
{
    size_t size = flxi_gemm_packed_size(dtype);
    int parts = flxi_is_complex(dtype) ? 2 : 1;
    int64_t pitch = width * parts;
    for (int part = 0; part < parts; part++) {
        char *panel = (char *)to + (size_t)(part * width) * size;
        if (x->source)
            x->source->pack(x->source->user, base, panel, pitch, r->line, r->lines, r->depth, r->depths);
        else
            pack_part(x, dtype, (const char *)base + (size_t)part * size, r, panel, pitch);
        clear_rest(panel, size, pitch, width, r->lines, r->depths);
    }
}

/* ---- Writing results ---- */

static inline uint16_t to_bf16(float x)
{
    uint32_t bits = flxi_f32_bits(x);
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline uint16_t to_f16(float x)
{
    return flxi_to_f16((double)x);
}

static inline uint8_t to_truth(uint32_t x)
{
    return x != 0;
}

#define FINISH_REAL(name, S, D, narrow, widen)                                         \
    static void name(const flxi_gemm *p, const flxi_gemm_block *b)                     \
    {                                                                                  \
        const S *sums = b->sums;                                                       \
        const D *bias = p->bias;                                                       \
        const D *residual = b->residual;                                               \
        D *c = b->c;                                                                   \
        const S alpha = (S)p->alpha;                                                   \
        for (int64_t i = 0; i < b->rows; i++)                                          \
            for (int64_t j = 0; j < b->cols; j++) {                                    \
                int64_t row = b->i + i;                                                \
                int64_t col = b->j + j;                                                \
                int64_t at = row * p->c_row + col * p->c_col;                          \
                S x = sums[i * b->sums_row + j];                                       \
                x = alpha == (S)1 ? x : alpha * x;                                     \
                x = bias ? x + widen(bias[row * p->bias_row + col * p->bias_col]) : x; \
                x = residual ? x + widen(residual[at]) : x;                            \
                c[at] = narrow(x);                                                     \
            }                                                                          \
    }
FINISH_REAL(finish_f64, double, double, SAME, SAME)
FINISH_REAL(finish_f32, float, float, SAME, SAME)
FINISH_REAL(finish_f16, float, uint16_t, to_f16, flxi_widen_f16)
FINISH_REAL(finish_bf16, float, uint16_t, to_bf16, flxi_widen_bf16)

#define FINISH_INT(name, S, D, narrow)                                                                   \
    static void name(const flxi_gemm *p, const flxi_gemm_block *b)                                       \
    {                                                                                                    \
        const S *sums = b->sums;                                                                         \
        D *c = b->c;                                                                                     \
        for (int64_t i = 0; i < b->rows; i++)                                                            \
            for (int64_t j = 0; j < b->cols; j++)                                                        \
                c[(b->i + i) * p->c_row + (b->j + j) * p->c_col] = (D)narrow(sums[i * b->sums_row + j]); \
    }
FINISH_INT(finish_64, uint64_t, uint64_t, SAME)
FINISH_INT(finish_32, uint32_t, uint32_t, SAME)
FINISH_INT(finish_16, uint32_t, uint16_t, SAME)
FINISH_INT(finish_8, uint32_t, uint8_t, SAME)
FINISH_INT(finish_truth, uint32_t, uint8_t, to_truth)

#define FINISH_COMPLEX(name, T)                                                  \
    static void name(const flxi_gemm *p, const flxi_gemm_block *b)               \
    {                                                                            \
        const T *sums = b->sums;                                                 \
        T *c = b->c;                                                             \
        for (int64_t i = 0; i < b->rows; i++)                                    \
            for (int64_t j = 0; j < b->cols; j++) {                              \
                T *at = c + 2 * ((b->i + i) * p->c_row + (b->j + j) * p->c_col); \
                at[0] = sums[i * b->sums_row + j];                               \
                at[1] = sums[i * b->sums_row + b->sums_part + j];                \
            }                                                                    \
    }
FINISH_COMPLEX(finish_c64, float)
FINISH_COMPLEX(finish_c128, double)

typedef void (*finish_fn)(const flxi_gemm *p, const flxi_gemm_block *b);

static const finish_fn finishers[FLX_DTYPE_COUNT] = {
    [FLX_F64] = finish_f64, [FLX_F32] = finish_f32,   [FLX_F16] = finish_f16,    [FLX_BF16] = finish_bf16,
    [FLX_C64] = finish_c64, [FLX_C128] = finish_c128, [FLX_I64] = finish_64,     [FLX_U64] = finish_64,
    [FLX_I32] = finish_32,  [FLX_U32] = finish_32,    [FLX_I16] = finish_16,     [FLX_U16] = finish_16,
    [FLX_I8] = finish_8,    [FLX_U8] = finish_8,      [FLX_BOOL] = finish_truth,
};

/* Sums that only have to be turned, as those of a product whose sides changed places. */
static bool is_only_turned(const flxi_gemm *p, const flxi_gemm_block *b)
{
    return flxi_gemm_is_native(p->result) && p->c_row == 1 && b->rows >= 4 && p->alpha == 1 && !p->bias && !b->residual;
}

void flxi_gemm_finish(const flxi_gemm *p, const flxi_gemm_block *b)
{
    if (is_only_turned(p, b)) {
        char *c = (char *)b->c + (b->i + b->j * p->c_col) * (int64_t)flx_dtype_size(p->result);
        const flxi_gemm_view sums = {b->sums, b->rows, b->sums_row, b->cols, 1};
        flxi_gemm_pack_block(p->result, &sums, c, p->c_col);
    } else {
        finishers[p->result](p, b);
    }
}
