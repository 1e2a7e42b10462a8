/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h: whether bytes are UTF-8. */
#ifndef FLXI_UTF8_H
#define FLXI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the sequence at s, 0 when it is not well-formed: truncated, overlong, a surrogate, or too large. n is not
   0. */
size_t flxi_utf8_length(const char *s, size_t n);

bool flxi_is_utf8(const char *s, size_t n);

#endif
