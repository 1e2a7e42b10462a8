/* SPDX-License-Identifier: Apache-2.0 */
/* import_narrow.h: element types narrower than the dtype that carries them. */
#ifndef FLXI_STABLEHLO_IMPORT_NARROW_H
#define FLXI_STABLEHLO_IMPORT_NARROW_H

#include "stablehlo/import/import_site.h"

bool flxi_hlo_is_narrow_int(hlo_element e);   /* i2 i4 ui2 ui4 */
bool flxi_hlo_is_narrow_float(hlo_element e); /* f4 f6 f8 tf32 */

/* A value computed in the carrier (floats also in f64), wrapped or rounded to the element type; x itself where the
   carrier is the type. */
flx_val flxi_hlo_round(hlo_site *s, flx_val x, hlo_element e);

/* stablehlo.convert of a value of any type. */
flx_val flxi_hlo_convert(hlo_site *s, flx_val x, hlo_element to);

/* stablehlo.bitcast_convert. */
flx_val flxi_hlo_bitcast(hlo_site *s, flx_val x, hlo_element from, hlo_element to);

/* A value from and to the byte that holds one outside of a program: the low bits of an integer, which is i8 or u8 like
   its carrier, or the code of a float, which is u8. Bits above are ignored. */
flx_val flxi_hlo_of_byte(hlo_site *s, flx_val byte, hlo_element e);
flx_val flxi_hlo_to_byte(hlo_site *s, flx_val x, hlo_element e);

/* An integer without the copies of its sign that fill a wider carrier. */
flx_val flxi_hlo_bits_of_int(hlo_site *s, flx_val x, hlo_element e);

#endif
