/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: structs of options of any version. */
#include "base/options.h"

#include <stdbool.h>
#include <string.h>

enum { SIZE_MAX_SANE = 4096 }; /* more is not a size but memory that was never written */

static flx_code fail_size(const char *name, uint32_t size, flx_error *err)
{
    return flxi_fail_hint(err, FLX_E_USAGE, "set struct_size to the sizeof of the struct, or to 0",
                          "%s: struct_size is %u, which is not the size of any version of this struct", name,
                          (unsigned)size);
}

static uint32_t size_of(const void *given)
{
    uint32_t size = 0;
    if (given)
        memcpy(&size, given, sizeof size);
    return size;
}

static flx_code check_size(uint32_t size, size_t alignment, const char *name, flx_error *err)
{
    bool is_layout = size == 0 || (size > sizeof size && size <= SIZE_MAX_SANE && size % alignment == 0);
    return is_layout ? FLX_OK : fail_size(name, size, err);
}

flx_code flxi_options_check(const void *given, size_t size, size_t alignment, const char *name, flx_error *err)
{
    uint32_t given_size = size_of(given);
    const unsigned char *bytes = given;
    FLXI_TRY(check_size(given_size, alignment, name, err));
    for (size_t i = size; i < given_size; i++)
        if (bytes[i])
            return flxi_fail_hint(err, FLX_E_USAGE, "use a newer version of the library",
                                  "%s: a field at byte %zu is set, which this version of the library does not know",
                                  name, i);
    return FLX_OK;
}

flx_code flxi_options_read(void *dst, size_t size, size_t first, size_t alignment, const void *given, const char *name,
                           flx_error *err)
{
    const uint32_t own_size = (uint32_t)size;
    memset(dst, 0, size);
    if (given) {
        FLXI_TRY(flxi_options_check(given, size, alignment, name, err));
        size_t n = size_of(given) ? size_of(given) : first;
        memcpy(dst, given, n < size ? n : size);
    }
    memcpy(dst, &own_size, sizeof own_size);
    return FLX_OK;
}

flx_code flxi_options_fill(void *given, const void *full, size_t size, size_t first, size_t alignment, const char *name,
                           flx_error *err)
{
    uint32_t given_size = size_of(given);
    FLXI_TRY(check_size(given_size, alignment, name, err));
    if (!given_size)
        given_size = (uint32_t)first;
    memcpy(given, full, given_size < size ? given_size : size);
    if (given_size > size)
        memset((unsigned char *)given + size, 0, given_size - size);
    memcpy(given, &given_size, sizeof given_size);
    return FLX_OK;
}
