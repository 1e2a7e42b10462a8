/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_checks.h: what the language demands of an operation, checked before its rule runs. Our own ops allow more: they
   broadcast operands, count negative axes from the end and fill in absent attributes; in StableHLO these are errors.
   Every check returns false with the error in s->g. */
#ifndef FLXI_STABLEHLO_CHECKS_H
#define FLXI_STABLEHLO_CHECKS_H

#include "stablehlo/operations.h"
#include "stablehlo/syntax/syntax.h"

enum { HLO_MANY = -1 }; /* any number of operands or regions */

/* ---- Strings of a row against an operation of the program ---- */

bool flxi_hlo_check_signature(hlo_site *s);  /* hlo_signatures.c */
bool flxi_hlo_check_attributes(hlo_site *s); /* hlo_constraints.c */
bool flxi_hlo_check_agreement(hlo_site *s);  /* hlo_agreement.c: .check, then .regions */

/* Number of operands or regions that a row says, or HLO_MANY. */
int flxi_hlo_signature_operands(const char *signature);
int flxi_hlo_region_count(const char *regions);

/* Whether the notation is correct, for the test of the rows. */
bool flxi_hlo_is_signature(const char *signature);
bool flxi_hlo_are_constraints(const char *attributes);
bool flxi_hlo_are_regions(const char *regions);

/* ---- Checks that rows name (hlo_agreement.c) ---- */

bool flxi_hlo_check_bitcast(hlo_site *s);
bool flxi_hlo_check_clamp(hlo_site *s);
bool flxi_hlo_check_compare(hlo_site *s);
bool flxi_hlo_check_constant(hlo_site *s);
bool flxi_hlo_check_fft(hlo_site *s);
bool flxi_hlo_check_get_tuple_element(hlo_site *s);
bool flxi_hlo_check_reduction(hlo_site *s);
bool flxi_hlo_check_same(hlo_site *s);
bool flxi_hlo_check_scatter(hlo_site *s);
bool flxi_hlo_check_select(hlo_site *s);
bool flxi_hlo_check_sort(hlo_site *s);
bool flxi_hlo_check_tuple(hlo_site *s);

/* ---- Meshes and shardings of the whole program (hlo_meshes.c) ---- */

flx_code flxi_hlo_check_meshes(const flxi_allocator *mem, const hlo_module *m, const char *file, flx_error *err);

/* ---- Types ---- */

/* Operands and results against what the function declares. */
bool flxi_hlo_check_call(hlo_site *s, const hlo_function *f);

char flxi_hlo_element_class(const hlo_type *t); /* b i u f c q x, as in signatures */
/* The same type, where `?` is any extent. */
bool flxi_hlo_compatible(const hlo_type *a, const hlo_type *b);
/* The same element type; for quantised ones the same stored and expressed types. */
bool flxi_hlo_same_element(const hlo_type *a, const hlo_type *b);

#endif
