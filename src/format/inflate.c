/* SPDX-License-Identifier: Apache-2.0 */
/* inflate.c: see inflate.h. The format is RFC 1951; numbers such as 3.2.7 below are its sections.

   Bits are taken from the low end of a 64-bit reservoir, so that a length, a distance and their extra bits (48 bits at
   most) need one refill. A prefix code is decoded in two ways: codes of up to FAST_BITS bits by a table indexed by the
   next bits, longer ones, which are rare, by comparing with the first code of each length.

   Past the end of the input zeros are supplied and counted; taking one of them is the end-of-data error. So the inner
   loop checks once per symbol and never reads outside the input. */
#include "format/inflate.h"

#include "base/host/stop.h"
#include "format/endian.h"

#include <stdbool.h>
#include <string.h>

#define MAX_BITS 15 /* longest code */
#define FAST_BITS 10
#define MAX_LITERALS 286
#define MAX_DISTANCES 30
#define END_OF_BLOCK 256

typedef struct {
    const unsigned char *in, *in_end;
    unsigned char *out, *at, *out_end;
    uint64_t bits;      /* the next bit is the lowest */
    unsigned count;     /* bits in the reservoir, supplied zeros included */
    unsigned supplied;  /* of them, zeros from past the end */
    const char *broken; /* what is wrong, or NULL */
} stream;

typedef struct {
    uint16_t fast[1 << FAST_BITS]; /* symbol << 4 | length; 0: a longer code, or none */
    uint16_t counts[MAX_BITS + 1]; /* codes of each length */
    uint16_t symbols[MAX_LITERALS + 2];
} prefix_code;

/* ---- Bits ---- */

/* Bits above `count` may already be those of the next byte; or-ing that byte in again changes nothing. */
static void refill(stream *s)
{
    if (s->in_end - s->in >= 8 && s->count <= 56) {
        unsigned n = (64 - s->count) / 8;
        s->bits |= flxi_get64(s->in) << s->count;
        s->in += n;
        s->count += 8 * n;
    }
    while (s->count <= 56) {
        if (s->in < s->in_end)
            s->bits |= (uint64_t)*s->in++ << s->count;
        else
            s->supplied += 8;
        s->count += 8;
    }
}

static unsigned take(stream *s, unsigned n)
{
    unsigned v = (unsigned)(s->bits & ((UINT64_C(1) << n) - 1));
    s->bits >>= n;
    s->count -= n;
    return v;
}

static bool fail(stream *s, const char *what)
{
    if (!s->broken)
        s->broken = what;
    return false;
}

/* Whether everything taken so far was really there. */
static bool is_within_input(stream *s)
{
    return s->count >= s->supplied || fail(s, "it is truncated");
}

/* ---- Prefix codes, 3.2.2 ---- */

static unsigned reversed(unsigned code, unsigned length)
{
    unsigned r = 0;
    for (unsigned i = 0; i < length; i++)
        r |= (code >> i & 1) << (length - 1 - i);
    return r;
}

/* Builds the code in which symbol i has lengths[i] bits, 0 meaning that it does not occur. A code must use up all bit
   patterns, but one with a single symbol of one bit may leave the other pattern unused, and it may have no symbols. */
static bool build_code(prefix_code *c, const unsigned char *lengths, unsigned n)
{
    memset(c, 0, sizeof *c);
    for (unsigned i = 0; i < n; i++)
        c->counts[lengths[i]]++;
    c->counts[0] = 0;
    unsigned first[MAX_BITS + 2] = {0}; /* first code of each length */
    unsigned index[MAX_BITS + 2] = {0}; /* index of its first symbol */
    int unused = 1;                     /* unused patterns of the current length */
    unsigned used = 0;
    for (unsigned length = 1; length <= MAX_BITS; length++) {
        unused = 2 * unused - c->counts[length];
        if (unused < 0)
            return false;
        used += c->counts[length];
        first[length + 1] = (first[length] + c->counts[length]) << 1;
        index[length + 1] = index[length] + c->counts[length];
    }
    if (unused > 0 && used > 0 && !(used == 1 && c->counts[1] == 1))
        return false;
    for (unsigned i = 0; i < n; i++) {
        unsigned length = lengths[i];
        if (length == 0)
            continue;
        unsigned code = first[length]++;
        c->symbols[index[length]++] = (uint16_t)i;
        if (length > FAST_BITS)
            continue;
        for (unsigned k = reversed(code, length); k < 1 << FAST_BITS; k += 1u << length)
            c->fast[k] = (uint16_t)(i << 4 | length);
    }
    return true;
}

