/* SPDX-License-Identifier: Apache-2.0 */
/* names.h: unique names. A name that is already in use gets the suffix _2, _3 … */
#ifndef FLXI_NAMES_H
#define FLXI_NAMES_H

#include "base/hash.h"

typedef struct {
    flxi_strings pool;       /* the names in use; texts live in pool.arena */
    FLXI_VEC(uint32_t) next; /* by number of a name: the suffix to try next when it is requested again */
} flxi_names;

void flxi_names_init(flxi_names *names, flxi_arena *arena);
void flxi_names_free(flxi_names *names);

/* The wanted name if it is free, otherwise the name with the first free suffix; it is in use from then on. NULL when
   memory is exhausted. Linear in the number of calls, however often one name is requested. */
const char *flxi_unique_name(flxi_names *names, const char *wanted);

#endif
