/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: structs of options of any version. */
#include "base/options.h"

#include <string.h>

enum { SIZE_MAX_SANE = 4096 }; /* more is not a size but memory that was never written */

static flx_code fail_size(const char *name, uint32_t size, flx_error *err)
{
    return flxi_fail_hint(err, FLX_E_USAGE, "set struct_size to the sizeof of the struct, or to 0",
                          "%s: struct_size is %u, which is not the size of any version of this struct", name,
                          (unsigned)size);
}

static flx_code check_unknown(const unsigned char *given, size_t known, size_t size, const char *name, flx_error *err)
{
    for (size_t i = known; i < size; i++)
        if (given[i])
            return flxi_fail_hint(err, FLX_E_USAGE, "use a newer version of the library",
                                  "%s: a field at byte %zu is set, which this version of the library does not know",
                                  name, i);
    return FLX_OK;
}

flx_code flxi_options_read(void *dst, size_t size, size_t first, size_t alignment, const void *given, const char *name,
                           flx_error *err)
{
    uint32_t given_size = 0;
    const uint32_t own_size = (uint32_t)size;
    memset(dst, 0, size);
    if (given)
        memcpy(&given_size, given, sizeof given_size);
    /* Every layout is as large as its alignment demands, so a size that is not would cut a field in two. */
    if (given_size > SIZE_MAX_SANE || given_size % alignment != 0)
        return fail_size(name, given_size, err);
    size_t n = given_size ? given_size : first;
    if (given && n > size)
        FLXI_TRY(check_unknown(given, size, n, name, err));
    if (given)
        memcpy(dst, given, n < size ? n : size);
    memcpy(dst, &own_size, sizeof own_size);
    return FLX_OK;
}
