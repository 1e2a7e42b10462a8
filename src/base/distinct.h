/* SPDX-License-Identifier: Apache-2.0 */
/* distinct.h: lists of names that a caller gives: a name that occurs twice is a mistake, since one of the two values
   would be left out in silence. */
#ifndef FLXI_DISTINCT_H
#define FLXI_DISTINCT_H

#include "base/memory.h"

/* DUP_NAME when two of `count` items have one name. An item takes `size` bytes and begins with a pointer to its name;
   NULL is left to the caller. The message is `twice` and the name: "two arrays have the key 'a'". */
flx_code flxi_check_distinct(const flxi_allocator *mem, const char *twice, const void *items, size_t count, size_t size,
                             flx_error *err);

#endif
