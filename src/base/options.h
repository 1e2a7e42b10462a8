/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: reading and filling the structs that callers hand over. They begin with their size, so that a program and
   a library of different versions understand each other. */
#ifndef FLXI_OPTIONS_H
#define FLXI_OPTIONS_H

#include "base/error.h"

#include <stddef.h>

/* The one rule for all structs that begin with struct_size, whether options, attributes or results. `size` and
   `alignment` are the struct's here:
   - a shorter struct, of an older program, lacks the fields at the end, which then have their defaults
   - a longer struct, of a newer program, is accepted as long as the fields that are unknown here are zero
   - struct_size 0 means the layout of version 0.2, of `first` bytes
   USAGE for a size that no layout can have: one of struct_size alone (4) or less, one that is not a multiple of the
   alignment, so that it would cut a field in two, and more than 4096. `given` must not be NULL. */
flx_code flxi_options_check(const void *given, size_t size, size_t alignment, const char *name, flx_error *err);

/* Copies the caller's struct, which may be NULL, to `dst` of `size` bytes by this rule; fields that it lacks become
   zero. dst->struct_size becomes `size`, so a copy can be handed on. */
flx_code flxi_options_read(void *dst, size_t size, size_t first, size_t alignment, const void *given, const char *name,
                           flx_error *err);

/* For a struct that has not grown since version 0.2. */
#define FLXI_READ_OPTIONS(type, dst, given, err) \
    flxi_options_read((dst), sizeof(type), sizeof(type), _Alignof(type), (given), #type, (err))
/* For one that has: `added` is the first field that version 0.2 did not have. */
#define FLXI_READ_GROWN_OPTIONS(type, added, dst, given, err) \
    flxi_options_read((dst), sizeof(type), offsetof(type, added), _Alignof(type), (given), #type, (err))

/* Fills the caller's struct from `full` of `size` bytes by the same rule, as far as it reaches. What a longer struct
   has in addition is written, not read: it becomes zero. */
flx_code flxi_options_fill(void *given, const void *full, size_t size, size_t first, size_t alignment, const char *name,
                           flx_error *err);

#define FLXI_FILL_OPTIONS(type, given, full, err) \
    flxi_options_fill((given), (full), sizeof(type), sizeof(type), _Alignof(type), #type, (err))

#endif
