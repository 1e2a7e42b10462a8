/* SPDX-License-Identifier: Apache-2.0 */
/* crc32.c: see crc32.h. The checksum is linear over bits, so eight bytes are processed at once: the effect of each
   byte, including the bytes after it, comes from its own table. The tables are computed for each use (about a thousand
   steps, little compared with the data), so there is no shared state to initialise. */
#include "format/crc32.h"

#include "format/endian.h"

void flxi_crc32_begin(flxi_crc32 *c)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = b;
        for (int i = 0; i < 8; i++)
            r = r >> 1 ^ (r & 1 ? UINT32_C(0xedb88320) : 0);
        c->table[0][b] = r;
    }
    for (int k = 1; k < 8; k++) {
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t r = c->table[k - 1][b];
            c->table[k][b] = r >> 8 ^ c->table[0][r & 255];
        }
    }
    c->state = UINT32_MAX;
}

void flxi_crc32_add(flxi_crc32 *c, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint32_t r = c->state;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t low = flxi_get32(p) ^ r;
        uint32_t high = flxi_get32(p + 4);
        r = 0;
        for (int i = 0; i < 4; i++) {
            r ^= c->table[7 - i][low >> (8 * i) & 255];
            r ^= c->table[3 - i][high >> (8 * i) & 255];
        }
    }
    for (; n > 0; n--, p++)
        r = r >> 8 ^ c->table[0][(r ^ *p) & 255];
    c->state = r;
}

uint32_t flxi_crc32_end(const flxi_crc32 *c)
{
    return ~c->state;
}
