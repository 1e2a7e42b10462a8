/* SPDX-License-Identifier: Apache-2.0 */
/* jax_export.c: files written by the method serialize() of jax.export. They are FlatBuffers without an identifier; the
   program is one of the fields of the root table. A FlatBuffer begins with the offset of its root table; a table begins
   with the distance back to its list of fields, which holds the offset of each field within the table. */
#include "stablehlo/bytecode/bytecode.h"

enum { MODULE_FIELD = 13 };

static bool get(const unsigned char *s, size_t length, size_t at, size_t width, uint32_t *out)
{
    if (at > length || length - at < width)
        return false;
    *out = 0;
    for (size_t i = width; i-- > 0;)
        *out = *out << 8 | s[at + i];
    return true;
}

/* The position of a field of the root table; 0: none. */
static size_t find_field(const unsigned char *s, size_t length, uint32_t field)
{
    uint32_t table;
    uint32_t back;
    uint32_t size;
    uint32_t offset;
    if (!get(s, length, 0, 4, &table) || !get(s, length, table, 4, &back))
        return 0;
    int64_t fields = (int64_t)table - (int32_t)back;
    if (fields < 0 || !get(s, length, (size_t)fields, 2, &size) || size < 4 + 2 * (field + 1) ||
        !get(s, length, (size_t)fields + 4 + 2 * (size_t)field, 2, &offset) || offset == 0)
        return 0;
    return (size_t)table + offset;
}

flxi_hlo_artifact flxi_hlo_exported_by_jax(const char *bytes, size_t length)
{
    const flxi_hlo_artifact none = {NULL, 0};
    const unsigned char *s = (const unsigned char *)bytes;
    size_t field = find_field(s, length, MODULE_FIELD);
    uint32_t distance;
    uint32_t size;
    if (field == 0 || !get(s, length, field, 4, &distance))
        return none;
    size_t list = field + distance;
    if (!get(s, length, list, 4, &size) || size > length - list - 4)
        return none;
    flxi_hlo_artifact found = {bytes + list + 4, size};
    return flxi_hlo_is_bytecode(found.at, found.length) ? found : none;
}