/* Takes the next symbol; the reservoir holds at least MAX_BITS bits. -1 for a pattern that is not a code. */
static int take_symbol(stream *s, const prefix_code *c)
{
    unsigned entry = c->fast[s->bits & ((1 << FAST_BITS) - 1)];
    if (entry) {
        take(s, entry & 15);
        return (int)(entry >> 4);
    }
    unsigned code = 0;  /* the bits so far, first one highest */
    unsigned first = 0; /* first code of the current length */
    unsigned index = 0; /* its index among the symbols */
    for (unsigned length = 1; length <= MAX_BITS; length++) {
        code |= (unsigned)(s->bits >> (length - 1) & 1);
        unsigned count = c->counts[length];
        if (code - first < count) {
            take(s, length);
            return c->symbols[index + (code - first)];
        }
        index += count;
        first = (first + count) << 1;
        code <<= 1;
    }
    fail(s, "it has a code that was not declared");
    return -1;
}

/* ---- Compressed blocks, 3.2.5 ---- */

typedef struct {
    uint16_t base;
    uint8_t extra; /* bits to add to it */
} range;

static const range match_lengths[] = {
    {3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1},  {13, 1},
    {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3},  {59, 3},
    {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0},
};

static const range match_distances[MAX_DISTANCES] = {
    {1, 0},     {2, 0},     {3, 0},     {4, 0},      {5, 1},      {7, 1},      {9, 2},     {13, 2},
    {17, 3},    {25, 3},    {33, 4},    {49, 4},     {65, 5},     {97, 5},     {129, 6},   {193, 6},
    {257, 7},   {385, 7},   {513, 8},   {769, 8},    {1025, 9},   {1537, 9},   {2049, 10}, {3073, 10},
    {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13},
};

/* Source and destination may overlap: a distance of 1 repeats one byte. */
static bool copy_match(stream *s, size_t length, size_t distance)
{
    if (distance > (size_t)(s->at - s->out))
        return fail(s, "it refers to data before its beginning");
    if (length > (size_t)(s->out_end - s->at))
        return fail(s, "it is longer than stated");
    const unsigned char *from = s->at - distance;
    if (distance >= length) {
        memcpy(s->at, from, length);
        s->at += length;
        return true;
    }
    while (length-- > 0)
        *s->at++ = *from++;
    return true;
}

static bool inflate_codes(stream *s, const prefix_code *literals, const prefix_code *distances)
{
    for (;;) {
        refill(s);
        if (flxi_stopped_by_now())
            return fail(s, "reading it was stopped");
        int symbol = take_symbol(s, literals);
        if (symbol < 0 || !is_within_input(s))
            return false;
        if (symbol < END_OF_BLOCK) {
            if (s->at == s->out_end)
                return fail(s, "it is longer than stated");
            *s->at++ = (unsigned char)symbol;
            continue;
        }
        if (symbol == END_OF_BLOCK)
            return true;
        if (symbol >= MAX_LITERALS)
            return fail(s, "it has a reserved length");
        size_t length = match_lengths[symbol - 257].base + take(s, match_lengths[symbol - 257].extra);
        symbol = take_symbol(s, distances);
        if (symbol < 0)
            return false;
        if (symbol >= MAX_DISTANCES)
            return fail(s, "it has a reserved distance");
        size_t distance = match_distances[symbol].base + take(s, match_distances[symbol].extra);
        if (!is_within_input(s) || !copy_match(s, length, distance))
            return false;
    }
}

static bool inflate_fixed(stream *s)
{
    unsigned char lengths[288];
    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    prefix_code literals, distances;
    build_code(&literals, lengths, 288);
    memset(lengths, 5, 32);
    build_code(&distances, lengths, 32);
    return inflate_codes(s, &literals, &distances);
}

