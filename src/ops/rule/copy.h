/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h: elements that move as bytes, so that the payload of a NaN and the sign of a zero survive. */
#ifndef FLXI_COPY_H
#define FLXI_COPY_H

#include "base/host/stop.h"

#include <stdint.h>
#include <string.h>

/* Element i of `to` becomes element j of `from`; both have elements of `size` bytes. */
static inline void flxi_copy_element(void *to, int64_t i, const void *from, int64_t j, size_t size)
{
    memcpy((char *)to + (size_t)i * size, (const char *)from + (size_t)j * size, size);
}

/* n elements of `to` become the one at `from`. */
static inline void flxi_fill_elements(void *to, int64_t n, const void *from, size_t size)
{
    for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i++)
        flxi_copy_element(to, i, from, 0, size);
}

#endif
