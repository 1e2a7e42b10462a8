/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_lex.h: tokens of kernel text, and its literals, names and strings: everything on which reader and printer must
   agree. */
#ifndef FLXI_KERNEL_LEX_H
#define FLXI_KERNEL_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    KT_END,
    KT_NAME,   /* [A-Za-z_][A-Za-z0-9_]* */
    KT_NUMBER, /* digits with point, exponent and suffix; whether it is well-formed is for flxi_knumber_read */
    KT_STRING, /* "…" with its quotes, on one line */
    KT_MARK,   /* punctuation: one or two characters */
    KT_BAD     /* anything else, or an unterminated string or comment */
} flxi_ktoken_kind;

typedef struct {
    flxi_ktoken_kind kind;
    uint32_t mark; /* FLXI_MARK(…) of a KT_MARK, else 0 */
    const char *s;
    size_t n;
} flxi_ktoken;

/* A mark as a number: FLXI_MARK('(', 0), FLXI_MARK('<', '<'). */
#define FLXI_MARK(a, b) ((uint32_t)(unsigned char)(a) | (uint32_t)(unsigned char)(b) << 8)

typedef struct {
    const char *text;
    const char *end;
    const char *at;    /* after `ahead` */
    flxi_ktoken token; /* the current one */
    flxi_ktoken ahead; /* the one after it */
} flxi_klexer;

void flxi_klex_start(flxi_klexer *x, const char *text, const char *end, const char *at);
void flxi_klex_next(flxi_klexer *x);
bool flxi_ktoken_is(const flxi_ktoken *t, const char *word); /* a name, not quoted */

/* Line and column (in bytes) of a position in the text, counted from 1. Linear in the text: for errors only. */
void flxi_klex_position(const char *text, const char *at, size_t *line, size_t *column);

/* ---- Names ---- */

/* Whether the name can appear in text unquoted; otherwise it is written as a string. */
bool flxi_kname_is_plain(const char *s, size_t n);
/* Words that are never names unless quoted. */
bool flxi_kname_is_reserved(const char *s, size_t n);
/* The bytes of a string token, without quotes and escapes, in `out` (room for t->n bytes). SIZE_MAX: a bad escape, at
   *bad. Escapes: \" \\ \n \t \r \xHH; never a 0 byte. */
size_t flxi_kstring_read(const flxi_ktoken *t, char *out, const char **bad);

/* Words for flags, bit by bit: of a kernel (FLX_KERNEL_FLUSH …), a buffer (FLX_KERNEL_OUTPUT …) and a region
   (FLX_KERNEL_REGION_ONCE …); and those of flx_kernel_usage, by number. */
enum { FLXI_KERNEL_FLAG_WORDS = 4, FLXI_KBUFFER_FLAG_WORDS = 5, FLXI_KREGION_FLAG_WORDS = 4, FLXI_KUSAGE_WORDS = 4 };
extern const char *const flxi_kernel_flag_words[FLXI_KERNEL_FLAG_WORDS];
extern const char *const flxi_kbuffer_flag_words[FLXI_KBUFFER_FLAG_WORDS];
extern const char *const flxi_kregion_flag_words[FLXI_KREGION_FLAG_WORDS];
extern const char *const flxi_kusage_words[FLXI_KUSAGE_WORDS];

/* ---- Literals ---- */

typedef struct {
    const char *s; /* without sign and suffix */
    size_t n;
    uint8_t type; /* of the suffix, or 0 */
    bool real;    /* has a point or an exponent, or is inf or nan */
    bool hex;
    bool negative;
    bool exact; /* nan(0x…): the integer is the bit pattern */
} flxi_knumber;

/* Parses a number or one of the words inf and nan (with suffix: inff64). Returns NULL, or what is wrong. */
const char *flxi_knumber_read(const flxi_ktoken *t, flxi_knumber *out);
bool flxi_knumber_is_word(const flxi_ktoken *t); /* inf nan inff64 … */
/* Its magnitude as an integer; false when it is real or too large. */
bool flxi_knumber_u64(const flxi_knumber *number, uint64_t *out);
/* The bits of the number as a value of the type; false when it does not fit. Reals are rounded. */
bool flxi_knumber_bits(const flxi_knumber *number, uint32_t type, uint64_t *bits);

/* The bits of the type's default NaN, which is written `nan`; every other NaN is written by its bits. */
uint64_t flxi_kfloat_nan(uint32_t type);

#endif
