/* SPDX-License-Identifier: Apache-2.0 */
/* curve_bits.h: losses that a class of machines is known to compute bit for bit. */
#ifndef FLX_CURVE_BITS_H
#define FLX_CURVE_BITS_H

#include <stddef.h>

/* The losses of compiled steps have the bits that curve_bits.txt has for machines of this class; nothing is checked on
   machines of a class that is not there. With the amount `report` the line of the file is printed instead. */
void curve_bits_check(const char *key, const double *losses, size_t n);

#endif
