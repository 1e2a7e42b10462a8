/* SPDX-License-Identifier: Apache-2.0 */
/* key_list.h: the names of the tensors in one file: the first few, for the hint of "no such key", and checks of the
   names for a new file. */
#ifndef FLXI_KEY_LIST_H
#define FLXI_KEY_LIST_H

#include "base/memory.h"

#include <fluxion/tensor.h>

typedef struct {
    char text[90]; /* leaves room for the hint's other words */
    size_t n;      /* bytes of text */
    uint64_t left_out;
} flxi_key_list;

void flxi_key_list_add(flxi_key_list *l, const char *name, size_t size);

/* Sets the hint: "available: a, b, c and 12 more". */
void flxi_key_list_hint(const flxi_key_list *l, flx_error *err);

/* Checks the arguments of `function`, which writes several tensors: nothing is NULL. */
flx_code flxi_keyed_check(const char *function, const char *path, const char *const *keys,
                          const flx_tensor *const *tensors, size_t count, flx_error *err);

/* Checks that no key is empty and no two are equal. */
flx_code flxi_keys_check(const flxi_allocator *mem, const char *const *keys, size_t count, flx_error *err);

#endif
