/* SPDX-License-Identifier: Apache-2.0 */
/* key_list.c: see key_list.h. Names are shown completely or not at all. */
#include "format/key_list.h"

#include "base/distinct.h"
#include "base/error.h"

#include <stdio.h>

void flxi_key_list_add(flxi_key_list *l, const char *name, size_t size)
{
    char shown[64];
    size_t room = sizeof l->text - l->n;
    if (l->left_out || size >= sizeof shown || size + 3 > room) {
        l->left_out++;
        return;
    }
    flxi_printable(shown, sizeof shown, name, size);
    l->n += (size_t)snprintf(l->text + l->n, room, "%s%s", l->n ? ", " : "", shown);
}

void flxi_key_list_hint(const flxi_key_list *l, flx_error *err)
{
    if (l->left_out && l->n)
        flxi_hint(err, "available: %s and %llu more", l->text, (unsigned long long)l->left_out);
    else if (l->left_out)
        flxi_hint(err, "it has %llu with long names", (unsigned long long)l->left_out);
    else if (l->n)
        flxi_hint(err, "available: %s", l->text);
    else
        flxi_hint(err, "it is empty");
}

flx_code flxi_keyed_check(const char *function, const char *path, const char *const *keys,
                          const flx_tensor *const *tensors, size_t count, flx_error *err)
{
    if (!path || (count && (!keys || !tensors)))
        return flxi_fail(err, FLX_E_USAGE, "%s: path, keys and tensors must not be NULL", function);
    for (size_t i = 0; i < count; i++)
        if (!keys[i] || !tensors[i])
            return flxi_fail(err, FLX_E_USAGE, "%s: key or tensor %zu is NULL", function, i);
    return FLX_OK;
}

flx_code flxi_keys_check(const flxi_allocator *mem, const char *const *keys, size_t count, flx_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i][0] == 0)
            return flxi_fail(err, FLX_E_NAME, "array %zu has an empty key", i);
    return flxi_check_distinct(mem, "two arrays have the key", keys, count, sizeof *keys, err);
}
