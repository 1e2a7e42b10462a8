/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h: hashing bytes (the same on every machine), and an index from hashes to numbers. */
#ifndef FLXI_HASH_H
#define FLXI_HASH_H

#include "base/memory.h"

#define FLXI_HASH_SEED UINT64_C(0xcbf29ce484222325)

/* FNV-1a over bytes, continuing from `h`; start with FLXI_HASH_SEED. A change of one byte always changes it. */
uint64_t flxi_hash_bytes(uint64_t h, const void *data, size_t n);
uint64_t flxi_hash_u64(uint64_t h, uint64_t v);     /* as its 8 little-endian bytes */
uint64_t flxi_hash_text(uint64_t h, const char *s); /* with its terminating 0 */

/* Open addressing from a hash to a number; several numbers may share a hash, and the caller compares what they denote.
   */
typedef struct {
    uint64_t *hashes;
    uint32_t *values; /* value + 1; 0 is an empty slot */
    size_t n, cap;    /* cap is 0 or a power of two */
} flxi_index;

typedef struct {
    size_t slot;
    uint64_t hash;
} flxi_probe;

bool flxi_index_add(const flxi_allocator *mem, flxi_index *x, uint64_t hash, uint32_t value);
/* Iterates over the numbers of a hash:  for (flxi_probe p = flxi_index_first(x, h); flxi_index_next(x, &p, &v);) */
flxi_probe flxi_index_first(const flxi_index *x, uint64_t hash);
bool flxi_index_next(const flxi_index *x, flxi_probe *p, uint32_t *value);
/* A number that is in the index under this hash becomes another one. */
void flxi_index_replace(flxi_index *x, uint64_t hash, uint32_t value, uint32_t by);
void flxi_index_free(const flxi_allocator *mem, flxi_index *x);

/* ---- Strings by number: each distinct text is kept once ---- */

typedef struct {
    flxi_arena *arena; /* owns the texts */
    flxi_index index;
    FLXI_VEC(const char *) texts;
} flxi_strings;

/* The number of the text in `texts`, to which it is added if it is new; SIZE_MAX when memory is exhausted. */
size_t flxi_intern_number(flxi_strings *s, const char *text, size_t n);
/* The stored copy of the text, the same pointer for the same text; NULL when memory is exhausted. */
const char *flxi_intern(flxi_strings *s, const char *text, size_t n);
bool flxi_is_interned(const flxi_strings *s, const char *text);
void flxi_strings_free(flxi_strings *s);

#endif
