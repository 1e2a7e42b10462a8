/* SPDX-License-Identifier: Apache-2.0 */
/* distinct.c: see distinct.h. Takes time in proportion to the length of the list. */
#include "base/distinct.h"

#include "base/error.h"
#include "base/hash.h"

static const char *name_at(const void *items, size_t i, size_t size)
{
    const char *name;
    memcpy(&name, (const char *)items + i * size, sizeof name);
    return name;
}

flx_code flxi_check_distinct(const flxi_allocator *mem, const char *twice, const void *items, size_t count, size_t size,
                             flx_error *err)
{
    flxi_index index = {0};
    flx_code code = count < UINT32_MAX ? FLX_OK : flxi_fail(err, FLX_E_SIZE, "a list has too many names");
    for (size_t i = 0; code == FLX_OK && i < count; i++) {
        const char *name = name_at(items, i, size);
        uint64_t h = name ? flxi_hash_text(FLXI_HASH_SEED, name) : 0;
        uint32_t other;
        char shown[104];
        if (!name)
            continue;
        for (flxi_probe p = flxi_index_first(&index, h); flxi_index_next(&index, &p, &other);)
            if (strcmp(name_at(items, other, size), name) == 0)
                code = flxi_fail(err, FLX_E_DUP_NAME, "%s '%s'", twice,
                                 flxi_printable(shown, sizeof shown, name, strlen(name)));
        if (code == FLX_OK && !flxi_index_add(mem, &index, h, (uint32_t)i))
            code = flxi_oom(err, "a list of names");
    }
    flxi_index_free(mem, &index);
    return code;
}
