/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c: see utf8.h. */
#include "base/text/utf8.h"

size_t flxi_utf8_length(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t length = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (length == 0 || length > n)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] >= 0x90))
        return 0;
    return length;
}

bool flxi_is_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = flxi_utf8_length(s + i, n - i);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}
