/* SPDX-License-Identifier: Apache-2.0 */
/* crc32.h: the checksum of ZIP archives (polynomial 0x04c11db7, reflected). */
#ifndef FLXI_CRC32_H
#define FLXI_CRC32_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t table[8][256]; /* table[k][b]: the effect of byte b followed by k zero bytes */
    uint32_t state;
} flxi_crc32;

void flxi_crc32_begin(flxi_crc32 *c);
void flxi_crc32_add(flxi_crc32 *c, const void *data, size_t n);
uint32_t flxi_crc32_end(const flxi_crc32 *c);

#endif