/* The lengths of both codes, themselves coded, 3.2.7: 16 repeats the last length, 17 and 18 are runs of zero. */
static bool read_lengths(stream *s, const prefix_code *c, unsigned char *lengths, unsigned n)
{
    static const range runs[3] = {{3, 2}, {3, 3}, {11, 7}};
    for (unsigned i = 0; i < n;) {
        refill(s);
        int symbol = take_symbol(s, c);
        if (symbol < 0)
            return false;
        if (symbol < 16) {
            lengths[i++] = (unsigned char)symbol;
            continue;
        }
        unsigned count = runs[symbol - 16].base + take(s, runs[symbol - 16].extra);
        if ((symbol == 16 && i == 0) || count > n - i)
            return fail(s, "its code lengths are not valid");
        memset(lengths + i, symbol == 16 ? lengths[i - 1] : 0, count);
        i += count;
    }
    return is_within_input(s);
}

static bool inflate_dynamic(stream *s)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    refill(s);
    unsigned num_literals = take(s, 5) + 257;
    unsigned num_distances = take(s, 5) + 1;
    unsigned num_lengths = take(s, 4) + 4;
    if (num_literals > MAX_LITERALS || num_distances > MAX_DISTANCES)
        return fail(s, "it declares too many codes");
    unsigned char lengths[MAX_LITERALS + MAX_DISTANCES] = {0};
    for (unsigned i = 0; i < num_lengths; i++) {
        refill(s);
        lengths[order[i]] = (unsigned char)take(s, 3);
    }
    prefix_code literals, distances;
    if (!build_code(&literals, lengths, 19))
        return fail(s, "its code lengths are not valid");
    memset(lengths, 0, sizeof lengths);
    if (!read_lengths(s, &literals, lengths, num_literals + num_distances))
        return false;
    if (lengths[END_OF_BLOCK] == 0 || !build_code(&literals, lengths, num_literals) ||
        !build_code(&distances, lengths + num_literals, num_distances))
        return fail(s, "its code lengths are not valid");
    return inflate_codes(s, &literals, &distances);
}

/* ---- Stored blocks, 3.2.4 ---- */

/* Returns whole bytes to the input, so that they can be copied from there. */
static bool return_bytes(stream *s)
{
    take(s, s->count % 8);
    if (!is_within_input(s))
        return false;
    s->in -= (s->count - s->supplied) / 8;
    s->bits = 0;
    s->count = s->supplied = 0;
    return true;
}

static bool inflate_stored(stream *s)
{
    if (!return_bytes(s))
        return false;
    if (s->in_end - s->in < 4)
        return fail(s, "it is truncated");
    size_t n = (size_t)s->in[0] | (size_t)s->in[1] << 8;
    size_t check = (size_t)s->in[2] | (size_t)s->in[3] << 8;
    s->in += 4;
    if ((n ^ check) != 0xffff)
        return fail(s, "a stored block has a damaged length");
    if (n > (size_t)(s->in_end - s->in))
        return fail(s, "it is truncated");
    if (n > (size_t)(s->out_end - s->at))
        return fail(s, "it is longer than stated");
    if (n)
        memcpy(s->at, s->in, n);
    s->in += n;
    s->at += n;
    return true;
}

/* ---- The stream ---- */

static bool inflate_blocks(stream *s)
{
    bool is_last = false;
    while (!is_last) {
        refill(s);
        is_last = take(s, 1);
        unsigned kind = take(s, 2);
        bool ok = is_within_input(s) && (kind == 0   ? inflate_stored(s)
                                         : kind == 1 ? inflate_fixed(s)
                                         : kind == 2 ? inflate_dynamic(s)
                                                     : fail(s, "it has a block of unknown kind"));
        if (!ok)
            return false;
    }
    if (!return_bytes(s))
        return false;
    if (s->at != s->out_end)
        return fail(s, "it is shorter than stated");
    return s->in == s->in_end || fail(s, "bytes follow its end");
}

flx_code flxi_inflate(const void *in, size_t in_size, void *out, size_t out_size, flx_error *err)
{
    static unsigned char nowhere[1]; /* so that pointers are never NULL; never written, because it has no room */
    stream s = {
        .in = in_size ? in : nowhere,
        .out = out_size ? out : nowhere,
    };
    s.in_end = s.in + in_size;
    s.at = s.out;
    s.out_end = s.out + out_size;
    if (inflate_blocks(&s))
        return FLX_OK;
    return flxi_stop_or(flxi_fail(err, FLX_E_SYNTAX, "the compressed data is damaged: %s", s.broken), err);
}
