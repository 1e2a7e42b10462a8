/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_types.c: see gguf_types.h. */
#include "gguf/gguf_types.h"

#include <string.h>

#define SIZE_OF(name, count, nbytes) COUNT_##name = (count), NBYTES_##name = (nbytes),
enum { FLXI_GGUF_MAP(SIZE_OF) };
#undef SIZE_OF

static const flxi_gguf_type types[] = {
#define PACKED(name, number, dtype) {#name, number, dtype, FLXI_GGUF_##name, COUNT_##name, NBYTES_##name},
    FLXI_GGUF_TYPE_MAP(PACKED)
#undef PACKED
#define PLAIN(name, number, dtype, nbytes) {#name, number, dtype, -1, 1, nbytes},
        FLXI_GGUF_PLAIN_MAP(PLAIN)
#undef PLAIN
};

enum { NUM_TYPES = sizeof types / sizeof *types };

const flxi_gguf_type *flxi_gguf_type_of(uint32_t number)
{
    for (size_t i = 0; i < NUM_TYPES; i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

const flxi_gguf_type *flxi_gguf_type_named(const char *name)
{
    for (size_t i = 0; i < NUM_TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const flxi_gguf_type *flxi_gguf_type_of_dtype(int32_t dtype)
{
    for (size_t i = 0; i < NUM_TYPES; i++)
        if (types[i].dtype == dtype && dtype != FLX_DTYPE_NONE)
            return &types[i];
    return NULL;
}
