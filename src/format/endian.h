/* SPDX-License-Identifier: Apache-2.0 */
/* endian.h: integers in files, lowest byte first, from and to any address. */
#ifndef FLXI_ENDIAN_H
#define FLXI_ENDIAN_H

#include <stdint.h>

static inline uint32_t flxi_get16(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t flxi_get32(const unsigned char *p)
{
    return flxi_get16(p) | flxi_get16(p + 2) << 16;
}

static inline uint64_t flxi_get64(const unsigned char *p)
{
    return flxi_get32(p) | (uint64_t)flxi_get32(p + 4) << 32;
}

static inline void flxi_put16(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)(v & 255);
    p[1] = (unsigned char)(v >> 8 & 255);
}

static inline void flxi_put32(unsigned char *p, uint32_t v)
{
    flxi_put16(p, v & 0xffff);
    flxi_put16(p + 2, v >> 16);
}

static inline void flxi_put64(unsigned char *p, uint64_t v)
{
    flxi_put32(p, (uint32_t)(v & 0xffffffff));
    flxi_put32(p + 4, (uint32_t)(v >> 32));
}

#endif
