/* SPDX-License-Identifier: Apache-2.0 */
/* key_list.h: the names of the tensors in one file: the first few that it has, for the hint of "no such key", and what
   is demanded of those that a new one gets. */
#ifndef FLXI_KEY_LIST_H
#define FLXI_KEY_LIST_H

#include "base/memory.h"

#include <fluxion/tensor.h>

typedef struct {
    char text[90]; /* room for the hint's other words */
    size_t n;      /* bytes of text */
    uint64_t left_out;
} flxi_key_list;

void flxi_key_list_add(flxi_key_list *l, const char *name, size_t size);

/* Sets the hint: "it has: a, b, c and 12 more". */
void flxi_key_list_hint(const flxi_key_list *l, flx_error *err);

/* What a writer of several tensors, `function`, was called with: nothing is NULL. */
flx_code flxi_keyed_check(const char *function, const char *path, const char *const *keys,
                          const flx_tensor *const *tensors, size_t count, flx_error *err);

/* No key is empty, no two are equal. */
flx_code flxi_keys_check(const flxi_allocator *mem, const char *const *keys, size_t count, flx_error *err);

#endif
