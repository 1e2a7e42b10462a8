/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_codes.c: see gguf_codes.h. */
#include "numeric/gguf_codes.h"

#include "base/half.h"
#include "numeric/gguf_bytes.h"

#include <string.h>

#define INLINE static inline
#define FN(name) name
#define LOOKUP(table, codes) flxi_look_up_bytes(table, codes)
#define STORE_PAIR(q, low, high) flxi_store_pair(q, low, high)
#include "numeric/gguf_codes.inc"

const flxi_gguf_grid flxi_gguf_grids[FLXI_GGUF_COUNT] = {
#define ROW(name, count, nbytes, sub, zero, d_at, least_at) \
    [FLXI_GGUF_##name] = {count, nbytes, sub, zero, d_at, least_at},
    FLXI_GGUF_CODED_MAP(ROW)
#undef ROW
};

typedef void (*unpack_fn)(const uint8_t *b, uint8_t bias, uint8_t *q, bytes16 *s, bytes16 *m);

static const unpack_fn unpackers[FLXI_GGUF_COUNT] = {
#define ROW(name, count, nbytes, sub, zero, d_at, least_at) [FLXI_GGUF_##name] = unpack_##name,
    FLXI_GGUF_CODED_MAP(ROW)
#undef ROW
};

static float half_at(const uint8_t *p)
{
    return (float)flxi_from_f16((uint16_t)(p[0] | p[1] << 8));
}

void flxi_gguf_unpack(flxi_gguf format, const uint8_t *block, flxi_gguf_codes *out)
{
    const flxi_gguf_grid *g = &flxi_gguf_grids[format];
    bytes16 scales;
    bytes16 minima;
    unpackers[format](block, 0, out->codes, &scales, &minima);
    memcpy(out->scales, &scales, sizeof out->scales);
    memcpy(out->minima, &minima, sizeof out->minima);
    out->d = half_at(block + g->d_at);
    out->least = g->least_at < 0 ? 0 : FLXI_GGUF_LEAST(g->count, half_at(block + g->least_at));
}
