/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_pretty.h: what the forms of operations.def are made of, apart from operands, words and attributes. */
#ifndef FLXI_STABLEHLO_PRETTY_H
#define FLXI_STABLEHLO_PRETTY_H

#include "stablehlo/syntax/hlo_number.h"

typedef struct {
    const char *name;
    flx_code (*parse)(hlo_parser *p, hlo_draft *d);
} hlo_part;

/* Both end with a row without name. */
extern const hlo_part flxi_hlop_endings[]; /* hlo_endings.c: the types, named by a ':' in the form */
extern const hlo_part flxi_hlop_parts[];   /* hlo_parts.c: what only one operation has, named by a '&' in the form */

/* An attribute that must be of one kind. */
flx_code flxi_hlop_attr_of(hlo_parser *p, hlo_attr_kind kind, const char *what, const hlo_attr **out);

flx_code flxi_hlop_one_result(hlo_parser *p, hlo_draft *d, const hlo_type *type);
flx_code flxi_hlop_function_ending(hlo_parser *p, hlo_draft *d); /* : (types) -> types */
flx_code flxi_hlop_pairs_ending(hlo_parser *p, hlo_draft *d);    /* : types of operands and results alike */

#endif
