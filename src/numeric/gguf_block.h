/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_block.h: the packed blocks of GGUF files. A block holds 32 or 256 numbers as small integers with one or more
   scales, or as positions in a table of vectors (iq1 to iq3); a row of a matrix is a whole number of blocks. Floats
   that are not packed are blocks of one number. */
#ifndef FLXI_GGUF_BLOCK_H
#define FLXI_GGUF_BLOCK_H

#include <stdint.h>

/* X(name, numbers in a block, bytes of a block) */
#define FLXI_GGUF_MAP(X) \
    X(q4_0, 32, 18)      \
    X(q4_1, 32, 20)      \
    X(q5_0, 32, 22)      \
    X(q5_1, 32, 24)      \
    X(q8_0, 32, 34)      \
    X(q2_k, 256, 84)     \
    X(q3_k, 256, 110)    \
    X(q4_k, 256, 144)    \
    X(q5_k, 256, 176)    \
    X(q6_k, 256, 210)    \
    X(q8_k, 256, 292)    \
    X(iq4_nl, 32, 18)    \
    X(iq4_xs, 256, 136)  \
    X(iq3_xxs, 256, 98)  \
    X(iq3_s, 256, 110)   \
    X(iq2_xxs, 256, 66)  \
    X(iq2_xs, 256, 74)   \
    X(iq2_s, 256, 82)    \
    X(iq1_s, 256, 50)    \
    X(iq1_m, 256, 56)    \
    X(tq1_0, 256, 54)    \
    X(tq2_0, 256, 66)    \
    X(mxfp4, 32, 17)     \
    X(f32, 1, 4)         \
    X(f16, 1, 2)         \
    X(bf16, 1, 2)

enum { FLXI_GGUF_MOST = 256 }; /* numbers in a block */

typedef enum {
#define FLXI_GGUF_ENUM(name, count, nbytes) FLXI_GGUF_##name,
    FLXI_GGUF_MAP(FLXI_GGUF_ENUM)
#undef FLXI_GGUF_ENUM
        FLXI_GGUF_COUNT
} flxi_gguf;

typedef struct {
    int count, nbytes;
    /* All numbers of a block in order, each computed in double, where products of scales and codes are exact. */
    void (*decode)(const uint8_t *block, double *y);
} flxi_gguf_format;

extern const flxi_gguf_format flxi_gguf_formats[FLXI_GGUF_COUNT];

/* The blocks of gguf_codebook.c. */
void flxi_decode_iq4_nl(const uint8_t *b, double *y);
void flxi_decode_iq4_xs(const uint8_t *b, double *y);
void flxi_decode_iq3_xxs(const uint8_t *b, double *y);
void flxi_decode_iq3_s(const uint8_t *b, double *y);
void flxi_decode_iq2_xxs(const uint8_t *b, double *y);
void flxi_decode_iq2_xs(const uint8_t *b, double *y);
void flxi_decode_iq2_s(const uint8_t *b, double *y);
void flxi_decode_iq1_s(const uint8_t *b, double *y);
void flxi_decode_iq1_m(const uint8_t *b, double *y);
void flxi_decode_mxfp4(const uint8_t *b, double *y);

/* The words of an attribute `scheme`, separated by spaces. */
#define FLXI_GGUF_WORD(name, count, nbytes) " gguf_" #name
#define FLXI_GGUF_WORDS FLXI_GGUF_MAP(FLXI_GGUF_WORD)

#endif
