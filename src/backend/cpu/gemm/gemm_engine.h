/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_engine.h: what the files of the matrix product share: kernels by kind and instruction set, packing, and
   finishing. */
#ifndef FLXI_GEMM_ENGINE_H
#define FLXI_GEMM_ENGINE_H

#include "backend/cpu/gemm/gemm.h"
#include "base/half.h"

/* In what products are computed. Pairs are two signed numbers of 16 bits in a word of 32, bytes are four of 8: one
   instruction multiplies them and adds the products, exactly. Bytes of one side are signed, those of the other are not:
   GEMM_BYTES has the signed ones in B, GEMM_UBYTES in A. */
typedef enum {
    GEMM_F32,
    GEMM_F64,
    GEMM_C64,
    GEMM_C128,
    GEMM_U32,
    GEMM_U64,
    GEMM_TRUTH,
    GEMM_PAIRS,
    GEMM_BYTES,
    GEMM_UBYTES,
    GEMM_KINDS
} flxi_gemm_kind;

/* One tile of C: `rows` rows of `cols` columns (a multiple of the kernels' lanes) from a packed or plain A and B.
   Complex numbers are split: imaginary parts are `a_part` after the real ones, and so on. */
typedef struct {
    int rows, cols;
    int64_t depth;
    const void *a;
    int64_t a_row, a_col, a_part;
    const void *b;
    int64_t b_step, b_part; /* from one k to the next */
    void *keep;             /* or NULL: where to put B as a packed panel; real tiles of the largest size only */
    void *c;
    int64_t c_row, c_part;
    bool add; /* to what c holds */
} flxi_tile;

/* A tile of real numbers whose rows may be anywhere: c[c_row[i] + j] = Σ over segments s and k < depth of
   a[a_row[i] + a_at[s] + k a_step] b[b_at[s] + k b_step + j], one chain in that order. Offsets in elements. */
typedef struct {
    int rows, cols;
    const void *a;
    int64_t a_row[6], a_step;
    const void *b;
    int64_t b_step;
    int64_t segments, depth;
    const int64_t *a_at, *b_at;
    void *c;
    int64_t c_row[6];
    bool add; /* to what c holds */
} flxi_scattered_tile;

typedef struct {
    size_t size;    /* bytes of one real part */
    int parts;      /* 2 for complex numbers */
    int rows, cols; /* the largest tile */
    int lanes;      /* tiles have a multiple of this many columns */
    int wide;       /* columns of a one-row tile that reads B in place; 0: not special */
    bool can_keep;  /* tiles heed `keep` */
    int group;      /* elements along the depth that are one packed word */
    /* Where it is not NULL, a panel of B begins with a row of sums that its tiles start from; this makes it, `factor`
       times the sum of each column of the `depth` rows that follow. */
    void (*head)(void *panel, int64_t width, int64_t depth, uint32_t factor);
    void (*tile)(const flxi_tile *t);
    void (*scattered)(const flxi_scattered_tile *t); /* NULL where there is none */
    /* The same with a[... + j] instead of a[...], so for columns apart; at most 2 * lanes of them. */
    void (*by_lane)(const flxi_scattered_tile *t);
    /* Σ a[k] b[k]; NULL where there is none. */
    void (*dot)(int64_t depth, const void *a, const void *b, void *sum);
} flxi_gemm_kernels;

/* The kernels of a kind; NULL when this machine lacks the instruction set. */
const flxi_gemm_kernels *flxi_gemm_kernels_of(flxi_gemm_kind kind, flxi_isa isa);
/* Those of integers, for an instruction set that the machine has. */
const flxi_gemm_kernels *flxi_gemm_integer_kernels(flxi_gemm_kind kind, flxi_isa isa);

flxi_gemm_kind flxi_gemm_kind_of(int32_t dtype);
/* Whether memory of this dtype can be read and written by its kind's kernels as it is. */
bool flxi_gemm_is_native(int32_t dtype);

/* Lines [line, line + lines) and depths [depth, depth + depths) of a matrix. */
typedef struct {
    int64_t line, lines, depth, depths;
} flxi_gemm_region;

/* Packs a panel: a region of the matrix at `base`; element (i, d) goes to[d * width + i], zeros fill lines up to
   `width`. Complex: width real, then width imaginary parts. */
void flxi_gemm_pack(const flxi_gemm_operand *x, int32_t dtype, const void *base, const flxi_gemm_region *r, void *to,
                    int64_t width);

/* Packs a panel of words of `group` elements each along the depth, which has `count` elements in all: word d of line i
   goes to[d * width + i]. Zeros fill lines up to `width` and the last word. The first element is in the low bits; bits
   of `flip` are inverted in each word of a line. Integers of 8 and 16 bits; a group of 4 has elements of 8 bits, and
   one of 2 has nothing to flip. */
typedef struct {
    const flxi_gemm_operand *x;
    int32_t dtype;
    int group;
    int64_t count;
    uint32_t flip;
} flxi_gemm_words;
void flxi_gemm_pack_words(const flxi_gemm_words *p, const void *base, uint32_t *to, int64_t width, int64_t line,
                          int64_t lines, int64_t word, int64_t words);

/* A block of elements with one step along lines and one along the depth, in elements. */
typedef struct {
    const void *at;
    int64_t lines, line_step, depths, depth_step;
} flxi_gemm_view;

/* The same as flxi_gemm_pack() for such a block: element (i, d) goes to[d * pitch + i]. Complex numbers excepted. */
void flxi_gemm_pack_block(int32_t dtype, const flxi_gemm_view *from, void *to, int64_t pitch);
size_t flxi_gemm_packed_size(int32_t dtype); /* bytes of one packed part */

/* A block of finished sums, and where it belongs. */
typedef struct {
    const void *sums;
    int64_t sums_row, sums_part;
    int64_t i, j, rows, cols;
    void *c;              /* of this matrix of the batch */
    const void *residual; /* likewise */
} flxi_gemm_block;
void flxi_gemm_finish(const flxi_gemm *p, const flxi_gemm_block *b);

/* The offset of an index; *run receives how many indices from it on lie one innermost step apart. */
int64_t flxi_walk_at(const flxi_walk *w, int64_t index, int64_t *run);
static inline int64_t flxi_walk_step(const flxi_walk *w)
{
    return w->rank ? w->steps[w->rank - 1] : 0;
}

/* ---- Half floats, exactly; base/half.h goes by way of double ---- */

static inline float flxi_widen_bf16(uint16_t h)
{
    return flxi_f32_of((uint32_t)h << 16);
}

static inline float flxi_widen_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t rest = h & 0x7fff;
    if (rest >= 0x7c00)
        return flxi_f32_of(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000 : 0));
    if (rest >= 0x400)
        return flxi_f32_of(sign | ((rest << 13) + 0x38000000));
    float subnormal = (float)rest * 0x1p-24f;
    return sign ? -subnormal : subnormal;
}

#endif
