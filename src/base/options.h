/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: reading the structs of options that callers hand over. They begin with their size, so that a program and a
   library of different versions understand each other. */
#ifndef FLXI_OPTIONS_H
#define FLXI_OPTIONS_H

#include "base/error.h"

#include <stddef.h>

/* Copies the caller's struct, which may be NULL, to `dst` of `size` bytes:
   - a shorter struct, of an older program, leaves the rest zero, which means the defaults
   - a longer struct, of a newer program, is accepted as long as the fields that are unknown here are zero
   - struct_size 0 means the layout of version 0.2, of `first` bytes
   USAGE for a size that no layout can have. dst->struct_size becomes `size`, so a copy can be handed on. */
flx_code flxi_options_read(void *dst, size_t size, size_t first, size_t alignment, const void *given, const char *name,
                           flx_error *err);

/* For a struct that has not grown since version 0.2. */
#define FLXI_READ_OPTIONS(type, dst, given, err) \
    flxi_options_read((dst), sizeof(type), sizeof(type), _Alignof(type), (given), #type, (err))
/* For one that has: `added` is the first field that version 0.2 did not have. */
#define FLXI_READ_GROWN_OPTIONS(type, added, dst, given, err) \
    flxi_options_read((dst), sizeof(type), offsetof(type, added), _Alignof(type), (given), #type, (err))

#endif
