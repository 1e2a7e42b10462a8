/* SPDX-License-Identifier: Apache-2.0 */
/* card_keys.h: numbers of 64 bits in order, on the card: where a row goes in the upper half, its position in the lower
   one, so that no two are equal and ties keep their order. */
#ifndef FLXI_CARD_KEYS_H
#define FLXI_CARD_KEYS_H

#include "backend/card/card_way.h"

/* Text of sort_block(s), which sorts that many keys s in the memory of a workgroup of SORTERS threads. They
   meet before the first key is read and after the last is written. */
enum { FLXI_CARD_BLOCK_KEYS = 1024 };
extern const char flxi_card_block_sort[];
/* Merges the runs that blocks have sorted, in rows of `padded` keys, `all` keys together. They are in the first half of
   the scratch; the sorted ones are in one half or the other. */
flx_code flxi_card_merge_keys(const flxi_launcher *on, void *scratch, uint64_t all, uint64_t padded, void **sorted,
                              flx_error *err);

/* Text of first_of(keys, n, key): the first of n sorted keys that is not below that one, or n. */
extern const char flxi_card_key_search[];

/* Keys as they are sorted: a power of two. Those beyond the end, and those that go nowhere, are ~0. */
uint64_t flxi_card_padded_keys(uint64_t n);
size_t flxi_card_keys_bytes(uint64_t padded); /* of scratch, whose first half has the keys */
flx_code flxi_card_sort_keys(const flxi_launcher *on, void *scratch, uint64_t padded, void **sorted, flx_error *err);

/* Text that defines the type I of an index; the variants are the dtypes of indices. */
enum { FLXI_CARD_NUM_INDICES = 7 };
int32_t flxi_card_index_number(int32_t dtype); /* -1: none */
void flxi_card_add_index(int32_t number, flxi_strbuf *out);
/* Text of resolve(index, extent, oob, t, node), after it: where along an axis an index goes; -1: nowhere. */
extern const char flxi_card_resolve[];

#endif
