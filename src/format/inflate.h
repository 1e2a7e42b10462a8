/* SPDX-License-Identifier: Apache-2.0 */
/* inflate.h: decodes DEFLATE data (RFC 1951). */
#ifndef FLXI_INFLATE_H
#define FLXI_INFLATE_H

#include "base/error.h"

/* A match of 258 bytes takes at least two bits, so no input of n bytes inflates to more than this. For checking a
   stated size before allocating it. */
static inline uint64_t flxi_inflate_bound(uint64_t n)
{
    return n > UINT64_MAX / 1032 ? UINT64_MAX : n * 1032;
}

/* Decodes in[0..in_size), one complete DEFLATE stream, to exactly out_size bytes. Anything else is SYNTAX: damaged or
   truncated data, more or less output than stated, bytes after the end. Allocates nothing. */
flx_code flxi_inflate(const void *in, size_t in_size, void *out, size_t out_size, flx_error *err);

#endif
