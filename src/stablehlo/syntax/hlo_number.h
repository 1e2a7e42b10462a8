/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_number.h: numbers of StableHLO text as elements: integers checked against their width, decimals rounded once and
   directly to the element type, bit patterns decoded. */
#ifndef FLXI_STABLEHLO_NUMBER_H
#define FLXI_STABLEHLO_NUMBER_H

#include "stablehlo/syntax/hlo_parser.h"

/* A number as written: -12, 0x7F, 1.5e-3. */
typedef struct {
    hlo_location at;
    const char *digits; /* without sign and 0x */
    size_t length;
    bool is_negative, is_hex, is_real;
} hlo_numeral;

bool flxi_hlop_at_number(hlo_parser *p);
flx_code flxi_hlop_numeral(hlo_parser *p, hlo_numeral *out);

bool flxi_hlop_is_float(hlo_element e); /* real ones */
bool flxi_hlop_is_complex(hlo_element e);
/* f32 of complex<f32>, otherwise e. */
hlo_element flxi_hlop_part(hlo_element e);
int64_t flxi_hlop_least(hlo_element e); /* of an integer type */
int64_t flxi_hlop_greatest(hlo_element e);

/* The value as an element of integer type; wraps as the width does, so that 255 : i8 is −1. */
flx_code flxi_hlop_to_int(hlo_parser *p, const hlo_numeral *n, hlo_element e, int64_t *out);
/* The value rounded to a floating type. Hexadecimal digits are its bits. */
flx_code flxi_hlop_to_real(hlo_parser *p, const hlo_numeral *n, hlo_element e, double *out);

/* The value of the bits of a floating type; exact except for signalling NaNs. */
double flxi_hlop_decode(hlo_element e, uint64_t bits);

/* Stores a value as an element of the carrier. */
void flxi_hlop_store_int(hlo_element e, void *at, int64_t v);
void flxi_hlop_store_real(hlo_element e, void *at, double v);

#endif
